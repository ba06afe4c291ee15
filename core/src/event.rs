//! Events as users hold them: futures of commands.

use crate::command::notify::Closed;
use crate::command::observers::{Action, Observer};
use crate::command::slot::{Slot, Times};
use crate::command::{
    self, EventId, Phase, ToDrivers, let_go, observe, release, retain, slab, unobserve,
};
use crate::driver::Driver;
use crate::error::{Error, ErrorKind, Result};
use crate::polling;
use crate::queue::{QueueShared, flush_all};
use smallvec::SmallVec;
use std::cell::Cell;
use std::panic::Location;
use std::pin::Pin;
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

/// The event of a command: a future of its end, which can also be waited for,
/// polled, given a callback, and cancelled while it does not run.
///
/// Dropping an event does nothing to its command. Events of an in-order queue
/// are seen complete in program order.
pub struct Event {
    /// The slot, marked with [`ORDER_ALONE`].
    marked: NonNull<Slot>,
    /// This future's place among the event's observers.
    registration: Option<Box<Registration>>,
}

/// Set in the address of the slot: in a list of waits, the event's failure is not that of what waits. No field of its
/// own, for every enqueue gives an event: a byte beside two words is moved in pieces, and what reads them back together
/// has to wait until all that was stored before has reached the cache.
const ORDER_ALONE: usize = 1;

const _: () = assert!(
    align_of::<Slot>() > ORDER_ALONE && size_of::<Result<Event>>() == 2 * size_of::<usize>()
);

enum Registration {
    Slot(Arc<Observer>),
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

    /// The same event for a list of waits in which it is an order alone: what waits for it is run after it however it
    /// ends, where another's failure would be its own.
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

    /// Which command it is.
    #[inline]
    #[must_use]
    pub fn id(&self) -> EventId {
        EventId::new(self.slot_pointer(), self.slot().notify.generation())
    }

