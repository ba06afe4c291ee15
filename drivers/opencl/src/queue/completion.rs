//! How ends of commands on a device are heard of: by callbacks, or by polling, as their queue asks.
//!
//! 1. A *callback* comes on a thread of the vendor's. It notes which command it was and wakes the drain thread; it makes
//!    no call.
//! 2. *Polled* commands are looked at by one thread at a time: one that waits for something if there is one, else the
//!    drain thread; none when nothing polled is in flight.
//! 3. What is noted is acted on by whoever [pumps](super::pump): the drain thread, or a host thread that does so anyway.

use crate::error::is_loss;
use crate::native::{Called, Event, named};
use cl3::event::CL_COMPLETE;
use cl3::types::{cl_event, cl_int};
use quipu_core::clock;
use std::ffi::c_void;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

/// How often a device is asked for a command's status before it is taken to be lost.
const TRIES: u32 = 1000;

/// A command's end.
#[derive(Clone, Debug)]
pub(super) struct Notice {
    /// The command's number in the ledger.
    pub(super) sequence: u64,
    /// OpenCL's status: negative if it failed. An error if it cannot be had any more: nobody knows whether the command
    /// is over.
    pub(super) status: Called<cl_int>,
    /// When the host heard of it, on the process's clock.
    pub(super) seen: u64,
}

/// See the module.
#[derive(Default)]
pub(crate) struct Completions {
    noted: Mutex<Noted>,
    wake: Condvar,
    polled: Mutex<Vec<Polled>>,
    in_flight: AtomicUsize,
}

/// A command that is looked at.
struct Polled {
    sequence: u64,
    event: Event,
    /// How often its status could not be had.
    failures: u32,
}

#[derive(Default)]
struct Noted {
    notices: Vec<Notice>,
    /// Somebody has left work to the drain thread.
    called: bool,
    /// The driver is gone.
    closed: bool,
}

/// What the drain thread is to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Due {
    Pump,
    Poll,
    End,
}

/// What a callback is given.
struct Listener {
    completions: Arc<Completions>,
    sequence: u64,
}

extern "C" fn heard(_event: cl_event, status: cl_int, listener: *mut c_void) {
    // SAFETY: made by `listen` for this one call.
    let listener = unsafe { Box::from_raw(listener.cast::<Listener>()) };
    listener.completions.note(listener.sequence, status);
}

impl Completions {
    fn noted(&self) -> MutexGuard<'_, Noted> {
        self.noted.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn note(&self, sequence: u64, status: cl_int) {
        let notice = Notice {
            sequence,
            status: Ok(status),
            seen: clock::now_ns(),
        };
        self.noted().notices.push(notice);
        self.wake.notify_one();
    }

    /// Has a command's end noted by a callback.
    pub(super) fn listen(self: &Arc<Self>, sequence: u64, event: &Event) -> Called<()> {
        let listener = Box::into_raw(Box::new(Listener {
            completions: self.clone(),
            sequence,
        }));
        let set = cl3::event::set_event_callback(event.raw(), CL_COMPLETE, heard, listener.cast());
        named("clSetEventCallback", set).inspect_err(|_| {
            // SAFETY: it will not be called, so this is still ours.
            drop(unsafe { Box::from_raw(listener) });
        })
    }

    /// Has a command's end noted by polling.
    pub(super) fn watch(&self, sequence: u64, event: Event) {
        let mut polled = self.polled.lock().unwrap_or_else(PoisonError::into_inner);
        polled.push(Polled {
            sequence,
            event,
            failures: 0,
        });
        let first = self.in_flight.fetch_add(1, Ordering::SeqCst) == 0;
        drop(polled);
        if first {
            // In order, so that the drain thread does not miss it on its way to sleep.
            drop(self.noted());
            self.wake.notify_one();
        }
    }

    /// True if there is something to poll.
    pub(super) fn is_polling(&self) -> bool {
        self.in_flight.load(Ordering::SeqCst) > 0
    }

    /// Looks at what is polled, unless somebody does; true if something has ended.
    pub(super) fn poll(&self) -> bool {
        let Ok(mut polled) = self.polled.try_lock() else {
            return false;
        };
        let mut ended = Vec::new();
        polled.retain_mut(|polled| {
            let end = end_of(polled.event.status(), &mut polled.failures);
            let over = end.is_some();
            ended.extend(end.map(|end| (polled.sequence, end)));
            !over
        });
        self.in_flight.fetch_sub(ended.len(), Ordering::SeqCst);
        drop(polled);
        let seen = clock::now_ns();
        let any = !ended.is_empty();
        if any {
            let notices = ended.into_iter().map(|(sequence, status)| Notice {
                sequence,
                status,
                seen,
            });
            self.noted().notices.extend(notices);
        }
        any
    }

    /// Takes what was noted.
    pub(super) fn take(&self) -> Vec<Notice> {
        std::mem::take(&mut self.noted().notices)
    }

    /// True if something is noted.
    pub(super) fn has_notices(&self) -> bool {
        !self.noted().notices.is_empty()
    }

    /// Leaves work to the drain thread.
    pub(super) fn call(&self) {
        self.noted().called = true;
        self.wake.notify_one();
    }

    /// Ends the drain thread.
    pub(crate) fn close(&self) {
        self.noted().closed = true;
        self.wake.notify_one();
    }

    /// Sleeps until there is something to do.
    pub(super) fn next(&self) -> Due {
        let mut noted = self.noted();
        loop {
            if noted.closed {
                return Due::End;
            }
            if std::mem::take(&mut noted.called) || !noted.notices.is_empty() {
                return Due::Pump;
            }
            if self.is_polling() {
                return Due::Poll;
            }
            noted = self
                .wake
                .wait(noted)
                .unwrap_or_else(PoisonError::into_inner);
        }
    }
}

/// A command's end, from what its event says; none if it goes on. That an event says nothing is no end: it is asked
/// again, unless its device is lost or has said nothing too often.
fn end_of(status: Called<cl_int>, failures: &mut u32) -> Option<Called<cl_int>> {
    match status {
        Ok(status) => {
            *failures = 0;
            (status <= CL_COMPLETE).then_some(Ok(status))
        }
        Err(error) => {
            *failures += 1;
            (is_loss(error.code) || *failures >= TRIES).then_some(Err(error))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::native::CallError;

    #[test]
    fn that_a_status_cannot_be_had_is_no_end() {
        let refusal = |code| {
            let call = "clGetEventInfo";
            CallError { call, code }
        };
        let mut failures = 0;
        for _ in 0..3 {
            for _ in 1..TRIES {
                assert_eq!(end_of(Err(refusal(-6)), &mut failures), None);
            }
            assert_eq!(end_of(Ok(1), &mut failures), None);
        }
        assert_eq!(end_of(Ok(0), &mut failures), Some(Ok(0)));
        assert_eq!(end_of(Ok(-5), &mut failures), Some(Ok(-5)));
        let lost = Err(refusal(-2));
        assert_eq!(end_of(lost.clone(), &mut failures), Some(lost));
        failures = TRIES - 1;
        let silent = Err(refusal(-6));
        assert_eq!(end_of(silent.clone(), &mut failures), Some(silent));
    }
}
