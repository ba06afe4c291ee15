//! The node's side of sessions' processes: their start, their connections, and their ends.

use super::channel::{Channel, Packet};
use super::groups::{Group, Groups};
use super::output::Outputs;
use super::{
    ANSWERED, ASK, CONNECTION, COUNTS, DIAL, LINKS, LOAD, OVER, READY, Spawn, Start, dials,
    encode_end, loads, scratch, usage,
};
use crate::budget::Budget;
use crate::limits::Limits;
use crate::load::SessionCount;
use crate::node::{Options, Peering};
use crate::operator::Lines;
use crate::totals::Totals;
use crate::{OPERATOR, locked};
use quipu_link::gate::{Caller, Gate};
use quipu_link::peer::Networks;
use quipu_link::session::{STARTING, STARTING_PING};
use quipu_link::timer::Timer;
use quipu_link::{Fingerprint, LinkError, Rights, Route};
use quipu_protocol::PEERS;
use quipu_protocol::message::{GoodbyeReason, Redirect, Refusal, SessionId, presentable};
use quipu_scheduler::Device;
use quipu_scheduler::panics::quietly;
use quipu_threads::Start as _;
use std::collections::{HashMap, VecDeque};
use std::io::{self, PipeWriter};
use std::mem::ManuallyDrop;
use std::net::TcpStream;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};

/// The longest time for which processes may say goodbye as the node ends.
const LINGER: Duration = Duration::from_secs(2);

/// The longest time until processes answer a question about the load of their devices.
const ANSWERING: Duration = Duration::from_millis(100);

/// The last answer of a process about its load and its traffic, and the number of the question.
#[derive(Debug, Default)]
struct Answer {
    question: u64,
    said: loads::Said,
}

/// A session that has a process.
#[derive(Debug)]
pub(super) struct Hosted {
    pub(super) client: Fingerprint,
    /// Those that its client had as it began.
    rights: Rights,
    /// The limits of its client.
    pub(super) limits: Limits,
    /// Its folder for what its compilers write.
    pub(super) scratch: PathBuf,
    /// It had more than it may at the last look.
    pub(super) is_suspect: AtomicBool,
    /// The time of the last look at its files.
    pub(super) looked: Mutex<Option<Instant>>,
    /// It was told to end.
    pub(super) is_told: AtomicBool,
    /// The reason for which it was first told to end, if it was.
    told: Mutex<Option<String>>,
    /// Larger than those of sessions that began before.
    number: u64,
    answer: Mutex<Answer>,
    /// True if it may have dealings with other nodes.
    has_peers: bool,
    channel: Arc<Channel>,
    /// The other end of its keeper's pipe; none once it is to end.
    kept: Mutex<Option<PipeWriter>>,
    /// None once it was waited for.
    child: Mutex<Option<Child>>,
    /// The session's group, once that is known.
    group: OnceLock<libc::pid_t>,
    /// The state in which the node found it then.
    pub(super) begun: OnceLock<usage::Begun>,
    /// And the group of its kernel's, if the system gives one.
    control: OnceLock<Group>,
    /// The totals of the process, as it last sent them.
    pub(super) totals: Mutex<Totals>,
    /// Its client counts as this in what the operator is told.
    logged_as: Option<Fingerprint>,
    /// Connections to other nodes that are being made for its client.
    dialled: Arc<AtomicUsize>,
}

impl Hosted {
    /// Has its keeper end it and all that it has started, whatever they do.
    pub(super) fn kill(&self) {
        *locked(&self.kept) = None;
    }

    /// Its keeper; none if it was waited for.
    fn process(&self) -> Option<u32> {
        locked(&self.child).as_ref().map(Child::id)
    }

    /// The group of all its processes, as far as that is known.
    pub(super) fn group(&self) -> Option<libc::pid_t> {
        self.group.get().copied()
    }

    /// True if the kernel has ended a process of it, because all had more memory than they may.
    pub(super) fn has_run_out(&self) -> bool {
        self.control.get().is_some_and(Group::has_run_out)
    }

