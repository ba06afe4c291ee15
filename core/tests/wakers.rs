//! Wakers are a user's code: they are cloned, woken and dropped with nothing locked, and may wait.
#![cfg(not(loom))]
#![allow(clippy::unwrap_used, reason = "helpers assert by unwrapping")]

use quipu_scheduler::command::ToDrivers;
use quipu_scheduler::driver::Notification;
use quipu_scheduler::error::ErrorKind;
use quipu_scheduler::{Device, DeviceProperties, Driver, Event, Request, UserEvent};
use std::pin::Pin;
use std::sync::{Arc, Mutex, mpsc};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

mod devices;

/// For events that come at once, or never.
const PATIENCE: Duration = Duration::from_secs(60);

/// A waker that completes an event as it is dropped.
struct Completes(Mutex<Option<UserEvent>>);

impl Wake for Completes {
    fn wake(self: Arc<Self>) {}
}

impl Drop for Completes {
    fn drop(&mut self) {
        if let Some(event) = self.0.lock().unwrap().take() {
            event.complete();
        }
    }
}

#[test]
fn a_waker_that_is_replaced_may_end_what_it_waited_for() {
    let (tell, told) = mpsc::channel();
    std::thread::spawn(move || {
        let user = UserEvent::new();
        let mut event = user.event();
        let mut poll = |waker: &Waker| {
            let mut context = Context::from_waker(waker);
            Pin::new(&mut event).poll(&mut context)
        };
        let first = Waker::from(Arc::new(Completes(Mutex::new(Some(user)))));
        assert!(poll(&first).is_pending());
        drop(first);
        let second = poll(Waker::noop());
        tell.send(matches!(second, Poll::Ready(Ok(())))).unwrap();
    });
    let is_finished = told.recv_timeout(PATIENCE);
    assert!(is_finished.expect("it waits for itself"));
}

/// A waker that calls, once.
struct Calls(Mutex<Option<Box<dyn FnOnce() + Send>>>);

impl Wake for Calls {
    fn wake(self: Arc<Self>) {
        let call = self.0.lock().unwrap().take();
        call.into_iter().for_each(|call| call());
    }
}

/// A future of the event that calls when it is woken.
fn calling(event: &Event, call: impl FnOnce() + Send + 'static) -> Event {
    let mut future = event.clone();
    let waker = Waker::from(Arc::new(Calls(Mutex::new(Some(Box::new(call))))));
    let mut context = Context::from_waker(&waker);
    assert!(Pin::new(&mut future).poll(&mut context).is_pending());
    future
}

#[test]
fn a_waker_waits_for_what_others_of_its_event_bring_about() {
    // More than may wait inside of each other: the rest are refused.
    for waiting in [1, 200] {
        let (gate, brought_about) = (UserEvent::new(), UserEvent::new());
        let (tell, told) = mpsc::channel();
        let mut futures = Vec::new();
        for _ in 0..waiting {
            let (event, tell) = (brought_about.event(), tell.clone());
            futures.push(calling(&gate.event(), move || {
                tell.send(event.wait()).unwrap();
            }));
        }
        futures.push(calling(&gate.event(), || brought_about.complete()));
        let ends = std::thread::spawn(|| gate.complete());
        let results =
            (0..waiting).map(|_| told.recv_timeout(PATIENCE).expect("it waits for itself"));
        let refused = results.filter_map(Result::err).collect::<Vec<_>>();
        let is_refusal = |kind: &ErrorKind| matches!(kind, ErrorKind::WouldDeadlock { .. });
        assert!(refused.iter().all(|error| is_refusal(error.kind())));
        assert!(waiting > 1 || refused.is_empty());
        ends.join().unwrap();
    }
}

#[test]
fn a_waker_that_waits_for_a_limited_time_calls_no_other() {
    let (gate, later) = (UserEvent::new(), UserEvent::new());
    let (never, brought_about) = (UserEvent::new(), later.event());
    let (tell, told) = mpsc::channel();
    let futures = [
        calling(&gate.event(), move || {
            let _ = never.event().wait_timeout(Duration::from_millis(1));
            later.complete();
        }),
        calling(&gate.event(), move || {
            tell.send(brought_about.wait()).unwrap();
        }),
    ];
    let ends = std::thread::spawn(|| gate.complete());
    let outcome = told.recv_timeout(PATIENCE);
    outcome.expect("it waits for the one before").unwrap();
    ends.join().unwrap();
    drop(futures);
}

