//! One client's session: its buffers, programs, commands, from the first message to the last.
//!
//! | file | what it is |
//! |---|---|
//! | here | the two streams, and the session's end |
//! | `commands` | what a message has done: `launch`, `transfer` |
//! | `objects` | buffers, programs, queues; `kernel`: what is launched |
//! | `events` | which events there are to wait for |
//! | `ends` | ends of commands, on their way to the client |
//! | `bulk` | the bulk stream |
//! | `landing` | bytes between a device and the network |
//!
//! The thread that receives the command stream has all that messages name; nobody else does. A command's end is told by
//! whoever ends it. When the command stream ends, so does the session, whatever the reason:
//!
//! 1. Placeholders and transfers fail, and commands that have not begun are cancelled: so nothing waits for the client.
//! 2. Buffers, programs and queues are given up. The core frees each when the last command that uses it is over.
//! 3. The bulk stream is cut, and the session's thread ends.

mod bulk;
mod commands;
mod ends;
mod events;
mod kernel;
mod landing;
mod launch;
mod objects;
mod transfer;

use crate::locked;
use crate::node::Shared;
use bulk::Bulk;
use commands::Work;
use ends::Ends;
use quipu_core::{Context, Error};
use quipu_link::connection::Connection;
use quipu_link::stream::{Duplex, Outgoing};
use quipu_link::{Fingerprint, LinkError};
use quipu_wire::frame::Stream;
use quipu_wire::message::{GoodbyeReason, Message, SessionId};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// For how long the client may take to hear why it is sent away.
const LINGER: Duration = Duration::from_secs(1);

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

/// What both streams of a session share.
pub(crate) struct Session {
    client: Fingerprint,
    context: Context,
    bulk: Arc<Bulk>,
    has_bulk: AtomicBool,
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
    pub(crate) fn new(node: &Shared, client: Fingerprint, _id: SessionId) -> Result<Self, Error> {
        Ok(Self {
            client,
            context: Context::new(&node.options.devices)?,
            bulk: Arc::default(),
            has_bulk: AtomicBool::new(false),
            out: Mutex::new(State::New),
        })
    }

    /// Whose it is.
    pub(crate) fn client(&self) -> Fingerprint {
        self.client
    }

    /// True if the session has no bulk stream, and the caller's is it now.
    pub(crate) fn claim_bulk(&self) -> bool {
        !self.has_bulk.swap(true, Ordering::AcqRel)
    }

    /// Ends the session at once.
    pub(crate) fn abort(&self, reason: &str) {
        let before = std::mem::replace(&mut *locked(&self.out), State::Over);
        if let State::Open(out) = before {
            out.abort(reason);
        }
        self.bulk.close(reason);
    }

    /// Ends the session, and tells the client why.
    pub(crate) fn end(&self, reason: GoodbyeReason, text: &str) {
        let before = std::mem::replace(&mut *locked(&self.out), State::Over);
        if let State::Open(out) = before {
            out.close(reason, text, LINGER);
            out.abort(text);
        }
        self.bulk.close(text);
    }

    /// Sees to the command stream, until it ends.
    pub(crate) fn run(&self, node: &Arc<Shared>, connection: Connection) -> Result<(), LinkError> {
        let options = Duplex {
            stream: Stream::Command,
            spin: node.options.spin,
        };
        let (mut incoming, out) = connection.split(options)?;
        {
            let mut state = locked(&self.out);
            if matches!(*state, State::Over) {
                return Ok(());
            }
            *state = State::Open(out.clone());
        }
        let ends = Arc::new(Ends::new(out.clone(), self.bulk.clone(), node.clone()));
        let mut work = Work::new(
            node.clone(),
            self.context.clone(),
            ends.clone(),
            self.bulk.clone(),
        );
        std::thread::scope(|scope| {
            let sender = std::thread::Builder::new().name("quipu-ends".to_owned());
            if let Err(error) = sender.spawn_scoped(scope, || ends.run()) {
                tracing::error!(%error, "no thread for a session");
                return Ok(());
            }
            // Also if something panics: else the thread above would never end.
            let _closing = Closing(&ends);
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
                    Err(error) => break Err(error),
                }
                if out.pending_bytes() > MOST_PENDING {
                    // Nothing is kept while this waits.
                    work.rest();
                    if let Err(error) = out.wait_for_room(MOST_PENDING / 4) {
                        break Err(error);
                    }
                }
            };
            work.clear();
            match ended {
                Ok(Some(broken)) => {
                    tracing::info!(reason = ?broken.reason, text = broken.text, "a rule is broken");
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
    pub(crate) fn run_bulk(&self, connection: Connection) -> Result<(), LinkError> {
        let options = Duplex {
            stream: Stream::Bulk,
            spin: Duration::ZERO,
        };
        let (incoming, out) = connection.split(options)?;
        match self.bulk.run(incoming, out) {
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
