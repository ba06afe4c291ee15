//! Accesses and transfers of no bytes: commands that touch nothing, and are errors nowhere.

use super::cases;
use crate::Fixture;
use crate::support::*;
use quipu_scheduler::error::ErrorKind;
use quipu_scheduler::graph::NodeRequest;
use quipu_scheduler::memory::mapping::HostQueue;
use quipu_scheduler::operation::Step;
use quipu_scheduler::{Access, AccessMode, Event, MemoryRef, Recording, Request, UserEvent};

cases! {
    Anything:
        transfers_of_no_bytes_do_nothing,
        kernels_and_tasks_get_no_bytes,
        no_bytes_have_no_hazards,
        no_bytes_are_never_mapped,
        recorded_commands_on_no_bytes_do_nothing,
        a_place_outside_of_the_memory_is_refused_for_no_bytes_too;
}

const NO_ROWS: [Step; 2] = [step(3), step(0)];

const fn step(count: u64) -> Step {
    Step {
        count,
        source_stride: 8,
        destination_stride: 8,
    }
}

/// No bytes in the middle of a memory object, and at its end.
fn none_of(memory: &MemoryRef) -> [Access<'_>; 2] {
    let end = memory.size();
    [8..8, end..end].map(|range| part(memory, range, AccessMode::ReadWrite))
}

fn transfers_of_no_bytes_do_nothing(fixture: &dyn Fixture) {
    let stage = Stage::new(fixture);
    for device in 0..stage.devices.len() {
        for options in [Default::default(), OUT_OF_ORDER] {
            let queue = stage.queue_on(device, options);
            let (memory, other) = (stage.memory(16), stage.memory(16));
            let before = write_all(&queue, &memory, &[7; 16]);
            let host = HostBytes::new(&[9; 16]);
            for none in none_of(&memory) {
                for (row, steps) in [(0, &[][..]), (4, &NO_ROWS)] {
                    let rows = queue.fill_rows(none, &[1, 2], row, steps, &[]);
                    let copy = queue.copy(updates(&other), none, row, steps, &[]);
                    let write = queue.write(host.memory(), none, row, steps, &[]);
                    let read = queue.read(none, host.memory(), row, steps, &[]);
                    for event in [rows, copy, write, read] {
                        event.unwrap().wait().unwrap();
                    }
                }
                queue.fill(none, &[1, 2], &[]).unwrap().wait().unwrap();
                let within = queue.copy(none, none, 0, &[], std::slice::from_ref(&before));
                within.unwrap().wait().unwrap();
            }
            assert_eq!(read_all(&queue, &memory), [7; 16]);
            assert_eq!(host.bytes(), [9; 16]);
        }
    }
}

fn kernels_and_tasks_get_no_bytes(fixture: &dyn Fixture) {
    let stage = Stage::new(fixture);
    for device in 0..stage.devices.len() {
        let queue = stage.queue_on(device, Default::default());
        let memory = stage.memory(16);
        for none in none_of(&memory) {
            nothing(&queue, &[none], &[]).wait().unwrap();
            let launched = launch(&queue, &[none, updates(&memory)], &[], |a| {
                assert_eq!((a[0].length, a[1].length), (0, 16));
                store(&a[1], 5);
                Ok(())
            });
            launched.wait().unwrap();
            let request = Request {
                accesses: &[none],
                ..Request::default()
            };
            let task = queue.host_task(
                |a| {
                    assert_eq!(a[0].length, 0);
                    Ok(())
                },
                &request,
            );
            task.unwrap().wait().unwrap();
        }
        assert_eq!(read_number(&queue, &memory), 5);
    }
}

fn no_bytes_have_no_hazards(fixture: &dyn Fixture) {
    let stage = Stage::new(fixture);
    let queue = stage.out_of_order();
    let memory = stage.memory(16);
    let gate = UserEvent::new();
    let writer = fold(&queue, &memory, 1, &[gate.event()]);
    let host = HostBytes::new(&[0; 16]);
    for none in none_of(&memory) {
        // Each would wait for the writer, and so for ever.
        let events: [Event; 4] = [
            nothing(&queue, &[none], &[]),
            queue.fill(none, &[1], &[]).unwrap(),
            queue.write(host.memory(), none, 0, &[], &[]).unwrap(),
            queue.read(none, host.memory(), 0, &[], &[]).unwrap(),
        ];
        for event in events {
            event.wait().unwrap();
        }
    }
    assert!(!writer.is_complete());
    gate.complete();
    assert_eq!(read_number(&queue, &memory), folded([1]));
}

fn no_bytes_are_never_mapped(fixture: &dyn Fixture) {
    let stage = Stage::new(fixture);
    let queue = stage.in_order();
    let host = HostQueue::new(&stage.context).unwrap();
    let memory = stage.memory(16);
    let map = |range| {
        let reserved = host.reserve(&queue, &memory, range, AccessMode::ReadWrite, &[], "a case");
        reserved.unwrap()
    };
    let none = map(8..8);
    put(&queue, &memory, 1, &[]).wait().unwrap();
    let all = map(0..16);
    for none in none_of(&memory) {
        nothing(&queue, &[none], &[]).wait().unwrap();
        queue.fill(none, &[1], &[]).unwrap().wait().unwrap();
    }
    let mapped = queue.fill(updates(&memory), &[1], &[]);
    assert!(matches!(
        mapped.expect_err("all of it is mapped").kind(),
        ErrorKind::Mapped { .. }
    ));
    drop((none, all));
}

fn recorded_commands_on_no_bytes_do_nothing(fixture: &dyn Fixture) {
    let stage = Stage::new(fixture);
    for device in 0..stage.devices.len() {
        let queue = stage.queue_on(device, Default::default());
        let (memory, other) = (stage.memory(16), stage.memory(16));
        let recording = Recording::new(&stage.context);
        let host = HostBytes::new(&[9; 16]);
        for none in none_of(&memory) {
            let request = NodeRequest {
                accesses: &[none],
                ..NodeRequest::default()
            };
            recording.host_task(&queue, |_| Ok(()), &request).unwrap();
            recording.fill(&queue, none, &[1, 2], &[]).unwrap();
            for (row, steps) in [(0, &[][..]), (4, &NO_ROWS)] {
                let (from, to) = (updates(&other), none);
                recording
                    .fill_rows(&queue, to, &[1, 2], row, steps, &[])
                    .unwrap();
                recording.copy(&queue, from, to, row, steps, &[]).unwrap();
                // SAFETY: the bytes are kept by what is given.
                unsafe { recording.write(&queue, host.memory(), to, row, steps, &[]) }.unwrap();
            }
        }
        let graph = recording.finish().unwrap();
        write_all(&queue, &memory, &[7; 16]);
        for _ in 0..2 {
            queue.launch_graph(&graph, &[], None).unwrap();
        }
        assert_eq!(read_all(&queue, &memory), [7; 16]);
    }
}

fn a_place_outside_of_the_memory_is_refused_for_no_bytes_too(fixture: &dyn Fixture) {
    let stage = Stage::new(fixture);
    let queue = stage.in_order();
    let memory = stage.memory(16);
    let outside = part(&memory, 17..17, AccessMode::ReadWrite);
    let error = queue
        .fill(outside, &[1], &[])
        .expect_err("it begins outside");
    assert!(
        matches!(error.kind(), ErrorKind::OutOfBounds { .. }),
        "{error}"
    );
    let error = queue.fill(none_of(&memory)[0], &[], &[]);
    assert!(error.is_err(), "no pattern is an error everywhere");
    assert!(queue.is_empty());
}
