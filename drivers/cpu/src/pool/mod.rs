//! The work-stealing pool: one thread per worker, a deque each, and injectors for tasks from
//! outside.
//!
//! Commands of the pool's own device go through the deques. A sub-device is a subset of the
//! workers; its commands go through an injector of its own, from which only its workers take. At
//! most as many threads look for commands at once as the pool has workers. A host thread that helps
//! while it waits does so only while no worker is awake, and a command that waits gives its role to
//! another thread (`threads`).
//!
//! # No ready command waits for a busy worker while another worker is idle
//!
//! A ready command lies in one of four places:
//!
//! | place | threads that see it |
//! |---|---|
//! | an injector | every worker of the command's device |
//! | the ring or the shared batch of a deque | every worker |
//! | an open invitation, as a share of a launch | every worker |
//! | `next` or `gathered` of a worker | that worker alone |
//!
//! **Private places are empty while a thread runs a user's code.** A user's code is a command's
//! body and its destructor, a callback, a waker, and the commands of a driver that runs them on the
//! calling thread. It may take any time, and it may block on things that the pool knows nothing of.
//!
//! 1. Only the end of a command fills private places (`Worker::accept`). A command that a user's
//!    code makes ready comes through the driver's `notify`, and goes to the deque or to an injector
//!    (`Worker::push`).
//! 2. The end of a command drops the body first, and then releases dependants. So destructors find
//!    private places empty.
//! 3. The core calls a *publisher* before it calls a waker or a callback, and before it runs
//!    commands of a driver on this thread (`quipu_scheduler::command::replace_publisher`). The
//!    publisher moves all from private places to the deque (`Worker::publish`).
//! 4. A worker empties `next` before it runs that command. If it runs an urgent command first, it
//!    moves `next` to the deque (`Worker::take`).
//! 5. A command that waits moves `next` to the deque, and then gives its role away
//!    (`Worker::wait_inside`).
//!
//! **While a thread runs a user's code, every task in a public place is noticed:** some worker
//! looks for work or is being woken, or no worker sleeps.
//!
//! 1. A thread that adds a task executes a fence after the addition. Then it looks for sleepers. A
//!    thread that adds to an injector, or that adds while a user's code runs, does this at once
//!    (`wake_in`, `wake_unless_somebody_looks`). A worker that adds to its own deque between two
//!    tasks does this before it runs the next one (`Worker::see_to_surplus`), even if the next task
//!    is known to be short: that task may block.
//! 2. A worker that falls asleep joins the sleepers, executes a fence, and looks into all public
//!    places once more (`Sleep::announce`). One of the two fences is first. If the adder's is
//!    first, the worker finds the task. If the worker's is first, the adder finds the sleeper, and
//!    wakes it unless another worker is counted as looking or as being woken.
//! 3. A worker that is counted so looks into all public places before it sleeps, after such a
//!    fence. If it finds another task first and no other worker looks, it executes a fence, and
//!    wakes a sleeper if a task is left (`pass_on_wake`).
//! 4. A task that a thread has in its hands, on the way from one public place to another, is added
//!    anew as by 1 (`show_again`).
//!
//! So a ready command waits at most for instructions of the pool itself, for a bounded spin of a
//! worker that looks, and for a thread to wake. The end of a command runs its dependant next
//! without a fence or a wake, as no user's code runs between the two.
//!
//! This says nothing of three cases. Groups of one launch are one command, and a worker runs the
//! groups that it has claimed one after the other. A command of a sub-device waits for that
//! sub-device's workers. A thread that [lends itself](quipu_scheduler::driver::InlineExecutor)
//! keeps commands that call themselves brief until it runs them or ends the loan, but not while a
//! callback or another command runs on it.

mod cost;
mod deque;
mod injector;
mod invitation;
mod parts;
mod shared_batch;
mod sleep;
mod split;
#[cfg(test)]
mod tests;
mod threads;
pub(crate) mod worker;

