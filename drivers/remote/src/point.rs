//! Ends of commands, as the driver asks for them.

use crate::locked;
use quipu_scheduler::Error;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering, fence};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock};
use std::thread::Thread;

/// The times at which a command was handed to its device, began and ended, in nanoseconds of the
/// node's clock.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Times {
    pub(crate) submitted_ns: u64,
    pub(crate) started_ns: u64,
    pub(crate) ended_ns: u64,
    /// The device's lane that ran it, if the node says so.
    pub(crate) lane: Option<u32>,
}

/// A command's end: others wait for it on the node, and the host asks after it. A migration from
/// node to node has two halves. Each node knows one of them, and the migration is over when both
/// are.
#[derive(Clone, Debug)]
pub struct Point(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    /// The number of the node that does the command.
    home: usize,
    event: u64,
    /// Of a migration to another node.
    there: Option<Box<There>>,
    /// The number of halves that are not over.
    halves: AtomicU8,
    over: AtomicBool,
    /// The number of its bytes that came by way of here.
    went_around: AtomicU64,
    /// The error with which it has failed, and the times at which each half ran: at home, and of a
    /// migration there.
    outcome: Mutex<(Option<Error>, [Option<Times>; 2])>,
    /// A thread that waits for just this.
    waiter: OnceLock<Thread>,
    /// There are placeholders.
    is_followed: AtomicBool,
    /// Placeholders of this on other nodes: which node's, and which.
    followers: Mutex<Vec<(usize, u64)>>,
}

/// The other half of a migration.
#[derive(Debug)]
struct There {
    node: usize,
    event: u64,
    /// The commands that it waits for on its own node, and that are over when it is over there.
    after: Vec<u64>,
}

impl Point {
    pub(crate) fn new(home: usize, event: u64) -> Self {
        Self::of(home, event, None)
    }

    /// The end of a migration: its events on both nodes, and the events that it waits for on the
    /// first.
    pub(crate) fn joint(home: usize, event: u64, there: (usize, u64), after: Vec<u64>) -> Self {
        let (node, other) = there;
        let there = There {
            node,
            event: other,
            after,
        };
        Self::of(home, event, Some(Box::new(there)))
    }

    fn of(home: usize, event: u64, there: Option<Box<There>>) -> Self {
        Self(Arc::new(Inner {
            home,
            event,
            halves: AtomicU8::new(1 + u8::from(there.is_some())),
            there,
            over: AtomicBool::new(false),
            went_around: AtomicU64::new(0),
            outcome: Mutex::new((None, [None; 2])),
            waiter: OnceLock::new(),
            is_followed: AtomicBool::new(false),
            followers: Mutex::default(),
        }))
    }

    /// So many bytes from one node to another come by way of here.
    pub(crate) fn go_around(&self, bytes: usize) {
        self.0
            .went_around
            .fetch_add(bytes as u64, Ordering::Relaxed);
    }

    /// The number of bytes that have gone around.
    pub(crate) fn went_around(&self) -> u64 {
        self.0.went_around.load(Ordering::Relaxed)
    }

    /// The number of the node that does the command.
    pub(crate) fn home(&self) -> usize {
        self.0.home
    }

    /// Its event there.
    pub(crate) fn event(&self) -> u64 {
        self.0.event
    }

    /// Its event on a node, if that knows of it.
    pub(crate) fn event_on(&self, node: usize) -> Option<u64> {
        match &self.0.there {
            _ if node == self.0.home => Some(self.0.event),
            Some(there) if there.node == node => Some(there.event),
            _ => None,
        }
    }

    /// True if it is of a migration from node to node.
    pub(crate) fn is_joint(&self) -> bool {
        self.0.there.is_some()
    }

    /// True if `other` is over when this is over on that node.
    pub(crate) fn implies(&self, other: &Self, node: usize) -> bool {
        self.0.there.as_ref().is_some_and(|there| {
            there.node == node
                && !other.is_joint()
                && other.home() == self.home()
                && there.after.contains(&other.event())
        })
    }

    /// True if the command is over, and nothing touches the host's memory for it any more.
    pub(crate) fn is_finished(&self) -> bool {
        self.0.over.load(Ordering::SeqCst)
    }

