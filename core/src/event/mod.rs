//! Events as users hold them: futures of commands.

pub(crate) mod blocked;
mod clock;
pub(crate) mod polling;
pub(crate) mod stepped;
mod user;
mod waiting;

pub use blocked::wait_graph;
pub use clock::{Clock, SystemClock};
pub use user::UserEvent;
pub use waiting::{
    Armed, Joiner, Waiter, is_waiting, log_waits_longer_than, may_wait, refuse_waits,
    replace_joiner, will_poll, work_alone, works_alone,
};
pub(crate) use waiting::{SeesTo, hand_over_needed, watch_as_environment_says};

use crate::command::slot::{Slot, Times};
use crate::command::{EventId, Phase, call_at_once, fire, observe, release, retain, unobserve};
use crate::error::{Error, ErrorKind, Result};
use crate::flush_demand::FlushDemand;
use crate::notify::Closed;
use crate::observers::{Action, Key, Observer};
use crate::queue::flush::flush_for;
use crate::queue::place::Place;
use clock::Deadline;
use std::pin::Pin;
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::{Context, Poll};
use std::time::Duration;
use waiting::join_first;

/// The event of a command: a future of its end, which can also be waited for,
/// polled, given a callback, and cancelled while it does not run.
///
/// Dropping an event does nothing to its command. Events of an in-order queue
/// are seen complete in program order.
pub struct Event {
    /// The slot, marked with [`ORDER_ALONE`].
    marked: NonNull<Slot>,
    /// The place of this future among the event's observers.
    registration: Option<Box<Registration>>,
}

/// Set in the address of the slot: in a list of waits, the event's failure does not fail the
/// waiting command. No field of its own, for every enqueue gives an event. A byte beside two words
/// is moved in pieces, and a load that reads them back together has to wait until all stores before
/// it have reached the cache.
const ORDER_ALONE: usize = 1;

const _: () = assert!(
    align_of::<Slot>() > ORDER_ALONE && size_of::<Result<Event>>() == 2 * size_of::<usize>()
);

enum Registration {
    Slot(Arc<Observer>, Key),
    Queue(Arc<Observer>, (u64, u64)),
}

// SAFETY: an event is a counted reference to a slot whose shared parts are
// atomic or locked.
unsafe impl Send for Event {}
// SAFETY: as above.
unsafe impl Sync for Event {}

impl Event {
    /// Takes over a reference to a slot in use.
    #[inline]
    pub(crate) fn from_slot(slot: NonNull<Slot>) -> Self {
        Self {
            marked: slot,
            registration: None,
        }
    }

    /// The same event for a list of waits in which it is an order alone: a command that waits for
    /// it is run after it however it ends. The failure of any other event in the list fails the
    /// command.
    #[must_use]
    pub fn as_order(&self) -> Self {
        let mut event = self.clone();
        event.marked = event.marked.map_addr(|address| address | ORDER_ALONE);
        event
    }

    #[inline]
    pub(crate) fn is_order_alone(&self) -> bool {
        self.marked.addr().get() & ORDER_ALONE != 0
    }

    #[inline]
    fn slot_pointer(&self) -> NonNull<Slot> {
        let slot = self
            .marked
            .as_ptr()
            .map_addr(|address| address & !ORDER_ALONE);
        // SAFETY: a slot's address, which is not null.
        unsafe { NonNull::new_unchecked(slot) }
    }

    #[inline]
    fn slot(&self) -> &Slot {
        // SAFETY: the event holds a reference.
        unsafe { self.slot_pointer().as_ref() }
    }

    /// The id of the event's command.
    #[inline]
    #[must_use]
    pub fn id(&self) -> EventId {
        EventId::new(self.slot_pointer(), self.slot().notify.generation())
    }

