//! Connections to other nodes, which a session's process may not make: it asks the node's process for them, which looks whether
//! its operator allows that network, and hands them over as they are. What is said on them, and by which key, is the session's.

use super::channel::{Channel, LONGEST};
use super::{DIAL, DIALLED};
use crate::locked;
use quipu_link::peer::Networks;
use quipu_wire::message::PeerAddress;
use std::collections::HashMap;
use std::io;
use std::net::{IpAddr, Ipv6Addr, SocketAddr, TcpStream};
use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// Connections of a session that are being made at a time, at most.
const MOST: usize = 32;

/// For how long one may take, at most.
const LONG: Duration = Duration::from_secs(600);

/// An address, as packets have it.
pub(super) fn encode_address(address: SocketAddr) -> [u8; 18] {
    let ip = match address.ip() {
        IpAddr::V4(ip) => ip.to_ipv6_mapped(),
        IpAddr::V6(ip) => ip,
    };
    let mut bytes = [0; 18];
    bytes[..16].copy_from_slice(&ip.octets());
    bytes[16..].copy_from_slice(&address.port().to_le_bytes());
    bytes
}

pub(super) fn decode_address(bytes: &[u8; 18]) -> SocketAddr {
    let mut ip = [0; 16];
    ip.copy_from_slice(&bytes[..16]);
    let port = u16::from_le_bytes([bytes[16], bytes[17]]);
    SocketAddr::new(Ipv6Addr::from(ip).to_canonical(), port)
}

type Waiting = HashMap<u64, Sender<Option<OwnedFd>>>;

/// The session's side.
#[derive(Debug)]
pub(crate) struct Dials {
    channel: Arc<Channel>,
    waiting: Mutex<(u64, Waiting)>,
}

impl Dials {
    pub(super) fn new(channel: Arc<Channel>) -> Arc<Self> {
        Arc::new(Self {
            channel,
            waiting: Mutex::default(),
        })
    }

    /// A connection to an address.
    ///
    /// # Errors
    /// If there is none in time, or the node does not dial there: which of these is not said.
    pub(crate) fn reach(&self, address: SocketAddr, until: Instant) -> io::Result<TcpStream> {
        let left = until.saturating_duration_since(Instant::now());
        let (answer, answered) = channel();
        let number = {
            let mut waiting = locked(&self.waiting);
            waiting.0 += 1;
            let number = waiting.0;
            waiting.1.insert(number, answer);
            number
        };
        let milliseconds = u64::try_from(left.as_millis()).unwrap_or(u64::MAX);
        let packet = [
            &[DIAL][..],
            &number.to_le_bytes(),
            &milliseconds.to_le_bytes(),
            &encode_address(address),
        ]
        .concat();
        debug_assert!(packet.len() < LONGEST);
        let sent = self.channel.send(&packet, None);
        let connection = match sent {
            Ok(()) => answered.recv_timeout(left + Duration::from_secs(1)).ok(),
            Err(_) => None,
        };
        locked(&self.waiting).1.remove(&number);
        let connection = connection.flatten().map(TcpStream::from);
        connection.ok_or_else(|| io::Error::other("the node makes no such connection"))
    }

    /// The node's process has answered.
    pub(super) fn answered(&self, packet: &[u8], connection: Option<OwnedFd>) {
        let number = packet.get(1..).and_then(|rest| rest.first_chunk::<8>());
        let Some(number) = number.copied().map(u64::from_le_bytes) else {
            return;
        };
        let waiting = locked(&self.waiting).1.remove(&number);
        if let Some(waiting) = waiting {
            // If nobody waits any more, it is closed.
            let _ = waiting.send(connection);
        }
    }
}

/// What a session asks for: a number, for how long, and where. None if it makes no sense.
fn decode(packet: &[u8]) -> Option<(u64, Duration, SocketAddr)> {
    let rest = packet.strip_prefix(&[DIAL])?;
    let (number, rest) = rest.split_first_chunk::<8>()?;
    let (milliseconds, rest) = rest.split_first_chunk::<8>()?;
    let address: &[u8; 18] = rest.try_into().ok()?;
    let wait = Duration::from_millis(u64::from_le_bytes(*milliseconds));
    let address = decode_address(address);
    // What makes no sense as an address of a peer is none.
    PeerAddress::of(address)?;
    Some((u64::from_le_bytes(*number), wait.min(LONG), address))
}

