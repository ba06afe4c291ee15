//! Mapping buffers and images to the host.
//!
//! A mapping is two commands of the host. The first brings the bytes to the host and ends; from
//! then on the program has them. The second, which gives them back, says that the host has written
//! them. Nothing is held between the two. The program answers for accesses of other commands to the
//! bytes meanwhile, as OpenCL has it, and no command waits for the program.

use super::{Command, memory};
use crate::code::{Code, Result, create, ensure, entry};
use crate::handle::Ref;
use crate::mapped::Map;
use crate::memory::Memory;
use crate::queue::Queue;
use opencl_sys::*;
use quipu_scheduler::AccessMode;
use std::ffi::c_void;

const WRITES: cl_map_flags = CL_MAP_WRITE | CL_MAP_WRITE_INVALIDATE_REGION;

/// Refuses flags that are none, or that exclude each other.
pub(crate) fn check_flags(flags: cl_map_flags) -> Result<()> {
    let invalidates = flags & CL_MAP_WRITE_INVALIDATE_REGION != 0;
    let others = flags & !CL_MAP_WRITE_INVALIDATE_REGION;
    ensure(
        others & !(CL_MAP_READ | CL_MAP_WRITE) == 0 && !(invalidates && others != 0),
        CL_INVALID_VALUE,
    )
}

/// Maps bytes of memory: `part` says which. `how` is whether the program waits, its flags, and the
/// kind of command.
///
/// # Safety
/// The list has so many handles; the place for an event is null or valid for a write.
pub(super) unsafe fn map(
    queue: &Ref<Queue>,
    memory: &Memory,
    part: Map,
    how: (cl_bool, cl_map_flags, cl_command_type),
    (count, events, event): (cl_uint, *const cl_event, *mut cl_event),
) -> Result<*mut c_void> {
    let (blocking, flags, kind) = how;
    check_flags(flags)?;
    ensure(
        (flags & CL_MAP_READ == 0 || memory.is_readable())
            && (flags & WRITES == 0 || memory.is_writable()),
        CL_INVALID_OPERATION,
    )?;
    // SAFETY: as the caller promises.
    let command = unsafe { Command::new(queue, count, events, event) }?;
    let first = memory
        .core
        .host_pointer()
        .map_err(|_| Code(CL_MAP_FAILURE))?;
    let address = first
        .as_ptr()
        .wrapping_add((memory.offset + part.offset) as usize);
    let mode = match flags {
        // What lies between the rows of an image stays.
        CL_MAP_WRITE_INVALIDATE_REGION if memory.image.is_none() => AccessMode::Overwrite,
        _ if flags & WRITES != 0 => AccessMode::ReadWrite,
        _ => AccessMode::Read,
    };
    let map = Map {
        address: address.expose_provenance(),
        writes: flags & WRITES != 0,
        ..part
    };
    let access = memory.access(part.offset, part.length, mode);
    // Before the command: a program that is told of its end may unmap at once.
    // Regions of an image may lie side by side in rows that both have bytes of.
    memory
        .mapped
        .add(map, map.writes && memory.image.is_none())?;
    let enqueued = command.on_host(access, kind, blocking);
    memory.mapped.mapped(&map, enqueued.as_ref().ok().cloned());
    enqueued.map(|_| address.cast())
}

#[unsafe(export_name = "clEnqueueMapBuffer")]
pub(crate) unsafe extern "C" fn enqueue_map_buffer(
    queue: cl_command_queue,
    buffer: cl_mem,
    blocking: cl_bool,
    flags: cl_map_flags,
    offset: usize,
    size: usize,
    count: cl_uint,
    events: *const cl_event,
    event: *mut cl_event,
    code: *mut cl_int,
) -> *mut c_void {
    let body = || {
        let queue = Ref::<Queue>::of(queue)?;
        let buffer = super::buffer(&queue, buffer)?;
        let (offset, length) = (offset as u64, size as u64);
        ensure(
            buffer.holds(offset, length) && length != 0,
            CL_INVALID_VALUE,
        )?;
        let part = Map {
            address: 0,
            offset,
            length,
            writes: false,
        };
        let how = (blocking, flags, CL_COMMAND_MAP_BUFFER);
        // SAFETY: as the program promises.
        unsafe { map(&queue, &buffer, part, how, (count, events, event)) }
    };
    // SAFETY: the program passes where the code goes.
    unsafe { create(code, body) }
}

#[unsafe(export_name = "clEnqueueUnmapMemObject")]
pub(crate) unsafe extern "C" fn enqueue_unmap_mem_object(
    queue: cl_command_queue,
    memory_object: cl_mem,
    pointer: *mut c_void,
    count: cl_uint,
    events: *const cl_event,
    event: *mut cl_event,
) -> cl_int {
    entry(|| {
        let queue = Ref::<Queue>::of(queue)?;
        let buffer: Ref<Memory> = memory(&queue, memory_object)?;
        // SAFETY: as the program promises.
        let command = unsafe { Command::new(&queue, count, events, event) }?;
        let map = buffer.mapped.begin_unmap(pointer.addr())?;
        let mode = match map.writes {
            true => AccessMode::ReadWrite,
            false => AccessMode::Read,
        };
        let access = buffer.access(map.offset, map.length, mode);
        let enqueued = command.on_host(access, CL_COMMAND_UNMAP_MEM_OBJECT, CL_FALSE);
        let command = enqueued.as_ref().ok().cloned();
        buffer.mapped.unmapped(&map, command);
        enqueued.map(drop)
    })
}
