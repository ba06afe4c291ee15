//! Device memory as a launch is given it: read by all threads, or written by them in parts.
//!
//! A view is made from a slice, whose borrow then lasts as long as the launch, or by a driver from
//! the raw memory that an argument was resolved to. [`GlobalRef`] is an ordinary shared slice, or
//! in several dimensions an array with or without gaps between its rows. Memory in the gaps is no
//! part of it, and may be written by others. [`GlobalMut`] gives a kernel nothing by itself: a
//! [`Partition`](crate::Partition), named by the kernel, hands each thread its own part of it.
//!
//! A view to be written is not `Copy`: one partition consumes it for the launch.
//!
//! ```compile_fail,E0382
//! # use quipu_kernel::GlobalMut;
//! let mut numbers = [0; 4];
//! let view = GlobalMut::from(&mut numbers[..]);
//! let both = (view, view);
//! ```
//!
//! And written memory is borrowed exclusively:
//!
//! ```compile_fail,E0502
//! # use quipu_kernel::{GlobalMut, GlobalRef};
//! let mut numbers = [0; 4];
//! let output = GlobalMut::from(&mut numbers[..]);
//! let input = GlobalRef::from(&numbers[..]);
//! drop((input, output));
//! ```

use std::fmt;
use std::marker::PhantomData;
use std::ops::{
    Deref, Index, Range, RangeFrom, RangeFull, RangeInclusive, RangeTo, RangeToInclusive,
};

use crate::error::KernelError;
use crate::extent::{Extent, Vector};
use crate::strides::Places;

/// Elements that every thread may read, seen in `D` dimensions; in one a shared slice.
pub struct GlobalRef<'a, T, const D: usize = 1> {
    pointer: *const T,
    places: Places<D>,
    elements: PhantomData<&'a [T]>,
}

// SAFETY: it gives references to its elements and nothing else, as a `&[T]` does, which is `Send`
// for these `T`.
unsafe impl<T: Sync, const D: usize> Send for GlobalRef<'_, T, D> {}
// SAFETY: as a `&[T]`, which is `Sync` for these `T`.
unsafe impl<T: Sync, const D: usize> Sync for GlobalRef<'_, T, D> {}

impl<'a, T> GlobalRef<'a, T> {
    /// The `length` elements at `pointer`, for a driver that has resolved an argument.
    ///
    /// # Safety
    /// All of it is one allocation. For as long as the view or a copy of it lives, its elements are
    /// initialised and changed by nobody: of an array [in strides](Self::in_strides) of it, those
    /// between the gaps. A `length` of zero needs a pointer that is aligned and not null.
    #[inline(always)]
    pub unsafe fn from_raw_parts(pointer: *const T, length: usize) -> Self {
        Self {
            pointer,
            places: Places::row(length),
            elements: PhantomData,
        }
    }

    /// The same elements as an array whose neighbours along each dimension are so many elements
    /// apart.
    ///
    /// ```
    /// # use quipu_kernel::GlobalRef;
    /// let memory = [1, 2, 3, 0, 4, 5, 6]; // rows of three, four apart
    /// let image = GlobalRef::from(&memory[..]).in_strides([2, 3], [4, 1])?;
    /// assert_eq!(image.at([1, 0]), Some(&4));
    /// assert_eq!(image.row([1, 1]), Some(&[5, 6][..]));
    /// assert_eq!(image.at([0, 3]), None);
    /// # Ok::<(), quipu_kernel::KernelError>(())
    /// ```
    ///
    /// # Errors
    /// [`KernelError::OverlappingRows`] when two elements would have the same place or the last
    /// stride is not one, [`KernelError::ViewTooShort`] when there are not that many places.
    #[inline]
    pub fn in_strides<const D: usize>(
        self,
        extent: impl Into<Extent<D>>,
        strides: impl Into<Vector<D>>,
    ) -> Result<GlobalRef<'a, T, D>, KernelError> {
        Ok(GlobalRef {
            pointer: self.pointer,
            places: Places::strided(extent.into(), strides.into(), self.extent()[0])?,
            elements: PhantomData,
        })
    }

    /// All elements.
    #[inline(always)]
    fn as_slice(&self) -> &'a [T] {
        // SAFETY: they are there and no one changes them, as the maker of the view has promised. In
        // one dimension it has no gaps.
        unsafe { std::slice::from_raw_parts(self.pointer, self.extent()[0]) }
    }
}

impl<'a, T, const D: usize> GlobalRef<'a, T, D> {
    /// Its extent in elements.
    #[inline(always)]
    pub fn extent(&self) -> Extent<D> {
        self.places.extent()
    }

    /// The distance of neighbours along each dimension, in elements.
    #[inline(always)]
    pub fn strides(&self) -> Vector<D> {
        self.places.strides()
    }

