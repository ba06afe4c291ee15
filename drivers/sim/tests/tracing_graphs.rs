//! The trace of a recorded graph over two devices with memories of their own shows its commands in
//! each launch, the migrations between them, and the waits of each.
#![allow(clippy::unwrap_used, reason = "helpers assert by unwrapping")]

mod support;

use quipu_driver_sim::engine::Configuration;
use quipu_scheduler::graph::NodeRequest;
use quipu_scheduler::{AccessMode, RawArgument, Recording, trace};
use serde_json::Value;
use std::path::Path;
use support::{Kernel, Rig, all, read, step, update, view};

#[test]
fn a_trace_shows_the_commands_of_each_launch() {
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join("recorded.json");
    trace::start(&path).unwrap();
    {
        let rig = Rig::manual(Configuration::separate_memory(2, 1 << 20));
        let queues = [rig.queue(0), rig.queue(1)];
        let cells = rig.cells(10);
        let recording = Recording::new(&rig.context);
        for (name, queue) in ["first", "second"].into_iter().zip(&queues) {
            let kernel = Kernel(name, |arguments: &[RawArgument]| {
                view(&arguments[0])
                    .iter_mut()
                    .for_each(|cell| *cell = step(*cell, 1));
                Ok(())
            });
            let request = NodeRequest {
                accesses: &[all(&cells, AccessMode::ReadWrite)],
                ..NodeRequest::default()
            };
            recording.launch(queue, kernel, 1, &request).unwrap();
        }
        let graph = recording.finish().unwrap();
        assert_eq!(graph.len(), 4, "the bytes go by way of the host");
        update(&queues[1], &cells, 7, &[]);
        for _ in 0..2 {
            queues[0].launch_graph(&graph, &[], Some("round")).unwrap();
        }
        let expected = (0..4).fold(7, |cell, _| step(cell, 1));
        assert_eq!(read(&queues[0], &cells).unwrap(), [expected; 10]);
    }
    trace::finish().unwrap();

    let events: Vec<Value> =
        serde_json::from_str(&std::fs::read_to_string(&path).unwrap()).unwrap();
    let named = |name: &str| {
        let commands = events
            .iter()
            .filter(|event| event["ph"] == "X" && event["cat"] != "queue" && event["name"] == name);
        commands.collect::<Vec<_>>()
    };
    let id = |event: &Value| event["args"]["id"].as_u64().unwrap();
    let waits = |event: &Value| -> Vec<u64> {
        let waits = event["args"]["waits"].as_array().unwrap();
        waits.iter().map(|wait| wait.as_u64().unwrap()).collect()
    };
    let [firsts, seconds, launches] = ["first", "second", "round"].map(named);
    let [out, back] = ["migrate to the host", "migrate to the device"].map(named);
    assert_eq!([firsts.len(), seconds.len(), launches.len()], [2, 2, 2]);
    // Each time to the first device before the graph, from there to the second within it, and back
    // to be read.
    assert_eq!([out.len(), back.len()], [5, 5]);
    for (number, launch) in launches.iter().enumerate() {
        assert_eq!(launch["args"]["kind"], "graph");
        // The end is the end of the last, which waited for the bytes, and these for the first.
        let second = seconds
            .iter()
            .find(|second| waits(launch).contains(&id(second)));
        let brought = back
            .iter()
            .find(|leg| waits(second.unwrap()).contains(&id(leg)));
        let sent = out
            .iter()
            .find(|leg| waits(brought.unwrap()).contains(&id(leg)));
        let first = firsts
            .iter()
            .find(|first| waits(sent.unwrap()).contains(&id(first)));
        // The first waited for the migrations that the launch waited for, of the bytes that it
        // reads.
        let before = waits(first.unwrap());
        assert!(
            back.iter().any(|leg| before.contains(&id(leg))),
            "{before:?}"
        );
        let other = launches[1 - number];
        assert_ne!(id(launch), id(other));
    }
}
