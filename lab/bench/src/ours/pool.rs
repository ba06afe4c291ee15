//! A pool of workers with a context over it, and the few things that all benchmarks do with it.

use std::num::NonZero;
use std::sync::Arc;

use quipu_driver_cpu::{CpuDriver, Options};
use quipu_scheduler::operation::HostMemory;
use quipu_scheduler::{
    Access, AccessMode, Context, Device, Driver, Event, MemoryRef, Queue, QueueOptions, RawArgument,
};

use crate::error::SubjectError;

/// Turns the core's error into the subject's; `what` says which step failed.
pub(crate) fn failed(what: &'static str) -> impl Fn(quipu_scheduler::Error) -> SubjectError {
    move |error| SubjectError::failed(what, error)
}

/// A pool of so many workers. Clones are the same pool.
#[derive(Clone)]
pub(crate) struct Pool {
    context: Context,
    device: Device,
}

impl Pool {
    /// Starts the workers.
    pub(crate) fn start(workers: usize) -> Result<Self, SubjectError> {
        let count = NonZero::new(workers)
            .ok_or_else(|| SubjectError::failed("starting a pool", "it needs a worker"))?;
        let start = || -> quipu_scheduler::Result<(Context, Vec<Device>)> {
            let driver: Arc<dyn Driver> = CpuDriver::start(Options::new().workers(count))?;
            let devices = Device::all_of(&driver)?;
            Ok((Context::new(&devices)?, devices))
        };
        let (context, devices) = start().map_err(failed("starting a pool"))?;
        let device = devices.into_iter().next();
        let device = device
            .ok_or_else(|| SubjectError::failed("starting a pool", "its driver has no device"))?;
        Ok(Pool { context, device })
    }

    /// The context.
    pub(crate) fn context(&self) -> &Context {
        &self.context
    }

    /// A new queue.
    pub(crate) fn queue(&self, in_order: bool) -> Result<Queue, SubjectError> {
        let options = QueueOptions {
            in_order,
            ..QueueOptions::default()
        };
        self.context
            .queue(&self.device, options)
            .map_err(failed("making a queue"))
    }

    /// A new buffer of so many elements, zeroed.
    pub(crate) fn buffer<T>(&self, elements: usize) -> Result<MemoryRef, SubjectError> {
        let bytes = elements as u64 * size_of::<T>() as u64;
        self.context
            .memory(bytes)
            .map_err(failed("making a buffer"))
    }
}

/// Elements that are any bytes, and whose bytes may be anything.
pub(crate) trait Plain: Copy + Default {}
impl Plain for f32 {}
impl Plain for f64 {}
impl Plain for i64 {}

/// An argument's elements, to read.
///
/// # Safety
/// As for a kernel's run: the argument is one that its command reads; and it is a buffer of `T`.
#[inline]
pub(crate) unsafe fn elements<'a, T: Plain>(argument: &RawArgument) -> &'a [T] {
    // SAFETY: the core resolved the argument; hazards keep writers away. Buffers are aligned to 64
    // bytes.
    unsafe { std::slice::from_raw_parts(argument.pointer.cast(), argument.length / size_of::<T>()) }
}

/// Some of an argument's elements, to write.
///
/// # Safety
/// As for a kernel's run: the argument is one that its command writes; it is a buffer of `T`; the
/// range lies within it; and no other call is given any of it meanwhile.
#[inline]
pub(crate) unsafe fn part_mut<'a, T: Plain>(
    argument: &RawArgument,
    start: usize,
    length: usize,
) -> &'a mut [T] {
    debug_assert!((start + length) * size_of::<T>() <= argument.length);
    // SAFETY: as the caller promises, and as for `elements`.
    unsafe { std::slice::from_raw_parts_mut(argument.pointer.cast::<T>().add(start), length) }
}

/// Enqueues a write of all of a buffer, behind `waits`. The elements stay where they are,
/// unchanged, until the command is over.
///
/// # Safety
/// As that says.
pub(crate) unsafe fn write<T: Plain>(
    queue: &Queue,
    memory: &MemoryRef,
    elements: &[T],
    waits: &[Event],
) -> Result<Event, SubjectError> {
    // SAFETY: as the caller promises; a write only reads.
    let source = unsafe {
        HostMemory::new(
            elements.as_ptr().cast_mut().cast(),
            size_of_val(elements),
            None,
        )
    };
    let destination = Access::whole(memory, AccessMode::Overwrite);
    queue
        .write(source, destination, memory.size(), &[], waits)
        .map_err(failed("writing a buffer"))
}

/// Writes all of a buffer and waits for it.
pub(crate) fn upload<T: Plain>(
    queue: &Queue,
    memory: &MemoryRef,
    elements: &[T],
) -> Result<(), SubjectError> {
    // SAFETY: the elements are borrowed until the wait returns. From outside of a pool it does not
    // return before.
    let event = unsafe { write(queue, memory, elements, &[]) }?;
    event.wait().map_err(failed("writing a buffer"))
}

/// Reads all of a buffer and waits for it.
pub(crate) fn download<T: Plain>(
    queue: &Queue,
    memory: &MemoryRef,
) -> Result<Vec<T>, SubjectError> {
    let mut elements = vec![T::default(); memory.size() as usize / size_of::<T>()];
    let bytes = size_of_val(elements.as_slice());
    // SAFETY: as for `upload`; and nobody looks at the elements meanwhile.
    let destination = unsafe { HostMemory::new(elements.as_mut_ptr().cast(), bytes, None) };
    let source = Access::whole(memory, AccessMode::Read);
    queue
        .read(source, destination, memory.size(), &[], &[])
        .and_then(|event| event.wait())
        .map_err(failed("reading a buffer"))?;
    Ok(elements)
}
