//! Whether what is sent in bulk is compressed: where the network is slower than the codec, as measured.
//!
//! Each side sees to what it sends, and takes what the other compresses:
//!
//! 1. How fast the network takes bytes is measured as they are written, by how long the writer was kept.
//! 2. From time to time a little of what is sent is compressed for a trial, which says how fast that is and what it saves.
//! 3. While compressing first and sending less takes less time on the whole than sending it as it is, messages are
//!    compressed, which goes on being measured. When it does not any more, because the bytes are others or the network is
//!    faster, they are sent as they are, and the next trial is twice as far away.
//!
//! A message that would not be shorter is sent as it is in any case.

use crate::error::Result;
use crate::stream::Outgoing;
use crate::timer::Timer;
use quipu_wire::compression::Packer;
use quipu_wire::message::{Chunk, Message};
use std::fmt;
use std::str::FromStr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// What is compressed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Compression {
    /// What takes less time so, unless the other side is on this machine.
    #[default]
    Auto,
    /// The same on this machine too: what is there may be the end of a tunnel.
    Adaptive,
    /// Everything that is shorter for it, by LZ4.
    Lz4,
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
            "off" => Ok(Self::Off),
            _ => Err(format!("'{text}' is none of auto, adaptive, lz4 and off")),
        }
    }
}

impl fmt::Display for Compression {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::Auto => "auto",
            Self::Adaptive => "adaptive",
            Self::Lz4 => "lz4",
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
    /// How many there were, and how many were sent for them.
    #[must_use]
    pub fn bytes(&self) -> [u64; 2] {
        [&self.plain, &self.sent].map(|bytes| bytes.load(Ordering::Relaxed))
    }

    fn add(&self, plain: usize, sent: usize) {
        self.plain.fetch_add(plain as u64, Ordering::Relaxed);
        self.sent.fetch_add(sent as u64, Ordering::Relaxed);
    }
}

/// Bytes of a trial.
const TRIAL: usize = 1 << 14;
/// A message of fewer bytes is not worth it.
const LEAST: usize = 1 << 12;
/// Messages before the first trial, and after one that was in vain.
const FIRST: u32 = 4;
/// Messages between trials, at most.
const LONGEST: u32 = 512;
/// What of the time has to be left for compressing to be worth it.
const WORTH: f64 = 0.9;

/// How much of something takes how long, of late.
#[derive(Clone, Copy, Debug, Default)]
struct Meter {
    amount: f64,
    cost: f64,
}

impl Meter {
    /// What was noted counts for less with each time more is.
    const KEPT: f64 = 0.875;

    fn note(&mut self, amount: f64, cost: f64) {
        self.amount = self.amount * Self::KEPT + amount;
        self.cost = self.cost * Self::KEPT + cost;
    }

    /// What one of it costs; zero if that is not known.
    fn each(&self) -> f64 {
        if self.amount > 0.0 {
            self.cost / self.amount
        } else {
            0.0
        }
    }
}

/// What is done with the next message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    /// It is sent as it is.
    Plain,
    /// So it is, unless a trial says otherwise.
    Try,
    /// It is compressed.
    Pack,
}

/// What is known, and what follows from it. It has no clock of its own.
#[derive(Debug)]
struct Plan {
    /// Bytes, and seconds that the network took for them.
    link: Meter,
    /// Bytes, and seconds to compress them.
    codec: Meter,
    /// Bytes, and what they were compressed.
    ratio: Meter,
    is_packing: bool,
    /// Messages before the next trial.
    left: u32,
    /// The same after that, if it is in vain.
    pause: u32,
}

impl Default for Plan {
    fn default() -> Self {
        Self {
            link: Meter::default(),
            codec: Meter::default(),
            ratio: Meter::default(),
            is_packing: false,
            left: FIRST,
            pause: FIRST,
        }
    }
}

impl Plan {
    fn step(&mut self) -> Step {
        if self.is_packing {
            return Step::Pack;
        }
        self.left = self.left.saturating_sub(1);
        if self.left > 0 {
            return Step::Plain;
        }
        Step::Try
    }

