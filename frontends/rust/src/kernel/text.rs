//! Kernels in a language of devices, written by hand.

use super::argument::{Accesses, Arguments, Stored};
use super::call::{Launch, Prepared};
use super::passing::Passing;
use crate::context::Context;
use quipu_core::access::Argument as PackedArgument;
use quipu_core::{CodeKey, ErrorKind, Passed, RawArgument, Result};
use quipu_kernel::build::ir::{KernelText, TextLanguage};
use quipu_kernel::{AcceleratorLimits, BlockScratch, KernelError, WorkDivision};
use std::any::{Any, TypeId};
use std::borrow::Cow;
use std::collections::BTreeSet;
use std::fmt;
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// A text in OpenCL C, with kernels: made by [`Context::program`](crate::Context::program). Each device's compiler gets to
/// see it when a kernel of it is first launched there; clones are the same program.
#[derive(Clone)]
pub struct Program {
    source: Arc<str>,
    options: Arc<str>,
}

impl Program {
    pub(crate) fn new(source: &str) -> Self {
        Self {
            source: source.into(),
            options: "".into(),
        }
    }

    /// The same text, compiled with options, as OpenCL's compilers take them: `-D N=4 -cl-std=CL1.2`.
    #[must_use]
    pub fn options(mut self, options: &str) -> Self {
        self.options = options.into();
        self
    }

    /// A kernel of the text. Whether there is one of that name is found out when it is launched.
    #[must_use]
    pub fn kernel(&self, name: &str) -> TextKernel {
        static NUMBERS: AtomicU64 = AtomicU64::new(0);
        TextKernel {
            text: Arc::new(KernelText {
                language: TextLanguage::OpenClC,
                source: self.source.clone(),
                entry: name.to_owned(),
                options: self.options.to_string(),
            }),
            name: interned(name),
            number: NUMBERS.fetch_add(1, Ordering::Relaxed),
        }
    }
}

impl fmt::Debug for Program {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Program({} bytes of OpenCL C)", self.source.len())
    }
}

/// A name for as long as the process runs. There are as many as there are kernels in texts.
pub(super) fn interned(name: &str) -> &'static str {
    static NAMES: Mutex<BTreeSet<&'static str>> = Mutex::new(BTreeSet::new());
    let mut names = NAMES.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(known) = names.get(name) {
        return known;
    }
    let name: &'static str = Box::leak(name.into());
    names.insert(name);
    name
}

/// A kernel of a [`Program`]. It is compiled once for each device: keep it, rather than making it for each launch.
#[derive(Clone)]
pub struct TextKernel {
    text: Arc<KernelText>,
    name: &'static str,
    number: u64,
}

impl TextKernel {
    /// The kernel with arguments, a tuple, to be [launched](crate::Queue::launch): buffers and views for pointers to
    /// global memory, which say by `&` and `&mut` what the kernel reads and writes, and values for values.
    ///
    /// A launch over a number of elements has a thread for each, and more where the last block is not full; so a kernel
    /// compares its thread's number with what there is. Devices that have no compiler for the language refuse it, as the
    /// CPU pool does. What the compiler says of the text, with its lines, is the launch's error.
    ///
    /// # Safety
    /// The kernel has as many parameters, of these types; it stays within the elements of its arguments, writes only what
    /// is passed to be written, and only what is a value of its type; its threads do not race.
    #[must_use = "a kernel does nothing before it is launched"]
    pub unsafe fn call<A>(&self, arguments: A) -> TextCall<A> {
        TextCall {
            kernel: self.clone(),
            arguments,
        }
    }
}

impl fmt::Debug for TextKernel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "TextKernel({})", self.name)
    }
}

/// A [`TextKernel`] with its arguments: made by [`TextKernel::call`].
#[must_use = "a kernel does nothing before it is launched"]
pub struct TextCall<A> {
    kernel: TextKernel,
    arguments: A,
}

impl<A> fmt::Debug for TextCall<A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.kernel.fmt(f)
    }
}

impl<'b, A: Arguments<'b>, const D: usize> Launch<'b, D> for TextCall<A> {
    type Prepared = TextCalled<A::Stored>;

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
        Ok(TextCalled {
            stored,
            kernel: self.kernel,
        })
    }

    /// One element for each thread: the language has no others.
    fn limits<'l>(&self, of_device: &'l AcceleratorLimits) -> Cow<'l, AcceleratorLimits> {
        let mut limits = of_device.clone();
        limits.thread_element_count = 1;
        limits.preferred_thread_elements = 1;
        limits.preferred_block_threads = 64.min(limits.block_thread_count);
        Cow::Owned(limits)
    }
}

/// A [`TextCall`] as a command keeps it.
#[doc(hidden)]
#[derive(Debug)]
pub struct TextCalled<S> {
    kernel: TextKernel,
    stored: S,
}

impl<S: Stored, const D: usize> Prepared<D> for TextCalled<S> {
    fn name(&self) -> &'static str {
        self.kernel.name
    }

    unsafe fn run(
        &self,
        _arguments: &[RawArgument],
        _division: WorkDivision<D>,
        _limits: &AcceleratorLimits,
        _groups: Range<u64>,
        _scratch: &mut BlockScratch,
    ) -> Result<std::result::Result<(), KernelError>> {
        Err(ErrorKind::Kernel {
            what: format!("kernel '{}'", self.kernel.name),
            message: "it has no native code".to_owned(),
        }
        .into())
    }

    fn is_native(&self) -> bool {
        false
    }

    fn code_type(&self) -> Option<TypeId> {
        Some(TypeId::of::<KernelText>())
    }

    fn key(&self) -> CodeKey {
        CodeKey::of::<KernelText>(self.kernel.number)
    }

    fn code(&self) -> Result<Arc<dyn Any + Send + Sync>> {
        Ok(self.kernel.text.clone())
    }

    fn pass(
        &self,
        arguments: &[PackedArgument],
        division: WorkDivision<D>,
        passed: &mut Passed,
    ) -> Result<()> {
        let mut passing = Passing::new(arguments, false, passed);
        self.stored.pass(&mut passing);
        passing.finish(division, |_, _| None)
    }
}
