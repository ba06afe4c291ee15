//! Observers of an event on the host: wakers of futures, sleeping threads,
//! callbacks.
//!
//! An event gets a list when it is first observed; the list is one entry of the event's notify
//! list. An observer can be taken out again at any time (a future that is dropped, the losers of a
//! `when_any`). So a long-lived event that is observed again and again keeps nothing of the past.
//! The list gives each observer a [key](Key) to be found by, as there may be many of them.
//!
//! 1. The first to observe makes the list, publishes it by an exchange, and then
//!    pushes it onto the notify list. Others find it, and add themselves.
//! 2. The thread that ends the event closes the notify list, finds the entry there, closes the list
//!    of observers, and tells all in it.
//! 3. If the event has ended before the push, the pusher closes the list and tells the observers
//!    that were added meanwhile; no other thread would.
//! 4. An observer that finds the list closed is not added: the event is over.
//!
//! Actions run with no lock held. Threads are woken as they are found. Wakers come after all
//! dependants were released; a panic in one is contained and logged. Callbacks come last, when
//! their thread has nothing in hand any more (the core's `command::deferred`): they may wait.

use crate::flush_demand::FlushDemand;
use crate::notify::{NotifyList, Tag};
use crate::panics::{drop_panic, quietly};
use crate::process::end_child;
use crate::sync::{AtomicBool, AtomicPtr, AtomicU64, Mutex, Ordering, lock};
use smallvec::SmallVec;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, PoisonError};
use std::task::Waker;
use std::thread::Thread;

/// The action of an observer when the event is over.
pub enum Action {
    /// Nothing any more.
    Nothing,
    /// Wakes a future.
    Wake(Waker),
    /// Wakes a thread.
    Unpark(Thread),
    /// Something short of a driver's.
    Notify(Box<dyn FnOnce() + Send>),
    /// A user's callback, or other code that may take time.
    Call(Box<dyn FnOnce() + Send>),
}

/// The moment at which an observer is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Delivery {
    /// At once: its action takes no time.
    AtOnce,
    /// By a waker, which is a user's code.
    Wakes,
    /// By a callback, when the thread that tells has nothing else in hand.
    CallsBack,
}

/// One observer. Shared between the list and the future, thread or callback that waits.
pub struct Observer {
    fired: AtomicBool,
    /// Its action stays of this kind.
    delivery: Delivery,
    /// Has later enqueues flushed for it, until it has fired.
    demand: std::sync::Mutex<Option<FlushDemand>>,
    action: Mutex<Action>,
}

impl Observer {
    /// One that does this.
    pub fn new(action: Action) -> Arc<Self> {
        Self::with_demand(action, None)
    }

    /// As [`Observer::new`], for an observer for which later enqueues flush.
    pub fn with_demand(action: Action, demand: Option<FlushDemand>) -> Arc<Self> {
        Arc::new(Self {
            fired: AtomicBool::new(false),
            delivery: match action {
                Action::Call(_) => Delivery::CallsBack,
                Action::Wake(_) => Delivery::Wakes,
                _ => Delivery::AtOnce,
            },
            demand: std::sync::Mutex::new(demand),
            action: Mutex::new(action),
        })
    }

    /// True once the event is over.
    #[must_use]
    pub fn fired(&self) -> bool {
        self.fired.load(Ordering::Acquire)
    }

    /// Replaces the waker, on a re-poll. True if the caller is to have it [fire](Observer::fire):
    /// it may have fired before this waker was there, and nobody else takes it out then.
    #[must_use]
    pub fn replace_waker(&self, waker: &Waker) -> bool {
        if matches!(&*lock(&self.action), Action::Wake(held) if held.will_wake(waker)) {
            return false;
        }
        // With nothing locked: to clone a waker or to drop one is a user's code.
        let fresh = Action::Wake(waker.clone());
        let former = std::mem::replace(&mut *lock(&self.action), fresh);
        drop(former);
        self.fired()
    }

    /// Does its action, once. A waker or a callback is a user's code: its thread shows the tasks
    /// that it keeps to itself first.
    pub fn fire(&self) {
        self.fired.store(true, Ordering::Release);
        let demand = self.demand.lock();
        drop(demand.unwrap_or_else(PoisonError::into_inner).take());
        let action = std::mem::replace(&mut *lock(&self.action), Action::Nothing);
        act(action);
    }

