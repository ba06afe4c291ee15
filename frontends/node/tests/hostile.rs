//! Clients that break the rules: each is sent away, with a reason, and hurts nobody else.
#![allow(clippy::unwrap_used, reason = "a promise that is not kept panics")]

use quipu_core::{Device, Driver};
use quipu_driver_cpu::{CpuDriver, Options as CpuOptions};
use quipu_link::client::Dial;
use quipu_link::clock::SystemClock;
use quipu_link::connection::Connection;
use quipu_link::gate::Gate;
use quipu_link::invitation::Invitations;
use quipu_link::session::Greeted;
use quipu_link::{Folder, Key, LinkError};
use quipu_node::{Limits, Node, Options};
use quipu_wire::batch::Batch;
use quipu_wire::message::{
    Chunk, Command, CreateBuffer, CreateProgram, Failure, Fill, FreeBuffer, GoodbyeReason, Launch,
    Message, Operation, Parameter, ParameterKind, Placeholder, Priority, ProgramFormat, Read,
    Refusal, Resolve, Wait, Word, Write,
};
use std::net::{TcpListener, TcpStream};
use std::num::NonZero;
use std::sync::Arc;
use std::time::Duration;

const PATIENCE: Duration = Duration::from_secs(120);

struct Rig {
    node: Node,
    keys: [Key; 2],
    address: String,
    _folder: tempfile::TempDir,
}

impl Rig {
    fn new(limits: Limits) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let open = |name| Folder::open(folder.path().join(name)).unwrap();
        let of_node = open("node");
        let gate = Gate::new(&of_node, "node", PATIENCE, Arc::new(SystemClock)).unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let workers = NonZero::new(2).unwrap();
        let pool: Arc<dyn Driver> = CpuDriver::start(CpuOptions::new().workers(workers)).unwrap();
        let options = Options {
            limits,
            ..Options::new(Device::all_of(&pool).unwrap())
        };
        let node = Node::serve(options, gate, listener).unwrap();
        let keys = ["one", "two"].map(|name| {
            let key = Key::of(&open(name), "client.key").unwrap();
            let invitations = Invitations::of(&of_node);
            let invitation = invitations.invite(node.fingerprint(), &address, &SystemClock);
            invitation.unwrap().take_up(&key, name, PATIENCE).unwrap();
            key
        });
        Self {
            node,
            keys,
            address,
            _folder: folder,
        }
    }

    fn dial(&self, key: usize) -> Dial<'_> {
        Dial {
            address: &self.address,
            node: self.node.fingerprint(),
            key: &self.keys[key],
            name: "test",
            patience: PATIENCE,
        }
    }

    fn client(&self) -> Client {
        let Greeted {
            connection, terms, ..
        } = self.dial(0).begin(Duration::ZERO).unwrap();
        Client {
            connection,
            session: terms.session,
            sent: 0,
        }
    }

    /// Returns when the node has no session left, and nothing of any.
    fn is_empty(&self) {
        while self.node.sessions() > 0 || self.node.session_bytes() > 0 {
            std::thread::yield_now();
        }
    }
}

/// A session's command stream, message by message.
struct Client {
    connection: Connection,
    session: (quipu_wire::message::SessionId, u32),
    sent: u64,
}

impl Client {
    fn send(&mut self, messages: &[Message<'_>]) {
        let mut batch = Batch::new(1 << 20);
        for message in messages {
            self.sent += u64::from(message.kind().is_numbered());
            let number = if message.kind().is_numbered() {
                self.sent
            } else {
                0
            };
            batch.push(message, number).unwrap();
        }
        // A node that has sent us away does not take it all.
        let _ = self.connection.send_batch(&batch);
    }

    /// What comes next that is not an acknowledgement.
    fn next<T>(&mut self, take: impl Fn(&Message<'_>) -> T) -> Result<T, LinkError> {
        loop {
            let taken = self.connection.receive_as(|message| match message {
                Message::Acknowledge(_) => Ok(None),
                message => Ok(Some(take(message))),
            })?;
            if let Some(taken) = taken {
                return Ok(taken);
            }
        }
    }

    /// Ends that are told until that of a command, and how that one ended.
    fn end_of(&mut self, wanted: u64) -> Option<(Failure, String)> {
        loop {
            let end = self.next(|message| match message {
                Message::Completed(completed) => {
                    let mut events = completed.events.iter();
                    events.any(|event| event.get() == wanted).then_some(None)
                }
                Message::Failed(failed) if failed.event == wanted => {
                    Some(Some((failed.failure, failed.text.to_owned())))
                }
                _ => None,
            });
            if let Some(end) = end.unwrap() {
                return end;
            }
        }
    }

    /// Why the node sends us away.
    fn goodbye(&mut self) -> GoodbyeReason {
        loop {
            match self.next(|_| ()) {
                Ok(()) => {}
                Err(LinkError::Goodbye { reason, .. }) => return reason,
                Err(error) => panic!("{error}"),
            }
        }
    }
}

fn buffer(buffer: u64, size: u64) -> Message<'static> {
    Message::CreateBuffer(CreateBuffer {
        buffer,
        size,
        content_size: 0,
    })
}

fn command<'a>(event: u64, waits: &'a [Wait], operation: Operation<'a>) -> Message<'a> {
    Message::Command(Command {
        event,
        device: 0,
        queue: 0,
        priority: Priority::Normal,
        profiled: false,
        waits,
        operation,
    })
}

fn fill(buffer: u64, length: u64) -> Operation<'static> {
    let mut pattern = [0; 16];
    pattern[0] = 7;
    Operation::Fill(Fill {
        buffer,
        offset: 0,
        length,
        pattern,
        pattern_length: 1,
    })
}

