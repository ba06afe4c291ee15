//! Work beyond a device's memory, without waits between: memory that no handed-over command uses
//! makes room, and is put back.

use crate::library::faults::{Fault, Faults, next};
use crate::library::{FakeMemory, FakeQueue, Refusal, stage_with};
use quipu_conformance::folding;
use quipu_scheduler::error::ErrorKind;
use quipu_scheduler::graph::NodeRequest;
use quipu_scheduler::operation::HostMemory;
use quipu_scheduler::{
    Access, AccessMode, Completion, Context, Device, Event, Graph, MemoryRef, NativeEnqueue, Queue,
    QueueOptions, RawArgument, Recording, Request, Result, UserEvent,
};
use std::sync::{Arc, mpsc};

/// Bytes of a device's memory.
const MEMORY: u64 = 4096;

fn part(memory: &MemoryRef, offset: u64, length: u64, mode: AccessMode) -> Access<'_> {
    Access {
        memory,
        offset,
        length,
        mode,
    }
}

fn request<'a>(accesses: &'a [Access<'a>], waits: &'a [Event]) -> Request<'a> {
    Request {
        accesses,
        waits,
        ..Request::default()
    }
}

struct Rig {
    devices: Vec<Device>,
    context: Context,
    faults: Arc<Faults>,
    queues: Vec<Queue>,
}

impl Rig {
    fn new(ordered: bool, seed: u64, completion: Completion) -> Self {
        let (devices, context, faults) = stage_with(ordered, seed, MEMORY);
        let options = QueueOptions {
            completion,
            ..QueueOptions::default()
        };
        let queues = devices.iter().map(|device| context.queue(device, options));
        let queues = queues.map(Result::unwrap).collect();
        Self {
            devices,
            context,
            faults,
            queues,
        }
    }

    fn memories(&self, count: usize, size: u64) -> Vec<MemoryRef> {
        (0..count)
            .map(|_| self.context.memory(size).unwrap())
            .collect()
    }
}

fn each(test: impl Fn(&Rig)) {
    for (seed, ordered) in [(1, false), (2, true)] {
        for completion in [Completion::Callback, Completion::Polling] {
            let rig = Rig::new(ordered, seed, completion);
            test(&rig);
            rig.queues.iter().for_each(|queue| queue.wait().unwrap());
            assert_eq!(rig.faults.violations(), [""; 0]);
        }
    }
}

fn fill(queue: &Queue, memory: &MemoryRef, byte: u8, waits: &[Event]) -> Event {
    let access = Access::whole(memory, AccessMode::Overwrite);
    queue.fill(access, &[byte], waits).unwrap()
}

/// Each byte times three, and one.
fn step(byte: u8) -> u8 {
    byte.wrapping_mul(3).wrapping_add(1)
}

/// From one to the other, or where it is, by a thread of the host.
fn task(queue: &Queue, from: &MemoryRef, to: &MemoryRef) -> Event {
    let accesses = [
        Access::whole(from, AccessMode::Read),
        Access::whole(to, AccessMode::Overwrite),
    ];
    let run = |arguments: &[RawArgument]| {
        let [from, to] = [arguments[0], arguments[1]];
        for at in 0..from.length {
            // SAFETY: both have so many bytes, which are this command's.
            unsafe { to.pointer.add(at).write(step(from.pointer.add(at).read())) };
        }
        Ok(())
    };
    queue.host_task(run, &request(&accesses, &[])).unwrap()
}

/// The same, by parts that a closure puts there.
fn native(queue: &Queue, from: &MemoryRef, to: &MemoryRef) -> Event {
    let accesses = [
        Access::whole(from, AccessMode::Read),
        Access::whole(to, AccessMode::Overwrite),
    ];
    let call = |queue: &FakeQueue, memories: Vec<FakeMemory>| {
        let [from, to] = [memories[0], memories[1]];
        queue.put(move || {
            let (from, to) = (from, to);
            for at in 0..from.length {
                to.bytes()[at] = step(from.bytes()[at]);
            }
        });
        Ok(())
    };
    // SAFETY: it keeps to its declared accesses.
    unsafe { queue.native_enqueue(NativeEnqueue::new(call), &request(&accesses, &[])) }.unwrap()
}

fn copy(queue: &Queue, from: &MemoryRef, to: &MemoryRef) -> Event {
    let (from, to) = (
        Access::whole(from, AccessMode::Read),
        Access::whole(to, AccessMode::Overwrite),
    );
    queue.copy(from, to, from.length, &[], &[]).unwrap()
}

