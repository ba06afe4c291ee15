//! Work-items of a group that wait for each other by atomic operations: one thread runs them, so
//! one that holds a lock gives it back before the next one runs.
#![allow(clippy::unwrap_used, reason = "tests say what they expect by failing")]

mod support;

use quipu_clc::{Output, Program};
use support::Launch;

/// A program of OpenCL C 3.0; none without a compiler.
fn program(text: &str) -> Option<Program> {
    support::program("kernel void k() {}")?;
    match Program::new(text, "-cl-std=CL3.0") {
        Ok(program) => Some(program),
        Err(error) => panic!("{error}"),
    }
}

/// Work-items and groups of the launches.
const LAUNCHES: [(usize, usize); 4] = [(1, 1), (1, 4), (64, 1), (64, 4)];

/// Beginnings and ends of what one work-item does at a time. `lock` and `serving` are zero, and
/// `turn` is a number that counts work-items.
const LOCKS: &[(&str, &str, &str)] = &[
    (
        "exchange",
        "while (atomic_xchg(lock, 1));",
        "atomic_xchg(lock, 0);",
    ),
    (
        "compare",
        "while (atomic_cmpxchg(lock, 0, 1));",
        "atomic_xchg(lock, 0);",
    ),
    (
        "c11",
        "int e; do e = 0; while (!atomic_compare_exchange_strong_explicit((volatile SPACE atomic_int *)lock, &e, 1,
           memory_order_acquire, memory_order_relaxed, memory_scope_device));",
        "atomic_store_explicit((volatile SPACE atomic_int *)lock, 0, memory_order_release, memory_scope_device);",
    ),
    (
        "bit",
        "while (atomic_or(lock, 4) & 4);",
        "atomic_and(lock, ~4);",
    ),
    (
        "ticket",
        "int own = atomic_inc(lock); while (atomic_add(serving, 0) != own);",
        "atomic_inc(serving);",
    ),
    (
        "volatile",
        "int own = atomic_inc(lock); while (*serving != own);",
        "*serving = own + 1;",
    ),
    (
        "reader",
        "int old; do { old = atomic_add(lock, 0); if (old & 1) continue; if (atomic_cmpxchg(lock, old, old | 1) == old) break; } while (true);",
        "atomic_xchg(lock, old & ~1);",
    ),
    (
        "each turn exchanges",
        "int old; do { old = *lock; } while ((atomic_cmpxchg(lock, old, old | 1) != old) | (old & 1));",
        "atomic_xchg(lock, 0);",
    ),
    (
        "flag",
        "int done = 0; while (!done) { if (atomic_cmpxchg(lock, 0, 1) == 0) {",
        "atomic_xchg(lock, 0); done = 1; } }",
    ),
];

#[test]
fn a_number_behind_a_lock_is_what_the_last_work_item_left() {
    for (name, take, give) in LOCKS {
        for space in ["global", "local"] {
            let (take, give) = (take.replace("SPACE", space), give.replace("SPACE", space));
            let (parameters, begin) = match space {
                "local" => (
                    "",
                    "local int numbers[3]; if (get_local_id(0) == 0) numbers[0] = numbers[1] = numbers[2] = 0;
                     barrier(CLK_LOCAL_MEM_FENCE);",
                ),
                _ => (", global int *numbers", ""),
            };
            let source = format!(
                "kernel void k(global int *out{parameters}) {{
                    {begin} volatile {space} int *lock = numbers, *serving = numbers + 1; {space} int *counter = numbers + 2;
                    int i = get_global_id(0), v = -1;
                    {take} v = *counter; *counter = v + 1; {give}
                    barrier(CLK_GLOBAL_MEM_FENCE); out[i] = v; }}"
            );
            let Some(program) = program(&source) else {
                return;
            };
            for (local, groups) in LAUNCHES {
                let count = local * groups;
                let (out, numbers) = (vec![-2_i32; count], vec![0_i32; 3]);
                let mut launch = Launch::new([count, 1, 1], [local, 1, 1]);
                launch.memory(&out);
                if space == "global" {
                    launch.memory(&numbers);
                }
                launch.run(&program, "k");
                let mut sorted = out.clone();
                sorted.sort_unstable();
                let expected: Vec<i32> = match space {
                    "local" => (0..count).map(|at| (at / groups) as i32).collect(),
                    _ => (0..count as i32).collect(),
                };
                assert_eq!(
                    sorted, expected,
                    "{name}, {space}, {local} x {groups}: {out:?}"
                );
            }
        }
    }
}

