//! Kernels against models of them, over sizes of work-groups that take each way through the passes.

mod support;

use quipu_clc::{Argument, Program};
use support::{Launch, program, random};

#[test]
fn saxpy_with_and_without_a_guard() {
    let Some(program) = program(
        "kernel void whole(float a, global const float *x, global float *y) {
            size_t i = get_global_id(0);
            y[i] += a * x[i];
        }
        kernel void guarded(float a, global const float *x, global float *y, uint n) {
            int i = get_global_id(0);
            if (i >= n) return;
            y[i] += a * x[i];
        }",
    ) else {
        return;
    };
    for local in [1, 7, 64, 1000] {
        let length = 3000_usize.next_multiple_of(local);
        let (x, start) = (random(length, 1), random(length, 2));
        for n in [length, 2999, 1, 0] {
            let mut y = start.clone();
            let mut launch = Launch::new([length, 1, 1], [local, 1, 1]);
            launch.value(2.5_f32);
            launch.memory(&x);
            launch.memory(&y);
            if n != length {
                launch.value(n as u32);
            }
            launch.run(&program, if n == length { "whole" } else { "guarded" });
            for (i, (y, start)) in y.iter_mut().zip(&start).enumerate() {
                let wanted = if i < n {
                    2.5_f32.mul_add(x[i], *start)
                } else {
                    *start
                };
                assert!((*y - wanted).abs() <= 1e-6, "{local} {n} {i}: {y} {wanted}");
            }
        }
    }
}

#[test]
fn reductions_wait_for_each_other() {
    let Some(program) = program(
        "kernel void sum(global const float *x, global float *sums, local float *part) {
            local float twice[4];
            uint l = get_local_id(0);
            part[l] = x[get_global_id(0)];
            if (l < 4) twice[l] = 2.0f;
            barrier(CLK_LOCAL_MEM_FENCE);
            for (uint s = get_local_size(0) / 2; s > 0; s /= 2) {
                if (l < s) part[l] += part[l + s];
                barrier(CLK_LOCAL_MEM_FENCE);
            }
            if (l == 0) sums[get_group_id(0)] = part[0] * twice[0];
        }",
    ) else {
        return;
    };
    for local in [1, 2, 64, 256] {
        let x: Vec<f32> = (0..local * 5).map(|i| (i % 13) as f32).collect();
        let sums = vec![0.0_f32; 5];
        let mut launch = Launch::new([x.len(), 1, 1], [local, 1, 1]);
        launch.memory(&x);
        launch.memory(&sums);
        launch.arguments.push(Argument::Local(4 * local as u64));
        launch.run(&program, "sum");
        let wanted: Vec<f32> = x
            .chunks(local)
            .map(|part| 2.0 * part.iter().sum::<f32>())
            .collect();
        assert_eq!(sums, wanted, "{local}");
    }
}

#[test]
fn barriers_in_branches_loops_and_helpers() {
    let Some(program) = program(
        "void rotate_once(local int *shared, uint l, uint n) {
            int mine = shared[(l + 1) % n];
            barrier(CLK_LOCAL_MEM_FENCE);
            shared[l] = mine;
            barrier(CLK_LOCAL_MEM_FENCE);
        }
        kernel void f(global int *out, local int *shared, int turns, int how) {
            uint l = get_local_id(0), n = get_local_size(0);
            int seen = 0;
            shared[l] = get_global_id(0);
            barrier(CLK_LOCAL_MEM_FENCE);
            for (int turn = 0; ; turn++) {
                if (turn == turns) break;
                if (turn % 3 == how) continue;
                if (turn & 1) {
                    rotate_once(shared, l, n);
                    seen += shared[l] * turn;
                } else {
                    int before = shared[n - 1 - l];
                    barrier(CLK_LOCAL_MEM_FENCE);
                    if (l & 1) shared[l] += before; else shared[l] -= turn;
                    barrier(CLK_LOCAL_MEM_FENCE);
                }
                if (shared[0] > 1000000) break;
                barrier(CLK_LOCAL_MEM_FENCE);
            }
            out[get_global_id(0)] = shared[l] + seen;
        }",
    ) else {
        return;
    };
    for (local, turns, how) in [(4, 0, 0), (8, 5, 1), (16, 9, 2), (32, 20, 0), (1, 4, 5)] {
        let out = vec![0_i32; local * 3];
        let mut launch = Launch::new([out.len(), 1, 1], [local, 1, 1]);
        launch.memory(&out);
        launch.arguments.push(Argument::Local(4 * local as u64));
        launch.value(turns);
        launch.value(how);
        launch.run(&program, "f");
        let mut wanted = Vec::new();
        for group in 0..3 {
            let mut shared: Vec<i32> = (0..local).map(|l| (group * local + l) as i32).collect();
            let mut seen = vec![0_i32; local];
            for turn in 0..turns {
                if turn % 3 == how {
                    continue;
                }
                if turn & 1 == 1 {
                    shared.rotate_left(1);
                    for l in 0..local {
                        seen[l] = seen[l].wrapping_add(shared[l].wrapping_mul(turn));
                    }
                } else {
                    let before = shared.clone();
                    for l in 0..local {
                        let change = if l & 1 == 1 {
                            before[local - 1 - l]
                        } else {
                            -turn
                        };
                        shared[l] = shared[l].wrapping_add(change);
                    }
                }
                if shared[0] > 1_000_000 {
                    break;
                }
            }
            wanted.extend(
                shared
                    .iter()
                    .zip(&seen)
                    .map(|(shared, seen)| shared.wrapping_add(*seen)),
            );
        }
        assert_eq!(out, wanted, "{local} {turns} {how}");
    }
}

