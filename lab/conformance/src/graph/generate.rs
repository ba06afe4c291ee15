//! Generation of plans from seeds.

use super::order::MOST_USERS;
use super::plan::{
    BufferPlan, End, Fate, Id, Plan, QueuePlan, RecordedPlan, RecordingPlan, Region, Rows, Shape,
    Step, Work,
};
use super::random::Random;
use crate::fixture::{Fault, Graphs, share_one_space};
use quipu_scheduler::operation::Step as Stride;
use quipu_scheduler::{AccessMode, Completion, Device, Priority, QueueOptions};
use std::ops::Range;
use std::sync::Arc;

struct Maker {
    graphs: Graphs,
    random: Random,
    plan: Plan,
    /// Kernels are launched. Where they are host tasks, these have all that is between their rows.
    launches: bool,
    /// Events that there are, by context; user events are in all.
    events: Vec<Id>,
    commands: Vec<Id>,
    /// User events that no step ends yet.
    open: Vec<Id>,
    users: usize,
    live_queues: Vec<usize>,
    live_buffers: Vec<usize>,
}

/// The plan of a seed over these devices.
pub(super) fn generate(seed: u64, devices: &[Device], graphs: Graphs) -> Plan {
    let mut random = Random::new(seed);
    let contexts = if random.percent(20) { 2 } else { 1 };
    // The first queues see to it that every context has one.
    let queues = (0..contexts + random.index(4))
        .map(|index| QueuePlan {
            context: index % contexts,
            device: random.index(devices.len()),
            options: QueueOptions {
                in_order: random.percent(50),
                one_at_a_time: random.percent(10),
                blocking: random.percent(8),
                profiling: random.percent(10),
                priority: match random.index(8) {
                    0 => Priority::Low,
                    1 => Priority::High,
                    _ => Priority::Normal,
                },
                hazards: quipu_scheduler::Hazards::ACROSS_QUEUES,
                completion: if random.percent(25) {
                    Completion::Polling
                } else {
                    Completion::Callback
                },
            },
        })
        .collect::<Vec<_>>();
    let buffers = (0..contexts + random.index(1 + graphs.more_buffers))
        .map(|index| BufferPlan {
            context: index % contexts,
            bytes: 1 + random.index(96),
            in_place: index % 3 == 1,
        })
        .collect::<Vec<_>>();
    let mut maker = Maker {
        live_queues: (0..queues.len()).collect(),
        live_buffers: (0..buffers.len()).collect(),
        plan: Plan {
            contexts,
            queues,
            buffers,
            recordings: Vec::new(),
            steps: Vec::new(),
            one_space: share_one_space(devices),
            fault: None,
        },
        launches: devices
            .iter()
            .all(|device| device.driver().runs_native_code()),
        graphs,
        random,
        events: Vec::new(),
        commands: Vec::new(),
        open: Vec::new(),
        users: 0,
    };
    if maker.random.percent(50) {
        for number in 0..1 + maker.random.index(2) {
            let recording = Arc::new(maker.recording(number));
            maker.plan.recordings.push(recording);
        }
    }
    let length = maker.random.within(3..70) as Id;
    for id in 0..length {
        if let Some(step) = maker.step(id) {
            maker.plan.steps.push((id, step));
        }
    }
    if graphs.have_faults {
        maker.plan.fault = Some(Fault {
            device: maker.random.index(devices.len()),
            nth: maker.random.within(1..40),
            loses: maker.random.percent(40),
        });
    }
    maker.plan
}

