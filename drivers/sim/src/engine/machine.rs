//! A simulation that runs by itself: one simulator thread for all devices, in lock step, or the
//! caller's own thread.
//!
//! # Protocol
//!
//! 1. The simulation is behind a lock that is held for bookkeeping only. Effects, publications,
//!    callbacks and the drops of effects run with no lock held, so the host's calls return at once,
//!    and may come from any of these.
//! 2. One thread at a time is the *stepper*. It takes the next work under the lock, lets go, does
//!    it, and takes the lock again to hand the result back. Others that want to step sleep until it
//!    is done.
//! 3. Idle, the simulator thread sleeps on a condition variable; the host's calls wake it. Nothing
//!    polls.
//! 4. Notices go to the callback, which is called by the stepper after it has stopped being one.
//!    With a thread, and no other thread stepping, they come in order.
//! 5. Dropping the machine switches it off: commands that have not ended fail with
//!    [`Failure::ShutDown`], the callback hears of it, and the thread ends. Nobody waits for that:
//!    the thread may be inside of a user's code, which may need a lock that the thread that drops
//!    the machine holds.
//!
//! [`Failure::ShutDown`]: super::Failure::ShutDown

use quipu_threads::Start;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::ThreadId;
use std::time::Duration;

use quipu_scheduler::panics::drop_panic;
use quipu_scheduler::process::{is_forked, or_end};

use super::command::{Command, CommandId, KernelId, Notice};
use super::configuration::{Configuration, ConfigurationError, DeviceId, SpaceId};
use super::memory::{DeviceAddress, MemoryError};
use super::simulation::{HostError, Next, Simulation};
use super::status::{Status, StatusError, StatusSlot};
use super::upload::Refusal;

/// The threads that step the simulation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// A thread of the machine's own.
    Threaded,
    /// Nobody but the callers of [`Machine::step`] and [`Machine::run_while`]: for deterministic
    /// tests.
    Manual,
}

/// The outcome of one step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Progress {
    /// Something happened.
    Moved,
    /// Nothing will, until the host does something.
    Idle,
    /// The caller is inside an effect, which the step it is part of waits for.
    Nested,
}

/// The reason for which [`Machine::run_while`] returned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RunEnd {
    /// The condition no longer holds.
    Done,
    /// It still holds, and nothing will change that until the host does something.
    Idle,
    /// The caller is inside an effect, which the step it is part of waits for.
    Nested,
}

