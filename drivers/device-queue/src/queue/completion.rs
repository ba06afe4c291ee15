//! Completion: notices the ends of commands on devices.
//!
//! 1. Commands on a device are in *lines*: those of a line end one after the other, because the
//!    device keeps their order or because each waits for the one before. So only the oldest of a
//!    line is looked at; and if the last of it has ended well, so have all.
//! 2. One thread at a time looks: one that waits for something if there is one, else the drain
//!    thread; none when nothing is in flight. A command that finds nothing in flight, handed over
//!    by a thread that [sees to it](will_poll), is not worth waking the drain thread for: its queue
//!    is not flushed yet, so a thread will yet [attend](Completions::attend), or wait. Flushes are
//!    counted: the drain thread may be the only one that looks for a command that is put on its
//!    device after one.
//! 3. After a while in which nothing has ended, and unless a queue asked for polling, the drain
//!    thread asks the device for a call at the end of the oldest command of each line that is not
//!    known to be brief, and sleeps. The call only wakes: a thread that sleeps because it waits for
//!    something of this driver, if there is one, so that it is told by one wake and not by two;
//!    else the drain thread.
//! 4. Devices call late, some of them by milliseconds; and one that is lost does not call at all.
//!    So a thread that sleeps looks from time to time all the same: at the due end of a command
//!    whose [duration](super::durations) is known, and else [late by a small part](nap) of the time
//!    that it has waited.
//! 5. While polling is [suspended](Completions::suspend) the drain thread does not look at commands
//!    whose queue asked for polling: it has devices call for others, and looks when they do. The
//!    thread that suspended it looks.
//! 6. The thread that [pumps](super::pump) acts on notices: the drain thread, or a host thread that
//!    does so anyway.

use super::durations::{Durations, Meter, Workload};
use super::ledger::Key;
use super::wakeup::{Call, Due, LOOK, Listener, Need, Wake, Wakeup};
use crate::vendor::{Failure, Status, Vendor};
use quipu_scheduler::event::will_poll;
use quipu_scheduler::panics::quietly;
use quipu_scheduler::sync::lock;
use quipu_scheduler::{Command, clock};
use smallvec::SmallVec;
use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicIsize, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

/// The time for which a thread looks before it sleeps: longer than waking it takes.
const PATIENCE_NS: u64 = 100_000;

/// The time for which the drain thread stays awake when nothing is in flight any more.
const LINGER_NS: u64 = 20_000;

/// For so long after a command was put on its device, or one has ended, the drain thread leaves it
/// to the thread that did so to look: mostly a thread that is about to wait.
const GRACE_NS: u64 = 3_000;

/// A thread sleeps for one in so many parts of the time that it has waited before it looks again.
const NAP: u64 = 512;
/// The shortest nap: a look takes microseconds, too.
const SHORTEST_NAP: Duration = Duration::from_micros(20);
/// The longest sleep, in nanoseconds, unless that is less than a thousandth of the time that it has
/// waited.
const LONG_NAP_NS: u64 = 100_000;
/// The longest sleep in any case.
const LONGEST_NAP: Duration = Duration::from_millis(1);

/// A thread that polls pauses for one in so many parts of the time that it has polled in vain.
/// Other threads want the library's locks, and the core's other hyperthread. The next constant
/// limits that time.
const AWAY: u64 = 1024;
/// See there.
const LONGEST_AWAY_NS: u64 = 4_000;

/// A thread does not sleep around the time that an end is due: for one in so many parts of the time
/// from when it began to look until then, before that time and after. A wake-up takes time, and a
/// device is now quicker, now slower.
const AWAKE: u64 = 16;
/// The longest time for which it does not sleep before an end is due, and after, in nanoseconds.
const LONGEST_AWAKE_NS: u64 = 150_000;

