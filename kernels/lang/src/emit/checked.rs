//! Methods of numbers that say whether there is a result: `checked_…`, `overflowing_…`,
//! `saturating_…`; and comparisons that give an `Ordering`.

use std::cmp::Ordering;
use std::panic::Location;

use quipu_kernel_ir::{BinaryOperation as Binary, Scalar, UnaryOperation as Unary, Value};

use super::composed::absolute;
use super::data::{KernelValue, derived_literal};
use super::expression::{Expr, Subject, assert_value};
use super::number::{Numeric, expect_number, mul_high, of_value, wrapping_division};
use super::repeat::{begin_unstepped, end, leave_unless};
use super::state::{self, Raw, State};
use super::variant::variant_of_number;

/// The outcome of an operation of integers: the result as it wraps around, and true if it did.
struct Outcome {
    value: Value,
    overflows: Value,
}

fn binary(s: &mut State, operation: Binary, left: Value, right: Value) -> Value {
    s.frame().function.binary(operation, left, right)
}

fn literal(s: &mut State, scalar: Scalar, bits: u64) -> Value {
    s.frame().function.literal(scalar, bits)
}

fn select(s: &mut State, condition: Value, then: Value, otherwise: Value) -> Value {
    s.frame().function.select(condition, then, otherwise)
}

/// As a number of another type.
fn cast(s: &mut State, value: Value, to: Scalar) -> Value {
    if s.frame().function.type_of(value).scalar() == Some(to) {
        return value;
    }
    s.frame().function.cast(value, to)
}

/// The type that it is computed in: natively `usize` and `isize` have 64 bits.
fn wide(scalar: Scalar) -> Scalar {
    match scalar {
        Scalar::Index => Scalar::U64,
        Scalar::SignedIndex => Scalar::I64,
        other => other,
    }
}

/// The unsigned type of the same width.
fn unsigned(scalar: Scalar) -> Scalar {
    match scalar {
        Scalar::I8 => Scalar::U8,
        Scalar::I16 => Scalar::U16,
        Scalar::I32 => Scalar::U32,
        Scalar::I64 => Scalar::U64,
        Scalar::SignedIndex => Scalar::Index,
        other => other,
    }
}

fn bits(scalar: Scalar) -> u64 {
    u64::from(8 * wide(scalar).size().unwrap_or(8))
}

/// The least number of a type.
fn least(s: &mut State, scalar: Scalar) -> Value {
    // Of a signed one all higher bits are set.
    let least = match scalar.is_signed() {
        true => (1_u64 << (bits(scalar) - 1)).wrapping_neg(),
        false => 0,
    };
    literal(s, scalar, least)
}

/// The greatest number of a type.
fn greatest(s: &mut State, scalar: Scalar) -> Value {
    let unused = 64 - bits(scalar) + u64::from(scalar.is_signed());
    literal(s, scalar, u64::MAX >> unused)
}

fn is_below_zero(s: &mut State, value: Value, scalar: Scalar) -> Value {
    let zero = literal(s, scalar, 0);
    binary(s, Binary::Less, value, zero)
}

/// `a + b`, `a - b` or `a * b`.
fn outcome(s: &mut State, operation: Binary, [a, b]: [Value; 2], scalar: Scalar) -> Outcome {
    let value = binary(s, operation, a, b);
    let overflows = match (operation, scalar.is_signed()) {
        (Binary::Add, false) => binary(s, Binary::Less, value, a),
        (Binary::Subtract, false) => binary(s, Binary::Less, a, b),
        // Both of one sign, and the sum of the other; of a difference, its operands of two signs.
        (Binary::Add, true) => {
            let [one, other] = [a, b].map(|of| binary(s, Binary::Xor, of, value));
            let both = binary(s, Binary::And, one, other);
            is_below_zero(s, both, scalar)
        }
        (Binary::Subtract, true) => {
            let [one, other] = [b, value].map(|of| binary(s, Binary::Xor, a, of));
            let both = binary(s, Binary::And, one, other);
            is_below_zero(s, both, scalar)
        }
        (_, is_signed) => {
            let high = mul_high(s, a, b, scalar);
            let expected = if is_signed {
                // All bits of it are the sign of the low half.
                let amount = literal(s, Scalar::U32, bits(scalar) - 1);
                binary(s, Binary::ShiftRight, value, amount)
            } else {
                literal(s, scalar, 0)
            };
            binary(s, Binary::NotEqual, high, expected)
        }
    };
    Outcome { value, overflows }
}

