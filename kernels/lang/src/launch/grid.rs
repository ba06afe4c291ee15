//! Launches of kernels without barriers: a loop over groups around a loop over threads.

use std::fmt;
use std::ops::Range;

use super::{BlockScratch, GroupKernel, checked_range};
use crate::accelerator::Accelerator;
use crate::division::WorkDivision;
use crate::error::KernelError;
use crate::extent::Vector;
use crate::kernel::Kernel;
use crate::partition::{Partition, View};

/// A [`Kernel`] with its output and work division: see [`erase`].
pub struct GridLaunch<'a, K: Kernel<D>, const D: usize> {
    kernel: K,
    output: <K::Output as Partition<D>>::Plan<'a>,
    division: WorkDivision<D>,
}

/// A launch of `kernel` that writes `output`, divided as `division` says.
///
/// # Errors
/// What the kernel's partition says about an output that it cannot share out.
#[inline]
pub fn erase<K: Kernel<D>, const D: usize>(
    kernel: K,
    output: View<'_, K::Output, D>,
    division: WorkDivision<D>,
) -> Result<GridLaunch<'_, K, D>, KernelError> {
    Ok(GridLaunch {
        kernel,
        output: K::Output::plan(output, &division)?,
        division,
    })
}

impl<K: Kernel<D>, const D: usize> fmt::Debug for GridLaunch<'_, K, D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "GridLaunch({}, {:?})",
            std::any::type_name::<K>(),
            self.division
        )
    }
}

/// A thread that is an iteration of the loop.
struct LoopThread<'l, const D: usize> {
    division: &'l WorkDivision<D>,
    block: Vector<D>,
    thread: Vector<D>,
}

impl<const D: usize> Accelerator<D> for LoopThread<'_, D> {
    #[inline(always)]
    fn division(&self) -> &WorkDivision<D> {
        self.division
    }

    #[inline(always)]
    fn block_index(&self) -> Vector<D> {
        self.block
    }

    #[inline(always)]
    fn thread_index(&self) -> Vector<D> {
        self.thread
    }
}

impl<K: Kernel<D>, const D: usize> GroupKernel for GridLaunch<'_, K, D> {
    fn group_count(&self) -> u64 {
        self.division.block_count() as u64
    }

    unsafe fn run_groups(
        &self,
        groups: Range<u64>,
        _scratch: &mut BlockScratch,
    ) -> Result<(), KernelError> {
        let groups = checked_range(&groups, &self.division)?;
        // On the stack, where the optimiser sees that nobody changes it.
        let division = self.division;
        let Some(mut block) = division.grid_blocks().delinearise(groups.start) else {
            return Ok(());
        };
        for _ in groups {
            let mut thread = Vector::ZERO;
            for _ in 0..division.threads_per_block() {
                let acc = LoopThread {
                    division: &division,
                    block,
                    thread,
                };
                // SAFETY: this loop comes to each thread once, the caller runs no group twice at a
                // time, and the kernel cannot keep what it is handed.
                self.kernel
                    .run(&acc, unsafe { K::Output::own(&self.output, &acc) });
                division.block_threads().advance(&mut thread);
            }
            division.grid_blocks().advance(&mut block);
        }
        Ok(())
    }
}
