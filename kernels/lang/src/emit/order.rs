//! Orders of structs, as std derives them: by the first fields that differ.

use std::cmp::{Ordering, Reverse};
use std::marker::PhantomData;
use std::panic::Location;

use quipu_kernel_ir::{BinaryOperation, Scalar, Type, Value};

use super::checked::OrderingCalls as _;
use super::data::{KernelValue, derived_literal, derived_type};
use super::expression::{Expr, ORDER, assert, binary, value};
use super::operator::{Equality, Operates};
use super::option::either;
use super::place;
use super::state::{self, Raw, State};
use super::variant::{VARIANT, variant_of_number};

/// A struct with `#[device]` above a derived `PartialOrd`.
pub trait DerivedOrder: KernelValue {
    #[doc(hidden)]
    fn derived_order(this: Expr<Self>, other: Expr<Self>) -> Expr<Option<Ordering>>;
}

/// Asks whether a type has a [`DerivedOrder`]. There are two methods of one name, of which the
/// first is that of types which have.
#[derive(Debug)]
pub struct OrderOf<T>(PhantomData<fn() -> T>);

impl<T> OrderOf<T> {
    #[doc(hidden)]
    #[must_use]
    pub fn new() -> Self {
        Self(PhantomData)
    }
}

/// Types that have one.
pub trait WithOrder<T> {
    #[doc(hidden)]
    fn __order(&self, this: Expr<T>, other: Expr<T>) -> Option<Expr<Option<Ordering>>>;
}

/// All others.
pub trait WithoutOrder<T> {
    #[doc(hidden)]
    fn __order(&self, this: Expr<T>, other: Expr<T>) -> Option<Expr<Option<Ordering>>>;
}

impl<T: DerivedOrder> WithOrder<T> for OrderOf<T> {
    #[track_caller]
    fn __order(&self, this: Expr<T>, other: Expr<T>) -> Option<Expr<Option<Ordering>>> {
        Some(T::derived_order(this, other))
    }
}

impl<T> WithoutOrder<T> for &OrderOf<T> {
    fn __order(&self, _: Expr<T>, _: Expr<T>) -> Option<Expr<Option<Ordering>>> {
        None
    }
}

/// The order of two fields.
#[track_caller]
pub fn order_of<T: KernelValue>(this: Expr<T>, other: Expr<T>) -> Expr<Option<Ordering>> {
    if let Some(order) = T::__order_of(this, other) {
        return order;
    }
    let location = Location::caller();
    let is_number = state::at(location, |s| T::ir_type(s).scalar().is_some());
    if !is_number || !T::is_ordered_by_number() {
        state::at(location, |s| s.refuse(location, ORDER));
        return super::option::none();
    }
    if T::IS_DERIVED {
        // An enum, by its numbers.
        let [one, other] = [this, other].map(|of| Expr::<i64>::from_raw(of.raw()));
        return i64::__call_partial_cmp(one, other);
    }
    T::__call_partial_cmp(this, other)
}

// SAFETY: the type has one field, and lies in no memory of devices.
unsafe impl<T: KernelValue> KernelValue for Reverse<T> {
    const FIELDS: &'static [&'static str] = &["0"];

    #[track_caller]
    fn __order_of(this: Expr<Self>, other: Expr<Self>) -> Option<Expr<Option<Ordering>>> {
        let [this, other] = [this, other].map(|of| place::field(of, "0", None::<T>));
        Some(order_of(other, this))
    }

    fn ir_type(state: &mut State) -> Type {
        derived_type::<Self>(state, "Reverse", &[T::ir_type], 1)
    }

    fn sample_value() -> Self {
        Self(T::sample_value())
    }

    fn literal(self, state: &mut State) -> Raw {
        let parts = vec![self.0.literal(state)];
        derived_literal::<Self>(state, parts)
    }
}

/// `one.partial_cmp(&other)`, of types with a derived order.
#[track_caller]
pub fn partially_compared<T: KernelValue>(one: Expr<T>, other: Expr<T>) -> Expr<Option<Ordering>> {
    order_of(value(one), value(other))
}

/// `one.cmp(&other)`, of types with a derived order.
#[track_caller]
pub fn compared<T: KernelValue>(one: Expr<T>, other: Expr<T>) -> Expr<Ordering> {
    place::field(order_of(value(one), value(other)), "Some.0", None)
}

