//! `distributed-matmul`: a product of matrices over several nodes, beside one of them, and beside
//! their devices without nodes.
//!
//! Each node has a panel of rows of A, all of B, and makes a panel of rows of C:
//!
//! 1. The inputs are *distributed*: the client sends each node its panel of A and a panel of B, and
//!    the nodes send each other their panels of B. So each byte leaves the client once.
//! 2. They *multiply*, again and again, with the inputs where they are. That is what is compared.
//! 3. The panels of C are *collected* here.
//!
//! The first and the last are timed apart, beside TLS and TCP alone with as many bytes as leave the
//! client or come here.

use super::Doing;
use super::cluster::{Cluster, Set, chosen, devices};
use crate::benchmarks::devices::{near, numbers};
use crate::error::BenchError;
use crate::harness::{Contender, Gate, Machine, Plan, Report, Row, Session, counted};
use crate::kernels;
use crate::reference::network::{Pair, Way};
use quipu::{Buffer, Context, Device, DeviceKind, Queue};
use std::sync::Arc;
use std::time::Instant;

/// The least part of what as many devices could be: of GPUs, times one node.
const PART: f64 = 0.9;
/// Bytes that say what is to be done, and that it is.
const WORDS: usize = 96;
/// The number of bytes that TLS or TCP alone sends at once.
const PIECE: usize = 64 << 20;
/// Bits in a second on each cable of the network that is made.
const RATE: u64 = 1_000_000_000;

/// The benchmark `distributed-matmul`.
pub(in crate::benchmarks) fn distributed_matmul(
    session: &Session<'_>,
    report: &mut Report,
) -> Result<(), BenchError> {
    let sets = chosen(session)?;
    let mut cases = Vec::new();
    for set in &sets {
        let loopback = || Way::Loopback;
        let ways: Vec<Way> = std::iter::repeat_with(loopback)
            .take(set.offers.len())
            .collect();
        cases.push((set, ways, "on loopback".to_owned()));
        // GPUs are here for what they compute; a slow network between them only takes time.
        #[cfg(target_os = "linux")]
        if !set.is_wide()? {
            match Way::switched(set.offers.len(), RATE) {
                Ok(ways) => cases.push((
                    set,
                    ways,
                    format!("at a switch of {} Gbit/s", RATE / 1_000_000_000),
                )),
                Err(error) => report.notes.push(format!(
                    "NOT MEASURED: nodes in network namespaces. {error}"
                )),
            }
        }
    }
    let plan = session.begin(3 * cases.len());
    for (set, ways, network) in &cases {
        one(session, report, &plan, set, ways, network)?;
    }
    Ok(())
}

/// The matrices, in panels of rows, each for one of several.
struct Inputs {
    n: usize,
    left: Vec<Arc<Vec<f32>>>,
    right: Vec<Arc<Vec<f32>>>,
}

impl Inputs {
    fn new(n: usize, panels: usize) -> Self {
        let split = |all: &[f32]| -> Vec<Arc<Vec<f32>>> {
            let panel = |number| Arc::new(all[rows(n, panels, number)].to_vec());
            (0..panels).map(panel).collect()
        };
        Self {
            n,
            left: split(&numbers(1, n * n)),
            right: split(&numbers(2, n * n)),
        }
    }

    /// An element of the product.
    fn element(&self, row: usize, column: usize) -> f64 {
        let of = |panels: &[Arc<Vec<f32>>], row: usize, column: usize| {
            let mut at = row * self.n + column;
            for panel in panels {
                match panel.get(at) {
                    Some(number) => return f64::from(*number),
                    None => at -= panel.len(),
                }
            }
            f64::NAN
        };
        let terms = (0..self.n).map(|k| of(&self.left, row, k) * of(&self.right, k, column));
        terms.sum()
    }

    fn bytes(&self) -> usize {
        self.n * self.n * size_of::<f32>()
    }
}

