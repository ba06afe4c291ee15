//! Commands and their events.
//!
//! A command and its event are one `Slot`: made by an enqueue, owned by
//! a driver as a [`Command`], seen by the user as an [`Event`](crate::Event),
//! and remembered by trackers and wait lists as an [`EventId`], which needs no
//! reference count because it says which use of the slot it means.
//!
//! The life of a command:
//!
//! 1. An enqueue takes a slot, writes the body, takes the trackers of all its
//!    memory together, opens its notify list, and registers an edge with every
//!    event that it waits for and that is not over (`crate::queue::enqueue`).
//! 2. Whoever resolves the last wait owns the command and hands it to its
//!    driver, or, being a worker of that driver, runs it next itself.
//! 3. The driver [starts](Command::start) it, does what its
//!    [`Operation`](crate::operation::Operation) says and
//!    [finishes](Command::finish) it, exactly once. A command that is dropped
//!    unfinished fails with an error that says so: nothing is lost.
//! 4. Finishing is `broadcast`: state dropped, progress marked, notify list
//!    closed, dependants released, observers fired, reference given up; in
//!    this order. Nothing in it recurses, however long a chain is.

pub(crate) mod log;
pub mod notify;
pub(crate) mod observers;
pub mod slab;
pub(crate) mod slot;
pub mod state;

pub use slot::{Kind, Phase};

use crate::access::Argument;
use crate::error::{Error, ErrorKind, Result};
use crate::queue::QueueShared;
use crate::sync::prefetch_for_writing;
use notify::{Closed, Entry, Tag};
use observers::{Observer, ObserverList};
use slot::{Extension, OverflowEdge, Slot, Vtable};
use state::Resolved;
use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::mem::ManuallyDrop;
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// Which command an event belongs to: a slot and which use of it. Plain data;
/// keeps nothing alive. Zero is no event.
#[derive(Clone, Copy, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct EventId(u64);

const ADDRESS_BITS: u32 = 47;

impl EventId {
    /// No event: always over.
    pub const NONE: Self = Self(0);

    #[inline]
    pub(crate) fn new(slot: NonNull<Slot>, generation: u32) -> Self {
        Self(u64::from(generation) << ADDRESS_BITS | slot.as_ptr().expose_provenance() as u64)
    }

    #[inline]
    pub(crate) fn generation(self) -> u32 {
        (self.0 >> ADDRESS_BITS) as u32
    }

    /// The slot, or `None` for no event. Slots are never unmapped, so its
    /// notify word may be read even when the event is long over.
    #[inline]
    pub(crate) fn slot(self) -> Option<&'static Slot> {
        let address = (self.0 & ((1 << ADDRESS_BITS) - 1)) as usize;
        // SAFETY: the address of a slot, which is never unmapped. Fields other
        // than `notify` are touched only by those whom the protocol allows.
        unsafe { std::ptr::with_exposed_provenance::<Slot>(address).as_ref() }
    }

    /// True if this is no event.
    #[inline]
    #[must_use]
    pub fn is_none(self) -> bool {
        self.0 == 0
    }

    /// True if the event is over (or there is none).
    #[inline]
    #[must_use]
    pub fn is_over(self) -> bool {
        self.slot()
            .is_none_or(|slot| slot.notify.closed(self.generation()).is_some())
    }

    /// The event of this [`number`](EventId::number).
    #[inline]
    pub(crate) fn from_number(number: u64) -> Self {
        Self(number)
    }

    /// True if the command must not run: one that it depends on failed, or it
    /// was cancelled. For a driver that holds the command.
    #[must_use]
    pub fn is_refused(self) -> bool {
        self.slot().is_some_and(Slot::is_refused)
    }

    /// A number that identifies the event while it is not over, as traces
    /// show it.
    #[must_use]
    pub fn number(self) -> u64 {
        self.0
    }
}

impl std::fmt::Debug for EventId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "event {:#x}", self.0)
    }
}

/// A command whose waits are resolved (or, at `submit`, about to be): owned by
/// whoever is to run it.
pub struct Command(NonNull<Slot>);

// SAFETY: a command is owned; its body's state is required to be `Send`.
unsafe impl Send for Command {}

/// Where the dependants go that a finished command makes ready.
pub trait ReadySink {
    /// Takes the command if this sink's owner runs it, or gives it back, to be
    /// handed to its own driver.
    fn accept(&mut self, command: Command) -> Option<Command>;

