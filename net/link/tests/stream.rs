//! Both directions of a connection at once, over loopback.
#![allow(clippy::unwrap_used, reason = "a promise that is not kept panics")]

use quipu_link::client::Dial;
use quipu_link::clock::SystemClock;
use quipu_link::compression::{Compression, Compressor, Traffic};
use quipu_link::connection::Connection;
use quipu_link::gate::{Arrival, Gate};
use quipu_link::invitation::Invitations;
use quipu_link::stream::{Duplex, Incoming, Interrupt, Loss, Outgoing};
use quipu_link::timer::ManualTimer;
use quipu_link::{Folder, Key, LinkError, Result};
use quipu_protocol::batch::Batch;
use quipu_protocol::compression::{Codec, LZ4, Packer, ZSTD};
use quipu_protocol::frame::Stream;
use quipu_protocol::limits::MIN_FRAME;
use quipu_protocol::message::*;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::channel;
use std::sync::{Arc, Condvar, Mutex};
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

/// As [`ends`], where the client reaches the node's address by way of another, and the node has features; and the node's
/// socket.
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

/// What a node says of the number.
fn done(event: u64) -> Message<'static> {
    let events = Box::leak(Box::new([Word::new(event)]));
    Message::Completed(Completed { events })
}

/// What a client says of it.
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

/// The system wakes who waits for a large frame when much of it has come: never for more than that it has.
#[test]
fn a_frame_of_any_length_comes_though_nothing_follows_it() {
    let (client, node) = ends();
    // Who looks for a while first may never have to be woken.
    let sleeping = Duplex {
        stream: Stream::Bulk,
        spin: Duration::ZERO,
        ..Duplex::default()
    };
    let (mut client_in, client_out) = client.split(sleeping).unwrap();
    let (mut node_in, node_out) = node.split(sleeping).unwrap();
    // Around what a record of TLS's holds, what is received at once and what that is worth, and any others.
    let mut random = 9_u64;
    let any = std::iter::repeat_with(|| {
        random = random.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(1);
        (random >> 33) % (1 << 19)
    });
    let around = (14..=19).flat_map(|bits| (-40..40).map(move |off| (1_u64 << bits) as i64 + off));
    let lengths: Vec<usize> = around
        .map(|length| length as usize)
        .chain(any.take(600).map(|length| length as usize))
        .collect();
    let bytes = vec![5; 1 << 20];
    let length_of = |incoming: &mut Incoming| {
        incoming.receive(|message, _| match message {
            Message::Chunk(chunk) => chunk.bytes.len(),
            other => panic!("{other:?}"),
        })
    };
    let say = |outgoing: &Outgoing, length: usize| {
        let chunk = Message::Chunk(Chunk {
            transfer: 1,
            offset: 0,
            bytes: &bytes[..length],
        });
        outgoing.send(&chunk).unwrap();
    };
    std::thread::scope(|scope| {
        let lengths = &lengths;
        scope.spawn(move || {
            for length in lengths {
                assert_eq!(length_of(&mut node_in).unwrap(), *length);
                say(&node_out, 1);
            }
        });
        for length in lengths {
            say(&client_out, *length);
            assert_eq!(length_of(&mut client_in).unwrap(), 1);
        }
    });
}

/// How much of what goes from client to node may pass.
struct Passing(Mutex<usize>, Condvar);

impl Passing {
    fn set(&self, bytes: usize) {
        *self.0.lock().unwrap() = bytes;
        self.1.notify_one();
    }

    /// A way to an address, on which it says how much passes.
    fn way_to(self: &Arc<Self>, address: &str) -> String {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let (own, own_address) = (self.clone(), listener.local_addr().unwrap().to_string());
        let address = address.to_owned();
        std::thread::spawn(move || {
            let mut from = listener.accept().unwrap().0;
            let mut to = TcpStream::connect(address).unwrap();
            let mut back = (to.try_clone().unwrap(), from.try_clone().unwrap());
            std::thread::spawn(move || std::io::copy(&mut back.0, &mut back.1));
            let mut bytes = vec![0; 1 << 16];
            while let Ok(read @ 1..) = from.read(&mut bytes) {
                let mut rest = &bytes[..read];
                while !rest.is_empty() {
                    let passing = own.0.lock().unwrap();
                    let mut passing = own.1.wait_while(passing, |passing| *passing == 0).unwrap();
                    let (now, later) = rest.split_at(rest.len().min(*passing));
                    *passing -= now.len();
                    drop(passing);
                    if to.write_all(now).is_err() {
                        return;
                    }
                    rest = later;
                }
            }
        });
        own_address
    }
}

/// A listener to whom segments come that are as short as networks', not as loopback's: whoever sleeps is not woken for each of them
/// as if it filled the window.
#[cfg(target_os = "linux")]
fn listen_for_short_segments() -> TcpListener {
    use std::os::fd::AsRawFd;
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let bytes: libc::c_int = 1448;
    // SAFETY: the value is there until the call returns, and of the size that is said.
    let set = unsafe {
        libc::setsockopt(
            listener.as_raw_fd(),
            libc::IPPROTO_TCP,
            libc::TCP_MAXSEG,
            (&raw const bytes).cast(),
            size_of::<libc::c_int>() as libc::socklen_t,
        )
    };
    assert_eq!(set, 0, "{}", std::io::Error::last_os_error());
    listener
}

