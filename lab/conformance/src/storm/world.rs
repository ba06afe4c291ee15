//! The world that the threads of a storm share.

use super::cells::{Author, CELL, Cells, Log};
use crate::graph::random::Random;
use crate::support::{OUT_OF_ORDER, launch_native, read_range, record_native};
use quipu_scheduler::error::{ErrorKind, Result};
use quipu_scheduler::event::wait_graph;
use quipu_scheduler::graph::NodeRequest;
use quipu_scheduler::memory::mapping::HostQueue;
use quipu_scheduler::operation::NativeKernel;
pub(super) use quipu_scheduler::sync::lock;
use quipu_scheduler::{
    Access, AccessMode, Completion, Context, Device, Error, Event, Graph, MemoryRef, Priority,
    Queue, QueueOptions, RawArgument, Recording, Request,
};
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

/// A buffer whose bytes are known, or one that only takes part in hazards.
#[derive(Clone)]
pub(super) struct Buffer {
    pub(super) memory: MemoryRef,
    pub(super) cells: Arc<Cells>,
}

/// An access of a command: which buffer, which cells, and whether it writes.
#[derive(Clone)]
pub(super) struct Visit {
    pub(super) buffer: Buffer,
    pub(super) range: Range<usize>,
    pub(super) writes: bool,
}

impl Visit {
    pub(super) fn access(&self) -> Access<'_> {
        Access {
            memory: &self.buffer.memory,
            offset: (self.range.start * CELL) as u64,
            length: (self.range.len() * CELL) as u64,
            mode: if self.writes {
                AccessMode::ReadWrite
            } else {
                AccessMode::Read
            },
        }
    }
}

/// The work of a command: it visits its cells.
pub(super) struct Work {
    pub(super) world: Arc<World>,
    pub(super) visits: Vec<Visit>,
    pub(super) author: Author,
    pub(super) turns: u32,
}

impl Work {
    pub(super) fn run(&self, arguments: &[RawArgument]) {
        for (visit, raw) in self.visits.iter().zip(arguments) {
            let Visit {
                buffer,
                range,
                writes,
            } = visit;
            buffer
                .cells
                .visit(range.clone(), *writes, self.author, self.turns, raw);
        }
    }

    /// As a command that was counted as it was enqueued.
    fn run_counted(&self, arguments: &[RawArgument]) {
        self.run(arguments);
        self.world.ran.fetch_add(1, Ordering::SeqCst);
    }
}

impl NativeKernel for Work {
    fn name(&self) -> &'static str {
        "visit"
    }

    unsafe fn run(&self, arguments: &[RawArgument], _: Range<u32>) -> Result<()> {
        self.run_counted(arguments);
        Ok(())
    }
}

/// A kernel of a graph, which is not counted: it runs once in each launch.
struct Recorded(Work);

impl NativeKernel for Recorded {
    fn name(&self) -> &'static str {
        "recorded visit"
    }

    unsafe fn run(&self, arguments: &[RawArgument], _: Range<u32>) -> Result<()> {
        self.0.run(arguments);
        Ok(())
    }
}

pub(super) struct World {
    context: Context,
    devices: Vec<Device>,
    threads: usize,
    queues: Vec<Mutex<Queue>>,
    buffers: Vec<Mutex<Buffer>>,
    graphs: Vec<Graph>,
    /// Events that any thread may wait for, some of the last.
    events: Mutex<Vec<Event>>,
    pub(super) host: HostQueue,
    /// No device runs tasks on a thread that may have user events open.
    pub(super) tasks_may_wait: bool,
    pub(super) log: Log,
    /// Commands that were accepted and are counted as they run, and how many have.
    pub(super) enqueued: AtomicU64,
    pub(super) ran: AtomicU64,
    /// The activity of each thread, for a storm that hangs.
    doing: Vec<Mutex<&'static str>>,
}

impl World {
    pub(super) fn new(devices: &[Device], threads: usize, random: &mut Random) -> Arc<Self> {
        let context = Context::new(devices).expect("a context over fresh devices");
        let log = Log::default();
        let queues = (0..2 + random.index(5))
            .map(|_| make_queue(&context, devices, random))
            .collect::<Vec<_>>();
        let buffers = (0..2 + random.index(5))
            .map(|index| make_buffer(&context, threads, &log, index))
            .collect::<Vec<_>>();
        let host = HostQueue::new(&context).expect("a host queue");
        let mut world = Self {
            context,
            devices: devices.to_vec(),
            threads,
            queues: queues.into_iter().map(Mutex::new).collect(),
            buffers: buffers.into_iter().map(Mutex::new).collect(),
            graphs: Vec::new(),
            events: Mutex::new(Vec::new()),
            host,
            tasks_may_wait: devices
                .iter()
                .all(|device| !device.properties().caller_runs),
            log,
            enqueued: AtomicU64::new(0),
            ran: AtomicU64::new(0),
            doing: (0..threads).map(|_| Mutex::new("starts")).collect(),
        };
        // Graphs know their buffers, which know the world: so the recorded kernels have one of
        // their own.
        let recorder = Arc::new(World {
            graphs: Vec::new(),
            queues: Vec::new(),
            buffers: Vec::new(),
            events: Mutex::new(Vec::new()),
            host: world.host.clone(),
            tasks_may_wait: false,
            log: world.log.clone(),
            context: world.context.clone(),
            devices: Vec::new(),
            threads,
            enqueued: AtomicU64::new(0),
            ran: AtomicU64::new(0),
            doing: Vec::new(),
        });
        for _ in 0..random.index(4) {
            let graph = world.record(&recorder, random);
            world.graphs.push(graph);
        }
        Arc::new(world)
    }

