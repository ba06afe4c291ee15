//! The built-in functions against their definitions.

mod support;

use quipu_clc::{Argument, Program};
use support::{Launch, program, random};

/// Runs a kernel over `length` work-items in groups of 16 on an input, for an output of as many
/// numbers.
fn map<I: Copy, O: Copy + Default>(program: &Program, kernel: &str, input: &[I]) -> Vec<O> {
    let output = vec![O::default(); input.len()];
    let mut launch = Launch::new([input.len(), 1, 1], [16, 1, 1]);
    launch.memory(input);
    launch.memory(&output);
    launch.run(program, kernel);
    output
}

#[test]
fn functions_of_one_float() {
    type Function = (&'static str, fn(f64) -> f64, f64);
    let functions: &[Function] = &[
        ("sin", f64::sin, 4.0),
        ("cos", f64::cos, 4.0),
        ("tan", f64::tan, 5.0),
        ("asin", f64::asin, 4.0),
        ("acos", f64::acos, 4.0),
        ("atan", f64::atan, 5.0),
        ("sinh", f64::sinh, 4.0),
        ("tanh", f64::tanh, 5.0),
        ("exp", f64::exp, 3.0),
        ("exp2", f64::exp2, 3.0),
        ("expm1", f64::exp_m1, 3.0),
        ("log1p", f64::ln_1p, 2.0),
        ("cbrt", f64::cbrt, 2.0),
        ("fabs", f64::abs, 0.0),
        ("floor", f64::floor, 0.0),
        ("ceil", f64::ceil, 0.0),
        ("trunc", f64::trunc, 0.0),
        ("round", f64::round, 0.0),
        ("rint", f64::round_ties_even, 0.0),
        ("sinpi", |x| (x * std::f64::consts::PI).sin(), 4.0),
        ("degrees", f64::to_degrees, 2.0),
    ];
    let mut text = String::new();
    for (name, _, _) in functions {
        text += &format!(
            "kernel void k_{name}(global const float *x, global float *y) {{ size_t i = get_global_id(0); y[i] = {name}(x[i]); }}
             kernel void v_{name}(global const float4 *x, global float4 *y) {{
                size_t i = get_global_id(0); if (i < get_global_size(0) / 4) y[i] = {name}(x[i]);
             }}\n"
        );
    }
    let Some(program) = program(&text) else {
        return;
    };
    let x = random(256, 11);
    for (name, function, ulp) in functions {
        for form in ["k", "v"] {
            let y: Vec<f32> = map(&program, &format!("{form}_{name}"), &x);
            for (x, y) in x.iter().zip(&y) {
                let wanted = function(f64::from(*x));
                let one = f64::from((wanted as f32).next_up() - wanted as f32).abs();
                let off = (f64::from(*y) - wanted).abs() / one;
                assert!(
                    off <= ulp + 0.5,
                    "{form} {name}({x}) is {wanted}, and not {y}: {off} ulp"
                );
            }
        }
    }
}

#[test]
fn functions_of_integers() {
    let Some(program) = program(
        "kernel void f(global const int *x, global int *y) {
            int i = get_global_id(0) * 16;
            int a = x[i], b = x[i + 1];
            y[i] = mul_hi(a, b); y[i + 1] = rotate(a, b); y[i + 2] = clz(a); y[i + 3] = popcount(a);
            y[i + 4] = hadd(a, b); y[i + 5] = rhadd(a, b); y[i + 6] = add_sat(a, b); y[i + 7] = sub_sat(a, b);
            y[i + 8] = abs_diff(a, b); y[i + 9] = abs(a); y[i + 10] = max(a, b); y[i + 11] = clamp(a, -100, 100);
            y[i + 12] = mad_sat(a, b, a); y[i + 13] = (int)mul_hi((ulong)a, (ulong)b);
            y[i + 14] = upsample((short)a, (ushort)b); y[i + 15] = mad24(a & 0xfff, b & 0xfff, a);
        }",
    ) else {
        return;
    };
    let some = [
        0,
        1,
        -1,
        7,
        i32::MIN,
        i32::MAX,
        12345,
        -67890,
        1 << 20,
        33,
        0x1234_5678,
    ];
    let mut x = Vec::new();
    for a in some {
        for b in some {
            x.extend([a, b]);
            x.extend([0; 14]);
        }
    }
    let y = vec![0_i32; x.len()];
    let mut launch = Launch::new([x.len() / 16, 1, 1], [11, 1, 1]);
    launch.memory(&x);
    launch.memory(&y);
    launch.run(&program, "f");
    for (x, y) in x.chunks(16).zip(y.chunks(16)) {
        let (a, b) = (x[0], x[1]);
        let (wide, other) = (i64::from(a), i64::from(b));
        let clamped = |x: i128| x.clamp(i32::MIN.into(), i32::MAX.into()) as i32;
        let unsigned = (a as i64 as u64 as u128 * b as i64 as u64 as u128) >> 64;
        let wanted = [
            ((wide * other) >> 32) as i32,
            a.rotate_left(b as u32 & 31),
            a.leading_zeros() as i32,
            a.count_ones() as i32,
            ((wide + other) >> 1) as i32,
            ((wide + other + 1) >> 1) as i32,
            a.saturating_add(b),
            a.saturating_sub(b),
            a.abs_diff(b) as i32,
            a.unsigned_abs() as i32,
            a.max(b),
            a.clamp(-100, 100),
            clamped(i128::from(wide) * i128::from(other) + i128::from(wide)),
            unsigned as i32,
            i32::from(a as i16) << 16 | i32::from(b as u16),
            ((a & 0xfff) * (b & 0xfff)).wrapping_add(a),
        ];
        for (at, (wanted, y)) in wanted.iter().zip(y).enumerate() {
            assert_eq!(y, wanted, "number {at} of {a} and {b}");
        }
    }
}

