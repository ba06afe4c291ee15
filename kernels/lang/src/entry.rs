//! Kernels as `#[kernel]` makes them: their calls, and the native types of their parameters.
//!
//! All parameters of such a kernel are handed to each thread by a [`Partition`]: memory that is
//! read as it is, memory that is written in parts. So a kernel is a type without fields, and its
//! launch is a [`View`] of all its parameters.

use std::any::Any;
use std::fmt;
use std::marker::PhantomData;

use crate::accelerator::Accelerator;
use crate::atomics::{AtomicElement, Atomics};
use crate::division::{LaunchBounds, WorkDivision};
use crate::emit::{BuildError, KernelData, ValueParameter};
use crate::error::KernelError;
use crate::extent::Vector;
use crate::launch::{BlockScratch, GroupKernel};
use crate::partition::{
    Atomically, ByBlock, ByBlockTile, ByElement, ByRow, ByTile, OwnBlockTile, OwnElements, OwnRows,
    OwnTile, Partition, RawMut, Unpartitioned, View,
};
use crate::view::{GlobalMut, GlobalRef};
use quipu_kernel_ir::Module;

/// A kernel that `#[kernel]` made, for a grid of `D` dimensions.
///
/// # Safety
/// The launch that `prepare` gives touches of its parameters what their partitions hand to its
/// threads. The source that `module` makes does the same, and has the checks that this needs.
///
/// ```compile_fail,E0200
/// struct Mine;
/// impl quipu_kernel::Entry<1> for Mine {}
/// ```
pub unsafe trait Entry<const D: usize>: Send + Sync + 'static {
    /// The partitions by which its threads are handed parameters: a tuple, one for each parameter.
    type Parameters: Partition<D>;

    /// The user's name.
    const NAME: &'static str;

    /// The bounds that its attribute sets for the blocks of its launches.
    const BOUNDS: LaunchBounds<D> = LaunchBounds::NONE;

    /// A launch of it, to be run natively.
    ///
    /// # Errors
    /// If an output cannot be shared out in such a division.
    fn prepare<'a>(
        parameters: View<'a, Self::Parameters, D>,
        division: WorkDivision<D>,
    ) -> Result<impl GroupKernel + 'a, KernelError>;

    /// The number of arrays that the threads of its blocks share.
    const SHARED: usize;

    /// The number of elements of each of these arrays in a launch of this division. The parameters,
    /// in order, are given as the things that the lengths may depend on: a value, or, of memory,
    /// its [`Shape`]. `None` if something else is there.
    fn shared_lengths(parameters: &[&dyn Any], division: WorkDivision<D>) -> Option<Vec<usize>>;

    /// Makes its source.
    ///
    /// # Errors
    /// If a part of it has no source: the error says which, and where.
    fn module() -> Result<Module, BuildError>;
}

/// The property of a parameter in memory that the lengths of shared arrays may depend on: its size,
/// not its content, for that may be on another device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shape(Vec<usize>);

impl Shape {
    /// Memory of so many elements along each dimension.
    #[must_use]
    pub fn new(extent: impl Into<Vec<usize>>) -> Self {
        Self(extent.into())
    }

    /// Elements, in all.
    #[must_use]
    pub fn len(&self) -> usize {
        self.0.iter().product()
    }

    /// True if there are no elements.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Elements along each dimension.
    #[must_use]
    pub fn extent(&self) -> &[usize] {
        &self.0
    }
}

/// Partition: every thread is handed a copy.
#[derive(Debug, Clone, Copy)]
pub struct ByValue<T>(PhantomData<fn() -> T>);

