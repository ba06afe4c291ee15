//! `bulk`: bytes to a node and back.

use super::{Place, Served, read, write};
use crate::error::BenchError;
use crate::harness::{Contender, Gate, Plan, Report, Row, Session};
use crate::reference::network::{Pair, Way};
use std::time::Instant;

/// The part of TLS's rate that large transfers are to reach.
const PART: f64 = 0.9;
/// The largest ratio of a small read to TLS alone.
const LIMIT: f64 = 1.3;
/// Bytes that say what is to be done, and that it is.
const WORDS: usize = 96;

/// The benchmark `bulk`.
pub(in crate::benchmarks) fn bulk(
    session: &Session<'_>,
    report: &mut Report,
) -> Result<(), BenchError> {
    let large = session.scale().choose(64 << 20, 64 << 20, 1 << 18);
    let ways = Way::placed();
    let plan = session.begin(2 * (ways.len() + 1));
    for (placed, way) in &ways {
        let case = (4 << 10, &*format!(", {placed}"));
        one(session, report, &plan, case, way)?;
    }
    one(session, report, &plan, (large, ""), &Way::Loopback)
}

/// Writes and reads of so many bytes.
fn one(
    session: &Session<'_>,
    report: &mut Report,
    plan: &Plan,
    (size, placed): (usize, &str),
    way: &Way,
) -> Result<(), BenchError> {
    let node = Served::new(session, "node", way)?;
    let place = Place::new(&node.device)?;
    let memory = place.memory(size)?;
    let mut out: Vec<u8> = (0..size).map(|at| (at % 251) as u8).collect();
    let mut back = vec![0; size];
    let is_large = size > 1 << 16;
    let times = match is_large {
        true => 1,
        false => session.scale().choose(1_000, 200, 2),
    };
    for is_read in [false, true] {
        let mut pairs = Pair::both(way)?;
        let mut contenders = Vec::new();
        {
            let (queue, memory, out, back) = (&place.queue, &memory, &mut out, &mut back);
            let mut transfer = move || match is_read {
                false => write(queue, memory, out),
                true => read(queue, memory, back),
            };
            contenders.push(Contender::new("node", move || {
                way.near(|| timed(times, &mut transfer))
            }));
        }
        for (name, pair) in &mut pairs {
            let (there, here) = match is_read {
                true => (WORDS, size),
                false => (size, WORDS),
            };
            let mut exchange = move || pair.exchange(there, here);
            contenders.push(Contender::new(*name, move || {
                way.near(|| timed(times, &mut exchange))
            }));
        }
        let samples = session.measure(plan, &mut contenders)?;
        drop(contenders);
        let (unit, of): (_, fn(usize, f64) -> f64) = match is_large {
            true => ("GB/s", |size, seconds| size as f64 / seconds / 1e9),
            false => ("µs", |_, seconds| seconds * 1e6),
        };
        let values = |contender: usize| -> Vec<f64> {
            let seconds = samples.of(contender).iter();
            seconds.map(|seconds| of(size, *seconds)).collect()
        };
        let ours = values(0);
        let done = if is_read { "read" } else { "written" };
        let case = format!("{} KiB {done}{placed}", size >> 10);
        for other in 1..samples.contenders() {
            let theirs = values(other);
            let row = Row::new(case.as_str(), "node", 0, unit, &ours);
            let row = row.beside(samples.name(other), (&ours, &theirs));
            let ratio = row.ratio.unwrap_or(f64::NAN);
            let what = format!("{case}, against {}", samples.name(other));
            match (other, is_large, is_read) {
                (1, true, _) => report.gates.push(Gate::at_least(what, ratio, PART, "x")),
                (1, false, true) => report.gates.push(Gate::at_most(what, ratio, LIMIT, "x")),
                _ => {}
            }
            session.add(report, row);
        }
    }
    let what = "whether what came back is what was sent";
    session.verify("bulk", what, true, out == back)
}

/// Seconds for each of so many.
fn timed(
    times: usize,
    one: &mut impl FnMut() -> Result<(), BenchError>,
) -> Result<f64, BenchError> {
    let started = Instant::now();
    for _ in 0..times {
        one()?;
    }
    Ok(started.elapsed().as_secs_f64() / times as f64)
}
