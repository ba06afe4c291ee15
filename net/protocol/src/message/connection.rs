//! The beginning and the end of a connection, and messages that keep it alive.

use super::cursor::{Cursor, RESERVED, check_text, zero};
use super::peer::PeerAddress;
use super::{Body, numbers};
use crate::LONG_PROGRAMS;
use crate::error::{Problem, holds, within};
use crate::layout;
use crate::limits::{MAX_FRAME, MAX_ID, MAX_NAME, MAX_PROGRAM, MAX_TEXT, MIN_FRAME};
use zerocopy::IntoBytes;

numbers! {
    /// The purpose of a connection.
    Role, "the role" {
        /// A new session's command stream.
        Session = 1,
        /// The command stream of a session whose connection was lost.
        Resume = 2,
        /// A session's bulk stream.
        Bulk = 3,
        /// Questions about the node alone.
        Status = 4,
    }

    /// The order of bytes in the numbers of a machine's buffers.
    DataOrder, "the data's byte order" {
        /// The least significant byte first.
        Little = 1,
        /// The most significant byte first.
        Big = 2,
    }

    /// The reason for which a node does not take a connection.
    Refusal, "the refusal" {
        /// No version is understood by both.
        Version = 1,
        /// The client's key is not enrolled, or was revoked.
        NotEnrolled = 2,
        /// The invitation is not known, used, or too old: which of these is not said.
        Invitation = 3,
        /// The machines' buffers have another byte order.
        DataOrder = 4,
        /// The node has as many sessions as it takes.
        Full = 5,
        /// There is no such session of this key.
        NoSession = 6,
        /// The node does not offer what was asked for.
        NotOffered = 7,
        /// The node is shutting down.
        ShuttingDown = 8,
    }

    /// The reason for which a connection ends.
    GoodbyeReason, "the reason" {
        /// The client is done with the session: it ends.
        Done = 1,
        /// A message makes no sense.
        Protocol = 2,
        /// The session is beyond a limit that the welcome named.
        Limit = 3,
        /// Nothing came for too long.
        Idle = 4,
        /// The node is shutting down.
        ShuttingDown = 5,
        /// The client's key was revoked.
        Revoked = 6,
        /// The sender failed.
        Internal = 7,
    }
}

/// The id of a session: random, told by the welcome. It routes a connection, and gives no right to
/// it: a session is attached to by the same client key only. Zero is no session.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct SessionId(pub [u8; 16]);

impl SessionId {
    /// No session.
    pub const NONE: Self = Self([0; 16]);
}

/// A client's first message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hello<'a> {
    /// The oldest and the newest minor version that it understands.
    pub versions: (u16, u16),
    /// The purpose of the connection.
    pub role: Role,
    /// Optional features that it offers, a bit each.
    pub features: u64,
    /// The session that it belongs to; none for a new one, and for questions.
    pub session: SessionId,
    /// The number of times that the session was attached to, as the last welcome said; zero without
    /// a session.
    pub epoch: u32,
    /// The order of bytes in its buffers' numbers.
    pub data_order: DataOrder,
    /// The last message of the other side that it took over from this stream.
    pub received: u64,
    /// The largest frame that it takes.
    pub max_frame: u32,
    /// The time for which it would wait for a lost connection, in milliseconds.
    pub patience_ms: u32,
    /// The client's name for itself.
    pub name: &'a str,
}

