//! Memory that the threads of a block share, and the two phases of its life.
//!
//! A block kernel declares the memory that each of its blocks shares
//! ([`BlockKernel::shared`](crate::BlockKernel::shared)): a [`SharedArray`] of any length, or a
//! tuple of them. Plain bytes for any purpose are an array of `u8`; every array starts at a
//! multiple of [`SHARED_ALIGNMENT`], and [`bytemuck`] casts them. A block finds its arrays zeroed.
//! (On devices not those of a kernel with `#[shared(length, unsafe(uninit))]`.)
//!
//! Each thread is handed each array in its *write phase*, as a [`SharedWrite`]: it may change its
//! own elements and see nothing else. [`sync`](crate::BlockAccelerator::sync) is a barrier that
//! turns it into a [`SharedRead`], all of which may be read and nothing changed; another one turns
//! that back.
//!
//! | phase | this thread may | other threads may |
//! |---|---|---|
//! | write | change and read its own elements | change and read theirs |
//! | read | read all elements | read all elements |
//!
//! The barrier ensures that all threads are in the same phase: it does not complete unless every
//! thread of the block turns the same arrays the same way. And the compiler ensures that a thread
//! keeps no reference into an array over the barrier that turns it, as `sync` takes the handle
//! away.

use std::future::Future;
use std::marker::PhantomData;
use std::ops::{Deref, Range};
use std::pin::Pin;
use std::task::{Context, Poll};

use crate::barrier::{Barrier, Port, Site, Turns};
use crate::emit::KernelData;
use crate::error::KernelError;
use crate::partition::RawMut;

/// Every shared array starts at a multiple of so many bytes: a cache line.
pub const SHARED_ALIGNMENT: usize = 64;

/// The declaration of an array that the threads of a block share.
#[derive(Debug, Clone, Copy)]
pub struct SharedArray<T> {
    length: usize,
    /// The number of elements that are each thread's own.
    share: usize,
    /// All threads have a whole share.
    is_even: bool,
    /// Its offset in the block's shared memory, in bytes.
    offset: usize,
    /// Its number among the block's arrays.
    number: u32,
    elements: PhantomData<fn() -> T>,
}

impl<T: KernelData> SharedArray<T> {
    /// An array of so many elements.
    ///
    /// Each thread of the block owns an equally long part of it, in order: with as many elements as
    /// threads, thread `t` owns element `t`; with one element, the first thread owns it.
    ///
    /// The elements begin as zeros, which have to be a value of their type:
    ///
    /// ```compile_fail,E0080
    /// # use quipu_kernel::{KernelData, SharedArray};
    /// #[derive(Clone, Copy, KernelData)]
    /// # #[kernel_data(crate = quipu_kernel)]
    /// #[repr(u8)]
    /// enum Side {
    ///     Left = 1,
    ///     Right = 2,
    /// }
    /// let sides = SharedArray::<Side>::new(4);
    /// ```
    pub const fn new(length: usize) -> Self {
        const {
            assert!(
                align_of::<T>() <= SHARED_ALIGNMENT,
                "shared elements are aligned to a cache line at most"
            );
            assert!(
                T::HAS_ZERO,
                "shared arrays begin as zeros, which are no value of this type: give its enum a variant whose number is 0"
            );
        };
        Self {
            length,
            share: 0,
            is_even: false,
            offset: 0,
            number: 0,
            elements: PhantomData,
        }
    }
}

/// Gives each shared array of a block its place.
#[derive(Debug)]
pub struct SharedPlan {
    threads: usize,
    bytes: usize,
    arrays: u32,
}

impl SharedPlan {
    pub(crate) fn new(threads: usize) -> Self {
        Self {
            threads,
            bytes: 0,
            arrays: 0,
        }
    }

    /// The number of bytes that the arrays placed so far take.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }
}

/// The memory that the threads of a block share: nothing `()`, a [`SharedArray`], or a tuple.
///
/// # Safety
/// [`place`](Self::place) gives each array a part of the block's memory of its own, and
/// [`hand_out`](Self::hand_out) hands out exactly that part.
pub unsafe trait Shared: Send + Sync {
    /// The arrays in the memory of a worker, for one block.
    type Attached: Sync;
    /// The handles that each thread is given at its start.
    type Write<'b>;

