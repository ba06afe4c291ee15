//! The node: it listens, admits clients, and keeps their sessions.

use crate::describe::described;
use crate::limits::Limits;
use crate::load::{Busy, LinkTotals};
use crate::native::Natives;
use crate::operator::Lines;
use crate::paced::Paced;
use crate::printed::Printed;
use crate::questions::Look;
use crate::session::Session;
use crate::strangers::Strangers;
use crate::totals::Totals;
use crate::{OPERATOR, listening, locked};
use quipu_link::compression::Compression;
use quipu_link::gate::{Arrival, Caller, Gate};
use quipu_link::peer::{Destination, Networks, PeerCaller};
use quipu_link::stream::IDLE;
use quipu_link::timer::{SystemTimer, Timer};
use quipu_link::{Fingerprint, Key, LinkError, Rights};
use quipu_protocol::EARLY;
use quipu_protocol::message::{
    DataOrder, GoodbyeReason, PeerAddress, Refusal, Role, SessionId, Status, Welcome,
};
use quipu_scheduler::Device;
use quipu_scheduler::driver::{Driver, InlineExecutor};
use quipu_scheduler::panics::quietly;
use std::collections::HashMap;
use std::io;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// The options of a node.
#[derive(Clone)]
pub struct Options {
    /// The devices, of any drivers. Their numbers on the network are their places here.
    pub devices: Vec<Device>,
    /// Kernels that are there natively.
    pub natives: Arc<dyn Natives>,
    /// The limits of sessions.
    pub limits: Limits,
    /// The time for which receivers of commands look again and again before they sleep. Zero is
    /// right where cores are few.
    pub spin: Duration,
    /// The compression of the bytes that go to clients.
    pub compression: Compression,
    /// After how long without a byte a connection of a session's is lost, if the client pings where
    /// it has nothing to say. Not less than a second; zero for never.
    pub idle: Duration,
    /// The timer of patience and of time limits.
    pub timer: Arc<dyn Timer>,
    /// The node's dealings with other nodes.
    pub peers: Peering,
    /// Features of the protocol that it does without, as an older node would, to see how clients
    /// fare with one: none, else. Sessions in processes of their own have all.
    #[doc(hidden)]
    pub lacks: u64,
    /// The way to start sessions' processes; without, sessions are in this process.
    #[cfg(target_os = "linux")]
    pub processes: Option<crate::process::Spawn>,
    /// Sessions are served in their processes also where a [serious
    /// weakness](crate::process::Weakness::is_serious) of the sandbox lets a client's code read
    /// this node's key.
    #[cfg(target_os = "linux")]
    pub accepts_weak_sandbox: bool,
}

impl std::fmt::Debug for Options {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter
            .debug_struct("Options")
            .field("devices", &self.devices)
            .field("limits", &self.limits)
            .field("spin", &self.spin)
            .finish_non_exhaustive()
    }
}

/// Seconds of a processor's time that the compiler may take for a text of a client's.
const COMPILER_SECONDS: u64 = 120;

impl Options {
    /// These devices, without native kernels, within the usual limits.
    #[must_use]
    pub fn new(devices: Vec<Device>) -> Self {
        Self {
            devices,
            natives: Arc::new(HashMap::new()),
            limits: Limits::default(),
            spin: Duration::ZERO,
            compression: Compression::default(),
            idle: IDLE,
            timer: Arc::new(SystemTimer::default()),
            peers: Peering::default(),
            lacks: 0,
            #[cfg(target_os = "linux")]
            processes: None,
            #[cfg(target_os = "linux")]
            accepts_weak_sandbox: false,
        }
    }
}

/// An error that names what is serious of these.
#[cfg(target_os = "linux")]
fn refuse_weak_sandbox(weaknesses: &[crate::process::Weakness]) -> io::Result<()> {
    let serious = weaknesses.iter().filter(|weakness| weakness.is_serious);
    let all: Vec<&str> = serious.map(|weakness| weakness.what.as_str()).collect();
    match all.is_empty() {
        true => Ok(()),
        false => Err(io::Error::other(format!(
            "{}; `accept_weak_sandbox` serves all the same",
            all.join("; ")
        ))),
    }
}

