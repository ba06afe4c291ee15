//! A network that loses connections: passes bytes on, and cuts each connection after so many,
//! wherever that is: in a handshake, in a frame, between two, on either side first.

use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::thread::JoinHandle;

/// The fate of connections that come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Way {
    /// They go on until they are closed.
    Open,
    /// They are cut after a random number of bytes, whose logarithm to base two is anything between
    /// these.
    Cutting(u32, u32),
    /// They are cut at once.
    Closed,
    /// They are taken, and nobody ever says anything on them.
    Silent,
}

/// The messages that wait at the relay.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Held {
    Nothing,
    All,
    /// All messages of the node.
    Answers,
    /// The messages of the node on all connections but the first, which are for the bulk stream
    /// where there is one session.
    Bulk,
}

/// See the module.
pub(crate) struct Relay {
    pub(crate) address: String,
    shared: Arc<Shared>,
    /// Takes connections, while it does.
    listening: Mutex<Option<JoinHandle<()>>>,
}

struct Shared {
    /// No connection is taken any more.
    is_finished: AtomicBool,
    to: Mutex<String>,
    /// Bytes that were passed on, both ways.
    bytes: AtomicU64,
    held: Mutex<Held>,
    released: Condvar,
    /// Connections that have come, and how many of these pass nothing on any more.
    came: AtomicU64,
    stuck: AtomicU64,
    way: Mutex<(Way, u64)>,
    cuts: AtomicUsize,
    /// Connections that came to nothing.
    refused: AtomicUsize,
    /// Both sides of each connection, while somebody may want to cut them.
    connections: Mutex<Vec<[TcpStream; 2]>>,
}

impl Relay {
    /// A relay to an address, open.
    pub(crate) fn to(address: &str, seed: u64) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let own = listener.local_addr().unwrap().to_string();
        let shared = Arc::new(Shared {
            is_finished: AtomicBool::new(false),
            to: Mutex::new(address.to_owned()),
            bytes: AtomicU64::new(0),
            held: Mutex::new(Held::Nothing),
            released: Condvar::new(),
            came: AtomicU64::new(0),
            stuck: AtomicU64::new(0),
            way: Mutex::new((Way::Open, seed)),
            cuts: AtomicUsize::new(0),
            refused: AtomicUsize::new(0),
            connections: Mutex::default(),
        });
        // It ends with the test's process.
        let listening = Mutex::new(Some(listen(&shared, listener)));
        Self {
            address: own,
            shared,
            listening,
        }
    }

    /// Cuts all connections and listens no more, as one whose process has ended.
    pub(crate) fn end(&self) {
        self.shared.is_finished.store(true, Ordering::SeqCst);
        // It waits for somebody to come.
        drop(TcpStream::connect(&self.address));
        let listening = self.listening.lock().unwrap().take();
        listening.map_or(Ok(()), JoinHandle::join).unwrap();
        self.cut();
    }

    /// Listens again where it did.
    pub(crate) fn start_anew(&self) {
        self.shared.is_finished.store(false, Ordering::SeqCst);
        // Meanwhile the system may have given its port to a connection of somebody else's.
        let listener = loop {
            match TcpListener::bind(&self.address) {
                Err(error) if error.kind() == ErrorKind::AddrInUse => std::thread::yield_now(),
                bound => break bound.unwrap(),
            }
        };
        *self.listening.lock().unwrap() = Some(listen(&self.shared, listener));
    }

    /// A relay that leads nowhere yet.
    pub(crate) fn nowhere(seed: u64) -> Self {
        Self::to("", seed)
    }

    /// Sets the address that it leads to from now on.
    pub(crate) fn lead_to(&self, address: &str) {
        address.clone_into(&mut self.shared.to.lock().unwrap());
    }

    /// Bytes that were passed on, both ways.
    pub(crate) fn bytes(&self) -> u64 {
        self.shared.bytes.load(Ordering::SeqCst)
    }

    /// Sets the messages that are not passed on for now.
    pub(crate) fn hold(&self, held: Held) {
        *self.shared.held.lock().unwrap() = held;
        self.shared.released.notify_all();
    }

    /// Sets the fate of connections from now on. Those that are there are cut.
    pub(crate) fn set(&self, way: Way) {
        self.shared.way.lock().unwrap().0 = way;
        self.cut();
    }

    /// The connections that there are stay, and pass nothing on any more. Others do.
    pub(crate) fn stop(&self) {
        let came = self.shared.came.load(Ordering::SeqCst);
        self.shared.stuck.store(came, Ordering::SeqCst);
    }

    /// Cuts all connections.
    pub(crate) fn cut(&self) {
        for pair in self.shared.connections.lock().unwrap().drain(..) {
            self.shared.cuts.fetch_add(1, Ordering::SeqCst);
            cut(&pair);
        }
    }

    /// The number of connections that came to nothing.
    pub(crate) fn refused(&self) -> usize {
        self.shared.refused.load(Ordering::SeqCst)
    }

    /// The number of connections that were cut.
    pub(crate) fn cuts(&self) -> usize {
        self.shared.cuts.load(Ordering::SeqCst)
    }
}

