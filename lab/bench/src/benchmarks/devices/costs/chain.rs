//! Kernels that wait for each other, from the release of the first, or from the first enqueue, or
//! recorded.

use super::super::matmul::MODES;
use super::super::side::rows;
use super::super::{Doing, Target};
use super::counter::{Counter, by_hand, prepare};
use crate::error::BenchError;
use crate::harness::{Contender, Gate, Plan, Report, Session, median};
use crate::reference::raw::{self, Cuda, Memory, Raw, RawResult, Waiting, download};
use quipu::{Completion, Queue, UserEvent};
use std::cell::{Cell, RefCell};
use std::time::{Duration, Instant};

/// Microseconds for each kernel of a chain that was known ahead.
const CHAIN: f64 = 1.3;

/// Kernels that wait for each other.
pub(super) fn chain(
    session: &Session<'_>,
    report: &mut Report,
    plan: &Plan,
    target: &Target,
) -> Result<(), BenchError> {
    let kernels = session.scale().choose(10_000, 2_000, 10);
    // The time for which a chain that was known ahead has been held back.
    let ahead = Duration::from_millis(session.scale().choose(500, 500, 0));
    let by_hand = by_hand(target, report);
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
        let counter = Counter::new(target, completion)?;
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

/// Runs a chain, held back for so long after it was enqueued, or not at all, and waits for all of
/// it; gives the seconds from the release, or from the first enqueue. Every command has its event,
/// kept until all are over.
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
        let (launch, number) = prepare(&mut cuda)?;
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
