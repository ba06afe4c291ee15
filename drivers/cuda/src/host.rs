//! Large copies from and to the host, on threads of it: in pieces through pinned memory, of which one is copied while
//! another is on its way. What is in memory that [stays where it is](quipu_core::memory::pinned) is moved at once: CUDA
//! is told of that memory the first time.

use crate::device::{DOWNLOADS, Device, Live, UPLOADS};
use crate::forward::{Bytes, MOST_PITCH, Work, address};
use crate::native::{CallError, Called, Event, Stream, named};
use crate::registered::Registered;
use crate::staging::{Block, PIECE};
use crate::transfer::{Side, put_part, sides};
use cudarc::driver::sys::{self, CUdeviceptr};
use quipu_core::SpaceId;
use quipu_core::error::Result;
use quipu_core::operation::{Endpoint, Migration, Operation, Transfer};
use quipu_driver_vendor::region::Shape;
use std::collections::VecDeque;

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

/// The lane of what goes between the host and a device, for traces.
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
    let is_upload = migration.from == SpaceId::HOST;
    let space = if is_upload {
        migration.to
    } else {
        migration.from
    };
    let (bytes, holder) = work.bytes_in(argument, space)?;
    move_large(holder, &bytes, host.pointer, argument.length(), is_upload)
        .map_err(|error| work.device().failed("move a buffer", &error))
}

/// Copies of fewer bytes are not shared out among threads.
const WORTH_A_THREAD: u64 = 4 << 20;
/// The most threads that share a copy. A core copies 8 GB/s between memory that is in no cache and a block, and a device
/// takes 55.
const MOST_THREADS: u64 = 8;
/// Blocks of each thread: one is copied while others are on their way.
const BLOCKS: usize = 3;

/// How many threads share a copy: no more than half of the cores.
fn threads_for(length: u64, cores: u64) -> u64 {
    let most = (cores / 2).clamp(1, MOST_THREADS);
    (length / WORTH_A_THREAD).clamp(1, most)
}

/// A transfer between a device and the host, of many bytes or of rows.
fn transfer_large(work: &Work<'_>, transfer: &Transfer) -> Result<()> {
    let device = work.device();
    let failed = |error: CallError| device.failed("copy bytes", &error);
    let (source, destination) = sides(work, transfer)?;
    let shape = Shape::of(transfer);
    if let Some(length) = shape.row_alone() {
        let moved = match (&source, &destination) {
            (Side::Host(from), Side::Device(to)) => move_large(device, to, *from, length, true),
            (Side::Device(from), Side::Host(to)) => move_large(device, from, *to, length, false),
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
            // Whatever has failed, nothing is on its way when this returns.
            put.and(stream.synchronize())
        })
    };
    device.live().and_then(copy).map_err(failed)
}

/// The host's side of a large copy, for the threads that share it.
#[derive(Clone, Copy)]
struct HostSide(*mut u8);
// SAFETY: each thread has its own part.
unsafe impl Send for HostSide {}

/// Moves bytes between a device and the host.
fn move_large(
    device: &Device,
    bytes: &Bytes<'_>,
    host: *mut u8,
    length: u64,
    is_upload: bool,
) -> Called<()> {
    let live = device.live()?;
    if Registered::is(live, host, length) {
        return move_registered(live, bytes, host, length, is_upload);
    }
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let threads = threads_for(length, cores as u64);
    let share = length.div_ceil(threads).next_multiple_of(PIECE as u64);
    let (ready, first) = (bytes.allocation.ready(), address(bytes));
    let host = HostSide(host);
    let part = |number: u64| {
        let start = (number * share).min(length);
        let length = share.min(length - start) as usize;
        let host = HostSide(host.0.wrapping_add(start as usize));
        let ready = ready.clone();
        move || {
            // The whole of it, not its field, is the thread's.
            let side = host;
            let _entered = live.context.enter()?;
            live.with_stream(|stream| {
                if let Some(ready) = &ready {
                    stream.wait(ready)?;
                }
                let there = first + start;
                // SAFETY: so many bytes on both sides, which are the command's, and of it this thread's.
                unsafe {
                    if is_upload {
                        upload(live, stream, side.0, there, length)
                    } else {
                        download(live, stream, there, side.0, length)
                    }
                }
            })
        }
    };
    if threads == 1 {
        return part(0)();
    }
    std::thread::scope(|scope| {
        let others: Vec<_> = (1..threads)
            .map(|number| {
                std::thread::Builder::new()
                    .spawn_scoped(scope, part(number))
                    .map_err(|_| number)
            })
            .collect();
        let mut outcome = part(0)();
        for other in others {
            let moved = match other {
                Ok(thread) => thread.join().unwrap_or(Ok(())),
                // The system gives no thread: then this one.
                Err(number) => part(number)(),
            };
            outcome = outcome.and(moved);
        }
        outcome
    })
}

