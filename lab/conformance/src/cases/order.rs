//! The order of commands: in-order queues have the effects of one after
//! another, run in parallel what shares no hazard, and show their events in
//! order; out-of-order queues honour waits.

use super::cases;
use crate::Fixture;
use crate::support::*;
use quipu_scheduler::{AccessMode, Priority, QueueOptions, RawArgument, Request, UserEvent};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

cases! {
    Anything:
        in_order_effects,
        in_order_events_are_seen_in_order,
        dependants_elsewhere_do_not_wait_for_the_order,
        out_of_order_honours_waits,
        waits_go_across_queues_and_contexts,
        waiting_for_a_queue_and_being_empty,
        user_events_release_what_waits;
    Asynchronous:
        unrelated_commands_overtake_a_gated_one;
    Concurrency:
        commands_without_hazards_run_at_once,
        readers_run_at_once;
    OneAtATime:
        high_priority_overtakes;
    SeveralDevices:
        hazards_and_waits_go_across_devices;
}

fn in_order_effects(fixture: &dyn Fixture) {
    let stage = Stage::new(fixture);
    let queue = stage.in_order();
    let memory = stage.memory(8);
    for n in 0..2000 {
        fold(&queue, &memory, n, &[]);
    }
    assert_eq!(read_number(&queue, &memory), folded(0..2000));
}

fn in_order_events_are_seen_in_order(fixture: &dyn Fixture) {
    let stage = Stage::new(fixture);
    let queue = stage.in_order();
    let gate = UserEvent::new();
    let (a, b) = (stage.memory(8), stage.memory(8));
    let first = put(&queue, &a, 1, &[gate.event()]);
    let second = put(&queue, &b, 2, &[]);
    let marker = queue.marker(&[]).unwrap();
    let listed = queue.marker(from_ref(&second)).unwrap();
    let order = Arc::new(Mutex::new(Vec::new()));
    // Asked for in the wrong order.
    for (n, event) in [(4, &listed), (2, &second), (1, &first), (3, &marker)] {
        let order = order.clone();
        event.on_complete(move |result| {
            result.unwrap();
            order.lock().unwrap().push(n);
        });
    }
    queue.flush();
    // Something unrelated has run to its end meanwhile.
    nothing(&stage.out_of_order(), &[], &[]).wait().unwrap();
    for event in [&first, &second, &marker, &listed] {
        assert!(!event.is_complete());
        assert!(event.result().is_none());
    }
    assert!(order.lock().unwrap().is_empty());
    gate.complete();
    listed.wait().unwrap();
    for event in [&first, &second, &marker, &listed] {
        assert!(event.is_complete());
    }
    queue.wait().unwrap();
    // The last may still be on its way on another thread.
    while order.lock().unwrap().len() < 4 {
        std::thread::yield_now();
    }
    let mut seen = order.lock().unwrap().clone();
    seen.sort_unstable();
    assert_eq!(seen, [1, 2, 3, 4], "each callback once");
}

fn dependants_elsewhere_do_not_wait_for_the_order(fixture: &dyn Fixture) {
    let stage = Stage::new(fixture);
    let queue = stage.in_order();
    let other = stage.out_of_order();
    let gate = UserEvent::new();
    let (a, b) = (stage.memory(8), stage.memory(8));
    let first = put(&queue, &a, 1, &[gate.event()]);
    let second = put(&queue, &b, 2, &[]);
    // Internal dependants are released at once, by a wait as by a hazard.
    let by_wait = nothing(&other, &[], from_ref(&second));
    let (by_hazard, seen) = observe(&other, &b, &[]);
    by_wait.wait().unwrap();
    by_hazard.wait().unwrap();
    assert_eq!(seen.load(Ordering::SeqCst), 2);
    assert!(!first.is_complete() && !second.is_complete());
    gate.complete();
    second.wait().unwrap();
    assert!(first.is_complete());
}

