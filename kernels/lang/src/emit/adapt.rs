//! Iterators whose items have numbers, and the adapters that make others of these.
//!
//! Such an iterator is [`Items`]: their number, and a function that makes the one with a number. So
//! an adapter is arithmetic on counts and numbers, and a loop over an adapted iterator counts one
//! variable.

use std::marker::PhantomData;
use std::ops::{Range, RangeFrom, RangeInclusive};
use std::panic::Location;
use std::slice::Iter;

use quipu_kernel_ir::{BinaryOperation, Place, Scalar, Space, Type, Value};

use super::consume::{Iterator, Totals, add, multiply, product, sum};
use super::data::KernelValue;
use super::expression::{Expr, Sample, assert_value, bind_mut, lit, value};
use super::handles::{EachHandle, IndicesHandle, IterMutHandle, RowsHandle};
use super::iterate::{begin_for, begin_items, binary, numbered, parts};
use super::option::{none, some};
use super::own::{EachOwnRowHandle, EachPlacedHandle, EachSharedHandle};
use super::place::assign;
use super::repeat::{Loop, end_loop};
use super::search::extreme;
use super::share::{Alike, Apart, Beside, Counts, Share, Whole};
use super::state::{self, Raw, State};
use crate::partition::OF_OTHER_EXTENTS;

/// Makes the item with a number.
pub(super) type Item = Box<dyn Fn(&mut State, Value) -> Raw>;

/// Items, by their numbers.
pub struct Items {
    /// The type of the numbers: `U32`, `Index` or `U64`.
    pub(super) scalar: Scalar,
    pub(super) count: Count,
    pub(super) item: Item,
}

/// The number of items.
#[derive(Clone, Copy)]
pub(super) enum Count {
    Of(Value),
    /// Those with numbers up to this one, unless there are none: how many these are may be more
    /// than the greatest number.
    To {
        last: Value,
        is_empty: Value,
    },
    Endless,
}

impl std::fmt::Debug for Items {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Items({:?})", self.scalar)
    }
}

/// An iterator that a loop goes over by numbers.
#[diagnostic::on_unimplemented(
    message = "a `for` loop in a kernel does not go over `{Self}`",
    label = "not a range, slice, array or a thread's own elements",
    note = "`for` goes over `a..b`, `a..=b`, `a..`, arrays, `slice.iter()`, `.iter_mut()`, and `.rev()`, `.step_by(n)`, `.skip(n)`, `.take(n)`, `.zip(other)`, `.enumerate()` and `.copied()` of these; over `acc.elements(n)`, `y.each()`, `y.iter_mut()` and `y.rows()`",
    note = "over an iterator of your own goes `while let Some(x) = it.next()`"
)]
pub trait Indexed {
    /// The type of the loop's pattern.
    type Item: ?Sized;
    /// The items that it goes over.
    type Share: Share;

    #[doc(hidden)]
    fn items(s: &mut State, over: Raw, location: &'static Location<'static>) -> Items;

    /// The extent that they are a thread's own of, if they are.
    #[doc(hidden)]
    fn whole(_: &mut State, _over: Raw, _: &'static Location<'static>) -> Option<Vec<Value>> {
        None
    }

    /// Begins a loop over all of them.
    #[doc(hidden)]
    fn begin_counting(
        s: &mut State,
        over: Raw,
        location: &'static Location<'static>,
    ) -> (Loop<()>, Raw) {
        let items = Self::items(s, over, location);
        begin_items(s, &items, location)
    }
}

/// Converts it to a number of another type, if it is not of that type.
pub(super) fn cast(s: &mut State, value: Value, scalar: Scalar) -> Value {
    let f = &mut s.frame().function;
    if f.type_of(value).scalar() == Some(scalar) {
        return value;
    }
    f.cast(value, scalar)
}

/// The wider one of two types of numbers.
fn wider(one: Scalar, other: Scalar) -> Scalar {
    let widths = [Scalar::U64, Scalar::Index];
    let found = widths
        .into_iter()
        .find(|width| [one, other].contains(width));
    found.unwrap_or(Scalar::U32)
}

impl Items {
    /// The item with a number, which may be of a wider type.
    pub(super) fn item(&self, s: &mut State, number: Value) -> Raw {
        let number = cast(s, number, self.scalar);
        (self.item)(s, number)
    }

