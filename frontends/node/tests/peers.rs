//! Connections from node to node: a node lets in a peer with a good ticket, takes from it the
//! messages that the client has announced, and no others.
#![allow(clippy::unwrap_used, reason = "helpers assert by unwrapping")]

mod support;

use quipu_link::connection::Connection;
use quipu_link::peer::show;
use quipu_link::timer::ManualTimer;
use quipu_link::{Fingerprint, Key, LinkError};
use quipu_node::Limits;
use quipu_protocol::batch::Batch;
use quipu_protocol::message::{
    Abandon, CameAbout, Chunk, Failure, GoodbyeReason, LinkKind, LinkLoad, LinkState, Message,
    Operation, Part, Peer, PeerAddress, PeerRole, Placeholder, Receive, Resolve, Rest, SendBytes,
    SendContent, SessionId, Tell, Ticket, Wait,
};
use std::io::Read;
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::time::{Duration, Instant};
use support::{Client, PATIENCE, Rig, buffer, command, fill, read};

const TICKET: [u8; 32] = [0x5a; 32];

/// A session, and another node that its client has told it of.
struct Scene {
    rig: Rig,
    client: Client,
    other: Key,
    timer: Arc<ManualTimer>,
}

/// The message to a node about another that may come.
fn awaits(key: Fingerprint, epoch: u32) -> Message<'static> {
    Message::Peer(Peer {
        peer: 1,
        epoch,
        role: PeerRole::Awaits,
        is_routed: false,
        wait_ms: 5000,
        session: SessionId::NONE,
        key: key.bytes(),
        ticket: TICKET,
        address: None,
    })
}

impl Scene {
    fn new() -> Self {
        Self::within(Limits::default())
    }

    fn within(limits: Limits) -> Self {
        let timer = Arc::new(ManualTimer::default());
        let of_node = timer.clone();
        let rig = Rig::with_folder(limits, |options, _| options.timer = of_node);
        let mut client = rig.client();
        let other = Key::passing().unwrap();
        client.send(&[
            awaits(other.fingerprint(), 1),
            command(1, &[], Operation::Nothing),
        ]);
        assert_eq!(client.end_of(1), None);
        Self {
            rig,
            client,
            other,
            timer,
        }
    }

    fn ticket(&self) -> Ticket {
        Ticket {
            versions: (0, 0),
            epoch: 1,
            session: self.client.session.0,
            ticket: TICKET,
            max_frame: 0,
        }
    }

    /// Comes as another node would.
    fn come(&self, key: &Key, ticket: &Ticket) -> Result<Visitor, LinkError> {
        let stream = TcpStream::connect(&self.rig.address).unwrap();
        let until = Instant::now() + PATIENCE;
        let expected = self.rig.node.fingerprint();
        let connection = show(stream, key, expected, ticket, until)?;
        Ok(Visitor {
            connection,
            sent: 0,
        })
    }
}

/// Another node's connection, message by message.
struct Visitor {
    connection: Connection,
    sent: u64,
}

impl Visitor {
    fn send(&mut self, messages: &[Message<'_>]) {
        let mut batch = Batch::new(1 << 20);
        for message in messages {
            self.sent += 1;
            batch.push(message, self.sent).unwrap();
        }
        let _ = self.connection.send_batch(&batch);
    }

    /// The transfer that the node has taken next.
    fn taken(&mut self) -> u64 {
        loop {
            let taken = self.connection.receive_as(|message| match message {
                Message::Taken(taken) => Ok(Some(taken.transfer)),
                Message::Acknowledge(_) => Ok(None),
                _ => Err("taken"),
            });
            if let Some(taken) = taken.unwrap() {
                return taken;
            }
        }
    }

    /// Returns when the node has closed the connection.
    fn ends(&mut self) {
        while self.connection.receive_as(|_| Ok(())).is_ok() {}
    }
}

fn chunk(transfer: u64, offset: u64, bytes: &[u8]) -> Message<'_> {
    Message::Chunk(Chunk {
        transfer,
        offset,
        bytes,
    })
}

fn rest(transfer: u64, offset: u64) -> Message<'static> {
    Message::Rest(Rest { transfer, offset })
}

