//! Waits that need commands of other contexts have these flushed, also if no list of waits names
//! them, or the context between has ended. In a process of its own, without user events: for these
//! all contexts are flushed.
#![cfg(not(loom))]
#![allow(clippy::unwrap_used, reason = "helpers assert by unwrapping")]

mod devices;

use quipu_scheduler::command::ToDrivers;
use quipu_scheduler::driver::{Notification, Submission};
use quipu_scheduler::event::wait_graph;
use quipu_scheduler::memory::mapping::{HostLease, HostQueue};
use quipu_scheduler::queue::QueueShared;
use quipu_scheduler::{
    Access, AccessMode, Command, Context, Device, DeviceProperties, Driver, Event, Queue,
    QueueOptions, Request, Result,
};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, mpsc};
use std::time::Duration;

/// For a wait that ends soon, or never.
const PATIENCE: Duration = Duration::from_secs(60);

/// Keeps the other tests of this process waiting: a lease may have all contexts flushed.
fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Waits on a thread of its own. Panics if the wait does not end.
fn ends<R: Send + 'static>(wait: impl FnOnce() -> R + Send + 'static) -> R {
    let (tell, told) = mpsc::channel();
    std::thread::spawn(move || tell.send(wait()));
    let outcome = told.recv_timeout(PATIENCE);
    outcome.unwrap_or_else(|_| panic!("hangs: {}", wait_graph()))
}

/// Runs commands when it is flushed, or at once if it needs no flushes.
#[derive(Default)]
struct Runs {
    held: Mutex<Vec<Command>>,
    needs_flush: bool,
}

fn run(command: Command) {
    // SAFETY: it is started, and takes no arguments.
    let run = || unsafe { command.run_native(&[], 0..1) };
    let result = command.start().and_then(|()| run());
    command.finish(result, &mut ToDrivers);
}

// SAFETY: a command's memory is not used, and its code once.
unsafe impl Driver for Runs {
    fn name(&self) -> &'static str {
        "runs"
    }

    fn devices(&self) -> Vec<DeviceProperties> {
        let mut devices = devices::one("runs");
        devices[0].domain = self.needs_flush.then_some(0);
        devices
    }

    fn submit(&self, _: Submission<'_>) {}

    fn needs_flush(&self) -> bool {
        self.needs_flush
    }

    fn flush(&self, _: &QueueShared) {
        let held = std::mem::take(&mut *self.held.lock().unwrap());
        held.into_iter().for_each(run);
    }

    fn notify(&self, notification: Notification) {
        match notification {
            Notification::Ready(command) if self.needs_flush => {
                self.held.lock().unwrap().push(command);
            }
            Notification::Ready(command) => run(command),
            Notification::Resolved(_) => {}
        }
    }
}

/// A context and a queue in it, of a driver that needs flushes or of one that does not.
fn place(needs_flush: bool) -> (Context, Queue) {
    let driver: Arc<dyn Driver> = Arc::new(Runs {
        needs_flush,
        ..Runs::default()
    });
    let devices = Device::all_of(&driver).unwrap();
    let context = Context::new(&devices).unwrap();
    let queue = context.queue(&devices[0], QueueOptions::default()).unwrap();
    (context, queue)
}

fn task(queue: &Queue, waits: &[Event]) -> Event {
    let request = Request {
        waits,
        ..Request::default()
    };
    queue.host_task(|_| Ok(()), &request).unwrap()
}

/// An event whose turn is not yet: another one is before it.
fn second_of(queue: &Queue) -> Event {
    drop(task(queue, &[]));
    task(queue, &[])
}

#[test]
fn the_turn_of_an_event_is_flushed_for_when_its_context_is_dropped() {
    let _alone = alone();
    let (context, queue) = place(false);
    let (_there, theirs) = place(true);
    drop(queue);
    let turn = context.in_turn(&second_of(&theirs));
    drop(context);
    ends(move || turn.wait()).unwrap();
}

#[test]
fn a_command_behind_such_a_turn_has_it_flushed_for() {
    let _alone = alone();
    let (context, queue) = place(false);
    let (_there, theirs) = place(true);
    let (_third, behind) = place(false);
    drop(queue);
    let turn = context.in_turn(&second_of(&theirs));
    drop(context);
    let event = task(&behind, &[turn]);
    ends(move || event.wait()).unwrap();
}

#[test]
fn a_context_with_such_a_turn_ends_when_that_is_over() {
    let _alone = alone();
    let (context, queue) = place(false);
    let (_there, theirs) = place(true);
    drop(queue);
    let turn = context.in_turn(&second_of(&theirs));
    let ended = Arc::downgrade(context.shared());
    drop(context);
    ends(move || turn.wait()).unwrap();
    ends(move || {
        while ended.strong_count() > 0 {
            std::thread::yield_now();
        }
    });
}

/// A lease, and the command that gives it back, in any order.
#[derive(Clone, Default)]
struct GivenBack(Arc<Mutex<(Option<HostLease>, bool)>>);

impl GivenBack {
    fn lent(&self, lease: Option<HostLease>) {
        self.both(|(kept, _)| *kept = lease);
    }

    fn ask(&self) {
        self.both(|(_, is_asked)| *is_asked = true);
    }

    fn both(&self, change: impl FnOnce(&mut (Option<HostLease>, bool))) {
        let mut state = self.0.lock().unwrap();
        change(&mut state);
        let lease = if state.1 { state.0.take() } else { None };
        drop(state);
        lease.into_iter().for_each(|lease| lease.finish(Ok(())));
    }
}

/// A command behind a lease that begins after `waits`, and that a command of another context gives
/// back.
fn behind_a_lease(
    here: &(Context, Queue),
    host: &HostQueue,
    there: &Queue,
    waits: &[Event],
) -> Result<Event> {
    let (context, queue) = here;
    let memory = context.memory(8)?;
    let accesses = [Access::whole(&memory, AccessMode::ReadWrite)];
    let state = GivenBack::default();
    let lends = state.clone();
    drop(host.lend(accesses[0], waits, move |lease| lends.lent(lease))?);
    let asks = move |_: &[_]| {
        state.ask();
        Ok(())
    };
    drop(there.host_task(asks, &Request::default())?);
    let request = Request {
        accesses: &accesses,
        ..Request::default()
    };
    queue.host_task(|_| Ok(()), &request)
}

#[test]
fn a_lease_that_another_context_gives_back_is_flushed_for() {
    let _alone = alone();
    let here = place(false);
    let (_there, theirs) = place(true);
    let host = HostQueue::new(&here.0).unwrap();
    let event = behind_a_lease(&here, &host, &theirs, &[]).unwrap();
    ends(move || event.wait()).unwrap();
}

/// The callback's owner flushes once, before the lease has begun.
#[test]
fn a_callback_behind_a_lease_has_it_flushed_for() {
    let _alone = alone();
    let here = place(false);
    let (_there, theirs) = place(true);
    let (_third, before) = place(true);
    let begins = task(&before, &[]);
    let host = HostQueue::new(&here.0).unwrap();
    let event = behind_a_lease(&here, &host, &theirs, &[begins]).unwrap();
    let (tell, told) = mpsc::channel();
    event.on_complete(move |result| tell.send(result).unwrap());
    told.recv_timeout(PATIENCE).unwrap().unwrap();
}
