//! The parts of a command. Each may be refused.

use super::faults::Fault;
use super::machine::{Part as Step, Point, STREAMS};
use super::{Allocation, Cargo, Library, Refusal, is_for_a_device};
use quipu_device_queue::error::fault;
use quipu_device_queue::graph::TakenGraph;
use quipu_device_queue::launch::CodeRef;
use quipu_device_queue::region::Shape;
use quipu_device_queue::{Executor, Flight, Obstacle, Work};
use quipu_scheduler::access::PackedAccess;
use quipu_scheduler::operation::{Endpoint, Operation};
use quipu_scheduler::{Command, CommandView, Graph, RawArgument, SpaceId, clock};
use std::collections::HashMap;
use std::sync::{Arc, Mutex};

pub(super) fn executor_of(command: &Command) -> Executor {
    match command.operation() {
        Operation::Transfer(transfer) if !is_for_a_device(&Shape::of(transfer)) => Executor::Host,
        Operation::Transfer(transfer) if matches!(transfer.destination, Endpoint::Host(_)) => {
            Executor::DeviceForUser
        }
        Operation::Transfer(transfer) if matches!(transfer.source, Endpoint::Host(_)) => {
            Executor::DeviceWhenReady
        }
        _ => Executor::Device,
    }
}

#[derive(Clone, Copy)]
pub(super) struct Place(pub(super) *mut u8);
// SAFETY: whose it is, is the driver's to order.
unsafe impl Send for Place {}

impl Place {
    pub(super) fn at(self, offset: u64) -> Self {
        Self(self.0.wrapping_add(offset as usize))
    }
}

/// A command's parts, each after the one before.
pub(super) struct Chain<'a> {
    library: &'a Library,
    pub(super) work: &'a Work<'a, Library>,
    stream: usize,
    waits: Vec<Point>,
    uses: Vec<usize>,
    made: Vec<Point>,
    failure: Option<Refusal>,
    times: Option<Arc<Mutex<(u64, u64)>>>,
}

pub(super) type Put = Result<Flight<Library>, Obstacle<Refusal>>;

impl<'a> Chain<'a> {
    pub(super) fn new(library: &'a Library, work: &'a Work<'a, Library>, waits: &[Point]) -> Self {
        let queue = work.command().queue();
        Self {
            library,
            work,
            stream: queue.id() as usize % STREAMS,
            waits: waits.to_vec(),
            uses: Vec::new(),
            made: Vec::new(),
            failure: None,
            times: queue.options().profiling.then(Arc::default),
        }
    }

    /// Uses memory.
    pub(super) fn uses(&mut self, allocation: &Allocation) {
        self.waits.push(allocation.zeroed.clone());
        self.uses.push(allocation.pointer.addr());
    }

    /// An argument's first byte.
    pub(super) fn place(
        &mut self,
        number: usize,
        space: Option<SpaceId>,
    ) -> Result<Place, quipu_scheduler::Error> {
        let argument = &self.work.command().arguments()[number];
        let bytes = match space {
            Some(space) => self.work.bytes_in(argument, space)?.0,
            None => self.work.bytes(argument)?,
        };
        self.uses(bytes.allocation);
        Ok(Place(bytes.allocation.pointer).at(bytes.offset))
    }

    pub(super) fn call(&mut self, run: impl FnOnce() + Send + 'static) -> Result<(), Refusal> {
        self.call_with(self.uses.clone(), run)
    }

    /// Puts a part on the device that uses this memory, if the library does so.
    pub(super) fn call_with(
        &mut self,
        uses: Vec<usize>,
        run: impl FnOnce() + Send + 'static,
    ) -> Result<(), Refusal> {
        if self.failure.is_some() {
            return Ok(());
        }
        if let Err(refusal) = self.library.faults.check(Fault::Put) {
            if self.made.is_empty() {
                return Err(refusal);
            }
            self.failure = Some(refusal);
            return Ok(());
        }
        self.put(uses, run);
        Ok(())
    }

    /// The point of the last part that was put.
    pub(super) fn last(&self) -> Point {
        self.made.last().expect("one was put").clone()
    }

    /// Puts a part on the device that uses this memory.
    pub(super) fn put(&mut self, uses: Vec<usize>, run: impl FnOnce() + Send + 'static) {
        let times = self.times.clone();
        let waits = match self.made.last() {
            Some(last) => vec![last.clone()],
            None => self.waits.clone(),
        };
        let part = Step {
            waits,
            stream: self.library.ordered.then_some(self.stream),
            uses,
            is_zeroing: false,
            run: Box::new(move || {
                let began = clock::now_ns();
                run();
                if let Some(times) = times {
                    let mut times = times.lock().expect("nobody panics with it");
                    times.0 = if times.0 == 0 { began } else { times.0 };
                    times.1 = clock::now_ns();
                }
            }),
        };
        self.made.push(self.work.device().machine.put(part));
    }

