//! Quipu itself as a [`Subject`]: the core over the CPU driver's pool.
//!
//! It uses the core as a user does: launches that give events, hazards found by the core from the
//! buffers that a kernel names, explicit waits where the benchmark is about them, results read
//! back by commands. What it does beyond that:
//!
//! * One pool and context per number of workers, started when first asked for and kept. Pools that
//!   are not measured sleep.
//! * Kernels do not count references to what they share (the task of a graph, a counter): they
//!   borrow it, as the closures of rayon's scopes do; `lent` makes that sound.
//!
//! | module | benchmarks |
//! |---|---|
//! | `pool` | none: a pool of workers with a context over it, for all of them |
//! | `serial` | `in-order`, `out-of-order` |
//! | `batches` | the three imbalance benchmarks |
//! | `parallel` | `in-order-parallel` |
//! | `graph` | `graphs` |
//! | `nested` | `nested` |
//! | `recorded` | `recorded` |
//! | `ranges` | `ranges` |
//! | `counted` | `enqueue`, `no-op`, `memory` |
//! | `idle` | `idle` |
//! | `stream` | `babelstream` |

mod batches;
mod counted;
mod graph;
mod idle;
mod lent;
mod nested;
mod parallel;
mod pool;
mod ranges;
mod recorded;
mod serial;
mod stream;

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use crate::error::SubjectError;
use crate::reference::imbalance::BatchWork;
use crate::reference::nested::Tree;
use crate::reference::shape::GraphShape;
use crate::reference::stream::{Precision, StreamArray};
use crate::reference::task::Task;
use crate::subject::{
    BatchOutcome, ChainOutcome, CommandOutcome, Declared, EnqueueParameters, GraphOutcome,
    InOrderParallel, PendingCommands, Prepared, Queues, RangesOutcome, RecordedOutcome,
    StreamArrays, Subject,
};
use pool::Pool;

pub(crate) use lent::{Held, Lent};

/// Quipu on the processor's cores.
#[derive(Default)]
pub struct Quipu {
    pools: Mutex<BTreeMap<usize, Pool>>,
}

impl Quipu {
    /// Quipu; pools are started when they are needed.
    pub fn new() -> Self {
        Quipu::default()
    }

    /// The pool of so many workers.
    fn pool(&self, workers: usize) -> Result<Pool, SubjectError> {
        let mut pools = self.pools.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(pool) = pools.get(&workers) {
            return Ok(pool.clone());
        }
        let pool = Pool::start(workers)?;
        pools.insert(workers, pool.clone());
        Ok(pool)
    }
}

impl Subject for Quipu {
    fn device(&self) -> String {
        "cpu".into()
    }

    fn serial_chain(
        &self,
        workers: usize,
        queues: Queues,
        kernels: usize,
    ) -> Prepared<'_, ChainOutcome> {
        let mut chain = serial::Chain::new(&self.pool(workers)?, queues, kernels)?;
        Ok(Box::new(move || chain.run()))
    }

    fn batches(
        &self,
        workers: usize,
        work: Arc<BatchWork>,
        batches: usize,
    ) -> Prepared<'_, BatchOutcome> {
        let mut runner = batches::Batches::new(&self.pool(workers)?, work, batches)?;
        Ok(Box::new(move || runner.run()))
    }

    fn in_order_parallel(
        &self,
        workers: usize,
        kernels: usize,
        declared: Declared,
    ) -> Result<Box<dyn InOrderParallel + '_>, SubjectError> {
        let pool = self.pool(workers)?;
        Ok(Box::new(parallel::Readers::new(&pool, kernels, declared)?))
    }

    fn graph(
        &self,
        workers: usize,
        shape: Arc<GraphShape>,
        task: Arc<dyn Task>,
    ) -> Prepared<'_, GraphOutcome> {
        let mut graph = graph::Graph::new(&self.pool(workers)?, shape, task)?;
        Ok(Box::new(move || graph.run()))
    }

    fn nested(&self, workers: usize, tree: Arc<Tree>) -> Prepared<'_, Duration> {
        let mut nested = nested::Nested::new(&self.pool(workers)?, tree)?;
        Ok(Box::new(move || nested.run()))
    }

    fn recorded_chain(
        &self,
        workers: usize,
        kernels: usize,
        recorded: bool,
    ) -> Prepared<'_, RecordedOutcome> {
        let mut chain = recorded::Chain::new(&self.pool(workers)?, kernels, recorded)?;
        Ok(Box::new(move || chain.run()))
    }

    fn recorded_graph(
        &self,
        workers: usize,
        shape: Arc<GraphShape>,
        task: Arc<dyn Task>,
        recorded: bool,
    ) -> Prepared<'_, RecordedOutcome> {
        let pool = self.pool(workers)?;
        let mut graph = recorded::Shaped::new(&pool, shape, task, recorded)?;
        Ok(Box::new(move || graph.run()))
    }

    fn ranges(&self, workers: usize, parts: Vec<Range<usize>>) -> Prepared<'_, RangesOutcome> {
        let mut ranges = ranges::Ranges::new(&self.pool(workers)?, parts)?;
        Ok(Box::new(move || ranges.run()))
    }

    fn enqueue(
        &self,
        workers: usize,
        parameters: EnqueueParameters,
    ) -> Prepared<'_, CommandOutcome> {
        let mut enqueue = counted::Enqueue::new(&self.pool(workers)?, parameters)?;
        Ok(Box::new(move || enqueue.run()))
    }

    fn no_op(&self, workers: usize) -> Prepared<'_, CommandOutcome> {
        let mut no_op = counted::NoOp::new(&self.pool(workers)?)?;
        Ok(Box::new(move || no_op.run()))
    }

    fn idle(&self, workers: usize) -> Prepared<'_, ()> {
        let mut idle = idle::Idle::new(&self.pool(workers)?, workers)?;
        Ok(Box::new(move || idle.run()))
    }

    fn pending(&self, workers: usize) -> Result<Box<dyn PendingCommands + '_>, SubjectError> {
        Ok(Box::new(counted::Pending::new(&self.pool(workers)?)?))
    }

    fn stream(
        &self,
        workers: usize,
        precision: Precision,
        length: usize,
    ) -> Result<Box<dyn StreamArrays + '_>, SubjectError> {
        let pool = self.pool(workers)?;
        Ok(match precision {
            Precision::Single => Box::new(stream::Arrays::<f32>::new(&pool, length)?),
            Precision::Double => Box::new(stream::Arrays::<f64>::new(&pool, length)?),
        })
    }
}

/// A stream array's place in a list of three.
fn place(array: StreamArray) -> usize {
    match array {
        StreamArray::A => 0,
        StreamArray::B => 1,
        StreamArray::C => 2,
    }
}
