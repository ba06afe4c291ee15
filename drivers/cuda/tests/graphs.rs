//! Graphs of CUDA's: of recorded ones, and of commands that are held back.
#![allow(clippy::unwrap_used, reason = "helpers assert by unwrapping")]

mod support;

use quipu_conformance::{Watchdog, folding};
use quipu_device_queue::batch::FEWEST;
use quipu_driver_cuda::CudaDriver;
use quipu_scheduler::graph::NodeRequest;
use quipu_scheduler::operation::HostMemory;
use quipu_scheduler::{
    Access, AccessMode, Context, Device, Driver, Event, MemoryRef, Queue, QueueOptions, Recording,
    Request, UserEvent,
};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use support::cuda_or_skip;

/// No other test uses the GPU as long as this lives: long tests go one by one.
fn alone() -> MutexGuard<'static, ()> {
    static ONE: Mutex<()> = Mutex::new(());
    ONE.lock().unwrap_or_else(PoisonError::into_inner)
}

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
    let _alone = alone();
    let (_driver, context, queue, memory) = rig();
    let accesses = [all(&memory, AccessMode::ReadWrite)];
    let request = NodeRequest {
        accesses: &accesses,
        ..NodeRequest::default()
    };
    let recording = Recording::new(&context);
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

/// Launches on memory of their own until their duration is known: the first of a process takes
/// long, as its GPU begins with it, and the shortest time is taken for the next.
fn warm(context: &Context, queue: &Queue) {
    let memory = context.memory(8).unwrap();
    for number in 0..20 {
        fold(queue, &memory, number, &[]).wait().unwrap();
    }
}

fn fold(queue: &Queue, memory: &MemoryRef, number: u64, waits: &[Event]) -> Event {
    let accesses = [all(memory, AccessMode::ReadWrite)];
    let request = Request {
        accesses: &accesses,
        waits,
        ..Request::default()
    };
    queue.launch(folding(number), 1, &request).unwrap()
}

/// Commands of a batch, which take no longer than a batch may, though of some it is not known how
/// long.
const SOME: u64 = FEWEST as u64;

/// Has some commands wait, and returns when they are a batch that is made.
fn held_back(driver: &CudaDriver, queue: &Queue, memory: &MemoryRef) -> (UserEvent, Vec<Event>) {
    let gate = UserEvent::new();
    let gates = [gate.event()];
    let fold = |number: u64| fold(queue, memory, number, &gates[usize::from(number > 0)..]);
    let events = (0..SOME).map(fold).collect();
    queue.flush();
    while driver.batches().ready < SOME {
        assert_eq!(driver.batches().failed, 0);
        std::thread::yield_now();
    }
    (gate, events)
}

/// A batch takes a fraction of a millisecond, so its notices depend on the time of a look: it has
/// to be seen once.
#[test]
fn the_first_of_a_batch_end_before_its_last() {
    if !cuda_or_skip() {
        return;
    }
    let _alone = alone();
    let what = "a batch whose first command ends before its last; run this alone on its GPU";
    let _watchdog = Watchdog::start(Duration::from_secs(60), what.to_owned());
    let (driver, context, queue, memory) = rig();
    warm(&context, &queue);
    let seen = Arc::new(AtomicBool::new(false));
    let mut rounds = 0;
    while !seen.load(Ordering::SeqCst) {
        let (gate, events) = held_back(&driver, &queue, &memory);
        let [first, .., last] = &*events else {
            unreachable!("there are many")
        };
        let (seen, last) = (seen.clone(), last.clone());
        let note = last.clone();
        first.on_complete(move |_| {
            seen.fetch_or(!note.is_complete(), Ordering::SeqCst);
        });
        gate.complete();
        last.wait().unwrap();
        rounds += 1;
    }
    let expected = folded((0..rounds).flat_map(|_| 0..SOME));
    assert_eq!(read(&queue, &memory), expected);
    assert_eq!(driver.batches().put, rounds);
}

/// Each by the error of its own kernel, also if that is noticed before the batch is over.
#[test]
fn what_fails_in_a_batch_says_so() {
    if !cuda_or_skip() {
        return;
    }
    let _alone = alone();
    let what = "a batch some of whose commands fail; run this alone on its GPU".to_owned();
    let _watchdog = Watchdog::start(Duration::from_secs(60), what);
    let (driver, context, queue, first) = rig();
    warm(&context, &queue);
    let rounds = 20;
    for _ in 0..rounds {
        // A command that computes from failed bytes has failed.
        let others: Vec<MemoryRef> = (1..SOME).map(|_| context.memory(8).unwrap()).collect();
        let gate = UserEvent::new();
        let begin = fold(&queue, &first, 0, &[gate.event()]);
        let waits = [begin.clone()];
        let launch = |(number, memory): (usize, &MemoryRef)| {
            // Of four bytes, it reads and writes eight.
            let length = if number % 2 == 0 { 8 } else { 4 };
            let accesses = [Access {
                length,
                ..all(memory, AccessMode::ReadWrite)
            }];
            let request = Request {
                accesses: &accesses,
                waits: &waits,
                ..Request::default()
            };
            queue.launch(folding(1), 1, &request).unwrap()
        };
        let events: Vec<Event> = others.iter().enumerate().map(launch).collect();
        queue.flush();
        while driver.batches().ready < SOME {
            assert_eq!(driver.batches().failed, 0);
            std::thread::yield_now();
        }
        gate.complete();
        begin.wait().unwrap();
        for (number, (event, memory)) in events.iter().zip(&others).enumerate() {
            let is_right = number % 2 == 0;
            assert_eq!(event.wait().is_ok(), is_right, "{number}");
            if is_right {
                assert_eq!(read(&queue, memory), 1);
            }
        }
    }
    assert_eq!(driver.batches().put, rounds);
}

#[test]
fn a_chain_that_is_held_back_leaves_as_batches() {
    if !cuda_or_skip() {
        return;
    }
    let _alone = alone();
    // Commands that are known to take long go one by one, and so do these where others use the GPU
    // at the same time.
    let what = "a chain that is to leave as batches; run this alone on its GPU".to_owned();
    let _watchdog = Watchdog::start(Duration::from_secs(60), what);
    let (driver, context, queue, memory) = rig();
    let other = context.memory(8).unwrap();
    warm(&context, &queue);
    let count = 1000;
    for round in 0..3 {
        let gate = UserEvent::new();
        let launch = |number: u64| {
            let gate = [gate.event()];
            fold(&queue, &memory, number, &gate[usize::from(number > 0)..])
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
