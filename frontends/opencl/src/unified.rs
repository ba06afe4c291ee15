//! Unified shared memory (`cl_intel_unified_shared_memory`), on devices that work in the host's
//! memory.
//!
//! It is shared virtual memory with a type, which programs can ask for. All three types are the
//! host's memory.

use crate::code::{Result, create, ensure, entry, fail};
use crate::context::{Context, pairs};
use crate::device::Device;
use crate::enqueue::Command;
use crate::handle::Ref;
use crate::info::Answer;
use crate::platform::is_on_host;
use crate::queue::Queue;
use crate::svm::{Purpose, enqueue, enqueue_copy, fill, set_kernel_arg_svm_pointer};
use opencl_sys::*;
use std::ffi::c_void;

/// The capabilities of devices that work in the host's memory, for memory of each type.
pub(crate) const CAPABILITIES: cl_device_unified_shared_memory_capabilities_intel =
    CL_UNIFIED_SHARED_MEMORY_ACCESS_INTEL
        | CL_UNIFIED_SHARED_MEMORY_ATOMIC_ACCESS_INTEL
        | CL_UNIFIED_SHARED_MEMORY_CONCURRENT_ACCESS_INTEL
        | CL_UNIFIED_SHARED_MEMORY_CONCURRENT_ATOMIC_ACCESS_INTEL;

const PLACEMENTS: cl_mem_alloc_flags_intel =
    CL_MEM_ALLOC_INITIAL_PLACEMENT_DEVICE_INTEL | CL_MEM_ALLOC_INITIAL_PLACEMENT_HOST_INTEL;

/// The flags among the properties of an allocation. All are hints.
///
/// # Safety
/// The list ends with a zero, or is null.
unsafe fn flags(
    properties: *const cl_mem_properties_intel,
    is_shared: bool,
) -> Result<cl_mem_alloc_flags_intel> {
    // SAFETY: as the caller promises.
    let (pairs, _) = unsafe { pairs(properties) };
    let known = CL_MEM_ALLOC_WRITE_COMBINED_INTEL | if is_shared { PLACEMENTS } else { 0 };
    match pairs[..] {
        [] => Ok(0),
        [(CL_MEM_ALLOC_FLAGS_INTEL, flags)] => {
            let both = flags & PLACEMENTS == PLACEMENTS;
            ensure(flags & !known == 0 && !both, CL_INVALID_PROPERTY)?;
            Ok(flags)
        }
        _ => fail(CL_INVALID_PROPERTY),
    }
}

/// An allocation of one of the three types.
///
/// # Safety
/// The list of properties ends with a zero, or is null; `code` is null or valid for a write.
unsafe fn allocate(
    context: cl_context,
    kind: cl_unified_shared_memory_type_intel,
    device: Option<cl_device_id>,
    properties: *const cl_mem_properties_intel,
    size: usize,
    alignment: cl_uint,
    code: *mut cl_int,
) -> *mut c_void {
    let body = || {
        let context = Ref::<Context>::of(context)?;
        let device = device.map(|device| context.device(device)).transpose()?;
        let is_there = match &device {
            Some(device) => is_on_host(&device.core),
            None => context.shares_memory,
        };
        ensure(is_there, CL_INVALID_OPERATION)?;
        let is_shared = kind == CL_MEM_TYPE_SHARED_INTEL;
        // SAFETY: as the caller promises.
        let flags = unsafe { flags(properties, is_shared) }?;
        let holds = |device: &Ref<Device>| size as u64 <= device.largest_buffer();
        let fits = match &device {
            Some(device) => holds(device),
            None => {
                let mut devices = context.devices.iter();
                devices.all(|device| !is_on_host(&device.core) || holds(device))
            }
        };
        ensure(size != 0 && fits, CL_INVALID_BUFFER_SIZE)?;
        let purpose = Purpose::Unified(kind, device.cloned(), flags);
        context.shared.allocate(size, alignment, purpose)
    };
    // SAFETY: `code` is null or valid for a write: the contract of `allocate`.
    unsafe { create(code, body) }
}

#[unsafe(export_name = "clHostMemAllocINTEL")]
pub(crate) unsafe extern "C" fn host_mem_alloc(
    context: cl_context,
    properties: *const cl_mem_properties_intel,
    size: usize,
    alignment: cl_uint,
    code: *mut cl_int,
) -> *mut c_void {
    let kind = CL_MEM_TYPE_HOST_INTEL;
    // SAFETY: as the program promises.
    unsafe { allocate(context, kind, None, properties, size, alignment, code) }
}

