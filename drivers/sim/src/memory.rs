//! Allocations of the machine's memory spaces, as the core asks for them.
//!
//! The core's key of a space is the engine's number of it, and the core's address of an allocation
//! is the engine's.

use crate::Shared;
use crate::engine::{DeviceAddress, HostMemory, MemoryError, Region, Simulation, SpaceId};
use crate::error::of_memory;
use quipu_scheduler::error::Result;
use quipu_scheduler::memory::Memory;
use quipu_scheduler::panics::quietly;
use std::ptr::NonNull;

/// The alignment of every allocation: enough for the widest elements and a cache line, as real
/// accelerators give it.
const ALIGNMENT: u64 = 256;

/// Memory of the host's, until it is freed as an allocation. Made by [`Shared::map_host_memory`].
struct InPlace {
    host: NonNull<u8>,
    size: u64,
}

// SAFETY: any thread may use the bytes, as hazards order the commands that do.
unsafe impl Send for InPlace {}
// SAFETY: any thread may use the bytes, as hazards order the commands that do.
unsafe impl Sync for InPlace {}

impl InPlace {
    fn part(&self, offset: usize, length: usize) -> *mut u8 {
        let end = offset.checked_add(length);
        assert!(end.is_some_and(|end| end as u64 <= self.size));
        self.host.as_ptr().wrapping_add(offset)
    }
}

impl HostMemory for InPlace {
    fn read(&self, offset: usize, to: &mut [u8]) {
        let from = self.part(offset, to.len());
        // SAFETY: within the bytes, which are there (`map_host_memory`). They are read for two: a
        // command, of what it uses without the bytes between its rows (`Bytes::copy_parts`), and
        // `read_allocation`, for the core. Hazards keep others from writing either. A look at
        // the machine reads none (`Space::inspect`).
        unsafe { from.copy_to_nonoverlapping(to.as_mut_ptr(), to.len()) };
    }

    fn write(&self, offset: usize, from: &[u8]) {
        let to = self.part(offset, from.len());
        // SAFETY: within the bytes, which are there (`map_host_memory`). The engine writes bytes
        // that its command has written, and `write_allocation` those of the core: hazards keep
        // others from all of these.
        unsafe { to.copy_from_nonoverlapping(from.as_ptr(), from.len()) };
    }
}

/// The engine's name of a space.
fn space_id(key: u32) -> SpaceId {
    // A key without a space is refused by the engine: it has at most 255.
    SpaceId(u8::try_from(key).unwrap_or(u8::MAX))
}

impl Shared {
    pub(crate) fn allocate(&self, key: u32, size: u64) -> Result<u64> {
        let space = space_id(key);
        self.machine
            .allocate(space, size, ALIGNMENT)
            .map(DeviceAddress::to_raw)
            .map_err(|error| of_memory(space, "allocate", &error))
    }

    /// # Safety
    /// As `Driver::map_host_memory`.
    pub(crate) unsafe fn map_host_memory(
        &self,
        key: u32,
        host: NonNull<u8>,
        size: u64,
    ) -> Result<u64> {
        let space = space_id(key);
        // The mapping does not outlive the bytes, as the caller promises.
        let memory = Box::new(InPlace { host, size });
        let map = |simulation: &mut Simulation| simulation.map(space, memory, size);
        let mapped = self.machine.with(map).map(DeviceAddress::to_raw);
        mapped.map_err(|error| of_memory(space, "use memory of the host where it is", &error))
    }

    pub(crate) fn free(&self, address: u64) {
        let address = DeviceAddress::from_raw(address);
        if let Err(error) = self.machine.free(address) {
            // The core frees allocations that nothing uses, once: this is a defect, and keeping the
            // memory the safe answer.
            quietly(|| tracing::error!(%address, %error, "simulated memory not freed"));
        }
    }

    pub(crate) fn read_allocation(
        &self,
        key: u32,
        address: u64,
        offset: u64,
        bytes: &mut [u8],
    ) -> Result<()> {
        let start = DeviceAddress::from_raw(address).add(offset);
        let region = Region::new(start, bytes.len() as u64);
        let read: Result<Vec<u8>, MemoryError> =
            self.machine.with(|simulation| simulation.read(region));
        let read = read.map_err(|error| of_memory(space_id(key), "read memory back", &error))?;
        bytes.copy_from_slice(&read);
        Ok(())
    }

    pub(crate) fn write_allocation(
        &self,
        key: u32,
        address: u64,
        offset: u64,
        bytes: &[u8],
    ) -> Result<()> {
        let start = DeviceAddress::from_raw(address).add(offset);
        self.machine
            .with(|simulation| simulation.deposit(start, bytes))
            .map_err(|error| of_memory(space_id(key), "write memory", &error))
    }

    /// True if a command that is uploaded uses the allocation, or the one that is being prepared
    /// for it.
    pub(crate) fn is_in_use(&self, address: u64, memory: &Memory) -> bool {
        let address = DeviceAddress::from_raw(address);
        if self
            .machine
            .with(|simulation| simulation.is_in_use(address))
        {
            return true;
        }
        let uploading = self.ledger().uploading();
        uploading.is_some_and(|held| {
            // SAFETY: this thread, which hands the command over, is the one that finishes commands.
            unsafe {
                held.with(|command| {
                    let mut arguments = command.arguments().iter();
                    arguments.any(|argument| std::ptr::eq(argument.memory(), memory))
                })
            }
        })
    }

    pub(crate) fn free_memory(&self, device: usize) -> Option<u64> {
        let space = self.configuration.devices.get(device)?.space;
        self.machine
            .with(|simulation| simulation.memory(space))
            .map(|memory| memory.free)
    }
}
