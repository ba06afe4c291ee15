//! All elements for every thread, one step at a time.

use std::marker::PhantomData;

use super::Partition;
use crate::accelerator::Accelerator;
use crate::atomics::{AtomicElement, Atomics};
use crate::division::WorkDivision;
use crate::error::KernelError;
use crate::view::GlobalMut;

/// Partition: every thread is handed all elements, as [`Atomics`].
#[derive(Debug, Clone, Copy)]
pub struct Atomically<T>(PhantomData<fn() -> T>);

// SAFETY: all that threads are handed are shared references to atomics.
unsafe impl<T: AtomicElement, const D: usize> Partition<D> for Atomically<T> {
    type View<'a> = GlobalMut<'a, T>;
    type Plan<'a> = GlobalMut<'a, T>;
    type Own<'t> = Atomics<'t, T>;

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
    unsafe fn own<'t, A: Accelerator<D>>(plan: &GlobalMut<'_, T>, acc: &A) -> Atomics<'t, T> {
        // SAFETY: aligned, as the plan checked; of the same size and patterns; and nobody reaches
        // the elements but through these references while the view lives.
        let elements = unsafe { std::slice::from_raw_parts(plan.as_ptr().cast(), plan.len()) };
        Atomics::new(elements, acc.block_runs_alone(), acc.is_watched())
    }
}
