//! A kernel's calls of its accelerator: its thread's position, extents, its own elements; and
//! barriers.

use std::panic::Location;

use quipu_kernel_ir::{BinaryOperation, Origin, Scalar, Unit, Value};

use super::adapt::{Groups, Rounds};
use super::control::nothing;
use super::data::KernelValue;
use super::expression::Expr;
use super::handles::{
    IndicesHandle, Sketch, barrier_count, ceiling_division, components, components_of, linear,
    of_value, product, values,
};
use super::shared::Turn;
use super::state::{self, Raw, State};
use crate::accelerator::{Block, Blocks, Elements, Grid, Measured, Thread, Threads};
use crate::extent::{Extent, Vector};

/// Origins and units as the representation names them.
pub trait Named: Copy {
    /// Its counterpart there.
    #[doc(hidden)]
    type Ir;
    /// Its name.
    #[doc(hidden)]
    const NAME: Self::Ir;
}

macro_rules! named {
    ($($type:ty: $ir:ident::$name:ident),*) => {$(
        impl Named for $type {
            type Ir = $ir;
            const NAME: $ir = $ir::$name;
        }
    )*};
}

named!(Grid: Origin::Grid, Block: Origin::Block, Thread: Origin::Thread);
named!(Blocks: Unit::Blocks, Threads: Unit::Threads, Elements: Unit::Elements);

pub(super) fn index_value(s: &mut State, origin: Origin, unit: Unit, dimension: u8) -> Value {
    s.frame().function.index(origin, unit, dimension)
}

pub(super) fn extent_value(s: &mut State, origin: Origin, unit: Unit, dimension: u8) -> Value {
    s.frame().function.extent(origin, unit, dimension)
}

/// The number of this thread in its block, or of its block in the grid.
pub(super) fn thread_number(s: &mut State, origin: Origin, unit: Unit) -> Value {
    let dimensions = 0..s.dimensions;
    let extent: Vec<_> = dimensions
        .clone()
        .map(|d| extent_value(s, origin, unit, d))
        .collect();
    let index: Vec<_> = dimensions
        .map(|d| index_value(s, origin, unit, d))
        .collect();
    linear(s, &extent, &index)
}

/// The product of the extents along all dimensions.
pub(super) fn count(s: &mut State, origin: Origin, unit: Unit) -> Value {
    let extent: Vec<_> = (0..s.dimensions)
        .map(|d| extent_value(s, origin, unit, d))
        .collect();
    product(s, &extent)
}

/// `(start..end).step_by(step)`.
fn stepped(s: &mut State, start: Value, end: Value, step: Value) -> Raw {
    let range = components_of(s, vec![Raw::Value(start), Raw::Value(end)]);
    components_of(s, vec![range, Raw::Value(step)])
}

/// True if this is the first of an origin's threads.
fn first_of(origin: Origin, location: &'static Location<'static>) -> Expr<bool> {
    of_value(state::at(location, |s| {
        let number = thread_number(s, origin, Unit::Threads);
        let zero = s.frame().literal(Scalar::Index, 0);
        s.frame()
            .function
            .binary(BinaryOperation::Equal, number, zero)
    }))
}

macro_rules! of_components {
    ($($vector:ident),*) => {$(
        #[doc(hidden)]
        impl<const D: usize> $vector<D> {
            #[track_caller]
            pub fn __call_new(of: Expr<[usize; D]>) -> Expr<Self> {
                let location = Location::caller();
                let parts = state::at(location, |s| values(s, of.raw(), location));
                components::<D, _>(location, |_, d| parts[usize::from(d)])
            }

            #[track_caller]
            pub fn __call_splat(component: Expr<usize>) -> Expr<Self> {
                let location = Location::caller();
                let part = state::at(location, |s| s.value(component.raw(), location));
                components::<D, _>(location, |_, _| part)
            }

            #[track_caller]
            pub fn __method_components(&self, this: Expr<Self>) -> Expr<[usize; D]> {
                let location = Location::caller();
                Expr::from_raw(state::at(location, |s| {
                    let parts = values(s, this.raw(), location);
                    let of = Self::ir_type(s);
                    s.frame().aggregate(parts.into_iter().map(Raw::Value).collect(), Some(of))
                }))
            }
        }
    )*};
}