#[unsafe(export_name = "clDeviceMemAllocINTEL")]
pub(crate) unsafe extern "C" fn device_mem_alloc(
    context: cl_context,
    device: cl_device_id,
    properties: *const cl_mem_properties_intel,
    size: usize,
    alignment: cl_uint,
    code: *mut cl_int,
) -> *mut c_void {
    let (kind, device) = (CL_MEM_TYPE_DEVICE_INTEL, Some(device));
    // SAFETY: as the program promises.
    unsafe { allocate(context, kind, device, properties, size, alignment, code) }
}

#[unsafe(export_name = "clSharedMemAllocINTEL")]
pub(crate) unsafe extern "C" fn shared_mem_alloc(
    context: cl_context,
    device: cl_device_id,
    properties: *const cl_mem_properties_intel,
    size: usize,
    alignment: cl_uint,
    code: *mut cl_int,
) -> *mut c_void {
    let kind = CL_MEM_TYPE_SHARED_INTEL;
    let device = (!device.is_null()).then_some(device);
    // SAFETY: as the program promises.
    unsafe { allocate(context, kind, device, properties, size, alignment, code) }
}

/// Frees an allocation that begins at the address.
fn free(context: &Context, pointer: *mut c_void) -> Result<()> {
    let is_freed = pointer.is_null() || context.shared.free(pointer);
    ensure(is_freed, CL_INVALID_VALUE)
}

#[unsafe(export_name = "clMemFreeINTEL")]
pub(crate) unsafe extern "C" fn mem_free(context: cl_context, pointer: *mut c_void) -> cl_int {
    entry(|| free(&*Ref::<Context>::of(context)?, pointer))
}

#[unsafe(export_name = "clMemBlockingFreeINTEL")]
pub(crate) unsafe extern "C" fn mem_blocking_free(
    context: cl_context,
    pointer: *mut c_void,
) -> cl_int {
    entry(|| {
        let context = Ref::<Context>::of(context)?;
        // What is refused, or nothing, is not waited for.
        if pointer.is_null() {
            return Ok(());
        }
        let begins_there = |(first, _)| first == pointer.addr();
        let is_known = context.shared.block(pointer).is_some_and(begins_there);
        ensure(is_known, CL_INVALID_VALUE)?;
        // Which commands use it is not known: it may be any.
        context.queues.wait();
        free(&context, pointer)
    })
}

#[unsafe(export_name = "clGetMemAllocInfoINTEL")]
pub(crate) unsafe extern "C" fn get_mem_alloc_info(
    context: cl_context,
    pointer: *const c_void,
    name: cl_mem_info_intel,
    size: usize,
    value: *mut c_void,
    size_ret: *mut usize,
) -> cl_int {
    entry(|| {
        let context = Ref::<Context>::of(context)?;
        // SAFETY: the program passes what it wants the answer in.
        let answer = unsafe { Answer::new(size, value, size_ret) };
        let block = context.shared.block(pointer);
        let unified = block.and_then(|(first, block)| match block.purpose.clone() {
            Purpose::Unified(kind, device, flags) => {
                Some((first, block.size(), kind, device, flags))
            }
            Purpose::Shared => None,
        });
        let unknown = (0, 0, CL_MEM_TYPE_UNKNOWN_INTEL, None, 0);
        let (first, size, kind, device, flags) = unified.unwrap_or(unknown);
        match name {
            CL_MEM_ALLOC_TYPE_INTEL => answer.value(kind),
            CL_MEM_ALLOC_BASE_PTR_INTEL => answer.value(first),
            CL_MEM_ALLOC_SIZE_INTEL => answer.value(size),
            CL_MEM_ALLOC_DEVICE_INTEL => {
                answer.value(device.as_ref().map_or(std::ptr::null_mut(), Ref::handle))
            }
            _ if cl_mem_properties_intel::from(name) == CL_MEM_ALLOC_FLAGS_INTEL => {
                answer.value(flags)
            }
            _ => fail(CL_INVALID_VALUE),
        }
    })
}

#[unsafe(export_name = "clSetKernelArgMemPointerINTEL")]
pub(crate) unsafe extern "C" fn set_kernel_arg_mem_pointer(
    kernel: cl_kernel,
    index: cl_uint,
    value: *const c_void,
) -> cl_int {
    // SAFETY: the address is only kept.
    unsafe { set_kernel_arg_svm_pointer(kernel, index, value) }
}

#[unsafe(export_name = "clEnqueueMemcpyINTEL")]
pub(crate) unsafe extern "C" fn enqueue_memcpy(
    queue: cl_command_queue,
    blocking: cl_bool,
    destination: *mut c_void,
    source: *const c_void,
    size: usize,
    count: cl_uint,
    events: *const cl_event,
    event: *mut cl_event,
) -> cl_int {
    let kind = CL_COMMAND_MEMCPY_INTEL;
    // SAFETY: as the program promises.
    unsafe {
        enqueue_copy(
            kind,
            queue,
            blocking,
            destination,
            source,
            size,
            count,
            events,
            event,
        )
    }
}

