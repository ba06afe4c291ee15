//! Ends of commands, on their way to the client.
//!
//! A command may end on any thread: on the one that received it, or on a worker that has more to
//! do. A write to the socket costs most, so ends go together:
//!
//! 1. While the receiver goes through what has come, it sends what has ended when it is through.
//! 2. Else the end of the last command that the session has is sent at once, by whoever ended it;
//!    and so are 256 of them.
//! 3. Else the session's own thread is woken, which sends what there is then.
//!
//! Text that kernels have [printed](crate::printed) goes before the ends that are sent with it.

use super::bulk::Bulk;
use super::description::Answer;
use super::landing::Landing;
use crate::failure::Told;
use crate::locked;
use crate::printed::Printed;
use quipu_link::stream::Outgoing;
use quipu_protocol::LANES;
use quipu_protocol::limits::MAX_LANE;
use quipu_protocol::message::{
    self, Completed, Message, Profile, Profiled, Ran, ReadBytes, Run, Word,
};
use quipu_scheduler::event::Profile as Times;
use quipu_scheduler::panics::quietly;
use quipu_scheduler::{Error, Event};
use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, OnceLock, PoisonError};

/// Ends that are worth a write.
const MANY: usize = 256;

/// The most events that one message names: as many as every client takes in a frame.
const MOST_IN_MESSAGE: usize = 256;

/// Failures that are remembered as causes of others.
const CAUSES: usize = 1024;

/// The message when a command has ended well.
pub(crate) enum Result {
    /// That it has.
    Plain,
    /// And when.
    Profiled(Event),
    /// And when, of what the host did.
    Timed(Arc<OnceLock<Times>>),
    /// These bytes.
    Read(Arc<Landing>),
    /// That the bytes come with a transfer.
    Transferred(u64),
    /// The number of bytes in use, and these, unless they come with a transfer.
    Content(u64, Arc<OnceLock<Content>>),
    /// The compiler's description of a program, and the end of that.
    Described(Answer),
}

/// The lane on which the host does something, which is none of the device's own.
pub(super) const HOST_LANE: u32 = MAX_LANE as u32;

/// The bytes in use of a read; none if nothing is.
pub(crate) type Content = Option<Arc<Landing>>;

/// The end of a command.
pub(crate) type Outcome = std::result::Result<(), Error>;

enum End {
    Done(u64),
    Profiled(Run),
    Read(u64, Arc<Landing>),
    /// The number of bytes in use, and those that come with it.
    Content(u64, u64, Content),
    Described(u64, Answer),
    Failed(u64, u64, Told),
}

/// See the module.
pub(crate) struct Ends {
    out: Outgoing,
    bulk: Arc<Bulk>,
    /// The client is told on which lanes profiled commands ran.
    tells_lanes: bool,
    /// The features that the client knows of.
    features: u64,
    /// The output of kernels, if the client is told.
    printed: Option<Arc<Printed>>,
    pending: Mutex<Pending>,
    wake: Condvar,
    /// Commands that have come, as the receiver says.
    begun: AtomicU64,
    /// The receiver goes through what has come.
    receiving: AtomicBool,
}

#[derive(Default)]
struct Pending {
    ends: Vec<End>,
    /// Commands that are over.
    over: u64,
    /// Numbers of messages, and the commands that they named.
    sent: VecDeque<(u64, Vec<u64>)>,
    /// The session's thread is to send.
    wanted: bool,
    closed: bool,
    failures: VecDeque<(Error, u64)>,
}

impl Ends {
    pub(crate) fn new(
        out: Outgoing,
        bulk: Arc<Bulk>,
        features: u64,
        printed: Option<Arc<Printed>>,
    ) -> Self {
        Self {
            out,
            bulk,
            tells_lanes: features & LANES != 0,
            features,
            printed,
            pending: Mutex::default(),
            wake: Condvar::new(),
            begun: AtomicU64::new(0),
            receiving: AtomicBool::new(false),
        }
    }

    /// A command has come. Said by one thread, before anybody may say that it has ended.
    pub(crate) fn begun(&self) {
        let before = self.begun.load(Ordering::Relaxed);
        self.begun.store(before + 1, Ordering::Release);
    }

