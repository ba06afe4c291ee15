//! The simplest runtime there is: everything runs on the calling thread as it is enqueued. It is
//! right by construction, unless it is told to be wrong in one way.

use std::ops::Range;
use std::sync::Arc;
use std::time::{Duration, Instant};

use quipu_bench::SubjectError;
use quipu_bench::reference::imbalance::{BatchWork, reduce};
use quipu_bench::reference::nested::Tree;
use quipu_bench::reference::ranges::changed;
use quipu_bench::reference::shape::GraphShape;
use quipu_bench::reference::stream::{Precision, RayonStream};
use quipu_bench::reference::task::Task;
use quipu_bench::subject::{
    BatchOutcome, ChainOutcome, CommandOutcome, Declared, EnqueueParameters, GraphOutcome,
    InOrderParallel, ParallelOutcome, PendingCommands, Prepared, Queues, RangesOutcome,
    RecordedOutcome, StreamArrays, Subject,
};

/// The runtime's faults.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Fault {
    /// Nothing.
    #[default]
    None,
    /// The last command never runs.
    LosesOne,
    /// Commands run in the wrong order.
    Disorder,
}

/// The runtime.
#[derive(Default)]
pub(crate) struct Sequential {
    /// Its faults.
    pub(crate) fault: Fault,
}

impl Sequential {
    /// The number of `commands` that really run.
    fn run_of(&self, commands: usize) -> usize {
        commands - usize::from(self.fault == Fault::LosesOne)
    }
}

impl Subject for Sequential {
    fn device(&self) -> String {
        "sequential".into()
    }

