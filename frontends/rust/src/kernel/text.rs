//! Kernels in a language of devices, written by hand.
//!
//! OpenCL's devices compile the text themselves. Devices that run native code run the code that
//! [`quipu_clc`] makes of it: the text is read when a kernel of it is first launched there. A
//! kernel is compiled for each size of block that it is launched with. A module of SPIR-V runs on
//! processors, here and on nodes, and on devices of CUDA. The machine with the device needs
//! `llvm-spirv`.

use super::argument::{Accesses, Arguments, Stored};
use super::call::Launch;
use super::passing::Passing;
use super::prepared::Prepared;
use crate::buffer::Buffer;
use crate::context::Context;
use crate::device::Device;
use quipu_clc::{ClcError, KernelInfo, LinkedKernel, ParameterKind, Part, ProgramText, SpirV};
use quipu_kernel::emit::ir::{KernelText, TextLanguage};
use quipu_kernel::{AcceleratorLimits, BlockScratch, KernelError, WorkDivision};
use quipu_scheduler::access::Argument as PackedArgument;
use quipu_scheduler::portable::Extents;
use quipu_scheduler::{Access, AccessMode, CodeKey, ErrorKind, Passed, RawArgument, Result};
use std::any::{Any, TypeId};
use std::borrow::Cow;
use std::fmt;
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

/// A text in OpenCL C, with kernels: made by [`Context::program`](crate::Context::program). Each
/// device's compiler gets to see it when a kernel of it is first launched there; clones are the
/// same program.
#[derive(Clone)]
pub struct Program {
    source: Arc<str>,
    /// Instead of a text.
    module: Option<Arc<SpirV>>,
    options: Arc<str>,
    native: Arc<OnceLock<std::result::Result<quipu_clc::Program, ClcError>>>,
}

impl Program {
    pub(crate) fn new(source: &str) -> Self {
        Self {
            source: source.into(),
            module: None,
            options: "".into(),
            native: Arc::default(),
        }
    }

    pub(crate) fn of_spirv(module: &[u8]) -> Result<Self> {
        let module = SpirV::new(module).map_err(|error| not_compiled(&error))?;
        let mut program = Self::new("");
        program.module = Some(Arc::new(module));
        Ok(program)
    }

    /// The same module of SPIR-V with another value of a specialisation constant, which is written
    /// as in C: `7`, `-2.5`, `true`.
    ///
    /// # Errors
    /// If it is no module; if it has no constant of that number; if the value is none of its type.
    pub fn specialise(mut self, constant: u32, value: &str) -> Result<Self> {
        let none = || {
            ErrorKind::InvalidArgument {
            what: "set a specialisation constant",
            problem: "it is a text, and only modules of SPIR-V have specialisation constants; use -D NAME=VALUE".to_owned(),
        }
        };
        let mut module = SpirV::clone(self.module.as_deref().ok_or_else(none)?);
        let specialised = module.specialise_as(constant, value);
        specialised.map_err(|error| not_compiled(&error))?;
        self.module = Some(Arc::new(module));
        self.native = Arc::default();
        Ok(self)
    }

    /// The same text, compiled with options, as OpenCL's compilers take them:
    /// `-D N=4 -cl-std=CL1.2`.
    #[must_use]
    pub fn options(mut self, options: &str) -> Self {
        self.options = options.into();
        self.native = Arc::default();
        self
    }

    /// The kernels of the text, with their parameters, as the compiler for processors reads it; it
    /// is compiled for no device by that.
    ///
    /// # Errors
    /// The compiler's messages on the text, with its lines; or that the machine has no such
    /// compiler.
    pub fn kernels(&self) -> Result<&[KernelInfo]> {
        Ok(self.native()?.kernels())
    }

    /// The kernels of the text, with their parameters, for launches on a device: as
    /// [`kernels`](Self::kernels), or as the device's own compiler reads the text if this machine
    /// has none, or one that refuses the text. That of a node's device is the node's.
    ///
    /// # Errors
    /// As [`kernels`](Self::kernels); if the device has no compiler either; if it is lost.
    pub fn kernels_on(&self, device: &Device) -> Result<Vec<KernelInfo>> {
        let core = device.core();
        let is_read_there = self.module.is_none() && !core.driver().runs_native_code();
        let is_read_here = !is_read_there || quipu_clc::is_available();
        let refused = match is_read_here.then(|| self.read()).transpose() {
            Ok(Some(program)) => return Ok(program.kernels().to_vec()),
            Err(error) if !is_read_there || !error.is_refusal() => {
                return Err(not_compiled(error));
            }
            Err(error) => Some(error),
            Ok(None) => None,
        };
        let text = ProgramText {
            source: self.source.clone(),
            options: self.options.to_string(),
        };
        let read = quipu_clc::describe_by_driver(core, &text);
        let read = read.map_err(|error| refused.map_or(error, not_compiled))?;
        Ok(read.kernels)
    }

