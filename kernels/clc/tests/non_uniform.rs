//! Launches whose last groups along an axis have fewer work-items than the others, compared with
//! the standard's definition.

#![allow(clippy::unwrap_used, reason = "a promise that is not kept panics")]

mod support;

use quipu_clc::{ClcError, Program};
use support::{Launch, program};

const TEXT: &str = "
    kernel void look(global const int *x, int n, local int *part, global long *y) {
        size_t at = get_global_linear_id(), l = get_local_linear_id();
        global long *to = y + at * 24;
        int own = at < n ? x[at] : 0, weighted = 0;
        part[l] = own;
        barrier(CLK_LOCAL_MEM_FENCE);
        size_t items = get_local_size(0) * get_local_size(1) * get_local_size(2);
        for (size_t i = 0; i < items; i++) weighted += part[i] * (int)(i + 1);
        for (uint d = 0; d < 3; d++) {
            to[d] = get_local_id(d);
            to[3 + d] = get_group_id(d);
            to[6 + d] = get_local_size(d);
            to[9 + d] = get_enqueued_local_size(d);
            to[12 + d] = get_global_id(d) - get_global_offset(d);
        }
        to[15] = get_num_groups(0) * 10000 + get_num_groups(1) * 100 + get_num_groups(2);
        to[16] = l;
        to[17] = weighted;
        if (get_local_size(0) == get_enqueued_local_size(0)) barrier(CLK_LOCAL_MEM_FENCE);
        to[18] = work_group_reduce_add(own);
        to[19] = work_group_scan_exclusive_add(own);
        to[20] = get_sub_group_size();
        to[21] = get_max_sub_group_size();
        to[22] = sub_group_broadcast(own, get_sub_group_size() - 1);
        to[23] = work_group_any(get_local_id(0) + 1 == get_enqueued_local_size(0));
    }
";

/// The value of a work-item.
fn own(at: usize) -> i32 {
    (at as i32 * 37) % 101 - 50
}

/// The expected result of the work-item of a place in the grid.
fn expected(global: [usize; 3], local: [usize; 3], place: [usize; 3]) -> [i64; 24] {
    let each = |of: &dyn Fn(usize) -> usize| [0, 1, 2].map(of);
    let linear = |[x, y, z]: [usize; 3]| (z * global[1] + y) * global[0] + x;
    let group = each(&|axis| place[axis] / local[axis]);
    let first = each(&|axis| group[axis] * local[axis]);
    let size = each(&|axis| local[axis].min(global[axis] - first[axis]));
    let [lx, ly, lz] = each(&|axis| place[axis] - first[axis]);
    let number = (lz * size[1] + ly) * size[0] + lx;
    let mut owns = Vec::new();
    for z in 0..size[2] {
        for y in 0..size[1] {
            for x in 0..size[0] {
                let at = linear([first[0] + x, first[1] + y, first[2] + z]);
                owns.push(i64::from(own(at)));
            }
        }
    }
    let groups = each(&|axis| global[axis].div_ceil(local[axis]));
    let weighted = owns.iter().zip(1..).map(|(own, i)| own * i).sum();
    let numbers = [[lx, ly, lz], group, size, local, place];
    let mut all = numbers.as_flattened().iter().map(|number| *number as i64);
    let mut of = |_| all.next().unwrap();
    let mut result: [i64; 24] = [0; 24];
    result[..15].copy_from_slice(&[(); 15].map(&mut of));
    result[15..].copy_from_slice(&[
        (groups[0] * 10_000 + groups[1] * 100 + groups[2]) as i64,
        number as i64,
        weighted,
        owns.iter().sum(),
        owns[..number].iter().sum(),
        owns.len() as i64,
        local.iter().product::<usize>() as i64,
        owns[owns.len() - 1],
        i64::from(size[0] == local[0]),
    ]);
    result
}

fn options() -> &'static str {
    "-cl-std=CL3.0"
}

