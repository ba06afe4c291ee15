//! Launches with the kernel's type taken away: what a driver runs.
//!
//! [`erase`] and [`erase_block`] join a kernel, its output and a work division to a [`GroupKernel`],
//! which a driver knows as `dyn`. A driver splits its work-groups (blocks, counted in row-major order)
//! into ranges and runs these on as many workers as it likes, each with a [`BlockScratch`] of its own.
//! That is one dynamic call for a range; everything inside is compiled for the kernel, once for each
//! [feature level](crate::level).
//!
//! | threads are run by | when |
//! |---|---|
//! | `grid`: a loop | the kernel has no barriers |
//! | `phases`: a loop for each phase between barriers (`lanes`: of vectors) | it is a block kernel that has been written so, too |
//! | `polled`: polling them in turn | it is another block kernel |
//! | `lockstep`: polling them warp by warp | [`Execution::Lockstep`], or checking |
//! | `crowd`: threads of the operating system | [`Execution::OsThreads`] |

mod block;
mod crowd;
mod grid;
mod lanes;
mod lockstep;
mod options;
mod phases;
mod polled;
mod scratch;
mod test_thread;

use std::ops::Range;

pub use block::{BlockLaunch, erase_block};
pub use grid::{GridLaunch, erase};
pub use lanes::{Elements, LANES, Lanes, difference, product, sum};
pub use options::{Execution, RunOptions};
pub use phases::{Kept, Phases};
pub use scratch::BlockScratch;

use crate::division::WorkDivision;
use crate::error::KernelError;

/// A launch whose groups can be run in any order, on any thread, knowing nothing of the kernel.
pub trait GroupKernel: Send + Sync {
    /// How many groups there are. May be none.
    fn group_count(&self) -> u64;

    /// How many bytes the threads of each group share.
    fn shared_bytes(&self) -> usize {
        0
    }

    /// Runs some of the groups, one after the other. A panic of the kernel unwinds out of this, and
    /// leaves `scratch` as good as new.
    ///
    /// # Errors
    /// [`KernelError::GroupsOutOfRange`] before anything has run. Of a block kernel also what stopped a
    /// group: a barrier that not all of its threads reached, an await of something else, no memory. The
    /// groups before it have run then, those after it have not.
    ///
    /// # Safety
    /// No group is run while a call, of this thread or another, is running the same one. What the launch
    /// was made from (the memory behind its views) is still there.
    unsafe fn run_groups(
        &self,
        groups: Range<u64>,
        scratch: &mut BlockScratch,
    ) -> Result<(), KernelError>;

    /// Runs all of the groups, one after the other, on this thread.
    ///
    /// # Errors
    /// As [`run_groups`](Self::run_groups).
    fn run_all(&mut self, scratch: &mut BlockScratch) -> Result<(), KernelError> {
        let groups = 0..self.group_count();
        // SAFETY: `&mut self` says that no other call runs any group; views of safe code are borrows
        // that the launch keeps, and others are as their makers promised.
        unsafe { self.run_groups(groups, scratch) }
    }
}

/// Where a range of groups starts as a block number, and how long it is.
#[inline]
fn checked_range<const D: usize>(
    groups: &Range<u64>,
    division: &WorkDivision<D>,
) -> Result<Range<usize>, KernelError> {
    let count = division.block_count();
    let end = usize::try_from(groups.end).ok().filter(|end| *end <= count);
    match (usize::try_from(groups.start), end) {
        (Ok(start), Some(end)) => Ok(start..end),
        _ => Err(KernelError::GroupsOutOfRange {
            groups: groups.clone(),
            count: count as u64,
        }),
    }
}
