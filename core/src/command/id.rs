//! Ids of events: a slot, and the number of its use.

use super::slot::{Glance, Slot};
use crate::notify::ADDRESS_BITS;
use crate::sync::Backoff;
use std::ptr::NonNull;

/// The command that an event belongs to: a slot, and one use of it. Plain data that keeps nothing
/// alive. Zero is no event.
#[derive(Clone, Copy, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct EventId(u64);

impl EventId {
    /// No event: always over.
    pub const NONE: Self = Self(0);

    #[inline]
    pub(crate) fn new(slot: NonNull<Slot>, generation: u32) -> Self {
        Self(u64::from(generation) << ADDRESS_BITS | slot.as_ptr().expose_provenance() as u64)
    }

    #[inline]
    pub(crate) fn generation(self) -> u32 {
        (self.0 >> ADDRESS_BITS) as u32
    }

    /// The slot, or `None` for no event. Slots are never unmapped, so it may be looked at even when
    /// the event is long over.
    #[inline]
    pub(crate) fn slot(self) -> Option<Glance> {
        let address = (self.0 & ((1 << ADDRESS_BITS) - 1)) as usize;
        // SAFETY: an id is made of a slot (`EventId::new`), and those are never unmapped (see
        // `slab`).
        let slot = unsafe { std::ptr::with_exposed_provenance::<Slot>(address).as_ref() };
        slot.map(Glance::at)
    }

    /// True if this is no event.
    #[inline]
    #[must_use]
    pub fn is_none(self) -> bool {
        self.0 == 0
    }

    /// True if the event is over (or there is none).
    #[inline]
    #[must_use]
    pub fn is_finished(self) -> bool {
        self.slot()
            .is_none_or(|slot| slot.notify().closed(self.generation()).is_some())
    }

    /// Waits, if a command is in the few instructions between its byte in the queue and its closed
    /// list, for the end of these. Others may know of the byte.
    pub(crate) fn spin_until_closed(self) {
        let Some(slot) = self.slot() else { return };
        let place = |slot: Glance| (slot.queue(), slot.sequence());
        let Some((Some(queue), sequence)) = slot.of(self.generation(), place) else {
            return;
        };
        if !queue.progress.has_passed(sequence) {
            return;
        }
        // The thread that ends it has a few instructions to go, and calls nobody in them.
        let mut backoff = Backoff::default();
        while !self.is_finished() {
            backoff.pause();
        }
    }

    /// The event of this [`number`](EventId::number).
    #[inline]
    pub(crate) fn from_number(number: u64) -> Self {
        Self(number)
    }

    /// True if the command must not run: one that it depends on failed, or it
    /// was cancelled. For a driver that holds the command.
    #[must_use]
    pub fn is_refused(self) -> bool {
        self.slot().is_some_and(Glance::is_refused)
    }

    /// A number that identifies the event while it is not over, as traces
    /// show it.
    #[must_use]
    pub fn number(self) -> u64 {
        self.0
    }
}

impl std::fmt::Debug for EventId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "event {:#x}", self.0)
    }
}
