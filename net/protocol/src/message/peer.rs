//! Messages between nodes: tickets, and the messages of a connection that was opened with one.

use super::command::{Operation, Parsed, check_content_size, check_range, read_waits};
use super::cursor::{Cursor, RESERVED, check_id, zero};
use super::resource::ids;
use super::{Body, SessionId, numbers};
use crate::error::{Problem, holds, within};
use crate::layout;
use crate::limits::{MAX_FRAME, MAX_ID, MIN_FRAME};
use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use zerocopy::IntoBytes;

/// The address at which a node waits for others: an address of IPv6, into which those of IPv4 are
/// mapped (RFC 4291), and a port.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct PeerAddress {
    ip: [u8; 16],
    port: u16,
}

impl PeerAddress {
    /// This address; none if it says neither where nor at which port.
    #[must_use]
    pub fn of(address: SocketAddr) -> Option<Self> {
        let ip = match address.ip() {
            IpAddr::V4(ip) => ip.to_ipv6_mapped(),
            IpAddr::V6(ip) => ip,
        };
        let is_some = !address.ip().is_unspecified() && address.port() != 0;
        is_some.then(|| Self {
            ip: ip.octets(),
            port: address.port(),
        })
    }

    /// The address.
    #[must_use]
    pub fn socket(self) -> SocketAddr {
        SocketAddr::new(Ipv6Addr::from(self.ip).to_canonical(), self.port)
    }

    pub(super) fn read(ip: [u8; 16], port: u16) -> Result<Option<Self>, Problem> {
        if ip == [0; 16] && port == 0 {
            return Ok(None);
        }
        let address = SocketAddr::new(Ipv6Addr::from(ip).to_canonical(), port);
        match Self::of(address) {
            Some(address) if address.ip == ip => Ok(Some(address)),
            _ => Err(Problem::Rule("a peer's address without host or port")),
        }
    }

    pub(super) fn write(address: Option<Self>) -> ([u8; 16], u16) {
        address.map_or(([0; 16], 0), |address| (address.ip, address.port))
    }
}

numbers! {
    /// The role of a node on a connection to another.
    PeerRole, "the role of the node" {
        /// It dials, and sends.
        Dials = 1,
        /// It waits to be dialled, and receives.
        Awaits = 2,
    }
}

/// A client tells a node of another: a connection from one to the other is allowed once, with a
/// ticket, within a time. A later one of the same peer takes the place of the one before.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Peer {
    /// The name of the connection in this session. The same for all of its epochs.
    pub peer: u64,
    /// The number of the connection: more than before.
    pub epoch: u32,
    /// The role of the node on it.
    pub role: PeerRole,
    /// True if the connection begins with the session's name, since that has a process of its own.
    pub is_routed: bool,
    /// The number of milliseconds for which the ticket is good.
    pub wait_ms: u32,
    /// The session on the node that is dialled; none for that node.
    pub session: SessionId,
    /// The fingerprint of the key that the other side has to prove.
    pub key: [u8; 32],
    /// The ticket that the one shows and the other expects.
    pub ticket: [u8; 32],
    /// The address to dial; none for the node that is dialled.
    pub address: Option<PeerAddress>,
}

impl std::fmt::Debug for Peer {
    /// Without the ticket.
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter
            .debug_struct("Peer")
            .field("peer", &self.peer)
            .field("epoch", &self.epoch)
            .field("role", &self.role)
            .finish_non_exhaustive()
    }
}

impl<'a> Body<'a> for Peer {
    fn read(cursor: &mut Cursor<'a>) -> Result<Self, Problem> {
        let fixed: &layout::Peer = cursor.fixed()?;
        zero(RESERVED, fixed.reserved)?;
        within("whether it is routed", fixed.routed.into(), 0, 1)?;
        Ok(Self {
            peer: fixed.peer.get(),
            epoch: fixed.epoch.get(),
            role: PeerRole::of(fixed.role.into())?,
            is_routed: fixed.routed == 1,
            wait_ms: fixed.wait_ms.get(),
            session: SessionId(fixed.session),
            key: fixed.key,
            ticket: fixed.ticket,
            address: PeerAddress::read(fixed.ip, fixed.port.get())?,
        })
    }

