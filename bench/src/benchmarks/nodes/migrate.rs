//! `migrate`: a buffer that kernels on two nodes change in turn.

use super::{Doing, Served, add, number};
use crate::error::BenchError;
use crate::harness::{Contender, Report, Row, Session};
use crate::reference::network::Pair;
use quipu_core::{Context, QueueOptions};
use std::time::Instant;

/// Bytes that say what is to be done, and that it is.
const WORDS: usize = 96;

/// The benchmark `migrate`.
pub(in crate::benchmarks) fn migrate(
    session: &Session<'_>,
    report: &mut Report,
) -> Result<(), BenchError> {
    let large = session.scale().choose(8 << 20, 8 << 20, 1 << 17);
    let sizes = [4, large];
    let plan = session.begin(sizes.len());
    let nodes = [Served::new("left")?, Served::new("right")?];
    let devices = [nodes[0].device.clone(), nodes[1].device.clone()];
    let context = Context::new(&devices).doing("making a context")?;
    let queue = |device| {
        let queue = context.queue(device, QueueOptions::default());
        queue.doing("making a queue")
    };
    let queues = [queue(&devices[0])?, queue(&devices[1])?];
    for size in sizes {
        let memory = context.memory(size as u64).doing("making a buffer")?;
        let hops: u32 = session
            .scale()
            .choose(200, if size == 4 { 100 } else { 4 }, 2);
        let mut pair = Pair::tls()?;
        let mut count = 0;
        let mut contenders = vec![
            Contender::new("nodes", || {
                let started = Instant::now();
                for hop in 0..hops {
                    let last = add(&queues[hop as usize % 2], &memory)?;
                    count += 1;
                    if hop + 1 == hops {
                        last.wait().doing("waiting for a kernel")?;
                    }
                }
                Ok(started.elapsed().as_secs_f64() * 1e6 / f64::from(hops))
            }),
            // From one node to here, and from here to the other.
            Contender::new("TLS alone, through the client", || {
                let started = Instant::now();
                for _ in 0..hops {
                    pair.exchange(WORDS, size)?;
                    pair.exchange(size, WORDS)?;
                }
                Ok(started.elapsed().as_secs_f64() * 1e6 / f64::from(hops))
            }),
        ];
        let samples = session.measure(&plan, &mut contenders)?;
        drop(contenders);
        let found = number(&queues[0], &memory)?;
        session.verify(
            "migrate",
            "the number that kernels counted up",
            count,
            found,
        )?;
        let pairs = (samples.of(0), samples.of(1));
        let row = Row::new(format!("{size} bytes"), "node", 0, "µs/hop", pairs.0);
        report.rows.push(row.beside(samples.name(1), pairs));
    }
    Ok(())
}
