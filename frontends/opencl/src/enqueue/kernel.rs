//! Launches of kernels.
//!
//! A launch is one command with one work-group after the other, on whichever worker has time for
//! it. Which buffers it reads and writes is what the compiler has found in the kernel's code.

use super::launch::{Launch, Launching, Shape};
use super::{Command, memory};
use crate::code::{Code, Result, ensure, entry};
use crate::device::Device;
use crate::handle::Ref;
use crate::image::Image;
use crate::kernel::{Kernel, KernelCode};
use crate::memory::Memory;
use crate::queue::Queue;
use opencl_sys::*;
use quipu_scheduler::graph::{Node, NodeRequest, Recording};
use quipu_scheduler::{Access, AccessMode, Event, Request};
use smallvec::SmallVec;
use std::sync::Arc;

/// Numbers of work-items that a program passes by a pointer, or `otherwise` where it passes none.
///
/// # Safety
/// The pointer is null or valid for reads of so many numbers.
pub(crate) unsafe fn sizes(dimensions: usize, pointer: *const usize, otherwise: u64) -> [u64; 3] {
    std::array::from_fn(|axis| match pointer.is_null() || axis >= dimensions {
        true => otherwise,
        // SAFETY: as the caller promises.
        false => unsafe { pointer.add(axis).read() as u64 },
    })
}

impl Shape {
    /// The shape of a launch, from the program's pointers. No global size is one of zero: such a
    /// command does nothing.
    ///
    /// # Safety
    /// Each pointer is null, or valid for reads of as many numbers as there are dimensions.
    pub(crate) unsafe fn new(
        dimensions: cl_uint,
        offset: *const usize,
        global: *const usize,
        local: *const usize,
    ) -> Result<Self> {
        ensure((1..=3).contains(&dimensions), CL_INVALID_WORK_DIMENSION)?;
        let along = dimensions as usize;
        // SAFETY: as the caller promises.
        unsafe {
            Ok(Self {
                dimensions,
                global: match global.is_null() {
                    true => [0; 3],
                    false => sizes(along, global, 1),
                },
                offset: sizes(along, offset, 0),
                local: (!local.is_null()).then(|| sizes(along, local, 1)),
            })
        }
    }
}

/// Work-items of a group that suit most kernels, where the program leaves it open.
const USUAL_ITEMS: u64 = 64;
/// The fewest along x that do. Groups of fewer cost more than larger ones, or than groups of
/// several sizes.
const FEW_ITEMS: u64 = 16;
/// The most along x of groups that divide a launch evenly which smaller ones do not.
const MOST_ITEMS: u64 = 1024;

/// A size of work-group of at most so many work-items for a launch, along x first. Unless the
/// launch takes the rest in smaller groups, it divides the launch evenly.
fn local_size(global: [u64; 3], device: &Device, all: u64, takes_rest: bool) -> [u32; 3] {
    let along = device.most_items_along().map(|most| most as u64);
    let mut left = USUAL_ITEMS.min(all);
    std::array::from_fn(|axis| {
        let divides = |size: &u64| global[axis].is_multiple_of(*size);
        let most = left.min(along[axis]).min(global[axis]).max(1);
        let dividing = (1..=most).rev().find(divides).unwrap_or(1);
        let mut chosen = dividing;
        if dividing < FEW_ITEMS.min(most) && axis == 0 {
            chosen = match takes_rest {
                true => most,
                false => {
                    let larger = MOST_ITEMS.min(along[axis]).min(all);
                    (most + 1..=larger).find(divides).unwrap_or(dividing)
                }
            };
        }
        left = (left / chosen).max(1);
        chosen as u32
    })
}

/// A size of work-group that suits, and that the program may ask for.
fn suggested_local_size(code: &KernelCode, device: &Device, global: [u64; 3]) -> Result<[u32; 3]> {
    match code.info.required_local_size {
        Some(_) => chosen_local_size(code, device, global, None),
        None => {
            // A kernel that cannot tell has smaller groups only if the program leaves them open.
            let takes_rest =
                device.has_smaller_groups(&code.info) && device.chooses_smaller_groups(&code.info);
            Ok(local_size(
                global,
                device,
                code.most_items(device),
                takes_rest,
            ))
        }
    }
}

