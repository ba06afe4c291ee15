//! Kernels that must become vectors: the code that the passes and the optimiser make of them, and
//! their results.

mod support;

use quipu_clc::{Output, Program};
use support::{Launch, program, random};

/// A stage of a kernel, from the function of work-groups on.
fn stage(program: &Program, kernel: &str, local: [u32; 3], output: Output) -> String {
    let text = match program.emit(kernel, Some(local), output) {
        Ok(text) => String::from_utf8_lossy(&text).into_owned(),
        Err(error) => panic!("{error}"),
    };
    let start = text.find("define void @quipu_run_groups");
    text[start.unwrap_or(0)..].to_owned()
}

#[test]
fn local_memory_is_changed_by_one_thread() {
    let Some(program) = program(
        "kernel void all(global const uint *in, global uint *out) {
            local uint x[10];
            uint l = get_local_id(0), own = in[get_global_id(0)];
            if (l < 10) x[l] = l == 7 ? 4000000000u : 0;
            barrier(CLK_LOCAL_MEM_FENCE);
            atomic_add(&x[0], own);
            atomic_sub(&x[1], own);
            atomic_or(&x[2], own);
            atomic_xor(&x[3], own);
            atomic_max(&x[4], own);
            atomic_max((volatile local int *)&x[5], (int)own - 500);
            atomic_min((volatile local int *)&x[6], (int)own - 500);
            atomic_min(&x[7], own);
            uint before = atomic_inc(&x[8]);
            if (before == 20) atomic_xchg(&x[9], 77);
            atomic_cmpxchg(&x[9], 77, own + 1);
            barrier(CLK_LOCAL_MEM_FENCE);
            if (l < 10) out[get_group_id(0) * 10 + l] = x[l];
        }",
    ) else {
        return;
    };
    let own: Vec<u32> = random(128, 5)
        .iter()
        .map(|x| (x.abs() * 1000.0) as u32)
        .collect();
    let out = vec![0_u32; 20];
    let mut launch = Launch::new([128, 1, 1], [64, 1, 1]);
    launch.memory(&own);
    launch.memory(&out);
    launch.run(&program, "all");
    for (own, out) in own.chunks(64).zip(out.chunks(10)) {
        let signed = |x: &u32| *x as i32 - 500;
        let wanted = [
            own.iter().sum(),
            0_u32.wrapping_sub(own.iter().sum()),
            own.iter().fold(0, |all, x| all | x),
            own.iter().fold(0, |all, x| all ^ x),
            own.iter().copied().max().unwrap_or(0),
            own.iter().map(signed).max().unwrap_or(0).max(0) as u32,
            own.iter().map(signed).min().unwrap_or(0).min(0) as u32,
            own.iter().copied().min().unwrap_or(0),
            64,
        ];
        assert_eq!(out[..9], wanted);
        // The one that came to it put 77 there, and replaced it.
        assert!(own.iter().any(|own| own + 1 == out[9]), "{out:?}");
    }
    let text = stage(&program, "all", [64, 1, 1], Output::Passes);
    assert!(!text.contains("atomicrmw") && !text.contains("cmpxchg"));
}

