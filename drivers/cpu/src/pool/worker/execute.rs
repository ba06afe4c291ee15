//! Running commands: launches, long transfers and long fills, each whole or shared, and all other
//! commands.

use super::super::cost::{CHUNK_NS, LONGEST_CHUNK_NS, MOST_CHUNKS, Measurement, WORTH_SHARING_NS};
use super::super::parts::{Division, Parts};
use super::super::split::{Arguments, Participation};
use super::super::{POOL_DEVICE, Task};
use super::{BURST, Local, Worker};
use crate::queue::CpuQueue;
use quipu_scheduler::error::Error;
use quipu_scheduler::operation::Operation;
use quipu_scheduler::{Command, Kind, Priority, RawArgument};
use quipu_threads::UsualArithmetic;
use std::mem::MaybeUninit;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// The most groups for each worker that are dealt out, if they are long.
const MOST_DEALT: usize = 2;
/// The most tickets to one launch.
const MOST_TICKETS: usize = 64;
/// Arguments that need no list.
const FEW: usize = 4;
/// Commands of one group between two that are measured: of those that take longer than
/// [`SHORT_NS`], and of others, two of which cost less than the clock.
const SAMPLE: u32 = 31;
const SAMPLE_SHORT: u32 = 127;
const SHORT_NS: u64 = 500;

impl Worker {
    #[inline]
    pub(in super::super) fn perform(&self, task: Task) {
        self.burst.set(self.burst.get().wrapping_add(1));
        match task {
            Task::Command(command) => {
                if self.has_surplus.get() {
                    self.see_to_surplus(command.body_key(), command.groups());
                }
                self.execute(command);
            }
            Task::Ticket(ticket) => {
                if self.has_surplus.get() {
                    self.see_to_surplus(ticket.split.command().body_key(), 1);
                }
                self.participate(ticket.split);
            }
        }
    }

    #[inline]
    pub(super) fn execute(&self, command: Command) {
        // Of a stream that has only just begun, the next is still being written.
        if self.burst.get() >= BURST {
            command.prefetch_following();
        }
        if let Err(error) = command.start_on(self.lane) {
            return self.refuse(command, error);
        }
        if command.kind() == Kind::Launch {
            self.launch(command);
        } else {
            self.run_other(command);
        }
    }

    #[inline]
    pub(super) fn launch(&self, command: Command) {
        let packed = command.arguments();
        if command.groups() != 1 || packed.len() > FEW {
            self.launch_large(command);
            return;
        }
        // The usual small command: no allocation, no list, one group.
        let mut arguments = [const { MaybeUninit::<RawArgument>::uninit() }; FEW];
        let count = packed.len();
        for (resolved, argument) in arguments.iter_mut().zip(packed) {
            match argument.on_host() {
                Ok(raw) => resolved.write(raw),
                Err(error) => return self.refuse(command, error),
            };
        }
        // SAFETY: so many were just written.
        let arguments = unsafe { arguments[..count].assume_init_ref() };
        let sample = self.sample.get();
        let result = if sample == 0 {
            self.measured(&command, arguments)
        } else {
            self.sample.set(sample - 1);
            self.contain(&command, arguments, 0..1)
        };
        command.finish(result, &mut Local(self));
    }

    /// Ends a command that cannot be run.
    #[cold]
    pub(super) fn refuse(&self, command: Command, error: Error) {
        command.finish(Err(error), &mut Local(self));
    }

    /// Runs a command of one group and keeps how long it took.
    #[cold]
    pub(super) fn measured(
        &self,
        command: &Command,
        arguments: &[RawArgument],
    ) -> Result<(), Error> {
        let body = command.body_key();
        let measurement = Measurement::start();
        let result = self.contain(command, arguments, 0..1);
        self.costs.stop(body, &measurement, 1);
        let cost = self.costs.estimate(body, 1);
        let short = cost.is_some_and(|cost| cost < SHORT_NS);
        self.sample.set(if short { SAMPLE_SHORT } else { SAMPLE });
        result
    }

