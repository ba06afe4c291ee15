//! Service of the watchers that wait for a queue to reach a number.

use super::deferred::{Gathering, ToDrivers, announce, call_back, deliver, wake};
use super::finish::notify_each;
use super::id::EventId;
use super::owned::{Command, ReadySink};
use crate::observers::Observer;
use crate::queue::place::Place;
use crate::queue::progress::Watcher;
use crate::state::Resolved;
use std::sync::Arc;

impl Place {
    /// The queue's sentinel is over: serves the watchers that are due, but for wakers and
    /// callbacks, which are noted.
    #[cold]
    pub(crate) fn progress(&self, sink: &mut impl ReadySink) {
        let mut served = Vec::new();
        self.progress.take_served(&mut served);
        resolve(served, sink);
    }

    /// Fires `observer` when every command numbered below `end` is over; `None` if
    /// that is so already.
    pub(crate) fn observe(&self, end: u64, observer: &Arc<Observer>) -> Option<(u64, u64)> {
        let mut served = Vec::new();
        let watcher = Watcher::Observer(observer.clone());
        let outcome = self.progress.watch(end, watcher, &mut served);
        serve(served, &mut ToDrivers);
        call_back();
        outcome.ok()
    }

    /// Takes a watcher out again, if it was not served.
    pub(crate) fn unwatch(&self, key: (u64, u64)) {
        let mut served = Vec::new();
        self.progress.unwatch(key, &mut served);
        serve(served, &mut ToDrivers);
        call_back();
    }
}

/// Serves them. The caller calls back when it has nothing else in hand.
fn serve(served: Vec<Watcher>, sink: &mut impl ReadySink) {
    if served.is_empty() {
        return;
    }
    let gathering = Gathering::begin();
    resolve(served, sink);
    drop(gathering);
    wake();
}

/// Resolves the waits of commands first, because an observer may wait for these commands. Then it
/// tells threads, and [notes](announce) wakers and callbacks. The caller gathers.
pub(crate) fn resolve(served: Vec<Watcher>, sink: &mut impl ReadySink) {
    let mut observers = Vec::new();
    for watcher in served {
        match watcher {
            Watcher::Command(slot) => {
                // SAFETY: the command counts this wait.
                let s = unsafe { slot.as_ref() };
                let queue = s.queue.get();
                let id = EventId::new(slot, s.notify.generation());
                match s.state.resolve() {
                    Resolved::Last => {
                        deliver(Command::from_slot(slot), sink);
                    }
                    Resolved::Each => notify_each(queue, id, EventId::NONE),
                    Resolved::One => {}
                }
            }
            Watcher::Observer(observer) => observers.push(observer),
        }
    }
    announce(observers);
}