/// The reason for which a session ends whose client has fewer rights than it began with.
const NARROWED: &str = "the operator has narrowed the rights of this client (`quipu rights`); a new session has what is left";

/// Bytes of writes that may come before their turn, however much memory buffers have.
const PARKED: u64 = 64 << 20;

/// A node's dealings with other nodes.
#[derive(Clone, Debug, Default)]
pub struct Peering {
    /// The address at which other nodes find this one; without, the one at which its client has
    /// found it.
    pub address: Option<SocketAddr>,
    /// The networks in which this node may dial others; if there are none, it has no dealings with
    /// other nodes.
    pub networks: Networks,
}

impl Peering {
    /// The address that a client is told that has come to this address.
    pub(crate) fn address_for(&self, own: Option<SocketAddr>) -> Option<PeerAddress> {
        let address = self.address.or(own).filter(|_| !self.networks.is_empty())?;
        PeerAddress::of(address)
    }
}

/// A node that serves. It ends when it is dropped, and its sessions with it.
#[derive(Debug)]
pub struct Node {
    shared: Arc<Shared>,
    address: SocketAddr,
    listening: Option<JoinHandle<()>>,
}

pub(crate) struct Shared {
    pub(crate) gate: Gate,
    pub(crate) options: Options,
    pub(crate) begun: Instant,
    home: Home,
    pub(crate) sessions: Mutex<HashMap<SessionId, Arc<Session>>>,
    /// Sessions that there were in this process.
    numbers: AtomicU64,
    /// A session has begun in this process.
    #[cfg_attr(
        not(target_os = "linux"),
        allow(dead_code, reason = "of processes that are for one session")
    )]
    pub(crate) has_begun: AtomicBool,
    pub(crate) strangers: Strangers,
    #[cfg(target_os = "linux")]
    pub(crate) early: crate::early::Early,
    /// A session of this process has begun: with its sessions.
    begun_here: Condvar,
    /// The number of connections of each client that only ask how the node is.
    pub(crate) questions: Mutex<HashMap<Fingerprint, usize>>,
    /// Answers to them: with all sessions, and without.
    pub(crate) looks: Paced<Look>,
    pub(crate) statuses: Paced<Look>,
    pub(crate) lines: Lines,
    pub(crate) next: AtomicU64,
    pub(crate) stopping: AtomicBool,
    /// Commands of sessions that have ended.
    commands_before: AtomicU64,
    /// Bytes of all sessions' buffers.
    pub(crate) bytes: AtomicU64,
    /// Bytes of all sessions' writes that have come before their turn.
    parked: AtomicU64,
    pub(crate) busy: Busy,
}

/// The place of sessions.
pub(crate) enum Home {
    /// In this process.
    Here,
    /// In processes of their own.
    #[cfg(target_os = "linux")]
    Processes(Arc<crate::process::Processes>),
    /// This process is this session's.
    #[cfg(target_os = "linux")]
    Session(SessionId, Arc<crate::process::Dials>, Arc<Printed>),
}

impl std::fmt::Debug for Shared {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter
            .debug_struct("Shared")
            .field("gate", &self.gate)
            .finish_non_exhaustive()
    }
}

impl Node {
    /// Serves whoever comes to a listener, and is let in by a gate.
    ///
    /// # Errors
    /// If the system gives no thread, or the listener has no address; if sessions are to have
    /// processes, and the kernel has too little of a sandbox, unless that is
    /// [accepted](Options::accepts_weak_sandbox).
    pub fn serve(options: Options, gate: Gate, listener: TcpListener) -> io::Result<Self> {
        let address = listener.local_addr()?;
        let networks = options.peers.networks.seen_from(address);
        let options = Options {
            peers: Peering {
                networks,
                ..options.peers
            },
            ..options
        };
        #[cfg(target_os = "linux")]
        let home = match options.processes.clone() {
            Some(spawn) => {
                if !options.accepts_weak_sandbox {
                    refuse_weak_sandbox(&crate::process::weaknesses_for(gate.folder()))?;
                }
                let processes = crate::process::Processes::new(spawn, &options);
                Home::Processes(Arc::new(processes))
            }
            None => Home::Here,
        };
        #[cfg(not(target_os = "linux"))]
        let home = Home::Here;
        let gate = gate.lacking(options.lacks);
        let shared = Shared::new(options, gate, home);
        crate::watch::start(&shared)?;
        shared.start_usher()?;
        let listening = listening::start(&shared, listener)?;
        Ok(Self {
            shared,
            address,
            listening: Some(listening),
        })
    }

