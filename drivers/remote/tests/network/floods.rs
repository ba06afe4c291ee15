//! Connections without end from one address, of each kind that costs a node something. A client
//! from another address gets in at the first attempt, however far away it is. So does a client from
//! the same one, if these connections say nothing that a client says.

use crate::site::{PORT, Served, Site, like};
use crate::support::rounds;
use crate::watchdog;
use quipu_lab_network::{Machine, Shape, Switch};
use quipu_link::client::Dial;
use quipu_link::{Fingerprint, Key, Route};
use quipu_protocol::message::SessionId;
use quipu_scheduler::Device;
use std::collections::VecDeque;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Ipv4Addr, SocketAddrV4, TcpListener, TcpStream};
use std::os::fd::FromRawFd;
use std::process::{Child, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// To where connections are made; that this process makes them.
const FLOOD: &str = "QUIPU_TEST_FLOOD";
/// Their words.
const WORDS: &str = "QUIPU_TEST_WORDS";

/// Connections in a second, if the machine gives them.
const RATE: u64 = 10_000;

/// Connections that are there at a time: more than a node has places for, and for who waits.
const HELD: usize = 1000;

/// Connections whose handshakes may yet go on.
const BEGUN: usize = 50;

/// A flood that has had fewer than some thousand has shown nothing.
fn enough() -> u64 {
    1000 * rounds(4)
}

const SILENCE: &str = "silence";
const NONSENSE: &str = "nonsense";
const HELLO: &str = "a client's hello";
const EARLY: &str = "the name of a session that never comes";

/// Of the node and of the flood, apart from the relay's.
const NODE: Ipv4Addr = Ipv4Addr::new(10, 8, 0, 1);
const STRANGER: Ipv4Addr = Ipv4Addr::new(10, 8, 0, 2);

/// The origin of a flood.
struct Stranger {
    machine: Machine,
    _switch: Switch,
}

impl Stranger {
    fn of(node: &Served) -> Self {
        let (switch, machine) = (Switch::new().unwrap(), Machine::new().unwrap());
        switch.attach(&node.machine, NODE, None).unwrap();
        switch.attach(&machine, STRANGER, None).unwrap();
        Self {
            machine,
            _switch: switch,
        }
    }

    /// Begins to connect, and to say this.
    fn flood(&self, words: &str) -> Flood {
        let mut command = self.machine.command(std::env::current_exe().unwrap());
        command.args(like("floods::flooder")).env(WORDS, words);
        command.env(FLOOD, format!("{NODE}:{PORT}"));
        Flood::of(command.stdout(Stdio::piped()).spawn().unwrap())
    }
}

struct Flood {
    process: Child,
    /// Connections so far.
    count: Arc<AtomicU64>,
}

/// The count of a flood that has ended.
const ENDED: u64 = u64::MAX;

impl Flood {
    fn of(mut process: Child) -> Self {
        let lines = BufReader::new(process.stdout.take().unwrap()).lines();
        let count = Arc::new(AtomicU64::new(0));
        let counted = Arc::clone(&count);
        std::thread::spawn(move || {
            for number in lines
                .map_while(Result::ok)
                .filter_map(|line| line.parse().ok())
            {
                counted.store(number, Ordering::Relaxed);
            }
            counted.store(ENDED, Ordering::Relaxed);
        });
        Self { process, count }
    }

    fn count(&self) -> u64 {
        let count = self.count.load(Ordering::Relaxed);
        assert_ne!(count, ENDED, "the flood has ended by itself");
        count
    }

    /// Has clients connect during all of it, one after the other.
    fn outlasted_by(self, words: &str, connect: impl Fn() -> Vec<Device>) {
        while self.count() == 0 {
            std::thread::yield_now();
        }
        let enough = enough();
        while self.count() < enough {
            let (start, before) = (Instant::now(), self.count());
            let devices = connect();
            let (took, others) = (start.elapsed(), self.count() - before);
            println!("{words}: connected in {took:?}, {others} others meanwhile");
            assert_eq!(devices.len(), 1);
        }
    }
}

impl Drop for Flood {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

#[test]
fn who_comes_from_elsewhere_gets_in_while_one_address_connects_without_end() {
    let _watchdog = watchdog("a flood");
    let Some(site) = Site::new(17, 1) else {
        return;
    };
    let stranger = Stranger::of(&site.nodes[0]);
    site.link.shape(Shape::delayed(Duration::from_millis(100)));
    let connect = || site.devices(0).unwrap();
    let before = Instant::now();
    let alone = connect();
    println!("connected in {:?}, alone", before.elapsed());
    drop(alone);
    for words in [SILENCE, NONSENSE, HELLO, EARLY] {
        stranger.flood(words).outlasted_by(words, connect);
    }
}

#[test]
fn who_comes_from_where_others_connect_and_say_no_hello_gets_in() {
    let _watchdog = watchdog("a flood from a client's address");
    let Some(site) = Site::new(18, 1) else {
        return;
    };
    let stranger = Stranger::of(&site.nodes[0]);
    for words in [SILENCE, NONSENSE] {
        stranger.flood(words).outlasted_by(words, || {
            let address = format!("{NODE}:{PORT}");
            site.devices_from(&stranger.machine, 0, &address).unwrap()
        });
    }
}

/// A client's first message.
fn client_hello() -> Vec<u8> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let address = listener.local_addr().unwrap().to_string();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let dial = Dial {
                address: &address,
                node: Fingerprint::of_bytes([0; 32]),
                key: &Key::passing().unwrap(),
                name: "flood",
                patience: Duration::from_secs(600),
            };
            dial.open().unwrap_err();
        });
        let mut hello = vec![0; 1 << 14];
        let length = listener.accept().unwrap().0.read(&mut hello).unwrap();
        hello.truncate(length);
        hello
    })
}

