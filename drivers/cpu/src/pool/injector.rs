//! Injectors: lists of tasks from outside the pool's workers.

use super::Task;
use super::deque::{CAPACITY, Deque};
use quipu_scheduler::sync::{AtomicU64, Mutex, Ordering, lock};
use smallvec::SmallVec;
use std::collections::VecDeque;
use std::mem::ManuallyDrop;

/// Tasks that a worker takes from an injector at a time.
const SHARE: usize = CAPACITY.div_ceil(4);

/// Tasks from outside, about first in first out: a stack that any thread pushes to with one
/// exchange and that is taken as a whole, linked through the tasks themselves. Tasks that the
/// taker's deque does not hold go to a list of its own.
pub(super) struct Injector {
    pub(super) newest: AtomicU64,
    /// The number of tasks in `older`.
    waiting: AtomicU64,
    pub(super) older: Mutex<VecDeque<u64>>,
}

impl Injector {
    pub(super) fn new() -> Self {
        Self {
            newest: AtomicU64::new(0),
            waiting: AtomicU64::new(0),
            older: Mutex::new(VecDeque::new()),
        }
    }

    pub(super) fn push(&self, task: Task) {
        let word = Task::into_word(task);
        let mut head = self.newest.load(Ordering::Relaxed);
        loop {
            // Put together to be linked, not kept.
            // SAFETY: made above, and in no list yet; it is forgotten.
            ManuallyDrop::new(unsafe { Task::from_word(word) }).set_link(head);
            match self.newest.compare_exchange_weak(
                head,
                word,
                Ordering::Release,
                Ordering::Relaxed,
            ) {
                Ok(_) => return,
                Err(now) => head = now,
            }
        }
    }

    /// Pushes tasks, the first first.
    pub(super) fn push_many(&self, words: impl Iterator<Item = u64>) {
        let mut older = lock(&self.older);
        older.extend(words);
        self.waiting.store(older.len() as u64, Ordering::Relaxed);
    }

    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.newest.load(Ordering::Relaxed) == 0 && self.waiting.load(Ordering::Relaxed) == 0
    }

    /// Takes the oldest task, and puts others into `deque`, where thieves find
    /// them; if `one`, leaves them here. True with it if others were out of sight
    /// meanwhile: a worker may have looked for them in vain and fallen asleep.
    pub(super) fn take(&self, deque: &Deque, one: bool) -> Option<(Task, bool)> {
        if self.is_empty() {
            return None;
        }
        if self.waiting.load(Ordering::Relaxed) != 0 {
            let mut older = lock(&self.older);
            let first = older.pop_front();
            let more = if one { 0 } else { older.len().min(SHARE) };
            let words: Vec<u64> = older.drain(..more).collect();
            self.waiting.store(older.len() as u64, Ordering::Relaxed);
            drop(older);
            self.spread(&words, deque);
            if let Some(first) = first {
                // SAFETY: taken out of the older ones, under their lock.
                return Some((unsafe { Task::from_word(first) }, more > 0));
            }
        }
        let mut word = self.newest.swap(0, Ordering::Acquire);
        let mut words = SmallVec::<[u64; 64]>::new();
        while word != 0 {
            words.push(word);
            // Looked at, not taken yet.
            // SAFETY: the whole list is this thread's since the exchange; it is forgotten.
            word = ManuallyDrop::new(unsafe { Task::from_word(word) }).link();
        }
        words.reverse();
        let (first, rest) = words.split_first()?;
        let near = if one { 0 } else { rest.len().min(SHARE) };
        if near < rest.len() {
            let mut older = lock(&self.older);
            older.extend(&rest[near..]);
            self.waiting.store(older.len() as u64, Ordering::Relaxed);
        }
        self.spread(&rest[..near], deque);
        // SAFETY: of the list that was exchanged above; those after it are given to others.
        Some((unsafe { Task::from_word(*first) }, !rest.is_empty()))
    }

    /// Puts tasks, oldest first, into a deque; those that do not fit go back.
    fn spread(&self, words: &[u64], deque: &Deque) {
        // Pushed last first: the owner then takes them in order.
        for (index, word) in words.iter().enumerate().rev() {
            if !deque.push(*word) {
                let mut older = lock(&self.older);
                for word in words[..=index].iter().rev() {
                    older.push_front(*word);
                }
                self.waiting.store(older.len() as u64, Ordering::Relaxed);
                return;
            }
        }
    }
}

