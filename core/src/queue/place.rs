//! Places: the part of a queue that lower floors know, its progress and the driver of its commands.
//!
//! Lifetime: commands point to their queue without a count. A queue that its user has dropped lives
//! on until its last command is over. Then its memory is recycled for another queue but never
//! freed, because a thread that has just ended a command may still look at the queue's watch flag.
//!
//! Two types keep these apart. A [`Place`] is that memory: its holder may look at the progress of
//! the queue there, and knows nothing else of it. A [`QueueShared`] is a queue in use. It is only
//! ever lent, by an object that keeps the queue in use: a handle, a command that is not over, or a
//! call of the core into the queue's driver.

use super::gate::Gate;
use super::options::{Priority, QueueOptions};
use super::progress::Progress;
use crate::command::id::EventId;
use crate::flush_demand;
use crate::memory::space_id::SpaceId;
use crate::router::Router;
use crate::sync::lock;
use std::any::Any;
use std::cell::{Cell, UnsafeCell};
use std::ops::Deref;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex};

/// A queue in use, as the core and drivers see it. It is lent by an object that keeps the queue in
/// use, and not for longer:
///
/// ```compile_fail,E0505
/// fn outlives(queue: quipu_scheduler::Queue) -> bool {
///     let shared = queue.shared();
///     drop(queue);
///     shared.driver().needs_flush()
/// }
/// ```
#[repr(transparent)]
pub struct QueueShared(Place);

impl Deref for QueueShared {
    type Target = Place;

    #[inline]
    fn deref(&self) -> &Place {
        &self.0
    }
}

/// The memory of a queue, which is handed from queue to queue and never freed.
pub struct Place {
    /// A copy of a word that is looked at as each command becomes ready.
    route: Cell<u64>,
    head: UnsafeCell<Option<Head>>,
    pub(crate) gate: Gate,
    pub(crate) progress: Progress,
    /// Held while the queue ends, and while an event looks for its driver.
    recycling: Mutex<()>,
    /// The number of the context, which no other context has: see `flush`.
    pub(super) context_number: AtomicU32,
    /// Threads that flush it without a handle, and whether it has ended
    /// meanwhile; changed under the lock of `flush`.
    pub(super) visitors: AtomicU32,
    pub(super) ended: AtomicBool,
}

/// The parts of a queue in one of its lives that this floor knows.
pub(crate) struct Head {
    /// The driver's address and the device's index, for a quick look at whose
    /// queue this is.
    pub(crate) owner: (*const (), u32),
    /// The driver.
    pub(crate) router: Arc<dyn Router>,
    /// The device; none of a context's own queue.
    pub(crate) device: Option<DeviceName>,
    pub(crate) options: QueueOptions,
    /// The number of the context, if the queue is not the context's own.
    pub(crate) context_id: u32,
    pub(crate) space: SpaceId,
    /// The device uses memory of the host where it is (`Memory::space_on`).
    pub(crate) maps_host_memory: bool,
    pub(crate) domain: Option<u64>,
    pub(crate) timed: bool,
    /// See `Driver::moves_within_spaces`.
    pub(crate) moves_within_spaces: bool,
    pub(crate) needs_flush: bool,
    pub(crate) dirty: AtomicBool,
    pub(crate) id: u32,
    /// The parts of the floor of queues: a `Links` (`queue`).
    pub(crate) links: Box<dyn Any + Send + Sync>,
}

/// The names of a device for people and for traces.
pub(crate) struct DeviceName {
    pub(crate) name: String,
    pub(crate) id: u32,
}

/// The route of normal-priority commands of the first device of the driver at
/// this address; other devices and priorities have another.
#[must_use]
pub fn route_to(driver: *const ()) -> u64 {
    driver.addr() as u64
}

impl Head {
    fn route(&self) -> u64 {
        let (driver, device) = self.owner;
        if device == 0 && self.options.priority == Priority::Normal {
            route_to(driver)
        } else {
            // No driver lies at an odd address.
            1
        }
    }
}

// SAFETY: `head` and `route` change only in `QueueShared::create` and `Place::vacate`, while no
// command and no handle uses the queue, and under `recycling`; they are read through a
// `QueueShared`, which is lent only while the queue is in use, or under `recycling`. All fields of
// a head may be used by any thread, but for the address in `owner`, which is only compared. All
// else is atomic or locked.
unsafe impl Send for Place {}
// SAFETY: as for `Send`, just above.
unsafe impl Sync for Place {}

static RECYCLED: Mutex<Vec<&'static Place>> = Mutex::new(Vec::new());

/// All places, with queues in use and without.
static PLACES: Mutex<Vec<&'static Place>> = Mutex::new(Vec::new());

/// Has all gates forget barriers that are over, before their ids come again.
pub(crate) fn forget_barriers() {
    for place in lock(&PLACES).iter() {
        place
            .gate
            .forget(|id| EventId::from_number(id).is_finished());
    }
}

