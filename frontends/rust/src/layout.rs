//! Arrays of several dimensions in memory of one.
//!
//! A [`Layout`] says where the elements of an array are, counted in elements:
//! where it starts, how many there are along each dimension, and how far
//! neighbours are apart along each. Neighbours along the last dimension touch.
//! Gaps between rows make the *pitch*. A [`View`] is a buffer seen so.
//!
//! Invariants of a layout, checked when it is made: rows do not overlap, and the
//! place of every element fits a `usize`. An extent may be zero: then there are no
//! elements, and the layout spans nothing.

use crate::buffer::Buffer;
use quipu_kernel::Extent;
use quipu_scheduler::operation::Step;
use quipu_scheduler::{ErrorKind, Result};
use std::fmt;
use std::ops::Range;

/// The positions of the elements of an array of `D` dimensions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Layout<const D: usize> {
    offset: usize,
    extent: [usize; D],
    strides: [usize; D],
}

fn invalid(problem: String) -> quipu_scheduler::Error {
    ErrorKind::InvalidSize {
        what: "lay out an array",
        problem,
    }
    .into()
}

impl<const D: usize> Layout<D> {
    /// Without gaps.
    ///
    /// # Errors
    /// If the extent overflows.
    pub fn dense(extent: impl Into<Extent<D>>) -> Result<Self> {
        let extent = extent.into();
        Self::padded(extent, extent.components()[D - 1])
    }

    /// With rows that start `pitch` elements apart.
    ///
    /// ```
    /// # use quipu::Layout;
    /// let image = Layout::padded([480, 639], 640)?;
    /// assert_eq!(image.strides(), [640, 1]);
    /// assert_eq!(image.span(), 479 * 640 + 639); // the last row has no gap behind it
    /// # Ok::<(), quipu::Error>(())
    /// ```
    ///
    /// # Errors
    /// If the extent overflows, or rows would overlap.
    pub fn padded(extent: impl Into<Extent<D>>, pitch: usize) -> Result<Self> {
        let extent = extent.into().components();
        let row = extent[D - 1];
        if pitch < row {
            return Err(invalid(format!(
                "rows of {row} elements overlap when they are {pitch} apart; use a pitch of at least {row}"
            )));
        }
        let mut strides = [1; D];
        let mut stride = Some(pitch);
        for dimension in (0..D - 1).rev() {
            let Some(known) = stride else { break };
            strides[dimension] = known;
            stride = known.checked_mul(extent[dimension]);
        }
        let layout = Self {
            offset: 0,
            extent,
            strides,
        };
        match layout.checked_span().filter(|_| stride.is_some()) {
            Some(_) => Ok(layout),
            None => Err(invalid(format!(
                "an extent of {extent:?} with a pitch of {pitch} overflows; use smaller arrays"
            ))),
        }
    }

    /// With neighbours that are so many elements apart along each dimension.
    ///
    /// # Errors
    /// If the extent overflows, rows would overlap, or neighbours along the last dimension do not
    /// touch.
    #[cfg(feature = "serve")]
    pub(crate) fn strided(extent: [usize; D], strides: [usize; D]) -> Result<Self> {
        let apart = |dimension: usize| {
            let inner = strides[dimension + 1].checked_mul(extent[dimension + 1]);
            inner.is_some_and(|inner| inner <= strides[dimension])
        };
        let layout = Self {
            offset: 0,
            extent,
            strides,
        };
        if strides[D - 1] != 1 || !(0..D - 1).all(apart) || layout.checked_span().is_none() {
            return Err(invalid(format!(
                "an extent of {extent:?} with strides of {strides:?} has rows that overlap, or overflows"
            )));
        }
        Ok(layout)
    }

    /// The part of it in these ranges, one for each dimension.
    ///
    /// ```
    /// # use quipu::Layout;
    /// let image = Layout::dense([480, 640])?;
    /// let corner = image.region([0..16, 624..640])?;
    /// assert_eq!((corner.offset(), corner.extent()), (624, [16, 16]));
    /// # Ok::<(), quipu::Error>(())
    /// ```
    ///
    /// # Errors
    /// If a range ends before it starts, or goes beyond the extent.
    pub fn region(&self, ranges: [Range<usize>; D]) -> Result<Self> {
        let mut region = *self;
        for (dimension, range) in ranges.iter().enumerate() {
            let extent = self.extent[dimension];
            if range.start > range.end || range.end > extent {
                return Err(invalid(format!(
                    "the range {range:?} of dimension {dimension} ends before it starts, or goes beyond its {extent} elements"
                )));
            }
            region.extent[dimension] = range.end - range.start;
        }
        // The place of a region without elements may be beyond the last element.
        if !region.is_empty() {
            let starts = ranges.iter().zip(self.strides);
            let skipped: usize = starts.map(|(range, stride)| range.start * stride).sum();
            region.offset += skipped;
        }
        Ok(region)
    }

    /// Elements along each dimension, the slowest first.
    #[must_use]
    pub fn extent(&self) -> [usize; D] {
        self.extent
    }

