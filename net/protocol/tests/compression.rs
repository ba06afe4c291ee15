//! Compressed messages: they are unpacked as they were, and refused if they would take more room
//! than a message may have.
#![allow(clippy::unwrap_used, reason = "helpers assert by unwrapping")]

use quipu_protocol::batch::Batch;
use quipu_protocol::compression::{Codec, Packer, Unpacker};
use quipu_protocol::frame::{Frame, parse};
use quipu_protocol::limits::MIN_FRAME;
use quipu_protocol::message::{
    Chunk, Command, Message, Operation, Ping, Priority, ReadBytes, Write, decode,
};

fn chunk(bytes: &[u8]) -> Message<'_> {
    Message::Chunk(Chunk {
        transfer: 7,
        offset: 1 << 20,
        bytes,
    })
}

fn frame(message: &Message<'_>, codec: Codec, most: u32) -> Vec<u8> {
    let mut packer = Packer::default();
    let packed = packer.pack(message, codec).unwrap().unwrap();
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

/// The result of a receiver of small frames for these bytes.
fn unpack(bytes: &[u8]) -> Result<Vec<u8>, String> {
    let frame = parse(bytes).unwrap();
    let mut unpacker = Unpacker::default();
    let unpacked = unpacker.unpack(&frame, MIN_FRAME);
    let unpacked = unpacked.map(|frame| frame.body.to_vec());
    unpacked.map_err(|error| error.to_string())
}

#[test]
fn what_is_packed_is_unpacked() {
    let mut unpacker = Unpacker::default();
    for length in [100, 101, 1000, 16_000] {
        let bytes: Vec<u8> = (0..length).map(|at| (at / 50) as u8).collect();
        let read = Message::ReadBytes(ReadBytes {
            event: 3,
            bytes: &bytes,
        });
        for codec in Codec::ALL {
            for message in [chunk(&bytes), read] {
                let frame = frame(&message, codec, MIN_FRAME);
                assert!(frame.len() < length);
                let parsed = parse(&frame).unwrap();
                assert_eq!(parsed.compressed, Some(codec));
                assert!(decode(&parsed).is_err());
                let plain = unpacker.unpack(&parsed, MIN_FRAME).unwrap();
                assert_eq!((plain.sequence, plain.compressed), (9, None));
                assert_eq!(decode(&plain).unwrap(), message);
            }
        }
    }
}

/// Bytes that nobody's encoder has written, but docs/wire.md and RFC 8878.
#[test]
fn a_frame_of_zstandard_is_what_the_document_says() {
    let mut golden = vec![64, 0, 0, 0, 0x70, 0, 2, 0, 5, 0, 0, 0, 0, 0, 0, 0];
    // 24 bytes of a chunk and 1000 of its own; what is compressed is 38 bytes.
    golden.extend(1024_u32.to_le_bytes());
    golden.extend(38_u32.to_le_bytes());
    // The magic number; a single segment whose length has 2 bytes, and is 256 more than they say.
    golden.extend([0x28, 0xb5, 0x2f, 0xfd, 0x60, 0x00, 0x03]);
    // A block of 24 bytes as they are: transfer 7, at 2^20, 1000 bytes.
    golden.extend([24 << 3, 0, 0]);
    golden.extend(7_u64.to_le_bytes());
    golden.extend((1_u64 << 20).to_le_bytes());
    golden.extend(1000_u64.to_le_bytes());
    // The last block: one byte a thousand times.
    golden.extend((1 | 1 << 1 | 1000_u32 << 3).to_le_bytes());
    *golden.last_mut().unwrap() = b'q';
    golden.resize(64, 0);
    let bytes = [b'q'; 1000];
    let frame = parse(&golden).unwrap();
    let mut unpacker = Unpacker::default();
    let plain = unpacker.unpack(&frame, MIN_FRAME).unwrap();
    assert_eq!(
        (plain.sequence, decode(&plain).unwrap()),
        (5, chunk(&bytes))
    );
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
    for codec in Codec::ALL {
        assert!(packer.pack(&chunk(&bytes), codec).unwrap().is_none());
        assert!(packer.pack(&chunk(&[1, 2, 3]), codec).unwrap().is_none());
        let ping = Message::Ping(Ping {
            token: 0,
            time_ns: 0,
        });
        assert!(packer.pack(&ping, codec).unwrap().is_none());
        // Nor is one packed that breaks a rule.
        assert!(packer.pack(&chunk(&[]), codec).is_err());
    }
    // Bytes of which half is noise: no two places are alike, but half of their values never come.
    let half: Vec<u8> = bytes.iter().map(|byte| byte & 15).collect();
    assert!(packer.pack(&chunk(&half), Codec::Lz4).unwrap().is_none());
    assert!(packer.pack(&chunk(&half), Codec::Zstd).unwrap().is_some());
}

#[test]
fn a_message_that_is_too_large_is_so_compressed_as_well() {
    // Four megabytes of zeros in less than a frame of the least size.
    let zeros = vec![0; 4 << 20];
    let message = chunk(&zeros);
    let mut packer = Packer::default();
    for codec in Codec::ALL {
        let packed = packer.pack(&message, codec).unwrap().unwrap();
        assert!(Batch::new(1 << 20).push_packed(&packed, 1).is_err());
        let mut batch = Batch::new(1 << 23);
        batch.push_packed(&packed, 1).unwrap();
        let bytes = batch.bytes().to_vec();
        let parsed = parse(&bytes).unwrap();
        let mut unpacker = Unpacker::default();
        unpacker.unpack(&parsed, 1 << 20).unwrap_err();
        // Nothing was made room for.
        assert_eq!(unpacker.memory(), 0);
        unpacker.unpack(&parsed, 1 << 23).unwrap();
    }
}

#[test]
fn lengths_that_are_not_those_of_what_is_compressed_are_refused() {
    let zeros = [0; 4000];
    for codec in Codec::ALL {
        let good = frame(&chunk(&zeros), codec, MIN_FRAME);
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
            unpack(&with(&good, plain, packed)).unwrap_err();
        }
        let mut padded = good.clone();
        padded.extend([0; 8]);
        let length = padded.len() as u32;
        padded[..4].copy_from_slice(&length.to_le_bytes());
        assert!(unpack(&padded).unwrap_err().contains("padding"));
        // A header and no more.
        let empty = Frame {
            body: &[],
            ..parse(&good).unwrap()
        };
        assert!(Unpacker::default().unpack(&empty, MIN_FRAME).is_err());
        // One codec's bytes as the other's.
        let mut other = good.clone();
        other[6] ^= 3;
        unpack(&other).unwrap_err();
    }
}

