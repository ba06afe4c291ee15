//! Launches whose offset has more bits than the numbers of work-items.

#![allow(clippy::unwrap_used, reason = "a promise that is not kept panics")]

mod support;

use quipu_clc::{ClcError, Program};
use support::{Launch, program};

const TEXT: &str = "
    #ifdef VARIABLE
    global int times;
    #define COUNT if (get_group_id(0) + get_local_id(0) == 0) times++;
    #else
    #define COUNT
    #endif
    kernel void k(global ulong *x, global uint *y, ulong limit) {
        COUNT
        size_t i = get_global_id(0), at = get_local_id(0) + get_group_id(0) * get_local_size(0);
        x[3 * at] = i < limit && (int)i != -1 ? i : 0;
        x[3 * at + 1] = get_global_linear_id() + get_global_offset(0) + (i >> 32);
        x[3 * at + 2] = get_global_offset(1) + get_global_id(1) + get_global_size(0);
        y[at] = get_global_id(0);
    }
    #ifdef VARIABLE
    kernel void count(global ulong *x, global uint *y, ulong limit) { *y = times; }
    #endif
";
const ITEMS: usize = 16;

/// A launch with an offset; it writes to the memory, which stays.
fn launch(offset: u64, x: &[u64], y: &[u32]) -> Launch {
    let mut launch = Launch::new([ITEMS, 1, 1], [8, 1, 1]);
    launch.grid.offset = [offset, 7, 0];
    launch.memory(x);
    launch.memory(y);
    launch.value(u64::MAX);
    launch
}

#[test]
fn an_offset_may_have_more_bits_than_numbers_within_a_launch() {
    if program("kernel void k() {}").is_none() {
        return;
    }
    for options in ["-cl-std=CL2.0", "-cl-std=CL3.0 -DVARIABLE"] {
        let program = Program::new(TEXT, options).unwrap();
        let offsets = [
            0,
            5,
            (1 << 31) - 18,
            (1 << 31) - 17,
            (1 << 31) - 16,
            1 << 31,
            (1 << 32) - 8,
            1 << 40,
            u64::MAX - ITEMS as u64,
        ];
        for offset in offsets {
            let (x, y) = (vec![0_u64; 3 * ITEMS], vec![0_u32; ITEMS]);
            launch(offset, &x, &y).run(&program, "k");
            let (x, y) = (std::hint::black_box(x), std::hint::black_box(y));
            for at in 0..ITEMS {
                let i = offset + at as u64;
                let first = if i as i32 == -1 { 0 } else { i };
                let expected = [first, i.wrapping_add(i >> 32), 14 + ITEMS as u64];
                assert_eq!(x[3 * at..][..3], expected, "{offset} {at}");
                assert_eq!(y[at], i as u32, "{offset} {at}");
            }
        }
        // Launches of both kinds share the program's variables.
        if options.contains("VARIABLE") {
            let (x, y) = (vec![0_u64; 3 * ITEMS], vec![0_u32; ITEMS]);
            let mut count = Launch::new([1, 1, 1], [1, 1, 1]);
            count.arguments = launch(0, &x, &y).arguments;
            count.run(&program, "count");
            assert_eq!(std::hint::black_box(y)[0] as usize, offsets.len());
        }
    }
}

#[test]
fn numbers_of_work_items_have_no_more_bits_than_an_address() {
    let Some(program) = program("kernel void k(global int *x) { *x = 1; }") else {
        return;
    };
    let memory = [0];
    let mut launch = Launch::new([8, 1, 1], [8, 1, 1]);
    launch.memory(&memory);
    launch.grid.offset = [u64::MAX - 4, 0, 0];
    let kernel = program.compile_for_grid("k", &launch.grid).unwrap();
    let checked = kernel.check(&launch.grid, &launch.arguments);
    assert!(matches!(checked, Err(ClcError::Launch(_))), "{checked:?}");
}