#[test]
fn neighbours_read_whole_structures_together() {
    let Some(program) = program(
        "kernel void lengths(global const float4 *in, global float *out) {
            size_t i = get_global_id(0);
            out[i] = dot(in[i], in[i]);
        }
        kernel void around(global const int *in, global int *out) {
            size_t i = get_local_id(0);
            out[i] = in[(i * 5) & 15];
        }
        kernel void modulo(global const int *in, global int *out) {
            uint i = get_local_id(0);
            out[i] = in[(i * 3) % 8];
        }
        kernel void narrow(global const int *in, global int *out) {
            uint i = get_local_id(0);
            out[i] = in[(uchar)(i * 37)];
        }",
    ) else {
        return;
    };
    let text = stage(&program, "lengths", [64, 1, 1], Output::Optimised);
    assert!(
        !text.contains("gather") && text.contains("shufflevector"),
        "{text}"
    );
    // LLVM would read on beyond what an index that goes around comes to.
    let numbers: Vec<i32> = (0..4096).collect();
    type Index = fn(usize) -> usize;
    let cases: [(&str, Index); 3] = [
        ("around", |i| (i * 5) & 15),
        ("modulo", |i| i * 3 % 8),
        ("narrow", |i| (i * 37) & 255),
    ];
    for (kernel, index) in cases {
        for local in [16, 64, 256] {
            let out = vec![0_i32; local];
            let mut launch = Launch::new([local, 1, 1], [local, 1, 1]);
            launch.memory(&numbers);
            launch.memory(&out);
            launch.run(&program, kernel);
            let wanted: Vec<i32> = (0..local).map(|i| numbers[index(i)]).collect();
            assert_eq!(out, wanted, "{kernel} {local}");
        }
    }
}

#[test]
fn rows_are_read_by_vectors() {
    let Some(program) = program(
        "kernel void rows(int n, global const float *a, global const float *x, global float *y) {
            int row = get_global_id(0);
            float sum = 0.0f;
            for (int k = 0; k < n; k++) sum += a[row * n + k] * x[k];
            y[row] = sum;
        }
        kernel void messages(global const uint *in, global uint *out) {
            size_t i = get_global_id(0);
            uint hash = 1;
            for (int k = 0; k < 16; k++)
                for (int bit = 0; bit < 32; bit++)
                    hash = (hash & 1 ? hash >> 1 ^ 0xedb88320u : hash >> 1) + in[i * 16 + k];
            out[i] = hash;
        }
        kernel void neighbours(int steps, global float *data) {
            local float now[2][256];
            int l = get_local_id(0), n = get_local_size(0), from = 0;
            now[0][l] = data[get_global_id(0)];
            for (int step = 0; step < steps; step++) {
                barrier(CLK_LOCAL_MEM_FENCE);
                float left = l > 0 ? now[from][l - 1] : 0.0f;
                float right = l < n - 1 ? now[from][l + 1] : 0.0f;
                now[1 - from][l] = now[from][l] + 0.25f * (left + right);
                from = 1 - from;
            }
            data[get_global_id(0)] = now[from][l];
        }",
    ) else {
        return;
    };
    // Not for rows of one number alone.
    let text = stage(&program, "rows", [64, 1, 1], Output::Optimised);
    assert!(!text.contains("ident.check"), "{text}");
    // As many messages as the registers and the cache have room for, not as few as of long rows.
    let text = stage(&program, "messages", [64, 1, 1], Output::Passes);
    let most = if has_gathers() {
        "[64 x i32]"
    } else {
        "[32 x i32]"
    };
    assert!(text.contains(most), "{text}");
    let text = stage(&program, "neighbours", [256, 1, 1], Output::Optimised);
    assert!(!text.contains(" = fadd float"), "{text}");
}

#[test]
fn a_triangle_has_its_groups_without_a_test() {
    let Some(program) = program(
        "kernel void update(int n, int depth, global const float *a, global float *c) {
            int x = get_global_id(0), y = get_global_id(1);
            if (x > y) return;
            float sum = 0.0f;
            for (int k = 0; k < depth; k++) sum += a[k * n + y] * a[k * n + x];
            c[y * n + x] += sum;
        }",
    ) else {
        return;
    };
    let (n, depth) = (48, 5);
    let a = random(n * depth, 3);
    let c = vec![1.0_f32; n * n];
    let mut launch = Launch::new([n, n, 1], [16, 16, 1]);
    launch.value(n as u32);
    launch.value(depth as u32);
    launch.memory(&a);
    launch.memory(&c);
    launch.run(&program, "update");
    for y in 0..n {
        for x in 0..n {
            let sum: f32 = (0..depth).map(|k| a[k * n + y] * a[k * n + x]).sum();
            let wanted = if x > y { 1.0 } else { 1.0 + sum };
            assert!((c[y * n + x] - wanted).abs() < 1e-5, "{x} {y}");
        }
    }
    let text = stage(&program, "update", [16, 16, 1], Output::Passes);
    assert!(text.contains("\nwithin:"), "{text}");
}

