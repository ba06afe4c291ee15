//! The place where a session's stream waits for its client to come back.
//!
//! 1. A client that comes back with a hello leaves its connection here, and cuts the stream's old
//!    one. Of two connections, the newer stays. A connection that has waited here is given up.
//! 2. The thread that receives from the stream finds the cut, comes here, and goes on with what it
//!    finds; it waits for it until the patience is over.

use crate::locked;
use quipu_link::gate::Caller;
use quipu_link::timer::Timer;
use std::sync::Mutex;
use std::thread::Thread;
use std::time::Duration;

/// See the module.
#[derive(Default)]
pub(crate) struct Post(Mutex<State>);

#[derive(Default)]
struct State {
    /// Of the newest connection.
    epoch: u32,
    caller: Option<Caller>,
    waiting: Option<Thread>,
    closed: bool,
}

impl Post {
    /// The first connection of the stream. False if there was one.
    pub(crate) fn begin(&self) -> bool {
        let mut state = locked(&self.0);
        let is_first = state.epoch == 0 && !state.closed;
        if is_first {
            state.epoch = 1;
        }
        is_first
    }

    /// Leaves a connection for the stream; `cut` cuts the one that it has. Given back if it is
    /// older than another, or the session is over.
    pub(crate) fn offer(&self, caller: Caller, cut: impl FnOnce()) -> Result<(), Box<Caller>> {
        let mut state = locked(&self.0);
        let (_, epoch, _) = caller.session();
        if state.closed || state.epoch == 0 || epoch <= state.epoch {
            return Err(Box::new(caller));
        }
        state.epoch = epoch;
        // Both at once, so that no connection is cut that has come after.
        cut();
        state.caller = Some(caller);
        if let Some(waiting) = &state.waiting {
            waiting.unpark();
        }
        Ok(())
    }

    /// The connection to go on with; none if the session is over, or nobody has come until then.
    pub(crate) fn wait(&self, timer: &dyn Timer, until: Duration) -> Option<Caller> {
        loop {
            let mut state = locked(&self.0);
            if state.closed {
                return None;
            }
            if let Some(caller) = state.caller.take() {
                state.waiting = None;
                return Some(caller);
            }
            // What is not there when the time is over comes too late, whoever was quicker.
            if timer.now() >= until {
                state.closed = true;
                return None;
            }
            state.waiting = Some(std::thread::current());
            drop(state);
            timer.park_until(until);
        }
    }

    /// True if a newer connection has come.
    pub(crate) fn has_caller(&self) -> bool {
        locked(&self.0).caller.is_some()
    }

    /// Nobody waits here any more.
    pub(crate) fn close(&self) {
        let mut state = locked(&self.0);
        state.closed = true;
        state.caller = None;
        if let Some(waiting) = state.waiting.take() {
            waiting.unpark();
        }
    }
}
