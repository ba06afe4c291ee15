//! `kernel-imbalance`, `group-imbalance` and `kernel-group-imbalance`: load balancing.
//!
//! The figure is the speed-up over one worker, taken round by round. It has two references:
//!
//! * the speed-up that greedy list scheduling allows for the same pieces, which are timed by hand in
//!   every round. Cores that share hardware threads, caches and frequency do not reach it;
//! * as many threads that spin and claim the same pieces from one counter. With these the subject
//!   is compared time against time: they meet the same shared cores in the same round, and unlike a
//!   quotient of speed-ups, that of times does not get better when one worker alone gets slower.

use std::cell::RefCell;
use std::sync::Arc;

use crate::error::BenchError;
use crate::harness::{
    Contender, Gate, Plan, Report, Row, Session, counted, nanoseconds_each, pairwise_ratio,
};
use crate::reference::imbalance::{Batch, BatchWork};
use crate::reference::list_scheduling::speed_up;
use crate::reference::spinning_threads::SpinningThreads;
use crate::reference::spinning_work::SpinningBatches;
use crate::subject::BatchOutcome;

/// The least share of list scheduling's speed-up, and of the speed of spinning threads.
const SHARE: f64 = 0.95;

/// The unit of times.
const UNIT: &str = "µs/batch";

/// The least speed-up with nothing to share: more workers may not get in the way of one piece.
const ONE_PIECE: f64 = 0.97;

/// Time by hand that the batches of one quick run fill, in nanoseconds.
const QUICK_RUN: f64 = 25e6;

/// Time for which each piece is repeated when it is timed, in nanoseconds.
const PIECE_TIME: f64 = 15e3;

/// The benchmark `kernel-imbalance`.
pub(crate) fn kernels(session: &Session<'_>, report: &mut Report) -> Result<(), BenchError> {
    let case = |count| (counted(count, "kernel"), Batch::of_kernels(count));
    run(
        session,
        report,
        10_000,
        sizes(session).iter().map(|&count| case(count)),
    )
}

/// The benchmark `group-imbalance`.
pub(crate) fn groups(session: &Session<'_>, report: &mut Report) -> Result<(), BenchError> {
    let case = |count| (counted(count, "work-group"), Batch::of_groups(count));
    run(
        session,
        report,
        1_000,
        sizes(session).iter().map(|&count| case(count)),
    )
}

/// The benchmark `kernel-group-imbalance`.
pub(crate) fn kernels_and_groups(
    session: &Session<'_>,
    report: &mut Report,
) -> Result<(), BenchError> {
    let case = |count| {
        let name = format!("{count}/{count} kernels/work-groups");
        (name, Batch::of_kernels_and_groups(count, count))
    };
    run(
        session,
        report,
        1_000,
        sizes(session).iter().map(|&count| case(count)),
    )
}