of_components!(Vector, Extent);

#[doc(hidden)]
impl<const D: usize> Extent<D> {
    #[track_caller]
    pub fn __method_number_of(&self, this: Expr<Self>, position: Expr<Vector<D>>) -> Expr<usize> {
        let location = Location::caller();
        of_value(state::at(location, |s| {
            let extent = values(s, this.raw(), location);
            let position = values(s, position.raw(), location);
            linear(s, &extent, &position)
        }))
    }

    #[track_caller]
    pub fn __method_product(&self, this: Expr<Self>) -> Expr<usize> {
        let location = Location::caller();
        of_value(state::at(location, |s| {
            let extent = values(s, this.raw(), location);
            product(s, &extent)
        }))
    }

    #[track_caller]
    pub fn __method_position_of(&self, this: Expr<Self>, number: Expr<usize>) -> Expr<Vector<D>> {
        let location = Location::caller();
        Expr::from_raw(state::at(location, |s| {
            let extent = values(s, this.raw(), location);
            let mut rest = s.value(number.raw(), location);
            let mut parts = Vec::new();
            for extent in extent.iter().skip(1).rev() {
                let f = &mut s.frame().function;
                parts.push(Raw::Value(f.binary(
                    BinaryOperation::Remainder,
                    rest,
                    *extent,
                )));
                rest = f.binary(BinaryOperation::Divide, rest, *extent);
            }
            parts.push(Raw::Value(rest));
            parts.reverse();
            components_of(s, parts)
        }))
    }
}

#[doc(hidden)]
impl<const D: usize> Sketch<D> {
    #[track_caller]
    pub fn __method_index<O, U>(&self, _: Expr<Self>, _: Expr<O>, _: Expr<U>) -> Expr<Vector<D>>
    where
        O: Measured<U> + Named<Ir = Origin>,
        U: Named<Ir = Unit>,
    {
        components::<D, _>(Location::caller(), |s, d| {
            index_value(s, O::NAME, U::NAME, d)
        })
    }

    #[track_caller]
    pub fn __method_extent<O, U>(&self, _: Expr<Self>, _: Expr<O>, _: Expr<U>) -> Expr<Extent<D>>
    where
        O: Measured<U> + Named<Ir = Origin>,
        U: Named<Ir = Unit>,
    {
        components::<D, _>(Location::caller(), |s, d| {
            extent_value(s, O::NAME, U::NAME, d)
        })
    }

    #[track_caller]
    pub fn __method_block_index(&self, _: Expr<Self>) -> Expr<Vector<D>> {
        components::<D, _>(Location::caller(), |s, d| {
            index_value(s, Origin::Grid, Unit::Blocks, d)
        })
    }

    #[track_caller]
    pub fn __method_thread_index(&self, _: Expr<Self>) -> Expr<Vector<D>> {
        components::<D, _>(Location::caller(), |s, d| {
            index_value(s, Origin::Block, Unit::Threads, d)
        })
    }

    #[track_caller]
    pub fn __method_elements<E: Into<Extent<D>> + KernelValue>(
        &self,
        _: Expr<Self>,
        extent: Expr<E>,
    ) -> Expr<IndicesHandle<D>> {
        let location = Location::caller();
        Expr::from_raw(state::at(location, |s| {
            let extent = values(s, extent.raw(), location);
            let parts = extent.into_iter().map(Raw::Value).collect();
            s.frame().aggregate(parts, None)
        }))
    }