    /// Signals the session and all that it has started.
    pub(super) fn signal(&self, signal: libc::c_int) {
        let child = locked(&self.child);
        // As long as its keeper was not waited for, it is nobody else's number.
        if let (Some(_), Some(group)) = (&*child, self.group.get()) {
            // SAFETY: it takes numbers.
            unsafe { libc::kill(-group, signal) };
        }
    }

    /// Tells it that it is to end, and why. False if it takes no more.
    fn tell_end(&self, reason: GoodbyeReason, text: &str) -> bool {
        self.note_end(text);
        self.channel.send(&encode_end(reason, text), None).is_ok()
    }

    /// Notes why it ends, if that was not known before.
    pub(super) fn note_end(&self, text: &str) {
        locked(&self.told).get_or_insert_with(|| text.to_owned());
    }

    /// Tells it to end, and why; if it was told before, or takes no more, ends it.
    pub(super) fn end(&self, reason: GoodbyeReason, text: &str) {
        let is_told = self.is_told.swap(true, Ordering::AcqRel);
        if is_told || !self.tell_end(reason, text) {
            self.kill();
        }
    }

    /// Ends it though it has not said that it serves: it may never come to where it has a keeper.
    fn give_up(&self) {
        self.kill();
        while let Ok(Packet::Some(..)) = self.channel.receive(Some(LINGER)) {}
        if let Some(child) = &mut *locked(&self.child) {
            // It has not ended what it keeps: the session would end with it, but not what that has
            // started.
            if let Some(session) = usage::first_child(child.id()) {
                // SAFETY: they take numbers, of a process that its keeper has not waited for.
                unsafe {
                    libc::kill(-session, libc::SIGKILL);
                    // It may not have come to its group.
                    libc::kill(session, libc::SIGKILL);
                }
            }
            // If it has ended, that is as well.
            let _ = child.kill();
        }
    }

    /// Ends it, and waits until it has.
    pub(super) fn reap(&self) -> io::Result<ExitStatus> {
        self.kill();
        let child = locked(&self.child).take();
        match child {
            Some(mut child) => child.wait(),
            None => Err(io::Error::other("it was waited for before")),
        }
    }
}

/// The most ended sessions of a client whose reasons are kept, and the most clients with such
/// sessions.
const REMEMBERED: (usize, usize) = (64, 256);

/// The sessions that have ended last, and why each did, by client: nobody makes the node forget
/// another's.
#[derive(Debug, Default)]
struct Over(HashMap<Fingerprint, VecDeque<(Route, String)>>);

impl Over {
    fn push(&mut self, client: Fingerprint, route: Route, because: String) {
        if self.0.len() >= REMEMBERED.1 && !self.0.contains_key(&client) {
            // Only strangers, whom an insecure node lets in, are so many.
            let few = self.0.iter().min_by_key(|(_, own)| own.len());
            let few = few.map(|(client, _)| *client);
            few.and_then(|few| self.0.remove(&few));
        }
        let own = self.0.entry(client).or_default();
        own.truncate(REMEMBERED.0 - 1);
        own.push_front((route, because));
    }

    fn why(&self, client: Fingerprint, route: Route) -> Option<&str> {
        let mut own = self.0.get(&client)?.iter();
        let found = own.find(|(other, _)| *other == route);
        found.map(|(_, because)| because.as_str())
    }
}

/// Questions to a session that may be unanswered at once, and those that come in a second, at most.
const QUESTIONS: (u32, u32) = (300, 20);

/// The packets of an answer beside those of devices, and what a session says unasked meanwhile.
const OF_AN_ANSWER: u32 = 16;

/// The reason for which a session ends whose process says more than that.
const TOO_MUCH_SAID: &str = "its process has said more to the node's than a session has to say";

