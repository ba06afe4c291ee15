//! Fields, elements, and assignments to them.

use std::ops::Range;
use std::panic::Location;

use quipu_kernel_ir::{BinaryOperation, Place, Projection, Root, Scalar, Space, Type, Value};

use super::data::KernelValue;
use super::expression::{Expr, Own, computed, spilled};
use super::handles::{parts_of, values};
use super::state::{self, Frame, Mode, Raw, State};
use crate::extent::{Extent, Vector};

/// `expression.name`, where the type of the whole is one of kernels.
pub trait FieldOfValue<T> {
    #[doc(hidden)]
    fn __field<R>(&self, of: Expr<T>, name: &str, witness: Option<R>) -> Expr<R>;
}

impl<T: KernelValue> FieldOfValue<T> for Own<T> {
    #[track_caller]
    fn __field<R>(&self, of: Expr<T>, name: &str, witness: Option<R>) -> Expr<R> {
        field(of, name, witness)
    }
}

impl<T: KernelValue> FieldOfValue<Range<T>> for Own<Range<T>> {
    #[track_caller]
    fn __field<R>(&self, of: Expr<Range<T>>, name: &str, _: Option<R>) -> Expr<R> {
        let location = Location::caller();
        let position = usize::from(name == "end");
        Expr::from_raw(state::at(location, |s| {
            part_at(s, of.raw(), position, location)
        }))
    }
}

/// As [`FieldOfValue`], of all other types, which are refused where the value comes from.
pub trait FieldOfOthers<T: ?Sized> {
    #[doc(hidden)]
    fn __field<R>(&self, of: Expr<T>, name: &str, witness: Option<R>) -> Expr<R>;
}

impl<T: ?Sized> FieldOfOthers<T> for &Own<T> {
    fn __field<R>(&self, _: Expr<T>, _: &str, _: Option<R>) -> Expr<R> {
        super::control::never()
    }
}

/// The type of the parts that a pattern `[a, b]` takes a value apart into.
pub trait TakenApart<P: 'static> {
    #[doc(hidden)]
    fn __part(&self) -> Option<&'static P> {
        None
    }
}

impl<T: 'static> TakenApart<T> for Own<[T]> {}
impl<T: 'static, const N: usize> TakenApart<T> for Own<[T; N]> {}
impl<const D: usize> TakenApart<usize> for Own<Vector<D>> {}
impl<const D: usize> TakenApart<usize> for Own<Extent<D>> {}

/// As [`TakenApart`], of all other types, of which rustc says natively that they have no parts.
pub trait NotTakenApart {
    #[doc(hidden)]
    fn __part(&self) -> Option<&'static usize> {
        None
    }
}

impl<T: ?Sized> NotTakenApart for &Own<T> {}

/// `expression.name`, of a struct or tuple. Its type is that of the witness.
#[track_caller]
pub fn field<T: KernelValue, R>(expression: Expr<T>, name: &str, _witness: Option<R>) -> Expr<R> {
    let location = Location::caller();
    Expr::from_raw(named_field(
        expression.raw(),
        name,
        T::FIELDS,
        T::ir_type,
        location,
    ))
}

fn named_field(
    raw: Raw,
    name: &str,
    fields: &[&str],
    of: fn(&mut State) -> Type,
    location: &'static Location<'static>,
) -> Raw {
    let position = fields.iter().position(|field| *field == name);
    // rustc has seen the same field.
    let Some(position) = position else {
        return Raw::Nothing;
    };
    state::at(location, |s| field_of(s, raw, position, location, of))
}

/// A field as a part of a struct pattern: of a reference to a struct it is a reference.
#[track_caller]
pub fn field_part<T: KernelValue, R>(
    expression: Expr<T>,
    name: &str,
    witness: Option<R>,
) -> Expr<R> {
    let part = field(expression, name, witness);
    match expression.raw() {
        Raw::Place(_, Mode::Reference) => super::expression::reference(part),
        _ => part,
    }
}