impl QueueShared {
    /// A queue with this head, in a place that was left or a new one.
    pub(crate) fn create(head: Head, context_number: u32) -> &'static Place {
        if head.needs_flush {
            flush_demand::note_need();
        }
        if let Some(place) = lock(&RECYCLED).pop() {
            let starting = lock(&place.recycling);
            place.route.set(head.route());
            place
                .context_number
                .store(context_number, Ordering::Relaxed);
            // SAFETY: a recycled place has no queue in use, and `look` looks at it under the lock.
            unsafe { *place.head.get() = Some(head) };
            drop(starting);
            return place;
        }
        let place: &'static Place = Box::leak(Box::new(Place {
            route: Cell::new(head.route()),
            head: UnsafeCell::new(Some(head)),
            gate: Gate::new(),
            progress: Progress::new(),
            recycling: Mutex::new(()),
            context_number: AtomicU32::new(context_number),
            visitors: AtomicU32::new(0),
            ended: AtomicBool::new(false),
        }));
        lock(&PLACES).push(place);
        place
    }

    /// The number of barriers that the queue remembers.
    #[cfg(test)]
    pub(crate) fn remembered_barriers(&self) -> usize {
        self.gate.remembered() + usize::from(self.gate.is_closed())
    }

    /// The queue's place, which stays when the queue has ended.
    #[inline]
    pub(crate) fn place(&self) -> &'static Place {
        // SAFETY: a `QueueShared` is only made by `Place::in_use`, of a place that is never freed.
        unsafe { &*std::ptr::from_ref(&self.0) }
    }

    #[inline]
    pub(crate) fn head(&self) -> &Head {
        // SAFETY: the queue is in use, as `Place::in_use` demands, so its head is there and does
        // not change.
        unsafe { (*self.head.get()).as_ref().unwrap_unchecked() }
    }

    /// The driver of the queue's device, as far as this floor knows it.
    #[inline]
    pub(crate) fn router(&self) -> &Arc<dyn Router> {
        &self.head().router
    }

    /// The queue's driver, device and priority in one word, to be compared
    /// with [`route_to`].
    #[inline]
    #[must_use]
    pub fn route(&self) -> u64 {
        self.route.get()
    }

    /// The address of the queue's driver and the index of its device there.
    #[inline]
    #[must_use]
    pub fn owner(&self) -> (*const (), u32) {
        self.head().owner
    }

    /// The device's number within its driver.
    #[inline]
    #[must_use]
    pub fn device_index(&self) -> usize {
        self.head().owner.1 as usize
    }

    pub(crate) fn device_name(&self) -> &str {
        let device = self.head().device.as_ref();
        device.map_or("host", |device| &device.name)
    }

    /// The queue's options.
    #[inline]
    #[must_use]
    pub fn options(&self) -> &QueueOptions {
        &self.head().options
    }

    /// The queue's priority.
    #[inline]
    #[must_use]
    pub fn priority(&self) -> Priority {
        self.options().priority
    }

    /// A number that identifies the queue in traces.
    #[must_use]
    pub fn id(&self) -> u32 {
        self.head().id
    }

    /// The memory space of the queue's device.
    pub(crate) fn space(&self) -> SpaceId {
        self.head().space
    }

    /// The sync domain of the queue's device.
    pub(crate) fn domain(&self) -> Option<u64> {
        self.head().domain
    }

    /// True if its commands keep timestamps.
    pub(crate) fn is_timed(&self) -> bool {
        self.head().timed
    }
}

impl Place {
    /// The queue that is here.
    ///
    /// # Safety
    /// As long as the result is used, that queue is in use: a handle of it lives ([`Handle`]), a
    /// command of it is not over, or it is visited (`flush::Visit`). So [`recycle`](Place::recycle)
    /// has not been called for it.
    #[inline]
    pub(crate) unsafe fn in_use<'a>(&'static self) -> &'a QueueShared {
        // SAFETY: the same in memory.
        unsafe { &*std::ptr::from_ref(self).cast::<QueueShared>() }
    }

    /// Calls `look` with the head of the queue here, if there is one. Commands that the caller
    /// knows may be of an earlier queue.
    fn look<R>(&self, look: impl FnOnce(&Head) -> R) -> Option<R> {
        let _staying = lock(&self.recycling);
        // SAFETY: the head changes only under the lock.
        unsafe { &*self.head.get() }.as_ref().map(look)
    }

    /// The driver of the queue here, if there is one: see [`look`](Place::look).
    pub(crate) fn try_router(&self) -> Option<Arc<dyn Router>> {
        self.look(|head| head.router.clone())
    }

    /// The sync domain of the device of the queue here, if there is one: see [`look`](Place::look).
    pub(crate) fn try_domain(&self) -> Option<u64> {
        self.look(|head| head.domain)?
    }

    /// The queue's device and number, for people: also of a queue that may have ended.
    pub(crate) fn describe(&self) -> String {
        let described = self.look(|head| {
            let device = head.device.as_ref();
            let name = device.map_or("the host", |device| &device.name);
            format!("queue {} on '{name}'", head.id)
        });
        described.unwrap_or_else(|| "a queue that has ended".to_owned())
    }

    /// The driver of the queue here, unless `is_finished` says that the command of this queue that
    /// the caller knows of is over: then the queue may be gone.
    pub(crate) fn router_unless(
        &self,
        is_finished: impl FnOnce() -> bool,
    ) -> Option<Arc<dyn Router>> {
        // A command that is not over keeps its queue; with the lock held, the
        // queue stays even if the command ends meanwhile.
        self.look(|head| (!is_finished()).then(|| head.router.clone()))?
    }

    /// Makes the place available to another queue, and gives the head of the one that was here.
    ///
    /// # Safety
    /// No handle of the queue is left, its last command is over, and nobody visits it; called once
    /// for it.
    pub(crate) unsafe fn vacate(&'static self) -> Option<Head> {
        let recycling = lock(&self.recycling);
        // SAFETY: no handle, no command and no visitor uses the queue any more; `look` does so
        // under the lock.
        let head = unsafe { (*self.head.get()).take() };
        drop(recycling);
        self.gate.reset();
        self.progress.reset();
        lock(&RECYCLED).push(self);
        head
    }
}

impl std::fmt::Debug for QueueShared {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "queue {} on {}", self.id(), self.device_name())
    }
}