fn receive(buffer: u64, row: u64, transfer: u64) -> Operation<'static> {
    Operation::Receive(Receive {
        buffer,
        offset: 0,
        row,
        transfer,
        peer: 1,
    })
}

/// That nothing was said: the connection was closed, and that is all.
fn is_closed(came: Result<Visitor, LinkError>) {
    match came {
        Err(LinkError::Ended { .. }) => {}
        Err(error) => panic!("{error}"),
        Ok(_) => panic!("it was let in"),
    }
}

#[test]
fn a_ticket_is_good_once_for_its_key_session_epoch_and_time_and_whatever_is_wrong_is_not_said() {
    let scene = Scene::new();
    let good = scene.ticket();
    let stranger = Key::passing().unwrap();
    let other_session = scene.rig.client_of(1);
    let mut forged = TICKET;
    forged[31] ^= 1;
    let none = SessionId([9; 16]);
    for (key, ticket) in [
        (&stranger, good),
        (
            &scene.other,
            Ticket {
                ticket: forged,
                ..good
            },
        ),
        (&scene.other, Ticket { epoch: 2, ..good }),
        (
            &scene.other,
            Ticket {
                session: other_session.session.0,
                ..good
            },
        ),
        (
            &scene.other,
            Ticket {
                session: none,
                ..good
            },
        ),
    ] {
        is_closed(scene.come(key, &ticket));
    }
    // None of these has used it up.
    let _visitor = scene.come(&scene.other, &good).unwrap();
    is_closed(scene.come(&scene.other, &good));
}

#[test]
fn a_ticket_that_is_too_old_is_not_taken_and_a_later_one_is() {
    let mut scene = Scene::new();
    scene.timer.advance(Duration::from_millis(4999));
    assert!(
        scene
            .come(&Key::passing().unwrap(), &scene.ticket())
            .is_err()
    );
    scene.timer.advance(Duration::from_millis(1));
    is_closed(scene.come(&scene.other, &scene.ticket()));
    let again = [
        awaits(scene.other.fingerprint(), 2),
        command(2, &[], Operation::Nothing),
    ];
    scene.client.send(&again);
    assert_eq!(scene.client.end_of(2), None);
    is_closed(scene.come(&scene.other, &scene.ticket()));
    let next = Ticket {
        epoch: 2,
        ..scene.ticket()
    };
    let _visitor = scene.come(&scene.other, &next).unwrap();
    // An epoch is not had twice.
    scene.client.send(&[awaits(scene.other.fingerprint(), 2)]);
    assert_eq!(scene.client.goodbye(), GoodbyeReason::Protocol);
}

#[test]
fn bytes_come_once_whichever_way_and_in_whatever_pieces() {
    let mut scene = Scene::new();
    let mut visitor = scene.come(&scene.other, &scene.ticket()).unwrap();
    let bytes: Vec<u8> = (0..100_000_u32).map(|at| (at >> 3) as u8).collect();
    // Before the client has said a word of it.
    visitor.send(&[chunk(1, 0, &bytes[..60_000])]);
    scene
        .client
        .send(&[buffer(1, 100_000), command(2, &[], receive(1, 100_000, 1))]);
    let bulk = scene.rig.dial(0).bulk(scene.client.session.0, None);
    let mut bulk = bulk.unwrap().connection;
    let mut batch = Batch::new(1 << 20);
    // What has come, and what has not; and what comes the other way then is left out.
    batch.push(&chunk(1, 0, &bytes[..50_000]), 1).unwrap();
    batch.push(&chunk(1, 50_000, &bytes[50_000..]), 2).unwrap();
    bulk.send_batch(&batch).unwrap();
    assert_eq!(scene.client.end_of(2), None);
    visitor.send(&[chunk(1, 60_000, &bytes[60_000..])]);
    scene.client.send(&[command(3, &[], read(1, 0, 1000, 0))]);
    let same = scene.client.next(|message| match message {
        Message::ReadBytes(read) => read.bytes == &bytes[..1000],
        _ => false,
    });
    assert!(same.unwrap());
    // The connection is as good as before.
    scene
        .client
        .send(&[buffer(2, 64), command(4, &[], receive(2, 64, 2))]);
    visitor.send(&[chunk(2, 0, &[7; 64])]);
    assert_eq!(visitor.taken(), 2);
    assert_eq!(scene.client.end_of(4), None);
}

