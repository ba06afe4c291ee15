//! What becomes of a slot that has been used as often as its handles can tell.
//!
//! Not a case of the suite: it has to get the same slot again and again, and so
//! must be alone in its process.
#![allow(clippy::unwrap_used, reason = "a promise that is not kept panics")]

use crate::Fixture;
use crate::support::*;
use quipu_core::{Event, MemoryRef, Request, UserEvent};
use std::collections::HashSet;

/// How many slots are tried.
const ATTEMPTS: usize = 1024;

/// An event's number is its slot, in the low bits, and the generation.
pub(crate) fn slot_and_generation(event: &Event) -> (u64, u64) {
    let number = event.id().number();
    (number & ((1 << 47) - 1), number >> 47)
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
    // A thread of the driver that frees the slot may keep it a while: then
    // another one is used up.
    let target = (0..ATTEMPTS)
        .find_map(|_| use_up_a_slot(&queue, &memory))
        .unwrap_or_else(|| panic!("the threads of {} leave no slot alone", fixture.name()));
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
/// use here stays in the buffer's tracker; nothing if others took it and do not
/// give it back soon.
fn use_up_a_slot(queue: &quipu_core::Queue, memory: &MemoryRef) -> Option<u64> {
    const LAST_GENERATION: u64 = (1 << 17) - 1;
    let first = put(queue, memory, 1, &[]);
    first.wait().unwrap();
    let (target, mut generation) = slot_and_generation(&first);
    drop(first);
    // Every other free slot is held, so that the target comes again and again.
    let mut held = Vec::new();
    let mut seen = HashSet::new();
    while generation < LAST_GENERATION {
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
        } else if held.len() < 100_000 {
            held.push(user);
        } else {
            break;
        }
    }
    held.into_iter().for_each(UserEvent::complete);
    (generation == LAST_GENERATION).then_some(target)
}
