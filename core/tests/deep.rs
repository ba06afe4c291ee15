//! Nothing recurses: a driver may end commands as it is handed them, however many become ready by
//! that, and objects may keep each other in a chain.
#![cfg(not(loom))]
#![allow(clippy::unwrap_used, reason = "helpers assert by unwrapping")]

use quipu_scheduler::command::ToDrivers;
use quipu_scheduler::driver::Notification;
use quipu_scheduler::{
    Context, Device, DeviceProperties, Driver, Event, QueueOptions, Request, UserEvent,
};
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Wake, Waker};

mod devices;

/// Ends each command as it is handed over.
struct AtOnce;

// SAFETY: a command's code is called while it is here; those of the test touch no memory.
unsafe impl Driver for AtOnce {
    fn name(&self) -> &'static str {
        "at-once"
    }

    fn devices(&self) -> Vec<DeviceProperties> {
        devices::one("at once")
    }

    fn notify(&self, notification: Notification) {
        if let Notification::Ready(command) = notification {
            let started = command.start();
            command.finish(started, &mut ToDrivers);
        }
    }
}

/// As many as are handed over together.
const CHAINS: usize = 256;
/// So many levels of calls would not fit on the stack.
const LENGTH: usize = 1500;
const STACK: usize = 1 << 16;

#[test]
fn many_chains_at_once_need_no_deeper_stack() {
    let driver: Arc<dyn Driver> = Arc::new(AtOnce);
    let devices = Device::all_of(&driver).unwrap();
    let context = Context::new(&devices).unwrap();
    let options = QueueOptions {
        in_order: false,
        ..QueueOptions::default()
    };
    let queue = context.queue(&devices[0], options).unwrap();
    let gate = UserEvent::new();
    let mut ends: Vec<Event> = vec![gate.event(); CHAINS];
    for _ in 0..LENGTH {
        for end in &mut ends {
            let request = Request {
                waits: std::slice::from_ref(end),
                ..Request::default()
            };
            let next = queue.host_task(|_| Ok(()), &request).unwrap();
            *end = next;
        }
    }
    let thread = std::thread::Builder::new().stack_size(STACK);
    let completes = thread.spawn(move || gate.complete()).unwrap();
    completes.join().unwrap();
    for end in ends {
        end.wait().unwrap();
    }
}

#[test]
fn a_long_chain_of_content_sizes_needs_no_deeper_stack() {
    let driver: Arc<dyn Driver> = Arc::new(AtOnce);
    let devices = Device::all_of(&driver).unwrap();
    let context = Context::new(&devices).unwrap();
    let first = context.memory(8).unwrap();
    let mut last = first.clone();
    for _ in 0..CHAINS * LENGTH / 16 {
        let size = context.memory(8).unwrap();
        last.set_content_size(Some(size.clone())).unwrap();
        last = size;
    }
    drop(last);
    let thread = std::thread::Builder::new().stack_size(STACK);
    let drops = thread.spawn(move || drop(first)).unwrap();
    drops.join().unwrap();
}

/// A waker that completes an event.
struct Completes(Mutex<Option<UserEvent>>);

impl Wake for Completes {
    fn wake(self: Arc<Self>) {
        let event = self.0.lock().unwrap().take();
        event.into_iter().for_each(UserEvent::complete);
    }
}

#[test]
fn a_long_chain_of_wakers_needs_no_deeper_stack() {
    let first = UserEvent::new();
    let mut last = first.event();
    let mut futures = Vec::new();
    for _ in 0..CHAINS * LENGTH / 16 {
        let next = UserEvent::new();
        let event = next.event();
        let waker = Waker::from(Arc::new(Completes(Mutex::new(Some(next)))));
        let mut context = std::task::Context::from_waker(&waker);
        assert!(Pin::new(&mut last).poll(&mut context).is_pending());
        futures.push(std::mem::replace(&mut last, event));
    }
    let thread = std::thread::Builder::new().stack_size(STACK);
    let completes = thread.spawn(move || first.complete()).unwrap();
    completes.join().unwrap();
    assert!(last.is_complete());
}
