//! Large copies from the host's pageable memory to devices, by a thread of the host: in pieces through memory that OpenCL
//! has pinned, of which one is copied while another is on its way. Only to devices whose memory is not the host's: others
//! have nothing to gain by a second copy, and nor has what is read back, which NVIDIA's OpenCL brings at 11 to 13 GB/s from
//! an H200 by itself, and one thread of its host through pinned memory at 7 to 8.

use crate::OpenCl;
use crate::device::Device;
use crate::forward::{Bytes, Work};
use crate::native::{Called, Event, Queue, list, named};
use crate::pinned::Block;
use cl3::types::{CL_FALSE, cl_event};
use quipu_core::operation::{Endpoint, Migration, Operation, Transfer};
use quipu_core::{Command, Result, SpaceId};
use quipu_driver_vendor::region::Shape;
use std::sync::PoisonError;

/// Bytes of a piece.
const PIECE: usize = 2 << 20;
/// Copies of no more bytes are the device's own: a thread of the host costs more.
const LEAST: u64 = 1 << 20;
/// Stages that a device keeps for later.
const KEPT: usize = 4;

/// What a copy goes through.
#[derive(Debug)]
pub(crate) struct Stage {
    queue: Queue,
    blocks: [Block; 2],
}

impl Device {
    fn with_stage<T>(&self, copy: impl FnOnce(&Stage) -> Called<T>) -> Called<T> {
        let stages = || self.stages.lock().unwrap_or_else(PoisonError::into_inner);
        let known = stages().pop();
        let stage = match known {
            Some(stage) => stage,
            None => {
                let queue = self.own_queue()?;
                let block = || Block::of(self, &queue, PIECE);
                let blocks = [block()?, block()?];
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

/// True if a command is a large copy from the host to a device, in one row of bytes.
pub(crate) fn is_large(command: &Command) -> bool {
    match command.operation() {
        Operation::Migrate(migration) => {
            let length = command.arguments().first().map(|first| first.length());
            migration.content.is_none() && migration.from == SpaceId::HOST && length > Some(LEAST)
        }
        Operation::Transfer(transfer) => {
            let is_host = |side: &Endpoint| matches!(side, Endpoint::Host(_));
            let is_upload = is_host(&transfer.source) && !is_host(&transfer.destination);
            is_upload && Shape::of(transfer).row_alone() > Some(LEAST)
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
    let (bytes, holder) = work.bytes_in(argument, migration.to)?;
    copy(holder, &bytes, host.pointer, argument.length())
        .map_err(|error| work.device().failed("move a buffer", &error))
}

fn move_row(work: &Work<'_>, transfer: &Transfer) -> Result<()> {
    let (device, arguments) = (work.device(), work.command().arguments());
    let (Endpoint::Host(memory), Endpoint::Argument(at)) =
        (&transfer.source, &transfer.destination)
    else {
        return Ok(());
    };
    let bytes = work.bytes(&arguments[*at])?;
    copy(device, &bytes, memory.pointer(), transfer.bytes())
        .map_err(|error| device.failed("copy bytes", &error))
}

/// Copies so many bytes, which both sides have, and which are the command's, to a device.
fn copy(device: &Device, bytes: &Bytes<'_>, host: *const u8, length: u64) -> Called<()> {
    let ready = bytes.allocation.ready()?;
    let there = bytes.allocation.memory.raw();
    device.with_stage(|stage| {
        let mut on_its_way: [Option<Event>; 2] = [None, None];
        for (number, start) in (0..length as usize).step_by(PIECE).enumerate() {
            let (block, sent) = (&stage.blocks[number % 2], &mut on_its_way[number % 2]);
            if let Some(sent) = sent.take() {
                sent.wait()?;
            }
            let piece = PIECE.min(length as usize - start);
            // The queue is in order: so what comes after waits as well.
            let first: Vec<cl_event> = ready
                .iter()
                .filter(|_| number == 0)
                .map(Event::raw)
                .collect();
            // SAFETY: so many bytes on both sides; what was in the block is sent, and it is not touched before this is.
            let event = unsafe {
                let pinned = block.start().cast::<u8>();
                pinned.copy_from_nonoverlapping(host.add(start), piece);
                cl3::command_queue::enqueue_write_buffer(
                    stage.queue.raw(),
                    there,
                    CL_FALSE,
                    bytes.offset as usize + start,
                    piece,
                    block.start(),
                    first.len() as u32,
                    list(&first),
                )
            };
            *sent = Some(Event::new(named("clEnqueueWriteBuffer", event)?));
            stage.queue.flush()?;
        }
        let mut last = on_its_way.into_iter().flatten();
        last.try_for_each(|sent| sent.wait())
    })
}

impl OpenCl {
    /// The same, with large copies to devices and the fault records of kernels through pinned memory or without, on all of
    /// them. Else on those whose memory is not the host's.
    #[must_use]
    pub fn staged(mut self, is_staged: bool) -> Self {
        for device in &mut self.devices {
            device.staged = is_staged;
        }
        self
    }
}
