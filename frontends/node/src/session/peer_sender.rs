//! The sender to another node: messages and bytes of this session.
//!
//! 1. A client names a peer to be dialled. A thread dials again and again, within the time of the
//!    ticket: the other node may not have heard of it yet. If the node cannot be reached, for any
//!    reason, the client sees only that the time is over. A dial keeps its [turn] for all of that
//!    time, too. So a client learns nothing from the times of its other dials.
//! 2. Bytes to send meanwhile wait, the first time. Later they go by way of the client, as do all
//!    bytes to send when the connection is lost.
//! 3. A *parcel*, the bytes of a transfer, is kept until the other node has said that it has all of
//!    them. When the connection is lost, all that is kept goes by way of the client, from the
//!    beginning: the other node leaves out what it has had.
//! 4. That a command has ended is told once and forgotten: the client tells it, too.
//!
//! [turn]: Turns

use super::bulk::{Bulk, Source};
use super::landing::Landing;
use super::links;
use crate::locked;
use crate::node::Shared;
use quipu_link::connection::Connection;
use quipu_link::peer::{Destination, show};
use quipu_link::stream::{Carried, Duplex, Outgoing};
use quipu_link::timer::SystemTimer;
use quipu_link::{Fingerprint, LinkError};
use quipu_protocol::frame::Stream;
use quipu_protocol::message::{
    self, CameAbout, Chunk, LinkKind, LinkLoad, LinkState, Message, PeerAddress, Rest, SendBytes,
    Ticket,
};
use quipu_scheduler::panics::quietly;
use quipu_threads::Start;
use std::collections::{HashMap, VecDeque};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Bytes that are sent at once by whoever has them.
pub(super) const SMALL: u64 = 1 << 15;

/// Bytes of a chunk, at most.
const CHUNK: usize = 1 << 17;

/// Bytes that may lie unwritten before the next chunk is made.
const AHEAD: usize = 4 * CHUNK;

/// Between the first attempts; then twice as long each time, up to the longest.
const PAUSES: [Duration; 2] = [Duration::from_millis(2), Duration::from_millis(100)];

/// Peers of a session that are dialled at a time: the node's process makes no more connections for
/// it at once.
const MOST_DIALLED: usize = 32;

/// The times at which the turns of the peers that a session dials are over: of one that is reached,
/// as soon as it is; of any other, also of one that is given up, when it would have been dialled no
/// longer.
#[derive(Clone, Default)]
pub(super) struct Turns(Arc<Mutex<Vec<Instant>>>);

impl Turns {
    /// A turn until then; false if there is none.
    fn take(&self, until: Instant) -> bool {
        let (mut turns, now) = (locked(&self.0), Instant::now());
        turns.retain(|end| *end > now);
        let is_free = turns.len() < MOST_DIALLED;
        if is_free {
            turns.push(until);
        }
        is_free
    }

    /// A dial with a turn until then has reached its peer.
    fn give_back(&self, until: Instant) {
        let mut turns = locked(&self.0);
        if let Some(own) = turns.iter().position(|end| *end == until) {
            turns.swap_remove(own);
        }
    }
}

/// The bytes of a transfer to another node.
pub(crate) struct Parcel {
    /// The transfer that brings them to the client, if they cannot go straight.
    pub(super) transfer: u64,
    /// The transfer that brings them there.
    remote: u64,
    pub(super) length: usize,
    /// Behind them there are zeros, which are not sent.
    has_rest: bool,
    source: Option<Source>,
    /// They have been sent for good.
    is_finished: AtomicBool,
}

// SAFETY: whoever shares it reads bytes that are lent to be read, and nobody writes; what is lent
// is given back by its last owner.
unsafe impl Sync for Parcel {}

impl Parcel {
    pub(super) fn new(transfer: u64, remote: u64, length: usize, source: Source) -> Arc<Self> {
        Arc::new(Self {
            transfer,
            remote,
            length,
            has_rest: false,
            source: Some(source),
            is_finished: AtomicBool::new(false),
        })
    }