/// The time to sleep before the next look, for a thread that began to look at `since` for a command
/// whose end is `expected`. It is zero around that time. Otherwise the look is late by a small part
/// of the time that the thread has waited, or has waited longer than was expected.
fn nap(since: u64, expected: Option<u64>, now: u64) -> Duration {
    let usual = |since: u64| {
        let waited = now.saturating_sub(since);
        let nap = (waited / NAP).min(LONG_NAP_NS.max(waited / 1000));
        Duration::from_nanos(nap).clamp(SHORTEST_NAP, LONGEST_NAP)
    };
    let Some(end) = expected else {
        return usual(since);
    };
    let awake = (end.saturating_sub(since) / AWAKE).min(LONGEST_AWAKE_NS);
    match (end - awake).checked_sub(now) {
        Some(left @ 1..) => usual(since).min(Duration::from_nanos(left)),
        _ if now < end + awake => Duration::ZERO,
        _ => usual(since.max(end)),
    }
}

/// The time, in nanoseconds, for which a thread that polls, and has looked in vain since `since`,
/// looks away: zero when a thread that sleeps would be awake.
fn away(since: u64, expected: Option<u64>, now: u64) -> u64 {
    match nap(since, expected, now) {
        Duration::ZERO => 0,
        _ => (now.saturating_sub(since) / AWAY).min(LONGEST_AWAY_NS),
    }
}

/// The device is not asked to call for a command that is known to take no longer: a thread that
/// sleeps wakes when its end is due. A call takes the device time between two commands.
const BRIEF_NS: u64 = 5_000_000;

/// The number of times that a device is asked for a command's status before it is taken to be lost.
const TRIES: u32 = 1000;

/// A command's end.
#[derive(Debug)]
pub(super) struct Notice<V: Vendor> {
    /// The command.
    pub(super) key: Key,
    /// Its result. An error if that cannot be had any more: nobody knows whether the command is
    /// over.
    pub(super) result: Result<Result<(), V::Failure>, V::Failure>,
    /// The time at which the host heard of it, on the process's clock.
    pub(super) seen: u64,
}

/// Notices: mostly one, which is to cost no allocation.
pub(super) type Notices<V> = SmallVec<[Notice<V>; 2]>;

/// The findings of a look.
struct Ended<V: Vendor> {
    notices: Notices<V>,
    /// The number of those whose queues ask for polling.
    polled: usize,
    /// The time at which the first was seen, as its vendor says.
    seen: Option<u64>,
}

/// A command as it was put on its device.
#[derive(Clone, Copy)]
pub(super) struct Put {
    /// The time, as its [vendor](Vendor::now) says.
    pub(super) at: u64,
    pub(super) workload: Workload,
}

impl Put {
    /// A command that was just put there; none where nobody has to look for its end.
    pub(super) fn now<V: Vendor>(vendor: &V, command: &Command) -> Option<Self> {
        (!V::TELLS).then(|| Self {
            at: vendor.now(),
            workload: Workload::of(command),
        })
    }
}

/// A command on a device.
pub(super) struct Watched<V: Vendor> {
    pub(super) key: Key,
    pub(super) device: usize,
    pub(super) line: usize,
    /// The signal of its end.
    pub(super) signal: V::Signal,
    /// True if it is over when a later one of its line is.
    pub(super) is_implied: bool,
    /// True if its signal is that of the one that came before it in its line.
    pub(super) is_joined: bool,
    /// Its queue asks for polling.
    pub(super) polled: bool,
    /// A thread waits, or flushes its queue, unless that happened since.
    pub(super) seen_to: SeenTo,
    pub(super) put: Option<Put>,
}

/// The number of flushes at which a thread that sees to a command handed it over.
pub(super) type SeenTo = Option<u64>;

struct Line<V: Vendor> {
    /// Oldest first.
    watched: VecDeque<Watched<V>>,
    /// The number of times that the status of the oldest could not be had.
    failures: u32,
    /// The command whose end the device calls for, and the call.
    armed: Option<(Key, Arc<Call>)>,
    meter: Meter,
}

