//! The trait of a runtime that can be measured.
//!
//! Every method of [`Subject`] *prepares*: it makes a device with the asked number of workers, the
//! queues, buffers and kernels, and returns a closure (or an object) that does one run each time it
//! is called. Preparing is never timed. The subject times what the method's documentation says, for
//! only it knows when its user event is released; the benchmark verifies what it hands back.
//!
//! A subject may leave out what it cannot do: every method's default says so with a clear error.

use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use crate::error::SubjectError;
use crate::reference::imbalance::BatchWork;
use crate::reference::nested::Tree;
use crate::reference::shape::GraphShape;
use crate::reference::stream::{Precision, StreamArray, StreamKernel};
use crate::reference::task::Task;

/// One run per call.
pub type Run<'a, Outcome> = Box<dyn FnMut() -> Result<Outcome, SubjectError> + 'a>;

/// A prepared benchmark.
pub type Prepared<'a, Outcome> = Result<Run<'a, Outcome>, SubjectError>;

/// The queues that a serial graph goes through.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Queues {
    /// One in-order queue, which does the ordering.
    OneInOrder,
    /// Two out-of-order queues in turn; each kernel waits for the event of the one before.
    TwoOutOfOrder,
}

/// The outcome of a serial graph.
#[derive(Clone, Copy, Debug)]
pub struct ChainOutcome {
    /// From the release of the user event until the queues are finished.
    pub elapsed: Duration,
    /// The integer that every kernel adds one to, read back; it is zero before the run.
    pub sum: i64,
}

/// The outcome of batches of imbalanced kernels.
#[derive(Clone, Debug)]
pub struct BatchOutcome {
    /// From the release of the user event until the queue is finished.
    pub elapsed: Duration,
    /// The kernels' buffers, read back.
    pub buffers: Vec<Vec<f32>>,
}

/// The declaration of a kernel's argument that is only read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Declared {
    /// Buffer and argument say that it is only read.
    ReadOnly,
    /// The buffer's flag says read and write; that it is only read is known from the kernel.
    ReadWrite,
}

/// The outcome of `in-order-parallel`.
#[derive(Clone, Debug)]
pub struct ParallelOutcome {
    /// From the release of the user event until the queue is finished.
    pub elapsed: Duration,
    /// The one float that each kernel wrote to its own buffer.
    pub results: Vec<f32>,
}

/// One write, then kernels that only read what it wrote.
pub trait InOrderParallel {
    /// Enqueues behind a user event: the write of `input` to the shared buffer, then the kernels,
    /// kernel `k` writing [`reduce`](crate::reference::imbalance::reduce)`(shared, k)` to a buffer
    /// of its own.
    fn run(&mut self, input: &[f32]) -> Result<ParallelOutcome, SubjectError>;
}

/// The outcome of a task graph.
#[derive(Clone, Copy, Debug)]
pub struct GraphOutcome {
    /// Enqueueing all tasks, behind a user event.
    pub build: Duration,
    /// From the release of the user event until all tasks have finished.
    pub elapsed: Duration,
}

/// The outcome of commands that are launched as a recorded graph, or enqueued one by one.
#[derive(Clone, Copy, Debug)]
pub struct RecordedOutcome {
    /// Until the calling thread could go on.
    pub handed_over: Duration,
    /// Until all commands have finished, from the same moment on.
    pub elapsed: Duration,
    /// The integer that every kernel of a chain adds one to, read back; it is zero before the run.
    pub sum: Option<i64>,
}

/// The outcome of commands on overlapping parts.
#[derive(Clone, Debug)]
pub struct RangesOutcome {
    /// From the first enqueue until all commands have finished.
    pub elapsed: Duration,
    /// The object that the last command changed, read back.
    pub last: Vec<i64>,
}

/// The way of enqueueing when enqueueing itself is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EnqueueParameters {
    /// The number of commands to enqueue.
    pub commands: usize,
    /// The number of buffers that each command reads and writes; always the same, so the commands
    /// make a chain.
    pub buffers: usize,
    /// True if workers run the commands meanwhile, or a user event holds them back.
    pub running: bool,
}

/// The outcome of enqueueing, or of one no-op.
#[derive(Clone, Copy, Debug)]
pub struct CommandOutcome {
    /// The part that the method says is timed.
    pub elapsed: Duration,
    /// The number of commands that have run in this run, counted by the commands themselves.
    pub executed: u64,
}

/// Commands that wait, for as long as it takes to look at the process's memory.
pub trait PendingCommands {
    /// Enqueues so many more commands behind a user event that is not complete, each with four
    /// buffer arguments and two explicit waits.
    fn enqueue(&mut self, commands: usize) -> Result<(), SubjectError>;

    /// Completes the user event and waits for all; returns how many commands have run since the
    /// last call, counted by the commands themselves.
    fn finish(&mut self) -> Result<u64, SubjectError>;
}

/// The outcome of one streaming kernel.
#[derive(Clone, Copy, Debug)]
pub struct StreamOutcome {
    /// Enqueueing the kernel and waiting for it (for the dot product: and its result).
    pub elapsed: Duration,
    /// The dot product's sum, `None` for the other kernels.
    pub sum: Option<f64>,
}

/// Three arrays with BabelStream's initial values, and the five kernels.
pub trait StreamArrays {
    /// Runs one kernel.
    fn run(&mut self, kernel: StreamKernel) -> Result<StreamOutcome, SubjectError>;