use crate::CpuDriver;
use cost::Costs;
use deque::Deque;
use injector::Injector;
use invitation::Invitation;
use quipu_scheduler::event::Waiter;
use quipu_scheduler::queue::route_to;
use quipu_scheduler::sync::lock;
use quipu_scheduler::{Command, Kind, Priority, error};
use quipu_threads::UsualArithmetic;
pub(crate) use sleep::MAX_WORKERS;
use sleep::{Sleep, Workers};
use split::{Participation, Ticket};
use std::cell::Cell;
use std::num::NonZero;
use std::ops::Range;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering, fence};
use std::sync::{Arc, Mutex, OnceLock, PoisonError, RwLock, Weak};
use threads::WorkerThreads;
use worker::Worker;

pub(crate) use split::Arguments;

/// The pool's own device: all workers.
pub(crate) const POOL_DEVICE: u32 = 0;

/// A task: a command, or a share in a launch.
pub(crate) enum Task {
    Command(Command),
    Ticket(Box<Ticket>),
}

impl Task {
    #[inline]
    fn command_word(command: Command) -> u64 {
        command.into_raw().as_ptr().expose_provenance() as u64
    }

    fn ticket(split: Participation) -> Self {
        Self::Ticket(Box::new(Ticket {
            split,
            link: Cell::new(0),
        }))
    }

    fn into_word(self) -> u64 {
        match self {
            Self::Command(command) => Self::command_word(command),
            Self::Ticket(ticket) => Box::into_raw(ticket).expose_provenance() as u64 | 1,
        }
    }

    /// A task back from its word.
    ///
    /// # Safety
    /// The word is of [`into_word`](Task::into_word) or [`command_word`](Task::command_word), and
    /// the caller's: it is in no list any more, where another thread would find it, and is not used
    /// again unless the result is forgotten.
    #[inline]
    unsafe fn from_word(word: u64) -> Self {
        debug_assert_ne!(word, 0);
        if word & 1 != 0 {
            let pointer = std::ptr::with_exposed_provenance_mut::<Ticket>((word & !1) as usize);
            // SAFETY: a ticket's word is that of its box, which is the caller's.
            return Self::Ticket(unsafe { Box::from_raw(pointer) });
        }
        // SAFETY: a command's word is its address, which is not null, and the command is the
        // caller's.
        unsafe {
            Self::Command(Command::from_raw(NonNull::new_unchecked(
                std::ptr::with_exposed_provenance_mut(word as usize),
            )))
        }
    }

    #[inline]
    fn set_link(&mut self, link: u64) {
        match self {
            Self::Command(command) => command.set_link(link),
            Self::Ticket(ticket) => ticket.link.set(link),
        }
    }

    #[inline]
    fn link(&self) -> u64 {
        match self {
            Self::Command(command) => command.link(),
            Self::Ticket(ticket) => ticket.link.get(),
        }
    }

    /// The command, also if it is a share in it.
    fn command(&self) -> &Command {
        match self {
            Self::Command(command) => command,
            Self::Ticket(ticket) => ticket.split.command(),
        }
    }

    /// True if a guest may run it: its code does not block, or the guest's wait needs it and so
    /// loses nothing by it. A kernel that is code for other devices, too, has nothing to block on.
    /// Host tasks may count on a thread of the pool.
    fn is_for_guest(&self, waiter: &Waiter<'_>) -> bool {
        let command = self.command();
        match command.kind() {
            Kind::HostTask | Kind::NativeCall | Kind::NativeEnqueue => false,
            Kind::Launch => command.portable().is_some() || waiter.needs(command),
            _ => true,
        }
    }

    /// True if it is known to be over in a few microseconds.
    fn is_brief(&self) -> bool {
        match self {
            Self::Command(command) => command.is_brief(),
            Self::Ticket(_) => false,
        }
    }

    fn device(&self) -> u32 {
        match self {
            Self::Command(command) if command.needs_no_device() => POOL_DEVICE,
            Self::Command(command) => command.queue().owner().1,
            Self::Ticket(ticket) => ticket.split.device,
        }
    }
}

