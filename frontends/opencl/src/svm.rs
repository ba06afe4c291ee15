//! Shared virtual memory, on devices that work in the host's memory.
//!
//! There every address means the same to the host and to kernels, whoever allocated it. So shared
//! memory is memory, and mapping it is only an order. A command's accesses to it are not tracked:
//! such a command is a full barrier of an in-order queue.

use crate::code::{Code, Result, ensure, entry, fail, list};
use crate::context::Context;
use crate::device::Device;
use crate::enqueue::{Command, check_flags};
use crate::handle::{Ref, release};
use crate::kernel::{Kernel, Reach};
use crate::platform::is_on_host;
use crate::queue::Queue;
use opencl_sys::*;
use quipu_scheduler::operation::Fill;
use quipu_scheduler::{RawArgument, Request};
use std::alloc::Layout;
use std::collections::BTreeMap;
use std::ffi::c_void;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// `CL_DEVICE_SVM_CAPABILITIES`: devices that work in other memory than the host's have none.
/// Atomic operations of a kernel are those of the processor, and so the host sees them as they are,
/// if the kernel's language has them.
pub(crate) fn capabilities(device: &Device) -> cl_device_svm_capabilities {
    let memory = CL_DEVICE_SVM_COARSE_GRAIN_BUFFER
        | CL_DEVICE_SVM_FINE_GRAIN_BUFFER
        | CL_DEVICE_SVM_FINE_GRAIN_SYSTEM;
    match (
        is_on_host(&device.core),
        device.features().optional_language,
    ) {
        (false, _) => 0,
        (true, false) => memory,
        (true, true) => memory | CL_DEVICE_SVM_ATOMICS,
    }
}

/// The size of the largest vector: the alignment of shared memory if none is asked for, and the
/// longest pattern of a fill.
const ALIGNMENT: usize = 128;

/// The purpose for which an allocation was asked for.
#[derive(Clone)]
pub(crate) enum Purpose {
    /// Shared virtual memory.
    Shared,
    /// Unified shared memory: its type, the device that it belongs to, and the flags, as the
    /// program said them.
    Unified(
        cl_unified_shared_memory_type_intel,
        Option<Ref<Device>>,
        cl_mem_alloc_flags_intel,
    ),
}

/// Memory of a context that programs know by its address.
#[derive(Clone)]
pub(crate) struct Block {
    layout: Layout,
    pub(crate) purpose: Purpose,
}

impl Block {
    /// Bytes.
    pub(crate) fn size(&self) -> usize {
        self.layout.size()
    }
}

/// The shared memory of a context, by its addresses.
#[derive(Default)]
pub(crate) struct Shared(Mutex<BTreeMap<usize, Block>>);

impl Shared {
    fn known(&self) -> MutexGuard<'_, BTreeMap<usize, Block>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Allocates so many bytes, which are not none. An alignment of zero is that of the largest
    /// vector. Programs also ask for more, such as that of pages.
    pub(crate) fn allocate(
        &self,
        size: usize,
        alignment: cl_uint,
        purpose: Purpose,
    ) -> Result<*mut c_void> {
        let alignment = match alignment {
            0 => ALIGNMENT,
            asked => asked as usize,
        };
        ensure(size != 0 && alignment.is_power_of_two(), CL_INVALID_VALUE)?;
        let layout = Layout::from_size_align(size, alignment);
        let layout = layout.map_err(|_| Code(CL_INVALID_VALUE))?;
        // SAFETY: the layout has a size.
        let pointer = unsafe { std::alloc::alloc(layout) };
        ensure(!pointer.is_null(), CL_OUT_OF_HOST_MEMORY)?;
        let block = Block { layout, purpose };
        self.known().insert(pointer.expose_provenance(), block);
        Ok(pointer.cast())
    }

    /// Frees memory that was allocated here; nothing else. True if it was.
    pub(crate) fn free(&self, pointer: *mut c_void) -> bool {
        let Some(block) = self.known().remove(&pointer.addr()) else {
            return false;
        };
        // SAFETY: it was allocated with this layout, and is freed once.
        unsafe { std::alloc::dealloc(pointer.cast(), block.layout) };
        true
    }

    /// The allocation that an address is within, and its first byte.
    pub(crate) fn block(&self, pointer: *const c_void) -> Option<(usize, Block)> {
        let known = self.known();
        let (first, block) = known.range(..=pointer.addr()).next_back()?;
        (pointer.addr() < first + block.size()).then(|| (*first, block.clone()))
    }

