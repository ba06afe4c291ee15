//! Floats: the mathematical functions and constants.

use super::integer::as_std;
use super::{Integer, Number, Scalar, Signed, Wide};

/// A floating-point number.
///
/// Names and meaning are std's. Functions of the first group are exact or correctly rounded, and
/// the same bits on every device. Of the others the native result and a device's differ by units in
/// the last place (*ulp*), at most by so many:
///
/// | ulp | functions |
/// |---|---|
/// | 3 | `cbrt`, `ln_1p`, `rsqrt` |
/// | 4 | `exp`, `exp2`, `exp_m1`, `ln`, `log2`, `log10` |
/// | 5 | `acos`, `acosh`, `asin`, `asinh`, `cos`, `cosh`, `hypot`, `sin`, `sinh` |
/// | 6 | `atan`, `tan`, `tanh` |
/// | 7 | `atan2` |
/// | 17 | `erf`, `powf` |
/// | 21 | `atanh` |
///
/// That is the error that OpenCL allows devices and one more, but for `atanh`, which std computes
/// by a formula that loses more near -1, as its `acosh` does near 1. Natively they are the C
/// library's, but for [`erf`](Self::erf) (below 1 ulp), [`rsqrt`](Self::rsqrt) (below 1.5 ulp) and
/// [`remainder`](Self::remainder) (exact). 16-bit floats are computed with as `f32` and rounded.
///
/// Nothing is ever fused or reassociated: `a * b + c` rounds twice. For one rounding, and its
/// speed, write [`mul_add`](Self::mul_add).
pub trait Float: Signed {
    /// An unsigned integer of the same size.
    type Bits: Integer;

    /// The difference between 1 and the next greater number.
    const EPSILON: Self;
    /// The smallest positive number that is not denormal.
    const MIN_POSITIVE: Self;
    /// Positive infinity.
    const INFINITY: Self;
    /// Negative infinity.
    const NEG_INFINITY: Self;
    /// Not a number.
    const NAN: Self;
    /// The ratio of a circle's circumference to its diameter.
    const PI: Self;
    /// Twice that.
    const TAU: Self;
    /// Half of it.
    const FRAC_PI_2: Self;
    /// A quarter of it.
    const FRAC_PI_4: Self;
    /// One divided by it.
    const FRAC_1_PI: Self;
    /// Two divided by its square root.
    const FRAC_2_SQRT_PI: Self;
    /// Euler's number.
    const E: Self;
    /// The square root of 2.
    const SQRT_2: Self;
    /// One divided by that.
    const FRAC_1_SQRT_2: Self;
    /// The natural logarithm of 2.
    const LN_2: Self;
    /// The natural logarithm of 10.
    const LN_10: Self;
    /// The binary logarithm of e.
    const LOG2_E: Self;
    /// The decimal logarithm of e.
    const LOG10_E: Self;

    /// Its bits.
    fn to_bits(self) -> Self::Bits;
    /// The float of such bits.
    fn from_bits(bits: Self::Bits) -> Self;

    // Exact or correctly rounded.

    /// The smallest integer not below it.
    fn ceil(self) -> Self;
    /// The greatest integer not above it.
    fn floor(self) -> Self;
    /// Its integer part.
    fn trunc(self) -> Self;
    /// The number without its integer part.
    fn fract(self) -> Self;
    /// The nearest integer; of two the one away from zero.
    fn round(self) -> Self;
    /// The nearest integer; of two the even one.
    fn round_ties_even(self) -> Self;
    /// With the sign of another.
    fn copysign(self, sign: Self) -> Self;
    /// The square root.
    fn sqrt(self) -> Self;
    /// `self * factor + addend`, rounded once: *fma*. One instruction where the machine has it.
    fn mul_add(self, factor: Self, addend: Self) -> Self;
    /// The remainder of a division whose quotient is rounded to the *nearest* integer, ties to
    /// even: C's `remainder`. (`%` is C's `fmod`.)
    fn remainder(self, divisor: Self) -> Self;
    /// One divided by it.
    fn recip(self) -> Self;
    /// The smaller of two; of a number and NaN the number. (Where `f16` or `bf16` is written out,
    /// `min` and `max` are natively those of the crate `half`, which give a NaN if `self` is one:
    /// [`lesser`](Number::lesser) and [`greater`](Number::greater) are the same everywhere.)
    fn min(self, other: Self) -> Self;
    /// The greater of two; of a number and NaN the number. (As for [`min`](Self::min).)
    fn max(self, other: Self) -> Self;
    /// True if it is a NaN.
    fn is_nan(self) -> bool;
    /// True if it is one of the infinities.
    fn is_infinite(self) -> bool;
    /// True if it is neither NaN nor infinite.
    fn is_finite(self) -> bool;
    /// True if its sign bit is set.
    fn is_sign_negative(self) -> bool;

    // To some units in the last place.

