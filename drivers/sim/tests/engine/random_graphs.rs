//! Random graphs of commands over random machines give the result of running them one after the
//! other.
//!
//! The test is a small driver: it tracks hazards by cell, lets devices of one space order
//! themselves through status slots, and resolves the rest as the host, with one extra slot per
//! command.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::{Arc, Mutex};

use crate::common::Random;
use quipu_driver_sim::engine::{
    Access, Command, Completion, Configuration, Cost, DeviceConfiguration, DeviceId, Failure,
    KernelId, Kind, Notice, Outcome, PickOrder, RacePolicy, Record, RefusalReason, Region,
    Simulation, SpaceConfiguration, SpaceId, Status, StatusSlot, Unit, Wait,
};

const CELLS: u64 = 6;
const CELL_BYTES: u64 = 8;

/// A cell of a space, or of the host.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Place {
    Device(usize, u64),
    Host(u64),
}

#[derive(Clone, Debug)]
struct Step {
    device: usize,
    unit: Unit,
    kind: Kind,
    reads: Vec<Place>,
    writes: Vec<Place>,
    seed: u64,
    time: u64,
    fails: bool,
    /// Earlier steps, and whether their failure is passed on.
    waits: BTreeMap<usize, bool>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Expected {
    Complete,
    Failed,
    Skipped,
}

fn mix(seed: u64, inputs: &[u64]) -> u64 {
    inputs.iter().fold(seed, |sum, input| {
        Random(sum ^ input.rotate_left(17)).next()
    })
}

fn random_configuration(random: &mut Random) -> Configuration {
    let spaces = 1 + random.below(3) as usize;
    let devices = spaces + random.below(3) as usize;
    let mut configuration = Configuration::shared_memory(1, 0);
    configuration.spaces = vec![
        SpaceConfiguration {
            capacity: 1 << 16,
            status_slots: 256,
        };
        spaces
    ];
    configuration.devices = (0..devices)
        .map(|index| DeviceConfiguration {
            space: SpaceId((index % spaces) as u8),
            slots: 1 + random.below(6) as usize,
            kernels_at_once: 1 + random.below(3) as usize,
            polling_interval: [0, 1, 100, 5_000][random.below(4) as usize],
            pick_order: [
                PickOrder::Age,
                PickOrder::Slot,
                PickOrder::Youngest,
                PickOrder::Shuffled(random.next()),
            ][random.below(4) as usize],
            image: quipu_driver_sim::engine::ImageConfiguration {
                capacity: 1 + random.below(4) as usize,
                ..Default::default()
            },
            ..DeviceConfiguration::default()
        })
        .collect();
    configuration.signal_latency = random.below(3) * 700;
    configuration.races = RacePolicy::Fail;
    configuration
}

/// Steps with their hazards: the waits that give the result of program order.
fn random_steps(random: &mut Random, configuration: &Configuration, count: usize) -> Vec<Step> {
    let mut last_write = BTreeMap::<Place, usize>::new();
    let mut reads_since = BTreeMap::<Place, Vec<usize>>::new();
    let mut steps = Vec::new();
    for index in 0..count {
        let device = random.below(configuration.devices.len() as u64) as usize;
        let space = configuration.devices[device].space.0.into();
        let here = |random: &mut Random| Place::Device(space, random.below(CELLS));
        let host = |random: &mut Random| Place::Host(random.below(CELLS));
        let (unit, kind, reads, writes) = match random.below(5) {
            0 => (
                Unit::CopyIn,
                Kind::Copy,
                vec![host(random)],
                vec![here(random)],
            ),
            1 => (
                Unit::CopyOut,
                Kind::Copy,
                vec![here(random)],
                vec![host(random)],
            ),
            _ => {
                let reads = (0..random.below(3)).map(|_| here(random)).collect();
                let writes = (0..1 + random.below(2)).map(|_| here(random)).collect();
                let kernel = Kind::Kernel(KernelId(random.below(5)));
                (Unit::Compute, kernel, reads, writes)
            }
        };
        let mut waits = BTreeMap::new();
        for place in &reads {
            if let Some(writer) = last_write.get(place) {
                waits.insert(*writer, true);
            }
        }
        for place in &writes {
            let readers = reads_since.get(place).into_iter().flatten();
            for other in readers.chain(last_write.get(place)) {
                waits.entry(*other).or_insert(false);
            }
        }
        for place in &reads {
            reads_since.entry(*place).or_default().push(index);
        }
        for place in &writes {
            last_write.insert(*place, index);
            reads_since.remove(place);
        }
        waits.remove(&index);
        steps.push(Step {
            device,
            unit,
            kind,
            reads,
            writes,
            seed: random.next(),
            time: random.below(20_000),
            fails: random.below(20) == 0,
            waits,
        });
    }
    steps
}

/// One after the other.
fn sequential(steps: &[Step]) -> (BTreeMap<Place, u64>, Vec<Expected>) {
    let mut cells = BTreeMap::new();
    let mut outcomes: Vec<Expected> = Vec::new();
    for step in steps {
        let poisoned = step
            .waits
            .iter()
            .any(|(other, propagates)| *propagates && outcomes[*other] != Expected::Complete);
        outcomes.push(if poisoned {
            Expected::Skipped
        } else if step.fails {
            Expected::Failed
        } else {
            let read = |place| cells.get(place).copied().unwrap_or(0);
            let inputs: Vec<u64> = step.reads.iter().map(read).collect();
            for place in &step.writes {
                cells.insert(*place, mix(step.seed, &inputs));
            }
            Expected::Complete
        });
    }
    (cells, outcomes)
}

struct Driver {
    simulation: Simulation,
    steps: Vec<Step>,
    /// The cells of each space.
    memory: Vec<Region>,
    host: Arc<Mutex<Vec<u64>>>,
    signals: Vec<StatusSlot>,
    queues: Vec<VecDeque<usize>>,
    ended: BTreeMap<usize, Completion>,
    /// Uploaded steps with a slot for "all else has ended", and the steps that this still means.
    outside: BTreeMap<usize, (StatusSlot, BTreeSet<usize>)>,
}

impl Driver {
    fn new(configuration: Configuration, steps: Vec<Step>) -> Self {
        let mut simulation = Simulation::new(configuration).unwrap();
        let spaces = simulation.configuration().spaces.len();
        let memory = (0..spaces)
            .map(|space| {
                let length = CELLS * CELL_BYTES;
                let address = simulation
                    .allocate(SpaceId(space as u8), length, 8)
                    .unwrap();
                Region::new(address, length)
            })
            .collect();
        let mut queues = vec![VecDeque::new(); simulation.configuration().devices.len()];
        for (index, step) in steps.iter().enumerate() {
            queues[step.device].push_back(index);
        }
        let mut driver = Self {
            simulation,
            memory,
            host: Arc::new(Mutex::new(vec![0; CELLS as usize])),
            signals: Vec::new(),
            queues,
            ended: BTreeMap::new(),
            outside: BTreeMap::new(),
            steps,
        };
        for step in driver.steps.clone() {
            let space = driver.space_of(&step);
            driver
                .signals
                .push(driver.simulation.reserve_status(space).unwrap());
        }
        driver
    }

