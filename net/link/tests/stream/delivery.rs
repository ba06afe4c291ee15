//! Delivery: each message comes once and in order, and is kept until it is acknowledged.

use super::{done, ends, free, number, split, split_bulk, split_resumable};
use quipu_link::stream::{Incoming, Outgoing};
use quipu_protocol::batch::Batch;
use quipu_protocol::limits::MIN_FRAME;
use quipu_protocol::message::*;

#[test]
fn messages_of_many_threads_come_once_in_order_both_ways() {
    const EACH: u64 = 3000;
    const THREADS: u64 = 3;
    let (client, node) = ends();
    let work = |(mut incoming, outgoing): (Incoming, Outgoing),
                say: fn(u64) -> Message<'static>| {
        move || {
            std::thread::scope(|scope| {
                for thread in 0..THREADS {
                    let outgoing = outgoing.clone();
                    scope.spawn(move || {
                        for at in 0..EACH {
                            outgoing.send(&say(1 + at * THREADS + thread)).unwrap();
                        }
                    });
                }
                let mut next = [0; THREADS as usize];
                for expected in 1..=EACH * THREADS {
                    let (value, sequence) = number(&mut incoming).unwrap();
                    assert_eq!(sequence, expected);
                    let (at, thread) = ((value - 1) / THREADS, (value - 1) % THREADS);
                    assert_eq!(next[thread as usize], at);
                    next[thread as usize] += 1;
                }
            });
            assert_eq!(incoming.last(), EACH * THREADS);
            (incoming, outgoing)
        }
    };
    let (client, node) = (work(split(client), free), work(split(node), done));
    let other = std::thread::spawn(node);
    let ((mut incoming, outgoing), (_node_in, node_out)) = (client(), other.join().unwrap());
    // The last of it is acknowledged with the next word, and behind it.
    for value in [1, 2] {
        node_out.send(&done(value)).unwrap();
        assert_eq!(number(&mut incoming).unwrap().0, value);
    }
    assert_eq!(outgoing.unacknowledged(), 0);
}

#[test]
fn two_that_send_and_do_not_read_do_not_wait_for_each_other() {
    const CHUNKS: u64 = 400;
    let (client, node) = ends();
    let bytes = vec![7; 1 << 17];
    let both = [split_bulk(client), split_bulk(node)];
    for (_, outgoing) in &both {
        // More than two sockets' buffers hold.
        for number in 0..CHUNKS {
            let chunk = Message::Chunk(Chunk {
                transfer: 1,
                offset: number << 17,
                bytes: &bytes,
            });
            outgoing.send(&chunk).unwrap();
        }
    }
    assert!(
        both.iter()
            .any(|(_, outgoing)| outgoing.pending_bytes() > 0)
    );
    let readers = both.map(|(mut incoming, outgoing)| {
        std::thread::spawn(move || {
            for number in 0..CHUNKS {
                incoming
                    .receive(|message, _| match message {
                        Message::Chunk(chunk) => {
                            assert_eq!((chunk.offset >> 17, chunk.bytes.len()), (number, 1 << 17));
                        }
                        other => panic!("{other:?}"),
                    })
                    .unwrap();
            }
            outgoing.wait_for_room(0).unwrap();
            assert_eq!(outgoing.pending_bytes(), 0);
            (incoming, outgoing)
        })
    });
    // Both are kept until both have read all.
    let _ends = readers.map(|reader| reader.join().unwrap());
}

#[test]
fn what_is_acknowledged_is_not_kept() {
    let (client, node) = ends();
    let ((mut incoming, outgoing), (mut node_in, node_out)) =
        (split_resumable(client), split_resumable(node));
    for value in 1..=2000 {
        outgoing.send(&free(value)).unwrap();
        assert_eq!(number(&mut node_in).unwrap().0, value);
        node_out.send(&done(value)).unwrap();
        assert_eq!(number(&mut incoming).unwrap().0, value);
        assert!(outgoing.kept_bytes() < 1 << 10 && node_out.kept_bytes() < 1 << 10);
    }
}

#[test]
fn answers_to_pings_are_not_kept_until_something_else_is_acknowledged() {
    let (client, mut node) = ends();
    let (mut incoming, outgoing) = split_resumable(client);
    outgoing.send(&free(1)).unwrap();
    let receiving = std::thread::spawn(move || (number(&mut incoming).unwrap(), incoming));
    // This side acknowledges nothing.
    for token in 0..1000 {
        let ping = Message::Ping(Ping { token, time_ns: 0 });
        node.send(&ping).unwrap();
        let is_answer = |message: &Message<'_>| Ok(matches!(message, Message::Pong(_)));
        while !node.receive_as(is_answer).unwrap() {}
    }
    let mut batch = Batch::new(MIN_FRAME);
    batch.push(&done(9), 1).unwrap();
    node.send_batch(&batch).unwrap();
    let ((event, _), _incoming) = receiving.join().unwrap();
    assert_eq!((event, outgoing.unacknowledged()), (9, 1));
    assert!(outgoing.kept_bytes() < 1 << 10);
}
