//! Host threads that wait, and how they do: as the driver of what they wait for says, or as a driver says whose threads they are.

use super::{Event, Registration};
use crate::command::observers::{Action, Observer};
use crate::command::{EventId, let_go, slab};
use crate::driver::Driver;
use crate::error::{ErrorKind, Result};
use crate::polling;
use crate::queue::{QueueShared, flush_all};
use smallvec::SmallVec;
use std::cell::Cell;
use std::sync::Arc;
use std::time::{Duration, Instant};

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

/// Waits until the first of some events is over, or time is up.
pub(super) fn join_first(
    events: &[&Event],
    deadline: Option<(&dyn Clock, Duration)>,
) -> Result<()> {
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
    let happened = || events.iter().any(|event| event.is_visible());
    let let_go = let_go(deadline.is_some(), &happened)?;
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