    fn queue(&self) -> Option<&'static QueueShared> {
        // SAFETY: queues are never freed.
        unsafe { self.slot().queue.get().as_ref() }
    }

    /// How the command ended, or `None` if it has not: as its list says, and as
    /// its queue does.
    fn closed(&self) -> Option<Closed> {
        self.closed_list().or_else(|| self.about_to_close())
    }

    /// How the command ended, as far as its list says.
    fn closed_list(&self) -> Option<Closed> {
        let notify = &self.slot().notify;
        notify.closed(notify.generation())
    }

    /// How the command ended, if its queue knows already that it has. Its byte
    /// there is set first, its list closed then: who has learnt of the byte, from
    /// a marker, the queue, or a later command, must not hear from the event that
    /// the command goes on, or that it ended well before it is said how.
    fn about_to_close(&self) -> Option<Closed> {
        self.id().settle();
        self.closed_list()
    }

    /// The number after this command's, if its queue shows events in order.
    fn visible_at(&self) -> Option<(&'static QueueShared, u64)> {
        let queue = self.queue()?;
        let sequence = self.slot().sequence.get();
        (self.slot().in_order.get()).then_some((queue, sequence + 1))
    }

    /// True if the command is over, successfully or not, and for an in-order
    /// queue all before it are. While it is not, this flushes what it may wait
    /// for, so a loop that asks again and again ends.
    #[must_use]
    pub fn is_complete(&self) -> bool {
        if self.is_visible() {
            return true;
        }
        flush_all();
        self.is_visible()
    }

    /// As [`Event::is_complete`], a mere look.
    pub(crate) fn is_visible(&self) -> bool {
        self.closed().is_some() && self.is_in_turn()
    }

    /// As [`Event::is_visible`], for who looks again and again until it is so:
    /// only at the line that the end writes. May say so a little later.
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
        (self.closed() == Some(Closed::Failed)).then(|| unsafe { self.slot().error() })
    }

    /// How it ended, or `None` while it has not.
    #[must_use]
    pub fn result(&self) -> Option<Result<()>> {
        self.is_complete()
            .then(|| self.failure().map_or(Ok(()), Err))
    }

    /// Where the command stands.
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
    /// [`ErrorKind::Cancelled`] once its waits are resolved, and so does what
    /// depends on it; if it has, nothing happens. Nor does anything to a [`UserEvent`]'s own event, which
    /// ends as whoever has that says.
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

    /// Waits until the command is over, for so long at most. In a callback, others that this thread
    /// is to call are not called meanwhile: they may take longer, or wait for what comes after this.
    ///
    /// # Errors
    /// [`ErrorKind::TimedOut`] if it is not over by then (it goes on); else as
    /// [`Event::wait`].
    pub fn wait_timeout(&self, timeout: Duration) -> Result<()> {
        self.wait_with_clock(timeout, &SystemClock)
    }

    /// As [`Event::wait_timeout`], with a clock of the caller's.
    ///
    /// # Errors
    /// As [`Event::wait_timeout`].
    pub fn wait_with_clock(&self, timeout: Duration, clock: &dyn Clock) -> Result<()> {
        if !self.is_visible() {
            self.join(Some((clock, clock.now().saturating_add(timeout))))?;
            if !self.is_visible() {
                return Err(ErrorKind::TimedOut.into());
            }
        }
        self.failure().map_or(Ok(()), Err)
    }

    /// Waits until the first of `events` is over, however it ends; for so long at most, if it is said. Of several drivers
    /// that [run on waiting threads](Driver::runs_on_waiting_threads) one is run: the first event's that has such a one.
    ///
    /// # Errors
    /// [`ErrorKind::TimedOut`] if none is over by then; that waiting here for any of them could never end, as if there are
    /// none.
    pub fn wait_for_first(events: &[&Event], timeout: Option<Duration>) -> Result<()> {
        if events.is_empty() {
            return Err(ErrorKind::WouldDeadlock {
                why: "of no events none is ever over first; pass at least one",
            }
            .into());
        }
        let is_any_visible = || events.iter().any(|event| event.is_visible());
        if is_any_visible() {
            return Ok(());
        }
        let clock = SystemClock;
        let deadline = timeout.map(|timeout| clock.now().saturating_add(timeout));
        join_first(events, deadline.map(|deadline| (&clock as _, deadline)))?;
        if timeout.is_some() && !is_any_visible() {
            return Err(ErrorKind::TimedOut.into());
        }
        Ok(())
    }

    fn join(&self, deadline: Option<(&dyn Clock, Duration)>) -> Result<()> {
        join_first(&[self], deadline)
    }

    /// Calls `callback` with the result when the command is over, or now if it
    /// is. It runs on whichever thread ends the command, with no lock held;
    /// keep it short. Callbacks of one thread are called one after the other.
    ///
    /// It may wait. On a thread without which what it waits for might never come,
    /// as that of a device's driver, a wait is refused
    /// ([`ErrorKind::WouldDeadlock`]).
    pub fn on_complete(&self, callback: impl FnOnce(Result<()>) + Send + 'static) {
        let event = self.clone();
        let observer = Observer::new(Action::Call(Box::new(move || {
            callback(event.failure().map_or(Ok(()), Err));
        })));
        // Flushed once it is registered: else what ends meanwhile would have it
        // called here, by a thread that may hold what it waits for.
        match self.register(&observer) {
            Some(_) => flush_all(),
            None => observer.fire(),
        }
    }

    /// Adds an observer; `None` if the event is over.
    fn register(&self, observer: &Arc<Observer>) -> Option<Registration> {
        // Where all before it are over, there is only its own end to wait for: that costs less to be told of.
        let all_before_are_over =
            |(queue, end): &(&QueueShared, u64)| queue.progress.reached(end - 1);
        if let Some((queue, end)) = self.visible_at().filter(|at| !all_before_are_over(at)) {
            return queue
                .observe(end, observer)
                .map(|key| Registration::Queue(observer.clone(), key));
        }
        observe(self.slot_pointer(), observer).then(|| Registration::Slot(observer.clone()))
    }

    fn unregister(&self, registration: &Registration) {
        match registration {
            Registration::Slot(observer) => unobserve(self.slot_pointer(), observer),
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

/// Waits until the first of some events is over, or time is up.
fn join_first(events: &[&Event], deadline: Option<(&dyn Clock, Duration)>) -> Result<()> {
    let mut drivers: SmallVec<[Arc<dyn Driver>; 1]> = SmallVec::new();
    // Some are the host's to bring about.
    let mut others = false;
    for event in events {
        let Some(queue) = event.queue() else {
            others = true;
            continue;
        };
        let Some(driver) = queue.driver_unless(|| event.is_visible()) else {
            return Ok(());
        };
        if !drivers.iter().any(|known| Arc::ptr_eq(known, &driver)) {
            drivers.push(driver);
        }
    }
    // One that gets nowhere without threads that wait, for the others do. Of several of these one is waited for alone.
    let driver = drivers
        .iter()
        .find(|driver| driver.runs_on_waiting_threads());
    let driver = driver.or(drivers.first());
    others |= drivers.len() > 1;
    let let_go = let_go(deadline.is_some())?;
    let joined = driver
        .map(|driver| &**driver)
        .filter(|_| deadline.is_none());
    let seen_to = SeesTo::join(joined);
    flush_all();
    let _resumed = polling::while_waiting();
    let waiter = Waiter {
        target: Target::Events(events),
        deadline,
        driver: driver.map(|driver| &**driver),
        others,
    };
    let joined = match driver {
        Some(driver) => waiter.join(&**driver),
        None => waiter.check_refusal().and_then(|()| match JOINER.get() {
            Some(joiner) => joiner(&waiter),
            None => {
                waiter.sleep();
                Ok(())
            }
        }),
    };
    drop(seen_to);
    drop(let_go);
    joined
}

/// When a command passed its four states, in nanoseconds on the process's
/// clock; zero for what has not happened.
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
            let (Registration::Slot(observer) | Registration::Queue(observer, _)) = &**registration;
            if !observer.fired() {
                observer.replace_waker(context.waker());
                // It may have fired with the old waker meanwhile. And a command
                // is over some time before its observers are told: who has
                // waited for it is not to hear that it is not. The new waker is
                // there already, so no end is missed.
                if !observer.fired() && !self.is_complete() {
                    return Poll::Pending;
                }
            }
            self.registration = None;
        }
        if !self.is_visible() {
            flush_all();
            let observer = Observer::new(Action::Wake(context.waker().clone()));
            if let Some(registration) = self.register(&observer) {
                self.registration = Some(Box::new(registration));
                return Poll::Pending;
            }
        }
        Poll::Ready(self.failure().map_or(Ok(()), Err))
    }
}

