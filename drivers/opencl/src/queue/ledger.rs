//! The commands that the driver has been told of and that are not over: what each waits for, where it is, and what is
//! to be done next. Bookkeeping only: nothing here calls the core or OpenCL, and nothing blocks.
//!
//! ```text
//!  Held ──(eligible, credit)──▶ Leaving ──▶ Away ──(noted)──▶ Over ──(Ready)──▶ finished, forgotten
//!    └──────(refused, or it could not be forwarded)───────────▲
//! ```
//!
//! # What may be forwarded
//!
//! 1. A command is held until what it waits for outside the domain is resolved.
//! 2. A wait within the domain is *met* once that command is on its device, and so has an event to wait for there, or the
//!    core has said that it is resolved. A command is *eligible* when all its waits are met: so nothing on a device ever
//!    waits for what is still here.
//! 3. What writes the host's memory for its user, a read, must leave it as it was if it fails. So a wait whose failure
//!    would be its own is met by a command on its device only if that is *sure*: it cannot fail by itself as kernels
//!    can, nor can what it depends on.
//!    Others are forwarded all the same: if what they depend on turns out to have failed, they have read and written
//!    what is void anyway, and are then said to have failed.
//! 4. What is done by the host (host tasks, and transfers that no call of OpenCL describes) is *the host's*: it begins
//!    when the core has said that it is ready.
//! 5. Eligible commands leave by priority, then in enqueue order, as far as their device has credit.
//!
//! A command whose memory cannot be had waits while others of its device move: their ends free memory.

use super::forward::Flight;
use crate::native::Event;
use quipu_core::driver::{DomainWait, Held, Submission};
use quipu_core::{Command, Error, EventId, Priority};
use std::collections::{BTreeSet, HashMap, VecDeque};

/// Commands that a device is given at once, at most.
const CREDIT: usize = 256;

/// Commands that are noted before the drain thread is called to forward them: whoever enqueues goes on enqueuing.
const UNSEEN: usize = 64;

/// How often a device's queues are flushed again, before the device is taken to be lost.
const FLUSHES: u32 = 16;

/// A wait within the domain.
#[derive(Clone, Copy, Debug)]
struct Awaited {
    event: EventId,
    propagates: bool,
    met: bool,
    resolved: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    Held,
    Leaving,
    Away,
    Over,
}

/// Who does a command, and what that means for its waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Doer {
    /// The device.
    Device,
    /// The device, and the host's memory is written for the user.
    DeviceForUser,
    /// A thread of the host.
    Host,
}

/// A command's turn: urgent ones first, then in enqueue order.
type Turn = (std::cmp::Reverse<Priority>, u64);

/// How a command ended, as far as its device or thread knows.
pub(super) enum Ended {
    /// On the device.
    There { status: i32, seen: u64 },
    /// On the host.
    Here(Result<(), Error>),
}

struct Entry {
    event: EventId,
    held: Held,
    device: usize,
    doer: Doer,
    /// Whether it can fail by itself, as a kernel can.
    fallible: bool,
    /// Whether it can no longer fail but by its device's fault.
    sure: bool,
    waits: Vec<Awaited>,
    missing: usize,
    host_waits: u32,
    place: Place,
    turn: Turn,
    /// Its code is being compiled.
    building: bool,
    /// It waits for nothing on the device: there it would fail with what it waits for.
    alone: bool,
    /// What commands on the device wait for.
    signal: Option<Event>,
    flight: Option<Flight>,
    ended: Option<Ended>,
    /// Those that wait for it and came while it was here.
    dependants: Vec<u64>,
    command: Option<Command>,
}

impl Entry {
    /// True if it is on this device.
    fn is_on(&self, device: usize) -> bool {
        self.device == device && self.place == Place::Away && self.flight.is_some()
    }
}

/// A device, as far as forwarding goes.
#[derive(Debug, Default)]
struct Lane {
    lost: bool,
    away: usize,
    /// A command waits for memory.
    starved: bool,
    /// Something was put into its queues since they were flushed.
    dirty: bool,
    /// How often in a row they could not be.
    unflushed: u32,
    eligible: BTreeSet<Turn>,
}

