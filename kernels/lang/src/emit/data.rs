//! Types of values.

use std::cmp::Ordering;

use quipu_kernel_ir::{Scalar, Type};

use super::expression::{self, Expr};
use super::state::{Raw, State};
use crate::accelerator::{Block, Blocks, Elements, Grid, Thread, Threads};
use crate::extent::{Extent, Vector};
use crate::number::{self, bf16, f16};

/// A type whose values kernels compute with on every device: that of all [`KernelData`], `usize`,
/// `isize`, and arrays and tuples of them.
///
/// It is implemented by `#[derive(KernelData)]`, not by hand.
///
/// # Safety
/// `ir_type` is how a value lies in memory, if it may lie there.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is no type of the kernel language",
    label = "kernels on other devices cannot compute with this",
    note = "kernels compute with numbers, `bool`, arrays and tuples of them, and with structs and enums that have `#[derive(KernelData)]`",
    note = "what the host changes between launches is a `Variable`, and no `static`"
)]
pub unsafe trait KernelValue: Copy + Send + Sync + 'static {
    /// The names of its fields, of a struct or tuple.
    #[doc(hidden)]
    const FIELDS: &'static [&'static str] = &[];

    /// The names of its variants, of an enum whose variants have fields: see
    /// [`variant`](super::variant).
    #[doc(hidden)]
    const VARIANTS: &'static [&'static str] = &[];

    /// True if it is a user's struct or enum.
    #[doc(hidden)]
    const IS_DERIVED: bool = false;

    /// True if two values are equal where their numbers are. It is so for an enum whose `PartialEq`
    /// says so of all of its variants.
    #[doc(hidden)]
    fn is_equal_by_number() -> bool {
        !Self::IS_DERIVED
    }

    /// True if two values are ordered as their numbers are, likewise by `PartialOrd`.
    #[doc(hidden)]
    fn is_ordered_by_number() -> bool {
        !Self::IS_DERIVED
    }

    /// The order of two values, of a struct whose order is derived: see [`order`](super::order).
    #[doc(hidden)]
    #[must_use]
    fn __order_of(_: Expr<Self>, _: Expr<Self>) -> Option<Expr<Option<Ordering>>> {
        None
    }

    /// Its type in the representation.
    #[doc(hidden)]
    fn ir_type(state: &mut State) -> Type;

    /// Any value.
    #[doc(hidden)]
    fn sample_value() -> Self;

    /// This value as a constant.
    #[doc(hidden)]
    fn literal(self, state: &mut State) -> Raw;
}

/// All variants of an enum with their numbers, for `#[derive(KernelData)]` to find out how they are
/// compared. (It cannot see whether the comparison is derived.)
///
/// Each question has two methods of its name. The first is that of enums which have the comparison
/// at all.
#[derive(Debug)]
pub struct Variants<T: 'static>(pub &'static [(T, i128)]);

/// By `PartialEq`.
pub trait Equated {
    #[doc(hidden)]
    fn are_equal_by_number(&self) -> bool;
}

/// By `PartialOrd`.
pub trait Ordered {
    #[doc(hidden)]
    fn are_ordered_by_number(&self) -> bool;
}

/// Not at all.
pub trait Incomparable {
    #[doc(hidden)]
    fn are_equal_by_number(&self) -> bool {
        false
    }

    #[doc(hidden)]
    fn are_ordered_by_number(&self) -> bool {
        false
    }
}

impl<T> Variants<T> {
    /// True if something holds of every two of them.
    fn all(&self, holds: impl Fn((&T, i128), (&T, i128)) -> bool) -> bool {
        let each = || self.0.iter().map(|(variant, number)| (variant, *number));
        each().all(|one| each().all(|other| holds(one, other)))
    }
}

impl<T: PartialEq> Equated for Variants<T> {
    fn are_equal_by_number(&self) -> bool {
        self.all(|(a, of_a), (b, of_b)| (a == b) == (of_a == of_b) && (a != b) == (of_a != of_b))
    }
}

impl<T: PartialOrd> Ordered for Variants<T> {
    fn are_ordered_by_number(&self) -> bool {
        self.all(|(a, of_a), (b, of_b)| {
            a.partial_cmp(b) == of_a.partial_cmp(&of_b)
                && [a < b, a <= b, a > b, a >= b]
                    == [of_a < of_b, of_a <= of_b, of_a > of_b, of_a >= of_b]
        })
    }
}

impl<T> Incomparable for &Variants<T> {}

