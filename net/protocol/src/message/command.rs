//! Commands: their operations, their arguments and their waits.

use super::cursor::{Cursor, RESERVED, check_id, zero};
use super::description::Describe;
use super::launch::Launch;
use super::peer::{Receive, SendBytes, SendContent};
use super::{Body, Word, numbers};
use crate::error::{Problem, holds, within};
use crate::frame::Kind;
use crate::layout;
use crate::limits::{MAX_BUFFER, MAX_CONTENT_SIZES, MAX_ID, MAX_PATTERN, MAX_STEPS, MAX_WAITS};
use zerocopy::little_endian::U64;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

numbers! {
    /// The priority of a command.
    Priority, "the priority" {
        /// Run when nothing else is ready.
        Low = 0,
        /// The usual.
        Normal = 1,
        /// Run before others.
        High = 2,
    }
}

/// An event that a command waits for: its id, and in the highest bit whether it is an order alone.
#[derive(
    Clone, Copy, PartialEq, Eq, Hash, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned,
)]
#[repr(transparent)]
pub struct Wait(U64);

const ORDER_ALONE: u64 = 1 << 63;

impl Wait {
    /// Waits until the event is over; if it has failed, the command is not run and fails, too.
    #[must_use]
    pub fn needs(event: u64) -> Self {
        Self(U64::new(event & !ORDER_ALONE))
    }

    /// Waits until the event is over, however it ends.
    #[must_use]
    pub fn after(event: u64) -> Self {
        Self(U64::new(event | ORDER_ALONE))
    }

    /// The event.
    #[must_use]
    pub fn event(self) -> u64 {
        self.0.get() & !ORDER_ALONE
    }

    /// True if the event's failure is the command's.
    #[must_use]
    pub fn is_needed(self) -> bool {
        self.0.get() & ORDER_ALONE == 0
    }
}

impl std::fmt::Debug for Wait {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let what = if self.is_needed() { "needs" } else { "after" };
        write!(formatter, "{what} {}", self.event())
    }
}

/// A command.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Command<'a> {
    /// The event of its end: an id larger than that of every event before.
    pub event: u64,
    /// The device that does it.
    pub device: u32,
    /// The client's queue, for traces.
    pub queue: u32,
    /// Its priority.
    pub priority: Priority,
    /// True if it is to be said when it was begun and ended.
    pub profiled: bool,
    /// Its waits.
    pub waits: &'a [Wait],
    /// Its operation.
    pub operation: Operation<'a>,
}

