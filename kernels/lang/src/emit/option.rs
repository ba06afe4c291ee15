//! An `Option` or a `Result` in kernels: its methods, and `?`.

use std::panic::Location;

use quipu_kernel_ir::Type;

use super::control::branch;
use super::convert::ConvertedFrom;
use super::data::KernelValue;
use super::expression::{Expr, assert_value, computed, dereference, value};
use super::state::{self, Raw, State};
use super::variant::{is_variant, pattern_part, variant};

/// `Some(value)`.
#[track_caller]
pub fn some<T: KernelValue>(of: Expr<T>) -> Expr<Option<T>> {
    let raw = held(of).raw();
    Expr::from_raw(variant::<Option<T>>(
        "Some",
        &[("0", raw)],
        Location::caller(),
    ))
}

/// An item of an iterator as a value that a variable can hold: a pair of these has no type of its
/// own.
#[track_caller]
pub(super) fn held<T: KernelValue>(item: Expr<T>) -> Expr<T> {
    let item = value(dereference(item)).raw();
    Expr::from_raw(state::at(Location::caller(), |s| {
        let of = T::ir_type(s);
        typed(s, item, of)
    }))
}

fn typed(s: &mut State, raw: Raw, of: Type) -> Raw {
    let (Raw::Aggregate(id), &Type::Struct(structure)) = (raw, &of) else {
        return raw;
    };
    let parts = s.frame().parts(id).to_vec();
    let parts = parts.into_iter().enumerate().map(|(position, part)| {
        let of = s.module.field_type(structure, position);
        typed(s, part, of)
    });
    let parts = parts.collect();
    s.frame().aggregate(parts, Some(of))
}

/// `None`.
#[track_caller]
pub fn none<T: KernelValue>() -> Expr<Option<T>> {
    Expr::from_raw(variant::<Option<T>>("None", &[], Location::caller()))
}

#[track_caller]
fn ok<T: KernelValue, E: KernelValue>(of: Expr<T>) -> Expr<Result<T, E>> {
    let raw = value(of).raw();
    Expr::from_raw(variant::<Result<T, E>>(
        "Ok",
        &[("0", raw)],
        Location::caller(),
    ))
}

#[track_caller]
fn error<T: KernelValue, E: KernelValue>(of: Expr<E>) -> Expr<Result<T, E>> {
    let raw = value(of).raw();
    Expr::from_raw(variant::<Result<T, E>>(
        "Err",
        &[("0", raw)],
        Location::caller(),
    ))
}

/// The value in an `Option`, if there is one.
#[track_caller]
pub(super) fn inside<T: KernelValue>(of: Expr<Option<T>>) -> Expr<T> {
    pattern_part(of, "Some", "0", None)
}

#[track_caller]
fn inside_ok<T: KernelValue, E: KernelValue>(of: Expr<Result<T, E>>) -> Expr<T> {
    pattern_part(of, "Ok", "0", None)
}

#[track_caller]
fn inside_error<T: KernelValue, E: KernelValue>(of: Expr<Result<T, E>>) -> Expr<E> {
    pattern_part(of, "Err", "0", None)
}

/// One of two, each written where it is needed.
#[track_caller]
pub(super) fn either<R: ?Sized>(
    condition: Expr<bool>,
    then: impl FnOnce() -> Expr<R>,
    otherwise: impl FnOnce() -> Expr<R>,
) -> Expr<R> {
    let branch = branch::<R>(condition);
    if branch.begins_then() {
        branch.ends_then(value(then()));
    }
    if branch.begins_otherwise() {
        branch.ends_otherwise(value(otherwise()));
    }
    branch.result()
}

/// Fails the launch where there is nothing inside, as a panic does natively.
#[track_caller]
fn expected(has_some: Expr<bool>, message: &str) {
    let location = Location::caller();
    state::at(location, |s| {
        let has_some = s.value(has_some.raw(), location);
        assert_value(s, has_some, (message, &[]), location);
    });
}

