//! Outputs of which a thread has a box or whole rows: own tiles, its share of its block's tile, own
//! rows.
//!
//! A tile is a view like any other, of the elements from its first on, that knows where in the
//! output it starts.

use std::marker::PhantomData;
use std::ops::{Index, IndexMut, Range};
use std::panic::Location;

use quipu_kernel_ir::BinaryOperation::{Add, And, Divide, Less, Maximum, Multiply, Remainder};
use quipu_kernel_ir::{BinaryOperation, Origin, Place, Space, Unit, Value};

use super::accelerator::{count, extent_value, index_value, thread_number};
use super::data::{KernelData, KernelValue};
use super::expression::{Expr, Sample};
use super::handles::{
    ceiling_division, components_of, own_place, part_of, product, referred, view_at,
};
use super::iterate::{Iterate, numbered};
use super::numbered::share_of;
use super::parameter::{Declared, Handled, view};
use super::place::{self, ViewParts, view_of, view_with_start};
use super::repeat::{Loop, begin_stepped, begin_unstepped, leave_unless};
use super::share::Apart;
use super::state::{self, Raw, State};
use crate::extent::{Extent, Vector};
use crate::partition::{OwnBlockTile, OwnRows, OwnTile};

/// Stands for [`OwnTile`](crate::OwnTile).
#[derive(Debug)]
pub struct OwnTileHandle<T, const D: usize>(PhantomData<fn() -> T>);

/// Stands for [`OwnBlockTile`](crate::OwnBlockTile).
#[derive(Debug)]
pub struct OwnBlockTileHandle<T, const D: usize>(PhantomData<fn() -> T>);

/// Stands for [`OwnRows`](crate::OwnRows).
#[derive(Debug)]
pub struct OwnRowsHandle<T>(PhantomData<fn() -> T>);

/// The iterator of `tile.each()`: all elements of a thread's tile.
#[derive(Debug)]
pub struct EachPlacedHandle<T, const D: usize>(PhantomData<fn() -> T>);

/// The iterator of `tile.each()` of a block's tile: the elements that are the thread's own.
#[derive(Debug)]
pub struct EachSharedHandle<T, const D: usize>(PhantomData<fn() -> T>);

/// The iterator of `rows.each()`.
#[derive(Debug)]
pub struct EachOwnRowHandle<T>(PhantomData<fn() -> T>);

macro_rules! handles {
    ($([$($generics:tt)*] $type:ty;)*) => {$(
        impl<$($generics)*> Sample for $type {
            fn sample() -> &'static Self {
                &Self(PhantomData)
            }
        }
    )*};
}

handles! {
    [T, const D: usize] OwnTileHandle<T, D>;
    [T, const D: usize] OwnBlockTileHandle<T, D>;
    [T] OwnRowsHandle<T>;
    [T, const D: usize] EachPlacedHandle<T, D>;
    [T, const D: usize] EachSharedHandle<T, D>;
    [T] EachOwnRowHandle<T>;
}

impl<T: 'static, const D: usize> Handled for OwnTile<'_, T, D> {
    type Handle = OwnTileHandle<T, D>;
}

impl<T: 'static, const D: usize> Handled for OwnBlockTile<'_, T, D> {
    type Handle = OwnBlockTileHandle<T, D>;
}

impl<T: 'static> Handled for OwnRows<'_, T> {
    type Handle = OwnRowsHandle<T>;
}

fn binary(s: &mut State, operation: BinaryOperation, left: Value, right: Value) -> Value {
    s.frame().function.binary(operation, left, right)
}

/// The part with an index of a view that is cut into parts of a size, clipped at its end: as a
/// view.
fn part_of_view(
    s: &mut State,
    view: &ViewParts,
    share: impl Fn(&mut State, u8) -> Value,
    index: (Origin, Unit),
) -> Raw {
    let zero = s.frame().function.index_literal(0);
    let (mut start, mut extent) = (Vec::new(), Vec::new());
    let mut is_inside = None;
    for (d, whole) in view.extent.iter().enumerate() {
        let share = share(s, d as u8);
        let at = index_value(s, index.0, index.1, d as u8);
        let (from, to) = part_of(s, at, share, *whole);
        let length = binary(s, BinaryOperation::Subtract, to, from);
        let has_some = binary(s, Less, zero, length);
        is_inside = Some(match is_inside {
            Some(before) => binary(s, And, before, has_some),
            None => has_some,
        });
        start.push(from);
        extent.push(length);
    }
    let first = own_place(s, view, &start);
    let of = s.frame().function.type_of(view.elements).clone();
    let quipu_kernel_ir::Type::Slice { element, .. } = of else {
        return Raw::Nothing;
    };
    // The first place of an empty tile may be beyond the end.
    let first = match is_inside {
        Some(is_inside) => s.frame().function.select(is_inside, first, zero),
        None => first,
    };
    let length = s.frame().function.length(view.elements);
    let elements = s.frame().function.slice(
        Place::slice(view.elements),
        Some((first, length)),
        *element,
        Space::Global,
        true,
    );
    let tile = ViewParts {
        elements,
        extent,
        strides: view.strides.clone(),
    };
    view_with_start(s, &tile, &start)
}

