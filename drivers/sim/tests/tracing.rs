//! The trace of a program on two devices with memories of their own shows the migrations from one
//! to the other, and the waits of each command.
#![allow(clippy::unwrap_used, reason = "helpers assert by unwrapping")]

mod support;

use quipu_driver_sim::engine::Configuration;
use quipu_scheduler::memory::mapping::HostQueue;
use quipu_scheduler::{AccessMode, trace};
use serde_json::Value;
use std::path::Path;
use support::{Rig, map, read, update, view};

/// A command as its device ran it, in the trace.
struct Traced {
    id: u64,
    start: f64,
    end: f64,
    event: Value,
}

impl Traced {
    fn waits(&self) -> Vec<u64> {
        let waits = self.event["args"]["waits"].as_array().unwrap();
        waits.iter().map(|wait| wait.as_u64().unwrap()).collect()
    }

    /// True if an end of an arrow is at the command's start.
    fn holds(&self, end: &Value) -> bool {
        ["pid", "tid", "ts"]
            .iter()
            .all(|field| end[field] == self.event[field])
    }
}

/// The only command for which this is true.
fn the_one(events: &[Value], is_it: impl Fn(&Value) -> bool) -> Traced {
    let mut found = events
        .iter()
        .filter(|event| event["ph"] == "X" && event["cat"] != "queue" && is_it(event));
    let event = found.next().unwrap().clone();
    assert!(found.next().is_none(), "{event}");
    let start = event["ts"].as_f64().unwrap();
    Traced {
        id: event["args"]["id"].as_u64().unwrap(),
        start,
        end: start + event["dur"].as_f64().unwrap(),
        event,
    }
}

#[test]
fn a_trace_shows_the_migrations_between_two_memories_and_the_dependencies() {
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join("two_memories.json");
    trace::start(&path).unwrap();
    let devices = {
        let mut configuration = Configuration::separate_memory(2, 1 << 20);
        for device in &mut configuration.devices {
            device.launch_latency = 5_000;
        }
        let rig = Rig::manual(configuration);
        let queues = [rig.queue(0), rig.queue(1)];
        let (a, b) = (rig.cells(100), rig.cells(100));
        update(&queues[0], &a, 5, &[]);
        map(&queues[1], &a, &b, 7);
        assert_eq!(read(&queues[1], &b).unwrap(), [22; 100]);
        let host = HostQueue::new(&rig.context).unwrap();
        let turn = host.reserve(&queues[1], &b, 0..80, AccessMode::Read, &[], "a look");
        let turn = turn.unwrap();
        turn.granted().wait().unwrap();
        assert_eq!(view(&turn.take().unwrap().bytes()), [22; 10]);
        [rig.devices[0].id(), rig.devices[1].id()]
    };
    trace::finish().unwrap();

    let events: Vec<Value> =
        serde_json::from_str(&std::fs::read_to_string(&path).unwrap()).unwrap();
    let on = |device: usize, category: &'static str, kind: &'static str, name: &'static str| {
        the_one(&events, |event| {
            event["cat"] == category
                && event["args"]["kind"] == kind
                && event["name"] == name
                && event["args"]["device"] == devices[device]
        })
    };
    // By way of the host, each leg on the device whose memory it is.
    let chain = [
        on(0, "command", "launch", "update"),
        on(0, "migration", "migrate", "migrate to the host"),
        on(1, "migration", "migrate", "migrate to the device"),
        on(1, "command", "launch", "map"),
        on(1, "command", "read", "read"),
    ];
    for one in &chain[1..3] {
        assert_eq!(one.event["args"]["bytes"], 800, "{}", one.event);
    }

    // The host's turn is a mapping, and not one of the tasks.
    let mapped = the_one(&events, |event| event["args"]["kind"] == "map");
    assert_eq!(mapped.event["name"], "map");
    assert!(
        events
            .iter()
            .all(|event| event["args"]["kind"] != "host task")
    );

    let arrows = |phase: &'static str| {
        let ends = events.iter().filter(move |event| event["ph"] == phase);
        ends.filter(|event| event["cat"] == "dependency")
    };
    for pair in chain.windows(2) {
        let [from, to] = pair else {
            unreachable!("windows of two")
        };
        assert!(to.waits().contains(&from.id), "{}", to.event);
        // Fractions of a nanosecond are rounded away.
        assert!(
            from.end <= to.start + 0.001,
            "{} and {}",
            from.event,
            to.event
        );
        let drawn = arrows("s").filter(|start| from.holds(start)).any(|start| {
            arrows("f")
                .filter(|end| end["id"] == start["id"])
                .any(|end| to.holds(end))
        });
        assert!(drawn, "no arrow from {} to {}", from.event, to.event);
    }
}
