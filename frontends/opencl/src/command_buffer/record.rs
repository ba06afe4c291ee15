//! Recording commands into a command buffer.

use super::update::{ASSERTS_OF_KERNEL, Dispatch};
use super::{CommandBuffer, MutableCommand, Recorded};
use crate::code::{Code, Result, ensure, entry, fail, list};
use crate::context::pairs;
use crate::enqueue::{Copy, Fill, ImageFill, Shape};
use crate::handle::Ref;
use crate::kernel::Kernel;
use crate::platform::is_on_host;
use crate::queue::Queue;
use crate::svm;
use opencl_sys::*;
use quipu_scheduler::graph::{Node, NodeRequest, Recording};
use smallvec::SmallVec;
use std::ffi::c_void;
use std::sync::Arc;

/// The work of a command.
#[derive(Clone)]
pub(super) enum Work {
    Barrier,
    Copy(Copy),
    Fill(Fill),
    FillImage(ImageFill),
    /// A function of the host's that uses shared memory.
    Host(Arc<dyn Fn() + Send + Sync>),
    Dispatch(Box<Dispatch>),
}

impl Work {
    /// True if all of its arguments are set.
    pub(super) fn is_complete(&self) -> bool {
        match self {
            Self::Dispatch(dispatch) => dispatch.is_complete(),
            _ => true,
        }
    }

    /// The queue is another one, maybe of another device.
    pub(super) fn move_to(&mut self, queue: &Ref<Queue>) -> Result<()> {
        match self {
            Self::Dispatch(dispatch) => dispatch.prepare(queue),
            _ => Ok(()),
        }
    }

    pub(super) fn record(
        &self,
        recording: &Recording,
        queue: &Queue,
        after: &[Node],
    ) -> Result<Node> {
        match self {
            Self::Barrier => Ok(recording.barrier(&queue.core, after)?),
            Self::Copy(copy) => copy.record(recording, queue, after),
            Self::Fill(fill) => fill.record(recording, queue, after),
            Self::FillImage(fill) => fill.record(recording, queue, after),
            Self::Host(task) => {
                let request = NodeRequest {
                    after,
                    unknown_access: true,
                    ..NodeRequest::default()
                };
                let task = task.clone();
                let task = move |_: &[_]| {
                    task();
                    Ok(())
                };
                Ok(recording.host_task(&queue.core, task, &request)?)
            }
            Self::Dispatch(dispatch) => dispatch.record(recording, queue, after),
        }
    }
}

/// The arguments of every function that records a command.
struct Passed {
    buffer: cl_command_buffer_khr,
    queue: cl_command_queue,
    properties: *const cl_command_properties_khr,
    count: cl_uint,
    points: *const cl_sync_point_khr,
    point: *mut cl_sync_point_khr,
    handle: *mut cl_mutable_command_khr,
}

impl Passed {
    /// Records a command that takes no properties and has no handle.
    ///
    /// # Safety
    /// The list of properties ends with a zero or is null; there are so many points; where the
    /// point goes is null or valid for a write.
    unsafe fn append(self, make: impl FnOnce(&Ref<Queue>) -> Result<Work>) -> cl_int {
        entry(|| {
            let (buffer, place) = self.begin()?;
            // SAFETY: as the caller promises.
            let (pairs, _) = unsafe { pairs(self.properties) };
            ensure(pairs.is_empty() && self.handle.is_null(), CL_INVALID_VALUE)?;
            let work = make(&buffer.queues[place])?;
            // SAFETY: as the caller promises.
            unsafe { self.finish(&buffer, place, work) }
        })
    }

    /// The command buffer, and the queue that is meant, by its place.
    fn begin(&self) -> Result<(Ref<CommandBuffer>, usize)> {
        let buffer = Ref::<CommandBuffer>::of(self.buffer)?;
        ensure(!buffer.state().is_finalized, CL_INVALID_OPERATION)?;
        let place = match self.queue.is_null() {
            true if buffer.queues.len() == 1 => Some(0),
            true => None,
            false => {
                let mut queues = buffer.queues.iter();
                queues.position(|queue| queue.handle() == self.queue)
            }
        };
        Ok((buffer, place.ok_or(Code(CL_INVALID_COMMAND_QUEUE))?))
    }

