//! The record of one command in a trace.

use std::fmt;
use std::sync::Arc;

/// The kinds of command, as the trace tells them apart.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum CommandKind {
    /// A kernel.
    #[default]
    Launch,
    /// Memory to memory of one context.
    Copy,
    /// A pattern into memory.
    Fill,
    /// Device memory to the host's.
    Read,
    /// Host memory to a device's.
    Write,
    /// An implicit copy, made by the core because the data were elsewhere.
    Migrate,
    /// Completes when all commands before it have.
    Marker,
    /// As a marker, and all commands after it wait for it.
    Barrier,
    /// A closure on the host.
    HostTask,
    /// A closure that was handed the driver's own queue.
    Native,
    /// Memory made visible to the host, until it is given back.
    Map,
    /// A recorded graph: over when its commands are.
    Graph,
}

impl CommandKind {
    /// Every kind, in the order of the declaration.
    pub const ALL: [CommandKind; 12] = [
        CommandKind::Launch,
        CommandKind::Copy,
        CommandKind::Fill,
        CommandKind::Read,
        CommandKind::Write,
        CommandKind::Migrate,
        CommandKind::Marker,
        CommandKind::Barrier,
        CommandKind::HostTask,
        CommandKind::Native,
        CommandKind::Map,
        CommandKind::Graph,
    ];

    /// The word for it in the file.
    pub fn as_str(self) -> &'static str {
        match self {
            CommandKind::Launch => "launch",
            CommandKind::Copy => "copy",
            CommandKind::Fill => "fill",
            CommandKind::Read => "read",
            CommandKind::Write => "write",
            CommandKind::Migrate => "migrate",
            CommandKind::Marker => "marker",
            CommandKind::Barrier => "barrier",
            CommandKind::HostTask => "host task",
            CommandKind::Native => "native",
            CommandKind::Map => "map",
            CommandKind::Graph => "graph",
        }
    }
}

impl fmt::Display for CommandKind {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(self.as_str())
    }
}

/// A command's name: static for the core's own names, shared for a kernel's, so that recording
/// never copies it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Name {
    /// Known at compile time.
    Static(&'static str),
    /// Shared with the program that it came from.
    Shared(Arc<str>),
}

impl Name {
    /// The name.
    pub fn as_str(&self) -> &str {
        match self {
            Name::Static(name) => name,
            Name::Shared(name) => name,
        }
    }
}

impl Default for Name {
    fn default() -> Self {
        Name::Static("")
    }
}

impl From<&'static str> for Name {
    fn from(name: &'static str) -> Self {
        Name::Static(name)
    }
}

impl From<Arc<str>> for Name {
    fn from(name: Arc<str>) -> Self {
        Name::Shared(name)
    }
}

impl From<String> for Name {
    fn from(name: String) -> Self {
        Name::Shared(name.into())
    }
}

/// A finished command, failed or not.
///
/// The four times are in nanoseconds since an origin that is the same for the whole trace, and do
/// not decrease from one to the next. Where they do, the later one is taken to be the earlier. A
/// command that never ran (cancelled, or a wait failed) has `started_ns == ended_ns`. Two commands
/// of one lane must not overlap except by nesting: commands that can run at the same time on one
/// device have lanes of their own.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CommandRecord {
    /// Unique in the process and counting up in the order of enqueueing; `waits` of others refer to
    /// it.
    pub id: u64,
    /// The queue it was enqueued on.
    pub queue: u32,
    /// The device that ran it.
    pub device: u32,
    /// The lane within the device: a worker of the CPU's, an engine of an accelerator's.
    pub worker: u32,
    /// Its name: a kernel's name, or the kind's word.
    pub name: Name,
    /// The kind of the command.
    pub kind: CommandKind,
    /// The number of bytes that it moved or set; 0 for kinds that move and set none.
    pub bytes: u64,
    /// The time at which the host enqueued it.
    pub queued_ns: u64,
    /// The time at which its driver handed it to the device.
    pub submitted_ns: u64,
    /// The time at which it began to run.
    pub started_ns: u64,
    /// The time at which it was complete, or had failed.
    pub ended_ns: u64,
    /// The error, if it failed.
    pub failed: Option<String>,
    /// The commands it had to wait for.
    pub waits: Vec<u64>,
}

impl CommandRecord {
    /// A record with this identity and nothing else, to be completed with struct update syntax.
    pub fn new(id: u64, kind: CommandKind, name: impl Into<Name>) -> Self {
        CommandRecord {
            id,
            kind,
            name: name.into(),
            ..CommandRecord::default()
        }
    }

    /// The same record with times that do not decrease.
    pub(super) fn in_order(mut self) -> Self {
        self.submitted_ns = self.submitted_ns.max(self.queued_ns);
        self.started_ns = self.started_ns.max(self.submitted_ns);
        self.ended_ns = self.ended_ns.max(self.started_ns);
        self
    }
}

/// Bytes that should have gone from one machine to another straight, and have come by way of this
/// program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Detour<'a> {
    /// The name of the machine that has sent them.
    pub from: &'a str,
    /// The name of the machine that they were for.
    pub to: &'a str,
    /// The number of bytes.
    pub bytes: u64,
    /// The time at which they were sent.
    pub at_ns: u64,
}

/// The clock of another machine, whose device's times are told in this one's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NodeClock<'a> {
    /// The name of that machine here.
    pub node: &'a str,
    /// The nanoseconds by which its clock is ahead. (Clocks count from different moments.)
    pub ahead_ns: i64,
    /// The nanoseconds by which that may be wrong, and with it the times of its devices.
    pub error_ns: u64,
    /// The billionths by which its clock is faster.
    pub drift_ppb: i64,
    /// The billionths by which that may be wrong.
    pub drift_error_ppb: u64,
}