/// Returns when so many bytes have come to a socket that nobody has taken.
#[cfg(target_os = "linux")]
fn wait_until_untaken(socket: &TcpStream, bytes: libc::c_int) {
    use std::os::fd::AsRawFd;
    let mut untaken = -1;
    while untaken != bytes {
        // SAFETY: it writes the number, which is there until the call returns.
        unsafe { libc::ioctl(socket.as_raw_fd(), libc::FIONREAD, &raw mut untaken) };
        std::thread::yield_now();
    }
}

/// How often a thread of this process has gone to sleep.
#[cfg(target_os = "linux")]
fn times_slept(thread: libc::pid_t) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/self/task/{thread}/status")).unwrap();
    let mut lines = status.lines();
    let slept = lines.find_map(|line| line.strip_prefix("voluntary_ctxt_switches:"));
    slept.unwrap().trim().parse().unwrap()
}

/// A receiver that finds some of what it waits for is not left waiting for as much again.
#[cfg(target_os = "linux")]
#[test]
fn a_frame_comes_of_which_some_had_come_before_anybody_waited() {
    // As much as TLS puts into a record, and what it adds.
    const RECORD: usize = (1 << 14) + 22;
    const LENGTH: usize = 1 << 17;
    let passing = Arc::new(Passing(Mutex::new(usize::MAX), Condvar::new()));
    let way = |address: &str| passing.way_to(address);
    let (client, node, socket) = ends_by(&listen_for_short_segments(), way, 0);
    let sleeping = Duplex {
        stream: Stream::Bulk,
        spin: Duration::ZERO,
        ..Duplex::default()
    };
    let (_client_in, client_out) = client.split(sleeping).unwrap();
    let (mut node_in, _node_out) = node.split(sleeping).unwrap();
    passing.set(RECORD);
    let bytes = vec![5; LENGTH];
    for bytes in [&bytes[..1], &bytes] {
        let chunk = Message::Chunk(Chunk {
            transfer: 1,
            offset: 0,
            bytes,
        });
        client_out.push(&chunk).unwrap();
    }
    client_out.flush();
    let (taking, taken) = channel();
    let goes_on = Arc::new(AtomicBool::new(false));
    let own = goes_on.clone();
    std::thread::spawn(move || {
        // SAFETY: it takes nothing.
        let thread = unsafe { libc::gettid() };
        for _ in 0..2 {
            let taken = node_in.receive(|message, _| match message {
                Message::Chunk(chunk) => {
                    taking.send((thread, chunk.bytes.len())).unwrap();
                    // Awake, so that it sleeps next where it waits for more.
                    while !own.load(Ordering::Acquire) {
                        std::hint::spin_loop();
                    }
                }
                other => panic!("{other:?}"),
            });
            taken.unwrap();
        }
    });
    // The first frame, and with it the beginning of the second.
    let (thread, length) = taken.recv_timeout(PATIENCE).unwrap();
    assert_eq!(length, 1);
    // More comes, but less than is worth a wake.
    passing.set(60_000);
    wait_until_untaken(&socket, 60_000);
    let slept = times_slept(thread);
    goes_on.store(true, Ordering::Release);
    while times_slept(thread) == slept {
        std::thread::yield_now();
    }
    // And then all else, which is less, too.
    passing.set(usize::MAX);
    let (_, length) = taken.recv_timeout(PATIENCE).unwrap();
    assert_eq!(length, LENGTH);
}

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
    // Who floods does not read, and so learns of the end when nobody has the socket any more.
    drop((incoming, outgoing));
    flood.join().unwrap();
}

/// What becomes of an end to which these messages are sent.
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
fn what_is_compressed_without_an_agreement_ends_it() {
    let bytes = [7; 1000];
    let chunk = Message::Chunk(Chunk {
        transfer: 1,
        offset: 0,
        bytes: &bytes,
    });
    let mut packer = Packer::default();
    for codec in Codec::ALL {
        for features in [0, LZ4, ZSTD, LZ4 | ZSTD] {
            let (mut client, node) = ends_that_have(features);
            let (mut incoming, outgoing) = split_bulk(node);
            let is_agreed = outgoing.codecs().have(codec);
            assert_eq!(is_agreed, features & codec.feature() != 0);
            let mut batch = Batch::new(MIN_FRAME);
            let packed = packer.pack(&chunk, codec).unwrap().unwrap();
            batch.push_packed(&packed, 1).unwrap();
            client.send_batch(&batch).unwrap();
            let received = incoming.receive(|message, _| assert_eq!(message, &chunk));
            match received {
                Ok(()) => assert!(is_agreed),
                Err(error) => {
                    assert!(
                        !is_agreed && matches!(error, LinkError::Wire { .. }),
                        "{error}"
                    );
                }
            }
        }
    }
}