impl<'a> Body<'a> for Hello<'a> {
    fn read(cursor: &mut Cursor<'a>) -> Result<Self, Problem> {
        let fixed: &layout::Hello = cursor.fixed()?;
        holds(
            fixed.magic == crate::MAGIC,
            "it begins with other bytes than Quipu's",
        )?;
        zero(RESERVED, fixed.reserved)?;
        zero(RESERVED, fixed.reserved_2)?;
        Ok(Self {
            versions: (fixed.min_version.get(), fixed.max_version.get()),
            role: Role::of(fixed.role.get())?,
            features: fixed.features.get(),
            session: SessionId(fixed.session),
            epoch: fixed.epoch.get(),
            data_order: DataOrder::of(fixed.data_order.get())?,
            received: fixed.received.get(),
            max_frame: fixed.max_frame.get(),
            patience_ms: fixed.patience_ms.get(),
            name: cursor.text("the name", fixed.name_length.get().into())?,
        })
    }

    fn check(&self) -> Result<(), Problem> {
        check_text("the name", self.name, MAX_NAME)?;
        let (oldest, newest) = self.versions;
        holds(
            1 <= oldest && oldest <= newest,
            "its versions are not a range from 1 on",
        )?;
        check_frame(self.max_frame)?;
        within("what was received", self.received, 0, MAX_ID)?;
        let belongs = matches!(self.role, Role::Resume | Role::Bulk);
        holds(
            belongs == (self.session != SessionId::NONE) && belongs == (self.epoch != 0),
            "a session and its epoch are named to resume it and for its bulk stream, and not else",
        )?;
        holds(
            belongs || self.received == 0,
            "nothing was received before a new session",
        )
    }

    fn write(&self, out: &mut Vec<u8>) {
        let fixed = layout::Hello {
            magic: crate::MAGIC,
            min_version: self.versions.0.into(),
            max_version: self.versions.1.into(),
            role: self.role.number().into(),
            name_length: (self.name.len() as u16).into(),
            features: self.features.into(),
            session: self.session.0,
            epoch: self.epoch.into(),
            data_order: self.data_order.number().into(),
            reserved: 0.into(),
            received: self.received.into(),
            max_frame: self.max_frame.into(),
            patience_ms: self.patience_ms.into(),
            reserved_2: [0; 16],
        };
        out.extend_from_slice(fixed.as_bytes());
        out.extend_from_slice(self.name.as_bytes());
    }
}

fn check_frame(max_frame: u32) -> Result<(), Problem> {
    within(
        "the largest frame",
        max_frame.into(),
        MIN_FRAME.into(),
        MAX_FRAME.into(),
    )
}

/// A node's answer to a hello: the connection is taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Welcome<'a> {
    /// The version that is spoken from here on.
    pub version: u16,
    /// The order of bytes in the node's buffers' numbers: the client's.
    pub data_order: DataOrder,
    /// The number of device messages that follow.
    pub devices: u32,
    /// The offered features that are used.
    pub features: u64,
    /// The session that the connection belongs to; none for questions.
    pub session: SessionId,
    /// The number of times that the session was attached to, from 1; zero without a session.
    pub epoch: u32,
    /// The time for which the node keeps the session after its connection is lost, in milliseconds;
    /// zero if it ends with it.
    pub patience_ms: u32,
    /// The last message of the client that the node took over from this stream.
    pub received: u64,
    /// The largest frame that the node takes.
    pub max_frame: u32,
    /// Bytes that ride with a write or come with a read, at most.
    pub max_inline: u32,
    /// Commands that are neither over nor acknowledged, at most.
    pub max_commands: u32,
    /// Buffers, at most.
    pub max_buffers: u32,
    /// Programs, at most.
    pub max_programs: u32,
    /// Bytes of a program, at most.
    pub max_program_bytes: u32,
    /// Bytes of a buffer, at most.
    pub max_buffer_bytes: u64,
    /// Bytes of all buffers, at most.
    pub max_session_bytes: u64,
    /// After how many milliseconds without a frame a side takes the connection to be lost; zero for
    /// never.
    pub idle_ms: u32,
    /// The address at which the node waits for others; none if it neither waits for them nor dials.
    pub peer_address: Option<PeerAddress>,
    /// The node's name.
    pub name: &'a str,
}

