//! The process's clock: nanoseconds since it was first asked.

use std::sync::OnceLock;
use std::time::Instant;

/// Nanoseconds since the process's clock was first read, never zero.
#[must_use]
pub fn now_ns() -> u64 {
    static START: OnceLock<Instant> = OnceLock::new();
    let elapsed = START.get_or_init(Instant::now).elapsed();
    u64::try_from(elapsed.as_nanos()).unwrap_or(u64::MAX).max(1)
}
