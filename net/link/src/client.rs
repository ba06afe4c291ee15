//! Dialling a node: enrolment, hello, ping, status.

use crate::addresses::SEPARATOR;
use crate::connection::Connection;
use crate::error::{LinkError, Result};
use crate::invitation::Invitation;
use crate::key::{Fingerprint, Key, random};
use crate::resolve::{NAMES_HERE, answered};
use crate::route::Route;
use crate::session::{NodeDevice, NodeLinks, NodeLoad, Place};
use crate::timer::deadline_after;
use crate::tls::{self, OnlyNode};
use quipu_protocol::limits::MAX_NAME;
use quipu_protocol::message::{
    DataOrder, Enrol, Message, Ping, Refuse, Role, SessionId, Status, presentable,
};
use quipu_protocol::{ENROLMENT_PROTOCOL, PROTOCOL};
use quipu_threads::Start;
use rustls::ClientConnection;
use std::io::Write;
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::sync::mpsc::channel;
use std::time::{Duration, Instant};

/// The node to dial, and the identity to dial with.
#[derive(Clone, Copy, Debug)]
pub struct Dial<'a> {
    /// The node's address, as `host:port`.
    pub address: &'a str,
    /// The key that it has to have.
    pub node: Fingerprint,
    /// Our key.
    pub key: &'a Key,
    /// Our own name.
    pub name: &'a str,
    /// The time within which the node has to answer the first words.
    pub patience: Duration,
}

/// A connection to a node that has said welcome.
#[derive(Debug)]
pub struct NodeLink {
    connection: Connection,
    name: String,
    version: u16,
    devices: Vec<NodeDevice>,
    tells_loads: bool,
    tells_links: bool,
    /// The time from which times are counted.
    start: Instant,
}

/// A node's report of itself.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Look {
    /// Its status.
    pub status: Status,
    /// The load of each of its devices; none from a node that does not say.
    pub loads: Vec<NodeLoad>,
    /// The traffic of the links of our own sessions; none from a node that does not say.
    pub links: NodeLinks,
}

/// The times of a ping.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PingTimes {
    /// The time there and back, without the node's time to answer.
    pub round_trip: Duration,
    /// By how many nanoseconds the node's clock is ahead of ours, which count from different
    /// moments; wrong by half the round trip at most.
    pub ahead_ns: i128,
}

impl Dial<'_> {
    /// A connection to the node on which nothing was said yet, until the patience is over.
    ///
    /// # Errors
    /// If the node cannot be reached, is another than it should be, or does not answer in time.
    pub fn open(&self) -> Result<Connection> {
        self.connect(PROTOCOL, None)
    }

    /// A connection in one of the protocols, handshake done: to the node, or to a session's own
    /// process there, which has this key.
    pub(crate) fn connect(
        &self,
        protocol: &[u8],
        session: Option<(SessionId, Fingerprint)>,
    ) -> Result<Connection> {
        let node = session.map_or(self.node, |(_, key)| key);
        let whom = (Some(node), session.map(|(session, _)| session));
        connect(
            self.address,
            self.key,
            whom,
            protocol,
            self.patience,
            |_| (),
        )
    }

    /// A connection to the node, handshake done. As soon as one of its addresses has answered,
    /// `reached` is told which; the last that it is told is the node's.
    pub(crate) fn connect_telling(
        &self,
        protocol: &[u8],
        reached: impl FnMut(SocketAddr),
    ) -> Result<Connection> {
        let whom = (Some(self.node), None);
        connect(
            self.address,
            self.key,
            whom,
            protocol,
            self.patience,
            reached,
        )
    }

    /// Asks about the node: a connection for [`NodeLink::ping`] and [`NodeLink::status`], which
    /// belongs to no session.
    ///
    /// # Errors
    /// If the node cannot be reached, is another than it should be, refuses, or does not answer in
    /// time.
    pub fn ask(&self) -> Result<NodeLink> {
        let greeted = self.greet_here(Role::Status, &Place::default())?;
        Ok(NodeLink {
            connection: greeted.connection,
            tells_loads: greeted.terms.tells_loads(),
            tells_links: greeted.terms.tells_links(),
            name: greeted.terms.name,
            version: greeted.terms.version,
            devices: greeted.devices,
            start: Instant::now(),
        })
    }
}

