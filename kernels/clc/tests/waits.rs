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

/// What `--explain` says of a kernel.
fn explanation(program: &Program) -> String {
    let text = program.emit("k", Some([64, 1, 1]), Output::Explanation);
    String::from_utf8(text.unwrap()).unwrap()
}

/// True if work-items of the kernel wait for each other, as far as the compiler sees: those of a
/// loop around the update run one after the other then.
fn waits(program: &Program) -> bool {
    explanation(program).contains("none stops while it may hold a lock")
}

/// A kernel with a loop in which each work-item makes an update `TURNS` times.
fn repeated(update: &str) -> String {
    format!(
        "#pragma OPENCL EXTENSION cl_khr_int64_base_atomics : enable
        kernel void k(global const float *x, global float *sum, global int *numbers, global int *table, global int *others,
                      global const int *keys, int n) {{
            int i = get_global_id(0), N = get_global_size(0);
            for (int j = 0; j < n; j++) {{
                float s = 0;
                for (int k = 0; k < n; k++) s += x[k * N + i];
                int key = keys[j * N + i];
                {update}
            }} }}"
    )
}

/// Updates that are tried again only if another thread has come between, or that come to their end
/// by themselves.
const TRIED_AGAIN: &[(&str, &str)] = &[
    (
        "add",
        "union { float f; int i; } old, new; int seen; old.f = *sum;
         do { seen = old.i; new.f = old.f + s; old.i = atomic_cmpxchg((volatile global int *)sum, seen, new.i); } while (old.i != seen);",
    ),
    (
        "add, from before the loop",
        "union { float f; int i; } old, new; old.f = *sum;
         while (true) { new.f = old.f + s; int now = atomic_cmpxchg((volatile global int *)sum, old.i, new.i);
                        if (now == old.i) break; old.i = now; }",
    ),
    (
        "add doubles",
        "union { double f; long i; } old, new; volatile global long *p = (volatile global long *)sum;
         do { old.i = *p; new.f = old.f + s; } while (atom_cmpxchg(p, old.i, new.i) != old.i);",
    ),
    (
        "add, compared as numbers",
        "union { float f; int i; } old, seen, new; old.f = *sum;
         do { seen.f = old.f; new.f = old.f + s; old.i = atomic_cmpxchg((volatile global int *)sum, seen.i, new.i); } while (old.f != seen.f);",
    ),
    (
        "read",
        "union { float f; int i; } old, new; int seen;
         do { seen = *(volatile global int *)sum; old.i = seen; new.f = old.f + s; }
         while (atomic_cmpxchg((volatile global int *)sum, seen, new.i) != seen);",
    ),
    (
        "most",
        "union { float f; int i; } old, new; int seen; old.f = *sum;
         while (old.f < s) { seen = old.i; new.f = s; old.i = atomic_cmpxchg((volatile global int *)sum, seen, new.i); if (old.i == seen) break; }",
    ),
    (
        "most, by what was found",
        "int old = numbers[0]; while (old < key) old = atomic_cmpxchg(numbers, old, key);",
    ),
    (
        "c11",
        "int e = atomic_load((volatile global atomic_int *)numbers);
         while (!atomic_compare_exchange_weak((volatile global atomic_int *)numbers, &e, e * 3 + key));",
    ),
    (
        "exchanges",
        "float old = s; while ((old = atomic_xchg(sum, atomic_xchg(sum, 0.0f) + old)) != 0.0f);",
    ),
    (
        "table",
        "int at = key & 1023; while (true) { int old = atomic_cmpxchg(table + at, -1, key); if (old == -1 || old == key) break; at = (at + 1) & 1023; }",
    ),
    (
        "table, looked at first",
        "int at = key & 1023, old;
         while (true) { old = *(volatile global int *)(table + at); if (old == key) break;
             if (old == -1) { old = atomic_cmpxchg(table + at, -1, key); if (old == -1 || old == key) { others[at] = j; break; } }
             at = (at + 1) & 1023; }",
    ),
    (
        "queue",
        "int at; while ((at = atomic_inc(numbers)) < n) others[at] = key;",
    ),
    (
        "queue of several, downwards",
        "int at; for (;;) { at = atomic_sub(numbers, 4); if (at <= 0) break; others[at & 1023] = key; }",
    ),
];

