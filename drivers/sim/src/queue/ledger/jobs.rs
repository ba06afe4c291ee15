//! Jobs: the next work of the ledger, and its results.

use super::{Ledger, Place};
use crate::engine::{CommandId, Completion, KernelId, Notice, StatusSlot, Unit};
use quipu_scheduler::driver::CommandRef;
use quipu_scheduler::{Command, Error, EventId};

/// Something to do, with no lock held.
pub(crate) enum Job {
    /// Name kernels to a device.
    Prepare(usize, Vec<KernelId>),
    /// Set a command's gate.
    OpenGate(u64),
    /// Act on the machine's notice.
    Hear(Notice),
    /// Finish a command.
    Finish(u64),
    /// Upload a command.
    Upload(u64),
    /// Fail a command whose device is lost.
    Refuse(u64),
}

/// A command to be finished.
pub(crate) struct Ending {
    pub(crate) command: Command,
    pub(crate) error: Option<Error>,
    pub(crate) completion: Option<Completion>,
    pub(crate) offset: i64,
    pub(crate) unit: Unit,
    /// The time at which the host saw it end, on the process's clock.
    pub(crate) seen_ended: Option<u64>,
}

/// The fate of a command for which its device's memory has no room.
pub(crate) enum NoMemory {
    /// It waits: others will end and leave theirs.
    Wait,
    /// It waits until this one, which waits for the host, has come back.
    Recall(CommandId),
    /// Nothing will change by itself.
    Refuse,
}

impl Ledger {
    /// The next thing to do.
    pub(crate) fn next_job(&mut self) -> Option<Job> {
        if let Some((device, kernels)) = self.preparations.pop_front() {
            return Some(Job::Prepare(device, kernels));
        }
        if let Some(sequence) = self.gates.pop_front() {
            return Some(Job::OpenGate(sequence));
        }
        if let Some(sequence) = self.over.pop_front() {
            return Some(Job::Finish(sequence));
        }
        if let Some(notice) = self.notices.pop_front() {
            return Some(Job::Hear(notice));
        }
        for lane in &mut self.lanes {
            let space = &self.spaces[lane.space];
            if lane.lost {
                let turn = lane.free.pop_first().or_else(|| lane.gated.pop_first());
                if let Some((_, sequence)) = turn {
                    return Some(Job::Refuse(sequence));
                }
            }
            if space.starved || lane.full || lane.uploaded >= lane.slots {
                continue;
            }
            let mut turn = lane.free.pop_first();
            if turn.is_none() && lane.gated_uploaded < lane.gated_slots && !space.no_gates {
                turn = lane.gated.pop_first();
            }
            if let Some((_, sequence)) = turn {
                return Some(Job::Upload(sequence));
            }
        }
        None
    }

    /// The gate of a command, if it is to be set now; that is then noted as done.
    pub(crate) fn take_gate(&mut self, sequence: u64) -> Option<(StatusSlot, EventId)> {
        let entry = self.entries.get_mut(&sequence)?;
        let (gate, event) = (entry.gate?, entry.event);
        let due = entry.host_waits == 0
            && matches!(entry.place, Place::Uploaded(_))
            && !std::mem::replace(&mut entry.gate_is_set, true);
        if !due {
            return None;
        }
        self.ungate(sequence);
        Some((gate, event))
    }

    /// A command waits for the host no longer, and so may those be that wait for it.
    fn ungate(&mut self, sequence: u64) {
        let mut freed = vec![sequence];
        while let Some(sequence) = freed.pop() {
            if self.waits_for_host(sequence) {
                continue;
            }
            let Some(entry) = self.entries.get_mut(&sequence) else {
                continue;
            };
            match entry.place {
                Place::Held => self.consider(sequence),
                Place::Uploaded(_) if entry.gated => {
                    entry.gated = false;
                    self.lanes[entry.device].gated_uploaded -= 1;
                    freed.extend(&entry.dependants);
                    self.note_moving(sequence);
                }
                _ => {}
            }
        }
    }

    fn ungate_dependants(&mut self, sequence: u64) {
        let Some(entry) = self.entries.get(&sequence) else {
            return;
        };
        for dependant in entry.dependants.clone() {
            self.ungate(dependant);
        }
    }

    /// A command is on the machine and ends without the host's doing.
    fn note_moving(&mut self, sequence: u64) {
        let Some(entry) = self.entries.get_mut(&sequence) else {
            return;
        };
        entry.moves = true;
        self.spaces[self.lanes[entry.device].space].moving += 1;
        if !entry.reported {
            self.reports_to_come += 1;
        }
    }

    /// A command has come back, and ends by the host's doing.
    pub(super) fn note_back(&mut self, sequence: u64) {
        self.note_still(sequence);
        let mut back = vec![sequence];
        while let Some(sequence) = back.pop() {
            let Some(entry) = self.entries.get(&sequence) else {
                continue;
            };
            for dependant in entry.dependants.clone() {
                let Some(entry) = self.entries.get_mut(&dependant) else {
                    continue;
                };
                let lane = &mut self.lanes[entry.device];
                if lane.free.remove(&entry.turn) {
                    self.consider(dependant);
                } else if matches!(entry.place, Place::Uploaded(_)) && !entry.gated {
                    lane.gated_uploaded += 1;
                    self.note_still(dependant);
                    back.push(dependant);
                }
            }
        }
    }

