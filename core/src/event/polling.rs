//! Drivers that do not poll, because a user does: see `crate::polling`.
//!
//! * A driver is suspended while it has a guard and no thread waits. Guards and waits are counted.
//!   Both counts are changed before the other one is looked at. So the thread that changes one of
//!   them last sees both, and sets the drivers right under the lock.
//! * A short wait does not count. A wait counts from its first sleep, or from its beginning if
//!   there is a guard by then.

use crate::router::{Router, is_same};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The number of guards.
static GUARDS: AtomicUsize = AtomicUsize::new(0);
/// The number of waits that are counted.
static WAITS: AtomicUsize = AtomicUsize::new(0);

/// The drivers of all guards.
struct Guarded {
    drivers: Vec<Arc<dyn Router>>,
    /// True if each of them is suspended, once for each time that it is in the list.
    are_suspended: bool,
}

static GUARDED: Mutex<Guarded> = Mutex::new(Guarded {
    drivers: Vec::new(),
    are_suspended: false,
});

impl Guarded {
    fn lock() -> MutexGuard<'static, Self> {
        GUARDED.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Suspends or continues the drivers, after one of the counts has changed.
    fn set_right(&mut self) {
        let suspend = WAITS.load(Ordering::SeqCst) == 0;
        if std::mem::replace(&mut self.are_suspended, suspend) == suspend {
            return;
        }
        for driver in &self.drivers {
            // SAFETY: `are_suspended` says which of both came last.
            unsafe {
                if suspend {
                    driver.pause_polling();
                } else {
                    driver.continue_polling();
                }
            }
        }
    }
}

#[inline]
fn set_right_if_guarded() {
    if GUARDS.load(Ordering::SeqCst) > 0 {
        Guarded::lock().set_right();
    }
}

/// Has these drivers leave polling to a user from now on: one guard more.
pub(crate) fn suspend(drivers: impl Iterator<Item = Arc<dyn Router>>) {
    GUARDS.fetch_add(1, Ordering::SeqCst);
    let mut guarded = Guarded::lock();
    guarded.set_right();
    for driver in drivers {
        if guarded.are_suspended {
            // SAFETY: it goes on when a thread waits, or as the guard goes: it is one of the
            // drivers.
            unsafe { driver.pause_polling() };
        }
        guarded.drivers.push(driver);
    }
}

/// Takes that back.
pub(crate) fn resume<'a>(drivers: impl Iterator<Item = &'a dyn Router>) {
    let mut guarded = Guarded::lock();
    for driver in drivers {
        let mut known = guarded.drivers.iter();
        let Some(place) = known.position(|known| is_same(&**known, driver)) else {
            continue;
        };
        // The context has it as well: it does not end here.
        guarded.drivers.swap_remove(place);
        if guarded.are_suspended {
            // SAFETY: it was suspended for the guard that goes.
            unsafe { driver.continue_polling() };
        }
    }
    drop(guarded);
    GUARDS.fetch_sub(1, Ordering::SeqCst);
}

/// A thread that waits, and that the drivers poll for.
pub(crate) struct Waiting(());

impl Waiting {
    /// Counts a wait until the result is dropped.
    pub(crate) fn begin() -> Self {
        WAITS.fetch_add(1, Ordering::SeqCst);
        set_right_if_guarded();
        Self(())
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        WAITS.fetch_sub(1, Ordering::SeqCst);
        // In a child of fork another thread may have had the lock.
        if !crate::process::is_forked() {
            set_right_if_guarded();
        }
    }
}

/// As [`Waiting::begin`], if it makes a difference by now.
#[inline]
pub(crate) fn while_waiting() -> Option<Waiting> {
    (GUARDS.load(Ordering::SeqCst) > 0).then(Waiting::begin)
}
