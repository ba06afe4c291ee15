//! Doing the ledger's jobs: forwarding, finishing.
//!
//! One thread at a time *pumps*. A thread that gives the ledger a job pumps, unless another one
//! does: then that thread will see the job. So nothing recurses (an end that makes a command ready
//! only notes that), and neither the core nor a library is called with a lock held. A host thread
//! does not pump for ever: after a while it leaves the rest to the drain thread.

use super::code::Delay;
use super::completion::{Notice, Notices, Put, SeenTo, Watched};
use super::is_nothing;
use super::ledger::{Arrival, Departure, Ended, Job, Key, Ledger};
use super::naps::PreciseNaps;
use super::wakeup::{Due, Need, Wakeup};
use crate::error::{lost, of_call, of_device};
use crate::inside::{Inside, own_thread};
use crate::launch::CodeRef;
use crate::vendor::{Executor, Failure, Flight, Obstacle, Vendor, VendorDevice};
use crate::work::Work;
use crate::workers::Task;
use crate::{Shared, VendorDriver};
use quipu_scheduler::command::{Gather, ReadySink, ToDrivers, slab};
use quipu_scheduler::driver::CommandRef;
use quipu_scheduler::error::{ErrorKind, Result};
use quipu_scheduler::operation::Operation;
use quipu_scheduler::panics::quietly;
use quipu_scheduler::{Command, CommandView, Completion, Context, Error, Passed, clock};
use smallvec::SmallVec;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, MutexGuard, Weak};

/// The number of jobs that a host thread does.
const HOST_JOBS: u32 = 256;

/// The most jobs that are done without a look at commands that were submitted meanwhile.
const BLIND: u32 = 32;

/// The thread that pumps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Caller {
    /// Any thread, from a call of the core.
    Host,
    /// One that waits: it sees to jobs that it leaves undone itself.
    Waiter,
    /// The drain thread.
    Drain,
    /// A thread of a vendor that tells of ends: it ends commands, and leaves all else to the drain
    /// thread, because that may have to wait for ends that it brings.
    Teller,
}

/// The state of the pump: true if a thread pumps, as others see it without the ledger's lock.
#[derive(Debug, Default)]
pub(crate) struct Activity {
    busy: AtomicBool,
    /// A thread has ceased to pump, with jobs left.
    left: AtomicBool,
}

impl Activity {
    /// True if a thread pumps.
    pub(super) fn is_busy(&self) -> bool {
        self.busy.load(Ordering::Relaxed)
    }

    /// True if no thread does the present jobs, as far as is known.
    pub(super) fn is_left(&self) -> bool {
        self.left.load(Ordering::Relaxed)
    }
}

/// Gives up pumping if a job unwinds, or when there are enough of them.
struct Pumping<'a, V: Vendor> {
    shared: &'a Shared<V>,
    is_given_up: bool,
    untold: Untold<V>,
}

impl<V: Vendor> Drop for Pumping<'_, V> {
    fn drop(&mut self) {
        if self.is_given_up && self.untold.is_empty() {
            return;
        }
        let away = self.untold.tell(&mut self.shared.ledger());
        // Before another thread pumps, which may put the next of a line there.
        self.shared.watch(away);
        if !self.is_given_up {
            self.shared.cease(&mut self.shared.ledger(), true);
        }
    }
}

/// Commands that have become ours.
type Ready = SmallVec<[Command; 4]>;

/// Facts that the ledger is told with the next look into it, instead of one by one: each of a
/// chain's commands is released by the end of the one before.
struct Untold<V: Vendor> {
    /// A command that was just put on its device.
    forwarded: Option<Forwarded<V>>,
    /// Commands that are finished: mostly one, which is to cost no allocation.
    finished: SmallVec<[Key; 4]>,
    /// Commands that have become ours by that.
    ready: Ready,
    /// The commands that were never submitted: their drop fails them and says so.
    strays: Vec<Command>,
}

/// A command that was put on its device, and the facts to note about it.
struct Forwarded<V: Vendor> {
    key: Key,
    held: CommandRef,
    device: usize,
    flight: Flight<V>,
    /// The line whose last command it waits for.
    line: Option<usize>,
    polled: bool,
    seen_to: SeenTo,
    put: Option<Put>,
}

/// One that is away, as the ledger knows: it is to be watched, once that is not locked.
struct Away<V: Vendor> {
    watched: Watched<V>,
    held: CommandRef,
    /// The reason for which its device is lost, if it is.
    loss: Option<String>,
}

