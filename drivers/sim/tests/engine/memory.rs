//! Device memory as commands see it: hazards show, nothing else leaks.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::common::{SPACE, cell, map, native, of, region, value};
use quipu_driver_sim::engine::{
    Access, Command, Configuration, Cost, DeviceAddress, DeviceId, Failure, Kind, MemoryError,
    Occurrence, PickOrder, RacePolicy, RefusalReason, Simulation, SpaceId, Unit, Wait,
};

fn set(device: u16, time: u64, to: quipu_driver_sim::engine::Region, number: u64) -> Command {
    map(device, time, to, to, move |_| number)
}

#[test]
fn a_reader_without_its_dependency_sees_the_old_bytes_every_time() {
    for pick_order in [PickOrder::Age, PickOrder::Youngest, PickOrder::Shuffled(1)] {
        for reader_device in [0, 1] {
            let mut configuration = Configuration::shared_memory(2, 1 << 20);
            for device in &mut configuration.devices {
                device.pick_order = pick_order;
                device.kernels_at_once = 4;
            }
            let mut simulation = Simulation::new(configuration).unwrap();
            let (shared, seen) = (cell(&mut simulation, SPACE), cell(&mut simulation, SPACE));
            simulation.try_upload(set(0, 10, shared, 7)).unwrap();
            let reader = map(reader_device, 10_000, shared, seen, |value| value + 1);
            simulation.try_upload(reader).unwrap();
            simulation.run_until_idle();
            assert_eq!(value(&simulation, seen), 1, "{pick_order:?}");
            assert_eq!(simulation.races(), 1);
        }
    }
}

#[test]
fn a_writer_that_overtakes_a_running_reader_is_found() {
    let run = |races| {
        let mut configuration = Configuration::shared_memory(2, 1 << 20);
        configuration.races = races;
        let mut simulation = Simulation::new(configuration).unwrap();
        let (shared, seen) = (cell(&mut simulation, SPACE), cell(&mut simulation, SPACE));
        let reader = simulation
            .try_upload(map(0, 10_000, shared, seen, |value| value))
            .unwrap();
        let writer = simulation.try_upload(set(1, 10, shared, 7)).unwrap();
        let completions = simulation.run_until_idle();
        assert_eq!(simulation.races(), 1);
        assert!(
            simulation
                .log()
                .any(|record| matches!(record.what, Occurrence::Raced(race)
            if race.earlier == reader && race.later == writer))
        );
        let outcome = of(&completions, writer).outcome.clone();
        (outcome, value(&simulation, shared))
    };
    let (outcome, written) = run(RacePolicy::Record);
    assert!(outcome.is_complete());
    assert_eq!(written, 7);
    let (outcome, written) = run(RacePolicy::Fail);
    assert!(matches!(**outcome.failure().unwrap(), Failure::Race { .. }));
    assert_eq!(written, 0);
}

#[test]
fn two_writers_of_different_bytes_of_a_declared_region_keep_both() {
    let mut simulation = Simulation::new(Configuration::shared_memory(2, 1 << 20)).unwrap();
    let address = simulation.allocate(SPACE, 1000, 64).unwrap();
    let whole = region(address, 1000);
    for device in 0..2_u16 {
        let command = Command::new(
            DeviceId(device),
            Kind::Native,
            Unit::Compute,
            Cost::time(1_000),
            move |access| {
                let bytes = access.write(whole)?;
                for byte in bytes.iter_mut().skip(usize::from(device)).step_by(2) {
                    *byte = 10 + device as u8;
                }
                Ok(())
            },
        );
        simulation
            .try_upload(command.access(Access::write(whole)))
            .unwrap();
    }
    simulation.run_until_idle();
    let expected: Vec<u8> = (0..1000).map(|index| 10 + (index % 2) as u8).collect();
    assert_eq!(simulation.inspect(whole).unwrap(), expected);
}

#[test]
fn pointers_see_overlapping_arguments_and_keep_their_alignment() {
    let mut simulation = Simulation::new(Configuration::shared_memory(1, 1 << 20)).unwrap();
    let address = simulation.allocate(SPACE, 8192, 4096).unwrap();
    let (input, output) = (region(address.add(64), 128), region(address.add(128), 128));
    let other = region(address.add(4096), 64);
    let command = Command::new(
        DeviceId(0),
        Kind::Native,
        Unit::Compute,
        Cost::default(),
        move |access| {
            let from = access.read_pointer(input)?;
            let to = access.write_pointer(output)?;
            let unwritten = access.read_pointer(other)?;
            // The same bytes are at the same place, whichever argument names them.
            assert_eq!(from.addr() + 64, to.addr());
            assert_eq!(from.addr() % 4096, 64);
            assert_eq!(unwritten.addr() % 64, 0);
            // Regions of no bytes are anywhere.
            assert_eq!(access.read(region(address, 0))?, [0_u8; 0]);
            access.fill(output, &[1, 2, 3])?;
            assert_eq!(access.read(input)?[62..67], [0, 0, 1, 2, 3]);
            access.copy(region(output.address, 3), output.address.add(1))?;
            Ok(())
        },
    )
    .access(Access::read(input))
    .access(Access::write(output))
    .access(Access::read(other));
    simulation.try_upload(command).unwrap();
    assert!(simulation.run_until_idle()[0].outcome.is_complete());
    assert_eq!(
        simulation.inspect(region(output.address, 5)).unwrap(),
        [1, 1, 2, 3, 2]
    );
}

