//! Mathematical functions for devices without a system's library, run on the processor: within the
//! standard's bounds of the system's own functions, and the standard's values at limits.

mod support;

use support::{Launch, program};

/// The functions' text. Here they have names of their own, by which the kernels call them.
const TEXT: &str = include_str!("../src/compiler/double.cl");

/// A program that has the functions, and these kernels.
fn with_functions(kernels: &str) -> String {
    let text = TEXT.replace("__asm__(\"quipu.math.\" symbol)", "");
    format!("#define PART_system\n{text}\n{kernels}")
}

#[cfg(unix)]
mod libm {
    unsafe extern "C" {
        pub(super) safe fn cbrt(x: f64) -> f64;
        pub(super) safe fn erf(x: f64) -> f64;
        pub(super) safe fn erfc(x: f64) -> f64;
        pub(super) safe fn tgamma(x: f64) -> f64;
        pub(super) safe fn lgamma(x: f64) -> f64;
        pub(super) safe fn logb(x: f64) -> f64;
        pub(super) safe fn exp10(x: f64) -> f64;
        pub(super) safe fn asinh(x: f64) -> f64;
        pub(super) safe fn acosh(x: f64) -> f64;
        pub(super) safe fn atanh(x: f64) -> f64;
        pub(super) safe fn fdim(x: f64, y: f64) -> f64;
        pub(super) safe fn remainder(x: f64, y: f64) -> f64;
        pub(super) safe fn nextafter(x: f64, y: f64) -> f64;
        pub(super) safe fn ldexp(x: f64, n: i32) -> f64;
        pub(super) safe fn ilogb(x: f64) -> i32;
    }
}

/// The distance of a result from the wanted one, in units of the last place of that.
fn units_off(found: f64, wanted: f64) -> f64 {
    if wanted.is_nan() || found.is_nan() {
        return if wanted.is_nan() == found.is_nan() {
            0.0
        } else {
            f64::INFINITY
        };
    }
    if found == wanted {
        return 0.0;
    }
    let place = wanted.abs().clamp(f64::MIN_POSITIVE, f64::MAX / 2.0);
    (found - wanted).abs() / (place.next_up() - place)
}

/// Numbers of all sizes, those near one, usual ones, and the limits.
fn numbers() -> Vec<f64> {
    const STEP: u64 = 0x0003_0c01_2345_6789;
    let all = (0..1_u64 << 14).map(|at| f64::from_bits(at.wrapping_mul(STEP)));
    let near = (0..4096).map(|at| 1.0 + (f64::from(at) - 2048.0) / 8192.0);
    let small = (0..4096).map(|at| (f64::from(at) - 2048.0) / 1500.0);
    let usual = (0..1 << 14).map(|at| (f64::from(at) - 8192.0) / 11.0);
    let limits = [
        0.0,
        1.0,
        0.5,
        2.0,
        5e-324,
        2.2e-308,
        f64::MIN_POSITIVE,
        f64::MAX,
        f64::INFINITY,
        f64::NAN,
        std::f64::consts::FRAC_PI_2,
        709.782712893384,
        745.1332191019411,
        171.6243769563027,
    ];
    let limits = limits.into_iter().flat_map(|x| [x, -x]);
    let mut all: Vec<f64> = all
        .chain(near)
        .chain(small)
        .chain(usual)
        .chain(limits)
        .collect();
    all.resize(all.len().next_multiple_of(64), 1.0);
    all
}

