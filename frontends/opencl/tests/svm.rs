//! Shared virtual memory: its atomic operations, and moving it.

#![allow(clippy::unwrap_used, reason = "a promise that is not kept panics")]

mod support;

use opencl_sys::cl_icd::clEnqueueSVMMigrateMem_t;
use opencl_sys::*;
use std::ffi::c_void;
use std::ptr::{null, null_mut};
use std::sync::atomic::{AtomicI32, Ordering};
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

#[test]
fn flags_of_a_mapping_that_exclude_each_other_are_refused() {
    let setup = Setup::new();
    // SAFETY: the context's.
    let memory = unsafe { clSVMAlloc()(setup.context, CL_MEM_READ_WRITE, 64, 0) };
    let mapped = |flags| {
        // SAFETY: memory of the context's.
        unsafe {
            clEnqueueSVMMap()(
                setup.queue,
                CL_TRUE,
                flags,
                memory,
                64,
                0,
                null(),
                null_mut(),
            )
        }
    };
    let invalidates = CL_MAP_WRITE_INVALIDATE_REGION;
    for flags in [
        CL_MAP_READ,
        CL_MAP_WRITE,
        CL_MAP_READ | CL_MAP_WRITE,
        invalidates,
    ] {
        ok(mapped(flags));
    }
    for flags in [
        CL_MAP_READ,
        CL_MAP_WRITE,
        CL_MAP_READ | CL_MAP_WRITE,
        1 << 3,
    ] {
        assert_eq!(mapped(invalidates | flags), CL_INVALID_VALUE, "{flags}");
    }
    setup.finish();
    // SAFETY: nothing uses it any more.
    unsafe { clSVMFree()(setup.context, memory) };
}

#[test]
fn the_host_and_kernels_change_one_number_by_atomic_operations() {
    let setup = Setup::new();
    let mut capabilities: cl_device_svm_capabilities = 0;
    // SAFETY: room for the answer.
    ok(unsafe {
        clGetDeviceInfo()(
            setup.device,
            CL_DEVICE_SVM_CAPABILITIES,
            size_of_val(&capabilities),
            (&raw mut capabilities).cast(),
            null_mut(),
        )
    });
    let has_atomics = capabilities & CL_DEVICE_SVM_ATOMICS != 0;
    let allocate = |flags| {
        // SAFETY: a handle.
        unsafe { clSVMAlloc()(setup.context, CL_MEM_READ_WRITE | flags, 64, 0) }
    };
    // They are of fine-grained memory alone.
    assert!(allocate(CL_MEM_SVM_ATOMICS).is_null());
    let memory = allocate(CL_MEM_SVM_FINE_GRAIN_BUFFER | CL_MEM_SVM_ATOMICS);
    assert_eq!(memory.is_null(), !has_atomics);
    if !compiles() {
        return;
    }
    assert!(has_atomics);
    let text = "kernel void count(global atomic_int *n) {
        for (int turn = 0; turn < 100; turn++)
            atomic_fetch_add_explicit(n, 1, memory_order_relaxed, memory_scope_all_svm_devices);
    }";
    let (program, code, log) = setup.try_build(text, "-cl-std=CL3.0");
    assert_eq!(code, CL_SUCCESS, "{log}");
    let (items, host) = (10_000_usize, 1_000_000);
    // SAFETY: the memory is one of atomic numbers for the host and for the kernel.
    unsafe {
        memory.cast::<AtomicI32>().write(AtomicI32::new(0));
        let number = &*memory.cast::<AtomicI32>();
        let kernel = made(|code| clCreateKernel()(program, c"count".as_ptr(), code));
        ok(clSetKernelArgSVMPointer()(kernel, 0, memory));
        ok(clEnqueueNDRangeKernel()(
            setup.queue,
            kernel,
            1,
            null(),
            &raw const items,
            null(),
            0,
            null(),
            null_mut(),
        ));
        ok(clFlush()(setup.queue));
        for _ in 0..host {
            number.fetch_add(1, Ordering::Relaxed);
        }
        setup.finish();
        assert_eq!(number.load(Ordering::Relaxed), host + 100 * items as i32);
        clSVMFree()(setup.context, memory);
    }
}