impl Maker {
    fn step(&mut self, id: Id) -> Option<Step> {
        match self.random.index(100) {
            0..=9 if self.users < MOST_USERS => {
                self.users += 1;
                self.open.push(id);
                self.events.push(id);
                Some(Step::NewUser)
            }
            10..=17 if !self.open.is_empty() => {
                let at = self.random.index(self.open.len());
                let end = match self.random.index(10) {
                    0 => End::Fail,
                    1 => End::Drop,
                    _ => End::Complete,
                };
                Some(Step::EndUser {
                    user: self.open.swap_remove(at),
                    end,
                })
            }
            18..=20 => self.any_command().map(Step::Cancel),
            21..=23 => self.any_event().map(Step::Wait),
            24..=29 => self.any_event().map(Step::Look),
            30..=31 => self.any_event().map(Step::Observe),
            32 => {
                let queue = self.random.choose(&self.live_queues).copied();
                queue.map(Step::WaitQueue)
            }
            33 if self.live_queues.len() > 1 => {
                let at = self.random.index(self.live_queues.len());
                Some(Step::DropQueue(self.live_queues.swap_remove(at)))
            }
            34 if self.live_buffers.len() > 1 => {
                let at = self.random.index(self.live_buffers.len());
                Some(Step::DropBuffer(self.live_buffers.swap_remove(at)))
            }
            _ => {
                let step = self.command();
                let has_event = !matches!(
                    step,
                    Step::Command { posted: true, .. }
                        | Step::Command {
                            work: Work::Map { .. },
                            ..
                        }
                );
                if has_event {
                    self.events.push(id);
                    self.commands.push(id);
                }
                Some(step)
            }
        }
    }

    /// An event; recent ones more often.
    fn any_event(&mut self) -> Option<Id> {
        Self::recent(&mut self.random, &self.events)
    }

    fn any_command(&mut self) -> Option<Id> {
        Self::recent(&mut self.random, &self.commands)
    }

    fn recent(random: &mut Random, from: &[Id]) -> Option<Id> {
        let some = if random.percent(60) {
            &from[from.len().saturating_sub(5)..]
        } else {
            from
        };
        random.choose(some).copied()
    }

    fn command(&mut self) -> Step {
        let queue = *self
            .random
            .choose(&self.live_queues)
            .expect("one queue is always left");
        let mut waits = Vec::new();
        if self.random.percent(35) {
            // Now and then a list that is long enough to be joined.
            let most = if self.random.percent(10) { 20 } else { 3 };
            for _ in 0..=self.random.index(most) {
                waits.extend(self.any_event());
            }
        }
        let context = self.plan.queues[queue].context;
        let recordings = self.plan.recordings.iter();
        let own = recordings.filter(|recording| recording.context == context);
        let own: Vec<_> = own.cloned().collect();
        let work = match self.random.choose(&own) {
            Some(recording) if self.random.percent(25) => Work::Graph(recording.clone()),
            _ => self.work(context),
        };
        // The end of a command on rows is not always known beforehand, so it has an event.
        let can_be_posted = matches!(work, Work::Kernel { .. } | Work::Graph(_))
            && work.regions().iter().all(|region| region.rows.is_none());
        let posted = can_be_posted && self.random.percent(15);
        Step::Command {
            queue,
            work,
            waits,
            posted,
        }
    }

    fn recording(&mut self, number: usize) -> RecordingPlan {
        let context = self.random.index(self.plan.contexts);
        let queues = (0..self.plan.queues.len())
            .filter(|queue| self.plan.queues[*queue].context == context)
            .collect::<Vec<_>>();
        let mut commands = Vec::new();
        for index in 0..self.random.index(12) {
            let mut work = self.work(context);
            if matches!(work, Work::Read { .. } | Work::Map { .. }) {
                // There is nobody who could look at each launch's bytes.
                work = Work::Marker;
            }
            if self.random.percent(60) {
                // Mostly they all end well.
                match &mut work {
                    Work::Kernel { fate, .. } | Work::Task { fate, .. } => *fate = Fate::Fine,
                    _ => {}
                }
            }
            let mut after = Vec::new();
            while index > 0 && self.random.percent(20) {
                after.push(self.random.index(index));
            }
            let queue = *self
                .random
                .choose(&queues)
                .expect("every context has a queue");
            let id = 10_000 * (number + 1) + index;
            commands.push((id as Id, RecordedPlan { queue, work, after }));
        }
        RecordingPlan {
            number,
            context,
            commands,
        }
    }

