//! Models of waits for ends. One is the queue's sentinel, on which markers, barriers, waits for a
//! queue and the visible order of an in-order one rest. The other is the observers of an event,
//! which register while it ends. Of the files that production runs, as in `loom.rs`.
//!
//! `RUSTFLAGS="--cfg loom" cargo test -p quipu-scheduler --test loom_waiting --release`
//!
//! Loom takes sequentially consistent accesses for acquiring and releasing ones. The
//! sentinel's protocol has one such exchange, of the notify list's head, stand between
//! a store and a load: on every processor it does, so it is given fences here.
//!
//! The thread that looks without a lock is a spawned one: loom lets loads of the first thread come
//! before stores that others may have done.
//!
//! Each of these changes was made, to the files or, where the protocol is another
//! file's, to its steps here, and made the model named fail (and often others):
//!
//! | change | fails |
//! |---|---|
//! | `watch` looks at the sentinel's byte without a fence before | `an_end_is_not_missed` |
//! | `watch` does not look at the byte again | `an_end_is_not_missed` |
//! | `watch` looks first, and then stores the sentinel | `an_end_is_not_missed` |
//! | the nearest watcher is not aimed at | `an_end_is_not_missed` |
//! | the thread that ends a command compares the sentinel before the list is closed | `an_end_is_not_missed` |
//! | the byte is stored with `Relaxed` | `an_end_is_not_missed` |
//! | the byte is stored after the sentinel is compared | `an_end_is_not_missed` |
//! | `close` swaps with `AcqRel` | `an_end_is_not_missed` |
//! | somebody is served before the frontier is moved | `an_end_is_not_missed` |
//! | `advance` loads bytes with `Relaxed` | `an_end_is_not_missed` |
//! | a page's bytes are not cleared, or its number is not stored | `pages_are_used_again` |
//! | `reached` does not look at the frontier again | `old_numbers_stay_over` |
//! | a page's bytes are cleared with `Relaxed` | `old_numbers_stay_over` |
//! | the frontier is stored with `Relaxed` | `who_sees_it_passed_sees_what_it_did` |
//! | a pusher that comes too late does not tell the observers that were added meanwhile | `observers_against_an_end` |
//! | `add` does not ask whether the list is closed, or `close` does not close it | `observers_against_an_end` |
//! | a thread that loses the exchange keeps its own list | `observers_against_an_end` |
//! | `remove` takes nobody out | `who_was_taken_out_is_not_told` |
#![cfg(loom)]
#![allow(
    missing_docs,
    unreachable_pub,
    dead_code,
    reason = "the files are modules of another crate here"
)]

/// The protocols' files know this as their crate's atomics and locks.
mod sync {
    pub use loom::sync::atomic::{
        AtomicBool, AtomicPtr, AtomicU8, AtomicU32, AtomicUsize, Ordering, fence,
    };
    pub use loom::sync::{Mutex, MutexGuard};
    pub use loom::thread::yield_now;

    pub fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
        mutex.lock().unwrap()
    }

    #[derive(Default)]
    pub struct Backoff;

    impl Backoff {
        pub fn pause(&mut self) {
            yield_now();
        }
    }

    // Numbers are nobody's here, but everybody's to take: `loom_bias.rs` has a model of the other
    // way.
    pub fn asymmetric_fences_are_supported() -> bool {
        false
    }
    pub fn light_fence() {}
    pub fn heavy_fence() {}
    pub fn this_thread() -> usize {
        8
    }

    /// With exchanges that are fences, if they are sequentially consistent.
    #[derive(Debug)]
    pub struct AtomicU64(loom::sync::atomic::AtomicU64);

    impl AtomicU64 {
        pub fn new(value: u64) -> Self {
            Self(loom::sync::atomic::AtomicU64::new(value))
        }

        pub fn swap(&self, value: u64, order: Ordering) -> u64 {
            let fenced = |fenced| {
                if fenced {
                    fence(Ordering::SeqCst);
                }
            };
            fenced(order == Ordering::SeqCst);
            let before = self.0.swap(value, order);
            fenced(order == Ordering::SeqCst);
            before
        }
    }

    impl std::ops::Deref for AtomicU64 {
        type Target = loom::sync::atomic::AtomicU64;

        fn deref(&self) -> &Self::Target {
            &self.0
        }
    }
}

