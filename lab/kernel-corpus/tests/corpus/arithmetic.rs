//! Numbers: operators, casts, methods, literals, constants.

use super::{check, compare, division, natively, run_printed};
use quipu_kernel::{Accelerator, Integer, OwnElements, kernel};
use quipu_kernel_testing::Argument;

#[kernel(crate = quipu_kernel)]
fn saxpy(_acc: &impl Accelerator<1>, a: f32, x: &[f32], mut y: OwnElements<f32>) {
    for (i, y) in y.each() {
        *y += a * x[i];
    }
}

#[test]
fn runs_saxpy() {
    let x: Vec<f32> = (0..100u8).map(f32::from).collect();
    let mut y = vec![2.0; 100];
    check!(saxpy => (2.0f32, &x, &mut y), division(4, 5, 5));
    assert_eq!(y[7], 16.0);
}

const OFFSET: i32 = 7;
const TABLE: [i32; 4] = [3, -1, 4, i32::MIN];

#[kernel(crate = quipu_kernel)]
fn integers(_acc: &impl Accelerator<1>, x: &[i32], mut y: OwnElements<i32>) {
    for (i, y) in y.each() {
        let v = x[i];
        let shifted = 1 << (i % 8);
        let mixed = v.wrapping_mul(31).wrapping_add(OFFSET) ^ shifted;
        let rotated = (mixed as u32).rotate_left(5).count_ones() as i32;
        let extremes = v.min(3).max(-3).saturating_add(i32::MAX - 1);
        let bits = !v & 0xff | (v >> 3);
        let table = TABLE[i % 4];
        let ordered = (v < 10) as i32 + (v >= 2) as i32 * 2;
        *y = mixed.wrapping_sub(rotated) % 1000
            + extremes / 1000
            + bits
            + table % 5
            + ordered
            + v.abs()
            + v.signum()
            + v.clamp(-2, 2);
        *y -= -v;
        *y <<= 1;
        *y |= 1;
    }
}

#[test]
fn runs_integers() {
    let x: Vec<i32> = (-50..50).collect();
    let mut y = vec![0; 100];
    check!(integers => (&x, &mut y), division(3, 4, 9));
}

#[kernel(crate = quipu_kernel)]
fn floats(_acc: &impl Accelerator<1>, x: &[f64], mut y: OwnElements<f64>) {
    for (i, y) in y.each() {
        let v = x[i];
        let half: f64 = 0.5;
        let a = v.mul_add(2.0, half).abs().sqrt();
        let b = f64::max(v, 1.0).min(100.0) - v.floor() + v.ceil() * v.trunc();
        let c = if v.is_nan() || v < 0.0 {
            -1.0
        } else {
            v.copysign(-1.0)
        };
        let d = (v as f32 as i8) as f64 + (v as u32 as f64) / 3.0;
        let e = f64::from_bits(v.to_bits() ^ 1);
        let f: f64 = 3u8.into();
        let g = f64::from(v as f32);
        *y = a + b * c - d + e + f + g + std::f64::consts::PI - v.round();
    }
}

#[test]
fn runs_floats() {
    let x: Vec<f64> = (-50..50).map(|i| f64::from(i) * 1.37).collect();
    let mut y = vec![0.0; 100];
    check!(floats => (&x, &mut y), division(3, 4, 9));
}

#[kernel(crate = quipu_kernel)]
fn clamped(_acc: &impl Accelerator<1>, x: &[f64], mut y: OwnElements<[f64; 2]>) {
    for (i, y) in y.each() {
        let v = x[i];
        *y = [
            v.clamp(-1.5, 2.5),
            (v as f32).clamp(f32::NEG_INFINITY, -0.0) as f64,
        ];
    }
}

#[test]
fn runs_clamped() {
    let x = vec![
        0.0,
        -0.0,
        3.0,
        -3.0,
        f64::NAN,
        f64::INFINITY,
        f64::NEG_INFINITY,
        1.0,
    ];
    let mut y = vec![[7.0; 2]; 8];
    natively(&mut y, |y, way| {
        way.run(clamped(&x, y).prepare(division(2, 2, 2)).unwrap());
    });
    let arguments = [Argument::buffer(&x), Argument::buffer(&y)];
    let module = clamped(&x, &mut y).module().unwrap();
    run_printed(&module, &division(2, 2, 2), &arguments, &[], |launch| {
        compare(
            y.as_flattened(),
            launch.elements::<[f64; 2]>(1).as_flattened(),
        );
    });
    assert!(y[4][0].is_nan() && y[4][1].is_nan());
    assert_eq!((y[2], y[6]), ([2.5, 0.0], [-1.5, f64::NEG_INFINITY]));
}

