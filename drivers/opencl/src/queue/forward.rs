//! What a command becomes on its device: calls that put it into one of the device's queues, with events of what it waits
//! for.

use super::ledger::Doer;
use crate::Shared;
use crate::device::{Device, Lane, Queues};
use crate::memory::Allocation;
use crate::native::{CallError, Called, Event, Memory, Queue, list, named};
use crate::program::{Compiled, FaultRead, Launch, Refusal};
use crate::region::{Part, Shape};
use cl3::types::{CL_FALSE, cl_event};
use quipu_core::access::Argument;
use quipu_core::operation::{Endpoint, Fill, Migration, Operation, Transfer};
use quipu_core::{Command, Error, Passed, SpaceId, clock};
use std::sync::Arc;

/// A command on its device.
pub(super) struct Flight {
    /// The ends of its calls before the one that gave the signal.
    pub(super) earlier: Vec<Event>,
    /// What others on the device wait for.
    pub(super) signal: Event,
    /// What says that it is over; often the same.
    pub(super) done: Event,
    /// Whether it has timestamps, and between which times it was put into its queue.
    pub(super) put: Option<(u64, u64)>,
    /// Which of the device's queues it is in, for traces.
    pub(super) lane: Lane,
    /// The fault record of a kernel, on its way here.
    pub(super) fault: Option<FaultRead>,
    /// Why the rest of its calls were not made: what is in the queue runs, then the command fails.
    pub(super) failure: Option<CallError>,
    /// What the device uses until it is over.
    _keep: Kept,
}

/// What a device uses until a command is over.
#[derive(Default)]
struct Kept {
    /// Bytes that it reads.
    _bytes: Vec<Vec<u8>>,
    /// Parts of memory objects.
    _parts: Vec<Memory>,
}

/// Why a command is not on its device.
#[derive(Debug)]
pub(super) enum Obstacle {
    /// OpenCL said no.
    Call(CallError),
    /// Something else did.
    Error(Error),
}

impl From<CallError> for Obstacle {
    fn from(error: CallError) -> Self {
        Self::Call(error)
    }
}

impl From<Error> for Obstacle {
    fn from(error: Error) -> Self {
        Self::Error(error)
    }
}

/// Who does a command.
pub(super) fn doer_of(command: &Command) -> Doer {
    match command.operation() {
        Operation::HostTask => Doer::Host,
        _ if is_nothing(command) => Doer::Host,
        Operation::Migrate(migration) if migration.content.is_some() => Doer::Host,
        Operation::Transfer(transfer) if !is_for_a_device(command, transfer) => Doer::Host,
        Operation::Transfer(transfer) if matches!(transfer.destination, Endpoint::Host(_)) => {
            Doer::DeviceForUser
        }
        _ => Doer::Device,
    }
}

/// True if a command makes no call and does nothing: it is over when what it waits for is.
pub(super) fn is_nothing(command: &Command) -> bool {
    matches!(command.operation(), Operation::Launch { groups: 0 })
}

/// True if a transfer takes few calls, and OpenCL has them: within one memory object it copies rectangles only between
/// places where rows are as far apart.
fn is_for_a_device(command: &Command, transfer: &Transfer) -> bool {
    let shape = Shape::of(transfer);
    let memory = |endpoint: &Endpoint| match endpoint {
        Endpoint::Argument(index) => {
            let memory = command.arguments()[*index].memory();
            Some(std::ptr::from_ref(memory))
        }
        Endpoint::Host(_) => None,
    };
    let source = memory(&transfer.source);
    let within_one = source.is_some() && source == memory(&transfer.destination);
    shape.is_for_a_device() && (!within_one || shape.has_equal_pitches())
}

/// An argument's bytes on a device.
pub(crate) struct Bytes<'a> {
    pub(crate) allocation: &'a Allocation,
    pub(crate) offset: u64,
    pub(crate) length: u64,
}

/// Where an argument is in a space, allocated if need be.
pub(crate) fn bytes_in<'a>(argument: &'a Argument, space: SpaceId) -> Result<Bytes<'a>, Error> {
    let address = argument.memory().allocation(space)?.address;
    Ok(Bytes {
        // SAFETY: just given by the core, which keeps it for as long as a command that uses it is not over.
        allocation: unsafe { Allocation::of(address) },
        offset: argument.offset(),
        length: argument.length(),
    })
}

/// The space that a command's device works in.
pub(crate) fn space_of(command: &Command) -> SpaceId {
    command
        .queue()
        .device()
        .map_or(SpaceId::HOST, quipu_core::Device::space)
}

/// What is put into one of a device's queues: calls, one after the other.
struct Chain<'a> {
    queue: &'a Queue,
    lane: Lane,
    /// What the first call waits for.
    waits: Vec<Event>,
    /// The ends of the calls so far; each waits for the one before.
    made: Vec<Event>,
    /// Why no more calls are made.
    failure: Option<CallError>,
    keep: Vec<Vec<u8>>,
}

