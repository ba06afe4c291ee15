//! Biased locking. A thread that is the only one to take a lock becomes the lock's owner. The owner
//! takes the lock without a locked instruction.
//!
//! 1. The first thread that comes becomes the owner. It raises a flag as it enters, checks that it
//!    is still the owner, and lowers the flag as it leaves. All of these are plain loads and
//!    stores.
//! 2. The first other thread revokes the ownership, for the rest of the object's life. It announces
//!    the revocation, has the owner pass a fence ([`heavy_fence`]), and waits until the flag is
//!    down.
//! 3. From then on the object is [shared]: every thread takes it by the object's own lock, with a
//!    locked instruction.
//!
//! A thread that walks through all objects revokes the ownership of all others, as the core does
//! from time to time.
//!
//! The owner raises its flag before it checks. The revoking thread reads the flag after the fence.
//! So either the owner sees the revocation and lowers its flag again, or the revoking thread sees
//! the flag and waits.
//!
//! After Dice, Moir and Scherer, "Quickly reacquirable locks" (2003). Here the revoking thread has
//! the fence in place of the owner, as with Linux's `membarrier(2)`.
//!
//! [shared]: Bias::enter

use crate::sync::{
    AtomicBool, AtomicUsize, Backoff, Ordering, asymmetric_fences_are_supported, heavy_fence,
    light_fence, this_thread,
};
use std::sync::atomic::AtomicU64 as Count;
use std::sync::atomic::Ordering::Relaxed;

/// The lock has no owner yet.
const NOBODY: usize = 0;
/// More than one thread has come.
const SHARED: usize = 1;
/// Another thread is revoking the ownership.
const REVOKING: usize = 2;

/// The numbers of owners that there were, and of those that were revoked.
static OWNED: Count = Count::new(0);
static REVOKED: Count = Count::new(0);
/// So many ownerships may be revoked in any case. Beyond that, no thread becomes an owner while
/// more than half of all ownerships were revoked: each revocation costs a heavy fence, and such a
/// process passes its queues and buffers around.
const FEW: u64 = 1000;

/// The bias of a lock. See the module.
pub struct Bias {
    /// A [thread's number](this_thread), which no later thread has, or one of the above.
    owner: AtomicUsize,
    /// Written by the owner alone.
    inside: AtomicBool,
}

impl Default for Bias {
    fn default() -> Self {
        Self::new()
    }
}

impl Bias {
    /// A bias without an owner.
    #[must_use]
    pub fn new() -> Self {
        Self {
            owner: AtomicUsize::new(NOBODY),
            inside: AtomicBool::new(false),
        }
    }

    /// Enters, if this thread is the owner; it leaves by [`exit`](Bias::exit). Otherwise there is
    /// no owner any more, and none comes back before a [`reset`](Bias::reset): the result of work
    /// under the ownership is visible.
    ///
    /// # Panics
    /// If it is inside already, where any other lock would wait for itself.
    #[inline(always)]
    #[must_use]
    pub fn enter(&self) -> bool {
        let me = this_thread();
        let owner = self.owner.load(Ordering::Acquire);
        if owner == me {
            if self.inside.load(Ordering::Relaxed) {
                entered_twice();
            }
            self.inside.store(true, Ordering::Relaxed);
            light_fence();
            if self.owner.load(Ordering::Acquire) == me {
                return true;
            }
            // Releasing: the revoking thread waits for this.
            self.inside.store(false, Ordering::Release);
        } else if owner == SHARED {
            return false;
        }
        self.enter_first_or_last(me)
    }

    /// Goes out.
    #[inline(always)]
    pub fn exit(&self) {
        self.inside.store(false, Ordering::Release);
    }

    /// Starts over, for an object that nobody uses.
    pub fn reset(&self) {
        self.owner.store(NOBODY, Ordering::Release);
    }