#[test]
fn work_items_go_by_a_loop_that_others_enter() {
    let Some(program) = program(
        "kernel void squares(int n, global const float *in, global float *out, global float *sums) {
            local float part[64];
            int l = get_local_id(0);
            float sum = 10.0f * l;
            for (int i = l; i < n; i += 64) {
                out[i] = in[i] * in[i];
                sum += in[i] + exp(in[i]) + log(2.0f + in[i]);
            }
            part[l] = sum;
            barrier(CLK_LOCAL_MEM_FENCE);
            sums[get_global_id(0)] = part[63 - l];
        }
        kernel void fetches(global const int *starts, global const int *columns, global const float *x, global float *y) {
            size_t i = get_global_id(0);
            float sum = 0.0f;
            for (int k = starts[i]; k < starts[i + 1]; k++) sum += x[columns[k]];
            y[i] = sum;
        }
        kernel void segments(global const int *starts, global const float *x, global float *y) {
            size_t i = get_global_id(0);
            float sum = 0.0f;
            for (int k = starts[i]; k < starts[i + 1]; k++) sum += x[k];
            y[i] = sum;
        }
        kernel void windows(int n, global const float *x, global float *y) {
            int i = get_global_id(0);
            float sum = 0.0f;
            for (int k = max(i - 2, 0); k < min(i + 3, n); k++) sum += x[k];
            y[i] = sum;
        }",
    ) else {
        return;
    };
    for n in [0, 1, 63, 64, 100, 300] {
        let input = random(n, 4);
        let (out, sums) = (vec![0.0_f32; n], vec![0.0_f32; 64]);
        let mut launch = Launch::new([64, 1, 1], [64, 1, 1]);
        launch.value(n as u32);
        launch.memory(&input);
        launch.memory(&out);
        launch.memory(&sums);
        launch.run(&program, "squares");
        let squares: Vec<f32> = input.iter().map(|x| x * x).collect();
        assert_eq!(out, squares, "{n}");
        for (l, sum) in sums.iter().rev().enumerate() {
            let own = input.iter().skip(l).step_by(64);
            let wanted = own.fold(10.0 * l as f32, |sum, x| sum + x + x.exp() + (2.0 + x).ln());
            assert!((sum - wanted).abs() < 1e-3, "{n} {l}: {sum} {wanted}");
        }
    }
    let text = stage(&program, "squares", [64, 1, 1], Output::Passes);
    assert!(text.contains("\nturned"), "{text}");
    // Where it only fetches, each goes round by itself.
    for kernel in ["fetches", "segments"] {
        let text = stage(&program, kernel, [64, 1, 1], Output::Passes);
        assert!(!text.contains("\nturned"), "{text}");
    }
    // Neighbours read neighbours.
    let text = stage(&program, "windows", [64, 1, 1], Output::Passes);
    assert!(text.contains("\nturned"), "{text}");
}

