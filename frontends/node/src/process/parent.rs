//! The node's side: starts the processes of sessions, hands them their connections, and sees to their ends.

use super::channel::{Channel, Packet};
use super::{
    ANSWERED, ASK, CONNECTION, COUNTS, DIAL, LOAD, READY, Spawn, Start, dials, encode_end, loads,
};
use crate::limits::Limits;
use crate::load::{DeviceCount, SessionCount};
use crate::locked;
use crate::node::Peering;
use quipu_core::Device;
use quipu_link::gate::{Caller, Gate};
use quipu_link::peer::Networks;
use quipu_link::{Fingerprint, LinkError};
use quipu_wire::message::{GoodbyeReason, Redirect, Refusal, SessionId};
use std::collections::HashMap;
use std::io;
use std::net::TcpStream;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::Duration;

/// For how long processes may take to say goodbye as the node ends.
const LINGER: Duration = Duration::from_secs(2);

/// For how long a process may take until it serves: its devices are opened.
const STARTING: Duration = Duration::from_secs(60);

/// For how long processes may take to say what there is to do on their devices.
const ANSWERING: Duration = Duration::from_millis(100);

/// What a process has last said that there is to do, and to which question.
#[derive(Debug, Default)]
struct Answer {
    question: u64,
    devices: Vec<(loads::Name, DeviceCount)>,
}

/// A session that has a process.
#[derive(Debug)]
struct Hosted {
    client: Fingerprint,
    /// Larger than those of sessions that began before.
    number: u64,
    answer: Mutex<Answer>,
    /// Whether it may have to do with other nodes.
    has_peers: bool,
    channel: Arc<Channel>,
    /// None once it was waited for.
    child: Mutex<Option<Child>>,
    /// Bytes of buffers, commands that are not over, commands that were; as the process says.
    counts: [AtomicU64; crate::node::COUNTS],
    /// Connections to other nodes that are being made for it.
    dialled: Arc<AtomicUsize>,
}

impl Hosted {
    /// Ends it and all that it has started, whatever they do.
    fn kill(&self) {
        let child = locked(&self.child);
        // Not waited for yet, so the number is still its own, also if it has ended.
        if let Some(child) = &*child
            && let Ok(group) = libc::pid_t::try_from(child.id())
        {
            // SAFETY: it takes numbers; the process is the first of its group, which nobody in it can leave.
            unsafe { libc::kill(-group, libc::SIGKILL) };
        }
    }

    /// Ends it, and waits until it has.
    fn reap(&self) -> io::Result<ExitStatus> {
        self.kill();
        let child = locked(&self.child).take();
        match child {
            Some(mut child) => child.wait(),
            None => Err(io::Error::other("it was waited for before")),
        }
    }
}

/// Devices of a process, at most: what a welcome can announce.
const MOST_DEVICES: usize = 1024;

type Started = io::Result<Child>;

/// A process that is to be started, and who waits for it.
type Request = (Command, Sender<Started>);

/// All processes of a node's sessions.
#[derive(Debug)]
pub(crate) struct Processes {
    spawn: Spawn,
    peers: Peering,
    sessions: Mutex<HashMap<SessionId, Arc<Hosted>>>,
    /// Sessions that are being started.
    starting: AtomicUsize,
    /// A session has ended.
    ended: Condvar,
    /// Sessions that there were, and questions to them.
    numbers: AtomicU64,
    questions: AtomicU64,
    /// A session has answered: locked for a moment after it has.
    answering: Mutex<()>,
    answered: Condvar,
    /// A process dies with the thread that has started it: so it is one that lasts as long as the node.
    starter: Mutex<Option<Sender<Request>>>,
}

fn start_all(requests: &Receiver<Request>) {
    for (mut command, answer) in requests {
        if let Err(unheard) = answer.send(command.spawn())
            && let Ok(mut child) = unheard.0
        {
            let _ = (child.kill(), child.wait());
        }
    }
}

/// A session that is being started counts as one.
struct Starting<'a>(&'a AtomicUsize);

impl<'a> Starting<'a> {
    fn one(count: &'a AtomicUsize) -> Self {
        count.fetch_add(1, Ordering::SeqCst);
        Self(count)
    }
}

impl Drop for Starting<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

