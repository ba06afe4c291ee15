//! `half` arithmetic and functions, of all numbers, against those of `double`.

#![allow(clippy::unwrap_used, reason = "a promise that is not kept panics")]

mod support;

use quipu_clc::{Argument, Program, has_half};
use std::cmp::Ordering;
use support::{Launch, program};

/// A program; none, and a line that says so, where there is no compiler or the processor has no
/// numbers of 16 bits.
fn program_of_halves(text: &str) -> Option<Program> {
    let there = program("kernel void none() {}");
    if there.is_some() && !has_half() {
        println!("NOT TESTED: half arithmetic: this processor has none");
        return None;
    }
    there.and_then(|_| program(text))
}

/// The value of a number of 16 bits.
fn value(bits: u16) -> f64 {
    let (exponent, rest) = (i32::from(bits >> 10 & 31), f64::from(bits & 1023));
    let size = match exponent {
        31 if rest > 0.0 => f64::NAN,
        31 => f64::INFINITY,
        0 => rest * 2_f64.powi(-24),
        _ => (1024.0 + rest) * 2_f64.powi(exponent - 25),
    };
    if bits >> 15 == 1 { -size } else { size }
}

/// Ways of rounding, as suffixes of functions.
const WAYS: [&str; 4] = ["_rte", "_rtz", "_rtp", "_rtn"];

/// A number rounded to one of 16 bits in one of these ways.
fn rounded(number: f64, way: usize) -> u16 {
    let size = number.abs();
    let sign = if number.is_sign_negative() { 0x8000 } else { 0 };
    if number.is_nan() {
        return 0x7e00;
    }
    if size.is_infinite() {
        return sign | 0x7c00;
    }
    let exponent = ((size.to_bits() >> 52) as i32 - 1023).max(-14);
    let scaled = size * 2_f64.powi(10 - exponent);
    let away = (way == 2) == (sign == 0);
    let kept = match way {
        0 => scaled.round_ties_even(),
        1 => scaled.floor(),
        _ if away => scaled.ceil(),
        _ => scaled.floor(),
    };
    // Not above infinity where it is rounded up, and the largest number where it is rounded down.
    let bits = (i64::from(exponent + 14) << 10) + kept as i64;
    let most = if way == 0 || way >= 2 && away {
        0x7c00
    } else {
        0x7bff
    };
    sign | bits.min(most) as u16
}

fn nearest(number: f64) -> u16 {
    rounded(number, 0)
}

fn is_nan(bits: u16) -> bool {
    bits & 0x7fff > 0x7c00
}

/// Runs a kernel over so many work-items.
fn run(program: &Program, kernel: &str, items: usize, pass: impl FnOnce(&mut Launch)) {
    let mut launch = Launch::new([items, 1, 1], [16, 1, 1]);
    pass(&mut launch);
    launch.run(program, kernel);
}

fn all() -> Vec<u16> {
    (0..=u16::MAX).collect()
}

#[cfg(unix)]
mod libm {
    unsafe extern "C" {
        pub(super) safe fn erf(x: f64) -> f64;
        pub(super) safe fn erfc(x: f64) -> f64;
        pub(super) safe fn tgamma(x: f64) -> f64;
        pub(super) safe fn lgamma(x: f64) -> f64;
        pub(super) safe fn logb(x: f64) -> f64;
    }
}

/// The sine of pi times a number, which is exact where it is a multiple of a half.
fn sin_of_pi(x: f64) -> f64 {
    let rest = x - 2.0 * (x / 2.0).round_ties_even();
    match rest {
        rest if rest.abs() > 0.5 => ((1.0_f64.copysign(rest) - rest) * std::f64::consts::PI).sin(),
        rest => (rest * std::f64::consts::PI).sin(),
    }
}

fn cos_of_pi(x: f64) -> f64 {
    let rest = (x - 2.0 * (x / 2.0).round_ties_even()).abs();
    ((0.5 - rest) * std::f64::consts::PI).sin()
}

