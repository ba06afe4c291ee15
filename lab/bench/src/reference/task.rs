//! The tasks of graphs.
//!
//! Every executor calls tasks through `&dyn Task`, the subject as well: the call costs all of them
//! the same. Timed runs use [`EmptyTask`], [`SpinTask`] or [`AddTask`]; a run of its own with
//! [`StampedTask`] verifies the order, so that timed runs do not pay for it.

use std::hint::black_box;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU32, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use crate::reference::shape::GraphShape;

/// The body of every task of a graph.
pub trait Task: Send + Sync {
    /// Runs the task with this number.
    fn run(&self, task: u32);
}

/// Does nothing.
#[derive(Clone, Copy, Debug)]
pub struct EmptyTask;

impl Task for EmptyTask {
    #[inline]
    fn run(&self, task: u32) {
        black_box(task);
    }
}

/// Computes for a while: a chain of integer multiplications, so that it takes the same cycles
/// wherever it runs and reads no clock.
#[derive(Clone, Copy, Debug)]
pub struct SpinTask {
    steps: u32,
}

impl SpinTask {
    /// A task that takes this many steps.
    pub fn with_steps(steps: u32) -> Self {
        SpinTask { steps }
    }

    /// A task that takes about `wanted`: steps are timed a few times and the fastest time counts.
    pub fn lasting(wanted: Duration) -> Self {
        const PROBE: u32 = 200_000;
        let fastest = (0..5)
            .map(|_| {
                let started = Instant::now();
                spin(PROBE);
                started.elapsed()
            })
            .min()
            .unwrap_or_default();
        let steps = f64::from(PROBE) * wanted.as_secs_f64() / fastest.as_secs_f64().max(1e-9);
        SpinTask {
            steps: steps.ceil().clamp(1.0, f64::from(u32::MAX)) as u32,
        }
    }

    /// The number of steps that it takes.
    pub fn steps(&self) -> u32 {
        self.steps
    }
}

impl Task for SpinTask {
    fn run(&self, _task: u32) {
        spin(self.steps);
    }
}

#[inline(never)]
fn spin(steps: u32) {
    let mut value = black_box(0x9e37_79b9_7f4a_7c15_u64);
    for _ in 0..steps {
        // Each step needs the one before, and the shift keeps steps from being folded into one:
        // nothing to vectorise, to run ahead or to compute at once.
        value = (value ^ (value >> 29)).wrapping_mul(0x5851_f42d_4c95_7f2d);
    }
    black_box(value);
}

/// One integer addition, as in the kernels of serial graphs.
///
/// Load and store are separate: it counts right only if tasks are ordered by the graph.
#[derive(Debug, Default)]
pub struct AddTask {
    sum: AtomicI64,
}

impl AddTask {
    /// The sum so far; starts again at zero.
    pub fn take(&self) -> i64 {
        self.sum.swap(0, Ordering::AcqRel)
    }
}

impl Task for AddTask {
    #[inline]
    fn run(&self, _task: u32) {
        let sum = self.sum.load(Ordering::Relaxed);
        self.sum.store(sum + 1, Ordering::Relaxed);
    }
}

/// Checks that each task runs exactly once and after all of its predecessors.
///
/// A task reads its predecessors' stamps with Relaxed: what is verified is that *the executor*
/// orders them; a Relaxed read of a stamp that happened before must see it.
pub struct StampedTask {
    shape: Arc<GraphShape>,
    stamps: Vec<AtomicU32>,
    early: AtomicUsize,
}

impl StampedTask {
    /// A checker for graphs of this shape.
    pub fn new(shape: Arc<GraphShape>) -> Self {
        let stamps = (0..shape.tasks()).map(|_| AtomicU32::new(0)).collect();
        StampedTask {
            shape,
            stamps,
            early: AtomicUsize::new(0),
        }
    }

    /// The findings; everything starts again.
    pub fn take(&self) -> OrderVerdict {
        let mut verdict = OrderVerdict {
            early: self.early.swap(0, Ordering::AcqRel),
            ..OrderVerdict::default()
        };
        for stamp in &self.stamps {
            match stamp.swap(0, Ordering::AcqRel) {
                0 => verdict.missing += 1,
                1 => {}
                _ => verdict.repeated += 1,
            }
        }
        verdict
    }
}

impl Task for StampedTask {
    fn run(&self, task: u32) {
        let task = task as usize;
        let waited_for = self.shape.predecessors(task);
        let missing = |before: &&u32| self.stamps[**before as usize].load(Ordering::Relaxed) == 0;
        if waited_for.iter().any(|before| missing(&before)) {
            self.early.fetch_add(1, Ordering::Relaxed);
        }
        self.stamps[task].fetch_add(1, Ordering::Relaxed);
    }
}

/// The faults that [`StampedTask`] found: all zero for a correct run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OrderVerdict {
    /// Tasks that ran before one of their predecessors.
    pub early: usize,
    /// Tasks that never ran.
    pub missing: usize,
    /// Tasks that ran more than once.
    pub repeated: usize,
}

impl std::fmt::Display for OrderVerdict {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            formatter,
            "{} tasks too early, {} never run, {} run again",
            self.early, self.missing, self.repeated
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stamps_tell_early_missing_and_repeated_tasks() {
        let task = StampedTask::new(Arc::new(GraphShape::chain(4)));
        for number in [0, 1, 2, 3] {
            task.run(number);
        }
        assert_eq!(task.take(), OrderVerdict::default());
        for number in [1, 0, 0, 2] {
            task.run(number);
        }
        let verdict = task.take();
        let expected = OrderVerdict {
            early: 1,
            missing: 1,
            repeated: 1,
        };
        assert_eq!(verdict, expected);
        assert_eq!(task.take().missing, 4, "taking starts again");
    }

    #[test]
    fn longer_spins_have_more_steps() {
        let short = SpinTask::lasting(Duration::from_micros(1)).steps();
        let long = SpinTask::lasting(Duration::from_millis(1)).steps();
        assert!(short >= 1 && long > short);
    }

    #[test]
    fn adds_are_counted_once() {
        let task = AddTask::default();
        (0..7).for_each(|number| task.run(number));
        assert_eq!(task.take(), 7);
        assert_eq!(task.take(), 0);
    }
}
