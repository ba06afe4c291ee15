//! The same chain of commands, ours and by hand.

use super::super::{Doing, Target};
use crate::error::BenchError;
use crate::harness::{Report, Session};
use crate::kernels;
use crate::reference::raw::{Argument, Grid, Launch, Memory, Raw, RawResult, Waiting};
use crate::reference::raw::{download, upload};
use quipu::{Buffer, Completion, Event, Graph, Queue, QueueOptions, WorkDivision};
use std::cell::{Cell, RefCell};
use std::time::Instant;

/// A number that commands of ours count in.
pub(super) struct Counter {
    pub(super) queue: Queue,
    /// Another one, with timestamps.
    profiled: Queue,
    number: RefCell<Buffer<u32>>,
    count: Cell<u32>,
}

impl Counter {
    pub(super) fn new(target: &Target, completion: Completion) -> Result<Self, BenchError> {
        let number = target.context().allocate(1).doing("making a buffer")?;
        let counter = Counter {
            queue: target.queue(completion)?,
            profiled: target.queue_with(QueueOptions {
                completion,
                profiling: true,
                ..QueueOptions::default()
            })?,
            number: RefCell::new(number),
            count: Cell::new(0),
        };
        // Compiled, and its memory taken, before anything is timed.
        let first = counter.launch(&counter.queue)?;
        first.wait().doing("waiting for a command")?;
        Ok(counter)
    }

    /// With a future.
    pub(super) fn launch(&self, queue: &Queue) -> Result<Event, BenchError> {
        self.launch_after(queue, None)
    }

    /// The same, behind a loop that goes round so often: some thirty times or more.
    pub(super) fn launch_after(
        &self,
        queue: &Queue,
        loops: Option<u32>,
    ) -> Result<Event, BenchError> {
        self.count.set(self.count.get() + 1);
        let number = &mut *self.number.borrow_mut();
        let one = WorkDivision::new(1, 1, 1);
        let launch = match loops {
            None => queue.launch(one, kernels::add_one(number)),
            Some(loops) => queue.launch(one, kernels::add_one_slowly(loops, number)),
        };
        launch.doing("enqueueing a command")
    }

    /// Without.
    pub(super) fn post(&self) -> Result<(), BenchError> {
        self.count.set(self.count.get() + 1);
        let number = &mut *self.number.borrow_mut();
        let one = WorkDivision::new(1, 1, 1);
        let launch = self.queue.post_launch(one, kernels::add_one(number));
        launch.doing("enqueueing a command")
    }

    /// So many, to be launched again and again as one. Launched once before anything is timed.
    pub(super) fn record(&self, target: &Target, commands: usize) -> Result<Graph, BenchError> {
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
    pub(super) fn launch_all(&self, graph: &Graph, commands: usize) -> Result<(), BenchError> {
        self.count.set(self.count.get() + commands as u32);
        let launched = self.queue.launch_graph(graph);
        let launched = launched.and_then(|event| event.wait());
        launched.doing("launching a graph")
    }

    pub(super) fn wait(&self) -> Result<(), BenchError> {
        self.queue.wait().doing("waiting for a queue")
    }

    /// Launches once, with timestamps, and hears of its end. Gives the microseconds that both took
    /// beyond the kernel's own time by these.
    pub(super) fn beyond_kernel(
        &self,
        loops: Option<u32>,
        hear: impl FnOnce(Event) -> Result<(), BenchError>,
    ) -> Result<f64, BenchError> {
        let started = Instant::now();
        let event = self.launch_after(&self.profiled, loops)?;
        hear(event.clone())?;
        let took = started.elapsed().as_secs_f64() * 1e6;
        let kernel = event
            .profile()
            .map(|it| it.ended_ns.saturating_sub(it.started_ns));
        Ok(kernel.map_or(f64::NAN, |nanoseconds| took - nanoseconds as f64 / 1e3))
    }

    pub(super) fn verify(&self, session: &Session<'_>, case: &str) -> Result<(), BenchError> {
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
pub(super) struct ByHand {
    pub(super) raw: RefCell<Box<dyn Raw>>,
    pub(super) launch: Launch,
    number: Memory,
    count: Cell<u32>,
}

impl ByHand {
    pub(super) fn new(mut raw: Box<dyn Raw>) -> RawResult<Self> {
        let (launch, number) = prepare(&mut *raw)?;
        Ok(ByHand {
            raw: RefCell::new(raw),
            launch,
            number,
            count: Cell::new(0),
        })
    }

    pub(super) fn enqueue(&self) -> Result<(), BenchError> {
        self.count.set(self.count.get() + 1);
        Ok(self.raw.borrow_mut().enqueue(self.launch)?)
    }

    pub(super) fn wait(&self, waiting: Waiting) -> Result<(), BenchError> {
        Ok(self.raw.borrow_mut().wait(waiting)?)
    }

    pub(super) fn launch_and_wait(&self, waiting: Waiting) -> Result<(), BenchError> {
        self.enqueue()?;
        self.wait(waiting)
    }

    /// A launch behind a loop that goes round so often.
    pub(super) fn after(&self, loops: u32) -> Result<Launch, BenchError> {
        let arguments = [Argument::U32(loops), Argument::Memory(self.number)];
        let mut raw = self.raw.borrow_mut();
        Ok(raw.prepare("add_one_slowly", Grid::line(1, 1), &arguments)?)
    }

    /// As [`Counter::beyond_kernel`].
    pub(super) fn beyond_kernel(
        &self,
        launch: Launch,
        waiting: Waiting,
    ) -> Result<f64, BenchError> {
        self.count.set(self.count.get() + 1);
        Ok(self.raw.borrow_mut().beyond_kernel(launch, waiting)?)
    }

    /// The ways to wait that a mode of ours is compared with, and what they are called.
    pub(super) fn ways(&self, mode: Completion, same: Waiting) -> Vec<(String, Waiting)> {
        let interface = self.raw.borrow().language().interface();
        let own = (mode == Completion::Polling).then_some(Waiting::Synchronise);
        let ways = [same].into_iter().chain(own);
        let named = |way: Waiting| (format!("{interface}, {}", way.name()), way);
        ways.map(named).collect()
    }

    pub(super) fn verify(&self, session: &Session<'_>, case: &str) -> Result<(), BenchError> {
        let found = download::<u32>(&mut **self.raw.borrow_mut(), self.number, 1)?[0];
        let what = "the number of launches by hand that ran";
        session.verify(case, what, self.count.get(), found)
    }
}

pub(super) fn prepare(raw: &mut dyn Raw) -> RawResult<(Launch, Memory)> {
    let number = upload(raw, &[0_u32])?;
    let launch = raw.prepare("add_one", Grid::line(1, 1), &[Argument::Memory(number)])?;
    Ok((launch, number))
}

pub(super) fn by_hand(target: &Target, report: &mut Report) -> Option<ByHand> {
    let by_hand = target.raw().and_then(ByHand::new);
    target.or_note(by_hand, report)
}
