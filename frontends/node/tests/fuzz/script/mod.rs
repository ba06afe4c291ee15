//! A session's worth of messages: mostly ones that a client could send, each after those before it,
//! and now and then one that is slightly wrong.
//!
//! What is wrong is not always a broken rule: a range beyond its buffer is a command that fails. If
//! nothing was, every command has to end, once.
//!
//! | file | contents |
//! |---|---|
//! | here | a client's knowledge of its session; how the session goes on and ends |
//! | `commands` | buffers, programs, commands |
//! | `peers` | other nodes |

mod commands;
mod peers;

use crate::lane::Lane;
use crate::random::Random;
use crate::support::Rig;
use crate::wire;
use quipu_link::Key;
use quipu_link::client::Dial;
use quipu_link::session::{Greeted, Place};
use quipu_protocol::limits::MAX_ID;
use quipu_protocol::message::*;
use std::collections::HashSet;
use std::sync::LazyLock;
use std::time::Duration;

/// The time for which clients that come back would wait.
const RETURNS: Duration = Duration::from_secs(3600);

/// The largest buffer, in bytes.
const BUFFER: u64 = 1 << 18;

/// Messages of all kinds, whoever may send them.
static OTHERS: LazyLock<Vec<Message<'static>>> = LazyLock::new(|| {
    let mut random = Random(7);
    let drawn = (0..200).map(|_| {
        let bytes: Vec<u8> = (0..120).map(|_| random.next() as u8).collect();
        wire::random::message(&mut wire::random::Draw(&bytes)).0
    });
    let samples = wire::samples().into_iter().map(|(message, _)| message);
    samples.chain(drawn).collect()
});

/// A write or a receive whose bytes have not all been sent.
struct Coming {
    transfer: u64,
    length: u64,
    at: u64,
}

/// The end of a script.
#[derive(Debug, Default)]
pub(crate) struct Seen {
    /// Messages that were sent.
    pub(crate) messages: u64,
    /// Ends that were told.
    pub(crate) completed: u64,
    pub(crate) failed: u64,
    /// Sessions that the node ended, that came back, and that went on until all had ended.
    pub(crate) sent_away: u64,
    pub(crate) resumed: u64,
    pub(crate) finished: u64,
    /// Connections of other nodes.
    pub(crate) visits: u64,
}

/// See the module.
pub(crate) struct Script<'a> {
    rig: &'a Rig,
    dial: Dial<'a>,
    seen: &'a mut Seen,
    random: Random,
    /// One choice in so many is wrong; none if it is zero.
    wrong: u64,
    has_erred: bool,
    session: SessionId,
    epoch: u32,
    returns: bool,
    commands: Lane,
    bulk: Option<Lane>,
    /// The bulk stream may wait for a transfer that nobody names.
    is_stalled: bool,
    /// Nothing more is to be said.
    is_finished: bool,
    visits: Vec<Lane>,
    buffers: Vec<(u64, u64)>,
    programs: Vec<u64>,
    /// Commands that describe programs, as far as their ends were not told when this was last
    /// looked at.
    reading: Vec<u64>,
    /// Events that may be waited for.
    events: Vec<u64>,
    placeholders: Vec<u64>,
    coming: Vec<Coming>,
    /// Commands that have not ended, and those that have since that was last acknowledged.
    unended: HashSet<u64>,
    ended: Vec<u64>,
    /// The peers that may come, and those that the node dials.
    awaited: Vec<(u64, u32)>,
    dialled: Vec<(u64, u32)>,
    last: Last,
}

/// The largest ids that there were.
#[derive(Default)]
struct Last {
    buffer: u64,
    program: u64,
    event: u64,
    transfer: u64,
    peer: u64,
}

impl<'a> Script<'a> {
    /// Begins a session. `other` is whom its node may expect.
    pub(crate) fn begin(rig: &'a Rig, seen: &'a mut Seen, seed: u64) -> Self {
        let mut random = Random(seed);
        let dial = rig.dial(1);
        let returns = random.once_in(4);
        let patience = if returns { RETURNS } else { Duration::ZERO };
        let Greeted {
            connection, terms, ..
        } = dial.begin(patience).unwrap();
        let session = terms.session.0;
        let bulk = (!random.once_in(4)).then(|| {
            let greeted = dial.bulk(session, None).unwrap();
            Lane::new(greeted.connection)
        });
        let wrong = [0, 200, 1500][random.below(3) as usize];
        Self {
            rig,
            dial,
            seen,
            random,
            wrong,
            has_erred: false,
            session,
            epoch: 1,
            returns,
            commands: Lane::new(connection),
            bulk,
            is_stalled: false,
            is_finished: false,
            visits: Vec::new(),
            buffers: Vec::new(),
            programs: Vec::new(),
            reading: Vec::new(),
            events: Vec::new(),
            placeholders: Vec::new(),
            coming: Vec::new(),
            unended: HashSet::new(),
            ended: Vec::new(),
            awaited: Vec::new(),
            dialled: Vec::new(),
            last: Last::default(),
        }
    }

