//! The ledger: the record of each command that the driver was told of and that is not over. It has
//! the command's waits, its place, and the jobs to be done next. Bookkeeping only: nothing here
//! calls the core, and nothing blocks.
//!
//! # The place of a command
//!
//! ```text
//!  Held ──(eligible, credit)──▶ Uploading ──▶ Uploaded ──(reported)──▶ Over ──(Ready)──▶ finished, forgotten
//!    └────────(refused, or its device is lost)──────────────────────────▲
//! ```
//!
//! # Uploads
//!
//! 1. A command is *eligible* once it is flushed and each of its waits within the domain is *met*:
//!    that command has a status slot on the machine to wait for, or is over. (Kernels are held
//!    until the flush, so that one image serves them all; the rest is forwarded as soon as
//!    possible.) So nothing on the machine ever waits for a command still here.
//! 2. A wait for a command that has failed is met only when the core has said so
//!    ([`Ledger::resolved`], or the command is ready): by then the core has marked this one as not
//!    to be run. One that was met before, because the command was on the machine, is so no longer
//!    when that is forgotten: there is no slot left to wait for.
//! 3. An eligible command is *gated* if it waits for the host (its other waits are not resolved),
//!    or for a gated one. Each device keeps slots that gated commands do not take: those that wait
//!    for nothing outside the machine always move. When a gate opens, its command is gated no
//!    longer, nor are commands that waited for nothing else.
//! 4. One that must not run (cancelled, or poisoned) stays here, and ends when it is ready. A gate
//!    that opens for one that is on the machine already says so.
//! 5. Eligible commands are uploaded by priority, then in enqueue order, as far as their device has
//!    slots.
//!
//! A command whose memory cannot be had waits while others of that space move: their ends free
//! memory. A gated one waits in any case, until it is gated no longer.
//!
//! # Commands that come back
//!
//! A command that was recalled may have dependants on the machine. They are gated until it is
//! uploaded again, whatever its own waits are: they give way if it lacks memory for that. If it
//! ends here instead, the host sets its status.

mod jobs;

use crate::engine::{CommandId, Completion, Configuration, KernelId, Notice, StatusSlot, Unit};
use crate::program::Kernels;
use quipu_scheduler::driver::{CommandRef, DomainWait, Submission};
use quipu_scheduler::hash::NumberHash;
use quipu_scheduler::{Command, Error, EventId, Priority};
use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};

pub(crate) use jobs::{Ending, Job, NoMemory};

type Map<K, V> = HashMap<K, V, NumberHash>;

/// A wait within the domain.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Awaited {
    pub(crate) event: EventId,
    pub(crate) propagates: bool,
    /// True if it holds the command back no longer.
    met: bool,
    /// True if the core has said that it is resolved.
    resolved: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    Held,
    Uploading,
    Uploaded(CommandId),
    Over,
}

pub(crate) struct Entry {
    pub(crate) event: EventId,
    pub(crate) held: CommandRef,
    pub(crate) device: usize,
    pub(crate) kernel: Option<KernelId>,
    pub(crate) waits: Vec<Awaited>,
    pub(crate) place: Place,
    /// The status that it sets on the machine as it ends.
    pub(crate) signal: Option<StatusSlot>,
    /// The status that the host sets when its other waits are resolved.
    pub(crate) gate: Option<StatusSlot>,
    /// The process's clock less the machine's, as it started.
    pub(crate) offset: i64,
    pub(crate) unit: Unit,
    turn: Turn,
    flushed: bool,
    missing: usize,
    host_waits: u32,
    gate_is_set: bool,
    /// True if it is on the machine and waits for the host, or was recalled from there: so do its
    /// dependants there.
    gated: bool,
    /// True if it counts among those that move by themselves.
    moves: bool,
    /// True if the machine has said that it is over, or back.
    reported: bool,
    /// True if its memory could not be had while it was gated.
    lacks_memory: bool,
    /// The commands that wait for it, and have not been uploaded when they were noted.
    dependants: Vec<u64>,
    command: Option<Command>,
    error: Option<Error>,
    completion: Option<Completion>,
    /// The time at which the host saw it end, on the process's clock.
    seen_ended: Option<u64>,
}

