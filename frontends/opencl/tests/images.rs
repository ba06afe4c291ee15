//! Images: what commands move, and what kernels read and write, against models of both.

// Helpers of tests are tests: unwrap is their assertion too. Functions have their names in C.
#![allow(
    non_upper_case_globals,
    reason = "constants of the standard are patterns"
)]
#![allow(clippy::unwrap_used, non_snake_case)]

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

/// How kernels read a format.
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
                            // Conversions of normalised numbers may be off by one and a half units in the last place.
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
        // What was read and is written again is the same, but for numbers that have two forms and what is no number.
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

const SAMPLING: &str = "
kernel void sample(read_only image2d_t from, sampler_t by, global const float2 *at, global float4 *to) {
    size_t i = get_global_id(0);
    to[i] = read_imagef(from, by, at[i]);
}
";

/// The number of a texel, by the rule for addresses; none outside.
fn addressed(v: i64, size: i64, mode: cl_addressing_mode) -> Option<i64> {
    match mode {
        CL_ADDRESS_CLAMP => (0..size).contains(&v).then_some(v),
        CL_ADDRESS_REPEAT => Some(v.rem_euclid(size)),
        _ => Some(v.clamp(0, size - 1)),
    }
}

#[test]
fn samplers_filter_and_address_as_the_standard_says() {
    if !compiles() {
        return;
    }
    let setup = Setup::new();
    let kernel = kernel_of(built(&setup, SAMPLING), "sample");
    let (width, height) = (8_i64, 4_i64);
    let mut random = Random(7);
    let texels: Vec<f32> = (0..width * height * 4)
        .map(|_| random.below(1000) as f32)
        .collect();
    let bytes: Vec<u8> = texels
        .iter()
        .flat_map(|texel| texel.to_ne_bytes())
        .collect();
    let size = [width as usize, height as usize, 1];
    let from = image(
        &setup,
        format(CL_RGBA, CL_FLOAT),
        CL_MEM_OBJECT_IMAGE2D,
        size,
        &bytes,
    );
    // Multiples of a power of two, so that no rounding chooses another texel; not on a texel's edge.
    let at: Vec<[f32; 2]> = (0..400)
        .map(|_| [0, 0].map(|_: i32| (random.below(1000) as f32 - 500.0) / 128.0 + 1.0 / 1024.0))
        .collect();
    let modes = [
        CL_ADDRESS_CLAMP,
        CL_ADDRESS_CLAMP_TO_EDGE,
        CL_ADDRESS_REPEAT,
        CL_ADDRESS_MIRRORED_REPEAT,
    ];
    for mode in modes {
        for normalised in [CL_TRUE, CL_FALSE] {
            if normalised == CL_FALSE && mode >= CL_ADDRESS_REPEAT {
                continue;
            }
            for filter in [CL_FILTER_NEAREST, CL_FILTER_LINEAR] {
                // SAFETY: where the code goes.
                let sampler = made(|code| unsafe {
                    clCreateSampler()(setup.context, normalised, mode, filter, code)
                });
                let places = setup.buffer(&at);
                let to = setup.buffer(&vec![0_f32; at.len() * 4]);
                ok(set(kernel, 0, &from));
                ok(set(kernel, 1, &sampler));
                ok(set(kernel, 2, &places));
                ok(set(kernel, 3, &to));
                launch(&setup, kernel, [at.len(), 1, 1]);
                let read: Vec<f32> = setup.read(to, at.len() * 4);
                for (place, got) in at.iter().zip(read.chunks(4)) {
                    let scaled = |v: f32, size: i64| {
                        let v = f64::from(v);
                        match mode {
                            _ if normalised == CL_FALSE => v,
                            CL_ADDRESS_MIRRORED_REPEAT => {
                                (v - 2.0 * (0.5 * v).round_ties_even()).abs() * size as f64
                            }
                            CL_ADDRESS_REPEAT => (v - v.floor()) * size as f64,
                            _ => v * size as f64,
                        }
                    };
                    let u = [scaled(place[0], width), scaled(place[1], height)];
                    let texel = |x: i64, y: i64, channel: usize| {
                        let (x, y) = (addressed(x, width, mode), addressed(y, height, mode));
                        match (x, y) {
                            (Some(x), Some(y)) => {
                                f64::from(texels[(y * width + x) as usize * 4 + channel])
                            }
                            _ => 0.0,
                        }
                    };
                    for (channel, got) in got.iter().enumerate() {
                        let wanted = if filter == CL_FILTER_NEAREST {
                            texel(u[0].floor() as i64, u[1].floor() as i64, channel)
                        } else {
                            let v = u.map(|u| u - 0.5);
                            let [x, y] = v.map(|v| v.floor() as i64);
                            let [a, b] = v.map(|v| v - v.floor());
                            (1.0 - a) * (1.0 - b) * texel(x, y, channel)
                                + a * (1.0 - b) * texel(x + 1, y, channel)
                                + (1.0 - a) * b * texel(x, y + 1, channel)
                                + a * b * texel(x + 1, y + 1, channel)
                        };
                        assert!(
                            (wanted - f64::from(*got)).abs() <= 0.01,
                            "mode {mode:x}, filter {filter:x}, normalised {normalised}, {place:?}: {got} is not {wanted}"
                        );
                    }
                }
                // SAFETY: a handle.
                ok(unsafe { clReleaseSampler()(sampler) });
            }
        }
    }
}