#[test]
fn zeros_that_come_before_their_turn_take_no_memory() {
    let mut scene = Scene::within(Limits {
        process_bytes: 1 << 20,
        ..Limits::default()
    });
    let mut visitor = scene.come(&scene.other, &scene.ticket()).unwrap();
    const LENGTH: u64 = 8 << 20;
    scene.client.send(&[
        buffer(1, LENGTH),
        command(2, &[], fill(1, LENGTH)),
        Message::Placeholder(Placeholder { event: 3, peer: 0 }),
        command(4, &[Wait::needs(3)], receive(1, LENGTH, 1)),
        // This one is expected, and fails: there is no such range.
        command(5, &[], receive(1, 1 << 41, 2)),
    ]);
    visitor.send(&[chunk(1, 0, &[5; 100]), rest(1, 100)]);
    assert_eq!(visitor.taken(), 1);
    visitor.send(&[rest(2, 0)]);
    assert_eq!(visitor.taken(), 2);
    scene.client.send(&[Message::Resolve(Resolve {
        event: 3,
        failure: None,
        text: "",
    })]);
    assert_eq!(scene.client.end_of(4), None);
    scene
        .client
        .send(&[command(6, &[], read(1, LENGTH - 1000, 1000, 0))]);
    let read = loop {
        let read = scene.client.next(|message| match message {
            Message::ReadBytes(read) => Some(read.bytes.to_vec()),
            _ => None,
        });
        if let Some(read) = read.unwrap() {
            break read;
        }
    };
    assert_eq!(read, vec![0; 1000]);
}

#[test]
fn when_a_content_was_sent_is_told() {
    let rig = Rig::new(Limits::default());
    let (mut client, nobody) = (rig.client(), Key::passing().unwrap());
    let _bulk = rig.dial(0).bulk(client.session.0, None).unwrap();
    let send = Operation::SendContent(SendContent {
        all: SendBytes {
            buffer: 1,
            offset: 0,
            row: 64,
            transfer: 1,
            peer: 1,
            remote: 1,
        },
        size: 2,
    });
    let mut sent = command(2, &[], send);
    if let Message::Command(command) = &mut sent {
        command.profiled = true;
    }
    client.send(&[
        dials(&rig.address, &nobody),
        buffer(1, 64),
        buffer(2, 8),
        sent,
    ]);
    let run = loop {
        let run = client.next(|message| match message {
            Message::Ran(ran) => ran.runs.first().copied(),
            _ => None,
        });
        if let Some(run) = run.unwrap() {
            break run.profile;
        }
    };
    assert_eq!(run.event.get(), 2);
    let times = [run.submitted_ns, run.started_ns, run.ended_ns].map(|time| time.get());
    assert!(times[0] > 0 && times.is_sorted(), "{times:?}");
}

#[test]
fn zeros_take_the_place_of_what_does_not_come_whichever_way() {
    for by_client in [false, true] {
        let mut scene = Scene::new();
        let mut visitor = scene.come(&scene.other, &scene.ticket()).unwrap();
        const LENGTH: u64 = 200_000;
        scene.client.send(&[
            buffer(1, LENGTH),
            command(2, &[], fill(1, LENGTH)),
            command(3, &[], receive(1, LENGTH, 1)),
        ]);
        // Some come straight, and what is behind them by the client, or again.
        visitor.send(&[chunk(1, 0, &[5; 90])]);
        let bulk = scene.rig.dial(0).bulk(scene.client.session.0, None);
        let mut bulk = bulk.unwrap().connection;
        if by_client {
            let mut batch = Batch::new(1 << 20);
            batch.push(&chunk(1, 0, &[5; 100]), 1).unwrap();
            batch.push(&rest(1, 100), 2).unwrap();
            bulk.send_batch(&batch).unwrap();
        } else {
            visitor.send(&[chunk(1, 90, &[5; 10]), rest(1, 100)]);
            assert_eq!(visitor.taken(), 1);
        }
        assert_eq!(scene.client.end_of(3), None);
        // All have come: what comes again is left out.
        visitor.send(&[rest(1, 100)]);
        scene.client.send(&[
            command(4, &[], read(1, 0, 1000, 0)),
            command(5, &[], read(1, LENGTH - 1000, 1000, 0)),
        ]);
        let mut seen = Vec::new();
        while seen.len() < 2 {
            let read = scene.client.next(|message| match message {
                Message::ReadBytes(read) => Some((read.event, read.bytes.to_vec())),
                _ => None,
            });
            seen.extend(read.unwrap());
        }
        // None waits for the other.
        seen.sort_unstable();
        let mut expected = vec![5; 100];
        expected.resize(1000, 0);
        assert_eq!(seen, [(4, expected), (5, vec![0; 1000])]);
    }
}

