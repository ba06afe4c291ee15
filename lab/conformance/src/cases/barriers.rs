//! Markers and barriers, with and without wait lists, and commands of unknown
//! access.

use super::cases;
use crate::Fixture;
use crate::support::*;
use quipu_scheduler::{Event, Queue, QueueOptions, Request, UserEvent};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

cases! {
    Anything:
        markers_wait_for_all_before,
        markers_with_a_list_wait_for_it_alone,
        barriers_stand_between,
        barriers_after_barriers,
        barriers_with_a_list_wait_for_it_alone,
        barriers_on_an_empty_queue,
        unknown_access_is_a_barrier_of_an_in_order_queue,
        unknown_access_is_no_barrier_of_an_out_of_order_queue;
}

/// Commands that count, and check what was counted before they ran.
struct Counter(Arc<AtomicU64>);

impl Counter {
    fn new() -> Self {
        Self(Arc::new(AtomicU64::new(0)))
    }

    fn count(&self, queue: &Queue, waits: &[Event]) -> Event {
        let count = self.0.clone();
        launch(queue, &[], waits, move |_| {
            count.fetch_add(1, Ordering::SeqCst);
            Ok(())
        })
    }

    fn expect_at_least(&self, queue: &Queue, least: u64) -> Event {
        let count = self.0.clone();
        launch(queue, &[], &[], move |_| {
            let now = count.fetch_add(1, Ordering::SeqCst);
            if now >= least {
                Ok(())
            } else {
                Err(boom(&format!("ran as number {now}, before {least} others")))
            }
        })
    }
}

/// A command on another queue, run to its end: what could run, had time to.
fn let_things_run(stage: &Stage) {
    nothing(&stage.out_of_order(), &[], &[]).wait().unwrap();
}

fn markers_wait_for_all_before(fixture: &dyn Fixture) {
    let stage = Stage::new(fixture);
    for options in [QueueOptions::default(), OUT_OF_ORDER] {
        let queue = stage.queue(options);
        let counter = Counter::new();
        let gate = UserEvent::new();
        for n in 0..100 {
            let waits = [gate.event()];
            counter.count(&queue, if n % 3 == 0 { &waits } else { &[] });
        }
        let marker = queue.marker(&[]).unwrap();
        // A marker holds up nothing: this may run before it.
        let after = counter.count(&queue, &[]);
        queue.flush();
        let_things_run(&stage);
        assert!(!marker.is_complete());
        if !options.in_order {
            after.wait().unwrap();
        }
        gate.complete();
        marker.wait().unwrap();
        assert!(counter.0.load(Ordering::SeqCst) >= 100);
        after.wait().unwrap();
    }
}

fn markers_with_a_list_wait_for_it_alone(fixture: &dyn Fixture) {
    let stage = Stage::new(fixture);
    let queue = stage.out_of_order();
    let (gate, other) = (UserEvent::new(), UserEvent::new());
    let gated = nothing(&queue, &[], &[gate.event()]);
    let marker = queue.marker(&[other.event()]).unwrap();
    queue.flush();
    let_things_run(&stage);
    assert!(!marker.is_complete());
    other.complete();
    marker.wait().unwrap();
    assert!(!gated.is_complete());
    gate.complete();
    gated.wait().unwrap();
}

fn barriers_stand_between(fixture: &dyn Fixture) {
    let stage = Stage::new(fixture);
    for options in [QueueOptions::default(), OUT_OF_ORDER] {
        let queue = stage.queue(options);
        let counter = Counter::new();
        let gate = UserEvent::new();
        let mut events = Vec::new();
        for section in 0..20_u64 {
            for n in 0..10 {
                if section == 0 && n == 5 {
                    events.push(counter.count(&queue, &[gate.event()]));
                } else {
                    events.push(counter.expect_at_least(&queue, section * 10));
                }
            }
            events.push(queue.barrier(&[]).unwrap());
        }
        queue.flush();
        let_things_run(&stage);
        assert!(
            counter.0.load(Ordering::SeqCst) < 10,
            "nothing passes the first barrier"
        );
        assert!(!events[10].is_complete());
        gate.complete();
        for event in events {
            event.wait().unwrap();
        }
    }
}