type Function = (&'static str, fn(f64) -> f64, f64);

/// Functions, and how far off they may be, in units of the last place. Each is one of `float`, and
/// rounded.
#[cfg(unix)]
const FUNCTIONS: [Function; 43] = [
    ("acos", f64::acos, 0.51),
    ("acosh", f64::acosh, 0.51),
    ("acospi", |x| x.acos() / std::f64::consts::PI, 0.51),
    ("asin", f64::asin, 0.51),
    ("asinh", f64::asinh, 0.51),
    ("asinpi", |x| x.asin() / std::f64::consts::PI, 0.51),
    ("atan", f64::atan, 0.51),
    ("atanh", f64::atanh, 0.51),
    ("atanpi", |x| x.atan() / std::f64::consts::PI, 0.51),
    ("cbrt", f64::cbrt, 0.51),
    ("ceil", f64::ceil, 0.5),
    ("cos", f64::cos, 0.51),
    ("cosh", f64::cosh, 0.51),
    ("cospi", cos_of_pi, 0.51),
    ("degrees", f64::to_degrees, 0.51),
    ("erf", |x| libm::erf(x), 0.51),
    ("erfc", |x| libm::erfc(x), 0.51),
    ("exp", f64::exp, 0.51),
    ("exp2", f64::exp2, 0.51),
    ("exp10", |x| 10_f64.powf(x), 0.51),
    ("expm1", f64::exp_m1, 0.51),
    ("fabs", f64::abs, 0.5),
    ("floor", f64::floor, 0.5),
    ("lgamma", |x| libm::lgamma(x), 0.51),
    ("log", f64::ln, 0.51),
    ("log2", f64::log2, 0.51),
    ("log10", f64::log10, 0.51),
    ("log1p", f64::ln_1p, 0.51),
    ("logb", |x| libm::logb(x), 0.5),
    ("radians", f64::to_radians, 0.51),
    ("rint", f64::round_ties_even, 0.5),
    ("round", f64::round, 0.5),
    ("rsqrt", |x| 1.0 / x.sqrt(), 0.51),
    ("sin", f64::sin, 0.51),
    ("sinh", f64::sinh, 0.51),
    ("sinpi", sin_of_pi, 0.51),
    ("sqrt", f64::sqrt, 0.5),
    ("tan", f64::tan, 0.51),
    ("tanh", f64::tanh, 0.51),
    ("tanpi", |x| sin_of_pi(x) / cos_of_pi(x), 0.51),
    ("tgamma", |x| libm::tgamma(x), 0.51),
    ("trunc", f64::trunc, 0.5),
    ("-", |x| -x, 0.5),
];

#[cfg(unix)]
#[test]
fn functions_of_one_number_are_right_for_every_number() {
    const TOGETHER: usize = 8;
    let text: String = FUNCTIONS
        .chunks(TOGETHER)
        .enumerate()
        .map(|(at, some)| {
            let each = some.iter().enumerate();
            let each =
                each.map(|(at, (name, _, _))| format!("y[{at} * 65536 + i] = {name}(x[i]);\n"));
            let each: String = each.collect();
            format!(
                "kernel void k{at}(global const half *x, global half *y) {{\n\
                    size_t i = get_global_id(0);\n{each}}}\n"
            )
        })
        .collect();
    let Some(program) = program_of_halves(&text) else {
        return;
    };
    let x = all();
    for (at, some) in FUNCTIONS.chunks(TOGETHER).enumerate() {
        let y = vec![0_u16; some.len() * x.len()];
        run(&program, &format!("k{at}"), x.len(), |launch| {
            launch.memory(&x);
            launch.memory(&y);
        });
        for ((name, function, ulp), y) in some.iter().zip(y.chunks(x.len())) {
            for (x, y) in x.iter().zip(y) {
                let wanted = function(value(*x));
                if is_nan(nearest(wanted)) || is_nan(*y) {
                    assert!(
                        is_nan(nearest(wanted)) && is_nan(*y),
                        "{name}({x:x}): {y:x}, and not {wanted}"
                    );
                    continue;
                }
                let one = match nearest(wanted) & 0x7c00 {
                    0 => 2_f64.powi(-24),
                    exponent => 2_f64.powi(i32::from(exponent.min(0x7800) >> 10) - 25),
                };
                // Infinity stands where the next number would.
                let finite = |number: f64| number.clamp(-65536.0, 65536.0);
                let off = (finite(value(*y)) - finite(wanted)).abs() / one;
                assert!(off <= *ulp, "{name}({x:x}): {y:x}, and not {wanted}: {off}");
                // Zeros have the sign that they should.
                assert!(
                    wanted != 0.0 || *y == nearest(wanted) || *ulp > 0.5,
                    "{name}({x:x}): {y:x}"
                );
            }
        }
    }
}

/// Numbers of each kind.
fn some() -> Vec<u16> {
    let kinds = [
        0_u16, 1, 2, 0x1ff, 0x3ff, 0x400, 0x401, 0x1400, 0x2e66, 0x3555, 0x3800, 0x3bff, 0x3c00,
        0x3c01, 0x3e00, 0x4248, 0x4900, 0x5640, 0x63d0, 0x6800, 0x7000, 0x7801, 0x7bfe, 0x7bff,
        0x7c00, 0x7e00,
    ];
    kinds
        .iter()
        .flat_map(|bits| [*bits, bits | 0x8000])
        .collect()
}

#[test]
fn operations_are_rounded_once() {
    let Some(program) = program_of_halves(
        "kernel void f(global const half *x, half y, half z, global half *r) {
            size_t i = get_global_id(0);
            r[i] = x[i] + y; r[65536 + i] = x[i] - y; r[2 * 65536 + i] = x[i] * y; r[3 * 65536 + i] = x[i] / y;
            r[4 * 65536 + i] = fma(x[i], y, z); r[5 * 65536 + i] = fmod(x[i], y); r[6 * 65536 + i] = fmax(x[i], y);
            r[7 * 65536 + i] = fmin(x[i], y); r[8 * 65536 + i] = copysign(x[i], y); r[9 * 65536 + i] = fdim(x[i], y);
            r[10 * 65536 + i] = fma((half2)(x[i], z), (half2)(y), (half2)(z, x[i])).x; r[11 * 65536 + i] = nextafter(x[i], y);
        }",
    ) else {
        return;
    };
    let x = all();
    let r = vec![0_u16; 12 * x.len()];
    let some = some();
    for (at, y) in some.iter().enumerate() {
        let z = some[at * 7 % some.len()];
        run(&program, "f", x.len(), |launch| {
            launch.memory(&x);
            launch.value(*y);
            launch.value(z);
            launch.memory(&r);
        });
        let (b, c) = (value(*y), value(z));
        for x in &x {
            let a = value(*x);
            let [max, min] = match (a.is_nan(), b.is_nan()) {
                (true, _) => [b; 2],
                (_, true) => [a; 2],
                _ => [a.max(b), a.min(b)],
            };
            let next = match () {
                () if a.is_nan() || b.is_nan() => 0x7e00,
                () if a == b => *y,
                () if a == 0.0 => (y & 0x8000) | 1,
                () if (a < b) == (a > 0.0) => x + 1,
                () => x - 1,
            };
            // A product and a sum of these numbers are exact as numbers of 64 bits, or far from
            // where rounding changes.
            let fused = nearest(a.mul_add(b, c));
            let wanted = [
                nearest(a + b),
                nearest(a - b),
                nearest(a * b),
                nearest(a / b),
                fused,
                nearest(a % b),
                nearest(max),
                nearest(min),
                x & 0x7fff | y & 0x8000,
                nearest(if a.is_nan() || b.is_nan() {
                    f64::NAN
                } else if a > b {
                    a - b
                } else {
                    0.0
                }),
                fused,
                next,
            ];
            for (which, wanted) in wanted.into_iter().enumerate() {
                let got = r[which * 65536 + usize::from(*x)];
                // The greater of two zeros is either, and so is the lesser.
                let is_zero = [6, 7].contains(&which) && (got | wanted) & 0x7fff == 0;
                assert!(
                    got == wanted || is_nan(got) && is_nan(wanted) || is_zero,
                    "operation {which} of {x:x}, {y:x} and {z:x}: {got:x}, and not {wanted:x}"
                );
            }
        }
    }
}

