//! A worker: one thread of the pool, or a host thread that helps while it
//! waits (a *guest*).
//!
//! What a worker does next, in this order:
//!
//! 1. high-priority commands that anyone may take;
//! 2. the command that the one it has just ended made ready (*run next*): a
//!    chain never changes threads; after 64 in a row others get a turn;
//! 3. its own deque, last in first out;
//! 4. what was handed in from outside, then other workers' deques;
//! 5. low-priority commands.

use super::cost::{CHUNK_NS, Costs, Measurement, WORTH_SHARING_NS};
use super::deque::{Deque, Steal};
use super::split::{Arguments, Split};
use super::{POOL_DEVICE, Pool, Task};
use quipu_core::command::{ReadySink, slab};
use quipu_core::error::{Error, ErrorKind};
use quipu_core::event::{Waiter, replace_joiner};
use quipu_core::operation::{Operation, drop_panic};
use quipu_core::queue::route_to;
use quipu_core::{Command, Kind, Priority, RawArgument};
use std::cell::{Cell, RefCell};
use std::mem::{ManuallyDrop, MaybeUninit};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// Commands in a chain after which others get a turn.
const CHAIN: u32 = 64;
/// Tasks of this length are worth the trouble of ordering them.
const LONG_NS: u64 = 2_000;
/// The most tasks that are put in order.
const MOST_ORDERED: usize = 256;
/// The most tickets to one launch.
const MOST_TICKETS: usize = 64;
/// Arguments that need no list.
const FEW: usize = 4;
/// Of commands of one group, one in so many is measured.
const SAMPLE: u32 = 31;
/// How long a worker looks for work before it sleeps, at first: about what it
/// takes to wake it.
const SPIN: Duration = Duration::from_micros(20);
/// How long it does at most, after it was woken soon after it fell asleep.
const LONGEST_SPIN: Duration = Duration::from_micros(160);
/// Workers that are woken before a command is run: each costs the waker some
/// microseconds, and those who are awake wake others.
const WAKES_AT_ONCE: u64 = 3;
/// Pauses between two looks for work, at least and at most. One takes some tens
/// of nanoseconds.
const PAUSES: std::ops::RangeInclusive<u32> = 4..=32;
/// A stream of commands from outside is taken in bursts of this many.
const BURST: u32 = 16;
/// One in so many looks for work is into every deque and injector, also of what
/// nobody told of or another worker attends to.
const LOOK_EVERYWHERE: u32 = 16;

thread_local! {
    static CURRENT: Cell<*const Worker> = const { Cell::new(std::ptr::null()) };
}

/// How a thread waits that is, or was, a worker.
fn join_on_worker(waiter: &Waiter<'_>) -> Result<(), Error> {
    // SAFETY: set only while the worker lives on this thread.
    match unsafe { CURRENT.get().as_ref() } {
        Some(worker) => worker.wait_inside(waiter),
        None => {
            waiter.sleep();
            Ok(())
        }
    }
}

/// The route of no command.
const NO_ROUTE: u64 = 0;

/// A command that a thread is inside of, and the one around it. On the stack of
/// whoever runs it.
struct Frame {
    command: *const Command,
    outer: *const Frame,
}

pub(crate) struct Worker {
    pool: Arc<Pool>,
    index: usize,
    /// The thread, as traces show it.
    lane: u32,
    /// The route of commands that this worker runs next itself.
    route: Cell<u64>,
    next: Cell<u64>,
    chain: Cell<u32>,
    costs: Costs,
    /// Commands of one group until the next is measured.
    sample: Cell<u32>,
    /// True while the dependants of one command are gone through.
    gathering: Cell<bool>,
    /// Those that are ready, newest first; not yet in the deque.
    gathered: RefCell<Vec<u64>>,
    /// True if the deque holds long tasks, oldest first.
    oldest_first: Cell<bool>,
    /// False if the deque is known to be empty.
    has_surplus: Cell<bool>,
    /// Estimated work done while the deque was never empty.
    backlog_ns: Cell<u64>,
    /// Tasks since there was nothing to do.
    burst: Cell<u32>,
    /// See [`Worker::pauses_after`].
    pauses: Cell<u32>,
    /// How long it looks for work before it sleeps.
    patience: Cell<Duration>,
    /// The command that this thread is inside of, innermost.
    running: Cell<*const Frame>,
    victim: Cell<usize>,
}

