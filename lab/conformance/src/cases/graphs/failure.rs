//! Failure: of commands within a graph, of a launch, and of a recording that is refused.

use super::{Log, Scene, launched, note, record_fold};
use crate::Fixture;
use crate::cases::cases;
use crate::support::*;
use quipu_scheduler::error::{ErrorKind, Returned};
use quipu_scheduler::graph::{Node, NodeRequest};
use quipu_scheduler::{
    Access, AccessMode, Context, Queue, QueueOptions, RawArgument, Recording, UserEvent,
};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

cases! {
    Anything:
        a_kernel_that_fails,
        failure_within,
        the_first_failure_counts,
        errors_that_panic_as_they_are_dropped,
        failure_from_before,
        a_launch_that_was_not_run_can_be_run_again,
        cancelled,
        refused;
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
        // Its bytes are void.
        assert_caused_by(&again, &launch);
    }
    // Without the kernels that fail, all is well again.
    put(&queue, &a, 1, &[]);
    assert_eq!(read_number(&queue, &a), 1);
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

/// An error of the user's whose destructor panics.
struct Bad;

impl std::fmt::Display for Bad {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("a bad error")
    }
}

impl Drop for Bad {
    fn drop(&mut self) {
        panic!("an error that panics as it is dropped");
    }
}

fn errors_that_panic_as_they_are_dropped(fixture: &dyn Fixture) {
    let mut scene = Scene::new(fixture);
    let memory = scene.stage.memory(8);
    let queue = scene.stage.out_of_order();
    for accesses in [&[][..], &[overwrites(&memory)]] {
        scene.task(&queue, accesses, &[], |_| {
            Err(ErrorKind::Returned {
                what: "a test",
                error: Returned::new(Bad),
            }
            .into())
        });
    }
    let (_stage, graph) = scene.finish();
    // The second launch's error takes the place of the first one's in the memory.
    for _ in 0..2 {
        let error = error_of(&launched(&queue, &graph)).to_string();
        assert!(error.contains("a bad error"), "{error}");
    }
    nothing(&queue, &[], &[]).wait().unwrap();
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
    // Writers of memory that it only overwrites may have failed; writers of memory that it reads
    // may not.
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
    // A buffer that is in use only in part.
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
