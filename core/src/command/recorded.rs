//! Recorded graphs, as commands and drivers see them: the commands, and the launch that is being
//! played.
//!
//! The queues, buffers and launches of a graph belong to the floor of graphs ([`crate::graph`]).

use super::slot::Slot;
use super::view::CommandView;
use crate::error::Error;
use crate::process::is_forked;
use crate::router::{Router, is_same};
use crate::sync::lock;
use std::any::Any;
use std::mem::ManuallyDrop;
use std::ptr::NonNull;
use std::sync::atomic::AtomicPtr;
use std::sync::{Arc, Mutex, OnceLock};

/// A recorded graph: see the [module](crate::graph). Clones are the same graph. Its commands,
/// and the buffers that they use, live as long as it does.
#[derive(Clone)]
pub struct Graph(pub(crate) Arc<Shared>);

/// An edge: one command of a graph waits for another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Edge {
    /// The number of the command waited for: lower than that of the one that waits.
    pub command: u32,
    /// True if its failure fails the waiting command too; else it is only an order.
    pub propagates: bool,
}

/// A command of a graph.
pub(crate) struct Recorded {
    pub(crate) slot: NonNull<Slot>,
    /// Its slot's word of this name, which a failure takes.
    pub(crate) work: u64,
    pub(crate) edges: Box<[Edge]>,
    /// The first generation that its slot had here.
    pub(crate) generation: u32,
}

/// The commands of a graph, or of one that is being recorded.
#[derive(Default)]
pub(crate) struct Commands(pub(crate) Vec<Recorded>);

/// A graph and its launch.
pub(crate) struct Shared {
    pub(crate) commands: Commands,
    /// The last of the commands is the end.
    pub(crate) end: u32,
    /// The last recorded first.
    pub(crate) roots: Box<[u32]>,
    /// The commands that have to be renewed for each launch: with timestamps, or of a sync domain.
    pub(crate) renewed: Box<[u32]>,
    pub(crate) taken: OnceLock<Taken>,
    /// The launch that is being played.
    pub(crate) launch: AtomicPtr<Slot>,
    /// The error of the first command that failed, and its number.
    pub(crate) failure: Mutex<Option<(u32, Error)>>,
    /// The other facts of the floor of graphs: a `Surroundings` (`graph`). Last: the context, and
    /// the queues that commands point to.
    pub(crate) surroundings: Box<dyn Any + Send + Sync>,
}

/// The object that a driver has made of a graph.
pub(crate) struct Taken {
    pub(crate) driver: Arc<dyn Router>,
    /// Kept in a child of `fork`, where the vendor's library must not be called.
    pub(crate) made: ManuallyDrop<Box<dyn Any + Send + Sync>>,
}

impl Drop for Taken {
    fn drop(&mut self) {
        if !is_forked() {
            // SAFETY: dropped once, here.
            unsafe { ManuallyDrop::drop(&mut self.made) };
        }
    }
}

// SAFETY: slots are touched as `graph` says: by the owners of the commands.
unsafe impl Send for Shared {}
// SAFETY: the shared part of a slot is a `CommandView`, which is `Sync`; the rest is touched as
// `graph` says.
unsafe impl Sync for Shared {}

impl Graph {
    pub(crate) fn shared(&self) -> &Shared {
        &self.0
    }

    /// The number of commands that a launch runs: those recorded, and the migrations and markers
    /// between them.
    #[must_use]
    pub fn len(&self) -> usize {
        self.0.end as usize
    }

    /// True if nothing was recorded.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Calls `look` with each command and its waits, in an order in which the commands may run: for
    /// a driver that takes the graph as one.
    pub fn for_each_command(&self, mut look: impl FnMut(&CommandView, &[Edge])) {
        for recorded in &self.0.commands.0[..self.len()] {
            // SAFETY: the graph keeps its commands and their bodies, which no launch ends
            // (`Commands`).
            let command = unsafe { CommandView::of(&recorded.slot) };
            look(command, &recorded.edges);
        }
    }

    /// The object that the driver made of this graph as it took it, if that is a `T`.
    #[must_use]
    pub fn taken<T: Any>(&self) -> Option<&T> {
        self.0.taken.get()?.made.downcast_ref()
    }

    /// True if a driver has taken the graph as one.
    #[must_use]
    pub fn is_taken(&self) -> bool {
        self.0.taken.get().is_some()
    }
}

impl std::fmt::Debug for Graph {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "graph of {} commands", self.len())
    }
}

impl Shared {
    /// True if this driver has taken the graph as one.
    pub(crate) fn is_taken_by(&self, driver: &dyn Router) -> bool {
        self.taken
            .get()
            .is_some_and(|taken| is_same(&*taken.driver, driver))
    }

    /// The value of the word `work` of the command's slot as a launch starts.
    #[cold]
    pub(crate) fn work(&self, index: u32) -> u64 {
        self.commands.0[index as usize].work
    }

    /// The launch that is being played.
    pub(crate) fn launch(&self) -> Option<NonNull<Slot>> {
        NonNull::new(self.launch.load(std::sync::atomic::Ordering::Acquire))
    }

    /// True for the end.
    #[inline]
    pub(crate) fn is_end(&self, index: u32) -> bool {
        index == self.end
    }

    /// The error of the launch, which is over.
    pub(super) fn take_failure(&self) -> Option<(u32, Error)> {
        lock(&self.failure).take()
    }

    /// A command failed. Of several, the first in the order of recording counts: one that was not
    /// run comes after its cause, so that has failed by itself. Gives the error that does not
    /// count.
    #[cold]
    #[must_use = "what an error carries is a user's code, which comes after all that others wait for"]
    pub(crate) fn note_failure(&self, index: u32, error: Error) -> Option<Error> {
        let mut failure = lock(&self.failure);
        let mut other = Some((index, error));
        if failure.as_ref().is_none_or(|(first, _)| index < *first) {
            std::mem::swap(&mut *failure, &mut other);
        }
        other.map(|(_, error)| error)
    }
}
