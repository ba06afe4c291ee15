//! Batches: parts of one command, which run in any order that their waits allow.

use super::faults::next;
use super::machine::Point;
use super::put::{Chain, Place};
use super::{Cargo, Library, Refusal};
use quipu_device_queue::batch::{Does, Plan};
use quipu_device_queue::error::fault;
use quipu_device_queue::region::Part;
use quipu_device_queue::{Bytes, Flight, Obstacle, Work};
use quipu_scheduler::driver::CommandRef;
use quipu_scheduler::operation::Fill;
use quipu_scheduler::{Error, RawArgument};
use std::sync::{Arc, Mutex};

/// See the module.
pub(crate) struct Batch(Vec<Arc<Step>>);

struct Step {
    does: Deed,
    /// The address and the length of each argument.
    arguments: Vec<(u64, u64)>,
    after: Vec<usize>,
    /// The start of each memory that it uses.
    uses: Vec<usize>,
    is_told: bool,
    held: CommandRef,
}

enum Deed {
    Launch,
    Fill(Fill),
    Copy(usize, usize, Vec<Part>),
}

impl Batch {
    pub(super) fn of(plan: &Plan<Library>) -> Self {
        let steps = plan.commands.iter().map(|planned| {
            let places = planned.arguments.iter().zip(&planned.starts);
            Arc::new(Step {
                does: match &planned.does {
                    Does::Launch(_) => Deed::Launch,
                    Does::Fill(fill) => Deed::Fill(fill.clone()),
                    Does::Copy { from, to, parts } => Deed::Copy(*from, *to, parts.clone()),
                },
                arguments: places
                    .map(|(argument, start)| (start + argument.offset(), argument.length()))
                    .collect(),
                after: planned.after.iter().map(|it| *it as usize).collect(),
                uses: planned.starts.iter().map(|start| *start as usize).collect(),
                is_told: planned.is_told,
                held: planned.held,
            })
        });
        Self(steps.collect())
    }
}

pub(super) fn put_batch(
    library: &Library,
    work: &Work<'_, Library>,
    batch: &Batch,
    memories: &[Bytes<'_, Library>],
    waits: &[Point],
) -> Result<Vec<Flight<Library>>, Obstacle<Refusal>> {
    let mut chain = Chain::new(library, work, waits);
    for memory in memories {
        chain.uses(memory.allocation);
    }
    let outcomes: Vec<Arc<Mutex<Option<Error>>>> = batch.0.iter().map(|_| Arc::default()).collect();
    let (mut first, mut points) = (0, Vec::new());
    for steps in batch.0.split_inclusive(|step| step.is_told) {
        let (steps, range) = (steps.to_vec(), first..first + steps.len());
        let records = outcomes[range.clone()].to_vec();
        let uses = steps.iter().flat_map(|step| step.uses.clone()).collect();
        let run = move || run(&steps, first, &records);
        match first {
            0 => chain.call_with(uses, run)?,
            _ => chain.put(uses, run),
        }
        points.extend(range.map(|_| chain.last()));
        first = points.len();
    }
    let flight = chain.end(false)?;
    let last = flight.signal.clone();
    let flights = outcomes
        .into_iter()
        .zip(points)
        .map(|(outcome, point)| Flight {
            signal: last.clone(),
            done: Some(point).filter(|point| !point.is(&last)),
            line: flight.line,
            failure: flight.failure,
            error: None,
            cargo: Cargo {
                earlier: flight.cargo.earlier.clone(),
                outcome,
                ..Cargo::default()
            },
        });
    Ok(flights.collect())
}

/// Runs steps of a batch in some order that is allowed. The first of them has this number.
fn run(steps: &[Arc<Step>], first: usize, records: &[Arc<Mutex<Option<Error>>>]) {
    let mut random = (steps.len() as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut left: Vec<usize> = (0..steps.len()).collect();
    while !left.is_empty() {
        let is_left = |it: &usize| it.checked_sub(first).is_some_and(|it| left.contains(&it));
        let is_ready = |at: &usize| !steps[left[*at]].after.iter().any(is_left);
        let ready: Vec<usize> = (0..left.len()).filter(is_ready).collect();
        let chosen = ready[(next(&mut random) % ready.len() as u64) as usize];
        let number = left.remove(chosen);
        *records[number].lock().expect("nobody panics with it") = steps[number].run().err();
    }
}

impl Step {
    fn argument(&self, number: usize) -> RawArgument {
        let (start, length) = self.arguments[number];
        RawArgument {
            pointer: std::ptr::with_exposed_provenance_mut(start as usize),
            length: length as usize,
        }
    }

    fn run(&self) -> Result<(), Error> {
        match &self.does {
            Deed::Launch => {
                let all: Vec<RawArgument> = (0..self.arguments.len())
                    .map(|number| self.argument(number))
                    .collect();
                // SAFETY: the command is on the device, and so not over; all that it waits for is,
                // and its arguments are where it was told.
                let run = || unsafe {
                    self.held.with(|command| {
                        let ran = command.run_native(&all, 0..command.groups());
                        ran.map_err(|error| fault(command.label(), error.to_string()))
                    })
                };
                let ran = std::panic::catch_unwind(std::panic::AssertUnwindSafe(run));
                return ran.unwrap_or_else(|_| Err(fault("case", "a panic".to_owned())));
            }
            // SAFETY: as above.
            Deed::Fill(fill) => unsafe { fill.fill(self.argument(0)) },
            Deed::Copy(from, to, parts) => {
                let (from, to) = (self.argument(*from).pointer, self.argument(*to).pointer);
                for part in parts {
                    let [row, rows, layers] = part.region();
                    for (layer, line) in
                        (0..layers).flat_map(|layer| (0..rows).map(move |line| (layer, line)))
                    {
                        let at = |start: u64, pitch: [usize; 2]| {
                            start + (layer * pitch[1] + line * pitch[0]) as u64
                        };
                        let from = Place(from).at(at(part.source, part.source_pitch));
                        let to = Place(to).at(at(part.destination, part.destination_pitch));
                        // SAFETY: within the arguments, which are the command's until it is over.
                        unsafe { from.0.copy_to(to.0, row) };
                    }
                }
            }
        }
        Ok(())
    }
}
