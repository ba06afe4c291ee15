//! How much of what a session may have.

use quipu_core::access::MAX_MEMORY_BYTES;
use quipu_wire::limits::{MAX_BUFFER, MAX_FRAME, MIN_FRAME};

/// How much of what a session, or all of them, may have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Sessions at once.
    pub sessions: usize,
    /// Connections that have not said hello yet; of more, the oldest is given up.
    pub strangers: usize,
    /// Connections that only ask how the node is.
    pub questions: usize,
    /// The largest frame, in bytes.
    pub frame: u32,
    /// Bytes that ride with a write or come with a read.
    pub inline: u32,
    /// Commands and placeholders of a session whose ends were not acknowledged.
    pub commands: u32,
    /// Buffers of a session.
    pub buffers: u32,
    /// Programs of a session.
    pub programs: u32,
    /// Bytes of a program.
    pub program_bytes: u32,
    /// Bytes of a buffer.
    pub buffer_bytes: u64,
    /// Bytes of all buffers of a session, and of its transfers in each direction.
    pub session_bytes: u64,
}

impl Default for Limits {
    /// 256 sessions of 65,536 commands, 65,536 buffers and 4096 programs each, and as many bytes as there are.
    fn default() -> Self {
        Self {
            sessions: 256,
            strangers: 64,
            questions: 64,
            frame: 1 << 20,
            inline: 1 << 16,
            commands: 1 << 16,
            buffers: 1 << 16,
            programs: 1 << 12,
            program_bytes: 1 << 19,
            buffer_bytes: MAX_BUFFER,
            session_bytes: u64::MAX,
        }
    }
}

impl Limits {
    /// The same within what the protocol and the core allow.
    pub(crate) fn sound(self) -> Self {
        let frame = self.frame.clamp(MIN_FRAME, MAX_FRAME);
        let rides = frame - MIN_FRAME / 2;
        Self {
            frame,
            inline: self.inline.min(rides),
            program_bytes: self.program_bytes.min(rides),
            commands: self.commands.max(1),
            buffer_bytes: self.buffer_bytes.min(MAX_BUFFER).min(MAX_MEMORY_BYTES),
            ..self
        }
    }
}