/// The operation of a command.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Operation<'a> {
    /// Nothing: it is over when its waits are.
    Nothing,
    /// A kernel's launch.
    Launch(Launch<'a>),
    /// A fill.
    Fill(Fill),
    /// A copy between buffers.
    Copy(Copy<'a>),
    /// A write of the client's bytes.
    Write(Write<'a>),
    /// A read of bytes for the client.
    Read(Read<'a>),
    /// A read of what is in use, for the client.
    ReadContent(ReadContent),
    /// A program is read, and its kernels are told.
    Describe(Describe<'a>),
    /// Bytes go to another node.
    Send(SendBytes),
    /// The bytes in use go to another node.
    SendContent(SendContent),
    /// Bytes come from another node.
    Receive(Receive),
}

const PROFILED: u8 = 1;

impl<'a> Command<'a> {
    /// The kind of its message.
    #[must_use]
    pub fn kind(&self) -> Kind {
        match self.operation {
            Operation::Nothing => Kind::Nothing,
            Operation::Launch(_) => Kind::Launch,
            Operation::Fill(_) => Kind::Fill,
            Operation::Copy(_) => Kind::Copy,
            Operation::Write(_) => Kind::Write,
            Operation::Read(_) => Kind::Read,
            Operation::ReadContent(_) => Kind::ReadContent,
            Operation::Describe(_) => Kind::Describe,
            Operation::Send(_) => Kind::Send,
            Operation::SendContent(_) => Kind::SendContent,
            Operation::Receive(_) => Kind::Receive,
        }
    }

    pub(super) fn read(kind: Kind, cursor: &mut Cursor<'a>) -> Result<Self, Problem> {
        let fixed: &layout::Command = cursor.fixed()?;
        zero(RESERVED, fixed.reserved)?;
        if fixed.flags & !PROFILED != 0 {
            return Err(Problem::Unknown {
                field: "the flags",
                value: fixed.flags.into(),
            });
        }
        let waits = usize::from(fixed.wait_count.get());
        let (waits, operation) = match kind {
            Kind::Launch => Launch::read(waits, cursor)?,
            Kind::Fill => Fill::read(waits, cursor)?,
            Kind::Copy => Copy::read(waits, cursor)?,
            Kind::Write => Write::read(waits, cursor)?,
            Kind::Read => Read::read(waits, cursor)?,
            Kind::ReadContent => ReadContent::read(waits, cursor)?,
            Kind::Describe => Describe::read(waits, cursor)?,
            Kind::Send => SendBytes::read(waits, cursor)?,
            Kind::SendContent => SendContent::read(waits, cursor)?,
            Kind::Receive => Receive::read(waits, cursor)?,
            _ => (read_waits(waits, cursor)?, Operation::Nothing),
        };
        Ok(Self {
            event: fixed.event.get(),
            device: fixed.device.get(),
            queue: fixed.queue.get(),
            priority: Priority::of(fixed.priority.into())?,
            profiled: fixed.flags & PROFILED != 0,
            waits,
            operation,
        })
    }

    pub(super) fn check(&self) -> Result<(), Problem> {
        check_id("the event", self.event)?;
        within("the device's number", self.device.into(), 0, 1023)?;
        within(
            "the number of waits",
            self.waits.len() as u64,
            0,
            MAX_WAITS as u64,
        )?;
        for wait in self.waits {
            check_id("an event waited for", wait.event())?;
            holds(
                wait.event() < self.event,
                "it waits for an event that does not come before it",
            )?;
        }
        match &self.operation {
            Operation::Nothing => Ok(()),
            Operation::Launch(launch) => launch.check(),
            Operation::Fill(fill) => fill.check(),
            Operation::Copy(copy) => copy.check(),
            Operation::Write(write) => write.check(),
            Operation::Read(read) => read.check(),
            Operation::ReadContent(read) => read.check(),
            Operation::Describe(describe) => {
                holds(
                    self.waits.is_empty() && !self.profiled,
                    "a description waits for nothing, and is not profiled",
                )?;
                describe.check()
            }
            Operation::Send(send) => send.check(),
            Operation::SendContent(send) => send.check(),
            Operation::Receive(receive) => receive.check(),
        }
    }

    pub(super) fn write(&self, out: &mut Vec<u8>) {
        let fixed = layout::Command {
            event: self.event.into(),
            device: self.device.into(),
            queue: self.queue.into(),
            priority: self.priority.number() as u8,
            flags: if self.profiled { PROFILED } else { 0 },
            wait_count: (self.waits.len() as u16).into(),
            reserved: 0.into(),
        };
        out.extend_from_slice(fixed.as_bytes());
        let waits = self.waits.as_bytes();
        match &self.operation {
            Operation::Nothing => out.extend_from_slice(waits),
            Operation::Launch(launch) => launch.write(waits, out),
            Operation::Fill(fill) => fill.write(waits, out),
            Operation::Copy(copy) => copy.write(waits, out),
            Operation::Write(write) => write.write(waits, out),
            Operation::Read(read) => read.write(waits, out),
            Operation::ReadContent(read) => read.write(waits, out),
            Operation::Describe(describe) => describe.write(waits, out),
            Operation::Send(send) => send.write(waits, out),
            Operation::SendContent(send) => send.write(waits, out),
            Operation::Receive(receive) => receive.write(waits, out),
        }
    }
}

pub(super) fn read_waits<'a>(count: usize, cursor: &mut Cursor<'a>) -> Result<&'a [Wait], Problem> {
    cursor.list("the waits", count)
}

/// The parsed part of a message for an operation.
pub(super) type Parsed<'a> = (&'a [Wait], Operation<'a>);

/// A buffer, and the one whose first eight bytes say how many of its are in use.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned,
)]
#[repr(C)]
pub struct ContentSize {
    /// The buffer.
    pub buffer: Word,
    /// The other.
    pub size: Word,
}

