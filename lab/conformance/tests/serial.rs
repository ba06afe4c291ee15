//! The suite and random graphs over the serial device, alone and beside a pool.

use quipu_conformance::{fixture, graph, run};

#[test]
fn suite() {
    run(&fixture::serial());
}

#[test]
fn suite_beside_a_pool() {
    run(&fixture::serial_beside_a_pool(2));
}

#[test]
fn suite_beside_islands() {
    run(&fixture::serial_beside_islands());
}

#[test]
fn random_graphs_beside_islands() {
    graph::random_graphs(300, 12, &fixture::serial_beside_islands());
}

#[test]
fn random_graphs_beside_a_pool() {
    graph::random_graphs(300, 11, &fixture::serial_beside_a_pool(2));
}

#[test]
fn random_graphs() {
    graph::random_graphs(500, 3, &fixture::serial());
}
