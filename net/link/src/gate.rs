//! A node's gate: it decides which clients may come in, and with which rights.
//!
//! 1. TLS's handshake, within some seconds: the client has proved that it has its key.
//! 2. In the enrolment protocol, one message is read: a client with a good invitation is enrolled,
//!    and goes.
//! 3. In the protocol of nodes, nothing is read: whose key is expected, sessions know. Before it
//!    there may be a handshake in the protocol of proofs, after which nothing is said: it shows a
//!    process that dials for a session that this node has its key.
//! 4. In Quipu's protocol, a client that is not enrolled is told so, unless the gate is
//!    [insecure](Gate::insecure). No byte that came is looked at.
//! 5. The hello is read, a version and an order of bytes agreed on. A client that comes so far is a
//!    [`Caller`].
//!
//! A gate does not listen: the code that does hands it connections, each on a thread of its own or
//! one after the other.

use crate::client::own_order;
use crate::clients::{Client, Clients};
use crate::clock::Clock;
use crate::connection::Connection;
use crate::error::{LinkError, Result};
use crate::folder::Folder;
use crate::invitation::Invitations;
use crate::key::{Fingerprint, Key};
use crate::peer::PeerCaller;
use crate::rights::Rights;
use crate::timer::{SystemTimer, deadline_after};
use crate::{quietly, tls};
use quipu_protocol::compression::Codecs;
use quipu_protocol::message::{
    Device, Enrolled, Hello, Message, Ping, Redirect, Refusal, Refuse, Role, SessionId, Welcome,
    presentable,
};
use quipu_protocol::{
    EARLY, ENROLMENT_PROTOCOL, FEATURES, LONG_PROGRAMS, NEWEST_VERSION, OLDEST_VERSION,
    PEER_PROTOCOL, PROOF_PROTOCOL, PROTOCOL, PULSE, negotiate,
};
use rustls::{ServerConfig, ServerConnection};
use std::net::TcpStream;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// A node's door.
pub struct Gate {
    config: Arc<ServerConfig>,
    known: Known,
    key: Key,
    name: String,
    patience: Duration,
    clock: Arc<dyn Clock>,
    /// Features that it does without.
    lacks: u64,
}

/// The clients that a gate knows.
enum Known {
    /// Clients that are enrolled in a node's folder, or have an invitation from there.
    Folder(Folder),
    /// The same, and all others.
    Everybody(Folder),
    /// One client.
    Only(Client),
}

impl std::fmt::Debug for Gate {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter
            .debug_struct("Gate")
            .field("name", &self.name)
            .field("key", &self.key)
            .finish_non_exhaustive()
    }
}

/// An arrival at a gate.
#[derive(Debug)]
pub enum Arrival {
    /// A client that has been enrolled, and has gone.
    Enrolled(Client),
    /// An enrolled client that has said hello.
    Caller(Box<Caller>),
    /// A side that says that it is a node, and of which only the key is known.
    Peer(Box<PeerCaller>),
}

/// An enrolled client that has said hello and waits for an answer.
#[derive(Debug)]
pub struct Caller {
    connection: Connection,
    client: Client,
    is_enrolled: bool,
    version: u16,
    role: Role,
    session: SessionId,
    epoch: u32,
    received: u64,
    max_frame: u32,
    features: u64,
    patience: Duration,
    name: String,
    /// The time that an answer may take to leave.
    answering: Duration,
}

/// The file of a node's key.
pub const NODE_KEY: &str = "node.key";

impl Gate {
    /// The gate of a node whose key and lists are in a folder. The key is made if there is none. A
    /// caller has so much time until it has said hello.
    ///
    /// # Errors
    /// If the key cannot be used or made.
    pub fn new(
        folder: &Folder,
        name: &str,
        patience: Duration,
        clock: Arc<dyn Clock>,
    ) -> Result<Self> {
        let key = Key::of(folder, NODE_KEY)?;
        Ok(Self {
            config: tls::server(&key)?,
            known: Known::Folder(folder.clone()),
            key,
            name: crate::clients::plain(name, "node"),
            patience,
            clock,
            lacks: 0,
        })
    }

    /// The gate of one client's session in a process of its own, with a key of its own.
    ///
    /// # Errors
    /// If the key cannot be used.
    pub fn of_session(key: &Key, client: Client, name: &str, patience: Duration) -> Result<Self> {
        Ok(Self {
            config: tls::server(key)?,
            known: Known::Only(client),
            key: key.clone(),
            name: crate::clients::plain(name, "node"),
            patience,
            clock: Arc::new(crate::clock::SystemClock),
            lacks: 0,
        })
    }

