//! Complex numbers.

use std::fmt;
use std::ops::{Add, AddAssign, Div, DivAssign, Mul, MulAssign, Neg, Sub, SubAssign};

use bytemuck::{Pod, Zeroable};

use super::Float;
use crate::{KernelData, device};

/// A complex number: two floats, the real part first, as C lays it out.
///
/// Sums, differences, products and quotients are the textbook's, of each part by itself and without
/// scaling: a quotient's intermediate results overflow where a part's square does.
///
/// ```
/// # use quipu_kernel::Complex;
/// let i = Complex::new(0.0, 1.0);
/// assert_eq!(i * i, Complex::new(-1.0, 0.0));
/// assert_eq!(Complex::new(3.0, 4.0).abs(), 5.0);
/// ```
///
/// Kernels have all of it but `from`: buffers of complex numbers, the operators, the functions.
#[expect(
    clippy::derived_hash_with_manual_eq,
    reason = "it compares what a derive would, and kernels know it"
)]
#[derive(Debug, Clone, Copy, Default, Eq, Hash, KernelData)]
#[kernel_data(crate = crate)]
#[repr(C)]
pub struct Complex<T> {
    /// The real part.
    pub re: T,
    /// The imaginary part.
    pub im: T,
}

// SAFETY: all-zero bytes are a value of both fields.
unsafe impl<T: Zeroable> Zeroable for Complex<T> {}
// SAFETY: two fields of one type in C's layout have no padding, and any bits are a value of both.
unsafe impl<T: Pod> Pod for Complex<T> {}

#[device(crate = crate)]
impl<T> Complex<T> {
    /// Of its parts.
    #[inline(always)]
    pub const fn new(re: T, im: T) -> Self {
        Self { re, im }
    }
}

#[device(crate = crate)]
impl<T: Float> Complex<T> {
    /// 0.
    pub const ZERO: Self = Self::new(T::ZERO, T::ZERO);
    /// 1.
    pub const ONE: Self = Self::new(T::ONE, T::ZERO);
    /// The square root of -1.
    pub const I: Self = Self::new(T::ZERO, T::ONE);

    /// Of its distance from zero and its angle.
    #[inline(always)]
    pub fn from_polar(abs: T, arg: T) -> Self {
        let (sin, cos) = arg.sin_cos();
        Self::new(abs * cos, abs * sin)
    }

    /// The number at an angle, at the distance 1.
    #[inline(always)]
    pub fn cis(arg: T) -> Self {
        let (sin, cos) = arg.sin_cos();
        Self::new(cos, sin)
    }

    /// Its distance from zero and its angle.
    #[inline(always)]
    pub fn to_polar(self) -> (T, T) {
        (self.abs(), self.arg())
    }

    /// The conjugate: with the other sign of the imaginary part.
    #[inline(always)]
    pub fn conj(self) -> Self {
        Self::new(self.re, -self.im)
    }

    /// The square of its distance from zero.
    #[inline(always)]
    pub fn norm_sqr(self) -> T {
        self.re * self.re + self.im * self.im
    }

    /// Its distance from zero.
    #[inline(always)]
    pub fn abs(self) -> T {
        self.re.hypot(self.im)
    }

    /// The same as [`abs`](Self::abs), by the name that other crates give it.
    #[inline(always)]
    pub fn norm(self) -> T {
        self.abs()
    }

    /// The sum of its parts, each without its sign.
    #[inline(always)]
    pub fn l1_norm(self) -> T {
        self.re.abs() + self.im.abs()
    }

    /// Itself, and if a part is infinite the one infinity that the plane has: the positive real
    /// one, with the sign of the imaginary part kept at a zero.
    #[inline(always)]
    pub fn proj(self) -> Self {
        if self.is_infinite() {
            Self::new(T::INFINITY, T::ZERO.copysign(self.im))
        } else {
            self
        }
    }

    /// Its angle, from -π to π.
    #[inline(always)]
    pub fn arg(self) -> T {
        self.im.atan2(self.re)
    }

    /// Both parts times a number.
    #[inline(always)]
    pub fn scale(self, factor: T) -> Self {
        Self::new(self.re * factor, self.im * factor)
    }

