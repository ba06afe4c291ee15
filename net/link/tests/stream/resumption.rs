//! Resumption: a stream that has lost its connection goes on with another.

use super::{done, ends, ends_that_have, free, number, split_resumable};
use quipu_link::LinkError;
use quipu_link::stream::Outgoing;
use quipu_protocol::compression::{LZ4, ZSTD};
use quipu_protocol::message::*;
use std::sync::atomic::{AtomicU64, Ordering};

#[test]
fn a_stream_goes_on_with_another_connection_and_each_message_comes_once() {
    const CUTS: u64 = 40;
    const EACH: u64 = 20_000;
    let (client, node) = ends();
    let (sides, mut spare): (Vec<_>, Vec<_>) = {
        let first = [split_resumable(client), split_resumable(node)];
        (first.into(), (0..=CUTS).map(|_| ends()).collect())
    };
    let outs: Vec<Outgoing> = sides.iter().map(|(_, out)| out.clone()).collect();
    let says = [free as fn(u64) -> Message<'static>, done];
    let come = [AtomicU64::new(0), AtomicU64::new(0)];
    std::thread::scope(|scope| {
        for (side, (out, say)) in outs.iter().zip(says).enumerate() {
            let come = &come[1 - side];
            scope.spawn(move || {
                for value in 1..=EACH {
                    out.send(&say(value)).unwrap();
                    // Else all of it would lie with the other side before the second cut.
                    while come.load(Ordering::Relaxed) + 100 < value {
                        std::thread::yield_now();
                    }
                }
            });
        }
        // Each side says how far it is when it has lost its connection, and is handed another.
        let (said, hear) = std::sync::mpsc::channel();
        for (side, (mut incoming, out)) in sides.into_iter().enumerate() {
            let (said, come, outs) = (said.clone(), &come, &outs);
            scope.spawn(move || {
                let mut next = 1;
                loop {
                    match number(&mut incoming) {
                        Ok((value, sequence)) => {
                            assert_eq!((value, sequence), (next, next));
                            next += 1;
                            come[side].store(value, Ordering::SeqCst);
                            if come[1 - side].load(Ordering::SeqCst) == EACH && value == EACH {
                                outs.iter().for_each(|out| out.abort("both have all"));
                            }
                            // One of the two sides cuts it, wherever the other is.
                            if side == 0 && value % (EACH / CUTS) == 0 {
                                out.cut("a test");
                            }
                        }
                        Err(_) if incoming.is_lost() => {
                            let (hand, handed) = std::sync::mpsc::channel();
                            said.send(Some((side, incoming.last(), hand))).unwrap();
                            let Ok((connection, received)) = handed.recv() else {
                                break;
                            };
                            // It has ended meanwhile, or goes on.
                            let _ = incoming.resume(connection, received);
                        }
                        Err(_) => break,
                    }
                }
                assert_eq!(next, EACH + 1);
                said.send(None).unwrap();
            });
        }
        drop(said);
        let (mut waiting, mut over) = ([None, None], false);
        for heard in hear {
            match heard {
                Some((side, last, hand)) => waiting[side] = Some((last, hand)),
                None => over = true,
            }
            if over {
                waiting = [None, None];
            }
            if let [Some(_), Some(_)] = &waiting
                && let [Some((at, client)), Some((of, node))] = std::mem::take(&mut waiting)
            {
                let (to_client, to_node) = spare.pop().unwrap();
                client.send((to_client, of)).unwrap();
                node.send((to_node, at)).unwrap();
            }
        }
    });
    assert!(spare.len() <= 2, "{} connections are left", spare.len());
}

#[test]
fn what_a_resumed_stream_cannot_have_received_ends_it() {
    let (client, node) = ends();
    let (mut incoming, outgoing) = split_resumable(client);
    let _node = split_resumable(node);
    outgoing.send(&free(1)).unwrap();
    let (again, _node) = ends();
    let error = incoming.resume(again, 2).unwrap_err();
    assert!(matches!(error, LinkError::Wire { .. }), "{error}");
}

/// Messages that are sent again were compressed as the first connection's sides had agreed.
#[test]
fn a_resumed_stream_takes_what_it_took_before() {
    for (features, is_same) in [(LZ4 | ZSTD, true), (LZ4, false), (0, false)] {
        let (client, _node) = ends_that_have(LZ4 | ZSTD);
        let (mut incoming, _outgoing) = split_resumable(client);
        let (again, _node) = ends_that_have(features);
        match incoming.resume(again, 0) {
            Ok(()) => assert!(is_same),
            Err(error) => {
                assert!(
                    !is_same && error.to_string().contains("other messages"),
                    "{error}"
                );
            }
        }
    }
}
