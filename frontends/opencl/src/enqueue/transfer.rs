//! Reads, writes, copies and fills, of ranges and of rectangles.

use super::{Command, buffer};
use crate::code::{Code, Result, ensure, entry};
use crate::event::Waits;
use crate::handle::Ref;
use crate::memory::Memory;
use crate::queue::Queue;
use opencl_sys::*;
use quipu_scheduler::graph::{Node, Recording};
use quipu_scheduler::operation::{HostMemory, Step};
use quipu_scheduler::{Access, AccessMode, Error, Event, MemoryRef, RawArgument, Request};
use smallvec::SmallVec;
use std::ffi::c_void;

/// A box of bytes within memory that is laid out in rows and slices.
pub(super) struct Rectangle {
    /// The first byte.
    pub(super) offset: u64,
    pub(super) row_pitch: u64,
    pub(super) slice_pitch: u64,
    /// From the first byte to the last.
    pub(super) span: u64,
}

/// Three numbers that a program passes by a pointer.
///
/// # Safety
/// The pointer is null or valid for reads of three numbers.
pub(super) unsafe fn three(pointer: *const usize) -> Result<[u64; 3]> {
    ensure(!pointer.is_null(), CL_INVALID_VALUE)?;
    // SAFETY: as the caller promises.
    let numbers = unsafe { pointer.cast::<[usize; 3]>().read_unaligned() };
    Ok(numbers.map(|number| number as u64))
}

impl Rectangle {
    /// Of a buffer, or of what a buffer is copied to: slices are whole rows apart.
    pub(super) fn of_buffer(
        origin: [u64; 3],
        region: [u64; 3],
        row: usize,
        slice: usize,
    ) -> Result<Self> {
        let rectangle = Self::new(origin, region, row, slice)?;
        let are_whole = rectangle.slice_pitch.is_multiple_of(rectangle.row_pitch);
        ensure(are_whole, CL_INVALID_VALUE)?;
        Ok(rectangle)
    }

    pub(super) fn new(
        origin: [u64; 3],
        region: [u64; 3],
        row: usize,
        slice: usize,
    ) -> Result<Self> {
        let [width, height, depth] = region;
        ensure(!region.contains(&0), CL_INVALID_VALUE)?;
        let row_pitch = if row == 0 { width } else { row as u64 };
        ensure(row_pitch >= width, CL_INVALID_VALUE)?;
        let least = height
            .checked_mul(row_pitch)
            .ok_or(Code(CL_INVALID_VALUE))?;
        let slice_pitch = if slice == 0 { least } else { slice as u64 };
        ensure(slice_pitch >= least, CL_INVALID_VALUE)?;
        let place = |x: u64, y: u64, z: u64| {
            let rows = y.checked_mul(row_pitch)?;
            let slices = z.checked_mul(slice_pitch)?;
            x.checked_add(rows)?.checked_add(slices)
        };
        let offset = place(origin[0], origin[1], origin[2]);
        let span = place(width, height - 1, depth - 1);
        let (Some(offset), Some(span)) = (offset, span) else {
            return Err(Code(CL_INVALID_VALUE));
        };
        Ok(Self {
            offset,
            row_pitch,
            slice_pitch,
            span,
        })
    }
}

/// The steps from row to row and from slice to slice.
pub(super) fn steps(region: [u64; 3], source: &Rectangle, destination: &Rectangle) -> Vec<Step> {
    let step = |count, source_stride, destination_stride| Step {
        count,
        source_stride,
        destination_stride,
    };
    let all = [
        step(region[2], source.slice_pitch, destination.slice_pitch),
        step(region[1], source.row_pitch, destination.row_pitch),
    ];
    all.into_iter().filter(|step| step.count > 1).collect()
}

/// Bytes of a buffer or image.
#[derive(Clone)]
pub(crate) struct Part {
    pub(super) memory: Ref<Memory>,
    pub(super) offset: u64,
    pub(super) length: u64,
}

