//! Messages that are encoded and decoded, whole or in pieces, are the same. Messages that must not
//! be sent are not encoded.
#![allow(clippy::unwrap_used, reason = "helpers assert by unwrapping")]

mod support;

use proptest::prelude::*;
use quipu_protocol::batch::Batch;
use quipu_protocol::error::Problem;
use quipu_protocol::frame::Kind;
use quipu_protocol::limits::{MAX_FRAME, MAX_LINKS, MIN_FRAME};
use quipu_protocol::message::*;
use quipu_protocol::reader::{FrameReader, Next};
use std::collections::HashSet;
use support::random::{Draw, message};

/// Pushes bytes in pieces of these sizes, and hands each frame on.
fn read_all(bytes: &[u8], pieces: &[usize], mut take: impl FnMut(Message<'_>, u64)) {
    let mut reader = FrameReader::new(MAX_FRAME);
    let (mut rest, mut sizes) = (bytes, pieces.iter().cycle());
    loop {
        match reader.next().unwrap() {
            Next::Frame(frame) => take(decode(&frame).unwrap(), frame.sequence),
            Next::Missing(missing) => {
                assert!(missing > 0);
                if rest.is_empty() {
                    break;
                }
                let size = sizes.next().map_or(1, |size| *size).clamp(1, rest.len());
                reader.push(&rest[..size]);
                rest = &rest[size..];
            }
        }
    }
    assert!(reader.is_between_frames());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn random_messages_come_back(
        draws in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..300), 1..6),
        pieces in prop::collection::vec(1_usize..400, 1..4),
    ) {
        let messages: Vec<_> = draws.iter().map(|bytes| message(&mut Draw(bytes))).collect();
        let mut batch = Batch::new(MAX_FRAME);
        for (message, sequence) in &messages {
            batch.push(message, *sequence).unwrap();
        }
        prop_assert_eq!(batch.frames(), messages.len());
        prop_assert!(batch.bytes().len().is_multiple_of(8));
        let mut expected = messages.iter();
        read_all(batch.bytes(), &pieces, |message, sequence| {
            let (sent, number) = expected.next().unwrap();
            assert_eq!((&message, sequence), (sent, *number));
        });
        prop_assert!(expected.next().is_none());
    }
}

#[test]
fn there_is_a_sample_of_each_kind_and_it_comes_back() {
    let mut kinds = HashSet::new();
    let mut batch = Batch::new(MIN_FRAME);
    let samples = support::samples();
    for (message, sequence) in &samples {
        kinds.insert(message.kind());
        batch.push(message, *sequence).unwrap();
    }
    assert_eq!(kinds.len(), Kind::ALL.len());
    let mut expected = samples.iter();
    read_all(batch.bytes(), &[1], |message, sequence| {
        assert_eq!(Some(&(message, sequence)), expected.next());
    });
    let mut written = Vec::new();
    batch.write_to(&mut written).unwrap();
    assert!(batch.is_empty() && batch.bytes().is_empty() && !written.is_empty());
}

#[test]
fn what_a_launch_passes_is_taken_apart() {
    let samples = support::samples();
    let launch = samples.iter().find_map(|(message, _)| match message {
        Message::Command(Command {
            operation: Operation::Launch(launch),
            ..
        }) => Some(*launch),
        _ => None,
    });
    let passed: Vec<_> = launch.unwrap().passed().collect();
    assert_eq!(passed[0], Passed::Value(&[1, 2, 3]));
    let Passed::Memory {
        mode,
        extents,
        strides,
        element,
        ..
    } = passed[1]
    else {
        panic!("{passed:?}")
    };
    let numbers = |words: &[Word]| words.iter().map(|word| word.get()).collect::<Vec<_>>();
    assert_eq!((mode, element), (AccessMode::Overwrite, 4));
    assert_eq!(
        (numbers(extents), numbers(strides)),
        (vec![4, 8], vec![16, 1])
    );
}

/// Asserts that a message is refused before a byte of it is written, and why.
fn refused(message: &Message<'_>, sequence: u64, because: &str) {
    let mut batch = Batch::new(MIN_FRAME);
    let error = batch.push(message, sequence).unwrap_err();
    assert!(error.to_string().contains(because), "{error}");
    assert!(batch.is_empty() && batch.bytes().is_empty());
}

#[test]
fn what_a_receiver_would_refuse_is_not_sent() {
    let ping = Message::Ping(Ping {
        token: 1,
        time_ns: 1,
    });
    refused(&ping, 1, "number");
    let free = Message::FreeBuffer(FreeBuffer { buffer: 1 });
    refused(&free, 0, "number");
    refused(&Message::FreeBuffer(FreeBuffer { buffer: 0 }), 1, "is 0");
    let goodbye = |text| {
        Message::Goodbye(Goodbye {
            reason: GoodbyeReason::Done,
            text,
        })
    };
    refused(&goodbye("\u{1b}[2J"), 0, "control characters");
    refused(&goodbye("a\u{202e}b"), 0, "control characters");
    refused(&goodbye(&"a".repeat(4097)), 0, "is 4097; it is 0 to 4096");
    let chunk = |bytes| {
        Message::Chunk(Chunk {
            transfer: 1,
            offset: 0,
            bytes,
        })
    };
    refused(&chunk(&[]), 1, "without bytes");
    refused(&chunk(&[0; MIN_FRAME as usize]), 1, "16 to 16384");
    let command = |waits: &[Wait]| {
        Message::Command(Command {
            event: 5,
            device: 0,
            queue: 0,
            priority: Priority::Normal,
            profiled: false,
            waits: support::kept(waits),
            operation: Operation::Nothing,
        })
    };
    refused(&command(&[Wait::needs(5)]), 1, "does not come before it");
    refused(&command(&[Wait::after(0)]), 1, "is 0");
    refused(&command(&[Wait::after(1); 1025]), 1, "0 to 1024");
}

