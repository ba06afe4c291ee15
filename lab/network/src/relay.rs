//! A relay: this program passes packets on between machines, and can delay, lose and damage them as
//! networks do.
//!
//! Each machine's interface is one whose packets are read from a file and written to it (`tun`).
//! One thread reads them, decides by each link's shape when a packet arrives, if it does, and
//! writes it then. A packet passes two links: that of the machine it comes from, and that of the
//! one it goes to. What goes to several machines goes to all others.
//!
//! Loss is loss of packets: TCP, in the machines' namespaces, sends them again.

use crate::interface;
use crate::lane::{Lane, Random, Shape};
use crate::machine::Machine;
use crate::packet::{End, Segment, destination, reset};
use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap, HashSet};
use std::fs::File;
use std::io::{self, Read, Write};
use std::net::Ipv4Addr;
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Packets that are read from one machine before the next has its turn.
const TURN: usize = 64;

/// See the module. It ends when it is dropped, and nothing gets anywhere from then on.
#[derive(Debug)]
pub struct Relay {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

/// A machine's link to a relay.
#[derive(Debug)]
pub struct Link {
    shared: Arc<Shared>,
    machine: Machine,
    interface: String,
    port: usize,
}

#[derive(Debug)]
struct Shared {
    state: Mutex<State>,
    /// Has the thread look again.
    wake: UnixStream,
}

#[derive(Debug)]
struct State {
    ports: Vec<Port>,
    /// The packets on their way, the next to arrive first.
    travelling: BinaryHeap<Reverse<Parcel>>,
    sent: u64,
    random: Random,
    /// Connections, by their ends in order, and what each end expects next.
    connections: HashMap<(End, End), Connection>,
    /// The number of them that were reset.
    resets: u64,
    /// Ports, in order, between which nothing gets through.
    parted: HashSet<(usize, usize)>,
    is_finished: bool,
}

#[derive(Debug)]
struct Port {
    file: Arc<File>,
    address: Ipv4Addr,
    shape: Shape,
    is_cut: bool,
    up: Lane,
    down: Lane,
}

#[derive(Debug, Default)]
struct Connection {
    /// The numbers that the ends, in order, expect next of each other.
    expect: [Option<u32>; 2],
    /// The numbers that they would expect, had they said so since the last packet that arrived: an
    /// end that has moved does not get to say so.
    arrived: [Option<u32>; 2],
    /// Nothing of it is passed on any more.
    is_reset: bool,
}

#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Parcel {
    at: Duration,
    /// The number of a packet among those that arrive at a time.
    number: u64,
    to: usize,
    /// It is at the link of the machine that it goes to, and not yet through it.
    is_at_link: bool,
    bytes: Vec<u8>,
}

fn locked(shared: &Shared) -> MutexGuard<'_, State> {
    shared.state.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Relay {
    /// A relay without machines. What it does at random, a seed says.
    ///
    /// # Errors
    /// If the system gives no thread.
    pub fn new(seed: u64) -> io::Result<Self> {
        let (wake, woken) = UnixStream::pair()?;
        wake.set_nonblocking(true)?;
        woken.set_nonblocking(true)?;
        let state = State {
            ports: Vec::new(),
            travelling: BinaryHeap::new(),
            sent: 0,
            random: Random(seed),
            connections: HashMap::new(),
            resets: 0,
            parted: HashSet::new(),
            is_finished: false,
        };
        let shared = Arc::new(Shared {
            state: Mutex::new(state),
            wake,
        });
        let of_thread = shared.clone();
        let thread = std::thread::Builder::new().name("lab-relay".to_owned());
        let thread = thread.spawn(move || pass_on(&of_thread, woken))?;
        Ok(Self {
            shared,
            thread: Some(thread),
        })
    }

    /// Gives a machine a link, and with it an address. Machines whose addresses agree in the first
    /// 24 bits reach each other.
    ///
    /// # Errors
    /// If the system gives no such interface.
    pub fn attach(&self, machine: &Machine, address: Ipv4Addr, shape: Shape) -> io::Result<Link> {
        static INTERFACES: AtomicUsize = AtomicUsize::new(0);
        let interface = format!("air{}", INTERFACES.fetch_add(1, Ordering::Relaxed));
        let file = machine.enter(|| {
            let file = interface::tun(&interface)?;
            interface::set_address(&interface, address)?;
            interface::up(&interface)?;
            Ok::<_, io::Error>(file)
        });
        let file =
            file.map_err(|error| io::Error::other(format!("an interface (tun): {error}")))?;
        let mut state = locked(&self.shared);
        let port = state.ports.len();
        state.ports.push(Port {
            file: Arc::new(file),
            address,
            shape,
            is_cut: false,
            up: Lane::default(),
            down: Lane::default(),
        });
        drop(state);
        self.shared.look();
        Ok(Link {
            shared: self.shared.clone(),
            machine: machine.clone(),
            interface,
            port,
        })
    }
}

