//! Methods that types have natively and the kernel language has not, refused in words that say what to write instead.
//!
//! They are refused by the types that have them, and not by their names, as users' types may have others of the same
//! names. A bound that nothing fulfils says the words, at the user's call.

use std::iter::Enumerate;
use std::ops::{Range, RangeInclusive};
use std::slice::Iter;

use super::data::KernelValue;
use super::expression::{Expr, Sample, kept};
use super::handles::{
    EachHandle, GlobalRefHandle, IndicesHandle, OwnElementsHandle, RawMutHandle, RowsHandle,
    SharedReadHandle, SharedWriteHandle,
};
use super::own::{
    EachOwnRowHandle, EachPlacedHandle, EachSharedHandle, OwnBlockTileHandle, OwnRowsHandle,
    OwnTileHandle,
};

macro_rules! refused {
    ($(
        $words:ident = $message:literal, $label:literal:
        $($method:ident($($argument:ident),*) $(-> $result:ident)?),*;
    )*) => {
        $(
            /// Nothing has it.
            #[diagnostic::on_unimplemented(message = $message, label = $label)]
            pub trait $words {}
        )*

        /// Methods that are refused.
        #[doc(hidden)]
        pub trait RefusedMethods {
            $($(
                refused!(@ $words $method($($argument),*) $($result)?);
            )*)*
        }
    };
    (@ $words:ident $method:ident($($argument:ident),*)) => {
        fn $method<$($argument),*>(&self, _: Expr<Self> $(, _: $argument)*) -> Expr<()>
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
    Gets = "`get` gives an `Option`, which is not in the kernel language",
        "compare the index with `len()`, and write `x[i]`":
        __method_get(A);
    GetsMut = "`get_mut` gives an `Option`, which is not in the kernel language",
        "use an index, or `read(index)` and `write(index, value)` of a `RawMut`":
        __method_get_mut(A);
    GivesAtPosition = "this gives an `Option`, which is not in the kernel language",
        "write `view[[i, j]]`":
        __method_at(A), __method_row(A);
    GivesEnd = "this gives an `Option`, which is not in the kernel language", "use an index":
        __method_first(), __method_last(), __method_first_mut(), __method_last_mut();
    Adapts = "this iterator is not in the kernel language", "write a `for` loop":
        __method_sum() -> R, __method_product() -> R, __method_collect() -> R, __method_min() -> R, __method_max() -> R,
        __method_count() -> R, __method_zip(A), __method_take(A), __method_skip(A), __method_chain(A),
        __method_windows(A), __method_chunks(A), __method_chunks_exact(A), __method_copied(), __method_cloned();
    Allocates = "memory is not allocated in kernels",
        "use an array `[T; N]`, or a buffer as a parameter":
        __method_push(A), __method_pop(), __method_to_vec(), __method_insert(A, B), __method_remove(A), __method_extend(A);
}

macro_rules! refusing {
    ($([$($generics:tt)*] $type:ty;)*) => {$(
        impl<$($generics)*> RefusedMethods for $type {}
    )*};
}

refusing! {
    [T] [T];
    [T, const N: usize] [T; N];
    [T] Range<T>;
    [T] RangeInclusive<T>;
    [T] Iter<'static, T>;
    [T] Enumerate<Iter<'static, T>>;
    [const D: usize] IndicesHandle<D>;
    [T, const D: usize] EachHandle<T, D>;
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

impl<T: KernelValue> Sample for Enumerate<Iter<'static, T>> {
    fn sample() -> &'static Self {
        kept(|| [].iter().enumerate())
    }
}