/// Chooses one of two values: the first if the comparison of the second with the first holds, and
/// the second otherwise.
#[track_caller]
fn first_if<T: KernelValue>(one: Expr<T>, other: Expr<T>, than: BinaryOperation) -> Expr<T> {
    let location = Location::caller();
    let (one, other) = (value(one), value(other));
    either(
        holds(than, order_of(other, one), location),
        || one,
        || other,
    )
}

/// `one.min(other)`: of equals the first.
#[track_caller]
pub fn least<T: KernelValue>(one: Expr<T>, other: Expr<T>) -> Expr<T> {
    first_if(one, other, BinaryOperation::GreaterEqual)
}

/// `one.max(other)`: of equals the second.
#[track_caller]
pub fn greatest<T: KernelValue>(one: Expr<T>, other: Expr<T>) -> Expr<T> {
    first_if(one, other, BinaryOperation::Less)
}

/// `of.clamp(min, max)`.
#[track_caller]
pub fn clamped<T: KernelValue>(of: Expr<T>, min: Expr<T>, max: Expr<T>) -> Expr<T> {
    let location = Location::caller();
    let [of, min, max] = [of, min, max].map(value);
    let are_bounds = holds(BinaryOperation::LessEqual, order_of(min, max), location);
    assert(are_bounds, "assertion failed: min <= max", &[]);
    least(greatest(min, of), max)
}

/// The number of an order's variant, and the order that is in it.
fn parts(order: Expr<Option<Ordering>>, location: &'static Location<'static>) -> [Value; 2] {
    let number = place::field(order, VARIANT, None::<u32>).raw();
    let order = place::field(order, "Some.0", None::<Ordering>).raw();
    state::at(location, |s| {
        [number, order].map(|raw| s.value(raw, location))
    })
}

/// The first of these orders that is not that of equals.
#[track_caller]
pub fn lexicographic(orders: Vec<Expr<Option<Ordering>>>) -> Expr<Option<Ordering>> {
    let location = Location::caller();
    let after = |later: Expr<Option<Ordering>>, first: Expr<Option<Ordering>>| {
        let ([number, order], [later_number, later]) =
            (parts(first, location), parts(later, location));
        Expr::from_raw(state::at(location, |s| {
            let f = &mut s.frame().function;
            let (one, equal) = (f.literal(Scalar::U32, 1), f.literal(Scalar::I8, 0));
            let is_some = f.binary(BinaryOperation::Equal, number, one);
            let is_equal = f.binary(BinaryOperation::Equal, order, equal);
            let goes_on = f.binary(BinaryOperation::And, is_some, is_equal);
            let number = f.select(goes_on, later_number, number);
            let order = f.select(goes_on, later, order);
            variant_of_number::<Option<Ordering>>(s, number, vec![Raw::Value(order)])
        }))
    };
    let last = orders.into_iter().rev().reduce(after);
    last.unwrap_or_else(|| super::expression::lit(Some(Ordering::Equal)))
}

/// True if two values of an order are `Less`, `LessEqual` and so on: never, if they have none.
pub(super) fn holds(
    operation: BinaryOperation,
    order: Expr<Option<Ordering>>,
    location: &'static Location<'static>,
) -> Expr<bool> {
    let [number, order] = parts(order, location);
    Expr::from_raw(state::at(location, |s| {
        let f = &mut s.frame().function;
        let (one, equal) = (f.literal(Scalar::U32, 1), f.literal(Scalar::I8, 0));
        let is_some = f.binary(BinaryOperation::Equal, number, one);
        let is_so = f.binary(operation, order, equal);
        Raw::Value(f.binary(BinaryOperation::And, is_some, is_so))
    }))
}

/// True if all of these hold.
#[track_caller]
pub fn all_of(parts: Vec<Expr<bool>>) -> Expr<bool> {
    let both = |one, other| binary(BinaryOperation::And, one, other, None);
    let all = parts.into_iter().reduce(both);
    all.unwrap_or_else(|| super::expression::lit(true))
}

impl<const N: u8> Operates<Equality<N>> for Ordering {
    type Output = bool;

    #[track_caller]
    fn operate(this: Expr<Self>, other: Expr<Self>) -> Expr<bool> {
        let [one, other] = [this, other].map(|of| Expr::<i8>::from_raw(of.raw()));
        <i8 as Operates<Equality<N>>>::operate(one, other)
    }
}