impl<V: Vendor> Default for Untold<V> {
    fn default() -> Self {
        Self {
            forwarded: None,
            finished: SmallVec::new(),
            ready: Ready::new(),
            strays: Vec::new(),
        }
    }
}

impl<V: Vendor> Untold<V> {
    fn is_empty(&self) -> bool {
        self.forwarded.is_none() && self.finished.is_empty() && self.ready.is_empty()
    }

    fn tell(&mut self, ledger: &mut Ledger<V>) -> Option<Away<V>> {
        if self.is_empty() {
            return None;
        }
        let away = self.forwarded.take().and_then(|it| it.tell(ledger));
        for key in self.finished.drain(..) {
            ledger.forget(key);
        }
        for command in self.ready.drain(..) {
            self.strays.extend(ledger.ready(command, None).err());
        }
        away
    }
}

impl<V: Vendor> Forwarded<V> {
    fn tell(self, ledger: &mut Ledger<V>) -> Option<Away<V>> {
        let (signal, is_implied) = (self.flight.done().clone(), self.flight.done.is_none());
        let loss = self.flight.failure.as_ref();
        let loss = loss.filter(|failure| failure.is_loss());
        let loss = loss.map(Failure::text);
        let line = ledger.forwarded(self.key, self.flight, self.line)?;
        let watched = Watched {
            key: self.key,
            device: self.device,
            line,
            signal,
            is_implied,
            is_joined: false,
            polled: self.polled,
            seen_to: self.seen_to,
            put: self.put,
        };
        Some(Away {
            watched,
            held: self.held,
            loss,
        })
    }
}

/// Takes the commands that a finished command releases, if they are this driver's.
struct Released<'a, V: Vendor> {
    driver: *const VendorDriver<V>,
    ready: &'a mut Ready,
}

impl<V: Vendor> ReadySink for Released<'_, V> {
    fn accept(&mut self, command: Command) -> Option<Command> {
        let driver = Arc::as_ptr(command.queue().driver());
        if command.needs_no_device() || !std::ptr::addr_eq(driver, self.driver) {
            return Some(command);
        }
        self.ready.push(command);
        None
    }

    fn gather(&mut self, step: Gather) {
        ToDrivers.gather(step);
    }
}

/// The time, in nanoseconds, for which the drain thread looks away when it only has to stay awake.
/// Each of its looks takes lines that others write away from their cores.
const PAUSE_NS: u64 = 2_000;

/// Stays awake for so long, and in nobody's way.
pub(super) fn pause(nanoseconds: u64) {
    let end = clock::now_ns() + nanoseconds;
    // The thread that runs the command may need the core.
    std::thread::yield_now();
    while clock::now_ns() < end {
        (0..8).for_each(|_| std::hint::spin_loop());
    }
}

/// The life of the drain thread, until the driver is gone.
pub(crate) fn drain<V: Vendor>(driver: &Weak<Shared<V>>, wakeup: &Wakeup) {
    own_thread();
    let _precisely = PreciseNaps::begin();
    loop {
        // Not kept while this sleeps: the driver ends when nobody else has it.
        let need = || {
            driver
                .upgrade()
                .map_or(Need::Now(Due::End), |it| it.completions.need())
        };
        let due = wakeup.next(need);
        let Some(shared) = driver.upgrade() else {
            return;
        };
        match due {
            Due::End => return,
            Due::Pause => pause(PAUSE_NS),
            Due::Arm => shared.completions.arm(&shared.vendor),
            Due::Poll if !shared.completions.poll_unless_suspended(&shared.vendor) => {
                let active = shared.completions.active();
                pause(shared.completions.away(active, clock::now_ns()));
            }
            Due::Poll | Due::Pump => shared.pump(Caller::Drain),
            Due::Hear => shared.hear(Caller::Drain),
        }
    }
}

impl<V: Vendor> Shared<V> {
    /// Looks for ended commands, and acts on them.
    pub(crate) fn look(self: &Arc<Self>) {
        self.completions.poll_again(&self.vendor);
        self.pump(Caller::Teller);
    }

    /// Acts on a device's call: it has called once, and the end there is not noted yet.
    pub(super) fn hear(self: &Arc<Self>, caller: Caller) {
        self.completions.poll_again(&self.vendor);
        match caller {
            Caller::Waiter => self.pump_and_leave(),
            _ => self.pump(caller),
        }
    }