    /// Finds the place of each array.
    ///
    /// # Errors
    /// [`KernelError::OutOfMemory`] when the arrays are more, or larger, than any block's could be.
    #[doc(hidden)]
    fn place(&mut self, plan: &mut SharedPlan) -> Result<(), KernelError>;

    /// The arrays in a worker's memory.
    ///
    /// # Safety
    /// At `memory` there are as many bytes, aligned as much, as the plan says that this was placed
    /// with, for as long as the returned value is used.
    #[doc(hidden)]
    unsafe fn attach(&self, memory: *mut u8, context: &BlockContext) -> Self::Attached;

    /// The handles of one thread.
    ///
    /// # Safety
    /// The memory is zeroed before the first thread of a block is handed anything, and used by that
    /// block only for as long as its threads live. Each of its threads is handed this once.
    #[doc(hidden)]
    unsafe fn hand_out<'b>(attached: &'b Self::Attached, thread: usize) -> Self::Write<'b>;
}

/// A shared array in a worker's memory.
#[derive(Debug)]
pub struct AttachedArray<T> {
    pointer: *mut T,
    length: usize,
    share: usize,
    is_even: bool,
    /// The turns of a thread that turns it to its read phase. (Kept, as every barrier needs them.)
    to_read: Turns,
    /// And to its write phase.
    to_write: Turns,
    context: BlockContext,
}

// SAFETY: the pointer is that of elements that may be shared, and used as handed out to each
// thread.
unsafe impl<T: Send + Sync> Sync for AttachedArray<T> {}

/// The facts of a block that its arrays need.
#[derive(Debug, Clone, Copy)]
pub struct BlockContext {
    /// Says which block it is; not to be read.
    pub(crate) block: *const (),
    /// One thread of the operating system runs all of the block's threads.
    pub(crate) runs_alone: bool,
    /// True if accesses to raw memory are watched.
    pub(crate) watched: bool,
}

// SAFETY: places start at the end of the memory that the plan has given away so far, and move that
// past the array's end.
unsafe impl<T: KernelData> Shared for SharedArray<T> {
    type Attached = AttachedArray<T>;
    type Write<'b> = SharedWrite<'b, T>;

    fn place(&mut self, plan: &mut SharedPlan) -> Result<(), KernelError> {
        let offset = plan.bytes.checked_next_multiple_of(SHARED_ALIGNMENT);
        let end =
            offset.and_then(|offset| size_of::<T>().checked_mul(self.length)?.checked_add(offset));
        let (Some(offset), Some(end)) = (offset, end) else {
            return Err(KernelError::OutOfMemory { bytes: usize::MAX });
        };
        if plan.arrays == Turns::MOST_ARRAYS
            || end > isize::MAX as usize
            || u32::try_from(self.length).is_err()
        {
            return Err(KernelError::OutOfMemory { bytes: end });
        }
        self.offset = offset;
        self.share = self.length.div_ceil(plan.threads.max(1));
        self.is_even = self.share.checked_mul(plan.threads) == Some(self.length);
        self.number = plan.arrays;
        plan.bytes = end;
        plan.arrays += 1;
        Ok(())
    }

    unsafe fn attach(&self, memory: *mut u8, context: &BlockContext) -> AttachedArray<T> {
        // SAFETY: the array lies inside the block's memory, so the caller promises.
        let pointer = unsafe { memory.add(self.offset) }.cast();
        AttachedArray {
            pointer,
            length: self.length,
            share: self.share,
            is_even: self.is_even,
            to_read: Turns::to_read(self.number),
            to_write: Turns::to_write(self.number),
            context: *context,
        }
    }

