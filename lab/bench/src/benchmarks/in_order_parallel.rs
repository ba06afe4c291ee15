//! `in-order-parallel`: commands of an in-order queue that share only data that they read.
//!
//! The references are those of the imbalance benchmarks: list scheduling for the speed-up over one
//! worker, and time against time as many spinning threads that run the same pieces.

use crate::error::BenchError;
use crate::harness::{
    Contender, Gate, Report, Row, Session, counted, nanoseconds_each, pairwise_ratio,
};
use crate::reference::imbalance::{FLOATS, initial_value, reduce};
use crate::reference::list_scheduling::speed_up;
use crate::reference::spinning_threads::SpinningThreads;
use crate::reference::spinning_work::SpinningReaders;
use crate::subject::{Declared, ParallelOutcome};

/// The least speed-up for each worker, and the least share of the speed of spinning threads.
const SHARE: f64 = 0.95;

/// The unit of times.
const UNIT: &str = "ns/kernel";

/// The benchmark `in-order-parallel`.
pub(crate) fn run(session: &Session<'_>, report: &mut Report) -> Result<(), BenchError> {
    let kernels = session.scale().choose(10_000, 1_000, 8);
    let mut workers = vec![1];
    workers.extend(
        session
            .worker_counts()
            .into_iter()
            .filter(|&count| count > 1),
    );
    let plan = session.begin(2);
    for (declared, case) in [
        (Declared::ReadOnly, "read-only"),
        (Declared::ReadWrite, "read-write flag, only read"),
    ] {
        let mut contenders = vec![by_hand(kernels)];
        for &count in &workers {
            contenders.push(subject(session, case, count, kernels, declared)?);
        }
        for &count in &workers {
            contenders.push(spinning_threads(session, case, count, kernels)?);
        }
        let samples = session.measure(&plan, &mut contenders)?;
        let (hand, one) = (samples.of(0), samples.of(1));
        let device = session.device();
        session.add(
            report,
            Row::new(case, device.clone(), 1, UNIT, one).beside(samples.name(0), (one, hand)),
        );
        for (position, &count) in workers.iter().enumerate() {
            let many = samples.of(1 + position);
            let workers_named = counted(count, "worker");
            if count > 1 {
                let speed_ups: Vec<f64> =
                    one.iter().zip(many).map(|(one, many)| one / many).collect();
                let bound = speed_up(&vec![1.0; kernels], count);
                let bounds = vec![bound; speed_ups.len()];
                let row = Row::new(case, device.clone(), count, "x", &speed_ups)
                    .beside("list scheduling", (&speed_ups, &bounds));
                let what = format!("speed-up, {case}, {workers_named}");
                let gate = Gate::at_least(what, row.value, SHARE * count as f64, "x");
                report.gates.push(gate);
                session.add(report, row);
            }
            let spinning = samples.of(1 + workers.len() + position);
            let row = Row::new(case, device.clone(), count, UNIT, many);
            session.add(report, row.beside(SpinningThreads::NAME, (many, spinning)));
            if count > 1 {
                let what = format!("against spinning threads, {case}, {workers_named}");
                let share = pairwise_ratio(spinning, many).unwrap_or(f64::NAN);
                report.gates.push(Gate::at_least(what, share, SHARE, "x"));
            }
        }
    }
    Ok(())
}

/// The input of the write command in this run: every run another one, so that a kernel which read
/// before the write gives a wrong result.
fn input(run: usize) -> Vec<f32> {
    (0..FLOATS)
        .map(|position| initial_value(position + 7 * run))
        .collect()
}

fn by_hand<'a>(kernels: usize) -> Contender<'a> {
    let mut results = vec![0.0; kernels];
    Contender::new("hand-written loop", move || {
        let shared = input(0);
        let started = std::time::Instant::now();
        for (kernel, result) in results.iter_mut().enumerate() {
            *result = reduce(std::hint::black_box(&shared), kernel);
        }
        Ok(nanoseconds_each(started.elapsed(), kernels))
    })
}

/// The subject with so many workers: nanoseconds per kernel.
fn subject<'a>(
    session: &'a Session<'_>,
    case: &'a str,
    workers: usize,
    kernels: usize,
    declared: Declared,
) -> Result<Contender<'a>, BenchError> {
    let mut subject = session
        .subject
        .in_order_parallel(workers, kernels, declared)?;
    let mut runs = 0;
    Ok(Contender::new(counted(workers, "worker"), move || {
        runs += 1;
        let shared = input(runs);
        verified(session, case, kernels, &shared, &subject.run(&shared)?)
    }))
}

/// So many spinning threads: nanoseconds per kernel.
fn spinning_threads<'a>(
    session: &'a Session<'_>,
    case: &'a str,
    threads: usize,
    kernels: usize,
) -> Result<Contender<'a>, BenchError> {
    let mut spinning = SpinningReaders::new(threads, kernels)?;
    let mut runs = 0;
    Ok(Contender::new(SpinningThreads::NAME, move || {
        runs += 1;
        let shared = input(runs);
        verified(session, case, kernels, &shared, &spinning.run(&shared))
    }))
}

/// Nanoseconds per kernel of a run on this input, if its results are right.
fn verified(
    session: &Session<'_>,
    case: &str,
    kernels: usize,
    shared: &[f32],
    outcome: &ParallelOutcome,
) -> Result<f64, BenchError> {
    session.verify(
        case,
        "the number of results",
        kernels,
        outcome.results.len(),
    )?;
    let sum = reduce(shared, 0);
    for (kernel, &found) in outcome.results.iter().enumerate() {
        let what = format!("the result of kernel {kernel}");
        session.verify(case, &what, sum + kernel as f32, found)?;
    }
    Ok(nanoseconds_each(outcome.elapsed, kernels))
}
