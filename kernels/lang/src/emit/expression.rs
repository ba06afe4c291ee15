//! Expressions: typed handles of parts of the kernel that is being written.

use std::any::{Any, TypeId};
use std::collections::BTreeMap;
use std::marker::PhantomData;
use std::ops::Deref;
use std::panic::Location;
use std::sync::{Mutex, PoisonError};

use quipu_kernel_ir as ir;
use quipu_kernel_ir::{
    BinaryOperation, FunctionBuilder, Operation, Root, Scalar, Statement, Type, UnaryOperation,
};

use super::data::KernelValue;
use super::handles::{GlobalRefHandle, RawMutHandle, SharedReadHandle};
use super::place;
use super::state::{self, Mode, Raw};
use crate::extent::{Extent, Vector};

/// An expression of a kernel that is being written: of type `T` in the user's source, references
/// not counted (the place that `&x` refers to is known).
pub struct Expr<T: ?Sized> {
    raw: Raw,
    of: PhantomData<*const T>,
}

impl<T: ?Sized> Clone for Expr<T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T: ?Sized> Copy for Expr<T> {}

impl<T: ?Sized> std::fmt::Debug for Expr<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Expr({:?})", self.raw)
    }
}

impl<T: ?Sized> Expr<T> {
    /// An expression of a type for a [`Raw`].
    pub fn from_raw(raw: Raw) -> Self {
        Self {
            raw,
            of: PhantomData,
        }
    }

    /// The [`Raw`] that the expression stands for.
    pub fn raw(self) -> Raw {
        self.raw
    }
}

/// Never true: code after it is type-checked and not compiled. So an operation of the kernel
/// language has the type that rustc finds for the same operation on the values themselves.
pub const DEAD: bool = false;

/// A value of an expression's type, where [`DEAD`] code needs one.
pub fn w<T>(_: Expr<T>) -> T {
    unreachable!("only code that is never run asks for the value of an expression")
}

/// As [`w`], of a type that may be unsized.
pub fn w_ref<T: ?Sized + 'static>(_: Expr<T>) -> &'static mut T {
    unreachable!("only code that is never run asks for the value of an expression")
}

/// Something to call methods on that the type of an expression has: rustc then finds them as it
/// does natively.
///
/// It looks for them of this type, then of the type that this refers to, then of a reference to
/// that. So a number's own methods, which are of the first, come before those of the traits of
/// users, which are of the second; and those come before the methods of numbers for every other
/// type, of which no more may be known than a trait of numbers.
#[derive(Debug)]
pub struct Subject<T: ?Sized + 'static>(&'static T);

impl<T: ?Sized> Deref for Subject<T> {
    type Target = &'static T;

    fn deref(&self) -> &&'static T {
        &self.0
    }
}

/// The subject of an expression.
#[must_use]
pub fn subject<T: ?Sized + Sample>(_: &Expr<T>) -> Subject<T> {
    Subject(T::sample())
}

/// A type of which any value is at hand.
pub trait Sample {
    /// One.
    fn sample() -> &'static Self;
}

impl<T: KernelValue> Sample for T {
    fn sample() -> &'static Self {
        kept(T::sample_value)
    }
}

impl<T> Sample for [T] {
    fn sample() -> &'static Self {
        &[]
    }
}

/// One value of a type, made when it is first asked for. (A `Box` would do, but each call of a
/// method in a kernel would have the code that frees it, once for a panic and once without.)
pub(super) fn kept<T: Send + Sync + 'static>(make: fn() -> T) -> &'static T {
    type Kept = BTreeMap<TypeId, &'static (dyn Any + Send + Sync)>;
    static KEPT: Mutex<Kept> = Mutex::new(BTreeMap::new());
    // Nothing can have panicked while it was changed.
    let mut kept = KEPT.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(value) = kept.get(&TypeId::of::<T>())
        && let Some(value) = value.downcast_ref()
    {
        return value;
    }
    let value: &'static T = Box::leak(Box::new(make()));
    kept.insert(TypeId::of::<T>(), value);
    value
}

