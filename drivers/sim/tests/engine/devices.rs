//! Queues, units, status slots and images of simulated devices.

use std::sync::Arc;

use crate::common::{SPACE, cell, kernel, map, native, of, value};
use quipu_driver_sim::engine::{
    Command, CommandId, Configuration, Cost, DeviceId, Failure, ImageConfiguration, KernelId, Kind,
    Notice, Occurrence, Outcome, PickOrder, RefusalReason, Simulation, SpaceConfiguration, SpaceId,
    Status, StatusError, Unit, Wait,
};

fn run_until_started(simulation: &mut Simulation, id: CommandId) {
    while !simulation
        .log()
        .any(|record| matches!(record.what, Occurrence::Started { command, .. } if command == id))
    {
        simulation.step();
    }
}

#[test]
fn a_pipeline_of_three_devices_in_shared_memory_needs_the_host_only_to_upload() {
    const FRAMES: u64 = 5;
    let mut simulation = Simulation::new(Configuration::shared_memory(3, 1 << 20)).unwrap();
    let mut outputs = Vec::new();
    for frame in 0..FRAMES {
        let cells: Vec<_> = (0..4).map(|_| cell(&mut simulation, SPACE)).collect();
        let mut before = None;
        for device in 0..3_u16 {
            let slot = simulation.reserve_status(SPACE).unwrap();
            let index = usize::from(device);
            let mut command = map(
                device,
                1_000,
                cells[index],
                cells[index + 1],
                move |input| (input + frame + 1) * 10,
            )
            .signal(slot);
            command.waits.extend(before.map(Wait::needs));
            before = Some(slot);
            simulation.try_upload(command).unwrap();
        }
        outputs.push(cells[3]);
    }
    let uploads = simulation.interactions();
    let completions = simulation.run_until_idle();
    assert_eq!(completions.len(), 15);
    assert!(
        completions
            .iter()
            .all(|completion| completion.outcome.is_complete())
    );
    for (frame, output) in (1..).zip(outputs) {
        assert_eq!(value(&simulation, output), frame * 1110);
    }
    assert_eq!(simulation.interactions(), uploads);
    assert_eq!((uploads.uploads, uploads.status_writes), (15, 0));
    // It is a pipeline: the devices work at the same time on different frames.
    let total: u64 = completions
        .iter()
        .map(|completion| completion.times.ended - completion.times.started)
        .sum();
    assert!(simulation.now() < total * 2 / 3);
    assert_eq!(simulation.races(), 0);
}

#[test]
fn copies_overlap_kernels_and_each_other() {
    let mut simulation = Simulation::new(Configuration::shared_memory(1, 1 << 20)).unwrap();
    let mut ids = Vec::new();
    for unit in [Unit::Compute, Unit::CopyIn, Unit::CopyOut] {
        let command = Command::new(DeviceId(0), Kind::Native, unit, Cost::time(100_000), |_| {
            Ok(())
        });
        ids.push(simulation.try_upload(command).unwrap());
    }
    let second = simulation.try_upload(native(0, 100_000)).unwrap();
    let completions = simulation.run_until_idle();
    let starts: Vec<_> = ids
        .iter()
        .map(|id| of(&completions, *id).times.started)
        .collect();
    assert!(starts.iter().all(|start| *start == starts[0]), "{starts:?}");
    // The compute unit itself runs one at a time.
    assert!(of(&completions, second).times.started >= of(&completions, ids[0]).times.ended);
    let device = DeviceId(0);
    assert!(simulation.utilisation(device, Unit::Compute) > 0.95);
    assert!(simulation.utilisation(device, Unit::CopyIn) < 0.55);
    let statistics = simulation.statistics(device).unwrap();
    assert_eq!(statistics.busy(Unit::CopyIn), 101_000);
    assert_eq!(statistics.busy(Unit::Compute), 204_000);
}

#[test]
fn kernels_at_once_share_the_compute_unit() {
    let mut configuration = Configuration::shared_memory(1, 1 << 20);
    configuration.devices[0].kernels_at_once = 2;
    let mut simulation = Simulation::new(configuration).unwrap();
    let ids: Vec<_> = (0..3)
        .map(|_| simulation.try_upload(native(0, 1_000)).unwrap())
        .collect();
    let completions = simulation.run_until_idle();
    let started = |index: usize| of(&completions, ids[index]).times.started;
    assert_eq!(started(0), started(1));
    assert!(started(2) >= of(&completions, ids[0]).times.ended);
}

