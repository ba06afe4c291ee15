//! Images: commands that move them, and kernels that read and write them, against models of both.

// Helpers of tests are tests: unwrap is their assertion too. Functions have their names in C.
#![allow(
    non_upper_case_globals,
    reason = "constants of the standard are patterns"
)]
#![allow(clippy::unwrap_used, non_snake_case)]

mod arguments;
mod commands;
mod formats;
mod refusals;
mod sampling;
#[path = "../support/mod.rs"]
mod support;

use opencl_sys::*;
use std::ptr::{null, null_mut};
use support::*;

/// Numbers that look random.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    fn below(&mut self, bound: usize) -> usize {
        (self.next() >> 8) as usize % bound
    }

    fn bytes(&mut self, count: usize) -> Vec<u8> {
        (0..count).map(|_| self.next() as u8).collect()
    }
}

fn format(order: cl_channel_order, data: cl_channel_type) -> cl_image_format {
    cl_image_format {
        image_channel_order: order,
        image_channel_data_type: data,
    }
}

fn desc(kind: cl_mem_object_type, [width, height, depth]: [usize; 3]) -> cl_image_desc {
    let layers = match kind {
        CL_MEM_OBJECT_IMAGE1D_ARRAY => height,
        _ => depth,
    };
    cl_image_desc {
        image_type: kind,
        image_width: width,
        image_height: height,
        image_depth: depth,
        image_array_size: layers,
        image_row_pitch: 0,
        image_slice_pitch: 0,
        num_mip_levels: 0,
        num_samples: 0,
        buffer: null_mut(),
    }
}

/// An image; null and a code if there is none.
fn try_image(
    setup: &Setup,
    flags: cl_mem_flags,
    format: cl_image_format,
    desc: &cl_image_desc,
    pointer: *mut u8,
) -> (cl_mem, cl_int) {
    let mut code = 1;
    // SAFETY: a format, a description, and memory as they say.
    let image = unsafe {
        clCreateImage()(
            setup.context,
            flags,
            &raw const format,
            desc,
            pointer.cast(),
            &raw mut code,
        )
    };
    (image, code)
}

fn image(
    setup: &Setup,
    format: cl_image_format,
    kind: cl_mem_object_type,
    extents: [usize; 3],
    bytes: &[u8],
) -> cl_mem {
    let flags = CL_MEM_COPY_HOST_PTR
        | match format.image_channel_order {
            CL_sRGBA => CL_MEM_READ_ONLY,
            _ => CL_MEM_READ_WRITE,
        };
    let pointer = bytes.as_ptr().cast_mut();
    let (image, code) = try_image(setup, flags, format, &desc(kind, extents), pointer);
    assert_eq!(code, CL_SUCCESS, "{format:?} {kind:x} {extents:?}");
    image
}

fn read(setup: &Setup, image: cl_mem, origin: [usize; 3], region: [usize; 3], to: &mut [u8]) {
    // SAFETY: there is room for the region.
    ok(unsafe {
        clEnqueueReadImage()(
            setup.queue,
            image,
            CL_TRUE,
            origin.as_ptr(),
            region.as_ptr(),
            0,
            0,
            to.as_mut_ptr().cast(),
            0,
            null(),
            null_mut(),
        )
    });
}

fn kernel_of(program: cl_program, name: &str) -> cl_kernel {
    let name = std::ffi::CString::new(name).unwrap();
    // SAFETY: a text that ends with a zero.
    made(|code| unsafe { clCreateKernel()(program, name.as_ptr(), code) })
}

fn launch(setup: &Setup, kernel: cl_kernel, size: [usize; 3]) {
    // SAFETY: three numbers.
    ok(unsafe {
        clEnqueueNDRangeKernel()(
            setup.queue,
            kernel,
            3,
            null(),
            size.as_ptr(),
            null(),
            0,
            null(),
            null_mut(),
        )
    });
}

fn built(setup: &Setup, text: &str) -> cl_program {
    let (program, code, log) = setup.try_build(text, "-cl-std=CL3.0");
    assert_eq!(code, CL_SUCCESS, "{log}");
    program
}