// SAFETY: threads are handed copies of values that are safe to share.
unsafe impl<T: Copy + Send + Sync + 'static, const D: usize> Partition<D> for ByValue<T> {
    type View<'a> = T;
    type Plan<'a> = T;
    type Own<'t> = T;

    const IS_READ_BY_ALL: bool = true;

    #[inline(always)]
    fn plan<'a>(
        view: Self::View<'a>,
        _division: &WorkDivision<D>,
    ) -> Result<Self::Plan<'a>, KernelError> {
        Ok(view)
    }

    #[inline(always)]
    unsafe fn own<'t, A: Accelerator<D>>(plan: &T, _acc: &A) -> Self::Own<'t> {
        *plan
    }
}

/// Partition: every thread reads all elements, as a slice.
#[derive(Debug, Clone, Copy)]
pub struct Reading<T>(PhantomData<fn() -> T>);

// SAFETY: all that threads are handed are shared references to elements that nobody writes.
unsafe impl<T: Sync + 'static, const D: usize> Partition<D> for Reading<T> {
    type View<'a> = GlobalRef<'a, T>;
    type Plan<'a> = GlobalRef<'a, T>;
    type Own<'t> = &'t [T];

    const IS_READ_BY_ALL: bool = true;

    #[inline(always)]
    fn plan<'a>(
        view: Self::View<'a>,
        _division: &WorkDivision<D>,
    ) -> Result<Self::Plan<'a>, KernelError> {
        Ok(view)
    }

    #[inline(always)]
    unsafe fn own<'t, A: Accelerator<D>>(plan: &GlobalRef<'_, T>, _acc: &A) -> Self::Own<'t> {
        // SAFETY: the elements are there for as long as the thread runs, so the caller promises.
        unsafe { std::slice::from_raw_parts(plan.as_ptr(), plan.len()) }
    }
}

/// Partition: every thread reads all elements of a view of `E` dimensions.
#[derive(Debug, Clone, Copy)]
pub struct ReadingView<T, const E: usize>(PhantomData<fn() -> T>);

// SAFETY: as of `Reading`.
unsafe impl<T: Sync + 'static, const E: usize, const D: usize> Partition<D> for ReadingView<T, E> {
    type View<'a> = GlobalRef<'a, T, E>;
    type Plan<'a> = GlobalRef<'a, T, E>;
    type Own<'t> = GlobalRef<'t, T, E>;

    const IS_READ_BY_ALL: bool = true;

    #[inline(always)]
    fn plan<'a>(
        view: Self::View<'a>,
        _division: &WorkDivision<D>,
    ) -> Result<Self::Plan<'a>, KernelError> {
        Ok(view)
    }

    #[inline(always)]
    unsafe fn own<'t, A: Accelerator<D>>(plan: &GlobalRef<'_, T, E>, _acc: &A) -> Self::Own<'t> {
        // SAFETY: the elements are there for as long as the thread runs, so the caller promises.
        unsafe { plan.extended() }
    }
}

/// The type of a parameter of a kernel, with how it is handed to threads.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is no type of a kernel's parameter",
    note = "parameters are values (`f32`, a struct with `#[derive(KernelData)]`), `&[T]`, `GlobalRef<T, D>`, `OwnElements<T, D>`, `OwnTile<T, D>`, `OwnBlockTile<T, D>`, `OwnRows<T>`, `OwnBlock<T>`, `Atomics<T>` or `RawMut<T>`"
)]
pub trait Parameter<const D: usize> {
    /// The partition by which it is handed to threads.
    type Partition: Partition<D>;
}

impl<T: ValueParameter, const D: usize> Parameter<D> for T {
    type Partition = ByValue<T>;
}

impl<T: Send + Sync + 'static, const D: usize> Parameter<D> for &[T] {
    type Partition = Reading<T>;
}

impl<T: Send + Sync + 'static, const E: usize, const D: usize> Parameter<D>
    for GlobalRef<'_, T, E>
{
    type Partition = ReadingView<T, E>;
}

impl<T: Send + Sync + 'static, const D: usize> Parameter<D> for OwnElements<'_, T, D> {
    type Partition = ByElement<T>;
}