    /// Called before and after the dependants of a finished command are gone
    /// through, so that they can be handed over together.
    #[inline]
    fn gather(&mut self, begin: bool) {
        let _ = begin;
    }
}

/// A sink that takes nothing: every dependant goes to its driver.
pub struct ToDrivers;

impl ReadySink for ToDrivers {
    fn gather(&mut self, begin: bool) {
        if begin {
            DRAINING.set(DRAINING.get() + 1);
        } else {
            DRAINING.set(DRAINING.get() - 1);
            drain();
        }
    }

    #[inline]
    fn accept(&mut self, command: Command) -> Option<Command> {
        Some(command)
    }
}

impl Command {
    #[inline]
    pub(crate) fn from_slot(slot: NonNull<Slot>) -> Self {
        Self(slot)
    }

    #[inline]
    pub(crate) fn slot(&self) -> &Slot {
        // SAFETY: an owned command's slot is in use by it.
        unsafe { self.0.as_ref() }
    }

    #[inline]
    fn vtable(&self) -> &'static Vtable {
        let vtable = self.slot().vtable.get();
        debug_assert!(vtable.is_some());
        // SAFETY: a command has a vtable from its construction on; only user
        // events have none, and they are never commands.
        unsafe { vtable.unwrap_unchecked() }
    }

    /// The command as a thin pointer, for intrusive lists and deques.
    #[inline]
    #[must_use]
    pub fn into_raw(self) -> NonNull<()> {
        ManuallyDrop::new(self).0.cast()
    }

    /// Where the command is, without giving it up.
    #[inline]
    pub(crate) fn as_raw(&self) -> NonNull<()> {
        self.0.cast()
    }

    /// A word of the command's that its owner may use while the command is
    /// ready and not finished: to link it into a list.
    #[inline]
    pub fn set_link(&self, link: u64) {
        self.slot().link.set(link);
    }

    /// The word last [set](Command::set_link).
    #[inline]
    #[must_use]
    pub fn link(&self) -> u64 {
        self.slot().link.get()
    }

    /// The command back from its pointer.
    ///
    /// # Safety
    /// `raw` came from [`Command::into_raw`] and is used once.
    #[inline]
    #[must_use]
    pub unsafe fn from_raw(raw: NonNull<()>) -> Self {
        Self(raw.cast())
    }

    /// The command's event.
    #[inline]
    #[must_use]
    pub fn id(&self) -> EventId {
        EventId::new(self.0, self.slot().notify.generation())
    }

    /// Whose command it is, in a word: see [`QueueShared::route`].
    #[inline]
    #[must_use]
    pub fn route(&self) -> u64 {
        self.queue().route()
    }

    /// The command's kind.
    #[inline]
    #[must_use]
    pub fn kind(&self) -> Kind {
        self.vtable().kind
    }

    /// A number for the type of the command's body: the same for launches of
    /// the same kernel type.
    #[inline]
    #[must_use]
    pub fn body_key(&self) -> usize {
        std::ptr::from_ref(self.vtable()).addr()
    }

    /// The queue it was enqueued to.
    #[inline]
    #[must_use]
    pub fn queue(&self) -> &QueueShared {
        // SAFETY: the queue outlives the commands in it (see `queue`).
        unsafe { &*self.slot().queue.get() }
    }

    /// Its name: the user's label, or the body's name.
    #[must_use]
    pub fn label(&self) -> &str {
        self.slot().label()
    }

    /// What it accesses.
    #[inline]
    #[must_use]
    pub fn arguments(&self) -> &[Argument] {
        // SAFETY: owned and not over.
        unsafe { self.slot().arguments() }
    }

    /// Where its body's state is.
    #[inline]
    pub(crate) fn state_pointer(&self) -> *mut u8 {
        self.slot().state_pointer()
    }

    /// Work-groups of a launch; 1 for anything else.
    #[inline]
    #[must_use]
    pub fn groups(&self) -> u32 {
        (self.slot().work.load(Ordering::Relaxed) >> 32) as u32
    }

    /// Runs the body natively over a range of its work-groups, with its
    /// arguments resolved by the driver. Unwinds if the body panics.
    ///
    /// # Errors
    /// What the body returns.
    ///
    /// # Safety
    /// The command was started; `arguments` point to its arguments' bytes,
    /// valid, and written by nobody else meanwhile as their modes demand; each
    /// group is run at most once.
    #[inline]
    pub unsafe fn run_native(
        &self,
        arguments: &[crate::access::RawArgument],
        groups: std::ops::Range<u32>,
    ) -> Result<()> {
        // SAFETY: the state is the vtable's own; the rest as the caller promises.
        unsafe { (self.vtable().run)(self.state_pointer(), arguments, groups) }
    }

    /// Fetches what is likely to be run soon after this command: the slots that
    /// were enqueued next.
    #[inline]
    pub fn prefetch_following(&self) {
        let ahead = self.0.as_ptr().wrapping_add(4);
        for line in 0..3 {
            prefetch_for_writing(ahead.wrapping_byte_add(64 * line));
        }
    }

    /// Marks the command as handed to its device.
    #[inline]
    pub fn submitted(&self) {
        self.slot()
            .phase
            .store(Phase::Submitted as u8, Ordering::Relaxed);
        if let Some(times) = self.slot().times() {
            times
                .submitted
                .store(crate::clock::now_ns(), Ordering::Relaxed);
        }
    }

    /// Starts the command, unless it must not run.
    ///
    /// # Errors
    /// The error to finish it with: it was cancelled, or a dependency failed.
    #[inline]
    pub fn start(&self) -> Result<()> {
        self.start_at(None)
    }

    /// As [`Command::start`], at a time that the device gives, in nanoseconds
    /// on the process's clock.
    ///
    /// # Errors
    /// As [`Command::start`].
    #[inline]
    pub fn start_at(&self, time: Option<u64>) -> Result<()> {
        let slot = self.slot();
        if slot.is_refused() {
            return Err(self.refusal());
        }
        slot.phase.store(Phase::Running as u8, Ordering::Relaxed);
        if let Some(extension) = slot.extension() {
            self.note_start(extension, time);
        }
        Ok(())
    }

    /// What profiling, traces and logs want to know of the start.
    #[cold]
    fn note_start(&self, extension: &Extension, time: Option<u64>) {
        if let Some(times) = &extension.times {
            let now = time.unwrap_or_else(crate::clock::now_ns);
            if times.submitted.load(Ordering::Relaxed) == 0 {
                times.submitted.store(now, Ordering::Relaxed);
            }
            times.started.store(now, Ordering::Relaxed);
        }
        if extension.logged {
            log::started(self);
        }
    }

    /// As [`Command::start`], on one of the device's lanes (workers, engines),
    /// which the trace shows.
    ///
    /// # Errors
    /// As [`Command::start`].
    #[inline]
    pub fn start_on(&self, lane: u32) -> Result<()> {
        let slot = self.slot();
        if slot.extension.get().is_some()
            && let Some(times) = slot.times()
        {
            times.lane.store(lane, Ordering::Relaxed);
        }
        self.start()
    }

    /// Says which of the device's lanes runs the command, for the trace.
    pub fn set_lane(&self, lane: u32) {
        if let Some(times) = self.slot().times() {
            times.lane.store(lane, Ordering::Relaxed);
        }
    }

    /// True if the command must not run: cancelled or poisoned.
    #[inline]
    #[must_use]
    pub fn is_refused(&self) -> bool {
        self.slot().is_refused()
    }

    #[cold]
    fn refusal(&self) -> Error {
        let slot = self.slot();
        if slot.state.is_poisoned() {
            let raw = slot.work.swap(0, Ordering::Acquire);
            if raw != 0 {
                // SAFETY: the first poisoner put its cause there; taken once.
                return unsafe { Error::from_raw(raw) };
            }
        }
        debug_assert!(slot.cancelled.load(Ordering::Relaxed));
        ErrorKind::Cancelled.into()
    }

    /// Ends the command: the contract's `broadcast`. Dependants that become
    /// ready go to `sink` or to their drivers.
    #[inline]
    pub fn finish(self, result: Result<()>, sink: &mut impl ReadySink) {
        self.finish_at(result, None, sink);
    }

    /// As [`Command::finish`], at a time that the device gives.
    #[inline]
    pub fn finish_at(self, result: Result<()>, time: Option<u64>, sink: &mut impl ReadySink) {
        let slot = ManuallyDrop::new(self).0;
        // SAFETY: the command is owned by the caller, who gives it up here.
        unsafe {
            match result {
                Ok(()) => broadcast(slot, false, time, sink),
                Err(error) => fail(slot, error, time, sink),
            }
        }
    }
}

