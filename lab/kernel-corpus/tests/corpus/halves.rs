//! Floats of 16 bits: computed with as `f32`, then rounded, everywhere to the same bits.

use super::{check, division};
use quipu_kernel::{Accelerator, Float, Number, OwnElements, bf16, device, f16, kernel};

/// Numbers that are rounded, overflow, and are below the smallest normal one; no NaN, whose sign is
/// anybody's.
fn edges<T: Float>() -> Vec<T> {
    let mut bits: Vec<u16> = (0..64).map(|i| i * 521 % 0x7c00).collect();
    bits.extend([
        0, 1, 2, 0x3ff, 0x400, 0x3c00, 0x3c01, 0x7bff, 0x7c00, 0x0080, 0x3f80, 0x7f7f,
    ]);
    bits.iter()
        .flat_map(|bits| [*bits, bits | 0x8000])
        .map(|bits| T::from_word(bits.into()))
        .filter(|number| !number.is_nan())
        .collect()
}

#[device(crate = quipu_kernel)]
fn polynomial<T: Float>(x: T, a: T) -> T {
    (a * x + T::ONE) * x - T::PI
}

#[kernel(crate = quipu_kernel)]
fn halves<T: Float + Bits>(
    _acc: &impl Accelerator<1>,
    x: &[T],
    mut sums: OwnElements<T>,
    mut products: OwnElements<T>,
    mut fused: OwnElements<T>,
    mut rest: OwnElements<u32>,
) {
    for (i, y) in sums.each() {
        let (a, b) = (x[i], x[(i * 7 + 3) % x.len()]);
        let mut sum = a + b;
        sum -= T::cast_from(0.125);
        *y = if sum.is_nan() { T::ZERO } else { sum };
    }
    for (i, y) in products.each() {
        let (a, b) = (x[i], x[(i * 5 + 1) % x.len()]);
        let product = a * b;
        let quotient = polynomial(a, b).abs().sqrt().floor().copysign(b);
        let chosen = if a < b { product } else { -quotient };
        *y = if chosen.is_nan() {
            T::ONE
        } else {
            chosen.min(T::MAX)
        };
    }
    for (i, y) in fused.each() {
        let v = x[i].mul_add(x[(i + 11) % x.len()], x[(i * 3 + 2) % x.len()]);
        let p = x[i].powi(3) / T::cast_from(7);
        *y = if v.is_nan() || p.is_nan() {
            T::ZERO
        } else {
            v + p.greater(T::ZERO)
        };
    }
    for (i, y) in rest.each() {
        let v = x[i];
        let whole = v.cast::<i32>() as u32;
        let sign = v.is_sign_negative() as u32 + 2 * (v == T::ZERO) as u32;
        *y = whole ^ (v.to_word_of_kernel() << 8) ^ sign;
    }
}

/// The bits of a number, as kernels see them.
#[device(crate = quipu_kernel)]
pub(crate) trait Bits {
    fn to_word_of_kernel(self) -> u32;
}

#[device(crate = quipu_kernel)]
impl Bits for f16 {
    fn to_word_of_kernel(self) -> u32 {
        self.to_bits() as u32
    }
}

#[device(crate = quipu_kernel)]
impl Bits for bf16 {
    fn to_word_of_kernel(self) -> u32 {
        self.to_bits() as u32
    }
}

#[test]
fn runs_floats_of_16_bits() {
    let x = edges::<f16>();
    let count = x.len();
    let [mut sums, mut products, mut fused] = [(); 3].map(|()| vec![f16::ONE; count]);
    let mut rest = vec![0; count];
    check!(halves => (&x, &mut sums, &mut products, &mut fused, &mut rest), division(4, 5, 8));
    assert!(sums.contains(&f16::INFINITY), "{sums:?}");
}

#[test]
fn runs_upper_halves_of_floats() {
    let x = edges::<bf16>();
    let count = x.len();
    let [mut sums, mut products, mut fused] = [(); 3].map(|()| vec![bf16::ONE; count]);
    let mut rest = vec![0; count];
    check!(halves => (&x, &mut sums, &mut products, &mut fused, &mut rest), division(4, 5, 8));
    assert!(sums.contains(&bf16::MAX), "{sums:?}");
}

#[kernel(crate = quipu_kernel)]
fn conversions(
    _acc: &impl Accelerator<1>,
    wide: &[i64],
    doubles: &[f64],
    mut narrow: OwnElements<[f16; 3]>,
    mut upper: OwnElements<[bf16; 3]>,
    mut back: OwnElements<f64>,
) {
    for (i, y) in narrow.each() {
        let (w, d) = (wide[i], doubles[i]);
        *y = [w.cast::<f16>(), d.cast::<f16>(), f16::from_f32(d as f32)];
        y[0] += (w as i8).cast::<f16>();
    }
    for (i, y) in upper.each() {
        let (w, d) = (wide[i], doubles[i]);
        let few = (w as u32).cast::<bf16>();
        *y = [
            (w as u64).cast::<bf16>() - few,
            d.cast::<bf16>(),
            bf16::from_f32(d as f32),
        ];
        y[1] = f16::from_bits((w as u16) & 0x7bff).cast::<bf16>();
    }
    for (i, y) in back.each() {
        let half = f16::from_bits((wide[i] as u16) & 0xfbff);
        let upper = bf16::from_bits((wide[i] >> 7) as u16 & 0xff7f);
        *y = half.to_f32() as f64 + upper.to_f64() + half.cast::<i16>() as f64;
    }
}

#[test]
fn runs_conversions_of_halves() {
    let wide: Vec<i64> = (0..64)
        .flat_map(|shift| [-1, 1].map(|sign| sign * ((0x0012_3456_789a_bcdf_i64 << 10) >> shift)))
        .chain([
            i64::MIN,
            i64::MAX,
            0,
            65519,
            65520,
            (1 << 61) + (1 << 53) + 1,
            (1 << 61) + (1 << 53),
        ])
        .collect();
    let doubles: Vec<f64> = wide
        .iter()
        .enumerate()
        .map(|(at, wide)| *wide as f64 * 2f64.powi(at as i32 % 60 - 50))
        .collect();
    let count = wide.len();
    let (mut narrow, mut upper) = (vec![[f16::ONE; 3]; count], vec![[bf16::ONE; 3]; count]);
    let mut back = vec![0.0; count];
    check!(conversions => (&wide, &doubles, &mut narrow, &mut upper, &mut back), division(4, 5, 7));
}

#[kernel(crate = quipu_kernel)]
fn every_pattern(
    _acc: &impl Accelerator<1>,
    mut wide: OwnElements<[u32; 2]>,
    mut narrow: OwnElements<[u16; 2]>,
) {
    for (i, y) in wide.each() {
        let (half, upper) = (f16::from_bits(i as u16), bf16::from_bits(i as u16));
        *y = [half.to_f32().to_bits(), upper.to_f32().to_bits()];
    }
    for (i, y) in narrow.each() {
        // All exponents, with digits that are rounded up, down, and to even.
        let single =
            f32::from_bits((i as u32) << 16 | (i as u32 % 17) * 0x0f0f | (i as u32 & 1) << 12);
        *y = [
            f16::from_f32(single).to_bits(),
            bf16::from_f32(single).to_bits(),
        ];
    }
}

#[test]
fn converts_every_pattern() {
    let (mut wide, mut narrow) = (vec![[0; 2]; 1 << 16], vec![[0; 2]; 1 << 16]);
    check!(every_pattern => (&mut wide, &mut narrow), division(2, 2, 1 << 14));
    assert_eq!(wide[0x3c00][0], 1.0f32.to_bits());
}
