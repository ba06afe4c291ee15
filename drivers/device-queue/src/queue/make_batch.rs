//! Making [batches](crate::batch), and putting them on their devices.

use super::batches::{BatchKey, Made, Ungathered, Whole};
use super::completion::{Put, Watched};
use super::durations::Workload;
use super::ledger::Key;
use super::pump::Caller;
use crate::Shared;
use crate::batch::{Does, Plan, Planned, UNKNOWN_NS};
use crate::error::{of_call, of_device};
use crate::launch::{Code, width_of};
use crate::programs::ProgramId;
use crate::region::Shape;
use crate::vendor::{Failure, Flight, Obstacle, Vendor, VendorDevice};
use crate::work::Work;
use quipu_scheduler::access::Argument;
use quipu_scheduler::driver::CommandRef;
use quipu_scheduler::memory::Allocation;
use quipu_scheduler::operation::{Endpoint, Operation, drop_panic};
use quipu_scheduler::panics::quietly;
use quipu_scheduler::{Command, Completion, Passed, SpaceId};
use smallvec::SmallVec;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

/// Memory is allocated ahead only if the device has so many times more of it.
const ROOM: u64 = 4;

impl<V: Vendor> Shared<V> {
    /// The time that a command is taken to run if it is part of a batch, in nanoseconds.
    pub(super) fn takes(&self, command: &Command) -> u64 {
        let known = self.completions.durations().of(Workload::of(command));
        known.unwrap_or(UNKNOWN_NS)
    }

    /// Gathers the next commands of a batch.
    pub(super) fn gather(&self, batch: BatchKey, ungathered: Ungathered<V>) {
        let Ungathered {
            device,
            mut plan,
            commands,
        } = ungathered;
        for (held, after) in commands {
            let planned = |command: &Command| self.planned(device, &mut plan, command, held, after);
            // SAFETY: only the pump finishes commands, and it does not now.
            if unsafe { held.with(planned) }.is_none() {
                return self.ledger().unmade(batch);
            }
        }
        self.ledger().gathered(batch, plan);
    }

    /// Adds a command to a plan; none if it cannot be planned: it will say so itself when it goes.
    fn planned(
        &self,
        device: usize,
        plan: &mut Plan<V>,
        command: &Command,
        held: CommandRef,
        after: SmallVec<[u32; 2]>,
    ) -> Option<()> {
        let space = command.queue().device()?.space();
        plan.space = Some(space);
        let arguments = SmallVec::from_slice(Argument::packed(command.arguments()));
        let mut starts = SmallVec::new();
        for argument in command.arguments() {
            starts.push(self.start_of(device, plan, argument, space)?);
        }
        let does = match command.operation() {
            Operation::Launch { .. } => Does::Launch(self.code_ahead(device, command)?),
            Operation::Fill(fill) if fill.is_dense() => Does::Fill(fill.clone()),
            Operation::Transfer(transfer) => {
                let number = |side: &Endpoint| match side {
                    Endpoint::Argument(number) => Some(*number),
                    Endpoint::Host(_) => None,
                };
                Does::Copy {
                    from: number(&transfer.source)?,
                    to: number(&transfer.destination)?,
                    parts: match transfer.bytes() {
                        0 => Vec::new(),
                        _ => Shape::of(transfer).parts(),
                    },
                }
            }
            _ => return None,
        };
        let in_place = |argument: &Argument<'_>| argument.memory().is_in_place();
        plan.uses_host_memory |= command.arguments().iter().any(in_place);
        let is_told = plan.tells(self.takes(command)) && !plan.uses_host_memory;
        plan.commands.push(Planned {
            does,
            arguments,
            starts,
            after,
            is_told,
            held,
        });
        Some(())
    }

    /// The start of an argument's memory. Memory that is not allocated yet is, if there is plenty.
    fn start_of(
        &self,
        device: usize,
        plan: &mut Plan<V>,
        argument: &Argument<'_>,
        space: SpaceId,
    ) -> Option<u64> {
        let memory = argument.memory();
        let mut known = plan.memories.iter().rev();
        if let Some((_, start)) = known.find(|(known, _)| known.is_of(memory)) {
            return Some(*start);
        }
        let start = |allocation: &Allocation| {
            let place =
                std::ptr::with_exposed_provenance::<V::Allocation>(allocation.address as usize);
            // SAFETY: the core has it from `Shared::allocate`, for the space is ours, and keeps it
            // meanwhile.
            V::start_of(unsafe { &*place })
        };
        let start = match memory.with_allocation(space, start) {
            Some(start) => start,
            None => {
                let free = self.free_memory(device)?;
                if memory.size().checked_mul(ROOM)? > free {
                    return None;
                }
                // SAFETY: the space is this driver's, and the thread that pumps prepares a command
                // that uses the memory.
                unsafe { memory.allocation(space) }.ok()?;
                memory.with_allocation(space, start)?
            }
        };
        plan.memories.push((**argument, start));
        Some(start)
    }

    /// A launch's code, if it is there.
    fn code_ahead(&self, device: usize, command: &Command) -> Option<Code<V::Compiled>> {
        let portable = command.portable()?;
        let mut passed = Passed::default();
        self.pass(device, portable, command, &mut passed).ok()?;
        let id = ProgramId {
            device,
            key: portable.key(),
            width: width_of(command.arguments(), &passed),
        };
        let compiled = self.programs.known_program(id)?;
        self.divide(device, &compiled, &mut passed, command);
        Some(Code { compiled, passed })
    }