/// Loops in which a work-item waits for another one, or might.
const WAITED_FOR: &[(&str, &str)] = &[
    (
        "semaphore",
        "while (atomic_dec(numbers) <= 0) atomic_inc(numbers); *sum += s; atomic_inc(numbers);",
    ),
    (
        "semaphore, upwards",
        "while (atomic_inc(numbers) >= 3) atomic_dec(numbers); *sum += s; atomic_dec(numbers);",
    ),
    (
        "one of several locks",
        "int at = key & 7; while (atomic_cmpxchg(table + at, 0, 1)) at = (at + 1) & 7; others[at]++; atomic_xchg(table + at, 0);",
    ),
    (
        "a slot that is given back elsewhere",
        "int at = key & 7; while (atomic_cmpxchg(table + at, -1, key) != -1) at = (at + 1) & 7; others[at]++; table[at] = -1;",
    ),
    (
        "a slot that somebody fills",
        "if (i) while (*(volatile global int *)table == -1); else atomic_cmpxchg(table, -1, key);",
    ),
    (
        "in order",
        "while (atomic_cmpxchg(numbers, i * n + j, i * n + j + 1) != i * n + j);",
    ),
    (
        "arrivals",
        "atomic_inc(numbers); while (atomic_add(numbers, 0) <= i); *sum += s;",
    ),
    (
        "a count that another argument sets back",
        "while (atomic_inc(table + i) < 9) others[i] = atomic_or(numbers, 0) ? 9 : 0; *sum += s; atomic_or(numbers, 1);",
    ),
    (
        "exchanged until free",
        "while (true) { int old = *(volatile global int *)numbers; if (!(old & 1) && atomic_cmpxchg(numbers, old, old | 1) == old) break; }
         *sum += s; atomic_and(numbers, ~1);",
    ),
    (
        "remembered in memory",
        "int done[2] = {0, 0}; while (!done[key & 1]) { done[key & 1] = atomic_xchg(numbers, 1) == 0; } *sum += s; atomic_xchg(numbers, 0);",
    ),
];

/// A kernel whose loops come to their end by themselves is as fast as others: work-items of a strip
/// go round its other loops together.
#[test]
fn a_loop_that_tries_again_is_no_lock() {
    for (name, update) in TRIED_AGAIN {
        let Some(program) = program(&repeated(update)) else {
            return;
        };
        let text = explanation(&program);
        assert!(!waits(&program), "{name}: {text}");
        assert!(text.contains("strip by strip"), "{name}: {text}");
    }
    let locks = LOCKS.iter().map(|(name, take, give)| {
        let take = take.replace("SPACE", "global");
        let give = give.replace("SPACE", "global");
        let start = "volatile global int *lock = numbers, *serving = numbers + 1;";
        (*name, format!("{start} {take} *sum += s; {give}"))
    });
    let others = WAITED_FOR
        .iter()
        .map(|(name, update)| (*name, (*update).to_owned()));
    for (name, update) in locks.chain(others) {
        let Some(program) = program(&repeated(&update)) else {
            return;
        };
        assert!(waits(&program), "{name}: {}", explanation(&program));
    }
}

