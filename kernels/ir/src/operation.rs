//! Operations: they define a value from others.

use crate::function::{FunctionId, Value};
use crate::module::SharedId;
use crate::statement::Place;
use crate::types::{Scalar, StructId, Type};

/// A constant number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Literal {
    /// Its type.
    pub scalar: Scalar,
    /// Its bits, in the low bits: of a float as `to_bits` gives them, of a signed integer
    /// sign-extended to 64 bits.
    pub bits: u64,
}

/// The definition of a value. Operands are evaluated before; an operation has no effects but the
/// ones it names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Operation {
    /// A constant.
    Literal(Literal),
    /// One operand; the result has its type.
    Unary(UnaryOperation, Value),
    /// Two operands of one type (but for shifts, whose second is any integer). The result has their
    /// type, or is `bool` for a comparison.
    Binary(BinaryOperation, Value, Value),
    /// `as`: between numbers; from `bool`, to integers only.
    Cast(Value, Scalar),
    /// The same bits as another type of the same size: `to_bits`, `from_bits`.
    Bitcast(Value, Scalar),
    /// `condition ? first : second`, both of which are evaluated before.
    Select(Value, Value, Value),
    /// A function of the target's mathematical library.
    Math(MathFunction, Vec<Value>),
    /// The present value in a place.
    Load(Place),
    /// A slice of the elements of an array-like place: a local array, a shared array, or part of a
    /// slice. Part of it if a range is given (start and end, of type [`Scalar::Index`]); a range
    /// outside is a fault and gives no elements.
    Slice {
        /// A place whose type is an array, or that is a slice or shared array as a whole.
        place: Place,
        /// Start and end.
        range: Option<(Value, Value)>,
        /// False if the builder knows that the range is inside.
        checked: bool,
    },
    /// The number of elements of a slice: [`Scalar::Index`].
    Length(Value),
    /// The number of elements of a shared array: [`Scalar::Index`].
    SharedLength(SharedId),
    /// A struct of its fields in order.
    Struct(StructId, Vec<Value>),
    /// An array of its elements in order.
    Array(Type, Vec<Value>),
    /// An array of equal elements.
    Repeat(Value, u64),
    /// A field of a struct value, by position.
    Field(Value, u32),
    /// A call of a device function, with its effects.
    Call(FunctionId, Vec<Value>),
    /// This thread's index from an origin, in a unit, along a dimension ([`Scalar::Index`]).
    /// Dimension 0 is the slowest, as in row-major order.
    Index(Origin, Unit, u8),
    /// The number of units of an origin along a dimension ([`Scalar::Index`]).
    Extent(Origin, Unit, u8),
    /// Changes a place in one step and gives its old value; reads and writes global or shared
    /// memory, of 32 or 64 bits.
    Atomic {
        /// The operation.
        operation: AtomicOperation,
        /// An element.
        place: Place,
        /// The operand; for compare-exchange the expected value, and the new one.
        operands: Vec<Value>,
        /// The scope of the threads for which it is one step.
        scope: Scope,
    },
    /// The time of a clock, of type `u64`: it ticks in a unit of the device's own.
    Clock,
    /// A property of the target: a `bool` that is known when the module is printed. Branches that
    /// it decides are not printed.
    Property(Property),
    /// Something that the threads of a warp do together; every thread of it comes here.
    Warp(WarpOperation, Vec<Value>),
    /// The operand, a scalar, of which the user vouches that it is the same for all threads of the
    /// block that come here.
    AssumeUniform(Value),
    /// A barrier of the block, with a predicate: gives for how many threads it holds
    /// ([`Scalar::Index`]). Every thread of the block comes here. Memory accesses before it happen
    /// before those after it.
    BarrierCount(Value),
}

