//! Values that work-items of a strip share: counters of loops that they leave one by one, edges of
//! a grid that most of them are not at, numbers that go around between few of them, one divisor.

mod support;

use quipu_clc::{Output, Program};
use support::{Launch, program, random};

/// The optimiser's text of a kernel for groups of this size.
fn optimised(program: &Program, kernel: &str, local: [u32; 3]) -> String {
    let text = match program.emit(kernel, Some(local), Output::Optimised) {
        Ok(text) => String::from_utf8_lossy(&text).into_owned(),
        Err(error) => panic!("{error}"),
    };
    let start = text.find("define void @quipu_run_groups");
    text[start.unwrap_or(0)..].to_owned()
}

/// Numbers below a bound, the same each time.
fn below(bound: u32, count: usize, seed: u64) -> Vec<u32> {
    let all = random(count, seed);
    let numbers = all.iter().map(|x| (x.abs() * bound as f32) as u32);
    numbers.map(|x| x.min(bound - 1)).collect()
}

#[test]
fn groups_within_a_grid_read_neighbours() {
    let Some(program) = program(
        "kernel void around(int w, int h, global const uchar *in, global uchar *out) {
            int x = get_global_id(0), y = get_global_id(1);
            int left = x == 0 ? w - 1 : x - 1, right = x == w - 1 ? 0 : x + 1;
            int up = y == 0 ? h - 1 : y - 1, down = y != h - 1 ? y + 1 : 0;
            out[y * w + x] = in[y * w + left] * 2 + in[y * w + right] * 3 + in[up * w + x] * 5 + in[down * w + x] * 7;
        }
        kernel void sides(int w, global const uchar *in, global uchar *out) {
            int x = get_global_id(0);
            out[x] = in[x == 0 ? w - 1 : x - 1] * 2 + in[x == w - 1 ? 0 : x + 1] * 3;
        }
        kernel void guarded(int w, int n, global const uchar *in, global uchar *out) {
            int x = get_global_id(0), left = x == 0 ? w - 1 : x - 1;
            if (x < n) out[x] = in[left] + 1;
        }",
    ) else {
        return;
    };
    let text = optimised(&program, "sides", [32, 1, 1]);
    assert!(text.contains("load <32 x i8>"), "{text}");
    let (w, h) = (128, 8);
    let input: Vec<u8> = below(30, w * h, 3).iter().map(|x| *x as u8).collect();
    let out = vec![0_u8; w * h];
    let mut launch = Launch::new([w, h, 1], [32, 2, 1]);
    launch.value(w as i32);
    launch.value(h as i32);
    launch.memory(&input);
    launch.memory(&out);
    launch.run(&program, "around");
    for (at, out) in out.iter().enumerate() {
        let (x, y) = (at % w, at / w);
        let of = |x: usize, y: usize| u32::from(input[y % h * w + x % w]);
        let wanted =
            of(x + w - 1, y) * 2 + of(x + 1, y) * 3 + of(x, y + h - 1) * 5 + of(x, y + 1) * 7;
        assert_eq!(u32::from(*out), wanted % 256, "{x} {y}");
    }
    for n in [0, 1, 33, 100, 128] {
        let out = vec![0_u8; 128];
        let mut launch = Launch::new([128, 1, 1], [32, 1, 1]);
        launch.value(128_i32);
        launch.value(n);
        launch.memory(&input);
        launch.memory(&out);
        launch.run(&program, "guarded");
        let wanted = (0..128).map(|x| match x < n as usize {
            true => input[(x + 127) % 128] + 1,
            false => 0,
        });
        assert_eq!(out, wanted.collect::<Vec<_>>(), "{n}");
    }
}