/// `a / b` or `a % b`, where there is one.
fn division(s: &mut State, operation: Binary, [a, b]: [Value; 2], scalar: Scalar) -> Outcome {
    let (zero, one) = (literal(s, scalar, 0), literal(s, scalar, 1));
    let mut overflows = binary(s, Binary::Equal, b, zero);
    let divisor = select(s, overflows, one, b);
    if scalar.is_signed() {
        let (least, minus_one) = (least(s, scalar), literal(s, scalar, u64::MAX));
        let is_least = binary(s, Binary::Equal, a, least);
        let negates = binary(s, Binary::Equal, b, minus_one);
        let is_beyond = binary(s, Binary::And, is_least, negates);
        overflows = binary(s, Binary::Or, overflows, is_beyond);
    }
    let value = wrapping_division(s, operation, a, divisor, scalar);
    Outcome { value, overflows }
}

/// `-a`.
fn negation(s: &mut State, a: Value, scalar: Scalar) -> Outcome {
    let zero = literal(s, scalar, 0);
    let value = binary(s, Binary::Subtract, zero, a);
    let overflows = if scalar.is_signed() {
        let least = least(s, scalar);
        binary(s, Binary::Equal, a, least)
    } else {
        binary(s, Binary::NotEqual, a, zero)
    };
    Outcome { value, overflows }
}

fn magnitude(s: &mut State, a: Value, scalar: Scalar) -> Outcome {
    let least = least(s, scalar);
    Outcome {
        value: absolute(s, a, scalar),
        overflows: binary(s, Binary::Equal, a, least),
    }
}

/// A shift, by as many bits as are left of the amount.
fn shift(s: &mut State, operation: Binary, [a, amount]: [Value; 2], scalar: Scalar) -> Outcome {
    let (all, last) = (bits(scalar), bits(scalar) - 1);
    let (all, last) = (literal(s, Scalar::U32, all), literal(s, Scalar::U32, last));
    let overflows = binary(s, Binary::GreaterEqual, amount, all);
    let amount = binary(s, Binary::And, amount, last);
    let value = binary(s, operation, a, amount);
    Outcome { value, overflows }
}

/// Writes an operation of operands that are as wide as natively: of the type that they then have.
type Write<const N: usize> = fn(&mut State, [Value; N], Scalar) -> Outcome;

fn write<const N: usize>(
    raws: [Raw; N],
    is_derived: bool,
    write: Write<N>,
    location: &'static Location<'static>,
) -> (Outcome, Scalar) {
    state::at(location, |s| {
        let mut values = raws.map(|raw| s.value(raw, location));
        let scalar = expect_number(s, values[0], is_derived, location);
        for value in &mut values {
            if s.frame().function.type_of(*value).scalar() == Some(scalar) {
                *value = cast(s, *value, wide(scalar));
            }
        }
        let mut outcome = write(s, values, wide(scalar));
        outcome.value = cast(s, outcome.value, scalar);
        (outcome, scalar)
    })
}

/// `Some` of the result if there is one.
fn checked<T: KernelValue>((outcome, _): (Outcome, Scalar)) -> Expr<Option<T>> {
    let Outcome { value, overflows } = outcome;
    Expr::from_raw(state::current(|s| {
        let (no, yes) = (literal(s, Scalar::U32, 0), literal(s, Scalar::U32, 1));
        let number = select(s, overflows, no, yes);
        variant_of_number::<Option<T>>(s, number, vec![Raw::Value(value)])
    }))
}

/// The result and whether it has wrapped around.
fn overflowing<T: KernelValue>((outcome, _): (Outcome, Scalar)) -> Expr<(T, bool)> {
    let Outcome { value, overflows } = outcome;
    Expr::from_raw(state::current(|s| {
        derived_literal::<(T, bool)>(s, vec![Raw::Value(value), Raw::Value(overflows)])
    }))
}

/// The result, or the end of the type that it is beyond: the greatest, if it is said to be above.
fn saturated(s: &mut State, outcome: &Outcome, is_below: Value, scalar: Scalar) -> Value {
    let (least, greatest) = (least(s, scalar), greatest(s, scalar));
    let end = select(s, is_below, least, greatest);
    select(s, outcome.overflows, end, outcome.value)
}

fn saturating_product(s: &mut State, [a, b]: [Value; 2], scalar: Scalar) -> Outcome {
    let product = outcome(s, Binary::Multiply, [a, b], scalar);
    let signs = binary(s, Binary::Xor, a, b);
    let is_below = is_below_zero(s, signs, scalar);
    // Of numbers without signs nothing is.
    let value = saturated(s, &product, is_below, scalar);
    Outcome { value, ..product }
}