#[test]
fn effects_reach_only_what_was_declared() {
    let mut simulation = Simulation::new(Configuration::separate_memory(2, 1 << 20)).unwrap();
    let mine = cell(&mut simulation, SpaceId(0));
    let undeclared = cell(&mut simulation, SpaceId(0));
    let foreign = cell(&mut simulation, SpaceId(1));
    let attempt =
        |simulation: &mut Simulation, bad: quipu_driver_sim::engine::Region, write: bool| {
            let command = Command::new(
                DeviceId(0),
                Kind::Native,
                Unit::Compute,
                Cost::default(),
                move |access| {
                    access.read(mine)?;
                    if write {
                        access.write(bad)?.fill(1);
                    } else {
                        access.read(bad)?;
                    }
                    Ok(())
                },
            );
            simulation
                .try_upload(command.access(Access::read(mine)))
                .unwrap();
            let completions = simulation.run_until_idle();
            completions[0].outcome.failure().unwrap().to_string()
        };
    for (bad, write) in [
        (undeclared, false),
        (undeclared, true),
        (mine, true),
        (foreign, false),
    ] {
        assert!(attempt(&mut simulation, bad, write).contains("without having declared it"));
    }
    assert_eq!(value(&simulation, mine), 0);

    // Declaring does not help where the device cannot reach.
    let on_stack = 0_u64;
    let host_pointer = DeviceAddress::from_raw((&raw const on_stack).addr() as u64);
    for (bad, expected) in [
        (foreign, "wrong space"),
        (region(mine.address, 9), "out of bounds"),
        (region(host_pointer, 8), "not allocated"),
    ] {
        let command = native(0, 1).access(Access::read(bad));
        let RefusalReason::Memory(error) = simulation.try_upload(command).unwrap_err().reason
        else {
            panic!("refused for its memory");
        };
        let found = match error {
            MemoryError::WrongSpace { .. } => "wrong space",
            MemoryError::OutOfBounds { .. } => "out of bounds",
            MemoryError::NotAllocated { .. } => "not allocated",
            _ => "something else",
        };
        assert_eq!(found, expected);
    }
}

#[test]
fn memory_is_kept_while_an_uploaded_command_uses_it() {
    let mut simulation = Simulation::new(Configuration::shared_memory(1, 1 << 20)).unwrap();
    let used = cell(&mut simulation, SPACE);
    simulation.try_upload(set(0, 10, used, 1)).unwrap();
    assert!(matches!(
        simulation.free(used.address),
        Err(MemoryError::InUse { users: 1, .. })
    ));
    simulation.run_until_idle();
    simulation.free(used.address).unwrap();
    assert!(simulation.inspect(used).is_err());
    let memory = simulation.memory(SPACE).unwrap();
    assert_eq!((memory.free, memory.allocations), (memory.capacity, 0));
}

#[test]
fn a_copy_to_the_host_reads_at_its_start_and_arrives_at_its_end() {
    let mut simulation = Simulation::new(Configuration::shared_memory(1, 1 << 20)).unwrap();
    let source = cell(&mut simulation, SPACE);
    let done = simulation.reserve_status(SPACE).unwrap();
    simulation
        .try_upload(set(0, 10, source, 9).signal(done))
        .unwrap();
    let host = Arc::new(AtomicU64::new(0));
    let target = Arc::clone(&host);
    let copy = Command::new(
        DeviceId(0),
        Kind::Copy,
        Unit::CopyOut,
        Cost::bytes(8),
        move |access| {
            let bytes = access.read(source)?.try_into().expect("a cell has 8 bytes");
            access
                .at_publication(move || target.store(u64::from_le_bytes(bytes), Ordering::Relaxed));
            Ok(())
        },
    );
    let copy = copy.access(Access::read(source)).wait(Wait::needs(done));
    let id = simulation.try_upload(copy).unwrap();
    let started = |simulation: &Simulation| {
        simulation.log().any(
            |record| matches!(record.what, Occurrence::Started { command, .. } if command == id),
        )
    };
    while !started(&simulation) {
        simulation.step();
    }
    simulation.step();
    assert_eq!(host.load(Ordering::Relaxed), 0);
    simulation.run_until_idle();
    assert_eq!(host.load(Ordering::Relaxed), 9);
}