    /// The program as processors have it.
    fn native(&self) -> Result<&quipu_clc::Program> {
        self.read().map_err(not_compiled)
    }

    fn read(&self) -> std::result::Result<&quipu_clc::Program, &ClcError> {
        let read = || match &self.module {
            Some(module) => {
                quipu_clc::checked_options(&self.options)?;
                quipu_clc::Program::of_spirv(module)
            }
            None => quipu_clc::Program::new(&self.source, &self.options),
        };
        self.native.get_or_init(read).as_ref()
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
            program: self.clone(),
            name: quipu_clc::interned(name),
            number: NUMBERS.fetch_add(1, Ordering::Relaxed),
        }
    }
}

fn not_compiled(error: &ClcError) -> quipu_scheduler::Error {
    let kind = ErrorKind::Kernel {
        what: "compiling OpenCL C for processors".to_owned(),
        message: error.to_string(),
    };
    kind.into()
}

impl fmt::Debug for Program {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Program({} bytes of OpenCL C)", self.source.len())
    }
}

/// A kernel of a [`Program`]. It is compiled once for each device: keep it, rather than making it
/// for each launch.
#[derive(Clone)]
pub struct TextKernel {
    text: Arc<KernelText>,
    program: Program,
    name: &'static str,
    number: u64,
}

/// An argument of a kernel whose parameters are known when the program runs: see
/// [`TextKernel::call_with`].
#[derive(Debug)]
pub enum TextArgument<'b> {
    /// The bytes of a value.
    Value(Vec<u8>),
    /// Memory that is read.
    Read(&'b Buffer<u8>),
    /// Memory that is written, and may be read.
    Write(&'b mut Buffer<u8>),
    /// So many bytes of memory of each block's own.
    Local(u64),
}

impl TextKernel {
    /// The kernel with arguments, a tuple, to be [launched](crate::Queue::launch): buffers and
    /// views for pointers to global memory, whose `&` and `&mut` say which memory the kernel reads
    /// and writes, and values for values.
    ///
    /// A launch over a number of elements has a thread for each, and more where the last block is
    /// not full; so a kernel compares its thread's number with the number of elements. Devices that
    /// have no compiler for the language refuse it; so do processors on a machine without LLVM. The
    /// compiler's messages on the text, with its lines, are the launch's error.
    ///
    /// # Safety
    /// The kernel has as many parameters, of these types; it stays within the elements of its
    /// arguments, writes only memory that is passed to be written, and there only values of its
    /// type; its threads do not race.
    #[must_use = "a kernel does nothing before it is launched"]
    pub unsafe fn call<A>(&self, arguments: A) -> TextCall<A> {
        TextCall {
            kernel: self.clone(),
            arguments,
            all_threads: Extents::new(),
        }
    }
}

impl TextKernel {
    /// As [`call`](Self::call), with arguments whose number and types are known when the program
    /// runs.
    ///
    /// # Safety
    /// As for [`call`](Self::call).
    #[must_use = "a kernel does nothing before it is launched"]
    pub unsafe fn call_with<'b>(&self, arguments: Vec<TextArgument<'b>>) -> TextCall<Listed<'b>> {
        TextCall {
            kernel: self.clone(),
            arguments: Listed(arguments),
            all_threads: Extents::new(),
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
    all_threads: Extents,
}

impl<A> TextCall<A> {
    /// The same call with just so many threads in the grid along each dimension: the last block
    /// along one has fewer than the others if they do not fill it. The launch's division has as
    /// many blocks as they need.
    ///
    /// The launch fails if it has another number of blocks; if the device takes blocks of one size
    /// alone; or if the kernel does, as those before OpenCL C 2.0 do.
    pub fn with_threads(mut self, threads: &[usize]) -> Self {
        self.all_threads = threads.iter().map(|number| *number as u64).collect();
        self
    }
}

impl<A> fmt::Debug for TextCall<A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.kernel.fmt(f)
    }
}

