//! Large copies through pinned memory, which devices whose memory is the host's do not use by
//! themselves.
#![allow(clippy::unwrap_used, reason = "helpers assert by unwrapping")]

mod support;

use quipu_conformance::{fixture, folding, graph};
use quipu_device_queue::Vendor;
use quipu_driver_cpu::{CpuDriver, Options};
use quipu_driver_opencl::{OpenCl, OpenClDriver};
use quipu_scheduler::memory::pinned::Pinning;
use quipu_scheduler::operation::HostMemory;
use quipu_scheduler::{
    Access, AccessMode, Context, Device, Driver, MemoryRef, Queue, QueueOptions, Request, Result,
};
use std::sync::Arc;
use support::opencl_or_skip;

const MIB: u64 = 1 << 20;

fn devices(is_staged: bool) -> Result<Vec<Device>> {
    let driver: Arc<dyn Driver> = OpenClDriver::over(OpenCl::open()?.staged(is_staged))?;
    Device::all_of(&driver)
}

fn part(memory: &MemoryRef, offset: u64, length: u64, mode: AccessMode) -> Access<'_> {
    Access {
        memory,
        offset,
        length,
        mode,
    }
}

fn write(queue: &Queue, bytes: &mut [u8], memory: &MemoryRef, offset: u64) {
    let length = bytes.len() as u64;
    // SAFETY: the bytes are there until the write is over, and only read.
    let host = unsafe { HostMemory::new(bytes.as_mut_ptr(), bytes.len(), None) };
    let access = part(memory, offset, length, AccessMode::Overwrite);
    let event = queue.write(host, access, length, &[], &[]).unwrap();
    event.wait().unwrap();
}

fn read(queue: &Queue, memory: &MemoryRef, offset: u64, bytes: &mut [u8]) {
    let length = bytes.len() as u64;
    // SAFETY: the bytes are there until the read is over, and nobody else looks.
    let host = unsafe { HostMemory::new(bytes.as_mut_ptr(), bytes.len(), None) };
    let access = part(memory, offset, length, AccessMode::Read);
    let event = queue.read(access, host, length, &[], &[]).unwrap();
    event.wait().unwrap();
}

fn fold(queue: &Queue, memory: &MemoryRef, number: u64) {
    // All of it is brought there.
    let accesses = [part(memory, 0, memory.size(), AccessMode::ReadWrite)];
    let request = Request {
        accesses: &accesses,
        ..Request::default()
    };
    queue.launch(folding(number), 1, &request).unwrap();
}

#[test]
fn copies_of_every_size_come_through() {
    if !opencl_or_skip() {
        return;
    }
    for device in devices(true).unwrap() {
        let context = Context::new(std::slice::from_ref(&device)).unwrap();
        let queue = context.queue(&device, QueueOptions::default()).unwrap();
        for length in [
            MIB,
            MIB + 1,
            2 * MIB - 1,
            2 * MIB,
            2 * MIB + 1,
            4 * MIB,
            4 * MIB + 5,
            11 * MIB + 3,
        ] {
            for offset in [0, 13] {
                let memory = context.memory(length + 2 * offset).unwrap();
                let mut bytes: Vec<u8> = (0..length).map(|n| ((n * 31) >> 7) as u8).collect();
                write(&queue, &mut bytes, &memory, offset);
                let mut back = vec![0xee; (length + 2 * offset) as usize];
                read(&queue, &memory, 0, &mut back);
                let (start, end) = (offset as usize, (offset + length) as usize);
                assert!(back[start..end] == bytes, "{length} at {offset}");
                assert!(
                    back[..start]
                        .iter()
                        .chain(&back[end..])
                        .all(|byte| *byte == 0)
                );
                back.fill(0xee);
                read(&queue, &memory, offset, &mut back[..length as usize]);
                assert!(back[..length as usize] == bytes, "{length} at {offset}");
            }
        }
    }
}

#[test]
fn what_is_brought_to_the_host_and_back_is_whole() {
    if !opencl_or_skip() {
        return;
    }
    let mut all = devices(true).unwrap();
    let pool: Arc<dyn Driver> = CpuDriver::start(Options::new()).unwrap();
    all.extend(Device::all_of(&pool).unwrap());
    let context = Context::new(&all).unwrap();
    let queues = all
        .iter()
        .map(|device| context.queue(device, QueueOptions::default()).unwrap());
    let queues: Vec<Queue> = queues.collect();
    for length in [3 * MIB, 7 * MIB + 8] {
        let memory = context.memory(length).unwrap();
        let mut bytes: Vec<u8> = (0..length).map(|n| ((n * 31) >> 7) as u8).collect();
        write(&queues[0], &mut bytes, &memory, 0);
        let first: [u8; 8] = bytes[..8].try_into().unwrap();
        let mut model = u64::from_le_bytes(first);
        for round in 0..6 {
            for queue in &queues {
                fold(queue, &memory, round);
                model = model.wrapping_mul(31).wrapping_add(round);
            }
        }
        bytes[..8].copy_from_slice(&model.to_le_bytes());
        let mut back = vec![0xee; length as usize];
        read(&queues[0], &memory, 0, &mut back);
        assert!(back == bytes);
    }
}

