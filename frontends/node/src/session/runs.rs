//! For how long kernels run on devices that are another's: no thread of the process runs them, so none notes when they begin.
//!
//! What a device was given is said to run, though it may wait there for what it was given before. So only the oldest are
//! timed, those that were seen to run first: all that they can wait for has ended, or is among them. They are timed from when the
//! last that was older has ended, or the last of them has: at least one of them has run all the time since. One that never
//! ends is among the oldest some time, whatever comes after it.

use std::collections::HashSet;
use std::time::Duration;

/// See the module.
#[derive(Default)]
pub(crate) struct Runs {
    /// Commands that run, in the order in which they were seen to: at which look, and which.
    seen: Vec<(u64, u64)>,
    looks: u64,
    /// Since when the oldest run.
    since: Duration,
}

impl Runs {
    /// For how long at least one of these commands has run, as far as looks at them tell.
    pub(crate) fn longest(&mut self, running: &[u64], now: Duration) -> Duration {
        self.looks += 1;
        let before = self.oldest();
        let still: HashSet<u64> = running.iter().copied().collect();
        self.seen.retain(|(_, id)| still.contains(id));
        if self.oldest() != before || before.is_none() {
            self.since = now;
        }
        let known: HashSet<u64> = self.seen.iter().map(|(_, id)| *id).collect();
        let new = running.iter().filter(|id| !known.contains(id));
        self.seen.extend(new.map(|id| (self.looks, *id)));
        now.saturating_sub(self.since)
    }

    /// At which look the oldest were seen first, and how many they are: with one that ends they are others, or fewer.
    fn oldest(&self) -> Option<(u64, usize)> {
        let first = self.seen.first()?.0;
        let oldest = self.seen.iter().take_while(|(look, _)| *look == first);
        Some((first, oldest.count()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn longest(runs: &mut Runs, running: &[u64], second: u64) -> u64 {
        runs.longest(running, Duration::from_secs(second)).as_secs()
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
}
