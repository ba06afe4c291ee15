//! The places of a view's elements: their number along each dimension, and their distances.

use std::fmt;

use crate::error::KernelError;
use crate::extent::{Extent, Vector, each_dimension};

/// The places of the elements of a view, counted in elements from its first.
///
/// Neighbours along the last dimension touch, no two elements have the same place, and all of them
/// are inside the memory that the places were made for. Safety rests on that.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Places<const D: usize> {
    extent: Extent<D>,
    strides: Vector<D>,
}

impl Places<1> {
    /// So many elements without gaps.
    #[inline(always)]
    pub(crate) fn row(length: usize) -> Self {
        Self {
            extent: Extent::new([length]),
            strides: Vector::new([1]),
        }
    }
}

impl<const D: usize> Places<D> {
    /// In row-major order without gaps, in memory of `length` elements.
    ///
    /// # Errors
    /// [`KernelError::ViewTooShort`] when there are not that many.
    #[inline]
    pub(crate) fn dense(extent: Extent<D>, length: usize) -> Result<Self, KernelError> {
        if extent.checked_count().is_none_or(|count| count > length) {
            return Err(too_short(extent, length));
        }
        let mut strides = Vector::splat(1);
        for d in (0..D - 1).rev() {
            // The product fits, unless nothing is there.
            strides[d] = strides[d + 1].wrapping_mul(extent[d + 1]);
        }
        Ok(Self { extent, strides })
    }

    /// Neighbours along each dimension so many elements apart, in memory of `length` elements.
    ///
    /// # Errors
    /// [`KernelError::OverlappingRows`] when elements would share a place or the last stride is not
    /// one, [`KernelError::ViewTooShort`] when the last of them would be outside.
    #[inline]
    pub(crate) fn strided(
        extent: Extent<D>,
        strides: Vector<D>,
        length: usize,
    ) -> Result<Self, KernelError> {
        let apart = |d: usize| {
            let inner = strides[d + 1].checked_mul(extent[d + 1]);
            inner.is_some_and(|inner| inner <= strides[d])
        };
        if strides[D - 1] != 1 || !(0..D - 1).all(apart) {
            return Err(KernelError::OverlappingRows {
                extent: extent.components().to_vec(),
                strides: strides.components().to_vec(),
            });
        }
        let last = (0..D).try_fold(0usize, |place, d| {
            place.checked_add(extent[d].saturating_sub(1).checked_mul(strides[d])?)
        });
        if !extent.is_empty() && last.is_none_or(|last| last >= length) {
            return Err(too_short(extent, length));
        }
        Ok(Self { extent, strides })
    }

    #[inline(always)]
    pub(crate) fn extent(&self) -> Extent<D> {
        self.extent
    }

    #[inline(always)]
    pub(crate) fn strides(&self) -> Vector<D> {
        self.strides
    }

    /// The place of a position that is inside.
    #[inline(always)]
    pub(crate) fn place(&self, position: Vector<D>) -> usize {
        let mut place = 0usize;
        each_dimension::<D>(|d| {
            let stride = if d == D - 1 { 1 } else { self.strides[d] };
            place = place.wrapping_add(position[d].wrapping_mul(stride));
        });
        place
    }
}

#[cold]
fn too_short<const D: usize>(extent: Extent<D>, length: usize) -> KernelError {
    KernelError::ViewTooShort {
        length,
        extent: extent.components().to_vec(),
    }
}

impl<const D: usize> fmt::Debug for Places<D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} by {}", self.extent, self.strides)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_distinct_and_inside_or_refused() {
        let sizes = || 0..4usize;
        for extent in sizes().flat_map(|a| sizes().map(move |b| [2, a, b])) {
            for strides in (0..14).flat_map(|a| (0..6).map(move |b| [a, b, 1])) {
                let all: Vec<usize> = (0..2)
                    .flat_map(|x| (0..extent[1]).map(move |y| (x, y)))
                    .flat_map(|(x, y)| (0..extent[2]).map(move |z| (x, y, z)))
                    .map(|(x, y, z)| x * strides[0] + y * strides[1] + z)
                    .collect();
                let length = all.iter().map(|place| place + 1).max().unwrap_or(0);
                let made = Places::strided(extent.into(), strides.into(), length);
                let Ok(places) = made else { continue };
                let mut distinct = all.clone();
                distinct.sort_unstable();
                distinct.dedup();
                assert_eq!(distinct.len(), all.len(), "{places:?}");
                if let Some(last) = Extent::from(extent).delinearise(all.len().wrapping_sub(1)) {
                    assert_eq!(Some(&places.place(last)), all.last(), "{places:?}");
                    let shorter = Places::strided(extent.into(), strides.into(), length - 1);
                    assert!(shorter.is_err(), "{places:?}");
                }
            }
        }
    }

    #[test]
    fn dense_places_are_those_without_gaps() {
        for extent in [[2, 3, 4], [1, 1, 1], [3, 1, 2]].map(Extent::new) {
            let dense = Places::dense(extent, 24).expect("there are that many");
            let strided = Places::strided(extent, dense.strides(), 24);
            assert_eq!(strided.ok(), Some(dense));
            for number in 0..extent.product() {
                let position = extent.delinearise(number).expect("it is inside");
                assert_eq!(dense.place(position), number);
            }
        }
    }

    #[test]
    fn rows_that_overlap_and_what_overflows_are_refused() {
        for (extent, strides) in [
            ([2, 4], [3, 1]),
            ([2, 4], [8, 2]),
            ([2, usize::MAX], [usize::MAX, 1]),
            ([usize::MAX, 2], [2, 1]),
        ] {
            let places = Places::strided(extent.into(), strides.into(), usize::MAX);
            assert!(places.is_err(), "{extent:?} {strides:?}");
        }
        assert!(Places::strided([0, 4].into(), [4, 1].into(), 0).is_ok());
    }
}
