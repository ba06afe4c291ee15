//! Allocations in devices' spaces, and making room for them.
//!
//! To bring bytes from an allocation to the host, or back, may take long, as the device may be
//! another machine's. So nothing is locked meanwhile:
//!
//! 1. A thread that moves bytes says so in [`Cold::moving`], and unlocks. From then on no other
//!    thread moves or frees that allocation. A thread that hands over a command that uses it waits
//!    in [`Memory::allocation`]; an enqueue does not.
//! 2. Bytes that are written back to the host's copy are read by an event. Commands that write them
//!    wait for the event.
//! 3. When the bytes are there, all is looked at again: a copy that a command has needed or written
//!    since is kept.

use super::owner::{self, Owner};
use super::{Allocation, Cold, Ignore, Memory, Placed, SpaceId, TrackerGuard, space};
use crate::access::AccessMode;
use crate::command::EventId;
use crate::error::{ErrorKind, Result};
use crate::event::UserEvent;
use crate::panics::quietly;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::{Arc, MutexGuard, PoisonError, TryLockError};

#[cfg(test)]
mod tests;

/// The allocations that may be evicted, first those that are given up most easily.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Eviction {
    /// Allocations of objects that no command uses, if their bytes are elsewhere, too.
    Redundant,
    /// Objects that no command uses.
    Idle,
    /// Objects whose commands are enqueued, but not handed to a device.
    Waiting,
}

/// The outcome of an attempt to evict.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Evicted {
    /// Memory was freed.
    Freed,
    /// No memory was freed, but an object was locked, or was used meanwhile: it may be freed later.
    Busy,
    /// No memory was freed.
    Nothing,
}

/// Frees `wanted` bytes of allocations that are not in use in a space, or as many as there are.
/// First come those with copies elsewhere, then any that are written back, then those whose
/// commands are enqueued and not handed over yet.
///
/// Nothing is locked while bytes are written back, which may take as long as another
/// machine does; and no object is waited for.
fn evict(contexts: &[Arc<dyn Owner>], space: SpaceId, wanted: u64) -> Evicted {
    let mut freed = 0;
    let mut busy = false;
    for what in [Eviction::Redundant, Eviction::Idle, Eviction::Waiting] {
        for context in contexts {
            if !context.works_in(space) {
                continue;
            }
            for number in context.objects().numbers() {
                if freed >= wanted {
                    return Evicted::Freed;
                }
                let Some(memory) = context.objects().handle(number) else {
                    continue;
                };
                match memory.evict(space, what) {
                    Evicted::Freed => freed += memory.size(),
                    Evicted::Busy => busy = true,
                    Evicted::Nothing => {}
                }
            }
        }
    }
    match (freed, busy) {
        (0, true) => Evicted::Busy,
        (0, false) => Evicted::Nothing,
        _ => Evicted::Freed,
    }
}

