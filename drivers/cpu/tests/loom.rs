//! Models of the pool's protocols: the deque's hand-over, and falling asleep.
//!
//! `RUSTFLAGS="--cfg loom" cargo test -p quipu-driver-cpu --test loom --release`
//!
//! The protocols' files are compiled here once more, over loom's atomics: what
//! they know as `quipu_core::sync` is the module below. Most models are at the
//! end of those files.
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
//! | `Sleep::choose` does not look whether it took the bit | `retracting_and_choosing_agree` |
//! | `Sleep::retract` leaves itself counted as waking | `retracting_and_choosing_agree` |
//! | `Sleep::stop_spinning` without its fence, or never the last | `who_stops_looking_sees_to_the_rest` |
//! | who finds work in its last look passes nothing on, or only a wake | `who_stops_looking_sees_to_the_rest` |
#![cfg(loom)]
#![allow(
    missing_docs,
    unreachable_pub,
    dead_code,
    reason = "the files are modules of another crate here"
)]

// To the files below, this crate is the core.
extern crate self as quipu_core;

/// Loom's atomics in the place of the core's.
pub mod sync {
    pub use loom::sync::atomic::{AtomicU32, AtomicU64, Ordering, fence};

    /// As the core's where it is not one instruction: loom takes sequentially
    /// consistent operations for acquiring and releasing ones, but for fences.
    pub fn store_and_fence(cell: &AtomicU64, value: u64) {
        cell.store(value, Ordering::Release);
        fence(Ordering::SeqCst);
    }
}

#[path = "../src/pool/deque.rs"]
mod deque;
#[path = "../src/pool/sleep.rs"]
mod sleep;

use deque::{CAPACITY, Deque, Steal};
use loom::sync::Arc;

/// The owner pushes more than fits while a thief makes room: what was taken in
/// comes out once, nothing is overwritten before it was taken, and an emptied
/// deque takes items again.
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
