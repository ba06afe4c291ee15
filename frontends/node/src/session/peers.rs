//! Other nodes, on which the same client has sessions: the peers that may come, the messages that
//! they may bring, and the peers that this session dials.
//!
//! 1. The client tells two nodes of each other: the one that is to be dialled which key and which
//!    ticket to expect, and until when; the one that dials the same, and where.
//! 2. A peer that comes is let in once on a ticket, if the key that it has proved, the ticket, the
//!    epoch and the time are right. If one of them is wrong, the connection is closed without a
//!    word.
//! 3. The client has told this node of each thing that the peer may then bring: bytes of a transfer
//!    that a *receive* names, as many as that, once; or that a placeholder has come about.
//! 4. A placeholder comes about by the first who says so, the peer or the client, and is forgotten
//!    when the client has.
//!
//! The other direction is in [`peer_sender`](super::peer_sender).

use super::Broken;
use super::bulk::{Bulk, Took};
use super::links;
use super::peer_sender::{PeerSender, Turns};
use crate::locked;
use crate::node::Shared;
use quipu_link::connection::Connection;
use quipu_link::stream::{Duplex, Outgoing};
use quipu_link::timer::SystemTimer;
use quipu_link::{Fingerprint, LinkError};
use quipu_protocol::frame::Stream;
use quipu_protocol::message::{
    self, GoodbyeReason, LinkKind, LinkLoad, LinkState, Message, PeerRole, Taken, Ticket,
};
use quipu_scheduler::driver::InlineExecutor;
use quipu_scheduler::panics::quietly;
use quipu_scheduler::{Event, UserEvent};
use std::collections::HashMap;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::Duration;

/// Peers that a session has, at most.
const MOST: usize = 1024;

/// Placeholders that a peer may say to have come about before the client has named them: none is
/// kept, who says so waits.
#[derive(Default)]
pub(crate) struct Peers {
    state: Mutex<State>,
    /// A placeholder was named, or the session has ended.
    changed: Condvar,
}

#[derive(Default)]
struct State {
    /// The peers that this session dials.
    peer_senders: HashMap<u64, (u32, Arc<PeerSender>)>,
    turns: Turns,
    /// The peers that may come.
    expected: HashMap<u64, Expected>,
    /// The peers that have come.
    come: HashMap<u64, (u32, Outgoing)>,
    /// The client's placeholders: the peer that may bring each about, and the event for it; none if
    /// it has come about.
    placeholders: HashMap<u64, (u64, Option<UserEvent>)>,
    last_placeholder: u64,
    closed: bool,
}

/// A peer that may come, once.
struct Expected {
    epoch: u32,
    key: Fingerprint,
    /// None once somebody has come.
    ticket: Option<[u8; 32]>,
    until: Duration,
}

impl Expected {
    /// True if it may come.
    fn is_awaited(&self, now: Duration) -> bool {
        self.ticket.is_some() && now < self.until
    }
}

/// True if two are the same, in a time that does not tell how much of them is.
fn is_same(one: &[u8; 32], other: &[u8; 32]) -> bool {
    let differ = one.iter().zip(other).fold(0, |all, (a, b)| all | (a ^ b));
    std::hint::black_box(differ) == 0
}

/// The rule that a peer has broken.
type Rule = &'static str;

impl Peers {
    /// The client tells of a peer.
    pub(super) fn note(
        &self,
        node: &Arc<Shared>,
        bulk: &Arc<Bulk>,
        peer: &message::Peer,
    ) -> Result<(), Broken> {
        let mut state = locked(&self.state);
        if state.closed {
            return Ok(());
        }
        if state.peer_senders.len() + state.expected.len() >= MOST {
            return Err(Broken::limit("more peers than any session has"));
        }
        let known = match peer.role {
            PeerRole::Dials => state.peer_senders.get(&peer.peer).map(|(epoch, _)| *epoch),
            PeerRole::Awaits => state.expected.get(&peer.peer).map(|known| known.epoch),
        };
        if known.is_some_and(|known| peer.epoch <= known) {
            return Err(Broken::rule(
                "a peer's epoch is not larger than those before",
            ));
        }
        match peer.role {
            PeerRole::Dials => {
                let peer_sender =
                    PeerSender::start(node, bulk, &state.turns, peer).map_err(|error| Broken {
                        reason: GoodbyeReason::Internal,
                        text: format!("the system gives no thread: {error}"),
                    })?;
                let before = state
                    .peer_senders
                    .insert(peer.peer, (peer.epoch, peer_sender));
                drop(state);
                if let Some((_, before)) = before {
                    before.lose();
                }
            }
            PeerRole::Awaits => {
                let wait = Duration::from_millis(peer.wait_ms.into());
                let expected = Expected {
                    epoch: peer.epoch,
                    key: Fingerprint::of_bytes(peer.key),
                    ticket: Some(peer.ticket),
                    until: node.options.timer.now().saturating_add(wait),
                };
                state.expected.insert(peer.peer, expected);
            }
        }
        Ok(())
    }

