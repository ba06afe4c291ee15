//! The cost of a stream beside TLS alone, on loopback, both waiting in the same way:
//!
//! * a message of 40 bytes there and back, beside as many bytes written to TLS and read from it,
//! * a stream of short messages, by the message, and the same written to TLS one by one,
//! * 64 KiB chunks, beside the same bytes written to TLS.
//!
//! `cargo run --release -p quipu-link --example ping_pong`
#![allow(clippy::unwrap_used, reason = "a measurement that fails says so")]

use quipu_link::Folder;
use quipu_link::Key;
use quipu_link::client::Dial;
use quipu_link::clock::SystemClock;
use quipu_link::connection::Connection;
use quipu_link::gate::{Arrival, Gate};
use quipu_link::invitation::Invitations;
use quipu_link::stream::{Duplex, Incoming, Outgoing};
use quipu_protocol::batch::Batch;
use quipu_protocol::frame::Stream;
use quipu_protocol::message::*;
use std::net::TcpListener;
use std::sync::Arc;
use std::time::{Duration, Instant};

const PATIENCE: Duration = Duration::from_secs(60);
const ROUNDS: u32 = 20_000;
const MESSAGES: u64 = 1_000_000;
const CHUNK: usize = 1 << 16;
const CHUNKS: u64 = 16_384;

/// Both ends of a connection.
fn ends() -> (Connection, Connection) {
    let parent = std::env::temp_dir().join(format!("quipu-ping-pong-{}", std::process::id()));
    let node = Folder::open(parent.join("node")).unwrap();
    let client = Folder::open(parent.join("client")).unwrap();
    let gate = Gate::new(&node, "node", PATIENCE, Arc::new(SystemClock)).unwrap();
    let key = Key::of(&client, "client.key").unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let invitation = Invitations::of(&node)
        .invite(gate.fingerprint(), &address, &SystemClock)
        .unwrap();
    let welcome = Welcome {
        version: 0,
        data_order: DataOrder::Little,
        devices: 0,
        features: 0,
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
    let ends = std::thread::scope(|scope| {
        let node = scope.spawn(|| {
            gate.admit(listener.accept().unwrap().0).unwrap();
            match gate.admit(listener.accept().unwrap().0).unwrap() {
                Arrival::Caller(caller) => caller.welcome(welcome, &[]).unwrap(),
                other => panic!("{other:?}"),
            }
        });
        invitation.take_up(&key, "client", PATIENCE).unwrap();
        let dial = Dial {
            address: &address,
            node: gate.fingerprint(),
            key: &key,
            name: "ping_pong",
            patience: PATIENCE,
        };
        let client = dial.ask().unwrap().into_connection();
        (client, node.join().unwrap())
    });
    std::fs::remove_dir_all(parent).unwrap();
    ends
}

fn fill(number: u64) -> Message<'static> {
    Message::Command(Command {
        event: number + 2,
        device: 0,
        queue: 0,
        priority: Priority::Normal,
        profiled: false,
        waits: &[],
        operation: Operation::Nothing,
    })
}

fn answer() -> Message<'static> {
    // As many bytes.
    const EVENTS: [Word; 2] = [Word::new(1), Word::new(2)];
    Message::Completed(Completed { events: &EVENTS })
}

/// The middle one of several measurements, and the least and the most.
fn median(mut measure: impl FnMut() -> f64) -> (f64, f64, f64) {
    let mut all: Vec<f64> = (0..5).map(|_| measure()).collect();
    all.sort_by(f64::total_cmp);
    (all[2], all[0], all[4])
}

fn show(what: &str, unit: &str, (median, least, most): (f64, f64, f64)) -> f64 {
    println!("{what:<52} {median:>9.2} {unit}  ({least:.2} to {most:.2})");
    median
}

/// Through connections, one call a message.
fn alone() -> [f64; 3] {
    let (mut client, mut node) = ends();
    let mut batch = Batch::new(1 << 20);
    batch.push(&fill(0), 1).unwrap();
    let echo = std::thread::spawn(move || {
        for _ in 0..5 * ROUNDS {
            node.receive().unwrap();
            node.send_batch(&batch).unwrap();
        }
        for _ in 0..5 * MESSAGES / 10 {
            node.receive().unwrap();
        }
        for _ in 0..5 * CHUNKS {
            node.receive().unwrap();
        }
    });
    let mut batch = Batch::new(1 << 20);
    batch.push(&fill(0), 1).unwrap();
    let ping = show(
        "TLS alone, there and back",
        "us",
        median(|| {
            let start = Instant::now();
            for _ in 0..ROUNDS {
                client.send_batch(&batch).unwrap();
                client.receive().unwrap();
            }
            start.elapsed().as_secs_f64() * 1e6 / f64::from(ROUNDS)
        }),
    );
    let short = show(
        "TLS alone, a short message after another",
        "us",
        median(|| {
            let start = Instant::now();
            for _ in 0..MESSAGES / 10 {
                client.send_batch(&batch).unwrap();
            }
            start.elapsed().as_secs_f64() * 1e6 / (MESSAGES / 10) as f64
        }),
    );
    let bytes = vec![1; CHUNK];
    batch.clear();
    batch
        .push(
            &Message::Chunk(Chunk {
                transfer: 1,
                offset: 0,
                bytes: &bytes,
            }),
            1,
        )
        .unwrap();
    let bulk = show(
        "TLS alone, bulk",
        "GB/s",
        median(|| {
            let start = Instant::now();
            for _ in 0..CHUNKS {
                client.send_batch(&batch).unwrap();
            }
            (CHUNKS * CHUNK as u64) as f64 / start.elapsed().as_secs_f64() / 1e9
        }),
    );
    echo.join().unwrap();
    [ping, short, bulk]
}

