//! The lead of a node's clock over this machine's.
//!
//! Nothing is measured for it: each command that tells when it ran bounds it. The node got it after
//! it was sent here, and it had ended there before its end was seen here, so with `ahead` the
//! node's clock less ours,
//!
//! ```text
//! ended - seen  <=  ahead  <=  submitted - sent
//! ```
//!
//! The bounds of all commands hold at once, but for the drift of the clocks between them: at most
//! [`DRIFT`]. So earlier bounds are widened by that. The middle of the common interval is the
//! estimate, wrong by half of its width at most. If nothing is left, a clock was set, or the node
//! does not tell the truth: then it begins anew with the last bounds.

use crate::locked;
use quipu_scheduler::trace::{self, NodeClock};
use std::collections::{HashMap, HashSet};
use std::sync::Mutex;

/// By how much two clocks drift apart at most, in billionths: quartz is ten times as good, and is
/// corrected over a network by less.
const DRIFT: i128 = 200_000;

/// The times of a command, in nanoseconds: at which it was sent from here and its end was seen, by
/// this machine's clock; and at which it was handed to its device, began and ended, by the node's.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sighting {
    pub(crate) sent: u64,
    pub(crate) submitted: u64,
    pub(crate) started: u64,
    pub(crate) ended: u64,
    pub(crate) seen: u64,
}

/// The bounds that are known at a time of this machine's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Bounds {
    at: u64,
    least: i128,
    most: i128,
}

impl Bounds {
    fn middle(&self) -> i128 {
        (self.least + self.most).div_euclid(2)
    }

    /// By how much the middle may be wrong.
    fn error(&self) -> i128 {
        (self.most - self.least + 1) / 2
    }
}

#[derive(Debug, Default)]
struct Known {
    now: Option<Bounds>,
    /// The bounds from which drift is counted.
    first: Option<Bounds>,
    /// By how much it might be wrong when that was last said in the trace.
    said: Option<i128>,
    /// Devices of which it was said.
    devices: HashSet<u32>,
    /// The time at which the last command of each device's lane ended, by the node's clock and by
    /// ours.
    lanes: HashMap<Lane, (u64, u64)>,
    /// Until when bytes were last under way to each other node, by our clock.
    ways: HashMap<usize, u64>,
    /// Lanes in the trace that were named: of which device, and which.
    named: HashSet<(u32, u32)>,
}

/// A device's number on its node, and a lane's there.
type Lane = (u32, u32);

/// A node's clock.
#[derive(Debug, Default)]
pub(crate) struct LinkClock(Mutex<Known>);

impl LinkClock {
    /// Takes a command's word for it. When it began and ended by this machine's clock, between when
    /// it was sent and when its end was seen; none if that cannot be.
    pub(crate) fn note(&self, sighting: &Sighting) -> Option<(u64, u64)> {
        let known = &mut *locked(&self.0);
        let ahead = known.learn(sighting)?;
        let here = |there: u64| {
            let here = i128::from(there) - ahead;
            let here = here.clamp(sighting.sent.into(), sighting.seen.into());
            u64::try_from(here).unwrap_or(sighting.seen)
        };
        let started = here(sighting.started);
        Some((started, here(sighting.ended).max(started)))
    }

    /// The same of a command on a lane: a command that came after another there begins after its
    /// end here as well, though more is known of the clock by now. (In a trace, those of a lane do
    /// not overlap.)
    pub(crate) fn note_on(&self, lane: Lane, sighting: &Sighting) -> Option<(u64, u64)> {
        let (mut started, mut ended) = self.note(sighting)?;
        let lanes = &mut locked(&self.0).lanes;
        let (there, here) = lanes.entry(lane).or_default();
        if sighting.started >= *there {
            started = started.max(*here).min(sighting.seen);
            ended = ended.max(started);
            (*there, *here) = (sighting.ended, ended);
        }
        Some((started, ended))
    }

    /// Bytes were under way from this node to another, behind those before them: from when the way
    /// was theirs, by our clock, and until when.
    pub(crate) fn on_way(&self, to: usize, started: u64, ended: u64) -> (u64, u64) {
        let ways = &mut locked(&self.0).ways;
        let last = ways.entry(to).or_default();
        let ended = ended.max(started);
        let started = started.max(*last).min(ended);
        *last = ended.max(*last);
        (started, ended)
    }