impl Operation {
    /// The values that it takes, but for those in a place.
    #[must_use]
    pub fn operands(&self) -> Vec<Value> {
        match self {
            Self::Literal(_)
            | Self::Clock
            | Self::Property(_)
            | Self::Load(_)
            | Self::SharedLength(_)
            | Self::Index(..)
            | Self::Extent(..) => Vec::new(),
            Self::Unary(_, value)
            | Self::Cast(value, _)
            | Self::Bitcast(value, _)
            | Self::Length(value)
            | Self::Repeat(value, _)
            | Self::Field(value, _)
            | Self::AssumeUniform(value)
            | Self::BarrierCount(value) => vec![*value],
            Self::Binary(_, first, second) => vec![*first, *second],
            Self::Select(condition, first, second) => vec![*condition, *first, *second],
            Self::Slice { range, .. } => {
                range.map_or_else(Vec::new, |(start, end)| vec![start, end])
            }
            Self::Math(_, operands)
            | Self::Struct(_, operands)
            | Self::Array(_, operands)
            | Self::Call(_, operands)
            | Self::Atomic { operands, .. }
            | Self::Warp(_, operands) => operands.clone(),
        }
    }

    /// The values that it takes, to be replaced, with those in a place.
    pub(crate) fn operands_mut(&mut self) -> Vec<&mut Value> {
        match self {
            Self::Literal(_)
            | Self::Clock
            | Self::Property(_)
            | Self::SharedLength(_)
            | Self::Index(..)
            | Self::Extent(..) => Vec::new(),
            Self::Load(place) => place.values_mut(),
            Self::Unary(_, value)
            | Self::Cast(value, _)
            | Self::Bitcast(value, _)
            | Self::Length(value)
            | Self::Repeat(value, _)
            | Self::Field(value, _)
            | Self::AssumeUniform(value)
            | Self::BarrierCount(value) => vec![value],
            Self::Binary(_, first, second) => vec![first, second],
            Self::Select(condition, first, second) => vec![condition, first, second],
            Self::Slice { place, range, .. } => {
                let mut values = place.values_mut();
                values.extend(range.iter_mut().flat_map(|(start, end)| [start, end]));
                values
            }
            Self::Atomic {
                place, operands, ..
            } => {
                let mut values = place.values_mut();
                values.extend(operands);
                values
            }
            Self::Math(_, operands)
            | Self::Struct(_, operands)
            | Self::Array(_, operands)
            | Self::Call(_, operands)
            | Self::Warp(_, operands) => operands.iter_mut().collect(),
        }
    }

    /// The place that it reads or takes a slice of.
    #[must_use]
    pub fn place(&self) -> Option<&Place> {
        match self {
            Self::Load(place) | Self::Slice { place, .. } | Self::Atomic { place, .. } => {
                Some(place)
            }
            _ => None,
        }
    }
}

/// Operations of one operand.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum UnaryOperation {
    /// `-`, of signed integers (wrapping) and floats.
    Negate,
    /// `!`: logical of `bool`, bitwise of integers.
    Not,
    /// Bits that are 1, as an integer of the same type.
    CountOnes,
    /// Leading zeros; the width for 0.
    LeadingZeros,
    /// Trailing zeros; the width for 0.
    TrailingZeros,
    /// The bits in reverse order.
    ReverseBits,
}

