//! `device-peers`: two GPUs of CUDA's: the time of a copy between them, and a graph over both
//! against one.

use super::side::{mean, rows};
use super::{Doing, Need, Target, near, numbers, targets};
use crate::error::BenchError;
use crate::harness::{Contender, Gate, Plan, Report, Row, Session};
use crate::kernels;
use crate::reference::raw::{self, Cuda, Memory, Raw, RawResult, Waiting};
use quipu::{Buffer, Context, Pending, Queue};
use std::cell::RefCell;
use std::time::Instant;

/// The least share of `cuMemcpyPeerAsync`'s rate.
const SHARE: f64 = 0.9;
/// The smallest ratio of two to one.
const FASTER: f64 = 1.9;

/// The benchmark `device-peers`.
pub(in crate::benchmarks) fn run(
    session: &Session<'_>,
    report: &mut Report,
) -> Result<(), BenchError> {
    let targets = targets(session, report, Need::Cuda)?;
    let [first, second, ..] = &targets[..] else {
        let count = targets.len();
        let note = format!("NOT MEASURED: it takes two devices of CUDA, and there are {count}");
        report.notes.push(note);
        return Ok(());
    };
    let devices = [first.device().clone(), second.device().clone()];
    let context = Context::new(&devices).doing("making a context")?;
    let queue = |target: &Target| context.queue(target.device()).doing("making a queue");
    let queues = [queue(first)?, queue(second)?];
    let plan = session.begin(2);
    copy(session, report, &plan, [first, second], &context, &queues)?;
    graph(session, report, &plan, first, &context, &queues)
}

/// Two devices' own interfaces, and memory of each.
struct ByHand {
    from: Cuda,
    to: Cuda,
    memory: [Memory; 2],
    bytes: usize,
}

impl ByHand {
    fn new([from, to]: [&Queue; 2], bytes: usize) -> RawResult<Self> {
        let (mut from, mut to) = (raw::open_cuda(from)?, raw::open_cuda(to)?);
        let memory = [from.memory(bytes)?, to.memory(bytes)?];
        to.reach(&from)?;
        from.reach(&to)?;
        Ok(ByHand {
            from,
            to,
            memory,
            bytes,
        })
    }

    fn copy(&mut self) -> Result<(), BenchError> {
        self.from.enter()?;
        self.from
            .copy_to(self.memory[0], &self.to, self.memory[1], self.bytes)?;
        Ok(self.from.wait(Waiting::Synchronise)?)
    }
}

/// Bytes that one device has written, needed by a kernel on the other.
fn copy(
    session: &Session<'_>,
    report: &mut Report,
    plan: &Plan,
    targets: [&Target; 2],
    context: &Context,
    [first, second]: &[Queue; 2],
) -> Result<(), BenchError> {
    let bytes: usize = session.scale().choose(256 << 20, 64 << 20, 1 << 20);
    let mut by_hand = targets[0].or_note(ByHand::new([first, second], bytes), report);
    let x = context
        .allocate::<u32>(bytes / 4)
        .doing("making a buffer")?;
    let y = context.allocate::<u32>(1).doing("making a buffer")?;
    let y = RefCell::new(y);
    let mut value = 0_u32;
    let mut hop = || -> Result<f64, BenchError> {
        value += 1;
        let filled = first.fill(&x, value).and_then(|event| event.wait());
        filled.doing("filling a buffer")?;
        let y = &mut *y.borrow_mut();
        let started = Instant::now();
        let peek = second.launch(1, kernels::peek(&x, y.overwrite()));
        peek.and_then(|event| event.wait())
            .doing("bringing bytes to the other device")?;
        let seconds = started.elapsed().as_secs_f64();
        let found = second
            .read(y)
            .and_then(Pending::wait)
            .doing("reading a buffer")?[0];
        session.verify("peer copy", "the number on the other device", value, found)?;
        Ok(bytes as f64 / seconds / 1e9)
    };
    hop()?;
    let mut contenders = vec![Contender::new("quipu", hop)];
    if let Some(by_hand) = &mut by_hand {
        by_hand.copy()?;
        contenders.push(Contender::new("cuMemcpyPeerAsync", || {
            mean(1, || by_hand.copy()).map(|microseconds| bytes as f64 / microseconds / 1e3)
        }));
    }
    let case = format!(
        "{} MiB from {} to {}",
        bytes >> 20,
        targets[0].id(),
        targets[1].id()
    );
    let samples = rows(
        session,
        report,
        plan,
        targets[1],
        (&case, "GB/s"),
        contenders,
    )?;
    if samples.contenders() > 1 {
        let ratio = report
            .rows
            .last()
            .and_then(|row| row.ratio)
            .unwrap_or(f64::NAN);
        report.gates.push(Gate::at_least(case, ratio, SHARE, "x"));
    }
    Ok(())
}