#[test]
fn work_items_switch_in_vectors() {
    let Some(program) = program(
        "kernel void cases(global const int *in, global int *out) {
            size_t i = get_global_id(0);
            int x = in[i];
            switch (x) {
                case 1: x = x * 5; break;
                case 3: x = x - 9; break;
                case 4: x = out[i] + 2; break;
                case 7: x = x ^ 12;
                default: x += 100;
            }
            out[i] = x;
        }",
    ) else {
        return;
    };
    let text = optimised(&program, "cases", [64, 1, 1]);
    assert!(text.contains("store <"), "{text}");
    let input: Vec<i32> = below(9, 256, 4).iter().map(|x| *x as i32).collect();
    let out: Vec<i32> = (0..256).collect();
    let mut launch = Launch::new([256, 1, 1], [64, 1, 1]);
    launch.memory(&input);
    launch.memory(&out);
    launch.run(&program, "cases");
    for (i, (x, out)) in input.iter().zip(&out).enumerate() {
        let wanted = match x {
            1 => 5,
            3 => -6,
            4 => i as i32 + 2,
            7 => (7 ^ 12) + 100,
            other => other + 100,
        };
        assert_eq!(*out, wanted, "{i}");
    }
}

/// Where a switch has a case for each number, work-items go nowhere else from there.
#[test]
fn loops_with_a_switch_that_has_a_case_for_each_number_become_vectors() {
    const TURNS: i32 = 20;
    let switch = "switch (s & 3) {
            case 0: s = s * 5 + k; break;
            case 1: s ^= j + k * 77; stop = s > 100000; break;
            case 2: s += 12; break;
            default: s -= 9;
        }
        if (stop) break;";
    let Some(program) = program(&format!(
        "int walk(int s, int n) {{
            for (int j = 0; j < n; j++)
                for (int k = 0; k < n; k++) {{ bool stop = false; {switch} }}
            return s;
        }}
        kernel void of_memory(global const int *in, global int *out, int n) {{
            int i = get_global_id(0);
            out[i] = walk(in[i], n);
        }}
        kernel void of_numbers(global const int *in, global int *out, int n) {{
            int i = get_global_id(0);
            out[i] = walk(i * 7, n);
        }}"
    )) else {
        return;
    };
    let input: Vec<i32> = (0..256).map(|i| i * 7).collect();
    let wanted = input.iter().map(|s| {
        let mut s = *s;
        for j in 0..TURNS {
            for k in 0..TURNS {
                let mut stop = false;
                match s & 3 {
                    0 => s = s.wrapping_mul(5).wrapping_add(k),
                    1 => {
                        s ^= j + k * 77;
                        stop = s > 100_000;
                    }
                    2 => s = s.wrapping_add(12),
                    _ => s = s.wrapping_sub(9),
                }
                if stop {
                    break;
                }
            }
        }
        s
    });
    let wanted: Vec<i32> = wanted.collect();
    for name in ["of_memory", "of_numbers"] {
        let text = program.emit(name, Some([64, 1, 1]), Output::Explanation);
        let text = String::from_utf8(text.unwrap()).unwrap();
        assert!(text.contains("strip by strip"), "{text}");
        assert!(!text.contains("one after the other"), "{text}");
        let out = vec![0_i32; 256];
        let mut launch = Launch::new([256, 1, 1], [64, 1, 1]);
        launch.memory(&input);
        launch.memory(&out);
        launch.value(TURNS);
        launch.run(&program, name);
        assert_eq!(out, wanted, "{name}");
    }
}