/// Where time comes from for waits with a timeout.
pub trait Clock: Sync {
    /// The time now, since any fixed moment.
    fn now(&self) -> Duration;

    /// Sleeps until this thread is unparked, for so long at most.
    fn park(&self, timeout: Duration) {
        std::thread::park_timeout(timeout);
    }
}

/// The system's monotonic clock.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    fn now(&self) -> Duration {
        static START: std::sync::OnceLock<Instant> = std::sync::OnceLock::new();
        START.get_or_init(Instant::now).elapsed()
    }
}

thread_local! {
    /// The driver, by its address, that this thread sees to next.
    static SEES_TO: Cell<*const ()> = const { Cell::new(std::ptr::null()) };
}

/// True if this thread is about to [join](Driver::join) this driver, without a deadline, or is enqueueing to a queue of it
/// that is flushed later: so for what it hands over now, nobody else need be woken to hear of ends. It joins even if there
/// turns out to be nothing to wait for.
#[must_use]
pub fn sees_to(driver: *const ()) -> bool {
    SEES_TO.get() == driver
}

/// While it lives, the thread sees to a driver next, if to any.
pub(crate) struct SeesTo(*const ());

impl SeesTo {
    /// It joins this driver.
    pub(crate) fn join(driver: Option<&dyn Driver>) -> Self {
        // Else another driver says how it waits, or that it must not.
        match driver.filter(|_| JOINER.get().is_none() && REFUSAL.get().is_none()) {
            Some(driver) => Self::flush(driver),
            None => Self(SEES_TO.replace(std::ptr::null())),
        }
    }

    /// It, or another, flushes a queue of this driver.
    pub(crate) fn flush(driver: &dyn Driver) -> Self {
        Self(SEES_TO.replace(std::ptr::from_ref(driver).cast()))
    }
}

impl Drop for SeesTo {
    fn drop(&mut self) {
        SEES_TO.set(self.0);
    }
}

