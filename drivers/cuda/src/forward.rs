//! Forwarding: puts a command into one of the device's streams, behind the commands that it waits
//! for, with an event behind it.

use crate::Cuda;
use crate::device::{Device, Lane, Live, Signal, Told};
use crate::graph::{Batch, Executable, Member, Recorded};
use crate::native::{CallError, Called, Entered, Event, Stream, named};
use crate::program::{Compiled, FaultRead, Launch};
use crate::registered::Registered;
use crate::staging::{Block, MOST_IN_BLOCK, MOST_STAGED};
use crate::transfer::{Side, lane_of, put_part, sides};
use crate::vendor::{CudaMemory, CudaQueue};
use cudarc::driver::sys::{self, CUdeviceptr, CUresult, CUstream};
use quipu_device_queue::launch::CodeRef;
use quipu_device_queue::region::Shape;
use quipu_device_queue::{Executor, Flight, Obstacle};
use quipu_scheduler::access::Argument;
use quipu_scheduler::command::Kind;
use quipu_scheduler::error::Result;
use quipu_scheduler::operation::{Endpoint, Fill, Migration, Operation, Transfer};
use quipu_scheduler::{Command, Graph, NativeEnqueue, SpaceId, clock};
use smallvec::SmallVec;
use std::sync::Arc;

pub(crate) type Work<'a> = quipu_device_queue::Work<'a, Cuda>;
pub(crate) type Bytes<'a> = quipu_device_queue::Bytes<'a, Cuda>;
type Put = std::result::Result<Flight<Cuda>, Obstacle<CallError>>;

/// Rows are less than so many bytes apart, on every device.
pub(crate) const MOST_PITCH: u64 = (1 << 31) - 1;

/// The objects that come with a command on its device.
#[derive(Default)]
pub struct Cargo {
    /// If times are asked for: the time at which it was put into its stream, on the process's
    /// clock, and the event of its begin there.
    began: Option<(u64, Event)>,
    /// The fault record of a kernel.
    fault: Option<FaultRead>,
    /// A recorded graph.
    graph: Option<Arc<Executable>>,
    /// Bytes that go through pinned memory; few commands have any.
    staged: Option<Box<Staged>>,
}

#[derive(Default)]
struct Staged {
    /// Bytes on their way to the host.
    landing: Vec<Landing>,
    /// Bytes that the device reads.
    blocks: Vec<Block>,
}

impl Cargo {
    /// The rest of the work on the host, once the device has done its part well.
    pub(crate) fn land(self, command: &Command) -> Result<()> {
        let landing = self.staged.map(|staged| staged.landing);
        for landing in landing.into_iter().flatten() {
            // SAFETY: so many bytes on both sides. Those of the destination are the command's,
            // which is not over yet.
            unsafe {
                landing
                    .to
                    .copy_from_nonoverlapping(landing.block.pointer(), landing.length);
            }
        }
        match (self.fault, self.graph, command.operation()) {
            (Some(fault), ..) => fault.outcome(command.label()),
            (None, Some(executable), Operation::Graph(graph)) => executable.outcome(graph),
            _ => Ok(()),
        }
    }
}

/// Bytes that the device writes to pinned memory, for the host's.
struct Landing {
    block: Block,
    to: *mut u8,
    length: usize,
}

