//! The rates at which pageable memory gets to the first CUDA device and back through pinned blocks,
//! for numbers of threads, sizes of pieces and numbers of blocks; in GB/s, beside CUDA's own
//! pageable and pinned copies. The driver's constants (`host.rs`, `staging.rs`) are to be chosen by
//! them.
//!
//! ```sh
//! cargo run --release -p quipu-driver-cuda --example staging
//! ```
#![allow(clippy::unwrap_used, reason = "a measurement that cannot be made ends")]

use cudarc::driver::sys::{self, CUcontext, CUresult, CUstream};
use quipu::driver::CudaQueue;
use quipu::prelude::*;
use std::ptr::null_mut;
use std::time::Instant;

const BYTES: usize = 256 << 20;

fn check(code: CUresult) {
    assert_eq!(code, CUresult::CUDA_SUCCESS);
}

/// The best rate of some runs, in GB/s.
fn rate(mut run: impl FnMut()) -> f64 {
    run();
    let times = (0..4).map(|_| {
        let begun = Instant::now();
        run();
        begun.elapsed().as_secs_f64()
    });
    BYTES as f64 / times.fold(f64::INFINITY, f64::min) / 1e9
}

/// The objects that a thread has for itself.
struct Lane {
    stream: CUstream,
    blocks: Vec<(*mut u8, sys::CUevent)>,
}

// SAFETY: CUDA's objects may be used by any thread; blocks by the one that has them.
unsafe impl Sync for Lane {}

#[derive(Clone, Copy)]
struct Both {
    host: *mut u8,
    device: u64,
    context: CUcontext,
}

// SAFETY: each thread has its own part.
unsafe impl Send for Both {}

/// Moves a thread's share.
fn share(lane: &Lane, both: Both, length: usize, piece: usize, up: bool) {
    let count = lane.blocks.len();
    let pieces = length.div_ceil(piece);
    let extent = |number: usize| (number * piece, piece.min(length - number * piece));
    // SAFETY: within both sides, and each block is waited for before it is used again.
    unsafe {
        check(sys::cuCtxSetCurrent(both.context));
        let ask = |number: usize| {
            let (start, bytes) = extent(number);
            let (block, event) = lane.blocks[number % count];
            let there = both.device + start as u64;
            check(if up {
                sys::cuMemcpyHtoDAsync_v2(there, block.cast(), bytes, lane.stream)
            } else {
                sys::cuMemcpyDtoHAsync_v2(block.cast(), there, bytes, lane.stream)
            });
            check(sys::cuEventRecord(event, lane.stream));
        };
        if !up {
            (0..pieces.min(count)).for_each(ask);
        }
        for number in 0..pieces {
            let (start, bytes) = extent(number);
            let (block, event) = lane.blocks[number % count];
            if !up || number >= count {
                check(sys::cuEventSynchronize(event));
            }
            if up {
                block.copy_from_nonoverlapping(both.host.add(start), bytes);
                ask(number);
            } else {
                both.host.add(start).copy_from_nonoverlapping(block, bytes);
                if number + count < pieces {
                    ask(number + count);
                }
            }
        }
        check(sys::cuStreamSynchronize(lane.stream));
    }
}

fn measure(native: &CudaQueue) {
    let (context, stream) = (native.context(), native.stream());
    let (mut device, mut pinned) = (0_u64, null_mut());
    let mut pageable = vec![1_u8; BYTES];
    // SAFETY: the context is the device's own, and every pointer and size is as the calls take it.
    unsafe {
        check(sys::cuCtxSetCurrent(context));
        check(sys::cuMemAlloc_v2(&raw mut device, BYTES));
        check(sys::cuMemHostAlloc(&raw mut pinned, BYTES, 0));
        for (name, host) in [
            ("pinned", pinned),
            ("pageable", pageable.as_mut_ptr().cast()),
        ] {
            let up = rate(|| {
                check(sys::cuMemcpyHtoDAsync_v2(device, host, BYTES, stream));
                check(sys::cuStreamSynchronize(stream));
            });
            let down = rate(|| {
                check(sys::cuMemcpyDtoHAsync_v2(host, device, BYTES, stream));
                check(sys::cuStreamSynchronize(stream));
            });
            println!("CUDA's own, {name:8}: up {up:6.2}, down {down:6.2}");
        }
    }
    let both = Both {
        host: pageable.as_mut_ptr(),
        device,
        context,
    };
    for piece in [256 << 10, 512 << 10, 1 << 20, 2 << 20] {
        for blocks in [2, 3] {
            for threads in [1, 2, 4, 6, 8, 12] {
                let lane = |number: usize| {
                    let mut stream = null_mut();
                    // SAFETY: the context is current.
                    check(unsafe { sys::cuStreamCreate(&raw mut stream, 1) });
                    let block = |block: usize| {
                        let mut event = null_mut();
                        // SAFETY: as above.
                        check(unsafe { sys::cuEventCreate(&raw mut event, 2) });
                        // SAFETY: within the pinned memory.
                        let place =
                            unsafe { pinned.cast::<u8>().add((number * blocks + block) * piece) };
                        (place, event)
                    };
                    Lane {
                        stream,
                        blocks: (0..blocks).map(block).collect(),
                    }
                };
                let lanes: Vec<Lane> = (0..threads).map(lane).collect();
                let part = BYTES.div_ceil(threads).next_multiple_of(piece);
                let all = |up: bool| {
                    std::thread::scope(|scope| {
                        for (number, lane) in lanes.iter().enumerate() {
                            let start = (number * part).min(BYTES);
                            let length = part.min(BYTES - start);
                            let own = Both {
                                host: both.host.wrapping_add(start),
                                device: both.device + start as u64,
                                context,
                            };
                            scope.spawn(move || {
                                // The whole of it, not its fields, is the thread's.
                                let own = own;
                                share(lane, own, length, piece, up);
                            });
                        }
                    });
                };
                let (up, down) = (rate(|| all(true)), rate(|| all(false)));
                println!(
                    "{:4} KiB, {blocks} blocks, {threads:2} threads: up {up:6.2}, down {down:6.2}",
                    piece >> 10
                );
            }
        }
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
    println!("{}, GB/s", device.name());
    let context = platform.context()?;
    let queue = context.queue(&device)?;
    queue
        .native_call(|native: &CudaQueue| measure(native))?
        .wait()?;
    Ok(())
}