    fn space_of(&self, step: &Step) -> SpaceId {
        self.simulation.configuration().devices[step.device].space
    }

    fn cell(&self, place: Place) -> Option<Region> {
        match place {
            Place::Device(space, index) => Some(Region::new(
                self.memory[space].address.add(index * CELL_BYTES),
                CELL_BYTES,
            )),
            Place::Host(_) => None,
        }
    }

    fn command(&self, index: usize) -> Command {
        let step = self.steps[index].clone();
        let resolve = |places: &[Place]| -> Vec<(Place, Option<Region>)> {
            places
                .iter()
                .map(|place| (*place, self.cell(*place)))
                .collect()
        };
        let (reads, writes) = (resolve(&step.reads), resolve(&step.writes));
        let regions = |places: &[(Place, Option<Region>)]| -> Vec<Region> {
            places.iter().filter_map(|(_, region)| *region).collect()
        };
        let (read_regions, write_regions) = (regions(&reads), regions(&writes));
        let host = Arc::clone(&self.host);
        let mut command = Command::new(
            DeviceId(step.device as u16),
            step.kind,
            step.unit,
            Cost::time(step.time),
            move |access| {
                let mut inputs = Vec::new();
                for (place, region) in &reads {
                    inputs.push(match (place, region) {
                        (Place::Host(index), _) => host.lock().unwrap()[*index as usize],
                        (_, Some(region)) => {
                            u64::from_le_bytes(access.read(*region)?.try_into().unwrap())
                        }
                        (_, None) => unreachable!("a device's cell has a region"),
                    });
                }
                let result = mix(step.seed, &inputs);
                for (place, region) in writes {
                    match (place, region) {
                        (Place::Host(index), _) => {
                            let host = Arc::clone(&host);
                            access.at_publication(move || {
                                host.lock().unwrap()[index as usize] = result;
                            });
                        }
                        (_, Some(region)) => {
                            access.write(region)?.copy_from_slice(&result.to_le_bytes());
                        }
                        (_, None) => unreachable!("a device's cell has a region"),
                    }
                }
                // Late, so that it would show if a failed command published.
                if step.fails {
                    Err("as the graph wants".to_owned())
                } else {
                    Ok(())
                }
            },
        )
        .tag(index as u64)
        .signal(self.signals[index]);
        command
            .accesses
            .extend(read_regions.into_iter().map(Access::read));
        command
            .accesses
            .extend(write_regions.into_iter().map(Access::write));
        command
    }