    /// # Safety
    /// As [`append`](Self::append).
    unsafe fn finish(&self, buffer: &Ref<CommandBuffer>, queue: usize, work: Work) -> Result<()> {
        if work.is_complete() {
            // What the core refuses is refused now, and not as the buffer is finalised.
            let trial = Recording::new(&buffer.context.core);
            work.record(&trial, &buffer.queues[queue], &[])?;
        }
        let mut state = buffer.state();
        ensure(!state.is_finalized, CL_INVALID_OPERATION)?;
        let next = state.commands.len();
        // SAFETY: as the caller promises.
        let points = unsafe { list(self.count as usize, self.points) };
        let points = points.ok_or(Code(CL_INVALID_SYNC_POINT_WAIT_LIST_KHR))?;
        let known = |point: &cl_sync_point_khr| (1..=next).contains(&(*point as usize));
        ensure(
            points.iter().all(known),
            CL_INVALID_SYNC_POINT_WAIT_LIST_KHR,
        )?;
        let number = cl_uint::try_from(next + 1).map_err(|_| Code(CL_OUT_OF_RESOURCES))?;
        let mut handle = 0;
        if !self.handle.is_null() {
            let given = MutableCommand::give(buffer.handle(), next)?;
            handle = given.expose_provenance();
            // SAFETY: the program passes where the handle goes.
            unsafe { self.handle.write(given) };
        }
        // A point is the place of its command, counted from one.
        let after: SmallVec<[u32; 4]> = points.iter().map(|point| point - 1).collect();
        state.commands.push(Recorded {
            queue,
            after,
            work,
            handle,
        });
        if !self.point.is_null() {
            // SAFETY: where the point goes is null or valid for a write: the contract of `finish`.
            unsafe { self.point.write(number) };
        }
        Ok(())
    }
}

#[unsafe(export_name = "clCommandBarrierWithWaitListKHR")]
pub(crate) unsafe extern "C" fn command_barrier_with_wait_list(
    buffer: cl_command_buffer_khr,
    queue: cl_command_queue,
    properties: *const cl_command_properties_khr,
    count: cl_uint,
    points: *const cl_sync_point_khr,
    point: *mut cl_sync_point_khr,
    handle: *mut cl_mutable_command_khr,
) -> cl_int {
    let passed = Passed {
        buffer,
        queue,
        properties,
        count,
        points,
        point,
        handle,
    };
    // SAFETY: as the program promises.
    unsafe { passed.append(|_| Ok(Work::Barrier)) }
}

#[unsafe(export_name = "clCommandCopyBufferKHR")]
pub(crate) unsafe extern "C" fn command_copy_buffer(
    buffer: cl_command_buffer_khr,
    queue: cl_command_queue,
    properties: *const cl_command_properties_khr,
    source: cl_mem,
    destination: cl_mem,
    source_offset: usize,
    destination_offset: usize,
    size: usize,
    count: cl_uint,
    points: *const cl_sync_point_khr,
    point: *mut cl_sync_point_khr,
    handle: *mut cl_mutable_command_khr,
) -> cl_int {
    let passed = Passed {
        buffer,
        queue,
        properties,
        count,
        points,
        point,
        handle,
    };
    let make = |queue: &Ref<Queue>| {
        let (from, to) = (source_offset, destination_offset);
        let copy = Copy::of_range(queue, source, destination, from, to, size)?;
        Ok(Work::Copy(copy))
    };
    // SAFETY: as the program promises.
    unsafe { passed.append(make) }
}

#[unsafe(export_name = "clCommandCopyBufferRectKHR")]
pub(crate) unsafe extern "C" fn command_copy_buffer_rect(
    buffer: cl_command_buffer_khr,
    queue: cl_command_queue,
    properties: *const cl_command_properties_khr,
    source: cl_mem,
    destination: cl_mem,
    source_origin: *const usize,
    destination_origin: *const usize,
    region: *const usize,
    source_row_pitch: usize,
    source_slice_pitch: usize,
    destination_row_pitch: usize,
    destination_slice_pitch: usize,
    count: cl_uint,
    points: *const cl_sync_point_khr,
    point: *mut cl_sync_point_khr,
    handle: *mut cl_mutable_command_khr,
) -> cl_int {
    let passed = Passed {
        buffer,
        queue,
        properties,
        count,
        points,
        point,
        handle,
    };
    let make = |queue: &Ref<Queue>| {
        // SAFETY: the program passes three numbers each.
        let copy = unsafe {
            Copy::of_rectangle(
                queue,
                (source, destination),
                (source_origin, destination_origin),
                region,
                (source_row_pitch, source_slice_pitch),
                (destination_row_pitch, destination_slice_pitch),
            )
        }?;
        Ok(Work::Copy(copy))
    };
    // SAFETY: as the program promises.
    unsafe { passed.append(make) }
}

