//! A session's links, for clients that ask: its streams, and its connections with other nodes.

use super::{Session, State};
use crate::node::Shared;
use quipu_link::stream::Carried;
use quipu_protocol::limits::MAX_LINKS;
use quipu_protocol::message::{LinkKind, LinkLoad, LinkState, PeerAddress};

/// A session's links, as many as are told, and how many there are beside them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct LinkCount {
    /// The links. The code that tells the client sets the session's number in them.
    pub(crate) links: Vec<LinkLoad>,
    pub(crate) more: u32,
}

/// A link that has carried this.
pub(super) fn load(kind: LinkKind, state: LinkState, key: [u8; 32], carried: &Carried) -> LinkLoad {
    let round_trip = carried.round_trip.unwrap_or_default();
    LinkLoad {
        session: 1,
        kind,
        state,
        resumed: carried.resumed,
        address: carried.address.and_then(PeerAddress::of),
        key,
        round_trip_ns: u64::try_from(round_trip.as_nanos()).unwrap_or(u64::MAX),
        sent: carried.sent,
        received: carried.received,
        chunks_sent: [0; 2],
        chunks_received: [0; 2],
    }
}

impl Session {
    /// Its links.
    pub(crate) fn links(&self, node: &Shared) -> LinkCount {
        let key = node.key().fingerprint().bytes();
        let stream = |kind, carried: &Carried| {
            let state = match carried.is_connected {
                true => LinkState::Connected,
                false => LinkState::Awaited,
            };
            load(kind, state, key, carried)
        };
        let mut links = Vec::new();
        if let State::Open(out) = &*crate::locked(&self.out) {
            links.push(stream(LinkKind::Commands, &out.carried()));
        }
        if let Some(carried) = self.bulk.carried() {
            links.push(LinkLoad {
                chunks_sent: self.traffic.bytes(),
                chunks_received: carried.chunks_received,
                ..stream(LinkKind::Bulk, &carried)
            });
        }
        links.extend(self.peers.links(node.options.timer.now()));
        let more = links.len().saturating_sub(MAX_LINKS) as u32;
        links.truncate(MAX_LINKS);
        LinkCount { links, more }
    }
}
