//! A flush on which a driver may rely: commands that a thread hands over, and that it [sees
//! to](will_poll), are flushed after that, whether or not others flush meanwhile.
#![cfg(not(loom))]
#![allow(clippy::unwrap_used, reason = "helpers assert by unwrapping")]

use quipu_scheduler::command::ToDrivers;
use quipu_scheduler::driver::{Notification, Submission};
use quipu_scheduler::error::ErrorKind;
use quipu_scheduler::event::{Clock, Waiter, replace_joiner, will_poll};
use quipu_scheduler::graph::NodeRequest;
use quipu_scheduler::queue::QueueShared;
use quipu_scheduler::{
    Access, AccessMode, Command, Context, Device, DeviceKind, DeviceProperties, Driver, EventId,
    MemorySpace, Queue, QueueOptions, RawArgument, Recording, Request, Result, UserEvent,
};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

mod devices;

/// For events that come at once, or never.
const PATIENCE: Duration = Duration::from_secs(60);

/// Has another thread flush a command that it is just told of, and keeps the command until it is
/// waited for.
#[derive(Default)]
struct Interrupted {
    queue: Mutex<Option<Queue>>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    flushes: u32,
    /// The number of flushes before it was handed the command.
    before: Option<u32>,
    command: Option<Command>,
}

// SAFETY: a command's code and memory are used while it is here, with the arguments resolved for
// it.
unsafe impl Driver for Interrupted {
    fn name(&self) -> &'static str {
        "interrupted"
    }

    fn devices(&self) -> Vec<DeviceProperties> {
        properties("interrupted")
    }

    fn needs_flush(&self) -> bool {
        true
    }

    fn submit(&self, _: Submission<'_>) {}

    fn flush(&self, _: &QueueShared) {
        self.state.lock().unwrap().flushes += 1;
    }

    fn notify(&self, notification: Notification) {
        let Notification::Ready(command) = notification else {
            return;
        };
        assert!(will_poll(std::ptr::from_ref(self).cast()));
        let queue = self.queue.lock().unwrap().take().unwrap();
        std::thread::scope(|scope| {
            scope.spawn(|| queue.flush());
        });
        let mut state = self.state.lock().unwrap();
        state.before = Some(state.flushes);
        state.command = Some(command);
    }

    fn join(&self, _: &Waiter<'_>) -> Result<()> {
        let command = self.state.lock().unwrap().command.take();
        command.unwrap().finish(Ok(()), &mut ToDrivers);
        Ok(())
    }
}

#[test]
fn what_is_handed_over_is_flushed_after_that() {
    let driver = Arc::new(Interrupted::default());
    let device = Device::all_of(&(driver.clone() as Arc<dyn Driver>)).unwrap();
    let context = Context::new(&device).unwrap();
    let queue = context.queue(&device[0], QueueOptions::default()).unwrap();
    for _ in 0..2 {
        *driver.queue.lock().unwrap() = Some(queue.clone());
        let event = queue.host_task(|_| Ok(()), &Request::default()).unwrap();
        event.wait().unwrap();
        let state = driver.state.lock().unwrap();
        assert!(Some(state.flushes) > state.before, "it was not flushed");
    }
}

fn properties(name: &str) -> Vec<DeviceProperties> {
    vec![DeviceProperties {
        domain: Some(0),
        ..DeviceProperties::new(DeviceKind::Accelerator, name)
    }]
}

/// Runs its commands when it is flushed, or panics.
struct Late {
    ready: Mutex<Vec<Command>>,
    panics: bool,
}

// SAFETY: it runs commands that touch no memory.
unsafe impl Driver for Late {
    fn name(&self) -> &'static str {
        "late"
    }

    fn devices(&self) -> Vec<DeviceProperties> {
        properties("late")
    }

    fn needs_flush(&self) -> bool {
        true
    }

    fn submit(&self, _: Submission<'_>) {}

    fn notify(&self, notification: Notification) {
        if let Notification::Ready(command) = notification {
            self.ready.lock().unwrap().push(command);
        }
    }

    fn flush(&self, _: &QueueShared) {
        assert!(!self.panics, "a driver that panics");
        let ready = std::mem::take(&mut *self.ready.lock().unwrap());
        for command in ready {
            let started = command.start();
            command.finish(started, &mut ToDrivers);
        }
    }
}

