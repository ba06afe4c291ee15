//! Methods of numbers that are made of several operations, each as std makes it: with the same
//! results.

use std::panic::Location;

use quipu_kernel_ir::{
    BinaryOperation as Binary, MathFunction as Math, Scalar, UnaryOperation as Unary, Value,
};

use super::data::KernelValue;
use super::expression::{Expr, Subject, assert_value};
use super::number::{constant, of_value};
use super::state::{self, Raw, State};
use crate::number::{bf16, f16};

fn binary(s: &mut State, operation: Binary, left: Value, right: Value) -> Value {
    s.frame().function.binary(operation, left, right)
}

/// The remainder that is not negative.
pub(super) fn euclidean_remainder(s: &mut State, a: Value, b: Value, scalar: Scalar) -> Value {
    let remainder = binary(s, Binary::Remainder, a, b);
    if !scalar.is_float() && !scalar.is_signed() {
        return remainder;
    }
    let zero = constant(s, scalar, 0.0);
    let is_negative = binary(s, Binary::Less, remainder, zero);
    let divisor = absolute(s, b, scalar);
    let corrected = binary(s, Binary::Add, remainder, divisor);
    s.frame().function.select(is_negative, corrected, remainder)
}

/// The quotient that belongs to it.
pub(super) fn euclidean_quotient(s: &mut State, a: Value, b: Value, scalar: Scalar) -> Value {
    let mut quotient = binary(s, Binary::Divide, a, b);
    if !scalar.is_float() && !scalar.is_signed() {
        return quotient;
    }
    if scalar.is_float() {
        quotient = s.frame().function.math(Math::Trunc, &[quotient]);
    }
    let remainder = binary(s, Binary::Remainder, a, b);
    let (zero, one) = (constant(s, scalar, 0.0), constant(s, scalar, 1.0));
    let is_negative = binary(s, Binary::Less, remainder, zero);
    let is_upward = binary(s, Binary::Greater, b, zero);
    let less = binary(s, Binary::Subtract, quotient, one);
    let more = binary(s, Binary::Add, quotient, one);
    let f = &mut s.frame().function;
    let corrected = f.select(is_upward, less, more);
    f.select(is_negative, corrected, quotient)
}

pub(super) fn absolute(s: &mut State, value: Value, scalar: Scalar) -> Value {
    let f = &mut s.frame().function;
    if scalar.is_float() {
        return f.math(Math::Abs, &[value]);
    }
    let zero = f.literal(scalar, 0);
    let is_negative = f.binary(Binary::Less, value, zero);
    let negated = f.unary(Unary::Negate, value);
    f.select(is_negative, negated, value)
}

/// A count of zeros as one of the ones of a number.
pub(super) fn count_of_ones(
    s: &mut State,
    count_zeros: Unary,
    value: Value,
    scalar: Scalar,
) -> Value {
    let f = &mut s.frame().function;
    let flipped = f.unary(Unary::Not, value);
    let ones = f.unary(count_zeros, flipped);
    if scalar == Scalar::U32 {
        ones
    } else {
        f.cast(ones, Scalar::U32)
    }
}

/// The number of the highest bit, of a number above zero.
pub(super) fn binary_logarithm(
    s: &mut State,
    value: Value,
    scalar: Scalar,
    location: &'static Location<'static>,
) -> Value {
    let zero = s.frame().function.literal(scalar, 0);
    let is_positive = binary(s, Binary::Greater, value, zero);
    let message = "argument of integer logarithm must be positive";
    assert_value(s, is_positive, (message, &[]), location);
    let f = &mut s.frame().function;
    let wide = f.cast(value, Scalar::U64);
    let zeros = f.unary(Unary::LeadingZeros, wide);
    let zeros = f.cast(zeros, Scalar::U32);
    let last = f.literal(Scalar::U32, 63);
    f.binary(Binary::Subtract, last, zeros)
}

/// A number between two others. As in std, bounds in the wrong order are a mistake, and so is a NaN
/// among them; a NaN between them stays one.
pub(super) fn clamped(
    s: &mut State,
    value: Value,
    [min, max]: [Value; 2],
    scalar: Scalar,
    location: &'static Location<'static>,
) -> Value {
    if !are_ordered(s, [min, max], scalar) {
        let are_ordered = binary(s, Binary::LessEqual, min, max);
        let message = "min <= max, of `clamp` with {} and {}";
        let bounds = [Raw::Value(min), Raw::Value(max)];
        assert_value(s, are_ordered, (message, &bounds), location);
    }
    let is_below = binary(s, Binary::Less, value, min);
    let value = s.frame().function.select(is_below, min, value);
    let is_above = binary(s, Binary::Greater, value, max);
    s.frame().function.select(is_above, max, value)
}

/// True if two bounds are constants in the right order, which need no check.
fn are_ordered(s: &mut State, bounds: [Value; 2], scalar: Scalar) -> bool {
    let [Some(min), Some(max)] = bounds.map(|bound| s.frame().known(Raw::Value(bound))) else {
        return false;
    };
    match scalar {
        Scalar::F16 => f16::from_bits(min as u16) <= f16::from_bits(max as u16),
        Scalar::Bf16 => bf16::from_bits(min as u16) <= bf16::from_bits(max as u16),
        Scalar::F32 => f32::from_bits(min as u32) <= f32::from_bits(max as u32),
        Scalar::F64 => f64::from_bits(min) <= f64::from_bits(max),
        _ if scalar.is_signed() => min as i64 <= max as i64,
        _ => min <= max,
    }
}

