//! Threads for slow work of the host for a device's commands: host tasks, compilers, copies of odd
//! shapes.
//!
//! A thread is started when there is a task and none is idle, up to a limit; one that waits does
//! not count. Threads without a task end after a while.
//!
//! A user's code may block by other means than waits, until the driver's own work, such as a
//! compiler's, is done. So the two have a limit each: however many users' tasks block, the driver's
//! own have as many threads as ever.

use crate::inside::{Inside, own_thread};
use quipu_scheduler::command::slab;
use quipu_scheduler::error::{Error, ErrorKind, Result};
use quipu_scheduler::event::{Waiter, replace_joiner};
use quipu_scheduler::panics::quietly;
use quipu_scheduler::process::or_end;
use quipu_threads::Start;
use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::io;
use std::mem::ManuallyDrop;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread::Builder;
use std::time::Duration;

/// The time for which a thread without a task stays.
const PATIENCE: Duration = Duration::from_secs(2);
/// The fewest threads that may be at work.
const LEAST: usize = 4;

/// The work of a thread.
pub type Task = Box<dyn FnOnce() + Send>;

/// Starts a thread, which takes care of itself.
type Starter = Box<dyn Fn(Builder, Task) -> io::Result<()> + Send + Sync>;

/// See the module.
pub struct Workers {
    state: Mutex<State>,
    wake: Condvar,
    most: usize,
    /// The name of its threads.
    name: String,
    start: Starter,
    /// Called by a thread that begins to wait inside of a task.
    on_wait: OnceLock<Box<dyn Fn() + Send + Sync>>,
}

/// The owner of a task's code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Whose {
    Driver,
    User,
}

#[derive(Default)]
struct State {
    /// The driver's own.
    tasks: VecDeque<Task>,
    /// Users'.
    users: VecDeque<Task>,
    idle: usize,
    /// Threads, without those that wait inside of a task.
    counted: usize,
    /// The number of threads that are in users' tasks.
    in_users: usize,
    /// Threads that wait inside of a task.
    waiting: usize,
}

impl State {
    fn of(&mut self, whose: Whose) -> &mut VecDeque<Task> {
        match whose {
            Whose::Driver => &mut self.tasks,
            Whose::User => &mut self.users,
        }
    }

    /// The number of tasks that could be begun now, if there were threads; so many may be in users'
    /// code.
    fn ready(&self, most: usize) -> usize {
        self.tasks.len() + self.users.len().min(most.saturating_sub(self.in_users))
    }

    /// The next task to begin.
    fn next(&mut self, most: usize) -> Option<(Whose, Task)> {
        if let Some(task) = self.tasks.pop_front() {
            return Some((Whose::Driver, task));
        }
        if self.in_users >= most {
            return None;
        }
        Some((Whose::User, self.users.pop_front()?))
    }

    /// A thread is at work in such a task.
    fn enter(&mut self, whose: Whose) {
        self.counted += 1;
        self.in_users += usize::from(whose == Whose::User);
    }

    /// A thread in such a task is not at work: it waits.
    fn leave(&mut self, whose: Whose) {
        self.counted -= 1;
        self.in_users -= usize::from(whose == Whose::User);
    }
}

thread_local! {
    /// The owner of the code of the task that this thread runs.
    static WHOSE: Cell<Whose> = const { Cell::new(Whose::Driver) };
    /// The workers whose tasks this thread runs: none outside of [`Workers::work`]. It has no
    /// destructor: another thread-local's may wait.
    static MINE: ManuallyDrop<RefCell<Option<Arc<Workers>>>> =
        const { ManuallyDrop::new(RefCell::new(None)) };
}

