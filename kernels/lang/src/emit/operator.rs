//! Operators: of numbers, and of users' types whose `impl` of the operator's trait has `#[device]`.
//!
//! For `a + b` the macro writes `(&Operands::<Add, _, _>::new(a, b)).__operate(witness)`. There are
//! two methods of that name. The first is found for types that [`Operates`] knows. The other, a
//! reference further away, is for the rest: type parameters of which no more is known than a trait
//! of numbers.

use std::marker::PhantomData;
use std::panic::Location;

use quipu_kernel_ir::{BinaryOperation, UnaryOperation};

use super::data::KernelValue;
use super::expression::{self, Expr};
use super::place;
use super::state::{self, Mode, Raw};
use crate::number::{bf16, f16};

/// An operator of two operands, by the name of its trait.
pub trait Operator {
    /// Its operation on numbers.
    const OPERATION: BinaryOperation;
    /// True if it changes its left operand.
    const ASSIGNS: bool;
}

/// An operator of one operand, by the name of its trait.
pub trait PrefixOperator {
    /// Its operation on numbers.
    const OPERATION: UnaryOperation;
}

macro_rules! operators {
    ($($group:ident, $about:literal: $($name:ident = $number:literal $operation:ident $assigns:literal),*;)*) => {$(
        #[doc = $about]
        ///
        /// They are of one type constructor, so that a number's type has all of them in one `impl`.
        #[derive(Debug)]
        pub struct $group<const NUMBER: u8>;
        impl<const NUMBER: u8> Operator for $group<NUMBER> {
            const OPERATION: BinaryOperation = match NUMBER {
                $($number => BinaryOperation::$operation,)*
                _ => panic!("there is no such operator"),
            };
            const ASSIGNS: bool = match NUMBER {
                $($number => $assigns,)*
                _ => panic!("there is no such operator"),
            };
        }
        $(
            #[doc = concat!("`", stringify!($name), "`.")]
            pub type $name = $group<$number>;
        )*
    )*};
}

operators! {
    Arithmetic, "Those of integers and floats.":
        Add = 0 Add false, Sub = 1 Subtract false, Mul = 2 Multiply false, Div = 3 Divide false,
        Rem = 4 Remainder false, AddAssign = 5 Add true, SubAssign = 6 Subtract true, MulAssign = 7 Multiply true,
        DivAssign = 8 Divide true, RemAssign = 9 Remainder true;
    Bitwise, "Those of bits.":
        BitAnd = 0 And false, BitOr = 1 Or false, BitXor = 2 Xor false,
        BitAndAssign = 3 And true, BitOrAssign = 4 Or true, BitXorAssign = 5 Xor true;
    Shift, "Those of bits, by an integer of any type.":
        Shl = 0 ShiftLeft false, Shr = 1 ShiftRight false,
        ShlAssign = 2 ShiftLeft true, ShrAssign = 3 ShiftRight true;
    Equality, "Those of `PartialEq`.":
        Equal = 0 Equal false, NotEqual = 1 NotEqual false;
}

/// `Neg`.
#[derive(Debug)]
pub struct Neg;
/// `Not`.
#[derive(Debug)]
pub struct Not;

impl PrefixOperator for Neg {
    const OPERATION: UnaryOperation = UnaryOperation::Negate;
}
impl PrefixOperator for Not {
    const OPERATION: UnaryOperation = UnaryOperation::Not;
}

/// The work of an operator on two operands where a source is made: numbers, and types with
/// `#[device]` above the `impl` of the operator's trait.
#[diagnostic::on_unimplemented(
    message = "kernels on other devices do not know this operator of `{Self}`",
    note = "write `#[device]` above the `impl` of the operator's trait (`Add`, `AddAssign`, …) for `{Self}`"
)]
pub trait Operates<O, B = Self> {
    /// As the trait's of the same name.
    type Output;
    #[doc(hidden)]
    fn operate(this: Expr<Self>, other: Expr<B>) -> Expr<Self::Output>;
}

/// As [`Operates`], of one operand.
#[diagnostic::on_unimplemented(
    message = "kernels on other devices do not know this operator of `{Self}`",
    note = "write `#[device]` above the `impl` of the operator's trait (`Neg`, `Not`) for `{Self}`"
)]
pub trait OperatesAlone<O> {
    /// As the trait's of the same name.
    type Output;
    #[doc(hidden)]
    fn operate(this: Expr<Self>) -> Expr<Self::Output>;
}

/// Types that hardware has operators of.
pub trait Primitive {}

macro_rules! primitives {
    ($($group:ident: $($type:ty),*;)*) => {$($(
        impl<const N: u8> Operates<$group<N>> for $type {
            type Output = Self;

            #[track_caller]
            fn operate(this: Expr<Self>, other: Expr<Self>) -> Expr<Self> {
                Expr::from_raw(of_numbers::<$group<N>>(this.raw(), other.raw(), Location::caller()))
            }
        }
    )*)*};
}