/// A constant: a value that does not depend on the kernel's arguments and threads.
#[track_caller]
pub fn lit<T: KernelValue>(value: T) -> Expr<T> {
    let location = Location::caller();
    Expr::from_raw(state::at(location, |s| value.literal(s)))
}

/// A constant that is computed. Where that panics (as an overflow does, in a build with debug
/// assertions) there is no constant, and a problem.
#[track_caller]
pub fn computed<T: KernelValue>(value: &dyn Fn() -> T) -> Expr<T> {
    let location = Location::caller();
    let value = std::panic::catch_unwind(std::panic::AssertUnwindSafe(value)).unwrap_or_else(|_| {
        state::at(location, |s| {
            s.refuse(
                location,
                "this constant cannot be computed: it overflows, divides by zero, or is out of bounds; \
                write `wrapping_add` and its like where that is meant",
            );
        });
        T::sample_value()
    });
    lit(value)
}

/// The expression's value at this point: a copy of the value in a place.
#[track_caller]
pub fn value<T: ?Sized>(expression: Expr<T>) -> Expr<T> {
    Expr::from_raw(value_raw(expression.raw, Location::caller()))
}

// The function behind a public one, which does its work, has no type parameters. So there is one of
// it, and not one for each type of an expression. These would be most of the time that a kernel
// adds to the compilation of its crate.

fn value_raw(raw: Raw, location: &'static Location<'static>) -> Raw {
    match raw {
        Raw::Place(..) | Raw::Aggregate(_) => state::at(location, |s| s.frame().copied(raw)),
        _ => raw,
    }
}

/// The position at which a method's arguments begin, for [`receiver`].
#[must_use]
pub fn before_arguments() -> usize {
    state::current(|s| s.frame().function.statements())
}

/// The receiver of a method whose arguments have been written since: the value in its place before,
/// if they change that. (Then it is not borrowed, so the method takes the value, which is evaluated
/// before the arguments.)
#[track_caller]
pub fn receiver<T: ?Sized>(receiver: Expr<T>, arguments: usize) -> Expr<T> {
    Expr::from_raw(receiver_raw(receiver.raw, arguments, Location::caller()))
}

fn receiver_raw(raw: Raw, arguments: usize, location: &'static Location<'static>) -> Raw {
    let Raw::Place(id, _) = raw else {
        return raw;
    };
    state::at(location, |s| {
        let (place, of) = s.frame().place_of(id).clone();
        if of.scalar().is_none() || !s.frame().is_live() {
            return raw;
        }
        let written = s.frame().function.take_back(arguments);
        let is_changed = changes(&s.frame().function, &written, place.root);
        let raw = if is_changed {
            Raw::Value(s.frame().function.load(place, of))
        } else {
            raw
        };
        s.frame().push_all(written);
        raw
    })
}

/// True if statements may change the place that begins there.
fn changes(function: &FunctionBuilder, block: &ir::Block, root: Root) -> bool {
    block.iter().any(|statement| match statement {
        Statement::Store { place, .. } => place.root == root,
        // A function that is handed a slice may write to it.
        Statement::Define {
            operation: Operation::Call(_, arguments),
            ..
        } => arguments.iter().any(|argument| {
            matches!(
                function.type_of(*argument),
                Type::Slice { mutable: true, .. }
            )
        }),
        Statement::If {
            then, otherwise, ..
        } => changes(function, then, root) || changes(function, otherwise, root),
        Statement::Loop { body, step, .. } => {
            changes(function, body, root) || changes(function, step, root)
        }
        Statement::Elements { body, .. } => changes(function, body, root),
        _ => false,
    })
}

/// `&expression`.
#[track_caller]
pub fn reference<T: ?Sized>(expression: Expr<T>) -> Expr<T> {
    Expr::from_raw(reference_raw(expression.raw, Location::caller()))
}

fn reference_raw(raw: Raw, location: &'static Location<'static>) -> Raw {
    match raw {
        Raw::Place(place, _) => Raw::Place(place, Mode::Reference),
        // A temporary lives in a variable of its own.
        Raw::Value(_) | Raw::Aggregate(_) => {
            state::at(location, |s| spilled(s, raw, Mode::Reference))
        }
        raw => raw,
    }
}