fn read(buffer: u64, offset: u64, row: u64, transfer: u64) -> Operation<'static> {
    Operation::Read(Read {
        buffer,
        offset,
        row,
        steps: &[],
        transfer,
    })
}

#[test]
fn who_breaks_a_rule_is_sent_away_and_others_are_not() {
    let limits = Limits {
        commands: 64,
        buffers: 4,
        programs: 2,
        buffer_bytes: 1 << 20,
        session_bytes: 1 << 21,
        ..Limits::default()
    };
    let rig = Rig::new(limits);
    let mut good = rig.client();
    good.send(&[buffer(1, 64), command(1, &[], fill(1, 64))]);
    assert_eq!(good.end_of(1), None);
    let never = [Wait::needs(3)];
    let nothing = Operation::Nothing;
    let text = |program| {
        Message::CreateProgram(CreateProgram {
            program,
            format: ProgramFormat::OpenClC,
            source: b"kernel void f() {}",
            entry: "f",
            options: "",
        })
    };
    let mut far = command(1, &[], nothing);
    if let Message::Command(command) = &mut far {
        command.device = 1;
    }
    let parameter = [Parameter::new(ParameterKind::Value { length: 0 })];
    let one = [Word::new(1)];
    let launch = Operation::Launch(Launch {
        program: 1,
        blocks: &one,
        threads: &one,
        elements: &one,
        shared: &[],
        parameters: &parameter,
        extents: &[],
        values: &[],
    });
    let placeholders: Vec<_> = (1..=65)
        .map(|event| Message::Placeholder(Placeholder { event }))
        .collect();
    let (protocol, limit) = (GoodbyeReason::Protocol, GoodbyeReason::Limit);
    let cases: Vec<(&str, Vec<Message<'_>>, GoodbyeReason)> = vec![
        (
            "a buffer that never was",
            vec![command(1, &[], fill(9, 8))],
            protocol,
        ),
        (
            "a buffer's id again",
            vec![buffer(1, 8), buffer(1, 8)],
            protocol,
        ),
        (
            "a buffer freed twice",
            vec![
                buffer(1, 8),
                Message::FreeBuffer(FreeBuffer { buffer: 1 }),
                Message::FreeBuffer(FreeBuffer { buffer: 1 }),
            ],
            protocol,
        ),
        (
            "a buffer that is too large",
            vec![buffer(1, (1 << 20) + 1)],
            limit,
        ),
        (
            "too many bytes",
            vec![buffer(1, 1 << 20), buffer(2, 1 << 20), buffer(3, 1)],
            limit,
        ),
        (
            "too many buffers",
            (1..=5).map(|id| buffer(id, 8)).collect(),
            limit,
        ),
        ("too many programs", (1..=3).map(text).collect(), limit),
        (
            "a program that never was",
            vec![command(1, &[], launch)],
            protocol,
        ),
        (
            "an event that never was",
            vec![command(5, &never, nothing)],
            protocol,
        ),
        (
            "an event's id again",
            vec![command(1, &[], nothing), command(1, &[], nothing)],
            protocol,
        ),
        ("a device that is not there", vec![far], protocol),
        ("too many commands", placeholders, limit),
        (
            "what is no placeholder",
            vec![Message::Resolve(Resolve {
                event: 1,
                failure: None,
                text: "",
            })],
            protocol,
        ),
        (
            "a transfer's id again",
            vec![
                buffer(1, 8),
                command(1, &[], read(1, 0, 8, 1)),
                command(2, &[], read(1, 0, 8, 1)),
            ],
            protocol,
        ),
        (
            "too many bytes with a read",
            vec![buffer(1, 1 << 20), command(1, &[], read(1, 0, 1 << 20, 0))],
            limit,
        ),
        (
            "a chunk on the command stream",
            vec![Message::Chunk(Chunk {
                transfer: 1,
                offset: 0,
                bytes: &[1],
            })],
            protocol,
        ),
    ];
    for (what, messages, reason) in cases {
        let mut bad = rig.client();
        bad.send(&messages);
        assert_eq!(bad.goodbye(), reason, "{what}");
    }
    // Nobody else noticed.
    good.send(&[command(2, &[], fill(1, 64))]);
    assert_eq!(good.end_of(2), None);
    drop(good);
    rig.is_empty();
}

