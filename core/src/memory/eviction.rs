//! Allocations in devices' spaces, and making room for them.
//!
//! Bytes on their way between an allocation and the host may take long, as the device may be another machine's. So nothing
//! is locked meanwhile:
//!
//! 1. Whoever moves bytes says so in [`Cold::moving`], and unlocks. From then on nobody else moves or frees that
//!    allocation, and who hands over a command that uses it waits in [`Memory::allocation`]. Who enqueues does not.
//! 2. Bytes that are written back to the host's copy are read by an event, which commands wait for that write them.
//! 3. When the bytes are there, all is looked at again: a copy that somebody has asked for or written since is kept.

use super::{Allocation, Cold, Ignore, Memory, Placed, SpaceId, TrackerGuard, space};
use crate::access::AccessMode;
use crate::command::EventId;
use crate::context;
use crate::error::{ErrorKind, Result};
use crate::event::UserEvent;
use std::sync::{MutexGuard, PoisonError, TryLockError};

#[cfg(test)]
mod tests;

/// What may be evicted, from what is given up most easily on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Eviction {
    /// Of objects that no command uses, those whose bytes are elsewhere, too.
    Redundant,
    /// Objects that no command uses.
    Idle,
    /// Objects whose commands are enqueued, but not handed to a device.
    Waiting,
}

/// What came of an attempt to evict.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Evicted {
    /// Memory was freed.
    Freed,
    /// None was, but an object was locked, or was used meanwhile: it may be freed later.
    Busy,
    /// None was.
    Nothing,
}

impl Memory {
    /// The object's allocation in a device's space, made if need be. Called by
    /// a driver as it hands a command over.
    ///
    /// # Errors
    /// If the space has no memory for it, even after what is not in use there
    /// was evicted.
    pub fn allocation(&self, space: SpaceId) -> Result<Allocation> {
        debug_assert_ne!(space, SpaceId::HOST);
        if let Some(allocation) = self.settled(space).allocation(space) {
            return Ok(allocation);
        }
        // With nothing locked: making room looks into other objects, and who makes room
        // for those may look into this one.
        let placed = self.allocate_in(space)?;
        let mut cold = self.settled(space);
        if let Some(theirs) = cold.allocation(space) {
            drop(cold);
            placed.free();
            return Ok(theirs);
        }
        let Placed {
            allocation, key, ..
        } = placed;
        let swapped = cold.swapped.iter().position(|(s, _)| *s == space);
        if let Some(at) = swapped {
            let (_, bytes) = cold.swapped.swap_remove(at);
            let moving = self.begin_moving(cold, space);
            let driver = &placed.driver;
            let written = driver.write_allocation(key, allocation.address, 0, &bytes);
            cold = moving.end();
            if let Err(error) = written {
                cold.swapped.push((space, bytes));
                drop(cold);
                placed.free();
                return Err(error);
            }
            tracing::debug!(buffer = self.id, bytes = self.size, ?space, "swapped in");
        }
        cold.allocations.push(placed);
        Ok(allocation)
    }