/// A type of values that lie in memory as they are, on every device: numbers of a known size,
/// `bool`, arrays of these, and types with `#[derive(KernelData)]`. Such values can be in buffers
/// and in block-shared arrays, and can be passed.
///
/// Tuples are not: how one lies in memory only the compiler knows that made the program. Nor are
/// `usize` and `isize`, whose size devices choose; alone these can be [passed](ValueParameter).
/// Within a kernel all are [values](KernelValue).
///
/// It is implemented by that derive, not by hand.
///
/// # Safety
/// If `ANY_BITS`, any initialised bytes are a value, and if `HAS_ZERO`, zeros are. If `is_value`
/// says that bytes are one, they are.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is no type of a kernel's data",
    label = "other devices do not know how this lies in memory",
    note = "kernels' data are numbers of a known size, `bool`, arrays of these, and structs and enums that have `#[derive(KernelData)]`",
    note = "instead of a tuple write a `#[repr(C)]` struct with `#[derive(KernelData)]`, or pass each of its values; instead of `usize`, which can be passed alone and be nowhere else, `u32` or `u64`"
)]
pub unsafe trait KernelData: KernelValue {
    /// True if any bits are a value of it.
    #[doc(hidden)]
    const ANY_BITS: bool;

    /// True if all-zero bytes are a value of it.
    #[doc(hidden)]
    const HAS_ZERO: bool = Self::ANY_BITS;

    /// True if these bytes, as many as it has, are a value of it. Bytes between fields do not
    /// count.
    #[doc(hidden)]
    fn is_value(bytes: &[u8]) -> bool;

    /// The number of words in which it travels between the threads of a warp.
    #[doc(hidden)]
    const WORDS: usize;

    /// One of these words.
    #[doc(hidden)]
    fn word(&self, at: usize) -> u64;

    /// Takes one of these words from another value.
    #[doc(hidden)]
    fn set_word(&mut self, at: usize, word: u64);
}

/// A type of values that are passed to kernels: [`KernelData`], and a `usize` or `isize` alone,
/// which is passed in as many bytes as the launch's indices have.
///
/// # Safety
/// If `is_value` says that bytes are a value, they are.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is no type of a value that is passed to kernels",
    note = "passed are numbers, `bool`, arrays of these without `usize`, and structs and enums that have `#[derive(KernelData)]`",
    note = "instead of a tuple write a `#[repr(C)]` struct with `#[derive(KernelData)]`, or pass each of its values"
)]
pub unsafe trait ValueParameter: KernelValue {
    /// True if these bytes, as many as it has, are a value of it.
    #[doc(hidden)]
    fn is_value(bytes: &[u8]) -> bool;

    /// The number that indices need room for, so that it can be passed: of a `usize` or an `isize`,
    /// the number itself; of a negative one, a number that needs as many bits.
    #[doc(hidden)]
    fn index(self) -> u64 {
        0
    }

    /// As [`KernelData::WORDS`].
    #[doc(hidden)]
    const WORDS: usize;

    /// As [`KernelData::word`].
    #[doc(hidden)]
    fn word(&self, at: usize) -> u64;

    /// As [`KernelData::set_word`].
    #[doc(hidden)]
    fn set_word(&mut self, at: usize, word: u64);
}

// SAFETY: as `KernelData` promises.
unsafe impl<T: KernelData> ValueParameter for T {
    const WORDS: usize = <T as KernelData>::WORDS;

    fn is_value(bytes: &[u8]) -> bool {
        T::ANY_BITS || <T as KernelData>::is_value(bytes)
    }

    #[inline(always)]
    fn word(&self, at: usize) -> u64 {
        KernelData::word(self, at)
    }

    #[inline(always)]
    fn set_word(&mut self, at: usize, word: u64) {
        KernelData::set_word(self, at, word);
    }
}

/// A number travels as one word.
macro_rules! one_word {
    () => {
        const WORDS: usize = 1;

        #[inline(always)]
        fn word(&self, _: usize) -> u64 {
            number::Scalar::to_word(*self)
        }

        #[inline(always)]
        fn set_word(&mut self, _: usize, word: u64) {
            *self = number::Scalar::from_word(word);
        }
    };
}

// SAFETY: any bytes are one.
unsafe impl ValueParameter for usize {
    one_word!();

    fn is_value(_: &[u8]) -> bool {
        true
    }

    fn index(self) -> u64 {
        self as u64
    }
}

// SAFETY: any bytes are one.
unsafe impl ValueParameter for isize {
    one_word!();

    fn is_value(_: &[u8]) -> bool {
        true
    }

    fn index(self) -> u64 {
        (if self < 0 { !self } else { self }) as u64
    }
}

