//! Connections from node to node: where one may dial, and the first words, which are a ticket.
//!
//! 1. The dialling side connects to an address in a [network](Networks) that its operator allows,
//!    and no other.
//! 2. If the session that dials has a process of its own, its node's process does a first handshake
//!    ([`Networks::prove`]). So the session gets a connection only to a side that has the key that
//!    it named.
//! 3. TLS's handshake: the dialling side goes on with one key only. The dialled side has a key
//!    proved to it, and checks that it expects that one. If not, it closes, and no byte that came
//!    is looked at.
//! 4. The dialling side shows its ticket. If the ticket is good, the other side says so; else it
//!    closes the connection, whatever is wrong with the ticket.

use crate::connection::{Connection, ended};
use crate::error::{LinkError, Result};
use crate::key::{Fingerprint, Key};
use crate::route::Route;
use crate::tls;
use quipu_protocol::limits::MAX_FRAME;
use quipu_protocol::message::{Admitted, Message, SessionId, Ticket};
use quipu_protocol::{NEWEST_VERSION, OLDEST_VERSION, PEER_PROTOCOL, PROOF_PROTOCOL, negotiate};
use std::io::Write;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpStream};
use std::str::FromStr;
use std::time::{Duration, Instant};

/// The networks in which a node may dial others.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Networks {
    /// First bits, and how many count.
    allowed: Vec<(u128, u32)>,
    /// This machine itself, too, if the node is not to be reached from elsewhere.
    own_if_local: bool,
}

/// The address of another node, its key, and the session that a connection to it is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Destination {
    /// Its address.
    pub address: SocketAddr,
    /// The key that it has to prove.
    pub key: Fingerprint,
    /// The session that the connection is for, if that has a process of its own.
    pub session: Option<SessionId>,
}

fn bits(ip: IpAddr) -> u128 {
    match ip {
        IpAddr::V4(ip) => ip.to_ipv6_mapped(),
        IpAddr::V6(ip) => ip,
    }
    .to_bits()
}