    /// So many bytes were written, and the network has taken so long.
    fn wrote(&mut self, bytes: usize, took: Duration) {
        self.link.note(bytes as f64, took.as_secs_f64());
    }

    /// So many bytes became so many, in so much time. True if more of them are to.
    fn compressed(&mut self, plain: usize, packed: usize, took: Duration) -> bool {
        self.codec.note(plain as f64, took.as_secs_f64());
        self.ratio.note(plain as f64, packed as f64);
        let is_worth = self.is_worth();
        if is_worth {
            self.pause = FIRST;
        } else {
            self.left = self.pause;
            self.pause = (self.pause * 2).min(LONGEST);
            // The next trial is of other bytes.
            self.ratio = Meter::default();
        }
        self.is_packing = is_worth;
        is_worth
    }

    /// Whether a byte is sent sooner compressed.
    fn is_worth(&self) -> bool {
        let plain = self.link.each();
        let packed = self.codec.each() + plain * self.ratio.each();
        packed < WORTH * plain
    }
}

/// What a stream's messages in bulk go through: for the thread that sends them.
#[derive(Debug)]
pub struct Compressor {
    out: Outgoing,
    compression: Compression,
    plan: Plan,
    packer: Packer,
    timer: Arc<dyn Timer>,
    traffic: Arc<Traffic>,
    /// Bytes that were pushed since the network was last waited for.
    pushed: usize,
}

impl Compressor {
    /// For a stream. What is not to be compressed, or not taken by the other side, is sent as it is.
    #[must_use]
    pub fn new(
        out: Outgoing,
        compression: Compression,
        timer: Arc<dyn Timer>,
        traffic: Arc<Traffic>,
    ) -> Self {
        let is_off = !out.takes_compressed() || (compression == Compression::Auto && out.is_here());
        Self {
            compression: if is_off {
                Compression::Off
            } else {
                compression
            },
            out,
            plan: Plan::default(),
            packer: Packer::default(),
            timer,
            traffic,
            pushed: 0,
        }
    }

    /// As [`Outgoing::push`].
    ///
    /// # Errors
    /// As [`Outgoing::push`].
    pub fn push(&mut self, chunk: Chunk<'_>) -> Result<u64> {
        let message = Message::Chunk(chunk);
        let length = chunk.bytes.len();
        if self.is_packed(&chunk) {
            let start = self.timer.now();
            let packed = self.packer.pack(&message);
            let packed = packed.map_err(crate::LinkError::NotSent)?;
            let lengths = packed.as_ref().map_or((length, length), |it| it.lengths());
            let took = self.timer.now().saturating_sub(start);
            self.plan.compressed(lengths.0, lengths.1, took);
            if let Some(packed) = packed {
                self.pushed += lengths.1;
                self.traffic.add(length, lengths.1);
                return self.out.push_packed(&packed);
            }
        }
        self.pushed += length;
        self.traffic.add(length, length);
        self.out.push(&message)
    }

    /// Whether a chunk is to be compressed.
    fn is_packed(&mut self, chunk: &Chunk<'_>) -> bool {
        let length = chunk.bytes.len();
        match self.compression {
            _ if length < LEAST => false,
            Compression::Off => false,
            Compression::Lz4 => true,
            Compression::Auto | Compression::Adaptive => match self.plan.step() {
                Step::Plain => false,
                Step::Pack => true,
                Step::Try => {
                    let bytes = &chunk.bytes[..length.min(TRIAL)];
                    let start = self.timer.now();
                    let packed = self.packer.try_out(bytes);
                    let took = self.timer.now().saturating_sub(start);
                    self.plan.compressed(bytes.len(), packed, took)
                }
            },
        }
    }

