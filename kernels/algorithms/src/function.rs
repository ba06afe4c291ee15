//! The traits that algorithms are generic over: element types, functions, operators.

use quipu::Element;
use quipu::kernels::{KernelData, Number, device};

/// An element that buffers hold and kernels compute with. Every type that can be both is one.
pub trait Item: Element + KernelData {}

impl<T: Element + KernelData> Item for T {}

/// A function of one number, with its parameters in its fields.
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
    /// Its value for `x`.
    fn apply(self, x: T) -> U;
}

/// A function of two numbers: see [`Function`].
#[device]
pub trait Function2<T, U, V>: Copy {
    /// Its value for `x` and `y`.
    fn apply(self, x: T, y: U) -> V;
}

/// A closure as a [`Function`] or [`Function2`], for an algorithm that is called at one place.
/// Before the closure stand the variables that it takes from around it, with their types, as at
/// [`kernel_closure!`](quipu::prelude::kernel_closure); the types of its parameters and of its
/// result are written, too.
///
/// ```
/// use quipu::prelude::*;
/// use quipu_algorithms::{function, transform, zip};
///
/// # fn main() -> quipu::Result<()> {
/// let context = Platform::new()?.context()?;
/// let queue = context.queue(&context.fastest())?;
/// let x = context.buffer(&[1_u32, 2, 3])?;
/// let mut y = context.allocate(3)?;
/// let factor = 0.5;
/// transform(&queue, function!([factor: f32] |x: u32| -> f32 { factor * x as f32 }), &x, &mut y)?;
/// assert_eq!(queue.read(&y)?.wait()?, [0.5, 1.0, 1.5]);
///
/// let mut larger = context.allocate(3)?;
/// zip(&queue, function!([] |x: u32, y: f32| -> f32 { y.max(x as f32 - 1.0) }), &x, &y, &mut larger)?;
/// assert_eq!(queue.read(&larger)?.wait()?, [0.5, 1.0, 2.0]);
/// # Ok(()) }
/// ```
///
/// It is a function of the kernel language, and its arguments are copied:
///
/// ```compile_fail,E0277
/// # use quipu::prelude::*;
/// # use quipu_algorithms::function;
/// let names = vec![1_u32];
/// let first = function!([names: Vec<u32>] |x: u32| -> u32 { x });
/// ```
#[macro_export]
macro_rules! function {
    ([$($name:ident: $of:ty),* $(,)?] |$x:ident: $from:ty $(,)?| -> $to:ty $body:block) => {
        $crate::function!(
            [$($name: $of),*]
            impl $crate::Function<$from, $to>,
            ($x: $from) -> $to $body
        )
    };
    ([$($name:ident: $of:ty),* $(,)?] |$x:ident: $first:ty, $y:ident: $second:ty $(,)?| -> $to:ty $body:block) => {
        $crate::function!(
            [$($name: $of),*]
            impl $crate::Function2<$first, $second, $to>,
            ($x: $first, $y: $second) -> $to $body
        )
    };
    ([$($name:ident: $of:ty),*] impl $trait:path, ($($x:ident: $from:ty),*) -> $to:ty $body:block) => {{
        #[derive(Clone, Copy, ::quipu::prelude::KernelData)]
        #[repr(C)]
        struct Closure {
            $($name: $of,)*
        }

        // The braces are the closure's.
        #[allow(unused_braces)]
        #[::quipu::prelude::device]
        impl $trait for Closure {
            fn apply(self, $($x: $from),*) -> $to {
                $(let $name = self.$name;)*
                $body
            }
        }

        Closure { $($name,)* }
    }};
}

/// An associative operator with an identity: it does not matter which neighbours are combined
/// first.
///
/// Sums and products of floats are associative but for rounding, and count as such.
#[device]
pub trait Operator<T> {
    /// The neutral element: `combine(identity(), x)` is `x`.
    fn identity() -> T;
    /// Two neighbours in one, the left one first.
    fn combine(left: T, right: T) -> T;
}

/// A number that sums of products are made of: see [`matrix_product`](crate::matrix_product).
#[device]
pub trait MultiplyAdd: Number {
    /// `self * factor + summand`: of floats rounded once, of integers modulo two to the power of
    /// the width.
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
    /// [`Operator`]: the smaller of two; of a number and NaN the number. Of nothing the greatest
    /// finite number.
    Minimum: MAX, |left, right| left.lesser(right);
    /// [`Operator`]: the greater of two; of a number and NaN the number. Of nothing the smallest
    /// finite number.
    Maximum: MIN, |left, right| left.greater(right);
}
