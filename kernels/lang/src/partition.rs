//! How the threads of a launch share out what they write, so that no two of them have the same element.
//!
//! A kernel names a partition for each of its outputs, in its type. So all threads of a launch go by the
//! same one, and each is handed its own part by value: an element is reachable through one part only, and
//! that makes races impossible, whatever a kernel does with its part.
//!
//! | partition | a thread is handed | for |
//! |---|---|---|
//! | [`ByElement`] | [`OwnElements`]: the elements that are its own by index | maps, stencils, tiles |
//! | [`ByBlock`] | `&mut [T]`: its share of the block's share | one result (or row) per block |
//! | [`Atomically`] | `&[AtomicU32]` and the like: all elements | histograms, counters |
//! | [`Unpartitioned`] | [`RawMut`]: all elements, through `unsafe` methods | scatters known to be disjoint |
//!
//! A part lasts as long as the thread, and cannot be kept:
//!
//! ```compile_fail
//! use std::sync::Mutex;
//! use quipu_kernel::{Accelerator, ByElement, Kernel, OwnElements};
//!
//! struct Keep<'k>(Mutex<Vec<OwnElements<'k, f32>>>);
//!
//! impl Kernel<1> for Keep<'_> {
//!     type Output = ByElement<f32>;
//!     fn run<A: Accelerator<1>>(&self, _acc: &A, output: OwnElements<'_, f32>) {
//!         self.0.lock().unwrap().push(output);
//!     }
//! }
//! ```

use std::fmt;
use std::marker::PhantomData;
use std::sync::atomic;

use crate::accelerator::Accelerator;
use crate::division::WorkDivision;
use crate::error::KernelError;
use crate::extent::{Extent, Vector};
use crate::region::{Region, Rows};
use crate::strides::Places;
use crate::view::GlobalMut;

/// What each thread of a kernel is handed of an output that is partitioned by `P`.
pub type Own<'t, P, const D: usize> = <P as Partition<D>>::Own<'t>;

/// What a launch with an output that is partitioned by `P` has to be given.
pub type View<'a, P, const D: usize> = <P as Partition<D>>::View<'a>;

/// A way to share out an output among the threads of a grid of `D` dimensions.
///
/// # Safety
/// [`own`](Self::own) gives threads of different index parts with which safe code cannot race.
pub unsafe trait Partition<const D: usize> {
    /// What the launch is given: a [`GlobalMut`], or a tuple of them.
    type View<'a>;
    /// The view and what is known about its parts before any thread runs.
    type Plan<'a>: Send + Sync;
    /// What each thread is handed.
    type Own<'t>;

    /// Prepares a view for a launch of such a division.
    ///
    /// # Errors
    /// Says why the view cannot be partitioned.
    fn plan<'a>(
        view: Self::View<'a>,
        division: &WorkDivision<D>,
    ) -> Result<Self::Plan<'a>, KernelError>;

    /// The part of the thread that `acc` is.
    ///
    /// # Safety
    /// `acc` is one thread of a launch of the division that the plan was made for, and tells the truth.
    /// While what this returns lives (and not longer than the plan's elements do), it is not called for the same thread again.
    unsafe fn own<'t, A: Accelerator<D>>(plan: &Self::Plan<'_>, acc: &A) -> Self::Own<'t>;
}

/// Partition: each thread is handed its own elements, those of [`Accelerator::region`].
#[derive(Debug, Clone, Copy)]
pub struct ByElement<T>(PhantomData<fn() -> T>);

// SAFETY: the regions of the threads of a grid are disjoint.
unsafe impl<T: Send + 'static, const D: usize> Partition<D> for ByElement<T> {
    type View<'a> = GlobalMut<'a, T, D>;
    type Plan<'a> = GlobalMut<'a, T, D>;
    type Own<'t> = OwnElements<'t, T, D>;

    #[inline]
    fn plan<'a>(
        view: Self::View<'a>,
        _division: &WorkDivision<D>,
    ) -> Result<Self::Plan<'a>, KernelError> {
        Ok(view)
    }

    #[inline(always)]
    unsafe fn own<'t, A: Accelerator<D>>(
        plan: &GlobalMut<'_, T, D>,
        acc: &A,
    ) -> OwnElements<'t, T, D> {
        OwnElements {
            pointer: plan.as_ptr(),
            places: plan.places(),
            region: acc.region(plan.extent()),
            elements: PhantomData,
        }
    }
}