impl Processes {
    pub(crate) fn new(spawn: Spawn, peers: Peering) -> io::Result<Self> {
        // The node's key is in this process's memory: nobody else's, also of the same user, is to look there.
        // SAFETY: it takes numbers.
        if unsafe { libc::prctl(libc::PR_SET_DUMPABLE, 0, 0, 0, 0) } != 0 {
            let error = io::Error::last_os_error();
            tracing::warn!(%error, "others of this user may look into the node's memory");
        }
        let (starter, requests) = channel();
        std::thread::Builder::new()
            .name("quipu-starter".to_owned())
            .spawn(move || start_all(&requests))?;
        Ok(Self {
            spawn,
            peers,
            sessions: Mutex::default(),
            starting: AtomicUsize::new(0),
            ended: Condvar::new(),
            numbers: AtomicU64::new(0),
            questions: AtomicU64::new(0),
            answering: Mutex::default(),
            answered: Condvar::new(),
            starter: Mutex::new(Some(starter)),
        })
    }

    /// How many sessions there are.
    pub(crate) fn len(&self) -> usize {
        locked(&self.sessions).len()
    }

    /// What all sessions count, as far as they have said.
    pub(crate) fn counts(&self) -> [u64; crate::node::COUNTS] {
        let sessions = locked(&self.sessions);
        let of = |which: usize| {
            let each = sessions.values();
            each.map(|session| session.counts[which].load(Ordering::Acquire))
                .fold(0, u64::saturating_add)
        };
        std::array::from_fn(of)
    }

    /// What each session has on these devices. Asks them all, and waits until they have answered, or for a while: of who
    /// has not, it is what was said last.
    pub(crate) fn session_counts(&self, devices: &[Device]) -> Vec<SessionCount> {
        let question = self.questions.fetch_add(1, Ordering::SeqCst) + 1;
        let packet = [&[ASK][..], &question.to_le_bytes()].concat();
        let sessions: Vec<_> = locked(&self.sessions).values().cloned().collect();
        for session in &sessions {
            // Who takes no more does not answer.
            let _ = session.channel.send(&packet, None);
        }
        let is_missing = |_: &mut ()| {
            let mut answers = sessions
                .iter()
                .map(|session| locked(&session.answer).question);
            answers.any(|answered| answered < question)
        };
        let answering = locked(&self.answering);
        let waited = self
            .answered
            .wait_timeout_while(answering, ANSWERING, is_missing);
        drop(waited);
        let count = |session: &Arc<Hosted>| {
            let answer = locked(&session.answer);
            let known = answer.devices.iter();
            SessionCount {
                client: session.client,
                number: session.number,
                devices: known
                    .filter_map(|(name, count)| Some((loads::find(devices, name)?, count.clone())))
                    .collect(),
            }
        };
        sessions.iter().map(count).collect()
    }

    /// Starts a session's process, and tells its client where it is.
    pub(crate) fn begin(
        self: &Arc<Self>,
        caller: Caller,
        id: SessionId,
        gate: &Gate,
        limits: &Limits,
    ) -> Result<(), LinkError> {
        // Those that come at the same time count, too.
        let starting = Starting::one(&self.starting);
        if self.len() + self.starting.load(Ordering::SeqCst) > limits.sessions {
            let text = "the node has as many sessions as it takes; try again later";
            return Err(caller.refuse(Refusal::Full, text));
        }
        let started = self.start(&caller, id, gate, limits);
        let (hosted, scratch) = match started {
            Ok(started) => started,
            Err(error) => {
                tracing::error!(%error, "no process for a session");
                let text = "the node could not start a process for the session";
                return Err(caller.refuse(Refusal::Full, text));
            }
        };
        let key = match ready(&hosted) {
            Ok(key) => key,
            Err(error) => {
                let _ = hosted.reap();
                let _ = std::fs::remove_dir_all(&scratch);
                tracing::error!(%error, "a session's process does not serve");
                let text = "the process of the session has failed as it started";
                return Err(caller.refuse(Refusal::Full, text));
            }
        };
        locked(&self.sessions).insert(id, Arc::clone(&hosted));
        drop(starting);
        let own = Arc::clone(self);
        let watching = std::thread::Builder::new()
            .name("quipu-hosted".to_owned())
            .stack_size(1 << 16)
            .spawn(move || own.watch(id, &hosted, &scratch));
        if let Err(error) = watching {
            tracing::error!(%error, "no thread for a session");
            if let Some(hosted) = locked(&self.sessions).remove(&id) {
                let _ = hosted.reap();
            }
            return Err(caller.refuse(Refusal::Full, "the node has no thread for the session"));
        }
        caller.redirect(Redirect {
            session: id,
            key: key.bytes(),
            wait_ms: u32::try_from(gate.patience().as_millis()).unwrap_or(u32::MAX),
        })
    }

