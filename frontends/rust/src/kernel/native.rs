//! Kernels written by hand, for processors alone.

use super::argument::{Accesses, Arguments, Stored};
use super::bind::{Bind, Bound};
use super::body::short_name;
use super::call::Launch;
use super::passing::Passing;
use super::prepared::Prepared;
use crate::context::Context;
use crate::parcel::Contained;
use quipu_kernel::{AcceleratorLimits, BlockScratch, KernelError, WorkDivision};
use quipu_scheduler::{Passed, RawArgument, Result};
use std::fmt;
use std::ops::Range;

/// A kernel written by hand, for processors alone, with its arguments: made by [`native`].
#[must_use = "a kernel does nothing before it is launched"]
pub struct Native<F, A> {
    function: F,
    arguments: A,
}

impl<F, A> fmt::Debug for Native<F, A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Native({})", short_name::<F>())
    }
}

/// A kernel in any Rust, with its arguments, a tuple: for algorithms that the kernel language
/// cannot express. It runs on processors alone.
///
/// `function` makes a kernel that is [bound](crate::bind) to its output of [views of the
/// arguments](crate::kernel). See [`bind`](crate::bind) for an example.
///
/// # Safety
/// A device calls `function` from several threads at a time, each time with views of whole
/// arguments. So `function` only makes the kernel: it neither writes an output itself, nor runs a
/// kernel on it. All calls divide each output in the same way, into the same parts.
pub unsafe fn native<F, A>(function: F, arguments: A) -> Native<F, A> {
    Native {
        function,
        arguments,
    }
}

// SAFETY: the arguments add their accesses (`Arguments`), and `native` was promised that the
// function keeps to them.
unsafe impl<'b, F, A, const D: usize> Launch<'b, D> for Native<F, A>
where
    A: Arguments<'b>,
    F: for<'a> Bind<'a, A::Stored, D> + Send + Sync + 'static,
{
    type Prepared = Binding<F, A::Stored>;

    #[inline]
    fn prepare<'c>(
        self,
        _context: &'c Context,
        accesses: &mut Accesses<'c>,
    ) -> Result<Self::Prepared>
    where
        'b: 'c,
    {
        let mut own: Accesses<'b> = Accesses::new();
        let stored = self.arguments.store(&mut own)?;
        accesses.extend(own.iter().copied());
        Ok(Binding {
            stored,
            function: Contained::new(self.function),
        })
    }
}

/// A [`Native`] kernel as a command keeps it.
#[doc(hidden)]
pub struct Binding<F, S> {
    function: Contained<F>,
    stored: S,
}

impl<F, S> fmt::Debug for Binding<F, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Binding({})", short_name::<F>())
    }
}

impl<F, S, const D: usize> Prepared<D> for Binding<F, S>
where
    S: Stored,
    F: for<'a> Bind<'a, S, D> + Send + Sync + 'static,
{
    fn name(&self) -> &'static str {
        short_name::<F>()
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
        unsafe { self.stored.check(&mut arguments.iter()) }
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
        // which partitions hand out the parts of its groups: `native` asks its caller for that.
        let views = unsafe { self.stored.view(&mut arguments.iter()) }?;
        let bound = self.function.bind(views);
        // SAFETY: each group is run once: `run` asks its own caller for that.
        Ok(unsafe { bound.run(division, limits, groups, scratch) })
    }

    fn add_parameters(&self, passed: &mut Passed) {
        self.stored.pass(&mut Passing::new(&[], false, passed));
    }

    #[inline]
    fn has_gaps(&self) -> bool {
        self.stored.has_gaps()
    }
}
