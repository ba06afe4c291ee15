//! Recorded graphs: to everybody else a launch is one command; within, commands are
//! ordered, and fail, as anywhere.

mod commands;
mod devices;
mod failure;
mod launches;
mod lifetime;
mod order;

use crate::printed::folding;
use crate::support::*;
use crate::{Case, Fixture};
use quipu_scheduler::graph::{Node, NodeRequest};
use quipu_scheduler::{Access, Event, Graph, MemoryRef, Queue, RawArgument, Recording};
use std::sync::{Arc, Mutex};

pub(super) fn cases() -> Vec<Case> {
    [
        launches::cases(),
        order::cases(),
        commands::cases(),
        failure::cases(),
        lifetime::cases(),
        devices::cases(),
    ]
    .concat()
}

struct Scene {
    stage: Stage,
    recording: Recording,
}

impl Scene {
    fn new(fixture: &dyn Fixture) -> Self {
        let stage = Stage::new(fixture);
        let recording = Recording::new(&stage.context);
        Self { stage, recording }
    }

    fn task(
        &mut self,
        queue: &Queue,
        accesses: &[Access<'_>],
        after: &[Node],
        task: impl FnMut(&[RawArgument]) -> quipu_scheduler::Result<()> + Send + 'static,
    ) -> Node {
        let request = NodeRequest {
            accesses,
            after,
            ..NodeRequest::default()
        };
        self.recording.host_task(queue, task, &request).unwrap()
    }

    /// As `support::fold`.
    fn fold(&mut self, queue: &Queue, memory: &MemoryRef, n: u64) -> Node {
        self.task(queue, &[updates(memory)], &[], move |a| {
            store(&a[0], load(&a[0]).wrapping_mul(31).wrapping_add(n));
            Ok(())
        })
    }

    fn finish(self) -> (Stage, Graph) {
        let graph = self.recording.finish().unwrap();
        (self.stage, graph)
    }
}

fn launched(queue: &Queue, graph: &Graph) -> Event {
    queue.launch_graph(graph, &[], None).unwrap()
}

type Log = Arc<Mutex<Vec<u64>>>;

fn note(
    log: &Log,
    n: u64,
) -> impl FnMut(&[RawArgument]) -> quipu_scheduler::Result<()> + Send + 'static {
    let log = log.clone();
    move |_| {
        log.lock().unwrap().push(n);
        Ok(())
    }
}

/// Records what a driver may take as a whole.
fn record_fold(scene: &mut Scene, queue: &Queue, memory: &MemoryRef, n: u64, label: &str) {
    let request = NodeRequest {
        accesses: &[updates(memory)],
        label: Some(label),
        ..NodeRequest::default()
    };
    record_native(&scene.recording, queue, folding(n), 1, &request).unwrap();
}

fn folded_from(start: u64, numbers: impl IntoIterator<Item = u64>) -> u64 {
    numbers
        .into_iter()
        .fold(start, |x, n| x.wrapping_mul(31).wrapping_add(n))
}
