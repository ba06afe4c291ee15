//! `kernel-imbalance`, `group-imbalance` and `kernel-group-imbalance`: load balancing.
//!
//! The figure is the speed-up over one worker, taken round by round. Its reference is the speed-up
//! that greedy list scheduling allows for the same pieces, which are timed by hand in every round.

use std::cell::RefCell;
use std::sync::Arc;

use crate::error::BenchError;
use crate::harness::{Contender, Gate, Plan, Report, Row, Session, counted, nanoseconds_each};
use crate::reference::imbalance::{Batch, BatchWork};
use crate::reference::list_scheduling::speed_up;

/// The least share of list scheduling's speed-up.
const SHARE: f64 = 0.95;

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
    for &count in &workers {
        contenders.push(contender(session, case, count, batch, batches, &expected)?);
    }
    let samples = session.measure(plan, &mut contenders)?;
    drop(contenders);

    let hand = samples.of(0);
    let one = samples.of(1);
    let device = session.device();
    report.rows.push(
        Row::new(case, device.clone(), 1, "µs/batch", one).beside(samples.name(0), (one, hand)),
    );
    // Warm-up rounds have timed the pieces as well.
    let pieces = pieces.into_inner();
    let kept = &pieces[pieces.len() - one.len()..];
    for (position, &count) in workers.iter().enumerate().skip(1) {
        let many = samples.of(1 + position);
        let speed_ups: Vec<f64> = one.iter().zip(many).map(|(one, many)| one / many).collect();
        let bounds: Vec<f64> = kept.iter().map(|times| speed_up(times, count)).collect();
        let row = Row::new(case, device.clone(), count, "x", &speed_ups)
            .beside("list scheduling", (&speed_ups, &bounds));
        let gate = if batch.pieces().count() == 1 {
            let what = format!("speed-up of one piece, {}", counted(count, "worker"));
            Gate::at_least(what, row.value, ONE_PIECE, "x")
        } else {
            let what = format!(
                "share of list scheduling, {case}, {}",
                counted(count, "worker")
            );
            Gate::at_least(what, row.ratio.unwrap_or(f64::NAN), SHARE, "x")
        };
        report.rows.push(row);
        report.gates.push(gate);
    }
    Ok(())
}

/// The subject with so many workers: microseconds per batch.
fn contender<'a>(
    session: &'a Session<'_>,
    case: &'a str,
    workers: usize,
    batch: &Batch,
    batches: usize,
    expected: &'a [Vec<f32>],
) -> Result<Contender<'a>, BenchError> {
    let work = Arc::new(BatchWork::new(batch.clone()));
    let pieces = batches * batch.pieces().count();
    let mut run = session
        .subject
        .batches(workers, Arc::clone(&work), batches)?;
    Ok(Contender::new(counted(workers, "worker"), move || {
        let outcome = run()?;
        let (finished, early) = work.take();
        session.verify(case, "the number of pieces that ran", pieces, finished)?;
        session.verify(case, "the number of pieces that ran too early", 0, early)?;
        session.verify(
            case,
            "the number of buffers",
            expected.len(),
            outcome.buffers.len(),
        )?;
        for (kernel, (expected, found)) in expected.iter().zip(&outcome.buffers).enumerate() {
            if expected != found {
                let what = format!("the buffer of kernel {kernel}");
                let (expected, found) = first_difference(expected, found);
                return Err(session.wrong(case, what, expected, found));
            }
        }
        Ok(nanoseconds_each(outcome.elapsed, batches) / 1e3)
    }))
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
