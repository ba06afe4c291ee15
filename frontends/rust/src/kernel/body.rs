//! Launches as the core knows them: native code over ranges of work-groups.

use super::argument::Shared;
use super::prepared::Prepared;
use crate::element::Element;
use crate::parcel::Contained;
use quipu_kernel::emit::ir::{Allowances, Module};
use quipu_kernel::level::{Level, Share as LevelShare, Work, run_at};
use quipu_kernel::{AcceleratorLimits, BlockScratch, KernelError, RunOptions, WorkDivision};
use quipu_scheduler::access::Argument;
use quipu_scheduler::operation::NativeKernel;
use quipu_scheduler::{CodeKey, ErrorKind, Passed, PortableKernel, RawArgument, Result};
use std::any::{Any, TypeId};
use std::cell::RefCell;
use std::marker::PhantomData;
use std::ops::Range;
use std::sync::Arc;

/// A launch of a kernel.
pub(crate) struct LaunchBody<P, const D: usize> {
    pub(crate) prepared: P,
    pub(crate) division: WorkDivision<D>,
    pub(crate) limits: &'static AcceleratorLimits,
    /// The division was left to the device.
    pub(crate) automatic: bool,
    /// The freedoms of code for other devices that Rust does not give.
    pub(crate) allowances: Allowances,
}

thread_local! {
    /// This thread's memory for the blocks that it runs.
    static SCRATCH: RefCell<BlockScratch> = const { RefCell::new(BlockScratch::new()) };
}

/// Calls `run` with the thread's scratch, or, from inside a block that waits for
/// other work and does it, or where the thread ends, with one of its own.
#[inline]
fn with_scratch<R>(run: impl FnOnce(&mut BlockScratch) -> R) -> R {
    let mut run = Some(run);
    let ran = SCRATCH.try_with(|scratch| {
        let mut scratch = scratch.try_borrow_mut().ok()?;
        run.take().map(|run| run(&mut scratch))
    });
    match (ran, run) {
        (Ok(Some(result)), _) => result,
        (_, Some(run)) => run(&mut BlockScratch::new()),
        (_, None) => unreachable!("it was run, and gave a result"),
    }
}

/// A type's name without its path.
pub(super) fn short_name<T>() -> &'static str {
    let name = std::any::type_name::<T>();
    let path = name.split('<').next().unwrap_or(name);
    let last = path.trim_end_matches("::{{closure}}").rsplit("::").next();
    last.unwrap_or(name)
}

impl<P: Prepared<D>, const D: usize> NativeKernel for LaunchBody<P, D> {
    fn name(&self) -> &'static str {
        self.prepared.name()
    }

    unsafe fn begin(&self, arguments: &[RawArgument]) -> Result<()> {
        match self.prepared.is_checked() {
            // SAFETY: no group has begun: `NativeKernel::begin` asks its caller for that.
            true => unsafe { self.prepared.check(arguments) },
            false => Ok(()),
        }
    }

    #[inline]
    unsafe fn run(&self, arguments: &[RawArgument], groups: Range<u32>) -> Result<()> {
        if self.prepared.is_checked() && groups.len() == self.division.block_count() {
            // SAFETY: these are all groups, so no other call runs any.
            unsafe { self.prepared.check(arguments) }?;
        }
        let Some(groups) = self
            .groups(groups)
            .map_err(|error| failed(self.name(), &error))?
        else {
            return Ok(());
        };
        // SAFETY: no group is run twice, and the memory is there meanwhile.
        let run = with_scratch(|scratch| unsafe {
            self.prepared
                .run(arguments, self.division, self.limits, groups, scratch)
        });
        run?.map_err(|error| failed(self.prepared.name(), &error))
    }

    fn portable(&self) -> Option<&dyn PortableKernel> {
        self.prepared
            .code_type()
            .map(|_| self as &dyn PortableKernel)
    }
}

impl<P: Prepared<D>, const D: usize> LaunchBody<P, D> {
    /// The groups to run for a part of the launch. In checking mode the part with the first group
    /// runs all of them, and the others none: races are seen between the groups of one part.
    #[inline]
    fn groups(&self, part: Range<u32>) -> std::result::Result<Option<Range<u64>>, KernelError> {
        if !RunOptions::from_environment()?.check {
            return Ok(Some(u64::from(part.start)..u64::from(part.end)));
        }
        let all = 0..self.division.block_count() as u64;
        Ok((part.start == 0).then_some(all))
    }
}

// SAFETY: code and parameters are made of the same `#[kernel]` function, whose type is a part of
// the key, and `Prepared` passes the accesses that the launch was made with. A body is enqueued
// with those alone. The code checks its indices, unless the caller has promised that they are right
// (`unchecked` of a call, and `call` of a kernel that is a text, are `unsafe`).
unsafe impl<P: Prepared<D>, const D: usize> PortableKernel for LaunchBody<P, D> {
    fn key(&self) -> CodeKey {
        let Allowances {
            fast_math,
            contract,
            flush_to_zero,
            unchecked,
        } = self.allowances;
        let bits = [fast_math, contract, flush_to_zero, unchecked];
        let form = bits
            .into_iter()
            .fold(0, |form, bit| form << 1 | u8::from(bit));
        self.prepared.key().form(form)
    }

