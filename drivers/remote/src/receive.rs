//! Messages from a node: checked, and acted on. A message that breaks a rule ends the connection.

use crate::link::{Link, Sink};
use crate::locked;
use crate::point::Times;
use quipu_link::LinkError;
use quipu_link::stream::Incoming;
use quipu_protocol::message::{Chunk, GoodbyeReason, Message, Profile, Rest};
use quipu_scheduler::panics::quietly;
use std::cell::Cell;
use std::time::Duration;

/// The time that the node may take to receive the fault of its message.
const LINGER: Duration = Duration::from_secs(1);

thread_local! {
    /// This thread receives: it must not wait for messages that it is to receive itself.
    static RECEIVES: Cell<bool> = const { Cell::new(false) };
}

/// True if this thread receives messages that others wait for.
pub(crate) fn is_receiver() -> bool {
    RECEIVES.get()
}

/// Marks this thread as receiving while the returned value lives.
pub(crate) fn receiving() -> impl Drop {
    struct Receiving(bool);
    impl Drop for Receiving {
        fn drop(&mut self) {
            RECEIVES.set(self.0);
        }
    }
    Receiving(RECEIVES.replace(true))
}

/// The event, times and lane of a command, if these were told.
fn profile_of(profile: &Profile, lane: Option<u32>) -> (u64, Option<Times>) {
    let times = Times {
        submitted_ns: profile.submitted_ns.get(),
        started_ns: profile.started_ns.get(),
        ended_ns: profile.ended_ns.get(),
        lane,
    };
    (profile.event.get(), Some(times))
}

impl Link {
    /// Takes bytes of large reads, until the connection ends.
    pub(crate) fn receive_bulk(&self, mut incoming: Incoming) {
        let _receiving = receiving();
        loop {
            let taken = incoming.receive(|message, _| match message {
                Message::Chunk(chunk) => self.take_chunk(chunk),
                Message::Rest(rest) => self.take_rest(rest),
                Message::Pong(_) => Ok(false),
                _ => Err("a message that has no place on a bulk stream"),
            });
            match taken {
                Ok(Ok(true)) => self.look(),
                Ok(Ok(false)) => {}
                Ok(Err(rule)) => return self.broken(rule),
                Err(error) => {
                    if !self.goes_on(true, &mut incoming, error) {
                        return;
                    }
                }
            }
        }
    }

    /// True if a stream goes on after an error.
    pub(crate) fn goes_on(&self, is_bulk: bool, incoming: &mut Incoming, error: LinkError) -> bool {
        if matches!(error, LinkError::Wire { .. }) {
            self.ended(&error);
            return false;
        }
        let gone_on = self.go_on(is_bulk, incoming, error);
        gone_on.map_err(|reason| self.fail(&reason)).is_ok()
    }

    pub(crate) fn broken(&self, rule: &str) {
        self.out.close(GoodbyeReason::Protocol, rule, LINGER);
        self.fail(&format!("it broke a rule: {rule}"));
    }

    pub(crate) fn ended(&self, error: &LinkError) {
        if matches!(error, LinkError::Wire { .. }) {
            self.out
                .close(GoodbyeReason::Protocol, &error.to_string(), LINGER);
        }
        self.fail(&error.to_string());
    }

    pub(crate) fn take(&self, message: &Message<'_>) -> Result<(), &'static str> {
        let known = match message {
            Message::Completed(completed) => {
                self.completed(completed.events.iter().map(|event| (event.get(), None)))
            }
            Message::Profiled(profiled) => {
                let profiles = profiled.profiles.iter();
                self.completed(profiles.map(|profile| profile_of(profile, None)))
            }
            Message::Ran(ran) if self.terms.tells_lanes() => {
                let runs = ran.runs.iter();
                self.completed(
                    runs.map(|run| profile_of(&run.profile, Some(run.lane.get() as u32))),
                )
            }
            Message::Failed(failed) => self.failed(failed),
            Message::ReadBytes(read) => self.read_bytes(read.event, read.bytes),
            Message::Content(content) => self.content(content.event, content.length),
            Message::BuildLog(log) => self.answered(log.event, |answer| answer.log(log.text)),
            Message::KernelDescription(kernel) => {
                let limits = self.terms.program_limits();
                kernel.is_within(self.terms.features())
                    && self.answered(kernel.event, |answer| answer.kernel(kernel, limits))
            }
            Message::ParameterDescription(parameter) => {
                self.answered(parameter.event, |answer| answer.parameter(parameter))
            }
            Message::Printed(printed) => self.terms.tells_printed() && self.printed(printed),
            Message::DeviceLost(lost) => {
                // The commands for it fail, one by one.
                quietly(|| {
                    tracing::warn!(
                        node = self.node,
                        device = lost.device,
                        text = lost.text,
                        "device lost"
                    );
                });
                true
            }
            Message::Pong(_) => true,
            _ => return Err("a message that has no place in a session"),
        };
        if known {
            Ok(())
        } else {
            Err("an end, bytes, or an answer, of a command that is none")
        }
    }

    /// Takes a chunk; true if a command is over with it.
    fn take_chunk(&self, chunk: &Chunk<'_>) -> Result<bool, &'static str> {
        let mut sinks = locked(&self.sinks);
        let Some(sink) = sinks.get_mut(&chunk.transfer) else {
            drop(sinks);
            // A read that has failed may have sent some of its bytes.
            return if chunk.transfer <= self.last_transfer() {
                Ok(false)
            } else {
                Err("a chunk of a transfer that never was")
            };
        };
        const RULE: &str = "a chunk that does not follow the one before";
        let end = chunk.offset + chunk.bytes.len() as u64;
        let follows = |received: usize, length: usize| {
            chunk.offset == received as u64 && end <= length as u64
        };
        match sink {
            Sink::Here {
                event,
                region,
                received,
            } => {
                if !follows(*received, region.len()) {
                    return Err(RULE);
                }
                // Locked: a thread that learns that the read has failed waits for this, and gives
                // the memory up then.
                region.scatter(*received, chunk.bytes);
                *received += chunk.bytes.len();
                if *received < region.len() {
                    return Ok(false);
                }
                let event = *event;
                sinks.remove(&chunk.transfer);
                drop(sinks);
                Ok(self.part_is_over(event))
            }
            Sink::Onwards {
                point,
                to,
                transfer,
                received,
                length,
            } => {
                if !follows(*received, *length) {
                    return Err(RULE);
                }
                let (to, transfer, offset) = (*to, *transfer, *received);
                // Before any thread can know that they have come.
                point.go_around(chunk.bytes.len());
                *received += chunk.bytes.len();
                drop(sinks);
                self.pass_on(to, transfer, offset, chunk.bytes);
                Ok(false)
            }
        }
    }

    /// Takes that zeros follow of a transfer, which only another node's are. No command is over
    /// with it.
    fn take_rest(&self, rest: &Rest) -> Result<bool, &'static str> {
        let onwards = match locked(&self.sinks).get_mut(&rest.transfer) {
            Some(Sink::Onwards {
                to,
                transfer,
                received,
                length,
                ..
            }) if *received as u64 == rest.offset && *received < *length => {
                // Nothing comes behind it.
                let offset = std::mem::replace(received, *length);
                Some((*to, *transfer, offset))
            }
            Some(_) => return Err("a rest that does not follow the chunk before"),
            None => None,
        };
        match onwards {
            Some((to, transfer, offset)) => self.pass_on(to, transfer, offset, &[]),
            None if rest.transfer <= self.last_transfer() => {}
            None => return Err("a rest of a transfer that never was"),
        }
        Ok(false)
    }
}
