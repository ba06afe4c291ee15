//! `device-overlap`: commands that have nothing to do with each other, side by side.
//!
//! 1. Copies both ways while a kernel runs: bytes to the device, other bytes from it, and a kernel
//!    that takes about as long, on three queues. Each alone, then all together, and all together by
//!    hand, on three queues of the device's own interface. The gates, on devices with engines of
//!    their own for copies: together takes as long as by hand, and half of what it takes one after
//!    the other, at most. (The longest of them alone would be too little: copies both ways share
//!    the bus, and the device's memory with the kernel.) `--trace file.json` leaves a trace of it.
//! 2. Kernels so small that a device has room for all of them, on one queue that keeps no order:
//!    together they take as long as one, which is the gate with CUDA. Beside them the same kernels,
//!    each launched when the one before was waited for.

use super::side::rows;
use super::{Doing, Need, Target, targets};
use crate::error::BenchError;
use crate::harness::{Contender, Gate, Plan, Report, Session, pairwise_ratio};
use crate::kernels;
use crate::reference::raw::{
    Argument, Grid, Launch, Memory, Raw, RawResult, Waiting, Way, download, upload,
};
use quipu::{Buffer, Completion, Pending, Pinned, Queue, QueueOptions, WorkDivision};
use std::cell::{Cell, RefCell};
use std::ops::Range;
use std::time::Instant;

/// The largest ratio of all together to the same by hand.
const BY_HAND: f64 = 1.05;
/// The largest share of the time one after the other, where three equally long ones overlap.
const OVERLAP: f64 = 0.5;
/// The largest ratio of small kernels together to one of them.
const TOGETHER: f64 = 1.15;
/// The number of kernels that run side by side.
const KERNELS: usize = 8;
/// Threads of each: a block.
const THREADS: usize = 256;

/// The data that goes up, and the data that comes down.
const UP: u8 = 1;
const DOWN: u8 = 2;

/// The benchmark `device-overlap`.
pub(in crate::benchmarks) fn run(
    session: &Session<'_>,
    report: &mut Report,
) -> Result<(), BenchError> {
    let targets = targets(session, report, Need::OwnInterface)?;
    let plan = session.begin(2 * targets.len());
    for target in &targets {
        copies(session, report, &plan, target)?;
        kernels(session, report, &plan, target)?;
    }
    Ok(())
}

/// The work that runs side by side.
struct Three {
    queues: [Queue; 3],
    up: Buffer<u8>,
    down: Buffer<u8>,
    worked: RefCell<Buffer<f32>>,
    times: Cell<u32>,
    to_device: RefCell<Option<Pinned<u8>>>,
    from_device: RefCell<Option<Pinned<u8>>>,
}

/// The parts of them that are run.
#[derive(Clone, Copy)]
struct Which {
    up: bool,
    down: bool,
    kernel: bool,
}

impl Three {
    fn new(target: &Target, bytes: usize, threads: usize) -> Result<Self, BenchError> {
        let queue = || target.queue(Completion::Callback);
        let context = target.context();
        let pinned = |value: u8| {
            let mut pinned = Pinned::<u8>::new(bytes)?;
            pinned.fill(value);
            Ok(RefCell::new(Some(pinned)))
        };
        let three = Three {
            queues: [queue()?, queue()?, queue()?],
            up: context.allocate(bytes).doing("making a buffer")?,
            down: context.allocate(bytes).doing("making a buffer")?,
            worked: RefCell::new(context.allocate(threads).doing("making a buffer")?),
            times: Cell::new(1000),
            to_device: pinned(UP).doing("pinning memory")?,
            from_device: pinned(0).doing("pinning memory")?,
        };
        let fill = three.queues[1].fill(&three.down, DOWN);
        fill.and_then(|event| event.wait())
            .doing("filling a buffer")?;
        Ok(three)
    }

    /// Milliseconds from the first enqueue to the last end.
    fn run(&self, which: Which) -> Result<f64, BenchError> {
        let given = |bytes: &RefCell<Option<Pinned<u8>>>| bytes.borrow_mut().take();
        let (to_device, from_device) = (given(&self.to_device), given(&self.from_device));
        let [first, second, third] = &self.queues;
        let started = Instant::now();
        let mut up: Option<Pending<Pinned<u8>>> = None;
        let mut down: Option<Pending<Pinned<u8>>> = None;
        match to_device {
            Some(bytes) if which.up => {
                up = Some(first.write(&self.up, bytes).doing("writing a buffer")?);
            }
            kept => *self.to_device.borrow_mut() = kept,
        }
        match from_device {
            Some(bytes) if which.down => {
                down = Some(
                    second
                        .read_to(&self.down, bytes)
                        .doing("reading a buffer")?,
                );
            }
            kept => *self.from_device.borrow_mut() = kept,
        }
        if which.kernel {
            let worked = &mut *self.worked.borrow_mut();
            let length = worked.len();
            let converge = kernels::converge(self.times.get(), worked.overwrite());
            third
                .post_launch(length, converge)
                .doing("enqueueing a command")?;
        }
        if let Some(up) = up {
            *self.to_device.borrow_mut() = Some(up.wait().doing("writing a buffer")?);
        }
        if let Some(down) = down {
            *self.from_device.borrow_mut() = Some(down.wait().doing("reading a buffer")?);
        }
        third.wait().doing("waiting for a queue")?;
        Ok(started.elapsed().as_secs_f64() * 1e3)
    }
}