#[unsafe(export_name = "clEnqueueMemFillINTEL")]
pub(crate) unsafe extern "C" fn enqueue_mem_fill(
    queue: cl_command_queue,
    pointer: *mut c_void,
    pattern: *const c_void,
    pattern_size: usize,
    size: usize,
    count: cl_uint,
    events: *const cl_event,
    event: *mut cl_event,
) -> cl_int {
    entry(|| {
        let queue = Ref::<Queue>::of(queue)?;
        // SAFETY: as the program promises.
        let command = unsafe { Command::new(&queue, count, events, event) }?;
        // SAFETY: the program lends the bytes until the command is over, and passes the pattern.
        let fill = unsafe { fill(pointer, pattern, pattern_size, size) }?;
        enqueue(&command, CL_COMMAND_MEMFILL_INTEL, CL_FALSE, fill)
    })
}

#[unsafe(export_name = "clEnqueueMemsetINTEL")]
pub(crate) unsafe extern "C" fn enqueue_memset(
    queue: cl_command_queue,
    pointer: *mut c_void,
    value: cl_int,
    size: usize,
    count: cl_uint,
    events: *const cl_event,
    event: *mut cl_event,
) -> cl_int {
    // As C's function of this name has it.
    let byte = value as u8;
    let pattern = std::ptr::from_ref(&byte).cast();
    // SAFETY: the pattern is one byte; the rest as the program promises.
    unsafe { enqueue_mem_fill(queue, pointer, pattern, 1, size, count, events, event) }
}

#[unsafe(export_name = "clEnqueueMigrateMemINTEL")]
pub(crate) unsafe extern "C" fn enqueue_migrate_mem(
    queue: cl_command_queue,
    _pointer: *const c_void,
    _size: usize,
    flags: cl_mem_migration_flags,
    count: cl_uint,
    events: *const cl_event,
    event: *mut cl_event,
) -> cl_int {
    entry(|| {
        let queue = Ref::<Queue>::of(queue)?;
        const KNOWN: cl_mem_migration_flags =
            CL_MIGRATE_MEM_OBJECT_HOST | CL_MIGRATE_MEM_OBJECT_CONTENT_UNDEFINED;
        ensure(flags & !KNOWN == 0, CL_INVALID_VALUE)?;
        // SAFETY: as the program promises.
        let command = unsafe { Command::new(&queue, count, events, event) }?;
        // It is everywhere already.
        enqueue(&command, CL_COMMAND_MIGRATEMEM_INTEL, CL_FALSE, || {})
    })
}

#[unsafe(export_name = "clEnqueueMemAdviseINTEL")]
pub(crate) unsafe extern "C" fn enqueue_mem_advise(
    queue: cl_command_queue,
    _pointer: *const c_void,
    _size: usize,
    _advice: cl_mem_advice_intel,
    count: cl_uint,
    events: *const cl_event,
    event: *mut cl_event,
) -> cl_int {
    entry(|| {
        let queue = Ref::<Queue>::of(queue)?;
        // SAFETY: as the program promises.
        let command = unsafe { Command::new(&queue, count, events, event) }?;
        enqueue(&command, CL_COMMAND_MEMADVISE_INTEL, CL_FALSE, || {})
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::code::Code;

    #[test]
    fn flags_are_checked() {
        let said = |list: &[cl_mem_properties_intel], is_shared| {
            // SAFETY: each list ends with a zero.
            unsafe { flags(list.as_ptr(), is_shared) }
        };
        let (device, host) = (
            CL_MEM_ALLOC_INITIAL_PLACEMENT_DEVICE_INTEL,
            CL_MEM_ALLOC_INITIAL_PLACEMENT_HOST_INTEL,
        );
        let refused = Err(Code(CL_INVALID_PROPERTY));
        assert_eq!(said(&[0], false), Ok(0));
        assert_eq!(said(&[CL_MEM_ALLOC_FLAGS_INTEL, 1, 0], false), Ok(1));
        assert_eq!(
            said(&[CL_MEM_ALLOC_FLAGS_INTEL, device, 0], true),
            Ok(device)
        );
        assert_eq!(said(&[CL_MEM_ALLOC_FLAGS_INTEL, device, 0], false), refused);
        let both = [CL_MEM_ALLOC_FLAGS_INTEL, device | host, 0];
        assert_eq!(said(&both, true), refused);
        assert_eq!(said(&[7, 1, 0], true), refused);
        let twice = [CL_MEM_ALLOC_FLAGS_INTEL, 1, CL_MEM_ALLOC_FLAGS_INTEL, 1, 0];
        assert_eq!(said(&twice, true), refused);
    }
}
