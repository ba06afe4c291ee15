//! The drivers that all platforms of a process share, and the devices of nodes.

use crate::device::Device;
use quipu_driver_cpu::{CpuDriver, Options};
#[cfg(feature = "cuda")]
use quipu_driver_cuda::CudaDriver;
#[cfg(feature = "opencl")]
use quipu_driver_opencl::OpenClDriver;
#[cfg(feature = "remote")]
use quipu_driver_remote::paired;
use quipu_scheduler::driver::Driver;
use quipu_scheduler::{Error, ErrorKind, Result};
use std::sync::{Arc, OnceLock};

/// A driver's name, and its devices.
pub(super) type Started = (&'static str, Result<Vec<Device>>);

/// The name of the driver of nodes' devices.
pub(super) const REMOTE: &str = "remote";

/// Names a node that is not there, where all were asked for and none by name.
pub(super) const ONE_OF_ALL: &str = "one of all nodes";

/// The CUDA driver's name.
pub(super) const CUDA: &str = "cuda";

/// The OpenCL driver's name.
pub(super) const OPENCL: &str = "opencl";

pub(super) fn devices_of(driver: Arc<dyn Driver>) -> Started {
    (driver.name(), Device::all_of(&driver))
}

pub(super) fn no_device() -> Error {
    ErrorKind::InvalidArgument {
        what: "start the driver",
        problem: "it found no device; check that the vendor's driver is installed and that this user may open the device"
            .to_owned(),
    }
    .into()
}

/// A driver's devices that the process shares, started when they are first asked for. Of two
/// threads that start them at a time, one drops its own. So a subscriber of the log that makes a
/// platform, as the driver says that it starts, does not wait for itself.
fn shared<T: Clone>(cell: &OnceLock<Result<T>>, start: impl FnOnce() -> Result<T>) -> Result<T> {
    if let Some(started) = cell.get() {
        return started.clone();
    }
    let started = start();
    cell.get_or_init(|| started).clone()
}

/// The process's CUDA devices.
#[cfg(feature = "cuda")]
pub(super) fn cuda_devices() -> Result<Vec<Device>> {
    static SHARED: OnceLock<Result<Vec<Device>>> = OnceLock::new();
    let start = || {
        let driver: Arc<dyn Driver> = CudaDriver::start()?;
        Device::all_of(&driver)
    };
    shared(&SHARED, start)
}

/// The process's OpenCL devices.
#[cfg(feature = "opencl")]
pub(super) fn opencl_devices() -> Result<Vec<Device>> {
    static SHARED: OnceLock<Result<Vec<Device>>> = OnceLock::new();
    let start = || {
        let driver: Arc<dyn Driver> = OpenClDriver::start()?;
        Device::all_of(&driver)
    };
    shared(&SHARED, start)
}

/// The devices of these nodes (`all` for all); without names, if the environment may ask, of those
/// that it asks for. Each node that is not there has an entry of its own.
#[cfg(feature = "remote")]
pub(super) fn node_devices(names: &[String], may_ask: bool) -> Vec<Started> {
    let nodes = match names {
        [] if may_ask => paired::asked_for(),
        [all] if all == "all" => paired::all().map(|nodes| (nodes, true)),
        names => {
            let names: Vec<&str> = names.iter().map(String::as_str).collect();
            paired::find(&names).map(|nodes| (nodes, false))
        }
    };
    let (nodes, are_all) = match nodes {
        Ok(nodes) => nodes,
        Err(error) => return vec![(REMOTE, Err(error))],
    };
    let (driver, errors) = paired::connect_to(&nodes);
    let driver = driver.map(|driver| match driver {
        Ok(driver) => devices_of(driver),
        Err(error) => (REMOTE, Err(error)),
    });
    let name = if are_all { ONE_OF_ALL } else { REMOTE };
    let errors = errors.into_iter().map(|error| (name, Err(error)));
    driver.into_iter().chain(errors).collect()
}

/// The nodes that the environment asks for, as not there, with the reason.
#[cfg(not(feature = "remote"))]
pub(super) fn without_nodes() -> Vec<Started> {
    let asked = quipu_environment::NODES.get().ok().flatten();
    // Without a name in it, it asks for none.
    let asked = asked.filter(|names| names.split(',').any(|name| !name.trim().is_empty()));
    let refuse = |_| {
        let problem =
            "this program was built without the feature `remote` of the crate `quipu-compute`";
        let error = ErrorKind::InvalidArgument {
            what: "find nodes",
            problem: problem.to_owned(),
        };
        (REMOTE, Err(error.into()))
    };
    asked.map(refuse).into_iter().collect()
}

/// The CPU pool of a platform.
pub(super) enum Pool {
    /// The process's; see the platform's module.
    Shared,
    Own(Options),
}

impl Pool {
    pub(super) fn devices(self) -> Result<Vec<Device>> {
        static SHARED: OnceLock<Result<Device>> = OnceLock::new();
        let device = match self {
            // Its parts, if a program has split it, are not listed: they are the program's.
            Self::Shared => shared(&SHARED, || start_pool(Options::new())),
            Self::Own(options) => start_pool(options),
        };
        device.map(|device| vec![device])
    }
}

fn start_pool(options: Options) -> Result<Device> {
    let driver: Arc<dyn Driver> = CpuDriver::start(options)?;
    let first = Device::all_of(&driver)?.into_iter().next();
    first.ok_or_else(no_device)
}
