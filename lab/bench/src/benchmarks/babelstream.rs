//! `babelstream`: memory bandwidth of five kernels, beside the same loops on rayon.
//!
//! Subject and reference keep arrays of their own and run every kernel in every round, so both go
//! through the same values; after the last round all arrays are checked against them.

use std::time::Instant;

use crate::error::BenchError;
use crate::harness::{Gate, Plan, Report, Row, Session, counted};
use crate::reference::stream::{Element, Gold, Precision, RayonStream, StreamArray, StreamKernel};
use crate::subject::StreamArrays;

const UNIT: &str = "GB/s";

/// The least share of the reference's bandwidth.
const SHARE: f64 = 0.97;

/// The benchmark `babelstream`.
pub(crate) fn run(session: &Session<'_>, report: &mut Report) -> Result<(), BenchError> {
    let workers = session.worker_counts();
    let plan = session.begin(2 * workers.len());
    // The promise is about three per cent, and memory bandwidth varies by more from run to run;
    // half of the rounds in each of two passes.
    let rounds = session.options.runs.unwrap_or(4 * plan.rounds);
    let plan = Plan {
        rounds: rounds.div_ceil(2),
        // As much time again goes into making and verifying the arrays.
        time_limit: plan.time_limit.map(|limit| limit / 3),
        ..plan
    };
    let in_both_passes = 2 * (plan.warm_up + plan.rounds);
    session.progress.expect(2 * workers.len(), in_both_passes);
    for &count in &workers {
        run_precision::<f64>(session, report, &plan, count, Precision::Double)?;
        run_precision::<f32>(session, report, &plan, count, Precision::Single)?;
    }
    Ok(())
}

/// GB/s of each kept round, kernel by kernel.
type Bandwidths = [Vec<f64>; 5];

/// One side of the comparison, as it is driven and verified.
struct Side<'a> {
    name: String,
    gold: Gold,
    arrays: Box<dyn StreamArrays + 'a>,
    bandwidths: Bandwidths,
}

/// The side that gets its memory first. The later arrays are often a few per cent faster, whatever
/// runs on them, so either side is later once.
#[derive(Clone, Copy)]
enum First {
    Subject,
    Reference,
}

fn run_precision<T: Element>(
    session: &Session<'_>,
    report: &mut Report,
    plan: &Plan,
    workers: usize,
    precision: Precision,
) -> Result<(), BenchError> {
    let mut sides = run_pass::<T>(session, plan, workers, precision, First::Subject)?;
    let more = run_pass::<T>(session, plan, workers, precision, First::Reference)?;
    for (side, more) in sides.iter_mut().zip(more) {
        for (samples, more) in side.iter_mut().zip(more) {
            samples.extend(more);
        }
    }
    session.progress.finish_case();
    let [ours, theirs] = sides;
    for (index, kernel) in StreamKernel::ALL.into_iter().enumerate() {
        let case = format!("{} {}", kernel.name(), precision.name());
        let pairs = (&ours[index][..], &theirs[index][..]);
        let row = Row::new(&case, session.device(), workers, UNIT, pairs.0).beside("rayon", pairs);
        let what = format!("{case}, {}, against rayon", counted(workers, "worker"));
        let ratio = row.ratio.unwrap_or(f64::NAN);
        report.gates.push(Gate::at_least(what, ratio, SHARE, "x"));
        session.add(report, row);
    }
    Ok(())
}

/// Runs the rounds of a plan on fresh arrays; the bandwidths of the subject and of the reference.
fn run_pass<T: Element>(
    session: &Session<'_>,
    plan: &Plan,
    workers: usize,
    precision: Precision,
    first: First,
) -> Result<[Bandwidths; 2], BenchError> {
    let bytes: usize = session.scale().choose(256 << 20, 32 << 20, 1 << 10);
    let length = bytes / precision.bytes();
    let subject = || -> Result<Side<'_>, BenchError> {
        let arrays = session.subject.stream(workers, precision, length)?;
        Ok(Side::new(session.device(), arrays))
    };
    let reference = || -> Result<Side<'_>, BenchError> {
        let arrays = RayonStream::<T>::new(workers, length)?;
        Ok(Side::new("rayon".into(), Box::new(arrays)))
    };
    let mut sides = match first {
        First::Subject => [subject()?, reference()?],
        First::Reference => {
            let reference = reference()?;
            [subject()?, reference]
        }
    };
    let share = 1.0 / (StreamKernel::ALL.len() * sides.len()) as f64;
    let started = Instant::now();
    for round in 0..plan.warm_up + plan.rounds {
        for (index, kernel) in StreamKernel::ALL.into_iter().enumerate() {
            // Every second round goes backwards, as everywhere.
            for step in 0..sides.len() {
                let side = &mut sides[(step + round) % 2];
                std::thread::sleep(plan.settle);
                let bandwidth = side.step(session, kernel, precision, length)?;
                if round >= plan.warm_up {
                    side.bandwidths[index].push(bandwidth);
                }
                session.progress.advance(share);
            }
        }
        let late = plan
            .time_limit
            .is_some_and(|limit| started.elapsed() >= limit);
        if late && round >= plan.warm_up {
            break;
        }
    }
    for side in &mut sides {
        side.verify(session, precision, length)?;
    }
    Ok(sides.map(|side| side.bandwidths))
}

impl<'a> Side<'a> {
    fn new(name: String, arrays: Box<dyn StreamArrays + 'a>) -> Self {
        Side {
            name,
            gold: Gold::default(),
            arrays,
            bandwidths: Default::default(),
        }
    }

    /// Runs one kernel, verifies its sum if it has one; GB/s.
    fn step(
        &mut self,
        session: &Session<'_>,
        kernel: StreamKernel,
        precision: Precision,
        length: usize,
    ) -> Result<f64, BenchError> {
        let outcome = self.arrays.run(kernel)?;
        self.gold.run(kernel);
        if kernel == StreamKernel::Dot {
            let sum = outcome.sum.unwrap_or(f64::NAN);
            let checked = self.gold.check_dot(precision, length, sum);
            checked.map_err(|(expected, found)| {
                let what = format!("the dot product on {}", self.name);
                session.wrong(precision.name(), what, expected, found)
            })?;
        }
        let bytes = kernel.arrays() * length * precision.bytes();
        Ok(bytes as f64 / outcome.elapsed.as_secs_f64().max(1e-9) / 1e9)
    }

    /// Verifies all three arrays.
    fn verify(
        &mut self,
        session: &Session<'_>,
        precision: Precision,
        length: usize,
    ) -> Result<(), BenchError> {
        let case = precision.name();
        for array in [StreamArray::A, StreamArray::B, StreamArray::C] {
            let elements = self.arrays.read(array)?;
            let what = format!("the length of array {array:?} on {}", self.name);
            session.verify(case, &what, length, elements.len())?;
            let checked = self.gold.check_array(array, precision, &elements);
            checked.map_err(|(expected, found)| {
                let what = format!("the mean of array {array:?} on {}", self.name);
                session.wrong(case, what, expected, found)
            })?;
        }
        Ok(())
    }
}
