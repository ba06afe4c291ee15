//! Forwarding: puts a command into one of the device's queues, with the events of the commands that
//! it waits for.

use crate::OpenCl;
use crate::device::Device;
use crate::native::{CallError, Called, Event, Memory, Queue, list, named};
use crate::pinned::{Landing, Places};
use crate::program::{Compiled, FaultRead, Launch};
use crate::queues::{Fed, Lane, Queues, Within};
use crate::registered::{self, Known};
use crate::staging;
use crate::vendor::{OpenClMemory, OpenClQueue};
use cl3::event::{
    CL_PROFILING_COMMAND_END, CL_PROFILING_COMMAND_QUEUED, CL_PROFILING_COMMAND_START,
};
use cl3::types::{CL_FALSE, cl_event};
use quipu_device_queue::clock::difference;
use quipu_device_queue::launch::CodeRef;
use quipu_device_queue::region::{self, Part, Shape};
use quipu_device_queue::{Executor, Flight, Obstacle};
use quipu_scheduler::operation::{Endpoint, Fill, Migration, Operation, Transfer};
use quipu_scheduler::{Command, Error, NativeEnqueue, SpaceId, clock};
use smallvec::SmallVec;

pub(crate) type Work<'a> = quipu_device_queue::Work<'a, OpenCl>;
pub(crate) type Bytes<'a> = quipu_device_queue::Bytes<'a, OpenCl>;
type Put = Result<Flight<OpenCl>, Obstacle<CallError>>;

/// The objects that come with a command on its device. Several functions hand it on while a thread
/// waits, so the rare ones are kept apart.
#[derive(Default)]
pub struct Cargo {
    /// The lane of its queue, for traces.
    lane: Lane,
    /// The same, which is then known to have something in it.
    _within: Option<Within>,
    rare: Option<Box<Rare>>,
}

/// See [`Cargo`].
#[derive(Default)]
struct Rare {
    /// The ends of its calls before the one that gave the signal.
    earlier: Vec<Event>,
    /// The event that it began after, if that is no call of its own.
    began: Option<Event>,
    /// If it has timestamps, the times between which it was put into its queue.
    put: Option<(u64, u64)>,
    /// The fault record of a kernel, on its way here.
    fault: Option<FaultRead>,
    /// Bytes that the device reads.
    bytes: Vec<Vec<u8>>,
    /// Bytes on their way to the host's.
    landing: Vec<Landing>,
    /// Parts of memory objects.
    parts: Vec<Memory>,
}

impl Rare {
    /// The rare objects, boxed; none if there are none.
    fn kept(self) -> Option<Box<Self>> {
        let is_empty = self.earlier.is_empty()
            && self.began.is_none()
            && self.put.is_none()
            && self.fault.is_none()
            && self.bytes.is_empty()
            && self.landing.is_empty()
            && self.parts.is_empty();
        (!is_empty).then(|| Box::new(self))
    }
}

impl Cargo {
    /// The ends of its calls before the one that gave the signal.
    pub(crate) fn earlier(&self) -> &[Event] {
        self.rare.as_ref().map_or(&[], |rare| &rare.earlier)
    }

    /// Brings bytes that have come to their place. Gives the fault record of a kernel, which is
    /// here by now.
    pub(crate) fn land(self) -> Option<FaultRead> {
        let rare = *self.rare?;
        for landing in rare.landing {
            // SAFETY: the device has done its part, and the command, whose bytes they are, is not
            // over yet.
            unsafe { landing.land() };
        }
        rare.fault
    }
}

/// The executor of a command.
pub(crate) fn executor_of(device: &Device, command: &Command) -> Executor {
    if let Operation::Transfer(transfer) = command.operation() {
        let is_for_user = matches!(transfer.destination, Endpoint::Host(_));
        match registered::known(device, transfer) {
            Known::New => return Executor::Host,
            Known::Taken if is_for_user => return Executor::DeviceForUser,
            Known::Taken => return Executor::Device,
            Known::No => {}
        }
    }
    match command.operation() {
        _ if staging::is_large(device, command) => Executor::Host,
        Operation::Transfer(transfer) if !is_for_a_device(command, transfer) => Executor::Host,
        // A thread of the host makes the places, the first time.
        Operation::Transfer(transfer) if lands(device, transfer) => {
            match device.landings.are_there() {
                Some(true) => Executor::Device,
                Some(false) => Executor::DeviceForUser,
                None => Executor::Host,
            }
        }
        Operation::Transfer(transfer) if matches!(transfer.destination, Endpoint::Host(_)) => {
            Executor::DeviceForUser
        }
        _ => Executor::Device,
    }
}

