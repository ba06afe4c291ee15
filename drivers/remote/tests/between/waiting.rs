//! Threads that wait for events of one connection: each reads itself, or is told, and hears of all
//! its own events.

use crate::support::{PATIENCE, Rig, pool};
use quipu_conformance::{Watchdog, folding};
use quipu_node::Limits;
use quipu_scheduler::operation::HostMemory;
use quipu_scheduler::{
    Access, AccessMode, Context, Device, Event, MemoryRef, Queue, QueueOptions, Request, UserEvent,
};
use std::sync::mpsc;

/// Replaces x by 31 x + n, after these.
fn fold(queue: &Queue, memory: &MemoryRef, n: u64, waits: &[Event]) -> Event {
    let accesses = [Access::whole(memory, AccessMode::ReadWrite)];
    let request = Request {
        accesses: &accesses,
        waits,
        ..Request::default()
    };
    queue.launch(folding(n), 1, &request).unwrap()
}

fn transfer(queue: &Queue, memory: &MemoryRef, bytes: &mut [u8], is_read: bool) -> Event {
    // SAFETY: whoever calls this waits before he looks at the bytes.
    let host = unsafe { HostMemory::new(bytes.as_mut_ptr(), bytes.len(), None) };
    let row = memory.size();
    match is_read {
        true => queue.read(Access::whole(memory, AccessMode::Read), host, row, &[], &[]),
        false => queue.write(
            host,
            Access::whole(memory, AccessMode::Overwrite),
            row,
            &[],
            &[],
        ),
    }
    .unwrap()
}

fn value(queue: &Queue, memory: &MemoryRef) -> u64 {
    let mut bytes = [0; 8];
    transfer(queue, memory, &mut bytes, true).wait().unwrap();
    u64::from_le_bytes(bytes)
}

/// The result of `rounds` rounds of one thread; each hears of its ends in another way than the one
/// before.
fn rounds(queue: &Queue, memory: &MemoryRef, way: u64, rounds: u64) -> u64 {
    let mut expected = 0_u64;
    for round in 0..rounds {
        let mut next = || {
            expected = expected.wrapping_mul(31).wrapping_add(round);
            fold(queue, memory, round, &[])
        };
        match (way + round) % 6 {
            0 => next().wait().unwrap(),
            1 => {
                let (said, hears) = mpsc::channel();
                next().on_complete(move |outcome| said.send(outcome).unwrap());
                hears.recv().unwrap().unwrap();
            }
            2 => {
                let [first, second] = [next(), next()];
                first.wait().unwrap();
                second.wait().unwrap();
            }
            3 => next().wait_timeout(PATIENCE).unwrap(),
            4 => {
                next();
                queue.wait().unwrap();
            }
            _ => {
                // Nobody waits for it yet.
                let event = next();
                queue.flush();
                while !event.is_complete() {
                    std::thread::yield_now();
                }
            }
        }
    }
    expected
}

/// As long as many commands may take on a machine that is stopped now and then.
fn watched(what: &str) -> Watchdog {
    Watchdog::start(10 * PATIENCE, what.to_owned())
}

#[test]
fn every_thread_hears_of_its_ends_in_every_way() {
    let _watchdog = watched("threads that hear of ends in every way");
    let rig = Rig::new(pool(2), Limits::default());
    let devices = rig.devices();
    let context = Context::new(&devices).unwrap();
    std::thread::scope(|scope| {
        for way in 0..6 {
            let (context, device) = (&context, &devices[0]);
            scope.spawn(move || {
                let queue = context.queue(device, QueueOptions::default()).unwrap();
                let memory = context.memory(8).unwrap();
                let expected = rounds(&queue, &memory, way, 300);
                assert_eq!(value(&queue, &memory), expected, "{way}");
            });
        }
    });
}

#[test]
fn one_thread_alone_hears_of_its_ends_in_every_way() {
    let _watchdog = watched("a thread that hears of ends in every way");
    let rig = Rig::new(pool(2), Limits::default());
    let devices = rig.devices();
    let context = Context::new(&devices).unwrap();
    let queue = context.queue(&devices[0], QueueOptions::default());
    let queue = queue.unwrap();
    let memory = context.memory(8).unwrap();
    let expected = rounds(&queue, &memory, 0, 1200);
    assert_eq!(value(&queue, &memory), expected);
}