/// Operations of two operands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum BinaryOperation {
    /// `+`, wrapping.
    Add,
    /// `-`, wrapping.
    Subtract,
    /// `*`, wrapping.
    Multiply,
    /// `/`; of integers toward zero, where it may fault.
    Divide,
    /// `%`, with the sign of the first; of integers it may fault.
    Remainder,
    /// `&`, also of `bool`.
    And,
    /// `|`, also of `bool`.
    Or,
    /// `^`, also of `bool`.
    Xor,
    /// `<<`, by the amount modulo the width.
    ShiftLeft,
    /// `>>`, by the amount modulo the width; of signed integers with copies of the sign.
    ShiftRight,
    /// `==`; of floats false for NaN.
    Equal,
    /// `!=`; of floats true for NaN.
    NotEqual,
    /// `<`.
    Less,
    /// `<=`.
    LessEqual,
    /// `>`.
    Greater,
    /// `>=`.
    GreaterEqual,
    /// The smaller; of a number and NaN the number. Which zero of two that differ in sign is not
    /// defined.
    Minimum,
    /// The greater; of a number and NaN the number. Which zero of two that differ in sign is not
    /// defined.
    Maximum,
    /// The high half of the product of two integers of 32 or 64 bits.
    MultiplyHigh,
    /// The sum, clamped to the integer type's range.
    SaturatingAdd,
    /// The difference, clamped to the integer type's range.
    SaturatingSubtract,
    /// The bits moved to the left, those that fall out coming in again; by the amount modulo the
    /// width.
    RotateLeft,
    /// The bits moved to the right, those that fall out coming in again; by the amount modulo the
    /// width.
    RotateRight,
}

impl BinaryOperation {
    /// True if the result is a `bool` whatever the operands are.
    #[must_use]
    pub fn is_comparison(self) -> bool {
        matches!(
            self,
            Self::Equal
                | Self::NotEqual
                | Self::Less
                | Self::LessEqual
                | Self::Greater
                | Self::GreaterEqual
        )
    }

    /// True if the second operand is an amount of bits, of any integer type.
    #[must_use]
    pub fn takes_amount(self) -> bool {
        matches!(
            self,
            Self::ShiftLeft | Self::ShiftRight | Self::RotateLeft | Self::RotateRight
        )
    }
}

/// Functions of the mathematical library, over `f32` or `f64`, with Rust's names and meaning. Those
/// of the first group are exact or correctly rounded everywhere; of the others targets differ by
/// some units in the last place.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[expect(missing_docs, reason = "each is std's function of the same name")]
pub enum MathFunction {
    // Exact or correctly rounded.
    Abs,
    Ceil,
    Floor,
    Trunc,
    /// Ties away from zero.
    Round,
    /// Ties to even.
    RoundTiesEven,
    Copysign,
    Sqrt,
    /// `mul_add`: one rounding.
    Fma,
    /// The remainder of a division whose quotient is rounded to the nearest integer, ties to even:
    /// C's `remainder`.
    Remainder,
    IsNan,
    IsInfinite,
    IsFinite,
    // To some units in the last place.
    Acos,
    Acosh,
    Asin,
    Asinh,
    Atan,
    Atan2,
    Atanh,
    Cbrt,
    Cos,
    Cosh,
    Erf,
    Exp,
    Exp2,
    ExpM1,
    Hypot,
    Ln,
    Ln1p,
    Log2,
    Log10,
    Powf,
    /// One divided by the square root.
    Rsqrt,
    Sin,
    Sinh,
    Tan,
    Tanh,
}

impl MathFunction {
    /// The number of its operands.
    #[must_use]
    pub fn operands(self) -> usize {
        match self {
            Self::Fma => 3,
            Self::Atan2 | Self::Copysign | Self::Hypot | Self::Powf | Self::Remainder => 2,
            _ => 1,
        }
    }

    /// True if the result is a `bool`.
    #[must_use]
    pub fn is_predicate(self) -> bool {
        matches!(self, Self::IsNan | Self::IsInfinite | Self::IsFinite)
    }

    /// True if every target gives the same bits.
    #[must_use]
    pub fn is_exact(self) -> bool {
        matches!(
            self,
            Self::Abs
                | Self::Ceil
                | Self::Floor
                | Self::Trunc
                | Self::Round
                | Self::RoundTiesEven
                | Self::Copysign
                | Self::Sqrt
                | Self::Fma
                | Self::Remainder
                | Self::IsNan
                | Self::IsInfinite
                | Self::IsFinite
        )
    }
}

