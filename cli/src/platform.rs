//! The devices there are, and the drivers that have none, with the reason.

use quipu_core::{Device, Driver, Result};
use quipu_driver_cpu::{CpuDriver, Options, SerialDriver};
use quipu_driver_sim::SimDriver;
use quipu_driver_sim::engine::Configuration;
use std::sync::Arc;

/// How many simulated accelerators there are.
const SIMULATED: u8 = 2;
/// Bytes of memory that each of them has.
const SIMULATED_MEMORY: u64 = 1 << 30;

/// Every device, and every driver that could not give any.
pub(crate) struct Platform {
    /// The devices, driver by driver.
    pub(crate) devices: Vec<Device>,
    /// The drivers without devices.
    pub(crate) unavailable: Vec<Unavailable>,
}

/// A driver without devices.
pub(crate) struct Unavailable {
    /// The driver's name.
    pub(crate) driver: &'static str,
    /// Why it has none.
    pub(crate) reason: String,
}

/// Starts every driver.
pub(crate) fn platform() -> Platform {
    let mut platform = Platform {
        devices: Vec::new(),
        unavailable: Vec::new(),
    };
    platform.add("cpu", || {
        let driver: Arc<dyn Driver> = CpuDriver::start(Options::new())?;
        Device::all_of(&driver)
    });
    platform.add("serial", || {
        let driver: Arc<dyn Driver> = Arc::new(SerialDriver::new());
        Device::all_of(&driver)
    });
    platform.add("sim", || {
        // A program makes the machine that it wants; these are like the demo's.
        let machine = Configuration::separate_memory(SIMULATED, SIMULATED_MEMORY);
        let driver: Arc<dyn Driver> = SimDriver::start(machine)?;
        Device::all_of(&driver)
    });
    platform
}

impl Platform {
    fn add(&mut self, driver: &'static str, devices: impl FnOnce() -> Result<Vec<Device>>) {
        let reason = match devices() {
            Ok(devices) if devices.is_empty() => "it found no device".to_owned(),
            Ok(devices) => {
                self.devices.extend(devices);
                return;
            }
            Err(error) => error.to_string(),
        };
        self.unavailable.push(Unavailable { driver, reason });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_driver_that_fails_is_listed_with_its_reason() {
        let mut platform = platform();
        assert!(platform.devices.iter().any(|d| d.driver_name() == "serial"));
        let before = platform.unavailable.len();
        platform.add("none", || Ok(Vec::new()));
        platform.add("broken", || {
            let zero = quipu_core::error::ErrorKind::InvalidSize {
                what: "start",
                problem: "too small".to_owned(),
            };
            Err(zero.into())
        });
        let added = &platform.unavailable[before..];
        assert_eq!((added[0].driver, added[1].driver), ("none", "broken"));
        assert!(added[1].reason.contains("too small"), "{}", added[1].reason);
    }
}