impl<'a> Body<'a> for Welcome<'a> {
    fn read(cursor: &mut Cursor<'a>) -> Result<Self, Problem> {
        let fixed: &layout::Welcome = cursor.fixed()?;
        zero(RESERVED, fixed.reserved)?;
        Ok(Self {
            version: fixed.version.get(),
            data_order: DataOrder::of(fixed.data_order.get())?,
            devices: fixed.devices.get(),
            features: fixed.features.get(),
            session: SessionId(fixed.session),
            epoch: fixed.epoch.get(),
            patience_ms: fixed.patience_ms.get(),
            received: fixed.received.get(),
            max_frame: fixed.max_frame.get(),
            max_inline: fixed.max_inline.get(),
            max_commands: fixed.max_commands.get(),
            max_buffers: fixed.max_buffers.get(),
            max_programs: fixed.max_programs.get(),
            max_program_bytes: fixed.max_program_bytes.get(),
            max_buffer_bytes: fixed.max_buffer_bytes.get(),
            max_session_bytes: fixed.max_session_bytes.get(),
            idle_ms: fixed.idle_ms.get(),
            peer_address: PeerAddress::read(fixed.peer_ip, fixed.peer_port.get())?,
            name: cursor.text("the name", fixed.name_length.get().into())?,
        })
    }

    fn check(&self) -> Result<(), Problem> {
        check_text("the name", self.name, MAX_NAME)?;
        within("the version", self.version.into(), 1, u16::MAX.into())?;
        within("the devices", self.devices.into(), 0, 1024)?;
        check_frame(self.max_frame)?;
        within("what was received", self.received, 0, MAX_ID)?;
        holds(
            (self.session == SessionId::NONE) == (self.epoch == 0),
            "a session has an epoch, and an epoch a session",
        )?;
        // Room for what goes with them.
        let most = u64::from(self.max_frame - MIN_FRAME / 2);
        within("the bytes that ride along", self.max_inline.into(), 0, most)?;
        let most = match self.features & LONG_PROGRAMS {
            0 => most,
            _ => MAX_PROGRAM.into(),
        };
        let program = u64::from(self.max_program_bytes);
        within("the bytes of a program", program, 0, most)
    }

    fn write(&self, out: &mut Vec<u8>) {
        let (ip, port) = PeerAddress::write(self.peer_address);
        let fixed = layout::Welcome {
            version: self.version.into(),
            data_order: self.data_order.number().into(),
            devices: self.devices.into(),
            features: self.features.into(),
            session: self.session.0,
            epoch: self.epoch.into(),
            patience_ms: self.patience_ms.into(),
            received: self.received.into(),
            max_frame: self.max_frame.into(),
            max_inline: self.max_inline.into(),
            max_commands: self.max_commands.into(),
            max_buffers: self.max_buffers.into(),
            max_programs: self.max_programs.into(),
            max_program_bytes: self.max_program_bytes.into(),
            max_buffer_bytes: self.max_buffer_bytes.into(),
            max_session_bytes: self.max_session_bytes.into(),
            idle_ms: self.idle_ms.into(),
            name_length: (self.name.len() as u16).into(),
            peer_port: port.into(),
            peer_ip: ip,
            reserved: [0; 16],
        };
        out.extend_from_slice(fixed.as_bytes());
        out.extend_from_slice(self.name.as_bytes());
    }
}

/// A node's other answer: the connection is not taken, and ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Refuse<'a> {
    /// The reason.
    pub refusal: Refusal,
    /// For people.
    pub text: &'a str,
}

impl<'a> Body<'a> for Refuse<'a> {
    fn read(cursor: &mut Cursor<'a>) -> Result<Self, Problem> {
        let fixed: &layout::Refuse = cursor.fixed()?;
        zero(RESERVED, fixed.reserved)?;
        Ok(Self {
            refusal: Refusal::of(fixed.code.get())?,
            text: cursor.text("the text", fixed.text_length.get().into())?,
        })
    }

    fn check(&self) -> Result<(), Problem> {
        check_text("the text", self.text, MAX_TEXT)
    }

    fn write(&self, out: &mut Vec<u8>) {
        let fixed = layout::Refuse {
            code: self.refusal.number().into(),
            text_length: (self.text.len() as u16).into(),
            reserved: 0.into(),
        };
        out.extend_from_slice(fixed.as_bytes());
        out.extend_from_slice(self.text.as_bytes());
    }
}