/// The most bytes that come by pinned memory while a command is ended.
const MOST_LANDED: u64 = 1 << 20;

/// True if the bytes of a read come to pinned memory on their way: one row of few bytes, from a
/// device that gains by it.
pub(crate) fn lands(device: &Device, transfer: &Transfer) -> bool {
    device.gains()
        && device.landings.are_there() != Some(false)
        && matches!(transfer.source, Endpoint::Argument(_))
        && matches!(transfer.destination, Endpoint::Host(_))
        && transfer.bytes() <= MOST_LANDED
        && Shape::of(transfer).row_alone().is_some()
}

/// True if a transfer takes few calls, and OpenCL has them.
fn is_for_a_device(command: &Command, transfer: &Transfer) -> bool {
    let shape = Shape::of(transfer);
    let argument = |endpoint: &Endpoint| match endpoint {
        Endpoint::Argument(index) => Some(&command.arguments()[*index]),
        Endpoint::Host(_) => None,
    };
    let is_within_one = || match (argument(&transfer.source), argument(&transfer.destination)) {
        (Some(from), Some(to)) if std::ptr::eq(from.memory(), to.memory()) => {
            shape.is_within_one(from.offset(), to.offset())
        }
        _ => true,
    };
    shape.is_for_a_device(u64::MAX) && is_within_one()
}

/// The calls of a command in one of a device's queues, one after the other.
struct Chain<'a> {
    fed: &'a Fed,
    queue: &'a Queue,
    lane: Lane,
    /// The events that the first call waits for.
    waits: SmallVec<[cl_event; 8]>,
    /// The fills of fresh memory with zeros.
    zeroing: Vec<Event>,
    /// The ends of the calls so far; each waits for the one before.
    made: SmallVec<[Event; 1]>,
    /// The reason for which no more calls are made.
    failure: Option<CallError>,
    keep: Vec<Vec<u8>>,
    landing: Vec<Landing>,
}

impl<'a> Chain<'a> {
    fn new(queues: &'a Queues, lane: Lane, waits: &'a [Event]) -> Called<Self> {
        Ok(Self::within(queues.of_lane(lane, waits)?, lane, waits))
    }

    fn within(fed: &'a Fed, lane: Lane, waits: &'a [Event]) -> Self {
        Self {
            fed,
            queue: fed.feed(),
            lane,
            waits: waits
                .iter()
                .filter(|wait| !fed.implies(wait))
                .map(Event::raw)
                .collect(),
            zeroing: Vec::new(),
            made: SmallVec::new(),
            failure: None,
            keep: Vec::new(),
            landing: Vec::new(),
        }
    }

    /// Waits for the fill that zeroes fresh memory, too.
    fn uses(&mut self, bytes: &Bytes<'_>) -> Called<()> {
        if let Some(zeroed) = bytes.allocation.ready()? {
            self.waits.push(zeroed.raw());
            self.zeroing.push(zeroed);
        }
        Ok(())
    }

    /// Makes a call, which is given the queue and its waits, and has the next wait for it. Only the
    /// first fails at once, with nothing in the queue. If a later one does, those before it run:
    /// memory that they use is kept until they are over, and the command fails then. No more calls
    /// are made.
    fn call(
        &mut self,
        name: &'static str,
        call: impl FnOnce(cl3::types::cl_command_queue, u32, *const cl_event) -> Result<cl_event, i32>,
    ) -> Called<()> {
        if self.failure.is_some() {
            return Ok(());
        }
        let last = self.made.last().map(Event::raw);
        let waits = last.as_ref().map_or(&self.waits[..], std::slice::from_ref);
        let event = call(self.queue.raw(), waits.len() as u32, list(waits));
        match named(name, event) {
            Ok(event) => self.made.push(Event::new(event)),
            Err(error) if self.made.is_empty() => return Err(error),
            Err(error) => self.failure = Some(error),
        }
        Ok(())
    }

