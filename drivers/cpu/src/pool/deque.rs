//! A worker's deque: its owner pushes and pops at one end, thieves take from
//! the other.
//!
//! The algorithm is Chase and Lev's ("Dynamic Circular Work-Stealing Deque", SPAA 2005) with the
//! orderings of Lê, Pop, Cohen and Zappa Nardelli ("Correct and Efficient Work-Stealing for Weak
//! Memory Models", PPoPP 2013). The ring does not grow: items that do not fit go to the pool's
//! injector, which all workers reach. Long items that come together may be *shared* instead, on a
//! [shared batch](SharedBatch) beside the ring, where thieves do not fail for each other.
//!
//! Hand-over: an item is pushed with a releasing store of `bottom` and taken after an acquiring
//! load of it, so the thief sees all writes of the pusher to the item before that. Of the owner and
//! the thieves exactly one gets each item of the ring: they compete for it by the exchange of
//! `top`.

use super::shared_batch::{Habit, SharedBatch};
use quipu_scheduler::sync::{AtomicU64, Ordering, fence, store_and_fence};

/// Items that fit.
#[cfg(not(loom))]
pub(crate) const CAPACITY: usize = 1024;
/// Items that fit, small enough to explore.
#[cfg(loom)]
pub(crate) const CAPACITY: usize = 2;

/// The outcome of a theft.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Steal {
    /// Nothing to take.
    Empty,
    /// Another thread was faster; there may be more.
    Retry,
    /// An item.
    Item(u64),
}

/// See the module. Items are non-zero words.
pub(crate) struct Deque {
    top: Padded<AtomicU64>,
    bottom: Padded<AtomicU64>,
    shared_batch: Padded<SharedBatch>,
    ring: Box<[AtomicU64]>,
}

/// A value on a cache line of its own.
#[repr(align(128))]
struct Padded<T>(T);

impl Deque {
    pub(crate) fn new() -> Self {
        Self {
            // Indices start at one, so that `bottom - 1` never wraps.
            top: Padded(AtomicU64::new(1)),
            bottom: Padded(AtomicU64::new(1)),
            shared_batch: Padded(SharedBatch::new()),
            ring: (0..CAPACITY).map(|_| AtomicU64::new(0)).collect(),
        }
    }

    fn cell(&self, index: u64) -> &AtomicU64 {
        &self.ring[index as usize % CAPACITY]
    }

    /// Pushes an item; false if the ring is full. Owner only.
    #[inline]
    pub(crate) fn push(&self, item: u64) -> bool {
        let bottom = self.bottom.0.load(Ordering::Relaxed);
        let top = self.top.0.load(Ordering::Acquire);
        if bottom - top >= CAPACITY as u64 {
            return false;
        }
        self.cell(bottom).store(item, Ordering::Relaxed);
        self.bottom.0.store(bottom + 1, Ordering::Release);
        true
    }

    /// Pushes items, the first one first, as many as fit, and shows them to thieves together; gives
    /// their number. Owner only.
    #[inline]
    pub(crate) fn push_all(&self, items: &[u64]) -> usize {
        let bottom = self.bottom.0.load(Ordering::Relaxed);
        let top = self.top.0.load(Ordering::Acquire);
        let fit = items.len().min(CAPACITY - (bottom - top) as usize);
        for (index, item) in (bottom..).zip(&items[..fit]) {
            self.cell(index).store(*item, Ordering::Relaxed);
        }
        self.bottom.0.store(bottom + fit as u64, Ordering::Release);
        fit
    }

    /// Shares items, the first one first, and pushes those that do not fit there; gives the number
    /// that it took. Owner only.
    pub(crate) fn share(&self, items: &[u64]) -> usize {
        let shared = self.shared_batch.0.put(items);
        shared + self.push_all(&items[shared..])
    }

    /// Takes an item that is shared: the first, or by habit one of the first `near`. Anyone.
    #[inline]
    pub(crate) fn take_shared(&self, habit: &Habit, near: usize) -> Option<u64> {
        self.shared_batch.0.take(habit, near)
    }

