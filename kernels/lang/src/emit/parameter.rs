//! Parameters: how each type is passed to a kernel, natively and in its source.

use std::panic::Location;

use quipu_kernel_ir::{Origin, Place, SharedLength, Space, Type, Unit};

use super::accelerator;
use super::data::{KernelData, KernelValue, ValueParameter};
use super::expression::Expr;
use super::handles::{
    self, GlobalRefHandle, OwnElementsHandle, RawMutHandle, SharedReadHandle, SharedWriteHandle,
};
use super::place::{ViewParts, view_raw};
use super::state::{self, Raw, State};
use super::together::{AtomicsHandle, Scope};
use crate::atomics::{AtomicElement, Atomics, SharedAtomicArray, SharedAtomics};
use crate::partition::{OwnElements, RawMut};
use crate::shared::{Shared, SharedArray, SharedRead, SharedWrite};
use crate::view::GlobalRef;

/// A type of a parameter that is no value: it has a handle where a source is made.
pub trait Handled {
    /// Its handle.
    type Handle: ?Sized;
}

/// A type of a parameter of a kernel.
pub trait Declared: Handled {
    /// Adds the parameter to the kernel whose source is made.
    #[doc(hidden)]
    #[track_caller]
    fn declare(name: &'static str) -> Expr<Self::Handle>;
}

/// Adds a value as a parameter.
#[track_caller]
pub fn uniform<T: ValueParameter>(name: &'static str) -> Expr<T> {
    let location = Location::caller();
    let parameter = Expr::<T>::from_raw(uniform_raw(name, T::ir_type, location));
    super::expression::bind(name, parameter)
}

// As in `expression`: the function that does the work is compiled here, and not in each crate with
// kernels.

fn uniform_raw(
    name: &'static str,
    of: fn(&mut State) -> Type,
    location: &'static Location<'static>,
) -> Raw {
    state::at(location, |s| {
        let of = of(s);
        if of == Type::Unit {
            s.frame().function.nothing(name);
            return Raw::Nothing;
        }
        Raw::Value(s.frame().function.uniform(name, of))
    })
}

fn buffer_raw(
    name: &'static str,
    mutable: bool,
    of: fn(&mut State) -> Type,
    location: &'static Location<'static>,
) -> Raw {
    state::at(location, |s| {
        let of = of(s);
        Raw::Value(s.frame().function.buffer(name, of, mutable))
    })
}

#[track_caller]
fn buffer<T: KernelValue, H: ?Sized>(name: &'static str, mutable: bool) -> Expr<H> {
    Expr::from_raw(buffer_raw(name, mutable, T::ir_type, Location::caller()))
}

#[track_caller]
pub(super) fn view<T: KernelValue, H: ?Sized>(
    name: &'static str,
    mutable: bool,
    dimensions: usize,
) -> Expr<H> {
    Expr::from_raw(view_with(
        name,
        mutable,
        dimensions,
        T::ir_type,
        Location::caller(),
    ))
}

fn view_with(
    name: &'static str,
    mutable: bool,
    dimensions: usize,
    of: fn(&mut State) -> Type,
    location: &'static Location<'static>,
) -> Raw {
    state::at(location, |s| {
        let of = of(s);
        let f = &mut s.frame().function;
        let view = if dimensions == 1 {
            let elements = f.buffer(name, of, mutable);
            let (extent, stride) = (f.length(elements), f.index_literal(1));
            ViewParts {
                elements,
                extent: vec![extent],
                strides: vec![stride],
            }
        } else {
            let (elements, extent, strides) = f.view(name, of, mutable, dimensions);
            ViewParts {
                elements,
                extent,
                strides,
            }
        };
        view_raw(s, &view)
    })
}

impl<T: 'static> Handled for &[T] {
    type Handle = [T];
}

impl<T: KernelData> Declared for &[T] {
    #[track_caller]
    fn declare(name: &'static str) -> Expr<[T]> {
        buffer::<T, _>(name, false)
    }
}

impl<T: 'static> Handled for &mut [T] {
    type Handle = [T];
}

