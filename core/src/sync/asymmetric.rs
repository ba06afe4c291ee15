//! Fences of which one side costs nothing, for protocols in which one thread does a thing all the time and others hardly
//! ever: [`light_fence`] for that one, [`heavy_fence`] for the others. Where both sides have one between a store and a load,
//! at least one of them sees the other's store.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering, compiler_fence, fence};

/// Keeps the compiler from moving anything across; what the processor moves, the other side's fence stops.
#[inline(always)]
pub(crate) fn light_fence() {
    compiler_fence(Ordering::SeqCst);
}

/// Has every other thread of the process pass a full fence, at whatever it is. Takes 150 ns to some microseconds. Only
/// where [`are_supported`] has said so.
#[cold]
pub(crate) fn heavy_fence() {
    if expedited(MEMBARRIER) {
        return;
    }
    // Somebody has taken the call from the process meanwhile. What a processor has put off it does within microseconds,
    // whatever it is.
    TAKEN_AWAY.store(true, Ordering::Relaxed);
    fence(Ordering::SeqCst);
    std::thread::sleep(std::time::Duration::from_millis(10));
    fence(Ordering::SeqCst);
}

/// True if the system has such fences: Linux from 4.14 on, unless the call is refused. The first call may take
/// milliseconds in a process with several threads.
pub(crate) fn are_supported() -> bool {
    static SUPPORTED: OnceLock<bool> = OnceLock::new();
    *SUPPORTED.get_or_init(|| expedited(REGISTER) && expedited(MEMBARRIER))
        && !TAKEN_AWAY.load(Ordering::Relaxed)
}

static TAKEN_AWAY: AtomicBool = AtomicBool::new(false);

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

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicU32;

    /// Two threads store, and then load what the other stores: one of them sees it. Without the fences neither does, in
    /// some of so many rounds.
    #[test]
    fn one_side_sees_the_other() {
        const ROUNDS: u32 = 20_000;
        if !are_supported() {
            return;
        }
        let stored = [const { AtomicU32::new(0) }; 2];
        let (seen, turn) = ([const { AtomicU32::new(0) }; 2], AtomicU32::new(0));
        let meet = |number: u32| {
            turn.fetch_add(1, Ordering::SeqCst);
            while turn.load(Ordering::SeqCst) < 2 * number {
                std::hint::spin_loop();
            }
        };
        let side = |own: usize, fence: fn()| {
            for round in 1..=ROUNDS {
                meet(2 * round - 1);
                stored[own].store(round, Ordering::Relaxed);
                fence();
                seen[own].store(stored[1 - own].load(Ordering::Relaxed), Ordering::Relaxed);
                meet(2 * round);
                let seen = seen.each_ref().map(|seen| seen.load(Ordering::Relaxed));
                assert!(seen.contains(&round), "round {round}: {seen:?}");
            }
        };
        std::thread::scope(|scope| {
            scope.spawn(|| side(0, light_fence));
            side(1, heavy_fence);
        });
    }
}