impl<T: Send + Sync + 'static, const D: usize> Parameter<D> for OwnTile<'_, T, D> {
    type Partition = ByTile<T>;
}

impl<T: Send + Sync + 'static, const D: usize> Parameter<D> for OwnBlockTile<'_, T, D> {
    type Partition = ByBlockTile<T>;
}

impl<T: Send + Sync + 'static, const D: usize> Parameter<D> for OwnRows<'_, T> {
    type Partition = ByRow<T>;
}

impl<T: Send + Sync + 'static, const D: usize> Parameter<D> for &mut [T] {
    type Partition = ByBlock<T>;
}

impl<T: Send + Sync + 'static, const D: usize> Parameter<D> for RawMut<'_, T> {
    type Partition = Unpartitioned<T>;
}

impl<T: AtomicElement, const D: usize> Parameter<D> for Atomics<'_, T> {
    type Partition = Atomically<T>;
}

/// A thread's share of its block's share of an output: see [`ByBlock`].
pub type OwnBlock<'t, T> = &'t mut [T];

/// An argument that can be passed for a parameter that is handed out by `P`: in this crate slices,
/// where values are not.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be passed for this parameter of the kernel",
    note = "pass a value for a value, `&[T]` or a `GlobalRef` for what is read, `&mut [T]` or a `GlobalMut` for what is written"
)]
pub trait Pass<'b, P: Partition<D>, const D: usize> {
    /// It as the launch is given it.
    fn view(self) -> P::View<'b>;
}

macro_rules! pass {
    ($([$($generics:tt)*] $from:ty => $partition:ty: |$value:ident| $view:expr;)*) => {$(
        impl<'b, $($generics)*, const D: usize> Pass<'b, $partition, D> for $from {
            #[inline]
            fn view(self) -> View<'b, $partition, D> {
                let $value = self;
                $view
            }
        }
    )*};
}

pass! {
    [T: ValueParameter] T => ByValue<T>: |value| value;
    [T: KernelData] &'b [T] => Reading<T>: |slice| slice.into();
    [T: KernelData] &'b Vec<T> => Reading<T>: |slice| slice.into();
    [T: KernelData, const N: usize] &'b [T; N] => Reading<T>: |slice| slice.as_slice().into();
    [T: KernelData] &'b [T] => ReadingView<T, 1>: |slice| slice.into();
    [T: KernelData] &'b Vec<T> => ReadingView<T, 1>: |slice| slice.into();
    [T: KernelData, const E: usize] GlobalRef<'b, T, E> => ReadingView<T, E>: |view| view;
    [T: KernelData] &'b mut [T] => ByBlock<T>: |slice| slice.into();
    [T: KernelData] &'b mut Vec<T> => ByBlock<T>: |slice| slice.into();
    [T: KernelData] &'b mut [T] => Unpartitioned<T>: |slice| slice.into();
    [T: KernelData] &'b mut Vec<T> => Unpartitioned<T>: |slice| slice.into();
    [T: AtomicElement] &'b mut [T] => Atomically<T>: |slice| slice.into();
    [T: AtomicElement] &'b mut Vec<T> => Atomically<T>: |slice| slice.into();
}

macro_rules! pass_by_position {
    ($($partition:ident),*) => {$(
        impl<'b, T: KernelData> Pass<'b, $partition<T>, 1> for &'b mut [T] {
            #[inline]
            fn view(self) -> GlobalMut<'b, T> {
                self.into()
            }
        }

        impl<'b, T: KernelData> Pass<'b, $partition<T>, 1> for &'b mut Vec<T> {
            #[inline]
            fn view(self) -> GlobalMut<'b, T> {
                self.into()
            }
        }

        impl<'b, T: KernelData, const N: usize> Pass<'b, $partition<T>, 1> for &'b mut [T; N] {
            #[inline]
            fn view(self) -> GlobalMut<'b, T> {
                self.as_mut_slice().into()
            }
        }

        impl<'b, T: KernelData, const D: usize> Pass<'b, $partition<T>, D> for GlobalMut<'b, T, D> {
            #[inline]
            fn view(self) -> GlobalMut<'b, T, D> {
                self
            }
        }
    )*};
}

