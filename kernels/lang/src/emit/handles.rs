//! Parameters of a kernel that are no values: outputs, views, shared arrays; and the accelerator,
//! whose methods are in `accelerator`.
//!
//! Each has a type here that stands for it, and has the builders of its methods: for `y.each()` the
//! macro writes `subject(&y).__method_each(y)`, and rustc finds it as it finds `each`.

use std::marker::PhantomData;
use std::ops::{Index, Range};
use std::panic::Location;

use quipu_kernel_ir::{BinaryOperation, Place, Scalar, Type, Value};

use super::control::nothing;
use super::data::KernelValue;
use super::expression::{Expr, Sample, spilled};
use super::iterate::{Iterate, both_ends, numbered};
use super::place::{self, ViewParts, view_of};
use super::repeat::{Loop, begin_elements};
use super::share::Apart;
use super::state::{self, Mode, Raw, State};
use crate::extent::{Extent, Vector};

/// The accelerator of a kernel whose source is made.
#[derive(Debug)]
pub struct Sketch<const D: usize>;

/// Stands for [`OwnElements`](crate::OwnElements).
#[derive(Debug)]
pub struct OwnElementsHandle<T, const D: usize>(PhantomData<fn() -> T>);

/// The iterator of `y.each()`.
#[derive(Debug)]
pub struct EachHandle<T, const D: usize>(PhantomData<fn() -> T>);

/// The iterator of `y.iter_mut()`.
#[derive(Debug)]
pub struct IterMutHandle<T, const D: usize>(PhantomData<fn() -> T>);

/// The iterator of `y.rows()`.
#[derive(Debug)]
pub struct RowsHandle<T, const D: usize>(PhantomData<fn() -> T>);

/// The iterator of `acc.elements(extent)`.
#[derive(Debug)]
pub struct IndicesHandle<const D: usize>;

/// Stands for [`GlobalRef`](crate::GlobalRef).
#[derive(Debug)]
pub struct GlobalRefHandle<T, const D: usize>(PhantomData<fn() -> T>);

/// Stands for [`RawMut`](crate::RawMut), and so for [`SharedRaw`](crate::SharedRaw): of a buffer,
/// or of a shared array.
#[derive(Debug)]
pub struct RawMutHandle<T>(PhantomData<fn() -> T>);

/// Stands for [`SharedWrite`](crate::SharedWrite).
#[derive(Debug)]
pub struct SharedWriteHandle<T>(PhantomData<fn() -> T>);

/// Stands for [`SharedRead`](crate::SharedRead).
#[derive(Debug)]
pub struct SharedReadHandle<T>(PhantomData<fn() -> T>);

macro_rules! samples {
    ($([$($generics:tt)*] $type:ty = $value:expr;)*) => {$(
        impl<$($generics)*> Sample for $type {
            fn sample() -> &'static Self {
                &$value
            }
        }
    )*};
}

samples! {
    [const D: usize] Sketch<D> = Self;
    [T, const D: usize] OwnElementsHandle<T, D> = Self(PhantomData);
    [T, const D: usize] EachHandle<T, D> = Self(PhantomData);
    [T, const D: usize] IterMutHandle<T, D> = Self(PhantomData);
    [T, const D: usize] RowsHandle<T, D> = Self(PhantomData);
    [const D: usize] IndicesHandle<D> = Self;
    [T, const D: usize] GlobalRefHandle<T, D> = Self(PhantomData);
    [T] RawMutHandle<T> = Self(PhantomData);
    [T] SharedWriteHandle<T> = Self(PhantomData);
    [T] SharedReadHandle<T> = Self(PhantomData);
}

pub(super) fn of_value<T: ?Sized>(value: Value) -> Expr<T> {
    Expr::from_raw(Raw::Value(value))
}

/// As many values as there are dimensions.
pub(super) fn components<const D: usize, T: ?Sized>(
    location: &'static Location<'static>,
    mut component: impl FnMut(&mut State, u8) -> Value,
) -> Expr<T> {
    Expr::from_raw(state::at(location, |s| {
        let parts = (0..D).map(|d| Raw::Value(component(s, d as u8))).collect();
        components_of(s, parts)
    }))
}

