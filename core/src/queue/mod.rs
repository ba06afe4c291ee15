//! Queues: where commands are enqueued, and what order they have.
//!
//! *In-order*: commands have the effects that running them one after another
//! would have, and the host sees their events complete in that order; yet
//! commands that share no memory hazard run in parallel. *Out-of-order*: only
//! waits, markers, barriers (and hazards, which the Rust front end always
//! tracks) order them.
//!
//! A command of *unknown access* (a host task that does not declare what it
//! touches) is a full barrier of an in-order queue.
//!
//! Lifetime: commands point to their queue without a count. A queue that its
//! user has dropped lives on until its last command is over; then its memory is
//! recycled for another queue but never freed, so that a thread that has just
//! ended a command may still look at the queue's watch flag.

pub(crate) mod enqueue;
pub(crate) mod progress;

use crate::command::observers::{Action, Observer};
use crate::command::state::Resolved;
use crate::command::{
    Command, EventId, ReadySink, ToDrivers, call_back, deliver, let_go, notify_each, tell,
};
use crate::context::ContextShared;
use crate::device::Device;
use crate::driver::Driver;
use crate::error::{ErrorKind, Result};
use crate::event::{SeesTo, Waiter};
use crate::memory::SpaceId;
use crate::polling;
use progress::{Progress, Watcher};
use std::cell::UnsafeCell;
use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

/// How urgent a queue's commands are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Priority {
    /// Run when nothing else is ready.
    Low,
    /// The usual.
    #[default]
    Normal,
    /// Run before others.
    High,
}

/// How a driver finds out that a command is over, where its device does not
/// tell it anyway.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Completion {
    /// The device's vendor calls back. Costs nothing while nothing ends.
    #[default]
    Callback,
    /// A thread looks again and again while commands are in flight: least time
    /// from a command's end to what comes after it, for a core that is busy
    /// meanwhile.
    Polling,
}

/// What kind of queue to make.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QueueOptions {
    /// Program order, else only waits, markers and barriers (and hazards).
    pub in_order: bool,
    /// Every enqueue waits for its command. If waiting could never end, that is the enqueue's error, and the command is
    /// cancelled: it is not run unless it has started.
    pub blocking: bool,
    /// Keep timestamps.
    pub profiling: bool,
    /// How urgent.
    pub priority: Priority,
    /// How ends of commands are found out. Drivers that know them anyway take no
    /// notice.
    pub completion: Completion,
}

impl Default for QueueOptions {
    /// In-order, non-blocking, no timestamps, normal priority.
    fn default() -> Self {
        Self {
            in_order: true,
            blocking: false,
            profiling: false,
            priority: Priority::Normal,
            completion: Completion::Callback,
        }
    }
}

/// A queue, as the core and drivers see it. Never freed, only recycled.
pub struct QueueShared {
    /// A copy of what is looked at as each command becomes ready.
    route: std::cell::Cell<u64>,
    body: UnsafeCell<Option<Body>>,
    gate: Gate,
    pub(crate) progress: Progress,
    /// Held while the queue ends, and while an event looks for its driver.
    recycling: Mutex<()>,
    /// Threads that flush it without a handle, and whether it has ended
    /// meanwhile; changed under the lock of `DIRTY`.
    visitors: AtomicU32,
    ended: AtomicBool,
}

/// What a queue is in one of its lives.
struct Body {
    /// The driver's address and the device's index, for a quick look at whose
    /// queue this is.
    owner: (*const (), u32),
    driver: Arc<dyn Driver>,
    device: Option<Device>,
    /// Keeps the context while the queue has commands; the context's own
    /// queues must not.
    context: ContextLink,
    options: QueueOptions,
    context_id: u32,
    space: SpaceId,
    domain: Option<u64>,
    timed: bool,
    needs_flush: bool,
    dirty: AtomicBool,
    id: u32,
}

/// The route of normal-priority commands of the first device of the driver at
/// this address; other devices and priorities have another.
#[must_use]
pub fn route_to(driver: *const ()) -> u64 {
    driver.addr() as u64
}