impl Part {
    pub(super) fn access(&self, mode: AccessMode) -> Access<'_> {
        self.memory.access(self.offset, self.length, mode)
    }

    /// True if both share bytes of one buffer.
    fn overlaps(&self, other: &Self) -> bool {
        let first = |part: &Self| part.memory.offset + part.offset;
        self.memory.core.id() == other.memory.core.id()
            && first(self) < first(other) + other.length
            && first(other) < first(self) + self.length
    }
}

/// A copy that was checked.
#[derive(Clone)]
pub(crate) struct Copy {
    pub(super) source: Part,
    pub(super) destination: Part,
    /// Bytes of a row.
    pub(super) row: u64,
    pub(super) steps: Vec<Step>,
}

impl Copy {
    pub(crate) fn of_range(
        queue: &Ref<Queue>,
        source: cl_mem,
        destination: cl_mem,
        source_offset: usize,
        destination_offset: usize,
        size: usize,
    ) -> Result<Self> {
        let part = |memory: Ref<Memory>, offset: usize| Part {
            memory,
            offset: offset as u64,
            length: size as u64,
        };
        let source = part(buffer(queue, source)?, source_offset);
        let destination = part(buffer(queue, destination)?, destination_offset);
        let holds = |part: &Part| part.memory.holds(part.offset, part.length);
        ensure(holds(&source) && holds(&destination), CL_INVALID_VALUE)?;
        ensure(!source.overlaps(&destination), CL_MEM_COPY_OVERLAP)?;
        Ok(Self {
            source,
            destination,
            row: size as u64,
            steps: Vec::new(),
        })
    }

    /// # Safety
    /// Origins and region are null or valid for reads of three numbers.
    pub(crate) unsafe fn of_rectangle(
        queue: &Ref<Queue>,
        (source, destination): (cl_mem, cl_mem),
        (source_origin, destination_origin): (*const usize, *const usize),
        region: *const usize,
        (source_row_pitch, source_slice_pitch): (usize, usize),
        (destination_row_pitch, destination_slice_pitch): (usize, usize),
    ) -> Result<Self> {
        let (from, to) = (buffer(queue, source)?, buffer(queue, destination)?);
        // SAFETY: as the caller promises.
        let (source_origin, destination_origin, region) = unsafe {
            (
                three(source_origin)?,
                three(destination_origin)?,
                three(region)?,
            )
        };
        let source =
            Rectangle::of_buffer(source_origin, region, source_row_pitch, source_slice_pitch)?;
        let destination = Rectangle::of_buffer(
            destination_origin,
            region,
            destination_row_pitch,
            destination_slice_pitch,
        )?;
        ensure(
            from.holds(source.offset, source.span)
                && to.holds(destination.offset, destination.span),
            CL_INVALID_VALUE,
        )?;
        let part = |memory: Ref<Memory>, of: &Rectangle| Part {
            memory,
            offset: of.offset,
            length: of.span,
        };
        Ok(Self {
            row: region[0],
            steps: steps(region, &source, &destination),
            source: part(from, &source),
            destination: part(to, &destination),
        })
    }

    fn accesses(&self) -> (Access<'_>, Access<'_>) {
        // What is between the rows stays.
        let rows = self.steps.iter().map(|step| step.count).product::<u64>();
        let mode = match rows * self.row == self.destination.length {
            true => AccessMode::Overwrite,
            false => AccessMode::ReadWrite,
        };
        (
            self.source.access(AccessMode::Read),
            self.destination.access(mode),
        )
    }

    /// The code of the core's refusal.
    fn refused(&self, error: Error) -> Code {
        match self.source.overlaps(&self.destination) {
            true => Code(CL_MEM_COPY_OVERLAP),
            false => Code::from(error),
        }
    }

    pub(super) fn enqueue(&self, command: &Command<'_>) -> Result<Event> {
        if self.row == 0 {
            return command.core_nothing();
        }
        if let Some(size) = self.content_size() {
            return self.enqueue_in_use(command, &size);
        }
        let (source, destination) = self.accesses();
        let queue = &command.queue.core;
        command.enqueue(|waits| {
            queue
                .copy(source, destination, self.row, &self.steps, waits)
                .map_err(|error| self.refused(error))
        })
    }