/// Components of a position or extent.
pub(super) fn components_of(s: &mut State, parts: Vec<Raw>) -> Raw {
    s.frame().aggregate(parts, None)
}

/// The parts of a value that has some: a range, position or array, be it in a variable or not.
pub(super) fn parts_of(
    s: &mut State,
    raw: Raw,
    location: &'static Location<'static>,
) -> Option<Vec<Raw>> {
    if let Raw::Aggregate(id) = raw {
        return Some(s.frame().parts(id).to_vec());
    }
    let Some(Type::Array(_, length)) = s.frame().type_of(raw) else {
        return None;
    };
    let array = match raw {
        Raw::Value(_) => spilled(s, raw, Mode::Itself),
        raw => raw,
    };
    let parts = (0..length).map(|number| {
        let index = s.frame().literal(Scalar::Index, number);
        let element = place::indexed(s, array, index, false, location);
        Raw::Value(s.value(element, location))
    });
    Some(parts.collect())
}

/// The components of an extent or position, or of one that is a number.
pub(super) fn values(s: &mut State, raw: Raw, location: &'static Location<'static>) -> Vec<Value> {
    let parts = parts_of(s, raw, location).unwrap_or_else(|| vec![raw]);
    let parts = parts.into_iter();
    parts.map(|part| s.value(part, location)).collect()
}

/// The number of a position in an extent, row by row.
pub(super) fn linear(s: &mut State, extent: &[Value], position: &[Value]) -> Value {
    let f = &mut s.frame().function;
    let mut number = position[0];
    for (extent, at) in extent.iter().zip(position).skip(1) {
        number = f.binary(BinaryOperation::Multiply, number, *extent);
        number = f.binary(BinaryOperation::Add, number, *at);
    }
    number
}

/// The number of positions of an extent.
pub(super) fn product(s: &mut State, extent: &[Value]) -> Value {
    let f = &mut s.frame().function;
    let mut product = extent[0];
    for size in &extent[1..] {
        product = f.binary(BinaryOperation::Multiply, product, *size);
    }
    product
}

pub(super) fn barrier_count(
    s: &mut State,
    predicate: Expr<bool>,
    location: &'static Location<'static>,
) -> Value {
    let predicate = s.value(predicate.raw(), location);
    s.frame().function.barrier_count(predicate)
}

#[doc(hidden)]
impl<T: KernelValue, const D: usize> OwnElementsHandle<T, D> {
    pub fn __method_each(&self, this: Expr<Self>) -> Expr<EachHandle<T, D>> {
        Expr::from_raw(this.raw())
    }

    pub fn __method_iter_mut(&self, this: Expr<Self>) -> Expr<IterMutHandle<T, D>> {
        Expr::from_raw(this.raw())
    }

    pub fn __method_rows(&self, this: Expr<Self>) -> Expr<RowsHandle<T, D>> {
        Expr::from_raw(this.raw())
    }

    #[track_caller]
    pub fn __method_extent(&self, this: Expr<Self>) -> Expr<Extent<D>> {
        extent_of(this, Location::caller())
    }
}

/// The extent of a view.
fn extent_of<H: ?Sized, const D: usize>(
    this: Expr<H>,
    location: &'static Location<'static>,
) -> Expr<Extent<D>> {
    let view = state::at(location, |s| view_at(s, this.raw(), D, location));
    components::<D, _>(location, |_, d| view.extent[usize::from(d)])
}

/// A view of so many dimensions; after a problem, and where nothing is reached, all zeros.
pub(super) fn view_at(
    s: &mut State,
    raw: Raw,
    dimensions: usize,
    location: &'static Location<'static>,
) -> ViewParts {
    if let Some(view) = view_of(s, raw) {
        return view;
    }
    s.refuse(location, "this is no view");
    let zero = s.frame().literal(Scalar::Index, 0);
    ViewParts {
        elements: zero,
        extent: vec![zero; dimensions],
        strides: vec![zero; dimensions],
    }
}

