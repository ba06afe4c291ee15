//! Launches of kernels without barriers: a loop over groups around a loop over threads.

use std::fmt;
use std::marker::PhantomData;
use std::ops::Range;

use super::{BlockScratch, GroupKernel, checked_range};
use crate::accelerator::Accelerator;
use crate::check::{self, Shadow, Watched};
use crate::division::WorkDivision;
use crate::error::KernelError;
use crate::extent::Vector;
use crate::kernel::Kernel;
use crate::level::{Level, Work, run_at};
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

/// A thread that is an iteration of the loop, in code for a feature level.
struct LoopThread<'l, L, const D: usize> {
    division: &'l WorkDivision<D>,
    block: Vector<D>,
    thread: Vector<D>,
    level: PhantomData<L>,
}

impl<L: Level, const D: usize> Accelerator<D> for LoopThread<'_, L, D> {
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

    #[inline(always)]
    fn block_runs_alone(&self) -> bool {
        true
    }
}

/// A thread of a launch that is checked.
struct CheckedThread<'l, const D: usize>(LoopThread<'l, crate::level::Baseline, D>);

impl<const D: usize> Accelerator<D> for CheckedThread<'_, D> {
    fn division(&self) -> &WorkDivision<D> {
        self.0.division
    }

    fn block_index(&self) -> Vector<D> {
        self.0.block
    }

    fn thread_index(&self) -> Vector<D> {
        self.0.thread
    }

    fn block_runs_alone(&self) -> bool {
        true
    }

    fn is_watched(&self) -> bool {
        true
    }
}

/// The loop over some groups, which start at `block`.
struct Groups<'l, 'a, K: Kernel<D>, const D: usize> {
    launch: &'l GridLaunch<'a, K, D>,
    block: Vector<D>,
    count: usize,
}

impl<K: Kernel<D>, const D: usize> Work for Groups<'_, '_, K, D> {
    type Output = ();

    #[inline(always)]
    fn run<L: Level>(self) {
        let launch = self.launch;
        // On the stack, where the optimiser sees that nobody changes it.
        let division = launch.division;
        let mut block = self.block;
        for _ in 0..self.count {
            let mut thread = Vector::ZERO;
            for _ in 0..division.threads_per_block() {
                let acc = LoopThread::<L, D> {
                    division: &division,
                    block,
                    thread,
                    level: PhantomData,
                };
                // SAFETY: this loop comes to each thread once, the caller of `run_groups` runs no group twice at a
                // time, and the kernel cannot keep what it is handed.
                let output = unsafe { K::Output::own(&launch.output, &acc) };
                launch.kernel.run(&acc, output);
                division.block_threads().advance(&mut thread);
            }
            division.grid_blocks().advance(&mut block);
        }
    }
}

impl<K: Kernel<D>, const D: usize> GridLaunch<'_, K, D> {
    /// As [`Groups::run`], and looks for mistakes.
    #[cold]
    fn run_checked(&self, groups: Range<usize>, mut block: Vector<D>) -> Result<(), KernelError> {
        let division = self.division;
        let shadow = Shadow::new(std::any::type_name::<K>());
        for group in groups {
            let mut position = Vector::ZERO;
            for thread in 0..division.threads_per_block() {
                let acc = CheckedThread(LoopThread {
                    division: &division,
                    block,
                    thread: position,
                    level: PhantomData,
                });
                let watched = Watched {
                    group: group as u64,
                    thread,
                    epoch: 0,
                };
                check::contained(&shadow, watched, || {
                    // SAFETY: as in `Groups::run`.
                    let output = unsafe { K::Output::own(&self.output, &acc) };
                    self.kernel.run(&acc, output);
                })?;
                division.block_threads().advance(&mut position);
            }
            division.grid_blocks().advance(&mut block);
        }
        shadow.verdict()
    }
}

impl<K: Kernel<D>, const D: usize> GroupKernel for GridLaunch<'_, K, D> {
    fn group_count(&self) -> u64 {
        self.division.block_count() as u64
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
        if options.check {
            return self.run_checked(groups, block);
        }
        let work = Groups {
            launch: self,
            block,
            count: groups.len(),
        };
        run_at(options.level, work);
        Ok(())
    }
}