    /// Both parts divided by a number.
    #[inline(always)]
    pub fn unscale(self, divisor: T) -> Self {
        Self::new(self.re / divisor, self.im / divisor)
    }

    /// One divided by it.
    #[inline(always)]
    pub fn inv(self) -> Self {
        let norm = self.norm_sqr();
        Self::new(self.re / norm, -(self.im / norm))
    }

    /// A real number to the power of it.
    #[inline(always)]
    pub fn expf(self, base: T) -> Self {
        Self::from_polar(base.powf(self.re), self.im * base.ln())
    }

    /// 2 to the power of it.
    #[inline(always)]
    pub fn exp2(self) -> Self {
        Self::from_polar(self.re.exp2(), self.im * T::LN_2)
    }

    /// The logarithm to a real base.
    #[inline(always)]
    pub fn log(self, base: T) -> Self {
        self.ln().unscale(base.ln())
    }

    /// The logarithm to the base 2.
    #[inline(always)]
    pub fn log2(self) -> Self {
        Self::new(self.abs().log2(), self.arg() * T::LOG2_E)
    }

    /// The logarithm to the base 10.
    #[inline(always)]
    pub fn log10(self) -> Self {
        Self::new(self.abs().log10(), self.arg() * T::LOG10_E)
    }

    /// e to the power of it.
    #[inline(always)]
    pub fn exp(self) -> Self {
        Self::from_polar(self.re.exp(), self.im)
    }

    /// The natural logarithm, whose imaginary part is from -π to π.
    #[inline(always)]
    pub fn ln(self) -> Self {
        Self::new(self.abs().ln(), self.arg())
    }

    /// The square root with a real part that is not negative.
    #[inline]
    pub fn sqrt(self) -> Self {
        if self.re == T::ZERO && self.im == T::ZERO {
            return Self::new(T::ZERO, self.im);
        }
        let half = T::cast_from(0.5_f64);
        // The larger of the two parts first, so that nothing cancels.
        let larger = ((self.abs() + self.re.abs()) * half).sqrt();
        let smaller = self.im.abs() / (larger + larger);
        if self.re.is_sign_negative() {
            Self::new(smaller, larger.copysign(self.im))
        } else {
            Self::new(larger, smaller.copysign(self.im))
        }
    }

    /// One divided by the square root.
    #[inline(always)]
    pub fn rsqrt(self) -> Self {
        self.sqrt().inv()
    }

    /// The cube root whose angle is a third of its own.
    #[inline(always)]
    pub fn cbrt(self) -> Self {
        Self::from_polar(self.abs().cbrt(), self.arg() / T::cast_from(3.0_f64))
    }

    /// To the power of an integer, by multiplications.
    #[inline]
    pub fn powi(self, exponent: i32) -> Self {
        let power = self.powu(exponent.unsigned_abs());
        if exponent < 0 { power.inv() } else { power }
    }

    /// To the power of an integer, by multiplications.
    #[inline]
    pub fn powu(self, exponent: u32) -> Self {
        let (mut power, mut square, mut left) = (Self::ONE, self, exponent);
        while left > 0 {
            if left % 2 == 1 {
                power *= square;
            }
            square = square * square;
            left /= 2;
        }
        power
    }

    /// To the power of a real number.
    #[inline(always)]
    pub fn powf(self, exponent: T) -> Self {
        Self::from_polar(self.abs().powf(exponent), self.arg() * exponent)
    }

    /// To the power of a complex number.
    #[inline(always)]
    pub fn powc(self, exponent: Self) -> Self {
        if self == Self::ZERO {
            return if exponent == Self::ZERO {
                Self::ONE
            } else {
                Self::ZERO
            };
        }
        (self.ln() * exponent).exp()
    }

    /// The sine.
    #[inline(always)]
    pub fn sin(self) -> Self {
        let (sin, cos) = self.re.sin_cos();
        Self::new(sin * self.im.cosh(), cos * self.im.sinh())
    }

    /// The cosine.
    #[inline(always)]
    pub fn cos(self) -> Self {
        let (sin, cos) = self.re.sin_cos();
        Self::new(cos * self.im.cosh(), -(sin * self.im.sinh()))
    }

