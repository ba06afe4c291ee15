//! The traffic on the connections of a client's sessions.

use super::cursor::{Cursor, RESERVED, zero};
use super::peer::PeerAddress;
use super::{Body, Word, numbers};
use crate::error::{Problem, holds, within};
use crate::layout;
use crate::limits::{HEADER, MAX_LINKS, MIN_FRAME};
use zerocopy::little_endian::{U16, U32};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

numbers! {
    /// The kind of a link, seen from the session that has it.
    LinkKind, "what a link is" {
        /// The command stream.
        Commands = 1,
        /// The bulk stream.
        Bulk = 2,
        /// To another node, which it dials.
        ToNode = 3,
        /// From another node, which has dialled.
        FromNode = 4,
    }
    /// The state of a link.
    LinkState, "the state of a link" {
        /// There is a connection.
        Connected = 1,
        /// There is none yet, or its client is to come back with one.
        Awaited = 2,
        /// There is none to the other node: its bytes go by way of the client.
        ByClient = 3,
    }
}

/// The traffic of a link, and its state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LinkLoad {
    /// The number of the client's session that has it, from one: in the order in which they began.
    pub session: u32,
    /// Its kind.
    pub kind: LinkKind,
    /// Its state.
    pub state: LinkState,
    /// The number of times that another connection has taken the place of one that was lost.
    pub resumed: u32,
    /// The address of the other side; none if that is not known.
    pub address: Option<PeerAddress>,
    /// The fingerprint of a key: of a link with the client, the one that the session proves; of
    /// others, the one that the other node proves, which is that of its session. So who asks both
    /// nodes finds the two ends of a link.
    pub key: [u8; 32],
    /// The time there and back; zero if that is not known.
    pub round_trip_ns: u64,
    /// Bytes that were sent, as the network has them.
    pub sent: u64,
    /// Bytes that have come, as the network had them.
    pub received: u64,
    /// Bytes of chunks that were sent, and what was sent for them: less, if they were compressed.
    pub chunks_sent: [u64; 2],
    /// Bytes of chunks that have come, and what has come for them.
    pub chunks_received: [u64; 2],
}

/// A [`LinkLoad`] as it is on the wire.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned,
)]
#[repr(C)]
pub struct LinkEntry {
    session: U32,
    kind: U16,
    state: U16,
    resumed: U32,
    port: U16,
    reserved: U16,
    ip: [u8; 16],
    key: [u8; 32],
    round_trip_ns: Word,
    sent: Word,
    received: Word,
    chunks_sent: [Word; 2],
    chunks_received: [Word; 2],
}

const _: () = assert!(size_of::<LinkEntry>() == 120);
// Who asks may take no larger frame.
const _: () = assert!(HEADER + 16 + MAX_LINKS * 120 <= MIN_FRAME as usize);

impl From<&LinkLoad> for LinkEntry {
    fn from(load: &LinkLoad) -> Self {
        let (ip, port) = PeerAddress::write(load.address);
        Self {
            session: load.session.into(),
            kind: load.kind.number().into(),
            state: load.state.number().into(),
            resumed: load.resumed.into(),
            port: port.into(),
            reserved: 0.into(),
            ip,
            key: load.key,
            round_trip_ns: load.round_trip_ns.into(),
            sent: load.sent.into(),
            received: load.received.into(),
            chunks_sent: load.chunks_sent.map(Word::new),
            chunks_received: load.chunks_received.map(Word::new),
        }
    }
}

impl LinkEntry {
    /// Its contents.
    ///
    /// # Errors
    /// If it makes no sense.
    pub fn load(&self) -> Result<LinkLoad, Problem> {
        zero(RESERVED, self.reserved)?;
        let load = LinkLoad {
            session: self.session.get(),
            kind: LinkKind::of(self.kind.get())?,
            state: LinkState::of(self.state.get())?,
            resumed: self.resumed.get(),
            address: PeerAddress::read(self.ip, self.port.get())?,
            key: self.key,
            round_trip_ns: self.round_trip_ns.get(),
            sent: self.sent.get(),
            received: self.received.get(),
            chunks_sent: self.chunks_sent.map(Word::get),
            chunks_received: self.chunks_received.map(Word::get),
        };
        holds(load.session > 0, "a client's sessions are counted from one")?;
        let is_of_client = matches!(load.kind, LinkKind::Commands | LinkKind::Bulk);
        holds(
            !is_of_client || load.state != LinkState::ByClient,
            "a link with the client that goes by way of it",
        )?;
        Ok(load)
    }
}

/// The links of a client's sessions: both sides have agreed on [`LINKS`](crate::LINKS).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Links<'a> {
    /// The number of links beside these.
    pub more: u32,
    /// The links, those of a session one after the other.
    pub links: &'a [LinkEntry],
}

impl<'a> Body<'a> for Links<'a> {
    fn read(cursor: &mut Cursor<'a>) -> Result<Self, Problem> {
        let fixed: &layout::Links = cursor.fixed()?;
        zero(RESERVED, fixed.reserved)?;
        Ok(Self {
            more: fixed.more.get(),
            links: cursor.list("the links", fixed.link_count.get() as usize)?,
        })
    }

    fn check(&self) -> Result<(), Problem> {
        let links = self.links.len() as u64;
        within("the number of links", links, 0, MAX_LINKS as u64)?;
        self.links
            .iter()
            .try_for_each(|link| link.load().map(|_| ()))
    }

    fn write(&self, out: &mut Vec<u8>) {
        let fixed = layout::Links {
            link_count: (self.links.len() as u32).into(),
            more: self.more.into(),
            reserved: 0.into(),
        };
        out.extend_from_slice(fixed.as_bytes());
        out.extend_from_slice(self.links.as_bytes());
    }
}
