//! Connections that have not said hello yet. A bounded number of them have a place, which is a
//! thread. The others wait.
//!
//! 1. The thread that takes a connection looks for its [first words](crate::listening), for which
//!    it needs no place, and has it wait then ([`Shared::come`]). If more wait than may, the oldest
//!    of the network that most of them come from is given up. So it is brief to take a connection
//!    of any kind.
//! 2. A thread of its own gives places ([`Shared::usher`]): to a connection of the network that has
//!    fewest, the oldest first. The networks of one site count together before each counts for
//!    itself.
//! 3. If no place is free, the oldest connection of the network that has most places is given up
//!    for one of a network with fewer. Among equals, it is given up once it has had its place for
//!    [`TENURE`], in which a client that is far away says hello.
//! 4. A place is taken for that long, also if its connection ends before without having been a
//!    client's. So a network has only so many handshakes in a second, however brief each is.
//! 5. Networks that a client has come from count before all others, unless the client comes very
//!    often: then it and its network count as strangers.
//! 6. A connection that names a session which is there waits for nothing, and one that names a
//!    session which [is coming](crate::early) for that session alone.
//!
//! A *network* is an address of IPv4, or the first 64 bits of one of IPv6: that many a single
//! machine often has. A *site* is an address of IPv4, or the first 48 bits of one of IPv6: that
//! many a single user often has. An address is the other side's own, because it has completed TCP's
//! handshake. So a side that connects very often gets in the way of its own site alone.

use crate::budget::Budget;
use crate::locked;
use crate::node::Shared;
use quipu_link::Fingerprint;
use quipu_scheduler::panics::quietly;
use quipu_threads::Start;
use std::collections::hash_map::Entry;
use std::collections::{HashMap, VecDeque};
use std::hash::Hash;
use std::net::{IpAddr, Ipv6Addr, Shutdown, TcpStream};
use std::sync::atomic::Ordering;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// The time for which a connection has its place, though an equal one waits.
const TENURE: Duration = Duration::from_millis(500);

/// Connections that wait, for each place.
const WAITING: usize = 4;

/// Networks that clients have come from, at most.
const KNOWN: usize = 256;

/// Handshakes of a client whose places are free at once: so many, and so many a second from then
/// on.
const HANDSHAKES: (u32, u32) = (256, 32);

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

    /// The networks that count together with this one.
    fn site(self) -> Site {
        match Ipv6Addr::from_bits(self.0).to_ipv4_mapped() {
            Some(_) => Site(self.0),
            None => Site(self.0 >> 80 << 80),
        }
    }
}

/// See the module.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Site(u128);

/// A connection.
pub(crate) struct One<S> {
    pub(crate) number: u64,
    network: Network,
    pub(crate) since: Instant,
    pub(crate) stream: S,
}

impl<S> One<S> {
    /// The same with another stream.
    pub(crate) fn with<T>(self, with: impl FnOnce(S) -> T) -> One<T> {
        One {
            number: self.number,
            network: self.network,
            since: self.since,
            stream: with(self.stream),
        }
    }

    /// As it has its place from now on.
    fn with_place(self, now: Instant) -> One<Option<S>> {
        One {
            number: self.number,
            network: self.network,
            since: now,
            stream: Some(self.stream),
        }
    }
}

/// The rank of a network, the higher the less it is preferred: whether it is unknown, and the
/// numbers of connections of its site, and of itself.
type Rank = (bool, usize, usize);

/// The networks that clients have come from last, and how many had come before each.
#[derive(Default)]
struct Known {
    networks: HashMap<Network, u64>,
    clients: u64,
}

impl Known {
    fn rank(&self, network: Network, (of_site, own): (usize, usize)) -> Rank {
        (!self.networks.contains_key(&network), of_site, own)
    }

    fn add(&mut self, network: Network) {
        self.clients += 1;
        self.networks.insert(network, self.clients);
        if self.networks.len() > KNOWN {
            let oldest = self.networks.iter().min_by_key(|(_, number)| **number);
            let oldest = oldest.map(|(network, _)| *network);
            oldest.and_then(|oldest| self.networks.remove(&oldest));
        }
    }
}

/// Connections in the order in which they came, and how many each network has, and each site.
pub(crate) struct Crowd<S> {
    all: VecDeque<One<S>>,
    counts: HashMap<Network, usize>,
    sites: HashMap<Site, usize>,
}

/// Counts one less of what a table counts.
fn count_off<K: Eq + Hash>(counts: &mut HashMap<K, usize>, of: K) {
    if let Entry::Occupied(mut count) = counts.entry(of) {
        *count.get_mut() -= 1;
        if *count.get() == 0 {
            count.remove();
        }
    }
}