    /// Reads one array back.
    fn read(&mut self, array: StreamArray) -> Result<Vec<f64>, SubjectError>;
}

/// A runtime that is measured, on one kind of device.
///
/// `workers` is how many threads (or compute units) the device may use, beside the calling thread.
pub trait Subject {
    /// The name in the device column.
    fn device(&self) -> String;

    /// `in-order` and `out-of-order`: `kernels` kernels that each add one to the same integer,
    /// held by a user event.
    fn serial_chain(
        &self,
        workers: usize,
        queues: Queues,
        kernels: usize,
    ) -> Prepared<'_, ChainOutcome> {
        let _ = (workers, queues, kernels);
        Err(self.unsupported("serial chain"))
    }

    /// The imbalance benchmarks: `batches` times the kernels of `work.batch()`.
    ///
    /// A batch of several kernels goes to an out-of-order queue, every kernel waiting for all of
    /// the batch before; a batch of one kernel goes to an in-order queue. Each run begins with
    /// buffers as `work.batch().initial_buffers()` gives them, one per kernel; work-group `g` of
    /// kernel `k` in batch `b` calls `work.run(b, k, g, its slice)`, where the slices of a
    /// kernel's groups follow one another in its buffer.
    fn batches(
        &self,
        workers: usize,
        work: Arc<BatchWork>,
        batches: usize,
    ) -> Prepared<'_, BatchOutcome> {
        let _ = (workers, work, batches);
        Err(self.unsupported("imbalanced batches"))
    }

    /// `in-order-parallel`, in one in-order queue.
    fn in_order_parallel(
        &self,
        workers: usize,
        kernels: usize,
        declared: Declared,
    ) -> Result<Box<dyn InOrderParallel + '_>, SubjectError> {
        let _ = (workers, kernels, declared);
        Err(self.unsupported("in-order-parallel"))
    }

    /// `graphs`: enqueues the shape's tasks in ascending order, each waiting for its predecessors,
    /// all held by a user event; task `t` calls `task.run(t)`.
    fn graph(
        &self,
        workers: usize,
        shape: Arc<GraphShape>,
        task: Arc<dyn Task>,
    ) -> Prepared<'_, GraphOutcome> {
        let _ = (workers, shape, task);
        Err(self.unsupported("graphs"))
    }

    /// `nested`: enqueues the tree's root, and gives the time until all of its tasks have run. Each
    /// task is a command that calls `tree.run(task, …)`, and enqueues the children that it is
    /// handed.
    fn nested(&self, workers: usize, tree: Arc<Tree>) -> Prepared<'_, Duration> {
        let _ = (workers, tree);
        Err(self.unsupported("nested"))
    }

    /// `recorded`: `kernels` kernels that each add one to the same integer, in one in-order queue,
    /// recorded as this is prepared and launched in each run, or enqueued in each run. Nothing
    /// holds them back.
    fn recorded_chain(
        &self,
        workers: usize,
        kernels: usize,
        recorded: bool,
    ) -> Prepared<'_, RecordedOutcome> {
        let _ = (workers, kernels, recorded);
        Err(self.unsupported("recorded"))
    }

    /// `recorded`: the same of a shape's tasks, as [`graph`](Subject::graph) has them.
    fn recorded_graph(
        &self,
        workers: usize,
        shape: Arc<GraphShape>,
        task: Arc<dyn Task>,
        recorded: bool,
    ) -> Prepared<'_, RecordedOutcome> {
        let _ = (workers, shape, task, recorded);
        Err(self.unsupported("recorded"))
    }

    /// `ranges`: a command for each part, of an in-order queue, held by a user event until all are
    /// enqueued. Each reads all of one object of as many integers and
    /// [changes](crate::reference::ranges::changed) the first of its part of another; then the two
    /// change places. They are zero at first.
    fn ranges(&self, workers: usize, parts: Vec<Range<usize>>) -> Prepared<'_, RangesOutcome> {
        let _ = (workers, parts);
        Err(self.unsupported("ranges"))
    }

    /// `enqueue`: times the enqueueing alone, then lets all commands finish.
    fn enqueue(
        &self,
        workers: usize,
        parameters: EnqueueParameters,
    ) -> Prepared<'_, CommandOutcome> {
        let _ = (workers, parameters);
        Err(self.unsupported("enqueue"))
    }

    /// `no-op`: enqueues one command that does nothing (but count itself) and waits for it; times
    /// both together.
    fn no_op(&self, workers: usize) -> Prepared<'_, CommandOutcome> {
        let _ = workers;
        Err(self.unsupported("no-op"))
    }

    /// `idle`: gives every worker something to do and waits for it. While the closure lives, the
    /// device does as well.
    fn idle(&self, workers: usize) -> Prepared<'_, ()> {
        let _ = workers;
        Err(self.unsupported("idle"))
    }

    /// `memory`.
    fn pending(&self, workers: usize) -> Result<Box<dyn PendingCommands + '_>, SubjectError> {
        let _ = workers;
        Err(self.unsupported("memory"))
    }

    /// `babelstream`, with plain stores.
    fn stream(
        &self,
        workers: usize,
        precision: Precision,
        length: usize,
    ) -> Result<Box<dyn StreamArrays + '_>, SubjectError> {
        let _ = (workers, precision, length);
        Err(self.unsupported("babelstream"))
    }

    /// The error of a method that is not implemented.
    fn unsupported(&self, benchmark: &'static str) -> SubjectError {
        SubjectError::Unsupported {
            device: self.device(),
            benchmark,
        }
    }
}
