//! The decoder is fed bytes that nobody would send, and bytes that are nearly right. It must take
//! them or refuse them, and what it takes must be written again just as it came: nothing that is
//! decoded has two forms.
//!
//! The long form: `QUIPU_FUZZ_ROUNDS=10000000 cargo test --release -p quipu-protocol --test fuzz --
//! --ignored`.
#![allow(clippy::unwrap_used, reason = "helpers assert by unwrapping")]

mod support;

use quipu_protocol::batch::Batch;
use quipu_protocol::compression::{Codec, Packer, Unpacker};
use quipu_protocol::frame::{Frame, parse};
use quipu_protocol::limits::{HEADER, MAX_FRAME, MIN_FRAME};
use quipu_protocol::message::{Chunk, Message, decode};
use quipu_protocol::reader::{FrameReader, Next};
use support::random::{Draw, message};

/// xorshift64*: the same bytes on every machine.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_F491_4F6C_DD1D)
    }

    fn below(&mut self, end: usize) -> usize {
        (self.next() >> 32) as usize % end.max(1)
    }

    fn bytes(&mut self, length: usize) -> Vec<u8> {
        (0..length).map(|_| self.next() as u8).collect()
    }
}

/// Bytes of Zstandard's decoder, at most, whatever it is fed.
const DECODER: usize = 1 << 18;

#[derive(Debug, Default)]
struct Counts {
    taken: u64,
    /// By each codec.
    unpacked: [u64; 2],
    refused: u64,
}

impl Counts {
    /// Reads bytes as a connection would, in pieces; every frame that is taken has to be as it
    /// came.
    fn feed(&mut self, bytes: &[u8], random: &mut Random) {
        let mut reader = FrameReader::new(MIN_FRAME);
        let mut rest = bytes;
        loop {
            match reader.next() {
                Ok(Next::Frame(frame)) => self.look_at(&frame),
                Ok(Next::Missing(_)) if rest.is_empty() => return,
                Ok(Next::Missing(_)) => {
                    let (now, later) = rest.split_at(1 + random.below(rest.len()));
                    reader.push(now);
                    rest = later;
                }
                Err(error) => {
                    assert!(!error.to_string().is_empty());
                    self.refused += 1;
                    return;
                }
            }
        }
    }

    fn look_at(&mut self, frame: &Frame<'_>) {
        if let Some(codec) = frame.compressed {
            assert!(decode(frame).is_err());
            let mut unpacker = Unpacker::default();
            match unpacker.unpack(frame, MIN_FRAME) {
                Ok(plain) => {
                    assert!(plain.body.len() <= MIN_FRAME as usize - HEADER);
                    self.unpacked[codec as usize] += 1;
                    self.look_at(&plain);
                }
                Err(error) => {
                    assert!(!error.to_string().is_empty());
                    self.refused += 1;
                }
            }
            assert!(unpacker.memory() <= MIN_FRAME as usize + DECODER);
            return;
        }
        match decode(frame) {
            Ok(message) => {
                self.taken += 1;
                let mut again = Vec::new();
                message
                    .encode(frame.sequence, MAX_FRAME, &mut again)
                    .unwrap();
                let again = parse(&again).unwrap();
                assert_eq!((again.kind, again.sequence), (frame.kind, frame.sequence));
                // What was compressed had no padding.
                let is_same = again.body == frame.body
                    || again
                        .body
                        .strip_prefix(frame.body)
                        .is_some_and(|rest| rest.len() < 8);
                assert!(is_same, "{message:?}");
                assert!(!format!("{message:?}").is_empty());
            }
            Err(error) => {
                assert!(!error.to_string().is_empty());
                self.refused += 1;
            }
        }
    }
}

/// Numbers that are often where a check is missing.
const EDGES: [u64; 12] = [
    0,
    1,
    7,
    8,
    0x7f,
    0xff,
    0x7fff,
    0xffff,
    0x7fff_ffff,
    0xffff_ffff,
    i64::MAX as u64,
    u64::MAX,
];

