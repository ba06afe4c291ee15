//! `kernel-imbalance`, `group-imbalance` and `kernel-group-imbalance`: load balancing.
//!
//! Every number of workers stands beside three references, measured in the same rounds:
//!
//! * *list scheduling, pieces timed together*: the time that greedy list scheduling needs for the
//!   same pieces, each of which is timed while as many threads as can be busy run such pieces. This
//!   is what a perfect scheduler reaches on this machine, and the promise is about it. It is time
//!   against time: a quotient of speed-ups would get better when one worker alone gets slower;
//! * *list scheduling, pieces timed alone*: the speed-up that the schedule gives if each piece
//!   takes as long beside others as alone, on one thread. Cores that share hardware threads, memory
//!   and frequency cannot reach it, whatever runs on them, so it is printed and not promised. It
//!   also limits what the first reference may forgive: pieces timed together are too slow where the
//!   schedule runs out of pieces and leaves some threads without work;
//! * *spinning threads by hand*: threads that claim the same pieces from one counter and know all
//!   of them beforehand. It shows how much of the schedule a program without events, errors and
//!   later commands reaches; no promise, for the schedule is the stricter limit.

use std::cell::RefCell;
use std::sync::Arc;

use crate::error::BenchError;
use crate::harness::{
    Contender, Gate, Machine, Plan, Report, Row, Session, counted, nanoseconds_each, pairwise_ratio,
};
use crate::reference::imbalance::{Batch, BatchWork};
use crate::reference::list_scheduling::{makespan, speed_up};
use crate::reference::piece_times::PieceTimes;
use crate::reference::spinning_threads::SpinningThreads;
use crate::reference::spinning_work::SpinningBatches;
use crate::subject::BatchOutcome;

/// The least share of the speed of list scheduling.
const SHARE: f64 = 0.95;

/// The unit of times.
const UNIT: &str = "µs/batch";

/// The least speed-up with nothing to share: more workers may not get in the way of one piece.
const ONE_PIECE: f64 = 0.97;

/// Time by hand that the batches of one quick run fill, in nanoseconds: shared by sixteen workers
/// it has to be long beside what it takes to wake them all, once.
const QUICK_RUN: f64 = 200e6;

/// Time for which each piece is repeated at least when it is timed, in nanoseconds.
const PIECE_TIME: f64 = 15e3;

/// Time that all pieces of a batch are timed at least: a processor changes its frequency in less.
const ALL_PIECES_TIME: f64 = 1e6;

