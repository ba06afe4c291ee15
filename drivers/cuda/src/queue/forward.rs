//! What a command becomes on its device: calls that put it into one of the device's streams, after what it waits for, and
//! an event after it.

use super::ledger::Doer;
use crate::Shared;
use crate::device::{Device, Lane, Live, Signal};
use crate::memory::Allocation;
use crate::native::{CallError, Called, Entered, Event, Stream, named};
use crate::program::{Compiled, FaultRead, Launch, Refusal};
use crate::region::{Part, Shape};
use crate::staging::{Block, MOST_STAGED};
use cudarc::driver::sys::{self, CUDA_MEMCPY3D, CUdeviceptr, CUmemorytype};
use quipu_core::access::Argument;
use quipu_core::command::Kind;
use quipu_core::error::Result;
use quipu_core::operation::{Endpoint, Fill, Migration, Operation, Transfer};
use quipu_core::{Command, Error, Passed, SpaceId, clock};
use std::sync::Arc;

/// A command on its device.
pub(super) struct Flight {
    /// Its end.
    pub(super) signal: Signal,
    /// When it was put into its stream, on the process's clock, and where it begins there; if times are asked for.
    pub(super) began: Option<(u64, Event)>,
    /// The fault record of a kernel.
    fault: Option<FaultRead>,
    /// Bytes on their way to the host.
    landing: Option<Landing>,
    /// Bytes that the device reads.
    _staged: Vec<Block>,
}

impl Flight {
    /// What is left to do on the host, once the device has done its part well.
    pub(super) fn land(self, label: &str) -> Result<()> {
        if let Some(landing) = self.landing {
            // SAFETY: so many bytes on both sides. Those of the destination are the command's, which is not over yet.
            unsafe {
                landing
                    .to
                    .copy_from_nonoverlapping(landing.block.pointer(), landing.length);
            }
        }
        match self.fault {
            Some(fault) => fault.outcome(label),
            None => Ok(()),
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
// SAFETY: only looked at by whoever owns it.
unsafe impl Sync for Landing {}

/// Why a command is not on its device.
#[derive(Debug)]
pub(super) enum Obstacle {
    /// CUDA said no.
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
        Operation::Migrate(migration) => {
            let length = command.arguments()[0].length();
            let from_host = migration.from == SpaceId::HOST;
            let is_staged = from_host || migration.to == SpaceId::HOST;
            if migration.content.is_some() || (is_staged && length > MOST_STAGED) {
                Doer::Host
            } else if from_host {
                Doer::DeviceWhenReady
            } else {
                Doer::Device
            }
        }
        Operation::Transfer(transfer) => {
            let shape = Shape::of(transfer);
            let is_host = |endpoint: &Endpoint| matches!(endpoint, Endpoint::Host(_));
            let (from_host, to_host) = (is_host(&transfer.source), is_host(&transfer.destination));
            let is_for_a_device = shape.is_for_a_device();
            let is_staged = from_host || to_host;
            if !is_for_a_device || (is_staged && !is_small(transfer)) {
                Doer::Host
            } else if from_host && command.kind() != Kind::Write {
                Doer::DeviceWhenReady
            } else {
                Doer::Device
            }
        }
        _ => Doer::Device,
    }
}

/// True if it is one row of bytes, and few of them.
fn is_small(transfer: &Transfer) -> bool {
    let parts = Shape::of(transfer);
    transfer.bytes() <= MOST_STAGED && parts.row_alone().is_some()
}

/// An argument's bytes on a device.
pub(crate) struct Bytes<'a> {
    pub(crate) allocation: &'a Allocation,
    pub(crate) offset: u64,
    pub(crate) length: u64,
}

impl Bytes<'_> {
    /// Where they are.
    pub(super) fn address(&self) -> CUdeviceptr {
        self.allocation.address + self.offset
    }
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

/// What a command puts into one of a device's streams.
struct Chain<'a> {
    device: &'a Device,
    live: &'a Live,
    track: usize,
    began: Option<(u64, Event)>,
    staged: Vec<Block>,
    landing: Option<Landing>,
    fault: Option<FaultRead>,
    _entered: Entered,
}

