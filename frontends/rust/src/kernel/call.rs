//! Calls of kernels: the arguments of [`Queue::launch`](crate::Queue::launch).
//!
//! Calling a kernel that `#[kernel]` made gives a [`Call`]: the kernel's type, and the arguments as
//! they were passed. A launch splits them into the part that the command keeps and its accesses.

use super::argument::Accesses;
use super::pass::{Kept, PassAll};
use super::passing::Passing;
use super::prepared::Prepared;
use crate::context::Context;
use crate::device::Device;
use quipu_kernel::emit::ir::{Allowances, Module};
use quipu_kernel::{
    AcceleratorLimits, BlockScratch, BuildError, Entry, Extent, GroupKernel, KernelError,
    LaunchBounds, WorkDivision,
};
use quipu_scheduler::access::Argument as PackedArgument;
use quipu_scheduler::{BuiltInKernel, DeviceKind, ErrorKind, Passed, RawArgument, Result};
use std::any::{Any, TypeId};
use std::borrow::Cow;
use std::fmt;
use std::marker::PhantomData;
use std::ops::Range;
use std::sync::Arc;

/// A kernel that can be launched in `D` dimensions, with its arguments: a [`Call`], or a
/// [`Native`](super::Native) kernel.
///
/// # Safety
/// The kept part touches memory by the accesses that `prepare` adds, in their order and modes, and
/// by nothing else.
///
/// ```compile_fail,E0200
/// use quipu::kernel::Launch;
/// struct Quiet<C>(C);
/// impl<'b, C: Launch<'b, 1>> Launch<'b, 1> for Quiet<C> {}
/// ```
#[diagnostic::on_unimplemented(
    message = "this is no call of a kernel of as many dimensions as it is launched over",
    label = "a kernel of an `Accelerator<1>` is launched over a number, and one of an `Accelerator<2>` over `[rows, columns]`",
    note = "what is launched is a kernel with its arguments, `k(&x, &mut y)`; it is launched over its output's `len()` or `extent()`, or a `WorkDivision` of its dimensions"
)]
pub unsafe trait Launch<'b, const D: usize> {
    /// The part that the command keeps.
    #[doc(hidden)]
    type Prepared: Prepared<D>;

    /// Gives the part that the command keeps, and adds its accesses to `accesses`, in order.
    /// Variables are the context's.
    ///
    /// # Errors
    /// If an argument cannot be one.
    #[doc(hidden)]
    fn prepare<'c>(
        self,
        context: &'c Context,
        accesses: &mut Accesses<'c>,
    ) -> Result<Self::Prepared>
    where
        'b: 'c;

    /// The limits for its divisions, on a device of these limits.
    #[doc(hidden)]
    #[inline]
    fn limits<'l>(&self, of_device: &'l AcceleratorLimits) -> Cow<'l, AcceleratorLimits> {
        Cow::Borrowed(of_device)
    }

    /// The bounds on its blocks in the kernel's attribute.
    #[doc(hidden)]
    #[inline]
    fn bounds(&self) -> LaunchBounds<D> {
        LaunchBounds::NONE
    }

    /// Refuses a launch of so many elements, if an output that threads own parts of has others.
    ///
    /// # Errors
    /// If an output does not fit: the error names it, and says how to write the launch.
    #[doc(hidden)]
    #[inline]
    fn check_extent(&self, _elements: Extent<D>) -> Result<()> {
        Ok(())
    }

    /// The freedoms of its code for other devices that Rust does not give.
    #[doc(hidden)]
    #[inline]
    fn allowances(&self) -> Allowances {
        Allowances::default()
    }
}

/// A device runs a kernel in none of the forms that it has.
#[cold]
pub(crate) fn cannot_run(device: &Device, kernel: &str, is_native: bool) -> quipu_scheduler::Error {
    let kernels = device.built_in_kernels();
    if device.kind() == DeviceKind::Custom {
        return ErrorKind::Unsupported {
            driver: device.driver_name(),
            what: format!(
                "run '{kernel}' on '{}', which only runs what it has built in: {}",
                device.name(),
                BuiltInKernel::list(&kernels)
            ),
            instead: "launch one of these (`Device::built_in_kernel`), or use another device",
        }
        .into();
    }
    let (form, instead) = if is_native {
        (
            "native code",
            "write it with `#[kernel]`, or launch it on a device that runs native code",
        )
    } else if device.core().driver().runs_native_code() {
        (
            "in a language that it has no compiler for",
            "install clang, lld and libLLVM of one version from 18 to 22 (on Debian and Ubuntu: apt install clang-19 lld-19), \
             launch it on a device that has a compiler, or write it with `#[kernel]`",
        )
    } else {
        (
            "in a language that it has no compiler for",
            "launch it on a device that has one, or write it with `#[kernel]`",
        )
    };
    ErrorKind::Unsupported {
        driver: device.driver_name(),
        what: format!(
            "run '{kernel}' on '{}', because it is {form}",
            device.name()
        ),
        instead,
    }
    .into()
}

