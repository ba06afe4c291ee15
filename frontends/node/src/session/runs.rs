//! Run times of kernels on devices of vendors' libraries: no thread of the process runs these
//! kernels, so none notes when they begin.
//!
//! A command that was given to a device counts as running. It may still wait there for earlier
//! commands, such as transfers. So only the oldest kernels are timed, those that were seen to run
//! first: all that they can wait for has ended, or was seen no later. They are timed from when the
//! last of that has ended: at least one of them has run all the time since. One that never ends is
//! among the oldest some time, whatever comes after it.
//!
//! Transfers are not timed, nor are built-in kernels, as of sources of data: the client does not
//! decide how long these take. A long transfer does not keep kernels from being timed either: work
//! of the host is over before a device gets commands that wait for it.

use std::collections::HashSet;
use std::time::Duration;

/// See the module.
#[derive(Default)]
pub(crate) struct Runs {
    /// Commands that run, in the order in which they were seen to.
    seen: Vec<Seen>,
    looks: u64,
    /// The time at which the oldest began to run.
    since: Duration,
}

/// A command that runs.
struct Seen {
    /// The look at which it was seen first.
    look: u64,
    id: u64,
    is_kernel: bool,
}

impl Runs {
    /// The time for which at least one of the kernels among these commands has run, as far as looks
    /// at them tell. Each says whether it is one.
    pub(crate) fn longest(&mut self, running: &[(u64, bool)], now: Duration) -> Duration {
        self.looks += 1;
        let before = self.oldest();
        let still: HashSet<u64> = running.iter().map(|(id, _)| *id).collect();
        self.seen.retain(|seen| still.contains(&seen.id));
        if self.oldest() != before || before.is_none() {
            self.since = now;
        }
        let known: HashSet<u64> = self.seen.iter().map(|seen| seen.id).collect();
        let new = running.iter().filter(|(id, _)| !known.contains(id));
        self.seen.extend(new.map(|(id, is_kernel)| Seen {
            look: self.looks,
            id: *id,
            is_kernel: *is_kernel,
        }));
        now.saturating_sub(self.since)
    }

    /// The look at which the oldest kernels were seen first, and the number of commands by then:
    /// with one that ends they are others, or fewer.
    fn oldest(&self) -> Option<(u64, usize)> {
        let first = self.seen.iter().find(|seen| seen.is_kernel)?.look;
        let by_then = self.seen.iter().take_while(|seen| seen.look <= first);
        Some((first, by_then.count()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn longest(runs: &mut Runs, running: &[u64], second: u64) -> u64 {
        let kernels: Vec<_> = running.iter().map(|id| (*id, true)).collect();
        runs.longest(&kernels, Duration::from_secs(second))
            .as_secs()
    }

    #[test]
    fn one_that_never_ends_is_seen_whatever_comes_after_it() {
        let mut runs = Runs::default();
        assert_eq!(longest(&mut runs, &[], 1), 0);
        assert_eq!(longest(&mut runs, &[7], 2), 0);
        for second in 3..100 {
            // Short ones beside it, which are others at each look.
            let now = longest(&mut runs, &[7, 10 * second, 10 * second + 1], second);
            assert_eq!(now, second - 2);
        }
        assert_eq!(longest(&mut runs, &[990], 100), 0);
    }

    #[test]
    fn those_that_wait_for_each_other_are_not_taken_for_one() {
        let mut runs = Runs::default();
        let mut left: Vec<u64> = (1..=100).collect();
        for second in 0..100 {
            assert!(longest(&mut runs, &left, second) <= 1);
            left.remove(second as usize * 7 % left.len());
        }
        assert_eq!(longest(&mut runs, &[], 200), 0);
    }

    #[test]
    fn one_that_others_come_before_is_timed_from_their_end() {
        let mut runs = Runs::default();
        longest(&mut runs, &[1, 2], 0);
        longest(&mut runs, &[1, 2, 3], 5);
        assert_eq!(longest(&mut runs, &[2, 3], 8), 0);
        assert_eq!(longest(&mut runs, &[2, 3], 9), 1);
        // The same number of others.
        assert_eq!(longest(&mut runs, &[3], 11), 0);
        assert_eq!(longest(&mut runs, &[3, 4], 15), 4);
    }

    #[test]
    fn transfers_take_their_time_and_kernels_that_wait_for_them_are_timed_from_their_end() {
        let mut runs = Runs::default();
        let mut longest = |running: &[(u64, bool)], second| {
            runs.longest(running, Duration::from_secs(second)).as_secs()
        };
        for second in 0..100 {
            assert_eq!(longest(&[(1, false), (2, false)], second), 0);
        }
        // One that is beside them, and one that comes later.
        longest(&[(1, false), (2, false), (3, true)], 100);
        longest(&[(1, false), (2, false), (3, true), (4, false)], 101);
        assert_eq!(longest(&[(2, false), (3, true), (4, false)], 105), 0);
        assert_eq!(longest(&[(2, false), (3, true)], 107), 2);
        // What never ends beside it does not keep it from being timed.
        assert_eq!(longest(&[(2, false), (3, true), (5, true)], 110), 5);
        assert_eq!(longest(&[(2, false), (5, true)], 111), 0);
        assert_eq!(longest(&[(2, false), (5, true)], 113), 2);
        assert_eq!(longest(&[(2, false)], 200), 0);
        assert_eq!(longest(&[(2, false)], 300), 0);
    }
}
