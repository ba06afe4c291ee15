//! `recorded`: a chain by hazards, and tasks by explicit waits, recorded once or enqueued each
//! time.

use std::sync::Arc;
use std::time::Instant;

use quipu_scheduler::graph::{Node, NodeRequest};
use quipu_scheduler::{Access, AccessMode, MemoryRef, Queue, Recording, Request};

use super::graph::Graph as Tasks;
use super::pool::{Pool, download, failed, upload};
use super::serial::AddOne;
use crate::error::SubjectError;
use crate::reference::shape::GraphShape;
use crate::reference::task::Task;
use crate::subject::RecordedOutcome;

/// Kernels that add one to the same integer, in one in-order queue.
pub(super) struct Chain {
    queue: Queue,
    sum: MemoryRef,
    kernels: usize,
    graph: Option<quipu_scheduler::Graph>,
}

impl Chain {
    pub(super) fn new(pool: &Pool, kernels: usize, recorded: bool) -> Result<Self, SubjectError> {
        let (queue, sum) = (pool.queue(true)?, pool.buffer::<i64>(1)?);
        let record = || {
            let recording = Recording::new(pool.context());
            let accesses = [Access::whole(&sum, AccessMode::ReadWrite)];
            let request = NodeRequest {
                accesses: &accesses,
                ..NodeRequest::default()
            };
            for _ in 0..kernels {
                recording.launch(&queue, AddOne, 1, &request)?;
            }
            recording.finish()
        };
        let graph = recorded.then(record).transpose();
        let graph = graph.map_err(failed("recording kernels"))?;
        Ok(Chain {
            queue,
            sum,
            kernels,
            graph,
        })
    }

    pub(super) fn run(&mut self) -> Result<RecordedOutcome, SubjectError> {
        upload(&self.queue, &self.sum, &[0_i64])?;
        let started = Instant::now();
        self.hand_over().map_err(failed("handing kernels over"))?;
        let handed_over = started.elapsed();
        self.queue.wait().map_err(failed("waiting for a queue"))?;
        let elapsed = started.elapsed();
        let sum = download(&self.queue, &self.sum)?[0];
        Ok(RecordedOutcome {
            handed_over,
            elapsed,
            sum: Some(sum),
        })
    }

    fn hand_over(&self) -> quipu_scheduler::Result<()> {
        if let Some(graph) = &self.graph {
            return self.queue.post_graph(graph, &[], None);
        }
        let accesses = [Access::whole(&self.sum, AccessMode::ReadWrite)];
        let request = Request {
            accesses: &accesses,
            ..Request::default()
        };
        for _ in 0..self.kernels {
            self.queue.post_launch(AddOne, 1, &request)?;
        }
        Ok(())
    }
}

/// Tasks in one out-of-order queue.
pub(super) struct Shaped {
    tasks: Tasks,
    graph: Option<quipu_scheduler::Graph>,
}

impl Shaped {
    pub(super) fn new(
        pool: &Pool,
        shape: Arc<GraphShape>,
        task: Arc<dyn Task>,
        recorded: bool,
    ) -> Result<Self, SubjectError> {
        let tasks = Tasks::new(pool, Arc::clone(&shape), task)?;
        let record = || {
            let recording = Recording::new(pool.context());
            let mut nodes: Vec<Node> = Vec::with_capacity(shape.tasks());
            for number in 0..shape.tasks() {
                let before = shape.predecessors(number).iter();
                let after: Vec<Node> = before.map(|task| nodes[*task as usize]).collect();
                let request = NodeRequest {
                    after: &after,
                    ..NodeRequest::default()
                };
                let queue = tasks.held().queue();
                nodes.push(recording.launch(queue, tasks.task(number), 1, &request)?);
            }
            recording.finish()
        };
        let graph = recorded.then(record).transpose();
        let graph = graph.map_err(failed("recording tasks"))?;
        Ok(Shaped { tasks, graph })
    }

    pub(super) fn run(&mut self) -> Result<RecordedOutcome, SubjectError> {
        let started = Instant::now();
        let queue = self.tasks.held().queue();
        let events = match &self.graph {
            Some(graph) => queue.post_graph(graph, &[], None).map(|()| Vec::new()),
            None => self.tasks.enqueue(&[]),
        };
        let events = events.map_err(failed("handing tasks over"))?;
        let handed_over = started.elapsed();
        self.tasks.held().wait()?;
        let elapsed = started.elapsed();
        drop(events);
        Ok(RecordedOutcome {
            handed_over,
            elapsed,
            sum: None,
        })
    }
}
