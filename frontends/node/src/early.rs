//! Connections of sessions that are coming: each has come together with the hello that asks for its
//! session.
//!
//! 1. A connection names a session before TLS, as [early](quipu_link::Route::encode_early). If the
//!    session is there, it is handed to it.
//! 2. Else it waits, and costs the node nothing but its socket. A bounded number waits, and if too
//!    many do, the oldest of the network that most of them come from is given up, as of
//!    [strangers](crate::strangers).
//! 3. As soon as a client has proved its key and its session is there, the connections that name it
//!    are handed to it. The side that named it in them proves the same key to the session itself.
//! 4. A connection whose session has not come within the time that a client may take to say hello
//!    is closed.
//!
//! The id of such a session is exported from the TLS of the connection that asks for it: nobody
//! else can name it.

use crate::locked;
use crate::node::{Home, Shared};
use crate::strangers::{Crowd, One};
use quipu_link::Route;
use quipu_protocol::message::SessionId;
use std::collections::HashSet;
use std::io::Read;
use std::net::TcpStream;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// See the module.
pub(crate) struct Early(Mutex<State>);

struct State {
    waiting: Crowd<Named>,
    /// The sessions of this process that are there.
    here: HashSet<Route>,
}

/// A connection that names a session.
struct Named {
    stream: TcpStream,
    route: Route,
    is_bulk: bool,
}

impl Early {
    pub(crate) fn new() -> Self {
        Self(Mutex::new(State {
            waiting: Crowd::new(),
            here: HashSet::new(),
        }))
    }

    /// The time at which the oldest of those that wait came.
    pub(crate) fn oldest(&self) -> Option<Instant> {
        let state = locked(&self.0);
        state.waiting.iter().next().map(|one| one.since)
    }

    /// Closes those that have waited for so long.
    pub(crate) fn expire(&self, patience: Duration) {
        let late = |one: &One<Named>| one.since.elapsed() >= patience;
        let expired = locked(&self.0).waiting.take(late);
        drop(expired);
    }

    /// Closes all.
    pub(crate) fn close(&self) {
        locked(&self.0).waiting = Crowd::new();
    }

    /// A session of this process is over.
    pub(crate) fn forget(&self, session: SessionId) {
        locked(&self.0).here.remove(&Route::to(session));
    }
}

impl Shared {
    /// A connection has named a session that may not be there yet.
    pub(crate) fn come_early(self: &Arc<Self>, one: One<TcpStream>, route: Route, is_bulk: bool) {
        let one = one.with(|stream| Named {
            stream,
            route,
            is_bulk,
        });
        // Under the lock: a session that comes now finds it.
        let mut state = locked(&self.early.0);
        if state.here.contains(&route) || self.has_session(route) {
            drop(state);
            return self.hand_over_early(one);
        }
        let given_up = self.strangers.wait_in(&mut state.waiting, one);
        drop(state);
        drop(given_up);
    }

    /// A session is there: its connections that have come before it go to it.
    pub(crate) fn let_early_in(self: &Arc<Self>, session: SessionId) {
        let route = Route::to(session);
        let mut state = locked(&self.early.0);
        if matches!(self.home(), Home::Here) {
            state.here.insert(route);
        }
        let come = state.waiting.take(|one| one.stream.route == route);
        drop(state);
        for one in come {
            self.hand_over_early(one);
        }
    }

    fn hand_over_early(self: &Arc<Self>, one: One<Named>) {
        let (route, is_bulk) = (one.stream.route, one.stream.is_bulk);
        let mut one = one.with(|named| named.stream);
        // All of it has come.
        if one.stream.read_exact(&mut [0; Route::LENGTH]).is_err() {
            return;
        }
        match self.home() {
            // One that is over meanwhile has no use for it.
            Home::Processes(processes) => drop(processes.hand_over(route, one.stream)),
            // The connection that has asked for the session is its command stream. This one takes a
            // place, as others do.
            _ if is_bulk => self.come(one),
            _ => {}
        }
    }
}
