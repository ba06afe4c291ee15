//! The atomics and locks that the lock-free protocols use, in one place. The models in
//! `tests/loom*.rs` compile the very files of the protocols over loom's, by putting a module of
//! theirs in the place of this one.

use std::sync::PoisonError;
pub use std::sync::atomic::{
    AtomicBool, AtomicPtr, AtomicU8, AtomicU32, AtomicU64, AtomicUsize, Ordering, fence,
};
pub use std::sync::{Mutex, MutexGuard};
pub use std::thread::yield_now;

mod asymmetric;

/// Locks a mutex, also after a thread has panicked while it had the lock. For data that are whole
/// whenever something can panic.
#[inline]
pub fn lock<T: ?Sized>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The pauses of a thread that waits for another one's next few instructions.
///
/// It spins first, then yields, and then sleeps for a moment at a time. A real-time thread that
/// only yields keeps a thread of lower priority from its core, and may wait for that very thread.
#[derive(Debug, Default)]
pub struct Backoff(u32);

impl Backoff {
    const SPINS: u32 = 100;
    const YIELDS: u32 = 1_000;

    /// Pauses: a turn of the spin first, then a yield, and now and then a sleep.
    #[cold]
    pub fn pause(&mut self) {
        self.0 = self.0.saturating_add(1);
        if self.0 <= Self::SPINS {
            std::hint::spin_loop();
        } else if self.0 <= Self::SPINS + Self::YIELDS {
            yield_now();
        } else {
            std::thread::sleep(std::time::Duration::from_micros(50));
            // It looks often again: others that wait do, too.
            self.0 = Self::SPINS;
        }
    }
}

pub use asymmetric::{are_supported as asymmetric_fences_are_supported, heavy_fence, light_fence};

/// A number of this thread's, which no other ever has; a multiple of eight, and not zero.
#[inline(always)]
pub fn this_thread() -> usize {
    // Without a destructor: it is used to the thread's very end.
    thread_local! {
        static NUMBER: std::cell::Cell<usize> = const { std::cell::Cell::new(0) };
    }
    match NUMBER.get() {
        0 => first_number(&NUMBER),
        number => number,
    }
}

#[cold]
#[inline(never)]
fn first_number(of: &'static std::thread::LocalKey<std::cell::Cell<usize>>) -> usize {
    static NEXT: AtomicUsize = AtomicUsize::new(8);
    // There is not the time for more threads than can be counted.
    let number = NEXT.fetch_add(8, Ordering::Relaxed);
    of.set(number);
    number
}

/// Stores, releasing, with a sequentially consistent fence after it: no later sequentially
/// consistent load sees a value from before other threads saw the store.
#[inline(always)]
pub fn store_and_fence(cell: &AtomicU64, value: u64) {
    // One locked exchange is both, and costs half as much as a store and `mfence`.
    #[cfg(target_arch = "x86_64")]
    cell.swap(value, Ordering::SeqCst);
    #[cfg(not(target_arch = "x86_64"))]
    {
        cell.store(value, Ordering::Release);
        fence(Ordering::SeqCst);
    }
}

/// Asks for a cache line to be made this core's, to be written soon. A hint:
/// any address will do.
#[inline(always)]
pub fn prefetch_for_writing<T>(pointer: *const T) {
    // The intrinsic becomes a read prefetch on the baseline processor, which
    // takes the line from its writer only to ask for it again at the write.
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    // SAFETY: prefetching has no effect but on caches, whatever the address;
    // processors without the instruction treat it as a no-op.
    unsafe {
        std::arch::asm!(
            "prefetchw [{0}]",
            in(reg) pointer,
            options(nostack, preserves_flags, readonly)
        );
    }
    #[cfg(not(all(target_arch = "x86_64", not(miri))))]
    let _ = pointer;
}
