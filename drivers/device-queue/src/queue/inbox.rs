//! Commands that were submitted and that the [ledger](super::ledger) does not know yet.
//!
//! The thread that enqueues and the thread that puts commands on devices are mostly two on two
//! cores, and a line that both write goes from core to core for each command. So a thread that
//! submits writes here alone. The ledger takes over all commands that have come, in its order. It
//! does so as a thread begins to pump or is asked whether all is over, when there is nothing else
//! to do or much was done, and before it says that it does not know a command.
//!
//! A thread that flushes takes the lock, also if it sees no command without. A thread that submits
//! finds either that its queue is to be flushed again, or its command taken over by the thread that
//! flushed it.

use super::ledger::Facts;
use quipu_scheduler::driver::{CommandRef, DomainWait, Submission};
use quipu_scheduler::{EventId, Priority};
use smallvec::SmallVec;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Commands that are submitted before the drain thread is called to forward them: the enqueuing
/// thread goes on enqueuing.
const UNSEEN: usize = 64;

/// A command that was submitted.
pub(super) struct Submitted {
    pub(super) event: EventId,
    pub(super) held: CommandRef,
    pub(super) device: usize,
    pub(super) priority: Priority,
    pub(super) waits: SmallVec<[DomainWait; 2]>,
    pub(super) host_waits: u32,
    pub(super) facts: Facts,
}

impl Submitted {
    pub(super) fn new(submission: &Submission<'_>, facts: Facts) -> Self {
        Self {
            event: submission.id,
            held: submission.command,
            device: submission.queue.device_index(),
            priority: submission.queue.priority(),
            waits: submission.domain_waits.into(),
            host_waits: submission.host_waits,
            facts,
        }
    }
}

/// See the module.
#[derive(Default)]
pub(crate) struct Inbox {
    submitted: Mutex<Vec<Submitted>>,
    any: Any,
}

/// True if there are any: written as the first comes and as all are taken, and so seldom. It is
/// looked at often, and so apart from the words that are written for each.
#[derive(Default)]
#[repr(align(128))]
struct Any(AtomicBool);

impl Inbox {
    fn submitted(&self) -> MutexGuard<'_, Vec<Submitted>> {
        self.submitted
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a command. True if so many are there by now that the drain thread should look.
    pub(super) fn add(&self, new: Submitted) -> bool {
        let mut submitted = self.submitted();
        submitted.push(new);
        if submitted.len() == 1 {
            self.any.0.store(true, Ordering::Release);
        }
        submitted.len().is_multiple_of(UNSEEN)
    }

    /// False if there are none, as far as can be seen without the lock: a thread that was told of a
    /// command that is here sees that there are some.
    pub(super) fn has_any(&self) -> bool {
        self.any.0.load(Ordering::Acquire)
    }

    /// Takes all that are there, and leaves an empty list in their place.
    pub(super) fn take(&self, all: &mut Vec<Submitted>) {
        let mut submitted = self.submitted();
        self.any.0.store(false, Ordering::Relaxed);
        std::mem::swap(&mut *submitted, all);
    }
}