/// Something to do, with no lock held.
#[derive(Clone, Copy, Debug)]
pub(super) enum Job {
    Prepare(u64),
    Finish(u64),
    Forward(u64),
}

/// What it takes to forward a command.
pub(super) struct Departure {
    pub(super) held: Held,
    pub(super) device: usize,
    pub(super) doer: Doer,
    pub(super) lost: bool,
    /// What it waits for on the device.
    pub(super) waits: Vec<Event>,
}

/// What it takes to finish a command.
pub(super) struct Arrival {
    pub(super) command: Command,
    pub(super) device: usize,
    pub(super) flight: Option<Flight>,
    pub(super) ended: Option<Ended>,
}

/// See the module.
#[derive(Default)]
pub(crate) struct Ledger {
    next: u64,
    entries: HashMap<u64, Entry>,
    sequences: HashMap<EventId, u64>,
    lanes: Vec<Lane>,
    over: VecDeque<u64>,
    /// Launches whose code is to be compiled.
    unprepared: VecDeque<u64>,
    /// Commands noted since somebody last looked for jobs.
    unseen: usize,
    /// Whether a thread does the jobs.
    pub(super) pumping: bool,
}

impl Ledger {
    pub(crate) fn new(devices: usize) -> Self {
        Self {
            lanes: (0..devices).map(|_| Lane::default()).collect(),
            ..Self::default()
        }
    }

    /// True if no command is held or away.
    pub(super) fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Takes note of a command. If it is `building`, its code is not compiled yet. True if so many came without that
    /// anybody looked that the drain thread should.
    pub(super) fn submit(
        &mut self,
        submission: &Submission<'_>,
        doer: Doer,
        fallible: bool,
        building: bool,
    ) -> bool {
        let sequence = self.next;
        self.next += 1;
        let mut waits = Vec::with_capacity(submission.domain_waits.len());
        for wait in submission.domain_waits {
            waits.push(self.note_wait(sequence, wait, doer));
        }
        self.sequences.insert(submission.id, sequence);
        let entry = Entry {
            event: submission.id,
            held: submission.command,
            device: submission.queue.device_index(),
            doer,
            fallible,
            sure: false,
            missing: waits.iter().filter(|wait| !wait.met).count(),
            waits,
            host_waits: submission.host_waits,
            place: Place::Held,
            turn: (std::cmp::Reverse(submission.queue.priority()), sequence),
            building,
            alone: false,
            signal: None,
            flight: None,
            ended: None,
            dependants: Vec::new(),
            command: None,
        };
        self.entries.insert(sequence, entry);
        if building {
            self.unprepared.push_back(sequence);
        }
        self.consider(sequence);
        self.unseen += 1;
        self.unseen.is_multiple_of(UNSEEN)
    }

    fn note_wait(&mut self, sequence: u64, wait: &DomainWait, doer: Doer) -> Awaited {
        let other = self
            .sequences
            .get(&wait.event)
            .and_then(|other| self.entries.get_mut(other));
        // Of one that is not known the core will say when it is resolved.
        let met = other.is_some_and(|other| {
            other.dependants.push(sequence);
            other.signal.is_some() && is_met_by(doer, wait.propagates, other.sure)
        });
        Awaited {
            event: wait.event,
            propagates: wait.propagates,
            met,
            resolved: false,
        }
    }

    /// One of a command's waits is resolved.
    pub(super) fn resolved(&mut self, command: EventId, event: EventId) {
        let Some(sequence) = self.sequences.get(&command).copied() else {
            return;
        };
        let Some(entry) = self.entries.get_mut(&sequence) else {
            return;
        };
        let mut in_domain = false;
        for wait in entry.waits.iter_mut().filter(|wait| wait.event == event) {
            in_domain = true;
            wait.resolved = true;
            if !std::mem::replace(&mut wait.met, true) {
                entry.missing -= 1;
            }
        }
        if !in_domain {
            entry.host_waits = entry.host_waits.saturating_sub(1);
        }
        self.consider(sequence);
    }

