//! Shared virtual memory that is moved.

#![allow(clippy::unwrap_used, reason = "a promise that is not kept panics")]

mod support;

use opencl_sys::cl_icd::clEnqueueSVMMigrateMem_t;
use opencl_sys::*;
use std::ffi::c_void;
use std::ptr::{null, null_mut};
use support::*;

#[test]
fn ranges_that_are_migrated_lie_within_an_allocation() {
    let setup = Setup::new();
    let address = api().address("clEnqueueSVMMigrateMem").unwrap();
    // SAFETY: the function's own type, which is an optional pointer.
    let migrate: clEnqueueSVMMigrateMem_t = unsafe { std::mem::transmute(address) };
    // SAFETY: the context's.
    let [first, second] =
        [256, 64].map(|size| unsafe { clSVMAlloc()(setup.context, CL_MEM_READ_WRITE, size, 0) });
    let migrated = |pointers: &[*mut c_void], sizes: Option<&[usize]>| {
        let mut pointers: Vec<*const c_void> = pointers
            .iter()
            .map(|pointer| pointer.cast_const())
            .collect();
        // SAFETY: as many addresses as sizes.
        unsafe {
            migrate.unwrap()(
                setup.queue,
                pointers.len() as u32,
                pointers.as_mut_ptr(),
                sizes.map_or(null(), <[usize]>::as_ptr),
                0,
                0,
                null(),
                null_mut(),
            )
        }
    };
    let within = first.wrapping_byte_add(128);
    // Without sizes, and with a size of zero, it is all of the allocation.
    ok(migrated(&[first, second], None));
    ok(migrated(&[first, second], Some(&[0, 0])));
    ok(migrated(&[first, second, within], Some(&[256, 64, 128])));
    for (pointer, size) in [
        (first, 257),
        (within, 129),
        (second, 256),
        (first, usize::MAX),
    ] {
        let code = migrated(&[first, pointer], Some(&[256, size]));
        assert_eq!(code, CL_INVALID_VALUE, "{size}");
    }
    let mut other = 0_u8;
    let outside: *mut c_void = (&raw mut other).cast();
    assert_eq!(migrated(&[outside], Some(&[1])), CL_INVALID_VALUE);
    setup.finish();
    // SAFETY: nothing uses them any more.
    unsafe {
        clSVMFree()(setup.context, first);
        clSVMFree()(setup.context, second);
    }
}