#[test]
fn bytes_of_some_work_items_are_read_one_by_one() {
    let Some(program) = program(
        "kernel void prefix(int length, global const int *starts, global const uchar *text, constant uchar *sought,
                global uchar *found) {
            size_t i = get_global_id(0);
            int start = starts[i];
            int same = 0;
            while (same < length && text[start + same] == sought[same]) same++;
            found[i] = same == length;
        }",
    ) else {
        return;
    };
    let text: Vec<u8> = random(256 + 4, 9)
        .iter()
        .map(|x| u8::from(*x > 0.0))
        .collect();
    let starts: Vec<i32> = (0..256).map(|i| i * 7 % 256).collect();
    let found = vec![2_u8; 256];
    let mut launch = Launch::new([256, 1, 1], [128, 1, 1]);
    launch.value(4_u32);
    launch.memory(&starts);
    launch.memory(&text);
    launch.memory(&[1_u8, 0, 1, 1]);
    launch.memory(&found);
    launch.run(&program, "prefix");
    for (start, found) in starts.iter().zip(&found) {
        let start = *start as usize;
        assert_eq!(
            *found == 1,
            text[start..start + 4] == [1, 0, 1, 1],
            "{start}"
        );
    }
    let text = stage(&program, "prefix", [128, 1, 1], Output::Passes);
    assert!(!text.contains("\nturned"), "{text}");
}

#[test]
fn a_loop_around_one_that_memory_ends_stays_a_loop() {
    let Some(program) = program(
        "kernel void middle(global const uchar *in, global uchar *out) {
            int x = get_global_id(0);
            uchar sorted[9];
            for (int k = 0; k < 9; k++) {
                uchar value = in[x * 9 + k];
                int at = k;
                while (at > 0 && sorted[at - 1] > value) {
                    sorted[at] = sorted[at - 1];
                    at--;
                }
                sorted[at] = value;
            }
            out[x] = sorted[4];
        }",
    ) else {
        return;
    };
    let input: Vec<u8> = random(64 * 9, 6)
        .iter()
        .map(|x| (x.abs() * 255.0) as u8)
        .collect();
    let out = vec![0_u8; 64];
    let mut launch = Launch::new([64, 1, 1], [64, 1, 1]);
    launch.memory(&input);
    launch.memory(&out);
    launch.run(&program, "middle");
    for (window, out) in input.chunks(9).zip(&out) {
        let mut window = window.to_vec();
        window.sort_unstable();
        assert_eq!(*out, window[4]);
    }
    let text = match program.emit("middle", Some([64, 1, 1]), Output::Passes) {
        Ok(text) => String::from_utf8_lossy(&text).into_owned(),
        Err(error) => panic!("{error}"),
    };
    let (_, kernel) = text.split_once("@middle(").unwrap_or(("", &text));
    let (kernel, _) = kernel.split_once("\n}").unwrap_or((kernel, ""));
    let stores = kernel.matches("store i8").count();
    assert!(
        stores < 9,
        "{stores} stores, of which the text has three: {text}"
    );
}

