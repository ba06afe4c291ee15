//! Counted graphs on tokio's multi-thread runtime: one spawned future per ready task.
//!
//! The clock starts in a task of the runtime, so tokio is not charged for waking its first worker.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use tokio::runtime::{Builder, Runtime};
use tokio::sync::Notify;

use crate::error::BenchError;
use crate::reference::counted::{CountedGraph, GraphExecutor};
use crate::reference::task::Task;

/// A tokio runtime that runs counted graphs.
pub struct TokioExecutor {
    runtime: Runtime,
}

impl TokioExecutor {
    /// An executor with this many workers.
    ///
    /// # Errors
    /// If the runtime cannot be started.
    pub fn new(workers: usize) -> Result<Self, BenchError> {
        let runtime = Builder::new_multi_thread()
            .worker_threads(workers.max(1))
            .build()
            .map_err(|source| BenchError::Threads {
                reference: "tokio",
                workers,
                source: Box::new(source),
            })?;
        Ok(TokioExecutor { runtime })
    }
}

struct Job {
    graph: Arc<CountedGraph>,
    task: Arc<dyn Task>,
    unfinished: AtomicUsize,
    done: Notify,
}

impl GraphExecutor for TokioExecutor {
    fn name(&self) -> &'static str {
        "tokio"
    }

    fn run(&mut self, graph: &Arc<CountedGraph>, task: &Arc<dyn Task>) -> Duration {
        if graph.tasks() == 0 {
            return Duration::ZERO;
        }
        let job = Arc::new(Job {
            graph: Arc::clone(graph),
            task: Arc::clone(task),
            unfinished: AtomicUsize::new(graph.tasks()),
            done: Notify::new(),
        });
        let whole = self.runtime.spawn(async move {
            let started = Instant::now();
            for &root in job.graph.roots() {
                spawn(Arc::clone(&job), root);
            }
            job.done.notified().await;
            started.elapsed()
        });
        self.runtime
            .block_on(whole)
            .expect("the task that waits neither panics nor is cancelled")
    }
}

fn spawn(job: Arc<Job>, task: u32) {
    // Nobody joins it: completion is counted.
    drop(tokio::spawn(async move {
        job.task.run(task);
        job.graph
            .complete(task, |ready| spawn(Arc::clone(&job), ready));
        if job.unfinished.fetch_sub(1, Ordering::AcqRel) == 1 {
            job.done.notify_one();
        }
    }));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reference::shape::GraphShape;
    use crate::reference::task::OrderVerdict;

    #[test]
    fn every_shape_runs_once_and_in_order() {
        for workers in [1, 3] {
            let mut executor = TokioExecutor::new(workers).expect("a few threads");
            for shape in GraphShape::tiny().into_iter().chain(GraphShape::standard()) {
                let shape = Arc::new(shape);
                let verdict = executor.verify(&shape);
                assert_eq!(
                    verdict,
                    OrderVerdict::default(),
                    "{} x{workers}",
                    shape.name()
                );
            }
        }
    }
}
