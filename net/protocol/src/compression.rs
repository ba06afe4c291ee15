//! Messages that are compressed: a flag of the header says by which codec, if both sides have
//! agreed on that one.
//!
//! In place of the message there are 8 bytes, its length and that of what follows, and then the
//! message as one block of LZ4 or one frame of Zstandard. Only messages with bytes of buffers may
//! be compressed. A message that would not be allowed as it is is not allowed compressed either: so
//! what a receiver makes room for is bounded by its largest frame, and it looks at the lengths
//! before it does. A frame of Zstandard has lengths of its own, which are looked at as well before
//! its decoder is.

use crate::error::{Place, Problem, WireError, holds, within};
use crate::frame::{Frame, Kind};
use crate::limits::HEADER;
use crate::message::Message;
use lz4_flex::block::{
    CompressTable, compress_into_with_table, decompress_into, get_maximum_output_size,
};
use zstd_safe::{
    CCtx, CompressionLevel, DCtx, compress_bound, find_frame_compressed_size,
    get_frame_content_size,
};

/// The feature that both sides agree on: each takes messages that are compressed by LZ4.
pub const LZ4: u64 = 1;

/// The feature that both sides agree on: each takes messages that are compressed by Zstandard.
pub const ZSTD: u64 = 16;

/// A codec: the form of compressed messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Codec {
    /// One block of LZ4: fast.
    Lz4,
    /// One frame of Zstandard: shorter.
    Zstd,
}

impl Codec {
    /// Every codec, the fastest first.
    pub const ALL: [Self; 2] = [Self::Lz4, Self::Zstd];

    /// The feature by which a side says that it takes it.
    #[must_use]
    pub fn feature(self) -> u64 {
        match self {
            Self::Lz4 => LZ4,
            Self::Zstd => ZSTD,
        }
    }

    /// The flag of a message that it has compressed.
    pub(crate) fn flag(self) -> u16 {
        match self {
            Self::Lz4 => 1,
            Self::Zstd => 2,
        }
    }

    /// Bytes that so many become at most.
    fn bound(self, bytes: usize) -> usize {
        match self {
            Self::Lz4 => get_maximum_output_size(bytes),
            Self::Zstd => compress_bound(bytes),
        }
    }
}

/// The codecs that both sides have agreed on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Codecs(u64);

impl Codecs {
    /// Those among features.
    #[must_use]
    pub fn of(features: u64) -> Self {
        Self(features & (LZ4 | ZSTD))
    }

    /// True if it is among them.
    #[must_use]
    pub fn have(self, codec: Codec) -> bool {
        self.0 & codec.feature() != 0
    }
}

/// Bytes before what is compressed.
const PREFIX: usize = 8;

/// Zstandard's fastest level of those that also look at how often each byte is there, which is what
/// LZ4 does not. Levels 2 and 3 save a few hundredths more on text, nothing on pictures, and take
/// up to four times as long. `.cargo/config.toml` leaves the compressors of other levels out of the
/// library.
const LEVEL: CompressionLevel = 1;

/// True if messages of a kind may be compressed.
pub(crate) fn may_be(kind: Kind) -> bool {
    matches!(kind, Kind::Chunk | Kind::Write | Kind::ReadBytes)
}

/// Compresses messages, one after the other, with memory that it keeps.
#[derive(Default)]
pub struct Packer {
    plain: Vec<u8>,
    packed: Vec<u8>,
    encoders: Encoders,
}

/// The memory that codecs keep from one message to the next.
#[derive(Default)]
struct Encoders {
    lz4: CompressTable,
    /// There when it is first needed: it is a megabyte.
    zstd: Option<CCtx<'static>>,
}

impl Encoders {
    /// The length of the bytes when they are compressed.
    fn compress(&mut self, codec: Codec, from: &[u8], to: &mut [u8]) -> Option<usize> {
        match codec {
            Codec::Lz4 => compress_into_with_table(from, to, &mut self.lz4).ok(),
            Codec::Zstd => {
                let zstd = self.zstd.get_or_insert_default();
                zstd.compress(to, from, LEVEL).ok()
            }
        }
    }
}

impl std::fmt::Debug for Packer {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("Packer")
    }
}

/// A message that is compressed, and shorter for it.
#[derive(Clone, Copy, Debug)]
pub struct Packed<'a> {
    pub(crate) kind: Kind,
    pub(crate) codec: Codec,
    /// Bytes of the message.
    pub(crate) plain: usize,
    /// The body of a frame of it.
    pub(crate) body: &'a [u8],
}

impl Packed<'_> {
    /// Bytes of the message before and after.
    #[must_use]
    pub fn lengths(&self) -> (usize, usize) {
        (self.plain, self.body.len())
    }
}

impl Packer {
    /// The message, compressed; none if it is not of a kind that may be, or is not shorter by a
    /// sixteenth.
    ///
    /// # Errors
    /// If a receiver would refuse it.
    pub fn pack(
        &mut self,
        message: &Message<'_>,
        codec: Codec,
    ) -> Result<Option<Packed<'_>>, WireError> {
        let kind = message.kind();
        if !may_be(kind) {
            return Ok(None);
        }
        message.check()?;
        self.plain.clear();
        message.write_body(&mut self.plain);
        let plain = self.plain.len();
        self.packed.resize(PREFIX + codec.bound(plain), 0);
        let to = &mut self.packed[PREFIX..];
        let Some(length) = self.encoders.compress(codec, &self.plain, to) else {
            return Ok(None);
        };
        if PREFIX + length > plain - plain / 16 {
            return Ok(None);
        }
        self.packed[..4].copy_from_slice(&(plain as u32).to_le_bytes());
        self.packed[4..PREFIX].copy_from_slice(&(length as u32).to_le_bytes());
        Ok(Some(Packed {
            kind,
            codec,
            plain,
            body: &self.packed[..PREFIX + length],
        }))
    }

    /// The length that some bytes would have.
    #[must_use]
    pub fn try_out(&mut self, bytes: &[u8], codec: Codec) -> usize {
        self.packed.resize(codec.bound(bytes.len()), 0);
        let length = self.encoders.compress(codec, bytes, &mut self.packed);
        length.unwrap_or(bytes.len())
    }
}

