//! `in-order` and `out-of-order`: kernels that add one to the same integer.

use std::ops::Range;
use std::time::Instant;

use quipu_scheduler::operation::NativeKernel;
use quipu_scheduler::{Access, AccessMode, MemoryRef, Queue, RawArgument, Request, UserEvent};

use super::pool::{Pool, download, failed, upload};
use crate::error::SubjectError;
use crate::subject::{ChainOutcome, Queues};

/// One integer add.
pub(super) struct AddOne;

impl NativeKernel for AddOne {
    fn name(&self) -> &'static str {
        "add one"
    }

    #[inline]
    unsafe fn run(&self, arguments: &[RawArgument], _: Range<u32>) -> quipu_scheduler::Result<()> {
        // SAFETY: the argument is an integer that this command alone writes.
        unsafe { *arguments[0].pointer.cast::<i64>() += 1 };
        Ok(())
    }
}

/// The queues and the integer.
pub(super) struct Chain {
    queues: Vec<Queue>,
    sum: MemoryRef,
    kernels: usize,
}

impl Chain {
    pub(super) fn new(pool: &Pool, queues: Queues, kernels: usize) -> Result<Self, SubjectError> {
        let queues = match queues {
            Queues::OneInOrder => vec![pool.queue(true)?],
            Queues::TwoOutOfOrder => vec![pool.queue(false)?, pool.queue(false)?],
        };
        Ok(Chain {
            queues,
            sum: pool.buffer::<i64>(1)?,
            kernels,
        })
    }

    pub(super) fn run(&mut self) -> Result<ChainOutcome, SubjectError> {
        upload(&self.queues[0], &self.sum, &[0_i64])?;
        let gate = UserEvent::new();
        match &self.queues[..] {
            [queue] => self.enqueue_in_order(queue, &gate),
            queues => self.enqueue_out_of_order(queues, &gate),
        }
        .map_err(failed("enqueueing a kernel"))?;
        let started = Instant::now();
        gate.complete();
        for queue in &self.queues {
            queue.wait().map_err(failed("waiting for a queue"))?;
        }
        let elapsed = started.elapsed();
        let sum = download(&self.queues[0], &self.sum)?[0];
        Ok(ChainOutcome { elapsed, sum })
    }

    /// The queue, and the hazards of the integer, do the ordering.
    fn enqueue_in_order(&self, queue: &Queue, gate: &UserEvent) -> quipu_scheduler::Result<()> {
        let accesses = [Access::whole(&self.sum, AccessMode::ReadWrite)];
        let mut held = Some([gate.event()]);
        for _ in 0..self.kernels {
            let waits = held.take();
            let request = Request {
                accesses: &accesses,
                waits: waits.as_ref().map_or(&[], |gate| &gate[..]),
                ..Request::default()
            };
            queue.launch(AddOne, 1, &request)?;
        }
        Ok(())
    }

    /// Each kernel waits for the event of the one before, in the other queue.
    fn enqueue_out_of_order(
        &self,
        queues: &[Queue],
        gate: &UserEvent,
    ) -> quipu_scheduler::Result<()> {
        let accesses = [Access::whole(&self.sum, AccessMode::ReadWrite)];
        let mut before = [gate.event()];
        for kernel in 0..self.kernels {
            let request = Request {
                accesses: &accesses,
                waits: &before,
                ..Request::default()
            };
            before = [queues[kernel % queues.len()].launch(AddOne, 1, &request)?];
        }
        Ok(())
    }
}