/// The last message of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Goodbye<'a> {
    /// The reason.
    pub reason: GoodbyeReason,
    /// For people.
    pub text: &'a str,
}

impl<'a> Body<'a> for Goodbye<'a> {
    fn read(cursor: &mut Cursor<'a>) -> Result<Self, Problem> {
        let fixed: &layout::Goodbye = cursor.fixed()?;
        zero(RESERVED, fixed.reserved)?;
        Ok(Self {
            reason: GoodbyeReason::of(fixed.reason.get())?,
            text: cursor.text("the text", fixed.text_length.get().into())?,
        })
    }

    fn check(&self) -> Result<(), Problem> {
        check_text("the text", self.text, MAX_TEXT)
    }

    fn write(&self, out: &mut Vec<u8>) {
        let fixed = layout::Goodbye {
            reason: self.reason.number().into(),
            text_length: (self.text.len() as u16).into(),
            reserved: 0.into(),
        };
        out.extend_from_slice(fixed.as_bytes());
        out.extend_from_slice(self.text.as_bytes());
    }
}

/// The messages received of the stream on which it comes, in the other direction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Acknowledge {
    /// The last numbered message that the sender has taken over.
    pub received: u64,
}

impl<'a> Body<'a> for Acknowledge {
    fn read(cursor: &mut Cursor<'a>) -> Result<Self, Problem> {
        let fixed: &layout::Acknowledge = cursor.fixed()?;
        Ok(Self {
            received: fixed.received.get(),
        })
    }

    fn check(&self) -> Result<(), Problem> {
        within("what was received", self.received, 1, MAX_ID)
    }

    fn write(&self, out: &mut Vec<u8>) {
        let fixed = layout::Acknowledge {
            received: self.received.into(),
        };
        out.extend_from_slice(fixed.as_bytes());
    }
}

/// Asks for an answer, at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ping {
    /// Comes back with the answer.
    pub token: u64,
    /// The time at which it was sent, by the sender's clock.
    pub time_ns: u64,
}

impl<'a> Body<'a> for Ping {
    fn read(cursor: &mut Cursor<'a>) -> Result<Self, Problem> {
        let fixed: &layout::Ping = cursor.fixed()?;
        Ok(Self {
            token: fixed.token.get(),
            time_ns: fixed.time_ns.get(),
        })
    }

    fn check(&self) -> Result<(), Problem> {
        Ok(())
    }

    fn write(&self, out: &mut Vec<u8>) {
        let fixed = layout::Ping {
            token: self.token.into(),
            time_ns: self.time_ns.into(),
        };
        out.extend_from_slice(fixed.as_bytes());
    }
}

/// The answer to a ping: its times tell how far the clocks are apart, and how long the way is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pong {
    /// The ping's token.
    pub token: u64,
    /// The ping's time.
    pub time_ns: u64,
    /// The time at which the ping was received, by the answering side's clock.
    pub received_ns: u64,
    /// The time at which this was sent, by the same clock.
    pub sent_ns: u64,
}

impl<'a> Body<'a> for Pong {
    fn read(cursor: &mut Cursor<'a>) -> Result<Self, Problem> {
        let fixed: &layout::Pong = cursor.fixed()?;
        Ok(Self {
            token: fixed.token.get(),
            time_ns: fixed.time_ns.get(),
            received_ns: fixed.received_ns.get(),
            sent_ns: fixed.sent_ns.get(),
        })
    }

    fn check(&self) -> Result<(), Problem> {
        holds(
            self.received_ns <= self.sent_ns,
            "it was sent before the ping was received",
        )
    }

    fn write(&self, out: &mut Vec<u8>) {
        let fixed = layout::Pong {
            token: self.token.into(),
            time_ns: self.time_ns.into(),
            received_ns: self.received_ns.into(),
            sent_ns: self.sent_ns.into(),
        };
        out.extend_from_slice(fixed.as_bytes());
    }
}