/// A type that `?` takes.
#[diagnostic::on_unimplemented(
    message = "`?` in kernels is of an `Option` or a `Result`",
    label = "not of `{Self}`"
)]
pub trait Tried: KernelValue {
    /// The value, if it goes on.
    type Output: KernelValue;
    #[doc(hidden)]
    fn goes_on(this: Expr<Self>) -> Expr<bool>;
    #[doc(hidden)]
    fn output(this: Expr<Self>) -> Expr<Self::Output>;
}

/// The result of a function where a `?` in it ends it.
#[diagnostic::on_unimplemented(
    message = "`?` of `{T}` does not end a function that gives `{Self}`",
    label = "write a `match`"
)]
pub trait Ended<T>: KernelValue {
    #[doc(hidden)]
    fn ended(by: Expr<T>) -> Expr<Self>;
}

impl<T: KernelValue> Tried for Option<T> {
    type Output = T;

    #[track_caller]
    fn goes_on(this: Expr<Self>) -> Expr<bool> {
        is_variant(this, "Some")
    }

    #[track_caller]
    fn output(this: Expr<Self>) -> Expr<T> {
        inside(this)
    }
}

impl<T: KernelValue, R: KernelValue> Ended<Option<T>> for Option<R> {
    #[track_caller]
    fn ended(_: Expr<Option<T>>) -> Expr<Self> {
        none()
    }
}

impl<T: KernelValue, E: KernelValue> Tried for Result<T, E> {
    type Output = T;

    #[track_caller]
    fn goes_on(this: Expr<Self>) -> Expr<bool> {
        is_variant(this, "Ok")
    }

    #[track_caller]
    fn output(this: Expr<Self>) -> Expr<T> {
        inside_ok(this)
    }
}

impl<T: KernelValue, E: KernelValue, R: KernelValue, F: KernelValue + ConvertedFrom<E>>
    Ended<Result<T, E>> for Result<R, F>
{
    #[track_caller]
    fn ended(by: Expr<Result<T, E>>) -> Expr<Self> {
        error(F::converted_from(inside_error(by)))
    }
}

/// True if a function goes on behind a `?`.
#[track_caller]
pub fn goes_on<T: Tried>(tried: Expr<T>) -> Expr<bool> {
    T::goes_on(tried)
}

/// The value that it goes on with.
#[track_caller]
pub fn output<T: Tried>(tried: Expr<T>) -> Expr<T::Output> {
    value(T::output(tried))
}

/// The result of the function if it does not go on.
#[track_caller]
pub fn ended<T, R: Ended<T>>(tried: Expr<T>) -> Expr<R> {
    R::ended(tried)
}

/// Methods of `Option`.
#[doc(hidden)]
pub trait OptionMethods<T: KernelValue> {
    #[track_caller]
    fn __method_is_some(&self, this: Expr<Option<T>>) -> Expr<bool> {
        is_variant(this, "Some")
    }

    #[track_caller]
    fn __method_is_none(&self, this: Expr<Option<T>>) -> Expr<bool> {
        is_variant(this, "None")
    }

    #[track_caller]
    fn __method_is_some_and(
        &self,
        this: Expr<Option<T>>,
        holds: impl FnOnce(Expr<T>) -> Expr<bool>,
    ) -> Expr<bool> {
        let this = value(this);
        let no = || super::expression::lit(false);
        either(is_variant(this, "Some"), || holds(inside(this)), no)
    }

    #[track_caller]
    fn __method_is_none_or(
        &self,
        this: Expr<Option<T>>,
        holds: impl FnOnce(Expr<T>) -> Expr<bool>,
    ) -> Expr<bool> {
        let this = value(this);
        let yes = || super::expression::lit(true);
        either(is_variant(this, "Some"), || holds(inside(this)), yes)
    }

    #[track_caller]
    fn __method_unwrap(&self, this: Expr<Option<T>>) -> Expr<T> {
        let this = value(this);
        let message = "called `Option::unwrap()` on a `None` value";
        expected(is_variant(this, "Some"), message);
        inside(this)
    }

    #[track_caller]
    fn __method_expect(&self, this: Expr<Option<T>>, message: &str) -> Expr<T> {
        let this = value(this);
        expected(is_variant(this, "Some"), message);
        inside(this)
    }

