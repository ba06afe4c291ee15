//! The devices and drivers that the tests use.
#![allow(dead_code, reason = "each test binary uses some of it")]

use quipu_driver_cuda::CudaDriver;
use quipu_scheduler::{Device, Driver, Result};
use std::sync::Arc;

/// True if there is a CUDA device; false if there is none, which is then said loudly.
///
/// # Panics
/// If there is none and `QUIPU_TEST_CUDA=1` says that there is to be one.
pub(crate) fn cuda_or_skip() -> bool {
    let Err(error) = CudaDriver::start() else {
        return true;
    };
    assert!(
        std::env::var("QUIPU_TEST_CUDA").is_err(),
        "QUIPU_TEST_CUDA is set, and there is no CUDA device: {error}"
    );
    eprintln!("\n*** NOT TESTED: the CUDA driver. {error}\n");
    false
}

/// The devices of a fresh driver.
pub(crate) fn devices() -> Result<Vec<Device>> {
    let driver: Arc<dyn Driver> = CudaDriver::start()?;
    Device::all_of(&driver)
}
