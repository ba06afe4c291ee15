//! Large copies between the host's pageable memory and devices, by threads of the host, in pieces
//! through memory that OpenCL has pinned. Only with devices whose memory is not the host's: others
//! have nothing to gain by a second copy.

use crate::OpenCl;
use crate::device::Device;
use crate::forward::{Bytes, Work, lands};
use crate::native::{CallError, Called, Event, Queue, list, named};
use crate::pinned::Block;
use crate::registered;
use cl3::types::{CL_FALSE, cl_event, cl_mem};
use quipu_device_queue::region::Shape;
use quipu_device_queue::staging::{
    BLOCKS, Direction, Line, MOST_THREADS, PIECE, Pieces, threads_for,
};
use quipu_device_queue::workers::Workers;
use quipu_scheduler::operation::{Endpoint, Migration, Operation, Transfer};
use quipu_scheduler::panics::quietly;
use quipu_scheduler::{Command, Result, SpaceId};
use std::ffi::c_void;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

/// Copies of no more bytes are the device's own: a thread of the host costs more.
const LEAST: u64 = 1 << 20;
/// A read by fewer threads is the device's own: NVIDIA's OpenCL brings it faster than a thread of
/// the host.
const LEAST_THREADS_DOWN: usize = 3;

/// The large copies and small reads that go through pinned memory; fault records do if any of these
/// do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Staged {
    Nothing,
    /// The copies that are faster so, or may be.
    WhatGains,
    All,
}

/// The queue and the blocks that a copy goes through.
#[derive(Debug)]
struct Stage {
    queue: Queue,
    blocks: [Block; BLOCKS],
}

/// The stages of a device for one direction: as many as threads that keep it busy. To pin memory
/// takes longer than to copy it. Copies that go at the same time share them.
#[derive(Debug, Default)]
pub(crate) struct Stages {
    state: Mutex<State>,
    given_back: Condvar,
}

#[derive(Debug, Default)]
struct State {
    free: Vec<Stage>,
    /// The number of stages, with those in use.
    made: usize,
    /// Threads that help, and wait for one.
    waiting: usize,
}

/// Says, when it goes, that a stage is one of the free or no more.
struct InUse<'a> {
    stages: &'a Stages,
    stage: Option<Stage>,
}

impl Drop for InUse<'_> {
    fn drop(&mut self) {
        let mut state = self.stages.state();
        match self.stage.take() {
            Some(stage) => state.free.push(stage),
            None => state.made -= 1,
        }
        drop(state);
        // A thread that waits for a stage may help with a copy that has nothing left: then it goes
        // on.
        self.stages.given_back.notify_all();
    }
}

impl Stages {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A free one, or room for one more, as soon as there is either. A thread that helps with a
    /// copy leaves one to copies that have none, and gets none once it is not needed any more, or
    /// if many wait already.
    fn take(
        &self,
        workers: &Arc<Workers>,
        helps: bool,
        is_needed: impl Fn() -> bool,
    ) -> Option<InUse<'_>> {
        let most = MOST_THREADS - usize::from(helps);
        let is_busy = |state: &State| state.made - state.free.len() >= most;
        let wait = |state, is_needed: &dyn Fn() -> bool| {
            let waits = |state: &mut State| is_busy(state) && is_needed();
            let waited = self.given_back.wait_while(state, waits);
            waited.unwrap_or_else(PoisonError::into_inner)
        };
        let mut state = self.state();
        if !helps {
            state = wait(state, &|| true);
        } else if is_busy(&state) && state.waiting < MOST_THREADS {
            state.waiting += 1;
            drop(state);
            state = workers.aside(|| wait(self.state(), &is_needed));
            state.waiting -= 1;
        }
        if is_busy(&state) {
            return None;
        }
        let stage = state.free.pop();
        state.made += usize::from(stage.is_none());
        Some(InUse {
            stages: self,
            stage,
        })
    }
}

impl Device {
    fn make_stage(&self) -> Called<Stage> {
        let queue = self.own_queue()?;
        let block = || Block::of(self, &queue, PIECE);
        let blocks = [block()?, block()?, block()?];
        Ok(Stage { queue, blocks })
    }