/// `*expression`.
pub fn dereference<T: ?Sized>(expression: Expr<T>) -> Expr<T> {
    Expr::from_raw(match expression.raw {
        Raw::Place(place, _) => Raw::Place(place, Mode::Itself),
        raw => raw,
    })
}

/// A reference to `[T; N]` or a shared array where one to `[T]` is expected, or to its own type.
pub trait Coerce<To: ?Sized> {
    /// True if all its elements are meant.
    #[doc(hidden)]
    const IS_SLICED: bool = false;
}
impl<T: ?Sized> Coerce<T> for T {}
impl<T, const N: usize> Coerce<[T]> for [T; N] {}
impl<T> Coerce<[T]> for SharedReadHandle<T> {
    const IS_SLICED: bool = true;
}

/// A reference as an argument.
#[track_caller]
pub fn coerced<From: ?Sized + Coerce<To>, To: ?Sized>(expression: Expr<From>) -> Expr<To> {
    let location = Location::caller();
    Expr::from_raw(match expression.raw {
        raw @ Raw::Shared(_) if From::IS_SLICED => {
            state::at(location, |s| place::whole_slice(s, raw, location))
        }
        raw => raw,
    })
}

/// A type that a reference may be to that branches give: no variable, element or field, of which
/// devices would have to know where it is.
#[diagnostic::on_unimplemented(
    message = "a reference in a kernel cannot depend on a condition",
    label = "choose an index, or write the branches with what is done to each"
)]
pub trait Chosen {}

/// A type that a variable may be made to refer to after it was made.
#[diagnostic::on_unimplemented(
    message = "a variable in a kernel cannot be made to refer to something else",
    label = "use an index, or a variable for each"
)]
pub trait Replaced {}

macro_rules! referred {
    ($([$($generics:tt)*] $type:ty;)*) => {$(
        impl<$($generics)*> Chosen for $type {}
        impl<$($generics)*> Replaced for $type {}
    )*};
}

referred! {
    [T] [T];
    [const D: usize] Vector<D>;
    [const D: usize] Extent<D>;
    [T, const D: usize] GlobalRefHandle<T, D>;
    [T] RawMutHandle<T>;
    [T] SharedReadHandle<T>;
}

/// A reference that a branch gives.
pub fn chosen<T: ?Sized + Chosen>(expression: Expr<T>) -> Expr<T> {
    expression
}

/// A reference that is assigned.
pub fn replaced<T: ?Sized + Replaced>(expression: Expr<T>) -> Expr<T> {
    expression
}

/// In a variable of its own, if it is a value whose elements or fields have to be places. Slices
/// and types without bits stay as they are.
pub(super) fn spilled(s: &mut state::State, raw: Raw, mode: Mode) -> Raw {
    let frame = s.frame();
    let Some(of) = frame.type_of(raw) else {
        return raw;
    };
    if matches!(
        of,
        quipu_kernel_ir::Type::Slice { .. } | quipu_kernel_ir::Type::Unit
    ) {
        return raw;
    }
    let Ok(value) = frame.value(raw) else {
        return raw;
    };
    let local = frame.function.local(None, value);
    frame.place(quipu_kernel_ir::Place::local(local), of, mode)
}

/// `let name = expression`.
#[track_caller]
pub fn bind<T: ?Sized>(name: &'static str, expression: Expr<T>) -> Expr<T> {
    Expr::from_raw(bind_raw(name, expression.raw, Location::caller()))
}

fn bind_raw(name: &'static str, raw: Raw, location: &'static Location<'static>) -> Raw {
    state::at(location, |s| {
        let raw = s.frame().copied(raw);
        if is_indexed(s, raw) && s.constant_values(raw).is_none() {
            return variable(s, name, raw, location);
        }
        match raw {
            Raw::Value(value) => {
                if s.frame().function.name_of(value).is_none() {
                    s.frame().function.name(value, name);
                }
                raw
            }
            _ => raw,
        }
    })
}