    /// The count in a type that is as wide, or wider.
    fn count_in(&self, s: &mut State, scalar: Scalar) -> Count {
        match self.count {
            Count::Of(count) => Count::Of(cast(s, count, scalar)),
            Count::To { last, is_empty } => Count::To {
                last: cast(s, last, scalar),
                is_empty,
            },
            Count::Endless => Count::Endless,
        }
    }

    /// The last one first.
    fn reversed(self, s: &mut State) -> Self {
        let last = match self.count {
            Count::Of(count) => {
                let one = s.frame().function.literal(self.scalar, 1);
                Some(binary(s, BinaryOperation::Subtract, count, one))
            }
            Count::To { last, .. } => Some(last),
            // An endless iterator has no `rev`, as rustc has said.
            Count::Endless => None,
        };
        Self {
            scalar: self.scalar,
            count: self.count,
            item: Box::new(move |s, number| {
                let number = last.map_or(number, |last| {
                    binary(s, BinaryOperation::Subtract, last, number)
                });
                self.item(s, number)
            }),
        }
    }

    /// With a number of items, that number and the count in one type.
    fn with(&self, s: &mut State, number: Value) -> (Scalar, Value, Count) {
        let scalar = wider(self.scalar, Scalar::Index);
        (scalar, cast(s, number, scalar), self.count_in(s, scalar))
    }

    /// Each so many-th of them, from the first on.
    fn in_steps(self, s: &mut State, step: Value) -> Self {
        use BinaryOperation::{Add, Divide, Multiply, NotEqual, Remainder};
        let (scalar, step, count) = self.with(s, step);
        let count = match count {
            Count::Of(count) => {
                let whole = binary(s, Divide, count, step);
                let rest = binary(s, Remainder, count, step);
                let zero = s.frame().literal(scalar, 0);
                let is_more = binary(s, NotEqual, rest, zero);
                let one = cast(s, is_more, scalar);
                Count::Of(binary(s, Add, whole, one))
            }
            Count::To { last, is_empty } => {
                let last = binary(s, Divide, last, step);
                Count::To { last, is_empty }
            }
            Count::Endless => Count::Endless,
        };
        Self {
            scalar,
            count,
            item: Box::new(move |s, number| {
                let number = binary(s, Multiply, number, step);
                self.item(s, number)
            }),
        }
    }

    /// All but so many of the first.
    fn skipping(self, s: &mut State, skipped: Value) -> Self {
        use BinaryOperation::{Add, Greater, Or, SaturatingSubtract, Subtract};
        let (scalar, skipped, count) = self.with(s, skipped);
        let count = match count {
            Count::Of(count) => Count::Of(binary(s, SaturatingSubtract, count, skipped)),
            Count::To { last, is_empty } => {
                let is_beyond = binary(s, Greater, skipped, last);
                Count::To {
                    last: binary(s, Subtract, last, skipped),
                    is_empty: binary(s, Or, is_empty, is_beyond),
                }
            }
            Count::Endless => Count::Endless,
        };
        Self {
            scalar,
            count,
            item: Box::new(move |s, number| {
                let number = binary(s, Add, number, skipped);
                self.item(s, number)
            }),
        }
    }

    /// So many of the first, or all.
    fn taking(self, s: &mut State, taken: Value) -> Self {
        let (scalar, taken, count) = self.with(s, taken);
        Self {
            scalar,
            count: count.least(s, Count::Of(taken), scalar),
            item: Box::new(move |s, number| self.item(s, number)),
        }
    }

    /// With those of another, for as long as both have some.
    fn zipped(self, s: &mut State, other: Self) -> Self {
        let scalar = wider(self.scalar, other.scalar);
        let (count, other_count) = (self.count_in(s, scalar), other.count_in(s, scalar));
        Self {
            scalar,
            count: count.least(s, other_count, scalar),
            item: Box::new(move |s, number| {
                let (item, other) = (self.item(s, number), other.item(s, number));
                numbered(s, item, other)
            }),
        }
    }

    /// With their numbers.
    fn enumerated(self) -> Self {
        Self {
            scalar: self.scalar,
            count: self.count,
            item: Box::new(move |s, number| {
                let item = self.item(s, number);
                let number = cast(s, number, Scalar::Index);
                numbered(s, Raw::Value(number), item)
            }),
        }
    }
}

/// The values in their places.
pub(super) fn copied(items: Items, location: &'static Location<'static>) -> Items {
    Items {
        scalar: items.scalar,
        count: items.count,
        item: Box::new(move |s, number| {
            let item = items.item(s, number);
            Raw::Value(s.value(item, location))
        }),
    }
}

