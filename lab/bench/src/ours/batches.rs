//! The imbalance benchmarks: batches of kernels, each waiting for all of the batch before.

use std::ops::Range;
use std::sync::Arc;
use std::time::Instant;

use quipu_scheduler::operation::NativeKernel;
use quipu_scheduler::{Access, AccessMode, Event, MemoryRef, RawArgument, Request, UserEvent};

use super::pool::{Pool, download, failed, part_mut, upload};
use super::{Held, Lent};
use crate::error::SubjectError;
use crate::reference::imbalance::BatchWork;
use crate::subject::BatchOutcome;

/// The work, and where in its kernel's buffer each work-group's floats start.
struct Plan {
    work: Arc<BatchWork>,
    starts: Vec<Vec<usize>>,
}

impl Plan {
    fn new(work: Arc<BatchWork>) -> Self {
        let starts = work.batch().kernels().iter().map(|groups| {
            let starts = groups.iter().scan(0, |next, piece| {
                let start = *next;
                *next += piece.floats;
                Some(start)
            });
            starts.collect()
        });
        Plan {
            starts: starts.collect(),
            work,
        }
    }
}

/// One kernel of one batch.
struct Imbalanced {
    plan: Lent<Plan>,
    batch: u32,
    kernel: u32,
}

impl NativeKernel for Imbalanced {
    fn name(&self) -> &'static str {
        "imbalanced"
    }

    unsafe fn run(
        &self,
        arguments: &[RawArgument],
        groups: Range<u32>,
    ) -> quipu_scheduler::Result<()> {
        let plan = self.plan.get();
        let (batch, kernel) = (self.batch as usize, self.kernel as usize);
        let pieces = &plan.work.batch().kernels()[kernel];
        for group in groups {
            let group = group as usize;
            // SAFETY: the argument is the kernel's buffer, of which each group has floats of its
            // own; no group is run twice.
            let own = unsafe {
                part_mut::<f32>(
                    &arguments[0],
                    plan.starts[kernel][group],
                    pieces[group].floats,
                )
            };
            plan.work.run(batch, kernel, group, own);
        }
        Ok(())
    }
}

/// The queue and the kernels' buffers.
pub(super) struct Batches {
    held: Held<Plan>,
    buffers: Vec<MemoryRef>,
    batches: usize,
}

impl Batches {
    pub(super) fn new(
        pool: &Pool,
        work: Arc<BatchWork>,
        batches: usize,
    ) -> Result<Self, SubjectError> {
        let kernels = work.batch().kernels();
        let buffers = kernels.iter().map(|groups| {
            let floats = groups.iter().map(|piece| piece.floats).sum();
            pool.buffer::<f32>(floats)
        });
        let buffers = buffers.collect::<Result<Vec<MemoryRef>, SubjectError>>()?;
        let queue = pool.queue(kernels.len() == 1)?;
        Ok(Batches {
            held: Held::new(vec![queue], Arc::new(Plan::new(work))),
            buffers,
            batches,
        })
    }

    pub(super) fn run(&mut self) -> Result<BatchOutcome, SubjectError> {
        let queue = self.held.queue();
        let initial = self.held.kept.work.batch().initial_buffers();
        for (buffer, floats) in self.buffers.iter().zip(&initial) {
            upload(queue, buffer, floats)?;
        }
        let gate = UserEvent::new();
        self.enqueue(&gate).map_err(failed("enqueueing a kernel"))?;
        let started = Instant::now();
        gate.complete();
        self.held.wait()?;
        let elapsed = started.elapsed();
        let buffers = self.buffers.iter().map(|buffer| download(queue, buffer));
        Ok(BatchOutcome {
            elapsed,
            buffers: buffers.collect::<Result<_, _>>()?,
        })
    }

    fn enqueue(&self, gate: &UserEvent) -> quipu_scheduler::Result<()> {
        let queue = self.held.queue();
        let in_order = self.buffers.len() == 1;
        let mut before = vec![gate.event()];
        let mut events: Vec<Event> = Vec::with_capacity(self.buffers.len());
        for batch in 0..self.batches {
            for (kernel, buffer) in self.buffers.iter().enumerate() {
                let groups = self.held.kept.starts[kernel].len() as u64;
                let imbalanced = Imbalanced {
                    plan: self.held.lend(),
                    batch: batch as u32,
                    kernel: kernel as u32,
                };
                // A batch of one kernel is ordered by its queue and buffer.
                let waits = if in_order && batch > 0 {
                    &[]
                } else {
                    &before[..]
                };
                let request = Request {
                    accesses: &[Access::whole(buffer, AccessMode::ReadWrite)],
                    waits,
                    ..Request::default()
                };
                events.push(queue.launch(imbalanced, groups, &request)?);
            }
            std::mem::swap(&mut before, &mut events);
            events.clear();
        }
        Ok(())
    }
}
