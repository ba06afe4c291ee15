//! Commands that wait for others inside of themselves.

use super::{CURRENT, NO_ROUTE, PAUSES, SPIN, Worker};
use quipu_core::command::slab;
use quipu_core::error::{Error, ErrorKind};
use quipu_core::event::Waiter;
use std::time::Instant;

/// How a thread waits that is, or was, a worker.
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
            if !waiter.is_stepped() && self.waits_idle(waiter) {
                return Ok(());
            }
            self.give_role_away()?;
        }
        waiter.rest()
    }

    /// Waits for as long as there is nothing else to do; true if the wait is
    /// over.
    pub(super) fn waits_idle(&self, waiter: &Waiter<'_>) -> bool {
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
                let is_last = sleep.stop_spinning();
                self.pool.pass_on_wake(self.index, is_last);
                return over;
            }
            for _ in 0..*PAUSES.start() {
                std::hint::spin_loop();
            }
        }
        slab::flush();
        let Some(armed) = waiter.arm() else {
            let is_last = sleep.stop_spinning();
            self.pool.pass_on_wake(self.index, is_last);
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
        sleep.retract(self.index);
        let over = over();
        if over {
            self.pool.pass_on_wake(self.index, true);
        }
        over
    }

    /// Has another thread be this worker: this one's command waits.
    pub(super) fn give_role_away(&self) -> Result<(), Error> {
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
}
