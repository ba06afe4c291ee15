//! Types of values and of memory.

/// A number, or a truth value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Scalar {
    /// `bool`: one byte, 0 or 1, in memory.
    Bool,
    /// `i8`.
    I8,
    /// `i16`.
    I16,
    /// `i32`.
    I32,
    /// `i64`.
    I64,
    /// `u8`.
    U8,
    /// `u16`.
    U16,
    /// `u32`.
    U32,
    /// `u64`.
    U64,
    /// `usize`: of the launch's index width. Not a type of memory.
    Index,
    /// `isize`: of the launch's index width. Not a type of memory.
    SignedIndex,
    /// `half::f16`: a sign, 5 bits of exponent, 10 of digits.
    ///
    /// Of both floats of 16 bits there are conversions from and to `f32` alone, and operations on
    /// bits; [`FunctionBuilder`](crate::FunctionBuilder) writes other operations with these.
    F16,
    /// `half::bf16`: the upper half of an `f32`.
    Bf16,
    /// `f32`.
    F32,
    /// `f64`.
    F64,
}

impl Scalar {
    /// True for floats.
    #[must_use]
    pub fn is_float(self) -> bool {
        matches!(self, Self::F16 | Self::Bf16 | Self::F32 | Self::F64)
    }

    /// True for the floats of 16 bits.
    #[must_use]
    pub fn is_half(self) -> bool {
        matches!(self, Self::F16 | Self::Bf16)
    }

    /// True for integers, indices included.
    #[must_use]
    pub fn is_integer(self) -> bool {
        !self.is_float() && self != Self::Bool
    }

    /// True for signed integers and floats.
    #[must_use]
    pub fn is_signed(self) -> bool {
        matches!(
            self,
            Self::I8
                | Self::I16
                | Self::I32
                | Self::I64
                | Self::SignedIndex
                | Self::F16
                | Self::Bf16
                | Self::F32
                | Self::F64
        )
    }

    /// Bytes in memory; `None` for indices, whose width a launch decides.
    #[must_use]
    pub fn size(self) -> Option<u32> {
        match self {
            Self::Bool | Self::I8 | Self::U8 => Some(1),
            Self::I16 | Self::U16 | Self::F16 | Self::Bf16 => Some(2),
            Self::I32 | Self::U32 | Self::F32 => Some(4),
            Self::I64 | Self::U64 | Self::F64 => Some(8),
            Self::Index | Self::SignedIndex => None,
        }
    }

    /// Rust's name of the type.
    #[must_use]
    pub fn rust_name(self) -> &'static str {
        match self {
            Self::Bool => "bool",
            Self::I8 => "i8",
            Self::I16 => "i16",
            Self::I32 => "i32",
            Self::I64 => "i64",
            Self::U8 => "u8",
            Self::U16 => "u16",
            Self::U32 => "u32",
            Self::U64 => "u64",
            Self::Index => "usize",
            Self::SignedIndex => "isize",
            Self::F16 => "f16",
            Self::Bf16 => "bf16",
            Self::F32 => "f32",
            Self::F64 => "f64",
        }
    }
}

/// Number of a struct in its module.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct StructId(pub u32);

/// A type.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Type {
    /// No value: the result of a function without one.
    Unit,
    /// A number.
    Scalar(Scalar),
    /// A struct or tuple of the module.
    Struct(StructId),
    /// So many elements, by value. At least one.
    Array(Box<Type>, u64),
    /// A pointer to elements in some memory together with their number: `&[T]` and views. Not a
    /// type of memory: there are slices in variables, parameters and arguments of functions only.
    Slice {
        /// The type of an element.
        element: Box<Type>,
        /// The address space.
        space: Space,
        /// True if they may be written through it.
        mutable: bool,
    },
}

impl Type {
    /// The scalar, if it is one.
    #[must_use]
    pub fn scalar(&self) -> Option<Scalar> {
        match self {
            Self::Scalar(scalar) => Some(*scalar),
            _ => None,
        }
    }
}

impl From<Scalar> for Type {
    fn from(scalar: Scalar) -> Self {
        Self::Scalar(scalar)
    }
}

/// The memory that a slice points into.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Space {
    /// The device's.
    Global,
    /// The block's.
    Shared,
    /// The thread's own: a local array.
    Private,
}

/// The largest alignment that a struct can ask for, in bytes: all memory that kernels are given
/// begins at a multiple of it, and devices read no more at once.
pub const MOST_ALIGNMENT: u64 = 16;

/// A struct: fields in order, laid out as C does (`repr(C)`), which a derive checks for structs in
/// buffers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Struct {
    /// The user's name; made unique and legal by printers.
    pub name: String,
    /// At least one.
    pub fields: Vec<Field>,
    /// The least alignment, in bytes, a power of two up to [`MOST_ALIGNMENT`]: that of
    /// `repr(align(…))`, or 1.
    pub alignment: u64,
}

/// A field of a struct.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Field {
    /// The user's name; a number for a tuple's.
    pub name: String,
    /// Its type: not a slice.
    pub field_type: Type,
}
