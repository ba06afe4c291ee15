//! Markers, barriers, and migrations.

use super::{Command, memory};
use crate::code::{Code, Result, ensure, entry, list};
use crate::event::Waits;
use crate::handle::Ref;
use crate::queue::Queue;
use opencl_sys::*;
use quipu_scheduler::{AccessMode, Request};

#[unsafe(export_name = "clEnqueueMarkerWithWaitList")]
pub(crate) unsafe extern "C" fn enqueue_marker_with_wait_list(
    queue: cl_command_queue,
    count: cl_uint,
    events: *const cl_event,
    event: *mut cl_event,
) -> cl_int {
    entry(|| {
        let queue = Ref::<Queue>::of(queue)?;
        // SAFETY: as the program promises.
        let command = unsafe { Command::new(&queue, count, events, event) }?;
        let core = command.enqueue(|waits| Ok(queue.core.marker(waits)?))?;
        command.give(core, CL_COMMAND_MARKER)
    })
}

#[unsafe(export_name = "clEnqueueBarrierWithWaitList")]
pub(crate) unsafe extern "C" fn enqueue_barrier_with_wait_list(
    queue: cl_command_queue,
    count: cl_uint,
    events: *const cl_event,
    event: *mut cl_event,
) -> cl_int {
    entry(|| {
        let queue = Ref::<Queue>::of(queue)?;
        // SAFETY: as the program promises.
        let command = unsafe { Command::new(&queue, count, events, event) }?;
        let core = command.enqueue(|waits| Ok(queue.core.barrier(waits)?))?;
        command.give(core, CL_COMMAND_BARRIER)
    })
}

#[unsafe(export_name = "clEnqueueMarker")]
pub(crate) unsafe extern "C" fn enqueue_marker(
    queue: cl_command_queue,
    event: *mut cl_event,
) -> cl_int {
    if event.is_null() {
        return CL_INVALID_VALUE;
    }
    // SAFETY: as the program promises.
    unsafe { enqueue_marker_with_wait_list(queue, 0, std::ptr::null(), event) }
}

#[unsafe(export_name = "clEnqueueBarrier")]
pub(crate) unsafe extern "C" fn enqueue_barrier(queue: cl_command_queue) -> cl_int {
    // SAFETY: there is no list, and no event is asked for.
    unsafe { enqueue_barrier_with_wait_list(queue, 0, std::ptr::null(), std::ptr::null_mut()) }
}

#[unsafe(export_name = "clEnqueueWaitForEvents")]
pub(crate) unsafe extern "C" fn enqueue_wait_for_events(
    queue: cl_command_queue,
    count: cl_uint,
    events: *const cl_event,
) -> cl_int {
    if count == 0 || events.is_null() {
        return CL_INVALID_VALUE;
    }
    // SAFETY: as the program promises; no event is asked for.
    match unsafe { enqueue_barrier_with_wait_list(queue, count, events, std::ptr::null_mut()) } {
        CL_INVALID_EVENT_WAIT_LIST => CL_INVALID_EVENT,
        code => code,
    }
}

#[unsafe(export_name = "clEnqueueMigrateMemObjects")]
pub(crate) unsafe extern "C" fn enqueue_migrate_mem_objects(
    queue: cl_command_queue,
    objects: cl_uint,
    memories: *const cl_mem,
    flags: cl_mem_migration_flags,
    count: cl_uint,
    events: *const cl_event,
    event: *mut cl_event,
) -> cl_int {
    entry(|| {
        let queue = Ref::<Queue>::of(queue)?;
        // SAFETY: as the program promises.
        let handles = unsafe { list(objects as usize, memories) };
        let handles = handles
            .filter(|handles| !handles.is_empty())
            .ok_or(Code(CL_INVALID_VALUE))?;
        const KNOWN: cl_mem_migration_flags =
            CL_MIGRATE_MEM_OBJECT_HOST | CL_MIGRATE_MEM_OBJECT_CONTENT_UNDEFINED;
        ensure(flags & !KNOWN == 0, CL_INVALID_VALUE)?;
        // SAFETY: as the program promises.
        let command = unsafe { Command::new(&queue, count, events, event) }?;
        let memories: Result<Vec<_>> = handles
            .iter()
            .map(|handle| memory(&queue, *handle))
            .collect();
        let memories = memories?;
        let kind = CL_COMMAND_MIGRATE_MEM_OBJECTS;
        // Content that nobody wants need not be brought anywhere. To a device it comes with the
        // command that needs it.
        if flags != CL_MIGRATE_MEM_OBJECT_HOST {
            return command.nothing(kind, CL_FALSE);
        }
        let accesses: Vec<_> = memories
            .iter()
            .map(|memory| memory.whole(AccessMode::Read))
            .collect();
        // A command of the host that only reads them brings them there.
        let host = queue.context.host(queue.is_profiled())?;
        let turn = command.enqueue(|waits| {
            let request = Request {
                accesses: &accesses,
                waits,
                ..Request::default()
            };
            Ok(host.run(&queue.core, &request, |_| Ok(()))?)
        })?;
        command.give_timed(turn.in_queue, Waits::from_iter([turn.event]), kind)
    })
}