    /// Pumps, by a thread that is about to sleep or to go.
    pub(super) fn pump_and_leave(self: &Arc<Self>) {
        self.pump(Caller::Waiter);
        if self.activity.is_left() {
            self.completions.call();
        }
        self.completions.attend();
    }

    /// Ends the pumping of this thread.
    fn cease(&self, ledger: &mut Ledger<V>, jobs_left: bool) {
        ledger.pumping = false;
        self.activity.left.store(jobs_left, Ordering::Relaxed);
        self.activity.busy.store(false, Ordering::Relaxed);
    }

    /// Does the jobs, unless another thread does.
    pub(super) fn pump(self: &Arc<Self>, caller: Caller) {
        self.pump_after(caller, |_| ());
    }

    /// Tells the ledger something, and does the jobs, unless another thread does.
    pub(super) fn pump_after(self: &Arc<Self>, caller: Caller, tell: impl FnOnce(&mut Ledger<V>)) {
        let mut ledger = self.ledger();
        match caller {
            Caller::Teller => false,
            // It has flushed the commands that it waits for.
            Caller::Waiter => ledger.absorb_seen(),
            Caller::Host | Caller::Drain => ledger.absorb(),
        };
        tell(&mut ledger);
        // The drain thread has other work as well. (Jobs that were left are taken up, if only to
        // find that there are none: a thread that waits looks at nothing else before.)
        let is_host = matches!(caller, Caller::Host | Caller::Waiter);
        let is_left = self.activity.is_left() || self.completions.has_notices();
        if is_host && !is_left && ledger.rests() {
            return;
        }
        loop {
            if ledger.pumping {
                return;
            }
            ledger.pumping = true;
            self.activity.busy.store(true, Ordering::Relaxed);
            self.activity.left.store(false, Ordering::Relaxed);
            let done = {
                let _inside = Inside::enter(&**self);
                let mut pumping = Pumping {
                    shared: self,
                    is_given_up: false,
                    untold: Untold::default(),
                };
                let done = self.do_jobs(caller, ledger, &mut pumping.untold);
                pumping.is_given_up = done;
                done
            };
            if !done {
                if caller != Caller::Waiter {
                    self.completions.call();
                }
                return;
            }
            // The notices since the last look, by a thread that saw us pumping.
            if !self.completions.has_notices() {
                break;
            }
            ledger = self.ledger();
        }
        if matches!(caller, Caller::Drain | Caller::Teller) {
            // It may sleep now, and others want the slots that it has freed.
            slab::flush();
        }
    }

    /// False if there are jobs left.
    fn do_jobs(
        self: &Arc<Self>,
        caller: Caller,
        ledger: MutexGuard<'_, Ledger<V>>,
        untold: &mut Untold<V>,
    ) -> bool {
        let mut jobs = 0;
        let mut locked = Some(ledger);
        loop {
            untold.strays.clear();
            let mut ledger = locked.take().unwrap_or_else(|| self.ledger());
            // Before ends are noted: one of them could free the line that a command is to enter.
            let away = untold.tell(&mut ledger);
            if away.as_ref().is_some_and(|away| away.loss.is_some()) {
                // Before another command begins to leave for that device.
                drop(ledger);
                self.watch(away);
                continue;
            }
            // Mostly nothing has ended meanwhile, and a look is cheaper than to take nothing.
            if self.completions.has_notices() {
                ledger = self.note_all(self.completions.take(), ledger);
            }
            let next = |ledger: &mut Ledger<V>| match caller {
                Caller::Teller => ledger.next_end(),
                _ => ledger.next_job(caller == Caller::Drain),
            };
            // Commands that come meanwhile may be more urgent.
            if jobs % BLIND == BLIND - 1 {
                ledger.absorb_seen();
            }
            let mut job = next(&mut ledger);
            if job.is_none() && caller != Caller::Teller && ledger.absorb_seen() {
                job = next(&mut ledger);
            }
            let leaves = job.is_none() && caller == Caller::Teller && ledger.has_jobs();
            let dirty = match job.is_none() && !leaves {
                true => ledger.take_dirty(),
                false => Vec::new(),
            };
            if away.is_none() && job.is_none() && dirty.is_empty() {
                if !leaves {
                    self.rest(caller, ledger);
                }
                return !leaves;
            }
            drop(ledger);
            self.watch(away);
            if let Some(job) = job {
                self.do_job(job, untold);
            }
            for device in dirty {
                self.flush_device(device);
            }
            jobs += 1;
            if matches!(caller, Caller::Host | Caller::Waiter) && jobs >= HOST_JOBS {
                return false;
            }
        }
    }