    fn check(&self) -> Result<(), Problem> {
        check_id("the peer", self.peer)?;
        within("the epoch", self.epoch.into(), 1, u32::MAX.into())?;
        within("the time", self.wait_ms.into(), 1, 600_000)?;
        let dials = self.role == PeerRole::Dials;
        holds(
            dials == self.address.is_some() && dials == (self.session != SessionId::NONE),
            "who dials is told where, and which session, and nobody else is",
        )?;
        holds(dials || !self.is_routed, "only who dials names a session")
    }

    fn write(&self, out: &mut Vec<u8>) {
        let (ip, port) = PeerAddress::write(self.address);
        let fixed = layout::Peer {
            peer: self.peer.into(),
            epoch: self.epoch.into(),
            wait_ms: self.wait_ms.into(),
            session: self.session.0,
            key: self.key,
            ticket: self.ticket,
            ip,
            port: port.into(),
            role: self.role.number() as u8,
            routed: u8::from(self.is_routed),
            reserved: 0.into(),
        };
        out.extend_from_slice(fixed.as_bytes());
    }
}

/// A command: bytes of a buffer are sent to another node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SendBytes {
    /// The buffer.
    pub buffer: u64,
    /// The first byte.
    pub offset: u64,
    /// The number of bytes.
    pub row: u64,
    /// The transfer that brings them to the client if they cannot go straight, an id larger than
    /// that of every transfer before.
    pub transfer: u64,
    /// To whom.
    pub peer: u64,
    /// The name of the transfer there.
    pub remote: u64,
}

impl SendBytes {
    pub(super) fn read<'a>(waits: usize, cursor: &mut Cursor<'a>) -> Result<Parsed<'a>, Problem> {
        let fixed: &layout::Send = cursor.fixed()?;
        let send = Self {
            buffer: fixed.buffer.get(),
            offset: fixed.offset.get(),
            row: fixed.row.get(),
            transfer: fixed.transfer.get(),
            peer: fixed.peer.get(),
            remote: fixed.remote.get(),
        };
        Ok((read_waits(waits, cursor)?, Operation::Send(send)))
    }

    pub(super) fn check(&self) -> Result<(), Problem> {
        check_id("the buffer", self.buffer)?;
        check_range(self.offset, self.row)?;
        check_id("the transfer", self.transfer)?;
        check_id("the peer", self.peer)?;
        check_id("the transfer there", self.remote)
    }

    pub(super) fn write(&self, waits: &[u8], out: &mut Vec<u8>) {
        let fixed = layout::Send {
            buffer: self.buffer.into(),
            offset: self.offset.into(),
            row: self.row.into(),
            transfer: self.transfer.into(),
            peer: self.peer.into(),
            remote: self.remote.into(),
        };
        out.extend_from_slice(fixed.as_bytes());
        out.extend_from_slice(waits);
    }
}

/// A command: as much of a range of a buffer as is in use is sent to another node, which puts zeros
/// behind it. Both nodes and the client have agreed on [`SENT_CONTENT`](crate::SENT_CONTENT).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SendContent {
    /// The bytes that are sent if all of the range is in use.
    pub all: SendBytes,
    /// The buffer whose first eight bytes say how many of the buffer's are in use, from its first
    /// on.
    pub size: u64,
}

