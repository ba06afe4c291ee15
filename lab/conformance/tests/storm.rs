//! Storms over the devices that every machine has: the short form of `scripts/test storm`.

use quipu_conformance::fixture::{self, simulated};
use quipu_conformance::{Fixture, storm};
#[cfg(quipu_small_limits)]
use quipu_scheduler::{Context, QueueOptions, Recording, Request, UserEvent, graph::NodeRequest};

/// Seconds, also of a debug build and with small limits.
const COMMANDS: u64 = 20_000;

fn storms(seed: u64, fixture: &dyn Fixture) {
    storm::raise_many(COMMANDS, seed, fixture, &mut |_| ());
}

#[test]
fn over_one_worker() {
    storms(1, &fixture::pool(1));
}

#[test]
fn over_two_workers() {
    storms(2, &fixture::pool(2));
}

#[test]
fn over_four_workers() {
    storms(3, &fixture::pool(4));
}

#[test]
fn over_the_serial_device_beside_a_pool() {
    storms(4, &fixture::serial_beside_a_pool(2));
}

#[test]
fn over_islands() {
    storms(5, &fixture::islands(3));
}

#[test]
fn over_simulated_devices_beside_a_pool() {
    storms(6, &simulated::beside_a_pool());
}

#[test]
fn over_simulated_devices_with_few_slots() {
    storms(7, &simulated::cramped());
}

/// With the usual limits, so long a list takes half a gigabyte.
#[cfg(quipu_small_limits)]
#[test]
fn a_list_that_is_too_long_is_refused_also_of_a_graph() {
    let devices = fixture::pool(1).devices();
    let context = Context::new(&devices).unwrap();
    let queue = context.queue(&devices[0], QueueOptions::default()).unwrap();
    let recording = Recording::new(&context);
    recording
        .host_task(&queue, |_| Ok(()), &NodeRequest::default())
        .unwrap();
    let graph = recording.finish().unwrap();
    let gate = UserEvent::new();
    let mut waits = vec![gate.event(); 4097];
    let request = Request {
        waits: &waits,
        ..Request::default()
    };
    let task = queue.host_task(|_| Ok(()), &request).unwrap_err();
    let launch = queue.launch_graph(&graph, &waits, None).unwrap_err();
    for error in [task, launch] {
        let text = error.to_string();
        assert!(text.contains("a list of 4097 events"), "{text}");
    }
    waits.pop();
    let launched = queue.launch_graph(&graph, &waits, None).unwrap();
    gate.complete();
    launched.wait().unwrap();
}
