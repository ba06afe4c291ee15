//! Functions of `float` that are made of arithmetic: within the standard's bounds over bit patterns
//! of all kinds, and the standard's values at limits.

mod support;

use quipu_clc::{Output, Program};
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

/// The distance of a result from the wanted one, in units of the last place of that.
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

/// The standard leaves what `half_` functions of angles above 2^16 are, but it is a sine, a cosine
/// and a number.
#[test]
fn functions_of_far_angles_have_numbers_of_their_range() {
    let text = "kernel void sines(global const float *x, global float *y) { size_t i = get_global_id(0); y[i] = half_sin(x[i]); }
        kernel void cosines(global const float *x, global float *y) { size_t i = get_global_id(0); y[i] = half_cos(x[i]); }
        kernel void tangents(global const float *x, global float *y) { size_t i = get_global_id(0); y[i] = half_tan(x[i]); }";
    let Some(program) = program(text) else {
        return;
    };
    let mut x: Vec<f32> = (0..1024)
        .map(|at| f32::from_bits(0x4780_0000 + at * 0x000d_ffff))
        .collect();
    assert!(x.iter().all(|x| x.is_finite() && *x >= 65536.0));
    x.extend(x.clone().iter().map(|x| -x));
    x.extend([f32::INFINITY; 64]);
    for kernel in ["sines", "cosines", "tangents"] {
        let y = of_bits(&program, kernel, &[&x]);
        for (x, y) in x.iter().zip(&y) {
            let is_right = match kernel {
                _ if x.is_infinite() => y.is_nan(),
                "tangents" => y.is_finite(),
                _ => y.abs() <= 1.0,
            };
            assert!(is_right, "{kernel} of {x:e}: {y}");
        }
        // In the range that the standard asks for, both functions are near.
        let far = [65536.0, -65536.0, 65535.5, 60000.0].repeat(16);
        let y = of_bits(&program, kernel, &[&far]);
        for (x, y) in far.iter().zip(&y) {
            let x = f64::from(*x);
            let wanted = match kernel {
                "sines" => x.sin(),
                "cosines" => x.cos(),
                _ => x.tan(),
            };
            assert!(units_off(*y, wanted) <= 8192.0, "{kernel} of {x}: {y}");
        }
    }
}

/// With a relaxed arithmetic, too, a quotient is within 2.5 units of the last place.
#[test]
fn relaxed_quotients_of_short_vectors_are_near() {
    if program("kernel void f() {}").is_none() {
        return;
    }
    let text = "kernel void f(global const float4 *a, global const float4 *b, global float4 *y) { size_t i = get_global_id(0); y[i] = a[i] / b[i]; }";
    let program = Program::new(text, "-cl-fast-relaxed-math").unwrap();
    // Estimates of other processors are less exact than those of this one may be.
    let code = program
        .emit("f", None, Output::Assembly)
        .unwrap_or_else(|error| panic!("{error}"));
    let code = String::from_utf8_lossy(&code);
    assert!(!code.contains("rcp"), "{code}");
    let mut a = support::random(1 << 14, 5);
    let mut b = support::random(1 << 14, 6);
    (a[0], b[0]) = (-4117.688, f32::from_bits(0xbb82_4ff4));
    let y = vec![0_f32; a.len()];
    let mut launch = Launch::new([a.len() / 4, 1, 1], [1, 1, 1]);
    launch.memory(&a);
    launch.memory(&b);
    launch.memory(&y);
    launch.run(&program, "f");
    for ((a, b), y) in a.iter().zip(&b).zip(&y) {
        let off = units_off(*y, f64::from(*a) / f64::from(*b));
        assert!(off <= 2.5, "{a:e} / {b:e} = {y:e}, {off} units off");
    }
}

