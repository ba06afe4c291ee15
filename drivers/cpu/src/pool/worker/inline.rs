//! A thread that lends itself: it keeps the commands that it enqueues, as a guest does, and runs
//! those that are brief.
//!
//! Between [`begin`](InlineExecutor::begin) and [`end`](InlineExecutor::end) it is a guest of the
//! pool, so there is one at a time, and others enqueue as ever meanwhile. It never looks for other
//! work, wakes no worker for the commands that it keeps, and keeps none that may take long: so its
//! own work goes on soon.

use super::super::cost::Costs;
use super::super::{Pool, Task};
use super::{CURRENT, Hooks, NO_ROUTE, Worker};
use quipu_scheduler::Priority;
use quipu_scheduler::command::slab;
use quipu_scheduler::driver::InlineExecutor;
use quipu_scheduler::process::is_forked;
use quipu_threads::UsualArithmetic;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// The time for which it runs kept commands, however many they are.
const BUDGET: Duration = Duration::from_micros(50);
/// Commands that are run between two looks at the clock.
const UNTIMED: u32 = 8;

/// See the module.
pub(crate) struct InlineRunner {
    pool: Arc<Pool>,
    /// Made when it is first needed, and kept: it knows the costs of commands. Its address does not
    /// change.
    worker: Option<Box<Worker>>,
    /// The hooks of the guest; none while it is no guest.
    hooks: Option<Hooks>,
}

impl InlineRunner {
    pub(crate) fn new(pool: Arc<Pool>) -> Self {
        Self {
            pool,
            worker: None,
            hooks: None,
        }
    }
}

impl InlineExecutor for InlineRunner {
    fn begin(&mut self) {
        let is_other = !CURRENT.get().is_null();
        if self.hooks.is_some() || is_other || self.pool.guest.swap(true, Ordering::Acquire) {
            return;
        }
        let usable = self.worker.take().filter(|worker| worker.has_role());
        let worker = usable.unwrap_or_else(|| {
            let mut worker = Worker::guest(self.pool.clone(), Costs::default());
            worker.keeps_brief_alone = true;
            Box::new(worker)
        });
        worker.is_interrupted.set(false);
        CURRENT.set(&raw const **self.worker.insert(worker));
        // A wait must not take the kept commands along, nor must a user's code.
        self.hooks = Some(Hooks::set());
    }

    fn run(&mut self) {
        if let Some(worker) = self.worker.as_ref().filter(|_| self.hooks.is_some()) {
            worker.run_kept();
        }
    }

    fn end(&mut self) {
        let Some(hooks) = self.hooks.take() else {
            return;
        };
        drop(hooks);
        if let Some(worker) = &self.worker {
            if worker.has_role() {
                worker.leave_nothing();
            }
            if std::ptr::eq(CURRENT.get(), &raw const **worker) {
                CURRENT.set(std::ptr::null());
            } else {
                // This thread waits as another worker, and is this one again after that
                // (`Current`): without a role, and for as long as the thread lives.
                worker.route.set(NO_ROUTE);
                std::mem::forget(self.worker.take());
            }
        }
        self.pool.guest.store(false, Ordering::Release);
        slab::flush();
    }
}

impl Drop for InlineRunner {
    fn drop(&mut self) {
        self.end();
    }
}

impl Worker {
    /// Runs the commands at hand, as far as they are brief and there is time; hands over the rest.
    fn run_kept(&self) {
        let _usual = UsualArithmetic::enter();
        let start = Instant::now();
        let mut count = 0;
        // A child of `fork` that one of them has made runs no others.
        while self.has_role() && !is_forked() {
            let next = match self.next.take() {
                0 => self.any_of_deque().unwrap_or(0),
                next => next,
            };
            self.is_interrupted.set(false);
            if next == 0 {
                return;
            }
            // SAFETY: taken out of `next` above, or out of this worker's deque.
            let task = unsafe { Task::from_word(next) };
            if task.is_brief() {
                self.perform(task);
            } else {
                let device = task.device();
                self.pool.inject(task, device, Priority::Normal);
            }
            count += 1;
            if count % UNTIMED == 0 && start.elapsed() > BUDGET {
                break;
            }
        }
        if self.has_role() {
            self.leave_nothing();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::Current;
    use super::*;
    use crate::{CpuDriver, Options};
    use std::num::NonZero;

    /// As when a kernel that a waiting thread runs for another pool ends the lending.
    #[test]
    fn a_lender_that_ends_within_a_wait_leaves_the_waiting_worker_in_place() {
        let start = || CpuDriver::start(Options::new().workers(NonZero::<usize>::MIN)).unwrap();
        let (one, two) = (start(), start());
        let mut inline = InlineRunner::new(one.pool().clone());
        inline.begin();
        let worker = CURRENT.get();
        assert!(!worker.is_null());
        let guest = Worker::guest(two.pool().clone(), Costs::default());
        let current = Current::enter(&guest);
        drop(inline);
        assert!(std::ptr::eq(CURRENT.get(), &raw const guest));
        drop(current);
        assert!(std::ptr::eq(CURRENT.get(), worker));
        // SAFETY: the inline_executor has left it behind, as this thread refers to it.
        assert!(!unsafe { &*worker }.has_role());
        // Its place is free again.
        assert!(!one.pool().guest.load(Ordering::Relaxed));
    }
}
