//! The crate's library besides the language: complex numbers, random numbers, functions of numbers.

use super::{Passed, check, division, natively, run_printed};
use quipu_kernel::{
    Accelerator, Complex, Float, Integer, OwnElements, Philox, Uniform, kernel, philox4x32,
};
use quipu_kernel_ir::{Dialect, IndexWidth, Options};
use quipu_kernel_testing::{Argument, C99Program, Division, Launch};

/// Runs a kernel of an input and an output natively, in every way, and printed, and compares the
/// output to some units in the last place: it goes through functions that devices compute so.
macro_rules! check_nearly {
    ($float:ident, $kernel:expr, $x:expr, $y:expr, $division:expr) => {{
        let output: &mut Vec<_> = $y;
        let arguments = [Argument::buffer($x), Argument::buffer(output)];
        natively(output, |output, way| {
            way.run($kernel($x, output).prepare($division).unwrap());
        });
        let module = $kernel($x, &mut *output).module().unwrap();
        run_printed(&module, &$division, &arguments, &[], |launch| {
            let native: &[$float] = bytemuck::cast_slice(&*output);
            let printed = printed_like(&*output, launch);
            let printed: &[$float] = bytemuck::cast_slice(&printed);
            assert_eq!(native.len(), printed.len());
            for (native, printed) in native.iter().zip(printed) {
                let tolerance = 16.0 * $float::EPSILON * native.abs().max(1.0);
                let is_near = (native - printed).abs() <= tolerance;
                assert!(
                    is_near || native.is_nan() && printed.is_nan() || native == printed,
                    "{native} {printed}"
                );
            }
        });
    }};
}

/// The content of the second argument after a launch.
fn printed_like<T: bytemuck::AnyBitPattern>(_: &[T], launch: &Launch) -> Vec<T> {
    launch.elements(1)
}

#[kernel(crate = quipu_kernel)]
fn julia<T: Float>(_acc: &impl Accelerator<1>, x: &[Complex<T>], mut y: OwnElements<Complex<T>>) {
    for (i, y) in y.each() {
        let mut z = x[i];
        let c = Complex::new(T::cast_from(0.25f64), T::ONE);
        for _ in 0..3 {
            z = z * z + c;
            z += Complex::I - z.conj() / c;
            z *= T::cast_from(0.5f64);
            z -= *y;
            z /= c;
        }
        if z != Complex::ZERO && z.is_finite() {
            z = -z.scale(T::cast_from(3));
        }
        z.im += z.norm_sqr() / (T::ONE + z.norm_sqr());
        *y = z;
    }
}

fn complexes<T: Float>() -> Vec<Complex<T>> {
    let part = |number: i32| T::cast_from(f64::from(number) * 0.375);
    (0..24)
        .map(|i| Complex::new(part(i % 7 - 3), part(i % 5 - 2)))
        .collect()
}

#[test]
fn runs_julia() {
    let x = complexes::<f32>();
    let mut y = complexes::<f32>();
    check!(julia => (&x, &mut y), division(2, 4, 3));
    let x = complexes::<f64>();
    let mut y = complexes::<f64>();
    check!(julia => (&x, &mut y), division(2, 4, 3));
}

#[kernel(crate = quipu_kernel)]
fn functions(_acc: &impl Accelerator<1>, x: &[Complex<f64>], mut y: OwnElements<Complex<f64>>) {
    for (i, y) in y.each() {
        let z = x[i];
        let polar = Complex::from_polar(z.abs(), z.arg());
        let (sin, cos) = (z.sin(), z.cos());
        *y = polar + z.exp().scale(0.1) + (z + 3.0).ln() + z.sqrt() + sin * cos + z.sinh() / 10.0
            - z.cosh() / 10.0
            + (z + 2.5).powf(0.5)
            + z.powc(Complex::new(0.5, 0.25));
    }
}