impl<T: KernelData, const D: usize> Declared for OwnTile<'_, T, D> {
    #[track_caller]
    fn declare(name: &'static str) -> Expr<Self::Handle> {
        let whole = view::<T, Self::Handle>(name, true, D);
        let location = Location::caller();
        let view = state::at(location, |s| view_at(s, whole.raw(), D, location));
        Expr::from_raw(state::at(location, |s| {
            let extents = view.extent.clone();
            let share = |s: &mut State, d: u8| share_of(s, extents[usize::from(d)], d);
            part_of_view(s, &view, share, (Origin::Grid, Unit::Threads))
        }))
    }
}

impl<T: KernelData, const D: usize> Declared for OwnBlockTile<'_, T, D> {
    #[track_caller]
    fn declare(name: &'static str) -> Expr<Self::Handle> {
        let whole = view::<T, Self::Handle>(name, true, D);
        let location = Location::caller();
        let view = state::at(location, |s| view_at(s, whole.raw(), D, location));
        Expr::from_raw(state::at(location, |s| {
            let extents = view.extent.clone();
            let share = |s: &mut State, d: u8| {
                let extent = extents[usize::from(d)];
                let elements = extent_value(s, Origin::Block, Unit::Elements, d);
                let blocks = extent_value(s, Origin::Grid, Unit::Blocks, d);
                let more = ceiling_division(s, extent, blocks);
                binary(s, Maximum, elements, more)
            };
            part_of_view(s, &view, share, (Origin::Grid, Unit::Blocks))
        }))
    }
}

impl<T: KernelData> Declared for OwnRows<'_, T> {
    /// The view, and the first and the last but one of the rows.
    #[track_caller]
    fn declare(name: &'static str) -> Expr<Self::Handle> {
        let whole = view::<T, Self::Handle>(name, true, 2);
        let location = Location::caller();
        let view = state::at(location, |s| view_at(s, whole.raw(), 2, location));
        Expr::from_raw(state::at(location, |s| {
            let block = thread_number(s, Origin::Grid, Unit::Blocks);
            let in_block = thread_number(s, Origin::Block, Unit::Threads);
            let (blocks, in_each) = (
                count(s, Origin::Grid, Unit::Blocks),
                count(s, Origin::Block, Unit::Threads),
            );
            let before = binary(s, Multiply, block, in_each);
            let number = binary(s, Add, before, in_block);
            let threads = binary(s, Multiply, blocks, in_each);
            let share = ceiling_division(s, view.extent[0], threads);
            let (start, end) = part_of(s, number, share, view.extent[0]);
            let range = vec![Raw::Value(start), Raw::Value(end)];
            let range = s.frame().aggregate(range, None);
            s.frame().aggregate(vec![whole.raw(), range], None)
        }))
    }
}

/// The components of something as a position or extent.
fn vector<T: ?Sized>(location: &'static Location<'static>, parts: Vec<Value>) -> Expr<T> {
    Expr::from_raw(state::at(location, |s| {
        components_of(s, parts.into_iter().map(Raw::Value).collect())
    }))
}

/// The position in the output at which a tile starts.
fn start_of(raw: Raw, location: &'static Location<'static>) -> Vec<Value> {
    state::at(location, |s| place::start_of(s, raw, location))
}

#[doc(hidden)]
impl<T: KernelValue, const D: usize> OwnTileHandle<T, D> {
    #[track_caller]
    pub fn __method_extent(&self, this: Expr<Self>) -> Expr<Extent<D>> {
        let location = Location::caller();
        vector(
            location,
            state::at(location, |s| view_at(s, this.raw(), D, location)).extent,
        )
    }

    #[track_caller]
    pub fn __method_start(&self, this: Expr<Self>) -> Expr<Vector<D>> {
        let location = Location::caller();
        vector(location, start_of(this.raw(), location))
    }

    pub fn __method_each(&self, this: Expr<Self>) -> Expr<EachPlacedHandle<T, D>> {
        Expr::from_raw(this.raw())
    }