/// Buffers with the content sizes of a command's buffers. The node finds these sizes out where it
/// brings their bytes from one of its memories to another for the command. It comes before the
/// command. Both sides have agreed on [`CONTENT_SIZES`](crate::CONTENT_SIZES).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ContentSizes<'a> {
    /// The command's event.
    pub event: u64,
    /// The buffers, and those that hold their sizes.
    pub sizes: &'a [ContentSize],
}

impl<'a> Body<'a> for ContentSizes<'a> {
    fn read(cursor: &mut Cursor<'a>) -> Result<Self, Problem> {
        let fixed: &layout::ContentSizes = cursor.fixed()?;
        zero(RESERVED, fixed.reserved)?;
        Ok(Self {
            event: fixed.event.get(),
            sizes: cursor.list("the buffers", fixed.count.get() as usize)?,
        })
    }

    fn check(&self) -> Result<(), Problem> {
        check_id("the event", self.event)?;
        let count = self.sizes.len() as u64;
        within("the number of buffers", count, 1, MAX_CONTENT_SIZES as u64)?;
        self.sizes.iter().try_for_each(|one| {
            check_id("the buffer", one.buffer.get())?;
            check_content_size(one.buffer.get(), one.size.get())
        })
    }

    fn write(&self, out: &mut Vec<u8>) {
        let fixed = layout::ContentSizes {
            event: self.event.into(),
            count: (self.sizes.len() as u32).into(),
            reserved: 0.into(),
        };
        out.extend_from_slice(fixed.as_bytes());
        out.extend_from_slice(self.sizes.as_bytes());
    }
}

/// Fails unless a buffer may say how much of another is in use.
pub(super) fn check_content_size(buffer: u64, size: u64) -> Result<(), Problem> {
    check_id("the buffer of the content size", size)?;
    holds(
        size != buffer,
        "a buffer does not hold its own content size",
    )
}

/// Fails unless a range is in a buffer of any size.
pub(super) fn check_range(offset: u64, length: u64) -> Result<(), Problem> {
    within("the length", length, 1, MAX_BUFFER)?;
    within("the offset", offset, 0, MAX_BUFFER)?;
    within("the range's end", offset + length, 1, MAX_BUFFER)
}

/// A pattern, again and again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fill {
    /// The buffer.
    pub buffer: u64,
    /// The first byte.
    pub offset: u64,
    /// Bytes: a multiple of the pattern's.
    pub length: u64,
    /// The pattern's bytes, and zeros.
    pub pattern: [u8; MAX_PATTERN],
    /// The number of bytes of the pattern: 1 to 16.
    pub pattern_length: u8,
}

impl Fill {
    fn read<'a>(waits: usize, cursor: &mut Cursor<'a>) -> Result<Parsed<'a>, Problem> {
        let fixed: &layout::Fill = cursor.fixed()?;
        zero(RESERVED, fixed.reserved)?;
        let fill = Self {
            buffer: fixed.buffer.get(),
            offset: fixed.offset.get(),
            length: fixed.length.get(),
            pattern: fixed.pattern,
            pattern_length: fixed.pattern_length,
        };
        Ok((read_waits(waits, cursor)?, Operation::Fill(fill)))
    }

    fn check(&self) -> Result<(), Problem> {
        check_id("the buffer", self.buffer)?;
        check_range(self.offset, self.length)?;
        let length = self.pattern_length;
        within("the pattern's length", length.into(), 1, MAX_PATTERN as u64)?;
        holds(
            self.length.is_multiple_of(length.into()),
            "the pattern does not divide the range",
        )?;
        zero(
            "what follows the pattern",
            &self.pattern[usize::from(length)..],
        )
    }

    fn write(&self, waits: &[u8], out: &mut Vec<u8>) {
        let fixed = layout::Fill {
            buffer: self.buffer.into(),
            offset: self.offset.into(),
            length: self.length.into(),
            pattern: self.pattern,
            pattern_length: self.pattern_length,
            reserved: [0; 7],
        };
        out.extend_from_slice(fixed.as_bytes());
        out.extend_from_slice(waits);
    }
}