enum Target<'a> {
    /// The first of them to be over.
    Events(&'a [&'a Event]),
    Queue(&'static QueueShared, u64),
}

/// A host thread that waits: for an event, for the first of several, or for a queue to reach a number.
pub struct Waiter<'a> {
    target: Target<'a>,
    deadline: Option<(&'a dyn Clock, Duration)>,
    /// The driver of what is waited for, or of one of several.
    driver: Option<&'a dyn Driver>,
    /// True if some of what is waited for is not that driver's to bring about.
    others: bool,
}

/// How a thread of a driver waits, for whatever it may be.
pub type Joiner = fn(&Waiter<'_>) -> Result<()>;

thread_local! {
    static JOINER: Cell<Option<Joiner>> = const { Cell::new(None) };
}

/// Says how this thread waits from now on; gives what was said before. For a
/// driver whose commands may wait: a wait must not take the thread from the
/// commands that it is to run, whoever brings about what is waited for. It ends
/// in [`Waiter::rest`].
pub fn replace_joiner(joiner: Option<Joiner>) -> Option<Joiner> {
    JOINER.replace(joiner)
}

thread_local! {
    static REFUSAL: Cell<Option<&'static str>> = const { Cell::new(None) };
}

/// Says why this thread must not wait from now on, for whatever it may be, if it must not; gives what was said before. For
/// a driver that goes on only when what it has called returns: what is waited for may be another's, and need this one.
pub fn refuse_waits(why: Option<&'static str>) -> Option<&'static str> {
    REFUSAL.replace(why)
}

/// How often a waiter looks before it sleeps: about twenty microseconds. Being
/// woken costs that much, and costs the waker a third of it.
const SPINS: usize = 850;

/// Looks for that long at so many things; true if it came about.
fn spin_until(things: usize, happened: impl Fn() -> bool) -> bool {
    (0..SPINS.div_ceil(things.max(1))).any(|_| {
        let over = happened();
        if !over {
            std::hint::spin_loop();
        }
        over
    })
}

impl<'a> Waiter<'a> {
    pub(crate) fn for_queue(queue: &'static QueueShared, driver: &'a dyn Driver, end: u64) -> Self {
        Self {
            target: Target::Queue(queue, end),
            deadline: None,
            driver: Some(driver),
            others: false,
        }
    }

    /// True if what is waited for has happened.
    #[must_use]
    pub fn is_done(&self) -> bool {
        match &self.target {
            Target::Events(events) => events.iter().any(|event| event.is_visible()),
            Target::Queue(queue, end) => queue.progress.reached(*end),
        }
    }

    /// Waits as this thread has to: as the driver of what is waited for says,
    /// or, on a thread that a driver must not lose, as that one says.
    pub(crate) fn join(&self, driver: &dyn Driver) -> Result<()> {
        self.check_refusal()?;
        match JOINER.get() {
            Some(joiner) => joiner(self),
            None => driver.join(self),
        }
    }

    /// True if what is waited for is brought about by threads that wait, in
    /// [`rest`](Waiter::rest) or in [`Driver::join`].
    #[must_use]
    pub fn is_stepped(&self) -> bool {
        self.stepped_by().is_some()
    }

    fn stepped_by(&self) -> Option<&'a dyn Driver> {
        self.driver
            .filter(|driver| driver.runs_on_waiting_threads())
    }

    /// As [`sleep`](Waiter::sleep), for a thread that has nothing else to see to any
    /// more; or brings about what is waited for, if that is done by threads that wait.
    ///
    /// # Errors
    /// If waiting here could never end.
    pub fn rest(&self) -> Result<()> {
        match self.stepped_by() {
            Some(driver) => driver.join(self),
            None => {
                self.sleep();
                Ok(())
            }
        }
    }

    /// # Errors
    /// If this thread must not wait, and there is something to wait for.
    fn check_refusal(&self) -> Result<()> {
        match REFUSAL.get() {
            Some(why) if !self.is_done() => Err(ErrorKind::WouldDeadlock { why }.into()),
            _ => Ok(()),
        }
    }

    /// True if time is up.
    #[must_use]
    pub fn is_late(&self) -> bool {
        self.deadline
            .is_some_and(|(clock, deadline)| clock.now() >= deadline)
    }

    /// True if what is waited for can only happen after `command` is over:
    /// it is that command, or comes after it in its in-order queue, and so is each
    /// of several. A thread that runs the command must not wait for it.
    #[must_use]
    pub fn needs(&self, command: EventId) -> bool {
        let Some(slot) = command.slot() else {
            return false;
        };
        match &self.target {
            Target::Events(events) => events.iter().all(|event| {
                event.id() == command
                    || event.visible_at().is_some_and(|(queue, end)| {
                        std::ptr::eq(queue, slot.queue.get()) && slot.sequence.get() < end
                    })
            }),
            Target::Queue(queue, end) => {
                std::ptr::eq(*queue, slot.queue.get()) && slot.sequence.get() < *end
            }
        }
    }

    /// Looks for a while, then sleeps, until it is done or time is up.
    pub fn sleep(&self) {
        self.sleep_and(|| None);
    }

    /// As [`sleep`](Waiter::sleep), for a thread that has something else to see to as well: that is done by `see_to`, which
    /// is called before each time the thread is parked, and says for how long that may be. It may be unparked for it, too.
    pub fn sleep_and(&self, see_to: impl FnMut() -> Option<Duration>) {
        // An event is looked at where only its end writes. A queue's progress
        // is written by every command: there one waits to be told.
        match &self.target {
            Target::Events(events) => {
                if !spin_until(events.len(), || {
                    events.iter().any(|event| event.is_seen_closed())
                }) && let Some(armed) = self.arm()
                {
                    self.park_armed(&armed, see_to);
                }
            }
            Target::Queue(..) => {
                if let Some(armed) = self.arm()
                    && !spin_until(1, || armed.is_done())
                {
                    self.park_armed(&armed, see_to);
                }
            }
        }
    }

    /// Sleeps until it is done or time is up.
    pub fn park(&self) {
        if let Some(armed) = self.arm() {
            self.park_armed(&armed, || None);
        }
    }

    fn park_armed(&self, armed: &Armed<'_>, mut see_to: impl FnMut() -> Option<Duration>) {
        slab::flush();
        while !armed.is_done() {
            match (self.deadline, see_to()) {
                (_, Some(Duration::ZERO)) => {}
                (None, None) => std::thread::park(),
                (None, Some(most)) => std::thread::park_timeout(most),
                (Some((clock, deadline)), most) => {
                    let now = clock.now();
                    if now >= deadline {
                        break;
                    }
                    let left = deadline - now;
                    clock.park(most.map_or(left, |most| most.min(left)));
                }
            }
        }
    }

    /// Sleeps until this thread is unparked or time is up.
    pub fn nap(&self) {
        match self.deadline {
            None => std::thread::park(),
            Some((clock, deadline)) => clock.park(deadline.saturating_sub(clock.now())),
        }
    }

    /// True if no device of the process has anything to do: then only the host
    /// can bring about what is waited for. False while that includes what the host, or another driver, is to bring about.
    #[must_use]
    pub fn nothing_moves(&self) -> bool {
        !self.others && !self.is_done() && crate::context::nothing_moves()
    }

    /// Sleeps for a short while at most, or until this thread is unparked.
    pub fn doze(&self) {
        match self.deadline {
            None => std::thread::park_timeout(Duration::from_millis(1)),
            Some((clock, _)) => clock.park(Duration::from_millis(1)),
        }
    }

    /// True if it does not wait for ever.
    #[must_use]
    pub fn has_deadline(&self) -> bool {
        self.deadline.is_some()
    }

    /// True if it may be done before what its thread could do meanwhile: time may be up, or another of several events over.
    #[must_use]
    pub fn is_impatient(&self) -> bool {
        self.has_deadline() || matches!(self.target, Target::Events([_, _, ..]))
    }

    /// Has this thread unparked when it is done; `None` if it is.
    #[must_use]
    pub fn arm(&self) -> Option<Armed<'_>> {
        self.arm_by(Action::Unpark(std::thread::current()))
    }

    /// Has `call` called when it is done, by whoever brings that about, with no lock held; `None` if it is (it may have
    /// been called then, if it came about meanwhile). It must be short, and not wait.
    #[must_use]
    pub fn arm_with(&self, call: impl FnOnce() + Send + 'static) -> Option<Armed<'_>> {
        self.arm_by(Action::Notify(Box::new(call)))
    }

    fn arm_by(&self, action: Action) -> Option<Armed<'_>> {
        // Dropped on the way, it takes back what it has registered.
        let mut armed = Armed {
            waiter: self,
            observer: Observer::new(action),
            registrations: SmallVec::new(),
        };
        match &self.target {
            Target::Events(events) => {
                for event in *events {
                    let registration = event.register(&armed.observer)?;
                    armed.registrations.push(registration);
                }
            }
            Target::Queue(queue, end) => {
                let key = queue.observe(*end, &armed.observer)?;
                let registration = Registration::Queue(armed.observer.clone(), key);
                armed.registrations.push(registration);
            }
        }
        Some(armed)
    }
}

