//! Clients that break the rules: each is sent away, with a reason, and hurts nobody else.
#![allow(clippy::unwrap_used, reason = "helpers assert by unwrapping")]

mod support;

use quipu_driver_sim::SimDriver;
use quipu_driver_sim::engine::Configuration;
use quipu_link::LinkError;
use quipu_node::Limits;
use quipu_protocol::batch::Batch;
use quipu_protocol::message::{
    Chunk, ContentSize, ContentSizes, CreateProgram, Describe, DescribeForm, Failure, FreeBuffer,
    GoodbyeReason, Launch, Message, Operation, Parameter, ParameterKind, PartForm, Ping,
    Placeholder, ProgramFormat, ProgramPart, ProgramSource, ReadContent, Refusal, Resolve, Wait,
    Word, Write,
};
use quipu_protocol::{
    CONTENT, CONTENT_SIZES, DESCRIPTIONS, LARGE_PROGRAMS, LONG_PROGRAMS, PARTS, SENT_CONTENT,
};
use quipu_scheduler::{Device, Driver};
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::sync::Arc;
use std::time::Duration;
use support::{Client, Rig, buffer, command, fill, one_thread, read};

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
        offset: &[],
        all_threads: &[],
        shared: &[],
        parameters: &parameter,
        extents: &[],
        values: &[],
    });
    let describe = Operation::Describe(Describe::text("kernel void f() {}", ""));
    let mut described_far = command(1, &[], describe);
    if let Message::Command(command) = &mut described_far {
        command.device = 1;
    }
    let placeholders: Vec<_> = (1..=65)
        .map(|event| Message::Placeholder(Placeholder { event, peer: 0 }))
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
            "a program to read beside as many as there may be",
            vec![text(1), text(2), command(1, &[], describe)],
            limit,
        ),
        (
            "a program to read for a device that is not there",
            vec![described_far],
            protocol,
        ),
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
        command(5, &[], one_thread(1)),
        command(6, &[], one_thread(2)),
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
            Message::Placeholder(Placeholder { event: 1, peer: 0 }),
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
fn who_asks_for_what_the_welcome_did_not_take_is_sent_away() {
    let read = Operation::ReadContent(ReadContent {
        buffer: 1,
        offset: 0,
        row: 64,
        transfer: 0,
        size: 2,
    });
    let filled = [Wait::needs(1)];
    let asked = [
        buffer(1, 64),
        buffer(2, 8),
        command(1, &[], fill(2, 8)),
        command(2, &filled, read),
    ];
    let has = |lacks| {
        let rig = Rig::with_folder(Limits::default(), |options, _| options.lacks = lacks);
        let greeted = rig.dial(0).begin(Duration::ZERO).unwrap();
        assert_eq!(greeted.terms.takes_content(), lacks & CONTENT == 0);
        assert_eq!(greeted.terms.sends_content(), lacks & SENT_CONTENT == 0);
        let mut client = Client::over(greeted.connection, &greeted.terms, 0);
        client.send(&asked);
        (rig, client)
    };
    let (_rig, mut client) = has(SENT_CONTENT);
    assert_eq!(client.end_of(2), None);
    let (_rig, mut client) = has(CONTENT);
    assert_eq!(client.goodbye(), GoodbyeReason::Protocol);
    let rig = Rig::with_folder(Limits::default(), |options, _| options.lacks = DESCRIPTIONS);
    let greeted = rig.dial(0).begin(Duration::ZERO).unwrap();
    assert!(!greeted.terms.describes());
    let mut client = Client::over(greeted.connection, &greeted.terms, 0);
    let describe = Operation::Describe(Describe::text("kernel void f() {}", ""));
    client.send(&[command(1, &[], describe)]);
    assert_eq!(client.goodbye(), GoodbyeReason::Protocol);
    let mut parts = Vec::new();
    let part = ProgramPart {
        form: PartForm::OpenClC,
        source: b"kernel void f() {}",
        options: "",
    };
    part.write(&mut parts);
    let program = Message::CreateProgram(CreateProgram {
        program: 1,
        format: ProgramFormat::Parts,
        source: &parts,
        entry: "f",
        options: "",
    });
    let describe = Operation::Describe(Describe {
        form: DescribeForm::Linked,
        source: &parts,
        options: "",
    });
    for asked in [program, command(1, &[], describe)] {
        let rig = Rig::with_folder(Limits::default(), |options, _| options.lacks = PARTS);
        let greeted = rig.dial(0).begin(Duration::ZERO).unwrap();
        assert!(greeted.terms.describes());
        let mut client = Client::over(greeted.connection, &greeted.terms, 0);
        client.send(&[asked]);
        assert_eq!(client.goodbye(), GoodbyeReason::Protocol);
    }
}