/// A command's turn: urgent ones first, then in enqueue order.
pub(crate) type Turn = (std::cmp::Reverse<Priority>, u64);

/// A device, as far as uploads go.
#[derive(Debug)]
struct Lane {
    space: usize,
    lost: bool,
    slots: usize,
    /// The number of slots that gated commands may take.
    gated_slots: usize,
    uploaded: usize,
    gated_uploaded: usize,
    /// The machine has refused an upload for want of a slot: somebody else uploads too.
    full: bool,
    free: BTreeSet<Turn>,
    gated: BTreeSet<Turn>,
}

/// A memory space, as far as uploads go.
#[derive(Clone, Debug, Default)]
struct Space {
    /// Commands uploaded ungated and not yet finished: they end without the host's doing.
    moving: usize,
    /// A command waits for memory.
    starved: bool,
    /// True if there was no status slot for a gate.
    no_gates: bool,
}

/// See the module.
#[derive(Default)]
pub(crate) struct Ledger {
    next: u64,
    entries: Map<u64, Entry>,
    sequences: Map<EventId, u64>,
    /// Commands that wait for one that was not submitted yet, or is over.
    expected: Map<EventId, Vec<u64>>,
    lanes: Vec<Lane>,
    spaces: Vec<Space>,
    kernels: Kernels,
    /// Kernels that are held, and the numbers of their contexts.
    unflushed: Vec<(u64, u32)>,
    preparations: VecDeque<(usize, Vec<KernelId>)>,
    gates: VecDeque<u64>,
    notices: VecDeque<Notice>,
    over: VecDeque<u64>,
    /// The command that is being uploaded.
    pub(super) uploading: Option<u64>,
    /// Uploaded ungated commands whose end the machine has not reported.
    pub(crate) reports_to_come: usize,
    /// True if a thread does the jobs.
    pub(crate) pumping: bool,
    /// Counts the times that a thread began to.
    pub(crate) pumps: u64,
    /// The process's clock less the machine's; never decreases.
    pub(crate) offset: i64,
}

impl Ledger {
    pub(crate) fn new(configuration: &Configuration) -> Self {
        let lanes = configuration.devices.iter().map(|device| Lane {
            space: usize::from(device.space.0),
            lost: false,
            slots: device.slots,
            gated_slots: device.slots - (device.slots / 4).max(1),
            uploaded: 0,
            gated_uploaded: 0,
            full: false,
            free: BTreeSet::new(),
            gated: BTreeSet::new(),
        });
        Self {
            lanes: lanes.collect(),
            spaces: vec![Space::default(); configuration.spaces.len()],
            offset: i64::MIN,
            ..Self::default()
        }
    }

    pub(crate) fn entry(&self, sequence: u64) -> Option<&Entry> {
        self.entries.get(&sequence)
    }

    pub(crate) fn entry_mut(&mut self, sequence: u64) -> Option<&mut Entry> {
        self.entries.get_mut(&sequence)
    }

    /// The command that is being uploaded.
    pub(crate) fn uploading(&self) -> Option<CommandRef> {
        let entry = self.entries.get(&self.uploading?)?;
        (entry.place == Place::Uploading).then_some(entry.held)
    }

    pub(crate) fn of_event(&self, event: EventId) -> Option<&Entry> {
        self.entries.get(self.sequences.get(&event)?)
    }

    /// True if nothing is to be done.
    pub(crate) fn is_quiet(&self) -> bool {
        !self.pumping
            && self.preparations.is_empty()
            && self.gates.is_empty()
            && self.notices.is_empty()
            && self.over.is_empty()
    }

