//! Launches: from the passed values to a kernel's arguments and calls; and the fault records.

use super::Compiled;
use super::grids::{Shape, put_apart};
use crate::device::Device;
use crate::memory::{Allocation, fill_with_zeros};
use crate::native::{CallError, Called, Event, Kernel, Memory, Queue, list, named};
use crate::pinned::Place;
use crate::queues::Queues;
use cl3::types::{CL_FALSE, cl_event, cl_mem};
use quipu_device_queue::launch::{self as passing, NumberBytes, Passing, axes, mismatch};
use quipu_device_queue::{Obstacle, VendorDevice, error};
use quipu_kernel_ir::print::FAULT_WORDS;
use quipu_kernel_ir::{Printed, SharedLength};
use quipu_scheduler::access::Argument;
use quipu_scheduler::error::{ErrorKind, Result};
use quipu_scheduler::portable::Extents;
use quipu_scheduler::{AccessMode, Passed, PassedParameter};
use smallvec::SmallVec;
use std::ffi::c_void;
use std::mem::MaybeUninit;
use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError};

/// A fault record on its way to the host.
#[derive(Debug)]
pub(crate) struct FaultRead {
    compiled: Arc<Compiled>,
    record: FaultRecord,
}

/// The record of faults of a kernel, used again once it was found empty.
#[derive(Debug)]
pub(crate) struct FaultRecord {
    /// The record on the device, where it is empty before the kernel.
    memory: Memory,
    /// Its copy on the host.
    place: Place<FAULT_WORDS>,
}

impl FaultRead {
    /// The result in the record, once it is here.
    pub(crate) fn outcome(self, device: &Device, kernel: &str) -> Result<()> {
        let fault = self
            .compiled
            .module()
            .and_then(|(_, printed)| printed.fault(&self.record.place.words()));
        let Some(fault) = fault else {
            let mut records = device
                .records
                .lock()
                .unwrap_or_else(PoisonError::into_inner);
            records.push(self.record);
            return Ok(());
        };
        Err(error::fault(kernel, fault.to_string()))
    }
}

/// A launch in its device's queue.
#[derive(Debug)]
pub(crate) struct Launched {
    /// The ends of the pieces before the last.
    pub(crate) earlier: Vec<Event>,
    /// The kernel's end.
    pub(crate) signal: Event,
    /// The end of all of it, if that is later.
    pub(crate) done: Option<Event>,
    pub(crate) fault: Option<FaultRead>,
    /// The reason for which the rest of it is not in the queue: it fails when its part there is
    /// over.
    pub(crate) failure: Option<CallError>,
    /// Parts of memory objects, for the kernel.
    pub(crate) parts: Vec<Memory>,
}

/// A kernel's pieces in a queue.
struct Pieces {
    earlier: Vec<Event>,
    last: Event,
    /// The reason for which there are no more of them.
    failure: Option<CallError>,
}

/// Bytes of a fault record.
const FAULT_BYTES: usize = size_of::<[u32; FAULT_WORDS]>();
/// The most blocks along an axis that a call launches: as many as every device takes.
const MOST_BLOCKS: [u64; 3] = [1 << 20, 1 << 15, 1 << 15];

/// First blocks and numbers of blocks along an axis.
fn pieces(blocks: u64, most: u64) -> impl Iterator<Item = (u64, u64)> + Clone {
    (0..blocks.div_ceil(most)).map(move |piece| {
        let first = piece * most;
        (first, most.min(blocks - first))
    })
}

/// An argument of a kernel.
#[derive(Clone, Copy)]
enum Value<'a> {
    /// The bytes of a user's value, with those between its fields.
    Bytes(&'a [MaybeUninit<u8>]),
    /// A number in so many bytes, such as the length of memory.
    Number(u64, usize),
    /// The division of the work.
    Division(&'a Passing<'a>),
    /// A memory object; with its number, if it is an allocation.
    Object(cl_mem, Option<u64>),
    Local(usize),
}

impl Value<'_> {
    fn of(allocation: &Allocation) -> Self {
        Self::Object(allocation.memory.raw(), Some(allocation.number))
    }
}

