//! Commands and their events.
//!
//! A command and its event are one `Slot`. An enqueue makes it. A driver owns it
//! as a [`Command`], and the user sees it as an [`Event`](crate::Event). Trackers
//! and wait lists keep an [`EventId`]. An id needs no reference count, because it
//! has the generation of the slot that it means.
//!
//! The life of a command:
//!
//! 1. An enqueue takes a slot, writes the body, takes the trackers of all its memory together, and
//!    opens its notify list. It registers an edge with every event that it waits for and that is
//!    not over (`crate::queue::enqueue`).
//! 2. The thread that resolves the last wait owns the command and hands it to its driver. If that
//!    thread is a worker of the command's own pool, it runs the command next.
//! 3. The driver [starts](Command::start) it, does the work of its
//!    [`Operation`](crate::operation::Operation) and [finishes](Command::finish) it, exactly once.
//!    A command that is dropped unfinished fails with an error that says so: nothing is lost.
//! 4. Finishing is `broadcast`. In this order: the body is dropped, the progress
//!    byte is set, the notify list is closed, the queue's watchers are served, the
//!    dependants are resolved, observers are told, and the owner's reference is
//!    given up. Nothing in it recurses, however long a chain is. A thread calls
//!    callbacks after it has handed over all commands that it made ready, because a
//!    callback could wait for them (`deferred`).

mod deferred;
mod finish;
pub(crate) mod id;
pub(crate) mod log;
pub(crate) mod owned;
pub(crate) mod recorded;
pub(crate) mod running;
mod serve;
pub mod slab;
pub(crate) mod slot;
#[cfg(test)]
mod tests;
#[cfg(test)]
mod user_code_tests;
pub(crate) mod view;

pub use id::EventId;
pub use owned::{Command, Gather, ReadySink};
pub use quipu_scheduler_base::{notify, state};
pub use slot::{Kind, Phase};

pub use running::is_inside as is_inside_command;
pub use view::CommandView;

pub(crate) use deferred::{
    Gathering, call_at_once, call_back, contain, deliver, dispatch, enter_blocking_wait, fire,
    hand_over_all, hand_over_found, has_ours, is_done_by_anyone, tell, wake,
};
pub use deferred::{KeptCallbacks, Publisher, ToDrivers, replace_publisher};
use deferred::{publish, run_destructors};
use finish::end_recorded;
pub(crate) use finish::{broadcast, dependant_of, fail, notify_each, poison};
pub(crate) use serve::resolve as resolve_watchers;

use crate::error::{Error, ErrorKind, Result};
use crate::observers::{Key, Observer};
use crate::panics::quietly;
use crate::sync::prefetch_for_writing;
use notify::Closed;
use slot::{Extension, Slot};
use std::mem::ManuallyDrop;
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::Ordering;

impl Command {
    /// Runs code of the command's that is not its native body, as a part of the command: a wait in
    /// there knows that the command cannot end before the wait does.
    pub fn run_inside<R>(&self, run: impl FnOnce() -> R) -> R {
        running::within(self.0.0, run)
    }

    /// Fetches the commands that are likely to run soon after this one: the slots that were
    /// enqueued next.
    #[inline]
    pub fn prefetch_following(&self) {
        let ahead = self.0.0.as_ptr().wrapping_add(4);
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

    /// Notes the facts of the start that profiling, traces and logs need.
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
            quietly(|| log::started(self));
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

    /// The cause stays where it is until the command ends: a driver may start a command before that
    /// is its own, and ask again.
    #[cold]
    fn refusal(&self) -> Error {
        let slot = self.slot();
        if slot.state.is_poisoned() {
            let raw = slot.work.load(Ordering::Acquire);
            if raw != 0 {
                // SAFETY: the first poisoner put its cause there, and only the owner that ends the
                // command takes it; it is not dropped here.
                let cause = unsafe { ManuallyDrop::new(Error::from_raw(raw)) };
                return Error::clone(&cause);
            }
        }
        debug_assert!(slot.cancelled.load(Ordering::Relaxed));
        let what = format!("'{}' on '{}'", self.label(), self.queue().device_name());
        Error::cancelled(what)
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
        if crate::process::is_forked() {
            return self.keep(result);
        }
        let recorded = self.slot().recorded.get();
        let slot = ManuallyDrop::new(self).0.0;
        // SAFETY: the command is owned by the caller, who gives it up here.
        unsafe {
            match result {
                _ if recorded => end_recorded(slot, result, time, sink),
                Ok(()) => broadcast(slot, false, time, sink),
                Err(error) => fail(slot, error, time, sink),
            }
        }
    }

    /// A child of `fork` comes here if the command's code has forked it, and goes on. The command
    /// is kept as it is, as if it were dropped. So is an error, which carries a user's code.
    #[cold]
    fn keep(self, result: Result<()>) {
        crate::process::end_child(result.is_err());
        std::mem::forget(self);
        std::mem::forget(result);
    }

    /// Does the work of a started command that [needs no
    /// device](crate::command::CommandView::needs_no_device): ends it, or, if it is a recorded
    /// graph, hands over the first of its commands. The last of them ends it.
    pub fn finish_without_device(self, sink: &mut impl ReadySink) {
        match self.vtable().rare.begin {
            Some(begin) => begin(self, sink),
            None => self.finish(Ok(()), sink),
        }
    }
}

impl Drop for Command {
    #[cold]
    fn drop(&mut self) {
        if crate::process::is_forked() {
            // Other threads may have had the locks of its dependants. It is kept as it is.
            return;
        }
        let error = ErrorKind::Device {
            device: self.queue().device_name().to_owned(),
            what: format!("run '{}'", self.label()),
            message: "the driver dropped the command unfinished".to_owned(),
        };
        let command = Self(CommandView(self.0.0));
        command.finish(Err(error.into()), &mut ToDrivers);
    }
}

/// Adds a reference.
#[inline]
pub(crate) fn retain(slot: NonNull<Slot>) {
    // SAFETY: the caller holds a reference.
    let references = &unsafe { slot.as_ref() }.references;
    if references.fetch_add(1, Ordering::Relaxed) > MOST_REFERENCES {
        // As `Arc` does: only a program that forgets handles comes here, and one more round would
        // free a slot in use.
        std::process::abort();
    }
}

/// More references than fit into memory.
const MOST_REFERENCES: u32 = u32::MAX / 2;

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

/// Drops the parts of a slot that few commands have.
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
        // SAFETY: a failed command's payload holds its error; read once.
        discard(unsafe { s.payload.get().cast::<Error>().read() });
    }
}

/// Drops an error, in the middle of an end or as the last handle goes. The error may carry a value
/// of the user's, whose destructor may block.
#[cold]
pub(crate) fn discard(error: Error) {
    publish();
    run_destructors(|| drop(error));
}

/// Registers an observer with an event; `None` if the event is already over.
pub(crate) fn observe(slot: NonNull<Slot>, observer: &Arc<Observer>) -> Option<Key> {
    // SAFETY: the caller holds a reference.
    let s = unsafe { slot.as_ref() };
    // SAFETY: as above.
    match unsafe { s.observers.add(&s.notify, observer) } {
        Ok(key) => Some(key),
        Err(others) => {
            tell(others);
            call_back();
            None
        }
    }
}

/// Takes an observer out again.
pub(crate) fn unobserve(slot: NonNull<Slot>, key: Key) {
    // SAFETY: the caller holds a reference.
    unsafe { slot.as_ref().observers.remove(key) };
}
