//! Recorded graphs: to everybody else a launch is one command; within, commands are
//! ordered, and fail, as anywhere.

use super::cases;
use crate::Fixture;
use crate::printed::folding;
use crate::support::*;
use quipu_scheduler::error::ErrorKind;
use quipu_scheduler::graph::{Node, NodeRequest};
use quipu_scheduler::{
    Access, AccessMode, Context, Event, Graph, MemoryRef, Queue, QueueOptions, RawArgument,
    Recording, UserEvent,
};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

cases! {
    Anything:
        launches_repeat,
        launches_are_ordered_with_plain_commands,
        waits_within,
        markers_and_barriers_within,
        tasks_that_may_touch_anything,
        data_commands,
        kernels_fills_and_copies,
        fills_of_rows,
        a_kernel_that_fails,
        many_readers,
        one_buffer_many_times,
        behind_any_number_of_readers,
        nothing_recorded,
        long_and_wide,
        failure_within,
        the_first_failure_counts,
        failure_from_before,
        a_launch_that_was_not_run_can_be_run_again,
        cancelled,
        events_from_outside_hold_the_launch,
        what_it_uses_lives_as_long,
        dropped_while_it_runs,
        its_driver_ends_with_it,
        from_several_threads,
        profiles,
        refused;
    SeveralDevices:
        over_devices,
        a_copy_of_a_part_is_replaced,
        every_device_reads_what_was_before;
}

struct Scene {
    stage: Stage,
    recording: Recording,
}

impl Scene {
    fn new(fixture: &dyn Fixture) -> Self {
        let stage = Stage::new(fixture);
        let recording = Recording::new(&stage.context);
        Self { stage, recording }
    }

