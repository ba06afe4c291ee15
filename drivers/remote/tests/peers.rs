//! Nodes that are used together: bytes and ends go from one to the other.

mod support;

use quipu_conformance::{Fixture, Watchdog, fixture, graph, run};
use quipu_node::Limits;
use std::time::Duration;
use support::{Rig, all_of, pool, simulated};

fn watchdog(what: &str) -> Watchdog {
    Watchdog::start(Duration::from_secs(1800), what.to_owned())
}

/// A pool here, and two nodes: one with a pool, one with a pool and an accelerator.
fn two_nodes() -> impl Fixture {
    let left = Rig::new(pool(1), Limits::default());
    let mut devices = pool(1);
    devices.extend(simulated(1));
    let right = Rig::new(devices, Limits::default());
    fixture::of("two nodes together", move || {
        let mut devices = pool(1);
        devices.extend(all_of(&[&left, &right]));
        Ok(devices)
    })
    .without_priorities()
    .with_longest_chain(2000)
}

#[test]
fn random_graphs_over_two_nodes() {
    let _watchdog = watchdog("random graphs over two nodes");
    graph::random_graphs(300, 81, &two_nodes());
}

#[test]
fn suite_over_two_nodes() {
    let _watchdog = watchdog("the suite over two nodes");
    run(&two_nodes());
}
