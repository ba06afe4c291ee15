//! Launches whose work-items have numbers of more bits than kernels count with.

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

const NUMBERS: &str = "
    kernel void k(global ulong *x) {
        x += 9 * get_local_linear_id();
        x[0] = get_global_id(0);
        x[1] = get_global_id(1);
        x[2] = get_global_id(2);
        x[3] = get_group_id(0);
        x[4] = get_group_id(1);
        x[5] = get_group_id(2);
        x[6] = get_global_linear_id();
        x[7] = get_num_groups(0) + 3 * get_num_groups(1) + 5 * get_num_groups(2);
        x[8] = get_global_offset(0) + get_global_size(0) + get_global_size(1) + get_local_size(0);
    }
";

#[test]
fn a_launch_may_have_more_work_items_than_kernels_count() {
    if program("kernel void k() {}").is_none() {
        return;
    }
    let program = Program::new(NUMBERS, "-cl-std=CL3.0").unwrap();
    // The last ones have smaller groups at an end.
    for (global, local, offset) in [
        ([1 << 33, 3, 2], [8, 1, 1], [0; 3]),
        ([5, 1 << 33, 3], [1, 4, 1], [7, 1 << 40, 9]),
        ([1 << 32, 1 << 31, 1], [2, 2, 1], [3, 0, 0]),
        ([2, 3, 1 << 34], [2, 1, 2], [0, 0, 1 << 33]),
        ([(1 << 33) + 3, 3, 2], [8, 1, 1], [5, 0, 0]),
        ([3, (1 << 31) + 1, 2], [2, 2, 1], [0; 3]),
    ] {
        let x = vec![0_u64; 9 * 8];
        let mut launch = Launch::new(global, local);
        launch.grid.offset = offset;
        launch.memory(&x);
        let kernel = program.compile_for_grid("k", &launch.grid).unwrap();
        let groups = launch.grid.groups();
        let all = groups.iter().product::<u64>();
        let row = groups[0];
        let slice = row * groups[1];
        let windows = [i32::MAX as u64 / local[0] as u64, i32::MAX as u64 / 2 * row];
        let near = [0, row, slice, all].into_iter().chain(windows);
        let mut numbers: Vec<u64> = near
            .flat_map(|at| at.saturating_sub(2)..at.saturating_add(2))
            .filter(|number| *number < all)
            .collect();
        numbers.dedup();
        for number in numbers {
            // SAFETY: one group of few work-items stays within the memory.
            unsafe { kernel.run(&launch.grid, &launch.arguments, number..number + 1) }.unwrap();
            let x = std::hint::black_box(&x);
            let group = [number % row, number / row % groups[1], number / slice];
            let sizes: [u64; 3] = std::array::from_fn(|axis| {
                let left = global[axis] as u64 - group[axis] * local[axis] as u64;
                left.min(local[axis] as u64)
            });
            for item in 0..sizes.iter().product::<u64>() {
                let within = [
                    item % sizes[0],
                    item / sizes[0] % sizes[1],
                    item / sizes[0] / sizes[1],
                ];
                let at: [u64; 3] =
                    std::array::from_fn(|axis| group[axis] * local[axis] as u64 + within[axis]);
                let [wide, high, _] = global.map(|size| size as u64);
                let expected = [
                    at[0] + offset[0],
                    at[1] + offset[1],
                    at[2] + offset[2],
                    group[0],
                    group[1],
                    group[2],
                    (at[2] * high + at[1]) * wide + at[0],
                    groups[0] + 3 * groups[1] + 5 * groups[2],
                    offset[0] + wide + high + sizes[0],
                ];
                assert_eq!(
                    x[9 * item as usize..][..9],
                    expected,
                    "{global:?} {number} {item}"
                );
            }
        }
        // Over the ends of windows: each group once.
        let some = i32::MAX as u64 / local[0] as u64;
        let range = some.saturating_sub(3)..all.min(some + 3);
        // SAFETY: few groups of few work-items, one after the other, stay within the memory.
        unsafe { kernel.run(&launch.grid, &launch.arguments, range) }.unwrap();
    }
}
