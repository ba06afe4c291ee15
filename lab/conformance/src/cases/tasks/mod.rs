//! Waiting and enqueuing from inside of kernels and host tasks: a wait helps, or
//! says that it could never end; it never hangs. Where several workers run commands, one
//! that is idle runs what is ready while other commands and callbacks go on, or block.

mod caller_runs;
mod deadlocks;
mod flushes;
mod progress;
mod waits;

use crate::Case;
use crate::support::*;
use quipu_scheduler::error::ErrorKind;
use quipu_scheduler::event::wait_graph;
use quipu_scheduler::{Clock, Event, Queue, Request, Result};
use std::sync::mpsc::Receiver;
use std::sync::{Arc, Mutex};
use std::time::Duration;

pub(super) fn cases() -> Vec<Case> {
    [
        waits::cases(),
        deadlocks::cases(),
        flushes::cases(),
        progress::cases(),
        caller_runs::cases(),
    ]
    .concat()
}

fn task(queue: &Queue, run: impl FnOnce() -> Result<()> + Send + 'static) -> Event {
    queue
        .host_task(move |_| run(), &Request::default())
        .unwrap()
}

/// The place in which a task finds its own event.
type Slot = Arc<Mutex<Option<Event>>>;

/// A host task with a label, behind some events.
fn named(
    queue: &Queue,
    label: &str,
    waits: &[Event],
    run: impl FnOnce() -> Result<()> + Send + 'static,
) -> Event {
    let request = Request {
        waits,
        label: Some(label),
        ..Request::default()
    };
    queue.host_task(move |_| run(), &request).unwrap()
}

fn is_timed_out(result: &Result<()>) -> bool {
    matches!(result, Err(error) if matches!(error.kind(), ErrorKind::TimedOut))
}

/// Returns when a thread is seen to wait for what is called so.
fn until_a_thread_waits_for(name: &str) {
    let line = format!("for '{name}'");
    while !wait_graph().contains(&line) {
        std::thread::yield_now();
    }
}

/// Lets a command go on when the waiting thread has nothing else to do.
struct Releasing(Flag);

impl Clock for Releasing {
    fn now(&self) -> Duration {
        Duration::ZERO
    }

    fn park(&self, _: Duration) {
        self.0.set();
        std::thread::yield_now();
    }
}

/// As long as a command may take to run that nothing keeps from it.
const LONG_ENOUGH: Duration = Duration::from_secs(60);

/// Blocks until something is sent, as a command, which the core knows nothing of.
fn hear(from: &Receiver<()>) -> Result<()> {
    from.recv_timeout(LONG_ENOUGH)
        .map_err(|_| boom("what it needs is ready and does not run"))
}