/// One of the pool's devices: its workers, and the tasks that were handed in for it.
struct Team {
    workers: Workers,
    range: Range<usize>,
    injectors: [Injector; 3],
}

impl Team {
    /// True if something was handed in for it, as far as a glance tells.
    fn has_tasks(&self) -> bool {
        self.injectors.iter().any(|injector| !injector.is_empty())
    }
}

fn level(priority: Priority) -> usize {
    match priority {
        Priority::High => 0,
        Priority::Normal => 1,
        Priority::Low => 2,
    }
}

/// See the module.
pub(crate) struct Pool {
    /// The route of the pool's own commands: the driver's address.
    route: u64,
    /// Has the address be no other driver's as long as a thread of the pool lives.
    driver: OnceLock<Weak<CpuDriver>>,
    worker_count: usize,
    deques: Box<[Deque]>,
    /// The places of the workers that have a deque.
    invitations: Box<[Invitation]>,
    sleep: Sleep,
    /// The teams by device number; none where a sub-device has gone.
    teams: RwLock<Vec<Option<Arc<Team>>>>,
    own: Arc<Team>,
    /// Tasks in injectors of high priority.
    urgent: AtomicUsize,
    /// Tasks in injectors of sub-devices.
    elsewhere: AtomicUsize,
    threads: WorkerThreads,
    attendant: Attendant,
    published: Published,
    guest: AtomicBool,
    /// The costs that the last guest knew, for the next: a worker that does not know the cost of a
    /// group runs one alone before it shares a launch.
    guests_costs: Mutex<Option<Costs>>,
    ending: AtomicBool,
    /// The workers that have had a thread.
    started: Mutex<usize>,
}

/// The worker that took the last short commands from outside: one more than its
/// number, or none. A stream of such commands costs the thread that enqueues
/// them least if they all go to one worker, so others leave the injectors to it
/// for a while. On a cache line of its own: every worker without work reads it.
#[repr(align(128))]
struct Attendant(AtomicUsize);

/// Changes when tasks are put into a deque while a worker looks for work, and its upper half when
/// an invitation is opened. To look at this costs a spinning worker, and a thread that shares a
/// core with it, less than to look into all deques.
#[repr(align(128))]
struct Published(AtomicU64);

impl Published {
    /// Two at once may store the same: it has changed all the same.
    fn change(&self, by: u64) {
        let count = self.0.load(Ordering::Relaxed);
        self.0.store(count.wrapping_add(by), Ordering::Release);
    }
}

/// The number by which [`Published`] changes for an invitation.
const INVITATION: u64 = 1 << 32;

/// True if an invitation was opened between two looks at [`Published`].
fn are_invited(before: u64, now: u64) -> bool {
    (before ^ now) >= INVITATION
}

impl Pool {
    /// A pool of `workers` threads, each pinned to a core of `pin` in
    /// turn, if there are any. None of them is started.
    pub(crate) fn new(
        owner: *const (),
        workers: NonZero<usize>,
        pin: &[usize],
    ) -> error::Result<Arc<Self>> {
        let count = workers.get();
        if count > MAX_WORKERS {
            return Err(error::ErrorKind::InvalidArgument {
                what: "start the CPU pool",
                problem: format!("{count} workers; at most {MAX_WORKERS} are possible"),
            }
            .into());
        }
        let own = Arc::new(Team {
            workers: Workers::range(0..count),
            range: 0..count,
            injectors: std::array::from_fn(|_| Injector::new()),
        });
        Ok(Arc::new(Self {
            route: route_to(owner),
            driver: OnceLock::new(),
            worker_count: count,
            // One more for a guest.
            deques: (0..=count).map(|_| Deque::new()).collect(),
            invitations: (0..=count).map(|_| Invitation::new()).collect(),
            sleep: Sleep::new(),
            teams: RwLock::new(vec![Some(own.clone())]),
            own,
            urgent: AtomicUsize::new(0),
            elsewhere: AtomicUsize::new(0),
            threads: WorkerThreads::new(count, pin),
            attendant: Attendant(AtomicUsize::new(0)),
            published: Published(AtomicU64::new(0)),
            guest: AtomicBool::new(false),
            guests_costs: Mutex::default(),
            ending: AtomicBool::new(false),
            started: Mutex::new(0),
        }))
    }

