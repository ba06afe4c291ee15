//! Allocations in devices' spaces, and making room for them.

use super::{Allocation, Cold, Memory, SpaceId, space};
use crate::command::EventId;
use crate::context;
use crate::driver::Driver;
use crate::error::{ErrorKind, Result};
use std::sync::TryLockError;

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
    /// None was, but an object was locked: it may be freed when it is not.
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
        if let Some(allocation) = self.cold().allocation(space) {
            return Ok(allocation);
        }
        // With nothing locked: making room looks into other objects, and who makes room
        // for those may look into this one.
        let allocation = self.allocate_in(space)?;
        let mut cold = self.cold();
        if let Some(theirs) = cold.allocation(space) {
            drop(cold);
            if let Some((driver, key)) = space::owner(space) {
                driver.free(key, allocation.address, allocation.size);
            }
            return Ok(theirs);
        }
        let swapped = cold.swapped.iter().position(|(s, _)| *s == space);
        if let Some(at) = swapped
            && let Some((driver, key)) = space::owner(space)
        {
            let address = allocation.address;
            if let Err(error) = driver.write_allocation(key, address, 0, &cold.swapped[at].1) {
                driver.free(key, address, allocation.size);
                return Err(error);
            }
            cold.swapped.swap_remove(at);
            tracing::debug!(buffer = self.id, bytes = self.size, ?space, "swapped in");
        }
        cold.allocations.push((space, allocation));
        Ok(allocation)
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
        let known = cold.allocations.iter().find(|(s, _)| *s == space);
        known.map(|(_, allocation)| look(allocation))
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
    fn allocate_in(&self, space: SpaceId) -> Result<Allocation> {
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
                    return Ok(Allocation {
                        address,
                        size: self.size,
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
    /// what is valid only there. Called under memory pressure; never waits.
    pub(crate) fn evict(&self, space: SpaceId, what: Eviction) -> Evicted {
        let mut cold = match self.cold.try_lock() {
            Ok(cold) => cold,
            Err(TryLockError::Poisoned(cold)) => cold.into_inner(),
            Err(TryLockError::WouldBlock) => return Evicted::Busy,
        };
        if self.evict_locked(&mut cold, space, what) {
            Evicted::Freed
        } else {
            Evicted::Nothing
        }
    }

    fn evict_locked(&self, cold: &mut Cold, space: SpaceId, what: Eviction) -> bool {
        let Some(index) = cold.allocations.iter().position(|(s, _)| *s == space) else {
            return false;
        };
        let Some((driver, key)) = space::owner(space) else {
            return false;
        };
        let mut tracker = self.tracker();
        // Who has waited for a queue may find its last command between its byte and its list.
        tracker.for_each_user(EventId::settle);
        if !cold.mappings.is_empty() {
            return false;
        }
        if !tracker.is_idle() {
            drop(tracker);
            return what == Eviction::Waiting && self.swap_out(cold, index, &*driver, key);
        }
        if !tracker.is_redundant_in(space) {
            if what == Eviction::Redundant {
                return false;
            }
            let address = cold.allocations[index].1.address;
            let Ok(host) = self.allocate_host_in(cold) else {
                return false;
            };
            for range in tracker.only_in(space) {
                let (Ok(start), Ok(length)) = (
                    usize::try_from(range.start),
                    usize::try_from(range.end - range.start),
                ) else {
                    return false;
                };
                // SAFETY: the object is idle and its tracker locked, so nobody
                // else touches these bytes of the host copy.
                let bytes =
                    unsafe { std::slice::from_raw_parts_mut(host.add(start).as_ptr(), length) };
                if driver
                    .read_allocation(key, address, range.start, bytes)
                    .is_err()
                {
                    return false;
                }
            }
            tracker.written_back(space);
        }
        tracker.forget_space(space);
        let (_, allocation) = cold.allocations.swap_remove(index);
        drop(tracker);
        tracing::debug!(buffer = self.id, bytes = self.size, ?space, "evicted");
        driver.free(key, allocation.address, allocation.size);
        true
    }

    /// Takes the bytes of an allocation to the host, to be put back when the next
    /// command that uses it is handed over, if none has been that is not over. What is
    /// valid where is not touched: that is said of when all commands have run.
    fn swap_out(&self, cold: &mut Cold, index: usize, driver: &dyn Driver, key: u32) -> bool {
        let (space, allocation) = cold.allocations[index];
        if driver.is_in_use(key, allocation.address, self) {
            return false;
        }
        let mut bytes = Vec::new();
        let Ok(size) = usize::try_from(self.size) else {
            return false;
        };
        if bytes.try_reserve_exact(size).is_err() {
            return false;
        }
        bytes.resize(size, 0);
        if driver
            .read_allocation(key, allocation.address, 0, &mut bytes)
            .is_err()
        {
            return false;
        }
        cold.allocations.swap_remove(index);
        cold.swapped.push((space, bytes.into()));
        tracing::debug!(buffer = self.id, bytes = self.size, ?space, "swapped out");
        driver.free(key, allocation.address, allocation.size);
        true
    }
}