#[test]
fn counters_are_one_number_for_all_that_are_inside() {
    let Some(program) = program(
        "kernel void find(int length, global const uchar *text, constant uchar *sought, global int *found) {
            size_t i = get_global_id(0);
            int same = 0;
            while (same < length && text[i + same] == sought[same]) same++;
            found[i] = same;
        }
        kernel void factor(uint first, global uint *out) {
            uint n = first + get_global_id(0), found = n;
            for (uint by = 2; by * by <= n; by++)
                if (n % by == 0) { found = by; break; }
            out[get_global_id(0)] = found;
        }
        // A counter that begins as another one's turn, and one that goes down; some go by.
        kernel void nested(int times, global const int *limits, global int *out) {
            int i = get_global_id(0), limit = limits[i], sum = 0;
            for (int outer = 0; outer < times; outer++) {
                int down = 40;
                for (int at = outer; at * at < limit; at += 3) {
                    if (at > limit / 4 + outer) break;
                    sum += at * down--;
                }
                sum = sum * 3 + down;
            }
            out[i] = sum;
        }
        // Not a counter: what it becomes differs, or what it begins as.
        kernel void own(global const int *limits, global int *out) {
            int i = get_global_id(0), limit = limits[i], at = i & 3, step = 1, sum = 0;
            while (at < limit) {
                sum += at * step;
                at += 2;
                step += (sum & 1) ? 2 : 1;
            }
            out[i] = sum + step;
        }",
    ) else {
        return;
    };
    let bytes = |count: usize, seed: u64| -> Vec<u8> {
        below(3, count, seed).iter().map(|x| *x as u8).collect()
    };
    let (text, sought) = (bytes(512 + 16, 5), bytes(16, 6));
    for length in [0_i32, 1, 5, 16] {
        let found = vec![-1_i32; 512];
        let mut launch = Launch::new([512, 1, 1], [128, 1, 1]);
        launch.value(length);
        launch.memory(&text);
        launch.memory(&sought);
        launch.memory(&found);
        launch.run(&program, "find");
        let wanted = (0..512).map(|i| {
            let same = text[i..].iter().zip(&sought[..length as usize]);
            same.take_while(|(one, other)| one == other).count() as i32
        });
        assert_eq!(found, wanted.collect::<Vec<_>>(), "{length}");
    }
    let out = vec![0_u32; 256];
    let mut launch = Launch::new([256, 1, 1], [64, 1, 1]);
    launch.value(3000_u32);
    launch.memory(&out);
    launch.run(&program, "factor");
    let wanted = (3000..3256_u32).map(|n| {
        let divides = |by: &u32| n.is_multiple_of(*by);
        (2..)
            .take_while(|by| by * by <= n)
            .find(divides)
            .unwrap_or(n)
    });
    assert_eq!(out, wanted.collect::<Vec<_>>());

    let limits: Vec<i32> = below(60, 256, 7).iter().map(|x| *x as i32 - 5).collect();
    let out = vec![0_i32; 256];
    let mut launch = Launch::new([256, 1, 1], [64, 1, 1]);
    launch.value(4_i32);
    launch.memory(&limits);
    launch.memory(&out);
    launch.run(&program, "nested");
    for (limit, out) in limits.iter().zip(&out) {
        let mut sum = 0_i32;
        for outer in 0..4 {
            let (mut down, mut at) = (40, outer);
            while at * at < *limit {
                if at > limit / 4 + outer {
                    break;
                }
                sum = sum.wrapping_add(at * down);
                down -= 1;
                at += 3;
            }
            sum = sum.wrapping_mul(3).wrapping_add(down);
        }
        assert_eq!(*out, sum, "{limit}");
    }
    let out = vec![0_i32; 256];
    let mut launch = Launch::new([256, 1, 1], [64, 1, 1]);
    launch.memory(&limits);
    launch.memory(&out);
    launch.run(&program, "own");
    for (i, (limit, out)) in limits.iter().zip(&out).enumerate() {
        let (mut at, mut step, mut sum) = (i as i32 & 3, 1, 0);
        while at < *limit {
            sum += at * step;
            at += 2;
            step += if sum & 1 != 0 { 2 } else { 1 };
        }
        assert_eq!(*out, sum + step, "{i}");
    }
    let text = optimised(&program, "factor", [64, 1, 1]);
    assert!(text.contains("fmul") && !text.contains("fdiv <"), "{text}");
}