impl Relay {
    /// The number of connections that were reset.
    #[must_use]
    pub fn resets(&self) -> u64 {
        locked(&self.shared).resets
    }

    /// The number of times that a packet has gone on: for who does something at some moment of what
    /// others say.
    #[must_use]
    pub fn packets(&self) -> u64 {
        locked(&self.shared).sent
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        locked(&self.shared).is_finished = true;
        self.shared.look();
        if let Some(thread) = self.thread.take() {
            // Its panic has said what it might say.
            let _ = thread.join();
        }
        // The interfaces go with their files.
        locked(&self.shared).ports.clear();
    }
}

impl Link {
    /// Changes how the link is.
    pub fn shape(&self, shape: Shape) {
        self.with(|port| port.shape = shape);
    }

    /// Nothing gets through any more, in either direction, nor does what is on its way. Nobody is
    /// told.
    pub fn cut(&self) {
        self.with(|port| port.is_cut = true);
    }

    /// It goes on, with what is sent from now on.
    pub fn restore(&self) {
        self.with(|port| port.is_cut = false);
    }

    /// All TCP connections over this link are over, and both ends are told, as by a router that was
    /// started anew: at once, and again when they send. Others can be made.
    pub fn reset(&self) {
        let mut state = locked(&self.shared);
        if let Some(address) = state.ports.get(self.port).map(|port| port.address) {
            state.reset(|(one, other)| one.0 == address || other.0 == address);
        }
        drop(state);
        self.shared.look();
    }

    /// As [`Link::reset`] and [`Link::cut`], at once: who is told that a connection is over makes
    /// no other.
    pub fn sever(&self) {
        let mut state = locked(&self.shared);
        if let Some(port) = state.ports.get_mut(self.port) {
            port.is_cut = true;
            let address = port.address;
            state.reset(|(one, other)| one.0 == address || other.0 == address);
        }
        drop(state);
        self.shared.look();
    }

    /// Nothing of what is sent from now on gets through between two machines, or it does again:
    /// both reach all others. Nobody is told.
    pub fn part_from(&self, other: &Link, is_apart: bool) {
        let ports = (self.port.min(other.port), self.port.max(other.port));
        let mut state = locked(&self.shared);
        if is_apart {
            state.parted.insert(ports);
        } else {
            state.parted.remove(&ports);
        }
    }

    /// As [`Link::part_from`], and connections between the two are over, as [`Link::reset`] has it.
    pub fn sever_from(&self, other: &Link) {
        self.part_from(other, true);
        let mut state = locked(&self.shared);
        let addresses =
            [self.port, other.port].map(|port| state.ports.get(port).map(|it| it.address));
        if let [Some(own), Some(others)] = addresses {
            let both = (own.min(others), own.max(others));
            state.reset(|(one, other)| (one.0.min(other.0), one.0.max(other.0)) == both);
        }
        drop(state);
        self.shared.look();
    }

