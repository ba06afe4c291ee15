//! Blocks run phase by phase: each phase between two barriers is a loop over the block's threads,
//! which the kernel has written out ([`BlockKernel::run_phases`]). So a barrier costs nothing, and
//! a thread's work in a phase is compiled as a loop's body is.
//!
//! 1. [`Phases::next`] goes to the next block, and zeroes its shared memory.
//! 2. In each phase the kernel goes through [`rows`](Phases::rows) of neighbouring threads. It
//!    makes each thread's accelerator, and hands it its own parts of the outputs and its shared
//!    arrays, for this phase alone.
//! 3. A value that a thread keeps over a barrier is in a [`Kept`].

use std::cell::Cell;
use std::marker::PhantomData;
use std::ops::Range;

use super::{BlockLaunch, BlockScratch};
use crate::accelerator::{Accelerator, BlockAccelerator, Measured};
use crate::barrier::{BarrierState, Polling};
use crate::division::WorkDivision;
use crate::error::KernelError;
use crate::extent::{Extent, Vector};
use crate::kernel::BlockKernel;
use crate::level::{Level, Share, Work};
use crate::partition::{Own, Partition};
use crate::shared::{BlockContext, Phase, SHARED_ALIGNMENT, Shared, turned};

/// The loop over some groups.
pub(super) struct Groups<'l, 'a, K: BlockKernel<D>, const D: usize> {
    pub(super) launch: &'l BlockLaunch<'a, K, D>,
    pub(super) scratch: &'l mut BlockScratch,
    pub(super) groups: Range<usize>,
}

impl<K: BlockKernel<D>, const D: usize> Work for Groups<'_, '_, K, D> {
    type Output = Result<(), KernelError>;

    #[inline]
    fn share(&self) -> Share {
        Share {
            groups: self.groups.len(),
            of: self.launch.division.block_count(),
        }
    }

    #[inline(always)]
    fn run<L: Level>(self) -> Result<(), KernelError> {
        let Self {
            launch,
            scratch,
            groups,
        } = self;
        let memory = scratch.reserve(launch.shared_bytes, SHARED_ALIGNMENT)?;
        let context = BlockContext {
            block: std::ptr::from_ref(launch).cast(),
            runs_alone: true,
            watched: false,
        };
        // Nothing is awaited, but a future may be made and forgotten.
        let _polling = Polling::begin();
        launch.kernel.run_phases(&Phases::<'_, '_, K, L, D> {
            launch,
            division: launch.division,
            memory,
            // SAFETY: so many bytes were reserved as the plan says, and the scratch is borrowed.
            shared: unsafe { launch.shared.attach(memory, &context) },
            barrier: BarrierState::new(),
            next: Cell::new(groups.start),
            end: groups.end,
            block: Cell::new(Vector::ZERO),
            level: PhantomData,
        })
    }
}

/// The blocks that a kernel runs phase by phase, one after the other.
#[doc(hidden)]
pub struct Phases<'l, 'a, K: BlockKernel<D>, L, const D: usize> {
    launch: &'l BlockLaunch<'a, K, D>,
    division: WorkDivision<D>,
    memory: *mut u8,
    shared: <K::Shared as Shared>::Attached,
    barrier: BarrierState,
    next: Cell<usize>,
    end: usize,
    block: Cell<Vector<D>>,
    level: PhantomData<L>,
}

impl<K: BlockKernel<D>, L, const D: usize> std::fmt::Debug for Phases<'_, '_, K, L, D> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Phases({:?})", self.launch)
    }
}

/// A thread in one phase.
#[doc(hidden)]
#[derive(Debug)]
pub struct PhaseThread<'b, L, const D: usize> {
    division: &'b WorkDivision<D>,
    barrier: &'b BarrierState,
    block: Vector<D>,
    thread: Vector<D>,
    level: PhantomData<L>,
}

/// These are inherent, too: an index that is read unchecked is made of their answers, and no trait
/// of the kernel's crate is to give others.
impl<L: Level, const D: usize> PhaseThread<'_, L, D> {
    /// As [`Accelerator::index`].
    #[inline(always)]
    pub fn index<Origin: Measured<Unit>, Unit>(&self, origin: Origin, unit: Unit) -> Vector<D> {
        Accelerator::index(self, origin, unit)
    }

    /// As [`Accelerator::extent`].
    #[inline(always)]
    pub fn extent<Origin: Measured<Unit>, Unit>(&self, origin: Origin, unit: Unit) -> Extent<D> {
        Accelerator::extent(self, origin, unit)
    }

    /// As [`Accelerator::block_index`].
    #[inline(always)]
    pub fn block_index(&self) -> Vector<D> {
        self.block
    }

    /// As [`Accelerator::thread_index`].
    #[inline(always)]
    pub fn thread_index(&self) -> Vector<D> {
        self.thread
    }
}

impl<L: Level, const D: usize> Accelerator<D> for PhaseThread<'_, L, D> {
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