    /// The end of the last call.
    fn end(mut self) -> Called<Flight<OpenCl>> {
        let last = match self.made.pop() {
            Some(last) => last,
            None => {
                // Nothing was called.
                self.queue.marker(&self.waits)?
            }
        };
        let within = self.fed.entered(&last);
        Ok(Flight {
            signal: last,
            done: None,
            line: None,
            failure: self.failure,
            error: None,
            cargo: Cargo {
                lane: self.lane,
                _within: Some(within),
                rare: Rare {
                    earlier: self.made.into_vec(),
                    bytes: self.keep,
                    landing: self.landing,
                    ..Rare::default()
                }
                .kept(),
            },
        })
    }

    fn read(&mut self, from: &Bytes<'_>, at: u64, to: *mut u8, length: u64) -> Called<()> {
        self.call("clEnqueueReadBuffer", |queue, count, waits| {
            // SAFETY: both ranges are the command's, or one is of memory that is kept with it,
            // there until it is over.
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

    /// As [`Chain::read`], by pinned memory.
    fn bring(
        &mut self,
        places: &Places,
        from: &Bytes<'_>,
        at: u64,
        to: *mut u8,
        length: u64,
    ) -> Called<()> {
        for start in (0..length).step_by(Landing::MOST) {
            let piece = (length - start).min(Landing::MOST as u64);
            let to = to.wrapping_add(start as usize);
            let mut landing = Landing::of(places, to, piece as usize);
            self.read(from, at + start, landing.start(), piece)?;
            self.landing.push(landing);
        }
        Ok(())
    }

    fn write(&mut self, from: *const u8, to: &Bytes<'_>, at: u64, length: u64) -> Called<()> {
        self.call("clEnqueueWriteBuffer", |queue, count, waits| {
            // SAFETY: the bytes lie within the object, and those of the host, which are only read,
            // are there until the command is over.
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

/// Puts a command into a queue of its device, after these.
pub(crate) fn put(work: &Work<'_>, code: Option<CodeRef<'_, Compiled>>, waits: &[Event]) -> Put {
    let command = work.command();
    let profiled = command.queue().options().profiling || quipu_scheduler::trace::enabled();
    let queues = work.device().queues(profiled)?;
    let before = profiled.then(clock::now_ns);
    let mut flight = match (command.operation(), code) {
        (Operation::Transfer(transfer), _) => put_transfer(queues, work, transfer, waits)?,
        (Operation::Fill(fill), _) => put_fill(queues, work, fill, waits)?,
        (Operation::Migrate(migration), _) => put_migration(queues, work, migration, waits)?,
        (Operation::Launch { .. }, Some(code)) => put_launch(queues, work, code, waits)?,
        (Operation::NativeEnqueue(enqueue), _) => put_native(work, enqueue, waits, profiled)?,
        (Operation::Nothing | Operation::Launch { groups: 0 }, _) => {
            Chain::new(queues, Lane::Compute, waits)?.end()?
        }
        _ => return Err(command.unsupported("opencl").into()),
    };
    if let Some(before) = before {
        flight.cargo.rare.get_or_insert_default().put = Some((before, clock::now_ns()));
    }
    Ok(flight)
}

fn put_migration(queues: &Queues, work: &Work<'_>, migration: &Migration, waits: &[Event]) -> Put {
    let argument = &work.command().arguments()[0];
    let length = argument.length();
    if migration.from == SpaceId::HOST {
        let (from, (to, _)) = (argument.on_host()?, work.bytes_in(argument, migration.to)?);
        let mut chain = Chain::new(queues, Lane::Upload, waits)?;
        chain.uses(&to)?;
        chain.write(from.pointer, &to, 0, length)?;
        return Ok(chain.end()?);
    }
    let (from, _) = work.bytes_in(argument, migration.from)?;
    if migration.to == SpaceId::HOST {
        let to = argument.on_host()?;
        let mut chain = Chain::new(queues, Lane::Download, waits)?;
        chain.uses(&from)?;
        chain.read(&from, 0, to.pointer, length)?;
        return Ok(chain.end()?);
    }
    let (to, _) = work.bytes_in(argument, migration.to)?;
    let mut chain = Chain::new(queues, Lane::Compute, waits)?;
    chain.uses(&from)?;
    chain.uses(&to)?;
    chain.copy(&from, 0, &to, 0, length)?;
    Ok(chain.end()?)
}

fn put_launch(
    queues: &Queues,
    work: &Work<'_>,
    code: CodeRef<'_, Compiled>,
    waits: &[Event],
) -> Put {
    let arguments = work.command().arguments();
    let mut chain = Chain::new(queues, Lane::Compute, waits)?;
    let mut memories = SmallVec::new();
    for argument in arguments {
        let bytes = work.bytes(argument)?;
        chain.uses(&bytes)?;
        memories.push(bytes.allocation);
    }
    let launch = Launch {
        device: work.device(),
        queue: chain.queue,
        queues,
        compiled: code.compiled,
        passed: code.passed,
        arguments,
        memories,
    };
    let launched = launch.put(&chain.waits)?;
    let within = chain.fed.entered(&launched.signal);
    Ok(Flight {
        signal: launched.signal,
        done: launched.done,
        line: None,
        failure: launched.failure,
        error: None,
        cargo: Cargo {
            lane: Lane::Compute,
            _within: Some(within),
            rare: Rare {
                earlier: launched.earlier,
                fault: launched.fault,
                parts: launched.parts,
                ..Rare::default()
            }
            .kept(),
        },
    })
}

/// Puts the commands of a user's closure into a queue, between its waits and a marker.
fn put_native(work: &Work<'_>, enqueue: &NativeEnqueue, waits: &[Event], profiled: bool) -> Put {
    let (device, command) = (work.device(), work.command());
    let mut chain = Chain::within(device.native_queue(profiled)?, Lane::Compute, waits);
    let queue = chain.queue;
    let mut memories = Vec::with_capacity(command.arguments().len());
    for argument in command.arguments() {
        let bytes = work.bytes(argument)?;
        chain.uses(&bytes)?;
        memories.push(OpenClMemory::new(&bytes, argument.mode()));
    }
    let native = OpenClQueue::new(device, queue)?;
    let began = if chain.waits.is_empty() && !profiled {
        None
    } else {
        Some(queue.barrier(&chain.waits)?)
    };
    let called = enqueue.call(command.label(), &native, memories);
    let signal = match queue.marker(&[]) {
        Ok(signal) => signal,
        // There is no other way to learn when the commands in the queue are over.
        Err(error) => {
            return Err(Obstacle::Spent(queue.finish().err().unwrap_or(error)));
        }
    };
    Ok(Flight {
        signal,
        done: None,
        line: None,
        failure: None,
        error: called.err(),
        cargo: Cargo {
            rare: Rare {
                began,
                ..Rare::default()
            }
            .kept(),
            ..Cargo::default()
        },
    })
}

fn put_fill(queues: &Queues, work: &Work<'_>, fill: &Fill, waits: &[Event]) -> Put {
    let to = work.bytes(&work.command().arguments()[0])?;
    let mut chain = Chain::new(queues, Lane::Compute, waits)?;
    chain.uses(&to)?;
    for row in fill.rows(to.length) {
        chain.fill(&to.part(row), fill.pattern())?;
    }
    Ok(chain.end()?)
}

/// Tells the core when the device ran a command; when it ended.
pub(crate) fn note_times(work: &Work<'_>, flight: &Flight<OpenCl>, seen: u64) -> Option<u64> {
    let Rare { put, began, .. } = &**flight.cargo.rare.as_ref()?;
    let (before, after) = (*put)?;
    let command = work.command();
    command.set_lane(match flight.cargo.lane {
        Lane::Compute => 0,
        Lane::Upload => 1,
        Lane::Download => 2,
    });
    let queued = flight.signal.time(CL_PROFILING_COMMAND_QUEUED)?;
    let started = match began {
        Some(began) => began.time(CL_PROFILING_COMMAND_END)?,
        None => {
            let first = flight.cargo.earlier().first().unwrap_or(&flight.signal);
            first.time(CL_PROFILING_COMMAND_START)?
        }
    };
    let ended = flight.done().time(CL_PROFILING_COMMAND_END)?;
    // The host put it into its queue between these.
    let (least, most) = (difference(before, queued), difference(after, queued));
    let offset = work.device().clock.offset(least, most);
    // Not before it was handed over, and not after its end was seen here: whatever a device says.
    let here = |time: u64| {
        time.saturating_add_signed(offset)
            .clamp(before, seen.max(before))
    };
    command.started_at(here(started));
    Some(here(ended).max(here(started)))
}

/// One side of a transfer.
enum Side<'a> {
    Host(*mut u8),
    Device(Bytes<'a>),
}

fn put_transfer(queues: &Queues, work: &Work<'_>, transfer: &Transfer, waits: &[Event]) -> Put {
    let side = |endpoint: &Endpoint| -> Result<_, Error> {
        Ok(match endpoint {
            Endpoint::Host(memory) => Side::Host(memory.pointer()),
            Endpoint::Argument(index) => {
                Side::Device(work.bytes(&work.command().arguments()[*index])?)
            }
        })
    };
    let (source, destination) = (side(&transfer.source)?, side(&transfer.destination)?);
    let lane = match (&source, &destination) {
        (Side::Host(_), _) => Lane::Upload,
        (_, Side::Host(_)) => Lane::Download,
        _ => Lane::Compute,
    };
    let lands = lands(work.device(), transfer)
        && registered::known(work.device(), transfer) != Known::Taken;
    let mut chain = Chain::new(queues, lane, waits)?;
    for side in [&source, &destination] {
        if let Side::Device(bytes) = side {
            chain.uses(bytes)?;
        }
    }
    for part in Shape::of(transfer).parts() {
        match (&source, &destination) {
            (Side::Device(from), Side::Host(to)) if lands => {
                let to = to.wrapping_add(part.destination as usize);
                chain.bring(&work.device().landings, from, part.source, to, part.row)?;
            }
            _ => put_part(&mut chain, &source, &destination, &part)?,
        }
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
    if part.is_linear() {
        return put_row(chain, source, destination, part);
    }
    let (from_at, to_at) = (part.source, part.destination);
    // NVIDIA's OpenCL refuses rectangles of whose last row not all of the pitch is in the memory
    // object.
    let is_within = |side: &Side<'_>, at: u64, pitch: [usize; 2]| match side {
        Side::Host(_) => true,
        Side::Device(bytes) => {
            let end = (bytes.offset + at).saturating_add(part.whole_rows(pitch));
            end <= bytes.allocation.bytes as u64
        }
    };
    let are_within = is_within(source, from_at, part.source_pitch)
        && is_within(destination, to_at, part.destination_pitch);
    if !are_within && let Some((most, last)) = part.without_last() {
        put_part(chain, source, destination, &most)?;
        return put_part(chain, source, destination, &last);
    }
    put_rectangle(chain, source, destination, part)
}

/// Moves a part that is one row.
fn put_row(
    chain: &mut Chain<'_>,
    source: &Side<'_>,
    destination: &Side<'_>,
    part: &Part,
) -> Called<()> {
    match (source, destination) {
        (Side::Host(from), Side::Device(to)) => {
            // SAFETY: the part lies within the region, which the core has checked against both
            // sides.
            let from = unsafe { from.add(part.source as usize) };
            chain.write(from, to, part.destination, part.row)
        }
        (Side::Device(from), Side::Host(to)) => {
            // SAFETY: the part lies within the region, which the core has checked against both
            // sides.
            let to = unsafe { to.add(part.destination as usize) };
            chain.read(from, part.source, to, part.row)
        }
        (Side::Device(from), Side::Device(to)) => {
            chain.copy(from, part.source, to, part.destination, part.row)
        }
        (Side::Host(_), Side::Host(_)) => Ok(()),
    }
}

/// Moves a part that is rows of rows, with one call.
fn put_rectangle(
    chain: &mut Chain<'_>,
    source: &Side<'_>,
    destination: &Side<'_>,
    part: &Part,
) -> Called<()> {
    let (from_at, to_at) = (part.source, part.destination);
    let region = part.region();
    let (from_pitch, to_pitch) = (part.source_pitch, part.destination_pitch);
    let origin = |bytes: &Bytes<'_>, at: u64| [(bytes.offset + at) as usize, 0, 0];
    let none = [0_usize; 3];
    match (source, destination) {
        (Side::Host(from), Side::Device(to)) => {
            // SAFETY: the part lies within the region, which the core has checked against both
            // sides.
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
            // SAFETY: the part lies within the region, which the core has checked against both
            // sides.
            let to = unsafe { to.add(to_at as usize) };
            let at = origin(from, from_at);
            chain.call("clEnqueueReadBufferRect", |queue, count, waits| {
                // SAFETY: the region lies within both sides, which are the command's.
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
            let is_one = from.allocation.memory.raw() == to.allocation.memory.raw();
            // Within one object they are compared by their places in it.
            let place = |bytes: &Bytes<'_>, at: u64| match is_one {
                true => region::origin(bytes.offset + at, from_pitch),
                false => origin(bytes, at),
            };
            let (source, destination) = (place(from, from_at), place(to, to_at));
            chain.call("clEnqueueCopyBufferRect", |queue, count, waits| {
                // SAFETY: the region lies within both sides, which are the command's.
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
