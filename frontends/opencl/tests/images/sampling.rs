//! Samplers: addressing and filtering, against a model of the formulas in the standard.

use super::{Random, built, format, image, kernel_of, launch};
use crate::support::*;
use opencl_sys::*;

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
    // Multiples of a power of two, so that no rounding chooses another texel; not on a texel's
    // edge.
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
