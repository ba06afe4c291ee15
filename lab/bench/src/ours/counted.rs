//! `enqueue`, `no-op` and `memory`: commands that do nothing but count themselves.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use quipu_scheduler::operation::NativeKernel;
use quipu_scheduler::{Access, AccessMode, Event, MemoryRef, RawArgument, Request, UserEvent};

use super::pool::{Pool, failed};
use super::{Held, Lent};
use crate::error::SubjectError;
use crate::subject::{CommandOutcome, EnqueueParameters, PendingCommands};

/// Counts itself.
struct Count(Lent<AtomicU64>);

impl NativeKernel for Count {
    fn name(&self) -> &'static str {
        "count"
    }

    #[inline]
    unsafe fn run(&self, _: &[RawArgument], _: Range<u32>) -> quipu_scheduler::Result<()> {
        self.0.get().fetch_add(1, Ordering::Relaxed);
        Ok(())
    }
}

/// A queue, the buffers that every command reads and writes, and the count.
struct Counting {
    held: Held<AtomicU64>,
    buffers: Vec<MemoryRef>,
}

impl Counting {
    fn new(pool: &Pool, buffers: usize) -> Result<Self, SubjectError> {
        let buffers = (0..buffers).map(|_| pool.buffer::<i64>(1));
        Ok(Counting {
            held: Held::new(vec![pool.queue(true)?], Arc::default()),
            buffers: buffers.collect::<Result<_, _>>()?,
        })
    }

    fn accesses(&self) -> Vec<Access<'_>> {
        let buffers = self.buffers.iter();
        buffers
            .map(|buffer| Access::whole(buffer, AccessMode::ReadWrite))
            .collect()
    }

    #[inline]
    fn launch(&self, accesses: &[Access<'_>], waits: &[Event]) -> quipu_scheduler::Result<Event> {
        let request = Request {
            accesses,
            waits,
            ..Request::default()
        };
        self.held
            .queue()
            .launch(Count(self.held.lend()), 1, &request)
    }

    /// The number that have run since the last call.
    fn take(&self) -> u64 {
        self.held.kept.swap(0, Ordering::AcqRel)
    }
}

/// Commands whose enqueueing is timed.
pub(super) struct Enqueue {
    counting: Counting,
    parameters: EnqueueParameters,
}

impl Enqueue {
    pub(super) fn new(pool: &Pool, parameters: EnqueueParameters) -> Result<Self, SubjectError> {
        Ok(Enqueue {
            counting: Counting::new(pool, parameters.buffers)?,
            parameters,
        })
    }

    pub(super) fn run(&mut self) -> Result<CommandOutcome, SubjectError> {
        let accesses = self.counting.accesses();
        let gate = (!self.parameters.running).then(UserEvent::new);
        let held: Vec<Event> = gate.iter().map(UserEvent::event).collect();
        let enqueue = || {
            for number in 0..self.parameters.commands {
                // Buffers make a chain, of which the first is held; else all are.
                let first = number == 0 || accesses.is_empty();
                let waits = if first { &held[..] } else { &[] };
                self.counting.launch(&accesses, waits)?;
            }
            Ok(())
        };
        let started = Instant::now();
        let enqueued = enqueue();
        let elapsed = started.elapsed();
        if let Some(gate) = gate {
            gate.complete();
        }
        self.counting.held.wait()?;
        enqueued.map_err(failed("enqueueing a command"))?;
        Ok(CommandOutcome {
            elapsed,
            executed: self.counting.take(),
        })
    }
}

/// One command at a time.
pub(super) struct NoOp {
    counting: Counting,
}

impl NoOp {
    pub(super) fn new(pool: &Pool) -> Result<Self, SubjectError> {
        Ok(NoOp {
            counting: Counting::new(pool, 0)?,
        })
    }

    pub(super) fn run(&mut self) -> Result<CommandOutcome, SubjectError> {
        let started = Instant::now();
        let event = self.counting.launch(&[], &[]);
        event
            .and_then(|event| event.wait())
            .map_err(failed("running a no-op"))?;
        let elapsed = started.elapsed();
        Ok(CommandOutcome {
            elapsed,
            executed: self.counting.take(),
        })
    }
}

/// Commands that wait: four buffers each, and the events of the two before.
pub(super) struct Pending {
    // First, so that it is dropped first: what waits for it would never be over.
    gate: Option<UserEvent>,
    counting: Counting,
    before: [Event; 2],
}

impl Pending {
    pub(super) fn new(pool: &Pool) -> Result<Self, SubjectError> {
        let gate = UserEvent::new();
        Ok(Pending {
            counting: Counting::new(pool, 4)?,
            before: [gate.event(), gate.event()],
            gate: Some(gate),
        })
    }
}

impl PendingCommands for Pending {
    fn enqueue(&mut self, commands: usize) -> Result<(), SubjectError> {
        if self.gate.is_none() {
            let gate = UserEvent::new();
            self.before = [gate.event(), gate.event()];
            self.gate = Some(gate);
        }
        let accesses = self.counting.accesses();
        for _ in 0..commands {
            let event = self
                .counting
                .launch(&accesses, &self.before)
                .map_err(failed("enqueueing a command"))?;
            let [_, last] = &mut self.before;
            let last = std::mem::replace(last, event);
            self.before[0] = last;
        }
        Ok(())
    }

    fn finish(&mut self) -> Result<u64, SubjectError> {
        if let Some(gate) = self.gate.take() {
            gate.complete();
        }
        self.counting.held.wait()?;
        Ok(self.counting.take())
    }
}
