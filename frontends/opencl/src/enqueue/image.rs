//! Reads, writes, copies, fills and maps of images: the commands of buffers, with the rectangles of
//! images.

use super::transfer::{Copy, Part, Rectangle, host, steps, three};
use super::{Command, buffer};
use crate::code::{Code, Result, create, ensure, entry};
use crate::handle::Ref;
use crate::image::Image;
use crate::mapped::Map;
use crate::memory::Memory;
use crate::queue::Queue;
use opencl_sys::*;
use quipu_scheduler::graph::{Node, Recording};
use quipu_scheduler::operation::{HostMemory, Step};
use quipu_scheduler::{AccessMode, Event};
use std::ffi::c_void;

/// An image that a program means, of the queue's context.
fn image(queue: &Ref<Queue>, handle: cl_mem) -> Result<(Ref<Memory>, Image)> {
    let memory = Ref::<Memory>::of(handle)?;
    let image = memory.image.ok_or(Code(CL_INVALID_MEM_OBJECT))?;
    ensure(memory.context.is(&queue.context), CL_INVALID_CONTEXT)?;
    ensure(queue.device.has_images(), CL_INVALID_OPERATION)?;
    Ok((memory, image))
}

/// Texels of an image that a command is about.
struct Region {
    /// The place of their bytes in the image.
    at: Rectangle,
    /// Bytes along x, and how many rows and slices.
    size: [u64; 3],
}

impl Region {
    fn new(image: &Image, origin: [u64; 3], region: [u64; 3]) -> Result<Self> {
        let (origin, region) = (image.axes(origin, 0)?, image.axes(region, 1)?);
        for ((start, count), extent) in origin.into_iter().zip(region).zip(image.extents()) {
            let end = start.checked_add(count);
            ensure(
                count != 0 && end.is_some_and(|end| end <= extent),
                CL_INVALID_VALUE,
            )?;
        }
        let texel = image.texel();
        let size = [region[0] * texel, region[1], region[2]];
        let first = [origin[0] * texel, origin[1], origin[2]];
        let at = Rectangle::new(first, size, image.row as usize, image.slice as usize)?;
        Ok(Self { at, size })
    }

    /// Their layout in the program's memory. A row of an array of one dimension is a layer.
    fn on_host(&self, image: &Image, row: usize, slice: usize) -> Result<Rectangle> {
        let has_slices = image.is_array() || image.kind == CL_MEM_OBJECT_IMAGE3D;
        ensure(slice == 0 || has_slices, CL_INVALID_VALUE)?;
        Rectangle::new([0; 3], self.size, row, slice)
    }

    /// Their layout in a buffer, without gaps.
    fn packed(&self, offset: u64) -> Result<Rectangle> {
        let mut packed = Rectangle::new([0; 3], self.size, 0, 0)?;
        packed.offset = offset;
        Ok(packed)
    }

    /// True if they are all bytes from the first to the last.
    fn is_whole(&self) -> bool {
        self.at.span == self.size.iter().product::<u64>()
    }
}

/// The origin and region that a program passes.
///
/// # Safety
/// Each pointer is null or valid for reads of three numbers.
unsafe fn region_of(image: &Image, origin: *const usize, region: *const usize) -> Result<Region> {
    // SAFETY: as the caller promises.
    let (origin, region) = unsafe { (three(origin)?, three(region)?) };
    Region::new(image, origin, region)
}

#[unsafe(export_name = "clEnqueueReadImage")]
pub(crate) unsafe extern "C" fn enqueue_read_image(
    queue: cl_command_queue,
    source: cl_mem,
    blocking: cl_bool,
    origin: *const usize,
    region: *const usize,
    row_pitch: usize,
    slice_pitch: usize,
    pointer: *mut c_void,
    count: cl_uint,
    events: *const cl_event,
    event: *mut cl_event,
) -> cl_int {
    entry(|| {
        let queue = Ref::<Queue>::of(queue)?;
        let (source, image) = image(&queue, source)?;
        ensure(!pointer.is_null(), CL_INVALID_VALUE)?;
        // SAFETY: the program passes three numbers each.
        let region = unsafe { region_of(&image, origin, region) }?;
        let to = region.on_host(&image, row_pitch, slice_pitch)?;
        ensure(source.is_readable(), CL_INVALID_OPERATION)?;
        // SAFETY: as the program promises.
        let command = unsafe { Command::new(&queue, count, events, event) }?;
        // SAFETY: the program lends the bytes of the rectangle.
        let memory = unsafe { host(pointer, 0, to.span) };
        let core = command.with_host_memory(|waits| {
            Ok(queue.core.read(
                source.access(region.at.offset, region.at.span, AccessMode::Read),
                memory,
                region.size[0],
                &steps(region.size, &region.at, &to),
                waits,
            )?)
        })?;
        command.give_and_wait(core, CL_COMMAND_READ_IMAGE, blocking)
    })
}