/// One thread's own elements of an output.
///
/// ```
/// # use quipu_kernel::OwnElements;
/// fn double(mut y: OwnElements<'_, f32>, x: &[f32]) {
///     for (i, y) in y.each() {
///         *y = 2.0 * x[i];
///     }
/// }
/// ```
///
/// They can be gone through any number of times, one time after the other:
///
/// ```compile_fail,E0499
/// # use quipu_kernel::OwnElements;
/// fn twice(mut y: OwnElements<'_, f32>) {
///     let first = y.each();
///     let second = y.each();
///     first.zip(second).for_each(drop);
/// }
/// ```
pub struct OwnElements<'t, T, const D: usize = 1> {
    pointer: *mut T,
    places: Places<D>,
    region: Region<D>,
    elements: PhantomData<&'t mut [T]>,
}

// SAFETY: it is its elements, as a `&mut [T]` is, which is `Send` for these `T`.
unsafe impl<T: Send, const D: usize> Send for OwnElements<'_, T, D> {}
// SAFETY: a shared reference to it lets safe code see its region and nothing else.
unsafe impl<T: Send, const D: usize> Sync for OwnElements<'_, T, D> {}

impl<T, const D: usize> OwnElements<'_, T, D> {
    /// The extent of the whole output.
    #[inline(always)]
    pub fn extent(&self) -> Extent<D> {
        self.region.extent()
    }

    /// Which elements of the output these are.
    #[inline(always)]
    pub fn region(&self) -> Region<D> {
        self.region
    }

    /// Each of them with its row-major number in the output.
    ///
    /// A `for` loop over it is as tight as one over a slice in one dimension; in more, `for_each` and
    /// `fold` are, and [`rows`](Self::rows).
    #[inline(always)]
    pub fn each(&mut self) -> Each<'_, T, D> {
        let mut each = Each {
            rows: self.rows(),
            index: 0,
            row: [].iter_mut(),
        };
        each.next_row();
        each
    }

    /// Their rows, each with the position of its first element in the output.
    #[inline(always)]
    pub fn rows(&mut self) -> EachRow<'_, T, D> {
        EachRow {
            pointer: self.pointer,
            places: self.places,
            rows: self.region.rows(),
            elements: PhantomData,
        }
    }
}

impl<T, const D: usize> fmt::Debug for OwnElements<'_, T, D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "OwnElements({:?})", self.region)
    }
}

/// Iterator of [`OwnElements::rows`].
#[derive(Debug)]
pub struct EachRow<'e, T, const D: usize> {
    pointer: *mut T,
    places: Places<D>,
    rows: Rows<D>,
    elements: PhantomData<&'e mut [T]>,
}

impl<'e, T, const D: usize> EachRow<'e, T, D> {
    #[inline(always)]
    fn next_placed(&mut self) -> Option<(Vector<D>, &'e mut [T])> {
        let (position, length) = self.rows.next()?;
        // SAFETY: the region lies in the output's extent, so the row is inside the output. Rows are
        // disjoint, as their places are, regions are disjoint, and the region is borrowed for `'e`.
        Some((position, unsafe {
            std::slice::from_raw_parts_mut(self.pointer.add(self.places.place(position)), length)
        }))
    }

    #[inline(always)]
    fn next_numbered(&mut self) -> Option<(usize, &'e mut [T])> {
        let (position, row) = self.next_placed()?;
        Some((self.places.extent().offset(position), row))
    }
}

impl<'e, T, const D: usize> Iterator for EachRow<'e, T, D> {
    type Item = (Vector<D>, &'e mut [T]);

    #[inline(always)]
    fn next(&mut self) -> Option<Self::Item> {
        self.next_placed()
    }
}

/// Iterator of [`OwnElements::each`].
#[derive(Debug)]
pub struct Each<'e, T, const D: usize> {
    rows: EachRow<'e, T, D>,
    /// The number of the next element of `row`.
    index: usize,
    row: std::slice::IterMut<'e, T>,
}

impl<T, const D: usize> Each<'_, T, D> {
    #[inline(always)]
    fn next_row(&mut self) -> bool {
        let Some((start, row)) = self.rows.next_numbered() else {
            return false;
        };
        self.index = start;
        self.row = row.iter_mut();
        true
    }
}