    /// Lets every client in, enrolled or not, with all rights if not: for a closed network on which
    /// nodes are tested. Connections are encrypted as ever, and an enrolled client has the rights
    /// that it was given.
    #[must_use]
    pub fn insecure(self) -> Self {
        let known = match self.known {
            Known::Folder(folder) => Known::Everybody(folder),
            known => known,
        };
        Self { known, ..self }
    }

    /// Takes no client's offer of these features of the protocol, as an older node would.
    #[must_use]
    pub fn lacking(self, features: u64) -> Self {
        Self {
            lacks: features,
            ..self
        }
    }

    /// The present rights of a client; none if its key is not known any more.
    ///
    /// # Errors
    /// If the list cannot be read.
    pub fn rights_of(&self, client: Fingerprint) -> Result<Option<Rights>> {
        let enrolled = |folder: &Folder| -> Result<Option<Rights>> {
            let known = Clients::of(folder).find(client)?;
            Ok(known.map(|known| known.rights))
        };
        match &self.known {
            Known::Folder(folder) => enrolled(folder),
            Known::Everybody(folder) => Ok(enrolled(folder)?.or_else(|| Some(Rights::default()))),
            Known::Only(only) => Ok((only.fingerprint == client).then(|| only.rights.clone())),
        }
    }

    /// The time within which a client has to say hello.
    #[must_use]
    pub fn patience(&self) -> Duration {
        self.patience
    }

    /// The folder of the node's key, if it is in one.
    #[must_use]
    pub fn folder(&self) -> Option<&Path> {
        match &self.known {
            Known::Folder(folder) | Known::Everybody(folder) => Some(folder.path()),
            Known::Only(_) => None,
        }
    }

    /// The node's key.
    #[must_use]
    pub fn fingerprint(&self) -> Fingerprint {
        self.key.fingerprint()
    }

    /// The key that is proved to all that come, to prove it to others as well.
    #[must_use]
    pub fn key(&self) -> &Key {
        &self.key
    }

    /// The node's name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Sees to a connection that has come.
    ///
    /// # Errors
    /// Why it was closed, for the log. The other side was told, as far as it may know.
    pub fn admit(&self, stream: TcpStream) -> Result<Arrival> {
        let address = match stream.peer_addr() {
            Ok(address) => address.to_string(),
            Err(_) => "a client".to_owned(),
        };
        let deadline = deadline_after(self.patience);
        let mut connection = self.shake_hands(stream, &address, deadline)?;
        let is_dialled = connection.protocol() == PROOF_PROTOCOL;
        if is_dialled {
            // A process that dials for another has seen this node's key, and hands the connection
            // over.
            let stream = connection.leave(false)?;
            connection = self.shake_hands(stream, &address, deadline)?;
        }
        match connection.protocol() {
            protocol if protocol == PEER_PROTOCOL => {
                Ok(Arrival::Peer(Box::new(PeerCaller::new(connection))))
            }
            // A node dials for its sessions so that they reach other nodes as peers, and as nothing
            // else.
            _ if is_dialled => Err(LinkError::Tls {
                address,
                source: rustls::Error::NoApplicationProtocol,
            }),
            protocol if protocol == PROTOCOL => {
                let caller = self.greet(connection)?;
                Ok(Arrival::Caller(Box::new(caller)))
            }
            protocol if protocol == ENROLMENT_PROTOCOL => {
                self.enrol(connection).map(Arrival::Enrolled)
            }
            // TLS goes on without one if a client names none.
            _ => Err(LinkError::Tls {
                address,
                source: rustls::Error::NoApplicationProtocol,
            }),
        }
    }

    fn shake_hands(
        &self,
        stream: TcpStream,
        address: &str,
        deadline: Instant,
    ) -> Result<Connection> {
        let tls =
            ServerConnection::new(Arc::clone(&self.config)).map_err(|source| LinkError::Tls {
                address: address.to_owned(),
                source,
            })?;
        Connection::shake_hands(stream, tls.into(), address, deadline)
    }