/// The size of work-group that the program asks for, or one that suits.
pub(super) fn chosen_local_size(
    code: &KernelCode,
    device: &Device,
    global: [u64; 3],
    asked: Option<[u64; 3]>,
) -> Result<[u32; 3]> {
    let required = code.info.required_local_size;
    let most = code.most_items(device);
    let takes = |local: [u64; 3]| {
        let divides = |axis: usize| global[axis].is_multiple_of(local[axis]);
        (0..3).all(divides) || device.has_smaller_groups(&code.info)
    };
    let Some(asked) = asked else {
        let Some(required) = required else {
            let takes_rest = device.chooses_smaller_groups(&code.info);
            return Ok(local_size(global, device, most, takes_rest));
        };
        ensure(takes(required.map(u64::from)), CL_INVALID_WORK_GROUP_SIZE)?;
        return Ok(required);
    };
    let along = device.most_items_along();
    let fits = |axis: usize| (1..=along[axis] as u64).contains(&asked[axis]);
    ensure(!asked.contains(&0), CL_INVALID_WORK_GROUP_SIZE)?;
    ensure((0..3).all(fits), CL_INVALID_WORK_ITEM_SIZE)?;
    let items = asked.iter().product::<u64>();
    ensure(items <= most, CL_INVALID_WORK_GROUP_SIZE)?;
    ensure(takes(asked), CL_INVALID_WORK_GROUP_SIZE)?;
    let local = asked.map(|size| size as u32);
    ensure(
        required.is_none_or(|required| required == local),
        CL_INVALID_WORK_GROUP_SIZE,
    )?;
    Ok(local)
}

/// A launch, and the buffers that it touches.
#[derive(Clone)]
pub(crate) struct Prepared {
    launch: Arc<Launch>,
    memories: SmallVec<[(Ref<Memory>, AccessMode); 4]>,
    /// Those of them that are images. Most launches have none.
    images: Box<[Image]>,
    /// It may reach memory by pointers, and not only by its arguments.
    follows_pointers: bool,
}

impl Prepared {
    pub(crate) fn new(
        queue: &Ref<Queue>,
        launch: Arc<Launch>,
        follows_pointers: bool,
    ) -> Result<Self> {
        let (mut memories, mut images) = (SmallVec::new(), Vec::new());
        for reached in &launch.memories {
            let handle = std::ptr::with_exposed_provenance_mut(reached.handle);
            let memory = memory(queue, handle).map_err(|_| Code(CL_INVALID_KERNEL_ARGS))?;
            // The handle may be another object's by now.
            ensure(
                memory.image.is_some() == reached.is_image,
                CL_INVALID_KERNEL_ARGS,
            )?;
            let is_aligned = memory.offset == 0
                || reached.is_image
                || memory.offset.is_multiple_of(queue.device.part_alignment());
            ensure(is_aligned, CL_MISALIGNED_SUB_BUFFER_OFFSET)?;
            images.extend(memory.image);
            // The kernel's code tells, and not what the program said of its buffer
            // (`CL_MEM_READ_ONLY`). What it writes may be a part, so what was there before matters.
            let mode = match reached.writes {
                true => AccessMode::ReadWrite,
                false => AccessMode::Read,
            };
            memories.push((memory, mode));
        }
        Ok(Self {
            follows_pointers: follows_pointers || launch.follows_pointers,
            launch,
            memories,
            images: images.into(),
        })
    }