    /// True if an address is within shared memory of the context.
    pub(crate) fn has(&self, pointer: *const c_void) -> bool {
        self.block(pointer).is_some()
    }

    /// The number of bytes of shared memory from an address on; none if it is not within any.
    pub(crate) fn bytes_from(&self, pointer: *const c_void) -> Option<usize> {
        let (first, block) = self.block(pointer)?;
        Some(first + block.size() - pointer.addr())
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        let known = std::mem::take(self.0.get_mut().unwrap_or_else(PoisonError::into_inner));
        for (address, block) in known {
            let pointer = std::ptr::with_exposed_provenance_mut(address);
            // SAFETY: it was allocated with this layout, and not freed; no command of the context
            // is left.
            unsafe { std::alloc::dealloc(pointer, block.layout) };
        }
    }
}

#[unsafe(export_name = "clSVMAlloc")]
pub(crate) unsafe extern "C" fn svm_alloc(
    context: cl_context,
    flags: cl_svm_mem_flags,
    size: usize,
    alignment: cl_uint,
) -> *mut c_void {
    let body = || {
        let context = Ref::<Context>::of(context)?;
        const ACCESS: cl_svm_mem_flags = CL_MEM_READ_WRITE | CL_MEM_WRITE_ONLY | CL_MEM_READ_ONLY;
        const KNOWN: cl_svm_mem_flags = ACCESS | CL_MEM_SVM_FINE_GRAIN_BUFFER | CL_MEM_SVM_ATOMICS;
        let with_atomics = flags & CL_MEM_SVM_ATOMICS != 0;
        ensure(
            flags & !KNOWN == 0
                && (flags & ACCESS).count_ones() <= 1
                && (!with_atomics || flags & CL_MEM_SVM_FINE_GRAIN_BUFFER != 0),
            CL_INVALID_VALUE,
        )?;
        let least = match with_atomics {
            true => CL_DEVICE_SVM_ATOMICS,
            false => CL_DEVICE_SVM_COARSE_GRAIN_BUFFER,
        };
        let mut devices = context.devices.iter();
        let fits = devices.any(|device| {
            capabilities(device) & least != 0 && size as u64 <= device.largest_buffer()
        });
        ensure(fits, CL_INVALID_VALUE)?;
        context.shared.allocate(size, alignment, Purpose::Shared)
    };
    // SAFETY: no code is asked for.
    unsafe { crate::code::create(std::ptr::null_mut(), body) }
}

#[unsafe(export_name = "clSVMFree")]
pub(crate) unsafe extern "C" fn svm_free(context: cl_context, pointer: *mut c_void) {
    let _ = entry(|| {
        Ref::<Context>::of(context)?.shared.free(pointer);
        Ok(())
    });
}

/// Addresses that a command is given.
struct Addresses(Vec<usize>);

impl Addresses {
    fn of(pointers: &[*mut c_void]) -> Self {
        Self(
            pointers
                .iter()
                .map(|pointer| pointer.expose_provenance())
                .collect(),
        )
    }

    fn pointer(&self, at: usize) -> *mut c_void {
        std::ptr::with_exposed_provenance_mut(self.0[at])
    }
}

/// Enqueues a function of the host's that uses shared memory.
pub(crate) fn enqueue(
    command: &Command<'_>,
    kind: cl_command_type,
    blocking: cl_bool,
    task: impl FnOnce() + Send + 'static,
) -> Result<()> {
    ensure(is_on_host(&command.queue.device.core), CL_INVALID_OPERATION)?;
    let task = move |_: &[RawArgument]| {
        task();
        Ok(())
    };
    let core = command.enqueue(|waits| {
        let request = Request {
            waits,
            unknown_access: true,
            ..Request::default()
        };
        Ok(command.queue.core.host_task(task, &request)?)
    })?;
    command.give_and_wait(core, kind, blocking)
}

/// A function that frees memory in the library's place.
type Freeing =
    Option<unsafe extern "C" fn(cl_command_queue, cl_uint, *mut *mut c_void, *mut c_void)>;