impl<'a> Chain<'a> {
    fn new(queues: &'a Queues, lane: Lane, waits: Vec<Event>) -> Self {
        Self {
            queue: queues.of_lane(lane),
            lane,
            waits,
            made: Vec::new(),
            failure: None,
            keep: Vec::new(),
        }
    }

    /// Waits for what fills fresh memory with zeros, too.
    fn uses(&mut self, bytes: &Bytes<'_>) -> Called<()> {
        self.waits.extend(bytes.allocation.ready()?);
        Ok(())
    }

    /// Makes a call, which is given the queue and what to wait for, and has the next wait for it. Only the first fails
    /// at once, with nothing in the queue. Where a later one does, those before it run: what they use is kept until they
    /// are over, and the command fails then. No more calls are made.
    fn call(
        &mut self,
        name: &'static str,
        call: impl FnOnce(cl3::types::cl_command_queue, u32, *const cl_event) -> Result<cl_event, i32>,
    ) -> Called<()> {
        if self.failure.is_some() {
            return Ok(());
        }
        let after = self
            .made
            .last()
            .map_or(&self.waits[..], std::slice::from_ref);
        let waits: Vec<cl_event> = after.iter().map(Event::raw).collect();
        let event = call(self.queue.raw(), waits.len() as u32, list(&waits));
        match named(name, event) {
            Ok(event) => self.made.push(Event::new(event)),
            Err(error) if self.made.is_empty() => return Err(error),
            Err(error) => self.failure = Some(error),
        }
        Ok(())
    }

    /// The end of the last call.
    fn end(mut self) -> Called<Flight> {
        let last = match self.made.pop() {
            Some(last) => last,
            None => {
                // Nothing was called.
                let waits: Vec<cl_event> = self.waits.iter().map(Event::raw).collect();
                self.queue.marker(&waits)?
            }
        };
        Ok(Flight {
            earlier: self.made,
            signal: last.clone(),
            done: last,
            put: None,
            lane: self.lane,
            fault: None,
            failure: self.failure,
            _keep: Kept {
                _bytes: self.keep,
                _parts: Vec::new(),
            },
        })
    }

    fn read(&mut self, from: &Bytes<'_>, at: u64, to: *mut u8, length: u64) -> Called<()> {
        self.call("clEnqueueReadBuffer", |queue, count, waits| {
            // SAFETY: both ranges are the command's, there until it is over.
            unsafe {
                cl3::command_queue::enqueue_read_buffer(
                    queue,
                    from.allocation.memory.raw(),
                    CL_FALSE,
                    (from.offset + at) as usize,
                    length as usize,
                    to.cast(),
                    count,
                    waits,
                )
            }
        })
    }

    fn write(&mut self, from: *const u8, to: &Bytes<'_>, at: u64, length: u64) -> Called<()> {
        self.call("clEnqueueWriteBuffer", |queue, count, waits| {
            // SAFETY: as above; the host's bytes are only read.
            unsafe {
                cl3::command_queue::enqueue_write_buffer(
                    queue,
                    to.allocation.memory.raw(),
                    CL_FALSE,
                    (to.offset + at) as usize,
                    length as usize,
                    from.cast_mut().cast(),
                    count,
                    waits,
                )
            }
        })
    }

    fn copy(
        &mut self,
        from: &Bytes<'_>,
        at: u64,
        to: &Bytes<'_>,
        to_at: u64,
        length: u64,
    ) -> Called<()> {
        self.call("clEnqueueCopyBuffer", |queue, count, waits| {
            // SAFETY: both ranges are the command's, and do not overlap: the core has checked.
            unsafe {
                cl3::command_queue::enqueue_copy_buffer(
                    queue,
                    from.allocation.memory.raw(),
                    to.allocation.memory.raw(),
                    (from.offset + at) as usize,
                    (to.offset + to_at) as usize,
                    length as usize,
                    count,
                    waits,
                )
            }
        })
    }

    fn fill(&mut self, to: &Bytes<'_>, pattern: &[u8]) -> Called<()> {
        let regular = pattern.len().is_power_of_two()
            && to.offset.is_multiple_of(pattern.len() as u64)
            && to.length.is_multiple_of(pattern.len() as u64);
        if regular {
            return self.call("clEnqueueFillBuffer", |queue, count, waits| {
                // SAFETY: the pattern is copied by the call; the range is the command's.
                unsafe {
                    cl3::command_queue::enqueue_fill_buffer(
                        queue,
                        to.allocation.memory.raw(),
                        pattern.as_ptr().cast(),
                        pattern.len(),
                        to.offset as usize,
                        to.length as usize,
                        count,
                        waits,
                    )
                }
            });
        }
        // OpenCL has no such fill: the bytes come from the host.
        const PIECE: usize = 1 << 20;
        let piece = (PIECE / pattern.len() * pattern.len()).min(to.length as usize);
        let bytes: Vec<u8> = pattern.iter().copied().cycle().take(piece).collect();
        let mut at = 0;
        while at < to.length {
            let length = (to.length - at).min(piece as u64);
            self.write(bytes.as_ptr(), to, at, length)?;
            at += length;
        }
        self.keep.push(bytes);
        Ok(())
    }
}