impl<'e, T, const D: usize> Iterator for Each<'e, T, D> {
    type Item = (usize, &'e mut T);

    #[inline(always)]
    fn next(&mut self) -> Option<Self::Item> {
        loop {
            if let Some(element) = self.row.next() {
                let index = self.index;
                self.index += 1;
                return Some((index, element));
            }
            if D == 1 || !self.next_row() {
                return None;
            }
        }
    }

    #[inline]
    fn fold<B, F: FnMut(B, Self::Item) -> B>(mut self, initial: B, mut f: F) -> B {
        let mut folded = initial;
        loop {
            let first = self.index;
            folded = self.row.enumerate().fold(folded, |folded, (at, element)| {
                f(folded, (first + at, element))
            });
            let Some((start, row)) = self.rows.next_numbered() else {
                return folded;
            };
            (self.index, self.row) = (start, row.iter_mut());
        }
    }
}

/// Partition: the output is cut into as many equal parts as there are blocks, in order, and each block's
/// part into as many as it has threads.
///
/// With one element per block, the block's first thread is handed that, and the others an empty slice.
#[derive(Debug, Clone, Copy)]
pub struct ByBlock<T>(PhantomData<fn() -> T>);

/// A [`ByBlock`] output: the view, and how many elements each block and each thread have.
#[derive(Debug)]
pub struct BlockParts<'a, T> {
    view: GlobalMut<'a, T>,
    per_block: usize,
    per_thread: usize,
}

// SAFETY: parts of different blocks are disjoint, and those of different threads of a block.
unsafe impl<T: Send + 'static, const D: usize> Partition<D> for ByBlock<T> {
    type View<'a> = GlobalMut<'a, T>;
    type Plan<'a> = BlockParts<'a, T>;
    type Own<'t> = &'t mut [T];

    #[inline]
    fn plan<'a>(
        view: Self::View<'a>,
        division: &WorkDivision<D>,
    ) -> Result<Self::Plan<'a>, KernelError> {
        let per_block = view.len().div_ceil(division.block_count().max(1));
        let per_thread = per_block.div_ceil(division.threads_per_block());
        Ok(BlockParts {
            view,
            per_block,
            per_thread,
        })
    }

    #[inline(always)]
    unsafe fn own<'t, A: Accelerator<D>>(plan: &BlockParts<'_, T>, acc: &A) -> &'t mut [T] {
        let division = acc.division();
        let block = division.grid_blocks().offset(acc.block_index());
        let thread = division.block_threads().offset(acc.thread_index());
        let block_start = block.saturating_mul(plan.per_block).min(plan.view.len());
        let block_end = block_start
            .saturating_add(plan.per_block)
            .min(plan.view.len());
        let start = block_start
            .saturating_add(thread.saturating_mul(plan.per_thread))
            .min(block_end);
        let end = start.saturating_add(plan.per_thread).min(block_end);
        // SAFETY: `start <= end <= len`, and these elements are the part of this thread alone, which,
        // the caller promises, has no other live part.
        unsafe { std::slice::from_raw_parts_mut(plan.view.as_ptr().add(start), end - start) }
    }
}

/// Partition: every thread is handed all elements, as atomics.
#[derive(Debug, Clone, Copy)]
pub struct Atomically<T>(PhantomData<fn() -> T>);

/// An integer that the machine can change atomically.
///
/// # Safety
/// `Atomic` has the size and the bit patterns of `Self`.
pub unsafe trait AtomicElement: Send + 'static {
    /// Its atomic type.
    type Atomic: Send + Sync + 'static;
}

macro_rules! atomics {
    ($($width:literal: $($element:ty => $atomic:ident),*;)*) => {$($(
        // SAFETY: std documents the same size and bit patterns for both.
        #[cfg(target_has_atomic = $width)]
        unsafe impl AtomicElement for $element {
            type Atomic = atomic::$atomic;
        }
    )*)*};
}

atomics! {
    "8": u8 => AtomicU8, i8 => AtomicI8;
    "16": u16 => AtomicU16, i16 => AtomicI16;
    "32": u32 => AtomicU32, i32 => AtomicI32;
    "64": u64 => AtomicU64, i64 => AtomicI64;
    "ptr": usize => AtomicUsize, isize => AtomicIsize;
}

// SAFETY: all that threads are handed are shared references to atomics.
unsafe impl<T: AtomicElement, const D: usize> Partition<D> for Atomically<T> {
    type View<'a> = GlobalMut<'a, T>;
    type Plan<'a> = GlobalMut<'a, T>;
    type Own<'t> = &'t [T::Atomic];