impl Drop for Command {
    #[cold]
    fn drop(&mut self) {
        let error = ErrorKind::Device {
            device: self.queue().device_name().to_owned(),
            what: format!("run '{}'", self.label()),
            message: "the driver dropped the command unfinished".to_owned(),
        };
        // SAFETY: the command is owned and being given up.
        unsafe { fail(self.0, error.into(), None, &mut ToDrivers) };
    }
}

impl std::fmt::Debug for Command {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} ({:?})", self.label(), self.id())
    }
}

/// Ends a command with an error: keeps the error, poisons what it would have
/// written, and broadcasts.
///
/// # Safety
/// The caller owns the command and gives it up.
#[cold]
pub(crate) unsafe fn fail(
    slot: NonNull<Slot>,
    error: Error,
    time: Option<u64>,
    sink: &mut impl ReadySink,
) {
    // SAFETY: owned by the caller.
    let s = unsafe { slot.as_ref() };
    // A cause that was stored but is not the one we fail with is dropped.
    if s.state.is_poisoned() {
        let raw = s.work.swap(0, Ordering::Acquire);
        if raw != 0 {
            // SAFETY: the first poisoner put it there; taken once.
            drop(unsafe { Error::from_raw(raw) });
        }
    }
    tracing::debug!(command = s.label(), %error, "failed");
    if let Some(vtable) = s.vtable.get() {
        let id = EventId::new(slot, s.notify.generation());
        // Before the list is closed: a command that looks at a tracker later
        // and finds this one over must find the poison too.
        // SAFETY: owned, and not over.
        for argument in unsafe { s.arguments() } {
            // A migration reads the object, and writes its copy elsewhere.
            if argument.mode().writes() || vtable.kind == Kind::Migrate {
                // SAFETY: memory outlives the commands that use it.
                let memory = unsafe { argument.memory_pointer().as_ref() };
                memory.poison(argument.range(), id, &error);
            }
        }
        if let Some(drop) = vtable.drop {
            // SAFETY: the state is the vtable's, and dropped once.
            unsafe { drop(s.state_pointer()) };
        }
    }
    // SAFETY: the payload is free now: arguments and state are done with. No
    // reader looks at it until the list is closed as failed.
    unsafe { s.payload.get().cast::<Error>().write(error) };
    // SAFETY: as the caller promises.
    unsafe { broadcast_dropped(slot, true, time, sink) };
}

