//! The event-status area of a memory space: a static array of statuses that devices poll.
//!
//! # Protocol of a slot
//!
//! 1. The host reserves it: *empty*.
//! 2. It has one writer: the command that names it as its signal, or the host. The writer sets it
//!    once, to *complete* or *failed* with the first cause; it stays so.
//! 3. The host releases it, once it will name it in no further upload. It is recycled when no
//!    uploaded command names it any more; the generation in a [`StatusSlot`] tells a recycled slot
//!    from the old one.

use std::sync::Arc;

use super::command::{CommandId, Failure};
use super::configuration::SpaceId;
use super::order::Before;

/// A reserved slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct StatusSlot {
    pub(crate) space: SpaceId,
    pub(crate) index: u32,
    pub(crate) generation: u32,
}

impl StatusSlot {
    /// The space whose area it lies in: only devices of that space can wait for it.
    #[must_use]
    pub const fn space(self) -> SpaceId {
        self.space
    }
}

impl std::fmt::Display for StatusSlot {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            formatter,
            "status slot {} (generation {}) of {}",
            self.index, self.generation, self.space
        )
    }
}

/// The status in a slot.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Status {
    /// Not yet.
    #[default]
    Empty,
    /// Done.
    Complete,
    /// Failed, with the first cause.
    Failed(Arc<Failure>),
}

