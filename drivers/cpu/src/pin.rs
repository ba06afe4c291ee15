//! Pinning threads to cores.

use quipu_scheduler::panics::quietly;
use quipu_threads::{LeaveUnparked, Start};
use std::io;
use std::thread::Builder;

/// Pins the calling thread to a core. If that is not possible, says so in the log and goes on.
pub(crate) fn pin_to(core: usize) {
    if let Err(error) = try_to(core) {
        quietly(|| tracing::warn!(core, %error, "a worker could not be pinned; it runs anywhere"));
    }
}

/// The first of these cores that no thread of this process can be pinned to, and why: asked by a
/// thread of its own, as the answer is to be pinned there.
pub(crate) fn first_refused(cores: &[usize]) -> Option<(usize, io::Error)> {
    let refused = || {
        let mut cores = cores.iter().copied();
        cores.find_map(|core| Some((core, try_to(core).err()?)))
    };
    let _unparked = LeaveUnparked::new();
    std::thread::scope(|scope| {
        let asking = Builder::new().start_scoped(scope, refused);
        asking.ok()?.join().ok().flatten()
    })
}

#[cfg(target_os = "linux")]
fn try_to(core: usize) -> io::Result<()> {
    if core >= libc::CPU_SETSIZE as usize {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    // SAFETY: an all-zero set is valid; the macro stays within it for cores
    // below its size.
    let outcome = unsafe {
        let mut set: libc::cpu_set_t = std::mem::zeroed();
        libc::CPU_SET(core, &mut set);
        libc::sched_setaffinity(0, size_of::<libc::cpu_set_t>(), &raw const set)
    };
    if outcome == 0 {
        Ok(())
    } else {
        Err(io::Error::last_os_error())
    }
}

#[cfg(not(target_os = "linux"))]
fn try_to(_core: usize) -> io::Result<()> {
    Err(io::ErrorKind::Unsupported.into())
}
