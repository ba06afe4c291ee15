//! The suite and random graphs over simulated accelerators: one, three that
//! share their memory, two with memory of their own, and two beside a pool.

use quipu_conformance::{Fixture, fixture, graph, run};
use quipu_core::{Device, Driver};
use quipu_driver_cpu::{CpuDriver, Options};
use quipu_driver_sim::SimDriver;
use quipu_driver_sim::engine::{Configuration, PickOrder, RacePolicy};
use std::num::NonZero;
use std::sync::Arc;

/// A machine that fails what nothing orders, and starts the rest in a random
/// order, so that it takes no notice of priorities.
fn strict(mut configuration: Configuration) -> Configuration {
    configuration.races = RacePolicy::Fail;
    for device in &mut configuration.devices {
        device.pick_order = PickOrder::Shuffled(7);
    }
    configuration
}

fn machine(name: &str, configuration: Configuration) -> impl Fixture {
    let configuration = strict(configuration);
    fixture::of(name, move || {
        let driver: Arc<dyn Driver> = SimDriver::start(configuration.clone())?;
        Device::all_of(&driver)
    })
    .without_priorities()
}

/// Starts the oldest command first, and is given the most urgent first.
fn one() -> impl Fixture {
    fixture::of("a simulated device", || {
        let driver: Arc<dyn Driver> = SimDriver::start(Configuration::shared_memory(1, 1 << 28))?;
        Device::all_of(&driver)
    })
}

fn together() -> impl Fixture {
    machine(
        "three simulated devices with shared memory",
        Configuration::shared_memory(3, 1 << 28),
    )
}

fn apart() -> impl Fixture {
    machine(
        "two simulated devices with memory of their own",
        Configuration::separate_memory(2, 1 << 28),
    )
}

fn cramped() -> impl Fixture {
    let mut configuration = Configuration::separate_memory(2, 1 << 28);
    for device in &mut configuration.devices {
        device.slots = 2;
    }
    for space in &mut configuration.spaces {
        space.status_slots = 3;
    }
    machine("two simulated devices with few slots", configuration)
}

fn mixed() -> impl Fixture {
    fixture::of("a pool with two simulated devices", || {
        let workers = NonZero::new(2).unwrap_or(NonZero::<usize>::MIN);
        let pool: Arc<dyn Driver> = CpuDriver::start(Options::new().workers(workers))?;
        let configuration = strict(Configuration::separate_memory(2, 1 << 28));
        let simulated: Arc<dyn Driver> = SimDriver::start(configuration)?;
        let mut devices = Device::all_of(&pool)?;
        devices.extend(Device::all_of(&simulated)?);
        Ok(devices)
    })
}

#[test]
#[ignore = "not yet kept in every case; run with --ignored"]
fn suite_over_one_device() {
    run(&one());
}

#[test]
#[ignore = "not yet kept in every case; run with --ignored"]
fn suite_over_three_devices_with_shared_memory() {
    run(&together());
}

#[test]
#[ignore = "not yet kept in every case; run with --ignored"]
fn suite_over_two_devices_with_memory_of_their_own() {
    run(&apart());
}

#[test]
#[ignore = "not yet kept in every case; run with --ignored"]
fn suite_over_devices_with_few_slots() {
    run(&cramped());
}

#[test]
#[ignore = "not yet kept in every case; run with --ignored"]
fn suite_over_a_pool_and_simulated_devices() {
    run(&mixed());
}

#[test]
#[ignore = "not yet kept in every case; run with --ignored"]
fn random_graphs_over_three_devices_with_shared_memory() {
    graph::random_graphs(200, 6, &together());
}

#[test]
#[ignore = "not yet kept in every case; run with --ignored"]
fn random_graphs_over_two_devices_with_memory_of_their_own() {
    graph::random_graphs(200, 7, &apart());
}

#[test]
#[ignore = "not yet kept in every case; run with --ignored"]
fn random_graphs_over_devices_with_few_slots() {
    graph::random_graphs(200, 8, &cramped());
}

#[test]
#[ignore = "not yet kept in every case; run with --ignored"]
fn random_graphs_over_a_pool_and_simulated_devices() {
    graph::random_graphs(200, 9, &mixed());
}