/// See the module.
pub(crate) struct Completions<V: Vendor> {
    wakeup: Arc<Wakeup>,
    notices: Mutex<Notices<V>>,
    /// True if there are notices.
    noted: AtomicBool,
    /// The commands that came since the last look.
    fresh: Mutex<Vec<Watched<V>>>,
    /// True if there are any.
    is_fresh: AtomicBool,
    /// The lines by device, and by their numbers there.
    lines: Mutex<Vec<Vec<Line<V>>>>,
    in_flight: AtomicUsize,
    /// The number of those in flight whose queues ask for polling, or whose device does not call.
    polled: AtomicUsize,
    /// Threads that wait, and look meanwhile.
    helpers: AtomicUsize,
    /// The number of flushes of queues.
    flushes: AtomicU64,
    /// True if the thread that brought the last command does not see to it.
    is_left: AtomicBool,
    /// The user polls as long as this is positive.
    suspended: AtomicIsize,
    /// True if some line's oldest has not been asked to wake the drain thread.
    unarmed: AtomicBool,
    /// The time at which a new command that no thread sees to was last in flight, or one ended.
    active: AtomicU64,
    /// The time at which there will be something to do for batches; zero if there will not. The
    /// drain thread's.
    settles: AtomicU64,
    durations: Durations,
    /// The time at which the first command in flight is over, as far as is known; zero if it is
    /// not.
    expected: AtomicU64,
}

impl<V: Vendor> Default for Completions<V> {
    fn default() -> Self {
        Self {
            wakeup: Arc::default(),
            notices: Mutex::default(),
            noted: AtomicBool::new(false),
            fresh: Mutex::default(),
            is_fresh: AtomicBool::new(false),
            lines: Mutex::default(),
            in_flight: AtomicUsize::new(0),
            polled: AtomicUsize::new(0),
            helpers: AtomicUsize::new(0),
            flushes: AtomicU64::new(0),
            is_left: AtomicBool::new(false),
            suspended: AtomicIsize::new(0),
            unarmed: AtomicBool::new(false),
            active: AtomicU64::new(0),
            settles: AtomicU64::new(0),
            durations: Durations::default(),
            expected: AtomicU64::new(0),
        }
    }
}

/// A thread that waits, and looks at commands in flight meanwhile.
pub(super) struct Helper<'a, V: Vendor>(&'a Completions<V>);

impl<V: Vendor> Drop for Helper<'_, V> {
    fn drop(&mut self) {
        let completions = self.0;
        let others = completions.helpers.fetch_sub(1, Ordering::SeqCst) - 1;
        if others == 0 && completions.is_in_flight() {
            completions.leave();
        }
    }
}

/// An element of a list, which is made as long as that takes.
fn grown<T: Default>(list: &mut Vec<T>, number: usize) -> &mut T {
    if list.len() <= number {
        list.resize_with(number + 1, T::default);
    }
    &mut list[number]
}

impl<V: Vendor> Completions<V> {
    /// The wakeup of the drain thread.
    pub(crate) fn wakeup(&self) -> Arc<Wakeup> {
        self.wakeup.clone()
    }

    /// Has commands' ends noted; those of a line in the order in which they will come.
    pub(super) fn watch(&self, watched: impl IntoIterator<Item = Watched<V>>) {
        let (mut count, mut polled, mut seen_to) = (0, 0, None);
        {
            let mut fresh = lock(&self.fresh);
            fresh.extend(watched.into_iter().inspect(|watched| {
                count += 1;
                polled += usize::from(watched.polled);
                seen_to = watched.seen_to;
            }));
            self.is_fresh.store(true, Ordering::Relaxed);
            // After that, for the thread that arms those that there are.
            self.unarmed.store(true, Ordering::Relaxed);
            // With the lock: the thread that takes them takes these off again.
            if polled > 0 {
                self.polled.fetch_add(polled, Ordering::SeqCst);
            }
            // Of several, one may be for a thread that relies on the drain thread.
            seen_to = seen_to.filter(|_| count == 1 && !self.is_in_flight());
            if seen_to.is_some() && self.is_left() {
                self.is_left.store(false, Ordering::SeqCst);
            }
            self.in_flight.fetch_add(count, Ordering::SeqCst);
        }
        // Either this sees a flush, or the flush sees the command. (Where the vendor tells, nobody
        // looks.)
        if V::TELLS || seen_to.is_some_and(|flushes| flushes == self.flushes.load(Ordering::SeqCst))
        {
            return;
        }
        self.active.store(clock::now_ns(), Ordering::Relaxed);
        // A thread that helps leaves it when it ceases to.
        if self.helpers.load(Ordering::SeqCst) > 0 {
            return;
        }
        self.leave();
    }

