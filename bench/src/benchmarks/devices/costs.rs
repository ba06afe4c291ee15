//! `device-costs`: what commands cost beside the device's own interface.
//!
//! Every command adds one to the same number, so all are a chain, and the number says how many ran.
//!
//! 1. *enqueue*: the time of the calls alone, of commands that run meanwhile.
//! 2. *launch and wait*, in callback and in polling mode, beside each way to wait that the interface has.
//! 3. *long launch and wait*: the same of a kernel that takes so long that who waits in callback mode sleeps, less what it
//!    takes more to launch another behind it: that is the kernel's own time, which need not be the same on both sides.
//! 4. *chain*: kernels that wait for each other, per kernel, from the release of a user event that has held them all
//!    back (for a while, or just as long as it took to enqueue them), or from the first enqueue, or recorded and
//!    launched as one; beside launches one by one and, of CUDA, the replay of a graph made by hand.

use super::matmul::MODES;
use super::side::{mean, rows, times};
use super::{Doing, Need, Target, targets};
use crate::error::BenchError;
use crate::harness::{Contender, Gate, Plan, Report, Samples, Session, median};
use crate::kernels;
use crate::reference::raw::{self, Argument, Cuda, Grid, Launch, Memory, Raw, RawResult, Waiting};
use crate::reference::raw::{download, upload};
use quipu::{Buffer, Completion, Event, Graph, Queue, UserEvent, WorkDivision};
use std::cell::{Cell, RefCell};
use std::time::{Duration, Instant};

/// How much more than the interface's a call may cost, in microseconds.
const ENQUEUE: f64 = 1.0;
/// How much longer a launch and its wait may take, in microseconds.
const WAIT: f64 = 2.0;
/// The same of a kernel that takes long: a few microseconds.
const LONG_WAIT: f64 = 5.0;
/// How long that is: beyond it nobody who waits in callback mode looks any more, but for a while.
const LONG: Duration = Duration::from_micros(2500);
/// How often its loop goes round at first, to see how long that takes.
const LOOPS: u32 = 100_000;
/// How many are launched behind each other, to see how long one takes by itself.
const BEHIND: u32 = 4;
/// Microseconds for each kernel of a chain that was known ahead.
const CHAIN: f64 = 1.3;

/// The benchmark `device-costs`.
pub(in crate::benchmarks) fn run(
    session: &Session<'_>,
    report: &mut Report,
) -> Result<(), BenchError> {
    let targets = targets(session, report, Need::OwnInterface)?;
    let plan = session.begin(14 * targets.len());
    for target in &targets {
        enqueue(session, report, &plan, target)?;
        for mode in MODES {
            wait(session, report, &plan, target, mode)?;
        }
        let loops = loops(session, target)?;
        for mode in MODES {
            long_wait(session, report, &plan, target, mode, loops)?;
        }
        chain(session, report, &plan, target)?;
    }
    Ok(())
}

/// A number that commands of ours count in.
struct Counter {
    queue: Queue,
    number: RefCell<Buffer<u32>>,
    count: Cell<u32>,
    /// How often a loop goes round before each: some thirty times or more.
    loops: Option<u32>,
}

impl Counter {
    fn new(
        target: &Target,
        completion: Completion,
        loops: Option<u32>,
    ) -> Result<Self, BenchError> {
        let number = target.context().allocate(1).doing("making a buffer")?;
        let counter = Counter {
            queue: target.queue(completion)?,
            number: RefCell::new(number),
            count: Cell::new(0),
            loops,
        };
        // Compiled, and its memory taken, before anything is timed.
        let first = counter.launch(&counter.queue)?;
        first.wait().doing("waiting for a command")?;
        Ok(counter)
    }

    /// With a future.
    fn launch(&self, queue: &Queue) -> Result<Event, BenchError> {
        self.count.set(self.count.get() + 1);
        let number = &mut *self.number.borrow_mut();
        let one = WorkDivision::new(1, 1, 1);
        let launch = match self.loops {
            None => queue.launch(one, kernels::add_one(number)),
            Some(loops) => queue.launch(one, kernels::add_one_slowly(loops, number)),
        };
        launch.doing("enqueueing a command")
    }