#[test]
fn a_waker_that_has_waited_has_others_called_as_before() {
    let (gate, awaited, user) = (UserEvent::new(), UserEvent::new(), UserEvent::new());
    let (tell, told) = mpsc::channel();
    let (feed, fed) = mpsc::channel();
    let (of_awaited, of_user) = (awaited.event(), user.event());
    let futures = [
        calling(&gate.event(), move || {
            of_awaited.wait().unwrap();
            user.complete();
            tell.send(fed.recv_timeout(PATIENCE)).unwrap();
        }),
        calling(&gate.event(), || awaited.complete()),
        calling(&of_user, move || feed.send(()).unwrap()),
    ];
    std::thread::spawn(|| gate.complete());
    let is_fed = told.recv().unwrap();
    is_fed.expect("the waker of what it completes is called at once");
    drop(futures);
}

#[test]
fn a_waker_has_its_own_called_though_one_of_them_has_called_others() {
    let (gate, awaited, user) = (UserEvent::new(), UserEvent::new(), UserEvent::new());
    let (tell, told) = mpsc::channel();
    let (feed, fed) = mpsc::channel();
    let (of_awaited, of_user) = (awaited.event(), user.event());
    let futures = [
        calling(&of_user, move || of_awaited.wait().unwrap()),
        calling(&of_user, move || feed.send(()).unwrap()),
        calling(&gate.event(), move || {
            user.complete();
            tell.send(fed.recv_timeout(PATIENCE)).unwrap();
        }),
        calling(&gate.event(), || awaited.complete()),
        // Left in front of those of `user`, when the wait has called the one before.
        calling(&gate.event(), || {}),
    ];
    let ends = std::thread::spawn(|| gate.complete());
    let is_fed = told.recv().unwrap();
    is_fed.expect("the wakers of what it completes are called at once");
    ends.join().unwrap();
    drop(futures);
}

/// Says that it is handed a command, and ends it.
struct Says(Mutex<mpsc::Sender<()>>);

// SAFETY: a command's code and memory are not used.
unsafe impl Driver for Says {
    fn name(&self) -> &'static str {
        "says"
    }

    fn devices(&self) -> Vec<DeviceProperties> {
        devices::one("says")
    }

    fn notify(&self, notification: Notification) {
        if let Notification::Ready(command) = notification {
            self.0.lock().unwrap().send(()).unwrap();
            command.finish(Ok(()), &mut ToDrivers);
        }
    }
}

#[test]
fn a_waker_of_a_marker_blocks_for_what_it_lets_go() {
    let (say, said) = mpsc::channel();
    let driver: Arc<dyn Driver> = Arc::new(Says(Mutex::new(say)));
    let devices = Device::all_of(&driver).unwrap();
    let context = quipu_scheduler::Context::new(&devices).unwrap();
    let queue = context.queue(&devices[0], Default::default()).unwrap();
    let (gate, let_go) = (UserEvent::new(), UserEvent::new());
    let marker = context.queue(&devices[0], Default::default()).unwrap();
    let marker = marker.marker(&[gate.event()]).unwrap();
    let request = Request {
        waits: &[let_go.event()],
        ..Request::default()
    };
    let task = queue.host_task(|_| Ok(()), &request).unwrap();
    let (tell, told) = mpsc::channel();
    let future = calling(&marker, move || {
        let_go.complete();
        tell.send(said.recv_timeout(PATIENCE)).unwrap();
    });
    gate.complete();
    let is_handed_over = told.recv().unwrap();
    is_handed_over.expect("the driver has it while the waker goes on");
    task.wait().unwrap();
    drop(future);
}

/// Ends what it is handed, at once.
struct Ends;

