//! Memory of the user's that stays where it is, as OpenCL knows it: told of it once, with the first
//! copy, by a memory object over it that nothing else uses. Devices with memory of their own reach
//! it by themselves then, faster than memory that OpenCL does not know. If OpenCL does not take it,
//! copies go the way of all others.

use crate::device::Device;
use crate::native::{Called, Context, Memory};
use quipu_device_queue::region::Shape;
use quipu_scheduler::memory::pinned::PinnedRange;
use quipu_scheduler::operation::{Endpoint, Transfer};
use quipu_scheduler::panics::quietly;
use std::sync::Arc;

/// The object that is kept with a range for each context; none if it is not taken. No command uses
/// the memory object, so it is gone, and with it OpenCL's registration of the range, as soon as it
/// is given up. It keeps its context.
struct Registered(Option<Memory>);

/// The state of a transfer's bytes on the host in OpenCL.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Known {
    /// They are there to stay, and OpenCL is told of them with this first copy.
    New,
    /// They are there to stay, and a device reaches them by itself.
    Taken,
    /// They are ordinary memory, or OpenCL does not take them.
    No,
}

/// The state of a transfer's bytes on the host in OpenCL, one row of them, of a device with memory
/// of its own.
pub(crate) fn known(device: &Device, transfer: &Transfer) -> Known {
    let Some(range) = range(device, transfer) else {
        return Known::No;
    };
    // Without a context nothing is known: it is not made while commands are handed over.
    let name = device.platform.context_if_any().map(name_of);
    let known = name.and_then(|name| range.kept_as(name, |kept: &Registered| kept.0.is_some()));
    match known {
        None => Known::New,
        Some(true) => Known::Taken,
        Some(false) => Known::No,
    }
}

/// True if OpenCL knows a transfer's bytes on the host, told of them now if need be.
pub(crate) fn take(device: &Device, transfer: &Transfer) -> bool {
    let Some(range) = range(device, transfer) else {
        return false;
    };
    let Ok(name) = device.platform.context().map(name_of) else {
        return false;
    };
    let mut refused = None;
    let make = || {
        let made = memory_over(device, &range);
        Registered(made.map_err(|error| refused = Some(error)).ok())
    };
    let is_taken = range.keep(name, make, |kept: &Registered| kept.0.is_some());
    if let Some(error) = refused {
        quietly(|| tracing::debug!(?error, "OpenCL does not take pinned memory"));
    }
    is_taken.unwrap_or(false)
}

/// The name under which something is kept with a range: a context's, which memory over the range
/// keeps.
fn name_of(context: &Context) -> usize {
    context.raw().addr()
}

/// The range that holds a transfer's bytes on the host, of a device that gains by it. The use of
/// such memory by other libraries than NVIDIA's is not known.
fn range(device: &Device, transfer: &Transfer) -> Option<Arc<PinnedRange>> {
    if !device.gains() {
        return None;
    }
    let host = match (&transfer.source, &transfer.destination) {
        (Endpoint::Host(host), Endpoint::Argument(_))
        | (Endpoint::Argument(_), Endpoint::Host(host)) => host.pointer(),
        _ => return None,
    };
    let length = Shape::of(transfer).row_alone()?;
    PinnedRange::of(host, usize::try_from(length).ok()?)
}

fn memory_over(device: &Device, range: &PinnedRange) -> Called<Memory> {
    let bytes = range.bytes();
    let start = std::ptr::with_exposed_provenance_mut(bytes.start);
    // SAFETY: mapped until the range gives this up, which it does first.
    unsafe { Memory::over(device.platform.context()?, start, bytes.len()) }
}