    /// The moment at which it is told.
    #[must_use]
    pub fn delivery(&self) -> Delivery {
        self.delivery
    }
}

fn act(action: Action) {
    let outcome = catch_unwind(AssertUnwindSafe(|| match action {
        Action::Nothing => {}
        Action::Wake(waker) => waker.wake(),
        Action::Unpark(thread) => thread.unpark(),
        Action::Notify(call) | Action::Call(call) => call(),
    }));
    end_child(outcome.is_err());
    if let Err(panic) = outcome {
        drop_panic(panic);
        quietly(|| {
            tracing::error!("a callback or waker of an event panicked; the event is unaffected");
        });
    }
}

/// Observers of one event: mostly one, which is to cost no allocation.
pub type ToFire = SmallVec<[Arc<Observer>; 2]>;

/// The observers of an event: nothing, until the first.
#[derive(Debug)]
pub struct Observers(AtomicPtr<ObserverList>);

impl Default for Observers {
    fn default() -> Self {
        Self::new()
    }
}

impl Observers {
    /// Nothing.
    #[must_use]
    pub fn new() -> Self {
        Self(AtomicPtr::new(std::ptr::null_mut()))
    }

    /// True if it was never observed, as far as the calling thread knows.
    #[inline]
    #[must_use]
    pub fn is_none(&self) -> bool {
        self.0.load(Ordering::Relaxed).is_null()
    }

    /// Adds an observer to the event that `notify` is the list of. If that is over,
    /// it is not added, and those that others have added meanwhile are to be told.
    ///
    /// # Safety
    /// The event is referred to by the caller, and so is not freed.
    pub unsafe fn add(&self, notify: &NotifyList, observer: &Arc<Observer>) -> Result<Key, ToFire> {
        let mut list = self.0.load(Ordering::Acquire);
        if list.is_null() {
            let fresh = Box::into_raw(Box::new(ObserverList::new()));
            let published =
                self.0
                    .compare_exchange(list, fresh, Ordering::AcqRel, Ordering::Acquire);
            match published {
                Ok(_) => {
                    list = fresh;
                    let generation = notify.generation();
                    // SAFETY: the list lives until the event's last reference goes, which is after
                    // the notify list is closed and read.
                    let pushed = unsafe {
                        notify.push(generation, &raw const (*fresh).word, Tag::Observers)
                    };
                    if pushed.is_err() {
                        // SAFETY: alive as above.
                        return Err(unsafe { (*fresh).close() });
                    }
                }
                Err(other) => {
                    // SAFETY: never published.
                    drop(unsafe { Box::from_raw(fresh) });
                    list = other;
                }
            }
        }
        // SAFETY: alive as above.
        let added = unsafe { (*list).add(observer) };
        added.ok_or_else(ToFire::new)
    }

    /// Takes an observer out, if it is there.
    ///
    /// # Safety
    /// As [`Observers::add`].
    pub unsafe fn remove(&self, key: Key) {
        // SAFETY: the caller's reference keeps the list.
        if let Some(list) = unsafe { self.0.load(Ordering::Acquire).as_ref() } {
            // Dropped with the list unlocked: its action is a user's code.
            drop(list.remove(key));
        }
    }

    /// Closes the list: nobody is added any more. Gives the observers to tell that the event is
    /// over.
    ///
    /// # Safety
    /// As [`Observers::add`].
    pub unsafe fn close(&self) -> ToFire {
        // SAFETY: as above.
        let list = unsafe { self.0.load(Ordering::Acquire).as_ref() };
        list.map(ObserverList::close).unwrap_or_default()
    }

    /// Frees the list.
    ///
    /// # Safety
    /// Nothing refers to the event any more.
    pub unsafe fn free(&self) {
        let list = self.0.swap(std::ptr::null_mut(), Ordering::Relaxed);
        if !list.is_null() {
            // SAFETY: made by `add`, freed once.
            drop(unsafe { Box::from_raw(list) });
        }
    }
}

/// Its first word is an entry of a notify list.
#[repr(C)]
struct ObserverList {
    word: AtomicU64,
    inner: Mutex<Inner>,
}

#[derive(Default)]
struct Inner {
    closed: bool,
    entries: Entries,
}