/// The first eight bytes times 31, and a number.
fn fold(queue: &Queue, memory: &MemoryRef, number: u64) -> Event {
    let accesses = [part(memory, 0, 8, AccessMode::ReadWrite)];
    let request = request(&accesses, &[]);
    queue.launch(folding(number), 1, &request).unwrap()
}

fn model_fold(bytes: &mut [u8], number: u64) {
    let cell: &mut [u8; 8] = (&mut bytes[..8]).try_into().unwrap();
    let folded = u64::from_le_bytes(*cell).wrapping_mul(31);
    *cell = folded.wrapping_add(number).to_le_bytes();
}

fn write(queue: &Queue, memory: &MemoryRef, byte: u8) -> Event {
    let bytes = Arc::new(vec![byte; memory.size() as usize]);
    let (pointer, length) = (bytes.as_ptr().cast_mut(), bytes.len());
    // SAFETY: kept until the write is over, and only read.
    let host = unsafe { HostMemory::new(pointer, length, Some(bytes)) };
    let access = Access::whole(memory, AccessMode::Overwrite);
    queue.write(host, access, memory.size(), &[], &[]).unwrap()
}

fn read(queue: &Queue, memory: &MemoryRef) -> Result<Vec<u8>> {
    let mut bytes = vec![0xee; memory.size() as usize];
    // SAFETY: the bytes are there until the read is over, and nobody else looks.
    let host = unsafe { HostMemory::new(bytes.as_mut_ptr(), bytes.len(), None) };
    let access = Access::whole(memory, AccessMode::Read);
    queue.read(access, host, memory.size(), &[], &[])?.wait()?;
    Ok(bytes)
}

#[test]
fn commands_that_need_more_memory_than_there_is_take_turns() {
    each(|rig| {
        let buffers = rig.memories(40, MEMORY / 4);
        let gate = UserEvent::new();
        for (number, buffer) in (0..).zip(&buffers) {
            fill(&rig.queues[0], buffer, number, &[gate.event().clone()]);
        }
        for buffer in &buffers {
            fold(&rig.queues[0], buffer, 7);
        }
        rig.queues[0].flush();
        gate.complete();
        for (number, buffer) in (0..).zip(&buffers) {
            let mut model = vec![number; MEMORY as usize / 4];
            model_fold(&mut model, 7);
            assert_eq!(read(&rig.queues[0], buffer).unwrap(), model);
        }
    });
}

#[test]
fn what_handed_over_commands_use_stays_where_it_is() {
    each(|rig| {
        let buffers = rig.memories(4, 3 * MEMORY / 8);
        rig.faults.hold(true);
        // These two fill the memory; the others are still to come.
        let events: Vec<Event> = (0..)
            .zip(&buffers)
            .map(|(number, buffer)| fill(&rig.queues[0], buffer, number, &[]))
            .collect();
        rig.queues[0].flush();
        let space = rig.devices[0].space();
        let there = |buffer: &MemoryRef| buffer.allocated_in().contains(&space);
        assert!(there(&buffers[0]) && there(&buffers[1]));
        assert!(!there(&buffers[2]) && !there(&buffers[3]));
        rig.faults.hold(false);
        events.iter().for_each(|event| event.wait().unwrap());
        for (number, buffer) in (0..).zip(&buffers) {
            let bytes = read(&rig.queues[0], buffer).unwrap();
            assert_eq!(bytes, vec![number; bytes.len()]);
        }
    });
}

#[test]
fn host_tasks_that_need_more_memory_than_there_is_take_turns() {
    each(|rig| {
        let buffers = rig.memories(20, MEMORY / 4);
        for buffer in &buffers {
            fill(&rig.queues[0], buffer, 1, &[]);
        }
        // All of them are ready at once.
        for (from, to) in buffers[..10].iter().zip(&buffers[10..]) {
            task(&rig.queues[0], from, to);
        }
        for buffer in &buffers[10..] {
            let bytes = read(&rig.queues[0], buffer).unwrap();
            assert_eq!(bytes, vec![4; bytes.len()]);
        }
    });
}