/// The smallest power of two that is no less.
pub(super) fn next_power_of_two(s: &mut State, value: Value, scalar: Scalar) -> Value {
    let f = &mut s.frame().function;
    let (zero, one) = (f.literal(scalar, 0), f.literal(scalar, 1));
    let below = f.binary(Binary::SaturatingSubtract, value, one);
    let zeros = f.unary(Unary::LeadingZeros, below);
    let all = f.unary(Unary::Not, zero);
    // Of none all bits are zeros, by which nothing can be shifted.
    let is_none = f.binary(Binary::Equal, below, zero);
    let amount = f.select(is_none, zero, zeros);
    let ones = f.binary(Binary::ShiftRight, all, amount);
    let ones = f.select(is_none, zero, ones);
    f.binary(Binary::Add, ones, one)
}

/// True if one is a multiple of another, which may be zero.
pub(super) fn is_multiple(s: &mut State, a: Value, b: Value, scalar: Scalar) -> Value {
    let f = &mut s.frame().function;
    let (zero, one) = (f.literal(scalar, 0), f.literal(scalar, 1));
    let is_of_zero = f.binary(Binary::Equal, b, zero);
    let divisor = f.select(is_of_zero, one, b);
    let remainder = f.binary(Binary::Remainder, a, divisor);
    // Zero is the one multiple of zero.
    let rest = f.select(is_of_zero, a, remainder);
    f.binary(Binary::Equal, rest, zero)
}

/// The smallest multiple that is no less.
pub(super) fn next_multiple(s: &mut State, a: Value, b: Value, scalar: Scalar) -> Value {
    let f = &mut s.frame().function;
    let zero = f.literal(scalar, 0);
    let remainder = f.binary(Binary::Remainder, a, b);
    let is_one = f.binary(Binary::Equal, remainder, zero);
    let rest = f.binary(Binary::Subtract, b, remainder);
    let next = f.binary(Binary::Add, a, rest);
    f.select(is_one, a, next)
}

/// A float times a factor, which of an `f32` is one that std has as such.
pub(super) fn scaled(
    s: &mut State,
    value: Value,
    scalar: Scalar,
    (of_f32, of_f64): (f32, f64),
) -> Value {
    let factor = if scalar == Scalar::F64 {
        of_f64
    } else {
        of_f32.into()
    };
    let factor = constant(s, scalar, factor);
    binary(s, Binary::Multiply, value, factor)
}

/// Integers, with the unsigned type that their distances are of.
pub trait Unsigned: KernelValue {
    /// The unsigned type.
    type Unsigned: KernelValue;
}

macro_rules! unsigned {
    ($($of:ty => $unsigned:ty),*) => {$(
        impl Unsigned for $of {
            type Unsigned = $unsigned;
        }
    )*};
}

unsigned! {
    i8 => u8, i16 => u16, i32 => u32, i64 => u64, isize => usize,
    u8 => u8, u16 => u16, u32 => u32, u64 => u64, usize => usize
}

/// Methods that give the unsigned type, as functions of their arguments.
pub trait UnsignedCalls: Unsigned {
    /// `T::abs_diff(a, b)`.
    #[doc(hidden)]
    #[track_caller]
    fn __call_abs_diff(this: Expr<Self>, other: Expr<Self>) -> Expr<Self::Unsigned> {
        let location = Location::caller();
        of_value(state::at(location, |s| {
            let [a, b] = [this, other].map(|one| s.value(one.raw(), location));
            let greater = binary(s, Binary::Maximum, a, b);
            let smaller = binary(s, Binary::Minimum, a, b);
            // As unsigned numbers, which a difference wraps around to.
            let [greater, smaller] = [greater, smaller].map(|one| as_unsigned::<Self>(s, one));
            binary(s, Binary::Subtract, greater, smaller)
        }))
    }

    /// `T::unsigned_abs(x)`.
    #[doc(hidden)]
    #[track_caller]
    fn __call_unsigned_abs(this: Expr<Self>) -> Expr<Self::Unsigned> {
        let location = Location::caller();
        of_value(state::at(location, |s| {
            let value = s.value(this.raw(), location);
            let scalar = Self::ir_type(s).scalar().unwrap_or(Scalar::I32);
            let value = absolute(s, value, scalar);
            as_unsigned::<Self>(s, value)
        }))
    }
}

fn as_unsigned<T: Unsigned>(s: &mut State, value: Value) -> Value {
    let to = T::Unsigned::ir_type(s).scalar().unwrap_or(Scalar::U32);
    if s.frame().function.type_of(value).scalar() == Some(to) {
        value
    } else {
        s.frame().function.cast(value, to)
    }
}

/// The same, as methods of their receivers: see `Subject`.
pub trait UnsignedMethods<T: Unsigned> {
    #[doc(hidden)]
    #[track_caller]
    fn __method_abs_diff(&self, this: Expr<T>, other: Expr<T>) -> Expr<T::Unsigned> {
        T::__call_abs_diff(this, other)
    }

    #[doc(hidden)]
    #[track_caller]
    fn __method_unsigned_abs(&self, this: Expr<T>) -> Expr<T::Unsigned> {
        T::__call_unsigned_abs(this)
    }
}

impl<T: Unsigned> UnsignedCalls for T {}
impl<T: Unsigned> UnsignedMethods<T> for Subject<T> {}