/// Sends what becomes ready to the worker that made it so.
struct Local<'a>(&'a Worker);

impl ReadySink for Local<'_> {
    #[inline]
    fn accept(&mut self, command: Command) -> Option<Command> {
        self.0.accept(command)
    }

    #[inline]
    fn gather(&mut self, begin: bool) {
        self.0.gathering.set(begin);
        if !begin {
            self.0.publish_gathered();
        }
    }
}

impl Worker {
    pub(crate) fn new(pool: Arc<Pool>, index: usize, lane: u32) -> Self {
        Self {
            route: Cell::new(pool.route),
            pool,
            index,
            lane,
            next: Cell::new(0),
            chain: Cell::new(0),
            costs: Costs::new(),
            sample: Cell::new(0),
            gathering: Cell::new(false),
            gathered: RefCell::new(Vec::new()),
            oldest_first: Cell::new(false),
            has_surplus: Cell::new(false),
            backlog_ns: Cell::new(0),
            burst: Cell::new(0),
            pauses: Cell::new(*PAUSES.start()),
            patience: Cell::new(SPIN),
            running: Cell::new(std::ptr::null()),
            victim: Cell::new(index),
        }
    }

    /// Calls `with` with this thread's worker of `pool`, if it is one.
    #[inline]
    pub(crate) fn current<R>(pool: &Pool, with: impl FnOnce(Option<&Worker>) -> R) -> R {
        let pointer = CURRENT.get();
        // SAFETY: set only while the worker lives on this thread.
        let worker = unsafe { pointer.as_ref() };
        with(worker.filter(|worker| std::ptr::eq(&raw const *worker.pool, pool)))
    }

    fn deque(&self) -> &Deque {
        &self.pool.deques[self.index]
    }

    /// What a thread does while it is this worker: until the pool ends, or the
    /// role was given away.
    pub(crate) fn run(self) {
        CURRENT.set(&raw const self);
        let joiner = replace_joiner(Some(join_on_worker));
        while self.has_role() {
            let Some(task) = self.take().or_else(|| self.idle()) else {
                break;
            };
            self.perform(task);
        }
        replace_joiner(joiner);
        CURRENT.set(std::ptr::null());
        slab::flush();
    }

    /// False once the role was given away, because a command waits.
    fn has_role(&self) -> bool {
        self.route.get() != NO_ROUTE
    }

    /// Helps as a guest until the waiter is done, nothing is to be had, or a
    /// worker is awake to do it.
    pub(crate) fn help(self, waiter: &Waiter<'_>) {
        let outer = CURRENT.replace(&raw const self);
        let joiner = replace_joiner(Some(join_on_worker));
        while self.has_role() && !waiter.is_done() && self.pool.nobody_is_awake() {
            let Some(task) = self.take().or_else(|| self.search()) else {
                break;
            };
            if task.may_wait() {
                // For what this thread does after its own wait, perhaps.
                let device = task.device();
                self.pool.inject(task, device, Priority::Normal);
                break;
            }
            self.perform(task);
        }
        replace_joiner(joiner);
        CURRENT.set(outer);
        if self.has_role() {
            self.leave_nothing();
        }
        slab::flush();
    }

    /// What is at hand goes to where everyone can get at it.
    fn leave_nothing(&self) {
        let mut left = self.next.take();
        loop {
            if left == 0 {
                left = self.deque().pop().unwrap_or(0);
            }
            if left == 0 {
                break;
            }
            let task = Task::from_word(std::mem::take(&mut left));
            let device = task.device();
            self.pool.inject(task, device, Priority::Normal);
        }
    }

    /// Takes a command that has become ready, if it is this pool's.
    #[inline]
    fn accept(&self, command: Command) -> Option<Command> {
        if command.route() == self.route.get() {
            self.make_next(Task::command_word(command));
            return None;
        }
        self.accept_other(command)
    }

    /// A command of another driver, device or priority, or of none.
    #[cold]
    fn accept_other(&self, command: Command) -> Option<Command> {
        let queue = command.queue();
        let (owner, device) = queue.owner();
        let priority = queue.priority();
        let any_thread = command.needs_no_device();
        if any_thread && self.has_role() {
            // This one is at hand.
            self.make_next(Task::command_word(command));
        } else if any_thread || route_to(owner) != self.pool.route {
            return Some(command);
        } else {
            self.pool.inject(Task::Command(command), device, priority);
        }
        None
    }

