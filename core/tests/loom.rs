//! Models of the event and notify-list protocol: every interleaving, and every
//! order in which weak memory may show it, of the files that production runs.
//!
//! `RUSTFLAGS="--cfg loom" cargo test -p quipu-scheduler --test loom --release`
//!
//! The protocols' files are compiled here once more, over loom's atomics: their
//! `crate::sync` is the module below.
//!
//! A model that cannot fail is worth nothing. Each of these changes was made, to
//! the files or, where the protocol is another file's, to its steps here, and
//! made the model named fail (and often others):
//!
//! | change | fails |
//! |---|---|
//! | `push` exchanges with `Relaxed` on success | `pushes_against_a_close` |
//! | `push` stores `next` after the exchange | `pushes_against_a_close` |
//! | `push` ignores the closed marks | `pushes_against_a_close` |
//! | `push` first loads, or fails to exchange, with `Relaxed` | `pushes_against_a_close` |
//! | `close` loads and stores instead of a swap | `pushes_against_a_close` |
//! | `close` swaps with `Relaxed` | `pushes_against_a_close` |
//! | `closed` loads with `Relaxed` | `who_sees_it_closed_sees_what_it_did` |
//! | `push` does not compare generations | `a_stale_handle_adds_nothing` |
//! | `open` keeps the old generation | `a_stale_handle_adds_nothing` |
//! | `resolve_many` subtracts with `Relaxed`, `Acquire` or `Release` | `two_ends_make_one_owner` |
//! | `resolve`'s shortcut loads with `Relaxed` | `two_ends_make_one_owner` |
//! | `resolve`'s shortcut is taken with two waits left | `two_ends_make_one_owner` |
//! | the count is stored after the pushes | `one_owner_who_sees_everything` |
//! | an entry's `next` is read after its wait is resolved | `two_ends_make_one_owner` |
//! | `poison` loads and stores | `the_first_cause_is_there_before_the_owner` |
//! | a wait is resolved before its poison | `the_first_cause_is_there_before_the_owner` |
#![cfg(loom)]
#![allow(
    missing_docs,
    unreachable_pub,
    dead_code,
    reason = "the files are modules of another crate here"
)]

/// The protocols' files know this as their crate's atomics.
mod sync {
    pub use loom::sync::atomic::{AtomicU32, AtomicU64, Ordering};
}

#[path = "../base/src/limits.rs"]
mod limits;
#[path = "../base/src/notify.rs"]
mod notify;
#[path = "../base/src/state.rs"]
mod state;

use loom::cell::UnsafeCell;
use loom::sync::Arc;
use loom::thread;
use notify::{Closed, Entry, NotifyList, Tag};
use state::{Resolved, State};
use sync::{AtomicU32, AtomicU64, Ordering};

/// An entry of a list, with the data that its owner wrote before it was pushed.
struct Edge {
    next: AtomicU64,
    written: UnsafeCell<u32>,
}

impl Edge {
    fn new() -> Self {
        Self {
            next: AtomicU64::new(0),
            written: UnsafeCell::new(0),
        }
    }

    fn write(&self, value: u32) {
        // SAFETY: loom checks that nobody else touches it.
        self.written.with_mut(|written| unsafe { *written = value });
    }

    fn read(&self) -> u32 {
        // SAFETY: as above.
        self.written.with(|written| unsafe { *written })
    }

    /// Pushes it.
    fn push(&self, list: &NotifyList, generation: u32) -> Result<(), Closed> {
        // SAFETY: edges outlive the models' lists.
        unsafe { list.push(generation, &raw const self.next, Tag::Order) }
    }

    fn is(&self, entry: Entry) -> bool {
        std::ptr::eq(entry.address(), &raw const self.next)
    }
}

/// Takes the entries in order.
fn entries(mut entry: Option<Entry>) -> Vec<Entry> {
    let mut entries = Vec::new();
    while let Some(current) = entry {
        assert!(entries.len() < 3, "an entry is in the list twice");
        // SAFETY: the models keep their edges.
        entry = unsafe { current.next() };
        entries.push(current);
    }
    entries
}

