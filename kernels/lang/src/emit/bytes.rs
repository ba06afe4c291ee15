//! The bytes of numbers.

use std::panic::Location;

use quipu_kernel_ir::{BinaryOperation as Binary, Scalar, Value};

use super::data::{KernelValue, derived_literal};
use super::expression::Expr;
use super::number::of_value;
use super::place;
use super::state::{self, Raw, State};
use crate::number::{bf16, f16};

/// The byte that comes first.
#[derive(Clone, Copy, PartialEq, Eq)]
enum First {
    Lowest,
    Highest,
}

/// The unsigned integer of the same bits, and how wide it is.
fn bits_of(scalar: Scalar) -> (Scalar, u64) {
    match scalar {
        Scalar::I8 | Scalar::U8 | Scalar::Bool => (Scalar::U8, 8),
        Scalar::I16 | Scalar::U16 | Scalar::F16 | Scalar::Bf16 => (Scalar::U16, 16),
        Scalar::I32 | Scalar::U32 | Scalar::F32 => (Scalar::U32, 32),
        _ => (Scalar::U64, 64),
    }
}

/// The number with a place of its byte, of so many.
fn amount(s: &mut State, at: u64, bytes: u64, first: First) -> Value {
    let at = match first {
        First::Lowest => at,
        First::Highest => bytes - 1 - at,
    };
    s.frame().function.literal(Scalar::U32, 8 * at)
}

fn cast(s: &mut State, value: Value, to: Scalar) -> Value {
    if s.frame().function.type_of(value).scalar() == Some(to) {
        return value;
    }
    s.frame().function.cast(value, to)
}

fn bytes_of(s: &mut State, value: Value, scalar: Scalar, first: First) -> Vec<Value> {
    let (of, width) = bits_of(scalar);
    let value = if scalar.is_float() {
        s.frame().function.bitcast(value, of)
    } else {
        cast(s, value, of)
    };
    let bytes = (0..width / 8).map(|at| {
        let amount = amount(s, at, width / 8, first);
        let byte = s.frame().function.binary(Binary::ShiftRight, value, amount);
        cast(s, byte, Scalar::U8)
    });
    bytes.collect()
}

fn of_bytes(s: &mut State, bytes: &[Value], scalar: Scalar, first: First) -> Value {
    let (of, width) = bits_of(scalar);
    let mut all = None;
    for (at, byte) in bytes.iter().enumerate() {
        let amount = amount(s, at as u64, width / 8, first);
        let byte = cast(s, *byte, of);
        let byte = s.frame().function.binary(Binary::ShiftLeft, byte, amount);
        all = Some(match all {
            None => byte,
            Some(before) => s.frame().function.binary(Binary::Or, before, byte),
        });
    }
    let all = all.unwrap_or_else(|| s.frame().function.literal(of, 0));
    if scalar.is_float() {
        s.frame().function.bitcast(all, scalar)
    } else {
        cast(s, all, scalar)
    }
}

/// Numbers with so many bytes.
pub trait Bytes: KernelValue {
    /// They, as an array.
    type Bytes: KernelValue;
}

macro_rules! bytes {
    ($($of:ty: $count:literal),*) => {$(
        impl Bytes for $of {
            type Bytes = [u8; $count];
        }
    )*};
}

bytes! {
    i8: 1, i16: 2, i32: 4, i64: 8, isize: 8, u8: 1, u16: 2, u32: 4, u64: 8, usize: 8,
    f16: 2, bf16: 2, f32: 4, f64: 8
}

fn scalar_of<T: KernelValue>(s: &mut State) -> Scalar {
    T::ir_type(s).scalar().unwrap_or(Scalar::U32)
}

fn to_bytes<T: Bytes>(
    this: Expr<T>,
    first: First,
    location: &'static Location<'static>,
) -> Expr<T::Bytes> {
    Expr::from_raw(state::at(location, |s| {
        let (value, scalar) = (s.value(this.raw(), location), scalar_of::<T>(s));
        let bytes = bytes_of(s, value, scalar, first);
        derived_literal::<T::Bytes>(s, bytes.into_iter().map(Raw::Value).collect())
    }))
}

