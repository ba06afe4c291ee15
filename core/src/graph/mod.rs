//! Recorded graphs: commands that are enqueued once and launched many times.
//!
//! A [`Recording`] takes commands as queues do, for several queues and devices of a
//! context. It works out once what an enqueue works out each time: which command
//! waits for which, what has to be migrated between them, and what of which buffer
//! they need and leave, all together. The result is a [`Graph`], which does not
//! change any more and is launched with [`Queue::launch_graph`](crate::Queue::launch_graph).
//!
//! # To the rest of the core a launch is one command
//!
//! It has one slot and one event, takes the trackers of all its buffers once, waits
//! for what its hazards and its queue demand, can be cancelled until it starts, and
//! poisons what it would have written if it fails. There is no second scheduler:
//!
//! 1. The graph's commands lie in slots of their own, which they keep. Their notify
//!    lists are made once, with the edges that an enqueue would make, and are never
//!    closed. The first of them, the *roots*, wait for one thing more: the launch.
//! 2. When the launch is ready, whoever has it *plays* it (`launch`): tells drivers with a
//!    sync domain of their commands, and resolves the roots' wait. From there on
//!    commands go their usual way.
//! 3. A command that ends sets its own state back, and then resolves what waits for
//!    it (`command::finish::end_recorded`). Nothing is freed, nothing exchanged.
//! 4. What no other command waits for, the *end* waits for: a marker, which ends the
//!    launch.
//!
//! Since the slots are there once, launches of a graph come one after another: each
//! waits for the one before. Any graph that writes would have to do so in any case.
//!
//! # Migrations
//!
//! What the graph reads before it writes it is brought to where it is read before the
//! graph starts: validity may be different each time, so this is worked out at the
//! launch, as for any command (`footprint`). What one command of the graph leaves and another needs elsewhere is
//! always moved in the same way, by migrations that are recorded with the others.
//!
//! # Failure
//!
//! Within the graph it goes along read-after-write and explicit waits, as anywhere. The
//! launch fails with the error of the first command, in the order of recording, that
//! failed by itself; and with the launch all that it writes, so what is left behind
//! does not depend on timing.
//!
//! # Whole graphs
//!
//! A driver that can take a graph as one says so as the recording ends
//! ([`Driver::take_graph`]). Then a launch is a command of
//! its own ([`Operation::Graph`](crate::operation::Operation::Graph)), and the slots
//! are what the driver looks at.

mod footprint;
mod launch;
mod record;

pub use record::{Node, NodeRequest, Recording};

pub(crate) use footprint::Footprint;
pub(crate) use launch::play;

use crate::command::slot::Slot;
use crate::command::{Command, EventId, Kind, release};
use crate::context::ContextShared;
use crate::driver::Driver;
use crate::error::Error;
use crate::event::{Event, Profile};
use crate::queue::Queue;
use std::any::Any;
use std::mem::ManuallyDrop;
use std::ptr::NonNull;
use std::sync::atomic::AtomicPtr;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

/// A recorded graph: see the [module](self). Clones are the same graph. Its commands,
/// and the buffers that they use, live as long as it does.
#[derive(Clone)]
pub struct Graph(Arc<Shared>);

/// That one command of a graph waits for another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Edge {
    /// The number of the command waited for: lower than that of the one that waits.
    pub command: u32,
    /// True if its failure fails the waiting command too; else it is only an order.
    pub propagates: bool,
}

/// A command of a graph.
struct Recorded {
    slot: NonNull<Slot>,
    /// Its slot's word of this name, which a failure takes.
    work: u64,
    edges: Box<[Edge]>,
    /// The first generation that its slot had here.
    generation: u32,
}

/// The commands of a graph, or of one that is being recorded.
#[derive(Default)]
struct Commands(Vec<Recorded>);

/// What a graph is, and its launch.
pub(crate) struct Shared {
    commands: Commands,
    /// The last of the commands is the end.
    end: u32,
    /// The last recorded first.
    roots: Box<[u32]>,
    /// What has to be renewed for each launch: commands with timestamps, or of a sync domain.
    renewed: Box<[u32]>,
    pub(crate) footprints: Box<[Footprint]>,
    pub(crate) unknown_access: bool,
    taken: OnceLock<Taken>,
    /// The launch that is being played.
    launch: AtomicPtr<Slot>,
    /// The error of the first command that failed, and its number.
    failure: Mutex<Option<(u32, Error)>>,
    /// The last launch.
    last: Mutex<Option<Event>>,
    // These go last: the context, and the queues that commands point to.
    queues: Box<[Queue]>,
    pub(crate) context: Arc<ContextShared>,
}

