//! `for` loops: over ranges, over the elements of arrays and slices, over a thread's own.

use std::iter::{Enumerate, Rev, StepBy};
use std::ops::{Range, RangeInclusive};
use std::panic::Location;
use std::slice::Iter;

use quipu_kernel_ir::{BinaryOperation, LocalId, Scalar, Value};

use super::control::{self, Loop, break_unless, nothing};
use super::data::KernelData;
use super::expression::{Expr, Sample};
use super::place;
use super::state::{self, Mode, Raw, State};

/// What a `for` loop goes over.
#[diagnostic::on_unimplemented(
    message = "a `for` loop in a kernel does not go over `{Self}`",
    label = "not a range, slice, array or a thread's own elements",
    note = "`for` goes over `a..b`, `a..=b`, `.rev()` and `.step_by(n)` of these, arrays, `slice.iter()`, `.iter_mut()`, `.enumerate()`, `acc.elements(n)`, `y.each()` and `y.rows()`"
)]
pub trait Iterate {
    /// What the loop's pattern is given.
    type Item: ?Sized;

    /// Writes the loop.
    #[doc(hidden)]
    fn iterate(
        over: Expr<Self>,
        location: &'static Location<'static>,
        body: impl FnOnce(Loop<()>, Expr<Self::Item>) -> Expr<()>,
    );
}

/// `for pattern in over { body }`.
#[track_caller]
pub fn for_loop<I: ?Sized + Iterate>(
    over: Expr<I>,
    body: impl FnOnce(Loop<()>, Expr<I::Item>) -> Expr<()>,
) -> Expr<()> {
    I::iterate(over, Location::caller(), body);
    nothing()
}

/// The parts of an aggregate: the ends of a range, say.
fn parts<const N: usize>(
    s: &mut State,
    raw: Raw,
    location: &'static Location<'static>,
) -> [Raw; N] {
    let known = match raw {
        Raw::Aggregate(id) => s.frame().parts(id).try_into().ok(),
        _ => None,
    };
    known.unwrap_or_else(|| {
        s.refuse(location, "write the range in the `for` loop itself");
        [Raw::Nothing; N]
    })
}

fn binary(s: &mut State, operation: BinaryOperation, left: Value, right: Value) -> Value {
    s.frame().function.binary(operation, left, right)
}

/// The value of a counter.
fn load(s: &mut State, counter: LocalId) -> Value {
    s.frame().function.load_local(counter)
}

fn one<T: KernelData>(s: &mut State) -> Value {
    let scalar = T::ir_type(s).scalar().unwrap_or(Scalar::Index);
    s.frame().function.literal(scalar, 1)
}

pub(super) fn both_ends(
    s: &mut State,
    raw: Raw,
    location: &'static Location<'static>,
) -> (Value, Value) {
    let [start, end] = parts(s, raw, location);
    (s.value(start, location), s.value(end, location))
}

fn expression<T: ?Sized>(value: Value) -> Expr<T> {
    Expr::from_raw(Raw::Value(value))
}

impl<T: KernelData> Iterate for Range<T> {
    type Item = T;

    fn iterate(
        over: Expr<Self>,
        location: &'static Location<'static>,
        body: impl FnOnce(Loop<()>, Expr<T>) -> Expr<()>,
    ) {
        let (end, counter) = state::at(location, |s| {
            let (start, end) = both_ends(s, over.raw(), location);
            (end, s.frame().function.local(None, start))
        });
        upward::<T>(location, counter, end, |this, at| {
            body(this, expression(at))
        });
    }
}

/// Counts a variable up to an end, by ones.
fn upward<T: KernelData>(
    location: &'static Location<'static>,
    counter: LocalId,
    end: Value,
    body: impl FnOnce(Loop<()>, Value) -> Expr<()>,
) {
    control::stepped(
        |this| {
            let inside = state::at(location, |s| {
                let at = load(s, counter);
                binary(s, BinaryOperation::Less, at, end)
            });
            break_unless(expression(inside), this);
            let at = state::at(location, |s| load(s, counter));
            body(this, at)
        },
        || {
            state::at(location, |s| {
                let (at, one) = (load(s, counter), one::<T>(s));
                let next = binary(s, BinaryOperation::Add, at, one);
                s.frame().function.store_local(counter, next);
            });
        },
    );
}

/// Counts a variable down from its value, exclusive, to an end, inclusive.
fn downward<T: KernelData>(
    location: &'static Location<'static>,
    counter: LocalId,
    end: Value,
    body: impl FnOnce(Loop<()>, Value) -> Expr<()>,
) {
    control::stepped(
        |this| {
            let inside = state::at(location, |s| {
                let at = load(s, counter);
                binary(s, BinaryOperation::Greater, at, end)
            });
            break_unless(expression(inside), this);
            let at = state::at(location, |s| {
                let (at, one) = (load(s, counter), one::<T>(s));
                let at = binary(s, BinaryOperation::Subtract, at, one);
                s.frame().function.store_local(counter, at);
                at
            });
            body(this, at)
        },
        || (),
    );
}