/// Arguments of a call of a text's kernel: a tuple, or a list.
#[doc(hidden)]
pub trait TextArguments<'b> {
    /// The part of them that the command keeps.
    type Kept: TextKept;

    /// Gives the part that the command keeps, and adds its accesses to `accesses`, in order.
    ///
    /// # Errors
    /// If one cannot be an argument.
    fn keep(self, accesses: &mut Accesses<'b>) -> Result<Self::Kept>;
}

/// The part that a command keeps of arguments of a text's kernel.
#[doc(hidden)]
pub trait TextKept: Send + Sync + 'static {
    /// The arguments that are in memory: as [`Stored::PLACES`].
    fn places(&self) -> u64;

    /// Passes them to the kernel.
    fn pass(&self, to: &mut Passing<'_>);
}

impl<'b, A: Arguments<'b>> TextArguments<'b> for A {
    type Kept = A::Stored;

    fn keep(self, accesses: &mut Accesses<'b>) -> Result<A::Stored> {
        self.store(accesses)
    }
}

impl<S: Stored> TextKept for S {
    fn places(&self) -> u64 {
        S::PLACES
    }

    fn pass(&self, to: &mut Passing<'_>) {
        Stored::pass(self, to);
    }
}

/// A list of arguments.
#[doc(hidden)]
#[derive(Debug)]
pub struct Listed<'b>(Vec<TextArgument<'b>>);

/// A [`TextArgument`] as a command keeps it.
#[derive(Debug)]
enum KeptArgument {
    Value(Vec<u8>),
    Memory,
    Local(u64),
}

/// A list of arguments as a command keeps it.
#[doc(hidden)]
#[derive(Debug)]
pub struct KeptList(Vec<KeptArgument>);

impl<'b> TextArguments<'b> for Listed<'b> {
    type Kept = KeptList;

    fn keep(self, accesses: &mut Accesses<'b>) -> Result<KeptList> {
        use super::argument::Argument;
        let mut kept = Vec::with_capacity(self.0.len());
        for argument in self.0 {
            kept.push(match argument {
                TextArgument::Value(bytes) => KeptArgument::Value(bytes),
                TextArgument::Read(buffer) => {
                    accesses.extend(buffer.split()?.1);
                    KeptArgument::Memory
                }
                TextArgument::Write(buffer) => {
                    accesses.extend(buffer.split()?.1);
                    KeptArgument::Memory
                }
                TextArgument::Local(bytes) => KeptArgument::Local(bytes),
            });
        }
        Ok(KeptList(kept))
    }
}

impl TextKept for KeptList {
    fn places(&self) -> u64 {
        let few = self.0.iter().take(64).enumerate();
        few.fold(0, |places, (at, argument)| match argument {
            KeptArgument::Memory => places | 1 << at,
            _ => places,
        })
    }

    fn pass(&self, to: &mut Passing<'_>) {
        for argument in &self.0 {
            match argument {
                KeptArgument::Value(bytes) => to.bytes(bytes),
                KeptArgument::Memory => to.memory(1, None),
                KeptArgument::Local(bytes) => to.local(*bytes),
            }
        }
    }
}

