//! What a node's device costs beside the connection alone, on loopback with TLS on: a no-op there and back, a chain of
//! them, and 64 MiB each way. `cargo run --release -p quipu-driver-remote --example noop`; a number of microseconds as
//! argument has receivers look for so long before they sleep, in all measurements alike.
#![allow(clippy::unwrap_used, reason = "a measurement")]

#[path = "../tests/support/mod.rs"]
mod support;

use quipu_conformance::folding;
use quipu_link::clock::SystemClock;
use quipu_link::gate::{Arrival, Gate};
use quipu_link::invitation::Invitations;
use quipu_link::stream::{Duplex, Incoming, Outgoing};
use quipu_link::{Folder, Key};
use quipu_node::Limits;
use quipu_protocol::frame::Stream;
use quipu_protocol::message::{
    Chunk, Command, Completed, DataOrder, GoodbyeReason, Message, Operation, Priority, SessionId,
    Welcome, Word,
};
use quipu_scheduler::operation::HostMemory;
use quipu_scheduler::{Access, AccessMode, Context, Queue, QueueOptions, Request};
use std::net::TcpListener;
use std::sync::Arc;
use std::time::{Duration, Instant};
use support::{PATIENCE, Rig, pool};

const ROUNDS: u32 = 5_000;
const CHAIN: u32 = 10_000;
const BULK: usize = 64 << 20;
const CHUNK: usize = 1 << 17;

/// Both ends of a connection without a node.
fn raw(stream: Stream, spin: Duration) -> [(Incoming, Outgoing); 2] {
    let folder = tempfile::tempdir().unwrap();
    let node = Folder::open(folder.path().join("node")).unwrap();
    let client = Folder::open(folder.path().join("client")).unwrap();
    let gate = Gate::new(&node, "node", PATIENCE, Arc::new(SystemClock)).unwrap();
    let key = Key::of(&client, "client.key").unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let invitations = Invitations::of(&node);
    let invitation = invitations.invite(gate.fingerprint(), &address, &SystemClock);
    let welcome = Welcome {
        version: 0,
        data_order: DataOrder::Little,
        devices: 0,
        features: 0,
        session: SessionId([1; 16]),
        epoch: 1,
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
    let (client, node) = std::thread::scope(|scope| {
        let node = scope.spawn(|| {
            gate.admit(listener.accept().unwrap().0).unwrap();
            match gate.admit(listener.accept().unwrap().0).unwrap() {
                Arrival::Caller(caller) => caller.welcome(welcome, &[]).unwrap(),
                other => panic!("{other:?}"),
            }
        });
        invitation
            .unwrap()
            .take_up(&key, "client", PATIENCE)
            .unwrap();
        let dial = quipu_link::client::Dial {
            address: &address,
            node: gate.fingerprint(),
            key: &key,
            name: "noop",
            patience: PATIENCE,
        };
        (
            dial.begin(Duration::ZERO).unwrap().connection,
            node.join().unwrap(),
        )
    });
    [client, node].map(|end| {
        end.split(Duplex {
            stream,
            spin,
            resumable: true,
        })
        .unwrap()
    })
}

/// Microseconds of processor time of this process, and how often its threads have given a core up, and lost one.
fn used() -> [f64; 3] {
    // SAFETY: zeros are a value of it.
    let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
    // SAFETY: it is there until the call returns.
    unsafe { libc::getrusage(libc::RUSAGE_SELF, &raw mut usage) };
    let time = |time: libc::timeval| time.tv_sec as f64 * 1e6 + time.tv_usec as f64;
    [
        time(usage.ru_utime) + time(usage.ru_stime),
        usage.ru_nvcsw as f64,
        usage.ru_nivcsw as f64,
    ]
}

/// The middle one of five measurements.
fn median(mut measure: impl FnMut() -> f64) -> f64 {
    let before = used();
    let mut all: Vec<f64> = (0..5).map(|_| measure()).collect();
    all.sort_by(f64::total_cmp);
    let after = used();
    let [time, given, lost] = std::array::from_fn(|at| after[at] - before[at]);
    eprintln!(
        "    least {:.2}; in all five: {time:.0} us of processors, {given:.0} + {lost:.0} switches",
        all[0]
    );
    all[2]
}

fn raw_ping_pong(spin: Duration) -> f64 {
    let [(mut client_in, client_out), (mut node_in, node_out)] = raw(Stream::Command, spin);
    let echo = std::thread::spawn(move || {
        const EVENTS: [Word; 1] = [Word::new(1)];
        while node_in.receive(|_, _| ()).is_ok() {
            let answer = Message::Completed(Completed { events: &EVENTS });
            if node_out.send(&answer).is_err() {
                return;
            }
        }
    });
    let mut event = 0;
    let time = median(|| {
        let start = Instant::now();
        for _ in 0..ROUNDS {
            event += 1;
            let nothing = Message::Command(Command {
                event,
                device: 0,
                queue: 0,
                priority: Priority::Normal,
                profiled: false,
                waits: &[],
                operation: Operation::Nothing,
            });
            client_out.send(&nothing).unwrap();
            client_in.receive(|_, _| ()).unwrap();
        }
        start.elapsed().as_secs_f64() * 1e6 / f64::from(ROUNDS)
    });
    client_out.close(GoodbyeReason::Done, "", PATIENCE);
    drop((client_in, client_out));
    echo.join().unwrap();
    time
}

fn raw_bulk(spin: Duration) -> f64 {
    let [(mut client_in, client_out), (mut node_in, node_out)] = raw(Stream::Bulk, spin);
    let bytes = vec![1; CHUNK];
    let chunk = |offset: usize, bytes| {
        Message::Chunk(Chunk {
            transfer: 1,
            offset: offset as u64,
            bytes,
        })
    };
    let count = BULK / CHUNK;
    let taker = std::thread::spawn(move || {
        // It is put somewhere, as by anybody who wants it.
        let mut to = vec![0_u8; BULK];
        for _ in 0..5 {
            for _ in 0..count {
                let put = |message: &Message<'_>, _| {
                    if let Message::Chunk(chunk) = message {
                        let at = chunk.offset as usize;
                        to[at..at + chunk.bytes.len()].copy_from_slice(chunk.bytes);
                    }
                };
                node_in.receive(put).unwrap();
            }
            node_out.send(&chunk(0, &[1])).unwrap();
        }
        let _ = node_in.receive(|_, _| ());
    });
    let rate = median(|| {
        let start = Instant::now();
        for number in 0..count {
            client_out.push(&chunk(number * CHUNK, &bytes)).unwrap();
            client_out.wait_for_room(4 * CHUNK).unwrap();
        }
        client_in.receive(|_, _| ()).unwrap();
        BULK as f64 / start.elapsed().as_secs_f64() / 1e9
    });
    client_out.close(GoodbyeReason::Done, "", PATIENCE);
    taker.join().unwrap();
    rate
}

