//! Functions of `float` that are made of arithmetic: within the standard's bounds over bit patterns
//! of all kinds, and the standard's values at limits.

mod support;

use quipu_clc::Program;
use support::{Launch, program};

/// Every so many bit patterns one is tried: an odd number, so that all last bits occur.
const STEP: usize = 2047;

/// Runs `y[i] = EXPRESSION` on bit patterns.
fn of_bits(program: &Program, kernel: &str, inputs: &[&[f32]]) -> Vec<f32> {
    let output = vec![0_f32; inputs[0].len()];
    let mut launch = Launch::new([output.len(), 1, 1], [64, 1, 1]);
    for input in inputs {
        launch.memory(input);
    }
    launch.memory(&output);
    launch.run(program, kernel);
    output
}

/// How far a result is from what is wanted, in units of the last place of that.
fn units_off(found: f32, wanted: f64) -> f64 {
    let nearest = wanted as f32;
    if nearest.is_nan() || found.is_nan() {
        return if nearest.is_nan() == found.is_nan() {
            0.0
        } else {
            f64::INFINITY
        };
    }
    if nearest == found {
        return 0.0;
    }
    if nearest.is_infinite() {
        // The largest number is the one before.
        return if found == f32::MAX.copysign(nearest) {
            1.0
        } else {
            f64::INFINITY
        };
    }
    let place = nearest.abs().max(f32::MIN_POSITIVE);
    let unit = f64::from(place.next_up()) - f64::from(place);
    (f64::from(found) - wanted).abs() / unit
}

#[test]
fn functions_are_within_the_standards_bounds_for_numbers_of_all_sizes() {
    type Function = (&'static str, fn(f64) -> f64, f64);
    let functions: &[Function] = &[
        ("sin", f64::sin, 4.0),
        ("cos", f64::cos, 4.0),
        ("tan", f64::tan, 5.0),
        ("tanh", f64::tanh, 5.0),
        ("exp", f64::exp, 3.0),
        ("exp2", f64::exp2, 3.0),
        ("exp10", |x| 10_f64.powf(x), 3.0),
        ("log", f64::ln, 3.0),
        ("log2", f64::log2, 3.0),
        ("log10", f64::log10, 3.0),
    ];
    let mut text = String::new();
    for (name, _, _) in functions {
        text += &format!(
            "kernel void k_{name}(global const float *x, global float *y) {{ size_t i = get_global_id(0); y[i] = {name}(x[i]); }}\n"
        );
    }
    let Some(program) = program(&text) else {
        return;
    };
    let all = (0..=u32::MAX).step_by(STEP).map(f32::from_bits);
    // Those near one, where logarithms are small, and of usual sizes.
    let near = (0..8192).map(|at| 1.0 + (at - 4096) as f32 / 16384.0);
    let usual = (0..1 << 16).map(|at| (at - (1 << 15)) as f32 / 256.0);
    let mut x: Vec<f32> = all.chain(near).chain(usual).collect();
    x.extend([
        0.0,
        -0.0,
        f32::INFINITY,
        f32::NEG_INFINITY,
        f32::NAN,
        65535.996,
        65536.0,
    ]);
    x.resize(x.len().next_multiple_of(64), 1.0);
    for (name, function, bound) in functions {
        let y = of_bits(&program, &format!("k_{name}"), &[&x]);
        for (x, y) in x.iter().zip(y) {
            let wanted = function(f64::from(*x));
            let off = units_off(y, wanted);
            assert!(
                off <= bound + 0.5,
                "{name}({x:e}) is {wanted:e}, and not {y:e}: {off} ulp"
            );
            assert!(
                wanted != 0.0 || y != 0.0 || y.is_sign_negative() == wanted.is_sign_negative(),
                "{name}({x:e}) has the sign of {wanted:e}"
            );
        }
    }
}

#[test]
fn powers_are_within_the_standards_bounds_and_right_at_limits() {
    let text = "kernel void k(global const float *x, global const float *y, global float *z) {
        size_t i = get_global_id(0); z[i] = pow(x[i], y[i]);
    }";
    let Some(program) = program(text) else {
        return;
    };
    let special = [
        0.0,
        -0.0,
        1.0,
        -1.0,
        2.0,
        -2.0,
        3.0,
        -3.0,
        0.5,
        -0.5,
        1e-40,
        -1e-40,
        1e30,
        -1e30,
        16777216.0,
        16777215.0,
        -16777217.0,
        f32::INFINITY,
        f32::NEG_INFINITY,
        f32::NAN,
        f32::MAX,
        f32::MIN_POSITIVE,
        0.999_999_94,
        1.000_000_1,
    ];
    let (mut x, mut y) = (Vec::new(), Vec::new());
    for base in special {
        for exponent in special {
            x.push(base);
            y.push(exponent);
        }
    }
    // Bases of all sizes, each with exponents for which the power is a number.
    for base in (1..0x7f80_0000_u32).step_by(1 << 14).map(f32::from_bits) {
        let most = 128.0 / base.log2().abs().max(1e-6);
        for part in [-1.05_f32, -0.97, -0.3, -0.001, 0.02, 0.5, 0.99, 1.1] {
            x.push(base);
            y.push(most * part);
        }
    }
    x.resize(x.len().next_multiple_of(64), 1.0);
    y.resize(x.len(), 1.0);
    let z = of_bits(&program, "k", &[&x, &y]);
    for ((x, y), z) in x.iter().zip(&y).zip(z) {
        let wanted = f64::from(*x).powf(f64::from(*y));
        let off = units_off(z, wanted);
        assert!(
            off <= 16.5,
            "pow({x:e}, {y:e}) is {wanted:e}, and not {z:e}: {off} ulp"
        );
        assert!(
            wanted != 0.0 || z != 0.0 || z.is_sign_negative() == wanted.is_sign_negative(),
            "pow({x:e}, {y:e}) has the sign of {wanted:e}"
        );
    }
}
