//! Devices whose commands are run by the thread that enqueues or waits.

use super::{Releasing, Slot, is_timed_out, named, task, until_a_thread_waits_for};
use crate::Fixture;
use crate::cases::callbacks::on_wake;
use crate::cases::cases;
use crate::support::*;
use quipu_scheduler::event::wait_graph;
use quipu_scheduler::{Clock, Event, Queue, Result, UserEvent};
use std::sync::{Arc, Mutex};
use std::time::Duration;

cases! {
    CallerRuns:
        a_wait_behind_a_gate_lasts_until_another_thread_opens_it,
        a_blocking_enqueue_lasts_until_another_thread_opens_its_gate,
        a_task_waits_until_another_thread_opens_a_gate,
        a_task_runs_what_it_waits_for_and_nothing_else,
        a_task_runs_what_another_threads_task_waits_for,
        what_another_thread_runs_can_be_waited_for,
        what_a_waiting_task_has_left_is_needed_by_another_thread,
        what_a_task_that_waits_by_a_users_clock_has_left_is_needed,
        what_a_task_that_waits_again_and_again_has_left_is_needed,
        what_a_waker_that_waits_again_and_again_has_left_is_needed;
}

fn a_wait_behind_a_gate_lasts_until_another_thread_opens_it(fixture: &dyn Fixture) {
    let stage = Stage::new(fixture);
    let queue = stage.in_order();
    type Wait = fn(&Event, &Queue) -> Result<()>;
    let waits: [Wait; 4] = [
        |event, _| event.wait(),
        |event, _| event.wait_over(),
        |_, queue| queue.wait(),
        |event, _| Event::wait_for_first(&[event], None),
    ];
    for (index, wait) in waits.into_iter().enumerate() {
        let gate = UserEvent::new();
        let event = named(&queue, "behind", &[gate.event()], || Ok(()));
        let name = if index == 2 { None } else { Some("behind") };
        std::thread::scope(|scope| {
            scope.spawn(move || {
                match name {
                    Some(name) => until_a_thread_waits_for(name),
                    None => {
                        while !wait_graph().contains("up to its command") {
                            std::thread::yield_now();
                        }
                    }
                }
                gate.complete();
            });
            wait(&event, &queue).unwrap();
        });
        assert!(event.is_complete());
    }
    // Not for longer than it is to.
    let gate = UserEvent::new();
    let event = nothing(&queue, &[], &[gate.event()]);
    assert!(is_timed_out(&event.wait_timeout(Duration::from_millis(1))));
    gate.complete();
    event.wait().unwrap();
}

fn a_blocking_enqueue_lasts_until_another_thread_opens_its_gate(fixture: &dyn Fixture) {
    let stage = Stage::new(fixture);
    let blocking = stage.queue(quipu_scheduler::QueueOptions {
        blocking: true,
        ..Default::default()
    });
    let gate = UserEvent::new();
    let event = gate.event();
    std::thread::scope(|scope| {
        scope.spawn(move || {
            until_a_thread_waits_for("behind");
            gate.complete();
        });
        let event = named(&blocking, "behind", &[event], || Ok(()));
        assert!(event.is_complete());
    });
}

fn a_task_waits_until_another_thread_opens_a_gate(fixture: &dyn Fixture) {
    let stage = Stage::new(fixture);
    let (queue, other) = (stage.in_order(), stage.in_order());
    for of_host in [false, true] {
        let gate = UserEvent::new();
        let held = named(&other, "held up", &[gate.event()], || Ok(()));
        let awaited = if of_host { gate.event() } else { held.clone() };
        let line = if of_host {
            "for a user event made at"
        } else {
            "for 'held up'"
        };
        std::thread::scope(|scope| {
            scope.spawn(move || {
                while !wait_graph().contains(line) {
                    std::thread::yield_now();
                }
                gate.complete();
            });
            // It runs as it is enqueued, or as it is waited for.
            let task = named(&queue, "waits", &[], move || {
                waited_or_refused(awaited.wait())
            });
            task.wait().unwrap();
        });
        held.wait().unwrap();
    }
}

