//! Functions of OpenCL C 2.0 and later: collective ones, atomic ones, and those of generic memory.

#![allow(clippy::unwrap_used, reason = "a promise that is not kept panics")]

mod support;

use quipu_clc::{Argument, Program, set_compiler};
use support::Launch;

/// A program in OpenCL C 3.0; none, and a line that says so, on a machine without a compiler.
fn program(text: &str) -> Option<Program> {
    set_compiler(env!("CARGO_BIN_EXE_quipu-clc").into(), Vec::new());
    if !quipu_clc::is_available() {
        assert!(
            std::env::var_os("QUIPU_TEST_CLC").is_none(),
            "there is no LLVM, and QUIPU_TEST_CLC wants it"
        );
        println!("NOT TESTED: OpenCL C on processors");
        return None;
    }
    match Program::new(text, "-cl-std=CL3.0") {
        Ok(program) => Some(program),
        Err(error) => panic!("{error}"),
    }
}

/// A number of a kernel's type, and what collective functions do with it.
trait Number: Copy + Default + PartialEq + std::fmt::Debug {
    const NAME: &'static str;
    const LOW: Self;
    const HIGH: Self;
    fn of(number: i64) -> Self;
    fn plus(self, other: Self) -> Self;
    fn less(self, other: Self) -> Self;
    fn more(self, other: Self) -> Self;
}

macro_rules! number {
    ($type:ty, $name:literal, $low:expr, $high:expr, $plus:expr) => {
        impl Number for $type {
            const NAME: &'static str = $name;
            const LOW: Self = $low;
            const HIGH: Self = $high;
            fn of(number: i64) -> Self {
                number as $type
            }
            fn plus(self, other: Self) -> Self {
                let plus: fn($type, $type) -> $type = $plus;
                plus(self, other)
            }
            fn less(self, other: Self) -> Self {
                if other < self { other } else { self }
            }
            fn more(self, other: Self) -> Self {
                if self < other { other } else { self }
            }
        }
    };
}

number!(i32, "int", i32::MIN, i32::MAX, |a, b| a.wrapping_add(b));
number!(u32, "uint", 0, u32::MAX, |a, b| a.wrapping_add(b));
number!(i64, "long", i64::MIN, i64::MAX, |a, b| a.wrapping_add(b));
number!(u64, "ulong", 0, u64::MAX, |a, b| a.wrapping_add(b));
number!(f32, "float", f32::NEG_INFINITY, f32::INFINITY, |a, b| a + b);
number!(f64, "double", f64::NEG_INFINITY, f64::INFINITY, |a, b| a
    + b);

const SIZES: [[usize; 3]; 7] = [
    [1, 1, 1],
    [2, 1, 1],
    [7, 1, 1],
    [64, 1, 1],
    [8, 4, 1],
    [3, 5, 2],
    [1, 1, 9],
];