    #[inline]
    fn plan<'a>(
        view: Self::View<'a>,
        _division: &WorkDivision<D>,
    ) -> Result<Self::Plan<'a>, KernelError> {
        if !view.as_ptr().cast::<T::Atomic>().is_aligned() {
            return Err(KernelError::Unaligned {
                alignment: align_of::<T::Atomic>(),
            });
        }
        Ok(view)
    }

    #[inline(always)]
    unsafe fn own<'t, A: Accelerator<D>>(plan: &GlobalMut<'_, T>, _acc: &A) -> &'t [T::Atomic] {
        // SAFETY: aligned, as the plan checked; of the same size and patterns; and nobody reaches the
        // elements but through these references while the view lives.
        unsafe { std::slice::from_raw_parts(plan.as_ptr().cast(), plan.len()) }
    }
}

/// Partition: every thread is handed all elements, and promises what the compiler cannot see.
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
    unsafe fn own<'t, A: Accelerator<D>>(plan: &GlobalMut<'_, T>, _acc: &A) -> RawMut<'t, T> {
        RawMut {
            pointer: plan.as_ptr(),
            length: plan.len(),
            elements: PhantomData,
        }
    }
}

/// All elements of an output, in the hands of every thread.
///
/// ```compile_fail,E0133
/// # use quipu_kernel::RawMut;
/// fn scatter(output: RawMut<'_, u32>) {
///     *output.get_mut(0).unwrap() = 1; // what promises that no other thread does so?
/// }
/// ```
#[derive(Debug, Clone, Copy)]
pub struct RawMut<'t, T> {
    pointer: *mut T,
    length: usize,
    elements: PhantomData<&'t [T]>,
}

impl<'t, T> RawMut<'t, T> {
    /// One of the elements, `None` when there are not that many.
    ///
    /// # Safety
    /// While the reference lives, no thread has another one to the same element.
    #[inline(always)]
    pub unsafe fn get_mut(&self, index: usize) -> Option<&'t mut T> {
        // SAFETY: the index is inside; for the rest the caller vouches.
        (index < self.length).then(|| unsafe { &mut *self.pointer.add(index) })
    }

    /// How many elements there are.
    #[inline(always)]
    pub fn len(&self) -> usize {
        self.length
    }

    /// Whether there are none.
    #[inline(always)]
    pub fn is_empty(&self) -> bool {
        self.length == 0
    }

    /// The first element.
    #[inline(always)]
    pub fn as_ptr(&self) -> *mut T {
        self.pointer
    }
}

// SAFETY: there is nothing to hand out.
unsafe impl<const D: usize> Partition<D> for () {
    type View<'a> = ();
    type Plan<'a> = ();
    type Own<'t> = ();

    #[inline]
    fn plan<'a>(
        (): Self::View<'a>,
        _division: &WorkDivision<D>,
    ) -> Result<Self::Plan<'a>, KernelError> {
        Ok(())
    }

    #[inline(always)]
    unsafe fn own<'t, A: Accelerator<D>>((): &(), _acc: &A) -> Self::Own<'t> {}
}

macro_rules! tuples {
    ($($name:ident $at:tt),+) => {
        // SAFETY: each part is shared out by itself, and views do not overlap as they own their elements.
        unsafe impl<$($name: Partition<D>,)+ const D: usize> Partition<D> for ($($name,)+) {
            type View<'a> = ($($name::View<'a>,)+);
            type Plan<'a> = ($($name::Plan<'a>,)+);
            type Own<'t> = ($($name::Own<'t>,)+);

            #[inline]
            fn plan<'a>(view: Self::View<'a>, division: &WorkDivision<D>) -> Result<Self::Plan<'a>, KernelError> {
                Ok(($($name::plan(view.$at, division)?,)+))
            }

            #[inline(always)]
            unsafe fn own<'t, A: Accelerator<D>>(plan: &Self::Plan<'_>, acc: &A) -> Self::Own<'t> {
                // SAFETY: what the caller promises for all holds for each part.
                ($(unsafe { $name::own(&plan.$at, acc) },)+)
            }
        }
    };
}

tuples!(P0 0);
tuples!(P0 0, P1 1);
tuples!(P0 0, P1 1, P2 2);
tuples!(P0 0, P1 1, P2 2, P3 3);
tuples!(P0 0, P1 1, P2 2, P3 3, P4 4);
tuples!(P0 0, P1 1, P2 2, P3 3, P4 4, P5 5);