impl<T: KernelData> Iterate for Rev<Range<T>> {
    type Item = T;

    fn iterate(
        over: Expr<Self>,
        location: &'static Location<'static>,
        body: impl FnOnce(Loop<()>, Expr<T>) -> Expr<()>,
    ) {
        let (start, counter) = state::at(location, |s| {
            let (start, end) = both_ends(s, over.raw(), location);
            (start, s.frame().function.local(None, end))
        });
        downward::<T>(location, counter, start, |this, at| {
            body(this, expression(at))
        });
    }
}

/// A loop whose counter may not go past its last value, as that may be the greatest or smallest of its type:
/// whether it is over is kept in a variable. `advance` says whether this is the last round, and what comes next.
fn to_the_last(
    location: &'static Location<'static>,
    first: Value,
    is_empty: Value,
    advance: impl FnOnce(&mut State, Value) -> (Value, Value),
    body: impl FnOnce(Loop<()>, Value) -> Expr<()>,
) {
    let (counter, over) = state::at(location, |s| {
        let counter = s.frame().function.local(None, first);
        (counter, s.frame().function.local(None, is_empty))
    });
    control::stepped(
        |this| {
            let goes_on = state::at(location, |s| {
                let over = load(s, over);
                s.frame()
                    .function
                    .unary(quipu_kernel_ir::UnaryOperation::Not, over)
            });
            break_unless(expression(goes_on), this);
            let at = state::at(location, |s| {
                let at = load(s, counter);
                let (is_last, next) = advance(s, at);
                s.frame().function.store_local(over, is_last);
                s.frame().function.store_local(counter, next);
                at
            });
            body(this, at)
        },
        || (),
    );
}

fn inclusive<T: KernelData>(
    location: &'static Location<'static>,
    (first, last): (Value, Value),
    is_empty: BinaryOperation,
    step: BinaryOperation,
    body: impl FnOnce(Loop<()>, Value) -> Expr<()>,
) {
    let is_empty = state::at(location, |s| binary(s, is_empty, first, last));
    to_the_last(
        location,
        first,
        is_empty,
        |s, at| {
            let is_last = binary(s, BinaryOperation::Equal, at, last);
            let one = one::<T>(s);
            (is_last, binary(s, step, at, one))
        },
        body,
    );
}

impl<T: KernelData> Iterate for RangeInclusive<T> {
    type Item = T;

    fn iterate(
        over: Expr<Self>,
        location: &'static Location<'static>,
        body: impl FnOnce(Loop<()>, Expr<T>) -> Expr<()>,
    ) {
        let ends = state::at(location, |s| both_ends(s, over.raw(), location));
        let (empty, step) = (BinaryOperation::Greater, BinaryOperation::Add);
        inclusive::<T>(location, ends, empty, step, |this, at| {
            body(this, expression(at))
        });
    }
}

impl<T: KernelData> Iterate for Rev<RangeInclusive<T>> {
    type Item = T;

    fn iterate(
        over: Expr<Self>,
        location: &'static Location<'static>,
        body: impl FnOnce(Loop<()>, Expr<T>) -> Expr<()>,
    ) {
        let (start, end) = state::at(location, |s| both_ends(s, over.raw(), location));
        let (empty, step) = (BinaryOperation::Less, BinaryOperation::Subtract);
        inclusive::<T>(location, (end, start), empty, step, |this, at| {
            body(this, expression(at))
        });
    }
}

/// The unsigned integer type of the same width.
fn unsigned(scalar: Scalar) -> Scalar {
    match scalar {
        Scalar::I8 => Scalar::U8,
        Scalar::I16 => Scalar::U16,
        Scalar::I32 => Scalar::U32,
        Scalar::I64 => Scalar::U64,
        Scalar::SignedIndex => Scalar::Index,
        unsigned => unsigned,
    }
}

