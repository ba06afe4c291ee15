//! Threads for what a device's commands need of the host and what takes its time: host tasks, compilers, copies of odd
//! shapes.
//!
//! A thread is started when there is a task and none is idle, up to a limit; one that waits does not count. Threads
//! without a task end after a while.

use crate::inside::{Inside, own_thread};
use quipu_core::EventId;
use quipu_core::command::slab;
use quipu_core::error::{ErrorKind, Result};
use quipu_core::event::{Waiter, replace_joiner};
use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

/// How long a thread without a task stays.
const PATIENCE: Duration = Duration::from_secs(2);
/// The fewest threads that may be at work.
const LEAST: usize = 4;

/// What a thread does.
pub type Task = Box<dyn FnOnce() + Send>;

/// See the module.
pub struct Workers {
    state: Mutex<State>,
    wake: Condvar,
    most: usize,
    /// What its threads are called.
    name: String,
    /// Called by a thread that begins to wait inside of a task.
    on_wait: OnceLock<Box<dyn Fn() + Send + Sync>>,
}

#[derive(Default)]
struct State {
    tasks: VecDeque<Task>,
    idle: usize,
    /// Threads, without those that wait inside of a task.
    counted: usize,
    /// Threads that wait inside of a task.
    waiting: usize,
}

thread_local! {
    static MINE: RefCell<Option<Arc<Workers>>> = const { RefCell::new(None) };
    static RUNNING: Cell<EventId> = const { Cell::new(EventId::NONE) };
}

/// How a worker waits, whatever for: somebody else may take its place meanwhile.
fn join(waiter: &Waiter<'_>) -> Result<()> {
    if waiter.is_done() {
        return Ok(());
    }
    // What is waited for may be another driver's, and still need this one.
    if Inside::is_anywhere() {
        return Err(Inside::would_deadlock());
    }
    if waiter.needs(RUNNING.get()) {
        return Err(ErrorKind::WouldDeadlock {
            why: "this is the command that is waited for, or one that comes before it in its in-order queue; return \
                  first, and enqueue what comes after",
        }
        .into());
    }
    let workers = MINE.with_borrow(Clone::clone);
    if let Some(workers) = &workers {
        let mut state = workers.state();
        state.counted -= 1;
        state.waiting += 1;
        workers.start_if_due(&mut state);
        drop(state);
        if let Some(on_wait) = workers.on_wait.get() {
            on_wait();
        }
    }
    let waited = waiter.rest();
    if let Some(workers) = &workers {
        let mut state = workers.state();
        state.counted += 1;
        state.waiting -= 1;
    }
    waited
}

/// Says, while it lives, which command this thread runs.
pub(crate) struct Running(EventId);

impl Running {
    pub(crate) fn enter(command: EventId) -> Self {
        Self(RUNNING.replace(command))
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        RUNNING.set(self.0);
    }
}

impl Workers {
    /// Threads for a driver of this name.
    #[must_use]
    pub fn new(driver: &str) -> Arc<Self> {
        let cores = std::thread::available_parallelism().map_or(LEAST, usize::from);
        Arc::new(Self {
            state: Mutex::default(),
            wake: Condvar::new(),
            most: cores.max(LEAST),
            name: format!("quipu-{driver}-task"),
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

    /// Has another thread run a task soon; gives it back if the system gives no thread.
    pub(crate) fn run_on_another(self: &Arc<Self>, task: Task) -> Option<Task> {
        let mut state = self.state();
        state.tasks.push_back(task);
        self.start_if_due(&mut state);
        let stranded = if state.counted == 0 {
            state.tasks.pop_back()
        } else {
            None
        };
        drop(state);
        self.wake.notify_one();
        stranded
    }

    /// Waits, for something that threads at work give up: if this is one of the threads, another may take its place meanwhile.
    pub fn aside<R>(self: &Arc<Self>, wait: impl FnOnce() -> R) -> R {
        let is_mine =
            |mine: &Option<Arc<Self>>| mine.as_ref().is_some_and(|it| Arc::ptr_eq(it, self));
        if !MINE.with_borrow(is_mine) {
            return wait();
        }
        struct Aside<'a>(&'a Workers);
        impl Drop for Aside<'_> {
            fn drop(&mut self) {
                self.0.state().counted += 1;
            }
        }
        let mut state = self.state();
        state.counted -= 1;
        self.start_if_due(&mut state);
        drop(state);
        let _aside = Aside(self);
        wait()
    }

    /// The most threads that are at work at a time.
    #[cfg(test)]
    pub(crate) fn most(&self) -> usize {
        self.most
    }

    /// Has this called by each thread that begins to wait inside of a task.
    pub(crate) fn on_wait(&self, call: impl Fn() + Send + Sync + 'static) {
        // Said once, by who has just made it.
        let _ = self.on_wait.set(Box::new(call));
    }

    /// How many threads wait inside of a task.
    pub(crate) fn waiting(&self) -> usize {
        self.state().waiting
    }

    /// True if there is nothing to run and nothing is run.
    #[must_use]
    pub fn is_idle(&self) -> bool {
        let state = self.state();
        state.tasks.is_empty() && state.counted == state.idle
    }

    fn start_if_due(self: &Arc<Self>, state: &mut State) {
        if state.tasks.len() <= state.idle || state.counted >= self.most {
            return;
        }
        let workers = self.clone();
        let thread = std::thread::Builder::new()
            .name(self.name.clone())
            .spawn(move || workers.work());
        match thread {
            Ok(_) => state.counted += 1,
            Err(error) => tracing::warn!(%error, "no thread for host tasks"),
        }
    }

    fn work(self: Arc<Self>) {
        MINE.set(Some(self.clone()));
        own_thread();
        replace_joiner(Some(join));
        let mut state = self.state();
        loop {
            if state.counted > self.most {
                // One that had stood aside is back.
                state.counted -= 1;
                return;
            }
            if let Some(task) = state.tasks.pop_front() {
                drop(state);
                task();
                state = self.state();
                continue;
            }
            state.idle += 1;
            drop(state);
            slab::flush();
            let (guard, waited) = self
                .wake
                .wait_timeout_while(self.state(), PATIENCE, |state| state.tasks.is_empty())
                .unwrap_or_else(PoisonError::into_inner);
            state = guard;
            state.idle -= 1;
            if waited.timed_out() && state.tasks.is_empty() {
                state.counted -= 1;
                return;
            }
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a promise that is not kept panics")]
mod tests {
    use super::*;
    use std::sync::{Barrier, mpsc};

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
}
