//! NVIDIA's GPUs without NVIDIA's OpenCL, as devices of the driver `cuda`: functions, images and
//! sub-groups give what the processor gives.
//!
//! Without such a device these tests are left out, and say so; with `QUIPU_TEST_CUDA=1` they fail.
//! `QUIPU_OPENCL_DEVICES=cpu:0,cuda:0` has the platform show these two.

// Helpers of tests are tests: unwrap is their assertion too. Functions have their names in C.
#![allow(
    non_upper_case_globals,
    reason = "constants of the standard are patterns"
)]
#![allow(clippy::unwrap_used, non_snake_case)]

mod support;

use opencl_sys::*;
use std::fmt::Debug;
use std::ptr::{null, null_mut};
use support::*;

/// The processor and the GPU; none if one of them is missing.
fn both() -> Option<[Setup; 2]> {
    let cpu = Setup::of(CL_DEVICE_TYPE_CPU, CL_QUEUE_PROFILING_ENABLE);
    let gpu = Setup::of(CL_DEVICE_TYPE_GPU, CL_QUEUE_PROFILING_ENABLE);
    let both = cpu.zip(gpu).filter(|_| compiles());
    if both.is_none() {
        assert!(
            std::env::var_os("QUIPU_TEST_CUDA").is_none(),
            "QUIPU_TEST_CUDA is set, and there is no GPU, no processor or no compiler"
        );
        eprintln!("\n*** NOT TESTED: OpenCL C on NVIDIA's GPUs by PTX. There is no GPU.\n");
    }
    both.map(|(cpu, gpu)| [cpu, gpu])
}

/// Runs a kernel on buffers, with groups of 64. The first buffer is its result.
fn run<T: Copy + Default>(
    setup: &Setup,
    kernel: cl_kernel,
    memories: &[cl_mem],
    items: usize,
) -> Vec<T> {
    for (index, memory) in (0..).zip(memories) {
        ok(set(kernel, index, memory));
    }
    let local = 64;
    // SAFETY: one dimension, no events.
    ok(unsafe {
        clEnqueueNDRangeKernel()(
            setup.queue,
            kernel,
            1,
            null(),
            &raw const items,
            &raw const local,
            0,
            null(),
            null_mut(),
        )
    });
    setup.read(memories[0], items)
}

/// Numbers of all sizes, usual ones and small ones.
fn numbers() -> Vec<f64> {
    let all = (0..1_u64 << 11).map(|at| f64::from_bits(at.wrapping_mul(0x001f_fc01_2345_6789)));
    let usual = (0..1 << 12).map(|at| (f64::from(at) - 2048.0) / 100.0);
    let small = (0..1 << 11).map(|at| (f64::from(at) - 1024.0) / 1000.0);
    all.filter(|x| x.is_finite())
        .chain(usual)
        .chain(small)
        .take(1 << 12)
        .collect()
}

/// The distance of two results, in units of the last place.
fn units_off(found: f64, wanted: f64, digits: i32) -> f64 {
    if found == wanted || found.is_nan() && wanted.is_nan() {
        return 0.0;
    }
    let least = if digits == 24 {
        2_f64.powi(-126)
    } else {
        f64::MIN_POSITIVE
    };
    let exponent = wanted.abs().max(least).log2().floor();
    (found - wanted).abs() / 2_f64.powf(exponent - f64::from(digits) + 1.0)
}

/// Functions of one number, and how many units they may be off (`float`, `double`).
const FUNCTIONS: [(&str, f64, f64); 32] = [
    ("sin", 4.0, 4.0),
    ("cos", 4.0, 4.0),
    ("tan", 5.0, 5.0),
    ("sinpi", 4.0, 4.0),
    ("cospi", 4.0, 4.0),
    ("asin", 4.0, 4.0),
    ("acos", 4.0, 4.0),
    ("atan", 5.0, 5.0),
    ("asinpi", 5.0, 5.0),
    ("acospi", 5.0, 5.0),
    ("atanpi", 5.0, 5.0),
    ("sinh", 4.0, 4.0),
    ("cosh", 4.0, 4.0),
    ("tanh", 5.0, 5.0),
    ("asinh", 4.0, 4.0),
    ("acosh", 4.0, 4.0),
    ("atanh", 5.0, 5.0),
    ("exp", 3.0, 3.0),
    ("exp2", 3.0, 3.0),
    ("exp10", 3.0, 3.0),
    ("expm1", 3.0, 3.0),
    ("log", 3.0, 3.0),
    ("log2", 3.0, 3.0),
    ("log10", 3.0, 3.0),
    ("log1p", 2.0, 2.0),
    ("cbrt", 2.0, 2.0),
    ("erf", 16.0, 16.0),
    ("erfc", 16.0, 16.0),
    ("tgamma", 16.0, 16.0),
    ("sqrt", 3.0, 0.0),
    ("rsqrt", 2.0, 2.0),
    ("logb", 0.0, 0.0),
];

