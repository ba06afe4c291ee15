//! Nodes that a program uses together: the facts that one has to know of another, and the bytes
//! between them.
//!
//! 1. As soon as a command of one node concerns another, both are told of each other, with a ticket
//!    that this made: then a connection is there from the one to the other, or there is none.
//!    Neither is told which; nothing depends on it.
//! 2. A command that waits for another node's goes out at once, and waits for a *placeholder*. The
//!    other node says to that node when it has come about, and so does this, in case the other
//!    cannot, and so that the placeholder can be forgotten.
//! 3. Bytes from one node to another are two commands: the one *sends*, the other *receives*. Bytes
//!    that cannot go straight come here, on the bulk stream, and are passed on as they come.
//! 4. If the bytes never will be sent, the receiving command is told so: else it would wait for
//!    ever.
//!
//! Links are locked in the order of their numbers, if two are; with one locked, nothing of another
//! is, but the consequences of ends are carried out [afterwards](After).

use crate::bulk::{Bytes, HostRegion, Job};
use crate::failure::Refusal;
use crate::flights::{Flying, Rare};
use crate::link::{Link, Route, Sink, State, Waits};
use crate::locked;
use crate::point::Point;
use quipu_link::key::ticket;
use quipu_protocol::message::{
    Abandon, Message, Operation, Part, Peer, PeerRole, Placeholder, Receive, Resolve, SendBytes,
    SendContent, SessionId, Tell, Wait,
};
use quipu_scheduler::panics::quietly;
use std::collections::HashMap;
use std::sync::{Arc, MutexGuard};
use std::time::Duration;

/// Between the loss of a connection between two nodes and the next attempt; then twice as long each
/// time.
const SHORTEST: Duration = Duration::from_secs(1);

/// Between attempts, at most.
const LONGEST: Duration = Duration::from_secs(60);

/// The connections from a node to others.
#[derive(Debug, Default)]
pub(crate) struct Pairs(HashMap<usize, Pair>);

/// The connection from a node to another.
#[derive(Debug)]
struct Pair {
    epoch: u32,
    /// The time by which it is there, if it ever is.
    settled: Duration,
    /// The time at which bytes first went by way of here since.
    lost: Option<Duration>,
    pause: Duration,
}

/// A consequence of an end, to be carried out with nothing locked.
pub(crate) enum After {
    /// It is over: placeholders of it have come about.
    Over(Point),
    /// A transfer's bytes are there: none come by way of here.
    Arrived(usize, u64),
    /// The bytes that were to be sent to a node never will be.
    Failed(usize, u64),
}

/// Bytes of a buffer that go to another node.
pub(crate) struct Shipment {
    /// The buffer and the first byte here.
    pub(crate) from: (u64, u64),
    /// The buffer and the first byte there.
    pub(crate) to: (u64, u64),
    pub(crate) bytes: u64,
    /// The buffer here that says how many of the first one's are in use, if that is to be found out
    /// here.
    pub(crate) size: Option<u64>,
}

impl Link {
    /// Another node that is used together with this one.
    pub(crate) fn sibling(&self, number: usize) -> Option<Arc<Self>> {
        self.siblings.get()?.get(number)?.upgrade()
    }

    /// True if bytes can be sent from here to there without that they come by way of the program,
    /// as far as is known.
    pub(crate) fn has_way_to(&self, other: &Self) -> bool {
        self.number != other.number
            && self.terms.peer_address.is_some()
            && other.terms.peer_address.is_some()
    }

    /// True if all nodes send each other the bytes in use.
    pub(crate) fn all_send_content(&self) -> bool {
        let mut siblings = self.siblings.get().into_iter().flatten();
        siblings.all(|link| {
            let link = link.upgrade();
            link.is_some_and(|link| link.terms.sends_content())
        })
    }

    /// The name of the connection to another node, the same on both. The connection is made if
    /// there is none, or was lost for long; none if the nodes have to do with no others.
    fn peer(&self, other: &Self) -> Option<u64> {
        if !self.has_way_to(other) {
            return None;
        }
        let name = self.name_of(other);
        let mut pairs = locked(&self.pairs);
        let now = self.timer.now();
        let pair = pairs.0.get(&other.number);
        let is_there = pair.is_some_and(|pair| pair.lost.is_none_or(|at| now < at + pair.pause));
        if is_there {
            return Some(name);
        }
        let (epoch, pause) = pair.map_or((1, SHORTEST), |pair| {
            (pair.epoch.saturating_add(1), (2 * pair.pause).min(LONGEST))
        });
        let ticket = ticket().ok()?;
        let wait = self.peer_patience;
        let wait_ms = u32::try_from(wait.as_millis()).unwrap_or(u32::MAX);
        let awaits = Peer {
            peer: name,
            epoch,
            role: PeerRole::Awaits,
            is_routed: false,
            wait_ms: wait_ms.clamp(1, 600_000),
            session: SessionId::NONE,
            key: self.proves.bytes(),
            ticket,
            address: None,
        };
        let dials = Peer {
            role: PeerRole::Dials,
            is_routed: other.terms.key.is_some(),
            session: other.terms.session.0,
            key: other.proves.bytes(),
            address: other.terms.peer_address,
            ..awaits
        };
        // If one of them is lost, so are the commands that need it.
        let _ = other.put(&Message::Peer(awaits));
        let _ = self.put(&Message::Peer(dials));
        let pair = Pair {
            epoch,
            settled: now.saturating_add(wait),
            lost: None,
            pause,
        };
        pairs.0.insert(other.number, pair);
        Some(name)
    }

