//! `links`: a kernel and bytes over networks as people have them, between two machines within this
//! one.
//!
//! Their rate, delay, jitter and loss are those of [`Shape::wifi_6`] and [`Shape::mobile_5g`]. TLS
//! and TCP alone go the same way, each on a connection of its own, in turns with ours: loss comes
//! when it comes, so spread is large, and runs are many.

use super::{Place, Served, add, number, read, write};
use crate::error::{BenchError, SubjectError};
use crate::harness::{Contender, Gate, Report, Row, Session};
use crate::reference::network::{Pair, Way};
use quipu_lab_network::Shape;
use std::time::Instant;

/// Bytes of a short command, and of its end, as TLS gets them.
const COMMAND: usize = 144;
const END: usize = 32;
/// Bytes that say what is to be done, and that it is.
const WORDS: usize = 96;

/// The most of a round trip, and the least of bytes in a second, as a part of what TLS alone has.
const TRIP: f64 = 1.5;
const RATE: f64 = 0.9;

/// The benchmark `links`.
pub(in crate::benchmarks) fn links(
    session: &Session<'_>,
    report: &mut Report,
) -> Result<(), BenchError> {
    let trips = session.scale().choose(100, 20, 2);
    let size = session.scale().choose(4 << 20, 1 << 20, 1 << 16);
    let shapes = [("Wi-Fi 6", Shape::wifi_6()), ("5G", Shape::mobile_5g())];
    let plan = session.begin(3 * shapes.len());
    for (link, shape) in shapes {
        let way = Way::shaped(shape)?;
        let node = Served::new(session, "node", &way)?;
        let place = Place::new(&node.device)?;
        let memory = place.memory(4)?;
        let mut pairs = Pair::both(&way)?;
        let mut count = 0_u32;
        let (queue, counted) = (&place.queue, &mut count);
        let mut contenders = vec![Contender::new("node", || {
            timed(trips, || {
                *counted += 1;
                let event = add(queue, &memory)?;
                let waited = event.wait();
                waited.map_err(|error| SubjectError::failed("waiting for a kernel", error).into())
            })
        })];
        for (name, pair) in &mut pairs {
            let trip = || timed(trips, || pair.exchange(COMMAND - 16, END));
            contenders.push(Contender::new(*name, trip));
        }
        let samples = session.measure(&plan, &mut contenders)?;
        drop(contenders);
        let found = number(&place.queue, &memory)?;
        session.verify("links", "the number that kernels counted up", count, found)?;
        let milliseconds = |contender: usize| -> Vec<f64> {
            let seconds = samples.of(contender).iter();
            seconds.map(|seconds| seconds * 1e3).collect()
        };
        let ours = milliseconds(0);
        let case = format!("{link}: enqueue and wait");
        for other in 1..samples.contenders() {
            let row = Row::new(case.as_str(), "node", 0, "ms/trip", &ours);
            let row = row.beside(samples.name(other), (&ours, &milliseconds(other)));
            if other == 1 {
                let ratio = row.ratio.unwrap_or(f64::NAN);
                let what = format!("{case}, against TLS alone");
                report.gates.push(Gate::at_most(what, ratio, TRIP, "x"));
            }
            session.add(report, row);
        }

        let memory = place.memory(size)?;
        let mut out: Vec<u8> = (0..size).map(|at| (at % 251) as u8).collect();
        let mut back = vec![0; size];
        for is_read in [false, true] {
            let (out, back, queue, memory) = (&mut out, &mut back, &place.queue, &memory);
            let (there, here) = if is_read {
                (WORDS, size)
            } else {
                (size, WORDS)
            };
            let mut contenders = vec![Contender::new("node", || {
                timed(1, || match is_read {
                    false => write(queue, memory, out),
                    true => read(queue, memory, back),
                })
            })];
            for (name, pair) in &mut pairs {
                let exchange = move || timed(1, || pair.exchange(there, here));
                contenders.push(Contender::new(*name, exchange));
            }
            let samples = session.measure(&plan, &mut contenders)?;
            drop(contenders);
            let rates = |contender: usize| -> Vec<f64> {
                let seconds = samples.of(contender).iter();
                seconds.map(|seconds| size as f64 / seconds / 1e6).collect()
            };
            let ours = rates(0);
            let what = if is_read { "read" } else { "written" };
            let case = format!("{link}: {} KiB {what}", size >> 10);
            for other in 1..samples.contenders() {
                let row = Row::new(case.as_str(), "node", 0, "MB/s", &ours);
                let row = row.beside(samples.name(other), (&ours, &rates(other)));
                if other == 1 {
                    let ratio = row.ratio.unwrap_or(f64::NAN);
                    let what = format!("{case}, against TLS alone");
                    report.gates.push(Gate::at_least(what, ratio, RATE, "x"));
                }
                session.add(report, row);
            }
        }
        let right = out == back;
        session.verify(
            "links",
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