    /// True if the device is known to gain by host memory that it reaches by itself, whatever the
    /// size.
    pub(crate) fn gains(&self) -> bool {
        match self.staged {
            Staged::Nothing => false,
            Staged::WhatGains => self.platform.is_of_streams,
            Staged::All => true,
        }
    }

    /// Moves pieces through a stage; through none if it cannot be made, so that room can be made on
    /// a device that has none left. A thread that only helps leaves them to others then.
    fn move_pieces(
        &self,
        pieces: &Pieces,
        workers: &Arc<Workers>,
        through: impl FnOnce(&Stage) -> Called<()>,
        by_itself: impl FnOnce() -> Called<()>,
    ) -> Called<()> {
        let helps = pieces.is_helper();
        let stages = &self.stages[pieces.direction() as usize];
        let Some(mut taken) = stages.take(workers, helps, || pieces.are_left()) else {
            return Ok(());
        };
        let stage = match taken.stage.take() {
            Some(stage) => stage,
            None if !pieces.are_left() => return Ok(()),
            None => match self.make_stage() {
                Ok(stage) => stage,
                Err(error) => {
                    quietly(|| tracing::debug!(?error, "no memory was pinned for a large copy"));
                    return if helps { Ok(()) } else { by_itself() };
                }
            },
        };
        through(&stage)?;
        taken.stage = Some(stage);
        Ok(())
    }
}

/// True if a command is a large copy between the host and a device, in one row of bytes, that goes
/// through pinned memory.
pub(crate) fn is_large(device: &Device, command: &Command) -> bool {
    let Some((way, length)) = large(command) else {
        return false;
    };
    match device.staged {
        Staged::Nothing => false,
        Staged::WhatGains => way == Direction::Up || threads_for(length) >= LEAST_THREADS_DOWN,
        Staged::All => true,
    }
}

/// The direction and the length of a large copy between the host and a device, in one row of bytes.
fn large(command: &Command) -> Option<(Direction, u64)> {
    let (way, length) = match command.operation() {
        Operation::Migrate(migration) if migration.content.is_none() => {
            let length = command.arguments().first()?.length();
            let (from, to) = (migration.from, migration.to);
            (way(from == SpaceId::HOST, to == SpaceId::HOST)?, length)
        }
        Operation::Transfer(transfer) => (way_of(transfer)?, Shape::of(transfer).row_alone()?),
        _ => return None,
    };
    (length > LEAST).then_some((way, length))
}

fn way(from_host: bool, to_host: bool) -> Option<Direction> {
    match (from_host, to_host) {
        (true, false) => Some(Direction::Up),
        (false, true) => Some(Direction::Down),
        _ => None,
    }
}

fn way_of(transfer: &Transfer) -> Option<Direction> {
    let is_host = |side: &Endpoint| matches!(side, Endpoint::Host(_));
    way(is_host(&transfer.source), is_host(&transfer.destination))
}

/// Does a command here if it is a large copy, the first of memory that stays where it is, or a read
/// by pinned memory. None if it is none of these.
pub(crate) fn do_here(work: &Work<'_>) -> Option<Result<()>> {
    let (command, device) = (work.command(), work.device());
    match command.operation() {
        Operation::Transfer(transfer) if registered::take(device, transfer) => {
            Some(move_row(work, transfer, move_at_once))
        }
        Operation::Transfer(transfer) if lands(device, transfer) => {
            device.landings.make_alone(device);
            Some(move_row(work, transfer, move_at_once))
        }
        // That it goes through pinned memory is decided, or it would not be the host's.
        Operation::Transfer(transfer) if large(command).is_some() => {
            Some(move_row(work, transfer, move_large))
        }
        Operation::Migrate(migration) if large(command).is_some() => Some(migrate(work, migration)),
        _ => None,
    }
}

