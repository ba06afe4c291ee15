//! The use of CUDA's streams: commands that do not wait for each other overlap, and devices copy
//! straight to each other.
//!
//! A stream is held up until the host raises a flag; commands that do not depend on it end
//! meanwhile.
#![allow(clippy::unwrap_used, reason = "helpers assert by unwrapping")]

mod support;

use cudarc::driver::sys::{self, CUresult};
use quipu_conformance::folding;
use quipu_driver_cuda::{CudaMemory, CudaQueue};
use quipu_scheduler::operation::HostMemory;
use quipu_scheduler::{
    Access, AccessMode, Context, Event, MemoryRef, NativeEnqueue, Queue, QueueOptions, Request,
};
use std::ptr::null_mut;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc;
use std::time::Duration;
use support::{cuda_or_skip, devices};

/// After which a command is taken for one that never ends.
const FOR_EVER: Duration = Duration::from_secs(60);

fn access(memory: &MemoryRef, mode: AccessMode) -> [Access<'_>; 1] {
    [Access {
        memory,
        offset: 0,
        length: 8,
        mode,
    }]
}

fn request<'a>(accesses: &'a [Access<'a>]) -> Request<'a> {
    Request {
        accesses,
        ..Request::default()
    }
}

/// A command that ends when the flag is raised, at the latest when this is dropped.
struct Held {
    event: Event,
    flag: &'static AtomicU32,
}

impl Held {
    fn raise(&self) {
        self.flag.store(1, Ordering::Release);
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.raise();
    }
}

/// Holds up the stream of a command that writes a memory.
fn hold(queue: &Queue, memory: &MemoryRef) -> Held {
    let (send, flag) = mpsc::channel();
    let call = move |native: &CudaQueue, _: Vec<CudaMemory>| {
        let mut pinned = null_mut();
        // SAFETY: memory for one number, which is never given back.
        let code =
            unsafe { sys::cuMemHostAlloc(&raw mut pinned, 4, sys::CU_MEMHOSTALLOC_DEVICEMAP) };
        assert_eq!(code, CUresult::CUDA_SUCCESS);
        // SAFETY: it is aligned, and stays.
        let flag = unsafe { &*pinned.cast::<AtomicU32>() };
        flag.store(0, Ordering::Release);
        // SAFETY: waits for that number.
        let code = unsafe { sys::cuStreamWaitValue32_v2(native.stream(), pinned as u64, 1, 0) };
        assert_eq!(code, CUresult::CUDA_SUCCESS);
        send.send(flag).unwrap();
        Ok(())
    };
    let accesses = access(memory, AccessMode::ReadWrite);
    // SAFETY: it touches no memory of ours.
    let event = unsafe { queue.native_enqueue(NativeEnqueue::new(call), &request(&accesses)) };
    let event = event.unwrap();
    queue.flush();
    Held {
        event,
        flag: flag.recv_timeout(FOR_EVER).unwrap(),
    }
}

/// Writes a number, folds another into it, and gives the number that is read. Each has to end.
fn work(queue: &Queue, memory: &MemoryRef, number: u64) -> u64 {
    let mut bytes = number.to_le_bytes();
    // SAFETY: the bytes are there until both transfers are over; each is waited for.
    let host = || unsafe { HostMemory::new(bytes.as_ptr().cast_mut(), 8, None) };
    let [to] = access(memory, AccessMode::Overwrite);
    let written = queue.write(host(), to, 8, &[], &[]).unwrap();
    written.wait_timeout(FOR_EVER).unwrap();
    let accesses = access(memory, AccessMode::ReadWrite);
    let launched = queue.launch(folding(7), 1, &request(&accesses)).unwrap();
    launched.wait_timeout(FOR_EVER).unwrap();
    let [from] = access(memory, AccessMode::Read);
    // SAFETY: as above.
    let host = unsafe { HostMemory::new(bytes.as_mut_ptr(), 8, None) };
    let read = queue.read(from, host, 8, &[], &[]).unwrap();
    read.wait_timeout(FOR_EVER).unwrap();
    u64::from_le_bytes(bytes)
}

#[test]
fn what_does_not_wait_for_it_overtakes_what_is_held_up() {
    if !cuda_or_skip() {
        return;
    }
    for device in devices().unwrap() {
        let context = Context::new(std::slice::from_ref(&device)).unwrap();
        let queue = |in_order| {
            let options = QueueOptions {
                in_order,
                ..QueueOptions::default()
            };
            context.queue(&device, options).unwrap()
        };
        // One queue without an order, and two with one.
        let unordered = queue(false);
        for (one, other) in [(unordered.clone(), unordered), (queue(true), queue(true))] {
            let [x, y] = [(); 2].map(|()| context.memory(8).unwrap());
            // All that is compiled and made when it is first used.
            for memory in [&x, &y] {
                assert_eq!(work(&other, memory, 5), 5 * 31 + 7);
            }
            let held = hold(&one, &x);
            let accesses = access(&x, AccessMode::ReadWrite);
            let after = one.launch(folding(8), 1, &request(&accesses)).unwrap();
            // A copy to the host that waits for that, and one from there that waits for the first.
            let (mut landed, bytes) = ([0_u8; 8], 9_u64.to_le_bytes());
            let [from] = access(&x, AccessMode::Read);
            // SAFETY: both are there until the copies are over; each is waited for.
            let host = unsafe { HostMemory::new(landed.as_mut_ptr(), 8, None) };
            let read = one.read(from, host, 8, &[], &[]).unwrap();
            let [to] = access(&x, AccessMode::Overwrite);
            // SAFETY: as above; it is only read.
            let host = unsafe { HostMemory::new(bytes.as_ptr().cast_mut(), 8, None) };
            let written = one.write(host, to, 8, &[], &[]).unwrap();
            for number in 0..20 {
                assert_eq!(work(&other, &y, number), number * 31 + 7);
            }
            for waiting in [&held.event, &after, &read, &written] {
                assert!(!waiting.is_complete());
            }
            held.raise();
            for waiting in [&held.event, &after, &read, &written] {
                waiting.wait().unwrap();
            }
            assert_eq!(u64::from_le_bytes(landed), (5 * 31 + 7) * 31 + 8);
        }
    }
}

#[test]
fn devices_reach_each_other_where_they_can() {
    if !cuda_or_skip() {
        return;
    }
    let devices = devices().unwrap();
    let [first, second, ..] = &*devices else {
        eprintln!("\n*** NOT TESTED: copies between CUDA devices, of which there is one.\n");
        return;
    };
    let context = Context::new(&devices).unwrap();
    let queue = |device| context.queue(device, QueueOptions::default()).unwrap();
    let (here, there) = (queue(first), queue(second));
    let memory = context.memory(8).unwrap();
    assert_eq!(work(&here, &memory, 3), 3 * 31 + 7);
    // Its content is on the first device, and wanted by the second.
    let accesses = access(&memory, AccessMode::ReadWrite);
    let launched = there.launch(folding(1), 1, &request(&accesses)).unwrap();
    launched.wait().unwrap();
    let (send, native) = mpsc::channel();
    for queue in [&here, &there] {
        let send = send.clone();
        let call = move |native: &CudaQueue, _: Vec<CudaMemory>| {
            let sent = (native.device(), native.context() as usize);
            send.send(sent).unwrap();
            Ok(())
        };
        // SAFETY: it puts nothing anywhere.
        let asked = unsafe { queue.native_enqueue(NativeEnqueue::new(call), &Request::default()) };
        asked.unwrap().wait().unwrap();
    }
    let both = [native.recv().unwrap(), native.recv().unwrap()];
    for [(device, context), (other, others)] in [both, [both[1], both[0]]] {
        let mut can = 0;
        // SAFETY: asks, and enables access that is on already.
        let enabled = unsafe {
            sys::cuDeviceCanAccessPeer(&raw mut can, device, other);
            sys::cuCtxSetCurrent(context as sys::CUcontext);
            sys::cuCtxEnablePeerAccess(others as sys::CUcontext, 0)
        };
        if can == 0 {
            eprintln!(
                "\n*** NOT TESTED: straight copies between CUDA devices {device} and {other}.\n"
            );
        } else {
            assert_eq!(enabled, CUresult::CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED);
        }
    }
}