/// An outer dimension of a copy's region: so many steps, and how many bytes each is apart on either
/// side.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned,
)]
#[repr(C)]
pub struct Step {
    /// Steps.
    pub count: Word,
    /// Bytes from one to the next in the source.
    pub source_stride: Word,
    /// Bytes from one to the next in the destination.
    pub destination_stride: Word,
}

/// An outer dimension of a write's or read's region, whose other side has no gaps.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned,
)]
#[repr(C)]
pub struct Stride {
    /// Steps.
    pub count: Word,
    /// Bytes from one to the next in the buffer.
    pub stride: Word,
}

/// Fails unless a region lies in a buffer of any size and moves no more bytes than one has; gives
/// how many it moves.
fn check_region(
    offset: u64,
    row: u64,
    steps: impl Iterator<Item = (u64, u64)> + Clone,
) -> Result<u64, Problem> {
    within("the row", row, 1, MAX_BUFFER)?;
    within("the offset", offset, 0, MAX_BUFFER)?;
    let (mut bytes, mut end) = (Some(row), Some(offset + row));
    for (count, stride) in steps {
        within("the steps", count, 1, MAX_BUFFER)?;
        bytes = bytes.and_then(|bytes| bytes.checked_mul(count));
        let span = stride.checked_mul(count - 1);
        end = end.and_then(|end| end.checked_add(span?));
    }
    let fits = |number: Option<u64>| number.filter(|number| *number <= MAX_BUFFER);
    match (fits(bytes), fits(end)) {
        (Some(bytes), Some(_)) => Ok(bytes),
        _ => Err(Problem::Rule("the region is larger than any buffer")),
    }
}

fn check_steps(steps: usize) -> Result<(), Problem> {
    within("the outer dimensions", steps as u64, 0, MAX_STEPS as u64)
}

/// A copy of an n-dimensional region between two buffers, or within one where the sides do not
/// overlap.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Copy<'a> {
    /// The buffer that is read.
    pub source: u64,
    /// The region's first byte there.
    pub source_offset: u64,
    /// The buffer that is written.
    pub destination: u64,
    /// The region's first byte there.
    pub destination_offset: u64,
    /// Bytes without gaps.
    pub row: u64,
    /// Outer dimensions, outermost first.
    pub steps: &'a [Step],
}