impl<'a> Chain<'a> {
    /// Chooses a stream, and has it wait.
    fn new(device: &'a Device, lane: Lane, waits: &[Signal], timed: bool) -> Called<Self> {
        let live = device.live()?;
        let entered = live.context.enter()?;
        let track = live.choose(device.number, lane, waits);
        let chain = Self {
            device,
            live,
            track,
            began: None,
            staged: Vec::new(),
            landing: None,
            fault: None,
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
        if !timed {
            return Ok(chain);
        }
        let before = clock::now_ns();
        let began = Event::record(chain.stream(), true)?;
        Ok(Self {
            began: Some((before, began)),
            ..chain
        })
    }

    fn stream(&self) -> &'a Stream {
        &self.live.tracks[self.track].stream
    }

    /// Waits for what fills fresh memory with zeros, too.
    fn uses(&self, bytes: &Bytes<'_>) -> Called<()> {
        match bytes.allocation.ready() {
            Some(ready) => self.stream().wait(&ready),
            None => Ok(()),
        }
    }

    /// The end of it.
    fn end(self) -> Called<Flight> {
        let track = &self.live.tracks[self.track];
        let event = Event::record(&track.stream, self.began.is_some())?;
        Ok(Flight {
            signal: Signal {
                device: self.device.number,
                track: self.track,
                ticket: track.ticket(),
                event,
            },
            began: self.began,
            fault: self.fault,
            landing: self.landing,
            _staged: self.staged,
        })
    }

    /// Brings the host's bytes to the device.
    fn upload(&mut self, from: *const u8, to: CUdeviceptr, length: u64) -> Called<()> {
        let block = self.live.staging.block(length)?;
        // SAFETY: the source has so many bytes, which nobody writes now; the block has at least so many.
        unsafe {
            block
                .pointer()
                .copy_from_nonoverlapping(from, length as usize);
        }
        self.send(&block, to, length)?;
        self.staged.push(block);
        Ok(())
    }

    /// Brings a block's bytes to the device.
    fn send(&self, block: &Block, to: CUdeviceptr, length: u64) -> Called<()> {
        // SAFETY: the block is kept until the command is over; the range is the command's.
        let code = unsafe {
            sys::cuMemcpyHtoDAsync_v2(
                to,
                block.pointer().cast(),
                length as usize,
                self.stream().raw(),
            )
        };
        named("cuMemcpyHtoDAsync", code)
    }

    /// Brings the device's bytes to the host.
    fn download(&mut self, from: CUdeviceptr, to: *mut u8, length: u64) -> Called<()> {
        let block = self.live.staging.block(length)?;
        // SAFETY: as above.
        let code = unsafe {
            sys::cuMemcpyDtoHAsync_v2(
                block.pointer().cast(),
                from,
                length as usize,
                self.stream().raw(),
            )
        };
        named("cuMemcpyDtoHAsync", code)?;
        self.landing = Some(Landing {
            block,
            to,
            length: length as usize,
        });
        Ok(())
    }

    fn copy(&self, from: CUdeviceptr, to: CUdeviceptr, length: u64) -> Called<()> {
        // SAFETY: both ranges are the command's, and do not overlap: the core has checked.
        let code =
            unsafe { sys::cuMemcpyDtoDAsync_v2(to, from, length as usize, self.stream().raw()) };
        named("cuMemcpyDtoDAsync", code)
    }