    fn copy(&mut self, from: Place, to: Place, length: u64) -> Result<(), Refusal> {
        self.call(move || {
            let (from, to) = (from, to);
            // SAFETY: so many bytes on both sides, the command's until it is over.
            unsafe { from.0.copy_to(to.0, length as usize) };
        })
    }

    /// The end; `later` if its signal is another one than that for which others wait.
    pub(super) fn end(mut self, later: bool) -> Put {
        if self.made.is_empty() {
            self.call(|| ())?;
        }
        let last = self.made.pop().expect("there is one now");
        let later = later && self.failure.is_none() && !self.made.is_empty();
        let (signal, done) = if later {
            (self.made[self.made.len() - 1].clone(), Some(last))
        } else {
            (last, None)
        };
        Ok(Flight {
            signal,
            done,
            line: self.library.ordered.then_some(self.stream),
            failure: self.failure,
            error: None,
            cargo: Cargo {
                earlier: self.made,
                times: self.times,
                ..Cargo::default()
            },
        })
    }
}

pub(super) fn put<'a>(
    library: &'a Library,
    work: &'a Work<'a, Library>,
    code: Option<CodeRef<'_, ()>>,
    waits: &[Point],
) -> Put {
    let command = work.command();
    let mut chain = Chain::new(library, work, waits);
    match command.operation() {
        Operation::Graph(graph) => return put_graph(chain, graph),
        Operation::NativeEnqueue(enqueue) => return super::native::put(chain, enqueue),
        Operation::Launch { .. } if code.is_some() => return put_launch(chain),
        Operation::Transfer(transfer) => {
            let mut side = |endpoint: &Endpoint| match endpoint {
                Endpoint::Host(memory) => Ok(Place(memory.pointer())),
                Endpoint::Argument(number) => chain.place(*number, None),
            };
            let (from, to) = (side(&transfer.source)?, side(&transfer.destination)?);
            for part in Shape::of(transfer).parts() {
                let [row, rows, layers] = part.region();
                for (layer, line) in
                    (0..layers).flat_map(|layer| (0..rows).map(move |line| (layer, line)))
                {
                    let at = |start: u64, pitch: [usize; 2]| {
                        start + (layer * pitch[1] + line * pitch[0]) as u64
                    };
                    let from = from.at(at(part.source, part.source_pitch));
                    let to = to.at(at(part.destination, part.destination_pitch));
                    chain.copy(from, to, row as u64)?;
                }
            }
        }
        Operation::Fill(fill) => {
            let to = chain.place(0, None)?;
            for row in fill.rows(command.arguments()[0].length()) {
                let pattern = fill.pattern().to_vec();
                chain.call(move || {
                    let to = to;
                    for (at, byte) in row.zip(pattern.iter().cycle()) {
                        // SAFETY: within the command's argument.
                        unsafe { to.0.add(at as usize).write(*byte) };
                    }
                })?;
            }
        }
        Operation::Migrate(migration) => {
            let argument = &command.arguments()[0];
            let mut side = |space: SpaceId| -> Result<Place, quipu_scheduler::Error> {
                if space == SpaceId::HOST {
                    Ok(Place(argument.on_host()?.pointer))
                } else {
                    chain.place(0, Some(space))
                }
            };
            let (from, to) = (side(migration.from)?, side(migration.to)?);
            let half = argument.length() / 2;
            chain.copy(from, to, half)?;
            chain.copy(from.at(half), to.at(half), argument.length() - half)?;
        }
        _ => {}
    }
    chain.end(false)
}

/// The kernel, and its fault record's way to the host.
fn put_launch(mut chain: Chain<'_>) -> Put {
    let command = chain.work.command();
    let mut arguments = Vec::new();
    for (number, argument) in command.arguments().iter().enumerate() {
        arguments.push((chain.place(number, None)?, argument.length() as usize));
    }
    let (held, groups) = (chain.work.held(), command.groups());
    let outcome = Arc::new(Mutex::new(None));
    let record = outcome.clone();
    chain.call(move || {
        let arguments: Vec<RawArgument> = arguments
            .iter()
            .map(|(place, length)| RawArgument {
                pointer: place.0,
                length: *length,
            })
            .collect();
        // SAFETY: the command is on the device, and so not over; all that it waits for is, and its
        // arguments are where it was told.
        let run = || unsafe { held.with(|command| command.run_native(&arguments, 0..groups)) };
        let ran = std::panic::catch_unwind(std::panic::AssertUnwindSafe(run));
        let error = match ran {
            Ok(ran) => ran.err(),
            Err(_) => Some(quipu_device_queue::error::fault(
                "case",
                "a panic".to_owned(),
            )),
        };
        *record.lock().expect("nobody panics with it") = error;
    })?;
    chain.call(|| ())?;
    let mut flight = chain.end(true)?;
    flight.cargo.outcome = outcome;
    Ok(flight)
}