impl<L: Level, const D: usize> BlockAccelerator<D> for PhaseThread<'_, L, D> {
    type Port = BarrierState;

    #[inline(always)]
    fn port(&self) -> &BarrierState {
        self.barrier
    }
}

impl<'l, K: BlockKernel<D>, L: Level, const D: usize> Phases<'l, '_, K, L, D> {
    /// Goes to the next block, if there is one.
    #[inline(always)]
    pub fn next(&self) -> bool {
        let next = self.next.get();
        if next >= self.end {
            return false;
        }
        let Some(block) = self.division.grid_blocks().delinearise(next) else {
            return false;
        };
        self.block.set(block);
        self.next.set(next + 1);
        // SAFETY: so many bytes were reserved, and no thread uses them between blocks.
        unsafe { self.memory.write_bytes(0, self.launch.shared_bytes) };
        true
    }

    /// The number of rows of neighbouring threads of a block.
    #[inline(always)]
    pub fn rows(&self) -> usize {
        let extent = self.division.block_threads();
        (0..D - 1).fold(1, |rows, d| rows * extent[d])
    }

    /// The number of threads of a row.
    #[inline(always)]
    pub fn row_length(&self) -> usize {
        self.division.block_threads()[D - 1]
    }

    /// A thread's accelerator, by its row and its number in the row.
    #[inline(always)]
    pub fn thread(&self, row: usize, last: usize) -> PhaseThread<'_, L, D> {
        let extent = self.division.block_threads();
        let mut thread = Vector::ZERO;
        let mut rest = row;
        for d in (0..D - 1).rev() {
            if d == 0 {
                thread[d] = rest;
            } else {
                thread[d] = rest % extent[d];
                rest /= extent[d];
            }
        }
        thread[D - 1] = last;
        PhaseThread {
            division: &self.division,
            barrier: &self.barrier,
            block: self.block.get(),
            thread,
            level: PhantomData,
        }
    }

    /// A thread's own parts of the outputs.
    ///
    /// # Safety
    /// A thread no longer uses parts that it was handed before, but for memory that all threads may
    /// read.
    #[inline(always)]
    pub unsafe fn own<'t>(&'t self, acc: &PhaseThread<'_, L, D>) -> Own<'t, K::Output, D> {
        // SAFETY: as the caller promises; nobody else runs this block, so the caller of
        // `run_groups` promises.
        unsafe { K::Output::own(&self.launch.output, acc) }
    }

    /// A thread's handles of the shared arrays, all of them in their write phase.
    ///
    /// # Safety
    /// As [`own`](Self::own).
    #[inline(always)]
    pub unsafe fn hand_out<'t>(&'t self, thread: usize) -> <K::Shared as Shared>::Write<'t> {
        // SAFETY: as the caller promises; the memory was zeroed as the block began.
        unsafe { K::Shared::hand_out(&self.shared, thread) }
    }

    /// Room for a value of each thread of a block.
    ///
    /// # Errors
    /// [`KernelError::OutOfMemory`].
    #[inline]
    pub fn kept<T: Copy>(&self) -> Result<Kept<T>, KernelError> {
        let threads = self.division.threads_per_block();
        let mut values = Vec::new();
        values
            .try_reserve_exact(threads)
            .map_err(|_| KernelError::OutOfMemory {
                bytes: threads.saturating_mul(size_of::<T>()),
            })?;
        Ok(Kept {
            start: values.as_mut_ptr(),
            _memory: values,
        })
    }

    /// A thread's value.
    ///
    /// # Safety
    /// It has been set.
    #[inline(always)]
    pub unsafe fn get<T: Copy>(&self, of: &Kept<T>, thread: usize) -> T {
        // SAFETY: as the caller promises.
        unsafe { of.at(thread).read() }
    }

    /// Sets a thread's value.
    ///
    /// # Safety
    /// The block has such a thread.
    #[inline(always)]
    pub unsafe fn set<T: Copy>(&self, of: &Kept<T>, thread: usize, value: T) {
        // SAFETY: there is room for all threads.
        unsafe { of.at(thread).write(value) };
    }

    /// Turns arrays at a barrier that is not awaited.
    ///
    /// # Safety
    /// As [`turned`].
    #[inline(always)]
    pub unsafe fn turn<P: Phase>(&self, arrays: P) -> P::Turned {
        // SAFETY: as the caller promises.
        unsafe { turned(arrays) }
    }
}

/// A variable of each thread of a block, over barriers.
#[doc(hidden)]
#[derive(Debug)]
pub struct Kept<T> {
    start: *mut T,
    /// The memory that it points to: in the capacity, as threads set their values one after the
    /// other.
    _memory: Vec<T>,
}

impl<T: Copy> Kept<T> {
    /// The address of a thread's value.
    ///
    /// # Safety
    /// The block has such a thread.
    #[inline(always)]
    pub(super) unsafe fn at(&self, thread: usize) -> *mut T {
        // SAFETY: there is room for all threads.
        unsafe { self.start.add(thread) }
    }
}
