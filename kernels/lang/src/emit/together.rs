//! Joint operations of threads other than barriers: atomics, warps, fences.

use std::marker::PhantomData;
use std::panic::Location;

use quipu_kernel_ir as ir;
use quipu_kernel_ir::{
    AtomicOperation, BinaryOperation, Place, Property, Scalar, Statement, Type, UnaryOperation,
    Value, WarpOperation,
};

use super::control::nothing;
use super::data::KernelValue;
use super::expression::{Expr, Sample};
use super::handles::Sketch;
use super::place;
use super::repeat::{self, begin_unstepped, leave_unless};
use super::state::{self, Raw, State};

/// Scopes of atomics, as numbers that types can have.
#[derive(Debug)]
pub struct Scope;

impl Scope {
    /// For the threads of the block.
    pub const BLOCK: u8 = 0;
    /// For those of the device.
    pub const DEVICE: u8 = 1;
    /// For all.
    pub const SYSTEM: u8 = 2;

    fn named(scope: u8) -> ir::Scope {
        match scope {
            Self::BLOCK => ir::Scope::Block,
            Self::DEVICE => ir::Scope::Device,
            _ => ir::Scope::System,
        }
    }
}

/// Stands for [`Atomics`](crate::Atomics) of a scope, and for
/// [`SharedAtomics`](crate::SharedAtomics).
#[derive(Debug)]
pub struct AtomicsHandle<T, const SCOPE: u8>(PhantomData<fn() -> T>);

impl<T, const SCOPE: u8> Sample for AtomicsHandle<T, SCOPE> {
    fn sample() -> &'static Self {
        &Self(PhantomData)
    }
}

fn of_value<T: ?Sized>(value: Value) -> Expr<T> {
    Expr::from_raw(Raw::Value(value))
}

/// Writes an atomic operation on an element.
fn step<T: KernelValue>(
    raw: Raw,
    scope: u8,
    index: Expr<usize>,
    (operation, operands): (AtomicOperation, &[Raw]),
    location: &'static Location<'static>,
) -> Expr<T> {
    Expr::from_raw(state::at(location, |s| {
        let index = s.value(index.raw(), location);
        let operands: Vec<_> = operands.iter().map(|raw| s.value(*raw, location)).collect();
        let element = place::element(s, raw, index, location);
        let Raw::Place(id, _) = element else {
            return element;
        };
        let (place, of) = s.frame().place_of(id).clone();
        let scope = Scope::named(scope);
        let scalar = of.scalar().filter(|scalar| scalar.is_float());
        let f = &mut s.frame().function;
        Raw::Value(match (operation, scalar, &operands[..]) {
            // Devices have the operations of words for floats, and sums.
            (AtomicOperation::Subtract, Some(_), [operand]) => {
                let negative = f.unary(UnaryOperation::Negate, *operand);
                f.atomic(AtomicOperation::Add, place, &[negative], scope, of)
            }
            (AtomicOperation::Minimum, Some(scalar), [operand]) => {
                let by = (BinaryOperation::Minimum, *operand);
                by_exchange(s, (place, scalar, scope), by, location)
            }
            (AtomicOperation::Maximum, Some(scalar), [operand]) => {
                let by = (BinaryOperation::Maximum, *operand);
                by_exchange(s, (place, scalar, scope), by, location)
            }
            _ => f.atomic(operation, place, &operands, scope, of),
        })
    }))
}

/// Replaces a float by the result of an operation on it and an operand, in one step, and gives its
/// old value.
fn by_exchange(
    s: &mut State,
    (place, scalar, scope): (Place, Scalar, ir::Scope),
    (operation, operand): (BinaryOperation, Value),
    location: &'static Location<'static>,
) -> Value {
    let bits = if scalar == Scalar::F32 {
        Scalar::U32
    } else {
        Scalar::U64
    };
    let f = &mut s.frame().function;
    let held = f.atomic(
        AtomicOperation::Load,
        place.clone(),
        &[],
        scope,
        scalar.into(),
    );
    let expected = f.local(None, held);
    let this = begin_unstepped(s, location);
    let f = &mut s.frame().function;
    let old = f.load_local(expected);
    let new = f.binary(operation, old, operand);
    let exchange = AtomicOperation::CompareExchange;
    let held = f.atomic(exchange, place, &[old, new], scope, scalar.into());
    let (ours, theirs) = (f.bitcast(old, bits), f.bitcast(held, bits));
    let is_other = f.binary(BinaryOperation::NotEqual, ours, theirs);
    leave_unless(s, is_other, this);
    s.frame().function.store_local(expected, held);
    repeat::end(s, this);
    s.frame().function.load_local(expected)
}

