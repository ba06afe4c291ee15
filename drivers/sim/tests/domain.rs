//! The use of a domain: devices of one memory space order their commands without the host; images
//! are built at flush; slots are finite.
#![allow(clippy::unwrap_used, reason = "helpers assert by unwrapping")]

mod support;

use quipu_driver_sim::SimDriver;
use quipu_driver_sim::engine::{Configuration, PickOrder};
use quipu_scheduler::{
    AccessMode, Context, Device, Driver, Event, Phase, QueueOptions, Request, UserEvent,
};
use std::sync::Arc;
use std::time::Duration;
use support::{Kernel, Rig, all, map, map_after, read, step, update, view, write};

fn shared(devices: u16) -> Configuration {
    let mut configuration = Configuration::shared_memory(devices, 1 << 20);
    for device in &mut configuration.devices {
        // Whatever is not ordered comes out backwards.
        device.pick_order = PickOrder::Youngest;
    }
    configuration
}

/// Three devices hand sixteen frames to each other: 48 kernels, with dependencies between devices,
/// and within them because each device reuses its output buffer.
fn pipeline(rig: &Rig, gate: &[Event]) -> (Vec<Event>, Vec<Vec<u64>>) {
    let queues: Vec<_> = (0..3).map(|device| rig.queue(device)).collect();
    let buffers: Vec<_> = (0..4).map(|_| rig.cells(64)).collect();
    let mut events = Vec::new();
    let mut results = Vec::new();
    let mut expected = Vec::new();
    for frame in 0..16 {
        let input: Vec<u64> = (0..64).map(|cell| cell * 1000 + frame).collect();
        // Frames are made on the first device, so that no transfer from the host is among the
        // dependencies.
        let made = input.clone();
        let accesses = [all(&buffers[0], AccessMode::Overwrite)];
        let request = Request {
            accesses: &accesses,
            waits: if frame == 0 { gate } else { &[] },
            ..Request::default()
        };
        let make = Kernel(
            "make",
            move |arguments: &[quipu_scheduler::RawArgument]| {
                view(&arguments[0]).copy_from_slice(&made);
                Ok(())
            },
        );
        events.push(queues[0].launch(make, 1, &request).unwrap());
        for stage in 0..3 {
            let (from, to) = (&buffers[stage], &buffers[stage + 1]);
            events.push(map(&queues[stage], from, to, stage as u64));
        }
        let last = rig.cells(64);
        events.push(map(&queues[2], &buffers[3], &last, 3));
        let after_all = |cell: &u64| (0..4).fold(*cell, step);
        expected.push(input.iter().map(after_all).collect());
        results.push(last);
    }
    queues.iter().for_each(quipu_scheduler::Queue::flush);
    for event in &events {
        if gate.is_empty() {
            event.wait().unwrap();
        }
    }
    if !gate.is_empty() {
        return (events, expected);
    }
    let read: Vec<_> = results
        .iter()
        .map(|buffer| read(&queues[2], buffer).unwrap())
        .collect();
    assert_eq!(read, expected);
    (events, expected)
}

#[test]
fn a_pipeline_over_three_devices_needs_no_host() {
    let _alone = support::alone();
    for rig in [Rig::manual(shared(3)), Rig::threaded(shared(3))] {
        pipeline(&rig, &[]);
        assert_eq!(rig.driver.races(), 0);
        let interactions = rig.driver.interactions();
        assert_eq!(interactions.status_writes, 0);
        // 16 frames of 5 kernels, and the transfers that show the results.
        assert_eq!(interactions.uploads, 16 * 5 + 16);
    }
}

#[test]
fn one_write_of_the_host_starts_all_that_waits_behind_it() {
    let _alone = support::alone();
    let rig = Rig::manual(shared(3));
    let gate = UserEvent::new();
    let (events, _) = pipeline(&rig, &[gate.event()]);
    // All of it is on the machine that has room there, and none has started.
    rig.driver.machine().run_while(|| true);
    let uploads = rig.driver.interactions().uploads;
    assert!(uploads > 24, "{uploads} uploads");
    let started = |rig: &Rig| -> u64 {
        (0..3)
            .map(|device| rig.driver.statistics(device).unwrap().started)
            .sum()
    };
    assert_eq!(started(&rig), 0);
    gate.complete();
    for event in &events {
        event.wait().unwrap();
    }
    assert_eq!(started(&rig), 16 * 5);
    assert_eq!(rig.driver.interactions().status_writes, 1);
    assert_eq!(rig.driver.races(), 0);
}