/// Two dependants push while the owner closes: each is either told that the event is over, and then
/// sees the command's writes, or is in the list that the closer takes, which sees the dependant's
/// writes; never both, never neither, never twice.
#[test]
fn pushes_against_a_close() {
    loom::model(|| {
        struct Event {
            list: NotifyList,
            result: UnsafeCell<u32>,
            edges: [Edge; 2],
        }
        let event = Arc::new(Event {
            list: NotifyList::new(),
            result: UnsafeCell::new(0),
            edges: [Edge::new(), Edge::new()],
        });
        event.list.open(1);
        let pushers = [0_usize, 1].map(|me| {
            let event = event.clone();
            thread::spawn(move || {
                event.edges[me].write(7 + me as u32);
                match event.edges[me].push(&event.list, 1) {
                    Ok(()) => true,
                    Err(closed) => {
                        assert_eq!(closed, Closed::Complete);
                        // SAFETY: loom checks that it was written before.
                        assert_eq!(event.result.with(|result| unsafe { *result }), 9);
                        false
                    }
                }
            })
        });
        // SAFETY: nobody reads it before the list is closed.
        event.result.with_mut(|result| unsafe { *result = 9 });
        let taken = entries(event.list.close(false));
        for entry in &taken {
            let me = usize::from(event.edges[1].is(*entry));
            assert!(event.edges[me].is(*entry));
            assert_eq!(event.edges[me].read(), 7 + me as u32);
        }
        for (me, pusher) in pushers.into_iter().enumerate() {
            let pushed = pusher.join().unwrap();
            let times = taken.iter().filter(|entry| event.edges[me].is(**entry));
            assert_eq!(times.count(), usize::from(pushed));
        }
    });
}

/// A thread that finds an event over, and failed, sees its error.
#[test]
fn who_sees_it_closed_sees_what_it_did() {
    loom::model(|| {
        let event = Arc::new((NotifyList::new(), UnsafeCell::new(0)));
        event.0.open(3);
        let looker = {
            let event = event.clone();
            thread::spawn(move || match event.0.closed(3) {
                Some(Closed::Failed) => {
                    // SAFETY: loom checks that it was written before.
                    assert_eq!(event.1.with(|error| unsafe { *error }), 5);
                }
                Some(other) => panic!("{other:?}"),
                None => {}
            })
        };
        // SAFETY: loom checks that nobody reads it yet.
        event.1.with_mut(|error| unsafe { *error = 5 });
        assert!(event.0.close(true).is_none());
        looker.join().unwrap();
        assert_eq!(event.0.closed(3), Some(Closed::Failed));
    });
}

/// A tracker's handle to a slot that is used again: its push goes to the use that
/// it means, or nowhere.
#[test]
fn a_stale_handle_adds_nothing() {
    loom::model(|| {
        struct Slot {
            list: NotifyList,
            stale: Edge,
            fresh: Edge,
        }
        let slot = Arc::new(Slot {
            list: NotifyList::new(),
            stale: Edge::new(),
            fresh: Edge::new(),
        });
        slot.list.open(1);
        let pusher = {
            let slot = slot.clone();
            thread::spawn(move || slot.stale.push(&slot.list, 1))
        };
        let first = entries(slot.list.close(false));
        slot.list.open(2);
        slot.fresh.push(&slot.list, 2).unwrap();
        let second = entries(slot.list.close(true));
        let outcome = pusher.join().unwrap();
        assert_eq!(second.len(), 1, "the second use has one dependant");
        assert!(slot.fresh.is(second[0]));
        assert_eq!(first.len(), usize::from(outcome.is_ok()));
        assert!(first.iter().all(|entry| slot.stale.is(*entry)));
        assert!(matches!(
            outcome,
            Ok(()) | Err(Closed::Complete | Closed::Recycled)
        ));
        // And afterwards it is known to be over.
        assert_eq!(slot.list.closed(1), Some(Closed::Recycled));
        assert_eq!(slot.stale.push(&slot.list, 1), Err(Closed::Recycled));
    });
}

/// A command with two waits, the events that it waits for, and the data that each wrote.
struct Waiting {
    state: State,
    edges: [Edge; 2],
    lists: [NotifyList; 2],
    results: [UnsafeCell<u32>; 2],
    body: UnsafeCell<u32>,
    owners: AtomicU32,
}

impl Waiting {
    fn new() -> Arc<Self> {
        let waiting = Self {
            state: State::new(),
            edges: [Edge::new(), Edge::new()],
            lists: [NotifyList::new(), NotifyList::new()],
            results: [0; 2].map(UnsafeCell::new),
            body: UnsafeCell::new(0),
            owners: AtomicU32::new(0),
        };
        waiting.lists.iter().for_each(|list| list.open(1));
        Arc::new(waiting)
    }

