//! Loops whose counters begin at a work-item's number.

#![allow(clippy::unwrap_used, reason = "a promise that is not kept panics")]

mod support;

use quipu_clc::Output;
use support::{Launch, program};

/// Work-items of a group, and groups.
const ITEMS: usize = 16;
const GROUPS: usize = 3;
const COUNT: usize = 150;

/// Kernels: the loop that gives `sum` numbers of `x`, and the indices that it goes to, by the
/// number of the work-item in its group and in the launch.
type Indices = fn(i64, i64) -> Vec<i64>;

const KERNELS: [(&str, &str, Indices); 10] = [
    (
        "up",
        "for (int i = l; i < n; i += 16) sum += x[i];",
        |l, _| (l..COUNT as i64).step_by(16).collect(),
    ),
    (
        "far",
        "for (size_t i = g; i < (size_t)n; i += get_global_size(0)) sum += x[i];",
        |_, g| {
            let all = ITEMS * GROUPS;
            (g..COUNT as i64).step_by(all).collect()
        },
    ),
    (
        "unsigned_up",
        "for (uint i = l; i < (uint)n; i += get_local_size(0)) sum += x[i];",
        |l, _| (l..COUNT as i64).step_by(ITEMS).collect(),
    ),
    (
        "down",
        "for (int i = l; i > -n; i -= 7) sum += x[i < 0 ? -i : i];",
        |l, _| {
            let all = (0..).map(|k| l - 7 * k);
            all.take_while(|i| *i > -(COUNT as i64))
                .map(i64::abs)
                .collect()
        },
    ),
    (
        "by_an_argument",
        "for (int i = l; i < n && i > -n; i += step) sum += x[i < 0 ? -i : i];",
        |l, _| {
            let all = (0..).map(|k| l - 5 * k);
            all.take_while(|i| *i > -(COUNT as i64))
                .map(i64::abs)
                .collect()
        },
    ),
    (
        "around",
        "uchar i = l; for (int k = 0; k < 40; k++, i += 100) sum += x[i % 150];",
        |l, _| (0..40).map(|k| (l + 100 * k) % 256 % 150).collect(),
    ),
    (
        "until_found",
        "int i = l; while (i < n && x[i] != 60) { sum += x[i]; i += 16; } sum += i;",
        |l, _| (l..COUNT as i64).step_by(16).collect(),
    ),
    (
        "after",
        "int i = l; for (; i < n; i += 16) sum += x[i]; sum += i;",
        |l, _| (l..COUNT as i64).step_by(16).collect(),
    ),
    (
        "nested",
        "for (int k = 0; k < 3; k++) for (int i = l; i < n - 20 * k; i += 16) sum += x[i];",
        |l, _| {
            let all = (0..3).flat_map(|k| (l..COUNT as i64 - 20 * k).step_by(16));
            all.collect()
        },
    ),
    (
        "with_a_barrier",
        "local int part[16]; for (int i = l; i < n - 6; i += 16) { part[l] = x[i]; barrier(CLK_LOCAL_MEM_FENCE); \
         sum += part[15 - l]; barrier(CLK_LOCAL_MEM_FENCE); }",
        |l, _| (15 - l..COUNT as i64 - 6).step_by(16).collect(),
    ),
];

#[test]
fn work_items_count_from_their_numbers_on() {
    let kernels = KERNELS.iter().map(|(name, of, _)| {
        format!(
            "kernel void {name}(global const int *x, global int *out, int n, int step) {{
                int l = get_local_id(0), g = get_global_id(0), sum = 0; {of} out[g] = sum; }}"
        )
    });
    let text: Vec<String> = kernels.collect();
    let Some(program) = program(&text.join("\n")) else {
        return;
    };
    let x: Vec<i32> = (0..COUNT as i32).map(|i| i * i % 61).collect();
    for (name, _, indices) in KERNELS {
        let out = vec![0_i32; ITEMS * GROUPS];
        let mut launch = Launch::new([ITEMS * GROUPS, 1, 1], [ITEMS, 1, 1]);
        launch.memory(&x);
        launch.memory(&out);
        launch.value(COUNT as i32);
        launch.value(-5_i32);
        launch.run(&program, name);
        for (g, found) in out.iter().enumerate() {
            let all = indices((g % ITEMS) as i64, g as i64);
            let mut wanted = 0;
            let mut end = all.last().map_or(0, |last| *last as i32 + 16);
            for i in all {
                if name == "until_found" && x[i as usize] == 60 {
                    end = i as i32;
                    break;
                }
                wanted += x[i as usize];
            }
            if ["until_found", "after"].contains(&name) {
                wanted += end;
            }
            assert_eq!(*found, wanted, "{name}, work-item {g}");
        }
    }
    let text = program.emit("up", Some([64, 1, 1]), Output::Optimised);
    let text = String::from_utf8_lossy(&text.unwrap()).into_owned();
    assert!(
        text.contains("masked.load") && !text.contains("masked.gather"),
        "{text}"
    );
}
