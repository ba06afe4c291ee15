//! Formats: kernels read and write texels of each, as a model decodes them.

use super::{Random, built, format, image, kernel_of, launch, read};
use crate::support::*;
use opencl_sys::*;

fn formats(setup: &Setup, flags: cl_mem_flags, kind: cl_mem_object_type) -> Vec<cl_image_format> {
    let mut count = 0;
    let mut all = vec![format(0, 0); 256];
    // SAFETY: room for so many.
    ok(unsafe {
        clGetSupportedImageFormats()(
            setup.context,
            flags,
            kind,
            256,
            all.as_mut_ptr(),
            &raw mut count,
        )
    });
    all.truncate(count as usize);
    all
}

/// Channels of a texel in memory, and bytes of a texel.
fn layout(of: cl_image_format) -> (usize, usize) {
    let channels = match of.image_channel_order {
        CL_RG => 2,
        CL_RGB => 3,
        CL_RGBA | CL_BGRA | CL_ARGB | CL_ABGR | CL_sRGBA => 4,
        _ => 1,
    };
    let each = match of.image_channel_data_type {
        CL_UNORM_SHORT_565 | CL_UNORM_SHORT_555 => return (3, 2),
        CL_UNORM_INT_101010 => return (3, 4),
        CL_UNORM_INT8 | CL_SNORM_INT8 | CL_SIGNED_INT8 | CL_UNSIGNED_INT8 => 1,
        CL_UNORM_INT16 | CL_SNORM_INT16 | CL_SIGNED_INT16 | CL_UNSIGNED_INT16 | CL_HALF_FLOAT => 2,
        _ => 4,
    };
    (channels, channels * each)
}

fn half(bits: u16) -> f64 {
    let sign = if bits & 0x8000 == 0 { 1.0 } else { -1.0 };
    let rest = f64::from(bits & 0x3ff);
    sign * match i32::from(bits >> 10 & 31) {
        0 => rest * 2_f64.powi(-24),
        31 if rest == 0.0 => f64::INFINITY,
        31 => f64::NAN,
        exponent => (1.0 + rest / 1024.0) * 2_f64.powi(exponent - 15),
    }
}

/// A texel as a kernel reads it.
fn decoded(of: cl_image_format, bytes: &[u8]) -> [f64; 4] {
    let (channels, _) = layout(of);
    let two = |at: usize| u16::from_ne_bytes([bytes[at * 2], bytes[at * 2 + 1]]);
    let four = |at: usize| u32::from_ne_bytes(bytes[at * 4..at * 4 + 4].try_into().unwrap());
    let signed = |value: f64, most: f64| (value / most).max(-1.0);
    let mut m = [0.0; 4];
    for (at, value) in m.iter_mut().enumerate().take(channels) {
        let bits =
            |shift: u32, mask: u32, all: u32| f64::from(all >> shift & mask) / f64::from(mask);
        *value = match of.image_channel_data_type {
            CL_UNORM_INT8 => f64::from(bytes[at]) / 255.0,
            CL_SNORM_INT8 => signed(f64::from(bytes[at] as i8), 127.0),
            CL_SIGNED_INT8 => f64::from(bytes[at] as i8),
            CL_UNSIGNED_INT8 => f64::from(bytes[at]),
            CL_UNORM_INT16 => f64::from(two(at)) / 65535.0,
            CL_SNORM_INT16 => signed(f64::from(two(at) as i16), 32767.0),
            CL_SIGNED_INT16 => f64::from(two(at) as i16),
            CL_UNSIGNED_INT16 => f64::from(two(at)),
            CL_HALF_FLOAT => half(two(at)),
            CL_SIGNED_INT32 => f64::from(four(at) as i32),
            CL_UNSIGNED_INT32 => f64::from(four(at)),
            CL_FLOAT => f64::from(f32::from_bits(four(at))),
            CL_UNORM_SHORT_565 => match at {
                1 => bits(5, 63, two(0).into()),
                _ => bits(11 - 11 * (at as u32 / 2), 31, two(0).into()),
            },
            CL_UNORM_SHORT_555 => bits(10 - 5 * at as u32, 31, two(0).into()),
            CL_UNORM_INT_101010 => bits(20 - 10 * at as u32, 1023, four(0)),
            other => panic!("no model of type {other:x}"),
        };
    }
    let [a, b, c, d] = m;
    let linear = |x: f64| match x {
        x if x <= 0.04045 => x / 12.92,
        x => ((x + 0.055) / 1.055).powf(2.4),
    };
    match of.image_channel_order {
        CL_R | CL_DEPTH => [a, 0.0, 0.0, 1.0],
        CL_A => [0.0, 0.0, 0.0, a],
        CL_RG => [a, b, 0.0, 1.0],
        CL_RGB => [a, b, c, 1.0],
        CL_RGBA => m,
        CL_BGRA => [c, b, a, d],
        CL_ARGB => [b, c, d, a],
        CL_ABGR => [d, c, b, a],
        CL_INTENSITY => [a; 4],
        CL_LUMINANCE => [a, a, a, 1.0],
        CL_sRGBA => [linear(a), linear(b), linear(c), d],
        other => panic!("no model of order {other:x}"),
    }
}