    /// Ends the pumping of this thread, because there is nothing to do.
    fn rest(&self, caller: Caller, mut ledger: MutexGuard<'_, Ledger<V>>) {
        // Under the lock: a thread that notes something from now on pumps itself.
        self.cease(&mut ledger, false);
        let is_host = matches!(caller, Caller::Host | Caller::Waiter);
        let ahead = is_host && ledger.has_gathering();
        let settles = (caller == Caller::Drain).then(|| ledger.settles());
        drop(ledger);
        if let Some(settles) = settles {
            self.completions.settle(settles);
        } else if ahead {
            self.completions.call();
        }
    }

    #[inline]
    fn do_job(self: &Arc<Self>, job: Job<V>, untold: &mut Untold<V>) {
        match job {
            Job::Prepare(key) => self.prepare(key),
            Job::Finish(key, arrival) => self.finish(key, arrival, untold),
            Job::Forward(key, departure) => self.forward(key, departure, untold),
            Job::ForwardWhole(whole) => self.forward_whole(whole),
            Job::Gather(batch, ungathered) => self.gather(batch, ungathered),
            Job::Make(batch, device, plan) => self.have_made(batch, device, plan),
            Job::Discard(unused) => self.workers.run(Box::new(move || drop(unused))),
        }
    }

    /// Takes note of ended commands: of those that ended well, together.
    fn note_all<'a>(
        &'a self,
        notices: Notices<V>,
        mut ledger: MutexGuard<'a, Ledger<V>>,
    ) -> MutexGuard<'a, Ledger<V>> {
        for notice in notices {
            if let Ok(Ok(())) = notice.result {
                ledger.noted(notice.key, Ok(()), notice.seen);
            } else {
                drop(ledger);
                self.note(notice);
                ledger = self.ledger();
            }
        }
        ledger
    }

    /// Takes note of a command's end, or of that nobody will hear of it.
    fn note(&self, notice: Notice<V>) {
        let Notice { key, result, seen } = notice;
        match result {
            Ok(mut result) => {
                if let Err(failure) = &result
                    && failure.is_of_a_wait()
                {
                    // Perhaps of its own: a later part of it, after its kernel or a piece, only
                    // waits for that.
                    let points = self.ledger().points(key);
                    let mut states = points.iter().map(|point| self.vendor.status(point));
                    let own = states.find_map(|state| match state {
                        Ok(Some(Err(failure))) if !failure.is_of_a_wait() => Some(failure),
                        _ => None,
                    });
                    result = Err(own.unwrap_or_else(|| failure.clone()));
                }
                self.ledger().noted(key, result, seen);
            }
            Err(failure) => {
                let held = self.ledger().away(key);
                if let Some(held) = held {
                    self.lose(held, &failure.text());
                }
            }
        }
    }

    /// Has a device begin. If it does not, it is told again, and in the end taken to be lost: its
    /// commands may never run, and may be run at any time.
    fn flush_device(&self, number: usize) {
        let device = self.device(number);
        let Err(failure) = self.vendor.flush(device) else {
            return self.ledger().flushed(number);
        };
        quietly(|| tracing::error!(device = device.name(), error = failure.text(), "flush"));
        let again = !failure.is_loss() && self.ledger().flush_again(number);
        if again {
            // The thread that uses the device's resources may need the core.
            std::thread::yield_now();
            return;
        }
        let held = self.ledger().any_away(number);
        if let Some(held) = held {
            self.lose(held, &failure.text());
        }
    }

    /// Has all devices begin with their commands; false if this one is lost.
    fn flush_for(&self, number: usize) -> bool {
        loop {
            let dirty = self.ledger().take_dirty();
            if dirty.is_empty() {
                return !self.ledger().lanes[number].lost;
            }
            for device in dirty {
                self.flush_device(device);
            }
        }
    }

    fn forward(self: &Arc<Self>, key: Key, departure: Departure<V>, untold: &mut Untold<V>) {
        let Departure {
            held,
            device: number,
            executor,
            lost: is_lost,
            waits,
            line,
            seen_to,
        } = departure;
        let device = self.device(number);
        // A user's code may wait for commands there, which have to begin for that.
        let is_lost = is_lost || (executor == Executor::DeviceOnce && !self.flush_for(number));
        if is_lost {
            let known = |command: &Command| command.queue().device()?.lost().cloned();
            // SAFETY: only the pump finishes commands, and it does not now.
            let known = unsafe { held.with(known) };
            let error = known.unwrap_or_else(|| lost(device.name(), "an earlier command lost it"));
            return self.end_here(key, Err(error));
        }
        let mut passed = Passed::default();
        let code = |command: &Command| self.code_of(key, number, held, command, &mut passed);
        // SAFETY: only the pump finishes commands, and it does not now.
        let compiled = match unsafe { held.with(code) } {
            Ok(compiled) => compiled,
            Err(Delay::Building) => return self.ledger().hold_for_code(key),
            Err(Delay::Never(error)) => return self.end_here(key, Err(error)),
        };
        let start = |command: &Command| {
            command.submitted();
            command.start()
        };
        // SAFETY: only the pump finishes commands, and it does not now.
        if unsafe { held.with(start) }.is_err() {
            // The core says why when the command is ours.
            return self.ledger().hold_refused(key);
        }
        // SAFETY: as above.
        if unsafe { held.with(is_nothing) } {
            return self.end_here(key, Ok(()));
        }
        if executor == Executor::Host {
            // While it can wait: the thread could not.
            let take = |command: &Command| Work::new(self, number, held, command).take_memory();
            // SAFETY: as above.
            if let Err(error) = unsafe { held.with(take) } {
                return self.obstructed(key, device, held, error.into());
            }
            self.ledger().taken(key);
            return self.have_done_here(key, number, held);
        }
        let put = |command: &Command| {
            let polled = command.queue().options().completion == Completion::Polling;
            let work = Work::new(self, number, held, command);
            let code = compiled.as_ref().map(|compiled| CodeRef {
                compiled,
                passed: &passed,
            });
            let flight = self.vendor.put(&work, code, &waits)?;
            Ok((flight, polled, Put::now(&self.vendor, command)))
        };
        // SAFETY: only the pump finishes commands, and it does not now.
        let (flight, polled, put) = match unsafe { held.with(put) } {
            Ok(put) => put,
            Err(obstacle) => return self.obstructed(key, device, held, obstacle),
        };
        untold.forwarded = Some(Forwarded {
            key,
            held,
            device: number,
            flight,
            line,
            polled,
            seen_to,
            put,
        });
    }

    /// Has the end of a command noted that is away.
    fn watch(&self, away: Option<Away<V>>) {
        let Some(away) = away else {
            return;
        };
        let signal = V::TELLS.then(|| away.watched.signal.clone());
        self.completions.watch([away.watched]);
        if signal.is_some_and(|signal| !matches!(self.vendor.status(&signal), Ok(None))) {
            // It was told of before it was watched.
            self.completions.poll_again(&self.vendor);
        }
        if let Some(reason) = away.loss {
            self.lose(away.held, &reason);
        }
    }

    /// A command could not be put on its device.
    fn obstructed(
        &self,
        key: Key,
        device: &V::Device,
        held: CommandRef,
        obstacle: Obstacle<V::Failure>,
    ) {
        let is_alone = self.ledger().is_alone(key);
        let hold_for_memory = || {
            let mut ledger = self.ledger();
            // With the ledger locked: a host task that waits later than this finds the command
            // held, and has it tried again.
            let waiting = self.workers.waiting();
            ledger.hold_for_memory(key, waiting)
        };
        let (failure, may_wait) = match obstacle {
            Obstacle::Error(error) => {
                let waits =
                    matches!(error.kind(), ErrorKind::OutOfMemory { .. }) && hold_for_memory();
                if !waits {
                    // A program that sees this error must find the bytes poisoned that the device
                    // held.
                    if let ErrorKind::DeviceLost { device: of, reason } = error.kind()
                        && of == device.name()
                    {
                        self.lose(held, reason);
                    }
                    self.end_here(key, Err(error));
                }
                return;
            }
            Obstacle::Call(failure) if failure.is_of_a_wait() && !is_alone => {
                return self.ledger().hold_alone(key);
            }
            Obstacle::Call(failure) => (failure, true),
            Obstacle::Spent(failure) => (failure, false),
        };
        if failure.is_loss() {
            self.lose(held, &failure.text());
        } else if failure.is_out_of_memory() && may_wait && hold_for_memory() {
            return;
        }
        // SAFETY: only the pump finishes commands, and it does not now.
        let what = unsafe { held.with(|command| format!("run '{}'", command.label())) };
        self.end_here(key, Err(of_call(device.name(), &what, &failure)));
    }

    fn end_here(&self, key: Key, result: Result<()>) {
        self.ledger().end(key, Some(Ended::Here(result)));
    }

    /// Has a thread of the host do a command.
    fn have_done_here(self: &Arc<Self>, key: Key, device: usize, held: CommandRef) {
        let shared = self.clone();
        let is_users = |command: &Command| matches!(command.operation(), Operation::HostTask);
        // SAFETY: only the pump finishes commands, and it does not now.
        let is_users = unsafe { held.with(is_users) };
        let task: Task = Box::new(move || {
            let run = |command: &Command| Work::new(&shared, device, held, command).do_here();
            // SAFETY: the command is ready, and finished only when this has returned; it is run
            // here only.
            let result = unsafe { held.with(run) };
            shared.ledger().done_here(key, result);
            shared.pump(Caller::Host);
        });
        if is_users {
            self.workers.run_users(task);
        } else {
            self.workers.run(task);
        }
    }

    /// Finishes a command that is ours and over.
    fn finish(&self, key: Key, arrival: Arrival<V>, untold: &mut Untold<V>) {
        let Arrival {
            command,
            held,
            device: number,
            flight,
            ended,
        } = arrival;
        let seen = match &ended {
            Some(Ended::There { seen, .. }) => *seen,
            _ => clock::now_ns(),
        };
        let is_given_up = matches!(ended, Some(Ended::Here(_)));
        let work = Work::new(self, number, held, &command);
        let mut result = self.result_of(&work, ended);
        let mut time = None;
        if let Some(mut flight) = flight {
            time = self.vendor.note_times(&work, &flight, seen);
            if let (Ok(()), Some(failure)) = (&result, flight.failure.take()) {
                let what = format!("run '{}'", command.label());
                result = Err(of_call(self.device(number).name(), &what, &failure));
            }
            if let (Ok(()), Some(error)) = (&result, flight.error.take()) {
                result = Err(error);
            }
            if is_given_up {
                // Its device is lost, and may still be writing.
                std::mem::forget(flight);
                if V::WORKS_WHEN_LOST {
                    keep_memory_for_good(&command);
                }
            } else if result.is_ok() {
                result = self.vendor.land(&work, flight);
            }
        }
        untold.finished.push(key);
        let mut released = Released {
            driver: self.this.as_ptr(),
            ready: &mut untold.ready,
        };
        command.finish_at(result, time, &mut released);
    }

    /// The result of a command.
    fn result_of(&self, work: &Work<'_, V>, ended: Option<Ended<V::Failure>>) -> Result<()> {
        let (command, device) = (work.command(), work.device());
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
        let what = || format!("run '{}'", command.label());
        match ended {
            Some(Ended::Here(result)) => result,
            Some(Ended::There { result: Ok(()), .. }) => Ok(()),
            Some(Ended::There {
                result: Err(failure),
                ..
            }) => {
                if failure.is_loss() {
                    self.lose_device_of(command, &failure.text());
                }
                Err(of_call(device.name(), &what(), &failure))
            }
            None => {
                let message = "it was neither run nor refused".to_owned();
                Err(of_device(device.name(), &what(), message))
            }
        }
    }

    pub(super) fn lose(&self, held: CommandRef, reason: &str) {
        // SAFETY: only the pump finishes commands, and it does not now.
        unsafe { held.with(|command| self.lose_device_of(command, reason)) };
    }

    /// Tells the core of the loss of a command's device, if it does not know, and fails the
    /// commands there.
    fn lose_device_of(&self, command: &Command, reason: &str) {
        let number = command.queue().device_index();
        if let Some(device) = command.queue().device()
            && device.lost().is_none()
        {
            Context::device_lost(device, reason, true);
        }
        let error: Error = lost(self.device(number).name(), reason);
        self.ledger().lose(number, &error);
    }
}

/// Keeps for good the memory that a command uses.
fn keep_memory_for_good(command: &Command) {
    match command.operation() {
        Operation::Graph(graph) => {
            graph.for_each_command(|command, _| keep_arguments_for_good(command));
            // It has the host memory of its transfers.
            std::mem::forget(graph.clone());
        }
        Operation::Transfer(transfer) => {
            for endpoint in [&transfer.source, &transfer.destination] {
                std::mem::forget(endpoint.clone());
            }
        }
        _ => {}
    }
    keep_arguments_for_good(command);
}

fn keep_arguments_for_good(command: &CommandView) {
    for argument in command.arguments() {
        argument.memory().keep_for_good();
    }
}