pub(super) fn field_of(
    s: &mut State,
    raw: Raw,
    position: usize,
    location: &'static Location<'static>,
    of: fn(&mut State) -> Type,
) -> Raw {
    let field_type = |s: &mut State| match of(s) {
        Type::Struct(id) => s.module.field_type(id, position),
        _ => Type::Unit,
    };
    match raw {
        Raw::Aggregate(id) => s.frame().parts(id)[position],
        Raw::Place(id, _) => {
            let (place, _) = s.frame().place_of(id).clone();
            let field_type = field_type(s);
            s.frame()
                .place(place.field(position as u32), field_type, Mode::Itself)
        }
        Raw::Value(value) => {
            let field_type = field_type(s);
            Raw::Value(s.frame().function.field(value, position as u32, field_type))
        }
        Raw::Nothing | Raw::Shared(_) => {
            s.refuse(location, "this has no fields");
            Raw::Nothing
        }
    }
}

/// Part of a tuple or array pattern.
#[track_caller]
pub fn part<T: ?Sized, R: ?Sized>(
    expression: Expr<T>,
    position: usize,
    _witness: Option<&R>,
) -> Expr<R> {
    Expr::from_raw(part_raw(expression.raw(), position, Location::caller()))
}

fn part_raw(raw: Raw, position: usize, location: &'static Location<'static>) -> Raw {
    state::at(location, |s| part_at(s, raw, position, location))
}

pub(super) fn part_at(
    s: &mut State,
    raw: Raw,
    position: usize,
    location: &'static Location<'static>,
) -> Raw {
    match (s.frame().type_of(raw), raw) {
        (_, Raw::Aggregate(id)) => s.frame().parts(id)[position],
        (Some(Type::Struct(id)), _) => {
            let of = s.module.field_type(id, position);
            match raw {
                Raw::Place(place, mode) => {
                    let (place, _) = s.frame().place_of(place).clone();
                    s.frame().place(place.field(position as u32), of, mode)
                }
                _ => {
                    let value = s.value(raw, location);
                    Raw::Value(s.frame().function.field(value, position as u32, of))
                }
            }
        }
        _ => {
            let index = s.frame().literal(Scalar::Index, position as u64);
            match (element(s, raw, index, location), raw) {
                // Of a reference to an array, references.
                (Raw::Place(element, _), Raw::Place(_, Mode::Reference)) => {
                    Raw::Place(element, Mode::Reference)
                }
                (element, _) => element,
            }
        }
    }
}

/// True if there are as many elements as a slice pattern has, or at least as many. Of an array
/// rustc has checked it.
#[track_caller]
pub fn has_length<T: ?Sized>(expression: Expr<T>, count: usize, or_more: bool) -> Expr<bool> {
    Expr::from_raw(has_length_raw(
        expression.raw(),
        count,
        or_more,
        Location::caller(),
    ))
}

fn has_length_raw(
    raw: Raw,
    count: usize,
    or_more: bool,
    location: &'static Location<'static>,
) -> Raw {
    state::at(location, |s| {
        let Some(Type::Slice { .. }) = s.frame().type_of(raw) else {
            return Raw::Value(s.frame().literal(Scalar::Bool, 1));
        };
        let operation = if or_more {
            BinaryOperation::GreaterEqual
        } else {
            BinaryOperation::Equal
        };
        let length = length(s, raw, location);
        let count = s.frame().literal(Scalar::Index, count as u64);
        Raw::Value(s.frame().function.binary(operation, length, count))
    })
}

/// `expression[index]`.
#[track_caller]
pub(super) fn index<T: ?Sized, I, R: ?Sized>(
    expression: Expr<T>,
    index: Expr<I>,
    _witness: Option<&R>,
) -> Expr<R> {
    Expr::from_raw(index_at(expression.raw(), index.raw(), Location::caller()))
}

fn index_at(raw: Raw, index: Raw, location: &'static Location<'static>) -> Raw {
    state::at(location, |s| {
        let index = s.frame().copied(index);
        index_raw(s, raw, index, location)
    })
}

