//! The suite and random graphs over simulated accelerators: one, three that
//! share their memory, two with memory of their own, and two beside a pool; graphs
//! also over two with little memory, and over two of which one goes wrong.

use quipu_conformance::fixture::simulated;
use quipu_conformance::{graph, run};

#[test]
fn suite_over_one_device() {
    run(&simulated::one());
}

#[test]
fn suite_over_three_devices_with_shared_memory() {
    run(&simulated::together());
}

#[test]
fn suite_over_two_devices_with_memory_of_their_own() {
    run(&simulated::apart());
}

#[test]
fn suite_over_devices_with_few_slots() {
    run(&simulated::cramped());
}

#[test]
fn suite_over_a_pool_and_simulated_devices() {
    run(&simulated::beside_a_pool());
}

#[test]
fn random_graphs_over_one_device() {
    graph::random_graphs(200, 10, &simulated::one());
}

#[test]
fn random_graphs_over_three_devices_with_shared_memory() {
    graph::random_graphs(200, 6, &simulated::together());
}

#[test]
fn random_graphs_over_two_devices_with_memory_of_their_own() {
    graph::random_graphs(200, 7, &simulated::apart());
}

#[test]
fn random_graphs_over_devices_with_few_slots() {
    graph::random_graphs(200, 8, &simulated::cramped());
}

#[test]
fn random_graphs_over_a_pool_and_simulated_devices() {
    graph::random_graphs(200, 9, &simulated::beside_a_pool());
}

#[test]
fn random_graphs_over_devices_with_little_memory() {
    graph::random_graphs(300, 12, &simulated::tight());
}

#[test]
fn random_graphs_over_devices_of_which_one_goes_wrong() {
    graph::random_graphs(300, 13, &simulated::faulty(true));
    graph::random_graphs(300, 14, &simulated::faulty(false));
}
