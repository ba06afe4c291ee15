//! Integers: bits, shifts, rotations, and arithmetic with a defined result at its ends.

use std::hash::Hash;
use std::ops::{
    BitAnd, BitAndAssign, BitOr, BitOrAssign, BitXor, BitXorAssign, Not, Shl, ShlAssign, Shr,
    ShrAssign,
};

use super::{Number, Scalar, Signed, Wide};

/// An integer of 8 to 64 bits.
///
/// `min`, `max` and `clamp` are those of [`Ord`].
pub trait Integer:
    Number
    + Ord
    + Hash
    + Not<Output = Self>
    + BitAnd<Output = Self>
    + BitOr<Output = Self>
    + BitXor<Output = Self>
    + BitAndAssign
    + BitOrAssign
    + BitXorAssign
    + Shl<u32, Output = Self>
    + Shr<u32, Output = Self>
    + ShlAssign<u32>
    + ShrAssign<u32>
{
    /// The number of its bits.
    const BITS: u32;

    /// The number of bits that are 1: *popcount*.
    fn count_ones(self) -> u32;
    /// The number of bits that are 0.
    fn count_zeros(self) -> u32;
    /// The number of bits that are 0 above the highest 1: *clz*. All of them, of 0.
    fn leading_zeros(self) -> u32;
    /// The number of bits that are 0 below the lowest 1: *ctz*. All of them, of 0.
    fn trailing_zeros(self) -> u32;
    /// The bits in reverse order.
    fn reverse_bits(self) -> Self;
    /// The bits moved up, those that fall out coming in again; by the amount modulo the width.
    fn rotate_left(self, amount: u32) -> Self;
    /// The bits moved down, those that fall out coming in again; by the amount modulo the width.
    fn rotate_right(self, amount: u32) -> Self;
    /// The sum modulo two to the power of the width.
    fn wrapping_add(self, other: Self) -> Self;
    /// The difference modulo two to the power of the width.
    fn wrapping_sub(self, other: Self) -> Self;
    /// The product modulo two to the power of the width.
    fn wrapping_mul(self, other: Self) -> Self;
    /// The negative modulo two to the power of the width.
    fn wrapping_neg(self) -> Self;
    /// The bits moved up by the amount modulo the width.
    fn wrapping_shl(self, amount: u32) -> Self;
    /// The bits moved down by the amount modulo the width; of signed integers with copies of the
    /// sign.
    fn wrapping_shr(self, amount: u32) -> Self;
    /// The sum, or the end of the range that lies beyond it.
    fn saturating_add(self, other: Self) -> Self;
    /// The difference, or the end of the range that lies beyond it.
    fn saturating_sub(self, other: Self) -> Self;
    /// To the power of.
    fn pow(self, exponent: u32) -> Self;
    /// The distance of two numbers, modulo two to the power of the width if that does not fit.
    fn distance(self, other: Self) -> Self;

    /// The high half of the product, which has twice as many bits.
    ///
    /// ```
    /// # use quipu_kernel::Integer;
    /// assert_eq!(0x8000_0000_u32.mul_high(6), 3);
    /// assert_eq!((-1_i8).mul_high(1), -1);
    /// ```
    fn mul_high(self, other: Self) -> Self;

    /// The number of the lowest bit that is 1, counted from 1; 0 if there is none: *ffs*.
    ///
    /// ```
    /// # use quipu_kernel::Integer;
    /// assert_eq!([0_u32, 1, 8, 12].map(Integer::find_first_set), [0, 1, 4, 3]);
    /// ```
    #[inline(always)]
    fn find_first_set(self) -> u32 {
        if self == Self::ZERO {
            0
        } else {
            self.trailing_zeros() + 1
        }
    }
}

/// The methods that std's type has under the same name.
macro_rules! as_std {
    ($type:ident: $($name:ident($($argument:ident: $of:ty),*) -> $result:ty;)*) => {$(
        #[inline(always)]
        fn $name(self $(, $argument: $of)*) -> $result {
            <$type>::$name(self $(, $argument)*)
        }
    )*};
}
pub(super) use as_std;

