//! Observed durations of commands on their devices. They decide how many commands may end together
//! ([`batches`](super::batches)), and when a sleeping thread looks for the end of one
//! ([`completion`](super::completion)).
//!
//! Commands are told apart by their kind of work and about its amount. Of commands that were seen
//! to end together, each took its part of the time. An observed time is hardly too short: a look
//! may be late, and the next command may have begun when a thread looked before that ([`Meter`]).
//! So a shorter time is taken over at once, and a longer one little by little, as the device may
//! have been slower, or there may have been more to do.

use quipu_scheduler::Command;
use quipu_scheduler::hash::NumberHash;
use quipu_scheduler::operation::Operation;
use std::hash::{BuildHasher, Hash, Hasher};
use std::sync::atomic::{AtomicU64, Ordering};

/// Kinds of work that are known at a time; two that have the same place take turns.
const PLACES: usize = 1024;

/// One in so many parts of the time by which a command took longer is taken over.
const LONGER: u64 = 8;

/// A kind of work: the kernel that is launched, or the other operation, and its amount, to a power
/// of two.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Workload(u64);

impl Workload {
    /// A command's.
    pub(super) fn of(command: &Command) -> Self {
        let mut hasher = NumberHash.build_hasher();
        (command.kind() as u8).hash(&mut hasher);
        if let Operation::Launch { groups } = command.operation() {
            hasher.write_u32(groups.checked_ilog2().unwrap_or(0));
            if let Some(portable) = command.portable() {
                portable.key().hash(&mut hasher);
            }
        }
        let arguments = command.arguments().iter();
        let bytes: u64 = arguments.map(|it| it.length()).fold(0, u64::saturating_add);
        hasher.write_u32(bytes.checked_ilog2().unwrap_or(0));
        Self(hasher.finish())
    }
}

/// The time that the commands of a line take, measured by looks from time to time. Each begins when
/// the one before is over.
#[derive(Debug, Default)]
pub(super) struct Meter {
    /// The earliest time at which the oldest may have begun, in nanoseconds.
    begun: u64,
    /// The time of the last look at which it went on; zero if there was none.
    goes_on: u64,
}

impl Meter {
    /// The oldest was put there now, behind nothing.
    pub(super) fn begin(&mut self, now: u64) {
        *self = Self {
            begun: now,
            goes_on: 0,
        };
    }

    /// The time at which the oldest may have begun.
    pub(super) fn begun(&self) -> u64 {
        self.begun
    }

    /// The oldest goes on.
    pub(super) fn goes_on(&mut self, now: u64) {
        self.goes_on = now;
    }

    /// Notes that so many are over; gives the time that each of them took. The next had begun at
    /// the last look at which they were not over, unless it was only put there later: at `put`.
    pub(super) fn over(&mut self, now: u64, count: usize, put: u64) -> u64 {
        let each = now.saturating_sub(self.begun) / count.max(1) as u64;
        let next = if self.goes_on > self.begun {
            self.goes_on
        } else {
            now
        };
        self.begin(next.max(put));
        each
    }
}

/// See the module.
pub(super) struct Durations {
    /// Each a part of a workload's number, and nanoseconds, no more than four seconds.
    places: Box<[AtomicU64]>,
}

impl Default for Durations {
    fn default() -> Self {
        Self {
            places: (0..PLACES).map(|_| AtomicU64::new(0)).collect(),
        }
    }
}

impl Durations {
    fn place(&self, of: Workload) -> (&AtomicU64, u64) {
        (&self.places[of.0 as usize % PLACES], of.0 >> 32)
    }

    /// The time that such a command takes, in nanoseconds, if that is known.
    pub(super) fn of(&self, workload: Workload) -> Option<u64> {
        let (place, name) = self.place(workload);
        let known = place.load(Ordering::Relaxed);
        (known != 0 && known >> 32 == name).then_some(known & u64::from(u32::MAX))
    }

    /// Such a command was seen to take so many nanoseconds.
    pub(super) fn note(&self, workload: Workload, took: u64) {
        let (place, name) = self.place(workload);
        let took = took.clamp(1, u64::from(u32::MAX));
        let known = self.of(workload).unwrap_or(took);
        let now = match took.checked_sub(known) {
            Some(longer) => known + longer / LONGER,
            None => took,
        };
        // Of two at a time, one is as good as the other.
        place.store(name << 32 | now, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_comes_behind_is_not_shorter_because_one_looked_late() {
        let mut meter = Meter::default();
        meter.begin(1_000);
        meter.goes_on(1_900);
        // It took 1000, as the next one does.
        assert_eq!(meter.over(2_300, 1, 1_100), 1_300);
        assert_eq!(meter.begun(), 1_900);
        meter.goes_on(2_990);
        assert_eq!(meter.over(3_010, 1, 0), 1_110);
        assert_eq!(meter.begun(), 2_990);
        // Nobody has looked meanwhile.
        assert_eq!(meter.over(6_010, 3, 0), 1_006);
        assert_eq!(meter.begun(), 6_010);
        // The next has come between that and the end.
        meter.goes_on(6_500);
        assert_eq!(meter.over(7_010, 1, 6_900), 1_000);
        assert_eq!(meter.begun(), 6_900);
    }

    #[test]
    fn what_is_shorter_counts_at_once_and_what_is_longer_little_by_little() {
        let durations = Durations::default();
        let (one, other) = (Workload(5 << 40 | 7), Workload(6 << 40 | 7));
        assert_eq!(durations.of(one), None);
        durations.note(one, 10_000);
        assert_eq!(durations.of(one), Some(10_000));
        durations.note(one, 90_000);
        assert_eq!(durations.of(one), Some(20_000));
        durations.note(one, 2_000);
        assert_eq!(durations.of(one), Some(2_000));
        for _ in 0..100 {
            durations.note(one, 1_000_000);
        }
        let known = durations.of(one).unwrap_or(0);
        assert!((900_000..=1_000_000).contains(&known), "{known}");
        // They have one place.
        durations.note(other, u64::MAX);
        assert_eq!(durations.of(one), None);
        assert_eq!(durations.of(other), Some(u64::from(u32::MAX)));
    }
}
