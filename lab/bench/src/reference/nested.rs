//! Trees of tasks that are known only as they run: each task spawns its children. And rayon, which
//! runs them in a scope.

use std::hint::black_box;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use rayon::{Scope, ThreadPool};

use crate::error::BenchError;
use crate::reference::rayon_executor::rayon_pool;
use crate::reference::task::{SpinTask, Task};

/// The tasks of a tree.
#[derive(Clone, Copy, Debug)]
pub enum Growth {
    /// Every task has so many children, down to a depth, and takes its time after it has spawned
    /// them.
    Fan {
        /// Children of each task.
        width: u32,
        /// Generations below the root.
        depth: u32,
        /// The work of each task.
        work: SpinTask,
    },
    /// A Fibonacci number by its definition: two children each, and below `cutoff` one function
    /// that calls itself.
    Fibonacci {
        /// Its number.
        number: u32,
        /// Tasks of smaller numbers compute them.
        cutoff: u32,
    },
}

/// A tree, with what its tasks have done.
#[derive(Debug)]
pub struct Tree {
    growth: Growth,
    tasks: AtomicU64,
    sum: AtomicU64,
}

/// The result of all tasks of a tree: their number, and the sum of their results.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Harvest {
    /// Tasks that have run.
    pub tasks: u64,
    /// The sum of their results: one for each task of a fan.
    pub sum: u64,
}

impl Tree {
    /// A tree of which nothing has run.
    pub fn new(growth: Growth) -> Self {
        Tree {
            growth,
            tasks: AtomicU64::new(0),
            sum: AtomicU64::new(0),
        }
    }

    /// The root: a task is told by how far it is from its leaves, or by its Fibonacci number.
    pub fn root(&self) -> u32 {
        match self.growth {
            Growth::Fan { depth, .. } => depth,
            Growth::Fibonacci { number, .. } => number,
        }
    }

    /// Runs a task, which hands its children to `spawn`.
    #[inline]
    pub fn run(&self, task: u32, mut spawn: impl FnMut(u32)) {
        let result = match self.growth {
            Growth::Fan { width, work, .. } => {
                if let Some(child) = task.checked_sub(1) {
                    (0..width).for_each(|_| spawn(child));
                }
                work.run(task);
                1
            }
            Growth::Fibonacci { cutoff, .. } if task >= cutoff.max(2) => {
                spawn(task - 1);
                spawn(task - 2);
                0
            }
            Growth::Fibonacci { .. } => fibonacci(black_box(task)),
        };
        if result > 0 {
            self.sum.fetch_add(result, Ordering::Relaxed);
        }
        self.tasks.fetch_add(1, Ordering::Release);
    }

    /// The number of tasks that have run.
    pub fn tasks(&self) -> u64 {
        self.tasks.load(Ordering::Acquire)
    }

    /// The result of all tasks; starts again at nothing.
    pub fn take(&self) -> Harvest {
        Harvest {
            tasks: self.tasks.swap(0, Ordering::AcqRel),
            sum: self.sum.swap(0, Ordering::AcqRel),
        }
    }

    /// The result of all tasks when all have run.
    pub fn whole(&self) -> Harvest {
        match self.growth {
            Growth::Fan { width, depth, .. } => {
                let tasks = (0..=depth).map(|level| u64::from(width).pow(level)).sum();
                Harvest { tasks, sum: tasks }
            }
            Growth::Fibonacci { number, cutoff } => {
                let (mut before, mut last) = (0, 0);
                for task in 0..=number {
                    let tasks = if task >= cutoff.max(2) {
                        1 + last + before
                    } else {
                        1
                    };
                    (before, last) = (last, tasks);
                }
                Harvest {
                    tasks: last,
                    sum: fibonacci(number),
                }
            }
        }
    }
}

fn fibonacci(number: u32) -> u64 {
    match number {
        0 | 1 => number.into(),
        _ => fibonacci(number - 1) + fibonacci(number - 2),
    }
}

/// A rayon pool that runs trees, one scope each.
pub struct RayonTrees {
    pool: ThreadPool,
}

impl RayonTrees {
    /// A pool of so many threads.
    ///
    /// # Errors
    /// If it cannot be started.
    pub fn new(workers: usize) -> Result<Self, BenchError> {
        Ok(RayonTrees {
            pool: rayon_pool(workers)?,
        })
    }

    /// Runs a tree, from the call until all of its tasks are over.
    pub fn run(&self, tree: &Arc<Tree>) -> Duration {
        let tree = &**tree;
        let started = Instant::now();
        self.pool.scope(|scope| spawn(scope, tree, tree.root()));
        started.elapsed()
    }
}

fn spawn<'scope>(scope: &Scope<'scope>, tree: &'scope Tree, task: u32) {
    scope.spawn(move |scope| tree.run(task, |child| spawn(scope, tree, child)));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whole_trees_are_known_beforehand() {
        let fan = |width, depth| Growth::Fan {
            width,
            depth,
            work: SpinTask::with_steps(1),
        };
        let fibonacci = |number, cutoff| Growth::Fibonacci { number, cutoff };
        let known = [
            (fan(64, 0), 1, 1),
            (fan(3, 2), 13, 13),
            (fibonacci(1, 4), 1, 1),
            (fibonacci(5, 4), 5, 5),
            (fibonacci(6, 4), 9, 8),
            (fibonacci(7, 0), 41, 13),
        ];
        for workers in [1, 3] {
            let rayon = RayonTrees::new(workers).expect("a few threads");
            for (growth, tasks, sum) in known {
                let tree = Arc::new(Tree::new(growth));
                assert_eq!(tree.whole(), Harvest { tasks, sum }, "{growth:?}");
                rayon.run(&tree);
                assert_eq!(tree.take(), tree.whole(), "{growth:?}");
                assert_eq!(tree.take(), Harvest::default());
            }
        }
    }
}