    #[cold]
    pub(super) fn launch_large(&self, command: Command) {
        let groups = command.groups();
        if groups == 0 {
            command.finish(Ok(()), &mut Local(self));
            return;
        }
        let mut arguments = Arguments::new();
        if let Err(error) = resolve(&command, &mut arguments) {
            command.finish(Err(error), &mut Local(self));
            return;
        }
        if groups > 1 && self.pool.worker_count > 1 {
            self.launch_groups(command, arguments, groups);
            return;
        }
        let result = self.contain(&command, &arguments, 0..groups);
        command.finish(result, &mut Local(self));
    }

    /// A launch of several groups, or a transfer or fill of several pieces: whole, if it is short;
    /// else shared.
    pub(super) fn launch_groups(&self, command: Command, arguments: Arguments, groups: u32) {
        let body = command.body_key();
        let mut first = 0;
        if self.costs.estimate(body, groups).is_none()
            && let Some(measurement) = self.costs.start(body)
        {
            // Of unknown cost: one group tells.
            let result = begin(&command, &arguments);
            let result = result.and_then(|()| self.contain(&command, &arguments, 0..1));
            self.costs.stop(body, &measurement, 1);
            if result.is_err() {
                command.finish(result, &mut Local(self));
                return;
            }
            first = 1;
        }
        let left = groups - first;
        let estimate = self.costs.estimate(body, left).unwrap_or(u64::MAX);
        let device = command.queue().owner().1;
        let shares = self.pool.workers_of(device);
        if left < 2 || shares < 2 || estimate < WORTH_SHARING_NS {
            let measurement = self.costs.start(body);
            let result = self.contain(&command, &arguments, first..groups);
            if let Some(measurement) = measurement {
                self.costs.stop(body, &measurement, left);
            }
            command.finish(result, &mut Local(self));
            return;
        }
        if first == 0
            && let Err(error) = begin(&command, &arguments)
        {
            return command.finish(Err(error), &mut Local(self));
        }
        let groups_in = |time: u64| time.saturating_mul(left.into()) / estimate.max(1);
        // Should the estimate be much too long, there are not more of them than end evenly anyway.
        let few = u64::from(left) / (MOST_CHUNKS * shares as u64);
        let least = groups_in(CHUNK_NS);
        let division = if least <= 1 && left as usize <= MOST_DEALT * shares {
            Division::Dealt
        } else {
            Division::Neighbours(least, groups_in(LONGEST_CHUNK_NS).max(few))
        };
        let parts = Parts::new(first..groups, shares, division);
        let mut split = Participation::begin(command, arguments, parts, device);
        self.invite(&mut split, shares - 1);
        self.participate(split);
    }

    /// Invites others to a launch: as many as could have a piece.
    pub(super) fn invite(&self, split: &mut Participation, others: usize) {
        let count = others.min(split.pieces_left().saturating_sub(1));
        if count == 0 {
            return;
        }
        let place = &self.pool.invitations[self.index];
        if split.device == POOL_DEVICE
            && self.has_role()
            && let Some(number) = place.next()
        {
            let word = split.invite(count as u32, self.index, number);
            place.open(number, word, count as u32);
            self.pool.tell_of_invitation();
            self.pool.wake_for(POOL_DEVICE);
            return;
        }
        // Not all may come, or a launch whose group waits has the place.
        for _ in 0..count.min(MOST_TICKETS) {
            let ticket = Task::ticket(split.another());
            self.pool.inject(ticket, split.device, Priority::Normal);
        }
    }

