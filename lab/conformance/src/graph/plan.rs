//! A graph's plan: the steps of a host's program, as data.
//!
//! A step is known by a number that it keeps when others are left out, so that
//! a plan can be made smaller: what refers to a step that is not there is
//! ignored.

use crate::fixture::Fault;
use quipu_scheduler::operation::Step as Stride;
use quipu_scheduler::{AccessMode, QueueOptions};
use std::collections::BTreeMap;
use std::fmt;
use std::ops::Range;
use std::sync::Arc;

/// A step's number.
pub type Id = u32;

/// A program of the host.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The number of contexts, each over all devices.
    pub contexts: usize,
    /// The queues.
    pub queues: Vec<QueuePlan>,
    /// The buffers.
    pub buffers: Vec<BufferPlan>,
    /// The graph that is recorded before anything else, to be launched now and then.
    pub recordings: Vec<Arc<RecordingPlan>>,
    /// The host's steps, in order.
    pub steps: Vec<(Id, Step)>,
    /// True if all devices share one memory space: then order is exact.
    pub one_space: bool,
    /// The fault, if there is one.
    pub fault: Option<Fault>,
}

/// A queue.
#[derive(Clone, Debug)]
pub struct QueuePlan {
    /// The context.
    pub context: usize,
    /// The device.
    pub device: usize,
    /// The options.
    pub options: QueueOptions,
}

/// A buffer.
#[derive(Clone, Debug)]
pub struct BufferPlan {
    /// The context.
    pub context: usize,
    /// Its size.
    pub bytes: usize,
    /// Devices that can use it where it is, in memory of the host.
    pub in_place: bool,
}

/// A recorded graph.
#[derive(Clone, Debug)]
pub struct RecordingPlan {
    /// Its number.
    pub number: usize,
    /// The context.
    pub context: usize,
    /// Its commands, each known by an id of its own.
    pub commands: Vec<(Id, RecordedPlan)>,
}

/// A command of a recorded graph.
#[derive(Clone, Debug)]
pub struct RecordedPlan {
    /// Its queue.
    pub queue: usize,
    /// Its work.
    pub work: Work,
    /// Indices of commands of the recording that it waits for.
    pub after: Vec<usize>,
}

impl RecordingPlan {
    /// The accesses of all commands together: reads of bytes that were there before, and
    /// what is written.
    #[must_use]
    pub fn regions(&self) -> Vec<Region> {
        let mut touched: BTreeMap<(usize, usize), (bool, bool)> = BTreeMap::new();
        for (_, command) in &self.commands {
            let of_command = command.work.touched();
            for (region, of_region) in command.work.regions().iter().zip(of_command) {
                // Bytes between rows count as written, and bytes behind the last row do not.
                let last = of_region.iter().rposition(|is_touched| *is_touched);
                let end = region.range.start + last.map_or(0, |last| last + 1);
                for at in region.range.clone() {
                    let (read, written) = touched.entry((region.buffer, at)).or_default();
                    *read |= region.mode.reads() && !*written;
                    *written |= region.mode.writes() && at < end;
                }
            }
        }
        let of = |mode: AccessMode, wanted: fn(&(bool, bool)) -> bool| {
            let bytes = touched.iter().filter(move |(_, how)| wanted(how));
            bytes.map(move |((buffer, at), _)| Region {
                buffer: *buffer,
                range: *at..*at + 1,
                mode,
                rows: None,
            })
        };
        let reads = of(AccessMode::Read, |(read, _)| *read);
        let writes = of(AccessMode::Overwrite, |(_, written)| *written);
        reads.chain(writes).collect()
    }

    /// True if one of its commands may touch anything.
    #[must_use]
    pub fn is_unknown(&self) -> bool {
        let mut commands = self.commands.iter();
        commands.any(|(_, command)| command.work.is_unknown())
    }
}

/// A step of the host.
#[derive(Clone, Debug)]
pub enum Step {
    /// Makes a user event.
    NewUser,
    /// Ends it.
    EndUser {
        /// The user event.
        user: Id,
        /// Its end.
        end: End,
    },
    /// Enqueues a command.
    Command {
        /// Its queue.
        queue: usize,
        /// Its work.
        work: Work,
        /// Explicit waits.
        waits: Vec<Id>,
        /// One-way: it has no event. Only for kernels and recorded graphs.
        posted: bool,
    },
    /// Asks for a command's cancellation.
    Cancel(Id),
    /// Waits for an event, if it can end.
    Wait(Id),
    /// Looks whether an event is over.
    Look(Id),
    /// Registers a callback.
    Observe(Id),
    /// Waits for a queue, if it can become empty.
    WaitQueue(usize),
    /// Drops a queue, which is not used any more.
    DropQueue(usize),
    /// Drops a buffer, which is not used any more.
    DropBuffer(usize),
}