#[test]
fn halves_become_whole_numbers_in_each_way() {
    let types: [(&str, u32, bool); 8] = [
        ("char", 8, true),
        ("uchar", 8, false),
        ("short", 16, true),
        ("ushort", 16, false),
        ("int", 32, true),
        ("uint", 32, false),
        ("long", 64, true),
        ("ulong", 64, false),
    ];
    let kernels = types.iter().map(|(name, _, _)| {
        let each = WAYS.iter().enumerate().map(|(at, way)| {
            format!(
                "y[i * 4 + {at}] = convert_{name}_sat{way}(x[i]);
                 z[i * 4 + {at}] = convert_{name}2{way}((half2)(x[i], 1)).x;\n"
            )
        });
        let each: String = each.collect();
        format!(
            "kernel void {name}_of(global const half *x, global {name} *y, global {name} *z, global {name} *u) {{
                size_t i = get_global_id(0);\n{each}
                u[2 * i] = x[i]; u[2 * i + 1] = convert_{name}_sat(x[i]);
            }}"
        )
    });
    let Some(program) = program_of_halves(&kernels.collect::<String>()) else {
        return;
    };
    let x = all();
    for (name, bits, is_signed) in types {
        let bytes = bits as usize / 8;
        let [y, z, u] = [4, 4, 2].map(|each| vec![0_u8; each * bytes * x.len()]);
        run(&program, &format!("{name}_of"), x.len(), |launch| {
            launch.memory(&x);
            launch.memory(&y);
            launch.memory(&z);
            launch.memory(&u);
        });
        let number = |of: &[u8], at: usize| {
            let mut wide = [0_u8; 16];
            wide[..bytes].copy_from_slice(&of[at * bytes..][..bytes]);
            let shift = 128 - bits;
            match is_signed {
                true => i128::from_le_bytes(wide) << shift >> shift,
                false => i128::from_le_bytes(wide),
            }
        };
        let low = if is_signed {
            -(1_i128 << (bits - 1))
        } else {
            0
        };
        let high = low + (1_i128 << bits) - 1;
        for bits in &x {
            let of = value(*bits);
            let ways = [of.round_ties_even(), of.trunc(), of.ceil(), of.floor()];
            for (at, whole) in ways.into_iter().enumerate() {
                let index = usize::from(*bits) * 4 + at;
                let wanted = (whole as i128).clamp(low, high);
                assert_eq!(number(&y, index), wanted, "{name}{} of {bits:x}", WAYS[at]);
                let is_within = of.is_finite() && (low..=high).contains(&(whole as i128));
                if is_within {
                    assert_eq!(number(&z, index), wanted, "{name}{} of {bits:x}", WAYS[at]);
                }
            }
            let cut = (of.trunc() as i128).clamp(low, high);
            let index = usize::from(*bits) * 2;
            assert_eq!(number(&u, index + 1), cut, "{name} of {bits:x}");
            if of.is_finite() && (low..=high).contains(&(of.trunc() as i128)) {
                assert_eq!(number(&u, index), cut, "{name} of {bits:x}");
            }
        }
    }
}