/// Roots of `double` are within two units of the last place, of which systems' functions have more.
#[test]
fn cube_roots_of_double_are_near() {
    let text = "kernel void f(global const double *x, global double *y) { size_t i = get_global_id(0); y[i] = cbrt(x[i]); }";
    let Some(program) = program(text) else {
        return;
    };
    let far = [
        0xff02_7000_0000_0000_u64,
        0xfe8b_d000_0000_0200,
        1,
        3,
        0x000f_ffff_ffff_ffff,
    ];
    let all = (0..1_u64 << 16).map(|at| at * 0x0000_7ff0_0123_4567);
    let mut x: Vec<f64> = far.into_iter().chain(all).map(f64::from_bits).collect();
    x.retain(|x| x.is_finite() && *x != 0.0);
    x.truncate(x.len() / 64 * 64);
    let limits = [0.0, -0.0, f64::INFINITY, f64::NEG_INFINITY, f64::NAN];
    x.splice(8..13, limits);
    let y = vec![0_f64; x.len()];
    let mut launch = Launch::new([x.len(), 1, 1], [64, 1, 1]);
    launch.memory(&x);
    launch.memory(&y);
    launch.run(&program, "f");
    for (x, y) in x.iter().zip(&y) {
        if !x.is_finite() || *x == 0.0 {
            let same = x.to_bits() == y.to_bits() || x.is_nan() && y.is_nan();
            assert!(same, "the root of {x} is {y}");
            continue;
        }
        // What its cube is off, with numbers that hold twice as many digits.
        let (scale, root_scale) = match x.abs() < 1e-200 {
            true => (2_f64.powi(300), 2_f64.powi(100)),
            false => (1.0, 1.0),
        };
        let (x, r) = (x * scale, y * root_scale);
        let square = r * r;
        let rest = r.mul_add(r, -square);
        let off = (square.mul_add(r, -x) + rest * r) / (3.0 * square);
        let unit = r.abs().next_up() - r.abs();
        assert!(
            (off / unit).abs() <= 1.0,
            "the root of {x:e} is {r:e}: {}",
            off / unit
        );
    }
}

#[test]
fn functions_of_parts_of_half_a_turn_are_within_the_standards_bounds() {
    /// The sine of so many half turns, of what is left of whole ones.
    fn sine(halves: f64) -> f64 {
        let rest = halves - 2.0 * (halves * 0.5).round_ties_even();
        let near = rest.abs().min(1.0 - rest.abs());
        (near * std::f64::consts::PI)
            .sin()
            .copysign(if near == 0.0 { halves } else { rest })
    }
    fn cosine(halves: f64) -> f64 {
        let rest = (halves - 2.0 * (halves * 0.5).round_ties_even()).abs();
        (std::f64::consts::PI * (0.5 - rest)).sin()
    }
    type Function = (&'static str, fn(f64) -> f64, f64);
    let functions: &[Function] = &[
        ("sinpi", sine, 4.0),
        ("cospi", cosine, 4.0),
        ("tanpi", |x| sine(x) / cosine(x), 6.0),
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
    let usual = (0..1 << 16).map(|at| (at - (1 << 15)) as f32 / 4099.0);
    let mut x: Vec<f32> = all.chain(usual).collect();
    x.extend([0.0, -0.0, 0.25, 0.5, 0.75, 1.0, -1.5, 0.5_f32.next_down()]);
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
        }
    }
}

#[test]
fn powers_and_roots_of_whole_numbers_are_within_the_standards_bounds() {
    let text = "kernel void k_pown(global const float *x, global const float *n, global float *y) {
            size_t i = get_global_id(0); y[i] = pown(x[i], as_int(n[i])); }
        kernel void k_rootn(global const float *x, global const float *n, global float *y) {
            size_t i = get_global_id(0); y[i] = rootn(x[i], as_int(n[i])); }";
    let Some(program) = program(text) else {
        return;
    };
    let whole = [
        0,
        1,
        -1,
        2,
        -2,
        3,
        -3,
        4,
        5,
        7,
        -9,
        10,
        31,
        100,
        -127,
        1001,
        65_536,
        16_777_217,
        -33_554_433,
        1 << 30,
        (1 << 30) + 1,
        i32::MAX,
        i32::MIN,
    ];
    let near = (-40..=40).map(|at| f32::from_bits((1.0_f32.to_bits() as i32 + at) as u32));
    let all = (0..=u32::MAX).step_by(STEP * 101).map(f32::from_bits);
    let mut numbers: Vec<f32> = near.chain(all).collect();
    numbers.extend([
        0.0,
        -0.0,
        -1.0,
        2.0,
        -8.0,
        0.1,
        f32::INFINITY,
        f32::NEG_INFINITY,
    ]);
    let (mut x, mut n) = (Vec::new(), Vec::new());
    for number in &numbers {
        for power in whole {
            x.push(*number);
            n.push(f32::from_bits(power as u32));
        }
    }
    x.resize(x.len().next_multiple_of(64), 1.0);
    n.resize(x.len(), 0.0);
    let root = |x: f64, n: i32| match n {
        0 => f64::NAN,
        _ if n & 1 != 0 => x.abs().powf(1.0 / f64::from(n)).copysign(x),
        _ if x < 0.0 => f64::NAN,
        _ => x.abs().powf(1.0 / f64::from(n)),
    };
    for name in ["pown", "rootn"] {
        let y = of_bits(&program, &format!("k_{name}"), &[&x, &n]);
        for ((x, n), y) in x.iter().zip(&n).zip(y) {
            let n = n.to_bits() as i32;
            let wanted = match name {
                "pown" => f64::from(*x).powf(f64::from(n)),
                _ => root(f64::from(*x), n),
            };
            let off = units_off(y, wanted);
            assert!(
                off <= 16.5,
                "{name}({x:e}, {n}) is {wanted:e}, and not {y:e}: {off} ulp"
            );
        }
    }
}