fn listen(shared: &Arc<Shared>, listener: TcpListener) -> JoinHandle<()> {
    let shared = shared.clone();
    std::thread::spawn(move || {
        for stream in listener.incoming().map_while(Result::ok) {
            if shared.is_finished.load(Ordering::SeqCst) {
                return;
            }
            pass_on(&shared, stream);
        }
    })
}

fn cut(pair: &[TcpStream; 2]) {
    for side in pair {
        let _ = side.shutdown(Shutdown::Both);
    }
}

fn pass_on(shared: &Arc<Shared>, client: TcpStream) {
    let mut way = shared.way.lock().unwrap();
    let budget = match way.0 {
        Way::Open => i64::MAX,
        Way::Closed => {
            shared.refused.fetch_add(1, Ordering::SeqCst);
            return;
        }
        Way::Silent => {
            // Kept, also when others are cut.
            std::mem::forget(client);
            shared.refused.fetch_add(1, Ordering::SeqCst);
            return;
        }
        Way::Cutting(least, most) => {
            // Numbers that look random, most of them small.
            way.1 = way.1.wrapping_add(0x9e37_79b9_7f4a_7c15);
            let mut z = way.1;
            z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
            z ^= z >> 31;
            let below = 1_u64 << (u64::from(least) + z % u64::from(most - least));
            (below + (z >> 8) % below) as i64
        }
    };
    let Ok(node) = TcpStream::connect(&*shared.to.lock().unwrap()) else {
        return;
    };
    let _ = (client.set_nodelay(true), node.set_nodelay(true));
    let pair = || [client.try_clone().unwrap(), node.try_clone().unwrap()];
    // Under the lock: nobody sets another way in between.
    let mut connections = shared.connections.lock().unwrap();
    let is_first = connections.is_empty();
    connections.push(pair());
    drop((connections, way));
    let number = shared.came.fetch_add(1, Ordering::SeqCst);
    let left = Arc::new(AtomicI64::new(budget));
    for (mut from, mut to, is_answer) in [
        (
            client.try_clone().unwrap(),
            node.try_clone().unwrap(),
            false,
        ),
        (node.try_clone().unwrap(), client.try_clone().unwrap(), true),
    ] {
        let (left, pair, shared) = (left.clone(), pair(), shared.clone());
        std::thread::spawn(move || {
            let mut bytes = vec![0; 1 << 16];
            while let Ok(length @ 1..) = from.read(&mut bytes) {
                let held = shared.held.lock().unwrap();
                let is_held = |held: &mut Held| match held {
                    Held::Nothing => false,
                    Held::All => true,
                    Held::Answers => is_answer,
                    Held::Bulk => is_answer && !is_first,
                };
                drop(shared.released.wait_while(held, is_held).unwrap());
                if number < shared.stuck.load(Ordering::SeqCst) {
                    // Nothing is closed, as by a program that was stopped.
                    loop {
                        std::thread::park();
                    }
                }
                let before = left.fetch_sub(length as i64, Ordering::SeqCst);
                let allowed = before.clamp(0, length as i64) as usize;
                shared.bytes.fetch_add(allowed as u64, Ordering::SeqCst);
                let written = to.write_all(&bytes[..allowed]);
                if allowed < length {
                    shared
                        .cuts
                        .fetch_add(usize::from(before > 0), Ordering::SeqCst);
                    return cut(&pair);
                }
                if written.is_err() {
                    break;
                }
            }
            let _ = to.shutdown(Shutdown::Write);
        });
    }
}