    /// The hyperbolic sine.
    #[inline(always)]
    pub fn sinh(self) -> Self {
        let (sin, cos) = self.im.sin_cos();
        Self::new(self.re.sinh() * cos, self.re.cosh() * sin)
    }

    /// The hyperbolic cosine.
    #[inline(always)]
    pub fn cosh(self) -> Self {
        let (sin, cos) = self.im.sin_cos();
        Self::new(self.re.cosh() * cos, self.re.sinh() * sin)
    }

    /// The tangent.
    #[inline(always)]
    pub fn tan(self) -> Self {
        self.times_i().tanh().over_i()
    }

    /// The hyperbolic tangent.
    #[inline]
    pub fn tanh(self) -> Self {
        let (sin, cos) = self.im.sin_cos();
        // From here on the squares below would be infinite, and the real part is one.
        if self.re.abs() > T::MAX.ln() * T::cast_from(0.45_f64) {
            let rest = (-(self.re.abs() + self.re.abs())).exp();
            return Self::new(
                T::ONE.copysign(self.re),
                T::cast_from(4.0_f64) * sin * cos * rest,
            );
        }
        let sinh = self.re.sinh();
        let norm = sinh * sinh + cos * cos;
        Self::new(sinh * self.re.cosh() / norm, sin * cos / norm)
    }

    /// The arc sine, whose real part is from -π/2 to π/2. This and its like are Kahan's ("Branch
    /// Cuts for Complex Elementary Functions", 1987): the sign of a zero says on which side of a
    /// cut a number is.
    #[inline(always)]
    pub fn asin(self) -> Self {
        let (below, above) = self.roots_around_one();
        Self::new(
            self.re.atan2((below * above).re),
            (below.conj() * above).im.asinh(),
        )
    }

    /// The arc cosine, whose real part is from 0 to π.
    #[inline(always)]
    pub fn acos(self) -> Self {
        let (below, above) = self.roots_around_one();
        let half = below.re.atan2(above.re);
        Self::new(half + half, (above.conj() * below).im.asinh())
    }

    /// The arc tangent, whose real part is from -π/2 to π/2.
    #[inline(always)]
    pub fn atan(self) -> Self {
        self.times_i().atanh().over_i()
    }

    /// The inverse of the hyperbolic sine, whose imaginary part is from -π/2 to π/2.
    #[inline(always)]
    pub fn asinh(self) -> Self {
        self.times_i().asin().over_i()
    }

    /// The inverse of the hyperbolic cosine, whose real part is not negative.
    #[inline(always)]
    pub fn acosh(self) -> Self {
        let below = Self::new(self.re - T::ONE, self.im).sqrt();
        let above = Self::new(self.re + T::ONE, self.im).sqrt();
        let half = below.im.atan2(above.re);
        Self::new((below.conj() * above).re.asinh(), half + half)
    }

    /// The inverse of the hyperbolic tangent, whose imaginary part is from -π/2 to π/2.
    #[inline(always)]
    pub fn atanh(self) -> Self {
        let (re, im) = (self.re, self.im);
        let rest = T::ONE - re.abs();
        let square = im * im;
        let quotient = T::cast_from(4.0_f64) * re.abs() / (rest * rest + square);
        let angle = (im + im).atan2(rest * (T::ONE + re.abs()) - square);
        Self::new(
            (quotient.ln_1p() * T::cast_from(0.25_f64)).copysign(re),
            angle * T::cast_from(0.5_f64),
        )
    }

    /// The square roots of one minus it, and of one and it.
    #[inline(always)]
    fn roots_around_one(self) -> (Self, Self) {
        (
            Self::new(T::ONE - self.re, -self.im).sqrt(),
            Self::new(T::ONE + self.re, self.im).sqrt(),
        )
    }

    /// A quarter turn to the left. (A product would lose the signs of zeros.)
    #[inline(always)]
    fn times_i(self) -> Self {
        Self::new(-self.im, self.re)
    }

    /// A quarter turn to the right.
    #[inline(always)]
    fn over_i(self) -> Self {
        Self::new(self.im, -self.re)
    }

    /// True if a part is NaN.
    #[inline(always)]
    pub fn is_nan(self) -> bool {
        self.re.is_nan() || self.im.is_nan()
    }