/// Changes a frame in some places, and mostly sets its length right afterwards.
fn mutate(frame: &mut Vec<u8>, others: &[Vec<u8>], random: &mut Random) {
    for _ in 0..=random.below(3) {
        let at = random.below(frame.len());
        match random.below(8) {
            0 => frame[at] ^= 1 << random.below(8),
            1 => frame[at] = random.next() as u8,
            2 | 3 => {
                let width = [1, 2, 4, 8][random.below(4)];
                let at = at / width * width;
                let edge = EDGES[random.below(EDGES.len())].to_le_bytes();
                let end = (at + width).min(frame.len());
                frame[at..end].copy_from_slice(&edge[..end - at]);
            }
            4 => frame.truncate((at / 8 * 8).max(16)),
            5 => {
                let more = 8 * (1 + random.below(8));
                let bytes = random.bytes(more);
                frame.splice(at / 8 * 8..at / 8 * 8, bytes);
            }
            6 => {
                let other = &others[random.below(others.len())];
                let from = random.below(other.len());
                let length = random.below(other.len() - from).min(frame.len() - at);
                frame[at..at + length].copy_from_slice(&other[from..from + length]);
            }
            // Another kind for the same bytes.
            _ => {
                let other = &others[random.below(others.len())];
                frame[4..16].copy_from_slice(&other[4..16]);
            }
        }
    }
    if random.below(8) != 0 {
        frame.resize(frame.len().max(16).next_multiple_of(8), 0);
        let length = frame.len() as u32;
        frame[..4].copy_from_slice(&length.to_le_bytes());
    }
}

fn fuzz(rounds: u64, seed: u64) {
    let mut random = Random(seed);
    let mut corpus = Vec::new();
    let mut add = |(message, sequence): (Message<'_>, u64)| {
        let mut frame = Vec::new();
        message.encode(sequence, MAX_FRAME, &mut frame).unwrap();
        corpus.push(frame);
    };
    support::samples().into_iter().for_each(&mut add);
    for _ in 0..200 {
        let length = random.below(300);
        add(message(&mut Draw(&random.bytes(length))));
    }
    // Some of them compressed.
    let mut packer = Packer::default();
    for (number, length) in (1_u64..).zip([64, 500, 2000, 9000, 15_000]) {
        let bytes: Vec<u8> = (0..length).map(|at: usize| (at / 7 % 13) as u8).collect();
        let chunk = Message::Chunk(Chunk {
            transfer: 3,
            offset: 0,
            bytes: &bytes,
        });
        for codec in Codec::ALL {
            let packed = packer.pack(&chunk, codec).unwrap().unwrap();
            let mut batch = Batch::new(MIN_FRAME);
            batch.push_packed(&packed, number).unwrap();
            for _ in 0..20 {
                corpus.push(batch.bytes().to_vec());
            }
        }
    }
    let (mut noise, mut mutants) = (Counts::default(), Counts::default());
    for round in 0..rounds {
        if round % 16 == 0 {
            let length = random.below(400);
            let mut bytes = random.bytes(length);
            // Half of them with a length that makes a frame of them.
            if random.below(2) == 0 && bytes.len() >= 16 {
                bytes.truncate(bytes.len() / 8 * 8);
                let length = bytes.len() as u32;
                bytes[..4].copy_from_slice(&length.to_le_bytes());
            }
            noise.feed(&bytes, &mut random);
        } else {
            let mut frame = corpus[random.below(corpus.len())].clone();
            mutate(&mut frame, &corpus, &mut random);
            mutants.feed(&frame, &mut random);
        }
    }
    println!("noise: {noise:?}, mutants: {mutants:?}");
    // A fuzzer that only ever sees one outcome tests nothing.
    assert!(noise.refused > 0);
    assert!(mutants.unpacked.iter().all(|count| *count > rounds / 800));
    assert!(mutants.taken > rounds / 100 && mutants.refused > rounds / 10);
}

#[test]
fn bytes_that_make_no_sense_are_refused_and_others_have_one_form() {
    fuzz(40_000, 0x9E37_79B9_7F4A_7C15);
}

#[test]
#[ignore = "the long form: rounds in QUIPU_FUZZ_ROUNDS, 10,000,000 without it; seed in QUIPU_FUZZ_SEED"]
fn for_long() {
    let number = |name: &str, or: u64| {
        let given = std::env::var(name).ok();
        given.map_or(or, |text| text.parse().expect("a number"))
    };
    fuzz(
        number("QUIPU_FUZZ_ROUNDS", 10_000_000),
        number("QUIPU_FUZZ_SEED", 1).max(1),
    );
}
