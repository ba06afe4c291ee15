//! The effects of the command stream's messages.

use super::Broken;
use super::bulk::Bulk;
use super::counters::{Counters, Line};
use super::ends::{self, Ends};
use super::events::{Events, Known, LineNumber, NO_LINE};
use super::objects::Objects;
use super::peers::Peers;
use super::prepared::PreparedLaunches;
use crate::locked;
use crate::node::Shared;
use quipu_protocol::limits::ProgramLimits;
use quipu_protocol::message::{
    self, Command, ContentSize, DescribeForm, Message, Operation, Parameter, ParameterKind,
    ProgramFormat, Resolve, Wait,
};
use quipu_protocol::{
    CONTENT, CONTENT_SIZES, DESCRIPTIONS, EMPTY_MEMORY, LARGE_PROGRAMS, LONG_PROGRAMS, NON_UNIFORM,
    OFFSETS, PARTS, PEERS, SENT_CONTENT,
};
use quipu_scheduler::driver::InlineExecutor;
use quipu_scheduler::{Access, AccessMode, Context, Error, Event, UserEvent};
use smallvec::SmallVec;
use std::ops::Range;
use std::sync::Arc;

pub(super) type Done<T = ()> = Result<T, Broken>;
pub(super) type Waits = SmallVec<[Event; 4]>;

/// All that messages name.
pub(crate) struct Work {
    pub(super) node: Arc<Shared>,
    /// The protocol's features that the client has, too.
    features: u64,
    pub(super) objects: Objects,
    pub(super) prepared: PreparedLaunches,
    /// Of how many of its buffers' bytes a command to come is told.
    sizes: Option<(u64, Vec<ContentSize>)>,
    /// The session's events, and the numbers of commands on each of its queues.
    counters: Arc<Counters>,
    /// The counters of commands, in the order of their numbers.
    lines: Vec<Arc<Line>>,
    /// The device and queue of the last command, and where it was counted.
    last_line: Option<((u32, u32), LineNumber)>,
    /// Commands whose ends nobody sees to yet.
    unseen: Vec<Unseen>,
    /// Those of them that are over: empty, but for its room.
    over: Vec<(Unseen, ends::Outcome)>,
    pub(super) ends: Arc<Ends>,
    pub(super) bulk: Arc<Bulk>,
    pub(super) peers: Arc<Peers>,
    /// To the drivers that have use for this thread.
    lenders: Vec<Box<dyn InlineExecutor>>,
    /// Messages since what was kept for this thread was last run.
    kept: u32,
}

/// A command whose end nobody sees to yet.
struct Unseen {
    id: u64,
    event: Event,
    line: LineNumber,
    result: ends::Result,
}

/// Messages after which what was kept for this thread is run, though more have come.
const KEPT: u32 = 64;

/// The state of a command that was to be enqueued.
pub(super) struct Begun {
    /// Its event; none if it is over, and well.
    pub(super) event: Option<Event>,
    /// The result that is told when it has ended well.
    pub(super) result: ends::Result,
}

impl Work {
    pub(crate) fn new(
        node: Arc<Shared>,
        (session, features): (u64, u64),
        context: Context,
        ends: Arc<Ends>,
        counters: Arc<Counters>,
        (bulk, peers): (Arc<Bulk>, Arc<Peers>),
    ) -> Self {
        Self {
            lenders: node.lenders(),
            features,
            kept: 0,
            objects: Objects::new(node.clone(), session, context),
            prepared: PreparedLaunches::default(),
            sizes: None,
            node,
            counters,
            lines: Vec::new(),
            last_line: None,
            unseen: Vec::new(),
            over: Vec::new(),
            ends,
            bulk,
            peers,
        }
    }

    /// Does what a message says. This thread runs brief commands itself, at the latest as it
    /// [rests](Self::rest): nobody is woken for them.
    pub(crate) fn take(&mut self, message: &Message<'_>) -> Done {
        // While it is in a kernel, another of the session's threads has to see that the client is
        // gone.
        if self.kept == 0 && self.bulk.has_begun() {
            self.lenders.iter_mut().for_each(|lender| lender.begin());
        }
        self.kept += 1;
        let done = self.act_on(message);
        if self.kept.is_multiple_of(KEPT) {
            self.lenders.iter_mut().for_each(|lender| lender.run());
            self.see_to_ends();
        }
        done
    }