    fn start(
        &self,
        caller: &Caller,
        id: SessionId,
        gate: &Gate,
        limits: &Limits,
    ) -> io::Result<(Arc<Hosted>, PathBuf)> {
        let (ours, theirs) = Channel::pair()?;
        let scratch = make_scratch(id)?;
        let mut command = self.spawn.command(&scratch);
        command
            .stdin(Stdio::from(theirs))
            .stdout(Stdio::null())
            .process_group(0);
        let (answer, started) = channel();
        let over = || io::Error::other("the node is shutting down");
        let sent = match &*locked(&self.starter) {
            Some(starter) => starter.send((command, answer)).is_ok(),
            None => false,
        };
        let child = match (sent, started.recv()) {
            (true, Ok(started)) => started,
            _ => Err(over()),
        };
        let child = child.inspect_err(|_| {
            let _ = std::fs::remove_dir_all(&scratch);
        })?;
        let client = caller.client();
        let has_peers = client.rights.peers && !self.peers.networks.is_empty();
        let hosted = Hosted {
            client: client.fingerprint,
            has_peers,
            channel: Arc::new(ours),
            child: Mutex::new(Some(child)),
            number: self.numbers.fetch_add(1, Ordering::Relaxed),
            answer: Mutex::default(),
            counts: Default::default(),
            dialled: Arc::default(),
        };
        let start = Start {
            session: id,
            client: client.clone(),
            node_name: gate.name().to_owned(),
            patience: gate.patience(),
            scratch: scratch.clone(),
            limits: *limits,
            peers: has_peers.then_some(self.peers.address),
        };
        // If it has failed at once, that is seen next.
        let _ = hosted.channel.send(&start.encode(), None);
        Ok((Arc::new(hosted), scratch))
    }

    /// Sees to a process until it ends.
    fn watch(&self, id: SessionId, hosted: &Hosted, scratch: &Path) {
        let mut devices = Vec::new();
        while let Ok(packet) = hosted.channel.receive(None) {
            match packet {
                Packet::Some(packet, None) => {
                    if packet.first() == Some(&DIAL) {
                        let nowhere = Networks::none();
                        let networks = match hosted.has_peers {
                            true => &self.peers.networks,
                            false => &nowhere,
                        };
                        dials::make(&packet, &hosted.channel, networks, &hosted.dialled);
                    } else if packet.first() == Some(&LOAD) {
                        // It has no more devices than the node.
                        devices.truncate(MOST_DEVICES);
                        devices.extend(loads::decode(&packet));
                    } else if let [ANSWERED, question @ ..] = &packet[..] {
                        let question = question.try_into().map_or(0, u64::from_le_bytes);
                        *locked(&hosted.answer) = Answer {
                            question,
                            devices: std::mem::take(&mut devices),
                        };
                        drop(locked(&self.answering));
                        self.answered.notify_all();
                    } else if let [COUNTS, numbers @ ..] = &packet[..] {
                        let numbers = numbers.as_chunks::<8>().0;
                        for (count, number) in hosted.counts.iter().zip(numbers) {
                            count.store(u64::from_le_bytes(*number), Ordering::Release);
                        }
                    }
                }
                Packet::Nothing => {}
                // It has no connection to give.
                Packet::Some(_, Some(_)) | Packet::End => break,
            }
        }
        match hosted.reap() {
            Ok(status) if status.success() => tracing::info!("a session has ended"),
            Ok(status) => tracing::warn!(%status, "a session's process has ended"),
            Err(error) => tracing::warn!(%error, "a session's process has ended"),
        }
        if let Err(error) = std::fs::remove_dir_all(scratch) {
            tracing::debug!(%error, "a session's files are left");
        }
        locked(&self.sessions).remove(&id);
        self.ended.notify_all();
    }

