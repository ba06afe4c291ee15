//! Fences: one thread runs the work-items of a group, so it makes a fence once where all of them
//! come to it.
#![allow(clippy::unwrap_used, reason = "tests say what they expect by failing")]

mod support;

use quipu_clc::{Output, Program};
use support::{Launch, random};

const COUNT: usize = 256;

/// A kernel that writes, comes to fences, and reads; the fences that are in its code.
const KERNELS: &[(&str, &str, usize)] = &[
    (
        "a barrier of the device",
        "work_group_barrier(CLK_GLOBAL_MEM_FENCE, memory_scope_device);",
        2,
    ),
    (
        "of the group",
        "work_group_barrier(CLK_LOCAL_MEM_FENCE, memory_scope_work_group);",
        0,
    ),
    (
        "a fence before a barrier",
        "mem_fence(CLK_GLOBAL_MEM_FENCE); barrier(CLK_LOCAL_MEM_FENCE);",
        1,
    ),
    (
        "a fence after a barrier",
        "barrier(CLK_LOCAL_MEM_FENCE); atomic_work_item_fence(CLK_GLOBAL_MEM_FENCE, memory_order_seq_cst, memory_scope_device);",
        1,
    ),
    (
        "fences on both sides",
        "write_mem_fence(CLK_GLOBAL_MEM_FENCE); barrier(CLK_LOCAL_MEM_FENCE); read_mem_fence(CLK_GLOBAL_MEM_FENCE);",
        2,
    ),
    (
        "a fence by itself, and a barrier",
        "mem_fence(CLK_GLOBAL_MEM_FENCE); b[i] = s[l]; barrier(CLK_LOCAL_MEM_FENCE);",
        1,
    ),
    (
        "a fence of the group by itself",
        "mem_fence(CLK_LOCAL_MEM_FENCE); b[i] = s[l]; barrier(CLK_LOCAL_MEM_FENCE);",
        1,
    ),
    (
        "in a loop that is unrolled",
        "for (int k = 0; k < 3; k++) { work_group_barrier(CLK_GLOBAL_MEM_FENCE, memory_scope_device); b[i] = s[k]; }
         barrier(CLK_LOCAL_MEM_FENCE);",
        6,
    ),
];

fn source(fences: &str) -> String {
    format!(
        "kernel void k(global const float *a, global float *b, local float *s) {{
            int l = get_local_id(0), i = get_global_id(0), last = get_local_size(0) - 1;
            s[l] = a[i] * 2;
            {fences}
            b[i] = s[last - l] + 3; }}"
    )
}

#[test]
fn loops_next_to_a_fence_are_of_vectors() {
    if support::program("kernel void k() {}").is_none() {
        return;
    }
    let vectors = |program: &Program| {
        let text = program
            .emit("k", Some([64, 1, 1]), Output::Explanation)
            .unwrap();
        let text = String::from_utf8(text).unwrap();
        (!text.contains("no vectors"), text)
    };
    let plain = Program::new(&source("barrier(CLK_LOCAL_MEM_FENCE);"), "-cl-std=CL3.0").unwrap();
    for (name, fences, count) in KERNELS {
        let program = Program::new(&source(fences), "-cl-std=CL3.0").unwrap();
        let (are_vectors, text) = vectors(&program);
        assert_eq!(are_vectors, vectors(&plain).0, "{name}: {text}");
        let text = program.emit("k", Some([64, 1, 1]), Output::Passes).unwrap();
        let text = String::from_utf8(text).unwrap();
        let run = text
            .split("define ")
            .find(|part| part.contains("@quipu_run_groups("));
        let fences = run
            .unwrap()
            .lines()
            .filter(|line| line.trim().starts_with("fence "));
        assert_eq!(fences.count(), *count, "{name}");
        for local in [1, 64] {
            let a = random(COUNT, 7);
            let b = vec![0_f32; COUNT];
            let mut launch = Launch::new([COUNT, 1, 1], [local, 1, 1]);
            launch.memory(&a);
            launch.memory(&b);
            launch.local(4 * local.max(3) as u64);
            launch.run(&program, "k");
            for (i, b) in b.iter().enumerate() {
                let (group, l) = (i / local, i % local);
                let from = group * local + (local - 1 - l);
                assert_eq!(*b, a[from] * 2.0 + 3.0, "{name}, {local}, {i}");
            }
        }
    }
}

/// A fence that some work-items come to is theirs.
#[test]
fn a_fence_in_a_branch_stays_there() {
    let Some(program) = support::program(
        "kernel void k(global const float *a, global float *b, global int *flags) {
            int l = get_local_id(0), i = get_global_id(0);
            b[i] = a[i] * 2;
            if (a[i] > 0) { mem_fence(CLK_GLOBAL_MEM_FENCE); atomic_xchg(flags + i, 1); } }",
    ) else {
        return;
    };
    let a = random(COUNT, 9);
    let (b, flags) = (vec![0_f32; COUNT], vec![0_i32; COUNT]);
    let mut launch = Launch::new([COUNT, 1, 1], [64, 1, 1]);
    launch.memory(&a);
    launch.memory(&b);
    launch.memory(&flags);
    launch.run(&program, "k");
    for (i, a) in a.iter().enumerate() {
        assert_eq!(b[i], a * 2.0, "{i}");
        assert_eq!(flags[i], i32::from(*a > 0.0), "{i}");
    }
}