/// A lock costs the loops their vectors in which a work-item may hold it, and no others.
#[test]
fn what_comes_before_a_lock_and_after_it_goes_strip_by_strip() {
    const TURNS: usize = 9;
    for (name, take, give) in LOCKS {
        let (take, give) = (
            take.replace("SPACE", "global"),
            give.replace("SPACE", "global"),
        );
        let source = format!(
            "kernel void k(global const int *x, global int *numbers, global int *out, int n) {{
                volatile global int *lock = numbers, *serving = numbers + 1;
                int i = get_global_id(0), N = get_global_size(0), s = 0, t = 0, v = -1;
                for (int k = 0; k < n; k++) s += x[k * N + i];
                {take}
                for (int k = 0; k < n; k++) numbers[3 + k] += s;
                v = numbers[2]; numbers[2] = v + 1;
                {give}
                for (int k = 0; k < n; k++) t ^= x[k * N + i] * s;
                out[2 * i] = t; out[2 * i + 1] = v; }}"
        );
        let Some(program) = program(&source) else {
            return;
        };
        let text = explanation(&program);
        assert_eq!(text.matches("strip by strip").count(), 2, "{name}: {text}");
        for (local, groups) in LAUNCHES {
            let count = local * groups;
            let x: Vec<i32> = (0..count * TURNS).map(|at| at as i32 % 101).collect();
            let (numbers, out) = (vec![0_i32; 3 + TURNS], vec![-1_i32; 2 * count]);
            let mut launch = Launch::new([count, 1, 1], [local, 1, 1]);
            launch.memory(&x);
            launch.memory(&numbers);
            launch.memory(&out);
            launch.value(TURNS as i32);
            launch.run(&program, "k");
            let mut seen: Vec<i32> = out.iter().skip(1).step_by(2).copied().collect();
            seen.sort_unstable();
            let every: Vec<i32> = (0..count as i32).collect();
            assert_eq!(seen, every, "{name}, {local} x {groups}");
            let of = |i: usize| (0..TURNS).map(move |k| (k * count + i) as i32 % 101);
            let whole: i32 = x.iter().sum();
            assert_eq!(
                numbers[3..],
                vec![whole; TURNS],
                "{name}, {local} x {groups}"
            );
            for i in 0..count {
                let s: i32 = of(i).sum();
                let t = of(i).fold(0, |t, x| t ^ (x * s));
                assert_eq!(out[2 * i], t, "{name}, {local} x {groups}, {i}");
            }
        }
    }
}

