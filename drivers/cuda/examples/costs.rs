//! The cost of commands on the first CUDA device, beside the raw driver API in the same process: enqueue and wait of a
//! kernel that does nothing, chains of small kernels, enqueued and recorded, copies. Medians, in microseconds and GB/s.
//!
//! ```sh
//! cargo run --release -p quipu-driver-cuda --example costs
//! ```
#![allow(clippy::unwrap_used, reason = "a measurement that cannot be made ends")]

use cudarc::driver::sys::{self, CUresult, CUstream};
use quipu::Completion;
use quipu::driver::CudaQueue;
use quipu::prelude::*;
use quipu_conformance::folding;
use quipu_driver_cuda::CudaDriver;
use quipu_scheduler::graph::NodeRequest;
use quipu_scheduler::{Access, AccessMode, Driver, Recording, Request};
use std::ptr::null_mut;
use std::sync::Arc;
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

/// The median, in microseconds, of so many runs after the first ones, which do not count.
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
        let replayed = graph_of(function, argument, stream);
        println!(
            "raw    a graph of 10,000 launches, one after the other {replayed:6.2} us each, of a repeat"
        );
        // The cost that remains if every command is to have an event of its own.
        let mut event = null_mut();
        let flags = sys::CUevent_flags::CU_EVENT_DISABLE_TIMING as u32;
        check(sys::cuEventCreate(&raw mut event, flags));
        let recorded = median(10, || {
            for _ in 0..10_000 {
                launch();
                check(sys::cuEventRecord(event, stream));
            }
            wait();
        });
        let query = median(200, || {
            for _ in 0..100 {
                check(sys::cuEventQuery(event));
            }
        });
        check(sys::cuEventDestroy_v2(event));
        println!(
            "raw    10,000 launches with an event each {:6.2} us each; a query of an event {:6.3} us",
            recorded / 10_000.0,
            query / 100.0
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

/// Microseconds for each of 10,000 launches, one after the other, in a graph of CUDA's that is launched again and again.
fn graph_of(function: sys::CUfunction, mut argument: u64, stream: CUstream) -> f64 {
    let (mut graph, mut executable, mut last) = (null_mut(), null_mut(), null_mut());
    let (mut context, mut arguments) = (null_mut(), [(&raw mut argument).cast()]);
    // SAFETY: the context is current, and every pointer and size is as the calls take it.
    unsafe {
        check(sys::cuCtxGetCurrent(&raw mut context));
        check(sys::cuGraphCreate(&raw mut graph, 0));
        let parameters = sys::CUDA_KERNEL_NODE_PARAMS {
            func: function,
            gridDimX: 1,
            gridDimY: 1,
            gridDimZ: 1,
            blockDimX: 32,
            blockDimY: 1,
            blockDimZ: 1,
            sharedMemBytes: 0,
            kernelParams: arguments.as_mut_ptr(),
            extra: null_mut(),
            kern: null_mut(),
            ctx: context,
        };
        for number in 0..10_000 {
            let before = [last];
            check(sys::cuGraphAddKernelNode_v2(
                &raw mut last,
                graph,
                before.as_ptr(),
                usize::from(number > 0),
                &raw const parameters,
            ));
        }
        let code = sys::cuGraphInstantiateWithFlags(&raw mut executable, graph, 0);
        check(code);
        let all = median(20, || {
            check(sys::cuGraphLaunch(executable, stream));
            check(sys::cuStreamSynchronize(stream));
        });
        check(sys::cuGraphExecDestroy(executable));
        check(sys::cuGraphDestroy(graph));
        all / 10_000.0
    }
}

/// Ten thousand small kernels, one after the other, recorded once and launched again and again; and one by one.
fn recorded() -> quipu_scheduler::Result<()> {
    let driver: Arc<dyn Driver> = CudaDriver::start()?;
    let devices = quipu_scheduler::Device::all_of(&driver)?;
    let context = quipu_scheduler::Context::new(&devices[..1])?;
    let queue = context.queue(&devices[0], QueueOptions::default())?;
    let memory = context.memory(8)?;
    let accesses = [Access {
        memory: &memory,
        offset: 0,
        length: 8,
        mode: AccessMode::ReadWrite,
    }];
    let request = Request {
        accesses: &accesses,
        ..Request::default()
    };
    queue.launch(folding(1), 1, &request)?.wait()?;
    let singly = median(10, || {
        for _ in 0..10_000 {
            queue.post_launch(folding(1), 1, &request).unwrap();
        }
        queue.wait().unwrap();
    });
    for count in [10, 100, 10_000] {
        let recording = Recording::new(&context);
        let request = NodeRequest {
            accesses: &accesses,
            ..NodeRequest::default()
        };
        for _ in 0..count {
            recording.launch(&queue, folding(1), 1, &request)?;
        }
        let graph = recording.finish()?;
        let launch = || {
            queue
                .launch_graph(&graph, &[], None)
                .unwrap()
                .wait()
                .unwrap()
        };
        let begun = Instant::now();
        launch();
        let first = begun.elapsed().as_secs_f64() * 1e6;
        let repeat = median(20, launch);
        println!(
            "recorded (taken as a whole: {}): {count:>6} launches, one after the other {:6.2} us each, of a repeat, \
             {repeat:9.2} us in all; the first time {first:9.2} us in all",
            graph.is_taken(),
            repeat / f64::from(count)
        );
    }
    println!(
        "the same kernel: 10,000 launches {:6.2} us each",
        singly / 10_000.0
    );
    Ok(())
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
    if let Err(error) = recorded() {
        println!("NOT MEASURED: recorded graphs: {error}");
    }
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
        let mut all = Vec::new();
        for _ in 0..8 {
            all.push(context.allocate::<u32>(32)?);
        }
        let chains = median(10, || {
            for number in 0..10_000 {
                queue
                    .post_launch(32, nothing(&mut all[number % 8]))
                    .unwrap();
            }
            queue.wait().unwrap();
        });
        println!(
            "{completion:?}: 10,000 launches in eight chains {:6.2} us each",
            chains / 10_000.0
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