#[test]
fn functions_are_near_those_of_the_processor() {
    let Some(both) = both() else { return };
    let x = numbers();
    for (kind, digits) in [("float", 24), ("double", 53)] {
        let kernels: String = FUNCTIONS
            .iter()
            .map(|(name, _, _)| {
                format!(
                    "kernel void k_{name}(global double *y, global const double *x) {{
                        size_t i = get_global_id(0); y[i] = {name}(({kind})x[i]); }}\n"
                )
            })
            .collect();
        for (name, of_float, of_double) in FUNCTIONS {
            let [cpu, gpu] = both.map(|setup| -> Vec<f64> {
                let memories = [setup.buffer(&x), setup.buffer(&x)];
                let kernel = setup.kernel(&kernels, &format!("k_{name}"));
                run(&setup, kernel, &memories, x.len())
            });
            // Each of the two may be off.
            let bound = 2.0 * if digits == 24 { of_float } else { of_double };
            for ((x, cpu), gpu) in x.iter().zip(cpu).zip(gpu) {
                let off = units_off(gpu, cpu, digits);
                assert!(
                    off <= bound,
                    "{name}(({kind}){x:e}): {gpu:e}, and {cpu:e} on the processor: {off} units"
                );
            }
        }
    }
}

#[test]
fn powers_and_remainders_are_those_of_the_processor() {
    let Some(both) = both() else { return };
    let text = "kernel void f(global double *y, global const double *x) {
            size_t i = get_global_id(0), n = get_global_size(0); double a = x[i], b = x[(i * 769 + 5) % n]; int q; double whole;
            switch (i % 8) {
            case 0: y[i] = fmod(a, b); break;
            case 1: y[i] = remainder(a, b); break;
            case 2: y[i] = fdim(a, b); break;
            case 3: y[i] = nextafter(a, b); break;
            case 4: y[i] = ldexp(a, (int)i % 300 - 150); break;
            case 5: y[i] = frexp(a, &q) + q; break;
            case 6: y[i] = remquo(a, b, &q) + q; break;
            default: y[i] = modf(a, &whole) + ilogb(a);
            }
        }
        kernel void g(global double *y, global const double *x) {
            size_t i = get_global_id(0), n = get_global_size(0); double a = x[i], b = x[(i * 769 + 5) % n];
            switch (i % 4) {
            case 0: y[i] = pow(fabs(a), b); break;
            case 1: y[i] = pown(a, (int)i % 20 - 10); break;
            case 2: y[i] = hypot(a, b); break;
            default: y[i] = atan2(a, b);
            }
        }";
    let x = numbers();
    for (name, bound) in [("f", 0.0), ("g", 32.0)] {
        let [cpu, gpu] = both.map(|setup| -> Vec<f64> {
            let memories = [setup.buffer(&x), setup.buffer(&x)];
            run(&setup, setup.kernel(text, name), &memories, x.len())
        });
        for (at, (cpu, gpu)) in cpu.into_iter().zip(gpu).enumerate() {
            let off = units_off(gpu, cpu, 53);
            assert!(
                off <= bound,
                "{name}, item {at}: {gpu:e}, and {cpu:e} on the processor: {off} units"
            );
        }
    }
}