#[test]
fn a_wait_for_many_commands_of_another_device_needs_no_host() {
    let _alone = support::alone();
    // More than a command's own list of waits holds, then more than are joined on queues without a
    // domain.
    for count in [6, 8, 64] {
        let rig = Rig::manual(shared(2));
        let queues = [rig.queue(0), rig.queue(1)];
        let sources: Vec<_> = (0..count).map(|_| rig.cells(1)).collect();
        let by_events = rig.cells(1);
        let first: Vec<Event> = sources
            .iter()
            .enumerate()
            .map(|(number, source)| update(&queues[0], source, number as u64, &[]))
            .collect();
        let mut last = vec![update(&queues[1], &by_events, 1, &first)];
        // The same waits, as the buffers ask for them.
        let accesses: Vec<_> = sources
            .iter()
            .map(|source| all(source, AccessMode::Read))
            .collect();
        let request = Request {
            accesses: &accesses,
            ..Request::default()
        };
        let gather = Kernel("gather", |arguments: &[quipu_scheduler::RawArgument]| {
            let cells = arguments.iter().map(|argument| view(argument)[0]);
            assert!(cells.eq(0..arguments.len() as u64));
            Ok(())
        });
        last.push(queues[1].launch(gather, 1, &request).unwrap());
        queues.iter().for_each(quipu_scheduler::Queue::flush);
        // The host is not asked for anything more: the machine comes to the end by itself.
        rig.driver.machine().run_while(|| true);
        for event in &last {
            event.wait().unwrap();
        }
        let interactions = rig.driver.interactions();
        assert_eq!(interactions.status_writes, 0, "{count} waits");
        assert_eq!(interactions.uploads, count + 2);
        assert_eq!(rig.driver.races(), 0);
    }
}

#[test]
fn an_image_is_built_for_new_kernels_only_and_once_for_a_flush() {
    let _alone = support::alone();
    let rig = Rig::manual(shared(1));
    let queue = rig.queue(0);
    let (a, b) = (rig.cells(4), rig.cells(4));
    for add in 0..5 {
        map(&queue, &a, &b, add);
        update(&queue, &b, add, &[]);
    }
    queue.wait().unwrap();
    assert_eq!(rig.driver.image_builds(0), 1);
    for add in 0..5 {
        map(&queue, &b, &a, add);
        queue.wait().unwrap();
    }
    assert_eq!(rig.driver.image_builds(0), 1, "known kernels build nothing");
    update(&queue, &a, 1, &[]);
    for name in ["one", "two", "three"] {
        support::on_all(&queue, name, &a, &[], |_| Ok(()));
    }
    let other = support::on_all(&queue, "four", &a, &[], |arguments| {
        view(&arguments[0])[0] = 7;
        Ok(())
    });
    queue.flush();
    other.wait().unwrap();
    assert_eq!(
        rig.driver.image_builds(0),
        2,
        "one image for all new kernels"
    );
}

#[test]
fn a_wait_flushes_its_own_context_and_what_it_depends_on() {
    let _alone = support::alone();
    let rig = Rig::manual(shared(1));
    // A machine moves on threads that wait for it, or on its own.
    let elsewhere = Rig::threaded(shared(1));
    // Another context of the same machine, and one of another machine.
    let beside = Context::new(&rig.devices).unwrap();
    let options = QueueOptions {
        in_order: false,
        ..QueueOptions::default()
    };
    let theirs = [
        (
            beside.queue(&rig.devices[0], options).unwrap(),
            beside.memory(8).unwrap(),
        ),
        (elsewhere.queue(0), elsewhere.cells(1)),
    ];
    let (queue, buffer) = (rig.queue(0), rig.cells(1));
    let held: Vec<Event> = theirs
        .iter()
        .map(|(queue, buffer)| update(queue, buffer, 1, &[]))
        .collect();
    let is_held = |event: &Event| event.phase() == Phase::Queued;
    let mine = update(&queue, &buffer, 1, &[]);
    mine.wait().unwrap();
    while !mine.is_complete() {}
    queue.flush();
    queue.wait().unwrap();
    update(&queue, &buffer, 2, &[]).on_complete(|_| ());
    drop(queue.clone());
    assert!(
        held.iter().all(is_held),
        "others' kernels are others' to flush"
    );
    assert_eq!(elsewhere.driver.image_builds(0), 0);
    // One that waits for theirs.
    update(&queue, &buffer, 3, &held).wait().unwrap();
    assert!(!held.iter().any(is_held));
    assert_eq!(elsewhere.driver.image_builds(0), 1);
    assert_eq!(
        read(&queue, &buffer).unwrap(),
        [step(step(step(0, 1), 2), 3)]
    );
}

#[test]
fn kernels_are_held_until_the_flush_and_transfers_are_not() {
    let _alone = support::alone();
    let rig = Rig::manual(shared(1));
    let queue = rig.queue(0);
    let buffer = rig.cells(4);
    write(&queue, &buffer, &[1, 2, 3, 4]);
    assert_eq!(rig.driver.interactions().uploads, 1);
    let event = update(&queue, &buffer, 0, &[]);
    assert_eq!(rig.driver.interactions().uploads, 1);
    queue.flush();
    assert_eq!(rig.driver.interactions().uploads, 2);
    event.wait().unwrap();
    assert_eq!(read(&queue, &buffer).unwrap(), [3, 6, 9, 12]);
}