    /// The place of the queue of its command, which may have ended. None of the host's.
    #[inline]
    pub(crate) fn queue(&self) -> Option<&'static Place> {
        self.slot().queue.get()
    }

    /// The way in which the command ended, or `None` if it has not: as its list says, and as its
    /// queue does.
    fn closed(&self) -> Option<Closed> {
        self.closed_list().or_else(|| self.about_to_close())
    }

    /// The way in which the command ended, as far as its list says.
    fn closed_list(&self) -> Option<Closed> {
        let notify = &self.slot().notify;
        notify.closed(notify.generation())
    }

    /// The way in which the command ended, if its queue knows already that it has. Its byte there
    /// is set first, and its list closed then. A thread that has learnt of the byte, from a marker,
    /// the queue, or a later command, must not hear from the event that the command goes on, or
    /// that it ended well before its list says how.
    fn about_to_close(&self) -> Option<Closed> {
        if crate::process::is_forked() {
            // The thread that ends it is in the parent.
            return None;
        }
        self.id().spin_until_closed();
        self.closed_list()
    }

    /// The number after this command's, if its queue shows events in order.
    fn visible_at(&self) -> Option<(&'static Place, u64)> {
        let queue = self.queue()?;
        let sequence = self.slot().sequence.get();
        (self.slot().in_order.get()).then_some((queue, sequence + 1))
    }

    /// The queue and number of the command, if its queue shows events in order and a command before
    /// it may go on.
    pub(crate) fn awaited_turn(&self) -> Option<(&'static Place, u64)> {
        let (queue, end) = self.visible_at()?;
        (!queue.progress.reached(end - 1)).then_some((queue, end - 1))
    }

    /// True if the command is over, successfully or not, and for an in-order queue all before it
    /// are. While it is not, this flushes the commands that it may wait for, so a loop that asks
    /// again and again ends.
    ///
    /// In a command, a callback or a waker such a loop may never end, because the event may need
    /// commands or callbacks of this very thread. Wait there: a wait runs and calls these.
    #[must_use]
    pub fn is_complete(&self) -> bool {
        if self.is_visible() {
            return true;
        }
        flush_for([self.queue()]);
        self.is_visible()
    }

    /// As [`Event::is_complete`], a mere look.
    pub(crate) fn is_visible(&self) -> bool {
        self.closed().is_some() && self.is_in_turn()
    }

    /// As [`Event::is_visible`], for a thread that looks again and again until it is true. Looks
    /// only at the line that the end writes, so it may be true a little later.
    fn is_seen_closed(&self) -> bool {
        self.closed_list().is_some() && self.is_in_turn()
    }

    /// True if all before it are over, where that matters.
    fn is_in_turn(&self) -> bool {
        self.visible_at()
            .is_none_or(|(queue, end)| queue.progress.reached(end))
    }

    /// The error, if the command failed; does not look at the queue's order.
    pub(crate) fn failure(&self) -> Option<Error> {
        // SAFETY: closed as failed, and a reference is held.
        let error =
            (self.closed() == Some(Closed::Failed)).then(|| unsafe { self.slot().error() })?;
        error.is_heard();
        Some(error)
    }

    /// The result of the command, or `None` while it is not over.
    #[must_use]
    pub fn result(&self) -> Option<Result<()>> {
        self.is_complete()
            .then(|| self.failure().map_or(Ok(()), Err))
    }

    /// The state of the command.
    #[must_use]
    pub fn phase(&self) -> Phase {
        match self.closed() {
            Some(_) if !self.is_visible() => Phase::Running,
            Some(Closed::Failed) => Phase::Failed,
            Some(_) => Phase::Complete,
            None => Phase::from_byte(self.slot().phase.load(Ordering::Relaxed)).min(Phase::Running),
        }
    }

    /// Asks that the command not be run. If it has not started, it fails with
    /// [`ErrorKind::Cancelled`] once its waits are resolved, and so do the commands that depend on
    /// it. If it has started, nothing happens. A [`UserEvent`]'s own event is not cancelled: it
    /// ends as its owner says.
    pub fn cancel(&self) {
        self.slot().cancelled.store(true, Ordering::Relaxed);
    }

    /// Waits until the command is over.
    ///
    /// # Errors
    /// The command's error, or that waiting here could never end.
    pub fn wait(&self) -> Result<()> {
        self.wait_over()?;
        self.failure().map_or(Ok(()), Err)
    }

    /// Waits until the command is over, however it ends.
    ///
    /// # Errors
    /// If waiting here could never end.
    pub fn wait_over(&self) -> Result<()> {
        if self.is_visible() {
            return Ok(());
        }
        self.join(None)
    }

    /// Waits until the command is over, for so long at most. In a callback, other callbacks that
    /// this thread is to call are not called meanwhile: they may take longer, or wait for code
    /// after this wait.
    ///
    /// # Errors
    /// [`ErrorKind::TimedOut`] if it is not over by then (it goes on); else as
    /// [`Event::wait`].
    pub fn wait_timeout(&self, timeout: Duration) -> Result<()> {
        self.wait_until(|| Deadline::after(timeout))
    }

    /// As [`Event::wait_timeout`], with a clock of the caller's.
    ///
    /// # Errors
    /// As [`Event::wait_timeout`].
    pub fn wait_with_clock(&self, timeout: Duration, clock: &dyn Clock) -> Result<()> {
        self.wait_until(|| Deadline::by(clock, timeout))
    }

    fn wait_until<'a>(&self, deadline: impl FnOnce() -> Deadline<'a>) -> Result<()> {
        if !self.is_visible() {
            self.join(Some(deadline()))?;
            if !self.is_visible() {
                return Err(ErrorKind::TimedOut.into());
            }
        }
        self.failure().map_or(Ok(()), Err)
    }

    /// Waits until the first of `events` is over, however it ends; for so long at most, if it is
    /// said.
    ///
    /// # Errors
    /// [`ErrorKind::TimedOut`] if none is over by then; that waiting here for any of them could
    /// never end, as if there are none.
    pub fn wait_for_first(events: &[&Event], timeout: Option<Duration>) -> Result<()> {
        if events.is_empty() {
            return Err(ErrorKind::WouldDeadlock {
                why: "of no events none is ever over first; pass at least one".into(),
            }
            .into());
        }
        let is_any_visible = || events.iter().any(|event| event.is_visible());
        if is_any_visible() {
            return Ok(());
        }
        join_first(events, timeout.map(Deadline::after))?;
        if timeout.is_some() && !is_any_visible() {
            return Err(ErrorKind::TimedOut.into());
        }
        Ok(())
    }

    fn join(&self, deadline: Option<Deadline<'_>>) -> Result<()> {
        join_first(&[self], deadline)
    }

    /// Calls `callback` with the result when the command is over, or now if it
    /// is. It runs on whichever thread ends the command, with no lock held;
    /// keep it short. Callbacks of one thread are called one after the other.
    ///
    /// A callback may call [`Event::wait`]. Meanwhile the thread calls its other callbacks. A
    /// callback that blocks by other means, such as an executor's `block_on`, may wait for one of
    /// these for ever. On a thread of a driver a wait fails with [`ErrorKind::WouldDeadlock`].
    ///
    /// A callback must not wait for anything that another thread, or a waker of the same event,
    /// does after a wait of its own. A thread that waits ends commands and calls back, so it may be
    /// this very thread, inside of that wait. For the same reason a callback must not take a lock
    /// that any thread holds while it enqueues, flushes, waits, drops a buffer or a queue, or asks
    /// for a callback. Each of these may end commands and call the callback, which would then wait
    /// for its own thread.
    ///
    /// In a [child](crate::process) of a process that used Quipu, it is called now. If the command
    /// is not over, the result is [`ErrorKind::Forked`].
    pub fn on_complete(&self, callback: impl FnOnce(Result<()>) + Send + 'static) {
        if let Err(forked) = crate::process::check() {
            let result = if self.is_visible() {
                self.failure().map_or(Ok(()), Err)
            } else {
                Err(forked)
            };
            let call = Action::Call(Box::new(move || callback(result)));
            return call_at_once(Observer::new(call));
        }
        let event = self.clone();
        let call = Action::Call(Box::new(move || {
            callback(event.failure().map_or(Ok(()), Err));
        }));
        let observer = Observer::with_demand(call, Some(self.demand_flushes()));
        // Flushed once it is registered: else an event that ends meanwhile would have it called
        // here, by a thread that may hold a lock that it waits for. Commands that are enqueued
        // later are flushed for it.
        match self.register(&observer) {
            Some(_) => flush_for([self.queue()]),
            None => call_at_once(observer),
        }
    }

    /// Takes out the waker that it was polled with last, if any: it is not woken any more.
    pub fn forget_waker(&mut self) {
        // A clone has none, and the drop of the original takes it out.
        *self = self.clone();
    }

    /// Notes that later enqueues are to be flushed for an observer of this event.
    fn demand_flushes(&self) -> FlushDemand {
        FlushDemand::new(self.queue().map(Place::context_number))
    }

    /// Adds an observer; `None` if the event is over.
    fn register(&self, observer: &Arc<Observer>) -> Option<Registration> {
        // If all before it are over, the wait is for its own end alone, which costs less to be told
        // of.
        let all_before_are_over = |(queue, end): &(&Place, u64)| queue.progress.reached(end - 1);
        if let Some((queue, end)) = self.visible_at().filter(|at| !all_before_are_over(at)) {
            return queue
                .observe(end, observer)
                .map(|key| Registration::Queue(observer.clone(), key));
        }
        observe(self.slot_pointer(), observer).map(|key| Registration::Slot(observer.clone(), key))
    }

    /// Takes an observer out again.
    fn unregister(&self, registration: &Registration) {
        if crate::process::is_forked() {
            // Another thread may have had the list's lock, and nobody is told of anything here.
            return;
        }
        match registration {
            Registration::Slot(_, key) => unobserve(self.slot_pointer(), *key),
            Registration::Queue(_, key) => {
                if let Some(queue) = self.queue() {
                    queue.unwatch(*key);
                }
            }
        }
    }

    /// The command's timestamps, if its queue keeps them.
    #[must_use]
    pub fn profile(&self) -> Option<Profile> {
        self.slot().times().map(Profile::of)
    }
}

