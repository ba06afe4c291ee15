//! The suite and random graphs over every CUDA device that there is, alone and beside a pool and
//! simulated accelerators in one context.

mod support;

use quipu_conformance::{Fixture, fixture, graph, run};
use quipu_driver_cpu::{CpuDriver, Options};
use quipu_driver_sim::{SimDriver, engine::Configuration};
use quipu_scheduler::{Device, Driver};
use std::num::NonZero;
use std::sync::Arc;
use support::{cuda_or_skip, devices};

fn cuda() -> impl Fixture {
    fixture::of("CUDA", devices)
        .without_priorities()
        .with_longest_chain(20_000)
}

/// A pool, two simulated accelerators, and the CUDA devices, which come first.
fn together() -> impl Fixture {
    fixture::of("CUDA, a pool and simulated devices", || {
        let mut all = devices()?;
        let workers = NonZero::new(2).unwrap_or(NonZero::<usize>::MIN);
        let pool: Arc<dyn Driver> = CpuDriver::start(Options::new().workers(workers))?;
        all.extend(Device::all_of(&pool)?);
        let machine: Arc<dyn Driver> =
            SimDriver::start(Configuration::separate_memory(2, 1 << 24))?;
        all.extend(Device::all_of(&machine)?);
        Ok(all)
    })
    .without_priorities()
    .with_longest_chain(20_000)
}

#[test]
fn suite_over_cuda() {
    if cuda_or_skip() {
        run(&cuda());
    }
}

#[test]
fn suite_over_cuda_a_pool_and_simulated_devices() {
    if cuda_or_skip() {
        run(&together());
    }
}

#[test]
fn random_graphs_over_cuda() {
    if cuda_or_skip() {
        graph::random_graphs(100, 20, &cuda());
    }
}

#[test]
fn random_graphs_over_cuda_a_pool_and_simulated_devices() {
    if cuda_or_skip() {
        graph::random_graphs(100, 21, &together());
    }
}
