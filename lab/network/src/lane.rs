//! A lane: one direction of a link, and the times at which its packets arrive.

use std::time::Duration;

/// The properties of a link, in each direction.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Shape {
    /// The shortest time that a packet is on its way.
    pub delay: Duration,
    /// The largest extra time. Packets do not overtake each other.
    pub jitter: Duration,
    /// The share of all packets that are lost, from 0 to 1.
    pub loss: f64,
    /// In how many of all packets a byte of TCP's data is changed, behind the first 64 of the
    /// packet, so that TCP does not notice, from 0 to 1.
    pub damage: f64,
    /// At how many of all packets the connection that they are of is reset, from 0 to 1.
    pub resets: f64,
    /// At how many of all packets nothing gets through any more for [`Shape::outage`], from 0 to 1.
    pub outages: f64,
    /// The time in which nothing gets through.
    pub outage: Duration,
    /// Bits in a second; none is as many as come.
    pub rate: Option<u64>,
}

impl Shape {
    /// As long as a packet may wait for those before it where there is a rate; what would wait for
    /// longer is lost.
    const QUEUE: Duration = Duration::from_millis(200);

    /// A link of this delay.
    #[must_use]
    pub fn delayed(delay: Duration) -> Self {
        Self {
            delay,
            ..Self::default()
        }
    }

    /// A network of a home: 2 ms there and as long back, up to 1 ms more, 600 Mbit/s, one of a
    /// thousand packets lost.
    #[must_use]
    pub fn wifi_6() -> Self {
        Self {
            delay: Duration::from_millis(2),
            jitter: Duration::from_millis(1),
            loss: 0.001,
            rate: Some(600_000_000),
            ..Self::default()
        }
    }

    /// A mobile network: 10 ms there and as long back, up to 4 ms more, 150 Mbit/s, five of ten
    /// thousand packets lost.
    #[must_use]
    pub fn mobile_5g() -> Self {
        Self {
            delay: Duration::from_millis(10),
            jitter: Duration::from_millis(4),
            loss: 0.0005,
            rate: Some(150_000_000),
            ..Self::default()
        }
    }
}

/// Numbers that look random.
#[derive(Clone, Debug)]
pub(crate) struct Random(pub(crate) u64);

impl Random {
    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// From 0 to 1, which it is not.
    fn fraction(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1_u64 << 53) as f64
    }

    pub(crate) fn happens(&mut self, how_often: f64) -> bool {
        // Without a number where there is no question: so that seeds mean the same whatever else a
        // shape has.
        how_often > 0.0 && self.fraction() < how_often
    }
}

/// One direction of a link. Times are from some moment on.
#[derive(Debug, Default)]
pub(crate) struct Lane {
    /// The time at which all packets that have left before are on their way.
    free: Duration,
    /// The time at which the last packet arrives.
    last: Duration,
    /// Until when nothing gets through.
    out: Duration,
}

impl Lane {
    /// The arrival of a packet of so many bytes that leaves now; never, if it is lost.
    pub(crate) fn admit(
        &mut self,
        now: Duration,
        bytes: usize,
        shape: &Shape,
        random: &mut Random,
    ) -> Option<Duration> {
        if random.happens(shape.outages) {
            self.out = now + shape.outage;
        }
        if now < self.out {
            return None;
        }
        let mut leaves = now;
        if let Some(rate) = shape.rate {
            let waits = self.free.saturating_sub(now);
            if waits > Shape::QUEUE {
                return None;
            }
            let nanoseconds = (bytes as u64).saturating_mul(8_000_000_000) / rate.max(1);
            self.free = self.free.max(now) + Duration::from_nanos(nanoseconds);
            leaves = self.free;
        }
        // A lost packet has had its time on the link.
        if random.happens(shape.loss) {
            return None;
        }
        let late = match shape.jitter {
            Duration::ZERO => Duration::ZERO,
            jitter => jitter.mul_f64(random.fraction()),
        };
        self.last = self.last.max(leaves + shape.delay + late);
        Some(self.last)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    fn through(shape: &Shape, seed: u64, count: u32) -> Vec<Option<Duration>> {
        let (mut lane, mut random) = (Lane::default(), Random(seed));
        let packets = 0..count;
        packets
            .map(|number| lane.admit(MS * number, 1500, shape, &mut random))
            .collect()
    }

    #[test]
    fn nothing_overtakes_and_a_seed_says_all() {
        let shape = Shape {
            delay: 10 * MS,
            jitter: 7 * MS,
            loss: 0.25,
            ..Shape::default()
        };
        let times = through(&shape, 3, 4000);
        assert_eq!(times, through(&shape, 3, 4000));
        assert_ne!(times, through(&shape, 4, 4000));
        let arrived: Vec<_> = times.iter().flatten().collect();
        assert!(arrived.is_sorted());
        assert!((2800..3200).contains(&arrived.len()), "{}", arrived.len());
        for (number, time) in (0..).zip(&times) {
            // Those before it may have been late, by no more than they may be.
            let range = MS * number + 10 * MS..=MS * number + 17 * MS;
            assert!(time.is_none_or(|time| range.contains(&time)), "{time:?}");
        }
    }

    #[test]
    fn an_outage_ends() {
        let shape = Shape {
            outages: 0.01,
            outage: 50 * MS,
            ..Shape::default()
        };
        let times = through(&shape, 1, 4000);
        // A packet comes each millisecond: each outage is of fifty at least.
        let runs = times.chunk_by(|one, other| one.is_some() == other.is_some());
        let mut lengths = runs.filter(|run| run[0].is_none()).map(<[_]>::len);
        assert!(lengths.clone().count() > 5);
        assert!(times.last().unwrap().is_none() || lengths.all(|length| length >= 50));
    }

    #[test]
    fn a_rate_is_kept_and_its_queue_bounded() {
        // A packet takes 12 ms, and one comes each millisecond.
        let shape = Shape {
            rate: Some(1_000_000),
            ..Shape::default()
        };
        let times = through(&shape, 1, 4000);
        let arrived: Vec<_> = times.iter().flatten().collect();
        assert!(
            arrived
                .windows(2)
                .all(|pair| *pair[1] == *pair[0] + 12 * MS)
        );
        assert!(times.iter().any(Option::is_none));
        let latest = (0..)
            .zip(&times)
            .filter_map(|(number, time)| Some(time.as_ref()?.saturating_sub(MS * number)));
        assert!(latest.max().unwrap() <= Shape::QUEUE + 12 * MS);
    }
}
