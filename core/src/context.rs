//! Contexts: a set of devices that share buffers and events.

use crate::command::{Command, EventId, slab};
use crate::device::Device;
use crate::driver::{Driver, Notification, is_same};
use crate::error::{Error, ErrorKind, Result};
use crate::event::Event;
use crate::memory::eviction::{Evicted, Eviction};
use crate::memory::{Memory, MemoryRef, SpaceId, Unused};
use crate::queue::{Queue, QueueOptions, enqueue::drop_after};
use std::any::Any;
use std::collections::HashMap;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};

/// A context. Clones are the same one; it ends when the last clone, queue and
/// buffer is gone and what was enqueued is over.
#[derive(Clone)]
pub struct Context(Arc<ContextShared>);

/// A context's shared part.
pub struct ContextShared {
    id: u32,
    devices: Vec<Device>,
    /// Theirs, each once.
    drivers: Vec<Arc<dyn Driver>>,
    lost: OnceLock<Error>,
    memories: Mutex<HashMap<u64, MemoryPointer>>,
    transfers: Mutex<Vec<(SpaceId, Queue)>>,
    joined: Mutex<Option<(Vec<EventId>, Event)>>,
    internal: OnceLock<Queue>,
    this: Weak<ContextShared>,
}

/// A memory object that a handle refers to: removed before it goes.
#[derive(Clone, Copy)]
struct MemoryPointer(NonNull<Memory>);
// SAFETY: memory is `Sync`.
unsafe impl Send for MemoryPointer {}

/// True once any device or context of the process was lost: then enqueues look
/// closer.
static ANYTHING_LOST: AtomicBool = AtomicBool::new(false);

#[inline]
pub(crate) fn is_anything_lost() -> bool {
    ANYTHING_LOST.load(Ordering::Relaxed)
}

/// Has enqueues look for what is lost.
pub(crate) fn note_loss() {
    ANYTHING_LOST.store(true, Ordering::SeqCst);
}