    fn act_on(&mut self, message: &Message<'_>) -> Done {
        match message {
            Message::Command(command) => self.command(command),
            Message::CreateBuffer(create) => self.objects.create_buffer(create),
            Message::FreeBuffer(free) => {
                self.prepared.forget();
                self.objects.free_buffer(free.buffer)
            }
            Message::CreateProgram(create) => {
                if create.format == ProgramFormat::Parts {
                    self.check_feature(PARTS)?;
                }
                let limits = self.program_limits();
                if create.entry.len() > limits.name || create.options.len() > limits.options {
                    self.check_feature(LARGE_PROGRAMS)?;
                }
                self.objects.create_program(create, limits)
            }
            Message::ProgramSource(source) => {
                self.check_feature(LONG_PROGRAMS)?;
                self.objects.add_source(source.bytes)
            }
            Message::FreeProgram(free) => {
                self.prepared.forget();
                self.objects.free_program(free.program)
            }
            Message::ContentSizes(sizes) => {
                self.check_feature(CONTENT_SIZES)?;
                self.sizes = Some((sizes.event, sizes.sizes.to_vec()));
                Ok(())
            }
            Message::Placeholder(placeholder) => {
                self.placeholder(placeholder.event, placeholder.peer)
            }
            Message::Resolve(resolve) => self.resolve(resolve),
            Message::Cancel(cancel) => self.cancel(cancel.event),
            Message::Peer(peer) => {
                self.check_feature(PEERS)?;
                self.peers.note(&self.node, &self.bulk, peer)
            }
            Message::Part(part) => self.part(part.peer),
            Message::Tell(tell) => self.tell(tell),
            Message::Abandon(abandon) => self.abandon(abandon.transfer),
            Message::Pong(_) => Ok(()),
            _ => Err(Broken::rule("a message that has no place in a session")),
        }
    }

    /// All that has come was taken.
    pub(crate) fn rest(&mut self) {
        self.forget();
        self.objects.flush();
        self.lenders.iter_mut().for_each(|lender| {
            lender.run();
            lender.end();
        });
        self.see_to_ends();
        self.kept = 0;
    }

    /// Has ends told: at once of what is over by now, as most is that this thread has run. To be
    /// called back costs more.
    fn see_to_ends(&mut self) {
        for unseen in self.unseen.drain(..) {
            let line = &self.lines[usize::from(unseen.line)];
            if let Some(outcome) = unseen.event.result() {
                line.ended();
                self.over.push((unseen, outcome));
                continue;
            }
            let Unseen {
                id, event, result, ..
            } = unseen;
            let (line, ends) = (line.clone(), self.ends.clone());
            event.on_complete(move |outcome| {
                line.ended();
                ends.ended(id, outcome, &result);
            });
        }
        if !self.over.is_empty() {
            let over = self.over.iter();
            let over = over.map(|(it, outcome)| (it.id, outcome.clone(), &it.result));
            self.ends.all_ended(over);
            self.over.clear();
        }
    }

    /// Forgets events that the client has acknowledged: they are not named any more.
    fn forget(&mut self) {
        let mut events = locked(&self.counters.events);
        self.ends.acknowledged(|id| events.forget(id));
    }

    /// The session is over: nothing is begun any more, and nothing waits for the client.
    pub(crate) fn clear(&mut self) {
        self.lenders.clear();
        self.see_to_ends();
        let events = std::mem::take(&mut *locked(&self.counters.events));
        for event in events.live() {
            event.cancel();
        }
        self.peers.close("the client's session has ended");
        self.bulk.close("the client's session has ended");
        self.objects.flush();
        self.prepared.forget();
        self.objects.clear();
    }

    /// An event's id, which is larger than those before, of one more event than there were.
    fn check_event(&self, events: &mut Events, id: u64) -> Done {
        if id <= events.last() {
            return Err(Broken::rule(
                "an event's id is not larger than those before",
            ));
        }
        let most = self.node.options.limits.commands as usize;
        if events.len() >= most {
            self.ends.acknowledged(|id| events.forget(id));
            if events.len() >= most {
                return Err(Broken::limit("more commands than the welcome allows"));
            }
        }
        Ok(())
    }

    fn placeholder(&mut self, id: u64, peer: u64) -> Done {
        self.check_event(&mut locked(&self.counters.events), id)?;
        let event = self.peers.placeholder(id, peer);
        locked(&self.counters.events).add(id, Known::Live(event), NO_LINE, false);
        Ok(())
    }

    fn resolve(&mut self, resolve: &Resolve<'_>) -> Done {
        let Some(placeholder) = self.peers.resolve(resolve.event) else {
            return Err(Broken::rule("what is resolved is no placeholder"));
        };
        locked(&self.counters.events).forget(resolve.event);
        if let Some(placeholder) = placeholder {
            match resolve.failure {
                None => placeholder.complete(),
                Some(_) => placeholder.fail(resolve.text),
            }
        }
        Ok(())
    }