    /// The machine has another address from now on. Nobody tells those that know the old one, on
    /// either side.
    ///
    /// # Errors
    /// If the system takes no such address.
    pub fn move_to(&self, address: Ipv4Addr) -> io::Result<()> {
        let set = || interface::set_address(&self.interface, address);
        self.machine.enter(set)?;
        self.with(|port| port.address = address);
        Ok(())
    }

    fn with(&self, act: impl FnOnce(&mut Port)) {
        // None, when the relay is gone.
        if let Some(port) = locked(&self.shared).ports.get_mut(self.port) {
            act(port);
        }
        self.shared.look();
    }
}

impl Shared {
    fn look(&self) {
        // A full list already says that there is something to look at.
        let _ = (&self.wake).write(&[0]);
    }
}

impl State {
    /// A packet has left the machine of a port.
    fn leaves(&mut self, from: usize, now: Duration, mut bytes: Vec<u8>) {
        let Some(address) = destination(&bytes) else {
            // It speaks of neighbours, in IPv6: there are none.
            return;
        };
        let segment = Segment::of(&bytes);
        if let Some(segment) = &segment
            && self.is_reset(segment)
        {
            return;
        }
        if let Some(segment) = &segment
            && self.random.happens(self.ports[from].shape.resets)
        {
            self.reset(|ends| *ends == segment.ends());
            return;
        }
        let (port, random) = (&mut self.ports[from], &mut self.random);
        if port.is_cut {
            return;
        }
        let Some(at) = port.up.admit(now, bytes.len(), &port.shape, random) else {
            return;
        };
        if let Some(segment) = &segment
            && random.happens(port.shape.damage)
        {
            segment.damage(&mut bytes, random.next());
        }
        let to_all = address.is_multicast() || address.is_broadcast();
        for to in 0..self.ports.len() {
            let is_apart = self.parted.contains(&(from.min(to), from.max(to)));
            if to != from && !is_apart && (to_all || self.ports[to].address == address) {
                self.travels(at, to, true, bytes.clone());
            }
        }
    }

    fn travels(&mut self, at: Duration, to: usize, is_at_link: bool, bytes: Vec<u8>) {
        self.sent += 1;
        self.travelling.push(Reverse(Parcel {
            at,
            number: self.sent,
            to,
            is_at_link,
            bytes,
        }));
    }

    /// Everything arrives that should have by now. When the next does.
    fn arrive(&mut self, now: Duration) -> Option<Duration> {
        while let Some(Reverse(next)) = self.travelling.peek() {
            if next.at > now {
                return Some(next.at);
            }
            let Reverse(parcel) = self.travelling.pop()?;
            let (to, mut bytes) = (parcel.to, parcel.bytes);
            let (port, random) = (&mut self.ports[to], &mut self.random);
            if port.is_cut {
                continue;
            }
            if !parcel.is_at_link {
                // Packets that the machine has no room for are lost.
                let written = (&*port.file).write(&bytes);
                if written.is_ok()
                    && let Some(segment) = Segment::of(&bytes)
                {
                    self.arrived(&segment);
                }
                continue;
            }
            let Some(at) = port.down.admit(parcel.at, bytes.len(), &port.shape, random) else {
                continue;
            };
            if random.happens(port.shape.damage)
                && let Some(segment) = Segment::of(&bytes)
            {
                segment.damage(&mut bytes, random.next());
            }
            self.travels(at, to, false, bytes);
        }
        None
    }

    /// Notes what a segment says of its connection. True if that is over: then its sender is told.
    fn is_reset(&mut self, segment: &Segment) -> bool {
        let (from, to, ends) = (segment.from, segment.to, segment.ends());
        let side = usize::from(from > to);
        let connection = self.connections.entry(ends).or_default();
        if segment.begins {
            // Another one, of the same ends.
            *connection = Connection::default();
        }
        if segment.expects.is_some() {
            connection.expect[side] = segment.expects;
        }
        if connection.is_reset
            && let (Some(expects), false) = (segment.expects, segment.resets)
        {
            self.tell(to, from, expects);
        }
        self.connections[&ends].is_reset
    }