    /// Starts the threads that are not started yet.
    ///
    /// # Errors
    /// If the system gives none. Those before it are started.
    pub(crate) fn start_threads(self: &Arc<Self>) -> error::Result<()> {
        let mut started = lock(&self.started);
        while *started < self.worker_count {
            self.engage(*started)?;
            *started += 1;
        }
        Ok(())
    }

    /// Keeps the address of the pool's driver. Called once, when that is there.
    pub(crate) fn keep_address(&self, driver: &Arc<CpuDriver>) {
        let _ = self.driver.set(Arc::downgrade(driver));
    }

    /// Adds a sub-device of these workers; gives its number, which may have been
    /// that of one that is gone.
    pub(crate) fn add_team(&self, range: Range<usize>) -> u32 {
        let team = Arc::new(Team {
            workers: Workers::range(range.clone()),
            range,
            injectors: std::array::from_fn(|_| Injector::new()),
        });
        let mut teams = self.teams.write().unwrap_or_else(PoisonError::into_inner);
        let number = teams
            .iter()
            .position(Option::is_none)
            .unwrap_or(teams.len());
        if number == teams.len() {
            teams.push(Some(team));
        } else {
            teams[number] = Some(team);
        }
        number as u32
    }

    /// Removes a sub-device that nobody can enqueue to any more. Nothing of it is
    /// left in its injectors: commands, and the launches that tickets invite to,
    /// keep their queue, and that its device.
    pub(crate) fn remove_team(&self, device: usize) {
        let mut teams = self.teams.write().unwrap_or_else(PoisonError::into_inner);
        if device == POOL_DEVICE as usize || device >= teams.len() {
            return;
        }
        let team = teams[device].take();
        debug_assert!(team.is_none_or(|team| team.injectors.iter().all(Injector::is_empty)));
        while teams.last().is_some_and(Option::is_none) {
            teams.pop();
        }
    }

    /// The workers of a device; `None` if there is no such device.
    pub(crate) fn range_of(&self, device: usize) -> Option<Range<usize>> {
        let teams = self.teams.read().unwrap_or_else(PoisonError::into_inner);
        Some(teams.get(device)?.as_ref()?.range.clone())
    }

    fn team(&self, device: u32) -> Arc<Team> {
        if device == POOL_DEVICE {
            return self.own.clone();
        }
        let teams = self.teams.read().unwrap_or_else(PoisonError::into_inner);
        teams
            .get(device as usize)
            .cloned()
            .flatten()
            .unwrap_or_else(|| self.own.clone())
    }

    fn workers_of(&self, device: u32) -> usize {
        if device == POOL_DEVICE {
            self.worker_count
        } else {
            self.team(device).range.len()
        }
    }

    /// Hands in a task from outside, and makes sure that a worker takes it.
    pub(crate) fn inject(&self, task: Task, device: u32, priority: Priority) {
        if priority == Priority::High {
            self.urgent.fetch_add(1, Ordering::Relaxed);
        }
        if device == POOL_DEVICE {
            return self.inject_in(&self.own, task, priority);
        }
        self.elsewhere.fetch_add(1, Ordering::Relaxed);
        self.inject_in(&self.team(device), task, priority);
    }

    fn inject_in(&self, team: &Team, task: Task, priority: Priority) {
        team.injectors[level(priority)].push(task);
        self.wake_in(team);
    }

    /// Hands in commands from outside that one event made ready, newest first, under one lock. They
    /// are to be run in the order in which they were enqueued.
    pub(crate) fn inject_many(&self, commands: &mut Vec<Command>) {
        let usual = |command: &Command| {
            command.queue().owner().1 == POOL_DEVICE
                && command.queue().priority() == Priority::Normal
        };
        if !commands.iter().all(usual) {
            for command in commands.drain(..) {
                let (_, device) = command.queue().owner();
                let priority = command.queue().priority();
                self.inject(Task::Command(command), device, priority);
            }
            return;
        }
        self.own.injectors[level(Priority::Normal)]
            .push_many(commands.drain(..).rev().map(Task::command_word));
        self.wake_in(&self.own);
    }

