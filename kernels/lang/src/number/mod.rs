//! Numbers as generic kernels know them.
//!
//! A kernel or device function that is generic over its element type names the traits of its
//! operations in a bound. Everything in the traits has the name and the meaning that std gives it
//! for the primitive types, so the same text works with `f32` written out.
//!
//! | bound | has | types |
//! |---|---|---|
//! | [`Scalar`] | copies, comparisons | all below, and `bool` |
//! | [`Number`] | `+ - * / %`, [`cast`](Number::cast), `lesser`, `greater` | integers and floats |
//! | [`Signed`] | `-x`, `abs`, `signum` | signed integers, floats |
//! | [`Integer`] | bits, shifts, rotations, wrapping arithmetic | `i8` to `i64`, `u8` to `u64`, `isize`, `usize` |
//! | [`Float`] | mathematical functions and constants | `f32`, `f64`, [`f16`], [`bf16`] |
//!
//! [`Complex`] numbers are a pair of floats with the same operators.
//!
//! ```
//! use quipu_kernel::{Float, Integer, Number};
//!
//! fn horner<T: Float>(x: T) -> T {
//!     (T::cast_from(0.5) * x + T::ONE) * x + T::PI
//! }
//! fn parity<T: Integer>(x: T) -> u32 {
//!     x.count_ones() % 2
//! }
//! assert_eq!(horner(2.0_f64), 4.0 + std::f64::consts::PI);
//! assert_eq!(parity(7_u8), 1);
//! assert_eq!(300.7_f32.cast::<u8>(), 255); // what `as` does
//! ```
//!
//! The traits are open: a user implements them for a type of their own (dual numbers, fixed point),
//! and runs every generic kernel with it, natively: printed kernels know the methods of the numbers
//! that there are.

mod complex;
mod float;
mod half;
mod integer;

pub use ::half::{bf16, f16};
pub use complex::Complex;
pub use float::Float;
pub use integer::Integer;

use std::fmt::Debug;
use std::ops::{
    Add, AddAssign, Div, DivAssign, Mul, MulAssign, Neg, Rem, RemAssign, Sub, SubAssign,
};

use bytemuck::{NoUninit, Zeroable};

/// Plain data of at most eight bytes that threads can compute with: a number, or a truth value.
pub trait Scalar:
    crate::ValueParameter
    + NoUninit
    + Zeroable
    + Default
    + PartialEq
    + PartialOrd
    + Debug
    + Send
    + Sync
    + 'static
{
    /// Its type in the intermediate representation; `None` for one that runs natively only.
    const TYPE: Option<quipu_kernel_ir::Scalar>;

    /// Its bits, in the low ones of a word: how it travels between the threads of a warp.
    fn to_word(self) -> u64;

    /// The number whose bits [`to_word`](Self::to_word) gave.
    fn from_word(word: u64) -> Self;
}

/// A form that every number can have without loss, for conversions between any two types.
#[derive(Debug, Clone, Copy)]
pub enum Wide {
    /// A signed integer.
    Signed(i64),
    /// An unsigned integer.
    Unsigned(u64),
    /// A float.
    Float(f64),
}

/// A [`Scalar`] that can be counted with: an integer or a float.
///
/// Integers wrap in release builds and in printed code, and panic on overflow where debug
/// assertions are on.
pub trait Number:
    Scalar
    + Add<Output = Self>
    + Sub<Output = Self>
    + Mul<Output = Self>
    + Div<Output = Self>
    + Rem<Output = Self>
    + AddAssign
    + SubAssign
    + MulAssign
    + DivAssign
    + RemAssign
{
    /// 0.
    const ZERO: Self;
    /// 1.
    const ONE: Self;
    /// The smallest, of floats the smallest that is finite.
    const MIN: Self;
    /// The greatest, of floats the greatest that is finite.
    const MAX: Self;

    /// The same number in a type that holds every number of this one.
    fn to_wide(self) -> Wide;

    /// The number as `as` would convert it: wrapped, saturated or rounded.
    fn from_wide(wide: Wide) -> Self;

    /// This number as another type, converted as `as` does.
    ///
    /// ```
    /// # use quipu_kernel::Number;
    /// assert_eq!((-1_i32).cast::<u8>(), 255);
    /// assert_eq!((-1.5_f32).cast::<u8>(), 0);
    /// assert_eq!(f64::NAN.cast::<i64>(), 0);
    /// ```
    #[inline(always)]
    fn cast<U: Number>(self) -> U {
        U::from_wide(self.to_wide())
    }

    /// A number of another type as this one, converted as `as` does.
    #[inline(always)]
    fn cast_from<U: Number>(number: U) -> Self {
        number.cast()
    }

    /// The smaller of two; of a number and NaN the number.
    ///
    /// `min` of floats and integers for where a type may be either.
    fn lesser(self, other: Self) -> Self;

    /// The greater of two; of a number and NaN the number.
    fn greater(self, other: Self) -> Self;
}

/// A [`Number`] that may be negative.
pub trait Signed: Number + Neg<Output = Self> {
    /// Without its sign.
    fn abs(self) -> Self;

    /// 1 or -1, of its sign; 0 of the integer 0. Of a NaN a NaN.
    fn signum(self) -> Self;
}

/// `bool` is one byte, 0 or 1.
impl Scalar for bool {
    const TYPE: Option<quipu_kernel_ir::Scalar> = Some(quipu_kernel_ir::Scalar::Bool);

    #[inline(always)]
    fn to_word(self) -> u64 {
        u64::from(self)
    }

    #[inline(always)]
    fn from_word(word: u64) -> Self {
        word != 0
    }
}