/// What a driver has made of a graph.
struct Taken {
    driver: Arc<dyn Driver>,
    made: Box<dyn Any + Send + Sync>,
}

// SAFETY: slots are touched as the module says: by those who own the commands.
unsafe impl Send for Shared {}
// SAFETY: as above.
unsafe impl Sync for Shared {}

impl Graph {
    pub(crate) fn shared(&self) -> &Shared {
        &self.0
    }

    /// How many commands a launch runs: those recorded, and migrations and markers
    /// that were needed between them.
    #[must_use]
    pub fn len(&self) -> usize {
        self.0.end as usize
    }

    /// True if nothing was recorded.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Calls `look` with each command, in an order in which they may run, and with what it waits for: for a
    /// driver that takes the graph as one.
    pub fn for_each_command(&self, mut look: impl FnMut(&Command, &[Edge])) {
        for recorded in &self.0.commands.0[..self.len()] {
            let command = ManuallyDrop::new(Command::from_slot(recorded.slot));
            look(&command, &recorded.edges);
        }
    }

    /// What the driver that has taken this graph made of it, if that is a `T`.
    #[must_use]
    pub fn taken<T: Any>(&self) -> Option<&T> {
        self.0.taken.get()?.made.downcast_ref()
    }

    /// True if a driver has taken the graph as one.
    #[must_use]
    pub fn is_taken(&self) -> bool {
        self.0.taken.get().is_some()
    }

    /// When the commands of the latest launch passed their states, those whose queues
    /// keep timestamps: name, kind, and times. Of a launch that is not over, some are
    /// still those of the one before.
    #[must_use]
    pub fn profiles(&self) -> Vec<(String, Kind, Profile)> {
        let mut profiles = Vec::new();
        self.for_each_command(|command, _| {
            let profile = command.slot().times().map(Profile::of);
            profiles.extend(profile.map(|p| (command.label().to_owned(), command.kind(), p)));
        });
        profiles
    }

    /// A launch with this id failed: what it would have written is void.
    pub(crate) fn poison(&self, id: EventId, cause: &Error) {
        for footprint in &self.0.footprints {
            footprint.poison(id, cause);
        }
    }
}

impl std::fmt::Debug for Graph {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "graph of {} commands", self.len())
    }
}

impl Shared {
    /// The last launch; whoever enqueues another holds this, so that all hazards order
    /// launches alike.
    pub(crate) fn last(&self) -> MutexGuard<'_, Option<Event>> {
        lock(&self.last)
    }

    /// The queues that its commands are of.
    pub(crate) fn queues(&self) -> &[Queue] {
        &self.queues
    }

    /// True if this driver has taken the graph as one.
    pub(crate) fn is_taken_by(&self, driver: &Arc<dyn Driver>) -> bool {
        self.taken
            .get()
            .is_some_and(|taken| Arc::ptr_eq(&taken.driver, driver))
    }

    /// What the command's slot has in its word of this name as a launch starts.
    #[cold]
    pub(crate) fn work(&self, index: u32) -> u64 {
        self.commands.0[index as usize].work
    }

    /// True for the end.
    #[inline]
    pub(crate) fn is_end(&self, index: u32) -> bool {
        index == self.end
    }

    /// A command failed. Of several, the first in the order of recording counts: one
    /// that was not run comes after its cause, so that has failed by itself.
    #[cold]
    pub(crate) fn note_failure(&self, index: u32, error: Error) {
        let mut failure = lock(&self.failure);
        if failure.as_ref().is_none_or(|(first, _)| index < *first) {
            *failure = Some((index, error));
        }
    }
}

impl Drop for Commands {
    fn drop(&mut self) {
        for recorded in self.0.drain(..) {
            let slot = recorded.slot;
            // SAFETY: no launch is under way, for it would keep the graph; so nobody else touches the slots.
            let s = unsafe { slot.as_ref() };
            if let Some(drop) = s.vtable.get().and_then(|vtable| vtable.drop) {
                // SAFETY: the state is the vtable's, and dropped once.
                unsafe { drop(s.state_pointer()) };
            }
            s.recorded.set(false);
            s.done.set(std::ptr::null());
            let _ = s.notify.close(false);
            // SAFETY: the graph's reference, given up once.
            unsafe { release(slot) };
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