/// Networks that are not of the internet.
const PRIVATE: [&str; 4] = ["10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "fc00::/7"];

impl Default for Networks {
    /// Private networks (RFC 1918, RFC 4193); and this machine itself, if the node listens for this
    /// machine alone.
    fn default() -> Self {
        let allowed = PRIVATE.iter().filter_map(|text| parse(text));
        Self {
            allowed: allowed.collect(),
            own_if_local: true,
        }
    }
}

/// A network as `10.1.0.0/16`, or one address.
fn parse(text: &str) -> Option<(u128, u32)> {
    let (ip, length) = match text.split_once('/') {
        Some((ip, length)) => (ip, Some(length.parse::<u32>().ok()?)),
        None => (text, None),
    };
    let ip: IpAddr = ip.parse().ok()?;
    let (before, all) = match ip {
        IpAddr::V4(_) => (96, 32),
        IpAddr::V6(_) => (0, 128),
    };
    let length = length.unwrap_or(all);
    (length <= all).then(|| (bits(ip), before + length))
}

impl FromStr for Networks {
    type Err = LinkError;

    /// Networks with commas between them (`10.1.0.0/16, fd00::/8`); or `private`, which is the
    /// default; or `none`.
    fn from_str(text: &str) -> Result<Self> {
        let mut networks = Self::none();
        let names = text.split(',').map(str::trim);
        for name in names.filter(|name| !name.is_empty() && *name != "none") {
            if name == "private" {
                let private = Self::default();
                networks.allowed.extend(private.allowed);
                networks.own_if_local = true;
                continue;
            }
            networks
                .allowed
                .push(parse(name).ok_or_else(|| LinkError::BadText {
                what: "the network",
                text: name.to_owned(),
                problem: "is none; write it as 10.1.0.0/16 or fd00::/8, or `private`, or `none`",
            })?);
        }
        Ok(networks)
    }
}

impl Networks {
    /// None.
    #[must_use]
    pub fn none() -> Self {
        Self {
            allowed: Vec::new(),
            own_if_local: false,
        }
    }

    /// As seen from a node that listens there.
    #[must_use]
    pub fn seen_from(mut self, own: SocketAddr) -> Self {
        if std::mem::take(&mut self.own_if_local) && own.ip().is_loopback() {
            self.allowed.push((bits(Ipv4Addr::LOCALHOST.into()), 104));
            self.allowed
                .push((bits(std::net::Ipv6Addr::LOCALHOST.into()), 128));
        }
        self
    }

    /// True if there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.allowed.is_empty()
    }

    /// True if an address is in one of them.
    #[must_use]
    pub fn allow(&self, ip: IpAddr) -> bool {
        let ip = bits(ip);
        let mut networks = self.allowed.iter();
        networks.any(|(first, length)| {
            // All bits count, none does, or some.
            let beyond = 128 - length;
            (ip ^ first).checked_shr(beyond).unwrap_or(0) == 0
        })
    }

    /// Connects, if an address is in one of them, and says the way to the session there.
    ///
    /// # Errors
    /// If it is not, or no side answers in time.
    pub fn reach(&self, to: &Destination, deadline: Instant) -> std::io::Result<TcpStream> {
        use std::io::{Error, ErrorKind};
        if !self.allow(to.address.ip()) {
            return Err(Error::new(
                ErrorKind::PermissionDenied,
                "the node does not dial that network; its operator allows it with --peer-networks",
            ));
        }
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(ErrorKind::TimedOut.into());
        }
        let mut stream = TcpStream::connect_timeout(&to.address, left)?;
        if let Some(session) = to.session {
            let left = deadline.saturating_duration_since(Instant::now());
            stream.set_write_timeout(Some(left.max(Duration::from_millis(1))))?;
            stream.write_all(&Route::to(session).encode())?;
        }
        Ok(stream)
    }

    /// Connects as [`reach`](Self::reach) does, and has the answering side prove that it has the
    /// right key. Another process speaks next on the connection, and only a connection that has
    /// proved it is handed to that process.
    ///
    /// # Errors
    /// If there is no connection, or no proof, in time.
    pub fn prove(&self, to: &Destination, deadline: Instant) -> Result<TcpStream> {
        let address = "a peer";
        let stream = self
            .reach(to, deadline)
            .map_err(|error| ended(address, error))?;
        // The dialled side does not check the key of the side that asks for a proof.
        let (tls, _) = tls::client(&Key::passing()?, Some(to.key), PROOF_PROTOCOL, address)?;
        let connection = Connection::shake_hands(stream, tls.into(), address, deadline)?;
        if connection.protocol() != PROOF_PROTOCOL {
            return Err(no_protocol(address));
        }
        connection.leave(true)
    }
}

fn no_protocol(address: &str) -> LinkError {
    LinkError::Tls {
        address: address.to_owned(),
        source: rustls::Error::NoApplicationProtocol,
    }
}

/// Says the first words to a node that was dialled: shows it a ticket, once it has proved that it
/// has just this key.
///
/// # Errors
/// If it has another, or does not take the ticket, or does not answer in time.
pub fn show(
    stream: TcpStream,
    key: &Key,
    expected: Fingerprint,
    ticket: &Ticket,
    deadline: Instant,
) -> Result<Connection> {
    let address = "a peer";
    let (tls, _) = tls::client(key, Some(expected), PEER_PROTOCOL, address)?;
    let mut connection = Connection::shake_hands(stream, tls.into(), address, deadline)?;
    if connection.protocol() != PEER_PROTOCOL {
        return Err(no_protocol(address));
    }
    connection.send(&Message::Ticket(Ticket {
        versions: (OLDEST_VERSION, NEWEST_VERSION),
        max_frame: MAX_FRAME,
        ..*ticket
    }))?;
    let admitted = connection.receive_as(|message| match message {
        Message::Admitted(admitted) => Ok(*admitted),
        _ => Err("the answer to a ticket"),
    })?;
    if !(OLDEST_VERSION..=NEWEST_VERSION).contains(&admitted.version) {
        return Err(LinkError::Unexpected {
            address: address.to_owned(),
            kind: "admitted",
            expected: "a version that was offered",
        });
    }
    connection.allow_frames(admitted.max_frame, MAX_FRAME);
    connection.set_deadline(None);
    Ok(connection)
}