impl Memory {
    /// The object's allocation in a device's space, made if need be. Called by
    /// a driver as it hands a command over.
    ///
    /// # Errors
    /// If the space has no memory for it, even after allocations that are not in use there were
    /// evicted.
    ///
    /// No safe code may ask for it, because it evicts allocations that must not be in use:
    ///
    /// ```compile_fail,E0133
    /// fn evict(memory: &quipu_scheduler::MemoryRef, space: quipu_scheduler::SpaceId) {
    ///     let _ = memory.allocation(space);
    /// }
    /// ```
    ///
    /// # Safety
    /// The caller is the space's driver, and hands over a command that uses the object, on a thread
    /// on which that driver says what is [in use](crate::Driver::is_in_use): nothing that it says
    /// is not in use is handed to a device meanwhile.
    pub unsafe fn allocation(&self, space: SpaceId) -> Result<Allocation> {
        debug_assert_ne!(space, SpaceId::HOST);
        if let Some(allocation) = self.settled(space).allocation(space) {
            return Ok(allocation);
        }
        // With nothing locked: making room looks into other objects, and a thread that makes room
        // for those may look into this one.
        let placed = self.allocate_in(space)?;
        let mut cold = self.settled(space);
        if let Some(theirs) = cold.allocation(space) {
            drop(cold);
            // SAFETY: just allocated, and given to nobody.
            unsafe { placed.free() };
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
            let written = catch_unwind(AssertUnwindSafe(|| {
                // SAFETY: just allocated, and given to nobody yet; the bytes are as many as the
                // object's.
                unsafe { driver.write_bytes(key, allocation.address, 0, &bytes) }
            }));
            cold = moving.end();
            if !matches!(written, Ok(Ok(()))) {
                // There is no other copy of them.
                cold.swapped.push((space, bytes));
                drop(cold);
                // SAFETY: just allocated, and given to nobody.
                unsafe { placed.free() };
                let written = written.unwrap_or_else(|panic| resume_unwind(panic));
                return written.map(|()| allocation);
            }
        }
        cold.allocations.push(placed);
        drop(cold);
        if swapped.is_some() {
            quietly(|| tracing::debug!(buffer = self.id, bytes = self.size, ?space, "swapped in"));
        }
        Ok(allocation)
    }

