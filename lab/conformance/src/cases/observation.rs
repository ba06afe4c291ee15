//! Commands as the host sees them: callbacks, futures, timeouts, phases,
//! timestamps.

use super::cases;
use crate::Fixture;
use crate::support::*;
use quipu_scheduler::error::ErrorKind;
use quipu_scheduler::event::wait_graph;
use quipu_scheduler::{Clock, Event, Phase, QueueOptions, UserEvent};
use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::pin::Pin;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

cases! {
    Anything:
        callbacks_are_called_once_in_order,
        a_panicking_callback_is_contained,
        who_waits_while_it_panics_loses_nothing,
        a_panicking_waker_is_contained,
        callbacks_see_dependants_released,
        callbacks_may_enqueue_and_wait_for_nothing,
        futures_wake_once,
        a_dropped_future_lets_go_of_its_waker,
        futures_of_what_is_over_are_ready,
        who_waits_for_any_waits_for_the_host_too,
        who_is_unparked_as_it_waits_is_so_afterwards,
        timestamps_are_in_order,
        no_timestamps_unless_asked_for,
        phases;
    Asynchronous:
        a_timeout_leaves_the_command_alone,
        who_waits_for_a_time_takes_up_no_work,
        who_waits_for_any_takes_up_no_work,
        many_threads_wait_for_one_event;
}

fn callbacks_are_called_once_in_order(fixture: &dyn Fixture) {
    let stage = Stage::new(fixture);
    for queue in [stage.in_order(), stage.out_of_order()] {
        for fails in [false, true] {
            let gate = UserEvent::new();
            let event = launch(&queue, &[], &[gate.event()], move |_| {
                if fails { Err(boom("callback")) } else { Ok(()) }
            });
            let calls = Arc::new(Mutex::new(Vec::new()));
            for n in 0..100 {
                let calls = calls.clone();
                event.on_complete(move |result| {
                    calls.lock().unwrap().push((n, result.is_err()));
                });
            }
            queue.flush();
            assert!(calls.lock().unwrap().is_empty());
            gate.complete();
            event.wait_over().unwrap();
            while calls.lock().unwrap().len() < 100 {
                std::thread::yield_now();
            }
            // Over: called here and now.
            let now = calls.clone();
            event.on_complete(move |result| now.lock().unwrap().push((100, result.is_err())));
            let expected: Vec<_> = (0..=100).map(|n| (n, fails)).collect();
            assert_eq!(*calls.lock().unwrap(), expected);
        }
    }
}

fn a_panicking_callback_is_contained(fixture: &dyn Fixture) {
    let stage = Stage::new(fixture);
    for queue in [stage.in_order(), stage.out_of_order()] {
        let gate = UserEvent::new();
        let event = nothing(&queue, &[], &[gate.event()]);
        let dependant = nothing(&queue, &[], from_ref(&event));
        let called = Arc::new(AtomicU32::new(0));
        for n in 0..10 {
            let called = called.clone();
            event.on_complete(move |_| {
                called.fetch_add(1, Ordering::SeqCst);
                if n % 2 == 0 {
                    std::panic::resume_unwind(Box::new("a callback"));
                }
            });
        }
        gate.complete();
        dependant.wait().unwrap();
        event.wait().unwrap();
        while called.load(Ordering::SeqCst) < 10 {
            std::thread::yield_now();
        }
        // Of a user event, too.
        let user = UserEvent::new();
        user.event()
            .on_complete(|_| std::panic::resume_unwind(Box::new("a callback")));
        user.complete();
        nothing(&queue, &[], &[]).wait().unwrap();
    }
}

/// Counts how often it is called, and panics.
#[derive(Default)]
struct PanickingWaker(AtomicU32);

impl Wake for PanickingWaker {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::SeqCst);
        std::panic::resume_unwind(Box::new("a waker"));
    }
}

fn a_panicking_waker_is_contained(fixture: &dyn Fixture) {
    let stage = Stage::new(fixture);
    for queue in [stage.in_order(), stage.out_of_order()] {
        let gate = UserEvent::new();
        let mut event = nothing(&queue, &[], &[gate.event()]);
        let dependant = nothing(&queue, &[], from_ref(&event));
        let panics = Arc::new(PanickingWaker::default());
        let waker = Waker::from(panics.clone());
        let polled = Pin::new(&mut event).poll(&mut Context::from_waker(&waker));
        assert!(polled.is_pending());
        gate.complete();
        dependant.wait().unwrap();
        event.wait().unwrap();
        while panics.0.load(Ordering::SeqCst) == 0 {
            std::thread::yield_now();
        }
        nothing(&queue, &[], &[]).wait().unwrap();
    }
}

