//! The last barrier of a queue: commands with larger numbers wait for it.
//!
//! A barrier publishes its id with an unknown number, takes its number, then publishes that. A
//! command takes its number first and then looks. So a command sees every barrier that has a
//! smaller number:
//!
//! 1. A command that finds no barrier, or an older one, has looked before the barrier was
//!    published, so its number is smaller than the barrier's.
//! 2. A command that finds a larger number, or an unknown one, looks for its barrier in the
//!    history. The barrier's thread holds the history's lock until its number is known there. It
//!    takes no lock meanwhile that a command may hold while it looks (see the order of locks in
//!    `queue::enqueue`).

use crate::sync::{AtomicU64, Mutex, MutexGuard, Ordering};
use std::collections::VecDeque;
use std::sync::PoisonError;

/// See the module. Ids are those of events; no event has the id zero.
pub(crate) struct Gate {
    id: AtomicU64,
    sequence: AtomicU64,
    /// Recent barriers by number, and the lock that a barrier holds while it is published.
    history: Mutex<VecDeque<Barrier>>,
}

/// A barrier that may not be over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Barrier {
    /// Its number in the queue.
    pub(crate) sequence: u64,
    /// Its event.
    pub(crate) id: u64,
    /// True if it waits for all before it, not only for a list.
    pub(crate) full: bool,
}

/// No barrier.
const NONE: u64 = 0;
/// The number of a barrier that has not taken it yet: larger than any.
const UNKNOWN: u64 = u64::MAX;

impl Gate {
    pub(crate) fn new() -> Self {
        Self {
            id: AtomicU64::new(NONE),
            sequence: AtomicU64::new(0),
            history: Mutex::new(VecDeque::new()),
        }
    }

    fn history(&self) -> MutexGuard<'_, VecDeque<Barrier>> {
        self.history.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// True if there may be a barrier to wait for.
    #[inline]
    pub(crate) fn is_closed(&self) -> bool {
        self.id.load(Ordering::SeqCst) != NONE
    }

    /// Publishes a barrier, whose number `take_number` takes. Gives that number and the barrier
    /// before it.
    pub(crate) fn close(
        &self,
        id: u64,
        full: bool,
        take_number: impl FnOnce() -> u64,
        is_finished: impl Fn(u64) -> bool,
    ) -> (u64, Option<Barrier>) {
        let mut history = self.history();
        self.sequence.store(UNKNOWN, Ordering::SeqCst);
        self.id.store(id, Ordering::SeqCst);
        let sequence = take_number();
        let previous = history.back().copied();
        history.push_back(Barrier { sequence, id, full });
        self.sequence.store(sequence, Ordering::SeqCst);
        while history.len() > 1
            && history
                .front()
                .is_some_and(|barrier| is_finished(barrier.id))
        {
            history.pop_front();
        }
        (sequence, previous)
    }

    /// The event of the last barrier with a number smaller than `sequence`, which the caller has
    /// taken.
    pub(crate) fn before(&self, sequence: u64) -> Option<u64> {
        let id = self.id.load(Ordering::SeqCst);
        if id == NONE {
            return None;
        }
        let number = self.sequence.load(Ordering::SeqCst);
        if number < sequence && self.id.load(Ordering::SeqCst) == id {
            return Some(id);
        }
        let history = self.history();
        let mut older = history.iter().rev();
        older
            .find(|barrier| barrier.sequence < sequence)
            .map(|barrier| barrier.id)
    }

    /// Notes that a barrier is over, so that nobody has to look at it again.
    pub(crate) fn open(&self, id: u64) {
        let _ = self
            .id
            .compare_exchange(id, NONE, Ordering::SeqCst, Ordering::SeqCst);
    }

    /// Forgets barriers that are over, whose ids may come again.
    pub(crate) fn forget(&self, is_finished: impl Fn(u64) -> bool) {
        let mut history = self.history();
        history.retain(|barrier| !is_finished(barrier.id));
        let id = self.id.load(Ordering::SeqCst);
        if id != NONE && is_finished(id) {
            self.open(id);
        }
    }

    /// The number of barriers that it remembers.
    #[cfg(test)]
    pub(crate) fn remembered(&self) -> usize {
        self.history().len()
    }

    /// Starts over, for a queue that nobody uses.
    pub(crate) fn reset(&self) {
        self.id.store(NONE, Ordering::SeqCst);
        self.history().clear();
    }
}
