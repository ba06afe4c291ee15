//! Doing what the ledger says is to be done: forwarding, finishing.
//!
//! One thread at a time *pumps*. Whoever gives the ledger something to do pumps, unless somebody does: then that thread
//! will see it. So nothing recurses (an end that makes a command ready only notes that), and neither the core nor CUDA
//! is called with a lock held. A host thread does not pump for ever: after a while it leaves the rest to the drain
//! thread.

use super::Inside;
use super::completion::Due;
use super::forward::{Code, Flight, Obstacle};
use super::ledger::{Arrival, Departure, Doer, Ended, Job};
use crate::Shared;
use crate::device::{Device, Live};
use crate::error::{is_loss, is_out_of_memory, lost, native_code, of_device, text};
use crate::program::{Found, ProgramId, compile, width_of};
use quipu_core::command::{ToDrivers, slab};
use quipu_core::driver::Held;
use quipu_core::error::{ErrorKind, Result};
use quipu_core::operation::drop_panic;
use quipu_core::{Command, Context, Error, clock};
use quipu_kernel_ir::IndexWidth;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Weak};

/// How many jobs a host thread does.
const HOST_JOBS: u32 = 256;

/// Who pumps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Caller {
    /// Any thread, from a call of the core.
    Host,
    /// The drain thread.
    Drain,
}

/// Why a launch's code is not there.
enum Delay {
    Building,
    Never(Error),
}

/// Gives up pumping if a job unwinds, or when there are enough of them.
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

/// What the drain thread does, until the driver is gone.
pub(crate) fn drain(shared: &Weak<Shared>) {
    let Some(completions) = shared.upgrade().map(|shared| shared.completions.clone()) else {
        return;
    };
    loop {
        match completions.next() {
            Due::End => return,
            Due::Poll => {
                if !completions.poll() {
                    if completions.is_polling() || !completions.is_quiet() {
                        // Whoever runs the command may need the core.
                        std::thread::yield_now();
                    } else if let Some(shared) = shared.upgrade() {
                        let track = |device: usize, track: usize| {
                            shared.devices[device].live_if_any()?.tracks.get(track)
                        };
                        completions.arm(track);
                    }
                    continue;
                }
            }
            // A stream may have called: what has ended there is not noted yet.
            Due::Pump => drop(completions.poll()),
        }
        let Some(shared) = shared.upgrade() else {
            return;
        };
        shared.pump(Caller::Drain);
    }
}

impl Shared {
    /// Does what is to be done, unless somebody does.
    pub(super) fn pump(self: &Arc<Self>, caller: Caller) {
        loop {
            {
                let mut ledger = self.ledger();
                if ledger.pumping {
                    return;
                }
                ledger.pumping = true;
            }
            let done = {
                let _inside = Inside::enter(self);
                let mut pumping = Pumping {
                    shared: self,
                    is_given_up: false,
                };
                let done = self.do_jobs(caller);
                pumping.is_given_up = done;
                done
            };
            if !done {
                self.completions.call();
                return;
            }
            // What was noted since the last look, by a thread that saw us pumping.
            if !self.completions.has_notices() {
                break;
            }
        }
        if caller == Caller::Drain {
            // It may sleep now, and others want what it has freed.
            slab::flush();
        }
    }

    /// False if there are jobs left.
    fn do_jobs(self: &Arc<Self>, caller: Caller) -> bool {
        let mut jobs = 0;
        loop {
            let notices = self.completions.take();
            let job = {
                let mut ledger = self.ledger();
                for notice in notices {
                    ledger.noted(notice);
                }
                let Some(job) = ledger.next_job() else {
                    // Under the lock: whoever notes something from now on pumps itself.
                    ledger.pumping = false;
                    return true;
                };
                job
            };
            match job {
                Job::Prepare(sequence) => self.prepare(sequence),
                Job::Finish(sequence) => self.finish(sequence),
                Job::Forward(sequence) => self.forward(sequence),
            }
            jobs += 1;
            if caller == Caller::Host && jobs >= HOST_JOBS {
                return false;
            }
        }
    }