/// The node's side: makes a connection for a session, on a thread of its own, and answers.
pub(super) fn make(
    packet: &[u8],
    channel: &Arc<Channel>,
    networks: &Networks,
    at_a_time: &Arc<AtomicUsize>,
) {
    let Some((number, wait, address)) = decode(packet) else {
        return;
    };
    let answer = move |channel: &Channel, stream: Option<TcpStream>| {
        let packet = [&[DIALLED][..], &number.to_le_bytes()].concat();
        let fd = stream.map(OwnedFd::from);
        // If the session takes no more, it finds that there is none.
        let _ = channel.send(&packet, fd.as_ref().map(AsFd::as_fd));
    };
    if at_a_time.fetch_add(1, Ordering::SeqCst) >= MOST {
        at_a_time.fetch_sub(1, Ordering::SeqCst);
        return answer(channel, None);
    }
    let (own, networks, count) = (channel.clone(), networks.clone(), at_a_time.clone());
    let dial = move || {
        let reached = networks.reach(address, Instant::now() + wait);
        count.fetch_sub(1, Ordering::SeqCst);
        answer(&own, reached.ok());
    };
    let thread = std::thread::Builder::new().name("quipu-dial".to_owned());
    if thread.stack_size(1 << 16).spawn(dial).is_err() {
        at_a_time.fetch_sub(1, Ordering::SeqCst);
        answer(channel, None);
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a promise that is not kept panics")]
mod tests {
    use super::super::channel::Packet;
    use super::*;
    use std::net::TcpListener;

    /// Serves what is asked for, `count` times.
    fn serve(ours: Channel, networks: Networks, count: usize) -> std::thread::JoinHandle<()> {
        std::thread::spawn(move || {
            let (ours, at_a_time) = (Arc::new(ours), Arc::default());
            for _ in 0..count {
                let Packet::Some(packet, None) = ours.receive(None).unwrap() else {
                    panic!("no packet");
                };
                make(&packet, &ours, &networks, &at_a_time);
            }
        })
    }

    #[test]
    fn a_session_gets_connections_to_where_its_node_may_dial_and_none_elsewhere() {
        let (ours, theirs) = Channel::pair().unwrap();
        let own: SocketAddr = "127.0.0.1:1".parse().unwrap();
        let node = serve(ours, Networks::default().seen_from(own), 2);
        let theirs = Arc::new(Channel::over(theirs));
        let dials = Dials::new(theirs.clone());
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let answers = {
            let dials = dials.clone();
            std::thread::spawn(move || {
                for _ in 0..2 {
                    if let Packet::Some(packet, with) = theirs.receive(None).unwrap() {
                        dials.answered(&packet, with);
                    }
                }
            })
        };
        let until = Instant::now() + Duration::from_secs(120);
        let address = listener.local_addr().unwrap();
        let reached = dials.reach(address, until).unwrap();
        let (_, from) = listener.accept().unwrap();
        assert_eq!(reached.local_addr().unwrap(), from);
        let outside: SocketAddr = "192.0.2.1:80".parse().unwrap();
        assert!(dials.reach(outside, until).is_err());
        node.join().unwrap();
        answers.join().unwrap();
    }

    #[test]
    fn what_makes_no_sense_is_not_dialled() {
        let address: SocketAddr = "[fd00::1]:7".parse().unwrap();
        assert_eq!(decode_address(&encode_address(address)), address);
        let packet = [&[DIAL][..], &[1; 16], &encode_address(address)].concat();
        assert!(decode(&packet).is_some());
        for length in 0..packet.len() {
            assert!(decode(&packet[..length]).is_none());
        }
        let nowhere = [&[DIAL][..], &[1; 16], &[0; 18]].concat();
        assert!(decode(&nowhere).is_none());
    }
}
