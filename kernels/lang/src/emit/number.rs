//! Methods of numbers.
//!
//! rustc has checked the same call natively, so a function that a type does not have never comes
//! here.

use std::panic::Location;

use quipu_kernel_ir::{
    BinaryOperation as Binary, MathFunction as Math, Scalar, Type, UnaryOperation as Unary, Value,
};

use super::composed::{
    absolute, binary_logarithm, clamped, count_of_ones, euclidean_quotient, euclidean_remainder,
    is_multiple, next_multiple, next_power_of_two, scaled,
};
use super::convert::Conversion;
use super::data::KernelValue;
use super::expression::{Expr, Subject};
use super::power::power;
use super::state::{self, Raw, State};
use crate::number::{bf16, f16};

pub(super) fn of_value<T: ?Sized>(value: Value) -> Expr<T> {
    Expr::from_raw(Raw::Value(value))
}

/// The error for a method of a user's type with the name of one of numbers.
pub(super) const METHODS: &str = "this is known as a method of numbers alone; of a type of your own, write `#[device]` above the `impl` that \
    has it";

/// The operands as values, and the scalar type of the first, which is not that of a user's type.
fn operands<const N: usize>(
    s: &mut State,
    raws: [Raw; N],
    is_derived: bool,
    location: &'static Location<'static>,
) -> ([Value; N], Scalar) {
    let values = raws.map(|raw| s.value(raw, location));
    (values, expect_number(s, values[0], is_derived, location))
}

pub(super) fn expect_number(
    s: &mut State,
    value: Value,
    is_derived: bool,
    location: &'static Location<'static>,
) -> Scalar {
    let scalar = s.frame().function.type_of(value).scalar();
    if scalar.is_none() || is_derived {
        s.refuse(location, METHODS);
    }
    scalar.unwrap_or(Scalar::I32)
}

// As in `expression`: the function that does the work is compiled here, and not in each crate with
// kernels.

fn of_math<T: ?Sized, const N: usize>(
    function: Math,
    raws: [Raw; N],
    is_derived: bool,
    location: &'static Location<'static>,
) -> Expr<T> {
    of_value(math_raw(function, &raws, is_derived, location))
}

fn math_raw(
    function: Math,
    raws: &[Raw],
    is_derived: bool,
    location: &'static Location<'static>,
) -> Value {
    state::at(location, |s| {
        let values: Vec<_> = raws.iter().map(|raw| s.value(*raw, location)).collect();
        expect_number(s, values[0], is_derived, location);
        math(s, function, &values)
    })
}

fn unary_raw(
    operation: Unary,
    raw: Raw,
    (to, is_derived): (fn(&mut State) -> Type, bool),
    location: &'static Location<'static>,
) -> Value {
    state::at(location, |s| {
        let ([value], _) = operands(s, [raw], is_derived, location);
        let value = s.frame().function.unary(operation, value);
        match to(s).scalar() {
            Some(to) if s.frame().function.type_of(value).scalar() != Some(to) => {
                s.frame().function.cast(value, to)
            }
            _ => value,
        }
    })
}

fn binary_raw(
    operation: Binary,
    raws: [Raw; 2],
    is_derived: bool,
    location: &'static Location<'static>,
) -> Value {
    state::at(location, |s| {
        let ([first, second], scalar) = operands(s, raws, is_derived, location);
        let operation = match (operation, scalar) {
            (Binary::Maximum, Scalar::Bool) => Binary::Or,
            (Binary::Minimum, Scalar::Bool) => Binary::And,
            _ => operation,
        };
        s.frame().function.binary(operation, first, second)
    })
}

