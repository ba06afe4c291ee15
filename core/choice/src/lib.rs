//! The choice between two variants of a piece of work: the first runs are measured, and the faster
//! variant is kept.
//!
//! Some facts are known beforehand neither from the code nor of the machine. Vectors of 64 bytes
//! may or may not make up for the lower clock that some processors have with them. Stores around
//! the caches may or may not be faster. Both variants give the same result, so a trial decides
//! between them.
//!
//! 1. Work in several groups, such as a launch, is timed. It begins in the first variant.
//! 2. There are four *stretches*: in the first variant, two in the second, and again in the first.
//!    So a steady change of speed is the same for both. The first `SETTLING` of each does not
//!    count, as a clock changes late. Then it lasts for `STRETCH` at least, and for as many groups
//!    as there are in all, since some take longer than others.
//! 3. Such a trial says that the second variant is faster if a group took less than `CLEARLY` of
//!    its time in the first, in the mean of each two stretches. The result of two trials of three
//!    is chosen: on machines that others use, a trial may be disturbed.
//! 4. A first stretch in the second variant that took more than `FAR` of the one before ends its
//!    trial, which says that the first is faster. One call of at least `SETTLING` does, too, if its
//!    groups took more than `FARTHER` of the dearest before: it may be of a launch that takes long.
//!    Its result is no more than one trial, because the machine may have been busy otherwise.
//!
//! A choice stays, and then costs the load of a word.

#![deny(missing_docs)]

/// The example in this crate's README is one that works.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
pub struct Readme;

use std::sync::Mutex;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

/// For so long a stretch runs before it counts.
const SETTLING: Duration = Duration::from_millis(2);
/// The least time of a stretch, summed over all threads that work in it.
const STRETCH: Duration = Duration::from_millis(5);
/// A time is clearly less below this part of the first variant's.
const CLEARLY: f64 = 0.97;
/// Above this part of it, the trial needs no other stretch.
const FAR: f64 = 1.15;
/// Above this part of it, the trial needs no other call.
const FARTHER: f64 = 2.0;
/// The number of trials that have to give the same result.
const SAME: u32 = 2;

/// The share that a call has in work that is done at once.
#[derive(Debug, Clone, Copy)]
pub struct Share {
    /// Its groups.
    pub groups: usize,
    /// All groups.
    pub of: usize,
}

/// One of two variants.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Variant {
    /// The one that is taken unless the other is clearly faster.
    First,
    /// The other.
    Second,
}

/// The stretches of a trial.
const STRETCHES: [Variant; 4] = [
    Variant::First,
    Variant::Second,
    Variant::Second,
    Variant::First,
];

/// The measurements of a choice that is not made yet.
#[derive(Debug)]
struct Trial {
    /// The number of earlier trials that have voted for each variant.
    votes: [u32; 2],
    /// The number of the present stretch.
    stretch: usize,
    /// The time of the calls in it that do not count; then the time and the groups of those that
    /// do.
    settled: Duration,
    time: Duration,
    groups: usize,
    /// Seconds of a group in the stretches that are over.
    costs: [f64; 4],
    /// The most seconds of a group that a call of the first stretch took: groups need not be alike.
    dearest: f64,
}

impl Trial {
    const fn new() -> Self {
        Self {
            votes: [0; 2],
            stretch: 0,
            settled: Duration::ZERO,
            time: Duration::ZERO,
            groups: 0,
            costs: [0.0; 4],
            dearest: 0.0,
        }
    }

    /// Notes the duration of a call in the variant of the stretch. Gives the next step, if the call
    /// ends the stretch.
    fn take(&mut self, share: Share, time: Duration) -> Option<Next> {
        let cost = time.as_secs_f64() / share.groups as f64;
        match self.stretch {
            0 => self.dearest = self.dearest.max(cost),
            1 if time >= SETTLING && cost > FARTHER * self.dearest => {
                return Some(self.vote(Variant::First));
            }
            _ => {}
        }
        if self.settled < SETTLING {
            self.settled += time;
            return None;
        }
        self.time += time;
        self.groups += share.groups;
        if self.time < STRETCH || self.groups < share.of {
            return None;
        }
        self.costs[self.stretch] = self.time.as_secs_f64() / self.groups as f64;
        let [first, second, again, last] = self.costs;
        if self.stretch == 1 && second > FAR * first {
            return Some(self.vote(Variant::First));
        }
        if self.stretch + 1 < STRETCHES.len() {
            return Some(self.begin(self.stretch + 1));
        }
        Some(self.vote(if second + again < CLEARLY * (first + last) {
            Variant::Second
        } else {
            Variant::First
        }))
    }

