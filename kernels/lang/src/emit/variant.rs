//! Enums whose variants have fields, `Option` and `Result` among them.
//!
//! Devices have no such type. There a value of one is a struct: the number of its variant, and then
//! the fields of all variants, each named `Variant.field`. Those of other variants than the value's
//! have some value that is not used. So such values are computed with, and are in no buffer.

use std::panic::Location;

use quipu_kernel_ir::{BinaryOperation, Scalar, Type, Value};

use super::data::{KernelValue, derived_literal, structure_type};
use super::expression::{Expr, compare};
use super::place;
use super::state::{self, Raw, State};

/// The scalar type of a variant's number.
const NUMBER: Scalar = Scalar::U32;

/// The name of the field that has it.
pub(super) const VARIANT: &str = "variant";

/// The error for a variant that is named by another name than its own.
const RENAMED: &str =
    "kernels know variants by their names; name this one as its enum does, without `as`";

/// The error for a constant in a pattern that is a variant with fields.
const CONSTANT: &str = "a constant in a pattern is a variant without fields in kernels; name the variant, and a pattern for each field";

/// The type of an enum whose variants have fields, of the types of these.
#[doc(hidden)]
pub fn variants_type<T: KernelValue>(
    state: &mut State,
    name: &str,
    fields: &[fn(&mut State) -> Type],
) -> Type {
    let types = fields.iter().map(|field| match field(state) {
        // A field without bits: see `payload`.
        Type::Unit => Scalar::Bool.into(),
        of => of,
    });
    let types: Vec<_> = std::iter::once(NUMBER.into()).chain(types).collect();
    // Of types of one name there may be several, with other types in them.
    let key = format!("{} {types:?}", std::any::type_name::<T>());
    let fields = T::FIELDS.iter().copied().zip(types).collect();
    structure_type(state, key, name, fields, 1)
}

/// The value in a field of a variant. A struct has a field for a value without bits, too.
fn payload(s: &mut State, raw: Raw) -> Raw {
    match raw {
        Raw::Nothing => Raw::Value(s.frame().literal(Scalar::Bool, 0)),
        raw => raw,
    }
}

/// An aggregate that was put together without a type, as a number and an item are, with the type
/// that it has in a field.
fn typed(s: &mut State, raw: Raw, of: &Type) -> Raw {
    let Raw::Aggregate(id) = raw else {
        return raw;
    };
    if s.frame().type_of(raw).is_some() {
        return raw;
    }
    let parts = s.frame().parts(id).to_vec();
    let types = match of {
        Type::Struct(id) => s.module.field_types(*id),
        Type::Array(element, _) => vec![(**element).clone(); parts.len()],
        _ => return raw,
    };
    let parts = parts.into_iter().zip(types);
    let parts = parts.map(|(part, of)| typed(s, part, &of)).collect();
    s.frame().aggregate(parts, Some(of.clone()))
}

/// A constant of such an enum: the number of its variant, and all fields.
#[doc(hidden)]
pub fn variant_literal<T: KernelValue>(state: &mut State, number: usize, fields: Vec<Raw>) -> Raw {
    let number = Raw::Value(state.frame().literal(NUMBER, number as u64));
    let fields = fields.into_iter().map(|field| payload(state, field));
    let fields: Vec<_> = fields.collect();
    derived_literal::<T>(state, std::iter::once(number).chain(fields).collect())
}

/// A value of the variant with a number, which may not be known, and all fields.
pub(super) fn variant_of_number<T: KernelValue>(
    s: &mut State,
    number: Value,
    fields: Vec<Raw>,
) -> Raw {
    let parts = std::iter::once(Raw::Value(number)).chain(fields);
    derived_literal::<T>(s, parts.collect())
}

/// The number of a variant, of an enum whose variants have fields.
fn number_of<T: KernelValue>(name: &str, location: &'static Location<'static>) -> usize {
    let known = T::VARIANTS.iter().position(|variant| *variant == name);
    known.unwrap_or_else(|| {
        state::at(location, |s| s.refuse(location, RENAMED));
        0
    })
}

/// The place of a variant's field among all.
fn position_of<T: KernelValue>(variant: &str, field: &str) -> Option<usize> {
    let is_it = |name: &&str| name.split_once('.') == Some((variant, field));
    T::FIELDS.iter().position(is_it)
}

/// A value of a variant, of its fields by name.
pub(super) fn variant<T: KernelValue>(
    name: &str,
    fields: &[(&str, Raw)],
    location: &'static Location<'static>,
) -> Raw {
    let number = number_of::<T>(name, location);
    state::at(location, |s| {
        let any = T::sample_value().literal(s);
        let Raw::Aggregate(id) = any else {
            return any;
        };
        let mut parts = s.frame().parts(id).to_vec();
        parts[0] = Raw::Value(s.frame().literal(NUMBER, number as u64));
        let Type::Struct(of) = T::ir_type(s) else {
            return any;
        };
        for (field, raw) in fields {
            if let Some(position) = position_of::<T>(name, field) {
                let of = s.module.field_type(of, position);
                let raw = typed(s, *raw, &of);
                parts[position] = payload(s, raw);
            }
        }
        derived_literal::<T>(s, parts)
    })
}