    fn task(
        &mut self,
        queue: &Queue,
        accesses: &[Access<'_>],
        after: &[Node],
        task: impl FnMut(&[RawArgument]) -> quipu_scheduler::Result<()> + Send + 'static,
    ) -> Node {
        let request = NodeRequest {
            accesses,
            after,
            ..NodeRequest::default()
        };
        self.recording.host_task(queue, task, &request).unwrap()
    }

    /// As `support::fold`.
    fn fold(&mut self, queue: &Queue, memory: &MemoryRef, n: u64) -> Node {
        self.task(queue, &[updates(memory)], &[], move |a| {
            store(&a[0], load(&a[0]).wrapping_mul(31).wrapping_add(n));
            Ok(())
        })
    }

    fn finish(self) -> (Stage, Graph) {
        let graph = self.recording.finish().unwrap();
        (self.stage, graph)
    }
}

fn launched(queue: &Queue, graph: &Graph) -> Event {
    queue.launch_graph(graph, &[], None).unwrap()
}

fn launches_repeat(fixture: &dyn Fixture) {
    let mut scene = Scene::new(fixture);
    let memory = scene.stage.memory(8);
    let queues = [scene.stage.in_order(), scene.stage.out_of_order()];
    for (n, queue) in (0..6).zip(queues.iter().cycle()) {
        scene.fold(queue, &memory, n);
    }
    let (_stage, graph) = scene.finish();
    assert_eq!(graph.len(), 6);
    for queue in &queues {
        queue.post_graph(&graph, &[], None).unwrap();
        launched(queue, &graph).wait().unwrap();
    }
    let events: Vec<Event> = (0..20).map(|_| launched(&queues[1], &graph)).collect();
    assert_eq!(
        read_number(&queues[0], &memory),
        folded((0..24).flat_map(|_| 0..6))
    );
    events.iter().for_each(|event| event.wait().unwrap());
}

fn launches_are_ordered_with_plain_commands(fixture: &dyn Fixture) {
    let mut scene = Scene::new(fixture);
    let (a, b) = (scene.stage.memory(8), scene.stage.memory(8));
    let queue = scene.stage.out_of_order();
    scene.fold(&queue, &a, 1);
    // Reads what was before, and overwrites the other.
    scene.task(&queue, &[reads(&a), overwrites(&b)], &[], |raw| {
        store(&raw[1], load(&raw[0]));
        Ok(())
    });
    let (stage, graph) = scene.finish();
    let gate = UserEvent::new();
    let other = stage.in_order();
    put(&other, &a, 7, &[gate.event()]);
    let first = launched(&queue, &graph);
    let between = fold(&other, &a, 2, &[]);
    let second = launched(&queue, &graph);
    // Writes after the graph has read.
    put(&other, &a, 9, &[]);
    fold(&other, &b, 3, &[]);
    assert!(!first.is_complete() && !between.is_complete() && !second.is_complete());
    gate.complete();
    let seven = 7_u64 * 31 + 1;
    let expected = (seven * 31 + 2) * 31 + 1;
    assert_eq!(read_number(&other, &b), expected * 31 + 3);
    assert_eq!(read_number(&other, &a), 9);
    second.wait().unwrap();
}

type Log = Arc<Mutex<Vec<u64>>>;

fn note(
    log: &Log,
    n: u64,
) -> impl FnMut(&[RawArgument]) -> quipu_scheduler::Result<()> + Send + 'static {
    let log = log.clone();
    move |_| {
        log.lock().unwrap().push(n);
        Ok(())
    }
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

fn tasks_that_may_touch_anything(fixture: &dyn Fixture) {
    let mut scene = Scene::new(fixture);
    let log = Log::default();
    let queue = scene.stage.in_order();
    scene.task(&queue, &[], &[], note(&log, 1));
    let request = NodeRequest {
        unknown_access: true,
        ..NodeRequest::default()
    };
    scene
        .recording
        .host_task(&queue, note(&log, 2), &request)
        .unwrap();
    scene.task(&queue, &[], &[], note(&log, 3));
    let (stage, graph) = scene.finish();
    let gate = UserEvent::new();
    // The whole launch is such a command of an in-order queue.
    let before = nothing(&queue, &[], &[gate.event()]);
    let launch = launched(&queue, &graph);
    let after = nothing(&queue, &[], &[]);
    let elsewhere = nothing(&stage.in_order(), &[], &[]);
    elsewhere.wait().unwrap();
    assert!(log.lock().unwrap().is_empty());
    assert!(!before.is_complete() && !launch.is_complete() && !after.is_complete());
    gate.complete();
    after.wait().unwrap();
    assert_eq!(*log.lock().unwrap(), [1, 2, 3]);
}

fn data_commands(fixture: &dyn Fixture) {
    let mut scene = Scene::new(fixture);
    let (a, b) = (scene.stage.memory(16), scene.stage.memory(16));
    let queue = scene.stage.out_of_order();
    let host = HostBytes::new(&[1, 2, 3, 4]);
    let recording = &mut scene.recording;
    let (low, high) = (
        part(&a, 0..4, AccessMode::Overwrite),
        part(&a, 8..16, AccessMode::Overwrite),
    );
    // SAFETY: the bytes are kept and never change.
    unsafe { recording.write(&queue, host.memory(), low, 4, &[], &[]) }.unwrap();
    recording.fill(&queue, high, &[8, 9], &[]).unwrap();
    let (from, to) = (reads(&a), overwrites(&b));
    recording.copy(&queue, from, to, 16, &[], &[]).unwrap();
    let (_stage, graph) = scene.finish();
    for _ in 0..3 {
        write_all(&queue, &a, &[5; 16]);
        launched(&queue, &graph);
        let expected = [1, 2, 3, 4, 5, 5, 5, 5, 8, 9, 8, 9, 8, 9, 8, 9];
        assert_eq!(read_all(&queue, &b), expected);
    }
}

/// Records what a driver may take as a whole.
fn record_fold(scene: &mut Scene, queue: &Queue, memory: &MemoryRef, n: u64, label: &str) {
    let request = NodeRequest {
        accesses: &[updates(memory)],
        label: Some(label),
        ..NodeRequest::default()
    };
    record_native(&scene.recording, queue, folding(n), 1, &request).unwrap();
}

fn kernels_fills_and_copies(fixture: &dyn Fixture) {
    let mut scene = Scene::new(fixture);
    let (a, b) = (scene.stage.memory(24), scene.stage.memory(24));
    let queues = [scene.stage.out_of_order(), scene.stage.in_order()];
    for n in 0..3 {
        record_fold(&mut scene, &queues[0], &a, n, "fold");
    }
    let high = |pattern: &[u8], scene: &mut Scene| {
        let high = part(&a, 8..24, AccessMode::Overwrite);
        scene
            .recording
            .fill(&queues[0], high, pattern, &[])
            .unwrap();
    };
    high(&[1, 2, 3, 4, 5, 6, 7, 8], &mut scene);
    // In two pieces, a row each.
    let step = quipu_scheduler::operation::Step {
        count: 2,
        source_stride: 16,
        destination_stride: 16,
    };
    let (from, to) = (reads(&a), updates(&b));
    let recording = &mut scene.recording;
    recording
        .copy(&queues[0], from, to, 8, &[step], &[])
        .unwrap();
    recording.barrier(&queues[1], &[]).unwrap();
    high(&[8, 9], &mut scene);
    record_fold(&mut scene, &queues[1], &b, 7, "fold");
    let (_stage, graph) = scene.finish();
    let mut x = 5;
    write_all(&queues[0], &b, &[3; 24]);
    write_all(&queues[0], &a, &[0; 24]);
    put(&queues[0], &a, x, &[]);
    for queue in [&queues[0], &queues[1], &queues[0]] {
        // The second is not waited for before it is launched.
        queue.post_graph(&graph, &[], None).unwrap();
        launched(queue, &graph);
        x = folded_from(x, (0..2).flat_map(|_| 0..3));
        let mut high = [8, 9].repeat(8);
        let mut of_a = x.to_le_bytes().to_vec();
        of_a.append(&mut high);
        assert_eq!(read_all(queue, &a), of_a);
        let y = x.wrapping_mul(31).wrapping_add(7).to_le_bytes();
        let of_b = [y, [3; 8], [1, 2, 3, 4, 5, 6, 7, 8]].concat();
        assert_eq!(read_all(queue, &b), of_b);
    }
}

fn fills_of_rows(fixture: &dyn Fixture) {
    let mut scene = Scene::new(fixture);
    let memory = scene.stage.memory(24);
    let queue = scene.stage.in_order();
    let step = quipu_scheduler::operation::Step {
        count: 2,
        source_stride: 0,
        destination_stride: 16,
    };
    let gaps = part(&memory, 8..26, AccessMode::Overwrite);
    let refused = scene
        .recording
        .fill_rows(&queue, gaps, &[6, 5], 2, &[step], &[]);
    assert!(refused.is_err(), "it reaches beyond the end");
    let gaps = part(&memory, 0..18, AccessMode::Overwrite);
    scene
        .recording
        .fill_rows(&queue, gaps, &[6, 5], 2, &[step], &[])
        .unwrap();
    record_fold(&mut scene, &queue, &memory, 3, "fold");
    let (_stage, graph) = scene.finish();
    for n in 0..3 {
        let mut expected = [n; 24];
        write_all(&queue, &memory, &expected);
        launched(&queue, &graph);
        for row in [0, 16] {
            expected[row..row + 2].copy_from_slice(&[6, 5]);
        }
        let x = u64::from_le_bytes(expected[..8].try_into().unwrap());
        let x = x.wrapping_mul(31).wrapping_add(3);
        expected[..8].copy_from_slice(&x.to_le_bytes());
        assert_eq!(read_all(&queue, &memory), expected);
    }
}

fn a_kernel_that_fails(fixture: &dyn Fixture) {
    let mut scene = Scene::new(fixture);
    let (a, short) = (scene.stage.memory(8), scene.stage.memory(4));
    let queue = scene.stage.out_of_order();
    record_fold(&mut scene, &queue, &a, 1, "fine");
    record_fold(&mut scene, &queue, &short, 1, "first");
    record_fold(&mut scene, &queue, &short, 2, "second");
    let (_stage, graph) = scene.finish();
    for _ in 0..2 {
        put(&queue, &a, 1, &[]);
        write_all(&queue, &short, &[1; 4]);
        let launch = launched(&queue, &graph);
        let again = launched(&queue, &graph);
        let error = error_of(&launch);
        assert!(matches!(error.kind(), ErrorKind::Kernel { .. }), "{error}");
        // What it would have written is void.
        assert_caused_by(&again, &launch);
    }
    // Without the kernels that fail, all is well again.
    put(&queue, &a, 1, &[]);
    assert_eq!(read_number(&queue, &a), 1);
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

/// A graph that reads a buffer on every device and then writes it, while the buffer has readers that wait.
fn behind_any_number_of_readers(fixture: &dyn Fixture) {
    let mut scene = Scene::new(fixture);
    let memory = scene.stage.memory(8);
    let queues: Vec<Queue> = (0..scene.stage.devices.len())
        .map(|device| scene.stage.queue_on(device, QueueOptions::default()))
        .collect();
    for queue in &queues {
        scene.task(queue, &[reads(&memory)], &[], |_| Ok(()));
    }
    scene.fold(&queues[0], &memory, 1);
    let (_stage, graph) = scene.finish();
    let mut launches = 0;
    for readers in (0..3).chain(28..36).chain(58..70).chain(124..132) {
        let gate = UserEvent::new();
        let waits = [gate.event()];
        for _ in 0..readers {
            launch(&queues[0], &[reads(&memory)], &waits, |_| Ok(()));
        }
        let done = launched(&queues[0], &graph);
        gate.complete();
        done.wait().unwrap();
        launches += 1;
    }
    let expected = folded_from(0, std::iter::repeat_n(1, launches));
    assert_eq!(read_number(&queues[0], &memory), expected);
}

fn nothing_recorded(fixture: &dyn Fixture) {
    let (stage, graph) = Scene::new(fixture).finish();
    assert!(graph.is_empty());
    let queue = stage.in_order();
    let gate = UserEvent::new();
    let launch = queue.launch_graph(&graph, &[gate.event()], None).unwrap();
    assert!(!launch.is_complete());
    gate.complete();
    launch.wait().unwrap();
    launched(&queue, &graph).wait().unwrap();
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

fn failure_within(fixture: &dyn Fixture) {
    let mut scene = Scene::new(fixture);
    let (a, b, c) = (
        scene.stage.memory(8),
        scene.stage.memory(8),
        scene.stage.memory(8),
    );
    let queue = scene.stage.out_of_order();
    let fails = Flag::new();
    let inside = fails.clone();
    let log = Log::default();
    let failing = scene.task(&queue, &[overwrites(&a)], &[], move |raw| {
        store(&raw[0], 5);
        if inside.is_set() {
            Err(boom("in the graph"))
        } else {
            Ok(())
        }
    });
    // Reads it: not run. Waits for it: not run. Waits for what was not run: not run.
    scene.task(&queue, &[reads(&a), overwrites(&b)], &[], {
        let mut note = note(&log, 1);
        move |raw| {
            store(&raw[1], load(&raw[0]) + 1);
            note(raw)
        }
    });
    let waits = scene.task(&queue, &[], &[failing], note(&log, 2));
    scene.task(&queue, &[], &[waits], note(&log, 3));
    // Only after it: run.
    scene.task(&queue, &[overwrites(&a)], &[], {
        let mut note = note(&log, 4);
        move |raw| {
            store(&raw[0], 6);
            note(raw)
        }
    });
    scene.task(&queue, &[overwrites(&c)], &[], {
        let mut note = note(&log, 5);
        move |raw| {
            store(&raw[0], 7);
            note(raw)
        }
    });
    let (_stage, graph) = scene.finish();
    for round in 0..4 {
        if round % 2 == 1 {
            fails.set();
        } else {
            fails.clear();
        }
        let launch = launched(&queue, &graph);
        let after = nothing(&queue, &[], from_ref(&launch));
        launch.wait_over().unwrap();
        let mut ran = std::mem::take(&mut *log.lock().unwrap());
        ran.sort_unstable();
        if round % 2 == 0 {
            launch.wait().unwrap();
            after.wait().unwrap();
            assert_eq!(ran, [1, 2, 3, 4, 5]);
            let numbers = [&a, &b, &c].map(|memory| read_number(&queue, memory));
            assert_eq!(numbers, [6, 6, 7]);
        } else {
            let error = error_of(&launch);
            assert!(matches!(error.kind(), ErrorKind::Kernel { .. }), "{error}");
            assert!(error.to_string().contains("in the graph"), "{error}");
            assert_caused_by(&after, &launch);
            assert_eq!(ran, [4, 5]);
            // All that the launch writes is void, until something overwrites it.
            for memory in [&a, &b, &c] {
                assert_caused_by(&nothing(&queue, &[reads(memory)], &[]), &launch);
            }
            put(&queue, &c, 1, &[]);
            assert_eq!(read_number(&queue, &c), 1);
        }
    }
}

fn the_first_failure_counts(fixture: &dyn Fixture) {
    let mut scene = Scene::new(fixture);
    let queue = scene.stage.out_of_order();
    for n in 0..20 {
        scene.task(&queue, &[], &[], move |_| {
            Err(boom(&format!("number {n}.")))
        });
    }
    let (_stage, graph) = scene.finish();
    for _ in 0..20 {
        let error = error_of(&launched(&queue, &graph)).to_string();
        assert!(error.contains("number 0."), "{error}");
    }
}

fn failure_from_before(fixture: &dyn Fixture) {
    let mut scene = Scene::new(fixture);
    let (a, b) = (scene.stage.memory(8), scene.stage.memory(8));
    let queue = scene.stage.in_order();
    let ran = Arc::new(AtomicU64::new(0));
    let inside = ran.clone();
    scene.task(&queue, &[overwrites(&b)], &[], move |raw| {
        inside.fetch_add(1, Ordering::SeqCst);
        store(&raw[0], 1);
        Ok(())
    });
    scene.fold(&queue, &a, 2);
    let (_stage, graph) = scene.finish();
    // What it only overwrites may have failed; what it reads may not.
    let failed = failing(&queue, &[overwrites(&b)], &[]);
    let fine = launched(&queue, &graph);
    failed.wait_over().unwrap();
    fine.wait().unwrap();
    let failed = failing(&queue, &[updates(&a)], &[]);
    let refused = launched(&queue, &graph);
    assert_caused_by(&refused, &failed);
    assert_eq!(ran.load(Ordering::SeqCst), 1);
    // It would have written this.
    assert_caused_by(&nothing(&queue, &[reads(&b)], &[]), &failed);
    put(&queue, &a, 0, &[]);
    launched(&queue, &graph).wait().unwrap();
    assert_eq!(read_number(&queue, &a), 2);
    assert_eq!(read_number(&queue, &b), 1);
}

fn a_launch_that_was_not_run_can_be_run_again(fixture: &dyn Fixture) {
    let mut scene = Scene::new(fixture);
    let (memory, count) = (scene.stage.memory(64), Arc::new(AtomicU64::new(0)));
    let queue = scene.stage.in_order();
    let fails = Flag::new();
    let inside = fails.clone();
    let first = scene.task(&queue, &[], &[], move |_| {
        if inside.is_set() {
            Err(boom("now"))
        } else {
            Ok(())
        }
    });
    // A launch of several groups: a failure must not lose how many.
    if queue.shared().driver().runs_native_code() {
        let inside = count.clone();
        let kernel = Kernel(move |_: &[RawArgument], groups: std::ops::Range<u32>| {
            inside.fetch_add(u64::from(groups.end - groups.start), Ordering::SeqCst);
            Ok(())
        });
        let request = NodeRequest {
            accesses: &[updates(&memory)],
            after: &[first],
            ..NodeRequest::default()
        };
        scene
            .recording
            .launch(&queue, kernel, 37, &request)
            .unwrap();
    } else {
        let inside = count.clone();
        scene.task(&queue, &[updates(&memory)], &[first], move |_| {
            inside.fetch_add(37, Ordering::SeqCst);
            Ok(())
        });
    }
    let (_stage, graph) = scene.finish();
    fails.set();
    for _ in 0..3 {
        error_of(&launched(&queue, &graph));
        put(&queue, &memory, 0, &[]).wait().unwrap();
    }
    fails.clear();
    launched(&queue, &graph).wait().unwrap();
    assert_eq!(count.load(Ordering::SeqCst), 37);
}

fn cancelled(fixture: &dyn Fixture) {
    let mut scene = Scene::new(fixture);
    let memory = scene.stage.memory(8);
    let queue = scene.stage.in_order();
    scene.fold(&queue, &memory, 1);
    let (_stage, graph) = scene.finish();
    let gate = UserEvent::new();
    let launch = queue.launch_graph(&graph, &[gate.event()], None).unwrap();
    let second = launched(&queue, &graph);
    launch.cancel();
    gate.complete();
    assert!(error_of(&launch).is_cancelled());
    // The second updates what the first should have written.
    assert_caused_by(&second, &launch);
    put(&queue, &memory, 4, &[]);
    let third = launched(&queue, &graph);
    third.wait().unwrap();
    // Too late.
    third.cancel();
    third.wait().unwrap();
    assert_eq!(read_number(&queue, &memory), 4 * 31 + 1);
}

fn events_from_outside_hold_the_launch(fixture: &dyn Fixture) {
    let mut scene = Scene::new(fixture);
    let memory = scene.stage.memory(8);
    let queue = scene.stage.out_of_order();
    scene.fold(&queue, &memory, 1);
    let (_stage, graph) = scene.finish();
    let (one, two) = (UserEvent::new(), UserEvent::new());
    let launch = queue.launch_graph(&graph, &[one.event(), two.event()], None);
    let launch = launch.unwrap();
    one.complete();
    assert!(!launch.is_complete());
    two.fail("not this time");
    assert!(error_of(&launch).to_string().contains("not this time"));
    put(&queue, &memory, 0, &[]);
    let called = Flag::new();
    let launch = launched(&queue, &graph);
    let inside = called.clone();
    launch.on_complete(move |result| {
        result.unwrap();
        inside.set();
    });
    launch.wait().unwrap();
    called.wait();
}

fn what_it_uses_lives_as_long(fixture: &dyn Fixture) {
    let mut scene = Scene::new(fixture);
    let (hidden, result) = (scene.stage.memory(8), scene.stage.memory(8));
    let queue = scene.stage.in_order();
    scene.fold(&queue, &hidden, 1);
    scene.task(&queue, &[reads(&hidden), overwrites(&result)], &[], |raw| {
        store(&raw[1], load(&raw[0]));
        Ok(())
    });
    let (stage, graph) = scene.finish();
    drop((hidden, queue));
    let queue = stage.out_of_order();
    for _ in 0..3 {
        launched(&queue, &graph);
    }
    assert_eq!(read_number(&queue, &result), folded([1, 1, 1]));
    drop(stage);
    drop(queue);
    drop(graph);
}

fn dropped_while_it_runs(fixture: &dyn Fixture) {
    for _ in 0..20 {
        let mut scene = Scene::new(fixture);
        let memory = scene.stage.memory(8);
        let dropped = Flag::new();
        let queue = scene.stage.in_order();
        scene.fold(&queue, &memory, 1);
        let inside = SetOnDrop(dropped.clone());
        scene.task(&queue, &[], &[], move |_| {
            let _ = &inside;
            Ok(())
        });
        let (_stage, graph) = scene.finish();
        let gate = UserEvent::new();
        let launch = queue.launch_graph(&graph, &[gate.event()], None).unwrap();
        let second = launched(&queue, &graph);
        drop(graph);
        assert!(!dropped.is_set());
        gate.complete();
        launch.wait().unwrap();
        second.wait().unwrap();
        assert_eq!(read_number(&queue, &memory), folded([1, 1]));
        dropped.wait();
    }
}

fn its_driver_ends_with_it(fixture: &dyn Fixture) {
    for launches in [0, 1, 3] {
        let mut scene = Scene::new(fixture);
        let (a, b) = (scene.stage.memory(8), scene.stage.memory(8));
        let queue = scene.stage.in_order();
        scene.fold(&queue, &a, 1);
        scene.task(&queue, &[reads(&a), overwrites(&b)], &[], |_| Ok(()));
        let (stage, graph) = scene.finish();
        let drivers: Vec<_> = (stage.devices.iter())
            .map(|device| Arc::downgrade(device.driver()))
            .collect();
        for _ in 0..launches {
            launched(&queue, &graph);
        }
        queue.wait().unwrap();
        // What was allocated for a buffer keeps its driver as long.
        drop((stage, graph, a, queue, b));
        for (driver, device) in drivers.iter().zip(0..) {
            // Its own threads let it go when they come to it.
            let mut looks = 0;
            while driver.strong_count() > 0 {
                looks += 1;
                assert!(
                    looks < 1_000_000,
                    "{launches}: the driver of device {device} lives on"
                );
                std::thread::yield_now();
            }
        }
    }
}

fn from_several_threads(fixture: &dyn Fixture) {
    const LAUNCHES: u64 = 50;
    let mut scene = Scene::new(fixture);
    let (a, b) = (scene.stage.memory(8), scene.stage.memory(8));
    let queues = [scene.stage.in_order(), scene.stage.out_of_order()];
    for memory in [&a, &b] {
        scene.task(&queues[0], &[updates(memory)], &[], |raw| {
            store(&raw[0], load(&raw[0]) + 1);
            Ok(())
        });
    }
    let (stage, graph) = scene.finish();
    std::thread::scope(|scope| {
        for queue in &queues {
            let (graph, stage, a, b) = (&graph, &stage, &a, &b);
            scope.spawn(move || {
                let own = stage.out_of_order();
                for _ in 0..LAUNCHES {
                    queue.post_graph(graph, &[], None).unwrap();
                    nothing(&own, &[reads(b), reads(a)], &[]);
                }
                queue.wait().unwrap();
                own.wait().unwrap();
            });
        }
    });
    for memory in [&a, &b] {
        assert_eq!(read_number(&queues[0], memory), 2 * LAUNCHES);
    }
}

fn profiles(fixture: &dyn Fixture) {
    let mut scene = Scene::new(fixture);
    let memory = scene.stage.memory(8);
    let timed = QueueOptions {
        profiling: true,
        ..QueueOptions::default()
    };
    let (queue, plain) = (scene.stage.queue(timed), scene.stage.in_order());
    scene.fold(&queue, &memory, 1);
    scene.fold(&plain, &memory, 2);
    scene.fold(&queue, &memory, 3);
    let (_stage, graph) = scene.finish();
    let mut last = 0;
    for _ in 0..3 {
        let launch = launched(&queue, &graph);
        launch.wait().unwrap();
        let whole = launch.profile().unwrap();
        let profiles = graph.profiles();
        let [first, second] = &profiles[..] else {
            panic!("two commands are timed, not {profiles:?}");
        };
        let (first, second) = (first.2, second.2);
        assert!(last <= first.queued_ns && first.queued_ns > 0);
        for profile in [first, second] {
            assert!(profile.queued_ns <= profile.submitted_ns, "{profile:?}");
            assert!(profile.submitted_ns <= profile.started_ns, "{profile:?}");
            assert!(profile.started_ns <= profile.ended_ns, "{profile:?}");
            assert!(profile.ended_ns <= whole.ended_ns, "{profile:?}, {whole:?}");
        }
        last = whole.ended_ns;
    }
}

fn refused(fixture: &dyn Fixture) {
    let stage = Stage::new(fixture);
    let queue = stage.in_order();
    let memory = stage.memory(8);
    let recording = Recording::new(&stage.context);
    let record = |accesses: &[Access<'_>], after: &[Node], queue: &Queue| {
        let request = NodeRequest {
            accesses,
            after,
            ..NodeRequest::default()
        };
        recording.host_task(queue, |_: &[RawArgument]| Ok(()), &request)
    };
    // Out of bounds, of another context, after a command of another recording.
    let beyond = [part(&memory, 4..12, AccessMode::Read)];
    let error = record(&beyond, &[], &queue).unwrap_err();
    assert!(
        matches!(error.kind(), ErrorKind::OutOfBounds { .. }),
        "{error}"
    );
    let elsewhere = Context::new(&stage.devices).unwrap();
    let foreign = elsewhere.memory(8).unwrap();
    let foreign_queue = elsewhere
        .queue(&stage.devices[0], QueueOptions::default())
        .unwrap();
    for error in [
        record(&[reads(&foreign)], &[], &queue).unwrap_err(),
        record(&[], &[], &foreign_queue).unwrap_err(),
    ] {
        assert!(
            matches!(error.kind(), ErrorKind::WrongContext { .. }),
            "{error}"
        );
    }
    let other = Recording::new(&stage.context);
    let node = other.marker(&queue, &[]).unwrap();
    let error = record(&[], &[node], &queue).unwrap_err();
    assert!(error.to_string().contains("another recording"), "{error}");
    // What is in use only in part.
    let size = stage.memory(8);
    memory.set_content_size(Some(size)).unwrap();
    let error = record(&[reads(&memory)], &[], &queue).unwrap_err();
    assert!(error.to_string().contains("content size"), "{error}");
    memory.set_content_size(None).unwrap();
    record(&[reads(&memory)], &[], &queue).unwrap();
    let graph = recording.finish().unwrap();
    assert_eq!(graph.len(), 1, "what is refused leaves no trace");
    // The same as it is launched.
    memory.set_content_size(Some(stage.memory(8))).unwrap();
    let error = queue.launch_graph(&graph, &[], None).unwrap_err();
    assert!(error.to_string().contains("content size"), "{error}");
    memory.set_content_size(None).unwrap();
    let error = foreign_queue.launch_graph(&graph, &[], None).unwrap_err();
    assert!(
        matches!(error.kind(), ErrorKind::WrongContext { .. }),
        "{error}"
    );
    launched(&queue, &graph).wait().unwrap();
}

fn over_devices(fixture: &dyn Fixture) {
    let mut scene = Scene::new(fixture);
    let (a, b) = (scene.stage.memory(8), scene.stage.memory(8));
    let queues: Vec<Queue> = (0..scene.stage.devices.len())
        .map(|device| scene.stage.queue_on(device, OUT_OF_ORDER))
        .collect();
    // What one leaves, the next takes on.
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

/// A copy that was made of what was in use is made again for a graph that needs all, by a command that comes before
/// the launch, though the launch reads the buffer elsewhere, too.
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

fn folded_from(start: u64, numbers: impl IntoIterator<Item = u64>) -> u64 {
    numbers
        .into_iter()
        .fold(start, |x, n| x.wrapping_mul(31).wrapping_add(n))
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
