//! Owners of memory objects: contexts, as this floor knows them.

use super::space_id::SpaceId;
use super::{Memory, MemoryRef};
use crate::router::{Router, is_same};
use crate::sync::lock;
use std::collections::HashMap;
use std::ptr::NonNull;
use std::sync::{Arc, Mutex, Weak};

/// The extent of a command's failure.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Failures {
    /// It fails the commands that wait for its event, and those that read the bytes that it should
    /// have written, now or later.
    #[default]
    SpreadThroughMemory,
    /// It fails the commands that wait for its event, and nothing else: bytes that it should have
    /// written have any value. Only the loss of a device spreads through memory. This is OpenCL's
    /// rule.
    StayWithEvents,
}

/// A context, as its memory objects know it.
pub(crate) trait Owner: Send + Sync {
    /// Its number, which no other has.
    fn number(&self) -> u32;

    /// The extent of failures of its commands.
    fn failures(&self) -> Failures;

    /// Its memory objects.
    fn objects(&self) -> &Objects;

    /// True if a device of it works in this space.
    fn works_in(&self, space: SpaceId) -> bool;

    /// The drivers of its devices, each once.
    fn routers(&self) -> Vec<Arc<dyn Router>>;

    /// Drops a handle to one of its objects when the last command that uses it is over.
    fn free_when_unused(&self, memory: MemoryRef);

    /// Forgets events that are over, whose ids are about to come again.
    fn forget_old_events(&self);
}

/// The memory objects of a context, by their numbers.
#[derive(Default)]
pub(crate) struct Objects(Mutex<HashMap<u64, Object>>);

/// A memory object that a handle refers to: removed before it goes.
struct Object(NonNull<Memory>);
// SAFETY: memory is `Sync`.
unsafe impl Send for Object {}

impl Objects {
    /// Adds an object, which [`forget`](Objects::forget) takes out before it goes.
    pub(super) fn remember(&self, memory: &MemoryRef) {
        lock(&self.0).insert(memory.id(), Object(NonNull::from(&**memory)));
    }

    pub(super) fn forget(&self, number: u64) {
        lock(&self.0).remove(&number);
    }

    /// The numbers of all that are there.
    pub(super) fn numbers(&self) -> Vec<u64> {
        lock(&self.0).keys().copied().collect()
    }

    /// A handle to one of the objects, if it is still there.
    pub(super) fn handle(&self, number: u64) -> Option<MemoryRef> {
        let objects = lock(&self.0);
        let object = objects.get(&number)?;
        // SAFETY: it is removed, under this lock, before it goes.
        unsafe { object.0.as_ref() }.handle_if_any()
    }

    /// Calls `look` with each, while none can go.
    pub(crate) fn for_each(&self, mut look: impl FnMut(&Memory)) {
        for object in lock(&self.0).values() {
            // SAFETY: it is removed, under this lock, before it goes.
            look(unsafe { object.0.as_ref() });
        }
    }
}

/// The context of objects that have none.
#[cfg(test)]
pub(super) struct NoOwner;

#[cfg(test)]
impl Owner for NoOwner {
    fn number(&self) -> u32 {
        0
    }

    fn failures(&self) -> Failures {
        Failures::default()
    }

    fn objects(&self) -> &Objects {
        unreachable!("there is no such context")
    }

    fn works_in(&self, _: SpaceId) -> bool {
        false
    }

    fn routers(&self) -> Vec<Arc<dyn Router>> {
        Vec::new()
    }

    fn free_when_unused(&self, _: MemoryRef) {}

    fn forget_old_events(&self) {}
}

static OWNERS: Mutex<Vec<Weak<dyn Owner>>> = Mutex::new(Vec::new());

/// Notes a new context; gives the number of contexts.
pub(crate) fn register(owner: Weak<dyn Owner>) -> usize {
    let mut owners = lock(&OWNERS);
    owners.retain(|owner| owner.strong_count() > 0);
    owners.push(owner);
    owners.len()
}

/// All contexts. To be dropped with nothing locked: a context may end with its last handle, and
/// that calls drivers.
pub(crate) fn all() -> Vec<Arc<dyn Owner>> {
    lock(&OWNERS).iter().filter_map(Weak::upgrade).collect()
}

/// The drivers of all contexts, each once.
pub(crate) fn all_routers() -> Vec<Arc<dyn Router>> {
    let mut routers: Vec<Arc<dyn Router>> = Vec::new();
    for router in all().iter().flat_map(|owner| owner.routers()) {
        if !routers.iter().any(|known| is_same(&**known, &*router)) {
            routers.push(router);
        }
    }
    routers
}