    /// Leaves commands in flight to the drain thread.
    fn leave(&self) {
        if !self.is_left.load(Ordering::Relaxed) {
            self.is_left.store(true, Ordering::SeqCst);
        }
        self.nudge();
    }

    /// Has the drain thread look at its work, unless all commands in flight are the user's to poll
    /// for. Then the thread that brings another one nudges, and so does the thread that gives
    /// polling back.
    fn nudge(&self) {
        let polled = self.polled.load(Ordering::SeqCst);
        if !self.is_suspended() || polled < self.in_flight.load(Ordering::SeqCst) {
            self.wakeup.nudge();
        }
    }

    /// A thread's promise about a command that it hands over: to see to the driver at this address.
    pub(super) fn seen_to(&self, driver: *const ()) -> SeenTo {
        will_poll(driver).then(|| self.flushes.load(Ordering::SeqCst))
    }

    /// A queue was flushed, of the driver at this address: the drain thread looks, unless this
    /// thread sees to it.
    pub(super) fn flushed(&self, driver: *const ()) {
        self.flushes.fetch_add(1, Ordering::SeqCst);
        if !will_poll(driver) {
            self.attend();
        }
    }

    /// Makes sure that a thread looks at commands in flight, if there are any.
    pub(super) fn attend(&self) {
        if !V::TELLS && self.is_in_flight() && self.helpers.load(Ordering::SeqCst) == 0 {
            self.leave();
        }
    }

    /// True if something is in flight.
    pub(super) fn is_in_flight(&self) -> bool {
        self.in_flight.load(Ordering::SeqCst) > 0
    }

    /// True if something is in flight that is to be polled.
    pub(super) fn is_polling(&self) -> bool {
        self.polled.load(Ordering::Relaxed) > 0
    }