#[test]
fn whole_numbers_beyond_the_largest_half_are_infinite() {
    let types = ["uint", "int", "ulong", "long"];
    let kernels = types.iter().map(|of| {
        format!(
            "kernel void {of}_to(global const {of} *x, global float *y, global double *z) {{
                size_t i = get_global_id(0);
                for (int by = 0; by < 27; by++) {{
                    {of} number = (x[i] & ({of})15) << by;
                    half other = number;
                    half2 both = convert_half2(({of}2)(number - 16, number));
                    y[i * 27 + by] = convert_float(convert_half(number)) + other;
                    z[i * 27 + by] = convert_double(both.y) + convert_double(-other);
                }}
                half2 few = convert_half2(({of}2)(x[i] << 12 & ({of})0x1f000, -(x[i] << 21 & ({of})0x600000)));
                half one = convert_half(x[i] << 21 & ({of})0x600000);
                y[16 * 27 + i] = convert_float(few.x); y[17 * 27 + i] = convert_float(one);
                z[16 * 27 + i] = convert_double(few.x); z[17 * 27 + i] = convert_double(few.y);
            }}"
        )
    });
    let Some(program) = program_of_halves(&kernels.collect::<String>()) else {
        return;
    };
    let x: Vec<u64> = (0..16).collect();
    let narrow: Vec<u32> = (0..16).collect();
    for name in types {
        let (y, z) = (vec![0_f32; 18 * 27], vec![0_f64; 18 * 27]);
        run(&program, &format!("{name}_to"), x.len(), |launch| {
            match name {
                "ulong" | "long" => launch.memory(&x),
                _ => launch.memory(&narrow),
            }
            launch.memory(&y);
            launch.memory(&z);
        });
        for i in 0..16 {
            for by in 0..27 {
                let wanted = value(nearest(((i & 15) << by) as f64));
                let at = i * 27 + by;
                assert_eq!(y[at], (2.0 * wanted) as f32, "{name} {i} << {by}");
                let is_right = if wanted.is_finite() {
                    z[at] == 0.0
                } else {
                    z[at].is_nan()
                };
                assert!(is_right, "{name} {i} << {by}: {}", z[at]);
            }
            let (low, high) = (
                value(nearest((i << 12 & 0x1f000) as f64)),
                (i << 21 & 0x60_0000) as f64,
            );
            let high = value(nearest(high));
            assert_eq!(f64::from(y[16 * 27 + i]), low, "{name} {i}");
            assert_eq!(z[16 * 27 + i], low, "{name} {i}");
            assert_eq!(f64::from(y[17 * 27 + i]), high, "{name} {i}");
            let below = if name.starts_with('u') && high > 0.0 {
                f64::INFINITY
            } else {
                -high
            };
            assert_eq!(z[17 * 27 + i], below, "{name} {i}");
        }
    }
}

