//! Faults on demand: each has its stated effect and corrupts nothing.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::common::{SPACE, cell, kernel, map, native, of, value};
use quipu_driver_sim::engine::{
    Access, Command, Configuration, Cost, DeviceId, Failure, Fault, KernelId, Kind, KindFilter,
    MemoryError, Misreport, Notice, Outcome, RefusalReason, Simulation, SpaceId, Unit, Wait,
};

const DEVICE: DeviceId = DeviceId(0);

fn machine(devices: u16, fault: Fault) -> Simulation {
    let mut configuration = Configuration::shared_memory(devices, 1 << 20);
    configuration.faults.push(fault);
    Simulation::new(configuration).unwrap()
}

#[test]
fn the_nth_command_fails_once_and_writes_nothing() {
    let mut simulation = machine(
        1,
        Fault::FailCommand {
            device: DEVICE,
            nth: 2,
        },
    );
    let cells: Vec<_> = (0..3).map(|_| cell(&mut simulation, SPACE)).collect();
    let ids: Vec<_> = cells
        .iter()
        .map(|cell| {
            simulation
                .try_upload(map(0, 10, *cell, *cell, |_| 5))
                .unwrap()
        })
        .collect();
    let completions = simulation.run_until_idle();
    let complete = ids.map_outcomes(&completions);
    assert_eq!(complete, [true, false, true]);
    let failure = of(&completions, ids[1]).outcome.failure().unwrap();
    assert!(matches!(
        **failure,
        Failure::Injected { device: DEVICE, .. }
    ));
    let values: Vec<_> = cells.iter().map(|cell| value(&simulation, *cell)).collect();
    assert_eq!(values, [5, 0, 5]);
    let times = of(&completions, ids[1]).times;
    assert_eq!(times.ended - times.started, 2_010, "it took its time");
}

trait Outcomes {
    fn map_outcomes(&self, completions: &[quipu_driver_sim::engine::Completion]) -> Vec<bool>;
}

impl Outcomes for Vec<quipu_driver_sim::engine::CommandId> {
    fn map_outcomes(&self, completions: &[quipu_driver_sim::engine::Completion]) -> Vec<bool> {
        self.iter()
            .map(|id| of(completions, *id).outcome.is_complete())
            .collect()
    }
}

#[test]
fn every_command_of_a_kind_fails() {
    for (filter, expected) in [
        (KindFilter::AnyKernel, [false, false, true]),
        (
            KindFilter::Only(Kind::Kernel(KernelId(2))),
            [true, false, true],
        ),
        (KindFilter::Only(Kind::Native), [true, true, false]),
    ] {
        let mut simulation = machine(
            1,
            Fault::FailKind {
                device: None,
                kind: filter,
            },
        );
        for _ in 0..2 {
            let ids: Vec<_> = [kernel(0, 1), kernel(0, 2), native(0, 1)]
                .into_iter()
                .map(|command| simulation.try_upload(command).unwrap())
                .collect();
            let completions = simulation.run_until_idle();
            assert_eq!(ids.map_outcomes(&completions), expected);
        }
    }
}

#[test]
fn out_of_memory_at_the_nth_allocation() {
    let mut simulation = machine(
        1,
        Fault::OutOfMemory {
            space: SPACE,
            nth: 2,
        },
    );
    simulation.allocate(SPACE, 8, 8).unwrap();
    let error = simulation.allocate(SPACE, 8, 8).unwrap_err();
    assert!(matches!(
        error,
        MemoryError::OutOfMemory {
            asked: 8,
            capacity: 1_048_576,
            ..
        }
    ));
    simulation.allocate(SPACE, 8, 8).unwrap();
}

#[test]
fn a_real_shortage_names_the_sizes() {
    let mut simulation = Simulation::new(Configuration::shared_memory(1, 1000)).unwrap();
    simulation.allocate(SPACE, 600, 1).unwrap();
    assert_eq!(
        simulation.allocate(SPACE, 500, 1),
        Err(MemoryError::OutOfMemory {
            space: SPACE,
            asked: 500,
            free: 400,
            largest: 400,
            capacity: 1000
        })
    );
    assert_eq!(
        simulation.allocate(SpaceId(4), 1, 1),
        Err(MemoryError::UnknownSpace { space: SpaceId(4) })
    );
}

#[test]
fn a_second_report_of_the_same_end_is_counted_and_ignored() {
    let mut configuration = Configuration::shared_memory(1, 1 << 20);
    configuration.faults.push(Fault::Misreport {
        device: DEVICE,
        nth: 1,
        how: Misreport::Twice,
    });
    configuration.devices[0].slots = 1;
    let mut simulation = Simulation::new(configuration).unwrap();
    let first = simulation.try_upload(native(0, 10)).unwrap();
    assert!(simulation.try_upload(native(0, 10)).is_err());
    let notice = simulation.run_until_notice();
    assert!(matches!(notice, Some(Notice::Completed(completion)) if completion.command == first));
    // The slot belongs to another command by the time of the second report.
    let second = simulation.try_upload(native(0, 1_000_000)).unwrap();
    let rest = simulation.run_until_idle();
    assert_eq!(rest.len(), 1);
    assert_eq!(rest[0].command, second);
    let statistics = simulation.statistics(DEVICE).unwrap();
    assert_eq!((statistics.duplicate_reports, statistics.completed), (1, 2));
    assert_eq!(simulation.credits(DEVICE), 1);
}

