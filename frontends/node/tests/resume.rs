//! Resumption of sessions: the clients that may come back, and the messages that they may bring.
// Elsewhere the system does not say within a known time that a connection is lost, and sessions end
// with it.
#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, reason = "helpers assert by unwrapping")]

mod support;

use quipu_link::LinkError;
use quipu_link::session::{Greeted, Place};
use quipu_link::timer::ManualTimer;
use quipu_node::Limits;
use quipu_protocol::message::{
    Acknowledge, Goodbye, GoodbyeReason, LinkState, Message, Operation, Refusal, SessionId, Wait,
};
use std::sync::Arc;
use std::time::Duration;
use support::{Client, Rig, buffer, command, fill};

/// A place in a session, on another connection.
fn place(session: SessionId, epoch: u32, received: u64) -> Place {
    Place {
        session: (session, epoch),
        received,
        patience: Duration::from_secs(3600),
        key: None,
        alone: false,
    }
}

/// Returns when the only session goes on with the connection that has come to it, which a client
/// may know before it does: what cuts connections would find none yet.
fn goes_on(rig: &Rig) {
    let mut asking = rig.dial(0).ask().unwrap();
    while asking.look().unwrap().links.links[0].state != LinkState::Connected {
        std::thread::yield_now();
    }
}

#[test]
fn a_session_is_resumed_by_its_own_key_alone_and_only_forwards() {
    let rig = Rig::new(Limits::default());
    let Greeted {
        connection, terms, ..
    } = rig.dial(0).begin(Duration::from_secs(3600)).unwrap();
    assert!(terms.patience > Duration::ZERO && terms.patience < Duration::from_secs(3600));
    let id = terms.session.0;
    let refused = |key: usize, is_bulk, place: &Place| match rig
        .dial(key)
        .resume(is_bulk, place)
        .unwrap_err()
    {
        LinkError::Refused { refusal, .. } => assert_eq!(refusal, Refusal::NoSession),
        other => panic!("{other}"),
    };
    // Another client's key, though it knows the session's name; a session that never was; one that
    // was begun already.
    refused(1, false, &place(id, 2, 0));
    refused(1, true, &place(id, 2, 0));
    let mut forged = id;
    forged.0[7] ^= 1;
    refused(0, false, &place(forged, 2, 0));
    refused(0, false, &place(id, 1, 0));
    // A bulk stream that never was.
    refused(0, true, &place(id, 5, 0));
    // The session has noticed nothing of all that.
    let mut client = Client::over(connection, &terms, 0);
    client.send(&[buffer(1, 64), command(1, &[], fill(1, 64))]);
    assert_eq!(client.end_of(1), None);
    // A newer connection takes the place of the older, which is cut.
    let resumed = rig.dial(0).resume(false, &place(id, 7, 1)).unwrap();
    assert_eq!(resumed.terms.received, 2);
    while client.next(|_| ()).is_ok() {}
    refused(0, false, &place(id, 7, 1));
    refused(0, false, &place(id, 6, 1));
    let mut client = Client::over(resumed.connection, &resumed.terms, 2);
    client.send(&[command(2, &[], fill(1, 64))]);
    assert_eq!(client.end_of(2), None);
    // Who says to have received what was never sent is not gone on with, and whoever tells the
    // truth is.
    let _lie = rig.dial(0).resume(false, &place(id, 8, 1000)).unwrap();
    let resumed = rig.dial(0).resume(false, &place(id, 9, 2)).unwrap();
    let mut client = Client::over(resumed.connection, &resumed.terms, 3);
    client.send(&[command(3, &[], fill(1, 64))]);
    assert_eq!(client.end_of(3), None);
    client.send(&[Message::Goodbye(Goodbye {
        reason: GoodbyeReason::Done,
        text: "",
    })]);
    rig.is_empty();
}

