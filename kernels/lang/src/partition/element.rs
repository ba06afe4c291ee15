//! Own elements: those that are a thread's by index.

use std::fmt;
use std::marker::PhantomData;

use super::{OwnPart, OwnZip, Partition};
use crate::accelerator::Accelerator;
use crate::division::WorkDivision;
use crate::error::KernelError;
use crate::extent::{Extent, Vector};
use crate::region::{Region, Rows};
use crate::strides::Places;
use crate::view::GlobalMut;

/// Partition: each thread is handed its own elements, those of [`Accelerator::region`].
#[derive(Debug, Clone, Copy)]
pub struct ByElement<T>(PhantomData<fn() -> T>);

// SAFETY: the regions of the threads of a grid are disjoint.
unsafe impl<T: Send + 'static, const D: usize> Partition<D> for ByElement<T> {
    type View<'a> = GlobalMut<'a, T, D>;
    type Plan<'a> = GlobalMut<'a, T, D>;
    type Own<'t> = OwnElements<'t, T, D>;

    #[inline]
    fn plan<'a>(
        view: Self::View<'a>,
        _division: &WorkDivision<D>,
    ) -> Result<Self::Plan<'a>, KernelError> {
        Ok(view)
    }

    #[inline(always)]
    unsafe fn own<'t, A: Accelerator<D>>(
        plan: &GlobalMut<'_, T, D>,
        acc: &A,
    ) -> OwnElements<'t, T, D> {
        OwnElements {
            pointer: plan.as_ptr(),
            places: plan.places(),
            region: acc.region(plan.extent()),
            elements: PhantomData,
        }
    }
}

/// One thread's own elements of an output.
///
/// ```
/// # use quipu_kernel::OwnElements;
/// fn double(mut y: OwnElements<'_, f32>, x: &[f32]) {
///     for (i, y) in y.each() {
///         *y = 2.0 * x[i];
///     }
/// }
/// ```
///
/// They can be gone through any number of times, one time after the other:
///
/// ```compile_fail,E0499
/// # use quipu_kernel::OwnElements;
/// fn twice(mut y: OwnElements<'_, f32>) {
///     let first = y.each();
///     let second = y.each();
///     first.zip(second).for_each(drop);
/// }
/// ```
pub struct OwnElements<'t, T, const D: usize = 1> {
    pointer: *mut T,
    places: Places<D>,
    region: Region<D>,
    elements: PhantomData<&'t mut [T]>,
}

// SAFETY: it is its elements, as a `&mut [T]` is, which is `Send` for these `T`.
unsafe impl<T: Send, const D: usize> Send for OwnElements<'_, T, D> {}
// SAFETY: a shared reference to it lets safe code see its region and nothing else.
unsafe impl<T: Send, const D: usize> Sync for OwnElements<'_, T, D> {}

impl<T, const D: usize> OwnElements<'_, T, D> {
    /// The extent of the whole output.
    #[inline(always)]
    pub fn extent(&self) -> Extent<D> {
        self.region.extent()
    }

    /// The region of the output with these elements.
    #[inline(always)]
    pub fn region(&self) -> Region<D> {
        self.region
    }

    /// Each of them with its row-major number in the output.
    ///
    /// A `for` loop over it is as tight as one over a slice in one dimension; in more, `for_each`
    /// and `fold` are, and [`rows`](Self::rows).
    #[inline(always)]
    pub fn each(&mut self) -> Each<'_, T, D> {
        let mut each = Each {
            rows: self.rows(),
            index: 0,
            row: [].iter_mut(),
        };
        each.next_row();
        each
    }

    /// Each of them, without its number: as tight as [`each`](Self::each).
    #[inline(always)]
    pub fn iter_mut(&mut self) -> IterMut<'_, T, D> {
        IterMut(self.each())
    }

    /// Their rows, each with the position of its first element in the output.
    #[inline(always)]
    pub fn rows(&mut self) -> EachRow<'_, T, D> {
        EachRow {
            pointer: self.pointer,
            places: self.places,
            rows: self.region.rows(),
            elements: PhantomData,
        }
    }
}

impl<T, const D: usize> OwnElements<'_, T, D> {
    /// Their rows, each with the row-major number of its first element.
    #[doc(hidden)]
    #[inline(always)]
    pub fn numbered_rows(&mut self) -> impl Iterator<Item = (usize, &mut [T])> {
        let extent = self.extent();
        self.rows()
            .map(move |(position, row)| (extent.offset(position), row))
    }
}

impl<T, const D: usize> fmt::Debug for OwnElements<'_, T, D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "OwnElements({:?})", self.region)
    }
}

