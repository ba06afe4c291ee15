//! The sequential model: commands one after another, in enqueue order, on plain
//! bytes, with the rules of failure.

use super::execute::{Outcome, Outcomes};
use super::kernel::Mix;
use super::plan::{End, Fate, Id, Plan, Region, Shape, Step, Work};
use quipu_scheduler::error::ErrorKind;
use quipu_scheduler::operation::Step as Stride;
use quipu_scheduler::{AccessMode, Error, RawArgument};
use std::collections::HashMap;
use std::rc::Rc;

/// In place of a step: what went wrong by itself.
const A_FAULT: Id = Id::MAX;

/// True if an error is what a device says that went wrong by itself, or is lost.
pub(super) fn is_of_a_device(error: &Error) -> bool {
    let kind = error.first_cause().kind();
    matches!(
        kind,
        ErrorKind::Device { .. } | ErrorKind::DeviceLost { .. }
    )
}

/// The steps of which one is the first cause of a failure.
pub(super) type Causes = Rc<Vec<Id>>;

/// The host's bytes before a read.
pub(super) const UNREAD: u8 = 0xEE;

/// The model's results.
pub(super) struct Predicted {
    /// The bytes that each read brings.
    pub(super) reads: HashMap<Id, Vec<u8>>,
    /// The buffers at the end: each byte, or why it cannot be read.
    pub(super) buffers: Vec<Vec<Result<u8, Causes>>>,
}

struct Model<'a> {
    plan: &'a Plan,
    outcomes: &'a Outcomes,
    bytes: Vec<Vec<u8>>,
    poison: Vec<Vec<Option<Causes>>>,
    /// The same, with what is around the rows of a failed command, and with failures before that
    /// one: whoever is on other rows may fail as well, and each of these may be named.
    around: Vec<Vec<Option<Causes>>>,
    /// The ends of events: `None` for success.
    failed: HashMap<Id, Option<Causes>>,
    reads: HashMap<Id, Vec<u8>>,
}

/// Predicts the plan, and checks how each event ended against it.
pub(super) fn predict(plan: &Plan, outcomes: &Outcomes) -> Result<Predicted, String> {
    let mut model = Model {
        plan,
        outcomes,
        bytes: plan.buffers.iter().map(|b| vec![0; b.bytes]).collect(),
        poison: plan.buffers.iter().map(|b| vec![None; b.bytes]).collect(),
        around: plan.buffers.iter().map(|b| vec![None; b.bytes]).collect(),
        failed: HashMap::new(),
        reads: HashMap::new(),
    };
    for (id, step) in &plan.steps {
        match step {
            Step::NewUser => model.user(*id)?,
            Step::Command { work, waits, .. } => model.command(*id, work, waits)?,
            _ => {}
        }
    }
    let buffers = model
        .bytes
        .into_iter()
        .zip(model.poison.into_iter().zip(model.around))
        .map(|(bytes, (poison, around))| {
            let each = bytes.into_iter().zip(poison.into_iter().zip(around));
            each.map(|(byte, (poison, around))| match poison {
                None => Ok(byte),
                Some(causes) => Err(around.unwrap_or(causes)),
            })
            .collect()
        })
        .collect();
    Ok(Predicted {
        reads: model.reads,
        buffers,
    })
}

/// Adds causes to a set of them.
fn join(causes: &mut Option<Causes>, more: &Causes) {
    match causes {
        None => *causes = Some(more.clone()),
        Some(have) if Rc::ptr_eq(have, more) => {}
        Some(have) => {
            let mut all: Vec<Id> = have.iter().chain(more.iter()).copied().collect();
            all.sort_unstable();
            all.dedup();
            *have = Rc::new(all);
        }
    }
}