#[test]
fn an_end_that_is_not_reported_is_asked_for_when_nothing_else_happens() {
    let fault = Fault::Misreport {
        device: DEVICE,
        nth: 1,
        how: Misreport::Never,
    };
    let mut simulation = machine(1, fault);
    let silent = simulation.try_upload(native(0, 10)).unwrap();
    let other = simulation.try_upload(native(0, 1_000)).unwrap();
    let seen: Vec<_> = simulation.run_until_idle();
    let seen: Vec<_> = seen.iter().map(|end| (end.command, &end.outcome)).collect();
    assert_eq!(
        seen,
        [(other, &Outcome::Complete), (silent, &Outcome::Complete)]
    );
    assert!(simulation.is_idle());
    let statistics = simulation.statistics(DEVICE).unwrap();
    assert_eq!((statistics.missing_reports, statistics.completed), (1, 2));
}

#[test]
fn an_end_that_is_reported_too_early_is_not_believed() {
    let fault = Fault::Misreport {
        device: DEVICE,
        nth: 1,
        how: Misreport::Early,
    };
    let mut simulation = machine(1, fault);
    let id = simulation.try_upload(native(0, 1_000_000)).unwrap();
    let ends = simulation.run_until_idle();
    assert_eq!(ends.len(), 1);
    assert_eq!(
        (ends[0].command, &ends[0].outcome),
        (id, &Outcome::Complete)
    );
    assert!(ends[0].times.reported >= ends[0].times.started + 1_000_000);
    let statistics = simulation.statistics(DEVICE).unwrap();
    assert_eq!((statistics.early_reports, statistics.completed), (1, 1));
}

#[test]
fn a_slow_command_takes_its_factor() {
    let mut simulation = machine(
        1,
        Fault::Slow {
            device: DEVICE,
            nth: 2,
            factor: 100,
        },
    );
    let ids: Vec<_> = (0..3)
        .map(|_| simulation.try_upload(native(0, 1_000)).unwrap())
        .collect();
    let completions = simulation.run_until_idle();
    let durations: Vec<_> = ids
        .iter()
        .map(|id| of(&completions, *id).times)
        .map(|times| times.ended - times.started)
        .collect();
    assert_eq!(durations, [3_000, 300_000, 3_000]);
}

#[test]
fn a_lost_device_fails_all_it_has_and_the_others_go_on() {
    let mut simulation = machine(
        2,
        Fault::LoseDevice {
            device: DEVICE,
            nth: 2,
        },
    );
    let cells: Vec<_> = (0..3).map(|_| cell(&mut simulation, SPACE)).collect();
    let lost_signal = simulation.reserve_status(SPACE).unwrap();
    let never = simulation.reserve_status(SPACE).unwrap();
    // A copy that is running when its device goes, in the other unit.
    let running = Command::new(DEVICE, Kind::Copy, Unit::CopyIn, Cost::time(1_000_000), {
        let to = cells[0];
        move |access| {
            access.write(to)?.fill(1);
            Ok(())
        }
    });
    let running = running.access(Access::write(cells[0]));
    let ids: Vec<_> = [
        running,
        map(0, 10, cells[1], cells[1], |_| 1).signal(lost_signal),
        native(0, 10).wait(Wait::needs(never)),
        native(1, 10).wait(Wait::needs(lost_signal)),
        native(1, 10).wait(Wait::after(lost_signal)),
        map(1, 10_000_000, cells[2], cells[2], |_| 3),
    ]
    .into_iter()
    .map(|command| simulation.try_upload(command).unwrap())
    .collect();
    let mut completions = Vec::new();
    let mut losses = 0;
    while let Some(notice) = simulation.run_until_notice() {
        match notice {
            Notice::DeviceLost {
                device,
                memory_lost,
            } => {
                assert_eq!((device, memory_lost), (DEVICE, false));
                losses += 1;
            }
            other => completions.extend(other.completion()),
        }
    }
    assert_eq!(losses, 1);
    let lost = Arc::new(Failure::DeviceLost { device: DEVICE });
    for id in &ids[..3] {
        assert_eq!(
            of(&completions, *id).outcome,
            Outcome::Failed(Arc::clone(&lost))
        );
    }
    assert_eq!(of(&completions, ids[3]).outcome, Outcome::Skipped(lost));
    assert!(of(&completions, ids[4]).outcome.is_complete());
    assert!(of(&completions, ids[5]).outcome.is_complete());
    let values: Vec<_> = cells.iter().map(|cell| value(&simulation, *cell)).collect();
    assert_eq!(values, [0, 0, 3], "the memory is shared with a survivor");
    assert!(simulation.is_lost(DEVICE));
    assert_eq!(simulation.credits(DEVICE), 0);
    let refusal = simulation.try_upload(native(0, 1)).unwrap_err();
    assert!(matches!(refusal.reason, RefusalReason::Device(_)));
    assert_eq!(simulation.in_flight(), 0);
}

