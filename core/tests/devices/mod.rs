//! Device properties for the drivers of tests.

use quipu_scheduler::{DeviceKind, DeviceProperties};

/// One device that works in the host's memory, without a sync domain.
pub(crate) fn one(name: &str) -> Vec<DeviceProperties> {
    vec![DeviceProperties::new(DeviceKind::Accelerator, name)]
}
