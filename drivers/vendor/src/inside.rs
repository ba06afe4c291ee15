//! Which threads do a driver's work right now, and so must not wait for it.

use quipu_core::Error;
use quipu_core::error::ErrorKind;
use quipu_core::event::refuse_waits;
use std::cell::{Cell, RefCell};

thread_local! {
    /// The drivers that this thread is pumping for.
    static INSIDE: RefCell<Vec<usize>> = const { RefCell::new(Vec::new()) };
    /// A driver has started this thread.
    static OWN: Cell<bool> = const { Cell::new(false) };
}

/// A driver has started this thread, for itself.
pub(crate) fn own_thread() {
    OWN.set(true);
}

/// True if a driver has started this thread: nobody minds what a library keeps for it.
#[must_use]
pub fn is_own_thread() -> bool {
    OWN.get()
}

const WHY: &str = "this thread is inside a callback of a command on a device, whose driver goes on only when that \
                   returns; wait on another thread, or enqueue what comes after";

/// Says, while it lives, that this thread pumps, and has waits refused: what is waited for may be another driver's, and
/// still need this one.
pub(crate) struct Inside(Option<&'static str>);

impl Inside {
    /// This thread pumps for the driver that this is a part of.
    pub(crate) fn enter<T>(driver: &T) -> Self {
        INSIDE.with_borrow_mut(|inside| inside.push(std::ptr::from_ref(driver).addr()));
        Self(refuse_waits(Some(WHY)))
    }

    /// True if this thread pumps for that driver.
    pub(crate) fn is_in<T>(driver: &T) -> bool {
        INSIDE.with_borrow(|inside| inside.contains(&std::ptr::from_ref(driver).addr()))
    }

    /// True if this thread pumps for any driver.
    pub(crate) fn is_anywhere() -> bool {
        INSIDE.with_borrow(|inside| !inside.is_empty())
    }

    /// Why such a thread must not wait.
    pub(crate) fn would_deadlock() -> Error {
        ErrorKind::WouldDeadlock { why: WHY }.into()
    }
}

impl Drop for Inside {
    fn drop(&mut self) {
        refuse_waits(self.0);
        INSIDE.with_borrow_mut(Vec::pop);
    }
}