/// A kernel, and the last values of its arguments: of those that need not be set again if they are
/// to be the same. (A memory object is known by its number and not kept for this: PoCL has it
/// released while its device is there.)
#[derive(Debug)]
pub(super) struct Callable {
    kernel: Kernel,
    set: Vec<Set>,
}

/// See there.
#[derive(Debug)]
enum Set {
    Anything,
    Number(u64),
    Division([Extents; 3]),
    Allocation(u64),
    Local(usize),
}

impl Set {
    fn is(&self, value: Value<'_>) -> bool {
        match (self, value) {
            (Set::Number(set), Value::Number(number, _)) => *set == number,
            (
                Set::Division([blocks, threads, elements]),
                Value::Division(Passing { passed, .. }),
            ) => {
                *blocks == passed.blocks
                    && *threads == passed.threads
                    && *elements == passed.elements
            }
            (Set::Allocation(set), Value::Object(_, number)) => Some(*set) == number,
            (Set::Local(set), Value::Local(bytes)) => *set == bytes,
            _ => false,
        }
    }
}

impl From<Value<'_>> for Set {
    fn from(value: Value<'_>) -> Self {
        match value {
            Value::Bytes(_) | Value::Object(_, None) => Set::Anything,
            Value::Object(_, Some(number)) => Set::Allocation(number),
            Value::Number(number, _) => Set::Number(number),
            Value::Division(Passing { passed, .. }) => Set::Division([
                passed.blocks.clone(),
                passed.threads.clone(),
                passed.elements.clone(),
            ]),
            Value::Local(bytes) => Set::Local(bytes),
        }
    }
}

impl Callable {
    /// A kernel whose arguments nobody else sets.
    pub(super) fn new(kernel: Kernel) -> Self {
        Self {
            kernel,
            set: Vec::new(),
        }
    }

    pub(super) fn kernel(&self) -> &Kernel {
        &self.kernel
    }

    /// Sets all arguments, except those that are set.
    fn set<'a>(
        &mut self,
        values: impl Iterator<Item = Result<Value<'a>>>,
    ) -> std::result::Result<(), Obstacle<CallError>> {
        for (number, value) in values.enumerate() {
            let value = value?;
            match self.set.get(number) {
                Some(set) if set.is(value) => continue,
                Some(_) => {}
                None => self.set.push(Set::Anything),
            }
            // If the call fails, the state of the argument is unknown.
            self.set[number] = Set::Anything;
            let little_endian: [u8; 8];
            let division: NumberBytes;
            let object: cl_mem;
            let (size, pointer): (usize, *const c_void) = match value {
                Value::Bytes(bytes) => (bytes.len(), bytes.as_ptr().cast()),
                Value::Number(number, size) => {
                    little_endian = number.to_le_bytes();
                    (size, little_endian.as_ptr().cast())
                }
                Value::Division(passing) => {
                    division = passing.division();
                    (division.len(), division.as_ptr().cast())
                }
                Value::Object(of, _) => {
                    object = of;
                    (size_of::<cl_mem>(), (&raw const object).cast())
                }
                Value::Local(bytes) => (bytes, std::ptr::null()),
            };
            let kernel = self.kernel.raw();
            // SAFETY: as many bytes as said, or none for local memory; OpenCL copies them. Nobody
            // else sets this kernel's arguments meanwhile: it is ours alone.
            let called =
                unsafe { cl3::kernel::set_kernel_arg(kernel, number as u32, size, pointer) };
            named("clSetKernelArg", called)?;
            self.set[number] = value.into();
        }
        Ok(())
    }
}

/// The parts of a launch.
pub(crate) struct Launch<'a> {
    pub(crate) device: &'a Device,
    pub(crate) queue: &'a Queue,
    /// Of the device: its fault record is read in a queue for reads, not among kernels, the next of
    /// which would begin after that.
    pub(crate) queues: &'a Queues,
    pub(crate) compiled: &'a Arc<Compiled>,
    pub(crate) passed: &'a Passed,
    /// The command's accesses, in order.
    pub(crate) arguments: &'a [Argument<'a>],
    /// Their memory on the device.
    pub(crate) memories: SmallVec<[&'a Allocation; 8]>,
}

