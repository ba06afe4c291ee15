//! Launches whose size is no multiple of the work-group's.

#![allow(clippy::unwrap_used, reason = "a promise that is not kept panics")]

mod support;

use opencl_sys::*;
use std::ptr::{null, null_mut};
use support::*;

/// Each work-item adds its group's sizes, and those that its neighbours in the group have left in
/// local memory.
const TEXT: &str = "
    kernel void k(global int *y, local int *part) {
        size_t l = get_local_id(1) * get_local_size(0) + get_local_id(0), items = get_local_size(0) * get_local_size(1);
        part[l] = get_global_id(0) + 100 * get_global_id(1);
        barrier(CLK_LOCAL_MEM_FENCE);
        y[get_global_id(1) * get_global_size(0) + get_global_id(0)] =
            part[items - 1 - l] + 1000000 * get_local_size(0) + 10000 * get_local_size(1);
    }";

fn kernel(setup: &Setup, text: &str, options: &str) -> cl_kernel {
    let (program, code, log) = setup.try_build(text, options);
    assert_eq!(code, CL_SUCCESS, "{log}");
    // SAFETY: a name that ends with a zero.
    made(|code| unsafe { clCreateKernel()(program, c"k".as_ptr(), code) })
}

fn launch(setup: &Setup, kernel: cl_kernel, global: &[usize], local: Option<&[usize]>) -> cl_int {
    // SAFETY: as many numbers as dimensions.
    unsafe {
        clEnqueueNDRangeKernel()(
            setup.queue,
            kernel,
            global.len() as u32,
            null(),
            global.as_ptr(),
            local.map_or(null(), <[usize]>::as_ptr),
            0,
            null(),
            null_mut(),
        )
    }
}

#[test]
fn the_last_groups_have_the_rest() {
    if !compiles() {
        return;
    }
    let setup = Setup::new();
    let mut has: cl_bool = 7;
    // SAFETY: room for the answer.
    ok(unsafe {
        clGetDeviceInfo()(
            setup.device,
            CL_DEVICE_NON_UNIFORM_WORK_GROUP_SUPPORT,
            size_of::<cl_bool>(),
            (&raw mut has).cast(),
            null_mut(),
        )
    });
    assert_eq!(has, CL_TRUE);
    let [width, height] = [13, 7];
    let kernel = kernel(&setup, TEXT, "-cl-std=CL3.0");
    let buffer = setup.buffer(&[0_i32; 13 * 7]);
    ok(set(kernel, 0, &buffer));
    // SAFETY: room for a group's numbers.
    ok(unsafe { clSetKernelArg()(kernel, 1, 4 * 16, null()) });
    // An even launch before and after, with groups of the same size.
    for global in [[8, 4], [width, height], [12, 4], [width, 4], [3, height]] {
        ok(launch(&setup, kernel, &global, Some(&[4, 4])));
        let y = setup.read::<i32>(buffer, global[0] * global[1]);
        for (at, y) in y.iter().enumerate() {
            let place = [at % global[0], at / global[0]];
            let first = place.map(|place| place / 4 * 4);
            let size = [0, 1].map(|axis| (global[axis] - first[axis]).min(4));
            let [i, j] =
                [0, 1].map(|axis| first[axis] + size[axis] - 1 - (place[axis] - first[axis]));
            let expected = i + 100 * j + 1_000_000 * size[0] + 10_000 * size[1];
            assert_eq!(*y, expected as i32, "{global:?} {place:?}");
        }
    }
}