#[test]
fn what_was_swapped_out_is_freed_as_anything() {
    each(|rig| {
        let buffers = rig.memories(6, MEMORY / 3);
        let gate = UserEvent::new();
        for round in 0..2 {
            for buffer in &buffers {
                fill(&rig.queues[0], buffer, round, &[gate.event().clone()]);
                fold(&rig.queues[0], buffer, 3);
            }
        }
        gate.complete();
        drop(buffers);
        rig.queues[0].wait().unwrap();
        rig.context.memory(8).unwrap();
        while rig.devices[0].free_memory() != Some(MEMORY) {
            // They are freed by whoever ended their last command.
            std::thread::yield_now();
        }
    });
}

#[test]
fn buffers_that_are_dropped_before_their_commands_run_make_room() {
    each(|rig| {
        let buffers = rig.memories(4, MEMORY / 4);
        for buffer in &buffers {
            fill(&rig.queues[0], buffer, 1, &[]).wait().unwrap();
        }
        let gate = UserEvent::new();
        for buffer in &buffers {
            fill(&rig.queues[0], buffer, 2, &[gate.event().clone()]);
        }
        drop(buffers);
        // On a queue of its own: on theirs its end would be seen after theirs.
        let queue = rig.context.queue(&rig.devices[0], QueueOptions::default());
        let other = rig.context.memory(MEMORY / 2).unwrap();
        fill(&queue.unwrap(), &other, 3, &[]).wait().unwrap();
        gate.complete();
    });
}

#[test]
fn one_command_that_needs_more_than_there_is_fails_with_sizes() {
    each(|rig| {
        let buffers = rig.memories(3, MEMORY / 2);
        for buffer in &buffers {
            fill(&rig.queues[0], buffer, 5, &[]);
        }
        let accesses: Vec<Access<'_>> = buffers
            .iter()
            .map(|b| Access::whole(b, AccessMode::Read))
            .collect();
        let call = NativeEnqueue::new(|_: &FakeQueue, _| Ok(()));
        // SAFETY: it does nothing.
        let native = unsafe { rig.queues[0].native_enqueue(call, &request(&accesses, &[])) };
        let on_host = rig.queues[0].host_task(|_| Ok(()), &request(&accesses, &[]));
        for event in [native.unwrap(), on_host.unwrap()] {
            let error = event.wait().unwrap_err();
            let ErrorKind::OutOfMemory {
                asked, capacity, ..
            } = error.kind()
            else {
                panic!("{error}")
            };
            assert_eq!((*asked, *capacity), (MEMORY / 2, MEMORY));
        }
        for buffer in &buffers {
            let bytes = read(&rig.queues[0], buffer).unwrap();
            assert_eq!(bytes, vec![5; bytes.len()]);
        }
    });
}

#[test]
fn of_a_device_with_a_limit_no_more_is_allocated() {
    each(|rig| {
        let device = &rig.devices[0];
        device.driver().limit_memory(device.index(), MEMORY / 2);
        // More than there was before is no limit.
        device.driver().limit_memory(device.index(), 2 * MEMORY);
        for buffer in rig.memories(3, MEMORY / 2) {
            fill(&rig.queues[0], &buffer, 5, &[]).wait().unwrap();
            let bytes = read(&rig.queues[0], &buffer).unwrap();
            assert_eq!(bytes, vec![5; bytes.len()]);
        }
        let large = rig.context.memory(MEMORY / 2 + 1).unwrap();
        let error = fill(&rig.queues[0], &large, 5, &[]).wait().unwrap_err();
        let ErrorKind::OutOfMemory { capacity, .. } = error.kind() else {
            panic!("{error}")
        };
        assert_eq!(*capacity, MEMORY / 2);
        // The other has a memory of its own.
        let large = rig.context.memory(MEMORY / 2 + 1).unwrap();
        fill(&rig.queues[1], &large, 5, &[]).wait().unwrap();
    });
}

#[test]
fn a_host_task_that_waits_for_what_lacks_its_memory_hears_of_that() {
    each(|rig| {
        let mine = rig.context.memory(3 * MEMORY / 4).unwrap();
        let theirs = rig.context.memory(MEMORY / 2).unwrap();
        let (give, given) = mpsc::channel::<Event>();
        let (tell, told) = mpsc::channel();
        let accesses = [Access::whole(&mine, AccessMode::ReadWrite)];
        let wait = move |_: &[RawArgument]| {
            tell.send(given.recv().unwrap().wait()).unwrap();
            Ok(())
        };
        let waits = rig.queues[0]
            .host_task(wait, &request(&accesses, &[]))
            .unwrap();
        let options = QueueOptions::default();
        let other = rig.context.queue(&rig.devices[0], options).unwrap();
        give.send(fill(&other, &theirs, 1, &[])).unwrap();
        other.flush();
        let error = told.recv().unwrap().unwrap_err();
        assert!(
            matches!(error.kind(), ErrorKind::OutOfMemory { .. }),
            "{error}"
        );
        waits.wait().unwrap();
    });
}

