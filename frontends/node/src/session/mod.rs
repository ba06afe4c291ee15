//! One client's session: its buffers, programs, commands, from the first message to the last.
//!
//! | file | contents |
//! |---|---|
//! | here | the two streams, and the session's end |
//! | `commands` | the effects of messages: `launch`, `transfer`; `prepared`: launches as they were made last |
//! | `content` | reads of the bytes that are in use |
//! | `objects` | buffers, programs, queues; `kernel`: a launch's kernel |
//! | `text` | programs of clients on this machine's processors |
//! | `description` | programs that are read for a client without a compiler |
//! | `events` | the events that waits may name |
//! | `counters` | counters of commands, by queue |
//! | `runs` | the run times of kernels on devices |
//! | `ends` | ends of commands, on their way to the client |
//! | `bulk` | the bulk stream |
//! | `links` | the state of connections, for clients that ask |
//! | `landing` | bytes between a device and the network |
//! | `peers` | other nodes: the peers that may come, and their messages; `peer_sender`: the sender to one; `forward`: commands that use it |
//! | `post` | the place where a stream waits for its client to come back |
//!
//! If a stream's connection is lost and the session has patience, the thread that receives from it
//! waits for the client to come back, and goes on with the connection that it brings; all else goes
//! on meanwhile, and what is to be said is kept.
//!
//! The thread that receives the command stream has all that messages name; nobody else does. A
//! command's end is told by whoever ends it. When one of the streams ends for good, so does the
//! session, whatever the reason:
//!
//! 1. Placeholders and transfers fail, and commands that have not begun are cancelled: so nothing
//!    waits for the client.
//! 2. Buffers, programs and queues are given up. The core frees each when the last command that
//!    uses it is over.
//! 3. The bulk stream is cut, and the session's thread ends.

mod bulk;
mod commands;
mod content;
mod counters;
mod description;
mod ends;
mod events;
mod forward;
mod kernel;
mod landing;
mod launch;
mod links;
mod objects;
mod peer_sender;
mod peers;
mod post;
mod prepared;
mod runs;
mod text;
mod transfer;

pub(crate) use links::LinkCount;
pub(crate) use text::runs_texts;

use crate::locked;
use crate::node::Shared;
use bulk::Bulk;
use commands::Work;
use counters::Counters;
use ends::Ends;
use peers::Peers;
use post::Post;
use quipu_link::compression::{Compressor, Traffic};
use quipu_link::connection::Connection;
use quipu_link::gate::Caller;
use quipu_link::stream::{Duplex, Incoming, Loss, Outgoing};
use quipu_link::timer::SystemTimer;
use quipu_link::{Fingerprint, LinkError, Rights};
use quipu_protocol::frame::Stream;
use quipu_protocol::message::{GoodbyeReason, Message, PeerAddress, SessionId};
use quipu_protocol::{PEERS, PRINTED};
use quipu_scheduler::panics::quietly;
use quipu_scheduler::{Context, Device, Error};
use quipu_threads::Start;
use runs::Runs;
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// The longest time for which the client may hear why it is sent away.
const LINGER: Duration = Duration::from_secs(1);

/// The longest time for which a session is kept whose connection was ended or reset: the way to its
/// client works then, so a client that is there comes back at once. One that was killed does not.
const RETURN: Duration = Duration::from_secs(10);

/// Bytes that may lie unwritten on the command stream before no more commands are read.
const MOST_PENDING: usize = 32 << 20;

/// A client has broken a rule: the session ends.
#[derive(Debug)]
pub(crate) struct Broken {
    reason: GoodbyeReason,
    text: String,
}

impl Broken {
    fn rule(text: &str) -> Self {
        Self {
            reason: GoodbyeReason::Protocol,
            text: text.to_owned(),
        }
    }

    fn limit(text: &str) -> Self {
        Self {
            reason: GoodbyeReason::Limit,
            text: text.to_owned(),
        }
    }

    /// The node cannot go on.
    fn of(error: &Error) -> Self {
        Self {
            reason: GoodbyeReason::Internal,
            text: error.to_string(),
        }
    }
}