#[test]
fn loops_behind_a_lock_end() {
    const BODIES: [(&str, &str); 3] = [
        ("n", "for (int k = 0; k < n; k++) sums[k] += x[k * N + i];"),
        // Each as often as it likes.
        (
            "n - i % 3",
            "for (int k = 0; k < n - i % 3; k++) sums[k] += x[k * N + i];",
        ),
        // As often as is in memory.
        (
            "n",
            "for (int k = 0; k < sums[n]; k++) sums[k] += x[k * N + i];",
        ),
    ];
    const TURNS: usize = 9;
    for (name, take, give) in LOCKS {
        for (most, body) in BODIES {
            let (take, give) = (
                take.replace("SPACE", "global"),
                give.replace("SPACE", "global"),
            );
            let source = format!(
                "kernel void k(global int *numbers, global int *sums, global const int *x, int n) {{
                    volatile global int *lock = numbers, *serving = numbers + 1;
                    int i = get_global_id(0), N = get_global_size(0);
                    {take} {body} {give} }}"
            );
            let Some(program) = program(&source) else {
                return;
            };
            for (local, groups) in LAUNCHES {
                let count = local * groups;
                let numbers = vec![0_i32; 2];
                let mut sums = vec![0_i32; TURNS + 1];
                sums[TURNS] = TURNS as i32;
                let x: Vec<i32> = (0..count * TURNS).map(|at| at as i32 % 101).collect();
                let mut launch = Launch::new([count, 1, 1], [local, 1, 1]);
                launch.memory(&numbers);
                launch.memory(&sums);
                launch.memory(&x);
                launch.value(TURNS as i32);
                launch.run(&program, "k");
                let turns = |i: usize| match most {
                    "n" => TURNS,
                    _ => TURNS - i % 3,
                };
                for k in 0..TURNS {
                    let who = (0..count).filter(|i| k < turns(*i));
                    let sum: i32 = who.map(|i| x[k * count + i]).sum();
                    assert_eq!(sums[k], sum, "{name}, {body}, {local} x {groups}, {k}");
                }
            }
        }
    }
}

/// A kernel whose loops exchange a number that they have seen is as fast as others: work-items of
/// a strip go round its other loops together.
#[test]
fn a_loop_that_tries_again_is_no_lock() {
    const KERNELS: [(&str, &str); 3] = [
        (
            "add",
            "old.f = *sum; do { seen = old.i; new.f = old.f + s; old.i = atomic_cmpxchg((volatile global int *)sum, seen, new.i); } while (old.i != seen);",
        ),
        (
            "read",
            "do { seen = *(volatile global int *)sum; old.i = seen; new.f = old.f + s; } while (atomic_cmpxchg((volatile global int *)sum, seen, new.i) != seen);",
        ),
        (
            "most",
            "old.f = *sum; while (old.f < s) { seen = old.i; new.f = s; old.i = atomic_cmpxchg((volatile global int *)sum, seen, new.i); if (old.i == seen) break; }",
        ),
    ];
    for (name, update) in KERNELS {
        let source = format!(
            "kernel void k(global const float *x, global float *sum, int n) {{
                int i = get_global_id(0), N = get_global_size(0), seen; float s = 0;
                union {{ float f; int i; }} old, new;
                for (int k = 0; k < n; k++) s += x[k * N + i];
                {update} }}"
        );
        let Some(program) = program(&source) else {
            return;
        };
        let lock = "while (atomic_xchg((volatile global int *)sum, 1)); sum[1] += s; sum[0] = 0;";
        let lock = Program::new(&source.replace(update, lock), "-cl-std=CL3.0").unwrap();
        let goes_together = |program: &Program| {
            let text = program.emit("k", Some([64, 1, 1]), Output::Explanation);
            String::from_utf8_lossy(&text.unwrap()).contains("strip by strip")
        };
        assert!(goes_together(&program), "{name}");
        assert!(!goes_together(&lock), "a lock");
    }
}
