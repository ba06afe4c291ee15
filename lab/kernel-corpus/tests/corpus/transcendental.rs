//! Functions whose last bits differ between devices: natively and printed within stated units in
//! the last place.

use super::{Passed, division, natively, run_printed};
use quipu_kernel::{Accelerator, Float, KernelData, OwnElements, kernel};

/// The allowed distances of two results, in the order of `functions`: those that OpenCL allows a
/// device (*The OpenCL C Specification*, "Relative Error as ULPs"), which are more than C libraries
/// need, and 1 for native code. But for `atanh`, which std computes by a formula that loses more
/// near -1 than OpenCL allows. (As its `acosh` does near 1, where it is not asked.)
const ULPS: [u64; 25] = [
    5, 5, 5, 5, 6, 7, 21, 3, 5, 5, 17, 4, 4, 4, 5, 4, 3, 4, 4, 17, 3, 5, 5, 6, 6,
];

/// Their names, as [`Float`]'s documentation has them.
const NAMES: [&str; 25] = [
    "acos", "acosh", "asin", "asinh", "atan", "atan2", "atanh", "cbrt", "cos", "cosh", "erf",
    "exp", "exp2", "exp_m1", "hypot", "ln", "ln_1p", "log2", "log10", "powf", "rsqrt", "sin",
    "sinh", "tan", "tanh",
];

#[test]
fn the_documentation_says_how_far_apart() {
    let rows = include_str!("../../../../kernels/lang/src/number/float.rs").lines();
    let mut said: Vec<(&str, u64)> = Vec::new();
    for row in rows.filter_map(|line| line.strip_prefix("/// | ")) {
        if let Some((ulps, names)) = row.split_once(" | ")
            && let Ok(ulps) = ulps.parse()
        {
            let names = names.split('`').skip(1).step_by(2);
            said.extend(names.map(|name| (name, ulps)));
        }
    }
    said.sort_unstable();
    let mut expected: Vec<_> = NAMES.into_iter().zip(ULPS).collect();
    expected.sort_unstable();
    assert_eq!(said, expected);
}

#[kernel(crate = quipu_kernel)]
fn functions<T: Float + KernelData>(
    _acc: &impl Accelerator<1>,
    x: &[T],
    z: &[T],
    mut y: OwnElements<T>,
) {
    for (i, y) in y.each() {
        let (x, z) = (x[i / 25], z[i / 25]);
        *y = match i % 25 {
            0 => x.acos(),
            1 => (x + x.signum() + x.signum()).acosh(),
            2 => x.asin(),
            3 => x.asinh(),
            4 => x.atan(),
            5 => x.atan2(z),
            6 => x.atanh(),
            7 => x.cbrt(),
            8 => x.cos(),
            9 => x.cosh(),
            10 => x.erf(),
            11 => x.exp(),
            12 => x.exp2(),
            13 => x.exp_m1(),
            14 => x.hypot(z),
            15 => x.ln(),
            16 => x.ln_1p(),
            17 => x.log2(),
            18 => x.log10(),
            19 => x.powf(z),
            20 => x.rsqrt(),
            21 => x.sin(),
            22 => x.sinh(),
            23 => x.tan(),
            _ => x.tanh(),
        };
    }
}

/// Arguments of all sizes at which the functions do something, in 400 pairs.
fn arguments() -> impl Iterator<Item = (f64, f64)> {
    (0..400).map(|i| {
        let spread = f64::from(i * 167 % 400) / 200.0 - 1.0;
        let scale = [1.0, 4.0, 50.0][i as usize % 3];
        (spread * scale, f64::from(i % 37) / 4.0 - 3.0)
    })
}

/// Compares what was computed natively with what was printed, by the places of floats among all
/// floats.
fn compare<T: Float + std::fmt::Display>(
    x: &[T],
    native: &[T],
    printed: &[T],
    place: fn(T) -> i64,
) {
    assert_eq!(native.len(), printed.len());
    for (i, (native, printed)) in native.iter().zip(printed).enumerate() {
        let apart = place(*native).abs_diff(place(*printed));
        let same = native.is_nan() && printed.is_nan() || apart <= ULPS[i % 25];
        let (function, x) = (NAMES[i % 25], x[i / 25]);
        assert!(
            same,
            "`{function}` of {x}: {native} and {printed}, {apart} ulp apart"
        );
    }
}

#[test]
fn functions_of_single_precision_are_close() {
    let x: Vec<f32> = arguments().map(|(x, _)| x as f32).collect();
    let z: Vec<f32> = arguments().map(|(_, z)| z as f32).collect();
    let mut y = vec![0.0; 25 * x.len()];
    let given = [(&x).argument(), (&z).argument(), (&mut y).argument()];
    let division = division(10, 1, 1000);
    natively(&mut y, |y, way| {
        way.run(functions(&x, &z, y).prepare(division).unwrap());
    });
    let module = functions(&x, &z, &mut y).module().unwrap();
    run_printed(&module, &division, &given, &[], |launch| {
        compare(&x, &y, &launch.elements::<f32>(2), |x| {
            let bits = i64::from(x.to_bits().cast_signed());
            if bits < 0 {
                i64::from(i32::MIN) - bits
            } else {
                bits
            }
        });
    });
}

#[test]
fn functions_of_double_precision_are_close() {
    let (x, z): (Vec<f64>, Vec<f64>) = arguments().unzip();
    let mut y = vec![0.0; 25 * x.len()];
    let given = [(&x).argument(), (&z).argument(), (&mut y).argument()];
    let division = division(10, 1, 1000);
    natively(&mut y, |y, way| {
        way.run(functions(&x, &z, y).prepare(division).unwrap());
    });
    let module = functions(&x, &z, &mut y).module().unwrap();
    run_printed(&module, &division, &given, &[], |launch| {
        compare(&x, &y, &launch.elements::<f64>(2), |x| {
            let bits = x.to_bits().cast_signed();
            if bits < 0 { i64::MIN - bits } else { bits }
        });
    });
}