/// The times at which a command passed its four states, in nanoseconds on the process's clock; zero
/// for a state that it has not reached.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Profile {
    /// Enqueued.
    pub queued_ns: u64,
    /// Handed to its device.
    pub submitted_ns: u64,
    /// Started.
    pub started_ns: u64,
    /// Over.
    pub ended_ns: u64,
    /// The lane of its device that ran it: a worker, an engine.
    pub lane: u32,
}

impl Profile {
    pub(crate) fn of(times: &Times) -> Self {
        Self {
            queued_ns: times.queued.load(Ordering::Relaxed),
            submitted_ns: times.submitted.load(Ordering::Relaxed),
            started_ns: times.started.load(Ordering::Relaxed),
            ended_ns: times.ended.load(Ordering::Relaxed),
            lane: times.lane.load(Ordering::Relaxed),
        }
    }
}

impl Clone for Event {
    fn clone(&self) -> Self {
        retain(self.slot_pointer());
        Self {
            marked: self.marked,
            registration: None,
        }
    }
}

impl Drop for Event {
    #[inline]
    fn drop(&mut self) {
        if let Some(registration) = self.registration.take() {
            self.unregister(&registration);
        }
        // SAFETY: the event's own reference, given up once.
        unsafe { release(self.slot_pointer()) };
    }
}

