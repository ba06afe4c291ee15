//! The addresses of a host's name, within a time, and a connection to one of them.
//!
//! The system's call waits for as long as its servers do not answer, and has no limit of time. So a
//! thread makes it, and nobody waits for that thread longer than it may. One thread looks a name up
//! at a time. Its answer is kept for a while, for all that wait for it and for those that ask next.
//!
//! Where a host was reached last is remembered, so that a connection that is lost is made again
//! without its name. That address is tried first, and the name's addresses after it.

use crate::invitation::check_address;
use crate::locked;
use crate::timer::{SystemTimer, Timer, deadline_after};
use crate::{LinkError, Result};
use quipu_threads::Start;
use std::collections::HashMap;
use std::io;
use std::net::{SocketAddr, TcpStream, ToSocketAddrs};
use std::sync::{Arc, Condvar, LazyLock, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Names that are kept, at most.
const NAMES: usize = 256;

/// The time for which the addresses of a name are kept.
const ADDRESSES_KEPT: Duration = Duration::from_secs(10);
/// The time for which it is kept that a name has none: it may soon have one.
const FAILURE_KEPT: Duration = Duration::from_secs(1);

/// The names of this process.
pub(crate) static NAMES_HERE: LazyLock<Names> =
    LazyLock::new(|| Names::by(system, Arc::new(SystemTimer::default())));

/// A function that looks a name up.
type Resolver = fn(&str) -> io::Result<Vec<SocketAddr>>;

fn system(name: &str) -> io::Result<Vec<SocketAddr>> {
    name.to_socket_addrs().map(Iterator::collect)
}

/// See the module.
pub(crate) struct Names {
    resolver: Resolver,
    timer: Arc<dyn Timer>,
    names: Mutex<HashMap<String, Name>>,
    found: Condvar,
}

#[derive(Default)]
struct Name {
    /// A thread looks it up.
    is_asked: bool,
    /// The result of a thread, until this time.
    found: Option<(io::Result<Vec<SocketAddr>>, Duration)>,
    /// The address at which the host was reached last.
    reached: Option<SocketAddr>,
    /// The time at which somebody asked for it last.
    used: Duration,
}

impl Names {
    fn by(resolver: Resolver, timer: Arc<dyn Timer>) -> Self {
        Self {
            resolver,
            timer,
            names: Mutex::default(),
            found: Condvar::new(),
        }
    }

    /// All addresses of a host and port.
    ///
    /// # Errors
    /// If it has none, or they are not found in time.
    fn look_up(&'static self, address: &str, deadline: Instant) -> Result<Vec<SocketAddr>> {
        if let Ok(known) = address.parse() {
            return Ok(vec![known]);
        }
        let mut names = locked(&self.names);
        loop {
            if names.len() >= NAMES && !names.contains_key(address) {
                drop_oldest(&mut names);
            }
            let name = names.entry(address.to_owned()).or_default();
            name.used = self.timer.now();
            match &name.found {
                Some((found, until)) if name.used < *until => {
                    return match found {
                        Ok(hosts) => Ok(hosts.clone()),
                        Err(error) => {
                            let source = io::Error::new(error.kind(), error.to_string());
                            Err(unreachable(address, source))
                        }
                    };
                }
                _ => name.found = None,
            }
            if !name.is_asked {
                let own = address.to_owned();
                let thread = std::thread::Builder::new().name("quipu-names".to_owned());
                let asking = thread.start(move || self.ask(&own));
                asking.map_err(|source| unreachable(address, source))?;
                name.is_asked = true;
            }
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Err(late(address));
            }
            let waited = self.found.wait_timeout(names, left);
            names = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    fn ask(&self, address: &str) {
        let found = (self.resolver)(address);
        let kept = if found.is_ok() {
            ADDRESSES_KEPT
        } else {
            FAILURE_KEPT
        };
        let mut names = locked(&self.names);
        let name = names.entry(address.to_owned()).or_default();
        name.is_asked = false;
        name.found = Some((found, self.timer.now() + kept));
        drop(names);
        self.found.notify_all();
    }

    /// A connection to the first of a host's addresses whose side shakes hands in time: the one
    /// where the host was reached last, or another, for the host may have moved, and somebody else
    /// may be there by now.
    ///
    /// # Errors
    /// If there is none. An answer of a side tells more than silence.
    pub(crate) fn reach<T>(
        &'static self,
        address: &str,
        deadline: Instant,
        mut shake_hands: impl FnMut(TcpStream, Instant) -> Result<T>,
    ) -> Result<T> {
        check_address(address)?;
        let mut failure = None;
        let mut attempt = |host: SocketAddr, others: usize| -> Option<T> {
            // One address that swallows packets leaves time for the others.
            let left = deadline.saturating_duration_since(Instant::now());
            let own = left / u32::try_from(others + 1).unwrap_or(u32::MAX);
            let own = own.max(Duration::from_millis(1));
            let until = deadline_after(own);
            let stream = TcpStream::connect_timeout(&host, own);
            let stream = stream.map_err(|source| unreachable(address, source));
            match stream.and_then(|stream| shake_hands(stream, until)) {
                Ok(connection) => {
                    if let Some(name) = locked(&self.names).get_mut(address) {
                        name.reached = Some(host);
                    }
                    return Some(connection);
                }
                Err(error)
                    if failure
                        .as_ref()
                        .is_some_and(|kept| tells(kept) > tells(&error)) => {}
                Err(error) => failure = Some(error),
            }
            None
        };
        let reached = locked(&self.names)
            .get(address)
            .and_then(|name| name.reached);
        if let Some(connection) = reached.and_then(|host| attempt(host, 1)) {
            return Ok(connection);
        }
        let mut hosts = match self.look_up(address, deadline) {
            Ok(hosts) => hosts,
            Err(error) => {
                let told = failure.filter(|kept| tells(kept) > tells(&error));
                return Err(told.unwrap_or(error));
            }
        };
        // Once more where it was, in what time the others have left.
        hosts.sort_by_key(|host| Some(*host) == reached);
        for (host, others) in hosts.iter().zip((0..hosts.len()).rev()) {
            if Instant::now() >= deadline {
                let told = failure.filter(|kept| tells(kept) > 0);
                return Err(told.unwrap_or_else(|| late(address)));
            }
            if let Some(connection) = attempt(*host, others) {
                return Ok(connection);
            }
        }
        let none = || unreachable(address, io::Error::other("the host has no address"));
        Err(failure.unwrap_or_else(none))
    }
}

/// Makes room for a name.
fn drop_oldest(names: &mut HashMap<String, Name>) {
    let idle = names.iter().filter(|(_, name)| !name.is_asked);
    let oldest = idle.min_by_key(|(_, name)| name.used);
    if let Some(oldest) = oldest.map(|(address, _)| address.clone()) {
        names.remove(&oldest);
    }
}

/// The certainty with which an error tells of the host: that somebody else is there, that its side
/// took the connection, or nothing.
fn tells(error: &LinkError) -> u8 {
    match error {
        LinkError::Unreachable { .. } | LinkError::TimedOut { .. } => 0,
        _ if answered(error) => 2,
        _ => 1,
    }
}

/// True if a side was there.
pub(crate) fn answered(error: &LinkError) -> bool {
    matches!(error, LinkError::WrongKey { .. } | LinkError::Tls { .. })
}

fn unreachable(address: &str, source: io::Error) -> LinkError {
    LinkError::Unreachable {
        address: address.to_owned(),
        source,
    }
}

fn late(address: &str) -> LinkError {
    LinkError::TimedOut {
        address: address.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::key::Key;
    use crate::timer::ManualTimer;
    use std::net::TcpListener;
    use std::sync::Barrier;
    use std::sync::atomic::{AtomicUsize, Ordering};

    const LATER: Duration = Duration::from_secs(1000);

    fn names(resolver: Resolver) -> &'static Names {
        timed(resolver).0
    }

    fn timed(resolver: Resolver) -> (&'static Names, Arc<ManualTimer>) {
        let timer = Arc::new(ManualTimer::default());
        let names = Names::by(resolver, timer.clone());
        (Box::leak(Box::new(names)), timer)
    }

    fn until() -> Instant {
        Instant::now() + LATER
    }

    #[test]
    fn a_resolver_that_does_not_answer_keeps_nobody_longer_than_his_time() {
        // A resolver whose servers answer when the test does, and how often it was asked.
        static ANSWERS: LazyLock<Barrier> = LazyLock::new(|| Barrier::new(2));
        static ASKED: AtomicUsize = AtomicUsize::new(0);
        let names = names(|_| {
            ASKED.fetch_add(1, Ordering::SeqCst);
            ANSWERS.wait();
            Ok(vec!["10.0.0.1:1".parse().unwrap()])
        });
        for _ in 0..3 {
            let error = names.look_up("host:1", Instant::now()).unwrap_err();
            assert!(matches!(error, LinkError::TimedOut { .. }), "{error}");
        }
        ANSWERS.wait();
        // The next has what was found meanwhile.
        let found = names.look_up("host:1", until()).unwrap();
        assert_eq!(found, ["10.0.0.1:1".parse().unwrap()]);
        assert_eq!(ASKED.load(Ordering::SeqCst), 1);
        // Numbers are no name.
        let known = names.look_up("[::1]:5", Instant::now()).unwrap();
        assert_eq!(known, ["[::1]:5".parse().unwrap()]);
        assert_eq!(ASKED.load(Ordering::SeqCst), 1);
    }

    #[test]
    fn an_answer_is_for_all_that_ask_until_it_is_old() {
        static ASKED: AtomicUsize = AtomicUsize::new(0);
        let (names, timer) = timed(|name| match ASKED.fetch_add(1, Ordering::SeqCst) {
            0 | 1 => Ok(vec![name.replace("host", "10.0.0.1").parse().unwrap()]),
            _ => Err(io::ErrorKind::NotFound.into()),
        });
        let asked = || ASKED.load(Ordering::SeqCst);
        for _ in 0..3 {
            names.look_up("host:1", until()).unwrap();
        }
        assert_eq!(asked(), 1);
        timer.advance(ADDRESSES_KEPT);
        names.look_up("host:1", until()).unwrap();
        assert_eq!(asked(), 2);
        // Nor is it asked again and again for what it does not know.
        timer.advance(ADDRESSES_KEPT);
        for _ in 0..3 {
            let error = names.look_up("host:1", until()).unwrap_err();
            assert!(matches!(error, LinkError::Unreachable { .. }), "{error}");
        }
        assert_eq!(asked(), 3);
        timer.advance(FAILURE_KEPT);
        names.look_up("host:1", until()).unwrap_err();
        assert_eq!(asked(), 4);
    }

    #[test]
    fn the_names_used_last_are_kept() {
        let (names, timer) = timed(|_| Ok(Vec::new()));
        let has = |address: &str| locked(&names.names).contains_key(address);
        for number in 0..2 * NAMES {
            names.look_up("used:1", until()).unwrap();
            names.look_up(&format!("host{number}:1"), until()).unwrap();
            timer.advance(Duration::from_millis(1));
        }
        assert_eq!(locked(&names.names).len(), NAMES);
        assert!(has("used:1") && has("host511:1") && !has("host0:1"));
    }

    /// Listeners on loopback, and the addresses that a name has, the last of which nobody listens
    /// at.
    static HOSTS: LazyLock<(Vec<TcpListener>, Vec<SocketAddr>)> = LazyLock::new(|| {
        let listeners: Vec<_> = (0..3)
            .map(|_| TcpListener::bind("127.0.0.1:0").unwrap())
            .collect();
        let address = |listener: &TcpListener| listener.local_addr().unwrap();
        let nobody = address(&TcpListener::bind("127.0.0.1:0").unwrap());
        let hosts = listeners.iter().map(address).chain([nobody]).collect();
        (listeners, hosts)
    });

    /// Shakes hands with one of the hosts only: the others have another key.
    fn reach(names: &'static Names, right: SocketAddr) -> (Result<SocketAddr>, Vec<SocketAddr>) {
        let keys = [(); 2].map(|()| Key::passing().unwrap().fingerprint());
        let mut tried = Vec::new();
        let connection = names.reach("host:1", until(), |stream, _| {
            let host = stream.peer_addr().unwrap();
            tried.push(host);
            if host == right {
                return Ok(host);
            }
            Err(LinkError::WrongKey {
                address: "host:1".to_owned(),
                expected: keys[0],
                found: keys[1],
            })
        });
        (connection, tried)
    }

    #[test]
    fn a_host_is_looked_for_elsewhere_if_another_is_where_it_was() {
        let names = names(|_| Ok(HOSTS.1.clone()));
        let [a, b, c, nobody] = HOSTS.1[..] else {
            unreachable!()
        };
        let (connection, tried) = reach(names, b);
        assert_eq!((connection.unwrap(), tried), (b, vec![a, b]));
        // It is where it was.
        let (connection, tried) = reach(names, b);
        assert_eq!((connection.unwrap(), tried), (b, vec![b]));
        // It is nowhere, which does not make it forgotten.
        let (connection, tried) = reach(names, nobody);
        let error = connection.unwrap_err();
        assert!(matches!(error, LinkError::WrongKey { .. }), "{error}");
        assert_eq!(tried, [b, a, c, b]);
        let (connection, tried) = reach(names, b);
        assert_eq!((connection.unwrap(), tried), (b, vec![b]));
        // It has moved.
        let (connection, tried) = reach(names, c);
        assert_eq!((connection.unwrap(), tried), (c, vec![b, a, c]));
        let (connection, tried) = reach(names, c);
        assert_eq!((connection.unwrap(), tried), (c, vec![c]));
    }

    #[test]
    fn a_host_is_reached_where_it_was_without_a_resolver() {
        static ANSWERS: AtomicUsize = AtomicUsize::new(1);
        let (names, timer) = timed(|_| match ANSWERS.load(Ordering::SeqCst) {
            0 => Err(io::ErrorKind::NotFound.into()),
            _ => Ok(HOSTS.1.clone()),
        });
        let [a, b, ..] = HOSTS.1[..] else {
            unreachable!()
        };
        reach(names, a).0.unwrap();
        ANSWERS.store(0, Ordering::SeqCst);
        timer.advance(ADDRESSES_KEPT);
        // Another is there for a moment, and nobody knows the name.
        let (connection, tried) = reach(names, b);
        let error = connection.unwrap_err();
        assert!(matches!(error, LinkError::WrongKey { .. }), "{error}");
        assert_eq!(tried, [a]);
        assert_eq!(reach(names, a).0.unwrap(), a);
    }
}