    /// As [`Outgoing::wait_for_room`].
    ///
    /// # Errors
    /// As [`Outgoing::wait_for_room`].
    pub fn wait_for_room(&mut self, most: usize) -> Result<()> {
        if matches!(self.compression, Compression::Off | Compression::Lz4) {
            return self.out.wait_for_room(most);
        }
        let start = self.timer.now();
        let waited = self.out.wait_for_room(most);
        let took = self.timer.now().saturating_sub(start);
        self.plan.wrote(std::mem::take(&mut self.pushed), took);
        waited
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a promise that is not kept panics")]
mod tests {
    use super::*;

    const CHUNK: usize = 1 << 17;

    /// A network, a codec, and bytes.
    #[derive(Clone, Copy)]
    struct World {
        /// Bytes in a second.
        link: f64,
        codec: f64,
        /// What becomes of a byte.
        ratio: f64,
    }

    /// Has a plan send so many chunks; how many were compressed, and tried.
    fn run(plan: &mut Plan, world: World, chunks: u32) -> (u32, u32) {
        let (mut packed, mut tried) = (0, 0);
        let seconds = Duration::from_secs_f64;
        for _ in 0..chunks {
            let pack = |plan: &mut Plan, bytes: usize| {
                let took = seconds(bytes as f64 / world.codec);
                plan.compressed(bytes, (bytes as f64 * world.ratio) as usize, took)
            };
            let is_packed = match plan.step() {
                Step::Plain => false,
                Step::Pack => true,
                Step::Try => {
                    tried += 1;
                    pack(plan, TRIAL)
                }
            };
            let mut sent = CHUNK;
            if is_packed {
                packed += 1;
                pack(plan, CHUNK);
                sent = (CHUNK as f64 * world.ratio) as usize;
            }
            plan.wrote(sent, seconds(sent as f64 / world.link));
        }
        (packed, tried)
    }

    const SLOW: World = World {
        link: 12.5e6,
        codec: 600e6,
        ratio: 0.5,
    };

    #[test]
    fn a_network_that_is_slower_than_the_codec_gets_fewer_bytes() {
        let mut plan = Plan::default();
        assert_eq!(run(&mut plan, SLOW, 1000), (1000 - FIRST + 1, 1));
    }

    #[test]
    fn a_fast_network_gets_bytes_as_they_are_after_few_trials() {
        let fast = World { link: 5e9, ..SLOW };
        assert_eq!(run(&mut Plan::default(), fast, 10_000).0, 0);
        let (_, tried) = run(&mut Plan::default(), fast, 10_000);
        assert!(tried < 30, "{tried}");
    }

    #[test]
    fn what_cannot_be_compressed_is_sent_as_it_is_after_few_trials() {
        let random = World { ratio: 1.0, ..SLOW };
        let (packed, tried) = run(&mut Plan::default(), random, 10_000);
        assert!(packed == 0 && tried < 30, "{packed} {tried}");
    }

    #[test]
    fn when_the_network_becomes_slow_it_is_found_out() {
        let mut plan = Plan::default();
        run(&mut plan, World { link: 5e9, ..SLOW }, 20_000);
        let (packed, _) = run(&mut plan, SLOW, 3 * LONGEST);
        assert!(packed > LONGEST, "{packed}");
        // And when it is fast again.
        let (packed, _) = run(&mut plan, World { link: 5e9, ..SLOW }, 1000);
        assert!(packed < 40, "{packed}");
    }

    #[test]
    fn when_the_bytes_become_others_it_is_found_out() {
        let mut plan = Plan::default();
        run(&mut plan, SLOW, 100);
        let (packed, _) = run(&mut plan, World { ratio: 1.0, ..SLOW }, 1000);
        assert!(packed < 40, "{packed}");
        let (packed, _) = run(&mut plan, SLOW, 2 * LONGEST);
        assert!(packed > LONGEST / 2, "{packed}");
    }

    #[test]
    fn a_clock_that_stands_still_has_nothing_compressed() {
        let mut plan = Plan::default();
        for _ in 0..1000 {
            assert_ne!(plan.step(), Step::Pack);
            plan.wrote(CHUNK, Duration::ZERO);
            assert!(!plan.compressed(CHUNK, 1, Duration::ZERO));
        }
    }

    #[test]
    fn what_is_written_is_read() {
        for compression in [
            Compression::Auto,
            Compression::Adaptive,
            Compression::Lz4,
            Compression::Off,
        ] {
            assert_eq!(compression.to_string().parse(), Ok(compression));
        }
        let error = "gzip".parse::<Compression>().unwrap_err();
        assert!(error.contains("auto, adaptive, lz4 and off"));
    }
}