fn out_of_order_honours_waits(fixture: &dyn Fixture) {
    let stage = Stage::new(fixture);
    let queue = stage.out_of_order();
    let trace = Arc::new(Mutex::new(Vec::new()));
    let step = |n: usize, waits: &[quipu_scheduler::Event]| {
        let trace = trace.clone();
        launch(&queue, &[], waits, move |_| {
            trace.lock().unwrap().push(n);
            Ok(())
        })
    };
    // A chain, then a diamond of chains.
    let mut last = step(0, &[]);
    for n in 1..500 {
        last = step(n, from_ref(&last));
    }
    let left = step(1000, from_ref(&last));
    let right = step(1001, from_ref(&last));
    // The same event twice is one thing to wait for.
    let end = step(2000, &[left.clone(), right, left]);
    end.wait().unwrap();
    let mut trace = trace.lock().unwrap().clone();
    assert!(trace[..500].iter().copied().eq(0..500));
    assert_eq!(trace.pop(), Some(2000));
    trace[500..].sort_unstable();
    assert_eq!(trace[500..], [1000, 1001]);
}

fn waits_go_across_queues_and_contexts(fixture: &dyn Fixture) {
    let stage = Stage::new(fixture);
    // A second context over the same devices, and one over a serial device.
    let sibling = quipu_scheduler::Context::new(&stage.devices).unwrap();
    let other = Stage::new(&crate::fixture::serial());
    let (a, b, c) = (
        stage.in_order(),
        sibling
            .queue(&stage.devices[0], QueueOptions::default())
            .unwrap(),
        other.in_order(),
    );
    let gate = UserEvent::new();
    let count = Arc::new(AtomicU64::new(0));
    let step = |queue: &quipu_scheduler::Queue, n: u64, waits: &[quipu_scheduler::Event]| {
        let count = count.clone();
        launch(queue, &[], waits, move |_| {
            count
                .compare_exchange(n, n + 1, Ordering::SeqCst, Ordering::SeqCst)
                .map(drop)
                .map_err(|now| boom(&format!("step {n} ran as number {now}")))
        })
    };
    let mut last = step(&a, 0, &[gate.event()]);
    for n in 1..60 {
        last = step([&a, &b, &c][n as usize % 3], n, &[last]);
    }
    assert_eq!(count.load(Ordering::SeqCst), 0);
    a.flush();
    b.flush();
    c.flush();
    gate.complete();
    last.wait().unwrap();
    assert_eq!(count.load(Ordering::SeqCst), 60);
}

fn waiting_for_a_queue_and_being_empty(fixture: &dyn Fixture) {
    let stage = Stage::new(fixture);
    for options in [QueueOptions::default(), OUT_OF_ORDER] {
        let queue = stage.queue(options);
        assert!(queue.is_empty());
        queue.wait().unwrap();
        let gate = UserEvent::new();
        let gated = nothing(&queue, &[], &[gate.event()]);
        assert!(!queue.is_empty());
        gate.complete();
        queue.wait().unwrap();
        assert!(queue.is_empty());
        assert!(gated.is_complete());
        // Failed commands are over too.
        let failed = failing(&queue, &[], &[]);
        queue.wait().unwrap();
        assert!(failed.result().unwrap().is_err());
    }
}

fn user_events_release_what_waits(fixture: &dyn Fixture) {
    let stage = Stage::new(fixture);
    let queue = stage.out_of_order();
    let gates: Vec<UserEvent> = (0..5).map(|_| UserEvent::new()).collect();
    let events: Vec<_> = gates.iter().map(UserEvent::event).collect();
    let all = nothing(&queue, &[], &events);
    queue.flush();
    for (gate, event) in gates.into_iter().zip(&events) {
        assert!(!event.is_complete() && !all.is_complete());
        gate.complete();
        assert!(event.is_complete());
        event.wait().unwrap();
    }
    all.wait().unwrap();
    // One that is over already is no wait.
    nothing(&queue, &[], &events).wait().unwrap();
}

fn unrelated_commands_overtake_a_gated_one(fixture: &dyn Fixture) {
    let stage = Stage::new(fixture);
    let queue = stage.in_order();
    let gate = UserEvent::new();
    let (a, b) = (stage.memory(8), stage.memory(8));
    let first = put(&queue, &a, 1, &[gate.event()]);
    let ran = Flag::new();
    let inside = ran.clone();
    let second = launch(&queue, &[overwrites(&b)], &[], move |_| {
        inside.set();
        Ok(())
    });
    queue.flush();
    ran.wait();
    assert!(!first.is_complete() && !second.is_complete());
    gate.complete();
    second.wait().unwrap();
}