/// Numbers at the numbers of 16 bits, between them, and next to both.
fn between() -> Vec<f64> {
    let ordered: Vec<f64> = (0..0x7c00).map(value).collect();
    let pairs = ordered.windows(2).step_by(61);
    let near = pairs.flat_map(|pair| {
        let middle = f64::midpoint(pair[0], pair[1]);
        // Rounded to a `float` first, these would be in the middle.
        let near = [1.0 + 2_f64.powi(-40), 1.0 - 2_f64.powi(-40)].map(|by| middle * by);
        [
            pair[0],
            middle,
            middle.next_up(),
            middle.next_down(),
            near[0],
            near[1],
            pair[1].next_down(),
        ]
    });
    let more = [
        0.0,
        5e-324,
        1e-9,
        2_f64.powi(-25),
        65504.0,
        65519.999,
        65520.0,
        65536.0,
        1e30,
        f64::INFINITY,
    ];
    let mut numbers: Vec<f64> = near.chain(more).flat_map(|one| [one, -one]).collect();
    numbers.resize(numbers.len().next_multiple_of(16), 1.0);
    numbers
}

#[test]
fn numbers_become_halves_in_each_way() {
    let types = [
        "double", "float", "long", "ulong", "int", "uint", "short", "ushort", "char", "uchar",
    ];
    let kernels = types.iter().map(|name| {
        let each = WAYS.iter().enumerate();
        let each = each.map(|(at, way)| format!("y[i * 8 + {at}] = convert_half{way}(x[i]);\n"));
        let each: String = each.collect();
        format!(
            "kernel void of_{name}(global const {name} *x, global half *y) {{
                size_t i = get_global_id(0);\n{each}
                y[i * 8 + 4] = (half)x[i]; y[i * 8 + 5] = convert_half(x[i]);
                y[i * 8 + 6] = convert_half3_rtn(({name}3)(x[i])).z;
                y[i * 8 + 7] = __builtin_convertvector(({name}4)(x[i]), half4).w;
            }}"
        )
    });
    let Some(program) = program_of_halves(&kernels.collect::<String>()) else {
        return;
    };
    let doubles = between();
    let check = |name: &str, y: &[u16], numbers: &[f64]| {
        for (number, y) in numbers.iter().zip(y.chunks(8)) {
            let wanted = [0, 1, 2, 3, 0, 0, 3, 0].map(|way| rounded(*number, way));
            assert_eq!(y, wanted, "{name} {number:e}");
        }
    };
    let convert = |name: &str, count: usize, pass: &dyn Fn(&mut Launch)| {
        let y = vec![0_u16; 8 * count];
        run(&program, &format!("of_{name}"), count, |launch| {
            pass(launch);
            launch.memory(&y);
        });
        y
    };
    let y = convert("double", doubles.len(), &|launch| launch.memory(&doubles));
    check("double", &y, &doubles);
    let floats: Vec<f32> = doubles.iter().map(|number| *number as f32).collect();
    let y = convert("float", floats.len(), &|launch| launch.memory(&floats));
    let values: Vec<f64> = floats.iter().map(|number| f64::from(*number)).collect();
    check("float", &y, &values);
    let near = [
        0,
        1,
        2,
        3,
        127,
        2047,
        2048,
        2049,
        2051,
        4097,
        4099,
        8193,
        65503,
        65504,
        65519,
        65520,
        65535,
        1 << 24,
    ];
    let near = near
        .into_iter()
        .chain([(1 << 24) + 1, i64::MAX, i64::MAX / 3, (1 << 53) + 1]);
    let mut longs: Vec<i64> = near.flat_map(|number| [number, -number, !number]).collect();
    longs.resize(longs.len().next_multiple_of(16), 5);
    macro_rules! whole {
        ($($name:literal $type:ty),*) => {$({
            let numbers: Vec<$type> = longs.iter().map(|number| *number as $type).collect();
            let y = convert($name, numbers.len(), &|launch| launch.memory(&numbers));
            // What is rounded of long ones is more than a `half` can be.
            let values: Vec<f64> = numbers.iter().map(|number| *number as f64).collect();
            check($name, &y, &values);
        })*};
    }
    whole!("long" i64, "ulong" u64, "int" i32, "uint" u32, "short" i16, "ushort" u16, "char" i8, "uchar" u8);
}

