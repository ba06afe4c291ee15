//! Work-groups that take more memory than there may be, and launches of very many work-items.

#![allow(clippy::unwrap_used, reason = "a promise that is not kept panics")]

mod support;

use opencl_sys::*;
use std::ptr::{null, null_mut};
use support::*;

/// Enqueues a kernel of one dimension.
fn launch(setup: &Setup, kernel: cl_kernel, global: usize, local: Option<usize>) -> cl_int {
    let local = local.as_ref().map_or(null(), std::ptr::from_ref);
    // SAFETY: one dimension.
    unsafe {
        clEnqueueNDRangeKernel()(
            setup.queue,
            kernel,
            1,
            null(),
            &raw const global,
            local,
            0,
            null(),
            null_mut(),
        )
    }
}

fn work_group_info<T: Default>(
    setup: &Setup,
    kernel: cl_kernel,
    name: cl_kernel_work_group_info,
) -> T {
    let mut value = T::default();
    // SAFETY: room for the answer.
    ok(unsafe {
        clGetKernelWorkGroupInfo()(
            kernel,
            setup.device,
            name,
            size_of::<T>(),
            (&raw mut value).cast(),
            null_mut(),
        )
    });
    value
}

#[test]
fn groups_that_need_more_memory_than_there_may_be_are_refused() {
    if !compiles() {
        return;
    }
    let setup = Setup::new();
    let most = {
        let mut most = 0_usize;
        // SAFETY: room for the answer.
        ok(unsafe {
            clGetDeviceInfo()(
                setup.device,
                CL_DEVICE_MAX_WORK_GROUP_SIZE,
                size_of::<usize>(),
                (&raw mut most).cast(),
                null_mut(),
            )
        });
        most
    };
    // Twice as many bytes as there are for the largest group.
    let each = 2 * (256 << 20) / most;
    let body = format!(
        "int own[{each} / 4];
        int i = get_global_id(0);
        for (int j = 0; j < {each} / 4; j += 64) own[j] = i + j;
        x[i] = own[(i * 64) % ({each} / 4)];"
    );
    let text = format!(
        "kernel void open(global int *x) {{ {body} }}
        kernel __attribute__((reqd_work_group_size({most}, 1, 1))) void fixed(global int *x) {{ {body} }}
        kernel void small(global int *x) {{ int own[2]; own[x[0] & 1] = 1; x[0] = own[x[1] & 1]; }}"
    );
    let [open, fixed, small] = ["open", "fixed", "small"].map(|name| setup.kernel(&text, name));
    let buffer = setup.buffer(&vec![-1_i32; most]);
    for kernel in [open, fixed] {
        ok(set(kernel, 0, &buffer));
    }
    let size = |kernel| work_group_info::<usize>(&setup, kernel, CL_KERNEL_WORK_GROUP_SIZE);
    assert_eq!(size(small), most);
    let fits = size(open);
    assert!((most / 4..most).contains(&fits), "{fits} of {most}");
    let private = work_group_info::<cl_ulong>(&setup, open, CL_KERNEL_PRIVATE_MEM_SIZE);
    assert!(private >= each as cl_ulong, "{private}");
    assert_eq!(
        launch(&setup, open, most, Some(most)),
        CL_INVALID_WORK_GROUP_SIZE
    );
    assert_eq!(launch(&setup, fixed, most, Some(most)), CL_OUT_OF_RESOURCES);
    assert_eq!(setup.read::<i32>(buffer, most), vec![-1; most]);
    let wanted: Vec<i32> = (0..most)
        .map(|i| (i + (i * 64) % (each / 4)) as i32)
        .collect();
    for local in [Some(most / 4), None] {
        ok(launch(&setup, open, most, local));
        assert_eq!(setup.read::<i32>(buffer, most), wanted, "{local:?}");
    }
}

#[test]
fn a_launch_has_as_many_work_items_as_the_program_says() {
    if !compiles() {
        return;
    }
    let setup = Setup::with(0);
    let kernel = setup.kernel(
        "kernel void k(global ulong *out) {
            size_t i = get_global_id(0);
            if (i + 1 != get_global_size(0) && i != 0x80000000) return;
            if (i == 0x80000000) out += 4;
            out[0] = i;
            out[1] = get_group_id(0);
            out[2] = get_num_groups(0);
            out[3] = get_global_size(0);
        }",
        "k",
    );
    const LOCAL: u64 = 4096;
    let global = (1 << 31) + 2 * LOCAL;
    let out = setup.buffer(&[0_u64; 8]);
    ok(set(kernel, 0, &out));
    ok(launch(
        &setup,
        kernel,
        global as usize,
        Some(LOCAL as usize),
    ));
    let groups = global / LOCAL;
    let last = [global - 1, groups - 1, groups, global];
    let middle = [1 << 31, (1 << 31) / LOCAL, groups, global];
    assert_eq!(setup.read::<u64>(out, 8), [last, middle].concat());
}
