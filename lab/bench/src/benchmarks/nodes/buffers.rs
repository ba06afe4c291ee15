//! `buffers`: very many live buffers of a node, each of which a kernel has used.
//!
//! Buffers are made, and then released, in batches of equal size. A batch costs the same however
//! many buffers there are, and each buffer takes as much memory of both sides, which are in this
//! process.

use super::cluster::{Offer, devices, serving};
use super::{Doing, Hosted, Place, add, first, number, together};
use crate::error::BenchError;
use crate::harness::{Gate, Report, Row, Session, median};
use crate::reference::network::Way;
use crate::reference::process::resident_bytes;
use quipu_scheduler::MemoryRef;
use std::num::NonZero;
use std::time::Instant;

/// Buffers of a batch.
const BATCH: usize = 50_000;
/// The cost and the memory of a buffer at most, as a multiple of what they are with the fewest
/// buffers.
const CLIFF: f64 = 2.0;

/// The benchmark `buffers`.
pub(in crate::benchmarks) fn buffers(
    session: &Session<'_>,
    report: &mut Report,
) -> Result<(), BenchError> {
    let all = [
        100_000, 200_000, 1_000_000, 2_000_000, 5_000_000, 10_000_000,
    ];
    let steps = &all[..session.scale().choose(6, 3, 2)];
    session.begin(steps.len());
    let network = Way::Loopback;
    let device = devices(&[Offer::Workers(NonZero::<usize>::MIN)])?;
    let node = Hosted::new("node", &network, serving(&device))?;
    let place = Place::new(&first(&together(&network, [&node])?)?)?;

    let before = resident_bytes();
    let mut live: Vec<MemoryRef> = Vec::new();
    let (mut made, mut taken) = (Vec::new(), Vec::new());
    for step in steps {
        let mut costs = Vec::new();
        while live.len() < *step {
            costs.push(make(&place, &mut live)?);
        }
        made.push(costs);
        let more = resident_bytes()
            .unwrap_or(0)
            .saturating_sub(before.unwrap_or(0));
        taken.push(vec![more as f64 / live.len() as f64]);
    }
    for memory in live.iter().step_by(live.len() / 1000) {
        let found = number(&place.queue, memory)?;
        session.verify("buffers", "the number that a kernel counted up", 1, found)?;
    }
    let mut released = Vec::new();
    for number in (0..steps.len()).rev() {
        let before = number.checked_sub(1).map_or(0, |before| steps[before]);
        let mut costs = Vec::new();
        while live.len() > before {
            costs.push(release(&place, &mut live)?);
        }
        released.push(costs);
    }
    released.reverse();

    for (what, unit, samples) in [
        ("made and used", "ns/buffer", &made),
        ("released", "ns/buffer", &released),
        ("memory of both sides", "bytes/buffer", &taken),
    ] {
        let least = median(&samples[0]);
        let mut most = 0.0_f64;
        for (step, samples) in steps.iter().zip(samples) {
            let ratio = median(samples) / least;
            most = most.max(ratio);
            let name = format!("{step} buffers, {what}");
            let mut row = Row::new(name, "node", 1, unit, samples);
            row.reference = Some(format!("with {}", steps[0]));
            row.reference_value = Some(least);
            row.ratio = Some(ratio);
            session.add(report, row);
        }
        let what = format!("{what}, with up to {} buffers", steps[steps.len() - 1]);
        report.gates.push(Gate::at_most(what, most, CLIFF, "x"));
    }
    Ok(())
}

/// Makes a batch of buffers, and has a kernel use each. Nanoseconds for each.
fn make(place: &Place, live: &mut Vec<MemoryRef>) -> Result<f64, BenchError> {
    let started = Instant::now();
    for _ in 0..BATCH {
        let memory = place.memory(4)?;
        add(&place.queue, &memory)?;
        live.push(memory);
    }
    place.queue.wait().doing("waiting for kernels")?;
    Ok(started.elapsed().as_secs_f64() * 1e9 / BATCH as f64)
}

/// Releases a batch of buffers, and waits until the node has. Nanoseconds for each.
fn release(place: &Place, live: &mut Vec<MemoryRef>) -> Result<f64, BenchError> {
    let started = Instant::now();
    live.truncate(live.len() - BATCH);
    let last = place.memory(4)?;
    add(&place.queue, &last)?;
    place.queue.wait().doing("waiting for a kernel")?;
    Ok(started.elapsed().as_secs_f64() * 1e9 / BATCH as f64)
}