#[test]
fn one_divisor_gives_exact_quotients() {
    let Some(program) = program(
        "kernel void by_one(uint by, int with_sign, global const uint *in, global uint4 *out) {
            size_t i = get_global_id(0);
            int x = in[i];
            out[i] = (uint4)(in[i] / by, in[i] % by, x / with_sign, x % with_sign);
        }",
    ) else {
        return;
    };
    let text = optimised(&program, "by_one", [64, 1, 1]);
    // Of -1 the divisor that has a quotient depends on the dividend.
    assert!(text.contains("fdiv double 1.0"), "{text}");
    let near = |x: u32| [x.wrapping_sub(1), x, x.wrapping_add(1)];
    let divisors = [
        1_u32,
        2,
        3,
        7,
        641,
        65535,
        65537,
        0x7fff_ffff,
        0x8000_0001,
        u32::MAX,
    ];
    for by in divisors {
        let mut numbers: Vec<u32> = [0, 1 << 31, u32::MAX, by]
            .into_iter()
            .flat_map(near)
            .collect();
        numbers.extend((1..400).flat_map(|times| near(by.wrapping_mul(times * 97))));
        numbers.extend((1..60).flat_map(|times| near(u32::MAX / by / times * by)));
        numbers.resize(1536, 12345);
        let out = vec![[0_u32; 4]; numbers.len()];
        let mut launch = Launch::new([numbers.len(), 1, 1], [64, 1, 1]);
        launch.value(by);
        launch.value(by);
        launch.memory(&numbers);
        launch.memory(&out);
        launch.run(&program, "by_one");
        for (x, out) in numbers.iter().zip(&out) {
            let (signed, with_sign) = (*x as i32, by as i32);
            assert_eq!(out[..2], [x / by, x % by], "{x} {by}");
            if let (Some(quotient), Some(rest)) =
                (signed.checked_div(with_sign), signed.checked_rem(with_sign))
            {
                assert_eq!(
                    out[2..],
                    [quotient as u32, rest as u32],
                    "{signed} {with_sign}"
                );
            }
        }
    }
}

#[test]
fn few_bytes_are_read_and_written_as_a_word() {
    let Some(program) = program(
        "kernel void some(int n, global const uchar4 *in, global const short2 *more, global char4 *out) {
            int i = get_global_id(0);
            int4 sum = 0;
            for (int d = -2; d <= 2; d++)
                if (i + d >= 0 && i + d < n) sum += convert_int4(in[i + d]);
            if (more[i].x > 0) out[i] = convert_char4(sum / 8) + (char4)(1, 2, 3, more[i].y);
        }
        kernel void three(global const uchar3 *in, global uchar3 *out) {
            int i = get_global_id(0);
            out[i] = in[i] + (uchar3)(1, 2, 3);
        }",
    ) else {
        return;
    };
    let text = optimised(&program, "some", [64, 1, 1]);
    assert!(!text.contains("load i8"), "{text}");
    let n = 256;
    let input: Vec<[u8; 4]> = below(1 << 20, n, 8)
        .iter()
        .map(|x| [*x as u8, (x >> 4) as u8, (x >> 8) as u8, (x >> 12) as u8])
        .collect();
    let three = vec![[0_u8; 4]; n];
    let mut launch = Launch::new([n, 1, 1], [64, 1, 1]);
    launch.memory(&input);
    launch.memory(&three);
    launch.run(&program, "three");
    for ([x, y, z, _], three) in input.iter().zip(&three) {
        let wanted = [x.wrapping_add(1), y.wrapping_add(2), z.wrapping_add(3)];
        assert_eq!(three[..3], wanted);
    }
    let more: Vec<[i16; 2]> = below(1 << 16, n, 9)
        .iter()
        .map(|x| [*x as i16, (x >> 10) as i16])
        .collect();
    let out = vec![[77_i8; 4]; n];
    let mut launch = Launch::new([n, 1, 1], [64, 1, 1]);
    launch.value(n as i32);
    launch.memory(&input);
    launch.memory(&more);
    launch.memory(&out);
    launch.run(&program, "some");
    for (i, out) in out.iter().enumerate() {
        if more[i][0] <= 0 {
            assert_eq!(*out, [77; 4], "{i}");
            continue;
        }
        let near = i.saturating_sub(2)..(i + 3).min(n);
        for part in 0..4 {
            let sum: i32 = near.clone().map(|at| i32::from(input[at][part])).sum();
            let more = [1, 2, 3, more[i][1] as i8][part];
            assert_eq!(
                out[part],
                ((sum / 8) as i8).wrapping_add(more),
                "{i} {part}"
            );
        }
    }
}