#[test]
fn what_the_client_has_not_said_ends_the_connection_and_nothing_else() {
    let write = Operation::Write(quipu_protocol::message::Write {
        buffer: 1,
        offset: 0,
        row: 100_000,
        steps: &[],
        transfer: 2,
        bytes: &[],
    });
    let of_other = Operation::Receive(Receive {
        buffer: 1,
        offset: 0,
        row: 64,
        transfer: 4,
        peer: 2,
    });
    let cases: Vec<(&str, Message<'_>)> = vec![
        ("bytes of a write", chunk(2, 0, &[1; 8])),
        ("bytes from another node", chunk(4, 0, &[1; 8])),
        ("bytes that do not follow", chunk(3, 8, &[1; 8])),
        ("more bytes than were asked for", chunk(3, 0, &[1; 65])),
        ("zeros for a write", rest(2, 0)),
        ("zeros from another node", rest(4, 0)),
        ("zeros that do not follow", rest(3, 8)),
        ("zeros behind all there is", rest(3, 64)),
        (
            "the client's own placeholder",
            Message::CameAbout(CameAbout { event: 1 }),
        ),
        (
            "another node's placeholder",
            Message::CameAbout(CameAbout { event: 2 }),
        ),
        ("a command", command(9, &[], Operation::Nothing)),
    ];
    for (what, message) in cases {
        let mut scene = Scene::new();
        let mut client = scene.rig.client();
        client.send(&[
            awaits(scene.other.fingerprint(), 1),
            Message::Placeholder(Placeholder { event: 1, peer: 0 }),
            Message::Placeholder(Placeholder { event: 2, peer: 2 }),
            buffer(1, 100_000),
            command(3, &[], write),
            command(4, &[], receive(1, 64, 3)),
            command(5, &[], of_other),
            command(6, &[], Operation::Nothing),
        ]);
        assert_eq!(client.end_of(6), None);
        let ticket = Ticket {
            session: client.session.0,
            ..scene.ticket()
        };
        let mut visitor = scene.come(&scene.other, &ticket).unwrap();
        visitor.send(&[message]);
        visitor.ends();
        // The session goes on, and so does another.
        client.send(&[
            command(7, &[], fill(1, 8)),
            command(8, &[], Operation::Nothing),
        ]);
        assert_eq!(client.end_of(8), None, "{what}");
        scene.client.send(&[command(2, &[], Operation::Nothing)]);
        assert_eq!(scene.client.end_of(2), None, "{what}");
    }
}

#[test]
fn a_placeholder_comes_about_by_whoever_is_first_and_is_forgotten_by_the_clients_word() {
    let mut scene = Scene::new();
    let mut visitor = scene.come(&scene.other, &scene.ticket()).unwrap();
    let waits = [2, 3].map(|event| [Wait::needs(event)]);
    let placeholder = |event| Message::Placeholder(Placeholder { event, peer: 1 });
    let resolve = |event| {
        Message::Resolve(quipu_protocol::message::Resolve {
            event,
            failure: None,
            text: "",
        })
    };
    // Said before the client has named it: it waits.
    visitor.send(&[Message::CameAbout(CameAbout { event: 2 })]);
    scene.client.send(&[
        placeholder(2),
        placeholder(3),
        command(4, &waits[0], Operation::Nothing),
        command(5, &waits[1], Operation::Nothing),
    ]);
    assert_eq!(scene.client.end_of(4), None);
    // It may still be waited for, as the client has not said that it knows.
    scene
        .client
        .send(&[command(6, &waits[0], Operation::Nothing)]);
    assert_eq!(scene.client.end_of(6), None);
    scene.client.send(&[resolve(3), resolve(2)]);
    assert_eq!(scene.client.end_of(5), None);
    // And what is forgotten was: who says so late breaks no rule.
    visitor.send(&[
        Message::CameAbout(CameAbout { event: 3 }),
        Message::CameAbout(CameAbout { event: 2 }),
    ]);
    scene
        .client
        .send(&[buffer(1, 8), command(7, &[], receive(1, 8, 1))]);
    visitor.send(&[chunk(1, 0, &[1; 8])]);
    assert_eq!(visitor.taken(), 1);
    scene.client.send(&[resolve(2)]);
    assert_eq!(scene.client.goodbye(), GoodbyeReason::Protocol);
}