/// Twelve results for each work-item, of which two are of a loop and of a branch that all take.
fn collective<T: Number>() {
    let text = "
    kernel void f(global const T *x, global T *to, uint from, uint turns) {
        size_t i = get_global_linear_id();
        T a = x[i];
        global T *r = to + i * 12;
        r[0] = work_group_reduce_add(a);
        r[1] = work_group_reduce_min(a);
        r[2] = work_group_reduce_max(a);
        r[3] = work_group_scan_inclusive_add(a);
        r[4] = work_group_scan_inclusive_min(a);
        r[5] = work_group_scan_inclusive_max(a);
        r[6] = work_group_scan_exclusive_add(a);
        r[7] = work_group_scan_exclusive_min(a);
        r[8] = work_group_scan_exclusive_max(a);
        size_t w = get_local_size(0), h = get_local_size(1);
        r[9] = work_group_broadcast(a, from % w, from / w % h, from / w / h);
        T sum = 0;
        for (uint turn = 0; turn < turns; turn++)
            sum += work_group_broadcast(a, turn % w, 0, 0) + work_group_reduce_max(a);
        r[10] = sum;
        r[11] = work_group_any(a > x[0]) + (turns > 2 ? 2 * work_group_all(a >= x[0]) : 7);
    }";
    let Some(program) = program(&text.replace("T ", &format!("{} ", T::NAME))) else {
        return;
    };
    // Each takes the compiler a while.
    let sizes = if T::NAME == "int" {
        &SIZES[..]
    } else {
        &SIZES[5..6]
    };
    for local in sizes.iter().copied() {
        let items: usize = local.iter().product();
        let global = [local[0] * 2, local[1] * 2, local[2]];
        let x: Vec<T> = (0..items * 4)
            .map(|i| T::of((i as i64 * 37 + 11) % 101))
            .collect();
        for (from, turns) in [(0, 0), (items - 1, 3), (items / 2, 5)] {
            let to = vec![T::default(); items * 48];
            let mut launch = Launch::new(global, local);
            launch.memory(&x);
            launch.memory(&to);
            launch.value(from as u32);
            launch.value(turns as u32);
            launch.run(&program, "f");
            let number = |group: [usize; 2], item: usize| {
                let [a, b, c] = [
                    item % local[0],
                    item / local[0] % local[1],
                    item / local[0] / local[1],
                ];
                let (a, b) = (group[0] * local[0] + a, group[1] * local[1] + b);
                (c * global[1] + b) * global[0] + a
            };
            for group in [[0, 0], [1, 0], [0, 1], [1, 1]] {
                let own: Vec<T> = (0..items).map(|item| x[number(group, item)]).collect();
                let fold =
                    |of: &[T], start: T, with: fn(T, T) -> T| of.iter().copied().fold(start, with);
                let most = fold(&own, T::LOW, T::more);
                let turned = (0..turns).map(|turn| own[turn % local[0]].plus(most));
                let turned = turned.fold(T::default(), T::plus);
                let votes = i64::from(own.iter().any(|a| a.more(x[0]) == *a && *a != x[0]));
                let all = i64::from(own.iter().all(|a| a.less(x[0]) == x[0]));
                let votes = T::of(votes + if turns > 2 { 2 * all } else { 7 });
                for item in 0..items {
                    let (before, with) = (&own[..item], &own[..=item]);
                    let wanted = [
                        fold(&own, T::default(), T::plus),
                        fold(&own, T::HIGH, T::less),
                        most,
                        fold(with, T::default(), T::plus),
                        fold(with, T::HIGH, T::less),
                        fold(with, T::LOW, T::more),
                        fold(before, T::default(), T::plus),
                        fold(before, T::HIGH, T::less),
                        fold(before, T::LOW, T::more),
                        own[from],
                        turned,
                        votes,
                    ];
                    let got = &to[number(group, item) * 12..][..12];
                    assert_eq!(got, wanted, "{} {local:?} {group:?} {item}", T::NAME);
                }
            }
        }
    }
}

#[test]
fn work_groups_reduce_scan_broadcast_and_vote() {
    collective::<i32>();
    collective::<u32>();
    collective::<i64>();
    collective::<u64>();
    collective::<f32>();
    collective::<f64>();
}

#[test]
fn a_work_group_is_one_sub_group() {
    let Some(program) = program(
        "kernel void f(global const int *x, global int *to) {
            size_t i = get_global_linear_id();
            global int *r = to + 12 * i;
            r[0] = get_sub_group_size(); r[1] = get_max_sub_group_size(); r[2] = get_num_sub_groups();
            r[3] = get_sub_group_id(); r[4] = get_sub_group_local_id();
            r[5] = sub_group_reduce_add(x[i]); r[6] = sub_group_scan_inclusive_max(x[i]);
            r[7] = sub_group_scan_exclusive_add(x[i]); r[8] = sub_group_broadcast(x[i], 4);
            r[9] = sub_group_any(x[i] == 5); r[10] = sub_group_all(x[i] < 40);
            local int last;
            if (get_sub_group_local_id() == get_sub_group_size() - 1) last = x[i];
            sub_group_barrier(CLK_LOCAL_MEM_FENCE);
            r[11] = last;
        }",
    ) else {
        return;
    };
    let x: Vec<i32> = (0..48).map(|i| (i * 31 + 5) % 47).collect();
    for local in [[6, 1, 1], [12, 1, 1], [3, 2, 2]] {
        let items: usize = local.iter().product();
        let to = vec![0_i32; 12 * 48];
        // One group after another, in order of the linear number, whatever the shape.
        let mut launch = Launch::new([local[0], local[1], 48 / local[0] / local[1]], local);
        launch.memory(&x);
        launch.memory(&to);
        launch.run(&program, "f");
        for (group, own) in x.chunks(items).enumerate() {
            for item in 0..items {
                let wanted = [
                    items as i32,
                    items as i32,
                    1,
                    0,
                    item as i32,
                    own.iter().sum(),
                    *own[..=item].iter().max().unwrap(),
                    own[..item].iter().sum(),
                    own[4],
                    i32::from(own.contains(&5)),
                    i32::from(own.iter().all(|x| *x < 40)),
                    own[items - 1],
                ];
                let got = &to[12 * (group * items + item)..][..12];
                assert_eq!(got, wanted, "{local:?} {group} {item}");
            }
        }
    }
}

