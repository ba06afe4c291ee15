//! `ranges`: commands on overlapping parts of two objects, all of them queued behind a user event.
//!
//! Each reads all of one object and changes a part of the other. The reference is the same with a
//! quarter of the commands: what a command takes must not grow with the queue.

use crate::error::BenchError;
use crate::harness::{Contender, Gate, Report, Row, Session, nanoseconds_each};
use crate::reference::ranges::{RangePattern, changed_in_order};

const UNIT: &str = "ns/command";

/// The factor by which a command may take longer in a queue that is four times as long: four, if it
/// waited for a part of all before it.
const LIMIT: f64 = 2.0;

/// The benchmark `ranges`.
pub(crate) fn run(session: &Session<'_>, report: &mut Report) -> Result<(), BenchError> {
    let many = session.scale().choose(4_000, 4_000, 32);
    let few = many / 4;
    let workers = 1;
    let plan = session.begin(RangePattern::ALL.len());
    for pattern in RangePattern::ALL {
        let contender = |commands: usize| -> Result<Contender<'_>, BenchError> {
            let parts = pattern.parts(commands);
            let expected = changed_in_order(&parts);
            let mut run = session.subject.ranges(workers, parts)?;
            Ok(Contender::new(format!("{commands} commands"), move || {
                let outcome = run()?;
                let what = "the elements of the object that is changed last";
                session.verify(pattern.name(), what, expected.len(), outcome.last.len())?;
                for (position, (is, found)) in expected.iter().zip(outcome.last).enumerate() {
                    let what = format!("element {position} of the object that is changed last");
                    session.verify(pattern.name(), &what, *is, found)?;
                }
                Ok(nanoseconds_each(outcome.elapsed, commands))
            }))
        };
        let mut contenders = [contender(many)?, contender(few)?];
        let samples = session.measure(&plan, &mut contenders)?;
        let (long, short) = (samples.of(0), samples.of(1));
        let case = format!("{}, {many} commands", pattern.name());
        let row = Row::new(case.clone(), session.device(), workers, UNIT, long)
            .beside(samples.name(1), (long, short));
        let ratio = row.ratio.unwrap_or(f64::NAN);
        report.gates.push(Gate::at_most(case, ratio, LIMIT, "x"));
        session.add(report, row);
    }
    Ok(())
}
