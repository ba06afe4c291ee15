//! The driver contract over OpenCL: submit, flush, join, notify.
//!
//! | file | what it is |
//! |---|---|
//! | `ledger` | what each command waits for, where it is, what is to be done next |
//! | `pump` | doing it: one thread at a time |
//! | `forward` | what a command becomes on its device |
//! | `host` | what a thread of the host does for a command |
//! | `completion` | how ends are heard of |
//!
//! * `submit` takes note of the command, with its waits split: those within the domain, which are the devices of its
//!   platform, become events in the wait lists of OpenCL's calls; the others are counted. It does nothing else: trackers
//!   are locked around it.
//! * `flush` [pumps](pump).
//! * `notify` marks, and pumps.
//! * `join` sleeps, or, while commands of polling queues are in flight, polls.

mod completion;
mod forward;
mod host;
mod ledger;
mod pump;

use crate::{OpenClDriver, Shared};
use cl3::types::{cl_command_queue, cl_context, cl_device_id};
pub(crate) use completion::Completions;
pub(crate) use ledger::Ledger;
use pump::Caller;
pub(crate) use pump::drain;
use quipu_core::driver::{Notification, Submission};
use quipu_core::error::{ErrorKind, Result};
use quipu_core::event::Waiter;
use quipu_core::operation::Operation;
use quipu_core::queue::QueueShared;
use quipu_core::{Command, DeviceProperties, Driver, Error, SpaceId};
use quipu_kernel_ir::{KernelText, Module};
use std::any::{Any, TypeId};
use std::cell::RefCell;
use std::sync::Arc;

/// What a native call on an OpenCL device's queue is handed: OpenCL's own objects, alive for as long as this is.
#[derive(Clone, Debug)]
pub struct OpenClQueue {
    context: crate::native::Context,
    queue: crate::native::Queue,
    device: crate::device::DeviceHandle,
}

impl OpenClQueue {
    /// The context: that of all devices of the platform.
    #[must_use]
    pub fn context(&self) -> cl_context {
        self.context.raw()
    }

    /// An in-order queue of the device. What is put there must be over when the native call returns.
    #[must_use]
    pub fn queue(&self) -> cl_command_queue {
        self.queue.raw()
    }

    /// The device.
    #[must_use]
    pub fn device(&self) -> cl_device_id {
        self.device.0
    }
}

impl Driver for OpenClDriver {
    fn name(&self) -> &'static str {
        "opencl"
    }

    fn devices(&self) -> Vec<DeviceProperties> {
        let devices = self.shared.devices.iter();
        devices.map(|device| device.properties.clone()).collect()
    }

    fn submit(&self, submission: Submission<'_>) {
        let look = |command: &Command| {
            (!command.needs_no_device()).then(|| {
                let fallible = matches!(command.operation(), Operation::Launch { .. });
                let building = command.portable().is_some() && command.groups() > 0;
                (forward::doer_of(command), fallible, building)
            })
        };
        // SAFETY: it is still being enqueued.
        if let Some((doer, fallible, building)) = unsafe { submission.command.with(look) } {
            let mut ledger = self.shared.ledger();
            let many = ledger.submit(&submission, doer, fallible, building);
            drop(ledger);
            if many {
                self.shared.completions.call();
            }
        }
    }

    fn flush(&self, _queue: &QueueShared) {
        // A queue's commands may wait for those of others, its migrations above all: flush them all.
        self.shared.pump(Caller::Host);
    }

    fn join(&self, waiter: &Waiter<'_>) -> Result<()> {
        // The queue, and with it the driver, may go as soon as what is waited for is over.
        let shared = Arc::clone(&self.shared);
        if waiter.is_done() {
            return Ok(());
        }
        if Inside::is_in(&shared) {
            return Err(Inside::would_deadlock());
        }
        while shared.completions.is_polling() && !waiter.is_done() && !waiter.is_late() {
            if shared.completions.poll() {
                shared.pump(Caller::Host);
            } else {
                // Whoever runs the command may need the core.
                std::thread::yield_now();
            }
        }
        waiter.sleep();
        Ok(())
    }

    fn notify(&self, notification: Notification) {
        let shared = Arc::clone(&self.shared);
        match notification {
            Notification::Resolved { command, event } => {
                shared.ledger().resolved(command, event);
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
        let shared = Arc::clone(&self.shared);
        // All are marked before the first is forwarded: the oldest goes first, whatever the order in which they come.
        for command in commands.drain(..) {
            let stray = shared.ledger().ready(command).err();
            drop(stray);
        }
        shared.pump(Caller::Host);
    }

    fn native_queue(&self, queue: &QueueShared) -> Option<Box<dyn Any + Send>> {
        let device = self.shared.devices.get(queue.device_index())?;
        Some(Box::new(OpenClQueue {
            context: device.platform.context().ok()?.clone(),
            queue: device.queues(false).ok()?.service.clone(),
            device: device.handle,
        }))
    }

    fn runs_native_code(&self) -> bool {
        false
    }

    fn takes_code(&self, of: TypeId) -> bool {
        of == TypeId::of::<Module>() || of == TypeId::of::<KernelText>()
    }

    fn needs_flush(&self) -> bool {
        true
    }

    fn is_idle(&self) -> bool {
        self.shared.ledger().is_empty() && self.shared.workers.is_idle()
    }

    fn allocate(&self, key: u32, size: u64) -> Result<u64> {
        self.shared.allocate(key, size)
    }

    fn free(&self, key: u32, address: u64, size: u64) {
        self.shared.free(key, address, size);
    }

    fn read_allocation(&self, key: u32, address: u64, offset: u64, bytes: &mut [u8]) -> Result<()> {
        self.shared.read_allocation(key, address, offset, bytes)
    }

    /// Between devices of one platform.
    fn has_route(&self, from: SpaceId, to: SpaceId) -> bool {
        let platform = |space: SpaceId| {
            let key = space.key_in(self)?;
            Some(self.shared.devices.get(key as usize)?.platform.number)
        };
        platform(from).is_some_and(|from| platform(to) == Some(from))
    }

    fn free_memory(&self, device: usize) -> Option<u64> {
        self.shared.free_memory(device)
    }
}

thread_local! {
    /// The drivers that this thread is pumping for.
    static INSIDE: RefCell<Vec<usize>> = const { RefCell::new(Vec::new()) };
}

/// Says, while it lives, that this thread pumps.
pub(crate) struct Inside(());

impl Inside {
    fn enter(shared: &Shared) -> Self {
        INSIDE.with_borrow_mut(|inside| inside.push(std::ptr::from_ref(shared).addr()));
        Self(())
    }

    fn is_in(shared: &Shared) -> bool {
        INSIDE.with_borrow(|inside| inside.contains(&std::ptr::from_ref(shared).addr()))
    }

    /// True if this thread pumps for any driver.
    pub(crate) fn is_anywhere() -> bool {
        INSIDE.with_borrow(|inside| !inside.is_empty())
    }

    /// Why such a thread must not wait.
    pub(crate) fn would_deadlock() -> Error {
        ErrorKind::WouldDeadlock {
            why: "this thread is inside a callback of a command of the OpenCL driver, which goes on only when that \
                  returns; wait on another thread, or enqueue what comes after",
        }
        .into()
    }
}

impl Drop for Inside {
    fn drop(&mut self) {
        INSIDE.with_borrow_mut(Vec::pop);
    }
}
