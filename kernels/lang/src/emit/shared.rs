//! Block-shared arrays, and the tuples that barriers turn them in.

use std::panic::Location;

use quipu_kernel_ir::{Origin, Place, Type, Unit, Value};

use super::accelerator::{count, thread_number};
use super::data::KernelValue;
use super::expression::Expr;
use super::handles::{
    RawMutHandle, SharedReadHandle, SharedWriteHandle, ceiling_division, of_value, part_of,
};
use super::place;
use super::state::{self, Raw, State};

/// Shared arrays in the other phase, after a barrier.
pub trait Turn {
    /// The type that they have then.
    type Turned;
}

impl<T> Turn for SharedWriteHandle<T> {
    type Turned = SharedReadHandle<T>;
}

impl<T> Turn for SharedReadHandle<T> {
    type Turned = SharedWriteHandle<T>;
}

macro_rules! turned_tuples {
    ($(($($name:ident),+);)*) => {$(
        impl<$($name: Turn),+> Turn for ($($name,)+) {
            type Turned = ($($name::Turned,)+);
        }
    )*};
}

turned_tuples! { (A); (A, B); (A, B, C); (A, B, C, D); (A, B, C, D, E); (A, B, C, D, E, F); }

/// A thread's own part of a shared array: the array, where the part starts, and where it ends.
fn own_part(
    s: &mut State,
    raw: Raw,
    location: &'static Location<'static>,
) -> Option<(Place, Value, Value)> {
    if let Raw::Shared(shared) = raw {
        if let Some((start, end)) = s.frame().own_parts.get(&shared) {
            return Some((Place::shared(shared), *start, *end));
        }
        // Once, before all else: a division is dear.
        s.frame().begin_block();
        let length = s.frame().function.shared_length(shared);
        let (start, end) = own_share(s, length);
        s.frame().end_prologue();
        s.frame().own_parts.insert(shared, (start, end));
        return Some((Place::shared(shared), start, end));
    }
    // One of several arrays: see `bind_exchanged`.
    if !matches!(s.frame().type_of(raw), Some(Type::Slice { .. })) {
        s.refuse(location, "this is no shared array");
        return None;
    }
    let slice = s.value(raw, location);
    let length = s.frame().function.length(slice);
    let (start, end) = own_share(s, length);
    Some((Place::slice(slice), start, end))
}

/// A thread's own part of so many elements.
fn own_share(s: &mut State, length: Value) -> (Value, Value) {
    let threads = count(s, Origin::Block, Unit::Threads);
    let thread = thread_number(s, Origin::Block, Unit::Threads);
    let share = ceiling_division(s, length, threads);
    part_of(s, thread, share, length)
}

#[doc(hidden)]
impl<T: KernelValue> SharedWriteHandle<T> {
    #[track_caller]
    pub fn __method_own(&self, this: Expr<Self>) -> Expr<[T]> {
        let location = Location::caller();
        Expr::from_raw(state::at(location, |s| {
            let Some((array, start, end)) = own_part(s, this.raw(), location) else {
                return Raw::Nothing;
            };
            let of = T::ir_type(s);
            Raw::Value(s.frame().function.slice_within(
                array,
                (start, end),
                of,
                quipu_kernel_ir::Space::Shared,
                true,
            ))
        }))
    }

    #[track_caller]
    pub fn __method_own_range(&self, this: Expr<Self>) -> Expr<std::ops::Range<usize>> {
        let location = Location::caller();
        Expr::from_raw(state::at(location, |s| {
            match own_part(s, this.raw(), location) {
                Some((_, start, end)) => s
                    .frame()
                    .aggregate(vec![Raw::Value(start), Raw::Value(end)], None),
                None => Raw::Nothing,
            }
        }))
    }

    #[track_caller]
    pub fn __method_len(&self, this: Expr<Self>) -> Expr<usize> {
        let location = Location::caller();
        of_value(state::at(location, |s| {
            place::length(s, this.raw(), location)
        }))
    }
}

#[doc(hidden)]
impl<T> SharedWriteHandle<T> {
    /// The same array: only the knowledge of its elements differs.
    pub fn __method_into_raw(&self, this: Expr<Self>) -> Expr<RawMutHandle<T>> {
        Expr::from_raw(this.raw())
    }
}

#[doc(hidden)]
impl<T: KernelValue> SharedReadHandle<T> {
    // rustc says natively what to write.
    pub fn __method_own(&self, _: Expr<Self>) -> Expr<[T]> {
        super::control::never()
    }

    #[track_caller]
    pub fn __method_len(&self, this: Expr<Self>) -> Expr<usize> {
        let location = Location::caller();
        of_value(state::at(location, |s| {
            place::length(s, this.raw(), location)
        }))
    }

    #[track_caller]
    pub fn __method_iter(&self, this: Expr<Self>) -> Expr<std::slice::Iter<'static, T>> {
        let location = Location::caller();
        Expr::from_raw(state::at(location, |s| {
            place::whole_slice(s, this.raw(), location)
        }))
    }
}

/// Parts of a tuple: values, or shared arrays.
pub trait Part {
    /// Its type, if it is a value.
    #[doc(hidden)]
    fn part_type(s: &mut State) -> Option<quipu_kernel_ir::Type>;
}

impl<T: KernelValue> Part for T {
    fn part_type(s: &mut State) -> Option<quipu_kernel_ir::Type> {
        Some(T::ir_type(s))
    }
}

macro_rules! shared_parts {
    ($($handle:ident),*) => {$(
        impl<T> Part for $handle<T> {
            fn part_type(_: &mut State) -> Option<quipu_kernel_ir::Type> {
                None
            }
        }
    )*};
}

shared_parts!(SharedWriteHandle, SharedReadHandle, RawMutHandle);

/// Tuples.
pub trait Tuple {
    /// Its type, if it is a value.
    #[doc(hidden)]
    fn tuple_type(s: &mut State) -> Option<quipu_kernel_ir::Type>;
}

macro_rules! tuples {
    ($(($($name:ident),+);)*) => {$(
        impl<$($name: Part),+> Tuple for ($($name,)+) {
            fn tuple_type(s: &mut State) -> Option<quipu_kernel_ir::Type> {
                let types = [$($name::part_type(s)),+];
                let types = types.into_iter().collect::<Option<Vec<_>>>()?;
                let key = format!("tuple {types:?}");
                Some(super::data::tuple_type(s, key, types))
            }
        }
    )*};
}

tuples! { (A); (A, B); (A, B, C); (A, B, C, D); (A, B, C, D, E); (A, B, C, D, E, F); }