#[test]
fn a_program_comes_in_parts_within_limits() {
    let limits = Limits {
        program_bytes: 64,
        session_bytes: 100,
        ..Limits::default()
    };
    let source = |bytes| Message::ProgramSource(ProgramSource { bytes });
    let program = |program, source| {
        Message::CreateProgram(CreateProgram {
            program,
            format: ProgramFormat::OpenClC,
            source,
            entry: "f",
            options: "",
        })
    };
    let nothing = |event| command(event, &[], Operation::Nothing);
    let begun = [source(b"kernel void f("), source(b") { /* \xc3")];
    let rig = Rig::new(limits);
    let mut client = rig.client();
    // A letter may be in two parts. They count as bytes of the session until all have come.
    client.send(&[begun[0], begun[1], nothing(1)]);
    assert_eq!(client.end_of(1), None);
    assert_eq!(rig.node.session_bytes(), 22);
    client.send(&[source(b"\xbc */ }"), program(1, b""), nothing(2)]);
    assert_eq!(client.end_of(2), None);
    assert_eq!(rig.node.session_bytes(), 0);
    let describe = Operation::Describe(Describe::text("", ""));
    client.send(&[begun[0], source(b") {}"), command(3, &[], describe)]);
    // Whether or not there is a compiler.
    let _ = client.end_of(3);
    client.send(&begun);
    drop(client);
    while rig.node.session_bytes() > 0 || rig.node.sessions() > 0 {
        std::thread::yield_now();
    }
    let broken = [
        (vec![program(1, b"")], GoodbyeReason::Protocol),
        (vec![begun[0], program(1, b"a")], GoodbyeReason::Protocol),
        (vec![begun[1], program(1, b"")], GoodbyeReason::Protocol),
        (
            vec![source(b"a\0"), program(1, b"")],
            GoodbyeReason::Protocol,
        ),
        (vec![source(&[b'a'; 40]); 2], GoodbyeReason::Limit),
        (
            vec![buffer(1, 80), source(&[b'a'; 40])],
            GoodbyeReason::Limit,
        ),
        (
            vec![source(&[b'a'; 40]), buffer(1, 80)],
            GoodbyeReason::Limit,
        ),
    ];
    for (number, (messages, reason)) in broken.iter().enumerate() {
        let mut client = rig.client();
        client.send(messages);
        assert_eq!(client.goodbye(), *reason, "{number}");
    }
    let rig = Rig::with_folder(limits, |options, _| options.lacks = LONG_PROGRAMS);
    let greeted = rig.dial(0).begin(Duration::ZERO).unwrap();
    assert!(!greeted.terms.takes_long_programs());
    let mut client = Client::over(greeted.connection, &greeted.terms, 0);
    client.send(&begun);
    assert_eq!(client.goodbye(), GoodbyeReason::Protocol);
}