    /// Takes a command that is this pool's.
    pub(crate) fn push(&self, command: Command) {
        if let Some(command) = self.accept(command) {
            // Not ours after all: cannot be, but nothing is lost.
            let device = command.queue().owner().1;
            self.pool
                .inject(Task::Command(command), device, Priority::Normal);
        }
    }

    /// The newest is run next; what was to be goes to the deque.
    #[inline]
    fn make_next(&self, word: u64) {
        let before = self.next.replace(word);
        if before != 0 {
            self.displace(before);
        }
    }

    fn displace(&self, word: u64) {
        if !self.gathering.get() {
            self.offer(word);
            return self.pool.tell_spinners();
        }
        let mut gathered = self.gathered.borrow_mut();
        if gathered.len() == MOST_ORDERED {
            for word in gathered.drain(..) {
                self.offer(word);
            }
            self.pool.tell_spinners();
        }
        gathered.push(word);
    }

    /// After a command has released several, newest first, of which the oldest
    /// is run next: puts the others into the deque, so that this worker takes
    /// them in the order of their enqueue, which is that of their memory, and
    /// thieves from the other end. Of long tasks it matters more that thieves
    /// too take them in the order that their user chose.
    #[cold]
    fn publish_gathered(&self) {
        let mut gathered = self.gathered.borrow_mut();
        if gathered.is_empty() {
            return;
        }
        if self.next_is_long() {
            for word in gathered.drain(..).rev() {
                self.offer(word);
            }
            self.oldest_first.set(true);
        } else {
            for word in gathered.drain(..) {
                self.offer(word);
            }
        }
        self.pool.tell_spinners();
    }

    /// True if what is run next is known to take long.
    fn next_is_long(&self) -> bool {
        let next = self.next.get();
        if next == 0 || next & 1 != 0 {
            return false;
        }
        // Looked at, not taken: a command that is ours.
        let task = ManuallyDrop::new(Task::from_word(next));
        let Task::Command(command) = &*task else {
            return false;
        };
        let cost = self.costs.estimate(command.body_key(), command.groups());
        cost.is_some_and(|cost| cost >= LONG_NS)
    }

    /// Puts a task where thieves can take it.
    #[inline]
    fn offer(&self, word: u64) {
        self.has_surplus.set(true);
        if !self.deque().push(word) {
            let task = Task::from_word(word);
            let device = task.device();
            self.pool.spill(task, device, self.deque());
        }
    }

    /// The next task that is at hand.
    #[inline]
    fn take(&self) -> Option<Task> {
        if self.pool.has_urgent()
            && let Some(task) = self.take_injected(Priority::High)
        {
            return Some(task);
        }
        let next = self.next.take();
        if next != 0 {
            let chain = self.chain.get() + 1;
            if chain < CHAIN {
                self.chain.set(chain);
                return Some(Task::from_word(next));
            }
            self.chain.set(0);
            return Some(self.give_others_a_turn(next));
        }
        self.chain.set(0);
        if self.oldest_first.get() {
            match self.deque().steal() {
                Steal::Item(word) => return Some(Task::from_word(word)),
                Steal::Retry => {}
                Steal::Empty => self.oldest_first.set(false),
            }
        }
        match self.deque().pop() {
            Some(word) => Some(Task::from_word(word)),
            None => {
                self.has_surplus.set(false);
                self.backlog_ns.set(0);
                None
            }
        }
    }

    /// A long chain: what waits for longest goes first, once.
    #[cold]
    fn give_others_a_turn(&self, next: u64) -> Task {
        let other = self
            .take_injected(Priority::Normal)
            .or_else(|| match self.deque().steal() {
                Steal::Item(word) => Some(Task::from_word(word)),
                _ => None,
            });
        match other {
            Some(other) => {
                self.offer(next);
                self.pool.tell_spinners();
                other
            }
            None => Task::from_word(next),
        }
    }

    /// Looks everywhere.
    fn search(&self) -> Option<Task> {
        self.take_from_outside()
            .or_else(|| self.steal())
            .or_else(|| self.take_injected(Priority::Low))
    }

