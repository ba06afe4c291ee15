//! Ten million commands behind a user event that is never completed, and then
//! dropped: none of them runs, all of them end, the first cause is named. On its
//! own, because it takes two gigabytes.

use quipu_conformance::{Fixture, fixture};
use quipu_scheduler::error::ErrorKind;
use quipu_scheduler::operation::NativeKernel;
use quipu_scheduler::{
    Access, AccessMode, Context, QueueOptions, RawArgument, Request, Result, UserEvent,
};
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};

const TEN_MILLION: u64 = 10_000_000;

static RAN: AtomicU64 = AtomicU64::new(0);

/// Counts its runs.
struct Count;

impl NativeKernel for Count {
    fn name(&self) -> &'static str {
        "count"
    }

    unsafe fn run(&self, _: &[RawArgument], _: Range<u32>) -> Result<()> {
        RAN.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }
}

fn abandon(fixture: &dyn Fixture) {
    let devices = fixture.devices();
    let context = Context::new(&devices).expect("a context over fresh devices");
    let queue = context
        .queue(&devices[0], QueueOptions::default())
        .expect("a queue of the context's device");
    let memory = context.memory(8).expect("a small buffer");
    let accesses = [Access {
        memory: &memory,
        offset: 0,
        length: 8,
        mode: AccessMode::ReadWrite,
    }];
    let gate = UserEvent::new();
    let waits = [gate.event()];
    let request = |waits| Request {
        accesses: &accesses,
        waits,
        ..Request::default()
    };
    queue
        .post_launch(Count, 1, &request(&waits[..]))
        .expect("a valid launch");
    for _ in 2..TEN_MILLION {
        queue
            .post_launch(Count, 1, &request(&[]))
            .expect("a valid launch");
    }
    let last = queue
        .launch(Count, 1, &request(&[]))
        .expect("a valid launch");
    assert!(!last.is_complete());
    drop(gate);
    let error = last.wait().expect_err("what it depends on never happened");
    assert!(
        matches!(error.first_cause().kind(), ErrorKind::Abandoned { .. }),
        "{error}"
    );
    queue.wait().expect("the queue itself is fine");
    assert_eq!(RAN.load(Ordering::Relaxed), 0);
}

#[test]
fn ten_million_commands_end_with_the_event_they_waited_for() {
    // One after the other: the second has the memory of the first.
    abandon(&fixture::pool(2));
    abandon(&fixture::serial());
}
