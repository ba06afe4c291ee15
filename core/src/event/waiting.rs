//! Host threads that wait, in the way of the driver of their goal, or of the driver whose threads
//! they are.

use super::blocked::{self, Goal};
use super::clock::{Clock, Deadline, SystemClock};
use super::polling;
use super::stepped::{self, Step};
use super::{Event, Registration};
use crate::command::{
    Command, enter_blocking_wait, hand_over_all, hand_over_found, has_ours, running, slab,
};
use crate::error::{Error, ErrorKind, Result};
use crate::flush_demand::{self, FlushDemand};
use crate::observers::{Action, Observer};
use crate::panics::quietly;
use crate::queue::flush::flush_for;
use crate::queue::place::Place;
use crate::router::{Router, Wait};
use smallvec::SmallVec;
use std::any::Any;
use std::cell::{Cell, OnceCell, RefCell};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Waits until the first of some events is over, or time is up.
pub(super) fn join_first(events: &[&Event], deadline: Option<Deadline<'_>>) -> Result<()> {
    crate::process::check()?;
    let mut driver: Option<Arc<dyn Router>> = None;
    for event in events {
        let Some(queue) = event.queue() else {
            continue;
        };
        let Some(its) = queue.router_unless(|| event.is_visible()) else {
            return Ok(());
        };
        driver.get_or_insert(its);
    }
    let waiter = Waiter::new(Target::Events(events), deadline).joining(driver.as_deref());
    let happened = || events.iter().any(|event| event.is_visible());
    let blocking = enter_blocking_wait(deadline.is_some(), &happened, hand_over_needed)?;
    let seen_to = waiter.sees_to();
    flush_for(events.iter().map(|event| event.queue()));
    let _resumed = polling::while_waiting();
    let joined = waiter.join();
    drop(seen_to);
    drop(blocking);
    joined
}

thread_local! {
    /// The driver, by its address, that this thread sees to next.
    static SEES_TO: Cell<*const ()> = const { Cell::new(std::ptr::null()) };
}

/// True if this thread is about to [join](crate::Driver::join) this driver, without a deadline, or
/// enqueues to a queue of it that is flushed later. The driver then wakes no other thread to notice
/// ends. The thread joins even if there is nothing left to wait for.
#[must_use]
pub fn will_poll(driver: *const ()) -> bool {
    SEES_TO.get() == driver
}

/// Says, while it lives, which driver the thread sees to next, if any.
pub(crate) struct SeesTo(*const ());

impl SeesTo {
    /// Says that the thread joins this driver.
    fn join(driver: Option<&dyn Router>) -> Self {
        // Else another driver says how it waits, or that it must not. Inside of a command the wait
        // may be refused, once all is flushed.
        let joins = || JOINER.get().is_none() && REFUSAL.get().is_none() && !running::is_inside();
        match driver.filter(|_| joins()) {
            Some(driver) => Self::flush(driver),
            None => Self(SEES_TO.replace(std::ptr::null())),
        }
    }

    /// Says that the thread, or another, flushes a queue of this driver.
    pub(crate) fn flush(driver: &dyn Router) -> Self {
        Self(SEES_TO.replace(std::ptr::from_ref(driver).cast()))
    }
}

impl Drop for SeesTo {
    fn drop(&mut self) {
        SEES_TO.set(self.0);
    }
}

/// True if this thread waits, and the caller runs within that wait.
#[must_use]
pub fn is_waiting() -> bool {
    !CURRENT.get().is_null()
}

thread_local! {
    /// The innermost wait of this thread.
    static CURRENT: Cell<*const Waiter<'static>> = const { Cell::new(std::ptr::null()) };
}

/// Marks, while it lives, that this thread is in a wait.
struct Current<'a> {
    waiter: &'a Waiter<'a>,
    outer: *const Waiter<'static>,
}

impl<'a> Current<'a> {
    fn enter(waiter: &'a Waiter<'a>) -> Self {
        Self {
            waiter,
            outer: CURRENT.replace(std::ptr::from_ref(waiter).cast()),
        }
    }
}

