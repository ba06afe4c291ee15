//! Native enqueues: closures that put work of their own into CUDA's streams, with CUDA's own
//! functions.
#![allow(clippy::unwrap_used, reason = "helpers assert by unwrapping")]

mod support;

use cudarc::driver::sys::{self, CUresult};
use quipu_driver_cuda::{CudaMemory, CudaQueue};
use quipu_scheduler::error::ErrorKind;
use quipu_scheduler::operation::HostMemory;
use quipu_scheduler::{
    Access, AccessMode, Context, Event, MemoryRef, NativeEnqueue, Queue, QueueOptions, Request,
    Result,
};
use support::{cuda_or_skip, devices};

const BYTES: u64 = 1 << 16;

fn part(memory: &MemoryRef, offset: u64, length: u64, mode: AccessMode) -> Access<'_> {
    Access {
        memory,
        offset,
        length,
        mode,
    }
}

fn fill(queue: &Queue, memory: &MemoryRef, byte: u8) -> Event {
    let access = part(memory, 0, BYTES, AccessMode::Overwrite);
    queue.fill(access, &[byte], &[]).unwrap()
}

fn read(queue: &Queue, memory: &MemoryRef) -> Result<Vec<u8>> {
    let mut bytes = vec![0xee; BYTES as usize];
    // SAFETY: the bytes are there until the read is over, and nobody else looks.
    let host = unsafe { HostMemory::new(bytes.as_mut_ptr(), bytes.len(), None) };
    let access = part(memory, 0, BYTES, AccessMode::Read);
    queue.read(access, host, BYTES, &[], &[])?.wait()?;
    Ok(bytes)
}

/// Copies by hand; an error of CUDA's fails the command.
fn copy(queue: &Queue, from: Access<'_>, to: Access<'_>, more: usize) -> Event {
    let call = move |native: &CudaQueue, memories: Vec<CudaMemory>| {
        let [from, to] = [memories[0], memories[1]];
        let mut current = std::ptr::null_mut();
        // SAFETY: the call writes one pointer into `current`, a local variable.
        unsafe { sys::cuCtxGetCurrent(&raw mut current) };
        assert_eq!(current, native.context());
        let (from, to, bytes) = (from.address(), to.address(), from.length() + more);
        // SAFETY: the ranges are those that were declared, or CUDA refuses them.
        match unsafe { sys::cuMemcpyDtoDAsync_v2(to, from, bytes, native.stream()) } {
            CUresult::CUDA_SUCCESS => Ok(()),
            code => Err(ErrorKind::Kernel {
                what: "a native call".to_owned(),
                message: format!("{code:?}"),
            }
            .into()),
        }
    };
    let accesses = [from, to];
    let request = Request {
        accesses: &accesses,
        ..Request::default()
    };
    // SAFETY: as said.
    unsafe { queue.native_enqueue(NativeEnqueue::new(call), &request) }.unwrap()
}

#[test]
fn copies_by_hand_are_commands_between_others() {
    if !cuda_or_skip() {
        return;
    }
    for device in devices().unwrap() {
        let context = Context::new(std::slice::from_ref(&device)).unwrap();
        for in_order in [true, false] {
            let options = QueueOptions {
                in_order,
                ..QueueOptions::default()
            };
            let queue = context.queue(&device, options).unwrap();
            let [x, y] = [(); 2].map(|()| context.memory(BYTES).unwrap());
            for round in 0..100 {
                fill(&queue, &x, round);
                fill(&queue, &y, round + 1);
                let from = part(&x, 256, 512, AccessMode::Read);
                copy(&queue, from, part(&y, 1024, 512, AccessMode::Overwrite), 0);
                fill(&queue, &x, 200);
                let mut expected = vec![round + 1; BYTES as usize];
                expected[1024..1536].fill(round);
                assert_eq!(read(&queue, &y).unwrap(), expected);
            }
        }
    }
}

#[test]
fn a_refused_call_fails_its_command_alone() {
    if !cuda_or_skip() {
        return;
    }
    for device in devices().unwrap() {
        let context = Context::new(std::slice::from_ref(&device)).unwrap();
        let queue = context.queue(&device, QueueOptions::default()).unwrap();
        let [x, y] = [(); 2].map(|()| context.memory(BYTES).unwrap());
        fill(&queue, &x, 1);
        let (from, to) = (
            part(&x, 0, BYTES, AccessMode::Read),
            part(&y, 0, BYTES, AccessMode::Overwrite),
        );
        let error = copy(&queue, from, to, 1 << 45).wait().unwrap_err();
        assert!(error.to_string().contains("INVALID"), "{error}");
        read(&queue, &y).unwrap_err();
        copy(&queue, from, to, 0).wait().unwrap();
        assert_eq!(read(&queue, &y).unwrap(), vec![1; BYTES as usize]);
    }
}