/// A side that says that it is a node, and has proved that it has a key. None of its bytes were
/// looked at.
#[derive(Debug)]
pub struct PeerCaller {
    connection: Connection,
}

impl PeerCaller {
    pub(crate) fn new(connection: Connection) -> Self {
        Self { connection }
    }

    /// Its key.
    #[must_use]
    pub fn key(&self) -> Fingerprint {
        self.connection.peer()
    }

    /// The address from which it has come.
    #[must_use]
    pub fn address(&self) -> &str {
        self.connection.address()
    }

    /// Reads its ticket: to be called if its key is one that is expected.
    ///
    /// # Errors
    /// If it shows none in time, or speaks no version that is spoken here.
    pub fn ticket(&mut self) -> Result<Ticket> {
        let ticket = self.connection.receive_as(|message| match message {
            Message::Ticket(ticket) => Ok(*ticket),
            _ => Err("a ticket"),
        })?;
        if negotiate((OLDEST_VERSION, NEWEST_VERSION), ticket.versions).is_none() {
            return Err(LinkError::Unexpected {
                address: self.connection.address().to_owned(),
                kind: "ticket",
                expected: "a version that is spoken here",
            });
        }
        Ok(ticket)
    }

    /// Takes the connection.
    ///
    /// # Errors
    /// If it is lost.
    pub fn admit(mut self, ticket: &Ticket) -> Result<Connection> {
        let versions = (OLDEST_VERSION, NEWEST_VERSION);
        let version = negotiate(versions, ticket.versions).unwrap_or(NEWEST_VERSION);
        self.connection.send(&Message::Admitted(Admitted {
            version,
            max_frame: MAX_FRAME,
        }))?;
        self.connection.allow_frames(ticket.max_frame, MAX_FRAME);
        self.connection.set_deadline(None);
        Ok(self.connection)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ip(text: &str) -> IpAddr {
        text.parse().unwrap()
    }

    #[test]
    fn only_the_networks_that_were_allowed_are() {
        let networks: Networks = "10.1.0.0/16, fd00::/8, 192.0.2.7".parse().unwrap();
        for inside in ["10.1.2.3", "fdab::1", "192.0.2.7", "::ffff:10.1.0.1"] {
            assert!(networks.allow(ip(inside)), "{inside}");
        }
        for outside in ["10.2.0.1", "fe80::1", "192.0.2.8", "127.0.0.1", "::1"] {
            assert!(!networks.allow(ip(outside)), "{outside}");
        }
        let all: Networks = "0.0.0.0/0".parse().unwrap();
        assert!(all.allow(ip("8.8.8.8")) && !all.allow(ip("2001:db8::1")));
        let all: Networks = "::/0".parse().unwrap();
        assert!(all.allow(ip("2001:db8::1")));
        for bad in ["10.0.0.0/33", "10.0.0/8", "all", "::/129", "1.2.3.4/-1"] {
            assert!(bad.parse::<Networks>().is_err(), "{bad}");
        }
    }

    #[test]
    fn without_a_word_private_networks_are_allowed_and_this_machine_only_to_itself() {
        let outside = Networks::default().seen_from("0.0.0.0:4760".parse().unwrap());
        for inside in ["10.9.9.9", "172.31.0.1", "192.168.1.1", "fd12::1"] {
            assert!(outside.allow(ip(inside)), "{inside}");
        }
        for other in [
            "127.0.0.1",
            "::1",
            "169.254.169.254",
            "172.32.0.1",
            "8.8.8.8",
        ] {
            assert!(!outside.allow(ip(other)), "{other}");
        }
        let local = Networks::default().seen_from("127.0.0.1:4760".parse().unwrap());
        assert!(local.allow(ip("127.0.0.1")) && local.allow(ip("::1")));
        let none: Networks = "none".parse().unwrap();
        let none = none.seen_from("127.0.0.1:4760".parse().unwrap());
        assert!(none.is_empty() && !none.allow(ip("127.0.0.1")) && !none.allow(ip("10.0.0.1")));
    }
}
