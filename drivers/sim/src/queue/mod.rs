//! The driver contract over the simulated machine: submit, flush, join, notify.
//!
//! * `submit` takes note of the command in the [ledger], with its waits split: those within the
//!   domain become waits for status slots on the machine, the others are counted. It does nothing
//!   else: trackers are locked around it.
//! * `flush` lets go of the kernels held so far on the queues of a context, and [pumps](pump).
//! * `notify` marks, and pumps: a command whose last host wait is resolved has its gate set by one
//!   write; one that is ours ([`Notification::Ready`]) is finished as soon as the machine has
//!   reported its end.
//! * `join` sleeps while the machine's thread works, or steps the machine if it has none.
//!
//! The machine reports ends in the order in which they happened, and the driver finishes commands
//! in that order, so that a command is ours by then. If it is not yet (another thread is still in
//! the middle of handing it over), its end is parked until it is.

pub(crate) mod ledger;
mod pump;

use crate::engine::{DeviceId, Mode, RunEnd};
use crate::{MachineView, Shared, SimDriver, device, error};
use pump::Caller;
use quipu_scheduler::driver::{Notification, Submission};
use quipu_scheduler::error::{ErrorKind, Result};
use quipu_scheduler::event::{Waiter, refuse_waits, work_alone, works_alone};
use quipu_scheduler::memory::Memory;
use quipu_scheduler::queue::QueueShared;
use quipu_scheduler::{Command, DeviceProperties, Driver, NativeBytes, NativeQueue};
use std::any::{Any, TypeId};
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

pub(crate) use pump::on_process_clock;

/// The queue that native calls and native enqueues on a simulated device are handed: the machine,
/// and the device that runs the queue's commands. A native enqueue runs when its turn on the device
/// has come, reaches the device's memory, and takes none of the machine's time; its work is over
/// when it returns.
#[derive(Clone)]
pub struct SimQueue {
    shared: Arc<Shared>,
    /// The device.
    pub device: DeviceId,
}

impl NativeQueue for SimQueue {
    type Memory = NativeBytes;
}

impl SimQueue {
    pub(crate) fn new(shared: Arc<Shared>, device: DeviceId) -> Self {
        Self { shared, device }
    }

    /// The machine, to be looked at and moved on.
    #[must_use]
    pub fn machine(&self) -> MachineView<'_> {
        MachineView(&self.shared.machine)
    }
}

impl std::fmt::Debug for SimQueue {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter
            .debug_struct("SimQueue")
            .field("device", &self.device)
            .finish_non_exhaustive()
    }
}

// SAFETY: a command's code and memory are used while it is here, with the arguments resolved for
// it.
unsafe impl Driver for SimDriver {
    fn name(&self) -> &'static str {
        "sim"
    }

    fn devices(&self) -> Vec<DeviceProperties> {
        let manual = self.machine().mode() == Mode::Manual;
        device::properties(&self.shared().configuration, manual)
    }

    fn submit(&self, submission: Submission<'_>) {
        // SAFETY: it is still being enqueued.
        let ends_by_itself =
            unsafe { submission.command.with(|command| command.needs_no_device()) };
        if !ends_by_itself {
            self.shared().ledger().submit(&submission);
        }
    }

    fn flush(&self, queue: &QueueShared) {
        // A queue's commands may wait for those of its context's others, its migrations above all:
        // one image for them all.
        self.shared().ledger().flush(queue.context_number());
        self.shared().pump(Caller::Host);
    }

    fn native_queue(&self, queue: &QueueShared) -> Option<Box<dyn Any + Send>> {
        let device = self.shared().device_id(queue.device_index())?;
        Some(Box::new(SimQueue::new(Arc::clone(self.shared()), device)))
    }

    fn takes_native(&self, queue: TypeId) -> bool {
        queue == TypeId::of::<SimQueue>()
    }

    fn runs_on_waiting_threads(&self) -> bool {
        self.machine().mode() == Mode::Manual
    }

    fn join(&self, waiter: &Waiter<'_>) -> Result<()> {
        // The queue, and with it the driver, may go as soon as the wait is over.
        let shared = Arc::clone(self.shared());
        if waiter.is_done() {
            return Ok(());
        }
        match shared.machine.mode() {
            Mode::Threaded => {
                waiter.sleep();
                Ok(())
            }
            Mode::Manual => shared.step_until(waiter),
        }
    }

    fn notify(&self, notification: Notification) {
        let shared = Arc::clone(self.shared());
        match notification {
            Notification::Resolved(wait) => {
                shared.ledger().resolved(wait.command(), wait.event());
            }
            Notification::Ready(command) => {
                let stray = shared.ledger().ready(command).err();
                // Never submitted: its drop fails it and says so.
                drop(stray);
            }
        }
        shared.pump(Caller::Host);
    }

    fn notify_ready(&self, commands: &mut Vec<Command>) {
        let shared = Arc::clone(self.shared());
        // All are marked before the first is uploaded: the oldest goes first, whatever the order in
        // which they come.
        for command in commands.drain(..) {
            let stray = shared.ledger().ready(command).err();
            drop(stray);
        }
        shared.pump(Caller::Host);
    }

    fn needs_flush(&self) -> bool {
        true
    }

    fn is_idle(&self) -> bool {
        self.shared().is_idle()
    }

    fn allocate(&self, key: u32, size: u64) -> Result<u64> {
        self.shared().allocate(key, size)
    }

    unsafe fn map_host_memory(&self, key: u32, host: NonNull<u8>, size: u64) -> Result<u64> {
        // SAFETY: the bytes are pinned, in whole pages, until the address is freed: the contract of
        // `Driver::map_host_memory`.
        unsafe { self.shared().map_host_memory(key, host, size) }
    }

    unsafe fn free(&self, _key: u32, address: u64, _size: u64) {
        self.shared().free(address);
    }

    unsafe fn read_allocation(
        &self,
        key: u32,
        address: u64,
        offset: u64,
        bytes: &mut [u8],
    ) -> Result<()> {
        self.shared().read_allocation(key, address, offset, bytes)
    }

    unsafe fn write_allocation(
        &self,
        key: u32,
        address: u64,
        offset: u64,
        bytes: &[u8],
    ) -> Result<()> {
        self.shared().write_allocation(key, address, offset, bytes)
    }

    unsafe fn is_in_use(&self, _key: u32, address: u64, memory: &Memory) -> bool {
        self.shared().is_in_use(address, memory)
    }

    fn free_memory(&self, device: usize) -> Option<u64> {
        self.shared().free_memory(device)
    }

    /// Fails the commands on the device, and takes its program image. Commands that the driver has
    /// not uploaded yet run afterwards. Memory stays: the core gives up the bytes that the failed
    /// commands would have written.
    fn reset(&self, device: usize) -> Result<()> {
        let Some(id) = self.shared().device_id(device) else {
            return Err(ErrorKind::InvalidArgument {
                what: "reset a simulated device",
                problem: format!(
                    "there is no device {device}; there are {}",
                    self.shared().configuration.devices.len()
                ),
            }
            .into());
        };
        self.shared()
            .machine
            .with(|simulation| simulation.reset_device(id))
            .map_err(|_| error::lost(device))
    }
}