#[test]
fn a_thousand_commands_go_through_four_slots() {
    let mut configuration = Configuration::shared_memory(1, 1 << 20);
    configuration.devices[0].slots = 4;
    let mut simulation = Simulation::new(configuration).unwrap();
    let device = DeviceId(0);
    let mut pending: Vec<_> = (0..1000_u64)
        .rev()
        .map(|tag| native(0, 10).tag(tag))
        .collect();
    let mut ended = Vec::new();
    let mut refusals = 0;
    while let Some(command) = pending.pop() {
        let credits = simulation.credits(device);
        match simulation.try_upload(command) {
            Ok(_) => assert_eq!(simulation.credits(device), credits - 1),
            Err(refusal) => {
                assert_eq!(credits, 0);
                assert!(matches!(
                    refusal.reason,
                    RefusalReason::NoFreeSlot { slots: 4, .. }
                ));
                refusals += 1;
                pending.push(*refusal.command);
                // The notice comes after the completion that freed the slot.
                loop {
                    match simulation.run_until_notice().expect("slots become free") {
                        Notice::Completed(completion) => ended.push(completion.tag),
                        Notice::SlotsFree { credits, .. } => break assert!(credits > 0),
                        other => panic!("{other:?}"),
                    }
                }
            }
        }
        assert!(simulation.in_flight() <= 4);
    }
    ended.extend(
        simulation
            .run_until_idle()
            .iter()
            .map(|completion| completion.tag),
    );
    ended.sort_unstable();
    assert_eq!(ended, (0..1000).collect::<Vec<_>>());
    assert!(refusals > 100);
    assert_eq!(simulation.credits(device), 4);
}

#[test]
fn ready_commands_overtake_blocked_ones() {
    let mut simulation = Simulation::new(Configuration::shared_memory(1, 1 << 20)).unwrap();
    let gate = simulation.reserve_status(SPACE).unwrap();
    let blocked = simulation
        .try_upload(native(0, 10).wait(Wait::needs(gate)))
        .unwrap();
    let free = simulation.try_upload(native(0, 10)).unwrap();
    let first = simulation.run_until_idle();
    assert_eq!(first.len(), 1);
    assert_eq!(first[0].command, free);
    simulation.set_status(gate, Status::Complete).unwrap();
    let second = simulation.run_until_idle();
    assert_eq!(second[0].command, blocked);
    let times = second[0].times;
    assert!(times.queued <= times.submitted && times.submitted < times.started);
    assert!(times.started < times.ended && times.ended < times.reported);
    assert_eq!(simulation.interactions().status_writes, 1);
}

#[test]
fn pick_orders_differ_where_nothing_orders_the_commands() {
    let order = |pick_order| {
        let mut configuration = Configuration::shared_memory(1, 1 << 20);
        configuration.devices[0].pick_order = pick_order;
        let mut simulation = Simulation::new(configuration).unwrap();
        for tag in 0..8 {
            simulation.try_upload(native(0, 10).tag(tag)).unwrap();
        }
        let completions = simulation.run_until_idle();
        completions
            .iter()
            .map(|completion| completion.tag)
            .collect::<Vec<_>>()
    };
    assert_eq!(order(PickOrder::Age), [0, 1, 2, 3, 4, 5, 6, 7]);
    assert_eq!(order(PickOrder::Youngest), [7, 6, 5, 4, 3, 2, 1, 0]);
    assert_eq!(order(PickOrder::Shuffled(3)), order(PickOrder::Shuffled(3)));
    assert_ne!(order(PickOrder::Shuffled(3)), order(PickOrder::Shuffled(4)));
}

