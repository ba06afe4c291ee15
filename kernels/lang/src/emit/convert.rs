//! Conversions: `R::from(x)` and `x.into()`, of numbers, positions, and types of users whose
//! `impl From` has `#[device]`.
//!
//! The macro asks for the conversion by a method of [`Conversion`], of which there are four. The
//! one with most references before its type is found first: that of types which [`ConvertedFrom`]
//! knows. The next two refuse users' types without `#[device]`, and the last is for the rest: type
//! parameters of which no more is known than a trait of numbers.

use std::any::TypeId;
use std::marker::PhantomData;
use std::panic::Location;

use quipu_kernel_ir::{Scalar, Type};

use super::data::KernelValue;
use super::expression::{Derived, Expr, value};
use super::option::some;
use super::state::{self, Raw};
use crate::extent::{Extent, Vector};
use crate::number::{bf16, f16};

/// The work of `From` where a source is made.
#[diagnostic::on_unimplemented(
    message = "kernels on other devices do not know how `{Self}` is made of `{A}`",
    label = "write `#[device]` above the `impl From<{A}> for {Self}`; of an enum's number, `as`",
    note = "in a function of a `T`, write the bound that it needs: `T: From<f32>`, `T: Into<f32>`"
)]
pub trait ConvertedFrom<A>: Sized {
    #[doc(hidden)]
    fn converted_from(from: Expr<A>) -> Expr<Self>;
}

impl<T> ConvertedFrom<T> for T {
    #[track_caller]
    fn converted_from(from: Expr<T>) -> Expr<T> {
        value(from)
    }
}

impl<T: KernelValue> ConvertedFrom<T> for Option<T> {
    #[track_caller]
    fn converted_from(from: Expr<T>) -> Expr<Self> {
        some(from)
    }
}

macro_rules! known {
    ($($from:ty => $($to:ty),*;)*) => {$($(
        impl ConvertedFrom<$from> for $to {
            #[track_caller]
            fn converted_from(from: Expr<$from>) -> Expr<Self> {
                converted(from)
            }
        }
    )*)*};
}

known! {
    bool => u8, u16, u32, u64, usize, i8, i16, i32, i64, isize, f32, f64;
    u8 => u16, u32, u64, usize, i16, i32, i64, isize, f16, bf16, f32, f64;
    u16 => u32, u64, usize, i32, i64, f32, f64;
    u32 => u64, i64, f64;
    i8 => i16, i32, i64, isize, f16, bf16, f32, f64;
    i16 => i32, i64, isize, f32, f64;
    i32 => i64, f64;
    f16 => f32, f64;
    bf16 => f32, f64;
    f32 => f64;
    usize => Vector<1>, Extent<1>;
    Vector<1> => usize;
    Extent<1> => usize;
}

macro_rules! positions {
    ($($from:ty => $to:ty;)*) => {$(
        impl<const D: usize> ConvertedFrom<$from> for $to {
            #[track_caller]
            fn converted_from(from: Expr<$from>) -> Expr<Self> {
                converted(from)
            }
        }
    )*};
}

positions! {
    [usize; D] => Vector<D>;
    [usize; D] => Extent<D>;
    Vector<D> => [usize; D];
    Extent<D> => [usize; D];
}

/// A conversion that is asked for.
pub struct Conversion<A, R> {
    from: Expr<A>,
    to: PhantomData<fn() -> R>,
}

impl<A, R> Clone for Conversion<A, R> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<A, R> Copy for Conversion<A, R> {}

impl<A, R> std::fmt::Debug for Conversion<A, R> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Conversion({:?})", self.from)
    }
}

impl<A, R> Conversion<A, R> {
    /// The conversion of an expression to the type of a witness.
    #[must_use]
    pub fn new(from: Expr<A>, _witness: Option<R>) -> Self {
        let to = PhantomData;
        Self { from, to }
    }
}

/// A conversion that is known.
pub trait Converted<R> {
    #[doc(hidden)]
    fn __converted(&self) -> Expr<R>;
}

impl<A, R: ConvertedFrom<A>> Converted<R> for &&Conversion<A, R> {
    #[track_caller]
    fn __converted(&self) -> Expr<R> {
        R::converted_from(self.from)
    }
}

/// What a function `from` of a type by itself has given.
impl<R> Converted<R> for Expr<R> {
    fn __converted(&self) -> Expr<R> {
        *self
    }
}

/// As [`Converted`], of a type that is [`Derived`]: it is refused.
pub trait ConvertedOfOwn<A, R> {
    #[doc(hidden)]
    fn __converted(&self) -> Expr<R>
    where
        R: ConvertedFrom<A>;
}

impl<A: Derived, R> ConvertedOfOwn<A, R> for &Conversion<A, R> {
    fn __converted(&self) -> Expr<R>
    where
        R: ConvertedFrom<A>,
    {
        super::control::never()
    }
}

/// As [`ConvertedOfOwn`], of the result.
pub trait ConvertedToOwn<A, R> {
    #[doc(hidden)]
    fn __converted(&self) -> Expr<R>
    where
        R: ConvertedFrom<A>;
}

impl<A, R: Derived> ConvertedToOwn<A, R> for Conversion<A, R> {
    fn __converted(&self) -> Expr<R>
    where
        R: ConvertedFrom<A>,
    {
        super::control::never()
    }
}

/// As [`Converted`], of types of which it is not known.
pub trait ConvertedOfNumbers<R> {
    #[doc(hidden)]
    fn __converted(self) -> Expr<R>;
}

impl<A: KernelValue, R: KernelValue> ConvertedOfNumbers<R> for Conversion<A, R> {
    #[track_caller]
    fn __converted(self) -> Expr<R> {
        converted(self.from)
    }
}

/// The error for a conversion of which kernels know nothing, where only the source shows the types.
const CONVERSIONS: &str = "kernels know `from` and `into` of numbers and positions, and of other types where `#[device]` is above the \
    `impl From`; in a function of a `T`, write the bound `T: From<…>`";

#[track_caller]
fn converted<A: KernelValue, R: KernelValue>(operand: Expr<A>) -> Expr<R> {
    let is_same = TypeId::of::<A>() == TypeId::of::<R>();
    let is_known = is_same || !A::IS_DERIVED && !R::IS_DERIVED;
    let types = is_known.then_some([A::ir_type as OfType, R::ir_type]);
    Expr::from_raw(converted_raw(operand.raw(), types, Location::caller()))
}

/// A function that makes a type.
type OfType = fn(&mut state::State) -> Type;

fn converted_raw(
    raw: Raw,
    types: Option<[OfType; 2]>,
    location: &'static Location<'static>,
) -> Raw {
    state::at(location, |s| {
        let types = types.map(|types| types.map(|of| of(s)));
        match types {
            Some([from, to]) if from == to => s.frame().copied(raw),
            // Of one dimension.
            Some([Type::Array(_, 1), Type::Scalar(Scalar::Index)]) => {
                Raw::Value(super::handles::values(s, raw, location)[0])
            }
            Some([Type::Scalar(Scalar::Index), Type::Array(_, 1)]) => {
                let part = s.frame().copied(raw);
                super::handles::components_of(s, vec![part])
            }
            Some([Type::Scalar(_), Type::Scalar(to)]) => {
                let value = s.value(raw, location);
                Raw::Value(s.frame().function.cast(value, to))
            }
            _ => {
                s.refuse(location, CONVERSIONS);
                raw
            }
        }
    })
}
