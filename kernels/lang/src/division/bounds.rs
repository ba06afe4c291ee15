//! The bounds that a kernel's attribute sets for its blocks.

use super::{AcceleratorLimits, WorkDivision};
use crate::error::KernelError;
use crate::extent::Extent;
use quipu_kernel_ir as ir;

/// The threads of a block whose threads have one element each, if the device allows that.
const LEAST_THREADS: usize = 64;

/// The bounds of a kernel's launches, from `#[kernel(block_threads = […], max_block_threads = …,
/// min_blocks = …)]`. The compilers of devices get them, and a launch that disagrees is refused.
///
/// A kernel that asks for its index in the grid bounds the elements of a thread as well. In a
/// launch over a number of elements each thread then has one, so that the index is the element's
/// number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LaunchBounds<const D: usize> {
    /// The threads of each block along each dimension.
    pub block_threads: Option<[usize; D]>,
    /// The most threads of a block, in all.
    pub max_block_threads: Option<usize>,
    /// The number of blocks that a multiprocessor is to have room for at the same time: a wish.
    pub min_blocks: Option<usize>,
    /// True if each thread has one element in a launch over a number of elements.
    pub one_element_each: bool,
    /// True if the threads of the grid wait for each other.
    pub is_of_grid: bool,
}

impl<const D: usize> LaunchBounds<D> {
    /// Nothing is said: blocks of any size.
    pub const NONE: Self = Self {
        block_threads: None,
        max_block_threads: None,
        min_blocks: None,
        one_element_each: false,
        is_of_grid: false,
    };

    /// True if the number of threads of a block is bounded.
    #[must_use]
    #[inline]
    pub const fn limits_blocks(&self) -> bool {
        self.block_threads.is_some() || self.max_block_threads.is_some()
    }

    /// True if the limits of a device are not those for such a kernel.
    #[must_use]
    #[inline]
    pub const fn changes_limits(&self) -> bool {
        self.limits_blocks() || self.one_element_each
    }

    /// True if a device may choose another division for a launch over a number of elements: one
    /// with as many elements for each thread. For a barrier of the grid it may choose fewer blocks.
    #[must_use]
    #[inline]
    pub const fn leave_division(&self) -> bool {
        !(self.limits_blocks() || self.one_element_each && self.is_of_grid)
    }

    /// The limits of a device for such a kernel.
    #[must_use]
    pub fn within(&self, limits: &AcceleratorLimits) -> AcceleratorLimits {
        let mut limits = limits.clone();
        if self.one_element_each {
            // Blocks of one thread are for threads of many elements.
            let threads = limits.preferred_block_threads.max(LEAST_THREADS);
            limits.preferred_block_threads = threads.min(limits.block_thread_count);
            limits.preferred_thread_elements = 1;
        }
        if let Some(most) = self.max_block_threads {
            limits.block_thread_count = limits.block_thread_count.min(most);
            limits.preferred_block_threads = limits.preferred_block_threads.min(most);
        }
        limits
    }

    /// The division of so many elements where the size of a block is said: each thread has one
    /// element.
    #[must_use]
    pub fn divide(&self, elements: Extent<D>) -> Option<Result<WorkDivision<D>, KernelError>> {
        let threads = self.block_threads?;
        let blocks =
            Extent::from_fn(|dimension| elements[dimension].div_ceil(threads[dimension].max(1)));
        Some(WorkDivision::new(blocks, threads, [1; D]))
    }

    /// Checks the blocks of a launch.
    ///
    /// # Errors
    /// [`KernelError::LaunchBounds`] if they are not as is said.
    pub fn check(
        &self,
        kernel: &'static str,
        division: &WorkDivision<D>,
    ) -> Result<(), KernelError> {
        let threads = division.block_threads();
        let said = match (self.block_threads, self.max_block_threads) {
            (Some(said), _) if threads != said.into() => format!(
                "`#[kernel(block_threads = {said:?})]`; write \
                 `WorkDivision::new(blocks, {said:?}, elements)?`, or launch it over a number of elements"
            ),
            (_, Some(most)) if division.threads_per_block() > most => format!(
                "`#[kernel(max_block_threads = {most})]`; write a `WorkDivision` with {most} threads in a block at most, \
                 or launch it over a number of elements"
            ),
            _ => return Ok(()),
        };
        Err(KernelError::LaunchBounds {
            kernel,
            block_threads: threads.components().to_vec(),
            said,
        })
    }

    /// Notes it in a kernel's source.
    #[must_use]
    pub fn noted(&self, mut module: ir::Module) -> ir::Module {
        let threads = self.block_threads.iter().flatten();
        module.kernel.bounds = ir::LaunchBounds {
            block_threads: threads.map(|threads| *threads as u64).collect(),
            max_block_threads: self.max_block_threads.map(|most| most as u64),
            min_blocks: self.min_blocks.map(|least| least as u64),
        };
        module
    }
}
