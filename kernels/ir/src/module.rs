//! A kernel with everything it needs.

use crate::function::{Function, FunctionId, Name, Value};
use crate::operation::Literal;
use crate::types::{Struct, StructId, Type};

/// A kernel with everything it needs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Module {
    /// The structs, of which later ones may hold earlier ones.
    pub structs: Vec<Struct>,
    /// The device functions. No function calls itself, directly or through others.
    pub functions: Vec<Function>,
    /// The block-shared arrays.
    pub shared: Vec<SharedArray>,
    /// The constants that are in memory.
    pub constants: Vec<Constant>,
    /// The kernel.
    pub kernel: KernelInfo,
    /// The freedoms of its printed form that Rust does not give.
    pub allowances: Allowances,
}

/// The freedoms of a printed kernel that Rust does not give. None has to be used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Allowances {
    /// Floats may be computed in any way that is the same for real numbers, and NaN and infinity
    /// may be taken not to occur.
    pub fast_math: bool,
    /// Products and sums may be contracted to fused multiply-adds.
    pub contract: bool,
    /// Denormal numbers may be taken for zero.
    pub flush_to_zero: bool,
    /// Indices and ranges may be left unchecked: out of bounds, anything may happen.
    pub unchecked: bool,
}

/// The kernel of a module.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KernelInfo {
    /// Its own function.
    pub function: Function,
    /// The parameters of a launch, in order.
    pub parameters: Vec<Parameter>,
    /// Dimensions of its grid, from 1.
    pub dimensions: u8,
    /// The bounds that are promised of its launches.
    pub bounds: LaunchBounds,
}

/// The bounds that are promised of the blocks of all launches of a kernel: its compiler may count
/// on it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LaunchBounds {
    /// The threads of each block along each dimension. None if that is not promised.
    pub block_threads: Vec<u64>,
    /// The most threads of a block, in all.
    pub max_block_threads: Option<u64>,
    /// The number of blocks that a multiprocessor is to have room for at the same time: a wish.
    pub min_blocks: Option<u64>,
}

impl LaunchBounds {
    /// The most threads of a block, in all, if that is promised.
    #[must_use]
    pub fn most_threads(&self) -> Option<u64> {
        match &self.block_threads[..] {
            [] => self.max_block_threads,
            threads => Some(threads.iter().product()),
        }
    }
}

/// One parameter of a kernel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Parameter {
    /// The user's name.
    pub name: Name,
    /// Its kind, and the values of the kernel's function that it defines.
    pub kind: ParameterKind,
}

/// The kinds of parameters.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ParameterKind {
    /// A value without bits. Defines nothing, and printed kernels are passed nothing for it: it
    /// keeps the place of a launch's argument for it.
    Nothing,
    /// A number or struct, the same for all threads. Defines one value.
    Uniform(Value),
    /// Elements in global memory with gaps nowhere. Defines one value, a slice in
    /// [`Space::Global`](crate::Space).
    Buffer(Value),
    /// An array of elements in global memory in several dimensions: a slice of all places from its
    /// first element to its last, gaps included, and for each dimension its extent and its stride
    /// (how many elements neighbours are apart; 1 in the last dimension), as values of type
    /// [`Scalar::Index`](crate::Scalar).
    View {
        /// The slice.
        elements: Value,
        /// Elements along each dimension.
        extents: Vec<Value>,
        /// Places between neighbours along each dimension.
        strides: Vec<Value>,
    },
}

impl ParameterKind {
    /// The values of the kernel's function that the parameter defines, in the order of
    /// [`Function::parameters`](crate::Function::parameters).
    #[must_use]
    pub fn values(&self) -> Vec<Value> {
        match self {
            Self::Nothing => Vec::new(),
            Self::Uniform(value) | Self::Buffer(value) => vec![*value],
            Self::View {
                elements,
                extents,
                strides,
            } => [&[*elements], &extents[..], &strides[..]].concat(),
        }
    }
}

/// Number of a constant in its module.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ConstantId(pub u32);

/// An array of constants: in the device's memory for constants, where it has one. Places in it are
/// read, whole or by element; there are no slices of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Constant {
    /// The user's name.
    pub name: Name,
    /// The type: an array of scalars, or of such arrays.
    pub constant_type: Type,
    /// All scalars in it, in order. Floats are finite.
    pub values: Vec<Literal>,
}

/// Number of a block-shared array in its module.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SharedId(pub u32);

/// An array that the threads of a block share.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SharedArray {
    /// The user's name.
    pub name: Name,
    /// The type of an element.
    pub element: Type,
    /// The number of elements.
    pub length: SharedLength,
    /// The value of an element when a block begins.
    pub initial: SharedInitial,
}

/// The values of the elements of a block-shared array when a block begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SharedInitial {
    /// Zero.
    Zeros,
    /// Anything. The kernel writes each element before it reads it.
    Anything,
}

/// The length of a block-shared array.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SharedLength {
    /// Known when the kernel is built.
    Fixed(u64),
    /// Given with each launch, which computes it from arguments and work division.
    Launch,
}

impl Module {
    /// A struct.
    ///
    /// # Panics
    /// If the module has no such struct.
    #[must_use]
    pub fn structure(&self, id: StructId) -> &Struct {
        &self.structs[id.0 as usize]
    }

    /// A device function.
    ///
    /// # Panics
    /// If the module has no such function.
    #[must_use]
    pub fn function(&self, id: FunctionId) -> &Function {
        &self.functions[id.0 as usize]
    }
}
