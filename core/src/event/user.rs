//! Events that the host completes.

use super::Event;
use crate::command::{self, Phase, ToDrivers, slab};
use crate::error::{Error, ErrorKind};
use std::panic::Location;
use std::sync::atomic::Ordering;

/// An event that the host completes. Dropped without that, it fails, and what
/// waits for it with it.
pub struct UserEvent {
    event: Event,
    open: bool,
    /// For the error of who waits for it in vain.
    made_at: &'static Location<'static>,
}

impl UserEvent {
    /// A new event, incomplete.
    #[must_use]
    #[track_caller]
    pub fn new() -> Self {
        let slot = slab::take();
        // SAFETY: the slot was just taken.
        let s = unsafe { slot.as_ref() };
        s.state.start(0, 0);
        s.cancelled.store(false, Ordering::Relaxed);
        // One reference to own it until it is over, one for `event`.
        s.references.store(2, Ordering::Relaxed);
        s.vtable.set(None);
        s.queue.set(std::ptr::null());
        s.done.set(std::ptr::null());
        s.in_order.set(false);
        s.phase.store(Phase::Submitted as u8, Ordering::Relaxed);
        s.argument_count.set(0);
        s.notify.open(s.notify.generation() + 1);
        Self {
            event: Event::from_slot(slot),
            open: true,
            made_at: Location::caller(),
        }
    }

    /// The event to wait for.
    #[must_use]
    pub fn event(&self) -> Event {
        self.event.clone()
    }

    /// Completes it: what waits for it may run.
    pub fn complete(mut self) {
        self.open = false;
        // SAFETY: the owning reference, given up once: `open` was true.
        unsafe { command::end_user_event(self.event.slot_pointer(), None, &mut ToDrivers) };
    }

    /// Completes it as failed: what waits for it fails with this cause.
    pub fn fail(mut self, reason: &str) {
        self.open = false;
        let error = ErrorKind::FailedByHost {
            reason: reason.to_owned(),
        };
        // SAFETY: as above.
        unsafe {
            command::end_user_event(
                self.event.slot_pointer(),
                Some(error.into()),
                &mut ToDrivers,
            )
        };
    }
}

impl Default for UserEvent {
    #[track_caller]
    fn default() -> Self {
        Self::new()
    }
}

impl Drop for UserEvent {
    fn drop(&mut self) {
        if self.open {
            let error = Error::from(ErrorKind::Abandoned {
                made_at: self.made_at,
            });
            // SAFETY: the owning reference, given up once.
            unsafe {
                command::end_user_event(self.event.slot_pointer(), Some(error), &mut ToDrivers)
            };
        }
    }
}

impl std::fmt::Debug for UserEvent {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "user event, {:?}", self.event)
    }
}