mod panics {
    pub fn drop_panic(_: Box<dyn std::any::Any + Send>) {}

    pub fn quietly(log: impl FnOnce()) {
        log();
    }
}

mod flush_demand {
    pub struct FlushDemand;
}

mod process {
    pub fn is_forked() -> bool {
        false
    }

    pub fn end_child(_: bool) {}
}

mod command {
    pub mod slot {
        pub struct Slot;
    }
}

#[path = "../base/src/bias.rs"]
mod bias;
#[path = "../base/src/limits.rs"]
mod limits;
#[path = "../base/src/notify.rs"]
mod notify;
#[path = "../base/src/observers.rs"]
mod observers;
#[path = "../src/queue/progress.rs"]
mod progress;

use loom::cell::UnsafeCell;
use loom::thread;
use notify::{NotifyList, Tag};
use observers::{Action, Key, Observer, Observers, ToFire};
use progress::{Progress, Watcher};
use std::sync::Arc;
use sync::{AtomicU8, AtomicU32, Ordering};

/// A queue with so many commands, the data that each wrote, and the waiters, each for so many of
/// them.
struct Queue<const N: usize> {
    progress: Progress,
    lists: [NotifyList; N],
    results: [UnsafeCell<u32>; N],
    bytes: [*const AtomicU8; N],
    waiters: [(usize, Arc<Observer>); 2],
    served: [AtomicU32; 2],
}

// SAFETY: the bytes are in pages that are never freed; loom checks the rest.
unsafe impl<const N: usize> Send for Queue<N> {}
// SAFETY: as above.
unsafe impl<const N: usize> Sync for Queue<N> {}

impl<const N: usize> Queue<N> {
    fn new(waits: [usize; 2]) -> Arc<Self> {
        let progress = Progress::new();
        let bytes = std::array::from_fn(|_| progress.next().1);
        let queue = Self {
            progress,
            lists: std::array::from_fn(|_| NotifyList::new()),
            results: std::array::from_fn(|_| UnsafeCell::new(0)),
            bytes,
            waiters: waits.map(|end| (end, Observer::new(Action::Nothing))),
            served: [AtomicU32::new(0), AtomicU32::new(0)],
        };
        queue.lists.iter().for_each(|list| list.open(1));
        Arc::new(queue)
    }

    /// Ends a command, as `broadcast_dropped` does.
    fn end(&self, number: usize) {
        // SAFETY: loom checks that nobody reads it yet.
        self.results[number].with_mut(|result| unsafe { *result = 1 });
        // SAFETY: pages are never freed.
        unsafe { (*self.bytes[number]).store(1, Ordering::Release) };
        self.lists[number].close(false);
        if self.progress.is_sentinel(number as u64) {
            let mut served = Vec::new();
            self.progress.take_served(&mut served);
            self.serve(served);
        }
    }

    /// Has one of the waiters wait, as `QueueShared::watch` does.
    fn watch(&self, waiter: usize) {
        let (end, observer) = &self.waiters[waiter];
        let mut served = Vec::new();
        let watcher = Watcher::Observer(observer.clone());
        let watched = self.progress.watch(*end as u64, watcher, &mut served);
        self.serve(served);
        self.serve(watched.err());
    }

    /// Tells that the commands waited for are over: this thread sees that they are, and their
    /// writes.
    fn serve(&self, served: impl IntoIterator<Item = Watcher>) {
        for watcher in served {
            let Watcher::Observer(observer) = watcher else {
                unreachable!("nobody else waits");
            };
            // An assertion in the called code would be contained.
            observer.fire();
            let is_he = |(_, waits): &(usize, Arc<Observer>)| Arc::ptr_eq(waits, &observer);
            let waiter = self.waiters.iter().position(is_he).unwrap();
            self.served[waiter].fetch_add(1, Ordering::Relaxed);
            for number in 0..self.waiters[waiter].0 {
                // SAFETY: loom checks that it was written before.
                assert_eq!(self.results[number].with(|result| unsafe { *result }), 1);
                assert!(
                    self.progress.has_passed(number as u64),
                    "others are not told"
                );
            }
        }
    }

