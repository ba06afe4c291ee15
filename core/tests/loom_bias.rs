//! Models of a lock that is one thread's until another comes (`core/base/src/bias.rs`): of the file
//! that production runs, as in `loom.rs`.
//!
//! `RUSTFLAGS="--cfg loom" cargo test -p quipu-scheduler --test loom_bias --release`
//!
//! The fence that costs nothing is a full one here, and so is the other. The protocol needs of the
//! first only that it keeps a store before a load: the raised flag publishes nothing else.
//!
//! Each of these changes was made to the file and made the model named fail:
//!
//! | change | fails |
//! |---|---|
//! | `enter` has no fence, or looks before it raises the flag | `nobody_is_inside_with_the_owner` |
//! | `enter` does not look again | `nobody_is_inside_with_the_owner` |
//! | the revoking thread has no fence | `nobody_is_inside_with_the_owner` |
//! | the revoking thread does not wait for the flag | `nobody_is_inside_with_the_owner` |
//! | `exit` lowers the flag with `Relaxed` | `nobody_is_inside_with_the_owner` |
//! | it is said to be shared before the flag is down | `who_comes_third_waits_too` |
//! | that it is shared is stored or loaded with `Relaxed` | `who_comes_third_waits_too` |
//! | two become owners, by a load and a store | `one_of_two_owns_it` |
#![cfg(loom)]
#![allow(
    missing_docs,
    unreachable_pub,
    dead_code,
    reason = "the file is a module of another crate here"
)]

/// The file knows this as its crate's atomics and fences.
mod sync {
    pub use loom::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
    pub use loom::thread::yield_now;
    use std::cell::Cell;

    #[derive(Default)]
    pub struct Backoff;

    impl Backoff {
        pub fn pause(&mut self) {
            yield_now();
        }
    }

    loom::thread_local! {
        pub static NUMBER: Cell<usize> = Cell::new(0);
    }

    pub fn this_thread() -> usize {
        NUMBER.with(Cell::get)
    }

    pub fn asymmetric_fences_are_supported() -> bool {
        true
    }

    pub fn light_fence() {
        loom::sync::atomic::fence(Ordering::SeqCst);
    }

    pub fn heavy_fence() {
        loom::sync::atomic::fence(Ordering::SeqCst);
    }
}

#[path = "../base/src/bias.rs"]
mod bias;

use bias::Bias;
use loom::cell::UnsafeCell;
use loom::sync::Arc;
use loom::thread;
use sync::{AtomicBool, NUMBER, Ordering};

/// A count under a lock that is one thread's first, as a tracker is in `core/src/memory/mod.rs`.
struct Count {
    bias: Bias,
    locked: AtomicBool,
    count: UnsafeCell<u32>,
}

impl Count {
    fn new() -> Arc<Self> {
        Arc::new(Self {
            bias: Bias::new(),
            locked: AtomicBool::new(false),
            count: UnsafeCell::new(0),
        })
    }

    /// Counts one more; true if it was as the owner.
    fn add(&self) -> bool {
        let owned = self.bias.enter();
        let lock = || {
            self.locked
                .compare_exchange(false, true, Ordering::Acquire, Ordering::Relaxed)
        };
        while !owned && lock().is_err() {
            thread::yield_now();
        }
        // SAFETY: loom checks that nobody else is at it.
        self.count.with_mut(|count| unsafe { *count += 1 });
        if self.locked.load(Ordering::Relaxed) {
            self.locked.store(false, Ordering::Release);
        } else {
            self.bias.exit();
        }
        owned
    }

    fn get(&self) -> u32 {
        // SAFETY: as above.
        self.count.with(|count| unsafe { *count })
    }
}

/// A thread that is known by this number, and counts so often.
fn counting(number: usize, times: u32, count: &Arc<Count>) -> thread::JoinHandle<u32> {
    let count = count.clone();
    thread::spawn(move || {
        NUMBER.with(|own| own.set(number));
        (0..times).map(|_| u32::from(count.add())).sum()
    })
}

/// The owner goes in and out while another comes.
#[test]
fn nobody_is_inside_with_the_owner() {
    loom::model(|| {
        let count = Count::new();
        NUMBER.with(|own| own.set(8));
        assert!(count.add(), "the first owns it");
        let other = counting(16, 1, &count);
        count.add();
        count.add();
        assert_eq!(other.join().unwrap(), 0, "the second does not");
        assert_eq!(count.get(), 4);
        assert!(!count.add(), "nor does the first any more");
    });
}

/// Two others come while the owner is inside.
#[test]
fn who_comes_third_waits_too() {
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(2);
    model.max_branches = 10_000;
    model.check(|| {
        let count = Count::new();
        NUMBER.with(|own| own.set(8));
        assert!(count.add());
        let others = [counting(16, 1, &count), counting(24, 1, &count)];
        count.add();
        let owned: u32 = others.map(|other| other.join().unwrap()).iter().sum();
        assert_eq!(owned, 0);
        assert_eq!(count.get(), 4);
    });
}

/// Two come at once, and nobody was there before.
#[test]
fn one_of_two_owns_it() {
    loom::model(|| {
        let count = Count::new();
        let other = counting(16, 1, &count);
        NUMBER.with(|own| own.set(8));
        count.add();
        other.join().unwrap();
        assert_eq!(count.get(), 2);
    });
}