    /// The place of its first element.
    #[must_use]
    pub fn offset(&self) -> usize {
        self.offset
    }

    /// The distance of neighbours along each dimension, in elements.
    #[must_use]
    pub fn strides(&self) -> [usize; D] {
        self.strides
    }

    pub(crate) fn extents_and_strides(&self) -> (&[usize], &[usize]) {
        (&self.extent, &self.strides)
    }

    /// The distance of neighbours along each dimension, in bytes of elements `T`.
    #[must_use]
    pub fn pitch<T>(&self) -> [usize; D] {
        self.strides
            .map(|stride| stride.saturating_mul(size_of::<T>()))
    }

    /// The number of elements.
    #[must_use]
    pub fn count(&self) -> usize {
        if self.is_empty() {
            return 0;
        }
        self.extent.iter().product()
    }

    /// True if there are no elements.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.extent.contains(&0)
    }

    /// The number of places from the first element to the last, gaps included.
    #[must_use]
    pub fn span(&self) -> usize {
        self.checked_span().unwrap_or(usize::MAX)
    }

    fn checked_span(&self) -> Option<usize> {
        if self.is_empty() {
            return Some(0);
        }
        let mut span = 1usize;
        for (extent, stride) in self.extent.iter().zip(self.strides) {
            span = span.checked_add((extent - 1).checked_mul(stride)?)?;
        }
        span.checked_add(self.offset)?;
        Some(span)
    }

    /// True if it has no gaps.
    #[must_use]
    pub fn is_dense(&self) -> bool {
        self.count() == self.span()
    }

    /// The place of the element at `position`; `None` if it is outside.
    #[must_use]
    pub fn place(&self, position: [usize; D]) -> Option<usize> {
        let inside = position
            .iter()
            .zip(self.extent)
            .all(|(at, extent)| *at < extent);
        let steps = position.iter().zip(self.strides);
        inside.then(|| steps.fold(self.offset, |place, (at, stride)| place + at * stride))
    }

    /// The places at which its rows start, in order.
    pub(crate) fn row_starts(&self) -> impl Iterator<Item = usize> {
        let mut next = Some([0; D]);
        std::iter::from_fn(move || {
            let position = next?;
            // As a number is counted up, the last dimension left out.
            let mut following = position;
            next = (0..D - 1).rev().find_map(|dimension| {
                following[dimension] += 1;
                if following[dimension] < self.extent[dimension] {
                    return Some(following);
                }
                following[dimension] = 0;
                None
            });
            self.place(position)
        })
    }

    /// Moved so that it starts at its first element.
    pub(crate) fn at_zero(mut self) -> Self {
        self.offset = 0;
        self
    }
}

impl From<usize> for Layout<1> {
    /// So many elements in a row.
    fn from(length: usize) -> Self {
        Self {
            offset: 0,
            extent: [length],
            strides: [1],
        }
    }
}

/// A region that is copied: bytes of a row, and the steps between rows, the
/// slowest first. Dimensions that have no gap on either side are one.
pub(crate) struct Rows {
    pub(crate) row: u64,
    pub(crate) steps: Vec<Step>,
}

impl Rows {
    /// From a source to a destination of the same extent.
    pub(crate) fn between<T, const D: usize>(
        source: &Layout<D>,
        destination: &Layout<D>,
    ) -> Result<Self> {
        if source.extent != destination.extent {
            return Err(ErrorKind::InvalidSize {
                what: "transfer a region",
                problem: format!(
                    "an extent of {:?} does not go into one of {:?}; use regions of the same extent",
                    source.extent, destination.extent
                ),
            }
            .into());
        }
        if source.is_empty() {
            return Ok(Self {
                row: 0,
                steps: Vec::new(),
            });
        }
        let size = size_of::<T>() as u64;
        let mut row = source.extent[D - 1] as u64 * size;
        let mut steps: Vec<Step> = Vec::new();
        for dimension in (0..D - 1).rev() {
            // The stride of a single one goes nowhere, and may be any number.
            if source.extent[dimension] == 1 {
                continue;
            }
            let step = Step {
                count: source.extent[dimension] as u64,
                source_stride: source.strides[dimension] as u64 * size,
                destination_stride: destination.strides[dimension] as u64 * size,
            };
            match steps.first_mut() {
                None if step.source_stride == row && step.destination_stride == row => {
                    row *= step.count;
                }
                Some(inner)
                    if step.source_stride == inner.source_stride * inner.count
                        && step.destination_stride == inner.destination_stride * inner.count =>
                {
                    inner.count *= step.count;
                }
                _ => steps.insert(0, step),
            }
        }
        Ok(Self { row, steps })
    }
}

/// A buffer seen as an array of `D` dimensions. Cheap to clone; clones and
/// regions are views of the same memory.
///
/// ```
/// # use quipu::prelude::*;
/// # fn main() -> quipu::Result<()> {
/// # let context = Platform::new()?.context()?;
/// # let queue = context.queue(&context.fastest())?;
/// let image = context.buffer(&[1, 2, 3, 4, 5, 6])?.shaped([2, 3])?;
/// let column = image.region([0..2, 1..2])?;
/// assert_eq!(queue.read_nd(&column)?.wait()?, [2, 5]);
/// # Ok(()) }
/// ```
pub struct View<T, const D: usize> {
    buffer: Buffer<T>,
    layout: Layout<D>,
}

