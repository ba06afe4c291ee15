//! A worker: one thread of the pool, or a host thread that helps while it
//! waits (a *guest*).
//!
//! What a worker does next, in this order:
//!
//! 1. high-priority commands that anyone may take;
//! 2. the command that the one it has just ended made ready (*run next*): a
//!    chain never changes threads; after 64 in a row others get a turn;
//! 3. the long commands that became ready together and that it shares with others,
//!    and its own deque, last in first out;
//! 4. what was handed in from outside, then what others share and their deques;
//! 5. low-priority commands.
//!
//! | file | what |
//! |---|---|
//! | this one | the next command: run next, the deque, what is released and in which order |
//! | `idle` | looking for work, sleeping without any, waking others |
//! | `execute` | running a command |
//! | `wait` | commands that wait for others |
//! | `lent` | a thread that runs brief commands of its own enqueueing |

mod execute;
mod idle;
mod lent;
mod wait;

use super::cost::Costs;
use super::deque::{Deque, Steal};
use super::shelf::Habit;
use super::{Pool, Task};
use quipu_core::command::{ReadySink, ToDrivers, slab};
use quipu_core::event::{Waiter, replace_joiner};
use quipu_core::queue::route_to;
use quipu_core::{Command, Priority};
use std::cell::{Cell, RefCell};
use std::mem::ManuallyDrop;
use std::sync::Arc;
use std::time::Duration;
use wait::join_on_worker;

pub(crate) use execute::{panicked, resolve};
pub(crate) use lent::Lent;

/// Commands in a chain after which others get a turn.
const CHAIN: u32 = 64;
/// Tasks of this length are worth the trouble of ordering them.
const LONG_NS: u64 = 2_000;
/// So many long tasks that become ready together with one that could be run next are shared, and that one with them. Of fewer it is
/// mostly what goes on with the data at hand.
const MANY_OTHERS: usize = 2;
/// The most tasks that are put in order.
const MOST_ORDERED: usize = 256;
/// How long a worker looks for work before it sleeps, at first: about what it
/// takes to wake it.
const SPIN: Duration = Duration::from_micros(20);
/// Pauses between two looks for work, at least and at most. One takes some tens
/// of nanoseconds.
const PAUSES: std::ops::RangeInclusive<u32> = 8..=32;
/// A stream of commands from outside is taken in bursts of this many.
const BURST: u32 = 16;

thread_local! {
    static CURRENT: Cell<*const Worker> = const { Cell::new(std::ptr::null()) };
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
    /// True if some of them are others' to run, who get them when all are gone through.
    others_gathered: Cell<bool>,
    /// True if the deque holds long tasks, oldest first.
    oldest_first: Cell<bool>,
    /// False if the deque is known to share none.
    shares: Cell<bool>,
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
    /// Since it last ran out of tasks of its own it has had one that the victim shares, or had shared.
    takes_shared: Cell<bool>,
    habit: Habit,
    /// What others had told of tasks in deques when it last looked into them.
    seen: Cell<u64>,
    /// It has slept since it last ran out of work.
    was_asleep: Cell<bool>,
    /// The last theft was of one of few commands that take less time than to steal one.
    stole_little: Cell<bool>,
    /// How many more such thefts than others have led to nothing else, lately.
    in_vain: Cell<u32>,
    /// It is a guest that takes only what is brief.
    keeps_brief_alone: bool,
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
            if !self.0.gathered.borrow().is_empty() {
                self.0.publish_gathered();
            }
            if self.0.others_gathered.replace(false) {
                ToDrivers.gather(false);
            }
        }
    }
}

impl Worker {
    pub(crate) fn new(pool: Arc<Pool>, index: usize, lane: u32) -> Self {
        Self::knowing(Costs::default(), pool, index, lane)
    }

    /// The pool's guest, who knows what the one before has measured.
    pub(crate) fn guest(pool: Arc<Pool>, costs: Costs) -> Self {
        let guest = pool.worker_count;
        Self::knowing(costs, pool, guest, guest as u32)
    }

