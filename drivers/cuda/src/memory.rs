//! Allocations of the devices' memory. New memory comes from the device's pool and is zeroed in the
//! order of a stream. The first command that uses it waits for that there: so no thread waits for
//! it on the host. An allocation may also be memory of the host, used [in place](in_place). That is
//! [pinned](crate::registered), or [managed].

use crate::device::{Device, Live};
use crate::native::{CallError, Called, Context, Event, named};
use crate::registered::Registered;
use cudarc::driver::sys::{self, CUdeviceptr};
use quipu_device_queue::Failure;
use quipu_scheduler::memory::pinned::{HostBlock, Pinning};
use quipu_scheduler::panics::quietly;
use std::ptr::NonNull;
use std::sync::{Arc, Mutex, PoisonError};

/// Memory of a device.
#[derive(Debug)]
pub struct Allocation {
    /// Its address, in the address space that all devices and the host share.
    pub(crate) address: CUdeviceptr,
    /// The event of the fill with zeros, as long as that is not known to be over.
    zeroed: Mutex<Option<Event>>,
    /// It is memory of the host, which stays when this is given back.
    is_of_host: bool,
}

impl Allocation {
    /// The event that has to be over before the memory is used, if one is left.
    pub(crate) fn ready(&self) -> Option<Event> {
        let mut zeroed = self.zeroed.lock().unwrap_or_else(PoisonError::into_inner);
        if zeroed
            .as_ref()
            .is_some_and(|event| event.has_happened() == Ok(true))
        {
            *zeroed = None;
        }
        zeroed.clone()
    }

    /// Reads bytes, at once.
    pub(crate) fn read(&self, device: &Device, offset: u64, bytes: &mut [u8]) -> Called<()> {
        let live = device.live()?;
        let _entered = live.context.enter()?;
        live.with_stream(|stream| {
            if let Some(ready) = self.ready() {
                stream.wait(&ready)?;
            }
            // SAFETY: the bytes are there until this returns, which is when they are read. The
            // range is one of the memory's, which the core has checked.
            let code = unsafe {
                sys::cuMemcpyDtoHAsync_v2(
                    bytes.as_mut_ptr().cast(),
                    self.address + offset,
                    bytes.len(),
                    stream.raw(),
                )
            };
            named("cuMemcpyDtoHAsync", code)?;
            stream.synchronize()
        })
    }

    /// Writes bytes, at once.
    pub(crate) fn write(&self, device: &Device, offset: u64, bytes: &[u8]) -> Called<()> {
        let live = device.live()?;
        let _entered = live.context.enter()?;
        live.with_stream(|stream| {
            if let Some(ready) = self.ready() {
                stream.wait(&ready)?;
            }
            // SAFETY: as above; the bytes are only read.
            let code = unsafe {
                sys::cuMemcpyHtoDAsync_v2(
                    self.address + offset,
                    bytes.as_ptr().cast(),
                    bytes.len(),
                    stream.raw(),
                )
            };
            named("cuMemcpyHtoDAsync", code)?;
            stream.synchronize()
        })
    }
}

/// The bytes that are free as CUDA says, and those that are free in the device's pool, at most
/// `left`; of a device that is not in use, `left`.
pub(crate) fn free(device: &Device, left: u64) -> Option<u64> {
    let Some(live) = device.live_if_any() else {
        return Some(left);
    };
    let _entered = live.context.enter().ok()?;
    let (mut free, mut total) = (0, 0);
    // SAFETY: the call writes one number into each of `free` and `total`.
    let code = unsafe { sys::cuMemGetInfo_v2(&raw mut free, &raw mut total) };
    named("cuMemGetInfo", code).ok()?;
    Some(left.min(free as u64 + spare_in_pool(live)))
}

fn spare_in_pool(live: &Live) -> u64 {
    use sys::CUmemPool_attribute as Attribute;
    let Some(pool) = live.pool else {
        return 0;
    };
    let ask = |which| {
        let mut value = 0_u64;
        // SAFETY: these attributes are numbers of 64 bits.
        let code = unsafe { sys::cuMemPoolGetAttribute(pool.0, which, (&raw mut value).cast()) };
        named("cuMemPoolGetAttribute", code).map(|()| value)
    };
    let reserved = ask(Attribute::CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT).unwrap_or(0);
    let used = ask(Attribute::CU_MEMPOOL_ATTR_USED_MEM_CURRENT).unwrap_or(reserved);
    reserved.saturating_sub(used)
}

