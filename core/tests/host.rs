//! Turns of the host: calls within them come after other commands, wait, panic, and give the bytes
//! to another thread.
#![cfg(not(loom))]
#![allow(clippy::unwrap_used, reason = "helpers assert by unwrapping")]

use quipu_scheduler::command::ToDrivers;
use quipu_scheduler::driver::Notification;
use quipu_scheduler::error::ErrorKind;
use quipu_scheduler::memory::mapping::{HostLease, HostQueue};
use quipu_scheduler::{
    Access, AccessMode, Context, Device, DeviceProperties, Driver, Event, QueueOptions, Request,
    UserEvent,
};
use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::task::{Wake, Waker};
use std::time::Duration;

mod devices;

/// For what happens at once, or never.
const PATIENCE: Duration = Duration::from_secs(60);

/// Ends each command that it is told of, but panics at one of them.
struct Ends {
    told: AtomicUsize,
    panics_at: usize,
}

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
            let told = self.told.fetch_add(1, Ordering::Relaxed);
            assert_ne!(told, self.panics_at, "by design");
            command.finish(Ok(()), &mut ToDrivers);
        }
    }
}

fn context(panics_at: usize) -> Context {
    let driver: Arc<dyn Driver> = Arc::new(Ends {
        told: AtomicUsize::new(0),
        panics_at,
    });
    Context::new(&Device::all_of(&driver).unwrap()).unwrap()
}

/// Turns of the host at objects of their own, which become ready together when the event is
/// completed.
fn turns<const N: usize>(
    context: &Context,
    gate: &UserEvent,
    begin: impl Fn(usize, HostLease) + Clone + Send + 'static,
) -> [Event; N] {
    let host = HostQueue::new(context).unwrap();
    std::array::from_fn(|number| {
        let memory = context.memory(8).unwrap();
        let access = Access {
            memory: &memory,
            offset: 0,
            length: 8,
            mode: AccessMode::ReadWrite,
        };
        let begin = begin.clone();
        let begin = move |lease: Option<HostLease>| begin(number, lease.unwrap());
        host.lend(access, &[gate.event()], begin).unwrap()
    })
}

/// Commands of the driver that become ready together when the event is completed.
fn commands<const N: usize>(context: &Context, gate: &UserEvent) -> [Event; N] {
    let options = QueueOptions {
        in_order: false,
        ..QueueOptions::default()
    };
    let queue = context.queue(&context.devices()[0], options).unwrap();
    let request = Request {
        waits: &[gate.event()],
        ..Request::default()
    };
    std::array::from_fn(|_| queue.host_task(|_| Ok(()), &request).unwrap())
}

/// A waker that calls.
struct Calls(Mutex<Box<dyn FnMut() + Send>>);

impl Wake for Calls {
    fn wake(self: Arc<Self>) {
        (self.0.lock().unwrap())();
    }
}

fn call_as_waker(event: &Event, call: impl FnMut() + Send + 'static) -> Event {
    let mut future = event.clone();
    let waker = Waker::from(Arc::new(Calls(Mutex::new(Box::new(call)))));
    let mut context = std::task::Context::from_waker(&waker);
    assert!(Pin::new(&mut future).poll(&mut context).is_pending());
    future
}

#[test]
fn a_waker_waits_for_what_became_ready_with_its_command() {
    let context = context(usize::MAX);
    let gate = UserEvent::new();
    let ends = |_, lease: HostLease| lease.finish(Ok(()));
    let turns = turns::<3>(&context, &gate, ends);
    let commands = commands::<3>(&context, &gate);
    let all = [turns, commands].concat();
    let (tell, told) = mpsc::channel();
    let mut futures = Vec::new();
    for event in &all {
        // Of each others are in the same hands, before or after it.
        let (others, tell) = (all.clone(), tell.clone());
        futures.push(call_as_waker(event, move || {
            let waited = others.iter().try_for_each(Event::wait);
            tell.send(waited).unwrap();
        }));
    }
    let ends = std::thread::spawn(|| gate.complete());
    for _ in &all {
        let waited = told.recv_timeout(PATIENCE);
        waited.expect("it waits for what its thread has").unwrap();
    }
    ends.join().unwrap();
}