impl Count {
    /// The smaller one, of two that have numbers of one type.
    fn least(self, s: &mut State, other: Self, scalar: Scalar) -> Self {
        use BinaryOperation::{Minimum, Or};
        match (self, other) {
            (Self::Endless, count) | (count, Self::Endless) => count,
            (Self::Of(one), Self::Of(other)) => Self::Of(binary(s, Minimum, one, other)),
            (one, other) => {
                let [(one, no_one), (other, no_other)] =
                    [one, other].map(|count| count.last(s, scalar));
                Self::To {
                    last: binary(s, Minimum, one, other),
                    is_empty: binary(s, Or, no_one, no_other),
                }
            }
        }
    }

    /// The last number, and true if there is none. Of an endless iterator it is the greatest there
    /// is.
    fn last(self, s: &mut State, scalar: Scalar) -> (Value, Value) {
        match self {
            Self::To { last, is_empty } => (last, is_empty),
            Self::Of(count) => {
                let f = &mut s.frame().function;
                let (zero, one) = (f.literal(scalar, 0), f.literal(scalar, 1));
                let last = f.binary(BinaryOperation::Subtract, count, one);
                (last, f.binary(BinaryOperation::Equal, count, zero))
            }
            Self::Endless => {
                let f = &mut s.frame().function;
                (f.literal(scalar, u64::MAX), f.bool_literal(false))
            }
        }
    }
}

macro_rules! adapters {
    ($($(#[$doc:meta])* $name:ident($($over:ident),+);)*) => {$(
        $(#[$doc])*
        #[derive(Debug)]
        pub struct $name<$($over: ?Sized),+>(PhantomData<($(fn(&$over),)+)>);

        impl<$($over: ?Sized + 'static),+> Sample for $name<$($over),+> {
            fn sample() -> &'static Self {
                &Self(PhantomData)
            }
        }
    )*};
}

adapters! {
    /// `over.rev()`.
    Rev(I);
    /// `over.step_by(n)`.
    StepBy(I);
    /// `over.skip(n)`.
    Skip(I);
    /// `over.take(n)`.
    Take(I);
    /// `over.enumerate()`.
    Enumerate(I);
    /// `over.copied()`.
    Copied(I);
    /// `over.zip(other)`.
    Zip(I, J);
}

/// `acc.uniform_elements(count)`: the first number, the step, and how many rounds there are.
#[derive(Debug)]
pub struct Rounds;

impl Sample for Rounds {
    fn sample() -> &'static Self {
        &Self
    }
}

impl Indexed for Rounds {
    type Item = usize;
    type Share = Apart;

    fn items(s: &mut State, over: Raw, location: &'static Location<'static>) -> Items {
        let [first, step, rounds] = parts(s, over, location).map(|part| s.value(part, location));
        Items {
            scalar: Scalar::Index,
            count: Count::Of(rounds),
            item: Box::new(move |s, number| {
                let way = binary(s, BinaryOperation::Multiply, number, step);
                Raw::Value(binary(s, BinaryOperation::Add, first, way))
            }),
        }
    }
}

/// `acc.groups(count)`: a range in steps.
#[derive(Debug)]
pub struct Groups;

impl Sample for Groups {
    fn sample() -> &'static Self {
        &Self
    }
}

impl Indexed for Groups {
    type Item = usize;
    type Share = Apart;

    fn items(s: &mut State, over: Raw, location: &'static Location<'static>) -> Items {
        <StepBy<Range<usize>>>::items(s, over, location)
    }
}

/// Parts of a slice of so many elements each: `x.windows(n)`, which begin at each element;
/// `x.chunks(n)`, of which the last may be shorter; and `x.chunks_exact(n)`, without that.
#[derive(Debug)]
pub struct Parts<T, const FORM: u8>(PhantomData<fn() -> T>);

/// The forms of [`Parts`].
pub(super) const WINDOWS: u8 = 0;
pub(super) const CHUNKS: u8 = 1;
pub(super) const EXACT_CHUNKS: u8 = 2;

impl<T, const FORM: u8> Sample for Parts<T, FORM> {
    fn sample() -> &'static Self {
        &Self(PhantomData)
    }
}

impl<T: KernelValue, const FORM: u8> Indexed for Parts<T, FORM> {
    type Item = [T];
    type Share = Whole;