    /// True if a lane is to be named in the trace, which it is once.
    pub(crate) fn is_new_lane(&self, device: u32, lane: u32) -> bool {
        locked(&self.0).named.insert((device, lane))
    }

    /// Puts the bounds into the trace, if the device's are not there yet, or have become better by
    /// an eighth.
    pub(crate) fn tell(&self, node: &str, device: u32) {
        let known = &mut *locked(&self.0);
        let Some(now) = known.now else {
            return;
        };
        let is_better = known.said.is_none_or(|said| now.error() < said - said / 8);
        if !known.devices.insert(device) && !is_better {
            return;
        }
        known.said = Some(now.error());
        let narrow = |number: i128| i64::try_from(number).unwrap_or(i64::MAX);
        let (drift, drift_error) = known.drift();
        trace::note_clock(
            device,
            &NodeClock {
                node,
                ahead_ns: narrow(now.middle()),
                error_ns: narrow(now.error()).unsigned_abs(),
                drift_ppb: narrow(drift),
                drift_error_ppb: narrow(drift_error).unsigned_abs(),
            },
        );
    }
}

impl Known {
    /// By how much the node's clock is ahead, as far as is known with this.
    fn learn(&mut self, sighting: &Sighting) -> Option<i128> {
        let number = |number: u64| i128::from(number);
        let said = Bounds {
            at: sighting.seen,
            least: number(sighting.ended) - number(sighting.seen),
            most: number(sighting.submitted) - number(sighting.sent),
        };
        if said.least > said.most {
            // It says that it took longer than it can have taken.
            return None;
        }
        let before = self.now.map(|now| {
            let drifted = number(sighting.seen.abs_diff(now.at)) * DRIFT / 1_000_000_000 + 1;
            Bounds {
                at: now.at.max(said.at),
                least: (now.least - drifted).max(said.least),
                most: (now.most + drifted).min(said.most),
            }
        });
        let now = before.filter(|both| both.least <= both.most);
        if now.is_none() {
            // A clock was set, or this is the first.
            self.first = None;
            self.said = None;
        }
        let now = now.unwrap_or(said);
        self.now = Some(now);
        // Drift is counted from good bounds: from the best of the first second.
        let first = self.first.get_or_insert(now);
        if now.error() < first.error() && now.at.saturating_sub(first.at) < 1_000_000_000 {
            *first = now;
        }
        Some(now.middle())
    }

    /// By how many billionths the node's clock is faster, and by how much that may be wrong.
    fn drift(&self) -> (i128, i128) {
        let (Some(first), Some(now)) = (self.first, self.now) else {
            return (0, DRIFT);
        };
        let passed = i128::from(now.at.saturating_sub(first.at)).max(1);
        let of = |change: i128| change * 1_000_000_000 / passed;
        let error = of(first.error() + now.error());
        if error >= DRIFT {
            // It is known better without having been seen.
            return (0, DRIFT);
        }
        (of(now.middle() - first.middle()), error)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Numbers without order.
    struct Numbers(u64);

    impl Numbers {
        fn below(&mut self, most: u64) -> u64 {
            self.0 = self
                .0
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1);
            (self.0 >> 33) % most
        }
    }

    /// A command at a time, between machines whose clocks the tests know.
    fn sighting(
        numbers: &mut Numbers,
        at: u64,
        there: impl Fn(u64) -> u64,
    ) -> (Sighting, [u64; 2]) {
        // There: up to 100 µs on the way, at times much more.
        let way = |numbers: &mut Numbers| match numbers.below(10) {
            0 => numbers.below(5_000_000),
            _ => 5000 + numbers.below(100_000),
        };
        let submitted = at + way(numbers);
        let started = submitted + numbers.below(20_000);
        let ended = started + numbers.below(50_000);
        let sighting = Sighting {
            sent: at,
            submitted: there(submitted),
            started: there(started),
            ended: there(ended),
            seen: ended + way(numbers),
        };
        (sighting, [started, ended])
    }