impl SendContent {
    pub(super) fn read<'a>(waits: usize, cursor: &mut Cursor<'a>) -> Result<Parsed<'a>, Problem> {
        let fixed: &layout::SendContent = cursor.fixed()?;
        let send = Self {
            all: SendBytes {
                buffer: fixed.buffer.get(),
                offset: fixed.offset.get(),
                row: fixed.row.get(),
                transfer: fixed.transfer.get(),
                peer: fixed.peer.get(),
                remote: fixed.remote.get(),
            },
            size: fixed.size.get(),
        };
        Ok((read_waits(waits, cursor)?, Operation::SendContent(send)))
    }

    pub(super) fn check(&self) -> Result<(), Problem> {
        self.all.check()?;
        check_content_size(self.all.buffer, self.size)
    }

    pub(super) fn write(&self, waits: &[u8], out: &mut Vec<u8>) {
        let fixed = layout::SendContent {
            buffer: self.all.buffer.into(),
            offset: self.all.offset.into(),
            row: self.all.row.into(),
            transfer: self.all.transfer.into(),
            peer: self.all.peer.into(),
            remote: self.all.remote.into(),
            size: self.size.into(),
        };
        out.extend_from_slice(fixed.as_bytes());
        out.extend_from_slice(waits);
    }
}

/// A command: bytes of a buffer come from another node, or by way of the client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Receive {
    /// The buffer.
    pub buffer: u64,
    /// The first byte.
    pub offset: u64,
    /// The number of bytes.
    pub row: u64,
    /// The transfer that brings them, an id larger than that of every transfer before.
    pub transfer: u64,
    /// From whom.
    pub peer: u64,
}

impl Receive {
    pub(super) fn read<'a>(waits: usize, cursor: &mut Cursor<'a>) -> Result<Parsed<'a>, Problem> {
        let fixed: &layout::Receive = cursor.fixed()?;
        let receive = Self {
            buffer: fixed.buffer.get(),
            offset: fixed.offset.get(),
            row: fixed.row.get(),
            transfer: fixed.transfer.get(),
            peer: fixed.peer.get(),
        };
        Ok((read_waits(waits, cursor)?, Operation::Receive(receive)))
    }

    pub(super) fn check(&self) -> Result<(), Problem> {
        check_id("the buffer", self.buffer)?;
        check_range(self.offset, self.row)?;
        check_id("the transfer", self.transfer)?;
        check_id("the peer", self.peer)
    }

    pub(super) fn write(&self, waits: &[u8], out: &mut Vec<u8>) {
        let fixed = layout::Receive {
            buffer: self.buffer.into(),
            offset: self.offset.into(),
            row: self.row.into(),
            transfer: self.transfer.into(),
            peer: self.peer.into(),
        };
        out.extend_from_slice(fixed.as_bytes());
        out.extend_from_slice(waits);
    }
}

/// When a command has ended, another node is told that its placeholder has come about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tell {
    /// The command's event.
    pub event: u64,
    /// The peer that is told.
    pub peer: u64,
    /// The placeholder there.
    pub placeholder: u64,
}

impl<'a> Body<'a> for Tell {
    fn read(cursor: &mut Cursor<'a>) -> Result<Self, Problem> {
        let fixed: &layout::Tell = cursor.fixed()?;
        Ok(Self {
            event: fixed.event.get(),
            peer: fixed.peer.get(),
            placeholder: fixed.placeholder.get(),
        })
    }

    fn check(&self) -> Result<(), Problem> {
        check_id("the event", self.event)?;
        check_id("the peer", self.peer)?;
        check_id("the placeholder", self.placeholder)
    }

    fn write(&self, out: &mut Vec<u8>) {
        let fixed = layout::Tell {
            event: self.event.into(),
            peer: self.peer.into(),
            placeholder: self.placeholder.into(),
        };
        out.extend_from_slice(fixed.as_bytes());
    }
}

/// The first message of a connection from node to node.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Ticket {
    /// The oldest and the newest minor version that the sender understands.
    pub versions: (u16, u16),
    /// The number of the peer's connection.
    pub epoch: u32,
    /// The session that is dialled.
    pub session: SessionId,
    /// The ticket.
    pub ticket: [u8; 32],
    /// The largest frame that the sender takes.
    pub max_frame: u32,
}

impl std::fmt::Debug for Ticket {
    /// Without the ticket.
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter
            .debug_struct("Ticket")
            .field("epoch", &self.epoch)
            .finish_non_exhaustive()
    }
}

