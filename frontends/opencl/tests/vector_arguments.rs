//! Vectors as arguments that are passed by value.
#![allow(clippy::unwrap_used, reason = "a promise that is not kept panics")]

mod support;

use opencl_sys::*;
use std::fmt::Write as _;
use std::ptr::{null, null_mut};
use support::*;

/// The scalars of OpenCL C, with their bytes.
const SCALARS: [(&str, usize); 11] = [
    ("char", 1),
    ("uchar", 1),
    ("short", 2),
    ("ushort", 2),
    ("half", 2),
    ("int", 4),
    ("uint", 4),
    ("float", 4),
    ("long", 8),
    ("ulong", 8),
    ("double", 8),
];

const LANES: [usize; 5] = [2, 3, 4, 8, 16];

/// Bytes of a vector: one of three takes as much room as one of four.
fn room(bytes: usize, lanes: usize) -> usize {
    bytes * lanes.next_power_of_two()
}

/// Bytes that are all different, and that are a number of each type.
fn sample(count: usize, seed: usize) -> Vec<u8> {
    (0..count)
        .map(|at| (seed + at * 7 + 1) as u8 & 0x3f)
        .collect()
}

fn set_bytes(kernel: cl_kernel, index: u32, bytes: &[u8]) -> cl_int {
    // SAFETY: as many bytes as the slice has.
    unsafe { clSetKernelArg()(kernel, index, bytes.len(), bytes.as_ptr().cast()) }
}

/// Runs a kernel on so many work-items, in work-groups of four.
fn launch(setup: &Setup, kernel: cl_kernel, global: usize) {
    let local = 4_usize;
    // SAFETY: one dimension.
    ok(unsafe {
        clEnqueueNDRangeKernel()(
            setup.queue,
            kernel,
            1,
            null(),
            &raw const global,
            &raw const local,
            0,
            null(),
            null_mut(),
        )
    });
}

/// The scalars that this device has.
fn scalars(setup: &Setup) -> Vec<(&'static str, usize)> {
    let mut text = vec![0_u8; 1 << 14];
    // SAFETY: room for the answer.
    ok(unsafe {
        clGetDeviceInfo()(
            setup.device,
            CL_DEVICE_EXTENSIONS,
            text.len(),
            text.as_mut_ptr().cast(),
            null_mut(),
        )
    });
    let text = String::from_utf8_lossy(&text).into_owned();
    let has = |name: &&(&str, usize)| name.0 != "half" || text.contains("cl_khr_fp16");
    SCALARS.iter().filter(has).copied().collect()
}