    #[track_caller]
    fn __method_unwrap_or(&self, this: Expr<Option<T>>, other: Expr<T>) -> Expr<T> {
        let (this, other) = (value(this), value(dereference(other)));
        either(is_variant(this, "Some"), || inside(this), || other)
    }

    #[track_caller]
    fn __method_unwrap_or_default(&self, this: Expr<Option<T>>) -> Expr<T>
    where
        T: Default,
    {
        let this = value(this);
        let otherwise = || computed(&T::default);
        either(is_variant(this, "Some"), || inside(this), otherwise)
    }

    #[track_caller]
    fn __method_unwrap_or_else(
        &self,
        this: Expr<Option<T>>,
        other: impl FnOnce() -> Expr<T>,
    ) -> Expr<T> {
        let this = value(this);
        either(is_variant(this, "Some"), || inside(this), other)
    }

    #[track_caller]
    fn __method_map<R: KernelValue>(
        &self,
        this: Expr<Option<T>>,
        function: impl FnOnce(Expr<T>) -> Expr<R>,
    ) -> Expr<Option<R>> {
        let this = value(this);
        let mapped = || some(function(inside(this)));
        either(is_variant(this, "Some"), mapped, none)
    }

    #[track_caller]
    fn __method_map_or<R: KernelValue>(
        &self,
        this: Expr<Option<T>>,
        other: Expr<R>,
        function: impl FnOnce(Expr<T>) -> Expr<R>,
    ) -> Expr<R> {
        let (this, other) = (value(this), value(other));
        let mapped = || function(inside(this));
        either(is_variant(this, "Some"), mapped, || other)
    }

    #[track_caller]
    fn __method_map_or_else<R: KernelValue>(
        &self,
        this: Expr<Option<T>>,
        other: impl FnOnce() -> Expr<R>,
        function: impl FnOnce(Expr<T>) -> Expr<R>,
    ) -> Expr<R> {
        let this = value(this);
        let mapped = || function(inside(this));
        either(is_variant(this, "Some"), mapped, other)
    }

    #[track_caller]
    fn __method_and_then<R: KernelValue>(
        &self,
        this: Expr<Option<T>>,
        function: impl FnOnce(Expr<T>) -> Expr<Option<R>>,
    ) -> Expr<Option<R>> {
        let this = value(this);
        let next = || function(inside(this));
        either(is_variant(this, "Some"), next, none)
    }

    #[track_caller]
    fn __method_filter(
        &self,
        this: Expr<Option<T>>,
        holds: impl FnOnce(Expr<T>) -> Expr<bool>,
    ) -> Expr<Option<T>> {
        let this = value(this);
        let kept = || either(holds(inside(this)), || this, none);
        either(is_variant(this, "Some"), kept, none)
    }

    #[track_caller]
    fn __method_or(&self, this: Expr<Option<T>>, other: Expr<Option<T>>) -> Expr<Option<T>> {
        let (this, other) = (value(this), value(other));
        either(is_variant(this, "Some"), || this, || other)
    }

    #[track_caller]
    fn __method_or_else(
        &self,
        this: Expr<Option<T>>,
        other: impl FnOnce() -> Expr<Option<T>>,
    ) -> Expr<Option<T>> {
        let this = value(this);
        either(is_variant(this, "Some"), || this, other)
    }

    #[track_caller]
    fn __method_and<R: KernelValue>(
        &self,
        this: Expr<Option<T>>,
        other: Expr<Option<R>>,
    ) -> Expr<Option<R>> {
        let (this, other) = (value(this), value(other));
        either(is_variant(this, "Some"), || other, none)
    }

    #[track_caller]
    fn __method_ok_or<E: KernelValue>(
        &self,
        this: Expr<Option<T>>,
        other: Expr<E>,
    ) -> Expr<Result<T, E>> {
        let (this, other) = (value(this), value(other));
        either(
            is_variant(this, "Some"),
            || ok(inside(this)),
            || error(other),
        )
    }

    #[track_caller]
    fn __method_copied(&self, this: Expr<Option<T>>) -> Expr<Option<T>> {
        value(dereference(this))
    }

    #[track_caller]
    fn __method_cloned(&self, this: Expr<Option<T>>) -> Expr<Option<T>> {
        value(dereference(this))
    }
}

