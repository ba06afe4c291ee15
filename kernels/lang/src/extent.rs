//! Sizes and positions in any number of dimensions.
//!
//! An [`Extent`] says how large something is, a [`Vector`] where something is. Both are row-major:
//! the last component is the fastest, the one whose neighbours are neighbours in memory. Sizes that
//! do not fit the machine's address range are errors, never a wrap-around and never a panic.

use std::fmt;
use std::ops::{Index, IndexMut};

use crate::error::KernelError;

/// Does something for each dimension, the slowest first.
///
/// For the usual numbers of dimensions this is no loop, as the optimiser unrolls loops only after
/// it has done away with the checks that follow from others. Before, it sees nothing of the values
/// in an array that a loop indexes.
#[inline(always)]
pub(crate) fn each_dimension<const D: usize>(mut does: impl FnMut(usize)) {
    match D {
        1 => does(0),
        2 => {
            does(0);
            does(1);
        }
        3 => {
            does(0);
            does(1);
            does(2);
        }
        _ => (0..D).for_each(does),
    }
}

macro_rules! components {
    ($(#[$documentation:meta])* $name:ident) => {
        $(#[$documentation])*
        #[derive(Clone, Copy, PartialEq, Eq, Hash)]
        pub struct $name<const D: usize>([usize; D]);

        impl<const D: usize> $name<D> {
            /// From one component per dimension, the slowest first.
            ///
            /// Zero dimensions do not compile.
            #[inline(always)]
            pub const fn new(components: [usize; D]) -> Self {
                const { assert!(D >= 1, "at least one dimension is needed") };
                Self(components)
            }

            /// The same component in every dimension.
            #[inline(always)]
            pub const fn splat(component: usize) -> Self {
                Self::new([component; D])
            }

            /// One component per dimension, the slowest first.
            #[inline(always)]
            pub const fn components(self) -> [usize; D] {
                self.0
            }

            /// Computes each component from its dimension.
            #[inline(always)]
            pub(crate) fn from_fn(mut component: impl FnMut(usize) -> usize) -> Self {
                let mut components = [0; D];
                each_dimension::<D>(|dimension| components[dimension] = component(dimension));
                Self::new(components)
            }
        }

        /// The component of one dimension; panics when there is no such dimension, as an array
        /// does.
        impl<const D: usize> Index<usize> for $name<D> {
            type Output = usize;
            #[inline(always)]
            fn index(&self, dimension: usize) -> &usize {
                &self.0[dimension]
            }
        }

        /// As [`Index`].
        impl<const D: usize> IndexMut<usize> for $name<D> {
            #[inline(always)]
            fn index_mut(&mut self, dimension: usize) -> &mut usize {
                &mut self.0[dimension]
            }
        }

        impl<const D: usize> From<[usize; D]> for $name<D> {
            #[inline(always)]
            fn from(components: [usize; D]) -> Self {
                Self::new(components)
            }
        }

        impl<const D: usize> From<$name<D>> for [usize; D] {
            #[inline(always)]
            fn from(value: $name<D>) -> Self {
                value.0
            }
        }

        impl From<usize> for $name<1> {
            #[inline(always)]
            fn from(component: usize) -> Self {
                Self([component])
            }
        }

        impl From<$name<1>> for usize {
            #[inline(always)]
            fn from(value: $name<1>) -> Self {
                value.0[0]
            }
        }

        impl<const D: usize> fmt::Debug for $name<D> {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "{}{:?}", stringify!($name), self.0)
            }
        }

        impl<const D: usize> fmt::Display for $name<D> {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "{:?}", self.0)
            }
        }
    };
}

components! {
    /// A position: an index or an offset, one component per dimension, the slowest first.
    Vector
}

components! {
    /// A size: how many of something along each dimension, the slowest first. Zero is a valid size.
    ///
    /// ```
    /// use quipu_kernel::{Extent, Vector};
    ///
    /// let image = Extent::new([480, 640]);
    /// assert_eq!(image.count()?, 307_200);
    /// assert_eq!(image.linearise(Vector::new([1, 2])), Some(642));
    /// assert_eq!(image.delinearise(642), Some(Vector::new([1, 2])));
    /// assert!(Extent::new([usize::MAX, 2]).count().is_err());
    /// # Ok::<(), quipu_kernel::KernelError>(())
    /// ```
    ///
    /// There is no extent without a dimension:
    ///
    /// ```compile_fail
    /// let nothing = quipu_kernel::Extent::<0>::new([]);
    /// ```
    Extent
}

impl<const D: usize> Vector<D> {
    /// The origin.
    pub const ZERO: Self = Self::splat(0);
}

impl<const D: usize> Extent<D> {
    /// One in every dimension.
    pub const ONE: Self = Self::splat(1);

