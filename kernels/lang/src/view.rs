//! Device memory as a launch is given it: read by all threads, or written by them in parts.
//!
//! A view is made from a slice, whose borrow then lasts as long as the launch, or by a driver from the
//! raw memory that an argument was resolved to. [`GlobalRef`] is an ordinary shared slice.
//! [`GlobalMut`] gives a kernel nothing by itself: a [`Partition`](crate::Partition), named by the kernel,
//! hands each thread its own part of it.
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
//! And what is written is borrowed from everyone else:
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
use std::ops::Deref;

use crate::error::KernelError;
use crate::extent::Extent;

/// Elements that every thread may read: a shared slice.
pub struct GlobalRef<'a, T> {
    elements: &'a [T],
}

impl<T> GlobalRef<'_, T> {
    /// The `length` elements at `pointer`, for a driver that has resolved an argument.
    ///
    /// # Safety
    /// For as long as the view or a copy of it lives, the elements are initialised, in one allocation,
    /// and changed by nobody. A `length` of zero needs a pointer that is aligned and not null.
    #[inline(always)]
    pub unsafe fn from_raw_parts(pointer: *const T, length: usize) -> Self {
        // SAFETY: what is needed is what the caller promises.
        let elements = unsafe { std::slice::from_raw_parts(pointer, length) };
        Self { elements }
    }
}

impl<T> Clone for GlobalRef<'_, T> {
    #[inline(always)]
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for GlobalRef<'_, T> {}

impl<T> Deref for GlobalRef<'_, T> {
    type Target = [T];

    #[inline(always)]
    fn deref(&self) -> &[T] {
        self.elements
    }
}

impl<'a, T> From<&'a [T]> for GlobalRef<'a, T> {
    #[inline(always)]
    fn from(elements: &'a [T]) -> Self {
        Self { elements }
    }
}

impl<'a, T> From<&'a Vec<T>> for GlobalRef<'a, T> {
    #[inline(always)]
    fn from(elements: &'a Vec<T>) -> Self {
        Self { elements }
    }
}

impl<T> fmt::Debug for GlobalRef<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "GlobalRef({} elements)", self.elements.len())
    }
}

/// Elements that the threads of a launch write, seen in `D` dimensions. The launch has them for itself.
pub struct GlobalMut<'a, T, const D: usize = 1> {
    pointer: *mut T,
    extent: Extent<D>,
    elements: PhantomData<&'a mut [T]>,
}

// SAFETY: it owns the elements as a `&mut [T]` does, which is `Send` for these `T`.
unsafe impl<T: Send, const D: usize> Send for GlobalMut<'_, T, D> {}
// SAFETY: a shared view lets safe code see its extent and nothing else.
unsafe impl<T: Send, const D: usize> Sync for GlobalMut<'_, T, D> {}

impl<'a, T> GlobalMut<'a, T> {
    /// The `length` elements at `pointer`, for a driver that has resolved an argument.
    ///
    /// # Safety
    /// For as long as the view lives, the elements are initialised, in one allocation, and used through
    /// nothing but the view. A `length` of zero needs a pointer that is aligned and not null.
    #[inline(always)]
    pub unsafe fn from_raw_parts(pointer: *mut T, length: usize) -> Self {
        Self {
            pointer,
            extent: Extent::new([length]),
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
        let (extent, length) = (extent.into(), self.len());
        match extent.checked_count() {
            Some(count) if count <= length => Ok(GlobalMut {
                pointer: self.pointer,
                extent,
                elements: PhantomData,
            }),
            _ => Err(KernelError::ViewTooShort {
                length,
                extent: extent.components().to_vec(),
            }),
        }
    }
}

impl<T, const D: usize> GlobalMut<'_, T, D> {
    /// Its extent in elements.
    #[inline(always)]
    pub fn extent(&self) -> Extent<D> {
        self.extent
    }

    /// How many elements it has.
    #[inline(always)]
    pub fn len(&self) -> usize {
        self.extent.known_count()
    }

    /// Whether it has no elements.
    #[inline(always)]
    pub fn is_empty(&self) -> bool {
        self.extent.is_empty()
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
            extent: Extent::new([elements.len()]),
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
        write!(f, "GlobalMut({} elements)", self.extent)
    }
}