    /// Takes a task that was handed in; others may come along into the deque.
    fn take_injected(&self, priority: Priority) -> Option<Task> {
        let task = self.pool.take_injected(self.index, priority)?;
        self.has_surplus.set(true);
        Some(task)
    }

    /// Looks at what was handed in.
    fn take_from_outside(&self) -> Option<Task> {
        [Priority::High, Priority::Normal]
            .into_iter()
            .find_map(|priority| self.take_injected(priority))
    }

    /// Looks for work, again and again, for as long as this worker's patience.
    fn spin(&self) -> Option<Task> {
        let attendant = &self.pool.attendant.0;
        let me = self.index + 1;
        let pauses = self.pauses_after(self.burst.take());
        let published = &self.pool.published.0;
        let start = Instant::now();
        let mut looks = 0_u32;
        let mut seen = published.load(Ordering::Acquire);
        loop {
            for _ in 0..8 {
                let now = published.load(Ordering::Acquire);
                let other = attendant.load(Ordering::Relaxed);
                let found = if now != seen || looks.is_multiple_of(LOOK_EVERYWHERE) {
                    seen = now;
                    self.search()
                } else if other == 0 || other == me {
                    self.take_from_outside()
                } else {
                    None
                };
                looks = looks.wrapping_add(1);
                if found.is_some() {
                    return found;
                }
                for _ in 0..pauses {
                    std::hint::spin_loop();
                }
            }
            if start.elapsed() >= self.patience.get() || self.pool.is_ending() {
                return None;
            }
        }
    }

    /// How long to pause between two looks, after so many commands since the
    /// last time that there was nothing to do. A thread that enqueues short
    /// commands one after another pays for each that is taken singly with cache
    /// lines that travel, so the pause grows until they come in bursts.
    fn pauses_after(&self, burst: u32) -> u32 {
        let attendant = &self.pool.attendant.0;
        let me = self.index + 1;
        let pauses = match burst {
            0 | 1 => self.pauses.get() / 2,
            2..BURST => self.pauses.get() * 2,
            _ => self.pauses.get(),
        };
        let pauses = pauses.clamp(*PAUSES.start(), *PAUSES.end());
        self.pauses.set(pauses);
        let attends = attendant.load(Ordering::Relaxed) == me;
        let streams = pauses > *PAUSES.start();
        if streams != attends {
            let _ = attendant.compare_exchange(
                if streams { 0 } else { me },
                if streams { me } else { 0 },
                Ordering::Relaxed,
                Ordering::Relaxed,
            );
        }
        pauses
    }

    /// Another worker may attend to what comes from outside.
    fn stop_attending(&self) {
        let attendant = &self.pool.attendant.0;
        if attendant.load(Ordering::Relaxed) == self.index + 1 {
            attendant.store(0, Ordering::Relaxed);
        }
        self.pauses.set(*PAUSES.start());
    }

    fn steal(&self) -> Option<Task> {
        let deques = &self.pool.deques;
        let start = self.victim.get();
        for step in 0..deques.len() {
            let victim = (start + step) % deques.len();
            if victim == self.index {
                continue;
            }
            loop {
                match deques[victim].steal() {
                    Steal::Empty => break,
                    Steal::Retry => std::hint::spin_loop(),
                    Steal::Item(word) => {
                        self.victim.set(victim);
                        let task = Task::from_word(word);
                        self.consider_waking_for_victim(victim, &task);
                        return Some(task);
                    }
                }
            }
        }
        None
    }

    /// Spins, then sleeps, until there is work; `None` when the pool ends.
    #[cold]
    fn idle(&self) -> Option<Task> {
        let sleep = &self.pool.sleep;
        loop {
            sleep.start_spinning();
            if let Some(task) = self.spin() {
                if sleep.stop_spinning() {
                    self.pool.pass_on_wake();
                }
                return Some(task);
            }
            self.stop_attending();
            slab::flush();
            sleep.announce(self.index);
            if let Some(task) = self.search() {
                if !sleep.retract(self.index) {
                    self.pool.pass_on_wake();
                }
                return Some(task);
            }
            if self.pool.is_ending() {
                sleep.retract(self.index);
                return None;
            }
            let asleep = Instant::now();
            while !sleep.is_chosen(self.index) {
                std::thread::park();
            }
            self.learn_patience(asleep.elapsed());
            sleep.awake();
        }
    }

