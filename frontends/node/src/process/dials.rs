//! Connections to other nodes, which a session's process may not make: it asks the node's process
//! for them. The node's process checks that its operator allows the network. It makes the other
//! side prove the key that the session names. Then it hands the connection over, and reads nothing
//! more on it.
//!
//! A session whose code was taken over learns nothing of a network so. It gets no connection to
//! anything without that key. All that it does not get is refused in the same words, when the time
//! is over for which it asked.

use super::channel::{Channel, LONGEST};
use super::{DIAL, DIALLED, OVER};
use crate::locked;
use quipu_link::Fingerprint;
use quipu_link::peer::{Destination, Networks};
use quipu_link::timer::Timer;
use quipu_protocol::message::{PeerAddress, SessionId};
use quipu_scheduler::panics::quietly;
use quipu_threads::Start;
use std::collections::HashMap;
use std::io;
use std::net::{IpAddr, Ipv6Addr, SocketAddr, TcpStream};
use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex, Weak};
use std::time::{Duration, Instant};

/// Connections that are being made for all sessions of a client at a time, at most.
const MOST: usize = 128;

/// The longest time for which one may be tried to be made.
const LONG: Duration = Duration::from_secs(600);

/// The longest time of one attempt: a session that has ended is dialled for no longer.
const ATTEMPT: Duration = Duration::from_secs(10);