/// The state that both streams of a session share.
pub(crate) struct Session {
    id: SessionId,
    /// No other session of this process has it.
    number: u64,
    client: Fingerprint,
    /// Those that its client had as it began.
    rights: Rights,
    /// The time for which it is kept after a loss.
    patience: Duration,
    /// The protocol's features that both client and node have.
    features: u64,
    context: Context,
    counters: Arc<Counters>,
    runs: Mutex<Runs>,
    bulk: Arc<Bulk>,
    /// Bytes that were sent in bulk.
    traffic: Arc<Traffic>,
    peers: Arc<Peers>,
    /// The address at which other nodes find it.
    peer_address: Option<PeerAddress>,
    /// The places where the streams wait for their client: the command stream, the bulk stream.
    posts: [Post; 2],
    /// The command stream, or why there is to be none.
    out: Mutex<State>,
}

enum State {
    New,
    Open(Outgoing),
    Over,
}

impl Session {
    /// A session of a client that is let in.
    pub(crate) fn new(node: &Shared, caller: &Caller, id: SessionId) -> Result<Self, Error> {
        let posts = <[Post; 2]>::default();
        posts[0].begin();
        Ok(Self {
            id,
            number: node.next_number(),
            client: caller.client().fingerprint,
            rights: caller.client().rights.clone(),
            patience: node.options.limits.patience_with(caller.patience()),
            features: caller.features(),
            context: Context::new(&node.options.devices)?,
            counters: Arc::default(),
            runs: Mutex::default(),
            bulk: Arc::default(),
            traffic: Arc::default(),
            peers: Arc::default(),
            peer_address: match caller.features() & PEERS {
                0 => None,
                _ => node.options.peers.address_for(caller.own_address()),
            },
            posts,
            out: Mutex::new(State::New),
        })
    }

    /// Its client.
    pub(crate) fn client(&self) -> Fingerprint {
        self.client
    }

    /// The rights of its client as it began.
    pub(crate) fn rights(&self) -> &Rights {
        &self.rights
    }

    /// Its name.
    pub(crate) fn id(&self) -> SessionId {
        self.id
    }

    /// Its number in this process.
    pub(crate) fn number(&self) -> u64 {
        self.number
    }

    /// The counters of its commands.
    pub(crate) fn counters(&self) -> &Counters {
        &self.counters
    }

    /// The time for which at least one of its kernels has run on these devices, as far as calls of
    /// this tell.
    pub(crate) fn longest_on(&self, devices: &[bool], now: Duration) -> Duration {
        let running = self.counters.running_on(devices);
        locked(&self.runs).longest(&running, now)
    }

    /// Bytes that were sent in bulk, and what was sent for them.
    pub(crate) fn bulk_bytes(&self) -> [u64; 2] {
        self.traffic.bytes()
    }

    /// Bytes that its buffers take on a device.
    pub(crate) fn bytes_on(&self, device: &Device) -> u64 {
        self.context.bytes_in(device.space())
    }

    /// The address at which other nodes find it; none if it has no dealings with other nodes.
    pub(crate) fn peer_address(&self) -> Option<PeerAddress> {
        self.peer_address
    }

    /// Other nodes that it has to do with.
    pub(crate) fn peers(&self) -> &Peers {
        &self.peers
    }

    /// Sees to a connection of another node, until it ends.
    pub(crate) fn run_peer(
        &self,
        node: &Arc<Shared>,
        peer: (u64, u32),
        connection: Connection,
    ) -> Result<(), LinkError> {
        self.peers.run(node, &self.bulk, peer, connection)
    }

    /// The time for which it is kept after a loss.
    pub(crate) fn patience(&self) -> Duration {
        self.patience
    }

    /// True if the session has had no bulk stream, and the caller's is it now.
    pub(crate) fn claim_bulk(&self) -> bool {
        self.posts[1].begin()
    }

