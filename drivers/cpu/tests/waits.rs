//! Commands that wait for others inside of themselves, on a pool of one worker: every wait ends
//! that could end with threads without number. And panics that carry values that panic when they
//! are dropped.

mod long;

use long::Long;
use quipu_driver_cpu::{CpuDriver, Options};
use quipu_scheduler::error::ErrorKind;
use quipu_scheduler::{
    Context, Device, Driver, Event, Queue, QueueOptions, Request, Result, UserEvent,
};
use std::num::NonZero;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Barrier, mpsc};
use std::time::Duration;

/// For events that come at once, or never.
const PATIENCE: Duration = Duration::from_secs(60);
/// Chance decides whether the thread that waits or a worker comes first.
const ROUNDS: u32 = 200;

fn out_of_order() -> Queue {
    let driver: Arc<dyn Driver> =
        CpuDriver::start(Options::new().workers(NonZero::<usize>::MIN)).expect("a pool of one");
    let devices = Device::all_of(&driver).expect("the pool's device");
    let context = Context::new(&devices).expect("a context over it");
    let options = QueueOptions {
        in_order: false,
        ..QueueOptions::default()
    };
    context.queue(&devices[0], options).expect("a queue of it")
}

fn task(
    queue: &Queue,
    waits: &[Event],
    run: impl FnOnce() -> Result<()> + Send + 'static,
) -> Event {
    let request = Request {
        waits,
        ..Request::default()
    };
    queue
        .host_task(move |_| run(), &request)
        .expect("a valid task")
}

#[test]
fn thousands_wait_at_once() {
    let queue = out_of_order();
    let gate = UserEvent::new();
    let marker = queue.marker(&[gate.event()]).expect("a marker");
    let tasks: Vec<Event> = (0..2000)
        .map(|_| {
            let marker = marker.clone();
            task(&queue, &[], move || marker.wait())
        })
        .collect();
    // Behind all of them, and run while they wait.
    task(&queue, &[], || Ok(())).wait().expect("it ran");
    gate.complete();
    for task in tasks {
        task.wait().expect("its wait ended");
    }
}

#[test]
fn what_runs_meanwhile_may_wait_for_who_waits() {
    let queue = out_of_order();
    let (started, gate) = (UserEvent::new(), UserEvent::new());
    let marker = queue.marker(&[gate.event()]).expect("a marker");
    let inside = started.event();
    let first = task(&queue, &[], move || {
        started.complete();
        marker.wait()
    });
    inside.wait().expect("it started");
    let second = task(&queue, std::slice::from_ref(&first), || Ok(()));
    let awaited = second.clone();
    let (tell, told) = mpsc::channel();
    let third = task(&queue, &[], move || {
        let _ = tell.send(());
        awaited.wait()
    });
    told.recv().expect("the third runs while the first waits");
    gate.complete();
    for event in [first, second, third] {
        event.wait().expect("none waits for ever");
    }
}

#[test]
fn a_task_may_wait_for_a_user_event_that_another_task_completes() {
    let queue = out_of_order();
    let gate = UserEvent::new();
    let event = gate.event();
    let waits = task(&queue, &[], move || event.wait());
    let completes = task(&queue, &[], move || {
        gate.complete();
        Ok(())
    });
    waits.wait().expect("the other task ran");
    completes.wait().expect("it ran");
}

#[test]
fn a_host_thread_that_waits_is_not_caught_in_a_task() {
    let queue = out_of_order();
    let (gate, other) = (UserEvent::new(), UserEvent::new());
    let (event, behind) = (gate.event(), other.event());
    let waits = task(&queue, std::slice::from_ref(&behind), move || event.wait());
    let quick = queue.marker(&[]).expect("a marker");
    drop(quick);
    let nothing = task(&queue, &[behind], || Ok(()));
    other.complete();
    nothing.wait().expect("it does not depend on the first");
    gate.complete();
    waits.wait().expect("its event is complete");
}

