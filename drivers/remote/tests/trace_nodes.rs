//! A trace of two nodes that are used together. Their sessions are processes with clocks of their
//! own. All commands are in one trace, on this machine's clock, and in the order in which they
//! happened.
#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, reason = "helpers assert by unwrapping")]

mod support;

use quipu_conformance::{Watchdog, folding};
use quipu_node::{Spawn, serve_session};
use quipu_scheduler::{
    Access, AccessMode, Context, Event, MemoryRef, QueueOptions, Request, UserEvent, clock, trace,
};
use serde_json::Value;
use std::sync::Arc;
use std::time::Duration;
use support::pair::Pair;
use support::{Suite, pool};

/// Says that this process is a session's.
const IS_SESSION: &str = "QUIPU_TEST_SESSION";

/// Not a test: what a session's process does, when the test's nodes start this program.
#[test]
#[ignore = "a session's process, started by the test"]
fn session_process() {
    if std::env::var_os(IS_SESSION).is_none() {
        return;
    }
    // It counts from here: each process began at another time.
    let _ = clock::now_ns();
    let served = serve_session(|_| {
        Ok::<_, String>(quipu_node::Options {
            natives: Arc::new(Suite::default()),
            ..quipu_node::Options::new(pool(1))
        })
    });
    panic!("{served:?}");
}

/// A number of an event, in nanoseconds.
fn ns(event: &Value, field: &str) -> i64 {
    (event[field].as_f64().unwrap() * 1000.0) as i64
}

fn end(event: &Value) -> i64 {
    ns(event, "ts") + ns(event, "dur")
}

fn id(event: &Value) -> u64 {
    event["args"]["id"].as_u64().unwrap()
}

fn waits_for(event: &Value, other: &Value) -> bool {
    let waits = event["args"]["waits"].as_array().unwrap();
    waits.contains(&other["args"]["id"])
}

/// True if there is an arrow from the beginning of a command to that of another.
fn has_arrow(events: &[Value], from: &Value, to: &Value) -> bool {
    let ends_at = |phase: &str, at: &Value| -> Vec<u64> {
        let ends = events.iter().filter(|event| {
            let is_there = ["ts", "pid", "tid"]
                .iter()
                .all(|field| event[*field] == at[*field]);
            is_there && event["cat"] == "dependency" && event["ph"] == phase
        });
        ends.map(|event| event["id"].as_u64().unwrap()).collect()
    };
    let ends = ends_at("f", to);
    ends_at("s", from).iter().any(|arrow| ends.contains(arrow))
}

#[test]
fn what_two_nodes_do_together_is_in_one_trace_in_its_order() {
    let _watchdog = Watchdog::start(Duration::from_secs(900), "a trace of two nodes".to_owned());
    const SIZE: u64 = 3 << 20;
    const HOPS: usize = 30;
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("trace.json");
    trace::start(&path).unwrap();
    let pair = Pair::with([pool(1), pool(1)], 1, |options| {
        let this = ["--exact", "session_process", "--ignored", "--nocapture"];
        let mut spawn = Spawn::own(this).unwrap();
        spawn.environment = vec![
            (IS_SESSION.into(), Some("1".into())),
            ("QUIPU_TRACE".into(), None),
        ];
        options.processes = Some(spawn);
    });
    let devices = pair.devices();
    let context = Context::new(&devices).unwrap();
    let queue = |device| context.queue(device, QueueOptions::default()).unwrap();
    let queues = [queue(&devices[0]), queue(&devices[1])];
    let launch = |node: usize, memory: &MemoryRef, waits: &[Event]| {
        let accesses = [Access {
            memory,
            offset: 0,
            length: memory.size(),
            mode: AccessMode::ReadWrite,
        }];
        let request = Request {
            accesses: &accesses,
            waits,
            ..Request::default()
        };
        queues[node].launch(folding(3), 1, &request).unwrap()
    };
    // Before anything depends on it, much is known of each clock.
    for node in 0..2 {
        let own = context.memory(8).unwrap();
        for _ in 0..20 {
            launch(node, &own, &[]).wait().unwrap();
        }
    }
    let memory = context.memory(SIZE).unwrap();
    for hop in 0..HOPS {
        launch(hop % 2, &memory, &[]).wait().unwrap();
    }
    // And all at once: the nodes wait for each other, and not for the client.
    let begin = UserEvent::new();
    let mut first = vec![begin.event()];
    for hop in 0..HOPS {
        launch(hop % 2, &memory, &std::mem::take(&mut first));
    }
    begin.complete();
    queues.iter().for_each(|queue| queue.wait().unwrap());
    drop((memory, context));
    drop(queues);
    trace::finish().unwrap();
    let text = std::fs::read_to_string(&path).unwrap();
    let events: Vec<Value> = serde_json::from_str(&text).unwrap();

    // Both clocks are told, with how well they are known; and they differ by more than that.
    let clocks = [0, 1].map(|node: usize| {
        let of_node = |event: &&Value| {
            event["name"] == "quipu_clock" && event["args"]["device"] == devices[node].id()
        };
        let told: Vec<&Value> = events.iter().filter(of_node).collect();
        let number = |event: &Value, field: &str| event["args"][field].as_i64().unwrap();
        let errors = told.iter().map(|event| number(event, "error_ns"));
        let last = told.last().unwrap();
        let ahead = number(last, "ahead_ns");
        (ahead, errors.max().unwrap(), number(last, "error_ns"))
    });
    let [(one, one_worst, one_last), (other, other_worst, other_last)] = clocks;
    assert!(one_last > 0 && other_last > 0);
    assert!((one - other).abs() > one_last + other_last, "{clocks:?}");
    let bound = one_worst + other_worst;

    let of = |category: &str| {
        let is_it = |event: &&Value| {
            event["cat"] == category && event["ph"] == "X" && event["args"]["bytes"] == SIZE
        };
        let mut found: Vec<&Value> = events.iter().filter(is_it).collect();
        found.sort_by_key(|event| id(event));
        found
    };
    let (launches, migrations) = (of("command"), of("migration"));
    assert_eq!(launches.len(), 2 * HOPS);
    let mut flows = [0; 2];
    for (hop, pair) in launches.windows(2).enumerate() {
        let [before, after] = *pair else {
            unreachable!("windows of two")
        };
        assert_eq!(before["args"]["device"], devices[hop % 2].id());
        let moved = migrations.iter().find(|moved| waits_for(after, moved));
        let moved: &Value = moved.unwrap_or_else(|| panic!("no bytes go to {after}"));
        // It is shown at the node that it comes from, beside what that does.
        assert_eq!(moved["pid"], before["pid"]);
        assert_ne!(moved["tid"], before["tid"]);
        for (earlier, later) in [(before, after), (before, moved), (moved, after)] {
            assert!(end(earlier) <= ns(later, "ts") + bound, "{earlier} {later}");
        }
        if hop >= HOPS {
            assert!(waits_for(moved, before), "{moved} {before}");
        }
        // An arrow from node to node, and one to it from what it waits for; but none back in time,
        // where it is not known better.
        for (flows, [from, to]) in flows.iter_mut().zip([[moved, after], [before, moved]]) {
            if waits_for(to, from) && ns(from, "ts") <= ns(to, "ts") {
                assert!(has_arrow(&events, from, to), "{from} {to}");
                *flows += 1;
            }
        }
    }
    assert!(flows[0] > HOPS && flows[1] > HOPS / 2, "{flows:?}");
}
