//! Polling by the user: a scheduler of his own looks for what has ended, at times that suit it.
//!
//! 1. While a [`Polling`] lives, the drivers of its context's devices look for no ends of commands of polling queues;
//!    [`Context::poll`] does. What devices call for, for other queues, is heard as ever.
//! 2. A thread that waits cannot poll meanwhile, and what it waits for may need what another driver is to hear of. So as
//!    long as any thread waits, the drivers poll again.
//! 3. So a driver counts: one up for each guard, one down for each wait under it. It polls unless that is positive.

use crate::context::Context;
use crate::driver::{Driver, is_same};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// How many guards there are, for waits to look at.
static GUARDS: AtomicUsize = AtomicUsize::new(0);
/// The drivers of each.
static SUSPENDED: Mutex<Vec<Arc<dyn Driver>>> = Mutex::new(Vec::new());

fn suspended() -> MutexGuard<'static, Vec<Arc<dyn Driver>>> {
    SUSPENDED.lock().unwrap_or_else(PoisonError::into_inner)
}

/// While this lives, commands of polling queues are over only when [`Context::poll`] is called, or a thread waits.
#[derive(Debug)]
#[must_use = "polling is given back when this is dropped"]
pub struct Polling {
    context: Context,
}

impl Context {
    /// Looks once for commands that have ended on the context's devices, and ends them; hands over what
    /// waited for them. Never blocks: of several threads one looks. True if something is on a device still.
    pub fn poll(&self) -> bool {
        // All of them are asked.
        let polled = self.drivers().iter().map(|driver| driver.poll());
        polled.fold(false, |any, one| any | one)
    }

    /// From now on, until what this gives is dropped, the caller polls. Concerns all that the drivers of the
    /// context's devices run, in other contexts too.
    pub fn polling(&self) -> Polling {
        for driver in self.drivers() {
            driver.suspend_polling();
        }
        suspended().extend_from_slice(self.drivers());
        GUARDS.fetch_add(1, Ordering::SeqCst);
        Polling {
            context: self.clone(),
        }
    }
}

impl Polling {
    /// As [`Context::poll`].
    pub fn poll(&self) -> bool {
        self.context.poll()
    }
}

impl Drop for Polling {
    fn drop(&mut self) {
        GUARDS.fetch_sub(1, Ordering::SeqCst);
        let drivers = self.context.drivers();
        let mut suspended = suspended();
        for driver in drivers {
            let place = suspended.iter().position(|known| is_same(known, driver));
            // The context has it as well: it does not end here.
            place.map(|place| suspended.swap_remove(place));
        }
        drop(suspended);
        for driver in drivers {
            driver.resume_polling();
        }
    }
}

/// A thread waits, and what it waits for is polled for.
pub(crate) struct Resumed(Vec<Arc<dyn Driver>>);

/// As long as what this gives lives, this thread waits.
#[inline]
pub(crate) fn while_waiting() -> Option<Resumed> {
    (GUARDS.load(Ordering::SeqCst) > 0).then(resume)
}

#[cold]
fn resume() -> Resumed {
    let drivers = suspended().clone();
    for driver in &drivers {
        driver.resume_polling();
    }
    Resumed(drivers)
}

impl Drop for Resumed {
    fn drop(&mut self) {
        for driver in &self.0 {
            driver.suspend_polling();
        }
    }
}
