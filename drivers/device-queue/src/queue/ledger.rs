//! The ledger: all commands of the driver that are not over, with the waits and the state of each,
//! and the next jobs.
//!
//! Commands come from the [inbox](super::inbox). The ledger only keeps books: it calls neither the
//! core nor a library, and never blocks.
//!
//! ```text
//!  Held ──(eligible, credit)──▶ Leaving ──▶ Away ──(noted)──▶ Over ──(Ready)──▶ finished, forgotten
//!    └──────(refused, or it could not be forwarded)───────────▲
//! ```
//!
//! # Commands that may be forwarded
//!
//! 1. A command is held until its waits outside the domain are resolved.
//! 2. A wait within the domain is *met* once that command is on its device, and so has an event to
//!    wait for there, or the core has said that it is resolved. A command is *eligible* when all
//!    its waits are met: so nothing on a device ever waits for a command that is still here.
//! 3. A command that writes a user's host memory itself must leave it as it was if it fails. So a
//!    wait whose failure would be its own is met by a command on its device only if that is *sure*:
//!    it cannot fail by itself as kernels can, nor can the commands that it depends on. Others are
//!    forwarded all the same: if a command that they depend on turns out to have failed, they have
//!    read and written bytes that are void anyway, and are then said to have failed.
//! 4. Waits of native enqueues are met in the same way: a user's code must not be called for void
//!    bytes. Nor is it called twice, so one that ends because of a command that it waited for there
//!    has failed, and is not forwarded again.
//! 5. Commands that the host does (host tasks, and transfers that no call describes) are *the
//!    host's*: each begins when the core has said that it is ready, and so does a command that
//!    reads memory of the host's that commands write.
//! 6. Eligible commands leave by priority, then in enqueue order, as far as their device has
//!    credit. One that comes while others leave is among them after 32 jobs at most.
//!
//! A command whose memory cannot be had waits while others move: their ends free memory (see
//! `usage`).
//!
//! # Lines
//!
//! If a device keeps an order, it says which [line](super::completion) a command is in. For others,
//! a command is in the line of one that it waits for on its device, if that is the last there; else
//! it begins a new one.

use super::batches::{BatchKey, Batches, Forwarding, Made, OfDevice, Ungathered, Whole};
use super::completion::SeenTo;
use super::inbox::{Inbox, Submitted};
pub(super) use super::slab::Key;
use super::slab::Slab;
use crate::batch::{Counts, Plan};
use crate::vendor::{Executor, Flight, Vendor};
use quipu_scheduler::driver::{CommandRef, DomainWait};
use quipu_scheduler::hash::NumberHash;
use quipu_scheduler::{Command, Error, EventId, Priority};
use smallvec::SmallVec;
use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap, VecDeque};
use std::sync::Arc;

/// Submitted commands for which room is kept, at most.
const KEPT: usize = 1024;

/// The number of times that a device's queues are flushed again, before the device is taken to be
/// lost.
pub(super) const FLUSHES: u32 = 16;