/// The object that is kept with a recorded graph.
pub(crate) struct Recorded {
    /// An argument for each memory object.
    memories: Vec<PackedAccess>,
    space: SpaceId,
    /// The memory for which it was made, and the number of times that it was made.
    made: Mutex<(Vec<usize>, u64)>,
}

impl Recorded {
    pub(super) fn of(graph: &Graph) -> Self {
        let (mut memories, mut space): (Vec<PackedAccess>, _) = (Vec::new(), SpaceId::HOST);
        graph.for_each_command(|command, _| {
            space = command.queue().device().map_or(space, |it| it.space());
            for argument in command.arguments() {
                let is_known = |known: &PackedAccess| known.is_of(argument.memory());
                if !memories.iter().any(is_known) {
                    memories.push(**argument);
                }
            }
        });
        Self {
            memories,
            space,
            made: Mutex::default(),
        }
    }

    /// The number of times that it was made for other memory than before.
    pub(crate) fn times_made(graph: &Graph) -> u64 {
        let taken = TakenGraph::<()>::of(graph).expect("a graph that was taken");
        let recorded = taken.made::<Self>().expect("what the library keeps");
        recorded.made.lock().expect("nobody panics with it").1
    }
}

/// All of a graph's commands, one after the other, and their fault records' way to the host.
fn put_graph<'a>(mut chain: Chain<'a>, graph: &'a Graph) -> Put {
    let taken = TakenGraph::<()>::of(graph).expect("a graph that was taken");
    let recorded = taken.made::<Recorded>().expect("what the library keeps");
    let (mut starts, mut all) = (HashMap::new(), Vec::new());
    for access in &recorded.memories {
        // SAFETY: an argument of one of the graph's commands, and the graph lives.
        let argument = unsafe { access.of_live_command() };
        let bytes = chain.work.bytes_in(&argument, recorded.space)?.0;
        let start = bytes.allocation.pointer;
        chain.waits.push(bytes.allocation.zeroed.clone());
        chain.uses.push(start.addr());
        starts.insert(std::ptr::from_ref(argument.memory()).addr(), Place(start));
        all.push(bytes.allocation.number);
    }
    {
        let mut made = recorded.made.lock().expect("nobody panics with it");
        if made.0 != all {
            *made = (all, made.1 + 1);
        }
    }
    let mut codes = taken.codes().iter();
    graph.for_each_command(|command, _| {
        let is_launch = matches!(command.operation(), Operation::Launch { groups: 1.. });
        let code = codes.next().expect("one for each command");
        assert_eq!(code.is_some(), is_launch);
    });
    let (graph, outcome) = (graph.clone(), Arc::new(Mutex::new(None)));
    let record = outcome.clone();
    chain.call(move || {
        let mut error = None;
        graph.for_each_command(|command, _| {
            let ran = run_within(command, &starts);
            error = error.take().or(ran.err());
        });
        *record.lock().expect("nobody panics with it") = error;
    })?;
    chain.call(|| ())?;
    let mut flight = chain.end(true)?;
    flight.cargo.outcome = outcome;
    Ok(flight)
}

/// Runs a command of a graph, with memory that begins where it is said.
fn run_within(
    command: &CommandView,
    starts: &HashMap<usize, Place>,
) -> Result<(), quipu_scheduler::Error> {
    let arguments = command.arguments().iter().map(|argument| {
        let memory = std::ptr::from_ref(argument.memory()).addr();
        RawArgument {
            pointer: starts[&memory].at(argument.offset()).0,
            length: argument.length() as usize,
        }
    });
    let arguments: Vec<RawArgument> = arguments.collect();
    match command.operation() {
        // SAFETY: the graph's launch is on the device, and so all that it waits for is over.
        Operation::Fill(fill) => unsafe { fill.fill(arguments[0]) },
        // SAFETY: as above.
        Operation::Transfer(transfer) => unsafe { transfer.copy(&arguments) },
        // SAFETY: as above; and the commands run in the order in which they were recorded.
        Operation::Launch { groups } => unsafe {
            let ran = command.run_native(&arguments, 0..groups);
            return ran.map_err(|error| fault(command.label(), error.to_string()));
        },
        _ => {}
    }
    Ok(())
}