#[unsafe(export_name = "clCommandFillBufferKHR")]
pub(crate) unsafe extern "C" fn command_fill_buffer(
    buffer: cl_command_buffer_khr,
    queue: cl_command_queue,
    properties: *const cl_command_properties_khr,
    destination: cl_mem,
    pattern: *const c_void,
    pattern_size: usize,
    offset: usize,
    size: usize,
    count: cl_uint,
    points: *const cl_sync_point_khr,
    point: *mut cl_sync_point_khr,
    handle: *mut cl_mutable_command_khr,
) -> cl_int {
    let passed = Passed {
        buffer,
        queue,
        properties,
        count,
        points,
        point,
        handle,
    };
    let make = |queue: &Ref<Queue>| {
        // SAFETY: the program passes so many bytes.
        let fill = unsafe { Fill::new(queue, destination, (pattern, pattern_size), offset, size) }?;
        Ok(Work::Fill(fill))
    };
    // SAFETY: as the program promises.
    unsafe { passed.append(make) }
}

#[unsafe(export_name = "clCommandSVMMemcpyKHR")]
pub(crate) unsafe extern "C" fn command_svm_memcpy(
    buffer: cl_command_buffer_khr,
    queue: cl_command_queue,
    properties: *const cl_command_properties_khr,
    destination: *mut c_void,
    source: *const c_void,
    size: usize,
    count: cl_uint,
    points: *const cl_sync_point_khr,
    point: *mut cl_sync_point_khr,
    handle: *mut cl_mutable_command_khr,
) -> cl_int {
    let passed = Passed {
        buffer,
        queue,
        properties,
        count,
        points,
        point,
        handle,
    };
    let make = |queue: &Ref<Queue>| {
        ensure(is_on_host(&queue.device.core), CL_INVALID_OPERATION)?;
        // SAFETY: the program lends the bytes to each run of the command.
        let copy = unsafe { svm::copy(destination, source, size) }?;
        Ok(Work::Host(Arc::new(copy)))
    };
    // SAFETY: as the program promises.
    unsafe { passed.append(make) }
}

#[unsafe(export_name = "clCommandSVMMemFillKHR")]
pub(crate) unsafe extern "C" fn command_svm_mem_fill(
    buffer: cl_command_buffer_khr,
    queue: cl_command_queue,
    properties: *const cl_command_properties_khr,
    pointer: *mut c_void,
    pattern: *const c_void,
    pattern_size: usize,
    size: usize,
    count: cl_uint,
    points: *const cl_sync_point_khr,
    point: *mut cl_sync_point_khr,
    handle: *mut cl_mutable_command_khr,
) -> cl_int {
    let passed = Passed {
        buffer,
        queue,
        properties,
        count,
        points,
        point,
        handle,
    };
    let make = |queue: &Ref<Queue>| {
        ensure(is_on_host(&queue.device.core), CL_INVALID_OPERATION)?;
        // SAFETY: the program lends the bytes to each run of the command, and passes the pattern.
        let fill = unsafe { svm::fill(pointer, pattern, pattern_size, size) }?;
        Ok(Work::Host(Arc::new(fill)))
    };
    // SAFETY: as the program promises.
    unsafe { passed.append(make) }
}

/// The fields of a kernel's launch that may be changed after it was recorded.
pub(crate) const UPDATABLE: cl_mutable_dispatch_fields_khr = CL_MUTABLE_DISPATCH_GLOBAL_OFFSET_KHR
    | CL_MUTABLE_DISPATCH_GLOBAL_SIZE_KHR
    | CL_MUTABLE_DISPATCH_LOCAL_SIZE_KHR
    | CL_MUTABLE_DISPATCH_ARGUMENTS_KHR
    | CL_MUTABLE_DISPATCH_EXEC_INFO_KHR;

