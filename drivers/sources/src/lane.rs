//! A device's threads, and their work on commands.
//!
//! Commands are run in the order in which they became ready, by a free thread of the device. One
//! that has to wait for its time, as for a frame that is not due, is put aside for as long. A host
//! task may wait for a command of the same device, so each has a thread of its own.

use crate::NAME;
use crate::passed::Arguments;
use quipu_scheduler::command::{ToDrivers, slab};
use quipu_scheduler::event::refuse_waits;
use quipu_scheduler::native::panicked;
use quipu_scheduler::operation::Operation;
use quipu_scheduler::panics::quietly;
use quipu_scheduler::process::or_end;
use quipu_scheduler::{
    BuiltIn, BuiltInKernel, Command, Error, ErrorKind, Passed, RawArgument, Result,
};
use quipu_threads::Start;
use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// A device that runs built-in kernels.
pub(crate) trait BuiltInDevice: Send + Sync + 'static {
    /// Its name.
    fn name(&self) -> &str;

    /// The kernels that it has.
    fn kernels(&self) -> &[BuiltInKernel];

    /// The number of commands that it runs at once.
    fn threads(&self) -> usize;

    /// The time from now on until this launch is due.
    fn wait(&self, kernel: &str, arguments: &Arguments<'_>) -> Duration {
        let _ = (kernel, arguments);
        Duration::ZERO
    }

    /// Runs a kernel that it has.
    ///
    /// # Errors
    /// The fault, for people.
    fn run(&self, kernel: &str, arguments: &mut Arguments<'_>) -> std::result::Result<(), String>;
}

/// The longest sleep of a thread that waits for the time of a command, before it looks whether that
/// was cancelled.
const LOOK: Duration = Duration::from_millis(20);

/// The longest wait: no program runs for so long.
const LONGEST: Duration = Duration::from_secs(100 * 366 * 24 * 60 * 60);

/// See the module.
pub(crate) struct Lane(Arc<Shared>);

struct Shared {
    device: Box<dyn BuiltInDevice>,
    state: Mutex<State>,
    changed: Condvar,
    /// Commands of the driver that are not over.
    unfinished: Arc<AtomicU64>,
}

#[derive(Default)]
struct State {
    ready: VecDeque<Command>,
    /// Commands that wait for their time, with that time.
    aside: Vec<(Instant, Command)>,
    is_closed: bool,
}

impl std::fmt::Debug for Lane {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.device.name().fmt(formatter)
    }
}

impl Drop for Lane {
    fn drop(&mut self) {
        self.0.state().is_closed = true;
        self.0.changed.notify_all();
    }
}

impl Lane {
    /// Starts the device's threads.
    pub(crate) fn start(
        device: Box<dyn BuiltInDevice>,
        unfinished: &Arc<AtomicU64>,
    ) -> std::io::Result<Self> {
        let lane = Self(Arc::new(Shared {
            device,
            state: Mutex::default(),
            changed: Condvar::new(),
            unfinished: Arc::clone(unfinished),
        }));
        for _ in 0..lane.0.device.threads() {
            let own = Arc::clone(&lane.0);
            std::thread::Builder::new()
                .name("quipu-source".to_owned())
                .start(move || or_end("quipu-source", || own.run_all()))?;
        }
        Ok(lane)
    }

    pub(crate) fn device(&self) -> &dyn BuiltInDevice {
        &*self.0.device
    }

    /// Has a command run.
    pub(crate) fn take(&self, command: Command) {
        self.0.state().ready.push_back(command);
        self.0.changed.notify_one();
    }
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The life of each thread, until the driver is gone.
    fn run_all(self: &Arc<Self>) {
        refuse_waits(Some(
            "this is a thread of a source or a decoder, which runs its commands; wait on another thread, or enqueue \
             what comes after",
        ));
        let mut state = self.state();
        loop {
            if let Some(command) = state.ready.pop_front() {
                drop(state);
                let wait = self.wait_of(&command);
                if wait.is_zero() {
                    self.do_now(command);
                    state = self.state();
                    continue;
                }
                state = self.state();
                state
                    .aside
                    .push((Instant::now() + wait.min(LONGEST), command));
            } else if state.is_closed && state.aside.is_empty() {
                return;
            }
            let now = Instant::now();
            let is_due =
                |(at, command): &(Instant, Command)| *at <= now || command.id().is_refused();
            let is_closed = state.is_closed;
            if let Some(number) = state
                .aside
                .iter()
                .position(|aside| is_closed || is_due(aside))
            {
                let (_, command) = state.aside.remove(number);
                drop(state);
                self.do_now(command);
                state = self.state();
                continue;
            }
            if !state.ready.is_empty() {
                continue;
            }
            let next = state.aside.iter().map(|(at, _)| *at).min();
            // Slots that it has freed are others' to use while it sleeps; not with the lock, which
            // a thread that is woken by that may want.
            drop(state);
            slab::flush();
            state = self.state();
            if !state.ready.is_empty() || state.is_closed {
                continue;
            }
            state = match next {
                Some(at) => {
                    let wait = at.saturating_duration_since(Instant::now()).min(LOOK);
                    let waited = self.changed.wait_timeout(state, wait);
                    waited.unwrap_or_else(PoisonError::into_inner).0
                }
                None => {
                    let waited = self.changed.wait(state);
                    waited.unwrap_or_else(PoisonError::into_inner)
                }
            };
        }
    }