/// Work-items of a sub-group take what others have, in a loop that all go round.
fn shuffled<T: Copy + Default + PartialEq + std::fmt::Debug>(name: &str, of: fn(usize) -> T) {
    const TURNS: usize = 3;
    let text = "kernel void f(global const T *x, global T *to, uint turns, int by) {
        size_t i = get_global_id(0);
        uint l = get_sub_group_local_id(), n = get_sub_group_size();
        for (uint turn = 0; turn < turns; turn++) {
            global T *r = to + (i * turns + turn) * 6;
            T a = x[i * turns + turn];
            r[0] = sub_group_shuffle(a, (l * 5 + turn) % n); r[1] = sub_group_shuffle_xor(a, turn);
            r[2] = sub_group_shuffle_up(a, turn); r[3] = sub_group_shuffle_down(a, turn);
            r[4] = sub_group_rotate(a, by); r[5] = sub_group_clustered_rotate(a, by, 4);
        }
    }";
    let Some(program) = program(&text.replace("T ", &format!("{name} "))) else {
        return;
    };
    for (n, by) in [(8, 1), (16, -3), (4, 7), (12, -25)] {
        let x: Vec<T> = (0..2 * n * TURNS).map(of).collect();
        let to = vec![T::default(); 6 * x.len()];
        let mut launch = Launch::new([2 * n, 1, 1], [n, 1, 1]);
        launch.memory(&x);
        launch.memory(&to);
        launch.value(TURNS as u32);
        launch.value(by);
        launch.run(&program, "f");
        for item in 0..2 * n {
            let (l, start) = (item % n, item / n * n);
            for turn in 0..TURNS {
                let own = |at: usize| x[(start + at) * TURNS + turn];
                let rotated = (l as i32 + by).rem_euclid(n as i32) as usize;
                let clustered = l / 4 * 4 + (l as i32 + by).rem_euclid(4) as usize;
                // Nothing is said of what is taken from a work-item that is not there: each has its
                // own then.
                let there = |at: Option<usize>| own(at.filter(|at| *at < n).unwrap_or(l));
                let wanted = [
                    own((l * 5 + turn) % n),
                    there(Some(l ^ turn)),
                    there(l.checked_sub(turn)),
                    there(Some(l + turn)),
                    own(rotated),
                    own(clustered),
                ];
                let got = &to[(item * TURNS + turn) * 6..][..6];
                assert_eq!(got, wanted, "{name} {n} {by} {item} {turn}");
            }
        }
    }
}

#[test]
fn sub_groups_shuffle_and_rotate() {
    shuffled("char", |at| (at * 7) as i8);
    shuffled("uchar", |at| (at * 7) as u8);
    shuffled("short", |at| (at * 777) as i16);
    shuffled("ushort", |at| (at * 777) as u16);
    shuffled("int", |at| (at * 77_777_777) as i32);
    shuffled("uint", |at| (at * 77_777_777) as u32);
    shuffled("long", |at| (at * 7_777_777_777_777) as i64);
    shuffled("ulong", |at| (at * 7_777_777_777_777) as u64);
    shuffled("float", |at| at as f32 / 3.0);
    shuffled("double", |at| at as f64 / 3.0);
}

#[test]
fn generic_pointers_say_where_they_point() {
    let Some(program) = program(
        "kernel void f(global int *to, local int *shared, int which) {
            local int own[4];
            int kept[4];
            for (int k = 0; k < 4; k++) kept[k] = which * k;
            size_t l = get_local_id(0);
            own[l & 3] = 1; shared[l & 3] = 2;
            barrier(CLK_LOCAL_MEM_FENCE);
            int *p = which == 0 ? (int *)to : which == 1 ? (int *)shared + 1 : which == 2 ? (int *)own + 3 : kept + (l & 3);
            barrier(CLK_LOCAL_MEM_FENCE);
            global int *r = to + 8 + 4 * get_global_id(0);
            r[0] = (to_global(p) != 0) + 2 * (to_local(p) != 0) + 4 * (to_private(p) != 0);
            r[1] = get_fence(p) == CLK_LOCAL_MEM_FENCE ? 1 : 2;
            r[2] = *p;
            r[3] = p == (which == 0 ? (int *)to_global(p) : which < 3 ? (int *)to_local(p) : (int *)to_private(p));
        }",
    ) else {
        return;
    };
    for (which, space) in [(0, 1), (1, 2), (2, 2), (3, 4)] {
        let mut to = vec![0_i32; 8 + 4 * 16];
        to[0] = 99;
        let mut launch = Launch::new([16, 1, 1], [8, 1, 1]);
        launch.memory(&to);
        launch.arguments.push(Argument::Local(16));
        launch.value(which);
        launch.run(&program, "f");
        for item in 0..16 {
            let value = [99, 2, 1, 3 * (item as i32 & 3)][which as usize];
            let fence = if space == 2 { 1 } else { 2 };
            assert_eq!(
                to[8 + 4 * item..][..4],
                [space, fence, value, 1],
                "{which} {item}"
            );
        }
    }
}