#[test]
fn numbers_that_go_around_between_strips_are_neighbours_within() {
    let Some(program) = program(
        "kernel void pairs(int step, global const float2 *in, global float2 *out, local float2 *near) {
            int l = get_local_id(0), at = 2 * l - (l & (step - 1));
            near[at] = in[get_global_id(0)];
            near[at + step] = in[get_global_id(0)].yx;
            barrier(CLK_LOCAL_MEM_FENCE);
            out[get_group_id(0) * 512 + l] = near[l];
            out[get_group_id(0) * 512 + 256 + l] = near[256 + l];
        }
        kernel void some_pairs(int step, global const int2 *in, global int2 *out) {
            int l = get_local_id(0), at = 2 * l - (l & (step - 1));
            int2 one = in[at];
            if (one.x > one.y) out[at + step] = one.yx;
        }",
    ) else {
        return;
    };
    // A processor without scatters writes one by one.
    let text = optimised(&program, "pairs", [256, 1, 1]);
    assert!(
        !text.contains("masked.scatter") || text.contains("masked.store"),
        "{text}"
    );
    let input: Vec<[f32; 2]> = (0..256).map(|i| [i as f32, i as f32 + 0.5]).collect();
    let numbers: Vec<[i32; 2]> = below(1 << 16, 512, 10)
        .iter()
        .map(|x| [(x & 255) as i32, (x >> 8) as i32])
        .collect();
    for step in [1, 2, 8, 16, 32, 256] {
        let place = |l: usize| 2 * l - (l & (step - 1));
        let out = vec![[0_f32; 2]; 512];
        let mut launch = Launch::new([256, 1, 1], [256, 1, 1]);
        launch.value(step as i32);
        launch.memory(&input);
        launch.memory(&out);
        launch.arguments.push(quipu_clc::Argument::Local(512 * 8));
        launch.run(&program, "pairs");
        let some = vec![[-1_i32; 2]; 1024];
        let mut launch = Launch::new([256, 1, 1], [256, 1, 1]);
        launch.value(step as i32);
        launch.memory(&numbers);
        launch.memory(&some);
        launch.run(&program, "some_pairs");
        let (mut wanted, mut wanted_some) = (vec![[0.0; 2]; 512], vec![[-1; 2]; 1024]);
        for (l, [x, y]) in input.iter().enumerate() {
            wanted[place(l)] = [*x, *y];
            wanted[place(l) + step] = [*y, *x];
            let [a, b] = numbers[place(l)];
            if a > b {
                wanted_some[place(l) + step] = [b, a];
            }
        }
        assert_eq!(out, wanted, "{step}");
        assert_eq!(some, wanted_some, "{step}");
    }
}