    /// Says so much, unless the node ends the session before, and ends in one of the ways in which
    /// clients do.
    pub(crate) fn run(mut self, other: &Key, steps: u64) {
        let mut is_there = true;
        for _ in 0..steps {
            self.step(other);
            is_there = self.is_finished || !self.random.once_in(12) || self.meet();
            if self.is_finished || !is_there {
                break;
            }
        }
        if !is_there {
            assert!(
                self.has_erred,
                "who broke no rule was sent away from session {:?}",
                self.session
            );
            self.seen.sent_away += 1;
        } else if !self.has_erred && self.random.once_in(2) {
            self.finish();
            self.seen.finished += 1;
        } else {
            match self.random.below(3) {
                0 => self.bulk = None,
                1 => {
                    self.goodbye();
                    self.commands.flush();
                }
                _ => {
                    self.commands.flush();
                }
            }
        }
        self.seen.messages += self.commands.sent;
    }

    fn goodbye(&mut self) {
        self.commands.push(&Message::Goodbye(Goodbye {
            reason: GoodbyeReason::Done,
            text: "",
        }));
    }

    /// True if this choice is to break a rule.
    fn errs(&mut self) -> bool {
        let errs = self.random.once_in(self.wrong);
        self.has_erred |= errs;
        errs
    }

    /// True if this choice is to be one that fails and breaks no rule.
    fn is_odd(&mut self) -> bool {
        self.random.once_in(16)
    }

    /// The next id of a sort, of which this is the last.
    fn next_id(&mut self, last: u64) -> u64 {
        match self.errs() {
            true => self.random.below(last + 1),
            false => last + 1 + self.random.below(3),
        }
    }

    /// One that may be named, of those there are.
    fn one(&mut self, list: &[u64], last: u64) -> Option<u64> {
        if self.errs() {
            return Some([last + 1, last, MAX_ID, 1][self.random.below(4) as usize]);
        }
        self.random.one_of(list)
    }

    fn buffer(&mut self) -> Option<(u64, u64)> {
        if self.errs() {
            return Some((self.last.buffer + 1, BUFFER));
        }
        if self.is_odd() && self.last.buffer > 0 {
            // It may have been freed.
            return Some((1, 64));
        }
        self.random.one_of(&self.buffers)
    }

    fn range(&mut self, size: u64) -> (u64, u64) {
        let offset = self.random.below(size);
        let length = 1 + self.random.below(size - offset);
        match self.is_odd() {
            true => (offset, length + size),
            false => (offset, length),
        }
    }

    fn waits(&mut self, event: u64) -> Vec<Wait> {
        let mut waits = Vec::new();
        let names_none = self.errs();
        for _ in 0..self.random.below(4) {
            let known = self.random.one_of(&self.events);
            let other = if names_none { Some(event - 1) } else { known };
            let Some(other) = other.filter(|other| (1..event).contains(other)) else {
                continue;
            };
            let needs = self.random.once_in(2);
            waits.push(if needs {
                Wait::needs(other)
            } else {
                Wait::after(other)
            });
        }
        waits
    }

    /// Puts a command with this operation.
    fn command(&mut self, operation: Operation<'_>) -> bool {
        let event = self.next_id(self.last.event);
        let is_plain = matches!(operation, Operation::Describe(_));
        let waits = match is_plain {
            true => Vec::new(),
            false => self.waits(event),
        };
        let device = match self.errs() {
            true => 2 + self.random.below(1000) as u32,
            false => self.random.below(2) as u32,
        };
        let priority = self.random.one_of(Priority::ALL).unwrap();
        let is_put = self.commands.push(&Message::Command(Command {
            event,
            device,
            queue: 7,
            priority,
            profiled: self.random.once_in(4) && !is_plain,
            waits: &waits,
            operation,
        }));
        if is_put {
            self.last.event = self.last.event.max(event);
            self.events.push(event);
            self.unended.insert(event);
        }
        is_put
    }

