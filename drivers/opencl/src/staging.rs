//! Large copies between devices and the host's pageable memory, by a thread of the host: in pieces through memory that
//! OpenCL has pinned, of which one is copied while another is on its way. Only for devices whose memory is not the host's:
//! others have nothing to gain by a second copy.

use crate::OpenCl;
use crate::device::Device;
use crate::forward::{Bytes, Work};
use crate::native::{Called, Event, Memory, Queue, list, named};
use cl3::types::{CL_FALSE, CL_TRUE, cl_event};
use quipu_core::operation::{Endpoint, Migration, Operation, Transfer};
use quipu_core::{Command, Result, SpaceId};
use quipu_driver_vendor::region::Shape;
use std::ffi::c_void;
use std::ptr::{null, null_mut};
use std::sync::PoisonError;

/// Bytes of a piece.
const PIECE: usize = 2 << 20;
/// Copies of no more bytes are the device's own: a thread of the host costs more.
const LEAST: u64 = 1 << 20;
/// Stages that a device keeps for later.
const KEPT: usize = 4;

/// Pinned memory of a piece.
#[derive(Debug)]
struct Block {
    memory: Memory,
    start: *mut c_void,
}

// SAFETY: it is memory of the process, and whose it is at a time is whose the stage is.
unsafe impl Send for Block {}

/// What a copy goes through.
#[derive(Debug)]
pub(crate) struct Stage {
    queue: Queue,
    blocks: [Block; 2],
}

impl Block {
    fn of(device: &Device, queue: &Queue) -> Called<Self> {
        let memory = Memory::pinned(device.platform.context()?, PIECE)?;
        let mut start = null_mut();
        let flags = cl3::memory::CL_MAP_READ | cl3::memory::CL_MAP_WRITE;
        // SAFETY: the whole of the object, which is there as long as this is; the call returns when it is mapped.
        let event = unsafe {
            cl3::command_queue::enqueue_map_buffer(
                queue.raw(),
                memory.raw(),
                CL_TRUE,
                flags,
                0,
                PIECE,
                &mut start,
                0,
                null(),
            )
        };
        drop(Event::new(named("clEnqueueMapBuffer", event)?));
        Ok(Self { memory, start })
    }
}

impl Drop for Stage {
    fn drop(&mut self) {
        for block in &self.blocks {
            // SAFETY: mapped there, and nothing uses it any more: every copy waits for its end.
            let unmapped = unsafe {
                let (memory, start) = (block.memory.raw(), block.start);
                cl3::command_queue::enqueue_unmap_mem_object(
                    self.queue.raw(),
                    memory,
                    start,
                    0,
                    null(),
                )
            };
            match unmapped {
                Ok(event) => drop(Event::new(event)),
                Err(code) => tracing::debug!(code, "pinned memory was not unmapped"),
            }
        }
        if let Err(error) = self.queue.finish() {
            tracing::debug!(?error, "pinned memory was not unmapped");
        }
    }
}

impl Device {
    fn with_stage<T>(&self, copy: impl FnOnce(&Stage) -> Called<T>) -> Called<T> {
        let stages = || self.stages.lock().unwrap_or_else(PoisonError::into_inner);
        let known = stages().pop();
        let stage = match known {
            Some(stage) => stage,
            None => {
                let queue = self.own_queue()?;
                let blocks = [Block::of(self, &queue)?, Block::of(self, &queue)?];
                Stage { queue, blocks }
            }
        };
        let copied = copy(&stage);
        // Whatever has failed, nothing is on its way when the blocks are others'.
        let copied = copied.and_then(|copied| stage.queue.finish().map(|()| copied));
        if copied.is_ok() {
            let mut stages = stages();
            if stages.len() < KEPT {
                stages.push(stage);
            }
        } else {
            // It may still be on its way, and end with an error: the queue is waited for as it goes.
            drop(stage);
        }
        copied
    }
}

/// True if a command is a large copy between a device and the host, in one row of bytes.
pub(crate) fn is_large(command: &Command) -> bool {
    match command.operation() {
        Operation::Migrate(migration) => {
            let is_hosts = migration.from == SpaceId::HOST || migration.to == SpaceId::HOST;
            let length = command.arguments().first().map(|first| first.length());
            migration.content.is_none() && is_hosts && length > Some(LEAST)
        }
        Operation::Transfer(transfer) => {
            let is_host = |side: &Endpoint| matches!(side, Endpoint::Host(_));
            let is_hosts = is_host(&transfer.source) != is_host(&transfer.destination);
            is_hosts && Shape::of(transfer).row_alone() > Some(LEAST)
        }
        _ => false,
    }
}

