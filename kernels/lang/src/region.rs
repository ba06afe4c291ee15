//! The elements of one thread, as a box inside an extent, and the ways to go through them.
//!
//! A thread's own elements are decided in one place, [`Accelerator::region`]. Kernels see it
//! through `elements`, `each` and `rows`, and none of these promises the position of a thread's
//! elements. On the native accelerators of this crate they are one contiguous box, so that a core
//! streams through its part of memory; on a device whose neighbouring threads should touch
//! neighbouring elements they are strided, and rows are one element long there.
//!
//! [`Accelerator::region`]: crate::Accelerator::region

use crate::division::WorkDivision;
use crate::extent::{Extent, Vector, each_dimension};
use crate::partition::{OwnPart, OwnZip};

/// A box of positions inside an extent: from `start`, inclusive, to `end`, exclusive.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Region<const D: usize> {
    extent: Extent<D>,
    start: Vector<D>,
    end: Vector<D>,
}

impl<const D: usize> Region<D> {
    /// The part of `extent` that is the own of the thread with index `thread` in the grid.
    ///
    /// The regions of all the threads of a grid are disjoint and cover the extent, whatever the two
    /// sizes are (a grid without threads covers nothing). Safety rests on that.
    #[inline(always)]
    pub(crate) fn of_thread(
        division: &WorkDivision<D>,
        thread: Vector<D>,
        extent: Extent<D>,
    ) -> Self {
        Self::of_part(division.share(extent), thread, extent)
    }

    /// The part with index `part` of an extent that is cut into parts of extent `share`, clipped at
    /// its end.
    #[inline(always)]
    pub(crate) fn of_part(share: Extent<D>, part: Vector<D>, extent: Extent<D>) -> Self {
        let start: Vector<D> = Vector::from_fn(|d| part[d].saturating_mul(share[d]).min(extent[d]));
        let end = Vector::from_fn(|d| start[d].saturating_add(share[d]).min(extent[d]));
        Self { extent, start, end }
    }

    /// The extent that it is a part of.
    #[inline(always)]
    pub fn extent(&self) -> Extent<D> {
        self.extent
    }

    /// Its first position.
    #[inline(always)]
    pub fn start(&self) -> Vector<D> {
        self.start
    }

    /// One past its last position, in each dimension.
    #[inline(always)]
    pub fn end(&self) -> Vector<D> {
        self.end
    }

    /// True if there is nothing in it.
    #[inline(always)]
    pub fn is_empty(&self) -> bool {
        let mut is_empty = false;
        each_dimension::<D>(|d| is_empty |= self.start[d] >= self.end[d]);
        is_empty
    }

    /// The number of its positions.
    #[inline(always)]
    pub fn count(&self) -> usize {
        (0..D).fold(1, |count, d| count * (self.end[d] - self.start[d]))
    }

    /// Its rows: where each starts, and how many positions it has along the fastest dimension.
    #[inline(always)]
    pub fn rows(&self) -> Rows<D> {
        Rows {
            region: *self,
            position: self.start,
            live: !self.is_empty(),
        }
    }

    /// The row-major numbers of its positions in the extent, in order.
    #[inline(always)]
    pub fn indices(&self) -> Indices<D> {
        let mut rows = self.rows();
        // In one dimension its own bounds, as they are, which are seen to be inside of the extent.
        let (next, end) = if D == 1 {
            (self.start[0], self.end[0])
        } else {
            rows.next_range().unwrap_or((0, 0))
        };
        Indices { rows, next, end }
    }
}

/// The rows of a [`Region`]: each one's first position, and its length.
#[derive(Debug, Clone)]
pub struct Rows<const D: usize> {
    region: Region<D>,
    position: Vector<D>,
    live: bool,
}

impl<const D: usize> Rows<D> {
    /// The next row as a range of row-major numbers.
    #[inline(always)]
    pub(crate) fn next_range(&mut self) -> Option<(usize, usize)> {
        let extent = self.region.extent;
        let (position, length) = self.next()?;
        let start = extent.offset(position);
        Some((start, start + length))
    }
}

impl<const D: usize> Iterator for Rows<D> {
    type Item = (Vector<D>, usize);

    #[inline(always)]
    fn next(&mut self) -> Option<Self::Item> {
        if !self.live {
            return None;
        }
        let row = self.position;
        self.live = false;
        each_dimension::<D>(|faster| {
            let d = D - 1 - faster;
            if d < D - 1 && !self.live {
                let next = self.position[d] + 1;
                self.live = next < self.region.end[d];
                let start = self.region.start[d];
                self.position[d] = if self.live { next } else { start };
            }
        });
        Some((row, self.region.end[D - 1] - self.region.start[D - 1]))
    }
}

/// The row-major numbers of a thread's own elements.
///
/// A `for` loop over it is as tight as one over a range in one dimension; in more, `for_each` and
/// `fold` are.
#[derive(Debug, Clone)]
pub struct Indices<const D: usize> {
    /// Those behind, if there is more than one dimension.
    rows: Rows<D>,
    next: usize,
    end: usize,
}

impl<const D: usize> Indices<D> {
    /// The thread's own elements of an output beside them.
    ///
    /// # Panics
    /// If that output has another extent.
    #[track_caller]
    #[inline(always)]
    pub fn zip<B: OwnPart<D>>(self, other: B) -> OwnZip<Self, B::Itself> {
        OwnZip::new(self, other.itself())
    }
}

impl<const D: usize> OwnPart<D> for Indices<D> {
    type Itself = Self;

    #[inline(always)]
    fn itself(self) -> Self {
        self
    }

    #[inline(always)]
    fn whole(&self) -> Extent<D> {
        self.rows.region.extent
    }
}

impl<const D: usize> Iterator for Indices<D> {
    type Item = usize;

    #[inline(always)]
    fn next(&mut self) -> Option<usize> {
        // Less, not unequal: then the optimiser sees that it is inside everything that the end is
        // inside of, and no index is checked again.
        if self.next >= self.end {
            if D == 1 {
                return None;
            }
            (self.next, self.end) = self.rows.next_range()?;
        }
        let index = self.next;
        self.next += 1;
        Some(index)
    }

    #[inline]
    fn fold<B, F: FnMut(B, usize) -> B>(mut self, initial: B, mut f: F) -> B {
        let mut folded = (self.next..self.end).fold(initial, &mut f);
        while D > 1
            && let Some((start, end)) = self.rows.next_range()
        {
            folded = (start..end).fold(folded, &mut f);
        }
        folded
    }
}
