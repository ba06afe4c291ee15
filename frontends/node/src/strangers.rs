//! Connections that have not said hello yet. A bounded number of them have a place, which is a thread. The others wait.
//!
//! 1. Whoever takes a connection has it wait ([`Shared::come`]). If more wait than may, the oldest of the network that most of them come
//!    from is given up. So taking one is brief, whatever it turns out to be.
//! 2. A thread of its own gives places ([`Shared::usher`]): to a connection of the network that has fewest, the oldest first.
//! 3. If no place is free, the oldest connection of the network that has most places is given up for one of a network with fewer.
//!    Among equals, it is given up once it has had its place for [`TENURE`], in which a client that is far away says hello.
//! 4. Networks that a client has come from count before all others.
//! 5. A connection that names a session which is there waits for nothing if places are short.
//!
//! A *network* is an address of IPv4, or the first 64 bits of one of IPv6: that many a single machine often has. An address is the other
//! side's own, because it has completed TCP's handshake. Who connects very often so gets in the way of its own network alone.

use crate::locked;
use crate::node::Shared;
use quipu_scheduler::panics::quietly;
use std::collections::{HashMap, VecDeque};
use std::net::{IpAddr, Shutdown, TcpStream};
use std::sync::atomic::Ordering;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// For how long a connection has its place, though an equal one waits.
const TENURE: Duration = Duration::from_millis(500);

/// Connections that wait, for each place.
const WAITING: usize = 4;

/// Networks that clients have come from, at most.
const KNOWN: usize = 256;

/// See the module.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Network(u128);

impl Network {
    fn of(address: IpAddr) -> Self {
        match address.to_canonical() {
            IpAddr::V4(address) => Self(address.to_ipv6_mapped().to_bits()),
            IpAddr::V6(address) => Self(address.to_bits() >> 64 << 64),
        }
    }
}

/// A connection.
struct One<S> {
    number: u64,
    network: Network,
    since: Instant,
    stream: S,
}

/// Who has a place, and who waits, in the order in which they came.
struct Queue<S> {
    places: usize,
    placed: VecDeque<One<S>>,
    waiting: VecDeque<One<S>>,
    /// The networks that clients have come from last, and how many had come before each.
    known: HashMap<Network, u64>,
    clients: u64,
    is_closed: bool,
}

/// What is to be done for the connections that wait.
#[derive(Debug, PartialEq, Eq)]
enum Step {
    /// The one at this index gets a place, after the one that has the place of this index was given up.
    Place(usize, Option<usize>),
    /// Nothing before then, or before something changes.
    Wait(Option<Instant>),
}

/// How little a network is preferred: whether it is unknown, and how many connections it has.
type Rank = (bool, usize);

impl<S> Queue<S> {
    fn new(places: usize) -> Self {
        Self {
            places: places.max(1),
            placed: VecDeque::new(),
            waiting: VecDeque::new(),
            known: HashMap::new(),
            clients: 0,
            is_closed: false,
        }
    }

    fn ranks<'a>(&self, of: impl Iterator<Item = &'a One<S>>) -> HashMap<Network, Rank>
    where
        S: 'a,
    {
        let mut ranks = HashMap::new();
        for one in of {
            let rank = ranks.entry(one.network);
            rank.or_insert_with(|| (self.is_unknown(one), 0)).1 += 1;
        }
        ranks
    }

    fn is_unknown(&self, one: &One<S>) -> bool {
        !self.known.contains_key(&one.network)
    }

    /// A connection has come. The one that is given up for it, if there is one.
    fn come(&mut self, one: One<S>) -> Option<One<S>> {
        if self.is_closed {
            return Some(one);
        }
        self.waiting.push_back(one);
        if self.waiting.len() <= WAITING * self.places {
            return None;
        }
        let ranks = self.ranks(self.waiting.iter());
        let most = ranks.values().max()?;
        let at = self
            .waiting
            .iter()
            .position(|one| ranks[&one.network] == *most)?;
        self.waiting.remove(at)
    }

    fn next(&self, now: Instant) -> Step {
        let ranks = self.ranks(self.placed.iter());
        let rank = |one: &One<S>| {
            let known = ranks.get(&one.network).copied();
            known.unwrap_or_else(|| (self.is_unknown(one), 0))
        };
        let waiting = self.waiting.iter().enumerate();
        let Some((at, rank)) = waiting
            .map(|(at, one)| (at, rank(one)))
            .min_by_key(|(_, rank)| *rank)
        else {
            return Step::Wait(None);
        };
        let most = ranks.values().max().copied().unwrap_or_default();
        let oldest = self
            .placed
            .iter()
            .position(|one| ranks[&one.network] == most);
        let Some(oldest) = oldest.filter(|_| self.placed.len() >= self.places) else {
            return Step::Place(at, None);
        };
        let (unknown, count) = rank;
        let until = self.placed[oldest].since + TENURE;
        match (unknown, count + 1) < most || until <= now {
            true => Step::Place(at, Some(oldest)),
            false => Step::Wait(Some(until)),
        }
    }

    fn remove(&mut self, number: u64, is_client: bool) {
        let Some(at) = self.placed.iter().position(|one| one.number == number) else {
            return;
        };
        if let Some(one) = self.placed.remove(at).filter(|_| is_client) {
            self.clients += 1;
            self.known.insert(one.network, self.clients);
            if self.known.len() > KNOWN {
                let oldest = self.known.iter().min_by_key(|(_, number)| **number);
                let oldest = oldest.map(|(network, _)| *network);
                oldest.and_then(|oldest| self.known.remove(&oldest));
            }
        }
    }
}

