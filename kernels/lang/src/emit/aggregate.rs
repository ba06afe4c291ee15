//! Tuples, structs and arrays of their parts.

use std::panic::Location;

use quipu_kernel_ir::Type;

use super::data::KernelValue;
use super::expression::Expr;
use super::place::{field_of, part_at};
use super::shared::Tuple;
use super::state::{self, Raw, State};
use super::variant::variant;

/// A tuple.
#[track_caller]
pub fn tuple<T: Tuple>(parts: &[Raw], _witness: Option<T>) -> Expr<T> {
    Expr::from_raw(tuple_raw(parts, T::tuple_type, Location::caller()))
}

fn tuple_raw(
    parts: &[Raw],
    of: fn(&mut State) -> Option<Type>,
    location: &'static Location<'static>,
) -> Raw {
    state::at(location, |s| {
        let of = of(s);
        s.frame().aggregate(parts.to_vec(), of)
    })
}

/// A struct, or a value of the variant of a name: its fields by name, in the order in which they
/// were written, and the struct that gives the others.
#[track_caller]
pub fn structure<T: KernelValue>(
    name: &str,
    fields: &[(&str, Raw)],
    rest: Option<Expr<T>>,
    _witness: Option<T>,
) -> Expr<T> {
    let location = Location::caller();
    if !T::VARIANTS.is_empty() {
        return Expr::from_raw(variant::<T>(name, fields, location));
    }
    Expr::from_raw(state::at(location, |s| {
        let of = T::ir_type(s);
        if of == quipu_kernel_ir::Type::Unit {
            return Raw::Nothing;
        }
        let parts = T::FIELDS
            .iter()
            .enumerate()
            .map(
                |(position, name)| match (fields.iter().find(|(field, _)| field == name), rest) {
                    (Some((_, raw)), _) => *raw,
                    (None, Some(rest)) => {
                        let raw = field_of(s, rest.raw(), position, location, T::ir_type);
                        s.frame().copied(raw)
                    }
                    // rustc has seen all fields.
                    (None, None) => Raw::Nothing,
                },
            )
            .collect();
        s.frame().aggregate(parts, Some(of))
    }))
}

/// `[a, b, c]`.
#[track_caller]
pub fn array<T: KernelValue, const N: usize>(parts: [Expr<T>; N]) -> Expr<[T; N]> {
    let location = Location::caller();
    Expr::from_raw(state::at(location, |s| {
        let of = <[T; N]>::ir_type(s);
        let parts = parts
            .iter()
            .map(|part| s.frame().copied(part.raw()))
            .collect();
        s.frame().aggregate(parts, Some(of))
    }))
}

/// Methods of arrays that slices do not have.
pub trait ArrayMethods<T: KernelValue, const N: usize> {
    /// `array.map(function)`.
    #[doc(hidden)]
    #[track_caller]
    fn __method_map<R: KernelValue>(
        &self,
        this: Expr<[T; N]>,
        mut function: impl FnMut(Expr<T>) -> Expr<R>,
    ) -> Expr<[R; N]> {
        let location = Location::caller();
        let parts = std::array::from_fn(|at| {
            let part = state::at(location, |s| {
                let part = part_at(s, this.raw(), at, location);
                s.frame().copied(part)
            });
            let result = function(Expr::from_raw(part));
            Expr::from_raw(state::at(location, |s| s.frame().copied(result.raw())))
        });
        array::<R, N>(parts)
    }
}

impl<T: KernelValue, const N: usize> ArrayMethods<T, N> for [T; N] {}

/// `[value; N]`.
#[track_caller]
pub fn repeat<T: KernelValue, const N: usize>(element: Expr<T>) -> Expr<[T; N]> {
    let location = Location::caller();
    Expr::from_raw(state::at(location, |s| {
        let element = s.value(element.raw(), location);
        Raw::Value(s.frame().function.repeat(element, N as u64))
    }))
}