    /// Woken so soon, it would better have waited; woken much later, not.
    fn learn_patience(&self, asleep: Duration) {
        if asleep < 2 * LONGEST_SPIN {
            self.patience
                .set((2 * self.patience.get()).min(LONGEST_SPIN));
        } else {
            self.patience.set(SPIN);
        }
    }

    /// Waits inside a task. If there is something to do meanwhile, another thread
    /// becomes this worker.
    pub(crate) fn wait_inside(&self, waiter: &Waiter<'_>) -> Result<(), Error> {
        let mut frame = self.running.get();
        // SAFETY: frames live while they are linked here.
        while let Some(around) = unsafe { frame.as_ref() } {
            // SAFETY: a frame lives inside of its command's run.
            if waiter.needs(unsafe { (*around.command).id() }) {
                return Err(ErrorKind::WouldDeadlock {
                    why: "a task waits for itself, or for what comes after it in its in-order \
                          queue; use an out-of-order queue, or return before you wait",
                }
                .into());
            }
            frame = around.outer;
        }
        if self.has_role() {
            if self.waits_idle(waiter) {
                return Ok(());
            }
            self.give_role_away()?;
        }
        waiter.sleep();
        Ok(())
    }

    /// Waits for as long as there is nothing else to do; true if the wait is
    /// over.
    fn waits_idle(&self, waiter: &Waiter<'_>) -> bool {
        if self.is_guest() || self.next.get() != 0 || self.deque().len() > 0 {
            return waiter.is_done();
        }
        let sleep = &self.pool.sleep;
        let over = || waiter.is_done() || waiter.is_late();
        sleep.start_spinning();
        let start = Instant::now();
        while start.elapsed() < SPIN {
            let over = over();
            if over || self.pool.has_work() {
                if sleep.stop_spinning() {
                    self.pool.pass_on_wake();
                }
                return over;
            }
            for _ in 0..*PAUSES.start() {
                std::hint::spin_loop();
            }
        }
        slab::flush();
        let Some(armed) = waiter.arm() else {
            sleep.leave_spinning();
            return true;
        };
        // Asleep, and to be woken for new work as well as by the end of what is
        // waited for.
        sleep.announce(self.index);
        let mut has_work = self.pool.has_work();
        while !has_work && !sleep.is_chosen(self.index) && !armed.is_done() && !waiter.is_late() {
            waiter.nap();
            has_work = self.pool.has_work();
        }
        let chosen = !sleep.retract(self.index);
        if over() {
            if chosen {
                self.pool.pass_on_wake();
            }
            return true;
        }
        false
    }

    /// Has another thread be this worker: this one's command waits.
    fn give_role_away(&self) -> Result<(), Error> {
        if self.is_guest() {
            self.leave_nothing();
        } else {
            let next = self.next.take();
            if next != 0 {
                self.offer(next);
            }
            self.pool.engage(self.index)?;
        }
        self.route.set(NO_ROUTE);
        Ok(())
    }

    fn is_guest(&self) -> bool {
        self.index == self.pool.worker_count
    }

    #[inline]
    fn perform(&self, task: Task) {
        self.burst.set(self.burst.get().wrapping_add(1));
        match task {
            Task::Command(command) => self.execute(command),
            Task::Ticket(ticket) => self.participate(&ticket.split),
        }
    }

    #[inline]
    fn execute(&self, command: Command) {
        // Of a stream that has only just begun, the next is still being written.
        if self.burst.get() >= BURST {
            command.prefetch_following();
        }
        if let Err(error) = command.start_on(self.lane) {
            return self.refuse(command, error);
        }
        if command.kind() == Kind::Launch {
            self.launch(command);
        } else {
            self.run_other(command);
        }
    }

    #[inline]
    fn launch(&self, command: Command) {
        let packed = command.arguments();
        if command.groups() != 1 || packed.len() > FEW {
            self.launch_large(command);
            return;
        }
        // The usual small command: no allocation, no list, one group.
        let mut arguments = [const { MaybeUninit::<RawArgument>::uninit() }; FEW];
        let count = packed.len();
        for (resolved, argument) in arguments.iter_mut().zip(packed) {
            match argument.on_host() {
                Ok(raw) => resolved.write(raw),
                Err(error) => return self.refuse(command, error),
            };
        }
        // SAFETY: so many were just written.
        let arguments = unsafe { arguments[..count].assume_init_ref() };
        if self.has_surplus.get() {
            self.consider_waking(command.body_key(), 1);
        }
        let sample = self.sample.get();
        let result = if sample == 0 {
            self.measured(&command, arguments)
        } else {
            self.sample.set(sample - 1);
            self.contain(&command, arguments, 0..1)
        };
        command.finish(result, &mut Local(self));
    }

