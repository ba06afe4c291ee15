//! Namespaces of a session's own, as far as the system gives them to a user without rights.
//!
//! * *User*: a process may look into another only if both have one user namespace, or the other's
//!   is within its own. So a session cannot look into its node, nor into another session, though
//!   all have one user.
//! * *Network*: no interface, and no socket without a file that anybody else has. Connections that
//!   are handed to the session belong to their own network.
//! * *IPC*: no shared memory, semaphores or queues of the user's other programs.
//!
//! Outside of its namespace the session has the user and groups that it had, so it opens the same
//! files and devices. There is no namespace of processes: in one, the numbers of threads would not
//! be those of `/proc`, by which the C library names threads.

use std::io::{self, Read, Write};

/// A user namespace gives the right to have the others.
const OWN: libc::c_int = libc::CLONE_NEWUSER | libc::CLONE_NEWNET | libc::CLONE_NEWIPC;

/// Enters new namespaces. Only for a process that has one thread.
///
/// # Errors
/// If the system does not give them. Then the process has those that it had, or it has new ones in
/// which its user has no number.
pub(super) fn enter() -> io::Result<()> {
    // SAFETY: they take nothing.
    let (user, group) = unsafe { (libc::geteuid(), libc::getegid()) };
    // SAFETY: it takes numbers.
    if unsafe { libc::unshare(OWN) } != 0 {
        return Err(io::Error::last_os_error());
    }
    // The system lets nobody map a group who could still leave groups: some files are closed to a
    // group.
    std::fs::write("/proc/self/setgroups", "deny")?;
    std::fs::write("/proc/self/uid_map", format!("{user} {user} 1"))?;
    std::fs::write("/proc/self/gid_map", format!("{group} {group} 1"))
}

/// True if the system gives such namespaces to a child of this process.
pub(super) fn are_given() -> bool {
    // Statuses of children may go to another part of the program, so the child says it.
    let Ok((mut said, mut says)) = io::pipe() else {
        return false;
    };
    // SAFETY: the child makes three calls, and takes no lock.
    let child = unsafe { libc::fork() };
    if child == 0 {
        // SAFETY: it takes numbers.
        if unsafe { libc::unshare(OWN) } == 0 {
            let _ = says.write_all(&[1]);
        }
        // SAFETY: it returns to nobody.
        unsafe { libc::_exit(0) };
    }
    drop(says);
    let mut given = [0];
    let is_given = said.read_exact(&mut given).is_ok();
    // SAFETY: a null pointer asks for no status.
    unsafe { libc::waitpid(child, std::ptr::null_mut(), 0) };
    is_given
}