    fn serial_chain(
        &self,
        _workers: usize,
        _queues: Queues,
        kernels: usize,
    ) -> Prepared<'_, ChainOutcome> {
        Ok(Box::new(move || {
            let started = Instant::now();
            let mut sum = 0_i64;
            for _ in 0..self.run_of(kernels) {
                *std::hint::black_box(&mut sum) += 1;
            }
            let elapsed = started.elapsed();
            Ok(ChainOutcome { elapsed, sum })
        }))
    }

    fn batches(
        &self,
        _workers: usize,
        work: Arc<BatchWork>,
        batches: usize,
    ) -> Prepared<'_, BatchOutcome> {
        Ok(Box::new(move || {
            let mut buffers = work.batch().initial_buffers();
            let started = Instant::now();
            for number in 0..self.run_of(batches) {
                // Disorder: batches backwards.
                let batch = match self.fault {
                    Fault::Disorder => batches - 1 - number,
                    _ => number,
                };
                for (kernel, groups) in work.batch().kernels().iter().enumerate() {
                    let mut rest = buffers[kernel].as_mut_slice();
                    for (group, piece) in groups.iter().enumerate() {
                        let (own, others) = rest.split_at_mut(piece.floats);
                        work.run(batch, kernel, group, own);
                        rest = others;
                    }
                }
            }
            let elapsed = started.elapsed();
            Ok(BatchOutcome { elapsed, buffers })
        }))
    }

    fn in_order_parallel(
        &self,
        _workers: usize,
        kernels: usize,
        _declared: Declared,
    ) -> Result<Box<dyn InOrderParallel + '_>, SubjectError> {
        Ok(Box::new(Readers {
            subject: self,
            shared: Vec::new(),
            kernels,
        }))
    }

    fn graph(
        &self,
        _workers: usize,
        shape: Arc<GraphShape>,
        task: Arc<dyn Task>,
    ) -> Prepared<'_, GraphOutcome> {
        Ok(Box::new(move || {
            let started = Instant::now();
            let tasks = self.run_of(shape.tasks()) as u32;
            match self.fault {
                Fault::Disorder => (0..tasks).rev().for_each(|number| task.run(number)),
                _ => (0..tasks).for_each(|number| task.run(number)),
            }
            Ok(GraphOutcome {
                build: Duration::ZERO,
                elapsed: started.elapsed(),
            })
        }))
    }

    fn nested(&self, _workers: usize, tree: Arc<Tree>) -> Prepared<'_, Duration> {
        Ok(Box::new(move || {
            let started = Instant::now();
            let mut waiting = vec![tree.root(); self.run_of(1)];
            while let Some(task) = waiting.pop() {
                tree.run(task, |child| waiting.push(child));
            }
            Ok(started.elapsed())
        }))
    }

    fn ranges(&self, _workers: usize, mut parts: Vec<Range<usize>>) -> Prepared<'_, RangesOutcome> {
        let length = parts.len();
        if self.fault == Fault::Disorder {
            parts.reverse();
        }
        parts.truncate(self.run_of(length));
        Ok(Box::new(move || {
            let started = Instant::now();
            let [mut read, mut written] = [vec![0; length], vec![0; length]];
            for part in &parts {
                written[part.start] = changed(written[part.start], read[part.start]);
                std::mem::swap(&mut read, &mut written);
            }
            Ok(RangesOutcome {
                elapsed: started.elapsed(),
                last: read,
            })
        }))
    }

    fn recorded_chain(
        &self,
        _workers: usize,
        kernels: usize,
        _recorded: bool,
    ) -> Prepared<'_, RecordedOutcome> {
        let mut chain = self.serial_chain(1, Queues::OneInOrder, kernels)?;
        Ok(Box::new(move || {
            let outcome = chain()?;
            Ok(RecordedOutcome {
                handed_over: Duration::ZERO,
                elapsed: outcome.elapsed,
                sum: Some(outcome.sum),
            })
        }))
    }

    fn recorded_graph(
        &self,
        workers: usize,
        shape: Arc<GraphShape>,
        task: Arc<dyn Task>,
        _recorded: bool,
    ) -> Prepared<'_, RecordedOutcome> {
        let mut graph = self.graph(workers, shape, task)?;
        Ok(Box::new(move || {
            Ok(RecordedOutcome {
                handed_over: Duration::ZERO,
                elapsed: graph()?.elapsed,
                sum: None,
            })
        }))
    }

    fn enqueue(
        &self,
        _workers: usize,
        parameters: EnqueueParameters,
    ) -> Prepared<'_, CommandOutcome> {
        Ok(Box::new(move || {
            let started = Instant::now();
            let commands = std::hint::black_box(vec![1_u64; parameters.commands]);
            let elapsed = started.elapsed();
            let executed = commands.iter().take(self.run_of(commands.len())).sum();
            Ok(CommandOutcome { elapsed, executed })
        }))
    }

    fn no_op(&self, _workers: usize) -> Prepared<'_, CommandOutcome> {
        Ok(Box::new(move || {
            let started = Instant::now();
            let executed = std::hint::black_box(self.run_of(1)) as u64;
            let elapsed = started.elapsed();
            Ok(CommandOutcome { elapsed, executed })
        }))
    }

    fn idle(&self, _workers: usize) -> Prepared<'_, ()> {
        Ok(Box::new(|| Ok(())))
    }

    fn pending(&self, _workers: usize) -> Result<Box<dyn PendingCommands + '_>, SubjectError> {
        Ok(Box::new(Pending {
            subject: self,
            commands: Vec::new(),
        }))
    }

    fn stream(
        &self,
        workers: usize,
        precision: Precision,
        length: usize,
    ) -> Result<Box<dyn StreamArrays + '_>, SubjectError> {
        let length = self.run_of(length);
        let failed = |error| SubjectError::failed("starting threads", error);
        Ok(match precision {
            Precision::Single => {
                Box::new(RayonStream::<f32>::new(workers, length).map_err(failed)?)
            }
            Precision::Double => {
                Box::new(RayonStream::<f64>::new(workers, length).map_err(failed)?)
            }
        })
    }
}

struct Readers<'a> {
    subject: &'a Sequential,
    shared: Vec<f32>,
    kernels: usize,
}

impl InOrderParallel for Readers<'_> {
    fn run(&mut self, input: &[f32]) -> Result<ParallelOutcome, SubjectError> {
        let started = Instant::now();
        let before = std::mem::replace(&mut self.shared, input.to_vec());
        // Disorder: the kernels read before the write.
        let read = match self.subject.fault {
            Fault::Disorder => &before,
            _ => &self.shared,
        };
        let kernels = 0..self.subject.run_of(self.kernels);
        let results = kernels.map(|kernel| reduce(read, kernel)).collect();
        let elapsed = started.elapsed();
        Ok(ParallelOutcome { elapsed, results })
    }
}

struct Pending<'a> {
    subject: &'a Sequential,
    /// 256 bytes each, as if they were commands.
    commands: Vec<[u64; 32]>,
}

impl PendingCommands for Pending<'_> {
    fn enqueue(&mut self, commands: usize) -> Result<(), SubjectError> {
        self.commands.extend((0..commands).map(|_| [1; 32]));
        Ok(())
    }

    fn finish(&mut self) -> Result<u64, SubjectError> {
        let executed = self.subject.run_of(self.commands.len()) as u64;
        self.commands.clear();
        Ok(executed)
    }
}