    fn work(&mut self, context: usize) -> Work {
        let kind = self.random.index(100);
        match kind {
            0..=54 => self.kernel(context),
            55..=62 => {
                let (regions, fate) = (self.regions(context, true, false), self.fate());
                Work::Task {
                    regions,
                    unknown: self.random.percent(40),
                    fate,
                }
            }
            63..=70 => self.copy(context).unwrap_or(Work::Marker),
            71..=76 => self.fill(context).unwrap_or(Work::Barrier),
            77..=84 => self.write(context).unwrap_or(Work::Marker),
            85..=90 => self.read(context).unwrap_or(Work::Barrier),
            91..=92 => Work::Marker,
            93..=95 => self.map(context).unwrap_or(Work::Marker),
            _ => Work::Barrier,
        }
    }

    fn fate(&mut self) -> Fate {
        match self.random.index(24) {
            0 => Fate::FailEarly,
            1 => Fate::FailLate,
            2 => Fate::Panic,
            _ => Fate::Fine,
        }
    }

    fn kernel(&mut self, context: usize) -> Work {
        let groups = match self.random.index(8) {
            0 => 0,
            1 => 2 + self.random.index(30) as u32,
            _ => 1,
        };
        let mut regions = self.regions(context, groups == 1, true);
        if groups == 0 {
            // Of what it says it overwrites and does not, nothing is known.
            for region in &mut regions {
                if region.mode == AccessMode::Overwrite {
                    region.mode = AccessMode::ReadWrite;
                }
            }
        }
        let spin = match self.random.index(10) {
            0 => 20_000,
            1..=3 => 1000,
            _ => 0,
        };
        Work::Kernel {
            regions,
            groups,
            fate: self.fate(),
            spin,
        }
    }

    /// The accesses of a kernel: reads first. Regions that are written overlap no
    /// others, unless one thread runs it all.
    fn regions(&mut self, context: usize, may_overlap: bool, have_rows: bool) -> Vec<Region> {
        let most = if self.random.percent(8) { 9 } else { 4 };
        let mut regions: Vec<Region> = Vec::new();
        for _ in 0..self.random.index(most) {
            let mode = match self.random.index(5) {
                0 | 1 => AccessMode::Read,
                2 | 3 => AccessMode::ReadWrite,
                _ => AccessMode::Overwrite,
            };
            let Some(mut region) = self.region(context, mode, 96) else {
                break;
            };
            if have_rows
                && self.launches
                && mode != AccessMode::Overwrite
                && self.random.percent(40)
            {
                self.take_rows(&mut region);
            }
            let mut used: Vec<usize> = regions.iter().map(|other| other.buffer).collect();
            used.push(region.buffer);
            used.sort_unstable();
            used.dedup();
            if used.len() > self.graphs.used_buffers {
                continue;
            }
            let clear = regions.iter().all(|other| {
                other.buffer != region.buffer
                    || !(mode.writes() || other.mode.writes())
                    || other.range.end <= region.range.start
                    || region.range.end <= other.range.start
            });
            if clear || may_overlap {
                regions.push(region);
            }
        }
        regions.sort_by_key(|region| region.mode.writes());
        regions
    }

    /// Makes the region one of rows. Of each buffer most are of one matrix.
    fn take_rows(&mut self, region: &mut Region) {
        let stride = match self.random.index(8) {
            0 => 3 + self.random.index(8),
            _ => 5 + region.buffer % 3,
        };
        let rows = Rows {
            row: 1 + self.random.index(stride),
            stride,
        };
        if let Some(further) = region.len().checked_sub(rows.row) {
            let span = further / stride * stride + rows.row;
            region.range.end = region.range.start + span;
            region.rows = Some(rows);
        }
    }

    fn region(&mut self, context: usize, mode: AccessMode, most: usize) -> Option<Region> {
        let own: Vec<usize> = self
            .live_buffers
            .iter()
            .copied()
            .filter(|buffer| self.plan.buffers[*buffer].context == context)
            .collect();
        let buffer = *self.random.choose(&own)?;
        let range = self.range(self.plan.buffers[buffer].bytes, most);
        Some(Region {
            buffer,
            range,
            mode,
            rows: None,
        })
    }

