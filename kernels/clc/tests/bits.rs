//! Integer dot products, and functions of some bits of a number.

#![allow(clippy::unwrap_used, reason = "a promise that is not kept panics")]

mod support;

use quipu_clc::Program;
use support::Launch;

/// A program in OpenCL C 3.0; none, and a line that says so, on a machine without a compiler.
fn program(text: &str) -> Option<Program> {
    support::program("kernel void none() {}")?;
    match Program::new(text, "-cl-std=CL3.0") {
        Ok(program) => Some(program),
        Err(error) => panic!("{error}"),
    }
}

const SOME: [u32; 9] = [
    0,
    0x7f80_ff01,
    0xffff_ffff,
    0x8080_8080,
    0x0102_0304,
    0x1234_5678,
    0x7f7f_7f7f,
    0xdead_beef,
    0x0000_00ff,
];

#[test]
fn integer_dot_products_and_sums_stay_within_bounds() {
    let Some(program) = program(
        "kernel void f(global const uint *x, global uint *to) {
            global uint *r = to + 12 * get_global_id(0);
            uint a = x[3 * get_global_id(0)], b = x[3 * get_global_id(0) + 1], c = x[3 * get_global_id(0) + 2];
            uchar4 au = as_uchar4(a), bu = as_uchar4(b);
            char4 as = as_char4(a), bs = as_char4(b);
            r[0] = dot(au, bu); r[1] = dot(as, bs); r[2] = dot(au, bs); r[3] = dot(as, bu);
            r[4] = dot_acc_sat(au, bu, c); r[5] = dot_acc_sat(as, bs, (int)c);
            r[6] = dot_4x8packed_uu_uint(a, b); r[7] = dot_4x8packed_su_int(a, b);
            r[8] = dot_acc_sat_4x8packed_uu_uint(a, b, c); r[9] = dot_acc_sat_4x8packed_ss_int(a, b, (int)c);
            r[10] = dot_acc_sat_4x8packed_us_int(a, b, (int)c); r[11] = dot_acc_sat_4x8packed_su_int(a, b, (int)c);
        }",
    ) else {
        return;
    };
    let mut x = Vec::new();
    for a in SOME {
        for b in SOME {
            for c in [
                0,
                5,
                i32::MAX as u32,
                i32::MIN as u32,
                u32::MAX,
                u32::MAX - 3,
            ] {
                x.extend([a, b, c]);
            }
        }
    }
    let items = x.len() / 3;
    let to = vec![0_u32; 12 * items];
    let mut launch = Launch::new([items, 1, 1], [9, 1, 1]);
    launch.memory(&x);
    launch.memory(&to);
    launch.run(&program, "f");
    for (x, r) in x.chunks(3).zip(to.chunks(12)) {
        let parts = |of: u32, signed: bool| {
            of.to_le_bytes().map(|byte| match signed {
                true => i64::from(byte.cast_signed()),
                false => i64::from(byte),
            })
        };
        let dot = |a: bool, b: bool| -> i64 {
            let pairs = parts(x[0], a).into_iter().zip(parts(x[1], b));
            pairs.map(|(a, b)| a * b).sum()
        };
        let whole = |a: bool, b: bool| dot(a, b) as u32;
        let unsigned = (dot(false, false) + i64::from(x[2])).min(i64::from(u32::MAX)) as u32;
        let signed = |a: bool, b: bool| {
            let sum = dot(a, b) + i64::from(x[2].cast_signed());
            sum.clamp(i32::MIN.into(), i32::MAX.into()) as u32
        };
        let wanted = [
            whole(false, false),
            whole(true, true),
            whole(false, true),
            whole(true, false),
            unsigned,
            signed(true, true),
            whole(false, false),
            whole(true, false),
            unsigned,
            signed(true, true),
            signed(false, true),
            signed(true, false),
        ];
        assert_eq!(r, wanted, "{x:x?}");
    }
}

