//! The part of a context that its queues and memory objects share: devices and drivers, the queues
//! for migrations, the joined list of waits, and the failures of memory objects.

use crate::command::{Command, EventId, slab};
use crate::device::Device;
use crate::driver::{Driver, Notification};
use crate::error::Error;
use crate::event::{Event, stepped};
use crate::limits::RETIRED_DUE;
use crate::memory::owner::{self, Failures, Objects, Owner};
use crate::memory::{MemoryRef, SpaceId, Unused};
use crate::queue::Queue;
use crate::queue::enqueue::drop_after;
use crate::queue::flush;
use crate::router::Router;
use crate::sync::lock;
use std::sync::{Arc, Mutex, OnceLock, Weak};

/// A context's shared part.
pub struct ContextShared {
    pub(super) id: u32,
    pub(super) devices: Vec<Device>,
    /// Theirs, each once.
    pub(super) drivers: Vec<Arc<dyn Driver>>,
    pub(crate) failures: Failures,
    pub(super) lost: OnceLock<Error>,
    pub(super) objects: Objects,
    pub(super) transfers: Mutex<Vec<(SpaceId, Queue)>>,
    pub(super) joined: Mutex<Option<(Vec<EventId>, Event)>>,
    pub(super) internal: OnceLock<Queue>,
    pub(super) this: Weak<ContextShared>,
}

impl ContextShared {
    #[inline]
    pub(crate) fn id(&self) -> u32 {
        self.id
    }

    #[inline]
    pub(crate) fn lost(&self) -> Option<&Error> {
        self.lost.get()
    }

    /// The context's own queue, for commands that need no device.
    pub(crate) fn internal_queue(&self) -> &Queue {
        self.internal
            .get_or_init(|| Queue::internal(self.this.clone(), self.id, Arc::new(NoDriver), None))
    }

    /// The queue on which bytes are brought to or from a space.
    pub(crate) fn transfer_queue(&self, space: SpaceId) -> Option<Queue> {
        let mut transfers = lock(&self.transfers);
        let mut devices = self.devices.iter().filter(|d| d.space() == space);
        // If all of its devices are lost, the driver fails the migration.
        let device = devices
            .clone()
            .find(|device| device.lost().is_none())
            .or_else(|| devices.next())?;
        // A queue of a device that was lost meanwhile stays: callers have
        // trackers locked, and the end of a queue may end commands.
        if let Some((_, queue)) = transfers
            .iter()
            .find(|(s, queue)| *s == space && queue.shared().device() == Some(device))
        {
            return Some(queue.clone());
        }
        let queue = Queue::internal(
            self.this.clone(),
            self.id,
            device.driver().clone(),
            Some(device.clone()),
        );
        transfers.push((space, queue.clone()));
        Some(queue)
    }

    /// One event for a list of them, made by `make` unless the last list was the same. Gives also
    /// the event that this one replaces. To drop that may drop an error, whose payload is a user's
    /// code, so the caller drops it when it has handed over all its commands.
    pub(crate) fn join_waits(
        &self,
        events: &[Event],
        make: impl FnOnce(&Queue) -> (Event, Option<Command>),
    ) -> (Event, Option<Command>, Option<Event>) {
        let mut joined = lock(&self.joined);
        if let Some((list, event)) = &*joined
            && list.len() == events.len()
            && list.iter().zip(events).all(|(id, event)| *id == event.id())
        {
            return (event.clone(), None, None);
        }
        let (event, ready) = make(self.internal_queue());
        let (mut list, before) = joined.take().unzip();
        let list = list.get_or_insert_default();
        list.clear();
        list.extend(events.iter().map(Event::id));
        *joined = Some((std::mem::take(list), event.clone()));
        (event, ready, before)
    }

    #[cfg(test)]
    pub(crate) fn has_joined(&self) -> bool {
        lock(&self.joined).is_some()
    }
}

impl Owner for ContextShared {
    fn number(&self) -> u32 {
        self.id
    }

    fn failures(&self) -> Failures {
        self.failures
    }

    fn objects(&self) -> &Objects {
        &self.objects
    }

    fn works_in(&self, space: SpaceId) -> bool {
        self.devices.iter().any(|device| device.space() == space)
    }

    fn routers(&self) -> Vec<Arc<dyn Router>> {
        let routers = self.drivers.iter().map(|driver| driver.clone() as _);
        routers.collect()
    }

    fn free_when_unused(&self, memory: MemoryRef) {
        let users = memory.users();
        drop_after(self.internal_queue(), Unused::new(memory), &users);
    }

    /// The last list that was joined, if any of it is over.
    fn forget_old_events(&self) {
        let mut joined = lock(&self.joined);
        let forgotten = joined.take_if(|(list, _)| list.iter().any(|id| id.is_finished()));
        drop(joined);
        // This may free the marker's slot.
        drop(forgotten);
    }
}

impl Drop for ContextShared {
    fn drop(&mut self) {
        if crate::process::is_forked() {
            // Another thread may have had the lock.
            return;
        }
        flush::forget_context(self.id);
        stepped::forget_context(self.id);
    }
}

/// Makes retired slots usable again, now and then.
#[inline]
pub(crate) fn recycle_slots_if_due() {
    if slab::retired() >= RETIRED_DUE {
        recycle_slots();
    }
}

#[cold]
pub(crate) fn recycle_slots() {
    slab::recycle_retired(|| {
        crate::queue::forget_barriers();
        for context in owner::all() {
            context.forget_old_events();
            context
                .objects()
                .for_each(|memory| memory.tracker().compact());
        }
    });
}

/// The driver of a context's own queue: nothing in it needs a device.
struct NoDriver;

// SAFETY: a command's code and memory are used while it is here, with the arguments resolved for
// it.
unsafe impl Driver for NoDriver {
    fn name(&self) -> &'static str {
        "none"
    }

    fn devices(&self) -> Vec<crate::device::DeviceProperties> {
        Vec::new()
    }

    fn is_idle(&self) -> bool {
        true
    }

    fn notify(&self, notification: Notification) {
        // Markers are ended by the thread that releases them; nothing else comes here.
        drop(notification);
    }
}
