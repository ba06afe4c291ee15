//! Recorded graphs: commands that are enqueued once and launched many times.
//!
//! A [`Recording`] takes commands as queues do, for several queues and devices of a
//! context. It computes the waits between its commands, the migrations between them,
//! and the bytes that the graph as a whole reads and writes. An enqueue computes
//! these each time; a graph computes them once. The result is a [`Graph`], which does
//! not change any more and is launched with
//! [`Queue::launch_graph`](crate::Queue::launch_graph).
//!
//! # To the rest of the core a launch is one command
//!
//! It has one slot and one event, takes the trackers of all its buffers once, and waits for its
//! hazards and its queue. It can be cancelled until it starts. If it fails, it poisons the bytes
//! that it would have written. There is no second scheduler:
//!
//! 1. The graph's commands lie in slots of their own, which they keep. Their notify
//!    lists are made once, with the edges that an enqueue would make, and are never
//!    closed. The first of them, the *roots*, wait for one thing more: the launch.
//! 2. When the launch is ready, its owner *plays* it (`launch`): tells drivers with a sync domain
//!    of their commands, and resolves the roots' wait. From there on commands go their usual way.
//! 3. A command that ends sets its own state back, and then resolves the waits for it
//!    (`command::finish::end_recorded`). Nothing is freed, nothing exchanged.
//! 4. The *end*, a marker, waits for the commands that no other command waits for, and ends the
//!    launch.
//!
//! Since the slots are there once, launches of a graph come one after another: each
//! waits for the one before. Any graph that writes would have to do so in any case.
//!
//! # Migrations
//!
//! Bytes that the graph reads before it writes them are brought to their reader's space before the
//! graph starts. Validity may be different each time, so this is worked out at the launch, as for
//! any command (`footprint`). Bytes that one command of the graph leaves and another needs
//! elsewhere are always moved in the same way, by migrations that are recorded with the others.
//!
//! # Failure
//!
//! Within the graph failure spreads along read-after-write and explicit waits, as anywhere. The
//! launch fails with the error of the first command, in the order of recording, that failed by
//! itself. All bytes that the launch writes fail with it, so the result does not depend on timing.
//!
//! # Whole graphs
//!
//! A driver that can take a graph as one says so as the recording ends (`Driver::take_graph`). Then
//! a launch is a command of its own ([`Operation::Graph`](crate::operation::Operation::Graph)), and
//! the driver looks at the slots.

mod footprint;
mod launch;
mod record;

pub use record::{Node, NodeRequest, Recording};

pub(crate) use footprint::Footprint;
pub(crate) use launch::start;

use crate::command::recorded::{Commands, Recorded, Shared, Taken};
pub use crate::command::recorded::{Edge, Graph};
use crate::command::slot::{Rare, Vtable};
use crate::command::{EventId, Kind, release};
use crate::context::ContextShared;
use crate::error::Error;
use crate::event::{Event, Profile};
use crate::operation::{Body, drop_state, no_run};
use crate::queue::Queue;
use crate::sync::lock;
use std::sync::{Arc, Mutex, MutexGuard};

/// The parts of a graph besides its commands.
pub(crate) struct Surroundings {
    pub(crate) footprints: Box<[Footprint]>,
    pub(crate) unknown_access: bool,
    /// The last launch.
    last: Mutex<Option<Event>>,
    // These go last: the context, and the queues that commands point to.
    queues: Box<[Queue]>,
    pub(crate) context: Arc<ContextShared>,
}

/// A launch of a recorded graph: of one whose commands are submitted one by one,
/// or of one that the driver has taken.
#[repr(transparent)]
pub(crate) struct GraphBody<const TAKEN: bool>(pub(crate) Graph);

impl<const TAKEN: bool> Body for GraphBody<TAKEN> {
    const VTABLE: &'static Vtable = &Vtable {
        kind: Kind::Graph,
        needs_no_device: !TAKEN,
        name: |_| "graph",
        run: no_run,
        portable: |_| None,
        brief: |_, _| false,
        rare: Rare {
            begin: Some(|command, mut sink| start(command, &mut sink)),
            // SAFETY: the state is a `GraphBody`, and not dropped yet.
            fail: Some(|state, id, cause| unsafe { (*state.cast::<Self>()).0.poison(id, cause) }),
            ..Rare::NONE
        },
        drop: drop_state::<Self>(),
    };
}

impl Graph {
    fn surroundings(&self) -> &Surroundings {
        self.shared().surroundings()
    }

    /// The times at which the commands of the latest launch passed their states, of those whose
    /// queues keep timestamps: name, kind, and times. Of a launch that is not over, some are still
    /// those of the one before.
    #[must_use]
    pub fn profiles(&self) -> Vec<(String, Kind, Profile)> {
        let mut profiles = Vec::new();
        self.for_each_command(|command, _| {
            let profile = command.slot().times().map(Profile::of);
            profiles.extend(profile.map(|p| (command.label().to_owned(), command.kind(), p)));
        });
        profiles
    }

    /// Poisons the bytes that the failed launch with this id would have written.
    fn poison(&self, id: EventId, cause: &Error) {
        for footprint in &self.surroundings().footprints {
            footprint.poison(id, cause);
        }
    }
}

impl Shared {
    #[inline]
    pub(crate) fn surroundings(&self) -> &Surroundings {
        debug_assert!(self.surroundings.is::<Surroundings>());
        // SAFETY: `Recording::finish` alone makes graphs, and puts a `Surroundings` there.
        unsafe { &*std::ptr::from_ref(&*self.surroundings).cast::<Surroundings>() }
    }

    /// The last launch. The thread that enqueues another holds this lock, so that all hazards order
    /// launches alike.
    pub(crate) fn last(&self) -> MutexGuard<'_, Option<Event>> {
        lock(&self.surroundings().last)
    }

    /// The queues that its commands are of.
    pub(crate) fn queues(&self) -> &[Queue] {
        &self.surroundings().queues
    }
}

impl Drop for Commands {
    fn drop(&mut self) {
        if crate::process::is_forked() {
            // Bodies are users' values, whose destructors may need threads that are not there.
            std::mem::forget(std::mem::take(&mut self.0));
            return;
        }
        for recorded in self.0.drain(..) {
            let slot = recorded.slot;
            // SAFETY: no launch is under way, for it would keep the graph; so nobody else touches
            // the slots.
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
