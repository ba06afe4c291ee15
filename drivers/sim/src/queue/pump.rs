//! Doing the ledger's jobs: uploads, gates, ends.
//!
//! One thread at a time *pumps*. A thread that gives the ledger a job pumps, unless another one
//! does: then that thread will see the job. So nothing recurses (an end that makes a command ready
//! only notes that), and the core is called with no lock held.
//!
//! With a machine that has a thread, a host thread does not pump for ever: after a while it leaves
//! the rest to the machine's next report, if one is sure to come.

use super::Inside;
use super::ledger::{Ending, Job, NoMemory};
use crate::Shared;
use crate::engine::{
    self, DeviceId, Failure, HostError, Mode, Nanoseconds, Notice, Outcome, RefusalReason, Status,
    StatusSlot, Unit, Wait,
};
use crate::error::{LOST, lost, of_device, of_failure};
use crate::program::{Plan, Started};
use quipu_scheduler::command::{ToDrivers, slab};
use quipu_scheduler::driver::CommandRef;
use quipu_scheduler::error::{ErrorKind, Result};
use quipu_scheduler::panics::quietly;
use quipu_scheduler::{Command, Context, Device};
use std::sync::Arc;

/// The thread that pumps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Caller {
    /// Any thread, from a call of the core.
    Host,
    /// The thread that steps the machine.
    Machine,
}

/// The number of jobs that a host thread does while the machine's thread could.
const HOST_JOBS: u32 = 256;

/// A time of the machine on the process's clock, which is never zero. To be cut off at the present
/// time of the host's clock.
pub(crate) fn on_process_clock(time: Nanoseconds, offset: i64) -> u64 {
    time.saturating_add_signed(offset).max(1)
}

/// Gives up pumping if a job unwinds.
struct Pumping<'a> {
    shared: &'a Shared,
    is_given_up: bool,
}

impl Drop for Pumping<'_> {
    fn drop(&mut self) {
        if !self.is_given_up {
            self.shared.ledger().pumping = false;
        }
    }
}

impl Shared {
    /// Takes a notice of the machine.
    pub(crate) fn hear(self: &Arc<Self>, notice: Notice) {
        let mut ledger = self.ledger();
        if let Notice::Completed(completion) = &notice {
            ledger.keep_end(completion.tag, quipu_scheduler::clock::now_ns());
        }
        ledger.hear(notice);
        drop(ledger);
        self.pump(Caller::Machine);
    }

    /// Does the jobs, unless another thread does.
    pub(super) fn pump(self: &Arc<Self>, caller: Caller) {
        {
            let mut ledger = self.ledger();
            if ledger.pumping {
                return;
            }
            ledger.pumping = true;
            ledger.pumps += 1;
        }
        let _inside = Inside::enter(self.machine.mode());
        let mut pumping = Pumping {
            shared: self,
            is_given_up: false,
        };
        let limited = caller == Caller::Host && self.machine.mode() == Mode::Threaded;
        let mut jobs = 0;
        loop {
            let job = {
                let mut ledger = self.ledger();
                let others = limited && jobs >= HOST_JOBS && ledger.reports_to_come > 0;
                let job = if others { None } else { ledger.next_job() };
                let Some(job) = job else {
                    ledger.pumping = false;
                    pumping.is_given_up = true;
                    drop(ledger);
                    if caller == Caller::Machine {
                        // It may sleep now, and others want the slots that it has freed.
                        slab::flush();
                    }
                    return;
                };
                job
            };
            self.perform(job);
            jobs += 1;
        }
    }

    fn perform(self: &Arc<Self>, job: Job) {
        match job {
            Job::Prepare(device, kernels) => {
                if let Some(id) = self.device_id(device) {
                    // A lost device needs none: its commands are refused.
                    let _ = self.machine.prepare_kernels(id, &kernels);
                }
            }
            Job::OpenGate(sequence) => self.open_gate(sequence),
            Job::Hear(notice) => self.act_on(notice),
            Job::Finish(sequence) => self.finish(sequence),
            Job::Upload(sequence) => self.upload(sequence),
            Job::Refuse(sequence) => self.refuse_lost(sequence),
        }
    }

    /// Lets the device know that a command's waits outside the machine are over.
    fn open_gate(&self, sequence: u64) {
        let Some((gate, event)) = self.ledger().take_gate(sequence) else {
            return;
        };
        let status = if event.is_refused() {
            must_not_run("something that it needs outside the machine failed")
        } else {
            Status::Complete
        };
        self.set_status(gate, status);
    }