    /// Enqueues the launch. There is an event if the program wants one.
    fn enqueue(self, command: &Command<'_>) -> Result<Option<Event>> {
        command.enqueue(|waits| {
            let request = Request {
                accesses: &accesses(&self.memories),
                waits,
                unknown_access: self.follows_pointers,
                ..Request::default()
            };
            let groups = self.launch.batches();
            let kernel = Launching(self.launch, self.images);
            let queue = &command.queue.core;
            if command.wants_event() {
                return Ok(Some(queue.launch(kernel, groups, &request)?));
            }
            queue.post_launch(kernel, groups, &request)?;
            Ok(None)
        })
    }

    pub(crate) fn record(
        &self,
        recording: &Recording,
        queue: &Queue,
        after: &[Node],
    ) -> Result<Node> {
        let request = NodeRequest {
            accesses: &accesses(&self.memories),
            after,
            unknown_access: self.follows_pointers,
            ..NodeRequest::default()
        };
        let groups = self.launch.batches();
        let kernel = Launching(self.launch.clone(), self.images.clone());
        Ok(recording.launch(&queue.core, kernel, groups, &request)?)
    }
}

/// The accesses of a command to memory.
fn accesses(memories: &[(Ref<Memory>, AccessMode)]) -> SmallVec<[Access<'_>; 4]> {
    let all = memories.iter();
    all.map(|(memory, mode)| memory.whole(*mode)).collect()
}

fn enqueue(
    command: &Command<'_>,
    kernel: &Kernel,
    shape: Shape,
    kind: cl_command_type,
) -> Result<()> {
    let queue = &command.queue;
    let event = if shape.global.contains(&0) {
        // OpenCL 2.1 takes this for a command that does nothing.
        let is_set = kernel.arguments().set.iter().all(Option::is_some);
        ensure(is_set, CL_INVALID_KERNEL_ARGS)?;
        Some(command.core_nothing()?)
    } else {
        let launch = kernel.launch(&shape, &queue.device)?;
        Prepared::new(queue, launch, kernel.follows_pointers())?.enqueue(command)?
    };
    event.map_or(Ok(()), |event| command.give(event, kind))
}

impl Kernel {
    /// The launch that a program means: its last one, if that says the same.
    fn launch(&self, shape: &Shape, device: &Ref<Device>) -> Result<Arc<Launch>> {
        let mut arguments = self.arguments();
        if let Some(last) = &arguments.last
            && last.is(shape, device)
        {
            return Ok(last.clone());
        }
        let new = Arc::new(Launch::new(
            self.code_for(device)?,
            device,
            *shape,
            &arguments.set,
        )?);
        arguments.last = Some(new.clone());
        Ok(new)
    }
}

/// Enqueues a launch that the program calls a command of this type.
///
/// # Safety
/// As OpenCL has it: each size is null or valid for reads of as many numbers as there are
/// dimensions, the list has so many events, and where the event goes is null or valid for a write.
unsafe fn enqueue_as(
    kind: cl_command_type,
    queue: cl_command_queue,
    kernel: cl_kernel,
    dimensions: cl_uint,
    global_offset: *const usize,
    global_size: *const usize,
    local_size: *const usize,
    count: cl_uint,
    events: *const cl_event,
    event: *mut cl_event,
) -> cl_int {
    entry(|| {
        let queue = Ref::<Queue>::of(queue)?;
        let kernel = Ref::<Kernel>::of(kernel)?;
        ensure(kernel.context().is(&queue.context), CL_INVALID_CONTEXT)?;
        kernel.code_for(&queue.device)?;
        // SAFETY: the program passes as many numbers as there are dimensions.
        let shape = unsafe { Shape::new(dimensions, global_offset, global_size, local_size) }?;
        // SAFETY: as the program promises.
        let command = unsafe { Command::new(&queue, count, events, event) }?;
        enqueue(&command, &kernel, shape, kind)
    })
}

