//! `bulk`: bytes to a node and back.

use super::{Place, Served, read, write};
use crate::error::BenchError;
use crate::harness::{Contender, Gate, Report, Row, Session};
use crate::reference::network::Pair;
use std::time::Instant;

/// Which part of what TLS alone moves large transfers are to move.
const PART: f64 = 0.9;
/// How much longer than TLS alone a small read may take.
const LIMIT: f64 = 1.3;
/// Bytes that say what is to be done, and that it is.
const WORDS: usize = 96;

/// The benchmark `bulk`.
pub(in crate::benchmarks) fn bulk(
    session: &Session<'_>,
    report: &mut Report,
) -> Result<(), BenchError> {
    let large = session.scale().choose(64 << 20, 64 << 20, 1 << 18);
    let sizes = [4 << 10, large];
    let plan = session.begin(2 * sizes.len());
    let node = Served::new("node")?;
    let place = Place::new(&node.device)?;
    for size in sizes {
        let memory = place.memory(size)?;
        let pattern = |at: usize| (at % 251) as u8;
        let mut out: Vec<u8> = (0..size).map(pattern).collect();
        let mut back = vec![0; size];
        let times = if size < 1 << 16 {
            session.scale().choose(1_000, 200, 2)
        } else {
            1
        };
        for is_read in [false, true] {
            let mut pairs = [Pair::tls()?, Pair::tcp()?];
            let mut contenders = Vec::new();
            {
                let (queue, memory, out, back) = (&place.queue, &memory, &mut out, &mut back);
                contenders.push(Contender::new("node", move || {
                    timed(times, || match is_read {
                        false => write(queue, memory, out),
                        true => read(queue, memory, back),
                    })
                }));
            }
            for (pair, name) in pairs.iter_mut().zip(["TLS alone", "TCP alone"]) {
                let (there, here) = if is_read {
                    (WORDS, size)
                } else {
                    (size, WORDS)
                };
                contenders.push(Contender::new(name, move || {
                    timed(times, || pair.exchange(there, here))
                }));
            }
            let samples = session.measure(&plan, &mut contenders)?;
            drop(contenders);
            let is_large = size == large;
            let (unit, of): (_, fn(usize, f64) -> f64) = if is_large {
                ("GB/s", |size, seconds| size as f64 / seconds / 1e9)
            } else {
                ("µs", |_, seconds| seconds * 1e6)
            };
            let values = |contender: usize| -> Vec<f64> {
                let seconds = samples.of(contender).iter();
                seconds.map(|seconds| of(size, *seconds)).collect()
            };
            let ours = values(0);
            let case = format!(
                "{} KiB {}",
                size >> 10,
                if is_read { "read" } else { "written" }
            );
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
                report.rows.push(row);
            }
        }
        let right = out == back;
        session.verify(
            "bulk",
            "whether what came back is what was sent",
            true,
            right,
        )?;
    }
    Ok(())
}

/// Seconds for each of so many.
fn timed(times: usize, mut one: impl FnMut() -> Result<(), BenchError>) -> Result<f64, BenchError> {
    let started = Instant::now();
    for _ in 0..times {
        one()?;
    }
    Ok(started.elapsed().as_secs_f64() / times as f64)
}