fn index_raw(s: &mut State, raw: Raw, index: Raw, location: &'static Location<'static>) -> Raw {
    if let Some(parts) = parts_of(s, index, location) {
        let elements = match view_of(s, raw) {
            Some(view) if view.extent.len() == parts.len() => {
                return view_element(s, &view, &parts, location);
            }
            Some(view) => Raw::Value(view.elements),
            None => raw,
        };
        if let [start, end] = parts[..] {
            return slice(s, elements, (start, end), location);
        }
        // With its last element: see `range_inclusive`.
        if let [start, last, Raw::Nothing] = parts[..] {
            let last = s.value(last, location);
            let one = s.frame().literal(Scalar::Index, 1);
            // Of the greatest number there is no end: so it is beyond every slice.
            let end = s
                .frame()
                .function
                .binary(BinaryOperation::SaturatingAdd, last, one);
            return slice(s, elements, (start, Raw::Value(end)), location);
        }
    }
    // Of a known number of parts, one that is known.
    if let (Raw::Aggregate(id), Some(known)) = (raw, s.frame().known(index))
        && view_of(s, raw).is_none()
        && let Some(part) = s.frame().parts(id).get(known as usize)
    {
        return *part;
    }
    if let Some(view) = view_of(s, raw) {
        return view_element(s, &view, &[index], location);
    }
    let index = s.value(index, location);
    element(s, raw, index, location)
}

/// An array in several dimensions: its slice, then its extent, then its strides.
pub(super) struct ViewParts {
    pub(super) elements: Value,
    pub(super) extent: Vec<Value>,
    pub(super) strides: Vec<Value>,
}

/// A view is an aggregate of an aggregate (extent, strides, and of a tile where in the output it
/// starts), and a slice.
pub(super) fn view_raw(s: &mut State, view: &ViewParts) -> Raw {
    view_with_start(s, view, &[])
}

/// A view that is part of an output, and starts at a position of that.
pub(super) fn view_with_start(s: &mut State, view: &ViewParts, start: &[Value]) -> Raw {
    let frame = s.frame();
    let shape = [&view.extent, &view.strides, start]
        .map(|parts| frame.aggregate(parts.iter().copied().map(Raw::Value).collect(), None));
    let shape = frame.aggregate(shape.into(), None);
    frame.aggregate(vec![shape, Raw::Value(view.elements)], None)
}

/// The position in the output at which a view starts that is part of one.
pub(super) fn start_of(
    s: &mut State,
    raw: Raw,
    location: &'static Location<'static>,
) -> Vec<Value> {
    if let Raw::Aggregate(id) = raw
        && let &[Raw::Aggregate(shape), _] = s.frame().parts(id)
        && let &[_, _, start] = s.frame().parts(shape)
    {
        return values(s, start, location);
    }
    s.refuse(location, "this is no part of an output");
    Vec::new()
}

pub(super) fn view_of(s: &mut State, raw: Raw) -> Option<ViewParts> {
    let frame = s.frame();
    let Raw::Aggregate(id) = raw else { return None };
    if frame.type_of(raw).is_some() {
        return None;
    }
    let &[Raw::Aggregate(shape), Raw::Value(elements)] = frame.parts(id) else {
        return None;
    };
    let &[Raw::Aggregate(extent), Raw::Aggregate(strides), _] = frame.parts(shape) else {
        return None;
    };
    let values = |parts: &[Raw]| {
        parts
            .iter()
            .map(|part| match part {
                Raw::Value(value) => Some(*value),
                _ => None,
            })
            .collect::<Option<Vec<_>>>()
    };
    Some(ViewParts {
        elements,
        extent: values(frame.parts(extent))?,
        strides: values(frame.parts(strides))?,
    })
}

/// The element of a view at a position. Each component is checked: one that is outside makes the
/// place one past the end, which is a fault.
fn view_element(
    s: &mut State,
    view: &ViewParts,
    position: &[Raw],
    location: &'static Location<'static>,
) -> Raw {
    let position: Vec<_> = position.iter().map(|raw| s.value(*raw, location)).collect();
    let frame = s.frame();
    let f = &mut frame.function;
    let mut inside = None;
    let mut place = None;
    for ((at, extent), stride) in position.iter().zip(&view.extent).zip(&view.strides) {
        let within = f.binary(BinaryOperation::Less, *at, *extent);
        inside = Some(match inside {
            Some(before) => f.binary(BinaryOperation::And, before, within),
            None => within,
        });
        let way = f.binary(BinaryOperation::Multiply, *at, *stride);
        place = Some(match place {
            Some(before) => f.binary(BinaryOperation::Add, before, way),
            None => way,
        });
    }
    let (Some(inside), Some(place)) = (inside, place) else {
        return Raw::Nothing;
    };
    let outside = f.length(view.elements);
    let place = f.select(inside, place, outside);
    element(s, Raw::Value(view.elements), place, location)
}

