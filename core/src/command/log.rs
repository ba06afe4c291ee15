//! The log of commands: `debug` says what is enqueued, `trace` also with which
//! bytes of which buffers it starts, and where they are.
//!
//! While nobody wants it, all it costs is [`is_wanted`], once per enqueue:
//! whether a command's start is to be logged is decided then, and kept where
//! only few commands have anything.

use super::slot::Slot;
use super::{Command, EventId};
use crate::memory::SpaceId;
use crate::queue::QueueShared;
use tracing::Level;
use tracing::level_filters::{LevelFilter, STATIC_MAX_LEVEL};

/// True if somebody may want to hear of commands: one relaxed load.
#[inline]
pub(crate) fn is_wanted() -> bool {
    Level::DEBUG <= STATIC_MAX_LEVEL && Level::DEBUG <= LevelFilter::current()
}

/// Logs a command under construction. True if its start is to be logged too.
pub(crate) fn enqueued(slot: &Slot, id: EventId, name: &str, groups: u32, bytes: u64) -> bool {
    // SAFETY: queues are never freed, and this command is about to be in it.
    let queue: Option<&QueueShared> = unsafe { slot.queue.get().as_ref() };
    let (Some(queue), Some(vtable)) = (queue, slot.vtable.get()) else {
        return false;
    };
    // A context's own markers are nothing that anybody asked for.
    let Some(device) = queue.device() else {
        return false;
    };
    tracing::debug!(
        name,
        kind = vtable.kind.name(),
        queue = queue.id(),
        device = device.name(),
        groups,
        bytes,
        id = format_args!("{:#x}", id.number()),
        "enqueued"
    );
    tracing::enabled!(Level::TRACE)
}

/// Logs the start of a command, if that was asked for as it was enqueued.
pub(super) fn started(command: &Command) {
    let space = command
        .queue()
        .device()
        .map_or(SpaceId::HOST, crate::Device::space);
    let id = command.id().number();
    tracing::trace!(
        name = command.label(),
        id = format_args!("{id:#x}"),
        "started"
    );
    for (index, argument) in command.arguments().iter().enumerate() {
        let memory = argument.memory();
        let address = memory.address_in(space);
        tracing::trace!(
            id = format_args!("{id:#x}"),
            argument = index,
            buffer = memory.id(),
            offset = argument.offset(),
            bytes = argument.length(),
            mode = ?argument.mode(),
            ?space,
            pointer = address.map(|base| tracing::field::display(format!("{:#x}", base + argument.offset()))),
            "with"
        );
    }
}