/// # Safety
/// The caller owns the command and gives it up.
#[inline]
unsafe fn broadcast(
    slot: NonNull<Slot>,
    failed: bool,
    time: Option<u64>,
    sink: &mut impl ReadySink,
) {
    // SAFETY: owned by the caller.
    let s = unsafe { slot.as_ref() };
    if let Some(drop) = s.vtable.get().and_then(|vtable| vtable.drop) {
        // SAFETY: the state is the vtable's, and dropped once.
        unsafe { drop(s.state_pointer()) };
    }
    // SAFETY: as the caller promises.
    unsafe { broadcast_dropped(slot, failed, time, sink) };
}

/// Ends a user event.
///
/// # Safety
/// The caller owns the event's owning reference and gives it up.
pub(crate) unsafe fn end_user_event(
    slot: NonNull<Slot>,
    error: Option<Error>,
    sink: &mut impl ReadySink,
) {
    // SAFETY: as the caller promises.
    unsafe {
        match error {
            None => broadcast(slot, false, None, sink),
            Some(error) => fail(slot, error, None, sink),
        }
    }
}

/// The common end: progress, close, release, observe, forget.
///
/// # Safety
/// The caller owns the command and gives it up; its state is dropped.
#[inline]
unsafe fn broadcast_dropped(
    slot: NonNull<Slot>,
    failed: bool,
    time: Option<u64>,
    sink: &mut impl ReadySink,
) {
    // SAFETY: owned by the caller; freed at the earliest by `release` below.
    let s = unsafe { slot.as_ref() };
    if let Some(times) = s.times() {
        record(s, slot, times, failed, time);
    }
    let queue = s.queue.get();
    let done = s.done.get();
    if !done.is_null() {
        // SAFETY: the progress page lives until this byte is set and seen.
        unsafe { (*done).store(1, Ordering::Release) };
    }
    let observed = match s.notify.close(failed) {
        None => false,
        // SAFETY: an entry's word lives until its owner is released.
        Some(first) => match unsafe { first.next() } {
            // SAFETY: the entry was taken from the closed list.
            None => unsafe { resolve_entry(first, failed, s, sink) },
            // SAFETY: as above.
            Some(second) => unsafe { resolve_list(first, second, failed, s, sink) },
        },
    };
    if observed {
        fire_observers(s);
    }
    if !queue.is_null() {
        // SAFETY: queues are type-stable: after the close above this may be a
        // recycled one, whose flag is merely looked at.
        let queue = unsafe { &*queue };
        if queue.progress.is_sentinel(s.sequence.get()) {
            queue.progress(sink);
        }
    }
    // The usual end, without a second look at what is known here.
    if !failed
        && s.references.load(Ordering::Acquire) == 1
        && s.extension.get().is_none()
        && s.observers.load(Ordering::Relaxed).is_null()
    {
        // SAFETY: the only reference was the owner's, and is given up.
        unsafe { slab::give(slot) };
        return;
    }
    // SAFETY: the owner's reference, given up once.
    unsafe { release(slot) };
}