#[test]
fn a_waker_blocks_until_a_thread_goes_on_that_waits_for_what_became_ready_with_its_command() {
    let context = context(usize::MAX);
    let gate = UserEvent::new();
    let ends = |_, lease: HostLease| lease.finish(Ok(()));
    let [one, other] = turns::<2>(&context, &gate, ends);
    let (tell, told) = mpsc::channel();
    let pairs = [[one.clone(), other.clone()], [other, one]];
    let futures = pairs.map(|[event, awaited]| {
        let (go_on, goes_on) = mpsc::channel();
        std::thread::spawn(move || go_on.send(awaited.wait()));
        let tell = tell.clone();
        call_as_waker(&event, move || {
            tell.send(goes_on.recv_timeout(PATIENCE)).unwrap();
        })
    });
    let ends = std::thread::spawn(|| gate.complete());
    for _ in &futures {
        let went_on = told.recv().unwrap();
        went_on.expect("it waits for what this thread has").unwrap();
    }
    ends.join().unwrap();
}

/// Wakers that make each other's commands ready, one after the other, do not nest.
#[test]
fn a_long_row_of_wakers_needs_no_more_of_the_stack_than_a_short_one() {
    const LENGTH: usize = 20_000;
    let context = context(usize::MAX);
    let queue = context.queue(&context.devices()[0], QueueOptions::default());
    let queue = queue.unwrap();
    let gates: Vec<UserEvent> = (0..LENGTH).map(|_| UserEvent::new()).collect();
    let markers: Vec<Event> = gates
        .iter()
        .map(|gate| queue.marker(&[gate.event()]).unwrap())
        .collect();
    let mut gates = gates.into_iter();
    let first = gates.next().unwrap();
    let futures: Vec<Event> = markers
        .iter()
        .zip(gates)
        .map(|(marker, next)| {
            let mut next = Some(next);
            call_as_waker(marker, move || {
                next.take().into_iter().for_each(UserEvent::complete)
            })
        })
        .collect();
    first.complete();
    markers.last().unwrap().wait().unwrap();
    assert_eq!(futures.len(), LENGTH - 1);
}

#[test]
fn who_panics_in_a_turn_fails_with_that_and_alone() {
    let context = context(usize::MAX);
    let gate = UserEvent::new();
    let begin = |number, lease: HostLease| {
        if number == 1 {
            // What was said of it before does not count.
            lease.finish(Ok(()));
            panic!("the second caller's own");
        }
        assert_ne!(number, 3, "the last caller's own");
        lease.finish(Ok(()));
    };
    let turns = turns::<4>(&context, &gate, begin);
    gate.complete();
    for (number, turn) in turns.iter().enumerate() {
        let ended = turn.wait();
        if number % 2 == 0 {
            ended.unwrap();
            continue;
        }
        let error = ended.unwrap_err();
        let is_panic = matches!(error.kind(), ErrorKind::Panicked { .. });
        assert!(
            is_panic && error.to_string().contains("caller's own"),
            "{error}"
        );
    }
}

#[test]
fn a_driver_that_panics_is_told_of_the_other_commands() {
    let context = context(1);
    let gate = UserEvent::new();
    let commands = commands::<3>(&context, &gate);
    gate.complete();
    let ended = commands.each_ref().map(|event| event.wait().is_ok());
    assert_eq!(ended.iter().filter(|ok| **ok).count(), 2, "{ended:?}");
}

#[test]
fn a_turn_that_waits_for_itself_is_refused() {
    let context = context(usize::MAX);
    let gate = UserEvent::new();
    let own: Arc<Mutex<Option<Event>>> = Arc::default();
    let (tell, told) = mpsc::channel();
    let seen = own.clone();
    let begin = move |_, lease: HostLease| {
        let event = seen.lock().unwrap().clone().unwrap();
        tell.send(event.wait()).unwrap();
        lease.finish(Ok(()));
        // It is not over before this returns.
        tell.send(event.wait()).unwrap();
    };
    let [turn] = turns::<1>(&context, &gate, begin);
    *own.lock().unwrap() = Some(turn.clone());
    let ends = std::thread::spawn(|| gate.complete());
    for _ in 0..2 {
        let refused = told.recv_timeout(PATIENCE).expect("it waits for ever");
        let error = refused.unwrap_err();
        let is_refusal = matches!(error.kind(), ErrorKind::WouldDeadlock { .. });
        assert!(is_refusal, "{error}");
    }
    turn.wait().unwrap();
    ends.join().unwrap();
}

