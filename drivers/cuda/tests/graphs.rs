//! What becomes graphs of CUDA's: recorded ones, and commands that are held back.
#![allow(clippy::unwrap_used, reason = "a promise that is not kept panics")]

mod support;

use quipu_conformance::{Watchdog, folding};
use quipu_core::graph::NodeRequest;
use quipu_core::operation::HostMemory;
use quipu_core::{
    Access, AccessMode, Context, Device, Driver, MemoryRef, Queue, QueueOptions, Recording,
    Request, UserEvent,
};
use quipu_driver_cuda::CudaDriver;
use quipu_driver_vendor::batch::FEWEST;
use std::sync::Arc;
use std::time::Duration;
use support::cuda_or_skip;

fn rig() -> (Arc<CudaDriver>, Context, Queue, MemoryRef) {
    let driver = CudaDriver::start().unwrap();
    let dynamic: Arc<dyn Driver> = driver.clone();
    let devices = Device::all_of(&dynamic).unwrap();
    let context = Context::new(&devices[..1]).unwrap();
    let queue = context.queue(&devices[0], QueueOptions::default()).unwrap();
    let memory = context.memory(8).unwrap();
    (driver, context, queue, memory)
}

fn all(memory: &MemoryRef, mode: AccessMode) -> Access<'_> {
    Access {
        memory,
        offset: 0,
        length: 8,
        mode,
    }
}

fn read(queue: &Queue, memory: &MemoryRef) -> u64 {
    let mut bytes = [0xee_u8; 8];
    // SAFETY: the bytes are there until the read is over, and nobody else looks.
    let host = unsafe { HostMemory::new(bytes.as_mut_ptr(), bytes.len(), None) };
    let access = all(memory, AccessMode::Read);
    let read = queue.read(access, host, 8, &[], &[]).unwrap();
    read.wait().unwrap();
    u64::from_le_bytes(bytes)
}

fn folded(numbers: impl IntoIterator<Item = u64>) -> u64 {
    let numbers = numbers.into_iter();
    numbers.fold(0, |x: u64, n| x.wrapping_mul(31).wrapping_add(n))
}

#[test]
fn a_recorded_graph_is_taken() {
    if !cuda_or_skip() {
        return;
    }
    let (_driver, context, queue, memory) = rig();
    let accesses = [all(&memory, AccessMode::ReadWrite)];
    let request = NodeRequest {
        accesses: &accesses,
        ..NodeRequest::default()
    };
    let mut recording = Recording::new(&context);
    for number in 0..50 {
        let launch = recording.launch(&queue, folding(number), 1, &request);
        launch.unwrap();
    }
    let graph = recording.finish().unwrap();
    assert!(graph.is_taken());
    for _ in 0..2 {
        let launched = queue.launch_graph(&graph, &[], None).unwrap();
        launched.wait().unwrap();
    }
    let expected = folded((0..50).chain(0..50));
    assert_eq!(read(&queue, &memory), expected);
}

#[test]
fn a_chain_that_is_held_back_leaves_as_batches() {
    if !cuda_or_skip() {
        return;
    }
    // Commands that are known to take long go one by one, and so do these where others use the GPU at the same time.
    let what = "a chain that is to leave as batches; run this alone on its GPU".to_owned();
    let _watchdog = Watchdog::start(Duration::from_secs(60), what);
    let (driver, context, queue, memory) = rig();
    let other = context.memory(8).unwrap();
    // The first of a process takes long, as its GPU begins with it; the shortest time is what is known of the next.
    for number in 0..20 {
        let accesses = [all(&other, AccessMode::ReadWrite)];
        let request = Request {
            accesses: &accesses,
            ..Request::default()
        };
        let warm = queue.launch(folding(number), 1, &request).unwrap();
        warm.wait().unwrap();
    }
    let count = 1000;
    for round in 0..3 {
        let gate = UserEvent::new();
        let launch = |number: u64| {
            let gate = [gate.event()];
            let accesses = [all(&memory, AccessMode::ReadWrite)];
            let request = Request {
                accesses: &accesses,
                waits: &gate[usize::from(number > 0)..],
                ..Request::default()
            };
            queue.launch(folding(number), 1, &request).unwrap()
        };
        let events: Vec<_> = (0..count).map(launch).collect();
        let fill = all(&memory, AccessMode::Read);
        let copy = all(&other, AccessMode::Overwrite);
        let copied = queue.copy(fill, copy, 8, &[], &[]).unwrap();
        queue.flush();
        while driver.batches().ready < count - FEWEST as u64 {
            assert_eq!(driver.batches().failed, 0);
            std::thread::yield_now();
        }
        gate.complete();
        for event in events {
            event.wait().unwrap();
        }
        copied.wait().unwrap();
        let expected = folded((0..=round).flat_map(|_| 0..count));
        assert_eq!(read(&queue, &memory), expected);
        assert_eq!(read(&queue, &other), expected);
    }
    let counts = driver.batches();
    assert!(
        counts.put > 0 && counts.commands >= 3 * (count - FEWEST as u64),
        "{counts:?}"
    );
}