/// A connection in one of the protocols, handshake done: to the node or session of a key, or to any
/// side that answers where none is expected. Each address that answers is told to `reached`.
fn connect(
    address: &str,
    key: &Key,
    (node, session): (Option<Fingerprint>, Option<SessionId>),
    protocol: &[u8],
    patience: Duration,
    mut reached: impl FnMut(SocketAddr),
) -> Result<Connection> {
    let deadline = deadline_after(patience);
    let mut connection = NAMES_HERE.reach(address, deadline, |mut stream, until| {
        if let Ok(host) = stream.peer_addr() {
            reached(host);
        }
        if let Some(session) = session {
            let written = stream.write_all(&Route::to(session).encode());
            written.map_err(|error| crate::connection::ended(address, error))?;
        }
        let tls = tls::client(key, node, protocol, address)?;
        shake_hands(stream, tls, protocol, address, until)
    })?;
    connection.set_deadline(Some(deadline));
    Ok(connection)
}

/// TLS's handshake on a connection, in one of the protocols, with the side whose key the verifier
/// expects.
pub(crate) fn shake_hands(
    stream: TcpStream,
    (tls, only): (ClientConnection, Arc<OnlyNode>),
    protocol: &[u8],
    address: &str,
    deadline: Instant,
) -> Result<Connection> {
    let shaken = Connection::shake_hands(stream, tls.into(), address, deadline);
    if let Some((expected, found)) = only.wrong_key() {
        return Err(LinkError::WrongKey {
            address: address.to_owned(),
            expected,
            found,
        });
    }
    let connection = shaken?;
    if connection.protocol() == protocol {
        return Ok(connection);
    }
    Err(LinkError::Tls {
        address: address.to_owned(),
        source: rustls::Error::NoApplicationProtocol,
    })
}

/// A connection to the first that answers at one of several addresses, with separators between
/// them: the node of a key, or any. All addresses are tried at once: one that leads nowhere may say
/// so late or never. Nothing is said to the other side before.
fn connect_to_first(
    addresses: &str,
    key: &Key,
    node: Option<Fingerprint>,
    protocol: &'static [u8],
    patience: Duration,
) -> Result<Connection> {
    let unreachable = |source| LinkError::Unreachable {
        address: addresses.to_owned(),
        source,
    };
    let (found, finds) = channel();
    for address in addresses.split(SEPARATOR).map(str::to_owned) {
        let (found, key) = (found.clone(), key.clone());
        // Each ends by itself when the patience is over.
        let dialling = move || {
            // Another may have been found before.
            let whom = (node, None);
            let _ = found.send(connect(&address, &key, whom, protocol, patience, |_| ()));
        };
        let thread = std::thread::Builder::new().name("quipu-dial".to_owned());
        thread.start(dialling).map_err(unreachable)?;
    }
    drop(found);
    let mut failure = None;
    for attempt in finds {
        match attempt {
            Ok(connection) => return Ok(connection),
            Err(error) if answered(&error) => failure = Some(error),
            Err(error) => failure = failure.or(Some(error)),
        }
    }
    Err(match failure {
        Some(LinkError::Unreachable { source, .. }) => unreachable(source),
        Some(error) => error,
        None => unreachable(std::io::ErrorKind::AddrNotAvailable.into()),
    })
}

/// The key of the first that answers at one of several addresses, with commas between them, and its
/// address. It is for a node that lets every client in
/// ([`Gate::insecure`](crate::gate::Gate::insecure)), whose right key is not known.
///
/// # Errors
/// If no side that speaks Quipu's protocol answers in time.
pub fn key_at(addresses: &str, key: &Key, patience: Duration) -> Result<(Fingerprint, String)> {
    let connection = connect_to_first(addresses, key, None, PROTOCOL, patience)?;
    let found = (connection.peer(), connection.address().to_owned());
    connection.end();
    Ok(found)
}

/// The order of bytes in this machine's numbers.
#[must_use]
pub fn own_order() -> DataOrder {
    if cfg!(target_endian = "big") {
        DataOrder::Big
    } else {
        DataOrder::Little
    }
}

/// As [`Connection::receive_as`]; a refusal is an error of its own.
pub(crate) fn receive_or_refusal<T>(
    connection: &mut Connection,
    take: impl FnOnce(&Message<'_>) -> std::result::Result<T, &'static str>,
) -> Result<T> {
    let address = connection.address().to_owned();
    connection.receive_as(|message| match message {
        Message::Refuse(Refuse { refusal, text }) => Ok(Err(LinkError::Refused {
            address,
            refusal: *refusal,
            text: (*text).to_owned(),
        })),
        other => take(other).map(Ok),
    })?
}

/// A node at which an invitation was taken up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Joined {
    /// The node's name.
    pub name: String,
    /// The one of the invitation's addresses at which it is.
    pub address: String,
}

