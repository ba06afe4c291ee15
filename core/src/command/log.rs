//! The log of commands. `debug` names each enqueued command, and each that fails. `trace` also has
//! the bytes of buffers that it starts with, and their places. `warn` has failures that no event
//! tells of.
//!
//! Without a subscriber its cost is [`is_wanted`], once per enqueue. The enqueue also decides
//! whether the command's start is logged, and keeps that in the command's extension, which only few
//! commands have.

use super::slot::Slot;
use super::{Command, EventId};
use crate::panics::quietly;
use tracing::Level;
use tracing::level_filters::{LevelFilter, STATIC_MAX_LEVEL};

/// True if somebody may want to hear of commands: one relaxed load.
#[inline]
pub(crate) fn is_wanted() -> bool {
    Level::DEBUG <= STATIC_MAX_LEVEL && Level::DEBUG <= LevelFilter::current()
}

/// True if somebody may want to hear of failures that no event tells of.
pub(crate) fn are_warnings_wanted() -> bool {
    Level::WARN <= STATIC_MAX_LEVEL && Level::WARN <= LevelFilter::current()
}

/// True if starts of commands may be wanted too.
pub(crate) fn are_starts_wanted() -> bool {
    Level::TRACE <= STATIC_MAX_LEVEL && Level::TRACE <= LevelFilter::current()
}

/// The record of an enqueued command, for the log.
pub(crate) struct Enqueued {
    id: EventId,
    name: String,
    kind: &'static str,
    queue: u32,
    device: String,
    groups: u32,
    bytes: u64,
}

impl Enqueued {
    /// The record of a command under construction, if anybody may want it.
    pub(crate) fn of(
        slot: &Slot,
        id: EventId,
        name: &str,
        groups: u32,
        bytes: u64,
    ) -> Option<Self> {
        if !is_wanted() {
            return None;
        }
        // SAFETY: a command of it is under construction, by a handle of it.
        let queue = unsafe { slot.queue.get()?.in_use() };
        Some(Self {
            id,
            name: name.to_owned(),
            kind: slot.vtable.get()?.kind.name(),
            queue: queue.id(),
            // A context's own markers are nothing that anybody asked for.
            device: queue.head().device.as_ref()?.name.clone(),
            groups,
            bytes,
        })
    }

    /// Called with nothing locked: a subscriber is a user's code.
    pub(crate) fn log(&self) {
        let Self {
            id,
            name,
            kind,
            queue,
            device,
            groups,
            bytes,
        } = self;
        quietly(|| {
            tracing::debug!(
                name,
                kind,
                queue,
                device,
                groups,
                bytes,
                id = format_args!("{:#x}", id.number()),
                "enqueued"
            );
        });
    }
}

/// Logs the start of a command, if that was asked for as it was enqueued.
pub(super) fn started(command: &Command) {
    let space = command.queue().space();
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