    #[track_caller]
    pub fn __method_groups(&self, _: Expr<Self>, count: Expr<usize>) -> Expr<Groups> {
        let location = Location::caller();
        Expr::from_raw(state::at(location, |s| {
            let end = s.value(count.raw(), location);
            let first = thread_number(s, Origin::Grid, Unit::Blocks);
            let blocks = self::count(s, Origin::Grid, Unit::Blocks);
            stepped(s, first, end, blocks)
        }))
    }

    #[track_caller]
    pub fn __method_uniform_elements(&self, _: Expr<Self>, count: Expr<usize>) -> Expr<Rounds> {
        let location = Location::caller();
        Expr::from_raw(state::at(location, |s| {
            let count = s.value(count.raw(), location);
            let first = thread_number(s, Origin::Grid, Unit::Threads);
            let threads = self::count(s, Origin::Grid, Unit::Threads);
            let rounds = ceiling_division(s, count, threads);
            let f = &mut s.frame().function;
            // No product goes round, of a count that is the greatest number nearly: all threads
            // have as many rounds.
            let zero = f.index_literal(0);
            let rest = f.binary(BinaryOperation::Subtract, zero, threads);
            let most = f.binary(BinaryOperation::Divide, rest, threads);
            let rounds = f.binary(BinaryOperation::Minimum, rounds, most);
            components_of(s, [first, threads, rounds].map(Raw::Value).into())
        }))
    }

    #[track_caller]
    pub fn __method_once_per_grid(&self, _: Expr<Self>) -> Expr<bool> {
        first_of(Origin::Grid, Location::caller())
    }

    #[track_caller]
    pub fn __method_once_per_block(&self, _: Expr<Self>) -> Expr<bool> {
        first_of(Origin::Block, Location::caller())
    }

    #[track_caller]
    pub fn __method_assume_uniform<T: KernelValue>(
        &self,
        _: Expr<Self>,
        value: Expr<T>,
    ) -> Expr<T> {
        let location = Location::caller();
        of_value(state::at(location, |s| {
            let value = s.value(value.raw(), location);
            s.frame().function.assume_uniform(value)
        }))
    }

    #[track_caller]
    pub fn __method_sync_block_threads(&self, _: Expr<Self>) -> Expr<()> {
        state::at(Location::caller(), |s| s.frame().function.barrier());
        nothing()
    }

    #[track_caller]
    pub fn __method_sync_grid_threads(&self, _: Expr<Self>) -> Expr<()> {
        state::at(Location::caller(), |s| s.frame().function.grid_barrier());
        nothing()
    }

    #[track_caller]
    pub fn __method_sync_block_threads_count(
        &self,
        _: Expr<Self>,
        predicate: Expr<bool>,
    ) -> Expr<usize> {
        let location = Location::caller();
        of_value(state::at(location, |s| {
            barrier_count(s, predicate, location)
        }))
    }

    #[track_caller]
    pub fn __method_sync_block_threads_and(
        &self,
        _: Expr<Self>,
        predicate: Expr<bool>,
    ) -> Expr<bool> {
        let location = Location::caller();
        of_value(state::at(location, |s| {
            let votes = barrier_count(s, predicate, location);
            let threads = count(s, Origin::Block, Unit::Threads);
            s.frame()
                .function
                .binary(BinaryOperation::Equal, votes, threads)
        }))
    }

    #[track_caller]
    pub fn __method_sync_block_threads_or(
        &self,
        _: Expr<Self>,
        predicate: Expr<bool>,
    ) -> Expr<bool> {
        let location = Location::caller();
        of_value(state::at(location, |s| {
            let votes = barrier_count(s, predicate, location);
            let none = s.frame().literal(Scalar::Index, 0);
            s.frame()
                .function
                .binary(BinaryOperation::Greater, votes, none)
        }))
    }

    #[track_caller]
    pub fn __method_sync<P: Turn>(&self, _: Expr<Self>, arrays: Expr<P>) -> Expr<P::Turned> {
        state::at(Location::caller(), |s| s.frame().function.barrier());
        Expr::from_raw(arrays.raw())
    }
}
