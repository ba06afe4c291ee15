//! The parts of the time of a chain that was held back: its end, piece by piece, on the first CUDA
//! device; beside the same number of kernels as graphs made by hand, in one and in pieces, each
//! launched for the first time, as those of a held chain are. Microseconds per kernel, medians.
//!
//! ```sh
//! cargo run --release -p quipu-driver-cuda --example held
//! ```
#![allow(clippy::unwrap_used, reason = "a measurement that cannot be made ends")]

use cudarc::driver::sys::{self, CUgraphExec, CUresult, CUstream};
use quipu::driver::CudaQueue;
use quipu::prelude::*;
use quipu::{Completion, Event};
use quipu_conformance::folding;
use quipu_driver_cuda::CudaDriver;
use quipu_scheduler::{Access, AccessMode, Device as CoreDevice, Driver, Request};
use std::ptr::null_mut;
use std::sync::Arc;
use std::time::{Duration, Instant};

const KERNELS: usize = 10_000;
const ROUNDS: usize = 9;
/// Commands of a piece, as the driver makes them.
const PIECE: usize = 256;

fn check(code: CUresult) {
    assert_eq!(code, CUresult::CUDA_SUCCESS);
}

fn median(mut times: Vec<f64>) -> f64 {
    times.sort_by(f64::total_cmp);
    times[times.len() / 2]
}

/// A kernel that adds one to a number.
const PTX: &str = ".version 7.0\n.target sm_70\n.address_size 64\n.visible .entry add(.param .u64 p)\n{\n\
    .reg .b64 %rd<2>; .reg .b32 %r<3>;\n\
    ld.param.u64 %rd1, [p];\nld.global.u32 %r1, [%rd1];\nadd.u32 %r2, %r1, 1;\nst.global.u32 [%rd1], %r2;\nret;\n}\n\0";

