//! Simulated time: nanoseconds since the machine was switched on, and rates.

/// A point or a span of simulated time, in nanoseconds.
pub type Nanoseconds = u64;

/// A transfer rate, kept as whole bytes per microsecond so that simulated time stays in integers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Bandwidth {
    bytes_per_microsecond: u64,
}

impl Bandwidth {
    /// `bytes` per nanosecond, which is gigabytes (10⁹ bytes) per second.
    #[must_use]
    pub const fn bytes_per_nanosecond(bytes: u64) -> Self {
        Self {
            bytes_per_microsecond: bytes.saturating_mul(1000),
        }
    }

    /// `megabytes` (10⁶ bytes) per second, for rates below a byte per nanosecond.
    #[must_use]
    pub const fn megabytes_per_second(megabytes: u64) -> Self {
        Self {
            bytes_per_microsecond: megabytes,
        }
    }

    /// True if nothing would ever arrive at this rate.
    #[must_use]
    pub const fn is_zero(self) -> bool {
        self.bytes_per_microsecond == 0
    }

    /// The time that `bytes` take, rounded up; the longest time there is for a rate of zero.
    #[must_use]
    pub fn time_for(self, bytes: u64) -> Nanoseconds {
        if bytes == 0 {
            return 0;
        }
        (u128::from(bytes) * 1000)
            .checked_next_multiple_of(u128::from(self.bytes_per_microsecond))
            .map(|scaled| scaled / u128::from(self.bytes_per_microsecond))
            .and_then(|time| Nanoseconds::try_from(time).ok())
            .unwrap_or(Nanoseconds::MAX)
    }
}

/// The times at which a command reached each of its states, in simulated time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Times {
    /// The time at which the host had the command ready: the command's own, or else the moment of
    /// its upload.
    pub queued: Nanoseconds,
    /// The time at which it lay in a slot of the device.
    pub submitted: Nanoseconds,
    /// The time at which the device started it; for a command that never ran, the time of its end.
    pub started: Nanoseconds,
    /// The time at which the device was done with it and set its status.
    pub ended: Nanoseconds,
    /// The time at which the host saw that.
    pub reported: Nanoseconds,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bandwidth_rounds_up_and_saturates() {
        assert_eq!(Bandwidth::bytes_per_nanosecond(4).time_for(9), 3);
        assert_eq!(Bandwidth::megabytes_per_second(1).time_for(1), 1000);
        assert_eq!(Bandwidth::megabytes_per_second(0).time_for(0), 0);
        assert_eq!(Bandwidth::megabytes_per_second(0).time_for(1), u64::MAX);
        assert_eq!(
            Bandwidth::megabytes_per_second(1).time_for(u64::MAX),
            u64::MAX
        );
        assert_eq!(
            Bandwidth::bytes_per_nanosecond(u64::MAX).time_for(u64::MAX),
            1000
        );
    }
}