#[test]
fn descriptions_that_make_no_sense_are_not_sent() {
    let describe = |source, waits: &[Wait]| {
        Message::Command(Command {
            event: 5,
            device: 0,
            queue: 0,
            priority: Priority::Normal,
            profiled: false,
            waits: support::kept(waits),
            operation: Operation::Describe(Describe::text(source, "")),
        })
    };
    refused(&describe("a\0b", &[]), 1, "the source");
    refused(&describe("a", &[Wait::needs(1)]), 1, "waits for nothing");
    let parts = |source: &'static [u8], options| {
        let mut describe = describe("a", &[]);
        if let Message::Command(command) = &mut describe {
            command.operation = Operation::Describe(Describe {
                form: DescribeForm::Compiled,
                source,
                options,
            });
        }
        describe
    };
    let text: &[u8] = &[1, 0, 0, 0, 1, 0, 0, 0, b'a'];
    let nothing = Message::ProgramSource(ProgramSource { bytes: b"" });
    refused(&nothing, 1, "the bytes");
    refused(&parts(&text[..8], ""), 1, "a part's source");
    refused(&parts(text, "-w"), 1, "no options but their own");
    let log = |text| Message::BuildLog(BuildLog { event: 5, text });
    refused(&log(""), 1, "without a text");
    refused(&log(&"a".repeat(4097)), 1, "is 4097; it is 0 to 4096");
    let kernel = KernelDescription {
        event: 5,
        name: "f",
        attributes: "",
        parameters: 4096,
        required_local_size: Some([1, 1, 1]),
        local_bytes: 0,
        has_barriers: false,
        reaches_beyond: false,
        uniform_groups: false,
        sub_group_size: 0,
        private_bytes: 0,
    };
    for (wrong, because) in [
        (KernelDescription { name: "", ..kernel }, "without a name"),
        (
            KernelDescription {
                parameters: 4097,
                ..kernel
            },
            "is 4097; it is 0 to 4096",
        ),
        (
            KernelDescription {
                required_local_size: Some([8, 0, 1]),
                ..kernel
            },
            "no work-items",
        ),
        (
            KernelDescription {
                required_local_size: Some([1 << 16, 1 << 16, 1]),
                ..kernel
            },
            "too large",
        ),
    ] {
        refused(&Message::KernelDescription(wrong), 1, because);
    }
    let value = ParameterDescription {
        event: 5,
        class: ParameterClass::Value,
        is_read: false,
        is_written: false,
        is_const: false,
        is_restrict: false,
        is_volatile: false,
        size: [12, 4],
        name: "x",
        type_name: "int3",
    };
    for (wrong, because) in [
        (
            ParameterDescription {
                size: [12, 3],
                ..value
            },
            "no power of two",
        ),
        (
            ParameterDescription {
                is_read: true,
                ..value
            },
            "only memory and images",
        ),
        (
            ParameterDescription {
                class: ParameterClass::Local,
                ..value
            },
            "only a value has a size",
        ),
    ] {
        refused(&Message::ParameterDescription(wrong), 1, because);
    }
}

#[test]
fn links_that_make_no_sense_are_not_sent() {
    let load = LinkLoad {
        session: 1,
        kind: LinkKind::Bulk,
        state: LinkState::Awaited,
        resumed: 0,
        address: None,
        key: [0; 32],
        round_trip_ns: 0,
        sent: 0,
        received: 0,
        chunks_sent: [0; 2],
        chunks_received: [0; 2],
    };
    let links = |load: LinkLoad, count| {
        Message::Links(Links {
            more: 0,
            links: support::kept(&vec![LinkEntry::from(&load); count]),
        })
    };
    // As many as may be find room in the smallest frame.
    let mut batch = Batch::new(MIN_FRAME);
    batch.push(&links(load, MAX_LINKS), 0).unwrap();
    refused(&links(load, MAX_LINKS + 1), 0, "is 129; it is 0 to 128");
    let no_session = LinkLoad { session: 0, ..load };
    refused(&links(no_session, 1), 0, "counted from one");
    let by_client = LinkLoad {
        state: LinkState::ByClient,
        ..load
    };
    refused(&links(by_client, 1), 0, "goes by way of it");
}

#[test]
fn lengths_that_no_frame_has_are_refused_as_soon_as_they_are_seen() {
    for length in [0_u32, 8, 15, 17, 20, MIN_FRAME + 8, u32::MAX] {
        let mut reader = FrameReader::new(MIN_FRAME);
        let mut header = [0; 16];
        header[..4].copy_from_slice(&length.to_le_bytes());
        reader.push(&header);
        let error = reader.next().unwrap_err();
        assert!(
            matches!(error.problem, Problem::FrameLength { .. }),
            "{error}"
        );
    }
    let mut reader = FrameReader::new(MIN_FRAME);
    reader.push(&[16, 0, 0]);
    assert_eq!(reader.next().unwrap(), Next::Missing(13));
    assert!(!reader.is_between_frames());
}
