//! The `serial` device: the caller's thread, one command after another.
//!
//! The thread that makes a command ready runs it: the thread that enqueues it, or that ends its
//! last wait. Deterministic in a program of one thread; for debugging. It calls back when it has
//! run all of its commands, or when one of its commands waits.
//!
//! A thread that is inside of one of its commands may wait there:
//!
//! 1. The core refuses a wait for an event that cannot be over before that command is.
//! 2. Of the commands that this thread is to run next, those that the wait needs are run inside of
//!    the wait, in the order in which the wait needs them. The others are left until the command is
//!    over: one of them may wait for that.
//! 3. Then the thread sleeps until the end of its wait, by another device or the thread that
//!    completes a user event. While commands are left, it looks now and then whether the wait has
//!    come to need one, because another thread waits for it by now.
//!
//! So a command that waits for a user event holds up the enqueue that runs it, until another thread
//! completes that event.
//!
//! A new thread runs a user's code of this device if the thread that makes it ready must not:
//!
//! * A thread of another driver must not wait.
//! * A thread that waits may be the one that the code waits for.
//!
//! Only a thread that steps a simulated machine by hand runs all of it, in an order that is always
//! the same.
//!
//! A new thread also takes the commands that a command with a long wait would leave until it is
//! over: another thread may need them.

use crate::device;
use crate::pool::Arguments;
use crate::pool::worker::{panicked, resolve};
use crate::queue::CpuQueue;
use quipu_scheduler::command::{KeptCallbacks, ToDrivers, slab};
use quipu_scheduler::driver::Notification;
use quipu_scheduler::error::{Error, Result};
use quipu_scheduler::event::{Joiner, Waiter, is_waiting, may_wait, replace_joiner, works_alone};
use quipu_scheduler::operation::Operation;
use quipu_scheduler::panics::quietly;
use quipu_scheduler::process::is_forked;
use quipu_scheduler::queue::QueueShared;
use quipu_scheduler::{Command, DeviceProperties, Driver};
use quipu_threads::{Start, UsualArithmetic};
use std::any::{Any, TypeId};
use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::marker::PhantomData;
use std::mem::ManuallyDrop;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// The driver of the serial device.
#[derive(Debug, Default)]
pub struct SerialDriver(());

thread_local! {
    /// The commands that this thread has made ready; `Some` while it runs them.
    // Without a destructor, and none when nothing is run: a thread-local that is dropped may wait.
    static READY: ManuallyDrop<RefCell<Option<VecDeque<Command>>>> =
        const { ManuallyDrop::new(RefCell::new(None)) };
}

/// Threads that run commands of the serial device now.
static BUSY: AtomicUsize = AtomicUsize::new(0);

thread_local! {
    /// True if this is one of them.
    static BUSY_HERE: Cell<bool> = const { Cell::new(false) };
    /// The joiner of the thread before it entered a command of the device.
    static OUTER: Cell<Option<Joiner>> = const { Cell::new(None) };
    /// The time for which this thread sleeps next before such a look. Waits with time limits that
    /// come one after the other count together.
    static PAUSE: Cell<Duration> = const { Cell::new(PAUSES[0]) };
}

/// Counts a thread as running commands.
struct Counted(());

impl Counted {
    fn enter() -> Self {
        BUSY.fetch_add(1, Ordering::SeqCst);
        Self(())
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        BUSY.fetch_sub(1, Ordering::SeqCst);
    }
}

/// Says, while it lives, that this thread runs commands.
struct Busy(Counted, PhantomData<*const ()>);

impl Busy {
    fn enter() -> Self {
        let counted = Counted::enter();
        BUSY_HERE.set(true);
        PAUSE.set(PAUSES[0]);
        OUTER.set(replace_joiner(Some(join_inside)));
        Self(counted, PhantomData)
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        replace_joiner(OUTER.take());
        BUSY_HERE.set(false);
    }
}

/// The time for which a thread sleeps between two looks for commands that its wait has come to
/// need, at first and at most.
const PAUSES: [Duration; 2] = [Duration::from_millis(1), Duration::from_millis(100)];

/// The wait of a thread that is inside of a command of the device: see the module.
fn join_inside(waiter: &Waiter<'_>) -> Result<()> {
    let sleep = |waiter: &Waiter<'_>| match OUTER.get() {
        Some(joiner) => joiner(waiter),
        None => waiter.rest(),
    };
    let [shortest, longest] = PAUSES;
    while !waiter.is_done() && !waiter.is_late() {
        if let Some(command) = take_needed(waiter) {
            run(command);
            PAUSE.set(shortest);
        } else {
            let has_none = READY.with(|ready| ready.borrow().iter().flatten().next().is_none());
            // Ends on this thread meanwhile may bring some; to step a machine does so all the time.
            let is_long = has_none && !waiter.is_stepped();
            let pause = if is_long { longest } else { PAUSE.get() };
            sleep(&waiter.for_at_most(pause))?;
            if pause == longest && !waiter.is_done() {
                let left = READY.with(|ready| ready.borrow_mut().as_mut().map(std::mem::take));
                SerialDriver::take_elsewhere(left.unwrap_or_default());
            }
            PAUSE.set((2 * pause).min(longest));
        }
    }
    Ok(())
}

/// The first of the commands that this thread is to run next that a wait needs.
fn take_needed(waiter: &Waiter<'_>) -> Option<Command> {
    READY.with(|ready| {
        let mut ready = ready.borrow_mut();
        let ready = ready.as_mut().filter(|ready| !ready.is_empty())?;
        let index = waiter.first_needed(ready.iter())?;
        ready.remove(index)
    })
}

