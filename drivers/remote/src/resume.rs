//! Coming back to a session whose connection was lost.
//!
//! One thread resumes each stream: the one that receives from it; of those that read the command
//! stream by turns ([`reading`](crate::reading)), the link's own. It dials again, from the address
//! that the machine has now, and says up to which message it has received. It goes on with the one
//! that the node names. Other threads do not notice. It tries again and again until the patience is
//! over; the node has given the session up before, so nothing is written there any more when the
//! commands in flight fail here. It ends sooner if the node or the session says so, or no one
//! listens there for a while.

use crate::link::Link;
use crate::{Options, locked};
use quipu_link::client::Dial;
use quipu_link::session::{Place, Terms};
use quipu_link::stream::Incoming;
use quipu_link::timer::Timer;
use quipu_link::{Fingerprint, Key, LinkError};
use quipu_protocol::message::{Message, Ping, Refusal, SessionId};
use quipu_scheduler::panics::quietly;
use std::io::ErrorKind;
use std::sync::{Arc, Mutex};
use std::thread::Thread;
use std::time::Duration;

/// Between the first attempts; then twice as long each time.
const SHORTEST: Duration = Duration::from_millis(10);

/// Between attempts, at most.
const LONGEST: Duration = Duration::from_secs(1);

/// The time that the first attempt may take; then twice as long each, up to the limit of any
/// answer. One that has begun on a network that we have left since hears nothing for ever. It must
/// not last until the node has given the session up, nor outlast our own patience.
const FIRST_ANSWER: Duration = Duration::from_secs(1);

/// The means to come back.
#[derive(Debug)]
pub(crate) struct Resumption {
    options: Options,
    key: Key,
    session: SessionId,
    /// The session's own key, if it has a process of its own.
    session_key: Option<Fingerprint>,
    /// The last connection of each stream that was tried: commands, bulk.
    epochs: [Mutex<u32>; 2],
    /// Threads that wait to try again.
    waiting: Mutex<Vec<Thread>>,
}

impl Resumption {
    pub(crate) fn new(options: &Options, key: &Key, terms: &Terms) -> Self {
        Self {
            options: options.clone(),
            key: key.clone(),
            session: terms.session.0,
            session_key: terms.key,
            epochs: [Mutex::new(1), Mutex::new(1)],
            waiting: Mutex::default(),
        }
    }

    /// No thread waits any more.
    pub(crate) fn give_up(&self) {
        for thread in locked(&self.waiting).drain(..) {
            thread.unpark();
        }
    }

    fn timer(&self) -> &Arc<dyn Timer> {
        &self.options.timer
    }

    /// One attempt, which may take so long.
    fn attempt(
        &self,
        is_bulk: bool,
        incoming: &mut Incoming,
        patience: Duration,
    ) -> Result<(), LinkError> {
        let epoch = {
            let mut epoch = locked(&self.epochs[usize::from(is_bulk)]);
            // The node may have heard of earlier attempts.
            *epoch = epoch.saturating_add(1);
            *epoch
        };
        let place = Place {
            session: (self.session, epoch),
            received: incoming.last(),
            patience: self.options.reconnect,
            key: self.session_key,
            ..Place::default()
        };
        let dial = Dial {
            address: &self.options.address,
            node: self.options.node,
            key: &self.key,
            name: &self.options.program,
            patience,
        };
        let greeted = match dial.resume(is_bulk, &place) {
            // The node answers itself, so there is no such session. It is asked, as itself, why.
            Err(LinkError::WrongKey { found, .. }) if found == self.options.node => {
                dial.resume(is_bulk, &Place { key: None, ..place })
            }
            greeted => greeted,
        }?;
        incoming.resume(greeted.connection, greeted.terms.received)
    }
}

/// The judgement of failed attempts.
struct Judge {
    /// The time for which no one has to listen there until that is believed.
    refusals: Duration,
    /// The time since which no one listens.
    refused: Option<Duration>,
}

impl Judge {
    fn new(options: &Options) -> Self {
        Self {
            refusals: options.refusals,
            refused: None,
        }
    }

    /// The reason for which there is no use in trying again, if there is one: the side with the
    /// right key has said so. Another side at the address, as where this machine has come to
    /// another network, tells nothing of the node.
    fn ends(&mut self, error: &LinkError, now: Duration) -> Option<String> {
        let before = self.refused.take();
        match error {
            // No one listens there any more: the node was ended, and its sessions with it. Or a
            // router has forgotten the way; or a forwarder to the node, on this machine or another,
            // starts anew.
            LinkError::Unreachable { address, source }
                if source.kind() == ErrorKind::ConnectionRefused =>
            {
                let since = *self.refused.insert(before.unwrap_or(now));
                let is_finished = now.saturating_sub(since) >= self.refusals;
                is_finished
                    .then(|| format!("the node was stopped: nobody listens at {address} any more"))
            }
            // It answers itself: there is no such session any more.
            LinkError::Refused {
                refusal: Refusal::NoSession,
                text,
                ..
            } => Some(format!("its session there has ended: {text}")),
            LinkError::Refused { .. }
            | LinkError::Wire { .. }
            | LinkError::Unexpected { .. }
            | LinkError::Goodbye { .. } => Some(error.to_string()),
            _ => None,
        }
    }
}