/// Sums and differences of a narrow type, in each of its forms.
macro_rules! saturates {
    ($type:ty, $name:literal) => {
        let text = "kernel void f(global const T *x, global T *sums, global T *differences) {
            int i = get_global_id(0);
            T a = x[2 * i], b = x[2 * i + 1];
            sums[2 * i] = add_sat(a, b); sums[2 * i + 1] = add_sat((T2)(a), (T2)(b)).y;
            differences[2 * i] = sub_sat(a, b); differences[2 * i + 1] = sub_sat((T2)(a), (T2)(b)).y;
        }";
        let text = text.replace("(T2)", concat!("(", $name, "2)"));
        let Some(program) = program(&text.replace("T ", concat!($name, " "))) else {
            return;
        };
        let some = [0, 1, 2, 5, 72, 100, 127, 128, 200, 255, 256, 32767, 32768, 60000, 65535, -1, -100, -128];
        let mut x = Vec::new();
        for a in some {
            x.extend(some.iter().flat_map(|b: &i32| [a as $type, *b as $type]));
        }
        let (sums, differences) = (vec![0 as $type; x.len()], vec![0 as $type; x.len()]);
        let mut launch = Launch::new([x.len() / 2, 1, 1], [18, 1, 1]);
        launch.memory(&x);
        launch.memory(&sums);
        launch.memory(&differences);
        launch.run(&program, "f");
        for (at, x) in x.chunks(2).enumerate() {
            let (sum, difference) = (x[0].saturating_add(x[1]), x[0].saturating_sub(x[1]));
            assert_eq!(sums[2 * at..2 * at + 2], [sum; 2], "{} {x:?}", $name);
            assert_eq!(differences[2 * at..2 * at + 2], [difference; 2], "{} {x:?}", $name);
        }
    };
}

#[test]
fn sums_of_narrow_integers_saturate() {
    saturates!(i8, "char");
    saturates!(u8, "uchar");
    saturates!(i16, "short");
    saturates!(u16, "ushort");
}

#[test]
fn conversions_round_and_saturate() {
    let Some(program) = program(
        "kernel void f(global const float *x, global int *y) {
            int i = get_global_id(0) * 8;
            float a = x[i];
            y[i] = convert_int_sat(a); y[i + 1] = convert_uchar_sat(a); y[i + 2] = convert_int_rte(clamp(a, -1e6f, 1e6f));
            y[i + 3] = convert_int_rtp(clamp(a, -1e6f, 1e6f)); y[i + 4] = convert_int_rtn(clamp(a, -1e6f, 1e6f));
            y[i + 5] = convert_char_sat(convert_int_sat(a)); y[i + 6] = as_int(a);
            y[i + 7] = convert_short4_sat((float4)(0, 0, a, 0)).z;
        }",
    ) else {
        return;
    };
    let some = [
        0.0,
        0.5,
        1.5,
        -0.5,
        -1.5,
        2.5,
        127.6,
        128.0,
        300.0,
        -300.0,
        3e9,
        -3e9,
        1e20,
        f32::NAN,
        f32::INFINITY,
        70000.0,
    ];
    let mut x = vec![0.0_f32; some.len() * 8];
    for (x, some) in x.chunks_mut(8).zip(some) {
        x[0] = some;
    }
    let y = vec![0_i32; x.len()];
    let mut launch = Launch::new([some.len(), 1, 1], [16, 1, 1]);
    launch.memory(&x);
    launch.memory(&y);
    launch.run(&program, "f");
    for (a, y) in some.into_iter().zip(y.chunks(8)) {
        // What is no number goes to the lower bound in `fmax`, whose other operand it gives.
        let bounded = if a.is_nan() { -1e6 } else { a.clamp(-1e6, 1e6) };
        let wanted = [
            a as i32,
            i32::from(a as u8),
            bounded.round_ties_even() as i32,
            bounded.ceil() as i32,
            bounded.floor() as i32,
            (a as i32).clamp(-128, 127),
            a.to_bits() as i32,
            i32::from(a as i16),
        ];
        let checked = if a.is_nan() { 0..2 } else { 0..8 };
        assert_eq!(y[checked.clone()], wanted[checked], "{a}");
    }
}