#[test]
fn memory_goes_with_the_last_device_of_its_space() {
    let mut simulation = Simulation::new(Configuration::separate_memory(2, 1 << 20)).unwrap();
    let cell = cell(&mut simulation, SpaceId(0));
    simulation.lose_device(DEVICE).unwrap();
    assert!(matches!(
        simulation.run_until_notice(),
        Some(Notice::DeviceLost {
            device: DEVICE,
            memory_lost: true
        })
    ));
    assert_eq!(
        simulation.inspect(cell),
        Err(MemoryError::SpaceLost { space: SpaceId(0) })
    );
    assert_eq!(
        simulation.allocate(SpaceId(0), 8, 8),
        Err(MemoryError::SpaceLost { space: SpaceId(0) })
    );
    simulation.free(cell.address).unwrap();
    assert!(simulation.lose_device(DEVICE).is_err());
    simulation.try_upload(native(1, 10)).unwrap();
    assert!(simulation.run_until_idle()[0].outcome.is_complete());
}

#[test]
fn faults_armed_later_count_from_then() {
    let mut simulation = Simulation::new(Configuration::shared_memory(1, 1 << 20)).unwrap();
    simulation.try_upload(native(0, 1)).unwrap();
    simulation.run_until_idle();
    simulation
        .arm(Fault::FailCommand {
            device: DEVICE,
            nth: 1,
        })
        .unwrap();
    assert!(
        simulation
            .arm(Fault::FailCommand {
                device: DEVICE,
                nth: 0
            })
            .is_err()
    );
    simulation.try_upload(native(0, 1)).unwrap();
    assert!(!simulation.run_until_idle()[0].outcome.is_complete());
}

#[test]
fn a_panic_in_an_effect_or_a_publication_fails_its_command_only() {
    let mut simulation = Simulation::new(Configuration::shared_memory(1, 1 << 20)).unwrap();
    let target = cell(&mut simulation, SPACE);
    let panics = |at_end: bool| {
        let effect = move |access: &mut quipu_driver_sim::engine::MemoryAccess<'_>| {
            access.write(target)?.fill(1);
            assert!(at_end, "at the start");
            access.at_publication(|| panic!("at the end"));
            Ok(())
        };
        Command::new(DEVICE, Kind::Native, Unit::Compute, Cost::time(10), effect)
            .access(Access::write(target))
    };
    for (at_end, expected) in [(false, "at the start"), (true, "at the end")] {
        simulation.try_upload(panics(at_end)).unwrap();
        let completions = simulation.run_until_idle();
        let failure = completions[0].outcome.failure().unwrap();
        assert!(matches!(&**failure, Failure::Panicked { message, .. } if message == expected));
    }
    assert_eq!(value(&simulation, target), 0);
    simulation.try_upload(native(0, 1)).unwrap();
    assert!(simulation.run_until_idle()[0].outcome.is_complete());
}

#[test]
fn shutting_down_ends_everything_once() {
    let mut simulation = Simulation::new(Configuration::shared_memory(1, 1 << 20)).unwrap();
    let gate = simulation.reserve_status(SPACE).unwrap();
    let dropped = Arc::new(AtomicBool::new(false));
    struct OnDrop(Arc<AtomicBool>);
    impl Drop for OnDrop {
        fn drop(&mut self) {
            self.0.store(true, Ordering::Relaxed);
        }
    }
    let guard = OnDrop(Arc::clone(&dropped));
    let held = Command::new(
        DEVICE,
        Kind::Native,
        Unit::Compute,
        Cost::default(),
        move |_| {
            let _held = &guard;
            Ok(())
        },
    );
    let waiting = simulation.try_upload(held.wait(Wait::needs(gate))).unwrap();
    let recalled = simulation
        .try_upload(native(0, 1).wait(Wait::needs(gate)).tag(3))
        .unwrap();
    simulation.run_until_idle();
    simulation.recall(recalled);
    simulation.step();
    simulation.shut_down();
    let mut ended = Vec::new();
    while let Some(notice) = simulation.run_until_notice() {
        ended.push(match notice {
            Notice::Completed(completion) => {
                assert_eq!(
                    completion.outcome,
                    Outcome::Failed(Arc::new(Failure::ShutDown))
                );
                completion.command
            }
            Notice::Recalled { id, .. } => id,
            other => panic!("{other:?}"),
        });
    }
    assert_eq!(ended, [waiting, recalled]);
    assert!(dropped.load(Ordering::Relaxed));
    let refusal = simulation.try_upload(native(0, 1)).unwrap_err();
    assert_eq!(refusal.reason, RefusalReason::ShutDown);
    assert!(simulation.is_idle());
}
