//! Functions of sub-groups: of whole ones and parts, where all work-items come to them, and where
//! some do.

#![allow(clippy::unwrap_used, reason = "a promise that is not kept panics")]

mod support;

use quipu_clc::{Program, has_half};
use support::Launch;

/// A program in OpenCL C 3.0; none, and a line that says so, on a machine without a compiler.
fn program(text: &str) -> Option<Program> {
    support::program("kernel void none() {}")?;
    match Program::new(text, "-cl-std=CL3.0") {
        Ok(program) => Some(program),
        Err(error) => panic!("{error}"),
    }
}

/// Two groups of some work-items; `kernel` writes `each` numbers for each of them.
fn run<I: Copy, O: Copy + Default>(
    program: &Program,
    kernel: &str,
    local: [usize; 3],
    x: &[I],
    each: usize,
) -> Vec<O> {
    let items: usize = local.iter().product();
    let to = vec![O::default(); 2 * items * each];
    let mut launch = Launch::new([local[0], local[1], 2 * local[2]], local);
    launch.memory(x);
    launch.memory(&to);
    launch.run(program, kernel);
    to
}

/// The numbers, in their group, of the work-items of a sub-group of at most `width`.
fn lanes(item: usize, items: usize, width: usize) -> std::ops::Range<usize> {
    let start = item / width * width;
    start..(start + width).min(items)
}

/// A bit for each work-item of a sub-group of which something holds.
fn ballot(lanes: std::ops::Range<usize>, holds: impl Fn(usize) -> bool) -> [u32; 4] {
    let mut bits = [0; 4];
    for (lane, item) in lanes.enumerate() {
        bits[lane / 32] |= u32::from(holds(item)) << (lane % 32);
    }
    bits
}

const SIZES: [[usize; 3]; 5] = [
    [32, 1, 1],
    [70, 1, 1],
    [128, 1, 1],
    [200, 1, 1],
    [10, 10, 3],
];

#[test]
fn ballots_have_a_bit_for_each_work_item() {
    let Some(program) = program(
        "kernel void f(global const int *x, global uint *to) {
            size_t i = get_global_linear_id();
            global uint *r = to + 48 * i;
            uint l = get_sub_group_local_id();
            uint4 b = sub_group_ballot(x[i] & 1);
            vstore4(b, 0, r);
            r[4] = sub_group_inverse_ballot(b); r[5] = sub_group_ballot_bit_extract(b, (l + 1) % get_sub_group_size());
            r[6] = sub_group_ballot_bit_count(b); r[7] = sub_group_ballot_inclusive_scan(b); r[8] = sub_group_ballot_exclusive_scan(b);
            r[9] = sub_group_ballot_find_lsb(b); r[10] = sub_group_ballot_find_msb(b);
            vstore4(get_sub_group_eq_mask(), 3, r); vstore4(get_sub_group_lt_mask(), 4, r); vstore4(get_sub_group_le_mask(), 5, r);
            vstore4(get_sub_group_gt_mask(), 6, r); vstore4(get_sub_group_ge_mask(), 7, r);
            r[11] = sub_group_elect(); r[32] = get_sub_group_size(); r[33] = get_sub_group_id(); r[34] = get_num_sub_groups();
            r[35] = l; r[36] = get_max_sub_group_size(); r[37] = sub_group_broadcast_first(x[i]);
            r[38] = sub_group_non_uniform_broadcast(x[i], 3); r[39] = sub_group_non_uniform_all_equal(x[i]);
            r[40] = sub_group_non_uniform_all_equal(x[i] > 1000); r[41] = sub_group_non_uniform_any(x[i] == 5);
            r[42] = sub_group_non_uniform_all(x[i] < 97); r[43] = sub_group_ballot_bit_count((uint4)(~0u));
        }",
    ) else {
        return;
    };
    for local in SIZES {
        let items: usize = local.iter().product();
        let x: Vec<i32> = (0..2 * items).map(|at| (at as i32 * 31 + 5) % 97).collect();
        let to: Vec<u32> = run(&program, "f", local, &x, 48);
        for (at, r) in to.chunks(48).enumerate() {
            let (group, item) = (at / items, at % items);
            let lanes = lanes(item, items, 128);
            let own = |at: usize| x[group * items + at];
            let lane = item - lanes.start;
            let size = lanes.len();
            let is_odd = |at: usize| own(at) & 1 == 1;
            let b = ballot(lanes.clone(), is_odd);
            let odd: Vec<usize> = (0..size).filter(|at| is_odd(lanes.start + at)).collect();
            let most = items.min(128);
            let mask = |holds: &dyn Fn(usize) -> bool| ballot(0..most, holds);
            assert_eq!(r[..4], b, "{local:?} {at}");
            let next = lanes.start + (lane + 1) % size;
            let wanted = [
                u32::from(is_odd(item)),
                u32::from(is_odd(next)),
                odd.len() as u32,
                odd.iter().filter(|at| **at <= lane).count() as u32,
                odd.iter().filter(|at| **at < lane).count() as u32,
                odd[0] as u32,
                odd[odd.len() - 1] as u32,
                u32::from(lane == 0),
            ];
            assert_eq!(r[4..12], wanted, "{local:?} {at}");
            assert_eq!(r[12..16], mask(&|at| at == lane), "{local:?} {at}");
            assert_eq!(r[16..20], mask(&|at| at < lane), "{local:?} {at}");
            assert_eq!(r[20..24], mask(&|at| at <= lane), "{local:?} {at}");
            assert_eq!(r[24..28], mask(&|at| at > lane), "{local:?} {at}");
            assert_eq!(r[28..32], mask(&|at| at >= lane), "{local:?} {at}");
            let wanted = [
                size as u32,
                (item / 128) as u32,
                items.div_ceil(128) as u32,
                lane as u32,
                most as u32,
                own(lanes.start) as u32,
                own(lanes.start + 3) as u32,
                0,
                1,
                u32::from(lanes.clone().any(|at| own(at) == 5)),
                1,
                most as u32,
            ];
            assert_eq!(r[32..44], wanted, "{local:?} {at}");
        }
    }
}