#[test]
fn matrix_products_naive_and_tiled() {
    let Some(program) = program(
        "kernel void naive(int n, global const float *a, global const float *b, global float *c) {
            int x = get_global_id(0), y = get_global_id(1);
            if (x >= n || y >= n) return;
            float sum = 0;
            for (int k = 0; k < n; k++) sum += a[y * n + k] * b[k * n + x];
            c[y * n + x] = sum;
        }
        kernel void tiled(int n, global const float *a, global const float *b, global float *c) {
            local float ta[16][16], tb[16][16];
            int lx = get_local_id(0), ly = get_local_id(1);
            int x = get_global_id(0), y = get_global_id(1);
            float sum = 0;
            for (int t = 0; t < n; t += 16) {
                ta[ly][lx] = a[y * n + t + lx];
                tb[ly][lx] = b[(t + ly) * n + x];
                barrier(CLK_LOCAL_MEM_FENCE);
                for (int k = 0; k < 16; k++) sum += ta[ly][k] * tb[k][lx];
                barrier(CLK_LOCAL_MEM_FENCE);
            }
            c[y * n + x] = sum;
        }",
    ) else {
        return;
    };
    for (kernel, n, local) in [
        ("naive", 50, [16, 4, 1]),
        ("naive", 64, [64, 1, 1]),
        ("naive", 30, [7, 3, 1]),
        ("tiled", 48, [16, 16, 1]),
    ] {
        let (a, b) = (random(n * n, 3), random(n * n, 4));
        let c = vec![0.0_f32; n * n];
        let global = [
            n.next_multiple_of(local[0]),
            n.next_multiple_of(local[1]),
            1,
        ];
        let mut launch = Launch::new(global, local);
        launch.value(n as i32);
        launch.memory(&a);
        launch.memory(&b);
        launch.memory(&c);
        launch.run(&program, kernel);
        for y in 0..n {
            for x in 0..n {
                let wanted: f64 = (0..n)
                    .map(|k| f64::from(a[y * n + k]) * f64::from(b[k * n + x]))
                    .sum();
                assert!(
                    (f64::from(c[y * n + x]) - wanted).abs() < 1e-4,
                    "{kernel} {n} {x} {y}"
                );
            }
        }
    }
}

#[test]
fn work_items_that_return_early_do_not_wait() {
    let Some(program) = program(
        "kernel void f(global const int *x, global int *out, local int *shared, int n) {
            int i = get_global_id(0), l = get_local_id(0);
            shared[l] = 0;
            if (x[i] >= n) return;
            shared[l] = x[i];
            barrier(CLK_LOCAL_MEM_FENCE);
            int left = l > 0 ? shared[l - 1] : 7;
            out[i] = left + shared[l];
        }",
    ) else {
        return;
    };
    let x: Vec<i32> = (0..64).map(|i| i * 7 % 16).collect();
    let out = vec![-1; 64];
    let mut launch = Launch::new([64, 1, 1], [16, 1, 1]);
    launch.memory(&x);
    launch.memory(&out);
    launch.arguments.push(Argument::Local(64));
    launch.value(9_i32);
    launch.run(&program, "f");
    for (i, out) in out.iter().enumerate() {
        let kept = |i: usize| if x[i] >= 9 { 0 } else { x[i] };
        let wanted = match (x[i] >= 9, i % 16) {
            (true, _) => -1,
            (_, 0) => 7 + x[i],
            _ => kept(i - 1) + x[i],
        };
        assert_eq!(*out, wanted, "{i}");
    }
}