    /// Takes note of a command.
    pub(crate) fn submit(&mut self, submission: &Submission<'_>) {
        let sequence = self.next;
        self.next += 1;
        // SAFETY: a submitted command is not finished before its driver does so, and that needs
        // this note.
        let kernel = unsafe { submission.command.with(|command| self.kernels.of(command)) };
        let entry = Entry {
            event: submission.id,
            held: submission.command,
            device: submission.queue.device_index(),
            kernel,
            waits: Vec::new(),
            place: Place::Held,
            signal: None,
            gate: None,
            offset: 0,
            unit: Unit::Immediate,
            turn: (std::cmp::Reverse(submission.queue.priority()), sequence),
            flushed: kernel.is_none(),
            missing: 0,
            host_waits: submission.host_waits,
            gate_is_set: false,
            gated: false,
            moves: false,
            reported: false,
            lacks_memory: false,
            dependants: self.expected.remove(&submission.id).unwrap_or_default(),
            command: None,
            error: None,
            completion: None,
            seen_ended: None,
        };
        if kernel.is_some() {
            let context = submission.queue.context_number();
            self.unflushed.push((sequence, context));
        }
        self.sequences.insert(submission.id, sequence);
        self.entries.insert(sequence, entry);
        let waits: Vec<_> = submission
            .domain_waits
            .iter()
            .map(|wait| self.note_wait(sequence, *wait))
            .collect();
        if let Some(entry) = self.entries.get_mut(&sequence) {
            entry.missing = waits.iter().filter(|wait| !wait.met).count();
            entry.waits = waits;
        }
        self.consider(sequence);
    }

    fn note_wait(&mut self, sequence: u64, wait: DomainWait) -> Awaited {
        let awaited = self
            .sequences
            .get(&wait.event)
            .and_then(|other| self.entries.get_mut(other));
        let met = match awaited {
            Some(other) => {
                other.dependants.push(sequence);
                other.signal.is_some() && other.place != Place::Held
            }
            None => {
                self.expected.entry(wait.event).or_default().push(sequence);
                false
            }
        };
        Awaited {
            event: wait.event,
            propagates: wait.propagates,
            met,
            resolved: false,
        }
    }

    /// One of a command's waits is resolved, and the command marked if that means that it must not
    /// run.
    pub(crate) fn resolved(&mut self, command: EventId, event: EventId) {
        let Some(sequence) = self.sequences.get(&command).copied() else {
            return;
        };
        let Some(entry) = self.entries.get_mut(&sequence) else {
            return;
        };
        let mut in_domain = false;
        for wait in entry.waits.iter_mut().filter(|wait| wait.event == event) {
            wait.resolved = true;
            in_domain = true;
        }
        if in_domain {
            self.forget_expected(event, sequence);
            self.meet(sequence, event);
        } else {
            entry.host_waits = entry.host_waits.saturating_sub(1);
            if entry.host_waits == 0 {
                self.gates.push_back(sequence);
                self.consider(sequence);
            }
        }
    }

    /// All of a command's waits are resolved: it is ours to finish.
    pub(crate) fn ready(&mut self, command: Command) -> Result<(), Command> {
        let event = command.id();
        let Some(sequence) = self.sequences.get(&event).copied() else {
            return Err(command);
        };
        let Some(entry) = self.entries.get_mut(&sequence) else {
            return Err(command);
        };
        let refused = command.is_refused();
        entry.command = Some(command);
        entry.host_waits = 0;
        entry.missing = 0;
        let mut unmet = Vec::new();
        for wait in &mut entry.waits {
            wait.resolved = true;
            if !std::mem::replace(&mut wait.met, true) {
                unmet.push(wait.event);
            }
        }
        let is_finished = entry.place == Place::Over;
        match entry.place {
            Place::Over => self.over.push_back(sequence),
            Place::Held if refused => self.end(sequence),
            _ => self.gates.push_back(sequence),
        }
        for event in unmet {
            self.forget_expected(event, sequence);
        }
        if is_finished {
            self.let_go(sequence);
        }
        self.consider(sequence);
        Ok(())
    }