    #[inline(always)]
    unsafe fn hand_out<'b>(attached: &'b AttachedArray<T>, thread: usize) -> SharedWrite<'b, T> {
        // Nothing overflows: no thread of the block starts more than a share behind the array's
        // end.
        let start = thread.wrapping_mul(attached.share);
        // Asked first, as the answer is the same for all threads: so their loop is compiled without
        // the clipping.
        let (start, length) = if attached.is_even {
            (start, attached.share)
        } else {
            let start = start.min(attached.length);
            (start, attached.share.min(attached.length - start))
        };
        // Both fit, as the array is not longer than a `u32` can say.
        SharedWrite {
            own: OwnPart {
                array: attached,
                start: start as u32,
                length: length as u32,
            },
        }
    }
}

/// An array and which of its elements are one thread's own. Small, as threads keep it over
/// barriers.
#[derive(Debug)]
struct OwnPart<'b, T> {
    array: &'b AttachedArray<T>,
    start: u32,
    length: u32,
}

/// A shared array in its write phase: this thread changes its own elements, and sees no others.
///
/// ```
/// # use quipu_kernel::{BlockAccelerator, SharedWrite};
/// async fn rotate<A: BlockAccelerator<1>>(acc: &A, mut numbers: SharedWrite<'_, u32>) -> u32 {
///     let thread = acc.thread_index()[0];
///     numbers.own()[0] = thread as u32;
///     let numbers = acc.sync(numbers).await;
///     numbers[(thread + 1) % numbers.len()]
/// }
/// ```
///
/// Elements of other threads cannot be read before a barrier has turned the array:
///
/// ```compile_fail,E0608
/// # use quipu_kernel::{BlockAccelerator, SharedWrite};
/// async fn too_early<A: BlockAccelerator<1>>(acc: &A, mut numbers: SharedWrite<'_, u32>) -> u32 {
///     numbers.own()[0] = 1;
///     numbers[1]
/// }
/// ```
///
/// An array that has been turned is gone:
///
/// ```compile_fail,E0382
/// # use quipu_kernel::{BlockAccelerator, SharedWrite};
/// async fn both_phases<A: BlockAccelerator<1>>(acc: &A, mut numbers: SharedWrite<'_, u32>) -> u32 {
///     let read = acc.sync(numbers).await;
///     numbers.own()[0] = 1;
///     read[0]
/// }
/// ```
#[derive(Debug)]
pub struct SharedWrite<'b, T> {
    own: OwnPart<'b, T>,
}

impl<'b, T> SharedWrite<'b, T> {
    /// This thread's own elements.
    #[inline(always)]
    pub fn own(&mut self) -> &mut [T] {
        let OwnPart {
            array,
            start,
            length,
        } = self.own;
        // SAFETY: the elements are inside the array, and initialised as it was zeroed. No other
        // thread has these as its own, and none reads them, as all of them are in the write phase.
        unsafe {
            std::slice::from_raw_parts_mut(array.pointer.add(start as usize), length as usize)
        }
    }

    /// The range of the array's elements that [`own`](Self::own) gives.
    #[inline(always)]
    pub fn own_range(&self) -> Range<usize> {
        let start = self.own.start as usize;
        start..start + self.own.length as usize
    }

    /// True if the thread of a number has the element of that number, and no other. It is computed
    /// from values that are the same for all threads.
    #[inline(always)]
    pub(crate) fn is_own_of(&self, thread: usize) -> bool {
        let array = self.own.array;
        array.share == 1 && thread < array.length
    }

    /// The number of elements of the array.
    #[inline(always)]
    #[expect(
        clippy::len_without_is_empty,
        reason = "the length is the declaration's; nobody asks whether it is zero"
    )]
    pub fn len(&self) -> usize {
        self.own.array.length
    }

    /// The array without phases: every thread reaches every element, and its code makes promises
    /// that the compiler cannot check.
    ///
    /// ```compile_fail,E0133
    /// # use quipu_kernel::SharedWrite;
    /// fn scatter(numbers: SharedWrite<'_, u32>) {
    ///     numbers.into_raw().write(0, 1); // what promises that no other thread does so?
    /// }
    /// ```
    #[inline(always)]
    pub fn into_raw(self) -> SharedRaw<'b, T> {
        let array = self.own.array;
        RawMut::new(array.pointer, array.length, array.context.watched)
    }

    /// The first of all the elements, for accesses that the phases do not allow.
    ///
    /// Reading and writing through it is `unsafe`: such code promises that no other thread of the
    /// block changes the same element, or reads one that this thread changes, without a barrier
    /// between.
    #[inline(always)]
    pub fn as_ptr(&self) -> *mut T {
        self.own.array.pointer
    }
}