/// The origin of an index or extent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Origin {
    /// The whole grid.
    Grid,
    /// The thread's block.
    Block,
    /// The thread.
    Thread,
}

/// The unit of an index or extent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Unit {
    /// Blocks; of a grid only.
    Blocks,
    /// Threads; of a grid or block.
    Threads,
    /// Elements. An index is that of the thread's first.
    Elements,
}

/// The effect of an atomic operation on the old value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum AtomicOperation {
    /// Adds; integers wrap; `f32` and `f64` too.
    Add,
    /// Subtracts; integers wrap.
    Subtract,
    /// The smaller.
    Minimum,
    /// The greater.
    Maximum,
    /// Replaces.
    Exchange,
    /// Bitwise and.
    And,
    /// Bitwise or.
    Or,
    /// Bitwise exclusive or.
    Xor,
    /// Replaces if it is as expected.
    CompareExchange,
    /// Adds one, or starts again at zero from the operand on. `u32` only.
    Increment,
    /// Subtracts one; from zero, or from above the operand, to the operand. `u32` only.
    Decrement,
    /// Leaves it, and has no operand. Unlike a plain load it is done each time it is come to: in a
    /// loop that waits for another thread, too.
    Load,
    /// Replaces, and gives nothing.
    Store,
}

/// For which threads something holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Scope {
    /// The threads of the block.
    Block,
    /// The threads of the device.
    Device,
    /// All, of the host and other devices too.
    System,
}

/// The accesses that a fence orders.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum FenceOrder {
    /// The thread's reads before it come before all of its accesses after it.
    Acquire,
    /// All of the thread's accesses before it come before its writes after it.
    Release,
    /// Both, and all such fences have one order.
    SequentiallyConsistent,
}

/// A property of a target.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Property {
    /// Its threads run side by side, and have elements that are apart: [`ElementOrder::Strided`](
    /// crate::print::ElementOrder::Strided).
    Gpu,
    /// `f64`.
    Doubles,
    /// [`Operation::Clock`].
    Clock,
    /// Atomics and fences of [`Scope::System`].
    SystemScope,
    /// Fences of [`Scope::Device`].
    DeviceFence,
    /// [`Statement::GridBarrier`](crate::Statement::GridBarrier).
    GridBarrier,
}

/// A joint operation of the threads of a warp.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum WarpOperation {
    /// The number of threads of a warp: `u32`.
    Size,
    /// This thread's number in its warp: `u32`.
    Lane,
    /// A bit for each active lane: `u64`.
    ActiveMask,
    /// True if the operand is true in all active lanes.
    All,
    /// True if it is true in any.
    Any,
    /// A bit for each active lane in which the operand is true: `u64`.
    Ballot,
    /// The first operand's value in the lane that the second (`u32`) names, modulo the warp's size.
    Shuffle,
    /// From the lane so many below; its own where there is none.
    ShuffleUp,
    /// From the lane so many above; its own where there is none.
    ShuffleDown,
    /// From the lane whose number differs in these bits; its own where there is none.
    ShuffleXor,
}

impl WarpOperation {
    /// The type of its result; `None` for that of its first operand.
    #[must_use]
    pub fn result(self) -> Option<Scalar> {
        match self {
            Self::Size | Self::Lane => Some(Scalar::U32),
            Self::ActiveMask | Self::Ballot => Some(Scalar::U64),
            Self::All | Self::Any => Some(Scalar::Bool),
            Self::Shuffle | Self::ShuffleUp | Self::ShuffleDown | Self::ShuffleXor => None,
        }
    }

    /// The number of its operands.
    #[must_use]
    pub fn operands(self) -> usize {
        match self {
            Self::Size | Self::Lane | Self::ActiveMask => 0,
            Self::All | Self::Any | Self::Ballot => 1,
            Self::Shuffle | Self::ShuffleUp | Self::ShuffleDown | Self::ShuffleXor => 2,
        }
    }
}