    /// Without.
    fn post(&self) -> Result<(), BenchError> {
        self.count.set(self.count.get() + 1);
        let number = &mut *self.number.borrow_mut();
        let (queue, one) = (&self.queue, WorkDivision::new(1, 1, 1));
        let launch = match self.loops {
            None => queue.post_launch(one, kernels::add_one(number)),
            Some(loops) => queue.post_launch(one, kernels::add_one_slowly(loops, number)),
        };
        launch.doing("enqueueing a command")
    }

    /// So many, to be launched again and again as one. Launched once before anything is timed.
    fn record(&self, target: &Target, commands: usize) -> Result<Graph, BenchError> {
        let recording = target.context().record();
        let recorder = recording.on(&self.queue);
        for _ in 0..commands {
            let number = &mut *self.number.borrow_mut();
            let launch = recorder.launch(WorkDivision::new(1, 1, 1), kernels::add_one(number));
            launch.doing("recording a command")?;
        }
        let graph = recording.finish().doing("recording a graph")?;
        self.launch_all(&graph, commands)?;
        Ok(graph)
    }

    /// Launches a recorded graph of so many commands, and waits for it.
    fn launch_all(&self, graph: &Graph, commands: usize) -> Result<(), BenchError> {
        self.count.set(self.count.get() + commands as u32);
        let launched = self.queue.launch_graph(graph);
        let launched = launched.and_then(|event| event.wait());
        launched.doing("launching a graph")
    }

    fn wait(&self) -> Result<(), BenchError> {
        self.queue.wait().doing("waiting for a queue")
    }

    /// So many behind each other, and a wait for the last.
    fn launch_and_wait(&self, launches: u32) -> Result<(), BenchError> {
        for _ in 1..launches {
            self.post()?;
        }
        let last = self.launch(&self.queue)?;
        last.wait().doing("waiting for a command")
    }

    fn verify(&self, session: &Session<'_>, case: &str) -> Result<(), BenchError> {
        let found = self.queue.read(&self.number.borrow());
        let found = found.and_then(quipu::Pending::wait);
        let found = found.doing("reading a buffer")?[0];
        session.verify(
            case,
            "the number of commands that ran",
            self.count.get(),
            found,
        )
    }
}

/// The same by hand.
struct ByHand {
    raw: RefCell<Box<dyn Raw>>,
    launch: Launch,
    number: Memory,
    count: Cell<u32>,
}

impl ByHand {
    fn new(mut raw: Box<dyn Raw>, loops: Option<u32>) -> RawResult<Self> {
        let (launch, number) = prepare(&mut *raw, loops)?;
        Ok(ByHand {
            raw: RefCell::new(raw),
            launch,
            number,
            count: Cell::new(0),
        })
    }

    fn enqueue(&self) -> Result<(), BenchError> {
        self.count.set(self.count.get() + 1);
        Ok(self.raw.borrow_mut().enqueue(self.launch)?)
    }

    fn wait(&self, waiting: Waiting) -> Result<(), BenchError> {
        Ok(self.raw.borrow_mut().wait(waiting)?)
    }

    fn launch_and_wait(&self, launches: u32, waiting: Waiting) -> Result<(), BenchError> {
        for _ in 0..launches {
            self.enqueue()?;
        }
        self.wait(waiting)
    }

    /// The ways to wait that a mode of ours is compared with, and what they are called.
    fn ways(&self, mode: Completion, same: Waiting) -> Vec<(String, Waiting)> {
        let interface = self.raw.borrow().language().interface();
        let own = (mode == Completion::Polling).then_some(Waiting::Synchronise);
        let ways = [same].into_iter().chain(own);
        let named = |way: Waiting| (format!("{interface}, {}", way.name()), way);
        ways.map(named).collect()
    }

    fn verify(&self, session: &Session<'_>, case: &str) -> Result<(), BenchError> {
        let found = download::<u32>(&mut **self.raw.borrow_mut(), self.number, 1)?[0];
        let what = "the number of launches by hand that ran";
        session.verify(case, what, self.count.get(), found)
    }
}

