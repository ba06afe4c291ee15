//! The log of all events, in one total order.

use std::collections::VecDeque;

use super::command::{CommandId, Unit};
use super::configuration::{DeviceId, SpaceId};
use super::status::StatusSlot;
use super::time::Nanoseconds;

/// Two commands that declare the same memory, one of them to write, and that nothing orders: a
/// dependency is missing, whether or not they ran at the same time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Race {
    /// The command that started first.
    pub earlier: CommandId,
    /// The command that started after it.
    pub later: CommandId,
}

/// Something that happened.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Occurrence {
    /// The host uploaded a command to a slot.
    Uploaded {
        /// The command.
        command: CommandId,
        /// Its device.
        device: DeviceId,
        /// The slot.
        slot: usize,
    },
    /// The device found no free slot.
    UploadRefused {
        /// The device.
        device: DeviceId,
    },
    /// A command lies in its slot.
    Arrived {
        /// The command.
        command: CommandId,
    },
    /// A command started.
    Started {
        /// The command.
        command: CommandId,
        /// Its device.
        device: DeviceId,
        /// The unit that it occupies.
        unit: Unit,
    },
    /// A command ended.
    Ended {
        /// The command.
        command: CommandId,
        /// True if it did its work.
        complete: bool,
    },
    /// A status was set; by the host, if no command did it.
    StatusSet {
        /// The slot.
        slot: StatusSlot,
        /// The command that signalled it.
        by: Option<CommandId>,
        /// True if it is set to failed.
        failed: bool,
    },
    /// The host saw the end of a command.
    Reported {
        /// The command.
        command: CommandId,
    },
    /// A device reported an end that it had reported before; ignored.
    DuplicateReport {
        /// The device.
        device: DeviceId,
        /// The command.
        command: CommandId,
    },
    /// A device reported the end of a command that had not ended; ignored.
    EarlyReport {
        /// The device.
        device: DeviceId,
        /// The command.
        command: CommandId,
    },
    /// A device had not reported an end; the host asks.
    MissingReport {
        /// The device.
        device: DeviceId,
        /// The command.
        command: CommandId,
    },
    /// A command went back to the host unrun.
    Recalled {
        /// The command.
        command: CommandId,
    },
    /// A drained device got a new image.
    ImageBuilt {
        /// The device.
        device: DeviceId,
        /// The number of kernels in it.
        kernels: usize,
    },
    /// The device runs its new image.
    ImageReady {
        /// The device.
        device: DeviceId,
    },
    /// A device was lost.
    DeviceLost {
        /// The device.
        device: DeviceId,
    },
    /// A space was lost with the last of its devices.
    SpaceLost {
        /// The space.
        space: SpaceId,
    },
    /// Two commands raced.
    Raced(Race),
}

/// One line of the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    /// The time of the event.
    pub time: Nanoseconds,
    /// Its place in the total order.
    pub sequence: u64,
    /// The event.
    pub what: Occurrence,
}

/// The latest records.
#[derive(Debug)]
pub(crate) struct Log {
    records: VecDeque<Record>,
    capacity: usize,
    sequence: u64,
}

impl Log {
    pub(crate) fn new(capacity: usize) -> Self {
        Self {
            records: VecDeque::new(),
            capacity,
            sequence: 0,
        }
    }

    pub(crate) fn write(&mut self, time: Nanoseconds, what: Occurrence) {
        let sequence = self.sequence;
        self.sequence += 1;
        if self.capacity == 0 {
            return;
        }
        if self.records.len() == self.capacity {
            self.records.pop_front();
        }
        self.records.push_back(Record {
            time,
            sequence,
            what,
        });
    }

    pub(crate) fn records(&self) -> impl Iterator<Item = &Record> {
        self.records.iter()
    }
}
