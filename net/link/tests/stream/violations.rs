//! Violations of the protocol: each ends the connection, with an error that names it.

use super::{done, ends, free, number, split};
use quipu_link::LinkError;
use quipu_protocol::batch::Batch;
use quipu_protocol::limits::MIN_FRAME;
use quipu_protocol::message::*;

#[test]
fn who_sends_pings_and_reads_nothing_is_given_up() {
    let (client, mut node) = ends();
    let (mut incoming, outgoing) = split(client);
    let flood = std::thread::spawn(move || {
        let ping = Message::Ping(Ping {
            token: 5,
            time_ns: 6,
        });
        let pings = vec![ping; 4096];
        // Until the other side has had enough.
        while node.send_all(&pings).is_ok() {}
    });
    let error = number(&mut incoming).unwrap_err();
    assert!(error.to_string().contains("does not read"), "{error}");
    // The flooding side does not read, and so learns of the end when no one has the socket any
    // more.
    drop((incoming, outgoing));
    flood.join().unwrap();
}

/// The messages and the error of an end to which these messages are sent.
fn after(messages: &[(Message<'_>, u64)]) -> (Vec<(u64, u64)>, LinkError) {
    let (client, mut node) = ends();
    let (mut incoming, _outgoing) = split(client);
    let mut batch = Batch::new(MIN_FRAME);
    for (message, sequence) in messages {
        batch.push(message, *sequence).unwrap();
    }
    node.send_batch(&batch).unwrap();
    let mut came = Vec::new();
    loop {
        match number(&mut incoming) {
            Ok(one) => came.push(one),
            Err(error) => return (came, error),
        }
        if came.len() == 3 {
            drop(node);
            return (came, number(&mut incoming).unwrap_err());
        }
    }
}

#[test]
fn repetitions_are_left_out_and_gaps_end_it() {
    let (came, error) = after(&[
        (done(1), 1),
        (done(2), 2),
        (done(1), 1),
        (done(2), 2),
        (done(3), 3),
    ]);
    assert_eq!(came, [(1, 1), (2, 2), (3, 3)]);
    assert!(matches!(error, LinkError::Ended { .. }), "{error}");
    let (came, error) = after(&[(done(1), 1), (done(3), 3)]);
    assert_eq!(came, [(1, 1)]);
    assert!(matches!(error, LinkError::Wire { .. }), "{error}");
    let never_sent = Message::Acknowledge(Acknowledge { received: 5 });
    let (_, error) = after(&[(never_sent, 0)]);
    assert!(matches!(error, LinkError::Wire { .. }), "{error}");
}

#[test]
fn what_the_other_side_does_not_send_here_ends_it() {
    let chunk = Message::Chunk(Chunk {
        transfer: 1,
        offset: 0,
        bytes: &[1],
    });
    // A client's word from a node; a message of the other stream; a hello in the middle.
    for (message, sequence) in [(free(1), 1), (chunk, 1), (Message::StatusRequest, 0)] {
        let (came, error) = after(&[(message, sequence)]);
        assert!(came.is_empty());
        assert!(matches!(error, LinkError::Wire { .. }), "{error}");
        assert!(error.to_string().contains("does not send it"), "{error}");
    }
}
