//! `nested`: tasks that enqueue tasks, which others run meanwhile, beside rayon's scopes.

use std::sync::Arc;
use std::time::Duration;

use crate::error::BenchError;
use crate::harness::{Contender, Gate, Report, Row, Session, counted, nanoseconds_each};
use crate::reference::nested::{Growth, RayonTrees, Tree};
use crate::reference::task::SpinTask;

const UNIT: &str = "ns/task";

/// At or ahead of rayon.
const RATIO: f64 = 1.0;

/// The benchmark `nested`.
pub(crate) fn run(session: &Session<'_>, report: &mut Report) -> Result<(), BenchError> {
    let work = SpinTask::lasting(Duration::from_micros(10));
    let (width, depth) = session.scale().choose((64, 3), (64, 2), (3, 2));
    let (number, cutoff) = session.scale().choose((36, 18), (29, 18), (9, 4));
    let fan = format!("fan-out of {width} to depth {depth}, 10 µs");
    let cases = [
        (fan, Growth::Fan { width, depth, work }),
        (
            format!("Fibonacci of {number}, below {cutoff} in one"),
            Growth::Fibonacci { number, cutoff },
        ),
    ];
    let workers = session.worker_counts();
    let plan = session.begin(cases.len() * workers.len());
    for &count in &workers {
        let rayon = RayonTrees::new(count)?;
        for (case, growth) in &cases {
            let (tree, other) = (Arc::new(Tree::new(*growth)), Arc::new(Tree::new(*growth)));
            let whole = tree.whole();
            let mut run = session.subject.nested(count, Arc::clone(&tree))?;
            let verify = |tree: &Tree| {
                let done = tree.take();
                session.verify(
                    case,
                    "the number of tasks that ran",
                    whole.tasks,
                    done.tasks,
                )?;
                session.verify(case, "the sum of their results", whole.sum, done.sum)
            };
            let mut contenders = [
                Contender::new("subject", || {
                    let elapsed = run()?;
                    verify(&tree)?;
                    Ok(nanoseconds_each(elapsed, whole.tasks as usize))
                }),
                Contender::new("rayon", || {
                    let elapsed = rayon.run(&other);
                    verify(&other)?;
                    Ok(nanoseconds_each(elapsed, whole.tasks as usize))
                }),
            ];
            let samples = session.measure(&plan, &mut contenders)?;
            let pairs = (samples.of(0), samples.of(1));
            let row = Row::new(case, session.device(), count, UNIT, pairs.0).beside("rayon", pairs);
            if let Some(ratio) = row.ratio {
                let what = format!("{case}, {}, of rayon's time", counted(count, "worker"));
                report.gates.push(Gate::at_most(what, ratio, RATIO, "x"));
            }
            session.add(report, row);
        }
    }
    Ok(())
}