pass_by_position!(ByElement, ByTile, ByBlockTile);

impl<'b, T: KernelData, const D: usize> Pass<'b, ByRow<T>, D> for GlobalMut<'b, T, 2> {
    #[inline]
    fn view(self) -> GlobalMut<'b, T, 2> {
        self
    }
}

/// A tuple of arguments for all parameters of a kernel.
pub trait PassAll<'b, P: Partition<D>, const D: usize> {
    /// It as the launch is given it.
    fn views(self) -> P::View<'b>;
}

impl<const D: usize> PassAll<'_, (), D> for () {
    fn views(self) {}
}

macro_rules! tuples {
    ($($argument:ident $partition:ident $at:tt),+) => {
        impl<'b, $($argument: Pass<'b, $partition, D>, $partition: Partition<D>,)+ const D: usize>
            PassAll<'b, ($($partition,)+), D> for ($($argument,)+)
        {
            #[inline]
            fn views(self) -> View<'b, ($($partition,)+), D> {
                ($(self.$at.view(),)+)
            }
        }
    };
}

tuples!(A0 P0 0);
tuples!(A0 P0 0, A1 P1 1);
tuples!(A0 P0 0, A1 P1 1, A2 P2 2);
tuples!(A0 P0 0, A1 P1 1, A2 P2 2, A3 P3 3);
tuples!(A0 P0 0, A1 P1 1, A2 P2 2, A3 P3 3, A4 P4 4);
tuples!(A0 P0 0, A1 P1 1, A2 P2 2, A3 P3 3, A4 P4 4, A5 P5 5);
tuples!(A0 P0 0, A1 P1 1, A2 P2 2, A3 P3 3, A4 P4 4, A5 P5 5, A6 P6 6);
tuples!(A0 P0 0, A1 P1 1, A2 P2 2, A3 P3 3, A4 P4 4, A5 P5 5, A6 P6 6, A7 P7 7);
tuples!(A0 P0 0, A1 P1 1, A2 P2 2, A3 P3 3, A4 P4 4, A5 P5 5, A6 P6 6, A7 P7 7, A8 P8 8);
tuples!(A0 P0 0, A1 P1 1, A2 P2 2, A3 P3 3, A4 P4 4, A5 P5 5, A6 P6 6, A7 P7 7, A8 P8 8, A9 P9 9);
tuples!(A0 P0 0, A1 P1 1, A2 P2 2, A3 P3 3, A4 P4 4, A5 P5 5, A6 P6 6, A7 P7 7, A8 P8 8, A9 P9 9, A10 P10 10);
tuples!(A0 P0 0, A1 P1 1, A2 P2 2, A3 P3 3, A4 P4 4, A5 P5 5, A6 P6 6, A7 P7 7, A8 P8 8, A9 P9 9, A10 P10 10, A11 P11 11);

/// A kernel and its arguments: not run yet.
///
/// ```
/// use quipu_kernel::{kernel, Accelerator, OwnElements, WorkDivision};
///
/// #[kernel(crate = quipu_kernel)]
/// fn saxpy(_acc: &impl Accelerator<1>, a: f32, x: &[f32], mut y: OwnElements<f32>) {
///     for (i, y) in y.each() {
///         *y += a * x[i];
///     }
/// }
///
/// let x = vec![1.0; 100];
/// let mut y = vec![2.0; 100];
/// saxpy(3.0, &x, &mut y).run(WorkDivision::new(4, 5, 5)?)?;
/// assert!(y.iter().all(|&y| y == 5.0));
/// # Ok::<(), quipu_kernel::KernelError>(())
/// ```
#[must_use = "a call of a kernel runs when it is launched"]
pub struct Call<K, A, const D: usize> {
    arguments: A,
    kernel: PhantomData<fn() -> K>,
}