fn prepare(raw: &mut dyn Raw, loops: Option<u32>) -> RawResult<(Launch, Memory)> {
    let number = upload(raw, &[0_u32])?;
    let one = Grid::line(1, 1);
    let counter = Argument::Memory(number);
    let launch = match loops {
        None => raw.prepare("add_one", one, &[counter])?,
        Some(loops) => raw.prepare("add_one_slowly", one, &[Argument::U32(loops), counter])?,
    };
    Ok((launch, number))
}

fn by_hand(target: &Target, report: &mut Report, loops: Option<u32>) -> Option<ByHand> {
    let by_hand = target.raw().and_then(|raw| ByHand::new(raw, loops));
    target.or_note(by_hand, report)
}

/// The calls alone.
fn enqueue(
    session: &Session<'_>,
    report: &mut Report,
    plan: &Plan,
    target: &Target,
) -> Result<(), BenchError> {
    // Fewer than streams take before a call waits for the device.
    let commands = session.scale().choose(500, 200, 3);
    let counter = Counter::new(target, Completion::Callback, None)?;
    let by_hand = by_hand(target, report, None);
    let mut events = Vec::with_capacity(commands);
    let mut one = |case: &str, with_future: bool| -> Result<(), BenchError> {
        let mut contenders = vec![Contender::new("quipu", || {
            let sample = match with_future {
                true => mean(commands, || {
                    events.push(counter.launch(&counter.queue)?);
                    Ok(())
                }),
                false => mean(commands, || counter.post()),
            };
            counter.wait()?;
            events.clear();
            sample
        })];
        if let Some(by_hand) = &by_hand {
            let name = by_hand.raw.borrow().language().interface();
            contenders.push(Contender::new(name, || {
                let sample = mean(commands, || by_hand.enqueue());
                by_hand.wait(Waiting::Synchronise)?;
                sample
            }));
        }
        let samples = rows(session, report, plan, target, (case, "µs"), contenders)?;
        if samples.contenders() > 1 {
            let more = median(samples.of(0)) - median(samples.of(1));
            let what = format!("{case}, {}, more than the interface's own", target.id());
            report.gates.push(Gate::at_most(what, more, ENQUEUE, "µs"));
        }
        Ok(())
    };
    one("enqueue, one-way", false)?;
    one("enqueue, with a future", true)?;
    counter.verify(session, "enqueue")?;
    by_hand.map_or(Ok(()), |by_hand| by_hand.verify(session, "enqueue"))
}

/// How often the loop of a kernel goes round that takes long.
fn loops(session: &Session<'_>, target: &Target) -> Result<u32, BenchError> {
    let counter = Counter::new(target, Completion::Polling, Some(LOOPS))?;
    let mut shortest = Duration::MAX;
    for _ in 0..3 {
        let started = Instant::now();
        counter.launch(&counter.queue)?;
        counter.wait()?;
        shortest = shortest.min(started.elapsed());
    }
    counter.verify(session, "long launch and wait")?;
    let long = session.scale().choose(LONG, LONG, Duration::ZERO);
    let times = long.as_secs_f64() / shortest.as_secs_f64().max(1e-9);
    Ok((times * f64::from(LOOPS)).clamp(100.0, 1e8) as u32)
}

/// A launch and its wait.
fn wait(
    session: &Session<'_>,
    report: &mut Report,
    plan: &Plan,
    target: &Target,
    (mode, completion, waiting): (&str, Completion, Waiting),
) -> Result<(), BenchError> {
    let case = format!("launch and wait, {mode}");
    let counter = Counter::new(target, completion, None)?;
    let by_hand = by_hand(target, report, None);
    let ours = || counter.launch_and_wait(1);
    let started = Instant::now();
    ours()?;
    let times = times(session, started.elapsed());
    let mut contenders = vec![Contender::new("quipu", || mean(times, ours))];
    if let Some(by_hand) = &by_hand {
        for (name, waiting) in by_hand.ways(completion, waiting) {
            let one = move || by_hand.launch_and_wait(1, waiting);
            contenders.push(Contender::new(name, move || mean(times, one)));
        }
    }
    let unit = (&*case, "µs");
    let samples = rows(session, report, plan, target, unit, contenders)?;
    no_longer(report, target, &case, &samples, WAIT);
    counter.verify(session, &case)?;
    by_hand.map_or(Ok(()), |by_hand| by_hand.verify(session, &case))
}

