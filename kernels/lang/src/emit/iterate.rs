//! `for` loops: over ranges, over the elements of arrays and slices, over a thread's own.

use std::ops::{Range, RangeFrom, RangeInclusive};
use std::panic::Location;
use std::slice::Iter;

use quipu_kernel_ir::{BinaryOperation, LocalId, Scalar, Type, UnaryOperation, Value};

use super::adapt::{
    CHUNKS, Count, EXACT_CHUNKS, Indexed, Item, Items, Parts, WINDOWS, cast, copied, parts_of_slice,
};
use super::consume::{contains, is_between};
use super::control::nothing;
use super::data::{KernelValue, derived_literal};
use super::expression::{Coerce, Expr, Sample, assert_value, bind_mut, kept, reference, value};
use super::handles::{SharedReadHandle, parts_of, referred};
use super::option::{either, inside, none, some};
use super::place;
use super::repeat::{
    self, Loop, begin_loop, begin_stepped, begin_unstepped, break_unless, leave_unless,
};
use super::share::{Share, Whole};
use super::state::{self, Mode, Raw, State};
use super::variant::is_variant;

/// A type that a `for` loop goes over.
pub trait Iterate {
    /// The type of the loop's pattern.
    type Item: ?Sized;
    /// The items that it goes over.
    type Share: Share;

    /// Begins the loop; gives it and the value for its pattern.
    #[doc(hidden)]
    fn begin(s: &mut State, over: Raw, location: &'static Location<'static>) -> (Loop<()>, Raw);

    /// The same, where no state is at hand.
    #[doc(hidden)]
    #[track_caller]
    fn begin_for(over: Expr<Self>) -> (Loop<()>, Expr<Self::Item>) {
        let (this, item) = begin_raw(over.raw(), Self::begin, Location::caller());
        (this, Expr::from_raw(item))
    }
}

/// Begins `for pattern in over`: the loop, and the value for its pattern.
#[track_caller]
pub fn begin_for<I: ?Sized + Iterate>(over: Expr<I>) -> (Loop<()>, Expr<I::Item>) {
    I::begin_for(over)
}

/// As [`begin_for`], over an iterator of a user's type with this `next`.
#[track_caller]
pub fn begin_own<I, T: KernelValue>(
    over: Expr<I>,
    next: impl FnOnce(Expr<I>) -> Expr<Option<T>>,
) -> (Loop<()>, Expr<T>) {
    let iterator = bind_mut("iterator", over);
    let this = begin_loop::<()>();
    let item = value(next(reference(iterator)));
    break_unless(is_variant(item, "Some"), this);
    (this, inside(item))
}

fn begin_raw(
    over: Raw,
    begin: fn(&mut State, Raw, &'static Location<'static>) -> (Loop<()>, Raw),
    location: &'static Location<'static>,
) -> (Loop<()>, Raw) {
    state::at(location, |s| begin(s, over, location))
}

/// So many parts: the ends of a range, say.
pub(super) fn parts<const N: usize>(
    s: &mut State,
    raw: Raw,
    location: &'static Location<'static>,
) -> [Raw; N] {
    let known = parts_of(s, raw, location).and_then(|parts| parts.try_into().ok());
    // An aggregate that is none was refused where it was made.
    known.unwrap_or([Raw::Nothing; N])
}

pub(super) fn binary(
    s: &mut State,
    operation: BinaryOperation,
    left: Value,
    right: Value,
) -> Value {
    s.frame().function.binary(operation, left, right)
}

