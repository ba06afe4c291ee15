//! Ends of commands, as the driver asks for them.

use crate::locked;
use quipu_core::Error;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use std::thread::Thread;

/// When a command was handed to its device, began and ended, in nanoseconds of the node's clock.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Times {
    pub(crate) submitted_ns: u64,
    pub(crate) started_ns: u64,
    pub(crate) ended_ns: u64,
}

/// A command's end: what others wait for on the node, and what the host asks after.
#[derive(Clone, Debug)]
pub struct Point(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    event: u64,
    over: AtomicBool,
    outcome: Mutex<(Option<Error>, Option<Times>)>,
    /// A thread that waits for just this.
    waiter: OnceLock<Thread>,
}

impl Point {
    pub(crate) fn new(event: u64) -> Self {
        Self(Arc::new(Inner {
            event,
            over: AtomicBool::new(false),
            outcome: Mutex::default(),
            waiter: OnceLock::new(),
        }))
    }

    /// Its event on the node.
    pub(crate) fn event(&self) -> u64 {
        self.0.event
    }

    /// True if the command is over, and nothing touches the host's memory for it any more.
    pub(crate) fn is_over(&self) -> bool {
        self.0.over.load(Ordering::Acquire)
    }

    /// The command is over.
    pub(crate) fn end(&self, failure: Option<Error>, times: Option<Times>) {
        if failure.is_some() || times.is_some() {
            *locked(&self.0.outcome) = (failure, times);
        }
        self.0.over.store(true, Ordering::Release);
        if let Some(waiter) = self.0.waiter.get() {
            waiter.unpark();
        }
    }

    /// Why the command has failed, if it has.
    pub(crate) fn take_failure(&self) -> Option<Error> {
        locked(&self.0.outcome).0.take()
    }

    /// When the command ran, if that was asked for.
    pub(crate) fn times(&self) -> Option<Times> {
        locked(&self.0.outcome).1
    }

    /// This thread is unparked when it is over.
    pub(crate) fn wake_here(&self) {
        // One thread waits, once.
        let _ = self.0.waiter.set(std::thread::current());
    }

    /// Unparks who waits.
    pub(crate) fn wake(&self) {
        if let Some(waiter) = self.0.waiter.get() {
            waiter.unpark();
        }
    }
}