/// The elements of one of so many panels of rows.
fn rows(n: usize, panels: usize, number: usize) -> std::ops::Range<usize> {
    n * (number * n / panels)..n * ((number + 1) * n / panels)
}

/// Devices that make a product together.
struct Site {
    n: usize,
    b: Buffer<f32>,
    panels: Vec<Panel>,
}

/// The part of one device.
struct Panel {
    queue: Queue,
    a: Buffer<f32>,
    /// Its own panel of B, which others need as well.
    b: Buffer<f32>,
    c: Buffer<f32>,
    seen: Buffer<f32>,
    collected: Vec<f32>,
}

impl Site {
    fn new(n: usize, devices: &[Device]) -> Result<Self, BenchError> {
        let context = Context::new(devices).doing("making a context")?;
        let matrix = || context.allocate::<f32>(n * n).doing("making a buffer");
        let (a, b, c) = (matrix()?, matrix()?, matrix()?);
        let panel = |(number, device): (usize, &Device)| {
            let part = rows(n, devices.len(), number);
            let of = |buffer: &Buffer<f32>| buffer.slice(part.clone());
            Ok(Panel {
                queue: context.queue(device)?,
                a: of(&a)?,
                b: of(&b)?,
                c: of(&c)?,
                seen: context.allocate(1)?,
                collected: vec![0.0; part.len()],
            })
        };
        let panels = devices.iter().enumerate().map(panel);
        let panels: quipu::Result<Vec<Panel>> = panels.collect();
        Ok(Self {
            n,
            b,
            panels: panels.doing("making buffers")?,
        })
    }

    /// Brings the inputs to where they are needed; seconds.
    fn distribute(&mut self, inputs: &Inputs) -> Result<f64, BenchError> {
        let started = Instant::now();
        let mut distribute = || -> quipu::Result<()> {
            let mut written = Vec::new();
            // As many panels as there are inputs: one device has all of them.
            let shares = inputs.left.len() / self.panels.len();
            for (number, panel) in self.panels.iter_mut().enumerate() {
                let (mut at, own) = (0, number * shares..(number + 1) * shares);
                for (left, right) in inputs.left[own.clone()].iter().zip(&inputs.right[own]) {
                    let part = at..at + left.len();
                    at = part.end;
                    let (a, b) = (panel.a.slice(part.clone())?, panel.b.slice(part)?);
                    written.push(panel.queue.write(&a, Arc::clone(left))?);
                    written.push(panel.queue.write(&b, Arc::clone(right))?);
                }
            }
            // A kernel that may read all of B has all of it brought.
            for panel in &mut self.panels {
                let peek = kernels::peek(&self.b, panel.seen.overwrite());
                panel.queue.launch(1, peek)?;
            }
            written
                .into_iter()
                .try_for_each(|write| write.wait().map(drop))?;
            self.wait()
        };
        distribute().doing("distributing the inputs")?;
        Ok(started.elapsed().as_secs_f64())
    }

    /// Makes the product; seconds.
    fn multiply(&mut self) -> Result<f64, BenchError> {
        let started = Instant::now();
        let n = self.n;
        for Panel { queue, a, c, .. } in &mut self.panels {
            let sides = [a.len() / n, n, n];
            let product = quipu_algorithms::matrix_product(queue, sides, a, &self.b, c);
            product.doing("enqueueing a product")?;
        }
        self.wait().doing("waiting for a product")?;
        Ok(started.elapsed().as_secs_f64())
    }

    fn wait(&self) -> quipu::Result<()> {
        let mut panels = self.panels.iter();
        panels.try_for_each(|panel| panel.queue.wait())
    }

    /// Leaves nothing of a product.
    fn forget(&mut self) -> Result<(), BenchError> {
        for panel in &mut self.panels {
            panel
                .queue
                .fill(&panel.c, f32::NAN)
                .doing("filling a buffer")?;
            panel.collected.fill(f32::NAN);
        }
        self.wait().doing("filling a buffer")
    }