    /// All of a command's waits are resolved: it is ours to finish.
    pub(super) fn ready(&mut self, command: Command) -> Result<(), Command> {
        let Some(sequence) = self.sequences.get(&command.id()).copied() else {
            return Err(command);
        };
        let Some(entry) = self.entries.get_mut(&sequence) else {
            return Err(command);
        };
        let refused = command.is_refused();
        entry.command = Some(command);
        entry.host_waits = 0;
        entry.missing = 0;
        for wait in &mut entry.waits {
            wait.resolved = true;
            wait.met = true;
        }
        match entry.place {
            Place::Over => self.over.push_back(sequence),
            // While its code is compiled, somebody looks at it.
            Place::Held if refused && !entry.building => self.end(sequence, None),
            _ => self.consider(sequence),
        }
        Ok(())
    }

    /// Puts a command among those that are eligible, if it is.
    fn consider(&mut self, sequence: u64) {
        let Some(entry) = self.entries.get(&sequence) else {
            return;
        };
        let needs_core = entry.doer == Doer::Host || entry.alone;
        let eligible = entry.place == Place::Held
            && !entry.building
            && entry.missing == 0
            && entry.host_waits == 0
            && (entry.command.is_some() || !needs_core);
        if eligible {
            self.lanes[entry.device].eligible.insert(entry.turn);
        }
    }

    /// The device and body of a launch whose code is to be compiled.
    pub(super) fn of_launch(&self, sequence: u64) -> Option<(usize, Held)> {
        let entry = self.entries.get(&sequence)?;
        Some((entry.device, entry.held))
    }

    /// A launch is about to ask for its code.
    pub(super) fn expect_code(&mut self, sequence: u64) {
        if let Some(entry) = self.entries.get_mut(&sequence) {
            entry.building = true;
        }
    }

    /// A launch is held until its code is compiled, which it may be by now.
    pub(super) fn hold_for_code(&mut self, sequence: u64) {
        if let Some(entry) = self.entries.get_mut(&sequence) {
            entry.place = Place::Held;
        }
        self.consider_built(sequence);
    }

    /// A launch's code is compiled, or cannot be.
    pub(super) fn built(&mut self, sequence: u64) {
        if let Some(entry) = self.entries.get_mut(&sequence) {
            entry.building = false;
        }
        self.consider_built(sequence);
    }

    fn consider_built(&mut self, sequence: u64) {
        let Some(entry) = self.entries.get(&sequence) else {
            return;
        };
        let refused = entry.command.as_ref().is_some_and(Command::is_refused);
        if refused && entry.place == Place::Held && !entry.building {
            self.end(sequence, None);
        } else {
            self.consider(sequence);
        }
    }

    /// The next thing to do.
    pub(super) fn next_job(&mut self) -> Option<Job> {
        self.unseen = 0;
        if let Some(sequence) = self.over.pop_front() {
            return Some(Job::Finish(sequence));
        }
        if let Some(sequence) = self.unprepared.pop_front() {
            return Some(Job::Prepare(sequence));
        }
        for lane in &mut self.lanes {
            if lane.starved || lane.away >= CREDIT {
                continue;
            }
            if let Some((_, sequence)) = lane.eligible.pop_first() {
                return Some(Job::Forward(sequence));
            }
        }
        None
    }

    /// The devices whose queues have to be flushed; they are taken to be, then.
    pub(super) fn take_dirty(&mut self) -> Vec<usize> {
        let lanes = self.lanes.iter_mut().enumerate();
        let dirty =
            lanes.filter_map(|(device, lane)| std::mem::take(&mut lane.dirty).then_some(device));
        dirty.collect()
    }

    /// A device's queues are flushed.
    pub(super) fn flushed(&mut self, device: usize) {
        self.lanes[device].unflushed = 0;
    }

    /// A device's queues could not be flushed, and have to be again; false if that is given up.
    pub(super) fn flush_again(&mut self, device: usize) -> bool {
        let lane = &mut self.lanes[device];
        lane.unflushed += 1;
        lane.dirty = lane.unflushed < FLUSHES && !lane.lost;
        lane.dirty
    }