#[test]
fn what_cannot_be_done_fails_and_breaks_no_rule() {
    let rig = Rig::new(Limits::default());
    let mut client = rig.client();
    let unknown = Message::CreateProgram(CreateProgram {
        program: 1,
        format: ProgramFormat::Native,
        source: &[3; 32],
        entry: "saxpy",
        options: "",
    });
    let text = Message::CreateProgram(CreateProgram {
        program: 2,
        format: ProgramFormat::OpenClC,
        source: b"kernel void f() {}",
        entry: "f",
        options: "",
    });
    let one = [Word::new(1)];
    let launch = |program| {
        Operation::Launch(Launch {
            program,
            blocks: &one,
            threads: &one,
            elements: &one,
            shared: &[],
            parameters: &[],
            extents: &[],
            values: &[],
        })
    };
    let needs = [Wait::needs(2)];
    let after = [Wait::after(2)];
    client.send(&[
        buffer(1, 64),
        command(1, &[], fill(1, 65)),
        Message::FreeBuffer(FreeBuffer { buffer: 1 }),
        command(2, &[], fill(1, 64)),
        command(3, &needs, Operation::Nothing),
        command(4, &after, Operation::Nothing),
        unknown,
        text,
        command(5, &[], launch(1)),
        command(6, &[], launch(2)),
    ]);
    let of = |client: &mut Client, event| client.end_of(event).unwrap();
    assert_eq!(of(&mut client, 1).0, Failure::InvalidArgument);
    assert_eq!(of(&mut client, 2).0, Failure::InvalidArgument);
    drop(client);
    rig.is_empty();
}

#[test]
fn a_failure_is_that_of_what_needs_it_and_not_of_what_comes_after() {
    let rig = Rig::new(Limits::default());
    for (wait, expected) in [
        (Wait::needs(1), Some(Failure::Dependency)),
        (Wait::after(1), None),
    ] {
        let mut client = rig.client();
        let waits = [wait];
        client.send(&[
            Message::Placeholder(Placeholder { event: 1 }),
            command(2, &waits, Operation::Nothing),
            Message::Resolve(Resolve {
                event: 1,
                failure: Some(Failure::Other),
                text: "no",
            }),
        ]);
        assert_eq!(client.end_of(2).map(|(failure, _)| failure), expected);
    }
}

#[test]
fn what_waits_for_a_client_that_is_gone_is_given_up() {
    let rig = Rig::new(Limits::default());
    let mut client = rig.client();
    let waits = [Wait::needs(1)];
    // Bytes that never come, and a placeholder that nobody resolves.
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
        Message::Placeholder(Placeholder { event: 1 }),
        command(2, &waits, fill(1, 64)),
        command(3, &[], write),
        command(4, &[], Operation::Nothing),
    ]);
    assert_eq!(client.end_of(4), None);
    assert_eq!(rig.node.session_bytes(), 1 << 20);
    drop(client);
    rig.is_empty();
}

#[test]
fn a_bulk_stream_is_its_sessions_owners_and_there_is_one() {
    let rig = Rig::new(Limits::default());
    let client = rig.client();
    let refusal = |error| match error {
        LinkError::Refused { refusal, .. } => refusal,
        other => panic!("{other}"),
    };
    let other = rig.dial(1).bulk(client.session.0).unwrap_err();
    assert_eq!(refusal(other), Refusal::NoSession);
    let mut forged = client.session;
    forged.0.0[0] ^= 1;
    let forged = rig.dial(0).bulk(forged.0).unwrap_err();
    assert_eq!(refusal(forged), Refusal::NoSession);
    let _bulk = rig.dial(0).bulk(client.session.0).unwrap();
    let second = rig.dial(0).bulk(client.session.0).unwrap_err();
    assert_eq!(refusal(second), Refusal::NoSession);
}

#[test]
fn strangers_that_say_nothing_keep_nobody_out() {
    let rig = Rig::new(Limits {
        strangers: 8,
        ..Limits::default()
    });
    let silent: Vec<TcpStream> = (0..200)
        .map(|_| TcpStream::connect(&rig.address).unwrap())
        .collect();
    let mut client = rig.client();
    client.send(&[command(1, &[], Operation::Nothing)]);
    assert_eq!(client.end_of(1), None);
    drop(silent);
}

#[test]
fn a_node_that_is_full_says_so() {
    let rig = Rig::new(Limits {
        sessions: 1,
        ..Limits::default()
    });
    let first = rig.client();
    match rig.dial(0).begin(Duration::ZERO).unwrap_err() {
        LinkError::Refused { refusal, .. } => assert_eq!(refusal, Refusal::Full),
        other => panic!("{other}"),
    }
    drop(first);
    rig.is_empty();
    rig.client();
}

#[test]
fn questions_are_answered() {
    let rig = Rig::new(Limits::default());
    let mut client = rig.client();
    client.send(&[buffer(1, 4096), command(1, &[], fill(1, 8))]);
    assert_eq!(client.end_of(1), None);
    let mut link = rig.dial(1).ask().unwrap();
    assert_eq!(link.devices().len(), 1);
    link.ping().unwrap();
    let status = link.status().unwrap();
    assert_eq!((status.sessions, status.session_bytes), (1, 4096));
    assert_eq!((status.commands_held, status.commands_over), (0, 1));
}