/// The reason for which a session has ended whose keeper has ended so, and which was told this.
fn why(told: Option<&str>, status: &io::Result<ExitStatus>) -> String {
    if let Some(told) = told {
        return told.to_owned();
    }
    match status.as_ref().ok().and_then(ExitStatus::code) {
        Some(0) => "its client has ended it, or has not come back in time".to_owned(),
        Some(137) => {
            "its process was killed (signal 9), as the system does where memory runs out".to_owned()
        }
        // As keepers say it.
        Some(code @ 129..) => format!(
            "its process has failed (signal {}), as by a fault of code that ran there",
            code - 128
        ),
        Some(code) => format!("its process has failed (exit code {code}); the node's log says why"),
        None => "its process is gone".to_owned(),
    }
}

/// All processes of a node's sessions.
#[derive(Debug)]
pub(crate) struct Processes {
    spawn: Spawn,
    /// The node's.
    devices: Vec<Device>,
    peers: Peering,
    timer: Arc<dyn Timer>,
    accepts_weak_sandbox: bool,
    /// Or the reason for which there are none.
    groups: Result<Groups, String>,
    /// The standard errors of sessions.
    outputs: Outputs,
    /// By the way to each.
    pub(super) sessions: Mutex<HashMap<Route, Arc<Hosted>>>,
    /// The clients whose sessions are being started.
    starting: Mutex<Vec<Fingerprint>>,
    /// A thread looks at what they have.
    is_watched: Mutex<bool>,
    /// A session has ended.
    ended: Condvar,
    /// Sessions that have ended last.
    over: Mutex<Over>,
    /// Connections to other nodes that are being made for clients with sessions.
    dialled: Mutex<HashMap<Fingerprint, Arc<AtomicUsize>>>,
    /// What the operator is told of sessions.
    lines: Lines,
    /// Sessions that there were, and questions to them.
    numbers: AtomicU64,
    questions: AtomicU64,
    /// A session has answered: locked for a moment after it has.
    answering: Mutex<()>,
    answered: Condvar,
}

/// A session that is being started counts as one.
struct Starting<'a>(&'a Processes, Fingerprint);

impl Starting<'_> {
    /// The session is there, and has the place: it counts once at any time.
    fn become_session(self, id: SessionId, session: Arc<Hosted>) {
        let place = ManuallyDrop::new(self);
        let mut starting = locked(&place.0.starting);
        locked(&place.0.sessions).insert(Route::to(id), session);
        place.give_up(&mut starting);
    }

    fn give_up(&self, starting: &mut Vec<Fingerprint>) {
        if let Some(own) = starting.iter().position(|client| *client == self.1) {
            starting.swap_remove(own);
        }
    }
}

impl Drop for Starting<'_> {
    fn drop(&mut self) {
        self.give_up(&mut locked(&self.0.starting));
    }
}

impl Processes {
    pub(crate) fn new(spawn: Spawn, options: &Options) -> Self {
        // The node's key is in this process's memory: nobody else's, also of the same user, is to
        // look there. SAFETY: it takes numbers.
        if unsafe { libc::prctl(libc::PR_SET_DUMPABLE, 0, 0, 0, 0) } != 0 {
            let error = io::Error::last_os_error();
            quietly(
                || tracing::warn!(%error, "others of this user may look into the node's memory"),
            );
        }
        if let Err(error) = raise_descriptors() {
            quietly(|| tracing::warn!(%error, "the node may have few connections open"));
        }
        scratch::collect();
        let groups = Groups::of_this_process();
        if let Err(why) = &groups {
            quietly(|| {
                tracing::info!(
                    why,
                    "no control groups: what sessions have is limited by looks at it alone"
                );
            });
        }
        Self {
            devices: options.devices.clone(),
            accepts_weak_sandbox: options.accepts_weak_sandbox,
            groups,
            ..Self::none(spawn, options.peers.clone(), options.timer.clone())
        }
    }

    fn none(spawn: Spawn, peers: Peering, timer: Arc<dyn Timer>) -> Self {
        let lines = Lines::new(timer.clone());
        Self {
            spawn,
            devices: Vec::new(),
            peers,
            timer,
            accepts_weak_sandbox: false,
            groups: Err(String::new()),
            outputs: Outputs::new(),
            sessions: Mutex::default(),
            starting: Mutex::default(),
            is_watched: Mutex::default(),
            ended: Condvar::new(),
            over: Mutex::default(),
            dialled: Mutex::default(),
            lines,
            numbers: AtomicU64::new(0),
            questions: AtomicU64::new(0),
            answering: Mutex::default(),
            answered: Condvar::new(),
        }
    }