    /// The arc cosine.
    fn acos(self) -> Self;
    /// The inverse hyperbolic cosine.
    fn acosh(self) -> Self;
    /// The arc sine.
    fn asin(self) -> Self;
    /// The inverse hyperbolic sine.
    fn asinh(self) -> Self;
    /// The arc tangent.
    fn atan(self) -> Self;
    /// The angle of the point (`x`, `self`).
    fn atan2(self, x: Self) -> Self;
    /// The inverse hyperbolic tangent.
    fn atanh(self) -> Self;
    /// The cube root.
    fn cbrt(self) -> Self;
    /// The cosine.
    fn cos(self) -> Self;
    /// The hyperbolic cosine.
    fn cosh(self) -> Self;
    /// The error function. (std has one of that name in preparation, so rustc warns where it is
    /// called on an `f32` or `f64` by name: `#[allow(unstable_name_collisions)]`.)
    fn erf(self) -> Self;
    /// e to the power of it.
    fn exp(self) -> Self;
    /// 2 to the power of it.
    fn exp2(self) -> Self;
    /// [`exp`](Self::exp) minus one, precise near zero.
    fn exp_m1(self) -> Self;
    /// The length of a vector of two components.
    fn hypot(self, other: Self) -> Self;
    /// The natural logarithm.
    fn ln(self) -> Self;
    /// The natural logarithm of one more, precise near zero.
    fn ln_1p(self) -> Self;
    /// The binary logarithm.
    fn log2(self) -> Self;
    /// The decimal logarithm.
    fn log10(self) -> Self;
    /// To the power of.
    fn powf(self, exponent: Self) -> Self;
    /// To an integer power.
    fn powi(self, exponent: i32) -> Self;
    /// One divided by the square root.
    fn rsqrt(self) -> Self;
    /// The sine.
    fn sin(self) -> Self;
    /// The sine and the cosine.
    fn sin_cos(self) -> (Self, Self);
    /// The hyperbolic sine.
    fn sinh(self) -> Self;
    /// The tangent.
    fn tan(self) -> Self;
    /// The hyperbolic tangent.
    fn tanh(self) -> Self;
}

macro_rules! floats {
    ($($type:ident, $bits:ident, $ir:ident, $erf:path, $remainder:path;)*) => {$(
        impl Scalar for $type {
            const TYPE: Option<quipu_kernel_ir::Scalar> = Some(quipu_kernel_ir::Scalar::$ir);

            #[inline(always)]
            fn to_word(self) -> u64 {
                u64::from(self.to_bits())
            }

            #[inline(always)]
            fn from_word(word: u64) -> Self {
                Self::from_bits(word as $bits)
            }
        }

        impl Number for $type {
            const ZERO: Self = 0.0;
            const ONE: Self = 1.0;
            const MIN: Self = Self::MIN;
            const MAX: Self = Self::MAX;

            #[inline(always)]
            fn to_wide(self) -> Wide {
                Wide::Float(f64::from(self))
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
                $type::min(self, other)
            }

            #[inline(always)]
            fn greater(self, other: Self) -> Self {
                $type::max(self, other)
            }
        }

        impl Signed for $type {
            as_std! { $type: abs() -> Self; signum() -> Self; }
        }

        impl Float for $type {
            type Bits = $bits;

            const EPSILON: Self = Self::EPSILON;
            const MIN_POSITIVE: Self = Self::MIN_POSITIVE;
            const INFINITY: Self = Self::INFINITY;
            const NEG_INFINITY: Self = Self::NEG_INFINITY;
            const NAN: Self = Self::NAN;
            const PI: Self = std::$type::consts::PI;
            const TAU: Self = std::$type::consts::TAU;
            const FRAC_PI_2: Self = std::$type::consts::FRAC_PI_2;
            const FRAC_PI_4: Self = std::$type::consts::FRAC_PI_4;
            const FRAC_1_PI: Self = std::$type::consts::FRAC_1_PI;
            const FRAC_2_SQRT_PI: Self = std::$type::consts::FRAC_2_SQRT_PI;
            const E: Self = std::$type::consts::E;
            const SQRT_2: Self = std::$type::consts::SQRT_2;
            const FRAC_1_SQRT_2: Self = std::$type::consts::FRAC_1_SQRT_2;
            const LN_2: Self = std::$type::consts::LN_2;
            const LN_10: Self = std::$type::consts::LN_10;
            const LOG2_E: Self = std::$type::consts::LOG2_E;
            const LOG10_E: Self = std::$type::consts::LOG10_E;

            #[inline(always)]
            fn from_bits(bits: $bits) -> Self {
                <$type>::from_bits(bits)
            }

            as_std! { $type:
                to_bits() -> $bits;
                ceil() -> Self;
                floor() -> Self;
                trunc() -> Self;
                fract() -> Self;
                round() -> Self;
                round_ties_even() -> Self;
                copysign(sign: Self) -> Self;
                sqrt() -> Self;
                mul_add(factor: Self, addend: Self) -> Self;
                recip() -> Self;
                min(other: Self) -> Self;
                max(other: Self) -> Self;
                is_nan() -> bool;
                is_infinite() -> bool;
                is_finite() -> bool;
                is_sign_negative() -> bool;
                acos() -> Self;
                acosh() -> Self;
                asin() -> Self;
                asinh() -> Self;
                atan() -> Self;
                atan2(x: Self) -> Self;
                atanh() -> Self;
                cbrt() -> Self;
                cos() -> Self;
                cosh() -> Self;
                exp() -> Self;
                exp2() -> Self;
                exp_m1() -> Self;
                hypot(other: Self) -> Self;
                ln() -> Self;
                ln_1p() -> Self;
                log2() -> Self;
                log10() -> Self;
                powf(exponent: Self) -> Self;
                powi(exponent: i32) -> Self;
                sin() -> Self;
                sin_cos() -> (Self, Self);
                sinh() -> Self;
                tan() -> Self;
                tanh() -> Self;
            }

            #[inline(always)]
            fn remainder(self, divisor: Self) -> Self {
                $remainder(self, divisor)
            }

            #[inline(always)]
            fn erf(self) -> Self {
                $erf(self)
            }

            #[inline(always)]
            fn rsqrt(self) -> Self {
                1.0 / self.sqrt()
            }
        }
    )*};
}

