//! Neighbouring threads of a phase side by side: each one's values are elements of arrays, which
//! the compiler keeps in vector registers. The bounds of the elements that they read are checked
//! once for all of them.
//!
//! The kernel's macro writes this beside the loop over single threads (`phases/lanes.rs` there says
//! when). Where code is not optimised there are no vectors, and phases, lanes and pieces, which
//! would only be compiled, are left out.

use std::mem::MaybeUninit;

use super::phases::Kept;
use crate::extent::Vector;
use crate::partition::RawMut;
use crate::shared::SharedWrite;
use crate::view::GlobalRef;

/// Code that is worth it only where this crate is optimised, and with it the program's kernels.
#[doc(hidden)]
#[macro_export]
#[cfg(not(unoptimised))]
macro_rules! __optimised {
    ($($code:tt)*) => { $($code)* };
}

/// Nothing: see the other one.
#[doc(hidden)]
#[macro_export]
#[cfg(unoptimised)]
macro_rules! __optimised {
    ($($code:tt)*) => {};
}

/// The code in its place where this crate is not optimised.
#[doc(hidden)]
#[macro_export]
#[cfg(unoptimised)]
macro_rules! __unoptimised {
    ($($code:tt)*) => { $($code)* };
}

/// Nothing: see the other one.
#[doc(hidden)]
#[macro_export]
#[cfg(not(unoptimised))]
macro_rules! __unoptimised {
    ($($code:tt)*) => {};
}

/// The number of threads that go side by side: a vector of `f32` where vectors are longest.
#[doc(hidden)]
pub const LANES: usize = 16;

/// A variable of threads that go side by side.
#[doc(hidden)]
#[derive(Debug)]
#[repr(transparent)]
pub struct Lanes<T>([MaybeUninit<T>; LANES]);

impl<T: Copy> Lanes<T> {
    /// Of a variable that is not set.
    #[inline(always)]
    #[expect(clippy::new_without_default, reason = "of no value")]
    pub fn new() -> Self {
        Self([MaybeUninit::uninit(); LANES])
    }

    /// The value of one.
    ///
    /// # Safety
    /// It has been set, and there are so many.
    #[inline(always)]
    pub unsafe fn get(&self, lane: usize) -> T {
        // SAFETY: as the caller promises.
        unsafe { self.0.get_unchecked(lane).assume_init() }
    }

    /// Sets the value of one.
    ///
    /// # Safety
    /// There are so many.
    #[inline(always)]
    pub unsafe fn set(&mut self, lane: usize, value: T) {
        // SAFETY: as the caller promises.
        unsafe { *self.0.get_unchecked_mut(lane) = MaybeUninit::new(value) };
    }
}

impl<T: Copy> Kept<T> {
    /// The values of a thread and of those behind it.
    ///
    /// # Safety
    /// The block has so many threads.
    #[inline(always)]
    pub unsafe fn lanes(&self, thread: usize) -> Lanes<T> {
        // SAFETY: there is room for all threads.
        Lanes(unsafe { self.at(thread).cast::<[MaybeUninit<T>; LANES]>().read() })
    }

    /// Sets them.
    ///
    /// # Safety
    /// As [`lanes`](Self::lanes).
    #[inline(always)]
    pub unsafe fn set_lanes(&self, thread: usize, lanes: Lanes<T>) {
        // SAFETY: there is room for all threads.
        unsafe { self.at(thread).cast::<Lanes<T>>().write(lanes) };
    }
}

impl<T: Copy> SharedWrite<'_, T> {
    /// True if the element of the thread's number is the thread's own. (Then that is so of all
    /// threads before, too.)
    #[doc(hidden)]
    #[inline(always)]
    pub fn is_single(&self, thread: usize) -> bool {
        self.is_own_of(thread)
    }

    /// The elements of a thread's number and behind.
    ///
    /// # Safety
    /// These are the own elements of the same threads, of which no other is handed any meanwhile.
    #[doc(hidden)]
    #[inline(always)]
    pub unsafe fn lanes(&self, thread: usize) -> Lanes<T> {
        // SAFETY: the elements are inside the array, and as the caller promises.
        unsafe { self.as_ptr().add(thread).cast::<Lanes<T>>().read() }
    }

    /// Sets them.
    ///
    /// # Safety
    /// As [`lanes`](Self::lanes), and all have been set.
    #[doc(hidden)]
    #[inline(always)]
    pub unsafe fn set_lanes(&mut self, thread: usize, lanes: Lanes<T>) {
        // SAFETY: as above.
        unsafe { self.as_ptr().add(thread).cast::<Lanes<T>>().write(lanes) };
    }
}