    /// The reason for which sessions have no control groups, if they have none.
    pub(crate) fn why_no_groups(&self) -> Option<&str> {
        self.groups.as_ref().err().map(String::as_str)
    }

    /// The number of sessions.
    pub(crate) fn len(&self) -> usize {
        locked(&self.sessions).len()
    }

    /// The totals of all sessions, as far as they have said.
    pub(crate) fn totals(&self) -> Totals {
        let mut sum = Totals::default();
        for session in locked(&self.sessions).values() {
            sum.add(&locked(&session.totals));
        }
        sum
    }

    /// The loads of each session on the node's devices. Asks them all, and waits until they have
    /// answered, or for a while: of a session that has not answered, it is the last answer.
    pub(crate) fn session_counts(&self) -> Vec<SessionCount> {
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
            SessionCount {
                client: session.client,
                number: session.number,
                devices: answer.said.devices.clone(),
                links: answer.said.links.clone(),
            }
        };
        sessions.iter().map(count).collect()
    }

    /// Starts a session's process, calls `is_there` when connections can be handed over to it, and
    /// tells its client where it is.
    pub(crate) fn begin(
        self: &Arc<Self>,
        mut caller: Caller,
        id: SessionId,
        gate: &Gate,
        limits: &Limits,
        is_there: impl FnOnce(),
    ) -> Result<(), LinkError> {
        let limits = &limits.within(&caller.client().rights);
        let starting = match self.make_room(caller.client().fingerprint, limits) {
            Ok(starting) => starting,
            Err(text) => return Err(caller.refuse(Refusal::Full, &text)),
        };
        let started = self.start(&caller, id, gate, limits);
        let hosted = match started {
            Ok(started) => started,
            Err(error) => {
                quietly(|| tracing::error!(%error, "no process for a session"));
                let text = "the node could not start a process for the session";
                return Err(caller.refuse(Refusal::Full, text));
            }
        };
        let key = match ready(&hosted, || caller.is_starting()) {
            Ok(key) => key,
            Err(error) => {
                hosted.give_up();
                let _ = hosted.reap();
                let _ = scratch::remove(&hosted.scratch);
                quietly(|| tracing::error!(%error, "a session's process does not serve"));
                let text = "the process of the session has failed as it started";
                return Err(caller.refuse(Refusal::Full, text));
            }
        };
        match hosted.process().and_then(usage::first_child) {
            Some(group) => {
                // All are set once, here.
                let _ = hosted.group.set(group);
                let begun = usage::Begun::of(group.unsigned_abs(), &hosted.scratch);
                let _ = hosted.begun.set(begun);
                if let Some(control) = self.control(group, limits) {
                    let _ = hosted.control.set(control);
                }
            }
            None => quietly(|| {
                tracing::warn!(
                    "the system does not say which process a session is: its processes are not counted"
                );
            }),
        }
        starting.become_session(id, Arc::clone(&hosted));
        is_there();
        let own = Arc::clone(self);
        let watching = std::thread::Builder::new()
            .name("quipu-hosted".to_owned())
            .stack_size(1 << 16)
            .start(move || own.watch(id, &hosted));
        if let Err(error) = watching.and_then(|_| self.watch_usage()) {
            quietly(|| tracing::error!(%error, "no thread for a session"));
            if let Some(hosted) = locked(&self.sessions).remove(&Route::to(id)) {
                let _ = hosted.reap();
                let _ = scratch::remove(&hosted.scratch);
            }
            return Err(caller.refuse(Refusal::Full, "the node has no thread for the session"));
        }
        let (client, of) = (&caller.client().name, caller.client().fingerprint);
        match self.lines.tell(caller.logged_as()) {
            true => quietly(
                || tracing::info!(target: OPERATOR, client, key = %of, "a session has begun"),
            ),
            false => quietly(|| tracing::info!(client, key = %of, "a session has begun")),
        }
        caller.redirect(Redirect {
            session: id,
            key: key.bytes(),
            wait_ms: u32::try_from(gate.patience().as_millis()).unwrap_or(u32::MAX),
        })
    }

    /// A control group with a session's process in it, if there is to be one.
    fn control(&self, process: libc::pid_t, limits: &Limits) -> Option<Group> {
        let groups = self.groups.as_ref().ok()?;
        let made = groups.make(usage::most(limits));
        let taken = made.and_then(|group| group.take(process).map(|()| group));
        let failed = |error: &io::Error| {
            quietly(|| tracing::warn!(%error, "a session has no control group"));
        };
        taken.inspect_err(failed).ok()
    }

    /// Takes a place for a session that is to be started, or says why there is none.
    fn make_room(&self, client: Fingerprint, limits: &Limits) -> Result<Starting<'_>, String> {
        // Those that come at the same time count, too.
        let mut starting = locked(&self.starting);
        let clients = self.clients();
        let own = clients.iter().chain(&*starting);
        let own = own.filter(|other| **other == client).count();
        limits.room_for(clients.len() + starting.len(), own)?;
        starting.push(client);
        drop(starting);
        Ok(Starting(self, client))
    }

    /// The count of connections that are being made for a client: one for all its sessions.
    fn dialled_for(&self, client: Fingerprint) -> Arc<AtomicUsize> {
        let mut dialled = locked(&self.dialled);
        dialled.retain(|_, count| Arc::strong_count(count) > 1);
        Arc::clone(dialled.entry(client).or_default())
    }

    /// Has a thread look at what sessions have, for as long as there are any.
    fn watch_usage(self: &Arc<Self>) -> io::Result<()> {
        let mut is_watched = locked(&self.is_watched);
        if !*is_watched {
            let own = Arc::downgrade(self);
            std::thread::Builder::new()
                .name("quipu-usage".to_owned())
                .start(move || usage::watch(&own))?;
            *is_watched = true;
        }
        Ok(())
    }

    /// True if there are no sessions, and nobody looks at them any more.
    pub(super) fn are_over(&self) -> bool {
        let mut is_watched = locked(&self.is_watched);
        let are_over = self.len() == 0;
        *is_watched = !are_over;
        are_over
    }

    fn start(
        &self,
        caller: &Caller,
        id: SessionId,
        gate: &Gate,
        limits: &Limits,
    ) -> io::Result<Arc<Hosted>> {
        let (ours, theirs) = Channel::pair()?;
        let (its_end, kept) = io::pipe()?;
        let number = self.numbers.fetch_add(1, Ordering::Relaxed);
        let (said, its_output) = io::pipe()?;
        let client = caller.client().fingerprint;
        self.outputs.pass_on((client, number), said)?;
        let scratch = scratch::make(id)?;
        let mut command = self.spawn.command(&scratch);
        command
            .stdin(Stdio::from(theirs))
            .stdout(Stdio::null())
            .stderr(its_output)
            .process_group(0);
        let child = command.spawn().inspect_err(|_| {
            let _ = scratch::remove(&scratch);
        })?;
        // It has the session's ends of the channel and of its output, which are to be closed when
        // the session is gone.
        drop(command);
        let client = caller.client();
        let uses_peers = caller.features() & PEERS != 0;
        let has_peers = uses_peers && client.rights.peers && !self.peers.networks.is_empty();
        let hosted = Hosted {
            client: client.fingerprint,
            rights: client.rights.clone(),
            limits: *limits,
            scratch: scratch.clone(),
            is_suspect: AtomicBool::new(false),
            looked: Mutex::default(),
            is_told: AtomicBool::new(false),
            told: Mutex::default(),
            has_peers,
            channel: Arc::new(ours),
            kept: Mutex::new(Some(kept)),
            child: Mutex::new(Some(child)),
            group: OnceLock::new(),
            begun: OnceLock::new(),
            control: OnceLock::new(),
            number,
            answer: Mutex::default(),
            totals: Mutex::default(),
            logged_as: caller.logged_as(),
            dialled: self.dialled_for(client.fingerprint),
        };
        let start = Start {
            session: id,
            client: client.clone(),
            node_name: gate.name().to_owned(),
            patience: gate.patience(),
            scratch,
            hidden: gate.folder().map(Path::to_owned),
            limits: *limits,
            accepts_weak_sandbox: self.accepts_weak_sandbox,
            peers: has_peers.then_some(self.peers.address),
        };
        // If it has failed at once, that is seen next.
        let _ = hosted.channel.send(&start.encode(), Some(its_end.as_fd()));
        Ok(Arc::new(hosted))
    }

    /// The packets that a session's process may send: answers to as many questions as can be on
    /// their way, and in each second to those that come in it; and some of its own.
    fn packets(&self) -> Budget {
        let answer = self.devices.len() as u32 + OF_AN_ANSWER;
        Budget::new(QUESTIONS.0 * answer, QUESTIONS.1 * answer)
    }

    /// Sees to a process until it ends.
    fn watch(&self, id: SessionId, hosted: &Hosted) {
        let mut said = loads::Said::default();
        let mut budget = self.packets();
        while let Ok(packet) = hosted.channel.receive(None) {
            if matches!(packet, Packet::Some(..)) && budget.take(self.timer.now()).is_err() {
                hosted.end_at_once(TOO_MUCH_SAID);
                break;
            }
            match packet {
                Packet::Some(packet, None) => {
                    if packet.first() == Some(&DIAL) {
                        let nowhere = Networks::none();
                        let networks = match hosted.has_peers {
                            true => &self.peers.networks,
                            false => &nowhere,
                        };
                        let dialling = (&hosted.channel, &hosted.dialled);
                        dials::make(&packet, dialling, networks, &self.timer);
                    } else if packet.first() == Some(&LOAD) {
                        said.take_load(&packet, &self.devices);
                    } else if packet.first() == Some(&LINKS) {
                        // What makes no sense is left out.
                        let _ = loads::decode_links(&packet, &mut said.links);
                    } else if let [ANSWERED, question @ ..] = &packet[..] {
                        let question = question.try_into().map_or(0, u64::from_le_bytes);
                        *locked(&hosted.answer) = Answer {
                            question,
                            said: std::mem::take(&mut said),
                        };
                        drop(locked(&self.answering));
                        self.answered.notify_all();
                    } else if let [OVER, text @ ..] = &packet[..] {
                        hosted.note_end(&presentable(&String::from_utf8_lossy(text), 512));
                    } else if let [COUNTS, numbers @ ..] = &packet[..]
                        && let Some(totals) = Totals::from_bytes(numbers)
                    {
                        *locked(&hosted.totals) = totals;
                    }
                }
                Packet::Nothing => {}
                // It has no connection to give.
                Packet::Some(_, Some(_)) | Packet::End => break,
            }
        }
        let status = hosted.reap();
        if let Some(control) = hosted.control.get() {
            control.remove();
        }
        let because = why(locked(&hosted.told).as_deref(), &status);
        let key = hosted.client;
        match self.lines.tell(hosted.logged_as) {
            true => {
                quietly(|| tracing::info!(target: OPERATOR, %key, ?because, "a session has ended"))
            }
            false => quietly(|| tracing::info!(%key, ?because, "a session has ended")),
        }
        locked(&self.over).push(key, Route::to(id), because);
        if let Err(error) = scratch::remove(&hosted.scratch) {
            quietly(|| tracing::debug!(%error, "a session's files are left"));
        }
        locked(&self.sessions).remove(&Route::to(id));
        self.ended.notify_all();
    }

    /// True if a session is there.
    pub(crate) fn has(&self, route: Route) -> bool {
        locked(&self.sessions).contains_key(&route)
    }

    /// Hands a connection over to a session. Given back if there is none.
    pub(crate) fn hand_over(&self, route: Route, stream: TcpStream) -> Result<(), TcpStream> {
        let Some(hosted) = locked(&self.sessions).get(&route).cloned() else {
            return Err(stream);
        };
        if hosted.is_told.load(Ordering::Acquire) {
            return Ok(());
        }
        let fd = OwnedFd::from(stream);
        // If it takes no more, whoever has come finds the connection closed, and tries again.
        if let Err(error) = hosted.channel.send(&[CONNECTION], Some(fd.as_fd())) {
            quietly(|| tracing::warn!(%error, "a connection was not handed over"));
        }
        Ok(())
    }

    /// Ends the sessions for whose clients, and the rights that they began with, this gives a
    /// reason: tells each, and ends those that were told at an earlier look and are still there.
    pub(crate) fn end<'a>(
        &self,
        mut of: impl FnMut(Fingerprint, &Rights) -> Option<(GoodbyeReason, &'a str)>,
    ) {
        let sessions: Vec<_> = locked(&self.sessions).values().cloned().collect();
        for hosted in sessions {
            if let Some((reason, text)) = of(hosted.client, &hosted.rights) {
                hosted.end(reason, text);
            }
        }
    }

    /// The reason for which a session of a client's has ended, if that is known.
    pub(crate) fn why_over(&self, id: SessionId, client: Fingerprint) -> Option<String> {
        let over = locked(&self.over);
        over.why(client, Route::to(id)).map(str::to_owned)
    }

    /// The clients that have sessions.
    pub(crate) fn clients(&self) -> Vec<Fingerprint> {
        let sessions = locked(&self.sessions);
        sessions.values().map(|session| session.client).collect()
    }

    /// Ends all of them.
    pub(crate) fn shut_down(&self) {
        self.end(|_, _| Some((GoodbyeReason::ShuttingDown, "the node is shutting down")));
        let sessions = locked(&self.sessions);
        let are_left = |sessions: &mut HashMap<_, _>| !sessions.is_empty();
        let waited = self.ended.wait_timeout_while(sessions, LINGER, are_left);
        let (sessions, _) = waited.unwrap_or_else(PoisonError::into_inner);
        sessions.values().for_each(|session| session.kill());
        // Their keepers end them, and then their files go.
        let waited = self.ended.wait_timeout_while(sessions, LINGER, are_left);
        drop(waited);
        if let Ok(groups) = &self.groups {
            groups.go_back();
        }
    }
}

