//! Lifetimes: queues, buffers, contexts and events may be dropped at
//! any time, and what was enqueued still runs.

use super::cases;
use crate::Fixture;
use crate::support::*;
use quipu_scheduler::error::ErrorKind;
use quipu_scheduler::{AccessMode, Context, Event, MemoryRef, QueueOptions, UserEvent};
use std::ptr::NonNull;

cases! {
    Anything:
        a_queue_dropped_with_work_in_it,
        queues_come_and_go,
        a_buffer_dropped_while_in_use,
        a_buffer_dropped_while_no_bytes_of_it_are_in_use,
        a_buffer_dropped_behind_a_failure,
        an_idle_buffer_is_freed_at_once,
        everything_dropped_but_an_event,
        events_dropped_at_once,
        a_lost_context_refuses;
}

fn a_queue_dropped_with_work_in_it(fixture: &dyn Fixture) {
    let stage = Stage::new(fixture);
    let memory = stage.memory(8);
    let gate = UserEvent::new();
    let (mut last, mut numbers) = (None, Vec::new());
    for n in 0..20 {
        let queue = stage.queue(QueueOptions {
            in_order: n % 2 == 0,
            ..QueueOptions::default()
        });
        for inner in 0..20 {
            let number = n * 100 + inner;
            last = Some(fold(&queue, &memory, number, &[gate.event()]));
            numbers.push(number);
        }
    }
    gate.complete();
    last.unwrap().wait().unwrap();
    assert_eq!(read_number(&stage.in_order(), &memory), folded(numbers));
}

fn queues_come_and_go(fixture: &dyn Fixture) {
    let stage = Stage::new(fixture);
    let memory = stage.memory(8);
    for n in 0..2000_u64 {
        let queue = stage.in_order();
        let barrier = n % 3 == 0;
        if barrier {
            queue.barrier(&[]).unwrap();
        }
        fold(&queue, &memory, n, &[]);
        if n % 5 == 0 {
            let wait = queue.marker(&[]).unwrap();
            drop(queue);
            wait.wait().unwrap();
        }
    }
    let queue = stage.in_order();
    assert_eq!(read_number(&queue, &memory), folded(0..2000));
}

/// A buffer over bytes that raise a flag as they go.
fn flagged(stage: &Stage) -> (MemoryRef, Flag) {
    let freed = Flag::new();
    let bytes = vec![0_u64; 8].into_boxed_slice();
    let pointer = NonNull::new(Box::into_raw(bytes).cast::<u8>()).unwrap();
    struct Bytes(
        NonNull<u8>,
        #[expect(dead_code, reason = "dropped with the bytes")] SetOnDrop,
    );
    // SAFETY: it only frees the bytes.
    unsafe impl Send for Bytes {}
    // SAFETY: as above.
    unsafe impl Sync for Bytes {}
    impl Drop for Bytes {
        fn drop(&mut self) {
            let bytes = std::ptr::slice_from_raw_parts_mut(self.0.as_ptr().cast::<u64>(), 8);
            // SAFETY: from a box of eight numbers, freed once.
            drop(unsafe { Box::from_raw(bytes) });
        }
    }
    let keep = Bytes(pointer, SetOnDrop(freed.clone()));
    // SAFETY: `keep` keeps the bytes; nobody else touches them.
    let memory = unsafe { stage.context.memory_over(pointer, 64, Box::new(keep)) };
    (memory.unwrap(), freed)
}

fn a_buffer_dropped_while_no_bytes_of_it_are_in_use(fixture: &dyn Fixture) {
    let stage = Stage::new(fixture);
    for queue in [stage.in_order(), stage.out_of_order()] {
        for at in [0, 8, 64] {
            let (memory, freed) = flagged(&stage);
            let gate = UserEvent::new();
            let none = part(&memory, at..at, AccessMode::ReadWrite);
            let user = nothing(&queue, &[none], &[gate.event()]);
            drop(memory);
            queue.flush();
            nothing(&stage.out_of_order(), &[], &[]).wait().unwrap();
            assert!(!freed.is_set(), "freed while a command is to use it");
            gate.complete();
            user.wait().unwrap();
            freed.wait();
        }
    }
}

