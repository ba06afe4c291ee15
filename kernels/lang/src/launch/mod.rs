//! Launches with the kernel's type taken away: drivers run them.
//!
//! [`erase`] and [`erase_block`] join a kernel, its output and a work division to a
//! [`GroupKernel`], which a driver knows as `dyn`. A driver splits its work-groups (blocks, counted
//! in row-major order) into ranges and runs these on as many workers as it likes, each with a
//! [`BlockScratch`] of its own. That is one dynamic call for a range; everything inside is compiled
//! for the kernel, once for each [feature level](crate::level).
//!
//! | threads are run by | condition |
//! |---|---|
//! | `grid`: a loop | the kernel has no barriers |
//! | `phases`: a loop for each phase between barriers (`lanes`: of vectors) | it is a block kernel that has been written so, too |
//! | `polled`: polling them in turn | it is another block kernel |
//! | `lockstep`: polling them warp by warp | [`Execution::Lockstep`], or checking; or blocks wait for each other at barriers of the grid |
//! | `crowd`: threads of the operating system | [`Execution::OsThreads`] |
//!
//! Where this crate is not optimised, `lockstep` stands for `phases` and `polled`, and one loop is
//! compiled for all kernels without barriers: see [`level`](crate::level).

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
pub use lanes::{Elements, Lanes, difference, product, sum};
pub use options::{Execution, RunOptions};
pub use phases::{Kept, Phases};
pub use scratch::BlockScratch;

use crate::division::WorkDivision;
use crate::error::KernelError;
use crate::extent::Vector;
use crate::level::UNOPTIMISED;

/// A launch whose groups can be run in any order, on any thread, knowing nothing of the kernel.
pub trait GroupKernel: Send + Sync {
    /// The number of groups. May be zero.
    fn group_count(&self) -> u64;

    /// The number of bytes that the threads of each group share.
    fn shared_bytes(&self) -> usize {
        0
    }

    /// Runs some of the groups, one after the other. A panic of the kernel unwinds out of this, and
    /// leaves `scratch` as good as new.
    ///
    /// # Errors
    /// [`KernelError::GroupsOutOfRange`] before anything has run. Of a block kernel also the fault
    /// that stopped a group: a barrier that not all of its threads reached, an await of something
    /// else, no memory. The groups before it have run then, those after it have not.
    ///
    /// # Safety
    /// No group is run while a call, of this thread or another, is running the same one. The memory
    /// behind the launch's views is still there.
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
        // SAFETY: `&mut self` says that no other call runs any group; views of safe code are
        // borrows that the launch keeps, and others are as their makers promised.
        unsafe { self.run_groups(groups, scratch) }
    }
}

/// Groups to run one after the other, and how.
struct Run<const D: usize> {
    groups: Range<usize>,
    /// The first of them.
    block: Vector<D>,
    options: RunOptions,
}

impl<const D: usize> Run<D> {
    /// `None` if there are no such groups.
    #[cfg_attr(not(unoptimised), inline)]
    fn of(
        groups: &Range<u64>,
        division: &WorkDivision<D>,
        scratch: &BlockScratch,
    ) -> Result<Option<Self>, KernelError> {
        let groups = checked_range(groups, division)?;
        let Some(block) = division.grid_blocks().delinearise(groups.start) else {
            return Ok(None);
        };
        Ok(Some(Self {
            groups,
            block,
            options: scratch.options()?,
        }))
    }
}

/// Has the code that launches of up to three dimensions have in common compiled with this crate,
/// where it is not optimised. rustc takes generic code from there, and crates with kernels need not
/// compile it again.
#[doc(hidden)]
pub fn compiled_here() -> usize {
    fn of<const D: usize>() -> usize {
        let begin: fn(&Range<u64>, &WorkDivision<D>, &BlockScratch) -> _ = Run::<D>::of;
        let threads: unsafe fn(Run<D>, _, &WorkDivision<D>, &dyn grid::Threads<D>) -> _ =
            Run::<D>::one_by_one;
        begin as usize ^ threads as usize
    }
    if UNOPTIMISED {
        of::<1>() ^ of::<2>() ^ of::<3>()
    } else {
        0
    }
}

/// The block number at which a range of groups starts, and its length.
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