    /// Reads an enrolled client's hello.
    fn greet(&self, mut connection: Connection) -> Result<Caller> {
        let mut is_enrolled = true;
        let client = match &self.known {
            Known::Folder(folder) => {
                Clients::of(folder).greet(connection.peer(), self.clock.now())?
            }
            Known::Everybody(folder) => {
                let enrolled = Clients::of(folder).greet(connection.peer(), self.clock.now())?;
                is_enrolled = enrolled.is_some();
                Some(enrolled.unwrap_or_else(|| self.stranger(connection.peer())))
            }
            Known::Only(only) => {
                Some(only.clone()).filter(|only| only.fingerprint == connection.peer())
            }
        };
        let Some(client) = client else {
            let text = format!("the key {} is not enrolled here", connection.peer());
            return Err(refuse(connection, Refusal::NotEnrolled, &text));
        };
        let (hello, name) = connection.receive_as(|message| match message {
            Message::Hello(hello) => {
                // The text that it borrows is kept beside it.
                let name = hello.name.to_owned();
                Ok((Hello { name: "", ..*hello }, name))
            }
            _ => Err("a hello"),
        })?;
        let Some(version) = negotiate((OLDEST_VERSION, NEWEST_VERSION), hello.versions) else {
            let text = format!(
                "this node understands versions {OLDEST_VERSION} to {NEWEST_VERSION} of Quipu's protocol, and the \
                 client {} to {}; update the older of them",
                hello.versions.0, hello.versions.1
            );
            return Err(refuse(connection, Refusal::Version, &text));
        };
        if hello.data_order != own_order() {
            let text = "this node's numbers have another order of bytes than the client's, and buffers are not \
                        translated; use a node of the client's order";
            return Err(refuse(connection, Refusal::DataOrder, text));
        }
        Ok(Caller {
            connection,
            client,
            is_enrolled,
            version,
            role: hello.role,
            session: hello.session,
            epoch: hello.epoch,
            received: hello.received,
            max_frame: hello.max_frame,
            features: hello.features & !self.lacks,
            patience: Duration::from_millis(hello.patience_ms.into()),
            name,
            answering: self.patience,
        })
    }

    /// A client that only an insecure gate lets in.
    fn stranger(&self, fingerprint: Fingerprint) -> Client {
        Client {
            fingerprint,
            name: format!("stranger {fingerprint}"),
            since: self.clock.now(),
            rights: Rights::default(),
            until: None,
        }
    }

    /// Enrols a client with an invitation.
    fn enrol(&self, mut connection: Connection) -> Result<Client> {
        let (token, name) = connection.receive_as(|message| match message {
            Message::Enrol(enrol) => Ok((enrol.token, enrol.name.to_owned())),
            _ => Err("an invitation"),
        })?;
        let client = match &self.known {
            Known::Folder(folder) | Known::Everybody(folder) => {
                let invitations = Invitations::of(folder);
                invitations.take_up(&token, connection.peer(), &name, &*self.clock)?
            }
            Known::Only(_) => None,
        };
        let Some(client) = client else {
            let text = "the invitation is not good: it was used, or is older than ten minutes";
            return Err(refuse(connection, Refusal::Invitation, text));
        };
        quietly(|| tracing::info!(client = client.name, key = %client.fingerprint, "enrolled"));
        connection.send(&Message::Enrolled(Enrolled { name: &self.name }))?;
        connection.end_and_drain(LINGER);
        Ok(client)
    }
}

/// The time that a refused client may take to receive the refusal.
const LINGER: Duration = Duration::from_secs(1);

/// Tells the other side that the connection is not taken, and closes it.
fn refuse(mut connection: Connection, refusal: Refusal, text: &str) -> LinkError {
    let (address, key) = (connection.address().to_owned(), connection.peer());
    let text = presentable(text, 512);
    // A side that does not get it finds the connection closed.
    let _ = connection.send(&Message::Refuse(Refuse {
        refusal,
        text: &text,
    }));
    connection.end_and_drain(LINGER);
    LinkError::TurnedAway {
        address,
        key,
        refusal,
        text,
    }
}

impl Caller {
    /// False for a client that only an insecure gate lets in.
    #[must_use]
    pub fn is_enrolled(&self) -> bool {
        self.is_enrolled
    }

    /// The key by which lines of a log about the client are counted; none for all those together
    /// that are not enrolled.
    #[must_use]
    pub fn logged_as(&self) -> Option<Fingerprint> {
        self.is_enrolled.then_some(self.client.fingerprint)
    }