macro_rules! methods {
    (
        math { $($math:ident / $math_call:ident ($($math_operand:ident),*) = $function:ident;)* }
        predicates { $($is:ident / $is_call:ident = $is_function:ident;)* }
        unary { $($unary:ident / $unary_call:ident -> $unary_result:ty = $unary_operation:ident;)* }
        binary { $($binary:ident / $binary_call:ident ($($second:ident: $second_type:ty)?) = $binary_operation:ident;)* }
        other { $($other:ident / $other_call:ident ($($operand:ident: $operand_type:ty),*) -> $other_result:ty = $write:expr;)* }
    ) => {
        /// The methods of numbers, as functions of their arguments.
        pub trait NumberCalls<T: KernelValue> {
            $(
                #[doc(hidden)]
                #[track_caller]
                fn $math_call(this: Expr<T> $(, $math_operand: Expr<T>)*) -> Expr<T> {
                    let location = Location::caller();
                    of_math(Math::$function, [this.raw() $(, $math_operand.raw())*], T::IS_DERIVED, location)
                }
            )*
            $(
                #[doc(hidden)]
                #[track_caller]
                fn $is_call(this: Expr<T>) -> Expr<bool> {
                    let location = Location::caller();
                    of_math(Math::$is_function, [this.raw()], T::IS_DERIVED, location)
                }
            )*
            $(
                #[doc(hidden)]
                #[track_caller]
                fn $unary_call(this: Expr<T>) -> Expr<$unary_result> {
                    let location = Location::caller();
                    let to = (<$unary_result>::ir_type as fn(&mut State) -> Type, T::IS_DERIVED);
                    of_value(unary_raw(Unary::$unary_operation, this.raw(), to, location))
                }
            )*
            $(
                #[doc(hidden)]
                #[track_caller]
                fn $binary_call(this: Expr<T> $(, $second: Expr<$second_type>)?) -> Expr<T> {
                    let location = Location::caller();
                    of_value(binary_raw(Binary::$binary_operation, [this.raw() $(, $second.raw())?], T::IS_DERIVED, location))
                }
            )*
            $(
                #[doc(hidden)]
                #[track_caller]
                fn $other_call(this: Expr<T> $(, $operand: Expr<$operand_type>)*) -> Expr<$other_result> {
                    let location = Location::caller();
                    of_value(state::at(location, |s| {
                        let (values, scalar) = operands(s, [this.raw() $(, $operand.raw())*], T::IS_DERIVED, location);
                        $write(s, values, scalar)
                    }))
                }
            )*
        }

        /// The same, as methods of their receivers: see `Subject`.
        pub trait NumberMethods<T: KernelValue> {
            $(
                #[doc(hidden)]
                #[track_caller]
                fn $math(&self, this: Expr<T> $(, $math_operand: Expr<T>)*) -> Expr<T> {
                    T::$math_call(this $(, $math_operand)*)
                }
            )*
            $(
                #[doc(hidden)]
                #[track_caller]
                fn $is(&self, this: Expr<T>) -> Expr<bool> {
                    T::$is_call(this)
                }
            )*
            $(
                #[doc(hidden)]
                #[track_caller]
                fn $unary(&self, this: Expr<T>) -> Expr<$unary_result> {
                    T::$unary_call(this)
                }
            )*
            $(
                #[doc(hidden)]
                #[track_caller]
                fn $binary(&self, this: Expr<T> $(, $second: Expr<$second_type>)?) -> Expr<T> {
                    T::$binary_call(this $(, $second)?)
                }
            )*
            $(
                #[doc(hidden)]
                #[track_caller]
                fn $other(&self, this: Expr<T> $(, $operand: Expr<$operand_type>)*) -> Expr<$other_result> {
                    T::$other_call(this $(, $operand)*)
                }
            )*
        }
    };
}