    /// One of the commands that are on a device.
    pub(super) fn any_away(&self, device: usize) -> Option<Held> {
        let mut entries = self.entries.values();
        let any = entries.find(|entry| entry.is_on(device));
        any.map(|entry| entry.held)
    }

    /// A command begins to leave; what that needs, unless it must not run.
    pub(super) fn begin(&mut self, sequence: u64) -> Option<Departure> {
        let entry = self.entries.get_mut(&sequence)?;
        if entry.place != Place::Held {
            return None;
        }
        if entry.event.is_refused() {
            // It ends here, once it is ours.
            if entry.command.is_some() {
                self.end(sequence, None);
            }
            return None;
        }
        entry.place = Place::Leaving;
        let (held, device, doer, alone) = (entry.held, entry.device, entry.doer, entry.alone);
        let entry = &self.entries[&sequence];
        let of = |wait: &Awaited| self.entries.get(self.sequences.get(&wait.event)?);
        let sure = !entry.fallible
            && entry.waits.iter().all(|wait| {
                !wait.propagates || wait.resolved || of(wait).is_none_or(|other| other.sure)
            });
        let waits = entry
            .waits
            .iter()
            .filter(|_| !alone)
            .filter_map(|wait| of(wait)?.signal.clone())
            .collect();
        let departure = Departure {
            held,
            device,
            doer,
            lost: self.lanes[device].lost,
            waits,
        };
        if let Some(entry) = self.entries.get_mut(&sequence) {
            entry.sure = sure;
        }
        Some(departure)
    }

    /// A command is on its device.
    pub(super) fn forwarded(&mut self, sequence: u64, flight: Flight) {
        let Some(entry) = self.entries.get_mut(&sequence) else {
            return;
        };
        entry.place = Place::Away;
        entry.sure &= flight.failure.is_none();
        entry.signal = Some(flight.signal.clone());
        entry.flight = Some(flight);
        let (event, sure) = (entry.event, entry.sure);
        let dependants = entry.dependants.clone();
        let lane = &mut self.lanes[entry.device];
        lane.away += 1;
        lane.dirty = true;
        for dependant in dependants {
            self.meet(dependant, event, sure);
        }
    }

    /// A thread of the host does a command.
    pub(super) fn taken(&mut self, sequence: u64) {
        if let Some(entry) = self.entries.get_mut(&sequence) {
            entry.place = Place::Away;
        }
    }

    /// What a command waits for is on its device.
    fn meet(&mut self, sequence: u64, event: EventId, sure: bool) {
        let Some(entry) = self.entries.get_mut(&sequence) else {
            return;
        };
        for wait in &mut entry.waits {
            if wait.event == event && !wait.met && is_met_by(entry.doer, wait.propagates, sure) {
                wait.met = true;
                entry.missing -= 1;
            }
        }
        self.consider(sequence);
    }

    /// A command was not forwarded, because something that it waits for there has failed: once the core knows of all
    /// its waits, it is forwarded without them, or not at all.
    pub(super) fn hold_alone(&mut self, sequence: u64) {
        let Some(entry) = self.entries.get_mut(&sequence) else {
            return;
        };
        entry.place = Place::Held;
        entry.alone = true;
        if entry.signal.take().is_some() {
            let (event, dependants) = (entry.event, entry.dependants.clone());
            for dependant in dependants {
                self.unmeet(dependant, event);
            }
        }
        self.consider(sequence);
    }

    /// What a command waits for is on its device no more, and there is nothing there to wait for.
    fn unmeet(&mut self, sequence: u64, event: EventId) {
        let Some(entry) = self.entries.get_mut(&sequence) else {
            return;
        };
        if entry.place != Place::Held {
            return;
        }
        for wait in &mut entry.waits {
            if wait.event == event && wait.met && !wait.resolved {
                wait.met = false;
                entry.missing += 1;
            }
        }
        if entry.missing > 0 {
            self.lanes[entry.device].eligible.remove(&entry.turn);
        }
    }

    /// True if a command waits for nothing on its device.
    pub(super) fn is_alone(&self, sequence: u64) -> bool {
        let entry = self.entries.get(&sequence);
        entry.is_some_and(|entry| entry.alone)
    }

