//! Partitions: the threads of a launch share out their output, so that no two of them have the same
//! element.
//!
//! A kernel names a partition for each of its outputs, in its type. So all threads of a launch go
//! by the same one, and each is handed its own part by value: an element is reachable through one
//! part only, and that makes races impossible, whatever a kernel does with its part.
//!
//! | partition | a thread is handed | for |
//! |---|---|---|
//! | [`ByElement`] | [`OwnElements`]: the elements that are its own by index | maps, stencils |
//! | [`ByTile`] | [`OwnTile`]: a box of neighbours, reached by position | matrix products, register blocking |
//! | [`ByBlockTile`] | [`OwnBlockTile`]: its share of its block's box | blocks that write what they shared |
//! | [`ByRow`] | [`OwnRows`]: whole rows | row-wise sums, sorts, transforms |
//! | [`ByBlock`] | `&mut [T]`: its share of the block's share | one result per block |
//! | [`Atomically`] | [`Atomics`](crate::Atomics): all elements, one step at a time | histograms, counters |
//! | [`Unpartitioned`] | [`RawMut`]: all elements, through `unsafe` methods | scatters known to be disjoint |
//!
//! A part lasts as long as the thread, and cannot be kept:
//!
//! ```compile_fail
//! use std::sync::Mutex;
//! use quipu_kernel::{Accelerator, ByElement, Kernel, OwnElements};
//!
//! struct Keep<'k>(Mutex<Vec<OwnElements<'k, f32>>>);
//!
//! impl Kernel<1> for Keep<'_> {
//!     type Output = ByElement<f32>;
//!     fn run<A: Accelerator<1>>(&self, _acc: &A, output: OwnElements<'_, f32>) {
//!         self.0.lock().unwrap().push(output);
//!     }
//! }
//! ```

mod atomic;
mod block;
mod element;
mod pairs;
mod raw;
mod row;
mod tile;

pub use atomic::Atomically;
pub use block::{BlockParts, ByBlock};
pub use element::{ByElement, Each, EachRow, IterMut, OwnElements};
pub(crate) use pairs::OF_OTHER_EXTENTS;
pub use pairs::{OwnPart, OwnZip};
pub use raw::{RawMut, Unpartitioned};
pub use row::{ByRow, EachOwnRow, OwnRows, RowParts};
pub use tile::{BlockTilePlan, ByBlockTile, ByTile, EachPlaced, OwnBlockTile, OwnTile};

use crate::accelerator::Accelerator;
use crate::division::WorkDivision;
use crate::error::KernelError;

/// The part of an output, partitioned by `P`, that each thread of a kernel is handed.
pub type Own<'t, P, const D: usize> = <P as Partition<D>>::Own<'t>;

/// The view that a launch needs for an output that is partitioned by `P`.
pub type View<'a, P, const D: usize> = <P as Partition<D>>::View<'a>;

/// A way to share out an output among the threads of a grid of `D` dimensions.
///
/// # Safety
/// [`own`](Self::own) gives threads of different index parts with which safe code cannot race.
pub unsafe trait Partition<const D: usize> {
    /// The view that the launch is given: a [`GlobalMut`](crate::GlobalMut), or a tuple of them.
    type View<'a>;
    /// The view and the facts about its parts that are known before any thread runs.
    type Plan<'a>: Send + Sync;
    /// The part that each thread is handed.
    type Own<'t>;

    /// True if all threads are handed the same, which none of them changes.
    #[doc(hidden)]
    const IS_READ_BY_ALL: bool = false;

    /// Prepares a view for a launch of such a division.
    ///
    /// # Errors
    /// Says why the view cannot be partitioned.
    fn plan<'a>(
        view: Self::View<'a>,
        division: &WorkDivision<D>,
    ) -> Result<Self::Plan<'a>, KernelError>;

    /// The part of the thread that `acc` is.
    ///
    /// # Safety
    /// `acc` is one thread of a launch of the division that the plan was made for, and tells the
    /// truth. While the returned part lives (and not longer than the plan's elements do), it is not
    /// called for the same thread again.
    unsafe fn own<'t, A: Accelerator<D>>(plan: &Self::Plan<'_>, acc: &A) -> Self::Own<'t>;
}

/// True if all threads are handed the same, which none of them changes.
#[doc(hidden)]
pub const fn is_read_by_all<P: Partition<D>, const D: usize>() -> bool {
    P::IS_READ_BY_ALL
}

// SAFETY: there is nothing to hand out.
unsafe impl<const D: usize> Partition<D> for () {
    type View<'a> = ();
    type Plan<'a> = ();
    type Own<'t> = ();

    #[inline]
    fn plan<'a>(
        (): Self::View<'a>,
        _division: &WorkDivision<D>,
    ) -> Result<Self::Plan<'a>, KernelError> {
        Ok(())
    }

    #[inline(always)]
    unsafe fn own<'t, A: Accelerator<D>>((): &(), _acc: &A) -> Self::Own<'t> {}
}

macro_rules! tuples {
    ($($name:ident $at:tt),+) => {
        // SAFETY: each part is shared out by itself, and views do not overlap as they own their
        // elements.
        unsafe impl<$($name: Partition<D>,)+ const D: usize> Partition<D> for ($($name,)+) {
            type View<'a> = ($($name::View<'a>,)+);
            type Plan<'a> = ($($name::Plan<'a>,)+);
            type Own<'t> = ($($name::Own<'t>,)+);

            #[inline]
            fn plan<'a>(view: Self::View<'a>, division: &WorkDivision<D>) -> Result<Self::Plan<'a>, KernelError> {
                Ok(($($name::plan(view.$at, division)?,)+))
            }

            #[inline(always)]
            unsafe fn own<'t, A: Accelerator<D>>(plan: &Self::Plan<'_>, acc: &A) -> Self::Own<'t> {
                // SAFETY: the caller's promise for all holds for each part.
                ($(unsafe { $name::own(&plan.$at, acc) },)+)
            }
        }
    };
}

tuples!(P0 0);
tuples!(P0 0, P1 1);
tuples!(P0 0, P1 1, P2 2);
tuples!(P0 0, P1 1, P2 2, P3 3);
tuples!(P0 0, P1 1, P2 2, P3 3, P4 4);
tuples!(P0 0, P1 1, P2 2, P3 3, P4 4, P5 5);
tuples!(P0 0, P1 1, P2 2, P3 3, P4 4, P5 5, P6 6);
tuples!(P0 0, P1 1, P2 2, P3 3, P4 4, P5 5, P6 6, P7 7);
tuples!(P0 0, P1 1, P2 2, P3 3, P4 4, P5 5, P6 6, P7 7, P8 8);
tuples!(P0 0, P1 1, P2 2, P3 3, P4 4, P5 5, P6 6, P7 7, P8 8, P9 9);
tuples!(P0 0, P1 1, P2 2, P3 3, P4 4, P5 5, P6 6, P7 7, P8 8, P9 9, P10 10);
tuples!(P0 0, P1 1, P2 2, P3 3, P4 4, P5 5, P6 6, P7 7, P8 8, P9 9, P10 10, P11 11);