#[test]
fn vectors_geometry_relations_and_memory() {
    let Some(program) = program(
        "constant float table[4] = {1, 2, 3, 4};
        kernel void f(global const float *x, global float *y) {
            size_t i = get_global_id(0);
            float3 v = vload3(i, x), w = (float3)(1, 2, 3);
            float whole;
            y[i * 12] = dot(v, w); y[i * 12 + 1] = length(v); y[i * 12 + 2] = cross(v, w).y; y[i * 12 + 3] = normalize(w).z;
            y[i * 12 + 4] = any(v > w) ? 1 : 0; y[i * 12 + 5] = select(1.0f, 2.0f, isless(v.x, 0.0f));
            y[i * 12 + 6] = mix(v.x, v.y, 0.25f); y[i * 12 + 7] = fract(v.z, &whole); y[i * 12 + 8] = whole;
            y[i * 12 + 9] = table[i & 3] * smoothstep(0.0f, 1.0f, v.x);
            vstore2(v.zy, 0, y + i * 12 + 10);
        }
        kernel void count(global int *counts, global const int *x) {
            local int mine;
            if (get_local_id(0) == 0) mine = 0;
            barrier(CLK_LOCAL_MEM_FENCE);
            atomic_add(&mine, x[get_global_id(0)]);
            atomic_max(counts + 1, x[get_global_id(0)]);
            barrier(CLK_LOCAL_MEM_FENCE);
            if (get_local_id(0) == 0) { atomic_add(counts, mine); atomic_inc(counts + 2); }
            atomic_cmpxchg(counts + 3, 0, get_work_dim() * 1000 + get_num_groups(0));
        }",
    ) else {
        return;
    };
    let x = random(48, 5);
    let y = vec![0.0_f32; 16 * 12];
    let mut launch = Launch::new([16, 1, 1], [8, 1, 1]);
    launch.memory(&x);
    launch.memory(&y);
    launch.run(&program, "f");
    for (i, (v, y)) in x.chunks(3).zip(y.chunks(12)).enumerate() {
        let t = v[0].clamp(0.0, 1.0);
        let wanted = [
            v[0] + 2.0 * v[1] + 3.0 * v[2],
            (v[0] * v[0] + v[1] * v[1] + v[2] * v[2]).sqrt(),
            v[2] - v[0] * 3.0,
            3.0 / 14.0_f32.sqrt(),
            f32::from(u8::from(v[0] > 1.0 || v[1] > 2.0 || v[2] > 3.0)),
            if v[0] < 0.0 { 2.0 } else { 1.0 },
            v[0] + (v[1] - v[0]) * 0.25,
            v[2] - v[2].floor(),
            v[2].floor(),
            [1.0, 2.0, 3.0, 4.0][i & 3] * t * t * (3.0 - 2.0 * t),
            v[2],
            v[1],
        ];
        for (at, (wanted, y)) in wanted.iter().zip(y).enumerate() {
            assert!(
                (wanted - y).abs() < 1e-5,
                "number {at} of {v:?}: {y}, and not {wanted}"
            );
        }
    }
    let x: Vec<i32> = (0..64).map(|i| i * 37 % 64).collect();
    let counts = vec![0_i32; 4];
    let mut launch = Launch::new([64, 1, 1], [16, 1, 1]);
    launch.memory(&counts);
    launch.memory(&x);
    launch.run(&program, "count");
    assert_eq!(counts, [x.iter().sum(), 63, 4, 3004]);
}

