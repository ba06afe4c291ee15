//! `memory`: bytes per pending command, and whether anything grows.
//!
//! Both are seen from outside, as resident memory of the process: everything counts, whoever
//! allocated it. A pool that keeps what it once needed is not growth, so the first run is only
//! warm-up where growth is measured, and nothing is warm where pending commands are.

use crate::error::BenchError;
use crate::harness::{Gate, Report, Row, Session, counted};
use crate::reference::counted::CountedGraph;
use crate::reference::process::resident_bytes;
use crate::reference::shape::GraphShape;
use crate::subject::PendingCommands;

/// Bytes that one pending command may need.
const PENDING: f64 = 256.0;

/// Growth that is none: a few pages of the allocator and of the thread that reports.
const GROWTH: f64 = 1.0;

/// Steps in which commands stream through.
const STEPS: usize = 100;

/// The benchmark `memory`.
pub(crate) fn run(session: &Session<'_>, report: &mut Report) -> Result<(), BenchError> {
    let pending = session.scale().choose(1_000_000, 400_000, 64);
    let through = session.scale().choose(10_000_000, 2_000_000, 400);
    // The most workers only: what a first subject gives back to the allocator, a second would use
    // without the process growing. For the same reason the reference is made first and kept.
    let workers = session.worker_counts().into_iter().max().unwrap_or(1);
    // One round of steps for each of the two, whatever the options say of rounds.
    session.progress.expect(2, 1);
    let mut subject = session.subject.pending(workers)?;
    pending_row(session, report, workers, pending, subject.as_mut())?;
    growth_row(session, report, workers, through, subject.as_mut())
}

fn resident() -> Result<f64, BenchError> {
    resident_bytes()
        .map(|bytes| bytes as f64)
        .ok_or(BenchError::Unavailable {
            benchmark: "memory",
            what: "the resident memory of a process",
            instead: "Linux",
        })
}

fn pending_row(
    session: &Session<'_>,
    report: &mut Report,
    workers: usize,
    commands: usize,
    subject: &mut dyn PendingCommands,
) -> Result<(), BenchError> {
    let case = format!("{commands} pending commands");
    let samples = 4;
    let step = commands / samples;
    let (mut graphs, mut theirs) = (Vec::new(), Vec::new());
    for _ in 0..samples {
        let ladder = GraphShape::from_predecessors("ladder", step, |task| {
            (task.saturating_sub(2)..task).collect()
        });
        let before = resident()?;
        graphs.push((CountedGraph::new(&ladder), ladder));
        theirs.push((resident()? - before).max(0.0) / step as f64);
    }
    // Buffers, queues and tables come into being with the first few commands; they are no part of
    // a command.
    let first = step / 16;
    subject.enqueue(first)?;
    let mut ours = Vec::new();
    for _ in 0..samples {
        let before = resident()?;
        subject.enqueue(step)?;
        ours.push((resident()? - before).max(0.0) / step as f64);
        session.progress.advance(1.0 / samples as f64);
    }
    let expected = (first + samples * step) as u64;
    session.verify(
        &case,
        "the number of commands that ran",
        expected,
        subject.finish()?,
    )?;
    session.progress.finish_case();
    drop(graphs);
    let row = Row::new(&case, session.device(), workers, "bytes/command", &ours)
        .beside("counters by hand, two waits", (&ours, &theirs));
    let what = format!("per pending command, {}", counted(workers, "worker"));
    report
        .gates
        .push(Gate::at_most(what, row.value, PENDING, "bytes"));
    session.add(report, row);
    Ok(())
}

fn growth_row(
    session: &Session<'_>,
    report: &mut Report,
    workers: usize,
    commands: usize,
    subject: &mut dyn PendingCommands,
) -> Result<(), BenchError> {
    let case = format!("growth over {commands} commands");
    let step = commands / STEPS;
    let mut sizes = Vec::with_capacity(STEPS);
    for _ in 0..STEPS {
        subject.enqueue(step)?;
        session.verify(
            &case,
            "the number of commands that ran",
            step as u64,
            subject.finish()?,
        )?;
        sizes.push(resident()?);
        session.progress.advance(1.0 / STEPS as f64);
    }
    session.progress.finish_case();
    // The last tenth against the second: the first is warm-up.
    let tenth = STEPS / 10;
    let highest = |sizes: &[f64]| sizes.iter().copied().fold(0.0, f64::max);
    let early = highest(&sizes[tenth..2 * tenth]);
    let growth = (highest(&sizes[STEPS - tenth..]) - early) / f64::from(1 << 20);
    let what = format!("{case}, {}", counted(workers, "worker"));
    report
        .gates
        .push(Gate::at_most(what, growth, GROWTH, "MiB"));
    session.add(
        report,
        Row::new(&case, session.device(), workers, "MiB", &[growth]),
    );
    Ok(())
}
