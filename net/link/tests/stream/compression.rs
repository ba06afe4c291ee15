//! Compression: both sides use the codecs that they agreed on, and no others.

use super::{ends_that_have, split_bulk};
use quipu_link::LinkError;
use quipu_link::compression::{Compression, Compressor, Traffic};
use quipu_link::timer::ManualTimer;
use quipu_protocol::batch::Batch;
use quipu_protocol::compression::{Codec, LZ4, Packer, ZSTD};
use quipu_protocol::limits::MIN_FRAME;
use quipu_protocol::message::*;
use std::sync::Arc;

#[test]
fn what_is_compressed_without_an_agreement_ends_it() {
    let bytes = [7; 1000];
    let chunk = Message::Chunk(Chunk {
        transfer: 1,
        offset: 0,
        bytes: &bytes,
    });
    let mut packer = Packer::default();
    for codec in Codec::ALL {
        for features in [0, LZ4, ZSTD, LZ4 | ZSTD] {
            let (mut client, node) = ends_that_have(features);
            let (mut incoming, outgoing) = split_bulk(node);
            let is_agreed = outgoing.codecs().have(codec);
            assert_eq!(is_agreed, features & codec.feature() != 0);
            let mut batch = Batch::new(MIN_FRAME);
            let packed = packer.pack(&chunk, codec).unwrap().unwrap();
            batch.push_packed(&packed, 1).unwrap();
            client.send_batch(&batch).unwrap();
            let received = incoming.receive(|message, _| assert_eq!(message, &chunk));
            match received {
                Ok(()) => assert!(is_agreed),
                Err(error) => {
                    assert!(
                        !is_agreed && matches!(error, LinkError::Wire { .. }),
                        "{error}"
                    );
                }
            }
        }
    }
}

/// The numbers of bytes that a client and a node send for 60,000 bytes each, if the other has these
/// features, with all of them received.
fn sent_of(bytes: &[u8], features: u64, compression: Compression) -> [u64; 2] {
    let (client, node) = ends_that_have(features);
    let ends = [split_bulk(client), split_bulk(node)];
    let mut sent = [0; 2];
    for (own, sent) in sent.iter_mut().enumerate() {
        let traffic = Arc::<Traffic>::default();
        let timer = Arc::new(ManualTimer::default());
        let out = ends[own].1.clone();
        let mut compressor = Compressor::new(out, compression, timer, traffic.clone());
        compressor
            .push(Chunk {
                transfer: 1,
                offset: 0,
                bytes,
            })
            .unwrap();
        compressor.wait_for_room(1 << 20).unwrap();
        *sent = traffic.bytes()[1];
    }
    for (mut incoming, _outgoing) in ends {
        let received = incoming.receive(|message, _| match message {
            Message::Chunk(chunk) => assert!(chunk.bytes == bytes),
            other => panic!("{other:?}"),
        });
        received.unwrap();
    }
    sent
}

/// A client or a node that is older than a codec, or than both, gets messages that it takes.
#[test]
fn what_the_other_side_does_not_take_is_not_sent() {
    // Bytes that only Zstandard makes shorter, and bytes that both do.
    let mut random = 1_u64;
    let mut next = || {
        random = random.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(1);
        (random >> 56) as u8 & 15
    };
    let noise: Vec<u8> = (0..60_000).map(|_| next()).collect();
    let steps: Vec<u8> = (0..60_000).map(|at| (at / 100) as u8).collect();
    let is_shorter = |bytes: &[u8], features, compression| {
        let sent = sent_of(bytes, features, compression);
        let is_shorter = sent.map(|sent| sent < bytes.len() as u64 * 3 / 4);
        assert_eq!(is_shorter[0], is_shorter[1]);
        is_shorter[0]
    };
    for features in [0, LZ4, ZSTD, LZ4 | ZSTD] {
        let (lz4, zstd) = (features & LZ4 != 0, features & ZSTD != 0);
        assert!(!is_shorter(&noise, features, Compression::Lz4));
        assert_eq!(is_shorter(&steps, features, Compression::Lz4), lz4);
        assert_eq!(is_shorter(&noise, features, Compression::Zstd), zstd);
        assert_eq!(is_shorter(&steps, features, Compression::Zstd), lz4 | zstd);
        assert!(!is_shorter(&steps, features, Compression::Off));
    }
}