    /// Works on a shared launch until nothing is left to claim.
    #[inline(never)]
    pub(super) fn participate(&self, split: Participation) {
        let body = split.command().body_key();
        // Of one whose group has waited another thread is the worker by now, and may be in here,
        // too.
        let worker = || (self.has_role() && !self.is_guest()).then_some(self.index);
        while let Some(groups) = split.claim(worker()) {
            let count = groups.end - groups.start;
            let measurement = self.costs.start(body);
            if let Err(error) = self.contain(split.command(), &split.arguments, groups) {
                split.fail(error);
            }
            if let Some(measurement) = measurement {
                self.costs.stop(body, &measurement, count);
            }
        }
        if let Some((place, number)) = split.invitation() {
            // Nobody need come any more.
            let left = self.pool.invitations[place].withdraw(number);
            if left > 0 {
                split.without(left);
            }
        }
        if let Some((command, result)) = split.leave() {
            command.finish(result, &mut Local(self));
        }
    }

    /// Everything but launches. Out of line, as `participate` and `refuse` are: the
    /// frame of the usual small launch stays small.
    #[inline(never)]
    pub(super) fn run_other(&self, command: Command) {
        if command.needs_no_device() {
            return command.finish_without_device(&mut Local(self));
        }
        let mut arguments = Arguments::new();
        let resolved = resolve(&command, &mut arguments);
        if resolved.is_ok() && self.pool.worker_count > 1 {
            let pieces = match command.operation() {
                Operation::Transfer(transfer) => transfer.pieces(&arguments),
                Operation::Fill(fill) => fill.pieces(arguments[0]),
                _ => 1,
            };
            if pieces > 1 {
                return self.launch_groups(command, arguments, pieces);
            }
        }
        let result = resolved.and_then(|()| match command.operation() {
            Operation::Transfer(transfer) => {
                // SAFETY: the arguments were just resolved; hazards keep others
                // away.
                unsafe { transfer.copy(&arguments) };
                Ok(())
            }
            Operation::Fill(fill) => {
                // SAFETY: as above.
                unsafe { fill.fill(arguments[0]) };
                Ok(())
            }
            Operation::HostTask => {
                // The task may change how its thread computes, and kernels come after it.
                let _usual = UsualArithmetic::enter();
                self.contain(&command, &arguments, 0..1)
            }
            Operation::NativeEnqueue(enqueue) => {
                let _usual = UsualArithmetic::enter();
                let workers = self.pool.range_of(command.queue().device_index());
                let queue = CpuQueue {
                    workers: workers.unwrap_or_default(),
                };
                enqueue.call_with(&command, &queue, &arguments)
            }
            // The host's space is ours: there is nothing to bring.
            Operation::Migrate(_) | Operation::Launch { groups: 0 } | Operation::Nothing => Ok(()),
            _ => Err(command.unsupported("cpu")),
        });
        command.finish(result, &mut Local(self));
    }

    /// Runs a native body; a panic becomes an error.
    #[inline]
    pub(super) fn contain(
        &self,
        command: &Command,
        arguments: &[RawArgument],
        groups: std::ops::Range<u32>,
    ) -> Result<(), Error> {
        // SAFETY: the command was started; its arguments are resolved, hazards
        // keep others away, and each group is claimed once.
        contained(command, || unsafe { command.run_native(arguments, groups) })
    }
}

/// Has a body look at its arguments, of a launch that several calls run; a panic becomes an error.
fn begin(command: &Command, arguments: &[RawArgument]) -> Result<(), Error> {
    // SAFETY: the command was started; its arguments are resolved, hazards keep others away, and no
    // group has begun.
    contained(command, || unsafe { command.begin_native(arguments) })
}

/// Calls code of a body; a panic becomes an error.
#[inline]
fn contained(command: &Command, code: impl FnOnce() -> Result<(), Error>) -> Result<(), Error> {
    catch_unwind(AssertUnwindSafe(code)).unwrap_or_else(|panic| Err(panicked(command, panic)))
}

/// The arguments' bytes in the host's memory.
#[inline]
pub(crate) fn resolve(command: &Command, arguments: &mut Arguments) -> Result<(), Error> {
    for argument in command.arguments() {
        arguments.push(argument.on_host()?);
    }
    Ok(())
}

/// The error of a panic.
#[cold]
pub(crate) fn panicked(command: &Command, panic: Box<dyn std::any::Any + Send>) -> Error {
    quipu_scheduler::native::panicked(command.label(), panic)
}