    /// Takes the item pushed last. Owner only.
    #[inline]
    pub(crate) fn pop(&self) -> Option<u64> {
        let bottom = self.bottom.0.load(Ordering::Relaxed);
        // Nothing there, and nobody but us adds: no fence needed to know it.
        if self.top.0.load(Ordering::Relaxed) >= bottom {
            return None;
        }
        let last = bottom - 1;
        // Releasing, as the push was: a thief may see this value instead. And
        // it must see that this item is being taken, or we its theft.
        store_and_fence(&self.bottom.0, last);
        let top = self.top.0.load(Ordering::SeqCst);
        if top < last {
            return Some(self.cell(last).load(Ordering::Relaxed));
        }
        // At most one is left: compete for it with the thieves.
        let won = top == last
            && self
                .top
                .0
                .compare_exchange(top, top + 1, Ordering::SeqCst, Ordering::Relaxed)
                .is_ok();
        self.bottom.0.store(bottom, Ordering::Release);
        won.then(|| self.cell(last).load(Ordering::Relaxed))
    }

    /// As [`Deque::pop`], without its fence. Owner only, of a deque that nobody else takes of.
    #[inline]
    pub(crate) fn pop_unshared(&self) -> Option<u64> {
        let bottom = self.bottom.0.load(Ordering::Relaxed);
        if self.top.0.load(Ordering::Relaxed) >= bottom {
            return None;
        }
        let last = bottom - 1;
        self.bottom.0.store(last, Ordering::Relaxed);
        Some(self.cell(last).load(Ordering::Relaxed))
    }

    /// Takes the item pushed first. Anyone.
    pub(crate) fn steal(&self) -> Steal {
        let top = self.top.0.load(Ordering::Acquire);
        fence(Ordering::SeqCst);
        let bottom = self.bottom.0.load(Ordering::Acquire);
        if top >= bottom {
            return Steal::Empty;
        }
        let item = self.cell(top).load(Ordering::Relaxed);
        if self
            .top
            .0
            .compare_exchange(top, top + 1, Ordering::SeqCst, Ordering::Relaxed)
            .is_ok()
        {
            Steal::Item(item)
        } else {
            Steal::Retry
        }
    }

    /// The number of items, about.
    #[inline]
    pub(crate) fn len(&self) -> usize {
        let bottom = self.bottom.0.load(Ordering::Relaxed);
        let top = self.top.0.load(Ordering::Relaxed);
        bottom.saturating_sub(top) as usize + self.shared_batch.0.len()
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::super::shared_batch::SLOTS;
    use super::*;
    use std::sync::atomic::AtomicUsize;

    #[test]
    fn the_owner_takes_the_last_and_thieves_the_first() {
        let deque = Deque::new();
        for item in 1..=3 {
            assert!(deque.push(item));
        }
        assert_eq!(deque.steal(), Steal::Item(1));
        assert_eq!(deque.pop(), Some(3));
        assert_eq!(deque.pop(), Some(2));
        assert_eq!(deque.pop(), None);
        assert_eq!(deque.steal(), Steal::Empty);
    }

    #[test]
    fn a_full_ring_refuses() {
        let deque = Deque::new();
        for item in 0..CAPACITY as u64 {
            assert!(deque.push(item + 1));
        }
        assert!(!deque.push(7));
        assert_eq!(deque.steal(), Steal::Item(1));
        assert!(deque.push(7));
        assert_eq!(deque.pop(), Some(7));
    }

    #[test]
    fn items_pushed_together_come_in_order_and_as_many_as_fit() {
        let deque = Deque::new();
        assert_eq!(deque.push_all(&[]), 0);
        assert_eq!(deque.push_all(&[1, 2, 3]), 3);
        assert_eq!(deque.steal(), Steal::Item(1));
        assert_eq!(deque.pop(), Some(3));
        let many: Vec<u64> = (10..10 + CAPACITY as u64).collect();
        assert_eq!(deque.push_all(&many), CAPACITY - 1, "one was there");
        assert_eq!(deque.push_all(&[7]), 0);
        assert!(!deque.push(7));
        assert_eq!(deque.pop(), Some(10 + CAPACITY as u64 - 2));
        assert_eq!(deque.steal(), Steal::Item(2));
        assert_eq!(deque.steal(), Steal::Item(10));
    }

    #[test]
    fn what_is_not_shared_is_pushed() {
        let deque = Deque::new();
        let take_shared = || deque.take_shared(&Habit::default(), 1);
        assert_eq!(deque.share(&[1, 2]), 2);
        assert_eq!((deque.steal(), deque.pop()), (Steal::Empty, None));
        assert_eq!((deque.len(), take_shared()), (2, Some(1)));
        assert_eq!(deque.share(&[7]), 1, "one is in the shared batch");
        assert_eq!(deque.len(), 2);
        assert_eq!((take_shared(), deque.pop()), (Some(2), Some(7)));
        let many: Vec<u64> = (1..=(SLOTS + CAPACITY + 1) as u64).collect();
        assert_eq!(deque.share(&many), SLOTS + CAPACITY);
        for item in &many[..SLOTS] {
            assert_eq!(take_shared(), Some(*item));
        }
        assert_eq!(take_shared(), None);
        for item in &many[SLOTS..SLOTS + CAPACITY] {
            assert_eq!(deque.steal(), Steal::Item(*item));
        }
        assert_eq!(deque.len(), 0);
    }

    #[test]
    fn every_item_is_taken_exactly_once() {
        const ITEMS: u64 = 200_000;
        let deque = Deque::new();
        let taken: Vec<AtomicUsize> = (0..=ITEMS).map(|_| AtomicUsize::new(0)).collect();
        let done = std::sync::atomic::AtomicBool::new(false);
        std::thread::scope(|scope| {
            for _ in 0..2 {
                scope.spawn(|| {
                    while !done.load(Ordering::Acquire) || deque.len() > 0 {
                        if let Steal::Item(item) = deque.steal() {
                            taken[item as usize].fetch_add(1, Ordering::Relaxed);
                        }
                    }
                });
            }
            let mut next = 1;
            while next <= ITEMS {
                if next % 5 == 0 {
                    let items = [next, next + 1, next + 2].map(|item| item.min(ITEMS));
                    let some = ((ITEMS + 1 - next) as usize).min(3);
                    next += deque.push_all(&items[..some]) as u64;
                } else if deque.push(next) {
                    next += 1;
                }
                if next % 3 == 0
                    && let Some(item) = deque.pop()
                {
                    taken[item as usize].fetch_add(1, Ordering::Relaxed);
                }
            }
            while let Some(item) = deque.pop() {
                taken[item as usize].fetch_add(1, Ordering::Relaxed);
            }
            done.store(true, Ordering::Release);
        });
        for (item, count) in taken.iter().enumerate().skip(1) {
            assert_eq!(count.load(Ordering::Relaxed), 1, "item {item}");
        }
    }
}

#[cfg(all(test, loom))]
mod models {
    use super::*;
    use loom::sync::Arc;
    use loom::sync::atomic::AtomicUsize;

