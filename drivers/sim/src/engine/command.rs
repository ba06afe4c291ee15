//! Commands of the machine: the host uploads them, and gets their results.

use std::sync::Arc;

use quipu_scheduler::Region as Rows;

use super::configuration::DeviceId;
use super::memory::{Access, MemoryAccess};
use super::status::StatusSlot;
use super::time::{Nanoseconds, Times};

/// An uploaded command. Unique for the life of the machine, in order of upload.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CommandId(pub(crate) u64);

impl std::fmt::Display for CommandId {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "command {}", self.0)
    }
}

/// A kernel, by any number that the driver chooses for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct KernelId(pub u64);

/// The kind of a command. Only a kernel needs an image; the rest is for faults and the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    /// A launch of a kernel.
    Kernel(KernelId),
    /// A copy, within the device's memory or from or to the host.
    Copy,
    /// A fill.
    Fill,
    /// Nothing but a point to wait for.
    Marker,
    /// Something else.
    Native,
}

/// The part of a device that a command occupies.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Unit {
    /// The compute unit.
    Compute,
    /// The unit that copies to the device.
    CopyIn,
    /// The unit that copies from the device.
    CopyOut,
    /// No unit: the command ends as soon as it starts, as a marker does.
    Immediate,
}

/// The amount of work of a command; the device's configuration says how long that takes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Cost {
    /// Work-groups, for the compute unit.
    pub groups: u64,
    /// Bytes that move.
    pub bytes: u64,
    /// Time on top.
    pub extra: Nanoseconds,
}

impl Cost {
    /// The cost of `groups` work-groups.
    #[must_use]
    pub const fn groups(groups: u64) -> Self {
        Self {
            groups,
            bytes: 0,
            extra: 0,
        }
    }

    /// The cost of moving `bytes`.
    #[must_use]
    pub const fn bytes(bytes: u64) -> Self {
        Self {
            groups: 0,
            bytes,
            extra: 0,
        }
    }

    /// A fixed time, besides the latency of the unit.
    #[must_use]
    pub const fn time(extra: Nanoseconds) -> Self {
        Self {
            groups: 0,
            bytes: 0,
            extra,
        }
    }
}

/// A status slot that a command waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Wait {
    /// The slot, in the event-status area of the device's own memory space.
    pub slot: StatusSlot,
    /// True if a failure there fails this command too. Pure ordering does not.
    pub propagates: bool,
}

impl Wait {
    /// Waits for success; a failure is passed on.
    #[must_use]
    pub const fn needs(slot: StatusSlot) -> Self {
        Self {
            slot,
            propagates: true,
        }
    }

    /// Waits for the end, however it comes.
    #[must_use]
    pub const fn after(slot: StatusSlot) -> Self {
        Self {
            slot,
            propagates: false,
        }
    }
}

