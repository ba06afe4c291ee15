//! The bulk stream: transfers that are too large to ride with their command, in chunks.

use super::Body;
use super::cursor::{Cursor, RESERVED, check_id, zero};
use crate::error::{Problem, holds, within};
use crate::layout;
use crate::limits::MAX_BUFFER;
use zerocopy::IntoBytes;

/// A part of a transfer. The chunks of a transfer come in order, without gaps; those of different
/// transfers may be mixed.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Chunk<'a> {
    /// The transfer that a write or a read named.
    pub transfer: u64,
    /// The place in the transfer's bytes where it begins.
    pub offset: u64,
    /// The bytes.
    pub bytes: &'a [u8],
}

impl std::fmt::Debug for Chunk<'_> {
    /// With the number of its bytes.
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter
            .debug_struct("Chunk")
            .field("transfer", &self.transfer)
            .field("offset", &self.offset)
            .field("bytes", &self.bytes.len())
            .finish()
    }
}

impl<'a> Body<'a> for Chunk<'a> {
    fn read(cursor: &mut Cursor<'a>) -> Result<Self, Problem> {
        let fixed: &layout::Chunk = cursor.fixed()?;
        zero(RESERVED, fixed.reserved)?;
        Ok(Self {
            transfer: fixed.transfer.get(),
            offset: fixed.offset.get(),
            bytes: cursor.bytes("the bytes", fixed.length.get() as usize)?,
        })
    }

    fn check(&self) -> Result<(), Problem> {
        check_id("the transfer", self.transfer)?;
        holds(!self.bytes.is_empty(), "a chunk without bytes")?;
        within("the offset", self.offset, 0, MAX_BUFFER)?;
        within(
            "the chunk's end",
            self.offset + self.bytes.len() as u64,
            1,
            MAX_BUFFER,
        )
    }

    fn write(&self, out: &mut Vec<u8>) {
        let fixed = layout::Chunk {
            transfer: self.transfer.into(),
            offset: self.offset.into(),
            length: (self.bytes.len() as u32).into(),
            reserved: 0.into(),
        };
        out.extend_from_slice(fixed.as_bytes());
        out.extend_from_slice(self.bytes);
    }
}

/// All that follows of a transfer is zeros, and does not come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rest {
    /// The transfer.
    pub transfer: u64,
    /// The number of its bytes that have come before.
    pub offset: u64,
}

impl<'a> Body<'a> for Rest {
    fn read(cursor: &mut Cursor<'a>) -> Result<Self, Problem> {
        let fixed: &layout::Rest = cursor.fixed()?;
        Ok(Self {
            transfer: fixed.transfer.get(),
            offset: fixed.offset.get(),
        })
    }

    fn check(&self) -> Result<(), Problem> {
        check_id("the transfer", self.transfer)?;
        within("the offset", self.offset, 0, MAX_BUFFER - 1)
    }

    fn write(&self, out: &mut Vec<u8>) {
        let fixed = layout::Rest {
            transfer: self.transfer.into(),
            offset: self.offset.into(),
        };
        out.extend_from_slice(fixed.as_bytes());
    }
}
