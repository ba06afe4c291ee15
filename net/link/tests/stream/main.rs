//! Streams: both directions of a connection at once, over loopback.
#![allow(clippy::unwrap_used, reason = "helpers assert by unwrapping")]

mod closing;
mod compression;
mod counters;
mod delivery;
mod liveness;
mod resumption;
mod violations;
mod wakeups;

use quipu_link::client::Dial;
use quipu_link::clock::SystemClock;
use quipu_link::connection::Connection;
use quipu_link::gate::{Arrival, Gate};
use quipu_link::invitation::Invitations;
use quipu_link::stream::{Duplex, Incoming, Outgoing};
use quipu_link::{Folder, Key, Result};
use quipu_protocol::frame::Stream;
use quipu_protocol::message::*;
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::time::Duration;

/// Long enough for anything that is not stuck.
const PATIENCE: Duration = Duration::from_secs(60);

/// Both ends of a connection on which nothing was said: the client's and the node's.
fn ends() -> (Connection, Connection) {
    ends_that_have(0)
}

/// As [`ends`], of a node that has these features.
fn ends_that_have(features: u64) -> (Connection, Connection) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let (client, node, _) = ends_by(&listener, str::to_owned, features);
    (client, node)
}

/// As [`ends`], where the client reaches the node's address by way of another, and the node has
/// features; and the node's socket.
fn ends_by(
    listener: &TcpListener,
    way: impl FnOnce(&str) -> String,
    features: u64,
) -> (Connection, Connection, TcpStream) {
    let parent = tempfile::tempdir().unwrap();
    let node = Folder::open(parent.path().join("node")).unwrap();
    let client = Folder::open(parent.path().join("client")).unwrap();
    let gate = Gate::new(&node, "node", PATIENCE, Arc::new(SystemClock)).unwrap();
    let key = Key::of(&client, "client.key").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let invitation = Invitations::of(&node)
        .invite(gate.fingerprint(), &address, &SystemClock)
        .unwrap();
    let welcome = Welcome {
        version: 0,
        data_order: DataOrder::Little,
        devices: 0,
        features,
        session: SessionId::NONE,
        epoch: 0,
        patience_ms: 0,
        received: 0,
        max_frame: 1 << 20,
        max_inline: 0,
        max_commands: 0,
        max_buffers: 0,
        max_programs: 0,
        max_program_bytes: 0,
        max_buffer_bytes: 0,
        max_session_bytes: 0,
        idle_ms: 0,
        peer_address: None,
        name: "node",
    };
    std::thread::scope(|scope| {
        let node = scope.spawn(|| {
            gate.admit(listener.accept().unwrap().0).unwrap();
            let socket = listener.accept().unwrap().0;
            let own = socket.try_clone().unwrap();
            match gate.admit(socket).unwrap() {
                Arrival::Caller(caller) => (caller.welcome(welcome, &[]).unwrap(), own),
                other => panic!("{other:?}"),
            }
        });
        invitation.take_up(&key, "client", PATIENCE).unwrap();
        let dial = Dial {
            address: &way(&address),
            node: gate.fingerprint(),
            key: &key,
            name: "a test",
            patience: PATIENCE,
        };
        let client = dial.ask().unwrap().into_connection();
        let (node, socket) = node.join().unwrap();
        (client, node, socket)
    })
}

fn split(connection: Connection) -> (Incoming, Outgoing) {
    connection.split(Duplex::default()).unwrap()
}

fn split_bulk(connection: Connection) -> (Incoming, Outgoing) {
    let bulk = Duplex {
        stream: Stream::Bulk,
        ..Duplex::default()
    };
    connection.split(bulk).unwrap()
}

fn split_resumable(connection: Connection) -> (Incoming, Outgoing) {
    let resumable = Duplex {
        resumable: true,
        ..Duplex::default()
    };
    connection.split(resumable).unwrap()
}

/// A node's message with the number.
fn done(event: u64) -> Message<'static> {
    let events = Box::leak(Box::new([Word::new(event)]));
    Message::Completed(Completed { events })
}

/// A client's message with it.
fn free(buffer: u64) -> Message<'static> {
    Message::FreeBuffer(FreeBuffer { buffer })
}

fn number(incoming: &mut Incoming) -> Result<(u64, u64)> {
    incoming.receive(|message, sequence| match message {
        Message::FreeBuffer(FreeBuffer { buffer }) => (*buffer, sequence),
        Message::Completed(Completed { events }) => (events[0].get(), sequence),
        other => panic!("{other:?}"),
    })
}