/// Raises the number of descriptors that this process may have to what the system lets it have. A
/// node has some for each connection. The system also compares the number of a user's descriptors
/// that are on their way between processes with it, so it is to be larger than what sessions may
/// have ([`Limits::files`]).
fn raise_descriptors() -> io::Result<()> {
    let mut limit = libc::rlimit {
        rlim_cur: 0,
        rlim_max: 0,
    };
    // SAFETY: there is room for the limits.
    if unsafe { libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut limit) } == 0 {
        limit.rlim_cur = limit.rlim_max;
        // SAFETY: the limits are there until the call returns.
        if unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &raw const limit) } == 0 {
            return Ok(());
        }
    }
    Err(io::Error::last_os_error())
}

/// Waits until a process serves; its key. Now and then it tells the client that the session starts,
/// and ends if the client has gone.
fn ready(
    hosted: &Hosted,
    mut is_starting: impl FnMut() -> Result<(), LinkError>,
) -> io::Result<Fingerprint> {
    let until = Instant::now() + STARTING;
    loop {
        let left = until.saturating_duration_since(Instant::now());
        match hosted.channel.receive(Some(left.min(STARTING_PING)))? {
            Packet::Some(packet, None) => {
                let key = packet.strip_prefix(&[READY]).map(<[u8; 32]>::try_from);
                return match key {
                    Some(Ok(key)) => Ok(Fingerprint::of_bytes(key)),
                    _ => Err(io::Error::other("it says something else than its key")),
                };
            }
            Packet::Nothing if left.is_zero() => return Err(io::ErrorKind::TimedOut.into()),
            Packet::Nothing => is_starting().map_err(io::Error::other)?,
            _ => return Err(io::Error::other("it has ended; its reason is in the log")),
        }
    }
}

impl Spawn {
    /// The command that is started, with this folder for its files.
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

#[cfg(test)]
pub(super) mod tests;