#[test]
fn groups_at_the_ends_have_the_rest() {
    if program("kernel void k() {}").is_none() {
        return;
    }
    let program = Program::new(TEXT, options()).unwrap();
    for (global, local, offset) in [
        ([10, 1, 1], [4, 1, 1], [0, 0, 0]),
        ([300, 1, 1], [128, 1, 1], [7, 0, 0]),
        ([3, 1, 1], [64, 1, 1], [0, 0, 0]),
        ([8, 7, 1], [4, 4, 1], [0, 0, 0]),
        ([9, 8, 1], [4, 4, 1], [1, 2, 0]),
        ([19, 7, 1], [8, 2, 1], [0, 0, 0]),
        ([4, 4, 5], [2, 4, 2], [0, 0, 0]),
        ([7, 5, 3], [4, 2, 2], [3, 2, 1]),
        ([5, 6, 3], [16, 4, 2], [0, 0, 0]),
        ([5, 3, 7], [5, 2, 7], [0, 1 << 33, 0]),
    ] {
        let items: usize = global.iter().product();
        let x: Vec<i32> = (0..items).map(own).collect();
        // All groups at once, and as threads share them.
        for step in [u64::MAX, 1, 2, 5] {
            let y = vec![-1_i64; 24 * items];
            let mut launch = Launch::new(global, local);
            launch.grid.offset = offset;
            launch.memory(&x);
            launch.value(items as i32);
            launch.local(4 * local.iter().product::<usize>() as u64);
            launch.memory(&y);
            launch.run_by(&program, "look", step);
            let y = std::hint::black_box(y);
            for (at, found) in y.chunks(24).enumerate() {
                let place = [
                    at % global[0],
                    at / global[0] % global[1],
                    at / global[0] / global[1],
                ];
                let expected = expected(global, local, place);
                assert_eq!(found, expected, "{global:?} {local:?} {step} {place:?}");
            }
        }
    }
}

/// Versions of a kernel without its test run for groups whose last work-item is within bounds,
/// whatever its group's size.
#[test]
fn a_test_of_bounds_may_hold_for_a_smaller_group() {
    if program("kernel void k() {}").is_none() {
        return;
    }
    let text = "
        kernel __attribute__((reqd_work_group_size(16, 4, 1))) void add(global int *y, global const int *x, int w, int h) {
            int i = get_global_id(0), j = get_global_id(1);
            if (i < w && j < h) y[j * w + i] += x[j * w + (i == 0 ? w - 1 : i - 1)];
        }";
    let program = Program::new(text, options()).unwrap();
    for (global, within) in [
        ([37, 9, 1], [37, 9]),
        ([37, 9, 1], [35, 8]),
        ([64, 3, 1], [60, 3]),
    ] {
        let x = vec![1_i32; within[0] * within[1]];
        let y = vec![0_i32; within[0] * within[1] + 8];
        let mut launch = Launch::new(global, [16, 4, 1]);
        launch.memory(&y);
        launch.memory(&x);
        launch.value(within[0] as i32);
        launch.value(within[1] as i32);
        launch.run(&program, "add");
        let y = std::hint::black_box(y);
        let (inside, beyond) = y.split_at(within[0] * within[1]);
        assert!(inside.iter().all(|y| *y == 1), "{global:?} {y:?}");
        assert!(beyond.iter().all(|y| *y == 0), "{global:?} {y:?}");
    }
    let mut launch = Launch::new([37, 9, 1], [8, 4, 1]);
    launch.value(0);
    let refused = program.compile_for_grid("add", &launch.grid).unwrap_err();
    assert!(refused.to_string().contains("reqd_work_group_size"));
}

#[test]
fn a_program_may_have_groups_of_one_size_alone() {
    if program("kernel void k() {}").is_none() {
        return;
    }
    let text = "kernel void k(global int *y) { y[get_global_id(0)] = get_local_size(0); }";
    let (uneven, even) = (
        Launch::new([10, 1, 1], [4, 1, 1]),
        Launch::new([8, 1, 1], [4, 1, 1]),
    );
    for (options, is_uniform) in [
        ("", true),
        ("-cl-std=CL1.2", true),
        ("-cl-std=CL2.0", false),
        ("-cl-std=CL3.0", false),
        ("-cl-std=CL3.0 -cl-uniform-work-group-size", true),
    ] {
        let program = Program::new(text, options).unwrap();
        assert_eq!(program.kernels()[0].uniform_groups, is_uniform, "{options}");
        assert_eq!(
            quipu_clc::has_uniform_groups(options),
            is_uniform,
            "{options}"
        );
        let compiled = program.compile_for_grid("k", &uneven.grid);
        match compiled {
            Ok(_) => assert!(!is_uniform, "{options}"),
            Err(error) => {
                assert!(
                    is_uniform && matches!(*error, ClcError::Launch(_)),
                    "{options}: {error}"
                );
                assert!(error.to_string().contains("-cl-std=CL2.0"), "{error}");
            }
        }
        // One that was compiled for groups of one size runs no others.
        let kernel = Program::new(text, options).unwrap();
        let kernel = kernel.compile_for_grid("k", &even.grid).unwrap();
        let mut launch = Launch::new([10, 1, 1], [4, 1, 1]);
        launch.memory(&[0; 12]);
        assert!(kernel.check(&launch.grid, &launch.arguments).is_err());
    }
}