/// The wait of a worker, for any goal: another thread may take its place meanwhile.
fn join(waiter: &Waiter<'_>) -> Result<()> {
    if waiter.is_done() {
        return Ok(());
    }
    // The wait may be for another driver's command that still needs this one.
    if Inside::is_anywhere() {
        return Err(Inside::would_deadlock());
    }
    let workers = MINE.with(|mine| mine.borrow().clone());
    let Some(workers) = &workers else {
        return waiter.rest();
    };
    let (_waits, refused) = Absence::begin(workers, true);
    match refused {
        // The wait may be for the task that has no thread.
        Some(Refused {
            error,
            is_nobody_at_work: true,
        }) if !waiter.has_deadline() && !waiter.is_done() => {
            return Err(workers.no_thread(&error));
        }
        refused => refused
            .iter()
            .for_each(|refused| log_refused(&refused.error)),
    }
    if let Some(on_wait) = workers.on_wait.get() {
        on_wait();
    }
    waiter.rest()
}

/// The system has given no thread.
struct Refused {
    error: io::Error,
    is_nobody_at_work: bool,
}

/// A thread in a task is not at work, while this lives. It comes back as this is dropped, in a
/// panic too.
struct Absence<'a> {
    workers: &'a Workers,
    is_wait: bool,
}

impl<'a> Absence<'a> {
    /// Leaves the place of this thread to another: for a wait, or for a shorter moment. Gives why
    /// the system gives no thread, if there should be one.
    fn begin(workers: &'a Arc<Workers>, is_wait: bool) -> (Self, Option<Refused>) {
        // Before the lock: its end takes that, too.
        let absence = Self { workers, is_wait };
        let mut state = workers.state();
        state.leave(WHOSE.get());
        state.waiting += usize::from(is_wait);
        // Another thread that is at work looks for tasks when it is done.
        let refused = workers.start_if_due(&mut state).map(|error| Refused {
            error,
            is_nobody_at_work: state.counted == 0,
        });
        drop(state);
        // For a user's task, which may have had to wait for this one.
        workers.wake.notify_one();
        (absence, refused)
    }
}

impl Drop for Absence<'_> {
    fn drop(&mut self) {
        let mut state = self.workers.state();
        state.enter(WHOSE.get());
        state.waiting -= usize::from(self.is_wait);
    }
}

fn log_refused(error: &io::Error) {
    quietly(|| tracing::warn!(%error, "no thread for host tasks"));
}

impl Workers {
    /// Threads for a driver of this name.
    #[must_use]
    pub fn new(driver: &str) -> Arc<Self> {
        Self::with_starter(driver, |thread, life| thread.start(life).map(drop))
    }