/// The type of the elements of a type that has some.
fn elements_of(of: &Type) -> Option<Type> {
    match of {
        Type::Slice { element, .. } | Type::Array(element, _) => Some((**element).clone()),
        _ => None,
    }
}

/// The element with a number, checked.
pub(super) fn element(
    s: &mut State,
    raw: Raw,
    index: Value,
    location: &'static Location<'static>,
) -> Raw {
    indexed(s, raw, index, true, location)
}

/// The element with a number, which is checked unless it is known to be inside.
pub(super) fn indexed(
    s: &mut State,
    raw: Raw,
    index: Value,
    checked: bool,
    location: &'static Location<'static>,
) -> Raw {
    let projection = Projection::Index { index, checked };
    let raw = match raw {
        Raw::Value(value) if !matches!(s.frame().function.type_of(value), Type::Slice { .. }) => {
            spilled(s, raw, Mode::Itself)
        }
        Raw::Aggregate(_) => match s.constant(raw) {
            Some(constant) => constant,
            None => {
                let value = s.value(raw, location);
                spilled(s, Raw::Value(value), Mode::Itself)
            }
        },
        _ => raw,
    };
    match raw {
        Raw::Value(slice) => {
            let of = elements_of(s.frame().function.type_of(slice));
            let place = Place {
                root: Root::Slice(slice),
                path: vec![projection],
            };
            s.frame()
                .place(place, of.unwrap_or(Type::Unit), Mode::Itself)
        }
        Raw::Place(id, _) => {
            let (mut place, of) = s.frame().place_of(id).clone();
            match &of {
                // A variable that holds a slice.
                Type::Slice { .. } => {
                    let slice = s.value(raw, location);
                    indexed(s, Raw::Value(slice), index, checked, location)
                }
                Type::Array(element, _) => {
                    place.path.push(projection);
                    let element = (**element).clone();
                    s.frame().place(place, element, Mode::Itself)
                }
                _ => no_elements(s, location),
            }
        }
        Raw::Shared(shared) => {
            let of = s.shared_types[shared.0 as usize].clone();
            let place = Place {
                root: Root::Shared(shared),
                path: vec![projection],
            };
            s.frame().place(place, of, Mode::Itself)
        }
        Raw::Nothing | Raw::Aggregate(_) => no_elements(s, location),
    }
}

fn no_elements(s: &mut State, location: &'static Location<'static>) -> Raw {
    s.refuse(location, "this has no elements");
    Raw::Nothing
}

/// An array-like thing as a place, its elements' type, their address space, and true if they can be
/// written.
fn array_place(s: &mut State, raw: Raw) -> Option<(Place, Type, Space, bool)> {
    let raw = match raw {
        Raw::Value(value) if !matches!(s.frame().function.type_of(value), Type::Slice { .. }) => {
            spilled(s, raw, Mode::Itself)
        }
        Raw::Aggregate(_) => spilled(s, raw, Mode::Itself),
        _ => raw,
    };
    match raw {
        Raw::Value(slice) => match s.frame().function.type_of(slice).clone() {
            Type::Slice {
                element,
                space,
                mutable,
            } => Some((Place::slice(slice), *element, space, mutable)),
            _ => None,
        },
        Raw::Place(id, _) => {
            let (place, of) = s.frame().place_of(id).clone();
            match of {
                Type::Slice { .. } => {
                    let slice = s.frame().value(raw).ok()?;
                    array_place(s, Raw::Value(slice))
                }
                Type::Array(element, _) => {
                    let (space, mutable) = match place.root {
                        Root::Local(_) => (Space::Private, true),
                        Root::Shared(_) => (Space::Shared, true),
                        // There are no slices of it: of a copy.
                        Root::Constant(_) => {
                            let copy = spilled(s, raw, Mode::Itself);
                            return array_place(s, copy);
                        }
                        Root::Slice(slice) => match s.frame().function.type_of(slice) {
                            Type::Slice { space, mutable, .. } => (*space, *mutable),
                            _ => return None,
                        },
                    };
                    Some((place, *element, space, mutable))
                }
                _ => None,
            }
        }
        Raw::Shared(shared) => {
            let of = s.shared_types[shared.0 as usize].clone();
            Some((Place::shared(shared), of, Space::Shared, true))
        }
        Raw::Nothing | Raw::Aggregate(_) => None,
    }
}