macro_rules! integers {
    ($($type:ident, $double:ty, $ir:ident, $wide:ident($as_wide:ty);)*) => {$(
        impl Scalar for $type {
            const TYPE: Option<quipu_kernel_ir::Scalar> = Some(quipu_kernel_ir::Scalar::$ir);

            #[inline(always)]
            fn to_word(self) -> u64 {
                self as u64
            }

            #[inline(always)]
            fn from_word(word: u64) -> Self {
                word as Self
            }
        }

        impl Number for $type {
            const ZERO: Self = 0;
            const ONE: Self = 1;
            const MIN: Self = Self::MIN;
            const MAX: Self = Self::MAX;

            #[inline(always)]
            fn to_wide(self) -> Wide {
                Wide::$wide(self as $as_wide)
            }

            #[inline(always)]
            fn from_wide(wide: Wide) -> Self {
                match wide {
                    Wide::Signed(number) => number as Self,
                    Wide::Unsigned(number) => number as Self,
                    Wide::Float(number) => number as Self,
                }
            }

            #[inline(always)]
            fn lesser(self, other: Self) -> Self {
                Ord::min(self, other)
            }

            #[inline(always)]
            fn greater(self, other: Self) -> Self {
                Ord::max(self, other)
            }
        }

        impl Integer for $type {
            const BITS: u32 = Self::BITS;

            as_std! { $type:
                count_ones() -> u32;
                count_zeros() -> u32;
                leading_zeros() -> u32;
                trailing_zeros() -> u32;
                reverse_bits() -> Self;
                rotate_left(amount: u32) -> Self;
                rotate_right(amount: u32) -> Self;
                wrapping_add(other: Self) -> Self;
                wrapping_sub(other: Self) -> Self;
                wrapping_mul(other: Self) -> Self;
                wrapping_neg() -> Self;
                wrapping_shl(amount: u32) -> Self;
                wrapping_shr(amount: u32) -> Self;
                saturating_add(other: Self) -> Self;
                saturating_sub(other: Self) -> Self;
                pow(exponent: u32) -> Self;
            }

            #[inline(always)]
            fn distance(self, other: Self) -> Self {
                self.abs_diff(other) as Self
            }

            #[inline(always)]
            fn mul_high(self, other: Self) -> Self {
                ((self as $double * other as $double) >> Self::BITS) as Self
            }
        }
    )*};
}

integers! {
    i8, i16, I8, Signed(i64);
    i16, i32, I16, Signed(i64);
    i32, i64, I32, Signed(i64);
    i64, i128, I64, Signed(i64);
    isize, i128, SignedIndex, Signed(i64);
    u8, u16, U8, Unsigned(u64);
    u16, u32, U16, Unsigned(u64);
    u32, u64, U32, Unsigned(u64);
    u64, u128, U64, Unsigned(u64);
    usize, u128, Index, Unsigned(u64);
}

macro_rules! signed {
    ($($type:ident)*) => {$(
        impl Signed for $type {
            as_std! { $type: abs() -> Self; signum() -> Self; }
        }
    )*};
}

signed!(i8 i16 i32 i64 isize);

#[cfg(test)]
mod tests {
    use super::*;

    /// Checks the operations of a generic kernel on an integer against the same in 128 bits.
    fn check<T: Integer>(samples: &[i128]) {
        let wrapped = |exact: i128| {
            let word = exact as u64;
            T::from_word(word)
        };
        for &a in samples {
            for &b in samples {
                let (x, y) = (wrapped(a), wrapped(b));
                assert_eq!(x.wrapping_add(y), wrapped(a + b));
                assert_eq!(x.wrapping_sub(y), wrapped(a - b));
                assert_eq!(x.wrapping_mul(y), wrapped(a * b));
                assert_eq!(x.lesser(y), Ord::min(x, y));
                let amount = (b as u32) % T::BITS;
                assert_eq!(x.rotate_left(amount).rotate_right(amount), x);
                assert_eq!(x.wrapping_shl(amount), wrapped(a << amount));
                assert_eq!(x.distance(y), y.distance(x));
            }
            let x = wrapped(a);
            assert_eq!(T::from_word(x.to_word()), x);
            assert_eq!(x.count_ones() + x.count_zeros(), T::BITS);
            assert_eq!(x.reverse_bits().leading_zeros(), x.trailing_zeros());
            assert_eq!(x.find_first_set() == 0, x == T::ZERO);
        }
    }

    #[test]
    fn every_integer_type_computes_modulo_its_width() {
        let samples = [
            0,
            1,
            2,
            3,
            7,
            100,
            127,
            128,
            255,
            65_535,
            1 << 31,
            (1 << 32) - 1,
        ];
        check::<i8>(&samples);
        check::<i16>(&samples);
        check::<i32>(&samples);
        check::<i64>(&samples);
        check::<isize>(&samples);
        check::<u8>(&samples);
        check::<u16>(&samples);
        check::<u32>(&samples);
        check::<u64>(&samples);
        check::<usize>(&samples);
    }

    #[test]
    fn the_high_half_of_a_product_is_that_of_twice_the_width() {
        assert_eq!(u64::MAX.mul_high(u64::MAX), u64::MAX - 1);
        assert_eq!(i64::MIN.mul_high(i64::MIN), 1 << 62);
        assert_eq!(i32::MIN.mul_high(1), -1);
        assert_eq!(0xff_u8.mul_high(0xff), 0xfe);
    }
}