    /// Another node is told of an end.
    fn tell(&mut self, tell: &message::Tell) -> Done {
        let Some(peer_sender) = self.peers.peer_sender(tell.peer) else {
            return Err(Broken::rule("a peer is told that was not named"));
        };
        let placeholder = tell.placeholder;
        let event = match locked(&self.counters.events).get(tell.event) {
            Some(Known::Live(event)) => Some(event.clone()),
            Some(Known::Done) => None,
            Some(Known::Gone) | None => {
                return Err(Broken::rule(
                    "another node is told of an event that is none, or acknowledged",
                ));
            }
        };
        match event {
            Some(event) => event.on_complete(move |_| peer_sender.tell(placeholder)),
            None => peer_sender.tell(placeholder),
        }
        Ok(())
    }

    /// Another node is gone.
    fn part(&mut self, peer: u64) -> Done {
        let Some(peer_sender) = self.peers.peer_sender(peer) else {
            return Err(Broken::rule("a peer is gone that was not named"));
        };
        peer_sender.part();
        Ok(())
    }

    fn abandon(&mut self, transfer: u64) -> Done {
        if self.bulk.abandon(transfer) {
            return Ok(());
        }
        Err(Broken::rule("a transfer is abandoned that never was"))
    }

    fn cancel(&mut self, id: u64) -> Done {
        let events = locked(&self.counters.events);
        if id > events.last() {
            return Err(Broken::rule("a command is cancelled that never was"));
        }
        let event = match events.get(id) {
            Some(Known::Live(event)) => Some(event.clone()),
            _ => None,
        };
        drop(events);
        if let Some(event) = event {
            event.cancel();
        }
        Ok(())
    }

    fn command(&mut self, command: &Command<'_>) -> Done {
        let waits = {
            let mut events = locked(&self.counters.events);
            self.check_event(&mut events, command.event)?;
            waits_of(&events, command.waits)?
        };
        let begun = match self.sizes.take() {
            Some((event, sizes)) if event == command.event => {
                self.begin_with_sizes(command, &sizes, &waits)?
            }
            _ => self.begin(command, &waits)?,
        };
        let line = self.line_of(command);
        let is_kernel = match &command.operation {
            Operation::Launch(launch) => !self.objects.is_built_in(launch.program),
            _ => false,
        };
        self.note(command.event, line, is_kernel, begun);
        Ok(())
    }

    pub(super) fn begin(
        &mut self,
        command: &Command<'_>,
        waits: &[Event],
    ) -> Done<Result<Begun, Error>> {
        match &command.operation {
            Operation::Nothing => self.nothing(command, waits),
            Operation::Fill(fill) => self.fill(command, fill, waits),
            Operation::Copy(copy) => self.copy(command, copy, waits),
            Operation::Write(write) => self.write(command, write, waits),
            Operation::Read(read) => self.read(command, read, waits),
            Operation::ReadContent(read) => {
                self.check_feature(CONTENT)?;
                self.read_content(command, read, waits)
            }
            Operation::Launch(launch) => {
                let is_local = |parameter: &Parameter| {
                    matches!(parameter.kind(), Ok(ParameterKind::Local { .. }))
                };
                if !launch.offset.is_empty() || launch.parameters.iter().any(is_local) {
                    self.check_feature(OFFSETS)?;
                }
                if !launch.all_threads.is_empty() {
                    self.check_feature(NON_UNIFORM)?;
                }
                let is_empty = |parameter: &Parameter| {
                    matches!(
                        parameter.kind(),
                        Ok(ParameterKind::Memory { length: 0, .. })
                    )
                };
                if launch.parameters.iter().any(is_empty) {
                    self.check_feature(EMPTY_MEMORY)?;
                }
                if launch.parameters.len() > self.program_limits().parameters {
                    self.check_feature(LARGE_PROGRAMS)?;
                }
                self.launch(command, launch, waits)
            }
            Operation::Describe(describe) => {
                self.check_feature(DESCRIPTIONS)?;
                if describe.form != DescribeForm::Text {
                    self.check_feature(PARTS)?;
                }
                let limits = self.program_limits();
                if describe.options.len() > limits.options {
                    self.check_feature(LARGE_PROGRAMS)?;
                }
                let asked = self.objects.describe(command.device, describe, limits)?;
                Ok(asked.map(|(event, answer)| Begun {
                    event: Some(event),
                    result: ends::Result::Described(answer),
                }))
            }
            Operation::Send(send) => self.send(command, send, waits),
            Operation::SendContent(send) => {
                self.check_feature(SENT_CONTENT)?;
                self.send_content(command, send, waits)
            }
            Operation::Receive(receive) => self.receive(command, receive, waits),
        }
    }

