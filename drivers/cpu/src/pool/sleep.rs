//! Sleep and wake-up of workers: no work is left lying, and a pool without work
//! spends no time.
//!
//! Waking a sleeping thread costs the waker time, and takes longer still; finding a spinning one
//! costs nothing. So a worker without work spins for a while before it sleeps, and a thread that
//! adds work looks for a spinning worker before it wakes one.
//!
//! Protocol:
//!
//! 1. A worker without work counts itself as *spinning* and looks for work a
//!    bounded number of times.
//! 2. It then adds itself to the set of sleepers and stops counting as spinning
//!    ([`Sleep::announce`], which ends in a fence), and looks *once more*.
//! 3. If it finds nothing it parks until its own flag says it was chosen. If it
//!    finds something it takes itself out again ([`Sleep::retract`]).
//! 4. A thread that adds work does so first, then fences, then looks for spinners and sleepers
//!    ([`Sleep::wake_one`]). Either it sees the sleeper, or the sleeper sees the work in its last
//!    look. A thread that has taken tasks out of sight does the same when it has put them back,
//!    since others may have looked for the last time meanwhile. A worker that puts tasks into its
//!    own deque does the same before it runs the next task, which may block.
//! 5. A worker that stops looking, for it found work or has something else to do, wakes another if
//!    there may be more: perhaps no worker was woken because this one looked. A worker that found
//!    work in its last look does so too.

use quipu_scheduler::sync::{AtomicU32, AtomicU64, Ordering, fence};

/// The most workers that a pool can have: one bit each.
pub(crate) const MAX_WORKERS: usize = 64 * WORDS;
const WORDS: usize = 4;

/// The workers that sleep, and the number of those that spin.
pub(crate) struct Sleep {
    sleepers: [AtomicU64; WORDS],
    spinning: AtomicU32,
    /// Workers that were chosen and have not come back yet.
    waking: AtomicU32,
}

impl Sleep {
    pub(crate) fn new() -> Self {
        Self {
            sleepers: std::array::from_fn(|_| AtomicU64::new(0)),
            spinning: AtomicU32::new(0),
            waking: AtomicU32::new(0),
        }
    }

    /// Starts to spin.
    pub(crate) fn start_spinning(&self) {
        self.spinning.fetch_add(1, Ordering::SeqCst);
    }

    /// Stops spinning with something to do; true if this was the last spinner, which should look
    /// for more tasks. It sees all tasks for which no worker was woken.
    pub(crate) fn stop_spinning(&self) -> bool {
        let was_last = self.spinning.fetch_sub(1, Ordering::SeqCst) == 1;
        if was_last {
            fence(Ordering::SeqCst);
        }
        was_last
    }

    /// Joins the sleepers and stops spinning. The caller looks for work once
    /// more before it parks.
    pub(crate) fn announce(&self, worker: usize) {
        self.sleepers[worker / 64].fetch_or(1 << (worker % 64), Ordering::SeqCst);
        self.spinning.fetch_sub(1, Ordering::SeqCst);
        fence(Ordering::SeqCst);
    }

    /// Leaves the sleepers; false if the worker was chosen meanwhile, in which
    /// case its being chosen is used up by this. It then sees all that nobody was woken for.
    pub(crate) fn retract(&self, worker: usize) -> bool {
        let bit = 1 << (worker % 64);
        let retracted = self.sleepers[worker / 64].fetch_and(!bit, Ordering::SeqCst) & bit != 0;
        if !retracted {
            self.awake();
        }
        fence(Ordering::SeqCst);
        retracted
    }

    /// True if the worker was chosen to wake.
    pub(crate) fn is_chosen(&self, worker: usize) -> bool {
        self.sleepers[worker / 64].load(Ordering::SeqCst) & (1 << (worker % 64)) == 0
    }

    /// A chosen worker is back.
    pub(crate) fn awake(&self) {
        self.waking.fetch_sub(1, Ordering::SeqCst);
    }

    /// True if a worker looks for work.
    #[inline]
    pub(crate) fn someone_spins(&self) -> bool {
        self.spinning.load(Ordering::Relaxed) != 0
    }

    /// The number of workers that look for work already, or are about to.
    #[inline]
    pub(crate) fn looking(&self) -> usize {
        let looking = self.spinning.load(Ordering::Relaxed) + self.waking.load(Ordering::Relaxed);
        looking as usize
    }

    /// True if a worker sleeps.
    #[inline]
    pub(crate) fn someone_sleeps(&self) -> bool {
        self.sleepers
            .iter()
            .any(|word| word.load(Ordering::Relaxed) != 0)
    }

    /// The number of workers that sleep, or were chosen and are not back yet.
    pub(crate) fn asleep_or_waking(&self) -> usize {
        self.asleep() + self.waking.load(Ordering::Relaxed) as usize
    }

