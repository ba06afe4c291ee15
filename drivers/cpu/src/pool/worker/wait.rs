//! Commands that wait for others inside of themselves.

use super::{CURRENT, NO_ROUTE, PAUSES, SPIN, Worker};
use quipu_scheduler::command::slab;
use quipu_scheduler::error::Error;
use quipu_scheduler::event::Waiter;
use std::time::Instant;

/// The wait of a thread that is, or was, a worker.
pub(super) fn join_on_worker(waiter: &Waiter<'_>) -> Result<(), Error> {
    // SAFETY: set only while the worker lives on this thread.
    match unsafe { CURRENT.get().as_ref() } {
        Some(worker) => worker.wait_inside(waiter),
        None => waiter.rest(),
    }
}

impl Worker {
    /// Waits inside a task. If there is something to do meanwhile, another thread
    /// becomes this worker.
    pub(crate) fn wait_inside(&self, waiter: &Waiter<'_>) -> Result<(), Error> {
        if self.has_role() {
            if !waiter.is_stepped() && self.waits_idle(waiter) {
                return Ok(());
            }
            // A callback that this thread called meanwhile may have waited, and given the role
            // away.
            if self.has_role() {
                self.give_role_away()?;
            }
        }
        waiter.rest()
    }

    /// Waits for as long as there is nothing else to do; true if the wait is over. While others
    /// count on this thread, as one that looks for work or sleeps, it runs no user's code: that
    /// could wait, or block.
    pub(super) fn waits_idle(&self, waiter: &Waiter<'_>) -> bool {
        let has_tasks =
            self.next.get() != 0 || self.deque().len() > 0 || !self.gathered.borrow().is_empty();
        if self.is_guest() || has_tasks || waiter.has_users_clock() {
            return waiter.is_done();
        }
        let sleep = &self.pool.sleep;
        let over = || waiter.is_done() || waiter.is_late();
        sleep.start_spinning();
        let start = Instant::now();
        while start.elapsed() < SPIN {
            let over = over();
            if over || self.pool.has_work() {
                let is_last = sleep.stop_spinning();
                self.pool.pass_on_wake(self.index, is_last);
                return over;
            }
            for _ in 0..*PAUSES.start() {
                std::hint::spin_loop();
            }
        }
        slab::flush();
        // Arming may call callbacks, which may take any time.
        let is_last = sleep.stop_spinning();
        self.pool.pass_on_wake(self.index, is_last);
        let Some(armed) = waiter.arm() else {
            return true;
        };
        while self.has_role() {
            sleep.start_spinning();
            // Asleep, and to be woken for new work as well as by the end of the wait.
            sleep.announce(self.index);
            let is_needed = || self.pool.has_work() || sleep.is_chosen(self.index);
            let mut is_needed_now = is_needed();
            let mut is_look_due = false;
            while !is_needed_now && !is_look_due && !armed.is_done() && !waiter.is_late() {
                is_look_due = waiter.nap();
                is_needed_now = is_needed();
            }
            sleep.retract(self.index);
            let over = over();
            // Also if it is not over: callbacks may be called as `armed` is dropped.
            self.pool.pass_on_wake(self.index, true);
            // A look may log, and a flush calls drivers.
            if over || is_needed_now || !is_look_due || waiter.look_after() {
                return over;
            }
        }
        // A user's code that this thread called meanwhile has waited, and given the role away.
        false
    }

    /// Has another thread be this worker: this one's command waits.
    pub(super) fn give_role_away(&self) -> Result<(), Error> {
        debug_assert!(self.has_role(), "one thread alone is this worker");
        if self.is_guest() {
            self.leave_nothing();
        } else {
            self.offer_gathered();
            let next = self.next.take();
            if next != 0 {
                self.offer(next);
            }
            self.pool.engage(self.index).inspect_err(|_| {
                // It may have been woken for a task that another worker has to run now.
                self.pool.pass_on_wake(self.index, true);
            })?;
        }
        self.route.set(NO_ROUTE);
        Ok(())
    }
}
