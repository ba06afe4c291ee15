//! A launch that several workers share.
//!
//! Participants claim pieces of it until none is left ([`Parts`]). *Tickets* in the
//! deque of the first participant invite the others. Each participant and each ticket counts;
//! whoever takes the count to zero finishes the command.

use super::parts::Parts;
use quipu_core::error::Error;
use quipu_core::{Command, RawArgument};
use smallvec::SmallVec;
use std::cell::Cell;
use std::mem::ManuallyDrop;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Mutex, PoisonError};

pub(crate) type Arguments = SmallVec<[RawArgument; 8]>;

pub(crate) struct Split {
    command: ManuallyDrop<Command>,
    pub(crate) arguments: Arguments,
    groups: Parts,
    counted: AtomicU32,
    failed: AtomicBool,
    error: Mutex<Option<Error>>,
    pub(crate) device: u32,
}

/// An invitation to share a launch.
pub(crate) struct Ticket {
    pub(crate) split: Arc<Split>,
    /// The next in the list of tasks that it is in.
    pub(crate) link: Cell<u64>,
}

// SAFETY: the command is only looked at until the last participant takes it;
// arguments are plain pointers to what the command may touch.
unsafe impl Send for Split {}
// SAFETY: as above.
unsafe impl Sync for Split {}

impl Split {
    /// The caller is the first participant.
    pub(crate) fn new(
        command: Command,
        arguments: Arguments,
        groups: Parts,
        device: u32,
    ) -> Arc<Self> {
        Arc::new(Self {
            command: ManuallyDrop::new(command),
            arguments,
            groups,
            counted: AtomicU32::new(1),
            failed: AtomicBool::new(false),
            error: Mutex::new(None),
            device,
        })
    }

    pub(crate) fn command(&self) -> &Command {
        &self.command
    }

    /// How many pieces of the least size are left to claim.
    pub(crate) fn pieces_left(&self) -> usize {
        self.groups.pieces_left()
    }

    /// Counts a ticket.
    pub(crate) fn count_ticket(&self) {
        self.counted.fetch_add(1, Ordering::Relaxed);
    }

    /// Claims the next piece, as [`Parts::claim`] does.
    pub(crate) fn claim(&self, worker: Option<usize>) -> Option<Range<u32>> {
        if self.failed.load(Ordering::Relaxed) {
            return None;
        }
        self.groups.claim(worker)
    }

    /// Keeps the first error; nobody claims another piece.
    pub(crate) fn fail(&self, error: Error) {
        self.failed.store(true, Ordering::Relaxed);
        self.error
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .get_or_insert(error);
    }

    /// Ends one participation; the last gets the command to finish.
    pub(crate) fn leave(&self) -> Option<(Command, Result<(), Error>)> {
        if self.counted.fetch_sub(1, Ordering::AcqRel) != 1 {
            return None;
        }
        // SAFETY: the last participant takes the command, once; nobody looks
        // at it any more.
        let command = unsafe { std::ptr::read(&*self.command) };
        let error = self
            .error
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .take();
        Some((command, error.map_or(Ok(()), Err)))
    }
}