#[test]
fn those_count_that_come_to_a_function_together() {
    let Some(program) = program(
        "kernel void f(global const int *x, global uint *to) {
            size_t i = get_global_linear_id(), l = get_local_linear_id();
            global uint *r = to + 48 * i;
            if (l % 3 == 0) {
                vstore4(sub_group_ballot(x[i] & 1), 0, r);
                r[4] = sub_group_elect();
            } else if (l % 3 == 1) {
                vstore4(sub_group_ballot(x[i] & 2), 0, r);
                r[4] = sub_group_non_uniform_reduce_max(x[i]);
            }
            // All are together again.
            vstore4(sub_group_ballot(1), 2, r);
            uint sum = 0, last = 0;
            for (uint turn = 0; turn < l % 5; turn++) {
                if (turn == 2 && x[i] % 7 == 0) continue;
                last = sub_group_ballot_bit_count(sub_group_ballot(1));
                sum += last * (turn + 1);
                if (x[i] % 11 == 3 && turn == 1) {
                    sum += 1000 * sub_group_non_uniform_scan_exclusive_add(1u);
                    break;
                }
            }
            r[12] = sum; r[13] = last;
            vstore4(sub_group_ballot(sum & 1), 4, r);
            while (1) {
                uint first = sub_group_broadcast_first(x[i]);
                r[20]++;
                if (first == x[i]) break;
            }
            if (l > 40) { r[21] = 7; return; }
            vstore4(sub_group_ballot(x[i] & 4), 6, r);
            switch (x[i] % 4) {
            case 0: r[28] = sub_group_non_uniform_reduce_add(x[i]); break;
            case 1: r[28] = sub_group_non_uniform_reduce_min(x[i]);
            case 2: r[29] = sub_group_non_uniform_scan_inclusive_add(x[i]); break;
            default: break;
            }
            barrier(CLK_LOCAL_MEM_FENCE);
            r[30] = sub_group_ballot_bit_count(sub_group_ballot(1));
        }",
    ) else {
        return;
    };
    for local in [[70, 1, 1], [200, 1, 1], [6, 5, 1]] {
        let items: usize = local.iter().product();
        let x: Vec<i32> = (0..2 * items).map(|at| (at as i32 * 37 + 5) % 31).collect();
        let to: Vec<u32> = run(&program, "f", local, &x, 48);
        for group in 0..2 {
            let own = |at: usize| x[group * items + at];
            for item in 0..items {
                let r = &to[48 * (group * items + item)..][..48];
                let lanes = lanes(item, items, 128);
                let those = |holds: &dyn Fn(usize) -> bool| -> Vec<usize> {
                    lanes.clone().filter(|at| holds(*at)).collect()
                };
                let name = format!("{local:?} {group} {item}");
                match item % 3 {
                    0 => {
                        let first = those(&|at| at % 3 == 0)[0];
                        assert_eq!(
                            r[..4],
                            ballot(lanes.clone(), |at| at % 3 == 0 && own(at) & 1 != 0),
                            "{name}"
                        );
                        assert_eq!(r[4], u32::from(item == first), "{name}");
                    }
                    1 => {
                        let most = those(&|at| at % 3 == 1).into_iter().map(own).max().unwrap();
                        assert_eq!(
                            r[..4],
                            ballot(lanes.clone(), |at| at % 3 == 1 && own(at) & 2 != 0),
                            "{name}"
                        );
                        assert_eq!(r[4], most as u32, "{name}");
                    }
                    _ => assert_eq!(r[..5], [0; 5], "{name}"),
                }
                assert_eq!(r[8..12], ballot(lanes.clone(), |_| true), "{name}");
                // Who leaves the loop in which turn, one turn after the other.
                let sums = |item: usize| {
                    let leaves = |at: usize| own(at) % 11 == 3;
                    let takes = |at: usize, turn: usize| {
                        turn < at % 5
                            && !(turn == 2 && own(at) % 7 == 0)
                            && !(turn > 1 && leaves(at))
                    };
                    let (mut sum, mut last) = (0, 0);
                    for turn in (0..5).filter(|turn| takes(item, *turn)) {
                        last = those(&|at| takes(at, turn)).len() as u32;
                        sum += last * (turn as u32 + 1);
                        if turn == 1 && leaves(item) {
                            let before = those(&|at| at < item && takes(at, 1) && leaves(at));
                            sum += 1000 * before.len() as u32;
                        }
                    }
                    [sum, last]
                };
                assert_eq!(r[12..14], sums(item), "{name}");
                assert_eq!(
                    r[16..20],
                    ballot(lanes.clone(), |at| sums(at)[0] & 1 == 1),
                    "{name}"
                );
                // Each turn those leave that have the number of the first one.
                let mut order: Vec<i32> = Vec::new();
                for number in lanes.clone().map(own) {
                    if !order.contains(&number) {
                        order.push(number);
                    }
                }
                let turns = order
                    .iter()
                    .position(|number| *number == own(item))
                    .unwrap()
                    + 1;
                assert_eq!(r[20], turns as u32, "{name}");
                if item > 40 {
                    assert_eq!(r[21..31], [7, 0, 0, 0, 0, 0, 0, 0, 0, 0], "{name}");
                    continue;
                }
                assert_eq!(
                    r[24..28],
                    ballot(lanes.clone(), |at| at <= 40 && own(at) & 4 != 0),
                    "{name}"
                );
                let with = |rest: &[i32]| -> Vec<usize> {
                    those(&|at| at <= 40 && rest.contains(&(own(at) % 4)))
                };
                let of = |all: Vec<usize>| all.into_iter().map(own);
                let rest = own(item) % 4;
                let first = match rest {
                    0 => of(with(&[0])).sum(),
                    1 => of(with(&[1])).min().unwrap(),
                    _ => 0,
                };
                let second = match rest {
                    1 | 2 => of(with(&[1, 2]).into_iter().filter(|at| *at <= item).collect()).sum(),
                    _ => 0,
                };
                assert_eq!(r[28..30], [first as u32, second as u32], "{name}");
                assert_eq!(r[30], those(&|at| at <= 40).len() as u32, "{name}");
            }
        }
    }
}

