//! Wake-ups of the drain thread, or of a thread that listens in its place.

use std::ffi::c_void;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, Thread};
use std::time::Duration;

/// The interval at which the drain thread looks at a device that may be lost, and so never calls,
/// while others look at it, too.
pub(super) const LOOK: Duration = Duration::from_millis(20);

/// See the module.
#[derive(Default)]
pub(crate) struct Wakeup {
    /// The drain thread sleeps, or is about to.
    asleep: AtomicBool,
    state: Mutex<Rung>,
    wake: Condvar,
}

#[derive(Default)]
struct Rung {
    /// A thread has left work to the drain thread.
    called: bool,
    /// A device has called.
    heard: bool,
    /// Threads that look themselves when a device calls.
    listeners: Vec<Thread>,
    /// The driver is gone.
    closed: bool,
}

/// The next work of the drain thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Due {
    /// Act on notices.
    Pump,
    /// Look at commands in flight, for a device has called, and act on notices.
    Hear,
    /// Look at commands in flight.
    Poll,
    /// Have streams call.
    Arm,
    /// Nothing, for a moment.
    Pause,
    /// Nothing, ever.
    End,
}

/// The work that there is as far as completions know.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Need {
    /// This, now.
    Now(Due),
    /// Nothing until a call or a thread rings, and a look after this time.
    Calls(Duration),
    /// Nothing until a call or a thread rings.
    Nothing,
}

impl Wakeup {
    fn state(&self) -> MutexGuard<'_, Rung> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn change(&self, change: impl FnOnce(&mut Rung)) {
        change(&mut self.state());
        if self.asleep.load(Ordering::SeqCst) {
            self.wake.notify_one();
        }
    }

    /// Leaves work to the drain thread.
    pub(super) fn ring(&self) {
        self.change(|state| state.called = true);
    }

    /// A device has called.
    fn hear(&self) {
        let mut state = self.state();
        state.heard = true;
        self.pass_on(state);
    }

    /// Wakes the thread that is to look because a device has called: a listener, if there is one.
    fn pass_on(&self, state: MutexGuard<'_, Rung>) {
        let listener = state.listeners.last().cloned();
        drop(state);
        match listener {
            Some(listener) => listener.unpark(),
            None if self.asleep.load(Ordering::SeqCst) => self.wake.notify_one(),
            None => (),
        }
    }

    /// Has this thread, which is about to sleep, woken when a device calls.
    pub(super) fn listen(&self) -> Listener<'_> {
        let thread = thread::current();
        self.state().listeners.push(thread.clone());
        Listener {
            wakeup: self,
            thread,
        }
    }

    /// Has the drain thread look again at its work, which was changed before, in sequential
    /// consistency.
    pub(super) fn nudge(&self) {
        // Either this sees that it sleeps, or it sees the change before it does.
        if self.asleep.load(Ordering::SeqCst) {
            self.change(|_| ());
        }
    }

    /// Ends the drain thread.
    pub(super) fn close(&self) {
        self.change(|state| state.closed = true);
    }

    /// Sleeps until there is something to do. The answer of `need` changes only before a call of
    /// this wakeup's.
    pub(super) fn next(&self, need: impl Fn() -> Need) -> Due {
        let mut state = self.state();
        loop {
            if state.closed {
                return Due::End;
            }
            let called = std::mem::take(&mut state.called);
            if std::mem::take(&mut state.heard) {
                return Due::Hear;
            }
            if called {
                return Due::Pump;
            }
            // A thread that finds it asleep takes the lock to wake it: so it does not seem to be
            // while there is something to do.
            if let Need::Now(due) = need() {
                return due;
            }
            self.asleep.store(true, Ordering::SeqCst);
            let pause = match need() {
                Need::Now(due) => {
                    self.asleep.store(false, Ordering::SeqCst);
                    return due;
                }
                Need::Calls(pause) => Some(state.listeners.last().map_or(pause, |listener| {
                    // It looks as well, if it knows that there is something: that may have come
                    // since it fell asleep.
                    listener.unpark();
                    LOOK
                })),
                Need::Nothing => None,
            };
            if let Some(pause) = pause {
                let waited = self.wake.wait_timeout(state, pause);
                let (guard, waited) = waited.unwrap_or_else(PoisonError::into_inner);
                state = guard;
                if waited.timed_out() {
                    self.asleep.store(false, Ordering::SeqCst);
                    return Due::Poll;
                }
            } else {
                let waited = self.wake.wait(state);
                state = waited.unwrap_or_else(PoisonError::into_inner);
            }
            self.asleep.store(false, Ordering::SeqCst);
        }
    }
}

/// A thread that is unparked when a device calls, as long as this lives.
pub(super) struct Listener<'a> {
    wakeup: &'a Wakeup,
    thread: Thread,
}

impl Listener<'_> {
    /// True if a device has called, and nobody else looks because of that.
    pub(super) fn has_heard(&self) -> bool {
        std::mem::take(&mut self.wakeup.state().heard)
    }
}

impl Drop for Listener<'_> {
    fn drop(&mut self) {
        let mut state = self.wakeup.state();
        let mut listeners = state.listeners.iter();
        let this = listeners.rposition(|it| it.id() == self.thread.id());
        if let Some(this) = this {
            state.listeners.remove(this);
        }
        // It may have been meant for this one.
        if state.heard {
            self.wakeup.pass_on(state);
        }
    }
}

/// The call that a library is asked for: at the end of a command of a signal.
pub(super) struct Call {
    wakeup: Arc<Wakeup>,
    /// True if the library has said that this ended well.
    is_finished: AtomicBool,
}

impl Call {
    pub(super) fn new(wakeup: Arc<Wakeup>) -> Arc<Self> {
        let is_finished = AtomicBool::new(false);
        Arc::new(Self {
            wakeup,
            is_finished,
        })
    }

    /// True if it has called, and said that all is well: then it need not be asked.
    pub(super) fn is_finished(&self) -> bool {
        self.is_finished.load(Ordering::Acquire)
    }
}

/// The argument of a library's callback: wakes a driver, once.
pub struct Wake(pub(super) Arc<Call>);

impl Wake {
    /// Wakes it, to ask for the status of the signal that this was asked for. Calls nothing of the
    /// library's, and takes no time.
    pub fn ring(self) {
        self.0.wakeup.hear();
    }

    /// As [`ring`](Wake::ring), when the command of the signal has ended well. So nobody asks the
    /// library, which may keep the asking thread waiting while its callbacks run.
    pub fn ring_over(self) {
        self.0.is_finished.store(true, Ordering::Release);
        self.ring();
    }

    /// As a callback's argument.
    #[must_use]
    pub fn into_raw(self) -> *mut c_void {
        Arc::into_raw(self.0).cast_mut().cast()
    }

    /// The same again.
    ///
    /// # Safety
    /// It came from [`Wake::into_raw`], and is taken once.
    #[must_use]
    pub unsafe fn from_raw(raw: *mut c_void) -> Self {
        // SAFETY: as the caller promises.
        Self(unsafe { Arc::from_raw(raw.cast()) })
    }
}