    /// As `inject`, for tasks that do not fit into a worker's deque.
    #[cold]
    fn spill(&self, task: Task, device: u32, deque: &Deque) {
        // Half of the deque goes along, so that this is rare.
        for _ in 0..deque::CAPACITY / 2 {
            let deque::Steal::Item(word) = deque.steal() else {
                break;
            };
            // SAFETY: a deque gives each word to one thief.
            let task = unsafe { Task::from_word(word) };
            self.own.injectors[level(Priority::Normal)].push(task);
        }
        // Last: it wakes a worker for all of these.
        self.inject(task, device, Priority::Normal);
    }

    #[inline]
    fn has_urgent(&self) -> bool {
        self.urgent.load(Ordering::Relaxed) != 0
    }

    /// Takes a task of this priority that `worker` may run.
    fn take_injected(&self, worker: usize, priority: Priority) -> Option<Task> {
        let deque = &self.deques[worker];
        let level = level(priority);
        let injector = &self.own.injectors[level];
        let guest = worker == self.worker_count;
        let one = priority != Priority::Normal;
        if let Some((task, others)) = injector.take(deque, one) {
            if priority == Priority::High {
                self.urgent.fetch_sub(1, Ordering::Relaxed);
            }
            if deque.len() > 0 {
                self.tell_spinners();
            }
            // A worker sees to the tasks in its own deque. A guest may be gone after this one.
            if others && (one || guest || !injector.is_empty()) {
                self.show_again(&self.own);
            }
            return Some(task);
        }
        if self.elsewhere.load(Ordering::Relaxed) == 0 {
            return None;
        }
        let teams = self.teams.read().unwrap_or_else(PoisonError::into_inner);
        for team in teams.iter().skip(1).flatten() {
            if !guest && !team.workers.contains(worker) {
                continue;
            }
            if let Some((task, others)) = team.injectors[level].take(deque, true) {
                self.elsewhere.fetch_sub(1, Ordering::Relaxed);
                if priority == Priority::High {
                    self.urgent.fetch_sub(1, Ordering::Relaxed);
                }
                if others {
                    self.show_again(team);
                }
                return Some(task);
            }
        }
        None
    }

    /// Called after tasks were put into a deque: a worker may be looking for work.
    #[inline]
    fn tell_spinners(&self) {
        if self.sleep.someone_spins() {
            self.published.change(1);
        }
    }

    /// The same, of an invitation: it is worth coming.
    fn tell_of_invitation(&self) {
        if self.sleep.someone_spins() {
            self.published.change(INVITATION);
        }
    }

    /// True if there is something to do, as far as a glance tells.
    fn has_work(&self) -> bool {
        self.elsewhere.load(Ordering::Relaxed) != 0 || self.has_work_for_all()
    }

    /// True if there is something that every worker may do.
    fn has_work_for_all(&self) -> bool {
        self.own.has_tasks()
            || self.deques.iter().any(|deque| deque.len() > 0)
            || self.invitations.iter().any(Invitation::is_open)
    }

    /// Wakes a worker, unless one looks, after work was added for a device.
    fn wake_for(&self, device: u32) {
        if device == POOL_DEVICE {
            self.wake_in(&self.own);
        } else {
            self.wake_in(&self.team(device));
        }
    }

    fn wake_in(&self, team: &Team) {
        // A spinner may not be of the team; then its sleepers are woken anyway.
        let chosen = if team.range.len() == self.worker_count {
            self.sleep.wake_one(&team.workers)
        } else {
            fence(Ordering::SeqCst);
            self.sleep.choose(&team.workers)
        };
        if let Some(worker) = chosen {
            self.threads.unpark(worker);
        }
    }