#[cfg(unix)]
#[test]
fn functions_of_one_number_are_near_those_of_the_system() {
    type Function = (&'static str, fn(f64) -> f64, f64);
    // The system's own are off by one unit, and those of gamma by several.
    let functions: &[Function] = &[
        ("sin", f64::sin, 2.0),
        ("cos", f64::cos, 2.0),
        ("tan", f64::tan, 3.0),
        ("asin", f64::asin, 2.0),
        ("acos", f64::acos, 2.0),
        ("atan", f64::atan, 2.0),
        ("sinh", f64::sinh, 4.0),
        ("cosh", f64::cosh, 4.0),
        ("tanh", f64::tanh, 5.0),
        ("asinh", |x| libm::asinh(x), 4.0),
        ("acosh", |x| libm::acosh(x), 4.0),
        ("atanh", |x| libm::atanh(x), 5.0),
        ("exp", f64::exp, 2.0),
        ("exp2", f64::exp2, 2.0),
        ("exp10", |x| libm::exp10(x), 2.0),
        ("expm1", f64::exp_m1, 2.0),
        ("log", f64::ln, 2.0),
        ("log2", f64::log2, 2.0),
        ("log10", f64::log10, 2.0),
        ("log1p", f64::ln_1p, 2.0),
        ("cbrt", |x| libm::cbrt(x), 2.0),
        ("erf", |x| libm::erf(x), 2.0),
        ("erfc", |x| libm::erfc(x), 8.0),
        ("tgamma", |x| libm::tgamma(x), 16.0),
        ("logb", |x| libm::logb(x), 0.0),
    ];
    let kernels: String = functions
        .iter()
        .map(|(name, _, _)| {
            format!(
                "kernel void k_{name}(global const double *x, global double *y) {{
                    size_t i = get_global_id(0); y[i] = __q_for_d_{name}(x[i]); }}\n"
            )
        })
        .collect();
    let Some(program) = program(&with_functions(&kernels)) else {
        return;
    };
    let x = numbers();
    for (name, function, bound) in functions {
        let y = vec![0_f64; x.len()];
        let mut launch = Launch::new([x.len(), 1, 1], [64, 1, 1]);
        launch.memory(&x);
        launch.memory(&y);
        launch.run(&program, &format!("k_{name}"));
        for (x, y) in x.iter().zip(y) {
            let wanted = function(*x);
            let off = units_off(y, wanted);
            assert!(
                off <= *bound,
                "{name}({x:e}) is {wanted:e}, and not {y:e}: {off} units off"
            );
            assert!(
                wanted != 0.0 || y != 0.0 || y.is_sign_negative() == wanted.is_sign_negative(),
                "{name}({x:e}) has the sign of {wanted:e}"
            );
        }
    }
}

/// The standard says nothing of how near it is. Near its zeros it is near in other units.
#[cfg(unix)]
#[test]
fn logarithms_of_gamma_are_near() {
    let kernel = "kernel void k(global const double *x, global double *y, global int *n) {
        size_t i = get_global_id(0); int sign; y[i] = __q_for_d_lgamma_r(x[i], &sign); n[i] = sign; }";
    let Some(program) = program(&with_functions(kernel)) else {
        return;
    };
    let x = numbers();
    let (y, signs) = (vec![0_f64; x.len()], vec![0_i32; x.len()]);
    let mut launch = Launch::new([x.len(), 1, 1], [64, 1, 1]);
    launch.memory(&x);
    launch.memory(&y);
    launch.memory(&signs);
    launch.run(&program, "k");
    for ((x, y), sign) in x.iter().zip(y).zip(signs) {
        let wanted = libm::lgamma(*x);
        let is_near = y.is_nan() == wanted.is_nan()
            && (y.is_nan()
                || y == wanted
                || (y - wanted).abs()
                    <= 1e-14 * wanted.abs().max(if *x > 0.0 { 0.0 } else { 1.0 }));
        assert!(is_near, "lgamma({x:e}) is {wanted:e}, and not {y:e}");
        let of_gamma = libm::tgamma(*x);
        if of_gamma.is_finite() && of_gamma != 0.0 {
            assert_eq!(
                f64::from(sign),
                of_gamma.signum(),
                "the sign of gamma({x:e})"
            );
        }
    }
}