    /// Hands a connection over to a session. Given back if there is none.
    pub(crate) fn hand_over(&self, id: SessionId, stream: TcpStream) -> Result<(), TcpStream> {
        let Some(hosted) = locked(&self.sessions).get(&id).cloned() else {
            return Err(stream);
        };
        let fd = OwnedFd::from(stream);
        // If it takes no more, whoever has come finds the connection closed, and tries again.
        if let Err(error) = hosted.channel.send(&[CONNECTION], Some(fd.as_fd())) {
            tracing::warn!(%error, "a connection was not handed over");
        }
        Ok(())
    }

    /// Ends the sessions of clients of which this holds.
    pub(crate) fn end(&self, reason: GoodbyeReason, text: &str, of: impl Fn(Fingerprint) -> bool) {
        for hosted in locked(&self.sessions).values() {
            if of(hosted.client)
                && hosted
                    .channel
                    .send(&encode_end(reason, text), None)
                    .is_err()
            {
                hosted.kill();
            }
        }
    }

    /// Whose sessions there are.
    pub(crate) fn clients(&self) -> Vec<Fingerprint> {
        let sessions = locked(&self.sessions);
        sessions.values().map(|session| session.client).collect()
    }

    /// Ends all of them.
    pub(crate) fn shut_down(&self) {
        self.end(
            GoodbyeReason::ShuttingDown,
            "the node is shutting down",
            |_| true,
        );
        let sessions = locked(&self.sessions);
        let are_left = |sessions: &mut HashMap<_, _>| !sessions.is_empty();
        let waited = self.ended.wait_timeout_while(sessions, LINGER, are_left);
        let (sessions, _) = waited.unwrap_or_else(PoisonError::into_inner);
        sessions.values().for_each(|session| session.kill());
        drop(sessions);
        *locked(&self.starter) = None;
    }
}

/// Waits until a process serves; its key.
fn ready(hosted: &Hosted) -> io::Result<Fingerprint> {
    match hosted.channel.receive(Some(STARTING))? {
        Packet::Some(packet, None) => {
            let key = packet.strip_prefix(&[READY]).map(<[u8; 32]>::try_from);
            match key {
                Some(Ok(key)) => Ok(Fingerprint::of_bytes(key)),
                _ => Err(io::Error::other("it says something else than its key")),
            }
        }
        Packet::Nothing => Err(io::ErrorKind::TimedOut.into()),
        _ => Err(io::Error::other("it has ended; its reason is in the log")),
    }
}

impl Spawn {
    /// What is started, with this folder for what it writes.
    pub(super) fn command(&self, scratch: &Path) -> Command {
        let mut command = Command::new(&self.program);
        command
            .args(&self.arguments)
            .envs(
                ["TMPDIR", "HOME", "XDG_CACHE_HOME", "POCL_CACHE_DIR"].map(|name| (name, scratch)),
            )
            .current_dir("/");
        for (name, value) in &self.environment {
            match value {
                Some(value) => command.env(name, value),
                None => command.env_remove(name),
            };
        }
        command
    }
}

/// A folder for what a session's compilers write.
pub(super) fn make_scratch(id: SessionId) -> io::Result<PathBuf> {
    use std::os::unix::fs::DirBuilderExt;
    let name: String = id.0.iter().map(|byte| format!("{byte:02x}")).collect();
    // Not the session's name, which others need not know.
    let name = format!("{}{}", scratch_prefix(), &name[..12]);
    let path = std::env::temp_dir().join(name);
    std::fs::DirBuilder::new().mode(0o700).create(&path)?;
    Ok(path)
}

/// How the names of this process's folders begin.
fn scratch_prefix() -> String {
    format!("quipu-{}-", std::process::id())
}

/// Removes the folders that sessions' processes of this process's nodes have for what their compilers write: for who ends the process
/// without dropping its nodes, as an interrupt does.
pub fn remove_scratch() {
    let Ok(entries) = std::fs::read_dir(std::env::temp_dir()) else {
        return;
    };
    for entry in entries.flatten() {
        let name = entry.file_name();
        if name
            .as_encoded_bytes()
            .starts_with(scratch_prefix().as_bytes())
        {
            // It may just have been removed by who watches its session.
            let _ = std::fs::remove_dir_all(entry.path());
        }
    }
}