    /// The address at which it listens.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The node's key.
    #[must_use]
    pub fn fingerprint(&self) -> Fingerprint {
        self.shared.gate.fingerprint()
    }

    /// The number of sessions.
    #[must_use]
    pub fn sessions(&self) -> usize {
        self.shared.session_count()
    }

    /// A function that tells how the node is, as clients that ask are told, and as often: also
    /// while [`Node::wait`] has the node.
    pub fn status(&self) -> impl Fn() -> Status + Send + Sync + 'static {
        let shared = Arc::clone(&self.shared);
        move || shared.paced_status().1
    }

    /// A function that tells what goes over the links of all sessions, as often as clients that ask
    /// are told.
    pub fn links(&self) -> impl Fn() -> LinkTotals + Send + Sync + 'static {
        let shared = Arc::clone(&self.shared);
        move || LinkTotals::of(&shared.paced_look().0)
    }

    /// The reason for which sessions are in no control groups of their own; none if they are.
    #[cfg(target_os = "linux")]
    #[must_use]
    pub fn why_no_control_groups(&self) -> Option<&str> {
        match &self.shared.home {
            Home::Processes(processes) => processes.why_no_groups(),
            _ => Some("sessions have no processes of their own"),
        }
    }

    /// Bytes of all sessions' buffers; of sessions in processes of their own, as they have last
    /// said.
    #[must_use]
    pub fn session_bytes(&self) -> u64 {
        self.shared.totals().buffer_bytes
    }

    /// Cuts the connections of all sessions, as a network may: for tests of what happens then.
    #[doc(hidden)]
    pub fn cut(&self) {
        let sessions: Vec<_> = locked(&self.shared.sessions).values().cloned().collect();
        for session in sessions {
            session.cut("the node has cut it");
        }
    }

    /// A function that ends all sessions, and tells their clients so, for a process that ends
    /// without dropping the node. Nobody is let in any more.
    pub fn stop(&self) -> impl FnOnce() + Send + 'static {
        let shared = Arc::clone(&self.shared);
        move || shared.stop()
    }

    /// Returns when the node ends, which it does not by itself.
    pub fn wait(mut self) {
        if let Some(listening) = self.listening.take() {
            // It does not panic.
            let _ = listening.join();
        }
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        self.shared.stop();
        // Its thread waits for somebody to come.
        let mut own = self.address;
        if own.ip().is_unspecified() {
            own.set_ip(match own {
                SocketAddr::V4(_) => std::net::Ipv4Addr::LOCALHOST.into(),
                SocketAddr::V6(_) => std::net::Ipv6Addr::LOCALHOST.into(),
            });
        }
        let came = TcpStream::connect_timeout(&own, Duration::from_secs(1));
        if let Some(listening) = self.listening.take().filter(|_| came.is_ok()) {
            let _ = listening.join();
        }
    }
}

/// The id of a session whose client cannot export it.
fn random_session() -> Option<SessionId> {
    let mut id = SessionId::NONE;
    let random = ring::rand::SystemRandom::new();
    ring::rand::SecureRandom::fill(&random, &mut id.0).ok()?;
    (id != SessionId::NONE).then_some(id)
}

/// Those of the devices that a client may use.
pub(crate) fn allowed(devices: &[Device], rights: &Rights) -> Vec<Device> {
    let may = |device: &&Device| rights.allow(device.driver_name(), device.index());
    devices.iter().filter(may).cloned().collect()
}

