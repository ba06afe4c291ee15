//! Devices that reach each other's memory.

use crate::Cuda;
use crate::device::Device;
use crate::native::{Called, named};
use cudarc::driver::sys;
use quipu_scheduler::panics::quietly;

impl Cuda {
    /// Lets two devices reach each other's memory, if they can; else CUDA copies by way of the
    /// host.
    pub(crate) fn link(&self, from: &Device, to: &Device) {
        let pair = (from.number.min(to.number), from.number.max(to.number));
        let mut linked = self
            .linked
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner);
        if linked.contains(&pair) {
            return;
        }
        linked.push(pair);
        drop(linked);
        for (one, other) in [(from, to), (to, from)] {
            if let Err(error) = reach(one, other) {
                quietly(|| {
                    tracing::debug!(
                        one = one.number,
                        other = other.number,
                        ?error,
                        "no direct way between devices"
                    );
                });
            }
        }
    }
}

/// Lets a device reach another's memory.
fn reach(device: &Device, other: &Device) -> Called<()> {
    let mut can = 0;
    // SAFETY: the call writes one number into `can`, a local variable.
    let code = unsafe { sys::cuDeviceCanAccessPeer(&raw mut can, device.handle, other.handle) };
    named("cuDeviceCanAccessPeer", code)?;
    if can == 0 {
        return Ok(());
    }
    let (live, there) = (device.live()?, other.live()?);
    let _entered = live.context.enter()?;
    // SAFETY: a context of another device.
    let enabled = unsafe { sys::cuCtxEnablePeerAccess(there.context.raw(), 0) };
    if enabled != sys::CUresult::CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED {
        named("cuCtxEnablePeerAccess", enabled)?;
    }
    let Some(pool) = there.pool else {
        return Ok(());
    };
    let access = sys::CUmemAccessDesc {
        location: sys::CUmemLocation {
            type_: sys::CUmemLocationType::CU_MEM_LOCATION_TYPE_DEVICE,
            id: device.handle,
        },
        flags: sys::CUmemAccess_flags::CU_MEM_ACCESS_FLAGS_PROT_READWRITE,
    };
    // SAFETY: one description, of a device.
    named("cuMemPoolSetAccess", unsafe {
        sys::cuMemPoolSetAccess(pool.0, &raw const access, 1)
    })
}
