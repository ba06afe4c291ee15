//! Memory of OpenCL devices: zeroed, accounted for, refused with sizes.
#![allow(clippy::unwrap_used, reason = "helpers assert by unwrapping")]

mod support;

use quipu_scheduler::error::ErrorKind;
use quipu_scheduler::operation::HostMemory;
use quipu_scheduler::{Access, AccessMode, Context, MemoryRef, Queue, QueueOptions};
use support::{devices, opencl_or_skip};

fn read(queue: &Queue, memory: &MemoryRef) -> Vec<u8> {
    let mut bytes = vec![0xee; memory.size() as usize];
    // SAFETY: the bytes are there until the read is over, and nobody else looks.
    let host = unsafe { HostMemory::new(bytes.as_mut_ptr(), bytes.len(), None) };
    let access = Access::whole(memory, AccessMode::Read);
    let event = queue.read(access, host, memory.size(), &[], &[]).unwrap();
    event.wait().unwrap();
    bytes
}

#[test]
fn memory_is_zero_taken_when_it_is_used_and_given_back() {
    if !opencl_or_skip() {
        return;
    }
    for device in devices().unwrap() {
        let context = Context::new(std::slice::from_ref(&device)).unwrap();
        let queue = context.queue(&device, QueueOptions::default()).unwrap();
        let before = device.free_memory().unwrap();
        for size in [1, 3, 4096, 1 << 20] {
            let memory = context.memory(size).unwrap();
            assert_eq!(device.free_memory().unwrap(), before);
            assert!(read(&queue, &memory).iter().all(|byte| *byte == 0));
            assert_eq!(device.free_memory().unwrap(), before - size);
            queue
                .fill(Access::whole(&memory, AccessMode::Overwrite), &[5], &[])
                .unwrap();
            assert!(read(&queue, &memory).iter().all(|byte| *byte == 5));
            queue.wait().unwrap();
            drop(memory);
            assert_eq!(device.free_memory().unwrap(), before);
        }
    }
}

#[test]
fn a_buffer_that_is_too_large_for_the_device_is_refused_with_sizes() {
    if !opencl_or_skip() {
        return;
    }
    for device in devices().unwrap() {
        let context = Context::new(std::slice::from_ref(&device)).unwrap();
        let queue = context.queue(&device, QueueOptions::default()).unwrap();
        let most = device.properties().max_buffer;
        let memory = context.memory(most + 4).unwrap();
        let filled = queue
            .fill(Access::whole(&memory, AccessMode::Overwrite), &[0; 4], &[])
            .unwrap();
        let error = filled.wait().unwrap_err();
        assert!(
            matches!(error.kind(), ErrorKind::InvalidSize { .. }),
            "{error}"
        );
        let text = error.to_string();
        for part in [
            (most + 4).to_string(),
            most.to_string(),
            "split it".to_owned(),
        ] {
            assert!(text.contains(&part), "'{part}' in {text}");
        }
        // Later memory is not touched by it.
        let small = context.memory(64).unwrap();
        assert_eq!(read(&queue, &small), vec![0; 64]);
    }
}