    /// The element at a position; `None` when it is outside.
    #[inline(always)]
    pub fn at(&self, position: impl Into<Vector<D>>) -> Option<&'a T> {
        self.row(position)?.first()
    }

    /// The elements from a position to the end of its row; `None` when it is outside.
    #[inline(always)]
    pub fn row(&self, position: impl Into<Vector<D>>) -> Option<&'a [T]> {
        let (position, extent) = (position.into(), self.extent());
        let start = extent
            .contains(position)
            .then(|| self.places.place(position))?;
        let length = extent[D - 1] - position[D - 1];
        // SAFETY: the row's elements touch, from a position that is inside. `Places` has all of
        // them inside the memory.
        Some(unsafe { std::slice::from_raw_parts(self.pointer.add(start), length) })
    }
}

impl<T, const D: usize> GlobalRef<'_, T, D> {
    /// The element at a position.
    ///
    /// # Safety
    /// It is inside.
    #[inline(always)]
    pub(crate) unsafe fn at_unchecked(&self, position: Vector<D>) -> &T {
        // SAFETY: as the caller promises. `Places` has all positions that are inside within the
        // memory.
        unsafe { &*self.pointer.add(self.places.place(position)) }
    }

    /// The same view for as long as somebody else promises.
    ///
    /// # Safety
    /// For as long as the result lives, the elements are there and changed by nobody.
    #[inline(always)]
    pub(crate) unsafe fn extended<'t>(&self) -> GlobalRef<'t, T, D> {
        GlobalRef {
            pointer: self.pointer,
            places: self.places,
            elements: PhantomData,
        }
    }
}

/// An index of an element of a view of `D` dimensions, or of a part of it: a position, and in one
/// dimension also a number or a range.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is no position in an array of {D} dimensions",
    label = "a position is an array of as many `usize`: `view[[i as usize, j as usize]]`"
)]
pub trait At<T, const D: usize> {
    /// An element or several.
    type Output: ?Sized;

    /// Reaches it.
    #[doc(hidden)]
    fn of<'v>(self, view: &'v GlobalRef<'_, T, D>) -> &'v Self::Output;
}

impl<T, const D: usize> At<T, D> for [usize; D] {
    type Output = T;

    #[inline(always)]
    #[track_caller]
    fn of<'v>(self, view: &'v GlobalRef<'_, T, D>) -> &'v T {
        Vector::new(self).of(view)
    }
}

impl<T, const D: usize> At<T, D> for Vector<D> {
    type Output = T;

    #[inline(always)]
    #[track_caller]
    fn of<'v>(self, view: &'v GlobalRef<'_, T, D>) -> &'v T {
        if !view.extent().contains(self) {
            outside(
                self.components().as_slice(),
                view.extent().components().as_slice(),
            );
        }
        // SAFETY: the position is inside.
        unsafe { view.at_unchecked(self) }
    }
}

#[cold]
#[track_caller]
fn outside(position: &[usize], extent: &[usize]) -> ! {
    panic!("the position {position:?} is outside of a view of {extent:?} elements")
}

macro_rules! in_one_dimension {
    ($($index:ty => $output:ty),*) => {$(
        impl<T> At<T, 1> for $index {
            type Output = $output;

            #[inline(always)]
            #[track_caller]
            fn of<'v>(self, view: &'v GlobalRef<'_, T>) -> &'v $output {
                &view.as_slice()[self]
            }
        }
    )*};
}

in_one_dimension!(usize => T, Range<usize> => [T], RangeFrom<usize> => [T], RangeTo<usize> => [T], RangeFull => [T],
    RangeInclusive<usize> => [T], RangeToInclusive<usize> => [T]);

/// The element at a position; panics when it is outside.
///
/// ```
/// # use quipu_kernel::GlobalRef;
/// let memory = [1, 2, 3, 0, 4, 5, 6];
/// let image = GlobalRef::from(&memory[..]).in_strides([2, 3], [4, 1])?;
/// assert_eq!(image[[1, 0]], 4);
/// # Ok::<(), quipu_kernel::KernelError>(())
/// ```
impl<T, I: At<T, D>, const D: usize> Index<I> for GlobalRef<'_, T, D> {
    type Output = I::Output;

    #[inline(always)]
    #[track_caller]
    fn index(&self, index: I) -> &I::Output {
        index.of(self)
    }
}

impl<T, const D: usize> Clone for GlobalRef<'_, T, D> {
    #[inline(always)]
    fn clone(&self) -> Self {
        *self
    }
}

impl<T, const D: usize> Copy for GlobalRef<'_, T, D> {}

impl<T> Deref for GlobalRef<'_, T> {
    type Target = [T];

    #[inline(always)]
    fn deref(&self) -> &[T] {
        self.as_slice()
    }
}

impl<'a, T> From<&'a [T]> for GlobalRef<'a, T> {
    #[inline(always)]
    fn from(elements: &'a [T]) -> Self {
        Self {
            pointer: elements.as_ptr(),
            places: Places::row(elements.len()),
            elements: PhantomData,
        }
    }
}

impl<'a, T> From<&'a Vec<T>> for GlobalRef<'a, T> {
    #[inline(always)]
    fn from(elements: &'a Vec<T>) -> Self {
        Self::from(elements.as_slice())
    }
}