/// Does a command that is a large copy; none if it is not such a one.
pub(crate) fn do_here(work: &Work<'_>) -> Option<Result<()>> {
    if !is_large(work.command()) {
        return None;
    }
    match work.command().operation() {
        Operation::Migrate(migration) => Some(migrate(work, migration)),
        Operation::Transfer(transfer) => Some(move_row(work, transfer)),
        _ => None,
    }
}

fn migrate(work: &Work<'_>, migration: &Migration) -> Result<()> {
    let Some(argument) = work.command().arguments().first() else {
        return Ok(());
    };
    let host = argument.on_host()?;
    let is_upload = migration.from == SpaceId::HOST;
    let space = if is_upload {
        migration.to
    } else {
        migration.from
    };
    let (bytes, holder) = work.bytes_in(argument, space)?;
    copy(holder, &bytes, host.pointer, argument.length(), is_upload)
        .map_err(|error| work.device().failed("move a buffer", &error))
}

fn move_row(work: &Work<'_>, transfer: &Transfer) -> Result<()> {
    let (device, arguments) = (work.device(), work.command().arguments());
    let (memory, argument, is_upload) = match (&transfer.source, &transfer.destination) {
        (Endpoint::Host(memory), Endpoint::Argument(at)) => (memory, &arguments[*at], true),
        (Endpoint::Argument(at), Endpoint::Host(memory)) => (memory, &arguments[*at], false),
        _ => return Ok(()),
    };
    let bytes = work.bytes(argument)?;
    copy(
        device,
        &bytes,
        memory.pointer(),
        transfer.bytes(),
        is_upload,
    )
    .map_err(|error| device.failed("copy bytes", &error))
}

/// Copies so many bytes, which both sides have, and which are the command's.
fn copy(
    device: &Device,
    bytes: &Bytes<'_>,
    host: *mut u8,
    length: u64,
    is_upload: bool,
) -> Called<()> {
    let ready = bytes.allocation.ready()?;
    let there = bytes.allocation.memory.raw();
    let piece_of = |number: usize| {
        let start = number * PIECE;
        (start, PIECE.min(length as usize - start))
    };
    device.with_stage(|stage| {
        let queue = stage.queue.raw();
        let put = |number: usize| -> Called<Event> {
            let ((start, bytes_of_piece), block) = (piece_of(number), &stage.blocks[number % 2]);
            // The queue is in order: so what comes after waits as well.
            let first: Vec<cl_event> = ready
                .iter()
                .filter(|_| number == 0)
                .map(Event::raw)
                .collect();
            let (offset, waits) = (bytes.offset as usize + start, list(&first));
            // SAFETY: so many bytes on both sides; the block is not touched before this is over.
            let event = unsafe {
                if is_upload {
                    cl3::command_queue::enqueue_write_buffer(
                        queue,
                        there,
                        CL_FALSE,
                        offset,
                        bytes_of_piece,
                        block.start,
                        first.len() as u32,
                        waits,
                    )
                } else {
                    cl3::command_queue::enqueue_read_buffer(
                        queue,
                        there,
                        CL_FALSE,
                        offset,
                        bytes_of_piece,
                        block.start,
                        first.len() as u32,
                        waits,
                    )
                }
            };
            let event = Event::new(named("clEnqueue…Buffer", event)?);
            stage.queue.flush()?;
            Ok(event)
        };
        // SAFETY (of both): the piece lies within the host's bytes, and nothing else is at work on the block.
        let with_host = |number: usize| {
            let ((start, bytes), block) = (piece_of(number), &stage.blocks[number % 2]);
            let pinned = block.start.cast::<u8>();
            if is_upload {
                // SAFETY: as said.
                unsafe { pinned.copy_from_nonoverlapping(host.add(start), bytes) };
            } else {
                // SAFETY: as said.
                unsafe { host.add(start).copy_from_nonoverlapping(pinned, bytes) };
            }
        };
        let mut on_its_way: [Option<Event>; 2] = [None, None];
        for number in 0..(length as usize).div_ceil(PIECE) {
            if let Some(before) = on_its_way[number % 2].take() {
                before.wait()?;
                if !is_upload {
                    with_host(number - 2);
                }
            }
            if is_upload {
                with_host(number);
            }
            on_its_way[number % 2] = Some(put(number)?);
        }
        let pieces = (length as usize).div_ceil(PIECE);
        for number in pieces.saturating_sub(2)..pieces {
            if let Some(last) = on_its_way[number % 2].take() {
                last.wait()?;
                if !is_upload {
                    with_host(number);
                }
            }
        }
        Ok(())
    })
}

impl OpenCl {
    /// The same, with large copies through pinned memory or without, on all devices. Else on those whose memory is not
    /// the host's.
    #[must_use]
    pub fn staged(mut self, is_staged: bool) -> Self {
        for device in &mut self.devices {
            device.staged = is_staged;
        }
        self
    }
}