// SAFETY: the destination may be used by any thread until the command is over.
unsafe impl Send for Landing {}
/// The executor of a command.
pub(crate) fn executor_of(command: &Command) -> Executor {
    match command.operation() {
        Operation::Migrate(migration) => {
            let length = command.arguments()[0].length();
            let from_host = migration.from == SpaceId::HOST;
            let is_staged = from_host || migration.to == SpaceId::HOST;
            if is_staged && length > MOST_STAGED {
                Executor::Host
            } else if from_host {
                Executor::DeviceWhenReady
            } else {
                Executor::Device
            }
        }
        Operation::Transfer(transfer) => {
            let shape = Shape::of(transfer);
            let is_host = |endpoint: &Endpoint| matches!(endpoint, Endpoint::Host(_));
            let (from_host, to_host) = (is_host(&transfer.source), is_host(&transfer.destination));
            let is_for_a_device = shape.is_for_a_device(MOST_PITCH);
            let is_staged = from_host || to_host;
            let host = [&transfer.source, &transfer.destination].map(host_bytes);
            let host = host.into_iter().flatten().next();
            let is_direct = shape.row_alone().is_some()
                && host.is_some_and(|host| Registered::known(host, transfer.bytes()) == Some(true));
            // A thread of the host tells CUDA of it, the first time.
            let is_new = host.is_some_and(|host| Registered::is_to_be(host, transfer.bytes()));
            let goes = is_direct || (is_small(transfer) && !is_new);
            if !is_for_a_device || (is_staged && !goes) {
                Executor::Host
            } else if is_direct && to_host {
                // A command that fails has written its bytes to the user's memory by then.
                Executor::DeviceForUser
            } else if from_host && command.kind() != Kind::Write {
                Executor::DeviceWhenReady
            } else {
                Executor::Device
            }
        }
        Operation::Graph(graph) if Recorded::may_fail(graph) => Executor::DeviceWhenReady,
        _ => Executor::Device,
    }
}

/// The address of a transfer's bytes on the host, if this side is the host's.
fn host_bytes(endpoint: &Endpoint) -> Option<*const u8> {
    match endpoint {
        Endpoint::Host(memory) => Some(memory.pointer().cast_const()),
        Endpoint::Argument(_) => None,
    }
}

/// True if it is one row of bytes, and few of them.
fn is_small(transfer: &Transfer) -> bool {
    let parts = Shape::of(transfer);
    transfer.bytes() <= MOST_STAGED && parts.row_alone().is_some()
}

/// The start and the length of each piece of so many bytes that go through a block each.
fn pieces(length: u64) -> impl Iterator<Item = (u64, u64)> {
    let starts = (0..length).step_by(MOST_IN_BLOCK as usize);
    starts.map(move |start| (start, MOST_IN_BLOCK.min(length - start)))
}

/// The address of bytes.
pub(crate) fn address(bytes: &Bytes<'_>) -> CUdeviceptr {
    bytes.allocation.address + bytes.offset
}

/// The calls of a command in one of a device's streams.
struct Chain<'a> {
    device: &'a Device,
    live: &'a Live,
    track: usize,
    /// Something that uses memory is in the stream.
    is_begun: bool,
    /// The reason for which no more calls are made.
    failure: Option<CallError>,
    cargo: Cargo,
    _entered: Entered,
}

impl<'a> Chain<'a> {
    /// Chooses a stream, and has it wait.
    fn new(device: &'a Device, lane: Lane, waits: &[Signal], timed: bool) -> Called<Self> {
        let live = device.live()?;
        let entered = live.context.enter()?;
        let track = live.choose(device.number, lane, waits);
        let mut chain = Self {
            device,
            live,
            track,
            is_begun: false,
            failure: None,
            cargo: Cargo::default(),
            _entered: entered,
        };
        for (number, wait) in waits.iter().enumerate() {
            let is_here = wait.device == device.number && wait.track == track;
            // Of several in one stream, the last is enough.
            let is_superseded = waits.iter().enumerate().any(|(other, later)| {
                let is_same = later.device == wait.device && later.track == wait.track;
                is_same && (later.ticket, other) > (wait.ticket, number)
            });
            if !is_here && !is_superseded {
                chain.stream().wait(&wait.event)?;
            }
        }
        if timed {
            let before = clock::now_ns();
            chain.cargo.began = Some((before, Event::record(chain.stream(), true)?));
        }
        Ok(chain)
    }