#[test]
fn the_drop_of_a_queue_flushes_what_is_in_it_and_what_that_waits_for() {
    let _alone = support::alone();
    let first = Rig::manual(shared(1));
    let second = Rig::manual(shared(1));
    let queues = [first.queue(0), second.queue(0)];
    let buffers = [first.cells(1), second.cells(1)];
    let before = update(&queues[0], &buffers[0], 1, &[]);
    let after = update(&queues[1], &buffers[1], 2, &[before]);
    let [kept, dropped] = queues;
    drop(dropped);
    // Nobody waits or flushes: the machines come to the end by themselves.
    first.driver.machine().run_while(|| true);
    second.driver.machine().run_while(|| true);
    assert!(after.is_complete());
    // An empty queue has nothing to flush.
    let held = update(&kept, &buffers[0], 3, &[]);
    let empty = first.queue(0);
    let uploads = first.driver.interactions().uploads;
    drop(empty);
    assert_eq!(first.driver.interactions().uploads, uploads);
    held.wait().unwrap();
}

/// Each is stepped by the waits for its own commands, also if the other is there.
#[test]
fn waits_step_each_of_two_machines_of_a_context() {
    let _alone = support::alone();
    let rigs = [Rig::manual(shared(1)), Rig::manual(shared(1))];
    let devices = rigs.each_ref().map(|rig| rig.devices[0].clone());
    let context = Context::new(&devices).unwrap();
    for device in &devices {
        let queue = context.queue(device, QueueOptions::default()).unwrap();
        let task = queue.host_task(|_| Ok(()), &Request::default()).unwrap();
        task.wait_timeout(Duration::from_secs(60)).unwrap();
    }
}

#[test]
fn ten_thousand_commands_pass_through_few_slots() {
    let _alone = support::alone();
    for slots in [1, 2, 5] {
        let mut configuration = shared(2);
        for device in &mut configuration.devices {
            device.slots = slots;
        }
        // Fewer status slots than commands fit: then some cannot signal.
        configuration.spaces[0].status_slots = 4;
        let rig = Rig::threaded(configuration);
        let queues = [rig.queue(0), rig.queue(1)];
        let buffers: Vec<_> = (0..4).map(|_| rig.cells(1)).collect();
        let mut model = [0_u64; 4];
        for number in 0..10_000 {
            let index = (number * 7 % 4) as usize;
            update(&queues[(number % 2) as usize], &buffers[index], number, &[]);
            model[index] = step(model[index], number);
        }
        for (buffer, model) in buffers.iter().zip(model) {
            assert_eq!(read(&queues[0], buffer).unwrap(), [model]);
        }
        assert_eq!(rig.driver.races(), 0);
    }
}

#[test]
fn ten_thousand_commands_behind_a_user_event_leave_room_for_others() {
    let _alone = support::alone();
    for slots in [1, 2, 8] {
        let mut configuration = shared(1);
        configuration.devices[0].slots = slots;
        let rig = Rig::manual(configuration);
        let queue = rig.queue(0);
        let (gated, free) = (rig.cells(1), rig.cells(1));
        let gate = UserEvent::new();
        let mut model = 0;
        let mut last = gate.event();
        for number in 0..10_000 {
            // Half of them wait for the gate itself, half for one that does.
            let wait = if number % 2 == 0 {
                gate.event()
            } else {
                last.clone()
            };
            last = update(&queue, &gated, number, &[wait]);
            model = step(model, number);
        }
        queue.flush();
        // The host waits for something else first: it must not be kept out.
        for number in 0..100 {
            update(&queue, &free, number, &[]).wait().unwrap();
        }
        let other = update(&queue, &free, 1, &[]);
        assert!(other.wait().is_ok());
        let late = last.wait_timeout(std::time::Duration::ZERO).unwrap_err();
        assert!(
            matches!(late.kind(), quipu_scheduler::ErrorKind::TimedOut),
            "{late}"
        );
        gate.complete();
        assert_eq!(read(&queue, &gated).unwrap(), [model]);
        assert_eq!(rig.driver.races(), 0);
    }
}