fn no_op(queue: &Queue, memory: &quipu_scheduler::MemoryRef) -> quipu_scheduler::Event {
    let accesses = [Access {
        memory,
        offset: 0,
        length: 8,
        mode: AccessMode::ReadWrite,
    }];
    let request = Request {
        accesses: &accesses,
        ..Request::default()
    };
    queue.launch(folding(1), 1, &request).unwrap()
}

fn main() {
    let spin = std::env::args().nth(1).and_then(|text| text.parse().ok());
    let spin = Duration::from_micros(spin.unwrap_or(0));
    let rig = Rig::spinning(pool(2), Limits::default(), spin);
    let devices = rig.devices();
    let context = Context::new(&devices).unwrap();
    let queue = context.queue(&devices[0], QueueOptions::default()).unwrap();
    let small = context.memory(8).unwrap();
    no_op(&queue, &small).wait().unwrap();
    let raw_ping = raw_ping_pong(spin);
    let ours = median(|| {
        let start = Instant::now();
        for _ in 0..ROUNDS {
            no_op(&queue, &small).wait().unwrap();
        }
        start.elapsed().as_secs_f64() * 1e6 / f64::from(ROUNDS)
    });
    println!(
        "raw TLS ping-pong {raw_ping:.1} us; a kernel of eight bytes {ours:.1} us: {:.2}x",
        ours / raw_ping
    );
    let chain = median(|| {
        let start = Instant::now();
        let mut last = None;
        for _ in 0..CHAIN {
            last = Some(no_op(&queue, &small));
        }
        last.unwrap().wait().unwrap();
        start.elapsed().as_secs_f64() * 1e6 / f64::from(CHAIN)
    });
    println!("a chain of {CHAIN}: {chain:.2} us each");
    if std::env::args().nth(2).is_some() {
        return;
    }
    let raw_rate = raw_bulk(spin);
    let large = context.memory(BULK as u64).unwrap();
    let mut bytes = vec![3_u8; BULK];
    let all = |mode| Access {
        memory: &large,
        offset: 0,
        length: BULK as u64,
        mode,
    };
    // SAFETY: the bytes are there, and not looked at, until each transfer is over, which is waited for.
    let host = unsafe { HostMemory::new(bytes.as_mut_ptr(), BULK, None) };
    let rate = |enqueue: &dyn Fn() -> quipu_scheduler::Event| {
        median(|| {
            let start = Instant::now();
            enqueue().wait().unwrap();
            BULK as f64 / start.elapsed().as_secs_f64() / 1e9
        })
    };
    let row = BULK as u64;
    let write = rate(&|| {
        queue
            .write(host.clone(), all(AccessMode::Overwrite), row, &[], &[])
            .unwrap()
    });
    let read = rate(&|| {
        queue
            .read(all(AccessMode::Read), host.clone(), row, &[], &[])
            .unwrap()
    });
    println!(
        "raw TLS stream {raw_rate:.2} GB/s; 64 MiB written {write:.2} ({:.2}x), read {read:.2} ({:.2}x)",
        write / raw_rate,
        read / raw_rate
    );
}
