//! What commands cost on the first CUDA device, beside the raw driver API in the same process: enqueue and wait of a
//! kernel that does nothing, chains of small kernels, copies. Medians, in microseconds and GB/s.
//!
//! ```sh
//! cargo run --release -p quipu-driver-cuda --example costs
//! ```
#![allow(clippy::unwrap_used, reason = "a measurement that cannot be made ends")]

use cudarc::driver::sys::{self, CUresult, CUstream};
use quipu::Completion;
use quipu::driver::CudaQueue;
use quipu::prelude::*;
use std::ptr::null_mut;
use std::time::Instant;

#[kernel]
fn nothing(_acc: &impl Accelerator<1>, mut y: OwnElements<u32>) {
    for (_, y) in y.each() {
        *y += 1;
    }
}

fn check(code: CUresult) {
    assert_eq!(code, CUresult::CUDA_SUCCESS);
}

/// The median, in microseconds, of so many runs, the first of which do not count.
fn median(runs: usize, mut run: impl FnMut()) -> f64 {
    let mut times: Vec<f64> = (0..runs + runs / 4 + 1)
        .map(|_| {
            let begun = Instant::now();
            run();
            begun.elapsed().as_secs_f64() * 1e6
        })
        .skip(runs / 4 + 1)
        .collect();
    times.sort_by(f64::total_cmp);
    times[times.len() / 2]
}

/// A kernel of the raw API's own, which adds one to a number.
const PTX: &str = ".version 7.0\n.target sm_70\n.address_size 64\n.visible .entry add(.param .u64 p)\n{\n\
    .reg .b64 %rd<2>; .reg .b32 %r<3>;\n\
    ld.param.u64 %rd1, [p];\nld.global.u32 %r1, [%rd1];\nadd.u32 %r2, %r1, 1;\nst.global.u32 [%rd1], %r2;\nret;\n}\n\0";

fn raw(stream: CUstream) {
    let (mut module, mut function, mut memory) = (null_mut(), null_mut(), 0_u64);
    let (mut pinned, bytes) = (null_mut(), 256 << 20);
    let mut pageable = vec![1_u8; bytes];
    // SAFETY: the context is current, the stream is one of its, and every pointer and size is as the calls take it.
    unsafe {
        check(sys::cuModuleLoadData(&raw mut module, PTX.as_ptr().cast()));
        check(sys::cuModuleGetFunction(
            &raw mut function,
            module,
            c"add".as_ptr(),
        ));
        check(sys::cuMemAlloc_v2(&raw mut memory, bytes));
        check(sys::cuMemHostAlloc(&raw mut pinned, bytes, 0));
        let mut argument = memory;
        let mut arguments = [(&raw mut argument).cast()];
        let mut launch = || {
            check(sys::cuLaunchKernel(
                function,
                1,
                1,
                1,
                32,
                1,
                1,
                0,
                stream,
                arguments.as_mut_ptr(),
                null_mut(),
            ));
        };
        let wait = || check(sys::cuStreamSynchronize(stream));
        let one = median(2000, || {
            launch();
            wait();
        });
        let many = median(10, || {
            (0..10_000).for_each(|_| launch());
            wait();
        });
        println!(
            "raw    launch and synchronise {one:8.2} us; 10,000 launches {:6.2} us each",
            many / 10_000.0
        );
        for (what, host) in [
            ("pinned", pinned.cast::<u8>()),
            ("pageable", pageable.as_mut_ptr()),
        ] {
            for size in [4 << 10, 64 << 10, 1 << 20, bytes] {
                let runs = if size > 1 << 20 { 10 } else { 200 };
                let up = median(runs, || {
                    check(sys::cuMemcpyHtoDAsync_v2(memory, host.cast(), size, stream));
                    wait();
                });
                let down = median(runs, || {
                    check(sys::cuMemcpyDtoHAsync_v2(host.cast(), memory, size, stream));
                    wait();
                });
                println!(
                    "raw    {what:8} {size:>9} bytes: up {up:9.2} us {:6.2} GB/s, down {down:9.2} us {:6.2} GB/s",
                    size as f64 / up / 1e3,
                    size as f64 / down / 1e3
                );
            }
        }
        check(sys::cuMemFreeHost(pinned));
        check(sys::cuMemFree_v2(memory));
        check(sys::cuModuleUnload(module));
    }
}

fn main() -> quipu::Result<()> {
    let platform = Platform::builder()
        .cuda(true)
        .opencl(false)
        .build_available();
    let Ok(device) = platform.device("cuda") else {
        for driver in platform.unavailable() {
            println!("NOT MEASURED: {}: {}", driver.driver, driver.error);
        }
        return Ok(());
    };
    println!("{}", device.name());
    let context = platform.context()?;
    for completion in [Completion::Callback, Completion::Polling] {
        let options = QueueOptions {
            completion,
            ..QueueOptions::default()
        };
        let queue = context.queue_with(&device, options)?;
        if completion == Completion::Callback {
            let measure = |native: &CudaQueue| {
                // SAFETY: the device's own context.
                check(unsafe { sys::cuCtxSetCurrent(native.context()) });
                raw(native.stream());
            };
            queue.native_call(measure)?.wait()?;
        }
        let mut y = context.allocate::<u32>(32)?;
        let one = median(2000, || {
            queue.launch(32, nothing(&mut y)).unwrap().wait().unwrap();
        });
        let many = median(10, || {
            for _ in 0..10_000 {
                queue.post_launch(32, nothing(&mut y)).unwrap();
            }
            queue.wait().unwrap();
        });
        println!(
            "{completion:?}: launch and wait {one:8.2} us; 10,000 launches {:6.2} us each",
            many / 10_000.0
        );
        for size in [4 << 10, 64 << 10, 1 << 20, 256 << 20] {
            let runs = if size > 1 << 20 { 10 } else { 200 };
            let buffer = context.allocate::<u8>(size)?;
            let mut bytes = Some(vec![1_u8; size]);
            let up = median(runs, || {
                let given = bytes.take().unwrap();
                bytes = Some(queue.write(&buffer, given).unwrap().wait().unwrap());
            });
            let down = median(runs, || {
                queue.read(&buffer).unwrap().wait().unwrap();
            });
            println!(
                "{completion:?}: {size:>9} bytes: up {up:9.2} us {:6.2} GB/s, down (to fresh memory) {down:9.2} us {:6.2} GB/s",
                size as f64 / up / 1e3,
                size as f64 / down / 1e3
            );
        }
    }
    Ok(())
}