#[unsafe(export_name = "clEnqueueSVMFree")]
pub(crate) unsafe extern "C" fn enqueue_svm_free(
    queue: cl_command_queue,
    pointers: cl_uint,
    first: *mut *mut c_void,
    free: Freeing,
    data: *mut c_void,
    count: cl_uint,
    events: *const cl_event,
    event: *mut cl_event,
) -> cl_int {
    entry(|| {
        let queue = Ref::<Queue>::of(queue)?;
        // SAFETY: the program passes so many addresses.
        let pointers = unsafe { list(pointers as usize, first) };
        let pointers = pointers.ok_or(Code(CL_INVALID_VALUE))?;
        // SAFETY: as the program promises.
        let command = unsafe { Command::new(&queue, count, events, event) }?;
        let (addresses, data) = (Addresses::of(pointers), Addresses::of(&[data]));
        let of = queue.clone();
        enqueue(&command, CL_COMMAND_SVM_FREE, CL_FALSE, move || {
            let mut pointers: Vec<_> = (0..addresses.0.len())
                .map(|at| addresses.pointer(at))
                .collect();
            let Some(free) = free else {
                pointers
                    .into_iter()
                    .for_each(|pointer| _ = of.context.shared.free(pointer));
                return;
            };
            // The program may have released its last reference. Until the call is over there is one
            // more.
            let handle = of.give();
            // SAFETY: the program gave the function to be called so.
            unsafe {
                free(
                    handle,
                    pointers.len() as cl_uint,
                    pointers.as_mut_ptr(),
                    data.pointer(0),
                )
            };
            let _ = release::<Queue>(handle);
        })
    })
}

#[unsafe(export_name = "clEnqueueSVMMemcpy")]
pub(crate) unsafe extern "C" fn enqueue_svm_memcpy(
    queue: cl_command_queue,
    blocking: cl_bool,
    destination: *mut c_void,
    source: *const c_void,
    size: usize,
    count: cl_uint,
    events: *const cl_event,
    event: *mut cl_event,
) -> cl_int {
    let kind = CL_COMMAND_SVM_MEMCPY;
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

/// Enqueues a copy of so many bytes, as a command of a kind.
///
/// # Safety
/// The program lends so many bytes of each until the command is over. The list has so many handles;
/// `event` is null or valid for a write.
pub(crate) unsafe fn enqueue_copy(
    kind: cl_command_type,
    queue: cl_command_queue,
    blocking: cl_bool,
    destination: *mut c_void,
    source: *const c_void,
    size: usize,
    count: cl_uint,
    events: *const cl_event,
    event: *mut cl_event,
) -> cl_int {
    entry(|| {
        let queue = Ref::<Queue>::of(queue)?;
        // SAFETY: as the caller promises.
        let command = unsafe { Command::new(&queue, count, events, event) }?;
        // SAFETY: as the caller promises.
        let copy = unsafe { copy(destination, source, size) }?;
        enqueue(&command, kind, blocking, copy)
    })
}

/// A function that copies so many bytes.
///
/// # Safety
/// They are valid for it whenever it is called.
pub(crate) unsafe fn copy(
    destination: *mut c_void,
    source: *const c_void,
    size: usize,
) -> Result<impl Fn() + Send + Sync + 'static> {
    ensure(
        !destination.is_null() && !source.is_null(),
        CL_INVALID_VALUE,
    )?;
    let apart = destination.addr().abs_diff(source.addr());
    ensure(apart >= size, CL_MEM_COPY_OVERLAP)?;
    let addresses = Addresses::of(&[destination, source.cast_mut()]);
    Ok(move || {
        let (to, from) = (
            addresses.pointer(0).cast::<u8>(),
            addresses.pointer(1).cast::<u8>(),
        );
        // SAFETY: as the caller promises; they do not overlap, as was just compared.
        unsafe { to.copy_from_nonoverlapping(from, size) };
    })
}

/// A function that fills so many bytes with a pattern, of which `pattern_size` bytes are read now.
///
/// # Safety
/// The bytes are valid for it whenever it is called, and those of the pattern now.
pub(crate) unsafe fn fill(
    pointer: *mut c_void,
    pattern: *const c_void,
    pattern_size: usize,
    size: usize,
) -> Result<impl Fn() + Send + Sync + 'static> {
    ensure(
        !pointer.is_null()
            && !pattern.is_null()
            && pattern_size.is_power_of_two()
            && pattern_size <= ALIGNMENT
            && pointer.addr().is_multiple_of(pattern_size)
            && size.is_multiple_of(pattern_size),
        CL_INVALID_VALUE,
    )?;
    // SAFETY: as the caller promises.
    let pattern = unsafe { std::slice::from_raw_parts(pattern.cast::<u8>(), pattern_size) };
    let pattern = pattern.to_vec();
    let short = Fill::new(&pattern);
    let addresses = Addresses::of(&[pointer]);
    Ok(move || {
        let pointer = addresses.pointer(0).cast::<u8>();
        match &short {
            // SAFETY: the bytes are valid when this is called: the contract of `fill`.
            Some(fill) => unsafe {
                fill.fill(RawArgument {
                    pointer,
                    length: size,
                })
            },
            // SAFETY: the bytes are valid when this is called: the contract of `fill`. The
            // pattern's size divides theirs.
            None => unsafe { repeat(pointer, &pattern, size) },
        }
    })
}

