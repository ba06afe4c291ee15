//! A part for each block, and of that one for each thread.

use std::marker::PhantomData;

use super::Partition;
use crate::accelerator::Accelerator;
use crate::division::WorkDivision;
use crate::error::KernelError;
use crate::view::GlobalMut;

/// Partition: the output is cut into as many equal parts as there are blocks, in order, and each
/// block's part into as many as it has threads.
///
/// With one element per block, the block's first thread is handed that, and the others an empty
/// slice.
#[derive(Debug, Clone, Copy)]
pub struct ByBlock<T>(PhantomData<fn() -> T>);

/// A [`ByBlock`] output: the view, and how many elements each block and each thread have.
#[derive(Debug)]
pub struct BlockParts<'a, T> {
    view: GlobalMut<'a, T>,
    per_block: usize,
    per_thread: usize,
}

// SAFETY: parts of different blocks are disjoint, and those of different threads of a block.
unsafe impl<T: Send + 'static, const D: usize> Partition<D> for ByBlock<T> {
    type View<'a> = GlobalMut<'a, T>;
    type Plan<'a> = BlockParts<'a, T>;
    type Own<'t> = &'t mut [T];

    #[inline]
    fn plan<'a>(
        view: Self::View<'a>,
        division: &WorkDivision<D>,
    ) -> Result<Self::Plan<'a>, KernelError> {
        let per_block = view.len().div_ceil(division.block_count().max(1));
        let per_thread = per_block.div_ceil(division.threads_per_block());
        Ok(BlockParts {
            view,
            per_block,
            per_thread,
        })
    }

    #[inline(always)]
    unsafe fn own<'t, A: Accelerator<D>>(plan: &BlockParts<'_, T>, acc: &A) -> &'t mut [T] {
        let division = acc.division();
        let block = division.grid_blocks().offset(acc.block_index());
        let thread = division.block_threads().offset(acc.thread_index());
        let block_start = block.saturating_mul(plan.per_block).min(plan.view.len());
        let block_end = block_start
            .saturating_add(plan.per_block)
            .min(plan.view.len());
        let start = block_start
            .saturating_add(thread.saturating_mul(plan.per_thread))
            .min(block_end);
        let end = start.saturating_add(plan.per_thread).min(block_end);
        // SAFETY: `start <= end <= len`, and these elements are the part of this thread alone,
        // which, the caller promises, has no other live part.
        unsafe { std::slice::from_raw_parts_mut(plan.view.as_ptr().add(start), end - start) }
    }
}
