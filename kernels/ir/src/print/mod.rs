//! Printers: a module as source in C99, OpenCL C or CUDA C.
//!
//! # The way of a kernel
//!
//! 1. `#[kernel]` emits a function that, when called, builds a [`Module`](crate::Module); by hand,
//!    a [`FunctionBuilder`](crate::FunctionBuilder) does.
//! 2. [`Module::print`](crate::Module::print) verifies it, and has a [`Printer`] decide the values
//!    that depend on the target ([`Target`]), and write it down. An operation that a language
//!    cannot express is a [`PrintError`] that names it.
//! 3. A driver hands [`Printed::source`] to its compiler, with [`Printed::compiler_options`], and
//!    launches [`Printed::entry`].
//!
//! The printers of this crate ([`Dialect`]) share everything that the C dialects share: statements
//! (`function`), operations (`operation`, `arithmetic`), places, names, the folding of values into
//! expressions. A dialect is a file with the same parts in each (`c99`, `opencl`, `cuda`): names of
//! types, atomics, warps, barriers, mathematics, and the entry function. The same module and
//! options give the same text, always.
//!
//! # How a printed kernel is launched
//!
//! **Parameters.** [`Printed::parameters`] lists the entry function's parameters, in order, with
//! sizes:
//!
//! | for each | is passed |
//! |---|---|
//! | uniform parameter | its bytes |
//! | buffer | pointer, (OpenCL C: start,) length |
//! | view | pointer, (OpenCL C: start,) length, extents, strides |
//! | shared array of a launch's length | (OpenCL C: local memory; CUDA C: offset,) length |
//! | launch | the work division |
//! | launch | the fault record, if there is anything to record |
//!
//! A pointer to an empty buffer is passed as any valid pointer (or null, where the interface
//! allows).
//!
//! **Index width.** 32 bits are for launches in which all of these are below 2^31, so that no sum
//! of two of them wraps: each number that is passed (lengths, extents, strides times extents); the
//! grid's elements (blocks times threads times elements) along each dimension; the product of these
//! over all dimensions. The same kernel printed with 64 bits takes all other launches.
//!
//! **Grid.** The last dimension, along which neighbours lie side by side in memory, is the
//! hardware's first (`x`); the last but one is its second (`y`); all that come before are its third
//! (`z`), the first of them the slowest. So in up to three dimensions nothing is divided. A block
//! has exactly the threads of the work division. A work division without blocks is not launched.
//! Hardware has limits on the number of blocks along an axis:
//!
//! * CUDA C: grid and block dimensions as said; dynamic shared memory of
//!   [`Printed::dynamic_shared`] bytes. The kernel loops over blocks: a grid of at least one and at
//!   most as many blocks as the division has, along each axis, does all the work; along `x` with
//!   indices of 32 bits, of which the hardware has as many, it has to be as many.
//! * OpenCL C: global size = blocks × block's threads along each axis, local size = block's
//!   threads. A grid that is too large is launched in pieces, each with the global work offset
//!   (first block × block's threads) of its first block. (There are no loops over blocks here, as
//!   compilers for CPUs make work-item loops out of a kernel, and those with barriers inside of
//!   other loops are where they go wrong.)
//! * C99: the entry is `int32_t entry(void *const *arguments)`, where `arguments[i]` points to the
//!   bytes of parameter `i` (as for `cuLaunchKernel`). It runs the whole grid, one block after the
//!   other, and returns 0, or 1 if there is not enough memory. Blocks with barriers run their
//!   threads as coroutines (`ucontext`): a thread runs up to a barrier, then the next. Compiled
//!   with anything that takes GNU C99, on a POSIX system.
//!
//! **Faults.** The record is [`FAULT_WORDS`] zeros before a launch. The first fault claims its
//! first word with an atomic compare-exchange and fills in the rest; after the launch
//! [`Printed::fault`] decodes it. In CUDA C a fence follows, so that a host that learns of the
//! launch's end from a later command sees the record. Without checks ([`Options::checked`])
//! accesses out of bounds are undefined behaviour, a division by zero still gives zero, and
//! assertions still record.
//!
//! # What is printed
//!
//! The user's names are kept, made legal and unique ([`Name`](crate::Name)s that are a target's
//! words get a number). A value without a name that is used once becomes part of the expression
//! that uses it, where nothing between the two can change its value; then it has the parentheses
//! that it needs and no more. Runtime functions begin with `quipu_`, and only those that are called
//! are there. `#line` directives lead debuggers and compilers' errors to the user's source.
//!
//! Signed arithmetic is done in unsigned types and cast back, as overflow is undefined in C.
//! Behaviour that C leaves to the implementation, and that is the same on every target, is taken
//! for granted: casts to a narrower integer drop bits, `>>` of a signed integer copies the sign,
//! floats are IEEE 754's, the implicit promotion of 8 and 16 bit integers is to 32 bits.