    /// A command was not forwarded, because its device has no memory; false if that will not change by itself.
    pub(super) fn hold_for_memory(&mut self, sequence: u64) -> bool {
        let Some(entry) = self.entries.get_mut(&sequence) else {
            return false;
        };
        let lane = &mut self.lanes[entry.device];
        if lane.away == 0 {
            return false;
        }
        lane.starved = true;
        entry.place = Place::Held;
        self.consider(sequence);
        true
    }

    /// A command must not run after all: it ends here, once it is ours.
    pub(super) fn hold_refused(&mut self, sequence: u64) {
        let Some(entry) = self.entries.get_mut(&sequence) else {
            return;
        };
        entry.place = Place::Held;
        if entry.command.is_some() {
            self.end(sequence, None);
        }
    }

    /// A command that is on its device.
    pub(super) fn away(&self, sequence: u64) -> Option<Held> {
        let entry = self.entries.get(&sequence)?;
        (entry.place == Place::Away).then_some(entry.held)
    }

    /// The ends of a command's calls before the last, which is what its end is heard of by.
    pub(super) fn earlier(&self, sequence: u64) -> Vec<Event> {
        let entry = self.entries.get(&sequence);
        let Some(flight) = entry.and_then(|entry| entry.flight.as_ref()) else {
            return Vec::new();
        };
        let calls = flight.earlier.iter().chain([&flight.signal]);
        calls.cloned().collect()
    }

    /// A command has ended on its device, with this status, which was seen then.
    pub(super) fn noted(&mut self, sequence: u64, status: i32, seen: u64) {
        let Some(entry) = self.entries.get_mut(&sequence) else {
            return;
        };
        if entry.place != Place::Away {
            return;
        }
        let lane = &mut self.lanes[entry.device];
        lane.away -= 1;
        lane.starved = false;
        if status == cl3::error_codes::CL_EXEC_STATUS_ERROR_FOR_EVENTS_IN_WAIT_LIST && !entry.alone
        {
            entry.flight = None;
            return self.hold_alone(sequence);
        }
        self.end(sequence, Some(Ended::There { status, seen }));
    }

    /// A command is over, and finished as soon as it is ours.
    pub(super) fn end(&mut self, sequence: u64, ended: Option<Ended>) {
        let Some(entry) = self.entries.get_mut(&sequence) else {
            return;
        };
        self.lanes[entry.device].eligible.remove(&entry.turn);
        entry.place = Place::Over;
        entry.ended = ended;
        if entry.command.is_some() {
            self.over.push_back(sequence);
        }
    }

    /// Takes what it needs to finish a command.
    pub(super) fn arrive(&mut self, sequence: u64) -> Option<Arrival> {
        let entry = self.entries.get_mut(&sequence)?;
        Some(Arrival {
            command: entry.command.take()?,
            device: entry.device,
            flight: entry.flight.take(),
            ended: entry.ended.take(),
        })
    }

    /// Forgets a command that is finished.
    pub(super) fn forget(&mut self, sequence: u64) {
        if let Some(entry) = self.entries.remove(&sequence) {
            self.sequences.remove(&entry.event);
            self.lanes[entry.device].starved = false;
        }
    }

    /// A device is lost, and with it what is there.
    pub(super) fn lose(&mut self, device: usize, error: &Error) {
        if std::mem::replace(&mut self.lanes[device].lost, true) {
            return;
        }
        let there = |(sequence, entry): (&u64, &Entry)| entry.is_on(device).then_some(*sequence);
        let mut there: Vec<u64> = self.entries.iter().filter_map(there).collect();
        there.sort_unstable();
        for sequence in there {
            self.lanes[device].away -= 1;
            self.end(sequence, Some(Ended::Here(Err(error.clone()))));
        }
    }
}

/// Whether a wait for a command on its device holds a command back no longer.
fn is_met_by(doer: Doer, propagates: bool, sure: bool) -> bool {
    match doer {
        Doer::Device => true,
        Doer::DeviceForUser => !propagates || sure,
        Doer::Host => false,
    }
}
