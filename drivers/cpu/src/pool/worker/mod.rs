//! A worker: one thread of the pool, or a host thread that helps while it
//! waits (a *guest*).
//!
//! The order in which a worker takes its next command:
//!
//! 1. high-priority commands that anyone may take;
//! 2. the command that the one it has just ended made ready (*run next*): a
//!    chain never changes threads; after 64 in a row others get a turn. No other worker
//!    sees this command, so it is moved to the deque before any user's code runs first;
//! 3. the long commands that became ready together and that it shares with others,
//!    and its own deque, last in first out;
//! 4. tasks that were handed in from outside, then those that others share, and their deques;
//! 5. low-priority commands.
//!
//! | file | content |
//! |---|---|
//! | this one | the next command: run next, the deque, released commands and their order |
//! | `idle` | looking for work, sleeping without any, waking others |
//! | `execute` | running a command |
//! | `wait` | commands that wait for others |
//! | `inline` | a thread that runs brief commands of its own enqueueing |

mod execute;
mod idle;
mod inline;
mod wait;

use super::cost::Costs;
use super::deque::{Deque, Steal};
use super::shared_batch::Habit;
use super::{Pool, Task};
use idle::SearchState;
use quipu_scheduler::command::is_inside_command;
use quipu_scheduler::command::{Gather, Publisher, ReadySink, ToDrivers, replace_publisher, slab};
use quipu_scheduler::event::{Joiner, Waiter, replace_joiner};
use quipu_scheduler::process::is_forked;
use quipu_scheduler::queue::route_to;
use quipu_scheduler::{Command, Priority};
use std::cell::{Cell, RefCell};
use std::mem::ManuallyDrop;
use std::sync::Arc;
use std::time::Duration;
use wait::join_on_worker;

pub(crate) use execute::{panicked, resolve};
pub(crate) use inline::InlineRunner;

/// Commands in a chain after which others get a turn.
const CHAIN: u32 = 64;
/// Tasks of this length are worth the trouble of ordering them.
const LONG_NS: u64 = 2_000;
/// The number of long tasks that become ready together with one that could be run next, from which
/// on all are shared, and that one with them. Fewer mostly go on with the data at hand.
const MANY_OTHERS: usize = 2;
/// The most tasks that are put in order.
const MOST_ORDERED: usize = 256;
/// The time for which a worker looks for work before it sleeps, at first: about the time that
/// waking it takes.
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

pub(crate) struct Worker {
    pool: Arc<Pool>,
    index: usize,
    /// The thread, as traces show it.
    lane: u32,
    /// The route of commands that this worker runs next itself.
    route: Cell<u64>,
    next: Cell<u64>,
    /// True if the command that was to be run next is the newest of the deque. It is part of its
    /// chain all the same.
    is_next_shown: Cell<bool>,
    chain: Cell<u32>,
    costs: Costs,
    /// Commands of one group until the next is measured.
    sample: Cell<u32>,
    /// True while the dependants of one command are gone through.
    gathering: Cell<bool>,
    /// The notice of that, until others are told of it.
    begun: Cell<Option<Gather>>,
    /// The ready dependants, newest first; not yet in the deque.
    gathered: RefCell<Vec<u64>>,
    /// True if some of them are others' to run. The others get them when all dependants are gone
    /// through.
    others_gathered: Cell<bool>,
    /// True if the deque holds long tasks, oldest first.
    oldest_first: Cell<bool>,
    /// False if the deque is known to share none.
    shares: Cell<bool>,
    /// False if the deque is known to be empty.
    has_surplus: Cell<bool>,
    /// True if tasks were put into the deque since this worker's last fence.
    is_unfenced: Cell<bool>,
    /// Tasks since there was nothing to do.
    burst: Cell<u32>,
    habit: Habit,
    search_state: SearchState,
    /// True for a guest that takes only brief commands.
    keeps_brief_alone: bool,
    /// True while such a guest's thread runs a user's code: brief commands are public then, too.
    is_interrupted: Cell<bool>,
}

/// Has a thread wait and publish as the worker that it is, while it lives.
struct Hooks {
    joiner: Option<Joiner>,
    publisher: Option<Publisher>,
}

impl Hooks {
    fn set() -> Self {
        Self {
            joiner: replace_joiner(Some(join_on_worker)),
            publisher: replace_publisher(Some(publish_on_worker)),
        }
    }
}

