//! The sides of a comparison, and how they are timed.

use super::{Doing, Target};
use crate::error::BenchError;
use crate::harness::{Contender, Gate, Plan, Report, Row, Samples, Session, pairwise_ratio};
use crate::reference::raw::{Launch, Raw, Waiting};
use quipu::Queue;
use std::cell::{Cell, RefCell};
use std::time::{Duration, Instant};

/// Something that can be enqueued again and again, and waited for.
pub(super) struct Side<'a> {
    name: String,
    enqueue: Box<dyn FnMut() -> Result<(), BenchError> + 'a>,
    wait: Box<dyn FnMut() -> Result<(), BenchError> + 'a>,
    count: Cell<u64>,
    share: f64,
}

impl<'a> Side<'a> {
    /// Anything.
    pub(super) fn new(
        name: impl Into<String>,
        enqueue: impl FnMut() -> Result<(), BenchError> + 'a,
        wait: impl FnMut() -> Result<(), BenchError> + 'a,
    ) -> Self {
        Side {
            name: name.into(),
            enqueue: Box::new(enqueue),
            wait: Box::new(wait),
            count: Cell::new(0),
            share: 1.0,
        }
    }

    /// A command of ours, and a wait for its queue.
    pub(super) fn ours(
        queue: &'a Queue,
        mut command: impl FnMut() -> quipu::Result<()> + 'a,
    ) -> Self {
        Side::new(
            "quipu",
            move || command().doing("enqueueing a command"),
            || queue.wait().doing("waiting for a queue"),
        )
    }

    /// A hand-written launch.
    pub(super) fn raw(raw: &'a RefCell<Box<dyn Raw>>, launch: Launch) -> Self {
        let name = raw.borrow().language().name();
        Side::new(
            name,
            move || Ok(raw.borrow_mut().enqueue(launch)?),
            || Ok(raw.borrow_mut().wait(Waiting::Synchronise)?),
        )
    }

    /// A function that is over when it returns.
    pub(super) fn function(name: &str, mut function: impl FnMut() + 'a) -> Self {
        let call = move || {
            function();
            Ok(())
        };
        Side::new(name, call, || Ok(()))
    }

    /// The same, where one of it does only this share of what one of the others does.
    pub(super) fn doing_only(self, share: f64) -> Self {
        Side { share, ..self }
    }

    /// The number of times that it was enqueued.
    pub(super) fn count(&self) -> u64 {
        self.count.get()
    }

    /// Seconds for each of so many.
    pub(super) fn seconds(&mut self, repeats: usize) -> Result<f64, BenchError> {
        let started = Instant::now();
        for _ in 0..repeats {
            (self.enqueue)()?;
        }
        (self.wait)()?;
        self.count.set(self.count.get() + repeats as u64);
        Ok(started.elapsed().as_secs_f64() / repeats as f64)
    }
}

/// The comparison, and its name.
pub(super) struct Comparison<'a> {
    /// The row's case.
    pub(super) case: &'a str,
    /// The unit that is counted, per second.
    pub(super) unit: &'a str,
    /// The number of units of one launch: 1e9 bytes are 1 of the unit `GB/s`.
    pub(super) amount: f64,
}

/// Times the sides, the first of which is ours, and writes a row for each of the others; one
/// without a reference if there is none. The median ratio of ours to each of the others.
pub(super) fn rates(
    session: &Session<'_>,
    report: &mut Report,
    plan: &Plan,
    target: &Target,
    comparison: &Comparison<'_>,
    sides: &mut [Side<'_>],
) -> Result<Vec<f64>, BenchError> {
    let repeats = repeats(session, &mut sides[0])?;
    let mut contenders: Vec<Contender<'_>> = Vec::new();
    for side in &mut *sides {
        let amount = comparison.amount * side.share;
        contenders.push(Contender::new(side.name.clone(), move || {
            Ok(amount / side.seconds(repeats)?.max(1e-12))
        }));
    }
    let Comparison { case, unit, .. } = *comparison;
    let samples = rows(session, report, plan, target, (case, unit), contenders)?;
    let ratio = |other| pairwise_ratio(samples.of(0), samples.of(other)).unwrap_or(f64::NAN);
    Ok((1..samples.contenders()).map(ratio).collect())
}

/// The least share of a hand-written kernel's rate.
pub(super) const BY_HAND: f64 = 0.97;

/// Makes a target of the ratio to the first of the other sides, if that is the same by hand on a
/// GPU.
pub(super) fn gate_by_hand(report: &mut Report, target: &Target, case: &str, ratios: &[f64]) {
    if let (Some(&ratio), true) = (ratios.first(), target.is_wide()) {
        let what = format!("{case}, {}, against the same by hand", target.id());
        report.gates.push(Gate::at_least(what, ratio, BY_HAND, "x"));
    }
}

/// Measures contenders, the first of which is ours, and writes a row for each of the others; one
/// without a reference if there is none.
pub(super) fn rows(
    session: &Session<'_>,
    report: &mut Report,
    plan: &Plan,
    target: &Target,
    (case, unit): (&str, &str),
    mut contenders: Vec<Contender<'_>>,
) -> Result<Samples, BenchError> {
    let samples = session.measure(plan, &mut contenders)?;
    let row = || Row::new(case, target.id(), target.workers(), unit, samples.of(0));
    for other in 1..samples.contenders() {
        let pairs = (samples.of(0), samples.of(other));
        session.add(report, row().beside(samples.name(other), pairs));
    }
    if samples.contenders() == 1 {
        session.add(report, row());
    }
    Ok(samples)
}

/// Microseconds for each of so many.
pub(super) fn mean(
    times: usize,
    mut one: impl FnMut() -> Result<(), BenchError>,
) -> Result<f64, BenchError> {
    let started = Instant::now();
    for _ in 0..times {
        one()?;
    }
    Ok(started.elapsed().as_secs_f64() * 1e6 / times as f64)
}

/// The number of times that something that has taken so long once is repeated: a thousand times, if
/// that does not take minutes.
pub(super) fn times(session: &Session<'_>, once: Duration) -> usize {
    let (seconds, most) = session.scale().choose((1.0, 1000), (0.02, 1000), (0.0, 2));
    ((seconds / once.as_secs_f64().max(1e-9)) as usize).clamp(1, most)
}

/// The number of launches that are enqueued back to back, so that a run takes long enough to be
/// timed. Compiles what has to be compiled.
fn repeats(session: &Session<'_>, ours: &mut Side<'_>) -> Result<usize, BenchError> {
    ours.seconds(1)?;
    let seconds = ours.seconds(1)?.max(1e-9);
    let (run, most) = session.scale().choose((0.1, 100), (0.02, 50), (0.0, 2));
    Ok(((run / seconds) as usize).clamp(1, most))
}