/// A range in steps. How far the end is away is computed without a sign, as it may be further than the type's
/// greatest number.
fn in_steps<T: KernelData>(
    location: &'static Location<'static>,
    raw: Raw,
    is_inclusive: bool,
    body: impl FnOnce(Loop<()>, Expr<T>) -> Expr<()>,
) {
    let (first, is_empty, end, step) = state::at(location, |s| {
        let [range, step] = parts(s, raw, location);
        let (start, end) = both_ends(s, range, location);
        let step = s.value(step, location);
        let comparison = if is_inclusive {
            BinaryOperation::Greater
        } else {
            BinaryOperation::GreaterEqual
        };
        let is_empty = binary(s, comparison, start, end);
        (start, is_empty, end, step)
    });
    to_the_last(
        location,
        first,
        is_empty,
        |s, at| {
            let scalar = T::ir_type(s).scalar().unwrap_or(Scalar::Index);
            let f = &mut s.frame().function;
            let left = f.binary(BinaryOperation::Subtract, end, at);
            let left = f.cast(left, unsigned(scalar));
            let left = f.cast(left, Scalar::U64);
            let wide = f.cast(step, Scalar::U64);
            let comparison = if is_inclusive {
                BinaryOperation::Less
            } else {
                BinaryOperation::LessEqual
            };
            let is_last = f.binary(comparison, left, wide);
            let step = f.cast(step, scalar);
            (is_last, f.binary(BinaryOperation::Add, at, step))
        },
        |this, at| body(this, expression(at)),
    );
}

impl<T: KernelData> Iterate for StepBy<Range<T>> {
    type Item = T;

    fn iterate(
        over: Expr<Self>,
        location: &'static Location<'static>,
        body: impl FnOnce(Loop<()>, Expr<T>) -> Expr<()>,
    ) {
        in_steps(location, over.raw(), false, body);
    }
}

impl<T: KernelData> Iterate for StepBy<RangeInclusive<T>> {
    type Item = T;

    fn iterate(
        over: Expr<Self>,
        location: &'static Location<'static>,
        body: impl FnOnce(Loop<()>, Expr<T>) -> Expr<()>,
    ) {
        in_steps(location, over.raw(), true, body);
    }
}

/// Goes over all elements of an array or slice, as places.
fn each_element(
    location: &'static Location<'static>,
    raw: Raw,
    body: impl FnOnce(Loop<()>, Value, Raw) -> Expr<()>,
) {
    let (raw, counter, end) = state::at(location, |s| {
        let by_reference = !matches!(raw, Raw::Place(_, Mode::Itself));
        // An array by value is gone over as it is now.
        let raw = if by_reference {
            raw
        } else {
            let raw = s.frame().copied(raw);
            super::expression::spilled(s, raw, Mode::Itself)
        };
        let slice = place::whole_slice(s, raw, location);
        let end = place::length(s, slice, location);
        let zero = s.frame().literal(Scalar::Index, 0);
        (slice, s.frame().function.local(None, zero), end)
    });
    upward::<usize>(location, counter, end, |this, at| {
        let element = state::at(location, |s| {
            match place::indexed(s, raw, at, false, location) {
                Raw::Place(id, _) => Raw::Place(id, Mode::Reference),
                raw => raw,
            }
        });
        body(this, at, element)
    });
}

impl<T: KernelData, const N: usize> Iterate for [T; N] {
    type Item = T;

    fn iterate(
        over: Expr<Self>,
        location: &'static Location<'static>,
        body: impl FnOnce(Loop<()>, Expr<T>) -> Expr<()>,
    ) {
        let by_value = !matches!(over.raw(), Raw::Place(_, Mode::Reference));
        each_element(location, over.raw(), |this, _, element| {
            let element = if by_value {
                state::at(location, |s| Raw::Value(s.value(element, location)))
            } else {
                element
            };
            body(this, Expr::from_raw(element))
        });
    }
}

impl<T: KernelData> Iterate for [T] {
    type Item = T;

    fn iterate(
        over: Expr<Self>,
        location: &'static Location<'static>,
        body: impl FnOnce(Loop<()>, Expr<T>) -> Expr<()>,
    ) {
        each_element(location, over.raw(), |this, _, element| {
            body(this, Expr::from_raw(element))
        });
    }
}

impl<T: KernelData> Iterate for Iter<'static, T> {
    type Item = T;

    fn iterate(
        over: Expr<Self>,
        location: &'static Location<'static>,
        body: impl FnOnce(Loop<()>, Expr<T>) -> Expr<()>,
    ) {
        each_element(location, over.raw(), |this, _, element| {
            body(this, Expr::from_raw(element))
        });
    }
}

impl<T: KernelData> Iterate for Enumerate<Iter<'static, T>> {
    type Item = (usize, T);

    fn iterate(
        over: Expr<Self>,
        location: &'static Location<'static>,
        body: impl FnOnce(Loop<()>, Expr<(usize, T)>) -> Expr<()>,
    ) {
        each_element(location, over.raw(), |this, index, element| {
            body(this, numbered(location, Raw::Value(index), element))
        });
    }
}

/// A number or position, and an element.
pub(super) fn numbered<A, T>(
    location: &'static Location<'static>,
    index: Raw,
    element: Raw,
) -> Expr<(A, T)> {
    Expr::from_raw(state::at(location, |s| {
        s.frame().aggregate(vec![index, element], None)
    }))
}