    /// The buffer with the number of bytes in use of what is copied in one piece.
    fn content_size(&self) -> Option<MemoryRef> {
        let (source, destination) = (&self.source.memory, &self.destination.memory);
        let is_image = |memory: &Memory| memory.image.is_some();
        if !self.steps.is_empty() || is_image(source) || is_image(destination) {
            return None;
        }
        let whole = source.parent.as_ref().unwrap_or(source);
        let size = whole.content_size();
        size.filter(|size| size.id() != destination.core.id())
    }

    /// Enqueues a copy, in the host's memory, of those of the bytes that are in use.
    fn enqueue_in_use(&self, command: &Command<'_>, size: &MemoryRef) -> Result<Event> {
        const BYTES: usize = size_of::<u64>();
        let size = Access {
            memory: size,
            offset: 0,
            length: BYTES as u64,
            mode: AccessMode::Read,
        };
        let accesses = [
            self.source.access(AccessMode::Read),
            // The others stay.
            self.destination.access(AccessMode::ReadWrite),
            size,
        ];
        let (first, length) = (self.source.memory.offset + self.source.offset, self.row);
        let task = move |raw: &[RawArgument]| {
            if let [source, destination, size] = raw {
                let mut bytes = [0; BYTES];
                // SAFETY: the command reads so many bytes there.
                unsafe {
                    size.pointer
                        .copy_to_nonoverlapping(bytes.as_mut_ptr(), BYTES)
                };
                let in_use = u64::from_le_bytes(bytes).saturating_sub(first).min(length);
                // SAFETY: the command reads and writes `length` bytes, which do not overlap:
                // `of_range` has looked.
                unsafe {
                    destination
                        .pointer
                        .copy_from_nonoverlapping(source.pointer, in_use as usize);
                }
            }
            Ok(())
        };
        command.enqueue(|waits| {
            let request = Request {
                accesses: &accesses,
                waits,
                ..Request::default()
            };
            Ok(command.queue.core.host_task(task, &request)?)
        })
    }

    pub(crate) fn record(
        &self,
        recording: &Recording,
        queue: &Queue,
        after: &[Node],
    ) -> Result<Node> {
        if self.row == 0 {
            return Ok(recording.marker(&queue.core, after)?);
        }
        let (source, destination) = self.accesses();
        recording
            .copy(
                &queue.core,
                source,
                destination,
                self.row,
                &self.steps,
                after,
            )
            .map_err(|error| self.refused(error))
    }
}

/// A fill of a buffer that was checked.
#[derive(Clone)]
pub(crate) struct Fill {
    destination: Part,
    pattern: Vec<u8>,
}

/// The longest pattern that devices fill with by themselves.
const SHORT_PATTERN: usize = 16;

impl Fill {
    /// # Safety
    /// The pattern is null, or valid for reads of so many bytes.
    pub(crate) unsafe fn new(
        queue: &Ref<Queue>,
        destination: cl_mem,
        (pattern, pattern_size): (*const c_void, usize),
        offset: usize,
        size: usize,
    ) -> Result<Self> {
        let memory = buffer(queue, destination)?;
        ensure(
            !pattern.is_null() && pattern_size.is_power_of_two() && pattern_size <= 128,
            CL_INVALID_VALUE,
        )?;
        ensure(
            memory.holds(offset as u64, size as u64)
                && offset.is_multiple_of(pattern_size)
                && size.is_multiple_of(pattern_size),
            CL_INVALID_VALUE,
        )?;
        // SAFETY: as the caller promises.
        let pattern = unsafe { std::slice::from_raw_parts(pattern.cast::<u8>(), pattern_size) };
        Ok(Self {
            destination: Part {
                memory,
                offset: offset as u64,
                length: size as u64,
            },
            pattern: pattern.to_vec(),
        })
    }

