//! Parts of OpenCL devices: devices themselves, in the memory of the whole.
#![allow(clippy::unwrap_used, reason = "helpers assert by unwrapping")]

mod support;

use quipu_conformance::{fixture, folding, graph};
use quipu_scheduler::error::ErrorKind;
use quipu_scheduler::operation::HostMemory;
use quipu_scheduler::{
    Access, AccessMode, Context, Device, DeviceKind, MemoryRef, Partition, Queue, QueueOptions,
    Request, Result,
};
use support::{devices, opencl_or_skip};

/// True if there is a device that can be split: processors can, and graphics cards cannot.
fn parts_or_skip() -> bool {
    if !opencl_or_skip() {
        return false;
    }
    let devices = devices().unwrap();
    let any = devices
        .iter()
        .any(|device| device.properties().kind == DeviceKind::Cpu);
    if !any {
        eprintln!("\n*** NOT TESTED: parts of OpenCL devices. None of these can be split.\n");
    }
    any
}

/// The first device that can be split, and its parts of one multiprocessor each.
fn split() -> Result<(Device, Vec<Device>)> {
    let mut refused = None;
    for device in devices()? {
        match device.partition(&Partition::Equally(1)) {
            Ok(parts) => return Ok((device, parts)),
            Err(why) => refused = Some(why),
        }
    }
    let none = || ErrorKind::FailedByHost {
        reason: "there are no devices".to_owned(),
    };
    Err(refused.unwrap_or_else(|| none().into()))
}

fn fold(queue: &Queue, memory: &MemoryRef, number: u64) {
    let accesses = [Access {
        memory,
        offset: 0,
        length: 8,
        mode: AccessMode::ReadWrite,
    }];
    let request = Request {
        accesses: &accesses,
        ..Request::default()
    };
    queue.launch(folding(number), 1, &request).unwrap();
}

fn read(queue: &Queue, memory: &MemoryRef) -> u64 {
    let mut bytes = [0xee_u8; 8];
    // SAFETY: the bytes are there until the read is over, and nobody else looks.
    let host = unsafe { HostMemory::new(bytes.as_mut_ptr(), 8, None) };
    let access = Access {
        memory,
        offset: 0,
        length: 8,
        mode: AccessMode::Read,
    };
    let event = queue.read(access, host, 8, &[], &[]).unwrap();
    event.wait().unwrap();
    u64::from_le_bytes(bytes)
}

#[test]
fn parts_work_on_the_memory_of_the_whole() {
    if !parts_or_skip() {
        return;
    }
    let (device, parts) = split().unwrap();
    let units = device.properties().multiprocessors;
    assert_eq!(parts.len(), units as usize);
    let context = Context::new(std::slice::from_ref(&device)).unwrap();
    let all = parts.iter().chain([&device]);
    let queues: Vec<Queue> = all
        .map(|device| context.queue(device, QueueOptions::default()).unwrap())
        .collect();
    let memory = context.memory(8).unwrap();
    let mut model = 0_u64;
    for round in 0..30 {
        for queue in &queues {
            fold(queue, &memory, round);
            model = model.wrapping_mul(31).wrapping_add(round);
        }
    }
    assert_eq!(read(&queues[0], &memory), model);
    // It is in one place.
    assert_eq!(memory.allocated_in(), [device.space()]);
    for part in &parts {
        assert_eq!(part.properties().multiprocessors, 1);
        assert_eq!(part.space(), device.space());
        assert_eq!(part.free_memory(), device.free_memory());
    }
}

#[test]
fn the_parts_of_a_splitting_that_is_gone_are_had_again() {
    if !parts_or_skip() {
        return;
    }
    let (device, parts) = split().unwrap();
    let numbers = |parts: &[Device]| parts.iter().map(Device::index).collect::<Vec<_>>();
    let first = numbers(&parts);
    drop(parts);
    for _ in 0..100 {
        let again = device.partition(&Partition::Equally(1)).unwrap();
        assert_eq!(numbers(&again), first);
        let others = device.partition(&Partition::ByCounts(vec![1])).unwrap();
        assert!(!first.contains(&others[0].index()));
        // A queue keeps its part.
        let context = Context::new(std::slice::from_ref(&device)).unwrap();
        let queue = context.queue(&others[0], QueueOptions::default()).unwrap();
        let kept = others[0].index();
        drop(others);
        let more = device.partition(&Partition::ByCounts(vec![1])).unwrap();
        assert_ne!(more[0].index(), kept);
        let memory = context.memory(8).unwrap();
        fold(&queue, &memory, 7);
        assert_eq!(read(&queue, &memory), 7);
    }
}

#[test]
fn what_there_are_no_parts_of_is_refused() {
    if !opencl_or_skip() {
        return;
    }
    let device = devices().unwrap().remove(0);
    let units = device.properties().multiprocessors;
    for partition in [
        Partition::Equally(0),
        Partition::Equally(units + 1),
        Partition::ByCounts(vec![]),
        Partition::ByCounts(vec![0]),
        Partition::ByCounts(vec![units, 1]),
        Partition::ByCounts(vec![u32::MAX, u32::MAX]),
    ] {
        let error = device.partition(&partition).unwrap_err();
        assert!(
            matches!(error.kind(), ErrorKind::InvalidArgument { .. }),
            "{partition:?}: {error}"
        );
        assert!(error.to_string().contains(device.name()), "{error}");
    }
}

#[test]
fn random_graphs_over_a_device_and_its_parts() {
    if !parts_or_skip() {
        return;
    }
    let parts = fixture::of("OpenCL parts", || {
        let (device, mut all) = split()?;
        all.push(device);
        Ok(all)
    });
    let parts = parts.without_priorities().with_longest_chain(5_000);
    graph::random_graphs(40, 23, &parts);
}