impl Body {
    /// The error of a lost device or context.
    #[cold]
    fn check_lost(&self) -> Result<()> {
        let device = self.device.as_ref().and_then(Device::lost);
        let context = match &self.context {
            ContextLink::Counted(context) => context.lost(),
            ContextLink::Own(_) => None,
        };
        device.or(context).map_or(Ok(()), |lost| Err(lost.clone()))
    }

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

enum ContextLink {
    Counted(Arc<ContextShared>),
    Own(Weak<ContextShared>),
}

// SAFETY: the body changes only while no command and no handle uses the queue;
// the rest is atomic or locked.
unsafe impl Send for QueueShared {}
// SAFETY: as above.
unsafe impl Sync for QueueShared {}

/// The last barrier: commands enqueued after it wait for it.
///
/// A barrier publishes its id with an unknown number, takes its number, then
/// publishes that. A command takes its number first and then looks: a barrier
/// with a smaller number is therefore always seen.
struct Gate {
    id: AtomicU64,
    sequence: AtomicU64,
    /// Recent barriers by number, and the lock that barriers hold meanwhile.
    history: Mutex<VecDeque<Barrier>>,
}

/// A barrier that may not be over.
#[derive(Clone, Copy)]
struct Barrier {
    sequence: u64,
    id: EventId,
    /// True if it waits for all before it, not only for a list.
    full: bool,
}

const UNKNOWN: u64 = u64::MAX;

static NEXT_ID: AtomicU32 = AtomicU32::new(1);
static RECYCLED: Mutex<Vec<&'static QueueShared>> = Mutex::new(Vec::new());

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl QueueShared {
    fn create(body: Body) -> &'static Self {
        if let Some(queue) = lock(&RECYCLED).pop() {
            let starting = lock(&queue.recycling);
            queue.route.set(body.route());
            // SAFETY: a recycled queue is used by nobody, and those who still
            // look at it do so under the lock.
            unsafe { *queue.body.get() = Some(body) };
            drop(starting);
            return queue;
        }
        Box::leak(Box::new(Self {
            route: std::cell::Cell::new(body.route()),
            body: UnsafeCell::new(Some(body)),
            gate: Gate {
                id: AtomicU64::new(0),
                sequence: AtomicU64::new(0),
                history: Mutex::new(VecDeque::new()),
            },
            progress: Progress::new(),
            recycling: Mutex::new(()),
            visitors: AtomicU32::new(0),
            ended: AtomicBool::new(false),
        }))
    }

    #[inline]
    fn body(&self) -> &Body {
        // SAFETY: set while the queue is in use, which the caller's access to
        // it shows.
        let body = unsafe { &*self.body.get() }.as_ref();
        debug_assert!(body.is_some(), "a queue in use has a body");
        // SAFETY: as above.
        unsafe { body.unwrap_unchecked() }
    }

    /// The driver of the queue's device.
    #[inline]
    #[must_use]
    pub fn driver(&self) -> &Arc<dyn Driver> {
        &self.body().driver
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
        self.body().owner
    }

    /// The driver, if the queue is in use: by commands that the caller knows
    /// of, or already by others.
    pub(crate) fn try_driver(&self) -> Option<Arc<dyn Driver>> {
        let _staying = lock(&self.recycling);
        // SAFETY: the body changes only under the lock.
        unsafe { &*self.body.get() }
            .as_ref()
            .map(|body| body.driver.clone())
    }

    /// The sync domain of the device, if the queue is in use as above.
    pub(crate) fn try_domain(&self) -> Option<u64> {
        let _staying = lock(&self.recycling);
        // SAFETY: the body changes only under the lock.
        unsafe { &*self.body.get() }.as_ref()?.domain
    }

    /// The queue's device; `None` for a context's own queue.
    #[inline]
    #[must_use]
    pub fn device(&self) -> Option<&Device> {
        self.body().device.as_ref()
    }

    /// The device's number within its driver.
    #[inline]
    #[must_use]
    pub fn device_index(&self) -> usize {
        self.device().map_or(0, Device::index)
    }

    pub(crate) fn device_name(&self) -> &str {
        self.device().map_or("host", Device::name)
    }

    /// The queue's options.
    #[inline]
    #[must_use]
    pub fn options(&self) -> &QueueOptions {
        &self.body().options
    }

    /// A number that identifies the queue in traces.
    #[must_use]
    pub fn id(&self) -> u32 {
        self.body().id
    }

    /// The memory space of the queue's device.
    pub(crate) fn space(&self) -> SpaceId {
        self.body().space
    }

    /// The sync domain of the queue's device.
    pub(crate) fn domain(&self) -> Option<u64> {
        self.body().domain
    }

    /// # Errors
    /// If the device, or the context, is lost.
    pub(crate) fn check_lost(&self) -> Result<()> {
        self.body().check_lost()
    }

    /// True if its commands keep timestamps.
    pub(crate) fn is_timed(&self) -> bool {
        self.body().timed
    }

    pub(crate) fn context(&self) -> Option<Arc<ContextShared>> {
        match &self.body().context {
            ContextLink::Counted(context) => Some(context.clone()),
            ContextLink::Own(context) => context.upgrade(),
        }
    }

    /// The queue's sentinel is over: serves whoever waited for it. The caller calls
    /// back when it has nothing else in hand.
    #[cold]
    pub(crate) fn progress(&self, sink: &mut impl ReadySink) {
        let mut served = Vec::new();
        self.progress.take_served(&mut served);
        serve(served, sink);
    }