    /// Ends a command that cannot be run.
    #[cold]
    fn refuse(&self, command: Command, error: Error) {
        command.finish(Err(error), &mut Local(self));
    }

    /// Runs a command of one group and keeps how long it took.
    #[cold]
    fn measured(&self, command: &Command, arguments: &[RawArgument]) -> Result<(), Error> {
        self.sample.set(SAMPLE);
        let body = command.body_key();
        let measurement = Measurement::start();
        let result = self.contain(command, arguments, 0..1);
        self.costs.stop(body, &measurement, 1);
        result
    }

    #[cold]
    fn launch_large(&self, command: Command) {
        let groups = command.groups();
        if groups == 0 {
            command.finish(Ok(()), &mut Local(self));
            return;
        }
        let mut arguments = Arguments::new();
        if let Err(error) = resolve(&command, &mut arguments) {
            command.finish(Err(error), &mut Local(self));
            return;
        }
        let body = command.body_key();
        if self.has_surplus.get() {
            self.consider_waking(body, groups);
        }
        if groups > 1 && self.pool.worker_count > 1 {
            self.launch_groups(command, arguments, groups);
            return;
        }
        let result = self.contain(&command, &arguments, 0..groups);
        command.finish(result, &mut Local(self));
    }

    /// A launch of several groups: whole, if it is short; else shared.
    fn launch_groups(&self, command: Command, arguments: Arguments, groups: u32) {
        let body = command.body_key();
        let mut first = 0;
        if self.costs.estimate(body, groups).is_none()
            && let Some(measurement) = self.costs.start(body)
        {
            // Of unknown cost: one group tells.
            let result = self.contain(&command, &arguments, 0..1);
            self.costs.stop(body, &measurement, 1);
            if result.is_err() {
                command.finish(result, &mut Local(self));
                return;
            }
            first = 1;
        }
        let left = groups - first;
        let estimate = self.costs.estimate(body, left).unwrap_or(u64::MAX);
        let device = command.queue().owner().1;
        let shares = self.pool.workers_of(device);
        if left < 2 || shares < 2 || estimate < WORTH_SHARING_NS {
            let measurement = self.costs.start(body);
            let result = self.contain(&command, &arguments, first..groups);
            if let Some(measurement) = measurement {
                self.costs.stop(body, &measurement, left);
            }
            command.finish(result, &mut Local(self));
            return;
        }
        let least = CHUNK_NS * u64::from(left) / estimate.max(1);
        let split = Split::new(command, arguments, first..groups, shares, least, device);
        self.invite(&split, shares - 1);
        self.participate(&split);
    }

    /// Invites others to a launch: a ticket for each that could have a piece.
    fn invite(&self, split: &Arc<Split>, others: usize) {
        let tickets = others
            .min(split.pieces_left().saturating_sub(1))
            .min(MOST_TICKETS);
        for _ in 0..tickets {
            split.count_ticket();
            let ticket = Task::ticket(split.clone());
            if split.device == POOL_DEVICE && self.has_role() {
                self.offer(ticket.into_word());
            } else {
                self.pool.inject(ticket, split.device, Priority::Normal);
            }
        }
        if tickets > 0 && split.device == POOL_DEVICE {
            self.pool.tell_spinners();
            self.pool.wake_for(POOL_DEVICE);
        }
    }

    /// Works on a shared launch until nothing is left to claim.
    #[inline(never)]
    fn participate(&self, split: &Arc<Split>) {
        let body = split.command().body_key();
        while let Some(groups) = split.claim() {
            let count = groups.end - groups.start;
            let measurement = self.costs.start(body);
            if let Err(error) = self.contain(split.command(), &split.arguments, groups) {
                split.fail(error);
            }
            if let Some(measurement) = measurement {
                self.costs.stop(body, &measurement, count);
            }
        }
        if let Some((command, result)) = split.leave() {
            command.finish(result, &mut Local(self));
        }
    }

