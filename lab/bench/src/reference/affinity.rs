//! The cores that a thread runs on: where the system chooses, it sometimes puts two threads that
//! wait for each other on one core, where neither is ever woken from sleep, and sometimes on two,
//! which takes several times as long. So measurements of such say which.

use std::io;

/// The cores that this thread may run on.
#[cfg(target_os = "linux")]
pub fn cores() -> Vec<usize> {
    let set = own();
    // SAFETY: `set` is initialised, and `core` is less than `CPU_SETSIZE`.
    let has = |core: &usize| unsafe { libc::CPU_ISSET(*core, &set) };
    (0..libc::CPU_SETSIZE as usize).filter(has).collect()
}

#[cfg(target_os = "linux")]
fn own() -> libc::cpu_set_t {
    // SAFETY: plain bits, for which all zeros is a value; where the system tells nothing, no core
    // is in it.
    unsafe {
        let mut set = std::mem::zeroed();
        libc::sched_getaffinity(0, size_of::<libc::cpu_set_t>(), &raw mut set);
        set
    }
}

/// As long as this lives, the thread that made it runs on one core, and threads and processes that
/// it starts begin there.
#[cfg(target_os = "linux")]
pub struct Confined(libc::cpu_set_t);

#[cfg(target_os = "linux")]
impl Confined {
    /// # Errors
    /// If the system refuses.
    pub fn to(core: usize) -> io::Result<Self> {
        let before = own();
        // SAFETY: as above; the core is one of `cores`.
        unsafe {
            let mut set = std::mem::zeroed();
            libc::CPU_SET(core, &mut set);
            set_own(&set)?;
        }
        Ok(Self(before))
    }
}

#[cfg(target_os = "linux")]
impl Drop for Confined {
    fn drop(&mut self) {
        // It was possible before.
        let _ = set_own(&self.0);
    }
}

#[cfg(target_os = "linux")]
fn set_own(set: &libc::cpu_set_t) -> io::Result<()> {
    // SAFETY: about this thread, and only read.
    match unsafe { libc::sched_setaffinity(0, size_of::<libc::cpu_set_t>(), set) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}
