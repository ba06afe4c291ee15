//! `x.pow(n)` and `x.powi(n)`.

use std::panic::Location;

use quipu_kernel_ir::{BinaryOperation as Binary, Scalar, UnaryOperation as Unary, Value};

use super::call::{Callee, call};
use super::data::KernelValue;
use super::expression::Expr;
use super::number::{METHODS, constant, of_value};
use super::repeat::{begin_unstepped, end, leave_unless};
use super::state::{self, Raw, State};

/// A power, of an integer by a number without sign or of a float by an `i32`, as a device function.
#[track_caller]
pub(super) fn power<T: KernelValue, E: KernelValue>(base: Expr<T>, exponent: Expr<E>) -> Expr<T> {
    let location = Location::caller();
    if T::IS_DERIVED {
        state::at(location, |s| s.refuse(location, METHODS));
    }
    let callee = Callee {
        name: "pow",
        key: "",
        types: vec![std::any::type_name::<T>().to_owned()],
        place: (file!(), line!(), column!()),
        inline: false,
        takes_closures: false,
    };
    let arguments = [("base", base.raw()), ("exponent", exponent.raw())];
    call(&callee, &arguments, |arguments| {
        let [base, exponent] = [arguments[0], arguments[1]];
        of_value(state::at(location, |s| {
            let of = T::ir_type(s).scalar().unwrap_or(Scalar::I32);
            power_of(s, of, [base, exponent], location)
        }))
    })
}

/// As many squarings as the exponent has bits. That of a float is in the order of the function that
/// compilers call for `powi` (`__powisf2`): the squarings, and one division in the end, of a
/// negative exponent.
fn power_of(
    s: &mut State,
    of: Scalar,
    [base, exponent]: [Raw; 2],
    location: &'static Location<'static>,
) -> Value {
    let [base, exponent] = [base, exponent].map(|raw| s.value(raw, location));
    if of.is_half() {
        // Rounded once, in the end.
        let base = s.frame().function.cast(base, Scalar::F32);
        let power = power_of_values(s, Scalar::F32, [base, exponent], location);
        return s.frame().function.cast(power, of);
    }
    power_of_values(s, of, [base, exponent], location)
}

fn power_of_values(
    s: &mut State,
    of: Scalar,
    [base, exponent]: [Value; 2],
    location: &'static Location<'static>,
) -> Value {
    let one = constant(s, of, 1.0);
    let f = &mut s.frame().function;
    let (is_negative, count) = if of.is_float() {
        let zero = f.literal(Scalar::I32, 0);
        let is_negative = f.binary(Binary::Less, exponent, zero);
        let negated = f.unary(Unary::Negate, exponent);
        let count = f.select(is_negative, negated, exponent);
        (Some(is_negative), f.cast(count, Scalar::U32))
    } else {
        (None, exponent)
    };
    let power = f.local(Some("power"), one);
    let square = f.local(Some("square"), base);
    let left = f.local(Some("left"), count);

    let this = begin_unstepped(s, location);
    let f = &mut s.frame().function;
    let (bits, zero) = (f.load_local(left), f.literal(Scalar::U32, 0));
    let goes_on = f.binary(Binary::NotEqual, bits, zero);
    leave_unless(s, goes_on, this);
    let f = &mut s.frame().function;
    let (bits, one_bit) = (f.load_local(left), f.literal(Scalar::U32, 1));
    let last = f.binary(Binary::And, bits, one_bit);
    let zero = f.literal(Scalar::U32, 0);
    let is_odd = f.binary(Binary::NotEqual, last, zero);
    f.begin_block();
    let (value, factor) = (f.load_local(power), f.load_local(square));
    let product = f.binary(Binary::Multiply, value, factor);
    f.store_local(power, product);
    let then = f.end_block();
    f.branch(is_odd, then, Vec::new());
    let value = f.load_local(square);
    let squared = f.binary(Binary::Multiply, value, value);
    f.store_local(square, squared);
    let (bits, one_bit) = (f.load_local(left), f.literal(Scalar::U32, 1));
    let half = f.binary(Binary::ShiftRight, bits, one_bit);
    f.store_local(left, half);
    end(s, this);

    let f = &mut s.frame().function;
    let power = f.load_local(power);
    match is_negative {
        None => power,
        Some(is_negative) => {
            let one = constant(s, of, 1.0);
            let f = &mut s.frame().function;
            let inverse = f.binary(Binary::Divide, one, power);
            f.select(is_negative, inverse, power)
        }
    }
}
