//! `in-order-parallel`: one write, then kernels of the same in-order queue that only read it.
//!
//! There is no flag to get wrong here: a kernel says for each launch which buffers it reads and
//! which it writes, and a buffer is just memory. So both ways of declaring are the same.

use std::ops::Range;
use std::sync::Arc;
use std::time::Instant;

use quipu_scheduler::operation::{HostMemory, NativeKernel};
use quipu_scheduler::{Access, AccessMode, MemoryRef, RawArgument, Request, UserEvent};

use super::Held;
use super::pool::{Pool, elements, failed, part_mut, write};
use crate::error::SubjectError;
use crate::reference::imbalance::{FLOATS, reduce};
use crate::subject::{Declared, InOrderParallel, ParallelOutcome};

/// Reads the shared buffer, writes one float.
struct Reduce {
    kernel: u32,
}

impl NativeKernel for Reduce {
    fn name(&self) -> &'static str {
        "reduce"
    }

    unsafe fn run(&self, arguments: &[RawArgument], _: Range<u32>) -> quipu_scheduler::Result<()> {
        // SAFETY: the first argument is read, the second is a float that this command writes.
        let (shared, own) = unsafe { (elements(&arguments[0]), part_mut(&arguments[1], 0, 1)) };
        own[0] = reduce(shared, self.kernel as usize);
        Ok(())
    }
}

/// The queue, the shared buffer, and one buffer for each kernel.
pub(super) struct Readers {
    held: Held<()>,
    shared: MemoryRef,
    own: Vec<MemoryRef>,
}

impl Readers {
    pub(super) fn new(
        pool: &Pool,
        kernels: usize,
        _declared: Declared,
    ) -> Result<Self, SubjectError> {
        let own = (0..kernels).map(|_| pool.buffer::<f32>(1));
        Ok(Readers {
            held: Held::new(vec![pool.queue(true)?], Arc::new(())),
            shared: pool.buffer::<f32>(FLOATS)?,
            own: own.collect::<Result<_, _>>()?,
        })
    }

    fn enqueue(&self, input: &[f32], gate: &UserEvent) -> Result<(), SubjectError> {
        let queue = self.held.queue();
        // SAFETY: `run` waits before the input's borrow ends, also where it fails.
        unsafe { write(queue, &self.shared, input, &[gate.event()]) }?;
        for (kernel, own) in (0..).zip(&self.own) {
            let request = Request {
                accesses: &[
                    Access::whole(&self.shared, AccessMode::Read),
                    Access::whole(own, AccessMode::Overwrite),
                ],
                ..Request::default()
            };
            queue
                .launch(Reduce { kernel }, 1, &request)
                .map_err(failed("enqueueing a kernel"))?;
        }
        Ok(())
    }

    /// Reads every kernel's float: all reads are enqueued before the first is waited for.
    fn read(&self) -> Result<Vec<f32>, SubjectError> {
        let mut results = vec![0.0_f32; self.own.len()];
        let start = results.as_mut_ptr();
        let enqueued = (0..).zip(&self.own).try_for_each(|(kernel, own)| {
            // SAFETY: each read has a float of its own; they are over before the vector goes, and
            // nobody looks at it meanwhile.
            let float =
                unsafe { HostMemory::new(start.add(kernel).cast(), size_of::<f32>(), None) };
            let source = Access::whole(own, AccessMode::Read);
            self.held
                .queue()
                .read(source, float, own.size(), &[], &[])
                .map(drop)
        });
        self.held.wait()?;
        enqueued.map_err(failed("reading a result"))?;
        Ok(results)
    }
}

impl InOrderParallel for Readers {
    fn run(&mut self, input: &[f32]) -> Result<ParallelOutcome, SubjectError> {
        let gate = UserEvent::new();
        let enqueued = self.enqueue(input, &gate);
        let started = Instant::now();
        gate.complete();
        self.held.wait()?;
        let elapsed = started.elapsed();
        enqueued?;
        Ok(ParallelOutcome {
            elapsed,
            results: self.read()?,
        })
    }
}