/// True if a value has elements, which only a place can have: then it is put into a variable once,
/// and not wherever it is indexed.
pub(super) fn is_indexed(s: &mut state::State, raw: Raw) -> bool {
    fn has_elements(s: &state::State, of: &quipu_kernel_ir::Type) -> bool {
        match of {
            quipu_kernel_ir::Type::Array(..) => true,
            quipu_kernel_ir::Type::Struct(id) => s
                .module
                .field_types(*id)
                .iter()
                .any(|field| has_elements(s, field)),
            _ => false,
        }
    }
    match raw {
        Raw::Value(_) | Raw::Aggregate(_) => {
            let of = s.frame().type_of(raw);
            of.is_some_and(|of| has_elements(s, &of))
        }
        _ => false,
    }
}

/// `let mut name = expression`.
#[track_caller]
pub fn bind_mut<T: ?Sized>(name: &'static str, expression: Expr<T>) -> Expr<T> {
    Expr::from_raw(bind_mut_raw(name, expression.raw, Location::caller()))
}

fn bind_mut_raw(name: &'static str, raw: Raw, location: &'static Location<'static>) -> Raw {
    state::at(location, |s| {
        let raw = s.frame().copied(raw);
        match raw {
            Raw::Value(_) | Raw::Aggregate(_) if s.frame().type_of(raw).is_some() => {
                variable(s, name, raw, location)
            }
            Raw::Aggregate(id) if s.frame().are_numbers(id) => variable(s, name, raw, location),
            _ => raw,
        }
    })
}

/// As [`bind_mut`], of a variable that may come to mean another shared array: it has a slice of all
/// elements.
#[track_caller]
pub fn bind_exchanged<T: ?Sized>(name: &'static str, expression: Expr<T>) -> Expr<T> {
    let location = Location::caller();
    match expression.raw {
        raw @ Raw::Shared(_) => Expr::from_raw(state::at(location, |s| {
            let slice = place::whole_slice(s, raw, location);
            variable(s, name, slice, location)
        })),
        raw => Expr::from_raw(bind_mut_raw(name, raw, location)),
    }
}

/// The form of a variable in a closure that moves: a copy of its own, of one that may change.
#[track_caller]
pub fn captured<T: ?Sized>(name: &'static str, expression: Expr<T>) -> Expr<T> {
    match expression.raw {
        Raw::Place(_, Mode::Itself) => bind_mut(name, expression),
        _ => expression,
    }
}

pub(super) fn variable(
    s: &mut state::State,
    name: &'static str,
    raw: Raw,
    location: &'static Location<'static>,
) -> Raw {
    let value = s.value(raw, location);
    let of = s.frame().function.type_of(value).clone();
    let local = s.frame().function.local(Some(name), value);
    s.frame()
        .place(quipu_kernel_ir::Place::local(local), of, Mode::Itself)
}

/// `let name;`, which is assigned to later, once.
#[track_caller]
pub fn declare<T: KernelValue>(name: &'static str) -> Expr<T> {
    Expr::from_raw(declare_raw(name, T::ir_type, Location::caller()))
}

fn declare_raw(
    name: &'static str,
    of: fn(&mut state::State) -> quipu_kernel_ir::Type,
    location: &'static Location<'static>,
) -> Raw {
    state::at(location, |s| {
        let of = of(s);
        let local = s.frame().function.uninitialised(Some(name), of.clone());
        s.frame()
            .place(quipu_kernel_ir::Place::local(local), of, Mode::Itself)
    })
}

/// The error for an operator of a type that is no number, and of which nothing else is known.
pub(super) const OPERATORS: &str = "this operator is not known of this type: write `#[device]` above the `impl` of \
    the operator's trait (of a derived `PartialEq`, above the struct and its `#[derive(PartialEq)]`), and, in a generic function, \
    that trait itself among the bounds of the type";

/// The error for an order of types that are no numbers.
pub(super) const ORDER: &str = "the order of this type is not known in kernels; write `#[device]` above a struct with \
    `#[derive(PartialEq, PartialOrd)]`, compare fields, or call a method with `#[device]`";