    /// This node is lost: others have nothing to send here.
    pub(crate) fn part(&self) {
        let siblings = self.siblings.get().into_iter().flatten();
        for link in siblings.filter_map(std::sync::Weak::upgrade) {
            if locked(&link.pairs).0.contains_key(&self.number) {
                // If that is lost as well, no harm is done.
                let _ = link.put(&Message::Part(Part {
                    peer: link.name_of(self),
                }));
                link.soil();
            }
        }
        self.flush_others();
    }

    /// The name of the connection to another node, the same on both.
    fn name_of(&self, other: &Self) -> u64 {
        ((self.number as u64) << 20) + other.number as u64 + 1
    }

    /// Something that should have gone straight to another node has come here.
    pub(crate) fn note_detour(&self, to: usize) {
        let now = self.timer.now();
        let mut pairs = locked(&self.pairs);
        if let Some(pair) = pairs.0.get_mut(&to)
            && pair.lost.is_none()
            && now >= pair.settled
        {
            pair.lost = Some(now);
            if now > pair.settled.saturating_add(LONGEST) {
                pair.pause = SHORTEST;
            }
        }
    }

    /// Placeholders here for events that commands of other nodes bring about.
    pub(crate) fn placeholders(&self, waits: &[Point]) -> Result<Vec<u64>, Refusal> {
        let mut all = Vec::new();
        for point in waits {
            let is_foreign = point.event_on(self.number).is_none() && !point.is_finished();
            let is_implied = || waits.iter().any(|other| other.implies(point, self.number));
            if is_foreign && !is_implied() {
                all.extend(self.placeholder(point)?);
            }
        }
        Ok(all)
    }

    /// A placeholder here for a command of another node; none if that is over, or never will be.
    fn placeholder(&self, point: &Point) -> Result<Option<u64>, Refusal> {
        let Some(home) = self.sibling(point.home()) else {
            return Ok(None);
        };
        let mut followers = point.follow();
        if point.is_finished() || home.loss().is_some() {
            return Ok(None);
        }
        if let Some((_, known)) = followers.iter().find(|(node, _)| *node == self.number) {
            return Ok(Some(*known));
        }
        // Of a migration, its node knows one half only.
        let peer = match point.is_joint() {
            true => None,
            false => home.peer(self),
        };
        let event = {
            let mut state = self.state();
            if state.placeholders.len() >= (self.terms.max_commands / 8).max(1) as usize {
                return Err(Refusal::Full(format!(
                    "node '{}' takes no more events of other nodes for now",
                    self.node
                )));
            }
            let event = state.last_event + 1;
            self.put(&Message::Placeholder(Placeholder {
                event,
                peer: peer.unwrap_or(0),
            }))?;
            state.last_event = event;
            state.placeholders.insert(event);
            event
        };
        followers.push((self.number, event));
        drop(followers);
        if let Some(peer) = peer {
            home.tell(point.event(), peer, event);
        }
        Ok(Some(event))
    }

    /// Has a placeholder of another node's brought about as a command here ends, if it has not.
    fn tell(&self, event: u64, peer: u64, placeholder: u64) {
        let state = self.state();
        if state.flying.is_known_there(event) {
            // Else it comes about by way of here.
            let _ = self.put(&Message::Tell(Tell {
                event,
                peer,
                placeholder,
            }));
        }
        drop(state);
        self.soil();
    }

    /// A placeholder here has come about. The node may know, and forgets it.
    fn resolve(&self, event: u64) {
        let mut state = self.state();
        if state.placeholders.remove(&event) {
            // If the connection is lost for good, so are the commands that wait.
            let _ = self.put(&Message::Resolve(Resolve {
                event,
                failure: None,
                text: "",
            }));
        }
        drop(state);
        self.soil();
    }

    /// The rest of a transfer from another node never comes.
    fn abandon(&self, transfer: u64) {
        // As above.
        let _ = self.put(&Message::Abandon(Abandon { transfer }));
        self.soil();
    }

    /// Carries out the consequences of ends. With nothing locked.
    pub(crate) fn follow_up(&self, ends: Vec<After>) {
        if ends.is_empty() {
            return;
        }
        for end in ends {
            match end {
                After::Over(point) => {
                    for (node, placeholder) in point.take_followers() {
                        if let Some(link) = self.sibling(node) {
                            link.resolve(placeholder);
                        }
                    }
                }
                After::Arrived(node, transfer) => {
                    if let Some(link) = self.sibling(node) {
                        locked(&link.sinks).remove(&transfer);
                    }
                }
                After::Failed(node, transfer) => {
                    if let Some(link) = self.sibling(node) {
                        link.abandon(transfer);
                    }
                }
            }
        }
        self.flush_others();
    }

