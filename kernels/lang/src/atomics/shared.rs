//! Block-shared memory that the block's threads change in steps, without phases.

use std::fmt;
use std::ops::Deref;

use super::{AtomicElement, Atomics};
use crate::emit::KernelData;
use crate::error::KernelError;
use crate::shared::{AttachedArray, BlockContext, Shared, SharedArray, SharedPlan};

/// The declaration of an array that the threads of a block share and change in steps: each is
/// handed it as [`SharedAtomics`]. All zero when a block begins.
#[derive(Debug, Clone, Copy)]
pub struct SharedAtomicArray<T>(SharedArray<T>);

impl<T: AtomicElement + KernelData> SharedAtomicArray<T> {
    /// An array of so many elements.
    pub const fn new(length: usize) -> Self {
        Self(SharedArray::new(length))
    }
}

/// Block-shared elements that every thread of the block may change, one step at a time: with the
/// methods of [`Atomics`].
///
/// Changes by other threads before a barrier are seen after it. The order in which threads change
/// an element between two barriers is not defined.
///
/// ```
/// # use quipu_kernel::{BlockAccelerator, SharedAtomics};
/// async fn count_even<A: BlockAccelerator<1>>(acc: &A, number: u32, count: SharedAtomics<'_, u32>) -> u32 {
///     count.add(0, u32::from(number % 2 == 0));
///     acc.sync_block_threads().await;
///     count.load(0)
/// }
/// ```
pub struct SharedAtomics<'b, T: AtomicElement>(Atomics<'b, T>);

impl<T: AtomicElement> Clone for SharedAtomics<'_, T> {
    #[inline(always)]
    fn clone(&self) -> Self {
        *self
    }
}

impl<T: AtomicElement> Copy for SharedAtomics<'_, T> {}

impl<T: AtomicElement> fmt::Debug for SharedAtomics<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SharedAtomics({} elements)", self.0.len())
    }
}

impl<'b, T: AtomicElement> Deref for SharedAtomics<'b, T> {
    type Target = Atomics<'b, T>;

    #[inline(always)]
    fn deref(&self) -> &Atomics<'b, T> {
        &self.0
    }
}

// SAFETY: the array is placed and attached as any other, and threads are handed shared references
// to atomics.
unsafe impl<T: AtomicElement + KernelData> Shared for SharedAtomicArray<T> {
    type Attached = AttachedArray<T>;
    type Write<'b> = SharedAtomics<'b, T>;

    fn place(&mut self, plan: &mut SharedPlan) -> Result<(), KernelError> {
        self.0.place(plan)
    }

    unsafe fn attach(&self, memory: *mut u8, context: &BlockContext) -> AttachedArray<T> {
        // SAFETY: `Shared::attach` asks its caller for the same, of the same plan.
        unsafe { self.0.attach(memory, context) }
    }

    #[inline(always)]
    unsafe fn hand_out<'b>(attached: &'b AttachedArray<T>, _thread: usize) -> SharedAtomics<'b, T> {
        // SAFETY: the array was zeroed, starts at a cache line, and is of the atomics' size and
        // patterns; nobody reaches it but through these references.
        let elements =
            unsafe { std::slice::from_raw_parts(attached.as_ptr().cast(), attached.len()) };
        let atomics = Atomics::new(elements, attached.block_runs_alone(), attached.is_watched());
        SharedAtomics(atomics.block())
    }
}
