//! Looking for work, sleeping without any, and waking others for surplus tasks.

use super::super::cost::{CLOCK_NS, WORTH_SHARING_NS};
use super::super::deque::Steal;
use super::super::split::Participation;
use super::super::{Task, are_invited};
use super::{BURST, PAUSES, SPIN, Worker};
use quipu_scheduler::Priority;
use quipu_scheduler::command::slab;
use std::cell::Cell;
use std::sync::atomic::{Ordering, fence};
use std::time::{Duration, Instant};

/// The longest time for which a worker looks for work, after it was woken soon after it fell
/// asleep.
const LONGEST_SPIN: Duration = Duration::from_micros(160);
/// Workers that are woken before a command is run: each costs the waker some time, and those that
/// are awake wake others.
const WAKES_AT_ONCE: u64 = 3;
/// One in so many looks for work is into the injectors although another worker attends to them.
const LOOK_OUTSIDE: u32 = 16;
/// A command that takes less time ends sooner on its own worker, because its data has to come from
/// another core.
const LITTLE_NS: u64 = 100;
/// Unless a deque has so many of them.
const MANY: usize = 128;
/// The number of useless thefts of such commands beyond others after which a worker leaves them
/// where they are.
const OFTEN: u32 = 8;
/// But it takes one look of so many at them: their owner may be at a long task.
const LOOK_FOR_LITTLE: u32 = 16;
/// One look of so many is into every deque, though no task was announced there.
const LOOK_EVERYWHERE: u32 = 256;

/// The state that a worker keeps between two searches for work.
pub(super) struct SearchState {
    /// The worker from which it has taken tasks last, to which it goes first.
    victim: Cell<usize>,
    /// True if it has had a task that the victim shares, or had shared, since it last ran out of
    /// tasks of its own.
    takes_shared: Cell<bool>,
    /// The count of announced tasks in deques when it last looked into them.
    seen: Cell<u64>,
    /// The time for which it looks for work before it sleeps.
    patience: Cell<Duration>,
    /// The pauses between two looks. See [`Worker::pauses_after`].
    pauses: Cell<u32>,
    /// True if it has slept since it last ran out of work.
    was_asleep: Cell<bool>,
    /// True if the last theft was of one of few commands that take less time than to steal one.
    stole_little: Cell<bool>,
    /// The number by which such thefts that led to nothing else were more than others, lately.
    in_vain: Cell<u32>,
}

impl SearchState {
    /// The state of a worker that has not searched. Its first victim is the worker with this index.
    pub(super) fn new(victim: usize) -> Self {
        Self {
            victim: Cell::new(victim),
            takes_shared: Cell::new(false),
            seen: Cell::new(0),
            patience: Cell::new(SPIN),
            pauses: Cell::new(*PAUSES.start()),
            was_asleep: Cell::new(false),
            stole_little: Cell::new(false),
            in_vain: Cell::new(0),
        }
    }
}

impl Worker {
    /// Looks everywhere.
    pub(in super::super) fn search(&self) -> Option<Task> {
        self.take_from_outside()
            .or_else(|| self.steal())
            .or_else(|| self.take_from_injectors(Priority::Low))
    }

    /// Takes a task that was handed in; others may come along into the deque.
    pub(super) fn take_from_injectors(&self, priority: Priority) -> Option<Task> {
        let task = self.pool.take_injected(self.index, priority)?;
        self.has_surplus.set(true);
        self.is_unfenced.set(true);
        Some(task)
    }

    /// Looks into the injectors of high and normal priority.
    pub(super) fn take_from_outside(&self) -> Option<Task> {
        [Priority::High, Priority::Normal]
            .into_iter()
            .find_map(|priority| self.take_from_injectors(priority))
    }

    fn steal(&self) -> Option<Task> {
        let deques = &self.pool.deques;
        let start = self.search_state.victim.get();
        for step in 0..deques.len() {
            let victim = (start + step) % deques.len();
            if let Some(share) = self.accept_invitation(victim) {
                return Some(share);
            }
            if victim == self.index {
                continue;
            }
            if let Some(task) = self.take_shared(victim) {
                return Some(task);
            }
            // To try costs a fence.
            if deques[victim].len() == 0 || self.pool.is_unshared(victim) {
                continue;
            }
            loop {
                match deques[victim].steal() {
                    Steal::Empty => break,
                    Steal::Retry => std::hint::spin_loop(),
                    Steal::Item(word) => {
                        self.search_state.victim.set(victim);
                        // SAFETY: a deque gives each word to one thief.
                        let task = unsafe { Task::from_word(word) };
                        let few = deques[victim].len() < MANY;
                        self.search_state
                            .stole_little
                            .set(few && self.is_little(&task));
                        self.consider_waking_for_victim(victim, &task);
                        return Some(task);
                    }
                }
            }
        }
        None
    }

