//! What a driver may rely on: what a thread hands over that [sees to it](sees_to) is flushed after that, whoever else
//! flushes meanwhile.
#![cfg(not(loom))]
#![allow(clippy::unwrap_used, reason = "a promise that is not kept panics")]

use quipu_core::command::ToDrivers;
use quipu_core::driver::{Notification, Submission};
use quipu_core::event::{Waiter, sees_to};
use quipu_core::queue::QueueShared;
use quipu_core::{
    Command, Context, Device, DeviceKind, DeviceProperties, Driver, MemorySpace, Queue,
    QueueOptions, Request, Result,
};
use std::sync::{Arc, Mutex};

/// Has another thread flush what it is just told of, and keeps that until it is waited for.
#[derive(Default)]
struct Interrupted {
    queue: Mutex<Option<Queue>>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    flushes: u32,
    /// How often it had been flushed when it was handed the command.
    before: Option<u32>,
    command: Option<Command>,
}

impl Driver for Interrupted {
    fn name(&self) -> &'static str {
        "interrupted"
    }

    fn devices(&self) -> Vec<DeviceProperties> {
        vec![DeviceProperties {
            name: "interrupted".to_owned(),
            kind: DeviceKind::Accelerator,
            vendor: "the test".to_owned(),
            multiprocessors: 1,
            max_grid_blocks: [1; 3],
            max_grid_block_count: 1,
            max_block_threads: [1; 3],
            max_block_thread_count: 1,
            max_thread_elements: [1; 3],
            max_thread_element_count: 1,
            shared_memory_per_block: 0,
            global_memory: 0,
            max_buffer: 0,
            warp_sizes: vec![1],
            clock_mhz: None,
            memory: MemorySpace::Host,
            domain: Some(0),
            concurrent_commands: 1,
            caller_runs: false,
        }]
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
        assert!(sees_to(std::ptr::from_ref(self).cast()));
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
