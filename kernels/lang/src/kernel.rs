//! Kernels: values that every thread of a launch runs once.
//!
//! The fields of the value are the kernel's inputs, shared by all threads, and so `Sync`. Its
//! *output* is not among them: it is handed to each thread by value, in parts that the kernel's
//! type says (see [`partition`](crate::Partition)).
//!
//! Two kinds exist, because one costs nothing and the other costs something. A [`Kernel`] has no
//! barriers: a launch of it is a loop. A [`BlockKernel`] may wait for the other threads of its
//! block, so its body is an `async fn`: a thread that waits is a state machine that is not polled.

use std::future::Future;

use crate::accelerator::{Accelerator, GridAccelerator};
use crate::division::WorkDivision;
use crate::error::KernelError;
use crate::launch::Phases;
use crate::level::Level;
use crate::partition::{Own, Partition};
use crate::shared::Shared;

/// A kernel without barriers.
///
/// ```
/// use quipu_kernel::{Accelerator, ByElement, Kernel, OwnElements};
///
/// struct Fill(f32);
///
/// impl Kernel<1> for Fill {
///     type Output = ByElement<f32>;
///
///     fn run<A: Accelerator<1>>(&self, _acc: &A, mut y: OwnElements<'_, f32>) {
///         for (_, y) in y.each() {
///             *y = self.0;
///         }
///     }
/// }
/// ```
///
/// Values that threads share have to be safe to share:
///
/// ```compile_fail,E0277
/// # use quipu_kernel::{Accelerator, Kernel};
/// use std::cell::Cell;
///
/// struct Count(Cell<u32>);
///
/// impl Kernel<1> for Count {
///     type Output = ();
///     fn run<A: Accelerator<1>>(&self, _acc: &A, _output: ()) {
///         self.0.set(self.0.get() + 1);
///     }
/// }
/// ```
pub trait Kernel<const D: usize>: Send + Sync {
    /// Its output: a partition, a tuple of partitions, or nothing `()`.
    type Output: Partition<D>;

    /// Runs one thread.
    fn run<'t, A: Accelerator<D>>(&self, acc: &'t A, output: Own<'t, Self::Output, D>);
}

/// A kernel whose blocks have barriers and shared memory.
///
/// The crate's documentation has an example. A thread awaits the barriers of its own accelerator,
/// one at a time, and nothing else: a thread that awaits the world outside gets a
/// [`ForeignAwait`](crate::KernelError::ForeignAwait).
pub trait BlockKernel<const D: usize>: Send + Sync {
    /// Its output: a partition, a tuple of partitions, or nothing `()`.
    type Output: Partition<D>;

    /// The memory that the threads of a block share: a [`SharedArray`](crate::SharedArray), a tuple
    /// of arrays, or nothing `()`.
    type Shared: Shared;

    /// Declares the memory that the threads of each block of such a launch share.
    fn shared(&self, division: &WorkDivision<D>) -> Self::Shared;

    /// True if threads wait at [barriers of the grid](GridAccelerator::sync_grid_threads).
    const WAITS_FOR_GRID: bool = false;

    /// Runs one thread: write it as an `async fn`. It may ask for a
    /// [`BlockAccelerator`](crate::BlockAccelerator) alone.
    fn run<'t, A: GridAccelerator<D>>(
        &self,
        acc: &'t A,
        output: Own<'t, Self::Output, D>,
        shared: <Self::Shared as Shared>::Write<'t>,
    ) -> impl Future<Output = ()>;

    /// True if there is [`run_phases`](Self::run_phases).
    #[doc(hidden)]
    const IN_PHASES: bool = false;

    /// True of code that `#[kernel]` wrote: it awaits nothing but barriers and warp functions, each
    /// where it is called, so all ways to run a block give the same.
    #[doc(hidden)]
    const IS_WRITTEN: bool = false;

    /// Runs blocks as [`run`](Self::run) would, phase by phase. `#[kernel]` writes it for most
    /// kernels.
    ///
    /// # Errors
    /// If there is no memory for the values that threads keep over barriers.
    #[doc(hidden)]
    #[inline(always)]
    fn run_phases<L: Level>(&self, _blocks: &Phases<'_, '_, Self, L, D>) -> Result<(), KernelError>
    where
        Self: Sized,
    {
        Ok(())
    }
}