    /// Becomes the owner and goes in, or sees to it that there is none any more.
    #[cold]
    #[inline(never)]
    fn enter_first_or_last(&self, me: usize) -> bool {
        let change = |from, to| {
            self.owner
                .compare_exchange(from, to, Ordering::AcqRel, Ordering::Acquire)
                .is_ok()
        };
        let mut backoff = Backoff::default();
        loop {
            match self.owner.load(Ordering::Acquire) {
                SHARED => return false,
                NOBODY if may_own() => {
                    if change(NOBODY, me) {
                        OWNED.fetch_add(1, Relaxed);
                        return self.enter();
                    }
                }
                NOBODY => {
                    let _ = change(NOBODY, SHARED);
                }
                REVOKING => backoff.pause(),
                owner => {
                    if change(owner, REVOKING) {
                        REVOKED.fetch_add(1, Relaxed);
                        heavy_fence();
                        while self.inside.load(Ordering::Acquire) {
                            backoff.pause();
                        }
                        self.owner.store(SHARED, Ordering::Release);
                        return false;
                    }
                }
            }
        }
    }
}

/// True if a thread may become an owner.
fn may_own() -> bool {
    let few = FEW + OWNED.load(Relaxed) / 2;
    // A model is to be the same each time.
    let are_few = cfg!(loom) || REVOKED.load(Relaxed) <= few;
    are_few && asymmetric_fences_are_supported()
}

#[cold]
#[inline(never)]
fn entered_twice() -> ! {
    panic!("a thread has locked what it has locked already; this is a bug of Quipu's");
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use std::cell::UnsafeCell;
    use std::sync::Mutex;

    /// A count that is its owner's, or under a lock.
    struct Counted {
        bias: Bias,
        lock: Mutex<()>,
        count: UnsafeCell<u64>,
    }

    // SAFETY: the count is reached by the owner, or with the lock when there is none.
    unsafe impl Sync for Counted {}

    impl Counted {
        fn new() -> Self {
            Self {
                bias: Bias::new(),
                lock: Mutex::new(()),
                count: UnsafeCell::new(0),
            }
        }

        /// Counts one more; true if it was as the owner.
        fn add(&self) -> bool {
            let owned = self.bias.enter();
            let lock = (!owned).then(|| self.lock.lock().unwrap_or_else(|held| held.into_inner()));
            // SAFETY: as above.
            unsafe { *self.count.get() += 1 };
            drop(lock);
            if owned {
                self.bias.exit();
            }
            owned
        }
    }

    #[test]
    fn the_first_thread_owns_it_until_another_comes_and_nothing_is_lost() {
        const ROUNDS: u64 = if cfg!(miri) { 3 } else { 100 };
        const TIMES: u64 = if cfg!(miri) { 20 } else { 20_000 };
        for round in 0..ROUNDS {
            let (count, turn) = (&Counted::new(), &std::sync::Barrier::new(2));
            std::thread::scope(|scope| {
                let owner = scope.spawn(move || {
                    let before = round * TIMES / ROUNDS;
                    let first = (0..before).fold(true, |all, _| count.add() && all);
                    turn.wait();
                    (before..TIMES).for_each(|_| _ = count.add());
                    first
                });
                // At another time in each round.
                turn.wait();
                for _ in 0..2 {
                    scope.spawn(|| (0..9).for_each(|_| _ = count.add()));
                }
                let owned = owner.join().expect("it counts");
                assert!(owned || !asymmetric_fences_are_supported());
            });
            assert!(!count.add(), "several have come");
            // SAFETY: the others have ended.
            assert_eq!(unsafe { *count.count.get() }, TIMES + 19);
        }
    }

    #[test]
    fn who_stays_alone_stays_the_owner() {
        let count = Counted::new();
        let first = count.add();
        assert!((0..100).all(|_| count.add() == first));
        assert_eq!(first, asymmetric_fences_are_supported());
        count.bias.reset();
        std::thread::scope(|scope| {
            let next = scope.spawn(|| count.add() && count.add());
            assert_eq!(next.join().expect("it counts"), first);
        });
    }

    /// The next thread may have the memory of its own where the last one had it. It is another
    /// thread all the same.
    #[test]
    fn a_thread_that_comes_after_the_owner_is_not_taken_for_it() {
        let count = Counted::new();
        let times: Vec<bool> = (0..3)
            .map(|_| {
                let add = || count.add();
                std::thread::scope(|scope| scope.spawn(add).join().expect("it counts"))
            })
            .collect();
        assert_eq!(times, [asymmetric_fences_are_supported(), false, false]);
    }
}