impl Invitation {
    /// Takes the invitation up: has our key enrolled, at the first of its addresses that has the
    /// node's key.
    ///
    /// # Errors
    /// If the node cannot be reached, has another key than the invitation says, does not answer in
    /// time, or refuses, which it does when the invitation is used or older than ten minutes.
    pub fn take_up(&self, key: &Key, name: &str, patience: Duration) -> Result<Joined> {
        let node = Some(self.node);
        let mut connection =
            connect_to_first(&self.address, key, node, ENROLMENT_PROTOCOL, patience)?;
        let name = presentable(name, MAX_NAME);
        connection.send(&Message::Enrol(Enrol {
            token: self.token,
            name: &name,
        }))?;
        let name = receive_or_refusal(&mut connection, |message| match message {
            Message::Enrolled(enrolled) => Ok(enrolled.name.to_owned()),
            _ => Err("an answer to an enrolment"),
        })?;
        let address = connection.address().to_owned();
        connection.end();
        Ok(Joined { name, address })
    }
}

impl NodeLink {
    /// The node's own name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The version that is spoken.
    #[must_use]
    pub fn version(&self) -> u16 {
        self.version
    }

    /// The node's devices.
    #[must_use]
    pub fn devices(&self) -> &[NodeDevice] {
        &self.devices
    }

    /// From now on, everything is to be answered within this time.
    pub fn set_patience(&mut self, patience: Duration) {
        self.connection.set_deadline(Some(deadline_after(patience)));
    }

    fn now_ns(&self) -> u64 {
        u64::try_from(self.start.elapsed().as_nanos()).unwrap_or(u64::MAX)
    }

    /// The node's distance, in time.
    ///
    /// # Errors
    /// If the connection is lost, or time runs out.
    pub fn ping(&mut self) -> Result<PingTimes> {
        let token = u64::from_le_bytes(random("make a ping")?);
        let sent = self.now_ns();
        self.connection.send(&Message::Ping(Ping {
            token,
            time_ns: sent,
        }))?;
        let pong = self.connection.receive_as(|message| match message {
            Message::Pong(pong) if pong.token == token && pong.time_ns == sent => Ok(*pong),
            _ => Err("the answer to a ping"),
        })?;
        let back = self.now_ns();
        let (way, answering) = (back - sent, pong.sent_ns - pong.received_ns);
        let [sent, back, received, answered] =
            [sent, back, pong.received_ns, pong.sent_ns].map(i128::from);
        Ok(PingTimes {
            round_trip: Duration::from_nanos(way.saturating_sub(answering)),
            ahead_ns: ((received - sent) + (answered - back)) / 2,
        })
    }

    /// The node's status.
    ///
    /// # Errors
    /// As [`NodeLink::ping`].
    pub fn status(&mut self) -> Result<Status> {
        Ok(self.look()?.status)
    }

    /// The node's status, the loads of its devices, and the traffic of its links.
    ///
    /// # Errors
    /// As [`NodeLink::ping`].
    pub fn look(&mut self) -> Result<Look> {
        self.connection.send(&Message::StatusRequest)?;
        let status = self.connection.receive_as(|message| match message {
            Message::Status(status) => Ok(*status),
            _ => Err("the node's status"),
        })?;
        let count = if self.tells_loads {
            self.devices.len()
        } else {
            0
        };
        let mut loads = Vec::with_capacity(count);
        for number in 0..count {
            loads.push(self.connection.receive_as(|message| match message {
                Message::Load(load) if load.device as usize == number => Ok(NodeLoad::from(load)),
                _ => Err("the next device's load"),
            })?);
        }
        let links = match self.tells_links {
            false => NodeLinks::default(),
            true => self.connection.receive_as(|message| match message {
                Message::Links(links) => Ok(NodeLinks::from(links)),
                _ => Err("the node's links"),
            })?,
        };
        Ok(Look {
            status,
            loads,
            links,
        })
    }

    /// The connection, for other messages on it.
    #[must_use]
    pub fn into_connection(self) -> Connection {
        let mut connection = self.connection;
        connection.set_deadline(None);
        connection
    }

    /// Says goodbye.
    pub fn close(self) {
        self.connection
            .close(quipu_protocol::message::GoodbyeReason::Done, "");
    }
}