/// Of every size, the first time, when OpenCL is told of it, and later, when it goes by itself.
#[test]
fn memory_that_stays_where_it_is_goes_and_comes_back_as_it_was() {
    if !opencl_or_skip() {
        return;
    }
    for device in devices(true).unwrap() {
        let context = Context::new(std::slice::from_ref(&device)).unwrap();
        let queue = context.queue(&device, QueueOptions::default()).unwrap();
        for length in [64, 4096, MIB, MIB + 8, 7 * MIB + 8] {
            let memory = context.memory(length).unwrap();
            let size = length as usize;
            let (mut sent, mut back) = (vec![0_u8; size], vec![0_u8; size]);
            // SAFETY: both are mapped until these are gone, and all transfers are waited for.
            let _stay = unsafe {
                [
                    Pinning::new(sent.as_mut_ptr(), size),
                    Pinning::new(back.as_mut_ptr(), size),
                ]
            };
            for round in 0..3 {
                for (number, byte) in (0_u64..).zip(&mut sent) {
                    *byte = ((number * 31 + round) >> 7) as u8;
                }
                write(&queue, &mut sent, &memory, 0);
                fold(&queue, &memory, round);
                let first: [u8; 8] = sent[..8].try_into().unwrap();
                let folded = u64::from_le_bytes(first)
                    .wrapping_mul(31)
                    .wrapping_add(round);
                read(&queue, &memory, 0, &mut back);
                assert_eq!(back[..8], folded.to_le_bytes(), "{length}, round {round}");
                assert!(back[8..] == sent[8..], "{length}, round {round}");
                // And a part of it.
                read(&queue, &memory, 8, &mut back[..size / 2]);
                assert!(
                    back[..size / 2] == sent[8..][..size / 2],
                    "{length}, round {round}"
                );
            }
        }
    }
}

/// More reads than places in pinned memory, of every size, each behind a command that changes its
/// bytes.
#[test]
fn many_reads_at_once_bring_what_was_there() {
    if !opencl_or_skip() {
        return;
    }
    for device in devices(true).unwrap() {
        let context = Context::new(std::slice::from_ref(&device)).unwrap();
        let queue = context.queue(&device, QueueOptions::default()).unwrap();
        let memory = context.memory(MIB + 16).unwrap();
        let mut bytes: Vec<u8> = (0..MIB + 16).map(|n| ((n * 31) >> 7) as u8).collect();
        write(&queue, &mut bytes, &memory, 0);
        let lengths = [
            8,
            9,
            4 << 10,
            100_001,
            256 << 10,
            (256 << 10) + 1,
            MIB,
            MIB + 16,
        ];
        for round in 0..3_u64 {
            let mut back: Vec<Vec<u8>> = (0..120)
                .map(|number| vec![0xee; lengths[number % lengths.len()] as usize + 1])
                .collect();
            let mut folded = Vec::new();
            for back in &mut back {
                fold(&queue, &memory, round);
                let first: [u8; 8] = bytes[..8].try_into().unwrap();
                let first = u64::from_le_bytes(first).wrapping_mul(31);
                bytes[..8].copy_from_slice(&first.wrapping_add(round).to_le_bytes());
                folded.push(bytes[..8].to_vec());
                let length = back.len() - 1;
                // SAFETY: waited for below; nobody else looks.
                let host = unsafe { HostMemory::new(back.as_mut_ptr(), length, None) };
                let access = part(&memory, 0, length as u64, AccessMode::Read);
                queue.read(access, host, length as u64, &[], &[]).unwrap();
            }
            queue.wait().unwrap();
            for (back, folded) in back.iter().zip(&folded) {
                let (end, back) = back.split_last().unwrap();
                assert_eq!((&back[..8], *end), (&folded[..], 0xee), "{}", back.len());
                assert!(back[8..] == bytes[8..back.len()], "{}", back.len());
            }
        }
    }
}

#[test]
fn random_graphs_with_staging() {
    if !opencl_or_skip() {
        return;
    }
    let staged = fixture::of("staged OpenCL", || devices(true));
    let staged = staged.without_priorities().with_longest_chain(5_000);
    graph::random_graphs(20, 29, &staged);
}