/// Begins to connect, and waits for nothing. When it is dropped, the other side is told that the
/// connection is over, and no port is kept for it.
fn begin(to: SocketAddrV4) -> Option<TcpStream> {
    let address = libc::sockaddr_in {
        sin_family: libc::AF_INET as libc::sa_family_t,
        sin_port: to.port().to_be(),
        sin_addr: libc::in_addr {
            s_addr: to.ip().to_bits().to_be(),
        },
        sin_zero: [0; 8],
    };
    let at_once = libc::linger {
        l_onoff: 1,
        l_linger: 0,
    };
    // SAFETY: they take numbers, and places of their sizes that are there until they return. The
    // socket is new, and nobody else's.
    unsafe {
        let kind = libc::SOCK_STREAM | libc::SOCK_NONBLOCK | libc::SOCK_CLOEXEC;
        let socket = libc::socket(libc::AF_INET, kind, 0);
        if socket < 0 {
            return None;
        }
        let stream = TcpStream::from_raw_fd(socket);
        let (level, size) = (libc::SOL_SOCKET, size_of_val(&at_once) as libc::socklen_t);
        libc::setsockopt(
            socket,
            level,
            libc::SO_LINGER,
            (&raw const at_once).cast(),
            size,
        );
        let size = size_of_val(&address) as libc::socklen_t;
        libc::connect(socket, (&raw const address).cast(), size);
        Some(stream)
    }
}

/// Not a test: what connects without end.
#[test]
#[ignore = "a flood, started by the tests"]
fn flooder() {
    let Some(to) = std::env::var_os(FLOOD) else {
        return;
    };
    let to: SocketAddrV4 = to.to_str().unwrap().parse().unwrap();
    let words = std::env::var(WORDS).unwrap();
    // SAFETY: they take numbers, and a place that is there until the call returns.
    unsafe {
        libc::setpriority(libc::PRIO_PROCESS, 0, 19);
        let files = libc::rlimit {
            rlim_cur: 4096,
            rlim_max: 4096,
        };
        assert_eq!(libc::setrlimit(libc::RLIMIT_NOFILE, &raw const files), 0);
    }
    let hello = match &*words {
        SILENCE => Vec::new(),
        NONSENSE => vec![b'x'; 100],
        HELLO => client_hello(),
        EARLY => Route::to(SessionId([7; 16])).encode_early(true).to_vec(),
        _ => panic!("{words}"),
    };
    let (mut begun, mut held) = (VecDeque::new(), VecDeque::new());
    let start = Instant::now();
    println!();
    for number in 1_u64.. {
        while number > start.elapsed().as_millis() as u64 * RATE / 1000 {
            std::thread::sleep(Duration::from_millis(1));
        }
        begun.extend(begin(to));
        if begun.len() > BEGUN {
            let mut one: TcpStream = begun.pop_front().unwrap();
            let _ = one.write_all(&hello);
            held.push_back(one);
        }
        if held.len() > HELD {
            held.pop_front();
        }
        if number % 100 == 0 {
            println!("{number}");
        }
    }
}
