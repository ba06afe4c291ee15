//! The watchdog: it ends the process, with a name, when something hangs. A test that never
//! returns says nothing.

use crate::patience::RunningClock;
use quipu_scheduler::Clock;
use std::io::Write;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::Duration;

/// The number of times that the clock is looked at, which stands still while the process does.
const LOOK: Duration = Duration::from_millis(50);

/// Watches until it is dropped.
#[derive(Debug)]
pub struct Watchdog {
    alive: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Watchdog {
    /// Ends the process with exit code 101 once it has run for `patience`, naming
    /// `what` as what hangs, unless it is dropped before.
    ///
    /// # Panics
    /// If no thread can be started.
    #[must_use]
    pub fn start(patience: Duration, what: String) -> Self {
        Self::describing(patience, move || what)
    }

    /// As [`Watchdog::start`]; what hangs is said by `what` when it does.
    ///
    /// # Panics
    /// If no thread can be started.
    #[must_use]
    pub fn describing(patience: Duration, what: impl FnOnce() -> String + Send + 'static) -> Self {
        let (alive, watch) = channel();
        let thread = std::thread::Builder::new()
            .name("watchdog".to_owned())
            .spawn(move || {
                let clock = RunningClock::new();
                while watch.recv_timeout(LOOK) == Err(RecvTimeoutError::Timeout) {
                    if clock.now() < patience {
                        continue;
                    }
                    // Not by a macro: a test's captured output goes with it.
                    let message = format!("hangs: {}, for {patience:?} already\n", what());
                    let _ = std::io::stderr().write_all(message.as_bytes());
                    std::process::exit(101);
                }
            })
            .expect("a machine that cannot start one more thread cannot run the suite");
        Self {
            alive: Some(alive),
            thread: Some(thread),
        }
    }
}

impl Drop for Watchdog {
    fn drop(&mut self) {
        drop(self.alive.take());
        if let Some(thread) = self.thread.take() {
            // It has nothing to say: it only sleeps or ends the process.
            let _ = thread.join();
        }
    }
}