    /// The reverse of [`note_moving`](Self::note_moving).
    fn note_still(&mut self, sequence: u64) {
        let Some(entry) = self.entries.get_mut(&sequence) else {
            return;
        };
        entry.gated = true;
        if std::mem::replace(&mut entry.moves, false) {
            self.spaces[self.lanes[entry.device].space].moving -= 1;
            if !entry.reported {
                self.reports_to_come -= 1;
            }
        }
    }

    /// Puts a command among those that are eligible, if it is.
    pub(crate) fn consider(&mut self, sequence: u64) {
        let Some(entry) = self.entries.get(&sequence) else {
            return;
        };
        if entry.place != Place::Held || !entry.flushed || entry.missing > 0 {
            return;
        }
        let gated = self.waits_for_host(sequence);
        let lane = &mut self.lanes[entry.device];
        if gated && entry.lacks_memory {
            // Tried again when it moves by itself.
        } else if gated {
            lane.gated.insert(entry.turn);
        } else {
            lane.gated.remove(&entry.turn);
            lane.free.insert(entry.turn);
        }
    }

    /// True if a command needs the host to start.
    pub(crate) fn waits_for_host(&self, sequence: u64) -> bool {
        self.entries.get(&sequence).is_some_and(|entry| {
            entry.host_waits > 0
                || entry
                    .waits
                    .iter()
                    .any(|wait| self.of_event(wait.event).is_some_and(|other| other.gated))
        })
    }

    /// True if a command needs a gate of its own.
    pub(crate) fn needs_gate(&self, sequence: u64) -> bool {
        self.entries
            .get(&sequence)
            .is_some_and(|entry| entry.host_waits > 0)
    }

    /// A wait of a command holds it back no longer.
    pub(super) fn meet(&mut self, sequence: u64, event: EventId) {
        let Some(entry) = self.entries.get_mut(&sequence) else {
            return;
        };
        for wait in &mut entry.waits {
            if wait.event == event && !std::mem::replace(&mut wait.met, true) {
                entry.missing = entry.missing.saturating_sub(1);
            }
        }
        self.consider(sequence);
    }

    /// True if a command fails with this event, because it waits for it.
    fn is_failed_by(&self, sequence: u64, event: EventId) -> bool {
        self.entries.get(&sequence).is_some_and(|entry| {
            let mut waits = entry.waits.iter();
            waits.any(|wait| wait.event == event && wait.propagates)
        })
    }

    /// Notes that a wait of a command has failed and is gone. The command stays until the core has
    /// marked it as not to be run, which may be about to happen.
    fn unmeet(&mut self, sequence: u64, event: EventId) {
        let Some(entry) = self.entries.get_mut(&sequence) else {
            return;
        };
        for wait in &mut entry.waits {
            if wait.event == event && !wait.resolved && std::mem::replace(&mut wait.met, false) {
                entry.missing += 1;
            }
        }
        if entry.missing > 0 {
            let lane = &mut self.lanes[entry.device];
            lane.free.remove(&entry.turn);
            lane.gated.remove(&entry.turn);
        }
        // It may be free of its gate now.
        self.consider(sequence);
    }

    pub(super) fn forget_expected(&mut self, event: EventId, sequence: u64) {
        if let Some(list) = self.expected.get_mut(&event) {
            list.retain(|other| *other != sequence);
            if list.is_empty() {
                self.expected.remove(&event);
            }
        }
    }

    /// Begins to upload a command. Gives the parts that the upload needs, unless the command has
    /// ended instead.
    pub(crate) fn begin_upload(&mut self, sequence: u64) -> Option<(CommandRef, Option<KernelId>)> {
        let entry = self.entries.get_mut(&sequence)?;
        if entry.place != Place::Held {
            return None;
        }
        if entry.event.is_refused() {
            // It will not run: it ends here, once it is ours.
            if entry.command.is_some() {
                self.end(sequence);
            }
            return None;
        }
        entry.place = Place::Uploading;
        self.uploading = Some(sequence);
        Some((entry.held, entry.kernel))
    }

    /// A command is uploaded.
    pub(crate) fn uploaded(&mut self, sequence: u64, id: CommandId, gated: bool) {
        let Some(entry) = self.entries.get_mut(&sequence) else {
            return;
        };
        entry.place = Place::Uploaded(id);
        entry.reported = false;
        let was_gated = std::mem::replace(&mut entry.gated, gated);
        let has_gate = entry.gate.is_some();
        let signalled = entry.signal.map(|_| entry.event);
        let lane = &mut self.lanes[entry.device];
        lane.uploaded += 1;
        if gated {
            lane.gated_uploaded += 1;
        } else {
            self.note_moving(sequence);
        }
        if has_gate {
            // Its last wait may have been resolved meanwhile.
            self.gates.push_back(sequence);
        }
        if let Some(event) = signalled {
            let dependants = self
                .entries
                .get(&sequence)
                .map_or_else(Vec::new, |entry| entry.dependants.clone());
            for dependant in dependants {
                self.meet(dependant, event);
            }
        }
        if was_gated && !gated {
            // It had been recalled; the commands that wait for it on the machine move by themselves
            // now.
            self.ungate_dependants(sequence);
        }
    }