impl<T: Copy> RawMut<'_, T> {
    /// True if there is such an element, and nobody watches what is done to it.
    #[doc(hidden)]
    #[inline(always)]
    pub fn lanes_have(&self, index: usize) -> bool {
        index < self.len() && !self.is_watched()
    }

    /// The value of an element.
    ///
    /// # Safety
    /// As [`read`](Self::read), and [`lanes_have`](Self::lanes_have) says that there is one.
    #[doc(hidden)]
    #[inline(always)]
    pub unsafe fn read_of_lane(&self, index: usize) -> T {
        // SAFETY: the element is inside the array, and for the rest the kernel vouches.
        unsafe { self.as_ptr().add(index).read() }
    }

    /// Sets an element.
    ///
    /// # Safety
    /// As [`write`](Self::write), and [`lanes_have`](Self::lanes_have) says that there is one.
    #[doc(hidden)]
    #[inline(always)]
    pub unsafe fn write_of_lane(&self, index: usize, value: T) {
        // SAFETY: as above.
        unsafe { self.as_ptr().add(index).write(value) };
    }
}

/// A container that threads read by an index.
#[doc(hidden)]
pub trait Elements<I> {
    /// The type of its elements.
    type Element;

    /// True if there is such an element.
    fn lanes_have(&self, index: I) -> bool;

    /// The element.
    ///
    /// # Safety
    /// There is one.
    unsafe fn of_lane(&self, index: I) -> &Self::Element;
}

impl<T> Elements<[usize; 1]> for [T] {
    type Element = T;

    #[inline(always)]
    fn lanes_have(&self, [index]: [usize; 1]) -> bool {
        index < self.len()
    }

    #[inline(always)]
    unsafe fn of_lane(&self, [index]: [usize; 1]) -> &T {
        // SAFETY: as the caller promises.
        unsafe { self.get_unchecked(index) }
    }
}

impl<T, const D: usize> Elements<[usize; D]> for GlobalRef<'_, T, D> {
    type Element = T;

    #[inline(always)]
    fn lanes_have(&self, index: [usize; D]) -> bool {
        self.extent().contains(Vector::new(index))
    }

    #[inline(always)]
    unsafe fn of_lane(&self, index: [usize; D]) -> &T {
        // SAFETY: the index is within the extent: `Elements::of_lane` asks its caller for that.
        unsafe { self.at_unchecked(Vector::new(index)) }
    }
}

/// A value that a kernel's index is made of. [`index`](Self::index) is chosen by its type: the
/// operators of another type may do anything.
#[doc(hidden)]
#[derive(Debug)]
pub struct MayIndex<'v, T>(pub &'v T);

impl<T: WholeIndex> MayIndex<'_, T> {
    /// The number.
    #[inline(always)]
    pub fn index(&self) -> Option<usize> {
        Some(self.0.whole())
    }
}

/// Any other value, which is no index.
#[doc(hidden)]
pub trait NoIndex {
    /// None.
    #[inline(always)]
    fn index(&self) -> Option<usize> {
        None
    }
}

impl<T> NoIndex for MayIndex<'_, T> {}

/// An `usize`, by reference or not: sums of these are those of the language.
#[doc(hidden)]
pub trait WholeIndex: whole::Sealed {
    /// The number.
    fn whole(&self) -> usize;
}

mod whole {
    pub trait Sealed {}
    impl Sealed for usize {}
    impl Sealed for &usize {}
    impl Sealed for &mut usize {}
}

impl WholeIndex for usize {
    #[inline(always)]
    fn whole(&self) -> usize {
        *self
    }
}

impl WholeIndex for &usize {
    #[inline(always)]
    fn whole(&self) -> usize {
        **self
    }
}

impl WholeIndex for &mut usize {
    #[inline(always)]
    fn whole(&self) -> usize {
        **self
    }
}

/// The number that a value has been found to be.
#[doc(hidden)]
#[inline(always)]
pub fn known(index: Option<usize>) -> usize {
    index.unwrap_or_default()
}

/// A sum of an index, unless it overflows.
#[doc(hidden)]
#[inline(always)]
pub fn sum(left: Option<usize>, right: Option<usize>) -> Option<usize> {
    left?.checked_add(right?)
}

/// A difference of an index, unless it overflows.
#[doc(hidden)]
#[inline(always)]
pub fn difference(left: Option<usize>, right: Option<usize>) -> Option<usize> {
    left?.checked_sub(right?)
}

/// A product of an index, unless it overflows.
#[doc(hidden)]
#[inline(always)]
pub fn product(left: Option<usize>, right: Option<usize>) -> Option<usize> {
    left?.checked_mul(right?)
}
