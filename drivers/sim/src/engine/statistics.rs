//! Counts, for tests, tables and the curious.

use super::command::Unit;
use super::time::Nanoseconds;

/// The counts of a device.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DeviceStatistics {
    /// Commands uploaded.
    pub uploads: u64,
    /// Commands started.
    pub started: u64,
    /// Commands that ended well.
    pub completed: u64,
    /// Commands that failed.
    pub failed: u64,
    /// Commands not run, because something they need failed.
    pub skipped: u64,
    /// Commands that went back unrun.
    pub recalled: u64,
    /// Times the device looked at its slots.
    pub polls: u64,
    /// Images built.
    pub image_builds: u64,
    /// Time spent on building and uploading them.
    pub image_time: Nanoseconds,
    /// Ends reported more than once, and ignored.
    pub duplicate_reports: u64,
    /// Ends reported of commands that had not ended, and ignored.
    pub early_reports: u64,
    /// Ends that were not reported, and found out by asking.
    pub missing_reports: u64,
    pub(crate) busy: [Nanoseconds; 3],
}

impl DeviceStatistics {
    /// The time that `unit` was busy, summed over commands that have ended. Nothing is ever busy
    /// with [`Unit::Immediate`].
    #[must_use]
    pub fn busy(&self, unit: Unit) -> Nanoseconds {
        unit_index(unit).map_or(0, |index| self.busy[index])
    }
}

pub(crate) fn unit_index(unit: Unit) -> Option<usize> {
    match unit {
        Unit::Compute => Some(0),
        Unit::CopyIn => Some(1),
        Unit::CopyOut => Some(2),
        Unit::Immediate => None,
    }
}

/// The counts of the host's acts on the machine.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HostInteractions {
    /// Commands uploaded.
    pub uploads: u64,
    /// Statuses written.
    pub status_writes: u64,
    /// Sets of kernels named for an image.
    pub preparations: u64,
    /// Commands recalled.
    pub recalls: u64,
}

/// The state of a memory space.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemoryStatistics {
    /// Bytes that can be allocated.
    pub capacity: u64,
    /// Bytes that are free.
    pub free: u64,
    /// The largest free piece.
    pub largest_free: u64,
    /// Live allocations.
    pub allocations: usize,
    /// Free slots of the event-status area.
    pub free_status_slots: usize,
    /// True if the space was lost with its devices.
    pub lost: bool,
}