/// A wait within the domain.
#[derive(Clone, Copy, Debug)]
pub(super) struct Awaited {
    pub(super) event: EventId,
    /// Its key here, if it had one when the wait was noted.
    pub(super) key: Option<Key>,
    pub(super) propagates: bool,
    pub(super) met: bool,
    pub(super) resolved: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Place {
    Held,
    Leaving,
    Away,
    Over,
}

/// A command's turn: urgent ones first, then in enqueue order; and its key.
pub(super) type Turn = (Reverse<Priority>, u64, Key);

/// The end of a command, as far as its device or thread knows.
pub(super) enum Ended<F> {
    /// On the device.
    There { result: Result<(), F>, seen: u64 },
    /// On the host.
    Here(Result<(), Error>),
}

pub(super) struct Entry<V: Vendor> {
    pub(super) event: EventId,
    pub(super) held: CommandRef,
    pub(super) device: usize,
    pub(super) executor: Executor,
    /// True if it can fail by itself, as a kernel can.
    pub(super) fallible: bool,
    /// True if it can no longer fail but by its device's fault.
    pub(super) sure: bool,
    pub(super) waits: SmallVec<[Awaited; 2]>,
    pub(super) missing: usize,
    pub(super) host_waits: u32,
    pub(super) place: Place,
    /// True if it is among those that are eligible.
    pub(super) eligible: bool,
    pub(super) turn: Turn,
    /// Its code is being compiled.
    pub(super) building: bool,
    /// True if it waits for something outside the domain, or for a command that does.
    pub(super) blocked: bool,
    /// The batch that it is part of, and its place there.
    pub(super) batch: Option<BatchKey>,
    pub(super) place_in_batch: u32,
    /// True if it counts among those that its device is given.
    pub(super) is_counted: bool,
    /// True if it waits for nothing on the device: there it would fail with the commands that it
    /// waits for.
    pub(super) alone: bool,
    /// The signal that commands on the device wait for.
    pub(super) signal: Option<V::Signal>,
    pub(super) flight: Option<Flight<V>>,
    /// The line of its device that it is in.
    pub(super) line: usize,
    pub(super) ended: Option<Ended<V::Failure>>,
    /// The promise of the thread that handed it over to see to it.
    pub(super) seen_to: SeenTo,
    /// The commands that wait for it and came while it was here.
    pub(super) dependants: SmallVec<[Key; 4]>,
    pub(super) command: Option<Command>,
}

impl<V: Vendor> Entry<V> {
    /// True if it is on this device.
    pub(super) fn is_on(&self, device: usize) -> bool {
        self.device == device && self.place == Place::Away && self.flight.is_some()
    }
}

/// A device, as far as forwarding goes.
#[derive(Debug, Default)]
pub(super) struct Lane {
    pub(super) lost: bool,
    pub(super) away: usize,
    /// Commands that threads of the host do.
    pub(super) here: usize,
    /// A command waits for memory.
    pub(super) starved: bool,
    /// Something was put into its queues since they were flushed.
    pub(super) dirty: bool,
    /// The number of flushes in a row that failed.
    pub(super) unflushed: u32,
    /// The commands that may leave, first the one whose turn it is; some that have left are still
    /// named.
    pub(super) eligible: BinaryHeap<Reverse<Turn>>,
    /// The last command of each line, as long as it is there.
    pub(super) lines: Vec<Option<Key>>,
    /// Lines that nothing is in.
    pub(super) free_lines: Vec<usize>,
    pub(super) batches: OfDevice,
}

/// Something to do, with no lock held.
#[allow(
    clippy::large_enum_variant,
    reason = "it is taken apart at once, where it was made"
)]
pub(super) enum Job<V: Vendor> {
    Prepare(Key),
    Finish(Key, Arrival<V>),
    Forward(Key, Departure<V>),
    ForwardWhole(Whole<V>),
    Gather(BatchKey, Ungathered<V>),
    Make(BatchKey, usize, Plan<V>),
    /// Give up objects that no device uses.
    Discard(Vec<Arc<Made<V>>>),
}

/// The facts about a command as it is noted.
#[derive(Clone, Copy, Debug)]
pub(super) struct Facts {
    pub(super) executor: Executor,
    /// True if it can fail by itself, as a kernel can.
    pub(super) fallible: bool,
    /// Its code is not compiled yet.
    pub(super) building: bool,
    /// The nanoseconds that it takes in a batch, if it may be part of one.
    pub(super) batched: Option<u64>,
}

/// The parts that are needed to forward a command.
pub(super) struct Departure<V: Vendor> {
    pub(super) held: CommandRef,
    pub(super) device: usize,
    pub(super) executor: Executor,
    pub(super) lost: bool,
    /// The signals that it waits for on the device.
    pub(super) waits: SmallVec<[V::Signal; 2]>,
    /// The line whose last command it waits for.
    pub(super) line: Option<usize>,
    pub(super) seen_to: SeenTo,
}

/// The parts that are needed to finish a command.
pub(super) struct Arrival<V: Vendor> {
    pub(super) command: Command,
    pub(super) held: CommandRef,
    pub(super) device: usize,
    pub(super) flight: Option<Flight<V>>,
    pub(super) ended: Option<Ended<V::Failure>>,
}