impl Shared {
    pub(crate) fn new(options: Options, gate: Gate, home: Home) -> Arc<Self> {
        quipu_clc::limit_compiler(COMPILER_SECONDS);
        let limits = options.limits.sound();
        Arc::new(Self {
            busy: Busy::of(options.devices.len()),
            strangers: Strangers::new(limits.strangers),
            #[cfg(target_os = "linux")]
            early: crate::early::Early::new(),
            begun_here: Condvar::new(),
            gate,
            lines: Lines::new(options.timer.clone()),
            options: Options { limits, ..options },
            begun: Instant::now(),
            home,
            sessions: Mutex::default(),
            numbers: AtomicU64::new(0),
            has_begun: AtomicBool::new(false),
            questions: Mutex::default(),
            looks: Paced::default(),
            statuses: Paced::default(),
            next: AtomicU64::new(0),
            stopping: AtomicBool::new(false),
            commands_before: AtomicU64::new(0),
            bytes: AtomicU64::new(0),
            parked: AtomicU64::new(0),
        })
    }

    /// Ends all sessions, and tells their clients so. Nobody is let in any more.
    fn stop(&self) {
        self.stopping.store(true, Ordering::SeqCst);
        let sessions: Vec<_> = locked(&self.sessions).values().cloned().collect();
        for session in sessions {
            session.end(GoodbyeReason::ShuttingDown, "the node is shutting down");
        }
        #[cfg(target_os = "linux")]
        if let Home::Processes(processes) = &self.home {
            processes.shut_down();
        }
        self.strangers.close();
        #[cfg(target_os = "linux")]
        self.early.close();
    }

    /// A number that no other session of this process has.
    pub(crate) fn next_number(&self) -> u64 {
        self.numbers.fetch_add(1, Ordering::Relaxed)
    }

    /// Counts bytes that are kept until their write's turn; false, and they do not count, if there
    /// are too many: they and all buffers have the memory that sessions may have, and the former
    /// always some.
    pub(crate) fn park(&self, bytes: u64) -> bool {
        let most = self.options.limits.process_bytes;
        let room = most.saturating_sub(self.bytes.load(Ordering::Acquire));
        let room = room.saturating_add(PARKED);
        let before = self.parked.fetch_add(bytes, Ordering::AcqRel);
        let is_room = before.saturating_add(bytes) <= room;
        if !is_room {
            self.unpark(bytes);
        }
        is_room
    }

    /// They are kept no more.
    pub(crate) fn unpark(&self, bytes: u64) {
        self.parked.fetch_sub(bytes, Ordering::AcqRel);
    }

    pub(crate) fn home(&self) -> &Home {
        &self.home
    }

    pub(crate) fn session_count(&self) -> usize {
        match &self.home {
            #[cfg(target_os = "linux")]
            Home::Processes(processes) => processes.len(),
            _ => locked(&self.sessions).len(),
        }
    }

    /// The sums of what sessions count. Those of processes are as the processes have last said.
    pub(crate) fn totals(&self) -> Totals {
        match &self.home {
            #[cfg(target_os = "linux")]
            Home::Processes(processes) => processes.totals(),
            _ => {
                let sessions = locked(&self.sessions);
                let mut totals = Totals {
                    buffer_bytes: self.bytes.load(Ordering::Acquire),
                    commands: self.commands_before.load(Ordering::Acquire),
                    ..Totals::default()
                };
                for session in sessions.values() {
                    let [held, over] = session.counters().commands();
                    let [bulk_bytes, bulk_sent] = session.bulk_bytes();
                    totals.add(&Totals {
                        buffer_bytes: 0,
                        commands_held: held,
                        commands: held + over,
                        bulk_bytes,
                        bulk_sent,
                    });
                }
                totals
            }
        }
    }