#[test]
fn a_long_chain_behind_a_failed_event_fails_and_does_not_run() {
    let _alone = support::alone();
    let rig = Rig::manual(shared(2));
    let queues = [rig.queue(0), rig.queue(1)];
    let (a, b) = (rig.cells(1), rig.cells(1));
    write(&queues[0], &b, &[5]).wait().unwrap();
    let gate = UserEvent::new();
    let mut events = vec![map_after(&queues[0], &a, &b, 1, &[gate.event()])];
    for number in 0..20 {
        events.push(update(&queues[number % 2], &b, 1, &[]));
    }
    queues.iter().for_each(quipu_scheduler::Queue::flush);
    rig.driver.machine().run_while(|| true);
    gate.fail("as the test wants");
    for event in events {
        let error = event.wait().unwrap_err();
        assert!(error.to_string().contains("as the test wants"), "{error}");
    }
    // Only the write ran.
    let started: u64 = (0..2)
        .map(|device| rig.driver.statistics(device).unwrap().started)
        .sum();
    assert_eq!(started, 1);
    let overwritten = write(&queues[0], &b, &[8]);
    overwritten.wait().unwrap();
    assert_eq!(read(&queues[1], &b).unwrap(), [8]);
}

#[test]
fn the_same_program_has_the_same_log() {
    let _alone = support::alone();
    let run = || {
        let rig = Rig::manual(shared(3));
        pipeline(&rig, &[]);
        rig.driver.log()
    };
    let first = run();
    assert!(first.len() > 16 * 5 * 5);
    assert_eq!(first, run());
}

#[test]
fn an_idle_machine_sleeps() {
    let _alone = support::alone();
    let rig = Rig::threaded(shared(3));
    pipeline(&rig, &[]);
    // It would hang here if the machine's thread polled.
    while !rig.driver.machine().is_asleep() || !rig.driver.is_idle() {
        std::thread::yield_now();
    }
    // Also while something waits for the host.
    let queue = rig.queue(0);
    let buffer = rig.cells(1);
    let gate = UserEvent::new();
    let event = update(&queue, &buffer, 1, &[gate.event()]);
    queue.flush();
    while !rig.driver.machine().is_asleep() || !rig.driver.is_idle() {
        std::thread::yield_now();
    }
    gate.complete();
    event.wait().unwrap();
}

#[test]
fn devices_of_one_space_are_one_domain() {
    let _alone = support::alone();
    let of = |configuration: Configuration| {
        let driver: Arc<dyn Driver> = SimDriver::manual(configuration).unwrap();
        Device::all_of(&driver).unwrap()
    };
    let together = of(Configuration::shared_memory(2, 1024));
    assert_eq!(together[0].domain(), together[1].domain());
    assert_eq!(together[0].space(), together[1].space());
    let apart = of(Configuration::separate_memory(2, 1024));
    assert_ne!(apart[0].domain(), apart[1].domain());
    assert_ne!(apart[0].space(), apart[1].space());
    assert_eq!(apart[1].free_memory(), Some(1024));
}

#[test]
fn timestamps_are_in_order_and_durations_at_most_the_machines() {
    let _alone = support::alone();
    let mut configuration = shared(1);
    configuration.devices[0].launch_latency = 5_000;
    configuration.devices[0].group_time = 1_000_000;
    let rig = Rig::manual(configuration);
    let options = QueueOptions {
        profiling: true,
        ..QueueOptions::default()
    };
    let context: &Context = &rig.context;
    let queue = context.queue(&rig.devices[0], options).unwrap();
    let (a, b) = (rig.cells(1), rig.cells(1));
    let events = [map(&queue, &a, &b, 1), map(&queue, &b, &a, 1)];
    queue.wait().unwrap();
    let [first, second] = events.map(|event| event.profile().unwrap());
    for profile in [first, second] {
        assert!(profile.queued_ns <= profile.submitted_ns);
        assert!(profile.submitted_ns <= profile.started_ns);
        assert!(profile.started_ns <= profile.ended_ns);
        assert!(profile.ended_ns - profile.started_ns <= 1_005_000);
    }
    assert!(first.ended_ns <= second.started_ns);
}

#[test]
fn what_ran_later_is_not_said_to_have_started_earlier() {
    let _alone = support::alone();
    let rig = Rig::manual(Configuration::separate_memory(1, 1 << 20));
    let options = QueueOptions {
        in_order: false,
        profiling: true,
        ..QueueOptions::default()
    };
    let queue = rig.context.queue(&rig.devices[0], options).unwrap();
    let (early, late) = (rig.cells(10), rig.cells(10));
    // On the machine before the other, and started after it.
    let user = UserEvent::new();
    let held = update(&queue, &early, 1, &[user.event()]);
    queue.flush();
    let mut before = None;
    for round in 0..50 {
        let event = update(&queue, &late, round, &[]);
        event.wait().unwrap();
        before = Some(event);
    }
    user.complete();
    held.wait().unwrap();
    let ended = before.unwrap().profile().unwrap().ended_ns;
    let started = held.profile().unwrap().started_ns;
    assert!(started >= ended, "{started} is before {ended}");
}