/// A number of a kernel's type.
trait Number: Copy + Default + PartialEq + std::fmt::Debug {
    const NAME: &'static str;
    const LOW: Self;
    const HIGH: Self;
    const IS_WHOLE: bool;
    fn of(number: i64) -> Self;
    fn plus(self, other: Self) -> Self;
    fn times(self, other: Self) -> Self;
    fn is_less(self, other: Self) -> bool;
    fn bits(self) -> u64;
}

macro_rules! whole {
    ($($type:ty, $name:literal);*) => {$(
        impl Number for $type {
            const NAME: &'static str = $name;
            const LOW: Self = <$type>::MIN;
            const HIGH: Self = <$type>::MAX;
            const IS_WHOLE: bool = true;
            fn of(number: i64) -> Self { number as $type }
            fn plus(self, other: Self) -> Self { self.wrapping_add(other) }
            fn times(self, other: Self) -> Self { self.wrapping_mul(other) }
            fn is_less(self, other: Self) -> bool { self < other }
            fn bits(self) -> u64 { self as u64 }
        }
    )*};
}
whole!(i8, "char"; u16, "ushort"; i32, "int"; u64, "ulong");

macro_rules! real {
    ($($type:ty, $name:literal);*) => {$(
        impl Number for $type {
            const NAME: &'static str = $name;
            const LOW: Self = <$type>::NEG_INFINITY;
            const HIGH: Self = <$type>::INFINITY;
            const IS_WHOLE: bool = false;
            fn of(number: i64) -> Self { number as $type }
            fn plus(self, other: Self) -> Self { self + other }
            fn times(self, other: Self) -> Self { self * other }
            fn is_less(self, other: Self) -> bool { self < other }
            fn bits(self) -> u64 { 0 }
        }
    )*};
}
real!(f32, "float"; f64, "double");

