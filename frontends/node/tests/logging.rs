//! The node's log: it names each client that is refused, and each that breaks a rule, with the
//! reason.
#![allow(clippy::unwrap_used, reason = "helpers assert by unwrapping")]

mod support;

use quipu_link::client::Dial;
use quipu_link::clock::SystemClock;
use quipu_link::invitation::Invitations;
use quipu_link::peer::show;
use quipu_link::session::Place;
use quipu_link::timer::ManualTimer;
use quipu_link::{Fingerprint, Folder, Invitation, Key, LinkError};
use quipu_node::{Limits, OPERATOR, Options};
use quipu_protocol::batch::Batch;
use quipu_protocol::message::{
    Chunk, DataOrder, Hello, Message, Operation, Peer, PeerRole, Role, SessionId, Ticket, Write,
};
use std::fmt::Write as _;
use std::io::{Read as _, Write as _};
use std::net::{Shutdown, TcpStream};
use std::sync::{Arc, Condvar, Mutex, Once, PoisonError};
use std::time::{Duration, Instant};
use support::{Client, PATIENCE, Rig, buffer, command, fill};
use tracing::field::{Field, Visit};
use tracing::level_filters::LevelFilter;
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Level, Metadata, Subscriber};

/// Long enough for a line to be written.
const SOON: Duration = Duration::from_secs(60);

static LINES: Mutex<Vec<String>> = Mutex::new(Vec::new());
static MORE: Condvar = Condvar::new();

/// Keeps what `QUIPU_LOG=info` shows, one line each: `message field=value ...`.
struct Keeper;

struct Line(String);

impl Visit for Line {
    fn record_debug(&mut self, field: &Field, value: &dyn std::fmt::Debug) {
        if field.name() == "message" {
            self.0 = format!("{value:?}{}", self.0);
        } else {
            write!(self.0, " {}={value:?}", field.name()).unwrap();
        }
    }
}

impl Subscriber for Keeper {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        *metadata.level() <= Level::INFO
    }

    fn max_level_hint(&self) -> Option<LevelFilter> {
        Some(LevelFilter::INFO)
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}
    fn record_follows_from(&self, _: &Id, _: &Id) {}
    fn enter(&self, _: &Id) {}
    fn exit(&self, _: &Id) {}

    fn event(&self, event: &Event<'_>) {
        let mut line = Line(String::new());
        event.record(&mut line);
        write!(line.0, " target={}", event.metadata().target()).unwrap();
        let mut lines = LINES.lock().unwrap_or_else(PoisonError::into_inner);
        lines.push(line.0);
        MORE.notify_all();
    }
}

/// A node whose log is kept. Tests run beside each other: each looks for lines with its own keys.
fn rig(limits: Limits) -> Rig {
    rig_where(limits, |_| ())
}

/// The same with other options.
fn rig_where(limits: Limits, set: impl FnOnce(&mut Options)) -> Rig {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| tracing::subscriber::set_global_default(Keeper).unwrap());
    Rig::with_folder(limits, |options, _| set(options))
}

/// Waits until so many lines have all of these in them.
fn logged(count: usize, parts: &[&str]) -> String {
    let has = |line: &&String| parts.iter().all(|part| line.contains(part));
    let lines = LINES.lock().unwrap_or_else(PoisonError::into_inner);
    let few = |lines: &mut Vec<String>| lines.iter().filter(has).count() < count;
    let waited = MORE.wait_timeout_while(lines, SOON, few);
    let (lines, _) = waited.unwrap_or_else(PoisonError::into_inner);
    let found: Vec<&String> = lines.iter().filter(has).collect();
    assert_eq!(found.len(), count, "{parts:?}: {lines:#?}");
    found[0].clone()
}

fn key_of(rig: &Rig, client: usize) -> String {
    rig.dial(client).key.fingerprint().to_string()
}

#[test]
fn nobody_fills_the_operators_log_with_sessions() {
    // No time passes, so it is one minute.
    let timer = Arc::new(ManualTimer::default());
    let rig = rig_where(Limits::default(), |options| options.timer = timer);
    for _ in 0..30 {
        drop(rig.client());
        rig.is_empty();
    }
    let key = key_of(&rig, 0);
    logged(60, &["a session has", &key]);
    let lines = LINES.lock().unwrap_or_else(PoisonError::into_inner);
    let target = format!("target={OPERATOR}");
    let told = lines.iter();
    let told = told.filter(|line| line.contains(&key) && line.contains(&target));
    // With that of its enrolment.
    assert_eq!(told.count(), 20);
}