    /// The time until a command is due.
    fn wait_of(&self, command: &Command) -> Duration {
        if !matches!(command.operation(), Operation::Launch { groups: 1.. }) {
            return Duration::ZERO;
        }
        let looked = catch_unwind(AssertUnwindSafe(|| {
            let (kernel, passed) = self.launched(command).ok()?;
            // SAFETY: it is ready, and this thread's.
            let arguments = unsafe { Arguments::of(command, kernel, &passed) }.ok()?;
            Some(self.device.wait(&kernel.name, &arguments))
        }));
        // A fault in it is found again as it runs.
        looked.ok().flatten().unwrap_or_default()
    }

    /// Runs a command, or has another thread do it, and ends it.
    fn do_now(self: &Arc<Self>, command: Command) {
        if matches!(command.operation(), Operation::HostTask) {
            let own = Arc::clone(self);
            let started = std::thread::Builder::new()
                .name("quipu-source-task".to_owned())
                .start(move || {
                    own.finish(command);
                    slab::flush();
                });
            if let Err(error) = started {
                // The command has gone with the closure, and so has failed.
                quietly(|| tracing::error!(%error, "no thread for a host task"));
                self.unfinished.fetch_sub(1, Ordering::SeqCst);
            }
            return;
        }
        self.finish(command);
    }

    fn finish(&self, command: Command) {
        let run = || command.start().and_then(|()| self.perform(&command));
        let result = catch_unwind(AssertUnwindSafe(run))
            .unwrap_or_else(|panic| Err(panicked(command.label(), panic)));
        self.end(command, result);
    }

    fn end(&self, command: Command, result: Result<()>) {
        command.finish(result, &mut ToDrivers);
        self.unfinished.fetch_sub(1, Ordering::SeqCst);
    }

    /// The kernel that a command launches, and its parameters.
    fn launched(&self, command: &Command) -> Result<(&BuiltInKernel, Passed)> {
        let kernels = self.device.kernels();
        let portable = command.portable();
        let code = portable.map(|portable| portable.code()).transpose()?;
        let code = code
            .as_ref()
            .and_then(|code| code.downcast_ref::<BuiltIn>());
        let (Some(portable), Some(BuiltIn(name))) = (portable, code) else {
            return Err(self.refused(command.label()));
        };
        let kernel = BuiltInKernel::find(kernels, name, self.device.name())?;
        let mut passed = Passed::default();
        portable.pass(command.arguments(), &mut passed)?;
        Ok((kernel, passed))
    }

    fn refused(&self, what: &str) -> Error {
        ErrorKind::Unsupported {
            driver: NAME,
            what: format!(
                "run '{what}' on '{}', which has {} built in and takes no others",
                self.device.name(),
                BuiltInKernel::list(self.device.kernels())
            ),
            instead: "launch one of these by name, or use another device",
        }
        .into()
    }

    fn perform(&self, command: &Command) -> Result<()> {
        let resolve = || -> Result<Vec<RawArgument>> {
            let arguments = command.arguments().iter();
            arguments
                .map(quipu_scheduler::access::Argument::on_host)
                .collect()
        };
        match command.operation() {
            Operation::Launch { groups: 0 } | Operation::Nothing => Ok(()),
            Operation::Launch { .. } => {
                let (kernel, passed) = self.launched(command)?;
                // SAFETY: it is started, and finished when this has returned.
                let mut arguments = unsafe { Arguments::of(command, kernel, &passed) }?;
                let ran = self.device.run(&kernel.name, &mut arguments);
                ran.map_err(|message| {
                    ErrorKind::Kernel {
                        what: format!("'{}' on '{}'", kernel.name, self.device.name()),
                        message,
                    }
                    .into()
                })
            }
            Operation::Transfer(transfer) => {
                let arguments = resolve()?;
                // SAFETY: the arguments were just resolved; hazards keep others away.
                unsafe { transfer.copy(&arguments) };
                Ok(())
            }
            Operation::Fill(fill) => {
                let arguments = resolve()?;
                if let Some(first) = arguments.first() {
                    // SAFETY: as above.
                    unsafe { fill.fill(*first) };
                }
                Ok(())
            }
            // SAFETY: started, resolved, run once.
            Operation::HostTask => unsafe { command.run_native(&resolve()?, 0..1) },
            _ => Err(self.refused(command.label())),
        }
    }
}