    /// A graph of some commands on shared queues and buffers.
    fn record(&self, recorder: &Arc<Self>, random: &mut Random) -> Graph {
        let recording = Recording::new(&self.context);
        let mut nodes = Vec::new();
        for _ in 0..1 + random.index(12) {
            let queue = self.queue(random);
            let visits = self.visits(random, 4);
            let work = Work {
                world: recorder.clone(),
                visits: visits.clone(),
                author: None,
                turns: 0,
            };
            let accesses: Vec<Access<'_>> = visits.iter().map(Visit::access).collect();
            let after: Vec<_> = random.choose(&nodes).copied().into_iter().collect();
            let request = NodeRequest {
                accesses: &accesses,
                regions: &[],
                after: &after,
                unknown_access: random.percent(10),
                label: Some("recorded"),
            };
            let node = match random.index(8) {
                0 => recording.barrier(&queue, &after),
                1 => recording.marker(&queue, &after),
                2 => {
                    let task = move |arguments: &[RawArgument]| {
                        work.run(arguments);
                        Ok(())
                    };
                    recording.host_task(&queue, task, &request)
                }
                _ => record_native(&recording, &queue, Recorded(work), 1, &request),
            };
            nodes.push(node.expect("a valid command of a graph"));
        }
        recording.finish().expect("a small graph")
    }

    pub(super) fn queue(&self, random: &mut Random) -> Queue {
        lock(&self.queues[random.index(self.queues.len())]).clone()
    }

    pub(super) fn buffer(&self, random: &mut Random) -> Buffer {
        lock(&self.buffers[random.index(self.buffers.len())]).clone()
    }

    pub(super) fn graph(&self, random: &mut Random) -> Option<Graph> {
        random.choose(&self.graphs).cloned()
    }

    /// Another queue takes the place of one, which ends when its last command is over.
    pub(super) fn replace_queue(&self, random: &mut Random) {
        let new = make_queue(&self.context, &self.devices, random);
        let old = std::mem::replace(
            &mut *lock(&self.queues[random.index(self.queues.len())]),
            new,
        );
        drop(old);
    }

    /// Another buffer takes the place of one, which ends with its last command.
    pub(super) fn replace_buffer(&self, random: &mut Random) {
        let index = random.index(self.buffers.len());
        let new = make_buffer(&self.context, self.threads, &self.log, index);
        let old = std::mem::replace(&mut *lock(&self.buffers[index]), new);
        drop(old);
    }

    /// Some accesses, of which none overlaps one that writes.
    pub(super) fn visits(&self, random: &mut Random, most: usize) -> Vec<Visit> {
        let mut visits: Vec<Visit> = Vec::new();
        for _ in 0..random.index(most + 1) {
            let buffer = self.buffer(random);
            let count = buffer.cells.len();
            let start = random.index(count);
            let range = match random.index(3) {
                0 => 0..count,
                1 => start..start + 1,
                _ => start..start + 1 + random.index(count - start),
            };
            let visit = Visit {
                buffer,
                range,
                writes: random.percent(40),
            };
            let clear = visits.iter().all(|other| {
                !Arc::ptr_eq(&other.buffer.cells, &visit.buffer.cells)
                    || !(visit.writes || other.writes)
                    || other.range.end <= visit.range.start
                    || visit.range.end <= other.range.start
            });
            if clear {
                visits.push(visit);
            }
        }
        visits
    }

    /// Makes an event one that all threads may wait for.
    pub(super) fn share(&self, event: &Event, random: &mut Random) {
        const MOST: usize = 40;
        let mut events = lock(&self.events);
        let old = if events.len() < MOST {
            events.push(event.clone());
            None
        } else {
            let at = random.index(MOST);
            Some(std::mem::replace(&mut events[at], event.clone()))
        };
        drop(events);
        drop(old);
    }

    /// Some shared events.
    pub(super) fn some_events(&self, random: &mut Random, most: usize) -> Vec<Event> {
        let events = lock(&self.events);
        (0..random.index(most + 1))
            .filter_map(|_| random.choose(&events).cloned())
            .collect()
    }

    /// Says what a thread does from now on.
    pub(super) fn doing(&self, thread: usize, what: &'static str) {
        *lock(&self.doing[thread]) = what;
    }

