//! A trace in memory.

use std::sync::Arc;

/// The commands of a program, and their context.
///
/// Devices, their lanes and the queues are in the order of their ids. They are those that a command
/// mentions. Commands are in the order in which they started.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Trace {
    /// The devices.
    pub devices: Vec<Device>,
    /// The clocks of other machines, by the machines' names.
    pub clocks: Vec<Clock>,
    /// Bytes that should have gone straight from one machine to another, by the machines' names.
    pub detours: Vec<Detour>,
    /// The queues.
    pub queues: Vec<Queue>,
    /// The commands.
    pub commands: Vec<Command>,
    /// The file had no end: the program died, or still runs.
    pub truncated: bool,
    /// The number of slices in the file that are none of Quipu's.
    pub foreign: u64,
}

/// A device.
#[derive(Clone, Debug, PartialEq)]
pub struct Device {
    /// Its number in the trace.
    pub id: u32,
    /// Its name.
    pub name: String,
    /// The workers and engines of it that ran commands.
    pub lanes: Vec<Lane>,
    /// The number of further lanes, on which nothing ran.
    pub idle_lanes: usize,
}

/// The clock of another machine, by which the times of its devices were told before they were told
/// in this trace's.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Clock {
    /// The machine's name.
    pub node: String,
    /// By how many nanoseconds its clock is ahead.
    pub ahead_ns: i64,
    /// By how many nanoseconds that may be wrong, at the end of the trace.
    pub error_ns: u64,
    /// By how many it might have been wrong at first.
    pub first_error_ns: u64,
    /// By how many billionths it is faster.
    pub drift_ppb: i64,
    /// By how many billionths that may be wrong.
    pub drift_error_ppb: u64,
}

/// The bytes that went from one machine to another by way of the program, since they could not go
/// straight.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Detour {
    /// The name of the machine that has sent them.
    pub from: String,
    /// The name of the machine that they were for.
    pub to: String,
    /// The number of transfers.
    pub transfers: u64,
    /// Their bytes.
    pub bytes: u64,
}

/// A worker or an engine of a device.
#[derive(Clone, Debug, PartialEq)]
pub struct Lane {
    /// Its number on the device.
    pub id: u32,
    /// Its name.
    pub name: String,
}

/// A queue.
#[derive(Clone, Debug, PartialEq)]
pub struct Queue {
    /// Its number in the trace.
    pub id: u32,
    /// Its name.
    pub name: String,
}

/// A command that has ended. Times are in nanoseconds since the trace's origin and do not decrease.
#[derive(Clone, Debug, PartialEq)]
pub struct Command {
    /// Its number, which `waits` refer to.
    pub id: u64,
    /// The kernel's name or the like.
    pub name: Arc<str>,
    /// Its kind, as the file has it: `launch`, `copy`, `migrate`.
    pub kind: Arc<str>,
    /// The [`Device::id`] that ran it.
    pub device: u32,
    /// The [`Lane::id`] on it.
    pub lane: u32,
    /// The [`Queue::id`] it was enqueued on.
    pub queue: u32,
    /// The number of bytes that it moved or set.
    pub bytes: u64,
    /// The time at which it was enqueued.
    pub queued_ns: u64,
    /// The time at which the device got it.
    pub submitted_ns: u64,
    /// The time at which it began to run.
    pub started_ns: u64,
    /// The time at which it was over.
    pub ended_ns: u64,
    /// The reason of its failure, if it failed.
    pub failed: Option<String>,
    /// The ids of the commands that it waited for.
    pub waits: Vec<u64>,
}

impl Command {
    /// True if the core moved data on its own account.
    pub fn is_migration(&self) -> bool {
        &*self.kind == "migrate"
    }

    /// True if it takes bytes from one place to another.
    pub fn moves_bytes(&self) -> bool {
        matches!(&*self.kind, "copy" | "read" | "write" | "migrate" | "map")
    }

    /// The time that it ran.
    pub fn duration_ns(&self) -> u64 {
        self.ended_ns - self.started_ns
    }
}

impl Trace {
    /// From the first thing that was enqueued to the last that ended; `(0, 0)` of no commands.
    pub fn span_ns(&self) -> (u64, u64) {
        let first = self.commands.iter().map(|command| command.queued_ns).min();
        let last = self.commands.iter().map(|command| command.ended_ns).max();
        (first.unwrap_or(0), last.unwrap_or(0))
    }
}