/// The place of the element of a view at a position that is inside.
pub(super) fn own_place(s: &mut State, view: &ViewParts, position: &[Value]) -> Value {
    let f = &mut s.frame().function;
    let mut place = None;
    for (dimension, (at, stride)) in position.iter().zip(&view.strides).enumerate() {
        // Neighbours along the last dimension touch.
        let way = if dimension + 1 == position.len() {
            *at
        } else {
            f.binary(BinaryOperation::Multiply, *at, *stride)
        };
        place = Some(match place {
            Some(before) => f.binary(BinaryOperation::Add, before, way),
            None => way,
        });
    }
    place.unwrap_or(view.elements)
}

impl<T: KernelValue, const D: usize> Iterate for RowsHandle<T, D> {
    type Item = (Vector<D>, [T]);
    type Share = Apart;

    fn begin(s: &mut State, over: Raw, location: &'static Location<'static>) -> (Loop<()>, Raw) {
        let view = view_at(s, over, D, location);
        let (this, position) = begin_elements(s, view.extent.clone(), location);
        // A row of one element: which elements neighbour each other is the target's choice.
        let place = own_place(s, &view, &position);
        let one = s.frame().literal(Scalar::Index, 1);
        let end = s.frame().function.binary(BinaryOperation::Add, place, one);
        let of = T::ir_type(s);
        let row = s.frame().function.slice_within(
            Place::slice(view.elements),
            (place, end),
            of,
            quipu_kernel_ir::Space::Global,
            true,
        );
        let position = position.into_iter().map(Raw::Value).collect();
        let position = s.frame().aggregate(position, None);
        (this, numbered(s, position, Raw::Value(row)))
    }
}

/// A place as a reference to it.
pub(super) fn referred(raw: Raw) -> Raw {
    match raw {
        Raw::Place(id, _) => Raw::Place(id, Mode::Reference),
        raw => raw,
    }
}

#[doc(hidden)]
impl<T: KernelValue, const D: usize> GlobalRefHandle<T, D> {
    #[track_caller]
    pub fn __method_extent(&self, this: Expr<Self>) -> Expr<Extent<D>> {
        extent_of(this, Location::caller())
    }
}

#[doc(hidden)]
impl<T: KernelValue> GlobalRefHandle<T, 1> {
    #[track_caller]
    pub fn __method_len(&self, this: Expr<Self>) -> Expr<usize> {
        let location = Location::caller();
        of_value(state::at(location, |s| {
            view_at(s, this.raw(), 1, location).extent[0]
        }))
    }
}

macro_rules! never_indexed {
    ($([$($generics:tt)*] $handle:ty, $index:ty => $output:ty;)*) => {$(
        impl<$($generics)*> Index<$index> for $handle {
            type Output = $output;

            fn index(&self, _: $index) -> &$output {
                unreachable!("only code that is never run asks for the value of an expression")
            }
        }
    )*};
}

never_indexed! {
    [T, const D: usize] GlobalRefHandle<T, D>, [usize; D] => T;
    [T, const D: usize] GlobalRefHandle<T, D>, Vector<D> => T;
    [T] GlobalRefHandle<T, 1>, usize => T;
    [T] GlobalRefHandle<T, 1>, std::ops::Range<usize> => [T];
    [T] GlobalRefHandle<T, 1>, std::ops::RangeFrom<usize> => [T];
    [T] GlobalRefHandle<T, 1>, std::ops::RangeTo<usize> => [T];
    [T] GlobalRefHandle<T, 1>, std::ops::RangeFull => [T];
    [T] GlobalRefHandle<T, 1>, std::ops::RangeInclusive<usize> => [T];
    [T] GlobalRefHandle<T, 1>, std::ops::RangeToInclusive<usize> => [T];
    [T] SharedReadHandle<T>, usize => T;
    [T] SharedReadHandle<T>, std::ops::Range<usize> => [T];
    [T] SharedReadHandle<T>, std::ops::RangeFrom<usize> => [T];
    [T] SharedReadHandle<T>, std::ops::RangeTo<usize> => [T];
    [T] SharedReadHandle<T>, std::ops::RangeFull => [T];
    [T] SharedReadHandle<T>, std::ops::RangeInclusive<usize> => [T];
    [T] SharedReadHandle<T>, std::ops::RangeToInclusive<usize> => [T];
}