#[test]
fn loops_that_work_items_leave_at_different_times() {
    let Some(program) = program(
        "kernel void collatz(global const int *x, global int *y) {
            size_t i = get_global_id(0);
            uint n = x[i];
            int steps = 0;
            while (n != 1 && steps < 1000) {
                n = n & 1 ? 3 * n + 1 : n / 2;
                steps++;
            }
            y[i] = steps;
        }
        kernel void search(global const int *x, global int *y) {
            int i = get_global_id(0), sum = 0;
            for (int turn = 0; turn < 3; turn++) {
                int at = i;
                while (x[at] > turn * 10) at = x[at] % 64;
                sum += at;
            }
            y[i] = sum;
        }
        kernel void own(global const int *x, global int *y) {
            int i = get_global_id(0);
            int seen[8];
            for (int k = 0; k < 8; k++) seen[k] = x[(i + k) % 64] & 7;
            int at = 0, hops = 0;
            while (hops < 20 && seen[at] != at) { at = seen[at]; hops++; }
            y[i] = at * 100 + hops;
        }",
    ) else {
        return;
    };
    let x: Vec<i32> = (0..64).map(|i| (i * 41 + 7) % 64).collect();
    let one = |x: &[i32]| x.iter().map(|x| (*x).max(1)).collect::<Vec<_>>();
    let y: Vec<i32> = map(&program, "collatz", &one(&x));
    for (x, y) in one(&x).iter().zip(&y) {
        let (mut n, mut steps) = (*x as u32, 0);
        while n != 1 {
            n = if n & 1 == 1 { 3 * n + 1 } else { n / 2 };
            steps += 1;
        }
        assert_eq!(*y, steps, "{x}");
    }
    let y: Vec<i32> = map(&program, "search", &x);
    for (i, y) in y.iter().enumerate() {
        let mut sum = 0;
        for turn in 0..3 {
            let mut at = i;
            while x[at] > turn * 10 {
                at = (x[at] % 64) as usize;
            }
            sum += at as i32;
        }
        assert_eq!(*y, sum, "{i}");
    }
    let y: Vec<i32> = map(&program, "own", &x);
    for (i, y) in y.iter().enumerate() {
        let seen: Vec<i32> = (0..8).map(|k| x[(i + k) % 64] & 7).collect();
        let (mut at, mut hops) = (0, 0);
        while hops < 20 && seen[at as usize] != at {
            at = seen[at as usize];
            hops += 1;
        }
        assert_eq!(*y, at * 100 + hops, "{i}");
    }
}

/// The numbers of a narrower type next to a wider one, in the order `_rte`, `_rtz`, `_rtp`, `_rtn`:
/// of the one below it, the one above it, and which of them is nearest.
fn each_way<T: Copy>(is_negative: bool, below: T, above: T, nearest: T) -> [T; 4] {
    let to_zero = if is_negative { above } else { below };
    [nearest, to_zero, above, below]
}