    /// The fills with short patterns that it is made of: of every so many bytes, some.
    fn pieces(&self) -> impl Iterator<Item = (Part, &[u8], [Step; 1])> {
        let length = self.pattern.len() as u64;
        let count = self.destination.length / length;
        let pieces = self.pattern.chunks(SHORT_PATTERN).enumerate();
        pieces.map(move |(number, pattern)| {
            let row = pattern.len() as u64;
            let part = Part {
                memory: self.destination.memory.clone(),
                offset: self.destination.offset + number as u64 * SHORT_PATTERN as u64,
                length: (count - 1) * length + row,
            };
            let step = Step {
                count,
                source_stride: 0,
                destination_stride: length,
            };
            (part, pattern, [step])
        })
    }

    /// Gives also the events that tell its times, if it is made of several fills.
    fn enqueue(&self, command: &Command<'_>) -> Result<(Event, Waits)> {
        if self.destination.length == 0 {
            return Ok((command.core_nothing()?, Waits::new()));
        }
        let queue = &command.queue.core;
        command.enqueue(|waits| {
            if self.pattern.len() <= SHORT_PATTERN {
                let destination = self.destination.access(AccessMode::Overwrite);
                let fill = queue.fill(destination, &self.pattern, waits)?;
                return Ok((fill, Waits::new()));
            }
            let mut ends = Waits::new();
            for (part, pattern, steps) in self.pieces() {
                let access = part.access(AccessMode::ReadWrite);
                let row = pattern.len() as u64;
                ends.push(queue.fill_rows(access, pattern, row, &steps, waits)?);
            }
            Ok((queue.marker(&ends)?, ends))
        })
    }

    pub(crate) fn record(
        &self,
        recording: &Recording,
        queue: &Queue,
        after: &[Node],
    ) -> Result<Node> {
        let queue = &queue.core;
        if self.destination.length == 0 {
            return Ok(recording.marker(queue, after)?);
        }
        if self.pattern.len() <= SHORT_PATTERN {
            let destination = self.destination.access(AccessMode::Overwrite);
            return Ok(recording.fill(queue, destination, &self.pattern, after)?);
        }
        let mut ends: SmallVec<[Node; 8]> = SmallVec::new();
        for (part, pattern, steps) in self.pieces() {
            let access = part.access(AccessMode::ReadWrite);
            let row = pattern.len() as u64;
            ends.push(recording.fill_rows(queue, access, pattern, row, &steps, after)?);
        }
        Ok(recording.marker(queue, &ends)?)
    }
}

/// Host memory of the program's, which it lends until the command is over.
///
/// # Safety
/// As OpenCL has it: it is valid for so many bytes until then, and nobody else uses it in a way
/// that races.
pub(super) unsafe fn host(pointer: *mut c_void, offset: u64, length: u64) -> HostMemory {
    let first = pointer.cast::<u8>().wrapping_add(offset as usize);
    // SAFETY: as the caller promises.
    unsafe { HostMemory::new(first, length as usize, None) }
}

#[unsafe(export_name = "clEnqueueReadBuffer")]
pub(crate) unsafe extern "C" fn enqueue_read_buffer(
    queue: cl_command_queue,
    buffer: cl_mem,
    blocking: cl_bool,
    offset: usize,
    size: usize,
    pointer: *mut c_void,
    count: cl_uint,
    events: *const cl_event,
    event: *mut cl_event,
) -> cl_int {
    entry(|| {
        let queue = Ref::<Queue>::of(queue)?;
        let buffer = super::buffer(&queue, buffer)?;
        let (offset, size) = (offset as u64, size as u64);
        ensure(
            buffer.holds(offset, size) && !pointer.is_null(),
            CL_INVALID_VALUE,
        )?;
        ensure(buffer.is_readable(), CL_INVALID_OPERATION)?;
        // SAFETY: as the program promises.
        let command = unsafe { Command::new(&queue, count, events, event) }?;
        if size == 0 {
            return command.nothing(CL_COMMAND_READ_BUFFER, blocking);
        }
        let source = buffer.access(offset, size, AccessMode::Read);
        // SAFETY: the program lends so many bytes.
        let destination = unsafe { host(pointer, 0, size) };
        let core = command.with_host_memory(|waits| {
            Ok(queue.core.read(source, destination, size, &[], waits)?)
        })?;
        command.give_and_wait(core, CL_COMMAND_READ_BUFFER, blocking)
    })
}

