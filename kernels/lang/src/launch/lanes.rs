//! Neighbouring threads of a phase side by side: each one's values are elements of arrays, which
//! the compiler keeps in vector registers. The bounds of the elements that they read are checked
//! once for all of them.
//!
//! The kernel's macro writes this beside the loop over single threads (`phases/lanes.rs` there says
//! when). Where code is not optimised there are no vectors, and phases, lanes and pieces, which
//! would only be compiled, are left out.

use std::any::TypeId;
use std::marker::PhantomData;
use std::mem::MaybeUninit;

use super::phases::{Kept, Phases};
use crate::extent::Vector;
use crate::kernel::BlockKernel;
use crate::level::Level;
use crate::partition::RawMut;
use crate::shared::{SharedRead, SharedWrite};
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
const LANES: usize = 16;

/// A variable of threads that go side by side.
#[doc(hidden)]
#[derive(Debug)]
#[repr(transparent)]
pub struct Lanes<T>([MaybeUninit<T>; LANES]);

/// A container that threads read by an index of so many numbers.
///
/// # Safety
/// Asked again, a container answers the same; and it has the elements that it says it has.
#[doc(hidden)]
pub unsafe trait Elements<const N: usize> {
    /// The type of its elements.
    type Element;

    /// The number of indices along each dimension.
    fn extents(&self) -> [usize; N];

    /// The number of elements.
    fn elements(&self) -> usize;

    /// The element.
    ///
    /// # Safety
    /// Each number of the index is below that of `extents`.
    unsafe fn at_index(&self, index: [usize; N]) -> &Self::Element;
}

// SAFETY: a slice has the elements of its length.
unsafe impl<T> Elements<1> for &[T] {
    type Element = T;

    #[inline(always)]
    fn extents(&self) -> [usize; 1] {
        [<[T]>::len(self)]
    }

    #[inline(always)]
    fn elements(&self) -> usize {
        <[T]>::len(self)
    }

    #[inline(always)]
    unsafe fn at_index(&self, [index]: [usize; 1]) -> &T {
        // SAFETY: the caller promises that the index is within the extents, which are the length.
        unsafe { self.get_unchecked(index) }
    }
}

// SAFETY: as of the slice that it shows.
unsafe impl<T> Elements<1> for SharedRead<'_, T> {
    type Element = T;

    #[inline(always)]
    fn extents(&self) -> [usize; 1] {
        [<[T]>::len(self)]
    }

    #[inline(always)]
    fn elements(&self) -> usize {
        <[T]>::len(self)
    }

    #[inline(always)]
    unsafe fn at_index(&self, [index]: [usize; 1]) -> &T {
        // SAFETY: the caller promises that the index is within the extents, which are the length.
        unsafe { self.get_unchecked(index) }
    }
}

// SAFETY: a view has the elements of its extent, as who made it has promised.
unsafe impl<T, const D: usize> Elements<D> for GlobalRef<'_, T, D> {
    type Element = T;

    #[inline(always)]
    fn extents(&self) -> [usize; D] {
        self.extent().components()
    }

    #[inline(always)]
    fn elements(&self) -> usize {
        self.extent().product()
    }

    #[inline(always)]
    unsafe fn at_index(&self, index: [usize; D]) -> &T {
        // SAFETY: the index is within the extent, as the caller promises.
        unsafe { self.at_unchecked(Vector::new(index)) }
    }
}

/// What threads side by side ask and do, for what the macro writes. The safety of that rests on
/// these answers. So they are inherent methods of this type, which are found before those of any
/// trait of the kernel's crate, and their parameters say of which type each subject is.
impl<K: BlockKernel<D>, L: Level, const D: usize> Phases<'_, '_, K, L, D> {
    /// The number of threads that go side by side.
    #[inline(always)]
    pub fn width(&self) -> usize {
        LANES
    }

    /// True if a row has so many threads from one on.
    #[inline(always)]
    pub fn is_wide(&self, last: usize) -> bool {
        self.row_length() - last >= LANES
    }

    /// The end, in a row, of the threads that go one by one in place of some side by side.
    #[inline(always)]
    pub fn until(&self, last: usize) -> usize {
        Ord::min(self.row_length(), last + LANES)
    }