/// Two commands, each of which waits inside for the other to start.
fn meet(fixture: &dyn Fixture, options: QueueOptions, shared_input: bool) {
    let stage = Stage::new(fixture);
    let queue = stage.queue(options);
    let memory = stage.memory(16);
    put(&queue, &memory, 9, &[]);
    let flags = [Flag::new(), Flag::new()];
    let events = [0_u64, 1].map(|me| {
        let access = if shared_input {
            reads(&memory)
        } else {
            part(&memory, me * 8..me * 8 + 8, AccessMode::ReadWrite)
        };
        let (mine, other) = (flags[me as usize].clone(), flags[1 - me as usize].clone());
        launch(&queue, &[access], &[], move |_| {
            mine.set();
            other.wait();
            Ok(())
        })
    });
    for event in events {
        event.wait().unwrap();
    }
}

fn commands_without_hazards_run_at_once(fixture: &dyn Fixture) {
    for _ in 0..20 {
        meet(fixture, QueueOptions::default(), false);
        meet(fixture, OUT_OF_ORDER, false);
    }
}

fn readers_run_at_once(fixture: &dyn Fixture) {
    for _ in 0..20 {
        meet(fixture, QueueOptions::default(), true);
        meet(fixture, OUT_OF_ORDER, true);
    }
}

fn high_priority_overtakes(fixture: &dyn Fixture) {
    let stage = Stage::new(fixture);
    let queues = [Priority::Low, Priority::Normal, Priority::High].map(|priority| {
        stage.queue(QueueOptions {
            priority,
            in_order: false,
            ..QueueOptions::default()
        })
    });
    let (started, release) = (Flag::new(), Flag::new());
    let (inside, hold) = (started.clone(), release.clone());
    let busy = launch(&queues[1], &[], &[], move |_| {
        inside.set();
        hold.wait();
        Ok(())
    });
    queues[1].flush();
    started.wait();
    let order = Arc::new(Mutex::new(Vec::new()));
    let mut events = Vec::new();
    // All are ready before the device is free.
    for _ in 0..10 {
        for (level, queue) in queues.iter().enumerate() {
            let order = order.clone();
            events.push(launch(queue, &[], &[], move |_: &[RawArgument]| {
                order.lock().unwrap().push(level);
                Ok(())
            }));
        }
    }
    queues.iter().for_each(quipu_scheduler::Queue::flush);
    release.set();
    busy.wait().unwrap();
    for event in events {
        event.wait().unwrap();
    }
    let order = order.lock().unwrap().clone();
    assert!(
        order.is_sorted_by(|before, after| before >= after),
        "levels ran in the order {order:?}"
    );
}

fn hazards_and_waits_go_across_devices(fixture: &dyn Fixture) {
    let stage = Stage::new(fixture);
    let memory = stage.memory(8);
    let gate = UserEvent::new();
    let mut numbers = Vec::new();
    let mut last = gate.event();
    for round in 0..40_u64 {
        for device in 0..stage.devices.len() {
            let queue = stage.queue_on(device, OUT_OF_ORDER);
            let number = round * 10 + device as u64;
            last = fold(&queue, &memory, number, &[last]);
            numbers.push(number);
            // A reader in between, elsewhere.
            let reader = stage.queue_on((device + 1) % stage.devices.len(), OUT_OF_ORDER);
            let expected = folded(numbers.iter().copied());
            let accesses = [reads(&memory)];
            let request = Request {
                accesses: &accesses,
                ..Request::default()
            };
            let check = reader.host_task(
                move |a| {
                    if load(&a[0]) == expected {
                        Ok(())
                    } else {
                        Err(boom("a reader saw another time"))
                    }
                },
                &request,
            );
            let check = check.unwrap();
            last = reader.marker(&[last, check]).unwrap();
        }
    }
    gate.complete();
    last.wait().unwrap();
    let queue = stage.in_order();
    assert_eq!(read_number(&queue, &memory), folded(numbers));
}