fn check_frame(max_frame: u32) -> Result<(), Problem> {
    let bounds = (u64::from(MIN_FRAME), u64::from(MAX_FRAME));
    within("the largest frame", max_frame.into(), bounds.0, bounds.1)
}

impl<'a> Body<'a> for Ticket {
    fn read(cursor: &mut Cursor<'a>) -> Result<Self, Problem> {
        let fixed: &layout::Ticket = cursor.fixed()?;
        zero(RESERVED, fixed.reserved)?;
        Ok(Self {
            versions: (fixed.min_version.get(), fixed.max_version.get()),
            epoch: fixed.epoch.get(),
            session: SessionId(fixed.session),
            ticket: fixed.ticket,
            max_frame: fixed.max_frame.get(),
        })
    }

    fn check(&self) -> Result<(), Problem> {
        let (oldest, newest) = self.versions;
        holds(
            1 <= oldest && oldest <= newest,
            "its versions are not a range from 1 on",
        )?;
        within("the epoch", self.epoch.into(), 1, u32::MAX.into())?;
        holds(self.session != SessionId::NONE, "a ticket to no session")?;
        check_frame(self.max_frame)
    }

    fn write(&self, out: &mut Vec<u8>) {
        let fixed = layout::Ticket {
            min_version: self.versions.0.into(),
            max_version: self.versions.1.into(),
            epoch: self.epoch.into(),
            session: self.session.0,
            ticket: self.ticket,
            max_frame: self.max_frame.into(),
            reserved: 0.into(),
        };
        out.extend_from_slice(fixed.as_bytes());
    }
}

/// The answer to a ticket that is good. To another there is none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Admitted {
    /// The version that is spoken from here on.
    pub version: u16,
    /// The largest frame that the sender takes.
    pub max_frame: u32,
}

impl<'a> Body<'a> for Admitted {
    fn read(cursor: &mut Cursor<'a>) -> Result<Self, Problem> {
        let fixed: &layout::Admitted = cursor.fixed()?;
        zero(RESERVED, fixed.reserved)?;
        Ok(Self {
            version: fixed.version.get(),
            max_frame: fixed.max_frame.get(),
        })
    }

    fn check(&self) -> Result<(), Problem> {
        within("the version", self.version.into(), 1, u16::MAX.into())?;
        check_frame(self.max_frame)
    }

    fn write(&self, out: &mut Vec<u8>) {
        let fixed = layout::Admitted {
            version: self.version.into(),
            reserved: 0.into(),
            max_frame: self.max_frame.into(),
        };
        out.extend_from_slice(fixed.as_bytes());
    }
}

/// A placeholder of the client's, and who may bring it about beside the client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Placeholder {
    /// Its event: an id larger than that of every event before.
    pub event: u64,
    /// The peer that may; zero for none.
    pub peer: u64,
}

impl<'a> Body<'a> for Placeholder {
    fn read(cursor: &mut Cursor<'a>) -> Result<Self, Problem> {
        let fixed: &layout::Placeholder = cursor.fixed()?;
        Ok(Self {
            event: fixed.event.get(),
            peer: fixed.peer.get(),
        })
    }

    fn check(&self) -> Result<(), Problem> {
        check_id("the event", self.event)?;
        within("the peer", self.peer, 0, MAX_ID)
    }

    fn write(&self, out: &mut Vec<u8>) {
        let fixed = layout::Placeholder {
            event: self.event.into(),
            peer: self.peer.into(),
        };
        out.extend_from_slice(fixed.as_bytes());
    }
}

ids! {
    /// The rest of a transfer from another node never comes: the command that receives it fails,
    /// unless all has come.
    Abandon, transfer, "the transfer";
    /// A placeholder of the receiver's has come about.
    CameAbout, event, "the event";
    /// All bytes of a transfer have come.
    Taken, transfer, "the transfer";
    /// A peer that was dialled is gone: nothing is sent there any more, and what is kept for it is
    /// not needed.
    Part, peer, "the peer";
}