mod arithmetic;
mod c99;
mod cuda;
mod dialect;
mod entry;
mod expression;
mod facts;
mod function;
mod half;
mod helpers;
mod module;
mod names;
mod opencl;
mod operation;
mod place;
mod printer;
mod protocol;
mod target;
mod text;
mod width;

use crate::function::Location;
use crate::operation::WarpOperation;
use crate::verify::VerifyError;

pub use printer::Printer;
pub use protocol::{
    EntryKind, EntryParameter, FAULT_WORDS, Fault, FaultKind, GRID_BARRIER_WORDS, Printed,
    SharedMemory, Site,
};
pub use target::Target;

/// A language that kernels are printed in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dialect {
    /// C99 with GNU builtins, for any processor: for tests, and for machines without a better
    /// compiler.
    C99,
    /// OpenCL C 1.2 and up.
    OpenCl(OpenClFeatures),
    /// CUDA C for NVRTC (or nvcc), compute capability 7.0 and up.
    Cuda,
}

/// The features of an OpenCL device beyond OpenCL C 1.2, and the code that its compiler can handle.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OpenClFeatures {
    /// `cl_khr_fp64`: `f64`.
    pub doubles: bool,
    /// `cl_khr_int64_base_atomics` and `cl_khr_int64_extended_atomics`: atomics of 64 bits.
    pub wide_atomics: bool,
    /// `cl_khr_subgroups`: size, lane, all, any.
    pub subgroups: bool,
    /// `cl_khr_subgroup_ballot`: ballot, active mask.
    pub subgroup_ballot: bool,
    /// `cl_khr_subgroup_shuffle` and `cl_khr_subgroup_shuffle_relative`: shuffles.
    pub subgroup_shuffle: bool,
    /// OpenCL C 2.0, or of 3.0 the features `__opencl_c_atomic_order_seq_cst` and
    /// `__opencl_c_atomic_scope_device`: fences for the threads of other blocks.
    pub device_fence: bool,
    /// NVIDIA's compiler, which takes PTX: with it sub-groups are its warps, and fences are for the
    /// device.
    pub ptx: bool,
    /// OpenCL 3.0: kernels that need more than OpenCL C 1.2 are OpenCL C 3.0, for a device may lack
    /// 2.0 then.
    pub version_3: bool,
    /// A kernel with barriers may have loops that are written twice, to spare one of them its
    /// checks. The compiler of PoCL 4 and 5 ends the process over some of those.
    pub repeats_beside_barriers: bool,
}

impl OpenClFeatures {
    /// True if the device has this for its sub-groups. A kernel that asks for something that it has
    /// not is printed for warps of one thread.
    #[must_use]
    pub fn offers(self, operation: WarpOperation) -> bool {
        use WarpOperation as W;
        let subgroups = match operation {
            W::Size | W::Lane | W::All | W::Any => self.subgroups,
            W::ActiveMask | W::Ballot => self.subgroup_ballot,
            W::Shuffle | W::ShuffleUp | W::ShuffleDown | W::ShuffleXor => self.subgroup_shuffle,
        };
        self.ptx || subgroups
    }

    /// True if the device orders the memory accesses of different blocks by a fence. A kernel that
    /// comes to one where it does not is refused.
    #[must_use]
    pub fn fences_device(self) -> bool {
        self.ptx || self.device_fence
    }

    /// The usual features, with the code that the compiler of a platform of this name and version
    /// can handle.
    #[must_use]
    pub fn usual_on(platform: &str) -> Self {
        Self {
            repeats_beside_barriers: !matches!(Self::major_of_pocl(platform), Some(4 | 5)),
            ..Self::USUAL
        }
    }