    fn stream(&self) -> &'a Stream {
        &self.live.tracks[self.track].stream
    }

    /// Waits for the fill that zeroes fresh memory, too.
    fn uses(&self, bytes: &Bytes<'_>) -> Called<()> {
        match bytes.allocation.ready() {
            Some(ready) => self.stream().wait(&ready),
            None => Ok(()),
        }
    }

    /// Makes a step. Only the first one fails at once, with nothing in the stream. If a later one
    /// does, those before it run: memory that they use is kept until they are over, and the command
    /// fails then. No more steps are made.
    fn step<T>(&mut self, step: impl FnOnce(&Self) -> Called<T>) -> Called<Option<T>> {
        if self.failure.is_some() {
            return Ok(None);
        }
        match step(self) {
            Ok(made) => Ok(Some(made)),
            Err(error) if !self.is_begun => Err(error),
            Err(error) => {
                self.failure = Some(error);
                Ok(None)
            }
        }
    }

    /// Makes a call that puts something into the stream which uses memory.
    fn call(&mut self, name: &'static str, call: impl FnOnce(CUstream) -> CUresult) -> Called<()> {
        let made = self.step(|chain| named(name, call(chain.stream().raw())))?;
        self.is_begun |= made.is_some();
        Ok(())
    }

    /// The end of it.
    fn end(self) -> Put {
        let track = &self.live.tracks[self.track];
        let ticket = track.ticket();
        // The times of a command are those of its events, which have then to have happened.
        let told = match self.cargo.began {
            None if self.failure.is_none() => track.tell(ticket),
            _ => None,
        };
        let event = match Event::record(&track.stream, self.cargo.began.is_some()) {
            Ok(event) => event,
            Err(error) if !self.is_begun => return Err(error.into()),
            Err(error) => {
                // There is no other way to learn when the commands in the stream are over.
                let waited = track.stream.synchronize();
                if waited.is_err() {
                    std::mem::forget(self.cargo);
                }
                return Err(Obstacle::Spent(waited.err().unwrap_or(error)));
            }
        };
        Ok(Flight {
            signal: Signal {
                device: self.device.number,
                track: self.track,
                ticket,
                event,
                told,
            },
            done: None,
            line: Some(self.track),
            failure: self.failure,
            error: None,
            cargo: self.cargo,
        })
    }

    /// A block of pinned memory.
    fn block(&mut self, length: u64) -> Called<Option<Block>> {
        self.step(|chain| chain.live.staging.block(length))
    }

    /// Brings the host's bytes to the device: in pieces through blocks, one of which is filled
    /// while others are on their way, or by themselves if CUDA knows them.
    fn upload(&mut self, from: *const u8, to: CUdeviceptr, length: u64) -> Called<()> {
        if Registered::known(from, length) == Some(true) {
            return self.call("cuMemcpyHtoDAsync", |stream| {
                // SAFETY: so many bytes, the command's, and kept until it is over; the range is the
                // command's.
                unsafe { sys::cuMemcpyHtoDAsync_v2(to, from.cast(), length as usize, stream) }
            });
        }
        for (start, piece) in pieces(length) {
            let Some(block) = self.block(piece)? else {
                return Ok(());
            };
            // SAFETY: the source has so many bytes, which nobody writes now; the block has at least
            // so many.
            unsafe {
                let from = from.add(start as usize);
                block
                    .pointer()
                    .copy_from_nonoverlapping(from, piece as usize);
            }
            self.send(block, to + start, piece)?;
        }
        Ok(())
    }

    /// Brings a block's bytes to the device.
    fn send(&mut self, block: Block, to: CUdeviceptr, length: u64) -> Called<()> {
        let from = block.pointer().cast();
        self.call("cuMemcpyHtoDAsync", |stream| {
            // SAFETY: the block is kept until the command is over; the range is the command's.
            unsafe { sys::cuMemcpyHtoDAsync_v2(to, from, length as usize, stream) }
        })?;
        let staged = self.cargo.staged.get_or_insert_default();
        staged.blocks.push(block);
        Ok(())
    }

    /// Brings the device's bytes to the host: as above.
    fn download(&mut self, from: CUdeviceptr, to: *mut u8, length: u64) -> Called<()> {
        if Registered::known(to, length) == Some(true) {
            return self.call("cuMemcpyDtoHAsync", |stream| {
                // SAFETY: as above; nobody else touches the host's bytes.
                unsafe { sys::cuMemcpyDtoHAsync_v2(to.cast(), from, length as usize, stream) }
            });
        }
        for (start, length) in pieces(length) {
            let Some(block) = self.block(length)? else {
                return Ok(());
            };
            let (there, length) = (block.pointer().cast(), length as usize);
            self.call("cuMemcpyDtoHAsync", |stream| {
                // SAFETY: the block is kept until the command is over; the range is the command's.
                unsafe { sys::cuMemcpyDtoHAsync_v2(there, from + start, length, stream) }
            })?;
            let staged = self.cargo.staged.get_or_insert_default();
            staged.landing.push(Landing {
                block,
                to: to.wrapping_add(start as usize),
                length,
            });
        }
        Ok(())
    }

    fn copy(&mut self, from: CUdeviceptr, to: CUdeviceptr, length: u64) -> Called<()> {
        self.call("cuMemcpyDtoDAsync", |stream| {
            // SAFETY: both ranges are the command's, and do not overlap: the core has checked.
            unsafe { sys::cuMemcpyDtoDAsync_v2(to, from, length as usize, stream) }
        })
    }

    fn fill(&mut self, to: &Bytes<'_>, pattern: &[u8]) -> Called<()> {
        let (address, length) = (address(to), to.length);
        let width = pattern.len() as u64;
        let is_regular = address.is_multiple_of(width) && length.is_multiple_of(width);
        // SAFETY (of all three): the range is the command's, and the address is a multiple of the
        // width.
        match *pattern {
            [byte] => {
                return self.call("cuMemsetD8Async", |stream| {
                    // SAFETY: as said.
                    unsafe { sys::cuMemsetD8Async(address, byte, length as usize, stream) }
                });
            }
            [a, b] if is_regular => {
                let (word, count) = (u16::from_le_bytes([a, b]), (length / 2) as usize);
                return self.call("cuMemsetD16Async", |stream| {
                    // SAFETY: as said.
                    unsafe { sys::cuMemsetD16Async(address, word, count, stream) }
                });
            }
            [a, b, c, d] if is_regular => {
                let (word, count) = (u32::from_le_bytes([a, b, c, d]), (length / 4) as usize);
                return self.call("cuMemsetD32Async", |stream| {
                    // SAFETY: as said.
                    unsafe { sys::cuMemsetD32Async(address, word, count, stream) }
                });
            }
            _ => {}
        }
        // The first bytes come from the host; then the filled part is doubled.
        let Some(block) = self.block(length.min(4 << 10))? else {
            return Ok(());
        };
        let room = block.len() / pattern.len() * pattern.len();
        let mut done = (room as u64).min(length);
        for (at, byte) in pattern
            .iter()
            .copied()
            .cycle()
            .take(done as usize)
            .enumerate()
        {
            // SAFETY: within the block, which is ours.
            unsafe { block.pointer().add(at).write(byte) };
        }
        self.send(block, address, done)?;
        while done < length {
            let more = done.min(length - done);
            self.copy(address, address + done, more)?;
            done += more;
        }
        Ok(())
    }
}

