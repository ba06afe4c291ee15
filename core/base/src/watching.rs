//! Watchers: futures and callbacks for which later enqueues are flushed. Counts them, by context.
//!
//! A future cannot flush again and again as a thread that waits does, so an enqueue does it in its place: see the core's
//! `queue::flush`.

use crate::process;
use smallvec::SmallVec;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering, fence};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// True once there was a queue whose driver needs flushes.
static IS_NEEDED: AtomicBool = AtomicBool::new(false);
/// The number of futures and callbacks that are registered, and not told yet.
static WATCHERS: AtomicUsize = AtomicUsize::new(0);
/// The number of them that came before any driver needed flushes.
static EARLY_WATCHERS: AtomicUsize = AtomicUsize::new(0);
/// The numbers of the others, by the context of their events; `None` is the host's.
static WATCHED: Mutex<BTreeMap<Option<u32>, usize>> = Mutex::new(BTreeMap::new());

fn watched() -> MutexGuard<'static, BTreeMap<Option<u32>, usize>> {
    WATCHED.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A future or a callback for an event. Dropped when it is told, or wants nothing any more.
#[derive(Debug)]
pub struct Watching(Whose);

#[derive(Debug)]
enum Whose {
    /// A watcher from before any driver needed flushes: the context of its event was not noted.
    Early,
    /// A watcher of an event of this context, or of the host's.
    Of(Option<u32>),
}

impl Watching {
    /// One that is about to be registered, of an event of this context or of the host. It flushes afterwards.
    #[must_use]
    pub fn new(context: Option<u32>) -> Self {
        if process::is_forked() {
            // Another thread may have had the lock, and nothing is flushed here.
            return Self(Whose::Early);
        }
        let whose = if is_needed() {
            *watched().entry(context).or_insert(0) += 1;
            Whose::Of(context)
        } else {
            EARLY_WATCHERS.fetch_add(1, Ordering::Relaxed);
            Whose::Early
        };
        WATCHERS.fetch_add(1, Ordering::Relaxed);
        fence(Ordering::SeqCst);
        Self(whose)
    }
}

impl Drop for Watching {
    fn drop(&mut self) {
        if process::is_forked() {
            // Another thread may have had the lock.
            return;
        }
        match self.0 {
            Whose::Early => {
                EARLY_WATCHERS.fetch_sub(1, Ordering::Relaxed);
            }
            Whose::Of(context) => {
                let mut watched = watched();
                let count = watched.entry(context).or_insert(1);
                *count -= 1;
                if *count == 0 {
                    watched.remove(&context);
                }
            }
        }
        WATCHERS.fetch_sub(1, Ordering::Relaxed);
    }
}

/// A queue comes into being whose driver needs flushes.
pub fn note_need() {
    IS_NEEDED.store(true, Ordering::Relaxed);
}

/// True if any driver of the process needs flushes.
#[inline]
#[must_use]
pub fn is_needed() -> bool {
    IS_NEEDED.load(Ordering::Relaxed)
}

/// True if there are watchers. A thread that has enqueued a command looks after a fence.
#[inline]
#[must_use]
pub fn are_there_any() -> bool {
    WATCHERS.load(Ordering::Relaxed) > 0
}

/// The contexts whose events are watched; none if there are watchers of the host's events, or of events that were not noted.
#[must_use]
pub fn contexts() -> Option<SmallVec<[u32; 4]>> {
    if EARLY_WATCHERS.load(Ordering::Relaxed) > 0 {
        return None;
    }
    watched().keys().copied().collect()
}