/// What a client and a node send of 60,000 bytes each for whom the other has these features, with all of them received.
fn sent_of(bytes: &[u8], features: u64, compression: Compression) -> [u64; 2] {
    let (client, node) = ends_that_have(features);
    let ends = [split_bulk(client), split_bulk(node)];
    let mut sent = [0; 2];
    for (own, sent) in sent.iter_mut().enumerate() {
        let traffic = Arc::<Traffic>::default();
        let timer = Arc::new(ManualTimer::default());
        let out = ends[own].1.clone();
        let mut compressor = Compressor::new(out, compression, timer, traffic.clone());
        compressor
            .push(Chunk {
                transfer: 1,
                offset: 0,
                bytes,
            })
            .unwrap();
        compressor.wait_for_room(1 << 20).unwrap();
        *sent = traffic.bytes()[1];
    }
    for (mut incoming, _outgoing) in ends {
        let received = incoming.receive(|message, _| match message {
            Message::Chunk(chunk) => assert!(chunk.bytes == bytes),
            other => panic!("{other:?}"),
        });
        received.unwrap();
    }
    sent
}

/// A client or a node that is older than a codec, or than both, gets what it takes.
#[test]
fn what_the_other_side_does_not_take_is_not_sent() {
    // Bytes that only Zstandard makes shorter, and bytes that both do.
    let mut random = 1_u64;
    let mut next = || {
        random = random.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(1);
        (random >> 56) as u8 & 15
    };
    let noise: Vec<u8> = (0..60_000).map(|_| next()).collect();
    let steps: Vec<u8> = (0..60_000).map(|at| (at / 100) as u8).collect();
    let is_shorter = |bytes: &[u8], features, compression| {
        let sent = sent_of(bytes, features, compression);
        let is_shorter = sent.map(|sent| sent < bytes.len() as u64 * 3 / 4);
        assert_eq!(is_shorter[0], is_shorter[1]);
        is_shorter[0]
    };
    for features in [0, LZ4, ZSTD, LZ4 | ZSTD] {
        let (lz4, zstd) = (features & LZ4 != 0, features & ZSTD != 0);
        assert!(!is_shorter(&noise, features, Compression::Lz4));
        assert_eq!(is_shorter(&steps, features, Compression::Lz4), lz4);
        assert_eq!(is_shorter(&noise, features, Compression::Zstd), zstd);
        assert_eq!(is_shorter(&steps, features, Compression::Zstd), lz4 | zstd);
        assert!(!is_shorter(&steps, features, Compression::Off));
    }
}

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

#[test]
fn what_the_other_side_does_not_send_here_ends_it() {
    let chunk = Message::Chunk(Chunk {
        transfer: 1,
        offset: 0,
        bytes: &[1],
    });
    // A client's word from a node; what belongs to the other stream; a hello in the middle.
    for (message, sequence) in [(free(1), 1), (chunk, 1), (Message::StatusRequest, 0)] {
        let (came, error) = after(&[(message, sequence)]);
        assert!(came.is_empty());
        assert!(matches!(error, LinkError::Wire { .. }), "{error}");
        assert!(error.to_string().contains("does not send it"), "{error}");
    }
}

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

/// What is sent again was compressed as the first connection's sides had agreed.
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
fn who_receives_can_be_interrupted_and_loses_nothing() {
    let (client, node) = ends();
    let [(mut incoming, _client_out), (_node_in, node_out)] = [client, node].map(split);
    let interrupt = Arc::new(Interrupt::new().unwrap());
    let stops = Arc::new(AtomicBool::new(false));
    for round in 0..200_u64 {
        stops.store(false, Ordering::SeqCst);
        let (own, told) = (interrupt.clone(), stops.clone());
        let raising = std::thread::spawn(move || {
            told.store(true, Ordering::SeqCst);
            own.raise();
        });
        let mut rests = 0;
        let came = incoming.receive_while(
            &mut rests,
            |_, _, number| number,
            |rests| *rests += 1,
            &interrupt,
            &|| (!stops.load(Ordering::SeqCst)).then_some(Duration::MAX),
        );
        assert_eq!(came.unwrap(), None);
        assert!(rests > 0);
        raising.join().unwrap();
        // What comes is had by the next who receives, however he does.
        let event = [Word::new(round + 1)];
        node_out
            .send(&Message::Completed(Completed { events: &event }))
            .unwrap();
        let number = match round % 2 {
            0 => incoming.receive(|_, number| Some(number)),
            _ => incoming.receive_while(
                &mut (),
                |(), _, number| number,
                |()| (),
                &interrupt,
                &|| Some(Duration::MAX),
            ),
        };
        assert_eq!(number.unwrap(), Some(round + 1));
    }
}

/// After how long without a byte a connection is lost, in what follows; the time that tells it, and how much passes at a time.
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
        // What one side has sent has reached the other before more time passes, however late the system runs their threads.
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
            // What has come and was not read says that somebody is there, whoever is busy here.
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
