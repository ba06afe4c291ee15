//! The two 16-bit floats, of the `half` crate: computed with as `f32`, then rounded.
//!
//! `f32` has more than twice their digits and two more, so sums, products, quotients and square
//! roots of them are correctly rounded all the same.

use super::{Float, Number, Scalar, Signed, Wide, bf16, f16};

/// `a * b + c` for floats of so few digits that the product is exact, rounded *to odd*: so rounding
/// once more, to fewer digits, rounds as if it were the only time.
fn fused_to_odd(a: f64, b: f64, c: f64) -> f64 {
    let product = a * b;
    let sum = product + c;
    // The error of the sum, exactly (Knuth's TwoSum).
    let part = sum - product;
    let lost = (product - (sum - part)) + (c - part);
    if lost == 0.0 || lost.is_nan() || sum.to_bits() & 1 == 1 {
        return sum;
    }
    // Between two doubles, the even of which is `sum`: take the odd one, on the side of the lost
    // part.
    let away_from_zero = (lost > 0.0) == (sum > 0.0);
    f64::from_bits(if away_from_zero {
        sum.to_bits() + 1
    } else {
        sum.to_bits() - 1
    })
}

/// An integer as a double, rounded to odd for the same reason.
fn integer_to_odd(magnitude: u64) -> f64 {
    if magnitude < 1 << 53 {
        magnitude as f64
    } else {
        ((magnitude >> 11) | u64::from(magnitude & 0x7ff != 0)) as f64 * 2048.0
    }
}

/// A double as a float, rounded to odd: for rounding once more. (`half` converts doubles by their
/// upper bits alone.)
fn single_to_odd(number: f64) -> f32 {
    let single = number as f32;
    let back = f64::from(single);
    if back == number || number.is_nan() || single.to_bits() & 1 == 1 {
        return single;
    }
    let away_from_zero = number.abs() > back.abs();
    f32::from_bits(if away_from_zero {
        single.to_bits() + 1
    } else {
        single.to_bits() - 1
    })
}

/// The methods that `f32` has under the same name.
macro_rules! through_f32 {
    ($type:ident: $($name:ident($($argument:ident),*);)*) => {$(
        #[inline(always)]
        fn $name(self $(, $argument: Self)*) -> Self {
            $type::from_f32(self.to_f32().$name($($argument.to_f32()),*))
        }
    )*};
}

macro_rules! constants {
    ($($name:ident)*) => {
        $(const $name: Self = Self::$name;)*
    };
}