    /// Has a thread of the host make a batch.
    pub(super) fn have_made(self: &Arc<Self>, batch: BatchKey, device: usize, plan: Plan<V>) {
        let shared = self.clone();
        self.workers.run(Box::new(move || {
            let make = || shared.vendor.make_batch(shared.device(device), &plan);
            let made = catch_unwind(AssertUnwindSafe(make)).unwrap_or_else(|panic| {
                drop_panic(panic);
                let message = "the driver panicked".to_owned();
                Err(of_device(shared.device(device).name(), "make a batch", message).into())
            });
            match made {
                Ok(made) => {
                    let made = Made { plan, batch: made };
                    let late = shared.ledger().made(batch, made);
                    drop(late);
                }
                Err(obstacle) => {
                    quietly(|| tracing::debug!(?obstacle, "a batch was not made"));
                    shared.ledger().unmade(batch);
                }
            }
            shared.pump(Caller::Host);
        }));
    }

    /// Puts a batch on its device; if that cannot be, its commands go one by one.
    pub(super) fn forward_whole(&self, whole: Whole<V>) {
        let mut polled = Vec::with_capacity(whole.members.len());
        let mut workloads = Vec::with_capacity(whole.members.len());
        let is_started = !quipu_scheduler::trace::enabled()
            && whole.members.iter().all(|(_, held)| {
                let start = |command: &Command| {
                    polled.push(command.queue().options().completion == Completion::Polling);
                    workloads.push(Workload::of(command));
                    command.submitted();
                    command.start().is_ok()
                };
                // SAFETY: only the pump finishes commands, and it does not now.
                unsafe { held.with(start) }
            });
        let Some((_, first)) = whole.members.first().copied().filter(|_| is_started) else {
            return self.ledger().dissolve(whole.batch);
        };
        let put = |command: &Command| self.put_whole(command, first, &whole);
        // SAFETY: as above.
        match unsafe { first.with(put) } {
            Ok(Some(flights)) => self.watch_whole(&whole, flights, &polled, &workloads),
            Err(Obstacle::Spent(failure)) => {
                if failure.is_loss() {
                    self.lose(first, &failure.text());
                }
                let device = self.device(whole.device).name();
                let error = of_call(device, "run commands together", &failure);
                self.ledger().end_whole(whole.batch, &error);
            }
            other => {
                if let Err(obstacle) = &other {
                    quietly(|| tracing::debug!(?obstacle, "a batch was not put on its device"));
                }
                if let Err(Obstacle::Call(failure)) = &other
                    && failure.is_loss()
                {
                    self.lose(first, &failure.text());
                }
                self.ledger().dissolve(whole.batch);
            }
        }
    }

    /// None if memory has moved.
    #[allow(
        clippy::type_complexity,
        reason = "it is what putting gives, if it was tried"
    )]
    fn put_whole(
        &self,
        command: &Command,
        held: CommandRef,
        whole: &Whole<V>,
    ) -> Result<Option<Vec<Flight<V>>>, Obstacle<V::Failure>> {
        let Made { plan, batch } = &*whole.made;
        let work = Work::new(self, whole.device, held, command);
        let Some(space) = plan.space else {
            return Ok(None);
        };
        let mut memories = Vec::with_capacity(plan.memories.len());
        for (access, start) in &plan.memories {
            // SAFETY: an argument of a command of the batch (`start_of`); these are being put on
            // the device, so none is over.
            let argument = unsafe { access.of_live_command() };
            let (bytes, _) = work.bytes_in(&argument, space)?;
            if V::start_of(bytes.allocation) != *start {
                return Ok(None);
            }
            memories.push(bytes);
        }
        let flights = self
            .vendor
            .put_batch(&work, batch, &memories, &whole.waits)?;
        debug_assert_eq!(flights.len(), whole.members.len());
        Ok(Some(flights))
    }

    fn watch_whole(
        &self,
        whole: &Whole<V>,
        flights: Vec<Flight<V>>,
        polled: &[bool],
        workloads: &[Workload],
    ) {
        let signals: Vec<V::Signal> = flights.iter().map(|flight| flight.done().clone()).collect();
        let commands = &whole.made.plan.commands;
        let lines = self
            .ledger()
            .forwarded_whole(whole.batch, flights, whole.line);
        let keys = whole.members.iter().map(|(key, _)| *key);
        let members = keys.zip(lines).zip(signals).zip(polled).enumerate();
        let at = self.vendor.now();
        let watched = members.map(
            |(number, (((key, line), signal), polled)): (usize, Member<'_, V>)| Watched {
                key,
                device: whole.device,
                line,
                signal,
                is_implied: true,
                is_joined: number > 0 && !commands[number - 1].is_told,
                polled: *polled,
                seen_to: None,
                put: Some(Put {
                    at,
                    workload: workloads[number],
                }),
            },
        );
        self.completions.watch(watched);
        if V::TELLS {
            // Some may have been told of before they were watched.
            self.completions.poll_again(&self.vendor);
        }
    }
}

/// A command of a batch: its key, line and signal, and whether it is to be polled.
type Member<'a, V> = (((Key, usize), <V as Vendor>::Signal), &'a bool);