#[test]
fn slot_order_is_not_the_order_of_upload_once_slots_are_reused() {
    let mut configuration = Configuration::shared_memory(1, 1 << 20);
    configuration.devices[0].pick_order = PickOrder::Slot;
    configuration.devices[0].slots = 3;
    let mut simulation = Simulation::new(configuration).unwrap();
    let gate = simulation.reserve_status(SPACE).unwrap();
    let late = |tag| native(0, 10).tag(tag).wait(Wait::needs(gate));
    simulation.try_upload(native(0, 10)).unwrap();
    simulation.try_upload(late(1)).unwrap();
    assert_eq!(simulation.run_until_idle().len(), 1);
    simulation.try_upload(late(2)).unwrap();
    simulation.set_status(gate, Status::Complete).unwrap();
    let completions = simulation.run_until_idle();
    assert_eq!((completions[0].tag, completions[1].tag), (2, 1));
}

#[test]
fn markers_end_beside_a_running_kernel() {
    let mut simulation = Simulation::new(Configuration::shared_memory(1, 1 << 20)).unwrap();
    simulation.try_upload(native(0, 1_000_000)).unwrap();
    let marker = simulation.try_upload(Command::marker(DeviceId(0))).unwrap();
    let completions = simulation.run_until_idle();
    assert_eq!(completions[0].command, marker);
}

#[test]
fn known_kernels_build_nothing_and_new_ones_build_once() {
    let mut simulation = Simulation::new(Configuration::shared_memory(2, 1 << 20)).unwrap();
    let device = DeviceId(0);
    let flush = |simulation: &mut Simulation, kernels: &[u64]| {
        let ids: Vec<_> = kernels.iter().map(|id| KernelId(*id)).collect();
        simulation.prepare_kernels(device, &ids).unwrap();
        for id in kernels {
            simulation.try_upload(kernel(0, *id)).unwrap();
        }
        let completions = simulation.run_until_idle();
        assert_eq!(completions.len(), kernels.len());
        simulation.image_builds(device)
    };
    assert_eq!(flush(&mut simulation, &[1, 2, 3]), 1);
    assert_eq!(flush(&mut simulation, &[1, 2, 3]), 1);
    assert_eq!(flush(&mut simulation, &[3, 3]), 1);
    assert_eq!(flush(&mut simulation, &[4, 1]), 2);
    assert_eq!(
        flush(&mut simulation, &[1, 2, 3, 4]),
        2,
        "the union was loaded"
    );
    assert_eq!(simulation.image_builds(DeviceId(1)), 0);
    let image = ImageConfiguration::default();
    let statistics = simulation.statistics(device).unwrap();
    assert_eq!(
        statistics.image_time,
        2 * (image.build_time + image.upload_time)
    );
}

#[test]
fn kernels_that_nobody_named_are_built_when_ready_after_what_runs() {
    let mut simulation = Simulation::new(Configuration::shared_memory(1, 1 << 20)).unwrap();
    simulation.try_upload(kernel(0, 1)).unwrap();
    simulation.run_until_idle();
    let gate = simulation.reserve_status(SPACE).unwrap();
    let running = simulation.try_upload(native(0, 1_000_000)).unwrap();
    run_until_started(&mut simulation, running);
    let blocked = simulation
        .try_upload(kernel(0, 1).wait(Wait::needs(gate)))
        .unwrap();
    let new = simulation.try_upload(kernel(0, 2)).unwrap();
    let completions = simulation.run_until_idle();
    // The device is drained of running commands; blocked ones do not hold the image up.
    let image = ImageConfiguration::default();
    let ready = of(&completions, running).times.ended + image.build_time + image.upload_time;
    assert!(of(&completions, new).times.started >= ready);
    assert_eq!(simulation.image_builds(DeviceId(0)), 2);
    simulation.set_status(gate, Status::Complete).unwrap();
    assert_eq!(simulation.run_until_idle()[0].command, blocked);
    assert_eq!(simulation.image_builds(DeviceId(0)), 2);
}

#[test]
fn an_image_too_small_for_all_kernels_still_runs_them_all() {
    let mut configuration = Configuration::shared_memory(1, 1 << 20);
    configuration.devices[0].image.capacity = 1;
    for pick_order in [PickOrder::Age, PickOrder::Youngest] {
        configuration.devices[0].pick_order = pick_order;
        let mut simulation = Simulation::new(configuration.clone()).unwrap();
        simulation
            .prepare_kernels(DeviceId(0), &[KernelId(0), KernelId(1)])
            .unwrap();
        for id in 0..12 {
            simulation.try_upload(kernel(0, id % 2)).unwrap();
        }
        assert_eq!(simulation.run_until_idle().len(), 12);
        let builds = simulation.image_builds(DeviceId(0));
        assert!((2..=13).contains(&builds), "{builds}");
    }
}