/// Both ends, each with its directions, for the client and the node.
fn streams(options: Duplex) -> [(Incoming, Outgoing); 2] {
    let (client, node) = ends();
    [client, node].map(|end| end.split(options).unwrap())
}

/// Through streams.
fn through_streams(spin: Duration) -> [f64; 3] {
    let command = Duplex {
        stream: Stream::Command,
        spin,
        resumable: true,
    };
    let label = format!("stream, receivers spin {} us", spin.as_micros());
    let [(mut client_in, client_out), (mut node_in, node_out)] = streams(command);
    let echo = std::thread::spawn(move || {
        for _ in 0..5 * ROUNDS {
            node_in.receive(|_, _| ()).unwrap();
            node_out.send(&answer()).unwrap();
        }
        for _ in 0..5 {
            for _ in 0..MESSAGES {
                node_in.receive(|_, _| ()).unwrap();
            }
            node_out.send(&answer()).unwrap();
        }
        let _ = node_in.receive(|_, _| ());
    });
    let ping = show(
        &format!("{label}, there and back"),
        "us",
        median(|| {
            let start = Instant::now();
            for number in 0..u64::from(ROUNDS) {
                client_out.send(&fill(number)).unwrap();
                client_in.receive(|_, _| ()).unwrap();
            }
            start.elapsed().as_secs_f64() * 1e6 / f64::from(ROUNDS)
        }),
    );
    let short = show(
        &format!("{label}, short messages"),
        "us",
        median(|| {
            let start = Instant::now();
            for number in 0..MESSAGES {
                client_out.push(&fill(number)).unwrap();
                // As a thread that enqueues commands does, now and then.
                if number % 64 == 63 {
                    client_out.wait_for_room(1 << 20).unwrap();
                }
            }
            client_out.flush();
            client_in.receive(|_, _| ()).unwrap();
            start.elapsed().as_secs_f64() * 1e6 / MESSAGES as f64
        }),
    );
    client_out.close(GoodbyeReason::Done, "", PATIENCE);
    echo.join().unwrap();
    [ping, short, bulk(&label, spin)]
}

/// Chunks, to the node.
fn bulk(label: &str, spin: Duration) -> f64 {
    let bulk = Duplex {
        stream: Stream::Bulk,
        spin,
        resumable: true,
    };
    let [(mut client_in, client_out), (mut node_in, node_out)] = streams(bulk);
    let bytes = vec![1; CHUNK];
    let chunk = |number: u64, bytes| {
        Message::Chunk(Chunk {
            transfer: 1,
            offset: number * CHUNK as u64,
            bytes,
        })
    };
    let taker = std::thread::spawn(move || {
        for _ in 0..5 {
            for _ in 0..CHUNKS {
                node_in.receive(|_, _| ()).unwrap();
            }
            node_out.send(&chunk(0, &[1])).unwrap();
        }
        let _ = node_in.receive(|_, _| ());
    });
    let rate = show(
        &format!("{label}, bulk"),
        "GB/s",
        median(|| {
            let start = Instant::now();
            for number in 0..CHUNKS {
                client_out.push(&chunk(number, &bytes)).unwrap();
                client_out.wait_for_room(4 * CHUNK).unwrap();
            }
            client_in.receive(|_, _| ()).unwrap();
            (CHUNKS * CHUNK as u64) as f64 / start.elapsed().as_secs_f64() / 1e9
        }),
    );
    client_out.close(GoodbyeReason::Done, "", PATIENCE);
    taker.join().unwrap();
    rate
}

fn main() {
    println!(
        "medians of 5, least and most; {ROUNDS} round trips, {MESSAGES} messages, {CHUNKS} chunks of {CHUNK} bytes"
    );
    let alone = alone();
    for spin in [0, 20] {
        let stream = through_streams(Duration::from_micros(spin));
        let ratio = |at: usize| stream[at] / alone[at];
        println!(
            "  ratio to TLS alone: there and back {:.2}, short messages {:.2}, bulk {:.2}",
            ratio(0),
            ratio(1),
            ratio(2)
        );
    }
}