/// Moves bytes between a device and memory of the host's that CUDA knows.
fn move_registered(
    live: &Live,
    bytes: &Bytes<'_>,
    host: *mut u8,
    length: u64,
    is_upload: bool,
) -> Called<()> {
    let _entered = live.context.enter()?;
    let (there, length) = (address(bytes), length as usize);
    live.with_stream(|stream| {
        if let Some(ready) = bytes.allocation.ready() {
            stream.wait(&ready)?;
        }
        // SAFETY: so many bytes on both sides, which are the command's until the stream has come here.
        let moved = unsafe {
            if is_upload {
                let code = sys::cuMemcpyHtoDAsync_v2(there, host.cast(), length, stream.raw());
                named("cuMemcpyHtoDAsync", code)
            } else {
                let code = sys::cuMemcpyDtoHAsync_v2(host.cast(), there, length, stream.raw());
                named("cuMemcpyDtoHAsync", code)
            }
        };
        moved.and(stream.synchronize())
    })
}

/// What a thread's pieces go through.
fn blocks(live: &Live) -> Called<[Block; BLOCKS]> {
    let staging = &live.staging;
    Ok([staging.piece()?, staging.piece()?, staging.piece()?])
}

/// # Safety
/// So many bytes on both sides, which nobody else writes.
unsafe fn upload(
    live: &Live,
    stream: &Stream,
    from: *const u8,
    to: CUdeviceptr,
    length: usize,
) -> Called<()> {
    let blocks = blocks(live)?;
    let mut sent: [Option<Event>; BLOCKS] = [const { None }; BLOCKS];
    let mut copy = || {
        for (number, start) in (0..length).step_by(PIECE).enumerate() {
            let (block, sent) = (&blocks[number % BLOCKS], &mut sent[number % BLOCKS]);
            if let Some(sent) = sent.take() {
                sent.synchronize()?;
            }
            let bytes = PIECE.min(length - start);
            // SAFETY: so many bytes on both sides; what was in the block is sent.
            let code = unsafe {
                block
                    .pointer()
                    .copy_from_nonoverlapping(from.add(start), bytes);
                sys::cuMemcpyHtoDAsync_v2(
                    to + start as u64,
                    block.pointer().cast(),
                    bytes,
                    stream.raw(),
                )
            };
            named("cuMemcpyHtoDAsync", code)?;
            *sent = Some(Event::record(stream, false)?);
        }
        Ok(())
    };
    let copied = copy();
    // Whatever has failed, nothing is on its way when the blocks are others'.
    copied.and(stream.synchronize())
}

/// # Safety
/// So many bytes on both sides, of which nobody else touches the host's.
unsafe fn download(
    live: &Live,
    stream: &Stream,
    from: CUdeviceptr,
    to: *mut u8,
    length: usize,
) -> Called<()> {
    let blocks = blocks(live)?;
    let ask = |number: usize| {
        let start = number * PIECE;
        let bytes = PIECE.min(length - start);
        // SAFETY: so many bytes on both sides; what was in the block is copied.
        let code = unsafe {
            sys::cuMemcpyDtoHAsync_v2(
                blocks[number % BLOCKS].pointer().cast(),
                from + start as u64,
                bytes,
                stream.raw(),
            )
        };
        named("cuMemcpyDtoHAsync", code)?;
        Event::record(stream, false)
    };
    let copy = || {
        let pieces = length.div_ceil(PIECE);
        let mut coming = VecDeque::with_capacity(BLOCKS);
        for number in 0..pieces.min(BLOCKS) {
            coming.push_back(ask(number)?);
        }
        for number in 0..pieces {
            if let Some(come) = coming.pop_front() {
                come.synchronize()?;
            }
            let start = number * PIECE;
            // SAFETY: so many bytes on both sides.
            unsafe {
                to.add(start).copy_from_nonoverlapping(
                    blocks[number % BLOCKS].pointer(),
                    PIECE.min(length - start),
                );
            }
            // Its block is free again.
            if number + BLOCKS < pieces {
                coming.push_back(ask(number + BLOCKS)?);
            }
        }
        Ok(())
    };
    let copied = copy();
    // Whatever has failed, nothing is on its way when the blocks are others'.
    copied.and(stream.synchronize())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_are_no_more_than_are_worth_it_and_half_the_cores() {
        assert_eq!(threads_for(1 << 20, 16), 1);
        assert_eq!(threads_for(16 << 20, 16), 4);
        assert_eq!(threads_for(1 << 30, 16), MOST_THREADS);
        assert_eq!(threads_for(1 << 30, 128), MOST_THREADS);
        assert_eq!(threads_for(1 << 30, 6), 3);
        assert_eq!(threads_for(1 << 30, 1), 1);
    }
}
