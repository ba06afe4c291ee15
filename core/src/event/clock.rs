//! Clocks and deadlines of waits.

use std::time::{Duration, Instant};

/// The clock of waits with a timeout.
pub trait Clock: Sync {
    /// The time now, since any fixed moment.
    fn now(&self) -> Duration;

    /// Sleeps until this thread is unparked, for so long at most.
    fn park(&self, timeout: Duration) {
        std::thread::park_timeout(timeout);
    }
}

/// The system's monotonic clock.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    fn now(&self) -> Duration {
        static START: std::sync::OnceLock<Instant> = std::sync::OnceLock::new();
        START.get_or_init(Instant::now).elapsed()
    }
}

/// The time at which a wait is given up.
#[derive(Clone, Copy)]
pub(super) struct Deadline<'a> {
    /// A user's clock; none if it is the system's.
    pub(super) clock: Option<&'a dyn Clock>,
    pub(super) time: Duration,
}

impl<'a> Deadline<'a> {
    /// The deadline after this time, by the system's clock.
    pub(super) fn after(timeout: Duration) -> Self {
        Self {
            clock: None,
            time: SystemClock.now().saturating_add(timeout),
        }
    }

    /// The deadline after this time, by a user's clock.
    pub(super) fn by(clock: &'a dyn Clock, timeout: Duration) -> Self {
        Self {
            clock: Some(clock),
            time: clock.now().saturating_add(timeout),
        }
    }

    pub(super) fn clock(self) -> &'a dyn Clock {
        self.clock.unwrap_or(&SystemClock)
    }
}
