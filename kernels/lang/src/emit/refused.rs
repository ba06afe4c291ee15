//! Methods that types have natively and the kernel language has not, refused in words that name the
//! remedy.
//!
//! They are refused by the types that have them, and not by their names, as users' types may have
//! others of the same names. A bound that nothing fulfils says the words, at the user's call.

use std::ops::{Range, RangeFrom, RangeInclusive};
use std::slice::Iter;

use super::adapt::{
    Copied, Enumerate, Groups, Indexed, Parts, Rev, Rounds, Skip, StepBy, Take, Zip,
};
use super::consume::Iterator;
use super::data::KernelValue;
use super::expression::Expr;
use super::handles::{
    EachHandle, GlobalRefHandle, IndicesHandle, IterMutHandle, OwnElementsHandle, RawMutHandle,
    RowsHandle, SharedReadHandle, SharedWriteHandle,
};
use super::own::{
    EachOwnRowHandle, EachPlacedHandle, EachSharedHandle, OwnBlockTileHandle, OwnRowsHandle,
    OwnTileHandle,
};
use crate::number::{bf16, f16};

macro_rules! refused {
    ($methods:ident: $(
        $words:ident = $message:literal, $label:literal:
        $($method:ident($($argument:ident),*) $(-> $result:ident)? $(=> $of:ty)?),*;
    )*) => {
        $(
            /// Nothing has it.
            #[diagnostic::on_unimplemented(message = $message, label = $label)]
            pub trait $words {}
        )*

        /// Methods that are refused.
        #[doc(hidden)]
        pub trait $methods {
            $($(
                refused!(@ $words $method($($argument),*) $($result)? $(=> $of)?);
            )*)*
        }
    };
    (@ $words:ident $method:ident($($argument:ident),*)) => {
        refused!(@ $words $method($($argument),*) => ());
    };
    (@ $words:ident $method:ident($($argument:ident),*) => $of:ty) => {
        fn $method<$($argument),*>(&self, _: Expr<Self> $(, _: $argument)*) -> Expr<$of>
        where
            Self: $words,
        {
            super::control::never()
        }
    };
    (@ $words:ident $method:ident($($argument:ident),*) $result:ident) => {
        fn $method<$result $(, $argument)*>(&self, _: Expr<Self> $(, _: $argument)*) -> Expr<$result>
        where
            Self: $words,
        {
            super::control::never()
        }
    };
}

refused! {
    RefusedMethods:
    GetsMut = "`get_mut` gives an `Option` of a reference to change, which is not in the kernel language",
        "compare the index with `len()`, and write `x[i]`, or `read(index)` and `write(index, value)` of a `RawMut`":
        __method_get_mut(A);
    GivesAtPosition = "this gives an `Option`, which is not in the kernel language",
        "write `view[[i, j]]`":
        __method_at(A), __method_row(A);
    GetsUnchecked = "every element of a kernel is checked", "write `x[i]`; an option of the launch leaves the checks out":
        __method_get_unchecked(A) -> R, __method_get_unchecked_mut(A) -> R;
    GivesEnd = "this gives an `Option` of a reference to change, or of two parts, which is not in the kernel language", "use an index":
        __method_first_mut(), __method_last_mut(),
        __method_split_first() -> R, __method_split_last() -> R, __method_nth(A);
    StepsByHand = "an iterator in kernels is gone over by `for`, or by what takes all of its items", "write a `for` loop, and `break`":
        __method_next() -> R;
    Copies = "this is not in the kernel language", "write a `for` loop over the indices that copies each element":
        __method_copy_within(A, B), __method_swap_with_slice(A),
        __method_concat() -> R, __method_repeat(A) -> R;
    Splits = "two slices are in no variable; name both", "write `let (first, second) = x.split_at(middle);`":
        __method_split_at(A) -> R, __method_split_at_mut(A) -> R;
    IsSlice = "this is not in the kernel language", "write `&x[..]`":
        __method_as_slice() -> R, __method_as_mut_slice() -> R;
    Chunks = "this iterator is not in the kernel language",
        "go over the chunks' numbers, and take each by its range: `&x[k * n..(k + 1) * n]` for `k` in `0..x.len() / n`":
        __method_chunks_mut(A) -> R, __method_chunks_exact_mut(A) -> R,
        __method_rchunks(A) -> R, __method_rchunks_exact(A) -> R, __method_array_chunks() -> R, __method_as_chunks() -> R;
    GivesRest = "this is not in the kernel language", "write the range of the rest: `&x[x.len() / n * n..]`":
        __method_remainder() -> R, __method_into_remainder() -> R;
    BecomesArray = "kernels make an array of a slice where its length is checked at once", "write `.try_into().unwrap()`":
        __method_try_into() -> R;
    Searches = "this is not in the kernel language", "compare with each element in a `for` loop":
        __method_starts_with(A) => bool, __method_ends_with(A) => bool, __method_binary_search(A), __method_is_sorted() => bool;
    Orders = "this is not in the kernel language", "write the loops; of whole buffers, `quipu-algorithms` has sorts":
        __method_sort(), __method_sort_unstable();
    Rotates = "this is not in the kernel language of slices", "go over the indices, and add to each, `% x.len()`":
        __method_rotate_left(A), __method_rotate_right(A);
    Adapts = "this iterator is not in the kernel language", "write a `for` loop":
        __method_collect() -> R, __method_count() -> R, __method_chain(A) -> R, __method_cycle() -> R, __method_peekable() -> R;
    BeginsAnew = "this is not in the kernel language", "write `.iter()`, or nothing, as `for` goes over it as it is":
        __method_into_iter() -> R;
    Allocates = "memory is not allocated in kernels",
        "use an array `[T; N]`, or a buffer as a parameter":
        __method_push(A), __method_pop(), __method_to_vec() -> R, __method_insert(A, B), __method_remove(A), __method_extend(A);
}