impl<T: KernelValue> OptionMethods<T> for Option<T> {}

/// Methods of `Result`.
#[doc(hidden)]
pub trait ResultMethods<T: KernelValue, E: KernelValue> {
    #[track_caller]
    fn __method_is_ok(&self, this: Expr<Result<T, E>>) -> Expr<bool> {
        is_variant(this, "Ok")
    }

    #[track_caller]
    fn __method_is_err(&self, this: Expr<Result<T, E>>) -> Expr<bool> {
        is_variant(this, "Err")
    }

    #[track_caller]
    fn __method_ok(&self, this: Expr<Result<T, E>>) -> Expr<Option<T>> {
        let this = value(this);
        either(is_variant(this, "Ok"), || some(inside_ok(this)), none)
    }

    #[track_caller]
    fn __method_err(&self, this: Expr<Result<T, E>>) -> Expr<Option<E>> {
        let this = value(this);
        either(is_variant(this, "Ok"), none, || some(inside_error(this)))
    }

    #[track_caller]
    fn __method_unwrap(&self, this: Expr<Result<T, E>>) -> Expr<T> {
        let this = value(this);
        let message = "called `Result::unwrap()` on an `Err` value";
        expected(is_variant(this, "Ok"), message);
        inside_ok(this)
    }

    #[track_caller]
    fn __method_expect(&self, this: Expr<Result<T, E>>, message: &str) -> Expr<T> {
        let this = value(this);
        expected(is_variant(this, "Ok"), message);
        inside_ok(this)
    }

    #[track_caller]
    fn __method_unwrap_or(&self, this: Expr<Result<T, E>>, other: Expr<T>) -> Expr<T> {
        let (this, other) = (value(this), value(dereference(other)));
        either(is_variant(this, "Ok"), || inside_ok(this), || other)
    }

    #[track_caller]
    fn __method_unwrap_or_else(
        &self,
        this: Expr<Result<T, E>>,
        other: impl FnOnce(Expr<E>) -> Expr<T>,
    ) -> Expr<T> {
        let this = value(this);
        let otherwise = || other(inside_error(this));
        either(is_variant(this, "Ok"), || inside_ok(this), otherwise)
    }

    #[track_caller]
    fn __method_map<R: KernelValue>(
        &self,
        this: Expr<Result<T, E>>,
        function: impl FnOnce(Expr<T>) -> Expr<R>,
    ) -> Expr<Result<R, E>> {
        let this = value(this);
        let mapped = || ok(function(inside_ok(this)));
        either(is_variant(this, "Ok"), mapped, || error(inside_error(this)))
    }

    #[track_caller]
    fn __method_map_err<F: KernelValue>(
        &self,
        this: Expr<Result<T, E>>,
        function: impl FnOnce(Expr<E>) -> Expr<F>,
    ) -> Expr<Result<T, F>> {
        let this = value(this);
        let mapped = || error(function(inside_error(this)));
        either(is_variant(this, "Ok"), || ok(inside_ok(this)), mapped)
    }

    #[track_caller]
    fn __method_and_then<R: KernelValue>(
        &self,
        this: Expr<Result<T, E>>,
        function: impl FnOnce(Expr<T>) -> Expr<Result<R, E>>,
    ) -> Expr<Result<R, E>> {
        let this = value(this);
        let next = || function(inside_ok(this));
        either(is_variant(this, "Ok"), next, || error(inside_error(this)))
    }
}

impl<T: KernelValue, E: KernelValue> ResultMethods<T, E> for Result<T, E> {}

/// `condition.then(f)` and `condition.then_some(value)`.
#[doc(hidden)]
pub trait BoolMethods {
    #[track_caller]
    fn __method_then_some<T: KernelValue>(
        &self,
        this: Expr<bool>,
        other: Expr<T>,
    ) -> Expr<Option<T>> {
        let other = value(other);
        either(value(this), || some(other), none)
    }

    #[track_caller]
    fn __method_then<T: KernelValue>(
        &self,
        this: Expr<bool>,
        function: impl FnOnce() -> Expr<T>,
    ) -> Expr<Option<T>> {
        either(value(this), || some(function()), none)
    }
}

impl BoolMethods for bool {}