    fn code_type(&self) -> TypeId {
        // Only asked of a kernel that has code.
        self.prepared.code_type().unwrap_or_else(TypeId::of::<()>)
    }

    fn code(&self) -> Result<Arc<dyn Any + Send + Sync>> {
        let code = self.prepared.code()?;
        if self.allowances == Allowances::default() {
            return Ok(code);
        }
        Ok(match code.downcast::<Module>() {
            Ok(mut module) => {
                Arc::make_mut(&mut module).allowances = self.allowances;
                module
            }
            // Of a text nothing is known.
            Err(code) => code,
        })
    }

    fn pass(&self, arguments: &[Argument<'_>], passed: &mut Passed) -> Result<()> {
        self.prepared.pass(arguments, self.division, passed)?;
        // The lengths of shared arrays go by the division.
        passed.automatic = self.automatic && passed.shared.is_empty();
        Ok(())
    }
}

#[cold]
fn failed(name: &str, error: &KernelError) -> quipu_scheduler::Error {
    ErrorKind::Kernel {
        what: format!("kernel '{name}'"),
        message: error.to_string(),
    }
    .into()
}

/// A closure over the elements of its first argument.
pub(crate) struct EachBody<F, T, S> {
    pub(crate) function: Contained<F>,
    pub(crate) stored: S,
    /// Elements of a work-group.
    pub(crate) share: usize,
    pub(crate) elements: PhantomData<fn(T)>,
}

impl<F, T, S> NativeKernel for EachBody<F, T, S>
where
    T: Element,
    S: Shared,
    F: for<'a> Fn(usize, &'a mut T, S::Each<'a>) + Send + Sync + 'static,
{
    fn name(&self) -> &'static str {
        short_name::<F>()
    }

    #[inline]
    unsafe fn run(&self, arguments: &[RawArgument], groups: Range<u32>) -> Result<()> {
        let mut raw = arguments.iter();
        // SAFETY: the arguments are this command's.
        let output = unsafe { super::argument::Write::<T>::output(&mut raw) }?;
        // SAFETY: as above.
        let shared = unsafe { self.stored.each(&mut raw) }?;
        let Range { start, end } = share_of(&groups, self.share, output.1);
        // SAFETY: within the elements; those of different groups are disjoint, and no group is run
        // twice. So no other thread writes these.
        let part = unsafe {
            let (first, length) = super::argument::values(output.0.add(start), end - start)?;
            std::slice::from_raw_parts_mut(first, length)
        };
        let options = RunOptions::from_environment().map_err(|error| ErrorKind::Kernel {
            what: format!("kernel '{}'", short_name::<F>()),
            message: error.to_string(),
        })?;
        let each = Each {
            function: &*self.function,
            start,
            part,
            shared,
            of_launch: LevelShare {
                groups: groups.len(),
                of: output.1.div_ceil(self.share),
            },
        };
        run_at(options.level, each);
        Ok(())
    }
}

/// A closure over neighbouring elements, as a loop for a feature level.
struct Each<'a, F, T, E> {
    function: &'a F,
    /// The number of the first of them.
    start: usize,
    part: &'a mut [T],
    shared: E,
    of_launch: LevelShare,
}

impl<'a, F, T, E: Copy> Work for Each<'a, F, T, E>
where
    F: Fn(usize, &'a mut T, E),
{
    type Output = ();

    #[inline(always)]
    fn run<L: Level>(self) {
        for (index, element) in self.part.iter_mut().enumerate() {
            (self.function)(self.start + index, element, self.shared);
        }
    }

    #[inline]
    fn share(&self) -> LevelShare {
        self.of_launch
    }
}

/// A value for every element of the first argument.
pub(crate) struct FillBody<T> {
    pub(crate) value: T,
    /// Elements of a work-group.
    pub(crate) share: usize,
}

impl<T: Element> NativeKernel for FillBody<T> {
    fn name(&self) -> &'static str {
        "fill"
    }

    unsafe fn run(&self, arguments: &[RawArgument], groups: Range<u32>) -> Result<()> {
        // SAFETY: the arguments are this command's.
        let (first, length) =
            unsafe { super::argument::Write::<T>::output(&mut arguments.iter()) }?;
        for index in share_of(&groups, self.share, length) {
            // Written, not assigned: the bits there may be no value of `T`. SAFETY: within the
            // elements; those of different groups are disjoint, and no group is run twice.
            unsafe { first.add(index).write(self.value) };
        }
        Ok(())
    }
}

/// The elements of these work-groups, of `length` in all.
#[inline]
fn share_of(groups: &Range<u32>, share: usize, length: usize) -> Range<usize> {
    let place = |group: u32| (group as usize).saturating_mul(share).min(length);
    place(groups.start)..place(groups.end)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_short() {
        struct Plain;
        struct Generic<T>(PhantomData<T>);
        assert_eq!(short_name::<Plain>(), "Plain");
        assert_eq!(short_name::<Generic<Vec<u8>>>(), "Generic");
        fn of<T>(_: T) -> &'static str {
            short_name::<T>()
        }
        fn saxpy() {}
        assert_eq!(of(saxpy), "saxpy");
        assert_eq!(of(|| ()), "names_are_short");
    }
}