    /// Ends the trial, which says that a variant is to be chosen.
    fn vote(&mut self, variant: Variant) -> Next {
        self.votes[variant as usize] += 1;
        if self.votes[variant as usize] == SAME {
            return Next::Chosen(variant);
        }
        self.begin(0)
    }

    fn begin(&mut self, stretch: usize) -> Next {
        *self = Self {
            votes: self.votes,
            stretch,
            costs: self.costs,
            // Of this trial's first stretch.
            dearest: if stretch == 0 { 0.0 } else { self.dearest },
            ..Self::new()
        };
        Next::Stretch(STRETCHES[stretch])
    }
}

/// The step after a stretch.
#[derive(Debug, PartialEq, Eq)]
enum Next {
    /// Another, in a variant.
    Stretch(Variant),
    /// No more.
    Chosen(Variant),
}

const SECOND: u32 = 1;
const CHOSEN: u32 = 2;
const ONE_STRETCH: u32 = 4;

/// A choice between two variants.
///
/// ```
/// use quipu_choice::{Choice, Share, Variant};
///
/// static SUM: Choice = Choice::new();
///
/// fn sum(x: &[u64]) -> u64 {
///     let share = Share { groups: 1, of: 1 };
///     SUM.run(share, |variant| match variant {
///         Variant::First => x.iter().sum(),
///         Variant::Second => x.iter().rev().sum(),
///     })
/// }
/// assert_eq!(sum(&[1, 2, 3]), 6);
/// ```
#[derive(Debug)]
pub struct Choice {
    /// [`SECOND`] and [`CHOSEN`]; above these, the number of stretches so far.
    state: AtomicU32,
    trial: Mutex<Trial>,
}

impl Choice {
    /// One that is still to be made.
    #[must_use]
    pub const fn new() -> Self {
        Self {
            state: AtomicU32::new(0),
            trial: Mutex::new(Trial::new()),
        }
    }

    /// The chosen variant, once there is one.
    #[inline]
    pub fn chosen(&self) -> Option<Variant> {
        let state = self.state.load(Ordering::Relaxed);
        (state & CHOSEN != 0).then_some(Self::variant(state))
    }

    #[inline]
    fn variant(state: u32) -> Variant {
        if state & SECOND == 0 {
            Variant::First
        } else {
            Variant::Second
        }
    }

    /// Does a share of something, in the variant that is faster or has to be measured.
    #[inline]
    pub fn run<R>(&self, share: Share, run: impl FnOnce(Variant) -> R) -> R {
        let state = self.state.load(Ordering::Relaxed);
        let variant = Self::variant(state);
        if state & CHOSEN != 0 {
            return run(variant);
        }
        let start = Instant::now();
        let result = run(variant);
        self.take(state, share, start.elapsed());
        result
    }

    /// Notes the duration of a call that began in `state`.
    #[cold]
    fn take(&self, state: u32, share: Share, time: Duration) {
        // A thread that does not get the lock right away drops its measurement.
        let Ok(mut trial) = self.trial.try_lock() else {
            return;
        };
        if self.state.load(Ordering::Relaxed) != state {
            return;
        }
        let bits = |variant| match variant {
            Variant::First => 0,
            Variant::Second => SECOND,
        };
        let next = match trial.take(share, time) {
            None => return,
            Some(Next::Stretch(variant)) => {
                (state & !(SECOND | CHOSEN)).wrapping_add(ONE_STRETCH) | bits(variant)
            }
            Some(Next::Chosen(variant)) => CHOSEN | bits(variant),
        };
        self.state.store(next, Ordering::Relaxed);
    }
}