#[test]
fn a_program_before_2_0_has_groups_of_one_size() {
    if !compiles() {
        return;
    }
    let setup = Setup::new();
    for options in [
        "",
        "-cl-std=CL1.2",
        "-cl-std=CL3.0 -cl-uniform-work-group-size",
    ] {
        let kernel = kernel(
            &setup,
            "kernel void k(global int *y) { y[get_global_id(0)]++; }",
            options,
        );
        let buffer = setup.buffer(&[0_i32; 67]);
        ok(set(kernel, 0, &buffer));
        assert_eq!(
            launch(&setup, kernel, &[67], Some(&[16])),
            CL_INVALID_WORK_GROUP_SIZE
        );
        // Where the program leaves it open, such a kernel cannot tell.
        ok(launch(&setup, kernel, &[67], None));
        assert_eq!(setup.read::<i32>(buffer, 67), [1; 67], "{options}");
    }
    // This one can.
    let text = "kernel void k(global int *y) { y[get_global_id(0)] = get_local_size(0) * get_num_groups(0); }";
    let kernel = kernel(&setup, text, "-cl-std=CL1.2");
    let buffer = setup.buffer(&[0_i32; 67]);
    ok(set(kernel, 0, &buffer));
    ok(launch(&setup, kernel, &[67], None));
    assert_eq!(setup.read::<i32>(buffer, 67), [67; 67]);
}

#[test]
fn a_required_size_may_leave_a_rest() {
    if !compiles() {
        return;
    }
    let setup = Setup::new();
    let text = "kernel __attribute__((reqd_work_group_size(8, 1, 1))) void k(global int *y) {
        y[get_global_id(0)] = 100 * get_enqueued_local_size(0) + get_local_size(0); }";
    let new = kernel(&setup, text, "-cl-std=CL3.0");
    let buffer = setup.buffer(&[0_i32; 11]);
    ok(set(new, 0, &buffer));
    assert_eq!(
        launch(&setup, new, &[11], Some(&[4])),
        CL_INVALID_WORK_GROUP_SIZE
    );
    for local in [None, Some(&[8_usize][..])] {
        ok(launch(&setup, new, &[11], local));
        let expected: Vec<i32> = (0..11).map(|at| if at < 8 { 808 } else { 803 }).collect();
        assert_eq!(setup.read::<i32>(buffer, 11), expected);
    }
    let text = text.replace("get_enqueued_local_size(0)", "8");
    let old = kernel(&setup, &text, "-cl-std=CL1.2");
    ok(set(old, 0, &buffer));
    assert_eq!(launch(&setup, old, &[11], None), CL_INVALID_WORK_GROUP_SIZE);
    ok(launch(&setup, old, &[8], None));
}

#[test]
fn every_size_that_is_suggested_is_accepted() {
    if !compiles() {
        return;
    }
    let setup = Setup::new();
    let suggest: clGetKernelSuggestedLocalWorkSizeKHR_t =
        extension("clGetKernelSuggestedLocalWorkSizeKHR");
    // Kernels that can tell the sizes of their groups, and that cannot.
    for text in [
        "kernel void k(global int *y) { y[get_global_id(0) + get_global_size(0) * get_global_id(1)]++; }",
        "kernel void k(global int *y) { y[get_global_id(0) + get_global_size(0) * get_global_id(1)] += get_local_size(0) != 0; }",
    ] {
        for options in [
            "",
            "-cl-std=CL3.0",
            "-cl-std=CL3.0 -cl-uniform-work-group-size",
        ] {
            let kernel = kernel(&setup, text, options);
            for global in [[67, 1], [1021, 1], [1, 67], [64, 3], [3, 5], [2018, 2]] {
                let buffer = setup.buffer(&vec![0_i32; global[0] * global[1]]);
                ok(set(kernel, 0, &buffer));
                let mut local = [0_usize; 2];
                // SAFETY: two dimensions.
                ok(unsafe {
                    suggest.unwrap()(
                        setup.queue,
                        kernel,
                        2,
                        null(),
                        global.as_ptr(),
                        local.as_mut_ptr(),
                    )
                });
                let code = launch(&setup, kernel, &global, Some(&local));
                assert_eq!(code, CL_SUCCESS, "{options} {global:?} {local:?}");
                let y = setup.read::<i32>(buffer, global[0] * global[1]);
                assert!(y.iter().all(|y| *y == 1), "{options} {global:?} {local:?}");
            }
        }
    }
}