impl<'a> Copy<'a> {
    fn read(waits: usize, cursor: &mut Cursor<'a>) -> Result<Parsed<'a>, Problem> {
        let fixed: &layout::Copy = cursor.fixed()?;
        zero(RESERVED, fixed.reserved)?;
        let copy = Self {
            source: fixed.source.get(),
            source_offset: fixed.source_offset.get(),
            destination: fixed.destination.get(),
            destination_offset: fixed.destination_offset.get(),
            row: fixed.row.get(),
            steps: cursor.list("the outer dimensions", fixed.step_count.get().into())?,
        };
        Ok((read_waits(waits, cursor)?, Operation::Copy(copy)))
    }

    fn check(&self) -> Result<(), Problem> {
        check_id("the source", self.source)?;
        check_id("the destination", self.destination)?;
        check_steps(self.steps.len())?;
        let source = self
            .steps
            .iter()
            .map(|step| (step.count.get(), step.source_stride.get()));
        let destination = self
            .steps
            .iter()
            .map(|step| (step.count.get(), step.destination_stride.get()));
        check_region(self.source_offset, self.row, source)?;
        check_region(self.destination_offset, self.row, destination)?;
        Ok(())
    }

    fn write(&self, waits: &[u8], out: &mut Vec<u8>) {
        let fixed = layout::Copy {
            source: self.source.into(),
            source_offset: self.source_offset.into(),
            destination: self.destination.into(),
            destination_offset: self.destination_offset.into(),
            row: self.row.into(),
            step_count: (self.steps.len() as u16).into(),
            reserved: [0; 6],
        };
        out.extend_from_slice(fixed.as_bytes());
        out.extend_from_slice(self.steps.as_bytes());
        out.extend_from_slice(waits);
    }
}

fn region_bytes(offset: u64, row: u64, steps: &[Stride]) -> Result<u64, Problem> {
    check_steps(steps.len())?;
    let pairs = steps
        .iter()
        .map(|step| (step.count.get(), step.stride.get()));
    check_region(offset, row, pairs)
}

/// A write of the client's bytes to an n-dimensional region of a buffer.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Write<'a> {
    /// The buffer.
    pub buffer: u64,
    /// The region's first byte.
    pub offset: u64,
    /// Bytes without gaps.
    pub row: u64,
    /// Outer dimensions, outermost first.
    pub steps: &'a [Stride],
    /// The transfer that brings the bytes on the bulk stream, an id larger than that of every
    /// transfer before; or zero.
    pub transfer: u64,
    /// The bytes, one row after the other, if no transfer brings them.
    pub bytes: &'a [u8],
}

impl std::fmt::Debug for Write<'_> {
    /// With the number of its bytes.
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter
            .debug_struct("Write")
            .field("buffer", &self.buffer)
            .field("offset", &self.offset)
            .field("row", &self.row)
            .field("steps", &self.steps)
            .field("transfer", &self.transfer)
            .field("bytes", &self.bytes.len())
            .finish()
    }
}

impl<'a> Write<'a> {
    /// The number of bytes that it writes.
    ///
    /// # Errors
    /// If no buffer has so many. That of a message which was decoded has.
    pub fn region_bytes(&self) -> Result<u64, Problem> {
        region_bytes(self.offset, self.row, self.steps)
    }

    fn read(waits: usize, cursor: &mut Cursor<'a>) -> Result<Parsed<'a>, Problem> {
        let fixed: &layout::Transfer = cursor.fixed()?;
        zero(RESERVED, fixed.reserved)?;
        let steps = cursor.list("the outer dimensions", fixed.step_count.get().into())?;
        let waits = read_waits(waits, cursor)?;
        let write = Self {
            buffer: fixed.buffer.get(),
            offset: fixed.offset.get(),
            row: fixed.row.get(),
            steps,
            transfer: fixed.transfer.get(),
            bytes: cursor.bytes("the bytes", fixed.inline_bytes.get() as usize)?,
        };
        Ok((waits, Operation::Write(write)))
    }

    fn check(&self) -> Result<(), Problem> {
        check_id("the buffer", self.buffer)?;
        within("the transfer", self.transfer, 0, MAX_ID)?;
        let bytes = self.region_bytes()?;
        let inline = if self.transfer == 0 { bytes } else { 0 };
        holds(
            self.bytes.len() as u64 == inline,
            "the bytes that ride along are the region's, or none if a transfer brings them",
        )
    }

    fn write(&self, waits: &[u8], out: &mut Vec<u8>) {
        let fixed = layout::Transfer {
            buffer: self.buffer.into(),
            offset: self.offset.into(),
            row: self.row.into(),
            transfer: self.transfer.into(),
            inline_bytes: (self.bytes.len() as u32).into(),
            step_count: (self.steps.len() as u16).into(),
            reserved: 0.into(),
        };
        out.extend_from_slice(fixed.as_bytes());
        out.extend_from_slice(self.steps.as_bytes());
        out.extend_from_slice(waits);
        out.extend_from_slice(self.bytes);
    }
}

/// A read of an n-dimensional region of a buffer for the client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Read<'a> {
    /// The buffer.
    pub buffer: u64,
    /// The region's first byte.
    pub offset: u64,
    /// Bytes without gaps.
    pub row: u64,
    /// Outer dimensions, outermost first.
    pub steps: &'a [Stride],
    /// The transfer that brings the bytes on the bulk stream, an id larger than that of every
    /// transfer before; or zero if a message of the command stream does.
    pub transfer: u64,
}

