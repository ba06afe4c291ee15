//! A launch that several workers share.
//!
//! The groups are one range; a participant claims the next piece of it until
//! none is left: large pieces of neighbouring groups first, single groups
//! towards the end, so that participants finish together. No piece is longer than
//! makes claiming it cheap: groups may be of very different length, and a piece of
//! the longest is what the others wait for. *Tickets* in the
//! deque of the first participant invite the others. Each participant and each ticket counts;
//! whoever takes the count to zero finishes the command.

use quipu_core::error::Error;
use quipu_core::{Command, RawArgument};
use smallvec::SmallVec;
use std::cell::Cell;
use std::mem::ManuallyDrop;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

pub(crate) type Arguments = SmallVec<[RawArgument; 8]>;

pub(crate) struct Split {
    command: ManuallyDrop<Command>,
    pub(crate) arguments: Arguments,
    next: AtomicU64,
    end: u64,
    shares: u64,
    least: u64,
    most: u64,
    counted: AtomicU32,
    failed: AtomicBool,
    error: Mutex<Option<Error>>,
    pub(crate) device: u32,
}

/// How many of the groups that are left are claimed at once.
fn piece(left: u64, shares: u64, (least, most): (u64, u64)) -> u64 {
    (left / (2 * shares)).clamp(least, most).min(left)
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
    /// Shares the groups `range` of `command` in about `shares` ways, in pieces
    /// of at least and at most so many groups, or one. The caller is the first participant.
    pub(crate) fn new(
        command: Command,
        arguments: Arguments,
        range: Range<u32>,
        shares: usize,
        (least, most): (u64, u64),
        device: u32,
    ) -> Arc<Self> {
        let least = least.max(1);
        Arc::new(Self {
            command: ManuallyDrop::new(command),
            arguments,
            next: AtomicU64::new(u64::from(range.start)),
            end: u64::from(range.end),
            shares: shares as u64,
            least,
            most: most.max(least),
            counted: AtomicU32::new(1),
            failed: AtomicBool::new(false),
            error: Mutex::new(None),
            device,
        })
    }

    pub(crate) fn command(&self) -> &Command {
        &self.command
    }

    /// How many pieces of the least size are left to claim, at most.
    pub(crate) fn pieces_left(&self) -> usize {
        let left = self.end.saturating_sub(self.next.load(Ordering::Relaxed));
        usize::try_from(left / self.least).unwrap_or(usize::MAX)
    }

    /// Counts a ticket.
    pub(crate) fn count_ticket(&self) {
        self.counted.fetch_add(1, Ordering::Relaxed);
    }

    /// Claims the next piece.
    pub(crate) fn claim(&self) -> Option<Range<u32>> {
        if self.failed.load(Ordering::Relaxed) {
            return None;
        }
        let mut start = self.next.load(Ordering::Relaxed);
        loop {
            if start >= self.end {
                return None;
            }
            let left = self.end - start;
            let piece = piece(left, self.shares, (self.least, self.most));
            match self.next.compare_exchange_weak(
                start,
                start + piece,
                Ordering::Relaxed,
                Ordering::Relaxed,
            ) {
                // Group numbers fit 32 bits, as checked at enqueue.
                Ok(_) => return Some(start as u32..(start + piece) as u32),
                Err(now) => start = now,
            }
        }
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

#[cfg(test)]
mod tests {
    use super::*;

    /// Pieces in the order in which they are claimed.
    fn pieces(groups: u64, shares: u64, bounds: (u64, u64)) -> Vec<u64> {
        let mut left = groups;
        let next = || {
            let piece = (left > 0).then(|| piece(left, shares, bounds));
            left -= piece.unwrap_or(0);
            piece
        };
        std::iter::from_fn(next).collect()
    }

    #[test]
    fn pieces_shrink_and_are_all_groups() {
        assert_eq!(pieces(20, 2, (1, 20)), [5, 3, 3, 2, 1, 1, 1, 1, 1, 1, 1]);
        assert_eq!(pieces(20, 2, (6, 20)), [6, 6, 6, 2]);
        assert_eq!(pieces(0, 2, (1, 1)), []);
    }

    /// A quarter takes a hundred times as long as the rest: whoever had claimed all of it would end last by far.
    #[test]
    fn groups_of_different_length_end_together() {
        let cost = |group: u64| if group < 16 { 100 } else { 1 };
        let ends = |most: u64| {
            let (mut ends, mut first) = ([0, 0], 0);
            for piece in pieces(64, 2, (1, most)) {
                let idle = if ends[0] <= ends[1] { 0 } else { 1 };
                ends[idle] += (first..first + piece).map(cost).sum::<u64>();
                first += piece;
            }
            ends[0].abs_diff(ends[1])
        };
        assert!(ends(64) > 1500, "{}", ends(64));
        assert!(ends(1) <= 100, "{}", ends(1));
    }
}
