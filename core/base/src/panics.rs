//! Panics of kernels and tasks, with their places: a panic's payload does not say where it
//! happened.
//!
//! 1. [`note_places`] wraps the process's panic hook, once. The hook keeps the message and the
//!    place, for its thread.
//! 2. Code that contains a panic asks [`text_of`] for its text. If the hook saw the same message
//!    last, the place is with it.
//! 3. A contained panic is dropped by [`drop_panic`]. [`quietly`] contains those of users' code
//!    that only logs.
//!
//! A program that sets a hook of its own later has texts without places.

use std::any::Any;
use std::cell::RefCell;
use std::mem::ManuallyDrop;
use std::panic::{AssertUnwindSafe, PanicHookInfo, catch_unwind, set_hook, take_hook};
use std::sync::{Mutex, PoisonError};

thread_local! {
    /// The last panic of this thread: the message, and the file and line. Without a destructor, as
    /// code may panic in that of another thread-local.
    static LAST: ManuallyDrop<RefCell<Option<(String, String)>>> =
        const { ManuallyDrop::new(RefCell::new(None)) };
}

/// Has panics of the process noted from now on.
pub fn note_places() {
    static IS_WRAPPED: Mutex<bool> = Mutex::new(false);
    // A thread that unwinds cannot change the hook. The next context has it wrapped.
    if std::thread::panicking() {
        return;
    }
    let mut is_wrapped = IS_WRAPPED.lock().unwrap_or_else(PoisonError::into_inner);
    if !std::mem::replace(&mut *is_wrapped, true) {
        let previous = take_hook();
        set_hook(Box::new(move |panic| {
            note(panic);
            previous(panic);
        }));
    }
}

/// Drops the payload of a contained panic. That may panic too; the payload of the second panic is
/// leaked: somewhere this has to end.
pub fn drop_panic(payload: Box<dyn Any + Send>) {
    let outcome = catch_unwind(AssertUnwindSafe(|| drop(payload)));
    if let Err(again) = outcome {
        std::mem::forget(again);
    }
}

/// Logs, and contains a panic, in code that a panic would leave half done: a subscriber is a user's
/// code, and so is the text of an error. Called with nothing locked.
#[cold]
pub fn quietly(log: impl FnOnce()) {
    if let Err(panic) = catch_unwind(AssertUnwindSafe(log)) {
        drop_panic(panic);
    }
}

fn note(panic: &PanicHookInfo<'_>) {
    let place = panic
        .location()
        .map(|place| format!("{}:{}", place.file(), place.line()));
    let noted = place.map(|place| (panic.payload_as_str().unwrap_or_default().to_owned(), place));
    // A panic while this is borrowed would be one of this function.
    LAST.with(|last| last.try_borrow_mut().map(|mut last| *last = noted))
        .ok();
}

/// The message of a contained panic, and its place.
pub fn text_of(panic: Box<dyn Any + Send>) -> String {
    let message = panic
        .downcast_ref::<&str>()
        .map(|message| (*message).to_owned())
        .or_else(|| panic.downcast_ref::<String>().cloned());
    drop_panic(panic);
    let said = message.clone().unwrap_or_default();
    let last = LAST.with(|last| last.try_borrow_mut().ok().and_then(|mut last| last.take()));
    let place = last.filter(|(noted, _)| *noted == said);
    let message = message.unwrap_or_else(|| "a panic without a message".to_owned());
    match place {
        Some((_, place)) => format!("{message}, at {place}"),
        None => message,
    }
}
