//! `recorded`: graphs that are recorded once and launched, beside the same commands enqueued each
//! time.
//!
//! *In all* is from the first call until everything has run, per command; *handed over* is what the
//! calling thread pays of it.

use std::sync::Arc;

use crate::error::BenchError;
use crate::harness::{
    Contender, Gate, Plan, Report, Row, Samples, Scale, Session, counted, nanoseconds_each,
};
use crate::reference::shape::GraphShape;
use crate::reference::task::{EmptyTask, OrderVerdict, StampedTask, Task};
use crate::subject::{RecordedOutcome, Run};

const UNIT: &str = "ns/command";

/// The largest part of the time of an enqueue and run that a launch may take: where many commands
/// wait for nothing, their run is most of it on both sides.
const LIMIT: f64 = 1.0;

/// The benchmark `recorded`.
pub(crate) fn run(session: &Session<'_>, report: &mut Report) -> Result<(), BenchError> {
    let kernels = session.scale().choose(10_000, 10_000, 32);
    let shapes = match session.scale() {
        Scale::Tiny => GraphShape::tiny(),
        Scale::Full | Scale::Quick => GraphShape::standard(),
    };
    let workers = session.worker_counts();
    let plan = session.begin((1 + shapes.len()) * workers.len());
    for &count in &workers {
        let subject = session.subject;
        let sum = |outcome: &RecordedOutcome| {
            let what = "the integer that every kernel adds one to";
            let sum = outcome.sum.unwrap_or_default();
            session.verify("chain by hazards", what, kernels as i64, sum)
        };
        let mut recorded = subject.recorded_chain(count, kernels, true)?;
        let mut enqueued = subject.recorded_chain(count, kernels, false)?;
        let runs = [&mut recorded, &mut enqueued];
        let (in_all, handed_over) = measure(session, &plan, kernels, runs, &sum)?;
        let case = format!("chain by hazards of {kernels}");
        add(session, report, &case, count, &in_all, &handed_over);
        for shape in shapes.iter().cloned().map(Arc::new) {
            verify(session, count, &shape)?;
            let prepare = |recorded| {
                let task: Arc<dyn Task> = Arc::new(EmptyTask);
                subject.recorded_graph(count, Arc::clone(&shape), task, recorded)
            };
            let (mut recorded, mut enqueued) = (prepare(true)?, prepare(false)?);
            let runs = [&mut recorded, &mut enqueued];
            let measured = measure(session, &plan, shape.tasks(), runs, &|_| Ok(()))?;
            let (in_all, handed_over) = measured;
            add(session, report, shape.name(), count, &in_all, &handed_over);
        }
    }
    Ok(())
}

/// The times of both, the recorded one first: in all, and until it was handed over.
fn measure(
    session: &Session<'_>,
    plan: &Plan,
    commands: usize,
    runs: [&mut Run<'_, RecordedOutcome>; 2],
    check: &dyn Fn(&RecordedOutcome) -> Result<(), BenchError>,
) -> Result<(Samples, [Vec<f64>; 2]), BenchError> {
    let [recorded, enqueued] = runs;
    let mut handed_over = [Vec::new(), Vec::new()];
    let [first, second] = &mut handed_over;
    let one = |run: &mut Run<'_, RecordedOutcome>, times: &mut Vec<f64>| {
        let outcome = run()?;
        check(&outcome)?;
        times.push(nanoseconds_each(outcome.handed_over, commands));
        Ok(nanoseconds_each(outcome.elapsed, commands))
    };
    let mut contenders = [
        Contender::new("subject", || one(recorded, first)),
        Contender::new("enqueued", || one(enqueued, second)),
    ];
    let in_all = session.measure(plan, &mut contenders)?;
    drop(contenders);
    let kept = |times: Vec<f64>, of: usize| {
        let warm_up = times.len() - in_all.of(of).len();
        times[warm_up..].to_vec()
    };
    let [first, second] = handed_over;
    let handed_over = [kept(first, 0), kept(second, 1)];
    Ok((in_all, handed_over))
}

fn add(
    session: &Session<'_>,
    report: &mut Report,
    case: &str,
    workers: usize,
    in_all: &Samples,
    handed_over: &[Vec<f64>; 2],
) {
    let (ours, theirs) = (in_all.of(0), in_all.of(1));
    let row = Row::new(
        format!("{case}, in all"),
        session.device(),
        workers,
        UNIT,
        ours,
    )
    .beside("enqueued", (ours, theirs));
    let what = format!("{case}, {}, against enqueueing", counted(workers, "worker"));
    let ratio = row.ratio.unwrap_or(f64::NAN);
    report.gates.push(Gate::at_most(what, ratio, LIMIT, "x"));
    session.add(report, row);
    let [ours, theirs] = handed_over;
    let case = format!("{case}, handed over");
    session.add(
        report,
        Row::new(case, session.device(), workers, UNIT, ours).beside("enqueued", (ours, theirs)),
    );
}

/// The order of the tasks, of a graph that was launched before.
fn verify(
    session: &Session<'_>,
    workers: usize,
    shape: &Arc<GraphShape>,
) -> Result<(), BenchError> {
    let stamped = Arc::new(StampedTask::new(Arc::clone(shape)));
    let task: Arc<dyn Task> = Arc::clone(&stamped) as Arc<dyn Task>;
    let mut run = session
        .subject
        .recorded_graph(workers, Arc::clone(shape), task, true)?;
    for _ in 0..2 {
        run()?;
        let case = format!("{}, {}", shape.name(), counted(workers, "worker"));
        let what = "the order of recorded tasks";
        session.verify(&case, what, OrderVerdict::default(), stamped.take())?;
    }
    Ok(())
}