impl<S> Crowd<S> {
    pub(crate) fn new() -> Self {
        Self {
            all: VecDeque::new(),
            counts: HashMap::new(),
            sites: HashMap::new(),
        }
    }

    /// The oldest first.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &One<S>> {
        self.all.iter()
    }

    fn push(&mut self, one: One<S>) {
        *self.counts.entry(one.network).or_default() += 1;
        *self.sites.entry(one.network.site()).or_default() += 1;
        self.all.push_back(one);
    }

    /// As [`Self::push`], where there may be so many. The one that is given up for it, if there is
    /// one.
    fn push_within(&mut self, one: One<S>, most: usize, known: &Known) -> Option<One<S>> {
        self.push(one);
        if self.all.len() <= most {
            return None;
        }
        let (least, _) = self.least(known)?;
        self.remove(least)
    }

    fn remove(&mut self, at: usize) -> Option<One<S>> {
        let one = self.all.remove(at)?;
        count_off(&mut self.counts, one.network);
        count_off(&mut self.sites, one.network.site());
        Some(one)
    }

    /// Removes those of which this is so.
    pub(crate) fn take(&mut self, mut is_it: impl FnMut(&One<S>) -> bool) -> Vec<One<S>> {
        let (mut taken, mut at) = (Vec::new(), 0);
        while at < self.all.len() {
            match is_it(&self.all[at]) {
                true => taken.extend(self.remove(at)),
                false => at += 1,
            }
        }
        taken
    }

    /// The numbers of connections of a network's site, and of the network.
    fn count(&self, network: Network) -> (usize, usize) {
        let of_site = self.sites.get(&network.site());
        let own = self.counts.get(&network);
        (of_site.copied().unwrap_or(0), own.copied().unwrap_or(0))
    }

    /// The oldest connection of a network that is preferred least, and how little that is.
    fn least(&self, known: &Known) -> Option<(usize, Rank)> {
        let ranks = self.counts.keys();
        let most = ranks
            .map(|network| known.rank(*network, self.count(*network)))
            .max()?;
        let is_it = |one: &One<S>| known.rank(one.network, self.count(one.network)) == most;
        Some((self.all.iter().position(is_it)?, most))
    }
}

/// The connections that have a place, and those that wait.
struct Queue<S> {
    places: usize,
    /// Those without a stream have ended.
    placed: Crowd<Option<S>>,
    waiting: Crowd<S>,
    known: Known,
    /// The handshakes of clients.
    budgets: HashMap<Fingerprint, Budget>,
    is_closed: bool,
}

/// The next step for the connections that wait.
#[derive(Debug, PartialEq, Eq)]
enum Step {
    /// The one at this index gets a place, after the one that has the place of this index was given
    /// up.
    Place(usize, Option<usize>),
    /// Nothing before then, or before something changes.
    Wait(Option<Instant>),
}

impl<S> Queue<S> {
    fn new(places: usize) -> Self {
        Self {
            places: places.max(1),
            placed: Crowd::new(),
            waiting: Crowd::new(),
            known: Known::default(),
            budgets: HashMap::new(),
            is_closed: false,
        }
    }

    /// Has a connection wait in a crowd. The one that is given up for it, if there is one.
    fn wait_in<T>(&self, crowd: &mut Crowd<T>, one: One<T>) -> Option<One<T>> {
        if self.is_closed {
            return Some(one);
        }
        crowd.push_within(one, WAITING * self.places, &self.known)
    }

    /// A connection has said its first words. The one that is given up for it, if there is one.
    fn come(&mut self, one: One<S>) -> Option<One<S>> {
        if self.is_closed {
            return Some(one);
        }
        let most = WAITING * self.places;
        self.waiting.push_within(one, most, &self.known)
    }

    fn next(&self, now: Instant) -> Step {
        let rank = |network| self.known.rank(network, self.placed.count(network));
        let Some(best) = self.waiting.counts.keys().map(|one| rank(*one)).min() else {
            return Step::Wait(None);
        };
        let mut waiting = self.waiting.iter();
        let Some(at) = waiting.position(|one| rank(one.network) == best) else {
            return Step::Wait(None);
        };
        let oldest = self.placed.least(&self.known);
        let Some((oldest, most)) = oldest.filter(|_| self.placed.all.len() >= self.places) else {
            return Step::Place(at, None);
        };
        let (unknown, of_site, own) = best;
        let until = self.placed.all[oldest].since + TENURE;
        // Within a site, one takes the other's place.
        let site = |one: Network| one.site();
        let is_more = site(self.waiting.all[at].network) != site(self.placed.all[oldest].network);
        match (unknown, of_site + usize::from(is_more), own + 1) < most || until <= now {
            true => Step::Place(at, Some(oldest)),
            false => Step::Wait(Some(until)),
        }
    }