refused! {
    RefusedOfTiles:
    Gets = "`get` of a tile gives an `Option` of a reference to change, which is not in the kernel language",
        "compare the position with `extent()`, and write `tile[[i, j]]`":
        __method_get(A);
}

impl<T, const D: usize> RefusedOfTiles for OwnTileHandle<T, D> {}

refused! {
    RefusedOfHandles:
    AdaptsOwn = "a thread's own elements are gone over as they come, on each device in an order of its own", "write a `for` loop":
        __method_sum() -> R, __method_product() -> R, __method_take(A) -> R, __method_skip(A) -> R, __method_copied() -> R, __method_cloned() -> R,
        __method_rev() -> R, __method_step_by(A) -> R, __method_enumerate() -> R;
    PairsOwn = "a thread's rows and boxes are gone over alone", "write `for` over these, and the other output as a `RawMut`, by the number of the row":
        __method_zip(A) -> R;
}

refused! {
    RefusedOfIterators:
    AdaptsOwnIterator = "of an iterator of your own kernels know `for` and `next`", "write `for x in it`, `while let Some(x) = it.next()`, or `next` in a `for` loop over a range":
        __method_take(A) -> R, __method_skip(A) -> R, __method_step_by(A) -> R, __method_zip(A) -> R, __method_enumerate() -> R,
        __method_sum() -> R, __method_product() -> R, __method_count() -> R, __method_last() -> R, __method_nth(A) -> R,
        __method_by_ref() -> R, __method_collect() -> R;
}

