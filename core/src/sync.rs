//! The atomics and locks that the lock-free protocols use, in one place: the models
//! in `tests/loom.rs` and `tests/loom_waiting.rs` compile the very files of the
//! protocols over loom's, by putting a module of theirs in the place of this one.

pub use std::sync::atomic::{
    AtomicBool, AtomicPtr, AtomicU8, AtomicU32, AtomicU64, Ordering, fence,
};
pub use std::sync::{Mutex, MutexGuard};
pub(crate) use std::thread::yield_now;

mod asymmetric;

pub(crate) use asymmetric::{
    are_supported as asymmetric_fences_are_supported, heavy_fence, light_fence,
};

/// A number that no other thread of the process has or had; never zero.
#[inline(always)]
pub(crate) fn thread_number() -> u32 {
    thread_local! {
        static NUMBER: std::cell::Cell<u32> = const { std::cell::Cell::new(0) };
    }
    #[cold]
    fn number_it() -> u32 {
        static NEXT: AtomicU32 = AtomicU32::new(1);
        let more = |next: u32| next.checked_add(1);
        // Those that find no more numbers share the last, by which nothing is owned.
        let number = NEXT.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more);
        let number = number.unwrap_or(u32::MAX);
        NUMBER.set(number);
        number
    }
    match NUMBER.get() {
        0 => number_it(),
        number => number,
    }
}

/// Stores, releasing, with a sequentially consistent fence after it: no later
/// sequentially consistent load sees what was there before others saw the store.
#[inline(always)]
pub fn store_and_fence(cell: &AtomicU64, value: u64) {
    // One locked exchange is both, and costs half of what a store and `mfence`
    // do.
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
