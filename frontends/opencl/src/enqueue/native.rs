//! Functions of the program as commands.

use super::{Command, memory};
use crate::code::{Code, Result, ensure, entry, list};
use crate::handle::Ref;
use crate::platform::is_on_host;
use crate::queue::Queue;
use opencl_sys::*;
use quipu_scheduler::{AccessMode, Request};
use std::ffi::c_void;

/// A copy of what the program passes to its function, aligned as anything may have to be.
struct Block {
    words: Vec<u128>,
}

#[unsafe(export_name = "clEnqueueNativeKernel")]
pub(crate) unsafe extern "C" fn enqueue_native_kernel(
    queue: cl_command_queue,
    function: Option<unsafe extern "C" fn(*mut c_void)>,
    arguments: *mut c_void,
    bytes: usize,
    objects: cl_uint,
    memories: *const cl_mem,
    places: *mut *const c_void,
    count: cl_uint,
    events: *const cl_event,
    event: *mut cl_event,
) -> cl_int {
    entry(|| {
        let queue = Ref::<Queue>::of(queue)?;
        let function = function.ok_or(Code(CL_INVALID_VALUE))?;
        ensure(arguments.is_null() == (bytes == 0), CL_INVALID_VALUE)?;
        // SAFETY: as the program promises.
        let lists = unsafe {
            (
                list(objects as usize, memories),
                list(objects as usize, places),
            )
        };
        let (Some(memories), Some(places)) = lists else {
            return Err(Code(CL_INVALID_VALUE));
        };
        ensure(memories.is_empty() || bytes != 0, CL_INVALID_VALUE)?;
        ensure(is_on_host(&queue.device.core), CL_INVALID_OPERATION)?;
        // SAFETY: as the program promises.
        let command = unsafe { Command::new(&queue, count, events, event) }?;
        // In the place of no buffer the function gets a null pointer.
        let known = |handle: &cl_mem| match handle.is_null() {
            true => Ok(None),
            false => memory(&queue, *handle).map(Some),
        };
        let memories: Result<Vec<_>> = memories.iter().map(known).collect();
        let memories = memories?;
        let mut block = Block {
            words: vec![0; bytes.div_ceil(size_of::<u128>())],
        };
        if bytes != 0 {
            let to = block.words.as_mut_ptr().cast::<u8>();
            // SAFETY: the program passes so many bytes, and there is room for as many.
            unsafe { to.copy_from_nonoverlapping(arguments.cast(), bytes) };
        }
        // Each place is within what is passed, and gets the address of its buffer.
        let places: Option<Vec<usize>> = places
            .iter()
            .map(|place| {
                let offset = place.addr().checked_sub(arguments.addr())?;
                let end = offset.checked_add(size_of::<*mut u8>())?;
                (end <= bytes).then_some(offset)
            })
            .collect();
        let places = places.ok_or(Code(CL_INVALID_VALUE))?;
        let are_passed: Vec<bool> = memories.iter().map(Option::is_some).collect();
        let accesses: Vec<_> = memories
            .iter()
            .flatten()
            .map(|memory| memory.whole(AccessMode::ReadWrite))
            .collect();
        let task = move |raw: &[quipu_scheduler::RawArgument]| {
            let mut block = block;
            let first = block.words.as_mut_ptr().cast::<u8>();
            let mut buffers = raw.iter().map(|argument| argument.pointer);
            for (place, is_passed) in places.iter().zip(are_passed) {
                let buffer = if is_passed { buffers.next() } else { None };
                let address = buffer.unwrap_or(std::ptr::null_mut());
                // SAFETY: the place was looked at above.
                unsafe { first.add(*place).cast::<*mut u8>().write_unaligned(address) };
            }
            let passed = match bytes {
                0 => std::ptr::null_mut(),
                _ => first.cast(),
            };
            // SAFETY: the program gave the function to be called so.
            unsafe { function(passed) };
            Ok(())
        };
        let core = command.enqueue(|waits| {
            let request = Request {
                accesses: &accesses,
                waits,
                unknown_access: true,
                ..Request::default()
            };
            Ok(queue.core.host_task(task, &request)?)
        })?;
        command.give(core, CL_COMMAND_NATIVE_KERNEL)
    })
}