/// What a launch of a kernel and its wait take beyond the kernel's own time.
fn long_wait(
    session: &Session<'_>,
    report: &mut Report,
    plan: &Plan,
    target: &Target,
    (mode, completion, waiting): (&str, Completion, Waiting),
    loops: u32,
) -> Result<(), BenchError> {
    let case = format!("long launch and wait, beyond the kernel, {mode}");
    let counter = Counter::new(target, completion, Some(loops))?;
    let by_hand = by_hand(target, report, Some(loops));
    let times = session.scale().choose(21, 5, 1);
    let ours = |launches| counter.launch_and_wait(launches);
    let mut contenders = vec![Contender::new("quipu", || beyond_kernel(times, ours))];
    if let Some(by_hand) = &by_hand {
        for (name, waiting) in by_hand.ways(completion, waiting) {
            let some = move |launches| by_hand.launch_and_wait(launches, waiting);
            contenders.push(Contender::new(name, move || beyond_kernel(times, some)));
        }
    }
    let unit = (&*case, "µs");
    let samples = rows(session, report, plan, target, unit, contenders)?;
    no_longer(report, target, &case, &samples, LONG_WAIT);
    counter.verify(session, &case)?;
    by_hand.map_or(Ok(()), |by_hand| by_hand.verify(session, &case))
}

/// Microseconds of a launch and its wait, less what another launch behind it takes more: the median of so many pairs, for a
/// device's clock drifts.
fn beyond_kernel(
    times: usize,
    launch_and_wait: impl Fn(u32) -> Result<(), BenchError>,
) -> Result<f64, BenchError> {
    let of = |launches| mean(1, || launch_and_wait(launches));
    let pair = |_| {
        let (one, more) = (of(1)?, of(1 + BEHIND)?);
        Ok(one - (more - one) / f64::from(BEHIND))
    };
    let pairs: Result<Vec<f64>, BenchError> = (0..times).map(pair).collect();
    Ok(median(&pairs?))
}

/// How much longer ours, the first, may take than each of the others.
fn no_longer(report: &mut Report, target: &Target, case: &str, samples: &Samples, most: f64) {
    for other in 1..samples.contenders() {
        let more = median(samples.of(0)) - median(samples.of(other));
        let beside = samples.name(other);
        let what = format!("{case}, {}, longer than {beside}", target.id());
        report.gates.push(Gate::at_most(what, more, most, "µs"));
    }
}