    /// A copy of what is in use, if anything is, and whether more is not.
    pub(super) fn of_content(
        send: &SendBytes,
        content: Option<Arc<Landing>>,
        has_rest: bool,
    ) -> Arc<Self> {
        Arc::new(Self {
            transfer: send.transfer,
            remote: send.remote,
            length: content.as_ref().map_or(0, |content| content.len()),
            has_rest,
            source: content.map(Source::Landing),
            is_finished: AtomicBool::new(false),
        })
    }

    /// The message that zeros follow, for a transfer of this name, if they do.
    pub(super) fn rest(&self, transfer: u64) -> Option<Rest> {
        self.has_rest.then_some(Rest {
            transfer,
            offset: self.length as u64,
        })
    }

    /// The number of bytes it counts as, while it is kept: that there are none has to be kept, too.
    pub(super) fn counted(&self) -> u64 {
        self.length.max(1) as u64
    }

    /// Some of the bytes.
    pub(super) fn bytes(&self, range: std::ops::Range<usize>) -> &[u8] {
        self.source
            .as_ref()
            .map_or(&[], |source| source.bytes(range))
    }

    /// Nobody needs them any more when this is dropped.
    pub(super) fn finish(&self) {
        self.is_finished.store(true, Ordering::Release);
    }
}

impl Drop for Parcel {
    fn drop(&mut self) {
        // Else the session has ended, and with it the command.
        if let Some(Source::HostLease(lent)) = self.source.take()
            && self.is_finished.load(Ordering::Acquire)
        {
            lent.finish(Ok(()));
        }
    }
}

/// The facts that a dial needs.
struct Dialling {
    node: Arc<Shared>,
    peer: message::Peer,
    /// The time at which the dial ends.
    until: Instant,
    turns: Turns,
    /// It is dialled at once; else when another's turn is over.
    has_turn: bool,
}

/// See the module.
pub(crate) struct PeerSender {
    /// The epoch of its peer's connection.
    epoch: u32,
    /// The key that the other node has to prove, and where it is.
    to: ([u8; 32], Option<PeerAddress>),
    bulk: Arc<Bulk>,
    state: Mutex<State>,
    /// There is something for the thread that sends, or the way has ended.
    changed: Condvar,
}

enum Way {
    /// It is being made; bytes to send wait, or go by way of the client.
    Dialling {
        holds: bool,
    },
    Open(Outgoing),
    Lost,
    /// There is nobody to send to.
    Gone,
}

struct State {
    way: Way,
    /// Parcels that the other node has not said that it has, by the transfers that bring them
    /// there.
    parcels: HashMap<u64, Arc<Parcel>>,
    /// Large ones that are to be sent.
    queue: VecDeque<Arc<Parcel>>,
    /// Placeholders that have come about meanwhile.
    told: Vec<u64>,
}

impl PeerSender {
    /// Begins to dial.
    pub(super) fn start(
        node: &Arc<Shared>,
        bulk: &Arc<Bulk>,
        turns: &Turns,
        peer: &message::Peer,
    ) -> std::io::Result<Arc<Self>> {
        let own = Arc::new(Self {
            epoch: peer.epoch,
            to: (peer.key, peer.address),
            bulk: bulk.clone(),
            state: Mutex::new(State {
                way: Way::Dialling {
                    holds: peer.epoch == 1,
                },
                parcels: HashMap::new(),
                queue: VecDeque::new(),
                told: Vec::new(),
            }),
            changed: Condvar::new(),
        });
        let (peer_sender, node, peer) = (own.clone(), node.clone(), *peer);
        let until = Instant::now() + Duration::from_millis(peer.wait_ms.into());
        // The first of them in the order in which the client names them.
        let (has_turn, turns) = (turns.take(until), turns.clone());
        let dialling = Dialling {
            node,
            peer,
            until,
            turns,
            has_turn,
        };
        let thread = std::thread::Builder::new().name("quipu-peer".to_owned());
        thread.start(move || peer_sender.run(dialling))?;
        Ok(own)
    }