/// The number of the variant that a value is of.
fn number<T: KernelValue>(of: Expr<T>) -> Expr<u32> {
    place::field(of, VARIANT, None::<u32>)
}

/// True if a value is of a variant, as a pattern with its name asks. A struct has none, and its
/// name always fits.
#[track_caller]
pub fn is_variant<T: KernelValue>(of: Expr<T>, name: &str) -> Expr<bool> {
    let location = Location::caller();
    if T::VARIANTS.is_empty() {
        return Expr::from_raw(state::at(location, |s| {
            Raw::Value(s.frame().literal(Scalar::Bool, 1))
        }));
    }
    let wanted = number_of::<T>(name, location);
    is_number(of, wanted as u64, location)
}

fn is_number<T: KernelValue>(
    of: Expr<T>,
    wanted: u64,
    location: &'static Location<'static>,
) -> Expr<bool> {
    let number = number(of).raw();
    Expr::from_raw(state::at(location, |s| {
        if let Some(known) = s.frame().known(number) {
            return Raw::Value(s.frame().literal(Scalar::Bool, u64::from(known == wanted)));
        }
        let number = s.value(number, location);
        let wanted = s.frame().literal(NUMBER, wanted);
        Raw::Value(
            s.frame()
                .function
                .binary(BinaryOperation::Equal, number, wanted),
        )
    }))
}

/// True if a value is equal to a constant in a pattern.
#[track_caller]
pub fn is_constant<T: KernelValue>(of: Expr<T>, constant: Expr<T>) -> Expr<bool> {
    if T::VARIANTS.is_empty() {
        return compare(BinaryOperation::Equal, of, constant);
    }
    let location = Location::caller();
    let known = number(constant).raw();
    let wanted = state::at(location, |s| {
        let wanted = s.frame().known(known).unwrap_or(0);
        let name = T::VARIANTS
            .get(wanted as usize)
            .copied()
            .unwrap_or_default();
        let has_name =
            |field: &&'static str| field.split_once('.').is_some_and(|(of, _)| of == name);
        if T::FIELDS.iter().any(has_name) {
            s.refuse(location, CONSTANT);
        }
        wanted
    });
    is_number(of, wanted, location)
}

/// The part of a struct or variant that a pattern names: of a reference to the whole it is a
/// reference.
#[track_caller]
pub fn pattern_part<T: KernelValue, R>(
    of: Expr<T>,
    variant: &str,
    field: &str,
    witness: Option<R>,
) -> Expr<R> {
    let location = Location::caller();
    if T::VARIANTS.is_empty() {
        return place::field_part(of, field, witness);
    }
    match position_of::<T>(variant, field) {
        // A value without bits is nothing again.
        Some(_) if size_of::<R>() == 0 => Expr::from_raw(Raw::Nothing),
        Some(position) => place::field_part(of, T::FIELDS[position], witness),
        None => {
            state::at(location, |s| s.refuse(location, RENAMED));
            Expr::from_raw(Raw::Nothing)
        }
    }
}

// SAFETY: it lies in no memory that devices share.
unsafe impl<T: KernelValue> KernelValue for Option<T> {
    const FIELDS: &'static [&'static str] = &[VARIANT, "Some.0"];
    const VARIANTS: &'static [&'static str] = &["None", "Some"];

    fn is_equal_by_number() -> bool {
        false
    }

    fn is_ordered_by_number() -> bool {
        false
    }

    fn ir_type(state: &mut State) -> Type {
        variants_type::<Self>(state, "Option", &[T::ir_type])
    }

    fn sample_value() -> Self {
        Some(T::sample_value())
    }

    fn literal(self, state: &mut State) -> Raw {
        let value = self.unwrap_or_else(T::sample_value).literal(state);
        variant_literal::<Self>(state, usize::from(self.is_some()), vec![value])
    }
}

// SAFETY: it lies in no memory that devices share.
unsafe impl<T: KernelValue, E: KernelValue> KernelValue for Result<T, E> {
    const FIELDS: &'static [&'static str] = &[VARIANT, "Ok.0", "Err.0"];
    const VARIANTS: &'static [&'static str] = &["Ok", "Err"];

    fn is_equal_by_number() -> bool {
        false
    }

    fn is_ordered_by_number() -> bool {
        false
    }

    fn ir_type(state: &mut State) -> Type {
        variants_type::<Self>(state, "Result", &[T::ir_type, E::ir_type])
    }

    fn sample_value() -> Self {
        Ok(T::sample_value())
    }

    fn literal(self, state: &mut State) -> Raw {
        let value = self.unwrap_or_else(|_| T::sample_value()).literal(state);
        let error = self.err().unwrap_or_else(E::sample_value).literal(state);
        variant_literal::<Self>(state, usize::from(self.is_err()), vec![value, error])
    }
}