/// Puts a command into a stream of its device, after these.
pub(crate) fn put(work: &Work<'_>, code: Option<CodeRef<'_, Compiled>>, waits: &[Signal]) -> Put {
    let command = work.command();
    let timed = command.queue().options().profiling || quipu_scheduler::trace::enabled();
    let chain = |lane| Chain::new(work.device(), lane, waits, timed);
    match (command.operation(), code) {
        (Operation::Transfer(transfer), _) => {
            put_transfer(chain(lane_of(transfer))?, work, transfer)
        }
        (Operation::Fill(fill), _) => put_fill(chain(Lane::Compute)?, work, fill),
        (Operation::Migrate(migration), _) => {
            let lane = if migration.from == SpaceId::HOST {
                Lane::Upload
            } else if migration.to == SpaceId::HOST {
                Lane::Download
            } else {
                Lane::Compute
            };
            put_migration(chain(lane)?, work, migration)
        }
        (Operation::Graph(graph), _) => put_graph(chain(Lane::Compute)?, work, graph),
        (Operation::Launch { .. }, Some(code)) => put_launch(chain(Lane::Compute)?, work, code),
        (Operation::NativeEnqueue(enqueue), _) => put_native(chain(Lane::Compute)?, work, enqueue),
        (Operation::Nothing | Operation::Launch { groups: 0 }, _) => chain(Lane::Compute)?.end(),
        _ => Err(command.unsupported("cuda").into()),
    }
}