// SAFETY: the arguments add their accesses, in order; that the text keeps to them, its author has
// promised.
unsafe impl<'b, A: TextArguments<'b>, const D: usize> Launch<'b, D> for TextCall<A> {
    type Prepared = TextCalled<A::Kept>;

    fn prepare<'c>(
        self,
        _context: &'c Context,
        accesses: &mut Accesses<'c>,
    ) -> Result<Self::Prepared>
    where
        'b: 'c,
    {
        let mut own: Accesses<'b> = Accesses::new();
        let stored = self.arguments.keep(&mut own)?;
        self.kernel.only_read(&mut own);
        accesses.extend(own.iter().copied());
        Ok(TextCalled {
            stored,
            kernel: self.kernel,
            all_threads: self.all_threads,
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

impl TextKernel {
    /// Memory that is passed to be written, and that the kernel's code only reads, is only read:
    /// launches that share it then do not wait for each other. Known once the text has been
    /// compiled for processors.
    fn only_read(&self, accesses: &mut [Access<'_>]) {
        let Some(Ok(program)) = self.program.native.get() else {
            return;
        };
        let Ok(info) = program.kernel(self.name) else {
            return;
        };
        let memories = info
            .parameters
            .iter()
            .filter_map(|parameter| match parameter.kind {
                ParameterKind::Memory(access) => Some(access),
                _ => None,
            });
        for (access, known) in accesses.iter_mut().zip(memories) {
            if access.mode == AccessMode::ReadWrite && !known.writes() {
                access.mode = AccessMode::Read;
            }
        }
    }

    /// Runs blocks of a launch here.
    ///
    /// # Safety
    /// As for [`call`](Self::call); no block runs twice.
    unsafe fn run_native(
        &self,
        passed: &Passed,
        raw: &[RawArgument],
        groups: Range<u64>,
    ) -> Result<()> {
        let failed = |error: &ClcError| {
            quipu_scheduler::Error::from(ErrorKind::Kernel {
                what: format!("kernel '{}'", self.name),
                message: error.to_string(),
            })
        };
        let program = self.program.native()?;
        let kernel = program
            .compile_for(self.name, passed)
            .map_err(|error| failed(&error))?;
        // SAFETY: as the caller promises.
        unsafe { kernel.run_passed(passed, raw, groups) }.map_err(|error| failed(&error))
    }
}

/// A [`TextCall`] as a command keeps it.
#[doc(hidden)]
#[derive(Debug)]
pub struct TextCalled<S> {
    kernel: TextKernel,
    stored: S,
    all_threads: Extents,
}

impl<S: TextKept, const D: usize> Prepared<D> for TextCalled<S> {
    fn name(&self) -> &'static str {
        self.kernel.name
    }

    fn places(&self) -> u64 {
        self.stored.places()
    }

    unsafe fn run(
        &self,
        arguments: &[RawArgument],
        division: WorkDivision<D>,
        _limits: &AcceleratorLimits,
        groups: Range<u64>,
        _scratch: &mut BlockScratch,
    ) -> Result<std::result::Result<(), KernelError>> {
        let mut passed = Passed::default();
        self.pass(&[], division, &mut passed)?;
        // SAFETY: the arguments are the launch's, and each group is run once, as `run` asks; the
        // caller of the kernel vouches for its code.
        unsafe { self.kernel.run_native(&passed, arguments, groups) }?;
        Ok(Ok(()))
    }

    fn is_native(&self) -> bool {
        quipu_clc::is_available()
    }

    fn code_type(&self) -> Option<TypeId> {
        Some(match self.kernel.program.module {
            None => TypeId::of::<KernelText>(),
            Some(_) => TypeId::of::<LinkedKernel>(),
        })
    }

    fn key(&self) -> CodeKey {
        CodeKey::of::<KernelText>(self.kernel.number)
    }

    fn code(&self) -> Result<Arc<dyn Any + Send + Sync>> {
        let Some(module) = &self.kernel.program.module else {
            return Ok(self.kernel.text.clone());
        };
        Ok(Arc::new(LinkedKernel {
            parts: Arc::new([Part::SpirV(module.bytes().into())]),
            entry: self.kernel.name.to_owned(),
        }))
    }

    fn pass(
        &self,
        arguments: &[PackedArgument<'_>],
        division: WorkDivision<D>,
        passed: &mut Passed,
    ) -> Result<()> {
        let mut passing = Passing::new(arguments, false, passed);
        self.stored.pass(&mut passing);
        passing.finish(division, |_, _| None)?;
        if self.all_threads.is_empty() {
            return Ok(());
        }
        let fill = |blocks: &[u64], threads: &[u64]| {
            let along = self.all_threads.iter().zip(threads);
            blocks.len() == self.all_threads.len()
                && along
                    .map(|(all, threads)| all.div_ceil((*threads).max(1)))
                    .eq(blocks.iter().copied())
        };
        if !fill(&passed.blocks, &passed.threads) {
            return Err(ErrorKind::InvalidArgument {
                what: "launch a kernel",
                problem: format!(
                    "{:?} threads do not fill {:?} blocks of {:?}; divide the launch into as many blocks as they need",
                    self.all_threads, passed.blocks, passed.threads
                ),
            }
            .into());
        }
        let blocks = passed.blocks.iter().zip(&passed.threads);
        if !blocks
            .map(|(blocks, threads)| blocks * threads)
            .eq(self.all_threads.iter().copied())
        {
            passed.all_threads = self.all_threads.clone();
        }
        Ok(())
    }

    fn add_parameters(&self, passed: &mut Passed) {
        self.stored.pass(&mut Passing::new(&[], false, passed));
    }
}
