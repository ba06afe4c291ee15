//! The devices and drivers that the tests use.
#![allow(dead_code, reason = "each test binary uses some of it")]

use quipu_driver_opencl::OpenClDriver;
use quipu_scheduler::{Device, Driver, Result};
use std::sync::Arc;

/// True if there is an OpenCL device; false if there is none and `QUIPU_TEST_WITHOUT_OPENCL=1` says
/// that tests may leave out the parts that need one. A message then says so loudly.
///
/// # Panics
/// If there is none and they may not.
pub(crate) fn opencl_or_skip() -> bool {
    let Err(error) = OpenClDriver::start() else {
        return true;
    };
    assert!(
        std::env::var("QUIPU_TEST_WITHOUT_OPENCL").is_ok_and(|value| value == "1"),
        "{error}\nInstall one (Debian: pocl-opencl-icd ocl-icd-libopencl1), or set QUIPU_TEST_WITHOUT_OPENCL=1 to leave \
         such tests out."
    );
    eprintln!("\n*** NOT TESTED: the OpenCL driver. {error}\n");
    false
}

/// The devices of a fresh driver.
pub(crate) fn devices() -> Result<Vec<Device>> {
    let driver: Arc<dyn Driver> = OpenClDriver::start()?;
    Device::all_of(&driver)
}