#[test]
fn what_a_kernel_does_with_its_arguments_is_known() {
    use quipu_clc::{MemoryAccess, ParameterKind};
    let Some(program) = program(
        "typedef struct { float4 v; int n; } Pair;
        kernel __attribute__((reqd_work_group_size(8, 4, 1)))
        void f(global float *read, global float *write, global float *both, constant int *table, local uint4 *part, Pair pair) {
            int i = get_global_id(0);
            write[i] = read[i] + table[i & 3] + pair.v.y;
            both[i] += pair.n;
            part[0] = 0;
        }",
    ) else {
        return;
    };
    let info = program.kernel("f").unwrap();
    let kinds: Vec<ParameterKind> = info
        .parameters
        .iter()
        .map(|parameter| parameter.kind)
        .collect();
    let memory = ParameterKind::Memory;
    assert_eq!(
        kinds,
        [
            memory(MemoryAccess::Read),
            memory(MemoryAccess::Write),
            memory(MemoryAccess::ReadWrite),
            memory(MemoryAccess::Read),
            ParameterKind::Local,
            ParameterKind::Value {
                size: 32,
                align: 16
            },
        ]
    );
    assert_eq!(info.required_local_size, Some([8, 4, 1]));
    assert_eq!(info.parameters[0].name, "read");
    assert_eq!(info.parameters[0].type_name, "float*");
    assert!(
        program
            .compile("f", [16, 1, 1])
            .unwrap_err()
            .to_string()
            .contains("8 x 4")
    );
}

#[test]
fn faults_are_told_with_the_users_lines() {
    if program("kernel void f() {}").is_none() {
        return;
    }
    let error = |text: &str| Program::new(text, "").unwrap_err().to_string();
    let said = error("kernel void f(global float *x) {\n    x[0] = y;\n}");
    assert!(
        said.contains("program:2:12: error: use of undeclared identifier 'y'"),
        "{said}"
    );
    let said = error(
        "int fib(int n) { return n < 2 ? n : fib(n - 1) + fib(n - 2); }\nkernel void f(global int *x) { x[0] = fib(x[1]); }",
    );
    assert!(said.contains("'fib' calls itself"), "{said}");
    // clang may have the body of a kernel be a function of its own.
    let said = error("kernel void f(global int *x) { if (x[0]--) f(x); }");
    assert!(said.contains("'f' calls itself"), "{said}");
    let said = error("int other(int);\nkernel void f(global int *x) {\n    x[0] = other(x[1]);\n}");
    assert!(
        said.contains("program:3: error: function 'other'"),
        "{said}"
    );
    let error = program("kernel void f() {} kernel void g() {}")
        .unwrap()
        .compile("h", [1, 1, 1]);
    assert_eq!(
        error.unwrap_err().to_string(),
        "the program has no kernel 'h'; it has: f, g"
    );
}

#[test]
fn texts_without_a_kernel_are_programs() {
    if program("kernel void f() {}").is_none() {
        return;
    }
    for text in [
        "",
        "\n",
        "// nothing",
        "int f(int x) { return x; }",
        "constant int n = 3;",
    ] {
        let program = Program::new(text, "").unwrap();
        assert!(program.kernels().is_empty(), "{text}");
        let error = program.compile("f", [1, 1, 1]).unwrap_err().to_string();
        assert!(error.ends_with("declared `kernel void NAME(…)`"), "{error}");
    }
}

#[test]
fn groups_copy_together_and_print_vectors() {
    let Some(program) = program(
        "kernel void k(global int *out, local int *part) {
            local double16 aligned[2];
            uint l = get_local_id(0), n = get_local_size(0);
            event_t event = async_work_group_copy(part, out, n, 0);
            event = async_work_group_strided_copy(part + n, out, n / 2, 2, event);
            prefetch(out, n);
            wait_group_events(1, &event);
            int printed = l == 0 ? printf(\"%v4hlf %2.1v2hhd\\n\", (float4)(1), (char2)(2)) : 0;
            out[l] = part[n - 1 - l] + 100 * part[n + l / 2] + printed + (int)((ulong)&aligned[l % 2] % 128);
        }",
    ) else {
        return;
    };
    let numbers: Vec<i32> = (0..8).collect();
    let mut launch = Launch::new([8, 1, 1], [8, 1, 1]);
    launch.memory(&numbers);
    launch.arguments.push(Argument::Local(16 * 4));
    launch.run(&program, "k");
    let wanted: Vec<i32> = (0..8).map(|l| 7 - l + 100 * (l / 2 * 2)).collect();
    assert_eq!(numbers, wanted);
}
