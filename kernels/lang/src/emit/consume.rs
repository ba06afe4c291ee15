//! Consumers of the items of an iterator: closures, sums and products, and questions. The macro
//! writes the loops.

use std::cmp::Ordering;
use std::panic::Location;

use quipu_kernel_ir::{BinaryOperation, Scalar, Type, UnaryOperation, Value};

use super::adapt::Items;
use super::data::KernelValue;
use super::expression::{Expr, bind_mut, lit, value, variable};
use super::iterate::{Iterate, begin_for, begin_items, binary};
use super::number::constant;
use super::option::none;
use super::place::{assign, assign_raw, compound_at};
use super::repeat::{self, Loop, end_loop, leave_unless};
use super::search::{extreme_by, extreme_by_key, find, without_key};
use super::state::{self, Raw, State};

/// An iterator, whose methods take closures. (An array has `map`, too, which is done with all
/// elements at once.)
#[diagnostic::on_unimplemented(
    message = "methods with closures are of iterators in kernels",
    label = "of an array write `.iter()` before them, or a `for` loop"
)]
pub trait Iterator {}

/// Methods of iterators that take items with closures, of a variable: the macro does not see its
/// type.
#[doc(hidden)]
pub trait TakingMethods: Iterate + Iterator + Sized {
    #[track_caller]
    fn __method_fold<T: ?Sized>(
        &self,
        this: Expr<Self>,
        first: Expr<T>,
        function: impl FnOnce(Expr<T>, Expr<Self::Item>) -> Expr<T>,
    ) -> Expr<T> {
        let total = bind_mut("total", value(first));
        let (this, item) = begin_for(this);
        assign(total, combined(value(total), item, function));
        end_loop(this);
        value(total)
    }

    #[track_caller]
    fn __method_for_each(
        &self,
        this: Expr<Self>,
        function: impl FnOnce(Expr<Self::Item>) -> Expr<()>,
    ) -> Expr<()> {
        let (this, item) = begin_for(this);
        function(item);
        end_loop(this)
    }

    #[track_caller]
    fn __method_any(
        &self,
        this: Expr<Self>,
        condition: impl FnOnce(Expr<Self::Item>) -> Expr<bool>,
    ) -> Expr<bool> {
        holds(this, false, condition)
    }

    #[track_caller]
    fn __method_find(
        &self,
        this: Expr<Self>,
        condition: impl FnOnce(Expr<Self::Item>) -> Expr<bool>,
    ) -> Expr<Option<Self::Item>>
    where
        Self::Item: KernelValue,
    {
        let found = bind_mut("found", none());
        let (this, item) = begin_for(this);
        find(found, item, condition(item), this);
        end_loop(this);
        value(found)
    }

    #[track_caller]
    fn __method_position(
        &self,
        this: Expr<Self>,
        condition: impl FnOnce(Expr<Self::Item>) -> Expr<bool>,
    ) -> Expr<Option<usize>> {
        let (found, count) = (bind_mut("found", none()), bind_mut("count", lit(0_usize)));
        let (this, item) = begin_for(this);
        find(found, value(count), condition(item), this);
        add(count, lit(1_usize));
        end_loop(this);
        value(found)
    }

    #[track_caller]
    fn __method_min_by_key<K: KernelValue>(
        &self,
        this: Expr<Self>,
        key: impl FnOnce(Expr<Self::Item>) -> Expr<K>,
    ) -> Expr<Option<Self::Item>>
    where
        Self::Item: KernelValue,
    {
        extreme_of_keys(this, true, key)
    }

    #[track_caller]
    fn __method_max_by_key<K: KernelValue>(
        &self,
        this: Expr<Self>,
        key: impl FnOnce(Expr<Self::Item>) -> Expr<K>,
    ) -> Expr<Option<Self::Item>>
    where
        Self::Item: KernelValue,
    {
        extreme_of_keys(this, false, key)
    }