methods! {
    math {
        __method_sqrt / __call_sqrt() = Sqrt;
        __method_ceil / __call_ceil() = Ceil;
        __method_floor / __call_floor() = Floor;
        __method_trunc / __call_trunc() = Trunc;
        __method_round / __call_round() = Round;
        __method_round_ties_even / __call_round_ties_even() = RoundTiesEven;
        __method_copysign / __call_copysign(sign) = Copysign;
        __method_mul_add / __call_mul_add(a, b) = Fma;
        __method_remainder / __call_remainder(divisor) = Remainder;
        __method_acos / __call_acos() = Acos;
        __method_acosh / __call_acosh() = Acosh;
        __method_asin / __call_asin() = Asin;
        __method_asinh / __call_asinh() = Asinh;
        __method_atan / __call_atan() = Atan;
        __method_atan2 / __call_atan2(other) = Atan2;
        __method_atanh / __call_atanh() = Atanh;
        __method_cbrt / __call_cbrt() = Cbrt;
        __method_cos / __call_cos() = Cos;
        __method_cosh / __call_cosh() = Cosh;
        __method_erf / __call_erf() = Erf;
        __method_exp / __call_exp() = Exp;
        __method_exp2 / __call_exp2() = Exp2;
        __method_exp_m1 / __call_exp_m1() = ExpM1;
        __method_hypot / __call_hypot(other) = Hypot;
        __method_ln / __call_ln() = Ln;
        __method_ln_1p / __call_ln_1p() = Ln1p;
        __method_log2 / __call_log2() = Log2;
        __method_log10 / __call_log10() = Log10;
        __method_powf / __call_powf(exponent) = Powf;
        __method_rsqrt / __call_rsqrt() = Rsqrt;
        __method_sin / __call_sin() = Sin;
        __method_sinh / __call_sinh() = Sinh;
        __method_tan / __call_tan() = Tan;
        __method_tanh / __call_tanh() = Tanh;
    }
    predicates {
        __method_is_nan / __call_is_nan = IsNan;
        __method_is_infinite / __call_is_infinite = IsInfinite;
        __method_is_finite / __call_is_finite = IsFinite;
    }
    unary {
        __method_count_ones / __call_count_ones -> u32 = CountOnes;
        __method_leading_zeros / __call_leading_zeros -> u32 = LeadingZeros;
        __method_trailing_zeros / __call_trailing_zeros -> u32 = TrailingZeros;
        __method_reverse_bits / __call_reverse_bits -> T = ReverseBits;
    }
    binary {
        __method_wrapping_add / __call_wrapping_add(other: T) = Add;
        __method_wrapping_sub / __call_wrapping_sub(other: T) = Subtract;
        __method_wrapping_mul / __call_wrapping_mul(other: T) = Multiply;
        __method_wrapping_shl / __call_wrapping_shl(amount: u32) = ShiftLeft;
        __method_wrapping_shr / __call_wrapping_shr(amount: u32) = ShiftRight;
        __method_saturating_add / __call_saturating_add(other: T) = SaturatingAdd;
        __method_saturating_sub / __call_saturating_sub(other: T) = SaturatingSubtract;
        __method_rotate_left / __call_rotate_left(amount: u32) = RotateLeft;
        __method_rotate_right / __call_rotate_right(amount: u32) = RotateRight;
        __method_min / __call_min(other: T) = Minimum;
        __method_max / __call_max(other: T) = Maximum;
        __method_lesser / __call_lesser(other: T) = Minimum;
        __method_greater / __call_greater(other: T) = Maximum;
    }
    other {
        __method_abs / __call_abs() -> T = |s: &mut State, [value]: [Value; 1], scalar| absolute(s, value, scalar);
        __method_wrapping_abs / __call_wrapping_abs() -> T = |s: &mut State, [value]: [Value; 1], scalar| absolute(s, value, scalar);
        __method_wrapping_neg / __call_wrapping_neg() -> T = |s: &mut State, [value]: [Value; 1], scalar: Scalar| {
            let f = &mut s.frame().function;
            if scalar.is_signed() {
                return f.unary(Unary::Negate, value);
            }
            let zero = f.literal(scalar, 0);
            f.binary(Binary::Subtract, zero, value)
        };
        __method_wrapping_div / __call_wrapping_div(other: T) -> T = |s: &mut State, [a, b]: [Value; 2], scalar| wrapping_division(s, Binary::Divide, a, b, scalar);
        __method_wrapping_rem / __call_wrapping_rem(other: T) -> T = |s: &mut State, [a, b]: [Value; 2], scalar| wrapping_division(s, Binary::Remainder, a, b, scalar);
        __method_mul_high / __call_mul_high(other: T) -> T = |s: &mut State, [a, b]: [Value; 2], scalar| mul_high(s, a, b, scalar);
        __method_signum / __call_signum() -> T = |s: &mut State, [value]: [Value; 1], scalar| signum(s, value, scalar);
        __method_div_ceil / __call_div_ceil(other: T) -> T = |s: &mut State, [a, b]: [Value; 2], scalar| {
            let quotient = binary(s, Binary::Divide, a, b);
            let remainder = binary(s, Binary::Remainder, a, b);
            let f = &mut s.frame().function;
            let (zero, one) = (f.literal(scalar, 0), f.literal(scalar, 1));
            let is_more = f.binary(Binary::NotEqual, remainder, zero);
            let rest = f.select(is_more, one, zero);
            f.binary(Binary::Add, quotient, rest)
        };
        __method_is_power_of_two / __call_is_power_of_two() -> bool = |s: &mut State, [value]: [Value; 1], scalar| {
            let f = &mut s.frame().function;
            let ones = f.unary(Unary::CountOnes, value);
            let one = f.literal(scalar, 1);
            f.binary(Binary::Equal, ones, one)
        };
        __method_count_zeros / __call_count_zeros() -> u32 = |s: &mut State, [value]: [Value; 1], scalar| {
            let f = &mut s.frame().function;
            let flipped = f.unary(Unary::Not, value);
            let ones = f.unary(Unary::CountOnes, flipped);
            if scalar == Scalar::U32 { ones } else { f.cast(ones, Scalar::U32) }
        };
        __method_find_first_set / __call_find_first_set() -> u32 = |s: &mut State, [value]: [Value; 1], scalar| {
            let f = &mut s.frame().function;
            let zeros = f.unary(Unary::TrailingZeros, value);
            let (zero, one) = (f.literal(scalar, 0), f.literal(scalar, 1));
            let number = f.binary(Binary::Add, zeros, one);
            let is_zero = f.binary(Binary::Equal, value, zero);
            let number = f.select(is_zero, zero, number);
            if scalar == Scalar::U32 { number } else { f.cast(number, Scalar::U32) }
        };
        __method_fract / __call_fract() -> T = |s: &mut State, [value]: [Value; 1], _| {
            let whole = math(s, Math::Trunc, &[value]);
            binary(s, Binary::Subtract, value, whole)
        };
        __method_distance / __call_distance(other: T) -> T = |s: &mut State, [a, b]: [Value; 2], _| {
            let greater = binary(s, Binary::Maximum, a, b);
            let smaller = binary(s, Binary::Minimum, a, b);
            binary(s, Binary::Subtract, greater, smaller)
        };
        __method_recip / __call_recip() -> T = |s: &mut State, [value]: [Value; 1], scalar| {
            let one = constant(s, scalar, 1.0);
            binary(s, Binary::Divide, one, value)
        };
        __method_is_sign_positive / __call_is_sign_positive() -> bool = |s: &mut State, [value]: [Value; 1], scalar| {
            let is_negative = is_negative(s, value, scalar);
            s.frame().function.unary(Unary::Not, is_negative)
        };
        __method_is_negative / __call_is_negative() -> bool = |s: &mut State, [value]: [Value; 1], scalar| {
            let zero = s.frame().function.literal(scalar, 0);
            binary(s, Binary::Less, value, zero)
        };
        __method_is_positive / __call_is_positive() -> bool = |s: &mut State, [value]: [Value; 1], scalar| {
            let zero = s.frame().function.literal(scalar, 0);
            binary(s, Binary::Greater, value, zero)
        };
        __method_rem_euclid / __call_rem_euclid(other: T) -> T = |s: &mut State, [a, b]: [Value; 2], scalar| euclidean_remainder(s, a, b, scalar);
        __method_div_euclid / __call_div_euclid(other: T) -> T = |s: &mut State, [a, b]: [Value; 2], scalar| euclidean_quotient(s, a, b, scalar);
        __method_leading_ones / __call_leading_ones() -> u32 = |s: &mut State, [value]: [Value; 1], scalar| count_of_ones(s, Unary::LeadingZeros, value, scalar);
        __method_trailing_ones / __call_trailing_ones() -> u32 = |s: &mut State, [value]: [Value; 1], scalar| count_of_ones(s, Unary::TrailingZeros, value, scalar);
        __method_next_power_of_two / __call_next_power_of_two() -> T = |s: &mut State, [value]: [Value; 1], scalar| next_power_of_two(s, value, scalar);
        __method_is_multiple_of / __call_is_multiple_of(other: T) -> bool = |s: &mut State, [a, b]: [Value; 2], scalar| is_multiple(s, a, b, scalar);
        __method_next_multiple_of / __call_next_multiple_of(other: T) -> T = |s: &mut State, [a, b]: [Value; 2], scalar| next_multiple(s, a, b, scalar);
        __method_to_degrees / __call_to_degrees() -> T = |s: &mut State, [value]: [Value; 1], scalar| scaled(s, value, scalar, (1.0_f32.to_degrees(), 1.0_f64.to_degrees()));
        __method_to_radians / __call_to_radians() -> T = |s: &mut State, [value]: [Value; 1], scalar| scaled(s, value, scalar, (1.0_f32.to_radians(), 1.0_f64.to_radians()));
        __method_log / __call_log(base: T) -> T = |s: &mut State, [value, base]: [Value; 2], _| {
            let [value, base] = [value, base].map(|of| math(s, Math::Ln, &[of]));
            binary(s, Binary::Divide, value, base)
        };
        __method_is_sign_negative / __call_is_sign_negative() -> bool = |s: &mut State, [value]: [Value; 1], scalar| is_negative(s, value, scalar);
    }
}

