//! The choice of compression for large transfers: a codec where the network is slower than it, as
//! measured.
//!
//! Each side decides on its own messages, and takes the other's compressed ones:
//!
//! 1. The network's rate is measured from the end of one wait for it to the end of the next: in
//!    between it was never without any. No single write tells, for a socket takes much at once and
//!    then nothing for long.
//! 2. From time to time some of the bytes to send are compressed for a trial, by each codec that
//!    both sides have and that is not in use. The trial gives its speed and its ratio.
//! 3. While one message is on its way the next is compressed, so a byte takes as long as the slower
//!    of codec and network. Messages go by the way that takes least time: as they are, by LZ4,
//!    which is fast, or by Zstandard, which makes them shorter. A codec in use goes on being
//!    measured, so it is given up with the next message if the bytes are others or the network is
//!    faster. After a trial that changes nothing, the next one is twice as far away.
//!
//! A message that would not be shorter is sent as it is in any case.

use crate::error::{LinkError, Result};
use crate::stream::Outgoing;
use crate::timer::Timer;
use quipu_protocol::compression::{Codec, Codecs, Packer};
use quipu_protocol::message::{Chunk, Message};
use std::fmt;
use std::str::FromStr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// The choice of messages to compress.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Compression {
    /// Messages that take less time so, unless the other side is on this machine.
    #[default]
    Auto,
    /// The same on this machine too: the other side may be the end of a tunnel.
    Adaptive,
    /// Everything that is shorter for it, by LZ4.
    Lz4,
    /// Everything that is shorter for it, by Zstandard; by LZ4 for another side that is too old for
    /// that.
    Zstd,
    /// Nothing.
    Off,
}

impl FromStr for Compression {
    type Err = String;

    fn from_str(text: &str) -> std::result::Result<Self, String> {
        match text {
            "auto" => Ok(Self::Auto),
            "adaptive" => Ok(Self::Adaptive),
            "lz4" => Ok(Self::Lz4),
            "zstd" => Ok(Self::Zstd),
            "off" => Ok(Self::Off),
            _ => Err(format!(
                "'{text}' is none of auto, adaptive, lz4, zstd and off"
            )),
        }
    }
}

impl fmt::Display for Compression {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.pad(match self {
            Self::Auto => "auto",
            Self::Adaptive => "adaptive",
            Self::Lz4 => "lz4",
            Self::Zstd => "zstd",
            Self::Off => "off",
        })
    }
}

/// Bytes that were sent in bulk.
#[derive(Debug, Default)]
pub struct Traffic {
    plain: AtomicU64,
    sent: AtomicU64,
}

impl Traffic {
    /// The number of plain bytes, and the number of bytes sent for them.
    #[must_use]
    pub fn bytes(&self) -> [u64; 2] {
        [&self.plain, &self.sent].map(|bytes| bytes.load(Ordering::Relaxed))
    }

    fn add(&self, plain: usize, sent: usize) {
        self.plain.fetch_add(plain as u64, Ordering::Relaxed);
        self.sent.fetch_add(sent as u64, Ordering::Relaxed);
    }
}

/// Bytes of a trial while messages go as they are: the network may be so fast that a whole one
/// would cost much.
const TRIAL: usize = 1 << 14;
/// A message of fewer bytes is not worth it.
const LEAST: usize = 1 << 12;
/// Messages before the first trial, and before the next one when something has changed.
const FIRST: u32 = 4;
/// Messages between trials, at most.
const LONGEST: u32 = 512;
/// The share of the time that another way may take at most to be worth a change.
const WORTH: f64 = 0.9;
/// Bytes that the network takes without ever being waited for before it counts as faster than
/// anything: more than a socket keeps.
const UNHEARD: usize = 32 << 20;
/// The share of the time between two waits that may be without bytes to send for it to count.
const IDLE: f64 = 0.125;

/// The recent cost of an amount.
#[derive(Clone, Copy, Debug, Default)]
struct Meter {
    amount: f64,
    cost: f64,
}