/// Iterator of [`OwnElements::rows`].
#[derive(Debug)]
pub struct EachRow<'e, T, const D: usize> {
    pointer: *mut T,
    places: Places<D>,
    rows: Rows<D>,
    elements: PhantomData<&'e mut [T]>,
}

impl<'e, T, const D: usize> EachRow<'e, T, D> {
    #[inline(always)]
    fn next_placed(&mut self) -> Option<(Vector<D>, &'e mut [T])> {
        let (position, length) = self.rows.next()?;
        // SAFETY: the region lies in the output's extent, so the row is inside the output. Rows are
        // disjoint, as their places are, regions are disjoint, and the region is borrowed for `'e`.
        Some((position, unsafe {
            std::slice::from_raw_parts_mut(self.pointer.add(self.places.place(position)), length)
        }))
    }

    #[inline(always)]
    fn next_numbered(&mut self) -> Option<(usize, &'e mut [T])> {
        let (position, row) = self.next_placed()?;
        Some((self.places.extent().offset(position), row))
    }
}

impl<'e, T, const D: usize> Iterator for EachRow<'e, T, D> {
    type Item = (Vector<D>, &'e mut [T]);

    #[inline(always)]
    fn next(&mut self) -> Option<Self::Item> {
        self.next_placed()
    }
}

/// Iterator of [`OwnElements::iter_mut`].
#[derive(Debug)]
pub struct IterMut<'e, T, const D: usize>(Each<'e, T, D>);

impl<T, const D: usize> IterMut<'_, T, D> {
    /// The thread's own elements of another output beside them.
    ///
    /// # Panics
    /// If that output has another extent.
    #[track_caller]
    #[inline(always)]
    pub fn zip<B: OwnPart<D>>(self, other: B) -> OwnZip<Self, B::Itself> {
        OwnZip::new(self, other.itself())
    }
}

impl<T, const D: usize> OwnPart<D> for IterMut<'_, T, D> {
    type Itself = Self;

    #[inline(always)]
    fn itself(self) -> Self {
        self
    }

    #[inline(always)]
    fn whole(&self) -> Extent<D> {
        self.0.whole()
    }
}

impl<'e, T, const D: usize> Iterator for IterMut<'e, T, D> {
    type Item = &'e mut T;

    #[inline(always)]
    fn next(&mut self) -> Option<Self::Item> {
        self.0.next().map(|(_, element)| element)
    }

    #[inline]
    fn fold<B, F: FnMut(B, Self::Item) -> B>(self, initial: B, mut f: F) -> B {
        self.0
            .fold(initial, |folded, (_, element)| f(folded, element))
    }
}

/// Iterator of [`OwnElements::each`].
#[derive(Debug)]
pub struct Each<'e, T, const D: usize> {
    rows: EachRow<'e, T, D>,
    /// The number of the next element of `row`.
    index: usize,
    row: std::slice::IterMut<'e, T>,
}

impl<T, const D: usize> Each<'_, T, D> {
    /// The thread's own elements of another output beside them.
    ///
    /// # Panics
    /// If that output has another extent.
    #[track_caller]
    #[inline(always)]
    pub fn zip<B: OwnPart<D>>(self, other: B) -> OwnZip<Self, B::Itself> {
        OwnZip::new(self, other.itself())
    }

    #[inline(always)]
    fn next_row(&mut self) -> bool {
        let Some((start, row)) = self.rows.next_numbered() else {
            return false;
        };
        self.index = start;
        self.row = row.iter_mut();
        true
    }
}

impl<T, const D: usize> OwnPart<D> for Each<'_, T, D> {
    type Itself = Self;

    #[inline(always)]
    fn itself(self) -> Self {
        self
    }

    #[inline(always)]
    fn whole(&self) -> Extent<D> {
        self.rows.places.extent()
    }
}

impl<'e, T, const D: usize> Iterator for Each<'e, T, D> {
    type Item = (usize, &'e mut T);

    #[inline(always)]
    fn next(&mut self) -> Option<Self::Item> {
        loop {
            if let Some(element) = self.row.next() {
                let index = self.index;
                self.index += 1;
                return Some((index, element));
            }
            if D == 1 || !self.next_row() {
                return None;
            }
        }
    }

    #[inline]
    fn fold<B, F: FnMut(B, Self::Item) -> B>(mut self, initial: B, mut f: F) -> B {
        let mut folded = initial;
        loop {
            let first = self.index;
            folded = self.row.enumerate().fold(folded, |folded, (at, element)| {
                f(folded, (first + at, element))
            });
            let Some((start, row)) = self.rows.next_numbered() else {
                return folded;
            };
            (self.index, self.row) = (start, row.iter_mut());
        }
    }
}