/// Types whose own methods come before those of users' traits, as they do natively.
pub trait Numeric: KernelValue {}

macro_rules! numeric {
    ($($number:ty)*) => {$(
        impl Numeric for $number {}
    )*};
}

numeric!(i8 i16 i32 i64 isize u8 u16 u32 u64 usize f16 bf16 f32 f64);

impl<T: KernelValue> NumberCalls<T> for T {}
impl<T: Numeric> NumberMethods<T> for Subject<T> {}
impl<T: KernelValue> NumberMethods<T> for &'static T {}

/// Methods of numbers that give two, fail, or take a loop, as functions of their arguments.
pub trait MoreCalls<T: KernelValue> {
    /// `T::sin_cos(x)`.
    #[doc(hidden)]
    #[track_caller]
    fn __call_sin_cos(this: Expr<T>) -> Expr<(T, T)> {
        let location = Location::caller();
        Expr::from_raw(state::at(location, |s| {
            let ([value], _) = operands(s, [this.raw()], T::IS_DERIVED, location);
            let parts =
                [Math::Sin, Math::Cos].map(|function| Raw::Value(math(s, function, &[value])));
            let of = <(T, T)>::ir_type(s);
            s.frame().aggregate(parts.into(), Some(of))
        }))
    }

    /// `T::pow(x, exponent)`, of integers: as many squarings as the exponent has bits.
    #[doc(hidden)]
    #[track_caller]
    fn __call_pow(this: Expr<T>, exponent: Expr<u32>) -> Expr<T> {
        power(this, exponent)
    }