/// A kernel that `#[kernel]` made, and its arguments: not launched yet.
///
/// ```
/// use quipu::prelude::*;
///
/// #[kernel]
/// fn saxpy(_acc: &impl Accelerator<1>, a: f32, x: &[f32], mut y: OwnElements<f32>) {
///     for (i, y) in y.each() {
///         *y += a * x[i];
///     }
/// }
///
/// # fn main() -> quipu::Result<()> {
/// let context = Platform::new()?.context()?;
/// let queue = context.queue(&context.fastest())?;
/// let x = context.buffer(&[1.0, 2.0, 3.0])?;
/// let mut y = context.buffer(&[10.0, 20.0, 30.0])?;
/// queue.launch(x.len(), saxpy(2.0, &x, &mut y))?;
/// assert_eq!(queue.read(&y)?.wait()?, [12.0, 24.0, 36.0]);
///
/// let source = saxpy(2.0, &x, &mut y).module().expect("all of it is in the kernel language");
/// assert_eq!(source.kernel.parameters.len(), 3);
/// # Ok(()) }
/// ```
#[must_use = "a call of a kernel does nothing before it is launched"]
pub struct Call<K, A, const D: usize> {
    arguments: A,
    allowances: Allowances,
    kernel: PhantomData<fn() -> K>,
}

impl<K: Entry<D>, A, const D: usize> Call<K, A, D> {
    /// A call with these arguments: for the code that `#[kernel]` makes.
    #[doc(hidden)]
    #[inline]
    pub fn new(arguments: A) -> Self {
        Self {
            arguments,
            allowances: Allowances::default(),
            kernel: PhantomData,
        }
    }

    /// The kernel's source, for these types of arguments, in the intermediate representation;
    /// [`print`](super::print) shows how it is written down.
    ///
    /// # Errors
    /// If a part of it has no source: the error says which, and where.
    pub fn module(&self) -> std::result::Result<Module, BuildError> {
        K::module().map(|module| Module {
            allowances: self.allowances,
            ..module
        })
    }

    /// Floats may be computed in any way that is the same for real numbers, and with functions that
    /// are less exact. NaN and infinity are taken not to occur. Compilers call it fast math. It
    /// holds for this launch.
    ///
    /// This and the others of its kind allow a device's compiler more. Natively a kernel always has
    /// the meaning that Rust gives it.
    ///
    /// ```
    /// # use quipu::prelude::*;
    /// # #[kernel]
    /// # fn saxpy(_acc: &impl Accelerator<1>, a: f32, x: &[f32], mut y: OwnElements<f32>) {
    /// #     for (i, y) in y.each() { *y += a * x[i]; }
    /// # }
    /// # fn main() -> quipu::Result<()> {
    /// # let context = Platform::new()?.context()?;
    /// # let queue = context.queue(&context.fastest())?;
    /// # let x = context.buffer(&[1.0, 2.0, 3.0])?;
    /// # let mut y = context.buffer(&[10.0, 20.0, 30.0])?;
    /// queue.launch(x.len(), saxpy(2.0, &x, &mut y).contract().flush_to_zero())?;
    /// # Ok(()) }
    /// ```
    pub fn fast_math(mut self) -> Self {
        self.allowances.fast_math = true;
        self
    }

    /// Products may be added in one step, rounded once, in this launch: as `mul_add` does where it
    /// is written.
    pub fn contract(mut self) -> Self {
        self.allowances.contract = true;
        self
    }

    /// Floats too small for all their digits may be taken for zero in this launch.
    pub fn flush_to_zero(mut self) -> Self {
        self.allowances.flush_to_zero = true;
        self
    }

    /// Indices and ranges are not checked in this launch, where a device's compiler makes the code.
    /// Mostly that is worth little: many checks are done before a loop, or not at all where they
    /// cannot fail.
    ///
    /// # Safety
    /// No index or range in this launch is out of bounds. Else anything may happen, to all that is
    /// in the device's memory.
    ///
    /// ```compile_fail,E0133
    /// # use quipu::prelude::*;
    /// #[kernel]
    /// fn first(_acc: &impl Accelerator<1>, x: &[u32], mut y: OwnElements<u32>) {
    ///     for (i, y) in y.each() {
    ///         *y = x[i];
    ///     }
    /// }
    /// # fn launch(queue: &Queue, x: &Buffer<u32>, y: &mut Buffer<u32>) -> quipu::Result<()> {
    /// queue.launch(1, first(x, y).unchecked())?; // who promises it?
    /// # Ok(())
    /// # }
    /// ```
    pub unsafe fn unchecked(mut self) -> Self {
        self.allowances.unchecked = true;
        self
    }
}

impl<K: Entry<D>, A, const D: usize> fmt::Debug for Call<K, A, D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Call({})", K::NAME)
    }
}

