//! Polling by the user: a scheduler of the program notices ended commands, at times that suit it.
//!
//! 1. While a [`Polling`] lives, the drivers of its context's devices look for no ends of commands
//!    of polling queues; [`Context::poll`] does. Calls by devices, for other queues, are heard as
//!    ever.
//! 2. A thread that waits cannot poll meanwhile, and its wait may depend on an end that another
//!    driver is to notice. So as long as any thread waits, the drivers poll again.
//! 3. So waits are counted, and guards (`event::polling`). A driver is suspended while it has a
//!    guard and no thread waits.

use crate::context::Context;
use crate::event::polling::{resume, suspend};

/// Leaves polling to the user while it lives: commands of polling queues are over only when
/// [`Context::poll`] is called, or a thread waits.
#[derive(Debug)]
#[must_use = "polling is given back when this is dropped"]
pub struct Polling {
    context: Context,
}

impl Context {
    /// Looks once for commands that have ended on the context's devices, ends them, and hands over
    /// the commands that waited for them. Never blocks: of several threads one looks. True if
    /// something is on a device still.
    pub fn poll(&self) -> bool {
        if crate::process::is_forked() {
            return false;
        }
        // All of them are asked.
        let polled = self.drivers().iter().map(|driver| driver.poll());
        polled.fold(false, |any, one| any | one)
    }

    /// Has the caller poll from now on, until the result is dropped. Concerns all commands that the
    /// drivers of the context's devices run, in other contexts too.
    pub fn polling(&self) -> Polling {
        // In a child of fork other threads may have had the locks, and no driver polls.
        if !crate::process::is_forked() {
            suspend(self.drivers().iter().map(|driver| driver.clone() as _));
        }
        Polling {
            context: self.clone(),
        }
    }
}

impl Polling {
    /// As [`Context::poll`].
    pub fn poll(&self) -> bool {
        self.context.poll()
    }
}

impl Drop for Polling {
    fn drop(&mut self) {
        if crate::process::is_forked() {
            // Other threads may have had the locks.
            return;
        }
        resume(self.context.drivers().iter().map(|driver| &**driver as _));
    }
}
