//! Launches of kernels with barriers, and the choice of how their blocks are run.

use std::fmt;
use std::ops::Range;

use super::test_thread::{Start, TestBlock, run_blocks, run_together};
use super::{BlockScratch, Execution, GroupKernel, Run, RunOptions, phases, polled};
use crate::division::WorkDivision;
use crate::error::KernelError;
use crate::kernel::BlockKernel;
use crate::level::{UNOPTIMISED, run_at};
use crate::partition::{Partition, View};
use crate::shared::{Shared, SharedPlan};

/// A [`BlockKernel`] with its output and work division: see [`erase_block`].
pub struct BlockLaunch<'a, K: BlockKernel<D>, const D: usize> {
    pub(super) kernel: K,
    pub(super) output: <K::Output as Partition<D>>::Plan<'a>,
    pub(super) shared: K::Shared,
    pub(super) shared_bytes: usize,
    pub(super) division: WorkDivision<D>,
}

/// A launch of `kernel` that writes `output`, divided as `division` says.
///
/// # Errors
/// The error of the kernel's partition about an output that it cannot share out, and
/// [`KernelError::OutOfMemory`] when no block could have so much shared memory.
#[inline]
pub fn erase_block<K: BlockKernel<D>, const D: usize>(
    kernel: K,
    output: View<'_, K::Output, D>,
    division: WorkDivision<D>,
) -> Result<BlockLaunch<'_, K, D>, KernelError> {
    let output = K::Output::plan(output, &division)?;
    let mut shared = kernel.shared(&division);
    let mut plan = SharedPlan::new(division.threads_per_block());
    shared.place(&mut plan)?;
    Ok(BlockLaunch {
        kernel,
        output,
        shared,
        shared_bytes: plan.bytes(),
        division,
    })
}

impl<K: BlockKernel<D>, const D: usize> fmt::Debug for BlockLaunch<'_, K, D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "BlockLaunch({}, {:?})",
            std::any::type_name::<K>(),
            self.division
        )
    }
}

impl<K: BlockKernel<D>, const D: usize> GroupKernel for BlockLaunch<'_, K, D> {
    fn group_count(&self) -> u64 {
        self.division.block_count() as u64
    }

    fn shared_bytes(&self) -> usize {
        self.shared_bytes
    }

    unsafe fn run_groups(
        &self,
        groups: Range<u64>,
        scratch: &mut BlockScratch,
    ) -> Result<(), KernelError> {
        let Some(run) = Run::of(&groups, &self.division, scratch)? else {
            return Ok(());
        };
        if K::WAITS_FOR_GRID {
            // All blocks run with the first one, so there is nothing left for the calls for others.
            return match run.groups.start {
                // SAFETY: the caller runs the first group once, and with it all groups are run
                // once.
                0 => unsafe { self.run_together(&run.options, scratch) },
                _ => Ok(()),
            };
        }
        // Not optimised, code that the macro wrote is run in the one way in which it can be
        // checked, and compiled for no other.
        if UNOPTIMISED && K::IS_WRITTEN {
            // SAFETY: each group is run once: `run_groups` asks its caller for the same.
            return unsafe { self.run_slowly(run, scratch) };
        }
        if run.options.execution != Execution::Native || run.options.check {
            // SAFETY: each group is run once: `run_groups` asks its caller for the same.
            return unsafe { self.run_slowly(run, scratch) };
        }
        if K::IN_PHASES {
            let work = phases::Groups {
                launch: self,
                scratch,
                groups: run.groups,
            };
            return run_at(run.options.level, work);
        }
        let work = polled::Groups {
            launch: self,
            scratch,
            block: run.block,
            groups: run.groups,
        };
        run_at(run.options.level, work)
    }
}

impl<K: BlockKernel<D>, const D: usize> BlockLaunch<'_, K, D> {
    /// Runs groups in one of the test modes.
    ///
    /// # Safety
    /// As [`GroupKernel::run_groups`].
    #[cold]
    unsafe fn run_slowly(
        &self,
        run: Run<D>,
        scratch: &mut BlockScratch,
    ) -> Result<(), KernelError> {
        let mut block = TestBlock::new(self, &run.options);
        // SAFETY: as the caller promises.
        unsafe { run_blocks(&mut block, run.groups, &run.options, scratch) }
    }

    /// Runs all groups, which wait for each other.
    ///
    /// # Safety
    /// As [`GroupKernel::run_groups`].
    unsafe fn run_together(
        &self,
        options: &RunOptions,
        scratch: &mut BlockScratch,
    ) -> Result<(), KernelError> {
        let blocks = 0..self.division.block_count();
        let mut blocks: Vec<_> = blocks.map(|_| TestBlock::new(self, options)).collect();
        let mut blocks: Vec<_> = blocks
            .iter_mut()
            .map(|block| block as &mut dyn Start)
            .collect();
        // SAFETY: these are all groups of the launch, and as the caller promises.
        unsafe { run_together(&mut blocks, options, scratch) }
    }
}