/// The greatest number whose square is not above, a bit at a time from the highest on.
fn square_root(
    s: &mut State,
    value: Value,
    scalar: Scalar,
    location: &'static Location<'static>,
) -> Value {
    if scalar.is_signed() {
        let zero = literal(s, scalar, 0);
        let is_some = binary(s, Binary::GreaterEqual, value, zero);
        let message = "argument of integer square root cannot be negative";
        assert_value(s, is_some, (message, &[]), location);
    }
    let of = if bits(scalar) == 64 {
        Scalar::U64
    } else {
        Scalar::U32
    };
    let value = cast(s, value, unsigned(wide(scalar)));
    let value = cast(s, value, of);
    let (zero, first) = (literal(s, of, 0), literal(s, of, 1 << (bits(of) - 2)));
    let f = &mut s.frame().function;
    let (left, root, bit) = (
        f.local(Some("left"), value),
        f.local(Some("root"), zero),
        f.local(Some("bit"), first),
    );
    let this = begin_unstepped(s, location);
    let f = &mut s.frame().function;
    let at = f.load_local(bit);
    let zero = f.literal(of, 0);
    let goes_on = f.binary(Binary::NotEqual, at, zero);
    leave_unless(s, goes_on, this);
    let f = &mut s.frame().function;
    let (rest, so_far) = (f.load_local(left), f.load_local(root));
    let (one, two) = (f.literal(Scalar::U32, 1), f.literal(Scalar::U32, 2));
    let with = f.binary(Binary::Add, so_far, at);
    let half = f.binary(Binary::ShiftRight, so_far, one);
    let half_with = f.binary(Binary::Add, half, at);
    let less = f.binary(Binary::Subtract, rest, with);
    let has = f.binary(Binary::GreaterEqual, rest, with);
    let rest = f.select(has, less, rest);
    let so_far = f.select(has, half_with, half);
    let next = f.binary(Binary::ShiftRight, at, two);
    f.store_local(left, rest);
    f.store_local(root, so_far);
    f.store_local(bit, next);
    end(s, this);
    let root = s.frame().function.load_local(root);
    cast(s, root, scalar)
}

macro_rules! outcomes {
    ($($method:ident / $call:ident ($($operand:ident: $of:ty),*) -> $result:ty = $give:ident $write:expr;)*) => {
        /// Methods of numbers that say whether there is a result, as functions of their arguments.
        pub trait CheckedCalls<T: KernelValue> {
            $(
                #[doc(hidden)]
                #[track_caller]
                fn $call(this: Expr<T> $(, $operand: Expr<$of>)*) -> Expr<$result> {
                    let raws = [this.raw() $(, $operand.raw())*];
                    $give(write(raws, T::IS_DERIVED, $write, Location::caller()))
                }
            )*
        }

        /// The same, as methods of their receivers: see `Subject`.
        pub trait CheckedMethods<T: KernelValue> {
            $(
                #[doc(hidden)]
                #[track_caller]
                fn $method(&self, this: Expr<T> $(, $operand: Expr<$of>)*) -> Expr<$result> {
                    T::$call(this $(, $operand)*)
                }
            )*
        }
    };
}

/// The result itself.
fn plain<T: KernelValue>((outcome, _): (Outcome, Scalar)) -> Expr<T> {
    of_value(outcome.value)
}

