//! The machine's failures as the core's errors.

use crate::device;
use crate::engine::{DeviceId, Failure, MachineError, MemoryError, SpaceId};
use quipu_scheduler::Error;
use quipu_scheduler::error::ErrorKind;

/// The reason of a device's loss, in errors.
pub(crate) const LOST: &str = "the simulated machine lost it";

/// The machine could not be switched on.
pub(crate) fn of_start(error: &MachineError) -> Error {
    ErrorKind::InvalidArgument {
        what: "start a simulated machine",
        problem: error.to_string(),
    }
    .into()
}

/// A device is lost.
pub(crate) fn lost(device: usize) -> Error {
    ErrorKind::DeviceLost {
        device: device::name(device),
        reason: LOST.to_owned(),
    }
    .into()
}

/// The error of a device that did not do its work.
pub(crate) fn of_device(device: usize, what: &str, message: &impl ToString) -> Error {
    ErrorKind::Device {
        device: device::name(device),
        what: what.to_owned(),
        message: message.to_string(),
    }
    .into()
}

/// Memory of a space could not be had, or not be used so.
pub(crate) fn of_memory(space: SpaceId, what: &str, error: &MemoryError) -> Error {
    let device = space.to_string();
    match error {
        MemoryError::OutOfMemory {
            asked,
            free,
            capacity,
            largest,
            ..
        } => ErrorKind::OutOfMemory {
            device: if largest < free {
                format!("{device}, whose largest free piece has {largest} bytes,")
            } else {
                device
            },
            asked: *asked,
            free: *free,
            capacity: *capacity,
        },
        MemoryError::HostExhausted { asked } => ErrorKind::OutOfMemory {
            device: format!("the host, which keeps the bytes of {device},"),
            asked: *asked,
            free: 0,
            capacity: 0,
        },
        MemoryError::SpaceLost { .. } => ErrorKind::DeviceLost {
            device,
            reason: "all devices that work in it are lost".to_owned(),
        },
        other => ErrorKind::Device {
            device,
            what: what.to_owned(),
            message: other.to_string(),
        },
    }
    .into()
}

/// A command failed on the machine. `label` is the command's name.
pub(crate) fn of_failure(device: DeviceId, label: &str, failure: &Failure) -> Error {
    let index = usize::from(device.0);
    match failure {
        Failure::Panicked { message, .. } => ErrorKind::Panicked {
            what: format!("'{label}'"),
            message: message.clone(),
        }
        .into(),
        Failure::DeviceLost { device } => lost(usize::from(device.0)),
        other => of_device(index, &format!("run '{label}'"), other),
    }
}