macro_rules! halves {
    ($($type:ident $scalar:ident;)*) => {$(
        impl Scalar for $type {
            const TYPE: Option<quipu_kernel_ir::Scalar> = Some(quipu_kernel_ir::Scalar::$scalar);

            #[inline(always)]
            fn to_word(self) -> u64 {
                u64::from(self.to_bits())
            }

            #[inline(always)]
            fn from_word(word: u64) -> Self {
                Self::from_bits(word as u16)
            }
        }

        impl Number for $type {
            constants!(ZERO ONE MIN MAX);

            #[inline(always)]
            fn to_wide(self) -> Wide {
                Wide::Float(self.to_f64())
            }

            #[inline]
            fn from_wide(wide: Wide) -> Self {
                match wide {
                    Wide::Signed(number) => {
                        let magnitude = integer_to_odd(number.unsigned_abs());
                        Self::from_f32(single_to_odd(if number < 0 { -magnitude } else { magnitude }))
                    }
                    Wide::Unsigned(number) => Self::from_f32(single_to_odd(integer_to_odd(number))),
                    Wide::Float(number) => Self::from_f32(single_to_odd(number)),
                }
            }

            through_f32! { $type: lesser(other); greater(other); }
        }

        impl Signed for $type {
            #[inline(always)]
            fn abs(self) -> Self {
                Self::from_bits(self.to_bits() & 0x7fff)
            }

            #[inline(always)]
            fn signum(self) -> Self {
                $type::signum(self)
            }
        }

        impl Float for $type {
            type Bits = u16;

            constants!(EPSILON MIN_POSITIVE INFINITY NEG_INFINITY NAN PI FRAC_PI_2 FRAC_PI_4 FRAC_1_PI
                FRAC_2_SQRT_PI E SQRT_2 FRAC_1_SQRT_2 LN_2 LN_10 LOG2_E LOG10_E);
            const TAU: Self = Self::from_f32_const(std::f32::consts::TAU);

            #[inline(always)]
            fn to_bits(self) -> u16 {
                $type::to_bits(self)
            }

            #[inline(always)]
            fn from_bits(bits: u16) -> Self {
                $type::from_bits(bits)
            }

            through_f32! { $type:
                ceil(); floor(); trunc(); fract(); round(); round_ties_even(); sqrt(); remainder(divisor);
                recip(); min(other); max(other); acos(); acosh(); asin(); asinh(); atan(); atan2(x); atanh();
                cbrt(); cos(); cosh(); exp(); exp2(); exp_m1(); hypot(other); ln(); ln_1p(); log2();
                log10(); powf(exponent); rsqrt(); sin(); sinh(); tan(); tanh();
            }

            #[inline(always)]
            fn copysign(self, sign: Self) -> Self {
                $type::copysign(self, sign)
            }

            #[inline]
            fn mul_add(self, factor: Self, addend: Self) -> Self {
                Self::from_f32(single_to_odd(fused_to_odd(self.to_f64(), factor.to_f64(), addend.to_f64())))
            }

            #[inline(always)]
            fn is_nan(self) -> bool {
                $type::is_nan(self)
            }

            #[inline(always)]
            fn is_infinite(self) -> bool {
                $type::is_infinite(self)
            }

            #[inline(always)]
            fn is_finite(self) -> bool {
                $type::is_finite(self)
            }

            #[inline(always)]
            fn is_sign_negative(self) -> bool {
                $type::is_sign_negative(self)
            }

            #[inline(always)]
            fn erf(self) -> Self {
                Self::from_f32(<f32 as Float>::erf(self.to_f32()))
            }

            #[inline(always)]
            fn powi(self, exponent: i32) -> Self {
                Self::from_f32(self.to_f32().powi(exponent))
            }

            #[inline(always)]
            fn sin_cos(self) -> (Self, Self) {
                let (sin, cos) = self.to_f32().sin_cos();
                (Self::from_f32(sin), Self::from_f32(cos))
            }
        }
    )*};
}

halves!(f16 F16; bf16 Bf16;);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fused_products_round_once() {
        // 1 + 2^-10 squared is 1 + 2^-9 + 2^-20: the last term decides the tie.
        let x = f16::ONE + f16::EPSILON;
        let tie = f16::from_f64(2f64.powi(-11)); // half of the sum's last digit
        assert_eq!(x.mul_add(x, tie), f16::from_f64(1.0 + 3.0 * 2f64.powi(-10)));
        let far = f16::from_bits(1).mul_add(f16::from_bits(1), f16::from_f64(1.0 + 2f64.powi(-10)));
        assert_eq!(far, f16::ONE + f16::EPSILON);
        // A product of 2^-48 beside 1024 + 1/2: only a sum to odd remembers it.
        let rounded = |product| {
            let odd = fused_to_odd(2f64.powi(-24), product, 1024.5);
            f16::from_f32(single_to_odd(odd)).to_f32()
        };
        assert_eq!(rounded(2f64.powi(-24)), 1025.0);
        assert_eq!(rounded(-(2f64.powi(-24))), 1024.0);
    }

    #[test]
    fn integers_round_once() {
        // Just above the middle between two numbers of 8 digits, by less than a double can tell.
        let number = (1_i64 << 61) + (1 << 53) + 1;
        assert_eq!(
            number.cast::<bf16>(),
            bf16::from_f64(2f64.powi(61) + 2f64.powi(54))
        );
        assert_eq!((-number).cast::<bf16>(), -number.cast::<bf16>());
        assert_eq!(70_000.cast::<f16>(), f16::INFINITY);
        assert_eq!(f16::MAX.cast::<u8>(), 255);
    }
}