/// Kernels that end if no work-item stops while it holds something, and else do not. Each has
/// every work-item add 1 to `numbers[7]`.
const ENDING: &[(&str, &str)] = &[
    (
        "a lock that is tried before a loop, and waited for after it",
        "int got = 0; if (l & 1) got = atomic_cmpxchg(numbers, 0, 1) == 0;
         for (int k = 0; k < n; k++) s += x[k * N + i];
         if (!got) while (atomic_cmpxchg(numbers, 0, 1)); numbers[7]++; atomic_xchg(numbers, 0);",
    ),
    (
        "a loop beside the wait for it",
        "if (l == 0) { for (int k = 0; k < n + (i & 3); k++) s += x[k * N + i]; atomic_add(numbers + 7, 1); atomic_xchg(numbers + g, 1); }
         else { while (atomic_add(numbers + g, 0) == 0); atomic_add(numbers + 7, 1); }",
    ),
    (
        "a loop beside the wait for it, and a loop for all",
        "if (l == 0) { for (int k = 0; k < n; k++) s += x[k * N + i]; atomic_xchg(numbers + g, 1); }
         else while (atomic_add(numbers + g, 0) == 0);
         for (int k = 0; k < n; k++) s += x[k * N + i];
         atomic_add(numbers + 7, 1);",
    ),
    (
        "a loop while the lock is held",
        "while (atomic_xchg(numbers, 1)); for (int k = 0; k < n; k++) s += x[k * N + i]; numbers[7]++; atomic_xchg(numbers, 0);",
    ),
    (
        "a lock that is given back by a plain store",
        "while (atomic_xchg(numbers, 1)); for (int k = 0; k < n; k++) s += x[k * N + i]; numbers[7]++; mem_fence(CLK_GLOBAL_MEM_FENCE); numbers[0] = 0;
         for (int k = 0; k < n; k++) s += x[k * N + i];",
    ),
    (
        "a lock that is given back by a plain store through another argument",
        "while (atomic_xchg(numbers, 1)); for (int k = 0; k < n; k++) s += x[k * N + i]; same[7] += 1; mem_fence(CLK_GLOBAL_MEM_FENCE); same[0] = 0;
         for (int k = 0; k < n; k++) s += x[k * N + i];",
    ),
    (
        "a lock that is given back by a constant through another argument, after a count",
        "while (atomic_xchg(numbers, 1)); numbers[7]++; for (int k = 0; k < n; k++) s += x[k * N + i]; mem_fence(CLK_GLOBAL_MEM_FENCE); same[0] = 0;",
    ),
    (
        "a slot that is given back by a store through another argument",
        "int at = 8 + (l & 3); while (atomic_cmpxchg(numbers + at, 0, 1)) at = 8 + ((at + 1) & 3);
         for (int k = 0; k < n; k++) s += x[k * N + i]; atomic_inc(same + 7); mem_fence(CLK_GLOBAL_MEM_FENCE); same[at] = 0;",
    ),
    (
        "a slot that is given back by an exchange through another argument",
        "int at = 8 + (l & 3); while (atomic_cmpxchg(numbers + at, 0, i + 1)) at = 8 + ((at + 1) & 3);
         for (int k = 0; k < n; k++) s += x[k * N + i]; atomic_inc(same + 7); atomic_xchg(same + at, 0);",
    ),
    (
        "a slot that is given back by a step through another argument",
        "int at = 8 + (l & 3); while (atomic_cmpxchg(numbers + at, 0, 1)) at = 8 + ((at + 1) & 3);
         for (int k = 0; k < n; k++) s += x[k * N + i]; atomic_inc(same + 7); atomic_dec(same + at);",
    ),
    (
        "a count that is taken back through another argument",
        "while (atomic_inc(numbers) < 2 * i) atomic_dec(same); for (int k = 0; k < n; k++) s += x[k * N + i]; atomic_inc(same + 7); atomic_inc(numbers);",
    ),
    (
        "two locks, one within the other",
        "while (atomic_xchg(numbers, 1)); for (int k = 0; k < n; k++) s += x[k * N + i];
         while (atomic_xchg(numbers + 1, 1)); for (int k = 0; k < n; k++) s += x[k * N + i];
         numbers[7]++; atomic_xchg(numbers + 1, 0); for (int k = 0; k < n; k++) s += x[k * N + i]; atomic_xchg(numbers, 0);",
    ),
    (
        "a lock of the group",
        "if (l == 0) while (atomic_xchg(numbers, 1)); barrier(CLK_GLOBAL_MEM_FENCE);
         for (int k = 0; k < n; k++) s += x[k * N + i];
         int v = numbers[7]; barrier(CLK_GLOBAL_MEM_FENCE);
         if (l == 0) { numbers[7] = v + get_local_size(0); atomic_xchg(numbers, 0); }",
    ),
    (
        "one group after the other",
        "volatile global int *turn = numbers; if (l == 0) while (*turn != g); barrier(CLK_GLOBAL_MEM_FENCE);
         for (int k = 0; k < n; k++) s += x[k * N + i];
         if (l == 0) numbers[7] += get_local_size(0); barrier(CLK_GLOBAL_MEM_FENCE); mem_fence(CLK_GLOBAL_MEM_FENCE); if (l == 0) *turn = g + 1;",
    ),
    (
        "one work-item after the other",
        "volatile global int *turn = numbers; for (int k = 0; k < n; k++) s += x[k * N + i];
         while (*turn != i); numbers[7]++; for (int k = 0; k < n; k++) s += x[k * N + i]; *turn = i + 1;",
    ),
    (
        "a ticket, drawn before a loop",
        "int own = atomic_inc(numbers); for (int k = 0; k < n; k++) s += x[k * N + i];
         while (atomic_add(numbers + 1, 0) != own); numbers[7]++; for (int k = 0; k < n; k++) s += x[k * N + i]; atomic_inc(numbers + 1);",
    ),
    (
        "a lock in each turn",
        "for (int j = 0; j < n; j++) { while (atomic_xchg(numbers, 1)); for (int k = 0; k < n; k++) s += x[k * N + i]; if (j == 0) numbers[7]++; atomic_xchg(numbers, 0); }",
    ),
    (
        "each in all turns before the next one",
        "for (int j = 0; j < n; j++) { for (int k = 0; k < n; k++) s += x[k * N + i]; while (atomic_cmpxchg(numbers, i * n + j, i * n + j + 1) != i * n + j); }
         atomic_inc(numbers + 7);",
    ),
    (
        "look-back",
        "if (l == 0) { for (int k = 0; k < n; k++) s += x[k * N + i]; atomic_xchg(numbers + 8 + 2 * g, 1);
             int before = 0, at = g - 1; while (at >= 0) { int f; while ((f = atomic_add(numbers + 8 + 2 * at, 0)) == 0); before += f == 2 ? numbers[9 + 2 * at] : (int)get_local_size(0);
                 if (f == 2) break; at--; }
             numbers[9 + 2 * g] = before + get_local_size(0); mem_fence(CLK_GLOBAL_MEM_FENCE); atomic_xchg(numbers + 8 + 2 * g, 2);
             if (g == get_num_groups(0) - 1) numbers[7] = before + get_local_size(0); }
         barrier(CLK_GLOBAL_MEM_FENCE); for (int k = 0; k < n; k++) s += x[k * N + i];",
    ),
];