/// The results of both devices.
fn same<T: Copy + Default + PartialEq + Debug>(
    text: &str,
    name: &str,
    values: &[T],
) -> Option<Vec<T>> {
    let [cpu, gpu] = both()?.map(|setup| -> Vec<T> {
        let memories = [setup.buffer(values), setup.buffer(values)];
        let kernel = setup.kernel(
            &format!("#pragma OPENCL EXTENSION all : enable\n{text}"),
            name,
        );
        run(&setup, kernel, &memories, values.len())
    });
    for (at, (cpu, gpu)) in cpu.iter().zip(&gpu).enumerate() {
        assert_eq!(gpu, cpu, "{name}, item {at}");
    }
    Some(gpu)
}

#[test]
fn work_groups_reduce_scan_and_vote() {
    let values: Vec<i32> = (0..1024).map(|at| at * 7919 % 1009 - 500).collect();
    let text = "kernel void k(global int *y, global const int *x) {
        size_t i = get_global_id(0), l = get_local_id(0);
        y[i] = work_group_reduce_add(x[i]) + 3 * work_group_scan_inclusive_max(x[i]) + 5 * work_group_scan_exclusive_add(x[i])
            + 7 * work_group_any(x[i] > 505) + 11 * work_group_broadcast(x[i], get_group_id(0));
        int own = x[i], *p = y + i; local int shared; if (i % 3 == 1) p = &own; if (i % 3 == 2) p = &shared;
        y[i] += (to_global(p) != 0) + 2 * (to_local(p) != 0) + 4 * (to_private(p) != 0);
    }";
    // Their functions are of OpenCL C 2.0.
    with_later(text, &values);
}

/// The same on both devices, in OpenCL C 3.0 and groups of 64.
fn with_later(text: &str, values: &[i32]) {
    let Some(both) = both() else { return };
    let [cpu, gpu] = both.map(|setup| -> Vec<i32> {
        let memories = [setup.buffer(values), setup.buffer(values)];
        let (program, code, log) = setup.try_build(text, "-cl-std=CL3.0");
        assert_eq!(code, CL_SUCCESS, "{log}");
        // SAFETY: a program that is built, and a name that ends with a zero.
        let kernel = made(|code| unsafe { clCreateKernel()(program, c"k".as_ptr(), code) });
        run(&setup, kernel, &memories, values.len())
    });
    for (at, (cpu, gpu)) in cpu.iter().zip(&gpu).enumerate() {
        assert_eq!(gpu, cpu, "item {at}");
    }
}

/// A size that both devices have.
#[test]
fn sub_groups_exchange_values_in_branches_too() {
    let values: Vec<i32> = (0..1024).map(|at| at * 7919 % 1009 - 500).collect();
    with_later(
        "__attribute__((intel_reqd_sub_group_size(32))) kernel void k(global int *y, global const int *x) {
            size_t i = get_global_id(0); int a = x[i];
            int r = sub_group_reduce_add(a) + 3 * sub_group_scan_inclusive_max(a) + 5 * sub_group_any(a > 505)
                + 7 * sub_group_broadcast(a, 9) + 11 * (int)get_sub_group_local_id() + 13 * (int)get_sub_group_id()
                + 17 * (int)get_max_sub_group_size() + 19 * (int)get_num_sub_groups();
            r += sub_group_shuffle_xor(a, 5) + 3 * sub_group_shuffle_up(a, 1) + 5 * sub_group_rotate(a, 3);
            if (a & 1) {
                uint4 b = sub_group_ballot(a > 100);
                r += (int)b.x + (int)sub_group_elect() * 3 + sub_group_non_uniform_reduce_max(a)
                    + 5 * (int)sub_group_ballot_bit_count(b) + sub_group_non_uniform_scan_exclusive_add(a);
                if (a & 2) r ^= sub_group_clustered_reduce_add(a, 8);
            } else {
                for (int turn = 0; turn < (a & 7); turn++) r += sub_group_non_uniform_all(a > turn * 50);
            }
            sub_group_barrier(CLK_LOCAL_MEM_FENCE);
            y[i] = r;
        }",
        &values,
    );
}

#[test]
fn numbers_of_16_bits_are_those_of_the_processor() {
    let values: Vec<u16> = (0..=u16::MAX).step_by(16).collect();
    let text = "kernel void k(global ushort *y, global const ushort *x) {
        size_t i = get_global_id(0), n = get_global_size(0); half a = as_half(x[i]), b = as_half(x[(i * 771 + 3) % n]);
        half r = i % 4 == 0 ? a + b : i % 4 == 1 ? a * b : i % 4 == 2 ? a / b : fma(a, b, a);
        y[i] = isnan(r) ? (ushort)0x7e00 : as_ushort(r);
    }";
    same(text, "k", &values);
}