/// Part of an array or slice, from a start to an end; a missing one is the array's own.
pub(super) fn slice(
    s: &mut State,
    raw: Raw,
    (start, end): (Raw, Raw),
    location: &'static Location<'static>,
) -> Raw {
    let Some((place, element, space, mutable)) = array_place(s, raw) else {
        return no_elements(s, location);
    };
    let whole = start == Raw::Nothing && end == Raw::Nothing;
    if whole && matches!((place.root, place.path.is_empty()), (Root::Slice(_), true)) {
        return raw;
    }
    let range = (!whole).then(|| {
        let start = match start {
            Raw::Nothing => s.frame().literal(Scalar::Index, 0),
            raw => s.value(raw, location),
        };
        let end = match end {
            Raw::Nothing => Raw::Value(length_value(s, Raw::Nothing, Some(&place), location)),
            raw => raw,
        };
        (start, s.value(end, location))
    });
    Raw::Value(
        s.frame()
            .function
            .slice(place, range, element, space, mutable),
    )
}

/// All elements of an array-like thing, as a slice.
pub(super) fn whole_slice(s: &mut State, raw: Raw, location: &'static Location<'static>) -> Raw {
    slice(s, raw, (Raw::Nothing, Raw::Nothing), location)
}

/// `expression.len()`.
pub(super) fn length(s: &mut State, raw: Raw, location: &'static Location<'static>) -> Value {
    length_value(s, raw, None, location)
}

fn length_value(
    s: &mut State,
    raw: Raw,
    place: Option<&Place>,
    location: &'static Location<'static>,
) -> Value {
    let of_place = |frame: &mut Frame, place: &Place| match (place.root, place.path.is_empty()) {
        (Root::Slice(slice), true) => Some(frame.function.length(slice)),
        (Root::Shared(shared), true) => Some(frame.function.shared_length(shared)),
        _ => None,
    };
    if let Some(place) = place
        && let Some(length) = of_place(s.frame(), place)
    {
        return length;
    }
    let of = match place {
        Some(place) => s.frame().type_at(place),
        None => s.frame().type_of(raw),
    };
    match (of, raw) {
        (_, Raw::Shared(shared)) => s.frame().function.shared_length(shared),
        (Some(Type::Array(_, length)), _) => s.frame().literal(Scalar::Index, length),
        (Some(Type::Slice { .. }), _) => {
            let slice = s.value(raw, location);
            s.frame().function.length(slice)
        }
        _ => {
            s.refuse(location, "this has no length");
            s.frame().literal(Scalar::Index, 0)
        }
    }
}

/// `start..end`, and with one of them missing.
pub(super) fn range<T: KernelValue>(start: Option<Expr<T>>, end: Option<Expr<T>>) -> Raw {
    let part = |expression: Option<Expr<T>>| expression.map_or(Raw::Nothing, Expr::raw);
    let parts = vec![part(start), part(end)];
    state::at(Location::caller(), |s| s.frame().aggregate(parts, None))
}

/// `start..end`.
#[track_caller]
pub fn range_of<T: KernelValue>(start: Expr<T>, end: Expr<T>) -> Expr<Range<T>> {
    Expr::from_raw(range(Some(start), Some(end)))
}

/// `start..=last`: of three parts, of which the third is nothing and tells it from a range without
/// its end.
#[track_caller]
pub fn range_inclusive<T: KernelValue>(
    start: Expr<T>,
    last: Expr<T>,
) -> Expr<std::ops::RangeInclusive<T>> {
    let parts = vec![start.raw(), last.raw(), Raw::Nothing];
    let location = Location::caller();
    Expr::from_raw(state::at(location, |s| s.frame().aggregate(parts, None)))
}

/// `..=last`, of indices.
#[track_caller]
pub fn range_to_inclusive(last: Expr<usize>) -> Expr<std::ops::RangeToInclusive<usize>> {
    let parts = vec![Raw::Nothing, last.raw(), Raw::Nothing];
    let location = Location::caller();
    Expr::from_raw(state::at(location, |s| s.frame().aggregate(parts, None)))
}

