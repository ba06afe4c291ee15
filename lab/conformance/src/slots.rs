//! The end of a slot that has been used as often as its handles can tell.
//!
//! Not a case of the suite: it has to get the same slot again and again, and so
//! must be alone in its process.
#![allow(clippy::unwrap_used, reason = "helpers assert by unwrapping")]

use crate::Fixture;
use crate::support::*;
use quipu_scheduler::{Event, MemoryRef, Queue, Request, UserEvent};
use std::collections::HashSet;

/// More slots than this process ever uses at once. Slots are handed out from the
/// lowest address up, so who holds so many has every free one.
const EVERY_SLOT: usize = 10_000;
/// The number of times that a thread that keeps the slot is waited for.
const PATIENCE: usize = 100_000;

/// An event's number is its slot, in the low bits, and the generation.
pub(crate) fn slot_and_generation(event: &Event) -> (u64, u64) {
    let number = event.id().number();
    (number & ((1 << 48) - 1), number >> 48)
}

/// Uses a slot until its generations are used up: it is retired then, and the
/// handles to its uses are waits for nothing.
///
/// # Panics
/// If it is not so.
pub fn a_used_up_slot_is_retired(fixture: &dyn Fixture) {
    let stage = Stage::new(fixture);
    let queue = stage.in_order();
    let memory = stage.memory(8);
    let target = use_up_a_slot(fixture, &queue, &memory);
    // It is not handed out again.
    let held: Vec<UserEvent> = (0..1000).map(|_| UserEvent::new()).collect();
    for user in &held {
        assert_ne!(slot_and_generation(&user.event()).0, target);
    }
    let accesses = [updates(&memory)];
    let request = Request {
        accesses: &accesses,
        ..Request::default()
    };
    queue
        .host_task(|_| Ok(()), &request)
        .unwrap()
        .wait()
        .unwrap();
    held.into_iter().for_each(UserEvent::complete);
}

/// Uses one slot until its generations are used up, while a handle to its first
/// use here stays in the buffer's tracker.
fn use_up_a_slot(fixture: &dyn Fixture, queue: &Queue, memory: &MemoryRef) -> u64 {
    // The last but one that a slot can tell: see `RETIRE_AT` of the core.
    const RETIRED_AT: u64 = (1 << 16) - 2;
    let first = put(queue, memory, 1, &[]);
    first.wait().unwrap();
    let (target, mut generation) = slot_and_generation(&first);
    drop(first);
    // Every other free slot is held, so that the target comes again and again.
    let mut held = Vec::new();
    let mut seen = HashSet::new();
    let mut patience = PATIENCE;
    while generation < RETIRED_AT {
        let user = UserEvent::new();
        let (slot, now) = slot_and_generation(&user.event());
        if slot == target {
            assert!(now > generation, "generations only grow");
            assert!(seen.insert(now), "a handle was given out twice");
            generation = now;
            user.complete();
            if now % 4096 == 0 {
                // The stale handle is no wait, whatever the slot is now.
                fold(queue, memory, now, &[]).wait().unwrap();
            }
            continue;
        }
        held.push(user);
        if held.len() == EVERY_SLOT {
            // A thread of the driver has freed the target, and gives it back when it
            // has nothing more to do.
            held.drain(..).for_each(UserEvent::complete);
            std::thread::yield_now();
            patience -= 1;
            assert!(patience > 0, "a thread of {} keeps a slot", fixture.name());
        }
    }
    held.into_iter().for_each(UserEvent::complete);
    target
}