/// A message of so many bytes that is said to be in what is compressed by Zstandard.
fn of_zstd(plain: usize, packed: &[u8]) -> Vec<u8> {
    let length = (24 + packed.len()).next_multiple_of(8);
    let mut bytes = (length as u32).to_le_bytes().to_vec();
    bytes.extend([0x70, 0, 2, 0, 9, 0, 0, 0, 0, 0, 0, 0]);
    bytes.extend((plain as u32).to_le_bytes());
    bytes.extend((packed.len() as u32).to_le_bytes());
    bytes.extend(packed);
    bytes.resize(length, 0);
    bytes
}

/// A frame of Zstandard of 4000 zeros, in so many blocks, behind a header.
fn of_zeros(header: &[u8], blocks: u32) -> Vec<u8> {
    let mut packed = vec![0x28, 0xb5, 0x2f, 0xfd];
    packed.extend(header);
    for block in 1..=blocks {
        let last = u32::from(block == blocks);
        let block = last | 1 << 1 | (4000 / blocks) << 3;
        packed.extend(&block.to_le_bytes()[..3]);
        packed.push(0);
    }
    packed
}

/// The header, less the magic number, of 4000 bytes in a single segment.
const SINGLE: [u8; 3] = [0x60, 0xa0, 0x0e];