macro_rules! steps {
    ($($method:ident = $operation:ident;)*) => {$(
        #[track_caller]
        pub fn $method(&self, this: Expr<Self>, index: Expr<usize>, value: Expr<T>) -> Expr<T> {
            let step_of = (AtomicOperation::$operation, &[value.raw()][..]);
            step(this.raw(), SCOPE, index, step_of, Location::caller())
        }
    )*};
}

#[doc(hidden)]
impl<T: KernelValue, const SCOPE: u8> AtomicsHandle<T, SCOPE> {
    steps! {
        __method_add = Add;
        __method_sub = Subtract;
        __method_min = Minimum;
        __method_max = Maximum;
        __method_exchange = Exchange;
        __method_and = And;
        __method_or = Or;
        __method_xor = Xor;
        __method_inc = Increment;
        __method_dec = Decrement;
    }

    #[track_caller]
    pub fn __method_compare_exchange(
        &self,
        this: Expr<Self>,
        index: Expr<usize>,
        expected: Expr<T>,
        new: Expr<T>,
    ) -> Expr<T> {
        let operands = [expected.raw(), new.raw()];
        let step_of = (AtomicOperation::CompareExchange, &operands[..]);
        step(this.raw(), SCOPE, index, step_of, Location::caller())
    }

    #[track_caller]
    pub fn __method_load(&self, this: Expr<Self>, index: Expr<usize>) -> Expr<T> {
        let step_of = (AtomicOperation::Load, &[][..]);
        step(this.raw(), SCOPE, index, step_of, Location::caller())
    }

    #[track_caller]
    pub fn __method_store(&self, this: Expr<Self>, index: Expr<usize>, value: Expr<T>) -> Expr<()> {
        let step_of = (AtomicOperation::Store, &[value.raw()][..]);
        let _: Expr<T> = step(this.raw(), SCOPE, index, step_of, Location::caller());
        nothing()
    }

    #[track_caller]
    pub fn __method_len(&self, this: Expr<Self>) -> Expr<usize> {
        let location = Location::caller();
        of_value(state::at(location, |s| {
            place::length(s, this.raw(), location)
        }))
    }

    #[track_caller]
    pub fn __method_is_empty(&self, this: Expr<Self>) -> Expr<bool> {
        let location = Location::caller();
        of_value(state::at(location, |s| {
            let length = place::length(s, this.raw(), location);
            let zero = s.frame().literal(Scalar::Index, 0);
            s.frame()
                .function
                .binary(ir::BinaryOperation::Equal, length, zero)
        }))
    }

    /// Devices have none that is weaker than a block's.
    pub fn __method_thread(&self, this: Expr<Self>) -> Expr<AtomicsHandle<T, { Scope::BLOCK }>> {
        Expr::from_raw(this.raw())
    }

    pub fn __method_grid(&self, this: Expr<Self>) -> Expr<AtomicsHandle<T, { Scope::DEVICE }>> {
        Expr::from_raw(this.raw())
    }

    pub fn __method_block(&self, this: Expr<Self>) -> Expr<AtomicsHandle<T, { Scope::BLOCK }>> {
        Expr::from_raw(this.raw())
    }

    pub fn __method_device(&self, this: Expr<Self>) -> Expr<AtomicsHandle<T, { Scope::DEVICE }>> {
        Expr::from_raw(this.raw())
    }

    pub fn __method_system(&self, this: Expr<Self>) -> Expr<AtomicsHandle<T, { Scope::SYSTEM }>> {
        Expr::from_raw(this.raw())
    }
}

fn warp<T: ?Sized>(
    operation: WarpOperation,
    operands: &[Raw],
    location: &'static Location<'static>,
) -> Expr<T> {
    of_value(state::at(location, |s: &mut State| {
        let operands: Vec<_> = operands.iter().map(|raw| s.value(*raw, location)).collect();
        s.frame().function.warp(operation, &operands)
    }))
}