macro_rules! samples {
    ($([$($generics:tt)*] $type:ty => $value:expr;)*) => {$(
        impl<$($generics)*> Sample for $type {
            fn sample() -> Box<Self> {
                Box::new($value)
            }
        }
    )*};
}

samples! {
    [T: KernelData] Range<T> => T::sample_value()..T::sample_value();
    [T: KernelData] RangeInclusive<T> => T::sample_value()..=T::sample_value();
    [T: KernelData] Iter<'static, T> => [].iter();
}

/// Methods of ranges and iterators.
pub trait RangeMethods: Sized {
    /// `range.rev()`.
    #[doc(hidden)]
    #[track_caller]
    fn __method_rev(&self, this: Expr<Self>) -> Expr<Rev<Self>> {
        Expr::from_raw(this.raw())
    }

    /// `range.step_by(step)`.
    #[doc(hidden)]
    #[track_caller]
    fn __method_step_by(&self, this: Expr<Self>, step: Expr<usize>) -> Expr<StepBy<Self>> {
        let location = Location::caller();
        Expr::from_raw(state::at(location, |s| {
            let step = Raw::Value(s.value(step.raw(), location));
            s.frame().aggregate(vec![this.raw(), step], None)
        }))
    }
}

impl<T: KernelData> RangeMethods for Range<T> {}
impl<T: KernelData> RangeMethods for RangeInclusive<T> {}

/// Methods of `slice.iter()`.
pub trait IterMethods: Sized {
    /// `slice.iter().enumerate()`.
    #[doc(hidden)]
    fn __method_enumerate(&self, this: Expr<Self>) -> Expr<Enumerate<Self>> {
        Expr::from_raw(this.raw())
    }
}

impl<T: KernelData> IterMethods for Iter<'static, T> {}

/// Methods of slices and arrays.
pub trait SliceMethods<T: KernelData> {
    /// `slice.len()`.
    #[doc(hidden)]
    #[track_caller]
    fn __method_len<S: ?Sized>(&self, this: Expr<S>) -> Expr<usize> {
        let location = Location::caller();
        expression(state::at(location, |s| {
            place::length(s, this.raw(), location)
        }))
    }

    /// `slice.is_empty()`.
    #[doc(hidden)]
    #[track_caller]
    fn __method_is_empty<S: ?Sized>(&self, this: Expr<S>) -> Expr<bool> {
        let location = Location::caller();
        expression(state::at(location, |s| {
            let length = place::length(s, this.raw(), location);
            let zero = s.frame().literal(Scalar::Index, 0);
            binary(s, BinaryOperation::Equal, length, zero)
        }))
    }

    /// `slice.iter()`.
    #[doc(hidden)]
    #[track_caller]
    fn __method_iter<S: ?Sized>(&self, this: Expr<S>) -> Expr<Iter<'static, T>> {
        let location = Location::caller();
        Expr::from_raw(state::at(location, |s| {
            place::whole_slice(s, this.raw(), location)
        }))
    }

    /// `slice.iter_mut()`.
    #[doc(hidden)]
    #[track_caller]
    fn __method_iter_mut<S: ?Sized>(&self, this: Expr<S>) -> Expr<Iter<'static, T>> {
        self.__method_iter(this)
    }

    /// `slice.swap(a, b)`.
    #[doc(hidden)]
    #[track_caller]
    fn __method_swap<S: ?Sized>(&self, this: Expr<S>, a: Expr<usize>, b: Expr<usize>) -> Expr<()> {
        let location = Location::caller();
        state::at(location, |s| {
            let [a, b] = [a, b].map(|index| s.value(index.raw(), location));
            let [a, b] = [a, b].map(|index| place::element(s, this.raw(), index, location));
            let [first, second] = [a, b].map(|place| s.value(place, location));
            for (place, value) in [(a, second), (b, first)] {
                if let Raw::Place(id, _) = place {
                    let (place, _) = s.frame().place_of(id).clone();
                    s.frame().function.store(place, value);
                }
            }
        });
        nothing()
    }

    /// `slice.fill(value)`.
    #[doc(hidden)]
    #[track_caller]
    fn __method_fill<S: ?Sized>(&self, this: Expr<S>, value: Expr<T>) -> Expr<()> {
        let location = Location::caller();
        let value = state::at(location, |s| s.value(value.raw(), location));
        let raw = state::at(location, |s| place::whole_slice(s, this.raw(), location));
        each_element(location, raw, |_, _, element| {
            place::assign::<T>(
                super::expression::dereference(Expr::from_raw(element)),
                expression(value),
            );
            nothing()
        });
        nothing()
    }
}

impl<T: KernelData> SliceMethods<T> for [T] {}
impl<T: KernelData, const N: usize> SliceMethods<T> for [T; N] {}