    /// The sender to a peer, if there was ever one.
    pub(super) fn peer_sender(&self, peer: u64) -> Option<Arc<PeerSender>> {
        let state = locked(&self.state);
        state
            .peer_senders
            .get(&peer)
            .map(|(_, peer_sender)| peer_sender.clone())
    }

    /// The connections with other nodes, by what the client calls them.
    pub(super) fn links(&self, now: Duration) -> Vec<LinkLoad> {
        let state = locked(&self.state);
        let mut links: Vec<(u64, LinkLoad)> = Vec::new();
        for (peer, expected) in &state.expected {
            let come = state.come.get(peer).map(|(_, out)| out.carried());
            let how = match &come {
                Some(_) => LinkState::Connected,
                None if expected.is_awaited(now) => LinkState::Awaited,
                None => LinkState::ByClient,
            };
            let carried = come.unwrap_or_default();
            let key = expected.key.bytes();
            let link = LinkLoad {
                resumed: expected.epoch - 1,
                ..links::load(LinkKind::FromNode, how, key, &carried)
            };
            links.push((*peer, link));
        }
        let peer_senders = state.peer_senders.iter();
        let peer_senders: Vec<_> = peer_senders
            .map(|(peer, (_, peer_sender))| (*peer, peer_sender.clone()))
            .collect();
        drop(state);
        for (peer, peer_sender) in peer_senders {
            links.extend(peer_sender.link().map(|link| (peer, link)));
        }
        links.sort_unstable_by_key(|(peer, _)| *peer);
        links.into_iter().map(|(_, link)| link).collect()
    }

    /// True if somebody with this key may come.
    pub(crate) fn expects(&self, key: Fingerprint, now: Duration) -> bool {
        let state = locked(&self.state);
        let mut expected = state.expected.values();
        !state.closed && expected.any(|expected| expected.key == key && expected.is_awaited(now))
    }

    /// Takes a ticket, which is not good any more then. Which peer it is of, if it is good.
    pub(crate) fn admit(&self, key: Fingerprint, ticket: &Ticket, now: Duration) -> Option<u64> {
        let mut state = locked(&self.state);
        if state.closed {
            return None;
        }
        let mut expected = state.expected.iter_mut();
        let (peer, found) = expected.find(|(_, expected)| {
            expected.epoch == ticket.epoch
                && expected.key == key
                && expected.is_awaited(now)
                && expected
                    .ticket
                    .is_some_and(|secret| is_same(&secret, &ticket.ticket))
        })?;
        found.ticket = None;
        Some(*peer)
    }

