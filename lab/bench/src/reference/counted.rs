//! A graph with one atomic counter per task, for the hand-written executor, rayon and tokio.
//!
//! Protocol:
//!
//! 1. [`CountedGraph::reset`] sets every counter to its task's in-degree.
//! 2. The executor starts the [`roots`](CountedGraph::roots).
//! 3. After running a task it calls [`complete`](CountedGraph::complete), which lowers the counters
//!    of the successors and hands back those that reached zero, each exactly once.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use crate::reference::shape::GraphShape;
use crate::reference::task::{OrderVerdict, StampedTask, Task};

/// A graph ready to be run, again and again.
pub struct CountedGraph {
    /// The successors of task `t` are `successors[starts[t]..starts[t + 1]]`.
    starts: Vec<u32>,
    successors: Vec<u32>,
    in_degrees: Vec<u32>,
    waits: Vec<AtomicU32>,
    roots: Vec<u32>,
}

impl CountedGraph {
    /// Builds the graph of a shape.
    pub fn new(shape: &GraphShape) -> Self {
        let tasks = shape.tasks();
        let mut starts = vec![0_u32; tasks + 1];
        for task in 0..tasks {
            for &before in shape.predecessors(task) {
                starts[before as usize + 1] += 1;
            }
        }
        for task in 0..tasks {
            starts[task + 1] += starts[task];
        }
        let mut next = starts.clone();
        let mut successors = vec![0_u32; shape.edges()];
        let mut in_degrees = Vec::with_capacity(tasks);
        let mut roots = Vec::new();
        for (task, number) in (0..tasks).zip(0_u32..) {
            let waited_for = shape.predecessors(task);
            for &before in waited_for {
                let slot = &mut next[before as usize];
                successors[*slot as usize] = number;
                *slot += 1;
            }
            if waited_for.is_empty() {
                roots.push(number);
            }
            in_degrees.push(waited_for.len() as u32);
        }
        let waits = in_degrees
            .iter()
            .map(|&count| AtomicU32::new(count))
            .collect();
        CountedGraph {
            starts,
            successors,
            in_degrees,
            waits,
            roots,
        }
    }

    /// The number of tasks.
    pub fn tasks(&self) -> usize {
        self.in_degrees.len()
    }

    /// The tasks that wait for nothing.
    pub fn roots(&self) -> &[u32] {
        &self.roots
    }

    /// Makes the graph ready for another run. Nobody may be running it.
    pub fn reset(&self) {
        for (wait, &count) in self.waits.iter().zip(&self.in_degrees) {
            wait.store(count, Ordering::Relaxed);
        }
    }

    /// Says that `task` has run; calls `ready` for each task that waited for nothing else.
    #[inline]
    pub fn complete(&self, task: u32, mut ready: impl FnMut(u32)) {
        let task = task as usize;
        for &next in &self.successors[self.starts[task] as usize..self.starts[task + 1] as usize] {
            let wait = &self.waits[next as usize];
            // A count of one is ours alone: everybody else has been here, so the read-modify-write
            // can be saved. Acquire sees what they released by lowering it.
            if wait.load(Ordering::Acquire) == 1 || wait.fetch_sub(1, Ordering::AcqRel) == 1 {
                ready(next);
            }
        }
    }
}

/// Something that runs graphs.
pub trait GraphExecutor {
    /// The name in the reference column.
    fn name(&self) -> &'static str;

    /// Runs every task of a reset graph; returns the time from the first task's release to the
    /// last task's end. The caller resets the graph before each run.
    fn run(&mut self, graph: &Arc<CountedGraph>, task: &Arc<dyn Task>) -> Duration;

    /// Runs the shape once with order stamps.
    fn verify(&mut self, shape: &Arc<GraphShape>) -> OrderVerdict {
        let stamped = Arc::new(StampedTask::new(Arc::clone(shape)));
        let task: Arc<dyn Task> = Arc::clone(&stamped) as Arc<dyn Task>;
        self.run(&Arc::new(CountedGraph::new(shape)), &task);
        stamped.take()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Runs a graph on one thread, taking ready tasks in any order that `pick` likes.
    fn drain(graph: &CountedGraph, mut pick: impl FnMut(usize) -> usize) -> Vec<u32> {
        let mut ready = graph.roots().to_vec();
        let mut order = Vec::new();
        while !ready.is_empty() {
            let task = ready.swap_remove(pick(ready.len()));
            order.push(task);
            graph.complete(task, |next| ready.push(next));
        }
        order
    }

    #[test]
    fn every_task_becomes_ready_once_whatever_the_order() {
        for shape in GraphShape::tiny().into_iter().map(Arc::new) {
            let graph = CountedGraph::new(&shape);
            let stamped = StampedTask::new(Arc::clone(&shape));
            for (first, reset) in [(true, false), (false, true), (true, true)] {
                if reset {
                    graph.reset();
                }
                let order = drain(&graph, |ready| if first { 0 } else { ready - 1 });
                order.into_iter().for_each(|task| stamped.run(task));
                assert_eq!(stamped.take(), OrderVerdict::default(), "{}", shape.name());
            }
        }
    }

    /// An executor that is wrong: it ignores the dependencies.
    struct Backwards;

    impl GraphExecutor for Backwards {
        fn name(&self) -> &'static str {
            "backwards"
        }

        fn run(&mut self, graph: &Arc<CountedGraph>, task: &Arc<dyn Task>) -> Duration {
            (0..graph.tasks() as u32)
                .rev()
                .for_each(|number| task.run(number));
            Duration::ZERO
        }
    }

    #[test]
    fn verification_catches_an_executor_that_ignores_dependencies() {
        let verdict = Backwards.verify(&Arc::new(GraphShape::chain(5)));
        assert_eq!(verdict.early, 4);
    }
}