/// True if bytes have a value of `T` at an offset.
#[doc(hidden)]
#[must_use]
pub fn has_value_at<T: KernelData>(bytes: &[u8], offset: usize) -> bool {
    let part = bytes
        .get(offset..)
        .and_then(|rest| rest.get(..size_of::<T>()));
    part.is_some_and(|part| T::ANY_BITS || T::is_value(part))
}

/// Any bits are a value.
macro_rules! any_bits {
    ($($number:ty),*) => {$(
        // SAFETY: any bytes are one.
        unsafe impl KernelData for $number {
            const ANY_BITS: bool = true;

            fn is_value(_: &[u8]) -> bool {
                true
            }

            one_word!();
        }
    )*};
}

// SAFETY: it has no bytes.
unsafe impl KernelData for () {
    const ANY_BITS: bool = true;
    const WORDS: usize = 0;

    fn is_value(_: &[u8]) -> bool {
        true
    }

    fn word(&self, _: usize) -> u64 {
        0
    }

    fn set_word(&mut self, _: usize, _: u64) {}
}

any_bits!(i8, i16, i32, i64, u8, u16, u32, u64, f16, bf16, f32, f64);

macro_rules! scalars {
    ($($number:ty: $scalar:ident, $zero:expr, |$value:ident| $bits:expr;)*) => {$(
        // SAFETY: the scalar of the same name.
        unsafe impl KernelValue for $number {
            fn ir_type(_: &mut State) -> Type {
                Scalar::$scalar.into()
            }
            fn sample_value() -> Self {
                $zero
            }
            fn literal(self, state: &mut State) -> Raw {
                let $value = self;
                expression::scalar(state, Scalar::$scalar, $bits)
            }
        }
    )*};
}

// SAFETY: 0 and 1 are its values.
unsafe impl KernelData for bool {
    const ANY_BITS: bool = false;
    const HAS_ZERO: bool = true;

    one_word!();

    fn is_value(bytes: &[u8]) -> bool {
        matches!(bytes, [0 | 1])
    }
}

// SAFETY: the scalar of the same name.
unsafe impl KernelValue for bool {
    fn ir_type(_: &mut State) -> Type {
        Scalar::Bool.into()
    }

    fn sample_value() -> Self {
        false
    }

    fn literal(self, state: &mut State) -> Raw {
        expression::scalar(state, Scalar::Bool, self.into())
    }
}

scalars! {
    i8: I8, 1, |value| i64::from(value) as u64;
    i16: I16, 1, |value| i64::from(value) as u64;
    i32: I32, 1, |value| i64::from(value) as u64;
    i64: I64, 1, |value| value as u64;
    isize: SignedIndex, 1, |value| value as i64 as u64;
    u8: U8, 1, |value| value.into();
    u16: U16, 1, |value| value.into();
    u32: U32, 1, |value| value.into();
    u64: U64, 1, |value| value;
    usize: Index, 1, |value| value as u64;
    f16: F16, f16::ONE, |value| value.to_bits().into();
    bf16: Bf16, bf16::ONE, |value| value.to_bits().into();
    f32: F32, 1.0, |value| value.to_bits().into();
    f64: F64, 1.0, |value| value.to_bits();
}

macro_rules! without_bits {
    ($($unit:ty: $value:expr),*) => {$(
        // SAFETY: it lies in no memory.
        unsafe impl KernelValue for $unit {
            fn ir_type(_: &mut State) -> Type {
                Type::Unit
            }
            fn sample_value() -> Self {
                $value
            }
            fn literal(self, _: &mut State) -> Raw {
                Raw::Nothing
            }
        }
    )*};
}

// SAFETY: its numbers are -1, 0 and 1 of an `i8`.
unsafe impl KernelValue for Ordering {
    fn ir_type(_: &mut State) -> Type {
        Scalar::I8.into()
    }

    fn sample_value() -> Self {
        Self::Less
    }

    fn literal(self, state: &mut State) -> Raw {
        expression::scalar(state, Scalar::I8, self as i8 as i64 as u64)
    }
}

without_bits!((): (), Grid: Grid, Block: Block, Thread: Thread, Blocks: Blocks, Threads: Threads, Elements: Elements);

// SAFETY: each element is a value.
unsafe impl<T: KernelData, const N: usize> KernelData for [T; N] {
    const ANY_BITS: bool = T::ANY_BITS;
    const HAS_ZERO: bool = T::HAS_ZERO;
    const WORDS: usize = N * <T as KernelData>::WORDS;

    #[inline]
    fn word(&self, at: usize) -> u64 {
        let of_each = <T as KernelData>::WORDS;
        KernelData::word(&self[at / of_each], at % of_each)
    }