/// # Safety
/// The context is current, and the function takes one pointer.
unsafe fn graph_of(function: sys::CUfunction, argument: u64, count: usize) -> CUgraphExec {
    let (mut graph, mut executable, mut last) = (null_mut(), null_mut(), null_mut());
    let (mut context, mut argument) = (null_mut(), argument);
    let mut arguments = [(&raw mut argument).cast()];
    // SAFETY: as the caller promises; every pointer and size is as the calls take it.
    unsafe {
        check(sys::cuCtxGetCurrent(&raw mut context));
        check(sys::cuGraphCreate(&raw mut graph, 0));
        let parameters = sys::CUDA_KERNEL_NODE_PARAMS {
            func: function,
            gridDimX: 1,
            gridDimY: 1,
            gridDimZ: 1,
            blockDimX: 1,
            blockDimY: 1,
            blockDimZ: 1,
            sharedMemBytes: 0,
            kernelParams: arguments.as_mut_ptr(),
            extra: null_mut(),
            kern: null_mut(),
            ctx: context,
        };
        for number in 0..count {
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
        check(sys::cuGraphDestroy(graph));
    }
    executable
}

/// Graphs made by hand: of so many kernels each, launched one after the other, each for the first
/// time.
fn by_hand(stream: CUstream) {
    let (mut module, mut function, mut memory) = (null_mut(), null_mut(), 0_u64);
    // SAFETY: the context is current, the stream is one of its, and every pointer is as the calls
    // take it.
    unsafe {
        check(sys::cuModuleLoadData(&raw mut module, PTX.as_ptr().cast()));
        let name = c"add".as_ptr();
        check(sys::cuModuleGetFunction(&raw mut function, module, name));
        check(sys::cuMemAlloc_v2(&raw mut memory, 4));
        for piece in [KERNELS, 2048, 1024, PIECE, 64] {
            let (mut all, mut launching, mut slowest) = (Vec::new(), Vec::new(), Vec::new());
            for _ in 0..ROUNDS {
                let sizes = (0..KERNELS).step_by(piece);
                let graphs: Vec<CUgraphExec> = sizes
                    .map(|start| graph_of(function, memory, piece.min(KERNELS - start)))
                    .collect();
                for graph in &graphs {
                    check(sys::cuGraphUpload(*graph, stream));
                }
                check(sys::cuStreamSynchronize(stream));
                std::thread::sleep(Duration::from_millis(100));
                let (begun, mut longest) = (Instant::now(), 0.0_f64);
                for graph in &graphs {
                    let before = Instant::now();
                    check(sys::cuGraphLaunch(*graph, stream));
                    longest = longest.max(before.elapsed().as_secs_f64() * 1e6);
                }
                launching.push(begun.elapsed().as_secs_f64() * 1e6 / graphs.len() as f64);
                check(sys::cuStreamSynchronize(stream));
                all.push(begun.elapsed().as_secs_f64() * 1e6 / KERNELS as f64);
                slowest.push(longest);
                for graph in graphs {
                    check(sys::cuGraphExecDestroy(graph));
                }
            }
            println!(
                "by hand, graphs of {piece:>6}: {:6.3} us per kernel; a launch takes the host {:8.2} us, the slowest {:8.2}",
                median(all),
                median(launching),
                median(slowest)
            );
        }
        check(sys::cuMemFree_v2(memory));
        check(sys::cuModuleUnload(module));
    }
}

/// A held chain of ours.
fn ours(completion: Completion) -> quipu_scheduler::Result<()> {
    let driver = CudaDriver::start()?;
    let dynamic: Arc<dyn Driver> = driver.clone();
    let devices = CoreDevice::all_of(&dynamic)?;
    let context = quipu_scheduler::Context::new(&devices[..1])?;
    let options = QueueOptions {
        completion,
        ..QueueOptions::default()
    };
    let queue = context.queue(&devices[0], options)?;
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
    let (mut all, mut ready) = (Vec::new(), Vec::new());
    let mut ends: Vec<Vec<f64>> = vec![Vec::new(); KERNELS.div_ceil(PIECE)];
    for _ in 0..ROUNDS {
        let gate = UserEvent::new();
        let waits = [gate.event()];
        let events: Vec<Event> = (0..KERNELS)
            .map(|number| {
                let waits = if number == 0 { &waits[..] } else { &[] };
                let request = Request { waits, ..request };
                queue.launch(folding(1), 1, &request)
            })
            .collect::<quipu_scheduler::Result<_>>()?;
        queue.flush();
        std::thread::sleep(Duration::from_millis(500));
        ready.push(driver.batches().ready as f64);
        let begun = Instant::now();
        gate.complete();
        for (piece, events) in events.chunks(PIECE).enumerate() {
            events[events.len() - 1].wait()?;
            ends[piece].push(begun.elapsed().as_secs_f64() * 1e6);
        }
        all.push(begun.elapsed().as_secs_f64() * 1e6 / KERNELS as f64);
    }
    println!(
        "{completion:?}: {:6.3} us per kernel, waited for piece by piece; {} of {KERNELS} were ready in graphs; {:?}",
        median(all),
        median(ready),
        driver.batches()
    );
    let mut before = 0.0;
    for (piece, times) in ends.into_iter().enumerate() {
        let end = median(times);
        if piece < 4 || (piece + 1) % 8 == 0 {
            println!(
                "    piece {piece:>3} ends after {end:9.1} us, {:7.1} after the one before",
                end - before
            );
        }
        before = end;
    }
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
    let context = platform.context()?;
    let queue = context.queue(&device)?;
    let measure = |native: &CudaQueue| {
        // SAFETY: the device's own context.
        check(unsafe { sys::cuCtxSetCurrent(native.context()) });
        by_hand(native.stream());
    };
    queue.native_call(measure)?.wait()?;
    for completion in [Completion::Polling, Completion::Callback] {
        ours(completion)?;
    }
    Ok(())
}