    fn forward(self: &Arc<Self>, sequence: u64) {
        let Some(departure) = self.ledger().begin(sequence) else {
            return;
        };
        let Departure {
            held,
            device: number,
            doer,
            lost: is_lost,
            waits,
        } = departure;
        let device = &self.devices[number];
        if is_lost {
            let error = lost(device.name(), "an earlier command lost it");
            return self.end_here(sequence, Err(error));
        }
        // SAFETY: only the pump finishes commands, and it does not now.
        let code =
            match unsafe { held.with(|command| self.code_of(sequence, number, held, command)) } {
                Ok(code) => code,
                Err(Delay::Building) => return self.ledger().hold_for_code(sequence),
                Err(Delay::Never(error)) => return self.end_here(sequence, Err(error)),
            };
        let start = |command: &Command| {
            command.submitted();
            command.start()
        };
        // SAFETY: only the pump finishes commands, and it does not now.
        if unsafe { held.with(start) }.is_err() {
            // The core says why when the command is ours.
            return self.ledger().hold_refused(sequence);
        }
        if doer == Doer::Host {
            self.ledger().taken(sequence);
            return self.have_done_here(sequence, number, held);
        }
        // SAFETY: as above.
        let put = unsafe { held.with(|command| self.put(device, command, code.as_ref(), &waits)) };
        let polls = |command: &Command| {
            command.queue().options().completion == quipu_core::Completion::Polling
        };
        match put {
            Ok(flight) => {
                let signal = flight.signal.clone();
                self.ledger().forwarded(sequence, flight);
                // SAFETY: as above.
                let polled = unsafe { held.with(polls) };
                self.completions.watch(sequence, signal, polled);
            }
            Err(obstacle) => self.obstructed(sequence, device, held, obstacle),
        }
    }

    /// Begins to compile a launch's code before the launch can go, with indices of the width that it likely needs.
    fn prepare(self: &Arc<Self>, sequence: u64) {
        let Some((device, held)) = self.ledger().of_launch(sequence) else {
            return;
        };
        let look = |command: &Command| {
            let key = command.portable()?.key();
            let mut arguments = command.arguments().iter();
            let width = if arguments.all(|argument| argument.length() < 1 << 31) {
                IndexWidth::Bits32
            } else {
                IndexWidth::Bits64
            };
            Some(ProgramId { device, key, width })
        };
        // SAFETY: a launch whose code is not there is not finished.
        let found = match unsafe { held.with(look) } {
            Some(id) => self.find(id, sequence, held),
            None => return,
        };
        if let Found::Built(_) = found {
            self.ledger().built(sequence);
        }
    }

    /// A program for a launch, which is compiled from now on if it was not.
    fn find(self: &Arc<Self>, id: ProgramId, sequence: u64, held: Held) -> Found {
        let found = self.programs.find(id, sequence);
        if let Found::Missing = found {
            let shared = self.clone();
            self.workers.run(Box::new(move || shared.compile(id, held)));
        }
        found
    }

    /// Compiles a launch's code. Called on a thread of the host.
    fn compile(self: &Arc<Self>, id: ProgramId, held: Held) {
        let device = &self.devices[id.device];
        let begun = clock::now_ns();
        let compile = |command: &Command| -> Result<_> {
            let portable = command
                .portable()
                .ok_or_else(|| native_code(command.label()))?;
            compile(device, &portable.code()?, id.width).map(Arc::new)
        };
        let guarded = AssertUnwindSafe(|| {
            // SAFETY: the launch is held until this has told of its code.
            unsafe { held.with(compile) }
        });
        let outcome = catch_unwind(guarded).unwrap_or_else(|panic| {
            drop_panic(panic);
            let what = "compile a kernel for it";
            Err(of_device(
                device.name(),
                what,
                "the compiler panicked".to_owned(),
            ))
        });
        let took = clock::now_ns() - begun;
        tracing::debug!(
            device = device.name(),
            nanoseconds = took,
            ok = outcome.is_ok(),
            "compiled"
        );
        let waiting = self.programs.built(id, outcome);
        {
            let mut ledger = self.ledger();
            for launch in waiting {
                ledger.built(launch);
            }
        }
        self.pump(Caller::Host);
    }

    /// The code of a launch, if the command is one that has any.
    fn code_of(
        self: &Arc<Self>,
        sequence: u64,
        device: usize,
        held: Held,
        command: &Command,
    ) -> std::result::Result<Option<Code>, Delay> {
        let Some(portable) = command.portable().filter(|_| command.groups() > 0) else {
            return Ok(None);
        };
        let passed = portable.pass(command.arguments()).map_err(Delay::Never)?;
        let width = width_of(command.arguments(), &passed);
        let key = portable.key();
        // First, so that whoever compiles it is not too early to say so.
        self.ledger().expect_code(sequence);
        match self.find(ProgramId { device, key, width }, sequence, held) {
            Found::Built(outcome) => {
                self.ledger().built(sequence);
                let compiled = outcome.map_err(Delay::Never)?;
                Ok(Some(Code { compiled, passed }))
            }
            Found::Building | Found::Missing => Err(Delay::Building),
        }
    }