#[test]
fn comparisons_with_what_is_the_same_for_all_part_a_strip() {
    const TESTS: [&str; 8] = [
        "l < s", "l <= s", "l > s", "l >= s", "s < l", "s <= l", "s > l", "s >= l",
    ];
    let kinds = [
        ("signed", "int", "uint"),
        ("unsigned", "uint", "uint"),
        ("wide", "ulong", "ulong"),
    ];
    let mut text = String::new();
    for (kind, of, bits) in kinds {
        for (number, test) in TESTS.into_iter().enumerate() {
            text += &format!(
                "kernel void {kind}_{number}(int count, ulong from, local uchar *all, global uint *out) {{
                    {of} l = get_local_id(0), s = ({of})from;
                    all[l] = l & 3;
                    barrier(CLK_LOCAL_MEM_FENCE);
                    uint sum = 0;
                    for (int i = 0; i < count; i++) {{
                        if ({test} && all[i] == (uchar)(l & 3)) sum += i + 1;
                        s = ({of})(({bits})s + 1);
                    }}
                    out[l] = sum;
                }}\n"
            );
        }
    }
    let Some(program) = program(&text) else {
        return;
    };
    for (kind, _, _) in kinds {
        let compared = |l: u64, bound: u64| match kind {
            "signed" => (l as i32).cmp(&(bound as i32)),
            "unsigned" => (l as u32).cmp(&(bound as u32)),
            _ => l.cmp(&bound),
        };
        // Bounds within the group, at both ends of it, and at both ends of what there is.
        for (from, test) in [0, 92, (1 << 31) - 4, 0_u64.wrapping_sub(4)]
            .into_iter()
            .flat_map(|from| (0..TESTS.len()).map(move |test| (from, test)))
        {
            const COUNT: usize = 40;
            let out = vec![0_u32; 96];
            let mut launch = Launch::new([96, 1, 1], [96, 1, 1]);
            launch.value(COUNT as i32);
            launch.value(from);
            launch.arguments.push(quipu_clc::Argument::Local(96));
            launch.memory(&out);
            launch.run(&program, &format!("{kind}_{test}"));
            let holds = |l: u64, i: usize| {
                let order = compared(l, from.wrapping_add(i as u64));
                let is_met = match TESTS[test] {
                    "l < s" | "s > l" => order.is_lt(),
                    "l <= s" | "s >= l" => order.is_le(),
                    "l > s" | "s < l" => order.is_gt(),
                    _ => order.is_ge(),
                };
                is_met && i & 3 == l as usize & 3
            };
            let wanted: Vec<u32> = (0..96)
                .map(|l| {
                    let turns = (0..COUNT).filter(|i| holds(l, *i));
                    turns.map(|i| i as u32 + 1).sum()
                })
                .collect();
            assert_eq!(out, wanted, "{kind}: {} from {from}", TESTS[test]);
        }
        // No work-item of a strip asks for itself.
        let text = stage(&program, &format!("{kind}_2"), [96, 1, 1], Output::Passes);
        assert!(text.contains("\npart"), "{kind}: {text}");
    }
}

#[test]
fn gathers_ask_whether_work_items_are_neighbours() {
    let Some(program) = program(
        "kernel void strides(int apart, int n, global const int *in, global int *sums, global int *marks) {
            int sum = 0;
            for (int i = apart * (int)get_global_id(0); i < n; i += get_global_size(0)) {
                sum = sum * 5u + (in[i] ^ 3) % 512;
                marks[i] = sum;
            }
            sums[get_global_id(0)] = sum;
        }",
    ) else {
        return;
    };
    let text = stage(&program, "strides", [64, 1, 1], Output::Optimised);
    for access in ["load", "store", "gather", "scatter"] {
        let has_access = text.contains(&format!("llvm.masked.{access}."));
        assert!(has_access || !has_gathers(), "{text}");
    }
    const COUNT: usize = 1000;
    let numbers: Vec<i32> = (0..COUNT as i32).map(|x| x * x % 1009).collect();
    // Neighbours, all at one place, work-items that are in order and apart, and some that go the
    // other way around.
    for apart in [1, 0, 3, -1] {
        let (sums, marks) = (vec![0_i32; 128], vec![0_i32; COUNT]);
        let mut launch = Launch::new([128, 1, 1], [64, 1, 1]);
        // None may begin below the first number.
        let skipped = if apart < 0 { 128 } else { 0 };
        launch.value(apart);
        launch.value((COUNT - skipped) as i32);
        launch.memory(&numbers[skipped..]);
        launch.memory(&sums);
        launch.memory(&marks[skipped..]);
        let [all, written] = [&numbers, &marks].map(|all| &all[skipped..]);
        launch.run(&program, "strides");
        let mut places = vec![Vec::new(); written.len()];
        for (item, sum) in sums.iter().enumerate() {
            let mut wanted = 0_i32;
            let mut at = apart as isize * item as isize;
            while at < all.len() as isize {
                // What is before the slice is in the memory, too.
                let number = numbers[(at + skipped as isize) as usize];
                wanted = wanted.wrapping_mul(5).wrapping_add((number ^ 3) % 512);
                if let Ok(at) = usize::try_from(at) {
                    places[at].push(wanted);
                }
                at += 128;
            }
            assert_eq!(*sum, wanted, "{apart}: {item}");
        }
        for (written, any) in written.iter().zip(places) {
            assert!(any.is_empty() || any.contains(written), "{apart}");
        }
    }
}