/// A shared array without phases: `unsafe` to read and write, and watched in checking mode.
pub type SharedRaw<'b, T> = RawMut<'b, T>;

/// A shared array in its read phase: every thread reads all of it, none changes it.
///
/// ```compile_fail,E0594
/// # use quipu_kernel::{BlockAccelerator, SharedRead};
/// fn change(numbers: &mut SharedRead<'_, u32>) {
///     numbers[0] = 1;
/// }
/// ```
///
/// No reference into it outlives the phase:
///
/// ```compile_fail,E0505
/// # use quipu_kernel::{BlockAccelerator, SharedRead};
/// async fn keep<A: BlockAccelerator<1>>(acc: &A, numbers: SharedRead<'_, u32>) -> u32 {
///     let first = &numbers[0];
///     let mut numbers = acc.sync(numbers).await;
///     *first
/// }
/// ```
#[derive(Debug)]
pub struct SharedRead<'b, T> {
    own: OwnPart<'b, T>,
}

impl<T> Deref for SharedRead<'_, T> {
    type Target = [T];

    #[inline(always)]
    fn deref(&self) -> &[T] {
        // SAFETY: the array is initialised, as it was zeroed; all threads are in the read phase, in
        // which none has a mutable reference.
        unsafe { std::slice::from_raw_parts(self.own.array.pointer, self.own.array.length) }
    }
}

/// A phase in which a thread has elements of its own.
#[diagnostic::on_unimplemented(
    message = "all threads read this shared array now, and none writes it",
    label = "turn it at a barrier before: `let mut sums = acc.sync(read).await;`, and then `sums.own()`"
)]
pub trait HasOwn {}

impl<T> SharedRead<'_, T> {
    /// For the message alone.
    #[doc(hidden)]
    pub fn own(&mut self) -> &mut [T]
    where
        Self: HasOwn,
    {
        &mut []
    }
}

/// Shared arrays that a barrier turns to their other phase: one, or a tuple.
pub trait Phase: turn::Turn {}
impl<P: turn::Turn> Phase for P {}

mod turn {
    use super::Turns;

    /// The sealed trait behind [`Phase`](super::Phase).
    pub trait Turn: Unpin {
        /// The arrays in the other phase.
        type Turned;
        /// The turns, which have to be the same for all threads of the block.
        #[doc(hidden)]
        fn turns(&self, block: *const ()) -> TurnsOf;
        /// Turns them: all threads of the block are here with the same [`turns`](Self::turns).
        #[doc(hidden)]
        fn turned(self) -> Self::Turned;
    }

    /// [`Turns`], which is nothing to the world outside.
    #[derive(Debug, Clone, Copy)]
    pub struct TurnsOf(pub(super) Turns);
}

/// Turns arrays at a barrier that is not awaited.
///
/// # Safety
/// All threads of the block turn the same arrays here, at a barrier that lies between their phases.
#[doc(hidden)]
#[inline(always)]
pub(crate) unsafe fn turned<P: Phase>(arrays: P) -> P::Turned {
    arrays.turned()
}

impl<T> AttachedArray<T> {
    #[inline(always)]
    pub(crate) fn as_ptr(&self) -> *mut T {
        self.pointer
    }

    #[inline(always)]
    pub(crate) fn len(&self) -> usize {
        self.length
    }

    #[inline(always)]
    pub(crate) fn block_runs_alone(&self) -> bool {
        self.context.runs_alone
    }

    #[inline(always)]
    pub(crate) fn is_watched(&self) -> bool {
        self.context.watched
    }

    /// `turns`, if this array is of the block whose barrier that is.
    #[inline(always)]
    fn turns_at(&self, block: *const (), turns: Turns) -> turn::TurnsOf {
        turn::TurnsOf(if std::ptr::eq(self.context.block, block) {
            turns
        } else {
            Turns::FOREIGN
        })
    }
}

