//! The exact bytes of one message of each kind, as `golden.txt` has them: they were written down
//! from `docs/wire.md` and not by this crate. A change of them is a change of the protocol.
#![allow(clippy::unwrap_used, reason = "helpers assert by unwrapping")]

mod support;

use quipu_protocol::frame::parse;
use quipu_protocol::limits::MIN_FRAME;
use quipu_protocol::message::decode;

fn golden() -> Vec<(String, Vec<u8>)> {
    let lines = include_str!("golden.txt").lines();
    let frames = lines.filter(|line| !line.starts_with('#')).map(|line| {
        let (name, hex) = line.split_once(": ").unwrap();
        let digits: Vec<u8> = hex.bytes().filter(|byte| *byte != b' ').collect();
        let byte = |pair: &[u8]| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16);
        let bytes: Result<Vec<u8>, _> = digits.chunks(2).map(byte).collect();
        (name.to_owned(), bytes.unwrap())
    });
    frames.collect()
}

#[test]
fn one_message_of_each_kind_has_just_these_bytes() {
    let (golden, samples) = (golden(), support::samples());
    assert_eq!(golden.len(), samples.len());
    for ((name, bytes), (message, sequence)) in golden.iter().zip(&samples) {
        assert_eq!(name, message.kind().name());
        let mut encoded = Vec::new();
        message.encode(*sequence, MIN_FRAME, &mut encoded).unwrap();
        assert_eq!(&encoded, bytes, "{name}");
        let frame = parse(bytes).unwrap();
        assert_eq!(
            (decode(&frame).unwrap(), frame.sequence),
            (*message, *sequence)
        );
    }
}

#[test]
fn the_document_says_who_sends_which_kind_over_which_stream() {
    use quipu_protocol::frame::{Kind, Sender, Stream};
    let document = include_str!("../../../docs/wire.md");
    for kind in Kind::ALL {
        let sender = match kind.sender() {
            Sender::Client => "client",
            Sender::Node => "node",
            Sender::Both => "both",
        };
        let stream = match kind.stream() {
            Stream::Any => "any, not numbered",
            Stream::Command => "command",
            Stream::Bulk => "bulk",
            Stream::Peer => "peer",
        };
        let (number, name) = (*kind as u16, kind.name());
        let row = format!("| `{number:#04x}` | {name} | {sender} | {stream} |");
        assert!(document.contains(&row), "{row}");
        assert_eq!(kind.is_numbered(), number >= 0x20);
        assert_eq!(Kind::of(number), Some(*kind));
        for (from, over) in [
            (Sender::Client, Stream::Command),
            (Sender::Client, Stream::Bulk),
            (Sender::Node, Stream::Command),
            (Sender::Node, Stream::Bulk),
            (Sender::Client, Stream::Peer),
            (Sender::Node, Stream::Peer),
        ] {
            // Chunks go from node to node, too.
            let is_chunk = (kind.stream(), over) == (Stream::Bulk, Stream::Peer);
            let may = (kind.sender() == from || kind.sender() == Sender::Both)
                && (kind.stream() == over || kind.stream() == Stream::Any || is_chunk);
            assert_eq!(kind.check_route(from, over).is_ok(), may, "{row}");
        }
    }
}