/// `left < right`, and the like.
#[track_caller]
pub fn ordered<A: KernelValue, B>(
    operation: BinaryOperation,
    left: Expr<A>,
    right: Expr<B>,
    _witness: Option<bool>,
) -> Expr<bool> {
    let location = Location::caller();
    // rustc says of the witness if their types differ.
    let right = Expr::<A>::from_raw(right.raw);
    if let Some(order) = A::__order_of(value(left), value(right)) {
        return super::order::holds(operation, order, location);
    }
    let is_number = |s: &mut state::State| A::ir_type(s).scalar().is_some();
    if !A::is_ordered_by_number() || !state::at(location, is_number) {
        state::at(location, |s| s.refuse(location, ORDER));
    }
    Expr::from_raw(binary_raw(operation, left.raw, right.raw, location))
}

/// An operation of two operands. Its type is that of the witness.
#[track_caller]
pub fn binary<A, B, R>(
    operation: BinaryOperation,
    left: Expr<A>,
    right: Expr<B>,
    _witness: Option<R>,
) -> Expr<R> {
    Expr::from_raw(binary_raw(
        operation,
        left.raw,
        right.raw,
        Location::caller(),
    ))
}

pub(super) fn binary_raw(
    operation: BinaryOperation,
    left: Raw,
    right: Raw,
    location: &'static Location<'static>,
) -> Raw {
    state::at(location, |s| {
        let (left, right) = (s.value(left, location), s.value(right, location));
        let frame = s.frame();
        let scalars = [left, right].map(|value| frame.function.type_of(value).scalar());
        if scalars.contains(&None) {
            s.refuse(location, OPERATORS);
        }
        Raw::Value(s.frame().function.binary(operation, left, right))
    })
}

/// An operation of one operand.
#[track_caller]
pub fn unary<A, R>(operation: UnaryOperation, operand: Expr<A>, _witness: Option<R>) -> Expr<R> {
    Expr::from_raw(unary_raw(operation, operand.raw, Location::caller()))
}

pub(super) fn unary_raw(
    operation: UnaryOperation,
    operand: Raw,
    location: &'static Location<'static>,
) -> Raw {
    state::at(location, |s| {
        let operand = s.value(operand, location);
        if s.frame().function.type_of(operand).scalar().is_none() {
            s.refuse(location, OPERATORS);
        }
        Raw::Value(s.frame().function.unary(operation, operand))
    })
}

/// A comparison of two operands of one type, which patterns are made of.
#[track_caller]
pub fn compare<T>(operation: BinaryOperation, left: Expr<T>, right: Expr<T>) -> Expr<bool> {
    binary(operation, left, right, None::<bool>)
}

/// `assert!(condition, message, values…)`.
#[track_caller]
pub fn assert(condition: Expr<bool>, message: &str, values: &[Raw]) {
    let location = Location::caller();
    state::at(location, |s| {
        let condition = s.value(condition.raw, location);
        assert_value(s, condition, (message, values), location);
    });
}

/// `assert_eq!(left, right)` and the like, without a message: it shows both sides, if they are
/// numbers.
#[track_caller]
pub fn assert_compared(condition: Expr<bool>, message: &str, sides: [Raw; 2]) {
    let location = Location::caller();
    state::at(location, |s| {
        let condition = s.value(condition.raw, location);
        let is_number = |s: &mut state::State, side| {
            let of = s.frame().type_of(side);
            of.is_some_and(|of| of.scalar().is_some())
        };
        if sides.iter().all(|side| is_number(s, *side)) {
            let message = format!("{message}, of {{}} and {{}}");
            assert_value(s, condition, (&message, &sides), location);
        } else {
            assert_value(s, condition, (message, &[]), location);
        }
    });
}

