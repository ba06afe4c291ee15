//! Refusals as the core's errors: the device, the call and the reason.

use crate::vendor::Failure;
use quipu_scheduler::Error;
use quipu_scheduler::error::ErrorKind;

/// The error of a call that was to do `what` on a device.
#[must_use]
pub fn of_call(device: &str, what: &str, failure: &impl Failure) -> Error {
    if failure.is_loss() {
        return lost(device, &failure.text());
    }
    of_device(device, what, failure.text())
}

/// The error of a device that did not do its work.
#[must_use]
pub fn of_device(device: &str, what: &str, message: String) -> Error {
    ErrorKind::Device {
        device: device.to_owned(),
        what: what.to_owned(),
        message,
    }
    .into()
}

/// A device is lost.
#[must_use]
pub fn lost(device: &str, reason: &str) -> Error {
    ErrorKind::DeviceLost {
        device: device.to_owned(),
        reason: reason.to_owned(),
    }
    .into()
}

/// The error of a driver without devices.
#[must_use]
pub fn no_devices(what: &'static str, problem: String) -> Error {
    ErrorKind::InvalidArgument { what, problem }.into()
}

/// A driver reads no such programs.
#[must_use]
pub fn unread(driver: &'static str) -> Error {
    ErrorKind::Unsupported {
        driver,
        what: "read such programs for a host without a compiler".to_owned(),
        instead: "install the compiler on this machine",
    }
    .into()
}

/// The compiler refuses a kernel's text.
#[must_use]
pub fn refused(device: &str, kernel: &str, log: &str) -> Error {
    ErrorKind::Kernel {
        what: format!("compiling kernel '{kernel}' for device '{device}'"),
        message: log.to_owned(),
    }
    .into()
}

/// A kernel says that it went wrong.
#[must_use]
pub fn fault(kernel: &str, message: String) -> Error {
    ErrorKind::Kernel {
        what: format!("kernel '{kernel}'"),
        message,
    }
    .into()
}