    /// `T::ilog2(x)`.
    #[doc(hidden)]
    #[track_caller]
    fn __call_ilog2(this: Expr<T>) -> Expr<u32> {
        let location = Location::caller();
        of_value(state::at(location, |s| {
            let ([value], scalar) = operands(s, [this.raw()], T::IS_DERIVED, location);
            binary_logarithm(s, value, scalar, location)
        }))
    }

    /// `T::clamp(x, min, max)`.
    #[doc(hidden)]
    #[track_caller]
    fn __call_clamp(this: Expr<T>, min: Expr<T>, max: Expr<T>) -> Expr<T> {
        let location = Location::caller();
        of_value(state::at(location, |s| {
            let raws = [this.raw(), min.raw(), max.raw()];
            let ([value, min, max], scalar) = operands(s, raws, T::IS_DERIVED, location);
            clamped(s, value, [min, max], scalar, location)
        }))
    }

    /// `T::powi(x, exponent)`, of floats.
    #[doc(hidden)]
    #[track_caller]
    fn __call_powi(this: Expr<T>, exponent: Expr<i32>) -> Expr<T> {
        power(this, exponent)
    }
}

/// The same, as methods of their receivers: see `Subject`.
pub trait MoreMethods<T: KernelValue> {
    #[doc(hidden)]
    #[track_caller]
    fn __method_sin_cos(&self, this: Expr<T>) -> Expr<(T, T)> {
        T::__call_sin_cos(this)
    }

    #[doc(hidden)]
    #[track_caller]
    fn __method_ilog2(&self, this: Expr<T>) -> Expr<u32> {
        T::__call_ilog2(this)
    }

    #[doc(hidden)]
    #[track_caller]
    fn __method_clamp(&self, this: Expr<T>, min: Expr<T>, max: Expr<T>) -> Expr<T> {
        T::__call_clamp(this, min, max)
    }

    #[doc(hidden)]
    #[track_caller]
    fn __method_pow(&self, this: Expr<T>, exponent: Expr<u32>) -> Expr<T> {
        power(this, exponent)
    }

    #[doc(hidden)]
    #[track_caller]
    fn __method_powi(&self, this: Expr<T>, exponent: Expr<i32>) -> Expr<T> {
        power(this, exponent)
    }

    #[doc(hidden)]
    #[track_caller]
    fn __method_wrapping_pow(&self, this: Expr<T>, exponent: Expr<u32>) -> Expr<T> {
        power(this, exponent)
    }
}

