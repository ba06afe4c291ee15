//! `in-order` and `out-of-order`: the overhead per command where nothing can run in parallel.
//!
//! Both run both kinds of queue in the same rounds, for each is a reference of the other.

use std::sync::Arc;

use crate::error::BenchError;
use crate::harness::{
    Contender, Gate, Report, Row, Samples, Session, counted, median, nanoseconds_each,
};
use crate::reference::bare;
use crate::reference::counted::{CountedGraph, GraphExecutor};
use crate::reference::deque_executor::DequeExecutor;
use crate::reference::shape::GraphShape;
use crate::reference::task::{AddTask, Task};
use crate::subject::Queues;

const UNIT: &str = "ns/kernel";

/// Growth that more workers may cost.
const WORKER_GROWTH: f64 = 1.15;

/// The largest ratio of the in-order queue to two out-of-order ones.
const IN_ORDER_PREMIUM: f64 = 1.10;

/// The contenders' positions.
const IN_ORDER: usize = 0;
const OUT_OF_ORDER: usize = 1;
const BARE: usize = 2;
const FLOOR: usize = 3;

/// The benchmark `in-order`.
pub(crate) fn in_order(session: &Session<'_>, report: &mut Report) -> Result<(), BenchError> {
    run(session, report, IN_ORDER)
}

/// The benchmark `out-of-order`.
pub(crate) fn out_of_order(session: &Session<'_>, report: &mut Report) -> Result<(), BenchError> {
    run(session, report, OUT_OF_ORDER)
}

fn run(session: &Session<'_>, report: &mut Report, subject: usize) -> Result<(), BenchError> {
    let full = &[1_000, 3_000, 10_000, 30_000, 100_000][..];
    let sizes = session
        .scale()
        .choose(full, &[1_000, 10_000, 100_000][..], &[16, 64][..]);
    let workers = session.worker_counts();
    let plan = session.begin(sizes.len() * workers.len());
    for (index, &kernels) in sizes.iter().enumerate() {
        let mut by_workers = Vec::new();
        for &count in &workers {
            let case = counted(kernels, "kernel");
            let mut contenders = contenders(session, &case, count, kernels)?;
            let samples = session.measure(&plan, &mut contenders)?;
            add_rows(session, report, &case, count, &samples, subject);
            by_workers.push((count, samples));
        }
        if index + 1 == sizes.len() {
            add_gates(report, &by_workers, subject);
        }
    }
    let (elapsed, _) = bare::loop_chain(100_000);
    report.notes.push(format!(
        "a hand-written loop needs {:.2} ns per addition",
        nanoseconds_each(elapsed, 100_000)
    ));
    Ok(())
}

fn contenders<'a>(
    session: &'a Session<'_>,
    case: &'a str,
    workers: usize,
    kernels: usize,
) -> Result<Vec<Contender<'a>>, BenchError> {
    let expected = kernels as i64;
    let mut contenders = Vec::new();
    for (name, queues) in [
        ("in-order", Queues::OneInOrder),
        ("out-of-order", Queues::TwoOutOfOrder),
    ] {
        let mut run = session.subject.serial_chain(workers, queues, kernels)?;
        contenders.push(Contender::new(name, move || {
            let outcome = run()?;
            session.verify(case, "the sum of all kernels", expected, outcome.sum)?;
            Ok(nanoseconds_each(outcome.elapsed, kernels))
        }));
    }
    contenders.push(Contender::new("bare call", move || {
        let (elapsed, sum) = bare::call_chain(kernels);
        session.verify(case, "the sum of bare calls", expected, sum)?;
        Ok(nanoseconds_each(elapsed, kernels))
    }));
    let mut floor = DequeExecutor::new(workers)?;
    let graph = Arc::new(CountedGraph::new(&GraphShape::chain(kernels)));
    let add = Arc::new(AddTask::default());
    contenders.push(Contender::new("crossbeam-deque", move || {
        graph.reset();
        let task: Arc<dyn Task> = Arc::clone(&add) as Arc<dyn Task>;
        let elapsed = floor.run(&graph, &task);
        session.verify(case, "the sum on crossbeam-deque", expected, add.take())?;
        Ok(nanoseconds_each(elapsed, kernels))
    }));
    Ok(contenders)
}

fn add_rows(
    session: &Session<'_>,
    report: &mut Report,
    case: &str,
    workers: usize,
    samples: &Samples,
    subject: usize,
) {
    let ours = samples.of(subject);
    for reference in [BARE, FLOOR, IN_ORDER, OUT_OF_ORDER] {
        if reference == subject {
            continue;
        }
        session.add(
            report,
            Row::new(case, session.device(), workers, UNIT, ours)
                .beside(samples.name(reference), (ours, samples.of(reference))),
        );
    }
}

fn add_gates(report: &mut Report, by_workers: &[(usize, Samples)], subject: usize) {
    // The promise is made for two machines: cores of the larger one are slower.
    let limit = if report.machine.cores.is_some_and(|cores| cores >= 8) {
        50.0
    } else {
        25.0
    };
    let cost = |samples: &Samples| median(samples.of(subject));
    let Some((fewest, first)) = by_workers.first() else {
        return;
    };
    for (workers, samples) in by_workers {
        let what = format!("per kernel, {}", counted(*workers, "worker"));
        report
            .gates
            .push(Gate::at_most(what, cost(samples), limit, "ns"));
        if workers != fewest {
            let what = format!("{} against {fewest}", counted(*workers, "worker"));
            let growth = cost(samples) / cost(first);
            report
                .gates
                .push(Gate::at_most(what, growth, WORKER_GROWTH, "x"));
        }
        if subject == IN_ORDER {
            let what = format!(
                "in-order against out-of-order, {}",
                counted(*workers, "worker")
            );
            let premium =
                crate::harness::pairwise_ratio(samples.of(IN_ORDER), samples.of(OUT_OF_ORDER));
            let premium = premium.unwrap_or(f64::NAN);
            report
                .gates
                .push(Gate::at_most(what, premium, IN_ORDER_PREMIUM, "x"));
        }
    }
}