outcomes! {
    __method_checked_add / __call_checked_add(other: T) -> Option<T> = checked |s, of, scalar| outcome(s, Binary::Add, of, scalar);
    __method_checked_sub / __call_checked_sub(other: T) -> Option<T> = checked |s, of, scalar| outcome(s, Binary::Subtract, of, scalar);
    __method_checked_mul / __call_checked_mul(other: T) -> Option<T> = checked |s, of, scalar| outcome(s, Binary::Multiply, of, scalar);
    __method_checked_div / __call_checked_div(other: T) -> Option<T> = checked |s, of, scalar| division(s, Binary::Divide, of, scalar);
    __method_checked_rem / __call_checked_rem(other: T) -> Option<T> = checked |s, of, scalar| division(s, Binary::Remainder, of, scalar);
    __method_checked_neg / __call_checked_neg() -> Option<T> = checked |s, [a], scalar| negation(s, a, scalar);
    __method_checked_abs / __call_checked_abs() -> Option<T> = checked |s, [a], scalar| magnitude(s, a, scalar);
    __method_checked_shl / __call_checked_shl(amount: u32) -> Option<T> = checked |s, of, scalar| shift(s, Binary::ShiftLeft, of, scalar);
    __method_checked_shr / __call_checked_shr(amount: u32) -> Option<T> = checked |s, of, scalar| shift(s, Binary::ShiftRight, of, scalar);
    __method_overflowing_add / __call_overflowing_add(other: T) -> (T, bool) = overflowing |s, of, scalar| outcome(s, Binary::Add, of, scalar);
    __method_overflowing_sub / __call_overflowing_sub(other: T) -> (T, bool) = overflowing |s, of, scalar| outcome(s, Binary::Subtract, of, scalar);
    __method_overflowing_mul / __call_overflowing_mul(other: T) -> (T, bool) = overflowing |s, of, scalar| outcome(s, Binary::Multiply, of, scalar);
    __method_overflowing_neg / __call_overflowing_neg() -> (T, bool) = overflowing |s, [a], scalar| negation(s, a, scalar);
    __method_overflowing_abs / __call_overflowing_abs() -> (T, bool) = overflowing |s, [a], scalar| magnitude(s, a, scalar);
    __method_overflowing_shl / __call_overflowing_shl(amount: u32) -> (T, bool) = overflowing |s, of, scalar| shift(s, Binary::ShiftLeft, of, scalar);
    __method_overflowing_shr / __call_overflowing_shr(amount: u32) -> (T, bool) = overflowing |s, of, scalar| shift(s, Binary::ShiftRight, of, scalar);
    __method_saturating_mul / __call_saturating_mul(other: T) -> T = plain saturating_product;
    __method_saturating_neg / __call_saturating_neg() -> T = plain |s, [a], scalar| {
        let negated = negation(s, a, scalar);
        let is_below = s.frame().function.bool_literal(false);
        Outcome { value: saturated(s, &negated, is_below, scalar), ..negated }
    };
    __method_saturating_abs / __call_saturating_abs() -> T = plain |s, [a], scalar| {
        let magnitude = magnitude(s, a, scalar);
        let is_below = s.frame().function.bool_literal(false);
        Outcome { value: saturated(s, &magnitude, is_below, scalar), ..magnitude }
    };
}

impl<T: KernelValue> CheckedCalls<T> for T {}
impl<T: Numeric> CheckedMethods<T> for Subject<T> {}
impl<T: KernelValue> CheckedMethods<T> for &'static T {}

/// An order as its number: -1, 0 or 1.
fn ordering(s: &mut State, [a, b]: [Value; 2]) -> Value {
    let [less, equal, greater] = [u64::MAX, 0, 1].map(|number| literal(s, Scalar::I8, number));
    let is_less = binary(s, Binary::Less, a, b);
    let is_equal = binary(s, Binary::Equal, a, b);
    let rest = select(s, is_equal, equal, greater);
    select(s, is_less, less, rest)
}

/// The bits of a float as an integer that is ordered as `total_cmp` orders.
fn total_order(s: &mut State, value: Value, scalar: Scalar) -> Value {
    let (of, last) = match scalar {
        Scalar::F16 | Scalar::Bf16 => (Scalar::I16, 15),
        Scalar::F32 => (Scalar::I32, 31),
        _ => (Scalar::I64, 63),
    };
    let f = &mut s.frame().function;
    let bits = f.bitcast(value, unsigned(of));
    let bits = f.cast(bits, of);
    let (last, one) = (f.literal(Scalar::U32, last), f.literal(Scalar::U32, 1));
    let sign = f.binary(Binary::ShiftRight, bits, last);
    let sign = f.cast(sign, unsigned(of));
    let rest = f.binary(Binary::ShiftRight, sign, one);
    let rest = f.cast(rest, of);
    f.binary(Binary::Xor, bits, rest)
}

/// Comparisons and roots, as functions of their arguments.
pub trait OrderingCalls<T: KernelValue> {
    #[doc(hidden)]
    #[track_caller]
    fn __call_cmp(this: Expr<T>, other: Expr<T>) -> Expr<Ordering> {
        let location = Location::caller();
        of_value(state::at(location, |s| {
            let of = [this, other].map(|one| s.value(one.raw(), location));
            expect_number(s, of[0], T::IS_DERIVED, location);
            ordering(s, of)
        }))
    }