primitives! {
    Arithmetic: i8, i16, i32, i64, isize, u8, u16, u32, u64, usize, f16, bf16, f32, f64;
    Bitwise: i8, i16, i32, i64, isize, u8, u16, u32, u64, usize, bool;
}

macro_rules! shifts {
    ($($type:ty),*) => {$(
        impl Primitive for $type {}
        impl<const N: u8, B: Primitive> Operates<Shift<N>, B> for $type {
            type Output = Self;

            #[track_caller]
            fn operate(this: Expr<Self>, other: Expr<B>) -> Expr<Self> {
                Expr::from_raw(of_numbers::<Shift<N>>(this.raw(), other.raw(), Location::caller()))
            }
        }
        impl OperatesAlone<Not> for $type {
            type Output = Self;

            #[track_caller]
            fn operate(this: Expr<Self>) -> Expr<Self> {
                expression::unary(UnaryOperation::Not, this, None)
            }
        }
    )*};
}

shifts!(i8, i16, i32, i64, isize, u8, u16, u32, u64, usize);

macro_rules! prefixes {
    ($($name:ident: $($type:ty),*;)*) => {$($(
        impl OperatesAlone<$name> for $type {
            type Output = Self;

            #[track_caller]
            fn operate(this: Expr<Self>) -> Expr<Self> {
                expression::unary($name::OPERATION, this, None)
            }
        }
    )*)*};
}

prefixes! {
    Neg: i8, i16, i32, i64, isize, f16, bf16, f32, f64;
    Not: bool;
}

macro_rules! equality {
    ($($type:ty),*) => {$(
        impl<const N: u8> Operates<Equality<N>> for $type {
            type Output = bool;

            #[track_caller]
            fn operate(this: Expr<Self>, other: Expr<Self>) -> Expr<bool> {
                Expr::from_raw(of_numbers::<Equality<N>>(this.raw(), other.raw(), Location::caller()))
            }
        }
    )*};
}

equality!(
    i8, i16, i32, i64, isize, u8, u16, u32, u64, usize, f16, bf16, f32, f64, bool
);

/// Elements of an array that are compared at most: one by one, each with its own code.
const MOST_COMPARED: usize = 64;

/// True if the parts of two values are equal, each found out by itself.
#[track_caller]
fn equality_of<const N: u8>(parts: impl IntoIterator<Item = Expr<bool>>) -> Expr<bool> {
    let are_equal = N == 0;
    let (all, none) = match are_equal {
        true => (BinaryOperation::And, true),
        false => (BinaryOperation::Or, false),
    };
    let together = |all_before, part| expression::binary(all, all_before, part, None);
    let parts = parts.into_iter().reduce(together);
    parts.unwrap_or_else(|| expression::lit(none))
}

impl<const N: u8, T, const LENGTH: usize> Operates<Equality<N>> for [T; LENGTH]
where
    T: Operates<Equality<N>, Output = bool>,
{
    type Output = bool;

    #[track_caller]
    fn operate(this: Expr<Self>, other: Expr<Self>) -> Expr<bool> {
        if LENGTH > MOST_COMPARED {
            let location = Location::caller();
            let text = "in kernels, arrays of up to 64 elements are compared with `==`; compare the elements of longer ones in a loop";
            state::at(location, |s| s.refuse(location, text));
        }
        let of = |all: Expr<Self>, at| place::part(all, at, None::<&T>);
        let compared =
            (0..LENGTH.min(MOST_COMPARED)).map(|at| T::operate(of(this, at), of(other, at)));
        equality_of::<N>(compared)
    }
}

macro_rules! tuples_equality {
    ($(($($name:ident $position:literal),+);)*) => {$(
        impl<const N: u8, $($name),+> Operates<Equality<N>> for ($($name,)+)
        where
            $($name: Operates<Equality<N>, Output = bool>),+
        {
            type Output = bool;

            #[track_caller]
            fn operate(this: Expr<Self>, other: Expr<Self>) -> Expr<bool> {
                equality_of::<N>([$({
                    let of = |all: Expr<Self>| place::part(all, $position, None::<&$name>);
                    $name::operate(of(this), of(other))
                }),+])
            }
        }
    )*};
}

tuples_equality! {
    (A 0); (A 0, B 1); (A 0, B 1, C 2); (A 0, B 1, C 2, D 3); (A 0, B 1, C 2, D 3, E 4);
    (A 0, B 1, C 2, D 3, E 4, F 5);
}

