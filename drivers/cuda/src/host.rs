//! Large copies from and to the host, on threads of it, through pinned memory. Bytes in memory that
//! [stays where it is](quipu_scheduler::memory::pinned) are moved at once: CUDA is told of that
//! memory the first time.

use crate::device::{DOWNLOADS, Device, Live, UPLOADS};
use crate::forward::{Bytes, MOST_PITCH, Work, address};
use crate::native::{CallError, Called, Event, Stream, named};
use crate::registered::Registered;
use crate::staging::Block;
use crate::transfer::{Side, put_part, sides};
use cudarc::driver::sys::{self, CUdeviceptr};
use quipu_device_queue::region::Shape;
use quipu_device_queue::staging::{BLOCKS, Direction, Line, Pieces};
use quipu_device_queue::workers::Workers;
use quipu_scheduler::SpaceId;
use quipu_scheduler::error::Result;
use quipu_scheduler::operation::{Endpoint, Migration, Operation, Transfer};
use std::sync::Arc;

/// Does a command of many bytes; none if it is not such a one.
pub(crate) fn do_here(work: &Work<'_>) -> Option<Result<()>> {
    if let Some(lane) = host_lane(work.command().operation()) {
        work.command().set_lane(lane);
    }
    match work.command().operation() {
        Operation::Migrate(migration) if migration.content.is_none() => {
            Some(migrate_large(work, migration))
        }
        Operation::Transfer(transfer) if Shape::of(transfer).is_for_a_device(MOST_PITCH) => {
            Some(transfer_large(work, transfer))
        }
        _ => None,
    }
}

/// The lane of copies between the host and a device, for traces.
fn host_lane(operation: Operation<'_>) -> Option<u32> {
    let (from_host, to_host) = match operation {
        Operation::Migrate(migration) => (
            migration.from == SpaceId::HOST,
            migration.to == SpaceId::HOST,
        ),
        Operation::Transfer(transfer) => {
            let is_host = |side: &Endpoint| matches!(side, Endpoint::Host(_));
            (is_host(&transfer.source), is_host(&transfer.destination))
        }
        _ => (false, false),
    };
    match (from_host, to_host) {
        (true, _) => Some(UPLOADS),
        (_, true) => Some(DOWNLOADS),
        _ => None,
    }
}

/// A migration between a device and the host, of many bytes.
fn migrate_large(work: &Work<'_>, migration: &Migration) -> Result<()> {
    let argument = &work.command().arguments()[0];
    let host = argument.on_host()?;
    let (direction, space) = if migration.from == SpaceId::HOST {
        (Direction::Up, migration.to)
    } else {
        (Direction::Down, migration.from)
    };
    let (bytes, holder) = work.bytes_in(argument, space)?;
    move_large(
        work.workers(),
        holder,
        &bytes,
        host.pointer,
        argument.length(),
        direction,
    )
    .map_err(|error| work.device().failed("move a buffer", &error))
}

/// A transfer between a device and the host, of many bytes or of rows.
fn transfer_large(work: &Work<'_>, transfer: &Transfer) -> Result<()> {
    let device = work.device();
    let failed = |error: CallError| device.failed("copy bytes", &error);
    let (source, destination) = sides(work, transfer)?;
    let shape = Shape::of(transfer);
    if let Some(length) = shape.row_alone() {
        let moved = match (&source, &destination) {
            (Side::Host(from), Side::Device(to)) => {
                move_large(work.workers(), device, to, *from, length, Direction::Up)
            }
            (Side::Device(from), Side::Host(to)) => {
                move_large(work.workers(), device, from, *to, length, Direction::Down)
            }
            _ => Ok(()),
        };
        return moved.map_err(failed);
    }
    let copy = |live: &Live| {
        let _entered = live.context.enter()?;
        live.with_stream(|stream| {
            for side in [&source, &destination] {
                if let Side::Device(bytes) = side
                    && let Some(ready) = bytes.allocation.ready()
                {
                    stream.wait(&ready)?;
                }
            }
            let mut parts = shape.parts().into_iter();
            let put = parts.try_for_each(|part| put_part(stream, &source, &destination, &part));
            // Also after an error nothing is on its way when this returns.
            put.and(stream.synchronize())
        })
    };
    device.live().and_then(copy).map_err(failed)
}

