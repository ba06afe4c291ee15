//! The platform: the drivers that a program has registered, and their devices.
//!
//! There is no default platform, device or queue: a program makes the ones it wants and passes them
//! on. One thing is shared behind the scenes: the *CPU pool is one per process*, however many
//! platforms there are, because two pools of a worker per core would only be in each other's way.
//! The first platform that has the pool makes it, with the options of the environment
//! (`QUIPU_CPU_WORKERS`, `QUIPU_CPU_PIN`). The first context with a device of the pool starts its
//! threads, which sleep while they have nothing to do. A platform that asks for [a pool of its
//! own](PlatformBuilder::cpu) gets one.
//!
//! The OpenCL driver is one per process as well, with every device of the system's loader, as the
//! first platform found them. Finding them loads the vendors' libraries, which is most of the cost
//! of a process's first platform. A program that has no use for them says so
//! ([`PlatformBuilder::opencl`]), or its user does: `QUIPU_OPENCL=off`.
//!
//! So is the CUDA driver ([`PlatformBuilder::cuda`], `QUIPU_CUDA=off`). A GPU of
//! NVIDIA's is then a device of two drivers, which [`Device::driver_name`] tells
//! apart; those of CUDA come first, and are preferred.

mod builder;
mod embedded;

pub use builder::PlatformBuilder;

use crate::context::Context;
use crate::device::Device;
use quipu_scheduler::{Error, ErrorKind, Result};

/// A set of drivers and their devices.
#[derive(Clone, Debug)]
pub struct Platform {
    devices: Vec<Device>,
    unavailable: Vec<Unavailable>,
}

/// A driver that gives no device; see [`PlatformBuilder::build_available`].
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Unavailable {
    /// The driver's name; `environment`, if a variable that concerns no single driver makes no
    /// sense.
    pub driver: &'static str,
    /// The reason for which it gives none.
    pub error: Error,
}

impl Platform {
    /// The platform of the embedded drivers: the CPU pool, the serial device, and the CUDA and
    /// OpenCL drivers, if the system has them.
    ///
    /// # Errors
    /// If the pool cannot be started: an option in the environment makes no
    /// sense, or the system gives no threads.
    pub fn new() -> Result<Self> {
        Self::builder().build()
    }

    /// A platform to which drivers can be added.
    pub fn builder() -> PlatformBuilder {
        PlatformBuilder::new()
    }

    /// Its devices, in the order in which their drivers were registered; the
    /// CPU pool first, then the serial device, last those of CUDA and of OpenCL.
    #[must_use]
    pub fn devices(&self) -> &[Device] {
        &self.devices
    }

    /// The drivers that it goes without, in the order in which they were
    /// registered.
    #[must_use]
    pub fn unavailable(&self) -> &[Unavailable] {
        &self.unavailable
    }

    /// The device of a name: its [selector](Device::selector), as `quipu devices` lists it
    /// (`cpu:0`, `cuda:1`, `node-1/cpu:0`), or the first of a driver (`cuda`), of a machine
    /// (`node-1`), or with this name of its own. Rather one that is not lost.
    ///
    /// # Errors
    /// If there is none; says which devices there are.
    pub fn device(&self, name: &str) -> Result<Device> {
        let by_selector = self.devices.iter().filter(|device| device.is_called(name));
        let by_name = self.devices.iter().filter(|device| device.name() == name);
        let called = by_selector.chain(by_name);
        let mut exact = called.clone().filter(|device| device.selector() == name);
        let mut left = called.clone().filter(|device| device.lost().is_none());
        let found = exact.next().or_else(|| left.next());
        found
            .or_else(|| called.clone().next())
            .cloned()
            .ok_or_else(|| {
                let selectors: Vec<_> = self.devices.iter().map(Device::selector).collect();
                ErrorKind::InvalidArgument {
                    what: "choose a device",
                    problem: format!(
                        "no device is called '{name}'; there are: {}",
                        selectors.join(", ")
                    ),
                }
                .into()
            })
    }

    /// A context of all its devices but those that are [lost](Device::lost).
    ///
    /// # Errors
    /// If it has no devices, or all are lost.
    pub fn context(&self) -> Result<Context> {
        let devices = self.devices.iter().cloned();
        let left: Vec<_> = devices.filter(|device| device.lost().is_none()).collect();
        if left.is_empty() {
            // Says why.
            return Context::new(&self.devices);
        }
        Context::new(&left)
    }
}
