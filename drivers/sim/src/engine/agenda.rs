//! The agenda: the events to come, in simulated time. Ties are broken by the order in which events
//! were planned, so that the same calls always give the same order.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::command::{CommandId, KernelId};
use super::configuration::DeviceId;
use super::status::{Status, StatusSlot};
use super::time::Nanoseconds;

/// Something that happens at a point in time.
#[derive(Debug)]
pub(crate) enum Event {
    /// An upload reaches its slot.
    Arrive(CommandId),
    /// A status that the host wrote reaches the area.
    HostStatus(StatusSlot, Status),
    /// The kernels of a flush reach the device.
    Prepare(DeviceId, Vec<KernelId>),
    /// The device looks at its slots.
    Poll(DeviceId),
    /// A running command has run its time.
    End(CommandId),
    /// The new image is in place.
    ImageReady(DeviceId),
    /// The host sees the end of a command.
    Report(CommandId, DeviceId),
    /// A recall reaches the device.
    Recall(CommandId),
    /// A recalled command is back at the host.
    Recalled(CommandId),
    /// The device is gone.
    Lose(DeviceId),
    /// The host sees that the device is gone.
    LossSeen(DeviceId),
}

#[derive(Debug)]
struct Entry {
    time: Nanoseconds,
    sequence: u64,
    event: Event,
}

impl PartialEq for Entry {
    fn eq(&self, other: &Self) -> bool {
        self.sequence == other.sequence
    }
}
impl Eq for Entry {}
impl PartialOrd for Entry {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}
impl Ord for Entry {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        (self.time, self.sequence).cmp(&(other.time, other.sequence))
    }
}

/// The events to come, earliest first.
#[derive(Debug, Default)]
pub(crate) struct Agenda {
    heap: BinaryHeap<Reverse<Entry>>,
    planned: u64,
}

impl Agenda {
    pub(crate) fn plan(&mut self, time: Nanoseconds, event: Event) {
        let sequence = self.planned;
        self.planned += 1;
        self.heap.push(Reverse(Entry {
            time,
            sequence,
            event,
        }));
    }

    pub(crate) fn pop(&mut self) -> Option<(Nanoseconds, Event)> {
        self.heap
            .pop()
            .map(|Reverse(entry)| (entry.time, entry.event))
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.heap.is_empty()
    }

    pub(crate) fn clear(&mut self) {
        self.heap.clear();
    }
}
