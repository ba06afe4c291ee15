//! The end of a pool, while one of its threads is inside of a user's code.
#![allow(clippy::unwrap_used, reason = "helpers assert by unwrapping")]

use quipu_driver_cpu::{CpuDriver, Options};
use quipu_scheduler::{Context, Device, Driver, QueueOptions, Request};
use std::num::NonZero;
use std::sync::{Arc, Mutex, mpsc};
use std::time::Duration;

/// For a thread that goes on at once, or never.
const PATIENCE: Duration = Duration::from_secs(60);

#[test]
fn a_thread_that_drops_a_pool_may_hold_a_lock_that_a_callback_takes() {
    let (dropped, is_dropped) = mpsc::channel();
    let (returned, has_returned) = mpsc::channel();
    std::thread::spawn(move || {
        let options = Options::new().workers(NonZero::<usize>::MIN);
        let driver: Arc<dyn Driver> = CpuDriver::start(options).unwrap();
        let device = Device::all_of(&driver).unwrap().remove(0);
        let context = Context::new(std::slice::from_ref(&device)).unwrap();
        let queue = context.queue(&device, QueueOptions::default()).unwrap();
        let lock = Arc::new(Mutex::new(()));
        let (go, gone) = mpsc::channel::<()>();
        let (enter, entered) = mpsc::channel();
        let task = move |_: &[_]| {
            gone.recv().unwrap();
            Ok(())
        };
        let event = queue.host_task(task, &Request::default()).unwrap();
        let taken = lock.clone();
        event.on_complete(move |_| {
            enter.send(()).unwrap();
            drop(taken.lock().unwrap());
            returned.send(()).unwrap();
        });
        drop((event, queue, context, device));
        let held = lock.lock().unwrap();
        go.send(()).unwrap();
        entered.recv().unwrap();
        // The last handle: the worker has nothing of the pool any more but its own.
        assert_eq!(Arc::strong_count(&driver), 1);
        drop(driver);
        dropped.send(()).unwrap();
        drop(held);
    });
    let is_dropped = is_dropped.recv_timeout(PATIENCE);
    is_dropped.expect("the drop waits for the callback");
    has_returned.recv_timeout(PATIENCE).unwrap();
}
