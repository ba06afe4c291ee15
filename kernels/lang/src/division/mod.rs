//! The division of a launch's work: a grid of blocks, a block of threads, a thread of elements.
//!
//! Blocks are independent of each other and run in any order, on any core. The threads of a block
//! can wait for each other and share memory. A thread goes through its elements one after the
//! other; on a native device, where a thread is a loop, that is the level to put the work at.
//!
//! Invariants of a [`WorkDivision`], checked when it is made: no block is without a thread and no
//! thread without an element; and the blocks, the threads and the elements of the whole grid can
//! each be counted by a `usize`, in every dimension and in all. So code that holds one multiplies
//! without checking. A grid of zero blocks is valid and does nothing.

mod bounds;
mod limits;
mod occupancy;
mod subdivide;

pub use bounds::LaunchBounds;
pub use limits::{AcceleratorLimits, PerDimension};
pub use occupancy::{KernelResources, Multiprocessor, Occupancy};
pub use subdivide::Subdivision;

use crate::error::KernelError;
use crate::extent::Extent;

/// The extents of a launch: blocks of a grid, threads of a block, elements of a thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WorkDivision<const D: usize> {
    grid_blocks: Extent<D>,
    block_threads: Extent<D>,
    thread_elements: Extent<D>,
}

impl<const D: usize> WorkDivision<D> {
    /// Exactly these extents.
    ///
    /// ```
    /// use quipu_kernel::WorkDivision;
    ///
    /// let division = WorkDivision::new([16, 4], [8, 32], [1, 4])?;
    /// assert_eq!(division.block_count(), 64);
    /// assert_eq!(division.grid_elements().components(), [128, 512]);
    /// # Ok::<(), quipu_kernel::KernelError>(())
    /// ```
    ///
    /// # Errors
    /// [`KernelError::EmptyBlock`] for a block of no threads or a thread of no elements,
    /// [`KernelError::ExtentOverflow`] when the grid's elements cannot be counted.
    pub fn new(
        grid_blocks: impl Into<Extent<D>>,
        block_threads: impl Into<Extent<D>>,
        thread_elements: impl Into<Extent<D>>,
    ) -> Result<Self, KernelError> {
        let (grid_blocks, block_threads, thread_elements) = (
            grid_blocks.into(),
            block_threads.into(),
            thread_elements.into(),
        );
        if block_threads.is_empty() || thread_elements.is_empty() {
            return Err(KernelError::EmptyBlock {
                block_threads: block_threads.components().to_vec(),
                thread_elements: thread_elements.components().to_vec(),
            });
        }
        let division = Self {
            grid_blocks,
            block_threads,
            thread_elements,
        };
        // An empty grid hides no overflow: every dimension that is not empty still has to multiply.
        let nonempty = Extent::from_fn(|dimension| grid_blocks[dimension].max(1));
        let elements = nonempty
            .checked_scale(block_threads)
            .and_then(|threads| threads.checked_scale(thread_elements));
        match elements.and_then(|elements| elements.checked_count()) {
            Some(_) => Ok(division),
            None => Err(KernelError::ExtentOverflow {
                what: "a work division",
                extents: [grid_blocks, block_threads, thread_elements]
                    .map(|one| one.components().to_vec())
                    .to_vec(),
            }),
        }
    }

    /// Checks that a device with such limits can run it.
    ///
    /// # Errors
    /// [`KernelError::ExceedsLimits`], with everything that is too large and all of the limits.
    pub fn validate(&self, limits: &AcceleratorLimits) -> Result<(), KernelError> {
        limits.check(self)
    }

    /// The grid's extent in blocks.
    #[inline(always)]
    pub fn grid_blocks(&self) -> Extent<D> {
        self.grid_blocks
    }

    /// A block's extent in threads.
    #[inline(always)]
    pub fn block_threads(&self) -> Extent<D> {
        self.block_threads
    }

    /// A thread's extent in elements.
    #[inline(always)]
    pub fn thread_elements(&self) -> Extent<D> {
        self.thread_elements
    }

    /// The grid's extent in threads.
    #[inline(always)]
    pub fn grid_threads(&self) -> Extent<D> {
        self.grid_blocks.known_scale(self.block_threads)
    }

    /// The grid's extent in elements.
    #[inline(always)]
    pub fn grid_elements(&self) -> Extent<D> {
        self.grid_threads().known_scale(self.thread_elements)
    }

    /// A block's extent in elements.
    #[inline(always)]
    pub fn block_elements(&self) -> Extent<D> {
        self.block_threads.known_scale(self.thread_elements)
    }

    /// The number of blocks of the grid.
    #[inline(always)]
    pub fn block_count(&self) -> usize {
        self.grid_blocks.product()
    }

    /// The number of threads of a block.
    #[inline(always)]
    pub fn threads_per_block(&self) -> usize {
        self.block_threads.product()
    }

    /// The number of elements of a thread.
    #[inline(always)]
    pub fn elements_per_thread(&self) -> usize {
        self.thread_elements.product()
    }

    /// The number of elements along each dimension of `extent` that are one thread's own.
    ///
    /// Those of the division where the grid covers the extent, which costs no division; else as
    /// many more as it takes to give every element to some thread.
    #[inline(always)]
    pub(crate) fn share(&self, extent: Extent<D>) -> Extent<D> {
        let threads = self.grid_threads();
        Extent::from_fn(|dimension| {
            let elements = self.thread_elements[dimension];
            if extent[dimension] <= threads[dimension].wrapping_mul(elements) {
                elements
            } else {
                extent[dimension].div_ceil(threads[dimension].max(1))
            }
        })
    }
}