/// See the module.
pub(crate) struct Strangers {
    queue: Mutex<Queue<TcpStream>>,
    changed: Condvar,
}

impl Strangers {
    pub(crate) fn new(places: usize) -> Self {
        Self {
            queue: Mutex::new(Queue::new(places)),
            changed: Condvar::new(),
        }
    }

    /// A connection has said hello, which makes its network known if it is a client's, or has ended.
    pub(crate) fn forget(&self, number: u64, is_client: bool) {
        locked(&self.queue).remove(number, is_client);
        self.changed.notify_one();
    }

    /// Gives all of them up, and takes no more.
    pub(crate) fn close(&self) {
        let mut queue = locked(&self.queue);
        queue.is_closed = true;
        queue.waiting.clear();
        for stranger in queue.placed.drain(..) {
            let _ = stranger.stream.shutdown(Shutdown::Both);
        }
        self.changed.notify_one();
    }

    fn are_short(&self) -> bool {
        let queue = locked(&self.queue);
        queue.placed.len() >= queue.places
    }
}

impl Shared {
    /// A connection has come.
    pub(crate) fn come(self: &Arc<Self>, stream: TcpStream) {
        // It has gone.
        let Ok(address) = stream.peer_addr() else {
            return;
        };
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        if self.strangers.are_short() && self.names_session(&stream) {
            return self.place(number, stream);
        }
        let one = One {
            number,
            network: Network::of(address.ip()),
            since: Instant::now(),
            stream,
        };
        let given_up = locked(&self.strangers.queue).come(one);
        self.strangers.changed.notify_one();
        drop(given_up);
    }

    /// Starts the thread that gives places.
    pub(crate) fn start_usher(self: &Arc<Self>) -> std::io::Result<()> {
        let own = Arc::clone(self);
        let usher = std::thread::Builder::new().name("quipu-usher".to_owned());
        usher.spawn(move || own.usher()).map(drop)
    }

    fn usher(self: &Arc<Self>) {
        let mut queue = locked(&self.strangers.queue);
        while !queue.is_closed {
            let now = Instant::now();
            let (at, oldest) = match queue.next(now) {
                Step::Place(at, oldest) => (at, oldest),
                Step::Wait(None) => {
                    let woken = self.strangers.changed.wait(queue);
                    queue = woken.unwrap_or_else(PoisonError::into_inner);
                    continue;
                }
                Step::Wait(Some(until)) => {
                    let woken = self.strangers.changed.wait_timeout(queue, until - now);
                    queue = woken.unwrap_or_else(PoisonError::into_inner).0;
                    continue;
                }
            };
            if let Some(oldest) = oldest.and_then(|oldest| queue.placed.remove(oldest)) {
                let _ = oldest.stream.shutdown(Shutdown::Both);
            }
            let Some(mut one) = queue.waiting.remove(at) else {
                continue;
            };
            let Ok(stream) = one.stream.try_clone() else {
                continue;
            };
            let number = one.number;
            one.since = now;
            queue.placed.push_back(one);
            drop(queue);
            self.place(number, stream);
            queue = locked(&self.strangers.queue);
        }
    }