    fn is_served(&self, waiter: usize) -> bool {
        match self.served[waiter].load(Ordering::Relaxed) {
            times @ 0..=1 => times == 1,
            times => panic!("told {times} times"),
        }
    }
}

/// A waiter waits for two commands while they end: it is told once, and sees their writes.
#[test]
fn an_end_is_not_missed() {
    loom::model(|| {
        let queue = Queue::<2>::new([2, 0]);
        let enders = [0, 1].map(|number| {
            let queue = queue.clone();
            thread::spawn(move || queue.end(number))
        });
        queue.watch(0);
        enders.into_iter().for_each(|ender| ender.join().unwrap());
        assert!(queue.is_served(0) && !queue.is_served(1));
    });
}

/// Two wait, for one command and for two, while the second ends, and then the first.
#[test]
fn all_who_wait_are_told() {
    loom::model(|| {
        let queue = Queue::<2>::new([2, 1]);
        let ender = {
            let queue = queue.clone();
            thread::spawn(move || {
                queue.end(1);
                queue.end(0);
            })
        };
        queue.watch(0);
        queue.watch(1);
        ender.join().unwrap();
        assert!(queue.is_served(0) && queue.is_served(1));
    });
}

/// A queue of three commands has come to its second page, and is told to look how far it is while
/// the last two end: the first page is used again, and a thread that asks for its old numbers does
/// not take them for new ones.
#[test]
fn pages_are_used_again() {
    loom::model(|| {
        let queue = Queue::<3>::new([3, 0]);
        queue.end(0);
        queue.end(1);
        let ender = {
            let queue = queue.clone();
            thread::spawn(move || {
                queue.end(2);
                // The fifth command has the first one's page.
                let next = [queue.progress.next(), queue.progress.next()];
                assert_eq!(next.map(|(number, _)| number), [3, 4]);
                // SAFETY: pages are never freed.
                let byte = unsafe { &*next[1].1 };
                assert_eq!(byte.load(Ordering::Relaxed), 0, "it is not over yet");
            })
        };
        assert!(queue.progress.reached(2));
        assert!(
            !queue.progress.reached(4),
            "it was not enqueued, or not ended"
        );
        queue.watch(0);
        ender.join().unwrap();
        assert!(queue.progress.reached(3) && !queue.progress.reached(5));
        assert!(queue.is_served(0));
    });
}

/// A thread asks for a page's old numbers, and has its address still, while it is used again for
/// numbers that are not over.
#[test]
fn old_numbers_stay_over() {
    loom::model(|| {
        let queue = Queue::<2>::new([2, 0]);
        queue.end(0);
        queue.end(1);
        let asker = {
            let queue = queue.clone();
            thread::spawn(move || assert!(queue.progress.reached(2), "they were over before"))
        };
        // The last of them has the first one's page.
        assert_eq!([(); 3].map(|()| queue.progress.next().0), [2, 3, 4]);
        asker.join().unwrap();
    });
}

/// A thread that sees that the frontier has passed a command sees its writes, whichever thread
/// moved it.
#[test]
fn who_sees_it_passed_sees_what_it_did() {
    loom::model(|| {
        let queue = Queue::<1>::new([1, 0]);
        let ender = {
            let queue = queue.clone();
            thread::spawn(move || queue.end(0))
        };
        let asker = {
            let queue = queue.clone();
            thread::spawn(move || {
                if queue.progress.has_passed(0) {
                    // SAFETY: loom checks that it was written before.
                    assert_eq!(queue.results[0].with(|result| unsafe { *result }), 1);
                }
            })
        };
        queue.progress.reached(1);
        [ender, asker]
            .into_iter()
            .for_each(|other| other.join().unwrap());
    });
}

/// An event, its observers, and how often each was told.
struct Event {
    notify: NotifyList,
    observers: Observers,
    result: UnsafeCell<u32>,
    all: [Arc<Observer>; 2],
    told: [AtomicU32; 2],
}