    fn fill(&mut self, to: &Bytes<'_>, pattern: &[u8]) -> Called<()> {
        let (address, length, stream) = (to.address(), to.length, self.stream().raw());
        let width = pattern.len() as u64;
        let is_regular = address.is_multiple_of(width) && length.is_multiple_of(width);
        // SAFETY (of all three): the range is the command's, and the address is a multiple of the width.
        match *pattern {
            [byte] => {
                // SAFETY: as said.
                let code = unsafe { sys::cuMemsetD8Async(address, byte, length as usize, stream) };
                return named("cuMemsetD8Async", code);
            }
            [a, b] if is_regular => {
                let (word, count) = (u16::from_le_bytes([a, b]), (length / 2) as usize);
                // SAFETY: as said.
                let code = unsafe { sys::cuMemsetD16Async(address, word, count, stream) };
                return named("cuMemsetD16Async", code);
            }
            [a, b, c, d] if is_regular => {
                let (word, count) = (u32::from_le_bytes([a, b, c, d]), (length / 4) as usize);
                // SAFETY: as said.
                let code = unsafe { sys::cuMemsetD32Async(address, word, count, stream) };
                return named("cuMemsetD32Async", code);
            }
            _ => {}
        }
        // The beginning comes from the host; then what is there is doubled.
        let block = self.live.staging.block(length.min(4 << 10))?;
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
        self.send(&block, address, done)?;
        self.staged.push(block);
        while done < length {
            let more = done.min(length - done);
            self.copy(address, address + done, more)?;
            done += more;
        }
        Ok(())
    }
}

impl Shared {
    /// Puts a command into a stream of its device, after these.
    pub(super) fn put(
        &self,
        device: &Device,
        command: &Command,
        code: Option<&Code>,
        waits: &[Signal],
    ) -> Result<Flight, Obstacle> {
        let timed = command.queue().options().profiling || quipu_core::trace::enabled();
        let chain = |lane| Chain::new(device, lane, waits, timed);
        match command.operation() {
            Operation::Transfer(transfer) => {
                put_transfer(chain(lane_of(transfer))?, command, transfer)
            }
            Operation::Fill(fill) => put_fill(chain(Lane::Compute)?, command, fill),
            Operation::Migrate(migration) => {
                let lane = if migration.from == SpaceId::HOST {
                    Lane::Upload
                } else if migration.to == SpaceId::HOST {
                    Lane::Download
                } else {
                    Lane::Compute
                };
                self.put_migration(chain(lane)?, command, migration)
            }
            Operation::Launch { groups } if groups > 0 => match code {
                Some(code) => put_launch(chain(Lane::Compute)?, command, code),
                None => Err(Obstacle::Error(crate::error::native_code(command.label()))),
            },
            _ => Ok(chain(Lane::Compute)?.end()?),
        }
    }

    fn put_migration(
        &self,
        mut chain: Chain<'_>,
        command: &Command,
        migration: &Migration,
    ) -> Result<Flight, Obstacle> {
        let argument = &command.arguments()[0];
        let length = argument.length();
        if migration.from == SpaceId::HOST {
            let (from, to) = (argument.on_host()?, bytes_in(argument, migration.to)?);
            chain.uses(&to)?;
            chain.upload(from.pointer, to.address(), length)?;
            return Ok(chain.end()?);
        }
        let from = bytes_in(argument, migration.from)?;
        chain.uses(&from)?;
        if migration.to == SpaceId::HOST {
            let to = argument.on_host()?;
            chain.download(from.address(), to.pointer, length)?;
            return Ok(chain.end()?);
        }
        let to = bytes_in(argument, migration.to)?;
        chain.uses(&to)?;
        let holders = (from.allocation.device, to.allocation.device);
        if holders.0 == holders.1 {
            chain.copy(from.address(), to.address(), length)?;
            return Ok(chain.end()?);
        }
        self.link(holders.0, holders.1);
        let context =
            |device: usize| Ok::<_, CallError>(self.devices[device].live()?.context.raw());
        // SAFETY: both ranges are the command's.
        let code = unsafe {
            sys::cuMemcpyPeerAsync(
                to.address(),
                context(holders.1)?,
                from.address(),
                context(holders.0)?,
                length as usize,
                chain.stream().raw(),
            )
        };
        named("cuMemcpyPeerAsync", code)?;
        Ok(chain.end()?)
    }