#[test]
fn whole_numbers_are_divided_many_at_once() {
    let Some(program) = program(
        "kernel void unsigned_ones(global const uint *a, global const uint *b, global uint *quotients, global uint *rests) {
            size_t i = get_global_id(0);
            quotients[i] = a[i] / b[i];
            rests[i] = a[i] % b[i];
        }
        kernel void signed_ones(global const int *a, global const int *b, global int *quotients, global int *rests) {
            size_t i = get_global_id(0);
            quotients[i] = a[i] / b[i];
            rests[i] = a[i] % b[i];
        }
        kernel void by_one(int b, global const int *a, global int *quotients) {
            quotients[get_global_id(0)] = a[get_global_id(0)] / b;
        }",
    ) else {
        return;
    };
    const EDGES: [u32; 14] = [
        0,
        1,
        2,
        3,
        7,
        65535,
        65536,
        0x7fff_fffe,
        0x7fff_ffff,
        0x8000_0000,
        0x8000_0001,
        0xffff_fffd,
        0xffff_fffe,
        0xffff_ffff,
    ];
    let pairs = EDGES.iter().flat_map(|a| EDGES.map(|b| (*a, b)));
    let numbers = random(4096, 11);
    // Multiples and their neighbours are where a quotient that is rounded up would show.
    let near = numbers.chunks_exact(2).map(|pair| {
        let b = (pair[0].abs() * 100_000.0) as u32 + 1;
        let a = (u32::MAX / b / 2 + (pair[1].abs() * 1000.0) as u32).wrapping_mul(b);
        (a.wrapping_sub(b & 1), b)
    });
    let (mut a, mut b): (Vec<u32>, Vec<u32>) = pairs.chain(near).unzip();
    let count = a.len().next_multiple_of(64);
    a.resize(count, 5);
    b.resize(count, 3);
    for kernel in ["unsigned_ones", "signed_ones"] {
        let (quotients, rests) = (vec![0_u32; count], vec![0_u32; count]);
        let mut launch = Launch::new([count, 1, 1], [64, 1, 1]);
        launch.memory(&a);
        launch.memory(&b);
        launch.memory(&quotients);
        launch.memory(&rests);
        launch.run(&program, kernel);
        for at in 0..count {
            let (a, b) = (a[at], b[at]);
            let wanted = match kernel {
                "unsigned_ones" => a.checked_div(b).zip(a.checked_rem(b)),
                _ => {
                    let (a, b) = (a as i32, b as i32);
                    let both = a.checked_div(b).zip(a.checked_rem(b));
                    both.map(|(quotient, rest)| (quotient as u32, rest as u32))
                }
            };
            // A number divided by 0 is anything, but does not end the process.
            if let Some(wanted) = wanted {
                assert_eq!((quotients[at], rests[at]), wanted, "{kernel}: {a} and {b}");
            }
        }
        let text = stage(&program, kernel, [64, 1, 1], Output::Optimised);
        assert!(
            text.contains("fdiv <") && !text.contains("div i32"),
            "{text}"
        );
    }
    let (numbers, quotients) = ([-7, 8, 9, i32::MIN].repeat(16), vec![0_i32; 64]);
    for by in [-3, 1, 7, 0] {
        let mut launch = Launch::new([64, 1, 1], [64, 1, 1]);
        launch.value(by);
        launch.memory(&numbers);
        launch.memory(&quotients);
        launch.run(&program, "by_one");
        for (quotient, number) in quotients.iter().zip(&numbers) {
            assert!(by == 0 || *quotient == number / by, "{number} / {by}");
        }
    }
}