    /// Has a stream go on with a connection that its client has brought. Given back if that is not
    /// to be.
    pub(crate) fn come_back(&self, caller: Caller, is_bulk: bool) -> Result<(), Box<Caller>> {
        if self.patience.is_zero() {
            return Err(Box::new(caller));
        }
        self.posts[usize::from(is_bulk)].offer(caller, || {
            let reason = "its client has come with another connection";
            if is_bulk {
                self.bulk.cut(reason);
            } else if let State::Open(out) = &*locked(&self.out) {
                out.cut(reason);
            }
        })
    }

    /// Cuts both connections, as a network may.
    pub(crate) fn cut(&self, reason: &str) {
        if let State::Open(out) = &*locked(&self.out) {
            out.cut(reason);
        }
        self.bulk.cut(reason);
    }

    /// The options of a stream.
    fn duplex(&self, stream: Stream, spin: Duration) -> Duplex {
        Duplex {
            stream,
            spin,
            resumable: !self.patience.is_zero(),
        }
    }

    /// After a stream has given this error: waits for its client to come back, and goes on, until
    /// `deadline`, which is set at the first loss.
    ///
    /// The time begins anew with a later loss if the client was heard on the connection that was
    /// lost, or if that has outlived the deadline. Else the client may not know that it was taken,
    /// and its own patience goes on: until then, when it would have given up. A first connection of
    /// which it does not know is none that it comes back to, and on the bulk stream it may have had
    /// nothing to say. If the connection was ended or reset, it has to come back [soon](RETURN),
    /// whether or not what it comes back with is lost again.
    fn go_on(
        &self,
        node: &Shared,
        is_bulk: bool,
        incoming: &mut Incoming,
        deadline: &mut Option<Duration>,
        error: LinkError,
    ) -> Result<(), LinkError> {
        let post = &self.posts[usize::from(is_bulk)];
        let timer = &*node.options.timer;
        let until = match *deadline {
            Some(until) if !incoming.has_heard() && timer.now() < until => until,
            _ => timer.now().saturating_add(self.patience),
        };
        *deadline = Some(until);
        let mut last = error;
        while incoming.is_lost() {
            quietly(
                || tracing::info!(error = %last, is_bulk, "a connection is lost; the session waits for its client"),
            );
            let soon = match incoming.loss() {
                Loss::Told => timer.now() + RETURN,
                Loss::Silent => until,
            };
            let Some(caller) = post.wait(timer, until.min(soon)) else {
                break;
            };
            let (_, epoch, received) = caller.session();
            let welcome = quipu_protocol::message::Welcome {
                epoch,
                received: incoming.last(),
                ..node.welcome(Some(self))
            };
            let gone_on = caller
                .welcome(welcome, &[])
                .and_then(|connection| incoming.resume(connection, received));
            match gone_on {
                Ok(()) => {
                    // One that came meanwhile is newer.
                    if post.has_caller() {
                        self.cut_stream(is_bulk);
                    }
                    quietly(|| tracing::info!(epoch, is_bulk, "the client has come back"));
                    return Ok(());
                }
                Err(error) => last = error,
            }
        }
        Err(last)
    }

    fn cut_stream(&self, is_bulk: bool) {
        let reason = "a newer connection has come";
        if is_bulk {
            self.bulk.cut(reason);
        } else if let State::Open(out) = &*locked(&self.out) {
            out.cut(reason);
        }
    }

    /// Ends the session at once.
    pub(crate) fn abort(&self, reason: &str) {
        let before = std::mem::replace(&mut *locked(&self.out), State::Over);
        if let State::Open(out) = before {
            out.abort(reason);
        }
        self.peers.close(reason);
        self.bulk.close(reason);
        self.posts.iter().for_each(Post::close);
    }

    /// Ends the session, and tells the client why.
    pub(crate) fn end(&self, reason: GoodbyeReason, text: &str) {
        let before = std::mem::replace(&mut *locked(&self.out), State::Over);
        if let State::Open(out) = before {
            out.close(reason, text, LINGER);
            out.abort(text);
        }
        self.peers.close(text);
        self.bulk.close(text);
        self.posts.iter().for_each(Post::close);
    }