#[unsafe(export_name = "clEnqueueWriteImage")]
pub(crate) unsafe extern "C" fn enqueue_write_image(
    queue: cl_command_queue,
    destination: cl_mem,
    blocking: cl_bool,
    origin: *const usize,
    region: *const usize,
    row_pitch: usize,
    slice_pitch: usize,
    pointer: *const c_void,
    count: cl_uint,
    events: *const cl_event,
    event: *mut cl_event,
) -> cl_int {
    entry(|| {
        let queue = Ref::<Queue>::of(queue)?;
        let (destination, image) = image(&queue, destination)?;
        ensure(!pointer.is_null(), CL_INVALID_VALUE)?;
        // SAFETY: the program passes three numbers each.
        let region = unsafe { region_of(&image, origin, region) }?;
        let from = region.on_host(&image, row_pitch, slice_pitch)?;
        ensure(destination.is_writable(), CL_INVALID_OPERATION)?;
        // SAFETY: as the program promises.
        let command = unsafe { Command::new(&queue, count, events, event) }?;
        // SAFETY: the program lends the bytes of the rectangle, which are only read.
        let memory: HostMemory = unsafe { host(pointer.cast_mut(), 0, from.span) };
        let core = command.with_host_memory(|waits| {
            Ok(queue.core.write(
                memory,
                destination.access(region.at.offset, region.at.span, written(&region)),
                region.size[0],
                &steps(region.size, &from, &region.at),
                waits,
            )?)
        })?;
        command.give_and_wait(core, CL_COMMAND_WRITE_IMAGE, blocking)
    })
}

/// The access of a command that writes the bytes from a region's first to its last: the bytes
/// between its rows stay.
fn written(region: &Region) -> AccessMode {
    match region.is_whole() {
        true => AccessMode::Overwrite,
        false => AccessMode::ReadWrite,
    }
}

/// The copy of a region from one memory to another.
fn copy(
    (from, source): (Ref<Memory>, &Rectangle),
    (to, destination): (Ref<Memory>, &Rectangle),
    region: &Region,
) -> Copy {
    let part = |memory: Ref<Memory>, at: &Rectangle| Part {
        memory,
        offset: at.offset,
        length: at.span,
    };
    Copy {
        source: part(from, source),
        destination: part(to, destination),
        row: region.size[0],
        steps: steps(region.size, source, destination),
    }
}

impl Copy {
    /// # Safety
    /// Origins and region are null or valid for reads of three numbers.
    pub(crate) unsafe fn of_images(
        queue: &Ref<Queue>,
        (source, destination): (cl_mem, cl_mem),
        (source_origin, destination_origin): (*const usize, *const usize),
        region: *const usize,
    ) -> Result<Self> {
        let (source, from) = image(queue, source)?;
        let (destination, to) = image(queue, destination)?;
        ensure(from.format == to.format, CL_IMAGE_FORMAT_MISMATCH)?;
        // SAFETY: as the caller promises.
        let (source_origin, destination_origin, region) = unsafe {
            (
                three(source_origin)?,
                three(destination_origin)?,
                three(region)?,
            )
        };
        let read = Region::new(&from, source_origin, region)?;
        let write = Region::new(&to, destination_origin, region)?;
        // Rows of one are no layers of another.
        ensure(read.size == write.size, CL_INVALID_VALUE)?;
        Ok(copy((source, &read.at), (destination, &write.at), &write))
    }

    /// # Safety
    /// Origin and region are null or valid for reads of three numbers.
    pub(crate) unsafe fn of_image_to_buffer(
        queue: &Ref<Queue>,
        (source, destination): (cl_mem, cl_mem),
        origin: *const usize,
        region: *const usize,
        offset: usize,
    ) -> Result<Self> {
        let (source, image) = image(queue, source)?;
        let destination = buffer(queue, destination)?;
        // SAFETY: as the caller promises.
        let region = unsafe { region_of(&image, origin, region) }?;
        let to = region.packed(offset as u64)?;
        ensure(destination.holds(to.offset, to.span), CL_INVALID_VALUE)?;
        Ok(copy((source, &region.at), (destination, &to), &region))
    }