    /// Lets go of a context's kernels that were held. The distinct ones of each device are named
    /// together.
    pub(crate) fn flush(&mut self, context: u32) {
        let mut named: BTreeMap<usize, Vec<KernelId>> = BTreeMap::new();
        let flushed = self.unflushed.extract_if(.., |(_, of)| *of == context);
        for (sequence, _) in flushed.collect::<Vec<_>>() {
            let Some(entry) = self.entries.get_mut(&sequence) else {
                continue;
            };
            entry.flushed = true;
            let kernels = named.entry(entry.device).or_default();
            if let Some(kernel) = entry.kernel
                && !kernels.contains(&kernel)
            {
                kernels.push(kernel);
            }
            self.consider(sequence);
        }
        self.preparations.extend(named);
    }

    /// Takes note of a notice of the machine, to be acted on later.
    pub(crate) fn hear(&mut self, notice: Notice) {
        let tag = match &notice {
            Notice::Completed(completion) => Some(completion.tag),
            Notice::Recalled { command, .. } => Some(command.tag),
            _ => None,
        };
        if let Some(entry) = tag.and_then(|tag| self.entries.get_mut(&tag)) {
            entry.reported = true;
            if entry.moves {
                self.reports_to_come -= 1;
            }
        }
        self.notices.push_back(notice);
    }

    /// A command has ended on the machine.
    pub(crate) fn completed(&mut self, completion: Completion) {
        let sequence = completion.tag;
        let Some(entry) = self.entries.get_mut(&sequence) else {
            return;
        };
        entry.completion = Some(completion);
        self.leave_slot(sequence);
        self.end(sequence);
    }

    /// A command came back unrun: its memory was needed, or the user of the machine asked for it.
    pub(crate) fn recalled(&mut self, sequence: u64) {
        let Some(entry) = self.entries.get_mut(&sequence) else {
            return;
        };
        entry.place = Place::Held;
        let space = self.lanes[entry.device].space;
        self.spaces[space].starved = false;
        self.leave_slot(sequence);
        self.note_back(sequence);
        self.consider(sequence);
    }

    fn leave_slot(&mut self, sequence: u64) {
        let Some(entry) = self.entries.get(&sequence) else {
            return;
        };
        let lane = &mut self.lanes[entry.device];
        lane.uploaded -= 1;
        lane.full = false;
        if entry.gated {
            lane.gated_uploaded -= 1;
        }
    }

    /// A device has free slots again, though others than the driver took them.
    pub(crate) fn slots_free(&mut self, device: usize) {
        self.lanes[device].full = false;
    }

    /// A space has free status slots again.
    pub(crate) fn status_slots_free(&mut self, space: usize) {
        self.spaces[space].no_gates = false;
    }

    /// A device is lost: its commands here are refused in their turn.
    pub(crate) fn lose(&mut self, device: usize) {
        self.lanes[device].lost = true;
    }

    /// The commands of a device.
    pub(crate) fn held_by(&self, device: usize) -> Vec<CommandRef> {
        self.entries
            .values()
            .filter(|entry| entry.device == device)
            .map(|entry| entry.held)
            .collect()
    }

    /// A command starts now; gives the process's clock less the machine's, by which its times are
    /// mapped.
    pub(crate) fn note_start(&mut self, sequence: u64) -> i64 {
        let offset = self.offset;
        if let Some(entry) = self.entries.get_mut(&sequence) {
            entry.offset = offset;
        }
        offset
    }

    /// Keeps the moment at which a command ended, if none is kept yet.
    pub(crate) fn keep_end(&mut self, sequence: u64, time: u64) {
        if let Some(entry) = self.entries.get_mut(&sequence) {
            entry.seen_ended.get_or_insert(time);
        }
    }

    /// Keeps the error that an effect ends with.
    pub(crate) fn keep_error(&mut self, sequence: u64, error: Error) {
        if let Some(entry) = self.entries.get_mut(&sequence) {
            entry.error = Some(error);
        }
    }
}