/// Kernels that wait for each other.
fn chain(
    session: &Session<'_>,
    report: &mut Report,
    plan: &Plan,
    target: &Target,
) -> Result<(), BenchError> {
    let kernels = session.scale().choose(10_000, 2_000, 10);
    // How long a chain has been held back that was known ahead.
    let ahead = Duration::from_millis(session.scale().choose(500, 500, 0));
    let by_hand = by_hand(target, report, None);
    let replay = match target.device().driver_name() {
        "cuda" => {
            let queue = target.queue(Completion::Callback)?;
            target.or_note(Replay::new(&queue, kernels), report)
        }
        _ => None,
    };
    let each = |seconds: f64| Ok(seconds * 1e6 / kernels as f64);
    let references = || {
        let mut contenders = Vec::new();
        if let Some(by_hand) = &by_hand {
            let interface = by_hand.raw.borrow().language().interface();
            let name = format!("{interface}, one by one");
            contenders.push(Contender::new(name, move || {
                let started = Instant::now();
                for _ in 0..kernels {
                    by_hand.enqueue()?;
                }
                by_hand.wait(Waiting::Synchronise)?;
                each(started.elapsed().as_secs_f64())
            }));
        }
        if let Some(replay) = &replay {
            contenders.push(Contender::new("CUDA, a graph's replay", move || {
                let started = Instant::now();
                replay.run()?;
                each(started.elapsed().as_secs_f64())
            }));
        }
        contenders
    };
    for (mode, completion, _) in MODES {
        let counter = Counter::new(target, completion, None)?;
        for (held, how) in [
            (Some(ahead), "known ahead, from release"),
            (Some(Duration::ZERO), "from release at once"),
            (None, "from the first enqueue"),
        ] {
            let case = format!("chain of {kernels}, {how}, {mode}");
            let mut contenders = vec![Contender::new("quipu", || {
                each(run_chain(&counter, kernels, held)?)
            })];
            contenders.extend(references());
            let samples = rows(
                session,
                report,
                plan,
                target,
                (&case, "µs/kernel"),
                contenders,
            )?;
            if held == Some(ahead) && target.device().driver_name() == "cuda" {
                let what = format!("{case}, {}", target.id());
                let ours = median(samples.of(0));
                report
                    .gates
                    .push(Gate::at_most(what, ours, CHAIN, "µs/kernel"));
            }
        }
        let graph = counter.record(target, kernels)?;
        let case = format!("chain of {kernels}, recorded, {mode}");
        let mut contenders = vec![Contender::new("quipu", || {
            let started = Instant::now();
            counter.launch_all(&graph, kernels)?;
            each(started.elapsed().as_secs_f64())
        })];
        contenders.extend(references());
        let unit = (&*case, "µs/kernel");
        let samples = rows(session, report, plan, target, unit, contenders)?;
        if target.device().driver_name() == "cuda" {
            let what = format!("{case}, {}", target.id());
            let ours = median(samples.of(0));
            let gate = Gate::at_most(what, ours, CHAIN, "µs/kernel");
            report.gates.push(gate);
        }
        counter.verify(session, "chain")?;
    }
    if let Some(replay) = &replay {
        replay.verify(session)?;
    }
    by_hand.map_or(Ok(()), |by_hand| by_hand.verify(session, "chain"))
}

/// Runs a chain, held back for so long after it was enqueued, or not at all, and waits for all of it; gives the seconds from
/// the release, or from the first enqueue. Every command has its event, kept until all are over.
fn run_chain(counter: &Counter, kernels: usize, held: Option<Duration>) -> Result<f64, BenchError> {
    let gate = UserEvent::new();
    let mut events = Vec::with_capacity(kernels);
    let enqueued = Instant::now();
    // The queue is in order, and all write the same number: the first holds the others.
    let first = match held {
        Some(_) => counter.queue.after([gate.event()]),
        None => counter.queue.clone(),
    };
    events.push(counter.launch(&first)?);
    for _ in 1..kernels {
        events.push(counter.launch(&counter.queue)?);
    }
    if let Some(ahead) = held {
        counter.queue.flush();
        std::thread::sleep(ahead);
    }
    let released = Instant::now();
    gate.complete();
    counter.wait()?;
    let started = if held.is_some() { released } else { enqueued };
    let seconds = started.elapsed().as_secs_f64();
    for event in events {
        event.wait().doing("waiting for a command")?;
    }
    Ok(seconds)
}

/// A graph made by hand of CUDA's.
struct Replay {
    cuda: RefCell<Cuda>,
    graph: raw::Graph,
    number: Memory,
    kernels: usize,
    count: Cell<u32>,
}

impl Replay {
    fn new(queue: &Queue, kernels: usize) -> RawResult<Self> {
        let mut cuda = raw::open_cuda(queue)?;
        let (launch, number) = prepare(&mut cuda, None)?;
        let graph = cuda.graph(|cuda| (0..kernels).try_for_each(|_| cuda.enqueue(launch)))?;
        Ok(Replay {
            cuda: RefCell::new(cuda),
            graph,
            number,
            kernels,
            count: Cell::new(0),
        })
    }

    fn run(&self) -> Result<(), BenchError> {
        let cuda = &mut *self.cuda.borrow_mut();
        cuda.replay(&self.graph)?;
        cuda.wait(Waiting::Synchronise)?;
        self.count.set(self.count.get() + self.kernels as u32);
        Ok(())
    }

    fn verify(&self, session: &Session<'_>) -> Result<(), BenchError> {
        let found = download::<u32>(&mut *self.cuda.borrow_mut(), self.number, 1)?[0];
        let what = "the number of replayed launches that ran";
        session.verify("chain", what, self.count.get(), found)
    }
}