    fn with_starter(
        driver: &str,
        start: impl Fn(Builder, Task) -> io::Result<()> + Send + Sync + 'static,
    ) -> Arc<Self> {
        let cores = std::thread::available_parallelism().map_or(LEAST, usize::from);
        Arc::new(Self {
            state: Mutex::default(),
            wake: Condvar::new(),
            most: cores.max(LEAST),
            name: format!("quipu-{driver}-task"),
            start: Box::new(start),
            on_wait: OnceLock::new(),
        })
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Has a thread run a task soon.
    pub fn run(self: &Arc<Self>, task: Task) {
        // The system gives no thread at all: then this one.
        if let Some(task) = self.run_on_another(task) {
            task();
        }
    }

    /// The same, of a task that runs a user's code, which may block.
    pub(crate) fn run_users(self: &Arc<Self>, task: Task) {
        if let Some(task) = self.run_of(Whose::User, task) {
            task();
        }
    }

    /// Has another thread run a task soon; gives it back if the system gives no thread.
    pub(crate) fn run_on_another(self: &Arc<Self>, task: Task) -> Option<Task> {
        self.run_of(Whose::Driver, task)
    }

    fn run_of(self: &Arc<Self>, whose: Whose, task: Task) -> Option<Task> {
        let mut state = self.state();
        state.of(whose).push_back(task);
        let refused = self.start_if_due(&mut state);
        let stranded = if state.counted == 0 {
            state.of(whose).pop_back()
        } else {
            None
        };
        drop(state);
        refused.iter().for_each(log_refused);
        self.wake.notify_one();
        stranded
    }

    /// Waits, for something that threads at work give up: if this is one of the threads, another
    /// may take its place meanwhile.
    pub fn aside<R>(self: &Arc<Self>, wait: impl FnOnce() -> R) -> R {
        let is_mine = MINE.with(|mine| {
            let mine = mine.borrow();
            mine.as_ref().is_some_and(|mine| Arc::ptr_eq(mine, self))
        });
        if !is_mine {
            return wait();
        }
        let (_aside, refused) = Absence::begin(self, false);
        refused
            .iter()
            .for_each(|refused| log_refused(&refused.error));
        wait()
    }

    /// The most threads that are at work at a time.
    #[cfg(test)]
    pub(crate) fn most(&self) -> usize {
        self.most
    }

    /// Has this called by each thread that begins to wait inside of a task.
    pub(crate) fn on_wait(&self, call: impl Fn() + Send + Sync + 'static) {
        // Said once, by the thread that has just made it.
        let _ = self.on_wait.set(Box::new(call));
    }

    /// The number of threads that wait inside of a task.
    pub(crate) fn waiting(&self) -> usize {
        self.state().waiting
    }

    /// True if there is nothing to run and nothing is run.
    #[must_use]
    pub fn is_idle(&self) -> bool {
        let state = self.state();
        state.tasks.is_empty() && state.users.is_empty() && state.counted == state.idle
    }

    /// True if as many threads as may be are at work for the driver, or idle.
    fn is_full(&self, state: &State) -> bool {
        state.counted - state.in_users >= self.most
    }

    /// Gives why the system gives no thread, if there should be one: to be logged with nothing
    /// locked.
    #[must_use]
    fn start_if_due(self: &Arc<Self>, state: &mut State) -> Option<io::Error> {
        if state.ready(self.most) <= state.idle || self.is_full(state) {
            return None;
        }
        let workers = self.clone();
        let life = move || or_end("host tasks", || workers.work());
        let thread = std::thread::Builder::new().name(self.name.clone());
        let started = (self.start)(thread, Box::new(life));
        started.map(|()| state.counted += 1).err()
    }

    /// The error of a wait that may never end, as the system gives no thread.
    fn no_thread(&self, error: &io::Error) -> Error {
        ErrorKind::WouldDeadlock {
            why: format!(
                "it is inside of a host task, and the system gives no other thread ('{}') for what it \
                 may wait for: {error}; end threads or raise their limit, or enqueue what comes after \
                 instead",
                self.name
            )
            .into(),
        }
        .into()
    }

    /// The life of a thread from its begin to its end.
    fn work(self: Arc<Self>) {
        MINE.with(|mine| mine.replace(Some(self.clone())));
        own_thread();
        replace_joiner(Some(join));
        self.run_tasks();
        // It is not counted any more: destructors of the tasks' thread-locals wait as those of any
        // thread.
        replace_joiner(None);
        MINE.with(|mine| mine.replace(None));
    }

    fn run_tasks(self: &Arc<Self>) {
        let mut state = self.state();
        loop {
            if state.counted - state.in_users > self.most {
                // One that had stood aside is back, or was in a user's task. Another comes for the
                // remaining ones.
                state.counted -= 1;
                drop(state);
                self.wake.notify_one();
                return;
            }
            if let Some((whose, task)) = state.next(self.most) {
                state.in_users += usize::from(whose == Whose::User);
                drop(state);
                WHOSE.set(whose);
                task();
                state = self.state();
                state.in_users -= usize::from(WHOSE.replace(Whose::Driver) == Whose::User);
                continue;
            }
            state.idle += 1;
            drop(state);
            slab::flush();
            let (guard, waited) = self
                .wake
                .wait_timeout_while(self.state(), PATIENCE, |state| state.ready(self.most) == 0)
                .unwrap_or_else(PoisonError::into_inner);
            state = guard;
            state.idle -= 1;
            if waited.timed_out() && state.ready(self.most) == 0 {
                state.counted -= 1;
                return;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use quipu_scheduler::UserEvent;
    use std::panic::{AssertUnwindSafe, catch_unwind};
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::sync::{Barrier, mpsc};

    /// Nothing here takes longer, on any machine.
    const PATIENCE_OF_TESTS: Duration = Duration::from_secs(60);

    #[test]
    fn who_stands_aside_leaves_its_place_to_others() {
        let workers = Workers::new("aside");
        let all = Arc::new(Barrier::new(workers.most() + 1));
        for _ in 0..workers.most() {
            let (workers, all) = (workers.clone(), all.clone());
            let waits = workers.clone();
            workers.run(Box::new(move || {
                waits.aside(|| all.wait());
            }));
        }
        let (tell, told) = mpsc::channel();
        workers.run(Box::new(move || tell.send(()).unwrap()));
        told.recv().unwrap();
        all.wait();
        // Anywhere else it waits where it is.
        assert_eq!(workers.aside(|| 7), 7);
    }

    /// Workers to which the system gives one thread.
    fn with_one_thread() -> Arc<Workers> {
        let is_given = AtomicBool::new(false);
        Workers::with_starter("lonely", move |thread, life| {
            if is_given.swap(true, Ordering::SeqCst) {
                return Err(io::ErrorKind::WouldBlock.into());
            }
            thread.start(life).map(drop)
        })
    }

    #[test]
    fn a_wait_for_a_task_that_gets_no_thread_says_so() {
        let workers = with_one_thread();
        let (tell, told) = mpsc::channel();
        let own = workers.clone();
        workers.run_users(Box::new(move || {
            let over = UserEvent::new();
            let event = over.event();
            own.run(Box::new(move || over.complete()));
            tell.send((event.wait(), event)).unwrap();
        }));
        let (waited, event) = told.recv_timeout(PATIENCE_OF_TESTS).unwrap();
        let error = waited.unwrap_err().to_string();
        assert!(
            error.contains("the system gives no other thread"),
            "{error}"
        );
        // The one thread comes to it then.
        event.wait().unwrap();
        while !workers.is_idle() {
            std::thread::yield_now();
        }
        assert_eq!(workers.waiting(), 0);
    }

    #[test]
    fn a_thread_whose_wait_panics_is_counted_as_before() {
        let workers = Workers::new("panicking");
        workers.on_wait(|| panic!("on purpose"));
        let (tell, told) = mpsc::channel();
        workers.run_users(Box::new(move || {
            let event = UserEvent::new();
            let wait = AssertUnwindSafe(|| event.event().wait());
            tell.send(catch_unwind(wait).is_err()).unwrap();
        }));
        assert!(told.recv_timeout(PATIENCE_OF_TESTS).unwrap());
        while !workers.is_idle() {
            std::thread::yield_now();
        }
        let state = workers.state();
        let counts = (state.counted - state.idle, state.in_users, state.waiting);
        assert_eq!(counts, (0, 0, 0));
    }

    #[test]
    fn users_tasks_that_block_leave_the_drivers_own_their_threads() {
        let workers = Workers::new("blocked");
        let all = Arc::new(Barrier::new(workers.most() + 1));
        for _ in 0..workers.most() {
            let all = all.clone();
            workers.run_users(Box::new(move || {
                all.wait();
            }));
        }
        let (tell, told) = mpsc::channel();
        let tells = tell.clone();
        workers.run_users(Box::new(move || tells.send("a user's").unwrap()));
        workers.run(Box::new(move || tell.send("the driver's").unwrap()));
        let next = || told.recv_timeout(Duration::from_secs(60)).unwrap();
        assert_eq!(next(), "the driver's");
        all.wait();
        assert_eq!(next(), "a user's");
    }
}
