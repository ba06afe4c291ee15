//! Flushes: a wait flushes every queue that it depends on.

use super::{hear, named, until_a_thread_waits_for};
use crate::Fixture;
use crate::cases::cases;
use crate::support::*;
use quipu_scheduler::UserEvent;
use std::sync::Mutex;
use std::sync::mpsc::channel;

cases! {
    Anything:
        a_wait_flushes_what_it_depends_on_in_other_contexts,
        a_wait_flushes_what_opens_a_gate_that_it_depends_on;
    Concurrency:
        a_wait_flushes_what_comes_later;
}

fn a_wait_flushes_what_it_depends_on_in_other_contexts(fixture: &dyn Fixture) {
    let stages = [(); 4].map(|()| Stage::new(fixture));
    for _ in 0..3 {
        let mut event = None;
        // From one to the next and back, by each device.
        for stage in stages.iter().chain(stages.iter().rev()) {
            for device in 0..stage.devices.len() {
                let queue = stage.queue_on(device, OUT_OF_ORDER);
                event = Some(nothing(&queue, &[], event.as_slice()));
            }
        }
        event.expect("there are devices").wait().unwrap();
    }
}

fn a_wait_flushes_what_opens_a_gate_that_it_depends_on(fixture: &dyn Fixture) {
    let (stage, elsewhere) = (Stage::new(fixture), Stage::new(fixture));
    let (queue, opens) = (stage.out_of_order(), elsewhere.out_of_order());
    for is_direct in [true, false] {
        let gate = UserEvent::new();
        let event = if is_direct {
            gate.event()
        } else {
            nothing(&queue, &[], &[gate.event()])
        };
        let gate = Mutex::new(Some(gate));
        launch(&opens, &[], &[], move |_| {
            let gate = gate.lock().expect("not poisoned").take();
            gate.expect("it runs once").complete();
            Ok(())
        });
        event.wait().unwrap();
    }
}

/// A task waits for a user event, which a command completes that is enqueued when the task has long
/// been asleep. Nobody flushes that command's queue, nor waits for it, but the task.
fn a_wait_flushes_what_comes_later(fixture: &dyn Fixture) {
    let stage = Stage::new(fixture);
    let (waits, opens) = (stage.out_of_order(), stage.out_of_order());
    let gate = UserEvent::new();
    let held = named(&stage.out_of_order(), "held back", &[gate.event()], || {
        Ok(())
    });
    let (sender, receiver) = channel();
    let task = named(&waits, "the one that waits", &[], move || {
        let waited = held.wait_over();
        sender.send(()).expect("the case listens");
        waited
    });
    waits.flush();
    until_a_thread_waits_for("held back");
    let last = stage.queue_on(stage.devices.len() - 1, OUT_OF_ORDER);
    let later = nothing(&last, &[], &[]);
    let gate = Mutex::new(Some(gate));
    launch(&opens, &[], &[later], move |_| {
        let gate = gate.lock().expect("not poisoned").take();
        gate.expect("it runs once").complete();
        Ok(())
    });
    hear(&receiver).unwrap();
    task.wait().unwrap();
}
