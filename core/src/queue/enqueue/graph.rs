//! Launches of recorded graphs: the steps of an enqueue, once for all of a graph's commands.

use super::super::Queue;
use super::construct::{construct, id_of, open};
use super::locked::Locked;
use super::waits::Waits;
use super::{Request, check_listed};
use crate::command::recorded::{Graph, Shared};
use crate::command::slot::Kind;
use crate::error::{ErrorKind, Foreign, Result};
use crate::event::Event;
use crate::graph::{Footprint, GraphBody};
use crate::memory::tracker::Recorder;
use std::mem::ManuallyDrop;
use std::sync::Arc;
use std::sync::atomic::Ordering;

impl Queue {
    /// Enqueues a launch of a graph.
    ///
    /// # Errors
    /// If the graph is of another context, a buffer of it is mapped or has a content size, or a
    /// device is lost.
    pub(crate) fn enqueue_graph(
        &self,
        graph: &Graph,
        waits: &[Event],
        label: Option<&str>,
        want_event: bool,
    ) -> Result<Option<Event>> {
        let shared = graph.shared();
        let surroundings = shared.surroundings();
        check_listed(waits)?;
        self.check_graph(shared)?;
        let request = Request {
            waits,
            unknown_access: surroundings.unknown_access,
            label,
            ..Request::default()
        };
        let queue = self.shared();
        let head = queue.head();
        let (timed, in_order) = (head.timed, head.options.in_order);
        // Before the lock: it may be logged, and a subscriber is a user's code.
        let slot = if shared.is_taken_by(&**queue.router()) {
            let body = GraphBody::<true>(graph.clone());
            construct(queue, body, &[], 1, timed, in_order, label)
        } else {
            let body = GraphBody::<false>(graph.clone());
            construct(queue, body, &[], 1, timed, in_order, label)
        };
        let id = id_of(slot);
        let mut waits = ManuallyDrop::new(Waits::new(slot));
        // The owner's, the next launch's, and the caller's.
        let references = 2 + u32::from(want_event);
        waits.s.references.store(references, Ordering::Relaxed);
        // Before the lock: markers that it makes have an earlier point.
        if !request.waits.is_empty() {
            self.wait_for_events(&mut waits, request.waits);
        }
        let memories = surroundings
            .footprints
            .iter()
            .map(|footprint| &*footprint.memory);
        let (mut last, locked) = loop {
            // Before the trackers and the number: else two threads that launch the graph could each
            // come first somewhere.
            let last = shared.last();
            let locked = Locked::lock_sorted(memories.clone().collect());
            if !surroundings.footprints.iter().any(Footprint::is_mapped) {
                break (last, locked);
            }
            drop((locked, last));
            if let Err(mapped) = self.check_graph(shared) {
                self.enqueue_as_marker(&mut waits, id);
                return Err(mapped);
            }
        };
        if let Some(last) = &*last {
            waits.wait(last.id(), false);
        }
        let is_apart = self.is_apart(memories);
        let opened = self.take_place(&mut waits, id, Kind::Graph, &request, is_apart);
        if !opened {
            open(slot, id);
        }
        waits.context = queue.counted_context();
        for footprint in &surroundings.footprints {
            if is_apart {
                footprint.record_user(&mut waits, id);
            } else {
                footprint.record(self, &mut waits, id);
            }
        }
        let before = last.replace(Event::from_slot(slot));
        let event = want_event.then(|| Event::from_slot(slot));
        let command = self.register(&mut waits, id);
        drop((locked, last));
        self.submit(&mut waits, id, command);
        drop(before);
        Ok(event)
    }

    fn check_graph(&self, graph: &Shared) -> Result<()> {
        let context = self.shared().context();
        if !context.is_some_and(|context| Arc::ptr_eq(&context, &graph.surroundings().context)) {
            return Err(ErrorKind::WrongContext {
                what: "launch a graph",
                object: Foreign::Graph,
            }
            .into());
        }
        if crate::process::is_anything_lost() {
            self.shared().check_lost()?;
            for queue in graph.queues() {
                queue.shared().check_lost()?;
            }
        }
        crate::context::recycle_slots_if_due();
        graph
            .surroundings()
            .footprints
            .iter()
            .try_for_each(|f| f.check())
    }
}
