//! Graphs over several devices: each command finds the bytes where it runs.

use super::{Log, Scene, folded_from, launched};
use crate::Fixture;
use crate::cases::cases;
use crate::support::*;
use quipu_scheduler::graph::NodeRequest;
use quipu_scheduler::{AccessMode, Queue, RawArgument, Recording};

cases! {
    SeveralDevices:
        over_devices,
        a_copy_of_a_part_is_replaced,
        every_device_reads_what_was_before;
}

fn over_devices(fixture: &dyn Fixture) {
    let mut scene = Scene::new(fixture);
    let (a, b) = (scene.stage.memory(8), scene.stage.memory(8));
    let queues: Vec<Queue> = (0..scene.stage.devices.len())
        .map(|device| scene.stage.queue_on(device, OUT_OF_ORDER))
        .collect();
    // Each takes on the state that the one before left.
    for (n, queue) in (0..).zip(queues.iter().chain(&queues)) {
        scene.fold(queue, &a, n);
    }
    for queue in &queues {
        scene.task(queue, &[reads(&a), updates(&b)], &[], |raw| {
            store(
                &raw[1],
                load(&raw[1]).wrapping_mul(7).wrapping_add(load(&raw[0])),
            );
            Ok(())
        });
    }
    let (stage, graph) = scene.finish();
    let last = queues.len() as u64 * 2;
    let (mut at, mut bt) = (0_u64, 0_u64);
    for round in 0..6 {
        // Valid elsewhere each time.
        let queue = &queues[round % queues.len()];
        fold(queue, &a, 100, &[]);
        put(
            &stage.queue_on(round % 2, OUT_OF_ORDER),
            &b,
            round as u64,
            &[],
        );
        launched(queue, &graph);
        at = folded_from(at, [100].into_iter().chain(0..last));
        bt = queues
            .iter()
            .fold(round as u64, |b, _| b.wrapping_mul(7).wrapping_add(at));
        if round % 3 == 1 {
            assert_eq!(read_number(&queues[0], &a), at);
        }
    }
    for queue in &queues {
        assert_eq!(read_number(queue, &a), at);
        assert_eq!(read_number(queue, &b), bt);
    }
}

/// A copy that was made of what was in use is made again for a graph that needs all, by a command
/// that comes before the launch, though the launch reads the buffer elsewhere, too.
fn a_copy_of_a_part_is_replaced(fixture: &dyn Fixture) {
    let stage = Stage::new(fixture);
    let queues: Vec<Queue> = (0..stage.devices.len())
        .map(|device| stage.queue_on(device, OUT_OF_ORDER))
        .collect();
    for home in 0..queues.len() {
        let (memory, size) = (stage.memory(16), stage.memory(8));
        put(&queues[home], &size, 8, &[]);
        launch(&queues[home], &[overwrites(&memory)], &[], |a| {
            store(&a[0], 3);
            Ok(())
        });
        memory.set_content_size(Some(size.clone())).unwrap();
        for queue in &queues {
            launch(queue, &[reads(&memory)], &[], |_| Ok(()))
                .wait()
                .unwrap();
        }
        memory.set_content_size(None).unwrap();
        let recording = Recording::new(&stage.context);
        for queue in &queues {
            let request = NodeRequest {
                accesses: &[reads(&memory)],
                ..NodeRequest::default()
            };
            recording.host_task(queue, |_| Ok(()), &request).unwrap();
        }
        let request = NodeRequest {
            accesses: &[updates(&memory)],
            ..NodeRequest::default()
        };
        let fold = |a: &[RawArgument]| {
            store(&a[0], load(&a[0]) + 1);
            Ok(())
        };
        recording.host_task(&queues[home], fold, &request).unwrap();
        let graph = recording.finish().unwrap();
        launched(&queues[home], &graph).wait().unwrap();
        let first = part(&memory, 0..8, AccessMode::Read);
        let seen = Log::default();
        let seen_there = seen.clone();
        launch(&queues[home], &[first], &[], move |a| {
            seen_there.lock().unwrap().push(load(&a[0]));
            Ok(())
        })
        .wait()
        .unwrap();
        assert_eq!(*seen.lock().unwrap(), [4]);
    }
}

fn every_device_reads_what_was_before(fixture: &dyn Fixture) {
    let mut scene = Scene::new(fixture);
    let memory = scene.stage.memory(8);
    let seen = Log::default();
    let queues: Vec<Queue> = (0..scene.stage.devices.len())
        .map(|device| scene.stage.queue_on(device, OUT_OF_ORDER))
        .collect();
    for queue in &queues {
        let seen = seen.clone();
        scene.task(queue, &[reads(&memory)], &[], move |raw| {
            seen.lock().unwrap().push(load(&raw[0]));
            Ok(())
        });
    }
    let last = queues.last().unwrap();
    scene.fold(last, &memory, 1);
    let (_stage, graph) = scene.finish();
    let mut expected = 9;
    put(&queues[0], &memory, expected, &[]);
    for _ in 0..3 {
        launched(&queues[0], &graph).wait().unwrap();
        let seen = std::mem::take(&mut *seen.lock().unwrap());
        assert_eq!(seen, vec![expected; queues.len()]);
        expected = folded_from(expected, [1]);
    }
    assert_eq!(read_number(&queues[0], &memory), expected);
}