    #[test]
    fn the_truth_is_within_what_is_said() {
        for seed in 0..200 {
            let mut numbers = Numbers(seed);
            let offset = i128::from(numbers.below(1 << 40)) - (1 << 39);
            let drift = i128::from(numbers.below(2 * 190_000)) - 190_000;
            let ahead = |at: u64| offset + i128::from(at) * drift / 1_000_000_000;
            let there = |at: u64| (i128::from(at) + ahead(at)) as u64;
            let clock = LinkClock::default();
            let mut at = 1 << 41;
            for number in 0..300 {
                at += numbers.below(30_000_000);
                let (sighting, truth) = sighting(&mut numbers, at, there);
                let (started, ended) = clock.note(&sighting).unwrap();
                assert!(sighting.sent <= started && started <= ended && ended <= sighting.seen);
                let known = locked(&clock.0);
                let now = known.now.unwrap();
                let error = now.error() + 2;
                let wrong = (now.middle() - ahead(now.at)).abs();
                assert!(wrong <= error, "{wrong} of {error}, seed {seed}, {number}");
                for (said, is) in [started, ended].into_iter().zip(truth) {
                    // The drift in the command's own time is added.
                    let wrong = i128::from(said.abs_diff(is));
                    assert!(
                        wrong <= error + 2500,
                        "{wrong} of {error}, seed {seed}, {number}"
                    );
                }
                let (said, wrong) = known.drift();
                assert!(
                    (said - drift).abs() <= wrong + 10,
                    "{said} for {drift}, {wrong}"
                );
            }
            let now = locked(&clock.0).now.unwrap();
            // Better than any one command would say by far.
            assert!(now.error() < 60_000, "{now:?}");
        }
    }

    #[test]
    fn commands_of_a_lane_do_not_overlap_and_others_may() {
        for seed in 0..50 {
            let (mut numbers, clock) = (Numbers(seed), LinkClock::default());
            let there = |at: u64| at + 1_000_000;
            let (mut at, mut last) = (1 << 30, [0; 2]);
            for number in 0..200_u32 {
                let lane = number % 2;
                let (mut sighting, _) = sighting(&mut numbers, at, there);
                // As a lane has them: one after the other.
                let before = std::mem::replace(&mut last[lane as usize], sighting.ended);
                sighting.started = sighting.started.max(before);
                sighting.ended = sighting.ended.max(sighting.started);
                sighting.seen = sighting.seen.max(sighting.ended - 1_000_000);
                last[lane as usize] = sighting.ended;
                let ours = locked(&clock.0)
                    .lanes
                    .get(&(3, lane))
                    .map_or(0, |ends| ends.1);
                let (started, ended) = clock.note_on((3, lane), &sighting).unwrap();
                assert!(started >= ours.min(sighting.seen) && started <= ended);
                assert!(ended <= sighting.seen);
                at += numbers.below(200_000);
            }
        }
    }

    #[test]
    fn what_goes_to_a_node_is_shown_one_after_the_other() {
        let clock = LinkClock::default();
        assert_eq!(clock.on_way(1, 10, 30), (10, 30));
        assert_eq!(clock.on_way(1, 20, 50), (30, 50));
        // Another node's way is another, and a quicker transfer is not shown later than it was.
        assert_eq!(clock.on_way(2, 20, 40), (20, 40));
        assert_eq!(clock.on_way(1, 25, 40), (40, 40));
        assert_eq!(clock.on_way(1, 60, 55), (60, 60));
        assert!(clock.is_new_lane(1, 2) && !clock.is_new_lane(1, 2) && clock.is_new_lane(1, 3));
    }

    #[test]
    fn a_clock_that_is_set_is_followed() {
        let mut numbers = Numbers(7);
        let clock = LinkClock::default();
        for (ahead, from) in [(1_000_000_u64, 1 << 30), (900_000_000, 1 << 31)] {
            for number in 0..20 {
                let there = |at: u64| at + ahead;
                let (sighting, truth) = sighting(&mut numbers, from + number * 1_000_000, there);
                let (started, _) = clock.note(&sighting).unwrap();
                assert!(started.abs_diff(truth[0]) < 6_000_000);
            }
        }
    }

    #[test]
    fn what_cannot_be_is_not_believed() {
        let clock = LinkClock::default();
        let mut sighting = Sighting {
            sent: 1000,
            submitted: 500,
            started: 500,
            ended: 5000,
            seen: 2000,
        };
        assert_eq!(clock.note(&sighting), None);
        assert_eq!(locked(&clock.0).now, None);
        // Whatever numbers come.
        sighting.ended = u64::MAX;
        assert_eq!(clock.note(&sighting), None);
        sighting = Sighting {
            sent: 0,
            submitted: u64::MAX,
            started: u64::MAX,
            ended: u64::MAX,
            seen: 0,
        };
        assert_eq!(clock.note(&sighting), Some((0, 0)));
        clock.tell("node", 0);
    }
}