    /// True if a part is infinite.
    #[inline(always)]
    pub fn is_infinite(self) -> bool {
        self.re.is_infinite() || self.im.is_infinite()
    }

    /// True if neither part is NaN or infinite.
    #[inline(always)]
    pub fn is_finite(self) -> bool {
        self.re.is_finite() && self.im.is_finite()
    }
}

#[device(crate = crate)]
impl<T: PartialEq> PartialEq for Complex<T> {
    #[inline(always)]
    fn eq(&self, other: &Self) -> bool {
        self.re == other.re && self.im == other.im
    }
}

#[device(crate = crate)]
impl<T: Float> From<T> for Complex<T> {
    #[inline(always)]
    fn from(re: T) -> Self {
        Self::new(re, T::ZERO)
    }
}

#[device(crate = crate)]
impl<T: Float> Neg for Complex<T> {
    type Output = Self;

    #[inline(always)]
    fn neg(self) -> Self {
        Self::new(-self.re, -self.im)
    }
}

macro_rules! operators {
    ($($trait:ident $name:ident $operator:tt, $assign_trait:ident $assign:ident, |$a:ident, $b:ident| $value:expr;)*) => {$(
        #[device(crate = crate)]
        impl<T: Float> $trait for Complex<T> {
            type Output = Self;

            #[inline(always)]
            fn $name(self, other: Self) -> Self {
                let ($a, $b) = (self, other);
                $value
            }
        }

        #[device(crate = crate)]
        impl<T: Float> $trait<T> for Complex<T> {
            type Output = Self;

            #[inline(always)]
            fn $name(self, other: T) -> Self {
                self $operator Self::new(other, T::ZERO)
            }
        }

        #[device(crate = crate)]
        impl<T: Float> $assign_trait for Complex<T> {
            #[inline(always)]
            fn $assign(&mut self, other: Self) {
                *self = *self $operator other;
            }
        }

        #[device(crate = crate)]
        impl<T: Float> $assign_trait<T> for Complex<T> {
            #[inline(always)]
            fn $assign(&mut self, other: T) {
                *self = *self $operator other;
            }
        }
    )*};
}

operators! {
    Add add +, AddAssign add_assign, |a, b| Self::new(a.re + b.re, a.im + b.im);
    Sub sub -, SubAssign sub_assign, |a, b| Self::new(a.re - b.re, a.im - b.im);
    Mul mul *, MulAssign mul_assign, |a, b| Self::new(a.re * b.re - a.im * b.im, a.re * b.im + a.im * b.re);
    Div div /, DivAssign div_assign, |a, b| {
        let product = a * b.conj();
        let norm = b.norm_sqr();
        Self::new(product.re / norm, product.im / norm)
    };
}

macro_rules! operators_of_reals {
    ($($float:ident),*) => {$(
        operators_of_reals!($float: Add add +, Sub sub -, Mul mul *, Div div /);
    )*};
    ($float:ident: $($trait:ident $name:ident $operator:tt),*) => {$(
        #[device(crate = crate)]
        impl $trait<Complex<$float>> for $float {
            type Output = Complex<$float>;

            #[inline(always)]
            fn $name(self, other: Complex<$float>) -> Complex<$float> {
                Complex::new(self, 0.0) $operator other
            }
        }
    )*};
}

operators_of_reals!(f32, f64);

