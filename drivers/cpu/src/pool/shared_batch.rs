//! The shared batch: long tasks that became ready together, to be taken one by one, each once.
//!
//! Many workers come for them in the same moment. From a ring each would take the first by an
//! exchange, which fails whenever another worker was quicker. Here each clears the bit of the task
//! that it takes, and mostly it is alone to want that one. A worker has the [habit](Habit) to begin
//! in the slot in which it began the last time: programs repeat themselves, so the task's data is
//! in that worker's cache. After its first task a worker takes the others in order: the longest of
//! them must not be last.
//!
//! The owner puts tasks on the shared batch only when none is left, and into empty slots only: a
//! worker that has taken a task empties its slot.

use quipu_scheduler::sync::{AtomicU64, Ordering};
use std::cell::Cell;

/// Tasks that fit.
#[cfg(not(loom))]
pub(crate) const SLOTS: usize = 64;
/// Tasks that fit, few enough to explore.
#[cfg(loom)]
pub(crate) const SLOTS: usize = 2;

/// See the module. Tasks are non-zero words.
pub(crate) struct SharedBatch {
    /// The slots of tasks that are left, a bit each.
    left: AtomicU64,
    /// The number of times that tasks were put there.
    times: AtomicU64,
    slots: Box<[AtomicU64]>,
}

/// The slot in which a worker begins when tasks were put on a shared batch: the one in which it
/// began the last time.
#[derive(Debug, Default)]
pub(crate) struct Habit {
    slot: Cell<u32>,
    /// The shared batch that it last took of, and the number of times that tasks had been put
    /// there.
    time: Cell<(usize, u64)>,
}

impl Habit {
    /// The slot to take of those that are left; true with it if it is the first one of this time.
    fn choose(&self, left: u64, time: (usize, u64), near: usize) -> (u32, bool) {
        let first = left.trailing_zeros();
        let begins = self.time.get() != time;
        let slot = self.slot.get();
        let is_near = slot >= first && ((slot - first) as usize) < near;
        if begins && is_near && left & 1 << slot != 0 {
            (slot, begins)
        } else {
            (first, begins)
        }
    }
}

impl SharedBatch {
    pub(crate) fn new() -> Self {
        Self {
            left: AtomicU64::new(0),
            times: AtomicU64::new(0),
            slots: (0..SLOTS).map(|_| AtomicU64::new(0)).collect(),
        }
    }

    /// The number of tasks.
    #[inline]
    pub(crate) fn len(&self) -> usize {
        self.left.load(Ordering::Relaxed).count_ones() as usize
    }

    /// Puts tasks there, the first one first, as many as fit. Gives their number: none while there
    /// are some. Owner only.
    pub(crate) fn put(&self, tasks: &[u64]) -> usize {
        let count = tasks.len().min(SLOTS);
        let slots = &self.slots[..count];
        let is_free = |slot: &AtomicU64| slot.load(Ordering::Relaxed) == 0;
        if count == 0 || self.len() > 0 || !slots.iter().all(is_free) {
            return 0;
        }
        for (slot, task) in slots.iter().zip(tasks) {
            slot.store(*task, Ordering::Relaxed);
        }
        let times = self.times.load(Ordering::Relaxed);
        self.times.store(times + 1, Ordering::Relaxed);
        self.left
            .fetch_or(u64::MAX >> (64 - count), Ordering::Release);
        count
    }

    /// Takes the first task, or one of the first `near`. Anyone.
    #[inline]
    pub(crate) fn take(&self, habit: &Habit, near: usize) -> Option<u64> {
        let mut left = self.left.load(Ordering::Acquire);
        while left != 0 {
            let times = self.times.load(Ordering::Relaxed);
            let time = (std::ptr::from_ref(self).addr(), times);
            let (slot, begins) = habit.choose(left, time, near);
            let bit = 1 << slot;
            if self.left.fetch_and(!bit, Ordering::AcqRel) & bit != 0 {
                if begins {
                    habit.slot.set(slot);
                    habit.time.set(time);
                }
                return Some(self.slots[slot as usize].swap(0, Ordering::Relaxed));
            }
            left = self.left.load(Ordering::Acquire);
        }
        None
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicBool, AtomicUsize};

