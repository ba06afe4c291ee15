//! Launches of kernels with barriers, and the choice of how their blocks are run.

use std::fmt;
use std::mem::MaybeUninit;
use std::ops::Range;

use super::test_thread::{Test, TestBlock};
use super::{BlockScratch, Execution, GroupKernel, checked_range, crowd, lockstep, phases, polled};
use crate::barrier::BlockOf;
use crate::check::Shadow;
use crate::division::WorkDivision;
use crate::error::KernelError;
use crate::extent::Vector;
use crate::kernel::BlockKernel;
use crate::level::run_at;
use crate::partition::{Partition, View};
use crate::shared::{BlockContext, Shared, SharedPlan};

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
/// What the kernel's partition says about an output that it cannot share out, and
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
        let groups = checked_range(&groups, &self.division)?;
        let Some(block) = self.division.grid_blocks().delinearise(groups.start) else {
            return Ok(());
        };
        let options = scratch.options()?;
        if options.execution == Execution::Native && !options.check {
            if K::IN_PHASES {
                let work = phases::Groups {
                    launch: self,
                    scratch,
                    groups,
                };
                return run_at(options.level, work);
            }
            let work = polled::Groups {
                launch: self,
                scratch,
                block,
                groups,
            };
            return run_at(options.level, work);
        }
        let shadow = options
            .check
            .then(|| Shadow::new(std::any::type_name::<K>()));
        // SAFETY: as the caller promises.
        unsafe { self.run_slowly(groups, block, options.execution, shadow.as_ref(), scratch) }?;
        shadow.map_or(Ok(()), |shadow| shadow.verdict())
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
        groups: Range<usize>,
        mut block: Vector<D>,
        execution: Execution,
        shadow: Option<&Shadow>,
        scratch: &mut BlockScratch,
    ) -> Result<(), KernelError> {
        let (warp_size, runs_alone) = match execution {
            Execution::Native => (1, true),
            Execution::Lockstep { warp_size } => (warp_size.clamp(1, 64), true),
            Execution::OsThreads { warp_size } => (warp_size.clamp(1, 64), false),
        };
        for group in groups {
            let memory = scratch.zeroed(self.shared_bytes)?;
            if let Some(shadow) = shadow {
                shadow.forget(memory.addr()..memory.addr() + self.shared_bytes);
            }
            // The arrays say which block they are of by where they are.
            let mut arrays = MaybeUninit::<<K::Shared as Shared>::Attached>::uninit();
            let context = BlockContext {
                block: arrays.as_ptr().cast(),
                runs_alone,
                watched: shadow.is_some(),
            };
            // SAFETY: so many bytes were reserved and zeroed as the plan says, and the scratch is borrowed.
            let arrays = arrays.write(unsafe { self.shared.attach(memory, &context) });
            let block_of_kernel = TestBlock {
                launch: self,
                block,
                arrays,
                warp_size,
                runs_alone,
                watched: shadow.is_some(),
            };
            let test = Test {
                block: &block_of_kernel,
                of: BlockOf {
                    kernel: std::any::type_name::<K>(),
                    group: group as u64,
                },
                threads: self.division.threads_per_block(),
                shadow,
            };
            if runs_alone {
                lockstep::run_block(&test, warp_size as usize)?;
            } else {
                crowd::run_block(&test, warp_size as usize)?;
            }
            self.division.grid_blocks().advance(&mut block);
        }
        Ok(())
    }
}
