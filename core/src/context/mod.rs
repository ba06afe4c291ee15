//! Contexts: a set of devices that share buffers and events.

mod shared;

pub use crate::memory::owner::Failures;
pub use shared::ContextShared;
#[cfg(test)]
pub(crate) use shared::recycle_slots;
pub(crate) use shared::recycle_slots_if_due;

use crate::device::Device;
use crate::driver::{Driver, is_same};
use crate::error::{Error, ErrorKind, Foreign, Result};
use crate::event::{Event, stepped, watch_as_environment_says};
use crate::memory::owner::{self, Objects, Owner};
use crate::memory::pinned::HostBlock;
use crate::memory::{Memory, MemoryRef, SpaceId};
use crate::panics::quietly;
use crate::process;
use crate::queue::enqueue::{drop_after, turn_of};
use crate::queue::{Queue, QueueOptions, flush};
use std::any::Any;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, OnceLock};

/// A context. Clones are the same one; it ends when the last clone, queue and buffer is dropped and
/// all its commands are over.
#[derive(Clone)]
pub struct Context(Arc<ContextShared>);

static NEXT_ID: AtomicU32 = AtomicU32::new(1);

impl Context {
    /// A context over these devices.
    ///
    /// # Errors
    /// If there are none, or one is lost; if `QUIPU_WATCH` in the environment makes no sense; if
    /// the system gives no thread; in a child of `fork`.
    pub fn new(devices: &[Device]) -> Result<Self> {
        Self::with_failures(devices, Failures::default())
    }

    /// A context over these devices, in which failures go as far as said.
    ///
    /// # Errors
    /// As [`Context::new`].
    pub fn with_failures(devices: &[Device], failures: Failures) -> Result<Self> {
        if devices.is_empty() {
            return Err(ErrorKind::InvalidArgument {
                what: "create a context",
                problem: "it needs at least one device".to_owned(),
            }
            .into());
        }
        crate::process::enter()?;
        if let Some(lost) = devices.iter().find_map(Device::lost) {
            return Err(lost.clone());
        }
        watch_as_environment_says()?;
        crate::panics::note_places();
        // May take a while the first time, which is not to be in an enqueue.
        crate::sync::asymmetric_fences_are_supported();
        let mut drivers: Vec<Arc<dyn Driver>> = Vec::new();
        for device in devices {
            if !drivers.iter().any(|known| is_same(known, device.driver())) {
                drivers.push(device.driver().clone());
            }
        }
        for driver in &drivers {
            driver.start_threads()?;
        }
        let shared = Arc::new_cyclic(|this| ContextShared {
            id: NEXT_ID.fetch_add(1, Ordering::Relaxed),
            devices: devices.to_vec(),
            drivers,
            failures,
            lost: OnceLock::new(),
            objects: Objects::default(),
            transfers: Mutex::new(Vec::new()),
            joined: Mutex::new(None),
            internal: OnceLock::new(),
            this: this.clone(),
        });
        let context = shared.this.clone();
        if owner::register(context) > 1 {
            flush::note_several_contexts();
        }
        let machines = shared.drivers.iter();
        let machines =
            machines.filter(|driver| driver.runs_on_waiting_threads() && driver.needs_flush());
        stepped::note(shared.id, machines.map(|driver| driver.clone() as _));
        Ok(Self(shared))
    }

    /// The context's devices.
    #[must_use]
    pub fn devices(&self) -> &[Device] {
        &self.0.devices
    }

    /// The drivers of its devices, each once.
    pub(crate) fn drivers(&self) -> &[Arc<dyn Driver>] {
        &self.0.drivers
    }

    /// A new queue of one of the context's devices.
    ///
    /// # Errors
    /// If the device is not one of the context's (or a part of one), or lost.
    pub fn queue(&self, device: &Device, options: QueueOptions) -> Result<Queue> {
        crate::process::check()?;
        let mut candidate = Some(device);
        while let Some(one) = candidate {
            if self.0.devices.contains(one) {
                if let Some(lost) = device.lost() {
                    return Err(lost.clone());
                }
                return Ok(Queue::new(&self.0, device, options));
            }
            candidate = one.parent();
        }
        Err(ErrorKind::WrongContext {
            what: "create a queue",
            object: Foreign::Device(device.name().to_owned()),
        }
        .into())
    }

    /// A new memory object of `size` bytes, zeroed.
    ///
    /// # Errors
    /// If the size is zero or too large.
    pub fn memory(&self, size: u64) -> Result<MemoryRef> {
        Memory::create(&self.owner(), size)
    }

    /// A new memory object over host memory that the caller brings.
    ///
    /// # Errors
    /// If the size is zero or too large.
    ///
    /// # Safety
    /// `pointer` is valid for reads and writes of `size` bytes while `keep`
    /// lives, and nobody else touches those bytes while the object or a command
    /// that uses it does.
    pub unsafe fn memory_over(
        &self,
        pointer: NonNull<u8>,
        size: u64,
        keep: Box<dyn Any + Send + Sync>,
    ) -> Result<MemoryRef> {
        // SAFETY: as the caller promises.
        unsafe { Memory::create_over(&self.owner(), (pointer, size), keep, false) }
    }

    /// As [`memory_over`](Self::memory_over), and devices that
    /// [can](crate::DeviceProperties::maps_host_memory) use that memory where it is: nothing is
    /// copied for their commands. Other devices have copies, as of any memory. Hazards, mappings
    /// and failures are as for any memory.
    ///
    /// # Errors
    /// As there.
    ///
    /// # Safety
    /// As there; and the bytes are [pinned](crate::memory::pinned) by `keep`, in whole pages that
    /// nothing else uses.
    pub unsafe fn memory_in_place(
        &self,
        pointer: NonNull<u8>,
        size: u64,
        keep: Box<dyn Any + Send + Sync>,
    ) -> Result<MemoryRef> {
        // SAFETY: as the caller promises.
        unsafe { Memory::create_over(&self.owner(), (pointer, size), keep, true) }
    }