const KINDS: [(cl_mem_object_type, [usize; 3]); 5] = [
    (CL_MEM_OBJECT_IMAGE1D, [17, 1, 1]),
    (CL_MEM_OBJECT_IMAGE1D_ARRAY, [9, 6, 1]),
    (CL_MEM_OBJECT_IMAGE2D, [9, 7, 1]),
    (CL_MEM_OBJECT_IMAGE2D_ARRAY, [5, 4, 3]),
    (CL_MEM_OBJECT_IMAGE3D, [5, 4, 3]),
];

/// The places of a region in an image without gaps, in order.
fn places(extents: [usize; 3], origin: [usize; 3], region: [usize; 3]) -> Vec<usize> {
    let mut all = Vec::new();
    for z in origin[2]..origin[2] + region[2] {
        for y in origin[1]..origin[1] + region[1] {
            for x in origin[0]..origin[0] + region[0] {
                all.push((z * extents[1] + y) * extents[0] + x);
            }
        }
    }
    all
}

#[test]
fn commands_move_what_a_model_moves() {
    let setup = Setup::new();
    let mut random = Random(0x1234_5678_9abc_def1);
    let of = format(CL_RGBA, CL_UNSIGNED_INT8);
    for (kind, extents) in KINDS {
        let count: usize = extents.iter().product();
        let bytes = random.bytes(count * 4);
        let texels = |bytes: &[u8]| -> Vec<[u8; 4]> {
            bytes
                .chunks(4)
                .map(|texel| texel.try_into().unwrap())
                .collect()
        };
        let handles = [0, 1].map(|_| image(&setup, of, kind, extents, &bytes));
        let buffer = setup.buffer(&bytes);
        let mut models = [texels(&bytes), texels(&bytes)];
        let mut buffered = texels(&bytes);
        for step in 0..300 {
            let origin = extents.map(|extent| random.below(extent));
            let mut region = [0; 3];
            for axis in 0..3 {
                region[axis] = 1 + random.below(extents[axis] - origin[axis]);
            }
            let area = places(extents, origin, region);
            let which = random.below(2);
            let (handle, queue) = (handles[which], setup.queue);
            let new = random.bytes(area.len() * 4);
            let offset = random.below(count - area.len() + 1);
            // SAFETY: three numbers each, and as many bytes as the region has.
            unsafe {
                match step % 7 {
                    0 => {
                        ok(clEnqueueWriteImage()(
                            queue,
                            handle,
                            CL_TRUE,
                            origin.as_ptr(),
                            region.as_ptr(),
                            0,
                            0,
                            new.as_ptr().cast(),
                            0,
                            null(),
                            null_mut(),
                        ));
                        for (place, texel) in area.iter().zip(texels(&new)) {
                            models[which][*place] = texel;
                        }
                    }
                    1 => {
                        let colour = [0, 0, 0, 0].map(|_: i32| random.below(256) as u32);
                        ok(clEnqueueFillImage()(
                            queue,
                            handle,
                            colour.as_ptr().cast(),
                            origin.as_ptr(),
                            region.as_ptr(),
                            0,
                            null(),
                            null_mut(),
                        ));
                        for place in &area {
                            models[which][*place] = colour.map(|channel| channel as u8);
                        }
                    }
                    2 => {
                        let to: [usize; 3] = std::array::from_fn(|axis| {
                            random.below(extents[axis] - region[axis] + 1)
                        });
                        ok(clEnqueueCopyImage()(
                            queue,
                            handle,
                            handles[1 - which],
                            origin.as_ptr(),
                            to.as_ptr(),
                            region.as_ptr(),
                            0,
                            null(),
                            null_mut(),
                        ));
                        for (from, to) in area.iter().zip(places(extents, to, region)) {
                            models[1 - which][to] = models[which][*from];
                        }
                    }
                    3 => {
                        ok(clEnqueueCopyImageToBuffer()(
                            queue,
                            handle,
                            buffer,
                            origin.as_ptr(),
                            region.as_ptr(),
                            offset * 4,
                            0,
                            null(),
                            null_mut(),
                        ));
                        for (at, place) in area.iter().enumerate() {
                            buffered[offset + at] = models[which][*place];
                        }
                    }
                    4 => {
                        ok(clEnqueueCopyBufferToImage()(
                            queue,
                            buffer,
                            handle,
                            offset * 4,
                            origin.as_ptr(),
                            region.as_ptr(),
                            0,
                            null(),
                            null_mut(),
                        ));
                        for (at, place) in area.iter().enumerate() {
                            models[which][*place] = buffered[offset + at];
                        }
                    }
                    5 => {
                        let (mut row, mut slice) = (0, 0);
                        let first = made(|code| {
                            clEnqueueMapImage()(
                                queue,
                                handle,
                                CL_TRUE,
                                CL_MAP_READ | CL_MAP_WRITE,
                                origin.as_ptr(),
                                region.as_ptr(),
                                &raw mut row,
                                &raw mut slice,
                                0,
                                null(),
                                null_mut(),
                                code,
                            )
                        });
                        // Layers of an array of one dimension are slices.
                        let rows = if kind == CL_MEM_OBJECT_IMAGE1D_ARRAY {
                            slice
                        } else {
                            row
                        };
                        let mut news = texels(&new).into_iter();
                        let mut areas = area.iter();
                        for z in 0..region[2] {
                            for y in 0..region[1] {
                                for x in 0..region[0] {
                                    let at = first
                                        .cast::<u8>()
                                        .add(z * slice + y * rows + x * 4)
                                        .cast::<[u8; 4]>();
                                    let place = areas.next().unwrap();
                                    assert_eq!(at.read(), models[which][*place]);
                                    let texel = news.next().unwrap();
                                    at.write(texel);
                                    models[which][*place] = texel;
                                }
                            }
                        }
                        ok(clEnqueueUnmapMemObject()(
                            queue,
                            handle,
                            first,
                            0,
                            null(),
                            null_mut(),
                        ));
                    }
                    _ => {
                        let mut got = vec![0; area.len() * 4];
                        read(&setup, handle, origin, region, &mut got);
                        let wanted: Vec<_> =
                            area.iter().map(|place| models[which][*place]).collect();
                        assert_eq!(texels(&got), wanted, "kind {kind:x}, step {step}");
                    }
                }
            }
        }
        for (handle, model) in handles.iter().zip(&models) {
            let mut got = vec![0; count * 4];
            read(&setup, *handle, [0; 3], extents, &mut got);
            assert_eq!(&texels(&got), model, "kind {kind:x}");
        }
        assert_eq!(
            texels(&setup.read::<u8>(buffer, count * 4)),
            buffered,
            "kind {kind:x}"
        );
    }
}

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