fn migrate(work: &Work<'_>, migration: &Migration) -> Result<()> {
    let Some(argument) = work.command().arguments().first() else {
        return Ok(());
    };
    let host = argument.on_host()?;
    let (direction, space) = if migration.from == SpaceId::HOST {
        (Direction::Up, migration.to)
    } else {
        (Direction::Down, migration.from)
    };
    let (bytes, holder) = work.bytes_in(argument, space)?;
    let (host, length) = (host.pointer, argument.length());
    move_large(work, holder, &bytes, host, length, direction)
        .map_err(|error| work.device().failed("move a buffer", &error))
}

/// Moves so many bytes, which both sides have, and which are the command's.
type Move = fn(&Work<'_>, &Device, &Bytes<'_>, *mut u8, u64, Direction) -> Called<()>;

fn move_row(work: &Work<'_>, transfer: &Transfer, moves: Move) -> Result<()> {
    let (device, arguments) = (work.device(), work.command().arguments());
    let (memory, at, direction) = match (&transfer.source, &transfer.destination) {
        (Endpoint::Host(memory), Endpoint::Argument(at)) => (memory, *at, Direction::Up),
        (Endpoint::Argument(at), Endpoint::Host(memory)) => (memory, *at, Direction::Down),
        _ => return Ok(()),
    };
    let bytes = work.bytes(&arguments[at])?;
    let (host, length) = (memory.pointer(), transfer.bytes());
    moves(work, device, &bytes, host, length, direction)
        .map_err(|error| device.failed("copy bytes", &error))
}

/// A thread's stage, and the bytes that it moves.
struct OpenClLine<'a> {
    stage: &'a Stage,
    there: cl_mem,
    offset: usize,
    direction: Direction,
    /// The event of the fill with zeros, if there is one.
    ready: Option<cl_event>,
}

/// Bytes of a memory object.
struct Placed {
    there: cl_mem,
    offset: usize,
    length: usize,
    /// The event of the fill with zeros, if there is one.
    ready: Option<cl_event>,
}

impl Placed {
    /// Puts a copy of them into a queue, from here or to here, and has the device begin.
    ///
    /// # Safety
    /// So many bytes are here and there, and nobody else uses them until it is over.
    unsafe fn put(&self, queue: &Queue, here: *mut c_void, direction: Direction) -> Called<Event> {
        let waits = self.ready.as_slice();
        let (count, waits) = (waits.len() as u32, list(waits));
        let (there, offset, length) = (self.there, self.offset, self.length);
        // SAFETY: the caller keeps both ranges until the copy is over, and nobody else uses them.
        let event = unsafe {
            match direction {
                Direction::Up => named(
                    "clEnqueueWriteBuffer",
                    cl3::command_queue::enqueue_write_buffer(
                        queue.raw(),
                        there,
                        CL_FALSE,
                        offset,
                        length,
                        here,
                        count,
                        waits,
                    ),
                ),
                Direction::Down => named(
                    "clEnqueueReadBuffer",
                    cl3::command_queue::enqueue_read_buffer(
                        queue.raw(),
                        there,
                        CL_FALSE,
                        offset,
                        length,
                        here,
                        count,
                        waits,
                    ),
                ),
            }
        };
        let event = Event::new(event?);
        queue.flush()?;
        Ok(event)
    }
}

// SAFETY: the blocks are the stage's, which is one thread's; a queue and its events are waited for.
unsafe impl Line for OpenClLine<'_> {
    type Copy = Event;
    type Failure = CallError;

    fn block(&self, number: usize) -> *mut u8 {
        self.stage.blocks[number].start().cast()
    }

    unsafe fn put(&self, block: usize, place: usize, length: usize) -> Called<Event> {
        let place = Placed {
            there: self.there,
            offset: self.offset + place,
            length,
            ready: self.ready,
        };
        let block = self.stage.blocks[block].start();
        // SAFETY: the caller keeps the contract of `Line::put`: both ranges are there, and unused
        // by others, until the copy is over.
        unsafe { place.put(&self.stage.queue, block, self.direction) }
    }

    fn wait(&self, copy: Event) -> Called<()> {
        copy.wait()
    }

    fn finish(&self) -> Called<()> {
        self.stage.queue.finish()
    }
}

