//! The traits that sorts are generic over: keys that have digits, and orders.

use quipu::kernels::{KernelData, Number, device};

/// A key that is sorted by its digits: every integer and float of the kernel language, `usize` and
/// `isize` excepted.
///
/// Floats are in the order of [`f32::total_cmp`]: NaN with the sign bit, negative infinity,
/// negative numbers, -0.0, 0.0, positive numbers, infinity, NaN. It is that of numbers, and says
/// where the others are.
///
/// A sort asks for the digits of a key twice, and writes to the places that they give. So no other
/// type is one:
///
/// ```compile_fail,E0277
/// use quipu::prelude::*;
///
/// #[derive(Clone, Copy)]
/// struct Key(u32);
///
/// #[device]
/// impl quipu_algorithms::RadixKey for Key {
///     fn ordered(self) -> u64 {
///         self.0 as u64
///     }
/// }
/// ```
#[device]
pub trait RadixKey: Copy + sealed::Sealed {
    /// An unsigned integer in its order: of two keys the smaller one has the smaller integer, and
    /// only the same bits have the same. Of as many bits as the key has, the others 0.
    fn ordered(self) -> u64;
}

mod sealed {
    pub trait Sealed {}
}

macro_rules! keys {
    ($($unsigned:ident)*; $($signed:ident as $bits:ident)*; $($float:ident as $float_bits:ident)*) => {
        $(impl sealed::Sealed for $unsigned {})*
        $(impl sealed::Sealed for $signed {})*
        $(impl sealed::Sealed for $float {})*
        $(
            #[device]
            impl RadixKey for $unsigned {
                fn ordered(self) -> u64 {
                    self as u64
                }
            }
        )*
        $(
            #[device]
            impl RadixKey for $signed {
                fn ordered(self) -> u64 {
                    // The sign's bit is the other way round.
                    (self as $bits ^ $signed::MIN as $bits) as u64
                }
            }
        )*
        $(
            #[device]
            impl RadixKey for $float {
                fn ordered(self) -> u64 {
                    // A sign and a magnitude: of negative numbers the greater magnitude is the
                    // smaller.
                    let bits = self.to_bits();
                    let sign = 1 << ($float_bits::BITS - 1);
                    let flipped = if bits < sign { bits | sign } else { !bits };
                    flipped as u64
                }
            }
        )*
    };
}

keys!(u8 u16 u32 u64; i8 as u8 i16 as u16 i32 as u32 i64 as u64; f32 as u32 f64 as u64);

/// An order of keys, with its parameters in its fields: see [`merge_sort`](crate::merge_sort).
///
/// ```
/// use quipu::prelude::*;
/// use quipu_algorithms::Order;
///
/// /// By distance from a point.
/// #[derive(Clone, Copy, KernelData)]
/// #[repr(C)]
/// struct Nearest {
///     point: f32,
/// }
///
/// #[device]
/// impl Order<f32> for Nearest {
///     fn precedes(self, left: f32, right: f32) -> bool {
///         (left - self.point).abs() < (right - self.point).abs()
///     }
/// }
/// ```
#[device]
pub trait Order<K>: Copy {
    /// True if `left` has to be before `right`. Of two that are equal, neither: a strict weak
    /// order, as `<` of integers.
    fn precedes(self, left: K, right: K) -> bool;
}

macro_rules! orders {
    ($($(#[$documentation:meta])* $name:ident: |$left:ident, $right:ident| $precedes:expr;)*) => {$(
        $(#[$documentation])*
        #[derive(Debug, Clone, Copy, Default, KernelData)]
        #[repr(C)]
        pub struct $name {
            // Devices' languages have no structs of nothing.
            nothing: u32,
        }

        #[device]
        impl<K: Number + PartialOrd + KernelData> Order<K> for $name {
            fn precedes(self, $left: K, $right: K) -> bool {
                $precedes
            }
        }
    )*};
}

orders! {
    /// [`Order`]: `<`, the smallest first. Without NaN, of which it is no order.
    Ascending: |left, right| left < right;
    /// [`Order`]: `>`, the greatest first. Without NaN, of which it is no order.
    Descending: |left, right| left > right;
}