/// Resolves what an entry of a closed list stands for; true if that is the
/// observers, who are told last.
///
/// # Safety
/// `entry` was taken from the closed notify list of `over`, its next was read.
#[inline]
unsafe fn resolve_entry(
    entry: Entry,
    failed: bool,
    over: &Slot,
    sink: &mut impl ReadySink,
) -> bool {
    match entry.tag() {
        Tag::Observers => true,
        tag => {
            // SAFETY: as the caller promises.
            unsafe { resolve_edge(entry, tag, failed, over, sink) };
            false
        }
    }
}

/// As [`resolve_entry`], of a list of several.
///
/// # Safety
/// `first` was taken from the closed notify list of `over`; `second` is its next.
#[inline(never)]
unsafe fn resolve_list(
    first: Entry,
    second: Entry,
    failed: bool,
    over: &Slot,
    sink: &mut impl ReadySink,
) -> bool {
    sink.gather(true);
    // SAFETY: as the caller promises.
    let mut observed = unsafe { resolve_entry(first, failed, over, sink) };
    let mut entry = Some(second);
    let mut length = 1_usize;
    while let Some(current) = entry {
        // SAFETY: an entry's word lives until its owner is released, below.
        entry = unsafe { current.next() };
        if let Some(next) = entry {
            length += 1;
            prefetch_list(next, length);
        }
        // SAFETY: the entry was taken from the closed list, its next was read.
        observed |= unsafe { resolve_entry(current, failed, over, sink) };
    }
    sink.gather(false);
    observed
}

/// Dependants of a long list that are fetched ahead: a miss takes as long as
/// some tens of them, and a core has a dozen in flight.
const AHEAD: usize = 16;

/// Fetches what follows in a notify list. A long one leads from the command
/// enqueued last to the first, which mostly means downwards through memory.
#[inline]
fn prefetch_list(next: Entry, length: usize) {
    let slot = next.address().cast::<Slot>();
    match length {
        0..4 => {}
        4 => (1..AHEAD).for_each(|ahead| prefetch_for_writing(slot.wrapping_sub(ahead))),
        _ => prefetch_for_writing(slot.wrapping_sub(AHEAD)),
    }
}

#[cold]
fn record(s: &Slot, slot: NonNull<Slot>, times: &slot::Times, failed: bool, time: Option<u64>) {
    let now = time.unwrap_or_else(crate::clock::now_ns);
    times.ended.store(now, Ordering::Relaxed);
    crate::tracing_records::record(s, EventId::new(slot, s.notify.generation()), times, failed);
}

#[cold]
fn fire_observers(s: &Slot) {
    // SAFETY: the list is freed with the slot's use, which the owner's
    // reference still holds.
    let list = unsafe { s.observers.load(Ordering::Acquire).as_ref() };
    for observer in list.map(ObserverList::close).unwrap_or_default() {
        observer.fire();
    }
}