#[test]
fn another_thread_gives_the_bytes_back_before_or_after_who_got_them_has_returned() {
    let context = context(usize::MAX);
    for is_before in [true, false] {
        let gate = UserEvent::new();
        let (lend, lent) = mpsc::channel();
        let (tell, told) = mpsc::channel::<()>();
        let told = Arc::new(Mutex::new(told));
        let begin = move |_, lease: HostLease| {
            lend.send(lease).unwrap();
            if is_before {
                told.lock().unwrap().recv().unwrap();
            }
        };
        let [turn] = turns::<1>(&context, &gate, begin);
        let ends = std::thread::spawn(|| gate.complete());
        let lease = lent.recv().unwrap();
        if !is_before {
            ends.join().unwrap();
            assert!(!turn.is_complete());
            lease.finish(Ok(()));
        } else {
            lease.finish(Ok(()));
            assert!(!turn.is_complete());
            tell.send(()).unwrap();
            ends.join().unwrap();
        }
        assert!(turn.is_complete());
        turn.wait().unwrap();
    }
}

/// Runs its commands as threads join it, and nowhere else.
#[derive(Default)]
struct Steps(Mutex<Vec<quipu_scheduler::Command>>);

// SAFETY: a command's code and memory are not used.
unsafe impl Driver for Steps {
    fn name(&self) -> &'static str {
        "steps"
    }

    fn devices(&self) -> Vec<DeviceProperties> {
        let mut devices = devices::one("steps");
        devices[0].domain = Some(0);
        devices
    }

    fn notify(&self, notification: Notification) {
        if let Notification::Ready(command) = notification {
            self.0.lock().unwrap().push(command);
        }
    }

    fn needs_flush(&self) -> bool {
        true
    }

    fn runs_on_waiting_threads(&self) -> bool {
        true
    }

    fn join(&self, waiter: &quipu_scheduler::event::Waiter<'_>) -> quipu_scheduler::Result<()> {
        while !waiter.is_done() && !waiter.is_late() {
            let next = self.0.lock().unwrap().pop();
            match next {
                Some(command) => command.finish(Ok(()), &mut ToDrivers),
                None => waiter.doze(),
            }
        }
        Ok(())
    }
}

/// Also if what is waited for is another driver's, or the host's.
#[test]
fn a_wait_steps_the_machine_that_has_no_thread() {
    let others: Arc<dyn Driver> = Arc::new(Ends {
        told: AtomicUsize::new(0),
        panics_at: usize::MAX,
    });
    let stepped: Arc<dyn Driver> = Arc::new(Steps::default());
    let devices = [others, stepped].map(|driver| Device::all_of(&driver).unwrap().remove(0));
    let context = Context::new(&devices).unwrap();
    let [other, stepped] = [0, 1].map(|at| {
        context
            .queue(&devices[at], QueueOptions::default())
            .unwrap()
    });
    let host = HostQueue::new(&context).unwrap();
    let memory = context.memory(8).unwrap();
    let access = || Access {
        memory: &memory,
        offset: 0,
        length: 8,
        mode: AccessMode::ReadWrite,
    };
    let step = || {
        let request = Request {
            accesses: &[access()],
            ..Request::default()
        };
        stepped.host_task(|_| Ok(()), &request).unwrap()
    };
    let after = || {
        let request = Request {
            accesses: &[access()],
            ..Request::default()
        };
        other.host_task(|_| Ok(()), &request).unwrap()
    };
    drop(step());
    after().wait_timeout(PATIENCE).unwrap();
    drop(step());
    let turn = host.lend(access(), &[], |lease| lease.unwrap().finish(Ok(())));
    turn.unwrap().wait_timeout(PATIENCE).unwrap();
    drop(step());
    let (event, (tell, told)) = (after(), mpsc::channel());
    std::thread::spawn(move || tell.send(other.wait()));
    told.recv_timeout(PATIENCE).unwrap().unwrap();
    event.wait().unwrap();
}