    /// Takes a long task of those that a worker shares.
    fn take_shared(&self, victim: usize) -> Option<Task> {
        let near = self.pool.worker_count;
        let word = self.pool.deques[victim].take_shared(&self.habit, near)?;
        // SAFETY: a shared word is given to one worker that takes it.
        let task = unsafe { Task::from_word(word) };
        self.search_state.victim.set(victim);
        self.search_state.takes_shared.set(true);
        self.consider_waking_for_victim(victim, &task);
        Some(task)
    }

    /// Called after a shared task: takes the next one, or a task from outside. The worker need not
    /// say that it looks, nor see to the rest when it has found a task: each worker that comes to
    /// the shared tasks does.
    #[inline]
    pub(super) fn take_next_shared(&self) -> Option<Task> {
        if !self.search_state.takes_shared.take() {
            return None;
        }
        self.give_way();
        let task = self
            .take_from_outside()
            .or_else(|| self.take_shared(self.search_state.victim.get()))?;
        self.learn_restraint(self.burst.take());
        Some(task)
    }

    /// Yields once after the worker was woken: the system may have put this thread on the core of
    /// the one that woke it, which should go on now. A worker that looks for work is counted on, so
    /// it does not yield while it looks.
    fn give_way(&self) {
        if self.search_state.was_asleep.take() {
            std::thread::yield_now();
        }
    }

    /// Takes a share in a launch to which this one has invited, if it has.
    fn accept_invitation(&self, host: usize) -> Option<Task> {
        let place = &self.pool.invitations[host];
        if !place.is_open() {
            return None;
        }
        let (word, more) = place.accept()?;
        self.search_state.victim.set(host);
        if more > 0 && self.pool.sleep.someone_sleeps() {
            self.wake_for_surplus(more.into(), None);
        }
        // SAFETY: it was invited, once, with this word.
        Some(Task::ticket(unsafe { Participation::invited(word) }))
    }