#[test]
fn a_failed_status_skips_who_needs_it_and_only_those() {
    let mut simulation = Simulation::new(Configuration::shared_memory(2, 1 << 20)).unwrap();
    let slots: Vec<_> = (0..3)
        .map(|_| simulation.reserve_status(SPACE).unwrap())
        .collect();
    let failing = Command::new(
        DeviceId(0),
        Kind::Native,
        Unit::Compute,
        Cost::time(10),
        |_| Err("the disk is full".to_owned()),
    );
    let first = simulation
        .try_upload(failing.signal(slots[0]).tag(7))
        .unwrap();
    let needs = native(1, 10).wait(Wait::needs(slots[0])).signal(slots[1]);
    let needs = simulation.try_upload(needs).unwrap();
    let deep = native(0, 10).wait(Wait::needs(slots[1])).signal(slots[2]);
    let deep = simulation.try_upload(deep).unwrap();
    let after = simulation
        .try_upload(native(1, 10).wait(Wait::after(slots[2])))
        .unwrap();
    let completions = simulation.run_until_idle();
    let cause = of(&completions, first).outcome.failure().unwrap();
    assert!(
        matches!(&**cause, Failure::Effect { tag: 7, message, .. } if message == "the disk is full")
    );
    assert!(
        cause
            .to_string()
            .contains("simulated device 0: the disk is full")
    );
    for skipped in [needs, deep] {
        let outcome = &of(&completions, skipped).outcome;
        assert_eq!(outcome, &Outcome::Skipped(Arc::clone(cause)));
    }
    assert_eq!(of(&completions, after).outcome, Outcome::Complete);
    assert_eq!(simulation.statistics(DeviceId(0)).unwrap().skipped, 1);
}

#[test]
fn a_skipped_command_ends_after_everything_it_waits_for() {
    let mut simulation = Simulation::new(Configuration::shared_memory(2, 1 << 20)).unwrap();
    let slow = simulation.reserve_status(SPACE).unwrap();
    let failed = simulation.reserve_status(SPACE).unwrap();
    let running = simulation
        .try_upload(native(0, 1_000_000).signal(slow))
        .unwrap();
    let host = Failure::Host {
        message: "the file is gone".to_owned(),
    };
    simulation
        .set_status(failed, Status::Failed(Arc::new(host.clone())))
        .unwrap();
    let command = native(1, 10)
        .wait(Wait::needs(failed))
        .wait(Wait::after(slow));
    let skipped = simulation.try_upload(command).unwrap();
    let completions = simulation.run_until_idle();
    let end = &of(&completions, skipped);
    assert_eq!(end.outcome, Outcome::Skipped(Arc::new(host)));
    assert!(end.times.ended >= of(&completions, running).times.ended);
}

#[test]
fn wrong_uploads_come_back_with_the_reason() {
    let mut simulation = Simulation::new(Configuration::separate_memory(2, 1 << 20)).unwrap();
    let here = simulation.reserve_status(SpaceId(0)).unwrap();
    let there = simulation.reserve_status(SpaceId(1)).unwrap();
    let mut refused = |command: Command| simulation.try_upload(command).unwrap_err().reason;
    assert!(matches!(refused(native(9, 1)), RefusalReason::Device(_)));
    assert!(matches!(
        refused(native(0, 1).wait(Wait::needs(there))),
        RefusalReason::Status(StatusError::WrongSpace { .. })
    ));
    assert!(matches!(
        refused(native(0, 1).wait(Wait::after(here)).signal(here)),
        RefusalReason::WaitsForItself { .. }
    ));
    let refusal = simulation
        .try_upload(native(0, 1).tag(42).signal(there))
        .unwrap_err();
    assert_eq!(refusal.command.tag, 42);
    assert!(
        refusal
            .to_string()
            .contains("cannot be polled by a device of simulated memory space 0")
    );
    simulation.try_upload(native(0, 1).signal(here)).unwrap();
    let again = simulation
        .try_upload(native(0, 1).signal(here))
        .unwrap_err();
    assert_eq!(
        again.reason,
        RefusalReason::Status(StatusError::TwoWriters { slot: here })
    );
    assert_eq!(
        simulation.set_status(here, Status::Complete),
        Err(StatusError::TwoWriters { slot: here })
    );
    simulation.release_status(there).unwrap();
    let stale = simulation
        .try_upload(native(1, 1).signal(there))
        .unwrap_err();
    assert_eq!(
        stale.reason,
        RefusalReason::Status(StatusError::Stale { slot: there })
    );
    assert_eq!(simulation.run_until_idle().len(), 1);
}