fn put_migration(mut chain: Chain<'_>, work: &Work<'_>, migration: &Migration) -> Put {
    let argument = &work.command().arguments()[0];
    let length = argument.length();
    if migration.from == SpaceId::HOST {
        let (from, (to, _)) = (argument.on_host()?, work.bytes_in(argument, migration.to)?);
        chain.uses(&to)?;
        chain.upload(from.pointer, address(&to), length)?;
        return chain.end();
    }
    let (from, source) = work.bytes_in(argument, migration.from)?;
    chain.uses(&from)?;
    if migration.to == SpaceId::HOST {
        let to = argument.on_host()?;
        chain.download(address(&from), to.pointer, length)?;
        return chain.end();
    }
    let (to, destination) = work.bytes_in(argument, migration.to)?;
    chain.uses(&to)?;
    if source.number == destination.number {
        chain.copy(address(&from), address(&to), length)?;
        return chain.end();
    }
    work.vendor().link(source, destination);
    let context = |device: &Device| Ok::<_, CallError>(device.live()?.context.raw());
    let (here, there) = (context(source)?, context(destination)?);
    let (from, to) = (address(&from), address(&to));
    chain.call("cuMemcpyPeerAsync", |stream| {
        // SAFETY: both ranges are the command's.
        unsafe { sys::cuMemcpyPeerAsync(to, there, from, here, length as usize, stream) }
    })?;
    chain.end()
}

fn put_launch(mut chain: Chain<'_>, work: &Work<'_>, code: CodeRef<'_, Compiled>) -> Put {
    let arguments = work.command().arguments();
    let mut memories = SmallVec::new();
    for argument in arguments {
        let bytes = work.bytes(argument)?;
        chain.uses(&bytes)?;
        memories.push(bytes.allocation.address);
    }
    let launch = Launch {
        device: chain.device,
        compiled: code.compiled,
        passed: code.passed,
        arguments: Argument::packed(arguments),
        memories,
    };
    chain.cargo.fault = Some(launch.put(chain.live, chain.stream())?);
    chain.is_begun = true;
    chain.end()
}

/// Puts the commands of a user's closure into the stream.
fn put_native(mut chain: Chain<'_>, work: &Work<'_>, enqueue: &NativeEnqueue) -> Put {
    let arguments = work.command().arguments();
    let mut memories = Vec::with_capacity(arguments.len());
    for argument in arguments {
        let bytes = work.bytes(argument)?;
        chain.uses(&bytes)?;
        memories.push(CudaMemory::new(&bytes, argument.mode()));
    }
    let native = CudaQueue::new(chain.device, chain.live, chain.stream());
    chain.is_begun = true;
    let called = enqueue.call(work.command().label(), &native, memories);
    // It may have left another context behind.
    let entered = chain.live.context.enter();
    let mut flight = chain.end()?;
    drop(entered);
    flight.error = called.err();
    Ok(flight)
}