    #[track_caller]
    fn __method_min_by(
        &self,
        this: Expr<Self>,
        compare: impl FnOnce(Expr<Self::Item>, Expr<Self::Item>) -> Expr<Ordering>,
    ) -> Expr<Option<Self::Item>>
    where
        Self::Item: KernelValue,
    {
        extreme_of_compared(this, true, compare)
    }

    #[track_caller]
    fn __method_max_by(
        &self,
        this: Expr<Self>,
        compare: impl FnOnce(Expr<Self::Item>, Expr<Self::Item>) -> Expr<Ordering>,
    ) -> Expr<Option<Self::Item>>
    where
        Self::Item: KernelValue,
    {
        extreme_of_compared(this, false, compare)
    }

    #[track_caller]
    fn __method_all(
        &self,
        this: Expr<Self>,
        condition: impl FnOnce(Expr<Self::Item>) -> Expr<bool>,
    ) -> Expr<bool> {
        holds(this, true, condition)
    }
}

impl<I: Iterate + Iterator> TakingMethods for I {}

#[track_caller]
fn extreme_of_keys<I: Iterate<Item: KernelValue>, K: KernelValue>(
    over: Expr<I>,
    is_least: bool,
    key: impl FnOnce(Expr<I::Item>) -> Expr<K>,
) -> Expr<Option<I::Item>> {
    let found = bind_mut("found", none());
    let (this, item) = begin_for(over);
    extreme_by_key(found, item, key(item), is_least);
    end_loop(this);
    without_key(found)
}

#[track_caller]
fn extreme_of_compared<I: Iterate<Item: KernelValue>>(
    over: Expr<I>,
    is_least: bool,
    compare: impl FnOnce(Expr<I::Item>, Expr<I::Item>) -> Expr<Ordering>,
) -> Expr<Option<I::Item>> {
    let found = bind_mut("found", none());
    let (this, item) = begin_for(over);
    extreme_by(found, item, compare, is_least);
    end_loop(this);
    value(found)
}

#[track_caller]
fn holds<I: Iterate>(
    over: Expr<I>,
    of_all: bool,
    condition: impl FnOnce(Expr<I::Item>) -> Expr<bool>,
) -> Expr<bool> {
    let holds = bind_mut("holds", lit(of_all));
    let (this, item) = begin_for(over);
    settle(holds, condition(item), of_all, this);
    end_loop(this);
    value(holds)
}

/// The iterator that methods with closures go over.
pub fn iterator<I: ?Sized + Iterator>(over: Expr<I>) -> Expr<I> {
    over
}

/// The value of a closure for an item.
pub fn applied<A: ?Sized, R: ?Sized>(
    item: Expr<A>,
    function: impl FnOnce(Expr<A>) -> Expr<R>,
) -> Expr<R> {
    function(item)
}

/// The value of a closure for the result of the items before, and an item.
pub fn combined<T: ?Sized, A: ?Sized>(
    total: Expr<T>,
    item: Expr<A>,
    function: impl FnOnce(Expr<T>, Expr<A>) -> Expr<T>,
) -> Expr<T> {
    function(total, item)
}

/// The type of a sum and a product of items of a type: numbers, for items that are numbers.
#[diagnostic::on_unimplemented(
    message = "a sum or product of `{A}` is no `{Self}` in kernels",
    label = "write `fold`, or a `for` loop"
)]
pub trait Totals<A: ?Sized> {}

impl<T: KernelValue> Totals<T> for T {}

const TOTALS: &str = "sums and products in kernels are of numbers; write `fold`, or a `for` loop";

/// On some machines such a sum is rounded once, on others at each item.
const TOTALS_OF_HALVES: &str = "sums and products of `f16` and `bf16` are not the same everywhere; `map` the items to `f32`, or write `fold`";

/// A variable for a sum, of nothing yet.
#[track_caller]
pub fn sum<T: KernelValue>() -> Expr<T> {
    let of = (T::ir_type as fn(&mut State) -> Type, T::IS_DERIVED);
    // Of floats std's begins below zero.
    Expr::from_raw(begin_total("sum", -0.0, of, Location::caller()))
}