    /// Has this thread look at commands in flight as long as the result lives.
    pub(super) fn help(&self) -> Helper<'_, V> {
        self.helpers.fetch_add(1, Ordering::SeqCst);
        Helper(self)
    }

    /// Has this thread, which is about to sleep, woken when a device calls, as long as the result
    /// lives.
    pub(super) fn listen(&self) -> Listener<'_> {
        self.wakeup.listen()
    }

    /// Looks at commands in flight, unless another thread does; true if one has ended.
    pub(super) fn poll(&self, vendor: &V) -> bool {
        let lines = self.lines.try_lock();
        lines.is_ok_and(|lines| self.look(vendor, lines))
    }

    /// Looks at commands in flight, even if another thread does, whose look may have come too
    /// early; true if one has ended.
    pub(super) fn poll_again(&self, vendor: &V) -> bool {
        self.look(vendor, lock(&self.lines))
    }

    /// As [`poll`](Completions::poll), for the drain thread: not while polling is suspended.
    pub(super) fn poll_unless_suspended(&self, vendor: &V) -> bool {
        let lines = self.lines.try_lock();
        lines.is_ok_and(|lines| !self.is_suspended() && self.look(vendor, lines))
    }

    /// True if polling is suspended.
    fn is_suspended(&self) -> bool {
        self.suspended.load(Ordering::SeqCst) > 0
    }

    /// Keeps the drain thread from polling from now on: when this returns, it is not just at it.
    pub(super) fn suspend(&self) {
        self.suspended.fetch_add(1, Ordering::SeqCst);
        drop(lock(&self.lines));
        // Nor does it look at commands that no device was asked to call for because they are brief.
        self.unarmed.store(true, Ordering::Relaxed);
        self.nudge();
    }

    /// The drain thread polls again, if this was called as often as
    /// [`suspend`](Completions::suspend).
    pub(super) fn resume(&self) {
        self.suspended.fetch_sub(1, Ordering::SeqCst);
        self.wakeup.nudge();
    }

    /// The durations of commands.
    pub(super) fn durations(&self) -> &Durations {
        &self.durations
    }

    /// The time for which a thread that has looked since `since` may sleep before it looks again.
    pub(super) fn nap(&self, since: u64, now: u64) -> Duration {
        let expected = self.expected();
        let nap = nap(since, expected, now);
        // Of several threads that wait for unknown ends, each looks as seldom as all of them look
        // often enough.
        let sleepers = match expected {
            None => self.helpers.load(Ordering::Relaxed).max(1),
            Some(_) => 1,
        };
        let sleepers = u32::try_from(sleepers).unwrap_or(u32::MAX);
        nap.saturating_mul(sleepers).min(LONGEST_NAP)
    }

    /// The time at which the next command in flight is over, if that is known.
    fn expected(&self) -> Option<u64> {
        Some(self.expected.load(Ordering::Relaxed)).filter(|end| *end > 0)
    }

    /// Finds out at which time the next command in flight is over.
    fn expect(&self, lines: &[Vec<Line<V>>]) {
        if V::TELLS {
            return;
        }
        let ends = lines.iter().flatten().filter_map(|line| {
            let put = line.watched.front()?.put?;
            Some(line.meter.begun() + self.durations.of(put.workload)?)
        });
        self.expected
            .store(ends.min().unwrap_or(0), Ordering::Relaxed);
    }

    fn look(&self, vendor: &V, mut lines: MutexGuard<'_, Vec<Vec<Line<V>>>>) -> bool {
        let is_new = self.sort_in(&mut lines);
        let mut ended = Ended {
            notices: Notices::new(),
            polled: 0,
            seen: None,
        };
        for line in lines.iter_mut().flatten() {
            line.look(vendor, &self.durations, &mut ended);
        }
        let count = ended.notices.len();
        if is_new || count > 0 {
            self.expect(&lines);
        }
        if count == 0 {
            return false;
        }
        let seen = clock::now_ns();
        for notice in &mut ended.notices {
            notice.seen = seen;
        }
        // Before the lock is given up: a thread that finds nothing in flight finds all of it noted.
        lock(&self.notices).append(&mut ended.notices);
        self.noted.store(true, Ordering::Release);
        self.unarmed.store(true, Ordering::Relaxed);
        self.polled.fetch_sub(ended.polled, Ordering::Relaxed);
        self.in_flight.fetch_sub(count, Ordering::SeqCst);
        drop(lines);
        self.active.store(seen, Ordering::Relaxed);
        if self.is_suspended() {
            // The next command in a line may be one that the device is to call for.
            self.nudge();
        }
        true
    }

    /// Puts the commands that came into their lines; true if there are any.
    fn sort_in(&self, lines: &mut Vec<Vec<Line<V>>>) -> bool {
        if !self.is_fresh.load(Ordering::Relaxed) {
            return false;
        }
        let mut fresh = lock(&self.fresh);
        self.is_fresh.store(false, Ordering::Relaxed);
        for watched in fresh.drain(..) {
            let of_device = grown(lines, watched.device);
            let line = grown(of_device, watched.line);
            if line.watched.is_empty() {
                line.meter.begin(watched.put.map_or(0, |put| put.at));
            }
            line.watched.push_back(watched);
        }
        true
    }

    /// The number of nanoseconds for which a thread that polls, and has looked in vain since
    /// `since`, looks away.
    pub(super) fn away(&self, since: u64, now: u64) -> u64 {
        away(since, self.expected(), now)
    }

    /// The time at which a command has come or ended last.
    pub(super) fn active(&self) -> u64 {
        self.active.load(Ordering::Relaxed)
    }

    /// True if nothing has come or ended for so many nanoseconds.
    fn is_idle_for(&self, nanoseconds: u64) -> bool {
        let active = self.active.load(Ordering::Relaxed);
        clock::now_ns().saturating_sub(active) > nanoseconds
    }

    /// True if nothing has come or ended for so long that the drain thread may sleep.
    fn is_quiet(&self) -> bool {
        self.is_idle_for(PATIENCE_NS)
    }

    /// Has the drain thread woken when the oldest command of each line ends, unless it is polled
    /// for, or known to be brief.
    pub(super) fn arm(&self, vendor: &V) {
        let mut lines = lock(&self.lines);
        // While the user polls, this thread looks at no command that no device was asked to call
        // for.
        let looks = !self.is_suspended();
        self.unarmed.store(false, Ordering::Relaxed);
        self.sort_in(&mut lines);
        let mut refused = Vec::new();
        for line in lines.iter_mut().flatten() {
            let Some(oldest) = line.watched.front_mut() else {
                continue;
            };
            let is_armed = line.armed.as_ref().is_some_and(|it| it.0 == oldest.key);
            let takes = oldest.put.and_then(|put| self.durations.of(put.workload));
            let is_brief = looks && takes.is_some_and(|takes| takes <= BRIEF_NS);
            if is_armed || oldest.polled || is_brief {
                continue;
            }
            let call = Call::new(self.wakeup());
            line.armed = Some((oldest.key, call.clone()));
            let asked = vendor.call_when_over(&oldest.signal, Wake(call));
            if let Err(failure) = asked {
                if !std::mem::replace(&mut oldest.polled, true) {
                    self.polled.fetch_add(1, Ordering::Relaxed);
                }
                refused.push(failure);
            }
        }
        drop(lines);
        for failure in refused {
            let reason = failure.text();
            quietly(|| tracing::debug!(reason, "a device does not call back"));
        }
    }

    /// Takes the notices.
    pub(super) fn take(&self) -> Notices<V> {
        if !self.has_notices() {
            return Notices::new();
        }
        let mut notices = lock(&self.notices);
        self.noted.store(false, Ordering::Relaxed);
        std::mem::take(&mut *notices)
    }

    /// True if something is noted.
    pub(super) fn has_notices(&self) -> bool {
        self.noted.load(Ordering::SeqCst)
    }

    /// Leaves work to the drain thread.
    pub(super) fn call(&self) {
        self.wakeup.ring();
    }

    /// Ends the drain thread.
    pub(crate) fn close(&self) {
        self.wakeup.close();
    }

    /// Sets the time at which there will be something to do for batches. The drain thread, which
    /// asks now, knows it.
    pub(super) fn settle(&self, at: Option<u64>) {
        self.settles.store(at.unwrap_or(0), Ordering::Relaxed);
    }

    /// The next work of the drain thread.
    pub(super) fn need(&self) -> Need {
        let settles = self.settles.load(Ordering::Relaxed);
        match self.need_of_flights() {
            Need::Now(due) if due != Due::Pause => Need::Now(due),
            other if settles == 0 => other,
            _ if clock::now_ns() < settles => Need::Now(Due::Pause),
            _ => Need::Now(Due::Pump),
        }
    }

    /// True if no other thread sees to the last command.
    fn is_left(&self) -> bool {
        self.is_left.load(Ordering::SeqCst)
    }

    fn need_of_flights(&self) -> Need {
        if self.has_notices() {
            return Need::Now(Due::Pump);
        }
        if V::TELLS {
            return Need::Nothing;
        }
        if !self.is_in_flight() {
            // The next command often comes when the last is over: the thread that puts it on its
            // device would have to wake this one.
            return match !self.is_left() || self.is_idle_for(LINGER_NS) {
                true => Need::Nothing,
                false => Need::Now(Due::Pause),
            };
        }
        if self.is_suspended() {
            return if self.unarmed.load(Ordering::Relaxed) {
                Need::Now(Due::Arm)
            } else {
                Need::Nothing
            };
        }
        if !self.is_left() {
            return Need::Nothing;
        }
        let is_quiet = self.is_quiet();
        if self.helpers.load(Ordering::SeqCst) > 0 {
            // A thread that ceases to help would have to wake this thread, if there is more.
            return match is_quiet {
                true => Need::Calls(LOOK),
                false => Need::Now(Due::Pause),
            };
        }
        if !self.is_idle_for(GRACE_NS) {
            Need::Now(Due::Pause)
        } else if self.is_polling() || !is_quiet {
            Need::Now(Due::Poll)
        } else if self.unarmed.load(Ordering::Relaxed) {
            Need::Now(Due::Arm)
        } else {
            let active = self.active.load(Ordering::Relaxed);
            match self.nap(active, clock::now_ns()) {
                Duration::ZERO => Need::Now(Due::Poll),
                nap => Need::Calls(nap),
            }
        }
    }
}

