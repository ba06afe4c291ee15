//! The last handle of a content size, which an enqueue has as another thread takes the size back:
//! to drop it runs a user's code, which may wait for the command.
#![cfg(not(loom))]
#![allow(clippy::unwrap_used, reason = "helpers assert by unwrapping")]

use quipu_scheduler::command::ToDrivers;
use quipu_scheduler::driver::{Notification, Submission};
use quipu_scheduler::{
    Access, AccessMode, Context, Device, DeviceProperties, Driver, MemoryRef, Request,
};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

mod devices;

/// Takes the content size of a buffer back as it is told of a command, and counts those that it is
/// handed.
#[derive(Default)]
struct TakesBack {
    of: Mutex<Option<MemoryRef>>,
    handed_over: AtomicUsize,
}

// SAFETY: a command's code and memory are not used.
unsafe impl Driver for TakesBack {
    fn name(&self) -> &'static str {
        "takes back"
    }

    fn devices(&self) -> Vec<DeviceProperties> {
        let one = devices::one("takes back").remove(0);
        vec![DeviceProperties {
            domain: Some(0),
            ..one
        }]
    }

    fn submit(&self, _: Submission<'_>) {
        let of = self.of.lock().unwrap().take();
        of.iter()
            .for_each(|memory| memory.set_content_size(None).unwrap());
    }

    fn notify(&self, notification: Notification) {
        if let Notification::Ready(command) = notification {
            self.handed_over.fetch_add(1, Ordering::SeqCst);
            command.finish(Ok(()), &mut ToDrivers);
        }
    }
}

/// Notes as it is dropped how many commands were handed over by then.
struct Notes(Arc<TakesBack>, Arc<AtomicUsize>);

impl Drop for Notes {
    fn drop(&mut self) {
        let handed_over = self.0.handed_over.load(Ordering::SeqCst);
        self.1.store(1 + handed_over, Ordering::SeqCst);
    }
}

#[test]
fn an_enqueue_drops_the_last_handle_of_a_content_size_with_nothing_in_hand() {
    let takes_back = Arc::new(TakesBack::default());
    let driver: Arc<dyn Driver> = takes_back.clone();
    let devices = Device::all_of(&driver).unwrap();
    let context = Context::new(&devices).unwrap();
    let queue = context.queue(&devices[0], Default::default()).unwrap();
    let memory = context.memory(64).unwrap();
    let (mut bytes, noted) = (Box::new([0_u8; 8]), Arc::new(AtomicUsize::new(0)));
    let keep = Box::new(Notes(takes_back.clone(), noted.clone()));
    // SAFETY: the bytes outlive the context, and nobody touches them.
    let size = unsafe { context.memory_over(NonNull::from(&mut bytes[0]), 8, keep) }.unwrap();
    memory.set_content_size(Some(size)).unwrap();
    *takes_back.of.lock().unwrap() = Some(memory.clone());
    let request = Request {
        accesses: &[Access {
            memory: &memory,
            offset: 0,
            length: 64,
            mode: AccessMode::Overwrite,
        }],
        ..Request::default()
    };
    queue
        .host_task(|_| Ok(()), &request)
        .unwrap()
        .wait()
        .unwrap();
    assert_eq!(noted.load(Ordering::SeqCst), 1 + 1);
}