    /// Has everything sent to other nodes that is to be.
    pub(crate) fn flush_others(&self) {
        let siblings = self.siblings.get().into_iter().flatten();
        for link in siblings.filter_map(std::sync::Weak::upgrade) {
            if link.is_soiled() {
                link.flush();
            }
        }
    }

    /// Brings bytes from this node to another.
    pub(crate) fn ship(
        &self,
        other: &Self,
        routes: [&Route; 2],
        waits: &[Point],
        shipment: &Shipment,
    ) -> Result<Point, Refusal> {
        let lost = || {
            Refusal::NotSent(format!(
                "nodes '{}' and '{}' have nothing to do with each other",
                self.node, other.node
            ))
        };
        let peer = self.peer(other).ok_or_else(lost)?;
        // The other node waits for its own commands itself.
        let not_there = waits
            .iter()
            .filter(|point| point.event_on(other.number).is_none());
        let not_there: Vec<Point> = not_there.cloned().collect();
        let held = self.placeholders(&not_there)?;
        let (mut here, mut there): (MutexGuard<'_, State>, MutexGuard<'_, State>);
        if self.number < other.number {
            here = self.state();
            there = other.state();
        } else {
            there = other.state();
            here = self.state();
        }
        self.check_room(&here)?;
        // The loss is the other node's, not that of this node, whose command it is.
        let of_other = |refusal| match refusal {
            Refusal::Lost(text) => Refusal::NotSent(text),
            refusal => refusal,
        };
        other.check_room(&there).map_err(of_other)?;
        let after = self.after(&here, waits, &held);
        let names = after.iter().map(|wait| wait.event()).collect();
        let after = self.joined(&mut here, routes[0], after)?;
        let after_there = other.after(&there, waits, &[]);
        let after_there = other.joined(&mut there, routes[1], after_there)?;
        let (transfer, remote) = (here.last_transfer + 1, there.last_transfer + 1);
        let receive = Operation::Receive(Receive {
            buffer: shipment.to.0,
            offset: shipment.to.1,
            row: shipment.bytes,
            transfer: remote,
            peer,
        });
        let received = other.push(&mut there, routes[1], &after_there, receive)?;
        there.last_transfer = remote;
        let all = SendBytes {
            buffer: shipment.from.0,
            offset: shipment.from.1,
            row: shipment.bytes,
            transfer,
            peer,
            remote,
        };
        let send = match shipment.size {
            Some(size) => Operation::SendContent(SendContent { all, size }),
            None => Operation::Send(all),
        };
        let sent = self.push(&mut here, routes[0], &after, send);
        let sent = match sent {
            Ok(sent) => sent,
            Err(refusal) => {
                let point = Point::new(other.number, received);
                other.fly(&mut there, Flying::new(point, 1));
                drop((here, there));
                other.abandon(remote);
                return Err(refusal);
            }
        };
        here.last_transfer = transfer;
        let point = Point::joint(self.number, sent, (other.number, received), names);
        let carries = Rare {
            carries: Some((other.number, remote)),
            ..Rare::default()
        };
        self.fly(&mut here, Flying::new(point.clone(), 1).with(carries));
        let brings = Rare {
            brings: Some((self.number, transfer)),
            ..Rare::default()
        };
        let flying = Flying::named(received, point.clone(), 1);
        other.fly(&mut there, flying.with(brings));
        let onwards = Sink::Onwards {
            point: point.clone(),
            to: other.number,
            transfer: remote,
            received: 0,
            length: shipment.bytes as usize,
        };
        locked(&self.sinks).insert(transfer, onwards);
        drop((here, there));
        other.soil();
        Ok(point)
    }

    /// Waits for events here.
    pub(crate) fn after(&self, state: &State, waits: &[Point], held: &[u64]) -> Waits {
        let mut after = Waits::new();
        for point in waits {
            // Of a migration, a half may be over; and an end may be acknowledged before the bytes
            // have travelled.
            if let Some(event) = point.event_on(self.number)
                && state.flying.is_known_there(event)
            {
                after.push(Wait::after(event));
            }
        }
        for event in held {
            if state.placeholders.contains(event) {
                after.push(Wait::after(*event));
            }
        }
        after
    }

    /// Passes bytes on that could not go straight to another node; or that zeros follow, without
    /// any.
    pub(crate) fn pass_on(&self, to: usize, transfer: u64, offset: usize, bytes: &[u8]) {
        if offset == 0 {
            self.note_detour(to);
        }
        let Some(other) = self.sibling(to) else {
            return;
        };
        if offset == 0 {
            quietly(|| {
                tracing::warn!(
                    from = self.node,
                    to = other.node,
                    "bytes go by way of this program: these nodes do not reach each other"
                );
            });
        }
        let mut kept = bytes.to_vec();
        // SAFETY: kept with it, and only read.
        let region = unsafe { HostRegion::new(kept.as_mut_ptr(), kept.len(), Vec::new()) };
        other.jobs.add(Job {
            transfer,
            event: None,
            offset,
            has_rest: bytes.is_empty(),
            bytes: Bytes {
                region,
                _kept: kept,
            },
        });
    }
}
