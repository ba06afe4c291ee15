//! Traces of bytes from one node to another that go by way of the program.

use crate::support::pair::Pair;
use crate::support::pool;
use crate::support::relay::Way;
use quipu_conformance::{Watchdog, folding};
use quipu_scheduler::{
    Access, AccessMode, Context, MemoryRef, Queue, QueueOptions, Request, trace,
};
use serde_json::Value;
use std::time::Duration;

const SIZE: u64 = 3 << 20;

/// Changes the first number, so that the bytes are this device's.
fn fold(queue: &Queue, memory: &MemoryRef) {
    let accesses = [Access {
        memory,
        offset: 0,
        length: SIZE,
        mode: AccessMode::ReadWrite,
    }];
    let request = Request {
        accesses: &accesses,
        ..Request::default()
    };
    queue
        .launch(folding(3), 1, &request)
        .unwrap()
        .wait()
        .unwrap();
}

#[test]
fn nodes_with_endless_patience_for_each_other_are_used_together() {
    let _watchdog = Watchdog::start(Duration::from_secs(900), "endless patience".to_owned());
    let mut pair = Pair::new([pool(1), pool(1)], 5);
    for rig in &mut pair.rigs {
        rig.peer_patience = Duration::MAX;
    }
    let devices = pair.devices();
    let context = Context::new(&devices).unwrap();
    let queue = |device| context.queue(device, QueueOptions::default()).unwrap();
    let memory = context.memory(SIZE).unwrap();
    fold(&queue(&devices[0]), &memory);
    fold(&queue(&devices[1]), &memory);
}

#[test]
fn a_trace_says_which_bytes_did_not_go_straight_and_no_others() {
    let _watchdog = Watchdog::start(Duration::from_secs(900), "a trace of detours".to_owned());
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("trace.json");
    trace::start(&path).unwrap();
    let mut expected = 0;
    for is_cut in [false, true] {
        let mut pair = Pair::new([pool(1), pool(1)], 3);
        if is_cut {
            pair.set_peers(Way::Closed);
            for rig in &mut pair.rigs {
                rig.peer_patience = Duration::from_millis(20);
            }
        }
        let devices = pair.devices();
        let context = Context::new(&devices).unwrap();
        let queue = |device| context.queue(device, QueueOptions::default()).unwrap();
        let queues = [queue(&devices[0]), queue(&devices[1])];
        let memory = context.memory(SIZE).unwrap();
        fold(&queues[0], &memory);
        fold(&queues[1], &memory);
        fold(&queues[0], &memory);
        if is_cut {
            // There, and back.
            expected = 2;
        }
    }
    trace::finish().unwrap();
    let text = std::fs::read_to_string(&path).unwrap();
    let events: Vec<Value> = serde_json::from_str(&text).unwrap();
    let told: Vec<&Value> = events
        .iter()
        .filter(|event| event["cat"] == "detour")
        .collect();
    assert_eq!(told.len(), expected, "{told:?}");
    for event in told {
        assert_eq!(event["args"]["from"], "node");
        assert_eq!(event["args"]["to"], "node");
        assert_eq!(event["args"]["bytes"], SIZE);
        // Within a migration of the same device.
        let at = event["ts"].as_f64().unwrap();
        let is_within = |other: &&Value| {
            let start = other["ts"].as_f64().unwrap();
            let end = start + other["dur"].as_f64().unwrap() + 1.0;
            other["pid"] == event["pid"] && start - 1.0 <= at && at <= end
        };
        let mut migrations = events.iter().filter(|event| event["cat"] == "migration");
        assert!(migrations.any(|other| is_within(&other)), "{event}");
    }
}