#[test]
fn graphs_that_are_taken_whole_keep_their_memory_while_they_are_there() {
    each(|rig| {
        let buffers = rig.memories(6, MEMORY / 3);
        let graphs: Vec<Graph> = buffers
            .iter()
            .map(|buffer| {
                let recording = Recording::new(&rig.context);
                let accesses = [part(buffer, 0, 8, AccessMode::ReadWrite)];
                let node = NodeRequest {
                    accesses: &accesses,
                    ..NodeRequest::default()
                };
                recording
                    .launch(&rig.queues[0], folding(5), 1, &node)
                    .unwrap();
                recording.finish().unwrap()
            })
            .collect();
        for round in 0..4 {
            for (buffer, graph) in buffers.iter().zip(&graphs) {
                if round == 0 {
                    fill(&rig.queues[0], buffer, 2, &[]);
                }
                rig.queues[0].launch_graph(graph, &[], None).unwrap();
            }
        }
        let mut model = vec![2; MEMORY as usize / 3];
        (0..4).for_each(|_| model_fold(&mut model, 5));
        for buffer in &buffers {
            assert_eq!(read(&rig.queues[0], buffer).unwrap(), model);
        }
    });
}

/// Commands of all kinds on two devices with room for three of eight buffers, against a sequential
/// model; nobody waits but at the end.
fn random_program(seed: u64, ordered: bool, fails: bool) {
    const BUFFERS: usize = 8;
    let completion = if seed.is_multiple_of(2) {
        Completion::Callback
    } else {
        Completion::Polling
    };
    let rig = Rig::new(ordered, seed, completion);
    let mut random = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let size = 8 * (1 + next(&mut random) % (MEMORY / 24)) as usize;
    let buffers = rig.memories(BUFFERS, size as u64);
    let mut model = vec![vec![0_u8; size]; BUFFERS];
    if fails {
        // As if others took memory, now and then.
        rig.faults.often(Fault::Reserve, 100, Refusal::Memory);
    }
    let gate = UserEvent::new();
    for number in 0..120_u64 {
        let random = next(&mut random) as usize;
        let (from, other) = (random / 16 % BUFFERS, random / 128 % (BUFFERS - 1));
        let to = (from + 1 + other) % BUFFERS;
        let queue = &rig.queues[random / 1024 % 2];
        let byte = (random / 2048) as u8;
        match random % 8 {
            0 => {
                let waits = [gate.event().clone()];
                fill(queue, &buffers[to], byte, &waits);
                model[to].fill(byte);
            }
            1 => {
                write(queue, &buffers[to], byte);
                model[to].fill(byte);
            }
            2 | 3 => {
                copy(queue, &buffers[from], &buffers[to]);
                model[to] = model[from].clone();
            }
            kind @ (4 | 5) => {
                if kind == 4 {
                    task(queue, &buffers[from], &buffers[to]);
                } else {
                    native(queue, &buffers[from], &buffers[to]);
                }
                model[to] = model[from].iter().map(|byte| step(*byte)).collect();
            }
            _ => {
                fold(queue, &buffers[to], number);
                model_fold(&mut model[to], number);
            }
        }
    }
    rig.queues.iter().for_each(Queue::flush);
    gate.complete();
    if fails {
        // Failures for want of memory are the faults' doing: the test sees only that everything
        // ends.
        rig.queues.iter().for_each(|queue| queue.wait().unwrap());
        rig.faults.end();
    } else {
        for (buffer, model) in buffers.iter().zip(&model) {
            assert_eq!(read(&rig.queues[0], buffer).unwrap(), *model, "seed {seed}");
        }
    }
    drop(buffers);
    rig.queues.iter().for_each(|queue| queue.wait().unwrap());
    assert_eq!(rig.faults.violations(), [""; 0], "seed {seed}");
}

#[test]
fn random_programs_beyond_the_memory() {
    for seed in 1..60 {
        random_program(seed, seed % 4 < 2, false);
    }
}

#[test]
fn random_programs_beyond_a_memory_that_others_use() {
    for seed in 1..40 {
        random_program(seed, seed % 4 < 2, true);
    }
}
