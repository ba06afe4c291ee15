//! The process's clock: nanoseconds since it was first asked.

use std::sync::OnceLock;

/// Nanoseconds since the process's clock was first read, never zero.
#[must_use]
pub fn now_ns() -> u64 {
    static START: OnceLock<Reading> = OnceLock::new();
    let start = START.get_or_init(Reading::now);
    Reading::now().since(*start).max(1)
}

/// Used in place of [`Instant`](std::time::Instant), whose differences cost as much again as a
/// reading. A command on a device needs several readings.
#[cfg(target_os = "linux")]
#[derive(Clone, Copy)]
struct Reading(u64);

#[cfg(target_os = "linux")]
impl Reading {
    fn now() -> Self {
        let mut time = libc::timespec {
            tv_sec: 0,
            tv_nsec: 0,
        };
        // SAFETY: it is written to. (It fails for clocks that there are not.)
        unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &raw mut time) };
        Self(time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64)
    }

    fn since(self, start: Self) -> u64 {
        self.0.saturating_sub(start.0)
    }
}

#[cfg(not(target_os = "linux"))]
#[derive(Clone, Copy)]
struct Reading(std::time::Instant);

#[cfg(not(target_os = "linux"))]
impl Reading {
    fn now() -> Self {
        Self(std::time::Instant::now())
    }

    fn since(self, start: Self) -> u64 {
        let elapsed = self.0.saturating_duration_since(start.0);
        u64::try_from(elapsed.as_nanos()).unwrap_or(u64::MAX)
    }
}