#[test]
fn status_slots_are_finite_and_their_return_is_told() {
    let mut configuration = Configuration::shared_memory(1, 1 << 20);
    configuration.spaces[0] = SpaceConfiguration {
        capacity: 1 << 20,
        status_slots: 1,
    };
    let mut simulation = Simulation::new(configuration).unwrap();
    let slot = simulation.reserve_status(SPACE).unwrap();
    simulation.try_upload(native(0, 10).signal(slot)).unwrap();
    simulation.release_status(slot).unwrap();
    assert!(matches!(
        simulation.reserve_status(SPACE),
        Err(StatusError::Exhausted { capacity: 1, .. })
    ));
    assert!(matches!(
        simulation.run_until_notice(),
        Some(Notice::Completed(_))
    ));
    assert!(matches!(
        simulation.run_until_notice(),
        Some(Notice::StatusSlotsFree { space: SPACE })
    ));
    assert!(simulation.reserve_status(SPACE).is_ok());
}

#[test]
fn a_waiting_command_can_be_recalled_and_a_running_one_cannot() {
    let mut simulation = Simulation::new(Configuration::shared_memory(1, 1 << 20)).unwrap();
    let gate = simulation.reserve_status(SPACE).unwrap();
    let signal = simulation.reserve_status(SPACE).unwrap();
    let waiting = native(0, 10).wait(Wait::needs(gate)).signal(signal).tag(5);
    let waiting = simulation.try_upload(waiting).unwrap();
    assert!(simulation.recall(waiting));
    let Some(Notice::Recalled { id, command }) = simulation.run_until_notice() else {
        panic!("it comes back");
    };
    assert_eq!((id, command.tag), (waiting, 5));
    assert_eq!(simulation.credits(DeviceId(0)), 32);
    // It can go up again, signal and all.
    let again = simulation.try_upload(command).unwrap();
    simulation.set_status(gate, Status::Complete).unwrap();
    let completions = simulation.run_until_idle();
    assert!(of(&completions, again).outcome.is_complete());
    assert!(!simulation.recall(again));
    let running = simulation.try_upload(native(0, 1_000_000)).unwrap();
    run_until_started(&mut simulation, running);
    assert!(simulation.recall(running));
    assert!(
        of(&simulation.run_until_idle(), running)
            .outcome
            .is_complete()
    );
}

#[test]
fn the_device_looks_only_at_multiples_of_its_polling_interval() {
    let mut configuration = Configuration::shared_memory(1, 1 << 20);
    configuration.devices[0].polling_interval = 700;
    let mut simulation = Simulation::new(configuration).unwrap();
    for _ in 0..5 {
        simulation.try_upload(native(0, 13)).unwrap();
    }
    for completion in simulation.run_until_idle() {
        assert_eq!(completion.times.started % 700, 0);
    }
    let polls = simulation.statistics(DeviceId(0)).unwrap().polls;
    assert!(
        (5..=6).contains(&polls),
        "{polls} polls: none without a change"
    );
}

#[test]
fn a_cost_can_turn_out_when_the_command_starts() {
    let mut simulation = Simulation::new(Configuration::shared_memory(1, 1 << 20)).unwrap();
    let copy = Command::new(
        DeviceId(0),
        Kind::Copy,
        Unit::CopyOut,
        Cost::bytes(1 << 30),
        |access| {
            access.recost(Cost::bytes(16));
            Ok(())
        },
    );
    simulation.try_upload(copy).unwrap();
    let times = simulation.run_until_idle()[0].times;
    assert_eq!(times.ended - times.started, 1_001);
}
