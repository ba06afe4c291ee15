//! Pairs of fences with one side that costs nothing, for protocols in which one thread acts all the
//! time and others hardly ever: [`light_fence`] for that one, [`heavy_fence`] for the others. If
//! both sides have one between a store and a load, at least one of them sees the other's store.

use crate::said::say;
use std::sync::OnceLock;
#[cfg(all(target_os = "linux", not(miri)))]
use std::sync::atomic::fence;
use std::sync::atomic::{AtomicBool, Ordering, compiler_fence};

/// Keeps the compiler from moving anything across. The other side's fence stops the processor from
/// doing so.
#[inline(always)]
pub fn light_fence() {
    compiler_fence(Ordering::SeqCst);
}

/// Has every other thread of the process pass a full fence, at whatever it is. Takes 150 ns to some
/// microseconds. Only where [`are_supported`] has said so.
///
/// If the process has lost the call since, this thread goes to each processor in turn. If it may
/// not do that either, nothing is left that keeps two threads from writing the same memory, and the
/// process is ended.
#[cold]
pub fn heavy_fence() {
    if expedited(MEMBARRIER) {
        return;
    }
    TAKEN_AWAY.store(true, Ordering::Relaxed);
    if !visit_processors() {
        say(
            "quipu: the system refuses membarrier(2), which it has allowed before, and sched_setaffinity(2); a filter of \
             system calls that is installed while devices are in use has to allow one of them",
        );
        std::process::abort();
    }
}

/// True if the system has such fences: Linux from 4.14 on, unless the call is refused. The first
/// call may take milliseconds in a process with several threads.
pub fn are_supported() -> bool {
    static SUPPORTED: OnceLock<bool> = OnceLock::new();
    *SUPPORTED.get_or_init(|| expedited(REGISTER) && expedited(MEMBARRIER))
        && !TAKEN_AWAY.load(Ordering::Relaxed)
}

static TAKEN_AWAY: AtomicBool = AtomicBool::new(false);

/// `MEMBARRIER_CMD_PRIVATE_EXPEDITED` and the command that registers a process for it, of
/// `linux/membarrier.h`.
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

/// Runs this thread on each processor in turn; false if the system refuses that. A thread of this
/// process that was running has been taken off its processor by then, or has gone to another by
/// itself: it has passed a full fence either way, for the system has one in each change of threads.
#[cfg(all(target_os = "linux", not(miri)))]
fn visit_processors() -> bool {
    const BYTES: usize = size_of::<libc::cpu_set_t>();
    let errno = || std::io::Error::last_os_error().raw_os_error();
    // SAFETY: a set of no processors is all zeros.
    let mut before: libc::cpu_set_t = unsafe { std::mem::zeroed() };
    // SAFETY: the system writes so many bytes at most, and has as many.
    if unsafe { libc::sched_getaffinity(0, BYTES, &raw mut before) } != 0 {
        return false;
    }
    fence(Ordering::SeqCst);
    let visited = (0..8 * BYTES).all(|processor| {
        // SAFETY: a set of no processors is all zeros, and has so many bits.
        let one = unsafe {
            let mut one: libc::cpu_set_t = std::mem::zeroed();
            libc::CPU_SET(processor, &mut one);
            one
        };
        // SAFETY: the system reads so many bytes. It returns when this thread runs there. Of a
        // processor that there is not, or that this process may not use, it says that the argument
        // is invalid.
        let is_there = unsafe { libc::sched_setaffinity(0, BYTES, &raw const one) == 0 };
        is_there || errno() == Some(libc::EINVAL)
    });
    // SAFETY: as above, the system reads so many bytes.
    unsafe { libc::sched_setaffinity(0, BYTES, &raw const before) };
    fence(Ordering::SeqCst);
    visited
}

#[cfg(not(all(target_os = "linux", not(miri))))]
fn visit_processors() -> bool {
    false
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicU32;

    /// Two threads store, and then load the other's word: one of them sees the other's store.
    /// Without the fences neither does, in some of so many rounds.
    #[test]
    fn one_side_sees_the_other() {
        if are_supported() {
            one_sees_the_other(20_000, heavy_fence);
        }
    }

    #[cfg(all(target_os = "linux", not(miri)))]
    #[test]
    fn without_the_call_one_side_sees_the_other_too() {
        one_sees_the_other(500, || assert!(visit_processors(), "Linux allows it"));
    }

    fn one_sees_the_other(rounds: u32, heavy_fence: fn()) {
        let stored = [const { AtomicU32::new(0) }; 2];
        let (seen, turn) = ([const { AtomicU32::new(0) }; 2], AtomicU32::new(0));
        let meet = |number: u32| {
            turn.fetch_add(1, Ordering::SeqCst);
            while turn.load(Ordering::SeqCst) < 2 * number {
                std::hint::spin_loop();
            }
        };
        let side = |own: usize, fence: fn()| {
            for round in 1..=rounds {
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