/// The reason for which there is no machine.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum MachineError {
    /// The configuration could not work.
    #[error(transparent)]
    Configuration(#[from] ConfigurationError),
    /// The system gave no thread.
    #[error("no thread for the simulated machine: {0}")]
    Thread(#[from] std::io::Error),
}

struct State {
    simulation: Simulation,
    stepper: Option<ThreadId>,
    asleep: bool,
    stop: bool,
}

struct Shared {
    state: Mutex<State>,
    /// The simulator thread sleeps here.
    wake: Condvar,
    /// Threads that want to be the stepper sleep here.
    stepped: Condvar,
    callback: Box<dyn Fn(Notice) + Send + Sync>,
    callback_panics: AtomicU64,
}

/// The time for which a thread that wants to step waits for another one's step before it looks
/// whether it still wants to.
const LOOK: Duration = Duration::from_millis(1);

/// The number of inner steps that are done under one hold of the lock.
const STEPS_PER_LOCK: usize = 32;

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn step(&self) -> Progress {
        self.step_while(&mut || true).unwrap_or(Progress::Idle)
    }

    /// One step: a few bookkeeping events, or one piece of work, or one notice. None if `pending`
    /// says no while another thread steps: that thread's work may take any time.
    fn step_while(&self, pending: &mut dyn FnMut() -> bool) -> Option<Progress> {
        let me = std::thread::current().id();
        let mut state = self.lock();
        if state.stepper == Some(me) {
            return Some(Progress::Nested);
        }
        while state.stepper.is_some() {
            let waited = self.stepped.wait_timeout(state, LOOK);
            let (guard, waited) = waited.unwrap_or_else(PoisonError::into_inner);
            state = guard;
            if waited.timed_out() {
                drop(state);
                if !pending() {
                    return None;
                }
                state = self.lock();
            }
        }
        let mut next = state.simulation.advance();
        for _ in 1..STEPS_PER_LOCK {
            if !matches!(next, Next::Moved) {
                break;
            }
            let discarded = state.simulation.take_discarded();
            if !discarded.is_empty() {
                drop(state);
                drop(discarded);
                return Some(Progress::Moved);
            }
            next = state.simulation.advance();
        }
        let discarded = state.simulation.take_discarded();
        let (progress, notice) = match next {
            Next::Idle => (Progress::Idle, None),
            // Work is out only while there is a stepper, and there is none.
            Next::Moved | Next::Busy => (Progress::Moved, None),
            Next::Notice(notice) => (Progress::Moved, Some(notice)),
            Next::Work(work) => {
                state.stepper = Some(me);
                drop(state);
                let worked = work.run();
                if is_forked() {
                    // The work has made this child, where another thread may have had the lock.
                    std::mem::forget((worked, discarded));
                    return Some(Progress::Moved);
                }
                let mut state = self.lock();
                state.stepper = None;
                state.simulation.finish(worked);
                let late = state.simulation.take_discarded();
                drop(state);
                self.stepped.notify_all();
                drop(late);
                drop(discarded);
                return Some(Progress::Moved);
            }
        };
        drop(state);
        drop(discarded);
        if let Some(notice) = notice {
            self.tell(notice);
        }
        Some(progress)
    }

    fn tell(&self, notice: Notice) {
        if let Err(panic) = catch_unwind(AssertUnwindSafe(|| (self.callback)(notice))) {
            drop_panic(panic);
            self.callback_panics.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// The life of the simulator thread.
    fn run(&self) {
        loop {
            while self.step() == Progress::Moved {
                if self.lock().stop {
                    return self.shut_down();
                }
            }
            let mut state = self.lock();
            while !state.stop && state.simulation.is_idle() {
                state.asleep = true;
                state = self
                    .wake
                    .wait(state)
                    .unwrap_or_else(PoisonError::into_inner);
                state.asleep = false;
            }
            if state.stop {
                drop(state);
                return self.shut_down();
            }
        }
    }

    fn shut_down(&self) {
        let mut state = self.lock();
        while state.stepper.is_some() {
            state = self
                .stepped
                .wait(state)
                .unwrap_or_else(PoisonError::into_inner);
        }
        state.simulation.shut_down();
        drop(state);
        while self.step() == Progress::Moved {}
    }
}

/// A simulated machine that runs: in a thread of its own, or as its callers step it. Effects,
/// callbacks and the drops of effects happen with no lock held. Dropping it fails commands that
/// have not ended, and has the thread end.
pub struct Machine {
    shared: Arc<Shared>,
    mode: Mode,
    /// The process that has switched it on.
    process: u32,
}

impl Machine {
    /// Switches a machine on. `callback` gets every notice, with no lock held; it may call the
    /// machine.
    ///
    /// # Errors
    ///
    /// If the configuration could not work, or the system gives no thread.
    pub fn new(
        configuration: Configuration,
        mode: Mode,
        callback: impl Fn(Notice) + Send + Sync + 'static,
    ) -> Result<Self, MachineError> {
        let shared = Arc::new(Shared {
            state: Mutex::new(State {
                simulation: Simulation::new(configuration)?,
                stepper: None,
                asleep: false,
                stop: false,
            }),
            wake: Condvar::new(),
            stepped: Condvar::new(),
            callback: Box::new(callback),
            callback_panics: AtomicU64::new(0),
        });
        if mode == Mode::Threaded {
            let shared = Arc::clone(&shared);
            let builder = std::thread::Builder::new().name("quipu-simulator".to_owned());
            builder.start(move || or_end("quipu-sim", || shared.run()))?;
        }
        Ok(Self {
            shared,
            mode,
            process: std::process::id(),
        })
    }

    /// The threads that step it.
    #[must_use]
    pub fn mode(&self) -> Mode {
        self.mode
    }

    /// Does something with the simulation under the lock, and wakes the simulator if that gave it
    /// something to do. For uses that have no method here; `work` must neither step nor call the
    /// machine.
    pub fn with<R>(&self, work: impl FnOnce(&mut Simulation) -> R) -> R {
        let mut state = self.shared.lock();
        let result = work(&mut state.simulation);
        let discarded = state.simulation.take_discarded();
        let wake = state.asleep && !state.simulation.is_idle();
        drop(state);
        if wake {
            self.shared.wake.notify_one();
        }
        drop(discarded);
        result
    }

    /// As [`Simulation::try_upload`].
    ///
    /// # Errors
    ///
    /// As there.
    pub fn try_upload(&self, command: Command) -> Result<CommandId, Refusal> {
        self.with(|simulation| simulation.try_upload(command))
    }

    /// As [`Simulation::credits`].
    #[must_use]
    pub fn credits(&self, device: DeviceId) -> usize {
        self.with(|simulation| simulation.credits(device))
    }

    /// As [`Simulation::recall`].
    pub fn recall(&self, command: CommandId) -> bool {
        self.with(|simulation| simulation.recall(command))
    }

    /// As [`Simulation::prepare_kernels`].
    ///
    /// # Errors
    ///
    /// As there.
    pub fn prepare_kernels(&self, device: DeviceId, kernels: &[KernelId]) -> Result<(), HostError> {
        self.with(|simulation| simulation.prepare_kernels(device, kernels))
    }

    /// As [`Simulation::lose_device`].
    ///
    /// # Errors
    ///
    /// As there.
    pub fn lose_device(&self, device: DeviceId) -> Result<(), HostError> {
        self.with(|simulation| simulation.lose_device(device))
    }

    /// As [`Simulation::allocate`].
    ///
    /// # Errors
    ///
    /// As there.
    pub fn allocate(
        &self,
        space: SpaceId,
        size: u64,
        alignment: u64,
    ) -> Result<DeviceAddress, MemoryError> {
        self.with(|simulation| simulation.allocate(space, size, alignment))
    }

    /// As [`Simulation::free`].
    ///
    /// # Errors
    ///
    /// As there.
    pub fn free(&self, address: DeviceAddress) -> Result<(), MemoryError> {
        self.with(|simulation| simulation.free(address))
    }

    /// As [`Simulation::reserve_status`].
    ///
    /// # Errors
    ///
    /// As there.
    pub fn reserve_status(&self, space: SpaceId) -> Result<StatusSlot, StatusError> {
        self.with(|simulation| simulation.reserve_status(space))
    }

    /// As [`Simulation::release_status`].
    ///
    /// # Errors
    ///
    /// As there.
    pub fn release_status(&self, slot: StatusSlot) -> Result<(), StatusError> {
        self.with(|simulation| simulation.release_status(slot))
    }

    /// As [`Simulation::set_status`].
    ///
    /// # Errors
    ///
    /// As there.
    pub fn set_status(&self, slot: StatusSlot, status: Status) -> Result<(), StatusError> {
        self.with(|simulation| simulation.set_status(slot, status))
    }

    /// One step on the caller's thread. Beside the machine's own thread it helps it.
    pub fn step(&self) -> Progress {
        self.shared.step()
    }

    /// Steps on the caller's thread while `pending` holds: how a host thread joins in manual mode.
    pub fn run_while(&self, mut pending: impl FnMut() -> bool) -> RunEnd {
        while pending() {
            match self.shared.step_while(&mut pending) {
                Some(Progress::Moved) => {}
                Some(Progress::Idle) if pending() => return RunEnd::Idle,
                Some(Progress::Idle) => {}
                Some(Progress::Nested) => return RunEnd::Nested,
                None => return RunEnd::Done,
            }
        }
        RunEnd::Done
    }

    /// True if the machine's thread sleeps, using no processor time, until the host does something.
    #[must_use]
    pub fn is_asleep(&self) -> bool {
        self.shared.lock().asleep
    }

    /// The number of calls of the callback that have panicked. Each was contained.
    #[must_use]
    pub fn callback_panics(&self) -> u64 {
        self.shared.callback_panics.load(Ordering::Relaxed)
    }
}

impl Drop for Machine {
    fn drop(&mut self) {
        if self.process != std::process::id() {
            // In a child of `fork`, the thread is not here, and may have had the machine locked.
            return;
        }
        self.shared.lock().stop = true;
        match self.mode {
            Mode::Manual => self.shared.shut_down(),
            Mode::Threaded => self.shared.wake.notify_one(),
        }
    }
}

impl std::fmt::Debug for Machine {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter
            .debug_struct("Machine")
            .field("mode", &self.mode())
            .finish_non_exhaustive()
    }
}