    /// Sees to the command stream, until it ends.
    pub(crate) fn run(&self, node: &Arc<Shared>, connection: Connection) -> Result<(), LinkError> {
        let options = self.duplex(Stream::Command, node.options.spin);
        let (mut incoming, out) = connection.split(options)?;
        {
            let mut state = locked(&self.out);
            if matches!(*state, State::Over) {
                return Ok(());
            }
            *state = State::Open(out.clone());
        }
        let printed = node.printed().filter(|_| self.features & PRINTED != 0);
        let ends = Ends::new(
            out.clone(),
            self.bulk.clone(),
            self.features,
            printed.cloned(),
        );
        let ends = Arc::new(ends);
        if let Some(printed) = printed {
            let ends = Arc::downgrade(&ends);
            printed.tell(move || {
                if let Some(ends) = ends.upgrade() {
                    ends.has_printed();
                }
            });
        }
        let mut work = Work::new(
            node.clone(),
            (self.number, self.features),
            self.context.clone(),
            ends.clone(),
            self.counters.clone(),
            (self.bulk.clone(), self.peers.clone()),
        );
        std::thread::scope(|scope| {
            let sender = std::thread::Builder::new().name("quipu-ends".to_owned());
            if let Err(error) = sender.start_scoped(scope, || ends.run()) {
                quietly(|| tracing::error!(%error, "no thread for a session"));
                return Ok(());
            }
            // Also if something panics: else the thread above would never end.
            let _closing = Closing(&ends);
            let mut deadline = None;
            let ended = loop {
                let take = |work: &mut Work, message: &Message<'_>, _| {
                    ends.receiving(true);
                    work.take(message)
                };
                let rest = |work: &mut Work| {
                    work.rest();
                    ends.receiving(false);
                };
                let step = incoming.receive_or_rest(&mut work, take, rest);
                match step {
                    Ok(Ok(())) => {}
                    Ok(Err(broken)) => break Ok(Some(broken)),
                    Err(LinkError::Goodbye { .. }) => break Ok(None),
                    Err(error) => {
                        // What has ended by then is said when the client is back.
                        work.rest();
                        ends.receiving(false);
                        if let Err(error) =
                            self.go_on(node, false, &mut incoming, &mut deadline, error)
                        {
                            break Err(error);
                        }
                    }
                }
                if out.pending_bytes() > MOST_PENDING {
                    // Nothing is kept while this waits.
                    work.rest();
                    if let Err(error) = out.wait_for_room_or_loss(MOST_PENDING / 4) {
                        break Err(error);
                    }
                }
            };
            work.clear();
            match ended {
                Ok(Some(broken)) => {
                    let (reason, text) = (broken.reason, &broken.text);
                    quietly(
                        || tracing::info!(key = %self.client, ?reason, text, "a client breaks a rule; its session ends"),
                    );
                    out.close(broken.reason, &broken.text, LINGER);
                    Ok(())
                }
                Ok(None) => Ok(()),
                Err(error @ LinkError::Wire { .. }) => {
                    out.close(GoodbyeReason::Protocol, &error.to_string(), LINGER);
                    Err(error)
                }
                Err(error) => Err(error),
            }
        })
    }

    /// Sees to the bulk stream, until it ends.
    pub(crate) fn run_bulk(&self, node: &Shared, connection: Connection) -> Result<(), LinkError> {
        let options = self.duplex(Stream::Bulk, Duration::ZERO);
        let (incoming, out) = connection.split(options)?;
        let compressor = Compressor::new(
            out.clone(),
            node.options.compression,
            Arc::new(SystemTimer::default()),
            self.traffic.clone(),
        );
        let mut deadline = None;
        let go_on =
            |incoming: &mut Incoming, error| self.go_on(node, true, incoming, &mut deadline, error);
        match self.bulk.run(incoming, out, compressor, go_on) {
            Err(LinkError::Goodbye { .. }) => Ok(()),
            ended => ended,
        }
    }
}

struct Closing<'a>(&'a Ends);

impl Drop for Closing<'_> {
    fn drop(&mut self) {
        self.0.close();
    }
}
