//! `idle`: something to do for every worker, and then nothing.

use std::hint::black_box;
use std::ops::Range;

use quipu_scheduler::operation::NativeKernel;
use quipu_scheduler::{Queue, RawArgument, Request};

use super::pool::{Pool, failed};
use crate::error::SubjectError;

/// Steps of one work-group: some tens of microseconds, long enough to be shared.
const STEPS: u32 = 20_000;

/// Groups for each worker.
const GROUPS_PER_WORKER: u64 = 16;

/// Computes for a while.
struct Busy;

impl NativeKernel for Busy {
    fn name(&self) -> &'static str {
        "busy"
    }

    unsafe fn run(&self, _: &[RawArgument], groups: Range<u32>) -> quipu_scheduler::Result<()> {
        for group in groups {
            let mut value = black_box(group);
            for _ in 0..STEPS {
                value = black_box(value.wrapping_mul(0x9e37_79b9).rotate_left(5));
            }
        }
        Ok(())
    }
}

/// A queue of a pool.
pub(super) struct Idle {
    queue: Queue,
    groups: u64,
}

impl Idle {
    pub(super) fn new(pool: &Pool, workers: usize) -> Result<Self, SubjectError> {
        Ok(Idle {
            queue: pool.queue(true)?,
            groups: GROUPS_PER_WORKER * workers as u64,
        })
    }

    pub(super) fn run(&mut self) -> Result<(), SubjectError> {
        let event = self.queue.launch(Busy, self.groups, &Request::default());
        event
            .and_then(|event| event.wait())
            .map_err(failed("keeping the workers busy"))
    }
}
