//! Kernels that devices have built in.

use super::argument::{Accesses, Argument, Arguments, Stored};
use super::call::Launch;
use super::passing::Passing;
use super::prepared::Prepared;
use crate::buffer::{Buffer, Overwrite};
use crate::context::Context;
use crate::element::Element;
use bytemuck::AnyBitPattern;
use quipu_kernel::{AcceleratorLimits, BlockScratch, KernelError, WorkDivision};
use quipu_scheduler::access::Argument as PackedArgument;
use quipu_scheduler::{BuiltInKernel, CodeKey, ErrorKind, Passed, RawArgument, Result};
use std::any::{Any, TypeId};
use std::fmt;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// A kernel that a device has built in, as a camera its next frame: found by
/// [`Device::built_in_kernel`](crate::Device::built_in_kernel).
#[derive(Clone)]
pub struct BuiltIn {
    signature: Arc<BuiltInKernel>,
    code: Arc<quipu_scheduler::BuiltIn>,
    name: &'static str,
    number: u64,
}

impl BuiltIn {
    pub(crate) fn new(signature: &BuiltInKernel) -> Self {
        static NUMBERS: AtomicU64 = AtomicU64::new(0);
        Self {
            code: Arc::new(quipu_scheduler::BuiltIn(signature.name.clone())),
            name: quipu_clc::interned(&signature.name),
            signature: Arc::new(signature.clone()),
            number: NUMBERS.fetch_add(1, Ordering::Relaxed),
        }
    }

    /// Its parameters, in order.
    #[must_use]
    pub fn signature(&self) -> &BuiltInKernel {
        &self.signature
    }

    /// The kernel with arguments, a tuple, to be [launched](crate::Queue::launch) on the device
    /// that has it, over one element, for it runs once: `&Buffer<T>` for memory that it reads,
    /// `&mut Buffer<T>` or `.overwrite()` for memory that it writes, `&mut Buffer<T>` for both, and
    /// values for values. Buffers that it writes have elements of which all bits are a value. The
    /// launch is refused if they do not match the [signature](BuiltIn::signature).
    pub fn call<'b, A: BuiltInArguments<'b>>(&self, arguments: A) -> BuiltInCall<A> {
        BuiltInCall {
            kernel: self.clone(),
            arguments,
        }
    }
}

impl fmt::Debug for BuiltIn {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "BuiltIn({})", self.signature)
    }
}

/// An argument that can be passed to a built-in kernel.
pub trait BuiltInArgument<'b>: Argument<'b> {}

impl<'b, T: Element> BuiltInArgument<'b> for &'b Buffer<T> {}
impl<'b, T: Element + AnyBitPattern> BuiltInArgument<'b> for &'b mut Buffer<T> {}
impl<'b, T: Element + AnyBitPattern> BuiltInArgument<'b> for Overwrite<'b, T> {}

macro_rules! values {
    ($($name:ty),*) => {$(
        impl<'b> BuiltInArgument<'b> for $name {}
    )*};
}
values!(u8, u16, u32, u64, i32, i64, f32, f64);

/// A tuple of up to eight [`BuiltInArgument`]s.
pub trait BuiltInArguments<'b>: Arguments<'b> {}

macro_rules! tuples {
    ($(($($name:ident)*))*) => {$(
        impl<'b, $($name: BuiltInArgument<'b>),*> BuiltInArguments<'b> for ($($name,)*) {}
    )*};
}
tuples! {
    (A) (A B) (A B C) (A B C D) (A B C D E) (A B C D E F) (A B C D E F G) (A B C D E F G H)
}

/// A [`BuiltIn`] with its arguments: made by [`BuiltIn::call`].
#[must_use = "a kernel does nothing before it is launched"]
pub struct BuiltInCall<A> {
    kernel: BuiltIn,
    arguments: A,
}

impl<A> fmt::Debug for BuiltInCall<A> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.kernel.fmt(formatter)
    }
}

// SAFETY: the arguments add their accesses, in order, and the driver's kernel is passed these
// alone.
unsafe impl<'b, A: BuiltInArguments<'b>> Launch<'b, 1> for BuiltInCall<A> {
    type Prepared = BuiltInCalled<A::Stored>;

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
        let mut passed = Passed::default();
        stored.pass(&mut Passing::new(&[], false, &mut passed));
        let modes = own.iter().map(|access| access.mode);
        self.kernel.signature.check(&passed, modes)?;
        accesses.extend(own.iter().copied());
        Ok(BuiltInCalled {
            stored,
            kernel: self.kernel,
        })
    }
}

/// A [`BuiltInCall`] as a command keeps it.
#[doc(hidden)]
#[derive(Debug)]
pub struct BuiltInCalled<S> {
    kernel: BuiltIn,
    stored: S,
}

impl<S: Stored> Prepared<1> for BuiltInCalled<S> {
    fn name(&self) -> &'static str {
        self.kernel.name
    }

    unsafe fn run(
        &self,
        _arguments: &[RawArgument],
        _division: WorkDivision<1>,
        _limits: &AcceleratorLimits,
        _groups: Range<u64>,
        _scratch: &mut BlockScratch,
    ) -> Result<std::result::Result<(), KernelError>> {
        Err(ErrorKind::Kernel {
            what: format!("kernel '{}'", self.kernel.name),
            message: "it is its device's own".to_owned(),
        }
        .into())
    }

    fn is_native(&self) -> bool {
        false
    }

    fn code_type(&self) -> Option<TypeId> {
        Some(TypeId::of::<quipu_scheduler::BuiltIn>())
    }

    fn key(&self) -> CodeKey {
        CodeKey::of::<quipu_scheduler::BuiltIn>(self.kernel.number)
    }

    fn code(&self) -> Result<Arc<dyn Any + Send + Sync>> {
        Ok(self.kernel.code.clone())
    }

    fn pass(
        &self,
        arguments: &[PackedArgument<'_>],
        division: WorkDivision<1>,
        passed: &mut Passed,
    ) -> Result<()> {
        let mut passing = Passing::new(arguments, false, passed);
        self.stored.pass(&mut passing);
        passing.finish(division, |_, _| None)
    }

    fn add_parameters(&self, passed: &mut Passed) {
        self.stored.pass(&mut Passing::new(&[], false, passed));
    }
}