impl<T: KernelValue> MoreCalls<T> for T {}
impl<T: Numeric> MoreMethods<T> for Subject<T> {}
impl<T: KernelValue> MoreMethods<T> for &'static T {}

fn binary(s: &mut State, operation: Binary, left: Value, right: Value) -> Value {
    s.frame().function.binary(operation, left, right)
}

/// `abs`, `min` and the like are of all numbers; the mathematical functions of floats alone.
fn math(s: &mut State, function: Math, values: &[Value]) -> Value {
    s.frame().function.math(function, values)
}

/// A constant of a float type, or a small one of integers.
pub(super) fn constant(s: &mut State, scalar: Scalar, value: f64) -> Value {
    let bits = match scalar {
        Scalar::F16 => f16::from_f64(value).to_bits().into(),
        Scalar::Bf16 => bf16::from_f64(value).to_bits().into(),
        Scalar::F32 => u64::from((value as f32).to_bits()),
        Scalar::F64 => value.to_bits(),
        _ => value as i64 as u64,
    };
    s.frame().function.literal(scalar, bits)
}

/// A division or remainder of which that of the smallest number by -1 is no mistake.
pub(super) fn wrapping_division(
    s: &mut State,
    operation: Binary,
    a: Value,
    b: Value,
    scalar: Scalar,
) -> Value {
    let f = &mut s.frame().function;
    if !scalar.is_signed() {
        return f.binary(operation, a, b);
    }
    let (one, minus_one) = (f.literal(scalar, 1), f.literal(scalar, u64::MAX));
    let negates = f.binary(Binary::Equal, b, minus_one);
    let divisor = f.select(negates, one, b);
    let result = f.binary(operation, a, divisor);
    if operation == Binary::Remainder {
        return result;
    }
    let negated = f.unary(Unary::Negate, result);
    f.select(negates, negated, result)
}

/// The high half of a product; of narrow types as part of a product that is wide enough.
pub(super) fn mul_high(s: &mut State, a: Value, b: Value, scalar: Scalar) -> Value {
    let f = &mut s.frame().function;
    let bits = match scalar.size() {
        Some(size @ 1..=2) => u64::from(8 * size),
        _ => return f.binary(Binary::MultiplyHigh, a, b),
    };
    let wide = if scalar.is_signed() {
        Scalar::I32
    } else {
        Scalar::U32
    };
    let (a, b) = (f.cast(a, wide), f.cast(b, wide));
    let product = f.binary(Binary::Multiply, a, b);
    let amount = f.literal(Scalar::U32, bits);
    let high = f.binary(Binary::ShiftRight, product, amount);
    f.cast(high, scalar)
}

fn signum(s: &mut State, value: Value, scalar: Scalar) -> Value {
    let one = constant(s, scalar, 1.0);
    if scalar.is_float() {
        let f = &mut s.frame().function;
        let signed = f.math(Math::Copysign, &[one, value]);
        let is_nan = f.math(Math::IsNan, &[value]);
        return f.select(is_nan, value, signed);
    }
    let (zero, minus_one) = (constant(s, scalar, 0.0), constant(s, scalar, -1.0));
    let f = &mut s.frame().function;
    let is_negative = f.binary(Binary::Less, value, zero);
    let is_positive = f.binary(Binary::Greater, value, zero);
    let rest = f.select(is_negative, minus_one, zero);
    f.select(is_positive, one, rest)
}

fn is_negative(s: &mut State, value: Value, scalar: Scalar) -> Value {
    let f = &mut s.frame().function;
    let (bits, shift) = match scalar {
        Scalar::F16 | Scalar::Bf16 => (Scalar::U16, 15),
        Scalar::F32 => (Scalar::U32, 31),
        _ => (Scalar::U64, 63),
    };
    let value = f.bitcast(value, bits);
    let shift = f.literal(bits, shift);
    let sign = f.binary(Binary::ShiftRight, value, shift);
    let zero = f.literal(bits, 0);
    f.binary(Binary::NotEqual, sign, zero)
}

macro_rules! bits {
    ($($float:ty: $bits:ty, $scalar:ident, $bits_scalar:ident;)*) => {$(
        #[doc(hidden)]
        impl FloatBits for $float {
            type Bits = $bits;

            #[track_caller]
            fn __call_from_bits(bits: Expr<$bits>) -> Expr<Self> {
                bitcast(bits, Scalar::$scalar, Location::caller())
            }

            #[track_caller]
            fn __call_to_bits(this: Expr<Self>) -> Expr<$bits> {
                bitcast(this, Scalar::$bits_scalar, Location::caller())
            }
        }
    )*};
}