/// Moves by one call, in a queue of its own: a [`Move`].
fn move_at_once(
    _work: &Work<'_>,
    device: &Device,
    bytes: &Bytes<'_>,
    host: *mut u8,
    length: u64,
    direction: Direction,
) -> Called<()> {
    let (ready, queue) = (bytes.allocation.ready()?, device.own_queue()?);
    let placed = Placed {
        there: bytes.allocation.memory.raw(),
        offset: bytes.offset as usize,
        length: length as usize,
        ready: ready.as_ref().map(Event::raw),
    };
    // SAFETY: the bytes are the command's, which is not over before this returns.
    let moved = unsafe { placed.put(&queue, host.cast(), direction) };
    // Also if it was not put there.
    let over = queue.finish();
    moved?.wait().and(over)
}

/// Moves by several threads, through pinned memory: a [`Move`].
fn move_large(
    work: &Work<'_>,
    device: &Device,
    bytes: &Bytes<'_>,
    host: *mut u8,
    length: u64,
    direction: Direction,
) -> Called<()> {
    let (ready, workers) = (bytes.allocation.ready()?, work.workers());
    let (allocation, offset) = (bytes.allocation, bytes.offset);
    let through = |pieces: &Pieces| {
        let by_stage = |stage: &Stage| {
            pieces.through(&OpenClLine {
                stage,
                there: allocation.memory.raw(),
                offset: offset as usize,
                direction,
                ready: ready.as_ref().map(Event::raw),
            })
        };
        let by_itself = || {
            pieces.one_by_one(|host, place, length| {
                let there = offset + place as u64;
                match direction {
                    // SAFETY: so many bytes of the command's, which it only reads.
                    Direction::Up => allocation.write(device, there, unsafe {
                        std::slice::from_raw_parts(host, length)
                    }),
                    // SAFETY: so many bytes of the command's, which nobody else moves or looks at.
                    Direction::Down => allocation.read(device, there, unsafe {
                        std::slice::from_raw_parts_mut(host, length)
                    }),
                }
            })
        };
        device.move_pieces(pieces, workers, by_stage, by_itself)
    };
    // SAFETY: the bytes are the command's.
    let moved = unsafe { Pieces::share(workers, host, length as usize, direction, through)? };
    if moved {
        return Ok(());
    }
    // A thread has panicked with a piece.
    Err(CallError {
        call: "a copy in pieces",
        code: cl3::error_codes::CL_INVALID_OPERATION,
    })
}

impl OpenCl {
    /// The same, with all large copies, reads of few bytes in a row and the fault records of
    /// kernels through pinned memory or none, on all devices. By default the records go through it,
    /// and the copies that may gain, on devices whose memory is not the host's.
    #[must_use]
    pub fn staged(mut self, is_staged: bool) -> Self {
        let staged = if is_staged {
            Staged::All
        } else {
            Staged::Nothing
        };
        for device in &mut self.devices {
            device.staged = staged;
        }
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicBool, Ordering};

    #[test]
    fn who_helps_comes_as_soon_as_others_are_done() {
        let (stages, is_needed) = (Stages::default(), AtomicBool::new(true));
        let workers = Workers::new("stages");
        let help = || stages.take(&workers, true, || is_needed.load(Ordering::SeqCst));
        let mut taken: Vec<_> = (1..MOST_THREADS).map(|_| help()).collect();
        assert!(taken.iter().all(Option::is_some));
        // One is left to whose copies have none.
        taken.push(stages.take(&workers, false, || true));
        std::thread::scope(|scope| {
            let helpers = [scope.spawn(help), scope.spawn(help)];
            taken.truncate(MOST_THREADS - 3);
            for helper in helpers {
                taken.push(helper.join().expect("it does not panic"));
            }
            assert!(taken.iter().all(Option::is_some));
            let helper = scope.spawn(help);
            is_needed.store(false, Ordering::SeqCst);
            taken.push(stages.take(&workers, false, || true));
            taken.truncate(MOST_THREADS - 1);
            assert!(helper.join().expect("it does not panic").is_none());
        });
    }
}
