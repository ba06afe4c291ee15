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
use quipu_driver_vendor::workers::Workers;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

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
    move_large(
        work.workers(),
        holder,
        &bytes,
        host.pointer,
        argument.length(),
        is_upload,
    )
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
            (Side::Host(from), Side::Device(to)) => {
                move_large(work.workers(), device, to, *from, length, true)
            }
            (Side::Device(from), Side::Host(to)) => {
                move_large(work.workers(), device, from, *to, length, false)
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
            // Whatever has failed, nothing is on its way when this returns.
            put.and(stream.synchronize())
        })
    };
    device.live().and_then(copy).map_err(failed)
}

/// A large copy between pageable memory and a device, whose pieces threads take one after the other.
struct Pieces<'a> {
    live: &'a Live,
    host: *mut u8,
    there: CUdeviceptr,
    length: usize,
    is_upload: bool,
    /// The number of the next piece that nobody has taken.
    next: AtomicUsize,
    /// Bytes that are where they are to be.
    moved: AtomicUsize,
}

// SAFETY: each piece of the host's memory is one thread's.
unsafe impl Sync for Pieces<'_> {}

/// One of them: where it begins, and how long it is.
#[derive(Clone, Copy)]
struct Piece {
    start: usize,
    length: usize,
}

impl Pieces<'_> {
    fn take(&self) -> Option<Piece> {
        let start = self
            .next
            .fetch_add(1, Ordering::Relaxed)
            .checked_mul(PIECE)?;
        (start < self.length).then(|| Piece {
            start,
            length: PIECE.min(self.length - start),
        })
    }

    /// Nobody takes any more.
    fn stop(&self) {
        self.next
            .store(self.length.div_ceil(PIECE), Ordering::Relaxed);
    }

    /// Moves pieces until there are none left. Whatever has failed, nothing of these is on its way when it returns.
    fn work(&self, ready: Option<&Event>) -> Called<()> {
        let _entered = self.live.context.enter()?;
        self.live.with_stream(|stream| {
            if let Some(ready) = ready {
                stream.wait(ready)?;
            }
            let blocks = blocks(self.live)?;
            let copied = match self.is_upload {
                true => self.upload(stream, &blocks),
                false => self.download(stream, &blocks),
            };
            if copied.is_err() {
                self.stop();
            }
            let over = stream.synchronize();
            self.moved.fetch_add(copied?, Ordering::Relaxed);
            over
        })
    }

    /// So many bytes are on their way then.
    fn upload(&self, stream: &Stream, blocks: &[Block; BLOCKS]) -> Called<usize> {
        let mut moved = 0;
        let mut sent: [Option<Event>; BLOCKS] = [const { None }; BLOCKS];
        let turns = (0..BLOCKS).cycle();
        for (turn, piece) in turns.zip(std::iter::from_fn(|| self.take())) {
            let block = &blocks[turn];
            if let Some(sent) = sent[turn].take() {
                sent.synchronize()?;
            }
            // SAFETY: so many bytes on both sides, which are this thread's; what was in the block is sent.
            let code = unsafe {
                let from = self.host.add(piece.start);
                block.pointer().copy_from_nonoverlapping(from, piece.length);
                sys::cuMemcpyHtoDAsync_v2(
                    self.there + piece.start as u64,
                    block.pointer().cast(),
                    piece.length,
                    stream.raw(),
                )
            };
            named("cuMemcpyHtoDAsync", code)?;
            sent[turn] = Some(Event::record(stream, false)?);
            moved += piece.length;
        }
        Ok(moved)
    }

    /// So many bytes have come then.
    fn download(&self, stream: &Stream, blocks: &[Block; BLOCKS]) -> Called<usize> {
        let mut moved = 0;
        let ask = |block: &Block| -> Called<Option<(Piece, Event)>> {
            let Some(piece) = self.take() else {
                return Ok(None);
            };
            // SAFETY: so many bytes on both sides; what was in the block is copied.
            let code = unsafe {
                sys::cuMemcpyDtoHAsync_v2(
                    block.pointer().cast(),
                    self.there + piece.start as u64,
                    piece.length,
                    stream.raw(),
                )
            };
            named("cuMemcpyDtoHAsync", code)?;
            Ok(Some((piece, Event::record(stream, false)?)))
        };
        let mut coming: [Option<(Piece, Event)>; BLOCKS] = [const { None }; BLOCKS];
        for (coming, block) in coming.iter_mut().zip(blocks) {
            *coming = ask(block)?;
        }
        for turn in (0..BLOCKS).cycle() {
            let Some((piece, come)) = coming[turn].take() else {
                break;
            };
            come.synchronize()?;
            // SAFETY: so many bytes on both sides, which are this thread's.
            unsafe {
                let to = self.host.add(piece.start);
                to.copy_from_nonoverlapping(blocks[turn].pointer(), piece.length);
            }
            // Its block is free again.
            coming[turn] = ask(&blocks[turn])?;
            moved += piece.length;
        }
        Ok(moved)
    }
}

/// Moves bytes between a device and the host.
fn move_large(
    workers: &Arc<Workers>,
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
    let (ready, pieces) = (
        bytes.allocation.ready(),
        Pieces {
            live,
            host,
            there: address(bytes),
            length: length as usize,
            is_upload,
            next: AtomicUsize::new(0),
            moved: AtomicUsize::new(0),
        },
    );
    let outcome = Mutex::new(Ok(()));
    workers.share(threads as usize - 1, &|| {
        if let Err(error) = pieces.work(ready.as_ref()) {
            *outcome.lock().unwrap_or_else(PoisonError::into_inner) = Err(error);
        }
    });
    outcome
        .into_inner()
        .unwrap_or_else(PoisonError::into_inner)?;
    if pieces.moved.into_inner() < length as usize {
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
