//! `graphs`: tasks in one out-of-order queue, ordered by the events of their predecessors.

use std::ops::Range;
use std::sync::Arc;
use std::time::Instant;

use quipu_scheduler::operation::NativeKernel;
use quipu_scheduler::{Event, RawArgument, Request, UserEvent};

use super::pool::{Pool, failed};
use super::{Held, Lent};
use crate::error::SubjectError;
use crate::reference::shape::GraphShape;
use crate::reference::task::Task;
use crate::subject::GraphOutcome;

/// One task.
pub(super) struct Numbered {
    task: Lent<dyn Task>,
    number: u32,
}

impl NativeKernel for Numbered {
    fn name(&self) -> &'static str {
        "task"
    }

    #[inline]
    unsafe fn run(&self, _: &[RawArgument], _: Range<u32>) -> quipu_scheduler::Result<()> {
        self.task.get().run(self.number);
        Ok(())
    }
}

/// The queue and the shape.
pub(super) struct Graph {
    held: Held<dyn Task>,
    shape: Arc<GraphShape>,
}

impl Graph {
    pub(super) fn new(
        pool: &Pool,
        shape: Arc<GraphShape>,
        task: Arc<dyn Task>,
    ) -> Result<Self, SubjectError> {
        Ok(Graph {
            held: Held::new(vec![pool.queue(false)?], task),
            shape,
        })
    }

    pub(super) fn run(&mut self) -> Result<GraphOutcome, SubjectError> {
        let gate = UserEvent::new();
        let started = Instant::now();
        let events = self
            .enqueue(&[gate.event()])
            .map_err(failed("enqueueing a task"))?;
        // The references give none to be kept either.
        drop(events);
        let build = started.elapsed();
        let started = Instant::now();
        gate.complete();
        self.held.wait()?;
        let elapsed = started.elapsed();
        Ok(GraphOutcome { build, elapsed })
    }

    /// The task of this number, as a kernel.
    pub(super) fn task(&self, number: usize) -> Numbered {
        Numbered {
            task: self.held.lend(),
            number: number as u32,
        }
    }

    /// The queue, and the tasks that are in it.
    pub(super) fn held(&self) -> &Held<dyn Task> {
        &self.held
    }

    /// Enqueues every task, the first after `held`; their events.
    pub(super) fn enqueue(&self, held: &[Event]) -> quipu_scheduler::Result<Vec<Event>> {
        let queue = self.held.queue();
        let mut events: Vec<Event> = Vec::with_capacity(self.shape.tasks());
        let mut scattered = Vec::new();
        for number in 0..self.shape.tasks() {
            let waits = match self.shape.predecessors(number) {
                [] => held,
                before => match neighbours(before) {
                    Some(range) => &events[range],
                    None => {
                        scattered.clear();
                        scattered.extend(before.iter().map(|&task| events[task as usize].clone()));
                        &scattered[..]
                    }
                },
            };
            let request = Request {
                waits,
                ..Request::default()
            };
            events.push(queue.launch(self.task(number), 1, &request)?);
        }
        Ok(events)
    }
}

/// The tasks as a range, if they follow one another.
fn neighbours(tasks: &[u32]) -> Option<Range<usize>> {
    let (first, last) = (*tasks.first()? as usize, *tasks.last()? as usize);
    (last - first + 1 == tasks.len()).then_some(first..last + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn neighbours_are_a_range() {
        assert_eq!(neighbours(&[3]), Some(3..4));
        assert_eq!(neighbours(&[3, 4, 5]), Some(3..6));
        assert_eq!(neighbours(&[3, 5]), None);
        assert_eq!(neighbours(&[]), None);
    }
}
