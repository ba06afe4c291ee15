//! Catching a panic together with where it happened, which its payload does not say.

use std::cell::{Cell, RefCell};
use std::mem::ManuallyDrop;
use std::panic::{AssertUnwindSafe, PanicHookInfo, catch_unwind, set_hook, take_hook};
use std::sync::Once;

/// The message of a panic, and its place.
#[derive(Debug, Clone, Default)]
pub(super) struct Caught {
    pub(super) message: String,
    pub(super) place: String,
}

thread_local! {
    static CATCHES: Cell<bool> = const { Cell::new(false) };
    /// Empty unless a panic is on its way to [`catch`]. It has no destructor: a kernel may run in
    /// that of another thread-local.
    static CAUGHT: ManuallyDrop<RefCell<Caught>> = const {
        ManuallyDrop::new(RefCell::new(Caught { message: String::new(), place: String::new() }))
    };
}

/// Runs something whose panics are not printed but given back. The process's panic hook is wrapped
/// for that, once; other panics reach it unchanged.
pub(super) fn catch<R>(run: impl FnOnce() -> R) -> Result<R, Caught> {
    static HOOK: Once = Once::new();
    HOOK.call_once(|| {
        let previous = take_hook();
        set_hook(Box::new(move |panic| {
            if CATCHES.get() {
                CAUGHT.with(|caught| caught.replace(describe(panic)));
            } else {
                previous(panic);
            }
        }));
    });
    let before = CATCHES.replace(true);
    let result = catch_unwind(AssertUnwindSafe(run));
    CATCHES.set(before);
    result.map_err(|payload| {
        // Dropping it might panic again.
        std::mem::forget(payload);
        CAUGHT.with(|caught| caught.take())
    })
}

fn describe(panic: &PanicHookInfo<'_>) -> Caught {
    Caught {
        message: panic
            .payload_as_str()
            .unwrap_or("a panic that is no text")
            .to_owned(),
        place: panic
            .location()
            .map(ToString::to_string)
            .unwrap_or_default(),
    }
}
