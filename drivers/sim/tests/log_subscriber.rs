//! A subscriber of the log is a user's code: it may enqueue commands, to the very device that is
//! logged.
#![allow(clippy::unwrap_used, reason = "helpers assert by unwrapping")]

use quipu_driver_sim::SimDriver;
use quipu_driver_sim::engine::Configuration;
use quipu_scheduler::{Context, Device, Driver, Queue, QueueOptions, Request};
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Metadata, Subscriber};

/// The queue to which the subscriber enqueues a command, once, and the place where it then says so.
static NEXT: Mutex<Option<(Queue, Sender<quipu_scheduler::Event>)>> = Mutex::new(None);

/// Enqueues a command when it hears of an upload.
struct Enqueues;

/// True if the message of a record is that of an upload.
struct IsUpload(bool);

impl Visit for IsUpload {
    fn record_debug(&mut self, field: &Field, value: &dyn std::fmt::Debug) {
        self.0 |= field.name() == "message" && format!("{value:?}") == "uploaded";
    }
}

impl Subscriber for Enqueues {
    fn enabled(&self, _: &Metadata<'_>) -> bool {
        true
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}
    fn record_follows_from(&self, _: &Id, _: &Id) {}
    fn enter(&self, _: &Id) {}
    fn exit(&self, _: &Id) {}

    fn event(&self, event: &Event<'_>) {
        let mut is_upload = IsUpload(false);
        event.record(&mut is_upload);
        let next = is_upload.0.then(|| NEXT.lock().unwrap().take()).flatten();
        if let Some((queue, tell)) = next {
            let task = queue.host_task(|_| Ok(()), &Request::default());
            tell.send(task.unwrap()).unwrap();
        }
    }
}

#[test]
fn a_subscriber_may_enqueue_to_the_device_that_logs() {
    tracing::subscriber::set_global_default(Enqueues).unwrap();
    let driver: Arc<dyn Driver> =
        SimDriver::start(Configuration::separate_memory(1, 1 << 20)).unwrap();
    let devices = Device::all_of(&driver).unwrap();
    let context = Context::new(&devices).unwrap();
    let queue = context.queue(&devices[0], QueueOptions::default()).unwrap();
    let (tell, told) = channel();
    *NEXT.lock().unwrap() = Some((queue.clone(), tell));
    // On a thread of its own: if it hangs, the test fails.
    let (end, ended) = channel();
    std::thread::spawn(move || {
        let task = queue.host_task(|_| Ok(()), &Request::default()).unwrap();
        end.send(task.wait()).unwrap();
    });
    let patience = Duration::from_secs(60);
    ended.recv_timeout(patience).unwrap().unwrap();
    let task = told.recv_timeout(patience).unwrap();
    task.wait().unwrap();
}