#[test]
fn floats_are_rounded_as_a_conversion_says() {
    let Some(program) = program(
        "#define EACH(R, T) kernel void R##_##T(global const T *x, global R *y) { \\
            size_t i = get_global_id(0); T##2 v = (T##2)(0, x[i]); \\
            y[4 * i] = convert_##R##_rte(x[i]); y[4 * i + 1] = convert_##R##2_rtz(v).y; \\
            y[4 * i + 2] = convert_##R##_rtp(x[i]); y[4 * i + 3] = convert_##R##2_rtn(v).y; }
         EACH(float, double) EACH(float, long) EACH(float, ulong) EACH(float, int) EACH(double, long) EACH(double, ulong)
         kernel void whole(global const int *x, global char *y) {
            size_t i = get_global_id(0);
            y[2 * i] = convert_char_sat_rtp(x[i]); y[2 * i + 1] = convert_char16_rtn((int16)(x[i])).sf;
         }",
    ) else {
        return;
    };
    let doubles: Vec<f64> = [
        0.0,
        1.0,
        0.1,
        1.0 / 3.0,
        1e-46,
        1e-45,
        1e-40,
        3e38,
        3.5e38,
        1e300,
        16_777_217.0,
        16_777_219.0,
        f64::INFINITY,
        5e-324,
        1.000_000_059_604_644_8,
        1.5,
    ]
    .into_iter()
    .flat_map(|x: f64| [x, -x])
    .collect();
    let longs: Vec<i64> = [
        0,
        1,
        16_777_217,
        16_777_219,
        (1 << 53) + 1,
        (1 << 53) + 3,
        i64::MAX,
        i64::MAX - 511,
        i64::MAX - 512,
        1 << 62,
        (1 << 62) + 1,
        (1 << 40) + (1 << 16),
        (1 << 40) + (1 << 16) + 1,
        33_554_435,
        123_456_789_012_345_678,
        i64::MAX - 513,
    ]
    .into_iter()
    .flat_map(|x: i64| [x, -x])
    .collect();
    let launch = |kernel: &str, x: &dyn Fn(&mut Launch), y: &dyn Fn(&mut Launch)| {
        let mut launch = Launch::new([32, 1, 1], [8, 1, 1]);
        x(&mut launch);
        y(&mut launch);
        launch.run(&program, kernel);
    };
    let bits = |all: [f32; 4]| all.map(f32::to_bits);
    let y = vec![0_f32; 4 * doubles.len()];
    launch("float_double", &|l| l.memory(&doubles), &|l| l.memory(&y));
    for (x, y) in doubles.iter().zip(y.as_chunks::<4>().0) {
        let nearest = *x as f32;
        let below = if f64::from(nearest) <= *x {
            nearest
        } else {
            nearest.next_down()
        };
        let above = if f64::from(nearest) >= *x {
            nearest
        } else {
            nearest.next_up()
        };
        let wanted = each_way(*x < 0.0, below, above, nearest);
        // Zero keeps its sign: what is too small is below or above by it alone.
        let wanted = wanted.map(|one| {
            if one == 0.0 {
                0.0_f32.copysign(*x as f32)
            } else {
                one
            }
        });
        assert_eq!(bits(*y), bits(wanted), "{x}: {y:?}, and not {wanted:?}");
    }
    // Whole numbers, by their exact values.
    let wide = |wanted: &dyn Fn(usize) -> i128, nearest: &dyn Fn(usize) -> f32, y: &[f32]| {
        for (number, y) in y.as_chunks::<4>().0.iter().enumerate() {
            let (x, nearest) = (wanted(number), nearest(number));
            let below = if nearest as i128 <= x {
                nearest
            } else {
                nearest.next_down()
            };
            let above = if nearest as i128 >= x {
                nearest
            } else {
                nearest.next_up()
            };
            let wanted = each_way(x < 0, below, above, nearest);
            assert_eq!(*y, wanted, "{x}");
        }
    };
    launch("float_long", &|l| l.memory(&longs), &|l| l.memory(&y));
    wide(&|i| i128::from(longs[i]), &|i| longs[i] as f32, &y);
    let unsigned: Vec<u64> = longs.iter().map(|x| *x as u64).collect();
    launch("float_ulong", &|l| l.memory(&unsigned), &|l| l.memory(&y));
    wide(&|i| i128::from(unsigned[i]), &|i| unsigned[i] as f32, &y);
    let ints: Vec<i32> = longs.iter().map(|x| *x as i32).collect();
    launch("float_int", &|l| l.memory(&ints), &|l| l.memory(&y));
    wide(&|i| i128::from(ints[i]), &|i| ints[i] as f32, &y);
    let y = vec![0_f64; 4 * longs.len()];
    for (kernel, exact) in [
        (
            "double_long",
            longs.iter().map(|x| i128::from(*x)).collect::<Vec<_>>(),
        ),
        (
            "double_ulong",
            unsigned.iter().map(|x| i128::from(*x)).collect(),
        ),
    ] {
        launch(kernel, &|l| l.memory(&longs), &|l| l.memory(&y));
        for (x, y) in exact.iter().zip(y.as_chunks::<4>().0) {
            let nearest = *x as f64;
            let below = if nearest as i128 <= *x {
                nearest
            } else {
                nearest.next_down()
            };
            let above = if nearest as i128 >= *x {
                nearest
            } else {
                nearest.next_up()
            };
            assert_eq!(*y, each_way(*x < 0, below, above, nearest), "{kernel} {x}");
        }
    }
    let y = vec![0_i8; 2 * ints.len()];
    launch("whole", &|l| l.memory(&ints), &|l| l.memory(&y));
    for (x, y) in ints.iter().zip(y.as_chunks::<2>().0) {
        assert_eq!(*y, [(*x).clamp(-128, 127) as i8, *x as i8], "{x}");
    }
}

/// A number of 16 bits.
fn half(bits: u16) -> f64 {
    let (exponent, rest) = (i32::from(bits >> 10 & 31), f64::from(bits & 1023));
    let size = match exponent {
        31 if rest > 0.0 => f64::NAN,
        31 => f64::INFINITY,
        0 => rest * 2_f64.powi(-24),
        _ => (1024.0 + rest) * 2_f64.powi(exponent - 25),
    };
    if bits >> 15 == 1 { -size } else { size }
}