/// The value of a counter.
fn load(s: &mut State, counter: LocalId) -> Value {
    s.frame().function.load_local(counter)
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

impl<I: ?Sized + Indexed> Iterate for I {
    type Item = I::Item;
    type Share = I::Share;

    fn begin(s: &mut State, over: Raw, location: &'static Location<'static>) -> (Loop<()>, Raw) {
        I::begin_counting(s, over, location)
    }
}

/// Counts a variable up, by ones, to an end if there is one.
fn upward(
    s: &mut State,
    scalar: Scalar,
    (start, end): (Value, Option<Value>),
    location: &'static Location<'static>,
) -> (Loop<()>, Value) {
    let counter = s.frame().function.local(None, start);
    let step = move |s: &mut State| {
        let at = load(s, counter);
        let one = s.frame().function.literal(scalar, 1);
        let next = binary(s, BinaryOperation::Add, at, one);
        s.frame().function.store_local(counter, next);
    };
    let this = begin_stepped(s, step, location);
    if let Some(end) = end {
        let at = load(s, counter);
        let inside = binary(s, BinaryOperation::Less, at, end);
        leave_unless(s, inside, this);
    }
    (this, load(s, counter))
}

/// Counts a variable up to its last value. As that may be the greatest of its type, whether the
/// loop is over is kept in a variable of its own.
fn to_the_last(
    s: &mut State,
    scalar: Scalar,
    (first, last, is_empty): (Value, Value, Value),
    location: &'static Location<'static>,
) -> (Loop<()>, Value) {
    let f = &mut s.frame().function;
    let counter = f.local(None, first);
    let over = f.local(None, is_empty);
    let this = begin_unstepped(s, location);
    let is_finished = load(s, over);
    let goes_on = s.frame().function.unary(UnaryOperation::Not, is_finished);
    leave_unless(s, goes_on, this);
    let at = load(s, counter);
    let is_last = binary(s, BinaryOperation::Equal, at, last);
    let one = s.frame().function.literal(scalar, 1);
    let next = binary(s, BinaryOperation::Add, at, one);
    s.frame().function.store_local(over, is_last);
    s.frame().function.store_local(counter, next);
    (this, at)
}

/// Begins a loop over items that have numbers.
pub(super) fn begin_items(
    s: &mut State,
    items: &Items,
    location: &'static Location<'static>,
) -> (Loop<()>, Raw) {
    let scalar = items.scalar;
    let zero = s.frame().literal(scalar, 0);
    let (this, number) = match items.count {
        Count::Of(count) => upward(s, scalar, (zero, Some(count)), location),
        Count::To { last, is_empty } => to_the_last(s, scalar, (zero, last, is_empty), location),
        Count::Endless => upward(s, scalar, (zero, None), location),
    };
    (this, items.item(s, number))
}

/// The scalar that a type is. Of a type that is none, rustc has said so.
fn scalar_of(s: &mut State, of: fn(&mut State) -> Type) -> Scalar {
    of(s).scalar().unwrap_or(Scalar::Index)
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

/// The type that the items of a range are numbered with: the distance of its ends may be more than
/// its type's greatest number.
fn numbers_of(scalar: Scalar) -> Scalar {
    match unsigned(scalar) {
        Scalar::U8 | Scalar::U16 => Scalar::U32,
        wide => wide,
    }
}

/// A function that makes the items of a range from its start on.
fn item_after(start: Value, scalar: Scalar) -> Item {
    Box::new(move |s, number| {
        let way = cast(s, number, scalar);
        Raw::Value(binary(s, BinaryOperation::Add, start, way))
    })
}

fn items_between(
    s: &mut State,
    scalar: Scalar,
    (start, end): (Value, Value),
    is_inclusive: bool,
) -> Items {
    let numbers = numbers_of(scalar);
    let distance = binary(s, BinaryOperation::Subtract, end, start);
    let distance = cast(s, distance, unsigned(scalar));
    let distance = cast(s, distance, numbers);
    let count = if is_inclusive {
        let is_empty = binary(s, BinaryOperation::Greater, start, end);
        let last = distance;
        Count::To { last, is_empty }
    } else {
        let is_some = binary(s, BinaryOperation::Less, start, end);
        let zero = s.frame().literal(numbers, 0);
        Count::Of(s.frame().function.select(is_some, distance, zero))
    };
    Items {
        scalar: numbers,
        count,
        item: item_after(start, scalar),
    }
}

impl<T: KernelValue> Indexed for Range<T> {
    type Item = T;
    type Share = Whole;

    fn items(s: &mut State, over: Raw, location: &'static Location<'static>) -> Items {
        let (ends, scalar) = (both_ends(s, over, location), scalar_of(s, T::ir_type));
        items_between(s, scalar, ends, false)
    }

    fn begin_counting(
        s: &mut State,
        over: Raw,
        location: &'static Location<'static>,
    ) -> (Loop<()>, Raw) {
        let ((start, end), scalar) = (both_ends(s, over, location), scalar_of(s, T::ir_type));
        let (this, at) = upward(s, scalar, (start, Some(end)), location);
        (this, Raw::Value(at))
    }
}

impl<T: KernelValue> Indexed for RangeInclusive<T> {
    type Item = T;
    type Share = Whole;

    fn items(s: &mut State, over: Raw, location: &'static Location<'static>) -> Items {
        let (ends, scalar) = (both_ends(s, over, location), scalar_of(s, T::ir_type));
        items_between(s, scalar, ends, true)
    }

    fn begin_counting(
        s: &mut State,
        over: Raw,
        location: &'static Location<'static>,
    ) -> (Loop<()>, Raw) {
        let ((start, end), scalar) = (both_ends(s, over, location), scalar_of(s, T::ir_type));
        let is_empty = binary(s, BinaryOperation::Greater, start, end);
        let (this, at) = to_the_last(s, scalar, (start, end, is_empty), location);
        (this, Raw::Value(at))
    }
}

impl<T: KernelValue> Indexed for RangeFrom<T> {
    type Item = T;
    type Share = Whole;

    fn items(s: &mut State, over: Raw, location: &'static Location<'static>) -> Items {
        let scalar = scalar_of(s, T::ir_type);
        let [start, _] = parts(s, over, location);
        Items {
            scalar: numbers_of(scalar),
            count: Count::Endless,
            item: item_after(s.value(start, location), scalar),
        }
    }

    fn begin_counting(
        s: &mut State,
        over: Raw,
        location: &'static Location<'static>,
    ) -> (Loop<()>, Raw) {
        let scalar = scalar_of(s, T::ir_type);
        let [start, _] = parts(s, over, location);
        let start = s.value(start, location);
        let (this, at) = upward(s, scalar, (start, None), location);
        (this, Raw::Value(at))
    }
}

/// All elements of an array or slice, as places.
fn elements(s: &mut State, raw: Raw, location: &'static Location<'static>) -> Items {
    let by_reference = !matches!(raw, Raw::Place(_, Mode::Itself));
    // An array by value is gone over as it is now.
    let raw = if by_reference {
        raw
    } else {
        let raw = s.frame().copied(raw);
        super::expression::spilled(s, raw, Mode::Itself)
    };
    let slice = place::whole_slice(s, raw, location);
    Items {
        scalar: Scalar::Index,
        count: Count::Of(place::length(s, slice, location)),
        item: Box::new(move |s, at| referred(place::indexed(s, slice, at, false, location))),
    }
}

impl<T: KernelValue, const N: usize> Indexed for [T; N] {
    type Item = T;
    type Share = Whole;

    fn items(s: &mut State, over: Raw, location: &'static Location<'static>) -> Items {
        let elements = elements(s, over, location);
        if let Raw::Place(_, Mode::Reference) = over {
            return elements;
        }
        copied(elements, location)
    }
}

impl<T: KernelValue> Indexed for [T] {
    type Item = T;
    type Share = Whole;

    fn items(s: &mut State, over: Raw, location: &'static Location<'static>) -> Items {
        elements(s, over, location)
    }
}

impl<T: KernelValue> Indexed for Iter<'static, T> {
    type Item = T;
    type Share = Whole;

    fn items(s: &mut State, over: Raw, location: &'static Location<'static>) -> Items {
        elements(s, over, location)
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
    [T: KernelValue] RangeFrom<T> => T::sample_value()..;
    [T: KernelValue] Iter<'static, T> => [].iter();
}

/// Methods of ranges that are asked, and not gone over.
pub trait RangeMethods<T: KernelValue>: Sized {
    /// The comparison of a number with the end, if there is one.
    #[doc(hidden)]
    const END: Option<BinaryOperation>;

    /// `range.contains(&number)`.
    #[doc(hidden)]
    #[track_caller]
    fn __method_contains(&self, this: Expr<Self>, number: Expr<T>) -> Expr<bool> {
        let location = Location::caller();
        expression(state::at(location, |s| {
            let parts = parts_of(s, this.raw(), location).unwrap_or_default();
            let mut part = |number: usize| {
                let part = parts.get(number).copied().unwrap_or(Raw::Nothing);
                s.value(part, location)
            };
            let ends = (part(0), Self::END.map(|operation| (operation, part(1))));
            is_between(s, ends, (number.raw(), T::IS_DERIVED), location)
        }))
    }
}

/// Of a range whose end is not in it: how many numbers there are.
#[doc(hidden)]
pub trait RangeLength<T: KernelValue>: Sized {
    #[track_caller]
    fn __method_len(&self, this: Expr<Self>) -> Expr<usize> {
        let location = Location::caller();
        expression(state::at(location, |s| {
            let (ends, scalar) = (both_ends(s, this.raw(), location), scalar_of(s, T::ir_type));
            match items_between(s, scalar, ends, false).count {
                Count::Of(count) => cast(s, count, Scalar::Index),
                Count::To { last, .. } => last,
                Count::Endless => s.frame().literal(Scalar::Index, 0),
            }
        }))
    }

    #[track_caller]
    fn __method_is_empty(&self, this: Expr<Self>) -> Expr<bool> {
        let location = Location::caller();
        expression(state::at(location, |s| {
            let (start, end) = both_ends(s, this.raw(), location);
            let has_some = binary(s, BinaryOperation::Less, start, end);
            s.frame().function.unary(UnaryOperation::Not, has_some)
        }))
    }
}

impl<T: KernelValue> RangeLength<T> for Range<T> {}

impl<T: KernelValue> RangeMethods<T> for Range<T> {
    const END: Option<BinaryOperation> = Some(BinaryOperation::Less);
}

impl<T: KernelValue> RangeMethods<T> for RangeInclusive<T> {
    const END: Option<BinaryOperation> = Some(BinaryOperation::LessEqual);
}

impl<T: KernelValue> RangeMethods<T> for RangeFrom<T> {
    const END: Option<BinaryOperation> = None;
}

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

    /// `slice.contains(&number)`.
    #[doc(hidden)]
    #[track_caller]
    fn __method_contains<S: ?Sized>(&self, this: Expr<S>, number: Expr<T>) -> Expr<bool> {
        let location = Location::caller();
        expression(state::at(location, |s| {
            let elements = elements(s, this.raw(), location);
            contains(s, &elements, (number.raw(), T::IS_DERIVED), location)
        }))
    }

    /// `slice.get(index)`.
    #[doc(hidden)]
    #[track_caller]
    fn __method_get<S: ?Sized, I: IndexesOne>(
        &self,
        this: Expr<S>,
        index: Expr<I>,
    ) -> Expr<Option<T>> {
        let location = Location::caller();
        let (index, length) = state::at(location, |s| {
            (
                s.value(index.raw(), location),
                place::length(s, this.raw(), location),
            )
        });
        element_of(this.raw(), index, length, location)
    }

    /// `slice.first()`.
    #[doc(hidden)]
    #[track_caller]
    fn __method_first<S: ?Sized>(&self, this: Expr<S>) -> Expr<Option<T>> {
        let location = Location::caller();
        let (first, length) = state::at(location, |s| {
            (
                s.frame().literal(Scalar::Index, 0),
                place::length(s, this.raw(), location),
            )
        });
        element_of(this.raw(), first, length, location)
    }

    /// `slice.last()`.
    #[doc(hidden)]
    #[track_caller]
    fn __method_last<S: ?Sized>(&self, this: Expr<S>) -> Expr<Option<T>> {
        let location = Location::caller();
        let (last, length) = state::at(location, |s| {
            let length = place::length(s, this.raw(), location);
            let one = s.frame().literal(Scalar::Index, 1);
            // Of an empty slice it is beyond all lengths.
            (binary(s, BinaryOperation::Subtract, length, one), length)
        });
        element_of(this.raw(), last, length, location)
    }

    /// `slice.try_into().unwrap()`.
    #[doc(hidden)]
    #[track_caller]
    fn __method_try_into_unwrap<S: ?Sized, const N: usize>(&self, this: Expr<S>) -> Expr<[T; N]> {
        let location = Location::caller();
        Expr::from_raw(state::at(location, |s| {
            let slice = place::whole_slice(s, this.raw(), location);
            let length = place::length(s, slice, location);
            let count = s.frame().literal(Scalar::Index, N as u64);
            let is_same = binary(s, BinaryOperation::Equal, length, count);
            let message = "a slice of {} elements is no array of {}";
            let lengths = [Raw::Value(length), Raw::Value(count)];
            assert_value(s, is_same, (message, &lengths), location);
            let part = |at| {
                let at = s.frame().literal(Scalar::Index, at as u64);
                let element = place::indexed(s, slice, at, false, location);
                Raw::Value(s.value(element, location))
            };
            let parts = (0..N).map(part).collect();
            derived_literal::<[T; N]>(s, parts)
        }))
    }

    /// `slice.copy_from_slice(&other)`.
    #[doc(hidden)]
    #[track_caller]
    fn __method_copy_from_slice<S: ?Sized, O: ?Sized + Coerce<[T]>>(
        &self,
        this: Expr<S>,
        other: Expr<O>,
    ) -> Expr<()> {
        copy(this.raw(), other.raw(), Location::caller());
        nothing()
    }

    /// `slice.clone_from_slice(&other)`.
    #[doc(hidden)]
    #[track_caller]
    fn __method_clone_from_slice<S: ?Sized, O: ?Sized + Coerce<[T]>>(
        &self,
        this: Expr<S>,
        other: Expr<O>,
    ) -> Expr<()> {
        copy(this.raw(), other.raw(), Location::caller());
        nothing()
    }

    /// `slice.reverse()`.
    #[doc(hidden)]
    #[track_caller]
    fn __method_reverse<S: ?Sized>(&self, this: Expr<S>) -> Expr<()> {
        reverse(this.raw(), Location::caller());
        nothing()
    }

    /// `slice.windows(n)`.
    #[doc(hidden)]
    #[track_caller]
    fn __method_windows<S: ?Sized>(
        &self,
        this: Expr<S>,
        size: Expr<usize>,
    ) -> Expr<Parts<T, WINDOWS>> {
        parts_of_slice(this.raw(), size.raw(), Location::caller())
    }

    /// `slice.chunks(n)`.
    #[doc(hidden)]
    #[track_caller]
    fn __method_chunks<S: ?Sized>(
        &self,
        this: Expr<S>,
        size: Expr<usize>,
    ) -> Expr<Parts<T, CHUNKS>> {
        parts_of_slice(this.raw(), size.raw(), Location::caller())
    }

    /// `slice.chunks_exact(n)`.
    #[doc(hidden)]
    #[track_caller]
    fn __method_chunks_exact<S: ?Sized>(
        &self,
        this: Expr<S>,
        size: Expr<usize>,
    ) -> Expr<Parts<T, EXACT_CHUNKS>> {
        parts_of_slice(this.raw(), size.raw(), Location::caller())
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

/// An argument of `get`.
#[diagnostic::on_unimplemented(
    message = "`get` of a range gives an `Option` of a slice, which is not in the kernel language",
    label = "compare the ends with `len()`, and write `&x[a..b]`"
)]
pub trait IndexesOne {}

impl IndexesOne for usize {}

/// `Some` of the element with a number, if there is one.
fn element_of<T: KernelValue>(
    raw: Raw,
    index: Value,
    length: Value,
    location: &'static Location<'static>,
) -> Expr<Option<T>> {
    let is_inside = expression(state::at(location, |s| {
        binary(s, BinaryOperation::Less, index, length)
    }));
    let element = || {
        some(expression(state::at(location, |s| {
            let element = place::indexed(s, raw, index, false, location);
            s.value(element, location)
        })))
    };
    either(is_inside, element, none)
}

/// Stores a value where an element is.
fn store_at(s: &mut State, place: Raw, value: Value) {
    if let Raw::Place(id, _) = place {
        let (place, _) = s.frame().place_of(id).clone();
        s.frame().function.store(place, value);
    }
}

fn copy(to: Raw, from: Raw, location: &'static Location<'static>) {
    state::at(location, |s| {
        let [to, from] = [to, from].map(|raw| place::whole_slice(s, raw, location));
        let [length, of_source] = [to, from].map(|raw| place::length(s, raw, location));
        let is_same = binary(s, BinaryOperation::Equal, length, of_source);
        let message = "copy_from_slice: the lengths are {} and {}";
        let lengths = [Raw::Value(length), Raw::Value(of_source)];
        assert_value(s, is_same, (message, &lengths), location);
        let elements = elements(s, to, location);
        let (this, at) = upward_to(s, length, location);
        let value = place::indexed(s, from, at, false, location);
        let value = s.value(value, location);
        let element = elements.item(s, at);
        store_at(s, element, value);
        repeat::end(s, this);
    });
}

/// Counts from zero up to a length.
fn upward_to(
    s: &mut State,
    length: Value,
    location: &'static Location<'static>,
) -> (Loop<()>, Value) {
    let zero = s.frame().literal(Scalar::Index, 0);
    upward(s, Scalar::Index, (zero, Some(length)), location)
}

fn reverse(raw: Raw, location: &'static Location<'static>) {
    state::at(location, |s| {
        let raw = place::whole_slice(s, raw, location);
        let length = place::length(s, raw, location);
        let (one, two) = (
            s.frame().literal(Scalar::Index, 1),
            s.frame().literal(Scalar::Index, 2),
        );
        let half = binary(s, BinaryOperation::Divide, length, two);
        let (this, at) = upward_to(s, half, location);
        let last = binary(s, BinaryOperation::Subtract, length, one);
        let other = binary(s, BinaryOperation::Subtract, last, at);
        let places = [at, other].map(|at| place::indexed(s, raw, at, false, location));
        let [first, second] = places.map(|place| s.value(place, location));
        store_at(s, places[0], second);
        store_at(s, places[1], first);
        repeat::end(s, this);
    });
}

fn fill(raw: Raw, value: Raw, location: &'static Location<'static>) {
    state::at(location, |s| {
        let value = s.value(value, location);
        let raw = place::whole_slice(s, raw, location);
        let elements = elements(s, raw, location);
        let (this, element) = begin_items(s, &elements, location);
        if let Raw::Place(id, _) = element {
            let (place, _) = s.frame().place_of(id).clone();
            s.frame().function.store(place, value);
        }
        repeat::end(s, this);
    });
}

impl<T: KernelValue> SliceMethods<T> for [T] {}
impl<T: KernelValue> SliceMethods<T> for SharedReadHandle<T> {}
impl<T: KernelValue, const N: usize> SliceMethods<T> for [T; N] {}