#[test]
fn halves_are_compared_chosen_and_taken_apart() {
    let Some(program) = program_of_halves(
        "kernel void f(global const half *x, half y, global int *r) {
            size_t i = get_global_id(0);
            half a = x[i], second;
            int e;
            global int *to = r + 16 * i;
            to[0] = isequal(a, y) + 2 * isless(a, y) + 4 * isgreaterequal(a, y) + 8 * isunordered(a, y) + 16 * islessgreater(a, y);
            to[1] = isnan(a) + 2 * isinf(a) + 4 * isfinite(a) + 8 * isnormal(a) + 16 * signbit(a);
            short2 v = isless((half2)(a, y), (half2)(y, a)); to[2] = v.x; to[3] = v.y;
            to[4] = as_ushort(select(a, y, (short)(i & 1)));
            half4 w = select((half4)(a), (half4)(y), isnan((half4)(a))); to[5] = as_ushort(w.z);
            to[6] = as_ushort(bitselect(a, y, (half)1.0h));
            to[7] = as_ushort(frexp(a, &e)); to[8] = e;
            to[9] = as_ushort(ldexp(a, -3)); to[10] = ilogb(a);
            to[11] = as_ushort(fract(a, &second)); to[12] = as_ushort(second);
            to[13] = as_ushort(modf(a, &second)); to[14] = as_ushort(second);
            to[15] = (a < y) + 2 * (a >= y) + 4 * (a == y) + 8 * (a != y);
        }",
    ) else {
        return;
    };
    let x = all();
    for y in [0x3c00_u16, 0x8000, 0x7e00, 0xfbff] {
        let r = vec![0_i32; 16 * x.len()];
        run(&program, "f", x.len(), |launch| {
            launch.memory(&x);
            launch.value(y);
            launch.memory(&r);
        });
        let b = value(y);
        for (bits, got) in x.iter().zip(r.chunks(16)) {
            let a = value(*bits);
            let all = |truths: &[bool]| -> i32 {
                truths
                    .iter()
                    .enumerate()
                    .map(|(at, is)| i32::from(*is) << at)
                    .sum()
            };
            let size = bits & 0x7fff;
            let lost = a.is_nan();
            assert_eq!(
                got[0],
                all(&[
                    a == b,
                    a < b,
                    a >= b,
                    lost || b.is_nan(),
                    a.partial_cmp(&b).is_some_and(Ordering::is_ne)
                ]),
                "{bits:x}"
            );
            let kinds = [
                lost,
                a.is_infinite(),
                a.is_finite(),
                (0x400..0x7c00).contains(&size),
                bits >> 15 == 1,
            ];
            assert_eq!(got[1], all(&kinds), "{bits:x}");
            assert_eq!(
                got[2..4],
                [-i32::from(a < b), -i32::from(b < a)],
                "{bits:x}"
            );
            assert_eq!(got[4], i32::from(if bits & 1 == 1 { y } else { *bits }));
            assert_eq!(got[5], i32::from(if lost { y } else { *bits }));
            assert_eq!(got[6], i32::from(bits & !0x3c00 | y & 0x3c00));
            assert_eq!(got[15], all(&[a < b, a >= b, a == b, a != b]), "{bits:x}");
            if !a.is_finite() {
                continue;
            }
            let part = |got: i32| value(got as u16);
            assert_eq!(part(got[7]) * 2_f64.powi(got[8]), a);
            assert!(
                a == 0.0 || (0.5..1.0).contains(&part(got[7]).abs()),
                "{bits:x}"
            );
            assert_eq!(got[9], i32::from(nearest(a / 8.0)), "{bits:x}");
            assert!(
                a == 0.0 || 2_f64.powi(got[10]) <= a.abs() && a.abs() < 2_f64.powi(got[10] + 1),
                "{bits:x}"
            );
            let rest = value(nearest(a - a.floor())).min(value(0x3bff));
            assert_eq!(
                (part(got[11]), part(got[12])),
                (rest, a.floor()),
                "{bits:x}"
            );
            assert_eq!(
                (got[13], part(got[14])),
                (i32::from(nearest((a - a.trunc()).copysign(a))), a.trunc()),
                "{bits:x}"
            );
        }
    }
}

