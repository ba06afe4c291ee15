//! Compressed messages: what was packed is unpacked, and what would take more room than a message may have is refused.
#![allow(clippy::unwrap_used, reason = "a promise that is not kept panics")]

use quipu_wire::batch::Batch;
use quipu_wire::compression::{Packer, unpack};
use quipu_wire::frame::{Frame, parse};
use quipu_wire::limits::MIN_FRAME;
use quipu_wire::message::{
    Chunk, Command, Message, Operation, Ping, Priority, ReadBytes, Write, decode,
};

fn chunk(bytes: &[u8]) -> Message<'_> {
    Message::Chunk(Chunk {
        transfer: 7,
        offset: 1 << 20,
        bytes,
    })
}

fn frame(message: &Message<'_>, most: u32) -> Vec<u8> {
    let mut packer = Packer::default();
    let packed = packer.pack(message).unwrap().unwrap();
    let mut batch = Batch::new(most);
    batch.push_packed(&packed, 9).unwrap();
    assert_eq!(batch.frames(), 1);
    batch.bytes().to_vec()
}

/// Sets the lengths before the block.
fn with(bytes: &[u8], plain: u32, packed: u32) -> Vec<u8> {
    let mut bytes = bytes.to_vec();
    bytes[16..20].copy_from_slice(&plain.to_le_bytes());
    bytes[20..24].copy_from_slice(&packed.to_le_bytes());
    bytes
}

#[test]
fn what_is_packed_is_unpacked() {
    let mut room = Vec::new();
    for length in [100, 101, 1000, 16_000] {
        let bytes: Vec<u8> = (0..length).map(|at| (at / 50) as u8).collect();
        let read = Message::ReadBytes(ReadBytes {
            event: 3,
            bytes: &bytes,
        });
        for message in [chunk(&bytes), read] {
            let frame = frame(&message, MIN_FRAME);
            assert!(frame.len() < length);
            let parsed = parse(&frame).unwrap();
            assert!(parsed.compressed && decode(&parsed).is_err());
            let plain = unpack(&parsed, MIN_FRAME, &mut room).unwrap();
            assert_eq!((plain.sequence, plain.compressed), (9, false));
            assert_eq!(decode(&plain).unwrap(), message);
        }
    }
}

#[test]
fn what_is_not_shorter_and_what_has_no_bytes_of_buffers_is_left_as_it_is() {
    let mut random = 1_u64;
    let bytes: Vec<u8> = (0..1000)
        .map(|_| {
            random = random.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(1);
            (random >> 56) as u8
        })
        .collect();
    let mut packer = Packer::default();
    assert!(packer.pack(&chunk(&bytes)).unwrap().is_none());
    assert!(packer.pack(&chunk(&[0; 8])).unwrap().is_none());
    let ping = Message::Ping(Ping {
        token: 0,
        time_ns: 0,
    });
    assert!(packer.pack(&ping).unwrap().is_none());
    // Nor is one packed that breaks a rule.
    assert!(packer.pack(&chunk(&[])).is_err());
}

#[test]
fn a_message_that_is_too_large_is_so_compressed_as_well() {
    // Sixteen megabytes of zeros in less than a frame of the least size.
    let zeros = vec![0; 4 << 20];
    let message = chunk(&zeros);
    let mut packer = Packer::default();
    let packed = packer.pack(&message).unwrap().unwrap();
    assert!(Batch::new(1 << 20).push_packed(&packed, 1).is_err());
    let mut batch = Batch::new(1 << 23);
    batch.push_packed(&packed, 1).unwrap();
    let bytes = batch.bytes().to_vec();
    let parsed = parse(&bytes).unwrap();
    let mut room = Vec::new();
    unpack(&parsed, 1 << 20, &mut room).unwrap_err();
    // Nothing was made room for.
    assert_eq!(room.capacity(), 0);
    unpack(&parsed, 1 << 23, &mut room).unwrap();
}

#[test]
fn lengths_that_are_not_those_of_the_block_are_refused() {
    let zeros = [0; 4000];
    let good = frame(&chunk(&zeros), MIN_FRAME);
    let refused = |bytes: &[u8]| {
        let mut room = Vec::new();
        let frame = parse(bytes).unwrap();
        unpack(&frame, MIN_FRAME, &mut room)
            .unwrap_err()
            .to_string()
    };
    let plain = u32::from_le_bytes(good[16..20].try_into().unwrap());
    let packed = u32::from_le_bytes(good[20..24].try_into().unwrap());
    for (plain, packed) in [
        (plain - 1, packed),
        (plain + 1, packed),
        (u32::MAX, packed),
        (0, packed),
        (plain, 0),
        (plain, packed - 9),
        (plain, packed + 8),
        (plain, u32::MAX),
        (packed, packed),
    ] {
        refused(&with(&good, plain, packed));
    }
    let mut padded = good.clone();
    padded.extend([0; 8]);
    let length = padded.len() as u32;
    padded[..4].copy_from_slice(&length.to_le_bytes());
    assert!(refused(&padded).contains("padding"));
    // A header and no more.
    let empty = Frame {
        body: &[],
        ..parse(&good).unwrap()
    };
    assert!(unpack(&empty, MIN_FRAME, &mut Vec::new()).is_err());
}

#[test]
fn flags_that_stand_for_nothing_are_refused() {
    let mut ping = Vec::new();
    let message = Message::Ping(Ping {
        token: 1,
        time_ns: 2,
    });
    message.encode(0, MIN_FRAME, &mut ping).unwrap();
    ping[6] = 1;
    assert!(parse(&ping).is_err());
    let mut chunk = frame(&chunk(&[0; 400]), MIN_FRAME);
    chunk[6] = 2;
    assert!(parse(&chunk).is_err());
    chunk[6] = 3;
    assert!(parse(&chunk).is_err());
}

/// What a write that brings its bytes along would be, as lengths of its message before and after.
fn lengths(bytes: &[u8]) -> (usize, usize) {
    let message = Message::Command(Command {
        event: 1,
        device: 0,
        queue: 0,
        priority: Priority::Normal,
        profiled: false,
        waits: &[],
        operation: Operation::Write(Write {
            buffer: 1,
            offset: 0,
            row: bytes.len() as u64,
            steps: &[],
            transfer: 0,
            bytes,
        }),
    });
    let mut packer = Packer::default();
    let packed = packer.pack(&message).unwrap();
    let plain = bytes.len() + 64;
    packed.map_or((plain, plain), |packed| packed.lengths())
}

/// The figures of docs/wire.md, 14: why nothing that rides along is compressed.
#[test]
fn what_rides_along_has_little_to_save() {
    // Three bytes of colour for each of 160 points in a row, which change slowly.
    let picture = |at: usize| {
        let (point, colour) = (at / 3, at % 3);
        (point % 160 / 4 * (colour + 1) + point / 160 * 2) as u8
    };
    let picture: Vec<u8> = (0..65_535).map(picture).collect();
    for length in [4096, 65_535] {
        let (plain, packed) = lengths(&picture[..length]);
        assert_eq!(plain, length + 64);
        assert!((45..=50).contains(&(packed * 100 / plain)), "{packed}");
    }
    // What is compressed already, as frames of a camera are, is not shorter.
    let mut state = 1_u64;
    let noise = std::iter::repeat_with(|| {
        state = state.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(1);
        (state >> 56) as u8
    });
    let noise: Vec<u8> = noise.take(65_535).collect();
    for length in [4096, 65_535] {
        let (plain, packed) = lengths(&noise[..length]);
        assert_eq!(plain, packed);
    }
}