/// Exchanges a value, of a struct or array each part by itself.
fn shuffle(s: &mut State, operation: WarpOperation, value: Value, lane: Value) -> Value {
    let value_type = s.frame().function.type_of(value).clone();
    match value_type {
        Type::Struct(id) => {
            let types = s.module.field_types(id).into_iter().zip(0..);
            let parts: Vec<_> = types
                .map(|(of, at)| {
                    let part = s.frame().function.field(value, at, of);
                    shuffle(s, operation, part, lane)
                })
                .collect();
            s.frame().function.structure(id, &parts)
        }
        Type::Array(element, length) => {
            let array = s.frame().function.local(None, value);
            let parts: Vec<_> = (0..length)
                .map(|at| {
                    let f = &mut s.frame().function;
                    let index = f.index_literal(at);
                    let mut place = Place::local(array);
                    place.path.push(ir::Projection::Index {
                        index,
                        checked: false,
                    });
                    let part = f.load(place, (*element).clone());
                    shuffle(s, operation, part, lane)
                })
                .collect();
            s.frame().function.array((*element).clone(), &parts)
        }
        Type::Unit => value,
        _ => s.frame().function.warp(operation, &[value, lane]),
    }
}

macro_rules! warps {
    ($($method:ident ($($operand:ident: $of:ty),*) -> $result:ty = $operation:ident;)*) => {$(
        #[track_caller]
        pub fn $method(&self, _: Expr<Self> $(, $operand: Expr<$of>)*) -> Expr<$result> {
            warp(WarpOperation::$operation, &[$($operand.raw()),*], Location::caller())
        }
    )*};
}

macro_rules! shuffles {
    ($($method:ident = $operation:ident;)*) => {$(
        #[track_caller]
        pub fn $method<T: KernelValue>(&self, _: Expr<Self>, value: Expr<T>, lane: Expr<u32>) -> Expr<T> {
            let location = Location::caller();
            of_value(state::at(location, |s| {
                let (value, lane) = (s.value(value.raw(), location), s.value(lane.raw(), location));
                shuffle(s, WarpOperation::$operation, value, lane)
            }))
        }
    )*};
}

macro_rules! properties {
    ($($method:ident = $property:ident;)*) => {$(
        #[track_caller]
        pub fn $method(&self, _: Expr<Self>) -> Expr<bool> {
            of_value(state::at(Location::caller(), |s| {
                s.frame().function.property(Property::$property)
            }))
        }
    )*};
}

macro_rules! fences {
    ($($method:ident = $scope:ident $order:ident;)*) => {$(
        #[track_caller]
        pub fn $method(&self, _: Expr<Self>) -> Expr<()> {
            state::at(Location::caller(), |s| {
                let fence = Statement::Fence(ir::Scope::$scope, ir::FenceOrder::$order);
                s.frame().function.push(fence);
            });
            nothing()
        }
    )*};
}

#[doc(hidden)]
impl<const D: usize> Sketch<D> {
    warps! {
        __method_warp_size() -> u32 = Size;
        __method_lane() -> u32 = Lane;
        __method_warp_active_mask() -> u64 = ActiveMask;
        __method_warp_all(predicate: bool) -> bool = All;
        __method_warp_any(predicate: bool) -> bool = Any;
        __method_warp_ballot(predicate: bool) -> u64 = Ballot;
    }

    shuffles! {
        __method_warp_shuffle = Shuffle;
        __method_warp_shuffle_up = ShuffleUp;
        __method_warp_shuffle_down = ShuffleDown;
        __method_warp_shuffle_xor = ShuffleXor;
    }

    #[track_caller]
    pub fn __method_clock(&self, _: Expr<Self>) -> Expr<u64> {
        of_value(state::at(Location::caller(), |s| {
            s.frame().function.clock()
        }))
    }

    /// Known here already: printed code is not native.
    #[track_caller]
    pub fn __method_is_native(&self, _: Expr<Self>) -> Expr<bool> {
        of_value(state::at(Location::caller(), |s| {
            s.frame().literal(ir::Scalar::Bool, 0)
        }))
    }

    properties! {
        __method_is_gpu = Gpu;
        __method_has_f64 = Doubles;
        __method_has_clock = Clock;
        __method_has_system_scope = SystemScope;
        __method_has_device_fence = DeviceFence;
        __method_has_grid_barrier = GridBarrier;
    }

    fences! {
        __method_fence_block = Block SequentiallyConsistent;
        __method_fence_block_acquire = Block Acquire;
        __method_fence_block_release = Block Release;
        __method_fence_device = Device SequentiallyConsistent;
        __method_fence_device_acquire = Device Acquire;
        __method_fence_device_release = Device Release;
        __method_fence_grid = Device SequentiallyConsistent;
        __method_fence_system = System SequentiallyConsistent;
        __method_fence_system_acquire = System Acquire;
        __method_fence_system_release = System Release;
    }
}