#[test]
fn a_turn_does_not_wait_for_the_test_of_the_one_before() {
    let Some(program) = program(
        "kernel void turns(int most, global const float *start, global int *counts) {
            float x = 0.0f, from = start[get_global_id(0)];
            int count = 0;
            while (count < most && x < 4.0f) {
                x = x * x + from;
                count++;
            }
            counts[get_global_id(0)] = count;
        }",
    ) else {
        return;
    };
    // What no work-item looks at once it has left is not kept for those that have.
    let text = stage(&program, "turns", [64, 1, 1], Output::Optimised);
    let kept = |line: &&str| line.contains(" = select ") && line.contains("x float>");
    assert_eq!(text.lines().find(kept), None, "{text}");
    let start = random(256, 3);
    let counts = vec![0_i32; 256];
    let mut launch = Launch::new([256, 1, 1], [64, 1, 1]);
    launch.value(50_i32);
    launch.memory(&start);
    launch.memory(&counts);
    launch.run(&program, "turns");
    for (from, count) in start.iter().zip(counts) {
        let (mut x, mut wanted) = (0.0_f32, 0);
        while wanted < 50 && x < 4.0 {
            x = x * x + from;
            wanted += 1;
        }
        // A product and a sum may be rounded once.
        assert!((count - wanted).abs() <= 1, "{from}: {count}, {wanted}");
    }
}

#[test]
fn work_items_that_divide_their_number_are_neighbours() {
    let Some(program) = program(
        "kernel void turned(int w, int h, global const float *in, global float *out) {
            int i = get_global_id(0);
            int x = i % w, y = i / w;
            out[i] = in[x * h + y];
        }
        kernel void rests(global const int *by, global int *out) {
            int i = get_global_id(0);
            out[i] = i % by[i] + by[i];
        }",
    ) else {
        return;
    };
    for kernel in ["turned", "rests"] {
        let text = stage(&program, kernel, [64, 1, 1], Output::Optimised);
        assert!(!text.contains("masked.scatter"), "{text}");
    }
    let (w, h) = (12, 32);
    let input = random(w * h, 3);
    let by: Vec<i32> = (0..(w * h) as i32).map(|i| i % 7 - 3).collect();
    let (out, rests) = (vec![0.0_f32; w * h], vec![0_i32; w * h]);
    let mut launch = Launch::new([w * h, 1, 1], [64, 1, 1]);
    launch.value(w as i32);
    launch.value(h as i32);
    launch.memory(&input);
    launch.memory(&out);
    launch.run(&program, "turned");
    let mut launch = Launch::new([w * h, 1, 1], [64, 1, 1]);
    launch.memory(&by);
    launch.memory(&rests);
    launch.run(&program, "rests");
    for i in 0..w * h {
        assert_eq!(out[i].to_bits(), input[i % w * h + i / w].to_bits(), "{i}");
        // A division by zero gives some number.
        if by[i] != 0 {
            assert_eq!(rests[i], i as i32 % by[i] + by[i], "{i}");
        }
    }
}

/// True if the processor gathers vectors of sixteen words.
fn has_gathers() -> bool {
    #[cfg(target_arch = "x86_64")]
    return is_x86_feature_detected!("avx512vl");
    #[cfg(not(target_arch = "x86_64"))]
    return false;
}

