//! The front end on CUDA devices: the tests of all devices, and those of CUDA alone.
//!
//! Without a device these tests are left out, and say so; with `QUIPU_TEST_CUDA=1` they fail.
#![allow(clippy::unwrap_used, reason = "helpers assert by unwrapping")]

mod cublas;
mod devices;
#[cfg(unix)]
mod kept;
mod texts;

use quipu::kernel::TextArgument;
use quipu::prelude::*;
#[cfg(unix)]
use std::cell::Cell;

devices::all_tests!(each_queue);

/// A context of all devices and a queue of each CUDA device.
fn each_queue(test: &dyn Fn(&Context, &Queue)) {
    let platform = Platform::builder().cuda(true).build_available();
    if let Err(why) = devices::each_queue_of("cuda", &platform, test) {
        assert!(
            std::env::var("QUIPU_TEST_CUDA").is_err(),
            "QUIPU_TEST_CUDA is set, and there is no CUDA device: {why}"
        );
        eprintln!("\n*** NOT TESTED: the front end on CUDA devices. {why}\n");
    }
}

#[test]
fn the_fastest_is_the_one_of_cuda() {
    each_queue(&|context, _| assert_eq!(context.fastest().driver_name(), "cuda"));
}

/// As [`each_queue`], on a machine that compiles texts.
fn each_queue_with_compiler(test: &dyn Fn(&Context, &Queue)) {
    match quipu_clc::is_available() {
        true => each_queue(test),
        false => eprintln!("\n*** NOT TESTED: OpenCL C on CUDA devices. There is no LLVM.\n"),
    }
}

#[test]
fn kernels_may_be_texts() {
    texts::kernels_may_be_texts(each_queue_with_compiler);
}

#[test]
fn a_text_sees_the_whole_of_its_grid() {
    texts::a_text_sees_the_whole_of_its_grid(each_queue_with_compiler);
}

/// Local memory of two pieces, a vector, a structure's layout, an offset, and a barrier in a loop.
#[test]
fn a_text_has_local_memory_and_vectors() {
    const SUMS: &str = "
kernel void sums(global const float4 *x, float4 scale, local float4 *one, global float4 *y, local float *other) {
    uint l = get_local_id(0), n = get_local_size(0);
    one[l] = x[get_global_id(0)] * scale;
    other[l] = (float)l;
    for (uint rest = n / 2; rest > 0; rest /= 2) {
        barrier(CLK_LOCAL_MEM_FENCE);
        if (l < rest) { one[l] += one[l + rest]; other[l] += other[l + rest]; }
    }
    if (l == 0) { one[0].w = other[0]; y[get_group_id(0)] = one[0]; }
}
";
    each_queue_with_compiler(&|context, queue| {
        let sums = context.program(SUMS).kernel("sums");
        let bytes = |numbers: &[f32]| numbers.iter().flat_map(|it| it.to_le_bytes()).collect();
        let x: Vec<f32> = (0..256).flat_map(|i| [i as f32, 1.0, 2.0, 3.0]).collect();
        let x: Vec<u8> = bytes(&x);
        let x = context.buffer(&x).unwrap();
        let mut y = context.allocate::<u8>(4 * 16).unwrap();
        let arguments = vec![
            TextArgument::Read(&x),
            TextArgument::Value(bytes(&[1.0, 2.0, 3.0, 4.0])),
            TextArgument::Local(64 * 16),
            TextArgument::Write(&mut y),
            TextArgument::Local(64 * 4),
        ];
        // SAFETY: these are its parameters, and it minds their lengths.
        let call = unsafe { sums.call_with(arguments) };
        queue.launch(WorkDivision::new(4, 64, 1), call).unwrap();
        let found = queue.read(&y).unwrap().wait().unwrap();
        let found: Vec<f32> = found
            .chunks(4)
            .map(|four| f32::from_le_bytes(four.try_into().unwrap()))
            .collect();
        for (group, found) in found.chunks(4).enumerate() {
            let first: f32 = (64 * group..64 * (group + 1)).map(|i| i as f32).sum();
            assert_eq!(*found, [first, 128.0, 384.0, 2016.0]);
        }
    });
}

#[test]
fn native_calls_are_handed_the_queue() {
    each_queue(&|_, queue| {
        let call = |native: &quipu::driver::CudaQueue| {
            !native.stream().is_null() && !native.context().is_null() && native.device() >= 0
        };
        assert!(queue.native_call(call).unwrap().wait().unwrap());
    });
}

#[kernel]
fn scramble(_acc: &impl Accelerator<1>, steps: u32, mut y: OwnElements<u32>) {
    for (_, y) in y.each() {
        let mut value = *y;
        for _ in 0..steps {
            value = value.wrapping_mul(1_664_525) ^ (value >> 15);
        }
        *y = value;
    }
}

#[test]
fn a_profile_says_how_long_a_kernel_took() {
    each_queue(&|context, queue| {
        let options = QueueOptions {
            profiling: true,
            ..*queue.options()
        };
        let queue = context.queue_with(queue.device(), options).unwrap();
        let mut y = context.allocate::<u32>(64).unwrap();
        let mut took = |steps: u32| {
            let launched = queue.launch(64, scramble(steps, &mut y)).unwrap();
            launched.wait().unwrap();
            let profile = launched.profile().unwrap();
            (profile.ended_ns - profile.started_ns) as f64
        };
        took(1);
        let mut took = |steps| {
            let mut all: Vec<f64> = (0..9).map(|_| took(steps)).collect();
            all.sort_by(f64::total_cmp);
            all[4]
        };
        let (once, twice) = (took(100_000), took(200_000));
        let ratio = twice / once;
        assert!(
            (1.8..2.2).contains(&ratio),
            "{once} ns, and twice as long {twice} ns"
        );
    });
}

#[cfg(unix)]
#[test]
fn compiled_kernels_are_found_again() {
    let first = Cell::new(true);
    each_queue(&|_, _| {
        if first.replace(false) {
            kept::compiled_kernels_are_found_again("cuda", "compiled_kernels_are_found_again");
        }
    });
}