    fn items(s: &mut State, over: Raw, location: &'static Location<'static>) -> Items {
        use BinaryOperation::{Add, Divide, Equal, Minimum, Multiply, SaturatingSubtract};
        let [slice, size] = parts(s, over, location);
        let (slice, size) = (s.value(slice, location), s.value(size, location));
        let length = s.frame().function.length(slice);
        let (zero, one) = (
            s.frame().literal(Scalar::Index, 0),
            s.frame().literal(Scalar::Index, 1),
        );
        let count = match FORM {
            WINDOWS => {
                let before = binary(s, SaturatingSubtract, size, one);
                binary(s, SaturatingSubtract, length, before)
            }
            EXACT_CHUNKS => binary(s, Divide, length, size),
            _ => {
                let last = binary(s, SaturatingSubtract, length, one);
                let whole = binary(s, Divide, last, size);
                let count = binary(s, Add, whole, one);
                let is_none = binary(s, Equal, length, zero);
                s.frame().function.select(is_none, zero, count)
            }
        };
        let of = T::ir_type(s);
        Items {
            scalar: Scalar::Index,
            count: Count::Of(count),
            item: Box::new(move |s, number| {
                let start = match FORM {
                    WINDOWS => number,
                    _ => binary(s, Multiply, number, size),
                };
                let mut end = binary(s, Add, start, size);
                if FORM == CHUNKS {
                    end = binary(s, Minimum, end, length);
                }
                let (space, mutable) = match s.frame().function.type_of(slice) {
                    Type::Slice { space, mutable, .. } => (*space, *mutable),
                    _ => (Space::Private, false),
                };
                let part = s.frame().function.slice_within(
                    Place::slice(slice),
                    (start, end),
                    of.clone(),
                    space,
                    mutable,
                );
                Raw::Value(part)
            }),
        }
    }
}

/// `x.windows(n)` and its like: a number of elements that is not zero.
pub(super) fn parts_of_slice<T, const FORM: u8>(
    raw: Raw,
    size: Raw,
    location: &'static Location<'static>,
) -> Expr<Parts<T, FORM>> {
    let (slice, size) = state::at(location, |s| {
        let slice = super::place::whole_slice(s, raw, location);
        let size = s.value(size, location);
        let zero = s.frame().literal(Scalar::Index, 0);
        let is_some = binary(s, BinaryOperation::NotEqual, size, zero);
        assert_value(s, is_some, ("chunk size must be non-zero", &[]), location);
        let one = s.frame().literal(Scalar::Index, 1);
        (
            slice,
            Raw::Value(binary(s, BinaryOperation::Maximum, size, one)),
        )
    });
    adapted(slice, size, location)
}

/// An item with its number, behind closures.
#[track_caller]
pub fn counted<T: ?Sized>(count: Expr<usize>, item: Expr<T>) -> Expr<(usize, T)> {
    let number = value(count);
    add(count, lit(1_usize));
    adapted(number.raw(), item.raw(), Location::caller())
}

/// An item of two iterators.
#[track_caller]
pub fn paired<A, B: ?Sized>(one: Expr<A>, other: Expr<B>) -> Expr<(A, B)> {
    adapted(one.raw(), other.raw(), Location::caller())
}

/// A step, which is not zero: of zero an iterator panics, and so that is a fault, and then one.
fn step_of(s: &mut State, step: Value, location: &'static Location<'static>) -> Value {
    let known = s.frame().known(Raw::Value(step));
    if known.is_some_and(|step| step != 0) {
        return step;
    }
    let zero = s.frame().literal(Scalar::Index, 0);
    let is_some = binary(s, BinaryOperation::NotEqual, step, zero);
    assert_value(s, is_some, ("step_by: the step is zero", &[]), location);
    let one = s.frame().literal(Scalar::Index, 1);
    binary(s, BinaryOperation::Maximum, step, one)
}

/// The items of an iterator that is adapted with a number, and that number.
fn items_with<I: ?Sized + Indexed>(
    s: &mut State,
    over: Raw,
    location: &'static Location<'static>,
) -> (Items, Value) {
    let [over, number] = parts(s, over, location);
    (I::items(s, over, location), s.value(number, location))
}