    /// A transfer's id, if there is to be one.
    fn transfer(&mut self) -> u64 {
        let transfer = self.next_id(self.last.transfer);
        self.last.transfer = self.last.transfer.max(transfer);
        transfer
    }

    fn step(&mut self, other: &Key) {
        match self.random.below(100) {
            0..8 => self.create_buffer(),
            8..12 => self.content_sizes(),
            12..16 => self.free_buffer(),
            16..20 => self.create_program(),
            20..22 => {
                let programs = std::mem::take(&mut self.programs);
                if let Some(program) = self.one(&programs, self.last.program) {
                    let message = Message::FreeProgram(FreeProgram { program });
                    self.commands.push(&message);
                    self.programs = programs.into_iter().filter(|id| *id != program).collect();
                } else {
                    self.programs = programs;
                }
            }
            22..25 => {
                self.command(Operation::Nothing);
            }
            25 => self.describe(),
            26..34 => self.fill(),
            34..40 => self.copy(),
            40..50 => self.write(),
            50..60 => self.read(),
            60..68 => self.launch(),
            68..72 => self.placeholder(),
            72..76 => self.resolve(),
            76..78 => {
                let events = std::mem::take(&mut self.events);
                let one = self.one(&events, self.last.event);
                self.events = events;
                if let Some(event) = one {
                    self.commands.push(&Message::Cancel(Cancel { event }));
                }
            }
            78..80 => self.acknowledge(),
            80..88 => self.chunk(),
            88..91 => self.name_peer(other),
            91..93 => self.visit(other),
            93..95 => self.send_or_receive(),
            95..97 => self.tell_or_part(),
            97 => self.come_back(),
            98 if self.errs() => {
                let message = any_message(&mut self.random);
                let to_bulk = self.random.once_in(3);
                self.is_stalled |= to_bulk;
                match &mut self.bulk {
                    Some(bulk) if to_bulk => bulk.push(&message),
                    _ => self.commands.push(&message),
                };
            }
            99 if self.errs() => {
                // The node may wait for the rest of a frame that has none.
                let bit = self.random.next() as usize;
                self.commands.twist(bit);
                self.is_finished = true;
            }
            _ => {
                // Messages that mean nothing to a session.
                let pong = Message::Pong(Pong {
                    token: 0,
                    time_ns: 1,
                    received_ns: 2,
                    sent_ns: 3,
                });
                self.commands.push(&pong);
            }
        }
    }

    fn acknowledge(&mut self) {
        if self.errs() {
            let received = self.random.below(2 * self.commands.received + 3);
            return self.commands.acknowledge(received);
        }
        let received = self.commands.received;
        if received > 0 {
            self.commands.acknowledge(received);
            let ended = std::mem::take(&mut self.ended);
            self.events.retain(|event| !ended.contains(event));
        }
    }

    /// Puts the next of a transfer's bytes.
    fn chunk(&mut self) {
        if self.is_stalled || self.bulk.is_none() {
            return;
        }
        let (mut transfer, mut offset, mut length) = (self.last.transfer, 0, 100);
        let mut has_rest = false;
        if self.errs() {
            // It may be one that nobody has named: no more comes of it, or after it.
            self.is_stalled = true;
            match self.random.below(4) {
                0 => transfer += 1,
                1 => offset = self.random.below(5000),
                2 => transfer = self.random.below(transfer + 1),
                _ => length = 9000,
            }
        } else {
            if self.coming.is_empty() {
                return;
            }
            let at = self.random.below(self.coming.len() as u64) as usize;
            let coming = &mut self.coming[at];
            let left = coming.length - coming.at;
            (transfer, offset) = (coming.transfer, coming.at);
            length = left.min(1 + self.random.below(20_000));
            coming.at += length;
            has_rest = coming.at < coming.length && self.random.once_in(8);
            if has_rest {
                coming.at = coming.length;
            }
            if coming.at == coming.length {
                self.coming.swap_remove(at);
            }
        }
        self.put_chunk((transfer, offset, length), has_rest);
    }