impl ObserverList {
    fn new() -> Self {
        Self {
            word: AtomicU64::new(0),
            inner: Mutex::new(Inner::default()),
        }
    }

    /// Adds an observer; `None` if the event is over, in which case it was not added.
    fn add(&self, observer: &Arc<Observer>) -> Option<Key> {
        let mut inner = lock(&self.inner);
        (!inner.closed).then(|| inner.entries.add(observer.clone()))
    }

    /// Takes an observer out, if it is there.
    fn remove(&self, key: Key) -> Option<Arc<Observer>> {
        lock(&self.inner).entries.remove(key)
    }

    /// Closes the list; gives the observers that are to be told.
    fn close(&self) -> ToFire {
        let entries = {
            let mut inner = lock(&self.inner);
            inner.closed = true;
            std::mem::take(&mut inner.entries)
        };
        entries.all.into_iter().filter_map(|(_, one)| one).collect()
    }
}

/// The observer's place in the list of its event.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Key(u64);

/// Observers in the order in which they were added, by ascending keys.
///
/// An observer is found by a binary search for its key. One that is taken out leaves its place
/// empty, and the places are closed up once most of them are. So a removal takes a step for each
/// doubling of their number, and a constant number of moves on average.
#[derive(Default)]
struct Entries {
    all: SmallVec<[(Key, Option<Arc<Observer>>); 2]>,
    /// The number of empty places.
    empty: usize,
    /// The number of observers that were added.
    added: u64,
}

impl Entries {
    fn add(&mut self, observer: Arc<Observer>) -> Key {
        let key = Key(self.added);
        self.added += 1;
        self.all.push((key, Some(observer)));
        key
    }

    fn remove(&mut self, key: Key) -> Option<Arc<Observer>> {
        let place = self.all.binary_search_by_key(&key, |(key, _)| *key).ok()?;
        let removed = self.all[place].1.take()?;
        self.empty += 1;
        if 2 * self.empty > self.all.len() {
            self.all.retain(|(_, observer)| observer.is_some());
            self.empty = 0;
        }
        Some(removed)
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    fn observer() -> Arc<Observer> {
        Observer::new(Action::Nothing)
    }

    /// The observers that are to be told, and no more places than twice their number.
    fn assert_holds(entries: &Entries, model: &[(Key, Arc<Observer>)]) {
        let held = entries.all.iter().filter_map(|(_, held)| held.as_ref());
        assert!(
            held.map(Arc::as_ptr)
                .eq(model.iter().map(|(_, one)| Arc::as_ptr(one)))
        );
        assert!(entries.all.len() <= 2 * model.len());
    }

    #[test]
    fn observers_are_those_of_a_plain_list_in_its_order() {
        let (mut entries, mut model) = (Entries::default(), Vec::new());
        let mut random = 1_u64;
        let mut removed = Vec::new();
        for step in 0..10_000 {
            random = random
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1);
            let choice = (random >> 33) as usize;
            // It grows at first, and shrinks later.
            let adds = choice % 10 < if step < 5_000 { 6 } else { 4 };
            if adds || model.is_empty() {
                let fresh = observer();
                model.push((entries.add(fresh.clone()), fresh));
            } else {
                let (key, one) = model.remove((choice >> 8) % model.len());
                assert!(entries.remove(key).is_some_and(|it| Arc::ptr_eq(&it, &one)));
                removed.push(key);
            }
            assert_holds(&entries, &model);
        }
        assert!(removed.into_iter().all(|key| entries.remove(key).is_none()));
        assert_holds(&entries, &model);
    }

    /// So many that a removal which looks at each of them does not end within a test's time.
    #[test]
    fn many_observers_are_taken_out_in_any_order() {
        const COUNT: usize = 200_000;
        /// Prime, so that its multiples come to each.
        const STRIDE: usize = 7_919;
        let one = observer();
        let orders: [fn(usize) -> usize; 3] = [
            |index| index,
            |index| COUNT - 1 - index,
            |index| index * STRIDE % COUNT,
        ];
        for order in orders {
            let mut entries = Entries::default();
            let keys: Vec<Key> = (0..COUNT).map(|_| entries.add(one.clone())).collect();
            for index in 0..COUNT {
                assert!(entries.remove(keys[order(index)]).is_some());
            }
            assert_holds(&entries, &[]);
        }
    }
}
