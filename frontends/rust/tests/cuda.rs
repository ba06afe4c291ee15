//! The front end on CUDA devices: what holds on all devices, and what is CUDA's.
//!
//! Without a device these tests are left out, and say so; with `QUIPU_TEST_CUDA=1` they fail.
#![allow(clippy::unwrap_used, reason = "a promise that is not kept panics")]

mod cublas;
mod devices;
#[cfg(unix)]
mod kept;

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
