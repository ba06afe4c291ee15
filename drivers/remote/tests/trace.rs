//! A trace of commands on a node: on this machine's clock, with how well that is known.
//!
//! The node is in this process, so its clock is this one's: it is ahead by nothing, which has to be
//! within what is said.
#![allow(clippy::unwrap_used, reason = "helpers assert by unwrapping")]

mod support;

use quipu_conformance::folding;
use quipu_node::Limits;
use quipu_scheduler::{Access, AccessMode, Context, QueueOptions, Request, clock, trace};
use serde_json::Value;
use support::{Rig, pool};

#[test]
fn a_nodes_commands_are_told_on_this_machines_clock() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("trace.json");
    trace::start(&path).unwrap();
    let rig = Rig::new(pool(2), Limits::default());
    let devices = rig.devices();
    let context = Context::new(&devices).unwrap();
    let options = QueueOptions {
        profiling: true,
        ..QueueOptions::default()
    };
    let queue = context.queue(&devices[0], options).unwrap();
    let memory = context.memory(8).unwrap();
    let accesses = [Access {
        memory: &memory,
        offset: 0,
        length: 8,
        mode: AccessMode::ReadWrite,
    }];
    let request = Request {
        accesses: &accesses,
        ..Request::default()
    };
    for number in 0..100 {
        let before = clock::now_ns();
        let event = queue.launch(folding(number), 1, &request).unwrap();
        event.wait().unwrap();
        let (profile, after) = (event.profile().unwrap(), clock::now_ns());
        let times = [before, profile.started_ns, profile.ended_ns, after];
        assert!(times.is_sorted(), "{times:?}");
    }
    drop((queue, memory, context));
    trace::finish().unwrap();

    let events: Vec<Value> =
        serde_json::from_str(&std::fs::read_to_string(&path).unwrap()).unwrap();
    // On the lanes that the node's own core has them on, which writes the same trace.
    let lanes = |is_ours: bool| {
        let launches = events
            .iter()
            .filter(|event| event["cat"] == "command" && event["args"]["kind"] == "launch");
        let of = launches
            .map(|event| &event["args"])
            .filter(|args| (args["device"] == devices[0].id()) == is_ours);
        let mut lanes: Vec<u64> = of.map(|args| args["lane"].as_u64().unwrap()).collect();
        lanes.sort_unstable();
        lanes
    };
    assert_eq!(lanes(true).len(), 100);
    assert_eq!(lanes(true), lanes(false));
    // Each has an arrow from its queue, but for those before anything was known of the node's
    // clock.
    let arrows = events
        .iter()
        .filter(|event| event["cat"] == "enqueue" && event["ph"] == "f");
    let arrows: Vec<_> = arrows.collect();
    assert!(arrows.len() >= 99, "{}", arrows.len());
    for arrow in arrows {
        let there = events.iter().any(|event| {
            event["cat"] == "command"
                && event["args"]["id"] == arrow["id"]
                && event["ts"] == arrow["ts"]
                && event["tid"] == arrow["tid"]
        });
        assert!(there, "{arrow}");
    }

    let told: Vec<_> = events
        .iter()
        .filter(|event| event["name"] == "quipu_clock")
        .collect();
    assert!(!told.is_empty());
    let mut last = u64::MAX;
    for event in told {
        let args = &event["args"];
        assert_eq!(args["node"], "node");
        assert_eq!(args["device"], devices[0].id());
        let (ahead, error) = (
            args["ahead_ns"].as_i64().unwrap(),
            args["error_ns"].as_u64().unwrap(),
        );
        assert!(ahead.unsigned_abs() <= error, "{args}");
        assert!(
            error < last,
            "it is only said again when it is known better: {args}"
        );
        last = error;
        let drift = [&args["drift_ppb"], &args["drift_error_ppb"]].map(|it| it.as_i64().unwrap());
        assert!(drift[0].abs() <= drift[1], "{args}");
    }
}