/// Resolves one wait of a dependant.
///
/// # Safety
/// `entry` was taken from the closed notify list of `over`, its next was read.
#[inline]
unsafe fn resolve_edge(
    entry: Entry,
    tag: Tag,
    failed: bool,
    over: &Slot,
    sink: &mut impl ReadySink,
) {
    let dependant = match tag {
        Tag::Order | Tag::Propagate => {
            let address = entry.address();
            let base = address.addr() & !(align_of::<Slot>() - 1);
            // An inline edge lies in its slot's first cache line.
            let slot = address.with_addr(base).cast_mut().cast::<Slot>();
            // SAFETY: an edge's address is not null.
            unsafe { NonNull::new_unchecked(slot) }
        }
        _ => {
            // SAFETY: an overflow edge starts with its word and lives until
            // its dependant is released.
            unsafe { (*entry.address().cast::<OverflowEdge>()).dependant }
        }
    };
    // SAFETY: the dependant is alive: it still counts this wait.
    let d = unsafe { dependant.as_ref() };
    if failed && matches!(tag, Tag::Propagate | Tag::OverflowPropagate) {
        // SAFETY: `over` is failed and its reference is still held.
        poison(d, || unsafe { over.error() }.for_dependant());
    }
    // Read before the wait is resolved: afterwards it may be run and freed.
    let queue = d.queue.get();
    let generation = d.notify.generation();
    match d.state.resolve() {
        Resolved::Last => deliver(Command(dependant), sink),
        Resolved::One => {}
        Resolved::Each => notify_each(
            queue,
            EventId::new(dependant, generation),
            EventId::new(NonNull::from(over), over.notify.generation()),
        ),
    }
}

/// Tells a driver that wants to know that one of several waits is resolved.
#[cold]
pub(crate) fn notify_each(queue: *const QueueShared, command: EventId, event: EventId) {
    // SAFETY: queues are never freed, and this one's driver holds the command,
    // or has finished it meanwhile and ignores the note.
    if let Some(queue) = unsafe { queue.as_ref() }
        && let Some(driver) = queue.try_driver()
    {
        driver.notify(crate::driver::Notification::Resolved { command, event });
    }
}

/// Marks a command as one that must not run, with the first cause given.
pub(crate) fn poison(slot: &Slot, cause: impl FnOnce() -> Error) {
    if slot.state.poison() {
        slot.work.store(cause().into_raw(), Ordering::Release);
    }
}

/// Hands a ready command to the sink or to its driver.
#[inline]
pub(crate) fn deliver(command: Command, sink: &mut impl ReadySink) {
    if let Some(command) = sink.accept(command) {
        dispatch(command);
    }
}

thread_local! {
    static READY: RefCell<VecDeque<Command>> = const { RefCell::new(VecDeque::new()) };
    /// How often this thread is inside of gathering or draining.
    static DRAINING: Cell<u32> = const { Cell::new(0) };
}

/// Commands that are handed over together, at most.
const BATCH: usize = 256;

/// Hands a ready command to its driver, or ends it here if it is one that
/// needs no device. Iterative: what becomes ready meanwhile is queued.
pub(crate) fn dispatch(command: Command) {
    let length = READY.with_borrow_mut(|ready| {
        ready.push_back(command);
        ready.len()
    });
    match DRAINING.get() {
        0 => drain(),
        // A long list is handed over while it is gone through.
        1 if length >= BATCH => {
            DRAINING.set(0);
            drain();
            DRAINING.set(1);
        }
        _ => {}
    }
}

#[cold]
fn drain() {
    if DRAINING.get() != 0 {
        return;
    }
    DRAINING.set(1);
    let mut batch = Vec::new();
    let mut driver: Option<Arc<dyn crate::driver::Driver>> = None;
    while let Some(command) = READY.with_borrow_mut(VecDeque::pop_front) {
        if command.needs_no_device() {
            let result = command.start();
            // Deeper than any gathering: what this releases is queued.
            DRAINING.set(2);
            command.finish(result, &mut ToDrivers);
            DRAINING.set(1);
            continue;
        }
        // Consecutive commands of one driver go to it together.
        let next = command.queue().driver();
        if !driver.as_ref().is_some_and(|held| Arc::ptr_eq(held, next)) {
            hand_over_batch(driver.as_ref(), &mut batch);
            driver = Some(next.clone());
        }
        batch.push(command);
        if batch.len() >= BATCH || READY.with_borrow(VecDeque::is_empty) {
            hand_over_batch(driver.as_ref(), &mut batch);
        }
    }
    hand_over_batch(driver.as_ref(), &mut batch);
    DRAINING.set(0);
    // The last command handed over by another thread meanwhile is not ours,
    // but what this thread's drivers made ready during the last batch is.
    if !READY.with_borrow(VecDeque::is_empty) {
        drain();
    }
}

fn hand_over_batch(driver: Option<&Arc<dyn crate::driver::Driver>>, batch: &mut Vec<Command>) {
    if let (Some(driver), false) = (driver, batch.is_empty()) {
        driver.notify_ready(batch);
        debug_assert!(batch.is_empty(), "a driver takes all that is ready");
        batch.clear();
    }
}

