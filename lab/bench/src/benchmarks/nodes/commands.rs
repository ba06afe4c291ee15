//! `noop` and `chain`: kernels that do next to nothing.

use super::{Doing, Place, Served, add, cores, number};
use crate::error::BenchError;
use crate::harness::{Contender, Gate, Report, Row, Session, median};
use crate::reference::network::{Pair, Way};
use std::time::Instant;

/// The largest ratio of a command to TLS alone.
const LIMIT: f64 = 1.5;
/// The most microseconds of a command of a chain.
const EACH: f64 = 1.0;
/// Bytes of a short command, and of its end, as TLS gets them.
const COMMAND: usize = 144;
const END: usize = 32;

/// The benchmark `noop`.
pub(in crate::benchmarks) fn noop(
    session: &Session<'_>,
    report: &mut Report,
) -> Result<(), BenchError> {
    let trips = session.scale().choose(1_000, 1_000, 3);
    let ways = Way::placed();
    let plan = session.begin(ways.len());
    let local = Place::new(&cores()?)?;
    for (placed, way) in &ways {
        let node = Served::new(session, "node", way)?;
        let places = [&Place::new(&node.device)?, &local];
        let memories = [places[0].memory(4)?, places[1].memory(4)?];
        let mut pairs = Pair::both(way)?;
        let mut counts = [0_u32; 2];
        let mut contenders = Vec::new();
        for (((place, memory), count), name) in places
            .iter()
            .zip(&memories)
            .zip(&mut counts)
            .zip(["on a node", "here"])
        {
            let mut trip = move || {
                *count += 1;
                let waited = add(&place.queue, memory)?.wait();
                waited.doing("waiting for a kernel")
            };
            contenders.push(Contender::new(name, move || {
                way.near(|| medians(trips, &mut trip))
            }));
        }
        for (name, pair) in &mut pairs {
            let mut trip = move || pair.exchange(COMMAND - 16, END);
            contenders.push(Contender::new(*name, move || {
                way.near(|| medians(trips, &mut trip))
            }));
        }
        let samples = session.measure(&plan, &mut contenders)?;
        drop(contenders);
        for ((place, memory), count) in places.iter().zip(&memories).zip(counts) {
            let found = number(&place.queue, memory)?;
            session.verify("no-op", "the number that kernels counted up", count, found)?;
        }
        let case = format!("enqueue and wait, {placed}");
        for other in [2, 3, 1] {
            let pairs = (samples.of(0), samples.of(other));
            let row = Row::new(case.as_str(), "node", 0, "µs/trip", pairs.0);
            let row = row.beside(samples.name(other), pairs);
            if other == 2 {
                let ratio = row.ratio.unwrap_or(f64::NAN);
                let what = format!("a command on a node, {placed}, against TLS alone");
                report.gates.push(Gate::at_most(what, ratio, LIMIT, "x"));
            }
            session.add(report, row);
        }
    }
    Ok(())
}

/// The median of so many trips, in microseconds.
fn medians(
    trips: usize,
    trip: &mut impl FnMut() -> Result<(), BenchError>,
) -> Result<f64, BenchError> {
    let mut times = Vec::with_capacity(trips);
    for _ in 0..trips {
        let started = Instant::now();
        trip()?;
        times.push(started.elapsed().as_secs_f64() * 1e6);
    }
    Ok(median(&times))
}

/// The benchmark `chain`.
pub(in crate::benchmarks) fn chain(
    session: &Session<'_>,
    report: &mut Report,
) -> Result<(), BenchError> {
    let kernels = session.scale().choose(10_000, 10_000, 10);
    let plan = session.begin(1);
    let node = Served::new(session, "node", &Way::Loopback)?;
    let local = cores()?;
    let places = [Place::new(&node.device)?, Place::new(&local)?];
    let memories = [places[0].memory(4)?, places[1].memory(4)?];
    let mut counts = [0_u32; 2];
    let mut pairs = Pair::both(&Way::Loopback)?;
    let mut contenders = Vec::new();
    for (((place, memory), count), name) in places
        .iter()
        .zip(&memories)
        .zip(&mut counts)
        .zip(["on a node", "here"])
    {
        contenders.push(Contender::new(name, move || {
            let started = Instant::now();
            let mut last = None;
            for _ in 0..kernels {
                last = Some(add(&place.queue, memory)?);
                *count += 1;
            }
            let last = last.map_or(Ok(()), |last| last.wait());
            last.map_err(|error| crate::error::SubjectError::failed("waiting for a chain", error))?;
            Ok(started.elapsed().as_secs_f64() * 1e6 / f64::from(kernels))
        }));
    }
    for (name, pair) in &mut pairs {
        contenders.push(Contender::new(*name, move || {
            let (started, all) = (Instant::now(), kernels as usize);
            pair.exchange(all * COMMAND, all * END)?;
            Ok(started.elapsed().as_secs_f64() * 1e6 / f64::from(kernels))
        }));
    }
    let samples = session.measure(&plan, &mut contenders)?;
    drop(contenders);
    for ((place, memory), count) in places.iter().zip(&memories).zip(counts) {
        let found = number(&place.queue, memory)?;
        session.verify("chain", "the number that kernels counted up", count, found)?;
    }
    let case = format!("{kernels} in a chain");
    let what = "a command of a chain on a node";
    let each = median(samples.of(0));
    report.gates.push(Gate::at_most(what, each, EACH, "µs"));
    // TLS and TCP with as many bytes at once.
    for other in 1..samples.contenders() {
        let pairs = (samples.of(0), samples.of(other));
        let row = Row::new(case.as_str(), "node", 0, "µs/kernel", pairs.0);
        session.add(report, row.beside(samples.name(other), pairs));
    }
    Ok(())
}