#[test]
fn what_never_comes_fails_and_what_has_come_does_not() {
    let mut scene = Scene::new();
    let mut visitor = scene.come(&scene.other, &scene.ticket()).unwrap();
    scene.client.send(&[
        buffer(1, 64),
        buffer(2, 64),
        command(2, &[], receive(1, 64, 1)),
        command(3, &[], receive(2, 64, 2)),
    ]);
    visitor.send(&[chunk(2, 0, &[1; 64]), chunk(1, 0, &[1; 10])]);
    assert_eq!(scene.client.end_of(3), None);
    scene.client.send(&[
        Message::Abandon(Abandon { transfer: 1 }),
        Message::Abandon(Abandon { transfer: 2 }),
    ]);
    let (failure, text) = scene.client.end_of(2).unwrap();
    assert!(
        failure == Failure::Device || failure == Failure::Other,
        "{failure:?}"
    );
    assert!(text.contains("never"), "{text}");
    // What comes of it all the same is left out.
    visitor.send(&[chunk(1, 10, &[1; 10])]);
    scene
        .client
        .send(&[Message::Abandon(Abandon { transfer: 3 })]);
    assert_eq!(scene.client.goodbye(), GoodbyeReason::Protocol);
}

#[test]
fn who_sends_to_nobody_breaks_a_rule() {
    let send = Operation::Send(SendBytes {
        buffer: 1,
        offset: 0,
        row: 8,
        transfer: 1,
        peer: 1,
        remote: 1,
    });
    let tell = Message::Tell(Tell {
        event: 1,
        peer: 1,
        placeholder: 1,
    });
    for message in [command(2, &[], send), tell] {
        // It has a peer that may come, and none that it dials.
        let mut scene = Scene::new();
        scene.client.send(&[buffer(1, 8), message]);
        assert_eq!(scene.client.goodbye(), GoodbyeReason::Protocol);
    }
}

/// The message to a node to dial, at an address, a session there that has this key.
fn dialled(address: &str, key: Fingerprint) -> Peer {
    Peer {
        peer: 1,
        epoch: 1,
        role: PeerRole::Dials,
        is_routed: false,
        wait_ms: 300,
        session: SessionId([3; 16]),
        key: key.bytes(),
        ticket: TICKET,
        address: PeerAddress::of(address.parse().unwrap()),
    }
}

fn dials(address: &str, key: &Key) -> Message<'static> {
    Message::Peer(dialled(address, key.fingerprint()))
}

/// Checks that bytes of a session that should go to another node come by way of the client.
fn detours(rig: &Rig, told: Message<'_>) {
    let mut client = rig.client();
    let send = Operation::Send(SendBytes {
        buffer: 1,
        offset: 0,
        row: 64,
        transfer: 1,
        peer: 1,
        remote: 1,
    });
    client.send(&[
        told,
        buffer(1, 64),
        command(1, &[], fill(1, 64)),
        command(2, &[], send),
    ]);
    let bulk = rig.dial(0).bulk(client.session.0, None);
    let mut bulk = bulk.unwrap().connection;
    let came = bulk.receive_as(|message| match message {
        Message::Chunk(chunk) => Ok((chunk.transfer, chunk.offset, chunk.bytes.to_vec())),
        _ => Err("a chunk"),
    });
    assert_eq!(came.unwrap(), (1, 0, vec![7; 64]));
    assert_eq!(client.end_of(2), None);
}