#[test]
fn bits_are_inserted_taken_out_and_reversed() {
    for (name, bits) in [("char", 8), ("short", 16), ("int", 32), ("long", 64)] {
        let text = "kernel void f(global const ulong *x, global ulong *to, uint from, uint count) {
            size_t i = get_global_id(0);
            uT a = (uT)x[i], b = (uT)x[i + 1];
            T s = as_T(a);
            global ulong *r = to + 8 * i;
            r[0] = bitfield_insert(a, b, from, count); r[1] = (uT)bitfield_insert(s, as_T(b), from, count);
            r[2] = (uT)bitfield_extract_signed(a, from, count); r[3] = (uT)bitfield_extract_signed(s, from, count);
            r[4] = bitfield_extract_unsigned(a, from, count); r[5] = bitfield_extract_unsigned(s, from, count);
            r[6] = bit_reverse(a);
            r[7] = bitfield_insert((uT##2)(a, 0), (uT##2)(b, 0), from, count).x ^ (uT)bit_reverse((T##2)(0, s)).y;
        }";
        let text = text
            .replace("T##2", &format!("{name}2"))
            .replace("as_T", &format!("as_{name}"));
        let text = text
            .replace("uT", &format!("u{name}"))
            .replace("T s", &format!("{name} s"));
        let Some(program) = program(&text) else {
            return;
        };
        let all = u64::MAX >> (64 - bits);
        let x: Vec<u64> = (0..17)
            .map(|at| (u64::MAX / 7).wrapping_mul(at) ^ at << 40 ^ 0x9e37_79b9)
            .collect();
        for (from, count) in [
            (0, bits),
            (0, 0),
            (3, 4),
            (bits - 1, 1),
            (1, bits - 2),
            (bits / 2, bits / 2),
        ] {
            let to = vec![0_u64; 8 * 16];
            let mut launch = Launch::new([16, 1, 1], [16, 1, 1]);
            launch.memory(&x);
            launch.memory(&to);
            launch.value(from);
            launch.value(count);
            launch.run(&program, "f");
            let mask = if count == 0 {
                0
            } else {
                (u64::MAX >> (64 - count)) << from
            };
            for (pair, r) in x.windows(2).zip(to.chunks(8)) {
                let [a, b] = [pair[0] & all, pair[1] & all];
                let inserted = (a & !mask | (b << from) & mask) & all;
                let taken = (a & mask) >> from;
                let signed = match count {
                    0 => 0,
                    _ => (taken << (64 - count)).cast_signed() >> (64 - count),
                };
                let signed = signed as u64 & all;
                let reversed = a.reverse_bits() >> (64 - bits);
                let wanted = [
                    inserted,
                    inserted,
                    signed,
                    signed,
                    taken,
                    taken,
                    reversed,
                    inserted ^ reversed,
                ];
                assert_eq!(r, wanted, "{name} {from} {count} {a:x} {b:x}");
            }
        }
    }
}

#[test]
fn floats_are_added_and_compared_as_one() {
    let Some(program) = program(
        "kernel void f(global atomic_float *to, global atomic_double *wide) {
            float a = (float)get_local_id(0) + 1.0f;
            atomic_fetch_add(to, a); atomic_fetch_sub_explicit(to + 1, a, memory_order_relaxed);
            atomic_fetch_min_explicit(to + 2, a - 5.0f, memory_order_relaxed, memory_scope_device); atomic_fetch_max(to + 3, a);
            local atomic_float own;
            if (get_local_id(0) == 0) atomic_init(&own, 0.5f);
            barrier(CLK_LOCAL_MEM_FENCE);
            atomic_fetch_add(&own, a);
            barrier(CLK_LOCAL_MEM_FENCE);
            if (get_local_id(0) == 3) atomic_store(to + 4, atomic_load(&own));
            atomic_fetch_add(wide, (double)a); atomic_fetch_max(wide + 1, (double)a);
        }",
    ) else {
        return;
    };
    let (to, wide) = (vec![0.0_f32; 5], vec![0.0_f64; 2]);
    let mut launch = Launch::new([8, 1, 1], [8, 1, 1]);
    launch.memory(&to);
    launch.memory(&wide);
    launch.run(&program, "f");
    assert_eq!(to, [36.0, -36.0, -4.0, 8.0, 36.5]);
    assert_eq!(wide, [36.0, 8.0]);
}