fn barriers_after_barriers(fixture: &dyn Fixture) {
    let stage = Stage::new(fixture);
    let queue = stage.out_of_order();
    let gate = UserEvent::new();
    let counter = Counter::new();
    counter.count(&queue, &[gate.event()]);
    let barriers: Vec<_> = (0..100).map(|_| queue.barrier(&[]).unwrap()).collect();
    let after = counter.expect_at_least(&queue, 1);
    queue.flush();
    let_things_run(&stage);
    assert!(barriers.iter().all(|barrier| !barrier.is_complete()));
    assert!(!after.is_complete());
    gate.complete();
    after.wait().unwrap();
    for barrier in barriers {
        barrier.wait().unwrap();
    }
}

fn barriers_with_a_list_wait_for_it_alone(fixture: &dyn Fixture) {
    let stage = Stage::new(fixture);
    let queue = stage.out_of_order();
    let (gate, other) = (UserEvent::new(), UserEvent::new());
    let gated = nothing(&queue, &[], &[gate.event()]);
    let barrier = queue.barrier(&[other.event()]).unwrap();
    let after = nothing(&queue, &[], &[]);
    queue.flush();
    let_things_run(&stage);
    assert!(!barrier.is_complete() && !after.is_complete());
    other.complete();
    let_things_run(&stage);
    // Without a list a barrier waits for all before it; with one, for the list:
    // what was enqueued before and is not in it goes on as it likes.
    assert!(
        barrier.is_complete(),
        "a barrier with a wait list waits for more than the list"
    );
    after.wait().unwrap();
    assert!(!gated.is_complete());
    gate.complete();
    gated.wait().unwrap();
}

fn barriers_on_an_empty_queue(fixture: &dyn Fixture) {
    let stage = Stage::new(fixture);
    for options in [QueueOptions::default(), OUT_OF_ORDER] {
        let queue = stage.queue(options);
        queue.barrier(&[]).unwrap().wait().unwrap();
        queue.marker(&[]).unwrap().wait().unwrap();
        nothing(&queue, &[], &[]).wait().unwrap();
        queue.barrier(&[]).unwrap();
        queue.barrier(&[]).unwrap().wait().unwrap();
        assert!(queue.is_empty());
    }
}

fn task(queue: &Queue, counter: &Counter, least: u64) -> Event {
    let count = counter.0.clone();
    let request = Request {
        unknown_access: true,
        ..Request::default()
    };
    let task = queue.host_task(
        move |_| {
            let now = count.fetch_add(1, Ordering::SeqCst);
            if now == least {
                Ok(())
            } else {
                Err(boom(&format!("the task ran as number {now}, not {least}")))
            }
        },
        &request,
    );
    task.unwrap()
}

fn unknown_access_is_a_barrier_of_an_in_order_queue(fixture: &dyn Fixture) {
    let stage = Stage::new(fixture);
    let queue = stage.in_order();
    let counter = Counter::new();
    let gate = UserEvent::new();
    let mut events = Vec::new();
    for section in 0..20_u64 {
        for n in 0..9 {
            events.push(if section == 0 && n == 0 {
                counter.count(&queue, &[gate.event()])
            } else {
                counter.expect_at_least(&queue, section * 10)
            });
        }
        events.push(task(&queue, &counter, section * 10 + 9));
    }
    queue.flush();
    let_things_run(&stage);
    gate.complete();
    for event in events {
        event.wait().unwrap();
    }
}

fn unknown_access_is_no_barrier_of_an_out_of_order_queue(fixture: &dyn Fixture) {
    let stage = Stage::new(fixture);
    let queue = stage.out_of_order();
    let gate = UserEvent::new();
    let gated = nothing(&queue, &[], &[gate.event()]);
    let counter = Counter::new();
    task(&queue, &counter, 0).wait().unwrap();
    assert!(!gated.is_complete());
    gate.complete();
    gated.wait().unwrap();
}