    /// Ends one of the events, as `broadcast_dropped` does.
    fn end(&self, index: usize) {
        // SAFETY: loom checks that nobody else touches it.
        self.results[index].with_mut(|result| unsafe { *result = 1 });
        let mut entry = self.lists[index].close(false);
        while let Some(current) = entry {
            assert!(self.edges[index].is(current), "an entry of another list");
            // SAFETY: the edge is alive; whether it still is this list's is one
            // of the things that are checked.
            entry = unsafe { current.next() };
            if self.state.resolve() == Resolved::Last {
                self.own();
            }
        }
    }

    /// Enqueues the command, as `Waits::register` does.
    fn enqueue(&self) {
        // SAFETY: loom checks that nobody else touches it.
        self.body.with_mut(|body| unsafe { *body = 1 });
        self.state.start(2, 0);
        let pushes = self.edges.iter().zip(&self.lists);
        let over = pushes.filter(|(edge, list)| edge.push(list, 1).is_err());
        let over = over.count() as u32;
        if over != 0 && self.state.resolve_many(over) == Resolved::Last {
            self.own();
        }
    }

    /// Owns the command: once, everything that was written is seen, and its edges
    /// are used for something else at once.
    fn own(&self) {
        assert_eq!(self.owners.fetch_add(1, Ordering::Relaxed), 0);
        // SAFETY: loom checks that it was written before.
        assert_eq!(self.body.with(|body| unsafe { *body }), 1);
        for result in &self.results {
            // SAFETY: as above.
            assert_eq!(result.with(|result| unsafe { *result }), 1);
        }
        let elsewhere = NotifyList::new();
        elsewhere.open(1);
        for edge in &self.edges {
            edge.push(&elsewhere, 1).expect("a fresh list is open");
        }
    }
}

/// A command is enqueued while the two events that it waits for end: exactly one of the three
/// threads owns it, and sees the others' writes; a thread that has resolved a wait has no more to
/// do with the edge.
#[test]
fn one_owner_who_sees_everything() {
    loom::model(|| {
        let command = Waiting::new();
        let closers = [0_usize, 1].map(|event| {
            let command = command.clone();
            thread::spawn(move || command.end(event))
        });
        command.enqueue();
        closers.into_iter().for_each(|c| c.join().unwrap());
        assert_eq!(command.owners.load(Ordering::Relaxed), 1);
        assert_eq!(command.state.unresolved(), 0);
    });
}

/// The same, of a command that is there already: the two that end race alone.
#[test]
fn two_ends_make_one_owner() {
    loom::model(|| {
        let command = Waiting::new();
        command.enqueue();
        let closer = {
            let command = command.clone();
            thread::spawn(move || command.end(0))
        };
        command.end(1);
        closer.join().unwrap();
        assert_eq!(command.owners.load(Ordering::Relaxed), 1);
        assert_eq!(command.state.unresolved(), 0);
    });
}

/// Two waits of three fail: the thread that owns the command finds that it must not run, and the
/// first cause.
#[test]
fn the_first_cause_is_there_before_the_owner() {
    let mut model = loom::model::Builder::new();
    // Without a bound, three threads with so many steps have too many interleavings.
    model.preemption_bound = Some(3);
    model.check(|| {
        struct Poisoned {
            state: State,
            cause: AtomicU64,
            first: AtomicU32,
        }
        let command = Arc::new(Poisoned {
            state: State::new(),
            cause: AtomicU64::new(0),
            first: AtomicU32::new(0),
        });
        fn own(command: &Poisoned) {
            assert!(command.state.is_poisoned());
            // Relaxed: the state word's publication needs nothing else.
            let cause = command.cause.load(Ordering::Relaxed);
            assert_ne!(cause, 0, "poisoned, and no cause");
            assert_eq!(cause, u64::from(command.first.load(Ordering::Relaxed)));
            assert_eq!(command.state.unresolved(), 0);
        }
        command.state.start(3, 0);
        let resolvers = [1_u32, 2].map(|me| {
            let command = command.clone();
            thread::spawn(move || {
                // As `resolve_edge` and `poison` do, in this order.
                if command.state.claim_poison() {
                    let before = command.first.swap(me, Ordering::Relaxed);
                    assert_eq!(before, 0, "two are first");
                    command.cause.store(u64::from(me), Ordering::Relaxed);
                    command.state.poison();
                }
                if command.state.resolve() == Resolved::Last {
                    own(&command);
                }
            })
        });
        // As a driver does that starts a command before it owns it.
        if command.state.is_poisoned() {
            let cause = command.cause.load(Ordering::Relaxed);
            assert_ne!(cause, 0, "poisoned, and no cause yet");
        }
        if command.state.resolve() == Resolved::Last {
            own(&command);
        }
        resolvers.into_iter().for_each(|r| r.join().unwrap());
    });
}