    /// Dials, and receives what the other node says, until the way is lost.
    fn run(self: &Arc<Self>, dialling: Dialling) {
        let peer = dialling.peer;
        let (spin, idle) = (dialling.node.options.spin, dialling.node.options.idle);
        let ended = match self.dial(dialling) {
            Some(mut connection) => {
                // The other node answers pings, whatever it expects itself. Without that, a
                // forwarder on the way that is stopped would keep for ever what the client could
                // bring.
                connection.expect_pulse(idle, Arc::new(SystemTimer::default()));
                self.receive(connection, spin)
            }
            None => Ok(()),
        };
        if let Err(error) = ended {
            quietly(
                || tracing::info!(peer = peer.peer, epoch = peer.epoch, %error, "the way to another node is lost"),
            );
        }
        self.lose();
    }

    /// A connection on which the ticket was taken.
    fn dial(&self, dialling: Dialling) -> Option<Connection> {
        let Dialling {
            node,
            peer,
            until,
            turns,
            mut has_turn,
        } = dialling;
        let to = Destination {
            address: peer.address?.socket(),
            key: Fingerprint::of_bytes(peer.key),
            session: peer.is_routed.then_some(peer.session),
        };
        let ticket = Ticket {
            versions: (0, 0),
            epoch: peer.epoch,
            session: peer.session,
            ticket: peer.ticket,
            max_frame: 0,
        };
        let mut attempt = || -> Result<Connection, String> {
            if !has_turn && !turns.take(until) {
                return Err("others are being dialled".to_owned());
            }
            has_turn = true;
            let stream = node.reach(&to, until);
            let stream = stream.map_err(|error| error.to_string())?;
            let shown = show(stream, node.key(), to.key, &ticket, until);
            shown.map_err(|error| error.to_string())
        };
        let mut pause = PAUSES[0];
        loop {
            let failure = match attempt() {
                Ok(connection) => {
                    turns.give_back(until);
                    return Some(connection);
                }
                Err(failure) => failure,
            };
            // Said here, and to nobody else.
            quietly(|| tracing::debug!(peer = peer.peer, failure, "another node does not answer"));
            let left = until.saturating_duration_since(Instant::now());
            let state = locked(&self.state);
            let goes_on = |state: &mut State| matches!(state.way, Way::Dialling { .. });
            let waited = self
                .changed
                .wait_timeout_while(state, left.min(pause), goes_on);
            let (state, _) = waited.unwrap_or_else(PoisonError::into_inner);
            if !matches!(state.way, Way::Dialling { .. }) {
                return None;
            }
            drop(state);
            if left.is_zero() {
                quietly(|| {
                    tracing::info!(
                        peer = peer.peer,
                        failure,
                        "another node cannot be reached; what is for it goes by way of the client"
                    )
                });
                return None;
            }
            pause = (2 * pause).min(PAUSES[1]);
        }
    }

    fn receive(self: &Arc<Self>, connection: Connection, spin: Duration) -> Result<(), LinkError> {
        let (mut incoming, out) = connection.split(Duplex {
            stream: Stream::Peer,
            spin,
            resumable: false,
        })?;
        let (waiting, told) = {
            let mut state = locked(&self.state);
            if !matches!(state.way, Way::Dialling { .. }) {
                return Ok(());
            }
            state.way = Way::Open(out.clone());
            (!state.queue.is_empty(), std::mem::take(&mut state.told))
        };
        for placeholder in told {
            out.push(&Message::CameAbout(CameAbout { event: placeholder }))?;
        }
        out.flush();
        let own = Arc::clone(self);
        let sender = std::thread::Builder::new().name("quipu-peer-out".to_owned());
        let sending = sender.start(move || own.send_all());
        if sending.is_err() || waiting {
            self.changed.notify_all();
        }
        sending.map_err(|error| LinkError::Ended {
            address: "a peer".to_owned(),
            reason: format!("the system gives no thread: {error}"),
        })?;
        loop {
            let taken = incoming.receive(|message, _| match message {
                Message::Taken(taken) => Some(taken.transfer),
                Message::Pong(_) => Some(0),
                _ => None,
            })?;
            let Some(transfer) = taken else {
                return Err(LinkError::Ended {
                    address: "a peer".to_owned(),
                    reason: "it sends what has no place there".to_owned(),
                });
            };
            let parcel = locked(&self.state).parcels.remove(&transfer);
            if let Some(parcel) = parcel {
                self.let_go(&parcel);
            }
        }
    }

