//! The time of day, which tests give.

use std::time::{Duration, SystemTime};

/// A source of the time.
pub trait Clock: Send + Sync {
    /// The time since 1970.
    fn now(&self) -> Duration;
}

/// The system's clock.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    fn now(&self) -> Duration {
        // A clock before 1970 is as good as one at 1970: nothing is that old.
        SystemTime::UNIX_EPOCH.elapsed().unwrap_or_default()
    }
}
