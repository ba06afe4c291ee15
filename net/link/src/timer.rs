//! Time that passes, and waiting for it, which tests give: for patience and limits.

use crate::locked;
use std::sync::Mutex;
use std::thread::Thread;
use std::time::{Duration, Instant};

/// The longest time for which anybody waits. What is asked to last longer lasts as long as a
/// program does anyway.
const LONGEST: Duration = Duration::from_secs(100 * 366 * 24 * 60 * 60);

/// The moment so long from now. A user gives the time, which may be so long that the system has no
/// such moment: then it is a late one.
#[must_use]
pub fn deadline_after(time: Duration) -> Instant {
    Instant::now() + time.min(LONGEST)
}

/// A timer by which time is measured.
pub trait Timer: std::fmt::Debug + Send + Sync {
    /// The time since some moment. It never goes back.
    fn now(&self) -> Duration;

    /// Has this thread wait until then, or until it is unparked; it may also return for no reason.
    fn park_until(&self, until: Duration);
}

/// The system's time.
#[derive(Clone, Copy, Debug)]
pub struct SystemTimer(Instant);

impl Default for SystemTimer {
    /// Time since now.
    fn default() -> Self {
        Self(Instant::now())
    }
}

impl Timer for SystemTimer {
    fn now(&self) -> Duration {
        self.0.elapsed()
    }

    fn park_until(&self, until: Duration) {
        let left = until.saturating_sub(self.now());
        if !left.is_zero() {
            std::thread::park_timeout(left);
        }
    }
}

/// Time that passes when a test says so.
#[derive(Debug, Default)]
pub struct ManualTimer(Mutex<(Duration, Vec<Thread>)>);

impl ManualTimer {
    /// So much time passes, and waiting threads look again.
    pub fn advance(&self, by: Duration) {
        let mut state = locked(&self.0);
        state.0 = state.0.saturating_add(by);
        let waiting = std::mem::take(&mut state.1);
        drop(state);
        waiting.iter().for_each(Thread::unpark);
    }

    /// The number of threads that wait for time to pass.
    #[must_use]
    pub fn waiting(&self) -> usize {
        locked(&self.0).1.len()
    }
}

impl Timer for ManualTimer {
    fn now(&self) -> Duration {
        locked(&self.0).0
    }

    fn park_until(&self, until: Duration) {
        let mut state = locked(&self.0);
        if state.0 >= until {
            return;
        }
        let own = std::thread::current();
        state.1.push(own.clone());
        drop(state);
        std::thread::park();
        locked(&self.0).1.retain(|other| other.id() != own.id());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_passes_when_somebody_says_so() {
        let timer = ManualTimer::default();
        let until = Duration::from_secs(5);
        std::thread::scope(|scope| {
            let waits = scope.spawn(|| {
                while timer.now() < until {
                    timer.park_until(until);
                }
                timer.now()
            });
            timer.advance(Duration::from_secs(3));
            timer.advance(Duration::from_secs(3));
            assert_eq!(waits.join().ok(), Some(Duration::from_secs(6)));
        });
        assert_eq!(timer.waiting(), 0);
        timer.park_until(until);
    }
}
