//! The suite and random graphs over the serial device.

use quipu_conformance::{fixture, graph, run};

#[test]
fn suite() {
    run(&fixture::serial());
}

#[test]
fn random_graphs() {
    graph::random_graphs(500, 3, &fixture::serial());
}
