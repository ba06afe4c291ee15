//! Memory of CUDA devices: zeroed, accounted for, refused with sizes, and made room in.
#![allow(clippy::unwrap_used, reason = "helpers assert by unwrapping")]

mod support;

use cudarc::driver::sys::{self, CUcontext, CUdeviceptr, CUresult};
use quipu::driver::CudaQueue;
use quipu::prelude::*;
use quipu_scheduler::error::ErrorKind;
use std::ptr::null_mut;
use std::sync::{Mutex, MutexGuard, PoisonError};
use support::cuda_or_skip;

const MIB: u64 = 1 << 20;

/// One test at a time: each looks at the free part of the device's memory.
fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

fn first() -> (Device, Context, Queue) {
    let platform = Platform::builder().cuda(true).build_available();
    let device = platform.device("cuda").unwrap();
    let context = device.context().unwrap();
    let queue = context.queue(&device).unwrap();
    (device, context, queue)
}

/// Memory that is taken beside ours, as another program takes it.
struct Ballast {
    context: CUcontext,
    pieces: Vec<CUdeviceptr>,
}
// SAFETY: names, which CUDA takes from any thread.
unsafe impl Send for Ballast {}

impl Ballast {
    /// Takes all but so much, in pieces of 64 MiB.
    fn leaving(queue: &Queue, left: u64) -> Self {
        let call = |native: &CudaQueue| native.context() as usize;
        let context = queue.native_call(call).unwrap().wait().unwrap() as CUcontext;
        let mut pieces = Vec::new();
        // SAFETY: the driver's context lives as long as the queue; allocated memory is freed once.
        unsafe {
            assert_eq!(sys::cuCtxPushCurrent_v2(context), CUresult::CUDA_SUCCESS);
            // Memory that another test has freed may still be in the device's pool.
            let (mut device, mut pool) = (0, null_mut());
            sys::cuCtxGetDevice(&raw mut device);
            sys::cuDeviceGetDefaultMemPool(&raw mut pool, device);
            sys::cuCtxSynchronize();
            let code = sys::cuMemPoolTrimTo(pool, 0);
            assert_eq!(code, CUresult::CUDA_SUCCESS);
            loop {
                let (mut free, mut total, mut piece) = (0, 0, 0);
                sys::cuMemGetInfo_v2(&raw mut free, &raw mut total);
                if (free as u64) < left + 64 * MIB {
                    break;
                }
                // Most of the free memory at once, then less.
                let bytes = ((free as u64 - left) / 2).max(64 * MIB);
                let code = sys::cuMemAlloc_v2(&raw mut piece, bytes as usize);
                assert_eq!(code, CUresult::CUDA_SUCCESS);
                pieces.push(piece);
            }
            sys::cuCtxPopCurrent_v2(&mut null_mut());
        }
        Ballast { context, pieces }
    }
}

impl Drop for Ballast {
    fn drop(&mut self) {
        // SAFETY: the driver's context lives as long as the queue; each piece was allocated by
        // `of`, and is freed once.
        unsafe {
            sys::cuCtxPushCurrent_v2(self.context);
            for piece in &self.pieces {
                sys::cuMemFree_v2(*piece);
            }
            sys::cuCtxPopCurrent_v2(&mut null_mut());
        }
    }
}

#[test]
fn memory_is_zero_taken_when_it_is_used_and_given_back() {
    if !cuda_or_skip() {
        return;
    }
    let _alone = alone();
    let (device, context, queue) = first();
    // Memory of the device's code and streams and of our staging stays taken.
    let once = context.allocate::<u8>(1 << 28).unwrap();
    queue.fill(&once, 1).unwrap();
    queue.read(&once).unwrap().wait().unwrap();
    drop(once);
    queue.wait().unwrap();
    for size in [1, 3, 4096, 1 << 20, 1 << 28] {
        let before = device.free_memory().unwrap();
        let buffer = context.allocate::<u8>(size).unwrap();
        assert_eq!(device.free_memory().unwrap(), before);
        let bytes = queue.read(&buffer).unwrap().wait().unwrap();
        assert!(bytes.iter().all(|byte| *byte == 0));
        let used = before.saturating_sub(device.free_memory().unwrap());
        assert!(used >= size as u64, "{used} of {size}");
        queue.fill(&buffer, 5).unwrap();
        let bytes = queue.read(&buffer).unwrap().wait().unwrap();
        assert!(bytes.iter().all(|byte| *byte == 5));
        queue.wait().unwrap();
        drop(buffer);
        // Freed memory is free when the device has come to it.
        let mut free = 0;
        for _ in 0..100_000 {
            free = device.free_memory().unwrap();
            if free + 2 * MIB >= before {
                break;
            }
            std::thread::yield_now();
        }
        assert!(free + 2 * MIB >= before, "{free} of {before} after {size}");
    }
}

