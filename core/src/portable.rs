//! Launches that bring their code along, for devices that do not run native code.
//!
//! A launch does not care in which form a kernel is: it has native code, or code
//! that a driver compiles for its device, or both. The core knows no languages:
//! the code is a value of a type that whoever makes it and a driver have agreed
//! on ([`PortableKernel::code_type`], [`Driver::takes_code`]), and what is passed
//! to it is data ([`Passed`]).
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

    /// The name of another form of the same code, of 256 in all, of which the first is this one.
    #[must_use]
    pub fn form(self, form: u8) -> Self {
        Self {
            number: self.number ^ u64::from(form) << 56,
            ..self
        }
    }
}

/// A launch's kernel as code for a driver to compile, and what is passed to it.
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
/// A driver compiles the [code](Self::code) and runs it with what [`pass`](Self::pass) gives for a launch's arguments, whatever launch
/// gives it as its kernel's code:
///
/// * The code then touches no memory but the bytes of these arguments, each in its mode, and what the launch's maker
///   answers for. Or `pass` refuses the arguments.
/// * What `pass` gives fits the code: a parameter for each of the code's, of its kind and size.
/// * Whatever has the same [key](Self::key) has the same code.
pub unsafe trait PortableKernel: Send + Sync {
    /// The code's name. Asked for also by an enqueue, with what the command uses locked: it has to be at hand, and nothing that
    /// uses this crate may be called for it.
    fn key(&self) -> CodeKey;

    /// The type of what [`code`](Self::code) gives. As for [`key`](Self::key).
    fn code_type(&self) -> TypeId;

    /// The code.
    ///
    /// # Errors
    /// Says what of the kernel cannot be written down.
    fn code(&self) -> Result<Arc<dyn Any + Send + Sync>>;

    /// Called by a driver that is to compile the code, on the thread that does: it does so within `compile`, once, and asks
    /// for the code there. Whoever made the launch may so know what is being compiled, and for how long.
    fn while_compiling(&self, compile: &mut dyn FnMut()) {
        compile();
    }

    /// Adds what the launch passes to `passed`, which is empty; `arguments` are the command's accesses, in order.
    /// (It is not returned because it is large, and would be moved from hand to hand by each launch.)
    ///
    /// # Errors
    /// If it cannot be passed.
    fn pass(&self, arguments: &[Argument<'_>], passed: &mut Passed) -> Result<()>;
}

/// What a device's own compiler takes of kernels that are texts, beyond what each takes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TextFeatures {
    /// Floating point of 64 bits.
    pub doubles: bool,
    /// Atomics of 64 bits.
    pub wide_atomics: bool,
    /// What OpenCL C 3.0 leaves optional beside images and numbers: generic pointers, sub-groups, collective functions of
    /// work-groups, and atomics in all orders and scopes.
    pub optional_language: bool,
    /// The number of the device's vendor at PCI's registry, if the device says it.
    pub vendor_number: Option<u32>,
}

/// What a kernel is on a device, as it was compiled for it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct KernelAttributes {
    /// The most threads that a block of it can have.
    pub max_block_threads: u64,
    /// Threads of a block that suit the device, or of which there best is a multiple, if it says.
    pub preferred_block_threads: Option<u64>,
    /// Threads of such blocks that a multiprocessor has room for at once, if the device says.
    pub resident_threads: Option<u64>,
    /// Registers of a thread, if known.
    pub registers: Option<u64>,
    /// Bytes of memory of a thread's own: what its registers do not hold.
    pub private_bytes: Option<u64>,
    /// Bytes that a block shares, without those whose number a launch says.
    pub shared_bytes: Option<u64>,
}

impl KernelAttributes {
    /// Those of a kernel of which only this is known.
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

/// What a launch passes to a kernel.
#[derive(Clone, Debug, Default)]
pub struct Passed {
    /// Blocks of the grid.
    pub blocks: Extents,
    /// Threads of a block.
    pub threads: Extents,
    /// Elements of a thread.
    pub elements: Extents,
    /// The position of the first thread; empty if that is zero along each dimension. Only kernels that are texts have another.
    pub offset: Extents,
    /// For each parameter, in order.
    pub parameters: SmallVec<[PassedParameter; 6]>,
    /// The largest number among those values that are a `usize` or an `isize` alone, which code is passed in as many bytes
    /// as its indices have. A negative number counts as the one that as many bits are needed for: `!number`.
    pub largest_size: u64,
    /// How many elements each array has that the threads of a block share.
    pub shared: SmallVec<[u64; 2]>,
    /// True if how the work is divided was left to the device, and nothing else that is passed depends on it: so who
    /// knows the kernel as it was compiled may divide the same positions into other blocks.
    pub automatic: bool,
}

/// What is passed for a parameter.
#[derive(Clone, Debug)]
pub enum PassedParameter {
    /// The bytes of a value, as Rust lays it out: what is between the fields of a
    /// struct is not initialised.
    Value(SmallVec<[MaybeUninit<u8>; 16]>),
    /// The next of the command's accesses.
    Memory {
        /// Bytes of an element.
        element: u64,
        /// Elements, and how many neighbours are apart, along each dimension; in
        /// one without gaps, empty.
        shape: Option<Box<(Extents, Extents)>>,
    },
    /// So many bytes of memory of each block's own, for a kernel that is a text.
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