#[test]
fn who_reads_is_told_of_what_others_bring_about() {
    let _watchdog = watched("ends that do not come by the connection");
    let rig = Rig::new(pool(2), Limits::default());
    let devices = rig.devices();
    let context = Context::new(&devices).unwrap();
    let queue = context.queue(&devices[0], QueueOptions::default());
    let queue = queue.unwrap();
    let memory = context.memory(8).unwrap();
    for _ in 0..100 {
        // So that nobody reads when the next wait begins.
        fold(&queue, &memory, 1, &[]).wait().unwrap();
        let gate = UserEvent::new();
        // What is cancelled leaves its memory void.
        let own = context.memory(8).unwrap();
        let held = fold(&queue, &own, 1, &[gate.event()]);
        let waits = held.clone();
        let waiting = std::thread::spawn(move || waits.wait());
        // Whether the other waits by now or not.
        std::thread::yield_now();
        held.cancel();
        gate.complete();
        let waited = waiting.join().unwrap();
        assert!(waited.is_ok() || waited.unwrap_err().is_cancelled());
    }
}

#[test]
fn bytes_of_a_write_that_come_before_its_turn_are_kept() {
    let _watchdog = watched("writes whose bytes come early");
    let rig = Rig::new(pool(2), Limits::default());
    let devices = rig.devices();
    let context = Context::new(&devices).unwrap();
    let options = QueueOptions {
        in_order: false,
        ..QueueOptions::default()
    };
    let queue = context.queue(&devices[0], options).unwrap();
    let bytes = 3 << 20;
    let memory = context.memory(bytes).unwrap();
    let small = context.memory(8).unwrap();
    for round in 0..20_u8 {
        // What has to be over before, on the node, while the bytes are on their way.
        let mut last = fold(&queue, &small, 1, &[]);
        for n in 0..200 {
            last = fold(&queue, &small, n, &[last]);
        }
        let mut out: Vec<u8> = (0..bytes).map(|at| (at % 251) as u8 ^ round).collect();
        // SAFETY: it is waited for before the bytes are looked at, or go.
        let host = unsafe { HostMemory::new(out.as_mut_ptr(), out.len(), None) };
        let to = Access::whole(&memory, AccessMode::Overwrite);
        let written = queue.write(host, to, bytes, &[], &[last]).unwrap();
        let mut back = vec![0; bytes as usize];
        let read = transfer(&queue, &memory, &mut back, true);
        written.wait().unwrap();
        read.wait().unwrap();
        assert!(out == back, "round {round}");
    }
}

#[test]
fn sixty_four_clients_at_once_lose_nothing() {
    let _watchdog = watched("64 clients of a node");
    let rig = Rig::new(pool(2), Limits::default());
    let drivers: Vec<_> = (0..64).map(|_| rig.devices()).collect();
    std::thread::scope(|scope| {
        for (number, devices) in drivers.iter().enumerate() {
            scope.spawn(move || one_of_many(devices, number as u8));
        }
    });
}

fn one_of_many(devices: &[Device], number: u8) {
    let context = Context::new(devices).unwrap();
    let queue = context.queue(&devices[0], QueueOptions::default());
    let queue = queue.unwrap();
    let memory = context.memory(8).unwrap();
    let large = context.memory(200_000).unwrap();
    let mut out: Vec<u8> = (0..200_000).map(|at| (at % 249) as u8 ^ number).collect();
    let mut back = vec![0; out.len()];
    let written = transfer(&queue, &large, &mut out, false);
    let mut expected = 0_u64;
    for n in 0..200_u64 {
        let n = n + u64::from(number);
        expected = expected.wrapping_mul(31).wrapping_add(n);
        let event = fold(&queue, &memory, n, &[]);
        if n % 16 == 0 {
            event.wait().unwrap();
        }
    }
    let read = transfer(&queue, &large, &mut back, true);
    written.wait().unwrap();
    read.wait().unwrap();
    assert!(out == back, "client {number}");
    assert_eq!(value(&queue, &memory), expected, "client {number}");
}