impl std::fmt::Debug for Event {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:?} ({:?})", self.id(), self.phase())
    }
}

impl Future for Event {
    type Output = Result<()>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        if let Some(registration) = &self.registration {
            let (Registration::Slot(observer, _) | Registration::Queue(observer, _)) =
                &**registration;
            if !observer.fired() {
                if !self.is_complete() {
                    // In a child of fork another thread may have had the observer's lock.
                    crate::process::check()?;
                }
                if observer.replace_waker(context.waker()) {
                    fire(observer);
                }
                // It may have fired with the old waker meanwhile. And a command is over some time
                // before its observers are told: a caller that has waited for it is not to hear
                // that it is not. The new waker is there already, so no end is missed.
                if !observer.fired() && !self.is_complete() {
                    return Poll::Pending;
                }
            }
            self.registration = None;
        }
        if !self.is_visible() {
            crate::process::check()?;
            let wake = Action::Wake(context.waker().clone());
            let observer = Observer::with_demand(wake, Some(self.demand_flushes()));
            if let Some(registration) = self.register(&observer) {
                self.registration = Some(Box::new(registration));
                // Flushed once it is registered: commands that are enqueued later are flushed for
                // it.
                flush_for([self.queue()]);
                if !observer.fired() && !self.is_visible() {
                    return Poll::Pending;
                }
                self.registration = None;
            }
        }
        Poll::Ready(self.failure().map_or(Ok(()), Err))
    }
}