    /// Everything but launches. Out of line, as `participate` and `refuse` are: the
    /// frame of the usual small launch stays small.
    #[inline(never)]
    fn run_other(&self, command: Command) {
        let mut arguments = Arguments::new();
        if self.has_surplus.get() {
            self.consider_waking(command.body_key(), 1);
        }
        let result = resolve(&command, &mut arguments).and_then(|()| match command.operation() {
            Operation::Transfer(transfer) => {
                // SAFETY: the arguments were just resolved; hazards keep others
                // away.
                unsafe { transfer.copy(&arguments) };
                Ok(())
            }
            Operation::Fill(fill) => {
                // SAFETY: as above.
                unsafe { fill.fill(arguments[0]) };
                Ok(())
            }
            Operation::HostTask => self.contain(&command, &arguments, 0..1),
            // The host's space is ours: there is nothing to bring.
            _ => Ok(()),
        });
        command.finish(result, &mut Local(self));
    }

    /// Runs a native body; a panic becomes an error.
    #[inline]
    fn contain(
        &self,
        command: &Command,
        arguments: &[RawArgument],
        groups: std::ops::Range<u32>,
    ) -> Result<(), Error> {
        let frame = Frame {
            command,
            outer: self.running.get(),
        };
        self.running.set(&raw const frame);
        // SAFETY: the command was started; its arguments are resolved, hazards
        // keep others away, and each group is claimed once.
        let outcome = catch_unwind(AssertUnwindSafe(|| unsafe {
            command.run_native(arguments, groups)
        }));
        self.running.set(frame.outer);
        outcome.unwrap_or_else(|panic| Err(panicked(command, panic)))
    }

    /// Before running a command while others lie in the deque: wakes as many
    /// workers as that pays for.
    #[inline]
    fn consider_waking(&self, body: usize, groups: u32) {
        let surplus = self.deque().len() as u64;
        if surplus == 0 {
            self.has_surplus.set(false);
            self.backlog_ns.set(0);
        } else if self.pool.sleep.someone_sleeps() {
            self.wake_for_surplus(surplus, self.costs.estimate(body, groups));
        }
    }

    /// After a theft: the victim may have more than those who are awake can do.
    fn consider_waking_for_victim(&self, victim: usize, stolen: &Task) {
        let surplus = self.pool.deques[victim].len() as u64;
        if surplus > 0 && self.pool.sleep.someone_sleeps() {
            let cost = match stolen {
                Task::Command(command) => self.costs.estimate(command.body_key(), command.groups()),
                Task::Ticket(_) => None,
            };
            self.wake_for_surplus(surplus, cost);
        }
    }

    #[cold]
    fn wake_for_surplus(&self, surplus: u64, cost: Option<u64>) {
        let cost = cost.unwrap_or(WORTH_SHARING_NS);
        let backlog = self.backlog_ns.get().saturating_add(cost);
        self.backlog_ns.set(backlog);
        // A worker for each piece of surplus that is worth a wake, and one when
        // there has been a surplus for that long.
        let worth = surplus.saturating_mul(cost) / WORTH_SHARING_NS;
        let wanted = surplus
            .min(worth)
            .max(u64::from(backlog >= WORTH_SHARING_NS));
        let looking = self.pool.sleep.looking() as u64;
        if wanted > looking {
            self.backlog_ns.set(0);
            self.pool
                .wake_more((wanted - looking).min(WAKES_AT_ONCE) as usize);
        }
    }
}

/// The arguments' bytes in the host's memory.
#[inline]
pub(crate) fn resolve(command: &Command, arguments: &mut Arguments) -> Result<(), Error> {
    for argument in command.arguments() {
        arguments.push(argument.on_host()?);
    }
    Ok(())
}

/// The error of a panic.
#[cold]
pub(crate) fn panicked(command: &Command, panic: Box<dyn std::any::Any + Send>) -> Error {
    let message = panic
        .downcast_ref::<&str>()
        .map(|message| (*message).to_owned())
        .or_else(|| panic.downcast_ref::<String>().cloned())
        .unwrap_or_else(|| "a panic without a message".to_owned());
    drop_panic(panic);
    ErrorKind::Panicked {
        what: format!("'{}'", command.label()),
        message,
    }
    .into()
}
