//! The keeper: the first process of a session, outside of its sandbox. It starts the process that
//! serves, and ends all processes that come from that one.
//!
//! 1. The keeper is what the node has started. It holds one end of a pipe, of which the node has
//!    the other: that is closed when the node wants the session to end, and when the node is gone,
//!    however that ended.
//! 2. Its child is the session, in a group of processes of its own, which nobody in it can leave
//!    (`sandbox`). It dies with the keeper, should anybody end that.
//! 3. When the session or the pipe ends, the keeper ends the group, waits until nothing of it is
//!    left, and ends as the session did. A process of the group that loses its parent becomes a
//!    child of the keeper. So no process escapes the keeper.
//!
//! It does nothing else, and has nothing open that the session has.

use super::channel::Channel;
use quipu_system_calls::{Filters, Role};
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};

/// Between two looks at whether the session has ended, where the system does not tell (Linux before
/// 5.3), in milliseconds.
const LOOKING: libc::c_int = 50;
/// Between two looks at whether others have that were left to this, of whom it does not tell: as
/// long as nobody has waited for them, they count as processes of the session.
const REAPING: libc::c_int = 500;

fn checked(result: libc::c_int) -> io::Result<libc::c_int> {
    if result < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(result)
}

/// Has this process keep another, which is as this one and in which this returns, for as long as
/// `node` is not closed. The channel is for that one. To be called before a thread is started.
///
/// # Errors
/// If the system gives no process.
pub(super) fn keep(node: OwnedFd, channel: &Channel) -> io::Result<()> {
    let keeper = std::process::id();
    // SAFETY: they take numbers. This process has one thread, so the child finds nothing half done.
    let child = unsafe {
        checked(libc::prctl(libc::PR_SET_CHILD_SUBREAPER, 1))?;
        // Whoever started the node may have had it ignored: then nobody could be waited for.
        libc::signal(libc::SIGCHLD, libc::SIG_DFL);
        checked(libc::fork())?
    };
    if child > 0 {
        end_with(child, &node, channel);
    }
    // SAFETY: they take numbers.
    unsafe {
        checked(libc::setpgid(0, 0))?;
        checked(libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL))?;
    }
    // It may have gone before.
    if std::os::unix::process::parent_id() != keeper {
        return Err(io::Error::other("its keeper is gone"));
    }
    Ok(())
}

/// The keeper, from here on.
fn end_with(child: libc::pid_t, node: &OwnedFd, channel: &Channel) -> ! {
    // SAFETY: numbers, and places that are there until each call returns. The channel is this
    // process's own, which nobody uses any more: the node is to find that it ends with the session.
    unsafe {
        libc::close(channel.as_raw_fd());
        libc::prctl(libc::PR_SET_NAME, c"quipu-keeper".as_ptr());
        // As the child does: one of them is first.
        libc::setpgid(child, child);
        let told = libc::syscall(libc::SYS_pidfd_open, child, 0);
        let event = |fd| libc::pollfd {
            fd,
            events: libc::POLLIN,
            revents: 0,
        };
        let mut events = [
            event(node.as_raw_fd()),
            event(libc::c_int::try_from(told).unwrap_or(-1)),
        ];
        // It has read nothing of a client's: a kernel without seccomp takes nothing from the
        // promises.
        let role = Role::Keeper {
            session: child.unsigned_abs(),
        };
        let _ = Filters::of(role).and_then(|filters| filters.enter());
        let wait = if told < 0 { LOOKING } else { REAPING };
        let mut status = 0;
        let mut has_ended = false;
        while !has_ended && events[0].revents == 0 {
            libc::poll(events.as_mut_ptr(), 2, wait);
            // And others that were left to this.
            loop {
                match libc::waitpid(-1, &raw mut status, libc::WNOHANG) {
                    one if one == child => {
                        has_ended = true;
                        break;
                    }
                    1.. => {}
                    _ => break,
                }
            }
        }
        // Also if it has ended: its number is the group's as long as anybody is in it.
        libc::kill(-child, libc::SIGKILL);
        let mut other = 0;
        loop {
            match libc::waitpid(-child, &raw mut other, 0) {
                one if one == child => status = other,
                1.. => {}
                _ if io::Error::last_os_error().kind() == io::ErrorKind::Interrupted => {}
                _ => break,
            }
        }
        libc::_exit(if libc::WIFEXITED(status) {
            libc::WEXITSTATUS(status)
        } else {
            // As shells say it.
            128 + libc::WTERMSIG(status)
        })
    }
}
