//! `ranges`: commands that read all of one object and change a part of another.

use std::ops::Range;
use std::time::Instant;

use quipu_scheduler::operation::NativeKernel;
use quipu_scheduler::{Access, AccessMode, MemoryRef, Queue, RawArgument, Request, UserEvent};

use super::pool::{Pool, download, failed, upload};
use crate::error::SubjectError;
use crate::reference::ranges::changed;
use crate::subject::RangesOutcome;

/// Changes the first element of its part, by the one at this place of what it reads.
struct Change(usize);

impl NativeKernel for Change {
    fn name(&self) -> &'static str {
        "change"
    }

    #[inline]
    unsafe fn run(&self, arguments: &[RawArgument], _: Range<u32>) -> quipu_scheduler::Result<()> {
        let [read, written] = arguments else {
            return Ok(());
        };
        // SAFETY: the place is within the object, and the part has an element, as `Ranges::enqueue`
        // chooses them; hazards keep others away.
        unsafe {
            let other = read.pointer.cast::<i64>().add(self.0).read();
            let own = written.pointer.cast::<i64>();
            own.write(changed(own.read(), other));
        }
        Ok(())
    }
}

/// The objects, and the parts.
pub(super) struct Ranges {
    queue: Queue,
    objects: [MemoryRef; 2],
    parts: Vec<Range<usize>>,
}

impl Ranges {
    pub(super) fn new(pool: &Pool, parts: Vec<Range<usize>>) -> Result<Self, SubjectError> {
        let count = parts.len();
        Ok(Self {
            queue: pool.queue(true)?,
            objects: [pool.buffer::<i64>(count)?, pool.buffer::<i64>(count)?],
            parts,
        })
    }

    pub(super) fn run(&mut self) -> Result<RangesOutcome, SubjectError> {
        let zeros = vec![0_i64; self.parts.len()];
        for object in &self.objects {
            upload(&self.queue, object, &zeros)?;
        }
        let gate = UserEvent::new();
        let started = Instant::now();
        self.enqueue(&gate).map_err(failed("enqueueing a kernel"))?;
        gate.complete();
        self.queue.wait().map_err(failed("waiting for a queue"))?;
        let elapsed = started.elapsed();
        let last = &self.objects[self.parts.len() % 2];
        Ok(RangesOutcome {
            elapsed,
            last: download(&self.queue, last)?,
        })
    }

    fn enqueue(&self, gate: &UserEvent) -> quipu_scheduler::Result<()> {
        const SIZE: u64 = size_of::<i64>() as u64;
        let [mut read, mut written] = [&self.objects[0], &self.objects[1]];
        let mut held = Some([gate.event()]);
        for part in &self.parts {
            let waits = held.take();
            let change = Access {
                memory: written,
                offset: SIZE * part.start as u64,
                length: SIZE * part.len() as u64,
                mode: AccessMode::ReadWrite,
            };
            let request = Request {
                accesses: &[Access::whole(read, AccessMode::Read), change],
                waits: waits.as_ref().map_or(&[], |gate| &gate[..]),
                ..Request::default()
            };
            self.queue.launch(Change(part.start), 1, &request)?;
            std::mem::swap(&mut read, &mut written);
        }
        Ok(())
    }
}