/// Bytes that are copied from when a long pattern is repeated: a part of a processor's first cache.
const REPEATED: usize = 16 << 10;

/// Fills so many bytes with a pattern, with copies of ever more of them.
///
/// # Safety
/// The bytes are valid for it, and as many as the pattern or more.
unsafe fn repeat(pointer: *mut u8, pattern: &[u8], size: usize) {
    let mut filled = pattern.len().min(size);
    // SAFETY: as the caller promises.
    unsafe { pointer.copy_from_nonoverlapping(pattern.as_ptr(), filled) };
    while filled < size {
        // A whole number of patterns, for `REPEATED` is a multiple of the longest.
        let next = filled.min(REPEATED).min(size - filled);
        // SAFETY: as many bytes are filled, and as many are left.
        unsafe {
            pointer.add(filled).copy_from_nonoverlapping(pointer, next);
        }
        filled += next;
    }
}

#[unsafe(export_name = "clEnqueueSVMMemFill")]
pub(crate) unsafe extern "C" fn enqueue_svm_mem_fill(
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
        enqueue(&command, CL_COMMAND_SVM_MEMFILL, CL_FALSE, fill)
    })
}

#[unsafe(export_name = "clEnqueueSVMMap")]
pub(crate) unsafe extern "C" fn enqueue_svm_map(
    queue: cl_command_queue,
    blocking: cl_bool,
    flags: cl_map_flags,
    pointer: *mut c_void,
    size: usize,
    count: cl_uint,
    events: *const cl_event,
    event: *mut cl_event,
) -> cl_int {
    entry(|| {
        let queue = Ref::<Queue>::of(queue)?;
        ensure(!pointer.is_null() && size != 0, CL_INVALID_VALUE)?;
        check_flags(flags)?;
        // SAFETY: as the program promises.
        let command = unsafe { Command::new(&queue, count, events, event) }?;
        enqueue(&command, CL_COMMAND_SVM_MAP, blocking, || {})
    })
}

#[unsafe(export_name = "clEnqueueSVMUnmap")]
pub(crate) unsafe extern "C" fn enqueue_svm_unmap(
    queue: cl_command_queue,
    pointer: *mut c_void,
    count: cl_uint,
    events: *const cl_event,
    event: *mut cl_event,
) -> cl_int {
    entry(|| {
        let queue = Ref::<Queue>::of(queue)?;
        ensure(!pointer.is_null(), CL_INVALID_VALUE)?;
        // SAFETY: as the program promises.
        let command = unsafe { Command::new(&queue, count, events, event) }?;
        enqueue(&command, CL_COMMAND_SVM_UNMAP, CL_FALSE, || {})
    })
}

#[unsafe(export_name = "clEnqueueSVMMigrateMem")]
pub(crate) unsafe extern "C" fn enqueue_svm_migrate_mem(
    queue: cl_command_queue,
    pointers: cl_uint,
    first: *mut *const c_void,
    sizes: *const usize,
    flags: cl_mem_migration_flags,
    count: cl_uint,
    events: *const cl_event,
    event: *mut cl_event,
) -> cl_int {
    entry(|| {
        let queue = Ref::<Queue>::of(queue)?;
        // No address is shared where no memory is.
        ensure(is_on_host(&queue.device.core), CL_INVALID_OPERATION)?;
        const KNOWN: cl_mem_migration_flags =
            CL_MIGRATE_MEM_OBJECT_HOST | CL_MIGRATE_MEM_OBJECT_CONTENT_UNDEFINED;
        ensure(
            pointers != 0 && !first.is_null() && flags & !KNOWN == 0,
            CL_INVALID_VALUE,
        )?;
        // SAFETY: the program passes so many addresses.
        let pointers = unsafe { list(pointers as usize, first) }.unwrap_or_default();
        let is_known = |(number, pointer): (usize, &*const c_void)| {
            let size = match sizes.is_null() {
                true => 0,
                // SAFETY: the program passes as many sizes as addresses, or none.
                false => unsafe { sizes.add(number).read() },
            };
            let within = queue.context.shared.bytes_from(*pointer);
            // A size of zero means the whole allocation.
            within.is_some_and(|within| size <= within)
        };
        ensure(pointers.iter().enumerate().all(is_known), CL_INVALID_VALUE)?;
        // SAFETY: as the program promises.
        let command = unsafe { Command::new(&queue, count, events, event) }?;
        // It is everywhere already.
        enqueue(&command, CL_COMMAND_SVM_MIGRATE_MEM, CL_FALSE, || {})
    })
}

