//! Allocations of the devices' memory. New memory is zeroed by a command of the device's own. The
//! first command that uses the memory waits for it there. An allocation may also be memory of the
//! host, used [in place](in_place).

use crate::device::Device;
use crate::native::{Called, Event, Memory, Queue, named};
use cl3::event::CL_COMPLETE;
use cl3::types::cl_event;
use std::ptr::{NonNull, null};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

/// The number of the next allocation.
static NEXT: AtomicU64 = AtomicU64::new(0);

/// Memory of a device.
#[derive(Debug)]
pub struct Allocation {
    /// OpenCL's object.
    pub(crate) memory: Memory,
    /// Tells it from all others that there ever were: OpenCL may make a later one in its place.
    pub(crate) number: u64,
    /// Its size.
    pub(crate) bytes: usize,
    /// The queue in which it is filled with zeros.
    queue: Queue,
    /// The fill with zeros, as long as that is not known to be over.
    zeroed: Mutex<Option<Event>>,
    /// The fill is known to be over.
    is_zeroed: AtomicBool,
}

impl Allocation {
    /// The event that has to be over before the memory is used, if one is left. Memory that could
    /// not be filled with zeros is filled again: nothing has used it, for that would have failed
    /// with the fill.
    pub(crate) fn ready(&self) -> Called<Option<Event>> {
        if self.is_zeroed.load(Ordering::Acquire) {
            return Ok(None);
        }
        let mut zeroed = self.zeroed.lock().unwrap_or_else(PoisonError::into_inner);
        match zeroed.as_ref().map(Event::status) {
            Some(Ok(CL_COMPLETE)) => {
                *zeroed = None;
                self.is_zeroed.store(true, Ordering::Release);
            }
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
        // SAFETY: the bytes are there until the call returns, which is when they are read. The
        // range is one of the memory's, which the core has checked.
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

/// Memory of the host, which the device uses where it is.
///
/// # Safety
/// The bytes are there for as long as the allocation is.
pub(crate) unsafe fn in_place(device: &Device, host: NonNull<u8>, size: u64) -> Called<Allocation> {
    let bytes = size as usize;
    let context = device.platform.context()?;
    // SAFETY: as the caller promises.
    let memory = unsafe { Memory::over(context, host.as_ptr().cast(), bytes) }?;
    Ok(Allocation {
        memory,
        number: NEXT.fetch_add(1, Ordering::Relaxed),
        bytes,
        queue: device.queues(false)?.service.clone(),
        zeroed: Mutex::new(None),
        is_zeroed: AtomicBool::new(true),
    })
}

/// Memory that is zero for a command that waits for the event that this leaves in it.
pub(crate) fn zeroed(device: &Device, size: u64) -> Called<Allocation> {
    let bytes = size as usize;
    let memory = Memory::allocate(device.platform.context()?, bytes)?;
    let queue = device.queues(false)?.service.clone();
    let event = fill_with_zeros(&queue, &memory, bytes)?;
    Ok(Allocation {
        memory,
        number: NEXT.fetch_add(1, Ordering::Relaxed),
        bytes,
        queue,
        zeroed: Mutex::new(Some(event)),
        is_zeroed: AtomicBool::new(false),
    })
}

/// Has memory filled with zeros, from now on.
pub(crate) fn fill_with_zeros(queue: &Queue, memory: &Memory, bytes: usize) -> Called<Event> {
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
