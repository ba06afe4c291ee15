//! Namespaces of a session's own, as far as the system gives them to a user without rights.
//!
//! * *User*: a process may look into another only if both have one user namespace, or the other's
//!   is within its own. So a session cannot look into its node, nor into another session, though
//!   all have one user.
//! * *Network*: no interface, and no socket without a file that anybody else has. Connections that
//!   are handed to the session belong to their own network.
//! * *IPC*: no shared memory, semaphores or queues of the user's other programs.
//! * *Mount*: an empty folder in place of that of the node's key, which nobody in the session can
//!   take away: it has no rights, nor has it in a namespace of its own the right to what is mounted
//!   here.
//!
//! Outside of its namespace the session has the user and groups that it had, so it opens the same
//! files and devices. There is no namespace of processes: in one, the numbers of threads would not
//! be those of `/proc`, by which the C library names threads.

use std::ffi::CString;
use std::io::{self, Read, Write};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// A user namespace gives the right to have the others.
const OWN: libc::c_int =
    libc::CLONE_NEWUSER | libc::CLONE_NEWNET | libc::CLONE_NEWIPC | libc::CLONE_NEWNS;

/// Enters new namespaces, in which this folder is empty. Only for a process that has one thread.
///
/// # Errors
/// If the system does not give them. Then the process has those that it had, or it has new ones in
/// which its user has no number, or finds in the folder what is there.
pub(super) fn enter(hidden: Option<&Path>) -> io::Result<()> {
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
    std::fs::write("/proc/self/gid_map", format!("{group} {group} 1"))?;
    hidden.map_or(Ok(()), hide)
}

/// Has this process find nothing in a folder, in its own mount namespace.
fn hide(folder: &Path) -> io::Result<()> {
    let folder = CString::new(folder.as_os_str().as_bytes())?;
    let flags = libc::MS_RDONLY | libc::MS_NOSUID | libc::MS_NODEV | libc::MS_NOEXEC;
    let (kind, options) = (c"tmpfs", c"size=4k,mode=700");
    // SAFETY: texts that are there until the call returns.
    let mounted = unsafe {
        let options = options.as_ptr().cast();
        libc::mount(
            kind.as_ptr(),
            folder.as_ptr(),
            kind.as_ptr(),
            flags,
            options,
        )
    };
    match mounted {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// True if the system gives such namespaces to a child of this process, and lets it hide a folder
/// there.
pub(super) fn are_given() -> bool {
    // Statuses of children may go to another part of the program, so the child says it.
    let Ok((mut said, mut says)) = io::pipe() else {
        return false;
    };
    // SAFETY: the child has the allocator, which the system's library hands it unlocked, makes some
    // calls, and takes no other lock.
    let child = unsafe { libc::fork() };
    if child == 0 {
        // Without numbers for its user: the system lets the node's process, into which nobody may
        // look, give itself none.
        // SAFETY: it takes numbers.
        if unsafe { libc::unshare(OWN) } == 0 && hide(Path::new("/")).is_ok() {
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
