//! Launches of a graph: each is one command to the queues, waits and profiles around it.

use super::{Log, Scene, folded_from, launched, note};
use crate::Fixture;
use crate::cases::cases;
use crate::support::*;
use quipu_scheduler::graph::NodeRequest;
use quipu_scheduler::{Event, Queue, QueueOptions, UserEvent};

cases! {
    Anything:
        launches_repeat,
        launches_are_ordered_with_plain_commands,
        tasks_that_may_touch_anything,
        behind_any_number_of_readers,
        nothing_recorded,
        events_from_outside_hold_the_launch,
        from_several_threads,
        profiles;
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

/// A graph that reads a buffer on every device and then writes it, while the buffer has readers
/// that wait.
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
