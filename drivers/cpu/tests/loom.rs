//! Models of the pool's protocols: the hand-over of the deque, the shared batch and the injector,
//! the participants of a shared launch and their groups, and falling asleep.
//!
//! `RUSTFLAGS="--cfg loom" cargo test -p quipu-driver-cpu --test loom --release`
//!
//! The protocols' files are compiled here once more, over loom's atomics: the module below is their
//! `quipu_scheduler::sync`. Most models are at the end of those files.
//!
//! Each of these changes was made, and made the model named fail:
//!
//! | change | fails |
//! |---|---|
//! | `Deque::push` stores `bottom` with `Relaxed` | `the_last_items_are_taken_once` |
//! | `Deque::pop` stores the lowered `bottom` with `Relaxed` | `the_last_items_are_taken_once` |
//! | `Deque::pop` without its fence | `the_last_items_are_taken_once` |
//! | `Deque::pop` takes the last item without competing | `the_last_items_are_taken_once` |
//! | `Deque::pop` does not restore `bottom` | `a_full_ring_overwrites_nothing` |
//! | `Deque::push` lets one item too many in | `a_full_ring_overwrites_nothing` |
//! | `Deque::steal` without its fence | `the_last_items_are_taken_once` |
//! | `Deque::steal` loads `bottom` with `Relaxed` | `the_last_items_are_taken_once` |
//! | `Sleep::announce` without its fence | `no_wake_is_lost` |
//! | `Sleep::announce` stops spinning before it joins the sleepers | `no_wake_is_lost` |
//! | `Sleep::wake_one` without its fence | `no_wake_is_lost` |
//! | `Sleep::wake_unless_somebody_looks` without its fence | `who_is_being_woken_is_counted_on` |
//! | `Worker::see_to_surplus` without its fence | `what_lies_beside_a_running_command_is_not_slept_over` |
//! | a worker that was woken and finds a task passes nothing on | `who_is_being_woken_sees_to_the_rest` |
//! | `Sleep::choose` does not look whether it took the bit | `retracting_and_choosing_agree` |
//! | `Sleep::retract` leaves itself counted as waking | `retracting_and_choosing_agree` |
//! | `Sleep::stop_spinning` without its fence, or never the last | `who_stops_looking_sees_to_the_rest` |
//! | a worker that finds work in its last look passes nothing on, or only a wake | `who_stops_looking_sees_to_the_rest` |
//! | `Invitation::accept` or `withdraw` stores instead of comparing | `every_word_is_had_by_as_many_as_were_invited` |
//! | `Invitation::accept` reads the word when it has come | `every_word_is_had_by_as_many_as_were_invited` |
//! | `Invitation::open` stores with `Relaxed` | `every_word_is_had_by_as_many_as_were_invited` |
//! | `Parts::fill` stores, or `Parts::take` does | `every_group_is_claimed_once` |
//! | `SharedBatch::put` adds with `Relaxed`, or does not look whether the slots are empty | `every_task_is_had_once` |
//! | `SharedBatch::take` takes away with `Relaxed`, or after it has looked | `every_task_is_had_once` |
//! | `Injector::push` exchanges with `Relaxed` | `every_task_is_taken_once` |
//! | `Injector::push` exchanges again without linking anew | `every_task_is_taken_once` |
//! | `Injector::take` swaps with `Relaxed`, or loads and stores | `every_task_is_taken_once` |
//! | `Injector::take` does not tell what it puts into `older` | `every_task_is_taken_once` |
//! | `Injector::take` does not say that others were out of sight | `what_is_put_back_is_not_slept_over` |
//! | a worker that puts tasks back does not fence before it looks for workers that look | `what_is_put_back_is_not_slept_over` |
//! | `Injector::is_empty` looks at `newest` alone | `what_is_handed_in_is_not_slept_over` |
//! | `Injector::push_many` does not tell of what it adds | `what_is_handed_in_is_not_slept_over` |
//!
//! One property no model here can test: a worker that comes to an invitation has read its word
//! before the owner writes the next (the orderings of `Invitation::next` and of the exchange in
//! `accept`). Loom lets no load see a later store.
#![cfg(loom)]
#![allow(
    missing_docs,
    unreachable_pub,
    dead_code,
    reason = "the files are modules of another crate here"
)]

// To the files below, this crate is the core.
extern crate self as quipu_scheduler;

/// Loom's atomics in the place of the core's.
pub mod sync {
    pub use loom::sync::atomic::{AtomicU32, AtomicU64, Ordering, fence};
    pub use loom::sync::{Mutex, MutexGuard};

    pub fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
        mutex.lock().unwrap()
    }

    /// As the core's where it is not one instruction: loom takes sequentially
    /// consistent operations for acquiring and releasing ones, but for fences.
    pub fn store_and_fence(cell: &AtomicU64, value: u64) {
        cell.store(value, Ordering::Release);
        fence(Ordering::SeqCst);
    }
}

#[path = "../src/pool/deque.rs"]
mod deque;
#[path = "../src/pool/injector.rs"]
mod injector;
#[path = "../src/pool/invitation.rs"]
mod invitation;
#[path = "../src/pool/parts.rs"]
mod parts;
#[path = "../src/pool/shared_batch.rs"]
mod shared_batch;
#[path = "../src/pool/sleep.rs"]
mod sleep;

use deque::{CAPACITY, Deque, Steal};
use loom::cell::UnsafeCell;
use loom::sync::Arc;

/// A task, to the injector: loom checks that each thread that looks at it may.
struct Task(Box<Inside>);

struct Inside {
    link: UnsafeCell<u64>,
    number: UnsafeCell<u32>,
}

impl Task {
    fn new(number: u32) -> Self {
        Self(Box::new(Inside {
            link: UnsafeCell::new(0),
            number: UnsafeCell::new(number),
        }))
    }

    fn number(&self) -> u32 {
        // SAFETY: loom checks that nobody else touches it.
        self.0.number.with_mut(|number| unsafe { *number })
    }

    fn into_word(self) -> u64 {
        Box::into_raw(self.0).expose_provenance() as u64
    }

    unsafe fn from_word(word: u64) -> Self {
        let inside = std::ptr::with_exposed_provenance_mut(word as usize);
        // SAFETY: made by `into_word`, and the caller's.
        Self(unsafe { Box::from_raw(inside) })
    }

    fn set_link(&self, link: u64) {
        // SAFETY: loom checks that nobody else touches it.
        self.0.link.with_mut(|place| unsafe { *place = link });
    }

    fn link(&self) -> u64 {
        // SAFETY: as above.
        self.0.link.with(|link| unsafe { *link })
    }
}

/// The owner pushes more items than fit while a thief makes room: each item that was taken in comes
/// out once, nothing is overwritten before it was taken, and an emptied deque takes items again.
#[test]
fn a_full_ring_overwrites_nothing() {
    loom::model(|| {
        let deque = Arc::new(Deque::new());
        let thief = {
            let deque = deque.clone();
            loom::thread::spawn(move || match deque.steal() {
                Steal::Item(item) => Some(item),
                _ => None,
            })
        };
        let items = 1..=CAPACITY as u64 + 1;
        let mut pushed: Vec<u64> = items.filter(|item| deque.push(*item)).collect();
        let mut taken: Vec<u64> = std::iter::from_fn(|| deque.pop()).collect();
        assert!(deque.push(99));
        pushed.push(99);
        taken.extend(deque.pop());
        taken.extend(thief.join().unwrap());
        taken.sort_unstable();
        pushed.sort_unstable();
        assert_eq!(taken, pushed);
        assert!(pushed.len() >= CAPACITY);
    });
}
