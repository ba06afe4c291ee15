//! Catching a panic together with where it happened, which its payload does not say.

use std::any::Any;
use std::cell::{Cell, RefCell};
use std::mem::ManuallyDrop;
use std::panic::{AssertUnwindSafe, PanicHookInfo, catch_unwind, set_hook, take_hook};
use std::sync::{Mutex, PoisonError};

/// The message of a panic, and its place.
#[derive(Debug, Clone, Default)]
pub(super) struct Caught {
    pub(super) message: String,
    pub(super) place: String,
}

/// The message of a panic without one.
const NO_TEXT: &str = "a panic that is no text";

thread_local! {
    static CATCHES: Cell<bool> = const { Cell::new(false) };
    /// Empty unless a panic is on its way to [`catch`]. It has no destructor: a kernel may run in
    /// that of another thread-local.
    static CAUGHT: ManuallyDrop<RefCell<Caught>> = const {
        ManuallyDrop::new(RefCell::new(Caught { message: String::new(), place: String::new() }))
    };
}

/// Has panics in [`catch`] noted, and not printed. Others reach the process's hook unchanged.
fn wrap_hook() {
    static IS_WRAPPED: Mutex<bool> = Mutex::new(false);
    // A thread that unwinds cannot change the hook. The next call does it.
    if std::thread::panicking() {
        return;
    }
    let mut is_wrapped = IS_WRAPPED.lock().unwrap_or_else(PoisonError::into_inner);
    if !std::mem::replace(&mut *is_wrapped, true) {
        let previous = take_hook();
        set_hook(Box::new(move |panic| {
            if CATCHES.get() {
                CAUGHT.with(|caught| caught.replace(describe(panic)));
            } else {
                previous(panic);
            }
        }));
    }
}

/// Runs something whose panics are not printed but given back: for that, the process's panic hook
/// is wrapped. Until it is, as where the first check is in a thread that unwinds, panics are
/// printed as well, and given back without a place.
pub(super) fn catch<R>(run: impl FnOnce() -> R) -> Result<R, Caught> {
    wrap_hook();
    let before = CATCHES.replace(true);
    let result = catch_unwind(AssertUnwindSafe(run));
    CATCHES.set(before);
    result.map_err(|payload| {
        let mut caught = CAUGHT.with(|caught| caught.take());
        if caught.message.is_empty() {
            caught.message = text_of(&*payload);
        }
        // Dropping it might panic again.
        std::mem::forget(payload);
        caught
    })
}

fn text_of(payload: &(dyn Any + Send)) -> String {
    let text = payload.downcast_ref::<&str>().copied();
    let text = text.or_else(|| payload.downcast_ref::<String>().map(String::as_str));
    text.unwrap_or(NO_TEXT).to_owned()
}

fn describe(panic: &PanicHookInfo<'_>) -> Caught {
    Caught {
        message: panic.payload_as_str().unwrap_or(NO_TEXT).to_owned(),
        place: panic
            .location()
            .map(ToString::to_string)
            .unwrap_or_default(),
    }
}