    /// A command has ended.
    pub(crate) fn ended(&self, id: u64, outcome: Outcome, result: &Result) {
        self.all_ended([(id, outcome, result)]);
    }

    /// Commands have ended.
    pub(crate) fn all_ended<'a>(&self, all: impl IntoIterator<Item = (u64, Outcome, &'a Result)>) {
        let mut pending = locked(&self.pending);
        for (id, outcome, result) in all {
            let end = self.end(&mut pending, id, outcome, result);
            pending.ends.push(end);
            // Under the lock, so that whoever sends the last has all of them.
            pending.over += 1;
        }
        let many = pending.ends.len() >= MANY;
        let is_last = pending.over == self.begun.load(Ordering::Acquire);
        if !many && self.receiving.load(Ordering::SeqCst) {
            return;
        }
        if many || is_last {
            drop(pending);
            self.send();
        } else if !std::mem::replace(&mut pending.wanted, true) {
            drop(pending);
            self.wake.notify_one();
        }
    }

    /// The message about a command that has ended.
    fn end(&self, pending: &mut Pending, id: u64, outcome: Outcome, result: &Result) -> End {
        match (outcome, result) {
            (_, Result::Described(answer)) if answer.get().is_some() => {
                End::Described(id, answer.clone())
            }
            (Err(error), result) => {
                if let Result::Transferred(transfer) | Result::Content(transfer, _) = result {
                    self.bulk.read_failed(*transfer);
                }
                pending.failed(id, &error)
            }
            (Ok(()), Result::Plain | Result::Described(_)) => End::Done(id),
            (Ok(()), Result::Transferred(_)) => End::Done(id),
            (Ok(()), Result::Read(bytes)) => End::Read(id, bytes.clone()),
            (Ok(()), Result::Content(transfer, content)) => {
                let content = content.get().cloned().flatten();
                let used = content.as_ref().map_or(0, |content| content.len() as u64);
                End::Content(id, used, content.filter(|_| *transfer == 0))
            }
            (Ok(()), Result::Profiled(event)) => {
                End::Profiled(run(id, &event.profile().unwrap_or_default()))
            }
            (Ok(()), Result::Timed(times)) => {
                End::Profiled(run(id, &times.get().copied().unwrap_or_default()))
            }
        }
    }

    /// Says that the receiver goes through what has come, or that it is through. Said by the
    /// receiver.
    pub(crate) fn receiving(&self, is_receiving: bool) {
        if self.receiving.load(Ordering::Relaxed) == is_receiving {
            return;
        }
        self.receiving.store(is_receiving, Ordering::SeqCst);
        if !is_receiving {
            self.send();
        }
    }

    /// Sends what has ended.
    fn send(&self) {
        let mut pending = locked(&self.pending);
        pending.wanted = false;
        let ends = std::mem::take(&mut pending.ends);
        // Commands that have ended have printed all that they print.
        let printed = self.printed.as_ref();
        let has_printed = printed.is_some_and(|printed| {
            printed.send(
                || self.out.acknowledged(),
                |message| self.out.push(message).ok(),
            )
        });
        if ends.is_empty() && !has_printed {
            return;
        }
        let (mut done, mut runs) = (Vec::new(), Vec::new());
        for end in ends {
            match end {
                End::Done(id) => done.push(Word::new(id)),
                End::Profiled(run) => runs.push(run),
                End::Read(id, landing) => {
                    // SAFETY: the read is over.
                    let bytes = unsafe { landing.bytes(0..landing.len()) };
                    pending.push(
                        &self.out,
                        &Message::ReadBytes(ReadBytes { event: id, bytes }),
                        None,
                    );
                    done.push(Word::new(id));
                }
                End::Content(id, length, landing) => {
                    let content = message::Content { event: id, length };
                    pending.push(&self.out, &Message::Content(content), None);
                    if let Some(landing) = landing {
                        // SAFETY: as above.
                        let bytes = unsafe { landing.bytes(0..landing.len()) };
                        let read = ReadBytes { event: id, bytes };
                        pending.push(&self.out, &Message::ReadBytes(read), None);
                    }
                    done.push(Word::new(id));
                }
                End::Described(id, answer) => {
                    let Some(described) = answer.get() else {
                        continue;
                    };
                    described.tell(id, self.features, |message| {
                        pending.push(&self.out, message, None);
                    });
                    match described.outcome() {
                        Ok(()) => done.push(Word::new(id)),
                        Err(error) => {
                            let told = Told::of(&error);
                            let message = Message::Failed(told.message(id, 0));
                            pending.push(&self.out, &message, Some(vec![id]));
                        }
                    }
                }
                End::Failed(id, cause, told) => {
                    let message = Message::Failed(told.message(id, cause));
                    pending.push(&self.out, &message, Some(vec![id]));
                }
            }
        }
        for events in done.chunks(MOST_IN_MESSAGE) {
            let ids = events.iter().map(|id| id.get()).collect();
            pending.push(
                &self.out,
                &Message::Completed(Completed { events }),
                Some(ids),
            );
        }
        for runs in runs.chunks(MOST_IN_MESSAGE) {
            let ids = runs.iter().map(|run| run.profile.event.get()).collect();
            if self.tells_lanes {
                pending.push(&self.out, &Message::Ran(Ran { runs }), Some(ids));
                continue;
            }
            let profiles: Vec<Profile> = runs.iter().map(|run| run.profile).collect();
            let profiled = Profiled {
                profiles: &profiles,
            };
            pending.push(&self.out, &Message::Profiled(profiled), Some(ids));
        }
        drop(pending);
        self.out.flush();
    }

    /// Something was printed: the session's thread is to send it.
    pub(crate) fn has_printed(&self) {
        locked(&self.pending).wanted = true;
        self.wake.notify_one();
    }

    /// Calls `forget` for each command whose end the client has acknowledged.
    pub(crate) fn acknowledged(&self, mut forget: impl FnMut(u64)) {
        let mut pending = locked(&self.pending);
        let acknowledged = self.out.acknowledged();
        while pending
            .sent
            .front()
            .is_some_and(|(number, _)| *number <= acknowledged)
        {
            if let Some((_, ids)) = pending.sent.pop_front() {
                ids.into_iter().for_each(&mut forget);
            }
        }
    }

    /// The work of the session's thread, until the session ends.
    pub(crate) fn run(&self) {
        loop {
            let mut pending = locked(&self.pending);
            while !pending.wanted && !pending.closed {
                pending = self
                    .wake
                    .wait(pending)
                    .unwrap_or_else(PoisonError::into_inner);
            }
            if pending.closed {
                return;
            }
            drop(pending);
            self.send();
        }
    }

    /// Nothing is said any more.
    pub(crate) fn close(&self) {
        locked(&self.pending).closed = true;
        self.wake.notify_one();
    }
}

