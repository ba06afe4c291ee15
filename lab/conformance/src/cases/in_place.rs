//! Memory of the host that devices use where it is. A device that cannot has copies, and all else
//! is as for any memory.

use super::cases;
use crate::Fixture;
use crate::printed::folding;
use crate::support::*;
use quipu_scheduler::graph::NodeRequest;
use quipu_scheduler::memory::mapping::HostQueue;
use quipu_scheduler::{AccessMode, MemoryRef, Queue, Recording, SpaceId, UserEvent};
use std::ptr::NonNull;

cases! {
    Anything:
        a_device_uses_the_memory_itself,
        the_host_and_the_devices_take_turns,
        transfers_and_fills,
        a_mapping_waits_for_commands,
        a_recorded_graph,
        a_failure_is_that_of_its_bytes,
        the_memory_is_kept_while_it_is_used;
    SeveralDevices:
        parts_on_different_devices,
        a_content_size;
}

/// The first eight bytes, while no command uses them.
fn seen(start: NonNull<u8>) -> u64 {
    // SAFETY: the memory object is there, and the case has waited for its commands.
    unsafe { start.cast::<u64>().read() }
}

fn queues(stage: &Stage) -> Vec<Queue> {
    (0..stage.devices.len())
        .map(|device| stage.queue_on(device, OUT_OF_ORDER))
        .collect()
}

fn a_device_uses_the_memory_itself(fixture: &dyn Fixture) {
    let stage = Stage::new(fixture);
    for (device, queue) in stage.devices.iter().zip(queues(&stage)) {
        let (memory, start, _) = in_place(&stage.context, 8);
        // SAFETY: nothing uses the memory yet.
        unsafe { start.cast::<u64>().write(3) };
        let folds = [5, 6].map(|n| fold(&queue, &memory, n, &[]));
        folds.iter().for_each(|fold| fold.wait().unwrap());
        let expected = (3 * 31 + 5) * 31 + 6;
        if device.uses_host_memory() {
            assert_eq!(seen(start), expected);
            let is_of_host = device.space() == SpaceId::HOST;
            assert!(is_of_host || stage.context.bytes_in(device.space()) == 0);
        }
        assert_eq!(read_number(&queue, &memory), expected);
    }
}

fn the_host_and_the_devices_take_turns(fixture: &dyn Fixture) {
    let stage = Stage::new(fixture);
    let queues = queues(&stage);
    let host = HostQueue::new(&stage.context).unwrap();
    let (memory, start, _) = in_place(&stage.context, 64);
    let mut expected = 0_u64;
    for round in 0..40 {
        let queue = &queues[round % queues.len()];
        fold(queue, &memory, round as u64, &[]);
        expected = expected.wrapping_mul(31).wrapping_add(round as u64);
        if round % 3 != 0 {
            continue;
        }
        let mode = AccessMode::ReadWrite;
        let turn = host.reserve(queue, &memory, 0..8, mode, &[], "a case");
        let turn = turn.unwrap();
        turn.granted().wait().unwrap();
        let hold = turn.take().unwrap();
        // What is lent is the memory itself.
        assert_eq!(hold.bytes().pointer, start.as_ptr());
        assert_eq!(load(&hold.bytes()), expected);
        expected ^= 0xff;
        store(&hold.bytes(), expected);
    }
    assert_eq!(read_number(&queues[0], &memory), expected);
}

