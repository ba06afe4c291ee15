//! `for` loops: over ranges, over the elements of arrays and slices, over a thread's own.

use std::iter::{Enumerate, Rev, StepBy};
use std::ops::{Range, RangeInclusive};
use std::panic::Location;
use std::slice::Iter;

use quipu_kernel_ir::{BinaryOperation, LocalId, Scalar, Type, UnaryOperation, Value};

use super::control::nothing;
use super::data::KernelValue;
use super::expression::{Expr, Sample, kept};
use super::handles::parts_of;
use super::place;
use super::repeat::{self, Loop, begin_stepped, begin_unstepped, leave_unless};
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

    /// Begins the loop: also what its pattern is given.
    #[doc(hidden)]
    fn begin(s: &mut State, over: Raw, location: &'static Location<'static>) -> (Loop<()>, Raw);
}

/// Begins `for pattern in over`: the loop, and what its pattern is given.
#[track_caller]
pub fn begin_for<I: ?Sized + Iterate>(over: Expr<I>) -> (Loop<()>, Expr<I::Item>) {
    let (this, item) = begin_raw(over.raw(), I::begin, Location::caller());
    (this, Expr::from_raw(item))
}

fn begin_raw(
    over: Raw,
    begin: fn(&mut State, Raw, &'static Location<'static>) -> (Loop<()>, Raw),
    location: &'static Location<'static>,
) -> (Loop<()>, Raw) {
    state::at(location, |s| begin(s, over, location))
}

/// So many parts: the ends of a range, say.
fn parts<const N: usize>(
    s: &mut State,
    raw: Raw,
    location: &'static Location<'static>,
) -> [Raw; N] {
    let known = parts_of(s, raw, location).and_then(|parts| parts.try_into().ok());
    // What is none was refused where it was made.
    known.unwrap_or([Raw::Nothing; N])
}

fn binary(s: &mut State, operation: BinaryOperation, left: Value, right: Value) -> Value {
    s.frame().function.binary(operation, left, right)
}

/// The value of a counter.
fn load(s: &mut State, counter: LocalId) -> Value {
    s.frame().function.load_local(counter)
}

/// What makes a number's type. Passed as a value, so that a loop is written by one function for all types.
type OfType = fn(&mut State) -> Type;

fn one(s: &mut State, of: OfType) -> Value {
    let scalar = of(s).scalar().unwrap_or(Scalar::Index);
    s.frame().function.literal(scalar, 1)
}

pub(super) fn both_ends(
    s: &mut State,
    raw: Raw,
    location: &'static Location<'static>,
) -> (Value, Value) {
    // Of `start..=end` there is a third.
    let known = parts_of(s, raw, location).unwrap_or_default();
    let (Some(&start), Some(&end)) = (known.first(), known.get(1)) else {
        return [Raw::Nothing; 2].map(|end| s.value(end, location)).into();
    };
    (s.value(start, location), s.value(end, location))
}

fn expression<T: ?Sized>(value: Value) -> Expr<T> {
    Expr::from_raw(Raw::Value(value))
}

impl<T: KernelValue> Iterate for Range<T> {
    type Item = T;

    fn begin(s: &mut State, over: Raw, location: &'static Location<'static>) -> (Loop<()>, Raw) {
        let (start, end) = both_ends(s, over, location);
        let counter = s.frame().function.local(None, start);
        upward(s, T::ir_type, counter, end, location)
    }
}

/// Counts a variable up to an end, by ones.
fn upward(
    s: &mut State,
    of: OfType,
    counter: LocalId,
    end: Value,
    location: &'static Location<'static>,
) -> (Loop<()>, Raw) {
    let step = move |s: &mut State| {
        let (at, one) = (load(s, counter), one(s, of));
        let next = binary(s, BinaryOperation::Add, at, one);
        s.frame().function.store_local(counter, next);
    };
    let this = begin_stepped(s, step, location);
    let at = load(s, counter);
    let inside = binary(s, BinaryOperation::Less, at, end);
    leave_unless(s, inside, this);
    (this, Raw::Value(load(s, counter)))
}

impl<T: KernelValue> Iterate for Rev<Range<T>> {
    type Item = T;