#[test]
fn no_ticket_is_shown_to_who_has_another_key_and_bytes_go_by_way_of_the_client() {
    let rig = Rig::new(Limits::default());
    // Somebody else has got hold of the address, expects just this node, and would take the ticket.
    let impostor = Rig::new(Limits::default());
    let mut client = impostor.client();
    let wait = command(1, &[], Operation::Nothing);
    client.send(&[awaits(rig.node.fingerprint(), 1), wait]);
    assert_eq!(client.end_of(1), None);
    let told = |key| Peer {
        session: client.session.0,
        ..dialled(&impostor.address, key)
    };
    let other = Key::passing().unwrap().fingerprint();
    let mut first = rig.client();
    first.send(&[Message::Peer(told(other))]);
    while states(&rig)
        .iter()
        .all(|state| *state == LinkState::Awaited)
    {
        std::thread::yield_now();
    }
    assert_eq!(states(&rig), [LinkState::ByClient]);
    assert_eq!(states(&impostor), [LinkState::Awaited]);
    detours(&rig, Message::Peer(told(other)));
    // With the key that it has it is shown.
    let mut second = rig.client();
    second.send(&[Message::Peer(told(impostor.node.fingerprint()))]);
    while states(&impostor) != [LinkState::Connected] {
        std::thread::yield_now();
    }
}

#[test]
fn nothing_of_a_clients_choice_is_said_to_who_has_proved_no_key() {
    let rig = Rig::new(Limits::default());
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let chosen = *b"\nFLUSHALL\r\nQUIT\n";
    let heard = std::thread::spawn(move || {
        // It says nothing, so nothing is said to it after the first words.
        let mut heard = Vec::new();
        let (mut stream, _) = listener.accept().unwrap();
        stream.read_to_end(&mut heard).unwrap();
        heard
    });
    let told = Peer {
        is_routed: true,
        session: SessionId(chosen),
        ..dialled(&address, Key::passing().unwrap().fingerprint())
    };
    detours(&rig, Message::Peer(told));
    let heard = heard.join().unwrap();
    assert!(heard.len() > 100, "the way, and a hello of TLS's");
    for part in [&chosen[..], &TICKET[..]]
        .iter()
        .flat_map(|of| of.windows(4))
    {
        assert!(!heard.windows(4).any(|heard| heard == part), "{part:?}");
    }
}

#[test]
fn when_one_is_dialled_does_not_show_how_others_fare() {
    let closed = TcpListener::bind("127.0.0.1:0").unwrap();
    let refused = closed.local_addr().unwrap();
    drop(closed);
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let stranger = Rig::new(Limits::default());
    let nowhere = [
        refused.to_string(),
        silent.local_addr().unwrap().to_string(),
        stranger.address.clone(),
        // The node does not dial that network.
        "192.0.2.1:80".to_owned(),
    ];
    for address in nowhere {
        let (rig, other) = (Rig::new(Limits::default()), Rig::new(Limits::default()));
        let mut awaiting = other.client();
        let wait = command(1, &[], Operation::Nothing);
        awaiting.send(&[awaits(rig.node.fingerprint(), 1), wait]);
        assert_eq!(awaiting.end_of(1), None);
        let nobody = Key::passing().unwrap().fingerprint();
        let in_vain = (1..=32).map(|peer| Peer {
            peer,
            ..dialled(&address, nobody)
        });
        let last = Peer {
            peer: 33,
            wait_ms: 60_000,
            session: awaiting.session.0,
            ..dialled(&other.address, other.node.fingerprint())
        };
        let told: Vec<_> = in_vain.chain([last]).map(Message::Peer).collect();
        let mut client = rig.client();
        client.send(&told);
        // One of them is given up, which shows no more.
        client.send(&[Message::Part(Part { peer: 7 })]);
        while !states(&rig).contains(&LinkState::Connected) {
            std::thread::yield_now();
        }
        // It had to wait until the time of one of them was over, wherever that should have led.
        let left = states(&rig);
        let left = left.iter().filter(|state| **state == LinkState::Awaited);
        assert!(left.count() < 31, "{address}");
    }
}

#[test]
fn a_network_that_the_operator_does_not_allow_is_not_dialled() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    listener.set_nonblocking(true).unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let rig = Rig::with_folder(Limits::default(), |options, _| {
        options.peers.networks = "10.0.0.0/8".parse().unwrap();
    });
    detours(&rig, dials(&address, &Key::passing().unwrap()));
    let came = listener.accept().unwrap_err();
    assert_eq!(came.kind(), std::io::ErrorKind::WouldBlock);
}

