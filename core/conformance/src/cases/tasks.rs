//! Waiting and enqueuing from inside of kernels and host tasks: a wait helps, or
//! says that it could never end; it never hangs.

use super::cases;
use crate::Fixture;
use crate::support::*;
use quipu_core::{Clock, Event, Queue, Request, Result, UserEvent};
use std::sync::{Arc, Mutex};
use std::time::Duration;

cases! {
    Anything:
        a_task_enqueues_and_waits,
        tasks_wait_inside_of_each_other,
        a_task_waits_for_itself,
        a_task_waits_for_what_comes_after_it,
        a_kernel_waits,
        every_worker_waits_at_once;
    CallerRuns:
        waiting_for_a_gate_that_nobody_opens_is_refused,
        what_another_thread_runs_can_be_waited_for;
}

fn task(queue: &Queue, run: impl FnOnce() -> Result<()> + Send + 'static) -> Event {
    queue
        .host_task(move |_| run(), &Request::default())
        .unwrap()
}

fn a_task_enqueues_and_waits(fixture: &dyn Fixture) {
    let stage = Stage::new(fixture);
    let (outer, inner) = (stage.out_of_order(), stage.out_of_order());
    let memory = stage.memory(8);
    let bytes = memory.clone();
    let event = task(&outer, move || {
        let mut last = None;
        for n in 0..10 {
            let waits = last.as_slice();
            last = Some(fold(&inner, &bytes, n, waits));
            // A failure inside is the inner command's own.
            let failed = failing(&inner, &[], &[]);
            waited_or_refused(failed.wait_over())?;
        }
        waited_or_refused(last.expect("ten rounds").wait_over())?;
        waited_or_refused(inner.wait())
    });
    event.wait().unwrap();
    assert_eq!(read_number(&stage.in_order(), &memory), folded(0..10));
}

fn tasks_wait_inside_of_each_other(fixture: &dyn Fixture) {
    fn nest(queue: &Queue, depth: u32) -> Event {
        let again = queue.clone();
        task(queue, move || {
            if depth == 0 {
                return Ok(());
            }
            let (left, right) = (nest(&again, depth - 1), nest(&again, depth - 1));
            waited_or_refused(left.wait_over())?;
            waited_or_refused(right.wait_over())
        })
    }
    let stage = Stage::new(fixture);
    let queue = stage.out_of_order();
    nest(&queue, 6).wait().unwrap();
    queue.wait().unwrap();
}

/// Where a task finds its own event.
type Slot = Arc<Mutex<Option<Event>>>;

fn waits_for_what_is_put_there(queue: &Queue, slot: &Slot, gate: &UserEvent) -> Event {
    let slot = slot.clone();
    let waits = [gate.event()];
    let request = Request {
        waits: &waits,
        ..Request::default()
    };
    let task = queue.host_task(
        move |_| {
            let event = slot.lock().expect("not poisoned").take();
            assert_would_deadlock(event.expect("was put there").wait());
            Ok(())
        },
        &request,
    );
    task.unwrap()
}

fn a_task_waits_for_itself(fixture: &dyn Fixture) {
    let stage = Stage::new(fixture);
    for queue in [stage.in_order(), stage.out_of_order()] {
        let (slot, gate) = (Slot::default(), UserEvent::new());
        let event = waits_for_what_is_put_there(&queue, &slot, &gate);
        *slot.lock().unwrap() = Some(event.clone());
        gate.complete();
        event.wait().unwrap();
    }
}

fn a_task_waits_for_what_comes_after_it(fixture: &dyn Fixture) {
    let stage = Stage::new(fixture);
    let queue = stage.in_order();
    let (slot, gate) = (Slot::default(), UserEvent::new());
    let event = waits_for_what_is_put_there(&queue, &slot, &gate);
    let after = nothing(&queue, &[], &[]);
    *slot.lock().unwrap() = Some(after.clone());
    gate.complete();
    event.wait().unwrap();
    after.wait().unwrap();
    // The queue as a whole, too.
    let again = queue.clone();
    let whole = task(&queue, move || {
        assert_would_deadlock(again.wait());
        Ok(())
    });
    whole.wait().unwrap();
}

fn a_kernel_waits(fixture: &dyn Fixture) {
    let stage = Stage::new(fixture);
    let (outer, inner) = (stage.out_of_order(), stage.out_of_order());
    let event = launch(&outer, &[], &[], move |_| {
        waited_or_refused(nothing(&inner, &[], &[]).wait())
    });
    event.wait().unwrap();
}

fn every_worker_waits_at_once(fixture: &dyn Fixture) {
    let stage = Stage::new(fixture);
    let (outer, inner) = (stage.out_of_order(), stage.out_of_order());
    let gate = UserEvent::new();
    let events: Vec<Event> = (0..64)
        .map(|_| {
            let inner = inner.clone();
            let waits = [gate.event()];
            let request = Request {
                waits: &waits,
                ..Request::default()
            };
            let task = outer.host_task(
                move |_| waited_or_refused(nothing(&inner, &[], &[]).wait()),
                &request,
            );
            task.unwrap()
        })
        .collect();
    gate.complete();
    for event in events {
        event.wait().unwrap();
    }
}

fn waiting_for_a_gate_that_nobody_opens_is_refused(fixture: &dyn Fixture) {
    let stage = Stage::new(fixture);
    let queue = stage.in_order();
    let gate = UserEvent::new();
    let event = nothing(&queue, &[], &[gate.event()]);
    assert_would_deadlock(event.wait());
    assert_would_deadlock(event.wait_over());
    assert_would_deadlock(queue.wait());
    let blocking = stage.queue(quipu_core::QueueOptions {
        blocking: true,
        ..Default::default()
    });
    let waits = [gate.event()];
    let request = Request {
        waits: &waits,
        ..Request::default()
    };
    assert_would_deadlock(blocking.host_task(|_| Ok(()), &request));
    // Refused waits change nothing.
    gate.complete();
    event.wait().unwrap();
    blocking.wait().unwrap();
}

/// Lets a command go on when the waiting thread has nothing else to do.
struct Releasing(Flag);

impl Clock for Releasing {
    fn now(&self) -> Duration {
        Duration::ZERO
    }

    fn park(&self, _: Duration) {
        self.0.set();
        std::thread::yield_now();
    }
}

fn what_another_thread_runs_can_be_waited_for(fixture: &dyn Fixture) {
    let stage = Stage::new(fixture);
    let queue = stage.out_of_order();
    let gate = UserEvent::new();
    let (started, release) = (Flag::new(), Flag::new());
    let (inside, hold) = (started.clone(), release.clone());
    let event = launch(&queue, &[], &[gate.event()], move |_| {
        inside.set();
        hold.wait();
        Ok(())
    });
    std::thread::scope(|scope| {
        scope.spawn(|| gate.complete());
        started.wait();
        // The other thread is inside of the command: waiting for it makes sense.
        let result = event.wait_with_clock(Duration::from_secs(1), &Releasing(release.clone()));
        release.set();
        result.unwrap();
    });
}