/// The end of a user event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// Completed.
    Complete,
    /// Failed.
    Fail,
    /// Dropped.
    Drop,
}

/// A command.
#[derive(Clone, Debug)]
pub enum Work {
    /// A kernel that mixes what it reads into what it writes.
    Kernel {
        /// Its accesses: reads come first.
        regions: Vec<Region>,
        /// Work-groups.
        groups: u32,
        /// Its end.
        fate: Fate,
        /// The time that it takes, in turns of a loop.
        spin: u32,
    },
    /// The same, as a host task.
    Task {
        /// Its accesses.
        regions: Vec<Region>,
        /// Says that it may touch anything.
        unknown: bool,
        /// Its end.
        fate: Fate,
    },
    /// A copy between buffers.
    Copy {
        /// The source.
        from: Region,
        /// The destination.
        to: Region,
        /// The shape.
        shape: Shape,
    },
    /// A fill.
    Fill {
        /// The region.
        to: Region,
        /// With what, in each row anew.
        pattern: Vec<u8>,
        /// The rows of it.
        shape: Shape,
    },
    /// Host memory to a buffer.
    Write {
        /// The host's bytes.
        from: Vec<u8>,
        /// The destination.
        to: Region,
        /// The shape.
        shape: Shape,
    },
    /// A buffer to host memory.
    Read {
        /// The source.
        from: Region,
        /// The number of bytes that the host has.
        bytes: usize,
        /// The shape.
        shape: Shape,
    },
    /// A turn of the host: a mapping, if it can come about at once, else one that is given up. Has
    /// no event.
    Map {
        /// The region.
        region: Region,
        /// The bytes that the host writes there, if any.
        writes: Option<Vec<u8>>,
    },
    /// A marker.
    Marker,
    /// A barrier.
    Barrier,
    /// A launch of a recorded graph.
    Graph(Arc<RecordingPlan>),
}

/// The end of a kernel or task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// Well.
    Fine,
    /// With an error, before it writes anything.
    FailEarly,
    /// With an error, after it has written everything.
    FailLate,
    /// With a panic.
    Panic,
}

/// Bytes of a buffer.
#[derive(Clone, Debug)]
pub struct Region {
    /// The buffer.
    pub buffer: usize,
    /// The bytes.
    pub range: Range<usize>,
    /// The access of each.
    pub mode: AccessMode,
    /// If only rows of them are accessed.
    pub rows: Option<Rows>,
}

/// Rows of a region.
#[derive(Clone, Copy, Debug)]
pub struct Rows {
    /// Bytes of a row.
    pub row: usize,
    /// Bytes from one row to the next.
    pub stride: usize,
}

impl Rows {
    /// True if a byte of the region is one of a row's.
    #[must_use]
    pub fn have(&self, index: usize) -> bool {
        index % self.stride < self.row
    }
}

impl Region {
    /// True if it accesses this byte of the buffer.
    #[must_use]
    pub fn touches(&self, at: usize) -> bool {
        self.range.contains(&at)
            && self
                .rows
                .is_none_or(|rows| rows.have(at - self.range.start))
    }

    /// The rows, as the core is told of them.
    #[must_use]
    pub fn in_core(&self) -> Option<quipu_scheduler::Region> {
        let Rows { row, stride } = self.rows?;
        let count = self.len().div_ceil(stride) as u64;
        let steps = [(count, stride as u64)];
        Some(quipu_scheduler::Region::new(
            self.range.start as u64,
            row as u64,
            steps,
        ))
    }

    /// Bytes.
    #[must_use]
    pub fn len(&self) -> usize {
        self.range.end - self.range.start
    }

    /// True if there are none; never so in a plan.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.range.is_empty()
    }
}

/// The shape of a transfer: rows, and the strides between them.
#[derive(Clone, Debug)]
pub struct Shape {
    /// Bytes of a row.
    pub row: usize,
    /// Outer dimensions.
    pub strides: Vec<Stride>,
}