/// An operator of numbers, or of a type that is refused because it is none.
fn of_numbers<O: Operator>(left: Raw, right: Raw, location: &'static Location<'static>) -> Raw {
    if O::ASSIGNS {
        place::compound_at(O::OPERATION, left, right, location);
        Raw::Nothing
    } else {
        expression::binary_raw(O::OPERATION, left, right, location)
    }
}

/// Refuses an operator of a user's type: only its `impl` says its meaning, also where the value is
/// a number on devices, as an enum's is. The equality of an enum that is that of its numbers is an
/// exception.
fn refuse_if(is_derived: bool, location: &'static Location<'static>) {
    if is_derived {
        state::at(location, |s| s.refuse(location, expression::OPERATORS));
    }
}

/// The operands of an operator.
pub struct Operands<O, A: ?Sized, B: ?Sized> {
    left: Expr<A>,
    right: Expr<B>,
    operator: PhantomData<O>,
}

impl<O, A: ?Sized, B: ?Sized> std::fmt::Debug for Operands<O, A, B> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Operands({:?}, {:?})", self.left, self.right)
    }
}

impl<O, A: ?Sized, B: ?Sized> Operands<O, A, B> {
    /// Both of them, as they are now.
    #[track_caller]
    pub fn new(left: Expr<A>, right: Expr<B>) -> Self {
        let left = expression::value(left);
        Self::assigning(left, right)
    }

    /// A place, and the value on the right as it is now.
    #[track_caller]
    pub fn assigning(left: Expr<A>, right: Expr<B>) -> Self {
        Self {
            left,
            right: expression::value(right),
            operator: PhantomData,
        }
    }
}

/// An operator of types that are known to have it.
pub trait Operated<O, A, B> {
    #[doc(hidden)]
    fn __operate<R>(&self, witness: Option<R>) -> Expr<R>;
}

impl<O: Operator, A: Operates<O, B>, B> Operated<O, A, B> for Operands<O, A, B> {
    #[track_caller]
    fn __operate<R>(&self, _witness: Option<R>) -> Expr<R> {
        let left = match self.left.raw() {
            Raw::Place(place, _) if O::ASSIGNS => Raw::Place(place, Mode::Reference),
            raw => raw,
        };
        Expr::from_raw(A::operate(Expr::from_raw(left), self.right).raw())
    }
}

/// An operator of types of which it is not known.
pub trait OperatedAsNumbers {
    #[doc(hidden)]
    fn __operate<R>(&self, witness: Option<R>) -> Expr<R>;
}

impl<O: Operator, A: KernelValue, B: ?Sized> OperatedAsNumbers for &Operands<O, A, B> {
    #[track_caller]
    fn __operate<R>(&self, _witness: Option<R>) -> Expr<R> {
        let is_equality = matches!(
            O::OPERATION,
            BinaryOperation::Equal | BinaryOperation::NotEqual
        );
        refuse_if(
            A::IS_DERIVED && !(is_equality && A::is_equal_by_number()),
            Location::caller(),
        );
        let (left, right) = (self.left.raw(), self.right.raw());
        Expr::from_raw(of_numbers::<O>(left, right, Location::caller()))
    }
}

/// The operand of an operator.
pub struct Operand<O, A: ?Sized> {
    operand: Expr<A>,
    operator: PhantomData<O>,
}

impl<O, A: ?Sized> std::fmt::Debug for Operand<O, A> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Operand({:?})", self.operand)
    }
}

impl<O, A: ?Sized> Operand<O, A> {
    /// It, as it is now.
    #[track_caller]
    pub fn new(operand: Expr<A>) -> Self {
        Self {
            operand: expression::value(operand),
            operator: PhantomData,
        }
    }
}

/// An operator of a type that is known to have it.
pub trait OperatedAlone<O, A> {
    #[doc(hidden)]
    fn __operate<R>(&self, witness: Option<R>) -> Expr<R>;
}

impl<O: PrefixOperator, A: OperatesAlone<O>> OperatedAlone<O, A> for Operand<O, A> {
    #[track_caller]
    fn __operate<R>(&self, _witness: Option<R>) -> Expr<R> {
        Expr::from_raw(A::operate(self.operand).raw())
    }
}

/// An operator of a type of which it is not known.
pub trait OperatedAloneAsNumber {
    #[doc(hidden)]
    fn __operate<R>(&self, witness: Option<R>) -> Expr<R>;
}

impl<O: PrefixOperator, A: KernelValue> OperatedAloneAsNumber for &Operand<O, A> {
    #[track_caller]
    fn __operate<R>(&self, _witness: Option<R>) -> Expr<R> {
        refuse_if(A::IS_DERIVED, Location::caller());
        let operand = self.operand.raw();
        Expr::from_raw(expression::unary_raw(
            O::OPERATION,
            operand,
            Location::caller(),
        ))
    }
}