impl<'a> Read<'a> {
    /// The number of bytes that it reads.
    ///
    /// # Errors
    /// If no buffer has so many. That of a message which was decoded has.
    pub fn region_bytes(&self) -> Result<u64, Problem> {
        region_bytes(self.offset, self.row, self.steps)
    }

    fn read(waits: usize, cursor: &mut Cursor<'a>) -> Result<Parsed<'a>, Problem> {
        let fixed: &layout::Transfer = cursor.fixed()?;
        zero(RESERVED, fixed.reserved)?;
        zero(RESERVED, fixed.inline_bytes)?;
        let read = Self {
            buffer: fixed.buffer.get(),
            offset: fixed.offset.get(),
            row: fixed.row.get(),
            steps: cursor.list("the outer dimensions", fixed.step_count.get().into())?,
            transfer: fixed.transfer.get(),
        };
        Ok((read_waits(waits, cursor)?, Operation::Read(read)))
    }

    fn check(&self) -> Result<(), Problem> {
        check_id("the buffer", self.buffer)?;
        within("the transfer", self.transfer, 0, MAX_ID)?;
        self.region_bytes().map(drop)
    }

    fn write(&self, waits: &[u8], out: &mut Vec<u8>) {
        let fixed = layout::Transfer {
            buffer: self.buffer.into(),
            offset: self.offset.into(),
            row: self.row.into(),
            transfer: self.transfer.into(),
            inline_bytes: 0.into(),
            step_count: (self.steps.len() as u16).into(),
            reserved: 0.into(),
        };
        out.extend_from_slice(fixed.as_bytes());
        out.extend_from_slice(self.steps.as_bytes());
        out.extend_from_slice(waits);
    }
}

/// A read of as much of a range of a buffer as is in use, for the client: both sides have agreed on
/// [`CONTENT`](crate::CONTENT).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReadContent {
    /// The buffer.
    pub buffer: u64,
    /// The range's first byte.
    pub offset: u64,
    /// Bytes, if all of the range is in use.
    pub row: u64,
    /// The transfer that brings the bytes on the bulk stream, an id larger than that of every
    /// transfer before; or zero if a message of the command stream does.
    pub transfer: u64,
    /// The buffer whose first eight bytes say how many of the buffer's are in use, from its first
    /// on.
    pub size: u64,
}

impl ReadContent {
    fn read<'a>(waits: usize, cursor: &mut Cursor<'a>) -> Result<Parsed<'a>, Problem> {
        let fixed: &layout::ReadContent = cursor.fixed()?;
        let read = Self {
            buffer: fixed.buffer.get(),
            offset: fixed.offset.get(),
            row: fixed.row.get(),
            transfer: fixed.transfer.get(),
            size: fixed.size.get(),
        };
        Ok((read_waits(waits, cursor)?, Operation::ReadContent(read)))
    }

    fn check(&self) -> Result<(), Problem> {
        check_id("the buffer", self.buffer)?;
        check_content_size(self.buffer, self.size)?;
        within("the transfer", self.transfer, 0, MAX_ID)?;
        check_range(self.offset, self.row)
    }

    fn write(&self, waits: &[u8], out: &mut Vec<u8>) {
        let fixed = layout::ReadContent {
            buffer: self.buffer.into(),
            offset: self.offset.into(),
            row: self.row.into(),
            transfer: self.transfer.into(),
            size: self.size.into(),
        };
        out.extend_from_slice(fixed.as_bytes());
        out.extend_from_slice(waits);
    }
}