    #[test]
    fn tasks_come_in_order_and_others_only_when_all_are_gone() {
        let (shared_batch, habit) = (SharedBatch::new(), Habit::default());
        let take = || shared_batch.take(&habit, 4);
        assert_eq!((shared_batch.len(), take()), (0, None));
        assert_eq!(shared_batch.put(&[]), 0);
        assert_eq!(shared_batch.put(&[1, 2]), 2);
        assert_eq!((shared_batch.len(), take()), (2, Some(1)));
        assert_eq!(shared_batch.put(&[7]), 0, "one is there");
        assert_eq!((take(), take()), (Some(2), None));
        let many: Vec<u64> = (1..=SLOTS as u64 + 1).collect();
        assert_eq!(shared_batch.put(&many), SLOTS);
        for task in &many[..SLOTS] {
            assert_eq!(take(), Some(*task));
        }
        assert_eq!(take(), None);
    }

    #[test]
    fn who_comes_again_begins_where_it_began_if_that_is_near() {
        let [one, other] = [SharedBatch::new(), SharedBatch::new()];
        let [early, late] = [Habit::default(), Habit::default()];
        let all = |shared_batch: &SharedBatch, near: usize, who: &[&Habit]| -> Vec<u64> {
            assert_eq!(shared_batch.put(&[1, 2, 3, 4]), 4);
            who.iter()
                .filter_map(|habit| shared_batch.take(habit, near))
                .collect()
        };
        assert_eq!(all(&one, 2, &[&early, &late, &late, &early]), [1, 2, 3, 4]);
        // Of whichever shared batch, and whoever comes first.
        assert_eq!(
            all(&other, 2, &[&late, &late, &early, &early]),
            [2, 1, 3, 4]
        );
        assert_eq!(
            all(&other, 2, &[&late, &early, &early, &early]),
            [2, 1, 3, 4]
        );
        assert_eq!(all(&one, 1, &[&late, &late, &late, &late]), [1, 2, 3, 4]);
    }

    #[test]
    fn every_task_is_taken_exactly_once() {
        const TASKS: u64 = 100_000;
        let shared_batch = SharedBatch::new();
        let taken: Vec<AtomicUsize> = (0..=TASKS).map(|_| AtomicUsize::new(0)).collect();
        let done = AtomicBool::new(false);
        let take = |habit: &Habit| {
            let task = shared_batch.take(habit, 3);
            if let Some(task) = task {
                taken[task as usize].fetch_add(1, Ordering::Relaxed);
            }
            task.is_some()
        };
        std::thread::scope(|scope| {
            for _ in 0..3 {
                scope.spawn(|| {
                    let habit = Habit::default();
                    while !done.load(Ordering::Acquire) || take(&habit) {
                        take(&habit);
                    }
                });
            }
            let habit = Habit::default();
            let mut next = 1;
            while next <= TASKS {
                let last = (next + next % 7).min(TASKS);
                let tasks: Vec<u64> = (next..=last).collect();
                next += shared_batch.put(&tasks) as u64;
                take(&habit);
            }
            while take(&habit) {}
            done.store(true, Ordering::Release);
        });
        for (task, count) in taken.iter().enumerate().skip(1) {
            assert_eq!(count.load(Ordering::Relaxed), 1, "task {task}");
        }
    }
}

#[cfg(all(test, loom))]
mod models {
    use super::*;
    use loom::sync::Arc;
    use loom::sync::atomic::AtomicUsize;

    /// While the owner takes tasks and puts others there, another takes some: each is taken once,
    /// and its taker sees all writes from before it was put there.
    #[test]
    fn every_task_is_had_once() {
        loom::model(|| {
            let shared_batch = Arc::new(SharedBatch::new());
            let written: Arc<[AtomicUsize; 4]> = Arc::default();
            let take = |shared_batch: &SharedBatch, written: &[AtomicUsize; 4], habit: &Habit| {
                let task = shared_batch.take(habit, SLOTS)?;
                assert_eq!(written[task as usize].load(Ordering::Relaxed), 7);
                Some(task)
            };
            let thief = {
                let (shared_batch, written) = (shared_batch.clone(), written.clone());
                loom::thread::spawn(move || {
                    let habit = Habit::default();
                    [(); 2].map(|()| take(&shared_batch, &written, &habit))
                })
            };
            let habit = Habit::default();
            let mut had = vec![];
            for tasks in [&[1][..], &[2, 3]] {
                for task in tasks {
                    written[*task as usize].store(7, Ordering::Relaxed);
                }
                let put = shared_batch.put(tasks);
                // Tasks that do not fit are the owner's own.
                had.extend(&tasks[put..]);
                had.extend(take(&shared_batch, &written, &habit));
            }
            had.extend(thief.join().unwrap().into_iter().flatten());
            while let Some(task) = shared_batch.take(&habit, 1) {
                had.push(task);
            }
            had.sort_unstable();
            assert_eq!(had, [1, 2, 3]);
        });
    }
}