impl<T: fmt::Display> fmt::Display for Complex<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.re.fmt(f)?;
        write!(f, "{:+}i", self.im)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn close(a: Complex<f64>, b: Complex<f64>) {
        assert!((a - b).abs() <= 1e-12 * b.abs().max(1.0), "{a} for {b}");
    }

    #[test]
    fn operations_undo_each_other() {
        let samples = [
            (3.0, 4.0),
            (-3.0, 4.0),
            (-2.0, -0.5),
            (0.25, -7.0),
            (1.0, 0.0),
            (-1.0, 0.0),
            (0.0, 2.0),
        ];
        for z in samples.map(|(re, im)| Complex::new(re, im)) {
            for w in samples.map(|(re, im)| Complex::new(im + 1.5, re)) {
                close(z * w / w, z);
                close(z + w - w, z);
                close(z.powc(w), (z.ln() * w).exp());
            }
            close(z.sqrt() * z.sqrt(), z);
            assert!(z.sqrt().re >= 0.0);
            close(z.ln().exp(), z);
            close(Complex::from_polar(z.abs(), z.arg()), z);
            close(z.sin() * z.sin(), -(z.cos() * z.cos() - 1.0));
            close(z.cosh() * z.cosh() - 1.0, z.sinh() * z.sinh());
            close(z.powf(2.0), z * z);
            close(z * 2.0, z.scale(2.0));
            close((Complex::I * z).sinh(), Complex::I * z.sin());
        }
    }

    #[test]
    fn inverse_functions_undo_each_other() {
        let parts = [-3.0, -0.75, -0.25, 0.5, 1.5, 20.0];
        for z in parts
            .iter()
            .flat_map(|re| parts.map(|im| Complex::new(*re, im)))
        {
            close(z.asin().sin(), z);
            close(z.acos().cos(), z);
            close(z.atan().tan(), z);
            close(z.asinh().sinh(), z);
            close(z.acosh().cosh(), z);
            close(z.atanh().tanh(), z);
            close(z.asin() + z.acos(), Complex::new(f64::PI / 2.0, 0.0));
            assert!(z.acosh().re >= 0.0);

            close(z.tan() * z.cos(), z.sin());
            close(z.inv() * z, Complex::ONE);
            close(z.rsqrt() * z.rsqrt() * z, Complex::ONE);
            close(z.cbrt().powu(3), z);
            close(z.powi(-3), z.inv() * z.inv() * z.inv());
            close(z.powi(0), Complex::ONE);
            close(z.log2().exp2(), z);
            close(z.log10().expf(10.0), z);
            close(z.log(3.0).expf(3.0), z);
            close(2.0 / z, Complex::new(2.0, 0.0) / z);
            close(2.0 * z - 1.0, -(1.0 - z * 2.0));
            let (abs, arg) = z.to_polar();
            close(Complex::cis(arg).scale(abs).unscale(2.0), z / 2.0);
            assert_eq!(z.l1_norm(), z.re.abs() + z.im.abs());
            assert_eq!(z.norm(), z.abs());
        }
    }

    #[test]
    fn the_sign_of_zero_says_on_which_side_of_a_cut_a_number_is() {
        let (above, below) = (Complex::new(2.0, 0.0), Complex::new(2.0, -0.0));
        for (of_above, of_below) in [
            (above.asin(), below.asin()),
            (above.acos(), below.acos()),
            (above.atanh(), below.atanh()),
        ] {
            assert!(of_above.is_finite() && of_below.is_finite());
        }
        assert_eq!(above.asin().im, -below.asin().im);
        assert_eq!(above.acos().im, -below.acos().im);
        assert_eq!(above.atanh().im, f64::PI / 2.0);
        assert_eq!(below.atanh().im, -f64::PI / 2.0);
        let left = Complex::new(-2.0, 0.0);
        assert_eq!(left.acosh().im, f64::PI);
        assert_eq!(left.conj().acosh().im, -f64::PI);
    }

    #[test]
    fn large_and_infinite_parts_have_results() {
        assert_eq!(Complex::new(700.0, 1.0).tanh(), Complex::ONE);
        assert_eq!(Complex::new(-80.0_f32, 1.0).tanh().re, -1.0);
        assert_eq!(Complex::new(1.0, 400.0).tan().im, 1.0);
        let infinite = Complex::new(1.0, f64::NEG_INFINITY);
        assert!(infinite.is_infinite() && !infinite.is_nan());
        assert_eq!(infinite.proj().re, f64::INFINITY);
        assert!(infinite.proj().im.is_sign_negative());
        assert_eq!(Complex::<f64>::I.proj(), Complex::I);
        assert!(Complex::new(f64::NAN, 0.0).is_nan());
    }

    #[test]
    fn it_is_two_floats_and_reads_like_a_number() {
        assert_eq!(bytemuck::bytes_of(&Complex::new(0_u8, 7)), [0, 7]);
        assert_eq!(Complex::new(1.5, -2.0).to_string(), "1.5-2i");
        assert_eq!(Complex::new(-4.0, -0.0).sqrt(), Complex::new(0.0, -2.0));
    }
}
