//! The suite and random graphs over a library that exists only in the tests, whose devices end
//! commands in any order that is allowed; with streams that keep an order, and without.

use quipu_conformance::{Fixture, fixture, graph, run};
use quipu_scheduler::{Device, Driver};
use std::sync::Arc;

fn fake(ordered: bool) -> impl Fixture {
    let name = if ordered { "streams" } else { "events" };
    fixture::of(name, move || {
        let driver: Arc<dyn Driver> = crate::library::started(ordered, 7).0;
        Device::all_of(&driver)
    })
    .without_priorities()
    .with_longest_chain(2_000)
}

#[test]
fn suite_over_events() {
    run(&fake(false));
}

#[test]
fn suite_over_streams() {
    run(&fake(true));
}

#[test]
fn random_graphs_over_events() {
    graph::random_graphs(150, 31, &fake(false));
}

#[test]
fn random_graphs_over_streams() {
    graph::random_graphs(150, 32, &fake(true));
}