    fn range(&mut self, bytes: usize, most: usize) -> Range<usize> {
        // All of it, half of it, or anything.
        let whole = match self.random.index(4) {
            0 => 0..bytes,
            1 => 0..bytes.div_ceil(2),
            2 => bytes / 2..bytes,
            _ => {
                let start = self.random.index(bytes);
                start..start + 1 + self.random.index(bytes - start)
            }
        };
        whole.start..whole.end.min(whole.start + most)
    }

    /// A shape that fits so many bytes on either side.
    fn shape(&mut self, source: usize, destination: usize) -> Shape {
        let least = source.min(destination);
        let mut shape = Shape {
            row: 1 + self.random.index(least),
            strides: Vec::new(),
        };
        if self.random.percent(50) {
            shape.row = least;
            return shape;
        }
        let (mut from, mut to) = (shape.row, shape.row);
        for _ in 0..2 {
            let count = 1 + self.random.index(4) as u64;
            // The destination's rows do not overlap; the source's may.
            let stride = Stride {
                count,
                source_stride: self.random.within(0..from as u64 + 8),
                destination_stride: to as u64 + self.random.within(0..8),
            };
            from += (stride.source_stride * (count - 1)) as usize;
            to += (stride.destination_stride * (count - 1)) as usize;
            if from > source || to > destination {
                break;
            }
            shape.strides.insert(0, stride);
        }
        shape
    }

    fn copy(&mut self, context: usize) -> Option<Work> {
        let from = self.region(context, AccessMode::Read, 96)?;
        let mut to = self.region(context, AccessMode::Overwrite, 96)?;
        let overlap = from.buffer == to.buffer
            && from.range.start < to.range.end
            && to.range.start < from.range.end;
        if overlap {
            return None;
        }
        let shape = self.shape(from.len(), to.len());
        to.mode = shape.mode(to.len());
        Some(Work::Copy { from, to, shape })
    }

    fn fill(&mut self, context: usize) -> Option<Work> {
        let mut to = self.region(context, AccessMode::Overwrite, 96)?;
        let mut shape = Shape {
            row: to.len(),
            strides: Vec::new(),
        };
        if self.random.percent(40) {
            shape = self.shape(to.len(), to.len());
        }
        to.mode = shape.mode(to.len());
        let sizes: Vec<usize> = (1..=16).filter(|n| shape.row.is_multiple_of(*n)).collect();
        let size = *self.random.choose(&sizes)?;
        let pattern = (0..size).map(|_| self.random.next() as u8).collect();
        Some(Work::Fill { to, pattern, shape })
    }

    fn map(&mut self, context: usize) -> Option<Work> {
        let writes = self.random.percent(50);
        let mode = if writes {
            AccessMode::ReadWrite
        } else {
            AccessMode::Read
        };
        let region = self.region(context, mode, 96)?;
        let bytes = |random: &mut Random| (0..region.len()).map(|_| random.next() as u8).collect();
        let writes = writes.then(|| bytes(&mut self.random));
        Some(Work::Map { region, writes })
    }

    fn write(&mut self, context: usize) -> Option<Work> {
        let mut to = self.region(context, AccessMode::Overwrite, 96)?;
        let bytes = 1 + self.random.index(96);
        let shape = self.shape(bytes, to.len());
        to.mode = shape.mode(to.len());
        let from = (0..bytes).map(|_| self.random.next() as u8).collect();
        Some(Work::Write { from, to, shape })
    }

    fn read(&mut self, context: usize) -> Option<Work> {
        let from = self.region(context, AccessMode::Read, 96)?;
        let bytes = 1 + self.random.index(96);
        let shape = self.shape(from.len(), bytes);
        debug_assert!(shape.span(|s| s.source_stride) <= from.len());
        Some(Work::Read { from, bytes, shape })
    }
}