    /// The number of a thread in its block.
    #[inline(always)]
    pub fn number(&self, row: usize, last: usize) -> usize {
        row * self.row_length() + last
    }

    /// No answer.
    #[inline(always)]
    pub fn none<T>(&self) -> Option<T> {
        None
    }

    /// An answer.
    #[inline(always)]
    pub fn some<T>(&self, answer: T) -> Option<T> {
        Some(answer)
    }

    /// The number that a value is, if it is an `usize` or a reference to one: sums of these are
    /// those of the language, and the operators of another type may do anything.
    #[inline(always)]
    pub fn index<T>(&self, value: &T) -> Option<usize> {
        let address = std::ptr::from_ref(value);
        let of = type_of::<T>();
        if of == TypeId::of::<usize>() {
            // SAFETY: `T` is `usize`, which has no lifetimes.
            Some(unsafe { *address.cast::<usize>() })
        } else if of == TypeId::of::<&'static usize>() || of == TypeId::of::<&'static mut usize>() {
            // SAFETY: `T` is a reference of some lifetime, which is borrowed here.
            Some(unsafe { **address.cast::<&usize>() })
        } else {
            None
        }
    }

    /// A value that is an `usize`.
    #[inline(always)]
    pub fn whole(&self, value: usize) -> Option<usize> {
        Some(value)
    }

    /// The value of a counter as an `usize`.
    #[inline(always)]
    pub fn cast<T: TryInto<usize>>(&self, counter: T) -> Option<usize> {
        counter.try_into().ok()
    }

    /// What the kernel says of itself, if that is what is known.
    #[inline(always)]
    pub fn same<T>(&self, said: &T, known: usize) -> Option<usize> {
        self.index(said).filter(|said| *said == known)
    }

    /// The number that a value has been found to be.
    #[inline(always)]
    pub fn known(&self, index: Option<usize>) -> usize {
        index.unwrap_or_default()
    }

    /// A sum of an index, unless it overflows.
    #[inline(always)]
    pub fn sum(&self, left: Option<usize>, right: Option<usize>) -> Option<usize> {
        sum(left, right)
    }

    /// A difference of an index, unless it overflows.
    #[inline(always)]
    pub fn difference(&self, left: Option<usize>, right: Option<usize>) -> Option<usize> {
        difference(left, right)
    }

    /// A product of an index, unless it overflows.
    #[inline(always)]
    pub fn product(&self, left: Option<usize>, right: Option<usize>) -> Option<usize> {
        product(left, right)
    }

    /// The number of a container's elements.
    #[inline(always)]
    pub fn len<C: Elements<N>, const N: usize>(&self, of: &C) -> usize {
        of.elements()
    }

    /// A container's extent along a dimension.
    #[inline(always)]
    pub fn extent<C: Elements<N>, const N: usize>(&self, of: &C, dimension: usize) -> usize {
        of.extents()[dimension]
    }

    /// True if a container has such an element.
    #[inline(always)]
    pub fn has<C: Elements<N>, const N: usize>(&self, of: &C, index: [usize; N]) -> bool {
        let extents = of.extents();
        (0..N).all(|at| index[at] < extents[at])
    }