    /// Serves `watcher` when every command numbered below `end` is over; gives
    /// it back if that is so already. The caller calls back, as above.
    pub(crate) fn watch(&self, end: u64, watcher: Watcher) -> Result<(u64, u64), Watcher> {
        let mut served = Vec::new();
        let outcome = self.progress.watch(end, watcher, &mut served);
        serve(served, &mut ToDrivers);
        outcome
    }

    /// Fires `observer` when every command numbered below `end` is over; `None` if
    /// that is so already.
    pub(crate) fn observe(&self, end: u64, observer: &Arc<Observer>) -> Option<(u64, u64)> {
        let key = self.watch(end, Watcher::Observer(observer.clone())).ok();
        call_back();
        key
    }

    /// Takes a watcher out again, if it was not served.
    pub(crate) fn unwatch(&self, key: (u64, u64)) {
        let mut served = Vec::new();
        self.progress.unwatch(key, &mut served);
        serve(served, &mut ToDrivers);
        call_back();
    }

    /// Notes that commands were submitted that a flush has to start. Called after
    /// the submission: a flush that comes between would miss it.
    pub(crate) fn mark_dirty(&'static self) {
        if self.body().dirty.load(Ordering::Acquire) {
            return;
        }
        let mut dirty = lock(&DIRTY);
        if !self.body().dirty.swap(true, Ordering::AcqRel) {
            dirty.push(self);
            DIRTY_COUNT.store(dirty.len(), Ordering::Release);
        }
    }

    fn flush(&'static self) {
        let body = self.body();
        if body.needs_flush && body.dirty.load(Ordering::Acquire) {
            let mut dirty = lock(&DIRTY);
            self.clean(&mut dirty);
            drop(dirty);
            body.driver.flush(self);
        }
    }

    /// Takes the queue out of the dirty ones.
    fn clean(&self, dirty: &mut Vec<&'static QueueShared>) {
        if self.body().dirty.swap(false, Ordering::AcqRel) {
            dirty.retain(|queue| !std::ptr::eq(*queue, self));
            DIRTY_COUNT.store(dirty.len(), Ordering::Release);
        }
    }

    /// The driver, unless `is_over` says that the command of this queue that the
    /// caller knows of is over: then the queue may be gone.
    pub(crate) fn driver_unless(&self, is_over: impl FnOnce() -> bool) -> Option<Arc<dyn Driver>> {
        // A command that is not over keeps its queue; with the lock held, the
        // queue stays even if the command ends meanwhile.
        let _staying = lock(&self.recycling);
        (!is_over()).then(|| self.driver().clone())
    }

    /// Makes the queue's memory available to another queue. Its last command
    /// is over.
    fn recycle(&'static self) {
        {
            let mut dirty = lock(&DIRTY);
            self.clean(&mut dirty);
            if self.visitors.load(Ordering::Relaxed) > 0 {
                // Somebody is just flushing it, and recycles it then.
                self.ended.store(true, Ordering::Relaxed);
                return;
            }
        }
        let recycling = lock(&self.recycling);
        // SAFETY: no handle and no command uses the queue any more; whoever
        // still looks at its watch flag does not look at the body.
        let body = unsafe { (*self.body.get()).take() };
        drop(recycling);
        self.gate.id.store(0, Ordering::SeqCst);
        lock(&self.gate.history).clear();
        self.progress.reset();
        lock(&RECYCLED).push(self);
        // Last: this may end the context.
        drop(body);
    }
}

/// Resolves the waits of all that are commands before anybody else hears of it, who
/// may wait for those.
fn serve(served: Vec<Watcher>, sink: &mut impl ReadySink) {
    if served.is_empty() {
        return;
    }
    let mut observers = Vec::new();
    ToDrivers.gather(true);
    for watcher in served {
        match watcher {
            Watcher::Command(slot) => {
                // SAFETY: the command counts this wait.
                let s = unsafe { slot.as_ref() };
                let queue = s.queue.get();
                let id = EventId::new(slot, s.notify.generation());
                match s.state.resolve() {
                    Resolved::Last => {
                        deliver(Command::from_slot(slot), sink);
                    }
                    Resolved::Each => notify_each(queue, id, EventId::NONE),
                    Resolved::One => {}
                }
            }
            Watcher::Observer(observer) => observers.push(observer),
        }
    }
    ToDrivers.gather(false);
    tell(observers);
}

impl std::fmt::Debug for QueueShared {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "queue {} on {}", self.id(), self.device_name())
    }
}

/// Queues with commands that a flush has to start. A wait flushes them all:
/// what is waited for may depend on any of them.
static DIRTY: Mutex<Vec<&'static QueueShared>> = Mutex::new(Vec::new());
static DIRTY_COUNT: std::sync::atomic::AtomicUsize = std::sync::atomic::AtomicUsize::new(0);