    /// The status that the outside waits of a step come to, once they have all ended.
    fn outside_status(&self, index: usize, outside: &[usize]) -> Status {
        let failure = |other: &usize| {
            self.steps[index].waits[other]
                .then(|| self.ended[other].outcome.failure().map(Arc::clone))
                .flatten()
        };
        outside
            .iter()
            .find_map(failure)
            .map_or(Status::Complete, Status::Failed)
    }

    /// Uploads the first step of a device's queue, if it has a slot.
    fn upload_first(&mut self, device: usize) -> bool {
        let Some(&index) = self.queues[device].front() else {
            return false;
        };
        if self.simulation.credits(DeviceId(device as u16)) == 0 {
            // Asked in vain, so that the notice is tested too.
            let refusal = self.simulation.try_upload(self.command(index)).unwrap_err();
            assert!(matches!(refusal.reason, RefusalReason::NoFreeSlot { .. }));
            return false;
        }
        let mut command = self.command(index);
        let space = self.space_of(&self.steps[index]);
        let mut outside = Vec::new();
        for (&other, &propagates) in &self.steps[index].waits {
            let slot = self.signals[other];
            if slot.space() == space {
                command.waits.push(Wait { slot, propagates });
            } else {
                outside.push(other);
            }
        }
        if !outside.is_empty() {
            let slot = self.simulation.reserve_status(space).unwrap();
            command.waits.push(Wait::needs(slot));
            self.outside
                .insert(index, (slot, outside.into_iter().collect()));
        }
        self.simulation.try_upload(command).unwrap();
        self.queues[device].pop_front();
        self.resolve_outside();
        true
    }

    fn resolve_outside(&mut self) {
        let resolved: Vec<_> = self
            .outside
            .iter()
            .filter(|(_, (_, others))| others.iter().all(|other| self.ended.contains_key(other)))
            .map(|(index, (slot, others))| {
                (*index, *slot, others.iter().copied().collect::<Vec<_>>())
            })
            .collect();
        for (index, slot, others) in resolved {
            let status = self.outside_status(index, &others);
            self.simulation.set_status(slot, status).unwrap();
            self.simulation.release_status(slot).unwrap();
            self.outside.remove(&index);
        }
    }

    fn run(&mut self) {
        for device in 0..self.queues.len() {
            while self.upload_first(device) {}
        }
        while let Some(notice) = self.simulation.run_until_notice() {
            match notice {
                Notice::Completed(completion) => {
                    let before = self.ended.insert(completion.tag as usize, completion);
                    assert!(before.is_none(), "a command ends once");
                    self.resolve_outside();
                }
                Notice::SlotsFree { device, .. } => while self.upload_first(device.0.into()) {},
                other => panic!("{other:?}"),
            }
        }
    }

