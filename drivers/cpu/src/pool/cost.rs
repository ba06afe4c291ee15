//! Costs of commands: a worker's record of the time that each kind of body took.
//! With it a launch is split, and another worker woken, only where that pays.

use std::cell::Cell;
use std::sync::LazyLock;
use std::time::Instant;

/// Waking another worker, or splitting a launch, pays from here on.
pub(crate) const WORTH_SHARING_NS: u64 = 10_000;
/// A share of a launch is at least this long, if its groups are short.
pub(crate) const CHUNK_NS: u64 = 2_000;
/// ... and no longer than this, if they are shorter. To claim one takes some thousandths of it. No
/// other worker can have a part of a claimed share, even if that is the longest there is.
pub(crate) const LONGEST_CHUNK_NS: u64 = 10_000;
/// ... unless that would be more of them than this for each worker.
pub(crate) const MOST_CHUNKS: u64 = 32;

const ENTRIES: usize = 64;
/// The number of runs after which a body of a known cost is measured again.
const EVERY: u32 = 64;

#[derive(Clone, Copy)]
struct Entry {
    body: usize,
    /// Picoseconds per group.
    cost: u64,
    /// Runs until the next measurement.
    countdown: u32,
}

/// See the module. One per worker.
pub(crate) struct Costs(Box<[Cell<Entry>]>);

/// Nanoseconds that two looks at the clock take, which is part of every measured cost: more than a
/// small body takes.
pub(crate) static CLOCK_NS: LazyLock<u64> = LazyLock::new(|| {
    let looks = (0..100).map(|_| Instant::now().elapsed().as_nanos() as u64);
    looks.min().unwrap_or(0)
});

/// A measurement in progress.
pub(crate) struct Measurement(Instant);

impl Measurement {
    pub(crate) fn start() -> Self {
        Self(Instant::now())
    }
}

impl Default for Costs {
    fn default() -> Self {
        let empty = Entry {
            body: 0,
            cost: 0,
            countdown: 0,
        };
        Self((0..ENTRIES).map(|_| Cell::new(empty)).collect())
    }
}

impl Costs {
    #[inline]
    fn cell(&self, body: usize) -> &Cell<Entry> {
        // Bodies are static tables some tens of bytes apart.
        &self.0[(body >> 3) % ENTRIES]
    }

    /// Starts a measurement, if this run should be measured.
    #[inline]
    pub(crate) fn start(&self, body: usize) -> Option<Measurement> {
        let cell = self.cell(body);
        let mut entry = cell.get();
        if entry.body == body && entry.countdown > 0 {
            entry.countdown -= 1;
            cell.set(entry);
            return None;
        }
        Some(Measurement(Instant::now()))
    }

    /// Ends a measurement over so many groups.
    #[cold]
    pub(crate) fn stop(&self, body: usize, measurement: &Measurement, groups: u32) {
        let elapsed = measurement.0.elapsed().as_nanos() as u64;
        let cost = elapsed.saturating_mul(1000) / u64::from(groups.max(1));
        let cell = self.cell(body);
        let before = cell.get();
        let known = before.body == body;
        cell.set(Entry {
            body,
            // A quarter of the new: one preempted run does not decide.
            cost: if known {
                before.cost / 4 * 3 + cost / 4
            } else {
                cost
            },
            countdown: if !known || cost > 1_000_000 { 7 } else { EVERY },
        });
    }

    /// Nanoseconds that `groups` groups of this body take, if known.
    #[inline]
    pub(crate) fn estimate(&self, body: usize, groups: u32) -> Option<u64> {
        let entry = self.cell(body).get();
        (entry.body == body).then(|| entry.cost.saturating_mul(u64::from(groups)) / 1000)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_body_is_measured_first_and_then_now_and_then() {
        let costs = Costs::default();
        assert_eq!(costs.estimate(8, 1), None);
        let measurement = costs.start(8).expect("an unknown body is measured");
        costs.stop(8, &measurement, 1);
        assert!(costs.estimate(8, 1).is_some());
        let measured =
            (0..1000).filter(|_| costs.start(8).inspect(|m| costs.stop(8, m, 1)).is_some());
        let measured = measured.count();
        assert!((10..=130).contains(&measured), "{measured} of 1000");
    }

    #[test]
    fn bodies_that_share_an_entry_do_not_lend_their_cost() {
        let costs = Costs::default();
        let other = 8 + 8 * ENTRIES;
        let measurement = costs.start(8).expect("unknown");
        costs.stop(8, &measurement, 1);
        assert_eq!(costs.estimate(other, 1), None);
    }
}