impl Command {
    /// True for markers, barriers and other commands that any thread can end.
    #[inline]
    #[must_use]
    pub fn needs_no_device(&self) -> bool {
        matches!(self.kind(), Kind::Marker | Kind::Barrier)
    }
}

/// Adds a reference.
#[inline]
pub(crate) fn retain(slot: NonNull<Slot>) {
    // SAFETY: the caller holds a reference.
    unsafe { slot.as_ref() }
        .references
        .fetch_add(1, Ordering::Relaxed);
}

/// Gives up a reference; the last frees the slot.
///
/// # Safety
/// The caller owns a reference and does not use it again.
#[inline]
pub(crate) unsafe fn release(slot: NonNull<Slot>) {
    // SAFETY: the caller holds a reference.
    let s = unsafe { slot.as_ref() };
    // A sole owner needs no read-modify-write: references are only ever made
    // from references (weak handles are never upgraded).
    if s.references.load(Ordering::Acquire) == 1 || s.references.fetch_sub(1, Ordering::AcqRel) == 1
    {
        // SAFETY: nothing refers to this use of the slot any more.
        unsafe { free(slot) };
    }
}

/// Frees a slot.
///
/// # Safety
/// Nothing refers to its current use any more.
#[inline(never)]
unsafe fn free(slot: NonNull<Slot>) {
    // SAFETY: as the caller promises.
    let s = unsafe { slot.as_ref() };
    let failed = s.notify.closed(s.notify.generation()) == Some(Closed::Failed);
    if failed || s.extension.get().is_some() || !s.observers.load(Ordering::Relaxed).is_null() {
        // SAFETY: as the caller promises.
        unsafe { clean(slot, failed) };
    }
    // SAFETY: as above.
    unsafe { slab::give(slot) };
}

/// Drops what few slots hold.
///
/// # Safety
/// Nothing refers to this use of the slot any more.
#[cold]
unsafe fn clean(slot: NonNull<Slot>, failed: bool) {
    // SAFETY: as the caller promises.
    let s = unsafe { slot.as_ref() };
    if let Some(extension) = s.extension.take() {
        // SAFETY: made by `Slot::extend`, taken once.
        drop(unsafe { Box::from_raw(extension.as_ptr()) });
    }
    let observers = s.observers.swap(std::ptr::null_mut(), Ordering::Relaxed);
    if !observers.is_null() {
        // SAFETY: made by `observe`, freed once, with the slot's last reference.
        drop(unsafe { Box::from_raw(observers) });
    }
    if failed {
        // SAFETY: a failed command's payload holds its error; dropped once.
        unsafe { std::ptr::drop_in_place(s.payload.get().cast::<Error>()) };
    }
}

/// Registers an observer with an event; false if the event is already over.
pub(crate) fn observe(slot: NonNull<Slot>, observer: &Arc<Observer>) -> bool {
    // SAFETY: the caller holds a reference.
    let s = unsafe { slot.as_ref() };
    let mut list = s.observers.load(Ordering::Acquire);
    if list.is_null() {
        let fresh = Box::into_raw(Box::new(ObserverList::new()));
        match s
            .observers
            .compare_exchange(list, fresh, Ordering::AcqRel, Ordering::Acquire)
        {
            Ok(_) => {
                list = fresh;
                let generation = s.notify.generation();
                // SAFETY: the list lives until the slot's last reference goes,
                // which is after the notify list is closed and read.
                let pushed = unsafe {
                    s.notify
                        .push(generation, &raw const (*fresh).word, Tag::Observers)
                };
                if pushed.is_err() {
                    // Over already; whoever added itself meanwhile must hear it.
                    fire_observers(s);
                    return false;
                }
            }
            Err(other) => {
                // SAFETY: never published.
                drop(unsafe { Box::from_raw(fresh) });
                list = other;
            }
        }
    }
    // SAFETY: alive as above.
    unsafe { (*list).add(observer) }
}

/// Takes an observer out again.
pub(crate) fn unobserve(slot: NonNull<Slot>, observer: &Arc<Observer>) {
    // SAFETY: the caller holds a reference, which keeps the list.
    let list = unsafe { slot.as_ref().observers.load(Ordering::Acquire).as_ref() };
    if let Some(list) = list {
        list.remove(observer);
    }
}