/// The suffix of the functions by which kernels read a format.
fn suffix(of: cl_image_format) -> &'static str {
    match of.image_channel_data_type {
        CL_SIGNED_INT8 | CL_SIGNED_INT16 | CL_SIGNED_INT32 => "i",
        CL_UNSIGNED_INT8 | CL_UNSIGNED_INT16 | CL_UNSIGNED_INT32 => "ui",
        _ if of.image_channel_order == CL_DEPTH => "depth",
        _ => "f",
    }
}

const KERNELS: &str = "
constant sampler_t nearest = CLK_NORMALIZED_COORDS_FALSE | CLK_ADDRESS_CLAMP | CLK_FILTER_NEAREST;
#define FORMS(S, T) \\
kernel void read_##S(read_only image2d_t from, global T *to) { \\
    int2 p = (int2)(get_global_id(0), get_global_id(1)); \\
    to[p.y * get_global_size(0) + p.x] = read_image##S(from, nearest, p); \\
} \\
kernel void bare_##S(read_only image2d_t from, global T *to) { \\
    int2 p = (int2)(get_global_id(0), get_global_id(1)); \\
    to[p.y * get_global_size(0) + p.x] = read_image##S(from, p); \\
} \\
kernel void copy_##S(read_only image2d_t from, write_only image2d_t to) { \\
    int2 p = (int2)(get_global_id(0), get_global_id(1)); \\
    write_image##S(to, p, read_image##S(from, nearest, (float2)(p.x + 0.5f, p.y + 0.5f))); \\
}
FORMS(f, float4) FORMS(i, int4) FORMS(ui, uint4)
kernel void read_depth(read_only image2d_depth_t from, global float4 *to) {
    int2 p = (int2)(get_global_id(0), get_global_id(1));
    to[p.y * get_global_size(0) + p.x] = (float4)(read_imagef(from, nearest, p), 0, 0, 1);
}
kernel void bare_depth(read_only image2d_depth_t from, global float4 *to) {
    int2 p = (int2)(get_global_id(0), get_global_id(1));
    to[p.y * get_global_size(0) + p.x] = (float4)(read_imagef(from, p), 0, 0, 1);
}
kernel void copy_depth(read_only image2d_depth_t from, write_only image2d_depth_t to) {
    int2 p = (int2)(get_global_id(0), get_global_id(1));
    write_imagef(to, p, read_imagef(from, nearest, p));
}
";

#[test]
fn kernels_read_and_write_every_format() {
    if !compiles() {
        return;
    }
    let setup = Setup::new();
    let program = built(&setup, KERNELS);
    let mut random = Random(0x9e37_79b9_7f4a_7c15);
    let size = [7, 5, 1];
    let all = formats(&setup, CL_MEM_READ_ONLY, CL_MEM_OBJECT_IMAGE2D);
    assert!(all.len() > 40);
    for of in all {
        let (_, bytes) = layout(of);
        let data = random.bytes(35 * bytes);
        let from = image(&setup, of, CL_MEM_OBJECT_IMAGE2D, size, &data);
        for form in ["read", "bare"] {
            let kernel = kernel_of(program, &format!("{form}_{}", suffix(of)));
            let to = setup.buffer(&[0_u32; 35 * 4]);
            ok(set(kernel, 0, &from));
            ok(set(kernel, 1, &to));
            launch(&setup, kernel, size);
            let read: Vec<u32> = setup.read(to, 35 * 4);
            for (texel, got) in data.chunks(bytes).zip(read.chunks(4)) {
                for (wanted, got) in decoded(of, texel).into_iter().zip(got) {
                    let is_right = match suffix(of) {
                        "i" => wanted == f64::from(*got as i32),
                        "ui" => wanted == f64::from(*got),
                        _ => {
                            let got = f64::from(f32::from_bits(*got));
                            // Conversions of normalised numbers may be off by one and a half units
                            // in the last place.
                            wanted.is_nan() && got.is_nan()
                                || wanted == got
                                || (wanted - got).abs() <= wanted.abs() * 4e-7
                        }
                    };
                    assert!(is_right, "{of:?} {texel:?}: {got:x} is not {wanted}");
                }
            }
        }
        if of.image_channel_order == CL_sRGBA {
            continue;
        }
        // What was read and is written again is the same, but for numbers that have two forms and
        // what is no number.
        let to = image(
            &setup,
            of,
            CL_MEM_OBJECT_IMAGE2D,
            size,
            &vec![0; data.len()],
        );
        let kernel = kernel_of(program, &format!("copy_{}", suffix(of)));
        ok(set(kernel, 0, &from));
        ok(set(kernel, 1, &to));
        launch(&setup, kernel, size);
        let mut copied = vec![0; data.len()];
        read(&setup, to, [0; 3], size, &mut copied);
        for (texel, copied) in data.chunks(bytes).zip(copied.chunks(bytes)) {
            let (wanted, got) = (decoded(of, texel), decoded(of, copied));
            let is_same = |(a, b): (&f64, &f64)| a == b || a.is_nan() && b.is_nan();
            assert!(
                wanted.iter().zip(&got).all(is_same),
                "{of:?}: {texel:?} became {copied:?}"
            );
        }
    }
}