    /// Counts a variable down from the end, exclusive, to the start, inclusive.
    fn begin(s: &mut State, over: Raw, location: &'static Location<'static>) -> (Loop<()>, Raw) {
        let (start, end) = both_ends(s, over, location);
        let counter = s.frame().function.local(None, end);
        let this = begin_unstepped(s, location);
        let at = load(s, counter);
        let inside = binary(s, BinaryOperation::Greater, at, start);
        leave_unless(s, inside, this);
        let (at, one) = (load(s, counter), one(s, T::ir_type));
        let at = binary(s, BinaryOperation::Subtract, at, one);
        s.frame().function.store_local(counter, at);
        (this, Raw::Value(at))
    }
}

/// A loop whose counter may not go past its last value, as that may be the greatest or smallest of its type:
/// whether it is over is kept in a variable. `advance` says whether this is the last round, and what comes next.
fn to_the_last(
    s: &mut State,
    (first, is_empty): (Value, Value),
    advance: &mut dyn FnMut(&mut State, Value) -> (Value, Value),
    location: &'static Location<'static>,
) -> (Loop<()>, Raw) {
    let counter = s.frame().function.local(None, first);
    let over = s.frame().function.local(None, is_empty);
    let this = begin_unstepped(s, location);
    let is_over = load(s, over);
    let goes_on = s.frame().function.unary(UnaryOperation::Not, is_over);
    leave_unless(s, goes_on, this);
    let at = load(s, counter);
    let (is_last, next) = advance(s, at);
    s.frame().function.store_local(over, is_last);
    s.frame().function.store_local(counter, next);
    (this, Raw::Value(at))
}

fn inclusive(
    s: &mut State,
    of: OfType,
    (first, last): (Value, Value),
    (is_empty, step): (BinaryOperation, BinaryOperation),
    location: &'static Location<'static>,
) -> (Loop<()>, Raw) {
    let is_empty = binary(s, is_empty, first, last);
    let mut advance = |s: &mut State, at| {
        let is_last = binary(s, BinaryOperation::Equal, at, last);
        let one = one(s, of);
        (is_last, binary(s, step, at, one))
    };
    to_the_last(s, (first, is_empty), &mut advance, location)
}

impl<T: KernelValue> Iterate for RangeInclusive<T> {
    type Item = T;

    fn begin(s: &mut State, over: Raw, location: &'static Location<'static>) -> (Loop<()>, Raw) {
        let ends = both_ends(s, over, location);
        let operations = (BinaryOperation::Greater, BinaryOperation::Add);
        inclusive(s, T::ir_type, ends, operations, location)
    }
}

impl<T: KernelValue> Iterate for Rev<RangeInclusive<T>> {
    type Item = T;

