//! The suite and random graphs over a node's devices, on loopback, over TLS: a pool, simulated
//! accelerators, both; and beside a pool of this process in one context.

mod support;

use quipu_conformance::{Fixture, fixture, graph, run};
use quipu_node::Limits;
use support::{Rig, pool, simulated};

/// Commands in the longest chains: a round trip is not what limits them, but each takes some time
/// on both sides.
const LONGEST_CHAIN: u64 = 20_000;

fn remote(name: &str, rig: Rig) -> impl Fixture {
    fixture::of(name, move || Ok(rig.devices()))
        .without_priorities()
        .with_longest_chain(LONGEST_CHAIN)
}

fn remote_pool() -> impl Fixture {
    remote("a node's pool", Rig::new(pool(2), Limits::default()))
}

fn remote_accelerators() -> impl Fixture {
    remote(
        "a node's simulated devices",
        Rig::new(simulated(2), Limits::default()),
    )
}

fn all_of_a_node() -> Rig {
    let mut devices = pool(2);
    devices.extend(simulated(2));
    Rig::new(devices, Limits::default())
}

/// A pool of this process, and a node's pool and accelerators.
fn together() -> impl Fixture {
    let rig = all_of_a_node();
    fixture::of("a pool with a node's devices", move || {
        let mut devices = pool(2);
        devices.extend(rig.devices());
        Ok(devices)
    })
    .without_priorities()
    .with_longest_chain(LONGEST_CHAIN)
}

#[test]
fn suite_over_a_nodes_pool() {
    run(&remote_pool());
}

#[test]
fn suite_over_a_nodes_accelerators() {
    run(&remote_accelerators());
}

#[test]
fn suite_over_all_of_a_nodes_devices() {
    run(&remote("all of a node's devices", all_of_a_node()));
}

#[test]
fn suite_over_a_pool_and_a_nodes_devices() {
    run(&together());
}

#[test]
fn random_graphs_over_a_nodes_pool() {
    graph::random_graphs(150, 51, &remote_pool());
}

#[test]
fn random_graphs_over_a_nodes_accelerators() {
    graph::random_graphs(150, 52, &remote_accelerators());
}

#[test]
fn random_graphs_over_a_pool_and_a_nodes_devices() {
    graph::random_graphs(150, 53, &together());
}
