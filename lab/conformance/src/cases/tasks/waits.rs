//! Waits inside of tasks and kernels: they help with the work, and end.

use super::{named, task};
use crate::Fixture;
use crate::cases::cases;
use crate::support::*;
use quipu_scheduler::error::ErrorKind;
use quipu_scheduler::event::wait_graph;
use quipu_scheduler::{Clock, Event, Queue, QueueOptions, Request, UserEvent};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::channel;
use std::time::Duration;

cases! {
    Anything:
        a_task_enqueues_and_waits,
        tasks_wait_inside_of_each_other,
        whether_a_task_may_wait_is_its_own_devices_to_say,
        what_an_end_makes_ready_waits_for_what_is_told_of_that_end,
        what_a_waiting_thread_makes_ready_waits_for_that_thread,
        a_clock_that_panics_in_a_task_leaves_nothing_behind,
        a_kernel_waits,
        every_worker_waits_at_once;
    Concurrency:
        who_waits_for_whom_is_told;
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

/// Another device's thread may have made the task ready, and must not wait itself.
fn whether_a_task_may_wait_is_its_own_devices_to_say(fixture: &dyn Fixture) {
    let stage = Stage::new(fixture);
    let queues: Vec<Queue> = (0..stage.devices.len())
        .map(|device| stage.queue_on(device, QueueOptions::default()))
        .collect();
    let may_wait_after = |queue: &Queue, other: &Queue| {
        let (gate, never) = (UserEvent::new(), UserEvent::new());
        let first = nothing(other, &[], &[gate.event()]);
        let (tell, told) = channel();
        let waited = never.event();
        let run = move || {
            let error = waited
                .wait_timeout(Duration::ZERO)
                .expect_err("is never over");
            tell.send(matches!(error.kind(), ErrorKind::TimedOut))
                .unwrap();
            Ok(())
        };
        let second = named(queue, "may wait", &[first], run);
        gate.complete();
        second.wait().unwrap();
        told.recv().unwrap()
    };
    for queue in &queues {
        let alone = may_wait_after(queue, queue);
        for other in &queues {
            assert_eq!(may_wait_after(queue, other), alone);
        }
    }
}

/// One command's end makes a task ready and is waited for by others, on the same devices or not.
/// The task may be run by the thread in which the command ends, and needs these.
fn what_an_end_makes_ready_waits_for_what_is_told_of_that_end(fixture: &dyn Fixture) {
    let stage = Stage::new(fixture);
    let queues: Vec<Queue> = (0..stage.devices.len())
        .map(|device| stage.queue_on(device, QueueOptions::default()))
        .collect();
    for (first, second) in queues
        .iter()
        .flat_map(|a| queues.iter().map(move |b| (a, b)))
    {
        for by_callback in [false, true] {
            let (gate, needed) = (UserEvent::new(), UserEvent::new());
            let over = nothing(first, &[], &[gate.event()]);
            let waited = needed.event();
            let run = move || waited_or_refused(waited.wait_over());
            let task = named(second, "needs others", from_ref(&over), run);
            let waiting = if by_callback {
                over.on_complete(move |_| needed.complete());
                None
            } else {
                Some(std::thread::spawn(move || {
                    over.wait_over().unwrap();
                    needed.complete();
                }))
            };
            gate.complete();
            task.wait().unwrap();
            waiting
                .into_iter()
                .for_each(|thread| thread.join().unwrap());
        }
    }
}

/// A thread that waits may do the work of what it waits for, and so make a task ready that needs
/// what the thread does next.
fn what_a_waiting_thread_makes_ready_waits_for_that_thread(fixture: &dyn Fixture) {
    let stage = Stage::new(fixture);
    let queues: Vec<Queue> = (0..stage.devices.len())
        .map(|device| stage.queue_on(device, QueueOptions::default()))
        .collect();
    let memory = stage.memory(8);
    // Whoever opens a gate runs all of it on a device whose commands are run by the caller, and so
    // must not be needed.
    let runs_by_itself = |at: &usize| !stage.devices[*at].properties().caller_runs;
    let firsts = (0..queues.len())
        .filter(runs_by_itself)
        .map(|at| &queues[at]);
    for (first, second) in firsts.flat_map(|a| queues.iter().map(move |b| (a, b))) {
        let (gate, needed) = (UserEvent::new(), UserEvent::new());
        let over = fold(first, &memory, 1, &[gate.event()]);
        let waited = needed.event();
        let run = move || waited_or_refused(waited.wait_over());
        let task = named(second, "needs the thread", from_ref(&over), run);
        gate.complete();
        over.wait().unwrap();
        needed.complete();
        task.wait().unwrap();
    }
}

fn a_clock_that_panics_in_a_task_leaves_nothing_behind(fixture: &dyn Fixture) {
    struct Broken(AtomicUsize);
    impl Clock for Broken {
        fn now(&self) -> Duration {
            // The wait looks at it again here.
            if self.0.fetch_add(1, Ordering::Relaxed) > 0 {
                std::panic::resume_unwind(Box::new("a clock"));
            }
            Duration::ZERO
        }
    }
    let stage = Stage::new(fixture);
    let queue = stage.out_of_order();
    let memory = stage.memory(8);
    for _ in 0..8 {
        let never = UserEvent::new();
        let waited = never.event();
        let run = move || {
            let clock = Broken(AtomicUsize::new(0));
            waited_or_refused(waited.wait_with_clock(Duration::from_secs(1), &clock))
        };
        // It fails by the panic, unless the wait was refused.
        let _ = task(&queue, run).wait_over();
    }
    for n in 0..100 {
        fold(&queue, &memory, n, &[]);
    }
    assert_eq!(read_number(&queue, &memory), folded(0..100));
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

fn who_waits_for_whom_is_told(fixture: &dyn Fixture) {
    let stage = Stage::new(fixture);
    let (outer, inner) = (stage.out_of_order(), stage.out_of_order());
    let gate = UserEvent::new();
    let held = named(&inner, "held up", &[gate.event()], || Ok(()));
    let after = named(&inner, "told of", from_ref(&held), || Ok(()));
    let refused = Flag::new();
    let flag = refused.clone();
    let task = named(&outer, "the one that waits", &[], move || {
        let waited = after.wait_over();
        if waited.is_err() {
            flag.set();
        }
        waited_or_refused(waited)
    });
    outer.flush();
    let told = loop {
        let graph = wait_graph();
        if refused.is_set() || graph.contains("inside of 'the one that waits'") {
            break graph;
        }
        std::thread::yield_now();
    };
    gate.complete();
    task.wait().unwrap();
    if !refused.is_set() {
        for part in [
            "for 'told of' (host task, queue ",
            "1 wait is unresolved",
            "which waits for 'held up'",
            "which waits for a user event made at ",
            file!(),
        ] {
            assert!(told.contains(part), "'{part}' is not in: {told}");
        }
    }
}
