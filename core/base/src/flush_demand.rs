//! Flush demands: each stands for a future, a callback or a long wait for which later enqueues are
//! flushed. They are counted by context.
//!
//! None of these flushes again and again, so an enqueue does it in its place: see the core's
//! `queue::flush`.

use crate::process;
use crate::sync::lock;
use smallvec::SmallVec;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering, fence};
use std::sync::{Mutex, MutexGuard};

/// True once there was a queue whose driver needs flushes.
static IS_NEEDED: AtomicBool = AtomicBool::new(false);
/// The number of demands.
static DEMANDS: AtomicUsize = AtomicUsize::new(0);
/// The number of them that came before any driver needed flushes.
static EARLY_DEMANDS: AtomicUsize = AtomicUsize::new(0);
/// The numbers of the others, by the context of their events; `None` is the host's.
static BY_CONTEXT: Mutex<BTreeMap<Option<u32>, usize>> = Mutex::new(BTreeMap::new());

fn by_context() -> MutexGuard<'static, BTreeMap<Option<u32>, usize>> {
    lock(&BY_CONTEXT)
}

/// The flush demand of a future, a callback or a wait for an event. Dropped when that is told, or
/// wants nothing any more.
#[derive(Debug)]
pub struct FlushDemand(Whose);

#[derive(Debug)]
enum Whose {
    /// A demand from before any driver needed flushes: the context of its event was not noted.
    Early,
    /// A demand for an event of this context, or of the host's.
    Of(Option<u32>),
}

impl FlushDemand {
    /// The demand of an observer that is registered, or about to be, for an event of this context
    /// or of the host. Its owner flushes after that.
    #[must_use]
    pub fn new(context: Option<u32>) -> Self {
        if process::is_forked() {
            // Another thread may have had the lock, and nothing is flushed here.
            return Self(Whose::Early);
        }
        let whose = if is_needed() {
            *by_context().entry(context).or_insert(0) += 1;
            Whose::Of(context)
        } else {
            EARLY_DEMANDS.fetch_add(1, Ordering::Relaxed);
            Whose::Early
        };
        DEMANDS.fetch_add(1, Ordering::Relaxed);
        fence(Ordering::SeqCst);
        Self(whose)
    }
}

impl Drop for FlushDemand {
    fn drop(&mut self) {
        if process::is_forked() {
            // Another thread may have had the lock.
            return;
        }
        match self.0 {
            Whose::Early => {
                EARLY_DEMANDS.fetch_sub(1, Ordering::Relaxed);
            }
            Whose::Of(context) => {
                let mut demands = by_context();
                let count = demands.entry(context).or_insert(1);
                *count -= 1;
                if *count == 0 {
                    demands.remove(&context);
                }
            }
        }
        DEMANDS.fetch_sub(1, Ordering::Relaxed);
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

/// True if there are demands. A thread that has enqueued a command looks after a fence.
#[inline]
#[must_use]
pub fn are_there_any() -> bool {
    DEMANDS.load(Ordering::Relaxed) > 0
}

/// The contexts with demands; none if there are demands for the host's events, or for events that
/// were not noted.
#[must_use]
pub fn contexts() -> Option<SmallVec<[u32; 4]>> {
    if EARLY_DEMANDS.load(Ordering::Relaxed) > 0 {
        return None;
    }
    by_context().keys().copied().collect()
}