/// Each atomic function once from each of some work-items, on global, local and generic memory.
#[test]
fn atomic_functions_do_what_they_say() {
    for (name, unsigned) in [
        ("int", false),
        ("uint", true),
        ("long", false),
        ("ulong", true),
    ] {
        let text = "
        #define EACH(S, p, r) { \\
            S atomic_N *a = p; \\
            N v = (N)get_local_id(0) + 1; \\
            atomic_fetch_add(a + 0, v); \\
            atomic_fetch_sub_explicit(a + 1, v, memory_order_relaxed); \\
            atomic_fetch_or_explicit(a + 2, v, memory_order_acq_rel, memory_scope_work_group); \\
            atomic_fetch_xor(a + 3, v); \\
            atomic_fetch_and_explicit(a + 4, ~v, memory_order_seq_cst, memory_scope_device); \\
            atomic_fetch_min_explicit(a + 5, v, memory_order_release); \\
            atomic_fetch_max(a + 6, v); \\
            N was = atomic_exchange(a + 7, v); \\
            atomic_fetch_add(a + 8, was); \\
            N seen = atomic_load_explicit(a + 9, memory_order_acquire, memory_scope_all_svm_devices); \\
            while (!atomic_compare_exchange_weak(a + 9, &seen, (N)(seen + v))) {} \\
            N none = 77; \\
            if (!atomic_compare_exchange_strong_explicit(a + 10, &none, v, memory_order_acq_rel, memory_order_relaxed)) \\
                atomic_fetch_add(a + 11, none); \\
            atomic_store(a + 12, 5); \\
            atomic_work_item_fence(CLK_GLOBAL_MEM_FENCE, memory_order_acq_rel, memory_scope_device); \\
            barrier(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE); \\
            if (get_local_id(0) == 0) for (int k = 0; k < 13; k++) r[k] = atomic_load(a + k); \\
        }
        kernel void f(global atomic_N *to, global N *r) {
            local atomic_N own[13], other[13];
            if (get_local_id(0) == 0) for (int k = 0; k < 13; k++) {
                N start = k == 4 ? (N)-1 : k == 5 ? 100 : k == 10 ? 6 : 0;
                atomic_init(own + k, start); atomic_init(to + k, start); atomic_store(other + k, start);
            }
            barrier(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE);
            EACH(volatile global, to, r)
            EACH(volatile local, own, (r + 13))
            EACH(volatile, other, (r + 26))
        }
        kernel void flags(global atomic_int *flag, global int *r) {
            if (!atomic_flag_test_and_set(flag)) r[0]++;
            if (!atomic_flag_test_and_set_explicit(flag + 1, memory_order_acquire, memory_scope_device)) r[1]++;
            atomic_flag_clear(flag + 1);
        }";
        let Some(program) = program(
            &text
                .replace("_N", &format!("_{name}"))
                .replace("N ", &format!("{name} "))
                .replace("(N)", &format!("({name})")),
        ) else {
            return;
        };
        let items = 6_i64;
        let r = vec![0_i64; 39];
        let to = [0_i64; 13].to_vec();
        let mut launch = Launch::new([items as usize, 1, 1], [items as usize, 1, 1]);
        launch.memory(&to);
        launch.memory(&r);
        launch.run(&program, "f");
        let wide = name.ends_with("long");
        let got: Vec<i64> = match wide {
            true => r.clone(),
            false => r
                .iter()
                .flat_map(|both| [*both as i32, (*both >> 32) as i32])
                .map(i64::from)
                .collect(),
        };
        let values: Vec<i64> = (1..=items).collect();
        let sum: i64 = values.iter().sum();
        let or = values.iter().fold(0, |all, v| all | v);
        let xor = values.iter().fold(0, |all, v| all ^ v);
        let least = 1;
        let wanted = [
            sum,
            -sum,
            or,
            xor,
            !or,
            least,
            items,
            items,
            sum - items,
            sum,
            6,
            6 * items,
            5,
        ];
        for (space, got) in got[..39].chunks(13).enumerate() {
            assert_eq!(got, wanted, "{name} {unsigned} {space}");
        }
        let (flag, r) = (vec![0_i32; 2], vec![0_i32; 2]);
        let mut launch = Launch::new([8, 1, 1], [4, 1, 1]);
        launch.memory(&flag);
        launch.memory(&r);
        launch.run(&program, "flags");
        assert_eq!((r[0], r[1], flag[0], flag[1]), (1, 8, 1, 0));
    }
}

