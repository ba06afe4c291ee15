//! Devices that are parts of others.

use crate::device::{Device, DeviceHandle, Part, describe};
use crate::native::{CallError, Queue};
use cl3::device as info;
use quipu_device_queue::{Failure, VendorDevice};
use quipu_scheduler::error::{ErrorKind, Result};
use quipu_scheduler::{Error, MemorySpace, Partition};
use std::sync::PoisonError;

const WHAT: &str = "split a device";

fn invalid(problem: String) -> Error {
    let what = WHAT;
    ErrorKind::InvalidArgument { what, problem }.into()
}

/// The properties that OpenCL is asked for.
fn properties(device: &Device, partition: &Partition) -> Result<Vec<isize>> {
    let units = device.properties().multiprocessors;
    let counts = match partition {
        Partition::Equally(count) => std::slice::from_ref(count),
        Partition::ByCounts(counts) => counts.as_slice(),
        _ => return Err(unsupported("in this way")),
    };
    let wanted: u64 = counts.iter().map(|count| u64::from(*count)).sum();
    if counts.is_empty() || counts.contains(&0) || wanted > u64::from(units) {
        return Err(invalid(format!(
            "parts of {counts:?} multiprocessors of the {units} that device '{}' has; ask for at least one in each part, \
             and for no more than there are",
            device.name()
        )));
    }
    let counts = counts.iter().map(|count| *count as isize);
    Ok(match partition {
        Partition::Equally(_) => [info::CL_DEVICE_PARTITION_EQUALLY]
            .into_iter()
            .chain(counts)
            .chain([0])
            .collect(),
        _ => [info::CL_DEVICE_PARTITION_BY_COUNTS]
            .into_iter()
            .chain(counts)
            .chain([info::CL_DEVICE_PARTITION_BY_COUNTS_LIST_END, 0])
            .collect(),
    })
}

fn unsupported(why: &str) -> Error {
    ErrorKind::Unsupported {
        driver: "opencl",
        what: format!("{WHAT} {why}"),
        instead: "use the whole device",
    }
    .into()
}

/// Splits a device.
pub(crate) fn partition(device: &Device, partition: &Partition) -> Result<Vec<Device>> {
    let properties = properties(device, partition)?;
    let handles = match info::create_sub_devices(device.handle.0, &properties) {
        Ok(handles) => handles.into_iter().map(DeviceHandle),
        // Not a value that it takes; it has no such parts; it cannot be split further.
        Err(code @ (-30 | -18 | -68)) => {
            let name = device.name();
            return Err(unsupported(&format!(
                "like that: OpenCL's answer for '{name}' is {code}"
            )));
        }
        Err(code) => {
            let call = "clCreateSubDevices";
            return Err(device.failed(WHAT, &CallError { call, code }));
        }
    };
    // Kept by these until they are described, and by the devices from then on.
    let kept: Vec<Part> = handles.map(Part).collect();
    let failed = |error: CallError| device.failed(WHAT, &error);
    let platform = &device.platform;
    let expect = |parts: &[Part]| {
        let parts = parts.iter().map(|part| part.0).collect();
        *platform
            .parts
            .lock()
            .unwrap_or_else(PoisonError::into_inner) = parts;
    };
    // For a context that is made now.
    expect(&kept);
    let context = platform.context();
    expect(&[]);
    let context = context.or_else(|_| platform.context()).map_err(failed)?;
    let MemorySpace::Own(key) = device.properties().memory else {
        return Err(unsupported("without memory of its own"));
    };
    let mut devices = Vec::with_capacity(kept.len());
    for part in kept {
        // By the letter of OpenCL, a context has to be made with the parts that are used in it.
        if let Err(error) = Queue::of(context, part.0.0, false, false) {
            // In the error and not in the log, whose subscriber may split a device itself: the
            // caller has locked the parts.
            return Err(unsupported(&format!(
                "that is in use already: this OpenCL knows parts only that there are when its platform is first used ({})",
                error.text()
            )));
        }
        let mut described = describe(part.0, platform, key).map_err(failed)?;
        described.part = Some(part);
        described.staged = device.staged;
        devices.push(described);
    }
    Ok(devices)
}