fn a_task_runs_what_it_waits_for_and_nothing_else(fixture: &dyn Fixture) {
    let stage = Stage::new(fixture);
    let (outer, inner) = (stage.out_of_order(), stage.out_of_order());
    let log: Arc<Mutex<Vec<&'static str>>> = Arc::default();
    let note = |what: &'static str| {
        let log = log.clone();
        move || {
            log.lock().expect("not poisoned").push(what);
            Ok(())
        }
    };
    let (other, first, second, end) = (note("other"), note("first"), note("second"), note("end"));
    let refused = Flag::new();
    let flag = refused.clone();
    let task = task(&outer, move || {
        named(&inner, "other", &[], other);
        let needed = named(&inner, "first", &[], first);
        let last = named(&inner, "second", &[needed], second);
        if last.wait().is_err() {
            flag.set();
        }
        end()
    });
    task.wait().unwrap();
    stage.out_of_order().wait().unwrap();
    assert!(!refused.is_set(), "it has at hand what it waits for");
    let log = log.lock().unwrap();
    assert_eq!(*log, ["first", "second", "end", "other"]);
}

fn a_task_runs_what_another_threads_task_waits_for(fixture: &dyn Fixture) {
    let stage = Stage::new(fixture);
    let (queue, side) = (stage.out_of_order(), stage.out_of_order());
    let (gate, slot) = (UserEvent::new(), Slot::default());
    // The first task has this one at hand, which the second waits for; and waits for the second
    // itself.
    let awaited = slot.clone();
    let second = named(&queue, "second", &[gate.event()], move || {
        let mut event = None;
        while event.is_none() {
            event = awaited.lock().expect("not poisoned").take();
            std::thread::yield_now();
        }
        event.expect("just seen").wait()
    });
    let end = second.clone();
    let first = move || {
        let at_hand = named(&side, "at hand", &[], || Ok(()));
        *slot.lock().expect("not poisoned") = Some(at_hand);
        end.wait()
    };
    std::thread::scope(|scope| {
        scope.spawn(|| gate.complete());
        let first = named(&queue, "first", &[], first);
        first.wait().unwrap();
    });
    second.wait().unwrap();
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

/// A clock that stands still.
struct Still;

impl Clock for Still {
    fn now(&self) -> Duration {
        Duration::ZERO
    }
}

fn what_a_waiting_task_has_left_is_needed_by_another_thread(fixture: &dyn Fixture) {
    is_left_and_needed(fixture, |waited| waited.wait());
}

fn what_a_task_that_waits_by_a_users_clock_has_left_is_needed(fixture: &dyn Fixture) {
    is_left_and_needed(fixture, |waited| {
        waited.wait_with_clock(Duration::from_secs(1), &Still)
    });
}

/// Waits with time limits that are too short, one after the other.
fn wait_again_and_again(waited: &Event) -> Result<()> {
    loop {
        let result = waited.wait_timeout(Duration::from_millis(1));
        if !is_timed_out(&result) {
            return result;
        }
    }
}

fn what_a_task_that_waits_again_and_again_has_left_is_needed(fixture: &dyn Fixture) {
    is_left_and_needed(fixture, |waited| wait_again_and_again(&waited));
}

fn what_a_waker_that_waits_again_and_again_has_left_is_needed(fixture: &dyn Fixture) {
    let stage = Stage::new(fixture);
    let queue = stage.out_of_order();
    let (gate, needed) = (UserEvent::new(), UserEvent::new());
    let waited = needed.event();
    let left = named(&queue, "left", &[gate.event()], || Ok(()));
    let thread = std::thread::spawn(move || {
        left.wait_over().unwrap();
        needed.complete();
    });
    on_wake(&mut gate.event(), move || {
        wait_again_and_again(&waited).unwrap();
    });
    gate.complete();
    thread.join().unwrap();
}

fn is_left_and_needed(fixture: &dyn Fixture, wait: fn(Event) -> Result<()>) {
    let stage = Stage::new(fixture);
    let queue = stage.out_of_order();
    let (gate, needed) = (UserEvent::new(), UserEvent::new());
    let waited = needed.event();
    let first = named(&queue, "first", &[gate.event()], move || wait(waited));
    let second = named(&queue, "second", &[gate.event()], || Ok(()));
    let thread = std::thread::spawn(move || {
        second.wait_over().unwrap();
        needed.complete();
    });
    // Runs the first, which has the second left.
    gate.complete();
    first.wait().unwrap();
    thread.join().unwrap();
}
