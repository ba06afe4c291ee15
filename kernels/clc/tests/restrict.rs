//! Pointers that the text says are the only way to their memory (`restrict`). The other work-items
//! reach that memory by the same pointer, so a work-item reads anew after a barrier.

#![allow(clippy::unwrap_used, reason = "a promise that is not kept panics")]

mod support;

use quipu_clc::{Argument, Program};
use support::{Launch, program};

const ITEMS: usize = 24;

/// Two rounds in place: every number but the first and the last becomes the sum of its neighbours.
fn wanted(from: &[i32]) -> Vec<i32> {
    (0..2).fold(from.to_vec(), |from, _| {
        let mut to = from.clone();
        for (to, window) in to[1..].iter_mut().zip(from.windows(3)) {
            *to = window[0] + window[2];
        }
        to
    })
}

/// The rounds, with these words before each, in memory that is called so.
fn rounds(memory: &str, fence: &str, store: &str) -> String {
    let round = format!("sum = {memory}[i] + {memory}[i + 2]; {fence}; {store}; {fence};");
    format!("int i = get_local_id(0), sum; {round} {round}")
}

fn check(program: &Program, kernel: &str, is_local: bool) {
    let mut x: Vec<i32> = (0..ITEMS as i32 + 2).map(|i| i * i % 37 - 11).collect();
    let wanted = wanted(&x);
    let mut launch = Launch::new([ITEMS, 1, 1], [ITEMS, 1, 1]);
    let start = x.as_mut_ptr().cast();
    launch
        .arguments
        .push(Argument::Memory(start, size_of_val(&x[..])));
    if is_local {
        launch
            .arguments
            .push(Argument::Local(4 * (ITEMS as u64 + 2)));
    }
    launch.run(program, kernel);
    assert_eq!(x, wanted, "{kernel}");
}

const STORE: &str = "x[i + 1] = sum";
const INTO_LOCAL: &str = "int l = get_local_id(0), n = get_local_size(0);
    for (int at = l; at < n + 2; at += n) part[at] = x[at]; barrier(CLK_LOCAL_MEM_FENCE);";
const FROM_LOCAL: &str = "for (int at = l; at < n + 2; at += n) x[at] = part[at];";

#[test]
fn memory_is_read_anew_after_a_barrier() {
    let global = "global int *restrict x";
    let both = format!("{global}, local int *restrict part");
    let fence = "barrier(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE)";
    let later = "work_group_barrier(CLK_GLOBAL_MEM_FENCE, memory_scope_work_group)";
    let atomic = "atomic_xchg(&x[i + 1], sum)";
    let own = rounds("x", fence, STORE);
    let in_local = rounds("part", fence, "part[i + 1] = sum");
    let text = [
        format!("kernel void plain({global}) {{ {own} }}"),
        format!(
            "kernel void fenced({global}) {{ {} }}",
            rounds("x", later, STORE)
        ),
        format!(
            "kernel void atomic({global}) {{ {} }}",
            rounds("x", fence, atomic)
        ),
        format!("void function({global}) {{ {own} }} kernel void helped(global int *x) {{ function(x); }}"),
        format!("kernel void twice({global}) {{ plain(x); }}"),
        format!("kernel void events({global}) {{ event_t e; {} }}", rounds("x", "wait_group_events(1, &e)", STORE)),
        format!("kernel void passed({both}) {{ {INTO_LOCAL} {in_local} {fence}; {FROM_LOCAL} }}"),
        format!("void inner(local int *restrict part) {{ {in_local} }}
            kernel void declared({global}) {{ local int part[{ITEMS} + 2]; {INTO_LOCAL} inner(part); {fence}; {FROM_LOCAL} }}"),
        // What one pointer writes, another one reads, which the text must not say of both.
        format!("int both(global const int *restrict x, int i) {{ return x[i] + x[i + 2]; }}
            kernel void read_by_another({global}) {{ {} }}", own.replace("x[i] + x[i + 2]", "both(x, i)")),
    ]
    .join("\n");
    if program("kernel void nothing() {}").is_none() {
        return;
    }
    let program = Program::new(&text, "-cl-std=CL3.0").unwrap();
    for kernel in [
        "plain",
        "fenced",
        "atomic",
        "helped",
        "twice",
        "events",
        "declared",
        "read_by_another",
    ] {
        check(&program, kernel, false);
    }
    check(&program, "passed", true);
}
