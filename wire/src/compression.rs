//! Messages that are compressed: flag 1 of a header, if both sides have agreed on it.
//!
//! In place of the message there are 8 bytes, its length and that of what follows, and then the message as one block of LZ4.
//! Only messages with bytes of buffers may be compressed. A message that would not be allowed as it is is not allowed
//! compressed either: so what a receiver makes room for is bounded by its largest frame, and it looks at the lengths
//! before it does.

use crate::error::{Place, Problem, WireError, holds, within};
use crate::frame::{Frame, Kind};
use crate::limits::HEADER;
use crate::message::Message;
use lz4_flex::block::{
    CompressTable, compress_into_with_table, decompress_into, get_maximum_output_size,
};

/// The feature that both sides agree on: each takes compressed messages.
pub const LZ4: u64 = 1;

/// The flag of a compressed message.
pub(crate) const FLAG: u16 = 1;

/// Bytes before the block.
const PREFIX: usize = 8;

/// True if messages of a kind may be compressed.
pub(crate) fn may_be(kind: Kind) -> bool {
    matches!(kind, Kind::Chunk | Kind::Write | Kind::ReadBytes)
}

/// Compresses messages, one after the other, with memory that it keeps.
#[derive(Default)]
pub struct Packer {
    plain: Vec<u8>,
    packed: Vec<u8>,
    table: CompressTable,
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
    /// Bytes of the message.
    pub(crate) plain: usize,
    /// What is in a frame of it.
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
    /// The message, compressed; none if it is not of a kind that may be, or is not shorter by a sixteenth.
    ///
    /// # Errors
    /// If a receiver would refuse it.
    pub fn pack(&mut self, message: &Message<'_>) -> Result<Option<Packed<'_>>, WireError> {
        let kind = message.kind();
        if !may_be(kind) {
            return Ok(None);
        }
        message.check()?;
        self.plain.clear();
        message.write_body(&mut self.plain);
        let plain = self.plain.len();
        self.packed
            .resize(PREFIX + get_maximum_output_size(plain), 0);
        let block = &mut self.packed[PREFIX..];
        let Ok(length) = compress_into_with_table(&self.plain, block, &mut self.table) else {
            return Ok(None);
        };
        if PREFIX + length > plain - plain / 16 {
            return Ok(None);
        }
        self.packed[..4].copy_from_slice(&(plain as u32).to_le_bytes());
        self.packed[4..PREFIX].copy_from_slice(&(length as u32).to_le_bytes());
        Ok(Some(Packed {
            kind,
            plain,
            body: &self.packed[..PREFIX + length],
        }))
    }

    /// How long some bytes would be.
    #[must_use]
    pub fn try_out(&mut self, bytes: &[u8]) -> usize {
        self.packed
            .resize(PREFIX + get_maximum_output_size(bytes.len()), 0);
        compress_into_with_table(bytes, &mut self.packed, &mut self.table).unwrap_or(bytes.len())
    }
}

/// Fails unless a message of so many bytes fits a frame of `most`.
pub(crate) fn check_plain(plain: usize, most: u32) -> Result<(), Problem> {
    let most = most as usize - HEADER;
    within("the message's length", plain as u64, 1, most as u64)
}

/// The frame as it was before it was compressed, for a receiver that allows frames of `most` bytes. `room` keeps what is
/// decompressed.
///
/// # Errors
/// If it is not compressed, is larger than allowed, is not shorter for being compressed, or makes no sense.
pub fn unpack<'r>(
    frame: &Frame<'_>,
    most: u32,
    room: &'r mut Vec<u8>,
) -> Result<Frame<'r>, WireError> {
    let at = |problem: Problem| problem.at(Place::Message(frame.kind.name()));
    let number = |at: usize| {
        let bytes = frame.body.get(at..at + 4)?;
        Some(u32::from_le_bytes(bytes.try_into().ok()?) as usize)
    };
    let (Some(plain), Some(length), true) = (number(0), number(4), frame.compressed) else {
        return Err(at(Problem::Rule("it is not compressed")));
    };
    check_plain(plain, most).map_err(at)?;
    let block = frame.body[PREFIX..].split_at_checked(length);
    let Some((block, padding)) = block else {
        return Err(at(Problem::Short {
            field: "the block",
            needed: length,
            there: frame.body.len() - PREFIX,
        }));
    };
    let is_padding = padding.len() < 8 && padding.iter().all(|byte| *byte == 0);
    holds(is_padding, "more than padding follows the block").map_err(at)?;
    let is_shorter = PREFIX + length < plain;
    holds(is_shorter, "it is not shorter for being compressed").map_err(at)?;
    // What is there already need not be cleared: all of it is written, or refused.
    room.resize(plain, 0);
    let decompressed = decompress_into(block, room);
    let is_whole = decompressed.is_ok_and(|length| length == plain);
    holds(is_whole, "the block is not one of so many bytes").map_err(at)?;
    Ok(Frame {
        kind: frame.kind,
        sequence: frame.sequence,
        compressed: false,
        body: room,
    })
}