impl Drop for Hooks {
    fn drop(&mut self) {
        replace_joiner(self.joiner);
        replace_publisher(self.publisher);
    }
}

/// The publisher of a thread that is a worker, or was one.
fn publish_on_worker() {
    // SAFETY: `CURRENT` is set only while the worker lives on this thread.
    if let Some(worker) = unsafe { CURRENT.get().as_ref() }
        && worker.has_role()
    {
        worker.publish();
    }
}

/// Sends commands that become ready to the worker that ended the command before them.
struct Local<'a>(&'a Worker);

impl ReadySink for Local<'_> {
    #[inline]
    fn accept(&mut self, command: Command) -> Option<Command> {
        self.0.accept(command)
    }

    #[inline]
    fn gather(&mut self, step: Gather) {
        let begins = step.begins();
        self.0.gathering.set(begins);
        if begins {
            self.0.begun.set(Some(step));
        } else {
            if !self.0.gathered.borrow().is_empty() {
                self.0.put_gathered();
            }
            if self.0.others_gathered.replace(false) {
                ToDrivers.gather(step);
            }
        }
    }
}

/// Makes its thread this worker, while it lives. It ends also by a panic, as of another driver that
/// is handed a command: then the commands at hand go to places that all workers reach.
struct Current<'w> {
    worker: &'w Worker,
    outer: *const Worker,
}

impl<'w> Current<'w> {
    fn enter(worker: &'w Worker) -> Self {
        let outer = CURRENT.replace(worker);
        Self { worker, outer }
    }
}

impl Drop for Current<'_> {
    fn drop(&mut self) {
        CURRENT.set(self.outer);
        if std::thread::panicking() && self.worker.has_role() {
            self.worker.leave_nothing();
        }
    }
}

impl Worker {
    pub(crate) fn new(pool: Arc<Pool>, index: usize, lane: u32) -> Self {
        Self::knowing(Costs::default(), pool, index, lane)
    }