#[unsafe(export_name = "clCommandNDRangeKernelKHR")]
pub(crate) unsafe extern "C" fn command_nd_range_kernel(
    buffer: cl_command_buffer_khr,
    queue: cl_command_queue,
    properties: *const cl_command_properties_khr,
    kernel: cl_kernel,
    dimensions: cl_uint,
    global_offset: *const usize,
    global_size: *const usize,
    local_size: *const usize,
    count: cl_uint,
    points: *const cl_sync_point_khr,
    point: *mut cl_sync_point_khr,
    handle: *mut cl_mutable_command_khr,
) -> cl_int {
    let passed = Passed {
        buffer,
        queue,
        properties,
        count,
        points,
        point,
        handle,
    };
    entry(|| {
        let (buffer, place) = passed.begin()?;
        let queue = &buffer.queues[place];
        let kernel = Ref::<Kernel>::of(kernel)?;
        ensure(kernel.context().is(&queue.context), CL_INVALID_CONTEXT)?;
        // SAFETY: the program passes a list that ends with a zero, or null.
        let (pairs, said) = unsafe { pairs(properties) };
        let (mut fields, mut asserts) = (None, None);
        for (key, value) in pairs {
            let (place, known) = match key {
                CL_MUTABLE_DISPATCH_UPDATABLE_FIELDS_KHR => (&mut fields, UPDATABLE),
                ASSERTS_OF_KERNEL => (
                    &mut asserts,
                    CL_MUTABLE_DISPATCH_ASSERT_NO_ADDITIONAL_WORK_GROUPS_KHR,
                ),
                _ => return fail(CL_INVALID_VALUE),
            };
            let is_new = place.replace(value).is_none();
            ensure(is_new && value & !known == 0, CL_INVALID_VALUE)?;
        }
        let asserts = asserts.unwrap_or(0) | buffer.asserts;
        ensure(asserts == 0 || !local_size.is_null(), CL_INVALID_VALUE)?;
        kernel.code_for(&queue.device)?;
        // SAFETY: the program passes as many numbers as there are dimensions.
        let shape = unsafe { Shape::new(dimensions, global_offset, global_size, local_size) }?;
        let is_mutable = buffer.flags & CL_COMMAND_BUFFER_MUTABLE_KHR != 0;
        let fields = match is_mutable {
            true => fields.unwrap_or(UPDATABLE),
            false => 0,
        };
        let mut dispatch = Dispatch::new(&kernel, shape, fields, said);
        ensure(
            dispatch.is_complete() || fields & CL_MUTABLE_DISPATCH_ARGUMENTS_KHR != 0,
            CL_INVALID_KERNEL_ARGS,
        )?;
        dispatch.prepare(queue)?;
        let work = Work::Dispatch(Box::new(dispatch));
        // SAFETY: as the program promises.
        unsafe { passed.finish(&buffer, place, work) }
    })
}

/// A function that records a command on an image.
macro_rules! records {
    ($name:ident = $export:literal($($parameter:ident: $type:ty),*), |$on:ident| $work:expr) => {
        #[unsafe(export_name = $export)]
        pub(crate) unsafe extern "C" fn $name(
            buffer: cl_command_buffer_khr,
            queue: cl_command_queue,
            properties: *const cl_command_properties_khr,
            $($parameter: $type,)*
            count: cl_uint,
            points: *const cl_sync_point_khr,
            point: *mut cl_sync_point_khr,
            handle: *mut cl_mutable_command_khr,
        ) -> cl_int {
            let passed = Passed { buffer, queue, properties, count, points, point, handle };
            // SAFETY: the program passes three numbers for each origin and region, and a whole
            // colour.
            let make = |$on: &Ref<Queue>| Ok(unsafe { $work });
            // SAFETY: as the program promises.
            unsafe { passed.append(make) }
        }
    };
}

records!(
    command_copy_image = "clCommandCopyImageKHR"(
        source: cl_mem, destination: cl_mem, source_origin: *const usize, destination_origin: *const usize,
        region: *const usize
    ),
    |on| Work::Copy(Copy::of_images(
        on, (source, destination), (source_origin, destination_origin), region
    )?)
);
records!(
    command_copy_image_to_buffer = "clCommandCopyImageToBufferKHR"(
        source: cl_mem, destination: cl_mem, origin: *const usize, region: *const usize, offset: usize
    ),
    |on| Work::Copy(Copy::of_image_to_buffer(on, (source, destination), origin, region, offset)?)
);
records!(
    command_copy_buffer_to_image = "clCommandCopyBufferToImageKHR"(
        source: cl_mem, destination: cl_mem, offset: usize, origin: *const usize, region: *const usize
    ),
    |on| Work::Copy(Copy::of_buffer_to_image(on, (source, destination), offset, origin, region)?)
);
records!(
    command_fill_image = "clCommandFillImageKHR"(
        image: cl_mem, colour: *const c_void, origin: *const usize, region: *const usize
    ),
    |on| Work::FillImage(ImageFill::new(on, image, colour, origin, region)?)
);
