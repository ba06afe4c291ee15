//! Fences of which one side costs nothing, for protocols in which one thread does a thing all the time and others hardly
//! ever: [`light_fence`] for that one, [`heavy_fence`] for the others. Where both sides have one between a store and a load,
//! at least one of them sees the other's store.

use std::sync::OnceLock;
use std::sync::atomic::{Ordering, compiler_fence};

/// Keeps the compiler from moving anything across; what the processor moves, the other side's fence stops.
#[inline(always)]
pub(crate) fn light_fence() {
    compiler_fence(Ordering::SeqCst);
}

/// Has every other thread of the process pass a full fence, at whatever it is. Takes 150 ns to some microseconds. Only
/// where [`are_supported`] says so.
#[cold]
pub(crate) fn heavy_fence() {
    if !expedited(MEMBARRIER) {
        // Somebody has taken the call from the process meanwhile. What a processor has put off it does within
        // microseconds, whatever it is.
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
}

/// True if the system has such fences: Linux from 4.14 on, unless the call is refused.
pub(crate) fn are_supported() -> bool {
    static SUPPORTED: OnceLock<bool> = OnceLock::new();
    *SUPPORTED.get_or_init(|| expedited(REGISTER) && expedited(MEMBARRIER))
}

/// `MEMBARRIER_CMD_PRIVATE_EXPEDITED` and the command that registers a process for it, of `linux/membarrier.h`.
const MEMBARRIER: i32 = 1 << 3;
const REGISTER: i32 = 1 << 4;

#[cfg(all(target_os = "linux", not(miri)))]
fn expedited(command: i32) -> bool {
    // SAFETY: the call takes three numbers, and has no effect on memory.
    unsafe { libc::syscall(libc::SYS_membarrier, command, 0, 0) == 0 }
}

#[cfg(not(all(target_os = "linux", not(miri))))]
fn expedited(_: i32) -> bool {
    false
}