    /// A connection with a place was this client's, or has ended. A client that comes very often
    /// counts as a stranger, and so does its network until it comes again.
    fn forget(&mut self, number: u64, client: Option<Fingerprint>, now: Duration) {
        let is_client = client.is_some_and(|client| self.may_come(client, now));
        if client.is_some() && !is_client {
            let mut placed = self.placed.iter();
            if let Some(one) = placed.find(|one| one.number == number) {
                self.known.networks.remove(&one.network);
            }
        }
        self.remove(number, is_client);
    }

    /// True if a client has come no more often than it may.
    fn may_come(&mut self, client: Fingerprint, now: Duration) -> bool {
        let budgets = &mut self.budgets;
        if budgets.len() > KNOWN {
            budgets.retain(|_, budget| !budget.is_full(now));
        }
        let budget = budgets.entry(client);
        let budget = budget.or_insert_with(|| Budget::new(HANDSHAKES.0, HANDSHAKES.1));
        budget.take(now).is_ok()
    }

    /// A connection with a place was a client's, or has ended.
    fn remove(&mut self, number: u64, is_client: bool) {
        let Some(at) = self.placed.iter().position(|one| one.number == number) else {
            return;
        };
        if !is_client {
            self.placed.all[at].stream = None;
        } else if let Some(one) = self.placed.remove(at) {
            self.known.add(one.network);
        }
    }
}
/// See the module.
pub(crate) struct Strangers {
    begun: Instant,
    queue: Mutex<Queue<TcpStream>>,
    changed: Condvar,
}

impl Strangers {
    pub(crate) fn new(places: usize) -> Self {
        Self {
            begun: Instant::now(),
            queue: Mutex::new(Queue::new(places)),
            changed: Condvar::new(),
        }
    }

    /// Has a connection wait in a crowd, for its first words or its session. The one that is given
    /// up for it, if there is one.
    pub(crate) fn wait_in<T>(&self, crowd: &mut Crowd<T>, one: One<T>) -> Option<One<T>> {
        locked(&self.queue).wait_in(crowd, one)
    }

    /// A connection has said hello, which makes its network known if it is a client's, or has
    /// ended.
    pub(crate) fn forget(&self, number: u64, client: Option<Fingerprint>) {
        let now = self.begun.elapsed();
        locked(&self.queue).forget(number, client, now);
        self.changed.notify_one();
    }

    /// Gives all of them up, and takes no more.
    pub(crate) fn close(&self) {
        let mut queue = locked(&self.queue);
        queue.is_closed = true;
        queue.waiting = Crowd::new();
        let placed = std::mem::replace(&mut queue.placed, Crowd::new());
        for stream in placed.all.into_iter().filter_map(|one| one.stream) {
            let _ = stream.shutdown(Shutdown::Both);
        }
        self.changed.notify_one();
    }
}

impl Shared {
    /// Somebody has connected; nobody, if it has gone.
    pub(crate) fn stranger(&self, stream: TcpStream) -> Option<One<TcpStream>> {
        let address = stream.peer_addr().ok()?;
        Some(One {
            number: self.next.fetch_add(1, Ordering::Relaxed),
            network: Network::of(address.ip()),
            since: Instant::now(),
            stream,
        })
    }

    /// A connection has said its first words.
    pub(crate) fn come(&self, one: One<TcpStream>) {
        let given_up = locked(&self.strangers.queue).come(one);
        self.strangers.changed.notify_one();
        drop(given_up);
    }

