//! Wake-ups: a thread that sleeps in a receive is woken by a whole frame, and by an interrupt.

use super::{PATIENCE, ends, ends_by, split};
use quipu_link::stream::{Duplex, Incoming, Interrupt, Outgoing};
use quipu_protocol::frame::Stream;
use quipu_protocol::message::*;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::channel;
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

/// The system wakes the thread that waits for a large frame when much of it has come: never for
/// more than that it has.
#[test]
fn a_frame_of_any_length_comes_though_nothing_follows_it() {
    let (client, node) = ends();
    // A thread that looks for a while first may never have to be woken.
    let sleeping = Duplex {
        stream: Stream::Bulk,
        spin: Duration::ZERO,
        ..Duplex::default()
    };
    let (mut client_in, client_out) = client.split(sleeping).unwrap();
    let (mut node_in, node_out) = node.split(sleeping).unwrap();
    // Around the length of a record of TLS, the length that is received at once and the threshold
    // of a wake-up, and any others.
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

/// The number of bytes from client to node that may pass.
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

/// A listener that gets segments as short as networks', not as loopback's: a sleeping thread is not
/// woken for each of them as if it filled the window.
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

/// Returns when so many bytes have come to a socket and were not taken.
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

/// The number of times that a thread of this process has gone to sleep.
#[cfg(target_os = "linux")]
fn times_slept(thread: libc::pid_t) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/self/task/{thread}/status")).unwrap();
    let mut lines = status.lines();
    let slept = lines.find_map(|line| line.strip_prefix("voluntary_ctxt_switches:"));
    slept.unwrap().trim().parse().unwrap()
}

/// A receiver that finds some of its frame is not left waiting for as much again.
#[cfg(target_os = "linux")]
#[test]
fn a_frame_comes_of_which_some_had_come_before_anybody_waited() {
    // As many bytes as TLS puts into a record, and those that it adds.
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
        // The next call to receive, of any kind, gets the message.
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
