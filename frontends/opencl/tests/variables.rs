//! Variables at program scope, as programs in C have them.

#![allow(clippy::unwrap_used, reason = "a promise that is not kept panics")]

mod support;

use opencl_sys::*;
use std::ffi::CString;
use std::ptr::{null, null_mut};
use support::*;

const TEXT: &str = "
    global int shared[1024] = { 1 };
    kernel void write(int value) {
        int sum = value;
        for (int i = 0; i < 1000; i++) sum = sum * 3 + i;
        shared[get_global_id(0)] = sum == 7 ? 0 : value;
    }
    kernel void copy(global int *out) { out[get_global_id(0)] = shared[1023 - get_global_id(0)]; }";

#[test]
fn kernels_of_a_queue_in_order_see_what_those_before_them_wrote() {
    if !compiles() {
        return;
    }
    let setup = Setup::with(0);
    let (program, code, log) = setup.try_build(TEXT, "-cl-std=CL3.0");
    assert_eq!(code, CL_SUCCESS, "{log}");
    let mut bytes = 0_usize;
    // SAFETY: room for one number.
    ok(unsafe {
        clGetProgramBuildInfo()(
            program,
            setup.device,
            CL_PROGRAM_BUILD_GLOBAL_VARIABLE_TOTAL_SIZE,
            size_of::<usize>(),
            (&raw mut bytes).cast(),
            null_mut(),
        )
    });
    assert_eq!(bytes, 4096);
    let [write, copy] = ["write", "copy"].map(|name| {
        let name = CString::new(name).unwrap();
        // SAFETY: a text that ends with a zero.
        made(|code| unsafe { clCreateKernel()(program, name.as_ptr(), code) })
    });
    let run = |kernel, after: &[cl_event]| {
        let (global, local) = (1024_usize, 32_usize);
        let events = if after.is_empty() {
            null()
        } else {
            after.as_ptr()
        };
        // SAFETY: one dimension, and as many events.
        ok(unsafe {
            clEnqueueNDRangeKernel()(
                setup.queue,
                kernel,
                1,
                null(),
                &raw const global,
                &raw const local,
                after.len() as u32,
                events,
                null_mut(),
            )
        });
    };
    // None of the two has a buffer in common with the other.
    let outs: Vec<cl_mem> = (0..10).map(|_| setup.buffer(&[-1_i32; 1024])).collect();
    // SAFETY: a context.
    let gate = made(|code| unsafe { clCreateUserEvent()(setup.context, code) });
    for (value, out) in outs.iter().enumerate() {
        assert_eq!(set(write, 0, &(value as i32)), CL_SUCCESS);
        run(write, &[gate]);
        assert_eq!(set(copy, 0, out), CL_SUCCESS);
        run(copy, &[]);
    }
    setup.do_other_things();
    // SAFETY: an event of the program's own.
    ok(unsafe { clSetUserEventStatus()(gate, CL_COMPLETE) });
    for (value, out) in outs.iter().enumerate() {
        assert_eq!(setup.read::<i32>(*out, 1024), [value as i32; 1024]);
    }
}