/// See the module.
pub(crate) struct Ledger<V: Vendor> {
    /// Commands that are not among the entries yet.
    inbox: Arc<Inbox>,
    /// Empty, but for its room.
    taken: Vec<Submitted>,
    pub(super) next: u64,
    pub(super) entries: Slab<Entry<V>>,
    pub(super) keys: HashMap<EventId, Key, NumberHash>,
    pub(super) lanes: Vec<Lane>,
    pub(super) over: VecDeque<Key>,
    /// The commands that are handed over, and some that were.
    pub(super) handed: Vec<Key>,
    /// The number of them from which on they are looked through.
    pub(super) handed_most: usize,
    /// The number of times that there came to be room in devices' memory, and that number when the
    /// last command began to leave.
    pub(super) room: u64,
    pub(super) room_before: u64,
    /// Launches whose code is to be compiled.
    pub(super) unprepared: VecDeque<Key>,
    pub(super) batches: Batches<V>,
    /// Batches that are over, or were dissolved.
    pub(super) unused: Vec<Arc<Made<V>>>,
    pub(super) batch_counts: Counts,
    /// True if a thread does the jobs.
    pub(super) pumping: bool,
}

impl<V: Vendor> Ledger<V> {
    pub(crate) fn new(devices: usize, inbox: Arc<Inbox>) -> Self {
        Self {
            inbox,
            taken: Vec::new(),
            next: 0,
            entries: Slab::default(),
            keys: HashMap::default(),
            lanes: (0..devices).map(|_| Lane::default()).collect(),
            over: VecDeque::new(),
            handed: Vec::new(),
            handed_most: 64,
            room: 0,
            room_before: 0,
            unprepared: VecDeque::new(),
            batches: Batches::default(),
            unused: Vec::new(),
            batch_counts: Counts::default(),
            pumping: false,
        }
    }

    /// Makes room for so many devices.
    pub(crate) fn expect_devices(&mut self, count: usize) {
        if self.lanes.len() < count {
            self.lanes.resize_with(count, Lane::default);
        }
    }

    /// True if no command is held or away.
    pub(super) fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Takes over all commands that were submitted. False if there are none.
    pub(super) fn absorb(&mut self) -> bool {
        let mut taken = std::mem::take(&mut self.taken);
        self.inbox.take(&mut taken);
        let any = !taken.is_empty();
        for submitted in taken.drain(..) {
            self.add(submitted);
        }
        if taken.capacity() <= KEPT {
            self.taken = taken;
        }
        any
    }

    /// The same, without a lock where none are to be seen.
    pub(super) fn absorb_seen(&mut self) -> bool {
        self.inbox.has_any() && self.absorb()
    }

    /// The key of a command that was submitted, unless it is forgotten.
    fn key_of(&mut self, command: EventId) -> Option<Key> {
        if let Some(key) = self.keys.get(&command) {
            return Some(*key);
        }
        self.absorb_seen();
        self.keys.get(&command).copied()
    }

    /// Takes note of a command.
    fn add(&mut self, submitted: Submitted) {
        let Submitted {
            event,
            held,
            device,
            priority,
            waits: domain_waits,
            host_waits,
            facts:
                Facts {
                    executor,
                    fallible,
                    building,
                    batched,
                },
        } = submitted;
        let (key, number) = (self.entries.next_key(), self.next);
        self.next += 1;
        let mut waits: SmallVec<[Awaited; 2]> = SmallVec::new();
        for wait in &domain_waits {
            waits.push(self.note_wait(key, wait, executor));
        }
        self.keys.insert(event, key);
        let missing = waits.iter().filter(|wait| !wait.met).count();
        // Its waits may have been met: then it asks for its code as it goes.
        let building = building && (missing > 0 || host_waits > 0);
        let mut entry = Entry {
            event,
            held,
            device,
            executor,
            fallible,
            sure: false,
            missing,
            waits,
            host_waits,
            place: Place::Held,
            eligible: false,
            turn: (Reverse(priority), number, key),
            building,
            blocked: false,
            batch: None,
            place_in_batch: 0,
            is_counted: true,
            alone: false,
            signal: None,
            flight: None,
            line: 0,
            ended: None,
            seen_to: None,
            dependants: SmallVec::new(),
            command: None,
        };
        entry.blocked = self.is_blocked(&entry);
        let batched = batched.filter(|_| entry.blocked);
        self.entries.insert(entry);
        if let Some(takes) = batched {
            self.join_batch(key, takes);
        }
        if building {
            self.unprepared.push_back(key);
        }
        self.consider(key);
    }