    /// Lets two devices reach each other's memory, if they can; else CUDA copies by way of the host.
    fn link(&self, from: usize, to: usize) {
        let pair = (from.min(to), from.max(to));
        let mut linked = self
            .linked
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner);
        if linked.contains(&pair) {
            return;
        }
        linked.push(pair);
        drop(linked);
        for (one, other) in [(from, to), (to, from)] {
            if let Err(error) = reach(&self.devices[one], &self.devices[other]) {
                tracing::debug!(one, other, ?error, "no direct way between devices");
            }
        }
    }
}

/// Lets a device reach another's memory.
fn reach(device: &Device, other: &Device) -> Called<()> {
    let mut can = 0;
    // SAFETY: asks only.
    let code = unsafe { sys::cuDeviceCanAccessPeer(&raw mut can, device.handle, other.handle) };
    named("cuDeviceCanAccessPeer", code)?;
    if can == 0 {
        return Ok(());
    }
    let (live, there) = (device.live()?, other.live()?);
    let _entered = live.context.enter()?;
    // SAFETY: a context of another device.
    let enabled = unsafe { sys::cuCtxEnablePeerAccess(there.context.raw(), 0) };
    if enabled != sys::CUresult::CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED {
        named("cuCtxEnablePeerAccess", enabled)?;
    }
    let Some(pool) = there.pool else {
        return Ok(());
    };
    let access = sys::CUmemAccessDesc {
        location: sys::CUmemLocation {
            type_: sys::CUmemLocationType::CU_MEM_LOCATION_TYPE_DEVICE,
            id: device.handle,
        },
        flags: sys::CUmemAccess_flags::CU_MEM_ACCESS_FLAGS_PROT_READWRITE,
    };
    // SAFETY: one description, of a device.
    named("cuMemPoolSetAccess", unsafe {
        sys::cuMemPoolSetAccess(pool.0, &raw const access, 1)
    })
}

/// A launch's code, and what is passed to it.
pub(super) struct Code {
    pub(super) compiled: Arc<Compiled>,
    pub(super) passed: Passed,
}

fn put_launch(mut chain: Chain<'_>, command: &Command, code: &Code) -> Result<Flight, Obstacle> {
    let space = space_of(command);
    let mut memories = Vec::with_capacity(command.arguments().len());
    for argument in command.arguments() {
        let bytes = bytes_in(argument, space)?;
        chain.uses(&bytes)?;
        memories.push((argument, bytes.allocation));
    }
    let launch = Launch {
        device: chain.device,
        stream: chain.stream(),
        compiled: &code.compiled,
        passed: &code.passed,
        memories,
    };
    let record = chain.live.staging.record()?;
    let fault = launch.put(record).map_err(|refusal| match refusal {
        Refusal::Call(error) => Obstacle::Call(error),
        Refusal::Error(error) => Obstacle::Error(error),
    })?;
    chain.fault = Some(fault);
    Ok(chain.end()?)
}

fn put_fill(mut chain: Chain<'_>, command: &Command, fill: &Fill) -> Result<Flight, Obstacle> {
    let to = bytes_in(&command.arguments()[0], space_of(command))?;
    chain.uses(&to)?;
    chain.fill(&to, fill.pattern())?;
    Ok(chain.end()?)
}

/// One side of a transfer.
pub(super) enum Side<'a> {
    Host(*mut u8),
    Device(Bytes<'a>),
}

/// A transfer's source and destination.
pub(super) fn sides<'a>(
    command: &'a Command,
    transfer: &Transfer,
) -> Result<(Side<'a>, Side<'a>), Error> {
    let space = space_of(command);
    let side = |endpoint: &Endpoint| -> Result<_, Error> {
        Ok(match endpoint {
            Endpoint::Host(memory) => Side::Host(memory.pointer()),
            Endpoint::Argument(index) => {
                Side::Device(bytes_in(&command.arguments()[*index], space)?)
            }
        })
    };
    Ok((side(&transfer.source)?, side(&transfer.destination)?))
}

