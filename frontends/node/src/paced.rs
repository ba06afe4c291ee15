//! An answer that is made anew at intervals, for all clients that have asked meanwhile.
//!
//! 1. A client gets an answer that the node began to make after the client asked. So no answer is
//!    out of date.
//! 2. One of those who ask makes it: [`PAUSE`] after the last was begun at the earliest, and
//!    [`SHARE`] times as long after its end as it took. So it costs a fifth of the time at most,
//!    however many ask, and however often. An answer counts as [`MOST_COUNTED`] at most, so that
//!    nobody waits long because the process stood still.
//! 3. The others wait for it.

use crate::locked;
use quipu_link::timer::{SystemTimer, Timer};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::Duration;

/// Between the beginnings of two answers, at least.
const PAUSE: Duration = Duration::from_millis(50);

/// As much time as an answer takes passes so often before the next.
const SHARE: u32 = 4;

/// The most time that an answer counts as. The process may have stood still meanwhile.
const MOST_COUNTED: Duration = Duration::from_millis(250);

/// See the module.
#[derive(Debug)]
pub(crate) struct Paced<T> {
    timer: Arc<dyn Timer>,
    state: Mutex<State<T>>,
    changed: Condvar,
}

#[derive(Debug)]
struct State<T> {
    /// Answers that were begun, and the last that there is, with its number.
    begun: u64,
    last: Option<(u64, Arc<T>)>,
    /// Somebody makes an answer, or waits until it may be made.
    is_making: bool,
    /// The time at which the next may be begun.
    due: Duration,
}

impl<T> Default for Paced<T> {
    fn default() -> Self {
        Self::by(Arc::new(SystemTimer::default()))
    }
}

/// Lets others make an answer when this is dropped, also by a panic.
struct Making<'a, T>(&'a Paced<T>);

impl<T> Drop for Making<'_, T> {
    fn drop(&mut self) {
        locked(&self.0.state).is_making = false;
        self.0.changed.notify_all();
    }
}

impl<T> Paced<T> {
    fn by(timer: Arc<dyn Timer>) -> Self {
        Self {
            timer,
            state: Mutex::new(State {
                begun: 0,
                last: None,
                is_making: false,
                due: Duration::ZERO,
            }),
            changed: Condvar::new(),
        }
    }

    /// The number of answers that were begun.
    #[cfg(test)]
    pub(crate) fn begun(&self) -> u64 {
        locked(&self.state).begun
    }

    /// An answer that was begun after this was called.
    pub(crate) fn get(&self, make: impl FnOnce() -> T) -> Arc<T> {
        let mut state = locked(&self.state);
        let own = state.begun + 1;
        loop {
            if let Some((_, last)) = state.last.as_ref().filter(|(number, _)| *number >= own) {
                return Arc::clone(last);
            }
            if !state.is_making {
                break;
            }
            state = self
                .changed
                .wait(state)
                .unwrap_or_else(PoisonError::into_inner);
        }
        state.is_making = true;
        let due = state.due;
        drop(state);
        let making = Making(self);
        while self.timer.now() < due {
            self.timer.park_until(due);
        }
        let began = self.timer.now();
        let mut state = locked(&self.state);
        state.begun += 1;
        let number = state.begun;
        drop(state);
        let answer = Arc::new(make());
        let ended = self.timer.now();
        let mut state = locked(&self.state);
        state.last = Some((number, Arc::clone(&answer)));
        let took = ended.saturating_sub(began).min(MOST_COUNTED);
        state.due = (began + PAUSE).max(ended + SHARE * took);
        drop(state);
        drop(making);
        answer
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use quipu_link::timer::ManualTimer;
    use std::sync::atomic::{AtomicU64, Ordering};

    #[test]
    fn however_many_ask_one_answer_is_made_in_a_pause_and_none_is_older_than_its_question() {
        let timer = Arc::new(ManualTimer::default());
        let (paced, made) = (Paced::by(timer.clone()), AtomicU64::new(0));
        let ask = || {
            let before = made.load(Ordering::SeqCst);
            let answer = paced.get(|| made.fetch_add(1, Ordering::SeqCst) + 1);
            assert!(*answer > before);
        };
        // The first is made at once.
        ask();
        let mut pauses = 0;
        std::thread::scope(|scope| {
            let ask_often = || (0..100).for_each(|_| ask());
            let asking: Vec<_> = (0..16).map(|_| scope.spawn(ask_often)).collect();
            while !asking.iter().all(|one| one.is_finished()) {
                if timer.waiting() > 0 {
                    timer.advance(PAUSE);
                    pauses += 1;
                }
                std::thread::yield_now();
            }
        });
        let made = made.into_inner();
        assert!(made <= pauses + 1 && made > 100, "{made} in {pauses}");
    }

    /// Has an answer take so long, and asks for the next. Gives the time until that is made, in
    /// steps of the most that counts.
    fn steps_after(took: Duration) -> u32 {
        let timer = Arc::new(ManualTimer::default());
        let paced = Paced::by(timer.clone());
        paced.get(|| timer.advance(took));
        std::thread::scope(|scope| {
            let asking = scope.spawn(|| paced.get(|| ()));
            let mut steps = 0;
            loop {
                while timer.waiting() < 1 && !asking.is_finished() {
                    std::thread::yield_now();
                }
                if asking.is_finished() {
                    return steps;
                }
                timer.advance(MOST_COUNTED);
                steps += 1;
            }
        })
    }

    #[test]
    fn what_takes_long_is_made_a_fifth_of_the_time() {
        assert_eq!(steps_after(MOST_COUNTED), SHARE);
    }

    #[test]
    fn nobody_waits_long_because_the_process_stood_still() {
        assert_eq!(steps_after(1000 * MOST_COUNTED), SHARE);
    }

    #[test]
    fn who_fails_to_make_one_keeps_nobody_waiting() {
        let paced = Paced::<u64>::default();
        let failing = || paced.get(|| panic!("a test's"));
        let failed = std::panic::catch_unwind(std::panic::AssertUnwindSafe(failing));
        assert!(failed.is_err());
        assert_eq!(*paced.get(|| 5), 5);
    }
}
