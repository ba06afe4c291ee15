//! Launches of recorded graphs: the steps of an enqueue, once for all of a graph's commands.

use super::super::Queue;
use super::Request;
use super::construct::{construct, id_of, open};
use super::locked::Locked;
use super::waits::Waits;
use crate::command::slot::Kind;
use crate::error::{ErrorKind, Result};
use crate::event::Event;
use crate::graph::{Graph, Shared};
use crate::memory::tracker::Recorder;
use crate::operation::GraphBody;
use crate::queue::ContextLink;
use std::mem::ManuallyDrop;
use std::sync::Arc;
use std::sync::atomic::Ordering;

impl Queue {
    /// Enqueues a launch of a graph.
    ///
    /// # Errors
    /// If the graph is of another context, a buffer of it is mapped or has a content size, or a device is lost.
    pub(crate) fn enqueue_graph(
        &self,
        graph: &Graph,
        waits: &[Event],
        label: Option<&str>,
        want_event: bool,
    ) -> Result<Option<Event>> {
        let shared = graph.shared();
        self.check_graph(shared)?;
        let request = Request {
            waits,
            unknown_access: shared.unknown_access,
            label,
            ..Request::default()
        };
        let queue = self.shared();
        let qbody = queue.body();
        let (timed, in_order) = (qbody.timed, qbody.options.in_order);
        // Before anything that orders commands: else two threads that launch the graph could each come first somewhere.
        let mut last = shared.last();
        let slot = if shared.is_taken_by(queue.driver()) {
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
        let opened = self.take_place(&mut waits, id, Kind::Graph, &request);
        if let Some(last) = &*last {
            waits.wait(last.id(), false);
        }
        let memories = shared.footprints.iter().map(|footprint| &*footprint.memory);
        let locked = Locked::lock_sorted(memories.collect());
        if !opened {
            open(slot, id);
        }
        if let ContextLink::Counted(context) = &qbody.context {
            waits.context = Some(context);
        }
        for footprint in &shared.footprints {
            footprint.record(self, &mut waits, id);
        }
        let before = last.replace(Event::from_slot(slot));
        let event = want_event.then(|| Event::from_slot(slot));
        let command = self.register(&mut waits, id);
        drop((locked, last));
        self.conclude(&mut waits, id, command);
        drop(before);
        Ok(event)
    }

    fn check_graph(&self, graph: &Shared) -> Result<()> {
        let context = self.shared().context();
        if !context.is_some_and(|context| Arc::ptr_eq(&context, &graph.context)) {
            return Err(ErrorKind::WrongContext {
                what: "launch a graph",
                object: "graph",
            }
            .into());
        }
        if crate::context::is_anything_lost() {
            self.shared().check_lost()?;
            for queue in graph.queues() {
                queue.shared().check_lost()?;
            }
        }
        crate::context::recycle_slots_if_due();
        graph.footprints.iter().try_for_each(|f| f.check())
    }
}