    /// The command, or a half of it, is over on a node. True if all of it is now, and there are
    /// placeholders of it.
    #[must_use = "who follows has to be told"]
    pub(crate) fn end(&self, node: usize, failure: Option<Error>, times: Option<Times>) -> bool {
        if failure.is_some() || times.is_some() {
            let mut outcome = locked(&self.0.outcome);
            if outcome.0.is_none() {
                outcome.0 = failure;
            }
            outcome.1[usize::from(node != self.0.home)] = times;
        }
        if self.0.halves.fetch_sub(1, Ordering::AcqRel) != 1 {
            return false;
        }
        self.0.over.store(true, Ordering::SeqCst);
        // Between what it says and what it looks at, as in `wake_here`.
        fence(Ordering::SeqCst);
        if let Some(waiter) = self.0.waiter.get() {
            waiter.unpark();
        }
        self.0.is_followed.load(Ordering::SeqCst)
    }

    /// Its placeholders; there may be some from here on. A thread that finds it not over, with
    /// these locked, may add one: the thread that ends it sees that.
    pub(crate) fn follow(&self) -> MutexGuard<'_, Vec<(usize, u64)>> {
        let followers = locked(&self.0.followers);
        self.0.is_followed.store(true, Ordering::SeqCst);
        followers
    }

    /// Takes its placeholders: it is over, or never will be.
    pub(crate) fn take_followers(&self) -> Vec<(usize, u64)> {
        std::mem::take(&mut *locked(&self.0.followers))
    }

    /// The error with which the command has failed, if it has.
    pub(crate) fn take_failure(&self) -> Option<Error> {
        locked(&self.0.outcome).0.take()
    }

    /// The times at which the command ran, if these were asked for.
    pub(crate) fn times(&self) -> Option<Times> {
        locked(&self.0.outcome).1[0]
    }

    /// The times at which both halves of a migration ran, each by the clock of its node, if these
    /// were asked for.
    pub(crate) fn joint_times(&self) -> Option<[Times; 2]> {
        let [here, there] = locked(&self.0.outcome).1;
        Some([here?, there?])
    }

    /// This thread is unparked when it is over.
    pub(crate) fn wake_here(&self) {
        // One thread waits, once.
        let _ = self.0.waiter.set(std::thread::current());
        // The caller looks whether it is over. Either it sees that, or `end` sees the thread.
        fence(Ordering::SeqCst);
    }

    /// Unparks the waiting thread.
    pub(crate) fn wake(&self) {
        if let Some(waiter) = self.0.waiter.get() {
            waiter.unpark();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_migration_is_over_when_both_halves_are_and_fails_with_the_first_that_does() {
        let point = Point::joint(0, 7, (1, 9), vec![3, 5]);
        assert_eq!(
            [0, 1, 2].map(|node| point.event_on(node)),
            [Some(7), Some(9), None]
        );
        let error = || Some(Error::cancelled("a migration"));
        assert!(!point.end(1, error(), None) && !point.is_finished());
        drop(point.follow());
        assert!(point.end(0, None, None) && point.is_finished());
        assert!(point.take_failure().unwrap().is_cancelled());
    }

    #[test]
    fn the_times_of_a_migrations_halves_are_those_of_their_nodes_whichever_ends_first() {
        let times = |submitted_ns| {
            Some(Times {
                submitted_ns,
                started_ns: submitted_ns,
                ended_ns: submitted_ns,
                lane: None,
            })
        };
        for first in [0, 1] {
            let point = Point::joint(0, 7, (1, 9), Vec::new());
            let ends = |node: usize| point.end(node, None, times(node as u64 + 5));
            assert!(!ends(first) && point.joint_times().is_none());
            assert!(!ends(1 - first) && point.is_finished());
            let both = point.joint_times().unwrap().map(|half| half.started_ns);
            assert_eq!(both, [5, 6]);
        }
    }

    #[test]
    fn what_a_migration_waits_for_is_over_where_it_goes_and_nowhere_else() {
        let point = Point::joint(0, 7, (1, 9), vec![3, 5]);
        assert!(point.implies(&Point::new(0, 3), 1));
        assert!(!point.implies(&Point::new(0, 4), 1));
        assert!(!point.implies(&Point::new(2, 3), 1));
        assert!(!point.implies(&Point::new(0, 3), 2));
        assert!(!point.implies(&Point::joint(0, 3, (1, 4), Vec::new()), 1));
        assert!(!Point::new(0, 7).implies(&Point::new(0, 3), 1));
    }
}