impl<K, A, const D: usize> fmt::Debug for Call<K, A, D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Call({})", std::any::type_name::<K>())
    }
}

impl<K: Entry<D>, A, const D: usize> Call<K, A, D> {
    /// A call with these arguments: for the code that `#[kernel]` makes.
    #[doc(hidden)]
    #[inline]
    pub fn new(arguments: A) -> Self {
        Self {
            arguments,
            kernel: PhantomData,
        }
    }

    /// The kernel's source, for these types of arguments.
    ///
    /// # Errors
    /// If a part of it has no source: the error says which, and where.
    pub fn module(&self) -> Result<Module, BuildError> {
        K::module()
    }

    /// Runs all work-groups on this thread.
    ///
    /// # Errors
    /// The fault that stopped a group, or a division that an output does not allow.
    pub fn run<'b>(self, division: impl Into<WorkDivision<D>>) -> Result<(), KernelError>
    where
        A: PassAll<'b, K::Parameters, D>,
    {
        self.run_in(division, &mut BlockScratch::new())
    }

    /// As [`run`](Self::run), in the way that the scratch memory says
    /// ([`BlockScratch::with_options`](crate::BlockScratch::with_options)).
    ///
    /// # Errors
    /// The fault that stopped a group, or a division that an output does not allow; with a scratch
    /// that checks, the mistake that was found.
    pub fn run_in<'b>(
        self,
        division: impl Into<WorkDivision<D>>,
        scratch: &mut BlockScratch,
    ) -> Result<(), KernelError>
    where
        A: PassAll<'b, K::Parameters, D>,
    {
        self.prepare(division)?.run_all(scratch)
    }

    /// A launch of it, whose work-groups any threads may run, in any order: for callers with
    /// threads of their own.
    ///
    /// ```
    /// use quipu_kernel::{kernel, Accelerator, BlockScratch, GroupKernel, OwnElements, WorkDivision};
    ///
    /// #[kernel(crate = quipu_kernel)]
    /// fn double(_acc: &impl Accelerator<1>, mut y: OwnElements<u32>) {
    ///     for (_, y) in y.each() {
    ///         *y *= 2;
    ///     }
    /// }
    ///
    /// let mut y = vec![4; 100];
    /// let launch = double(&mut y).prepare(WorkDivision::new(10, 5, 2)?)?;
    /// std::thread::scope(|scope| {
    ///     for groups in [0..5, 5..10] {
    ///         // SAFETY: each group is run once.
    ///         let run = || unsafe { launch.run_groups(groups, &mut BlockScratch::new()) };
    ///         scope.spawn(run);
    ///     }
    /// });
    /// drop(launch);
    /// assert_eq!(y, [8; 100]);
    /// # Ok::<(), quipu_kernel::KernelError>(())
    /// ```
    ///
    /// # Errors
    /// If an output cannot be divided so.
    pub fn prepare<'b>(
        self,
        division: impl Into<WorkDivision<D>>,
    ) -> Result<impl GroupKernel + 'b, KernelError>
    where
        A: PassAll<'b, K::Parameters, D>,
    {
        K::prepare(self.arguments.views(), division.into())
    }
}

/// The accelerator that the length of a shared array is computed with: it has the launch's extents,
/// and is at no thread in particular.
#[doc(hidden)]
#[derive(Debug)]
pub struct LaunchShape<const D: usize>(pub WorkDivision<D>);

impl<const D: usize> Accelerator<D> for LaunchShape<D> {
    fn division(&self) -> &WorkDivision<D> {
        &self.0
    }

    fn block_index(&self) -> Vector<D> {
        Vector::ZERO
    }

    fn thread_index(&self) -> Vector<D> {
        Vector::ZERO
    }
}
