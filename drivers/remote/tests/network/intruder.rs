//! An intruder that is enrolled at a node, and sends forbidden messages: another version, sessions
//! of others, forged tickets, and tickets that were taken before.

use crate::support::PATIENCE;
use crate::support::lossy::Random;
use quipu_link::client::Dial;
use quipu_link::clock::SystemClock;
use quipu_link::connection::Connection;
use quipu_link::invitation::Invitations;
use quipu_link::peer::{Destination, Networks, show};
use quipu_link::session::{Greeted, Place};
use quipu_link::{Fingerprint, Folder, Key, LinkError};
use quipu_protocol::batch::Batch;
use quipu_protocol::message::{
    Command, DataOrder, Hello, Message, Operation, Peer, PeerRole, Priority, Refusal, Role,
    SessionId, Ticket,
};
use quipu_protocol::{FEATURES, NEWEST_VERSION};
use std::time::{Duration, Instant};

/// See the module.
pub(crate) struct Intruder {
    address: String,
    node: Fingerprint,
    key: Key,
    random: Random,
    /// The number of times that it has been sent away.
    pub(crate) refused: u64,
}

impl Intruder {
    /// Enrols somebody at the node that has this folder: to be called where it is reached.
    pub(crate) fn enrolled(address: &str, node: Fingerprint, folder: &Folder) -> Self {
        let key = Key::passing().unwrap();
        let invitation = Invitations::of(folder).invite(node, address, &SystemClock);
        let invitation = invitation.unwrap();
        invitation.take_up(&key, "intruder", PATIENCE).unwrap();
        Self {
            address: address.to_owned(),
            node,
            key,
            random: Random(15),
            refused: 0,
        }
    }

    fn dial(&self) -> Dial<'_> {
        Dial {
            address: &self.address,
            node: self.node,
            key: &self.key,
            name: "intruder",
            patience: PATIENCE,
        }
    }

    /// Tries one of all that, and looks that it comes to nothing.
    pub(crate) fn intrude(&mut self) {
        match self.random.below(10) {
            0 => self.replays(),
            1..4 => self.speaks_another_version(),
            4..6 => self.makes_no_sense(),
            6..8 => self.comes_back_to_others(),
            _ => self.forges(),
        }
        self.refused += 1;
    }

    fn bytes<const COUNT: usize>(&mut self) -> [u8; COUNT] {
        std::array::from_fn(|_| self.random.below(256) as u8)
    }

    fn speaks_another_version(&mut self) {
        let newer = NEWEST_VERSION + 1 + self.random.below(1000) as u16;
        let role = [Role::Session, Role::Status][self.random.below(2)];
        let mut connection = self.dial().open().unwrap();
        let hello = Message::Hello(Hello {
            versions: (newer, newer + 1),
            role,
            features: FEATURES,
            session: SessionId::NONE,
            epoch: 0,
            data_order: DataOrder::Little,
            received: 0,
            max_frame: 1 << 14,
            patience_ms: 0,
            name: "a newer one",
        });
        connection.send(&hello).unwrap();
        let refusal = connection.receive_as(|message| match message {
            Message::Refuse(refuse) => Ok(refuse.refusal),
            _ => Err("a refusal"),
        });
        assert_eq!(refusal.unwrap(), Refusal::Version);
        ends(&mut connection);
    }

    fn makes_no_sense(&mut self) {
        let mut connection = self.dial().open().unwrap();
        let bytes: [u8; 200] = self.bytes();
        // Who is sent away before the end does not mind. What might be the beginning of something
        // is waited for.
        let _ = connection.send_bytes(&bytes);
    }

    fn comes_back_to_others(&mut self) {
        let place = Place {
            session: (SessionId(self.bytes()), 1 + self.random.below(4) as u32),
            received: 0,
            patience: PATIENCE,
            key: None,
            alone: false,
        };
        let is_bulk = self.random.below(2) == 0;
        match self.dial().resume(is_bulk, &place).unwrap_err() {
            LinkError::Refused { refusal, .. } => assert_eq!(refusal, Refusal::NoSession),
            other => panic!("{other}"),
        }
    }

    fn forges(&mut self) {
        let ticket = ticket(SessionId(self.bytes()), self.bytes());
        let came = self.come(&self.key, self.node, false, &ticket);
        assert!(matches!(came, Err(LinkError::Ended { .. })), "{came:?}");
    }

    /// A ticket that is good, for a session of its own, is so once.
    fn replays(&mut self) {
        let other = Key::passing().unwrap();
        let ticket_bytes = self.bytes();
        let Greeted {
            mut connection,
            terms,
            ..
        } = self.dial().begin(Duration::ZERO).unwrap();
        let mut batch = Batch::new(1 << 14);
        let awaits = Message::Peer(Peer {
            peer: 1,
            epoch: 1,
            role: PeerRole::Awaits,
            is_routed: false,
            wait_ms: 600_000,
            session: SessionId::NONE,
            key: other.fingerprint().bytes(),
            ticket: ticket_bytes,
            address: None,
        });
        batch.push(&awaits, 1).unwrap();
        let nothing = Message::Command(Command {
            event: 1,
            device: 0,
            queue: 0,
            priority: Priority::Normal,
            profiled: false,
            waits: &[],
            operation: Operation::Nothing,
        });
        batch.push(&nothing, 2).unwrap();
        connection.send_batch(&batch).unwrap();
        // What was said before is known when this is over.
        let taken = |message: &Message<'_>| Ok(matches!(message, Message::Completed(_)));
        while !connection.receive_as(taken).unwrap() {}
        let ticket = ticket(terms.session.0, ticket_bytes);
        let (node, is_routed) = (terms.key.unwrap_or(self.node), terms.key.is_some());
        let come = |key, ticket: &Ticket| self.come(key, node, is_routed, ticket);
        let mut forged = ticket;
        forged.ticket[self.refused as usize % 32] ^= 1;
        come(&other, &forged).unwrap_err();
        come(&self.key, &ticket).unwrap_err();
        let _visitor = come(&other, &ticket).unwrap();
        come(&other, &ticket).unwrap_err();
    }

    /// Comes as another node would.
    fn come(
        &self,
        key: &Key,
        node: Fingerprint,
        is_routed: bool,
        ticket: &Ticket,
    ) -> Result<Connection, LinkError> {
        let to = Destination {
            address: self.address.parse().unwrap(),
            key: node,
            session: is_routed.then_some(ticket.session),
        };
        let everywhere: Networks = "0.0.0.0/0".parse().unwrap();
        let until = Instant::now() + PATIENCE;
        // As from a session in a process of its own, and from another.
        let stream = match self.refused.is_multiple_of(2) {
            true => everywhere.prove(&to, until).unwrap(),
            false => everywhere.reach(&to, until).unwrap(),
        };
        show(stream, key, node, ticket, until)
    }
}

fn ticket(session: SessionId, ticket: [u8; 32]) -> Ticket {
    Ticket {
        versions: (0, 0),
        epoch: 1,
        session,
        ticket,
        max_frame: 0,
    }
}

/// Returns when the node has closed a connection.
fn ends(connection: &mut Connection) {
    while connection.receive_as(|_| Ok(())).is_ok() {}
}