    /// A command was not uploaded, because its device had no slot after all.
    pub(crate) fn no_slot(&mut self, sequence: u64) {
        if let Some(device) = self.hold_again(sequence) {
            self.lanes[device].full = true;
        }
    }

    /// A command was not uploaded, because there was no status slot for its gate.
    pub(crate) fn no_gate(&mut self, sequence: u64) {
        if let Some(device) = self.hold_again(sequence) {
            let space = self.lanes[device].space;
            self.spaces[space].no_gates = true;
        }
    }

    /// A command was not uploaded, because its device's memory has no room.
    pub(crate) fn no_memory(&mut self, sequence: u64) -> NoMemory {
        let gated = self.waits_for_host(sequence);
        let Some(entry) = self.entries.get_mut(&sequence) else {
            return NoMemory::Refuse;
        };
        let space = self.lanes[entry.device].space;
        let mut answer = NoMemory::Wait;
        if gated {
            entry.lacks_memory = true;
        } else {
            if self.spaces[space].moving == 0 {
                let Some(last) = self.last_gated(space) else {
                    return NoMemory::Refuse;
                };
                answer = NoMemory::Recall(last);
            }
            self.spaces[space].starved = true;
        }
        self.hold_again(sequence);
        answer
    }

    /// The last of the commands that keep memory of a space on the machine while they wait for the
    /// host. It is not uploaded again before it has waited: it may wait for the very command that
    /// lacks the memory.
    fn last_gated(&mut self, space: usize) -> Option<CommandId> {
        let lanes = &self.lanes;
        let gated = self.entries.values_mut().filter_map(|entry| {
            let Place::Uploaded(id) = entry.place else {
                return None;
            };
            (entry.gated && lanes[entry.device].space == space).then_some((id, entry))
        });
        let (id, entry) = gated.max_by_key(|(_, entry)| entry.turn)?;
        entry.lacks_memory = true;
        Some(id)
    }

    /// Puts a command back that was to be uploaded.
    pub(crate) fn hold_again(&mut self, sequence: u64) -> Option<usize> {
        let entry = self.entries.get_mut(&sequence)?;
        entry.place = Place::Held;
        let device = entry.device;
        self.consider(sequence);
        Some(device)
    }

    /// A command ends without having been uploaded.
    pub(crate) fn refuse(&mut self, sequence: u64, error: Error) {
        if let Some(entry) = self.entries.get_mut(&sequence) {
            entry.error = Some(error);
            self.end(sequence);
        }
    }

    /// A command is over, and finished as soon as it is ours.
    pub(super) fn end(&mut self, sequence: u64) {
        let Some(entry) = self.entries.get_mut(&sequence) else {
            return;
        };
        let lane = &mut self.lanes[entry.device];
        lane.free.remove(&entry.turn);
        lane.gated.remove(&entry.turn);
        entry.place = Place::Over;
        let (is_ours, has_ended) = (entry.command.is_some(), entry.completion.is_some());
        if is_ours {
            self.over.push_back(sequence);
        }
        if is_ours || has_ended {
            self.let_go(sequence);
        }
    }

    /// Ungates the commands that wait on the machine for a command that is over, although that one
    /// may never have come to its gate: its status is set, or is as soon as it is finished.
    pub(super) fn let_go(&mut self, sequence: u64) {
        if let Some(entry) = self.entries.get_mut(&sequence)
            && std::mem::replace(&mut entry.gated, false)
        {
            self.ungate_dependants(sequence);
        }
    }

    /// Takes the parts that the finish of a command needs.
    pub(crate) fn take_ending(&mut self, sequence: u64) -> Option<Ending> {
        let entry = self.entries.get_mut(&sequence)?;
        Some(Ending {
            command: entry.command.take()?,
            error: entry.error.take(),
            completion: entry.completion.take(),
            offset: entry.offset,
            unit: entry.unit,
            seen_ended: entry.seen_ended,
        })
    }

    /// Forgets a command that is finished; its status slots are to be released.
    pub(crate) fn forget(&mut self, sequence: u64, succeeded: bool) -> [Option<StatusSlot>; 2] {
        let Some(entry) = self.entries.remove(&sequence) else {
            return [None; 2];
        };
        self.sequences.remove(&entry.event);
        let space = &mut self.spaces[self.lanes[entry.device].space];
        space.starved = false;
        space.no_gates = false;
        if entry.moves {
            space.moving -= 1;
        }
        for dependant in entry.dependants {
            if succeeded || !self.is_failed_by(dependant, entry.event) {
                self.meet(dependant, entry.event);
            } else {
                self.unmeet(dependant, entry.event);
            }
        }
        [entry.signal, entry.gate]
    }
}
