//! The load of a device, by queue.

use super::cursor::{Cursor, RESERVED, zero};
use super::{Body, Word};
use crate::error::{Problem, holds, within};
use crate::layout;
use crate::limits::MAX_QUEUE_LOADS;
use zerocopy::little_endian::U32;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// The load of a device for one queue, of a session of the client's that asks.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned,
)]
#[repr(C)]
pub struct QueueLoad {
    /// The number of the client's session, from one: in the order in which they began.
    pub session: U32,
    /// The client's queue, as its commands name it; the largest number for those that were not
    /// counted apart.
    pub queue: U32,
    /// Commands that have not begun.
    pub waiting: Word,
    /// Commands that run.
    pub running: Word,
    /// Commands that are over.
    pub over: Word,
}

/// The load of a device, for all sessions: both sides have agreed on [`LOADS`](crate::LOADS).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Load<'a> {
    /// The device's number.
    pub device: u32,
    /// Commands that have not begun.
    pub waiting: u64,
    /// Commands that run.
    pub running: u64,
    /// Commands that are over, of the sessions that there are.
    pub over: u64,
    /// The nanoseconds for which something ran there while somebody asked.
    pub busy_ns: u64,
    /// Bytes that buffers of the sessions take there.
    pub buffer_bytes: u64,
    /// Bytes of the device's memory that are free, whoever has the others; zero if it is not known.
    pub free_bytes: u64,
    /// Of that, the queues of the client that asks.
    pub queues: &'a [QueueLoad],
}

impl<'a> Body<'a> for Load<'a> {
    fn read(cursor: &mut Cursor<'a>) -> Result<Self, Problem> {
        let fixed: &layout::Load = cursor.fixed()?;
        zero(RESERVED, fixed.reserved)?;
        Ok(Self {
            device: fixed.device.get(),
            waiting: fixed.waiting.get(),
            running: fixed.running.get(),
            over: fixed.over.get(),
            busy_ns: fixed.busy_ns.get(),
            buffer_bytes: fixed.buffer_bytes.get(),
            free_bytes: fixed.free_bytes.get(),
            queues: cursor.list("the queues", fixed.queue_count.get() as usize)?,
        })
    }

    fn check(&self) -> Result<(), Problem> {
        within("the device's number", self.device.into(), 0, 1023)?;
        let queues = self.queues.len() as u64;
        within("the number of queues", queues, 0, MAX_QUEUE_LOADS as u64)?;
        let mut sessions = self.queues.iter().map(|queue| queue.session.get());
        holds(
            sessions.all(|session| session > 0),
            "a client's sessions are counted from one",
        )
    }

    fn write(&self, out: &mut Vec<u8>) {
        let fixed = layout::Load {
            device: self.device.into(),
            queue_count: (self.queues.len() as u32).into(),
            waiting: self.waiting.into(),
            running: self.running.into(),
            over: self.over.into(),
            busy_ns: self.busy_ns.into(),
            buffer_bytes: self.buffer_bytes.into(),
            free_bytes: self.free_bytes.into(),
            reserved: 0.into(),
        };
        out.extend_from_slice(fixed.as_bytes());
        out.extend_from_slice(self.queues.as_bytes());
    }
}