impl Pending {
    /// Has a message sent that ends these commands. If it cannot be, the connection is lost, and
    /// whoever receives sees it.
    fn push(&mut self, out: &Outgoing, message: &Message<'_>, ends: Option<Vec<u64>>) {
        match out.push(message) {
            Ok(number) => {
                if let Some(ids) = ends {
                    self.sent.push_back((number, ids));
                }
            }
            Err(error) => quietly(|| tracing::debug!(%error, "an end is not told")),
        }
    }

    fn failed(&mut self, id: u64, error: &Error) -> End {
        let first = error.first_cause();
        let mut known = self.failures.iter();
        let cause = known.find(|(known, _)| std::ptr::eq(known.kind(), first.kind()));
        let cause = cause.map_or(0, |(_, cause)| *cause);
        if cause == 0 {
            self.failures.push_back((first.clone(), id));
            if self.failures.len() > CAUSES {
                self.failures.pop_front();
            }
        }
        End::Failed(id, cause, Told::of(error))
    }
}

/// The time and the place of a command's run.
fn run(id: u64, times: &Times) -> Run {
    let submitted = times.submitted_ns;
    let started = times.started_ns.max(submitted);
    let profile = Profile {
        event: id.into(),
        submitted_ns: submitted.into(),
        started_ns: started.into(),
        ended_ns: times.ended_ns.max(started).into(),
    };
    Run {
        profile,
        lane: u64::from(times.lane).min(MAX_LANE).into(),
    }
}