#[test]
fn structures_that_are_gathered_are_read_whole() {
    let Some(program) = program(
        "kernel void pulls(int most, global const float4 *bodies, global const int *near, global float4 *out) {
            int i = get_global_id(0), n = get_global_size(0);
            float4 own = bodies[i], sum = (float4)(0.0f);
            for (int k = 0; k < most; k++) {
                float4 way = bodies[near[k * n + i]] - own;
                float square = way.x * way.x + way.y * way.y + way.z * way.z;
                if (square > 0.25f)
                    sum += way * square;
            }
            out[i] = sum;
        }
        typedef struct { int a, b, c, d; } Whole;
        typedef struct { float a, b, c, d; } Part;
        kernel void members(global const Whole *whole, global const Part *part, global const int *near, global int *sums,
                global float *products) {
            int i = get_global_id(0);
            Whole of = whole[near[i]];
            sums[i] = of.a + 3 * of.b + 5 * of.c + 7 * of.d;
            global const Part *other = part + near[i];
            float product = other->b * 2.0f + other->c * 3.0f + other->d;
            if (product > 0.0f)
                product += other->a;
            products[i] = product;
        }
        kernel void changed(global int4 *all, global const int *near, global int *out) {
            int i = get_global_id(0);
            global int *of = (global int *)(all + near[i]);
            int first = of[0];
            of[1] = i;
            out[i] = first + of[1] + of[2] + of[3];
        }",
    ) else {
        return;
    };
    // Processors with narrower vectors may read the numbers one by one.
    if has_gathers() {
        let text = stage(&program, "pulls", [64, 1, 1], Output::Optimised);
        assert!(!text.contains("masked.gather.v16"), "{text}");
        assert!(text.contains("load <4 x float>"), "{text}");
        let text = stage(&program, "members", [64, 1, 1], Output::Optimised);
        assert!(text.contains("load <4 x i32>"), "{text}");
        // Its first number is not there for all.
        assert!(!text.contains("load <4 x float>"), "{text}");
    }
    let (items, most) = (64, 5);
    let bodies = random(4 * items, 7);
    let near: Vec<i32> = (0..items * most)
        .map(|at| (at * 29 % items) as i32)
        .collect();
    for local in [64, 16, 8, 4, 1] {
        let out = vec![0.0_f32; 4 * items];
        let mut launch = Launch::new([items, 1, 1], [local, 1, 1]);
        launch.value(most as i32);
        launch.memory(&bodies);
        launch.memory(&near);
        launch.memory(&out);
        launch.run(&program, "pulls");
        let body = |at: usize| &bodies[4 * at..][..4];
        for i in 0..items {
            let mut sum = [0.0_f32; 4];
            for k in 0..most {
                let other = body(near[k * items + i] as usize);
                let way: [f32; 4] = std::array::from_fn(|at| other[at] - body(i)[at]);
                let square = way[0] * way[0] + way[1] * way[1] + way[2] * way[2];
                if square > 0.25 {
                    sum = std::array::from_fn(|at| sum[at] + way[at] * square);
                }
            }
            for at in 0..4 {
                let is = out[4 * i + at];
                assert!(
                    (is - sum[at]).abs() < 1e-4,
                    "{i} of {local}: {is} {}",
                    sum[at]
                );
            }
        }
        let whole: Vec<i32> = (0..4 * items as i32).map(|at| at * 37 % 101).collect();
        let (sums, products) = (vec![0_i32; items], vec![0.0_f32; items]);
        let mut launch = Launch::new([items, 1, 1], [local, 1, 1]);
        launch.memory(&whole);
        launch.memory(&bodies);
        launch.memory(&near);
        launch.memory(&sums);
        launch.memory(&products);
        launch.run(&program, "members");
        let all = whole.clone();
        let out = vec![0_i32; items];
        let mut launch = Launch::new([items, 1, 1], [local, 1, 1]);
        launch.memory(&all);
        launch.memory(&near);
        launch.memory(&out);
        launch.run(&program, "changed");
        for i in 0..items {
            let from = near[i] as usize;
            let of = &whole[4 * from..][..4];
            assert_eq!(
                sums[i],
                of[0] + 3 * of[1] + 5 * of[2] + 7 * of[3],
                "{i} of {local}"
            );
            let part = body(from);
            let mut wanted = part[1] * 2.0 + part[2] * 3.0 + part[3];
            if wanted > 0.0 {
                wanted += part[0];
            }
            assert!((products[i] - wanted).abs() < 1e-5, "{i} of {local}");
            assert_eq!(out[i], of[0] + i as i32 + of[2] + of[3], "{i} of {local}");
        }
    }
}
