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
use quipu_core::event::Waiter;
use quipu_core::operation::Operation;
use quipu_core::queue::route_to;
use quipu_core::{Command, EventId, Kind, Priority, RawArgument};
use std::cell::Cell;
use std::mem::ManuallyDrop;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
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
/// How long a worker looks for work before it sleeps.
const SPIN: Duration = Duration::from_micros(20);

thread_local! {
    static CURRENT: Cell<*const Worker> = const { Cell::new(std::ptr::null()) };
}

/// A command that a thread is inside of, and the one around it. On the stack of
/// whoever runs it.
struct Frame {
    id: EventId,
    outer: *const Frame,
}

pub(crate) struct Worker {
    pool: Arc<Pool>,
    index: usize,
    /// The route of commands that this worker runs next itself.
    route: u64,
    next: Cell<u64>,
    chain: Cell<u32>,
    costs: Costs,
    /// Commands of one group until the next is measured.
    sample: Cell<u32>,
    /// Tasks put into the deque since a command began to release others.
    offered: Cell<u32>,
    /// True if the deque holds long tasks, oldest first.
    oldest_first: Cell<bool>,
    /// Estimated work done while the deque was never empty.
    backlog_ns: Cell<u64>,
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
        if begin {
            self.0.offered.set(0);
        } else if self.0.offered.get() > 0 {
            self.0.settle_order();
        }
    }
}

impl Worker {
    pub(crate) fn new(pool: Arc<Pool>, index: usize) -> Self {
        Self {
            route: pool.route,
            pool,
            index,
            next: Cell::new(0),
            chain: Cell::new(0),
            costs: Costs::new(),
            sample: Cell::new(0),
            offered: Cell::new(0),
            oldest_first: Cell::new(false),
            backlog_ns: Cell::new(0),
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

    /// A pool thread's life.
    pub(crate) fn run(self) {
        CURRENT.set(&raw const self);
        while let Some(task) = self.take().or_else(|| self.idle()) {
            self.perform(task);
        }
        CURRENT.set(std::ptr::null());
        slab::flush();
    }

    /// Helps as a guest until the waiter is done, nothing is to be had, or a
    /// worker is awake to do it.
    pub(crate) fn help(self, waiter: &Waiter<'_>) {
        let outer = CURRENT.replace(&raw const self);
        while !waiter.is_done() && self.pool.nobody_is_awake() {
            let Some(task) = self.take().or_else(|| self.search()) else {
                break;
            };
            self.perform(task);
        }
        CURRENT.set(outer);
        // What is left goes to where everyone can get at it.
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
        slab::flush();
    }

    /// Takes a command that has become ready, if it is this pool's.
    #[inline]
    fn accept(&self, command: Command) -> Option<Command> {
        if command.route() == self.route {
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
        if command.needs_no_device() {
            // Any thread can end it; this one is at hand.
            self.make_next(Task::command_word(command));
        } else if route_to(owner) != self.pool.route {
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
            self.offer(before);
            self.offered.set(self.offered.get() + 1);
        }
    }

    /// After a command has released several: they lie in the deque so that this
    /// worker takes them in the order of their enqueue, which is that of their
    /// memory, and thieves from the other end. For long tasks it matters more
    /// that both take them in that order, the order that their user chose.
    #[cold]
    fn settle_order(&self) {
        let count = self.offered.replace(0) as usize;
        let next = self.next.get();
        if count > MOST_ORDERED || next == 0 || next & 1 != 0 {
            return;
        }
        // Looked at, not taken: a command that is ours.
        let task = ManuallyDrop::new(Task::from_word(next));
        let Task::Command(command) = &*task else {
            return;
        };
        let cost = self.costs.estimate(command.body_key(), command.groups());
        if cost.is_none_or(|cost| cost < LONG_NS) {
            return;
        }
        let mut words = [0; MOST_ORDERED];
        let mut taken = 0;
        while taken < count {
            let Some(word) = self.deque().pop() else {
                break;
            };
            words[taken] = word;
            taken += 1;
        }
        for word in &words[..taken] {
            self.offer(*word);
        }
        self.oldest_first.set(true);
    }

    /// Puts a task where thieves can take it.
    #[inline]
    fn offer(&self, word: u64) {
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
            && let Some(task) = self.pool.take_injected(self.index, Priority::High)
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
                self.backlog_ns.set(0);
                None
            }
        }
    }

    /// A long chain: what waits for longest goes first, once.
    #[cold]
    fn give_others_a_turn(&self, next: u64) -> Task {
        let other = self
            .pool
            .take_injected(self.index, Priority::Normal)
            .or_else(|| match self.deque().steal() {
                Steal::Item(word) => Some(Task::from_word(word)),
                _ => None,
            });
        match other {
            Some(other) => {
                self.offer(next);
                other
            }
            None => Task::from_word(next),
        }
    }

    /// Looks everywhere.
    fn search(&self) -> Option<Task> {
        for priority in [Priority::High, Priority::Normal] {
            if let Some(task) = self.pool.take_injected(self.index, priority) {
                return Some(task);
            }
        }
        if let Some(task) = self.steal() {
            return Some(task);
        }
        self.pool.take_injected(self.index, Priority::Low)
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
                        return Some(Task::from_word(word));
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
            let start = Instant::now();
            loop {
                for _ in 0..8 {
                    if let Some(task) = self.search() {
                        if sleep.stop_spinning() {
                            self.pool.pass_on_wake();
                        }
                        return Some(task);
                    }
                    for _ in 0..4 {
                        std::hint::spin_loop();
                    }
                }
                if start.elapsed() >= SPIN || self.pool.is_ending() {
                    break;
                }
            }
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
            while !sleep.is_chosen(self.index) {
                std::thread::park();
            }
            sleep.awake();
        }
    }

