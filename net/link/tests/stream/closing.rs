//! Closing: the goodbye, and the end of a connection whose other side is dropped.

use super::{PATIENCE, done, ends, free, number, split, split_bulk};
use quipu_link::LinkError;
use quipu_protocol::message::*;
use std::time::Duration;

#[test]
fn goodbye_comes_after_everything_and_is_the_last_word() {
    let (client, node) = ends();
    let ((_incoming, outgoing), (mut node_in, node_out)) = (split(client), split(node));
    for value in 1..=1000 {
        outgoing.push(&free(value)).unwrap();
    }
    outgoing.close(GoodbyeReason::Limit, "too\u{1b} much", PATIENCE);
    let error = outgoing.push(&free(1)).unwrap_err();
    assert!(
        error.to_string().contains("this side has closed it"),
        "{error}"
    );
    for value in 1..=1000 {
        assert_eq!(number(&mut node_in).unwrap(), (value, value));
    }
    let error = number(&mut node_in).unwrap_err();
    assert!(
        matches!(&error, LinkError::Goodbye { reason: GoodbyeReason::Limit, text, .. } if text == "too  much"),
        "{error}"
    );
    // The other direction is still open.
    node_out.send(&done(5)).unwrap();
}

#[test]
fn a_side_that_is_dropped_ends_it_for_both() {
    for drop_incoming in [false, true] {
        let (client, node) = ends();
        let (mut incoming, outgoing) = split(client);
        let (node_in, node_out) = split(node);
        if drop_incoming {
            drop(node_in);
            assert!(node_out.push(&done(1)).is_err());
        } else {
            drop(node_out);
            drop(node_in);
        }
        let error = number(&mut incoming).unwrap_err();
        assert!(matches!(error, LinkError::Ended { .. }), "{error}");
        drop(incoming);
        let error = outgoing.push(&free(1)).unwrap_err();
        assert!(error.to_string().contains("given it up"), "{error}");
        assert!(outgoing.wait_for_room(0).is_err());
    }
}

#[test]
fn closing_does_not_wait_for_who_never_reads() {
    let (client, node) = ends();
    let (_incoming, outgoing) = split_bulk(client);
    let bytes = vec![7; 1 << 19];
    for number in 0..64 {
        let chunk = Message::Chunk(Chunk {
            transfer: 1,
            offset: number << 19,
            bytes: &bytes,
        });
        outgoing.send(&chunk).unwrap();
    }
    assert!(outgoing.pending_bytes() > 0);
    outgoing.close(GoodbyeReason::Done, "", Duration::from_millis(10));
    let error = outgoing.push(&free(1)).unwrap_err();
    assert!(error.to_string().contains("goodbye in time"), "{error}");
    drop(node);
}