    /// Ends the sessions of clients whose enrolment was taken back, and those that began with more
    /// rights than their clients have now.
    pub(crate) fn hold_to_rights(&self) {
        let mut known = HashMap::new();
        let mut ends = |client, had: &Rights| {
            let now = known
                .entry(client)
                .or_insert_with(|| self.gate.rights_of(client));
            match now {
                Ok(None) => Some((GoodbyeReason::Revoked, "the key was revoked")),
                Ok(Some(now)) if !now.cover(had) => Some((GoodbyeReason::Limit, NARROWED)),
                Ok(Some(_)) => None,
                Err(error) => {
                    // The list is broken: nobody new is let in, then, and who is there stays.
                    quietly(|| tracing::warn!(%error, "who may come in is not known"));
                    None
                }
            }
        };
        let sessions: Vec<_> = locked(&self.sessions).values().cloned().collect();
        for session in sessions {
            if let Some((reason, text)) = ends(session.client(), session.rights()) {
                session.end(reason, text);
            }
        }
        #[cfg(target_os = "linux")]
        if let Home::Processes(processes) = &self.home {
            processes.end(ends);
        }
    }

    /// A connection, from its first byte to its last.
    pub(crate) fn see_to(self: &Arc<Self>, number: u64, stream: TcpStream) {
        #[cfg(target_os = "linux")]
        let Some(stream) = self.route(stream) else {
            return self.strangers.forget(number, None);
        };
        let arrival = self.gate.admit(stream);
        let client = match &arrival {
            Ok(Arrival::Caller(caller)) => Some(caller.client().fingerprint),
            Ok(Arrival::Enrolled(client)) => Some(client.fingerprint),
            Ok(Arrival::Peer(_)) | Err(_) => None,
        };
        self.strangers.forget(number, client);
        let caller = match arrival {
            Ok(Arrival::Caller(caller)) => *caller,
            Ok(Arrival::Peer(caller)) => {
                let key = caller.key();
                if let Err(error) = self.meet(*caller) {
                    quietly(|| tracing::info!(%key, %error, "another node is gone"));
                }
                return;
            }
            Ok(Arrival::Enrolled(client)) => {
                let key = client.fingerprint;
                let client = client.name;
                match self.lines.tell(Some(key)) {
                    true => quietly(|| tracing::info!(target: OPERATOR, client, %key, "enrolled")),
                    false => quietly(|| tracing::info!(client, %key, "enrolled")),
                }
                return;
            }
            Err(error) => {
                match self.tells_refusal(&error) {
                    true => quietly(|| tracing::info!(target: OPERATOR, %error, "not let in")),
                    false => quietly(|| tracing::info!(%error, "not let in")),
                }
                return;
            }
        };
        let name = caller.client().name.clone();
        if !caller.is_enrolled() {
            let (address, key) = (caller.address(), caller.client().fingerprint);
            let text = "let in, though not enrolled: this node is insecure";
            match self.lines.tell(None) {
                true => quietly(|| tracing::warn!(target: OPERATOR, address, %key, "{text}")),
                false => quietly(|| tracing::info!(address, %key, "{text}")),
            }
        }
        let seen = if self.stopping.load(Ordering::SeqCst) {
            Err(caller.refuse(Refusal::ShuttingDown, "the node is shutting down"))
        } else {
            match caller.role() {
                Role::Session => self.begin_new(caller),
                Role::Bulk => self.attach(caller),
                Role::Status => self.answer(caller),
                Role::Resume if self.is_first_of_own(&caller) => self.begin_own(caller),
                Role::Resume => self.come_back(caller, false),
            }
        };
        match seen {
            Ok(()) => quietly(|| tracing::info!(client = name, "gone")),
            Err(error) if self.tells_refusal(&error) => {
                quietly(|| tracing::info!(target: OPERATOR, client = name, %error, "gone"));
            }
            Err(error) => quietly(|| tracing::info!(client = name, %error, "gone")),
        }
    }

    /// True if the operator is to be told that somebody was refused: as long as these are few.
    fn tells_refusal(&self, error: &LinkError) -> bool {
        matches!(error, LinkError::TurnedAway { .. }) && self.lines.tell(None)
    }