fn lane_of(transfer: &Transfer) -> Lane {
    match (&transfer.source, &transfer.destination) {
        (Endpoint::Host(_), _) => Lane::Upload,
        (_, Endpoint::Host(_)) => Lane::Download,
        _ => Lane::Compute,
    }
}

fn put_transfer(
    mut chain: Chain<'_>,
    command: &Command,
    transfer: &Transfer,
) -> Result<Flight, Obstacle> {
    let (source, destination) = sides(command, transfer)?;
    for side in [&source, &destination] {
        if let Side::Device(bytes) = side {
            chain.uses(bytes)?;
        }
    }
    let shape = Shape::of(transfer);
    match (&source, &destination) {
        (Side::Host(from), Side::Device(to)) => {
            chain.upload(*from, to.address(), transfer.bytes())?;
        }
        (Side::Device(from), Side::Host(to)) => {
            chain.download(from.address(), *to, transfer.bytes())?;
        }
        _ => {
            for part in shape.parts() {
                put_part(chain.stream(), &source, &destination, &part)?;
            }
        }
    }
    Ok(chain.end()?)
}

/// Moves a part of a transfer's region: a row, or rows of rows. A side that is the host's is read, or written, before
/// this returns or when its turn has come, as CUDA pleases.
pub(super) fn put_part(
    stream: &Stream,
    source: &Side<'_>,
    destination: &Side<'_>,
    part: &Part,
) -> Called<()> {
    let (from_type, from_host, from_device) = match source {
        Side::Host(from) => (
            CUmemorytype::CU_MEMORYTYPE_HOST,
            from.wrapping_add(part.source as usize).cast_const().cast(),
            0,
        ),
        Side::Device(from) => (
            CUmemorytype::CU_MEMORYTYPE_DEVICE,
            std::ptr::null(),
            from.address() + part.source,
        ),
    };
    let (to_type, to_host, to_device) = match destination {
        Side::Host(to) => (
            CUmemorytype::CU_MEMORYTYPE_HOST,
            to.wrapping_add(part.destination as usize).cast(),
            0,
        ),
        Side::Device(to) => (
            CUmemorytype::CU_MEMORYTYPE_DEVICE,
            std::ptr::null_mut(),
            to.address() + part.destination,
        ),
    };
    if part.is_linear()
        && let (Side::Device(_), Side::Device(_)) = (source, destination)
    {
        // SAFETY: both ranges lie within the region, which the core has checked against both sides.
        let code = unsafe {
            sys::cuMemcpyDtoDAsync_v2(to_device, from_device, part.row as usize, stream.raw())
        };
        return named("cuMemcpyDtoDAsync", code);
    }
    let [row, rows, layers] = part.region();
    let rows_between = |pitch: [usize; 2]| match pitch {
        [_, 0] => rows,
        [pitch, layer] => layer / pitch,
    };
    let copy = CUDA_MEMCPY3D {
        srcXInBytes: 0,
        srcY: 0,
        srcZ: 0,
        srcLOD: 0,
        srcMemoryType: from_type,
        srcHost: from_host,
        srcDevice: from_device,
        srcArray: std::ptr::null_mut(),
        reserved0: std::ptr::null_mut(),
        srcPitch: part.source_pitch[0].max(row),
        srcHeight: rows_between(part.source_pitch),
        dstXInBytes: 0,
        dstY: 0,
        dstZ: 0,
        dstLOD: 0,
        dstMemoryType: to_type,
        dstHost: to_host,
        dstDevice: to_device,
        dstArray: std::ptr::null_mut(),
        reserved1: std::ptr::null_mut(),
        dstPitch: part.destination_pitch[0].max(row),
        dstHeight: rows_between(part.destination_pitch),
        WidthInBytes: row,
        Height: rows,
        Depth: layers,
    };
    // SAFETY: the region lies within both sides, which are the command's.
    named("cuMemcpy3DAsync", unsafe {
        sys::cuMemcpy3DAsync_v2(&raw const copy, stream.raw())
    })
}
