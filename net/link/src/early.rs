//! Connections of a session that is being asked for, so that none of them waits for another.
//!
//! 1. As soon as the node's address has answered, two threads connect there as well: one for the
//!    session's command stream, one for its bulk stream. Meanwhile TLS's handshake goes on, on the
//!    connection that asks for the session.
//! 2. Behind the handshake both sides know the session's id, which they export from it. So each
//!    thread names the session, and sends TLS's first message, together with the hello that asks
//!    for it. The node has these connections wait until the session is there.
//! 3. The node's answer says where the session is, and which key it has. The threads go on with
//!    TLS, take no other key, and say hello.
//!
//! So a session with both its streams is there after four round trips: one for TCP, and one for
//! each of these steps. A node that does not know this gives the session another id. Then, and if
//! an early connection comes to nothing before its hello, another is made.

use crate::client::{Dial, shake_hands};
use crate::error::Result;
use crate::key::{Fingerprint, Key};
use crate::route::Route;
use crate::session::{Answer, Greeted, Place};
use crate::timer::deadline_after;
use crate::tls;
use quipu_protocol::PROTOCOL;
use quipu_protocol::message::{Role, SessionId};
use quipu_threads::Start;
use std::io::Write;
use std::net::{SocketAddr, TcpStream};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;

/// A connection for one of a session's streams. Dropped before it is [finished](Self::finish), it
/// ends by itself.
pub(crate) struct Early {
    named: Sender<SessionId>,
    known: Sender<Place>,
    greeted: Receiver<Option<Result<Greeted>>>,
}

/// The node to dial, and the identity to dial with, for a thread of its own.
struct Owned {
    address: String,
    node: Fingerprint,
    key: Key,
    name: String,
    patience: Duration,
}

impl Early {
    /// Begins to connect to where the node has answered. None if the system gives no thread.
    pub(crate) fn begin(dial: &Dial<'_>, host: SocketAddr, role: Role) -> Option<Self> {
        let (named, names) = channel();
        let (known, places) = channel();
        let (greets, greeted) = channel();
        let own = Owned {
            address: dial.address.to_owned(),
            node: dial.node,
            key: dial.key.clone(),
            name: dial.name.to_owned(),
            patience: dial.patience,
        };
        let run = move || {
            // Nobody waits for it if the session is elsewhere, or never begins.
            let _ = greets.send(own.run(host, role, &names, &places));
        };
        let thread = std::thread::Builder::new().name("quipu-early".to_owned());
        thread.start(run).ok()?;
        Some(Self {
            named,
            known,
            greeted,
        })
    }

    /// The session has this id if the node takes early connections.
    pub(crate) fn name(&self, session: SessionId) {
        // It may have come to nothing.
        let _ = self.named.send(session);
    }

    /// The session is there: goes on, without waiting.
    pub(crate) fn go_on(&self, place: Place) {
        let _ = self.known.send(place);
    }

    /// The connection on which the session has said welcome; none if it came to nothing before its
    /// hello.
    pub(crate) fn finish(self) -> Option<Result<Greeted>> {
        self.greeted.recv().ok().flatten()
    }
}

impl Owned {
    /// See the module. None if it came to nothing before its hello, or nobody wants it any more.
    fn run(
        &self,
        host: SocketAddr,
        role: Role,
        names: &Receiver<SessionId>,
        places: &Receiver<Place>,
    ) -> Option<Result<Greeted>> {
        let dial = Dial {
            address: &self.address,
            node: self.node,
            key: &self.key,
            name: &self.name,
            patience: self.patience,
        };
        let mut stream = TcpStream::connect_timeout(&host, self.patience).ok()?;
        stream.set_nodelay(true).ok()?;
        stream.set_write_timeout(Some(self.patience)).ok()?;
        let (mut tls, only) = tls::client_of_later(&self.key, PROTOCOL, &self.address).ok()?;
        let route = Route::to(names.recv().ok()?);
        let mut words = route.encode_early(role == Role::Bulk).to_vec();
        tls.write_tls(&mut words).ok()?;
        stream.write_all(&words).ok()?;
        let place = places.recv().ok()?;
        only.expect(Some(place.key.unwrap_or(self.node)));
        let deadline = deadline_after(self.patience);
        let tls = (tls, only);
        let connection = shake_hands(stream, tls, PROTOCOL, &self.address, deadline).ok()?;
        Some(match dial.say_hello_on(connection, role, &place) {
            Ok(Answer::Welcome(mut greeted)) => {
                greeted.connection.set_deadline(None);
                Ok(*greeted)
            }
            Ok(Answer::Redirect(_)) => Err(dial.unexpected("redirect", "a welcome")),
            Err(error) => Err(error),
        })
    }
}

impl Dial<'_> {
    /// Begins a session as [`Dial::begin`] does, with its command stream and its bulk stream. It
    /// may be used [alone](Place::alone).
    ///
    /// # Errors
    /// As [`Dial::begin`].
    pub fn begin_both(&self, patience: Duration, alone: bool) -> Result<(Greeted, Greeted)> {
        let place = Place {
            patience,
            alone,
            ..Place::default()
        };
        let mut early = [const { None }; 2];
        let connection = self.connect_telling(PROTOCOL, |host| {
            early = [Role::Resume, Role::Bulk].map(|role| Early::begin(self, host, role));
        })?;
        let own = connection.own_session();
        for (early, own) in early.iter().flatten().zip(own.iter().cycle()) {
            early.name(*own);
        }
        let answer = self.say_hello_on(connection, Role::Session, &place)?;
        let (session, key) = match &answer {
            Answer::Welcome(greeted) => (greeted.terms.session.0, None),
            Answer::Redirect(redirect) => {
                let key = Fingerprint::of_bytes(redirect.key);
                (redirect.session, Some(key))
            }
        };
        let [commands, bulk] = early.map(|early| early.filter(|_| own == Some(session)));
        let of_commands = Place {
            session: (session, 1),
            key,
            ..place
        };
        let of_bulk = Place {
            session: (session, 1),
            key,
            ..Place::default()
        };
        bulk.iter().for_each(|bulk| bulk.go_on(of_bulk));
        let commands = match answer {
            Answer::Welcome(mut greeted) => {
                drop(commands);
                greeted.connection.set_deadline(None);
                *greeted
            }
            Answer::Redirect(_) => {
                commands.iter().for_each(|early| early.go_on(of_commands));
                let commands = commands.and_then(Early::finish);
                commands.unwrap_or_else(|| self.attach(Role::Resume, &of_commands))?
            }
        };
        let bulk = bulk.and_then(Early::finish);
        match bulk.unwrap_or_else(|| self.attach(Role::Bulk, &of_bulk)) {
            Ok(bulk) => Ok((commands, bulk)),
            Err(error) => {
                // Else the node would wait for us.
                commands
                    .connection
                    .close(quipu_protocol::message::GoodbyeReason::Done, "");
                Err(error)
            }
        }
    }
}
