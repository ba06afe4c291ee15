//! Events that the host completes.

use super::Event;
use super::blocked::{self, UNNOTED, location};
use crate::command::slot::Slot;
use crate::command::{Phase, ToDrivers, broadcast, fail, slab};
use crate::error::{Error, ErrorKind};
use std::panic::Location;
use std::ptr::NonNull;
use std::sync::atomic::Ordering;

/// An event that the host completes. If it is dropped without that, it fails, and the commands that
/// wait for it fail with it.
pub struct UserEvent {
    event: Event,
    open: bool,
    /// For the error of a wait for it that would never end.
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
        s.queue.set(None);
        s.done.set(std::ptr::null());
        s.in_order.set(false);
        s.phase.store(Phase::Submitted as u8, Ordering::Relaxed);
        s.argument_count.set(0);
        // Nobody has noted it yet (`blocked`), and where it was made.
        s.work.store(0, Ordering::Relaxed);
        let made_at = Location::caller();
        s.sequence
            .set(std::ptr::from_ref(made_at).expose_provenance() as u64);
        s.notify.open(s.notify.generation() + 1);
        Self {
            event: Event::from_slot(slot),
            open: true,
            made_at,
        }
    }

    /// A new event, which the core itself completes: the commands that wait for it depend on their
    /// own context alone, and on no host.
    #[track_caller]
    pub(crate) fn internal() -> Self {
        let this = Self::new();
        this.event.slot().work.store(UNNOTED, Ordering::Relaxed);
        this
    }

    /// The slot of the event, while it is not over.
    pub(crate) fn slot(&self) -> NonNull<Slot> {
        self.event.slot_pointer()
    }

    /// The event to wait for.
    #[must_use]
    pub fn event(&self) -> Event {
        self.event.clone()
    }

    /// Completes it: the commands that wait for it may run.
    pub fn complete(mut self) {
        self.open = false;
        // SAFETY: the owning reference, given up once: `open` was true.
        unsafe { end(self.event.slot_pointer(), None) };
    }

    /// Completes it as failed: the commands that wait for it fail with this cause.
    pub fn fail(mut self, reason: &str) {
        self.open = false;
        let error = ErrorKind::FailedByHost {
            reason: reason.to_owned(),
        };
        // SAFETY: as above.
        unsafe { end(self.event.slot_pointer(), Some(error.into())) };
    }
}

/// Ends a user event.
///
/// # Safety
/// The caller owns the event's owning reference and gives it up.
unsafe fn end(slot: NonNull<Slot>, error: Option<Error>) {
    if crate::process::is_forked() {
        // Other threads may have had the locks of its dependants. It is kept as it is.
        std::mem::forget(error);
        return;
    }
    // SAFETY: the caller's reference keeps the slot.
    blocked::forget_host_event(unsafe { slot.as_ref() });
    // SAFETY: the caller owns the event, and gives it up.
    unsafe {
        match error {
            None => broadcast(slot, false, None, &mut ToDrivers),
            Some(error) => fail(slot, error, None, &mut ToDrivers),
        }
    }
}

/// The place in the source at which the user event in this slot was made.
pub(super) fn made_at(slot: &Slot) -> Option<&'static Location<'static>> {
    // Its number in a queue is that of no queue.
    slot.queue
        .get()
        .is_none()
        .then(|| location(slot.sequence.get()))?
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
            unsafe { end(self.event.slot_pointer(), Some(error)) };
        }
    }
}

impl std::fmt::Debug for UserEvent {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "user event, {:?}", self.event)
    }
}
