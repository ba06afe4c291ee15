//! The platform: the drivers that a program has registered, and their devices.
//!
//! There is no default platform, device or queue: whoever wants one makes one
//! and passes it on. One thing is shared behind the scenes: the *CPU pool is
//! one per process*, however many platforms there are, because two pools of a
//! worker per core would only be in each other's way. It is started by the first
//! platform that has it, with the options of the environment
//! (`QUIPU_CPU_WORKERS`, `QUIPU_CPU_PIN`), and sleeps when it has nothing to do.

use crate::context::Context;
use crate::device::Device;
use quipu_core::driver::Driver;
use quipu_core::{ErrorKind, Result};
use quipu_driver_cpu::{CpuDriver, Options, SerialDriver};
use quipu_driver_sim::{SimDriver, engine};
use std::sync::{Arc, OnceLock};

/// A set of drivers and their devices.
#[derive(Clone, Debug)]
pub struct Platform {
    devices: Vec<Device>,
}

impl Platform {
    /// The platform of the embedded drivers: the CPU pool and the serial device.
    ///
    /// # Errors
    /// If the pool cannot be started: an option in the environment makes no
    /// sense, or the system gives no threads.
    pub fn new() -> Result<Self> {
        Self::builder().build()
    }

    /// A platform to which drivers can be added.
    pub fn builder() -> PlatformBuilder {
        PlatformBuilder {
            embedded: true,
            drivers: Vec::new(),
            machines: Vec::new(),
        }
    }

    /// Its devices, in the order in which their drivers were registered; the
    /// CPU pool first, then the serial device.
    #[must_use]
    pub fn devices(&self) -> &[Device] {
        &self.devices
    }

    /// The first device of a driver.
    ///
    /// # Errors
    /// If there is none; says which drivers there are.
    pub fn device(&self, driver: &str) -> Result<Device> {
        let found = self
            .devices
            .iter()
            .find(|device| device.driver_name() == driver);
        found.cloned().ok_or_else(|| {
            let mut names: Vec<_> = self.devices.iter().map(Device::driver_name).collect();
            names.dedup();
            ErrorKind::InvalidArgument {
                what: "choose a device",
                problem: format!(
                    "no driver is called '{driver}'; there are: {}",
                    names.join(", ")
                ),
            }
            .into()
        })
    }

    /// A context of all its devices.
    ///
    /// # Errors
    /// If it has no devices, or one is lost.
    pub fn context(&self) -> Result<Context> {
        Context::new(&self.devices)
    }
}

/// What a platform is to consist of.
#[must_use = "a platform is made by `build`"]
pub struct PlatformBuilder {
    embedded: bool,
    drivers: Vec<Arc<dyn Driver>>,
    machines: Vec<engine::Configuration>,
}

impl PlatformBuilder {
    /// Leaves the embedded drivers out.
    pub fn without_embedded(mut self) -> Self {
        self.embedded = false;
        self
    }

    /// Adds a driver: of this project or from anywhere else.
    pub fn driver(mut self, driver: Arc<dyn Driver>) -> Self {
        self.drivers.push(driver);
        self
    }

    /// Adds a machine of simulated accelerators.
    pub fn simulated(mut self, machine: engine::Configuration) -> Self {
        self.machines.push(machine);
        self
    }

    /// The platform.
    ///
    /// # Errors
    /// If a driver cannot be started.
    pub fn build(self) -> Result<Platform> {
        let mut drivers: Vec<Arc<dyn Driver>> = Vec::new();
        let mut devices = Vec::new();
        if self.embedded {
            devices.push(cpu_pool()?);
            drivers.push(Arc::new(SerialDriver::new()));
        }
        for machine in self.machines {
            drivers.push(SimDriver::start(machine)?);
        }
        drivers.extend(self.drivers);
        for driver in &drivers {
            devices.extend(Device::all_of(driver)?);
        }
        Ok(Platform { devices })
    }
}

/// The device of the process's CPU pool; see the module. Its parts, if somebody
/// has split it, are not listed: they are theirs.
fn cpu_pool() -> Result<Device> {
    static POOL: OnceLock<Result<Device>> = OnceLock::new();
    let start = || {
        let driver: Arc<dyn Driver> = CpuDriver::start(Options::new())?;
        let first = Device::all_of(&driver)?.into_iter().next();
        first.ok_or_else(|| {
            ErrorKind::InvalidArgument {
                what: "start the CPU driver",
                problem: "it lists no device".to_owned(),
            }
            .into()
        })
    };
    POOL.get_or_init(start).clone()
}
