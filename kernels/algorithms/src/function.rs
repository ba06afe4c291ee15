//! What algorithms are generic over: element types, functions, operators.

use quipu::Element;
use quipu::kernels::{KernelData, Number, device};

/// What buffers hold and kernels compute with. Every type that can be both is one.
pub trait Item: Element + KernelData {}

impl<T: Element + KernelData> Item for T {}

/// A function of one number, with what it needs to know in its fields.
///
/// ```
/// use quipu::prelude::*;
/// use quipu_algorithms::Function;
///
/// #[derive(Clone, Copy, KernelData)]
/// #[repr(C)]
/// struct Scale {
///     factor: f32,
/// }
///
/// #[device]
/// impl Function<f32, f32> for Scale {
///     fn apply(self, x: f32) -> f32 {
///         self.factor * x
///     }
/// }
/// ```
#[device]
pub trait Function<T, U>: Copy {
    /// What it gives of `x`.
    fn apply(self, x: T) -> U;
}

/// A function of two numbers: see [`Function`].
#[device]
pub trait Function2<T, U, V>: Copy {
    /// What it gives of `x` and `y`.
    fn apply(self, x: T, y: U) -> V;
}

/// An associative operator with an identity: it does not matter which neighbours are combined first.
///
/// Sums and products of floats are associative but for rounding, and count as such.
#[device]
pub trait Operator<T> {
    /// What changes nothing: `combine(identity(), x)` is `x`.
    fn identity() -> T;
    /// Two neighbours in one, the left one first.
    fn combine(left: T, right: T) -> T;
}

/// A number that sums of products are made of: see [`matrix_product`](crate::matrix_product).
#[device]
pub trait MultiplyAdd: Number {
    /// `self * factor + summand`: of floats rounded once, of integers modulo two to the power of the width.
    fn multiply_add(self, factor: Self, summand: Self) -> Self;
}

macro_rules! multiply_add {
    ($($integer:ident)*; $($float:ident)*) => {
        $(
            #[device]
            impl MultiplyAdd for $integer {
                fn multiply_add(self, factor: Self, summand: Self) -> Self {
                    self.wrapping_mul(factor).wrapping_add(summand)
                }
            }
        )*
        $(
            #[device]
            impl MultiplyAdd for $float {
                fn multiply_add(self, factor: Self, summand: Self) -> Self {
                    self.mul_add(factor, summand)
                }
            }
        )*
    };
}

multiply_add!(u8 u16 u32 u64 i8 i16 i32 i64; f32 f64);

macro_rules! operators {
    ($($(#[$documentation:meta])* $name:ident: $identity:ident, |$left:ident, $right:ident| $combine:expr;)*) => {$(
        $(#[$documentation])*
        #[derive(Debug, Clone, Copy, KernelData)]
        #[repr(C)]
        pub struct $name(());

        #[device]
        impl<T: Number + KernelData> Operator<T> for $name {
            fn identity() -> T {
                T::$identity
            }
            fn combine($left: T, $right: T) -> T {
                $combine
            }
        }
    )*};
}

operators! {
    /// [`Operator`]: `+`.
    Sum: ZERO, |left, right| left + right;
    /// [`Operator`]: `*`.
    Product: ONE, |left, right| left * right;
    /// [`Operator`]: the smaller of two; of a number and NaN the number. Of nothing the greatest finite number.
    Minimum: MAX, |left, right| left.lesser(right);
    /// [`Operator`]: the greater of two; of a number and NaN the number. Of nothing the smallest finite number.
    Maximum: MIN, |left, right| left.greater(right);
}