refused! {
    RefusedOfNumbers:
    DividesEuclidean = "this is not in the kernel language", "write `div_euclid` and `rem_euclid`":
        __method_wrapping_div_euclid(A) => Self, __method_wrapping_rem_euclid(A) => Self;
    TakesLogarithm = "this logarithm of an integer is not in the kernel language",
        "write `ilog2`, or count divisions":
        __method_ilog10() => u32, __method_ilog(A) => u32;
    Saturates = "this is not in the kernel language", "compute in a wider type, and `clamp`":
        __method_saturating_pow(A) => Self, __method_saturating_div(A) => Self;
    ChangesSign = "this is not in the kernel language", "write `as`":
        __method_cast_signed() -> R, __method_cast_unsigned() -> R;
    MixesSigns = "this is not in the kernel language", "write `as`, and the method of one type":
        __method_wrapping_add_signed(A) => Self, __method_wrapping_sub_signed(A) => Self, __method_saturating_add_signed(A) => Self,
        __method_wrapping_add_unsigned(A) => Self, __method_wrapping_sub_unsigned(A) => Self, __method_saturating_add_unsigned(A) => Self,
        __method_saturating_sub_unsigned(A) => Self;
    ShiftsOut = "this is not in the kernel language", "compare the amount with `BITS`":
        __method_unbounded_shl(A) => Self, __method_unbounded_shr(A) => Self;
    Halves = "this is not in the kernel language", "add the half of the difference":
        __method_midpoint(A) => Self;
    GoesToTheNext = "this is not in the kernel language", "count its bits up or down: `f32::from_bits(x.to_bits() + 1)`":
        __method_next_up() => Self, __method_next_down() => Self;
    AsksLetter = "there are no characters in kernels", "compare numbers, such as `b'0'`":
        __method_is_ascii() => bool, __method_is_ascii_digit() => bool, __method_is_ascii_alphabetic() => bool, __method_is_ascii_alphanumeric() => bool,
        __method_is_ascii_lowercase() => bool, __method_is_ascii_uppercase() => bool, __method_is_ascii_whitespace() => bool,
        __method_to_ascii_lowercase() => Self, __method_to_ascii_uppercase() => Self;
    Classifies = "this is not in the kernel language", "compare with `MIN_POSITIVE` and `MAX`":
        __method_is_normal() => bool, __method_is_subnormal() => bool, __method_classify();
    ChecksOverflow = "this checked method is not in the kernel language", "use the wrapping or saturating method, and compare":
        __method_checked_pow(A) -> R, __method_checked_ilog2() -> R, __method_checked_ilog10() -> R, __method_checked_isqrt() -> R,
        __method_checked_next_power_of_two() -> R, __method_checked_next_multiple_of(A) -> R, __method_checked_add_signed(A) -> R,
        __method_checked_add_unsigned(A) -> R, __method_checked_div_euclid(A) -> R, __method_checked_rem_euclid(A) -> R;
    MayNotFit = "a conversion that may fail is not in the kernel language", "compare with `MAX`, and write `as`":
        __method_try_into() -> R;
    IsOldValue = "an atomic operation gives the value before it, and no `Result`", "`compare_exchange` has stored the new value if this is the expected one: write `==`":
        __method_is_ok() => bool, __method_is_err() => bool;
    TellsOverflow = "this is not in the kernel language", "use the wrapping method, and compare":
        __method_overflowing_pow(A) -> R;
}

macro_rules! refused_with_closures {
    ($($words:ident = $message:literal, $label:literal: $($method:ident($($argument:ident)*)),*;)*) => {
        $(
            /// Nothing has it.
            #[diagnostic::on_unimplemented(message = $message, label = $label)]
            pub trait $words {}
        )*

        /// Methods with closures that are refused, of types that have elements.
        #[doc(hidden)]
        pub trait RefusedWithClosures {
            /// The type of a closure's argument.
            type Element: ?Sized;

            fn __method_scan<S, R: ?Sized>(
                &self,
                _: Expr<Self>,
                _: Expr<S>,
                _: impl FnOnce(Expr<S>, Expr<Self::Element>) -> Expr<R>,
            ) -> Expr<()>
            where
                Self: AdaptsWithClosure,
            {
                super::control::never()
            }

            $($(
                fn $method<R: ?Sized>(
                    &self,
                    _: Expr<Self>,
                    _: impl FnOnce($(refused_with_closures!(@ $argument)),*) -> Expr<R>,
                ) -> Expr<()>
                where
                    Self: $words,
                {
                    super::control::never()
                }
            )*)*
        }
    };
    (@ $argument:ident) => { Expr<Self::Element> };
}

refused_with_closures! {
    StandsAlone = "`map`, `filter` and `take_while` are in the kernel language of iterators where nothing comes behind them but a `for` loop's body, `sum`, `product`, `count`, `fold`, `any`, `all` or `for_each`",
        "write `zip`, `rev` and other adapters before it":
        __method_filter(a), __method_take_while(a);
    AdaptsWithClosure = "this method with a closure is not in the kernel language", "write a `for` loop":
        __method_fill_with(), __method_flat_map(a), __method_filter_map(a), __method_skip_while(a), __method_map_while(a),
        __method_inspect(a), __method_sort_by(a b), __method_sort_by_key(a), __method_sort_unstable_by(a b),
        __method_sort_unstable_by_key(a), __method_binary_search_by(a), __method_partition_point(a);
}

/// `map` of iterators, where nothing takes the items. (Arrays have one.)
#[doc(hidden)]
pub trait RefusedMap: RefusedWithClosures {
    fn __method_map<R: ?Sized>(
        &self,
        _: Expr<Self>,
        _: impl FnOnce(Expr<Self::Element>) -> Expr<R>,
    ) -> Expr<()>
    where
        Self: StandsAlone,
    {
        super::control::never()
    }
}