fn a_buffer_dropped_while_in_use(fixture: &dyn Fixture) {
    let stage = Stage::new(fixture);
    for queue in [stage.in_order(), stage.out_of_order()] {
        let (memory, freed) = flagged(&stage);
        let gate = UserEvent::new();
        let writer = put(&queue, &memory, 5, &[gate.event()]);
        let (reader, seen) = observe(&queue, &memory, &[]);
        drop(memory);
        queue.flush();
        nothing(&stage.out_of_order(), &[], &[]).wait().unwrap();
        assert!(!freed.is_set(), "freed while two commands are to use it");
        gate.complete();
        writer.wait().unwrap();
        reader.wait().unwrap();
        assert_eq!(seen.load(std::sync::atomic::Ordering::SeqCst), 5);
        // Freed by whoever ends the last user, maybe a moment later.
        freed.wait();
    }
}

fn a_buffer_dropped_behind_a_failure(fixture: &dyn Fixture) {
    let stage = Stage::new(fixture);
    let queue = stage.out_of_order();
    let (memory, freed) = flagged(&stage);
    let gate = UserEvent::new();
    let failed = failing(&queue, &[updates(&memory)], &[gate.event()]);
    let poisoned = nothing(&queue, &[reads(&memory)], &[]);
    let cancelled = nothing(&queue, &[overwrites(&memory)], &[]);
    cancelled.cancel();
    drop(memory);
    assert!(!freed.is_set());
    gate.fail("for the sake of it");
    for event in [failed, poisoned, cancelled] {
        error_of(&event);
    }
    freed.wait();
}

fn an_idle_buffer_is_freed_at_once(fixture: &dyn Fixture) {
    let stage = Stage::new(fixture);
    let (memory, freed) = flagged(&stage);
    let clone = memory.clone();
    drop(memory);
    assert!(!freed.is_set());
    drop(clone);
    assert!(freed.is_set());
    let queue = stage.in_order();
    let (memory, freed) = flagged(&stage);
    fold(&queue, &memory, 1, &[]).wait().unwrap();
    drop(memory);
    // With a device of its own memory, a copy may be on its way back.
    freed.wait();
}

fn everything_dropped_but_an_event(fixture: &dyn Fixture) {
    let (gate, event, freed, ran) = {
        let stage = Stage::new(fixture);
        let queue = stage.in_order();
        let (memory, freed) = flagged(&stage);
        let gate = UserEvent::new();
        for n in 0..100 {
            fold(&queue, &memory, n, &[gate.event()]);
        }
        let ran = Flag::new();
        let inside = ran.clone();
        let event = launch(&queue, &[updates(&memory)], &[], move |a| {
            assert_eq!(load(&a[0]), folded(0..100));
            inside.set();
            Ok(())
        });
        (gate, event, freed, ran)
    };
    assert!(!event.is_complete() && !freed.is_set());
    gate.complete();
    event.wait().unwrap();
    assert!(ran.is_set());
    freed.wait();
    // And an event that outlives its driver still says how it ended.
    event.wait().unwrap();
    assert!(event.result().unwrap().is_ok());
    let failed = {
        let stage = Stage::new(fixture);
        let failed = failing(&stage.in_order(), &[], &[]);
        failed.wait_over().unwrap();
        failed
    };
    assert!(error_of(&failed).to_string().contains("boom"));
}

fn events_dropped_at_once(fixture: &dyn Fixture) {
    let stage = Stage::new(fixture);
    let queue = stage.in_order();
    let memory = stage.memory(8);
    for n in 0..1000 {
        // Dropping an event neither cancels nor waits.
        drop(fold(&queue, &memory, n, &[]));
        drop(queue.marker(&[]).unwrap());
    }
    assert_eq!(read_number(&queue, &memory), folded(0..1000));
}

fn a_lost_context_refuses(fixture: &dyn Fixture) {
    let stage = Stage::new(fixture);
    let queue = stage.in_order();
    let memory = stage.memory(8);
    let gate = UserEvent::new();
    let ran: Event = put(&queue, &memory, 3, &[gate.event()]);
    assert!(stage.context.lost().is_none());
    stage.context.lose("the case says so");
    let refused = queue.marker(&[]);
    let error = refused.expect_err("a lost context takes no commands");
    assert!(
        matches!(error.kind(), ErrorKind::ContextLost { reason } if reason == "the case says so"),
        "{error}"
    );
    assert!(stage.context.lost().is_some());
    // Enqueued commands go on; other contexts are unaffected.
    gate.complete();
    ran.wait().unwrap();
    let other = Context::new(&stage.devices).unwrap();
    let queue = other.queue(&stage.devices[0], QueueOptions::default());
    nothing(&queue.unwrap(), &[], &[]).wait().unwrap();
}
