//! The difference between a device's clock and the process's.

use std::sync::{Mutex, PoisonError};

/// See the module.
#[derive(Debug, Default)]
pub struct Clock {
    offset: Mutex<Option<i64>>,
}

impl Clock {
    /// The difference of the process's clock to the device's, in nanoseconds. One command bounds it
    /// by `least` and by `most`: the command was not begun before the host had put it there, say,
    /// and was over when the host saw its end. The difference stays the same for as long as no
    /// command contradicts it.
    #[must_use]
    pub fn offset(&self, least: i64, most: i64) -> i64 {
        let mut offset = self.offset.lock().unwrap_or_else(PoisonError::into_inner);
        let kept = offset.unwrap_or(least).clamp(least, most.max(least));
        *offset = Some(kept);
        kept
    }
}

/// The time by which the first clock is ahead of the second.
#[must_use]
pub fn difference(host: u64, device: u64) -> i64 {
    host.cast_signed().wrapping_sub(device.cast_signed())
}

#[cfg(test)]
mod tests {
    use super::{Clock, difference};

    /// Commands put into queues of a device whose clock is `behind` the host's, and loses a
    /// nanosecond of `drift`: how far off the last times were, at most.
    fn worst_error(behind: i64, drift: u64) -> u64 {
        let clock = Clock::default();
        let (mut now, mut state, mut worst) = (1_u64 << 42, 7_u64, 0);
        for command in 0..10_000 {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            // Put there within 2 to 66 µs, at some time of these.
            let (before, took) = (now, 2_000 + state % 64_000);
            let at = before + (state >> 20) % took;
            let lost = |time: u64| time.checked_div(drift).unwrap_or(0).cast_signed();
            let of_device = |time: u64| time.saturating_add_signed(-behind - lost(time));
            let queued = of_device(at);
            let offset = clock.offset(
                difference(before, queued),
                difference(before + took, queued),
            );
            let found = of_device(at).saturating_add_signed(offset);
            assert!((before..=before + took).contains(&found));
            // At first nothing is known but this one command.
            if command >= 100 {
                worst = worst.max(found.abs_diff(at));
            }
            now = before + took + 100_000;
        }
        worst
    }

    #[test]
    fn times_are_found_to_a_fraction_of_what_a_call_takes() {
        for behind in [0, 1, -1, 1 << 40, -500_000_000] {
            let worst = worst_error(behind, 0);
            assert!(worst < 2_000, "{worst} ns with {behind}");
        }
    }

    #[test]
    fn a_clock_that_drifts_is_followed() {
        // 20 millionths: a second is 20 µs off after that.
        let worst = worst_error(12_345, 50_000);
        assert!(worst < 10_000, "{worst} ns");
    }
}
