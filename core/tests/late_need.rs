//! A thread that waits before any driver needs flushes has later ones flushed, too. In a process of
//! its own, which has no such driver before.
#![cfg(not(loom))]
#![allow(clippy::unwrap_used, reason = "helpers assert by unwrapping")]

mod devices;

use quipu_scheduler::command::ToDrivers;
use quipu_scheduler::driver::{Notification, Submission};
use quipu_scheduler::event::wait_graph;
use quipu_scheduler::queue::QueueShared;
use quipu_scheduler::{Command, Context, Device, DeviceProperties, Driver, Request, UserEvent};
use std::sync::{Arc, Mutex, mpsc};
use std::time::Duration;

/// For a wait that ends soon, or never.
const PATIENCE: Duration = Duration::from_secs(60);

/// Runs commands when it is flushed.
#[derive(Default)]
struct Holds(Mutex<Vec<Command>>);

// SAFETY: a command's memory is not used, and its code once.
unsafe impl Driver for Holds {
    fn name(&self) -> &'static str {
        "holds"
    }

    fn devices(&self) -> Vec<DeviceProperties> {
        let mut devices = devices::one("holds");
        devices[0].domain = Some(0);
        devices
    }

    fn submit(&self, _: Submission<'_>) {}

    fn needs_flush(&self) -> bool {
        true
    }

    fn flush(&self, _: &QueueShared) {
        let held = std::mem::take(&mut *self.0.lock().unwrap());
        for command in held {
            // SAFETY: it is started, and takes no arguments.
            let run = || unsafe { command.run_native(&[], 0..1) };
            let result = command.start().and_then(|()| run());
            command.finish(result, &mut ToDrivers);
        }
    }

    fn notify(&self, notification: Notification) {
        if let Notification::Ready(command) = notification {
            self.0.lock().unwrap().push(command);
        }
    }
}

#[test]
fn a_wait_that_began_before_any_driver_needs_flushes_has_them_flushed() {
    let user = UserEvent::new();
    let awaited = user.event();
    let (tell, told) = mpsc::channel();
    std::thread::spawn(move || tell.send(awaited.wait()).unwrap());
    while !wait_graph().contains("1 thread waits") {
        std::thread::yield_now();
    }
    let driver: Arc<dyn Driver> = Arc::new(Holds::default());
    let devices = Device::all_of(&driver).unwrap();
    let context = Context::new(&devices).unwrap();
    let queue = context.queue(&devices[0], Default::default()).unwrap();
    let completes = move |_: &[_]| {
        user.complete();
        Ok(())
    };
    let task = queue.host_task(completes, &Request::default()).unwrap();
    let outcome = told.recv_timeout(PATIENCE);
    outcome.expect("nobody flushes the queue").unwrap();
    task.wait().unwrap();
}
