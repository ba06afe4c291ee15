//! A signal by which a callback wakes a thread.

use std::ffi::c_void;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::Thread;

/// One wake of one thread.
pub(super) struct Signal {
    done: AtomicBool,
    thread: Thread,
}

impl Signal {
    /// For the calling thread.
    pub(super) fn new() -> Arc<Self> {
        Arc::new(Signal {
            done: AtomicBool::new(false),
            thread: std::thread::current(),
        })
    }

    /// The callback's argument: given back to [`raise`](Signal::raise), or to [`Arc::from_raw`].
    pub(super) fn handed(self: &Arc<Self>) -> *mut c_void {
        Arc::into_raw(self.clone()).cast_mut().cast()
    }

    /// Wakes the thread.
    ///
    /// # Safety
    /// `data` is what [`handed`](Signal::handed) gave, and this is called once with it.
    pub(super) unsafe fn raise(data: *mut c_void) {
        // SAFETY: as the caller promises.
        let signal = unsafe { Arc::from_raw(data.cast_const().cast::<Signal>()) };
        signal.done.store(true, Ordering::Release);
        signal.thread.unpark();
    }

    /// Sleeps until then.
    pub(super) fn wait(&self) {
        while !self.done.load(Ordering::Acquire) {
            std::thread::park();
        }
    }
}