/// Between the first attempts; then twice as long each time, up to the longest.
const PAUSES: [Duration; 2] = [Duration::from_millis(2), Duration::from_millis(100)];

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

    /// A connection to a node that has proved its key.
    ///
    /// # Errors
    /// If there is none in time, or the node does not dial there: which of these is not said.
    pub(crate) fn reach(&self, to: &Destination, until: Instant) -> io::Result<TcpStream> {
        loop {
            if let Some(connection) = self.ask(to, until) {
                return Ok(connection.into());
            }
            // If there was none before the time is over, there were too many at a time.
            if Instant::now() + PAUSES[1] >= until {
                return Err(io::Error::other("the node makes no such connection"));
            }
            std::thread::sleep(PAUSES[1]);
        }
    }

    fn ask(&self, to: &Destination, until: Instant) -> Option<OwnedFd> {
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
        let packet = encode(number, milliseconds, to);
        debug_assert!(packet.len() < LONGEST);
        let sent = self.channel.send(&packet, None);
        let connection = match sent {
            Ok(()) => answered.recv_timeout(left + Duration::from_secs(1)).ok(),
            Err(_) => None,
        };
        locked(&self.waiting).1.remove(&number);
        connection.flatten()
    }

    /// Tells the node's process by which limit the session ends.
    pub(crate) fn tell_over(&self, text: &str) {
        let text = text.as_bytes();
        let packet = [&[OVER][..], &text[..text.len().min(1000)]].concat();
        // If it cannot be told, it sees that the session ends.
        let _ = self.channel.send(&packet, None);
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

/// A session's request: a number, a time in milliseconds, and a destination. A session's id is
/// never zero.
fn encode(number: u64, milliseconds: u64, to: &Destination) -> Vec<u8> {
    [
        &[DIAL][..],
        &number.to_le_bytes(),
        &milliseconds.to_le_bytes(),
        &encode_address(to.address),
        &to.key.bytes(),
        &to.session.unwrap_or(SessionId::NONE).0,
    ]
    .concat()
}

/// None if it makes no sense.
fn decode(packet: &[u8]) -> Option<(u64, Duration, Destination)> {
    let rest = packet.strip_prefix(&[DIAL])?;
    let (number, rest) = rest.split_first_chunk::<8>()?;
    let (milliseconds, rest) = rest.split_first_chunk::<8>()?;
    let (address, rest) = rest.split_first_chunk::<18>()?;
    let (key, session) = rest.split_first_chunk::<32>()?;
    let session = SessionId(session.try_into().ok()?);
    let to = Destination {
        address: decode_address(address),
        key: Fingerprint::of_bytes(*key),
        session: (session != SessionId::NONE).then_some(session),
    };
    // What makes no sense as an address of a peer is none.
    PeerAddress::of(to.address)?;
    let wait = Duration::from_millis(u64::from_le_bytes(*milliseconds));
    Some((u64::from_le_bytes(*number), wait.min(LONG), to))
}

/// A session is told that there is a connection, or none.
fn answer(channel: &Channel, number: u64, stream: Option<TcpStream>) {
    let packet = [&[DIALLED][..], &number.to_le_bytes()].concat();
    let fd = stream.map(OwnedFd::from);
    // If the session takes no more, it finds that there is none.
    let _ = channel.send(&packet, fd.as_ref().map(AsFd::as_fd));
}

/// The node's side: makes a connection for a session, on a thread of its own, and answers.
pub(super) fn make(
    packet: &[u8],
    (channel, at_a_time): (&Arc<Channel>, &Arc<AtomicUsize>),
    networks: &Networks,
    timer: &Arc<dyn Timer>,
) {
    let Some((number, wait, to)) = decode(packet) else {
        return;
    };
    if at_a_time.fetch_add(1, Ordering::SeqCst) >= MOST {
        at_a_time.fetch_sub(1, Ordering::SeqCst);
        return answer(channel, number, None);
    }
    let (session, count) = (Arc::downgrade(channel), at_a_time.clone());
    let (networks, timer) = (networks.clone(), timer.clone());
    let dial = move || {
        let reached = reach(&networks, &to, wait, &*timer, &session);
        count.fetch_sub(1, Ordering::SeqCst);
        if let Some(channel) = session.upgrade() {
            answer(&channel, number, reached);
        }
    };
    let thread = std::thread::Builder::new().name("quipu-dial".to_owned());
    if thread.stack_size(1 << 18).start(dial).is_err() {
        at_a_time.fetch_sub(1, Ordering::SeqCst);
        answer(channel, number, None);
    }
}

/// Tries for so long, unless the session ends. That there is no connection, for whatever reason, is
/// known when all of the time is over, and not before.
fn reach(
    networks: &Networks,
    to: &Destination,
    wait: Duration,
    timer: &dyn Timer,
    session: &Weak<Channel>,
) -> Option<TcpStream> {
    let until = timer.now().saturating_add(wait);
    let mut pause = PAUSES[0];
    while session.strong_count() > 0 {
        let now = timer.now();
        let left = until.saturating_sub(now);
        if left.is_zero() {
            break;
        }
        match networks.prove(to, Instant::now() + left.min(ATTEMPT)) {
            Ok(stream) => return Some(stream),
            // Said here, and to nobody else.
            Err(error) => {
                quietly(|| tracing::debug!(%error, "another node does not answer a session"))
            }
        }
        timer.park_until(until.min(now + pause));
        pause = (2 * pause).min(PAUSES[1]);
    }
    None
}

#[cfg(test)]
mod tests {
    use super::super::channel::Packet;
    use super::*;
    use quipu_link::clients::Client;
    use quipu_link::gate::{Arrival, Gate};
    use quipu_link::peer::show;
    use quipu_link::timer::{ManualTimer, SystemTimer};
    use quipu_link::{Key, Rights};
    use quipu_protocol::message::Ticket;
    use std::io::Write;
    use std::net::TcpListener;

    /// A session's side, whose answers are passed on, and the node's, which makes what is asked for
    /// `count` times.
    fn sides(
        networks: Networks,
        timer: Arc<dyn Timer>,
        count: usize,
    ) -> (Arc<Dials>, Sender<()>, [std::thread::JoinHandle<()>; 2]) {
        let (ours, theirs) = Channel::pair().unwrap();
        let (over, is_finished) = channel::<()>();
        let node = std::thread::spawn(move || {
            let (ours, at_a_time) = (Arc::new(ours), Arc::default());
            for _ in 0..count {
                let Packet::Some(packet, None) = ours.receive(None).unwrap() else {
                    panic!("no packet");
                };
                make(&packet, (&ours, &at_a_time), &networks, &timer);
            }
            let _ = is_finished.recv();
        });
        let theirs = Arc::new(Channel::over(theirs));
        let dials = Dials::new(theirs.clone());
        let own = dials.clone();
        let session = std::thread::spawn(move || {
            while let Ok(Packet::Some(packet, with)) = theirs.receive(None) {
                own.answered(&packet, with);
            }
        });
        (dials, over, [node, session])
    }

    /// Lets one node in, by this key.
    fn gate(key: &Key) -> Gate {
        let client = Client {
            fingerprint: key.fingerprint(),
            name: "client".to_owned(),
            since: Duration::ZERO,
            rights: Rights::default(),
            until: None,
        };
        Gate::of_session(key, client, "node", PATIENCE).unwrap()
    }

    /// Nothing that is waited for here takes so long.
    const PATIENCE: Duration = Duration::from_secs(120);

    fn own_networks() -> Networks {
        Networks::default().seen_from("127.0.0.1:1".parse().unwrap())
    }
    #[test]
    fn a_session_gets_connections_to_what_has_proved_the_key_that_it_named() {
        let timer = Arc::new(SystemTimer::default());
        let (dials, over, threads) = sides(own_networks(), timer, 1);
        let [node, own] = [(); 2].map(|()| Key::passing().unwrap());
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let to = Destination {
            address: listener.local_addr().unwrap(),
            key: node.fingerprint(),
            session: None,
        };
        let gate = gate(&node);
        let ticket = Ticket {
            versions: (0, 0),
            epoch: 1,
            session: SessionId([7; 16]),
            ticket: [8; 32],
            max_frame: 0,
        };
        let admitting = std::thread::spawn(move || {
            let (stream, _) = listener.accept().unwrap();
            let Arrival::Peer(mut caller) = gate.admit(stream).unwrap() else {
                panic!("no node has come");
            };
            let ticket = caller.ticket().unwrap();
            let key = caller.key();
            let admitted = caller.admit(&ticket).unwrap();
            (key, ticket.ticket, admitted)
        });
        let until = Instant::now() + PATIENCE;
        let reached = dials.reach(&to, until).unwrap();
        // What it says on it comes there, and by its own key.
        let shown = show(reached, &own, to.key, &ticket, until).unwrap();
        let (key, taken, _admitted) = admitting.join().unwrap();
        assert_eq!((key, taken), (own.fingerprint(), ticket.ticket));
        assert_eq!(shown.peer(), node.fingerprint());
        drop(over);
        threads
            .into_iter()
            .for_each(|thread| thread.join().unwrap());
    }

    #[test]
    fn all_that_a_session_does_not_get_is_refused_alike_when_its_time_is_over() {
        let timer = Arc::new(ManualTimer::default());
        let (dials, over, threads) = sides(own_networks(), timer.clone(), 4);
        let [named, other] = [(); 2].map(|()| Key::passing().unwrap());
        let [speaks, has_another_key, is_closed] =
            [(); 3].map(|()| TcpListener::bind("127.0.0.1:0").unwrap());
        let at = |listener: &TcpListener| listener.local_addr().unwrap();
        let addresses = [
            at(&speaks),
            at(&has_another_key),
            at(&is_closed),
            // Not where its node dials.
            "192.0.2.1:80".parse().unwrap(),
        ];
        drop(is_closed);
        // Some service that is none of its business. Each goes on and on, until the test ends.
        std::thread::spawn(move || {
            for stream in speaks.incoming() {
                let _ = stream.unwrap().write_all(b"220 how may I help you?\r\n");
            }
        });
        let gate = gate(&other);
        std::thread::spawn(move || {
            for stream in has_another_key.incoming() {
                gate.admit(stream.unwrap()).unwrap_err();
            }
        });
        let (answer, answers) = channel();
        let asking = addresses.map(|address| {
            let (dials, answer) = (dials.clone(), answer.clone());
            let to = Destination {
                address,
                key: named.fingerprint(),
                session: None,
            };
            std::thread::spawn(move || {
                let refused = dials.reach(&to, Instant::now() + PATIENCE).unwrap_err();
                answer.send(refused.to_string()).unwrap();
            })
        });
        // Each has been tried, and is tried again.
        for _ in 0..3 {
            while timer.waiting() < 4 {
                // None is answered.
                assert!(asking.iter().all(|asks| !asks.is_finished()));
                std::thread::yield_now();
            }
            assert!(answers.try_recv().is_err());
            timer.advance(PAUSES[1]);
        }
        timer.advance(PATIENCE);
        asking.into_iter().for_each(|asks| asks.join().unwrap());
        drop(answer);
        let refusals: std::collections::HashSet<_> = answers.iter().collect();
        assert_eq!(refusals.len(), 1, "{refusals:?}");
        drop(over);
        threads
            .into_iter()
            .for_each(|thread| thread.join().unwrap());
    }

    #[test]
    fn what_makes_no_sense_is_not_dialled() {
        for session in [None, Some(SessionId([3; 16]))] {
            let to = Destination {
                address: "[fd00::1]:7".parse().unwrap(),
                key: Fingerprint::of_bytes([5; 32]),
                session,
            };
            let packet = encode(7, 1000, &to);
            assert_eq!(decode(&packet), Some((7, Duration::from_secs(1), to)));
            for length in 0..packet.len() {
                assert!(decode(&packet[..length]).is_none());
            }
            let mut nowhere = packet;
            nowhere[17..35].fill(0);
            assert!(decode(&nowhere).is_none());
        }
    }
}