/// Memory that is zero for a command that waits for the event that this leaves in it.
pub(crate) fn zeroed(device: &Device, size: u64) -> Called<Allocation> {
    let live = device.live()?;
    let _entered = live.context.enter()?;
    let bytes = (size as usize).max(1);
    let address = match reserve(live, bytes) {
        Err(error) if error.is_out_of_memory() && live.pool.is_some() => {
            // Freed memory is in the pool only when the stream has come to it, and then in pieces.
            if let Some(pool) = live.pool {
                pool.trim(&live.service)?;
            }
            reserve(live, bytes)?
        }
        reserved => reserved?,
    };
    // SAFETY: memory of so many bytes, in the stream's order.
    let code = unsafe { sys::cuMemsetD8Async(address, 0, bytes, live.service.raw()) };
    let zeroed = named("cuMemsetD8Async", code).and_then(|()| Event::record(&live.service, false));
    let mut allocation = Allocation {
        address,
        zeroed: Mutex::new(None),
        is_of_host: false,
    };
    match zeroed {
        Ok(event) => {
            allocation.zeroed = Mutex::new(Some(event));
            Ok(allocation)
        }
        Err(error) => {
            let _ = given_back(device, &allocation);
            Err(error)
        }
    }
}

/// Memory of the host, which the device uses where it is.
pub(crate) fn in_place(device: &Device, host: NonNull<u8>, size: u64) -> Called<Allocation> {
    let live = device.live()?;
    let _entered = live.context.enter()?;
    Ok(Allocation {
        address: Registered::address(live, host, size)?,
        zeroed: Mutex::new(None),
        is_of_host: true,
    })
}

/// Memory that CUDA moves between the host and devices, page by page, as they use it.
struct Managed {
    start: NonNull<u8>,
    /// Ends before the memory does.
    pinning: Option<Pinning>,
    context: Arc<Context>,
}

// SAFETY: it only frees the memory, which any thread may do.
unsafe impl Send for Managed {}
// SAFETY: a shared one gives nothing.
unsafe impl Sync for Managed {}

/// Managed memory of so many bytes, all zero. The host fills it, so its pages begin there.
pub(crate) fn managed(device: &Device, size: u64) -> Called<HostBlock> {
    /// Of the largest pages that hosts have by default.
    const PAGE: usize = 64 << 10;
    let call = "cuMemAllocManaged";
    let none = CallError {
        call,
        code: sys::CUresult::CUDA_ERROR_OUT_OF_MEMORY,
    };
    let live = device.live()?;
    let _entered = live.context.enter()?;
    let bytes = usize::try_from(size)
        .ok()
        .and_then(|size| size.checked_next_multiple_of(PAGE))
        .ok_or(none)?;
    let flags = sys::CUmemAttach_flags::CU_MEM_ATTACH_GLOBAL as u32;
    let mut address = 0;
    // SAFETY: the context is current, and the call writes one address into `address`.
    named(call, unsafe {
        sys::cuMemAllocManaged(&raw mut address, bytes, flags)
    })?;
    let start = std::ptr::with_exposed_provenance_mut::<u8>(address as usize);
    let start = NonNull::new(start).ok_or(none)?;
    // SAFETY: so many bytes, ours alone, which the host may use beside the devices' kernels
    // (`CU_DEVICE_ATTRIBUTE_CONCURRENT_MANAGED_ACCESS`, which `device` asks).
    unsafe { start.write_bytes(0, bytes) };
    // SAFETY: allocated until `Managed` is dropped, which drops this first. It is new, so no
    // transfer uses it; and memory objects keep it.
    let pinning = unsafe { Pinning::new(start.as_ptr(), bytes) };
    Registered::note_managed(&live.context, start, bytes);
    let managed = Managed {
        start,
        pinning: Some(pinning),
        context: live.context.clone(),
    };
    Ok(HostBlock {
        start,
        keep: Box::new(managed),
    })
}

impl Drop for Managed {
    fn drop(&mut self) {
        self.pinning = None;
        let _entered = self.context.enter();
        let address = self.start.as_ptr().expose_provenance() as CUdeviceptr;
        // SAFETY: allocated by `managed`, freed once; nothing uses it any more.
        if let Err(error) = named("cuMemFree", unsafe { sys::cuMemFree_v2(address) }) {
            quietly(|| tracing::debug!(?error, "managed memory was not freed"));
        }
    }
}

fn reserve(live: &Live, bytes: usize) -> Called<CUdeviceptr> {
    let mut address = 0;
    if live.pool.is_some() {
        // SAFETY: the context is current.
        let code = unsafe { sys::cuMemAllocAsync(&raw mut address, bytes, live.service.raw()) };
        named("cuMemAllocAsync", code)?;
    } else {
        // SAFETY: the context is current.
        named("cuMemAlloc", unsafe {
            sys::cuMemAlloc_v2(&raw mut address, bytes)
        })?;
    }
    Ok(address)
}

/// Gives memory back.
pub(crate) fn given_back(device: &Device, allocation: &Allocation) -> Called<()> {
    if allocation.is_of_host {
        return Ok(());
    }
    let live = device.live()?;
    let _entered = live.context.enter()?;
    if live.pool.is_some() {
        // SAFETY: allocated so, freed once; the fill that zeroes it is in the same stream, and
        // nothing else uses it.
        let code = unsafe { sys::cuMemFreeAsync(allocation.address, live.service.raw()) };
        named("cuMemFreeAsync", code)
    } else {
        // SAFETY: as above.
        named("cuMemFree", unsafe {
            sys::cuMemFree_v2(allocation.address)
        })
    }
}
