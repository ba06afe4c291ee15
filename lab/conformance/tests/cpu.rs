//! The suite and random graphs over the CPU's pool.

use quipu_conformance::{fixture, graph, run};

#[test]
fn suite_over_one_worker() {
    run(&fixture::pool(1));
}

#[test]
fn suite_over_two_workers() {
    run(&fixture::pool(2));
}

#[test]
fn suite_over_four_workers() {
    run(&fixture::pool(4));
}

#[test]
fn suite_over_a_part_of_the_pool() {
    run(&fixture::part_of_pool(2, 4));
}

#[test]
fn suite_over_one_worker_of_the_pool() {
    run(&fixture::part_of_pool(1, 2));
}

#[test]
fn random_graphs_over_two_workers() {
    graph::random_graphs(800, 1, &fixture::pool(2));
}

#[test]
fn random_graphs_over_four_workers() {
    graph::random_graphs(800, 2, &fixture::pool(4));
}