    #[track_caller]
    pub fn __method_row_mut<const R: usize>(
        &self,
        this: Expr<Self>,
        row: Expr<[usize; R]>,
    ) -> Expr<[T]> {
        let location = Location::caller();
        let view = state::at(location, |s| view_at(s, this.raw(), D, location));
        Expr::from_raw(state::at(location, |s| {
            let mut position = super::handles::values(s, row.raw(), location);
            let zero = s.frame().function.index_literal(0);
            let columns = view.extent[D - 1];
            let mut is_inside = binary(s, Less, zero, columns);
            for (at, extent) in position.iter().zip(&view.extent) {
                let within = binary(s, Less, *at, *extent);
                is_inside = binary(s, And, is_inside, within);
            }
            position.push(zero);
            let first = own_place(s, &view, &position);
            let first = s.frame().function.select(is_inside, first, zero);
            let length = s.frame().function.select(is_inside, columns, zero);
            row_of::<T>(s, &view, first, length)
        }))
    }
}

/// So many elements of a view from a place on, as a slice.
fn row_of<T: KernelValue>(s: &mut State, view: &ViewParts, first: Value, length: Value) -> Raw {
    let end = binary(s, Add, first, length);
    let of = T::ir_type(s);
    let elements = Place::slice(view.elements);
    let range = Some((first, end));
    let row = s
        .frame()
        .function
        .slice(elements, range, of, Space::Global, true);
    Raw::Value(row)
}

#[doc(hidden)]
impl<T: KernelValue, const D: usize> OwnBlockTileHandle<T, D> {
    #[track_caller]
    pub fn __method_extent(&self, this: Expr<Self>) -> Expr<Extent<D>> {
        let location = Location::caller();
        vector(
            location,
            state::at(location, |s| view_at(s, this.raw(), D, location)).extent,
        )
    }

    #[track_caller]
    pub fn __method_start(&self, this: Expr<Self>) -> Expr<Vector<D>> {
        let location = Location::caller();
        vector(location, start_of(this.raw(), location))
    }

    pub fn __method_each(&self, this: Expr<Self>) -> Expr<EachSharedHandle<T, D>> {
        Expr::from_raw(this.raw())
    }
}

/// The view of own rows, and the ends of their range.
fn rows_of(
    s: &mut State,
    raw: Raw,
    location: &'static Location<'static>,
) -> Option<(ViewParts, Value, Value)> {
    if let Raw::Aggregate(id) = raw
        && let &[view, Raw::Aggregate(range)] = s.frame().parts(id)
        && let &[Raw::Value(start), Raw::Value(end)] = s.frame().parts(range)
        && let Some(view) = view_of(s, view)
    {
        return Some((view, start, end));
    }
    s.refuse(location, "this is no part of an output by rows");
    None
}

#[doc(hidden)]
impl<T: KernelValue> OwnRowsHandle<T> {
    #[track_caller]
    pub fn __method_extent(&self, this: Expr<Self>) -> Expr<Extent<2>> {
        let location = Location::caller();
        let extent = state::at(location, |s| match rows_of(s, this.raw(), location) {
            Some((view, ..)) => view.extent,
            None => Vec::new(),
        });
        vector(location, extent)
    }

    #[track_caller]
    pub fn __method_range(&self, this: Expr<Self>) -> Expr<Range<usize>> {
        let location = Location::caller();
        let ends = state::at(location, |s| match rows_of(s, this.raw(), location) {
            Some((_, start, end)) => vec![start, end],
            None => Vec::new(),
        });
        vector(location, ends)
    }

    pub fn __method_each(&self, this: Expr<Self>) -> Expr<EachOwnRowHandle<T>> {
        Expr::from_raw(this.raw())
    }
}

/// The element of a tile at a position that is inside, with the position.
fn placed(
    s: &mut State,
    view: &ViewParts,
    position: Vec<Value>,
    location: &'static Location<'static>,
) -> Raw {
    let at = own_place(s, view, &position);
    let element = place::indexed(s, Raw::Value(view.elements), at, false, location);
    let position = position.into_iter().map(Raw::Value).collect();
    let position = components_of(s, position);
    numbered(s, position, referred(element))
}

impl<T: KernelValue, const D: usize> Iterate for EachPlacedHandle<T, D> {
    type Item = (Vector<D>, T);
    type Share = Apart;