    fn set_status(&self, slot: StatusSlot, status: Status) {
        if let Err(error) = self.machine.set_status(slot, status) {
            quietly(
                || tracing::error!(%slot, %error, "a status slot of the simulated machine was not set"),
            );
        }
    }

    fn act_on(&self, notice: Notice) {
        match notice {
            Notice::Completed(completion) => self.ledger().completed(completion),
            Notice::Recalled { command, .. } => self.ledger().recalled(command.tag),
            Notice::SlotsFree { device, .. } => self.ledger().slots_free(usize::from(device.0)),
            Notice::StatusSlotsFree { space } => {
                self.ledger().status_slots_free(usize::from(space.0));
            }
            Notice::DeviceLost {
                device,
                memory_lost,
            } => {
                let held = self.ledger().held_by(usize::from(device.0));
                for held in held {
                    lose(held, memory_lost);
                }
                self.ledger().lose(usize::from(device.0));
            }
        }
    }

    /// Fails a command whose device is lost.
    fn refuse_lost(&self, sequence: u64) {
        let (held, device) = match self.ledger().entry(sequence) {
            Some(entry) => (entry.held, entry.device),
            None => return,
        };
        lose(held, self.is_memory_lost(device));
        self.ledger().refuse(sequence, lost(device));
    }

    fn is_memory_lost(&self, device: usize) -> bool {
        let space = self.configuration.devices[device].space;
        self.machine
            .with(|simulation| simulation.memory(space))
            .is_none_or(|memory| memory.lost)
    }

    fn upload(self: &Arc<Self>, sequence: u64) {
        let Some((held, kernel)) = self.ledger().begin_upload(sequence) else {
            return;
        };
        // SAFETY: only this thread finishes commands, and it does not now.
        let plan = unsafe {
            held.with(|command| {
                let plan = Plan::of(command, kernel);
                command.submitted();
                plan
            })
        };
        match plan {
            Ok(plan) => self.upload_planned(sequence, held, plan),
            Err(error) => {
                let mut ledger = self.ledger();
                let answer = match error.kind() {
                    ErrorKind::OutOfMemory { .. } => ledger.no_memory(sequence),
                    _ => NoMemory::Refuse,
                };
                match answer {
                    NoMemory::Wait => {}
                    // If it is over by now, the machine's report of that is on its way.
                    NoMemory::Recall(command) => drop(self.machine.recall(command)),
                    NoMemory::Refuse => ledger.refuse(sequence, error),
                }
            }
        }
    }

    fn upload_planned(self: &Arc<Self>, sequence: u64, held: CommandRef, plan: Plan) {
        // Held to the end: nobody may hear of the command's end before the ledger has heard of its
        // upload.
        let mut ledger = self.ledger();
        let gated = ledger.waits_for_host(sequence);
        let needs_gate = ledger.needs_gate(sequence);
        let Some(entry) = ledger.entry(sequence) else {
            return;
        };
        let (device, signal, gate) = (entry.device, entry.signal, entry.gate);
        let Some(id) = self.device_id(device) else {
            return ledger.refuse(
                sequence,
                of_device(device, "run a command", &"no such device"),
            );
        };
        let mut waits: Vec<Wait> = entry
            .waits
            .iter()
            .filter_map(|wait| {
                let slot = ledger.of_event(wait.event)?.signal?;
                Some(if wait.propagates {
                    Wait::needs(slot)
                } else {
                    Wait::after(slot)
                })
            })
            .collect();
        let space = self.configuration.devices[device].space;
        let reserve = || self.machine.reserve_status(space).ok();
        let (gate, unneeded) = if needs_gate {
            (gate.or_else(reserve), None)
        } else {
            // Reserved for an upload that was refused; the host's waits are resolved since.
            (None, gate)
        };
        self.release([unneeded, None]);
        if needs_gate && gate.is_none() {
            return ledger.no_gate(sequence);
        }
        waits.extend(gate.map(Wait::needs));
        // Without a slot to signal, its dependants stay here until it is over.
        let signal = signal.or_else(reserve);
        let now = self.machine.with(|simulation| simulation.now());
        let ahead = i64::try_from(quipu_scheduler::clock::now_ns()).unwrap_or(i64::MAX);
        ledger.offset = ledger.offset.max(ahead.saturating_sub_unsigned(now));
        if let Some(entry) = ledger.entry_mut(sequence) {
            entry.signal = signal;
            entry.gate = gate;
            entry.unit = plan.unit;
        }
        let started = Started {
            shared: Arc::downgrade(self),
            sequence,
            held,
            device,
            accesses: plan.accesses.clone(),
        };
        let command = engine::Command {
            device: id,
            tag: sequence,
            kind: plan.kind,
            unit: plan.unit,
            cost: plan.cost,
            waits,
            signals: signal,
            accesses: plan.accesses,
            rows: plan.rows,
            effect: Box::new(move |memory| started.run(memory)),
        };
        match self.machine.try_upload(command) {
            Ok(id) => {
                ledger.uploaded(sequence, id, gated);
                // A subscriber of the log is a user's code.
                drop(ledger);
                quietly(|| tracing::trace!(command = sequence, device, gated, "uploaded"));
            }
            Err(refusal) => match refusal.reason {
                RefusalReason::NoFreeSlot { .. } => ledger.no_slot(sequence),
                RefusalReason::Device(HostError::DeviceLost { .. }) => {
                    ledger.lose(device);
                    ledger.hold_again(sequence);
                }
                reason => {
                    let error = of_device(device, "take a command", &reason);
                    ledger.refuse(sequence, error);
                }
            },
        }
    }