pub(super) fn assert_value(
    s: &mut state::State,
    condition: quipu_kernel_ir::Value,
    (message, values): (&str, &[Raw]),
    location: &'static Location<'static>,
) {
    let values: Vec<_> = values.iter().map(|raw| s.value(*raw, location)).collect();
    let is_number = |value: &_| s.frame().function.type_of(*value).scalar().is_some();
    if !values.iter().all(is_number) {
        s.refuse(location, PRINTED);
        return;
    }
    let f = &mut s.frame().function;
    let (values, shown) = values.into_iter().map(|value| f.word(value)).unzip();
    f.push(quipu_kernel_ir::Statement::Assert {
        condition,
        message: message.to_owned(),
        values,
        shown,
        location: Some(quipu_kernel_ir::Location {
            file: location.file(),
            line: location.line(),
        }),
    });
}

/// The error for types that are not printed, where only the source shows the type.
const PRINTED: &str = "kernels print numbers and `bool`s; print each field or element";

/// Types that `#[derive(KernelData)]` is above: natively, std's traits do with them as their
/// `impl`s say, and kernels know nothing of these.
pub trait Derived {}

/// Nothing does.
#[diagnostic::on_unimplemented(
    message = "kernels print numbers and `bool`s, and not `{Self}`",
    label = "print each field, or an enum `as u32`"
)]
pub trait Prints {}

/// A type that may be [`Derived`].
#[derive(Debug)]
pub struct Own<T: ?Sized>(PhantomData<fn(&T)>);

impl<T: ?Sized> Own<T> {
    /// The marker for the type of an expression.
    #[must_use]
    pub fn of(_: Expr<T>) -> Self {
        Self(PhantomData)
    }
}

/// Methods that refuse types that are [`Derived`], and no others: `(&Own::of(x)).__prints()` is
/// found here for the first, and a reference further away for all that are not known to be.
pub trait RefusedOfDerived<T> {
    #[doc(hidden)]
    fn __prints(&self)
    where
        T: Prints;
}

impl<T: Derived> RefusedOfDerived<T> for Own<T> {
    fn __prints(&self)
    where
        T: Prints,
    {
    }
}

/// As [`RefusedOfDerived`], of all others.
pub trait AcceptedOfOthers {
    #[doc(hidden)]
    fn __prints(&self);
}

impl<T: ?Sized> AcceptedOfOthers for &Own<T> {
    fn __prints(&self) {}
}

/// `print!(format, values…)`.
#[track_caller]
pub fn print(format: &str, values: &[Raw]) {
    let location = Location::caller();
    state::at(location, |s| {
        let mut values: Vec<_> = values.iter().map(|raw| s.value(*raw, location)).collect();
        let f = &mut s.frame().function;
        if values
            .iter()
            .any(|value| f.type_of(*value).scalar().is_none())
        {
            s.refuse(location, PRINTED);
            return;
        }
        for value in &mut values {
            if f.type_of(*value).scalar().is_some_and(Scalar::is_half) {
                *value = f.cast(*value, Scalar::F32);
            }
        }
        s.frame().function.push(quipu_kernel_ir::Statement::Print {
            format: format.to_owned(),
            values,
            location: Some(quipu_kernel_ir::Location {
                file: location.file(),
                line: location.line(),
            }),
        });
    });
}

/// `expression as R`.
#[track_caller]
pub fn cast<A, R: KernelValue>(operand: Expr<A>, _witness: Option<R>) -> Expr<R> {
    Expr::from_raw(cast_raw(operand.raw, R::ir_type, Location::caller()))
}

fn cast_raw(
    operand: Raw,
    to: fn(&mut state::State) -> quipu_kernel_ir::Type,
    location: &'static Location<'static>,
) -> Raw {
    state::at(location, |s| {
        let operand = s.value(operand, location);
        let to = to(s).scalar();
        let from = s.frame().function.type_of(operand).scalar();
        Raw::Value(match (from, to) {
            (Some(from), Some(to)) if from == to => operand,
            (Some(_), Some(to)) => s.frame().function.cast(operand, to),
            // rustc has seen that there is no such `as`.
            _ => operand,
        })
    })
}

/// The bits of a constant scalar.
pub(super) fn scalar(s: &mut state::State, scalar: Scalar, bits: u64) -> Raw {
    Raw::Value(s.frame().literal(scalar, bits))
}
