//! A program that polls by itself keeps no thread from the end of its wait, whichever came first.
#![cfg(not(loom))]
#![allow(clippy::unwrap_used, reason = "helpers assert by unwrapping")]

use quipu_scheduler::driver::Notification;
use quipu_scheduler::event::wait_graph;
use quipu_scheduler::{Context, Device, DeviceProperties, Driver, UserEvent};
use std::sync::Arc;
use std::sync::atomic::{AtomicIsize, Ordering};
use std::thread::JoinHandle;

mod devices;

/// Counts how often its polling is suspended.
#[derive(Default)]
struct Counting(AtomicIsize);

// SAFETY: it runs nothing.
unsafe impl Driver for Counting {
    fn name(&self) -> &'static str {
        "counting"
    }

    fn devices(&self) -> Vec<DeviceProperties> {
        devices::one("counting")
    }

    fn notify(&self, _: Notification) {}

    unsafe fn suspend_polling(&self) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }

    unsafe fn resume_polling(&self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

/// A thread that waits until the event is complete, and sleeps by now.
fn waiting(event: &UserEvent, others: usize) -> JoinHandle<()> {
    let event = event.event();
    let thread = std::thread::spawn(move || event.wait().unwrap());
    let text = match others {
        0 => "1 thread waits".to_owned(),
        _ => format!("{} threads wait", others + 1),
    };
    while !wait_graph().starts_with(&text) {
        std::thread::yield_now();
    }
    thread
}

#[test]
fn drivers_poll_while_any_thread_waits_whatever_began_first() {
    let driver = Arc::new(Counting::default());
    let devices = Device::all_of(&(driver.clone() as Arc<dyn Driver>)).unwrap();
    let context = Context::new(&devices).unwrap();
    let suspended = || driver.0.load(Ordering::SeqCst);
    let (first, second) = (UserEvent::new(), UserEvent::new());

    let waits = waiting(&first, 0);
    let polling = context.polling();
    assert_eq!(suspended(), 0, "a thread waited before there was a guard");
    let waits_too = waiting(&second, 1);
    first.complete();
    waits.join().unwrap();
    assert_eq!(suspended(), 0, "another thread waits");
    second.complete();
    waits_too.join().unwrap();
    assert_eq!(suspended(), 1, "nobody waits any more");

    let gate = UserEvent::new();
    let waits = waiting(&gate, 0);
    assert_eq!(suspended(), 0, "a thread waits under the guard");
    let another = context.polling();
    assert_eq!(suspended(), 0, "it does, under another guard");
    drop(polling);
    gate.complete();
    waits.join().unwrap();
    assert_eq!(suspended(), 1, "one guard is left");
    drop(another);
    assert_eq!(suspended(), 0);
}