    /// The number of workers that sleep.
    pub(crate) fn asleep(&self) -> usize {
        let asleep: u32 = self
            .sleepers
            .iter()
            .map(|word| word.load(Ordering::SeqCst).count_ones())
            .sum();
        asleep as usize
    }

    /// Called after work was added: chooses a sleeper among `allowed` to be unparked, unless a
    /// worker already looks for work.
    pub(crate) fn wake_one(&self, allowed: &Workers) -> Option<usize> {
        fence(Ordering::SeqCst);
        if self.spinning.load(Ordering::SeqCst) != 0 {
            return None;
        }
        self.choose(allowed)
    }

    /// Called after work was added: as [`wake_one`](Self::wake_one), but not while a worker is
    /// being woken, which will look.
    pub(crate) fn wake_unless_somebody_looks(&self, allowed: &Workers) -> Option<usize> {
        fence(Ordering::SeqCst);
        if self.looking() != 0 {
            return None;
        }
        self.choose(allowed)
    }

    /// Chooses a sleeper even if a worker looks for work.
    pub(crate) fn choose(&self, allowed: &Workers) -> Option<usize> {
        for (index, word) in self.sleepers.iter().enumerate() {
            let mut bits = word.load(Ordering::SeqCst) & allowed.0[index];
            while bits != 0 {
                let bit = bits & bits.wrapping_neg();
                // Counted before the bit goes: the sleeper may be quick.
                self.waking.fetch_add(1, Ordering::SeqCst);
                if word.fetch_and(!bit, Ordering::SeqCst) & bit != 0 {
                    return Some(index * 64 + bit.trailing_zeros() as usize);
                }
                self.waking.fetch_sub(1, Ordering::SeqCst);
                bits &= !bit;
            }
        }
        None
    }
}

/// A set of workers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Workers([u64; WORDS]);

impl Workers {
    pub(crate) fn range(range: std::ops::Range<usize>) -> Self {
        let mut words = [0; WORDS];
        for worker in range {
            words[worker / 64] |= 1 << (worker % 64);
        }
        Self(words)
    }

    #[inline]
    pub(crate) fn contains(&self, worker: usize) -> bool {
        self.0[worker / 64] & (1 << (worker % 64)) != 0
    }
}

#[cfg(all(test, loom))]
mod models {
    use super::super::deque::{Deque, Steal};
    use super::*;
    use loom::sync::Arc;
    use loom::sync::atomic::{AtomicBool, AtomicU32};

    /// Work is added while a worker falls asleep: the worker finds it in its
    /// last look, or is chosen. Never neither.
    #[test]
    fn no_wake_is_lost() {
        loom::model(|| {
            let sleep = Arc::new(Sleep::new());
            let work = Arc::new(AtomicU32::new(0));
            let chosen = Arc::new(AtomicBool::new(false));
            sleep.start_spinning();
            let maker = {
                let (sleep, work, chosen) = (sleep.clone(), work.clone(), chosen.clone());
                loom::thread::spawn(move || {
                    work.store(1, Ordering::Relaxed);
                    if sleep.wake_one(&Workers::range(0..1)).is_some() {
                        chosen.store(true, Ordering::SeqCst);
                    }
                })
            };
            // The worker's last bounded look found nothing; it announces.
            sleep.announce(0);
            let found = work.load(Ordering::Relaxed) == 1;
            maker.join().unwrap();
            assert!(
                found || chosen.load(Ordering::SeqCst),
                "the work lies and the worker sleeps"
            );
        });
    }

    /// A worker that finds work after announcing leaves the set exactly once,
    /// whether or not it is chosen at the same time.
    #[test]
    fn retracting_and_choosing_agree() {
        loom::model(|| {
            let sleep = Arc::new(Sleep::new());
            sleep.start_spinning();
            sleep.announce(0);
            let waker = {
                let sleep = sleep.clone();
                loom::thread::spawn(move || sleep.choose(&Workers::range(0..1)).is_some())
            };
            let retracted = sleep.retract(0);
            let chosen = waker.join().unwrap();
            assert_ne!(retracted, chosen);
            assert!(sleep.is_chosen(0), "left the set");
            assert_eq!(sleep.waking.load(Ordering::SeqCst), 0);
        });
    }

    /// A running command offers a task while the other worker comes back from an earlier wake, for
    /// which nobody else is woken: it finds the task, at the latest in its last look, or is chosen
    /// again.
    #[test]
    fn who_is_being_woken_is_counted_on() {
        loom::model(|| {
            let sleep = Arc::new(Sleep::new());
            let deque = Arc::new(Deque::new());
            sleep.start_spinning();
            sleep.announce(0);
            assert_eq!(sleep.choose(&Workers::range(0..1)), Some(0));
            let maker = {
                let (sleep, deque) = (sleep.clone(), deque.clone());
                loom::thread::spawn(move || {
                    assert!(deque.push(7));
                    sleep.wake_unless_somebody_looks(&Workers::range(0..1));
                })
            };
            // As `Worker::idle` does it, where its bounded looks were in vain.
            sleep.awake();
            sleep.start_spinning();
            sleep.announce(0);
            let found = deque.steal() == Steal::Item(7);
            maker.join().unwrap();
            assert!(
                found || sleep.is_chosen(0),
                "the task lies and the worker sleeps"
            );
        });
    }

