//! Time as this process has it: it tells a hang from a machine that stands still.
//!
//! A virtual machine may be stopped for a minute, and a loaded one may give a
//! process no time for as long. Measured by the system's clock, all that was
//! waited for then took a minute.

use quipu_scheduler::{Clock, SystemClock};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

/// The most that passes between two looks at the clock, and who waits by it looks
/// more often.
const STEP: Duration = Duration::from_millis(100);

/// A clock that stands still while the process does.
#[derive(Debug)]
pub(crate) struct RunningClock<C = SystemClock> {
    clock: C,
    looks: Mutex<Looks>,
}

#[derive(Debug)]
struct Looks {
    /// The time of the last, by the other clock.
    last: Duration,
    /// The time that has passed by this one.
    passed: Duration,
}

impl RunningClock {
    pub(crate) fn new() -> Self {
        Self::over(SystemClock)
    }
}

impl<C: Clock> RunningClock<C> {
    fn over(clock: C) -> Self {
        let looks = Mutex::new(Looks {
            last: clock.now(),
            passed: Duration::ZERO,
        });
        Self { clock, looks }
    }
}

impl<C: Clock> Clock for RunningClock<C> {
    fn now(&self) -> Duration {
        let mut looks = self.looks.lock().unwrap_or_else(PoisonError::into_inner);
        let now = self.clock.now();
        let step = now.saturating_sub(looks.last).min(STEP);
        looks.last = now;
        looks.passed += step;
        looks.passed
    }

    fn park(&self, timeout: Duration) {
        self.clock.park(timeout.min(STEP / 2));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicU64, Ordering};

    /// Microseconds, of which a sleep takes as many as it may.
    struct ByHand(AtomicU64);

    impl Clock for ByHand {
        fn now(&self) -> Duration {
            Duration::from_micros(self.0.load(Ordering::Relaxed))
        }

        fn park(&self, timeout: Duration) {
            let timeout = timeout.as_micros() as u64;
            self.0.fetch_add(timeout, Ordering::Relaxed);
        }
    }

    #[test]
    fn a_stop_is_no_time() {
        let clock = RunningClock::over(ByHand(AtomicU64::new(7)));
        let start = clock.now();
        clock.clock.park(Duration::from_secs(3600));
        assert_eq!(clock.now() - start, STEP);
        clock.clock.park(STEP / 4);
        assert_eq!(clock.now() - start, STEP + STEP / 4);
    }

    #[test]
    fn sleeping_is() {
        let clock = RunningClock::over(ByHand(AtomicU64::new(7)));
        let deadline = clock.now() + Duration::from_secs(30);
        let mut sleeps = 0;
        while clock.now() < deadline {
            clock.park(deadline - clock.now());
            sleeps += 1;
        }
        assert_eq!(clock.now(), deadline);
        assert_eq!(sleeps, 600);
    }
}
