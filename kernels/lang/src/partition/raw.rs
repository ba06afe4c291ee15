//! All elements for every thread, with promises that the compiler cannot check.

use std::marker::PhantomData;
use std::ops::Range;
use std::panic::Location;

use super::Partition;
use crate::accelerator::Accelerator;
use crate::check;
use crate::division::WorkDivision;
use crate::error::KernelError;
use crate::view::GlobalMut;

/// Partition: every thread is handed all elements, and its code makes promises that the compiler
/// cannot check.
#[derive(Debug, Clone, Copy)]
pub struct Unpartitioned<T>(PhantomData<fn() -> T>);

// SAFETY: safe code can do nothing with the elements through a `RawMut`.
unsafe impl<T: Send + 'static, const D: usize> Partition<D> for Unpartitioned<T> {
    type View<'a> = GlobalMut<'a, T>;
    type Plan<'a> = GlobalMut<'a, T>;
    type Own<'t> = RawMut<'t, T>;

    #[inline]
    fn plan<'a>(
        view: Self::View<'a>,
        _division: &WorkDivision<D>,
    ) -> Result<Self::Plan<'a>, KernelError> {
        Ok(view)
    }

    #[inline(always)]
    unsafe fn own<'t, A: Accelerator<D>>(plan: &GlobalMut<'_, T>, acc: &A) -> RawMut<'t, T> {
        RawMut {
            pointer: plan.as_ptr(),
            length: plan.len(),
            watched: acc.is_watched(),
            elements: PhantomData,
        }
    }
}

/// All elements of an output, in the hands of every thread.
///
/// In [checking mode](crate::RunOptions::check) each access is watched, and races between threads
/// are reported.
///
/// ```compile_fail,E0133
/// # use quipu_kernel::RawMut;
/// fn scatter(output: RawMut<'_, u32>) {
///     output.write(0, 1); // what promises that no other thread does so?
/// }
/// ```
#[derive(Debug, Clone, Copy)]
pub struct RawMut<'t, T> {
    pointer: *mut T,
    length: usize,
    watched: bool,
    elements: PhantomData<&'t [T]>,
}

impl<'t, T> RawMut<'t, T> {
    #[inline(always)]
    pub(crate) fn new(pointer: *mut T, length: usize, watched: bool) -> Self {
        Self {
            pointer,
            length,
            watched,
            elements: PhantomData,
        }
    }

    #[inline(always)]
    pub(crate) fn is_watched(&self) -> bool {
        self.watched
    }

    /// The address of an element. Takes note that it is reached.
    #[inline(always)]
    #[track_caller]
    fn place(&self, index: usize, writes: bool) -> *mut T {
        if index >= self.length {
            out_of_bounds(self.length, index);
        }
        let place = self.pointer.wrapping_add(index);
        if self.watched {
            check::note(place.addr(), index, writes, None, Location::caller());
        }
        place
    }

    /// The value of an element.
    ///
    /// # Panics
    /// If there is no such element.
    ///
    /// # Safety
    /// No thread writes the element meanwhile.
    #[inline(always)]
    #[track_caller]
    pub unsafe fn read(&self, index: usize) -> T
    where
        T: Copy,
    {
        // SAFETY: the index is inside; for the rest the caller vouches.
        unsafe { self.place(index, false).read() }
    }

    /// Sets an element.
    ///
    /// # Panics
    /// If there is no such element.
    ///
    /// # Safety
    /// No other thread reads or writes the element meanwhile.
    #[inline(always)]
    #[track_caller]
    pub unsafe fn write(&self, index: usize, value: T)
    where
        T: Copy,
    {
        // SAFETY: the index is inside; for the rest the caller vouches.
        unsafe { self.place(index, true).write(value) }
    }

    /// One of the elements, `None` when there are not that many.
    ///
    /// # Safety
    /// While the reference lives, no thread has another one to the same element.
    #[inline(always)]
    #[track_caller]
    pub unsafe fn get_mut(&self, index: usize) -> Option<&'t mut T> {
        // SAFETY: the index is inside; for the rest the caller vouches.
        (index < self.length).then(|| unsafe { &mut *self.place(index, true) })
    }

    /// Some neighbours, to be read.
    ///
    /// # Panics
    /// If there are no such elements.
    ///
    /// # Safety
    /// While the slice lives, no thread writes them.
    #[inline(always)]
    #[track_caller]
    pub unsafe fn slice(&self, range: Range<usize>) -> &'t [T] {
        let length = self.neighbours(&range, false);
        // SAFETY: the range is inside; for the rest the caller vouches.
        unsafe { std::slice::from_raw_parts(self.pointer.add(range.start), length) }
    }

    /// Some neighbours, to be written.
    ///
    /// # Panics
    /// If there are no such elements.
    ///
    /// # Safety
    /// While the slice lives, nobody reads or writes them but through it.
    #[inline(always)]
    #[track_caller]
    pub unsafe fn slice_mut(&self, range: Range<usize>) -> &'t mut [T] {
        let length = self.neighbours(&range, true);
        // SAFETY: the range is inside; for the rest the caller vouches.
        unsafe { std::slice::from_raw_parts_mut(self.pointer.add(range.start), length) }
    }

    /// The number of elements of a range. Takes note that they are reached.
    #[inline(always)]
    #[track_caller]
    fn neighbours(&self, range: &Range<usize>, writes: bool) -> usize {
        if range.start > range.end || range.end > self.length {
            range_out_of_bounds(self.length, range);
        }
        if self.watched {
            for index in range.clone() {
                self.place(index, writes);
            }
        }
        range.end - range.start
    }

    /// The number of elements.
    #[inline(always)]
    pub fn len(&self) -> usize {
        self.length
    }

    /// True if there are no elements.
    #[inline(always)]
    pub fn is_empty(&self) -> bool {
        self.length == 0
    }

    /// The first element. Accesses through it are not watched.
    #[inline(always)]
    pub fn as_ptr(&self) -> *mut T {
        self.pointer
    }
}

#[cold]
#[track_caller]
fn out_of_bounds(length: usize, index: usize) -> ! {
    panic!("index out of bounds: the len is {length} but the index is {index}")
}

#[cold]
#[track_caller]
fn range_out_of_bounds(length: usize, range: &Range<usize>) -> ! {
    panic!("range out of bounds: the len is {length} but the range is {range:?}")
}