#[test]
fn a_kernel_ends_in_which_work_items_hold_what_others_wait_for() {
    for (name, body) in ENDING {
        let source = format!(
            "kernel void k(global const int *x, global int *numbers, global int *out, int n, global int *same) {{
                int i = get_global_id(0), N = get_global_size(0), l = get_local_id(0), g = get_group_id(0), s = 0;
                {body} out[i] = s; }}"
        );
        let Some(program) = program(&source) else {
            return;
        };
        for (local, groups) in LAUNCHES {
            let count = local * groups;
            let x: Vec<i32> = (0..count * 12).map(|at| at as i32 % 101).collect();
            let (numbers, out) = (vec![0_i32; 16 + 2 * groups], vec![0_i32; count]);
            let mut launch = Launch::new([count, 1, 1], [local, 1, 1]);
            launch.memory(&x);
            launch.memory(&numbers);
            launch.memory(&out);
            launch.value(9_i32);
            launch.memory(&numbers);
            launch.run(&program, "k");
            assert_eq!(numbers[7], count as i32, "{name}, {local} x {groups}");
        }
    }
}

/// A function that a kernel calls so often that it stays one gives back what others wait for.
#[test]
fn a_kernel_ends_in_which_a_function_gives_back_a_slot() {
    const CALLS: usize = 300;
    let calls: String = (0..CALLS)
        .map(|call| format!("            give(slots, at, &v, {call});\n"))
        .collect();
    let source = format!(
        "__attribute__((noinline)) void give(global int *slots, int at, uint *to, int n) {{
            uint v = *to * 2654435761u + n;
            v ^= v >> 15; v *= 2246822519u; v ^= v >> 13; v *= 3266489917u; v ^= v >> 16;
            v ^= v >> 11; v *= 2246822519u; v ^= v >> 17; v *= 3266489917u; v ^= v >> 14;
            v ^= v >> 12; v *= 2654435761u; v ^= v >> 18; v *= 2246822519u; v ^= v >> 13;
            *to = v;
            if (n == {CALLS} - 1) slots[at] = 0; }}
        kernel void k(global const int *x, global int *slots, global uint *out, int n) {{
            int i = get_global_id(0), N = get_global_size(0), at = i & 3; uint v = i;
            while (atomic_cmpxchg(slots + at, 0, 1)) at = (at + 1) & 3;
            for (int k = 0; k < n; k++) v += x[k * N + i];
            {calls}
            out[i] = v; }}"
    );
    let Some(program) = program(&source) else {
        return;
    };
    let passes = program.emit("k", None, Output::Passes).unwrap();
    assert!(String::from_utf8_lossy(&passes).contains("@quipu.kept."));
    let x: Vec<i32> = (0..64 * 9).collect();
    let (slots, out) = (vec![0_i32; 4], vec![0_u32; 64]);
    let mut launch = Launch::new([64, 1, 1], [64, 1, 1]);
    launch.memory(&x);
    launch.memory(&slots);
    launch.memory(&out);
    launch.value(9_i32);
    launch.run(&program, "k");
    assert_eq!(slots, [0; 4]);
}