fn from_bytes<T: Bytes>(
    bytes: Expr<T::Bytes>,
    first: First,
    location: &'static Location<'static>,
) -> Expr<T> {
    of_value(state::at(location, |s| {
        let scalar = scalar_of::<T>(s);
        let count = bits_of(scalar).1 / 8;
        let bytes: Vec<_> = (0..count)
            .map(|at| {
                let byte = place::part_at(s, bytes.raw(), at as usize, location);
                s.value(byte, location)
            })
            .collect();
        of_bytes(s, &bytes, scalar, first)
    }))
}

fn turned<T: Bytes>(this: Expr<T>, location: &'static Location<'static>) -> Expr<T> {
    of_value(state::at(location, |s| {
        let (value, scalar) = (s.value(this.raw(), location), scalar_of::<T>(s));
        let bytes = bytes_of(s, value, scalar, First::Lowest);
        of_bytes(s, &bytes, scalar, First::Highest)
    }))
}

/// The order of a processor's and of its devices' bytes.
const NATIVE: First = if cfg!(target_endian = "big") {
    First::Highest
} else {
    First::Lowest
};

/// Conversions between numbers and bytes, as functions of their arguments.
#[doc(hidden)]
pub trait ByteCalls: Bytes {
    #[track_caller]
    fn __call_from_le_bytes(bytes: Expr<Self::Bytes>) -> Expr<Self> {
        from_bytes(bytes, First::Lowest, Location::caller())
    }

    #[track_caller]
    fn __call_from_be_bytes(bytes: Expr<Self::Bytes>) -> Expr<Self> {
        from_bytes(bytes, First::Highest, Location::caller())
    }

    #[track_caller]
    fn __call_from_ne_bytes(bytes: Expr<Self::Bytes>) -> Expr<Self> {
        from_bytes(bytes, NATIVE, Location::caller())
    }

    #[track_caller]
    fn __call_to_le_bytes(this: Expr<Self>) -> Expr<Self::Bytes> {
        to_bytes(this, First::Lowest, Location::caller())
    }

    #[track_caller]
    fn __call_to_be_bytes(this: Expr<Self>) -> Expr<Self::Bytes> {
        to_bytes(this, First::Highest, Location::caller())
    }

    #[track_caller]
    fn __call_to_ne_bytes(this: Expr<Self>) -> Expr<Self::Bytes> {
        to_bytes(this, NATIVE, Location::caller())
    }

    #[track_caller]
    fn __call_swap_bytes(this: Expr<Self>) -> Expr<Self> {
        turned(this, Location::caller())
    }
}

/// The same, as methods of their receivers.
#[doc(hidden)]
pub trait ByteMethods: Bytes {
    #[track_caller]
    fn __method_to_le_bytes(&self, this: Expr<Self>) -> Expr<Self::Bytes> {
        to_bytes(this, First::Lowest, Location::caller())
    }

    #[track_caller]
    fn __method_to_be_bytes(&self, this: Expr<Self>) -> Expr<Self::Bytes> {
        to_bytes(this, First::Highest, Location::caller())
    }

    #[track_caller]
    fn __method_to_ne_bytes(&self, this: Expr<Self>) -> Expr<Self::Bytes> {
        to_bytes(this, NATIVE, Location::caller())
    }

    #[track_caller]
    fn __method_swap_bytes(&self, this: Expr<Self>) -> Expr<Self> {
        turned(this, Location::caller())
    }

    #[track_caller]
    fn __method_to_be(&self, this: Expr<Self>) -> Expr<Self> {
        match NATIVE {
            First::Highest => this,
            First::Lowest => turned(this, Location::caller()),
        }
    }

    #[track_caller]
    fn __method_to_le(&self, this: Expr<Self>) -> Expr<Self> {
        match NATIVE {
            First::Lowest => this,
            First::Highest => turned(this, Location::caller()),
        }
    }
}

impl<T: Bytes> ByteCalls for T {}
impl<T: Bytes> ByteMethods for T {}