impl Drop for Current<'_> {
    /// Others may have unparked the thread for reasons of the program's own. A wait that has slept
    /// has taken note of that in the program's place, and so the program's next
    /// [park](std::thread::park) returns at once.
    fn drop(&mut self) {
        CURRENT.set(self.outer);
        if self.waiter.watch.has_slept.get() {
            std::thread::current().unpark();
        }
    }
}

/// Has this thread run those of its commands that its wait needs.
pub(crate) fn hand_over_needed() {
    hand_over_found(|ours| {
        // SAFETY: it is in the call that has set this (`Current`), which borrows it.
        let waiter = unsafe { CURRENT.get().as_ref() }?;
        if waiter.is_done() {
            return None;
        }
        waiter.first_needed(ours.iter())
    });
}

enum Target<'a> {
    /// The first of them to be over.
    Events(&'a [&'a Event]),
    Queue(&'static Place, u64),
}

/// A host thread that waits: for an event, for the first of several, or for a queue to reach a
/// number.
pub struct Waiter<'a> {
    target: Target<'a>,
    deadline: Option<Deadline<'a>>,
    /// The end of this part of a wait, by the system's clock: a user's may stand still.
    part_ends: Option<Duration>,
    /// The driver of the goal, or of the first of several events; none if the thread has machines
    /// to step, whatever the driver is.
    driver: Option<&'a dyn Router>,
    watch: Watch,
    /// The wait that this one is a part of.
    whole: Option<&'a Waiter<'a>>,
}

/// The watch over a wait that takes long.
#[derive(Default)]
struct Watch {
    /// The wait's entry among the threads that wait, once it sleeps or is inside of a command.
    entry: RefCell<Option<blocked::Entry>>,
    /// The beginning of the wait, by its clock.
    since: Cell<Duration>,
    /// The time of the next look after it, by the system's clock, and the number of looks so far.
    due: Cell<Duration>,
    looks: Cell<usize>,
    is_logged: Cell<bool>,
    has_slept: Cell<bool>,
    /// For these, commands that other threads enqueue later are flushed.
    demands: RefCell<SmallVec<[FlushDemand; 1]>>,
    /// The reason for which it would never end, once that is found out.
    refusal: OnceCell<Error>,
    /// The panic of the wait's clock.
    panic: RefCell<Option<Box<dyn Any + Send>>>,
    step: Step,
}

/// Times between two looks after a wait; the last is for all that follow.
const LOOKS: [Duration; 4] = [
    Duration::from_millis(10),
    Duration::from_millis(100),
    Duration::from_secs(1),
    Duration::from_secs(10),
];

/// The time for which a thread sleeps that has machines to step.
const MOMENT: Duration = Duration::from_millis(1);

/// Looks after which a wait hands over all that its thread was to run: a driver that runs it on the
/// calling thread has another thread run it then.
const LOOKS_BEFORE_ALL: usize = 2;

/// The time of so many looks. Waits with time limits that come one after the other count together:
/// see `HELD_SINCE`.
const TIME_BEFORE_ALL: Duration = LOOKS[0].saturating_add(LOOKS[1]);

thread_local! {
    /// The time, by the system's clock, since which this thread has had commands that it is to run
    /// in all of its waits.
    static HELD_SINCE: Cell<Option<Duration>> = const { Cell::new(None) };
}

/// The number of commands that a search may see as a wait begins. It grows by a factor at each
/// look: a search takes little of the time that has passed.
const FIRST_SEARCH: usize = 1 << 9;
/// The number of commands that a search may see if it saves no more than to wake a thread.
const SHORT_SEARCH: usize = 16;
const SEARCH_GROWS: u32 = 5;

/// Milliseconds after which a wait is logged, or one of these.
static LOG_AFTER: AtomicU64 = AtomicU64::new(UNDECIDED);
/// No wait is.
const NEVER: u64 = 0;
/// No call has set the time yet, nor has the environment been read.
const UNDECIDED: u64 = u64::MAX;

/// Has every wait that takes longer logged, as a warning with the [wait graph](super::wait_graph);
/// with `None`, no wait is. It overrules `QUIPU_WATCH` in the environment. A wait is looked at
/// while its thread sleeps.
pub fn log_waits_longer_than(time: Option<Duration>) {
    let most = u128::from(UNDECIDED - 1);
    let milliseconds = time.map_or(NEVER, |time| time.as_millis().clamp(1, most) as u64);
    LOG_AFTER.store(milliseconds, Ordering::Relaxed);
}