#[test]
fn what_is_sent_again_may_name_what_is_known_to_be_over() {
    let rig = Rig::new(Limits::default());
    let Greeted {
        connection, terms, ..
    } = rig.dial(0).begin(Duration::from_secs(3600)).unwrap();
    let mut client = Client::over(connection, &terms, 0);
    client.send(&[buffer(1, 64), command(1, &[], fill(1, 64))]);
    assert_eq!(client.end_of(1), None);
    // The command after it was sent before its end was known, and got lost.
    let id = terms.session.0;
    let resumed = rig.dial(0).resume(false, &place(id, 2, 1)).unwrap();
    let mut client = Client::over(resumed.connection, &resumed.terms, 2);
    let waits = [Wait::needs(1)];
    client.send(&[command(2, &waits, fill(1, 64))]);
    assert_eq!(client.end_of(2), None);
    // Behind that, it is acknowledged, and forgotten.
    client.send(&[
        Message::Acknowledge(Acknowledge { received: 1 }),
        command(3, &[], Operation::Nothing),
    ]);
    assert_eq!(client.end_of(3), None);
    client.send(&[command(4, &waits, Operation::Nothing)]);
    assert_eq!(client.goodbye(), GoodbyeReason::Protocol);
}

#[test]
fn who_comes_back_and_says_nothing_is_waited_for_again_and_no_longer_than_it_waits_itself() {
    let (limits, timer) = (Limits::default(), Arc::new(ManualTimer::default()));
    let rig = Rig::with_folder(limits, |options, _| options.timer = timer.clone());
    // One thread waits for time to pass whatever happens, and one for a client that is to come
    // back.
    let is_lost = || {
        while timer.waiting() < 2 && rig.node.sessions() > 0 {
            std::thread::yield_now();
        }
        rig.node.sessions() > 0
    };
    for outlives in [true, false] {
        let begun = rig.dial(0).begin(Duration::from_secs(3600)).unwrap();
        let id = begun.terms.session.0;
        rig.node.cut();
        drop(begun);
        assert!(is_lost());
        let resumed = rig.dial(0).resume(false, &place(id, 2, 0)).unwrap();
        goes_on(&rig);
        // It is there for longer than the client would have waited if it did not know.
        timer.advance(if outlives { 10 } else { 1 } * limits.patience / 2);
        rig.node.cut();
        drop(resumed);
        if outlives {
            assert!(is_lost());
            let resumed = rig.dial(0).resume(false, &place(id, 3, 0)).unwrap();
            let mut client = Client::over(resumed.connection, &resumed.terms, 0);
            client.send(&[buffer(1, 64), command(1, &[], fill(1, 64))]);
            assert_eq!(client.end_of(1), None);
            client.send(&[Message::Goodbye(Goodbye {
                reason: GoodbyeReason::Done,
                text: "",
            })]);
        } else {
            assert!(is_lost());
            timer.advance(limits.patience / 2);
        }
        rig.is_empty();
    }
}

#[test]
fn a_client_whose_connection_was_ended_comes_back_soon_or_never_and_one_that_is_silent_has_its_time()
 {
    let (limits, timer) = (Limits::default(), Arc::new(ManualTimer::default()));
    let rig = Rig::with_folder(limits, |options, _| options.timer = timer.clone());
    let is_awaited = || {
        // One thread waits for time to pass whatever happens.
        while timer.waiting() < 2 {
            std::thread::yield_now();
        }
    };
    let soon = Duration::from_secs(10);
    for ended in [true, false] {
        let begun = rig.dial(0).begin(Duration::from_secs(3600)).unwrap();
        let id = begun.terms.session.0;
        let lose = |connection| {
            if !ended {
                rig.node.cut();
            }
            // As the system does when a program is killed.
            drop(connection);
            is_awaited();
        };
        lose(begun.connection);
        timer.advance(soon - Duration::from_nanos(1));
        is_awaited();
        assert_eq!(rig.node.sessions(), 1);
        // One that comes back begins anew, also if that comes to nothing.
        let lost = rig.dial(0).resume(false, &place(id, 2, 0)).unwrap();
        goes_on(&rig);
        lose(lost.connection);
        timer.advance(soon - Duration::from_nanos(1));
        is_awaited();
        assert_eq!(rig.node.sessions(), 1);
        timer.advance(Duration::from_nanos(1));
        if !ended {
            is_awaited();
            assert_eq!(rig.node.sessions(), 1);
            timer.advance(limits.patience);
        }
        rig.is_empty();
    }
}