/// `std::mem::swap(&mut a, &mut b)`.
#[track_caller]
pub fn swap<T: ?Sized>(a: Expr<T>, b: Expr<T>) -> Expr<()> {
    let location = Location::caller();
    state::at(location, |s| {
        let [first, second] = [a, b].map(|place| s.value(place.raw(), location));
        store(s, a.raw(), second, location);
        store(s, b.raw(), first, location);
    });
    super::control::nothing()
}

/// `std::mem::replace(&mut place, new)`: gives the old value.
#[track_caller]
pub fn replace<T: KernelValue>(place: Expr<T>, new: Expr<T>) -> Expr<T> {
    let location = Location::caller();
    Expr::from_raw(state::at(location, |s| {
        let [old, new] = [place, new].map(|value| s.value(value.raw(), location));
        store(s, place.raw(), new, location);
        Raw::Value(old)
    }))
}

/// `std::mem::take(&mut place)`.
#[track_caller]
pub fn take<T: KernelValue + Default>(place: Expr<T>) -> Expr<T> {
    replace(place, computed(&T::default))
}

/// `start..`.
#[track_caller]
pub fn range_from<T: KernelValue>(start: Expr<T>) -> Expr<std::ops::RangeFrom<T>> {
    Expr::from_raw(range(Some(start), None))
}

/// `..end`, of indices.
#[track_caller]
pub fn range_to(end: Expr<usize>) -> Expr<std::ops::RangeTo<usize>> {
    Expr::from_raw(range(None, Some(end)))
}

/// `..`.
#[track_caller]
pub fn range_full() -> Expr<std::ops::RangeFull> {
    Expr::from_raw(range::<usize>(None, None))
}

/// `place = value`.
#[track_caller]
pub fn assign<T: ?Sized>(to: Expr<T>, from: Expr<T>) {
    assign_at(to.raw(), from.raw(), Location::caller());
}

fn assign_at(to: Raw, from: Raw, location: &'static Location<'static>) {
    state::at(location, |s| assign_raw(s, to, from, location));
}

/// The error for an assignment of a reference or a view.
const REPLACED: &str =
    "a variable cannot be made to refer to something else; use an index, or a variable for each";

pub(super) fn assign_raw(s: &mut State, to: Raw, from: Raw, location: &'static Location<'static>) {
    if to == from {
        return; // a shared array that a barrier turned, say
    }
    match (to, from) {
        (_, Raw::Place(_, Mode::Reference)) | (Raw::Place(_, Mode::Reference), _)
            if matches!(s.frame().type_of(to), Some(Type::Slice { .. })) =>
        {
            let value = s.value(from, location);
            store(s, to, value, location);
        }
        (Raw::Place(..), Raw::Shared(_))
            if matches!(s.frame().type_of(to), Some(Type::Slice { .. })) =>
        {
            let slice = whole_slice(s, from, location);
            let value = s.value(slice, location);
            store(s, to, value, location);
        }
        (_, Raw::Place(_, Mode::Reference)) => s.refuse(location, REPLACED),
        (to, _) if view_of(s, to).is_some() => s.refuse(location, REPLACED),
        (Raw::Aggregate(to), from) => {
            // A destructuring assignment.
            let parts = s.frame().parts(to).to_vec();
            for (position, to) in parts.into_iter().enumerate() {
                let from = part_at(s, from, position, location);
                assign_raw(s, to, from, location);
            }
        }
        (Raw::Nothing, _) => {}
        (to, from) => {
            let value = s.value(from, location);
            store(s, to, value, location);
        }
    }
}

fn store(s: &mut State, to: Raw, value: Value, location: &'static Location<'static>) {
    match to {
        Raw::Place(id, _) => {
            let (place, _) = s.frame().place_of(id).clone();
            s.frame().function.store(place, value);
        }
        _ => s.refuse(location, "this is no place that can be assigned to"),
    }
}

/// `place op= value`.
pub(super) fn compound_at(
    operation: BinaryOperation,
    to: Raw,
    from: Raw,
    location: &'static Location<'static>,
) {
    state::at(location, |s| {
        let old = s.value(to, location);
        let from = s.value(from, location);
        if s.frame().function.type_of(old).scalar().is_none() {
            s.refuse(location, super::expression::OPERATORS);
        }
        let new = s.frame().function.binary(operation, old, from);
        store(s, to, new, location);
    });
}
