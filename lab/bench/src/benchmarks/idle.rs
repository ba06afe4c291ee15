//! `idle`: a device that has nothing to do uses no processor.
//!
//! The reference is this process asleep without the device. It cannot be interleaved run by run
//! (the device would have to come and go), so its windows come first.

use std::time::{Duration, Instant};

use crate::error::BenchError;
use crate::harness::{Gate, Report, Row, Session, counted};
use crate::reference::process::Usage;

/// Long after any worker has stopped spinning.
const SETTLE: Duration = Duration::from_millis(100);

/// Microseconds per second that count as none: as much as the process needs to fall asleep and to
/// wake once. A worker that looks for work a thousand times in a second needs twenty times that.
const NOTHING: f64 = 100.0;

/// One window: microseconds of processor time, and context switches, per second.
struct Window {
    processor: f64,
    switches: f64,
}

/// The figures of a window in one row.
type Column = fn(&Window) -> f64;

/// The benchmark `idle`.
pub(crate) fn run(session: &Session<'_>, report: &mut Report) -> Result<(), BenchError> {
    let window = session.scale().choose(1000, 400, 1);
    let window = Duration::from_millis(window);
    let settle = session.scale().choose(SETTLE, SETTLE, Duration::ZERO);
    let workers = session.worker_counts();
    let plan = session.begin(1 + workers.len());
    let windows = || -> Result<Vec<Window>, BenchError> {
        let windows = (0..plan.rounds).map(|_| {
            let sample = sleep(window);
            session.progress.advance(1.0);
            sample
        });
        let windows = windows.collect();
        session.progress.finish_case();
        windows
    };
    let alone = windows()?;
    for &count in &workers {
        let mut work = session.subject.idle(count)?;
        work()?;
        std::thread::sleep(settle);
        let idle = windows()?;
        drop(work);
        add_rows(session, report, count, &idle, &alone);
    }
    Ok(())
}

fn sleep(window: Duration) -> Result<Window, BenchError> {
    let unavailable = || BenchError::Unavailable {
        benchmark: "idle",
        what: "the processor time of a process",
        instead: "Linux or macOS",
    };
    let started = Instant::now();
    let before = Usage::now().ok_or_else(unavailable)?;
    std::thread::sleep(window);
    let used = Usage::now().ok_or_else(unavailable)?.since(before);
    let seconds = started.elapsed().as_secs_f64();
    Ok(Window {
        processor: used.processor.as_secs_f64() * 1e6 / seconds,
        switches: used.switches as f64 / seconds,
    })
}

fn add_rows(
    session: &Session<'_>,
    report: &mut Report,
    workers: usize,
    idle: &[Window],
    alone: &[Window],
) {
    let columns: [(&str, &str, Column); 2] = [
        ("processor time", "µs/s", |window| window.processor),
        ("context switches", "switches/s", |window| window.switches),
    ];
    for (case, unit, column) in columns {
        let ours: Vec<f64> = idle.iter().map(column).collect();
        let theirs: Vec<f64> = alone.iter().map(column).collect();
        // The quietest windows: other programs only add, a worker that polls is in every window.
        let quietest = |samples: &[f64]| samples.iter().copied().fold(f64::INFINITY, f64::min);
        let extra = (quietest(&ours) - quietest(&theirs)).max(0.0);
        let what = format!(
            "{case} above a sleeping process, {}",
            counted(workers, "worker")
        );
        // Less than one switch in a second is a window's own beginning or end.
        let limit = if unit == "µs/s" { NOTHING } else { 1.0 };
        report.gates.push(Gate::at_most(what, extra, limit, unit));
        session.add(
            report,
            Row::new(case, session.device(), workers, unit, &ours)
                .beside("sleeping process", (&ours, &theirs)),
        );
    }
}