    /// Nobody needs a parcel any more.
    fn let_go(&self, parcel: &Parcel) {
        self.bulk.give_back(true, parcel.counted());
        parcel.finish();
    }

    /// Sends large parcels, until the way is lost.
    fn send_all(&self) {
        loop {
            let mut state = locked(&self.state);
            let (out, parcel) = loop {
                let Way::Open(out) = &state.way else {
                    return;
                };
                let out = out.clone();
                if let Some(parcel) = state.queue.pop_front() {
                    break (out, parcel);
                }
                drop(out);
                state = self
                    .changed
                    .wait(state)
                    .unwrap_or_else(PoisonError::into_inner);
            };
            drop(state);
            let room = || out.wait_for_room(AHEAD).map(drop);
            if push(&out, &parcel, CHUNK, room).is_err() {
                // Whoever receives learns it, too.
                return self.lose();
            }
        }
    }

    /// The load of the link to the peer; nothing if there is nobody at its end.
    pub(super) fn link(&self) -> Option<LinkLoad> {
        let (how, carried) = match &locked(&self.state).way {
            Way::Dialling { .. } => (LinkState::Awaited, Carried::default()),
            Way::Open(out) => (LinkState::Connected, out.carried()),
            Way::Lost => (LinkState::ByClient, Carried::default()),
            Way::Gone => return None,
        };
        let (key, address) = self.to;
        Some(LinkLoad {
            resumed: self.epoch - 1,
            address,
            ..links::load(LinkKind::ToNode, how, key, &carried)
        })
    }

    /// Sends a parcel; large ones when their turn comes.
    pub(super) fn send(&self, parcel: Arc<Parcel>) {
        let mut state = locked(&self.state);
        let open = match &state.way {
            Way::Open(out) => Some(out.clone()),
            Way::Dialling { holds: true } => None,
            Way::Dialling { holds: false } | Way::Lost => {
                drop(state);
                return self.bulk.send_by_client(parcel);
            }
            Way::Gone => {
                drop(state);
                return self.let_go(&parcel);
            }
        };
        // Its last owner ends commands, and what these let go may come here: not with this locked.
        let before = state.parcels.insert(parcel.remote, parcel.clone());
        match open.filter(|_| parcel.length as u64 <= SMALL) {
            Some(out) => {
                drop(state);
                // If it is lost, whoever receives learns it, and the parcel goes by way of the
                // client.
                let _ = push(&out, &parcel, usize::MAX, || Ok(()));
                out.flush();
            }
            None => {
                state.queue.push_back(parcel);
                drop(state);
                self.changed.notify_all();
            }
        }
        if let Some(before) = before {
            // The client has used a name twice: what went by it before is nobody's.
            self.let_go(&before);
        }
    }

    /// A placeholder of the other node's has come about.
    pub(super) fn tell(&self, placeholder: u64) {
        let mut state = locked(&self.state);
        match &state.way {
            Way::Open(out) => {
                let out = out.clone();
                drop(state);
                // Else the client says so.
                let _ = out.send(&Message::CameAbout(CameAbout { event: placeholder }));
            }
            Way::Dialling { holds: true } => state.told.push(placeholder),
            Way::Dialling { holds: false } | Way::Lost | Way::Gone => {}
        }
    }

    /// The connection is lost, or given up: parcels that are not there yet go by way of the client.
    pub(super) fn lose(&self) {
        for parcel in self.end(Way::Lost) {
            self.bulk.send_by_client(parcel);
        }
    }

    /// There is nobody at its end any more.
    pub(super) fn part(&self) {
        for parcel in self.end(Way::Gone) {
            self.let_go(&parcel);
        }
    }

