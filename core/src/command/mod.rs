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
//!    closed, dependants released, who waits for the queue served, observers
//!    fired, reference given up; in this order. Nothing in it recurses, however
//!    long a chain is. Callbacks come when their thread has nothing in hand any
//!    more that they could wait for (`dispatch`).

mod dispatch;
mod finish;
pub(crate) mod log;
pub mod notify;
pub(crate) mod observers;
pub mod slab;
pub(crate) mod slot;
pub mod state;
#[cfg(test)]
mod tests;

pub use slot::{Kind, Phase};

pub use dispatch::{KeptCallbacks, ToDrivers};
pub(crate) use dispatch::{
    call_at_once, call_back, deliver, dispatch, is_done_by_anyone, let_go, tell,
};
use finish::{broadcast, end_recorded};
pub(crate) use finish::{end_user_event, fail, notify_each, poison};

use crate::access::Argument;
use crate::error::{Error, ErrorKind, Result};
use crate::portable::PortableKernel;
use crate::queue::QueueShared;
use crate::sync::prefetch_for_writing;
use notify::ADDRESS_BITS;
use notify::Closed;
use observers::Observer;
use slot::{Extension, Slot, Vtable};
use std::mem::ManuallyDrop;
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// Which command an event belongs to: a slot and which use of it. Plain data;
/// keeps nothing alive. Zero is no event.
#[derive(Clone, Copy, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct EventId(u64);

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

    /// Waits for the end of the few instructions in which a command is over for its
    /// queue, and somebody knows, while its list is not closed, if it is in them.
    pub(crate) fn settle(self) {
        let Some(slot) = self.slot() else { return };
        let is_open = || slot.notify.closed(self.generation()).is_none();
        if !is_open() {
            return;
        }
        let (queue, sequence) = (slot.queue.get(), slot.sequence.get());
        // Still open, so what was read is of this use of the slot.
        if !is_open() {
            return;
        }
        // SAFETY: queues are never freed.
        let queue = unsafe { queue.as_ref() };
        if !queue.is_some_and(|queue| queue.progress.has_passed(sequence)) {
            return;
        }
        // Whoever ends it has a few instructions to go, and calls nobody in them.
        let mut spins = 0_u32;
        while is_open() {
            spins = spins.saturating_add(1);
            if spins < 100 {
                std::hint::spin_loop();
            } else {
                // It was preempted there; let it run.
                std::thread::yield_now();
            }
        }
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

    /// The kernel as code that drivers compile, if it is a launch of one that has
    /// any.
    #[must_use]
    pub fn portable(&self) -> Option<&dyn PortableKernel> {
        // SAFETY: the state is the vtable's own, and is there for as long as the
        // command is.
        unsafe { (self.vtable().portable)(self.state_pointer()).map(|portable| &*portable) }
    }

    /// True if it is known to be over in a few microseconds once it runs.
    #[must_use]
    pub fn is_brief(&self) -> bool {
        match self.kind() {
            // SAFETY: the state is the vtable's own.
            Kind::Launch => unsafe { (self.vtable().brief)(self.state_pointer(), self.groups()) },
            Kind::Copy | Kind::Fill | Kind::Write | Kind::Read => {
                let bytes = |sum: u64, argument: &Argument| sum.saturating_add(argument.length());
                self.arguments().iter().fold(0, bytes) <= BRIEF_BYTES
            }
            _ => self.needs_no_device(),
        }
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

    /// Says when the device started the command, in nanoseconds on the process's
    /// clock: for a device that starts commands without the host, where
    /// [`Command::start`] only said that it may.
    pub fn started_at(&self, time: u64) {
        if let Some(times) = self.slot().times() {
            times.started.store(time, Ordering::Relaxed);
        }
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
        ErrorKind::Cancelled {
            what: format!("'{}' on '{}'", self.label(), self.queue().device_name()),
        }
        .into()
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
        let recorded = self.slot().recorded.get();
        let slot = ManuallyDrop::new(self).0;
        // SAFETY: the command is owned by the caller, who gives it up here.
        unsafe {
            match result {
                _ if recorded => end_recorded(slot, result, time, sink),
                Ok(()) => broadcast(slot, false, time, sink),
                Err(error) => fail(slot, error, time, sink),
            }
        }
    }

    /// Does a started command that [needs no device](Command::needs_no_device):
    /// ends it, or, if it is a recorded graph, hands over the first of its
    /// commands, of which the last will end it.
    pub fn finish_without_device(self, sink: &mut impl ReadySink) {
        if self.kind() == Kind::Graph {
            crate::graph::play(self, sink);
        } else {
            self.finish(Ok(()), sink);
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
        let command = Self(self.0);
        command.finish(Err(error.into()), &mut ToDrivers);
    }
}

/// Bytes that are copied in a few microseconds.
const BRIEF_BYTES: u64 = 1 << 15;

impl std::fmt::Debug for Command {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} ({:?})", self.label(), self.id())
    }
}

impl Command {
    /// True for markers, barriers and other commands that any thread can do and
    /// end: by [`Command::finish_without_device`].
    #[inline]
    #[must_use]
    pub fn needs_no_device(&self) -> bool {
        self.vtable().needs_no_device
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
    if failed || s.extension.get().is_some() || !s.observers.is_none() {
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
    // SAFETY: as the caller promises.
    unsafe { s.observers.free() };
    if failed {
        // SAFETY: a failed command's payload holds its error; dropped once.
        unsafe { std::ptr::drop_in_place(s.payload.get().cast::<Error>()) };
    }
}

/// Registers an observer with an event; false if the event is already over.
pub(crate) fn observe(slot: NonNull<Slot>, observer: &Arc<Observer>) -> bool {
    // SAFETY: the caller holds a reference.
    let s = unsafe { slot.as_ref() };
    // SAFETY: as above.
    let Err(others) = (unsafe { s.observers.add(&s.notify, observer) }) else {
        return true;
    };
    tell(others);
    call_back();
    false
}

/// Takes an observer out again.
pub(crate) fn unobserve(slot: NonNull<Slot>, observer: &Arc<Observer>) {
    // SAFETY: the caller holds a reference.
    unsafe { slot.as_ref().observers.remove(observer) };
}