#[test]
fn numbers_of_16_bits_are_read_and_written_in_each_way() {
    let Some(program) = program(
        "kernel void read(global const half *x, global float *y) {
            size_t i = get_global_id(0);
            y[i] = i % 2 ? vload_half(i, x) : vload_half2(i / 2, x).x;
         }
         kernel void apart(global const half *x, global float *y) {
            size_t i = get_global_id(0);
            vstore3(vloada_half3(i, x), i, y);
         }
         kernel void doubles(global const double *x, global half *y) {
            size_t i = get_global_id(0);
            ushort room[4];
            private half *own = (private half *)room;
            vstore_half_rte(x[i], 0, own); vstore_half_rtz(x[i], 1, own);
            vstore_half_rtp(x[i], 2, own); vstore_half_rtn(x[i], 3, own);
            for (int k = 0; k < 4; k++) ((global ushort *)y)[4 * i + k] = room[k];
         }
         kernel void floats(global const float *x, global half *y) {
            size_t i = get_global_id(0);
            vstore_half_rte(x[i], 4 * i, y); vstore_half2_rtz((float2)(x[i]), 0, y + 4 * i + 1);
            vstore_half_rtp(x[i], 4 * i + 2, y); vstore_half_rtn(x[i], 4 * i + 3, y);
         }",
    ) else {
        return;
    };
    let all: Vec<u16> = (0..=u16::MAX).collect();
    let read: Vec<f32> = map(&program, "read", &all);
    for (bits, read) in all.iter().zip(read) {
        let wanted = half(*bits);
        assert!(
            f64::from(read) == wanted || wanted.is_nan() && read.is_nan(),
            "{bits:x}: {read}"
        );
    }
    let some = &all[0x3c00..0x3c40];
    let y = vec![0_f32; some.len() / 4 * 3];
    let mut launch = Launch::new([16, 1, 1], [16, 1, 1]);
    launch.memory(some);
    launch.memory(&y);
    launch.run(&program, "apart");
    for (number, y) in y.iter().enumerate() {
        let at = number / 3 * 4 + number % 3;
        assert_eq!(f64::from(*y), half(some[at]), "{number}");
    }
    // All positive numbers of 16 bits, with infinity, in order.
    let ordered: Vec<f64> = (0..=0x7c00).map(half).collect();
    let mut doubles: Vec<f64> = vec![
        0.0,
        1e-9,
        2_f64.powi(-25),
        65_519.0,
        65_520.0,
        65_504.5,
        1e30,
        f64::INFINITY,
        5e-324,
    ];
    for pair in ordered.windows(2).step_by(97) {
        let middle = (pair[0] + pair[1]) / 2.0;
        doubles.extend([
            pair[0],
            middle,
            middle.next_up(),
            middle.next_down(),
            pair[0].next_up(),
        ]);
    }
    doubles.retain(|x| !x.is_nan());
    doubles.truncate(doubles.len() / 16 * 16);
    let doubles: Vec<f64> = doubles.iter().flat_map(|x| [*x, -x]).collect();
    let check = |x: f64, y: &[u16; 4]| {
        let size = x.abs();
        let at = ordered.partition_point(|one| *one < size);
        let exact = ordered[at] == size;
        let under = if exact { at } else { at - 1 };
        // Infinity stands where the next number would.
        let value = |at: usize| {
            if at == 0x7c00 && size.is_finite() {
                65_536.0
            } else {
                ordered[at]
            }
        };
        let nearest = match (size - value(under), value(at) - size) {
            _ if exact => at,
            (down, up) if down < up || down == up && under.is_multiple_of(2) => under,
            _ => at,
        };
        let sign = if x.is_sign_negative() { 0x8000 } else { 0 };
        let bits = |at: usize| at as u16 | sign;
        let (below, above) = if sign == 0 { (under, at) } else { (at, under) };
        let wanted = [nearest, under, above, below].map(bits);
        assert_eq!(*y, wanted, "{x:e}: {y:x?}, and not {wanted:x?}");
    };
    let run = |kernel: &str, count: usize, x: &dyn Fn(&mut Launch)| {
        let y = vec![0_u16; 4 * count];
        let mut launch = Launch::new([count, 1, 1], [16, 1, 1]);
        x(&mut launch);
        launch.memory(&y);
        launch.run(&program, kernel);
        y
    };
    let y = run("doubles", doubles.len(), &|launch| launch.memory(&doubles));
    for (x, y) in doubles.iter().zip(y.as_chunks::<4>().0) {
        check(*x, y);
    }
    let floats: Vec<f32> = doubles.iter().map(|x| *x as f32).collect();
    let y = run("floats", floats.len(), &|launch| launch.memory(&floats));
    for (x, y) in floats.iter().zip(y.as_chunks::<4>().0) {
        check(f64::from(*x), y);
    }
}