    fn knowing(costs: Costs, pool: Arc<Pool>, index: usize, lane: u32) -> Self {
        Self {
            route: Cell::new(pool.route),
            pool,
            index,
            lane,
            next: Cell::new(0),
            chain: Cell::new(0),
            costs,
            sample: Cell::new(0),
            gathering: Cell::new(false),
            gathered: RefCell::new(Vec::new()),
            others_gathered: Cell::new(false),
            oldest_first: Cell::new(false),
            // Whoever was this worker before may have left some.
            shares: Cell::new(true),
            has_surplus: Cell::new(true),
            backlog_ns: Cell::new(0),
            burst: Cell::new(0),
            pauses: Cell::new(*PAUSES.start()),
            patience: Cell::new(SPIN),
            running: Cell::new(std::ptr::null()),
            victim: Cell::new(index),
            takes_shared: Cell::new(false),
            habit: Habit::default(),
            seen: Cell::new(0),
            was_asleep: Cell::new(false),
            stole_little: Cell::new(false),
            in_vain: Cell::new(0),
            keeps_brief_alone: false,
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
            let next = self.take().or_else(|| self.take_next_shared());
            let Some(task) = next.or_else(|| self.idle()) else {
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

    /// Helps as a guest until the waiter is done or late, nothing is to be had, or
    /// a worker is awake to do it. Gives what it knows by then. Who has to be back
    /// by a time takes up only what is known to be brief.
    pub(crate) fn help(self, waiter: &Waiter<'_>) -> Costs {
        let outer = CURRENT.replace(&raw const self);
        let joiner = replace_joiner(Some(join_on_worker));
        while self.has_role()
            && !waiter.is_done()
            && !waiter.is_late()
            && self.pool.nobody_is_awake()
        {
            let Some(task) = self.take().or_else(|| self.search()) else {
                break;
            };
            if task.may_wait() || waiter.is_impatient() && !task.is_brief() {
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
        self.costs
    }

    /// Whatever is in the deque, shared or not.
    fn any_of_deque(&self) -> Option<u64> {
        self.own_shared().or_else(|| self.pop())
    }

    /// The task that it put last into its deque.
    #[inline]
    fn pop(&self) -> Option<u64> {
        if self.pool.is_unshared(self.index) {
            self.deque().pop_unshared()
        } else {
            self.deque().pop()
        }
    }

    /// One of those that this worker shares.
    fn own_shared(&self) -> Option<u64> {
        let near = self.pool.worker_count;
        self.deque().take_shared(&self.habit, near)
    }

    /// What is at hand goes to where everyone can get at it.
    fn leave_nothing(&self) {
        let mut left = self.next.take();
        loop {
            if left == 0 {
                left = self.any_of_deque().unwrap_or(0);
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
            // It may be run by this very thread, and wait for what comes after it here.
            if self.gathering.get() && !self.others_gathered.replace(true) {
                ToDrivers.gather(true);
            }
            return Some(command);
        } else {
            self.pool.inject(Task::Command(command), device, priority);
        }
        None
    }

    /// Takes a command that is this pool's.
    pub(crate) fn push(&self, command: Command) {
        if self.keeps_brief_alone && !command.is_brief() {
            let device = command.queue().owner().1;
            let priority = command.queue().priority();
            return self.pool.inject(Task::Command(command), device, priority);
        }
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

    #[inline(never)]
    fn displace(&self, word: u64) {
        if !self.gathering.get() {
            return self.offer_displaced(word);
        }
        let mut gathered = self.gathered.borrow_mut();
        if gathered.len() == MOST_ORDERED {
            self.offer_all(&mut gathered, Deque::push_all);
        }
        gathered.push(word);
    }

    #[cold]
    #[inline(never)]
    fn offer_displaced(&self, word: u64) {
        self.offer(word);
        self.pool.tell_spinners();
    }

    /// After a command has released several, newest first, of which the oldest
    /// is run next: puts the others into the deque, so that this worker takes
    /// them in the order of their enqueue, which is that of their memory, and
    /// thieves from the other end. Of long tasks it matters more that thieves
    /// too take them in the order that their user chose, and each begins with one
    /// whose data it has in its cache: so where there are many all are shared, the oldest too.
    #[cold]
    fn publish_gathered(&self) {
        let mut gathered = self.gathered.borrow_mut();
        if !self.next_is_long() {
            return self.offer_all(&mut gathered, Deque::push_all);
        }
        // Others that are here would wait for those that are shared, again and again.
        let are_shared = gathered.len() >= MANY_OTHERS && self.deque().len() == 0;
        if are_shared {
            gathered.push(self.next.take());
        }
        gathered.reverse();
        self.oldest_first.set(true);
        self.shares.set(self.shares.get() || are_shared);
        let put = if are_shared {
            Deque::share
        } else {
            Deque::push_all
        };
        self.offer_all(&mut gathered, put);
    }

    /// Puts tasks where thieves can take them, the first of them first, in the way of `put`, which says how many it took.
    #[inline(never)]
    fn offer_all(&self, words: &mut Vec<u64>, put: fn(&Deque, &[u64]) -> usize) {
        self.has_surplus.set(true);
        let fit = put(self.deque(), words);
        for word in &words[fit..] {
            self.offer(*word);
        }
        words.clear();
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
        if (self.shares.get() || self.oldest_first.get())
            && let Some(task) = self.take_oldest()
        {
            return Some(task);
        }
        self.chain.set(0);
        match self.pop() {
            Some(word) => Some(Task::from_word(word)),
            None => {
                self.has_surplus.set(false);
                self.backlog_ns.set(0);
                None
            }
        }
    }

    /// One of its long tasks, of which those that it shares come first. They may make others ready that are no less long:
    /// that is a chain, too.
    #[cold]
    fn take_oldest(&self) -> Option<Task> {
        let chain = self.chain.get() + 1;
        self.chain.set(chain % CHAIN);
        if chain >= CHAIN
            && let Some(other) = self.take_injected(Priority::Normal)
        {
            return Some(other);
        }
        if self.shares.get() {
            if let Some(word) = self.own_shared() {
                return Some(Task::from_word(word));
            }
            self.shares.set(false);
        }
        if self.oldest_first.get() {
            match self.deque().steal() {
                Steal::Item(word) => return Some(Task::from_word(word)),
                Steal::Retry => {}
                Steal::Empty => self.oldest_first.set(false),
            }
        }
        None
    }

    /// A long chain: what waits for longest goes first, once.
    #[cold]
    fn give_others_a_turn(&self, next: u64) -> Task {
        let other = self
            .take_injected(Priority::Normal)
            .or_else(|| self.own_shared().map(Task::from_word))
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

    fn is_guest(&self) -> bool {
        self.index == self.pool.worker_count
    }
}