/// [`OwnBlock`](crate::OwnBlock): a thread's part of its block's part.
impl<T: KernelData> Declared for &mut [T] {
    #[track_caller]
    fn declare(name: &'static str) -> Expr<[T]> {
        let whole = buffer::<T, [T]>(name, true);
        Expr::from_raw(state::at(Location::caller(), |s| {
            let Raw::Value(elements) = whole.raw() else {
                return Raw::Nothing;
            };
            let length = s.frame().function.length(elements);
            let blocks = accelerator::count(s, Origin::Grid, Unit::Blocks);
            let threads = accelerator::count(s, Origin::Block, Unit::Threads);
            let block = accelerator::thread_number(s, Origin::Grid, Unit::Blocks);
            let thread = accelerator::thread_number(s, Origin::Block, Unit::Threads);
            let per_block = handles::ceiling_division(s, length, blocks);
            let per_thread = handles::ceiling_division(s, per_block, threads);
            let (block_start, block_end) = handles::part_of(s, block, per_block, length);
            let f = &mut s.frame().function;
            use quipu_kernel_ir::BinaryOperation::{Add, Minimum, Multiply};
            let start = f.binary(Multiply, thread, per_thread);
            let start = f.binary(Add, block_start, start);
            let start = f.binary(Minimum, start, block_end);
            let end = f.binary(Add, start, per_thread);
            let end = f.binary(Minimum, end, block_end);
            let of = T::ir_type(s);
            Raw::Value(s.frame().function.slice(
                Place::slice(elements),
                Some((start, end)),
                of,
                Space::Global,
                true,
            ))
        }))
    }
}

impl<T: 'static, const D: usize> Handled for GlobalRef<'_, T, D> {
    type Handle = GlobalRefHandle<T, D>;
}

impl<T: KernelData, const D: usize> Declared for GlobalRef<'_, T, D> {
    #[track_caller]
    fn declare(name: &'static str) -> Expr<Self::Handle> {
        view::<T, _>(name, false, D)
    }
}

impl<T: 'static, const D: usize> Handled for OwnElements<'_, T, D> {
    type Handle = OwnElementsHandle<T, D>;
}

impl<T: KernelData, const D: usize> Declared for OwnElements<'_, T, D> {
    #[track_caller]
    fn declare(name: &'static str) -> Expr<Self::Handle> {
        view::<T, _>(name, true, D)
    }
}

impl<T: 'static> Handled for RawMut<'_, T> {
    type Handle = RawMutHandle<T>;
}

impl<T: KernelData> Declared for RawMut<'_, T> {
    #[track_caller]
    fn declare(name: &'static str) -> Expr<Self::Handle> {
        buffer::<T, _>(name, true)
    }
}

impl<T: 'static> Handled for SharedWrite<'_, T> {
    type Handle = SharedWriteHandle<T>;
}

impl<T: 'static> Handled for SharedRead<'_, T> {
    type Handle = SharedReadHandle<T>;
}

/// Types of block-shared arrays.
pub trait SharedParameter: Handled {
    /// The type of an element.
    type Element: KernelData;
    /// The type of its declaration.
    type Array: Shared;

    /// Declares it.
    #[doc(hidden)]
    fn array(length: usize) -> Self::Array;
}

impl<T: KernelData> SharedParameter for SharedWrite<'_, T> {
    type Element = T;
    type Array = SharedArray<T>;

    fn array(length: usize) -> SharedArray<T> {
        SharedArray::new(length)
    }
}

impl<T: KernelData + AtomicElement> SharedParameter for SharedAtomics<'_, T> {
    type Element = T;
    type Array = SharedAtomicArray<T>;

    fn array(length: usize) -> SharedAtomicArray<T> {
        SharedAtomicArray::new(length)
    }
}

impl<T: AtomicElement> Handled for Atomics<'_, T> {
    type Handle = AtomicsHandle<T, { Scope::DEVICE }>;
}

impl<T: KernelData + AtomicElement> Declared for Atomics<'_, T> {
    #[track_caller]
    fn declare(name: &'static str) -> Expr<Self::Handle> {
        buffer::<T, _>(name, true)
    }
}

impl<T: AtomicElement> Handled for SharedAtomics<'_, T> {
    type Handle = AtomicsHandle<T, { Scope::BLOCK }>;
}

/// Adds a block-shared array to the kernel whose source is made.
#[track_caller]
pub fn shared<P: SharedParameter>(name: &'static str, length: SharedLength) -> Expr<P::Handle> {
    Expr::from_raw(state::at(Location::caller(), |s| {
        let of = P::Element::ir_type(s);
        s.shared_types.push(of.clone());
        Raw::Shared(s.module.shared(Some(name), of, length))
    }))
}

/// As [`shared`], of an array that is left as it is when a block begins.
#[track_caller]
pub fn shared_uninitialised<P: SharedParameter>(
    name: &'static str,
    length: SharedLength,
) -> Expr<P::Handle> {
    let array = shared::<P>(name, length);
    if let Raw::Shared(shared) = array.raw() {
        state::at(Location::caller(), |s| s.module.leave_uninitialised(shared));
    }
    array
}