    /// True if it is zero in some dimension, so that it holds nothing.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.0.contains(&0)
    }

    /// The product of all components.
    ///
    /// # Errors
    /// [`KernelError::ExtentOverflow`] when it does not fit a `usize`. An empty extent has the
    /// product zero, however large its other components are.
    #[inline]
    pub fn count(&self) -> Result<usize, KernelError> {
        self.checked_count()
            .ok_or_else(|| KernelError::ExtentOverflow {
                what: "the product of an extent",
                extents: vec![self.0.to_vec()],
            })
    }

    /// [`count`](Self::count), with `None` for an overflow.
    #[inline]
    pub(crate) fn checked_count(&self) -> Option<usize> {
        if self.is_empty() {
            return Some(0);
        }
        self.0
            .iter()
            .try_fold(1usize, |product, &size| product.checked_mul(size))
    }

    /// [`count`](Self::count) in kernels: of an extent whose product fits, as that of all that a
    /// launch has does.
    ///
    /// Of one whose product does not, it has wrapped around.
    #[inline(always)]
    pub fn product(&self) -> usize {
        self.0
            .iter()
            .fold(1usize, |product, &size| product.wrapping_mul(size))
    }

    /// True if `position` lies inside.
    #[inline]
    pub fn contains(&self, position: Vector<D>) -> bool {
        let mut is_inside = true;
        each_dimension::<D>(|dimension| is_inside &= position[dimension] < self.0[dimension]);
        is_inside
    }

    /// The row-major number of a position: how many positions come before it.
    ///
    /// `None` when the position is outside, or its number does not fit a `usize`.
    #[inline]
    pub fn linearise(&self, position: Vector<D>) -> Option<usize> {
        if !self.contains(position) {
            return None;
        }
        (0..D).try_fold(0usize, |number, dimension| {
            number
                .checked_mul(self.0[dimension])?
                .checked_add(position[dimension])
        })
    }

    /// The position that has a row-major number; `None` when there are not that many.
    #[inline]
    pub fn delinearise(&self, number: usize) -> Option<Vector<D>> {
        let mut rest = number;
        let mut position = Vector::ZERO;
        for dimension in (0..D).rev() {
            let size = self.0[dimension];
            position[dimension] = rest.checked_rem(size)?;
            rest /= size;
        }
        (rest == 0).then_some(position)
    }

    /// [`linearise`](Self::linearise) in kernels: of a position that is inside.
    ///
    /// Of one that is not, it is some number.
    #[inline(always)]
    pub fn number_of(&self, position: Vector<D>) -> usize {
        self.offset(position)
    }

    /// [`delinearise`](Self::delinearise) in kernels: of a number of which there is a position.
    ///
    /// Of others the position is outside, in its first component.
    ///
    /// # Panics
    /// If a component is zero, but for the first.
    #[inline(always)]
    #[track_caller]
    pub fn position_of(&self, number: usize) -> Vector<D> {
        let mut rest = number;
        let mut position = Vector::ZERO;
        for dimension in (1..D).rev() {
            position[dimension] = rest % self.0[dimension];
            rest /= self.0[dimension];
        }
        position[0] = rest;
        position
    }

    /// [`linearise`](Self::linearise) of a position known to be inside an extent whose product
    /// fits.
    #[inline(always)]
    pub(crate) fn offset(&self, position: Vector<D>) -> usize {
        let mut number = 0usize;
        each_dimension::<D>(|dimension| {
            number = number
                .wrapping_mul(self.0[dimension])
                .wrapping_add(position[dimension]);
        });
        number
    }

    /// Steps to the next position in row-major order; from the last one back to the origin.
    #[inline(always)]
    pub(crate) fn advance(&self, position: &mut Vector<D>) {
        let mut is_finished = true;
        each_dimension::<D>(|faster| {
            let dimension = D - 1 - faster;
            if is_finished {
                let next = position[dimension] + 1;
                is_finished = next >= self.0[dimension];
                position[dimension] = if is_finished { 0 } else { next };
            }
        });
    }

    /// The number of tiles of `tile` that cover it, dimension by dimension. No tile size is zero.
    pub(crate) fn tiles(&self, tile: Extent<D>) -> Extent<D> {
        Extent::from_fn(|dimension| self.0[dimension].div_ceil(tile[dimension]))
    }

    /// The product dimension by dimension, `None` when one overflows.
    pub(crate) fn checked_scale(&self, by: Extent<D>) -> Option<Extent<D>> {
        let mut scaled = Extent::ONE;
        for dimension in 0..D {
            scaled[dimension] = self.0[dimension].checked_mul(by[dimension])?;
        }
        Some(scaled)
    }

    /// [`checked_scale`](Self::checked_scale) where the product is known to fit.
    #[inline(always)]
    pub(crate) fn known_scale(&self, by: Extent<D>) -> Extent<D> {
        Extent::from_fn(|dimension| self.0[dimension].wrapping_mul(by[dimension]))
    }
}

/// An array, or what has the components of one: a type that a kernel's `let [i, j] = …;` takes
/// apart.
#[diagnostic::on_unimplemented(
    message = "`[i, j]` takes apart arrays, indices and extents, and `{Self}` is none of these",
    label = "write a name, and what is needed of it in the next statement"
)]
pub trait Components {
    /// The array.
    type Array;

    #[doc(hidden)]
    fn components_of(self) -> Self::Array;
}

macro_rules! arrays {
    ($([$($generics:tt)*] $type:ty => $array:ty: |$value:ident| $components:expr;)*) => {$(
        impl<$($generics)*> Components for $type {
            type Array = $array;

            #[inline(always)]
            fn components_of(self) -> $array {
                let $value = self;
                $components
            }
        }
    )*};
}

arrays! {
    [T, const N: usize] [T; N] => Self: |array| array;
    ['a, T, const N: usize] &'a [T; N] => Self: |array| array;
    ['a, T, const N: usize] &'a mut [T; N] => Self: |array| array;
    [const D: usize] Vector<D> => [usize; D]: |index| index.components();
    [const D: usize] Extent<D> => [usize; D]: |extent| extent.components();
}

/// The array that a pattern takes apart.
#[doc(hidden)]
#[inline(always)]
pub fn components<C: Components>(of: C) -> C::Array {
    of.components_of()
}
