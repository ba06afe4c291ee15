//! The suite and random graphs over devices with memory of their own, alone and
//! beside a pool in one context.

use quipu_conformance::{fixture, graph, run};

#[test]
fn suite_over_islands() {
    run(&fixture::islands(3));
}

#[test]
fn suite_over_a_pool_and_islands() {
    run(&fixture::mixed(2));
}

#[test]
fn random_graphs_over_islands() {
    graph::random_graphs(400, 4, &fixture::islands(3));
}

#[test]
fn random_graphs_over_a_pool_and_islands() {
    graph::random_graphs(400, 5, &fixture::mixed(2));
}
