//! Messages about other nodes, and messages from them and to them.

use super::{Coming, Script, any_message};
use crate::lane::Lane;
use crate::support::PATIENCE;
use quipu_link::Key;
use quipu_link::peer::show;
use quipu_protocol::message::*;
use std::net::TcpStream;
use std::time::Instant;

/// The ticket that a peer shows.
const TICKET: [u8; 32] = [0x5a; 32];

impl Script<'_> {
    /// Tells the node of another, which is this program, or the node itself.
    pub(super) fn name_peer(&mut self, other: &Key) {
        let address = PeerAddress::of(self.rig.node.address()).unwrap();
        let dials = self.random.once_in(2);
        let list = if dials { &self.dialled } else { &self.awaited };
        let again = match self.random.once_in(3) {
            true => list.first().copied(),
            false => None,
        };
        let (peer, epoch) = again.unwrap_or((self.last.peer + 1, 0));
        let epoch = if self.errs() { epoch } else { epoch + 1 };
        // The node has the key of itself, which may come to this session, or not.
        let own = self.rig.node.fingerprint().bytes();
        let key = match dials || self.random.once_in(3) {
            true => own,
            false => other.fingerprint().bytes(),
        };
        if !self.commands.push(&Message::Peer(Peer {
            peer,
            epoch,
            role: if dials {
                PeerRole::Dials
            } else {
                PeerRole::Awaits
            },
            is_routed: false,
            wait_ms: 1 + self.random.below(10) as u32,
            session: if dials { self.session } else { SessionId::NONE },
            key,
            ticket: TICKET,
            address: dials.then_some(address),
        })) {
            return;
        }
        self.last.peer = self.last.peer.max(peer);
        let list = if dials {
            &mut self.dialled
        } else {
            &mut self.awaited
        };
        list.retain(|(known, _)| *known != peer);
        list.push((peer, epoch));
    }

    /// Comes as another node would, and says things there.
    pub(super) fn visit(&mut self, other: &Key) {
        if let Some(mut visit) = self.visits.pop() {
            // It may be closed by now, for what was said there.
            for _ in 0..1 + self.random.below(4) {
                let transfer = self.random.below(self.last.transfer + 1);
                let coming = self.random.one_of(&self.placeholders);
                match (self.random.below(4), coming) {
                    (0, Some(event)) => visit.push(&Message::CameAbout(CameAbout { event })),
                    (1, _) => visit.push(&Message::Chunk(Chunk {
                        transfer,
                        offset: 0,
                        bytes: &[7; 50],
                    })),
                    (2, _) => visit.push(&Message::Rest(Rest {
                        transfer,
                        offset: self.random.below(2) * 50,
                    })),
                    _ => visit.push(&any_message(&mut self.random)),
                };
            }
            if visit.flush() {
                self.visits.push(visit);
            }
            return;
        }
        let Some((_, epoch)) = self.random.one_of(&self.awaited) else {
            return;
        };
        let stream = TcpStream::connect(&self.rig.address).unwrap();
        let ticket = Ticket {
            versions: (0, 0),
            epoch,
            session: self.session,
            ticket: TICKET,
            max_frame: 0,
        };
        let until = Instant::now() + PATIENCE;
        let node = self.rig.node.fingerprint();
        if !self.meet() {
            return;
        }
        // It is let in once for each time that it was named, and only if it is the one that was
        // named.
        if let Ok(connection) = show(stream, other, node, &ticket, until) {
            self.visits.push(Lane::new(connection));
            self.seen.visits += 1;
        }
    }

    pub(super) fn send_or_receive(&mut self) {
        let Some((buffer, size)) = self.buffer() else {
            return;
        };
        let (offset, row) = self.range(size);
        // What does not get there straight comes by the bulk stream.
        let is_send = self.bulk.is_some() && self.random.once_in(2);
        let list = if is_send {
            &self.dialled
        } else {
            &self.awaited
        };
        let peers: Vec<u64> = list.iter().map(|(peer, _)| *peer).collect();
        let Some(peer) = self.one(&peers, self.last.peer) else {
            return;
        };
        let transfer = self.transfer();
        let remote = 1 + self.random.below(self.last.transfer + 2);
        let all = SendBytes {
            buffer,
            offset,
            row,
            transfer,
            peer,
            remote,
        };
        let size = match self.random.once_in(2) {
            true => self.buffer().map(|(size, _)| size),
            false => None,
        };
        let size = size.filter(|size| *size != buffer);
        let is_put = self.command(match (is_send, size) {
            (true, Some(size)) => Operation::SendContent(SendContent { all, size }),
            (true, _) => Operation::Send(all),
            (false, _) => Operation::Receive(Receive {
                buffer,
                offset,
                row,
                transfer,
                peer,
            }),
        });
        if is_put && !is_send {
            // If not by its peer, then by us, or never.
            let message = Message::Abandon(Abandon { transfer });
            match self.bulk.is_some() && self.random.once_in(2) {
                true => self.coming.push(Coming {
                    transfer,
                    length: row,
                    at: 0,
                }),
                false => {
                    self.commands.push(&message);
                }
            }
        }
    }

    pub(super) fn tell_or_part(&mut self) {
        let peers: Vec<u64> = self.dialled.iter().map(|(peer, _)| *peer).collect();
        let Some(peer) = self.one(&peers, self.last.peer) else {
            return;
        };
        if self.random.once_in(3) {
            self.commands.push(&Message::Part(Part { peer }));
            return;
        }
        let commands: Vec<u64> = self.unended.iter().copied().collect();
        if let Some(event) = self.one(&commands, self.last.event) {
            let placeholder = 1 + self.random.below(self.last.event + 2);
            self.commands.push(&Message::Tell(Tell {
                event,
                peer,
                placeholder,
            }));
        }
    }
}