/// A thread's stream and blocks, and the bytes that they move.
struct CudaLine<'a> {
    stream: &'a Stream,
    blocks: [Block; BLOCKS],
    there: CUdeviceptr,
    direction: Direction,
}

// SAFETY: each block is one of the staging's, which is nobody else's until it is dropped; a stream
// and its events are waited for.
unsafe impl Line for CudaLine<'_> {
    type Copy = Event;
    type Failure = CallError;

    fn block(&self, number: usize) -> *mut u8 {
        self.blocks[number].pointer()
    }

    unsafe fn put(&self, block: usize, place: usize, length: usize) -> Called<Event> {
        let (block, there) = (self.block(block).cast(), self.there + place as u64);
        let stream = self.stream.raw();
        // SAFETY: the caller keeps the contract of `Line::put`: both ranges are there, and unused
        // by others, until the copy is over.
        let (call, code) = unsafe {
            match self.direction {
                Direction::Up => {
                    let code = sys::cuMemcpyHtoDAsync_v2(there, block, length, stream);
                    ("cuMemcpyHtoDAsync", code)
                }
                Direction::Down => {
                    let code = sys::cuMemcpyDtoHAsync_v2(block, there, length, stream);
                    ("cuMemcpyDtoHAsync", code)
                }
            }
        };
        named(call, code)?;
        Event::record(self.stream, false)
    }

    fn wait(&self, copy: Event) -> Called<()> {
        copy.synchronize()
    }

    fn finish(&self) -> Called<()> {
        self.stream.synchronize()
    }
}

/// Moves bytes between a device and the host.
fn move_large(
    workers: &Arc<Workers>,
    device: &Device,
    bytes: &Bytes<'_>,
    host: *mut u8,
    length: u64,
    direction: Direction,
) -> Called<()> {
    let live = device.live()?;
    if Registered::is(live, host, length) {
        return move_registered(live, bytes, host, length, direction);
    }
    let (ready, there) = (bytes.allocation.ready(), address(bytes));
    let work = |pieces: &Pieces| {
        let _entered = live.context.enter()?;
        live.with_stream(|stream| {
            if let Some(ready) = &ready {
                stream.wait(ready)?;
            }
            let staging = &live.staging;
            pieces.through(&CudaLine {
                stream,
                blocks: [staging.piece()?, staging.piece()?, staging.piece()?],
                there,
                direction,
            })
        })
    };
    // SAFETY: the bytes are the command's.
    let moved = unsafe { Pieces::share(workers, host, length as usize, direction, work)? };
    if !moved {
        // A thread has panicked with a piece.
        return Err(CallError {
            call: "a copy in pieces",
            code: sys::CUresult::CUDA_ERROR_UNKNOWN,
        });
    }
    Ok(())
}

/// Moves bytes between a device and memory of the host's that CUDA knows.
fn move_registered(
    live: &Live,
    bytes: &Bytes<'_>,
    host: *mut u8,
    length: u64,
    direction: Direction,
) -> Called<()> {
    let _entered = live.context.enter()?;
    let (there, length) = (address(bytes), length as usize);
    live.with_stream(|stream| {
        if let Some(ready) = bytes.allocation.ready() {
            stream.wait(&ready)?;
        }
        // SAFETY: so many bytes on both sides, which are the command's until the stream has come
        // here.
        let moved = unsafe {
            match direction {
                Direction::Up => {
                    let code = sys::cuMemcpyHtoDAsync_v2(there, host.cast(), length, stream.raw());
                    named("cuMemcpyHtoDAsync", code)
                }
                Direction::Down => {
                    let code = sys::cuMemcpyDtoHAsync_v2(host.cast(), there, length, stream.raw());
                    named("cuMemcpyDtoHAsync", code)
                }
            }
        };
        moved.and(stream.synchronize())
    })
}
