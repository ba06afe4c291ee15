//! Tests: enqueues flush the queues that futures and callbacks come to need, because these do not
//! look again by themselves.

use crate::command::{Command, ToDrivers};
use crate::driver::Notification;
use crate::{
    Context, Device, DeviceKind, DeviceProperties, Driver, Event, Queue, QueueOptions, Request,
    UserEvent,
};
use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, Mutex};
use std::task::{Poll, Wake, Waker};
use std::time::{Duration, Instant};

type Call = Box<dyn FnOnce() + Send>;

/// Runs ready commands once they are flushed. May do something as it is told of a command.
#[derive(Default)]
struct Late {
    ready: Mutex<Vec<Command>>,
    once_told: Mutex<Option<Call>>,
    /// It was flushed by the thread that flushes as demanded.
    by_thread: AtomicBool,
}

/// True on the thread that flushes as demanded.
fn is_flush_thread() -> bool {
    std::thread::current().name() == Some("quipu-flush")
}

// SAFETY: a command's code and memory are used while it is here, with the arguments resolved for
// it.
unsafe impl Driver for Late {
    fn name(&self) -> &'static str {
        "late"
    }

    fn devices(&self) -> Vec<DeviceProperties> {
        vec![DeviceProperties {
            domain: Some(0),
            ..DeviceProperties::new(DeviceKind::Simulated, "late")
        }]
    }

    fn needs_flush(&self) -> bool {
        true
    }

    fn notify(&self, notification: Notification) {
        if let Notification::Ready(command) = notification {
            self.ready.lock().unwrap().push(command);
            let call = self.once_told.lock().unwrap().take();
            call.into_iter().for_each(|call| call());
        }
    }

    fn flush(&self, _: &super::QueueShared) {
        self.by_thread.fetch_or(is_flush_thread(), Ordering::SeqCst);
        let next = || self.ready.lock().unwrap().pop();
        while let Some(command) = next() {
            let result = command.start();
            command.finish(result, &mut ToDrivers);
        }
    }
}

/// True if it was woken.
#[derive(Default)]
struct Woken(AtomicBool);

impl Wake for Woken {
    fn wake(self: Arc<Self>) {
        self.0.store(true, Ordering::SeqCst);
    }
}

fn poll(event: &mut Event, woken: &Arc<Woken>) -> Poll<crate::Result<()>> {
    let waker = Waker::from(woken.clone());
    Pin::new(event).poll(&mut std::task::Context::from_waker(&waker))
}

fn stage() -> (Arc<Late>, Context, [Queue; 2]) {
    let late = Arc::new(Late::default());
    let driver: Arc<dyn Driver> = late.clone();
    let devices = Device::all_of(&driver).unwrap();
    let context = Context::new(&devices).unwrap();
    let queue = || context.queue(&devices[0], QueueOptions::default()).unwrap();
    let queues = [queue(), queue()];
    (late, context, queues)
}

/// Waits until it is so, for long enough.
fn is_so(what: impl Fn() -> bool) -> bool {
    let end = Instant::now() + Duration::from_secs(60);
    while !what() && Instant::now() < end {
        std::thread::yield_now();
    }
    what()
}

fn task(queue: &Queue) -> Event {
    queue.host_task(|_| Ok(()), &Request::default()).unwrap()
}

#[test]
fn what_is_enqueued_after_a_future_was_polled_is_flushed() {
    let (late, _context, [one, other]) = stage();
    let gate = UserEvent::new();
    let woken = Arc::new(Woken::default());
    let mut behind = one.marker(&[gate.event()]).unwrap();
    assert!(poll(&mut behind, &woken).is_pending());
    drop(task(&other));
    let is_flushed = is_so(|| late.ready.lock().unwrap().is_empty());
    assert!(is_flushed, "it is not flushed");
    gate.complete();
    assert!(woken.0.load(Ordering::SeqCst));
}