    /// The welcome to a connection, for a session or for none.
    pub(crate) fn welcome(&self, session: Option<&Session>) -> Welcome<'_> {
        let patience = session.map_or(Duration::ZERO, Session::patience);
        let limits = &self.options.limits;
        Welcome {
            // These are seen to by the gate.
            version: 0,
            data_order: DataOrder::Little,
            devices: 0,
            features: self.features(),
            session: session.map_or(SessionId::NONE, Session::id),
            epoch: u32::from(session.is_some()),
            patience_ms: u32::try_from(patience.as_millis()).unwrap_or(u32::MAX),
            received: 0,
            max_frame: limits.frame,
            max_inline: limits.inline,
            max_commands: limits.commands,
            max_buffers: limits.buffers,
            max_programs: limits.programs,
            max_program_bytes: limits.program_bytes,
            max_buffer_bytes: limits.buffer_bytes,
            max_session_bytes: limits.session_bytes,
            // Who only asks how the node is waits for no longer than it likes.
            idle_ms: session.map_or(0, |_| {
                u32::try_from(self.options.idle.as_millis()).unwrap_or(u32::MAX)
            }),
            peer_address: session.and_then(Session::peer_address),
            name: self.gate.name(),
        }
    }

    /// True if this process is a session's, and this is the first connection of its command stream.
    #[cfg_attr(
        not(target_os = "linux"),
        allow(unused_variables, reason = "no process is a session's there")
    )]
    fn is_first_of_own(&self, caller: &Caller) -> bool {
        match &self.home {
            #[cfg(target_os = "linux")]
            Home::Session(own, ..) => {
                caller.session() == (*own, 1, 0) && !self.has_begun.swap(true, Ordering::AcqRel)
            }
            _ => false,
        }
    }

    /// The session that this process is for. The process ends with it.
    fn begin_own(self: &Arc<Self>, caller: Caller) -> Result<(), LinkError> {
        let (id, ..) = caller.session();
        let ended = self.begin(caller, id);
        quietly(|| tracing::info!(?ended, "the session is over"));
        self.end_own();
        ended
    }

    /// Ends the process if it is a session's, which is over: also if a thread of it never is.
    pub(crate) fn end_own(&self) {
        #[cfg(target_os = "linux")]
        if matches!(self.home, Home::Session(..)) {
            crate::process::end();
        }
    }

    /// A new session, until it ends or has a process of its own.
    fn begin_new(self: &Arc<Self>, caller: Caller) -> Result<(), LinkError> {
        let own = caller
            .own_session()
            .filter(|_| self.features() & EARLY != 0);
        let Some(id) = own.or_else(random_session) else {
            return Err(caller.refuse(Refusal::Full, "the system gives no random numbers"));
        };
        let rights = &caller.client().rights;
        if !rights.are_all() && !self.has_processes() {
            let text = "this node keeps all sessions in one process, and so takes only clients with all rights";
            return Err(caller.refuse(Refusal::NotOffered, text));
        }
        if allowed(&self.options.devices, rights).is_empty() {
            let text = "the node has none of the devices that this client may use";
            return Err(caller.refuse(Refusal::NotOffered, text));
        }
        match &self.home {
            Home::Here => self.begin(caller, id),
            #[cfg(target_os = "linux")]
            Home::Processes(processes) => {
                let is_there = || self.let_early_in(id);
                processes.begin(caller, id, &self.gate, &self.options.limits, is_there)
            }
            #[cfg(target_os = "linux")]
            Home::Session(..) => {
                Err(caller.refuse(Refusal::NotOffered, "this is a session's process"))
            }
        }
    }

    /// True if sessions have processes of their own.
    fn has_processes(&self) -> bool {
        match &self.home {
            #[cfg(target_os = "linux")]
            Home::Processes(_) => true,
            _ => false,
        }
    }

    /// A session's command stream, until it ends.
    fn begin(self: &Arc<Self>, caller: Caller, id: SessionId) -> Result<(), LinkError> {
        // A place is taken before anything is made.
        let session = match Session::new(self, &caller, id) {
            Ok(session) => Arc::new(session),
            Err(error) => return Err(caller.refuse(Refusal::Full, &error.to_string())),
        };
        {
            let mut sessions = locked(&self.sessions);
            let client = caller.client().fingerprint;
            let own = sessions.values();
            let own = own.filter(|other| other.client() == client).count();
            if let Err(text) = self.options.limits.room_for(sessions.len(), own) {
                drop(sessions);
                return Err(caller.refuse(Refusal::Full, &text));
            }
            sessions.insert(id, Arc::clone(&session));
        }
        self.begun_here.notify_all();
        #[cfg(target_os = "linux")]
        self.let_early_in(id);
        let is_here = matches!(self.home, Home::Here);
        let client = caller.client().name.clone();
        let (key, of) = (caller.client().fingerprint, caller.logged_as());
        // The node's process says so of one that has another.
        if is_here {
            match self.lines.tell(of) {
                true => quietly(
                    || tracing::info!(target: OPERATOR, client, %key, "a session has begun"),
                ),
                false => quietly(|| tracing::info!(client, %key, "a session has begun")),
            }
        }
        let run = || {
            let connection = described(&self.options.devices, |devices| {
                caller.welcome(self.welcome(Some(&session)), devices)
            })?;
            session.run(self, connection)
        };
        let run = std::panic::AssertUnwindSafe(run);
        let ended = std::panic::catch_unwind(run).unwrap_or_else(|_| {
            quietly(|| tracing::error!("a session has panicked; it ends"));
            Ok(())
        });
        session.abort("the session has ended");
        let because = ended.as_ref().err().map(ToString::to_string);
        if is_here {
            match self.lines.tell(of) {
                true => quietly(
                    || tracing::info!(target: OPERATOR, client, %key, because, "a session has ended"),
                ),
                false => quietly(|| tracing::info!(client, %key, because, "a session has ended")),
            }
        }
        self.forget(id);
        ended
    }

    /// A session has ended, unless that was said before. Its commands count on.
    pub(crate) fn forget(&self, id: SessionId) {
        let mut sessions = locked(&self.sessions);
        if let Some(session) = sessions.remove(&id) {
            let commands = session.counters().commands().iter().sum();
            self.commands_before.fetch_add(commands, Ordering::AcqRel);
        }
        drop(sessions);
        #[cfg(target_os = "linux")]
        self.early.forget(id);
    }

    /// Another node has come, by its own account. If something is wrong with it, it is not told.
    fn meet(self: &Arc<Self>, mut caller: PeerCaller) -> Result<(), LinkError> {
        let key = caller.key();
        let now = || self.options.timer.now();
        let sessions: Vec<_> = locked(&self.sessions).values().cloned().collect();
        let mut sessions = sessions.iter();
        if !sessions.any(|session| session.peers().expects(key, now())) {
            quietly(
                || tracing::info!(address = caller.address(), %key, "a node that nobody expects was not let in"),
            );
            return Ok(());
        }
        let ticket = caller.ticket()?;
        let session = locked(&self.sessions).get(&ticket.session).cloned();
        let admitted = session.and_then(|session| {
            let peer = session.peers().admit(key, &ticket, now())?;
            Some((session, peer))
        });
        let Some((session, peer)) = admitted else {
            quietly(
                || tracing::info!(address = caller.address(), %key, "a ticket that is not good was not taken"),
            );
            return Ok(());
        };
        let connection = caller.admit(&ticket)?;
        session.run_peer(self, (peer, ticket.epoch), connection)
    }

    /// Dials another node, if its network is one that the operator allows.
    pub(crate) fn reach(&self, to: &Destination, until: Instant) -> io::Result<TcpStream> {
        match &self.home {
            // Its own process may not.
            #[cfg(target_os = "linux")]
            Home::Session(_, dials, _) => dials.reach(to, until),
            _ => self.options.peers.networks.reach(to, until),
        }
    }

    /// The key that this process proves to others.
    pub(crate) fn key(&self) -> &Key {
        self.gate.key()
    }

    /// To the drivers that have use for a thread that enqueues what others say.
    pub(crate) fn lenders(&self) -> Vec<Box<dyn InlineExecutor>> {
        let mut drivers: Vec<&Arc<dyn Driver>> = Vec::new();
        for device in &self.options.devices {
            let driver = device.driver();
            if !drivers.iter().any(|known| Arc::ptr_eq(known, driver)) {
                drivers.push(driver);
            }
        }
        let lenders = drivers.iter().filter_map(|driver| driver.inline_executor());
        lenders.collect()
    }

    /// The session that a caller names, if it is its own.
    fn session_of(&self, caller: &Caller) -> Option<Arc<Session>> {
        let (id, ..) = caller.session();
        let session = locked(&self.sessions).get(&id).cloned();
        session.filter(|session| session.client() == caller.client().fingerprint)
    }

    /// A stream's connection was lost, and its client has come with another.
    fn come_back(&self, caller: Caller, is_bulk: bool) -> Result<(), LinkError> {
        let no_session = |caller: Caller| {
            let text = self.why_over(&caller);
            let text = text
                .as_deref()
                .unwrap_or("there is no such session of this key, or a newer connection of it");
            Err(caller.refuse(Refusal::NoSession, text))
        };
        match self.session_of(&caller) {
            Some(session) => session
                .come_back(caller, is_bulk)
                .or_else(|caller| no_session(*caller)),
            None => no_session(caller),
        }
    }

    /// The reason for which the session that a caller names has ended, if it was its own, and if
    /// that is known.
    #[cfg_attr(
        not(target_os = "linux"),
        allow(unused_variables, reason = "no session has a process there")
    )]
    fn why_over(&self, caller: &Caller) -> Option<String> {
        match &self.home {
            #[cfg(target_os = "linux")]
            Home::Processes(processes) => {
                let (id, ..) = caller.session();
                processes.why_over(id, caller.client().fingerprint)
            }
            _ => None,
        }
    }

    /// If this process is for a session that has not begun: waits until it has, for as long as its
    /// client may take to say hello. The connections of both streams come at the same time.
    fn await_own(&self) {
        #[cfg(target_os = "linux")]
        if matches!(self.home, Home::Session(..)) {
            let is_missing = |sessions: &mut HashMap<_, _>| sessions.is_empty();
            let (sessions, patience) = (locked(&self.sessions), self.gate.patience());
            let waited = self
                .begun_here
                .wait_timeout_while(sessions, patience, is_missing);
            drop(waited.unwrap_or_else(PoisonError::into_inner));
        }
    }

    /// A session's bulk stream, until it ends.
    fn attach(&self, caller: Caller) -> Result<(), LinkError> {
        self.await_own();
        let session = self.session_of(&caller);
        let (_, epoch, received) = caller.session();
        let is_first = (epoch, received) == (1, 0);
        let Some(session) = session.filter(|session| is_first && session.claim_bulk()) else {
            return self.come_back(caller, true);
        };
        let ended = caller
            .welcome(self.welcome(Some(&session)), &[])
            .and_then(|connection| session.run_bulk(self, connection));
        session.abort("its bulk stream has ended");
        // The thread of the command stream may be in a kernel that it took to be brief.
        self.end_own();
        ended
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use quipu_link::Folder;
    use quipu_link::clock::SystemClock;

    #[test]
    fn who_serves_a_page_of_numbers_asks_sessions_as_seldom_as_clients_do() {
        let folder = tempfile::tempdir().unwrap();
        let folder = Folder::open(folder.path().join("node")).unwrap();
        let gate = Gate::new(&folder, "node", IDLE, Arc::new(SystemClock)).unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let node = Node::serve(Options::new(Vec::new()), gate, listener).unwrap();
        let (status, links) = (node.status(), node.links());
        for asked in 1..=3 {
            status();
            links();
            let begun = [&node.shared.statuses, &node.shared.looks].map(Paced::begun);
            assert_eq!(begun, [asked; 2]);
        }
    }
}
