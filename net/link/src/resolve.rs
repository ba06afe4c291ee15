//! The addresses of a host's name, within a time.
//!
//! The system's call waits for as long as its servers do not answer, and has no limit of time. So a thread makes it, and who asks waits
//! for that no longer than it may. One thread looks a name up at a time: the next who asks for it waits for the same, and has what was
//! found when nobody waited any more.
//!
//! Where a host was reached last is remembered, so that a connection that is lost is made again without its name.

use crate::locked;
use crate::{LinkError, Result};
use quipu_threads::Start;
use std::collections::HashMap;
use std::io;
use std::net::{SocketAddr, ToSocketAddrs};
use std::sync::{Condvar, LazyLock, Mutex, PoisonError};
use std::time::Instant;

/// Names that are kept, at most.
const NAMES: usize = 256;

/// The names of this process.
pub(crate) static NAMES_HERE: LazyLock<Names> = LazyLock::new(|| Names::by(system));

/// What looks a name up.
type Resolver = fn(&str) -> io::Result<Vec<SocketAddr>>;

fn system(name: &str) -> io::Result<Vec<SocketAddr>> {
    name.to_socket_addrs().map(Iterator::collect)
}

/// See the module.
pub(crate) struct Names {
    resolver: Resolver,
    names: Mutex<HashMap<String, Name>>,
    found: Condvar,
}

#[derive(Default)]
struct Name {
    /// A thread looks it up.
    is_asked: bool,
    /// What a thread has found that nobody has been told.
    found: Option<io::Result<Vec<SocketAddr>>>,
    /// Where the host was reached last.
    reached: Option<SocketAddr>,
}

impl Names {
    fn by(resolver: Resolver) -> Self {
        Self {
            resolver,
            names: Mutex::default(),
            found: Condvar::new(),
        }
    }

    /// All addresses of a host and port.
    ///
    /// # Errors
    /// If it has none, or they are not found in time.
    pub(crate) fn look_up(
        &'static self,
        address: &str,
        deadline: Instant,
    ) -> Result<Vec<SocketAddr>> {
        let unreachable = |source| LinkError::Unreachable {
            address: address.to_owned(),
            source,
        };
        if let Ok(known) = address.parse() {
            return Ok(vec![known]);
        }
        let mut names = locked(&self.names);
        loop {
            if names.len() >= NAMES {
                names.retain(|_, name| name.is_asked);
            }
            let name = names.entry(address.to_owned()).or_default();
            if let Some(found) = name.found.take() {
                return found.map_err(unreachable);
            }
            if !name.is_asked {
                let own = address.to_owned();
                let thread = std::thread::Builder::new().name("quipu-names".to_owned());
                let asking = thread.start(move || self.ask(&own));
                asking.map_err(unreachable)?;
                name.is_asked = true;
            }
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Err(LinkError::TimedOut {
                    address: address.to_owned(),
                });
            }
            let waited = self.found.wait_timeout(names, left);
            names = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    fn ask(&self, address: &str) {
        let found = (self.resolver)(address);
        let mut names = locked(&self.names);
        let name = names.entry(address.to_owned()).or_default();
        name.is_asked = false;
        name.found = Some(found);
        drop(names);
        self.found.notify_all();
    }

    /// Where a host was reached last, if it has a name.
    pub(crate) fn reached(&self, address: &str) -> Option<SocketAddr> {
        locked(&self.names).get(address)?.reached
    }

    /// A host was reached there; or, with none, is not where it was.
    pub(crate) fn note(&self, address: &str, reached: Option<SocketAddr>) {
        if let Some(name) = locked(&self.names).get_mut(address) {
            name.reached = reached;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Barrier;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::time::Duration;

    const LATER: Duration = Duration::from_secs(1000);

    /// A resolver whose servers answer when the test does, and how often it was asked.
    static ANSWERS: LazyLock<Barrier> = LazyLock::new(|| Barrier::new(2));
    static ASKED: AtomicUsize = AtomicUsize::new(0);

    fn slow(_: &str) -> io::Result<Vec<SocketAddr>> {
        ASKED.fetch_add(1, Ordering::SeqCst);
        ANSWERS.wait();
        Ok(vec!["10.0.0.1:1".parse().unwrap()])
    }

    #[test]
    fn a_resolver_that_does_not_answer_keeps_nobody_longer_than_his_time() {
        static NAMES: LazyLock<Names> = LazyLock::new(|| Names::by(slow));
        for _ in 0..3 {
            let error = NAMES.look_up("host:1", Instant::now()).unwrap_err();
            assert!(matches!(error, LinkError::TimedOut { .. }), "{error}");
        }
        ANSWERS.wait();
        // The next has what was found meanwhile.
        let found = NAMES.look_up("host:1", Instant::now() + LATER).unwrap();
        assert_eq!(found, ["10.0.0.1:1".parse().unwrap()]);
        assert_eq!(ASKED.load(Ordering::SeqCst), 1);
        // Numbers are no name.
        let known = NAMES.look_up("[::1]:5", Instant::now()).unwrap();
        assert_eq!(known, ["[::1]:5".parse().unwrap()]);
        assert_eq!(ASKED.load(Ordering::SeqCst), 1);
    }

    fn never(_: &str) -> io::Result<Vec<SocketAddr>> {
        Err(io::ErrorKind::NotFound.into())
    }

    #[test]
    fn where_a_host_was_reached_last_is_remembered_of_names_that_were_looked_up() {
        static NAMES: LazyLock<Names> = LazyLock::new(|| Names::by(never));
        let until = Instant::now() + LATER;
        let error = NAMES.look_up("host:1", until).unwrap_err();
        assert!(matches!(error, LinkError::Unreachable { .. }), "{error}");
        let reached = Some("10.0.0.1:1".parse().unwrap());
        NAMES.note("host:1", reached);
        NAMES.note("other:1", reached);
        assert_eq!(
            (NAMES.reached("host:1"), NAMES.reached("other:1")),
            (reached, None)
        );
        NAMES.note("host:1", None);
        assert_eq!(NAMES.reached("host:1"), None);
        for number in 0..3 * super::NAMES {
            NAMES
                .look_up(&format!("host{number}:1"), until)
                .unwrap_err();
        }
        assert!(locked(&NAMES.names).len() <= super::NAMES);
    }
}