#[test]
fn a_node_says_where_others_find_it_unless_it_has_to_do_with_none() {
    let rig = Rig::new(Limits::default());
    let terms = rig.dial(0).begin(Duration::ZERO).unwrap().terms;
    let found = terms.peer_address.unwrap().socket();
    assert_eq!(found.to_string(), rig.address);
    let said = "10.1.2.3:4761".parse().unwrap();
    let rig = Rig::with_folder(Limits::default(), |options, _| {
        options.peers.address = Some(said);
    });
    let terms = rig.dial(0).begin(Duration::ZERO).unwrap().terms;
    assert_eq!(terms.peer_address.unwrap().socket(), said);
    let rig = Rig::with_folder(Limits::default(), |options, _| {
        options.peers.address = Some(said);
        options.peers.networks = "none".parse().unwrap();
    });
    let terms = rig.dial(0).begin(Duration::ZERO).unwrap().terms;
    assert!(terms.peer_address.is_none());
}

/// The links with other nodes: whether this one has dialled, and how they are.
fn ways(rig: &Rig) -> Vec<LinkLoad> {
    let links = rig.dial(0).ask().unwrap().look().unwrap().links;
    let links = links.links.into_iter();
    links
        .filter(|link| matches!(link.kind, LinkKind::ToNode | LinkKind::FromNode))
        .collect()
}

/// The states of the links.
fn states(rig: &Rig) -> Vec<LinkState> {
    ways(rig).iter().map(|link| link.state).collect()
}

/// The link with another node, once it is so.
fn way_when(rig: &Rig, state: LinkState) -> LinkLoad {
    loop {
        if let [link] = ways(rig)[..]
            && link.state == state
        {
            return link;
        }
        std::thread::yield_now();
    }
}

#[test]
fn a_client_is_told_how_the_way_from_another_node_is() {
    let mut scene = Scene::new();
    let awaited = way_when(&scene.rig, LinkState::Awaited);
    assert_eq!(awaited.kind, LinkKind::FromNode);
    assert_eq!(awaited.key, scene.other.fingerprint().bytes());
    assert_eq!((awaited.address, awaited.received), (None, 0));
    let mut visitor = scene.come(&scene.other, &scene.ticket()).unwrap();
    scene
        .client
        .send(&[buffer(1, 64), command(2, &[], receive(1, 64, 1))]);
    visitor.send(&[chunk(1, 0, &[7; 64])]);
    assert_eq!(visitor.taken(), 1);
    let there = way_when(&scene.rig, LinkState::Connected);
    assert!(there.received > 64 && there.sent > 0);
    assert_eq!((there.resumed, there.session), (0, 1));
    assert!(there.address.is_some());
    drop(visitor);
    way_when(&scene.rig, LinkState::ByClient);
    let again = [
        awaits(scene.other.fingerprint(), 2),
        command(3, &[], Operation::Nothing),
    ];
    scene.client.send(&again);
    assert_eq!(scene.client.end_of(3), None);
    assert_eq!(way_when(&scene.rig, LinkState::Awaited).resumed, 1);
    // Who does not come in time does not come.
    scene.timer.advance(Duration::from_millis(5000));
    way_when(&scene.rig, LinkState::ByClient);
}

#[test]
fn a_client_is_told_how_the_way_to_another_node_is() {
    let rig = Rig::new(Limits::default());
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let other = Key::passing().unwrap();
    let mut client = rig.client();
    client.send(&[
        dials(&address.to_string(), &other),
        command(1, &[], Operation::Nothing),
    ]);
    assert_eq!(client.end_of(1), None);
    // Nobody there says a word, and then it is too late.
    let lost = way_when(&rig, LinkState::ByClient);
    assert_eq!(lost.kind, LinkKind::ToNode);
    assert_eq!(lost.key, other.fingerprint().bytes());
    assert_eq!(lost.address.unwrap().socket(), address);
    // Of one that is gone nothing is told.
    client.send(&[
        Message::Part(Part { peer: 1 }),
        command(2, &[], Operation::Nothing),
    ]);
    assert_eq!(client.end_of(2), None);
    assert_eq!(ways(&rig), []);
}