impl Shared {
    /// Puts a command into a queue of its device, after these.
    pub(super) fn put(
        &self,
        device: &Device,
        command: &Command,
        code: Option<&Code>,
        waits: Vec<Event>,
    ) -> Result<Flight, Obstacle> {
        let profiled = command.queue().options().profiling || quipu_core::trace::enabled();
        let queues = device.queues(profiled)?;
        let before = clock::now_ns();
        let mut flight = match command.operation() {
            Operation::Transfer(transfer) => put_transfer(queues, command, transfer, waits)?,
            Operation::Fill(fill) => put_fill(queues, command, fill, waits)?,
            Operation::Migrate(migration) => {
                self.put_migration(queues, command, migration, waits)?
            }
            Operation::Launch { groups } if groups > 0 => match code {
                Some(code) => put_launch(device, queues, command, code, waits)?,
                None => return Err(Obstacle::Error(crate::error::native_code(command.label()))),
            },
            _ => Chain::new(queues, Lane::Compute, waits).end()?,
        };
        if profiled {
            flight.put = Some((before, clock::now_ns()));
        }
        Ok(flight)
    }

    fn put_migration(
        &self,
        queues: &Queues,
        command: &Command,
        migration: &Migration,
        waits: Vec<Event>,
    ) -> Result<Flight, Obstacle> {
        let argument = &command.arguments()[0];
        let length = argument.length();
        if migration.from == SpaceId::HOST {
            let (from, to) = (argument.on_host()?, bytes_in(argument, migration.to)?);
            let mut chain = Chain::new(queues, Lane::Upload, waits);
            chain.uses(&to)?;
            chain.write(from.pointer, &to, 0, length)?;
            return Ok(chain.end()?);
        }
        let from = bytes_in(argument, migration.from)?;
        if migration.to == SpaceId::HOST {
            let to = argument.on_host()?;
            let mut chain = Chain::new(queues, Lane::Download, waits);
            chain.uses(&from)?;
            chain.read(&from, 0, to.pointer, length)?;
            return Ok(chain.end()?);
        }
        let to = bytes_in(argument, migration.to)?;
        let mut chain = Chain::new(queues, Lane::Compute, waits);
        chain.uses(&from)?;
        chain.uses(&to)?;
        chain.copy(&from, 0, &to, 0, length)?;
        Ok(chain.end()?)
    }
}

/// A launch's code, and what is passed to it.
pub(super) struct Code {
    pub(super) compiled: Arc<Compiled>,
    pub(super) passed: Passed,
}

fn put_launch(
    device: &Device,
    queues: &Queues,
    command: &Command,
    code: &Code,
    waits: Vec<Event>,
) -> Result<Flight, Obstacle> {
    let space = space_of(command);
    let mut chain = Chain::new(queues, Lane::Compute, waits);
    let mut memories = Vec::with_capacity(command.arguments().len());
    for argument in command.arguments() {
        let bytes = bytes_in(argument, space)?;
        chain.uses(&bytes)?;
        memories.push((argument, bytes.allocation));
    }
    let launch = Launch {
        device,
        queue: chain.queue,
        compiled: &code.compiled,
        passed: &code.passed,
        memories,
    };
    let launched = launch.put(chain.waits).map_err(|refusal| match refusal {
        Refusal::Call(error) => Obstacle::Call(error),
        Refusal::Error(error) => Obstacle::Error(error),
    })?;
    Ok(Flight {
        earlier: launched.earlier,
        signal: launched.signal,
        done: launched.done,
        put: None,
        lane: Lane::Compute,
        fault: launched.fault,
        failure: launched.failure,
        _keep: Kept {
            _bytes: Vec::new(),
            _parts: launched.parts,
        },
    })
}

fn put_fill(
    queues: &Queues,
    command: &Command,
    fill: &Fill,
    waits: Vec<Event>,
) -> Result<Flight, Obstacle> {
    let to = bytes_in(&command.arguments()[0], space_of(command))?;
    let mut chain = Chain::new(queues, Lane::Compute, waits);
    chain.uses(&to)?;
    chain.fill(&to, fill.pattern())?;
    Ok(chain.end()?)
}