    /// Finishes a command that is ours and over.
    fn finish(&self, sequence: u64) {
        let Some(ending) = self.ledger().take_ending(sequence) else {
            return;
        };
        let time = ending.completion.as_ref().map(|completion| {
            let ended = on_process_clock(completion.times.ended, ending.offset);
            ended.min(ending.seen_ended.unwrap_or(u64::MAX))
        });
        let Ending {
            command,
            error,
            completion,
            unit,
            ..
        } = ending;
        let is_set_by_host = completion.is_none();
        let result = result_of(&command, error, completion.map(|c| (c.device, c.outcome)));
        let succeeded = result.is_ok();
        command.set_lane(lane(unit));
        command.finish_at(result, time, &mut ToDrivers);
        let slots = self.ledger().forget(sequence, succeeded);
        if let [Some(signal), _] = slots
            && is_set_by_host
        {
            // It was recalled, and others may still wait there for its end.
            self.set_status(
                signal,
                must_not_run("what it needs was recalled and failed"),
            );
        }
        self.release(slots);
    }

    fn release(&self, slots: [Option<StatusSlot>; 2]) {
        for slot in slots.into_iter().flatten() {
            if let Err(error) = self.machine.release_status(slot) {
                quietly(|| tracing::error!(%slot, %error, "a status slot was not released"));
            }
        }
    }
}

/// The status of a command that the host keeps from running.
fn must_not_run(reason: &str) -> Status {
    Status::Failed(Arc::new(Failure::Host {
        message: format!("it must not run: {reason}"),
    }))
}

/// The result of a command.
fn result_of(
    command: &Command,
    error: Option<quipu_scheduler::Error>,
    ended: Option<(DeviceId, Outcome)>,
) -> Result<()> {
    if let Some(error) = error {
        return Err(error);
    }
    let Some((device, outcome)) = ended else {
        // Refused before it was uploaded.
        let refusal = command.start().err();
        return Err(refusal.unwrap_or_else(|| {
            let device = command.queue().device_index();
            of_device(device, "run a command", &"it was neither run nor refused")
        }));
    };
    let skipped = matches!(outcome, Outcome::Skipped(_));
    match outcome {
        Outcome::Complete => Ok(()),
        Outcome::Failed(failure) | Outcome::Skipped(failure) => {
            let never_ran = matches!(
                &*failure,
                Failure::Injected { .. } | Failure::Race { .. } | Failure::Host { .. }
            );
            if never_ran || skipped {
                // The core knows the first cause, also where it lies outside the machine.
                command.start()?;
            }
            Err(of_failure(device, command.label(), &failure))
        }
    }
}

/// Tells the core of the loss of a command's device, if it does not know.
fn lose(held: CommandRef, memory_lost: bool) {
    // SAFETY: only this thread finishes commands, and it does not now.
    let device = unsafe { held.with(|command| command.queue().device().cloned()) };
    if let Some(device) = device
        && Device::lost(&device).is_none()
    {
        Context::device_lost(&device, LOST, memory_lost);
    }
}

/// The number of a unit, as traces show it.
fn lane(unit: Unit) -> u32 {
    match unit {
        Unit::Compute => 0,
        Unit::CopyIn => 1,
        Unit::CopyOut => 2,
        Unit::Immediate => 3,
    }
}