    fn note_wait(&mut self, key: Key, wait: &DomainWait, executor: Executor) -> Awaited {
        let other_key = self.keys.get(&wait.event).copied();
        let other = other_key.and_then(|other| self.entries.get_mut(other));
        // Of one that is not known the core will say when it is resolved.
        let met = other.is_some_and(|other| {
            other.dependants.push(key);
            other.signal.is_some() && is_met_by(executor, wait.propagates, other.sure)
        });
        Awaited {
            event: wait.event,
            key: other_key,
            propagates: wait.propagates,
            met,
            resolved: false,
        }
    }

    /// One of a command's waits is resolved.
    pub(super) fn resolved(&mut self, command: EventId, event: EventId) {
        let Some(key) = self.key_of(command) else {
            return;
        };
        let Some(entry) = self.entries.get_mut(key) else {
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
        self.consider(key);
    }

    /// All of a command's waits are resolved: it is ours to finish.
    pub(super) fn ready(&mut self, command: Command, seen_to: SeenTo) -> Result<(), Command> {
        let Some(key) = self.key_of(command.id()) else {
            return Err(command);
        };
        let Some(entry) = self.entries.get_mut(key) else {
            return Err(command);
        };
        let refused = command.is_refused();
        entry.command = Some(command);
        entry.seen_to = seen_to;
        entry.host_waits = 0;
        entry.missing = 0;
        for wait in &mut entry.waits {
            wait.resolved = true;
            wait.met = true;
        }
        match entry.place {
            Place::Over => self.over.push_back(key),
            // While its code is compiled, a thread looks at it.
            Place::Held if refused && !entry.building => self.end(key, None),
            _ => self.consider(key),
        }
        Ok(())
    }

    /// Puts a command among those that are eligible, if it is.
    pub(super) fn consider(&mut self, key: Key) {
        let Some(entry) = self.entries.get_mut(key) else {
            return;
        };
        let needs_core =
            matches!(entry.executor, Executor::Host | Executor::DeviceWhenReady) || entry.alone;
        let is_eligible = entry.place == Place::Held
            && !entry.building
            && entry.missing == 0
            && entry.host_waits == 0
            && (entry.command.is_some() || !needs_core);
        if is_eligible && !std::mem::replace(&mut entry.eligible, true) {
            self.lanes[entry.device].eligible.push(Reverse(entry.turn));
        }
    }

    /// The device and body of a launch whose code is to be compiled.
    pub(super) fn of_launch(&self, key: Key) -> Option<(usize, CommandRef)> {
        let entry = self.entries.get(key)?;
        Some((entry.device, entry.held))
    }

    /// A launch is about to ask for its code.
    pub(super) fn expect_code(&mut self, key: Key) {
        if let Some(entry) = self.entries.get_mut(key) {
            entry.building = true;
        }
    }

    /// A launch is held until its code is compiled, which it may be by now.
    pub(super) fn hold_for_code(&mut self, key: Key) {
        if let Some(entry) = self.entries.get_mut(key) {
            entry.place = Place::Held;
        }
        self.consider_built(key);
    }

    /// A launch's code is compiled, or cannot be.
    pub(super) fn built(&mut self, key: Key) {
        if let Some(entry) = self.entries.get_mut(key) {
            entry.building = false;
        }
        self.consider_built(key);
    }

    fn consider_built(&mut self, key: Key) {
        let Some(entry) = self.entries.get(key) else {
            return;
        };
        let refused = entry
            .command
            .as_ref()
            .is_some_and(|command| command.is_refused());
        if refused && entry.place == Place::Held && !entry.building {
            self.end(key, None);
        } else {
            self.consider(key);
        }
    }

    /// The next command that is to be finished.
    pub(super) fn next_end(&mut self) -> Option<Job<V>> {
        loop {
            let key = self.over.pop_front()?;
            if let Some(arrival) = self.arrive(key) {
                return Some(Job::Finish(key, arrival));
            }
        }
    }

    /// True if something is to be done, as far as can be seen.
    pub(super) fn has_jobs(&self) -> bool {
        let may_leave =
            |lane: &Lane| !lane.starved && lane.away < V::CREDIT && !lane.eligible.is_empty();
        let mut lanes = self.lanes.iter();
        !self.over.is_empty()
            || !self.unprepared.is_empty()
            || lanes.any(|lane| lane.dirty || may_leave(lane))
    }

    /// True if there is nothing to do, not even ahead.
    pub(super) fn rests(&self) -> bool {
        !self.has_jobs() && !self.may_discard() && !self.has_gathering()
    }

    /// The next job; `ahead` if that may be one that only makes later ones faster.
    pub(super) fn next_job(&mut self, ahead: bool) -> Option<Job<V>> {
        loop {
            // Before ends, which take the host a while: the device is not to wait for that.
            if !self.batches.is_empty()
                && let Some(whole) = self.next_whole()
            {
                return Some(whole);
            }
            if let Some(end) = self.next_end() {
                return Some(end);
            }
            if let Some(key) = self.unprepared.pop_front() {
                return Some(Job::Prepare(key));
            }
            for device in 0..self.lanes.len() {
                while let Some(key) = self.next_eligible(device) {
                    let job = match self.forwarding_of(key) {
                        Forwarding::Alone => self.begin(key).map(|it| Job::Forward(key, it)),
                        Forwarding::Whole(batch) => self.begin_whole(batch).map(Job::ForwardWhole),
                        Forwarding::Later => None,
                    };
                    if job.is_some() {
                        return job;
                    }
                }
            }
            // A command that must not run has ended as it was to leave.
            if !self.over.is_empty() {
                continue;
            }
            if self.may_discard() {
                return Some(Job::Discard(std::mem::take(&mut self.unused)));
            }
            return if ahead { self.next_gathering() } else { None };
        }
    }

    /// A batch that may leave, if it is the turn of one of its commands.
    fn next_whole(&mut self) -> Option<Job<V>> {
        for device in 0..self.lanes.len() {
            if !self.has_batches(device) {
                continue;
            }
            while let Some(key) = self.first_eligible(device) {
                if !self.is_of_made(key) {
                    break;
                }
                let way = match self.next_eligible(device) {
                    Some(key) => self.forwarding_of(key),
                    None => break,
                };
                if let Forwarding::Whole(batch) = way
                    && let Some(whole) = self.begin_whole(batch)
                {
                    return Some(Job::ForwardWhole(whole));
                }
                // It was dissolved, and its commands are among the others.
            }
        }
        None
    }

    /// The command whose turn it is to be put on a device, which stays among those that are
    /// eligible.
    fn first_eligible(&mut self, device: usize) -> Option<Key> {
        loop {
            let lane = &mut self.lanes[device];
            if lane.starved || lane.away >= V::CREDIT {
                return None;
            }
            let Reverse((_, _, key)) = *lane.eligible.peek()?;
            if self.entries.get(key).is_some_and(|it| it.eligible) {
                return Some(key);
            }
            lane.eligible.pop();
        }
    }

    /// The command whose turn it is to be put on a device.
    fn next_eligible(&mut self, device: usize) -> Option<Key> {
        let lane = &mut self.lanes[device];
        while !lane.starved && lane.away < V::CREDIT {
            let Reverse((_, _, key)) = lane.eligible.pop()?;
            let entry = self.entries.get_mut(key);
            if entry.is_some_and(|entry| std::mem::take(&mut entry.eligible)) {
                return Some(key);
            }
        }
        None
    }

    /// The devices whose queues have to be flushed; they are taken to be, then.
    pub(super) fn take_dirty(&mut self) -> Vec<usize> {
        if !V::FLUSHES {
            return Vec::new();
        }
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
    pub(super) fn any_away(&self, device: usize) -> Option<CommandRef> {
        let mut entries = self.entries.iter();
        let any = entries.find(|(_, entry)| entry.is_on(device));
        any.map(|(_, entry)| entry.held)
    }
}

/// True if a wait for a command on its device holds a command back no longer.
pub(super) fn is_met_by(executor: Executor, propagates: bool, sure: bool) -> bool {
    match executor {
        Executor::Device => true,
        Executor::DeviceForUser | Executor::DeviceOnce => !propagates || sure,
        Executor::DeviceWhenReady | Executor::Host => false,
    }
}