impl Default for Choice {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Calls of eight of 32 groups, each as long as its trial and stretch say, until there is a
    /// choice. Gives the choice, and the number of calls.
    fn choice(nanoseconds: impl Fn(usize, usize) -> u64) -> (Variant, u32) {
        let mut trial = Trial::new();
        for calls in 1.. {
            let share = Share { groups: 8, of: 32 };
            let before = trial.votes.iter().sum::<u32>() as usize;
            let time = Duration::from_nanos(nanoseconds(before, trial.stretch));
            match trial.take(share, time) {
                Some(Next::Chosen(choice)) => return (choice, calls),
                Some(Next::Stretch(variant)) => assert_eq!(variant, STRETCHES[trial.stretch]),
                None => {}
            }
        }
        unreachable!("a trial ends")
    }

    #[test]
    fn what_is_clearly_faster_is_chosen() {
        let (chosen, calls) = choice(|_, stretch| [1000, 900, 910, 1000][stretch] * 1000);
        assert_eq!(chosen, Variant::Second);
        // Two trials of four stretches of 7 ms at least, in calls of about one.
        assert!((56..=72).contains(&calls), "{calls}");
    }

    #[test]
    fn what_is_far_slower_is_left_soon() {
        let (chosen, calls) = choice(|_, stretch| [1000, 1900, 0, 0][stretch] * 1000);
        assert_eq!(chosen, Variant::First);
        assert!((22..=28).contains(&calls), "{calls}");
        // So much slower that one call of a trial shows it.
        let (chosen, calls) = choice(|_, stretch| [1000, 20000, 0, 0][stretch] * 1000);
        assert_eq!(chosen, Variant::First);
        assert!((14..=18).contains(&calls), "{calls}");
    }

    #[test]
    fn groups_that_take_longer_than_others_say_nothing_of_a_way() {
        let mut trial = Trial::new();
        let share = Share { groups: 8, of: 32 };
        // Each fourth call has the groups that take long, which are faster in the second variant.
        let chosen = (0..).find_map(|call| {
            let nanoseconds = [1000, 900, 900, 1000][trial.stretch] * 1000;
            let time = Duration::from_nanos(if call % 4 == 3 { 8 } else { 1 } * nanoseconds);
            match trial.take(share, time) {
                Some(Next::Chosen(variant)) => Some(variant),
                _ => None,
            }
        });
        assert_eq!(chosen, Some(Variant::Second));
    }

    #[test]
    fn what_is_not_clear_is_left() {
        let (chosen, calls) = choice(|_, stretch| [1000, 990, 990, 1000][stretch] * 1000);
        assert_eq!(chosen, Variant::First);
        assert!((56..=72).contains(&calls), "{calls}");
        // A trend is none of the ways'.
        let (chosen, _) = choice(|_, stretch| [1000, 900, 800, 700][stretch] * 1000);
        assert_eq!(chosen, Variant::First);
    }

    #[test]
    fn a_trial_that_is_disturbed_is_outvoted() {
        let disturbances = [
            [1000, 1000, 2000, 1000],
            [1000, 1900, 900, 1000],
            [1000, 20000, 900, 1000],
        ];
        for disturbance in disturbances {
            for disturbed in 0..3 {
                let (chosen, _) = choice(|before, stretch| {
                    let times = if before == disturbed {
                        disturbance
                    } else {
                        [1000, 900, 900, 1000]
                    };
                    times[stretch] * 1000
                });
                assert_eq!(chosen, Variant::Second);
            }
        }
    }

    #[test]
    fn a_stretch_has_as_many_groups_as_the_launch() {
        let (_, calls) = choice(|_, _| 20_000_000);
        // One call settles, and four are 32 groups.
        assert_eq!(calls, 2 * 4 * 5);
    }

    #[test]
    fn calls_go_the_way_of_the_stretch() {
        let choice = Choice::new();
        let share = Share { groups: 1, of: 2 };
        let second = Duration::from_secs(1);
        for variant in [
            Variant::First,
            Variant::Second,
            Variant::Second,
            Variant::First,
        ] {
            assert_eq!(choice.run(share, |variant| variant), variant);
            for _ in 0..3 {
                choice.take(choice.state.load(Ordering::Relaxed), share, second);
            }
        }
        // A call that began before the stretch does not count in it.
        let state = choice.state.load(Ordering::Relaxed);
        for _ in 0..3 {
            choice.take(state - ONE_STRETCH, share, second);
        }
        assert_eq!(choice.state.load(Ordering::Relaxed), state);
    }
}