/// A `half` that is a whole number, as its bits.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Half(u16);

impl Half {
    fn value(self) -> f32 {
        let size = match self.0 & 0x7fff {
            0 => 0.0,
            0x7c00 => f32::INFINITY,
            size => f32::from_bits((u32::from(size) << 13) + (112 << 23)),
        };
        if self.0 >> 15 == 1 { -size } else { size }
    }

    fn new(value: f32) -> Self {
        let sign = (value.to_bits() >> 16) as u16 & 0x8000;
        Self(
            sign | match value.abs() {
                0.0 => 0,
                size if size.is_infinite() => 0x7c00,
                size => ((size.to_bits() - (112 << 23)) >> 13) as u16,
            },
        )
    }
}

impl Number for Half {
    const NAME: &'static str = "half";
    const LOW: Self = Self(0xfc00);
    const HIGH: Self = Self(0x7c00);
    const IS_WHOLE: bool = false;
    fn of(number: i64) -> Self {
        Self::new(number as f32)
    }
    fn plus(self, other: Self) -> Self {
        Self::new(self.value() + other.value())
    }
    fn times(self, other: Self) -> Self {
        Self::new(self.value() * other.value())
    }
    fn is_less(self, other: Self) -> bool {
        self.value() < other.value()
    }
    fn bits(self) -> u64 {
        0
    }
}