    fn program_limits(&self) -> &'static ProgramLimits {
        ProgramLimits::with(self.features)
    }

    /// Asked for is only what the welcome has taken.
    fn check_feature(&self, feature: u64) -> Done {
        if self.features & feature == 0 {
            return Err(Broken::rule(
                "an operation of a feature that the welcome did not take",
            ));
        }
        Ok(())
    }

    /// The line in which a command is counted.
    fn line_of(&mut self, command: &Command<'_>) -> LineNumber {
        let place = (command.device, command.queue);
        if let Some((last, number)) = self.last_line
            && last == place
        {
            return number;
        }
        let line = self.counters.line(place);
        let number = line.number();
        // Nobody else has lines made.
        if usize::from(number) == self.lines.len() {
            self.lines.push(line);
        }
        self.last_line = Some((place, number));
        number
    }

    /// Has a command's end told.
    fn note(&mut self, id: u64, number: LineNumber, is_kernel: bool, begun: Result<Begun, Error>) {
        self.ends.begun();
        let line = &self.lines[usize::from(number)];
        line.begun();
        let known = match begun {
            Ok(Begun {
                event: Some(event),
                result,
            }) => {
                let known = Known::Live(event.clone());
                self.unseen.push(Unseen {
                    id,
                    event,
                    line: number,
                    result,
                });
                known
            }
            Ok(Begun {
                event: None,
                result,
            }) => {
                line.ended();
                self.ends.ended(id, Ok(()), &result);
                Known::Done
            }
            Err(error) => {
                // What needs it has to fail.
                let failed = UserEvent::new();
                let known = Known::Live(failed.event());
                failed.fail(&error.to_string());
                line.ended();
                self.ends.ended(id, Err(error), &ends::Result::Plain);
                known
            }
        };
        // What has ended by now is not acknowledged before this thread has looked for that.
        locked(&self.counters.events).add(id, known, number, is_kernel);
    }

    /// The queue of a command.
    pub(super) fn queue(
        &mut self,
        command: &Command<'_>,
    ) -> Done<Result<quipu_scheduler::Queue, Error>> {
        let queue = self
            .objects
            .queue(command.device, command.priority, command.profiled)?;
        Ok(queue.cloned())
    }

    fn nothing(&mut self, command: &Command<'_>, waits: &[Event]) -> Done<Result<Begun, Error>> {
        let queue = match self.queue(command)? {
            Ok(queue) => queue,
            Err(error) => return Ok(Err(error)),
        };
        if waits.is_empty() && !command.profiled {
            return Ok(Ok(Begun {
                event: None,
                result: ends::Result::Plain,
            }));
        }
        Ok(queue.marker(waits).map(|event| plain(command, event)))
    }

    fn fill(
        &mut self,
        command: &Command<'_>,
        fill: &message::Fill,
        waits: &[Event],
    ) -> Done<Result<Begun, Error>> {
        let range = fill.offset..fill.offset + fill.length;
        let (queue, memory) = (
            self.queue(command)?,
            self.objects.buffer(fill.buffer, &range)?,
        );
        let enqueue = || {
            let (queue, memory) = (queue?, memory?);
            let to = access(&memory, &range, AccessMode::Overwrite);
            let pattern = &fill.pattern[..usize::from(fill.pattern_length)];
            let event = queue.fill(to, pattern, waits)?;
            Ok(plain(command, event))
        };
        Ok(enqueue())
    }
}

/// The core's events of those that a command waits for, but for what is over anyway.
fn waits_of(known: &Events, waits: &[Wait]) -> Done<Waits> {
    let mut events = Waits::new();
    for wait in waits {
        match known.get(wait.event()) {
            Some(Known::Live(event)) if wait.is_needed() => events.push(event.clone()),
            Some(Known::Live(event)) => events.push(event.as_order()),
            Some(Known::Done) => {}
            Some(Known::Gone) | None => {
                return Err(Broken::rule(
                    "a command waits for an event that is none, or acknowledged",
                ));
            }
        }
    }
    Ok(events)
}

/// A command of which only its end is told, and when it ran if that was asked for.
pub(super) fn plain(command: &Command<'_>, event: Event) -> Begun {
    let result = if command.profiled {
        ends::Result::Profiled(event.clone())
    } else {
        ends::Result::Plain
    };
    Begun {
        event: Some(event),
        result,
    }
}

pub(super) fn access<'a>(
    memory: &'a quipu_scheduler::MemoryRef,
    range: &Range<u64>,
    mode: AccessMode,
) -> Access<'a> {
    Access {
        memory,
        offset: range.start,
        length: range.end - range.start,
        mode,
    }
}
