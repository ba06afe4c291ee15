//! Frames to a stream, many at a time.
//!
//! A write to a socket costs microseconds, a frame copied into a buffer nanoseconds. So all ready
//! frames go together.

use crate::compression::{self, Packed};
use crate::error::{Place, Problem, WireError};
use crate::frame;
use crate::message::Message;
use std::io::{self, Write};

/// Frames that are to be written together.
#[derive(Debug)]
pub struct Batch {
    bytes: Vec<u8>,
    frames: usize,
    most: u32,
}

/// Room that a batch keeps for the next one, at most.
const KEPT: usize = 1 << 20;

impl Batch {
    /// An empty batch, of frames of at most `most` bytes.
    #[must_use]
    pub fn new(most: u32) -> Self {
        Self {
            bytes: Vec::new(),
            frames: 0,
            most,
        }
    }

    /// Allows frames of another size from now on.
    pub fn allow(&mut self, most: u32) {
        self.most = most;
    }

    /// Adds a message, with its number, or zero if its kind has none.
    ///
    /// # Errors
    /// If a receiver would refuse the message. The batch is as it was then.
    pub fn push(&mut self, message: &Message<'_>, sequence: u64) -> Result<(), WireError> {
        message.encode(sequence, self.most, &mut self.bytes)?;
        self.frames += 1;
        Ok(())
    }

    /// Adds a message that is compressed, with its number.
    ///
    /// # Errors
    /// If a receiver would refuse the message. The batch is as it was then.
    pub fn push_packed(&mut self, packed: &Packed<'_>, sequence: u64) -> Result<(), WireError> {
        let at = |problem: Problem| problem.at(Place::Message(packed.kind.name()));
        compression::check_plain(packed.plain, self.most).map_err(at)?;
        let start = frame::begin(packed.kind, packed.codec.flag(), sequence, &mut self.bytes);
        self.bytes.extend_from_slice(packed.body);
        // It is shorter than the message, which fits.
        frame::end(start, self.most, &mut self.bytes).map_err(at)?;
        self.frames += 1;
        Ok(())
    }

    /// The bytes to write.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// The number of these frames.
    #[must_use]
    pub fn frames(&self) -> usize {
        self.frames
    }

    /// True if there is nothing to write.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.frames == 0
    }

    /// Forgets what was written.
    pub fn clear(&mut self) {
        self.bytes.clear();
        self.bytes.shrink_to(KEPT);
        self.frames = 0;
    }

    /// Hands over what is to be written, in exchange for room for what comes next.
    ///
    /// ```
    /// # use quipu_protocol::{batch::Batch, message::Message};
    /// let mut batch = Batch::new(quipu_protocol::limits::MIN_FRAME);
    /// batch.push(&Message::StatusRequest, 0)?;
    /// let mut written = Vec::new();
    /// batch.exchange(&mut written);
    /// assert_eq!((written.len(), batch.is_empty()), (16, true));
    /// # Ok::<(), quipu_protocol::error::WireError>(())
    /// ```
    pub fn exchange(&mut self, room: &mut Vec<u8>) {
        room.clear();
        std::mem::swap(&mut self.bytes, room);
        self.clear();
    }

    /// Replaces the bytes to write by these frames, which are sent again after a loss.
    pub fn replace(&mut self, frames: Vec<u8>) {
        self.bytes = frames;
        self.frames = 0;
        let mut rest = &self.bytes[..];
        while let Ok(Some(length)) = crate::frame::length(rest, u32::MAX)
            && let Some(after) = rest.get(length..)
        {
            self.frames += 1;
            rest = after;
        }
    }

    /// Writes all of it, in one call if the stream takes it so, and is empty then.
    ///
    /// # Errors
    /// As the stream fails. The connection is of no use then: a part of a frame may be written.
    pub fn write_to(&mut self, stream: &mut impl Write) -> io::Result<()> {
        stream.write_all(&self.bytes)?;
        self.clear();
        Ok(())
    }
}
