//! Lifetimes: a graph keeps buffers, closures and drivers until it and its last launch are gone.

use super::{Scene, launched};
use crate::Fixture;
use crate::cases::cases;
use crate::support::*;
use quipu_scheduler::UserEvent;
use std::sync::Arc;

cases! {
    Anything:
        what_it_uses_lives_as_long,
        dropped_while_it_runs,
        its_driver_ends_with_it;
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
        // A buffer's allocation keeps its driver as long.
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