impl Shape {
    /// The bytes among so many of a side that it moves. The core asks no further if there are no
    /// gaps between its rows.
    fn touched(&self, bytes: usize, stride: fn(&Stride) -> u64) -> Vec<bool> {
        let steps = self.strides.iter().map(|step| (step.count, stride(step)));
        let has_gaps = quipu_scheduler::Region::new(0, self.row as u64, steps).has_gaps();
        let mut touched = vec![!has_gaps; bytes];
        let further = |starts: Vec<usize>, step: &Stride| {
            let all = starts.into_iter().flat_map(|start| {
                (0..step.count).map(move |at| start + (at * stride(step)) as usize)
            });
            all.collect()
        };
        let starts = self.strides.iter().fold(vec![0], further);
        let moved = starts.into_iter().flat_map(|start| start..start + self.row);
        moved.for_each(|byte| touched[byte] = true);
        touched
    }
}

impl Work {
    /// For each of its regions, whether each of its bytes is really touched, and not only what is
    /// around it.
    #[must_use]
    pub fn touched(&self) -> Vec<Vec<bool>> {
        let from_source: fn(&Stride) -> u64 = |step| step.source_stride;
        let to_destination: fn(&Stride) -> u64 = |step| step.destination_stride;
        match self {
            Self::Copy { from, to, shape } => vec![
                shape.touched(from.len(), from_source),
                shape.touched(to.len(), to_destination),
            ],
            Self::Fill { to, shape, .. } | Self::Write { to, shape, .. } => {
                vec![shape.touched(to.len(), to_destination)]
            }
            Self::Read { from, shape, .. } => vec![shape.touched(from.len(), from_source)],
            _ => {
                let all = self.regions().into_iter();
                all.map(|region| region.range.clone().map(|at| region.touches(at)).collect())
                    .collect()
            }
        }
    }

    /// Its accesses, as the core records them.
    #[must_use]
    pub fn regions(&self) -> Vec<Region> {
        match self {
            Self::Kernel { regions, .. } | Self::Task { regions, .. } => regions.clone(),
            Self::Copy { from, to, .. } => vec![from.clone(), to.clone()],
            Self::Fill { to, .. } | Self::Write { to, .. } => vec![to.clone()],
            Self::Read { from, .. } => vec![from.clone()],
            Self::Map { region, .. } => vec![region.clone()],
            Self::Marker | Self::Barrier => Vec::new(),
            Self::Graph(recording) => recording.regions(),
        }
    }

    /// True if it may touch anything.
    #[must_use]
    pub fn is_unknown(&self) -> bool {
        match self {
            Self::Task { unknown, .. } => *unknown,
            Self::Graph(recording) => recording.is_unknown(),
            _ => false,
        }
    }

    /// True if it fails by itself.
    #[must_use]
    pub fn is_fated(&self) -> bool {
        match self {
            // A launch of no groups runs nothing that could fail.
            Self::Kernel { fate, groups, .. } => *fate != Fate::Fine && *groups > 0,
            Self::Task { fate, .. } => *fate != Fate::Fine,
            _ => false,
        }
    }
}

impl Plan {
    /// The end of a user event: as its first ending step says, else it is
    /// completed at the end.
    #[must_use]
    pub fn end_of(&self, user: Id) -> End {
        let ends = self.steps.iter().filter_map(|(_, step)| match step {
            Step::EndUser { user: of, end } if *of == user => Some(*end),
            _ => None,
        });
        ends.into_iter().next().unwrap_or(End::Complete)
    }
}

impl fmt::Display for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, queue) in self.queues.iter().enumerate() {
            writeln!(
                f,
                "  queue {index}: context {}, device {}, {:?}",
                queue.context, queue.device, queue.options
            )?;
        }
        for (index, buffer) in self.buffers.iter().enumerate() {
            writeln!(
                f,
                "  buffer {index}: context {}, {} bytes",
                buffer.context, buffer.bytes
            )?;
        }
        for recording in &self.recordings {
            let RecordingPlan {
                number, context, ..
            } = &**recording;
            writeln!(f, "  recording {number}: context {context}")?;
            for (id, command) in &recording.commands {
                writeln!(f, "    {id}: {command:?}")?;
            }
        }
        if let Some(fault) = &self.fault {
            writeln!(f, "  {fault:?}")?;
        }
        for (id, step) in &self.steps {
            match step {
                Step::Command {
                    queue,
                    work: Work::Graph(recording),
                    waits,
                    posted,
                } => writeln!(
                    f,
                    "  {id}: recording {} on queue {queue} after {waits:?}, posted: {posted}",
                    recording.number
                )?,
                step => writeln!(f, "  {id}: {step:?}")?,
            }
        }
        Ok(())
    }
}
