//! Allocations of the devices' memory, as the core asks for them.
//!
//! The core's key of a space is the device's number, and its address of an allocation that of a
//! vendor's [`Allocation`](Vendor::Allocation).

use crate::Shared;
use crate::error::{of_call, of_device};
use crate::vendor::{Failure, Vendor, VendorDevice};
use quipu_scheduler::MemorySpace;
use quipu_scheduler::error::{Error, ErrorKind, Result};
use quipu_scheduler::memory::SpaceId;
use quipu_scheduler::memory::pinned::HostBlock;
use quipu_scheduler::panics::quietly;
use std::ptr::NonNull;
use std::sync::atomic::Ordering;

fn out_of_memory(device: &impl VendorDevice, asked: u64, used: u64, capacity: u64) -> Error {
    ErrorKind::OutOfMemory {
        device: format!("device '{}'", device.name()),
        asked,
        free: capacity.saturating_sub(used),
        capacity,
    }
    .into()
}

/// The core's address of an allocation, until it is freed.
fn address_of<A>(allocation: A) -> u64 {
    Box::into_raw(Box::new(allocation)).expose_provenance() as u64
}

impl<V: Vendor> Shared<V> {
    /// The number of the device of a memory space's key.
    fn number_of_key(&self, key: u32) -> Result<usize> {
        let count = self.vendor.devices().len();
        let number = key as usize;
        if number < count {
            return Ok(number);
        }
        Err(ErrorKind::InvalidArgument {
            what: "use a device's memory",
            problem: format!(
                "the {} driver has no device {key}; it has {count}",
                V::TITLE
            ),
        }
        .into())
    }

    /// The device of a memory space, if that is one of this driver's.
    pub(crate) fn device_of_space(&self, space: SpaceId) -> Option<&V::Device> {
        let driver = self.this.upgrade()?;
        let number = self.number_of_key(space.key_in(&*driver)?).ok()?;
        Some(self.device(number))
    }

    pub(crate) fn allocate(&self, key: u32, size: u64) -> Result<u64> {
        let number = self.number_of_key(key)?;
        let (device, allocated) = (self.device(number), &self.allocated[number]);
        let properties = device.properties();
        if size > properties.max_buffer {
            return Err(ErrorKind::InvalidSize {
                what: "allocate a buffer",
                problem: format!(
                    "{size} bytes exceed the largest buffer of device '{}', {} bytes; split it",
                    properties.name, properties.max_buffer
                ),
            }
            .into());
        }
        let capacity = self.capacity[number].load(Ordering::Acquire);
        let before = allocated.fetch_add(size, Ordering::AcqRel);
        let made = if before.saturating_add(size) > capacity {
            Err(out_of_memory(device, size, before, capacity))
        } else {
            self.vendor.reserve(device, size).map_err(|failure| {
                if failure.is_out_of_memory() {
                    quietly(|| tracing::debug!(reason = failure.text(), size, "no memory"));
                    out_of_memory(device, size, before, capacity)
                } else {
                    of_call(device.name(), "allocate memory", &failure)
                }
            })
        };
        match made {
            Ok(allocation) => Ok(address_of(allocation)),
            Err(error) => {
                allocated.fetch_sub(size, Ordering::AcqRel);
                Err(error)
            }
        }
    }

    /// # Safety
    /// As `Driver::map_host_memory`.
    pub(crate) unsafe fn map_host_memory(
        &self,
        key: u32,
        host: NonNull<u8>,
        size: u64,
    ) -> Result<u64> {
        const WHAT: &str = "use memory of the host where it is";
        let device = self.device(self.number_of_key(key)?);
        let instead =
            |text: &str| format!("{text}; use an ordinary buffer, whose bytes are copied");
        // SAFETY: as the caller promises.
        let mapped = unsafe { self.vendor.map_host_memory(device, host, size) };
        let mapped = mapped.ok_or_else(|| {
            let text = instead("the device cannot");
            of_device(device.name(), WHAT, text)
        })?;
        let allocation = mapped.map_err(|failure| match failure.is_loss() {
            true => of_call(device.name(), WHAT, &failure),
            false => of_device(device.name(), WHAT, instead(&failure.text())),
        })?;
        Ok(address_of(allocation))
    }