/// The name of the bound that takes every core for a machine of its own.
const ALONE: &str = "list scheduling, pieces timed alone";

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
    let count = batch.pieces().count();
    let piece_time = PIECE_TIME.max(ALL_PIECES_TIME / count as f64);
    let alone = batch.measure_pieces(piece_time);
    let by_hand: f64 = alone.iter().sum();
    let quick = (QUICK_RUN / by_hand).clamp(2.0, full_batches as f64) as usize;
    let batches = session.scale().choose(full_batches, quick, 2);
    let mut expected = batch.initial_buffers();
    batch.run_by_hand(batches, &mut expected);
    let check = Check {
        session,
        case,
        batch,
        batches,
        expected: &expected,
    };

    let pieces = RefCell::new(Vec::new());
    let mut contenders = vec![
        Contender::new("hand-written loop", || {
            let times = batch.measure_pieces(piece_time);
            let sum = times.iter().sum::<f64>();
            pieces.borrow_mut().push(times);
            Ok(sum / 1e3)
        }),
        check.subject(1)?,
        check.spinning_threads(1)?,
    ];
    let mut several = session.worker_counts();
    several.retain(|&count| count > 1);
    // Runs that are compared run one after the other.
    for &count in &several {
        contenders.push(together(batch, count, &alone, piece_time)?);
        contenders.push(check.subject(count)?);
        contenders.push(check.spinning_threads(count)?);
    }
    let samples = session.measure(plan, &mut contenders)?;
    drop(contenders);

    let [hand, one] = [0, 1].map(|contender| samples.of(contender));
    let row = |workers, unit: &str, samples: &[f64]| {
        Row::new(case, session.device(), workers, unit, samples)
    };
    session.add(
        report,
        row(1, UNIT, one).beside(samples.name(0), (one, hand)),
    );
    session.add(
        report,
        row(1, UNIT, one).beside(samples.name(2), (one, samples.of(2))),
    );
    // Warm-up rounds have timed the pieces as well.
    let pieces = pieces.into_inner();
    let kept = &pieces[pieces.len() - one.len()..];
    for (position, &count) in several.iter().enumerate() {
        let [bound, many, spinning] = [0, 1, 2].map(|contender| 3 + 3 * position + contender);
        let time = samples.of(many);
        let speed_ups: Vec<f64> = one.iter().zip(time).map(|(one, time)| one / time).collect();
        let bounds: Vec<f64> = kept.iter().map(|times| speed_up(times, count)).collect();
        let speed_up = row(count, "x", &speed_ups).beside(ALONE, (&speed_ups, &bounds));
        let bounded = samples.of(bound);
        let share = pairwise_ratio(bounded, time).unwrap_or(f64::NAN);
        let gate = scheduling_gate(case, batch, count, speed_up.value, share);
        report.gates.push(gate);
        session.add(report, speed_up);
        for reference in [bound, spinning] {
            let pairs = (time, samples.of(reference));
            let row = row(count, UNIT, time).beside(samples.name(reference), pairs);
            session.add(report, row);
        }
    }
    Ok(())
}

/// The result of list scheduling for the pieces when `workers` workers run them:
/// microseconds per batch.
fn together<'a>(
    batch: &Batch,
    workers: usize,
    alone: &[f64],
    piece_time: f64,
) -> Result<Contender<'a>, BenchError> {
    // More workers than cores do not work at the same time.
    let workers = workers.min(Machine::describe().cores.unwrap_or(workers));
    let threads = workers.min(alone.len());
    let mut times = PieceTimes::new(batch.clone(), threads, alone, piece_time)?;
    Ok(Contender::new(PieceTimes::NAME, move || {
        Ok(makespan(&times.measure(), workers) / 1e3)
    }))
}

/// The promise for so many workers: more do not get in the way of one piece, and several
/// pieces take little longer than in the schedule.
fn scheduling_gate(case: &str, batch: &Batch, workers: usize, speed_up: f64, share: f64) -> Gate {
    let workers = counted(workers, "worker");
    if batch.pieces().count() == 1 {
        let what = format!("speed-up of one piece, {workers}");
        Gate::at_least(what, speed_up, ONE_PIECE, "x")
    } else {
        let what = format!("share of list scheduling, {case}, {workers}");
        Gate::at_least(what, share, SHARE, "x")
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

/// The first difference of two lists, in words.
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
    fn one_piece_is_held_to_its_speed_up_and_several_to_the_schedule() {
        let gate = |batch: Batch, speed_up, share| {
            let gate = scheduling_gate("a case", &batch, 2, speed_up, share);
            (gate.met, gate.measured)
        };
        assert_eq!(gate(Batch::of_kernels(1), 0.98, 0.5), (true, 0.98));
        assert_eq!(gate(Batch::of_kernels(1), 0.96, 1.0), (false, 0.96));
        assert_eq!(gate(Batch::of_groups(2), 0.5, 0.96), (true, 0.96));
        assert_eq!(gate(Batch::of_groups(2), 2.0, 0.94), (false, 0.94));
    }

    #[test]
    fn differences_are_named_by_place() {
        let (expected, found) = first_difference(&[1.0, 2.0], &[1.0, 3.0]);
        assert_eq!((&*expected, &*found), ("2 at float 1", "3 there"));
        let (expected, found) = first_difference(&[1.0, 2.0], &[1.0]);
        assert_eq!((&*expected, &*found), ("2 floats", "1"));
    }
}