// SAFETY: loom checks whoever touches the result.
unsafe impl Send for Event {}
// SAFETY: as above.
unsafe impl Sync for Event {}

impl Event {
    fn new() -> Arc<Self> {
        let event = Self {
            notify: NotifyList::new(),
            observers: Observers::new(),
            result: UnsafeCell::new(0),
            all: [(); 2].map(|()| Observer::new(Action::Notify(Box::new(|| ())))),
            told: [AtomicU32::new(0), AtomicU32::new(0)],
        };
        event.notify.open(1);
        Arc::new(event)
    }

    /// Tells an observer, which sees the writes of the event's command.
    fn tell(&self, number: usize) {
        // SAFETY: loom checks that it was written before.
        assert_eq!(self.result.with(|result| unsafe { *result }), 1);
        self.told[number].fetch_add(1, Ordering::Relaxed);
    }

    fn tell_all(&self, observers: &[Arc<Observer>]) {
        for observer in observers {
            // An assertion in the called code would be contained.
            observer.fire();
            assert!(observer.fired());
            let is_it = |own: &Arc<Observer>| Arc::ptr_eq(own, observer);
            self.tell(self.all.iter().position(is_it).unwrap());
        }
    }

    /// Registers an observer, as `observe` does; one that is told that the event is over tells
    /// itself.
    fn observe(&self, number: usize) -> Option<Key> {
        // SAFETY: the models keep their events.
        let added = unsafe { self.observers.add(&self.notify, &self.all[number]) };
        let tell = |others: &ToFire| {
            self.tell_all(others);
            self.tell(number);
        };
        added.inspect_err(tell).ok()
    }

    /// Ends the command, as `broadcast_dropped` does.
    fn end(&self) {
        // SAFETY: loom checks that nobody reads it yet.
        self.result.with_mut(|result| unsafe { *result = 1 });
        if let Some(entry) = self.notify.close(false) {
            assert_eq!(entry.tag(), Tag::Observers);
            // SAFETY: as above.
            self.tell_all(&unsafe { self.observers.close() });
        }
    }

    fn times_told(&self, number: usize) -> u32 {
        self.told[number].load(Ordering::Relaxed)
    }
}

/// Two observe an event, neither of which is known to be the first, while it ends: each is told
/// once, and sees the command's writes.
#[test]
fn observers_against_an_end() {
    loom::model(|| {
        let event = Event::new();
        let others = [
            {
                let event = event.clone();
                thread::spawn(move || event.observe(0))
            },
            {
                let event = event.clone();
                thread::spawn(move || event.observe(1))
            },
        ];
        event.end();
        for other in others {
            other.join().unwrap();
        }
        assert_eq!([0, 1].map(|number| event.times_told(number)), [1, 1]);
        // SAFETY: nobody looks at it any more.
        unsafe { event.observers.free() };
    });
}

/// One observer is taken out again, and another added, while the event ends: the one is
/// told once at most, the other once.
#[test]
fn who_is_taken_out_is_told_once_at_most() {
    loom::model(|| {
        let event = Event::new();
        let key = event.observe(0).unwrap();
        let ender = {
            let event = event.clone();
            thread::spawn(move || event.end())
        };
        // SAFETY: the models keep their events.
        unsafe { event.observers.remove(key) };
        event.observe(1);
        ender.join().unwrap();
        assert!(event.times_told(0) <= 1);
        assert_eq!(event.times_told(1), 1);
        // SAFETY: nobody looks at it any more.
        unsafe { event.observers.free() };
    });
}

/// An observer that is taken out before the event ends is never told.
#[test]
fn who_was_taken_out_is_not_told() {
    loom::model(|| {
        let event = Event::new();
        let key = event.observe(0).unwrap();
        let other = {
            let event = event.clone();
            thread::spawn(move || event.observe(1))
        };
        // SAFETY: the models keep their events.
        unsafe { event.observers.remove(key) };
        event.end();
        other.join().unwrap();
        assert_eq!([0, 1].map(|number| event.times_told(number)), [0, 1]);
        // SAFETY: nobody looks at it any more.
        unsafe { event.observers.free() };
    });
}