impl<T, const D: usize> fmt::Debug for GlobalRef<'_, T, D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "GlobalRef({} elements)", self.extent())
    }
}

/// Elements that the threads of a launch write, seen in `D` dimensions. The launch has them for
/// itself.
pub struct GlobalMut<'a, T, const D: usize = 1> {
    pointer: *mut T,
    places: Places<D>,
    elements: PhantomData<&'a mut [T]>,
}

// SAFETY: its launch has the elements as a `&mut [T]` has, which is `Send` for these `T`.
unsafe impl<T: Send, const D: usize> Send for GlobalMut<'_, T, D> {}
// SAFETY: a shared view lets safe code see its extent and nothing else.
unsafe impl<T: Send, const D: usize> Sync for GlobalMut<'_, T, D> {}

impl<'a, T> GlobalMut<'a, T> {
    /// The `length` elements at `pointer`, for a driver that has resolved an argument.
    ///
    /// # Safety
    /// For as long as the view lives, the elements are initialised, in one allocation, and used
    /// through nothing but views of the same launch: of an array in strides of it, those between
    /// the gaps. It may have several of them, as each thread that runs some of its blocks has, if
    /// each is handed to one partition, all of these divide it in the same way, and no block is run
    /// through two of them. So no element belongs to two threads: a view makes no reference to its
    /// elements, and its partition one to the elements of the threads that are run. A `length` of
    /// zero needs a pointer that is aligned and not null.
    #[inline(always)]
    pub unsafe fn from_raw_parts(pointer: *mut T, length: usize) -> Self {
        Self {
            pointer,
            places: Places::row(length),
            elements: PhantomData,
        }
    }

    /// The first elements, as many as `extent` has, in row-major order.
    ///
    /// ```
    /// # use quipu_kernel::{Extent, GlobalMut};
    /// let mut pixels = vec![0u8; 480 * 640];
    /// let image = GlobalMut::from(&mut pixels).in_extent([480, 640])?;
    /// assert_eq!(image.extent(), Extent::new([480, 640]));
    /// # Ok::<(), quipu_kernel::KernelError>(())
    /// ```
    ///
    /// # Errors
    /// [`KernelError::ViewTooShort`] when there are not that many.
    #[inline]
    pub fn in_extent<const D: usize>(
        self,
        extent: impl Into<Extent<D>>,
    ) -> Result<GlobalMut<'a, T, D>, KernelError> {
        Ok(GlobalMut {
            pointer: self.pointer,
            places: Places::dense(extent.into(), self.len())?,
            elements: PhantomData,
        })
    }

    /// Some of the elements: an array whose neighbours along each dimension are so many elements
    /// apart. Elements between its rows are left alone.
    ///
    /// # Errors
    /// [`KernelError::OverlappingRows`] when two elements would have the same place or the last
    /// stride is not one, [`KernelError::ViewTooShort`] when there are not that many places.
    #[inline]
    pub fn in_strides<const D: usize>(
        self,
        extent: impl Into<Extent<D>>,
        strides: impl Into<Vector<D>>,
    ) -> Result<GlobalMut<'a, T, D>, KernelError> {
        Ok(GlobalMut {
            pointer: self.pointer,
            places: Places::strided(extent.into(), strides.into(), self.len())?,
            elements: PhantomData,
        })
    }
}

impl<T, const D: usize> GlobalMut<'_, T, D> {
    /// Its extent in elements.
    #[inline(always)]
    pub fn extent(&self) -> Extent<D> {
        self.places.extent()
    }

    /// The distance of neighbours along each dimension, in elements.
    #[inline(always)]
    pub fn strides(&self) -> Vector<D> {
        self.places.strides()
    }

    #[inline(always)]
    pub(crate) fn places(&self) -> Places<D> {
        self.places
    }

    /// The number of its elements.
    #[inline(always)]
    pub fn len(&self) -> usize {
        self.extent().product()
    }

    /// True if it has no elements.
    #[inline(always)]
    pub fn is_empty(&self) -> bool {
        self.extent().is_empty()
    }

    /// Its first element. Using it is `unsafe`: for the life of the view the elements belong to it.
    #[inline(always)]
    pub fn as_ptr(&self) -> *mut T {
        self.pointer
    }
}

impl<'a, T> From<&'a mut [T]> for GlobalMut<'a, T> {
    #[inline(always)]
    fn from(elements: &'a mut [T]) -> Self {
        Self {
            pointer: elements.as_mut_ptr(),
            places: Places::row(elements.len()),
            elements: PhantomData,
        }
    }
}

impl<'a, T> From<&'a mut Vec<T>> for GlobalMut<'a, T> {
    #[inline(always)]
    fn from(elements: &'a mut Vec<T>) -> Self {
        Self::from(elements.as_mut_slice())
    }
}

impl<T, const D: usize> fmt::Debug for GlobalMut<'_, T, D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "GlobalMut({} elements)", self.extent())
    }
}
