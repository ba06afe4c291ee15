//! The threads that do a driver's work right now, and so must not wait for it.

use quipu_scheduler::Error;
use quipu_scheduler::error::ErrorKind;
use quipu_scheduler::event::refuse_waits;
use smallvec::SmallVec;
use std::cell::{Cell, RefCell};
use std::mem::ManuallyDrop;

/// Drivers, by their addresses.
type Pumped = SmallVec<[usize; 4]>;

thread_local! {
    /// The drivers that this thread is pumping for. It has no destructor: another thread-local's
    /// may wait. Without drivers it holds no memory.
    static INSIDE: ManuallyDrop<RefCell<Pumped>> =
        const { ManuallyDrop::new(RefCell::new(SmallVec::new_const())) };
    /// A driver has started this thread.
    static OWN: Cell<bool> = const { Cell::new(false) };
}

/// A driver has started this thread, for itself.
pub(crate) fn own_thread() {
    OWN.set(true);
}

/// True if a driver has started this thread: nobody minds memory that a library keeps for it.
#[must_use]
pub fn is_own_thread() -> bool {
    OWN.get()
}

const WHY: &str = "this thread is inside a callback of a command on a device, whose driver goes on only when that \
                   returns; wait on another thread, or enqueue what comes after";

/// Says, while it lives, that this thread pumps, and has waits refused: a wait may be for another
/// driver's command that still needs this one.
pub(crate) struct Inside(Option<&'static str>);

impl Inside {
    /// Notes that this thread pumps for the driver that this is a part of.
    pub(crate) fn enter<T>(driver: &T) -> Self {
        INSIDE.with(|inside| {
            let driver = std::ptr::from_ref(driver).addr();
            inside.borrow_mut().push(driver);
        });
        Self(refuse_waits(Some(WHY)))
    }

    /// True if this thread pumps for that driver.
    pub(crate) fn is_in<T>(driver: &T) -> bool {
        let driver = std::ptr::from_ref(driver).addr();
        INSIDE.with(|inside| inside.borrow().contains(&driver))
    }

    /// True if this thread pumps for any driver.
    pub(crate) fn is_anywhere() -> bool {
        INSIDE.with(|inside| !inside.borrow().is_empty())
    }

    /// The error of a wait on such a thread.
    pub(crate) fn would_deadlock() -> Error {
        ErrorKind::WouldDeadlock { why: WHY.into() }.into()
    }
}

impl Drop for Inside {
    fn drop(&mut self) {
        refuse_waits(self.0);
        INSIDE.with(|inside| {
            let mut inside = inside.borrow_mut();
            inside.pop();
            if inside.is_empty() {
                // Gives back the memory of drivers inside of each other beyond those that have room
                // here.
                inside.shrink_to_fit();
            }
        });
    }
}
