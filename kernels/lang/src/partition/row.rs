//! Own rows: whole rows of an array of two dimensions.

use std::fmt;
use std::marker::PhantomData;
use std::ops::Range;

use super::Partition;
use crate::accelerator::Accelerator;
use crate::division::WorkDivision;
use crate::error::KernelError;
use crate::extent::{Extent, Vector};
use crate::strides::Places;
use crate::view::GlobalMut;

/// Partition: each thread is handed whole rows of an array of two dimensions, however many
/// dimensions the grid has.
///
/// Rows are shared out evenly over all threads of the grid in order: with as many threads as rows,
/// thread `t` of the grid has row `t`.
#[derive(Debug, Clone, Copy)]
pub struct ByRow<T>(PhantomData<fn() -> T>);

/// A [`ByRow`] output: the view, and how many rows each thread has.
#[derive(Debug)]
pub struct RowParts<'a, T> {
    view: GlobalMut<'a, T, 2>,
    per_thread: usize,
}

// SAFETY: each row is the own of one thread.
unsafe impl<T: Send + 'static, const D: usize> Partition<D> for ByRow<T> {
    type View<'a> = GlobalMut<'a, T, 2>;
    type Plan<'a> = RowParts<'a, T>;
    type Own<'t> = OwnRows<'t, T>;

    #[inline]
    fn plan<'a>(
        view: Self::View<'a>,
        division: &WorkDivision<D>,
    ) -> Result<Self::Plan<'a>, KernelError> {
        let threads = division.grid_threads().product();
        Ok(RowParts {
            per_thread: view.extent()[0].div_ceil(threads.max(1)),
            view,
        })
    }

    #[inline(always)]
    unsafe fn own<'t, A: Accelerator<D>>(plan: &RowParts<'_, T>, acc: &A) -> OwnRows<'t, T> {
        let division = acc.division();
        let block = division.grid_blocks().offset(acc.block_index());
        let thread = division.block_threads().offset(acc.thread_index());
        let number = block * division.threads_per_block() + thread;
        let rows = plan.view.extent()[0];
        let start = number.saturating_mul(plan.per_thread).min(rows);
        OwnRows {
            pointer: plan.view.as_ptr(),
            places: plan.view.places(),
            start,
            end: start.saturating_add(plan.per_thread).min(rows),
            elements: PhantomData,
        }
    }
}

/// One thread's own rows of an array of two dimensions.
///
/// ```
/// # use quipu_kernel::*;
/// /// Each row's running sum.
/// struct Sums;
///
/// impl Kernel<1> for Sums {
///     type Output = ByRow<u32>;
///     fn run<A: Accelerator<1>>(&self, _acc: &A, mut rows: OwnRows<'_, u32>) {
///         for (_, row) in rows.each() {
///             for i in 1..row.len() {
///                 row[i] += row[i - 1];
///             }
///         }
///     }
/// }
///
/// let mut numbers = vec![1, 2, 3, 4, 5, 6];
/// let view = GlobalMut::from(&mut numbers).in_extent([2, 3])?;
/// erase(Sums, view, WorkDivision::new(2, 1, 1)?)?.run_all(&mut BlockScratch::new())?;
/// assert_eq!(numbers, [1, 3, 6, 4, 9, 15]);
/// # Ok::<(), KernelError>(())
/// ```
///
/// Gone through again only when nothing is left of the first time:
///
/// ```compile_fail,E0499
/// # use quipu_kernel::OwnRows;
/// fn twice(mut rows: OwnRows<'_, f32>) {
///     let first: Vec<_> = rows.each().collect();
///     let second: Vec<_> = rows.each().collect();
///     drop((first, second));
/// }
/// ```
pub struct OwnRows<'t, T> {
    pointer: *mut T,
    places: Places<2>,
    start: usize,
    end: usize,
    elements: PhantomData<&'t mut [T]>,
}

// SAFETY: it is its elements, as a `&mut [T]` is, which is `Send` for these `T`.
unsafe impl<T: Send> Send for OwnRows<'_, T> {}
// SAFETY: a shared reference to it lets safe code see numbers and nothing else.
unsafe impl<T: Send> Sync for OwnRows<'_, T> {}

impl<T> OwnRows<'_, T> {
    /// The extent of the whole output.
    #[inline(always)]
    pub fn extent(&self) -> Extent<2> {
        self.places.extent()
    }

    /// The range of these rows in the output.
    #[inline(always)]
    pub fn range(&self) -> Range<usize> {
        self.start..self.end
    }

    /// Each of them with its number in the output.
    #[inline(always)]
    pub fn each(&mut self) -> EachOwnRow<'_, T> {
        EachOwnRow {
            pointer: self.pointer,
            places: self.places,
            rows: self.start..self.end,
            elements: PhantomData,
        }
    }
}

impl<T> fmt::Debug for OwnRows<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "OwnRows({:?})", self.range())
    }
}

/// Iterator of [`OwnRows::each`].
#[derive(Debug)]
pub struct EachOwnRow<'e, T> {
    pointer: *mut T,
    places: Places<2>,
    rows: Range<usize>,
    elements: PhantomData<&'e mut [T]>,
}

impl<'e, T> Iterator for EachOwnRow<'e, T> {
    type Item = (usize, &'e mut [T]);

    #[inline(always)]
    fn next(&mut self) -> Option<Self::Item> {
        let row = self.rows.next()?;
        let (place, length) = (
            self.places.place(Vector::new([row, 0])),
            self.places.extent()[1],
        );
        // SAFETY: the row is one of the output's, so its elements are inside, and disjoint from
        // those of others, as their places are; it is this thread's own, borrowed for `'e`, and
        // comes once.
        Some((row, unsafe {
            std::slice::from_raw_parts_mut(
                self.pointer.add(if length == 0 { 0 } else { place }),
                length,
            )
        }))
    }
}