fn callbacks_see_dependants_released(fixture: &dyn Fixture) {
    let stage = Stage::new(fixture);
    let queue = stage.out_of_order();
    let user = UserEvent::new();
    let event = user.event();
    let marker = queue.marker(from_ref(&event)).unwrap();
    let seen = Flag::new();
    let (inside, watched) = (seen.clone(), marker.clone());
    event.on_complete(move |_| {
        if watched.is_complete() {
            inside.set();
        }
    });
    user.complete();
    assert!(
        seen.is_set(),
        "dependants are released before callbacks run"
    );
    marker.wait().unwrap();
}

fn callbacks_may_enqueue_and_wait_for_nothing(fixture: &dyn Fixture) {
    let stage = Stage::new(fixture);
    let queue = stage.out_of_order();
    let memory = stage.memory(8);
    let gate = UserEvent::new();
    let first = fold(&queue, &memory, 1, &[gate.event()]);
    let done = Flag::new();
    let (inside, again, bytes) = (done.clone(), queue.clone(), memory.clone());
    first.on_complete(move |_| {
        fold(&again, &bytes, 2, &[]);
        again.flush();
        inside.set();
    });
    gate.complete();
    first.wait().unwrap();
    done.wait();
    assert_eq!(read_number(&queue, &memory), folded([1, 2]));
}

/// Counts how often it is woken.
#[derive(Default)]
struct Woken(AtomicU32);