impl Shared {
    /// Steps the machine until the waiter is done or late.
    fn step_until(&self, waiter: &Waiter<'_>) -> Result<()> {
        let Some(armed) = waiter.arm() else {
            return Ok(());
        };
        let _stepping = Stepping::enter(&self.steppers);
        loop {
            let end = self
                .machine
                .run_while(|| !armed.is_done() && !waiter.is_late());
            match end {
                RunEnd::Done => return Ok(()),
                // The next event has to come from the host, or another device.
                RunEnd::Idle => waiter.doze(),
                RunEnd::Nested if armed.is_done() => return Ok(()),
                RunEnd::Nested => {
                    return Err(ErrorKind::WouldDeadlock {
                        why: "this thread steps the simulated machine further out, which goes on only when that returns; \
                              wait on another thread, or enqueue what comes after"
                            .into(),
                    }
                    .into());
                }
            }
        }
    }

    /// True if neither the machine nor the driver has anything to do, or nobody is there to step
    /// it.
    fn is_idle(&self) -> bool {
        let manual = self.machine.mode() == Mode::Manual;
        if manual && self.steppers.load(Ordering::Acquire) == 0 {
            return true;
        }
        let pumps = {
            let ledger = self.ledger();
            if !ledger.is_quiet() {
                return false;
            }
            ledger.pumps
        };
        // In this order: an idle machine stays so without the driver, and a thread that sleeps has
        // told all it knows.
        let idle = self.machine.with(|simulation| simulation.is_idle())
            && (manual || self.machine.is_asleep());
        let ledger = self.ledger();
        idle && ledger.is_quiet() && ledger.pumps == pumps
    }
}

/// Counts a thread that steps a machine while it waits.
struct Stepping<'a>(&'a AtomicUsize);

impl<'a> Stepping<'a> {
    fn enter(steppers: &'a AtomicUsize) -> Self {
        steppers.fetch_add(1, Ordering::AcqRel);
        Self(steppers)
    }
}

impl Drop for Stepping<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::AcqRel);
    }
}

/// Says, while it lives, that this thread is inside a command or callback of a machine, which goes
/// on only when that returns: so it must not wait.
pub(crate) struct Inside {
    refusal: Option<&'static str>,
    alone: bool,
}

impl Inside {
    pub(crate) fn enter(mode: Mode) -> Self {
        let refusal = refuse_waits(Some(
            "this thread is inside a command or a callback of the simulated machine, which goes on only when that \
             returns; wait on another thread, or enqueue what comes after",
        ));
        // A thread that steps a machine by hand expects that all is done in the steps, and always
        // in the same order.
        let alone = work_alone(works_alone() || mode == Mode::Manual);
        Self { refusal, alone }
    }
}

impl Drop for Inside {
    fn drop(&mut self) {
        work_alone(self.alone);
        refuse_waits(self.refusal);
    }
}