    /// Sees to a connection that has come, until it ends.
    pub(super) fn run(
        &self,
        node: &Arc<Shared>,
        bulk: &Bulk,
        (peer, epoch): (u64, u32),
        mut connection: Connection,
    ) -> Result<(), LinkError> {
        let key = connection.peer();
        // The other node does so as well, and answers pings in any case. This one may be kept from
        // reading for long, by a client that is away, and pings meanwhile.
        connection.expect_pulse(node.options.idle, Arc::new(SystemTimer::default()));
        let (mut incoming, out) = connection.split(Duplex {
            stream: Stream::Peer,
            spin: node.options.spin,
            resumable: false,
        })?;
        {
            let mut state = locked(&self.state);
            let is_newest = state
                .come
                .get(&peer)
                .is_none_or(|(known, _)| *known < epoch);
            if state.closed || !is_newest {
                return Ok(());
            }
            if let Some((_, before)) = state.come.insert(peer, (epoch, out.clone())) {
                before.abort("a newer connection has come");
            }
        }
        let mut lenders = node.lenders();
        let ended = loop {
            let take = |lenders: &mut Vec<Box<dyn InlineExecutor>>, message: &Message<'_>, _| {
                let waits = match message {
                    Message::Chunk(chunk) => !bulk.is_named(chunk.transfer),
                    Message::Rest(rest) => !bulk.is_named(rest.transfer),
                    Message::CameAbout(event) => !self.is_known(event.event),
                    _ => false,
                };
                for lender in lenders.iter_mut() {
                    // A thread that waits for the client keeps no commands meanwhile.
                    if waits { lender.end() } else { lender.begin() }
                }
                let taken = |transfer, took| match took {
                    Took::All => Ok(Some(transfer)),
                    Took::Some => Ok(None),
                    Took::Wrong => Err(Some("a chunk of a transfer that is not expected of it")),
                    // The session has ended.
                    Took::Over => Err(None),
                };
                match message {
                    Message::Chunk(chunk) => taken(chunk.transfer, bulk.take(chunk, Some(peer))),
                    Message::Rest(rest) => taken(rest.transfer, bulk.take_rest(rest, Some(peer))),
                    Message::CameAbout(event) => match self.came_about(peer, event.event) {
                        Ok(()) => Ok(None),
                        Err(rule) => Err(Some(rule)),
                    },
                    Message::Pong(_) => Ok(None),
                    _ => Err(Some("a message that has no place there")),
                }
            };
            let rest = |lenders: &mut Vec<Box<dyn InlineExecutor>>| {
                lenders.iter_mut().for_each(|lender| {
                    lender.run();
                    lender.end();
                });
                out.flush();
            };
            match incoming.receive_or_rest(&mut lenders, take, rest) {
                Ok(Ok(None)) => {}
                Ok(Ok(Some(transfer))) => {
                    // If it does not hear that, it sends all by way of the client.
                    let _ = out.push(&Message::Taken(Taken { transfer }));
                }
                Ok(Err(None)) => break Ok(()),
                Ok(Err(Some(rule))) => {
                    quietly(|| {
                        tracing::info!(
                            peer,
                            %key,
                            rule,
                            "another node breaks a rule; its connection ends"
                        )
                    });
                    break Ok(());
                }
                Err(error) => break Err(error),
            }
        };
        out.abort("the connection has ended");
        let mut state = locked(&self.state);
        if state
            .come
            .get(&peer)
            .is_some_and(|(known, _)| *known == epoch)
        {
            state.come.remove(&peer);
        }
        ended
    }

    /// A new placeholder, whose id is larger than all before.
    pub(super) fn placeholder(&self, id: u64, peer: u64) -> Event {
        let placeholder = UserEvent::new();
        let event = placeholder.event();
        let mut state = locked(&self.state);
        state.last_placeholder = id;
        if state.closed {
            drop(state);
            placeholder.fail("the client's session has ended");
        } else {
            state.placeholders.insert(id, (peer, Some(placeholder)));
            drop(state);
            self.changed.notify_all();
        }
        event
    }

    /// The client says that a placeholder has come about, and does not name it any more. None if it
    /// is none; the event to complete, if nobody has.
    pub(super) fn resolve(&self, id: u64) -> Option<Option<UserEvent>> {
        let mut state = locked(&self.state);
        state.placeholders.remove(&id).map(|(_, event)| event)
    }

    /// True if the client has named the placeholder, so that nobody waits for that any more.
    fn is_known(&self, placeholder: u64) -> bool {
        placeholder <= locked(&self.state).last_placeholder
    }

    /// A peer says that a placeholder has come about.
    fn came_about(&self, peer: u64, id: u64) -> Result<(), Rule> {
        let mut state = locked(&self.state);
        while id > state.last_placeholder {
            if state.closed {
                return Err("the session has ended");
            }
            state = self
                .changed
                .wait(state)
                .unwrap_or_else(PoisonError::into_inner);
        }
        let event = match state.placeholders.get_mut(&id) {
            // The client was quicker.
            None => None,
            Some((from, event)) if *from == peer => event.take(),
            Some(_) => return Err("a placeholder that is not its to bring about"),
        };
        drop(state);
        if let Some(event) = event {
            event.complete();
        }
        Ok(())
    }

    /// The session ends: nobody comes any more, and nothing waits for anybody.
    pub(super) fn close(&self, reason: &str) {
        let mut state = locked(&self.state);
        state.closed = true;
        let State {
            peer_senders,
            come,
            placeholders,
            expected,
            ..
        } = &mut *state;
        expected.clear();
        let (peer_senders, come) = (std::mem::take(peer_senders), std::mem::take(come));
        let placeholders = std::mem::take(placeholders);
        drop(state);
        self.changed.notify_all();
        peer_senders
            .values()
            .for_each(|(_, peer_sender)| peer_sender.lose());
        come.values().for_each(|(_, out)| out.abort(reason));
        for (_, event) in placeholders.into_values() {
            if let Some(event) = event {
                event.fail(reason);
            }
        }
    }
}