#[test]
fn halves_are_passed_kept_and_exchanged() {
    let Some(program) = program_of_halves(
        "typedef struct { char c; half h; half3 v; } pair;
         kernel void f(half a, half4 v, pair p, global const half *x, global half *y, local half *shared) {
            size_t i = get_global_id(0), l = get_local_id(0);
            half own[4];
            for (int k = 0; k < 4; k++) own[(l + k) & 3] = x[i] * (half)k;
            shared[l] = own[2] + a;
            barrier(CLK_LOCAL_MEM_FENCE);
            local half copy[16];
            event_t done = async_work_group_copy(copy, x, 16, 0);
            wait_group_events(1, &done);
            half4 loaded = vload4(0, x + 1);
            vstore2((half2)(shared[15 - l], copy[l]), i * 4, y);
            vstore3(shuffle(v, (ushort4)(3, 2, 1, 0)).xyz + p.v * p.h, 0, y + 8 * i + 2);
            half3 c = cross(loaded.xyz, v.xyz);
            y[8 * i + 5] = dot(loaded, v); y[8 * i + 6] = length(v) + c.y; y[8 * i + 7] = mad(a, x[i], (half)p.c);
        }",
    ) else {
        return;
    };
    let of = |number: f64| nearest(number);
    let x: Vec<u16> = (0..16).map(|at| of(f64::from(at) / 4.0)).collect();
    let y = vec![0_u16; 8 * 16];
    let mut launch = Launch::new([16, 1, 1], [16, 1, 1]);
    launch.value(of(0.5));
    launch.value([1.0, 2.0, 2.0, 4.0].map(of));
    launch.value([3_u16, of(2.0), 0, 0, of(1.0), of(-1.0), of(0.25), 0]);
    launch.memory(&x);
    launch.memory(&y);
    launch.arguments.push(Argument::Local(32));
    launch.run(&program, "f");
    for (at, y) in y.chunks(8).enumerate() {
        let number = |at: usize| at as f64 / 4.0;
        let other = 15 - at;
        let k = 2_usize.wrapping_sub(other) & 3;
        let wanted = [
            number(other) * k as f64 + 0.5,
            number(at),
            4.0 + 2.0,
            2.0 - 2.0,
            2.0 + 0.5,
            0.25 + 0.5 * 2.0 + 0.75 * 2.0 + 4.0,
            5.0 + (0.75 * 1.0 - 0.25 * 2.0),
            0.5 * number(at) + 3.0,
        ];
        assert_eq!(y, wanted.map(of), "{at}");
    }
}

#[test]
fn functions_that_others_have_linked_are_there_for_half() {
    // One of `float` alone has the library's part linked that the one of `half` calls.
    let Some(program) = program_of_halves(
        "kernel void f(global const half *x, global const int *i, global float *y) {
            y[0] = convert_char_sat(i[0]) + convert_char_sat(x[0]);
            y[1] = convert_double(i[0]) + convert_double(x[0]);
            y[2] = hypot(y[3], 4.0f) + hypot(x[1], x[2]);
        }",
    ) else {
        return;
    };
    let x = [300.0, 3.0, 4.0].map(nearest);
    let y = [0.0, 0.0, 0.0, 3.0_f32].to_vec();
    let mut launch = Launch::new([1, 1, 1], [1, 1, 1]);
    launch.memory(&x);
    launch.memory(&[-1000_i32]);
    launch.memory(&y);
    launch.run(&program, "f");
    assert_eq!(y, [-1.0, -700.0, 10.0, 3.0]);
}