impl Meter {
    /// Earlier notes count for less with each new one.
    const KEPT: f64 = 0.875;

    fn note(&mut self, amount: f64, cost: f64) {
        self.amount = self.amount * Self::KEPT + amount;
        self.cost = self.cost * Self::KEPT + cost;
    }

    /// The cost of one unit; zero if that is not known.
    fn each(&self) -> f64 {
        if self.amount > 0.0 {
            self.cost / self.amount
        } else {
            0.0
        }
    }
}

/// The measured rate of the network.
#[derive(Debug, Default)]
struct Network {
    /// Bytes, and seconds that it took for them.
    meter: Meter,
    /// The time at which it was last waited for; since then:
    waited: Option<Duration>,
    /// Bytes that were written,
    written: usize,
    /// and time in which nothing was there to be.
    idle: Duration,
    /// The time of the last bytes.
    last: Duration,
}

impl Network {
    /// So many bytes, which were there from one time on, were written by another, and had to wait
    /// or not.
    fn wrote(&mut self, bytes: usize, from: Duration, to: Duration, has_waited: bool) {
        self.idle += from.saturating_sub(self.last);
        self.last = to;
        self.written += bytes;
        if has_waited {
            if let Some(waited) = self.waited {
                let took = to.saturating_sub(waited).as_secs_f64();
                if self.idle.as_secs_f64() <= IDLE * took {
                    self.meter.note(self.written as f64, took);
                }
            }
            self.waited = Some(to);
        } else if self.written >= UNHEARD {
            self.meter = Meter::default();
            self.waited = None;
        } else {
            return;
        }
        self.written = 0;
        self.idle = Duration::ZERO;
    }
}

/// The measured speed and ratio of a codec.
#[derive(Clone, Copy, Debug, Default)]
struct Known {
    /// Bytes, and seconds to compress them.
    time: Meter,
    /// Bytes, and their compressed length.
    ratio: Meter,
}

impl Known {
    fn note(&mut self, plain: usize, packed: usize, took: Duration) {
        self.time.note(plain as f64, took.as_secs_f64());
        self.ratio.note(plain as f64, packed as f64);
    }
}

/// The measurements, and the choice that follows from them. It has no clock of its own.
#[derive(Debug)]
struct Plan {
    codecs: Codecs,
    network: Network,
    /// Of each codec, in their order.
    known: [Known; Codec::ALL.len()],
    chosen: Option<Codec>,
    /// Messages before the next trial.
    left: u32,
    /// The same after that, if it changes nothing.
    pause: u32,
}

impl Plan {
    fn new(codecs: Codecs) -> Self {
        Self {
            codecs,
            network: Network::default(),
            known: Default::default(),
            chosen: None,
            left: FIRST,
            pause: FIRST,
        }
    }

    /// The number of bytes of the next message to try, and the codecs, if there is to be a trial.
    fn trial(&mut self, length: usize) -> Option<(usize, impl Iterator<Item = Codec> + use<>)> {
        // Nothing is sooner there than at once.
        if self.cost(None) == 0.0 {
            return None;
        }
        self.left = self.left.saturating_sub(1);
        if self.left > 0 {
            return None;
        }
        let (codecs, chosen) = (self.codecs, self.chosen);
        let others = Codec::ALL.into_iter();
        let others = others.filter(move |codec| codecs.have(*codec) && chosen != Some(*codec));
        // Few bytes are compressed less than many, and those of the codec in use are many.
        let most = chosen.map_or(TRIAL, |_| usize::MAX);
        Some((length.min(most), others))
    }

    /// In a trial, so many bytes became so many, in so much time.
    fn tried(&mut self, codec: Codec, plain: usize, packed: usize, took: Duration) {
        // The earlier measurements are of other bytes.
        let known = &mut self.known[codec as usize];
        *known = Known::default();
        known.note(plain, packed, took);
    }

    /// The trial is over.
    fn choose(&mut self) {
        if !self.has_changed() {
            self.pause = (self.pause * 2).min(LONGEST);
            self.left = self.pause;
        }
    }