/// A closure, unlike code for other devices, may block.
#[test]
fn a_host_thread_that_waits_is_not_caught_in_a_launch() {
    let queue = out_of_order();
    for _ in 0..ROUNDS {
        let (gate, other) = (UserEvent::new(), UserEvent::new());
        let (event, behind) = (gate.event(), [other.event()]);
        let request = Request {
            waits: &behind,
            ..Request::default()
        };
        let blocks = Long(move || event.wait().expect("it was completed"));
        let launch = queue.launch(blocks, 1, &request).expect("a launch");
        let nothing = queue.launch(Long(|| ()), 1, &request).expect("a launch");
        // Both at once, to the worker that sleeps, or to this thread.
        other.complete();
        nothing.wait().expect("it does not depend on the first");
        gate.complete();
        launch.wait().expect("its event is complete");
    }
}

#[test]
fn who_waits_leaves_what_it_shares_to_who_takes_its_place() {
    let queue = out_of_order();
    // The worker itself runs commands that such a task makes ready.
    let held = || {
        let (open, opened) = mpsc::channel::<()>();
        let gate = task(&queue, &[], move || {
            // Until nobody holds it any more.
            let _ = opened.recv();
            Ok(())
        });
        (open, [gate])
    };
    let long = |waits: &[Event]| {
        let request = Request {
            waits,
            ..Request::default()
        };
        queue
            .launch(Long(|| ()), 1, &request)
            .expect("a valid launch")
    };
    for _ in 0..3 {
        // So it knows how long one takes.
        let (open, gate) = held();
        let one = long(&gate);
        drop(open);
        one.wait().expect("it ran");
    }
    let (open, gate) = held();
    let first = long(&gate);
    let (tell, told) = mpsc::channel::<Event>();
    let waits = task(&queue, &gate, move || {
        told.recv().expect("an event was sent").wait()
    });
    let last = long(&gate);
    tell.send(last.clone()).expect("the task has not run yet");
    drop(open);
    for event in [first, waits, last] {
        event.wait().expect("none waits for ever");
    }
}

/// Panics when it is dropped.
struct Bomb;

impl Drop for Bomb {
    fn drop(&mut self) {
        // Once: a panic while another unwinds would end the process.
        if !std::thread::panicking() {
            std::panic::panic_any(Bomb);
        }
    }
}

#[test]
fn what_a_panic_carries_may_panic() {
    let queue = out_of_order();
    let bomb = task(&queue, &[], || std::panic::panic_any(Bomb));
    let error = bomb.wait().expect_err("it panicked");
    assert!(
        matches!(error.kind(), ErrorKind::Panicked { .. }),
        "{error}"
    );
    let gate = UserEvent::new();
    let observed = task(&queue, &[gate.event()], || Ok(()));
    let called = Arc::new(AtomicU32::new(0));
    let count = called.clone();
    observed.on_complete(move |_| {
        count.fetch_add(1, Ordering::SeqCst);
        std::panic::panic_any(Bomb)
    });
    gate.complete();
    observed.wait().expect("its callback is not it");
    task(&queue, &[], || Ok(()))
        .wait()
        .expect("the worker is alive");
    queue.wait().expect("the queue is fine");
    // A callback may come a moment later than the end that it is told of.
    while called.load(Ordering::SeqCst) == 0 {
        std::thread::yield_now();
    }
}

/// Each of two pools ends in a callback on the other one's only worker.
#[test]
fn two_pools_may_end_in_each_others_callbacks() {
    let both = Arc::new(Barrier::new(2));
    let (tell, told) = mpsc::channel();
    let stages = [(); 2].map(|()| {
        let queue = out_of_order();
        let gate = UserEvent::new();
        let event = task(&queue, &[gate.event()], || Ok(()));
        (queue, gate, event)
    });
    let [(one, one_gate, one_event), (two, two_gate, two_event)] = stages;
    for (other, event) in [(two, one_event), (one, two_event)] {
        let (both, tell) = (both.clone(), tell.clone());
        event.on_complete(move |_| {
            both.wait();
            // The last handle to its pool.
            drop(other);
            tell.send(()).expect("the test waits for it");
        });
    }
    // As this thread waits for nothing, the workers run the tasks, and call back.
    one_gate.complete();
    two_gate.complete();
    for _ in 0..2 {
        told.recv_timeout(PATIENCE)
            .expect("none waits for the other one's thread");
    }
}