fn put_graph(mut chain: Chain<'_>, work: &Work<'_>, graph: &Graph) -> Put {
    let recorded = Recorded::of(graph)?;
    let memories = recorded.memories(graph);
    let mut addresses = Vec::with_capacity(memories.len());
    for argument in memories {
        let (bytes, _) = work.bytes_in(&argument, recorded.space())?;
        chain.uses(&bytes)?;
        addresses.push(bytes.allocation.address);
    }
    let executable = recorded.executable(work.vendor(), graph, &addresses)?;
    executable.prepare();
    let raw = executable.raw();
    chain.call("cuGraphLaunch", |stream| {
        // SAFETY: it is kept until the command is over, and with it all that its nodes use. The
        // stream gives it a place in an order only: it may be another device's.
        unsafe { sys::cuGraphLaunch(raw, stream) }
    })?;
    chain.cargo.graph = Some(executable);
    chain.end()
}

/// Puts a batch into a stream of its device, after these.
pub(crate) fn put_batch(
    work: &Work<'_>,
    batch: &Batch,
    memories: &[Bytes<'_>],
    waits: &[Signal],
) -> std::result::Result<Vec<Flight<Cuda>>, Obstacle<CallError>> {
    let mut chain = Chain::new(work.device(), Lane::Compute, waits, false)?;
    for bytes in memories {
        chain.uses(bytes)?;
    }
    let raw = batch.raw();
    chain.call("cuGraphLaunch", |stream| {
        // SAFETY: it is kept until its commands are over, and with them all that its nodes use.
        // Nothing else launches it.
        unsafe { sys::cuGraphLaunch(raw, stream) }
    })?;
    let flight = chain.end()?;
    let members = batch.take_members().into_iter();
    let flights = members.map(|Member { fault, mark }| Flight {
        signal: flight.signal.clone(),
        done: mark.map(|mark| Signal {
            told: Some(Told::by(mark)),
            ..flight.signal.clone()
        }),
        line: flight.line,
        failure: flight.failure,
        error: None,
        cargo: Cargo {
            fault,
            ..Cargo::default()
        },
    });
    Ok(flights.collect())
}

fn put_fill(mut chain: Chain<'_>, work: &Work<'_>, fill: &Fill) -> Put {
    let to = work.bytes(&work.command().arguments()[0])?;
    chain.uses(&to)?;
    for row in fill.rows(to.length) {
        chain.fill(&to.part(row), fill.pattern())?;
    }
    chain.end()
}

/// Tells the core when the device ran a command; when it ended.
pub(crate) fn note_times(work: &Work<'_>, flight: &Flight<Cuda>, seen: u64) -> Option<u64> {
    let (before, began) = flight.cargo.began.as_ref()?;
    let command = work.command();
    command.set_lane(Live::lane_number(flight.signal.track));
    let live = work.device().live().ok()?;
    let (started, ended) = live.times(began, &flight.signal.event, *before, seen)?;
    // Not before it was handed over, and not after its end was seen here: whatever a device says.
    let here = |time: u64| time.clamp(*before, seen.max(*before));
    command.started_at(here(started));
    Some(here(ended).max(here(started)))
}

fn put_transfer(mut chain: Chain<'_>, work: &Work<'_>, transfer: &Transfer) -> Put {
    let (source, destination) = sides(work, transfer)?;
    for side in [&source, &destination] {
        if let Side::Device(bytes) = side {
            chain.uses(bytes)?;
        }
    }
    match (&source, &destination) {
        (Side::Host(from), Side::Device(to)) => {
            chain.upload(*from, address(to), transfer.bytes())?;
        }
        (Side::Device(from), Side::Host(to)) => {
            chain.download(address(from), *to, transfer.bytes())?;
        }
        _ => {
            for part in Shape::of(transfer).parts() {
                let stream = chain.stream();
                let put = chain.step(|_| put_part(stream, &source, &destination, &part))?;
                chain.is_begun |= put.is_some();
            }
        }
    }
    chain.end()
}