    /// The client's address.
    #[must_use]
    pub fn address(&self) -> &str {
        self.connection.address()
    }

    /// The client.
    #[must_use]
    pub fn client(&self) -> &Client {
        &self.client
    }

    /// The address of this machine's to which the client has come.
    #[must_use]
    pub fn own_address(&self) -> Option<std::net::SocketAddr> {
        self.connection.own_address()
    }

    /// The program's own name.
    #[must_use]
    pub fn program(&self) -> &str {
        &self.name
    }

    /// The connection's role.
    #[must_use]
    pub fn role(&self) -> Role {
        self.role
    }

    /// The session that it belongs to, how often that was attached to as far as the client knows,
    /// and the last message that the client has received.
    #[must_use]
    pub fn session(&self) -> (SessionId, u32, u64) {
        (self.session, self.epoch, self.received)
    }

    /// The features that it has offered and the node has: those of a session that begins with it.
    #[must_use]
    pub fn features(&self) -> u64 {
        self.features & FEATURES
    }

    /// The id of the session that begins with it, if both sides have one: then connections of the
    /// session may have come with its hello.
    #[must_use]
    pub fn own_session(&self) -> Option<SessionId> {
        let is_taken = self.features() & EARLY != 0 && self.role == Role::Session;
        is_taken.then(|| self.connection.own_session()).flatten()
    }

    /// Says that the session starts, if the client understands it.
    ///
    /// # Errors
    /// If the connection is lost.
    pub fn is_starting(&mut self) -> Result<()> {
        if self.own_session().is_none() {
            return Ok(());
        }
        let ping = Ping {
            token: 0,
            time_ns: 0,
        };
        self.renew_deadline();
        self.connection.send(&Message::Ping(ping))
    }

    /// A session may take longer to start than a client may take to say hello.
    fn renew_deadline(&mut self) {
        let deadline = deadline_after(self.answering);
        self.connection.set_deadline(Some(deadline));
    }

    /// The time that the client would wait for a lost connection.
    #[must_use]
    pub fn patience(&self) -> Duration {
        self.patience
    }

    /// Does not take the connection. Gives the refusal, for the log.
    pub fn refuse(mut self, refusal: Refusal, text: &str) -> LinkError {
        self.renew_deadline();
        refuse(self.connection, refusal, text)
    }

    /// Takes the client, and not the connection: says where its session is.
    ///
    /// # Errors
    /// If the connection is lost.
    pub fn redirect(mut self, redirect: Redirect) -> Result<()> {
        self.renew_deadline();
        self.connection.send(&Message::Redirect(redirect))?;
        self.connection.end_and_drain(LINGER);
        Ok(())
    }

    /// Accepts the connection: sends the welcome and one message for each device. This method fills
    /// in the number of devices, the version and the byte order. It drops features that the client
    /// has not offered. The connection has no deadline afterwards.
    ///
    /// # Errors
    /// If the connection is lost, or the welcome breaks a rule.
    pub fn welcome(mut self, welcome: Welcome<'_>, devices: &[Device<'_>]) -> Result<Connection> {
        let features = welcome.features & (self.features | !FEATURES);
        let welcome = Welcome {
            version: self.version,
            data_order: own_order(),
            features,
            // A program that comes in one message has to have room in it.
            max_program_bytes: match features & LONG_PROGRAMS {
                0 => welcome.max_program_bytes.min(welcome.max_frame / 2),
                _ => welcome.max_program_bytes,
            },
            // A client that does not ping would be taken to be gone.
            idle_ms: match features & PULSE {
                0 => 0,
                _ => welcome.idle_ms,
            },
            devices: u32::try_from(devices.len()).unwrap_or(u32::MAX),
            ..welcome
        };
        let mut messages = vec![Message::Welcome(welcome)];
        let devices = devices.iter();
        messages
            .extend(devices.map(|device| Message::Device(device.with_features(welcome.features))));
        self.renew_deadline();
        self.connection.send_all(&messages)?;
        self.connection
            .allow_frames(self.max_frame, welcome.max_frame);
        self.connection
            .allow_compression(Codecs::of(welcome.features));
        let idle = Duration::from_millis(welcome.idle_ms.into());
        let timer = Arc::new(SystemTimer::default());
        self.connection.expect_pulse(idle, timer);
        self.connection.set_deadline(None);
        Ok(self.connection)
    }
}