#[unsafe(export_name = "clSetKernelArgSVMPointer")]
pub(crate) unsafe extern "C" fn set_kernel_arg_svm_pointer(
    kernel: cl_kernel,
    index: cl_uint,
    value: *const c_void,
) -> cl_int {
    entry(|| {
        let kernel = Ref::<Kernel>::of(kernel)?;
        let argument = kernel.address_argument(index, value)?;
        kernel.set(index, argument);
        Ok(())
    })
}

/// The memory that a program says that a kernel reaches by pointers, and whether it does.
///
/// # Safety
/// The pointer is null, or valid for reads of so many bytes.
pub(crate) unsafe fn reach(
    kernel: &Kernel,
    name: cl_kernel_exec_info,
    size: usize,
    value: *const c_void,
) -> Result<(Reach, bool)> {
    ensure(kernel.context().shares_memory, CL_INVALID_OPERATION)?;
    let reach = match name {
        CL_KERNEL_EXEC_INFO_SVM_PTRS => Reach::SharedPointers,
        CL_KERNEL_EXEC_INFO_USM_PTRS_INTEL => Reach::UnifiedPointers,
        CL_KERNEL_EXEC_INFO_DEVICE_PTRS_EXT => Reach::BuffersByAddress,
        CL_KERNEL_EXEC_INFO_SVM_FINE_GRAIN_SYSTEM => Reach::SystemMemory,
        CL_KERNEL_EXEC_INFO_INDIRECT_HOST_ACCESS_INTEL => Reach::HostMemory,
        CL_KERNEL_EXEC_INFO_INDIRECT_DEVICE_ACCESS_INTEL => Reach::DeviceMemory,
        CL_KERNEL_EXEC_INFO_INDIRECT_SHARED_ACCESS_INTEL => Reach::SharedMemory,
        _ => return fail(CL_INVALID_VALUE),
    };
    ensure(value.is_null() == (size == 0), CL_INVALID_VALUE)?;
    let is_list = |reach| {
        use Reach::*;
        matches!(reach, SharedPointers | UnifiedPointers | BuffersByAddress)
    };
    if is_list(reach) {
        // No pointers are an empty list of them.
        let one = match reach {
            Reach::BuffersByAddress => size_of::<cl_mem_device_address_ext>(),
            _ => size_of::<*mut c_void>(),
        };
        ensure(size.is_multiple_of(one), CL_INVALID_VALUE)?;
        return Ok((reach, size != 0));
    }
    ensure(size == size_of::<cl_bool>(), CL_INVALID_VALUE)?;
    // SAFETY: the value is a `cl_bool`, as its size says: the contract of `reach`.
    let reaches = unsafe { value.cast::<cl_bool>().read_unaligned() };
    Ok((reach, reaches != CL_FALSE))
}

#[unsafe(export_name = "clSetKernelExecInfo")]
pub(crate) unsafe extern "C" fn set_kernel_exec_info(
    kernel: cl_kernel,
    name: cl_kernel_exec_info,
    size: usize,
    value: *const c_void,
) -> cl_int {
    entry(|| {
        let kernel = Ref::<Kernel>::of(kernel)?;
        // SAFETY: as the program promises.
        let (reach, reaches) = unsafe { reach(&kernel, name, size, value) }?;
        kernel.set_reach(reach, reaches);
        Ok(())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fill_repeats_its_pattern_and_touches_nothing_else() {
        for pattern_size in [1_usize, 2, 4, 8, 16, 32, 64, 128] {
            let pattern: Vec<u8> = (1..=pattern_size as u8).collect();
            for patterns in [0, 1, 2, 3, 100, 3 * REPEATED / pattern_size + 1] {
                let size = patterns * pattern_size;
                let layout = Layout::from_size_align(size + ALIGNMENT, ALIGNMENT).unwrap();
                // SAFETY: the layout has a size; the memory is filled, read and freed once.
                unsafe {
                    let memory = std::alloc::alloc_zeroed(layout);
                    fill(memory.cast(), pattern.as_ptr().cast(), pattern_size, size).unwrap()();
                    let bytes = std::slice::from_raw_parts(memory, layout.size());
                    assert!(bytes[..size].chunks(pattern_size).all(|one| one == pattern));
                    assert!(bytes[size..].iter().all(|byte| *byte == 0));
                    std::alloc::dealloc(memory, layout);
                }
            }
        }
    }
}
