//! The `serial` device: the caller's thread, one command after another.
//!
//! Whoever makes a command ready runs it: the thread that enqueues it, or that
//! ends what it waited for. Deterministic in a program of one thread; for
//! debugging. A thread that waits here while nothing can make progress gets an
//! error and does not hang.

use crate::device;
use crate::pool::Arguments;
use crate::pool::worker::{panicked, resolve};
use crate::queue::CpuQueue;
use quipu_core::command::ToDrivers;
use quipu_core::driver::Notification;
use quipu_core::error::{Error, ErrorKind, Result};
use quipu_core::event::Waiter;
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
}

/// Counts a thread as running commands.
struct Busy(());

impl Busy {
    fn enter() -> Self {
        BUSY.fetch_add(1, Ordering::SeqCst);
        BUSY_HERE.set(true);
        Self(())
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        BUSY_HERE.set(false);
        BUSY.fetch_sub(1, Ordering::SeqCst);
    }
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
        let Notification::Ready(command) = notification else {
            return;
        };
        let nested = READY.with_borrow_mut(|ready| match ready {
            Some(ready) => {
                ready.push_back(command);
                true
            }
            None => {
                *ready = Some(VecDeque::from([command]));
                false
            }
        });
        if nested {
            return;
        }
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
    }

    fn join(&self, waiter: &Waiter<'_>) -> Result<()> {
        if waiter.is_done() {
            return Ok(());
        }
        // All that this thread could run, it has run. Others may still bring
        // about what is waited for; when they too have nothing to do, nobody
        // will.
        let Some(armed) = waiter.arm() else {
            return Ok(());
        };
        while !armed.is_done() && !waiter.is_late() {
            if waiter.nothing_moves() && !armed.is_done() {
                return Err(ErrorKind::WouldDeadlock {
                    why: "the serial device runs on the waiting thread, no other device has \
                          anything to do, and what is waited for depends on a user event that \
                          nobody has completed; complete it first, or use a pool device",
                }
                .into());
            }
            waiter.doze();
        }
        Ok(())
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
