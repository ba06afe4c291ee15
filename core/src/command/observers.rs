//! Who on the host wants to hear of an event: wakers of futures, sleeping
//! threads, callbacks.
//!
//! An event gets a list when it is first observed; the list is one entry of
//! the event's notify list. An observer can be taken out again at any time
//! (a future that is dropped, the losers of a `when_any`), so a long-lived
//! event that is observed again and again keeps nothing of the past.
//!
//! Actions run with no lock held, after all dependants were released; a panic
//! in one is contained and logged. Callbacks come last, when their thread has
//! nothing in hand any more (`dispatch`): they may wait.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Waker;
use std::thread::Thread;

/// What to do when the event is over.
pub(crate) enum Action {
    Nothing,
    Wake(Waker),
    Unpark(Thread),
    /// Something short of a driver's.
    Notify(Box<dyn FnOnce() + Send>),
    /// A user's callback, or what else may take its time.
    Call(Box<dyn FnOnce() + Send>),
}

/// One observer. Shared between the list and whoever waits.
pub(crate) struct Observer {
    fired: AtomicBool,
    action: Mutex<Action>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Observer {
    pub(crate) fn new(action: Action) -> Arc<Self> {
        Arc::new(Self {
            fired: AtomicBool::new(false),
            action: Mutex::new(action),
        })
    }

    /// True once the event is over.
    pub(crate) fn fired(&self) -> bool {
        self.fired.load(Ordering::Acquire)
    }

    /// Replaces the waker, on a re-poll.
    pub(crate) fn replace_waker(&self, waker: &Waker) {
        let mut action = lock(&self.action);
        match &*action {
            Action::Wake(held) if held.will_wake(waker) => {}
            _ => *action = Action::Wake(waker.clone()),
        }
    }

    /// Does its action, once.
    pub(crate) fn fire(&self) {
        self.fired.store(true, Ordering::Release);
        let action = std::mem::replace(&mut *lock(&self.action), Action::Nothing);
        act(action);
    }

    /// Does its action, once; false if that is a callback, which is not called.
    pub(crate) fn fire_unless_callback(&self) -> bool {
        let action = {
            let mut action = lock(&self.action);
            if matches!(*action, Action::Call(_)) {
                return false;
            }
            self.fired.store(true, Ordering::Release);
            std::mem::replace(&mut *action, Action::Nothing)
        };
        act(action);
        true
    }
}

fn act(action: Action) {
    let outcome = catch_unwind(AssertUnwindSafe(|| match action {
        Action::Nothing => {}
        Action::Wake(waker) => waker.wake(),
        Action::Unpark(thread) => thread.unpark(),
        Action::Notify(call) | Action::Call(call) => call(),
    }));
    if let Err(panic) = outcome {
        crate::operation::drop_panic(panic);
        tracing::error!("a callback or waker of an event panicked; the event is unaffected");
    }
}

/// The observers of one event. Its first word is an entry of a notify list.
#[repr(C)]
pub(crate) struct ObserverList {
    pub(crate) word: AtomicU64,
    inner: Mutex<Inner>,
}

#[derive(Default)]
struct Inner {
    closed: bool,
    observers: Vec<Arc<Observer>>,
}

impl ObserverList {
    pub(crate) fn new() -> Self {
        Self {
            word: AtomicU64::new(0),
            inner: Mutex::new(Inner::default()),
        }
    }

    /// Adds an observer; false if the event is over, in which case it was not
    /// added.
    pub(crate) fn add(&self, observer: &Arc<Observer>) -> bool {
        let mut inner = lock(&self.inner);
        if inner.closed {
            return false;
        }
        inner.observers.push(observer.clone());
        true
    }

    /// Takes an observer out, if it is there.
    pub(crate) fn remove(&self, observer: &Arc<Observer>) {
        let mut inner = lock(&self.inner);
        if let Some(index) = inner
            .observers
            .iter()
            .position(|o| Arc::ptr_eq(o, observer))
        {
            inner.observers.swap_remove(index);
        }
    }

    /// Closes the list; gives everyone who is to be told.
    pub(crate) fn close(&self) -> Vec<Arc<Observer>> {
        let mut inner = lock(&self.inner);
        inner.closed = true;
        std::mem::take(&mut inner.observers)
    }
}
