//! Refusals: images, regions and samplers that are not valid, each with the standard's error.

use super::{desc, format, try_image};
use crate::support::*;
use opencl_sys::*;
use std::ptr::{null, null_mut};

#[test]
fn what_is_no_image_is_refused() {
    let setup = Setup::new();
    let rgba = format(CL_RGBA, CL_UNORM_INT8);
    let plain = desc(CL_MEM_OBJECT_IMAGE2D, [4, 4, 1]);
    let mut bytes = vec![0_u8; 4096];
    let at = bytes.as_mut_ptr();
    let code = |flags, format, desc: &cl_image_desc, pointer| {
        let (image, code) = try_image(&setup, flags, format, desc, pointer);
        assert_eq!(image.is_null(), code != CL_SUCCESS);
        code
    };
    let none = null_mut();
    assert_eq!(code(0, rgba, &plain, none), CL_SUCCESS);
    assert_eq!(
        code(CL_MEM_READ_ONLY | CL_MEM_WRITE_ONLY, rgba, &plain, none),
        CL_INVALID_VALUE
    );
    assert_eq!(
        code(0, format(1, 1), &plain, none),
        CL_INVALID_IMAGE_FORMAT_DESCRIPTOR
    );
    assert_eq!(
        code(0, format(CL_RGB, CL_FLOAT), &plain, none),
        CL_INVALID_IMAGE_FORMAT_DESCRIPTOR
    );
    assert_eq!(
        code(0, format(CL_RGBx, CL_UNORM_SHORT_565), &plain, none),
        CL_IMAGE_FORMAT_NOT_SUPPORTED
    );
    assert_eq!(code(0, rgba, &plain, at), CL_INVALID_HOST_PTR);
    assert_eq!(
        code(CL_MEM_USE_HOST_PTR, rgba, &plain, none),
        CL_INVALID_HOST_PTR
    );
    for (wrong, wanted) in [
        (
            cl_image_desc {
                image_type: 0,
                ..plain
            },
            CL_INVALID_IMAGE_DESCRIPTOR,
        ),
        (
            cl_image_desc {
                image_width: 0,
                ..plain
            },
            CL_INVALID_IMAGE_SIZE,
        ),
        (
            cl_image_desc {
                image_height: usize::MAX,
                ..plain
            },
            CL_INVALID_IMAGE_SIZE,
        ),
        (
            cl_image_desc {
                image_row_pitch: 16,
                ..plain
            },
            CL_INVALID_IMAGE_DESCRIPTOR,
        ),
        (
            cl_image_desc {
                num_samples: 1,
                ..plain
            },
            CL_INVALID_IMAGE_DESCRIPTOR,
        ),
        (
            cl_image_desc {
                buffer: at.cast(),
                ..plain
            },
            CL_INVALID_IMAGE_DESCRIPTOR,
        ),
    ] {
        assert_eq!(code(0, rgba, &wrong, none), wanted, "{wrong:?}");
    }
    let copy = CL_MEM_COPY_HOST_PTR;
    for pitch in [1, 15, 17, usize::MAX - 3] {
        let wrong = cl_image_desc {
            image_row_pitch: pitch,
            ..plain
        };
        assert_eq!(
            code(copy, rgba, &wrong, at),
            CL_INVALID_IMAGE_DESCRIPTOR,
            "{pitch}"
        );
    }
    let (image, _) = try_image(&setup, 0, rgba, &plain, none);
    let buffer = setup.buffer(&bytes);
    // An image over a buffer has no more texels than that.
    let over = cl_image_desc {
        image_width: 1024,
        image_height: 1,
        buffer,
        ..plain
    };
    assert_eq!(code(0, rgba, &over, none), CL_SUCCESS);
    let over = cl_image_desc {
        image_width: 1025,
        ..over
    };
    assert_eq!(code(0, rgba, &over, none), CL_INVALID_IMAGE_DESCRIPTOR);
    let over = cl_image_desc {
        image_type: CL_MEM_OBJECT_IMAGE1D_BUFFER,
        ..over
    };
    assert_eq!(code(0, rgba, &over, none), CL_INVALID_IMAGE_SIZE);
    // Commands: of the right kind of memory, and within it.
    // SAFETY: three numbers each; room for what is read.
    unsafe {
        let read = |memory, origin: [usize; 3], region: [usize; 3], row, slice| {
            let mut to = [0_u8; 4096];
            clEnqueueReadImage()(
                setup.queue,
                memory,
                CL_TRUE,
                origin.as_ptr(),
                region.as_ptr(),
                row,
                slice,
                to.as_mut_ptr().cast(),
                0,
                null(),
                null_mut(),
            )
        };
        assert_eq!(read(buffer, [0; 3], [1; 3], 0, 0), CL_INVALID_MEM_OBJECT);
        assert_eq!(read(image, [0; 3], [4, 4, 1], 0, 0), CL_SUCCESS);
        for (origin, region, row, slice) in [
            ([0, 0, 0], [5, 4, 1], 0, 0),
            ([1, 0, 0], [4, 4, 1], 0, 0),
            ([0, 0, 0], [4, 4, 2], 0, 0),
            ([0, 0, 1], [4, 4, 1], 0, 0),
            ([0, 0, 0], [4, 0, 1], 0, 0),
            ([usize::MAX, 0, 0], [4, 4, 1], 0, 0),
            ([0, 0, 0], [4, 4, 1], 15, 0),
            ([0, 0, 0], [4, 4, 1], 0, 64),
        ] {
            assert_eq!(
                read(image, origin, region, row, slice),
                CL_INVALID_VALUE,
                "{origin:?} {region:?} {row} {slice}"
            );
        }
        let mut to = 0_u32;
        let read_buffer = clEnqueueReadBuffer()(
            setup.queue,
            image,
            CL_TRUE,
            0,
            4,
            (&raw mut to).cast(),
            0,
            null(),
            null_mut(),
        );
        assert_eq!(read_buffer, CL_INVALID_MEM_OBJECT);
        for (normalised, addressing, filter) in [
            (2, CL_ADDRESS_CLAMP, CL_FILTER_LINEAR),
            (CL_TRUE, 1, CL_FILTER_LINEAR),
            (CL_TRUE, CL_ADDRESS_CLAMP, 1),
            (CL_FALSE, CL_ADDRESS_REPEAT, CL_FILTER_NEAREST),
        ] {
            let sampler =
                |code| clCreateSampler()(setup.context, normalised, addressing, filter, code);
            assert_eq!(refused(sampler), CL_INVALID_VALUE);
        }
    }
}