    /// Wakes a worker, unless one looks or is being woken, after a thread has put tasks into a
    /// deque, and before it goes on with a user's code.
    fn wake_unless_somebody_looks(&self) {
        let chosen = self.sleep.wake_unless_somebody_looks(&self.own.workers);
        self.tell_spinners();
        if let Some(worker) = chosen {
            self.threads.unpark(worker);
        }
    }

    /// Wakes up to so many workers, even if others look for work already.
    fn wake_more(&self, count: usize) {
        fence(Ordering::SeqCst);
        for _ in 0..count {
            let Some(worker) = self.sleep.choose(&self.own.workers) else {
                return;
            };
            self.threads.unpark(worker);
        }
    }

    /// Called after tasks of a team were out of sight and are back. Treats them as if they had just
    /// been handed in, but for workers that are about to look anyway.
    #[cold]
    fn show_again(&self, team: &Team) {
        fence(Ordering::SeqCst);
        if team.range.len() < self.worker_count || self.sleep.looking() == 0 {
            self.wake_in(team);
        }
    }

    /// Called after a worker has stopped looking for work: wakes another for the tasks that it
    /// leaves. Perhaps no worker was woken for tasks of all workers while one looked; `is_last`
    /// says that none looks any more. For tasks of a sub-device this worker may have been woken
    /// itself, whether or not others look.
    fn pass_on_wake(&self, worker: usize, is_last: bool) {
        if is_last && self.has_work_for_all() {
            self.wake_in(&self.own);
        }
        if self.elsewhere.load(Ordering::Relaxed) != 0 {
            let teams = self.teams.read().unwrap_or_else(PoisonError::into_inner);
            let teams = teams.iter().skip(1).flatten();
            for team in teams.filter(|team| team.workers.contains(worker) && team.has_tasks()) {
                self.wake_in(team);
            }
        }
    }

    fn is_ending(&self) -> bool {
        self.ending.load(Ordering::SeqCst)
    }

    /// True of the deque of the only worker: a guest helps while that sleeps, and then there is
    /// nothing in it.
    #[inline]
    fn is_unshared(&self, deque: usize) -> bool {
        self.worker_count == 1 && deque == 0
    }

    /// True if every worker sleeps and nothing is left for them.
    pub(crate) fn is_idle(&self) -> bool {
        self.sleep.asleep() == *lock(&self.started) && !self.has_work()
    }

    /// True if every worker sleeps or has only just been woken.
    fn nobody_is_awake(&self) -> bool {
        self.sleep.asleep_or_waking() >= self.worker_count
    }

    /// Returns when the waiter is done; helps meanwhile where that is quicker.
    pub(crate) fn join(self: &Arc<Self>, waiter: &Waiter<'_>) -> error::Result<()> {
        let inside = Worker::current(self, |worker| {
            worker.map(|worker| worker.wait_inside(waiter))
        });
        if let Some(result) = inside {
            return result;
        }
        // A guest that reads a user's clock could block with tasks at hand.
        if self.nobody_is_awake()
            && !waiter.has_users_clock()
            && !self.guest.swap(true, Ordering::Acquire)
        {
            // Kernels have the same arithmetic here as on the pool's own threads.
            let _usual = UsualArithmetic::enter();
            let costs = lock(&self.guests_costs).take();
            let guest = Worker::guest(self.clone(), costs.unwrap_or_default());
            *lock(&self.guests_costs) = Some(guest.help(waiter));
            self.guest.store(false, Ordering::Release);
        }
        if waiter.is_done() {
            return Ok(());
        }
        if self.sleep.looking() > 0 || !self.nobody_is_awake() {
            waiter.sleep();
        } else {
            // A thread that has just woken another must not keep its core busy.
            waiter.park();
        }
        Ok(())
    }

    /// Has the pool's threads end once they have nothing to do, and waits for none of them.
    pub(crate) fn end(&self) {
        self.ending.store(true, Ordering::SeqCst);
        fence(Ordering::SeqCst);
        // More often than there are workers: one that is awake may be chosen
        // again, in the moment in which it looks whether the pool ends.
        self.wake_more(usize::MAX);
        self.dismiss();
    }
}
