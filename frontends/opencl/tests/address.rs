//! Buffers whose addresses programs know, and buffers with content sizes.

#![allow(clippy::unwrap_used, reason = "a promise that is not kept panics")]

mod support;

use opencl_sys::cl_icd::clCreateBufferWithProperties_t;
use opencl_sys::*;
use std::ffi::c_void;
use std::ptr::{null, null_mut};
use support::*;

type SetAddress = unsafe extern "C" fn(cl_kernel, cl_uint, cl_mem_device_address_ext) -> cl_int;
type SetContentSize = unsafe extern "C" fn(cl_mem, cl_mem) -> cl_int;

const WITH_ADDRESS: [cl_mem_properties; 3] = [CL_MEM_DEVICE_PRIVATE_ADDRESS_EXT, 1, 0];

fn create(
    setup: &Setup,
    properties: &[cl_mem_properties],
    flags: cl_mem_flags,
    values: &mut [i32],
    code: *mut cl_int,
) -> cl_mem {
    let create: clCreateBufferWithProperties_t = extension("clCreateBufferWithProperties");
    let pointer = match flags {
        CL_MEM_READ_WRITE => null_mut(),
        _ => values.as_mut_ptr().cast::<c_void>(),
    };
    let bytes = size_of_val(values);
    // SAFETY: as many bytes, and a list that ends with a zero.
    unsafe {
        create.unwrap()(
            setup.context,
            properties.as_ptr(),
            flags,
            bytes,
            pointer,
            code,
        )
    }
}

fn try_address(buffer: cl_mem) -> (cl_int, usize) {
    let (mut address, mut size) = (0_u64, 0);
    // SAFETY: room for one number.
    let code = unsafe {
        clGetMemObjectInfo()(
            buffer,
            CL_MEM_DEVICE_ADDRESS_EXT,
            8,
            (&raw mut address).cast(),
            &raw mut size,
        )
    };
    assert!(code != CL_SUCCESS || size == 8);
    (code, address as usize)
}

fn address(buffer: cl_mem) -> usize {
    let (code, address) = try_address(buffer);
    ok(code);
    assert_ne!(address, 0);
    address
}

fn run(setup: &Setup, kernel: cl_kernel) {
    let one = 1;
    // SAFETY: one dimension.
    ok(unsafe {
        clEnqueueNDRangeKernel()(
            setup.queue,
            kernel,
            1,
            null(),
            &raw const one,
            null(),
            0,
            null(),
            null_mut(),
        )
    });
}

#[test]
fn kernels_reach_a_buffer_by_its_address() {
    if !compiles() {
        return;
    }
    let set_address: SetAddress = extension("clSetKernelArgDevicePointerEXT");
    let setup = Setup::with(0);
    let before = setup.kernel(
        "kernel void before(global int *at, global int *out, local int *of, int n) { *out = at[-2]; }",
        "before",
    );
    let through = setup.kernel(
        "kernel void through(global ulong *at, global int *out) { *out = *(global int *)*at; }",
        "through",
    );
    let told = setup.kernel(
        "kernel void told(global int *of, global ulong *at) { *at = (ulong)of; of[0] += 1; }",
        "told",
    );
    for flags in [
        CL_MEM_READ_WRITE,
        CL_MEM_READ_WRITE | CL_MEM_COPY_HOST_PTR,
        CL_MEM_READ_WRITE | CL_MEM_USE_HOST_PTR,
    ] {
        let mut values = vec![40_i32; 64];
        let buffer = made(|code| create(&setup, &WITH_ADDRESS, flags, &mut values, code));
        let at = address(buffer);
        assert_eq!(
            at == values.as_ptr().addr(),
            flags & CL_MEM_USE_HOST_PTR != 0
        );
        let start = setup.read::<i32>(buffer, 1)[0];
        assert_eq!(start, if flags == CL_MEM_READ_WRITE { 0 } else { 40 });

        let said = setup.buffer(&[0_u64]);
        assert_eq!(
            (set(told, 0, &buffer), set(told, 1, &said)),
            (CL_SUCCESS, CL_SUCCESS)
        );
        run(&setup, told);
        // What follows in the queue sees what the kernel wrote.
        let out = setup.buffer(&[0_i32]);
        // SAFETY: an address of a buffer.
        ok(unsafe { set_address(before, 0, at as u64 + 8) });
        ok(set(before, 1, &out));
        // SAFETY: memory of work-groups is asked for by its size.
        ok(unsafe { clSetKernelArg()(before, 2, 4, null()) });
        ok(set(before, 3, &1_i32));
        run(&setup, before);
        assert_eq!(setup.read::<u64>(said, 1), [at as u64]);
        assert_eq!(setup.read::<i32>(out, 1), [start + 1]);

        let list = [at as u64];
        // SAFETY: a list of one address.
        ok(unsafe {
            clSetKernelExecInfo()(
                through,
                CL_KERNEL_EXEC_INFO_DEVICE_PTRS_EXT,
                size_of_val(&list),
                list.as_ptr().cast(),
            )
        });
        run(&setup, told);
        assert_eq!(
            (set(through, 0, &said), set(through, 1, &out)),
            (CL_SUCCESS, CL_SUCCESS)
        );
        run(&setup, through);
        assert_eq!(setup.read::<i32>(out, 1), [start + 2]);

        let region = cl_buffer_region {
            origin: 128,
            size: 128,
        };
        // SAFETY: a region, as the type says.
        let part = made(|code| unsafe {
            clCreateSubBuffer()(
                buffer,
                0,
                CL_BUFFER_CREATE_TYPE_REGION,
                (&raw const region).cast(),
                code,
            )
        });
        assert_eq!(address(part), at + 128);
        for object in [part, buffer] {
            // SAFETY: an object.
            ok(unsafe { clReleaseMemObject()(object) });
        }
    }
    // SAFETY: as above; what is refused is not used.
    unsafe {
        ok(set_address(before, 0, 0));
        for index in [2, 3, 4] {
            assert_eq!(
                set_address(before, index, 0),
                CL_INVALID_ARG_INDEX,
                "{index}"
            );
        }
        assert_eq!(set_address(null_mut(), 0, 0), CL_INVALID_KERNEL);
    }
}