    /// The owner and a thief compete for the last items: each is taken once, and the taker sees the
    /// writes of its pusher before the push.
    #[test]
    fn the_last_items_are_taken_once() {
        loom::model(|| {
            let deque = Arc::new(Deque::new());
            let written = Arc::new([
                AtomicUsize::new(0),
                AtomicUsize::new(0),
                AtomicUsize::new(0),
            ]);
            let thief = {
                let (deque, written) = (deque.clone(), written.clone());
                loom::thread::spawn(move || {
                    let mut got = Vec::new();
                    for _ in 0..2 {
                        if let Steal::Item(item) = deque.steal() {
                            assert_eq!(written[item as usize].load(Ordering::Relaxed), 7);
                            got.push(item);
                        }
                    }
                    got
                })
            };
            let mut mine = Vec::new();
            for item in 1..=2 {
                written[item as usize].store(7, Ordering::Relaxed);
                assert!(deque.push(item));
            }
            mine.extend(deque.pop());
            mine.extend(deque.pop());
            let theirs = thief.join().unwrap();
            mine.extend(theirs);
            mine.extend(deque.pop());
            mine.sort_unstable();
            assert_eq!(mine, [1, 2]);
        });
    }

    /// As above, of items that are pushed together.
    #[test]
    fn items_pushed_together_are_taken_once() {
        loom::model(|| {
            let deque = Arc::new(Deque::new());
            let written = Arc::new([AtomicUsize::new(0), AtomicUsize::new(0)]);
            let thief = {
                let (deque, written) = (deque.clone(), written.clone());
                loom::thread::spawn(move || match deque.steal() {
                    Steal::Item(item) => {
                        assert_eq!(written[item as usize - 1].load(Ordering::Relaxed), 7);
                        Some(item)
                    }
                    _ => None,
                })
            };
            for place in &*written {
                place.store(7, Ordering::Relaxed);
            }
            assert_eq!(deque.push_all(&[1, 2]), 2);
            let mut mine: Vec<u64> = deque.pop().into_iter().collect();
            mine.extend(deque.pop());
            mine.extend(thief.join().unwrap());
            mine.extend(deque.pop());
            mine.sort_unstable();
            assert_eq!(mine, [1, 2]);
        });
    }
}