    /// Notes that a segment has arrived.
    fn arrived(&mut self, segment: &Segment) {
        let side = usize::from(segment.to > segment.from);
        let Some(connection) = self.connections.get_mut(&segment.ends()) else {
            return;
        };
        let arrived = &mut connection.arrived[side];
        // A packet that is sent again is no news.
        if arrived.is_none_or(|before| segment.next.wrapping_sub(before).cast_signed() > 0) {
            *arrived = Some(segment.next);
        }
    }

    /// Tells one end that the other knows nothing of their connection.
    fn tell(&mut self, from: End, to: End, expects: u32) {
        let mut ports = self.ports.iter();
        if let Some(port) = ports.find(|port| port.address == to.0) {
            // Nothing that could be lost: whoever sends on is told again.
            let _ = (&*port.file).write(&reset(from, to, expects));
        }
    }

    /// These connections are over.
    fn reset(&mut self, which: impl Fn(&(End, End)) -> bool) {
        let mut told = Vec::new();
        for (ends, connection) in &mut self.connections {
            if connection.is_reset || !which(ends) {
                continue;
            }
            connection.is_reset = true;
            self.resets += 1;
            let (one, other) = *ends;
            for [by_one, by_other] in [connection.expect, connection.arrived] {
                told.extend(by_one.map(|expects| (other, one, expects)));
                told.extend(by_other.map(|expects| (one, other, expects)));
            }
        }
        for (from, to, expects) in told {
            self.tell(from, to, expects);
        }
    }
}

/// The thread's work.
fn pass_on(shared: &Shared, mut woken: UnixStream) {
    let start = Instant::now();
    let mut bytes = [0; interface::MTU];
    loop {
        let mut state = locked(shared);
        if state.is_finished {
            return;
        }
        let next = state.arrive(start.elapsed());
        let files: Vec<Arc<File>> = state.ports.iter().map(|port| port.file.clone()).collect();
        drop(state);
        let wait = next.map(|next| next.saturating_sub(start.elapsed()));
        wait_for(&woken, &files, wait);
        while matches!(woken.read(&mut bytes), Ok(1..)) {}
        let mut state = locked(shared);
        for (port, mut file) in files.iter().map(|file| &**file).enumerate() {
            for _ in 0..TURN {
                let Ok(length @ 1..) = file.read(&mut bytes) else {
                    break;
                };
                state.leaves(port, start.elapsed(), bytes[..length].to_vec());
            }
        }
    }
}

/// Waits until there is something to read, or for so long.
fn wait_for(woken: &UnixStream, files: &[Arc<File>], wait: Option<Duration>) {
    let fds = files.iter().map(|file| file.as_raw_fd());
    let fds = std::iter::once(woken.as_raw_fd()).chain(fds);
    let mut polled: Vec<libc::pollfd> = fds
        .map(|fd| libc::pollfd {
            fd,
            events: libc::POLLIN,
            revents: 0,
        })
        .collect();
    let wait = wait.map(|wait| libc::timespec {
        tv_sec: wait.as_secs().cast_signed(),
        tv_nsec: wait.subsec_nanos().into(),
    });
    let wait = wait.as_ref().map_or(std::ptr::null(), std::ptr::from_ref);
    // SAFETY: all of it is there until the call returns. Whatever it says, whoever asks looks at
    // everything.
    unsafe {
        libc::ppoll(
            polled.as_mut_ptr(),
            polled.len() as libc::nfds_t,
            wait,
            std::ptr::null(),
        )
    };
}

#[cfg(test)]
mod tests;