macro_rules! indexed {
    ($($name:ident<I>, $item:ty, $share:ty, |$s:ident, $over:ident, $location:ident| $items:expr;)*) => {$(
        impl<I: ?Sized + Indexed> Indexed for $name<I> {
            type Item = $item;
            type Share = $share;

            fn items($s: &mut State, $over: Raw, $location: &'static Location<'static>) -> Items {
                $items
            }
        }
    )*};
}

indexed! {
    Rev<I>, I::Item, I::Share, |s, over, location| I::items(s, over, location).reversed(s);
    Enumerate<I>, (usize, I::Item), <I::Share as Share>::Hidden, |s, over, location| I::items(s, over, location).enumerated();
    Copied<I>, I::Item, I::Share, |s, over, location| copied(I::items(s, over, location), location);
    Skip<I>, I::Item, I::Share, |s, over, location| {
        let (items, number) = items_with::<I>(s, over, location);
        items.skipping(s, number)
    };
    Take<I>, I::Item, I::Share, |s, over, location| {
        let (items, number) = items_with::<I>(s, over, location);
        items.taking(s, number)
    };
    StepBy<I>, I::Item, I::Share, |s, over, location| {
        let (items, step) = items_with::<I>(s, over, location);
        items.in_steps(s, step)
    };
}

impl<I: ?Sized + Indexed, J: ?Sized + Indexed> Indexed for Zip<I, J>
where
    I::Item: Sized,
{
    type Item = (I::Item, J::Item);
    type Share = <I::Share as Share>::With<J::Share>;

    fn items(s: &mut State, over: Raw, location: &'static Location<'static>) -> Items {
        let [over, other] = parts(s, over, location);
        let items = I::items(s, over, location);
        let others = J::items(s, other, location);
        items.zipped(s, others)
    }

    fn whole(s: &mut State, over: Raw, location: &'static Location<'static>) -> Option<Vec<Value>> {
        let [over, _] = parts(s, over, location);
        I::whole(s, over, location)
    }
}

/// The parts of an adapter.
fn adapted<T: ?Sized>(over: Raw, with: Raw, location: &'static Location<'static>) -> Expr<T> {
    Expr::from_raw(state::at(location, |s| {
        s.frame().aggregate(vec![over, with], None)
    }))
}

/// `over.zip(other)`: of two shares of a thread they are of one extent.
fn zip<I: Indexed, J: ?Sized + Indexed>(
    over: Expr<I>,
    other: Expr<J>,
    location: &'static Location<'static>,
) -> Expr<Zip<I, J>> {
    state::at(location, |s| {
        let wholes = [
            I::whole(s, over.raw(), location),
            J::whole(s, other.raw(), location),
        ];
        let [Some(one), Some(other)] = wholes else {
            return;
        };
        for (one, other) in one.into_iter().zip(other) {
            if one != other {
                let is_same = binary(s, BinaryOperation::Equal, one, other);
                assert_value(s, is_same, (OF_OTHER_EXTENTS, &[]), location);
            }
        }
    });
    adapted(over.raw(), other.raw(), location)
}

/// `zip` behind closures, of iterators that have no `zip`.
#[doc(hidden)]
pub trait RefusedBehind {
    fn __method_zip_behind<A>(&self, _: Expr<Self>, _: A) -> Expr<()>
    where
        Self: super::refused::PairsOwn,
    {
        super::control::never()
    }
}

impl<T, const D: usize> RefusedBehind for RowsHandle<T, D> {}
impl<T, const D: usize> RefusedBehind for EachPlacedHandle<T, D> {}
impl<T, const D: usize> RefusedBehind for EachSharedHandle<T, D> {}
impl<T> RefusedBehind for EachOwnRowHandle<T> {}

/// Methods of iterators.
#[doc(hidden)]
pub trait IteratorMethods: Indexed + Sized {
    fn __method_rev(&self, this: Expr<Self>) -> Expr<Rev<Self>> {
        Expr::from_raw(this.raw())
    }

    #[track_caller]
    fn __method_step_by(&self, this: Expr<Self>, step: Expr<usize>) -> Expr<StepBy<Self>>
    where
        Self::Share: Alike,
    {
        let location = Location::caller();
        // Here, whether anything goes over it or not.
        let step = state::at(location, |s| {
            let step = s.value(step.raw(), location);
            Raw::Value(step_of(s, step, location))
        });
        adapted(this.raw(), step, location)
    }

    #[track_caller]
    fn __method_skip(&self, this: Expr<Self>, count: Expr<usize>) -> Expr<Skip<Self>>
    where
        Self::Share: Alike,
    {
        adapted(this.raw(), count.raw(), Location::caller())
    }