    /// Waits inside a task: helps with other work meanwhile.
    pub(crate) fn wait_inside(&self, waiter: &Waiter<'_>) -> Result<(), Error> {
        let mut frame = self.running.get();
        // SAFETY: frames live while they are linked here.
        while let Some(around) = unsafe { frame.as_ref() } {
            if waiter.needs(around.id) {
                return Err(ErrorKind::WouldDeadlock {
                    why: "a task waits for itself, or for what comes after it in its in-order \
                          queue; use an out-of-order queue, or return before you wait",
                }
                .into());
            }
            frame = around.outer;
        }
        let sleep = &self.pool.sleep;
        while !waiter.is_done() && !waiter.is_late() {
            if let Some(task) = self.take().or_else(|| self.search()) {
                self.perform(task);
                continue;
            }
            sleep.start_spinning();
            let start = Instant::now();
            let mut found = None;
            while found.is_none() && !waiter.is_done() && start.elapsed() < SPIN {
                found = self.search();
                std::hint::spin_loop();
            }
            if let Some(task) = found {
                sleep.leave_spinning();
                self.perform(task);
                continue;
            }
            slab::flush();
            // Asleep, yet to be woken for new work as well as by the end of
            // what is waited for. A guest is not among those who are woken for
            // work: the workers are.
            let armed = waiter.arm();
            let guest = self.index == self.pool.worker_count;
            if guest {
                sleep.leave_spinning();
            } else {
                sleep.announce(self.index);
            }
            let found = self.search();
            if let (None, Some(armed)) = (&found, &armed) {
                while (guest || !sleep.is_chosen(self.index))
                    && !armed.is_done()
                    && !waiter.is_late()
                {
                    waiter.nap();
                }
            }
            if !guest && !sleep.retract(self.index) && found.is_none() {
                // Chosen for work: either the next look finds it, or, if this
                // was the end of the wait, somebody else has to.
                if waiter.is_done() {
                    self.pool.pass_on_wake();
                }
            }
            drop(armed);
            if let Some(task) = found {
                self.perform(task);
            }
        }
        Ok(())
    }

    #[inline]
    fn perform(&self, task: Task) {
        match task {
            Task::Command(command) => self.execute(command),
            Task::Ticket(ticket) => self.participate(&ticket.split),
        }
    }

    #[inline]
    fn execute(&self, command: Command) {
        command.prefetch_following();
        if let Err(error) = command.start_on(self.index as u32) {
            command.finish(Err(error), &mut Local(self));
            return;
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
        let mut arguments = [RawArgument {
            pointer: std::ptr::null_mut(),
            length: 0,
        }; FEW];
        let count = packed.len();
        for (resolved, argument) in arguments.iter_mut().zip(packed) {
            match argument.on_host() {
                Ok(raw) => *resolved = raw,
                Err(error) => {
                    command.finish(Err(error), &mut Local(self));
                    return;
                }
            }
        }
        if self.deque().len() > 0 {
            self.consider_waking(command.body_key(), 1);
        }
        let sample = self.sample.get();
        let result = if sample == 0 {
            self.measured(&command, &arguments[..count])
        } else {
            self.sample.set(sample - 1);
            self.contain(&command, &arguments[..count], 0..1)
        };
        command.finish(result, &mut Local(self));
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
        if self.deque().len() > 0 {
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
            if split.device == POOL_DEVICE {
                self.offer(ticket.into_word());
            } else {
                self.pool.inject(ticket, split.device, Priority::Normal);
            }
        }
        if tickets > 0 && split.device == POOL_DEVICE {
            self.pool.wake_for(POOL_DEVICE);
        }
    }

    /// Works on a shared launch until nothing is left to claim.
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

    /// Everything but launches.
    fn run_other(&self, command: Command) {
        let mut arguments = Arguments::new();
        if self.deque().len() > 0 {
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
            id: command.id(),
            outer: self.running.get(),
        };
        self.running.set(&raw const frame);
        // SAFETY: the command was started; its arguments are resolved, hazards
        // keep others away, and each group is claimed once.
        let outcome = catch_unwind(AssertUnwindSafe(|| unsafe {
            command.run_native(arguments, groups)
        }));
        self.running.set(frame.outer);
        outcome.unwrap_or_else(|panic| Err(panicked(command, &*panic)))
    }

    /// Before running a command while others lie in the deque: wakes another
    /// worker if that pays.
    #[inline]
    fn consider_waking(&self, body: usize, groups: u32) {
        let sleep = &self.pool.sleep;
        if !sleep.someone_sleeps() || sleep.someone_looks() {
            return;
        }
        let cost = self
            .costs
            .estimate(body, groups)
            .unwrap_or(WORTH_SHARING_NS);
        let surplus = self.deque().len() as u64;
        let backlog = self.backlog_ns.get().saturating_add(cost);
        self.backlog_ns.set(backlog);
        if surplus.saturating_mul(cost) >= WORTH_SHARING_NS || backlog >= WORTH_SHARING_NS {
            self.backlog_ns.set(0);
            self.pool.wake_for(POOL_DEVICE);
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
pub(crate) fn panicked(command: &Command, panic: &(dyn std::any::Any + Send)) -> Error {
    let message = panic
        .downcast_ref::<&str>()
        .map(|message| (*message).to_owned())
        .or_else(|| panic.downcast_ref::<String>().cloned())
        .unwrap_or_else(|| "a panic without a message".to_owned());
    ErrorKind::Panicked {
        what: format!("'{}'", command.label()),
        message,
    }
    .into()
}