    pub(crate) fn allocate_managed(&self, number: usize, size: u64) -> Result<HostBlock> {
        let device = self.device(number);
        let capacity = device.properties().global_memory;
        let made = self.vendor.allocate_managed(device, size).ok_or_else(|| {
            let text =
                "the device has none; use memory of the host in place, or an ordinary buffer";
            of_device(device.name(), "allocate managed memory", text.to_owned())
        })?;
        made.map_err(|failure| match failure.is_out_of_memory() {
            // Managed memory may be larger than the device's: nothing is evicted for it.
            true => out_of_memory(device, size, capacity, capacity),
            false => of_call(device.name(), "allocate managed memory", &failure),
        })
    }

    /// # Safety
    /// As `Driver::free`.
    pub(crate) unsafe fn free(&self, key: u32, address: u64, size: u64) {
        let Ok(number) = self.number_of_key(key) else {
            return;
        };
        let pointer = std::ptr::with_exposed_provenance_mut::<V::Allocation>(address as usize);
        // SAFETY: made by `allocate` or `map_host_memory`, freed once, and nothing uses it any more
        // (`Driver::free`).
        let allocation = unsafe { Box::from_raw(pointer) };
        self.vendor.release(self.device(number), *allocation);
        self.allocated[number].fetch_sub(size, Ordering::AcqRel);
    }

    /// # Safety
    /// As `Driver::read_allocation`.
    pub(crate) unsafe fn read_allocation(
        &self,
        key: u32,
        address: u64,
        offset: u64,
        bytes: &mut [u8],
    ) -> Result<()> {
        if bytes.is_empty() {
            return Ok(());
        }
        let device = self.device(self.number_of_key(key)?);
        let pointer = std::ptr::with_exposed_provenance::<V::Allocation>(address as usize);
        // SAFETY: made by `allocate`, and not freed before the call returns
        // (`Driver::read_allocation`).
        let allocation = unsafe { &*pointer };
        let read = self.vendor.read(device, allocation, offset, bytes);
        read.map_err(|failure| of_call(device.name(), "read memory back", &failure))
    }

    /// # Safety
    /// As `Driver::write_allocation`.
    pub(crate) unsafe fn write_allocation(
        &self,
        key: u32,
        address: u64,
        offset: u64,
        bytes: &[u8],
    ) -> Result<()> {
        if bytes.is_empty() {
            return Ok(());
        }
        let device = self.device(self.number_of_key(key)?);
        let pointer = std::ptr::with_exposed_provenance::<V::Allocation>(address as usize);
        // SAFETY: made by `allocate`, and not freed before the call returns
        // (`Driver::write_allocation`).
        let allocation = unsafe { &*pointer };
        let written = self.vendor.write(device, allocation, offset, bytes);
        written.map_err(|failure| of_call(device.name(), "put memory back", &failure))
    }

    pub(crate) fn has_route(&self, from: SpaceId, to: SpaceId) -> bool {
        let (from, to) = (self.device_of_space(from), self.device_of_space(to));
        from.zip(to)
            .is_some_and(|(from, to)| self.vendor.has_route(from, to))
    }

    pub(crate) fn limit_memory(&self, number: usize, bytes: u64) {
        if let Some(device) = self.device_if_any(number)
            && let MemorySpace::Own(key) = device.properties().memory
            && let Ok(number) = self.number_of_key(key)
        {
            self.capacity[number].fetch_min(bytes, Ordering::AcqRel);
        }
    }

    pub(crate) fn free_memory(&self, number: usize) -> Option<u64> {
        // A part's memory is that of the device that it is a part of.
        let MemorySpace::Own(key) = self.device_if_any(number)?.properties().memory else {
            return None;
        };
        let number = self.number_of_key(key).ok()?;
        let device = self.device(number);
        let used = self.allocated[number].load(Ordering::Acquire);
        let capacity = self.capacity[number].load(Ordering::Acquire);
        let left = capacity.saturating_sub(used);
        self.vendor.free_memory(device, left)
    }
}