/// A waiter whose thread is unparked when it is done. Dropping it takes that
/// back.
pub struct Armed<'a> {
    waiter: &'a Waiter<'a>,
    observer: Arc<Observer>,
    /// One for each event, in order; or the queue's.
    registrations: SmallVec<[Registration; 1]>,
}

impl Armed<'_> {
    /// True if what is waited for has happened.
    #[must_use]
    pub fn is_done(&self) -> bool {
        self.observer.fired()
    }
}

impl Drop for Armed<'_> {
    fn drop(&mut self) {
        match (&self.waiter.target, &self.registrations[..]) {
            (Target::Events(events), registrations) => {
                let registered = events.iter().zip(registrations);
                registered.for_each(|(event, registration)| event.unregister(registration));
            }
            (Target::Queue(queue, _), [Registration::Queue(_, key)]) => queue.unwatch(*key),
            _ => {}
        }
    }
}

/// An event that the host completes. Dropped without that, it fails, and what
/// waits for it with it.
pub struct UserEvent {
    event: Event,
    open: bool,
    /// For the error of who waits for it in vain.
    made_at: &'static Location<'static>,
}

impl UserEvent {
    /// A new event, incomplete.
    #[must_use]
    #[track_caller]
    pub fn new() -> Self {
        let slot = slab::take();
        // SAFETY: the slot was just taken.
        let s = unsafe { slot.as_ref() };
        s.state.start(0, 0);
        s.cancelled.store(false, Ordering::Relaxed);
        // One reference to own it until it is over, one for `event`.
        s.references.store(2, Ordering::Relaxed);
        s.vtable.set(None);
        s.queue.set(std::ptr::null());
        s.done.set(std::ptr::null());
        s.in_order.set(false);
        s.phase.store(Phase::Submitted as u8, Ordering::Relaxed);
        s.argument_count.set(0);
        s.notify.open(s.notify.generation() + 1);
        Self {
            event: Event::from_slot(slot),
            open: true,
            made_at: Location::caller(),
        }
    }

