//! `migrate`: a buffer that kernels on two nodes change in turn.

use super::{Doing, Served, add, number, together};
use crate::error::BenchError;
use crate::harness::{Contender, Gate, Report, Row, Session, median};
use crate::reference::network::{Pair, Way as Network};
use quipu_scheduler::{Context, Device, MemoryRef, Queue, QueueOptions};
use std::time::Instant;

/// Bytes that say what is to be done, and that it is.
const WORDS: usize = 96;

/// Microseconds of a hop of 4 bytes, at most, beyond what two ways of an encrypted ping-pong take.
const BEYOND: f64 = 15.0;

/// The benchmark `migrate`.
pub(in crate::benchmarks) fn migrate(
    session: &Session<'_>,
    report: &mut Report,
) -> Result<(), BenchError> {
    let large = session.scale().choose(8 << 20, 8 << 20, 1 << 17);
    let sizes = [4, large];
    // Ends that share a core need not wake another, as nodes do.
    let apart = Network::placed().pop();
    let apart = apart.map_or(Network::Loopback, |(_, apart)| apart);
    let plan = session.begin(sizes.len());
    let nodes = [
        Served::new(session, "left", &Network::Loopback)?,
        Served::new(session, "right", &Network::Loopback)?,
    ];
    // Nodes that each have a driver know nothing of each other: what goes from one to the other
    // goes by way of the client.
    let met = together(&Network::Loopback, nodes.iter().map(|served| &served.node))?;
    // Each offers one.
    let met = Device::all_of(&met).doing("looking for devices")?;
    let straight = Way::over(&met)?;
    let around = Way::over(&[nodes[0].device.clone(), nodes[1].device.clone()])?;
    for size in sizes {
        let hops: u32 = session
            .scale()
            .choose(200, if size == 4 { 100 } else { 4 }, 2);
        let mut ways = Pair::both(&apart)?;
        let mut detours = Pair::both(&apart)?;
        let memories = [straight.memory(size)?, around.memory(size)?];
        let mut counts = [0_u32; 2];
        let [count_straight, count_around] = &mut counts;
        let mut contenders = vec![
            Contender::new("node to node", || {
                straight.hop(&memories[0], hops, count_straight)
            }),
            Contender::new("through the client", || {
                around.hop(&memories[1], hops, count_around)
            }),
        ];
        // From one node to the other, where it is run: half of the way there and back.
        for (name, pair) in &mut ways {
            let mut exchange = move || {
                let started = Instant::now();
                for _ in 0..hops.div_ceil(2) {
                    pair.exchange(size, size)?;
                }
                let ways = f64::from(2 * hops.div_ceil(2));
                Ok(started.elapsed().as_secs_f64() * 1e6 / ways)
            };
            let near = &apart;
            let exchange = move || near.near(&mut exchange);
            contenders.push(Contender::new(format!("{name}, one way"), exchange));
        }
        // From one node to here, and from here to the other.
        for (name, pair) in &mut detours {
            let mut exchange = move || {
                let started = Instant::now();
                for _ in 0..hops {
                    pair.exchange(WORDS, size)?;
                    pair.exchange(size, WORDS)?;
                }
                Ok(started.elapsed().as_secs_f64() * 1e6 / f64::from(hops))
            };
            let near = &apart;
            let exchange = move || near.near(&mut exchange);
            let name = format!("{name}, through the client");
            contenders.push(Contender::new(name, exchange));
        }
        let samples = session.measure(&plan, &mut contenders)?;
        drop(contenders);
        if size == 4 {
            let [hop, way] = [samples.of(0), samples.of(2)].map(median);
            report.gates.push(Gate::at_most(
                "4 bytes from node to node, beyond two ways of TLS alone",
                hop - 2.0 * way,
                BEYOND,
                "µs/hop",
            ));
        }
        for (way, (memory, count)) in [&straight, &around].iter().zip(memories.iter().zip(counts)) {
            let found = number(&way.queues[0], memory)?;
            session.verify(
                "migrate",
                "the number that kernels counted up",
                count,
                found,
            )?;
        }
        for (row, at, beside) in [
            ("node to node", 0, [2, 3]),
            ("through the client", 1, [4, 5]),
        ] {
            for other in beside {
                let pairs = (samples.of(at), samples.of(other));
                let name = format!("{size} bytes, {row}");
                let row = Row::new(name, "node", 0, "µs/hop", pairs.0);
                session.add(report, row.beside(samples.name(other), pairs));
            }
        }
    }
    Ok(())
}

/// Two nodes' devices in a context.
struct Way {
    context: Context,
    queues: [Queue; 2],
}

impl Way {
    fn over(devices: &[Device]) -> Result<Self, BenchError> {
        let context = Context::new(devices).doing("making a context")?;
        let queue = |device| {
            let queue = context.queue(device, QueueOptions::default());
            queue.doing("making a queue")
        };
        let queues = [queue(&devices[0])?, queue(&devices[1])?];
        Ok(Self { context, queues })
    }

    fn memory(&self, size: usize) -> Result<MemoryRef, BenchError> {
        let memory = self.context.memory(size as u64);
        memory.doing("making a buffer")
    }

    /// So many hops; microseconds of one.
    fn hop(&self, memory: &MemoryRef, hops: u32, count: &mut u32) -> Result<f64, BenchError> {
        let started = Instant::now();
        for hop in 0..hops {
            let last = add(&self.queues[hop as usize % 2], memory)?;
            *count += 1;
            if hop + 1 == hops {
                last.wait().doing("waiting for a kernel")?;
            }
        }
        Ok(started.elapsed().as_secs_f64() * 1e6 / f64::from(hops))
    }
}