impl Wake for Woken {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

fn poll(event: &mut Event, woken: &Arc<Woken>) -> Poll<quipu_scheduler::Result<()>> {
    let waker = Waker::from(woken.clone());
    Pin::new(event).poll(&mut Context::from_waker(&waker))
}

fn futures_wake_once(fixture: &dyn Fixture) {
    let stage = Stage::new(fixture);
    for queue in [stage.in_order(), stage.out_of_order()] {
        let gate = UserEvent::new();
        let mut event = nothing(&queue, &[], &[gate.event()]);
        let mut clone = event.clone();
        let (old, new, other) = (
            Arc::new(Woken::default()),
            Arc::new(Woken::default()),
            Arc::new(Woken::default()),
        );
        // The last waker polled with is the one that counts; clones are futures
        // of their own.
        for _ in 0..10 {
            assert!(poll(&mut event, &old).is_pending());
        }
        assert!(poll(&mut event, &new).is_pending());
        assert!(poll(&mut clone, &other).is_pending());
        gate.complete();
        event.wait().unwrap();
        while new.0.load(Ordering::SeqCst) == 0 || other.0.load(Ordering::SeqCst) == 0 {
            std::thread::yield_now();
        }
        assert!(matches!(poll(&mut event, &new), Poll::Ready(Ok(()))));
        assert!(matches!(poll(&mut clone, &other), Poll::Ready(Ok(()))));
        let count = |woken: &Woken| woken.0.load(Ordering::SeqCst);
        assert_eq!((count(&old), count(&new), count(&other)), (0, 1, 1));
    }
}

fn a_dropped_future_lets_go_of_its_waker(fixture: &dyn Fixture) {
    let stage = Stage::new(fixture);
    for queue in [stage.in_order(), stage.out_of_order()] {
        let gate = UserEvent::new();
        let event = nothing(&queue, &[], &[gate.event()]);
        let woken = Arc::new(Woken::default());
        for _ in 0..1000 {
            let mut future = event.clone();
            assert!(poll(&mut future, &woken).is_pending());
        }
        assert_eq!(Arc::strong_count(&woken), 1);
        gate.complete();
        event.wait().unwrap();
        assert_eq!(woken.0.load(Ordering::SeqCst), 0);
    }
}

fn futures_of_what_is_over_are_ready(fixture: &dyn Fixture) {
    let stage = Stage::new(fixture);
    let queue = stage.in_order();
    let woken = Arc::new(Woken::default());
    let mut fine = nothing(&queue, &[], &[]);
    fine.wait().unwrap();
    assert!(matches!(poll(&mut fine, &woken), Poll::Ready(Ok(()))));
    let mut failed = failing(&queue, &[], &[]);
    failed.wait_over().unwrap();
    assert!(matches!(poll(&mut failed, &woken), Poll::Ready(Err(_))));
    // Polling again is harmless.
    assert!(matches!(poll(&mut failed, &woken), Poll::Ready(Err(_))));
    assert_eq!(woken.0.load(Ordering::SeqCst), 0);
}

const TIMED: QueueOptions = QueueOptions {
    profiling: true,
    ..OUT_OF_ORDER
};

/// A thread that is unparked for a reason of the program's own does not know whether it waits.
fn who_is_unparked_as_it_waits_is_so_afterwards(fixture: &dyn Fixture) {
    const SLEEPER: &str = "is unparked as it waits";
    /// For what comes at once, or never.
    const PATIENCE: Duration = Duration::from_secs(60);
    let stage = Stage::new(fixture);
    let gate = UserEvent::new();
    let event = nothing(&stage.out_of_order(), &[], &[gate.event()]);
    let (tell, told) = channel();
    let sleeper = move || {
        std::thread::current().unpark();
        event.wait().unwrap();
        std::thread::park();
        tell.send(()).unwrap();
    };
    let thread = std::thread::Builder::new().name(SLEEPER.to_owned());
    let thread = thread.spawn(sleeper).unwrap();
    while !wait_graph().contains(SLEEPER) {
        std::thread::yield_now();
    }
    gate.complete();
    told.recv_timeout(PATIENCE).expect("it stays parked");
    thread.join().unwrap();
}

fn timestamps_are_in_order(fixture: &dyn Fixture) {
    let stage = Stage::new(fixture);
    let queue = stage.queue(TIMED);
    let mut last: Option<Event> = None;
    let mut ended = 0;
    let mut queued = 0;
    for n in 0..200 {
        let waits = last.as_slice();
        let event = match n % 10 {
            3 => queue.marker(waits).unwrap(),
            5 => queue
                .host_task(
                    |_| Ok(()),
                    &quipu_scheduler::Request {
                        waits,
                        ..Default::default()
                    },
                )
                .unwrap(),
            _ => nothing(&queue, &[], waits),
        };
        last = Some(event.clone());
        if n % 7 == 0 {
            continue;
        }
        event.wait().unwrap();
        let profile = event.profile().expect("the queue keeps timestamps");
        let states = [
            profile.queued_ns,
            profile.submitted_ns,
            profile.started_ns,
            profile.ended_ns,
        ];
        assert!(states.is_sorted(), "{profile:?}");
        assert!(
            profile.started_ns >= ended,
            "it started before its wait ended"
        );
        assert!(profile.queued_ns >= queued);
        (ended, queued) = (profile.ended_ns, profile.queued_ns);
    }
    // Of what has not happened there is none yet.
    let gate = UserEvent::new();
    let gated = nothing(&queue, &[], &[gate.event()]);
    let profile = gated.profile().unwrap();
    assert!(profile.queued_ns > 0 && profile.started_ns == 0 && profile.ended_ns == 0);
    gate.complete();
    gated.wait().unwrap();
    assert!(gated.profile().unwrap().ended_ns > 0);
}

fn no_timestamps_unless_asked_for(fixture: &dyn Fixture) {
    let stage = Stage::new(fixture);
    let event = nothing(&stage.in_order(), &[], &[]);
    event.wait().unwrap();
    // A trace of the whole process keeps them anyway.
    assert!(event.profile().is_none() || std::env::var_os("QUIPU_TRACE").is_some());
}

fn phases(fixture: &dyn Fixture) {
    let stage = Stage::new(fixture);
    let queue = stage.out_of_order();
    let gate = UserEvent::new();
    let inside = Arc::new(Mutex::new(None::<Event>));
    let seen = Arc::new(Mutex::new(None));
    let (me, saw) = (inside.clone(), seen.clone());
    let event = launch(&queue, &[], &[gate.event()], move |_| {
        *saw.lock().unwrap() = me.lock().unwrap().take().map(|event| event.phase());
        Ok(())
    });
    *inside.lock().unwrap() = Some(event.clone());
    assert!(event.phase() <= Phase::Submitted);
    gate.complete();
    event.wait().unwrap();
    assert_eq!(*seen.lock().unwrap(), Some(Phase::Running));
    assert_eq!(event.phase(), Phase::Complete);
    let failed = failing(&queue, &[], &[]);
    failed.wait_over().unwrap();
    assert_eq!(failed.phase(), Phase::Failed);
}

/// A clock that the case moves: each sleep takes a second of it.
#[derive(Default)]
struct Manual(AtomicU32);

impl Clock for Manual {
    fn now(&self) -> Duration {
        Duration::from_secs(self.0.load(Ordering::SeqCst).into())
    }