macro_rules! refusing_numbers {
    ($($number:ty)*) => {$(
        impl RefusedOfNumbers for $number {}
    )*};
}

refusing_numbers!(bool i8 i16 i32 i64 isize u8 u16 u32 u64 usize f16 bf16 f32 f64);

macro_rules! refusing {
    ($methods:ident: $([$($generics:tt)*] $type:ty;)*) => {$(
        impl<$($generics)*> $methods for $type {}
    )*};
}

refusing! {
    RefusedMethods:
    [T] [T];
    [T, const N: usize] [T; N];
    [T] Range<T>;
    [T] RangeInclusive<T>;
    [T] RangeFrom<T>;
    [T] Iter<'static, T>;
    [I: ?Sized] Rev<I>;
    [I: ?Sized] StepBy<I>;
    [I: ?Sized] Skip<I>;
    [I: ?Sized] Take<I>;
    [I: ?Sized] Enumerate<I>;
    [I: ?Sized] Copied<I>;
    [I: ?Sized, J: ?Sized] Zip<I, J>;
    [T, const FORM: u8] Parts<T, FORM>;
    [] Rounds;
    [] Groups;
    [const D: usize] IndicesHandle<D>;
    [T, const D: usize] EachHandle<T, D>;
    [T, const D: usize] IterMutHandle<T, D>;
    [T, const D: usize] RowsHandle<T, D>;
    [T, const D: usize] EachPlacedHandle<T, D>;
    [T, const D: usize] EachSharedHandle<T, D>;
    [T] EachOwnRowHandle<T>;
    [T, const D: usize] GlobalRefHandle<T, D>;
    [T, const D: usize] OwnElementsHandle<T, D>;
    [T, const D: usize] OwnTileHandle<T, D>;
    [T, const D: usize] OwnBlockTileHandle<T, D>;
    [T] OwnRowsHandle<T>;
    [T] RawMutHandle<T>;
    [T] SharedReadHandle<T>;
    [T] SharedWriteHandle<T>;
}

refusing! {
    RefusedOfHandles:
    [T, const D: usize] RowsHandle<T, D>;
    [T, const D: usize] EachPlacedHandle<T, D>;
    [T, const D: usize] EachSharedHandle<T, D>;
    [T] EachOwnRowHandle<T>;
}
refusing! {
    Iterator:
    [T, const D: usize] RowsHandle<T, D>;
    [T, const D: usize] EachPlacedHandle<T, D>;
    [T, const D: usize] EachSharedHandle<T, D>;
    [T] EachOwnRowHandle<T>;
}

macro_rules! refusing_with_closures {
    ($([$($generics:tt)*] $type:ty => $element:ty;)*) => {$(
        impl<$($generics)*> RefusedWithClosures for $type {
            type Element = $element;
        }
    )*};
}

macro_rules! refusing_map {
    ($([$($generics:tt)*] $type:ty => $element:ty;)*) => {
        $(impl<$($generics)*> RefusedMap for $type {})*
        refusing_with_closures! { $([$($generics)*] $type => $element;)* }
    };
}

refusing_with_closures! {
    [T, const N: usize] [T; N] => T;
}

refusing_map! {
    [T] [T] => T;
    [T: KernelValue] Range<T> => T;
    [T: KernelValue] RangeInclusive<T> => T;
    [T: KernelValue] RangeFrom<T> => T;
    [T: KernelValue] Iter<'static, T> => T;
    [I: Indexed] Rev<I> => I::Item;
    [I: Indexed] StepBy<I> => I::Item;
    [I: Indexed] Skip<I> => I::Item;
    [I: Indexed] Take<I> => I::Item;
    [I: Indexed] Enumerate<I> => (usize, I::Item);
    [I: Indexed] Copied<I> => I::Item;
    [I: Indexed<Item: Sized>, J: ?Sized + Indexed] Zip<I, J> => (I::Item, J::Item);
    [T: KernelValue, const FORM: u8] Parts<T, FORM> => [T];
    [] Rounds => usize;
    [] Groups => usize;
    [const D: usize] IndicesHandle<D> => usize;
    [T: KernelValue, const D: usize] EachHandle<T, D> => (usize, T);
    [T: KernelValue, const D: usize] IterMutHandle<T, D> => T;
}