    /// So many bytes that are sent became so many, in so much time.
    fn compressed(&mut self, codec: Codec, plain: usize, packed: usize, took: Duration) {
        self.known[codec as usize].note(plain, packed, took);
        self.has_changed();
    }

    /// True if something else is best now.
    fn has_changed(&mut self) -> bool {
        let best = self.best();
        let has_changed = best != self.chosen;
        if has_changed {
            self.chosen = best;
            (self.left, self.pause) = (FIRST, FIRST);
        }
        has_changed
    }

    /// The codec that takes least time. Another one than that in use, or than none, has to be worth
    /// the change.
    fn best(&self) -> Option<Codec> {
        let is_worth = |codec: Codec, than| self.cost(Some(codec)) < WORTH * self.cost(than);
        let all = Codec::ALL.into_iter();
        let worth = all.filter(|codec| self.codecs.have(*codec) && is_worth(*codec, None));
        let best = worth.min_by(|a, b| self.cost(Some(*a)).total_cmp(&self.cost(Some(*b))))?;
        let kept = self.chosen.filter(|chosen| is_worth(*chosen, None));
        Some(kept.filter(|_| !is_worth(best, kept)).unwrap_or(best))
    }

    /// Seconds for a byte.
    fn cost(&self, codec: Option<Codec>) -> f64 {
        let network = self.network.meter.each();
        let Some(codec) = codec else {
            return network;
        };
        let Known { time, ratio } = &self.known[codec as usize];
        if ratio.amount > 0.0 {
            time.each().max(network * ratio.each())
        } else {
            f64::INFINITY
        }
    }
}

/// The way that messages go.
#[derive(Debug)]
enum How {
    Plain,
    Always(Codec),
    Measured(Plan),
}

impl How {
    fn of(compression: Compression, out: &Outgoing) -> Self {
        let codecs = out.codecs();
        let always = |codec| codecs.have(codec).then_some(Self::Always(codec));
        let how = match compression {
            Compression::Off => None,
            Compression::Auto if out.is_here() => None,
            Compression::Auto | Compression::Adaptive => Some(Self::Measured(Plan::new(codecs))),
            Compression::Lz4 => always(Codec::Lz4),
            Compression::Zstd => always(Codec::Zstd).or_else(|| always(Codec::Lz4)),
        };
        how.unwrap_or(Self::Plain)
    }
}

/// The compressor of a stream's messages in bulk: for the thread that sends them.
#[derive(Debug)]
pub struct Compressor {
    out: Outgoing,
    how: How,
    packer: Packer,
    timer: Arc<dyn Timer>,
    traffic: Arc<Traffic>,
    /// Bytes that were pushed since the network was last waited for, and since when.
    pushed: usize,
    since: Option<Duration>,
}

impl Compressor {
    /// A compressor for a stream. Messages that are not to be compressed, or whose codec the other
    /// side does not take, are sent as they are.
    #[must_use]
    pub fn new(
        out: Outgoing,
        compression: Compression,
        timer: Arc<dyn Timer>,
        traffic: Arc<Traffic>,
    ) -> Self {
        Self {
            how: How::of(compression, &out),
            out,
            packer: Packer::default(),
            timer,
            traffic,
            pushed: 0,
            since: None,
        }
    }

    /// As [`Outgoing::push`].
    ///
    /// # Errors
    /// As [`Outgoing::push`].
    pub fn push(&mut self, chunk: Chunk<'_>) -> Result<u64> {
        let message = Message::Chunk(chunk);
        let length = chunk.bytes.len();
        if let Some(codec) = self.codec_for(chunk.bytes) {
            let start = self.timer.now();
            let packed = self.packer.pack(&message, codec);
            let packed = packed.map_err(LinkError::NotSent)?;
            let (plain, sent) = packed.map_or((length, length), |packed| packed.lengths());
            if let How::Measured(plan) = &mut self.how {
                let took = self.timer.now().saturating_sub(start);
                plan.compressed(codec, plain, sent, took);
            }
            if let Some(packed) = packed {
                self.pushed += sent;
                self.traffic.add(length, sent);
                return self.out.push_packed(&packed);
            }
        }
        self.pushed += length;
        self.traffic.add(length, length);
        self.out.push(&message)
    }