#[unsafe(export_name = "clEnqueueWriteBuffer")]
pub(crate) unsafe extern "C" fn enqueue_write_buffer(
    queue: cl_command_queue,
    buffer: cl_mem,
    blocking: cl_bool,
    offset: usize,
    size: usize,
    pointer: *const c_void,
    count: cl_uint,
    events: *const cl_event,
    event: *mut cl_event,
) -> cl_int {
    entry(|| {
        let queue = Ref::<Queue>::of(queue)?;
        let buffer = super::buffer(&queue, buffer)?;
        let (offset, size) = (offset as u64, size as u64);
        ensure(
            buffer.holds(offset, size) && !pointer.is_null(),
            CL_INVALID_VALUE,
        )?;
        ensure(buffer.is_writable(), CL_INVALID_OPERATION)?;
        // SAFETY: as the program promises.
        let command = unsafe { Command::new(&queue, count, events, event) }?;
        if size == 0 {
            return command.nothing(CL_COMMAND_WRITE_BUFFER, blocking);
        }
        let destination = buffer.access(offset, size, AccessMode::Overwrite);
        // SAFETY: the program lends so many bytes, which are only read.
        let source = unsafe { host(pointer.cast_mut(), 0, size) };
        let core = command.with_host_memory(|waits| {
            Ok(queue.core.write(source, destination, size, &[], waits)?)
        })?;
        command.give_and_wait(core, CL_COMMAND_WRITE_BUFFER, blocking)
    })
}

#[unsafe(export_name = "clEnqueueCopyBuffer")]
pub(crate) unsafe extern "C" fn enqueue_copy_buffer(
    queue: cl_command_queue,
    source: cl_mem,
    destination: cl_mem,
    source_offset: usize,
    destination_offset: usize,
    size: usize,
    count: cl_uint,
    events: *const cl_event,
    event: *mut cl_event,
) -> cl_int {
    entry(|| {
        let queue = Ref::<Queue>::of(queue)?;
        let copy = Copy::of_range(
            &queue,
            source,
            destination,
            source_offset,
            destination_offset,
            size,
        )?;
        // SAFETY: as the program promises.
        let command = unsafe { Command::new(&queue, count, events, event) }?;
        let core = copy.enqueue(&command)?;
        command.give(core, CL_COMMAND_COPY_BUFFER)
    })
}

#[unsafe(export_name = "clEnqueueReadBufferRect")]
pub(crate) unsafe extern "C" fn enqueue_read_buffer_rect(
    queue: cl_command_queue,
    buffer: cl_mem,
    blocking: cl_bool,
    buffer_origin: *const usize,
    host_origin: *const usize,
    region: *const usize,
    buffer_row_pitch: usize,
    buffer_slice_pitch: usize,
    host_row_pitch: usize,
    host_slice_pitch: usize,
    pointer: *mut c_void,
    count: cl_uint,
    events: *const cl_event,
    event: *mut cl_event,
) -> cl_int {
    entry(|| {
        let queue = Ref::<Queue>::of(queue)?;
        let buffer = super::buffer(&queue, buffer)?;
        ensure(!pointer.is_null(), CL_INVALID_VALUE)?;
        // SAFETY: the program passes three numbers each.
        let (from, to, region) =
            unsafe { (three(buffer_origin)?, three(host_origin)?, three(region)?) };
        let source = Rectangle::of_buffer(from, region, buffer_row_pitch, buffer_slice_pitch)?;
        let destination = Rectangle::of_buffer(to, region, host_row_pitch, host_slice_pitch)?;
        ensure(buffer.holds(source.offset, source.span), CL_INVALID_VALUE)?;
        ensure(buffer.is_readable(), CL_INVALID_OPERATION)?;
        // SAFETY: as the program promises.
        let command = unsafe { Command::new(&queue, count, events, event) }?;
        // SAFETY: the program lends the bytes of the rectangle.
        let memory = unsafe { host(pointer, destination.offset, destination.span) };
        let core = command.with_host_memory(|waits| {
            Ok(queue.core.read(
                buffer.access(source.offset, source.span, AccessMode::Read),
                memory,
                region[0],
                &steps(region, &source, &destination),
                waits,
            )?)
        })?;
        command.give_and_wait(core, CL_COMMAND_READ_BUFFER_RECT, blocking)
    })
}