#[cfg(all(test, loom))]
mod models {
    use super::super::sleep::{Sleep, Workers};
    use super::*;
    use loom::sync::Arc;
    use quipu_scheduler::sync::fence;

    /// A task is handed in, in either way, while a worker falls asleep: the worker finds it in its
    /// last look, or is chosen.
    #[test]
    fn what_is_handed_in_is_not_slept_over() {
        for together in [false, true] {
            loom::model(move || {
                let sleep = Arc::new(Sleep::new());
                let injector = Arc::new(Injector::new());
                sleep.start_spinning();
                let maker = {
                    let (sleep, injector) = (sleep.clone(), injector.clone());
                    loom::thread::spawn(move || {
                        if together {
                            injector.push_many([Task::new(7).into_word()].into_iter());
                        } else {
                            injector.push(Task::new(7));
                        }
                        sleep.wake_one(&Workers::range(0..1));
                    })
                };
                sleep.announce(0);
                let found = injector.take(&Deque::new(), false);
                maker.join().unwrap();
                assert!(
                    found.is_some() || sleep.is_chosen(0),
                    "the task lies and the worker sleeps"
                );
                let task = found.or_else(|| injector.take(&Deque::new(), false));
                assert_eq!(task.unwrap().0.number(), 7);
            });
        }
    }

    /// A worker looks for the last time while a thread that takes one of two tasks has both in
    /// hands: it finds the other, or is chosen when that is put back.
    #[test]
    fn what_is_put_back_is_not_slept_over() {
        loom::model(|| {
            let sleep = Arc::new(Sleep::new());
            let injector = Arc::new(Injector::new());
            injector.push(Task::new(1));
            injector.push(Task::new(2));
            sleep.start_spinning();
            let guest = {
                let (sleep, injector) = (sleep.clone(), injector.clone());
                loom::thread::spawn(move || {
                    let taken = injector.take(&Deque::new(), true);
                    if taken.is_some_and(|(_, others)| others) {
                        // As `Pool::show_again` does it.
                        fence(Ordering::SeqCst);
                        if sleep.looking() == 0 {
                            sleep.wake_one(&Workers::range(0..1));
                        }
                    }
                })
            };
            sleep.announce(0);
            let found = injector.take(&Deque::new(), true).is_some();
            guest.join().unwrap();
            assert!(
                found || injector.is_empty() || sleep.is_chosen(0),
                "a task lies and the worker sleeps"
            );
            while injector.take(&Deque::new(), true).is_some() {}
        });
    }

    /// Two hand in while two take: every task comes out once, with all writes to it before it was
    /// handed in.
    #[test]
    fn every_task_is_taken_once() {
        loom::model(|| {
            let injector = Arc::new(Injector::new());
            let taken = |injector: &Injector| {
                let deque = Deque::new();
                let first = injector.take(&deque, false).map(|(task, _)| task);
                // SAFETY: a deque gives each word out once.
                let near =
                    std::iter::from_fn(|| deque.pop()).map(|word| unsafe { Task::from_word(word) });
                first
                    .into_iter()
                    .chain(near)
                    .map(|task| task.number())
                    .collect::<Vec<_>>()
            };
            let other = {
                let injector = injector.clone();
                loom::thread::spawn(move || {
                    injector.push(Task::new(1));
                    taken(&injector)
                })
            };
            injector.push(Task::new(2));
            injector.push(Task::new(3));
            let mut all = taken(&injector);
            all.extend(other.join().unwrap());
            while !injector.is_empty() {
                all.extend(taken(&injector));
            }
            all.sort_unstable();
            assert_eq!(all, [1, 2, 3]);
        });
    }
}