#[test]
fn who_is_not_enrolled_is_named_by_key_and_address() {
    let rig = rig(Limits::default());
    let stranger = Key::passing().unwrap();
    let strange = Dial {
        key: &stranger,
        ..rig.dial(0)
    };
    strange.ask().unwrap_err();
    let key = stranger.fingerprint().to_string();
    let line = logged(1, &["not let in", "'127.0.0.1:", &key, "not enrolled"]);
    // What the client is to do is not what the operator is to do.
    assert!(!line.contains("quipu pair"), "{line}");
    // Each time that it comes.
    strange.ask().unwrap_err();
    logged(2, &["not let in", "'127.0.0.1:", &key, "not enrolled"]);
    // Nor does who once was get in unseen.
    rig.revoke("two");
    rig.dial(1).ask().unwrap_err();
    logged(
        1,
        &[
            "not let in",
            "'127.0.0.1:",
            &key_of(&rig, 1),
            "not enrolled",
        ],
    );
}

#[test]
fn an_invitation_that_is_not_good_is_not_said_but_who_showed_it_is() {
    let rig = rig(Limits::default());
    let folder = Folder::open(rig.folder.path().join("node")).unwrap();
    let good = Invitations::of(&folder)
        .invite(rig.node.fingerprint(), &rig.address, &SystemClock)
        .unwrap();
    let bad = Invitation {
        token: [7; 32],
        ..good.clone()
    };
    let key = Key::passing().unwrap();
    for count in 1..=3 {
        bad.take_up(&key, "guesses", PATIENCE).unwrap_err();
        let who = key.fingerprint().to_string();
        logged(count, &["not let in", "'127.0.0.1:", &who, "invitation"]);
    }
    // Guesses do not use up the one that is good.
    good.take_up(&key, "knows", PATIENCE).unwrap();
    let lines = LINES.lock().unwrap().clone();
    for secret in [good.to_string(), bad.to_string()] {
        assert!(!lines.iter().any(|line| line.contains(&secret)));
    }
}

#[test]
fn a_client_that_is_turned_away_is_named_with_what_it_was_told() {
    let rig = rig(Limits {
        sessions: 1,
        ..Limits::default()
    });
    let client = rig.client();
    let (one, two) = (key_of(&rig, 0), key_of(&rig, 1));
    rig.dial(1).begin(Duration::ZERO).unwrap_err();
    logged(
        1,
        &[
            "gone",
            "client=\"two\"",
            "'127.0.0.1:",
            &two,
            "refused",
            "as many sessions",
        ],
    );
    // A session of somebody else's.
    let place = Place {
        session: (client.session.0, 2),
        received: 0,
        patience: PATIENCE,
        key: None,
        alone: false,
    };
    rig.dial(1).resume(false, &place).unwrap_err();
    logged(
        1,
        &["gone", "client=\"two\"", &two, "refused", "no such session"],
    );
    // Another version of the protocol.
    let mut newer = rig.dial(0).open().unwrap();
    let hello = Hello {
        versions: (7, 9),
        role: Role::Session,
        features: 0,
        session: SessionId::NONE,
        epoch: 0,
        data_order: DataOrder::Little,
        received: 0,
        max_frame: 1 << 20,
        patience_ms: 0,
        name: "newer",
    };
    newer.send(&Message::Hello(hello)).unwrap();
    newer.receive_as(|_| Ok(())).unwrap();
    drop(newer);
    logged(1, &["not let in", &one, "refused", "7 to 9"]);
}

#[test]
fn what_does_not_speak_the_protocol_is_named_by_its_address() {
    let rig = rig(Limits::default());
    let mut stream = TcpStream::connect(&rig.address).unwrap();
    let address = format!("'{}'", stream.local_addr().unwrap());
    // It may be closed while this is written.
    let _ = stream.write_all(b"GET / HTTP/1.1\r\n\r\n");
    let _ = stream.shutdown(Shutdown::Write);
    let _ = stream.read_to_end(&mut Vec::new());
    logged(
        1,
        &["not let in", &address, "does not speak Quipu's protocol"],
    );
}