floats! {
    f32, u32, F32, libm::erff, libm::remainderf;
    f64, u64, F64, libm::erf, libm::remainder;
}

#[cfg(test)]
mod tests {
    use super::*;

    fn close<T: Float>(value: T, expected: f64) {
        let expected = T::cast_from(expected);
        let tolerance = T::cast_from::<f64>(4.0) * T::EPSILON * expected.abs().max(T::MIN_POSITIVE);
        assert!(
            (value - expected).abs() <= tolerance,
            "{value:?} for {expected:?}"
        );
    }

    fn check<T: Float>() {
        let x = T::cast_from(0.75);
        close(x.erf(), 0.711_155_633_653_515_1);
        close((-x).erf(), -0.711_155_633_653_515_1);
        close(T::cast_from(4.0).rsqrt(), 0.5);
        close(x.sin() / x.cos(), 0.75_f64.tan());
        close(x.sin_cos().0, 0.75_f64.sin());
        close(T::PI.exp().ln(), std::f64::consts::PI);
        close(x.powf(T::cast_from(3)), 0.421_875);
        assert_eq!(T::cast_from(5).remainder(T::cast_from(3)), -T::ONE);
        assert_eq!(T::cast_from(5) % T::cast_from(3), T::cast_from(2));
        assert_eq!(T::cast_from(2.5).round(), T::cast_from(3));
        assert_eq!(T::cast_from(2.5).round_ties_even(), T::cast_from(2));
        assert_eq!(T::NAN.max(x), x);
        assert!(!T::NAN.is_finite() && T::NEG_INFINITY.is_infinite() && T::ONE.is_finite());
        assert_eq!(T::from_bits(x.to_bits()), x);
        assert_eq!(T::from_word(x.to_word()), x);
        assert_eq!(T::ONE + T::EPSILON / T::cast_from(2), T::ONE);
        assert!(T::ONE + T::EPSILON > T::ONE);
    }

    #[test]
    fn every_float_type_has_the_functions() {
        check::<f32>();
        check::<f64>();
        check::<super::super::f16>();
        check::<super::super::bf16>();
    }

    #[test]
    fn mul_add_rounds_once() {
        fn square_minus<T: Float>() -> T {
            let x = T::ONE + T::EPSILON;
            x.mul_add(x, -(x * x))
        }
        assert_eq!(square_minus::<f32>(), f32::EPSILON * f32::EPSILON);
        assert_eq!(square_minus::<f64>(), f64::EPSILON * f64::EPSILON);
    }

    #[test]
    fn casts_are_those_of_as() {
        for number in [
            -1e30_f64,
            -300.5,
            -1.0,
            -0.4,
            0.6,
            127.9,
            1e20,
            f64::INFINITY,
            f64::NAN,
        ] {
            assert_eq!(number.cast::<i8>(), number as i8);
            assert_eq!(number.cast::<u32>(), number as u32);
            assert_eq!(number.cast::<i64>(), number as i64);
            assert_eq!(number.cast::<usize>(), number as usize);
            assert_eq!(number.cast::<f32>().to_bits(), (number as f32).to_bits());
        }
        for number in [i64::MIN, -1, 0, (1 << 53) + 1, i64::MAX] {
            assert_eq!(number.cast::<f32>(), number as f32);
            assert_eq!(number.cast::<u16>(), number as u16);
            assert_eq!((number as u64).cast::<f64>(), number as u64 as f64);
        }
    }
}
