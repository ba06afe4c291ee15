//! Random graphs over the host's cores and simulated devices with shared and separate memory give
//! the result of running them one after another.
#![allow(clippy::unwrap_used, reason = "helpers assert by unwrapping")]

mod support;

use quipu_driver_cpu::{CpuDriver, Options, SerialDriver};
use quipu_driver_sim::SimDriver;
use quipu_driver_sim::engine::{Configuration, Mode, PickOrder, RacePolicy, SpaceId};
use quipu_scheduler::{
    Access, AccessMode, Context, Device, Driver, Event, MemoryRef, Queue, QueueOptions,
    RawArgument, Request, UserEvent,
};
use std::num::NonZero;
use std::sync::{Arc, Mutex};
use support::{Kernel, part, step, view};

/// SplitMix64 (Steele, Lea and Flood, 2014).
struct Random(u64);

impl Random {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) % bound
    }
}

const CELLS: u64 = 24;
const BUFFERS: u64 = 4;

/// Three simulated devices with little of everything. Two of them share their memory.
fn machine(seed: u64) -> Configuration {
    let mut configuration = Configuration::separate_memory(2, 4096);
    configuration.devices.push(configuration.devices[1].clone());
    configuration.devices[2].space = SpaceId(1);
    for (index, device) in configuration.devices.iter_mut().enumerate() {
        device.slots = 1 + (seed as usize + index) % 5;
        device.kernels_at_once = 1 + seed as usize % 2;
        device.pick_order = PickOrder::Shuffled(seed);
        device.image.capacity = 2;
    }
    for space in &mut configuration.spaces {
        space.status_slots = seed as usize % 9;
    }
    configuration.races = RacePolicy::Fail;
    configuration
}

struct Graph {
    queues: Vec<Queue>,
    buffers: Vec<MemoryRef>,
    model: Vec<Vec<u64>>,
    random: Random,
    events: Vec<Event>,
    gates: Vec<UserEvent>,
}

impl Graph {
    fn range(&mut self) -> (u64, u64) {
        let first = self.random.below(CELLS);
        (first, 1 + self.random.below(CELLS - first))
    }

    fn pick(&mut self) -> usize {
        self.random.below(BUFFERS) as usize
    }

    fn waits(&mut self) -> Vec<Event> {
        if !self.gates.is_empty() && self.random.below(8) == 0 {
            return vec![self.gates[self.random.below(self.gates.len() as u64) as usize].event()];
        }
        let mut waits = Vec::new();
        for _ in 0..self.random.below(3) {
            if !self.events.is_empty() {
                let index = self.random.below(self.events.len() as u64) as usize;
                waits.push(self.events[index].clone());
            }
        }
        waits
    }

    fn command(&mut self, number: u64) {
        let queue = self.queues[self.random.below(self.queues.len() as u64) as usize].clone();
        let waits = self.waits();
        let index = self.pick();
        let (first, count) = self.range();
        let range = first as usize..(first + count) as usize;
        let buffer = self.buffers[index].clone();
        let event = match self.random.below(6) {
            0 => {
                for cell in &mut self.model[index][range] {
                    *cell = number;
                }
                let to = part(&buffer, first, count, AccessMode::Overwrite);
                queue.fill(to, &number.to_le_bytes(), &waits).unwrap()
            }
            1 => {
                let other = (index + 1) % BUFFERS as usize;
                let start = self.random.below(CELLS - count + 1);
                let cells = self.model[index][range].to_vec();
                self.model[other][start as usize..(start + count) as usize].copy_from_slice(&cells);
                let from = part(&buffer, first, count, AccessMode::Read);
                let other = self.buffers[other].clone();
                let to = part(&other, start, count, AccessMode::Overwrite);
                queue.copy(from, to, 8 * count, &[], &waits).unwrap()
            }
            2 => {
                // The sum of one range is added to each cell of another buffer's.
                let other = (index + 1) % BUFFERS as usize;
                let sum = self.model[index][range]
                    .iter()
                    .fold(0_u64, |sum, cell| sum.wrapping_add(*cell));
                for cell in &mut self.model[other] {
                    *cell = step(*cell, sum);
                }
                let other = self.buffers[other].clone();
                let accesses = [
                    part(&buffer, first, count, AccessMode::Read),
                    part(&other, 0, CELLS, AccessMode::ReadWrite),
                ];
                let body = |arguments: &[RawArgument]| {
                    let sum = view(&arguments[0])
                        .iter()
                        .fold(0_u64, |sum, cell| sum.wrapping_add(*cell));
                    for cell in view(&arguments[1]) {
                        *cell = step(*cell, sum);
                    }
                    Ok(())
                };
                launch(&queue, "sum", &accesses, &waits, body)
            }
            kind => {
                for cell in &mut self.model[index][range] {
                    *cell = step(*cell, number);
                }
                let accesses = [part(&buffer, first, count, AccessMode::ReadWrite)];
                let body = move |arguments: &[RawArgument]| {
                    for cell in view(&arguments[0]) {
                        *cell = step(*cell, number);
                    }
                    Ok(())
                };
                if kind == 3 {
                    let request = Request {
                        accesses: &accesses,
                        waits: &waits,
                        ..Request::default()
                    };
                    queue.host_task(body, &request).unwrap()
                } else {
                    launch(&queue, "update", &accesses, &waits, body)
                }
            }
        };
        self.events.push(event);
        if self.random.below(20) == 0 {
            queue.barrier(&[]).unwrap();
        }
    }
}