#[test]
fn programs_are_large_only_if_that_was_agreed_on() {
    let (name, options) = ("k".repeat(257), "-w ".repeat(2000));
    let part = ProgramPart {
        form: PartForm::OpenClC,
        source: b"kernel void f() {}",
        options: "",
    };
    let (mut many, mut long) = (Vec::new(), Vec::new());
    (0..257).for_each(|_| part.write(&mut many));
    ProgramPart {
        options: &options,
        ..part
    }
    .write(&mut long);
    let of_text = CreateProgram {
        program: 1,
        format: ProgramFormat::OpenClC,
        source: part.source,
        entry: "f",
        options: "",
    };
    let of_parts = |source| CreateProgram {
        format: ProgramFormat::Parts,
        source,
        ..of_text
    };
    let one = [Word::new(1)];
    let parameters = [Parameter::new(ParameterKind::Value { length: 1 }); 257];
    let launch = Operation::Launch(Launch {
        program: 1,
        blocks: &one,
        threads: &one,
        elements: &one,
        offset: &[],
        all_threads: &[],
        shared: &[],
        parameters: &parameters,
        extents: &[],
        values: &[0; 257],
    });
    let asked = [
        vec![Message::CreateProgram(CreateProgram {
            entry: &name,
            ..of_text
        })],
        vec![Message::CreateProgram(CreateProgram {
            options: &options,
            ..of_text
        })],
        vec![Message::CreateProgram(of_parts(&many))],
        vec![Message::CreateProgram(of_parts(&long))],
        vec![command(
            1,
            &[],
            Operation::Describe(Describe::text("kernel void f() {}", &options)),
        )],
        vec![Message::CreateProgram(of_text), command(1, &[], launch)],
    ];
    for (number, asked) in asked.iter().enumerate() {
        for lacks in [0, LARGE_PROGRAMS] {
            let rig = Rig::with_folder(Limits::default(), |options, _| options.lacks = lacks);
            let greeted = rig.dial(0).begin(Duration::ZERO).unwrap();
            let mut client = Client::over(greeted.connection, &greeted.terms, 0);
            client.send(asked);
            if lacks == 0 {
                client.send(&[command(2, &[], Operation::Nothing)]);
                assert_eq!(client.end_of(2), None, "{number}");
            } else {
                assert_eq!(client.goodbye(), GoodbyeReason::Protocol, "{number}");
            }
        }
    }
}

#[test]
fn what_is_in_use_is_said_for_one_command() {
    let sizes = [(1, 2), (1, 3)].map(|(buffer, size)| ContentSize {
        buffer: Word::new(buffer),
        size: Word::new(size),
    });
    let of = |event, number: usize| {
        Message::ContentSizes(ContentSizes {
            event,
            sizes: &sizes[number..][..1],
        })
    };
    let rig = Rig::new(Limits::default());
    let mut client = rig.client();
    client.send(&[
        buffer(1, 64),
        buffer(2, 4),
        buffer(3, 8),
        of(1, 0),
        command(1, &[], fill(1, 64)),
        // It was of the one before.
        command(2, &[], fill(1, 64)),
        of(7, 0),
        // Of another, which may come yet.
        command(3, &[], fill(1, 64)),
        of(4, 1),
        command(4, &[], fill(1, 64)),
    ]);
    // A number has eight bytes, and one of fewer says nothing.
    for event in 1..5 {
        assert_eq!(client.end_of(event), None);
    }
    client.send(&[
        Message::FreeBuffer(FreeBuffer { buffer: 3 }),
        of(5, 1),
        command(5, &[], fill(1, 64)),
    ]);
    assert_eq!(client.end_of(5), None);
    // A node of before knows nothing of it.
    let rig = Rig::with_folder(Limits::default(), |options, _| {
        options.lacks = CONTENT_SIZES;
    });
    let mut client = rig.client();
    client.send(&[of(1, 0)]);
    assert_eq!(client.goodbye(), GoodbyeReason::Protocol);
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
        Message::Placeholder(Placeholder { event: 1, peer: 0 }),
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
    let other = rig.dial(1).bulk(client.session.0, None).unwrap_err();
    assert_eq!(refusal(other), Refusal::NoSession);
    let mut forged = client.session;
    forged.0.0[0] ^= 1;
    let forged = rig.dial(0).bulk(forged.0, None).unwrap_err();
    assert_eq!(refusal(forged), Refusal::NoSession);
    let _bulk = rig.dial(0).bulk(client.session.0, None).unwrap();
    let second = rig.dial(0).bulk(client.session.0, None).unwrap_err();
    assert_eq!(refusal(second), Refusal::NoSession);
}