#[test]
fn a_driver_that_panics_keeps_no_other_from_being_flushed() {
    let late = |panics| -> Arc<dyn Driver> {
        Arc::new(Late {
            ready: Mutex::default(),
            panics,
        })
    };
    let drivers = [late(true), late(false)];
    let devices: Vec<Device> = drivers
        .iter()
        .flat_map(|driver| Device::all_of(driver).unwrap())
        .collect();
    let context = Context::new(&devices).unwrap();
    let task = |device: usize| {
        let options = QueueOptions::default();
        let queue = context.queue(&devices[device], options).unwrap();
        queue.host_task(|_| Ok(()), &Request::default()).unwrap()
    };
    let (_never, second) = (task(0), task(1));
    second.wait().unwrap();
}

#[test]
fn a_wait_does_not_end_because_its_joiner_does() {
    let gate = UserEvent::new();
    let event = gate.event();
    let outer = replace_joiner(Some(|_| Ok(())));
    let thread = std::thread::spawn(move || gate.complete());
    event.wait().unwrap();
    replace_joiner(outer);
    assert!(event.is_complete());
    thread.join().unwrap();
}

/// Has other work to do whenever it is asked; at last it ends its command.
#[derive(Default)]
struct Busy {
    ready: Mutex<Option<Command>>,
    asked: AtomicU64,
}

impl Busy {
    fn end(&self) {
        let command = self.ready.lock().unwrap().take();
        if let Some(command) = command {
            command.finish(Ok(()), &mut ToDrivers);
        }
    }
}

// SAFETY: it runs commands that touch no memory.
unsafe impl Driver for Busy {
    fn name(&self) -> &'static str {
        "busy"
    }

    fn devices(&self) -> Vec<DeviceProperties> {
        properties("busy")
    }

    fn submit(&self, _: Submission<'_>) {}

    fn notify(&self, notification: Notification) {
        if let Notification::Ready(command) = notification {
            *self.ready.lock().unwrap() = Some(command);
        }
    }

    fn join(&self, waiter: &Waiter<'_>) -> Result<()> {
        waiter.sleep_and(|| {
            if self.asked.fetch_add(1, Ordering::Relaxed) == 1000 {
                self.end();
            }
            Some(Duration::ZERO)
        });
        Ok(())
    }
}

/// A second passes whenever it is read.
#[derive(Default)]
struct Passing(AtomicU64);

impl Clock for Passing {
    fn now(&self) -> Duration {
        Duration::from_secs(self.0.fetch_add(1, Ordering::Relaxed))
    }
}

#[test]
fn a_wait_is_late_though_there_is_always_something_else_to_see_to() {
    let driver = Arc::new(Busy::default());
    let device = Device::all_of(&(driver.clone() as Arc<dyn Driver>)).unwrap();
    let context = Context::new(&device).unwrap();
    let queue = context.queue(&device[0], QueueOptions::default()).unwrap();
    let event = queue.host_task(|_| Ok(()), &Request::default()).unwrap();
    let error = event.wait_with_clock(Duration::from_secs(10), &Passing::default());
    let error = error.expect_err("it was never late");
    assert!(matches!(error.kind(), ErrorKind::TimedOut), "{error}");
    driver.end();
    event.wait().unwrap();
}

/// Keeps ready commands, and for each flush a flag: its thread had said that it sees to them.
#[derive(Default)]
struct Asked {
    ready: Mutex<Vec<Command>>,
    seen_to: Mutex<Vec<bool>>,
}

// SAFETY: it runs commands that touch no memory.
unsafe impl Driver for Asked {
    fn name(&self) -> &'static str {
        "asked"
    }

    fn devices(&self) -> Vec<DeviceProperties> {
        properties("asked")
    }

    fn needs_flush(&self) -> bool {
        true
    }

    fn submit(&self, _: Submission<'_>) {}

    fn notify(&self, notification: Notification) {
        if let Notification::Ready(command) = notification {
            self.ready.lock().unwrap().push(command);
        }
    }

    fn flush(&self, _: &QueueShared) {
        let seen_to = will_poll(std::ptr::from_ref(self).cast());
        self.seen_to.lock().unwrap().push(seen_to);
    }
}

