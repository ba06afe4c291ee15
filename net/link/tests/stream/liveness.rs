//! Liveness: pings, and the loss of a connection on which nothing comes.

use super::{done, ends, number, split, split_resumable};
use quipu_link::LinkError;
use quipu_link::stream::{Loss, Outgoing};
use quipu_link::timer::ManualTimer;
use quipu_protocol::batch::Batch;
use quipu_protocol::limits::MIN_FRAME;
use quipu_protocol::message::*;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

#[test]
fn pings_are_answered_by_the_stream() {
    let (client, node) = ends();
    let (mut incoming, _outgoing) = split(client);
    let mut node = node;
    let ping = Message::Ping(Ping {
        token: 5,
        time_ns: 6,
    });
    node.send(&ping).unwrap();
    let mut batch = Batch::new(MIN_FRAME);
    batch.push(&done(9), 1).unwrap();
    node.send_batch(&batch).unwrap();
    assert_eq!(number(&mut incoming).unwrap(), (9, 1));
    let pong = node.receive_as(|message| match message {
        Message::Pong(pong) => Ok(*pong),
        _ => Err("a pong"),
    });
    assert_eq!(pong.unwrap().token, 5);
}

/// The time without a byte after which a connection is lost, in these tests, and the time that
/// passes at each step.
const IDLE: Duration = Duration::from_secs(20);

const STEP: Duration = Duration::from_secs(5);

/// So much time passes for streams whose other side may be there, and that look meanwhile.
fn pass(timer: &ManualTimer, streams: usize, steps: u32) {
    for _ in 0..steps {
        while timer.waiting() < streams {
            std::thread::yield_now();
        }
        timer.advance(STEP);
    }
    while timer.waiting() < streams {
        std::thread::yield_now();
    }
}

#[test]
fn who_has_nothing_to_say_pings_and_is_not_lost() {
    let timer = Arc::new(ManualTimer::default());
    let (client, node) = ends();
    let streams = [client, node].map(|mut end| {
        end.expect_pulse(IDLE, timer.clone());
        split_resumable(end)
    });
    let outgoing = streams.each_ref().map(|(_, outgoing)| outgoing.clone());
    let before = outgoing.each_ref().map(Outgoing::carried);
    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for (mut incoming, _) in streams {
            let over = &over;
            scope.spawn(move || {
                loop {
                    let is_pong = |message: &Message<'_>, _| matches!(message, Message::Pong(_));
                    match incoming.receive(is_pong) {
                        Ok(is_pong) => assert!(is_pong),
                        Err(error) => {
                            assert!(over.load(Ordering::SeqCst), "{error}");
                            return;
                        }
                    }
                }
            });
        }
        // Bytes that one side has sent reach the other before more time passes, however late the
        // system runs their threads.
        let is_delivered = || {
            let now = outgoing.each_ref().map(Outgoing::carried);
            let sent = |side: usize| now[side].sent - before[side].sent;
            let received = |side: usize| now[side].received - before[side].received;
            let is_pending = outgoing.iter().any(|side| side.pending_bytes() > 0);
            !is_pending && sent(0) == received(1) && sent(1) == received(0)
        };
        for _ in 0..100 {
            pass(&timer, 2, 1);
            while !is_delivered() {
                std::thread::yield_now();
            }
        }
        over.store(true, Ordering::SeqCst);
        let after = outgoing.each_ref().map(Outgoing::carried);
        for outgoing in &outgoing {
            outgoing.abort("it is over");
        }
        for (before, after) in before.iter().zip(&after) {
            assert!(after.sent > before.sent && after.received > before.received);
        }
    });
}

#[test]
fn a_connection_on_which_nothing_comes_is_lost_and_one_that_nobody_reads_is_not() {
    for is_read in [true, false] {
        let timer = Arc::new(ManualTimer::default());
        // The other end never says anything by itself.
        let (mut client, mut silent) = ends();
        client.expect_pulse(IDLE, timer.clone());
        let (mut incoming, outgoing) = split_resumable(client);
        if !is_read {
            // Bytes that have come and were not read show that the other side is there, though this
            // one is busy.
            silent.send_bytes(&[7]).unwrap();
        }
        pass(&timer, 1, 3);
        assert!(!incoming.is_lost());
        // Its pings did not make anything come.
        let carried = outgoing.carried();
        assert!(carried.sent > 0 && carried.received == 0);
        pass(&timer, 1, 2);
        assert_eq!(incoming.is_lost(), is_read);
        if is_read {
            let error = incoming.receive(|_, _| ()).unwrap_err();
            assert!(matches!(error, LinkError::Ended { .. }), "{error}");
            assert_eq!(incoming.loss(), Loss::Silent);
        } else {
            pass(&timer, 1, 20);
            assert!(!incoming.is_lost());
        }
    }
}

#[test]
fn what_was_pushed_and_nobody_flushes_is_sent_in_place_of_a_ping() {
    let timer = Arc::new(ManualTimer::default());
    let (mut client, mut node) = ends();
    client.expect_pulse(IDLE, timer.clone());
    let (_incoming, outgoing) = split_resumable(client);
    outgoing.push(&done(9)).unwrap();
    assert!(outgoing.pending_bytes() > 0);
    pass(&timer, 1, 2);
    assert_eq!(outgoing.pending_bytes(), 0);
    let come = node.receive_as(|message| match message {
        Message::Completed(_) => Ok(()),
        _ => Err("what was pushed"),
    });
    come.unwrap();
}

#[test]
fn time_in_which_this_side_was_stopped_says_nothing_of_the_other() {
    let timer = Arc::new(ManualTimer::default());
    let (mut client, _silent) = ends();
    client.expect_pulse(IDLE, timer.clone());
    let (incoming, _outgoing) = split_resumable(client);
    pass(&timer, 1, 1);
    timer.advance(10 * IDLE);
    pass(&timer, 1, 3);
    assert!(!incoming.is_lost());
    pass(&timer, 1, 1);
    assert!(incoming.is_lost());
}

#[test]
fn a_connection_that_the_other_side_ends_is_told_from_one_that_falls_silent() {
    for ends_it in [true, false] {
        let (client, node) = ends();
        let (mut incoming, outgoing) = split_resumable(node);
        match ends_it {
            // Without a word, as the system does for a process that was killed.
            true => drop(client),
            false => outgoing.cut("as a network may"),
        }
        incoming.receive(|_, _| ()).unwrap_err();
        assert!(incoming.is_lost());
        let loss = if ends_it { Loss::Told } else { Loss::Silent };
        assert_eq!(incoming.loss(), loss);
    }
}