impl Model<'_> {
    fn user(&mut self, id: Id) -> Result<(), String> {
        let failed = (self.plan.end_of(id) != End::Complete).then(|| Rc::new(vec![id]));
        self.ended(id, failed, true)
    }

    /// Notes how a step ended, after a look at how it really did. If it failed, it did
    /// so by itself, or because of others.
    fn ended(&mut self, id: Id, failed: Option<Causes>, own: bool) -> Result<(), String> {
        let causes = match (self.outcomes.get(&id), failed) {
            (None, failed) => failed,
            (Some(Outcome::Fine), None) => None,
            // A fault may have struck whatever it waits for or reads, also where that has no event.
            (Some(Outcome::Failed { error, origin, .. }), _) if self.is_fault(error) => {
                Some(Rc::new(vec![origin.unwrap_or(A_FAULT)]))
            }
            (Some(Outcome::Fine), Some(causes)) => {
                return Err(format!(
                    "step {id} ended well; it should fail because of {causes:?}"
                ));
            }
            (Some(Outcome::Failed { error, .. }), None) => {
                return Err(format!("step {id} failed: '{error}'; it should end well"));
            }
            (
                Some(Outcome::Failed {
                    error,
                    origin,
                    dependency,
                    ..
                }),
                Some(causes),
            ) => {
                let Some(origin) = origin.filter(|origin| causes.contains(origin)) else {
                    return Err(format!(
                        "step {id} failed because of {origin:?} ('{error}'), not of {causes:?}"
                    ));
                };
                if *dependency == own {
                    return Err(format!(
                        "step {id} failed because of {origin}, and says so wrongly: '{error}'"
                    ));
                }
                Some(if causes.len() == 1 {
                    causes
                } else {
                    Rc::new(vec![origin])
                })
            }
            (Some(Outcome::Refused), _) => None,
        };
        self.failed.insert(id, causes);
        Ok(())
    }

    fn is_fault(&self, error: &Error) -> bool {
        self.plan.fault.is_some() && is_of_a_device(error)
    }

    fn command(&mut self, id: Id, work: &Work, waits: &[Id]) -> Result<(), String> {
        if let Some(Outcome::Refused) = self.outcomes.get(&id) {
            return Ok(());
        }
        let mut causes = None;
        for event in waits {
            if let Some(Some(more)) = self.failed.get(event) {
                join(&mut causes, more);
            }
        }
        let regions = work.regions();
        let touched = work.touched();
        let with_touched = || regions.iter().zip(&touched);
        // Bytes that an access of the same command overwrites before are not poisoned.
        let mut healed: Vec<(usize, usize)> = Vec::new();
        let mut possible = None;
        for (region, touched) in with_touched() {
            for (at, is_touched) in region.range.clone().zip(touched) {
                let byte = (region.buffer, at);
                if region.mode.reads() && !healed.contains(&byte) {
                    if let Some(more) = &self.around[region.buffer][at] {
                        join(&mut possible, more);
                    }
                    if let (true, Some(more)) = (is_touched, &self.poison[region.buffer][at]) {
                        join(&mut causes, more);
                    }
                }
            }
            if region.mode.writes() {
                let bytes = region.range.clone().zip(touched);
                let own = bytes.filter(|(_, is_touched)| **is_touched);
                healed.extend(own.map(|(at, _)| (region.buffer, at)));
            }
        }
        if let Some(possible) = &possible
            && (causes.is_some() || self.failed_with(id, possible))
        {
            join(&mut causes, possible);
        }
        let own = causes.is_none();
        if own {
            // Of a graph, the first that fails by itself.
            let fated = match work {
                Work::Graph(recording) => {
                    let mut commands = recording.commands.iter();
                    let first = commands.find(|(_, command)| command.work.is_fated());
                    first.map(|(inner, _)| *inner)
                }
                work => work.is_fated().then_some(id),
            };
            let cancelled = matches!(
                self.outcomes.get(&id),
                Some(Outcome::Failed {
                    cancelled: true,
                    ..
                })
            ) && self.was_asked_to_cancel(id);
            let cause = if cancelled { Some(id) } else { fated };
            causes = cause.map(|cause| Rc::new(vec![cause]));
        }
        self.ended(id, causes, own)?;
        let causes = self.failed.get(&id).cloned().flatten();
        for (region, touched) in with_touched().filter(|(region, _)| region.mode.writes()) {
            for (at, is_touched) in region.range.clone().zip(touched) {
                let around = &mut self.around[region.buffer][at];
                if *is_touched {
                    self.poison[region.buffer][at].clone_from(&causes);
                    if causes.is_none() {
                        *around = None;
                    }
                }
                if let Some(causes) = &causes {
                    join(around, causes);
                }
            }
        }
        if causes.is_none() {
            self.perform(id, work);
        } else if let Work::Read { bytes, .. } = work {
            self.reads.insert(id, vec![UNREAD; *bytes]);
        }
        Ok(())
    }

    /// True if the step failed because of one of these.
    fn failed_with(&self, id: Id, causes: &Causes) -> bool {
        matches!(
            self.outcomes.get(&id),
            Some(Outcome::Failed { origin: Some(origin), dependency: true, .. })
                if causes.contains(origin)
        )
    }

    fn was_asked_to_cancel(&self, id: Id) -> bool {
        let mut steps = self.plan.steps.iter();
        steps.any(|(_, step)| matches!(step, Step::Cancel(target) if *target == id))
    }

    fn perform(&mut self, id: Id, work: &Work) {
        match work {
            Work::Kernel {
                regions, groups, ..
            } => self.mix(id, regions, *groups),
            Work::Task { regions, .. } => self.mix(id, regions, 1),
            Work::Copy { from, to, shape } => {
                let source = self.bytes[from.buffer][from.range.clone()].to_vec();
                let destination = &mut self.bytes[to.buffer][to.range.clone()];
                transfer(&source, destination, shape.row, &shape.strides);
            }
            Work::Fill { to, pattern, shape } => {
                let destination = &mut self.bytes[to.buffer][to.range.clone()];
                let row: Vec<u8> = pattern.iter().copied().cycle().take(shape.row).collect();
                let again = |step: &Stride| Stride {
                    source_stride: 0,
                    ..*step
                };
                let strides: Vec<Stride> = shape.strides.iter().map(again).collect();
                transfer(&row, destination, shape.row, &strides);
            }
            // As far as it came about.
            Work::Map { region, writes } => {
                if let Some(Outcome::Fine) = self.outcomes.get(&id) {
                    let bytes = &mut self.bytes[region.buffer][region.range.clone()];
                    self.reads.insert(id, bytes.to_vec());
                    if let Some(writes) = writes {
                        bytes.copy_from_slice(writes);
                    }
                }
            }
            Work::Write { from, to, shape } => {
                let destination = &mut self.bytes[to.buffer][to.range.clone()];
                transfer(from, destination, shape.row, &shape.strides);
            }
            Work::Read { from, bytes, shape } => {
                let mut host = vec![UNREAD; *bytes];
                let source = &self.bytes[from.buffer][from.range.clone()];
                transfer(source, &mut host, shape.row, &shape.strides);
                self.reads.insert(id, host);
            }
            Work::Marker | Work::Barrier => {}
            Work::Graph(recording) => {
                for (inner, command) in &recording.commands {
                    self.perform(*inner, &command.work);
                }
            }
        }
    }

    fn mix(&mut self, id: Id, regions: &[Region], groups: u32) {
        let mix = Mix {
            id,
            modes: regions.iter().map(|region| region.mode).collect(),
            rows: regions.iter().map(|region| region.rows).collect(),
            groups,
            fate: Fate::Fine,
            spin: 0,
        };
        let arguments: Vec<RawArgument> = regions
            .iter()
            .map(|region| RawArgument {
                // SAFETY: the range lies within the buffer.
                pointer: unsafe {
                    self.bytes[region.buffer]
                        .as_mut_ptr()
                        .add(region.range.start)
                },
                length: region.len(),
            })
            .collect();
        // SAFETY: the arguments lie within the model's buffers, which nobody
        // else touches.
        unsafe { mix.work(&arguments, 0..groups) };
    }
}

fn transfer(from: &[u8], to: &mut [u8], row: usize, strides: &[Stride]) {
    match strides {
        [] => to[..row].copy_from_slice(&from[..row]),
        [stride, inner @ ..] => {
            for index in 0..stride.count {
                transfer(
                    &from[(index * stride.source_stride) as usize..],
                    &mut to[(index * stride.destination_stride) as usize..],
                    row,
                    inner,
                );
            }
        }
    }
}

impl Shape {
    /// Bytes from the first to the last on one side.
    pub(super) fn span(&self, stride: fn(&Stride) -> u64) -> usize {
        let steps = self.strides.iter();
        steps
            .map(|step| (step.count - 1) * stride(step))
            .sum::<u64>() as usize
            + self.row
    }

    /// The mode with which a transfer of this shape writes so many bytes: all of
    /// them, or only some.
    pub(super) fn mode(&self, bytes: usize) -> AccessMode {
        let moved = self
            .strides
            .iter()
            .fold(self.row as u64, |n, s| n * s.count);
        if moved == bytes as u64 {
            AccessMode::Overwrite
        } else {
            AccessMode::ReadWrite
        }
    }
}