/// Fails unless a message of so many bytes fits a frame of `most`.
pub(crate) fn check_plain(plain: usize, most: u32) -> Result<(), Problem> {
    let most = most as usize - HEADER;
    within("the message's length", plain as u64, 1, most as u64)
}

/// Decompresses messages, one after the other, with memory that it keeps.
#[derive(Default)]
pub struct Unpacker {
    room: Vec<u8>,
    /// There when it is first needed. It is of one size, whatever it decompresses.
    zstd: Option<DCtx<'static>>,
}

impl std::fmt::Debug for Unpacker {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("Unpacker")
    }
}

impl Unpacker {
    /// Bytes of memory that it keeps: room for a message, and what Zstandard's decoder is.
    #[must_use]
    pub fn memory(&self) -> usize {
        self.room.capacity() + self.zstd.as_ref().map_or(0, DCtx::sizeof)
    }

    /// The frame as it was before it was compressed, for a receiver that allows frames of `most`
    /// bytes.
    ///
    /// # Errors
    /// If it is not compressed, is larger than allowed, is not shorter for being compressed, or
    /// makes no sense.
    pub fn unpack(&mut self, frame: &Frame<'_>, most: u32) -> Result<Frame<'_>, WireError> {
        let at = |problem: Problem| problem.at(Place::Message(frame.kind.name()));
        let number = |at: usize| {
            let bytes = frame.body.get(at..at + 4)?;
            Some(u32::from_le_bytes(bytes.try_into().ok()?) as usize)
        };
        let (Some(plain), Some(length), Some(codec)) = (number(0), number(4), frame.compressed)
        else {
            return Err(at(Problem::Rule("it is not compressed")));
        };
        check_plain(plain, most).map_err(at)?;
        let packed = frame.body[PREFIX..].split_at_checked(length);
        let Some((packed, padding)) = packed else {
            return Err(at(Problem::Short {
                field: "what is compressed",
                needed: length,
                there: frame.body.len() - PREFIX,
            }));
        };
        let is_padding = padding.len() < 8 && padding.iter().all(|byte| *byte == 0);
        holds(is_padding, "more than padding follows what is compressed").map_err(at)?;
        let is_shorter = PREFIX + length < plain;
        holds(is_shorter, "it is not shorter for being compressed").map_err(at)?;
        if codec == Codec::Zstd {
            check_zstd(packed, plain).map_err(at)?;
        }
        // What is there already need not be cleared: all of it is written, or refused.
        self.room.resize(plain, 0);
        let decompressed = match codec {
            Codec::Lz4 => decompress_into(packed, &mut self.room).ok(),
            Codec::Zstd => {
                let zstd = self.zstd.get_or_insert_default();
                zstd.decompress(&mut self.room[..], packed).ok()
            }
        };
        let is_whole = decompressed == Some(plain);
        holds(is_whole, "what is compressed is not so many bytes").map_err(at)?;
        Ok(Frame {
            kind: frame.kind,
            sequence: frame.sequence,
            compressed: None,
            body: &self.room,
        })
    }
}

/// Fails unless a frame of Zstandard (RFC 8878, 3.1.1) is one alone, says that it is of so many
/// bytes, needs no larger window than these, no dictionary, and has no checksum, which TLS makes
/// needless.
fn check_zstd(packed: &[u8], plain: usize) -> Result<(), Problem> {
    /// As it is in the file: frames that are skipped, and those of older formats, begin otherwise.
    const MAGIC: [u8; 4] = [0x28, 0xb5, 0x2f, 0xfd];
    /// In the descriptor: which bytes of a dictionary's number there are, a checksum, and what is
    /// reserved and unused.
    const NONE_OF: u8 = 0b0001_1111;
    /// In the descriptor: the window is the content.
    const SINGLE_SEGMENT: u8 = 0b0010_0000;
    let Some((&MAGIC, [descriptor, rest @ ..])) = packed.split_first_chunk() else {
        return Err(Problem::Rule("it is no frame of Zstandard"));
    };
    holds(
        descriptor & NONE_OF == 0,
        "the frame of Zstandard has a dictionary, a checksum, or bits of no meaning",
    )?;
    if descriptor & SINGLE_SEGMENT == 0 {
        let window = rest.first().map_or(0, |window| {
            let base = 1_u64 << (10 + (window >> 3));
            base + base / 8 * u64::from(window & 7)
        });
        within("the window", window, 1, plain as u64)?;
    }
    let said = get_frame_content_size(packed);
    let is_said = said.is_ok_and(|said| said == Some(plain as u64));
    holds(is_said, "the frame of Zstandard says another length")?;
    let is_alone = find_frame_compressed_size(packed) == Ok(packed.len());
    holds(is_alone, "it is not one whole frame of Zstandard")
}