/// The rows of a product that one command makes, and where.
struct Band {
    a: Buffer<f32>,
    /// By the only device, and by one of two.
    c: [RefCell<Buffer<f32>>; 2],
    owner: usize,
}

/// A matrix product in bands of rows, over one device and over both.
fn graph(
    session: &Session<'_>,
    report: &mut Report,
    plan: &Plan,
    target: &Target,
    context: &Context,
    queues: &[Queue; 2],
) -> Result<(), BenchError> {
    let n: usize = session.scale().choose(8192, 4096, 256);
    const BANDS: usize = 16;
    let height = n / BANDS;
    let (left, right) = (numbers(1, n * n), numbers(2, n * n));
    let b = context.buffer(&right).doing("making a buffer")?;
    let mut bands = Vec::new();
    for (number, rows) in left.chunks(height * n).enumerate() {
        let c = || context.allocate::<f32>(height * n).map(RefCell::new);
        bands.push(Band {
            a: context.buffer(rows).doing("making a buffer")?,
            c: [c().doing("making a buffer")?, c().doing("making a buffer")?],
            owner: number % 2,
        });
    }
    // All bands on the first device, or each where its owner is.
    let run = |devices: usize| -> Result<f64, BenchError> {
        let started = Instant::now();
        for band in &bands {
            let queue = &queues[if devices == 2 { band.owner } else { 0 }];
            let c = &mut *band.c[devices - 1].borrow_mut();
            let product = quipu_algorithms::matrix_product(queue, [height, n, n], &band.a, &b, c);
            product.doing("enqueueing a product")?;
        }
        for queue in queues {
            queue.wait().doing("waiting for a queue")?;
        }
        Ok(started.elapsed().as_secs_f64() * 1e3)
    };
    // Inputs are brought to where they are needed: apart from the graph, for programs do so once.
    let mut y = context.allocate::<f32>(1).doing("making a buffer")?;
    let started = Instant::now();
    let touch = |y: &mut Buffer<f32>| -> quipu::Result<()> {
        for band in &bands {
            for device in [0, band.owner] {
                queues[device]
                    .launch(1, kernels::peek(&band.a, y.overwrite()))?
                    .wait()?;
            }
        }
        for queue in queues {
            queue.launch(1, kernels::peek(&b, y.overwrite()))?.wait()?;
        }
        Ok(())
    };
    touch(&mut y).doing("distributing the inputs")?;
    let distributed = started.elapsed().as_secs_f64() * 1e3;
    run(1)?;
    run(2)?;

    let case = format!("graph of {BANDS} products of {height} x {n} x {n} over two devices");
    let contenders = vec![
        Contender::new("two", || run(2)),
        Contender::new("one of them", || run(1)),
    ];
    rows(session, report, plan, target, (&case, "ms"), contenders)?;
    let ratio = report
        .rows
        .last()
        .and_then(|row| row.ratio)
        .unwrap_or(f64::NAN);
    report
        .gates
        .push(Gate::at_least(case.clone(), 1.0 / ratio, FASTER, "x"));
    let distribution = format!("distribution of {} MiB", (2 * n * n * 4) >> 20);
    let row = Row::new(
        distribution,
        target.id(),
        target.workers(),
        "ms",
        &[distributed],
    );
    session.add(report, row);

    for devices in 0..2 {
        for number in [0, 1, BANDS - 1] {
            let c = queues[0].read(&bands[number].c[devices].borrow());
            let c = c.and_then(Pending::wait).doing("reading a buffer")?;
            for k in 0..16 {
                let (row, column) = (k * 37 % height, k * 61 % n);
                let a = &left[(number * height + row) * n..][..n];
                let terms = a.iter().enumerate();
                let expected: f64 = terms
                    .map(|(k, &a)| f64::from(a) * f64::from(right[k * n + column]))
                    .sum();
                let found = f64::from(c[row * n + column]);
                if !near(expected, found, 1e-4) {
                    let what = format!("element {row}, {column} of band {number}");
                    return Err(session.wrong(&case, what, expected, found));
                }
            }
        }
    }
    Ok(())
}
