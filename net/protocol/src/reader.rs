//! Frames from a stream that comes in pieces.

use crate::error::WireError;
use crate::frame::{self, Frame};

/// Keeps bytes until they are frames.
///
/// It keeps at most one frame of the allowed size and what was pushed last beside it: how much a
/// peer can make it keep is bounded by the largest frame, and a frame's length is checked as soon
/// as its header is there.
#[derive(Debug)]
pub struct FrameReader {
    bytes: Vec<u8>,
    start: usize,
    most: u32,
}

/// The next thing to read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next<'a> {
    /// A frame.
    Frame(Frame<'a>),
    /// Not a whole one: at least so many bytes are missing.
    Missing(usize),
}

impl FrameReader {
    /// A reader of frames of at most `most` bytes.
    #[must_use]
    pub fn new(most: u32) -> Self {
        Self {
            bytes: Vec::new(),
            start: 0,
            most,
        }
    }

    /// Allows frames of another size from now on.
    pub fn allow(&mut self, most: u32) {
        self.most = most;
    }

    /// Bytes of a frame, at most.
    #[must_use]
    pub fn allowed(&self) -> u32 {
        self.most
    }

    /// Takes bytes that came.
    pub fn push(&mut self, bytes: &[u8]) {
        if self.start == self.bytes.len() {
            self.bytes.clear();
            self.start = 0;
        } else if self.start > 0 && self.bytes.len() + bytes.len() > self.bytes.capacity() {
            // What is read makes room for what comes.
            self.bytes.drain(..self.start);
            self.start = 0;
        }
        self.bytes.extend_from_slice(bytes);
    }

    /// True if no part of a frame is kept: the stream may end here.
    #[must_use]
    pub fn is_between_frames(&self) -> bool {
        self.start == self.bytes.len()
    }

    /// The least number of bytes that are missing before [`next`](Self::next) gives a frame: zero
    /// if it does now.
    ///
    /// # Errors
    /// As [`next`](Self::next).
    pub fn missing(&self) -> Result<usize, WireError> {
        let rest = &self.bytes[self.start..];
        let length = frame::length(rest, self.most)?.unwrap_or(crate::limits::HEADER);
        Ok(length.saturating_sub(rest.len()))
    }

    /// The next frame. It is taken from the reader: the next call gives the one after.
    ///
    /// # Errors
    /// If what came is not a frame; nothing after it can be read.
    #[allow(
        clippy::should_implement_trait,
        reason = "an iterator's items do not borrow from it"
    )]
    pub fn next(&mut self) -> Result<Next<'_>, WireError> {
        let rest = &self.bytes[self.start..];
        let length = frame::length(rest, self.most)?;
        let Some(bytes) = length.and_then(|length| rest.get(..length)) else {
            return self.missing().map(Next::Missing);
        };
        let (length, frame) = (bytes.len(), frame::parse(bytes)?);
        self.start += length;
        Ok(Next::Frame(frame))
    }
}