#[test]
fn elements_are_shuffled() {
    let Some(program) = program(
        "kernel void f(global const int *x, global int *to) {
            int4 a = vload4(0, x); int8 b = vload8(0, x);
            vstore8(shuffle(a, (uint8)(3, 2, 1, 0, 7, 6, 5, 4)), 0, to);
            vstore4(shuffle(b, (uint4)(7, 0, x[8], 12)), 2, to);
            vstore4(shuffle2(a, a + 100, (uint4)(0, 4, x[8], 15)), 3, to);
            float2 h = shuffle(convert_float4(a), (uint2)(2, 1));
            to[16] = h.x; to[17] = h.y;
            double4 d = shuffle2((double2)(1, 2), (double2)(3, 4), (ulong4)(3, 2, 1, 0));
            vstore4(convert_int4(d), 0, to + 18);
            char16 c = shuffle2((char8)(0, 1, 2, 3, 4, 5, 6, 7), (char8)(8, 9, 10, 11, 12, 13, 14, 15), (uchar16)(15));
            to[22] = c.s0 + c.sf;
        }",
    ) else {
        return;
    };
    let x = [10, 11, 12, 13, 14, 15, 16, 17, 5];
    let to = vec![0_i32; 23];
    let mut launch = Launch::new([1, 1, 1], [1, 1, 1]);
    launch.memory(&x);
    launch.memory(&to);
    launch.run(&program, "f");
    let wanted = [
        13, 12, 11, 10, 13, 12, 11, 10, 17, 10, 15, 14, 10, 110, 111, 113, 12, 11, 4, 3, 2, 1, 30,
    ];
    assert_eq!(to, wanted);
}

#[test]
fn second_results_go_to_generic_memory() {
    let Some(program) = program(
        "kernel void f(global const float *x, global float *to, local float *shared, int where) {
            float kept[8];
            float *p = where == 0 ? (float *)to + 32 : where == 1 ? (float *)shared : (float *)kept;
            int whole; int4 wholes;
            to[0] = modf(x[0], p); to[1] = p[0];
            to[2] = fract(x[1], p); to[3] = p[0];
            to[4] = sincos(x[0], p); to[5] = p[0];
            to[6] = frexp(x[0], &whole); to[7] = whole;
            float4 a = vload4(0, x), s;
            vstore4(modf(a, &s), 2, to); vstore4(s, 3, to);
            vstore4(frexp(a, &wholes), 4, to); vstore4(convert_float4(wholes), 5, to);
            vstore4(a, 1, p); vstore2(vload2(2, p), 12, to);
        }",
    ) else {
        return;
    };
    let x = [2.75_f32, -1.25, 8.0, -0.375];
    for place in 0..3 {
        let to = vec![0_f32; 48];
        let mut launch = Launch::new([1, 1, 1], [1, 1, 1]);
        launch.memory(&x);
        launch.memory(&to);
        launch.arguments.push(Argument::Local(64));
        launch.value(place);
        launch.run(&program, "f");
        assert_eq!(to[..4], [0.75, 2.0, 0.75, -2.0]);
        assert!((to[4] - x[0].sin()).abs() < 1e-6 && (to[5] - x[0].cos()).abs() < 1e-6);
        assert_eq!(to[6..8], [0.6875, 2.0]);
        assert_eq!(to[8..16], [0.75, -0.25, 0.0, -0.375, 2.0, -1.0, 8.0, 0.0]);
        assert_eq!(
            to[16..24],
            [0.6875, -0.625, 0.5, -0.75, 2.0, 1.0, 4.0, -1.0]
        );
        assert_eq!(to[24..26], [2.75, -1.25]);
    }
}
