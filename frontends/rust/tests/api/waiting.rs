//! Waits for a device, and for a whole context: the queues that they cover.
//!
//! The device here runs commands in [`Driver::join`] alone: what is over after a
//! wait is what was waited for, and nothing else.

use super::each_queue;
use quipu::driver::{Command, Driver, Notification, ToDrivers, Waiter};
use quipu::prelude::*;
use quipu::{DeviceKind, DeviceProperties, ErrorKind};
use std::collections::VecDeque;
use std::sync::{Arc, Mutex};

#[derive(Default)]
struct Lazy(Mutex<VecDeque<Command>>);

impl Lazy {
    fn context() -> Context {
        let platform = Platform::builder()
            .without_embedded()
            .driver(Arc::new(Self::default()));
        platform.build().unwrap().context().unwrap()
    }

    fn properties() -> DeviceProperties {
        DeviceProperties {
            caller_runs: true,
            ..DeviceProperties::new(DeviceKind::Accelerator, "lazy")
        }
    }
}

// SAFETY: a command's code and memory are used while it is here, with the arguments resolved for
// it.
unsafe impl Driver for Lazy {
    fn name(&self) -> &'static str {
        "lazy"
    }

    fn devices(&self) -> Vec<DeviceProperties> {
        vec![Self::properties()]
    }

    fn partition(
        &self,
        device: usize,
        _partition: &Partition,
    ) -> quipu::Result<Vec<(usize, DeviceProperties)>> {
        Ok(vec![(device + 1, Self::properties())])
    }

    fn notify(&self, notification: Notification) {
        if let Notification::Ready(command) = notification {
            self.0.lock().unwrap().push_back(command);
        }
    }

    /// Only waits for its commands bring them about: nobody else has to count on it.
    fn is_idle(&self) -> bool {
        true
    }

    fn join(&self, waiter: &Waiter<'_>) -> quipu::Result<()> {
        while !waiter.is_done() {
            let next = self.0.lock().unwrap().pop_front();
            let Some(command) = next else {
                let why = "nothing is left to run";
                return Err(ErrorKind::WouldDeadlock { why: why.into() }.into());
            };
            let result = command.start().and_then(|()| {
                // SAFETY: started, without arguments, and run once.
                unsafe { command.run_native(&[], 0..1) }
            });
            command.finish(result, &mut ToDrivers);
        }
        Ok(())
    }
}

/// The device of a context, a part of it, and a part of that.
fn parts(context: &Context) -> [Device; 3] {
    let whole = context.devices()[0].clone();
    let part = |of: &Device| of.partition(&Partition::Equally(1)).unwrap().remove(0);
    let (half, quarter) = (part(&whole), part(&part(&whole)));
    [whole, half, quarter]
}

fn task(queue: &Queue) -> Event {
    queue.host_task(|| ()).unwrap().event().clone()
}

#[test]
fn a_context_waits_for_queues_of_devices_and_of_parts() {
    let context = Lazy::context();
    for device in parts(&context) {
        let queue = context.queue(&device).unwrap();
        let event = task(&queue);
        assert!(!event.is_complete() && !queue.is_empty());
        context.wait().unwrap();
        assert!(event.is_complete() && queue.is_empty());
    }
}

#[test]
fn a_context_waits_for_queues_that_were_dropped() {
    let context = Lazy::context();
    for device in parts(&context) {
        let queue = context.queue(&device).unwrap();
        let event = task(&queue);
        drop(queue);
        // Also when others are made and dropped meanwhile.
        drop(context.queue(&device).unwrap());
        assert!(!event.is_complete());
        context.wait().unwrap();
        assert!(event.is_complete());
    }
}

#[test]
fn a_context_waits_for_queues_that_are_dropped_as_it_waits() {
    let context = Lazy::context();
    let [whole, part, _] = parts(&context);
    let (first, second) = (
        context.queue(&whole).unwrap(),
        context.queue(&part).unwrap(),
    );
    // The first command takes the last handle to the second's queue with it.
    let gate = UserEvent::new();
    let event = second.after([gate.event()]).host_task(|| ()).unwrap();
    let event = event.event().clone();
    let taker = first.host_task(move || {
        drop(second);
        gate.complete();
    });
    drop(taker.unwrap());
    context.wait().unwrap();
    assert!(event.is_complete());
}

#[test]
fn a_device_is_waited_for_with_its_parts_and_without_others() {
    let context = Lazy::context();
    let [whole, half, _] = parts(&context);
    let [outer, inner] = [&whole, &half].map(|device| context.queue(device).unwrap());
    let (of_part, of_whole) = (task(&inner), task(&outer));
    context.wait_for_device(&half).unwrap();
    assert!(of_part.is_complete() && !of_whole.is_complete());
    let of_part = task(&inner);
    drop(inner);
    context.wait_for_device(&whole).unwrap();
    assert!(of_part.is_complete() && of_whole.is_complete());
}

#[test]
fn a_wait_that_could_never_end_is_an_error() {
    let context = Lazy::context();
    let queue = context.queue(&context.devices()[0]).unwrap();
    let gate = UserEvent::new();
    let held = queue.after([gate.event()]).host_task(|| 1).unwrap();
    let error = context.wait().unwrap_err();
    assert!(
        matches!(error.kind(), ErrorKind::WouldDeadlock { .. }),
        "{error}"
    );
    gate.complete();
    context.wait().unwrap();
    assert!(held.is_complete());
}

/// The things that a thread keeps until it ends, and then uses for the last time.
struct AtTheEnd(Queue, Buffer<u32>, std::sync::mpsc::Sender<Vec<u32>>);

impl AtTheEnd {
    /// Enqueues what is called back, needs no device, and runs on one; waits for it.
    fn use_all(&mut self) -> quipu::Result<Vec<u32>> {
        let Self(queue, buffer, _) = self;
        let gate = UserEvent::new();
        let marker = queue.wait_for(&gate.event())?;
        let event = queue.launch(buffer.len(), add_one(&mut *buffer))?;
        event.on_complete(|_| {});
        gate.complete();
        marker.wait()?;
        queue.read(&*buffer)?.wait()
    }
}

impl Drop for AtTheEnd {
    fn drop(&mut self) {
        if let Ok(numbers) = self.use_all() {
            let _ = self.2.send(numbers);
        }
    }
}

#[kernel]
fn add_one(_acc: &impl Accelerator<1>, mut numbers: OwnElements<u32>) {
    for (_, number) in numbers.each() {
        *number += 1;
    }
}

#[test]
fn a_thread_uses_and_waits_for_everything_to_its_very_end() {
    thread_local! {
        // Dropped after all that is registered later, as what a wait uses is.
        static KEPT: std::cell::RefCell<Option<AtTheEnd>> = const { std::cell::RefCell::new(None) };
    }
    each_queue(|context, queue| {
        let (context, queue) = (context.clone(), queue.clone());
        let (tell, told) = std::sync::mpsc::channel();
        let thread = std::thread::spawn(move || {
            let buffer = context.buffer(&[1_u32; 100]).unwrap();
            KEPT.with_borrow_mut(|kept| {
                let kept = kept.insert(AtTheEnd(queue, buffer, tell));
                kept.use_all().unwrap();
            });
        });
        thread.join().unwrap();
        assert_eq!(told.recv().unwrap(), [3; 100]);
    });
}