type With<T> = (&'static str, T, fn(T, T) -> T);

/// Reductions, scans and clusters, of sub-groups of eight, the last of which has four.
fn arithmetic<T: Number>() {
    let mut functions: Vec<With<T>> = vec![
        ("add", T::of(0), T::plus),
        ("mul", T::of(1), T::times),
        ("min", T::HIGH, |a, b| if b.is_less(a) { b } else { a }),
        ("max", T::LOW, |a, b| if a.is_less(b) { b } else { a }),
    ];
    if T::IS_WHOLE {
        functions.push(("and", T::of(-1), |a, b| T::of((a.bits() & b.bits()) as i64)));
        functions.push(("or", T::of(0), |a, b| T::of((a.bits() | b.bits()) as i64)));
        functions.push(("xor", T::of(0), |a, b| T::of((a.bits() ^ b.bits()) as i64)));
    }
    const EACH: usize = 4;
    let count = functions.len() * EACH + 9;
    let kernel = |name: &str, condition: &str, prefix: &str| {
        let each = functions.iter().enumerate().map(|(at, (name, _, _))| {
            format!(
                "r[{}] = sub_group_{prefix}reduce_{name}(a); r[{}] = sub_group_{prefix}scan_inclusive_{name}(a);
                 r[{}] = sub_group_{prefix}scan_exclusive_{name}(a); r[{}] = sub_group_clustered_reduce_{name}(a, 4);\n",
                at * EACH, at * EACH + 1, at * EACH + 2, at * EACH + 3
            )
        });
        let each: String = each.collect();
        format!(
            "__attribute__((intel_reqd_sub_group_size(8)))
            kernel void {name}(global const T *x, global T *to) {{
                size_t i = get_global_linear_id(), l = get_local_linear_id();
                global T *r = to + {count} * i;
                T a = x[i];
                if ({condition}) {{
                    {each}
                    r += {};
                    r[0] = sub_group_broadcast_first(a); r[1] = sub_group_non_uniform_all_equal(a);
                    r[2] = sub_group_shuffle_xor(a, 2); r[3] = sub_group_shuffle(a, 2); r[4] = sub_group_shuffle_up(a, 2);
                    r[5] = sub_group_shuffle_down(a, 2); r[6] = sub_group_rotate(a, 2); r[7] = sub_group_clustered_rotate(a, -2, 4);
                    r[8] = sub_group_non_uniform_broadcast((T##2)(a, (T)(a + (T)1)), 2).y;
                }}
            }}\n",
            functions.len() * EACH
        )
    };
    let text = format!(
        "{}{}",
        kernel("every", "1", "non_uniform_"),
        kernel("even", "l % 2 == 0", "non_uniform_")
    );
    let text = text
        .replace("T##2", &format!("{}2", T::NAME))
        .replace("(T)", &format!("({})", T::NAME));
    let Some(program) = program(&text.replace("T ", &format!("{} ", T::NAME))) else {
        return;
    };
    const ITEMS: usize = 20;
    let x: Vec<T> = (0..2 * ITEMS)
        .map(|at| T::of([1, 2, -1, 3, 1, -2][at % 6]))
        .collect();
    for (kernel, step) in [("every", 1), ("even", 2)] {
        let to: Vec<T> = run(&program, kernel, [ITEMS, 1, 1], &x, count);
        for (at, r) in to.chunks(count).enumerate() {
            let (group, item) = (at / ITEMS, at % ITEMS);
            let name = format!("{} {kernel} {at}", T::NAME);
            if item % step != 0 {
                assert!(r.iter().all(|number| *number == T::default()), "{name}");
                continue;
            }
            let own = |at: usize| x[group * ITEMS + at];
            let lanes = lanes(item, ITEMS, 8);
            let lane = item - lanes.start;
            let here: Vec<usize> = lanes.clone().filter(|at| at % step == 0).collect();
            for (which, (function, start, with)) in functions.iter().enumerate() {
                let fold = |of: &dyn Fn(usize) -> bool| {
                    let mut numbers = here.iter().filter(|at| of(**at)).map(|at| own(*at));
                    numbers
                        .next()
                        .map_or(*start, |first| numbers.fold(first, with))
                };
                let wanted = [
                    fold(&|_| true),
                    fold(&|at| at <= item),
                    fold(&|at| at < item),
                    fold(&|at| (at - lanes.start) / 4 == lane / 4),
                ];
                assert_eq!(r[which * EACH..][..EACH], wanted, "{function} {name}");
            }
            let r = &r[functions.len() * EACH..];
            // Nothing is said of what is taken from a work-item that is not there.
            let there = |lane: Option<usize>| {
                own(lane
                    .filter(|lane| *lane < lanes.len())
                    .map_or(item, |lane| lanes.start + lane))
            };
            let wanted = [
                own(here[0]),
                T::of(i64::from(here.iter().all(|at| own(*at) == own(here[0])))),
                there(Some(lane ^ 2)),
                there(Some(2)),
                there(lane.checked_sub(2)),
                there(Some(lane + 2)),
                there(Some((lane + 2) % 8)),
                there(Some(lane / 4 * 4 + (lane + 2) % 4)),
                there(Some(2)).plus(T::of(1)),
            ];
            assert_eq!(r, wanted, "{name}");
        }
    }
}

#[test]
fn numbers_of_each_type_are_reduced_scanned_and_exchanged() {
    arithmetic::<i8>();
    arithmetic::<u16>();
    arithmetic::<i32>();
    arithmetic::<u64>();
    arithmetic::<f32>();
    arithmetic::<f64>();
    if has_half() {
        arithmetic::<Half>();
    }
}

#[test]
fn truths_are_reduced_and_scanned() {
    let names = ["and", "or", "xor"];
    let each = names.iter().enumerate().map(|(at, name)| {
        format!(
            "r[{}] = sub_group_non_uniform_reduce_logical_{name}(a); r[{}] = sub_group_non_uniform_scan_inclusive_logical_{name}(a);
             r[{}] = sub_group_non_uniform_scan_exclusive_logical_{name}(a); r[{}] = sub_group_clustered_reduce_logical_{name}(a, 2);\n",
            at * 4, at * 4 + 1, at * 4 + 2, at * 4 + 3
        )
    });
    let text = format!(
        "kernel void f(global const int *x, global int *to) {{
            size_t i = get_global_linear_id();
            int a = x[i];
            global int *r = to + 12 * i;
            if (get_local_id(0) != 3) {{ {} }}
        }}",
        each.collect::<String>()
    );
    let Some(program) = program(&text) else {
        return;
    };
    let functions: [fn(bool, bool) -> bool; 3] = [|a, b| a && b, |a, b| a || b, |a, b| a != b];
    let x: Vec<i32> = (0..24)
        .map(|at| [5, 0, 7, 1, 0, 3, -2][at * 5 % 7])
        .collect();
    let to: Vec<i32> = run(&program, "f", [12, 1, 1], &x, 12);
    for (at, r) in to.chunks(12).enumerate() {
        let (group, item) = (at / 12, at % 12);
        if item == 3 {
            continue;
        }
        let fold = |which: usize, of: &dyn Fn(usize) -> bool| {
            let here = (0..12).filter(|at| *at != 3 && of(*at));
            let truths = here.map(|at| x[group * 12 + at] != 0);
            i32::from(truths.fold(which == 0, functions[which]))
        };
        for which in 0..3 {
            let wanted = [
                fold(which, &|_| true),
                fold(which, &|at| at <= item),
                fold(which, &|at| at < item),
                fold(which, &|at| at / 2 == item / 2),
            ];
            assert_eq!(r[which * 4..][..4], wanted, "{} {at}", names[which]);
        }
    }
}

/// A sub-group that exchanges values has at most 128 work-items. A kernel that exchanges none has
/// its work-group as one sub-group, so that no sub-group of it waits for another.
#[test]
fn sub_groups_are_small_where_they_exchange_values() {
    let Some(program) = program(
        "kernel void sums(global const int *x, global uint *to) {
            size_t i = get_global_linear_id();
            global uint *r = to + 4 * i;
            r[0] = sub_group_reduce_add(x[i]); r[1] = get_sub_group_size();
            r[2] = get_num_sub_groups(); r[3] = get_sub_group_local_id();
        }
        kernel void numbers(global const int *x, global uint *to) {
            size_t i = get_global_linear_id();
            global uint *r = to + 4 * i;
            sub_group_barrier(CLK_GLOBAL_MEM_FENCE);
            r[0] = x[i]; r[1] = get_sub_group_size();
            r[2] = get_num_sub_groups(); r[3] = get_sub_group_local_id();
        }",
    ) else {
        return;
    };
    for local in SIZES {
        let items: usize = local.iter().product();
        let x: Vec<i32> = (0..2 * items).map(|at| at as i32 * 3 + 1).collect();
        let sums: Vec<u32> = run(&program, "sums", local, &x, 4);
        let numbers: Vec<u32> = run(&program, "numbers", local, &x, 4);
        for at in 0..2 * items {
            let (group, item) = (at / items, at % items);
            let lanes = lanes(item, items, 128);
            let those = group * items + lanes.start..group * items + lanes.end;
            let sum: i32 = x[those].iter().sum();
            let (size, count) = (lanes.len(), items.div_ceil(128));
            let wanted = [sum as usize, size, count, item - lanes.start].map(|one| one as u32);
            assert_eq!(sums[4 * at..][..4], wanted, "{local:?} {at}");
            let wanted = [x[at] as u32, items as u32, 1, item as u32];
            assert_eq!(numbers[4 * at..][..4], wanted, "{local:?} {at}");
        }
    }
}