fn log_after() -> Option<Duration> {
    let milliseconds = LOG_AFTER.load(Ordering::Relaxed);
    (!matches!(milliseconds, NEVER | UNDECIDED)).then(|| Duration::from_millis(milliseconds))
}

/// Does as `QUIPU_WATCH` says, unless a call has set the time already.
///
/// # Errors
/// If the variable's value makes no sense.
pub(crate) fn watch_as_environment_says() -> Result<()> {
    if LOG_AFTER.load(Ordering::Relaxed) != UNDECIDED {
        return Ok(());
    }
    log_waits_longer_than(quipu_environment::WATCH.get()?);
    Ok(())
}

/// A function by which a thread of a driver waits, for any goal.
pub type Joiner = fn(&Waiter<'_>) -> Result<()>;

thread_local! {
    static JOINER: Cell<Option<Joiner>> = const { Cell::new(None) };
}

/// Sets the function by which this thread waits from now on; gives the one that was set before. For
/// a driver whose commands may wait: a wait must not take the thread from the commands that it is
/// to run, whatever thread brings about the end of the wait. The function ends in [`Waiter::rest`].
pub fn replace_joiner(joiner: Option<Joiner>) -> Option<Joiner> {
    JOINER.replace(joiner)
}

thread_local! {
    static REFUSAL: Cell<Option<&'static str>> = const { Cell::new(None) };
}

/// Forbids this thread to wait from now on, for any goal, and says why; `None` allows it. Gives the
/// reason from before. For a driver that goes on only when its callee returns: the wait may be for
/// a command of another driver that needs this thread.
pub fn refuse_waits(why: Option<&'static str>) -> Option<&'static str> {
    REFUSAL.replace(why)
}

/// True if nobody has said why this thread must not wait.
#[must_use]
pub fn may_wait() -> bool {
    REFUSAL.get().is_none()
}

thread_local! {
    static ALONE: Cell<bool> = const { Cell::new(false) };
}

/// Says whether this thread does all work alone, as one that steps a machine without threads: then
/// no other thread takes over commands that become ready here. Gives the value from before.
pub fn work_alone(alone: bool) -> bool {
    ALONE.replace(alone)
}

/// True if this thread does all work alone.
#[must_use]
pub fn works_alone() -> bool {
    ALONE.get()
}

/// The number of looks of a waiter before it sleeps: about twenty microseconds. Being woken costs
/// that much, and costs the waker a third of it.
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

impl Wait for Waiter<'_> {}

impl<'a> Waiter<'a> {
    /// The waiter that a wait is.
    pub(crate) fn of(wait: &'a (dyn Wait + 'a)) -> &'a Self {
        // SAFETY: the trait cannot be named outside of this crate, which implements it for this
        // type alone.
        unsafe { &*std::ptr::from_ref(wait).cast::<Self>() }
    }

    pub(crate) fn for_queue(queue: &'static Place, driver: &'a dyn Router, end: u64) -> Self {
        Self::new(Target::Queue(queue, end), None).joining(Some(driver))
    }

    fn new(target: Target<'a>, deadline: Option<Deadline<'a>>) -> Self {
        Self {
            target,
            deadline,
            part_ends: None,
            driver: None,
            watch: Watch::default(),
            whole: None,
        }
    }

    /// A wait that joins this driver, unless it steps machines.
    fn joining(mut self, driver: Option<&'a dyn Router>) -> Self {
        self.driver = driver.filter(|_| !self.is_stepped());
        self
    }

    /// Says which driver this thread sees to, before the wait.
    pub(crate) fn sees_to(&self) -> SeesTo {
        SeesTo::join(self.driver.filter(|_| self.deadline.is_none()))
    }

    /// As this one, for so long at most: a part of it.
    #[must_use]
    pub fn for_at_most(&'a self, time: Duration) -> Self {
        let end = SystemClock.now().saturating_add(time);
        let target = match &self.target {
            Target::Events(events) => Target::Events(events),
            Target::Queue(queue, end) => Target::Queue(queue, *end),
        };
        Self {
            whole: Some(self.whole()),
            part_ends: self.part_ends.into_iter().chain([end]).min(),
            ..Self::new(target, self.deadline)
        }
    }

    fn whole(&self) -> &Waiter<'a> {
        self.whole.unwrap_or(self)
    }

    /// True if the wait's goal has happened; or never will, and the wait is given up.
    #[must_use]
    pub fn is_done(&self) -> bool {
        self.is_refused() || self.has_happened()
    }

    /// True also in a child of `fork` that a command has made which was run inside of this wait.
    fn is_refused(&self) -> bool {
        self.whole().watch.refusal.get().is_some() || crate::process::is_forked()
    }

    fn has_happened(&self) -> bool {
        match &self.target {
            Target::Events(events) => events.iter().any(|event| event.is_visible()),
            Target::Queue(queue, end) => queue.progress.reached(*end),
        }
    }

    /// Waits in the way of the driver of the goal, or, on a thread that a driver must not lose, in
    /// the way of that driver.
    ///
    /// # Errors
    /// If waiting here could never end.
    pub(crate) fn join(&self) -> Result<()> {
        self.check_refusal()?;
        if running::is_inside() && !self.is_done() {
            self.enter(FIRST_SEARCH)?;
        }
        let _current = Current::enter(self);
        hand_over_needed();
        match (JOINER.get(), self.driver) {
            (Some(joiner), _) => joiner(self),
            (None, Some(driver)) => driver.join_wait(self),
            (None, None) => {
                self.sleep();
                Ok(())
            }
        }?;
        if !self.has_deadline() && !self.is_done() {
            // The joiner came back too early.
            self.sleep();
        }
        if let Some(panic) = self.watch.panic.take() {
            resume_unwind(panic);
        }
        match self.watch.refusal.get() {
            Some(error) if !self.has_happened() => Err(error.clone()),
            None if crate::process::is_forked() && !self.has_happened() => crate::process::check(),
            _ => Ok(()),
        }
    }

    /// The time by a clock. A user's clock may panic. Drivers do not expect that where they look at
    /// the time, so the wait is late then, and panics when they are through with it.
    fn read(&self, clock: &dyn Clock) -> Duration {
        self.ask(|| clock.now()).unwrap_or(Duration::MAX)
    }

    /// Sleeps by a clock, for so long at most, or until this thread is unparked.
    fn park_by(&self, clock: &dyn Clock, time: Duration) {
        let _ = self.ask(|| clock.park(time));
    }

    /// The answer of a clock; none if it has panicked.
    fn ask<R>(&self, ask: impl FnOnce() -> R) -> Option<R> {
        let panic = &self.whole().watch.panic;
        if panic.borrow().is_some() {
            return None;
        }
        catch_unwind(AssertUnwindSafe(ask))
            .map_err(|caught| *panic.borrow_mut() = Some(caught))
            .ok()
    }

    fn goal(&self) -> Goal {
        match &self.target {
            Target::Events(events) => {
                Goal::Events(events.iter().map(|event| event.slot_pointer()).collect())
            }
            Target::Queue(queue, end) => Goal::Queue(queue, *end),
        }
    }

    /// Enters this thread among those that wait.
    fn enter(&self, most: usize) -> Result<()> {
        let now = SystemClock.now();
        let entry = blocked::enter(self.goal(), now, self.deadline.is_some(), most)?;
        *self.watch.entry.borrow_mut() = Some(entry);
        self.watch.since.set(self.now());
        let held = has_ours().then(|| HELD_SINCE.get().unwrap_or(now));
        HELD_SINCE.set(held);
        let due = now.saturating_add(LOOKS[0]);
        let is_held_until = held.map_or(due, |since| since.saturating_add(TIME_BEFORE_ALL));
        self.watch.due.set(due.min(is_held_until));
        Ok(())
    }

    /// Called before this thread sleeps. Gives the time after which it has to look after the wait.
    fn until_look(&self) -> Duration {
        let whole = self.whole();
        let watch = &whole.watch;
        watch.has_slept.set(true);
        if watch.entry.borrow().is_none() && !whole.is_done() {
            // Of a thread that is inside of a command, it is entered already.
            let _ = whole.enter(0);
        }
        whole.time_to_look()
    }

    /// The time after which this thread has to look after the wait next.
    fn time_to_look(&self) -> Duration {
        let watch = &self.whole().watch;
        let look = watch.due.get().saturating_sub(SystemClock.now());
        let log = log_after().filter(|_| !watch.is_logged.get());
        log.map_or(look, |time| {
            look.min(time.saturating_sub(self.time_taken()))
        })
    }

    /// The time that the wait has taken by now.
    fn time_taken(&self) -> Duration {
        let whole = self.whole();
        whole.now().saturating_sub(whole.watch.since.get())
    }

    /// The time by the clock of the wait.
    fn now(&self) -> Duration {
        self.read(self.deadline.map_or(&SystemClock, Deadline::clock))
    }

    /// Looks after the wait, if that is due, after this thread has slept, or was woken. True if it
    /// was due.
    fn look(&self, with_flush: bool) -> bool {
        let whole = self.whole();
        let watch = &whole.watch;
        if log_after().is_some_and(|time| self.time_taken() >= time)
            && !watch.is_logged.replace(true)
            && !self.is_done()
        {
            let time = self.time_taken();
            let graph = blocked::wait_graph();
            quietly(|| tracing::warn!("a wait has taken {time:.1?} by now: {graph}"));
        }
        let now = SystemClock.now();
        if now < watch.due.get() {
            return false;
        }
        let looks = watch.looks.replace(watch.looks.get() + 1) + 1;
        if looks >= LOOKS_BEFORE_ALL && !works_alone() {
            // Before it flushes, if it does.
            whole.demand_flushes();
        }
        let pause = LOOKS[looks.min(LOOKS.len() - 1)];
        watch.due.set(now.saturating_add(pause));
        if running::is_inside()
            && let Some(entry) = &*watch.entry.borrow()
        {
            let grown = FIRST_SEARCH.checked_shl(SEARCH_GROWS * looks.min(9) as u32);
            if let Err(error) = blocked::search_again(entry, grown.unwrap_or(usize::MAX)) {
                let _ = watch.refusal.set(error);
                return true;
            }
        }
        if with_flush {
            hand_over_needed();
            let is_held = |since: Duration| now >= since.saturating_add(TIME_BEFORE_ALL);
            let is_long = looks >= LOOKS_BEFORE_ALL || HELD_SINCE.get().is_some_and(is_held);
            if is_long && !works_alone() {
                // Another thread may need these, which this one needs to go on.
                hand_over_all();
                HELD_SINCE.set(None);
            }
            flush_for(self.queues());
        }
        true
    }

    /// The queues of what it waits for; none for an event of the host.
    fn queues(&self) -> SmallVec<[Option<&'static Place>; 1]> {
        match &self.target {
            Target::Events(events) => events.iter().map(|event| event.queue()).collect(),
            Target::Queue(queue, _) => [Some(*queue)].into_iter().collect(),
        }
    }

    /// Has later enqueues flushed for the rest of the wait: this thread looks seldom by now.
    fn demand_flushes(&self) {
        let mut demands = self.watch.demands.borrow_mut();
        if demands.is_empty() {
            let contexts = self.queues().into_iter();
            let contexts = contexts.map(|queue| queue.map(Place::context_number));
            demands.extend(contexts.map(FlushDemand::new));
        }
    }

    /// The index of the first of some commands that this wait needs: one that holds the goal, as
    /// far as the core knows.
    #[must_use]
    pub fn first_needed<'c>(&self, ready: impl Iterator<Item = &'c Command>) -> Option<usize> {
        let slots = ready.map(|command| NonNull::from(command.slot()));
        // SAFETY: whoever lends a command owns it, and does not end it meanwhile.
        unsafe { blocked::first_needed(&self.goal(), slots, usize::MAX) }
    }

    /// True if this wait needs the command, as far as a short search finds out. For a driver that
    /// could run it on the thread that waits: if its code blocks, the thread loses nothing by it
    /// that it would have had otherwise.
    #[must_use]
    pub fn needs(&self, command: &Command) -> bool {
        let slot = NonNull::from(command.slot());
        // Mostly a wait is for the command, or for an event that its queue shows after it: a look
        // tells, and a search takes a lock.
        let in_turn = |(queue, end): (&Place, u64)| {
            let own = command.slot();
            let is_of_queue = own.queue.get().is_some_and(|its| std::ptr::eq(its, queue));
            is_of_queue && !own.recorded.get() && own.sequence.get() < end
        };
        let needs_directly = match &self.target {
            Target::Queue(queue, end) => in_turn((queue, *end)),
            Target::Events(events) => events.iter().any(|event| {
                event.slot_pointer() == slot || event.visible_at().is_some_and(in_turn)
            }),
        };
        if needs_directly {
            return true;
        }
        // SAFETY: whoever lends a command owns it, and does not end it meanwhile.
        unsafe { blocked::first_needed(&self.goal(), [slot].into_iter(), SHORT_SEARCH) }.is_some()
    }

    /// True if the wait may need a machine that only waiting threads step: a thread that
    /// [sleeps](Waiter::sleep) does so.
    #[must_use]
    pub fn is_stepped(&self) -> bool {
        !self.machines().is_empty()
    }

    /// The machines that the wait may need.
    fn machines(&self) -> stepped::Machines {
        match stepped::are_there_any() {
            true => stepped::needed_for(self.queues().into_iter()),
            false => stepped::Machines::new(),
        }
    }

    /// Steps the machines that the wait may need, in turn, until each is idle or the wait is over.
    /// True if there are any.
    fn step(&self) -> bool {
        let machines = self.machines();
        for machine in &machines {
            let stepped = self.step_of_machine().run(|| machine.join_wait(self));
            if let Err(error) = stepped {
                let _ = self.whole().watch.refusal.set(error);
            }
            if self.is_done() || self.is_late() {
                break;
            }
        }
        !machines.is_empty()
    }

    fn step_of_machine(&self) -> &Step {
        &self.whole().watch.step
    }

    /// As [`sleep`](Waiter::sleep), for the end of a [`Joiner`].
    ///
    /// # Errors
    /// None.
    pub fn rest(&self) -> Result<()> {
        self.sleep();
        Ok(())
    }

    /// # Errors
    /// If this thread must not wait, and there is something to wait for.
    fn check_refusal(&self) -> Result<()> {
        match REFUSAL.get() {
            Some(why) if !self.is_done() => {
                Err(ErrorKind::WouldDeadlock { why: why.into() }.into())
            }
            _ => Ok(()),
        }
    }

    /// True if time is up, or the thread is to step another machine.
    #[must_use]
    pub fn is_late(&self) -> bool {
        self.step_of_machine().is_over()
            || self.part_ends.is_some_and(|end| SystemClock.now() >= end)
            || self
                .deadline
                .is_some_and(|deadline| self.read(deadline.clock()) >= deadline.time)
    }

    /// Looks for a while, then sleeps, until it is done or time is up. Steps the machines that the
    /// wait may need.
    pub fn sleep(&self) {
        self.sleep_and(|| None);
    }

    /// As [`sleep`](Waiter::sleep), for a thread that has something else to do as well. `see_to`
    /// does that: it is called before each time the thread is parked, and gives the longest time to
    /// park. It may have the thread unparked, too.
    pub fn sleep_and(&self, see_to: impl FnMut() -> Option<Duration>) {
        if self.is_stepped() {
            // To look does not help: this thread brings about the goal.
            if let Some(armed) = self.arm() {
                self.park_armed(&armed, see_to);
            }
            return;
        }
        // An event is looked at in a line that only its end writes. A queue's progress is written
        // by every command: there a thread waits to be told.
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
        if self.step_of_machine().end() {
            return;
        }
        slab::flush();
        while !armed.is_done() {
            let is_stepped = self.step();
            if armed.is_done() {
                break;
            }
            let most = match see_to() {
                // A thread that always has something else to do is late all the same.
                Some(Duration::ZERO) if self.is_late() => break,
                Some(Duration::ZERO) => continue,
                Some(most) => most.min(self.until_look()),
                None => self.until_look(),
            };
            if self.is_late() {
                break;
            }
            let part = self
                .part_ends
                .map(|end| end.saturating_sub(SystemClock.now()));
            let most = part
                .into_iter()
                .chain(is_stepped.then_some(MOMENT))
                .fold(most, Duration::min);
            match self.deadline {
                None => std::thread::park_timeout(most),
                Some(deadline) => {
                    let clock = deadline.clock();
                    let left = deadline.time.saturating_sub(self.read(clock));
                    self.park_by(clock, most.min(left));
                }
            }
            if !armed.is_done() {
                self.look(true);
            }
        }
    }

    /// Sleeps until this thread is unparked or time is up, or until it is to [look
    /// after](Waiter::look_after) the wait: true if it is by then. Flushes and logs nothing, and
    /// reads no clock but the system's: for a thread whose driver takes it to be asleep.
    #[must_use]
    pub fn nap(&self) -> bool {
        debug_assert!(!self.has_users_clock(), "that may do anything, as to wait");
        let most = self.until_look();
        let ends = self.deadline.map(|deadline| deadline.time);
        let ends = ends.into_iter().chain(self.part_ends).min();
        let left = ends.map(|end| end.saturating_sub(SystemClock.now()));
        std::thread::park_timeout(left.map_or(most, |left| left.min(most)));
        self.time_to_look().is_zero()
    }

    /// Looks after the wait, and may log it: a subscriber is a user's code, so nobody must count on
    /// this thread meanwhile. True if the wait should flush again, too: the thread goes on by
    /// [`Waiter::rest`], which does.
    #[must_use]
    pub fn look_after(&self) -> bool {
        let is_needed = self.look(false) && (flush_demand::is_needed() || has_ours());
        if is_needed {
            self.whole().watch.due.set(Duration::ZERO);
        }
        is_needed
    }

    /// Sleeps for a short while at most, or until this thread is unparked. A driver whose machine
    /// the thread steps calls it when the machine is idle. The wait is [late](Waiter::is_late)
    /// then, so that the thread can step other machines.
    pub fn doze(&self) {
        if self.step_of_machine().end() {
            return;
        }
        let _ = self.until_look();
        match self.deadline {
            None => std::thread::park_timeout(MOMENT),
            Some(deadline) => self.park_by(deadline.clock(), MOMENT),
        }
        self.look(true);
    }

    /// True if the thread should sleep where it can look after the wait now and then.
    #[must_use]
    pub fn is_watched(&self) -> bool {
        log_after().is_some()
    }

    /// True if time is up by a user's clock, which may do anything as it is read, as to wait.
    #[must_use]
    pub fn has_users_clock(&self) -> bool {
        self.deadline
            .is_some_and(|deadline| deadline.clock.is_some())
    }

    /// True if it does not wait for ever, or the thread is in the step of a machine.
    #[must_use]
    pub fn has_deadline(&self) -> bool {
        let is_limited = self.deadline.is_some() || self.part_ends.is_some();
        is_limited || self.step_of_machine().is_going()
    }

    /// True if it may be done before other work that its thread could do meanwhile: time may be up,
    /// or another of several events over.
    #[must_use]
    pub fn is_impatient(&self) -> bool {
        self.has_deadline() || matches!(self.target, Target::Events([_, _, ..]))
    }

    /// Has this thread unparked when it is done; `None` if it is.
    #[must_use]
    pub fn arm(&self) -> Option<Armed<'_>> {
        self.arm_by(Action::Unpark(std::thread::current()))
    }

    /// Has `call` called when the wait is done, on the thread that brings that about, with no lock
    /// held; `None` if it is done (it may have been called then, if it came about meanwhile). It
    /// must be short, and not wait.
    #[must_use]
    pub fn arm_with(&self, call: impl FnOnce() + Send + 'static) -> Option<Armed<'_>> {
        self.arm_by(Action::Notify(Box::new(call)))
    }

    fn arm_by(&self, action: Action) -> Option<Armed<'_>> {
        // If it is dropped on the way, it takes back its registrations.
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
    /// True if the wait's goal has happened; or never will, and the wait is given up.
    #[must_use]
    pub fn is_done(&self) -> bool {
        self.observer.fired() || self.waiter.is_refused()
    }
}

impl Drop for Armed<'_> {
    fn drop(&mut self) {
        if crate::process::is_forked() {
            // Another thread may have had the list's lock, and nobody is told of anything here.
            return;
        }
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
