//! Bindings of a kernel to its arguments.
//!
//! A kernel of the kernel language is a value: its inputs are its fields, and its output is given
//! to it in parts. A launch takes a function that makes that value from the views of the arguments:
//!
//! ```
//! use quipu::prelude::*;
//!
//! struct Saxpy<'a> { a: f32, x: GlobalRef<'a, f32> }
//!
//! impl Kernel<1> for Saxpy<'_> {
//!     type Output = ByElement<f32>;
//!     fn run<A: Accelerator<1>>(&self, _acc: &A, mut y: OwnElements<'_, f32>) {
//!         for (i, y) in y.each() {
//!             *y += self.a * self.x[i];
//!         }
//!     }
//! }
//!
//! fn saxpy(a: f32, x: GlobalRef<'_, f32>, y: GlobalMut<'_, f32>) -> impl Bound<1> {
//!     bind(Saxpy { a, x }, y)
//! }
//!
//! # fn main() -> quipu::Result<()> {
//! let context = Platform::new()?.context()?;
//! let queue = context.queue(&context.fastest())?;
//! let x = context.buffer(&[1.0, 2.0, 3.0])?;
//! let mut y = context.buffer(&[10.0, 20.0, 30.0])?;
//! // SAFETY: the function binds the kernel to its output, always in the same way.
//! queue.launch(x.len(), unsafe { native(saxpy, (2.0f32, &x, &mut y)) })?;
//! assert_eq!(queue.read(&y)?.wait()?, [12.0, 24.0, 36.0]);
//! # Ok(()) }
//! ```

use super::argument::Stored;
use quipu_kernel::{
    AcceleratorLimits, BlockKernel, BlockScratch, GroupKernel, Kernel, KernelError, View,
    WorkDivision, erase, erase_block,
};
use std::fmt;
use std::ops::Range;

/// A kernel and its output, ready to run in `D` dimensions: made by [`bind`] and
/// [`bind_blocks`].
pub trait Bound<const D: usize> {
    /// Runs work-groups of a launch of this division.
    ///
    /// # Errors
    /// The fault that stopped a group.
    ///
    /// # Safety
    /// As [`GroupKernel::run_groups`].
    unsafe fn run(
        self,
        division: WorkDivision<D>,
        limits: &AcceleratorLimits,
        groups: Range<u64>,
        scratch: &mut BlockScratch,
    ) -> Result<(), KernelError>;
}

/// Binds a kernel without barriers to its output.
pub fn bind<K: Kernel<D>, const D: usize>(
    kernel: K,
    output: View<'_, K::Output, D>,
) -> BoundKernel<'_, K, D> {
    BoundKernel { kernel, output }
}

/// Binds a kernel with barriers to its output.
pub fn bind_blocks<K: BlockKernel<D>, const D: usize>(
    kernel: K,
    output: View<'_, K::Output, D>,
) -> BoundBlocks<'_, K, D> {
    BoundBlocks { kernel, output }
}

/// See [`bind`].
pub struct BoundKernel<'a, K: Kernel<D>, const D: usize> {
    kernel: K,
    output: View<'a, K::Output, D>,
}

/// See [`bind_blocks`].
pub struct BoundBlocks<'a, K: BlockKernel<D>, const D: usize> {
    kernel: K,
    output: View<'a, K::Output, D>,
}

impl<K: Kernel<D>, const D: usize> Bound<D> for BoundKernel<'_, K, D> {
    #[inline]
    unsafe fn run(
        self,
        division: WorkDivision<D>,
        _limits: &AcceleratorLimits,
        groups: Range<u64>,
        scratch: &mut BlockScratch,
    ) -> Result<(), KernelError> {
        let launch = erase(self.kernel, self.output, division)?;
        // SAFETY: each group is run once: `Bound::run` asks its caller for the same.
        unsafe { launch.run_groups(groups, scratch) }
    }
}

impl<K: BlockKernel<D>, const D: usize> Bound<D> for BoundBlocks<'_, K, D> {
    #[inline]
    unsafe fn run(
        self,
        division: WorkDivision<D>,
        limits: &AcceleratorLimits,
        groups: Range<u64>,
        scratch: &mut BlockScratch,
    ) -> Result<(), KernelError> {
        let launch = erase_block(self.kernel, self.output, division)?;
        limits.check_shared_bytes(launch.shared_bytes())?;
        // SAFETY: each group is run once: `Bound::run` asks its caller for the same.
        unsafe { launch.run_groups(groups, scratch) }
    }
}

impl<B: Bound<D>, const D: usize> Bound<D> for Result<B, KernelError> {
    #[inline]
    unsafe fn run(
        self,
        division: WorkDivision<D>,
        limits: &AcceleratorLimits,
        groups: Range<u64>,
        scratch: &mut BlockScratch,
    ) -> Result<(), KernelError> {
        // SAFETY: each group is run once: `Bound::run` asks its caller for the same.
        unsafe { self?.run(division, limits, groups, scratch) }
    }
}

impl<K: Kernel<D>, const D: usize> fmt::Debug for BoundKernel<'_, K, D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "BoundKernel({})", std::any::type_name::<K>())
    }
}

impl<K: BlockKernel<D>, const D: usize> fmt::Debug for BoundBlocks<'_, K, D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "BoundBlocks({})", std::any::type_name::<K>())
    }
}

/// A function from the views of arguments `S` to a kernel that is [`Bound`]:
/// every `fn` with the right parameters is one.
pub trait Bind<'a, S: Stored, const D: usize> {
    /// The bound kernel that it makes.
    type Bound: Bound<D>;

    /// Makes it.
    fn bind(&self, views: S::View<'a>) -> Self::Bound;
}

macro_rules! functions {
    ($($name:ident $at:tt),*) => {
        #[allow(unused_variables)]
        impl<'a, F, B, $($name: Stored,)* const D: usize> Bind<'a, ($($name,)*), D> for F
        where
            F: Fn($($name::View<'a>),*) -> B,
            B: Bound<D>,
        {
            type Bound = B;

            #[inline]
            fn bind(&self, views: ($($name::View<'a>,)*)) -> B {
                self($(views.$at),*)
            }
        }
    };
}

functions!();
functions!(A0 0);
functions!(A0 0, A1 1);
functions!(A0 0, A1 1, A2 2);
functions!(A0 0, A1 1, A2 2, A3 3);
functions!(A0 0, A1 1, A2 2, A3 3, A4 4);
functions!(A0 0, A1 1, A2 2, A3 3, A4 4, A5 5);
functions!(A0 0, A1 1, A2 2, A3 3, A4 4, A5 5, A6 6);
functions!(A0 0, A1 1, A2 2, A3 3, A4 4, A5 5, A6 6, A7 7);
