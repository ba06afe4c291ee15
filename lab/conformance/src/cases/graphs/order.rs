//! The order of commands within a graph: by waits, barriers and the buffers that they share.

use super::{Log, Scene, launched, note};
use crate::Fixture;
use crate::cases::cases;
use crate::support::*;
use quipu_scheduler::graph::Node;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

cases! {
    Anything:
        waits_within,
        markers_and_barriers_within,
        many_readers,
        one_buffer_many_times,
        long_and_wide;
}

fn waits_within(fixture: &dyn Fixture) {
    let mut scene = Scene::new(fixture);
    let log = Log::default();
    let queue = scene.stage.out_of_order();
    let first = scene.task(&queue, &[], &[], note(&log, 1));
    let second = scene.task(&queue, &[], &[first], note(&log, 2));
    let third = scene.task(&queue, &[], &[first, second], note(&log, 3));
    // More than fit into a command's slot, and one twice.
    let many: Vec<Node> = (10..20)
        .map(|n| scene.task(&queue, &[], &[third], note(&log, n)))
        .collect();
    let all = [&many[..], &many[..1]].concat();
    scene.task(&queue, &[], &all, note(&log, 4));
    let (_stage, graph) = scene.finish();
    for _ in 0..3 {
        launched(&queue, &graph).wait().unwrap();
        let mut log = std::mem::take(&mut *log.lock().unwrap());
        assert_eq!(log[..3], [1, 2, 3]);
        assert_eq!(log.pop(), Some(4));
        log[3..].sort_unstable();
        assert_eq!(log[3..], (10..20).collect::<Vec<_>>());
    }
}

fn markers_and_barriers_within(fixture: &dyn Fixture) {
    let mut scene = Scene::new(fixture);
    let log = Log::default();
    let queue = scene.stage.out_of_order();
    for n in 1..4 {
        scene.task(&queue, &[], &[], note(&log, n));
    }
    let marker = scene.recording.marker(&queue, &[]).unwrap();
    let late = scene.task(&queue, &[], &[marker], note(&log, 11));
    scene.recording.barrier(&queue, &[]).unwrap();
    scene.task(&queue, &[], &[], note(&log, 21));
    // With a list: others need not wait for what is not in it, but this queue waits for it.
    scene.recording.barrier(&queue, &[late]).unwrap();
    scene.task(&queue, &[], &[], note(&log, 31));
    let (_stage, graph) = scene.finish();
    for _ in 0..3 {
        launched(&queue, &graph).wait().unwrap();
        let mut log = std::mem::take(&mut *log.lock().unwrap());
        log[..3].sort_unstable();
        log[4..].sort_unstable();
        assert_eq!(log, [1, 2, 3, 11, 21, 31]);
    }
}

fn many_readers(fixture: &dyn Fixture) {
    let mut scene = Scene::new(fixture);
    let memory = scene.stage.memory(8);
    let queue = scene.stage.out_of_order();
    let seen = Arc::new(AtomicU64::new(0));
    scene.fold(&queue, &memory, 1);
    for _ in 0..200 {
        let seen = seen.clone();
        scene.task(&queue, &[reads(&memory)], &[], move |a| {
            seen.fetch_add(load(&a[0]), Ordering::SeqCst);
            Ok(())
        });
    }
    scene.fold(&queue, &memory, 2);
    let (_stage, graph) = scene.finish();
    assert!(graph.len() > 202, "many readers are joined");
    launched(&queue, &graph);
    launched(&queue, &graph).wait().unwrap();
    // Of zero, and of what the first launch leaves.
    assert_eq!(seen.load(Ordering::SeqCst), 200 + 200 * (33 * 31 + 1));
}

/// No command waits for a later one, however often each takes the same buffer.
fn one_buffer_many_times(fixture: &dyn Fixture) {
    for count in [1, 31, 62, 63, 64, 65, 130] {
        let mut scene = Scene::new(fixture);
        let memory = scene.stage.memory(8);
        let queue = scene.stage.out_of_order();
        let seen = Arc::new(AtomicU64::new(0));
        scene.fold(&queue, &memory, 5);
        for _ in 0..count {
            let seen = seen.clone();
            let thrice = [reads(&memory), reads(&memory), reads(&memory)];
            scene.task(&queue, &thrice, &[], move |a| {
                seen.fetch_add(load(&a[2]), Ordering::SeqCst);
                Ok(())
            });
        }
        scene.fold(&queue, &memory, 6);
        let (_stage, graph) = scene.finish();
        let mut index = 0;
        graph.for_each_command(|_, edges| {
            assert!(
                edges.iter().all(|edge| edge.command < index),
                "{count} readers: command {index} waits for {edges:?}"
            );
            index += 1;
        });
        launched(&queue, &graph).wait().unwrap();
        assert_eq!(seen.load(Ordering::SeqCst), 5 * count);
    }
}

fn long_and_wide(fixture: &dyn Fixture) {
    let length = fixture.longest_chain().min(4_000);
    let mut scene = Scene::new(fixture);
    let queue = scene.stage.out_of_order();
    let memory = scene.stage.memory(8);
    let count = Arc::new(AtomicU64::new(0));
    for _ in 0..length {
        scene.fold(&queue, &memory, 3);
        let count = count.clone();
        scene.task(&queue, &[], &[], move |_| {
            count.fetch_add(1, Ordering::Relaxed);
            Ok(())
        });
    }
    let (_stage, graph) = scene.finish();
    for _ in 0..2 {
        launched(&queue, &graph);
    }
    let expected = folded((0..2 * length).map(|_| 3));
    assert_eq!(read_number(&queue, &memory), expected);
    assert_eq!(count.load(Ordering::Relaxed), 2 * length);
}