impl<'b, T> turn::Turn for SharedWrite<'b, T> {
    type Turned = SharedRead<'b, T>;

    #[inline(always)]
    fn turns(&self, block: *const ()) -> turn::TurnsOf {
        self.own.array.turns_at(block, self.own.array.to_read)
    }

    #[inline(always)]
    fn turned(self) -> SharedRead<'b, T> {
        SharedRead { own: self.own }
    }
}

impl<'b, T> turn::Turn for SharedRead<'b, T> {
    type Turned = SharedWrite<'b, T>;

    #[inline(always)]
    fn turns(&self, block: *const ()) -> turn::TurnsOf {
        self.own.array.turns_at(block, self.own.array.to_write)
    }

    #[inline(always)]
    fn turned(self) -> SharedWrite<'b, T> {
        SharedWrite { own: self.own }
    }
}

/// The future of [`BlockAccelerator::sync`](crate::BlockAccelerator::sync).
#[derive(Debug)]
#[must_use = "a barrier waits when it is awaited"]
pub struct Turning<'b, P, B: Port + 'b> {
    arrival: Barrier<'b, B>,
    arrays: Option<P>,
}

impl<'b, P: Phase, B: Port> Turning<'b, P, B> {
    #[inline(always)]
    pub(crate) fn new(port: &'b B, site: Site, arrays: P) -> Self {
        let turns = arrays.turns(port.block()).0;
        Self {
            arrival: Barrier::new(port, site, turns, false),
            arrays: Some(arrays),
        }
    }
}

impl<P: Phase, B: Port> Future for Turning<'_, P, B> {
    type Output = P::Turned;

    #[inline(always)]
    fn poll(mut self: Pin<&mut Self>, _context: &mut Context<'_>) -> Poll<P::Turned> {
        if self.arrival.is_complete().is_pending() {
            return Poll::Pending;
        }
        // A poll once more after that stays pending for ever, which the scheduler reports.
        self.arrays
            .take()
            .map_or(Poll::Pending, |arrays| Poll::Ready(arrays.turned()))
    }
}

// SAFETY: there is nothing to place and nothing to hand out.
unsafe impl Shared for () {
    type Attached = ();
    type Write<'b> = ();

    fn place(&mut self, _plan: &mut SharedPlan) -> Result<(), KernelError> {
        Ok(())
    }

    unsafe fn attach(&self, _memory: *mut u8, _context: &BlockContext) -> Self::Attached {}

    #[inline(always)]
    unsafe fn hand_out<'b>((): &'b Self::Attached, _thread: usize) -> Self::Write<'b> {}
}

macro_rules! tuples {
    ($($name:ident $at:tt),+) => {
        // SAFETY: each part places and attaches itself.
        unsafe impl<$($name: Shared),+> Shared for ($($name,)+) {
            type Attached = ($($name::Attached,)+);
            type Write<'b> = ($($name::Write<'b>,)+);

            fn place(&mut self, plan: &mut SharedPlan) -> Result<(), KernelError> {
                $(self.$at.place(plan)?;)+
                Ok(())
            }

            unsafe fn attach(&self, memory: *mut u8, context: &BlockContext) -> Self::Attached {
                // SAFETY: the caller's promise for all holds for each part.
                ($(unsafe { self.$at.attach(memory, context) },)+)
            }

            #[inline(always)]
            unsafe fn hand_out<'b>(attached: &'b Self::Attached, thread: usize) -> Self::Write<'b> {
                // SAFETY: the caller's promise for all holds for each part.
                ($(unsafe { $name::hand_out(&attached.$at, thread) },)+)
            }
        }

        impl<$($name: turn::Turn),+> turn::Turn for ($($name,)+) {
            type Turned = ($($name::Turned,)+);

            #[inline(always)]
            fn turns(&self, block: *const ()) -> turn::TurnsOf {
                turn::TurnsOf(Turns::NONE$(.and(self.$at.turns(block).0))+)
            }

            #[inline(always)]
            fn turned(self) -> Self::Turned {
                ($(self.$at.turned(),)+)
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