#[test]
fn who_breaks_a_rule_is_named_with_the_rule() {
    let rig = rig(Limits::default());
    let mut client = rig.client_of(1);
    client.send(&[command(1, &[], fill(9, 8))]);
    client.sent_away();
    logged(1, &["breaks a rule", &key_of(&rig, 1), "Protocol", "text="]);
    // On the other stream.
    let client = rig.client();
    let mut bulk = rig.dial(0).bulk(client.session.0, None).unwrap().connection;
    bulk.send(&Message::StatusRequest).unwrap();
    while bulk.receive_as(|_| Ok(())).is_ok() {}
    logged(
        1,
        &[
            "gone",
            "client=\"one\"",
            "'status request'",
            "a chunk that follows",
        ],
    );
}

const TICKET: [u8; 32] = [0x5a; 32];

/// The message to a node about another that may come.
fn awaited(key: Fingerprint) -> Peer {
    Peer {
        peer: 1,
        epoch: 1,
        role: PeerRole::Awaits,
        is_routed: false,
        wait_ms: 600_000,
        session: SessionId::NONE,
        key: key.bytes(),
        ticket: TICKET,
        address: None,
    }
}

/// A session that expects another node with a key, and the ticket that is good there.
fn expecting(rig: &Rig, key: Fingerprint) -> (Client, Ticket) {
    let mut client = rig.client();
    let awaits = Message::Peer(awaited(key));
    client.send(&[awaits, command(1, &[], Operation::Nothing)]);
    assert_eq!(client.end_of(1), None);
    let ticket = Ticket {
        versions: (0, 0),
        epoch: 1,
        session: client.session.0,
        ticket: TICKET,
        max_frame: 0,
    };
    (client, ticket)
}

#[test]
fn another_node_that_is_not_let_in_is_named_each_time_and_is_told_nothing() {
    let rig = rig(Limits::default());
    let (expected, stranger) = (Key::passing().unwrap(), Key::passing().unwrap());
    let (mut client, good) = expecting(&rig, expected.fingerprint());
    let come = |key: &Key, ticket: &Ticket| {
        let stream = TcpStream::connect(&rig.address).unwrap();
        let address = stream.local_addr().unwrap().to_string();
        let until = Instant::now() + PATIENCE;
        let came = show(stream, key, rig.node.fingerprint(), ticket, until);
        (came, address)
    };
    let nothing_said = |came| assert!(matches!(came, Err(LinkError::Ended { .. })));
    let who = stranger.fingerprint().to_string();
    let (came, address) = come(&stranger, &good);
    nothing_said(came);
    logged(1, &["nobody expects", &address, &who]);
    let who = expected.fingerprint().to_string();
    for guess in 0..10 {
        let guess = Ticket {
            ticket: [guess; 32],
            ..good
        };
        let (came, address) = come(&expected, &guess);
        nothing_said(came);
        logged(1, &["a ticket that is not good", &address, &who]);
    }
    logged(10, &["a ticket that is not good", &who]);
    // The right one is as good as before, and what is sent on it is looked at.
    let mut visitor = come(&expected, &good).0.unwrap();
    // Bytes of a transfer that is not another node's to bring, which the session knows.
    let write = Operation::Write(Write {
        buffer: 1,
        offset: 0,
        row: 1 << 20,
        steps: &[],
        transfer: 1,
        bytes: &[],
    });
    client.send(&[
        buffer(1, 1 << 20),
        command(2, &[], write),
        command(3, &[], Operation::Nothing),
    ]);
    assert_eq!(client.end_of(3), None);
    let mut batch = Batch::new(1 << 20);
    let chunk = Chunk {
        transfer: 1,
        offset: 0,
        bytes: &[1; 8],
    };
    batch.push(&Message::Chunk(chunk), 1).unwrap();
    let _ = visitor.send_batch(&batch);
    while visitor.receive_as(|_| Ok(())).is_ok() {}
    logged(1, &["another node breaks a rule", &who, "not expected"]);
    client.send(&[command(4, &[], Operation::Nothing)]);
    assert_eq!(client.end_of(4), None);
    // What no node ever sends is not even read.
    let again = [
        Message::Peer(Peer {
            epoch: 2,
            ..awaited(expected.fingerprint())
        }),
        command(5, &[], Operation::Nothing),
    ];
    client.send(&again);
    assert_eq!(client.end_of(5), None);
    let next = Ticket { epoch: 2, ..good };
    let mut visitor = come(&expected, &next).0.unwrap();
    let mut batch = Batch::new(1 << 20);
    let nothing = command(9, &[], Operation::Nothing);
    batch.push(&nothing, 1).unwrap();
    let _ = visitor.send_batch(&batch);
    while visitor.receive_as(|_| Ok(())).is_ok() {}
    logged(1, &["another node is gone", &who, "makes no sense"]);
}
