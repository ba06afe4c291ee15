//! Launches that bring their code along, for devices that do not run native code.
//!
//! A launch is the same in whichever form its kernel is: it has native code, or code that a driver
//! compiles for its device, or both. The core knows no languages. The code is a value of a type on
//! which its maker and a driver have agreed ([`PortableKernel::code_type`],
//! [`Driver::takes_code`]), and its parameters are data ([`Passed`]).
//!
//! [`Driver::takes_code`]: crate::Driver::takes_code

use crate::access::Argument;
use crate::error::Result;
use smallvec::SmallVec;
use std::any::{Any, TypeId};
use std::mem::MaybeUninit;
use std::sync::Arc;

/// Names a kernel's code within the process: two launches of the same name have
/// the same code, which a driver so compiles once.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct CodeKey {
    of: TypeId,
    number: u64,
}

impl CodeKey {
    /// The name that is `number` among those of a type.
    #[must_use]
    pub fn of<T: ?Sized + 'static>(number: u64) -> Self {
        Self {
            of: TypeId::of::<T>(),
            number,
        }
    }

    /// The name of another form of the same code. There are 256 forms, and the first is this one.
    #[must_use]
    pub fn form(self, form: u8) -> Self {
        Self {
            number: self.number ^ u64::from(form) << 56,
            ..self
        }
    }
}

/// A launch's kernel as code for a driver to compile, and its parameters.
///
/// Drivers believe it, so to implement it is `unsafe`:
///
/// ```compile_fail,E0200
/// use quipu_scheduler::access::Argument;
/// use quipu_scheduler::{CodeKey, Passed, PortableKernel, Result};
/// # use std::any::{Any, TypeId};
/// # use std::sync::Arc;
/// struct Forged;
///
/// impl PortableKernel for Forged {
///     fn key(&self) -> CodeKey {
///         CodeKey::of::<Self>(0)
///     }
///     fn code_type(&self) -> TypeId {
///         TypeId::of::<()>()
///     }
///     fn code(&self) -> Result<Arc<dyn Any + Send + Sync>> {
///         Ok(Arc::new(()))
///     }
///     fn pass(&self, _: &[Argument<'_>], _: &mut Passed) -> Result<()> {
///         Ok(())
///     }
/// }
/// ```
///
/// # Safety
/// A driver compiles the [code](Self::code) and runs it with the result of [`pass`](Self::pass) for
/// a launch's arguments, for any launch that gives it as its kernel's code:
///
/// * The code then touches no memory but the bytes of these arguments, each in its mode, and memory
///   that the launch's maker answers for. Or `pass` refuses the arguments.
/// * The result of `pass` fits the code: a parameter for each of the code's, of its kind and size.
/// * Kernels with the same [key](Self::key) have the same code.
pub unsafe trait PortableKernel: Send + Sync {
    /// The code's name. An enqueue asks for it too, with the command's memory locked: it has to be
    /// at hand, and nothing that uses this crate may be called for it.
    fn key(&self) -> CodeKey;

    /// The type of the result of [`code`](Self::code). As for [`key`](Self::key).
    fn code_type(&self) -> TypeId;

    /// The code.
    ///
    /// # Errors
    /// Names the part of the kernel that cannot be written down.
    fn code(&self) -> Result<Arc<dyn Any + Send + Sync>>;

    /// Called by a driver that is to compile the code, on the thread that does: it does so within
    /// `compile`, once, and asks for the code there. So the maker of the launch may know of the
    /// compilation, and its duration.
    fn while_compiling(&self, compile: &mut dyn FnMut()) {
        compile();
    }