/// Flushes every queue that has something to flush.
pub(crate) fn flush_all() {
    while DIRTY_COUNT.load(Ordering::Acquire) != 0 {
        let queue = {
            let mut dirty = lock(&DIRTY);
            let Some(queue) = dirty.last().copied() else {
                return;
            };
            // Visited, it is not recycled.
            queue.visitors.fetch_add(1, Ordering::Relaxed);
            queue.clean(&mut dirty);
            queue
        };
        queue.body().driver.flush(queue);
        let ended = {
            let _dirty = lock(&DIRTY);
            queue.visitors.fetch_sub(1, Ordering::Relaxed) == 1
                && queue.ended.swap(false, Ordering::Relaxed)
        };
        if ended {
            queue.recycle();
        }
    }
}

/// A queue of a device in a context. Clones are the same queue; when the last
/// is dropped, the queue is flushed and what is in it still runs.
#[derive(Clone)]
pub struct Queue {
    shared: &'static QueueShared,
    _handle: Arc<Handle>,
}

struct Handle(&'static QueueShared);

impl Drop for Handle {
    fn drop(&mut self) {
        let queue = self.0;
        let end = queue.progress.end();
        if !queue.progress.reached(end) {
            // What is in it may wait for commands of other queues, which nobody
            // may flush any more: as a wait, this flushes them all. To follow the
            // waits instead would cost every command a list of them.
            flush_all();
        }
        let recycle = Observer::new(Action::Call(Box::new(move || queue.recycle())));
        if queue.observe(end, &recycle).is_none() {
            recycle.fire();
        }
    }
}

impl Queue {
    pub(crate) fn new(
        context: &Arc<ContextShared>,
        device: &Device,
        options: QueueOptions,
    ) -> Self {
        Self::with_link(
            ContextLink::Counted(context.clone()),
            device.driver().clone(),
            Some(device.clone()),
            options,
        )
    }

    /// A queue that belongs to the context itself.
    pub(crate) fn internal(
        context: Weak<ContextShared>,
        driver: Arc<dyn Driver>,
        device: Option<Device>,
    ) -> Self {
        let options = QueueOptions {
            in_order: false,
            ..QueueOptions::default()
        };
        Self::with_link(ContextLink::Own(context), driver, device, options)
    }

    fn with_link(
        context: ContextLink,
        driver: Arc<dyn Driver>,
        device: Option<Device>,
        options: QueueOptions,
    ) -> Self {
        let id = NEXT_ID.fetch_add(1, Ordering::Relaxed);
        let tracing = crate::trace::enabled();
        if tracing {
            let name = device.as_ref().map_or("host", Device::name);
            crate::trace::name_queue(id, &format!("queue {id} on {name}"));
        }
        let shared = QueueShared::create(Body {
            context_id: match &context {
                ContextLink::Counted(context) => context.id(),
                ContextLink::Own(_) => 0,
            },
            space: device.as_ref().map_or(SpaceId::HOST, Device::space),
            domain: device.as_ref().and_then(Device::domain),
            timed: options.profiling || tracing,
            needs_flush: driver.needs_flush(),
            owner: (
                Arc::as_ptr(&driver).cast(),
                device.as_ref().map_or(0, |device| device.index() as u32),
            ),
            driver,
            device,
            context,
            options,
            dirty: AtomicBool::new(false),
            id,
        });
        Self {
            shared,
            _handle: Arc::new(Handle(shared)),
        }
    }

    /// The queue as drivers see it.
    #[inline]
    #[must_use]
    pub fn shared(&self) -> &'static QueueShared {
        self.shared
    }

    /// True if everything that was enqueued is over.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.shared.progress.reached(self.shared.progress.end())
    }

    /// Makes everything that was enqueued run without a further call.
    pub fn flush(&self) {
        self.shared.flush();
    }

    /// Waits until everything that was enqueued before the call is over,
    /// whatever others enqueue meanwhile. Failed commands are over too: their
    /// events say so.
    ///
    /// # Errors
    /// If waiting here could never end.
    pub fn wait(&self) -> Result<()> {
        let end = self.shared.progress.end();
        let happened = || self.shared.progress.reached(end);
        let _let_go = let_go(false, &happened)?;
        let _seen_to = SeesTo::join(Some(&**self.shared.driver()));
        flush_all();
        let _resumed = polling::while_waiting();
        let driver = &**self.shared.driver();
        let waiter = Waiter::for_queue(self.shared, driver, end);
        waiter.join(driver)?;
        if waiter.is_done() {
            Ok(())
        } else {
            Err(ErrorKind::TimedOut.into())
        }
    }
}

impl std::fmt::Debug for Queue {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.shared.fmt(f)
    }
}