impl SerialDriver {
    /// The driver.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }
}

// SAFETY: a command's code and memory are used while it is here, with the arguments resolved for
// it.
unsafe impl Driver for SerialDriver {
    fn name(&self) -> &'static str {
        "serial"
    }

    fn devices(&self) -> Vec<DeviceProperties> {
        let name = format!("{} (serial)", device::model());
        vec![device::properties(name, 1, true)]
    }

    fn notify(&self, notification: Notification) {
        if let Notification::Ready(command) = notification {
            self.take([command]);
        }
    }

    fn notify_ready(&self, commands: &mut Vec<Command>) {
        self.take(commands.drain(..));
    }

    fn runs_on_waiting_threads(&self) -> bool {
        true
    }

    fn native_queue(&self, _queue: &QueueShared) -> Option<Box<dyn Any + Send>> {
        Some(Box::new(CpuQueue { workers: 0..0 }))
    }

    fn takes_native(&self, queue: TypeId) -> bool {
        queue == TypeId::of::<CpuQueue>()
    }

    fn is_idle(&self) -> bool {
        BUSY.load(Ordering::SeqCst) <= usize::from(BUSY_HERE.get())
    }

    fn free_memory(&self, _device: usize) -> Option<u64> {
        Some(device::memory().1)
    }
}

impl SerialDriver {
    /// Runs ready commands on a thread that may wait.
    fn take(&self, commands: impl IntoIterator<Item = Command>) {
        let runs_here = READY.with(|ready| ready.borrow().is_some());
        if runs_here || works_alone() || (may_wait() && !is_waiting()) {
            return Self::take_here(commands);
        }
        let (elsewhere, here) = commands
            .into_iter()
            .partition::<VecDeque<_>, _>(runs_users_code);
        Self::take_elsewhere(elsewhere);
        if !here.is_empty() {
            Self::take_here(here);
        }
    }

    /// Runs commands on a thread of their own; here, if the system gives none.
    fn take_elsewhere(commands: VecDeque<Command>) {
        if commands.is_empty() {
            return;
        }
        // Counted before the thread is there: the device is not idle meanwhile.
        let counted = Counted::enter();
        let shared = Arc::new(Mutex::new(commands));
        let take = |shared: &Mutex<VecDeque<Command>>| {
            std::mem::take(&mut *shared.lock().unwrap_or_else(PoisonError::into_inner))
        };
        let own = Arc::clone(&shared);
        let thread = std::thread::Builder::new().name("quipu-serial".to_owned());
        let body = move || {
            Self::take_here(take(&own));
            slab::flush();
            drop(counted);
        };
        if let Err(error) = thread.start(body) {
            quietly(|| tracing::warn!(%error, "no thread for commands of the serial device"));
            Self::take_here(take(&shared));
        }
    }

    /// Runs ready commands, or has this thread do so when it is through with those that it runs.
    fn take_here<C: IntoIterator<Item = Command>>(commands: C) {
        let nested = READY.with(|ready| {
            let mut ready = ready.borrow_mut();
            let nested = ready.is_some();
            ready.get_or_insert_default().extend(commands);
            nested
        });
        if nested {
            return;
        }
        // Whatever happens, the next command of this thread's is not taken for a nested one.
        struct Running;
        impl Drop for Running {
            fn drop(&mut self) {
                READY.with(|ready| drop(ready.take()));
            }
        }
        let kept = KeptCallbacks::new();
        let busy = Busy::enter();
        let running = Running;
        // One after another, without recursion: commands that a command makes ready join the end of
        // the list. A child of `fork` that one has made runs no others.
        while !is_forked()
            && let Some(command) =
                READY.with(|ready| ready.borrow_mut().as_mut().and_then(VecDeque::pop_front))
        {
            run(command);
        }
        drop(running);
        drop(busy);
        // They may wait as this thread does elsewhere.
        drop(kept);
    }
}

/// True if a user's code is run by it, which may wait.
fn runs_users_code(command: &Command) -> bool {
    !matches!(
        command.operation(),
        Operation::Transfer(_) | Operation::Fill(_)
    )
}

fn run(command: Command) {
    let result = command.start().and_then(|()| perform(&command));
    command.finish(result, &mut ToDrivers);
}

fn perform(command: &Command) -> Result<(), Error> {
    let mut arguments = Arguments::new();
    resolve(command, &mut arguments)?;
    let groups = match command.operation() {
        Operation::Transfer(transfer) => {
            // SAFETY: the arguments were just resolved; hazards keep others away.
            unsafe { transfer.copy(&arguments) };
            return Ok(());
        }
        Operation::Fill(fill) => {
            // SAFETY: as above.
            unsafe { fill.fill(arguments[0]) };
            return Ok(());
        }
        Operation::Launch { groups: 0 } => return Ok(()),
        Operation::Launch { groups } => groups,
        Operation::HostTask => 1,
        Operation::NativeEnqueue(enqueue) => {
            return enqueue.call_with(command, &CpuQueue { workers: 0..0 }, &arguments);
        }
        // The host's space is ours: there is nothing to bring.
        Operation::Migrate(_) | Operation::Nothing => return Ok(()),
        _ => return Err(command.unsupported("serial")),
    };
    let _usual = UsualArithmetic::enter();
    // SAFETY: started, resolved, each group once.
    catch_unwind(AssertUnwindSafe(|| unsafe {
        command.run_native(&arguments, 0..groups)
    }))
    .unwrap_or_else(|panic| Err(panicked(command, panic)))
}
