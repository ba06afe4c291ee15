//! `enqueue`: the calling thread's cost of each command.

use crate::error::BenchError;
use crate::harness::{Contender, Gate, Report, Row, Session, counted, nanoseconds_each};
use crate::reference::bare;
use crate::subject::EnqueueParameters;

const UNIT: &str = "ns/command";

/// The benchmark `enqueue`.
pub(crate) fn run(session: &Session<'_>, report: &mut Report) -> Result<(), BenchError> {
    let commands = session.scale().choose(100_000, 20_000, 32);
    let workers = session.worker_counts();
    // Hazard buffers, workers running, and the limit in nanoseconds where there is one.
    let cases = [
        (0, false, None),
        (1, false, None),
        (2, false, Some(50.0)),
        (3, false, None),
        (2, true, Some(100.0)),
    ];
    let plan = session.begin(cases.len() * workers.len());
    for &count in &workers {
        for (buffers, running, limit) in cases {
            let state = if running {
                "workers running"
            } else {
                "held back"
            };
            let case = format!("{}, {state}", counted(buffers, "buffer"));
            let parameters = EnqueueParameters {
                commands,
                buffers,
                running,
            };
            let mut run = session.subject.enqueue(count, parameters)?;
            let (name, reference): (_, fn(usize) -> _) = if running {
                (
                    "boxed closure to a deque, stolen",
                    bare::push_boxed_while_stolen,
                )
            } else {
                ("boxed closure to a deque", bare::push_boxed)
            };
            let verify = |executed: u64| {
                session.verify(
                    &case,
                    "the number of commands that ran",
                    commands as u64,
                    executed,
                )
            };
            let mut contenders = [
                Contender::new("subject", || {
                    let outcome = run()?;
                    verify(outcome.executed)?;
                    Ok(nanoseconds_each(outcome.elapsed, commands))
                }),
                Contender::new(name, || {
                    let (elapsed, executed) = reference(commands);
                    verify(executed)?;
                    Ok(nanoseconds_each(elapsed, commands))
                }),
            ];
            let samples = session.measure(&plan, &mut contenders)?;
            let pairs = (samples.of(0), samples.of(1));
            let row = Row::new(&case, session.device(), count, UNIT, pairs.0).beside(name, pairs);
            if let Some(limit) = limit {
                let what = format!("{case}, {}", counted(count, "worker"));
                report
                    .gates
                    .push(Gate::at_most(what, row.value, limit, "ns"));
            }
            session.add(report, row);
        }
    }
    Ok(())
}
