//! Unified shared memory.

#![allow(clippy::unwrap_used, reason = "a promise that is not kept panics")]

mod support;

use opencl_sys::*;
use std::ffi::c_void;
use std::ptr::{null, null_mut};
use support::*;

/// A property of an address.
fn info<T: Copy>(
    setup: &Setup,
    pointer: *const c_void,
    name: cl_mem_info_intel,
    otherwise: T,
) -> T {
    let ask: clGetMemAllocInfoINTEL_t = extension("clGetMemAllocInfoINTEL");
    let (mut value, mut size) = (otherwise, 0);
    // SAFETY: room for the answer.
    ok(unsafe {
        ask.unwrap()(
            setup.context,
            pointer,
            name,
            size_of::<T>(),
            (&raw mut value).cast(),
            &raw mut size,
        )
    });
    assert_eq!(size, size_of::<T>());
    value
}

#[test]
fn memory_of_each_type_says_what_it_is() {
    let setup = Setup::new();
    let host: clHostMemAllocINTEL_t = extension("clHostMemAllocINTEL");
    let device: clDeviceMemAllocINTEL_t = extension("clDeviceMemAllocINTEL");
    let shared: clSharedMemAllocINTEL_t = extension("clSharedMemAllocINTEL");
    let free: clMemFreeINTEL_t = extension("clMemFreeINTEL");
    let (host, device, shared, free) = (
        host.unwrap(),
        device.unwrap(),
        shared.unwrap(),
        free.unwrap(),
    );
    let context = setup.context;
    let flags = [
        CL_MEM_ALLOC_FLAGS_INTEL,
        CL_MEM_ALLOC_INITIAL_PLACEMENT_HOST_INTEL,
        0,
    ];
    // SAFETY: lists that end with a zero; memory that is used no more when it is freed.
    unsafe {
        let all = [
            (
                made(|code| host(context, null(), 100, 64, code)),
                CL_MEM_TYPE_HOST_INTEL,
                null_mut(),
                0,
            ),
            (
                made(|code| device(context, setup.device, null(), 200, 0, code)),
                CL_MEM_TYPE_DEVICE_INTEL,
                setup.device,
                0,
            ),
            (
                made(|code| shared(context, null_mut(), flags.as_ptr(), 300, 0, code)),
                CL_MEM_TYPE_SHARED_INTEL,
                null_mut(),
                CL_MEM_ALLOC_INITIAL_PLACEMENT_HOST_INTEL,
            ),
        ];
        for (number, (pointer, kind, of, flags)) in all.into_iter().enumerate() {
            let within = pointer.wrapping_byte_add(99);
            assert_eq!(pointer.addr() % 64, 0);
            assert_eq!(info(&setup, within, CL_MEM_ALLOC_TYPE_INTEL, 0_u32), kind);
            let base = info(&setup, within, CL_MEM_ALLOC_BASE_PTR_INTEL, null_mut());
            assert_eq!(base, pointer);
            let size = info(&setup, within, CL_MEM_ALLOC_SIZE_INTEL, 0_usize);
            assert_eq!(size, 100 * (number + 1));
            assert_eq!(
                info(&setup, within, CL_MEM_ALLOC_DEVICE_INTEL, null_mut()),
                of
            );
            let name = CL_MEM_ALLOC_FLAGS_INTEL as cl_mem_info_intel;
            assert_eq!(info(&setup, within, name, 9_u64), flags);
            // Only its beginning frees it.
            assert_eq!(free(context, within), CL_INVALID_VALUE);
            ok(free(context, pointer));
            let kind = info(&setup, within, CL_MEM_ALLOC_TYPE_INTEL, 0_u32);
            assert_eq!(kind, CL_MEM_TYPE_UNKNOWN_INTEL);
            assert_eq!(free(context, pointer), CL_INVALID_VALUE);
        }
        ok(free(context, null_mut()));
        let refusals = [
            (
                refused(|code| host(context, null(), 0, 0, code)),
                CL_INVALID_BUFFER_SIZE,
            ),
            (
                refused(|code| host(context, null(), 8, 3, code)),
                CL_INVALID_VALUE,
            ),
            (
                refused(|code| host(context, flags.as_ptr(), 8, 0, code)),
                CL_INVALID_PROPERTY,
            ),
            (
                refused(|code| host(null_mut(), null(), 8, 0, code)),
                CL_INVALID_CONTEXT,
            ),
            (
                refused(|code| device(context, null_mut(), null(), 8, 0, code)),
                CL_INVALID_DEVICE,
            ),
            (
                refused(|code| shared(context, context, null(), 8, 0, code)),
                CL_INVALID_DEVICE,
            ),
        ];
        for (number, (code, wanted)) in refusals.into_iter().enumerate() {
            assert_eq!(code, wanted, "{number}");
        }
    }
}