/// It flushes, and then its wait is refused, so it looks at nothing.
#[test]
fn who_waits_inside_of_a_command_is_not_counted_on() {
    let driver = Arc::new(Asked::default());
    let device = Device::all_of(&(driver.clone() as Arc<dyn Driver>)).unwrap();
    let context = Context::new(&device).unwrap();
    let queue = context.queue(&device[0], QueueOptions::default()).unwrap();
    let task = |waits: &[quipu_scheduler::Event]| {
        let request = Request {
            waits,
            ..Request::default()
        };
        queue.host_task(|_| Ok(()), &request).unwrap()
    };
    let next = || driver.ready.lock().unwrap().pop().unwrap();
    let first = task(&[]);
    let command = next();
    command.start().unwrap();
    command.run_inside(|| {
        let second = task(&[first]);
        driver.seen_to.lock().unwrap().clear();
        let error = second.wait().unwrap_err();
        assert!(
            matches!(error.kind(), ErrorKind::WouldDeadlock { .. }),
            "{error}"
        );
        assert_eq!(*driver.seen_to.lock().unwrap(), [false]);
    });
    command.finish(Ok(()), &mut ToDrivers);
    next().finish(Ok(()), &mut ToDrivers);
}

/// Runs ready commands once their queue was flushed after they were submitted, as
/// [`Driver::needs_flush`] has it. The second of its devices has a memory of its own, which is
/// empty.
#[derive(Default)]
struct Holds(Mutex<Held>);

#[derive(Default)]
struct Held {
    /// Submitted since their queue was flushed, and that queue.
    unflushed: Vec<(EventId, u32)>,
    ready: Vec<Command>,
}

impl Holds {
    fn run(&self) {
        let next = || {
            let mut held = self.0.lock().unwrap();
            let Held { unflushed, ready } = &mut *held;
            let is_flushed =
                |command: &Command| unflushed.iter().all(|(id, _)| *id != command.id());
            let at = ready.iter().position(is_flushed)?;
            Some(ready.swap_remove(at))
        };
        while let Some(command) = next() {
            let started = command.start();
            command.finish(started, &mut ToDrivers);
        }
    }
}

// SAFETY: it carries out no migration and no task that uses memory, so nobody looks at an
// allocation.
unsafe impl Driver for Holds {
    fn name(&self) -> &'static str {
        "holds"
    }

    fn devices(&self) -> Vec<DeviceProperties> {
        let mut devices = [properties("near"), properties("far")].concat();
        devices[1].memory = MemorySpace::Own(0);
        devices
    }

    fn needs_flush(&self) -> bool {
        true
    }

    fn submit(&self, submission: Submission<'_>) {
        let submitted = (submission.id, submission.queue.id());
        self.0.lock().unwrap().unflushed.push(submitted);
    }

    fn notify(&self, notification: Notification) {
        if let Notification::Ready(command) = notification {
            self.0.lock().unwrap().ready.push(command);
            self.run();
        }
    }

    fn flush(&self, queue: &QueueShared) {
        let mut held = self.0.lock().unwrap();
        held.unflushed.retain(|(_, of)| *of != queue.id());
        drop(held);
        self.run();
    }

    fn allocate(&self, _: u32, _: u64) -> Result<u64> {
        Ok(64)
    }

    unsafe fn free(&self, _: u32, _: u64, _: u64) {}
}

#[test]
fn a_migration_that_is_ready_at_once_is_flushed() {
    let driver: Arc<dyn Driver> = Arc::new(Holds::default());
    let devices = Device::all_of(&driver).unwrap();
    let context = Context::new(&devices).unwrap();
    let memory = context.memory(8).unwrap();
    let task = |device: usize, mode: AccessMode| {
        let queue = context.queue(&devices[device], QueueOptions::default());
        let access = Access {
            memory: &memory,
            offset: 0,
            length: 8,
            mode,
        };
        let request = Request {
            accesses: &[access],
            ..Request::default()
        };
        queue.unwrap().host_task(|_| Ok(()), &request).unwrap()
    };
    task(0, AccessMode::Overwrite).wait().unwrap();
    let behind = task(1, AccessMode::Read);
    let waited = behind.wait_timeout(PATIENCE);
    waited.expect("nobody flushes the queue of the migration");
}

