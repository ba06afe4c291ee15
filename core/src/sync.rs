//! The atomics and locks that the lock-free protocols use, in one place: the models
//! in `tests/loom.rs`, `tests/loom_waiting.rs` and `tests/loom_bias.rs` compile the very files of the
//! protocols over loom's, by putting a module of theirs in the place of this one.

pub use std::sync::atomic::{
    AtomicBool, AtomicPtr, AtomicU8, AtomicU32, AtomicU64, AtomicUsize, Ordering, fence,
};
pub use std::sync::{Mutex, MutexGuard};
pub(crate) use std::thread::yield_now;

mod asymmetric;

pub(crate) use asymmetric::{
    are_supported as asymmetric_fences_are_supported, heavy_fence, light_fence,
};

/// A number of this thread's, which no other has meanwhile; a multiple of eight, and not zero.
#[inline(always)]
pub(crate) fn this_thread() -> usize {
    thread_local! {
        static HERE: std::cell::Cell<u64> = const { std::cell::Cell::new(0) };
    }
    HERE.with(|here| std::ptr::from_ref(here).addr())
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
