//! Images and samplers as arguments of kernels: checked as they are set, and described.

use super::{built, desc, format, image, kernel_of, launch, read, try_image};
use crate::support::*;
use opencl_sys::*;
use std::ptr::{null, null_mut};

const ACCESS: &str = "
kernel void all(read_only image3d_t a, write_only image2d_array_t b, read_write image1d_buffer_t c, sampler_t s, global int *to) {
    if (get_global_id(0) == 0) {
        to[0] = get_image_width(a); to[1] = get_image_height(a); to[2] = get_image_depth(a);
        to[3] = get_image_array_size(b); to[4] = get_image_width(c); to[5] = get_image_dim(b).y;
        to[6] = get_image_channel_order(a) == CLK_RGBA; to[7] = get_image_channel_data_type(a) == CLK_FLOAT;
    }
    int x = get_global_id(0);
    write_imagei(c, x, read_imagei(c, x) + 1);
    write_imagef(b, (int4)(x, 0, 1, 0), read_imagef(a, s, (int4)(x, 0, 0, 0)));
}
";

#[test]
fn arguments_are_checked_and_described() {
    if !compiles() {
        return;
    }
    let setup = Setup::new();
    let program = built(&setup, ACCESS);
    let kernel = kernel_of(program, "all");
    let numbers: Vec<u8> = (0..60_u32).flat_map(|n| (n as f32).to_ne_bytes()).collect();
    let a = image(
        &setup,
        format(CL_RGBA, CL_FLOAT),
        CL_MEM_OBJECT_IMAGE3D,
        [3, 5, 1],
        &numbers,
    );
    let b = image(
        &setup,
        format(CL_RGBA, CL_FLOAT),
        CL_MEM_OBJECT_IMAGE2D_ARRAY,
        [3, 1, 2],
        &numbers,
    );
    let buffer = setup.buffer(&[10_i32, 20, 30]);
    let over = cl_image_desc {
        buffer,
        ..desc(CL_MEM_OBJECT_IMAGE1D_BUFFER, [3, 1, 1])
    };
    let (c, code) = try_image(&setup, 0, format(CL_R, CL_SIGNED_INT32), &over, null_mut());
    ok(code);
    // SAFETY: where the code goes.
    let sampler = made(|code| unsafe {
        clCreateSampler()(
            setup.context,
            CL_FALSE,
            CL_ADDRESS_CLAMP,
            CL_FILTER_NEAREST,
            code,
        )
    });
    let to = setup.buffer(&[0_i32; 8]);
    assert_eq!(set(kernel, 0, &buffer), CL_INVALID_MEM_OBJECT);
    assert_eq!(set(kernel, 0, &b), CL_INVALID_ARG_VALUE);
    assert_eq!(set(kernel, 0, &sampler), CL_INVALID_MEM_OBJECT);
    assert_eq!(set(kernel, 0, &0_u32), CL_INVALID_ARG_SIZE);
    assert_eq!(set(kernel, 3, &a), CL_INVALID_SAMPLER);
    assert_eq!(set(kernel, 4, &a), CL_INVALID_MEM_OBJECT);
    ok(set(kernel, 0, &a));
    ok(set(kernel, 1, &b));
    ok(set(kernel, 2, &c));
    ok(set(kernel, 3, &sampler));
    ok(set(kernel, 4, &to));
    launch(&setup, kernel, [3, 1, 1]);
    launch(&setup, kernel, [3, 1, 1]);
    assert_eq!(setup.read::<i32>(to, 8), [3, 5, 1, 2, 3, 1, 1, 1]);
    // What is written through the image is written to the buffer.
    assert_eq!(setup.read::<i32>(buffer, 3), [12, 22, 32]);
    let mut layer = vec![0; 48];
    read(&setup, b, [0, 0, 1], [3, 1, 1], &mut layer);
    assert_eq!(layer, numbers[..48]);
    for (index, qualifier) in [
        CL_KERNEL_ARG_ACCESS_READ_ONLY,
        CL_KERNEL_ARG_ACCESS_WRITE_ONLY,
        CL_KERNEL_ARG_ACCESS_READ_WRITE,
        CL_KERNEL_ARG_ACCESS_NONE,
        CL_KERNEL_ARG_ACCESS_NONE,
    ]
    .into_iter()
    .enumerate()
    {
        let mut answer: cl_kernel_arg_access_qualifier = 0;
        // SAFETY: room for the answer.
        ok(unsafe {
            clGetKernelArgInfo()(
                kernel,
                index as u32,
                CL_KERNEL_ARG_ACCESS_QUALIFIER,
                4,
                (&raw mut answer).cast(),
                null_mut(),
            )
        });
        assert_eq!(answer, qualifier, "{index}");
    }
    // An object that has the handle of one that was released is not taken for it.
    // SAFETY: handles.
    ok(unsafe { clReleaseMemObject()(a) });
    let again = setup.buffer(&[0_u8; 4]);
    let size = [3_usize];
    // SAFETY: one number.
    let code = unsafe {
        clEnqueueNDRangeKernel()(
            setup.queue,
            kernel,
            1,
            null(),
            size.as_ptr(),
            null(),
            0,
            null(),
            null_mut(),
        )
    };
    assert_eq!(code, CL_INVALID_KERNEL_ARGS);
    // SAFETY: a handle.
    ok(unsafe { clReleaseMemObject()(again) });
}