#[test]
fn rows_of_each_work_item_are_vectors_of_turns() {
    let Some(program) = program(
        "kernel void scaled(int n, global const float *in, global float *out) {
            int row = get_global_id(0);
            float by = in[row * n];
            for (int i = 0; i < n; i++)
                out[row * n + i] = in[row * n + i] * by + i;
        }
        kernel void carried(int n, global int *all) {
            int row = get_global_id(0);
            for (int i = 0; i < n; i++)
                all[row * (n + 1) + i + 1] = all[row * (n + 1) + i] * 3 + i;
        }
        kernel void both(int n, global const int *in, global int *out) {
            int x = get_global_id(0), rows = get_global_size(0);
            for (int i = 0; i < n; i++) {
                int sum = 0;
                for (int k = 0; k < 3; k++)
                    sum += in[x * n + i] << k;
                out[x * n + i] = sum + in[i * rows + x];
            }
        }",
    ) else {
        return;
    };
    let text = optimised(&program, "scaled", [64, 1, 1]);
    assert!(!text.contains("masked.scatter"), "{text}");
    assert!(!text.contains("masked.gather"), "{text}");
    let rows = 64;
    for n in [1_usize, 5, 16, 100] {
        for local in [64, 8, 1] {
            let input: Vec<f32> = (0..rows * n).map(|at| (at * 7 % 23) as f32).collect();
            let wanted = |at: usize| input[at] * input[at / n * n] + (at % n) as f32;
            // Where a row is read and written, its first number is of before.
            for in_place in [false, true] {
                let out = match in_place {
                    true => input.clone(),
                    false => vec![0.0_f32; rows * n],
                };
                let mut launch = Launch::new([rows, 1, 1], [local, 1, 1]);
                launch.value(n as i32);
                launch.memory(if in_place { &out } else { &input });
                launch.memory(&out);
                launch.run(&program, "scaled");
                for (at, is) in out.iter().enumerate() {
                    assert_eq!(*is, wanted(at), "{at}, n {n}, groups of {local}");
                }
            }
            let mut all: Vec<i32> = (0..rows * (n + 1)).map(|at| at as i32 % 5).collect();
            let given = all.clone();
            let mut launch = Launch::new([rows, 1, 1], [local, 1, 1]);
            launch.value(n as i32);
            launch.memory(&given);
            launch.run(&program, "carried");
            for row in all.chunks_mut(n + 1) {
                for i in 0..n {
                    row[i + 1] = row[i].wrapping_mul(3).wrapping_add(i as i32);
                }
            }
            assert_eq!(given, all, "n {n}, groups of {local}");
            let numbers: Vec<i32> = (0..rows * n).map(|at| (at * 31 % 101) as i32).collect();
            let out = vec![0_i32; rows * n];
            let mut launch = Launch::new([rows, 1, 1], [local, 1, 1]);
            launch.value(n as i32);
            launch.memory(&numbers);
            launch.memory(&out);
            launch.run(&program, "both");
            for x in 0..rows {
                for i in 0..n {
                    let wanted = numbers[x * n + i] * 7 + numbers[i * rows + x];
                    assert_eq!(out[x * n + i], wanted, "{x} {i}, n {n}, groups of {local}");
                }
            }
        }
    }
}

#[test]
fn what_a_structure_brings_is_read_behind_its_assignment() {
    const ASSIGNMENTS: [&str; 3] = [
        "cur[g] = t[j];",
        "cur[g] = (S){0};",
        "cur[g] = j & 1 ? t[j] : t[0];",
    ];
    const TURNS: usize = 5;
    const GROUPS: usize = 7;
    for assignment in ASSIGNMENTS {
        let Some(program) = program(&format!(
            "typedef struct {{ int a[16]; }} S;
             kernel void k(global const S *t, global S *cur, global const int *n, global int *out) {{
                int i = get_global_id(0), g = get_group_id(0), sum = 0, j = 0;
                do {{ {assignment} sum += cur[g].a[j & 15]; }} while (++j < n[i]);
                out[i] = sum;
            }}"
        )) else {
            return;
        };
        let t: Vec<i32> = (0..TURNS * 16).map(|at| 1000 + at as i32).collect();
        let cur = vec![-77_i32; GROUPS * 16];
        let n: Vec<i32> = (0..GROUPS).map(|at| (at % TURNS) as i32 + 1).collect();
        let out = vec![0_i32; GROUPS];
        let mut launch = Launch::new([GROUPS, 1, 1], [1, 1, 1]);
        launch.memory(&t);
        launch.memory(&cur);
        launch.memory(&n);
        launch.memory(&out);
        launch.run(&program, "k");
        for (at, sum) in out.iter().enumerate() {
            let turns = 0..n[at] as usize;
            let wanted: i32 = match assignment {
                "cur[g] = t[j];" => turns.map(|j| t[j * 16 + j]).sum(),
                "cur[g] = (S){0};" => 0,
                _ => turns.map(|j| t[(j & 1) * j * 16 + j]).sum(),
            };
            assert_eq!(*sum, wanted, "{assignment}, {at}");
        }
    }
}