    /// # Safety
    /// Origin and region are null or valid for reads of three numbers.
    pub(crate) unsafe fn of_buffer_to_image(
        queue: &Ref<Queue>,
        (source, destination): (cl_mem, cl_mem),
        offset: usize,
        origin: *const usize,
        region: *const usize,
    ) -> Result<Self> {
        let source = buffer(queue, source)?;
        let (destination, image) = image(queue, destination)?;
        // SAFETY: as the caller promises.
        let region = unsafe { region_of(&image, origin, region) }?;
        let from = region.packed(offset as u64)?;
        ensure(source.holds(from.offset, from.span), CL_INVALID_VALUE)?;
        Ok(copy((source, &from), (destination, &region.at), &region))
    }
}

/// A fill of a region of an image that was checked.
#[derive(Clone)]
pub(crate) struct ImageFill {
    destination: Part,
    texel: Vec<u8>,
    /// Bytes of a row.
    row: u64,
    steps: Vec<Step>,
}

impl ImageFill {
    /// # Safety
    /// The colour is null or valid for reads of as many numbers as the image's format has; origin
    /// and region are null or valid for reads of three numbers.
    pub(crate) unsafe fn new(
        queue: &Ref<Queue>,
        handle: cl_mem,
        colour: *const c_void,
        origin: *const usize,
        region: *const usize,
    ) -> Result<Self> {
        let (memory, image) = image(queue, handle)?;
        ensure(!colour.is_null(), CL_INVALID_VALUE)?;
        // SAFETY: as the caller promises.
        let region = unsafe { region_of(&image, origin, region) }?;
        let colour = colour.cast::<u32>();
        let colour = match image.format.order {
            // SAFETY: as the caller promises: one number for a format of depth.
            CL_DEPTH => [unsafe { colour.read_unaligned() }, 0, 0, 0],
            // SAFETY: as the caller promises: four numbers for the others.
            _ => unsafe { colour.cast::<[u32; 4]>().read_unaligned() },
        };
        Ok(Self {
            texel: image.format.texel(colour)?.to_vec(),
            destination: Part {
                memory,
                offset: region.at.offset,
                length: region.at.span,
            },
            row: region.size[0],
            steps: steps(region.size, &region.at, &region.at),
        })
    }

    fn enqueue(&self, command: &Command<'_>) -> Result<Event> {
        let mode = AccessMode::ReadWrite;
        let access = self.destination.access(mode);
        let queue = &command.queue.core;
        command.enqueue(|waits| {
            Ok(queue.fill_rows(access, &self.texel, self.row, &self.steps, waits)?)
        })
    }

    pub(crate) fn record(
        &self,
        recording: &Recording,
        queue: &Queue,
        after: &[Node],
    ) -> Result<Node> {
        let access = self.destination.access(AccessMode::ReadWrite);
        let (queue, row) = (&queue.core, self.row);
        Ok(recording.fill_rows(queue, access, &self.texel, row, &self.steps, after)?)
    }
}

#[unsafe(export_name = "clEnqueueCopyImage")]
pub(crate) unsafe extern "C" fn enqueue_copy_image(
    queue: cl_command_queue,
    source: cl_mem,
    destination: cl_mem,
    source_origin: *const usize,
    destination_origin: *const usize,
    region: *const usize,
    count: cl_uint,
    events: *const cl_event,
    event: *mut cl_event,
) -> cl_int {
    entry(|| {
        let queue = Ref::<Queue>::of(queue)?;
        let (images, origins) = ((source, destination), (source_origin, destination_origin));
        // SAFETY: the program passes three numbers each.
        let copy = unsafe { Copy::of_images(&queue, images, origins, region) }?;
        // SAFETY: as the program promises.
        let command = unsafe { Command::new(&queue, count, events, event) }?;
        let core = copy.enqueue(&command)?;
        command.give(core, CL_COMMAND_COPY_IMAGE)
    })
}