impl<V: Vendor> Default for Line<V> {
    fn default() -> Self {
        Self {
            watched: VecDeque::new(),
            failures: 0,
            armed: None,
            meter: Meter::default(),
        }
    }
}

impl<V: Vendor> Line<V> {
    /// True if its device has called for this command's end, and said that it ended well.
    fn has_called(&self, key: Key) -> bool {
        let armed = self.armed.as_ref();
        armed.is_some_and(|(armed, call)| *armed == key && call.is_finished())
    }

    /// Takes out ended commands. The caller fills in the time at which that was seen.
    fn look(&mut self, vendor: &V, durations: &Durations, ended: &mut Ended<V>) {
        let (mut well, before) = (SmallVec::new(), self.watched.len());
        self.take_ended(vendor, ended, &mut well);
        let over = before - self.watched.len();
        if over == 0 {
            if !V::TELLS && before > 0 {
                self.meter.goes_on(vendor.now());
            }
            return;
        }
        let seen = *ended.seen.get_or_insert_with(|| vendor.now());
        let next = self.watched.front().and_then(|next| next.put);
        let each = self.meter.over(seen, over, next.map_or(0, |put| put.at));
        for workload in well {
            durations.note(workload, each);
        }
    }

    fn take_ended(
        &mut self,
        vendor: &V,
        ended: &mut Ended<V>,
        ended_well: &mut SmallVec<[Workload; 4]>,
    ) {
        let (mut asked, mut all_over, mut before) = (0, None, None);
        while let Some(oldest) = self.watched.front() {
            let end = if let Some(before) = before.take().filter(|_| oldest.is_joined) {
                before
            } else if (all_over == Some(true) && oldest.is_implied) || self.has_called(oldest.key) {
                Ok(Ok(()))
            } else {
                let status = vendor.status(&oldest.signal);
                asked += 1;
                match end_of(status, &mut self.failures) {
                    Some(end) => end,
                    None => return,
                }
            };
            let well = matches!(end, Ok(Ok(())));
            ended_well.extend(oldest.put.filter(|_| well).map(|put| put.workload));
            before = Some(end.clone());
            ended.polled += usize::from(oldest.polled);
            ended.notices.push(Notice {
                key: oldest.key,
                result: end,
                seen: 0,
            });
            self.watched.pop_front();
            self.failures = 0;
            // If two are over, perhaps all are.
            if well
                && asked == 2
                && all_over.is_none()
                && self.watched.len() > 1
                && let Some(last) = self.watched.back()
            {
                let status = vendor.status(&last.signal);
                all_over = Some(matches!(status, Ok(Some(Ok(())))));
            }
        }
    }
}