// SAFETY: the arguments keep their accesses (`PassAll`), and the kernel touches what its parameters
// are (`Entry`).
unsafe impl<'b, K: Entry<D>, A: PassAll<'b, K::Parameters, D>, const D: usize> Launch<'b, D>
    for Call<K, A, D>
{
    type Prepared = Called<K, A::Kept>;

    #[inline]
    fn prepare<'c>(
        self,
        context: &'c Context,
        accesses: &mut Accesses<'c>,
    ) -> Result<Self::Prepared>
    where
        'b: 'c,
    {
        Ok(Called::new(self.arguments.keep_all(context, accesses)?))
    }

    /// A device prefers as many rows as have the elements that it prefers.
    #[inline]
    fn limits<'l>(&self, of_device: &'l AcceleratorLimits) -> Cow<'l, AcceleratorLimits> {
        match self.arguments.elements_of_one() {
            1 if !K::BOUNDS.changes_limits() => Cow::Borrowed(of_device),
            elements => {
                let mut limits = K::BOUNDS.within(of_device);
                limits.preferred_thread_elements =
                    (limits.preferred_thread_elements / elements.max(1)).max(1);
                Cow::Owned(limits)
            }
        }
    }

    #[inline]
    fn bounds(&self) -> LaunchBounds<D> {
        K::BOUNDS
    }

    #[inline]
    fn check_extent(&self, elements: Extent<D>) -> Result<()> {
        match self.arguments.misfit(elements) {
            None => Ok(()),
            Some((number, owned)) => Err(owned.refuse(K::NAME, number, elements)),
        }
    }

    #[inline]
    fn allowances(&self) -> Allowances {
        self.allowances
    }
}

/// A [`Call`] as a command keeps it.
#[doc(hidden)]
#[derive(Debug)]
pub struct Called<K, S> {
    kept: S,
    kernel: PhantomData<fn() -> K>,
}

impl<K, S> Called<K, S> {
    pub(crate) fn new(kept: S) -> Self {
        Self {
            kept,
            kernel: PhantomData,
        }
    }
}

impl<K: Entry<D>, S: Kept<K::Parameters, D>, const D: usize> Prepared<D> for Called<K, S> {
    fn name(&self) -> &'static str {
        K::NAME
    }

    #[inline]
    fn check_blocks(&self, division: &WorkDivision<D>) -> Result<()> {
        Ok(K::BOUNDS.check(K::NAME, division)?)
    }

    #[inline]
    fn places(&self) -> u64 {
        S::PLACES
    }

    #[inline]
    fn is_checked(&self) -> bool {
        S::is_checked()
    }

    unsafe fn check(&self, arguments: &[RawArgument]) -> Result<()> {
        // SAFETY: the arguments are this command's, and nobody uses them: `Prepared::check` asks
        // its caller for that.
        unsafe { self.kept.check(&mut arguments.iter()) }
    }

    #[inline]
    unsafe fn run(
        &self,
        arguments: &[RawArgument],
        division: WorkDivision<D>,
        limits: &AcceleratorLimits,
        groups: Range<u64>,
        scratch: &mut BlockScratch,
    ) -> Result<std::result::Result<(), KernelError>> {
        // SAFETY: the arguments are this command's. Each range of groups gets views of its own, of
        // which partitions hand out the parts of its groups.
        let views = unsafe { self.kept.view(&mut arguments.iter()) }?;
        let launch = match K::prepare(views, division) {
            Ok(launch) => launch,
            Err(error) => return Ok(Err(error)),
        };
        if let Err(error) = limits.check_shared_bytes(launch.shared_bytes()) {
            return Ok(Err(error));
        }
        // SAFETY: each group is run once: `run` asks its own caller for that.
        Ok(unsafe { launch.run_groups(groups, scratch) })
    }

    #[inline]
    fn code_type(&self) -> Option<TypeId> {
        Some(TypeId::of::<Module>())
    }

    fn code(&self) -> Result<Arc<dyn Any + Send + Sync>> {
        source(K::NAME, K::module)
    }

    fn pass(
        &self,
        arguments: &[PackedArgument<'_>],
        division: WorkDivision<D>,
        passed: &mut Passed,
    ) -> Result<()> {
        let mut passing = Passing::new(arguments, K::SHARED > 0, passed);
        self.kept.pass(&mut passing);
        passing.finish(division, K::shared_lengths)
    }

    fn add_parameters(&self, passed: &mut Passed) {
        self.kept.pass(&mut Passing::new(&[], false, passed));
    }

    #[inline]
    fn has_gaps(&self) -> bool {
        self.kept.has_gaps()
    }
}

/// A kernel's code for other devices.
fn source(
    kernel: &str,
    module: fn() -> std::result::Result<Module, BuildError>,
) -> Result<Arc<dyn Any + Send + Sync>> {
    let module = module().map_err(|error| ErrorKind::Kernel {
        what: format!("the source of kernel '{kernel}'"),
        message: error.to_string(),
    })?;
    Ok(Arc::new(module))
}
