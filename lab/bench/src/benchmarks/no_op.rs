//! `no-op`: one command and the wait for it, beside two threads that sleep and wake each other.
//!
//! *Back to back*: the next command follows at once, so workers may still be spinning. *Pool
//! asleep*: a pause before each command lets every worker fall asleep; the ping-pong pauses too.

use std::time::Duration;

use crate::error::BenchError;
use crate::harness::{Contender, Gate, Report, Row, Session, counted, median};
use crate::reference::ping_pong::PingPong;

const UNIT: &str = "µs/trip";

/// The largest ratio of a command to the sleeping threads.
const LIMIT: f64 = 1.2;

/// Long after any worker has stopped spinning.
const PAUSE: Duration = Duration::from_micros(400);

/// The benchmark `no-op`.
pub(crate) fn run(session: &Session<'_>, report: &mut Report) -> Result<(), BenchError> {
    let trips = session.scale().choose(1_000, 100, 3);
    let pause = session.scale().choose(PAUSE, PAUSE, Duration::ZERO);
    let workers = session.worker_counts();
    let plan = session.begin(2 * workers.len());
    for &count in &workers {
        for (case, pause) in [("back to back", Duration::ZERO), ("pool asleep", pause)] {
            let mut no_op = session.subject.no_op(count)?;
            let mut partners = [PingPong::parked()?, PingPong::condition()?];
            let mut contenders = vec![Contender::new("subject", || {
                medians(trips, pause, || {
                    let outcome = no_op()?;
                    session.verify(case, "the number of no-ops that ran", 1, outcome.executed)?;
                    Ok(outcome.elapsed)
                })
            })];
            for partner in &mut partners {
                contenders.push(Contender::new(partner.name(), || {
                    medians(trips, pause, || Ok(partner.trip()))
                }));
            }
            let samples = session.measure(&plan, &mut contenders)?;
            let better = (1..samples.contenders())
                .min_by(|&one, &other| {
                    median(samples.of(one)).total_cmp(&median(samples.of(other)))
                })
                .unwrap_or(1);
            let ours = samples.of(0);
            let row = Row::new(case, session.device(), count, UNIT, ours)
                .beside(samples.name(better), (ours, samples.of(better)));
            let what = format!(
                "against sleeping threads, {case}, {}",
                counted(count, "worker")
            );
            let ratio = row.ratio.unwrap_or(f64::NAN);
            report.gates.push(Gate::at_most(what, ratio, LIMIT, "x"));
            session.add(report, row);
        }
    }
    report.notes.push(wake_cost(trips, pause)?);
    Ok(())
}

/// The median of so many trips, in microseconds.
fn medians(
    trips: usize,
    pause: Duration,
    mut trip: impl FnMut() -> Result<Duration, BenchError>,
) -> Result<f64, BenchError> {
    let mut times = Vec::with_capacity(trips);
    for _ in 0..trips {
        if !pause.is_zero() {
            std::thread::sleep(pause);
        }
        times.push(trip()?.as_secs_f64() * 1e6);
    }
    Ok(median(&times))
}

/// The cost of one wake on this machine, in words.
fn wake_cost(trips: usize, pause: Duration) -> Result<String, BenchError> {
    let mut partners = PingPong::parked()?;
    let (mut waker, mut one_way) = (Vec::new(), Vec::new());
    for _ in 0..trips {
        if !pause.is_zero() {
            std::thread::sleep(pause);
        }
        let cost = partners.wake_cost();
        waker.push(cost.waker.as_secs_f64() * 1e6);
        one_way.push(cost.one_way.as_secs_f64() * 1e6);
    }
    Ok(format!(
        "waking a thread costs the waker {:.1} µs; the sleeper runs after {:.1} µs",
        median(&waker),
        median(&one_way)
    ))
}