#[test]
fn kernels_and_commands_use_it_by_its_address_and_a_free_waits_for_them() {
    if !compiles() {
        return;
    }
    let setup = Setup::new();
    let shared: clSharedMemAllocINTEL_t = extension("clSharedMemAllocINTEL");
    let fill: clEnqueueMemFillINTEL_t = extension("clEnqueueMemFillINTEL");
    let copy: clEnqueueMemcpyINTEL_t = extension("clEnqueueMemcpyINTEL");
    let pass: clSetKernelArgMemPointerINTEL_t = extension("clSetKernelArgMemPointerINTEL");
    let free: clMemBlockingFreeINTEL_t = extension("clMemBlockingFreeINTEL");
    let kernel = setup.kernel(
        "struct link { global int *first; };
        kernel void k(global int *to, global struct link *from) {
            int i = get_global_id(0); to[i] = from->first[i] + i; }",
        "k",
    );
    let count = 1000_usize;
    let bytes = count * 4;
    // SAFETY: there are as many bytes of each; nothing is used once it is freed.
    unsafe {
        let allocate = |bytes| {
            made(|code| shared.unwrap()(setup.context, setup.device, null(), bytes, 0, code))
        };
        let (from, to, link, results) = (
            allocate(bytes),
            allocate(bytes),
            allocate(8),
            allocate(bytes),
        );
        link.cast::<*mut c_void>().write(from);
        let (number, none) = (7_i32, null_mut());
        let pattern = (&raw const number).cast();
        ok(fill.unwrap()(
            setup.queue,
            from,
            pattern,
            4,
            bytes,
            0,
            null(),
            none,
        ));
        ok(pass.unwrap()(kernel, 0, to));
        ok(pass.unwrap()(kernel, 1, link));
        let reaches = CL_TRUE;
        ok(clSetKernelExecInfo()(
            kernel,
            CL_KERNEL_EXEC_INFO_INDIRECT_SHARED_ACCESS_INTEL,
            4,
            (&raw const reaches).cast(),
        ));
        ok(clEnqueueNDRangeKernel()(
            setup.queue,
            kernel,
            1,
            null(),
            &raw const count,
            null(),
            0,
            null(),
            none,
        ));
        ok(copy.unwrap()(
            setup.queue,
            CL_FALSE,
            results,
            to,
            bytes,
            0,
            null(),
            none,
        ));
        // It waits: the copy has read what is freed.
        ok(free.unwrap()(setup.context, to));
        let results = std::slice::from_raw_parts(results.cast::<i32>(), count);
        for (index, result) in results.iter().enumerate() {
            assert_eq!(*result, 7 + index as i32);
        }
        // A queue that is gone is waited for as well.
        let queue = made(|code| clCreateCommandQueue()(setup.context, setup.device, 0, code));
        let user = made(|code| clCreateUserEvent()(setup.context, code));
        let number = 9_i32;
        let pattern = (&raw const number).cast();
        ok(fill.unwrap()(
            queue,
            from,
            pattern,
            4,
            bytes,
            1,
            &raw const user,
            none,
        ));
        ok(clReleaseCommandQueue()(queue));
        // Nothing is waited for where there is nothing to free.
        let free: clMemBlockingFreeINTEL_t = extension("clMemBlockingFreeINTEL");
        let within = from.wrapping_byte_add(8);
        for (pointer, code) in [(null_mut(), CL_SUCCESS), (within, CL_INVALID_VALUE)] {
            assert_eq!(free.unwrap()(setup.context, pointer), code);
        }
        let address = from.expose_provenance();
        let (user_address, context) = (user.expose_provenance(), setup.context.expose_provenance());
        let freeing = std::thread::spawn(move || {
            let free: clMemBlockingFreeINTEL_t = extension("clMemBlockingFreeINTEL");
            let handle = std::ptr::with_exposed_provenance_mut;
            ok(free.unwrap()(handle(context), handle(address)));
        });
        let known: *mut c_void = std::ptr::with_exposed_provenance_mut(user_address);
        assert_eq!(
            info(&setup, from, CL_MEM_ALLOC_TYPE_INTEL, 0_u32),
            CL_MEM_TYPE_SHARED_INTEL
        );
        ok(clSetUserEventStatus()(known, CL_COMPLETE));
        freeing.join().unwrap();
        assert_eq!(
            info(&setup, from, CL_MEM_ALLOC_TYPE_INTEL, 0_u32),
            CL_MEM_TYPE_UNKNOWN_INTEL
        );
    }
}

#[test]
fn any_alignment_and_any_advice_is_taken() {
    let setup = Setup::new();
    let allocate: clHostMemAllocINTEL_t = extension("clHostMemAllocINTEL");
    let advise: clEnqueueMemAdviseINTEL_t = extension("clEnqueueMemAdviseINTEL");
    let free: clMemFreeINTEL_t = extension("clMemFreeINTEL");
    for alignment in [1, 128, 256, 4096, 1 << 20] {
        // SAFETY: no properties; memory that is freed once.
        unsafe {
            let memory =
                made(|code| allocate.unwrap()(setup.context, null(), 100, alignment, code));
            assert!(memory.addr().is_multiple_of(alignment as usize));
            for advice in [0, 1, 0x4208] {
                let (memory, none) = (memory.cast_const(), null_mut());
                ok(advise.unwrap()(
                    setup.queue,
                    memory,
                    100,
                    advice,
                    0,
                    null(),
                    none,
                ));
            }
            setup.finish();
            ok(free.unwrap()(setup.context, memory));
        }
    }
}
