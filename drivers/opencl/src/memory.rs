//! Allocations of the devices' memory, as the core asks for them.
//!
//! The core's key of a space is the device's number, and its address of an allocation that of an [`Allocation`]. What is
//! allocated is zeroed by a command of the device's own, which whatever uses it first waits for there.

use crate::Shared;
use crate::device::Device;
use crate::error::{is_out_of_memory, text};
use crate::native::{Called, Event, Memory, Queue, named};
use cl3::event::CL_COMPLETE;
use cl3::types::cl_event;
use quipu_core::error::{Error, ErrorKind, Result};
use std::ptr::null;
use std::sync::atomic::Ordering;
use std::sync::{Mutex, PoisonError};

/// Memory of a device.
#[derive(Debug)]
pub(crate) struct Allocation {
    /// OpenCL's object.
    pub(crate) memory: Memory,
    bytes: usize,
    /// What it is filled with zeros by.
    queue: Queue,
    /// What fills it with zeros, as long as that is not known to be over.
    zeroed: Mutex<Option<Event>>,
}

impl Allocation {
    /// The allocation of an address.
    ///
    /// # Safety
    /// The address came from [`Shared::allocate`], and is not freed while this is used.
    pub(crate) unsafe fn of<'a>(address: u64) -> &'a Self {
        let pointer = std::ptr::with_exposed_provenance::<Self>(address as usize);
        // SAFETY: made from a box, which the caller promises is still there.
        unsafe { &*pointer }
    }

    /// What has to be over before the memory is used, if anything is left. Memory that could not be filled with zeros is
    /// filled again: nothing has used it, for that would have failed with the fill.
    pub(crate) fn ready(&self) -> Called<Option<Event>> {
        let mut zeroed = self.zeroed.lock().unwrap_or_else(PoisonError::into_inner);
        match zeroed.as_ref().map(Event::status) {
            Some(Ok(CL_COMPLETE)) => *zeroed = None,
            Some(Ok(..0)) => {
                *zeroed = Some(fill_with_zeros(&self.queue, &self.memory, self.bytes)?)
            }
            _ => {}
        }
        Ok(zeroed.clone())
    }

    /// Reads bytes, at once.
    pub(crate) fn read(&self, device: &Device, offset: u64, bytes: &mut [u8]) -> Called<()> {
        if bytes.is_empty() {
            return Ok(());
        }
        let queues = device.queues(false)?;
        let ready = self.ready()?;
        let waits: Vec<cl_event> = ready.iter().map(Event::raw).collect();
        // SAFETY: the bytes are there until the call returns, which is when they are read. The range is one of the
        // memory's, which the core has checked.
        let event = unsafe {
            cl3::command_queue::enqueue_read_buffer(
                queues.service.raw(),
                self.memory.raw(),
                cl3::types::CL_TRUE,
                offset as usize,
                bytes.len(),
                bytes.as_mut_ptr().cast(),
                waits.len() as u32,
                crate::native::list(&waits),
            )
        };
        named("clEnqueueReadBuffer", event).map(|event| drop(Event::new(event)))
    }

    /// Writes bytes, at once.
    pub(crate) fn write(&self, device: &Device, offset: u64, bytes: &[u8]) -> Called<()> {
        if bytes.is_empty() {
            return Ok(());
        }
        let queues = device.queues(false)?;
        let ready = self.ready()?;
        let waits: Vec<cl_event> = ready.iter().map(Event::raw).collect();
        // SAFETY: as above; the bytes are only read.
        let event = unsafe {
            cl3::command_queue::enqueue_write_buffer(
                queues.service.raw(),
                self.memory.raw(),
                cl3::types::CL_TRUE,
                offset as usize,
                bytes.len(),
                bytes.as_ptr().cast_mut().cast(),
                waits.len() as u32,
                crate::native::list(&waits),
            )
        };
        named("clEnqueueWriteBuffer", event).map(|event| drop(Event::new(event)))
    }
}

fn out_of_memory(device: &Device, asked: u64, used: u64) -> Error {
    let capacity = device.properties.global_memory;
    ErrorKind::OutOfMemory {
        device: format!("device '{}'", device.name()),
        asked,
        free: capacity.saturating_sub(used),
        capacity,
    }
    .into()
}

impl Shared {
    pub(crate) fn allocate(&self, key: u32, size: u64) -> Result<u64> {
        let device = self.device_of_key(key)?;
        let properties = &device.properties;
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
        let before = device.allocated.fetch_add(size, Ordering::AcqRel);
        let made = if before.saturating_add(size) > properties.global_memory {
            Err(out_of_memory(device, size, before))
        } else {
            zeroed(device, size).map_err(|error| {
                if is_out_of_memory(error.code) {
                    tracing::debug!(reason = text(&error), size, "no memory");
                    out_of_memory(device, size, before)
                } else {
                    device.failed("allocate memory", &error)
                }
            })
        };
        match made {
            Ok(allocation) => Ok(Box::into_raw(Box::new(allocation)).expose_provenance() as u64),
            Err(error) => {
                device.allocated.fetch_sub(size, Ordering::AcqRel);
                Err(error)
            }
        }
    }

    pub(crate) fn free(&self, key: u32, address: u64, size: u64) {
        let pointer = std::ptr::with_exposed_provenance_mut::<Allocation>(address as usize);
        // SAFETY: made by `allocate`, freed once, and nothing uses it any more: the core sees to that.
        drop(unsafe { Box::from_raw(pointer) });
        if let Ok(device) = self.device_of_key(key) {
            device.allocated.fetch_sub(size, Ordering::AcqRel);
        }
    }

    pub(crate) fn read_allocation(
        &self,
        key: u32,
        address: u64,
        offset: u64,
        bytes: &mut [u8],
    ) -> Result<()> {
        let device = self.device_of_key(key)?;
        // SAFETY: the core asks for an allocation that is there, and keeps it meanwhile.
        let allocation = unsafe { Allocation::of(address) };
        let read = allocation.read(device, offset, bytes);
        read.map_err(|error| device.failed("read memory back", &error))
    }

    pub(crate) fn free_memory(&self, device: usize) -> Option<u64> {
        let device = self.devices.get(device)?;
        let used = device.allocated.load(Ordering::Acquire);
        Some(device.properties.global_memory.saturating_sub(used))
    }
}

/// Memory that is zero for whoever waits for what this leaves in it.
fn zeroed(device: &Device, size: u64) -> Called<Allocation> {
    let bytes = size as usize;
    let memory = Memory::allocate(device.platform.context()?, bytes)?;
    let queue = device.queues(false)?.service.clone();
    let event = fill_with_zeros(&queue, &memory, bytes)?;
    Ok(Allocation {
        memory,
        bytes,
        queue,
        zeroed: Mutex::new(Some(event)),
    })
}

/// Has memory filled with zeros, from now on.
fn fill_with_zeros(queue: &Queue, memory: &Memory, bytes: usize) -> Called<Event> {
    let zero = 0_u8;
    // SAFETY: the pattern is copied by the call.
    let event = unsafe {
        cl3::command_queue::enqueue_fill_buffer(
            queue.raw(),
            memory.raw(),
            (&raw const zero).cast(),
            1,
            0,
            bytes,
            0,
            null(),
        )
    };
    let event = Event::new(named("clEnqueueFillBuffer", event)?);
    // Others' commands wait for it.
    queue.flush()?;
    Ok(event)
}