/// A command's change of memory, run once, when the command starts.
pub type Effect = Box<dyn FnOnce(&mut MemoryAccess<'_>) -> Result<(), String> + Send>;

/// A command, ready to be uploaded.
pub struct Command {
    /// The device that runs it.
    pub device: DeviceId,
    /// The driver's own name for it; comes back with its completion.
    pub tag: u64,
    /// Its kind.
    pub kind: Kind,
    /// The unit that it occupies.
    pub unit: Unit,
    /// Its amount of work.
    pub cost: Cost,
    /// The statuses that must have been set before it starts.
    pub waits: Vec<Wait>,
    /// The status that the device sets when it has ended.
    pub signals: Option<StatusSlot>,
    /// The memory its effect touches; anything else is refused to the effect.
    pub accesses: Vec<Access>,
    /// The accesses that leave bytes between rows alone, by index, with the rows by their
    /// addresses. They race with accesses that meet their rows.
    pub rows: Vec<(usize, Rows)>,
    /// Its change of memory.
    pub effect: Effect,
}

impl Command {
    /// A command that waits for nothing, signals nothing and touches nothing.
    pub fn new(
        device: DeviceId,
        kind: Kind,
        unit: Unit,
        cost: Cost,
        effect: impl FnOnce(&mut MemoryAccess<'_>) -> Result<(), String> + Send + 'static,
    ) -> Self {
        Self {
            device,
            tag: 0,
            kind,
            unit,
            cost,
            waits: Vec::new(),
            signals: None,
            accesses: Vec::new(),
            rows: Vec::new(),
            effect: Box::new(effect),
        }
    }

    /// A marker: it ends as soon as its waits are resolved.
    #[must_use]
    pub fn marker(device: DeviceId) -> Self {
        Self::new(
            device,
            Kind::Marker,
            Unit::Immediate,
            Cost::default(),
            |_| Ok(()),
        )
    }

    /// Sets the driver's own name for it.
    #[must_use]
    pub fn tag(mut self, tag: u64) -> Self {
        self.tag = tag;
        self
    }

    /// Waiting for one more slot.
    #[must_use]
    pub fn wait(mut self, wait: Wait) -> Self {
        self.waits.push(wait);
        self
    }

    /// Setting `slot` when it has ended.
    #[must_use]
    pub fn signal(mut self, slot: StatusSlot) -> Self {
        self.signals = Some(slot);
        self
    }

    /// Touching one more region of memory.
    #[must_use]
    pub fn access(mut self, access: Access) -> Self {
        self.accesses.push(access);
        self
    }
}

impl std::fmt::Debug for Command {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter
            .debug_struct("Command")
            .field("device", &self.device)
            .field("tag", &self.tag)
            .field("kind", &self.kind)
            .field("unit", &self.unit)
            .field("cost", &self.cost)
            .field("waits", &self.waits)
            .field("signals", &self.signals)
            .field("accesses", &self.accesses)
            .finish_non_exhaustive()
    }
}

/// The reason of a command's failure.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Failure {
    /// A fault that was asked for.
    #[error("{command} (tag {tag}) failed on {device}, as the configured fault demands: {fault}")]
    Injected {
        /// The device.
        device: DeviceId,
        /// The command.
        command: CommandId,
        /// The driver's name for it.
        tag: u64,
        /// The fault.
        fault: String,
    },
    /// Its effect said so.
    #[error("{command} (tag {tag}) failed on {device}: {message}")]
    Effect {
        /// The device.
        device: DeviceId,
        /// The command.
        command: CommandId,
        /// The driver's name for it.
        tag: u64,
        /// The text of the effect's error.
        message: String,
    },
    /// Its effect panicked.
    #[error("{command} (tag {tag}) panicked on {device}: {message}")]
    Panicked {
        /// The device.
        device: DeviceId,
        /// The command.
        command: CommandId,
        /// The driver's name for it.
        tag: u64,
        /// The panic's message.
        message: String,
    },
    /// It declares memory that an earlier command declares, one of them to write, and nothing
    /// orders the two ([`RacePolicy::Fail`]).
    ///
    /// [`RacePolicy::Fail`]: super::RacePolicy::Fail
    #[error(
        "{command} (tag {tag}) on {device} and {other} use the same memory, one of them to write, and nothing orders \
         them: a dependency is missing"
    )]
    Race {
        /// The device.
        device: DeviceId,
        /// The command that started later.
        command: CommandId,
        /// The driver's name for it.
        tag: u64,
        /// The command that started first.
        other: CommandId,
    },
    /// Its device is gone.
    #[error("{device} was lost")]
    DeviceLost {
        /// The device.
        device: DeviceId,
    },
    /// Its device was reset.
    #[error("{device} was reset")]
    Reset {
        /// The device.
        device: DeviceId,
    },
    /// Something outside the machine failed, and the host said so through a status slot.
    #[error("{message}")]
    Host {
        /// The host's text.
        message: String,
    },
    /// The machine was shut down before the command had ended.
    #[error("the simulated machine was shut down")]
    ShutDown,
}

/// The end of a command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It did its work.
    Complete,
    /// It failed; nothing it wrote was published.
    Failed(Arc<Failure>),
    /// It was not run, because something it needs failed: the first cause.
    Skipped(Arc<Failure>),
}

impl Outcome {
    /// The first cause, unless the command is complete.
    #[must_use]
    pub fn failure(&self) -> Option<&Arc<Failure>> {
        match self {
            Self::Complete => None,
            Self::Failed(failure) | Self::Skipped(failure) => Some(failure),
        }
    }

    /// True if the command did its work.
    #[must_use]
    pub fn is_complete(&self) -> bool {
        matches!(self, Self::Complete)
    }
}

/// The end of a command, as the host sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Completion {
    /// The command.
    pub command: CommandId,
    /// The driver's name for it.
    pub tag: u64,
    /// Its device.
    pub device: DeviceId,
    /// The way in which it ended.
    pub outcome: Outcome,
    /// The time at which it reached each state.
    pub times: Times,
}

/// A report of the machine to the host.
#[derive(Debug)]
pub enum Notice {
    /// A command has ended.
    Completed(Completion),
    /// A command came back unrun, as [`Simulation::recall`] asked.
    ///
    /// [`Simulation::recall`]: super::Simulation::recall
    Recalled {
        /// The id it had.
        id: CommandId,
        /// The command, to be uploaded again or dropped.
        command: Command,
    },
    /// A device that had refused an upload for want of a slot has one.
    SlotsFree {
        /// The device.
        device: DeviceId,
        /// The number of uploads that it takes now.
        credits: usize,
    },
    /// An event-status area that had refused a reservation has a slot.
    StatusSlotsFree {
        /// The space.
        space: super::configuration::SpaceId,
    },
    /// A device was lost; its commands fail, each with its own notice.
    DeviceLost {
        /// The device.
        device: DeviceId,
        /// True if its memory went with it: no surviving device works in that space.
        memory_lost: bool,
    },
}

impl Notice {
    /// The completion, if this is one.
    #[must_use]
    pub fn completion(self) -> Option<Completion> {
        match self {
            Self::Completed(completion) => Some(completion),
            _ => None,
        }
    }
}
