//! The `serial` device: the caller's thread, one command after another.
//!
//! Whoever makes a command ready runs it: the thread that enqueues it, or that
//! ends what it waited for. Deterministic in a program of one thread; for
//! debugging. A thread that waits here while nothing can make progress gets an
//! error and does not hang. It calls back when it has run all that it has, or when
//! one of its commands waits.

use crate::device;
use crate::pool::Arguments;
use crate::pool::worker::{panicked, resolve};
use crate::queue::CpuQueue;
use quipu_core::command::{KeptCallbacks, ToDrivers};
use quipu_core::driver::Notification;
use quipu_core::error::{Error, ErrorKind, Result};
use quipu_core::event::{Joiner, Waiter, replace_joiner};
use quipu_core::operation::Operation;
use quipu_core::queue::QueueShared;
use quipu_core::{Command, DeviceProperties, Driver};
use std::any::{Any, TypeId};
use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicUsize, Ordering};

/// The driver of the serial device.
#[derive(Debug, Default)]
pub struct SerialDriver(());

thread_local! {
    /// What this thread has made ready; `Some` while it runs it.
    static READY: RefCell<Option<VecDeque<Command>>> = const { RefCell::new(None) };
}

/// Threads that run commands of the serial device now.
static BUSY: AtomicUsize = AtomicUsize::new(0);

thread_local! {
    /// True if this is one of them.
    static BUSY_HERE: Cell<bool> = const { Cell::new(false) };
    /// How it waited before.
    static OUTER: Cell<Option<Joiner>> = const { Cell::new(None) };
}

/// Counts a thread as running commands.
struct Busy(());

impl Busy {
    fn enter() -> Self {
        BUSY.fetch_add(1, Ordering::SeqCst);
        BUSY_HERE.set(true);
        OUTER.set(replace_joiner(Some(join_inside)));
        Self(())
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        replace_joiner(OUTER.take());
        BUSY_HERE.set(false);
        BUSY.fetch_sub(1, Ordering::SeqCst);
    }
}

/// How a thread that runs commands waits for those of other devices, which may wait for what it has to run next.
fn join_inside(waiter: &Waiter<'_>) -> Result<()> {
    if let Some(joiner) = OUTER.get() {
        return joiner(waiter);
    }
    if READY.with_borrow(|ready| ready.as_ref().is_some_and(|ready| !ready.is_empty())) {
        return join(waiter);
    }
    waiter.rest()
}

/// Waits for what others bring about; when they too have nothing to do, nobody will.
fn join(waiter: &Waiter<'_>) -> Result<()> {
    let Some(armed) = waiter.arm() else {
        return Ok(());
    };
    while !armed.is_done() && !waiter.is_late() {
        if waiter.nothing_moves() && !armed.is_done() {
            return Err(ErrorKind::WouldDeadlock {
                why: "the serial device runs on the waiting thread, no other device has \
                      anything to do, and what is waited for depends on a user event that \
                      nobody has completed, or on what this thread is to run next; complete \
                      the event first, or use a pool device",
            }
            .into());
        }
        waiter.doze();
    }
    Ok(())
}

impl SerialDriver {
    /// The driver.
    #[must_use]
    pub fn new() -> Self {
        Self(())
    }
}

impl Driver for SerialDriver {
    fn name(&self) -> &'static str {
        "serial"
    }

    fn devices(&self) -> Vec<DeviceProperties> {
        let name = format!("{} (serial)", device::model());
        vec![device::properties(name, 1, true)]
    }

    fn notify(&self, notification: Notification) {
        if let Notification::Ready(command) = notification {
            take([command]);
        }
    }

    fn notify_ready(&self, commands: &mut Vec<Command>) {
        take(commands.drain(..));
    }

    fn join(&self, waiter: &Waiter<'_>) -> Result<()> {
        if waiter.is_done() {
            return Ok(());
        }
        // All that this thread could run, it has run.
        join(waiter)
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

/// Runs what is ready, or has this thread do so when it is through with what it runs.
fn take(commands: impl IntoIterator<Item = Command>) {
    let nested = READY.with_borrow_mut(|ready| {
        let nested = ready.is_some();
        ready.get_or_insert_default().extend(commands);
        nested
    });
    if nested {
        return;
    }
    let kept = KeptCallbacks::new();
    let busy = Busy::enter();
    // One after another, without recursion: what a command makes ready
    // joins the end of the list.
    while let Some(command) =
        READY.with_borrow_mut(|ready| ready.as_mut().and_then(VecDeque::pop_front))
    {
        run(command);
    }
    READY.set(None);
    drop(busy);
    // They may wait as this thread does elsewhere.
    drop(kept);
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
        _ => return Ok(()),
    };
    // SAFETY: started, resolved, each group once.
    catch_unwind(AssertUnwindSafe(|| unsafe {
        command.run_native(&arguments, 0..groups)
    }))
    .unwrap_or_else(|panic| Err(panicked(command, panic)))
}