#[kernel(crate = quipu_kernel)]
fn all_widths(_acc: &impl Accelerator<1>, x: &[u64], mut y: OwnElements<u64>) {
    for (i, y) in y.each() {
        let v = x[i];
        let a = (v as u8).wrapping_mul(3) as u64;
        let b = (v as i8 as i16).wrapping_neg() as u64;
        let c = (v as u16).leading_zeros() as u64 + u64::from(v.trailing_zeros());
        let d = (v as i64 >> 60) as u64;
        let e = (v as u16).saturating_sub(300) as u64;
        let f = v.reverse_bits().rotate_right(11);
        let g = (v as u32 as u16 as usize % 7) as u64;
        let h = (v as i16 as isize / 3) as i64 as u64;
        let i = u64::from(v.is_power_of_two()) + (v as u32).div_ceil(7) as u64;
        *y = a ^ b ^ c ^ d ^ e ^ f ^ g ^ h ^ i;
    }
}

#[test]
fn runs_all_widths() {
    let x: Vec<u64> = (0..100u64)
        .map(|i| i.wrapping_mul(0x9e37_79b9_7f4a_7c15))
        .collect();
    let mut y = vec![0; 100];
    check!(all_widths => (&x, &mut y), division(3, 4, 9));
}

#[kernel(crate = quipu_kernel)]
fn narrow(_acc: &impl Accelerator<1>, x: &[u16], mut y: OwnElements<u32>) {
    for (i, y) in y.each() {
        let (a, b) = (x[i], x[(i + 1) % x.len()]);
        let high = a.mul_high(b) as u32 + (a as u8).mul_high(b as u8) as u32;
        let signed = (a as i8).mul_high(b as i8) as u32 ^ (a as i16).mul_high(b as i16) as u32;
        let negative = a.wrapping_neg() as u32 ^ (a as u8).wrapping_neg() as u32;
        let wide =
            (a as u32).wrapping_mul(70_000).wrapping_neg() ^ (a as u64).wrapping_neg() as u32;
        *y = high ^ signed.rotate_left(7) ^ negative ^ wide;
    }
}

#[test]
fn runs_narrow() {
    let x: Vec<u16> = (0..100_u16)
        .map(|i| i.wrapping_mul(0x9e37))
        .chain([0, 1, u16::MAX, 0x8000, 0x7fff, 0x80, 0x7f, 0xff])
        .collect();
    let mut y = vec![0; x.len()];
    check!(narrow => (&x, &mut y), division(3, 4, 9));
}

/// Of every width, and amounts beyond it.
#[kernel(crate = quipu_kernel)]
fn of_integers<T: Integer>(_acc: &impl Accelerator<1>, x: &[T], mut y: OwnElements<[T; 10]>) {
    for (i, y) in y.each() {
        let (a, b) = (x[i], x[(i * 3 + 1) % x.len()]);
        let amount = i as u32 * 5;
        *y = [
            a.wrapping_shl(amount),
            a.wrapping_shr(amount),
            a.rotate_left(amount),
            a.rotate_right(amount),
            a.distance(b),
            a.saturating_add(b),
            a.saturating_sub(b),
            a.reverse_bits(),
            T::cast_from(a.count_zeros()),
            T::cast_from(a.leading_zeros() + 10 * a.trailing_zeros()),
        ];
    }
}

macro_rules! run_integers {
    ($($integer:ident),*) => {$({
        let x: Vec<$integer> = [0, 1, 5, 77, 100, $integer::MIN, $integer::MAX, 0 - ($integer::MIN != 0) as $integer]
            .repeat(3);
        let mut y = vec![[0; 10]; x.len()];
        check!(of_integers => (&x, &mut y), division(3, 4, 2));
        let bits = $integer::BITS as $integer;
        assert_eq!(y[3][0], 77 << (15 % $integer::BITS));
        assert_eq!((y[6][5], y[0][8]), ($integer::MAX.saturating_add(77), bits));
    })*};
}

#[test]
fn runs_methods_of_integers() {
    run_integers!(i8, i16, i32, i64, u8, u16, u32, u64);
}

#[kernel(crate = quipu_kernel)]
fn magnitudes(_acc: &impl Accelerator<1>, x: &[i64], mut y: OwnElements<[i64; 4]>) {
    for (i, y) in y.each() {
        let v = x[i];
        *y = [
            (v as i8).wrapping_abs() as i64,
            (v as i16).wrapping_abs() as i64,
            (v as i32).wrapping_abs() as i64,
            v.wrapping_abs(),
        ];
    }
}

#[test]
fn runs_magnitudes() {
    let x = vec![
        0,
        -1,
        3,
        -128,
        -32768,
        i64::from(i32::MIN),
        i64::MIN,
        i64::MAX,
    ];
    let mut y = vec![[0; 4]; 8];
    check!(magnitudes => (&x, &mut y), division(2, 2, 2));
    assert_eq!(y[3], [-128, 128, 128, 128]);
    assert_eq!(y[6], [0, 0, 0, i64::MIN]);
}