/// A command's end; none if it goes on. A status that cannot be had is no end: it is asked for
/// again, unless the command's device is lost or has said nothing too often.
fn end_of<F: Failure>(
    status: Result<Status<F>, F>,
    failures: &mut u32,
) -> Option<Result<Result<(), F>, F>> {
    match status {
        Ok(status) => {
            *failures = 0;
            status.map(Ok)
        }
        Err(failure) => {
            *failures += 1;
            (failure.is_loss() || *failures >= TRIES).then_some(Err(failure))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Clone, Debug, PartialEq)]
    struct Refusal {
        loss: bool,
    }

    impl Failure for Refusal {
        fn is_loss(&self) -> bool {
            self.loss
        }

        fn is_out_of_memory(&self) -> bool {
            false
        }

        fn text(&self) -> String {
            "no".to_owned()
        }
    }

    #[test]
    fn naps_are_a_small_part_of_what_was_waited() {
        let mut waited = 0;
        let mut looks = 0;
        while waited < 1_000_000_000 {
            let nap = nap(5, None, 5 + waited).as_nanos() as u64;
            assert!(nap <= (waited / NAP).max(20_000) && nap <= (waited / 1000).max(100_000));
            waited += nap;
            looks += 1;
        }
        // A second, for which one that looks each 100 µs looks 10,000 times.
        assert!(looks < 5_000, "{looks}");
    }

    #[test]
    fn who_polls_looks_away_for_a_small_part_of_what_it_has_looked() {
        let since = 1 << 40;
        let away = |looked, expected| away(since, expected, since + looked);
        assert_eq!(away(100_000, None), 97);
        assert_eq!(away(1 << 50, None), 4_000);
        assert!(
            (0..10_000_000)
                .step_by(1000)
                .all(|looked| away(looked, None) <= looked / 1000)
        );
        // Not while an end is due: 150 µs before it, and after it.
        let end = since + 3_200_000;
        for (looked, nanoseconds) in [
            (3_049_000, 2_977),
            (3_051_000, 0),
            (3_349_000, 0),
            (3_351_000, 3_272),
        ] {
            assert_eq!(away(looked, Some(end)), nanoseconds, "{looked}");
        }
    }

    #[test]
    fn who_knows_when_an_end_comes_looks_then() {
        // For 64 ms, which is known: it is awake then. After that, each look is late by a small
        // part of the unexpected time.
        let (since, end) = (1_u64 << 40, (1_u64 << 40) + 64_000_000);
        let a_look = 500;
        for late in [-50_000_i64, 0, 1_000, 149_000, 300_000, 5_000_000] {
            let over = end.strict_add_signed(late);
            let (mut now, mut awake) = (since, 0);
            while now < over {
                let nap = nap(since, Some(end), now).as_nanos() as u64;
                awake += if nap == 0 { a_look } else { 0 };
                now += nap + a_look;
            }
            let allowed = match late {
                ..150_000 => 0,
                _ => (late as u64 / NAP).max(20_000),
            };
            let late_by = now - over;
            assert!(late_by <= allowed + a_look, "{late_by} after {late}");
            assert!(awake <= 301_000, "{awake}");
        }
        // A command that takes no time is not waited for awake for long.
        assert!(nap(since, Some(since + 3200), since + 3500) > Duration::ZERO);
        // A thread that expects too much looks as usual.
        let usual = nap(since, None, since + 6_400_000);
        assert_eq!(nap(since, Some(end), since + 6_400_000), usual);
        assert_eq!(usual, SHORTEST_NAP);
    }

    #[test]
    fn that_a_status_cannot_be_had_is_no_end() {
        let refusal = Refusal { loss: false };
        let mut failures = 0;
        for _ in 0..3 {
            for _ in 1..TRIES {
                assert_eq!(end_of(Err(refusal.clone()), &mut failures), None);
            }
            assert_eq!(end_of(Ok(None::<Result<(), Refusal>>), &mut failures), None);
        }
        let well: Status<Refusal> = Some(Ok(()));
        assert_eq!(end_of(Ok(well), &mut failures), Some(Ok(Ok(()))));
        let failed = Ok(Some(Err(refusal.clone())));
        assert_eq!(
            end_of(failed, &mut failures),
            Some(Ok(Err(refusal.clone())))
        );
        let lost = Refusal { loss: true };
        assert_eq!(
            end_of(Err(lost.clone()), &mut failures),
            Some(Err(lost.clone()))
        );
        failures = TRIES - 1;
        assert_eq!(
            end_of(Err(refusal.clone()), &mut failures),
            Some(Err(refusal))
        );
    }
}