    /// Adds the launch's parameters to `passed`, which is empty; `arguments` are the command's
    /// accesses, in order. (It is not returned because it is large, and would be moved from hand to
    /// hand by each launch.)
    ///
    /// # Errors
    /// If it cannot be passed.
    fn pass(&self, arguments: &[Argument<'_>], passed: &mut Passed) -> Result<()>;
}

/// The optional features of a device's own compiler for kernels that are texts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TextFeatures {
    /// Floating point of 64 bits.
    pub doubles: bool,
    /// Arithmetic of 16 bits.
    pub halves: bool,
    /// Atomics of 64 bits.
    pub wide_atomics: bool,
    /// The features that OpenCL C 3.0 leaves optional beside images and numbers: generic pointers,
    /// sub-groups, collective functions of work-groups, and atomics in all orders and scopes.
    pub optional_language: bool,
    /// Launches whose last block along a dimension has fewer threads than the others.
    pub non_uniform_blocks: bool,
    /// Floating point of 32 bits with numbers that are denormal.
    pub denormals: bool,
    /// Fused multiply-add of 32 bits, as fast as a product and a sum.
    pub fused_multiply_add: bool,
    /// Bytes of constant memory that a parameter may have, if the device says it.
    pub constant_bytes: Option<u64>,
    /// The number of the device's vendor at PCI's registry, if the device says it.
    pub vendor_number: Option<u32>,
    /// The number of bytes that the start of a part of a buffer is a multiple of where a parameter
    /// is that part, if the device says it.
    pub part_alignment: Option<u64>,
    /// Bits of an address in the device's memory, if the device says it.
    pub address_bits: Option<u32>,
    /// The cache of the device's memory, if the device says that there is one.
    pub cache: Option<MemoryCache>,
    /// True if the device says that its memory corrects errors.
    pub corrects_errors: bool,
    /// All that Quipu's own compiler for processors has of OpenCL C beyond the optional language:
    /// sub-groups that vote, shuffle, reduce and scan, single bits, products of small numbers, and
    /// atomics of floating point.
    pub extended_language: bool,
    /// Bytes of all arguments of a kernel together, if the device says it.
    pub argument_bytes: Option<u64>,
    /// The number by which every library of the vendor's names the device, if the device says it.
    pub uuid: Option<[u8; 16]>,
}

/// A cache of a device's memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemoryCache {
    /// Its bytes.
    pub bytes: u64,
    /// Bytes of a line.
    pub line: u32,
    /// True if it takes writes, too.
    pub takes_writes: bool,
}

/// The limits of a kernel on a device, as it was compiled for it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct KernelAttributes {
    /// The most threads that a block of it can have.
    pub max_block_threads: u64,
    /// The number of threads of a block that suits the device, or a number that it should be a
    /// multiple of, if the device says.
    pub preferred_block_threads: Option<u64>,
    /// Threads of such blocks that a multiprocessor has room for at once, if the device says.
    pub resident_threads: Option<u64>,
    /// Registers of a thread, if known.
    pub registers: Option<u64>,
    /// Bytes of memory of a thread's own: for values that its registers do not hold.
    pub private_bytes: Option<u64>,
    /// Bytes that a block shares, without those whose number a launch says.
    pub shared_bytes: Option<u64>,
}

impl KernelAttributes {
    /// The attributes of a kernel of which only this is known.
    #[must_use]
    pub fn new(max_block_threads: u64) -> Self {
        Self {
            max_block_threads,
            ..Self::default()
        }
    }
}

/// Extents along each dimension.
pub type Extents = SmallVec<[u64; 3]>;

/// The grid and the parameters that a launch passes to a kernel.
#[derive(Clone, Debug, Default)]
pub struct Passed {
    /// Blocks of the grid.
    pub blocks: Extents,
    /// Threads of a block.
    pub threads: Extents,
    /// Elements of a thread.
    pub elements: Extents,
    /// The position of the first thread; empty if that is zero along each dimension. Only kernels
    /// that are texts have another.
    pub offset: Extents,
    /// Threads of the grid, where the last block along a dimension has fewer than the others; empty
    /// if all blocks have as many. Only kernels that are texts have such blocks, on devices [with
    /// them](TextFeatures::non_uniform_blocks).
    pub all_threads: Extents,
    /// For each parameter, in order.
    pub parameters: SmallVec<[PassedParameter; 6]>,
    /// The largest number among those values that are a `usize` or an `isize` alone, which code is
    /// passed in as many bytes as its indices have. A negative number counts as the one that as
    /// many bits are needed for: `!number`.
    pub largest_size: u64,
    /// The number of elements of each array that the threads of a block share.
    pub shared: SmallVec<[u64; 2]>,
    /// True if the device chooses how to divide the work, and no other parameter depends on it. So
    /// a driver that knows the compiled kernel may divide the same positions into other blocks.
    pub automatic: bool,
}

/// The value of a parameter.
#[derive(Clone, Debug)]
pub enum PassedParameter {
    /// The bytes of a value, as Rust lays it out: bytes between the fields of a struct are not
    /// initialised.
    Value(SmallVec<[MaybeUninit<u8>; 16]>),
    /// The next of the command's accesses.
    Memory {
        /// Bytes of an element.
        element: u64,
        /// Elements, and the distance of neighbours, along each dimension; in one without gaps,
        /// empty.
        shape: Option<Box<(Extents, Extents)>>,
    },
    /// Bytes of memory of each block's own, for a kernel that is a text.
    Local(u64),
}

impl PassedParameter {
    /// A value.
    #[must_use]
    pub fn value<T: Copy>(value: &T) -> Self {
        let bytes = std::ptr::from_ref(value).cast::<MaybeUninit<u8>>();
        // SAFETY: the value's own bytes, which need not be initialised.
        let bytes = unsafe { std::slice::from_raw_parts(bytes, size_of::<T>()) };
        Self::Value(SmallVec::from_slice(bytes))
    }
}