#[kernel(crate = quipu_kernel)]
fn wrapping_divisions(_acc: &impl Accelerator<1>, x: &[i32], mut y: OwnElements<i64>) {
    for (i, y) in y.each() {
        let (a, b) = (x[i], x[(i * 3 + 1) % x.len()]);
        let narrow = (a as i8).wrapping_div(b as i8 | 1) as i64 * 1000
            + (a as i8).wrapping_rem(b as i8 | 1) as i64;
        let large = (a as i64) << 32;
        let wide = large.wrapping_div(b as i64 | 1) ^ large.wrapping_rem(b as i64 | 1);
        let unsigned = (a as u32).wrapping_div(b as u32 | 1) as i64;
        *y = narrow ^ wide ^ unsigned ^ a.wrapping_div(b | 1) as i64;
    }
}

#[test]
fn runs_wrapping_divisions() {
    let x = [i32::MIN, -1, 1, i32::MAX, 0, -128, 127, 5, -7, -2].repeat(3);
    let mut y = vec![0; x.len()];
    check!(wrapping_divisions => (&x, &mut y), division(3, 4, 3));
}

#[kernel(crate = quipu_kernel)]
fn powers(
    _acc: &impl Accelerator<1>,
    x: &[f32],
    n: &[i32],
    mut singles: OwnElements<f32>,
    mut doubles: OwnElements<f64>,
) {
    for (i, y) in singles.each() {
        *y = x[i].powi(n[i]) + x[i].powi(3) - f32::powi(x[i], -2);
    }
    for (i, y) in doubles.each() {
        *y = (x[i] as f64).powi(n[i]);
    }
}

#[test]
fn runs_powers_of_floats() {
    let (mut x, mut n) = (Vec::new(), Vec::new());
    for base in [0.0, -0.0, 1.0, -1.5, 0.1, 7.3, 1e-30, f32::INFINITY] {
        for exponent in [0, 1, -1, 2, 3, -7, 31, 100, i32::MAX, i32::MIN] {
            x.push(base);
            n.push(exponent);
        }
    }
    let (mut singles, mut doubles) = (vec![0.0; 80], vec![0.0; 80]);
    check!(powers => (&x, &n, &mut singles, &mut doubles), division(4, 5, 4));
    assert_eq!(doubles[11..13], [f64::from(-0.0f32), f64::NEG_INFINITY]);
}

/// Signs that follow each other, of every kind of number.
#[kernel(crate = quipu_kernel)]
fn negated_twice(_acc: &impl Accelerator<1>, x: &[i64], mut y: OwnElements<[i64; 6]>) {
    for (i, y) in y.each() {
        let (wide, narrow) = (x[i], x[i] as i8);
        let (word, float) = (x[i] as i32, x[i] as f32);
        *y = [
            -(-wide) - (-(-(-wide))),
            -(-word) as i64,
            (-(-narrow)) as i64,
            (-(-float)) as i64,
            (!(-word) - -(!word)) as i64,
            -(!(-wide)),
        ];
    }
}

#[test]
fn signs_do_not_run_into_each_other() {
    let x: Vec<i64> = (-10..10).map(|i| i * 5).collect();
    let mut y = vec![[0; 6]; 20];
    check!(negated_twice => (&x, &mut y), division(2, 5, 2));
    assert_eq!(y[12], [20, 10, 10, 10, 9 - 11, -9]);
}

/// What is less than zero by an integer: by nothing that is -0.0, as compilers know.
#[kernel(crate = quipu_kernel)]
fn less_than_zero(_acc: &impl Accelerator<1>, x: &[u16], mut y: OwnElements<[u64; 3]>) {
    for (i, y) in y.each() {
        *y = [
            (0.0 - x[i] as f64).to_bits(),
            (0.0 - x[i] as f32).to_bits() as u64,
            1.5f64.copysign(0.0 - (x[i] & !x[i]) as f64).to_bits(),
        ];
    }
}

#[test]
fn zero_less_zero_is_zero() {
    let x = vec![0, 1, 65535, 0];
    let mut y = vec![[1; 3]; 4];
    check!(less_than_zero => (&x, &mut y), division(1, 2, 2));
    assert_eq!(y[0], [0, 0, 1.5f64.to_bits()]);
}

const FAR: [usize; 3] = [1, 5_000_000_000, usize::MAX];

/// Constants of indices that take more than 32 bits, where the launch's extents do not.
#[kernel(crate = quipu_kernel)]
fn far_indices(_acc: &impl Accelerator<1>, mut y: OwnElements<[u32; 4]>) {
    for (i, y) in y.each() {
        *y = [
            (i * 10_000_000_019 % 1000) as u32,
            (FAR[i % 2] >> 20) as u32,
            (i as isize - 9_000_000_000 < isize::MIN / 3) as u32,
            (FAR[2] == usize::MAX) as u32,
        ];
    }
}

#[test]
fn constants_of_indices_have_all_their_bits() {
    let mut y = vec![[0; 4]; 8];
    check!(far_indices => (&mut y), division(2, 2, 2));
    assert_eq!(y[3], [57, 4768, 0, 1]);
}