#[unsafe(export_name = "clEnqueueWriteBufferRect")]
pub(crate) unsafe extern "C" fn enqueue_write_buffer_rect(
    queue: cl_command_queue,
    buffer: cl_mem,
    blocking: cl_bool,
    buffer_origin: *const usize,
    host_origin: *const usize,
    region: *const usize,
    buffer_row_pitch: usize,
    buffer_slice_pitch: usize,
    host_row_pitch: usize,
    host_slice_pitch: usize,
    pointer: *const c_void,
    count: cl_uint,
    events: *const cl_event,
    event: *mut cl_event,
) -> cl_int {
    entry(|| {
        let queue = Ref::<Queue>::of(queue)?;
        let buffer = super::buffer(&queue, buffer)?;
        ensure(!pointer.is_null(), CL_INVALID_VALUE)?;
        // SAFETY: the program passes three numbers each.
        let (to, from, region) =
            unsafe { (three(buffer_origin)?, three(host_origin)?, three(region)?) };
        let destination = Rectangle::of_buffer(to, region, buffer_row_pitch, buffer_slice_pitch)?;
        let source = Rectangle::of_buffer(from, region, host_row_pitch, host_slice_pitch)?;
        ensure(
            buffer.holds(destination.offset, destination.span),
            CL_INVALID_VALUE,
        )?;
        ensure(buffer.is_writable(), CL_INVALID_OPERATION)?;
        // SAFETY: as the program promises.
        let command = unsafe { Command::new(&queue, count, events, event) }?;
        // SAFETY: the program lends the bytes of the rectangle, which are only read.
        let memory = unsafe { host(pointer.cast_mut(), source.offset, source.span) };
        let core = command.with_host_memory(|waits| {
            Ok(queue.core.write(
                memory,
                buffer.access(destination.offset, destination.span, AccessMode::ReadWrite),
                region[0],
                &steps(region, &source, &destination),
                waits,
            )?)
        })?;
        command.give_and_wait(core, CL_COMMAND_WRITE_BUFFER_RECT, blocking)
    })
}

#[unsafe(export_name = "clEnqueueCopyBufferRect")]
pub(crate) unsafe extern "C" fn enqueue_copy_buffer_rect(
    queue: cl_command_queue,
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
    events: *const cl_event,
    event: *mut cl_event,
) -> cl_int {
    entry(|| {
        let queue = Ref::<Queue>::of(queue)?;
        // SAFETY: the program passes three numbers each.
        let copy = unsafe {
            Copy::of_rectangle(
                &queue,
                (source, destination),
                (source_origin, destination_origin),
                region,
                (source_row_pitch, source_slice_pitch),
                (destination_row_pitch, destination_slice_pitch),
            )
        }?;
        // SAFETY: as the program promises.
        let command = unsafe { Command::new(&queue, count, events, event) }?;
        let core = copy.enqueue(&command)?;
        command.give(core, CL_COMMAND_COPY_BUFFER_RECT)
    })
}

#[unsafe(export_name = "clEnqueueFillBuffer")]
pub(crate) unsafe extern "C" fn enqueue_fill_buffer(
    queue: cl_command_queue,
    buffer: cl_mem,
    pattern: *const c_void,
    pattern_size: usize,
    offset: usize,
    size: usize,
    count: cl_uint,
    events: *const cl_event,
    event: *mut cl_event,
) -> cl_int {
    entry(|| {
        let queue = Ref::<Queue>::of(queue)?;
        // SAFETY: the program passes so many bytes.
        let fill = unsafe { Fill::new(&queue, buffer, (pattern, pattern_size), offset, size) }?;
        // SAFETY: as the program promises.
        let command = unsafe { Command::new(&queue, count, events, event) }?;
        let (core, pieces) = fill.enqueue(&command)?;
        command.give_timed(core, pieces, CL_COMMAND_FILL_BUFFER)
    })
}
