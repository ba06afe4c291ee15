//! The thread that calls the program's functions when events and builds are over, and when objects
//! go.
//!
//! Commands end on any thread, also on one of the program's that waits for another command, perhaps
//! with a lock that its function takes, too. So such functions are called by a thread of their own,
//! one after the other. It is started for the first of them, and stays.

use quipu_threads::Start;
use std::ffi::c_void;
use std::sync::mpsc::{Sender, channel};
use std::sync::{LazyLock, Mutex, PoisonError};

/// A pointer of the program's that is passed back to it.
pub(crate) struct Data(*mut c_void);

// SAFETY: it is only passed on.
unsafe impl Send for Data {}

impl Data {
    pub(crate) fn new(pointer: *mut c_void) -> Self {
        Self(pointer)
    }

    pub(crate) fn get(&self) -> *mut c_void {
        self.0
    }
}

type Call = Box<dyn FnOnce() + Send>;

/// The thread's list of calls, if the thread could be started.
static THREAD: LazyLock<Option<Mutex<Sender<Call>>>> = LazyLock::new(|| {
    let (sender, calls) = channel::<Call>();
    let body = move || {
        for call in calls {
            // A function in C does not unwind; what is here may.
            let _ = std::panic::catch_unwind(std::panic::AssertUnwindSafe(call));
        }
    };
    let thread = std::thread::Builder::new().name("quipu-callbacks".to_owned());
    thread.start(body).ok().map(|_| Mutex::new(sender))
});

/// Has a function called soon, after those that were passed before.
pub(crate) fn later(call: impl FnOnce() + Send + 'static) {
    let call: Call = Box::new(call);
    let Some(thread) = &*THREAD else {
        return call();
    };
    let sender = thread.lock().unwrap_or_else(PoisonError::into_inner);
    if let Err(refused) = sender.send(call) {
        drop(sender);
        (refused.0)();
    }
}