impl<T, const D: usize> View<T, D> {
    pub(crate) fn new(buffer: Buffer<T>, layout: Layout<D>) -> Self {
        Self { buffer, layout }
    }

    /// The positions of its elements, relative to [its buffer](View::buffer).
    #[must_use]
    pub fn layout(&self) -> &Layout<D> {
        &self.layout
    }

    /// Elements along each dimension, the slowest first.
    #[must_use]
    pub fn extent(&self) -> [usize; D] {
        self.layout.extent
    }

    /// The distance of neighbours along each dimension, in bytes.
    #[must_use]
    pub fn pitch(&self) -> [usize; D] {
        self.layout.pitch::<T>()
    }

    /// The number of elements.
    #[must_use]
    pub fn len(&self) -> usize {
        self.layout.count()
    }

    /// True if it has no elements.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.layout.is_empty()
    }

    /// The buffer from its first element to its last, gaps included.
    #[must_use]
    pub fn buffer(&self) -> &Buffer<T> {
        &self.buffer
    }

    /// The part of it in these ranges, one for each dimension.
    ///
    /// # Errors
    /// If a range ends before it starts, or goes beyond the extent.
    pub fn region(&self, ranges: [Range<usize>; D]) -> Result<Self> {
        let layout = self.layout.region(ranges)?;
        self.buffer.view(layout)
    }
}

impl<T, const D: usize> Clone for View<T, D> {
    fn clone(&self) -> Self {
        Self {
            buffer: self.buffer.clone(),
            layout: self.layout,
        }
    }
}

impl<T, const D: usize> fmt::Debug for View<T, D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "View({:?} of {:?})", self.layout.extent, self.buffer)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strides_that_lead_nowhere_may_be_any() {
        let far = Layout::padded([1, 1], usize::MAX).unwrap();
        let none = far.region([1..1, 1..1]).unwrap();
        assert_eq!((none.offset(), none.extent()), (0, [0, 0]));
        let far = Layout::padded([1, 1], usize::MAX / 2).unwrap();
        let rows = Rows::between::<u32, 2>(&far, &Layout::dense([1, 1]).unwrap()).unwrap();
        assert_eq!((rows.row, rows.steps.len()), (4, 0));
    }

    #[test]
    fn dimensions_without_gaps_are_merged() {
        let dense = Layout::dense([2, 3, 4]).unwrap();
        let rows = Rows::between::<u16, 3>(&dense, &dense).unwrap();
        assert_eq!((rows.row, rows.steps.len()), (48, 0));

        let padded = Layout::padded([2, 3, 4], 5).unwrap();
        let rows = Rows::between::<u16, 3>(&dense, &padded).unwrap();
        let step = Step {
            count: 6,
            source_stride: 8,
            destination_stride: 10,
        };
        assert_eq!((rows.row, &rows.steps[..]), (8, &[step][..]));
    }

    #[test]
    fn what_overflows_is_refused() {
        assert!(Layout::dense([usize::MAX, 2]).is_err());
        assert!(Layout::dense([2, usize::MAX]).is_err());
        assert!(Layout::dense([usize::MAX, 1, usize::MAX]).is_err());
        assert!(Layout::padded([2, 1], usize::MAX).is_err());
        assert!(Layout::dense([usize::MAX]).is_ok());
    }

    #[test]
    fn a_layout_of_no_elements_spans_nothing() {
        let none = Layout::dense([3, 0]).unwrap();
        assert_eq!((none.count(), none.span()), (0, 0));
        assert_eq!(none.row_starts().count(), 0);
        assert!(none.is_dense() && none.is_empty());
        assert_eq!(none.region([1..2, 0..0]).unwrap().span(), 0);
        let rows = Rows::between::<u16, 2>(&none, &Layout::padded([3, 0], 9).unwrap()).unwrap();
        assert_eq!((rows.row, rows.steps.len()), (0, 0));

        // At the far corner, where there is no place.
        let layout = Layout::padded([4, 5, 6], 7).unwrap();
        let corner = layout.region([4..4, 5..5, 6..6]).unwrap();
        assert_eq!((corner.offset(), corner.span()), (0, 0));
        assert!(Layout::from(0).is_empty());
    }

    #[test]
    fn places_are_where_regions_say() {
        let layout = Layout::padded([4, 5, 6], 7).unwrap();
        let region = layout.region([1..3, 2..5, 3..6]).unwrap();
        assert_eq!(region.place([1, 2, 2]), layout.place([2, 4, 5]));
        assert_eq!(region.place([2, 0, 0]), None);
        assert!(layout.region([0..5, 0..5, 0..6]).is_err());
        assert!(
            layout
                .region([0..4, Range { start: 3, end: 2 }, 0..6])
                .is_err()
        );
    }
}
