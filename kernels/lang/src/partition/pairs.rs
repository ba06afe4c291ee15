//! A thread's own elements of two extents, side by side.

use crate::extent::Extent;

/// What a `zip` of different extents is told: natively and in printed code.
pub(crate) const OF_OTHER_EXTENTS: &str = "`zip` of a thread's own elements of different extents, which have other numbers: \
     go over one, and index the other";

/// An iterator over the part of an extent that is a thread's own. Two of one extent have the same
/// elements in the same order, so `zip` pairs these, and nothing else.
///
/// ```compile_fail,E0277
/// # use quipu_kernel::OwnElements;
/// fn copy(x: &[f32], mut y: OwnElements<'_, f32>) {
///     for (y, x) in y.iter_mut().zip(x) { // whichever `x` is the first one's?
///         *y = *x;
///     }
/// }
/// ```
#[diagnostic::on_unimplemented(
    message = "`zip` pairs the first of a thread's own elements with the first of these, which has another number",
    label = "write `for (i, y) in y.each()`, and `x[i]` within the loop",
    note = "`zip` pairs a thread's own elements of two outputs of one extent, `a.each().zip(b.each())`, and stands before `map` and others"
)]
pub trait OwnPart<const D: usize>: Iterator {
    /// Itself. (If a type has none, rustc says nothing of what is made of it.)
    #[doc(hidden)]
    type Itself: OwnPart<D>;

    #[doc(hidden)]
    fn itself(self) -> Self::Itself;

    /// The extent that it is a part of.
    #[doc(hidden)]
    fn whole(&self) -> Extent<D>;
}

/// Iterator of the `zip` of [`Each`](super::Each), [`IterMut`](super::IterMut) and
/// [`Indices`](crate::Indices).
#[derive(Debug, Clone)]
pub struct OwnZip<A, B> {
    first: A,
    second: B,
}

impl<A, B> OwnZip<A, B> {
    /// # Panics
    /// If they are parts of different extents.
    #[track_caller]
    #[inline(always)]
    pub(crate) fn new<const D: usize>(first: A, second: B) -> Self
    where
        A: OwnPart<D>,
        B: OwnPart<D>,
    {
        assert!(first.whole() == second.whole(), "{OF_OTHER_EXTENTS}");
        Self { first, second }
    }

    /// Those of another iterator beside them.
    ///
    /// # Panics
    /// If that is over elements of another extent.
    #[track_caller]
    #[inline(always)]
    pub fn zip<C: OwnPart<D>, const D: usize>(self, other: C) -> OwnZip<Self, C::Itself>
    where
        Self: OwnPart<D>,
    {
        OwnZip::new(self, other.itself())
    }
}

impl<A: Iterator, B: Iterator> Iterator for OwnZip<A, B> {
    type Item = (A::Item, B::Item);

    #[inline(always)]
    fn next(&mut self) -> Option<Self::Item> {
        let first = self.first.next()?;
        Some((first, self.second.next()?))
    }
}

impl<A: OwnPart<D>, B: OwnPart<D>, const D: usize> OwnPart<D> for OwnZip<A, B> {
    type Itself = Self;

    #[inline(always)]
    fn itself(self) -> Self {
        self
    }

    #[inline(always)]
    fn whole(&self) -> Extent<D> {
        self.first.whole()
    }
}