fn transfers_and_fills(fixture: &dyn Fixture) {
    const BYTES: u64 = 5000;
    let stage = Stage::new(fixture);
    let (memory, start, _) = in_place(&stage.context, BYTES);
    let other = stage.memory(BYTES);
    for (number, queue) in (1..).zip(queues(&stage)) {
        let bytes: Vec<u8> = (0..BYTES).map(|at| (at * number) as u8).collect();
        write_all(&queue, &memory, &bytes);
        assert_eq!(read_all(&queue, &memory), bytes);
        let halves = [0..BYTES / 2, BYTES / 2..BYTES];
        let half = |memory, which: usize, mode| part(memory, halves[which].clone(), mode);
        let (from, to) = (AccessMode::Read, AccessMode::Overwrite);
        let copy = |from, to| queue.copy(from, to, BYTES / 2, &[], &[]).unwrap();
        // To an ordinary object, back to other bytes, and within this one.
        copy(half(&memory, 0, from), half(&other, 1, to));
        copy(half(&other, 1, from), half(&memory, 1, to));
        let (first, second) = bytes.split_at(bytes.len() / 2);
        assert_eq!(read_all(&queue, &memory), [first, first].concat());
        let fill = queue.fill(half(&memory, 0, to), &[1, 2, 3, 4], &[]);
        fill.unwrap().wait().unwrap();
        let filled = [1, 2, 3, 4].repeat(first.len() / 4);
        assert_eq!(read_all(&queue, &memory), [&filled[..], first].concat());
        copy(half(&memory, 0, from), half(&memory, 1, to))
            .wait()
            .unwrap();
        assert_eq!(read_all(&queue, &memory), filled.repeat(2));
        assert_eq!(second.len(), filled.len());
    }
    if stage.devices.iter().all(|it| it.uses_host_memory()) {
        assert_eq!(seen(start), u64::from_le_bytes([1, 2, 3, 4, 1, 2, 3, 4]));
    }
}

fn a_mapping_waits_for_commands(fixture: &dyn Fixture) {
    let stage = Stage::new(fixture);
    let queue = stage.out_of_order();
    let host = HostQueue::new(&stage.context).unwrap();
    let (memory, _, _) = in_place(&stage.context, 8);
    let gate = UserEvent::new();
    fold(&queue, &memory, 7, &[gate.event()]);
    let turn = host.reserve(&queue, &memory, 0..8, AccessMode::Read, &[], "a case");
    let turn = turn.unwrap();
    queue.flush();
    assert!(!turn.granted().is_complete());
    gate.complete();
    turn.granted().wait().unwrap();
    let hold = turn.take().unwrap();
    assert_eq!(load(&hold.bytes()), 7);
    let refused = queue.fill(overwrites(&memory), &[1], &[]);
    assert!(refused.unwrap_err().to_string().contains("a case"));
    drop(hold);
    let fill = queue.fill(overwrites(&memory), &[1], &[]);
    fill.unwrap().wait().unwrap();
}

fn a_recorded_graph(fixture: &dyn Fixture) {
    let stage = Stage::new(fixture);
    for device in 0..stage.devices.len() {
        let queue = stage.queue_on(device, Default::default());
        let (memory, start, _) = in_place(&stage.context, 16);
        let other = stage.memory(16);
        let recording = Recording::new(&stage.context);
        let request = |accesses| NodeRequest {
            accesses,
            ..NodeRequest::default()
        };
        let first = |memory, mode| part(memory, 0..8, mode);
        let second = |memory, mode| part(memory, 8..16, mode);
        let (read, update, to) = (
            AccessMode::Read,
            AccessMode::ReadWrite,
            AccessMode::Overwrite,
        );
        let accesses = [first(&memory, update)];
        record_native(&recording, &queue, folding(3), 1, &request(&accesses)).unwrap();
        recording
            .copy(&queue, first(&memory, read), first(&other, to), 8, &[], &[])
            .unwrap();
        recording
            .copy(
                &queue,
                first(&other, read),
                second(&memory, to),
                8,
                &[],
                &[],
            )
            .unwrap();
        let graph = recording.finish().unwrap();
        let mut expected = 0;
        for round in 0..5_u64 {
            if round == 3 {
                put(&queue, &memory, 9, &[]);
                expected = 9;
            }
            let launched = queue.launch_graph(&graph, &[], None).unwrap();
            launched.wait().unwrap();
            expected = 31 * expected + 3;
            if stage.devices[device].uses_host_memory() {
                assert_eq!(seen(start), expected);
            }
            let bytes = read_all(&queue, &memory);
            assert_eq!(bytes, expected.to_le_bytes().repeat(2), "round {round}");
        }
    }
}