/// One side of a transfer.
enum Side<'a> {
    Host(*mut u8),
    Device(Bytes<'a>),
}

fn put_transfer(
    queues: &Queues,
    command: &Command,
    transfer: &Transfer,
    waits: Vec<Event>,
) -> Result<Flight, Obstacle> {
    let space = space_of(command);
    let side = |endpoint: &Endpoint| -> Result<_, Error> {
        Ok(match endpoint {
            Endpoint::Host(memory) => Side::Host(memory.pointer()),
            Endpoint::Argument(index) => {
                Side::Device(bytes_in(&command.arguments()[*index], space)?)
            }
        })
    };
    let (source, destination) = (side(&transfer.source)?, side(&transfer.destination)?);
    let lane = match (&source, &destination) {
        (Side::Host(_), _) => Lane::Upload,
        (_, Side::Host(_)) => Lane::Download,
        _ => Lane::Compute,
    };
    let mut chain = Chain::new(queues, lane, waits);
    for side in [&source, &destination] {
        if let Side::Device(bytes) = side {
            chain.uses(bytes)?;
        }
    }
    for part in Shape::of(transfer).parts() {
        put_part(&mut chain, &source, &destination, &part)?;
    }
    Ok(chain.end()?)
}

/// Moves a part of a transfer's region: a row, or rows of rows.
fn put_part(
    chain: &mut Chain<'_>,
    source: &Side<'_>,
    destination: &Side<'_>,
    part: &Part,
) -> Called<()> {
    let (from_at, to_at) = (part.source, part.destination);
    // SAFETY (of `add`, below): the part lies within the region, which the core has checked against both sides.
    if part.is_linear() {
        return match (source, destination) {
            (Side::Host(from), Side::Device(to)) => {
                // SAFETY: as said.
                let from = unsafe { from.add(from_at as usize) };
                chain.write(from, to, to_at, part.row)
            }
            (Side::Device(from), Side::Host(to)) => {
                // SAFETY: as said.
                let to = unsafe { to.add(to_at as usize) };
                chain.read(from, from_at, to, part.row)
            }
            (Side::Device(from), Side::Device(to)) => {
                chain.copy(from, from_at, to, to_at, part.row)
            }
            (Side::Host(_), Side::Host(_)) => Ok(()),
        };
    }
    let region = part.region();
    let (from_pitch, to_pitch) = (part.source_pitch, part.destination_pitch);
    let origin = |bytes: &Bytes<'_>, at: u64| [(bytes.offset + at) as usize, 0, 0];
    let none = [0_usize; 3];
    match (source, destination) {
        (Side::Host(from), Side::Device(to)) => {
            // SAFETY: as said.
            let from = unsafe { from.add(from_at as usize) };
            let at = origin(to, to_at);
            chain.call("clEnqueueWriteBufferRect", |queue, count, waits| {
                // SAFETY: the region lies within both sides, which are the command's.
                unsafe {
                    cl3::command_queue::enqueue_write_buffer_rect(
                        queue,
                        to.allocation.memory.raw(),
                        CL_FALSE,
                        at.as_ptr(),
                        none.as_ptr(),
                        region.as_ptr(),
                        to_pitch[0],
                        to_pitch[1],
                        from_pitch[0],
                        from_pitch[1],
                        from.cast(),
                        count,
                        waits,
                    )
                }
            })
        }
        (Side::Device(from), Side::Host(to)) => {
            // SAFETY: as said.
            let to = unsafe { to.add(to_at as usize) };
            let at = origin(from, from_at);
            chain.call("clEnqueueReadBufferRect", |queue, count, waits| {
                // SAFETY: as above.
                unsafe {
                    cl3::command_queue::enqueue_read_buffer_rect(
                        queue,
                        from.allocation.memory.raw(),
                        CL_FALSE,
                        at.as_ptr(),
                        none.as_ptr(),
                        region.as_ptr(),
                        from_pitch[0],
                        from_pitch[1],
                        to_pitch[0],
                        to_pitch[1],
                        to.cast(),
                        count,
                        waits,
                    )
                }
            })
        }
        (Side::Device(from), Side::Device(to)) => {
            let (source, destination) = (origin(from, from_at), origin(to, to_at));
            chain.call("clEnqueueCopyBufferRect", |queue, count, waits| {
                // SAFETY: as above.
                unsafe {
                    cl3::command_queue::enqueue_copy_buffer_rect(
                        queue,
                        from.allocation.memory.raw(),
                        to.allocation.memory.raw(),
                        source.as_ptr(),
                        destination.as_ptr(),
                        region.as_ptr(),
                        from_pitch[0],
                        from_pitch[1],
                        to_pitch[0],
                        to_pitch[1],
                        count,
                        waits,
                    )
                }
            })
        }
        (Side::Host(_), Side::Host(_)) => Ok(()),
    }
}