#[test]
fn what_becomes_ready_after_its_queue_was_flushed_runs() {
    let driver: Arc<dyn Driver> = Arc::new(Holds::default());
    let devices = Device::all_of(&driver).unwrap();
    let context = Context::new(&devices).unwrap();
    let queue = context.queue(&devices[0], QueueOptions::default()).unwrap();
    let gate = UserEvent::new();
    let request = Request {
        waits: &[gate.event()],
        ..Request::default()
    };
    let event = queue.host_task(|_| Ok(()), &request).unwrap();
    queue.flush();
    gate.complete();
    event.wait_timeout(PATIENCE).unwrap();
}

/// Only its own context knows the queue that is to be flushed.
#[test]
fn a_wait_for_the_turn_of_another_contexts_event_flushes_that_context() {
    let late = || -> Arc<dyn Driver> {
        Arc::new(Late {
            ready: Mutex::default(),
            panics: false,
        })
    };
    let [own, other] = [late(), late()].map(|driver| Device::all_of(&driver).unwrap());
    let context = Context::new(&own).unwrap();
    let others = Context::new(&other).unwrap();
    let queue = others.queue(&other[0], QueueOptions::default()).unwrap();
    let task = || queue.host_task(|_| Ok(()), &Request::default()).unwrap();
    let [_, last] = [task(), task()];
    let waited = context.in_turn(&last).wait_timeout(PATIENCE);
    waited.expect("nobody flushes the other context's queue");
}

/// A driver that needs flushes for a device without a sync domain, whose commands nobody submits.
struct Domainless;

// SAFETY: it has no devices in the end.
unsafe impl Driver for Domainless {
    fn name(&self) -> &'static str {
        "domainless"
    }

    fn devices(&self) -> Vec<DeviceProperties> {
        devices::one("domainless")
    }

    fn needs_flush(&self) -> bool {
        true
    }

    fn notify(&self, _: Notification) {}
}

#[test]
fn who_needs_flushes_has_a_sync_domain() {
    let driver: Arc<dyn Driver> = Arc::new(Domainless);
    let error = Device::all_of(&driver).expect_err("its commands may never run");
    assert!(
        matches!(error.kind(), ErrorKind::Unsupported { .. }),
        "{error}"
    );
}

/// Panics as it is handed a command.
struct Refuses;

// SAFETY: it runs no command.
unsafe impl Driver for Refuses {
    fn name(&self) -> &'static str {
        "refuses"
    }

    fn devices(&self) -> Vec<DeviceProperties> {
        properties("refuses")
    }

    fn needs_flush(&self) -> bool {
        true
    }

    fn notify(&self, _: Notification) {
        panic!("a driver that panics");
    }
}

#[test]
fn a_driver_that_panics_as_it_is_handed_a_command_fails_the_command() {
    let driver: Arc<dyn Driver> = Arc::new(Refuses);
    let devices = Device::all_of(&driver).unwrap();
    let context = Context::new(&devices).unwrap();
    let queue = context.queue(&devices[0], QueueOptions::default()).unwrap();
    let event = queue.host_task(|_| Ok(()), &Request::default()).unwrap();
    event.wait().unwrap_err();
}

/// A graph is flushed by its launch, whose command ends with the graph.
#[test]
fn a_driver_that_panics_as_it_is_flushed_keeps_no_graph_from_being_launched() {
    let driver: Arc<dyn Driver> = Arc::new(Late {
        ready: Mutex::default(),
        panics: true,
    });
    let devices = Device::all_of(&driver).unwrap();
    let context = Context::new(&devices).unwrap();
    let queue = context.queue(&devices[0], QueueOptions::default()).unwrap();
    let recording = Recording::new(&context);
    let request = NodeRequest::default();
    let task = |_: &[RawArgument]| Ok(());
    recording.host_task(&queue, task, &request).unwrap();
    let graph = recording.finish().unwrap();
    queue.launch_graph(&graph, &[], None).unwrap();
}