#[unsafe(export_name = "clEnqueueCopyImageToBuffer")]
pub(crate) unsafe extern "C" fn enqueue_copy_image_to_buffer(
    queue: cl_command_queue,
    source: cl_mem,
    destination: cl_mem,
    origin: *const usize,
    region: *const usize,
    offset: usize,
    count: cl_uint,
    events: *const cl_event,
    event: *mut cl_event,
) -> cl_int {
    entry(|| {
        let queue = Ref::<Queue>::of(queue)?;
        let objects = (source, destination);
        // SAFETY: the program passes three numbers each.
        let copy = unsafe { Copy::of_image_to_buffer(&queue, objects, origin, region, offset) }?;
        // SAFETY: as the program promises.
        let command = unsafe { Command::new(&queue, count, events, event) }?;
        let core = copy.enqueue(&command)?;
        command.give(core, CL_COMMAND_COPY_IMAGE_TO_BUFFER)
    })
}

#[unsafe(export_name = "clEnqueueCopyBufferToImage")]
pub(crate) unsafe extern "C" fn enqueue_copy_buffer_to_image(
    queue: cl_command_queue,
    source: cl_mem,
    destination: cl_mem,
    offset: usize,
    origin: *const usize,
    region: *const usize,
    count: cl_uint,
    events: *const cl_event,
    event: *mut cl_event,
) -> cl_int {
    entry(|| {
        let queue = Ref::<Queue>::of(queue)?;
        let objects = (source, destination);
        // SAFETY: the program passes three numbers each.
        let copy = unsafe { Copy::of_buffer_to_image(&queue, objects, offset, origin, region) }?;
        // SAFETY: as the program promises.
        let command = unsafe { Command::new(&queue, count, events, event) }?;
        let core = copy.enqueue(&command)?;
        command.give(core, CL_COMMAND_COPY_BUFFER_TO_IMAGE)
    })
}

#[unsafe(export_name = "clEnqueueFillImage")]
pub(crate) unsafe extern "C" fn enqueue_fill_image(
    queue: cl_command_queue,
    handle: cl_mem,
    colour: *const c_void,
    origin: *const usize,
    region: *const usize,
    count: cl_uint,
    events: *const cl_event,
    event: *mut cl_event,
) -> cl_int {
    entry(|| {
        let queue = Ref::<Queue>::of(queue)?;
        // SAFETY: the program passes the colour, and three numbers each.
        let fill = unsafe { ImageFill::new(&queue, handle, colour, origin, region) }?;
        // SAFETY: as the program promises.
        let command = unsafe { Command::new(&queue, count, events, event) }?;
        let core = fill.enqueue(&command)?;
        command.give(core, CL_COMMAND_FILL_IMAGE)
    })
}

#[unsafe(export_name = "clEnqueueMapImage")]
pub(crate) unsafe extern "C" fn enqueue_map_image(
    queue: cl_command_queue,
    handle: cl_mem,
    blocking: cl_bool,
    flags: cl_map_flags,
    origin: *const usize,
    region: *const usize,
    row_pitch: *mut usize,
    slice_pitch: *mut usize,
    count: cl_uint,
    events: *const cl_event,
    event: *mut cl_event,
    code: *mut cl_int,
) -> *mut c_void {
    let body = || {
        let queue = Ref::<Queue>::of(queue)?;
        let (mapped, image) = image(&queue, handle)?;
        // SAFETY: the program passes three numbers each.
        let region = unsafe { region_of(&image, origin, region) }?;
        let has_slices = image.is_array() || image.kind == CL_MEM_OBJECT_IMAGE3D;
        ensure(
            !(row_pitch.is_null() || has_slices && slice_pitch.is_null()),
            CL_INVALID_VALUE,
        )?;
        let map = Map {
            address: 0,
            offset: region.at.offset,
            length: region.at.span,
            writes: false,
        };
        // SAFETY: as the program promises.
        let address = unsafe {
            super::map::map(
                &queue,
                &mapped,
                map,
                (blocking, flags, CL_COMMAND_MAP_IMAGE),
                (count, events, event),
            )
        }?;
        // SAFETY: the program passes where the pitches go.
        unsafe {
            row_pitch.write(image.row as usize);
            if !slice_pitch.is_null() {
                slice_pitch.write(if has_slices { image.slice as usize } else { 0 });
            }
        }
        Ok(address)
    };
    // SAFETY: the program passes where the code goes.
    unsafe { create(code, body) }
}