    #[track_caller]
    fn __method_take(&self, this: Expr<Self>, count: Expr<usize>) -> Expr<Take<Self>>
    where
        Self::Share: Alike,
    {
        adapted(this.raw(), count.raw(), Location::caller())
    }

    fn __method_enumerate(&self, this: Expr<Self>) -> Expr<Enumerate<Self>>
    where
        Self::Share: Counts,
    {
        Expr::from_raw(this.raw())
    }

    #[track_caller]
    fn __method_zip<J: ?Sized + Indexed>(
        &self,
        this: Expr<Self>,
        other: Expr<J>,
    ) -> Expr<Zip<Self, J>>
    where
        J::Share: Beside<Self::Share>,
    {
        zip(this, other, Location::caller())
    }

    /// `zip` behind closures, of the iterator before these.
    #[track_caller]
    fn __method_zip_behind<J: ?Sized + Indexed>(
        &self,
        this: Expr<Self>,
        other: Expr<J>,
    ) -> Expr<Zip<Self, J>>
    where
        J::Share: Beside<<Self::Share as Share>::Hidden>,
    {
        zip(this, other, Location::caller())
    }

    fn __method_copied(&self, this: Expr<Self>) -> Expr<Copied<Self>> {
        Expr::from_raw(this.raw())
    }

    fn __method_cloned(&self, this: Expr<Self>) -> Expr<Copied<Self>> {
        Expr::from_raw(this.raw())
    }

    #[track_caller]
    fn __method_sum<S: KernelValue + Totals<Self::Item>>(&self, this: Expr<Self>) -> Expr<S> {
        let sum = sum();
        let (this, item) = begin_for(this);
        add(sum, item);
        end_loop(this);
        value(sum)
    }

    #[track_caller]
    fn __method_last(&self, this: Expr<Self>) -> Expr<Option<Self::Item>>
    where
        Self::Item: KernelValue,
    {
        let found = bind_mut("found", none());
        let (this, item) = begin_for(this);
        assign(found, some(item));
        end_loop(this);
        value(found)
    }

    #[track_caller]
    fn __method_min(&self, this: Expr<Self>) -> Expr<Option<Self::Item>>
    where
        Self::Item: KernelValue,
    {
        extreme_of(this, true)
    }

    #[track_caller]
    fn __method_max(&self, this: Expr<Self>) -> Expr<Option<Self::Item>>
    where
        Self::Item: KernelValue,
    {
        extreme_of(this, false)
    }

    #[track_caller]
    fn __method_product<S: KernelValue + Totals<Self::Item>>(&self, this: Expr<Self>) -> Expr<S> {
        let product = product();
        let (this, item) = begin_for(this);
        multiply(product, item);
        end_loop(this);
        value(product)
    }
}

#[track_caller]
fn extreme_of<I: Indexed<Item: KernelValue>>(
    over: Expr<I>,
    is_least: bool,
) -> Expr<Option<I::Item>> {
    let found = bind_mut("found", none());
    let (this, item) = begin_for(over);
    extreme(found, item, is_least);
    end_loop(this);
    value(found)
}

macro_rules! iterators {
    ($([$($generics:tt)*] $type:ty;)*) => {$(
        impl<$($generics)*> IteratorMethods for $type {}
        impl<$($generics)*> Iterator for $type {}
    )*};
}

iterators! {
    [T: KernelValue] Range<T>;
    [T: KernelValue] RangeInclusive<T>;
    [T: KernelValue] RangeFrom<T>;
    [T: KernelValue] Iter<'static, T>;
    [] Rounds;
    [] Groups;
    [const D: usize] IndicesHandle<D>;
    [T: KernelValue, const D: usize] EachHandle<T, D>;
    [T: KernelValue, const D: usize] IterMutHandle<T, D>;
    [I: Indexed] Rev<I>;
    [I: Indexed] StepBy<I>;
    [I: Indexed] Skip<I>;
    [I: Indexed] Take<I>;
    [I: Indexed] Enumerate<I>;
    [I: Indexed] Copied<I>;
    [I: Indexed<Item: Sized>, J: ?Sized + Indexed] Zip<I, J>;
    [T: KernelValue] Parts<T, 0>;
    [T: KernelValue] Parts<T, 1>;
    [T: KernelValue] Parts<T, 2>;
}