/// A variable for a product, of nothing yet.
#[track_caller]
pub fn product<T: KernelValue>() -> Expr<T> {
    let of = (T::ir_type as fn(&mut State) -> Type, T::IS_DERIVED);
    Expr::from_raw(begin_total("product", 1.0, of, Location::caller()))
}

fn begin_total(
    name: &'static str,
    of_nothing: f64,
    (of, is_derived): (fn(&mut State) -> Type, bool),
    location: &'static Location<'static>,
) -> Raw {
    state::at(location, |s| {
        let scalar = of(s).scalar();
        if scalar.is_none() || is_derived {
            s.refuse(location, TOTALS);
        } else if scalar.is_some_and(Scalar::is_half) {
            s.refuse(location, TOTALS_OF_HALVES);
        }
        let first = constant(s, scalar.unwrap_or(Scalar::I32), of_nothing);
        variable(s, name, Raw::Value(first), location)
    })
}

/// Adds an item to a sum.
#[track_caller]
pub fn add<T: Totals<A>, A: ?Sized>(sum: Expr<T>, item: Expr<A>) {
    compound_at(
        BinaryOperation::Add,
        sum.raw(),
        item.raw(),
        Location::caller(),
    );
}

/// Multiplies a product by an item.
#[track_caller]
pub fn multiply<T: Totals<A>, A: ?Sized>(product: Expr<T>, item: Expr<A>) {
    compound_at(
        BinaryOperation::Multiply,
        product.raw(),
        item.raw(),
        Location::caller(),
    );
}

/// Keeps in a variable whether a condition holds, and leaves the loop once that is decided: by an
/// item for which it does not hold, if it is to hold of all, or else by one for which it does.
#[track_caller]
pub fn settle(holds: Expr<bool>, now: Expr<bool>, of_all: bool, this: Loop<()>) {
    let location = Location::caller();
    state::at(location, |s| {
        let now = s.value(now.raw(), location);
        settle_value(s, holds.raw(), now, (of_all, this), location);
    });
}

fn settle_value(
    s: &mut State,
    holds: Raw,
    now: Value,
    (of_all, this): (bool, Loop<()>),
    location: &'static Location<'static>,
) {
    assign_raw(s, holds, Raw::Value(now), location);
    let goes_on = if of_all {
        now
    } else {
        s.frame().function.unary(UnaryOperation::Not, now)
    };
    leave_unless(s, goes_on, this);
}

/// True if a number is among some.
pub(super) fn contains(
    s: &mut State,
    items: &Items,
    (number, is_derived): (Raw, bool),
    location: &'static Location<'static>,
) -> Value {
    let number = number_of(s, number, is_derived, location);
    let no = s.frame().function.bool_literal(false);
    let holds = variable(s, "contains", Raw::Value(no), location);
    let (this, item) = begin_items(s, items, location);
    let item = s.value(item, location);
    let is_it = binary(s, BinaryOperation::Equal, item, number);
    settle_value(s, holds, is_it, (false, this), location);
    repeat::end(s, this);
    s.value(holds, location)
}

/// True if a number is in a range: not below its start, and `Less` or `LessEqual` than its end, if
/// it has one.
pub(super) fn is_between(
    s: &mut State,
    (start, end): (Value, Option<(BinaryOperation, Value)>),
    (number, is_derived): (Raw, bool),
    location: &'static Location<'static>,
) -> Value {
    let number = number_of(s, number, is_derived, location);
    let from_start = binary(s, BinaryOperation::LessEqual, start, number);
    let Some((operation, end)) = end else {
        return from_start;
    };
    let to_end = binary(s, operation, number, end);
    binary(s, BinaryOperation::And, from_start, to_end)
}

/// A value that is compared, which is no user's type.
fn number_of(
    s: &mut State,
    number: Raw,
    is_derived: bool,
    location: &'static Location<'static>,
) -> Value {
    let number = s.value(number, location);
    if is_derived || s.frame().function.type_of(number).scalar().is_none() {
        s.refuse(location, CONTAINED);
    }
    number
}

const CONTAINED: &str = "`contains` in kernels is of numbers; write `any`, or a comparison";