/// Handles of types that cannot be indexed natively: rustc has said so of the user's own source,
/// and need not say it again.
macro_rules! indexed_nowhere {
    ($([$($generics:tt)*] $handle:ty => $output:ty;)*) => {$(
        impl<At, $($generics)*> Index<At> for $handle {
            type Output = $output;

            fn index(&self, _: At) -> &$output {
                unreachable!("only code that is never run asks for the value of an expression")
            }
        }
    )*};
}

indexed_nowhere! {
    [T, const D: usize] OwnElementsHandle<T, D> => T;
    [T, const D: usize] super::own::OwnBlockTileHandle<T, D> => T;
    [T] super::own::OwnRowsHandle<T> => [T];
    [T] RawMutHandle<T> => T;
    [T] SharedWriteHandle<T> => T;
    [T, const SCOPE: u8] super::together::AtomicsHandle<T, SCOPE> => T;
}

#[doc(hidden)]
impl<T: KernelValue> RawMutHandle<T> {
    #[track_caller]
    pub fn __method_len(&self, this: Expr<Self>) -> Expr<usize> {
        let location = Location::caller();
        of_value(state::at(location, |s| {
            place::length(s, this.raw(), location)
        }))
    }

    #[track_caller]
    pub fn __method_is_empty(&self, this: Expr<Self>) -> Expr<bool> {
        let location = Location::caller();
        of_value(state::at(location, |s| {
            let length = place::length(s, this.raw(), location);
            let zero = s.frame().literal(Scalar::Index, 0);
            s.frame()
                .function
                .binary(BinaryOperation::Equal, length, zero)
        }))
    }

    #[track_caller]
    pub fn __method_read(&self, this: Expr<Self>, index: Expr<usize>) -> Expr<T> {
        let location = Location::caller();
        of_value(state::at(location, |s| {
            let index = s.value(index.raw(), location);
            let element = place::element(s, this.raw(), index, location);
            s.value(element, location)
        }))
    }

    #[track_caller]
    pub fn __method_write(&self, this: Expr<Self>, index: Expr<usize>, value: Expr<T>) -> Expr<()> {
        let location = Location::caller();
        let element = state::at(location, |s| {
            let index = s.value(index.raw(), location);
            place::element(s, this.raw(), index, location)
        });
        place::assign(Expr::<T>::from_raw(element), value);
        nothing()
    }

    #[track_caller]
    pub fn __method_slice(&self, this: Expr<Self>, range: Expr<Range<usize>>) -> Expr<[T]> {
        self.__method_slice_mut(this, range)
    }

    #[track_caller]
    pub fn __method_slice_mut(&self, this: Expr<Self>, range: Expr<Range<usize>>) -> Expr<[T]> {
        let location = Location::caller();
        Expr::from_raw(state::at(location, |s| {
            let (start, end) = both_ends(s, range.raw(), location);
            let ends = (Raw::Value(start), Raw::Value(end));
            place::slice(s, this.raw(), ends, location)
        }))
    }
}

/// `dividend / divisor`, rounded up; of indices, the divisor not zero.
pub(super) fn ceiling_division(s: &mut State, dividend: Value, divisor: Value) -> Value {
    let f = &mut s.frame().function;
    let quotient = f.binary(BinaryOperation::Divide, dividend, divisor);
    let remainder = f.binary(BinaryOperation::Remainder, dividend, divisor);
    let zero = f.index_literal(0);
    let one = f.index_literal(1);
    let is_more = f.binary(BinaryOperation::NotEqual, remainder, zero);
    let rest = f.select(is_more, one, zero);
    f.binary(BinaryOperation::Add, quotient, rest)
}

/// The part with a number of so many elements each, of a length: its start and its end.
pub(super) fn part_of(s: &mut State, number: Value, share: Value, length: Value) -> (Value, Value) {
    let f = &mut s.frame().function;
    let start = f.binary(BinaryOperation::Multiply, number, share);
    let start = f.binary(BinaryOperation::Minimum, start, length);
    let end = f.binary(BinaryOperation::Add, start, share);
    let end = f.binary(BinaryOperation::Minimum, end, length);
    (start, end)
}