#[test]
fn vectors_of_every_type_and_size_are_arguments() {
    if !compiles() {
        return;
    }
    let setup = Setup::new();
    let scalars = scalars(&setup);
    let mut text = String::from("#pragma OPENCL EXTENSION cl_khr_fp16 : enable\n");
    for (scalar, _) in &scalars {
        for lanes in LANES {
            // Four work-items write the first vector twice, the second one, and the numbers around.
            let _ = writeln!(
                text,
                "kernel void {scalar}_{lanes}(uchar before, {scalar}{lanes} v, uchar between, {scalar}{lanes} w,
                    ushort behind, global {scalar} *out) {{
                    uint i = get_global_id(0);
                    if (i % 4 == 0) {{
                        vstore{lanes}(v, i / 4, out);
                    }} else if (i % 4 == 1) {{
                        {scalar} numbers[{lanes}];
                        vstore{lanes}(w, 0, numbers);
                        for (int k = 0; k < {lanes}; k++) out[{lanes} * 2 + k] = numbers[k];
                    }} else if (i == 2) {{
                        out[{lanes} * 3] = before; out[{lanes} * 3 + 1] = between;
                    }} else if (i == 3) {{
                        out[{lanes} * 4] = behind;
                    }}
                }}"
            );
        }
    }
    let (program, code, log) = setup.try_build(&text, "");
    assert_eq!(code, CL_SUCCESS, "{log}");
    for (scalar, bytes) in &scalars {
        for lanes in LANES {
            let name = format!("{scalar}_{lanes}");
            let c_name = std::ffi::CString::new(name.clone()).unwrap();
            // SAFETY: a text that ends with a zero.
            let kernel = made(|code| unsafe { clCreateKernel()(program, c_name.as_ptr(), code) });
            let size = room(*bytes, lanes);
            let (v, w) = (sample(size, 3), sample(size, 11));
            let out = setup.buffer(&vec![0xff_u8; bytes * lanes * 5]);
            ok(set(kernel, 0, &5_u8));
            ok(set(kernel, 2, &9_u8));
            ok(set(kernel, 4, &77_u16));
            ok(set(kernel, 5, &out));
            for wrong in [bytes * lanes - 1, size / 2, size + bytes, 2 * size] {
                let code = set_bytes(kernel, 1, &vec![0; wrong]);
                assert_eq!(code, CL_INVALID_ARG_SIZE, "{name}: {wrong}");
            }
            let whole = bytes * lanes;
            // A vector of three has room for four, and may be passed without the gap.
            for (first, second) in [(&v[..], &w[..]), (&w[..whole], &v[..whole])] {
                ok(set_bytes(kernel, 1, first));
                ok(set_bytes(kernel, 3, second));
                launch(&setup, kernel, 8);
                let read = setup.read::<u8>(out, bytes * lanes * 5);
                assert_eq!(read[..whole], first[..whole], "{name}");
                assert_eq!(read[whole..2 * whole], first[..whole], "{name}");
                assert_eq!(read[2 * whole..3 * whole], second[..whole], "{name}");
            }
            // SAFETY: handles of this test.
            unsafe {
                ok(clReleaseMemObject()(out));
                ok(clReleaseKernel()(kernel));
            }
        }
    }
}

#[test]
fn vectors_within_structures_are_arguments() {
    if !compiles() {
        return;
    }
    let setup = Setup::new();
    let text = "typedef struct { char first; int3 v; short between; uchar3 w; } Inner;
        typedef struct { double3 x; Inner inner; float3 rows[2]; } Outer;
        kernel void k(uchar before, Outer outer, int behind, global double *out) {
            uint i = get_global_id(0);
            if (i == 0) vstore3(outer.x, 0, out);
            if (i == 1) vstore3(convert_double3(outer.inner.v), 1, out);
            if (i == 2) vstore3(convert_double3(outer.inner.w), 2, out);
            if (i == 3) vstore3(convert_double3(outer.rows[0]), 3, out);
            if (i == 4) vstore3(convert_double3(outer.rows[1]), 4, out);
            if (i == 5) {
                out[15] = outer.inner.first; out[16] = outer.inner.between;
                out[17] = before; out[18] = behind;
            }
        }";
    #[repr(C, align(16))]
    #[derive(Clone, Copy)]
    struct Inner {
        first: i8,
        v: Four<i32>,
        between: i16,
        w: Bytes,
    }
    #[repr(C, align(16))]
    #[derive(Clone, Copy)]
    struct Four<T>([T; 4]);
    #[repr(C, align(4))]
    #[derive(Clone, Copy)]
    struct Bytes([u8; 4]);
    #[repr(C, align(32))]
    #[derive(Clone, Copy)]
    struct Outer {
        x: [f64; 4],
        inner: Inner,
        rows: [Four<f32>; 2],
    }
    let outer = Outer {
        x: [1.0, 2.0, 3.0, -1.0],
        inner: Inner {
            first: 16,
            v: Four([4, 5, 6, -1]),
            between: 17,
            w: Bytes([7, 8, 9, 255]),
        },
        rows: [
            Four([10.0, 11.0, 12.0, -1.0]),
            Four([13.0, 14.0, 15.0, -1.0]),
        ],
    };
    let kernel = setup.kernel(text, "k");
    let out = setup.buffer(&[0.0_f64; 19]);
    ok(set(kernel, 0, &18_u8));
    ok(set(kernel, 1, &outer));
    ok(set(kernel, 2, &19_i32));
    ok(set(kernel, 3, &out));
    launch(&setup, kernel, 8);
    let wanted: Vec<f64> = (1..20).map(f64::from).collect();
    assert_eq!(setup.read::<f64>(out, 19), wanted);
}