    pub(super) fn describe(&self) -> String {
        let doing: Vec<_> = self.doing.iter().map(|what| *lock(what)).collect();
        let queues: Vec<_> = self
            .queues
            .iter()
            .map(|queue| {
                let queue = lock(queue);
                format!(
                    "{queue:?}, {}",
                    if queue.is_empty() {
                        "empty"
                    } else {
                        "not empty"
                    }
                )
            })
            .collect();
        format!(
            "threads: {doing:?}\nqueues: {queues:#?}\n{} of {} commands ran\nproblems: {:?}\n{}",
            self.ran.load(Ordering::SeqCst),
            self.enqueued.load(Ordering::SeqCst),
            self.log.problems(),
            wait_graph(),
        )
    }

    /// Enqueues work as a kernel, or as a task of the host; `unknown` says that it may touch more
    /// than it says.
    pub(super) fn enqueue(
        self: &Arc<Self>,
        queue: &Queue,
        work: Work,
        waits: &[Event],
        how: How,
    ) -> Option<Event> {
        let visits = work.visits.clone();
        let accesses: Vec<Access<'_>> = visits.iter().map(Visit::access).collect();
        let request = Request {
            accesses: &accesses,
            regions: &[],
            waits,
            unknown_access: how == How::Barrier,
            label: Some(how.label()),
        };
        // Before it can run.
        self.enqueued.fetch_add(1, Ordering::SeqCst);
        let event = match how {
            How::Kernel => launch_native(queue, work, 1, &request),
            How::Task | How::Barrier => {
                let task = move |arguments: &[RawArgument]| {
                    work.run_counted(arguments);
                    Ok(())
                };
                queue.host_task(task, &request)
            }
        };
        self.accepted(event)
    }

    /// The commands that were enqueued and counted; not those that were refused because a wait here
    /// would never end.
    pub(super) fn accepted(&self, enqueued: Result<Event>) -> Option<Event> {
        match enqueued {
            Ok(event) => Some(event),
            Err(error) => {
                self.enqueued.fetch_sub(1, Ordering::SeqCst);
                self.tolerate(&error);
                None
            }
        }
    }

    /// A wait that could never end is refused, and so is a command that touches what is mapped.
    /// Nothing else fails.
    pub(super) fn tolerate(&self, error: &Error) {
        let expected = matches!(
            error.first_cause().kind(),
            ErrorKind::WouldDeadlock { .. } | ErrorKind::Mapped { .. }
        );
        self.log.check(expected, || format!("failed: {error}"));
    }

    /// Waits for all queues and compares all buffers.
    pub(super) fn finish(&self) {
        // Callbacks, and what they enqueue, may come after the queues were empty.
        loop {
            for queue in &self.queues {
                let queue = lock(queue).clone();
                if let Err(error) = queue.wait() {
                    self.log.note(|| format!("the last wait failed: {error}"));
                }
            }
            if self.ran.load(Ordering::SeqCst) == self.enqueued.load(Ordering::SeqCst) {
                break;
            }
            std::thread::yield_now();
        }
        let events = std::mem::take(&mut *lock(&self.events));
        for event in events {
            if let Err(error) = event.wait() {
                self.tolerate(&error);
            }
        }
        let queue = self.context.queue(&self.devices[0], OUT_OF_ORDER);
        let queue = queue.expect("a queue for the last look");
        for buffer in &self.buffers {
            let buffer = lock(buffer).clone();
            match read_range(&queue, &buffer.memory, 0..buffer.memory.size()) {
                Ok(bytes) => buffer.cells.compare(&bytes),
                Err(error) => self.log.note(|| format!("the last look failed: {error}")),
            }
        }
    }
}

/// The way of enqueueing work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum How {
    Kernel,
    Task,
    /// A task of unknown access: a barrier that carries accesses.
    Barrier,
}

impl How {
    fn label(self) -> &'static str {
        match self {
            Self::Kernel => "kernel",
            Self::Task => "task",
            Self::Barrier => "task that may touch anything",
        }
    }
}

fn make_queue(context: &Context, devices: &[Device], random: &mut Random) -> Queue {
    let options = QueueOptions {
        in_order: random.percent(60),
        one_at_a_time: random.percent(10),
        blocking: false,
        profiling: random.percent(10),
        priority: match random.index(8) {
            0 => Priority::Low,
            1 => Priority::High,
            _ => Priority::Normal,
        },
        hazards: quipu_scheduler::Hazards::ACROSS_QUEUES,
        completion: if random.percent(25) {
            Completion::Polling
        } else {
            Completion::Callback
        },
    };
    let device = random.choose(devices).expect("a fixture has devices");
    context
        .queue(device, options)
        .expect("a queue of a fresh device")
}

fn make_buffer(context: &Context, threads: usize, log: &Log, index: usize) -> Buffer {
    const CELLS: usize = 12;
    let memory = context
        .memory((CELLS * CELL) as u64)
        .expect("a small buffer");
    let name = format!("buffer {index} (memory {})", memory.id());
    memory.set_label(&name);
    Buffer {
        memory,
        cells: Arc::new(Cells::new(name, CELLS, threads, log.clone())),
    }
}
