//! Methods of numbers that are made of several operations: with the same bits as std's.

use super::{check, division, natively, run_printed};
use quipu_kernel::{Accelerator, OwnElements, kernel};
use quipu_kernel_testing::Argument;

/// The methods of all integers: of `x`, and of `x` and its neighbour, which may be zero and is no
/// -1.
macro_rules! of_integer {
    ($name:ident, $integer:ident, $unsigned:ident) => {
        #[kernel(crate = quipu_kernel)]
        fn $name(_acc: &impl Accelerator<1>, x: &[$integer], mut y: OwnElements<[u64; 9]>) {
            for (i, y) in y.each() {
                let (a, b) = (x[i], x[(i + 1) % x.len()]);
                let divisor = if b == 0 { 7 } else { b };
                *y = [
                    a.rem_euclid(divisor) as u64,
                    $integer::div_euclid(a, divisor) as u64,
                    a.abs_diff(b) as u64,
                    u64::from($integer::abs_diff(b, a)),
                    u64::from(a.leading_ones()),
                    u64::from(a.trailing_ones()),
                    u64::from((a as $unsigned).is_multiple_of(b as $unsigned)),
                    (a as $unsigned / 4).next_multiple_of(divisor as $unsigned / 2 + 1) as u64,
                    (a as $unsigned / 2).next_power_of_two() as u64,
                ];
                if a as $unsigned > 0 {
                    y[6] += 2 * u64::from((a as $unsigned).ilog2());
                }
            }
        }
    };
}

of_integer!(of_i8, i8, u8);
of_integer!(of_i16, i16, u16);
of_integer!(of_i32, i32, u32);
of_integer!(of_i64, i64, u64);
of_integer!(of_u8, u8, u8);
of_integer!(of_u16, u16, u16);
of_integer!(of_u32, u32, u32);
of_integer!(of_u64, u64, u64);

macro_rules! run_integers {
    ($($name:ident: $integer:ident),*) => {$({
        let x: Vec<$integer> = [
            0, 1, 7, 100, 96, $integer::MAX, 3, $integer::MIN, 2, 0 - 3 * ($integer::MIN != 0) as $integer, 0, $integer::MAX - 1, 5,
        ]
        .into();
        let mut y = vec![[0; 9]; x.len()];
        check!($name => (&x, &mut y), division(3, 5, 1));
        assert_eq!((y[2][1], y[3][0]), (0, 4));
        assert_eq!(y[3][6], 2 * 6);
        assert_eq!((y[1][8], y[2][8], y[3][8]), (1, 4, 64));
        assert_eq!(y[5][2], $integer::MAX as u64 - 3);
    })*};
}

#[test]
fn runs_methods_of_integers() {
    run_integers!(of_i8: i8, of_i16: i16, of_i32: i32, of_i64: i64, of_u8: u8, of_u16: u16, of_u32: u32, of_u64: u64);
}

#[kernel(crate = quipu_kernel)]
fn signs(_acc: &impl Accelerator<1>, x: &[i64], mut y: OwnElements<[u64; 4]>) {
    for (i, y) in y.each() {
        let v = x[i];
        *y = [
            (v as i8).unsigned_abs().into(),
            i32::unsigned_abs(v as i32).into(),
            v.unsigned_abs(),
            u64::from(v.is_negative()) + 2 * u64::from((v as i16).is_positive()),
        ];
    }
}

#[test]
fn runs_signs() {
    let x = vec![0, -1, 3, -128, i64::from(i32::MIN), i64::MIN, i64::MAX, 300];
    let mut y = vec![[0; 4]; x.len()];
    check!(signs => (&x, &mut y), division(2, 2, 2));
    assert_eq!(y[3], [128, 128, 128, 1]);
    assert_eq!(y[5], [0, 0, 1 << 63, 1]);
}

/// Indices have the width of the launch.
#[kernel(crate = quipu_kernel)]
fn of_indices(_acc: &impl Accelerator<1>, mut y: OwnElements<[u32; 5]>) {
    let length = y.extent()[0];
    for (i, y) in y.each() {
        let before = i as isize - 3;
        *y = [
            (i + 1).ilog2(),
            i.next_power_of_two() as u32,
            length.abs_diff(2 * i) as u32,
            before.rem_euclid(4) as u32,
            before.unsigned_abs() as u32 + i.next_multiple_of(4) as u32,
        ];
    }
}

#[test]
fn runs_indices() {
    let mut y = vec![[0; 5]; 9];
    check!(of_indices => (&mut y), division(2, 2, 3));
    assert_eq!(y[0], [0, 1, 9, 1, 3]);
    assert_eq!(y[8], [3, 8, 7, 1, 5 + 8]);
}

macro_rules! of_float {
    ($name:ident, $float:ident) => {
        #[kernel(crate = quipu_kernel)]
        fn $name(_acc: &impl Accelerator<1>, x: &[$float], mut y: OwnElements<[$float; 5]>) {
            for (i, y) in y.each() {
                let (a, b) = (x[i], x[(i + 1) % x.len()]);
                let divisor = if b == 0.0 { $float::INFINITY } else { b };
                *y = [
                    a.rem_euclid(divisor),
                    $float::div_euclid(a, divisor),
                    a.to_degrees(),
                    a.to_radians(),
                    if a.is_sign_positive() { 1.0 } else { -1.0 },
                ];
            }
        }
    };
}

of_float!(of_f32, f32);
of_float!(of_f64, f64);

macro_rules! run_floats {
    ($($name:ident: $float:ident),*) => {$({
        let x: Vec<$float> = vec![
            0.0, 3.0, -7.5, 2.0, 7.5, -2.0, -7.5, -2.0, 1e10, 0.3, -0.1, -0.0, $float::MAX, 4.0, $float::MIN_POSITIVE, -1e-30, 360.0, 1.0,
        ];
        let mut y = vec![[0.0; 5]; x.len()];
        check!($name => (&x, &mut y), division(3, 3, 2));
        assert_eq!(y[2][..2], [0.5, -4.0]);
        assert_eq!(y[6][..2], [0.5, 4.0]);
        assert_eq!((y[0][4], y[11][4]), (1.0, -1.0));
    })*};
}

#[test]
fn runs_methods_of_floats() {
    run_floats!(of_f32: f32, of_f64: f64);
}

#[kernel(crate = quipu_kernel)]
fn logarithms(_acc: &impl Accelerator<1>, x: &[f64], mut y: OwnElements<f64>) {
    for (i, y) in y.each() {
        *y = x[i].log(3.0) + f64::log(x[i], x[0]);
    }
}

#[test]
fn logarithms_are_close() {
    let x = vec![1.5, 81.0, 0.3, 1e10];
    let mut y = vec![0.0; x.len()];
    let arguments = [Argument::buffer(&x), Argument::buffer(&y)];
    natively(&mut y, |y, way| {
        way.run(logarithms(&x, y).prepare(division(2, 2, 1)).unwrap());
    });
    let module = logarithms(&x, &mut y).module().unwrap();
    run_printed(&module, &division(2, 2, 1), &arguments, &[], |launch| {
        for (native, printed) in y.iter().zip(launch.elements::<f64>(1)) {
            assert!((native - printed).abs() < 1e-12 * native.abs());
        }
    });
    assert_eq!(y[0], 1.5_f64.log(3.0) + 1.0);
}