/// A picture that is made smaller, and written as another format.
#[test]
fn images_are_read_and_written_as_on_the_processor() {
    let Some(both) = both() else { return };
    let text = "kernel void k(global float4 *y, read_only image2d_t from, write_only image2d_t to, sampler_t s) {
            int i = get_global_id(0); int2 at = (int2)(i % 32, i / 32);
            float4 texel = read_imagef(from, s, (convert_float2(at) + 0.3f) / 16.0f - 0.4f) + read_imagef(from, at % 16);
            write_imagef(to, at, texel * 0.5f);
            y[i] = texel;
        }
        kernel void again(global float4 *y, read_only image2d_t from) {
            int i = get_global_id(0); y[i] = read_imagef(from, (int2)(i % 32, i / 32));
        }";
    let texels: Vec<u8> = (0..16 * 16 * 4).map(|at| (at * 7919 % 251) as u8).collect();
    for (addressing, filter) in [
        (CL_ADDRESS_CLAMP, CL_FILTER_LINEAR),
        (CL_ADDRESS_REPEAT, CL_FILTER_LINEAR),
        (CL_ADDRESS_MIRRORED_REPEAT, CL_FILTER_NEAREST),
        (CL_ADDRESS_CLAMP_TO_EDGE, CL_FILTER_NEAREST),
    ] {
        let results = both.map(|setup| {
            let from = image(&setup, CL_UNORM_INT8, 16, Some(&texels));
            let to = image(&setup, CL_HALF_FLOAT, 32, None);
            // SAFETY: a context, and where the code goes.
            let sampler = made(|code| unsafe {
                clCreateSampler()(setup.context, CL_TRUE, addressing, filter, code)
            });
            let kernel = setup.kernel(text, "k");
            ok(set(kernel, 1, &from));
            ok(set(kernel, 2, &to));
            ok(set(kernel, 3, &sampler));
            let y = setup.buffer(&[[0_f32; 4]; 1024]);
            let read: Vec<[f32; 4]> = run(&setup, kernel, &[y], 1024);
            let again = setup.kernel(text, "again");
            ok(set(again, 1, &to));
            let written: Vec<[f32; 4]> = run(&setup, again, &[y], 1024);
            (read, written)
        });
        let [cpu, gpu] = results;
        for (of_cpu, of_gpu, bound) in [(&cpu.0, &gpu.0, 1e-5), (&cpu.1, &gpu.1, 1e-3)] {
            for (at, (cpu, gpu)) in of_cpu.iter().zip(of_gpu).enumerate() {
                let is_near = cpu
                    .iter()
                    .zip(gpu)
                    .all(|(cpu, gpu)| (cpu - gpu).abs() <= bound);
                assert!(is_near, "item {at}: {gpu:?}, and {cpu:?} on the processor");
            }
        }
    }
}

/// An image of four channels, as wide as it is high.
fn image(setup: &Setup, data: cl_channel_type, width: usize, texels: Option<&[u8]>) -> cl_mem {
    let format = cl_image_format {
        image_channel_order: CL_RGBA,
        image_channel_data_type: data,
    };
    let desc = cl_image_desc {
        image_type: CL_MEM_OBJECT_IMAGE2D,
        image_width: width,
        image_height: width,
        image_depth: 1,
        image_array_size: 1,
        image_row_pitch: 0,
        image_slice_pitch: 0,
        num_mip_levels: 0,
        num_samples: 0,
        buffer: null_mut(),
    };
    let (flags, pointer) = match texels {
        Some(texels) => (CL_MEM_COPY_HOST_PTR, texels.as_ptr().cast_mut().cast()),
        None => (CL_MEM_READ_WRITE, null_mut()),
    };
    // SAFETY: a format, a description, and memory of so many texels.
    made(|code| unsafe {
        clCreateImage()(
            setup.context,
            flags,
            &raw const format,
            &raw const desc,
            pointer,
            code,
        )
    })
}