    /// Starts the thread that gives places.
    pub(crate) fn start_usher(self: &Arc<Self>) -> std::io::Result<()> {
        let own = Arc::clone(self);
        let usher = std::thread::Builder::new().name("quipu-usher".to_owned());
        usher.start(move || own.usher()).map(drop)
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
            let oldest = oldest.and_then(|oldest| queue.placed.remove(oldest));
            if let Some(stream) = oldest.and_then(|oldest| oldest.stream) {
                let _ = stream.shutdown(Shutdown::Both);
            }
            let Some(one) = queue.waiting.remove(at) else {
                continue;
            };
            let Ok(stream) = one.stream.try_clone() else {
                continue;
            };
            let number = one.number;
            queue.placed.push(one.with_place(now));
            drop(queue);
            self.see_to_on_a_thread(number, stream);
            queue = locked(&self.strangers.queue);
        }
    }

    pub(crate) fn see_to_on_a_thread(self: &Arc<Self>, number: u64, stream: TcpStream) {
        let own = Arc::clone(self);
        let begun = std::thread::Builder::new()
            .name("quipu-session".to_owned())
            .start(move || own.see_to(number, stream));
        if let Err(error) = begun {
            quietly(
                || tracing::warn!(%error, "a connection was not taken: there is no thread for it"),
            );
            self.strangers.forget(number, None);
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
            let one = queue.waiting.remove(at).unwrap();
            queue.placed.push(one.with_place(now));
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
            assert!(queue.waiting.all.len() <= 8 * WAITING);
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
        let of_it = queue
            .placed
            .all
            .iter()
            .filter(|one| one.network == one_of(2));
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
        queue.remove(1, true);
        assert_eq!(queue.next(now), Step::Wait(None));
        assert_eq!(placed(&queue), [2]);
    }

    #[test]
    fn a_place_is_taken_for_its_time_also_by_who_has_gone_and_a_client_gives_it_back() {
        let (mut queue, now) = (Queue::new(2), Instant::now());
        for number in 0..5 {
            queue.come(one(number, 1));
        }
        settle(&mut queue, now);
        queue.remove(0, false);
        // Nobody else of that network gets its place meanwhile, and whoever has come from another
        // does.
        assert_eq!(queue.next(now), Step::Wait(Some(now + TENURE)));
        queue.come(one(5, 2));
        settle(&mut queue, now);
        assert_eq!(placed(&queue), [1, 5]);
        queue.remove(1, false);
        queue.remove(5, true);
        settle(&mut queue, now);
        assert_eq!(placed(&queue), [1, 2]);
        settle(&mut queue, now + TENURE);
        assert_eq!(placed(&queue), [3, 4]);
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
    fn a_client_that_comes_very_often_counts_as_a_stranger() {
        let (mut queue, now) = (Queue::new(2), Instant::now());
        let [often, seldom] = [1, 2].map(|byte| Some(Fingerprint::of_bytes([byte; 32])));
        let mut handshakes = 0;
        for number in 0..10_000 {
            queue.come(one(number, 1));
            settle(&mut queue, now);
            if placed(&queue).contains(&number) {
                queue.forget(number, often, Duration::ZERO);
                handshakes += 1;
            }
        }
        assert_eq!(handshakes, HANDSHAKES.0 + 2);
        // Nor is its network known any more: who comes from another gets a place.
        queue.come(one(10_000, 2));
        settle(&mut queue, now);
        assert!(placed(&queue).contains(&10_000));
        queue.forget(10_000, seldom, Duration::ZERO);
        assert!(!placed(&queue).contains(&10_000));
    }

    fn one_from(number: u64, address: &str) -> One<()> {
        One {
            network: Network::of(address.parse().unwrap()),
            ..one(number, 0)
        }
    }

    #[test]
    fn who_has_very_many_networks_keeps_nobody_but_his_own_site_out() {
        let (mut queue, now) = (Queue::new(8), Instant::now());
        let come = |queue: &mut Queue<()>, number: u64| {
            let address = format!("2001:db8:1:{:x}::1", number % 0x1_0000);
            queue.come(one_from(number, &address));
            settle(queue, now);
        };
        (0..1000).for_each(|number| come(&mut queue, number));
        queue.come(one_from(1000, "2001:db8:2::1"));
        (1001..2000).for_each(|number| come(&mut queue, number));
        assert!(placed(&queue).contains(&1000));
        // Also one that comes while places are taken, and waits.
        queue.come(one_from(2000, "2001:db8:2::2"));
        queue.come(one_from(2001, "2001:db8:3::1"));
        (2002..9000).for_each(|number| come(&mut queue, number));
        assert!([2000, 2001].iter().all(|one| placed(&queue).contains(one)));
    }

    #[test]
    fn who_connects_very_often_gets_in_the_way_of_no_other_network_of_his_site() {
        let (mut queue, now) = (Queue::new(8), Instant::now());
        (0..1000).for_each(|number| {
            let _ = queue.come(one_from(number, "2001:db8:1:1::1"));
        });
        settle(&mut queue, now);
        queue.come(one_from(1000, "2001:db8:1:2::1"));
        settle(&mut queue, now);
        assert!(placed(&queue).contains(&1000));
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
        let site = |text| of(text).site();
        assert_eq!(site("2001:db8:1::1"), site("2001:db8:1:ffff::1"));
        assert_ne!(site("2001:db8:1::1"), site("2001:db8:2::1"));
        assert_ne!(site("10.0.0.1"), site("10.0.0.2"));
    }
}