    /// Ends the way. Gives the parcels that are not there yet, in the order in which they were
    /// sent.
    fn end(&self, with: Way) -> Vec<Arc<Parcel>> {
        let mut state = locked(&self.state);
        if matches!(state.way, Way::Gone) {
            return Vec::new();
        }
        let way = std::mem::replace(&mut state.way, with);
        // As above.
        let queue = std::mem::take(&mut state.queue);
        state.told.clear();
        let parcels = std::mem::take(&mut state.parcels);
        drop(state);
        drop(queue);
        self.changed.notify_all();
        if let Way::Open(out) = way {
            out.abort("the way is given up");
        }
        let mut parcels: Vec<_> = parcels.into_values().collect();
        parcels.sort_unstable_by_key(|parcel| parcel.transfer);
        parcels
    }
}

/// Pushes all of a parcel, in chunks of so many bytes at most; `room` waits for some after each.
fn push(
    out: &Outgoing,
    parcel: &Parcel,
    most: usize,
    room: impl Fn() -> Result<(), LinkError>,
) -> Result<(), LinkError> {
    let most = most.min(out.max_frame() as usize - 64);
    let mut at = 0;
    while at < parcel.length {
        let end = parcel.length.min(at + most);
        out.push(&Message::Chunk(Chunk {
            transfer: parcel.remote,
            offset: at as u64,
            bytes: parcel.bytes(at..end),
        }))?;
        room()?;
        at = end;
    }
    if let Some(rest) = parcel.rest(parcel.remote) {
        out.push(&Message::Rest(rest))?;
        room()?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use quipu_driver_cpu::{CpuDriver, Options};
    use quipu_scheduler::memory::mapping::{HostLease, HostQueue};
    use quipu_scheduler::{Access, AccessMode, Context, Device, Driver, Event};

    const LENGTH: u64 = 100_000;

    /// A connection that is being made, for which bytes wait that are lent; and the event that is
    /// over when they are given back, which then tells something by that connection.
    fn waiting() -> (Arc<PeerSender>, Event) {
        let driver: Arc<dyn Driver> = CpuDriver::start(Options::new()).unwrap();
        let context = Context::new(&Device::all_of(&driver).unwrap()).unwrap();
        let host = HostQueue::new(&context).unwrap();
        let memory = context.memory(LENGTH).unwrap();
        let peer_sender = Arc::new(PeerSender {
            epoch: 1,
            to: ([0; 32], None),
            bulk: Arc::default(),
            state: Mutex::new(State {
                way: Way::Dialling { holds: true },
                parcels: HashMap::new(),
                queue: VecDeque::new(),
                told: Vec::new(),
            }),
            changed: Condvar::new(),
        });
        let access = Access {
            memory: &memory,
            offset: 0,
            length: LENGTH,
            mode: AccessMode::Read,
        };
        let own = peer_sender.clone();
        let begin = move |lent: Option<HostLease>| {
            let source = Source::HostLease(lent.unwrap());
            own.send(Parcel::new(1, 1, LENGTH as usize, source));
        };
        let event = host.lend(access, &[], begin).unwrap();
        while locked(&peer_sender.state).queue.is_empty() {
            std::thread::yield_now();
        }
        let own = peer_sender.clone();
        event.on_complete(move |_| own.tell(7));
        (peer_sender, event)
    }

    #[test]
    fn a_way_ends_whose_other_side_says_that_it_has_what_was_not_sent() {
        let (peer_sender, event) = waiting();
        let parcel = locked(&peer_sender.state).parcels.remove(&1).unwrap();
        peer_sender.let_go(&parcel);
        drop(parcel);
        peer_sender.lose();
        event.wait().unwrap();
    }

    #[test]
    fn a_name_that_is_used_twice_is_that_of_the_last() {
        let (peer_sender, event) = waiting();
        // As who sends does when it has.
        drop(locked(&peer_sender.state).queue.pop_front());
        let again = Landing::new(LENGTH).unwrap();
        let again = Parcel::new(2, 1, LENGTH as usize, Source::Landing(again));
        peer_sender.send(again);
        event.wait().unwrap();
        assert_eq!(locked(&peer_sender.state).parcels[&1].transfer, 2);
        peer_sender.part();
    }
}