#[test]
fn a_buffer_that_is_too_large_for_the_device_is_refused_with_sizes() {
    if !cuda_or_skip() {
        return;
    }
    let _alone = alone();
    let (device, context, queue) = first();
    let most = device.properties().max_buffer;
    let buffer = context.allocate::<u8>(most as usize + 4).unwrap();
    let error = queue.fill(&buffer, 0).unwrap().wait().unwrap_err();
    let text = error.to_string();
    for part in [(most + 4).to_string(), most.to_string()] {
        assert!(text.contains(&part), "'{part}' in {text}");
    }
    // Later memory is not touched by it.
    let small = context.allocate::<u8>(64).unwrap();
    assert_eq!(queue.read(&small).unwrap().wait().unwrap(), [0; 64]);
}

#[test]
fn what_is_not_used_makes_room_for_what_is() {
    if !cuda_or_skip() {
        return;
    }
    let _alone = alone();
    let (device, context, queue) = first();
    queue.marker().unwrap().wait().unwrap();
    let _ballast = Ballast::leaving(&queue, 1024 * MIB);
    let free = device.free_memory().unwrap();
    assert!(free < 1200 * MIB, "{free}");
    // Two thirds more than there is room for, used in turns and by nobody's order.
    const COUNT: usize = 64 << 20;
    let words = (0..7).map(|_| context.allocate::<u32>(COUNT).unwrap());
    let words: Vec<Buffer<u32>> = words.collect();
    for (number, buffer) in words.iter().enumerate() {
        queue.fill(buffer, number as u32).unwrap();
    }
    for round in 0..2 {
        for number in 0..words.len() {
            let next = (number + 1) % words.len();
            let half = COUNT / 2;
            let (from, to) = (&words[number], &words[next]);
            let from = from.slice(0..half).unwrap();
            let to = to.slice(half..COUNT).unwrap();
            queue.copy(&from, &to).unwrap();
        }
        let count = words.len() as u32;
        for (number, buffer) in (0..).zip(&words) {
            let found = queue.read(buffer).unwrap().wait().unwrap();
            let (first, second) = found.split_at(COUNT / 2);
            assert!(first.iter().all(|word| *word == number), "round {round}");
            let before = (number + count - 1) % count;
            assert!(second.iter().all(|word| *word == before), "round {round}");
        }
    }
}

#[test]
fn what_there_is_no_room_for_fails_with_sizes_and_nothing_else_does() {
    if !cuda_or_skip() {
        return;
    }
    let _alone = alone();
    let (_device, context, queue) = first();
    queue.marker().unwrap().wait().unwrap();
    let kept = context.allocate::<u32>(1 << 20).unwrap();
    queue.fill(&kept, 7).unwrap().wait().unwrap();
    let ballast = Ballast::leaving(&queue, 512 * MIB);
    let size = 1024 * MIB;
    let large = context.allocate::<u8>(size as usize).unwrap();
    let error = queue.fill(&large, 1).unwrap().wait().unwrap_err();
    let kind = error.first_cause().kind();
    assert!(matches!(kind, ErrorKind::OutOfMemory { .. }), "{error}");
    assert!(error.to_string().contains(&size.to_string()), "{error}");
    let words = queue.read(&kept).unwrap().wait().unwrap();
    assert!(words.iter().all(|word| *word == 7));
    // And there is room once the other has gone.
    drop(ballast);
    queue.fill(&large, 2).unwrap().wait().unwrap();
    let bytes = queue.read(&large).unwrap().wait().unwrap();
    assert!(bytes.iter().all(|byte| *byte == 2));
}