    /// The pool's guest, with the costs that the one before has measured.
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
            is_next_shown: Cell::new(false),
            chain: Cell::new(0),
            costs,
            sample: Cell::new(0),
            gathering: Cell::new(false),
            begun: Cell::new(None),
            gathered: RefCell::new(Vec::new()),
            others_gathered: Cell::new(false),
            oldest_first: Cell::new(false),
            // The worker's thread from before may have left some.
            shares: Cell::new(true),
            has_surplus: Cell::new(true),
            is_unfenced: Cell::new(true),
            burst: Cell::new(0),
            habit: Habit::default(),
            search_state: SearchState::new(index),
            keeps_brief_alone: false,
            is_interrupted: Cell::new(false),
        }
    }

    /// Calls `with` with this thread's worker of `pool`, if it is one.
    #[inline]
    pub(crate) fn current<R>(pool: &Pool, with: impl FnOnce(Option<&Worker>) -> R) -> R {
        let pointer = CURRENT.get();
        // SAFETY: set only while the worker lives on this thread: by `Current`, which borrows it,
        // and by `InlineRunner`, which has it boxed until it has set this back.
        let worker = unsafe { pointer.as_ref() };
        with(worker.filter(|worker| std::ptr::eq(&raw const *worker.pool, pool)))
    }

    fn deque(&self) -> &Deque {
        &self.pool.deques[self.index]
    }

    /// The life of a thread while it is this worker: until the pool ends, or the role was given
    /// away.
    pub(crate) fn run(self) {
        let current = Current::enter(&self);
        let hooks = Hooks::set();
        while self.has_role() {
            let next = self.take().or_else(|| self.take_next_shared());
            let Some(task) = next.or_else(|| self.idle()) else {
                break;
            };
            self.perform(task);
        }
        drop(hooks);
        drop(current);
        slab::flush();
    }

    /// False once the role was given away, because a command waits.
    fn has_role(&self) -> bool {
        self.route.get() != NO_ROUTE
    }

    /// Helps as a guest until the waiter is done or late, no task is found, or a worker is awake to
    /// run it. Gives the costs that it knows by then. A guest with a deadline takes only tasks that
    /// are known to be brief.
    pub(crate) fn help(self, waiter: &Waiter<'_>) -> Costs {
        let current = Current::enter(&self);
        let hooks = Hooks::set();
        while self.has_role()
            && !waiter.is_done()
            && !waiter.is_late()
            && self.pool.nobody_is_awake()
        {
            let Some(task) = self.take().or_else(|| self.search()) else {
                break;
            };
            if !task.is_for_guest(waiter) || waiter.is_impatient() && !task.is_brief() {
                // This thread may need it only after its own wait.
                let device = task.device();
                self.pool.inject(task, device, Priority::Normal);
                break;
            }
            self.perform(task);
        }
        drop(hooks);
        drop(current);
        if self.has_role() {
            self.leave_nothing();
        }
        slab::flush();
        self.costs
    }

    /// Takes a task of the deque, shared or not.
    fn any_of_deque(&self) -> Option<u64> {
        self.own_shared().or_else(|| self.pop())
    }

    /// The task that it put last into its deque.
    #[inline]
    fn pop(&self) -> Option<u64> {
        if self.pool.is_unshared(self.index) {
            return self.deque().pop_unshared();
        }
        let item = self.deque().pop();
        if item.is_some() {
            // To take it was a fence.
            self.is_unfenced.set(false);
        }
        item
    }

    /// One of those that this worker shares.
    fn own_shared(&self) -> Option<u64> {
        let near = self.pool.worker_count;
        self.deque().take_shared(&self.habit, near)
    }

    /// Moves all tasks at hand to places that all workers reach. A child of `fork` has none of
    /// them.
    fn leave_nothing(&self) {
        if is_forked() {
            return;
        }
        self.offer_gathered();
        let mut left = self.next.take();
        loop {
            if left == 0 {
                left = self.any_of_deque().unwrap_or(0);
            }
            if left == 0 {
                break;
            }
            // SAFETY: the words that were left are this worker's, and taken out of its lists.
            let task = unsafe { Task::from_word(std::mem::take(&mut left)) };
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
            // This very thread may run it, and it may wait for commands that come after it here.
            if self.gathering.get()
                && let Some(begun) = self.begun.take()
            {
                self.others_gathered.set(true);
                ToDrivers.gather(begun);
            }
            return Some(command);
        } else {
            self.pool.inject(Task::Command(command), device, priority);
        }
        None
    }

    /// Takes a command of this pool that a user's code has made ready on this thread. That code
    /// goes on, so the command is public at once, and an idle worker comes for it. (Commands that
    /// the *end* of a command makes ready come by [`Local`].)
    pub(crate) fn push(&self, command: Command) {
        let is_at_hand =
            command.route() == self.route.get() || command.needs_no_device() && self.has_role();
        if !is_at_hand || self.keeps_brief_alone && !command.is_brief() {
            let device = command.queue().owner().1;
            let priority = command.queue().priority();
            return self.pool.inject(Task::Command(command), device, priority);
        }
        let word = Task::command_word(command);
        if self.keeps_brief_alone && !self.is_interrupted.get() && !is_inside_command() {
            // Its thread runs it soon.
            return self.make_next(word);
        }
        self.offer(word);
        self.wake_for_offered();
    }

    /// Moves all tasks from private places to the deque: the thread is about to run a user's code
    /// in the middle of a command's end. That code may take any time, or block.
    fn publish(&self) {
        self.is_interrupted.set(true);
        if self.pool.is_unshared(self.index) {
            // Nobody else can come.
            return;
        }
        self.offer_gathered();
        let next = self.next.take();
        if next != 0 {
            self.is_next_shown.set(true);
            self.offer(next);
        }
        if self.is_unfenced.get() {
            self.wake_for_offered();
        }
    }

    /// Moves the commands that were gathered so far to the deque.
    fn offer_gathered(&self) {
        let mut gathered = self.gathered.take();
        if !gathered.is_empty() {
            self.offer_all(&mut gathered, Deque::push_all);
        }
    }

    /// Called after this thread has put tasks into the deque, and before it goes on with a user's
    /// code: a worker comes for them.
    fn wake_for_offered(&self) {
        if !self.pool.is_unshared(self.index) {
            self.is_unfenced.set(false);
            self.pool.wake_unless_somebody_looks();
        }
    }

    /// Runs this command next; the one that was to be goes to the deque.
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

    /// Called after a command has released several, newest first. The oldest of them is run next.
    /// Puts the others into the deque, so that this worker takes them in the order of their
    /// enqueue, which is that of their memory, and thieves from the other end. Of long tasks it
    /// matters more that thieves too take them in the order that their user chose, and each begins
    /// with one whose data it has in its cache. So many long tasks are all shared, the oldest too.
    #[cold]
    fn put_gathered(&self) {
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

    /// Puts tasks in places where thieves can take them, the first one first, by `put`, which gives
    /// the number that it took.
    #[inline(never)]
    fn offer_all(&self, words: &mut Vec<u64>, put: fn(&Deque, &[u64]) -> usize) {
        self.has_surplus.set(true);
        self.is_unfenced.set(true);
        let fit = put(self.deque(), words);
        for word in &words[fit..] {
            self.offer(*word);
        }
        words.clear();
        self.pool.tell_spinners();
    }

    /// True if the next command is known to take long.
    fn next_is_long(&self) -> bool {
        let next = self.next.get();
        if next == 0 || next & 1 != 0 {
            return false;
        }
        // Looked at, not taken. SAFETY: the word in `next` is this worker's alone; it is forgotten.
        let task = ManuallyDrop::new(unsafe { Task::from_word(next) });
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
        self.is_unfenced.set(true);
        if !self.deque().push(word) {
            // SAFETY: the caller has given it up, and the deque has not taken it.
            let task = unsafe { Task::from_word(word) };
            let device = task.device();
            self.pool.spill(task, device, self.deque());
        }
    }

    /// The next task that is at hand.
    #[inline]
    pub(super) fn take(&self) -> Option<Task> {
        if self.pool.has_urgent()
            && let Some(task) = self.take_from_injectors(Priority::High)
        {
            let next = self.next.take();
            if next != 0 {
                self.offer_displaced(next);
            }
            return Some(task);
        }
        let next = match self.next.take() {
            0 if self.is_next_shown.take() => self.pop().unwrap_or(0),
            next => next,
        };
        if next != 0 {
            let chain = self.chain.get() + 1;
            if chain < CHAIN {
                self.chain.set(chain);
                // SAFETY: it was this worker's to run next, and was taken out of there.
                return Some(unsafe { Task::from_word(next) });
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
            // SAFETY: a deque gives each word out once.
            Some(word) => Some(unsafe { Task::from_word(word) }),
            None => {
                self.has_surplus.set(false);
                None
            }
        }
    }

    /// Takes one of its long tasks, first those that it shares. They may make others ready that are
    /// no less long: that is a chain, too.
    #[cold]
    fn take_oldest(&self) -> Option<Task> {
        let chain = self.chain.get() + 1;
        self.chain.set(chain % CHAIN);
        if chain >= CHAIN
            && let Some(other) = self.take_from_injectors(Priority::Normal)
        {
            return Some(other);
        }
        if self.shares.get() {
            if let Some(word) = self.own_shared() {
                // SAFETY: a word that this worker shares is given to one that takes it.
                return Some(unsafe { Task::from_word(word) });
            }
            self.shares.set(false);
        }
        if self.oldest_first.get() {
            match self.deque().steal() {
                // SAFETY: a deque gives each word out once.
                Steal::Item(word) => return Some(unsafe { Task::from_word(word) }),
                Steal::Retry => {}
                Steal::Empty => self.oldest_first.set(false),
            }
        }
        None
    }

    /// Ends a long chain: the task that has waited longest goes first, once.
    #[cold]
    fn give_others_a_turn(&self, next: u64) -> Task {
        let other = self.take_from_injectors(Priority::Normal).or_else(|| {
            let word = self.own_shared().or_else(|| match self.deque().steal() {
                Steal::Item(word) => Some(word),
                _ => None,
            });
            // SAFETY: a deque, and the shared batch of this worker, give each word out once.
            word.map(|word| unsafe { Task::from_word(word) })
        });
        match other {
            Some(other) => {
                self.offer(next);
                self.pool.tell_spinners();
                other
            }
            // SAFETY: it was this worker's to run next, and was taken out of there by the caller.
            None => unsafe { Task::from_word(next) },
        }
    }

    fn is_guest(&self) -> bool {
        self.index == self.pool.worker_count
    }
}