    fn begin(s: &mut State, over: Raw, location: &'static Location<'static>) -> (Loop<()>, Raw) {
        let (start, end) = both_ends(s, over, location);
        let operations = (BinaryOperation::Less, BinaryOperation::Subtract);
        inclusive(s, T::ir_type, (end, start), operations, location)
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

/// In which order a range is gone over in steps.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Order {
    /// `range.step_by(n)`.
    Upward,
    /// `range.rev().step_by(n)`: from the end.
    FromTheEnd,
    /// `range.step_by(n).rev()`: as upward, the last first.
    Backward,
}

/// A step, which is not zero: of zero an iterator panics, and so that is a fault, and then one.
fn step_of(s: &mut State, step: Raw, location: &'static Location<'static>) -> Value {
    let step = s.value(step, location);
    if s.frame()
        .known(Raw::Value(step))
        .is_some_and(|step| step != 0)
    {
        return step;
    }
    let zero = s.frame().literal(Scalar::Index, 0);
    let is_some = binary(s, BinaryOperation::NotEqual, step, zero);
    let message = ("step_by: the step is zero", &[][..]);
    super::expression::assert_value(s, is_some, message, location);
    let one = s.frame().literal(Scalar::Index, 1);
    binary(s, BinaryOperation::Maximum, step, one)
}

/// A range and its steps. With a third part, every thread of the block goes as many, if all are told the same count.
fn stepped_parts(
    s: &mut State,
    raw: Raw,
    location: &'static Location<'static>,
) -> (Raw, Raw, bool) {
    if let Raw::Aggregate(id) = raw
        && let &[range, step, Raw::Nothing] = s.frame().parts(id)
    {
        return (range, step, true);
    }
    let [range, step] = parts(s, raw, location);
    (range, step, false)
}

/// A range in steps. How far the end is away is computed without a sign, as it may be further than the type's
/// greatest number.
fn in_steps(
    s: &mut State,
    of: OfType,
    raw: Raw,
    (is_inclusive, order): (bool, Order),
    location: &'static Location<'static>,
) -> (Loop<()>, Raw) {
    use BinaryOperation::{Add, Divide, Equal, Greater, GreaterEqual, Less, Multiply, Subtract};
    let (range, step, is_uniform) = stepped_parts(s, raw, location);
    let (start, end) = both_ends(s, range, location);
    let step = step_of(s, step, location);
    let scalar = of(s).scalar().unwrap_or(Scalar::Index);
    // How much greater one is than another.
    let distance = move |s: &mut State, greater, smaller| {
        let f = &mut s.frame().function;
        let distance = f.binary(Subtract, greater, smaller);
        let distance = f.cast(distance, unsigned(scalar));
        f.cast(distance, Scalar::U64)
    };
    let is_empty = if is_uniform {
        // As every thread begins before the end, or all is empty. This is the same for all threads if the count is.
        let zero = s.frame().literal(Scalar::Index, 0);
        binary(s, Equal, end, zero)
    } else {
        let is_beyond = if is_inclusive { Greater } else { GreaterEqual };
        binary(s, is_beyond, start, end)
    };
    // Of an empty range neither is looked at.
    let last = if is_inclusive {
        end
    } else {
        let one = one(s, of);
        binary(s, Subtract, end, one)
    };
    let wide = s.frame().function.cast(step, Scalar::U64);
    let (first, goal) = match order {
        Order::Upward => (start, last),
        Order::FromTheEnd => (last, start),
        Order::Backward => {
            let all = distance(s, last, start);
            let f = &mut s.frame().function;
            let steps = f.binary(Divide, all, wide);
            let way = f.binary(Multiply, steps, wide);
            let way = f.cast(way, scalar);
            (f.binary(Add, start, way), start)
        }
    };
    let mut advance = |s: &mut State, at| {
        let left = match order {
            Order::Upward => distance(s, goal, at),
            Order::FromTheEnd | Order::Backward => distance(s, at, goal),
        };
        let is_last = binary(s, Less, left, wide);
        let f = &mut s.frame().function;
        let is_last = if is_uniform {
            f.assume_uniform(is_last)
        } else {
            is_last
        };
        let step = f.cast(step, scalar);
        let way = if order == Order::Upward {
            Add
        } else {
            Subtract
        };
        (is_last, f.binary(way, at, step))
    };
    to_the_last(s, (first, is_empty), &mut advance, location)
}

macro_rules! in_steps {
    ($($range:ty, $is_inclusive:literal, $order:ident;)*) => {$(
        impl<T: KernelValue> Iterate for $range {
            type Item = T;

            fn begin(
                s: &mut State,
                over: Raw,
                location: &'static Location<'static>,
            ) -> (Loop<()>, Raw) {
                in_steps(s, T::ir_type, over, ($is_inclusive, Order::$order), location)
            }
        }
    )*};
}

in_steps! {
    StepBy<Range<T>>, false, Upward;
    StepBy<RangeInclusive<T>>, true, Upward;
    StepBy<Rev<Range<T>>>, false, FromTheEnd;
    StepBy<Rev<RangeInclusive<T>>>, true, FromTheEnd;
    Rev<StepBy<Range<T>>>, false, Backward;
    Rev<StepBy<RangeInclusive<T>>>, true, Backward;
}

/// Goes over all elements of an array or slice, as places: the number of one, and it.
fn each_element(
    s: &mut State,
    raw: Raw,
    location: &'static Location<'static>,
) -> (Loop<()>, Raw, Raw) {
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
    let counter = s.frame().function.local(None, zero);
    let (this, number) = upward(s, usize::ir_type, counter, end, location);
    let at = s.value(number, location);
    let element = match place::indexed(s, slice, at, false, location) {
        Raw::Place(id, _) => Raw::Place(id, Mode::Reference),
        raw => raw,
    };
    (this, number, element)
}

impl<T: KernelValue, const N: usize> Iterate for [T; N] {
    type Item = T;