fn sizes(session: &Session<'_>) -> &'static [usize] {
    session.scale().choose(
        &[1, 2, 4, 8, 16, 32, 64][..],
        &[1, 4, 16, 64][..],
        &[1, 3][..],
    )
}

fn run(
    session: &Session<'_>,
    report: &mut Report,
    full_batches: usize,
    cases: impl ExactSizeIterator<Item = (String, Batch)>,
) -> Result<(), BenchError> {
    let plan = session.begin(cases.len());
    for (case, batch) in cases {
        run_case(session, report, &plan, &case, &batch, full_batches)?;
    }
    Ok(())
}

fn run_case(
    session: &Session<'_>,
    report: &mut Report,
    plan: &Plan,
    case: &str,
    batch: &Batch,
    full_batches: usize,
) -> Result<(), BenchError> {
    let by_hand: f64 = batch.measure_pieces(PIECE_TIME).iter().sum();
    let quick = (QUICK_RUN / by_hand).clamp(2.0, full_batches as f64) as usize;
    let batches = session.scale().choose(full_batches, quick, 2);
    let mut expected = batch.initial_buffers();
    batch.run_by_hand(batches, &mut expected);

    let mut workers = vec![1];
    workers.extend(
        session
            .worker_counts()
            .into_iter()
            .filter(|&count| count > 1),
    );
    let pieces = RefCell::new(Vec::new());
    let mut contenders = vec![Contender::new("hand-written loop", || {
        let times = batch.measure_pieces(PIECE_TIME);
        let sum = times.iter().sum::<f64>();
        pieces.borrow_mut().push(times);
        Ok(sum / 1e3)
    })];
    let check = Check {
        session,
        case,
        batch,
        batches,
        expected: &expected,
    };
    for &count in &workers {
        contenders.push(check.subject(count)?);
    }
    for &count in &workers {
        contenders.push(check.spinning_threads(count)?);
    }
    let samples = session.measure(plan, &mut contenders)?;
    drop(contenders);

    let hand = samples.of(0);
    let one = samples.of(1);
    let device = session.device();
    report
        .rows
        .push(Row::new(case, device.clone(), 1, UNIT, one).beside(samples.name(0), (one, hand)));
    // Warm-up rounds have timed the pieces as well.
    let pieces = pieces.into_inner();
    let kept = &pieces[pieces.len() - one.len()..];
    for (position, &count) in workers.iter().enumerate() {
        let many = samples.of(1 + position);
        if count > 1 {
            let speed_ups: Vec<f64> = one.iter().zip(many).map(|(one, many)| one / many).collect();
            let bounds: Vec<f64> = kept.iter().map(|times| speed_up(times, count)).collect();
            let row = Row::new(case, device.clone(), count, "x", &speed_ups)
                .beside("list scheduling", (&speed_ups, &bounds));
            report.gates.push(scheduling_gate(case, batch, count, &row));
            report.rows.push(row);
        }
        let spinning = samples.of(1 + workers.len() + position);
        let row = Row::new(case, device.clone(), count, UNIT, many);
        report
            .rows
            .push(row.beside(SpinningThreads::NAME, (many, spinning)));
        if count > 1 {
            let what = format!(
                "against spinning threads, {case}, {}",
                counted(count, "worker")
            );
            let share = pairwise_ratio(spinning, many).unwrap_or(f64::NAN);
            report.gates.push(Gate::at_least(what, share, SHARE, "x"));
        }
    }
    Ok(())
}

/// What list scheduling asks of the row of a speed-up.
fn scheduling_gate(case: &str, batch: &Batch, workers: usize, row: &Row) -> Gate {
    let workers = counted(workers, "worker");
    if batch.pieces().count() == 1 {
        let what = format!("speed-up of one piece, {workers}");
        Gate::at_least(what, row.value, ONE_PIECE, "x")
    } else {
        let what = format!("share of list scheduling, {case}, {workers}");
        Gate::at_least(what, row.ratio.unwrap_or(f64::NAN), SHARE, "x")
    }
}

/// One case, and what every run of it must give.
#[derive(Clone, Copy)]
struct Check<'a> {
    session: &'a Session<'a>,
    case: &'a str,
    batch: &'a Batch,
    batches: usize,
    expected: &'a [Vec<f32>],
}

impl<'a> Check<'a> {
    /// The subject with so many workers: microseconds per batch.
    fn subject(self, workers: usize) -> Result<Contender<'a>, BenchError> {
        let work = Arc::new(BatchWork::new(self.batch.clone()));
        let subject = self.session.subject;
        let mut run = subject.batches(workers, Arc::clone(&work), self.batches)?;
        Ok(Contender::new(counted(workers, "worker"), move || {
            self.verified(&run()?, &work)
        }))
    }

    /// So many spinning threads: microseconds per batch.
    fn spinning_threads(self, threads: usize) -> Result<Contender<'a>, BenchError> {
        let work = Arc::new(BatchWork::new(self.batch.clone()));
        let mut spinning = SpinningBatches::new(threads, Arc::clone(&work), self.batches)?;
        Ok(Contender::new(SpinningThreads::NAME, move || {
            self.verified(&spinning.run(), &work)
        }))
    }

    /// Microseconds per batch of a run, if its result is right.
    fn verified(&self, outcome: &BatchOutcome, work: &BatchWork) -> Result<f64, BenchError> {
        let (session, case) = (self.session, self.case);
        let pieces = self.batches * self.batch.pieces().count();
        let (finished, early) = work.take();
        session.verify(case, "the number of pieces that ran", pieces, finished)?;
        session.verify(case, "the number of pieces that ran too early", 0, early)?;
        session.verify(
            case,
            "the number of buffers",
            self.expected.len(),
            outcome.buffers.len(),
        )?;
        for (kernel, (expected, found)) in self.expected.iter().zip(&outcome.buffers).enumerate() {
            if expected != found {
                let what = format!("the buffer of kernel {kernel}");
                let (expected, found) = first_difference(expected, found);
                return Err(session.wrong(case, what, expected, found));
            }
        }
        Ok(nanoseconds_each(outcome.elapsed, self.batches) / 1e3)
    }
}

/// Where two lists differ first, in words.
fn first_difference(expected: &[f32], found: &[f32]) -> (String, String) {
    let differing = expected
        .iter()
        .zip(found)
        .position(|(expected, found)| expected != found);
    match differing {
        Some(at) => (
            format!("{} at float {at}", expected[at]),
            format!("{} there", found[at]),
        ),
        None => (
            format!("{} floats", expected.len()),
            format!("{}", found.len()),
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn differences_are_named_by_place() {
        let (expected, found) = first_difference(&[1.0, 2.0], &[1.0, 3.0]);
        assert_eq!((&*expected, &*found), ("2 at float 1", "3 there"));
        let (expected, found) = first_difference(&[1.0, 2.0], &[1.0]);
        assert_eq!((&*expected, &*found), ("2 floats", "1"));
    }
}
