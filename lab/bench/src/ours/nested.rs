//! `nested`: commands that enqueue commands, in one out-of-order queue.

use std::ops::Range;
use std::sync::Arc;
use std::time::{Duration, Instant};

use quipu_scheduler::operation::NativeKernel;
use quipu_scheduler::{Queue, RawArgument, Request};

use super::pool::{Pool, failed};
use super::{Held, Lent};
use crate::error::SubjectError;
use crate::reference::nested::Tree;

/// The tree, and where its tasks go.
struct Growing {
    queue: Queue,
    tree: Arc<Tree>,
}

/// One task.
struct Node {
    growing: Lent<Growing>,
    task: u32,
}

impl NativeKernel for Node {
    fn name(&self) -> &'static str {
        "node"
    }

    #[inline]
    unsafe fn run(&self, _: &[RawArgument], _: Range<u32>) -> quipu_scheduler::Result<()> {
        let growing = self.growing.get();
        let mut outcome = Ok(());
        growing.tree.run(self.task, |task| {
            let enqueued = enqueue(&growing.queue, self.growing, task);
            outcome = std::mem::replace(&mut outcome, Ok(())).and(enqueued);
        });
        outcome
    }
}

fn enqueue(queue: &Queue, growing: Lent<Growing>, task: u32) -> quipu_scheduler::Result<()> {
    queue.post_launch(Node { growing, task }, 1, &Request::default())
}

/// The queue and the tree.
pub(super) struct Nested {
    held: Held<Growing>,
}

impl Nested {
    pub(super) fn new(pool: &Pool, tree: Arc<Tree>) -> Result<Self, SubjectError> {
        let queue = pool.queue(false)?;
        let growing = Growing {
            queue: queue.clone(),
            tree,
        };
        Ok(Nested {
            held: Held::new(vec![queue], Arc::new(growing)),
        })
    }

    /// From the enqueue of the root until all tasks are over.
    pub(super) fn run(&mut self) -> Result<Duration, SubjectError> {
        let tree = &self.held.kept.tree;
        let started = Instant::now();
        enqueue(self.held.queue(), self.held.lend(), tree.root())
            .map_err(failed("enqueueing a task"))?;
        // A wait is for what is enqueued by then. Any of that which is not over by the last look
        // was counted by this one, unless it failed: then there is nothing more to come.
        let mut before = None;
        loop {
            self.held.wait()?;
            let tasks = Some(tree.tasks());
            if std::mem::replace(&mut before, tasks) == tasks {
                return Ok(started.elapsed());
            }
        }
    }
}