    /// An element of a container.
    ///
    /// # Safety
    /// [`has`](Self::has) says that there is one.
    #[inline(always)]
    pub unsafe fn element<'c, C: Elements<N>, const N: usize>(
        &self,
        of: &'c C,
        index: [usize; N],
    ) -> &'c C::Element {
        // SAFETY: as the caller promises.
        unsafe { of.at_index(index) }
    }

    /// The number of elements of a raw array.
    #[inline(always)]
    pub fn raw_len<T: Copy>(&self, of: &RawMut<'_, T>) -> usize {
        of.len()
    }

    /// True if a raw array has such an element, and nobody watches what is done to it.
    #[inline(always)]
    pub fn raw_has<T: Copy>(&self, of: &RawMut<'_, T>, index: usize) -> bool {
        index < of.len() && !of.is_watched()
    }

    /// The value of an element of a raw array.
    ///
    /// # Safety
    /// As [`RawMut::read`], and [`raw_has`](Self::raw_has) says that there is one.
    #[inline(always)]
    pub unsafe fn raw_read<T: Copy>(&self, of: &RawMut<'_, T>, index: usize) -> T {
        // SAFETY: the element is inside the array, and for the rest the kernel vouches.
        unsafe { of.as_ptr().add(index).read() }
    }

    /// Sets an element of a raw array.
    ///
    /// # Safety
    /// As [`RawMut::write`], and [`raw_has`](Self::raw_has) says that there is one.
    #[inline(always)]
    pub unsafe fn raw_write<T: Copy>(&self, of: &RawMut<'_, T>, index: usize, value: T) {
        // SAFETY: as above.
        unsafe { of.as_ptr().add(index).write(value) };
    }

    /// True if the element of a thread's number is the thread's own. (Then that is so of all
    /// threads before, too.)
    #[inline(always)]
    pub fn is_single<T>(&self, of: &SharedWrite<'_, T>, thread: usize) -> bool {
        of.is_own_of(thread)
    }

    /// The elements of a thread's number and behind.
    ///
    /// # Safety
    /// These are the own elements of the same threads, of which no other is handed any meanwhile.
    #[inline(always)]
    pub unsafe fn own_lanes<T: Copy>(&self, of: &SharedWrite<'_, T>, thread: usize) -> Lanes<T> {
        // SAFETY: the elements are inside the array, and as the caller promises.
        unsafe { of.as_ptr().add(thread).cast::<Lanes<T>>().read() }
    }

    /// Sets them.
    ///
    /// # Safety
    /// As [`own_lanes`](Self::own_lanes), and all have been set.
    #[inline(always)]
    pub unsafe fn set_own_lanes<T: Copy>(
        &self,
        of: &mut SharedWrite<'_, T>,
        thread: usize,
        lanes: Lanes<T>,
    ) {
        // SAFETY: as above.
        unsafe { of.as_ptr().add(thread).cast::<Lanes<T>>().write(lanes) };
    }

    /// A variable, not set, of threads that go side by side.
    #[inline(always)]
    pub fn new_lanes<T: Copy>(&self) -> Lanes<T> {
        Lanes([MaybeUninit::uninit(); LANES])
    }

    /// The value of one of them.
    ///
    /// # Safety
    /// It has been set, and there are so many.
    #[inline(always)]
    pub unsafe fn lane<T: Copy>(&self, of: &Lanes<T>, lane: usize) -> T {
        // SAFETY: as the caller promises.
        unsafe { of.0.get_unchecked(lane).assume_init() }
    }

    /// Sets the value of one of them.
    ///
    /// # Safety
    /// There are so many.
    #[inline(always)]
    pub unsafe fn set_lane<T: Copy>(&self, of: &mut Lanes<T>, lane: usize, value: T) {
        // SAFETY: as the caller promises.
        unsafe { *of.0.get_unchecked_mut(lane) = MaybeUninit::new(value) };
    }

    /// The values of a thread and of those behind it.
    ///
    /// # Safety
    /// The block has so many threads.
    #[inline(always)]
    pub unsafe fn kept_lanes<T: Copy>(&self, of: &Kept<T>, thread: usize) -> Lanes<T> {
        // SAFETY: there is room for all threads.
        Lanes(unsafe { of.at(thread).cast::<[MaybeUninit<T>; LANES]>().read() })
    }

    /// Sets them.
    ///
    /// # Safety
    /// As [`kept_lanes`](Self::kept_lanes).
    #[inline(always)]
    pub unsafe fn set_kept_lanes<T: Copy>(&self, of: &Kept<T>, thread: usize, lanes: Lanes<T>) {
        // SAFETY: there is room for all threads.
        unsafe { of.at(thread).cast::<Lanes<T>>().write(lanes) };
    }
}

/// The identity of a type, whatever its lifetimes are.
#[inline(always)]
fn type_of<T>() -> TypeId {
    trait Typed {
        fn type_id(&self) -> TypeId
        where
            Self: 'static;
    }
    impl<T> Typed for PhantomData<T> {
        #[inline(always)]
        fn type_id(&self) -> TypeId
        where
            Self: 'static,
        {
            TypeId::of::<T>()
        }
    }
    let of: &dyn Typed = &PhantomData::<T>;
    // SAFETY: the two differ in a lifetime only, and the method that is called uses none.
    let of = unsafe { std::mem::transmute::<&dyn Typed, &(dyn Typed + 'static)>(of) };
    of.type_id()
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