#[test]
fn runs_functions() {
    let x = complexes::<f64>();
    let mut y = x.clone();
    check_nearly!(f64, functions, &x, &mut y, division(2, 4, 3));
}

#[kernel(crate = quipu_kernel)]
fn inverse_functions(
    _acc: &impl Accelerator<1>,
    x: &[Complex<f64>],
    mut y: OwnElements<Complex<f64>>,
) {
    for (i, y) in y.each() {
        // Away from the cuts, where the last bit of a function chooses the side.
        let z = x[i] * 0.5 + Complex::new(0.1, 0.3);
        let (abs, arg) = z.to_polar();
        let trigonometric = z.asin() + z.acos() * 2.0 + z.atan() + z.tan();
        let hyperbolic = z.asinh() + z.acosh() + z.atanh() + z.tanh();
        let powers = z.powi(-3) + z.powu(5) + z.cbrt() + z.rsqrt() + z.exp2() + z.expf(3.0);
        let logarithms = z.log2() + z.log10() + z.log(3.0) + 2.0 / z + 0.5 * z.inv();
        let parts = Complex::cis(arg).scale(abs) + z.proj().unscale(2.0) + (1.0 - z);
        *y = trigonometric + hyperbolic + powers + logarithms + parts;
        if z.is_nan() || z.is_infinite() {
            *y = Complex::new(z.l1_norm(), z.norm());
        }
    }
}

#[test]
fn runs_inverse_functions() {
    let x = complexes::<f64>();
    let mut y = x.clone();
    check_nearly!(f64, inverse_functions, &x, &mut y, division(2, 4, 3));
}

#[kernel(crate = quipu_kernel)]
fn draws(_acc: &impl Accelerator<1>, seed: u32, mut y: OwnElements<[u32; 8]>) {
    for (i, y) in y.each() {
        let words = philox4x32([i as u32, 1, 2, 3], [seed, 5]);
        let mut random = Philox::new(seed as u64 * 0x1_0000_0001, i as u64);
        let f: f32 = random.uniform();
        let d = random.uniform::<f64>();
        let many = random.next_u64();
        *y = [
            words[0] ^ words[1] ^ words[2] ^ words[3],
            random.next_u32(),
            f.to_bits(),
            (d.to_bits() >> 16) as u32,
            random.below(1000),
            random.below(0xaaaa_aaaa),
            random.below_u64(many) as u32,
            random.at(10 + i as u64).next_u32(),
        ];
    }
}

#[test]
fn runs_draws() {
    let mut y = vec![[0; 8]; 24];
    check!(draws => (7u32, &mut y), division(2, 4, 3));
    let mut random = Philox::new(7 * 0x1_0000_0001, 5);
    assert_eq!(y[5][2], random.uniform::<f32>().to_bits());
}

#[kernel(crate = quipu_kernel)]
fn normals<T: Uniform>(_acc: &impl Accelerator<1>, seed: &[u64], mut y: OwnElements<[T; 3]>) {
    for (i, y) in y.each() {
        let mut random = Philox::new(seed[0], i as u64);
        let (a, b) = random.normal_pair::<T>();
        *y = [a, b, random.normal()];
    }
}

#[test]
fn runs_normals() {
    let seed = vec![3u64];
    let mut y = vec![[0f32; 3]; 24];
    check_nearly!(f32, normals, &seed, &mut y, division(2, 4, 3));
    let mut y = vec![[0f64; 3]; 24];
    check_nearly!(f64, normals, &seed, &mut y, division(2, 4, 3));
}

#[kernel(crate = quipu_kernel)]
fn powers<T: Integer>(_acc: &impl Accelerator<1>, x: &[T], mut y: OwnElements<[T; 3]>) {
    for (i, y) in y.each() {
        // Small enough not to overflow, which is a panic where debug assertions are on.
        let small = x[i] % T::cast_from(5);
        let first = T::cast_from(x[i].find_first_set());
        *y = [small.pow(i as u32 % 3), x[i].pow(1), first];
    }
}

