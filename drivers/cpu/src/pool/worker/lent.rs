//! A thread that lends itself: it keeps what it enqueues, as a guest does, and runs what of that is brief.
//!
//! Between [`begin`](Lender::begin) and [`end`](Lender::end) it is a guest of the pool, so there is one at a time, and others
//! enqueue as ever meanwhile. It never looks for other work, wakes nobody for what it keeps, and keeps nothing that may take
//! long: so whatever it was doing goes on soon.

use super::super::cost::Costs;
use super::super::{Pool, Task};
use super::{CURRENT, Worker, join_on_worker};
use quipu_core::Priority;
use quipu_core::command::slab;
use quipu_core::driver::Lender;
use quipu_core::event::{Joiner, replace_joiner};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// For how long it runs what it has kept, however much that is.
const BUDGET: Duration = Duration::from_micros(50);
/// Commands that are run between two looks at the clock.
const UNTIMED: u32 = 8;

/// See the module.
pub(crate) struct Lent {
    pool: Arc<Pool>,
    /// Made when it is first needed, and kept: it knows what commands cost. Where it is does not change.
    worker: Option<Box<Worker>>,
    /// How the thread waited before; none while it is no guest.
    joiner: Option<Option<Joiner>>,
}

impl Lent {
    pub(crate) fn new(pool: Arc<Pool>) -> Self {
        Self {
            pool,
            worker: None,
            joiner: None,
        }
    }
}

impl Lender for Lent {
    fn begin(&mut self) {
        let is_other = !CURRENT.get().is_null();
        if self.joiner.is_some() || is_other || self.pool.guest.swap(true, Ordering::Acquire) {
            return;
        }
        let usable = self.worker.take().filter(|worker| worker.has_role());
        let worker = usable.unwrap_or_else(|| {
            let mut worker = Worker::guest(self.pool.clone(), Costs::default());
            worker.keeps_brief_alone = true;
            Box::new(worker)
        });
        CURRENT.set(&raw const **self.worker.insert(worker));
        // A wait must not take what is kept along.
        self.joiner = Some(replace_joiner(Some(join_on_worker)));
    }

    fn run(&mut self) {
        if let Some(worker) = self.worker.as_ref().filter(|_| self.joiner.is_some()) {
            worker.run_kept();
        }
    }

    fn end(&mut self) {
        let Some(joiner) = self.joiner.take() else {
            return;
        };
        replace_joiner(joiner);
        CURRENT.set(std::ptr::null());
        if let Some(worker) = &self.worker
            && worker.has_role()
        {
            worker.leave_nothing();
        }
        self.pool.guest.store(false, Ordering::Release);
        slab::flush();
    }
}

impl Drop for Lent {
    fn drop(&mut self) {
        self.end();
    }
}

impl Worker {
    /// Runs what is at hand, as far as it is brief and there is time; hands over the rest.
    fn run_kept(&self) {
        let start = Instant::now();
        let mut count = 0;
        while self.has_role() {
            let next = match self.next.take() {
                0 => self.any_of_deque().unwrap_or(0),
                next => next,
            };
            if next == 0 {
                return;
            }
            let task = Task::from_word(next);
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
