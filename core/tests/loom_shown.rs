//! Models of looks at a slot that another command is given meanwhile (`core/base/src/shown.rs`): of
//! the files that production runs, as in `loom.rs`.
//!
//! `RUSTFLAGS="--cfg loom" cargo test -p quipu-scheduler --test loom_shown --release`
//!
//! Each of these changes was made to the file and made the model fail:
//!
//! | change |
//! |---|
//! | a word is stored or loaded with `Relaxed` |
//! | the list is not looked at before the words |
//! | it is not looked at after them |
#![cfg(loom)]
#![allow(
    missing_docs,
    unreachable_pub,
    dead_code,
    reason = "the files are modules of another crate here"
)]

/// The files know this as their crate's atomics.
mod sync {
    pub use loom::sync::atomic::{AtomicPtr, AtomicU64, Ordering};
}

#[path = "../base/src/limits.rs"]
mod limits;
#[path = "../base/src/notify.rs"]
mod notify;
#[path = "../base/src/shown.rs"]
mod shown;

use loom::sync::Arc;
use loom::thread;
use notify::NotifyList;
use shown::{Number, Reference, look_while_open};

static QUEUES: [u32; 3] = [0, 1, 2];

struct Slot {
    notify: NotifyList,
    sequence: Number,
    queue: Reference<u32>,
}

impl Slot {
    /// Gives the slot to the command of this generation.
    fn begin(&self, generation: u32) {
        self.queue.set(Some(&QUEUES[generation as usize]));
        self.sequence.set(u64::from(generation));
        self.notify.open(generation);
    }
}

/// A slot is given from one command to the next while a thread looks at either: it sees values of
/// that command.
#[test]
fn what_is_seen_is_of_the_event() {
    for generation in [1, 2] {
        loom::model(move || {
            let slot = Arc::new(Slot {
                notify: NotifyList::new(),
                sequence: Number::new(),
                queue: Reference::none(),
            });
            let looked_at = slot.clone();
            let looks = thread::spawn(move || {
                let slot = looked_at;
                let look = || (slot.queue.get().copied(), slot.sequence.get());
                if let Some(seen) = look_while_open(&slot.notify, generation, look) {
                    assert_eq!(seen, (Some(generation), u64::from(generation)));
                }
            });
            slot.begin(1);
            let _ = slot.notify.close(false);
            slot.begin(2);
            looks.join().unwrap();
        });
    }
}
