//! Counters: the bytes that a stream has carried, as both ends count them.

use super::{done, ends, free, number, split_bulk, split_resumable};
use quipu_protocol::message::*;

#[test]
fn what_a_stream_carries_is_counted_alike_on_both_ends_over_all_of_its_connections() {
    let (client, node) = ends();
    let (mut client_in, client) = split_resumable(client);
    let (mut node_in, node) = split_resumable(node);
    let mut there_and_back = |numbers: std::ops::Range<u64>| {
        for number_sent in numbers {
            client.send(&free(number_sent)).unwrap();
            assert_eq!(number(&mut node_in).unwrap(), (number_sent, number_sent));
            node.send(&done(number_sent)).unwrap();
            assert_eq!(number(&mut client_in).unwrap(), (number_sent, number_sent));
        }
        let (near, far) = (client.carried(), node.carried());
        assert_eq!((near.sent, near.received), (far.received, far.sent));
        assert!(near.is_connected && far.is_connected);
        if cfg!(target_os = "linux") {
            assert!(near.round_trip.is_some() && far.round_trip.is_some());
        }
        near
    };
    let first = there_and_back(1..100);
    // A frame is a header and an id at least, and TLS adds to each.
    assert!(
        first.sent > 99 * 24 && first.received > 99 * 32,
        "{first:?}"
    );
    assert_eq!((first.resumed, first.chunks_received), (0, [0; 2]));
    for side in [&client, &node] {
        side.cut("a test cuts it");
        let carried = side.carried();
        assert!(!carried.is_connected && carried.address.is_none());
        assert!(carried.round_trip.is_none());
    }
    let (again, again_there) = ends();
    client_in.resume(again, 99).unwrap();
    node_in.resume(again_there, 99).unwrap();
    // The other end.
    let both = [client.carried(), node.carried()];
    assert!(both.iter().all(|carried| carried.is_connected));
    client.send(&free(100)).unwrap();
    assert_eq!(number(&mut node_in).unwrap(), (100, 100));
    node.send(&done(100)).unwrap();
    assert_eq!(number(&mut client_in).unwrap(), (100, 100));
    let (near, far) = (client.carried(), node.carried());
    assert_eq!((near.sent, near.received), (far.received, far.sent));
    assert_eq!((near.resumed, far.resumed), (1, 1));
    assert!(near.sent > first.sent && near.received > first.received);
}

#[test]
fn chunks_that_come_are_counted_by_their_bytes() {
    let (client, node) = ends();
    let (_client_in, client) = split_bulk(client);
    let (mut node_in, node) = split_bulk(node);
    for (offset, length) in [(0, 1000), (1000, 24)] {
        let chunk = Chunk {
            transfer: 1,
            offset,
            bytes: &vec![7; length],
        };
        client.send(&Message::Chunk(chunk)).unwrap();
        node_in.receive(|_, _| ()).unwrap();
    }
    assert_eq!(node.carried().chunks_received, [1024; 2]);
}