    /// Brings the product here; seconds.
    fn collect(&mut self) -> Result<f64, BenchError> {
        let started = Instant::now();
        let mut collect = || -> quipu::Result<()> {
            let mut reads = Vec::new();
            for panel in &mut self.panels {
                let to = std::mem::take(&mut panel.collected);
                reads.push(panel.queue.read_to(&panel.c, to)?);
            }
            for (panel, read) in self.panels.iter_mut().zip(reads) {
                panel.collected = read.wait()?;
            }
            Ok(())
        };
        collect().doing("collecting a product")?;
        Ok(started.elapsed().as_secs_f64())
    }

    /// The collected matrix, row after row.
    fn product(&self) -> impl Iterator<Item = f32> {
        self.panels
            .iter()
            .flat_map(|panel| panel.collected.iter().copied())
    }
}

/// As many bytes there or back, in pieces; seconds.
fn exchange(pair: &mut Pair, bytes: usize, is_read: bool) -> Result<f64, BenchError> {
    let started = Instant::now();
    let mut left = bytes;
    while left > 0 {
        let piece = left.min(PIECE);
        let (out, back) = if is_read {
            (WORDS, piece)
        } else {
            (piece, WORDS)
        };
        pair.exchange(out, back)?;
        left -= piece;
    }
    Ok(started.elapsed().as_secs_f64())
}