#[test]
fn strangers_that_say_nothing_keep_nobody_out() {
    let rig = Rig::new(Limits {
        strangers: 8,
        ..Limits::default()
    });
    // Those that are given up are closed on this side as well, so that there may be thousands of
    // them.
    let mut silent = std::collections::VecDeque::new();
    for _ in 0..3000 {
        silent.push_back(TcpStream::connect(&rig.address).unwrap());
        if silent.len() > 100 {
            silent.pop_front();
        }
    }
    let mut client = rig.client();
    client.send(&[command(1, &[], Operation::Nothing)]);
    assert_eq!(client.end_of(1), None);
    drop(silent);
}

/// A connection from an address of this machine.
#[cfg(target_os = "linux")]
fn connect_from(from: [u8; 4], to: std::net::SocketAddr) -> TcpStream {
    use std::os::fd::FromRawFd;
    let address = |ip: [u8; 4], port: u16| libc::sockaddr_in {
        sin_family: libc::AF_INET as libc::sa_family_t,
        sin_port: port.to_be(),
        sin_addr: libc::in_addr {
            s_addr: u32::from_ne_bytes(ip),
        },
        sin_zero: [0; 8],
    };
    let std::net::SocketAddr::V4(to) = to else {
        panic!("the node listens at {to}")
    };
    let (from, to) = (address(from, 0), address(to.ip().octets(), to.port()));
    let length = size_of_val(&from) as libc::socklen_t;
    // SAFETY: the addresses are there, as long as said; the socket is open, and has one owner.
    unsafe {
        let socket = libc::socket(libc::AF_INET, libc::SOCK_STREAM | libc::SOCK_CLOEXEC, 0);
        assert!(socket >= 0);
        let stream = TcpStream::from_raw_fd(socket);
        assert_eq!(libc::bind(socket, (&raw const from).cast(), length), 0);
        assert_eq!(libc::connect(socket, (&raw const to).cast(), length), 0);
        stream
    }
}

#[cfg(target_os = "linux")]
#[test]
fn who_connects_very_often_keeps_nobody_at_another_address_out() {
    let rig = Rig::new(Limits {
        strangers: 8,
        ..Limits::default()
    });
    let mut slow = TcpStream::connect(&rig.address).unwrap();
    let mut many = std::collections::VecDeque::new();
    for _ in 0..3000 {
        many.push_back(connect_from([127, 0, 0, 2], rig.node.address()));
        if many.len() > 100 {
            many.pop_front();
        }
    }
    let _client = rig.client();
    // It has said nothing yet, and may still.
    slow.set_nonblocking(true).unwrap();
    let nothing = slow.read(&mut [0]).unwrap_err();
    assert_eq!(nothing.kind(), std::io::ErrorKind::WouldBlock);
}