#[test]
fn what_is_stored_as_one_type_is_loaded_as_another() {
    let Some(program) = program(
        "kernel void pun(global const int *x, global int *y) {
            size_t i = get_global_id(0);
            int own[4];
            vstore4((int4)(x[i], x[i] + 1, x[i] + 2, x[i] + 3), 0, own);
            float4 same = vload4(0, (private float *)own);
            short4 halves = vload4(0, (private short *)own);
            vstore4(as_int4(same) + convert_int4(halves), i, y);
        }",
    ) else {
        return;
    };
    let x: Vec<i32> = (1000..1064).collect();
    for local in [1, 16] {
        let y = vec![0_i32; 4 * x.len()];
        let mut launch = Launch::new([x.len(), 1, 1], [local, 1, 1]);
        launch.memory(&x);
        launch.memory(&y);
        launch.run(&program, "pun");
        for (x, y) in x.iter().zip(y.as_chunks::<4>().0) {
            assert_eq!(*y, [2 * x, x + 1, 2 * x + 3, x + 3], "{x}");
        }
    }
}

#[test]
fn functions_have_the_standards_values_at_their_limits() {
    let cases: &[(&str, f64)] = &[
        ("powr(0, 0)", f64::NAN),
        ("powr(INFINITY, 0)", f64::NAN),
        ("powr(1, INFINITY)", f64::NAN),
        ("powr(1, NAN)", f64::NAN),
        ("powr(NAN, 0)", f64::NAN),
        ("powr(-1, 2)", f64::NAN),
        ("powr(-zero, -1)", f64::INFINITY),
        ("powr(-zero, 3)", 0.0),
        ("powr(2, 3)", 8.0),
        ("rootn(zero, -3)", f64::INFINITY),
        ("rootn(-zero, -3)", f64::NEG_INFINITY),
        ("rootn(-zero, -2)", f64::INFINITY),
        ("rootn(-zero, 3)", -0.0),
        ("rootn(-zero, 2)", 0.0),
        ("rootn(-8, 3)", -2.0),
        ("rootn(-8, 2)", f64::NAN),
        ("rootn(1, 0)", f64::NAN),
        ("rootn(-INFINITY, 3)", f64::NEG_INFINITY),
        ("sinpi(3)", 0.0),
        ("sinpi(-3)", -0.0),
        ("tanpi(1)", -0.0),
        ("tanpi(2)", 0.0),
        ("tanpi(0.5)", f64::INFINITY),
        ("tanpi(1.5)", f64::NEG_INFINITY),
        ("cospi(1.5)", 0.0),
        ("fract(zero, &part)", 0.0),
        ("fract(-zero, &part)", -0.0),
        ("(fract(-zero, &part), part)", -0.0),
        ("fract(-3, &part)", 0.0),
        ("fract(INFINITY, &part)", 0.0),
        ("fract(-INFINITY, &part)", -0.0),
        ("(fract(-INFINITY, &part), part)", f64::NEG_INFINITY),
        ("fract(NAN, &part)", f64::NAN),
        ("fract(-0x1p-40, &part) < 1", 1.0),
        ("modf(-INFINITY, &part)", -0.0),
        ("(modf(INFINITY, &part), part)", f64::INFINITY),
        ("modf(NAN, &part)", f64::NAN),
        ("ilogb(NAN)", 2_147_483_647.0),
        ("ilogb(INFINITY)", 2_147_483_647.0),
        ("(lgamma_r((R)-0.5, &number), number)", -1.0),
        ("(lgamma_r((R)2.5, &number), number)", 1.0),
        ("remquo((R)0x1p20, (R)3, &number)", 1.0),
        (
            "(remquo((R)0x1p20, (R)3, &number), number)",
            f64::from(349_525 % 128),
        ),
        (
            "(remquo((R)-1000, (R)3, &number), number)",
            f64::from(-(333 % 128)),
        ),
        ("remquo((R)-1000, (R)3, &number)", -1.0),
        ("remquo((R)5, (R)2, &number)", 1.0),
        ("remquo((R)7, (R)2, &number)", -1.0),
        ("remquo((R)1, (R)0, &number)", f64::NAN),
        ("(remquo((R)1, (R)0, &number), number)", 0.0),
        ("remquo((R)1, (R)INFINITY, &number)", 1.0),
        ("remquo((R)-6, (R)3, &number)", -0.0),
        (
            "(remquo((R16)(1000), (R16)(3), &numbers), numbers.sf)",
            f64::from(333 % 128),
        ),
        ("(frexp((R8)(6), &eight), eight.s7)", 3.0),
        ("nan((U3)(7)).z", f64::NAN),
        ("length((R4)(3, 0, 4, 0) * BIG) / BIG", 5.0),
        ("length((R4)(3, 0, 4, 0) * SMALL) / SMALL", 5.0),
        ("length((R)-2 * BIG) / BIG", 2.0),
        (
            "distance((R3)(0, 5, 0) * BIG, (R3)(0, 0, 12) * BIG) / BIG",
            13.0,
        ),
        ("normalize((R2)(3, 4) * BIG).y * 5", 4.0),
        ("normalize((R2)(-3, 4) * SMALL).x * 5", -3.0),
        ("normalize((R2)(BIG, 1)).y * BIG", 1.0),
        ("normalize((R3)(0, -INFINITY, 7)).y", -1.0),
        ("normalize((R3)(0, -INFINITY, 7)).z", 0.0),
        ("normalize((R)(-zero))", -0.0),
        ("sincos((R16)(0), &parts).sf + parts.sf", 1.0),
    ];
    for real in ["float", "double"] {
        let (size, scalar) = if real == "float" {
            (32, "uint")
        } else {
            (64, "ulong")
        };
        let (big, small) = match size {
            32 => ("0x1p120f", "0x1p-140f"),
            _ => ("0x1p1015", "0x1p-1060"),
        };
        let mut text = format!(
            "#define BIG {big}\n#define SMALL {small}\n
             typedef {real} R; typedef {real}2 R2; typedef {real}3 R3; typedef {real}4 R4; typedef {real}8 R8; typedef {real}16 R16; typedef {scalar}3 U3;
             kernel void limits(global double *y, R zero) {{ R part = 0; int number = 0; R16 parts = 0; int16 numbers = 0; int8 eight = 0;\n"
        );
        for (number, (expression, _)) in cases.iter().enumerate() {
            // Numbers are of the type that is tried.
            let typed: String = expression
                .split_inclusive(['(', ',', ' '])
                .map(|word| {
                    let number = word.trim_end_matches([')', ',', ' ']);
                    let is_number = ["INFINITY", "NAN", "-INFINITY"].contains(&number)
                        || number.parse::<f64>().is_ok()
                        || number.starts_with("-0x");
                    let is_whole = expression.starts_with("rootn") && word.ends_with(')');
                    match is_number
                        && !is_whole
                        && !expression.contains("(R")
                        && !expression.contains("(U")
                    {
                        true => format!("(R){word}"),
                        false => word.to_owned(),
                    }
                })
                .collect();
            text += &format!("y[{number}] = {typed};\n");
        }
        text += "}";
        let Some(program) = program(&text) else {
            return;
        };
        let y = vec![0_f64; cases.len()];
        let mut launch = Launch::new([1, 1, 1], [1, 1, 1]);
        launch.memory(&y);
        match size {
            32 => launch.value(0_f32),
            _ => launch.value(0_f64),
        }
        launch.run(&program, "limits");
        for ((expression, wanted), y) in cases.iter().zip(y) {
            let same = y == *wanted && y.is_sign_negative() == wanted.is_sign_negative();
            assert!(
                same || y.is_nan() && wanted.is_nan(),
                "{real} {expression} is {wanted:?}, and not {y:?}"
            );
        }
    }
}

#[test]
fn what_there_is_not_is_refused_by_name() {
    if program("kernel void f() {}").is_none() {
        return;
    }
    let text =
        "float missing(float);\nkernel void f(global float *x) {\n    x[0] = missing(x[1]);\n}";
    let said = Program::new(text, "").unwrap_err().to_string();
    assert!(
        said.contains("program:3: error: function 'missing' is not supported"),
        "{said}"
    );
    let launch = Launch::new([1, 1, 1], [1, 1, 1]);
    let program = program("kernel void f(global float *x, int n) { x[0] = n; }").unwrap();
    let kernel = program.compile("f", [1, 1, 1]).unwrap();
    let said = kernel
        .check(&launch.grid, &[Argument::Local(4)])
        .unwrap_err()
        .to_string();
    assert!(
        said.contains("has 2 parameters, and 1 arguments are passed"),
        "{said}"
    );
    let said = kernel
        .check(&launch.grid, &[Argument::Local(4), Argument::Local(4)])
        .unwrap_err()
        .to_string();
    assert!(
        said.contains("takes `float* x` as argument 0, and local memory is passed"),
        "{said}"
    );
}