#[test]
fn a_frame_of_zstandard_that_asks_for_more_than_its_bytes_is_refused() {
    let good = of_zeros(&SINGLE, 2);
    assert_eq!(unpack(&of_zstd(4000, &good)), Ok(vec![0; 4000]));
    // With a window of its own: 2 KiB and, here, 3840 bytes are enough; 4096, and 3.75 TiB, are
    // more than there is.
    for (window, is_good) in [
        (1 << 3, true),
        (1 << 3 | 7, true),
        (2 << 3, false),
        (0xff, false),
    ] {
        let packed = of_zeros(&[0x40, window, 0xa0, 0x0e], 2);
        let unpacked = unpack(&of_zstd(4000, &packed));
        assert_eq!(unpacked.is_ok(), is_good, "{window}");
        assert!(is_good || unpacked.unwrap_err().contains("window"));
    }
    // A checksum, a dictionary whose number has 1, 2 or 4 bytes, and bits of no meaning.
    for bit in 0..5 {
        let mut other = good.clone();
        other[4] |= 1 << bit;
        other.splice(5..5, [0; 4]);
        let error = unpack(&of_zstd(4000, &other)).unwrap_err();
        assert!(error.contains("no meaning"), "{error}");
    }
    let refused = |packed: &[u8], why: &str| {
        let error = unpack(&of_zstd(4000, packed)).unwrap_err();
        assert!(error.contains(why), "{error}");
    };
    // Another length, in any number of bytes; and none.
    refused(&of_zeros(&[0x60, 0xa1, 0x0e], 2), "another length");
    refused(&of_zeros(&[0x20, 0xa0], 2), "another length");
    refused(&of_zeros(&[0xa0, 0xa0, 0x0f, 0, 1], 2), "another length");
    let endless = [0xe0, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff];
    refused(&of_zeros(&endless, 2), "another length");
    refused(&of_zeros(&[0, 1 << 3], 2), "another length");
    // More bytes, and fewer, than the header says.
    let longer = [good.clone(), vec![0]].concat();
    refused(&longer, "one whole frame");
    refused(&good[..good.len() - 1], "one whole frame");
    refused(&of_zeros(&SINGLE, 3), "not so many bytes");
    // A block that is repeated for ever ends with the message.
    let mut more = good.clone();
    more.splice(7..7, good[7..11].repeat(100));
    refused(&more, "not so many bytes");
    // Two frames, one that is skipped, one of an older format, and none.
    refused(&[good.clone(), good.clone()].concat(), "one whole frame");
    let skipped = [0x50, 0x2a, 0x4d, 0x18, 0, 0, 0, 0];
    refused(&[&skipped[..], &good].concat(), "no frame");
    refused(&[&good[..], &skipped].concat(), "one whole frame");
    refused(&[&[0x27], &good[1..]].concat(), "no frame");
    refused(&[], "no frame");
    refused(&good[..4], "no frame");
    for end in 5..good.len() {
        unpack(&of_zstd(4000, &good[..end])).unwrap_err();
    }
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
    let mut chunk = frame(&chunk(&[0; 400]), Codec::Lz4, MIN_FRAME);
    for (flags, is_one) in [(1, true), (2, true), (3, false), (4, false)] {
        chunk[6] = flags;
        assert_eq!(parse(&chunk).is_ok(), is_one, "{flags}");
    }
}

/// The lengths of the message of a write that brings its bytes along, before and after.
fn lengths(bytes: &[u8], codec: Codec) -> (usize, usize) {
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
    let packed = packer.pack(&message, codec).unwrap();
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
        for (codec, of_a_hundred) in [(Codec::Lz4, 45..=50), (Codec::Zstd, 20..=25)] {
            let (plain, packed) = lengths(&picture[..length], codec);
            assert_eq!(plain, length + 64);
            let part = packed * 100 / plain;
            assert!(of_a_hundred.contains(&part), "{codec:?}: {part}");
        }
    }
    // What is compressed already, as frames of a camera are, is not shorter.
    let mut state = 1_u64;
    let noise = std::iter::repeat_with(|| {
        state = state.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(1);
        (state >> 56) as u8
    });
    let noise: Vec<u8> = noise.take(65_535).collect();
    for length in [4096, 65_535] {
        for codec in Codec::ALL {
            let (plain, packed) = lengths(&noise[..length], codec);
            assert_eq!(plain, packed);
        }
    }
}