    fn value(&self, place: Place) -> u64 {
        match (place, self.cell(place)) {
            (Place::Host(index), _) => self.host.lock().unwrap()[index as usize],
            (_, Some(region)) => crate::common::value(&self.simulation, region),
            (_, None) => unreachable!("a device's cell has a region"),
        }
    }
}

fn run_graph(seed: u64, count: usize) -> (Driver, Vec<Record>) {
    let mut random = Random(seed);
    let configuration = random_configuration(&mut random);
    let steps = random_steps(&mut random, &configuration, count);
    let mut driver = Driver::new(configuration, steps);
    driver.run();
    let log = driver.simulation.log().cloned().collect();
    (driver, log)
}

#[test]
fn random_graphs_give_what_program_order_gives() {
    const COUNT: usize = 60;
    let (mut failed, mut skipped) = (0, 0);
    for seed in 0..400 {
        let (mut driver, _) = run_graph(seed, COUNT);
        assert_eq!(driver.ended.len(), COUNT, "seed {seed}: all have ended");
        let (cells, outcomes) = sequential(&driver.steps);
        for (index, expected) in outcomes.iter().enumerate() {
            let found = match &driver.ended[&index].outcome {
                Outcome::Complete => Expected::Complete,
                Outcome::Failed(failure) => {
                    assert!(matches!(&**failure, Failure::Effect { .. }), "{failure}");
                    failed += 1;
                    Expected::Failed
                }
                Outcome::Skipped(_) => {
                    skipped += 1;
                    Expected::Skipped
                }
            };
            assert_eq!(found, *expected, "seed {seed}, step {index}");
            let times = driver.ended[&index].times;
            let states = [
                times.queued,
                times.submitted,
                times.started,
                times.ended,
                times.reported,
            ];
            assert!(states.is_sorted(), "seed {seed}: {times:?}");
        }
        for (place, expected) in cells {
            assert_eq!(driver.value(place), expected, "seed {seed}, {place:?}");
        }
        assert_eq!(driver.simulation.races(), 0, "seed {seed}");
        assert!(driver.simulation.is_idle());
        for slot in std::mem::take(&mut driver.signals) {
            driver.simulation.release_status(slot).unwrap();
        }
        for (index, region) in driver.memory.iter().enumerate() {
            driver.simulation.free(region.address).unwrap();
            let memory = driver.simulation.memory(SpaceId(index as u8)).unwrap();
            assert_eq!(
                (memory.free_status_slots, memory.free),
                (256, memory.capacity)
            );
        }
    }
    assert!(
        failed > 100 && skipped > 100,
        "{failed} failed, {skipped} skipped"
    );
}

#[test]
fn the_same_calls_give_the_same_log() {
    for seed in 0..20 {
        let (first, second) = (run_graph(seed, 80).1, run_graph(seed, 80).1);
        assert!(first.len() > 400, "{}", first.len());
        assert_eq!(first, second, "seed {seed}");
    }
}

#[test]
fn every_wrong_result_of_a_forgotten_dependency_is_named_a_race() {
    let (mut named, mut wrong) = (0, 0);
    for seed in 0..400 {
        let mut random = Random(seed);
        let mut configuration = random_configuration(&mut random);
        configuration.races = RacePolicy::Record;
        // One space and room for all: acts of the host in between would order commands as well.
        configuration.spaces.truncate(1);
        for device in &mut configuration.devices {
            device.space = SpaceId(0);
            device.slots = 64;
        }
        let mut steps = random_steps(&mut random, &configuration, 60);
        for step in &mut steps {
            step.fails = false;
        }
        let (expected, _) = sequential(&steps);
        // Only the machine's own memory is its business; host memory that copies touch is not.
        let victims: Vec<_> = (0..steps.len())
            .filter(|index| steps[*index].unit == Unit::Compute && !steps[*index].waits.is_empty())
            .collect();
        let victim = victims[random.below(victims.len() as u64) as usize];
        steps[victim].waits.clear();
        let mut driver = Driver::new(configuration, steps);
        driver.run();
        let differs = expected
            .iter()
            .any(|(place, value)| driver.value(*place) != *value);
        let races = driver.simulation.races();
        assert!(
            races > 0 || !differs,
            "seed {seed}: a wrong result passed for right"
        );
        wrong += u32::from(differs);
        named += u32::from(races > 0);
    }
    assert!(
        named > 200 && wrong > 100,
        "{named} named, {wrong} wrong results"
    );
}