static NEXT_ID: AtomicU32 = AtomicU32::new(1);
static CONTEXTS: Mutex<Vec<Weak<ContextShared>>> = Mutex::new(Vec::new());

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Context {
    /// A context over these devices.
    ///
    /// # Errors
    /// If there are none, or one is lost.
    pub fn new(devices: &[Device]) -> Result<Self> {
        if devices.is_empty() {
            return Err(ErrorKind::InvalidArgument {
                what: "create a context",
                problem: "it needs at least one device".to_owned(),
            }
            .into());
        }
        if let Some(lost) = devices.iter().find_map(Device::lost) {
            return Err(lost.clone());
        }
        // May take a while the first time, which is not to be in an enqueue.
        crate::sync::asymmetric_fences_are_supported();
        let mut drivers: Vec<Arc<dyn Driver>> = Vec::new();
        for device in devices {
            if !drivers.iter().any(|known| is_same(known, device.driver())) {
                drivers.push(device.driver().clone());
            }
        }
        let shared = Arc::new_cyclic(|this| ContextShared {
            id: NEXT_ID.fetch_add(1, Ordering::Relaxed),
            devices: devices.to_vec(),
            drivers,
            lost: OnceLock::new(),
            memories: Mutex::new(HashMap::new()),
            transfers: Mutex::new(Vec::new()),
            joined: Mutex::new(None),
            internal: OnceLock::new(),
            this: this.clone(),
        });
        let mut contexts = lock(&CONTEXTS);
        contexts.retain(|context| context.strong_count() > 0);
        contexts.push(Arc::downgrade(&shared));
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
            object: "device",
        }
        .into())
    }

    /// A new memory object of `size` bytes, zeroed.
    ///
    /// # Errors
    /// If the size is zero or too large.
    pub fn memory(&self, size: u64) -> Result<MemoryRef> {
        Memory::create(&self.0, size)
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
        unsafe { Memory::create_over(&self.0, pointer, size, keep) }
    }

    /// Why the context is lost, if it is.
    #[must_use]
    pub fn lost(&self) -> Option<&Error> {
        self.0.lost()
    }

    /// Marks the context as lost: from now on, enqueues fail; what runs goes on.
    pub fn lose(&self, reason: &str) {
        let _ = self.0.lost.set(
            ErrorKind::ContextLost {
                reason: reason.to_owned(),
            }
            .into(),
        );
        note_loss();
    }

    /// Marks a device as lost and poisons what was only in its memory, if no
    /// surviving device shares that. Called by drivers, before they fail what
    /// they hold.
    pub fn device_lost(device: &Device, reason: &str, memory_is_gone: bool) {
        device.mark_lost(reason);
        tracing::error!(device = device.name(), reason, "device lost");
        if !memory_is_gone || device.space() == SpaceId::HOST {
            return;
        }
        let Some(cause) = device.lost() else {
            return;
        };
        let contexts: Vec<_> = lock(&CONTEXTS).iter().filter_map(Weak::upgrade).collect();
        for context in contexts {
            for memory in lock(&context.memories).values() {
                // SAFETY: a handle refers to it: it is removed before it goes.
                let memory = unsafe { memory.0.as_ref() };
                let buffer = memory.label();
                let lost = ErrorKind::ContentLost {
                    buffer: buffer.clone(),
                    cause: cause.clone(),
                };
                if memory.tracker().lose_space(device.space(), &lost.into()) {
                    tracing::error!(buffer, "its only copy is lost");
                }
            }
        }
    }

    /// How many bytes the context's memory objects take in a space.
    #[must_use]
    pub fn bytes_in(&self, space: SpaceId) -> u64 {
        let memories = lock(&self.0.memories);
        // SAFETY: a handle refers to each: it is removed before it goes.
        let memories = memories.values().map(|memory| unsafe { memory.0.as_ref() });
        let there = memories.filter(|memory| memory.is_allocated_in(space));
        there.map(Memory::size).sum()
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

impl ContextShared {
    #[inline]
    pub(crate) fn id(&self) -> u32 {
        self.id
    }

    #[inline]
    pub(crate) fn lost(&self) -> Option<&Error> {
        self.lost.get()
    }

    pub(crate) fn remember_memory(&self, memory: &MemoryRef) {
        lock(&self.memories).insert(memory.id(), MemoryPointer(NonNull::from(&**memory)));
    }

    /// A handle to one of the context's memory objects, if it is still there.
    fn memory_if_any(&self, id: u64) -> Option<MemoryRef> {
        let memories = lock(&self.memories);
        let memory = memories.get(&id)?;
        // SAFETY: it is removed, under this lock, before it goes.
        unsafe { memory.0.as_ref() }.handle_if_any()
    }

    pub(crate) fn forget_memory(&self, id: u64) {
        lock(&self.memories).remove(&id);
    }

    /// The context's own queue, for what needs no device.
    pub(crate) fn internal_queue(&self) -> &Queue {
        self.internal
            .get_or_init(|| Queue::internal(self.this.clone(), Arc::new(NoDriver), None))
    }

    /// The queue on which bytes are brought to or from a space.
    pub(crate) fn transfer_queue(&self, space: SpaceId) -> Option<Queue> {
        let mut transfers = lock(&self.transfers);
        let mut devices = self.devices.iter().filter(|d| d.space() == space);
        // If all of its devices are lost, the driver fails what is brought.
        let device = devices
            .clone()
            .find(|device| device.lost().is_none())
            .or_else(|| devices.next())?;
        // A queue of a device that was lost meanwhile stays: callers have
        // trackers locked, and the end of a queue may end commands.
        if let Some((_, queue)) = transfers
            .iter()
            .find(|(s, queue)| *s == space && queue.shared().device() == Some(device))
        {
            return Some(queue.clone());
        }
        let queue = Queue::internal(
            self.this.clone(),
            device.driver().clone(),
            Some(device.clone()),
        );
        transfers.push((space, queue.clone()));
        Some(queue)
    }

    /// Drops a handle to a memory object when the last command that uses it is over.
    pub(crate) fn free_when_unused(&self, memory: MemoryRef) {
        let mut users = Vec::new();
        memory.tracker().for_each_user(|user| {
            if !user.is_over() {
                users.push(user);
            }
        });
        drop_after(self.internal_queue(), Unused::new(memory), &users);
    }

    /// One event for a list of them, made by `make` unless the last list was
    /// the same.
    pub(crate) fn join_waits(
        &self,
        events: &[Event],
        make: impl FnOnce(&Queue) -> (Event, Option<Command>),
    ) -> (Event, Option<Command>) {
        let mut joined = lock(&self.joined);
        if let Some((list, event)) = &*joined
            && list.len() == events.len()
            && list.iter().zip(events).all(|(id, event)| *id == event.id())
        {
            return (event.clone(), None);
        }
        let (event, ready) = make(self.internal_queue());
        let list = match joined.take() {
            Some((mut list, _)) => {
                list.clear();
                list
            }
            None => Vec::new(),
        };
        let mut list = list;
        list.extend(events.iter().map(Event::id));
        *joined = Some((list, event.clone()));
        (event, ready)
    }
}

/// All contexts, that of this number first. To be dropped with nothing locked: a
/// context may end with its last handle, and that calls drivers.
pub(crate) fn all_contexts(first: u32) -> Vec<Arc<ContextShared>> {
    let mut contexts: Vec<_> = lock(&CONTEXTS).iter().filter_map(Weak::upgrade).collect();
    contexts.sort_by_key(|context| context.id != first);
    contexts
}

/// Frees `wanted` bytes of what is not in use in a space, or as much as there
/// is: first what has copies elsewhere, then anything, written back, then what
/// commands will use that are not handed over yet.
///
/// Nothing is locked while bytes are written back, which may take as long as another
/// machine does; and no object is waited for.
pub(crate) fn evict(contexts: &[Arc<ContextShared>], space: SpaceId, wanted: u64) -> Evicted {
    let mut freed = 0;
    let mut busy = false;
    for what in [Eviction::Redundant, Eviction::Idle, Eviction::Waiting] {
        for context in contexts {
            if context.devices.iter().all(|device| device.space() != space) {
                continue;
            }
            let numbers: Vec<u64> = lock(&context.memories).keys().copied().collect();
            for number in numbers {
                if freed >= wanted {
                    return Evicted::Freed;
                }
                let Some(memory) = context.memory_if_any(number) else {
                    continue;
                };
                match memory.evict(space, what) {
                    Evicted::Freed => freed += memory.size(),
                    Evicted::Busy => busy = true,
                    Evicted::Nothing => {}
                }
            }
        }
    }
    match (freed, busy) {
        (0, true) => Evicted::Busy,
        (0, false) => Evicted::Nothing,
        _ => Evicted::Freed,
    }
}

/// True if no device of any context has anything to do.
pub(crate) fn nothing_moves() -> bool {
    let contexts: Vec<_> = lock(&CONTEXTS).iter().filter_map(Weak::upgrade).collect();
    contexts
        .iter()
        .flat_map(|context| &context.devices)
        .all(|device| device.driver().is_idle())
}

/// How many retired slots make it worth forgetting old handles.
const RETIRED_DUE: usize = 4096;

/// Makes retired slots usable again, now and then.
#[inline]
pub(crate) fn recycle_slots_if_due() {
    if slab::retired() >= RETIRED_DUE {
        recycle_slots();
    }
}

#[cold]
fn recycle_slots() {
    slab::recycle_retired(|| {
        let contexts: Vec<_> = lock(&CONTEXTS).iter().filter_map(Weak::upgrade).collect();
        for context in contexts {
            for memory in lock(&context.memories).values() {
                // SAFETY: a handle refers to it: it is removed before it goes.
                unsafe { memory.0.as_ref() }.tracker().compact();
            }
        }
    });
}

/// The driver of a context's own queue: nothing in it needs a device.
struct NoDriver;

impl Driver for NoDriver {
    fn name(&self) -> &'static str {
        "none"
    }

    fn devices(&self) -> Vec<crate::device::DeviceProperties> {
        Vec::new()
    }

    fn is_idle(&self) -> bool {
        true
    }

    fn notify(&self, notification: Notification) {
        // Markers are ended by whoever releases them; nothing else comes here.
        drop(notification);
    }
}