fn one(
    session: &Session<'_>,
    report: &mut Report,
    plan: &Plan,
    set: &Set,
    ways: &[Way],
    network: &str,
) -> Result<(), BenchError> {
    let count = set.offers.len();
    let cluster = Cluster::new(session, &set.offers, ways)?;
    let remote = cluster.together(&ways[0])?;
    let is_wide = remote.iter().all(|device| device.kind() == DeviceKind::Gpu);
    let n = match is_wide {
        true => session.scale().choose(16384, 8192, 64),
        false => session.scale().choose(3072, 1536, 50),
    };
    let inputs = Inputs::new(n, count);
    let here = devices(&set.offers)?;
    let mut nodes = Site::new(n, &remote)?;
    let mut node = Site::new(n, &remote[..1])?;
    let mut local = Site::new(n, &here)?;
    let mut alone = Site::new(n, &here[..1])?;
    for site in [&mut nodes, &mut node, &mut local, &mut alone] {
        site.forget()?;
        site.distribute(&inputs)?;
        // Compiles the kernels.
        site.multiply()?;
    }
    let nodes_are = counted(count, "node");
    let case = format!("{n} x {n} f32, {nodes_are} {network}");
    let row = |name: &str, unit: &str, samples: &[f64]| {
        Row::new(name, &set.name, set.workers, unit, samples)
    };

    let operations = 2.0 * (n as f64).powi(3) / 1e9;
    let rate = |seconds: f64| operations / seconds.max(1e-12);
    let without = format!("{} without nodes", counted(count, "device"));
    let mut contenders = vec![
        Contender::new(nodes_are.as_str(), || nodes.multiply().map(rate)),
        Contender::new("1 node", || node.multiply().map(rate)),
        Contender::new(without.as_str(), || local.multiply().map(rate)),
        Contender::new("1 device without nodes", || alone.multiply().map(rate)),
    ];
    let samples = session.measure(plan, &mut contenders)?;
    drop(contenders);
    let mut ratios = Vec::new();
    for (name, ours, other) in [
        (&case, 0, 1),
        (&case, 0, 2),
        (&format!("{n} x {n} f32, {without}"), 2, 3),
    ] {
        let pairs = (samples.of(ours), samples.of(other));
        let row = row(name, "GFLOP/s", pairs.0).beside(samples.name(other), pairs);
        ratios.push(row.ratio.unwrap_or(f64::NAN));
        session.add(report, row);
    }
    let gate = match is_wide && count > 1 {
        true => {
            let what = format!("{case}, times one node");
            Gate::at_least(what, ratios[0], PART * count as f64, "x")
        }
        false => {
            let what = format!("{case}, against the same devices without nodes");
            Gate::at_least(what, ratios[1], PART, "x")
        }
    };
    report.gates.push(gate);
    let cores = Machine::describe().cores.unwrap_or(1);
    if set.workers * count > cores {
        report.notes.push(format!(
            "{case}: this machine has {}, so {nodes_are} of {} cannot be {count} times one; the same devices without nodes are \
             {:.2} times one of them",
            counted(cores, "core"),
            counted(set.workers, "worker"),
            ratios[2],
        ));
    }

    for site in [&mut nodes, &mut node, &mut local, &mut alone] {
        site.collect()?;
    }
    verify(
        session,
        &case,
        &inputs,
        &nodes,
        [
            (&node, "one node"),
            (&local, "devices without nodes"),
            (&alone, "one device"),
        ],
    )?;

    // The other sites would only be in the way.
    drop((node, local, alone));
    let mut pairs = Pair::both(&ways[0])?;
    let ms = |seconds: f64| seconds * 1e3;
    let mib = |bytes: usize| format!("{:.1} MiB", bytes as f64 / f64::from(1 << 20));
    let (sent, back) = (2 * inputs.bytes(), inputs.bytes());
    for (what, bytes, is_read) in [("distributing", sent, false), ("collecting", back, true)] {
        if is_read {
            // The matrices that were distributed last are multiplied now.
            nodes.forget()?;
            nodes.multiply()?;
        }
        let mut contenders = vec![Contender::new("quipu", || {
            let took = match is_read {
                false => nodes.distribute(&inputs),
                true => nodes.collect(),
            };
            took.map(ms)
        })];
        for (name, pair) in &mut pairs {
            let exchange = || exchange(pair, bytes, is_read).map(ms);
            contenders.push(Contender::new(*name, exchange));
        }
        let samples = session.measure(plan, &mut contenders)?;
        drop(contenders);
        let name = format!("{case}: {what} {}", mib(bytes));
        for other in 1..samples.contenders() {
            let pairs = (samples.of(0), samples.of(other));
            let row = row(&name, "ms", pairs.0).beside(samples.name(other), pairs);
            session.add(report, row);
        }
    }
    report.notes.push(format!(
        "{case}: {} leave the client, {} go from node to node, {} come back",
        mib(sent),
        mib((count - 1) * inputs.bytes()),
        mib(back),
    ));
    verify(session, &case, &inputs, &nodes, [])
}

/// Samples all over the product against sums of twice the precision, and all of it against others',
/// bit for bit: how an element is summed does not depend on who has it.
fn verify<const N: usize>(
    session: &Session<'_>,
    case: &str,
    inputs: &Inputs,
    nodes: &Site,
    others: [(&Site, &str); N],
) -> Result<(), BenchError> {
    let n = inputs.n;
    let samples = session.scale().choose(16, 16, 64);
    let product: Vec<f32> = nodes.product().collect();
    for k in 0..samples * nodes.panels.len() {
        let (row, column) = (k * 37 * n / 64 % n, k * 61 % n);
        let expected = inputs.element(row, column);
        let found = f64::from(product[row * n + column]);
        if !near(expected, found, 1e-4) {
            let what = format!("element {row}, {column}");
            return Err(session.wrong(case, what, expected, found));
        }
    }
    for (other, name) in others {
        let differs = other.product().zip(&product);
        let mut differs = differs
            .enumerate()
            .filter(|(_, (theirs, ours))| theirs.to_bits() != ours.to_bits());
        if let Some((at, (theirs, ours))) = differs.next() {
            let what = format!("element {}, {} beside that of {name}", at / n, at % n);
            return Err(session.wrong(case, what, theirs, ours));
        }
    }
    Ok(())
}