#[test]
fn what_is_wrong_with_a_property_of_a_buffer_has_its_code() {
    let setup = Setup::with(0);
    let [on, off] = [1, 0].map(|value| [CL_MEM_DEVICE_PRIVATE_ADDRESS_EXT, value, 0]);
    let mut values = [0; 4];
    for bad in [
        &[CL_MEM_DEVICE_PRIVATE_ADDRESS_EXT, 2, 0][..],
        &[7, 1, 0],
        &[
            CL_MEM_DEVICE_PRIVATE_ADDRESS_EXT,
            1,
            CL_MEM_DEVICE_PRIVATE_ADDRESS_EXT,
            1,
            0,
        ],
    ] {
        let code = refused(|code| create(&setup, bad, CL_MEM_READ_WRITE, &mut values, code));
        assert_eq!(code, CL_INVALID_PROPERTY, "{bad:x?}");
    }
    let with = made(|code| create(&setup, &on, CL_MEM_READ_WRITE, &mut values, code));
    let without = made(|code| create(&setup, &off, CL_MEM_READ_WRITE, &mut values, code));
    assert_eq!(try_address(with).0, CL_SUCCESS);
    assert_eq!(try_address(without).0, CL_INVALID_OPERATION);
    assert_eq!(try_address(setup.buffer(&[1])).0, CL_INVALID_OPERATION);
}

#[test]
fn a_content_size_is_eight_bytes_of_another_buffer_of_the_context() {
    let set: SetContentSize = extension("clSetContentSizeBufferPoCL");
    // SAFETY: handles are looked at.
    let set = |buffer, size| unsafe { set(buffer, size) };
    let (setup, elsewhere) = (Setup::with(0), Setup::with(0));
    let buffer = setup.buffer(&[1_u8; 100]);
    let size = setup.buffer(&[50_u64]);
    assert_eq!(set(buffer, size), CL_SUCCESS);
    assert_eq!(set(null_mut(), size), CL_INVALID_MEM_OBJECT);
    assert_eq!(set(buffer, setup.context), CL_INVALID_MEM_OBJECT);
    assert_eq!(set(buffer, setup.buffer(&[1_u32])), CL_INVALID_VALUE);
    assert_eq!(set(buffer, buffer), CL_INVALID_VALUE);
    assert_eq!(set(buffer, elsewhere.buffer(&[50_u64])), CL_INVALID_CONTEXT);
    assert_eq!(setup.read::<u8>(buffer, 100), [1; 100]);
}

#[test]
fn a_copy_ends_with_the_content_of_its_source() {
    let set: SetContentSize = extension("clSetContentSizeBufferPoCL");
    let setup = Setup::with(0);
    let from = setup.buffer(&[1_u8; 1024]);
    let size = setup.buffer(&[228_u64]);
    // SAFETY: handles of buffers.
    ok(unsafe { set(from, size) });
    let part = {
        let region = cl_buffer_region {
            origin: 128,
            size: 896,
        };
        // SAFETY: a part of the buffer that begins where sub-buffers may.
        made(|code| unsafe {
            clCreateSubBuffer()(
                from,
                CL_MEM_READ_WRITE,
                CL_BUFFER_CREATE_TYPE_REGION,
                (&raw const region).cast(),
                code,
            )
        })
    };
    for (source, first, length, copied) in [
        (from, 300, 100, 0),
        (from, 200, 100, 28),
        (from, 0, 1024, 228),
        (from, 0, 64, 64),
        (part, 72, 100, 28),
    ] {
        let to = setup.buffer(&[2_u8; 1024]);
        // SAFETY: as many bytes are there; no events.
        ok(unsafe {
            clEnqueueCopyBuffer()(
                setup.queue,
                source,
                to,
                first,
                first,
                length,
                0,
                null(),
                null_mut(),
            )
        });
        let mut expected = [2_u8; 1024];
        expected[first..][..copied].fill(1);
        assert_eq!(setup.read::<u8>(to, 1024), expected, "{first} {length}");
    }
}
