//! Counted graphs on rayon: one scope, one spawn per ready task.
//!
//! The clock starts inside the pool, so rayon is not charged for waking its first worker.

use std::sync::Arc;
use std::time::{Duration, Instant};

use rayon::{Scope, ThreadPool, ThreadPoolBuilder};

use crate::error::BenchError;
use crate::reference::counted::{CountedGraph, GraphExecutor};
use crate::reference::task::Task;

/// A rayon pool that runs counted graphs.
pub struct RayonExecutor {
    pool: ThreadPool,
}

impl RayonExecutor {
    /// An executor with this many workers.
    ///
    /// # Errors
    /// If the pool cannot be started.
    pub fn new(workers: usize) -> Result<Self, BenchError> {
        let pool = rayon_pool(workers)?;
        Ok(RayonExecutor { pool })
    }
}

/// A rayon pool with this many threads.
pub(crate) fn rayon_pool(workers: usize) -> Result<ThreadPool, BenchError> {
    let builder = ThreadPoolBuilder::new().num_threads(workers);
    builder.build().map_err(|source| BenchError::Threads {
        reference: "rayon",
        workers,
        source: Box::new(source),
    })
}

impl GraphExecutor for RayonExecutor {
    fn name(&self) -> &'static str {
        "rayon"
    }

    fn run(&mut self, graph: &Arc<CountedGraph>, task: &Arc<dyn Task>) -> Duration {
        let (graph, body) = (&**graph, &**task);
        self.pool.install(|| {
            let started = Instant::now();
            rayon::scope(|scope| {
                for &root in graph.roots() {
                    spawn(scope, graph, body, root);
                }
            });
            started.elapsed()
        })
    }
}

fn spawn<'scope>(
    scope: &Scope<'scope>,
    graph: &'scope CountedGraph,
    body: &'scope dyn Task,
    task: u32,
) {
    scope.spawn(move |scope| {
        body.run(task);
        graph.complete(task, |ready| spawn(scope, graph, body, ready));
    });
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reference::shape::GraphShape;
    use crate::reference::task::OrderVerdict;

    #[test]
    fn every_shape_runs_once_and_in_order() {
        for workers in [1, 3] {
            let mut executor = RayonExecutor::new(workers).expect("a few threads");
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