    /// A command could not be put into a queue of its device.
    fn obstructed(&self, sequence: u64, device: &Device, held: Held, obstacle: Obstacle) {
        let error = match obstacle {
            Obstacle::Call(error) if is_loss(error.code) => {
                self.lose(held, &text(&error));
                device.failed("run a command", &error)
            }
            Obstacle::Call(error) => {
                if is_out_of_memory(error.code) && self.ledger().hold_for_memory(sequence) {
                    return;
                }
                // SAFETY: only the pump finishes commands, and it does not now.
                let what = unsafe { held.with(|command| format!("run '{}'", command.label())) };
                device.failed(&what, &error)
            }
            Obstacle::Error(error) => {
                let waits = matches!(error.kind(), ErrorKind::OutOfMemory { .. })
                    && self.ledger().hold_for_memory(sequence);
                if waits {
                    return;
                }
                error
            }
        };
        self.end_here(sequence, Err(error));
    }

    fn end_here(&self, sequence: u64, result: Result<()>) {
        self.ledger().end(sequence, Some(Ended::Here(result)));
    }

    /// Has a thread of the host do a command.
    fn have_done_here(self: &Arc<Self>, sequence: u64, device: usize, held: Held) {
        let shared = self.clone();
        self.workers.run(Box::new(move || {
            let result = shared.do_here(&shared.devices[device], held);
            shared.end_here(sequence, result);
            shared.pump(Caller::Host);
        }));
    }

    /// Finishes a command that is ours and over.
    fn finish(self: &Arc<Self>, sequence: u64) {
        let Some(arrival) = self.ledger().arrive(sequence) else {
            return;
        };
        let Arrival {
            command,
            device,
            flight,
            ended,
        } = arrival;
        let device = &self.devices[device];
        let seen = match &ended {
            Some(Ended::There { seen, .. }) => *seen,
            _ => clock::now_ns(),
        };
        let time = flight
            .as_ref()
            .and_then(|flight| note_times(device, &command, flight, seen));
        let result = self.result_of(device, &command, ended);
        let result = result.and_then(|()| match flight {
            Some(flight) => flight.land(command.label()),
            None => Ok(()),
        });
        command.finish_at(result, time, &mut ToDrivers);
        self.ledger().forget(sequence);
    }

    /// How a command ends.
    fn result_of(&self, device: &Device, command: &Command, ended: Option<Ended>) -> Result<()> {
        let ran = matches!(
            ended,
            Some(Ended::There { result: Ok(()), .. } | Ended::Here(Ok(())))
        );
        if command.is_refused()
            && let Err(refusal) = command.start()
            // One that ran before it was cancelled has run.
            && !(ran && refusal.is_cancelled())
        {
            return Err(refusal);
        }
        match ended {
            Some(Ended::Here(result)) => result,
            Some(Ended::There { result: Ok(()), .. }) => Ok(()),
            Some(Ended::There {
                result: Err(error), ..
            }) => {
                if is_loss(error.code) {
                    self.lose_device_of(command, &text(&error));
                }
                Err(device.failed(&format!("run '{}'", command.label()), &error))
            }
            None => Err(of_device(
                device.name(),
                &format!("run '{}'", command.label()),
                "it was neither run nor refused".to_owned(),
            )),
        }
    }

    fn lose(&self, held: Held, reason: &str) {
        // SAFETY: only the pump finishes commands, and it does not now.
        unsafe { held.with(|command| self.lose_device_of(command, reason)) };
    }

    /// Tells the core of the loss of a command's device, if it does not know, and fails what is there.
    fn lose_device_of(&self, command: &Command, reason: &str) {
        let number = command.queue().device_index();
        if let Some(device) = command.queue().device()
            && device.lost().is_none()
        {
            Context::device_lost(device, reason, true);
        }
        let error: Error = lost(self.devices[number].name(), reason);
        self.ledger().lose(number, &error);
    }
}

/// Tells the core when the device ran a command; when it ended.
fn note_times(device: &Device, command: &Command, flight: &Flight, seen: u64) -> Option<u64> {
    let (before, began) = flight.began.as_ref()?;
    command.set_lane(Live::lane_number(flight.signal.track));
    let live = device.live().ok()?;
    let (started, ended) = (live.time_of(began)?, live.time_of(&flight.signal.event)?);
    // Not before it was handed over, and not after its end was seen here: whatever a device says.
    let here = |time: u64| time.clamp(*before, seen.max(*before));
    command.started_at(here(started));
    Some(here(ended).max(here(started)))
}