    /// A running command offers two tasks while one worker is being woken and another sleeps.
    /// Perhaps no worker was woken for either: the one that finds a task sees to the other.
    #[test]
    fn who_is_being_woken_sees_to_the_rest() {
        loom::model(|| {
            let sleep = Arc::new(Sleep::new());
            let work = Arc::new([AtomicU32::new(0), AtomicU32::new(0)]);
            let everyone = Workers::range(0..2);
            sleep.start_spinning();
            sleep.announce(1);
            sleep.start_spinning();
            sleep.announce(0);
            assert_eq!(sleep.choose(&Workers::range(0..1)), Some(0));
            let maker = {
                let (sleep, work) = (sleep.clone(), work.clone());
                loom::thread::spawn(move || {
                    for piece in &*work {
                        piece.store(1, Ordering::Relaxed);
                        sleep.wake_unless_somebody_looks(&everyone);
                    }
                })
            };
            let is_there = |piece: &AtomicU32| piece.load(Ordering::Relaxed) != 0;
            let take = |piece: &AtomicU32| is_there(piece) && piece.swap(0, Ordering::Acquire) != 0;
            sleep.awake();
            sleep.start_spinning();
            let found = work.iter().any(take);
            if found {
                if sleep.stop_spinning() && work.iter().any(is_there) {
                    sleep.wake_one(&everyone);
                }
            } else {
                // It looks for the last time: `who_is_being_woken_is_counted_on`.
                sleep.stop_spinning();
            }
            maker.join().unwrap();
            let comes = sleep.is_chosen(1);
            assert!(
                !found || comes || !work.iter().any(is_there),
                "the work lies and a worker sleeps"
            );
        });
    }

    /// A worker puts tasks into its deque as a command of its own ends, and fences before it runs
    /// the next one, while another worker falls asleep.
    #[test]
    fn what_lies_beside_a_running_command_is_not_slept_over() {
        loom::model(|| {
            let sleep = Arc::new(Sleep::new());
            let deque = Arc::new(Deque::new());
            sleep.start_spinning();
            let owner = {
                let (sleep, deque) = (sleep.clone(), deque.clone());
                loom::thread::spawn(move || {
                    assert!(deque.push(7));
                    // As `Worker::see_to_surplus` does it.
                    fence(Ordering::SeqCst);
                    if deque.len() > 0 && sleep.someone_sleeps() && sleep.looking() == 0 {
                        sleep.choose(&Workers::range(0..1));
                    }
                })
            };
            sleep.announce(0);
            let found = deque.steal() == Steal::Item(7);
            owner.join().unwrap();
            assert!(
                found || sleep.is_chosen(0),
                "the task lies and the worker sleeps"
            );
        });
    }

    /// While one worker looks for work and another sleeps, two pieces of it are added. Perhaps no
    /// worker was woken for either, as one was looking: the one that finds a piece sees to the
    /// other.
    #[test]
    fn who_stops_looking_sees_to_the_rest() {
        loom::model(|| {
            let sleep = Arc::new(Sleep::new());
            let work = Arc::new([AtomicU32::new(0), AtomicU32::new(0)]);
            let everyone = Workers::range(0..2);
            sleep.start_spinning();
            sleep.announce(1);
            sleep.start_spinning();
            let maker = {
                let (sleep, work) = (sleep.clone(), work.clone());
                loom::thread::spawn(move || {
                    for piece in &*work {
                        piece.store(1, Ordering::Relaxed);
                        sleep.wake_one(&everyone);
                    }
                })
            };
            let is_there = |piece: &AtomicU32| piece.load(Ordering::Relaxed) != 0;
            let take = |piece: &AtomicU32| is_there(piece) && piece.swap(0, Ordering::Acquire) != 0;
            let pass_on_wake = || {
                if work.iter().any(is_there) {
                    sleep.wake_one(&everyone);
                }
            };
            // As `Worker::idle` does it.
            let mut found = work.iter().any(take);
            if found {
                if sleep.stop_spinning() {
                    pass_on_wake();
                }
            } else {
                sleep.announce(0);
                found = work.iter().any(take);
                if found {
                    sleep.retract(0);
                    pass_on_wake();
                }
            }
            maker.join().unwrap();
            let comes = sleep.is_chosen(1) || !found && sleep.is_chosen(0);
            assert!(
                comes || !work.iter().any(is_there),
                "the work lies and a worker sleeps"
            );
        });
    }
}