#[unsafe(export_name = "clEnqueueNDRangeKernel")]
pub(crate) unsafe extern "C" fn enqueue_nd_range_kernel(
    queue: cl_command_queue,
    kernel: cl_kernel,
    dimensions: cl_uint,
    global_offset: *const usize,
    global_size: *const usize,
    local_size: *const usize,
    count: cl_uint,
    events: *const cl_event,
    event: *mut cl_event,
) -> cl_int {
    let (kind, offset) = (CL_COMMAND_NDRANGE_KERNEL, global_offset);
    // SAFETY: as the program promises.
    unsafe {
        enqueue_as(
            kind,
            queue,
            kernel,
            dimensions,
            offset,
            global_size,
            local_size,
            count,
            events,
            event,
        )
    }
}

#[unsafe(export_name = "clEnqueueTask")]
pub(crate) unsafe extern "C" fn enqueue_task(
    queue: cl_command_queue,
    kernel: cl_kernel,
    count: cl_uint,
    events: *const cl_event,
    event: *mut cl_event,
) -> cl_int {
    let one = [1_usize];
    // SAFETY: one number each for one dimension; the rest as the program promises.
    unsafe {
        enqueue_as(
            CL_COMMAND_TASK,
            queue,
            kernel,
            1,
            std::ptr::null(),
            one.as_ptr(),
            one.as_ptr(),
            count,
            events,
            event,
        )
    }
}

#[unsafe(export_name = "clGetKernelSuggestedLocalWorkSize")]
pub(crate) unsafe extern "C" fn get_kernel_suggested_local_work_size(
    queue: cl_command_queue,
    kernel: cl_kernel,
    dimensions: cl_uint,
    _global_offset: *const usize,
    global_size: *const usize,
    suggested: *mut usize,
) -> cl_int {
    entry(|| {
        let queue = Ref::<Queue>::of(queue)?;
        let kernel = Ref::<Kernel>::of(kernel)?;
        ensure(kernel.context().is(&queue.context), CL_INVALID_CONTEXT)?;
        let code = kernel.code_for(&queue.device)?;
        ensure((1..=3).contains(&dimensions), CL_INVALID_WORK_DIMENSION)?;
        ensure(!global_size.is_null(), CL_INVALID_GLOBAL_WORK_SIZE)?;
        ensure(!suggested.is_null(), CL_INVALID_VALUE)?;
        let is_set = kernel.arguments().set.iter().all(Option::is_some);
        ensure(is_set, CL_INVALID_KERNEL_ARGS)?;
        // SAFETY: the program passes as many numbers as there are dimensions.
        let global = unsafe { sizes(dimensions as usize, global_size, 1) };
        ensure(!global.contains(&0), CL_INVALID_GLOBAL_WORK_SIZE)?;
        let chosen = suggested_local_size(code, &queue.device, global)?;
        for (axis, size) in chosen.iter().enumerate().take(dimensions as usize) {
            // SAFETY: the program passes room for as many numbers as there are dimensions.
            unsafe { suggested.add(axis).write(*size as usize) };
        }
        Ok(())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_size_of_a_group_suits_the_launch() {
        let device = crate::platform::devices().first().expect("a device");
        for (global, dividing, with_rest) in [
            ([1024, 1, 1], [64, 1, 1], [64, 1, 1]),
            ([100, 1, 1], [50, 1, 1], [50, 1, 1]),
            ([127, 3, 1], [127, 1, 1], [64, 1, 1]),
            ([16, 16, 16], [16, 4, 1], [16, 4, 1]),
            ([3, 127, 1], [3, 1, 1], [3, 1, 1]),
            ([13, 1, 1], [13, 1, 1], [13, 1, 1]),
            ([1_048_573, 1, 1], [1, 1, 1], [64, 1, 1]),
            ([2 * 1009, 1, 1], [1009, 1, 1], [64, 1, 1]),
            ([1, 1, 1], [1, 1, 1], [1, 1, 1]),
        ] {
            let most = device.most_items() as u64;
            let chosen = |takes_rest| local_size(global, device, most, takes_rest);
            assert_eq!(chosen(false), dividing, "{global:?}");
            assert_eq!(chosen(true), with_rest, "{global:?}");
        }
    }
}
