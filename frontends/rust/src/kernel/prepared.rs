//! A kernel with the parts of its arguments that a command keeps, in any form.

use quipu_kernel::{AcceleratorLimits, BlockScratch, KernelError, WorkDivision};
use quipu_scheduler::access::Argument as PackedArgument;
use quipu_scheduler::portable::CodeKey;
use quipu_scheduler::{ErrorKind, Passed, RawArgument, Result};
use std::any::{Any, TypeId};
use std::ops::Range;
use std::sync::Arc;

/// A kernel with the parts of its arguments that a command keeps.
#[doc(hidden)]
pub trait Prepared<const D: usize>: Send + Sync + 'static {
    /// The kernel's name.
    fn name(&self) -> &'static str;

    /// Runs work-groups of a launch.
    ///
    /// # Errors
    /// If an argument does not suit the kernel; inside, the fault that stopped a group.
    ///
    /// # Safety
    /// The arguments are the command's, valid in their modes. Otherwise as
    /// [`GroupKernel::run_groups`].
    unsafe fn run(
        &self,
        arguments: &[RawArgument],
        division: WorkDivision<D>,
        limits: &AcceleratorLimits,
        groups: Range<u64>,
        scratch: &mut BlockScratch,
    ) -> Result<std::result::Result<(), KernelError>>;

    /// True if [`check`](Self::check) has something to look at.
    #[inline]
    fn is_checked(&self) -> bool {
        false
    }

    /// Sees to it that all elements of arguments that are written are values of their types.
    ///
    /// # Errors
    /// If those of one that keeps its content are not.
    ///
    /// # Safety
    /// The arguments are the command's, valid in their modes, and no work-group has begun.
    unsafe fn check(&self, arguments: &[RawArgument]) -> Result<()> {
        let _ = arguments;
        Ok(())
    }

    /// Refuses a division whose blocks are not as the kernel's attribute says.
    ///
    /// # Errors
    /// If the kernel cannot be run in such blocks: the error says how to write the division.
    #[inline]
    fn check_blocks(&self, _division: &WorkDivision<D>) -> Result<()> {
        Ok(())
    }

    /// The arguments that are in memory: a bit for each, from the lowest.
    #[inline]
    fn places(&self) -> u64 {
        u64::MAX
    }

    /// True if it has native code.
    #[inline]
    fn is_native(&self) -> bool {
        true
    }

    /// The type of its code for other devices, if it has any.
    #[inline]
    fn code_type(&self) -> Option<TypeId> {
        None
    }

    /// The name of the code that a driver compiles.
    fn key(&self) -> CodeKey {
        CodeKey::of::<Self>(D as u64)
    }

    /// The code that a driver compiles.
    ///
    /// # Errors
    /// If a part of the kernel has no source: the error says which, and where.
    fn code(&self) -> Result<Arc<dyn Any + Send + Sync>> {
        Err(ErrorKind::Kernel {
            what: format!("the source of kernel '{}'", self.name()),
            message: "it is native code".to_owned(),
        }
        .into())
    }

    /// Passes the arguments to that code.
    ///
    /// # Errors
    /// If it cannot be passed.
    fn pass(
        &self,
        arguments: &[PackedArgument<'_>],
        division: WorkDivision<D>,
        passed: &mut Passed,
    ) -> Result<()> {
        let _ = (arguments, division, passed);
        Ok(())
    }

    /// Adds its parameters alone, without the lengths of shared arrays.
    fn add_parameters(&self, passed: &mut Passed) {
        let _ = passed;
    }

    /// True if it takes views with gaps between their rows, and leaves the gaps alone: all but a
    /// text, which is given addresses.
    #[inline]
    fn has_gaps(&self) -> bool {
        false
    }
}

/// One of any type.
impl<const D: usize> Prepared<D> for Box<dyn Prepared<D>> {
    fn name(&self) -> &'static str {
        (**self).name()
    }

    fn is_checked(&self) -> bool {
        (**self).is_checked()
    }

    unsafe fn check(&self, arguments: &[RawArgument]) -> Result<()> {
        // SAFETY: `Prepared::check` asks its caller for the same.
        unsafe { (**self).check(arguments) }
    }

    fn check_blocks(&self, division: &WorkDivision<D>) -> Result<()> {
        (**self).check_blocks(division)
    }

    fn places(&self) -> u64 {
        (**self).places()
    }

    unsafe fn run(
        &self,
        arguments: &[RawArgument],
        division: WorkDivision<D>,
        limits: &AcceleratorLimits,
        groups: Range<u64>,
        scratch: &mut BlockScratch,
    ) -> Result<std::result::Result<(), KernelError>> {
        // SAFETY: `Prepared::run` asks its caller for the same.
        unsafe { (**self).run(arguments, division, limits, groups, scratch) }
    }

    fn is_native(&self) -> bool {
        (**self).is_native()
    }

    fn code_type(&self) -> Option<TypeId> {
        (**self).code_type()
    }

    fn key(&self) -> CodeKey {
        (**self).key()
    }

    fn code(&self) -> Result<Arc<dyn Any + Send + Sync>> {
        (**self).code()
    }

    fn pass(
        &self,
        arguments: &[PackedArgument<'_>],
        division: WorkDivision<D>,
        passed: &mut Passed,
    ) -> Result<()> {
        (**self).pass(arguments, division, passed)
    }

    fn add_parameters(&self, passed: &mut Passed) {
        (**self).add_parameters(passed);
    }

    fn has_gaps(&self) -> bool {
        (**self).has_gaps()
    }
}
