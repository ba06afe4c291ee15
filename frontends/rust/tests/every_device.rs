//! One context of devices of all kinds that the machine has: the processor's cores, simulated
//! accelerators, every OpenCL device, every CUDA device. Random graphs over all of them at once
//! leave what a sequential program would.
//!
//! `QUIPU_TEST_CUDA=1` says that there is a CUDA device, `QUIPU_TEST_OPENCL_DEVICES=pthread,NVIDIA`
//! that there are OpenCL devices with these words in their names: one that is missing fails.
#![allow(clippy::unwrap_used, reason = "helpers assert by unwrapping")]

use quipu::drivers::{CpuDriver, CudaDriver, OpenClDriver, Options, SimDriver};
use quipu_conformance::{Fixture, fixture, graph};
use quipu_scheduler::{Device, Driver, Result};
use std::num::NonZero;
use std::sync::Arc;

/// All of them, those of vendors first.
fn devices() -> Result<Vec<Device>> {
    let vendors: [(&str, Result<Arc<dyn Driver>>); 2] = [
        ("CUDA", CudaDriver::start().map(|driver| driver as _)),
        ("OpenCL", OpenClDriver::start().map(|driver| driver as _)),
    ];
    let mut all = Vec::new();
    for (name, driver) in vendors {
        match driver {
            Ok(driver) => all.extend(Device::all_of(&driver)?),
            Err(error) => eprintln!("without {name}: {error}"),
        }
    }
    let workers = NonZero::new(2).unwrap_or(NonZero::<usize>::MIN);
    let pool: Arc<dyn Driver> = CpuDriver::start(Options::new().workers(workers))?;
    all.extend(Device::all_of(&pool)?);
    let machine = quipu::simulation::Configuration::separate_memory(2, 1 << 24);
    let machine: Arc<dyn Driver> = SimDriver::start(machine)?;
    all.extend(Device::all_of(&machine)?);
    Ok(all)
}

fn every_device() -> impl Fixture {
    fixture::of("every device", devices)
        .without_priorities()
        .with_longest_chain(2_000)
}

#[test]
fn there_are_those_that_are_promised() {
    let all = devices().unwrap();
    let has = |driver: &str| all.iter().any(|device| device.driver_name() == driver);
    let says = |name: &str| std::env::var(name).is_ok_and(|value| value == "1");
    assert!(has("cpu") && has("sim"));
    assert!(has("opencl") || says("QUIPU_TEST_WITHOUT_OPENCL"));
    assert!(has("cuda") || !says("QUIPU_TEST_CUDA"));
    let promised = std::env::var("QUIPU_TEST_OPENCL_DEVICES").unwrap_or_default();
    for word in promised.split(',') {
        let mut opencl = all.iter().filter(|it| it.driver_name() == "opencl");
        assert!(
            word.is_empty() || opencl.any(|device| device.name().contains(word)),
            "no OpenCL device has '{word}' in its name: {all:?}"
        );
    }
    for device in &all {
        println!("{device:?}");
    }
}

#[test]
fn random_graphs_over_every_device() {
    graph::random_graphs(60, 41, &every_device());
}
