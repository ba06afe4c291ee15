//! The queue that closures of users are handed here, for parts that are run one after the other.

use super::put::{Chain, Place};
use super::{Library, Refusal};
use quipu_device_queue::{Flight, Obstacle};
use quipu_scheduler::{AccessMode, NativeEnqueue, NativeQueue};
use std::sync::{Arc, Mutex};

type Run = Box<dyn FnOnce() + Send>;

/// A queue of the library's.
#[derive(Clone, Default)]
pub(crate) struct FakeQueue(Arc<Mutex<Vec<Run>>>);

impl FakeQueue {
    /// Has the device run this, after the parts that were put here before.
    pub(crate) fn put(&self, run: impl FnOnce() + Send + 'static) {
        let mut runs = self.0.lock().expect("nobody panics with it");
        runs.push(Box::new(run));
    }
}

/// Memory as closures are handed it.
#[derive(Clone, Copy)]
pub(crate) struct FakeMemory {
    pub(crate) start: *mut u8,
    pub(crate) length: usize,
    pub(crate) mode: AccessMode,
}

// SAFETY: whose it is, is the driver's to order.
unsafe impl Send for FakeMemory {}

impl FakeMemory {
    /// Its bytes, for the parts that the device runs.
    pub(crate) fn bytes<'a>(self) -> &'a mut [u8] {
        // SAFETY: the command's range, and parts of one command run one after the other.
        unsafe { std::slice::from_raw_parts_mut(self.start, self.length) }
    }
}

impl NativeQueue for FakeQueue {
    type Memory = FakeMemory;
}

/// A part that waits, those of the closure's, and one that says that they are over.
pub(super) fn put(
    mut chain: Chain<'_>,
    enqueue: &NativeEnqueue,
) -> Result<Flight<Library>, Obstacle<Refusal>> {
    let command = chain.work.command();
    let mut memories = Vec::new();
    for (number, argument) in command.arguments().iter().enumerate() {
        let Place(start) = chain.place(number, None)?;
        memories.push(FakeMemory {
            start,
            length: argument.length() as usize,
            mode: argument.mode(),
        });
    }
    chain.call(|| ())?;
    let queue = FakeQueue::default();
    let called = enqueue.call(command.label(), &queue, memories);
    let runs = std::mem::take(&mut *queue.0.lock().expect("nobody panics with it"));
    for run in runs {
        chain.call(run)?;
    }
    let mut flight = chain.end(false)?;
    flight.error = called.err();
    Ok(flight)
}