    /// A new memory object, zeroed, of memory that moves between the host and a device page by page
    /// as they use it, and that other devices use [in place](Self::memory_in_place).
    ///
    /// # Errors
    /// If the size is zero or too large, there is no room, or the device has no such memory.
    pub fn managed_memory(&self, device: &Device, size: u64) -> Result<MemoryRef> {
        Memory::check_size(size)?;
        let HostBlock { start, keep } = device.driver().allocate_managed(device.index(), size)?;
        // SAFETY: memory that the driver has just allocated for this, pinned, and kept by `keep`
        // (`Driver::allocate_managed`).
        unsafe { self.memory_in_place(start, size, keep) }
    }

    /// Drops a value once all commands are over that use the memory object now. In a child of
    /// `fork` it is kept.
    ///
    /// Its destructor runs on whichever thread ends the last of them, which may be one that waits.
    /// Like a callback, it may wait for events, and must not take a lock that any thread holds
    /// during one of the calls that [`Event::on_complete`](crate::Event::on_complete) lists.
    pub fn drop_after_users<T: Send + 'static>(&self, memory: &Memory, value: T) {
        if process::is_forked() {
            // Other threads may have had the locks.
            return std::mem::forget(value);
        }
        drop_after(self.0.internal_queue(), value, &memory.users());
    }

    /// An event for a list of waits of another queue: over when this one is and, if it is an
    /// in-order queue's, when all commands before it are. It fails as this one does.
    ///
    /// An event that is waited for stands for its own command alone, also where the host sees it in
    /// its queue's order.
    #[must_use]
    pub fn in_turn(&self, event: &Event) -> Event {
        match event.awaited_turn() {
            None => event.clone(),
            // In a child of fork other threads may have had the locks, and nothing takes the event.
            Some(_) if process::is_forked() => event.clone(),
            Some(prefix) => turn_of(&self.0, event, prefix),
        }
    }

    /// The reason for which the context is lost, if it is.
    #[must_use]
    pub fn lost(&self) -> Option<&Error> {
        self.0.lost()
    }

    /// Marks the context as lost: from now on, enqueues fail. Commands that were enqueued go on.
    pub fn lose(&self, reason: &str) {
        let _ = self.0.lost.set(
            ErrorKind::ContextLost {
                reason: reason.to_owned(),
            }
            .into(),
        );
        process::note_loss();
    }

    /// Poisons the bytes that were only in a device's memory, if no surviving device shares that,
    /// and marks the device as lost. Drivers call it before they fail the commands that they hold.
    pub fn device_lost(device: &Device, reason: &str, memory_is_gone: bool) {
        if process::is_forked() {
            // The parent's threads may have had the locks, and its devices are not used here.
            return;
        }
        let cause = Error::from(ErrorKind::DeviceLost {
            device: device.name().to_owned(),
            reason: reason.to_owned(),
        });
        let loses_memory = memory_is_gone && device.space() != SpaceId::HOST;
        // A thread that sees the device marked must find those bytes poisoned. A command that was
        // enqueued between the two may have said since that its bytes are there.
        let mut without_copy = Vec::new();
        if loses_memory {
            without_copy.extend(Self::lose_space(device.space(), &cause));
        }
        device.mark_lost(cause.clone());
        if loses_memory {
            without_copy.extend(Self::lose_space(device.space(), &cause));
        }
        // With nothing locked: a subscriber is a user's code.
        quietly(|| tracing::error!(device = device.name(), reason, "device lost"));
        for buffer in without_copy {
            quietly(|| tracing::error!(buffer, "its only copy is lost"));
        }
    }

    /// Poisons the bytes that were valid only in a space, in all contexts. Gives the labels of
    /// their buffers.
    fn lose_space(space: SpaceId, cause: &Error) -> Vec<String> {
        let mut without_copy = Vec::new();
        // Dropped with nothing locked: errors carry a user's code.
        let mut replaced = Vec::new();
        for context in owner::all() {
            context.objects().for_each(|memory| {
                let buffer = memory.label();
                let lost = ErrorKind::ContentLost {
                    buffer: buffer.clone(),
                    cause: cause.clone(),
                };
                let poisoned = memory.tracker().lose_space(space, &lost.into());
                if poisoned.any {
                    without_copy.push(buffer);
                }
                replaced.push(poisoned);
            });
        }
        without_copy
    }

    /// The number of bytes that the context's memory objects take in a space; zero in a child of
    /// `fork`.
    #[must_use]
    pub fn bytes_in(&self, space: SpaceId) -> u64 {
        if process::is_forked() {
            // Other threads may have had the locks.
            return 0;
        }
        let mut bytes = 0;
        self.0.objects.for_each(|memory| {
            if memory.is_allocated_in(space) {
                bytes += memory.size();
            }
        });
        bytes
    }

    /// The context as the owner of its memory objects.
    fn owner(&self) -> Arc<dyn Owner> {
        self.0.clone()
    }

    /// The shared part.
    #[must_use]
    pub fn shared(&self) -> &Arc<ContextShared> {
        &self.0
    }
}

impl PartialEq for Context {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}
impl Eq for Context {}

impl std::fmt::Debug for Context {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Context")
            .field("devices", &self.0.devices)
            .finish_non_exhaustive()
    }
}
