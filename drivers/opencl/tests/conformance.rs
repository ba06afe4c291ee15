//! The suite and random graphs over every OpenCL device that there is, alone and beside a pool and
//! simulated accelerators in one context.

mod support;

use quipu_conformance::{Fixture, fixture, graph, run};
use quipu_device_queue::Vendor;
use quipu_driver_cpu::{CpuDriver, Options};
use quipu_driver_opencl::{OpenCl, OpenClDriver};
use quipu_driver_sim::{SimDriver, engine::Configuration};
use quipu_scheduler::{Device, Driver};
use std::num::NonZero;
use std::sync::Arc;
use support::{devices, opencl_or_skip};

fn opencl() -> impl Fixture {
    fixture::of("OpenCL", devices)
        .without_priorities()
        .with_longest_chain(5_000)
}

/// As on devices whose queues keep their order.
fn in_order() -> impl Fixture {
    fixture::of("OpenCL with queues in order", || {
        let driver: Arc<dyn Driver> = OpenClDriver::over(OpenCl::open()?.in_order())?;
        Device::all_of(&driver)
    })
    .without_priorities()
    .with_longest_chain(5_000)
}

/// As on PoCL before 6.
fn with_grids_apart() -> impl Fixture {
    fixture::of("OpenCL with grids apart", || {
        let driver: Arc<dyn Driver> = OpenClDriver::over(OpenCl::open()?.with_grids_apart())?;
        Device::all_of(&driver)
    })
    .without_priorities()
    .with_longest_chain(5_000)
}

/// A pool, two simulated accelerators, and the OpenCL devices, which come first.
fn together() -> impl Fixture {
    fixture::of("OpenCL, a pool and simulated devices", || {
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
    .with_longest_chain(5_000)
}

#[test]
fn suite_over_opencl() {
    if opencl_or_skip() {
        run(&opencl());
    }
}

#[test]
fn suite_over_opencl_in_order() {
    if opencl_or_skip() {
        run(&in_order());
    }
}

#[test]
fn random_graphs_over_opencl_in_order() {
    if opencl_or_skip() {
        graph::random_graphs(60, 22, &in_order());
    }
}

#[test]
fn random_graphs_over_opencl_with_grids_apart() {
    if opencl_or_skip() {
        graph::random_graphs(60, 24, &with_grids_apart());
    }
}

#[test]
fn suite_over_opencl_a_pool_and_simulated_devices() {
    if opencl_or_skip() {
        run(&together());
    }
}

#[test]
fn random_graphs_over_opencl() {
    if opencl_or_skip() {
        graph::random_graphs(100, 20, &opencl());
    }
}

#[test]
fn random_graphs_over_opencl_a_pool_and_simulated_devices() {
    if opencl_or_skip() {
        graph::random_graphs(100, 21, &together());
    }
}