impl Link {
    /// After a stream has given this error: goes on with another connection, or says why not.
    pub(crate) fn go_on(
        &self,
        is_bulk: bool,
        incoming: &mut Incoming,
        error: LinkError,
    ) -> Result<(), String> {
        let Some(resumption) = &self.resumption else {
            return Err(error.to_string());
        };
        if !incoming.is_lost() {
            return Err(error.to_string());
        }
        quietly(
            || tracing::info!(node = self.node, %error, is_bulk, "the connection is lost; trying again"),
        );
        let (timer, patience) = (resumption.timer(), resumption.options.reconnect);
        let until = timer.now().saturating_add(patience);
        let mut judge = Judge::new(&resumption.options);
        let (mut last, mut pause, mut answer) = (
            error,
            SHORTEST,
            FIRST_ANSWER.min(resumption.options.patience),
        );
        while incoming.is_lost() && !self.is_ending() {
            let left = until.saturating_sub(timer.now());
            match resumption.attempt(is_bulk, incoming, answer.min(left)) {
                Ok(()) => {
                    // So that the node knows that we do: its patience begins anew with the next
                    // loss only then.
                    let out = if is_bulk { &self.bulk_out } else { &self.out };
                    let ping = Message::Ping(Ping {
                        token: 0,
                        time_ns: 0,
                    });
                    // If it is lost again, that is seen as we receive.
                    let _ = out.send(&ping);
                    quietly(|| {
                        tracing::info!(node = self.node, is_bulk, "the connection is there again");
                    });
                    return Ok(());
                }
                Err(error) => {
                    if let Some(reason) = judge.ends(&error, timer.now()) {
                        return Err(reason);
                    }
                    last = error;
                }
            }
            let now = timer.now();
            if now >= until {
                return Err(format!(
                    "it did not come back within {} s, which is the patience; last, {last}",
                    patience.as_secs_f64()
                ));
            }
            locked(&resumption.waiting).push(std::thread::current());
            if !self.is_ending() {
                timer.park_until(until.min(now + pause));
            }
            let own = std::thread::current().id();
            locked(&resumption.waiting).retain(|thread| thread.id() != own);
            pause = (2 * pause).min(LONGEST);
            answer = answer.saturating_mul(2).min(resumption.options.patience);
        }
        Err(last.to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn key(of: u8) -> Fingerprint {
        Fingerprint::of_bytes([of; 32])
    }

    fn unreachable(kind: ErrorKind) -> LinkError {
        LinkError::Unreachable {
            address: "10.0.0.1:4760".to_owned(),
            source: kind.into(),
        }
    }

    fn wrong_key(found: u8) -> LinkError {
        LinkError::WrongKey {
            address: "10.0.0.1:4760".to_owned(),
            expected: key(1),
            found: key(found),
        }
    }

    #[test]
    fn only_who_has_the_key_ends_a_session_at_once() {
        let mut judge = Judge::new(&Options::new("lab", "10.0.0.1:4760", key(2)));
        let refused = LinkError::Refused {
            address: "10.0.0.1:4760".to_owned(),
            refusal: Refusal::NoSession,
            text: String::new(),
        };
        assert!(judge.ends(&refused, SECOND).is_some());
        for seconds in 0..1000 {
            let now = seconds * SECOND;
            assert!(judge.ends(&wrong_key(3), now).is_none());
            assert!(
                judge
                    .ends(&unreachable(ErrorKind::HostUnreachable), now)
                    .is_none()
            );
        }
    }

    #[test]
    fn that_nobody_listens_is_believed_after_a_while_and_not_sooner_on_this_machine() {
        for address in ["10.0.0.1:4760", "127.0.0.1:4760"] {
            nobody_listens(&Options::new("lab", address, key(2)));
        }
    }

    fn nobody_listens(options: &Options) {
        let (refused, wait) = (unreachable(ErrorKind::ConnectionRefused), options.refusals);
        let mut judge = Judge::new(options);
        assert!(judge.ends(&refused, SECOND).is_none());
        assert!(judge.ends(&refused, wait).is_none());
        // Another side there, or nothing: it begins anew.
        assert!(judge.ends(&wrong_key(3), wait + SECOND).is_none());
        assert!(judge.ends(&refused, 2 * wait).is_none());
        assert!(judge.ends(&refused, 3 * wait).is_some());
    }
}