    /// Puts bytes of a transfer into the bulk stream, and that zeros follow, if they do.
    fn put_chunk(&mut self, (transfer, offset, length): (u64, u64, u64), has_rest: bool) {
        // It waits for what has named it.
        self.commands.flush();
        let bytes = vec![self.random.next() as u8; length as usize];
        if let Some(bulk) = &mut self.bulk {
            bulk.push(&Message::Chunk(Chunk {
                transfer,
                offset,
                bytes: &bytes,
            }));
            if has_rest {
                let offset = offset + length;
                bulk.push(&Message::Rest(Rest { transfer, offset }));
            }
            bulk.flush();
        }
    }

    /// Loses the connection, and comes with another.
    fn come_back(&mut self) {
        if !self.returns {
            return;
        }
        // What is not there yet is lost, and nobody here sends it again.
        if !self.meet() {
            return;
        }
        let errs = self.errs();
        self.epoch += 1 + self.random.below(3) as u32;
        let place = Place {
            session: (self.session, if errs { self.epoch - 1 } else { self.epoch }),
            received: match errs {
                true => self.random.below(2 * self.commands.received + 3),
                false => self.commands.received,
            },
            patience: RETURNS,
            key: None,
            alone: false,
        };
        match self.dial.resume(false, &place) {
            Ok(greeted) => {
                assert!(errs || greeted.terms.received == self.commands.sent);
                let sent = greeted.terms.received;
                self.commands.go_on(greeted.connection, sent);
                self.seen.resumed += 1;
            }
            Err(error) => assert!(errs, "{error}"),
        }
    }

    /// Has all taken that was sent, and hears what was said by then; false if the session has
    /// ended.
    fn meet(&mut self) -> bool {
        let Self {
            commands,
            unended,
            ended,
            seen,
            has_erred,
            ..
        } = self;
        let mut hear = |message: &Message<'_>| note(message, unended, ended, seen, *has_erred);
        if !commands.meet(&mut hear) {
            return false;
        }
        match &mut self.bulk {
            Some(bulk) if !self.is_stalled => bulk.meet(|_| ()),
            _ => true,
        }
    }

    /// Does what is left to do, and waits until all has ended: it does.
    fn finish(&mut self) {
        while let Some(event) = self.placeholders.pop() {
            self.resolve_one(event);
        }
        while let Some(coming) = self.coming.pop() {
            let rest = (coming.transfer, coming.at, coming.length - coming.at);
            self.put_chunk(rest, false);
        }
        // What was sent to nobody in particular is waited for by nobody.
        for (peer, _) in std::mem::take(&mut self.dialled) {
            self.commands.push(&Message::Part(Part { peer }));
        }
        assert!(self.meet(), "who broke no rule was sent away");
        let bulk = self.bulk.take();
        std::thread::scope(|scope| {
            // What is read has to be taken, or it is never sent.
            scope.spawn(|| {
                let mut bulk = bulk;
                while let Some(bulk) = &mut bulk
                    && bulk.next(|_| ()).is_ok()
                {}
            });
            while !self.unended.is_empty() {
                let Self {
                    commands,
                    unended,
                    ended,
                    seen,
                    ..
                } = &mut *self;
                let heard = commands.next(|message| note(message, unended, ended, seen, false));
                heard.unwrap();
            }
            self.goodbye();
            self.commands.flush();
        });
    }
}

/// Notes which commands have ended: each once, and none that never was, unless the client itself
/// said odd things.
fn note(
    message: &Message<'_>,
    unended: &mut HashSet<u64>,
    ended: &mut Vec<u64>,
    seen: &mut Seen,
    has_erred: bool,
) {
    let mut over = |event: u64| {
        assert!(
            unended.remove(&event) || has_erred,
            "{event} has ended twice"
        );
        ended.push(event);
    };
    match message {
        Message::Completed(completed) => {
            seen.completed += completed.events.len() as u64;
            completed.events.iter().for_each(|event| over(event.get()));
        }
        Message::Profiled(profiled) => {
            seen.completed += profiled.profiles.len() as u64;
            let profiles = profiled.profiles.iter();
            profiles.for_each(|profile| over(profile.event.get()));
        }
        Message::Ran(ran) => {
            seen.completed += ran.runs.len() as u64;
            ran.runs
                .iter()
                .for_each(|run| over(run.profile.event.get()));
        }
        Message::Failed(failed) => {
            seen.failed += 1;
            over(failed.event);
        }
        _ => {}
    }
}

/// A message of any kind.
pub(crate) fn any_message(random: &mut Random) -> Message<'static> {
    random.one_of(&OTHERS).unwrap()
}