    fn park(&self, _: Duration) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

fn a_timeout_leaves_the_command_alone(fixture: &dyn Fixture) {
    let stage = Stage::new(fixture);
    for queue in [stage.in_order(), stage.out_of_order()] {
        let gate = UserEvent::new();
        let event = nothing(&queue, &[], &[gate.event()]);
        let clock = Manual::default();
        for _ in 0..3 {
            let error = event
                .wait_with_clock(Duration::from_secs(5), &clock)
                .expect_err("nobody opened the gate");
            assert!(matches!(error.kind(), ErrorKind::TimedOut), "{error}");
        }
        assert!(event.wait_timeout(Duration::ZERO).is_err());
        gate.complete();
        event.wait().unwrap();
        event.wait_with_clock(Duration::ZERO, &clock).unwrap();
    }
}

fn who_waits_for_a_time_takes_up_no_work(fixture: &dyn Fixture) {
    let stage = Stage::new(fixture);
    let queue = stage.out_of_order();
    let me = std::thread::current().id();
    for round in 0..200 {
        let (release, timed, caught) = (Flag::new(), Flag::new(), Flag::new());
        let (held, is_timed, inside) = (release.clone(), timed.clone(), caught.clone());
        // So that the next finds nobody awake, perhaps.
        let driver = stage.devices[0].driver();
        (0..1000)
            .take_while(|_| !driver.is_idle())
            .for_each(|_| std::thread::yield_now());
        timed.set();
        let event = launch(&queue, &[], &[], move |_| {
            if std::thread::current().id() != me {
                held.wait();
            } else if is_timed.is_set() {
                // Held here, it would never be let go.
                inside.set();
            }
            Ok(())
        });
        let waited = match round % 2 {
            0 => event.wait_timeout(Duration::ZERO),
            _ => event.wait_with_clock(Duration::from_secs(5), &Manual::default()),
        };
        timed.clear();
        release.set();
        event.wait().unwrap();
        assert!(!caught.is_set(), "its command ran on the waiting thread");
        let error = waited.expect_err("it was held");
        assert!(matches!(error.kind(), ErrorKind::TimedOut), "{error}");
    }
}

fn who_waits_for_any_takes_up_no_work(fixture: &dyn Fixture) {
    let stage = Stage::new(fixture);
    let queue = stage.out_of_order();
    let me = std::thread::current().id();
    for _ in 0..200 {
        let (release, caught, gate) = (Flag::new(), Flag::new(), UserEvent::new());
        let (held, inside) = (release.clone(), caught.clone());
        // So that the next finds nobody awake, perhaps.
        let driver = stage.devices[0].driver();
        (0..1000)
            .take_while(|_| !driver.is_idle())
            .for_each(|_| std::thread::yield_now());
        let event = launch(&queue, &[], &[], move |_| {
            if std::thread::current().id() == me {
                // Held here, it would never be let go.
                inside.set();
            } else {
                held.wait();
            }
            Ok(())
        });
        let other = gate.event();
        complete_later(gate);
        Event::wait_for_first(&[&event, &other], None).unwrap();
        let was_caught = caught.is_set();
        release.set();
        event.wait().unwrap();
        assert!(!was_caught, "its command ran on the waiting thread");
    }
}

/// On another thread, after some turns.
fn complete_later(gate: UserEvent) {
    std::thread::spawn(move || {
        (0..100).for_each(|_| std::thread::yield_now());
        gate.complete();
    });
}

fn who_waits_for_any_waits_for_the_host_too(fixture: &dyn Fixture) {
    let stage = Stage::new(fixture);
    for queue in [stage.in_order(), stage.out_of_order()] {
        for first in [true, false] {
            let (never, gate) = (UserEvent::new(), UserEvent::new());
            let (held, event) = (nothing(&queue, &[], &[never.event()]), gate.event());
            complete_later(gate);
            let events = if first {
                [&event, &held]
            } else {
                [&held, &event]
            };
            Event::wait_for_first(&events, None).unwrap();
            assert!(event.is_complete() && !held.is_complete());
            never.complete();
            held.wait().unwrap();
        }
    }
}

fn many_threads_wait_for_one_event(fixture: &dyn Fixture) {
    let stage = Stage::new(fixture);
    for queue in [stage.in_order(), stage.out_of_order()] {
        for fails in [false, true] {
            let gate = UserEvent::new();
            let event = nothing(&queue, &[], &[gate.event()]);
            std::thread::scope(|scope| {
                for _ in 0..8 {
                    scope.spawn(|| assert_eq!(event.wait().is_err(), fails));
                    scope.spawn(|| queue.wait().unwrap());
                }
                if fails {
                    gate.fail("as it happens");
                } else {
                    gate.complete();
                }
            });
        }
    }
}

/// Waits as it is dropped.
struct WaitsAtLast(Event);

impl Drop for WaitsAtLast {
    fn drop(&mut self) {
        drop(self.0.wait());
    }
}

fn who_waits_while_it_panics_loses_nothing(fixture: &dyn Fixture) {
    let stage = Stage::new(fixture);
    let queue = stage.out_of_order();
    for _ in 0..50 {
        let event = nothing(&queue, &[], &[]);
        let panicked = catch_unwind(AssertUnwindSafe(|| {
            let _at_last = WaitsAtLast(event.clone());
            resume_unwind(Box::new("what it waits for is not at fault"));
        }));
        assert!(panicked.is_err());
        event.wait().unwrap();
        nothing(&queue, &[], &[]).wait().unwrap();
    }
}