    /// The codec by which a message with these bytes is to be compressed.
    fn codec_for(&mut self, bytes: &[u8]) -> Option<Codec> {
        let plan = match &mut self.how {
            How::Plain => return None,
            How::Always(codec) => return (bytes.len() >= LEAST).then_some(*codec),
            How::Measured(plan) => plan,
        };
        self.since.get_or_insert_with(|| self.timer.now());
        if bytes.len() < LEAST {
            return None;
        }
        if let Some((length, codecs)) = plan.trial(bytes.len()) {
            for codec in codecs {
                let start = self.timer.now();
                let packed = self.packer.try_out(&bytes[..length], codec);
                let took = self.timer.now().saturating_sub(start);
                plan.tried(codec, length, packed, took);
            }
            plan.choose();
        }
        plan.chosen
    }

    /// As [`Outgoing::wait_for_room`].
    ///
    /// # Errors
    /// As [`Outgoing::wait_for_room`].
    pub fn wait_for_room(&mut self, most: usize) -> Result<()> {
        let has_waited = self.out.wait_for_room(most)?;
        let pushed = std::mem::take(&mut self.pushed);
        if let (How::Measured(plan), Some(since)) = (&mut self.how, self.since.take()) {
            let now = self.timer.now();
            plan.network.wrote(pushed, since, now, has_waited);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use quipu_protocol::compression::{LZ4, ZSTD};

    const CHUNK: usize = 1 << 17;
    /// Bytes that a socket keeps.
    const ROOM: f64 = 2e6;

    /// A network, codecs, and bytes.
    #[derive(Clone, Copy)]
    struct World {
        /// Bytes in a second.
        network: f64,
        /// Of each codec, bytes in a second, and the length that a byte becomes.
        codecs: [(f64, f64); 2],
    }

    /// 100 Mbit/s, and text.
    const SLOW: World = World {
        network: 12.5e6,
        codecs: [(600e6, 0.4), (300e6, 0.3)],
    };
    /// 40 Gbit/s.
    const FAST: World = World {
        network: 5e9,
        ..SLOW
    };
    const NOISE: World = World {
        codecs: [(4e9, 1.0), (4e9, 1.0)],
        ..SLOW
    };

    /// A sender, as far as its time goes.
    struct Sender {
        plan: Plan,
        now: f64,
        /// Bytes that the socket has, and as of when.
        full: f64,
        seen: f64,
    }

    /// The numbers of chunks that went as they are and by each codec, and of trials.
    #[derive(Debug, Default, PartialEq)]
    struct Sent {
        plain: u32,
        packed: [u32; 2],
        tried: u32,
    }

    impl Sender {
        fn new(features: u64) -> Self {
            Self {
                plan: Plan::new(Codecs::of(features)),
                now: 0.0,
                full: 0.0,
                seen: 0.0,
            }
        }

        /// Sends so many chunks.
        fn send(&mut self, world: World, chunks: u32) -> Sent {
            let mut sent = Sent::default();
            let seconds = Duration::from_secs_f64;
            for _ in 0..chunks {
                let from = seconds(self.now);
                let pack = |now: &mut f64, codec: Codec, bytes: usize| {
                    let (speed, ratio) = world.codecs[codec as usize];
                    let took = bytes as f64 / speed;
                    *now += took;
                    ((bytes as f64 * ratio) as usize, seconds(took))
                };
                let most = self.plan.chosen.map_or(TRIAL, |_| CHUNK);
                if let Some((bytes, codecs)) = self.plan.trial(CHUNK) {
                    assert_eq!(bytes, most);
                    sent.tried += 1;
                    for codec in codecs {
                        let (packed, took) = pack(&mut self.now, codec, bytes);
                        self.plan.tried(codec, bytes, packed, took);
                    }
                    self.plan.choose();
                }
                let mut bytes = CHUNK;
                if let Some(codec) = self.plan.chosen {
                    sent.packed[codec as usize] += 1;
                    let (packed, took) = pack(&mut self.now, codec, CHUNK);
                    self.plan.compressed(codec, CHUNK, packed, took);
                    bytes = packed;
                } else {
                    sent.plain += 1;
                }
                let has_waited = self.write(bytes as f64, world.network);
                let to = seconds(self.now);
                self.plan.network.wrote(bytes, from, to, has_waited);
            }
            sent
        }

        /// A socket that is full takes nothing more until a third of it is free, as Linux has it.
        fn write(&mut self, bytes: f64, network: f64) -> bool {
            let gone = (self.now - self.seen) * network;
            self.full = (self.full - gone).max(0.0);
            let has_waited = self.full + bytes > ROOM;
            if has_waited {
                self.now += (self.full - ROOM * 2.0 / 3.0) / network;
                self.full = ROOM * 2.0 / 3.0;
            }
            self.full += bytes;
            // To encrypt them, and hand them to the system.
            self.now += bytes / 3e9;
            self.seen = self.now;
            has_waited
        }
    }

    #[test]
    fn a_slow_network_gets_what_is_shortest() {
        let mut sender = Sender::new(LZ4 | ZSTD);
        let sent = sender.send(SLOW, 1000);
        // As they are until it was waited for twice.
        assert!(
            sent.plain < 30 && sent.packed == [0, 1000 - sent.plain],
            "{sent:?}"
        );
        assert!(sent.tried < 10, "{sent:?}");
    }

    #[test]
    fn a_network_that_is_faster_than_zstandard_gets_what_is_compressed_soonest() {
        let mut sender = Sender::new(LZ4 | ZSTD);
        let gigabytes = World {
            network: 200e6,
            codecs: [(600e6, 0.4), (150e6, 0.3)],
        };
        let sent = sender.send(gigabytes, 1000);
        assert!(sent.packed[0] > 900 && sent.packed[1] == 0, "{sent:?}");
    }

    #[test]
    fn what_only_zstandard_makes_shorter_is_compressed_by_that() {
        let mut sender = Sender::new(LZ4 | ZSTD);
        let bits = World {
            codecs: [(4e9, 1.0), (500e6, 0.5)],
            ..SLOW
        };
        let sent = sender.send(bits, 1000);
        assert!(sent.packed[0] == 0 && sent.packed[1] > 950, "{sent:?}");
    }

    #[test]
    fn another_side_that_takes_one_codec_gets_that() {
        for (features, own) in [(LZ4, 0), (ZSTD, 1)] {
            let sent = Sender::new(features).send(SLOW, 1000);
            assert!(
                sent.packed[own] > 950 && sent.packed[1 - own] == 0,
                "{sent:?}"
            );
        }
        assert_eq!(Sender::new(0).send(SLOW, 1000).packed, [0, 0]);
    }

    #[test]
    fn a_fast_network_gets_bytes_as_they_are_after_few_trials() {
        let sent = Sender::new(LZ4 | ZSTD).send(FAST, 10_000);
        assert!(sent.packed == [0, 0] && sent.tried < 30, "{sent:?}");
        // So does one that is only faster than the codecs.
        let gigabytes = World {
            network: 700e6,
            ..SLOW
        };
        let sent = Sender::new(LZ4 | ZSTD).send(gigabytes, 10_000);
        assert!(sent.packed == [0, 0] && sent.tried < 30, "{sent:?}");
    }

    #[test]
    fn what_cannot_be_compressed_is_sent_as_it_is_after_few_trials() {
        let sent = Sender::new(LZ4 | ZSTD).send(NOISE, 10_000);
        assert!(sent.packed == [0, 0] && sent.tried < 30, "{sent:?}");
    }

    #[test]
    fn when_the_network_becomes_slow_it_is_found_out() {
        let mut sender = Sender::new(LZ4 | ZSTD);
        sender.send(FAST, 20_000);
        let sent = sender.send(SLOW, 3 * LONGEST);
        assert!(sent.packed[1] > LONGEST, "{sent:?}");
        // And when it is fast again, once it has taken much without a wait.
        sender.send(FAST, (4 * UNHEARD / CHUNK) as u32);
        assert_eq!(sender.send(FAST, 1000).packed, [0, 0]);
    }

    #[test]
    fn when_the_network_becomes_somewhat_faster_so_does_the_codec() {
        let mut sender = Sender::new(LZ4 | ZSTD);
        let slow_codec = |network| World {
            network,
            codecs: [(600e6, 0.4), (60e6, 0.3)],
        };
        let sent = sender.send(slow_codec(12.5e6), 1000);
        assert!(sent.packed[1] > 900, "{sent:?}");
        sender.send(slow_codec(100e6), 3000);
        let sent = sender.send(slow_codec(100e6), 1000);
        assert!(sent.packed[0] > 900, "{sent:?}");
        sender.send(slow_codec(12.5e6), 3000);
        let sent = sender.send(slow_codec(12.5e6), 1000);
        assert!(sent.packed[1] > 900, "{sent:?}");
    }

    #[test]
    fn a_codec_that_is_hardly_better_changes_nothing() {
        let mut sender = Sender::new(LZ4 | ZSTD);
        let zstd = |ratio| World {
            codecs: [(600e6, 0.4), (300e6, ratio)],
            ..SLOW
        };
        sender.send(zstd(0.42), 100);
        let sent = sender.send(zstd(0.38), 2000);
        assert_eq!((sent.plain, sent.packed), (0, [2000, 0]));
        sender.send(zstd(0.3), LONGEST);
        let sent = sender.send(zstd(0.38), 1000);
        assert_eq!((sent.plain, sent.packed), (0, [0, 1000]));
    }

    #[test]
    fn when_the_bytes_become_others_it_is_found_out() {
        let mut sender = Sender::new(LZ4 | ZSTD);
        sender.send(SLOW, 100);
        let sent = sender.send(NOISE, 1000);
        assert!(sent.plain > 960, "{sent:?}");
        let sent = sender.send(SLOW, 2 * LONGEST);
        assert!(sent.packed[1] > LONGEST / 2, "{sent:?}");
        // By others, too, that LZ4 does as well with and in less time.
        let others = World {
            network: 100e6,
            codecs: [(600e6, 0.3), (70e6, 0.3)],
        };
        sender.send(others, 3 * LONGEST);
        let sent = sender.send(others, 1000);
        assert!(sent.packed[0] > 900, "{sent:?}");
    }

    #[test]
    fn time_in_which_nothing_is_sent_is_not_the_networks() {
        let mut sender = Sender::new(LZ4 | ZSTD);
        for _ in 0..100 {
            // More than the socket keeps, for a network that is faster than the codecs.
            let sent = sender.send(
                World {
                    network: 700e6,
                    ..FAST
                },
                24,
            );
            assert_eq!(sent.packed, [0, 0]);
            sender.now += 1.0;
        }
    }

    #[test]
    fn a_clock_that_stands_still_has_nothing_compressed() {
        let mut plan = Plan::new(Codecs::of(LZ4 | ZSTD));
        for _ in 0..1000 {
            assert!(plan.trial(CHUNK).is_none());
            let zero = Duration::ZERO;
            plan.network.wrote(CHUNK, zero, zero, true);
            plan.compressed(Codec::Lz4, CHUNK, 1, zero);
            assert_eq!(plan.chosen, None);
        }
    }

    #[test]
    fn what_is_written_is_read() {
        for compression in [
            Compression::Auto,
            Compression::Adaptive,
            Compression::Lz4,
            Compression::Zstd,
            Compression::Off,
        ] {
            assert_eq!(compression.to_string().parse(), Ok(compression));
        }
        let error = "gzip".parse::<Compression>().unwrap_err();
        assert!(error.contains("auto, adaptive, lz4, zstd and off"));
    }
}