    fn begin(s: &mut State, over: Raw, location: &'static Location<'static>) -> (Loop<()>, Raw) {
        let by_value = !matches!(over, Raw::Place(_, Mode::Reference));
        let (this, _, element) = each_element(s, over, location);
        if by_value {
            return (this, Raw::Value(s.value(element, location)));
        }
        (this, element)
    }
}

impl<T: KernelValue> Iterate for [T] {
    type Item = T;

    fn begin(s: &mut State, over: Raw, location: &'static Location<'static>) -> (Loop<()>, Raw) {
        let (this, _, element) = each_element(s, over, location);
        (this, element)
    }
}

impl<T: KernelValue> Iterate for Iter<'static, T> {
    type Item = T;

    fn begin(s: &mut State, over: Raw, location: &'static Location<'static>) -> (Loop<()>, Raw) {
        let (this, _, element) = each_element(s, over, location);
        (this, element)
    }
}

impl<T: KernelValue> Iterate for Enumerate<Iter<'static, T>> {
    type Item = (usize, T);

    fn begin(s: &mut State, over: Raw, location: &'static Location<'static>) -> (Loop<()>, Raw) {
        let (this, index, element) = each_element(s, over, location);
        (this, numbered(s, index, element))
    }
}

/// A number or position, and an element.
pub(super) fn numbered(s: &mut State, index: Raw, element: Raw) -> Raw {
    s.frame().aggregate(vec![index, element], None)
}

macro_rules! samples {
    ($([$($generics:tt)*] $type:ty => $value:expr;)*) => {$(
        impl<$($generics)*> Sample for $type {
            fn sample() -> &'static Self {
                kept(|| $value)
            }
        }
    )*};
}

samples! {
    [T: KernelValue] Range<T> => T::sample_value()..T::sample_value();
    [T: KernelValue] RangeInclusive<T> => T::sample_value()..=T::sample_value();
    [T: KernelValue] Iter<'static, T> => [].iter();
}

/// Of these there is none without a range of numbers that can be counted.
macro_rules! adapted {
    ($($number:ty)*) => {$(
        samples! {
            [] Rev<Range<$number>> => (0..1).rev();
            [] Rev<RangeInclusive<$number>> => (0..=1).rev();
            [] StepBy<Range<$number>> => (0..1).step_by(1);
            [] StepBy<RangeInclusive<$number>> => (0..=1).step_by(1);
        }
    )*};
}

adapted!(i8 i16 i32 i64 isize u8 u16 u32 u64 usize);

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

impl<T: KernelValue> RangeMethods for Range<T> {}
impl<T: KernelValue> RangeMethods for RangeInclusive<T> {}
impl<T: KernelValue> RangeMethods for Rev<Range<T>> {}
impl<T: KernelValue> RangeMethods for Rev<RangeInclusive<T>> {}
impl<T: KernelValue> RangeMethods for StepBy<Range<T>> {}
impl<T: KernelValue> RangeMethods for StepBy<RangeInclusive<T>> {}

/// Methods of `slice.iter()`.
pub trait IterMethods: Sized {
    /// `slice.iter().enumerate()`.
    #[doc(hidden)]
    fn __method_enumerate(&self, this: Expr<Self>) -> Expr<Enumerate<Self>> {
        Expr::from_raw(this.raw())
    }
}

impl<T: KernelValue> IterMethods for Iter<'static, T> {}

/// Methods of slices and arrays.
pub trait SliceMethods<T: KernelValue> {
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
        fill(this.raw(), value.raw(), location);
        nothing()
    }
}

fn fill(raw: Raw, value: Raw, location: &'static Location<'static>) {
    state::at(location, |s| {
        let value = s.value(value, location);
        let raw = place::whole_slice(s, raw, location);
        let (this, _, element) = each_element(s, raw, location);
        if let Raw::Place(id, _) = element {
            let (place, _) = s.frame().place_of(id).clone();
            s.frame().function.store(place, value);
        }
        repeat::end(s, this);
    });
}

impl<T: KernelValue> SliceMethods<T> for [T] {}
impl<T: KernelValue, const N: usize> SliceMethods<T> for [T; N] {}