    /// The cold facts, when no bytes are on their way to or from a space.
    fn settled(&self, space: SpaceId) -> MutexGuard<'_, Cold> {
        let moving = |cold: &mut Cold| cold.moving.contains(&space);
        let settled = self.moved.wait_while(self.cold(), moving);
        settled.unwrap_or_else(PoisonError::into_inner)
    }

    /// Says that bytes are on their way to or from a space, until the result is dropped. Nothing
    /// may be locked meanwhile.
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
        let cold = self.cold_or_forked()?;
        if cold.moving.contains(&space) {
            return None;
        }
        cold.placed(space).map(|placed| look(&placed.allocation))
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
        let is_of_host = self.is_in_place() && space::maps_host_memory(space);
        let error = loop {
            let made = match is_of_host {
                // SAFETY: the object's host memory is pinned, in whole pages
                // (`Memory::create_over`), until the object goes. Its allocations go before.
                true => unsafe { driver.map_bytes(key, self.host_pointer()?, self.size) },
                false => driver.allocate_bytes(key, self.size),
            };
            let error = match made {
                Ok(address) => {
                    // A subscriber is a user's code. If it panicked, these bytes would be nobody's.
                    quietly(|| {
                        tracing::trace!(
                            buffer = self.id,
                            bytes = self.size,
                            ?space,
                            address,
                            "allocated"
                        );
                    });
                    let allocation = Allocation {
                        address,
                        size: if is_of_host { 0 } else { self.size },
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
            if is_of_host {
                // Room on the device would not help.
                break error;
            }
            if *capacity != 0 && *capacity < self.size {
                // Nothing would make enough room.
                break error;
            }
            if contexts.is_empty() {
                contexts = owner::all();
                contexts.sort_by_key(|context| context.number() != self.context_id);
            }
            // The free bytes may be enough but in pieces: one object more each time.
            let wanted = self.size.saturating_sub(*free).max(1);
            match evict(&contexts, space, wanted) {
                Evicted::Freed => {}
                Evicted::Busy => std::thread::yield_now(),
                Evicted::Nothing => break error,
            }
        };
        Err(error)
    }

    /// Frees the object's allocation in a space, if `what` covers it, and writes back the bytes
    /// that are valid only there. Called under memory pressure, with nothing locked; it waits for
    /// nothing but those bytes.
    pub(crate) fn evict(&self, space: SpaceId, what: Eviction) -> Evicted {
        let cold = match self.cold.try_lock() {
            Ok(cold) => cold,
            Err(TryLockError::Poisoned(cold)) => cold.into_inner(),
            Err(TryLockError::WouldBlock) => return Evicted::Busy,
        };
        let Some(place) = cold.placed(space).filter(|it| !it.is_of_host()).cloned() else {
            return Evicted::Nothing;
        };
        if cold.moving.contains(&space) {
            return Evicted::Busy;
        }
        let tracker = self.tracker();
        // A thread that has waited for a queue may find its last command between its byte and its
        // list.
        tracker.for_each_user(EventId::spin_until_closed);
        if self.is_mapped() {
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
        quietly(
            || tracing::debug!(buffer = self.id, bytes = self.size, space = ?place.space, "evicted"),
        );
        // SAFETY: taken out above, with the tracker locked and idle: no command uses it.
        unsafe { place.free() };
        Evicted::Freed
    }

    /// Brings the bytes that are only in an idle object's allocation to the host, and gives the
    /// allocation up.
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
            // SAFETY: within the host's copy, which stays with the object. A command that writes
            // these bytes waits for `reading`. They are valid nowhere but in the allocation, so a
            // command that needs them on the host brings them from there, which waits for the
            // allocation.
            let bytes = unsafe { std::slice::from_raw_parts_mut(host.add(start).as_ptr(), length) };
            let address = place.allocation.address;
            // SAFETY: the allocation stays while `moving` says so, and commands that write it wait
            // for `reading`.
            let read = unsafe {
                place
                    .driver
                    .read_bytes(place.key, address, range.start, bytes)
            };
            read.ok()
        });
        // First: a command that waits for `reading` may be handed over by this thread, which asks
        // for the allocation.
        drop(moving);
        reading.complete();
        if read.is_none() {
            return Evicted::Nothing;
        }
        let cold = self.cold();
        // With nothing locked, others may have moved or freed it.
        let is_there = cold.allocation(place.space) == Some(place.allocation);
        if !is_there || cold.moving.contains(&place.space) {
            return Evicted::Busy;
        }
        let mut tracker = self.tracker();
        // Without a write more bytes may be only here by now: another device is lost, whose copies
        // went with it.
        let is_as_it_was = tracker.writes() == writes && tracker.only_in(place.space) == ranges;
        if !tracker.is_idle() || !is_as_it_was || self.is_mapped() {
            return Evicted::Busy;
        }
        tracker.written_back(place.space);
        self.forget(cold, tracker, place)
    }

    /// Takes the bytes of an allocation to the host, to be put back when the next command that uses
    /// it is handed over. Does nothing if a command that was handed over is not over. Validity
    /// stays as it is: the tracker has the state after all commands have run.
    fn swap_out(&self, cold: MutexGuard<'_, Cold>, place: &Placed) -> Evicted {
        let address = place.allocation.address;
        // SAFETY: this thread hands over a command of the driver whose space it is
        // (`Memory::allocation`).
        if unsafe { place.driver.uses(place.key, address, self) } {
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
        // SAFETY: no command that was handed over uses it, and none is handed over while `moving`
        // says so.
        let read = unsafe { place.driver.read_bytes(place.key, address, 0, &mut bytes) };
        let mut cold = moving.end();
        if read.is_err() {
            return Evicted::Nothing;
        }
        cold.allocations
            .retain(|placed| placed.space != place.space);
        cold.swapped.push((place.space, bytes.into()));
        drop(cold);
        quietly(
            || tracing::debug!(buffer = self.id, bytes = self.size, space = ?place.space, "swapped out"),
        );
        // SAFETY: taken out above, and no command that was handed over uses it (`is_in_use`, and
        // `moving` since).
        unsafe { place.free() };
        Evicted::Freed
    }
}

/// See [`Memory::begin_moving`].
struct Moving<'a> {
    memory: &'a Memory,
    space: SpaceId,
}

impl<'a> Moving<'a> {
    /// Ends the move. Threads that wait for the bytes go on when the result is unlocked.
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
    fn drop(&mut self) {
        drop(self.note());
    }
}