    #[inline]
    fn set_word(&mut self, at: usize, word: u64) {
        let of_each = <T as KernelData>::WORDS;
        KernelData::set_word(&mut self[at / of_each], at % of_each, word);
    }

    fn is_value(bytes: &[u8]) -> bool {
        (0..N).all(|at| has_value_at::<T>(bytes, at * size_of::<T>()))
    }
}

// SAFETY: so many elements, one behind the other.
unsafe impl<T: KernelValue, const N: usize> KernelValue for [T; N] {
    fn ir_type(state: &mut State) -> Type {
        Type::Array(Box::new(T::ir_type(state)), N as u64)
    }

    fn sample_value() -> Self {
        [T::sample_value(); N]
    }

    fn literal(self, state: &mut State) -> Raw {
        let of = Self::ir_type(state);
        let parts: Vec<_> = self.map(|element| element.literal(state)).into();
        state.frame().aggregate(parts, Some(of))
    }
}

macro_rules! vectors {
    ($($vector:ident),*) => {$(
        // SAFETY: it lies in no memory that devices share.
        unsafe impl<const D: usize> KernelValue for $vector<D> {
            fn ir_type(_: &mut State) -> Type {
                Type::Array(Box::new(Scalar::Index.into()), D as u64)
            }

            fn sample_value() -> Self {
                Self::splat(1)
            }

            fn literal(self, state: &mut State) -> Raw {
                self.components().literal(state)
            }
        }
    )*};
}

vectors!(Vector, Extent);

/// The struct that tuples of these types are.
pub(super) fn tuple_type(state: &mut State, key: String, types: Vec<Type>) -> Type {
    const NAMES: [&str; 6] = ["0", "1", "2", "3", "4", "5"];
    structure_type(
        state,
        key,
        "Tuple",
        NAMES.into_iter().zip(types).collect(),
        1,
    )
}

pub(super) fn structure_type(
    state: &mut State,
    key: String,
    name: &str,
    fields: Vec<(&'static str, Type)>,
    alignment: u64,
) -> Type {
    if let Some(id) = state.structs.get(&key) {
        return Type::Struct(*id);
    }
    let id = state.module.aligned_structure(name, fields, alignment);
    state.structs.insert(key, id);
    Type::Struct(id)
}

/// The type of a derived struct, aligned as its `repr` says; to 1 if that says nothing.
#[doc(hidden)]
pub fn derived_type<T: KernelValue>(
    state: &mut State,
    name: &str,
    fields: &[fn(&mut State) -> Type],
    alignment: u64,
) -> Type {
    let key = std::any::type_name::<T>();
    if let Some(id) = state.structs.get(key) {
        return Type::Struct(*id);
    }
    let types: Vec<_> = fields.iter().map(|field| field(state)).collect();
    structure_type(
        state,
        key.to_owned(),
        name,
        T::FIELDS.iter().copied().zip(types).collect(),
        alignment,
    )
}

/// A constant of a derived struct.
#[doc(hidden)]
pub fn derived_literal<T: KernelValue>(state: &mut State, parts: Vec<Raw>) -> Raw {
    let of = T::ir_type(state);
    state.frame().aggregate(parts, Some(of))
}

/// The constant that a derived enum is.
#[doc(hidden)]
pub fn enum_literal(state: &mut State, scalar: Scalar, bits: u64) -> Raw {
    expression::scalar(state, scalar, bits)
}

macro_rules! tuples {
    ($($name:ident $at:tt $text:literal),+) => {
        // SAFETY: it lies in no memory that devices share.
        unsafe impl<$($name: KernelValue),+> KernelValue for ($($name,)+) {
            const FIELDS: &'static [&'static str] = &[$($text),+];

            fn ir_type(state: &mut State) -> Type {
                let types = vec![$($name::ir_type(state)),+];
                tuple_type(state, format!("tuple {types:?}"), types)
            }

            fn sample_value() -> Self {
                ($($name::sample_value(),)+)
            }

            fn literal(self, state: &mut State) -> Raw {
                let parts = vec![$(self.$at.literal(state)),+];
                derived_literal::<Self>(state, parts)
            }
        }
    };
}

tuples!(A 0 "0");
tuples!(A 0 "0", B 1 "1");
tuples!(A 0 "0", B 1 "1", C 2 "2");
tuples!(A 0 "0", B 1 "1", C 2 "2", D 3 "3");
tuples!(A 0 "0", B 1 "1", C 2 "2", D 3 "3", E 4 "4");
tuples!(A 0 "0", B 1 "1", C 2 "2", D 3 "3", E 4 "4", F 5 "5");