impl Launch<'_> {
    /// Puts it into the queue.
    pub(crate) fn put(
        self,
        waits: &[cl_event],
    ) -> std::result::Result<Launched, Obstacle<CallError>> {
        let Some((module, printed)) = self.compiled.module() else {
            return self.put_text(waits);
        };
        self.check_shared(printed)?;
        let (fault, zeroed) = if printed.sites.is_empty() {
            (None, None)
        } else {
            let (record, zeroed) = self.record()?;
            (Some(record), zeroed)
        };
        let passing = Passing {
            module,
            printed,
            passed: self.passed,
            arguments: Argument::packed(self.arguments),
        };
        let values = self.values(&passing, fault.as_ref().map(|record| &record.memory));
        let mut waits: SmallVec<[cl_event; 8]> = waits.into();
        waits.extend(zeroed.as_ref().map(Event::raw));
        let Pieces {
            earlier,
            last: kernel,
            mut failure,
        } = self.call(values, &waits)?;
        let launched = |failure| Launched {
            earlier,
            signal: kernel.clone(),
            done: None,
            fault: None,
            failure,
            parts: Vec::new(),
        };
        let mut record = match fault {
            Some(record) if failure.is_none() => record,
            _ => return Ok(launched(failure)),
        };
        let queue = match self.queues.of_record(self.queue) {
            Ok(queue) => queue.feed(),
            Err(error) => {
                // The kernel is in its queue.
                failure = Some(error);
                return Ok(launched(failure));
            }
        };
        let waits = [kernel.raw()];
        // SAFETY: the record is kept until the command is over; both sides have so many bytes.
        let read = unsafe {
            cl3::command_queue::enqueue_read_buffer(
                queue.raw(),
                record.memory.raw(),
                CL_FALSE,
                0,
                FAULT_BYTES,
                record.place.start(),
                1,
                waits.as_ptr(),
            )
        };
        let done = match named("clEnqueueReadBuffer", read) {
            Ok(done) => Event::new(done),
            Err(error) => {
                // The kernel is in the queue.
                failure = Some(error);
                return Ok(launched(failure));
            }
        };
        let fault = FaultRead {
            compiled: self.compiled.clone(),
            record,
        };
        Ok(Launched {
            done: Some(done),
            fault: Some(fault),
            ..launched(None)
        })
    }

    /// A fault record, and the event that empties it if it is new. It is not made of the host's
    /// bytes: NVIDIA's call for that waits for commands on the device.
    fn record(&self) -> Called<(FaultRecord, Option<Event>)> {
        let known = self
            .device
            .records
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .pop();
        if let Some(known) = known {
            return Ok((known, None));
        }
        let memory = Memory::allocate(self.device.platform.context()?, FAULT_BYTES)?;
        let zeroed = fill_with_zeros(self.queue, &memory, FAULT_BYTES)?;
        let place = Place::of(&self.device.places);
        Ok((FaultRecord { memory, place }, Some(zeroed)))
    }

    fn check_shared(&self, printed: &Printed) -> Result<()> {
        let lengths = self.passed.shared.iter().copied().map(Some);
        let lengths = lengths.chain(std::iter::repeat(None));
        let bytes = printed.shared.iter().zip(lengths).map(|(array, given)| {
            let length = match (array.length, given) {
                (SharedLength::Fixed(length), _) => length,
                (SharedLength::Launch, given) => given.unwrap_or(0),
            };
            length.saturating_mul(array.element_size)
        });
        let asked = bytes.fold(0_u64, u64::saturating_add);
        passing::check_shared(self.device, asked)
    }

    /// The value of each parameter of a printed kernel.
    fn values<'a>(
        &'a self,
        passing: &'a Passing<'a>,
        record: Option<&'a Memory>,
    ) -> impl Iterator<Item = Result<Value<'a>>> {
        let values = passing.values().zip(&passing.printed.parameters);
        values.map(move |(value, entry)| {
            let value = match value? {
                passing::Value::Bytes(bytes) => Some(Value::Bytes(bytes)),
                passing::Value::Number(number) => {
                    let size = entry.size as usize;
                    (size <= size_of::<u64>()).then_some(Value::Number(number, size))
                }
                passing::Value::Division => Some(Value::Division(passing)),
                passing::Value::Memory(number) => {
                    let memory = self.memories.get(number);
                    memory.map(|allocation| Value::of(allocation))
                }
                passing::Value::Shared(bytes) => Some(Value::Local(bytes)),
                passing::Value::Fault => record.map(|record| Value::Object(record.raw(), None)),
                // CUDA C's.
                passing::Value::SharedStart(_) | passing::Value::GridBarrier => None,
            };
            value.ok_or_else(|| mismatch(&entry.name))
        })
    }

    /// Puts a kernel, whose arguments are set, into the queue: of a grid, `piece` along each axis,
    /// in blocks.
    fn enqueue(
        &self,
        kernel: &Kernel,
        dimensions: u32,
        piece: [(u64, u64); 3],
        waits: &[cl_event],
    ) -> Called<Event> {
        let threads = axes(&self.passed.threads);
        // The device refuses a size that is too large for a number.
        let items = |blocks: u64, axis: usize| blocks.saturating_mul(threads[axis]) as usize;
        let begins = &self.passed.offset;
        let offset: [usize; 3] = std::array::from_fn(|axis| {
            let begin = begins.iter().rev().nth(axis).copied().unwrap_or(0);
            items(piece[axis].0, axis).saturating_add(begin as usize)
        });
        // Blocks of several sizes are those of a text, whose launch is one piece.
        let all = self.passed.all_threads.iter().rev();
        let mut global: [usize; 3] = std::array::from_fn(|axis| items(piece[axis].1, axis));
        for (size, all) in global.iter_mut().zip(all) {
            *size = *all as usize;
        }
        let local = threads.map(|threads| threads as usize);
        // None where it is none: there is less for a library to look at.
        let first = match offset {
            [0, 0, 0] => std::ptr::null(),
            _ => offset.as_ptr(),
        };
        let call = |waits: &[cl_event]| {
            // SAFETY: three sizes each; as many are read as there are dimensions. The arguments are
            // set; their memory is the command's until it is over.
            let put = unsafe {
                cl3::command_queue::enqueue_nd_range_kernel(
                    self.queue.raw(),
                    kernel.raw(),
                    dimensions,
                    first,
                    global.as_ptr(),
                    local.as_ptr(),
                    waits.len() as u32,
                    list(waits),
                )
            };
            named("clEnqueueNDRangeKernel", put).map(Event::new)
        };
        let platform = &self.device.platform;
        if !platform.keeps_grids_apart.load(Ordering::Relaxed) {
            return call(waits);
        }
        let shape = Shape {
            offset,
            global,
            local,
        };
        let to = (self.device.whereabouts(platform.context()?), self.queue);
        put_apart(self.compiled.identity, shape, to, waits, call)
    }

    /// Has a printed kernel run, in as many pieces as it takes: it finds its place by the grid's
    /// offset.
    fn call<'a>(
        &self,
        values: impl Iterator<Item = Result<Value<'a>>>,
        waits: &[cl_event],
    ) -> std::result::Result<Pieces, Obstacle<CallError>> {
        let mut callable = self.compiled.callable();
        callable.set(values)?;
        let kernel = callable.kernel();
        let blocks = axes(&self.passed.blocks);
        let (mut earlier, mut last) = (Vec::new(), None::<Event>);
        let mut failure = None;
        'grid: for z in pieces(blocks[2], MOST_BLOCKS[2]) {
            for y in pieces(blocks[1], MOST_BLOCKS[1]) {
                for x in pieces(blocks[0], MOST_BLOCKS[0]) {
                    let before = last.as_ref().map(Event::raw);
                    let after = before.as_ref().map_or(waits, std::slice::from_ref);
                    match self.enqueue(kernel, 3, [x, y, z], after) {
                        Ok(event) => earlier.extend(last.replace(event)),
                        Err(error) if last.is_none() => return Err(error.into()),
                        Err(error) => {
                            failure = Some(error);
                            break 'grid;
                        }
                    }
                }
            }
        }
        let last = last.ok_or_else(|| Obstacle::Error(mismatch("the grid")))?;
        Ok(Pieces {
            earlier,
            last,
            failure,
        })
    }

    /// Has a user's kernel run: in one call, with the launch's own dimensions, for it may ask for
    /// its group, for the numbers of groups and threads, and for the number of dimensions.
    fn call_text(
        &self,
        values: &[Value<'_>],
        waits: &[cl_event],
    ) -> std::result::Result<Event, Obstacle<CallError>> {
        let mut callable = self.compiled.callable();
        callable.set(values.iter().copied().map(Ok))?;
        let dimensions = self.passed.blocks.len().clamp(1, 3) as u32;
        let whole = axes(&self.passed.blocks).map(|blocks| (0, blocks));
        Ok(self.enqueue(callable.kernel(), dimensions, whole, waits)?)
    }

    /// Puts a launch of a user's text: its parameters are the passed ones.
    fn put_text(&self, waits: &[cl_event]) -> std::result::Result<Launched, Obstacle<CallError>> {
        let given = self.passed.parameters.len();
        if given != self.compiled.arguments as usize {
            return Err(Obstacle::Error(
                ErrorKind::InvalidArgument {
                    what: "launch a kernel",
                    problem: format!(
                        "it has {}, and is passed {given}; pass an argument for each",
                        match self.compiled.arguments {
                            1 => "1 parameter".to_owned(),
                            count => format!("{count} parameters"),
                        }
                    ),
                }
                .into(),
            ));
        }
        let mut parts = Vec::new();
        let mut memories = self.arguments.iter().zip(&self.memories);
        let mut values = Vec::with_capacity(given);
        for parameter in &self.passed.parameters {
            values.push(match parameter {
                PassedParameter::Value(bytes) => Value::Bytes(bytes),
                PassedParameter::Local(bytes) => Value::Local(*bytes as usize),
                PassedParameter::Memory { .. } => {
                    let (argument, allocation) = memories
                        .next()
                        .ok_or_else(|| mismatch("what is passed for it"))?;
                    if argument.offset() == 0 {
                        Value::of(allocation)
                    } else {
                        let part = self.part(argument, allocation)?;
                        let object = part.raw();
                        parts.push(part);
                        Value::Object(object, None)
                    }
                }
            });
        }
        let kernel = self.call_text(&values, waits)?;
        Ok(Launched {
            earlier: Vec::new(),
            signal: kernel,
            done: None,
            fault: None,
            failure: None,
            parts,
        })
    }

    /// A part of a memory object, as an object.
    fn part(
        &self,
        argument: &Argument<'_>,
        allocation: &Allocation,
    ) -> std::result::Result<Memory, Obstacle<CallError>> {
        let alignment = self.device.text.part_alignment.unwrap_or(1);
        if !argument.offset().is_multiple_of(alignment) {
            return Err(Obstacle::Error(
                ErrorKind::InvalidArgument {
                    what: "launch a kernel",
                    problem: format!(
                        "an argument starts {} bytes into its buffer, and device '{}' wants a multiple of {alignment} \
                         for a kernel in OpenCL C; pass the whole buffer and where to start",
                        argument.offset(),
                        self.device.name()
                    ),
                }
                .into(),
            ));
        }
        let flags = match argument.mode() {
            AccessMode::Read => cl3::memory::CL_MEM_READ_ONLY,
            _ => cl3::memory::CL_MEM_READ_WRITE,
        };
        let region = cl3::types::cl_buffer_region {
            origin: argument.offset() as usize,
            size: argument.length() as usize,
        };
        // SAFETY: the region is one, and lies within the buffer.
        let made = unsafe {
            cl3::memory::create_sub_buffer(
                allocation.memory.raw(),
                flags,
                cl3::memory::CL_BUFFER_CREATE_TYPE_REGION,
                (&raw const region).cast(),
            )
        };
        Ok(Memory::new(named("clCreateSubBuffer", made)?))
    }
}