#[cfg(unix)]
#[test]
fn functions_of_two_numbers_are_near_those_of_the_system() {
    type Function = (&'static str, fn(f64, f64) -> f64, f64);
    let functions: &[Function] = &[
        ("pow", f64::powf, 2.0),
        ("atan2", f64::atan2, 3.0),
        ("hypot", f64::hypot, 2.0),
        ("fmod", |x, y| x % y, 0.0),
        ("remainder", |x, y| libm::remainder(x, y), 0.0),
        ("fdim", |x, y| libm::fdim(x, y), 0.0),
        ("nextafter", |x, y| libm::nextafter(x, y), 0.0),
    ];
    let kernels: String = functions
        .iter()
        .map(|(name, _, _)| {
            format!(
                "kernel void k_{name}(global const double *x, global const double *y, global double *z) {{
                    size_t i = get_global_id(0); z[i] = __q_for_d_{name}(x[i], y[i]); }}\n"
            )
        })
        .collect();
    let Some(program) = program(&with_functions(&kernels)) else {
        return;
    };
    let special = [
        0.0,
        1.0,
        2.0,
        3.0,
        0.5,
        1e-310,
        1e-40,
        1e30,
        1e300,
        9007199254740991.0,
        9007199254740992.0,
        f64::INFINITY,
        f64::NAN,
        f64::MAX,
        f64::MIN_POSITIVE,
        0.9999999999999999,
        1.0000000000000002,
    ];
    let special = special.into_iter().flat_map(|x| [x, -x]);
    let (mut x, mut y) = (Vec::new(), Vec::new());
    for a in special.clone() {
        for b in special.clone() {
            x.push(a);
            y.push(b);
        }
    }
    let all = numbers();
    // Some of each kind, in another order.
    x.extend(&all);
    y.extend((0..all.len()).map(|at| all[at * 7919 % all.len()]));
    // Exponents for which the power is a number.
    for base in all
        .iter()
        .map(|x| x.abs())
        .filter(|x| *x > 0.0 && x.is_finite())
        .step_by(3)
    {
        for part in [-1.05, -0.97, -0.3, -0.001, 0.02, 0.5, 0.99, 1.1] {
            x.push(base);
            y.push(1024.0 / base.log2().abs().max(1e-6) * part);
        }
    }
    x.resize(x.len().next_multiple_of(64), 1.0);
    y.resize(x.len(), 1.0);
    for (name, function, bound) in functions {
        let z = vec![0_f64; x.len()];
        let mut launch = Launch::new([x.len(), 1, 1], [64, 1, 1]);
        launch.memory(&x);
        launch.memory(&y);
        launch.memory(&z);
        launch.run(&program, &format!("k_{name}"));
        for ((x, y), z) in x.iter().zip(&y).zip(z) {
            let wanted = function(*x, *y);
            let off = units_off(z, wanted);
            assert!(
                off <= *bound,
                "{name}({x:e}, {y:e}) is {wanted:e}, and not {z:e}: {off} units off"
            );
            assert!(
                wanted != 0.0 || z != 0.0 || z.is_sign_negative() == wanted.is_sign_negative(),
                "{name}({x:e}, {y:e}) has the sign of {wanted:e}"
            );
        }
    }
}

/// No other number of `double` is as near to a multiple of a quarter turn. Systems' own functions
/// may be off there.
#[test]
fn the_hardest_angle_has_all_bits() {
    let kernel = "kernel void k(double x, global double *y) { y[0] = __q_for_d_cos(x); y[1] = __q_for_d_sin(x); }";
    let Some(program) = program(&with_functions(kernel)) else {
        return;
    };
    let y = vec![0_f64; 2];
    let mut launch = Launch::new([1, 1, 1], [1, 1, 1]);
    launch.value(6_381_956_970_095_103.0 * 2_f64.powi(797));
    launch.memory(&y);
    launch.run(&program, "k");
    assert_eq!(y, [-4.687165924254628e-19, 1.0]);
}

#[cfg(unix)]
#[test]
fn parts_of_numbers_are_exact() {
    let kernel = "kernel void k(global const double *x, global const int *n, global double *y, global int *of) {
        size_t i = get_global_id(0); int e;
        y[i] = __q_for_d_ldexp(x[i], n[i]); of[2 * i] = __q_for_d_ilogb(x[i]);
        double m = __q_for_d_frexp(x[i], &e); of[2 * i + 1] = __q_for_d_ldexp(m, e) == x[i] || x[i] != x[i]; }";
    let Some(program) = program(&with_functions(kernel)) else {
        return;
    };
    let x = numbers();
    let by: Vec<i32> = (0..x.len() as i32)
        .map(|at| at * 37 % 4300 - 2150)
        .collect();
    let (y, of) = (vec![0_f64; x.len()], vec![0_i32; 2 * x.len()]);
    let mut launch = Launch::new([x.len(), 1, 1], [64, 1, 1]);
    launch.memory(&x);
    launch.memory(&by);
    launch.memory(&y);
    launch.memory(&of);
    launch.run(&program, "k");
    for (at, x) in x.iter().enumerate() {
        let wanted = libm::ldexp(*x, by[at]);
        assert!(
            y[at].to_bits() == wanted.to_bits() || wanted.is_nan() && y[at].is_nan(),
            "ldexp({x:e}, {}) is {wanted:e}, and not {:e}",
            by[at],
            y[at]
        );
        if x.is_finite() {
            assert_eq!(of[2 * at], libm::ilogb(*x), "ilogb({x:e})");
        }
        assert_eq!(of[2 * at + 1], 1, "frexp({x:e})");
    }
}