#[test]
fn of_strangers_that_say_nothing_the_oldest_is_given_up_first() {
    let rig = Rig::new(Limits {
        strangers: 2,
        ..Limits::default()
    });
    let stranger = || TcpStream::connect(&rig.address).unwrap();
    // Without places, four may wait for each.
    let mut silent: Vec<TcpStream> = (0..8).map(|_| stranger()).collect();
    for _ in 0..10 {
        silent.push(stranger());
        // It is closed: nothing will ever come, nor has.
        let mut oldest = silent.remove(0);
        oldest.set_read_timeout(Some(support::PATIENCE)).unwrap();
        assert_eq!(oldest.read(&mut [0]).unwrap(), 0);
        // The others are not, and will not be until somebody comes.
        for mut other in &silent {
            other.set_nonblocking(true).unwrap();
            let nothing = other.read(&mut [0]).unwrap_err();
            assert_eq!(nothing.kind(), std::io::ErrorKind::WouldBlock);
            other.set_nonblocking(false).unwrap();
        }
    }
    // Whoever has said hello does not count any more.
    let mut clients: Vec<Client> = (0..3).map(|_| rig.client()).collect();
    for client in &mut clients {
        client.send(&[command(1, &[], Operation::Nothing)]);
        assert_eq!(client.end_of(1), None);
    }
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

/// The header of a frame from a client that has said hello, as bytes.
fn header(length: u32, kind: u16, flags: u16, sequence: u64) -> Vec<u8> {
    let mut bytes = length.to_le_bytes().to_vec();
    bytes.extend(kind.to_le_bytes());
    bytes.extend(flags.to_le_bytes());
    bytes.extend(sequence.to_le_bytes());
    bytes
}

#[test]
fn lengths_that_cannot_be_cost_their_own_session_and_no_memory() {
    let rig = Rig::new(Limits::default());
    support::honest::beside(&rig, || {
        for (length, kind, flags, sequence) in [
            // More than anybody may send, of which nothing follows.
            (u32::MAX - 7, 0x20, 0, 1),
            (1 << 31, 0x34, 0, 1),
            // Less than a header, and what is no multiple of eight.
            (8, 0x30, 0, 1),
            (41, 0x30, 0, 1),
            // A kind that is none, that is the node's own, and a flag of another version.
            (32, 0x1234, 0, 1),
            (32, 0x50, 0, 1),
            (32, 0x21, 2, 1),
            // A message out of turn.
            (32, 0x21, 0, 7),
        ] {
            let mut bad = rig.client_of(1);
            let mut bytes = header(length, kind, flags, sequence);
            bytes.resize(bytes.len() + 64, 0);
            let sent = bad.connection.send_bytes(&bytes);
            sent.unwrap();
            let reason = bad.sent_away();
            assert!(
                matches!(
                    reason,
                    Some(GoodbyeReason::Protocol | GoodbyeReason::Limit) | None
                ),
                "{length} {kind:#x}: {reason:?}"
            );
        }
        while rig.node.sessions() > 1 {
            std::thread::yield_now();
        }
    });
    rig.is_empty();
}

#[test]
fn ids_of_others_are_nobodys() {
    let rig = Rig::new(Limits::default());
    support::honest::beside(&rig, || {
        for round in 0..50_u64 {
            let mut bad = rig.client_of(1);
            // The other's buffer is the first of its session; here there is none, or another one.
            let own = round % 2 == 0;
            if own {
                bad.send(&[buffer(1, 64)]);
            }
            bad.send(&[command(1, &[], fill(1, 4096))]);
            match own {
                true => assert_eq!(bad.end_of(1).unwrap().0, Failure::InvalidArgument),
                false => assert!(matches!(
                    bad.sent_away(),
                    Some(GoodbyeReason::Protocol) | None
                )),
            }
        }
    });
    rig.is_empty();
}

#[test]
fn half_open_connections_by_the_thousand_hold_nobody_up() {
    let rig = Rig::new(Limits {
        strangers: 8,
        ..Limits::default()
    });
    support::honest::beside(&rig, || {
        for number in 0..3000_usize {
            let mut stream = TcpStream::connect(&rig.address).unwrap();
            // Nothing, or a part of a handshake. Who is given up at once does not mind.
            let hello = [0x16, 3, 1, 2, 0, 1, 0, 1, 0xfc, 3, 3];
            let _ = stream.write_all(&hello[..number % hello.len()]);
            if number % 100 == 0 {
                drop(rig.client_of(1));
            }
        }
    });
    rig.is_empty();
}

/// A command that waits for what never comes about, and bytes for it without end: it fails, and
/// nothing else.
#[test]
fn writes_before_their_turn_have_the_memory_that_a_session_may_have() {
    const BYTES: u64 = 80 << 20;
    const CHUNK: usize = 1 << 19;
    let rig = Rig::new(Limits {
        process_bytes: BYTES,
        ..Limits::default()
    });
    let mut client = rig.client();
    let mut bulk = rig.dial(0).bulk(client.session.0, None).unwrap().connection;
    let write = |transfer| {
        Operation::Write(Write {
            buffer: 1,
            offset: 0,
            row: BYTES,
            steps: &[],
            transfer,
            bytes: &[],
        })
    };
    let waits = [Wait::needs(1)];
    client.send(&[
        buffer(1, BYTES),
        Message::Placeholder(Placeholder { event: 1, peer: 0 }),
        command(2, &waits, write(1)),
    ]);
    let bytes = vec![7; CHUNK];
    let mut number = 0;
    let mut send = |transfer: u64| {
        for chunk in 0..BYTES / CHUNK as u64 {
            number += 1;
            let mut batch = Batch::new(1 << 20);
            let chunk = Message::Chunk(Chunk {
                transfer,
                offset: chunk * CHUNK as u64,
                bytes: &bytes,
            });
            batch.push(&chunk, number).unwrap();
            bulk.send_batch(&batch).unwrap();
        }
        // All of it was taken when this is answered.
        let ping = Message::Ping(Ping {
            token: 1,
            time_ns: 1,
        });
        bulk.send(&ping).unwrap();
        let is_pong = |message: &Message<'_>| Ok(matches!(message, Message::Pong(_)));
        while !bulk.receive_as(is_pong).unwrap() {}
    };
    send(1);
    client.send(&[Message::Resolve(Resolve {
        event: 1,
        failure: None,
        text: "",
    })]);
    let (failure, text) = client.end_of(2).unwrap();
    assert_eq!(failure, Failure::OutOfMemory, "{text}");
    // One whose turn it is has all the room that there is.
    client.send(&[command(3, &[], write(2))]);
    send(2);
    assert_eq!(client.end_of(3), None);
}

#[test]
fn what_a_session_leaves_in_a_devices_memory_nobody_reads() {
    const BYTES: u64 = 1 << 14;
    const BUFFERS: u64 = 20;
    // Memory of the machine's, and a device's own.
    let rig = Rig::with_folder(Limits::default(), |options, _| {
        let machine = Configuration::separate_memory(1, 1 << 24);
        let driver: Arc<dyn Driver> = SimDriver::start(machine).unwrap();
        options.devices.extend(Device::all_of(&driver).unwrap());
    });
    for round in 0..10 {
        for device in 0..2 {
            // As somebody else than the one before.
            let mut client = rig.client_of(round % 2);
            for number in 1..=BUFFERS {
                let mut reads = command(2 * number, &[], read(number, 0, BYTES, 0));
                let mut fills = command(2 * number + 1, &[], fill(number, BYTES));
                for message in [&mut reads, &mut fills] {
                    if let Message::Command(command) = message {
                        command.device = device;
                    }
                }
                client.send(&[buffer(number, BYTES), reads, fills]);
            }
            // The last end may be told before the last bytes.
            let (mut seen, mut is_finished) = (0, false);
            while seen < BUFFERS || !is_finished {
                let (is_zero, is_last) = client
                    .next(|message| match message {
                        Message::ReadBytes(read) => {
                            (Some(read.bytes.iter().all(|byte| *byte == 0)), false)
                        }
                        Message::Completed(completed) => {
                            let mut events = completed.events.iter();
                            (None, events.any(|event| event.get() == 2 * BUFFERS + 1))
                        }
                        _ => (None, false),
                    })
                    .unwrap();
                is_finished |= is_last;
                if let Some(is_zero) = is_zero {
                    assert!(is_zero, "round {round}, device {device}");
                    seen += 1;
                }
            }
            drop(client);
            rig.is_empty();
        }
    }
}