    /// The event to wait for.
    #[must_use]
    pub fn event(&self) -> Event {
        self.event.clone()
    }

    /// Completes it: what waits for it may run.
    pub fn complete(mut self) {
        self.open = false;
        // SAFETY: the owning reference, given up once: `open` was true.
        unsafe { command::end_user_event(self.event.slot_pointer(), None, &mut ToDrivers) };
    }

    /// Completes it as failed: what waits for it fails with this cause.
    pub fn fail(mut self, reason: &str) {
        self.open = false;
        let error = ErrorKind::FailedByHost {
            reason: reason.to_owned(),
        };
        // SAFETY: as above.
        unsafe {
            command::end_user_event(
                self.event.slot_pointer(),
                Some(error.into()),
                &mut ToDrivers,
            )
        };
    }
}

impl Default for UserEvent {
    #[track_caller]
    fn default() -> Self {
        Self::new()
    }
}

impl Drop for UserEvent {
    fn drop(&mut self) {
        if self.open {
            let error = Error::from(ErrorKind::Abandoned {
                made_at: self.made_at,
            });
            // SAFETY: the owning reference, given up once.
            unsafe {
                command::end_user_event(self.event.slot_pointer(), Some(error), &mut ToDrivers)
            };
        }
    }
}

impl std::fmt::Debug for UserEvent {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "user event, {:?}", self.event)
    }
}
