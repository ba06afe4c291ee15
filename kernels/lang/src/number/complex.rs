//! Complex numbers.

use std::fmt;
use std::ops::{Add, AddAssign, Div, DivAssign, Mul, MulAssign, Neg, Sub, SubAssign};

use bytemuck::{Pod, Zeroable};

use super::Float;
use crate::{KernelData, device};

/// A complex number: two floats, the real part first, as C lays it out.
///
/// Sums, differences, products and quotients are the textbook's, of each part by itself and without scaling: a
/// quotient's intermediate results overflow where a part's square does.
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

    /// Whether neither part is NaN or infinite.
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
    fn it_is_two_floats_and_reads_like_a_number() {
        assert_eq!(bytemuck::bytes_of(&Complex::new(0_u8, 7)), [0, 7]);
        assert_eq!(Complex::new(1.5, -2.0).to_string(), "1.5-2i");
        assert_eq!(Complex::new(-4.0, -0.0).sqrt(), Complex::new(0.0, -2.0));
    }
}