    /// The cold facts, when no bytes are on their way to or from a space.
    fn settled(&self, space: SpaceId) -> MutexGuard<'_, Cold> {
        let moving = |cold: &mut Cold| cold.moving.contains(&space);
        let settled = self.moved.wait_while(self.cold(), moving);
        settled.unwrap_or_else(PoisonError::into_inner)
    }

    /// Bytes are on their way to or from a space, until what is given is dropped. Nothing may be locked meanwhile.
    fn begin_moving<'a>(&'a self, mut cold: MutexGuard<'a, Cold>, space: SpaceId) -> Moving<'a> {
        cold.moving.push(space);
        Moving {
            memory: self,
            space,
        }
    }

    /// Looks at the object's allocation in a device's space, if it has one there now: for
    /// a driver that prepares a command before it hands it over. Afterwards it may be
    /// elsewhere; as long as `look` lasts, which must not wait, it stays.
    pub fn with_allocation<R>(
        &self,
        space: SpaceId,
        look: impl FnOnce(&Allocation) -> R,
    ) -> Option<R> {
        let cold = self.cold();
        if cold.moving.contains(&space) {
            return None;
        }
        cold.placed(space).map(|placed| look(&placed.allocation))
    }

    /// Where the object is in a space, for the log: it never waits, so `None`
    /// may also mean that somebody else just looks.
    pub(crate) fn address_in(&self, space: SpaceId) -> Option<u64> {
        if space == SpaceId::HOST {
            // Where it is not yet, it is about to be.
            let pointer = self.host_pointer().ok()?;
            return Some(pointer.as_ptr().addr() as u64);
        }
        let cold = self.cold.try_lock().ok()?;
        Some(cold.allocation(space)?.address)
    }

    /// Allocates, and makes room as long as that fails and anything is left to
    /// evict. Nothing may be locked.
    fn allocate_in(&self, space: SpaceId) -> Result<Placed> {
        // Those whose buffers may have to go.
        let mut contexts = Vec::new();
        let Some((driver, key)) = space::owner(space) else {
            return Err(ErrorKind::DeviceLost {
                device: format!("{space:?}"),
                reason: "its driver is gone".to_owned(),
            }
            .into());
        };
        let error = loop {
            let error = match driver.allocate(key, self.size) {
                Ok(address) => {
                    tracing::trace!(
                        buffer = self.id,
                        bytes = self.size,
                        ?space,
                        address,
                        "allocated"
                    );
                    let allocation = Allocation {
                        address,
                        size: self.size,
                    };
                    return Ok(Placed {
                        space,
                        allocation,
                        driver,
                        key,
                    });
                }
                Err(error) => error,
            };
            let ErrorKind::OutOfMemory { free, capacity, .. } = error.kind() else {
                break error;
            };
            if *capacity != 0 && *capacity < self.size {
                // Nothing would make enough room.
                break error;
            }
            if contexts.is_empty() {
                contexts = context::all_contexts(self.context_id);
            }
            // Where enough is free but in pieces, one object more each time.
            let wanted = self.size.saturating_sub(*free).max(1);
            match context::evict(&contexts, space, wanted) {
                Evicted::Freed => {}
                Evicted::Busy => std::thread::yield_now(),
                Evicted::Nothing => break error,
            }
        };
        Err(error)
    }

    /// Frees what an object holds in a space, if it is as `what` says, writing back
    /// what is valid only there. Called under memory pressure, with nothing locked; it waits for nothing but those bytes.
    pub(crate) fn evict(&self, space: SpaceId, what: Eviction) -> Evicted {
        let cold = match self.cold.try_lock() {
            Ok(cold) => cold,
            Err(TryLockError::Poisoned(cold)) => cold.into_inner(),
            Err(TryLockError::WouldBlock) => return Evicted::Busy,
        };
        let Some(place) = cold.placed(space).cloned() else {
            return Evicted::Nothing;
        };
        if cold.moving.contains(&space) {
            return Evicted::Busy;
        }
        let tracker = self.tracker();
        // Who has waited for a queue may find its last command between its byte and its list.
        tracker.for_each_user(EventId::settle);
        if !cold.mappings.is_empty() {
            return Evicted::Nothing;
        }
        if !tracker.is_idle() {
            drop(tracker);
            return match what {
                Eviction::Waiting => self.swap_out(cold, &place),
                _ => Evicted::Nothing,
            };
        }
        if tracker.is_redundant_in(space) {
            return self.forget(cold, tracker, &place);
        }
        match what {
            Eviction::Redundant => Evicted::Nothing,
            _ => self.write_back(cold, tracker, &place),
        }
    }

    /// Gives up an idle object's allocation, whose bytes are elsewhere, too.
    fn forget(
        &self,
        mut cold: MutexGuard<'_, Cold>,
        mut tracker: TrackerGuard<'_>,
        place: &Placed,
    ) -> Evicted {
        tracker.forget_space(place.space);
        cold.allocations
            .retain(|placed| placed.space != place.space);
        drop(tracker);
        drop(cold);
        tracing::debug!(buffer = self.id, bytes = self.size, space = ?place.space, "evicted");
        place.free();
        Evicted::Freed
    }

    /// Brings what is only in an idle object's allocation to the host, and gives the allocation up.
    fn write_back(
        &self,
        mut cold: MutexGuard<'_, Cold>,
        mut tracker: TrackerGuard<'_>,
        place: &Placed,
    ) -> Evicted {
        let Ok(host) = self.allocate_host_in(&mut cold) else {
            return Evicted::Nothing;
        };
        let ranges = tracker.only_in(place.space);
        let reading = UserEvent::new();
        let reader = reading.event().id();
        for range in &ranges {
            let range = range.clone();
            tracker.record(range, AccessMode::Read, place.space, reader, &mut Ignore);
        }
        let writes = tracker.writes();
        drop(tracker);
        let moving = self.begin_moving(cold, place.space);
        let read = ranges.iter().try_for_each(|range| {
            let start = usize::try_from(range.start).ok()?;
            let length = usize::try_from(range.end - range.start).ok()?;
            // SAFETY: within the host's copy, which stays with the object. Who writes these bytes waits for `reading`; they
            // are valid nowhere but in the allocation, so who wants them on the host brings them from there, which waits
            // for the allocation.
            let bytes = unsafe { std::slice::from_raw_parts_mut(host.add(start).as_ptr(), length) };
            let read = place.driver.read_allocation(
                place.key,
                place.allocation.address,
                range.start,
                bytes,
            );
            read.ok()
        });
        // Nobody has waited for more than that: whoever wants the bytes is on his way to the allocation.
        reading.complete();
        let cold = moving.end();
        if read.is_none() {
            return Evicted::Nothing;
        }
        let mut tracker = self.tracker();
        if !tracker.is_idle() || tracker.writes() != writes || !cold.mappings.is_empty() {
            return Evicted::Busy;
        }
        tracker.written_back(place.space);
        self.forget(cold, tracker, place)
    }

    /// Takes the bytes of an allocation to the host, to be put back when the next
    /// command that uses it is handed over, if none has been that is not over. What is
    /// valid where is not touched: that is said of when all commands have run.
    fn swap_out(&self, cold: MutexGuard<'_, Cold>, place: &Placed) -> Evicted {
        if place
            .driver
            .is_in_use(place.key, place.allocation.address, self)
        {
            return Evicted::Nothing;
        }
        let mut bytes = Vec::new();
        let Ok(size) = usize::try_from(self.size) else {
            return Evicted::Nothing;
        };
        if bytes.try_reserve_exact(size).is_err() {
            return Evicted::Nothing;
        }
        bytes.resize(size, 0);
        let moving = self.begin_moving(cold, place.space);
        let read = place
            .driver
            .read_allocation(place.key, place.allocation.address, 0, &mut bytes);
        let mut cold = moving.end();
        if read.is_err() {
            return Evicted::Nothing;
        }
        cold.allocations
            .retain(|placed| placed.space != place.space);
        cold.swapped.push((place.space, bytes.into()));
        drop(cold);
        tracing::debug!(buffer = self.id, bytes = self.size, space = ?place.space, "swapped out");
        place.free();
        Evicted::Freed
    }
}

/// See [`Memory::begin_moving`].
struct Moving<'a> {
    memory: &'a Memory,
    space: SpaceId,
}

impl<'a> Moving<'a> {
    /// The bytes are where they are to be. Who waits for that goes on when what is given is unlocked.
    fn end(self) -> MutexGuard<'a, Cold> {
        let moving = std::mem::ManuallyDrop::new(self);
        moving.note()
    }

    fn note(&self) -> MutexGuard<'a, Cold> {
        let mut cold = self.memory.cold();
        cold.moving.retain(|space| *space != self.space);
        self.memory.moved.notify_all();
        cold
    }
}

impl Drop for Moving<'_> {
    /// A driver has panicked.
    fn drop(&mut self) {
        drop(self.note());
    }
}