    /// The same of a device of this version, with its own report of its atomic fences
    /// (`CL_DEVICE_ATOMIC_FENCE_CAPABILITIES`; nothing before OpenCL 3.0).
    #[must_use]
    pub fn with_fences(self, device_version: &str, capabilities: u64) -> Self {
        const SEQUENTIALLY_CONSISTENT: u64 = 1 << 2;
        const FOR_THE_DEVICE: u64 = 1 << 5;
        let needed = SEQUENTIALLY_CONSISTENT | FOR_THE_DEVICE;
        let version_3 = device_version.starts_with("OpenCL 3.");
        Self {
            device_fence: device_version.starts_with("OpenCL 2.")
                || version_3 && capabilities & needed == needed,
            // "OpenCL 3.0 CUDA"; another's implementation on such a device says its own name.
            ptx: device_version.ends_with(" CUDA"),
            version_3,
            ..self
        }
    }

    /// PoCL's version, of a platform's name and version.
    #[must_use]
    pub fn major_of_pocl(platform: &str) -> Option<u32> {
        let platform = platform.to_ascii_lowercase();
        let (_, version) = platform.split_once(" pocl ")?;
        version.split('.').next()?.parse().ok()
    }

    /// OpenCL C 1.2 with `f64` and 64-bit atomics, without sub-groups; of 2.0 the fences for the
    /// device.
    pub const USUAL: Self = Self {
        doubles: true,
        wide_atomics: true,
        subgroups: false,
        subgroup_ballot: false,
        subgroup_shuffle: false,
        device_fence: true,
        ptx: false,
        version_3: false,
        repeats_beside_barriers: true,
    };
}

/// The width of `usize` in a printed kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum IndexWidth {
    /// For launches all of whose extents are below 2^31.
    Bits32,
    /// For all others.
    Bits64,
}

impl IndexWidth {
    /// Bytes of an index.
    #[must_use]
    pub fn bytes(self) -> u64 {
        match self {
            Self::Bits32 => 4,
            Self::Bits64 => 8,
        }
    }
}

/// The order in which a thread goes through its elements.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ElementOrder {
    /// Neighbours, as CPUs like it.
    Contiguous,
    /// As many apart as the grid has threads, as GPUs like it.
    Strided,
}

/// The options of printing a module. Its [allowances](crate::Allowances) are added to them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options {
    /// The width of `usize`, at least: 64 bits where a constant of the module takes them, or a
    /// number that it computes may.
    pub index_width: IndexWidth,
    /// Only constants widen indices. For tests of arithmetic in 32 bits: other programs get the
    /// native results without it.
    pub keeps_width: bool,
    /// Indices and ranges are checked, and faults recorded. Without, an index out of bounds is
    /// undefined behaviour.
    pub checked: bool,
    /// Floats may be computed in any way that is the same for real numbers, and NaN and infinity
    /// may be taken not to occur.
    pub fast_math: bool,
    /// Products and sums may be contracted to fused multiply-adds.
    pub contract: bool,
    /// Denormal numbers may be taken for zero.
    pub flush_to_zero: bool,
    /// `#line` directives lead to the user's source.
    pub line_directives: bool,
    /// The order of elements.
    pub elements: ElementOrder,
}

impl Options {
    /// Rust's meaning, checked, with the order of elements that suits the printer's language:
    /// contiguous in C99, strided in OpenCL C and CUDA C.
    #[must_use]
    pub fn new(printer: impl Printer, index_width: IndexWidth) -> Self {
        Self {
            index_width,
            keeps_width: false,
            checked: true,
            fast_math: false,
            contract: false,
            flush_to_zero: false,
            line_directives: true,
            elements: printer.elements(),
        }
    }
}

/// The reason for which a module is not printed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PrintError {
    /// The module is not valid.
    #[error(transparent)]
    Invalid(#[from] VerifyError),
    /// The language, or the device's features of it, cannot express an operation.
    #[error(
        "{language} cannot do {what}{}, which the kernel `{kernel}` asks for",
        at(location)
    )]
    Unsupported {
        /// The language, as people call it.
        language: &'static str,
        /// The operation, and the feature that would make it possible.
        what: String,
        /// The kernel.
        kernel: String,
        /// Its place in the user's source.
        location: Option<Location>,
    },
}

fn at(location: &Option<Location>) -> String {
    location.map_or_else(String::new, |Location { file, line }| {
        format!(" ({file}:{line})")
    })
}
