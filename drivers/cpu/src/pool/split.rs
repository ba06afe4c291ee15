//! A launch that several workers share.
//!
//! Participants claim pieces of it until none is left ([`Parts`]). The first invites others
//! ([`Invitation`]), or hands in *tickets* where not all workers may come. Each participant, each
//! invited worker that may still come and each ticket counts. The one that takes the count to zero
//! finishes the command.
//!
//! [`Invitation`]: super::invitation::Invitation

use super::invitation::Number;
use super::parts::Parts;
use quipu_scheduler::error::Error;
use quipu_scheduler::{Command, RawArgument};
use smallvec::SmallVec;
use std::cell::Cell;
use std::mem::ManuallyDrop;
use std::ops::{Deref, Range};
use std::ptr::NonNull;
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
    /// The place and the number of the invitation by which others come, if there is one.
    invitation: Option<(usize, Number)>,
}

/// One participation that is counted in a shared launch. The launch is there until the last has
/// [left](Participation::leave).
pub(crate) struct Participation(NonNull<Split>);

/// One participation in a shared launch, handed in.
pub(crate) struct Ticket {
    pub(crate) split: Participation,
    /// The next in the list of tasks that it is in.
    pub(crate) link: Cell<u64>,
}

// SAFETY: the command is only looked at until the last participant takes it; arguments are plain
// pointers to memory that the command may touch.
unsafe impl Send for Split {}
// SAFETY: as above.
unsafe impl Sync for Split {}

// SAFETY: a participant may do its work on the launch on any thread.
unsafe impl Send for Participation {}

impl Deref for Participation {
    type Target = Split;

    fn deref(&self) -> &Split {
        // SAFETY: it is there until the last participation is given up.
        unsafe { self.0.as_ref() }
    }
}

impl Participation {
    /// The first.
    pub(crate) fn begin(
        command: Command,
        arguments: Arguments,
        groups: Parts,
        device: u32,
    ) -> Self {
        let split = Box::new(Split {
            command: ManuallyDrop::new(command),
            arguments,
            groups,
            counted: AtomicU32::new(1),
            failed: AtomicBool::new(false),
            error: Mutex::new(None),
            device,
            invitation: None,
        });
        Self(NonNull::from(Box::leak(split)))
    }

    /// Counts so many more, which come by this invitation; gives the word for each of them. Called
    /// by the first, before there are others.
    pub(crate) fn invite(&mut self, count: u32, place: usize, number: Number) -> u64 {
        // SAFETY: there is nobody else.
        let split = unsafe { self.0.as_mut() };
        split.invitation = Some((place, number));
        split.counted.fetch_add(count, Ordering::Relaxed);
        self.0.expose_provenance().get() as u64
    }

    /// The participation of a worker that was invited.
    ///
    /// # Safety
    /// Called once for each worker that was counted as invited, with the word of the invitation.
    pub(crate) unsafe fn invited(word: u64) -> Self {
        let pointer = std::ptr::with_exposed_provenance_mut(word as usize);
        // SAFETY: as the caller says, it is of a launch that is there.
        Self(unsafe { NonNull::new_unchecked(pointer) })
    }

    /// One more.
    pub(crate) fn another(&self) -> Self {
        self.counted.fetch_add(1, Ordering::Relaxed);
        Self(self.0)
    }

    /// Takes so many invited workers, which do not come, off the count.
    pub(crate) fn without(&self, count: u32) {
        // This one is counted: it is not the last.
        self.counted.fetch_sub(count, Ordering::Relaxed);
    }

    /// Gives it up; the last gets the command to finish.
    pub(crate) fn leave(self) -> Option<(Command, Result<(), Error>)> {
        if self.counted.fetch_sub(1, Ordering::AcqRel) != 1 {
            return None;
        }
        // SAFETY: made of a box, and nobody looks at it any more but this, the last.
        let split = unsafe { Box::from_raw(self.0.as_ptr()) };
        let error = split.error.into_inner();
        let error = error.unwrap_or_else(PoisonError::into_inner);
        let command = ManuallyDrop::into_inner(split.command);
        Some((command, error.map_or(Ok(()), Err)))
    }
}

impl Split {
    pub(crate) fn command(&self) -> &Command {
        &self.command
    }

    /// The number of pieces of the least size that are left to claim.
    pub(crate) fn pieces_left(&self) -> usize {
        self.groups.pieces_left()
    }

    /// The place and the number of the invitation by which others come.
    pub(crate) fn invitation(&self) -> Option<(usize, Number)> {
        self.invitation
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
        let mut first = self.error.lock().unwrap_or_else(PoisonError::into_inner);
        let later = if first.is_none() {
            first.replace(error)
        } else {
            Some(error)
        };
        drop(first);
        // With nothing locked: an error carries a user's code.
        drop(later);
    }
}