/// The same, each on a queue of the device's own interface.
struct ByHand {
    up: Box<dyn Raw>,
    down: Box<dyn Raw>,
    kernel: Box<dyn Raw>,
    to: Memory,
    from: Memory,
    worked: Memory,
    launch: Launch,
}

impl ByHand {
    fn new(target: &Target, bytes: usize, threads: usize, times: u32) -> RawResult<Self> {
        let (mut up, mut down, mut kernel) = (target.raw()?, target.raw()?, target.raw()?);
        up.pin(bytes, UP)?;
        down.pin(bytes, 0)?;
        let (to, from) = (up.memory(bytes)?, upload(&mut *down, &vec![DOWN; bytes])?);
        let worked = kernel.memory(threads * size_of::<f32>())?;
        let arguments = [
            Argument::U32(times),
            Argument::Memory(worked),
            Argument::U32(threads as u32),
        ];
        let grid = Grid::line(threads.div_ceil(THREADS), THREADS);
        let launch = kernel.prepare("converge", grid, &arguments)?;
        Ok(Self {
            up,
            down,
            kernel,
            to,
            from,
            worked,
            launch,
        })
    }

    /// Milliseconds from the first enqueue to the last end.
    fn run(&mut self) -> RawResult<f64> {
        let started = Instant::now();
        self.up.start_pinned(self.to, Way::Up)?;
        self.down.start_pinned(self.from, Way::Down)?;
        self.kernel.enqueue(self.launch)?;
        for raw in [&mut self.kernel, &mut self.up, &mut self.down] {
            raw.wait(Waiting::Synchronise)?;
        }
        Ok(started.elapsed().as_secs_f64() * 1e3)
    }

    /// True if all is where it should be.
    fn is_right(&mut self, bytes: usize, threads: usize) -> RawResult<bool> {
        let went_up: Vec<u8> = download(&mut *self.up, self.to, bytes)?;
        let worked: Vec<f32> = download(&mut *self.kernel, self.worked, threads)?;
        Ok(went_up.iter().all(|&byte| byte == UP)
            && self.down.pinned().iter().all(|&byte| byte == DOWN)
            && has_settled(&worked))
    }
}

/// True if a kernel's numbers have come to 2.
fn has_settled(numbers: &[f32]) -> bool {
    numbers.iter().all(|&number| (number - 2.0).abs() < 1e-3)
}