// SAFETY: a command's code and memory are not used.
unsafe impl Driver for Ends {
    fn name(&self) -> &'static str {
        "ends"
    }

    fn devices(&self) -> Vec<DeviceProperties> {
        devices::one("ends")
    }

    fn notify(&self, notification: Notification) {
        if let Notification::Ready(command) = notification {
            command.finish(Ok(()), &mut ToDrivers);
        }
    }
}

#[test]
fn a_waker_waits_for_what_a_callback_of_its_event_brings_about() {
    let driver: Arc<dyn Driver> = Arc::new(Ends);
    let devices = Device::all_of(&driver).unwrap();
    let context = quipu_scheduler::Context::new(&devices).unwrap();
    let queue = context.queue(&devices[0], Default::default()).unwrap();
    // With dependants, the end gathers.
    for dependants in 0..3 {
        let (gate, brought_about) = (UserEvent::new(), UserEvent::new());
        let (tell, told) = mpsc::channel();
        let awaited = brought_about.event();
        let future = calling(&gate.event(), move || tell.send(awaited.wait()).unwrap());
        gate.event().on_complete(move |_| brought_about.complete());
        let request = Request {
            waits: &[gate.event()],
            ..Request::default()
        };
        for _ in 0..dependants {
            drop(queue.host_task(|_| Ok(()), &request).unwrap());
        }
        std::thread::spawn(|| gate.complete());
        let outcome = told.recv_timeout(PATIENCE);
        outcome.expect("its callback is not called").unwrap();
        drop(future);
    }
}

#[test]
fn a_waker_that_blocks_has_callbacks_called_of_what_it_completes() {
    let (gate, user) = (UserEvent::new(), UserEvent::new());
    let (feed, fed) = mpsc::channel();
    user.event().on_complete(move |_| feed.send(()).unwrap());
    let (tell, told) = mpsc::channel();
    let future = calling(&gate.event(), move || {
        user.complete();
        tell.send(fed.recv_timeout(PATIENCE)).unwrap();
    });
    std::thread::spawn(|| gate.complete());
    let is_fed = told.recv().unwrap();
    is_fed.expect("the callback of what it completes is called at once");
    drop(future);
}

#[test]
fn a_waker_that_has_waited_has_no_further_callback_called() {
    let (gate, first, second) = (UserEvent::new(), UserEvent::new(), UserEvent::new());
    let (awaited, last) = (first.event(), second.event());
    let (tell, told) = mpsc::channel();
    let future = calling(&gate.event(), move || {
        awaited.wait().unwrap();
        second.complete();
        tell.send(()).unwrap();
    });
    gate.event().on_complete(move |_| first.complete());
    gate.event().on_complete(move |_| last.wait().unwrap());
    std::thread::spawn(|| gate.complete());
    let outcome = told.recv_timeout(PATIENCE);
    outcome.expect("a callback waits for what comes after the wait");
    drop(future);
}

#[test]
fn a_waker_that_waits_for_a_limited_time_has_no_callback_called() {
    let driver: Arc<dyn Driver> = Arc::new(Ends);
    let devices = Device::all_of(&driver).unwrap();
    let context = quipu_scheduler::Context::new(&devices).unwrap();
    let queue = context.queue(&devices[0], Default::default()).unwrap();
    let (gate, never, later) = (UserEvent::new(), UserEvent::new(), UserEvent::new());
    let request = Request {
        waits: &[never.event()],
        ..Request::default()
    };
    drop(queue.host_task(|_| Ok(()), &request).unwrap());
    // Its event is shown when the one before is over, too.
    let held_back = queue.host_task(|_| Ok(()), &Request::default()).unwrap();
    let last = later.event();
    let (tell, told) = mpsc::channel();
    let future = calling(&gate.event(), move || {
        assert!(held_back.wait_timeout(Duration::from_millis(1)).is_err());
        later.complete();
        tell.send(()).unwrap();
    });
    gate.event().on_complete(move |_| last.wait().unwrap());
    std::thread::spawn(|| gate.complete());
    let outcome = told.recv_timeout(PATIENCE);
    outcome.expect("a callback waits for what comes after the wait");
    never.complete();
    drop(future);
}