    /// Spins, then sleeps, until there is work; `None` when the pool ends.
    #[cold]
    pub(super) fn idle(&self) -> Option<Task> {
        let sleep = &self.pool.sleep;
        self.give_way();
        loop {
            sleep.start_spinning();
            if let Some(task) = self.spin() {
                let is_last = sleep.stop_spinning();
                self.pool.pass_on_wake(self.index, is_last);
                return Some(task);
            }
            self.stop_attending();
            slab::flush();
            sleep.announce(self.index);
            if let Some(task) = self.search() {
                sleep.retract(self.index);
                self.pool.pass_on_wake(self.index, true);
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
            self.search_state.was_asleep.set(true);
            sleep.awake();
        }
    }

    /// Looks for work, again and again, for as long as this worker's patience.
    pub(super) fn spin(&self) -> Option<Task> {
        let attendant = &self.pool.attendant.0;
        let me = self.index + 1;
        let burst = self.burst.take();
        let restrained = self.learn_restraint(burst);
        let pauses = self.pauses_after(burst);
        let published = &self.pool.published.0;
        let start = Instant::now();
        // The first look is into every deque otherwise.
        let mut looks = u32::from(restrained);
        loop {
            for _ in 0..8 {
                let now = published.load(Ordering::Acquire);
                let other = attendant.load(Ordering::Relaxed);
                let seen = self.search_state.seen.get();
                let is_due =
                    !restrained || looks.is_multiple_of(LOOK_FOR_LITTLE) || are_invited(seen, now);
                let found = if now != seen && is_due || looks.is_multiple_of(LOOK_EVERYWHERE) {
                    self.search_state.seen.set(now);
                    self.search()
                } else if other == 0 || other == me || looks.is_multiple_of(LOOK_OUTSIDE) {
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
            if start.elapsed() >= self.search_state.patience.get() || self.pool.is_ending() {
                return None;
            }
        }
    }

    /// The number of pauses between two looks, after so many commands since the worker last ran out
    /// of work. A thread that enqueues short commands one after another pays for each that is taken
    /// singly with cache lines that travel, so the pause grows until they come in bursts.
    pub(super) fn pauses_after(&self, burst: u32) -> u32 {
        let attendant = &self.pool.attendant.0;
        let me = self.index + 1;
        let pauses = match burst {
            0 | 1 => self.search_state.pauses.get() / 2,
            2..BURST => self.search_state.pauses.get() * 2,
            _ => self.search_state.pauses.get(),
        };
        let pauses = pauses.clamp(*PAUSES.start(), *PAUSES.end());
        self.search_state.pauses.set(pauses);
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

    /// True if a task is known to take less time than to steal it.
    fn is_little(&self, task: &Task) -> bool {
        let Task::Command(command) = task else {
            return false;
        };
        let cost = self.costs.estimate(command.body_key(), command.groups());
        cost.is_some_and(|cost| cost < LITTLE_NS + *CLOCK_NS)
    }

    /// Called after so many tasks, the first of which may have been stolen. True if this worker has
    /// mostly stolen little tasks that led to no other, and its victims had been quicker by
    /// themselves. (The last of many that a command waits for leads to more when stolen, and still
    /// the victim had been quicker.)
    fn learn_restraint(&self, tasks: u32) -> bool {
        let before = self.search_state.in_vain.get();
        let in_vain = match (self.search_state.stole_little.take(), tasks) {
            (_, 0) => before,
            (true, 1) => (before + 1).min(2 * OFTEN),
            _ => before.saturating_sub(OFTEN / 2),
        };
        self.search_state.in_vain.set(in_vain);
        in_vain >= OFTEN
    }

    /// Lets another worker attend to tasks from outside.
    pub(super) fn stop_attending(&self) {
        let attendant = &self.pool.attendant.0;
        if attendant.load(Ordering::Relaxed) == self.index + 1 {
            attendant.store(0, Ordering::Relaxed);
        }
        self.search_state.pauses.set(*PAUSES.start());
    }

    /// Woken so soon, it would better have waited; woken much later, not.
    pub(super) fn learn_patience(&self, asleep: Duration) {
        if asleep < 2 * LONGEST_SPIN {
            self.search_state
                .patience
                .set((2 * self.search_state.patience.get()).min(LONGEST_SPIN));
        } else {
            self.search_state.patience.set(SPIN);
        }
    }

    /// Called before this worker runs a task while others lie in the deque: a worker comes for
    /// these, however short the task seems. More workers come where that pays.
    #[inline]
    pub(super) fn see_to_surplus(&self, body: usize, groups: u32) {
        let surplus = self.deque().len() as u64;
        if surplus == 0 {
            self.has_surplus.set(false);
            return;
        }
        if self.is_unfenced.take() && !self.pool.is_unshared(self.index) {
            fence(Ordering::SeqCst);
        }
        if self.pool.sleep.someone_sleeps() {
            self.wake_for_surplus(surplus, self.costs.estimate(body, groups));
        }
    }

    /// Called after a theft: the victim may have more tasks than the awake workers can do.
    pub(super) fn consider_waking_for_victim(&self, victim: usize, stolen: &Task) {
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
    pub(super) fn wake_for_surplus(&self, surplus: u64, cost: Option<u64>) {
        // One worker for each piece of surplus that is worth a wake. One at least, however short
        // all seem: the next task may block. A thread that lends itself wakes nobody for commands
        // that call themselves brief.
        let least = u64::from(!self.keeps_brief_alone);
        let cost = cost.unwrap_or(WORTH_SHARING_NS);
        let worth = surplus.saturating_mul(cost) / WORTH_SHARING_NS;
        let wanted = surplus.min(worth).max(least);
        let looking = self.pool.sleep.looking() as u64;
        if wanted > looking {
            self.pool
                .wake_more((wanted - looking).min(WAKES_AT_ONCE) as usize);
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::pool::Pool;
    use crate::pool::cost::Costs;
    use std::num::NonZero;

    #[test]
    fn who_mostly_steals_little_in_vain_leaves_it_where_it_is() {
        let pool = Pool::new(std::ptr::null(), NonZero::<usize>::MIN, &[]).unwrap();
        pool.start_threads().unwrap();
        let thief = Worker::guest(pool.clone(), Costs::default());
        let after_little = |tasks| {
            thief.search_state.stole_little.set(true);
            thief.learn_restraint(tasks)
        };
        assert!((1..OFTEN).all(|_| !after_little(1)), "it is too early");
        assert!((0..100).all(|_| after_little(1)));
        assert!(thief.learn_restraint(0), "it has only looked");
        assert!(after_little(64), "that was one of many");
        assert!((0..100).all(|_| after_little(1)));
        assert!([2, 1000, 3].into_iter().any(|tasks| !after_little(tasks)));
        let other = || (0..2 * OFTEN).any(|_| thief.learn_restraint(1));
        assert!(!other(), "it was not little");
        pool.end();
    }
}