#[test]
fn inverse_roots_are_within_the_standards_bounds_and_right_at_limits() {
    let text = "kernel void k(global const float *x, global float *y) {
        size_t i = get_global_id(0); y[i] = rsqrt(x[i]);
    }
    kernel void one(global const float *x, global float *y) {
        for (int i = 0; i < 64; i++) y[i] = rsqrt(x[i * (int)get_global_size(0)]);
    }
    kernel void of_each_other(global const float *x, global float *y) {
        int i = get_global_id(0), n = get_global_size(0), a = 1000000 + i;
        y[i] = rsqrt(rsqrt(rsqrt(x[i]))) + a / (i + 1) / (i % 7 + 1) % (i + 3);
    }";
    let Some(program) = program(text) else {
        return;
    };
    let mut x: Vec<f32> = (0..=u32::MAX).step_by(STEP).map(f32::from_bits).collect();
    let limits = [
        0.0,
        -0.0,
        f32::INFINITY,
        f32::NEG_INFINITY,
        f32::NAN,
        f32::from_bits(1),
        f32::MIN_POSITIVE,
        f32::MAX,
        -1.0,
        1.0,
    ];
    x.extend(limits);
    x.resize(x.len().next_multiple_of(64), 1.0);
    let check = |x: &f32, y: f32| {
        let wanted = 1.0 / f64::from(*x).sqrt();
        let off = units_off(y, wanted);
        assert!(
            off <= 2.0,
            "rsqrt({x:e}) is {wanted:e}, and not {y:e}: {off} ulp"
        );
        assert!(wanted.is_nan() || wanted.is_sign_negative() == y.is_sign_negative());
    };
    for (x, y) in x.iter().zip(of_bits(&program, "k", &[&x])) {
        check(x, y);
    }
    let code = program.emit("k", Some([64, 1, 1]), Output::Optimised);
    let code = String::from_utf8_lossy(&code.unwrap()).into_owned();
    assert!(!code.contains("quipu.form"), "{code}");
    if code.contains("rsqrt14") {
        assert!(!code.contains("llvm.sqrt.v"), "{code}");
    }
    // One is the operand of another.
    let y = of_bits(&program, "of_each_other", &[&x[..64]]);
    for (i, (x, y)) in (0_i32..).zip(x.iter().zip(y)) {
        let number = (1_000_000 + i) / (i + 1) / (i % 7 + 1) % (i + 3);
        let wanted = f64::from(*x).powf(-0.125) + f64::from(number);
        assert!((f64::from(y) - wanted).abs() < 1e-5 * wanted || wanted.is_infinite());
    }
    // One work-item has a plain root.
    let y = vec![0_f32; 64];
    let mut launch = Launch::new([1, 1, 1], [1, 1, 1]);
    launch.memory(&x[..64]);
    launch.memory(&y);
    launch.run(&program, "one");
    for (x, y) in x.iter().zip(y) {
        check(x, y);
    }
}

#[test]
fn near_angles_beside_each_other_need_no_table() {
    let text =
        "kernel void k(global const float *x, global float *y, global float *z, global float *t) {
        size_t i = get_global_id(0); y[i] = sin(x[i]); z[i] = cos(x[i]); t[i] = tan(x[i]);
    }";
    let Some(program) = program(text) else {
        return;
    };
    let code = program.emit("k", Some([64, 1, 1]), Output::Optimised);
    let code = String::from_utf8_lossy(&code.unwrap()).into_owned();
    assert!(!code.contains("gather"), "{code}");
    // Near ones and far ones beside each other.
    let far = |at: usize| if at.is_multiple_of(3) { 3e6 } else { 1.0 };
    let x: Vec<f32> = (0..256).map(|at| far(at) + at as f32).collect();
    let [y, z, t] = [(); 3].map(|()| vec![0_f32; 256]);
    let mut launch = Launch::new([256, 1, 1], [64, 1, 1]);
    for memory in [&x, &y, &z, &t] {
        launch.memory(memory);
    }
    launch.run(&program, "k");
    for (at, x) in x.iter().enumerate() {
        let angle = f64::from(*x);
        for (found, wanted) in [
            (y[at], angle.sin()),
            (z[at], angle.cos()),
            (t[at], angle.tan()),
        ] {
            let off = units_off(found, wanted);
            assert!(off <= 5.5, "of {x:e} it is {wanted:e}, and not {found:e}");
        }
    }
}