    #[doc(hidden)]
    #[track_caller]
    fn __call_partial_cmp(this: Expr<T>, other: Expr<T>) -> Expr<Option<Ordering>> {
        let location = Location::caller();
        Expr::from_raw(state::at(location, |s| {
            let of = [this, other].map(|one| s.value(one.raw(), location));
            let scalar = expect_number(s, of[0], T::IS_DERIVED, location);
            let order = ordering(s, of);
            let one = literal(s, Scalar::U32, 1);
            let number = if scalar.is_float() {
                // A NaN is not equal to itself.
                let [a, b] = of.map(|one| binary(s, Binary::Equal, one, one));
                let are_numbers = binary(s, Binary::And, a, b);
                let zero = literal(s, Scalar::U32, 0);
                select(s, are_numbers, one, zero)
            } else {
                one
            };
            variant_of_number::<Option<Ordering>>(s, number, vec![Raw::Value(order)])
        }))
    }

    #[doc(hidden)]
    #[track_caller]
    fn __call_total_cmp(this: Expr<T>, other: Expr<T>) -> Expr<Ordering> {
        let location = Location::caller();
        of_value(state::at(location, |s| {
            let of = [this, other].map(|one| s.value(one.raw(), location));
            let scalar = expect_number(s, of[0], T::IS_DERIVED, location);
            let of = of.map(|one| total_order(s, one, scalar));
            ordering(s, of)
        }))
    }

    #[doc(hidden)]
    #[track_caller]
    fn __call_isqrt(this: Expr<T>) -> Expr<T> {
        let location = Location::caller();
        of_value(state::at(location, |s| {
            let value = s.value(this.raw(), location);
            let scalar = expect_number(s, value, T::IS_DERIVED, location);
            square_root(s, value, scalar, location)
        }))
    }
}

/// The same, as methods of their receivers: see `Subject`.
pub trait OrderingMethods<T: KernelValue> {
    #[doc(hidden)]
    #[track_caller]
    fn __method_cmp(&self, this: Expr<T>, other: Expr<T>) -> Expr<Ordering> {
        T::__call_cmp(this, other)
    }

    #[doc(hidden)]
    #[track_caller]
    fn __method_partial_cmp(&self, this: Expr<T>, other: Expr<T>) -> Expr<Option<Ordering>> {
        T::__call_partial_cmp(this, other)
    }

    #[doc(hidden)]
    #[track_caller]
    fn __method_total_cmp(&self, this: Expr<T>, other: Expr<T>) -> Expr<Ordering> {
        T::__call_total_cmp(this, other)
    }

    #[doc(hidden)]
    #[track_caller]
    fn __method_isqrt(&self, this: Expr<T>) -> Expr<T> {
        T::__call_isqrt(this)
    }
}

impl<T: KernelValue> OrderingCalls<T> for T {}
impl<T: Numeric> OrderingMethods<T> for Subject<T> {}
impl<T: KernelValue> OrderingMethods<T> for &'static T {}

macro_rules! asked_of_orders {
    ($($method:ident = $operation:ident;)*) => {
        /// Questions to an `Ordering`.
        #[doc(hidden)]
        pub trait AskedOrderings {
            $(
                #[track_caller]
                fn $method(&self, this: Expr<Ordering>) -> Expr<bool> {
                    let location = Location::caller();
                    of_value(state::at(location, |s| {
                        let order = s.value(this.raw(), location);
                        let equal = literal(s, Scalar::I8, 0);
                        binary(s, Binary::$operation, order, equal)
                    }))
                }
            )*

            #[track_caller]
            fn __method_reverse(&self, this: Expr<Ordering>) -> Expr<Ordering> {
                let location = Location::caller();
                of_value(state::at(location, |s| {
                    let order = s.value(this.raw(), location);
                    s.frame().function.unary(Unary::Negate, order)
                }))
            }

            #[track_caller]
            fn __method_then(&self, this: Expr<Ordering>, other: Expr<Ordering>) -> Expr<Ordering> {
                let location = Location::caller();
                of_value(state::at(location, |s| {
                    let [order, other] = [this, other].map(|one| s.value(one.raw(), location));
                    let equal = literal(s, Scalar::I8, 0);
                    let is_equal = binary(s, Binary::Equal, order, equal);
                    select(s, is_equal, other, order)
                }))
            }
        }
    };
}

asked_of_orders! {
    __method_is_lt = Less;
    __method_is_le = LessEqual;
    __method_is_gt = Greater;
    __method_is_ge = GreaterEqual;
    __method_is_eq = Equal;
    __method_is_ne = NotEqual;
}

impl AskedOrderings for Ordering {}