    /// Sees to a connection, on a thread of its own.
    fn place(self: &Arc<Self>, number: u64, stream: TcpStream) {
        let own = Arc::clone(self);
        let begun = std::thread::Builder::new()
            .name("quipu-session".to_owned())
            .spawn(move || own.see_to(number, stream));
        if let Err(error) = begun {
            quietly(
                || tracing::warn!(%error, "a connection was not taken: there is no thread for it"),
            );
            self.strangers.forget(number, false);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn one(number: u64, network: u8) -> One<()> {
        One {
            number,
            network: Network::of([10, 0, 0, network].into()),
            since: Instant::now(),
            stream: (),
        }
    }

    /// Gives places as the thread does, as long as that needs no time.
    fn settle(queue: &mut Queue<()>, now: Instant) {
        while let Step::Place(at, oldest) = queue.next(now) {
            oldest.and_then(|oldest| queue.placed.remove(oldest));
            let mut one = queue.waiting.remove(at).unwrap();
            one.since = now;
            queue.placed.push_back(one);
        }
    }

    fn placed(queue: &Queue<()>) -> Vec<u64> {
        queue.placed.iter().map(|one| one.number).collect()
    }

    #[test]
    fn who_comes_very_often_keeps_nobody_but_his_own_network_out() {
        let (mut queue, now) = (Queue::new(8), Instant::now());
        queue.come(one(0, 1));
        settle(&mut queue, now);
        for number in 1..10_000 {
            queue.come(one(number, 2));
            settle(&mut queue, now);
            assert!(queue.waiting.len() <= 8 * WAITING);
            // Who was there before stays, however slow it is.
            assert!(placed(&queue).contains(&0));
        }
        // Others need not wait, as long as they are no more than it.
        for network in 3..6 {
            let number = 10_000 + u64::from(network);
            queue.come(one(number, network));
            settle(&mut queue, now);
            assert!(placed(&queue).contains(&number));
        }
        // Of its own, the latest get their turn.
        settle(&mut queue, now + TENURE);
        let of_it = queue.placed.iter().filter(|one| one.network == one_of(2));
        assert!(of_it.clone().count() >= 3);
        assert!(of_it.clone().all(|one| one.number > 9_900));
    }

    fn one_of(network: u8) -> Network {
        one(0, network).network
    }

    #[test]
    fn among_equals_the_oldest_is_given_up_when_it_had_its_time() {
        let (mut queue, now) = (Queue::new(2), Instant::now());
        for number in 0..3 {
            queue.come(one(number, number as u8));
        }
        settle(&mut queue, now);
        assert_eq!(placed(&queue), [0, 1]);
        assert_eq!(queue.next(now), Step::Wait(Some(now + TENURE)));
        settle(&mut queue, now + TENURE);
        assert_eq!(placed(&queue), [1, 2]);
        queue.remove(1, false);
        assert_eq!(queue.next(now), Step::Wait(None));
        assert_eq!(placed(&queue), [2]);
    }

    #[test]
    fn where_a_client_has_come_from_counts_before_a_crowd_of_strangers() {
        let (mut queue, now) = (Queue::new(4), Instant::now());
        queue.come(one(0, 255));
        settle(&mut queue, now);
        queue.remove(0, true);
        for number in 1..200 {
            queue.come(one(number, number as u8));
        }
        settle(&mut queue, now);
        assert_eq!(placed(&queue).len(), 4);
        queue.come(one(1000, 255));
        queue.come(one(1001, 254));
        settle(&mut queue, now);
        assert!(placed(&queue).contains(&1000));
        assert!(!placed(&queue).contains(&1001));
    }

    #[test]
    fn a_network_is_what_one_machine_has() {
        let of = |text: &str| Network::of(text.parse().unwrap());
        assert_eq!(of("2001:db8::1"), of("2001:db8::ffff:1:2:3"));
        assert_ne!(of("2001:db8::1"), of("2001:db8:0:1::1"));
        assert_ne!(of("10.0.0.1"), of("10.0.0.2"));
        assert_eq!(of("10.0.0.1"), of("::ffff:10.0.0.1"));
        // Those of IPv4 are not one, though they lie in one of IPv6.
        assert_ne!(of("::ffff:10.0.0.1"), of("::ffff:10.0.0.2"));
    }
}