fn bitcast<A, B>(value: Expr<A>, to: Scalar, location: &'static Location<'static>) -> Expr<B> {
    of_value(state::at(location, |s| {
        let value = s.value(value.raw(), location);
        s.frame().function.bitcast(value, to)
    }))
}

/// Floats as their bits.
pub trait FloatBits: KernelValue {
    /// The integer of as many bits.
    type Bits: KernelValue;

    #[doc(hidden)]
    fn __call_from_bits(bits: Expr<Self::Bits>) -> Expr<Self>;

    #[doc(hidden)]
    fn __call_to_bits(this: Expr<Self>) -> Expr<Self::Bits>;

    #[doc(hidden)]
    #[track_caller]
    fn __method_to_bits(&self, this: Expr<Self>) -> Expr<Self::Bits> {
        Self::__call_to_bits(this)
    }
}

bits! {
    f16: u16, F16, U16;
    bf16: u16, Bf16, U16;
    f32: u32, F32, U32;
    f64: u64, F64, U64;
}

/// `f16::from_f32(x)` and `x.to_f32()`, of floats of 16 bits.
pub trait HalfConversions: KernelValue {
    #[doc(hidden)]
    #[track_caller]
    fn __call_from_f32(from: Expr<f32>) -> Expr<Self> {
        super::expression::cast(from, None::<Self>)
    }

    #[doc(hidden)]
    #[track_caller]
    fn __call_to_f32(this: Expr<Self>) -> Expr<f32> {
        super::expression::cast(this, None::<f32>)
    }

    #[doc(hidden)]
    #[track_caller]
    fn __method_to_f32(&self, this: Expr<Self>) -> Expr<f32> {
        super::expression::cast(this, None::<f32>)
    }

    #[doc(hidden)]
    #[track_caller]
    fn __method_to_f64(&self, this: Expr<Self>) -> Expr<f64> {
        super::expression::cast(this, None::<f64>)
    }
}

/// Nothing has it.
#[diagnostic::on_unimplemented(
    message = "`from_f64` of a float of 16 bits is not in the kernel language, as it is not rounded to the nearest",
    label = "write `x.cast::<f16>()` or `cast::<bf16>()`, which is"
)]
pub trait FromDouble {}

/// `f16::from_f64(x)` is refused.
pub trait RefusedConversions: Sized {
    #[doc(hidden)]
    fn __call_from_f64(_: Expr<f64>) -> Expr<Self>
    where
        Self: FromDouble,
    {
        super::control::never()
    }
}

impl RefusedConversions for f16 {}
impl RefusedConversions for bf16 {}
impl HalfConversions for f16 {}
impl HalfConversions for bf16 {}

/// `T::from(x)`: see [`Conversion`].
pub trait Conversions: KernelValue {
    /// `T::from(x)`.
    #[doc(hidden)]
    #[track_caller]
    fn __call_from<U: KernelValue>(from: Expr<U>) -> Conversion<U, Self>
    where
        Self: From<U>,
    {
        Conversion::new(from, None)
    }
}

impl<T: KernelValue> Conversions for T {}

/// `x.cast::<U>()` and `T::cast_from(x)`, of [`Number`](crate::Number).
pub trait Casts: KernelValue {
    /// `x.cast::<U>()`.
    #[doc(hidden)]
    #[track_caller]
    fn __method_cast<U: KernelValue>(&self, this: Expr<Self>) -> Expr<U> {
        super::expression::cast(this, None::<U>)
    }

    /// `T::cast_from(x)`.
    #[doc(hidden)]
    #[track_caller]
    fn __call_cast_from<U: KernelValue>(from: Expr<U>) -> Expr<Self> {
        super::expression::cast(from, None::<Self>)
    }
}

impl<T: KernelValue> Casts for T {}

/// `std::cmp::max(one, other)`.
#[track_caller]
pub fn maximum<T: KernelValue + Ord>(one: Expr<T>, other: Expr<T>) -> Expr<T> {
    T::__call_max(one, other)
}

/// `std::cmp::min(one, other)`.
#[track_caller]
pub fn minimum<T: KernelValue + Ord>(one: Expr<T>, other: Expr<T>) -> Expr<T> {
    T::__call_min(one, other)
}