macro_rules! run_powers {
    ($($integer:ident),*) => {$({
        let x: Vec<$integer> = (0..24).map(|i| i * 5).chain([$integer::MIN, $integer::MAX]).collect();
        let mut y = vec![[0; 3]; 26];
        check!(powers => (&x, &mut y), division(2, 4, 4));
        assert_eq!(y[8], [0, 40, 4]);
        assert_eq!(y[25][1..], [$integer::MAX, 1]);
    })*};
}

#[test]
fn runs_powers() {
    run_powers!(u8, i16, i32, u32, i64, u64);
}

#[kernel(crate = quipu_kernel)]
fn wrapping_powers(_acc: &impl Accelerator<1>, x: &[i32], mut y: OwnElements<i32>) {
    for (i, y) in y.each() {
        *y = x[i].wrapping_pow(i as u32 * 7) + i32::pow(2, 3);
    }
}

#[test]
fn runs_wrapping_powers() {
    let x: Vec<i32> = (-12..12).collect();
    let mut y = vec![0; 24];
    check!(wrapping_powers => (&x, &mut y), division(2, 4, 3));
}

#[kernel(crate = quipu_kernel)]
fn remainders<T: Float>(_acc: &impl Accelerator<1>, x: &[T], mut y: OwnElements<[T; 2]>) {
    for (i, y) in y.each() {
        let divisor = x[(i * 5 + 1) % x.len()];
        *y = [x[i].remainder(divisor), x[i] % divisor];
    }
}

#[test]
fn runs_remainders() {
    let x: Vec<f32> = (1..30u8).map(|i| f32::from(i) * 0.75 - 9.3).collect();
    let mut y = vec![[0.0; 2]; 29];
    check!(remainders => (&x, &mut y), division(2, 4, 4));
}

#[kernel(crate = quipu_kernel)]
fn circles<T: Float>(_acc: &impl Accelerator<1>, x: &[T], mut y: OwnElements<[T; 3]>) {
    for (i, y) in y.each() {
        let (sin, cos) = x[i].sin_cos();
        let pair = T::sin_cos(x[i] * x[i]);
        *y = [sin, cos, pair.0 * sin + pair.1 * cos];
    }
}

#[test]
fn runs_circles() {
    let x: Vec<f32> = (0..24u8).map(f32::from).collect();
    let mut y = vec![[0.0; 3]; 24];
    check_nearly!(f32, circles, &x, &mut y, division(2, 4, 3));
    assert_eq!(y[0], [0.0, 1.0, 1.0]);
}

#[kernel(crate = quipu_kernel)]
fn timed(acc: &impl Accelerator<1>, rounds: u32, mut y: OwnElements<[u64; 2]>) {
    for (i, y) in y.each() {
        let before = acc.clock();
        let mut hash = i as u64;
        for _ in 0..rounds {
            hash = hash.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(1);
        }
        *y = [hash, acc.clock() - before];
    }
}

/// Of clocks nothing is the same twice but that they do not go back.
#[test]
fn clocks_do_not_go_back() {
    let mut y = vec![[0, u64::MAX]; 12];
    let arguments = [1000u32.argument(), (&mut y).argument()];
    let module = timed(1000, &mut y).module().unwrap();
    timed(1000, &mut y).run(division(2, 3, 2)).unwrap();
    let options = Options::new(Dialect::C99, IndexWidth::Bits32);
    let printed = module.print(Dialect::C99, &options).unwrap();
    let mut launch = Launch::new(Division::new([2], [3], [2]), arguments);
    let program = C99Program::compile(&printed).unwrap();
    assert_eq!(program.run(&mut launch).unwrap(), None);
    for (native, printed) in y.iter().zip(launch.elements::<[u64; 2]>(1)) {
        assert_eq!(native[0], printed[0]);
        assert!(native[1] <= i64::MAX as u64 && printed[1] <= i64::MAX as u64);
    }
}