    /// A position that is counted up as the digits of a number are.
    fn begin(s: &mut State, over: Raw, location: &'static Location<'static>) -> (Loop<()>, Raw) {
        let view = view_at(s, over, D, location);
        let zero = s.frame().function.index_literal(0);
        let mut is_inside = None;
        for extent in &view.extent {
            let has_some = binary(s, Less, zero, *extent);
            is_inside = Some(match is_inside {
                Some(before) => binary(s, And, before, has_some),
                None => has_some,
            });
        }
        let past = match is_inside {
            Some(is_inside) => s.frame().function.select(is_inside, zero, view.extent[0]),
            None => zero,
        };
        let counters: Vec<_> = (0..D)
            .map(|d| {
                let first = if d == 0 { past } else { zero };
                s.frame().function.local(None, first)
            })
            .collect();
        let (digits, extent) = (counters.clone(), view.extent.clone());
        let step = move |s: &mut State| {
            let f = &mut s.frame().function;
            let (zero, mut carry) = (f.index_literal(0), f.index_literal(1));
            for d in (0..D).rev() {
                let at = f.load_local(digits[d]);
                let next = f.binary(Add, at, carry);
                if d == 0 {
                    f.store_local(digits[d], next);
                } else {
                    let is_finished = f.binary(BinaryOperation::Equal, next, extent[d]);
                    let one = f.index_literal(1);
                    carry = f.select(is_finished, one, zero);
                    let next = f.select(is_finished, zero, next);
                    f.store_local(digits[d], next);
                }
            }
        };
        let this = begin_stepped(s, step, location);
        let at = s.frame().function.load_local(counters[0]);
        let inside = binary(s, Less, at, view.extent[0]);
        leave_unless(s, inside, this);
        let f = &mut s.frame().function;
        let position = counters
            .iter()
            .map(|counter| f.load_local(*counter))
            .collect();
        (this, placed(s, &view, position, location))
    }
}

impl<T: KernelValue, const D: usize> Iterate for EachSharedHandle<T, D> {
    type Item = (Vector<D>, T);
    type Share = Apart;

    /// The elements whose numbers are the thread's, and from there as many apart as the block has
    /// threads: so neighbouring threads have neighbouring elements.
    fn begin(s: &mut State, over: Raw, location: &'static Location<'static>) -> (Loop<()>, Raw) {
        let view = view_at(s, over, D, location);
        let end = product(s, &view.extent);
        let thread = thread_number(s, Origin::Block, Unit::Threads);
        let counter = s.frame().function.local(None, thread);
        let threads = count(s, Origin::Block, Unit::Threads);
        let step = move |s: &mut State| {
            let at = s.frame().function.load_local(counter);
            let next = binary(s, Add, at, threads);
            s.frame().function.store_local(counter, next);
        };
        let this = begin_stepped(s, step, location);
        let at = s.frame().function.load_local(counter);
        let inside = binary(s, Less, at, end);
        leave_unless(s, inside, this);
        let mut number = s.frame().function.load_local(counter);
        let mut position = Vec::new();
        for extent in view.extent.iter().skip(1).rev() {
            position.push(binary(s, Remainder, number, *extent));
            number = binary(s, Divide, number, *extent);
        }
        position.push(number);
        position.reverse();
        (this, placed(s, &view, position, location))
    }
}

impl<T: KernelValue> Iterate for EachOwnRowHandle<T> {
    type Item = (usize, [T]);
    type Share = Apart;

    fn begin(s: &mut State, over: Raw, location: &'static Location<'static>) -> (Loop<()>, Raw) {
        let Some((view, start, end)) = rows_of(s, over, location) else {
            return (begin_unstepped(s, location), Raw::Nothing);
        };
        let range = s
            .frame()
            .aggregate(vec![Raw::Value(start), Raw::Value(end)], None);
        let (this, number) = Range::<usize>::begin(s, range, location);
        let number = s.value(number, location);
        let zero = s.frame().function.index_literal(0);
        let first = own_place(s, &view, &[number, zero]);
        // Rows of no elements have no places.
        let is_empty = binary(s, BinaryOperation::Equal, view.extent[1], zero);
        let first = s.frame().function.select(is_empty, zero, first);
        let row = row_of::<T>(s, &view, first, view.extent[1]);
        (this, numbered(s, Raw::Value(number), row))
    }
}

impl<T, const D: usize> Index<[usize; D]> for OwnTileHandle<T, D> {
    type Output = T;

    fn index(&self, _: [usize; D]) -> &T {
        unreachable!("only code that is never run asks for the value of an expression")
    }
}

impl<T, const D: usize> IndexMut<[usize; D]> for OwnTileHandle<T, D> {
    fn index_mut(&mut self, _: [usize; D]) -> &mut T {
        unreachable!("only code that is never run asks for the value of an expression")
    }
}
