//! Launches of kernels without barriers: a loop over groups around a loop over threads.

use std::fmt;
use std::marker::PhantomData;
use std::ops::Range;

use super::{BlockScratch, GroupKernel, Run};
use crate::accelerator::Accelerator;
use crate::check::{self, Shadow, Watched};
use crate::division::WorkDivision;
use crate::error::KernelError;
use crate::extent::Vector;
use crate::kernel::Kernel;
use crate::level::{Level, Share, UNOPTIMISED, Watching, Work, run_at};
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
/// The error of the kernel's partition about an output that it cannot share out.
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
    watched: bool,
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

    #[inline(always)]
    fn is_watched(&self) -> bool {
        L::watches(self.watched)
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

    #[inline]
    fn share(&self) -> Share {
        Share {
            groups: self.count,
            of: self.launch.division.block_count(),
        }
    }

    #[inline(always)]
    fn run<L: Level>(self) {
        // On the stack, where the optimiser sees that nothing changes it.
        let division = self.launch.division;
        let mut block = self.block;
        for _ in 0..self.count {
            let mut thread = Vector::ZERO;
            for _ in 0..division.threads_per_block() {
                // SAFETY: this loop comes to each thread once, and the caller of `run_groups` runs
                // no group twice at a time.
                unsafe {
                    self.launch.run_thread(LoopThread::<L, D> {
                        division: &division,
                        block,
                        thread,
                        watched: false,
                        level: PhantomData,
                    });
                }
                division.block_threads().advance(&mut thread);
            }
            division.grid_blocks().advance(&mut block);
        }
    }
}

impl<K: Kernel<D>, const D: usize> GridLaunch<'_, K, D> {
    /// Runs a thread.
    ///
    /// # Safety
    /// Called once for each thread of the launch at a time.
    #[inline(always)]
    unsafe fn run_thread<L: Level>(&self, acc: LoopThread<'_, L, D>) {
        // SAFETY: as the caller promises; and the kernel cannot keep its output.
        let output = unsafe { K::Output::own(&self.output, &acc) };
        self.kernel.run(&acc, output);
    }
}

/// A [`GridLaunch`] of any kernel: its threads, one by one.
pub(super) trait Threads<const D: usize> {
    /// Runs a thread, watched or not.
    ///
    /// # Safety
    /// Called once for each thread of the launch at a time.
    unsafe fn run_one(&self, block: Vector<D>, thread: Vector<D>, watched: bool);
}

impl<K: Kernel<D>, const D: usize> Threads<D> for GridLaunch<'_, K, D> {
    #[cfg_attr(not(unoptimised), cold)]
    unsafe fn run_one(&self, block: Vector<D>, thread: Vector<D>, watched: bool) {
        let acc = LoopThread::<Watching, D> {
            division: &self.division,
            block,
            thread,
            watched,
            level: PhantomData,
        };
        // SAFETY: as the caller promises.
        unsafe { self.run_thread(acc) };
    }
}

impl<const D: usize> Run<D> {
    /// Runs them thread by thread, and looks for mistakes if it is asked to. Compiled once for all
    /// kernels.
    ///
    /// # Safety
    /// As [`GroupKernel::run_groups`].
    #[cold]
    pub(super) unsafe fn one_by_one(
        self,
        kernel: &'static str,
        division: &WorkDivision<D>,
        threads: &dyn Threads<D>,
    ) -> Result<(), KernelError> {
        let shadow = self.options.check.then(|| Shadow::new(kernel));
        let mut block = self.block;
        for group in self.groups {
            let mut position = Vector::ZERO;
            for thread in 0..division.threads_per_block() {
                // SAFETY: this comes to each thread once, and the caller runs no group twice at a
                // time.
                let run = |watched| unsafe { threads.run_one(block, position, watched) };
                if let Some(shadow) = &shadow {
                    let watched = Watched {
                        group: group as u64,
                        thread,
                        epoch: 0,
                    };
                    check::contained(shadow, watched, || run(true))?;
                } else {
                    run(false);
                }
                division.block_threads().advance(&mut position);
            }
            division.grid_blocks().advance(&mut block);
        }
        shadow.map_or(Ok(()), |shadow| shadow.verdict())
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
        let Some(run) = Run::of(&groups, &self.division, scratch)? else {
            return Ok(());
        };
        // Not optimised, there is one loop for all kernels.
        if UNOPTIMISED || run.options.check {
            // SAFETY: each group is run once: `run_groups` asks its caller for the same.
            return unsafe { run.one_by_one(std::any::type_name::<K>(), &self.division, self) };
        }
        let work = Groups {
            launch: self,
            block: run.block,
            count: run.groups.len(),
        };
        run_at(run.options.level, work);
        Ok(())
    }
}