/// The reason for which a status slot cannot be used so.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum StatusError {
    /// The area is full.
    #[error(
        "all {capacity} status slots of {space} are reserved: release some, or wait until they are free"
    )]
    Exhausted {
        /// The space.
        space: SpaceId,
        /// The number of slots that it has.
        capacity: usize,
    },
    /// The space does not exist.
    #[error("{space} does not exist")]
    UnknownSpace {
        /// The space.
        space: SpaceId,
    },
    /// The slot was released, or never reserved.
    #[error("{slot} is not reserved (any more): reserve a new one")]
    Stale {
        /// The slot.
        slot: StatusSlot,
    },
    /// The slot lies where the device cannot poll.
    #[error("{slot} cannot be polled by a device of {needed}: let the host pass its status on")]
    WrongSpace {
        /// The slot.
        slot: StatusSlot,
        /// The device's space.
        needed: SpaceId,
    },
    /// The slot has a writer already.
    #[error("{slot} already has a writer: each slot is set once, by one command or by the host")]
    TwoWriters {
        /// The slot.
        slot: StatusSlot,
    },
    /// Empty is the first status of a slot; nobody sets it.
    #[error("{slot} cannot be set to empty: set it to complete or failed")]
    SetToEmpty {
        /// The slot.
        slot: StatusSlot,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Writer {
    Nobody,
    Host,
    Command(CommandId),
}

#[derive(Debug)]
struct Slot {
    status: Status,
    generation: u32,
    reserved: bool,
    released: bool,
    writer: Writer,
    /// The commands that the writer's write is ordered after.
    before: Before,
    /// Uploaded commands and host writes under way that name this slot.
    users: u32,
}

/// The area of one space.
#[derive(Debug)]
pub(crate) struct StatusArea {
    space: SpaceId,
    slots: Vec<Slot>,
    free: Vec<u32>,
    refused: bool,
}

impl StatusArea {
    pub(crate) fn new(space: SpaceId, capacity: usize) -> Self {
        let count = u32::try_from(capacity).unwrap_or(u32::MAX);
        Self {
            space,
            slots: (0..count)
                .map(|_| Slot {
                    status: Status::Empty,
                    generation: 0,
                    reserved: false,
                    released: false,
                    writer: Writer::Nobody,
                    before: Before::default(),
                    users: 0,
                })
                .collect(),
            free: (0..count).rev().collect(),
            refused: false,
        }
    }

    pub(crate) fn reserve(&mut self) -> Result<StatusSlot, StatusError> {
        let Some(index) = self.free.pop() else {
            self.refused = true;
            return Err(StatusError::Exhausted {
                space: self.space,
                capacity: self.slots.len(),
            });
        };
        let slot = &mut self.slots[index as usize];
        slot.reserved = true;
        Ok(StatusSlot {
            space: self.space,
            index,
            generation: slot.generation,
        })
    }

    pub(crate) fn free_slots(&self) -> usize {
        self.free.len()
    }

    /// True if a reservation was refused that would now succeed; forgets it.
    pub(crate) fn take_refused(&mut self) -> bool {
        !self.free.is_empty() && std::mem::take(&mut self.refused)
    }

    fn get(&mut self, slot: StatusSlot) -> Result<&mut Slot, StatusError> {
        self.slots
            .get_mut(slot.index as usize)
            .filter(|entry| entry.reserved && entry.generation == slot.generation)
            .ok_or(StatusError::Stale { slot })
    }

    /// A slot that may still be named by the host: reserved and not released.
    fn get_named(&mut self, slot: StatusSlot) -> Result<&mut Slot, StatusError> {
        self.get(slot)
            .ok()
            .filter(|entry| !entry.released)
            .ok_or(StatusError::Stale { slot })
    }

    /// Checks that the host may name this slot in a wait.
    pub(crate) fn check_wait(&mut self, slot: StatusSlot) -> Result<(), StatusError> {
        self.get_named(slot).map(|_| ())
    }

    /// Checks that the host may name this slot as a signal.
    pub(crate) fn check_signal(&mut self, slot: StatusSlot) -> Result<(), StatusError> {
        match self.get_named(slot)?.writer {
            Writer::Nobody => Ok(()),
            _ => Err(StatusError::TwoWriters { slot }),
        }
    }

    /// An uploaded command names this slot.
    pub(crate) fn hold(&mut self, slot: StatusSlot) {
        if let Ok(entry) = self.get(slot) {
            entry.users += 1;
        }
    }

    /// An uploaded command names this slot as its signal.
    pub(crate) fn own(&mut self, slot: StatusSlot, command: CommandId) {
        if let Ok(entry) = self.get(slot) {
            entry.writer = Writer::Command(command);
        }
    }

    /// A recalled command gives its signal back unset.
    pub(crate) fn disown(&mut self, slot: StatusSlot, command: CommandId) {
        if let Ok(entry) = self.get(slot)
            && entry.writer == Writer::Command(command)
            && entry.status == Status::Empty
        {
            entry.writer = Writer::Nobody;
        }
    }

    /// The host becomes the writer, with a write under way.
    pub(crate) fn host_writes(
        &mut self,
        slot: StatusSlot,
        status: &Status,
        before: Before,
    ) -> Result<(), StatusError> {
        if *status == Status::Empty {
            return Err(StatusError::SetToEmpty { slot });
        }
        self.check_signal(slot)?;
        let entry = self.get(slot)?;
        entry.writer = Writer::Host;
        entry.before = before;
        entry.users += 1;
        Ok(())
    }

    /// The writer's write lands. A slot that is set stays as it is.
    pub(crate) fn set(&mut self, slot: StatusSlot, status: Status) -> bool {
        match self.get(slot) {
            Ok(entry) if entry.status == Status::Empty => {
                entry.status = status;
                true
            }
            _ => false,
        }
    }

    pub(crate) fn status(&self, slot: StatusSlot) -> Option<&Status> {
        self.slots
            .get(slot.index as usize)
            .filter(|entry| entry.reserved && entry.generation == slot.generation)
            .map(|entry| &entry.status)
    }

    /// The commands that the write to a set slot is ordered after.
    pub(crate) fn before(&self, slot: StatusSlot) -> Option<Before> {
        let entry = self.slots.get(slot.index as usize)?;
        let is_set = entry.generation == slot.generation && entry.status != Status::Empty;
        is_set.then(|| Before::clone(&entry.before))
    }

    /// Orders a command's status after the commands that the command is ordered after.
    pub(crate) fn order_after(&mut self, slot: StatusSlot, before: Before) {
        if let Ok(entry) = self.get(slot) {
            entry.before = before;
        }
    }

    /// A user is done with this slot.
    pub(crate) fn unhold(&mut self, slot: StatusSlot) {
        if let Ok(entry) = self.get(slot) {
            entry.users -= 1;
            self.recycle(slot);
        }
    }

    pub(crate) fn release(&mut self, slot: StatusSlot) -> Result<(), StatusError> {
        self.get_named(slot)?.released = true;
        self.recycle(slot);
        Ok(())
    }

    fn recycle(&mut self, slot: StatusSlot) {
        let entry = &mut self.slots[slot.index as usize];
        if entry.released && entry.users == 0 {
            *entry = Slot {
                status: Status::Empty,
                generation: entry.generation.wrapping_add(1),
                reserved: false,
                released: false,
                writer: Writer::Nobody,
                before: Before::default(),
                users: 0,
            };
            self.free.push(slot.index);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_released_slot_is_recycled_when_its_last_user_is_gone() {
        let mut area = StatusArea::new(SpaceId(0), 1);
        let first = area.reserve().unwrap();
        area.hold(first);
        area.release(first).unwrap();
        assert!(matches!(area.reserve(), Err(StatusError::Exhausted { .. })));
        assert!(!area.take_refused());
        assert_eq!(
            area.check_wait(first),
            Err(StatusError::Stale { slot: first })
        );
        assert_eq!(area.status(first), Some(&Status::Empty));
        area.unhold(first);
        assert!(area.take_refused());
        let second = area.reserve().unwrap();
        assert_ne!(first, second);
        assert_eq!(area.status(first), None);
        assert_eq!(area.release(first), Err(StatusError::Stale { slot: first }));
    }

    #[test]
    fn a_slot_has_one_writer_and_is_set_once() {
        let mut area = StatusArea::new(SpaceId(0), 2);
        let slot = area.reserve().unwrap();
        assert_eq!(
            area.host_writes(slot, &Status::Empty, Before::default()),
            Err(StatusError::SetToEmpty { slot })
        );
        area.own(slot, CommandId(1));
        assert_eq!(
            area.host_writes(slot, &Status::Complete, Before::default()),
            Err(StatusError::TwoWriters { slot })
        );
        area.disown(slot, CommandId(1));
        area.host_writes(slot, &Status::Complete, Before::default())
            .unwrap();
        assert_eq!(
            area.host_writes(slot, &Status::Complete, Before::default()),
            Err(StatusError::TwoWriters { slot })
        );
        assert!(area.set(slot, Status::Complete));
        assert!(!area.set(slot, Status::Failed(Arc::new(Failure::ShutDown))));
        assert_eq!(area.status(slot), Some(&Status::Complete));
    }
}