fn launch(
    queue: &Queue,
    name: &'static str,
    accesses: &[Access<'_>],
    waits: &[Event],
    body: impl Fn(&[RawArgument]) -> quipu_scheduler::Result<()> + Send + Sync + 'static,
) -> Event {
    let request = Request {
        accesses,
        waits,
        ..Request::default()
    };
    queue.launch(Kernel(name, body), 1, &request).unwrap()
}

/// As [`read`], wherever the migrations that it needs run.
fn show(sim: &SimDriver, queue: &Queue, buffer: &MemoryRef) -> Vec<u64> {
    let cells = Arc::new(Mutex::new(Vec::new()));
    let keep = Arc::clone(&cells);
    let accesses = [part(buffer, 0, CELLS, AccessMode::Read)];
    let request = Request {
        accesses: &accesses,
        ..Request::default()
    };
    let look = move |arguments: &[RawArgument]| {
        keep.lock().unwrap().extend_from_slice(view(&arguments[0]));
        Ok(())
    };
    let event = queue.host_task(look, &request).unwrap();
    if sim.machine().mode() == Mode::Manual {
        sim.machine().run_while(|| !event.is_complete());
    }
    event.wait().unwrap();
    cells.lock().unwrap().clone()
}

fn run(seed: u64, sim: &Arc<SimDriver>, host: Arc<dyn Driver>) {
    let object: Arc<dyn Driver> = sim.clone();
    let mut devices = Device::all_of(&object).unwrap();
    devices.extend(Device::all_of(&host).unwrap());
    let context = Context::new(&devices).unwrap();
    let mut random = Random(seed);
    let queues = devices
        .iter()
        .flat_map(|device| [device, device])
        .map(|device| {
            let options = QueueOptions {
                in_order: random.below(2) == 0,
                ..QueueOptions::default()
            };
            context.queue(device, options).unwrap()
        })
        .collect();
    let buffers = (0..BUFFERS)
        .map(|_| context.memory(8 * CELLS).unwrap())
        .collect();
    let mut graph = Graph {
        queues,
        buffers,
        model: vec![vec![0; CELLS as usize]; BUFFERS as usize],
        random,
        events: Vec::new(),
        gates: (0..2).map(|_| UserEvent::new()).collect(),
    };
    for number in 0..60 {
        graph.command(number);
        if graph.random.below(15) == 0 {
            let queue = graph.random.below(graph.queues.len() as u64) as usize;
            graph.queues[queue].flush();
        }
        if number == 40 {
            std::mem::take(&mut graph.gates)
                .into_iter()
                .for_each(UserEvent::complete);
        }
    }
    graph.queues.iter().for_each(Queue::flush);
    if sim.machine().mode() == Mode::Manual {
        // The serial device waits for nobody else.
        sim.machine().run_while(|| true);
    }
    for event in &graph.events {
        event
            .wait()
            .unwrap_or_else(|error| panic!("seed {seed}: {error}"));
    }
    for (buffer, model) in graph.buffers.iter().zip(&graph.model) {
        let queue = graph.random.below(graph.queues.len() as u64) as usize;
        let cells = show(sim, &graph.queues[queue], buffer);
        assert_eq!(cells, *model, "seed {seed}");
    }
    assert_eq!(sim.races(), 0, "seed {seed}");
}

#[test]
fn random_graphs_over_a_pool_and_simulated_devices() {
    let _alone = support::alone();
    let workers = NonZero::new(2).unwrap();
    let cpu = CpuDriver::start(Options::new().workers(workers)).unwrap();
    for seed in 0..150 {
        run(seed, &SimDriver::start(machine(seed)).unwrap(), cpu.clone());
    }
}

#[test]
fn random_graphs_on_one_thread() {
    let _alone = support::alone();
    for seed in 1000..1300 {
        let sim = SimDriver::manual(machine(seed)).unwrap();
        run(seed, &sim, Arc::new(SerialDriver::new()));
    }
}

#[test]
fn the_same_graph_has_the_same_log() {
    let _alone = support::alone();
    let log = |seed| {
        let sim = SimDriver::manual(machine(seed)).unwrap();
        run(seed, &sim, Arc::new(SerialDriver::new()));
        sim.log()
    };
    for seed in 0..10 {
        assert_eq!(log(seed), log(seed));
    }
}