fn a_failure_is_that_of_its_bytes(fixture: &dyn Fixture) {
    let stage = Stage::new(fixture);
    let queue = stage.out_of_order();
    let (memory, _, _) = in_place(&stage.context, 16);
    put(&queue, &memory, 5, &[]);
    let failed = failing(&queue, &[part(&memory, 0..8, AccessMode::ReadWrite)], &[]);
    assert!(failed.wait().is_err());
    assert!(read_range(&queue, &memory, 0..8).is_err());
    let rest = read_range(&queue, &memory, 8..16).unwrap();
    assert_eq!(rest, 5_u64.to_le_bytes());
    put(&queue, &memory, 6, &[]);
    assert_eq!(read_all(&queue, &memory), 6_u64.to_le_bytes().repeat(2));
}

fn the_memory_is_kept_while_it_is_used(fixture: &dyn Fixture) {
    let stage = Stage::new(fixture);
    for queue in queues(&stage) {
        let (memory, _, gone) = in_place(&stage.context, 8);
        let gate = UserEvent::new();
        let used = fold(&queue, &memory, 5, &[gate.event()]);
        let (_, number) = observe(&queue, &memory, &[]);
        drop(memory);
        queue.flush();
        nothing(&stage.out_of_order(), &[], &[]).wait().unwrap();
        assert!(!gone.is_set(), "freed while two commands are to use it");
        gate.complete();
        used.wait().unwrap();
        queue.wait().unwrap();
        gone.wait();
        assert_eq!(number.load(std::sync::atomic::Ordering::SeqCst), 5);
    }
}

fn parts_on_different_devices(fixture: &dyn Fixture) {
    const PARTS: u64 = 6;
    let stage = Stage::new(fixture);
    let queues = queues(&stage);
    let (memory, _, _) = in_place(&stage.context, 8 * PARTS);
    let mut expected = [0_u64; PARTS as usize];
    for round in 0..60_u64 {
        let which = (round * 5) % PARTS;
        let queue = &queues[(round * round % 7) as usize % queues.len()];
        let access = part(&memory, 8 * which..8 * which + 8, AccessMode::ReadWrite);
        launch(queue, &[access], &[], move |a| {
            store(&a[0], load(&a[0]).wrapping_mul(31).wrapping_add(round));
            Ok(())
        });
        let number = &mut expected[which as usize];
        *number = number.wrapping_mul(31).wrapping_add(round);
        if round % 11 == 0 {
            // All of it, by one that another device runs.
            let queue = &queues[(round as usize + 1) % queues.len()];
            launch(queue, &[updates(&memory)], &[], |a| {
                (0..a[0].length).for_each(|at| store_byte(&a[0], at, !load_byte(&a[0], at)));
                Ok(())
            });
            expected = expected.map(|number| !number);
        }
    }
    let bytes: Vec<u8> = expected.iter().flat_map(|it| it.to_le_bytes()).collect();
    for queue in &queues {
        assert_eq!(read_all(queue, &memory), bytes);
    }
}

/// Of a device that has a copy, only the bytes in use are brought.
fn a_content_size(fixture: &dyn Fixture) {
    const BYTES: u64 = 64;
    let stage = Stage::new(fixture);
    let queues = queues(&stage);
    for is_size_in_place in [false, true] {
        let (memory, _, _) = in_place(&stage.context, BYTES);
        let size: MemoryRef = match is_size_in_place {
            true => in_place(&stage.context, 8).0,
            false => stage.memory(8),
        };
        memory.set_content_size(Some(size.clone())).unwrap();
        for (round, queue) in (1..).zip(queues.iter().cycle().take(3 * queues.len())) {
            put(queue, &memory, 0x0101_0101_0101_0101 * round, &[]);
            let used = 8 * (round % 8);
            put(&queues[round as usize % queues.len()], &size, used, &[]);
            for queue in &queues {
                let bytes = read_range(queue, &memory, 0..used).unwrap();
                assert_eq!(bytes, vec![round as u8; used as usize]);
            }
        }
    }
}