/// Copies both ways, and a kernel.
fn copies(
    session: &Session<'_>,
    report: &mut Report,
    plan: &Plan,
    target: &Target,
) -> Result<(), BenchError> {
    let bytes = session.scale().choose(256 << 20, 64 << 20, 4 << 10);
    let threads = 256 * 8 * target.workers();
    let three = Three::new(target, bytes, threads)?;
    let alone = |up, down, kernel| Which { up, down, kernel };
    let [up, down, kernel, all] = [
        alone(true, false, false),
        alone(false, true, false),
        alone(false, false, true),
        alone(true, true, true),
    ];
    three.run(all)?;
    // A kernel that takes as long as a copy: nearly at first, for a launch takes its time as well.
    for _ in 0..3 {
        let (copy, work) = (three.run(up)?, three.run(kernel)?);
        let times = f64::from(three.times.get()) * copy / work.max(1e-6);
        three.times.set(times.clamp(100.0, 1e8) as u32);
    }

    let by_hand = ByHand::new(target, bytes, threads, three.times.get());
    let by_hand = target.or_note(by_hand, report).map(RefCell::new);
    let last = Cell::new([0.0_f64; 3]);
    let mut contenders = vec![Contender::new("together", || three.run(all))];
    contenders.push(Contender::new("one after the other", || {
        let each = [three.run(up)?, three.run(down)?, three.run(kernel)?];
        last.set(each);
        Ok(each.iter().sum())
    }));
    contenders.push(Contender::new("the longest alone", || {
        let each = [three.run(up)?, three.run(down)?, three.run(kernel)?];
        Ok(each.into_iter().fold(0.0, f64::max))
    }));
    if let Some(by_hand) = &by_hand {
        let name = format!("{}, together", by_hand.borrow().up.language().interface());
        contenders.push(Contender::new(name, || Ok(by_hand.borrow_mut().run()?)));
    }
    let case = format!("{} MiB up, {0} MiB down and a kernel together", bytes >> 20);
    let unit = (&*case, "ms");
    let samples = rows(session, report, plan, target, unit, contenders)?;
    if target.is_wide() {
        let mut gate = |other: usize, most: f64| {
            let ratio = pairwise_ratio(samples.of(0), samples.of(other)).unwrap_or(f64::NAN);
            let what = format!("{case}, {}, of {}", target.id(), samples.name(other));
            report.gates.push(Gate::at_most(what, ratio, most, "x"));
        };
        gate(1, OVERLAP);
        if by_hand.is_some() {
            gate(3, BY_HAND);
        }
    }
    if let Some(by_hand) = &by_hand {
        let right = by_hand.borrow_mut().is_right(bytes, threads)?;
        session.verify(&case, "what was done by hand", true, right)?;
    }
    let [up, down, kernel] = last.get();
    report.notes.push(format!(
        "{}: alone up {up:.2} ms, down {down:.2} ms, kernel {kernel:.2} ms",
        target.id()
    ));

    let right = |bytes: &RefCell<Option<Pinned<u8>>>, value: u8| {
        let bytes = bytes.borrow();
        bytes
            .as_ref()
            .is_some_and(|bytes| bytes.iter().all(|&byte| byte == value))
    };
    let back = three.queues[0].read(&three.up).and_then(Pending::wait);
    let back = back.doing("reading a buffer")?;
    let worked = three.queues[2].read(&three.worked.borrow());
    let worked = worked.and_then(Pending::wait).doing("reading a buffer")?;
    session.verify(
        &case,
        "what went up",
        true,
        back.iter().all(|&byte| byte == UP),
    )?;
    session.verify(
        &case,
        "what came down",
        true,
        right(&three.from_device, DOWN),
    )?;
    let settled = has_settled(&worked);
    session.verify(
        &case,
        "whether the kernel's numbers have come to 2",
        true,
        settled,
    )
}

/// Kernels of a block each.
fn kernels(
    session: &Session<'_>,
    report: &mut Report,
    plan: &Plan,
    target: &Target,
) -> Result<(), BenchError> {
    let queue = {
        let options = QueueOptions {
            in_order: false,
            completion: super::COMPARED,
            ..QueueOptions::default()
        };
        let queue = target.context().queue_with(target.device(), options);
        queue.doing("making a queue")?
    };
    let results = (0..KERNELS).map(|_| target.context().allocate::<f32>(THREADS));
    let results: quipu::Result<Vec<_>> = results.collect();
    let results = RefCell::new(results.doing("making a buffer")?);
    // Some milliseconds: how long launches take is not what is asked.
    let few = if target.is_wide() { 1 } else { 20 };
    let times = session.scale().choose(400_000, 100_000, 1000) / few;
    let run = |kernels: Range<usize>| {
        let started = Instant::now();
        for result in &mut results.borrow_mut()[kernels] {
            let converge = kernels::converge(times, result.overwrite());
            let division = WorkDivision::new(1, THREADS, 1);
            let launched = queue.post_launch(division, converge);
            launched.doing("enqueueing a command")?;
        }
        queue.wait().doing("waiting for a queue")?;
        Ok(started.elapsed().as_secs_f64() * 1e3)
    };
    run(0..KERNELS)?;
    let contenders = vec![
        Contender::new("together", || run(0..KERNELS)),
        Contender::new("one of them", || run(0..1)),
        // An in-order queue would run them together as well: they share no memory.
        Contender::new("each waited for", || {
            (0..KERNELS).map(|kernel| run(kernel..kernel + 1)).sum()
        }),
    ];
    let case = format!("{KERNELS} kernels of a block each");
    let unit = (&*case, "ms");
    let samples = rows(session, report, plan, target, unit, contenders)?;
    if target.device().driver_name() == "cuda" {
        let longer = pairwise_ratio(samples.of(0), samples.of(1)).unwrap_or(f64::NAN);
        let what = format!("{case}, {}, of one of them", target.id());
        let gate = Gate::at_most(what, longer, TOGETHER, "x");
        report.gates.push(gate);
    }
    for result in results.borrow().iter() {
        let result = queue.read(result).and_then(Pending::wait);
        let result = result.doing("reading a buffer")?;
        let settled = has_settled(&result);
        session.verify(
            &case,
            "whether the kernel's numbers have come to 2",
            true,
            settled,
        )?;
    }
    Ok(())
}
