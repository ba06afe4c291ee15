//! A thread's own elements by their numbers, for the adapters of `y.each()` and
//! `acc.elements(extent)`.
//!
//! The target chooses a thread's own elements, and the first of them: natively they are a box, and
//! where elements go in strides they are those as many apart as the grid has threads. A loop over
//! all of them is a [statement](quipu_kernel_ir::Statement::Elements) that leaves that to the
//! target. To have numbers, they are counted here for both orders, and the target leaves out one.

use std::panic::Location;

use quipu_kernel_ir::BinaryOperation::{Add, Divide, Less, Maximum, Multiply, Remainder, Subtract};
use quipu_kernel_ir::{Origin, Property, Scalar, Unit, Value};

use super::accelerator::{extent_value, index_value};
use super::adapt::{Count, Indexed, Items};
use super::data::KernelValue;
use super::handles::{
    EachHandle, IndicesHandle, IterMutHandle, ceiling_division, linear, own_place, part_of,
    product, referred, values, view_at,
};
use super::iterate::{binary, numbered};
use super::place::{self, ViewParts};
use super::repeat::{Loop, begin_elements};
use super::share::{Numbered, Own};
use super::state::{Raw, State};

/// A thread's own positions along a dimension.
#[derive(Clone, Copy)]
struct Along {
    first: Value,
    step: Value,
    count: Value,
}

/// The number of elements of an extent along a dimension that are a thread's: as
/// `WorkDivision::share` computes it.
pub(super) fn share_of(s: &mut State, extent: Value, d: u8) -> Value {
    let elements = extent_value(s, Origin::Thread, Unit::Elements, d);
    let threads = extent_value(s, Origin::Grid, Unit::Threads, d);
    let more = ceiling_division(s, extent, threads);
    binary(s, Maximum, elements, more)
}

fn along(s: &mut State, extent: Value, d: u8) -> Along {
    let thread = index_value(s, Origin::Grid, Unit::Threads, d);
    let threads = extent_value(s, Origin::Grid, Unit::Threads, d);
    let one = s.frame().literal(Scalar::Index, 1);
    let zero = s.frame().literal(Scalar::Index, 0);
    let share = share_of(s, extent, d);
    let (begin, end) = part_of(s, thread, share, extent);
    let in_box = binary(s, Subtract, end, begin);
    // Of those in strides: the first, and all that have the whole of a stride before them.
    let has_some = binary(s, Less, thread, extent);
    let after = binary(s, Subtract, extent, thread);
    let after = binary(s, Subtract, after, one);
    let strides = binary(s, Divide, after, threads);
    let in_strides = binary(s, Add, strides, one);
    let f = &mut s.frame().function;
    let in_strides = f.select(has_some, in_strides, zero);
    let are_strided = f.property(Property::Gpu);
    Along {
        first: f.select(are_strided, thread, begin),
        step: f.select(are_strided, threads, one),
        count: f.select(are_strided, in_strides, in_box),
    }
}

/// A thread's own positions in an extent, row by row, and the value at each.
fn own_items(
    s: &mut State,
    extent: &[Value],
    item: impl Fn(&mut State, &[Value]) -> Raw + 'static,
) -> Items {
    let all = (0..).zip(extent);
    let all: Vec<_> = all.map(|(d, extent)| along(s, *extent, d)).collect();
    let counts: Vec<_> = all.iter().map(|along| along.count).collect();
    Items {
        scalar: Scalar::Index,
        count: Count::Of(product(s, &counts)),
        item: Box::new(move |s, number| {
            let mut rest = number;
            let mut position = Vec::new();
            for (d, along) in all.iter().enumerate().rev() {
                let at = if d == 0 {
                    rest
                } else {
                    let at = binary(s, Remainder, rest, along.count);
                    rest = binary(s, Divide, rest, along.count);
                    at
                };
                let way = binary(s, Multiply, at, along.step);
                position.push(binary(s, Add, along.first, way));
            }
            position.reverse();
            item(s, &position)
        }),
    }
}

/// The element of a view at a position that is inside.
fn element(
    s: &mut State,
    view: &ViewParts,
    position: &[Value],
    location: &'static Location<'static>,
) -> Raw {
    let place = own_place(s, view, position);
    let element = place::indexed(s, Raw::Value(view.elements), place, false, location);
    referred(element)
}

/// The same, with its number.
fn numbered_element(
    s: &mut State,
    view: &ViewParts,
    position: &[Value],
    location: &'static Location<'static>,
) -> Raw {
    let number = linear(s, &view.extent, position);
    let element = element(s, view, position, location);
    numbered(s, Raw::Value(number), element)
}

/// A thread's own elements of an output, and the value made of each.
fn elements(
    s: &mut State,
    view: ViewParts,
    location: &'static Location<'static>,
    made: ElementMaker,
) -> Items {
    let extent = view.extent.clone();
    own_items(s, &extent, move |s, position| {
        made(s, &view, position, location)
    })
}

/// Begins a loop over them.
fn begin_counting_elements(
    s: &mut State,
    view: &ViewParts,
    location: &'static Location<'static>,
    made: ElementMaker,
) -> (Loop<()>, Raw) {
    let (this, position) = begin_elements(s, view.extent.clone(), location);
    (this, made(s, view, &position, location))
}

type ElementMaker = fn(&mut State, &ViewParts, &[Value], &'static Location<'static>) -> Raw;

macro_rules! elements {
    ($($handle:ident: $item:ty, $share:ty = $made:expr;)*) => {$(
        impl<T: KernelValue, const D: usize> Indexed for $handle<T, D> {
            type Item = $item;
            type Share = $share;

            fn items(s: &mut State, over: Raw, location: &'static Location<'static>) -> Items {
                let view = view_at(s, over, D, location);
                elements(s, view, location, $made)
            }

            fn whole(
                s: &mut State,
                over: Raw,
                location: &'static Location<'static>,
            ) -> Option<Vec<Value>> {
                Some(view_at(s, over, D, location).extent)
            }

            fn begin_counting(
                s: &mut State,
                over: Raw,
                location: &'static Location<'static>,
            ) -> (Loop<()>, Raw) {
                let view = view_at(s, over, D, location);
                begin_counting_elements(s, &view, location, $made)
            }
        }
    )*};
}

elements! {
    EachHandle: (usize, T), Numbered = numbered_element;
    IterMutHandle: T, Own = element;
}

impl<const D: usize> Indexed for IndicesHandle<D> {
    type Item = usize;
    type Share = Numbered;

    fn items(s: &mut State, over: Raw, location: &'static Location<'static>) -> Items {
        let extent = values(s, over, location);
        own_items(s, &extent.clone(), move |s, position| {
            Raw::Value(linear(s, &extent, position))
        })
    }

    fn whole(s: &mut State, over: Raw, location: &'static Location<'static>) -> Option<Vec<Value>> {
        Some(values(s, over, location))
    }

    fn begin_counting(
        s: &mut State,
        over: Raw,
        location: &'static Location<'static>,
    ) -> (Loop<()>, Raw) {
        let extent = values(s, over, location);
        let (this, position) = begin_elements(s, extent.clone(), location);
        (this, Raw::Value(linear(s, &extent, &position)))
    }
}