#[test]
fn what_is_enqueued_after_a_callback_was_registered_is_flushed() {
    let (late, _context, [one, other]) = stage();
    let gate = UserEvent::new();
    let woken = Arc::new(Woken::default());
    let called = woken.clone();
    let behind = one.marker(&[gate.event()]).unwrap();
    behind.on_complete(move |_| called.0.store(true, Ordering::SeqCst));
    drop(task(&other));
    let is_flushed = is_so(|| late.ready.lock().unwrap().is_empty());
    assert!(is_flushed, "it is not flushed");
    gate.complete();
    assert!(woken.0.load(Ordering::SeqCst));
}

/// Another thread polls between the moment in which a command has its number and that in which its
/// queue is dirty.
#[test]
fn what_is_being_enqueued_as_a_future_is_polled_is_flushed() {
    for polls in [true, false] {
        let (late, _context, [one, _]) = stage();
        let woken = Arc::new(Woken::default());
        let (queue, told) = (one.clone(), woken.clone());
        let kept = Arc::new(Mutex::new(None));
        let keep = kept.clone();
        let look: Call = Box::new(move || {
            // It waits for all before it, and so for the command that is just handed over.
            let mut last = queue.marker(&[]).unwrap();
            if polls {
                assert!(poll(&mut last, &told).is_pending());
            } else {
                last.on_complete(move |_| told.0.store(true, Ordering::SeqCst));
            }
            *keep.lock().unwrap() = Some(last);
        });
        *late.once_told.lock().unwrap() = Some(look);
        drop(task(&one));
        let is_woken = is_so(|| woken.0.load(Ordering::SeqCst));
        assert!(is_woken, "nobody flushes");
        drop(kept);
    }
}

/// Everything that keeps a driver.
type Kept = (Queue, Context, Vec<Device>, Arc<dyn Driver>);

/// As the other. Flushed by the thread that flushes as demanded, it drops what keeps it. Its end
/// panics.
struct Ends {
    late: Late,
    kept: Mutex<Receiver<Kept>>,
    has_ended: Arc<AtomicBool>,
}

// SAFETY: as the other.
unsafe impl Driver for Ends {
    fn name(&self) -> &'static str {
        "ends"
    }

    fn devices(&self) -> Vec<DeviceProperties> {
        self.late.devices()
    }

    fn needs_flush(&self) -> bool {
        true
    }

    fn notify(&self, notification: Notification) {
        self.late.notify(notification);
    }

    fn flush(&self, queue: &super::QueueShared) {
        self.late.flush(queue);
        if is_flush_thread() {
            drop(self.kept.lock().unwrap().recv());
        }
    }
}

impl Drop for Ends {
    fn drop(&mut self) {
        self.has_ended.store(true, Ordering::SeqCst);
        panic!("the end of a driver");
    }
}

#[test]
fn a_driver_whose_end_panics_in_the_thread_that_flushes_leaves_it_to_others() {
    let (give, kept) = channel();
    let has_ended = Arc::new(AtomicBool::new(false));
    let ends = Arc::new(Ends {
        late: Late::default(),
        kept: Mutex::new(kept),
        has_ended: has_ended.clone(),
    });
    let driver: Arc<dyn Driver> = ends.clone();
    let devices = Device::all_of(&driver).unwrap();
    let context = Context::new(&devices).unwrap();
    let queue = context.queue(&devices[0], QueueOptions::default()).unwrap();
    // For an event of the host's all queues are flushed.
    let gate = UserEvent::new();
    let mut event = gate.event();
    let woken = Arc::new(Woken::default());
    assert!(poll(&mut event, &woken).is_pending());
    // While the thread is busy, others flush for themselves.
    let by_thread = || ends.late.by_thread.load(Ordering::SeqCst);
    assert!(is_so(|| {
        drop(task(&queue));
        by_thread()
    }));
    drop(ends);
    give.send((queue, context, devices, driver)).unwrap();
    assert!(is_so(|| has_ended.load(Ordering::SeqCst)));
    let (late, _context, [other, _]) = stage();
    let is_flushed = is_so(|| {
        drop(task(&other));
        late.by_thread.load(Ordering::SeqCst)
    });
    assert!(is_flushed, "the thread is gone");
    gate.complete();
}
