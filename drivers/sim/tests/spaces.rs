//! Memory of their own: migrations between devices and the host, pressure, and running out.
#![allow(clippy::unwrap_used, reason = "helpers assert by unwrapping")]

mod support;

use quipu_driver_sim::engine::{
    Bandwidth, Configuration, DeviceId, Fault, Occurrence, PickOrder, Progress,
    SpaceId as EngineSpace, Unit,
};
use quipu_scheduler::error::ErrorKind;
use quipu_scheduler::operation::HostMemory;
use quipu_scheduler::{
    AccessMode, Context, Event, MemoryRef, Priority, Queue, QueueOptions, Request, SpaceId,
    UserEvent,
};
use support::{Kernel, Rig, all, map, on_all, part, read, step, update, view, write};

fn separate(devices: u8, capacity: u64) -> Configuration {
    let mut configuration = Configuration::separate_memory(devices, capacity);
    for device in &mut configuration.devices {
        device.pick_order = PickOrder::Youngest;
    }
    configuration
}

#[test]
fn a_buffer_wanders_between_two_memories_and_the_host() {
    let _alone = support::alone();
    for rig in [
        Rig::manual(separate(2, 1 << 20)),
        Rig::threaded(separate(2, 1 << 20)),
    ] {
        let queues = [rig.queue(0), rig.queue(1)];
        let (a, b) = (rig.cells(100), rig.cells(100));
        let mut model: Vec<u64> = (0..100).collect();
        write(&queues[0], &a, &model);
        for round in 0..20 {
            let (from, to) = if round % 2 == 0 { (&a, &b) } else { (&b, &a) };
            map(&queues[(round % 2) as usize], from, to, round);
            update(&queues[(round / 2 % 2) as usize], to, round + 7, &[]);
            for cell in &mut model {
                *cell = step(step(*cell, round), round + 7);
            }
        }
        assert_eq!(read(&queues[1], &a).unwrap(), model);
        assert_eq!(read(&queues[0], &a).unwrap(), model);
        assert_eq!(rig.driver.races(), 0);
        let spaces = a.allocated_in();
        assert_eq!(spaces.len(), 3, "{spaces:?}");
        assert!(spaces.contains(&SpaceId::HOST));
    }
}

#[test]
fn two_devices_write_the_halves_of_one_buffer() {
    let _alone = support::alone();
    let rig = Rig::manual(separate(2, 1 << 20));
    let queues = [rig.queue(0), rig.queue(1)];
    let buffer = rig.cells(64);
    for round in 0..4_u64 {
        for (device, queue) in queues.iter().enumerate() {
            let half = part(&buffer, 32 * device as u64, 32, AccessMode::ReadWrite);
            let kernel = Kernel(
                "half",
                move |arguments: &[quipu_scheduler::RawArgument]| {
                    for cell in view(&arguments[0]) {
                        *cell = step(*cell, round + 100 * device as u64);
                    }
                    Ok(())
                },
            );
            let accesses = [half];
            let request = Request {
                accesses: &accesses,
                ..Request::default()
            };
            queue.launch(kernel, 1, &request).unwrap();
        }
    }
    let model = |device: u64| (0..4).fold(0, |cell, round| step(cell, round + 100 * device));
    let expected: Vec<u64> = (0..64).map(|cell| model(cell / 32)).collect();
    assert_eq!(read(&queues[0], &buffer).unwrap(), expected);
    assert_eq!(read(&queues[1], &buffer).unwrap(), expected);
    assert_eq!(rig.driver.races(), 0);
}

#[test]
fn fills_and_copies_stay_in_the_memory() {
    let _alone = support::alone();
    let rig = Rig::manual(separate(1, 1 << 20));
    let queue = rig.queue(0);
    let (a, b) = (rig.cells(6), rig.cells(6));
    let pattern = 0x0102_0304_0506_0708_u64.to_le_bytes();
    queue
        .fill(part(&a, 1, 4, AccessMode::Overwrite), &pattern, &[])
        .unwrap();
    queue
        .copy(
            part(&a, 0, 3, AccessMode::Read),
            part(&b, 2, 3, AccessMode::Overwrite),
            24,
            &[],
            &[],
        )
        .unwrap();
    let filled = u64::from_le_bytes(pattern);
    assert_eq!(read(&queue, &b).unwrap(), [0, 0, 0, filled, filled, 0]);
    assert!(!a.allocated_in().contains(&SpaceId::HOST));
}

/// Buffers of a quarter of the memory each.
fn quarters(rig: &Rig, count: usize) -> Vec<MemoryRef> {
    (0..count).map(|_| rig.cells(512)).collect()
}

fn expect(queue: &Queue, buffers: &[MemoryRef], model: &[u64]) {
    for (buffer, model) in buffers.iter().zip(model) {
        let cells = read(queue, buffer).unwrap();
        assert!(
            cells.iter().all(|cell| cell == model),
            "{} instead of {model}",
            cells[0]
        );
    }
}

#[test]
fn data_survive_pressure() {
    let _alone = support::alone();
    for rig in [
        Rig::manual(separate(1, 16 << 10)),
        Rig::threaded(separate(1, 16 << 10)),
    ] {
        let queue = rig.queue(0);
        let buffers = quarters(&rig, 9);
        let mut model = vec![0; buffers.len()];
        for round in 0..5_u64 {
            for (buffer, model) in buffers.iter().zip(&mut model) {
                update(&queue, buffer, round, &[]).wait().unwrap();
                *model = step(*model, round);
            }
        }
        expect(&queue, &buffers, &model);
        assert_eq!(rig.driver.races(), 0);
    }
}

#[test]
fn what_has_a_copy_elsewhere_is_dropped_first() {
    let _alone = support::alone();
    let rig = Rig::manual(separate(2, 16 << 10));
    let queues = [rig.queue(0), rig.queue(1)];
    let buffers = quarters(&rig, 5);
    // Only on the first device: two. Also on the host and on the second device: two.
    for buffer in &buffers[..4] {
        update(&queues[0], buffer, 5, &[]).wait().unwrap();
    }
    for buffer in &buffers[2..4] {
        read(&queues[1], buffer).unwrap();
    }
    update(&queues[0], &buffers[4], 6, &[]).wait().unwrap();
    let here = rig.devices[0].space();
    let there: Vec<bool> = buffers
        .iter()
        .map(|buffer| buffer.allocated_in().contains(&here))
        .collect();
    // As much as is needed, and no more.
    assert!(there[2] != there[3], "{there:?}");
    assert!(there[0] && there[1] && there[4], "{there:?}");
    expect(&queues[0], &buffers, &[5, 5, 5, 5, 6]);
}

#[test]
fn commands_that_need_more_memory_than_there_is_take_turns() {
    let _alone = support::alone();
    let rig = Rig::manual(separate(1, 16 << 10));
    let queue = rig.queue(0);
    let buffers = quarters(&rig, 40);
    let events: Vec<Event> = buffers
        .iter()
        .map(|buffer| update(&queue, buffer, 9, &[]))
        .collect();
    queue.flush();
    for event in events {
        event.wait().unwrap();
    }
    expect(&queue, &buffers, &[9; 40]);
}

#[test]
fn commands_behind_a_gate_that_need_more_memory_than_there_is_take_turns() {
    let _alone = support::alone();
    for rig in [
        Rig::manual(separate(1, 16 << 10)),
        Rig::threaded(separate(1, 16 << 10)),
    ] {
        let queue = rig.queue(0);
        let buffers = quarters(&rig, 40);
        let gate = UserEvent::new();
        let events: Vec<Event> = buffers
            .iter()
            .map(|buffer| update(&queue, buffer, 9, &[gate.event()]))
            .collect();
        queue.flush();
        gate.complete();
        for event in events {
            event.wait().unwrap();
        }
        expect(&queue, &buffers, &[9; 40]);
    }
}

/// True if a buffer has an allocation in the first device's memory.
fn is_on_first(rig: &Rig, buffer: &MemoryRef) -> bool {
    buffer.allocated_in().contains(&rig.devices[0].space())
}

#[test]
fn what_must_be_written_back_is_evicted_where_dropping_copies_is_not_enough() {
    let _alone = support::alone();
    let rig = Rig::manual(separate(2, 16 << 10));
    let queues = [rig.queue(0), rig.queue(1)];
    let (copied, dirty, large) = (rig.cells(128), rig.cells(1024), rig.cells(1536));
    update(&queues[0], &copied, 4, &[]).wait().unwrap();
    // From here on also on the host and the second device.
    assert_eq!(read(&queues[1], &copied).unwrap(), [4; 128]);
    update(&queues[0], &dirty, 5, &[]).wait().unwrap();
    assert!(is_on_first(&rig, &copied) && is_on_first(&rig, &dirty));
    // 7 of 16 KiB are free: neither of them alone would make room for 12.
    update(&queues[0], &large, 6, &[]).wait().unwrap();
    assert!(!is_on_first(&rig, &copied) && !is_on_first(&rig, &dirty));
    assert_eq!(read(&queues[0], &dirty).unwrap(), [5; 1024]);
    assert_eq!(read(&queues[0], &large).unwrap(), [6; 1536]);
}

#[test]
fn eviction_goes_on_until_one_piece_is_large_enough() {
    let _alone = support::alone();
    let rig = Rig::manual(separate(1, 16 << 10));
    let queue = rig.queue(0);
    let small: Vec<_> = (0..16).map(|_| rig.cells(128)).collect();
    for buffer in &small {
        update(&queue, buffer, 7, &[]).wait().unwrap();
    }
    // Whichever of them go first: the bytes that they leave are in pieces for a while.
    let large = rig.cells(1024);
    update(&queue, &large, 8, &[]).wait().unwrap();
    expect(&queue, &small, &[7; 16]);
    assert_eq!(read(&queue, &large).unwrap(), [8; 1024]);
}

#[test]
fn idle_buffers_of_other_contexts_make_room() {
    let _alone = support::alone();
    for rig in [
        Rig::manual(separate(1, 16 << 10)),
        Rig::threaded(separate(1, 16 << 10)),
    ] {
        let queue = rig.queue(0);
        let mine = rig.cells(1536);
        update(&queue, &mine, 3, &[]).wait().unwrap();
        for round in 0..8 {
            let other = Context::new(&rig.devices).unwrap();
            let theirs = other.memory(12 << 10).unwrap();
            let their_queue = other
                .queue(&rig.devices[0], QueueOptions::default())
                .unwrap();
            drop(other);
            update(&their_queue, &theirs, round, &[]).wait().unwrap();
            assert!(!is_on_first(&rig, &mine));
            assert_eq!(read(&queue, &mine).unwrap(), [3; 1536]);
            assert!(!is_on_first(&rig, &theirs));
            assert_eq!(read(&their_queue, &theirs).unwrap(), [round; 1536]);
        }
        // A context that has ended holds nothing.
        assert_eq!(read(&queue, &mine).unwrap(), [3; 1536]);
        assert_eq!(rig.driver.races(), 0);
    }
}

#[test]
fn work_beyond_the_memory_needs_no_waits_between() {
    let _alone = support::alone();
    const BUFFERS: u64 = 7;
    for rig in [
        Rig::manual(separate(2, 16 << 10)),
        Rig::threaded(separate(2, 16 << 10)),
    ] {
        // Three of them fit; each is used again later, before anybody waits.
        let queues = [rig.queue(0), rig.queue(1)];
        let buffers: Vec<MemoryRef> = (0..BUFFERS).map(|_| rig.cells(640)).collect();
        let mut model = vec![0; BUFFERS as usize];
        for round in 0..6_u64 {
            for (number, buffer) in buffers.iter().enumerate() {
                let add = 10 * round + number as u64;
                // Now and then by way of the other memory.
                let queue = &queues[usize::from((round + number as u64) % 5 == 4)];
                update(queue, buffer, add, &[]);
                model[number] = step(model[number], add);
            }
            let (from, to) = (round % BUFFERS, (round * 3 + 1) % BUFFERS);
            let (from, to) = (from as usize, to as usize);
            if from != to {
                map(&queues[0], &buffers[from], &buffers[to], round);
                model[to] = step(model[from], round);
            }
        }
        for (buffer, cell) in buffers.iter().zip(&model) {
            assert_eq!(read(&queues[0], buffer).unwrap(), vec![*cell; 640]);
        }
        assert_eq!(rig.driver.races(), 0);
    }
}

#[test]
fn commands_that_wait_for_the_host_give_way_to_those_that_do_not() {
    let _alone = support::alone();
    for rig in [
        Rig::manual(separate(1, 16 << 10)),
        Rig::threaded(separate(1, 16 << 10)),
    ] {
        let queue = rig.queue(0);
        let held: Vec<MemoryRef> = (0..3).map(|_| rig.cells(640)).collect();
        let gate = UserEvent::new();
        let after: Vec<Event> = held
            .iter()
            .map(|buffer| update(&queue, buffer, 7, &[gate.event()]))
            .collect();
        queue.flush();
        // All of the memory is theirs now, and none of them moves before the gate does.
        for buffer in (0..4).map(|_| rig.cells(640)) {
            update(&queue, &buffer, 5, &[]).wait().unwrap();
            assert_eq!(read(&queue, &buffer).unwrap(), [5; 640]);
        }
        assert!(after.iter().all(|event| !event.is_complete()));
        gate.complete();
        for buffer in &held {
            assert_eq!(read(&queue, buffer).unwrap(), [7; 640]);
        }
        assert_eq!(rig.driver.races(), 0);
    }
}

#[test]
fn buffers_that_are_dropped_before_their_commands_run_make_room() {
    let _alone = support::alone();
    for rig in [
        Rig::manual(separate(1, 16 << 10)),
        Rig::threaded(separate(1, 16 << 10)),
    ] {
        let queue = rig.queue(0);
        let gate = UserEvent::new();
        let after: Vec<Event> = (0..3)
            .map(|_| update(&queue, &rig.cells(640), 7, &[gate.event()]))
            .collect();
        queue.flush();
        let buffer = rig.cells(1536);
        update(&queue, &buffer, 5, &[]).wait().unwrap();
        assert_eq!(read(&queue, &buffer).unwrap(), [5; 1536]);
        gate.complete();
        for event in after {
            event.wait().unwrap();
        }
        drop(buffer);
        queue.wait().unwrap();
        while rig.devices[0].free_memory() != Some(16 << 10) {
            std::thread::yield_now();
        }
        assert_eq!(rig.driver.races(), 0);
    }
}

/// A kernel that writes to these buffers, and does nothing with them.
fn touch(queue: &Queue, buffers: &[&MemoryRef], waits: &[Event]) -> Event {
    let all: Vec<_> = buffers
        .iter()
        .map(|buffer| all(buffer, AccessMode::ReadWrite))
        .collect();
    let request = Request {
        accesses: &all,
        waits,
        ..Request::default()
    };
    let touch = Kernel("touch", |_: &[quipu_scheduler::RawArgument]| Ok(()));
    queue.launch(touch, 1, &request).unwrap()
}

#[test]
fn what_waits_for_a_command_that_came_back_and_failed_is_let_go() {
    let _alone = support::alone();
    let rig = Rig::manual(separate(1, 16 << 10));
    let options = QueueOptions {
        in_order: false,
        priority: Priority::Low,
        ..QueueOptions::default()
    };
    let last = rig.context.queue(&rig.devices[0], options).unwrap();
    let queue = rig.queue(0);
    let (read_by_it, written, large) = (rig.cells(8), rig.cells(8), rig.cells(1024));
    let gate = UserEvent::new();
    let accesses = [
        all(&read_by_it, AccessMode::Read),
        all(&written, AccessMode::Overwrite),
        all(&large, AccessMode::ReadWrite),
    ];
    let request = Request {
        accesses: &accesses,
        waits: &[gate.event()],
        ..Request::default()
    };
    let nothing = Kernel("nothing", |_: &[quipu_scheduler::RawArgument]| Ok(()));
    let gated = last.launch(nothing, 1, &request).unwrap();
    // One comes after it and may succeed, one needs it.
    let after = write(&queue, &read_by_it, &[5; 8]);
    let needs = update(&queue, &written, 6, &[]);
    queue.flush();
    // Both stay on the device as the last in turn gives its memory to this.
    update(&queue, &rig.cells(1536), 7, &[]).wait().unwrap();
    assert_eq!(rig.driver.statistics(0).unwrap().recalled, 1);
    gate.fail("as the test says");
    for event in [gated, needs] {
        let error = event.wait().unwrap_err();
        assert!(error.to_string().contains("as the test says"), "{error}");
    }
    after.wait().unwrap();
    assert_eq!(read(&queue, &read_by_it).unwrap(), [5; 8]);
    assert_eq!(rig.driver.races(), 0);
}

#[test]
fn a_command_that_came_back_gets_memory_of_those_that_wait_for_the_host() {
    let _alone = support::alone();
    let rig = Rig::manual(Configuration::shared_memory(2, 16 << 10));
    let queues = [rig.queue(0), rig.queue(1)];
    let (small, large, other) = (rig.cells(8), rig.cells(1024), rig.cells(1536));
    let first = touch(&queues[1], &[&small, &large], &[]);
    let second = touch(&queues[1], &[&small], &[]);
    queues[1].flush();
    let uploaded = rig
        .driver
        .log()
        .into_iter()
        .find_map(|record| match record.what {
            Occurrence::Uploaded { command, .. } => Some(command),
            _ => None,
        });
    assert!(rig.driver.machine().recall(uploaded.unwrap()));
    // Not flushed: it is uploaded as the other comes back, ahead of it, for its device is.
    let gate = UserEvent::new();
    let cells = vec![9; 1536];
    let to = all(&other, AccessMode::Overwrite);
    // SAFETY: the cells outlive the wait for the transfer, and are only read.
    let from = unsafe { HostMemory::new(cells.as_ptr().cast::<u8>().cast_mut(), 8 * 1536, None) };
    let gated = queues[0]
        .write(from, to, 8 * 1536, &[], &[gate.event()])
        .unwrap();
    while rig.driver.machine().step() == Progress::Moved {}
    assert_eq!(rig.driver.statistics(1).unwrap().recalled, 1);
    first.wait().unwrap();
    second.wait().unwrap();
    assert!(!gated.is_complete());
    gate.complete();
    gated.wait().unwrap();
    assert_eq!(rig.driver.races(), 0);
}

#[test]
fn what_waits_for_a_command_of_a_lost_device_that_waits_for_the_host_gives_its_memory() {
    let _alone = support::alone();
    let rig = Rig::manual(Configuration::shared_memory(2, 16 << 10));
    let queues = [rig.queue(0), rig.queue(1)];
    let (small, large, other) = (rig.cells(8), rig.cells(1024), rig.cells(1536));
    let gate = UserEvent::new();
    let gated = touch(&queues[1], &[&small], &[gate.event()]);
    let needs = touch(&queues[0], &[&small, &large], &[]);
    queues.iter().for_each(Queue::flush);
    while rig.driver.machine().step() == Progress::Moved {}
    let log = rig.driver.log();
    let uploaded = log.into_iter().find_map(|record| match record.what {
        Occurrence::Uploaded {
            command,
            device: DeviceId(1),
            ..
        } => Some(command),
        _ => None,
    });
    // It comes back, and finds its device gone. Its dependant is on the other. SAFETY: nothing is
    // uploaded, set or freed.
    let machine = unsafe { rig.driver.machine().whole() };
    let lost = machine.with(|simulation| {
        assert!(simulation.recall(uploaded.unwrap()));
        // It is on its way.
        simulation.step();
        simulation.lose_device(DeviceId(1))
    });
    lost.unwrap();
    while rig.driver.machine().step() == Progress::Moved {}
    assert_eq!(rig.driver.statistics(1).unwrap().recalled, 1);
    assert!(!gated.is_complete());
    update(&queues[0], &other, 7, &[]).wait().unwrap();
    assert_eq!(rig.driver.statistics(0).unwrap().recalled, 1);
    gate.complete();
    for event in [gated, needs] {
        let error = event.wait().unwrap_err();
        assert!(
            matches!(error.first_cause().kind(), ErrorKind::DeviceLost { .. }),
            "{error}"
        );
    }
    assert_eq!(rig.driver.races(), 0);
}

#[test]
fn what_was_swapped_out_is_freed_and_lost_as_anything() {
    let _alone = support::alone();
    let rig = Rig::manual(separate(1, 16 << 10));
    let queue = rig.queue(0);
    let buffers: Vec<MemoryRef> = (0..4).map(|_| rig.cells(1024)).collect();
    let gate = UserEvent::new();
    let mut events: Vec<Event> = Vec::new();
    for round in 0..2 {
        for buffer in &buffers {
            events.push(update(&queue, buffer, round, &[gate.event()]));
        }
    }
    gate.complete();
    queue.wait().unwrap();
    events.iter().for_each(|event| event.wait().unwrap());
    // More than fits at once: its own arguments are never swapped out for each other.
    let all_of_them: Vec<_> = buffers.iter().map(|b| all(b, AccessMode::Read)).collect();
    let request = Request {
        accesses: &all_of_them,
        ..Request::default()
    };
    let too_much = Kernel("too much", |_: &[quipu_scheduler::RawArgument]| Ok(()));
    let error = queue.launch(too_much, 1, &request).unwrap().wait();
    assert!(matches!(
        error.unwrap_err().kind(),
        ErrorKind::OutOfMemory { .. }
    ));
    drop(buffers);
    queue.wait().unwrap();
    assert_eq!(rig.devices[0].free_memory(), Some(16 << 10));
}

#[test]
fn running_out_says_the_sizes_and_hurts_nobody_else() {
    let _alone = support::alone();
    let rig = Rig::manual(separate(1, 16 << 10));
    let queue = rig.queue(0);
    let (small, large) = (rig.cells(512), rig.cells(4096));
    let fails = update(&queue, &large, 1, &[]);
    let works = update(&queue, &small, 2, &[]);
    let dependant = map(&queue, &large, &small, 3);
    let error = fails.wait().unwrap_err();
    let ErrorKind::OutOfMemory {
        asked: 32768,
        free,
        capacity: 16384,
        ..
    } = error.kind()
    else {
        panic!("{error}");
    };
    assert!(*free <= 16384);
    let text = error.to_string();
    assert!(text.contains("32768") && text.contains("16384"), "{text}");
    works.wait().unwrap();
    let error = dependant.wait().unwrap_err();
    assert!(matches!(
        error.first_cause().kind(),
        ErrorKind::OutOfMemory { .. }
    ));
    update(&queue, &small, 2, &[]).wait().unwrap_err();
    write(&queue, &small, &[4; 512]).wait().unwrap();
    assert!(read(&queue, &small).unwrap().iter().all(|cell| *cell == 4));
}

#[test]
fn an_allocation_that_fails_by_a_fault_is_tried_again_after_eviction() {
    let _alone = support::alone();
    let rig = Rig::manual(separate(1, 16 << 10));
    let queue = rig.queue(0);
    let (a, b) = (rig.cells(8), rig.cells(8));
    update(&queue, &a, 1, &[]).wait().unwrap();
    let fault = Fault::OutOfMemory {
        space: EngineSpace(0),
        nth: 1,
    };
    rig.driver.arm(fault.clone()).unwrap();
    update(&queue, &b, 2, &[]).wait().unwrap();
    assert!(!a.allocated_in().contains(&rig.devices[0].space()));
    // With nothing to evict, the command fails.
    drop(b);
    let c = rig.cells(8);
    rig.driver.arm(fault).unwrap();
    let error = update(&queue, &c, 3, &[]).wait().unwrap_err();
    assert!(matches!(error.kind(), ErrorKind::OutOfMemory { .. }));
    assert_eq!(read(&queue, &a).unwrap(), vec![1; 8]);
}

#[test]
fn dropped_buffers_give_their_memory_back() {
    let _alone = support::alone();
    let rig = Rig::threaded(separate(1, 16 << 10));
    let queue = rig.queue(0);
    for round in 0..100 {
        let buffer = rig.cells(512);
        update(&queue, &buffer, round, &[]);
    }
    queue.wait().unwrap();
    while rig.devices[0].free_memory() != Some(16 << 10) {
        // The last buffers are freed by whoever ended their last command.
        std::thread::yield_now();
    }
    assert_eq!(all(&rig.cells(1), AccessMode::Read).length, 8);
}

#[test]
fn a_migration_that_fails_leaves_no_copy_behind() {
    let _alone = support::alone();
    let rig = Rig::manual(separate(2, 1 << 20));
    let queues = [rig.queue(0), rig.queue(1)];
    let buffer = rig.cells(4);
    update(&queues[0], &buffer, 5, &[]).wait().unwrap();
    // To the host and from there to the second device; each leg fails once.
    for device in 0..2 {
        let fault = Fault::FailCommand {
            device: DeviceId(device),
            nth: 1,
        };
        rig.driver.arm(fault).unwrap();
        let error = read(&queues[1], &buffer).unwrap_err();
        assert!(matches!(
            error.first_cause().kind(),
            ErrorKind::Device { .. }
        ));
    }
    assert_eq!(read(&queues[1], &buffer).unwrap(), [5; 4]);
}

/// The time for which the copy engines of both devices were busy with bringing a buffer, of which
/// so many bytes are in use, from one memory to the other.
fn time_to_move(in_use: Option<u64>) -> u64 {
    let mut configuration = separate(2, 1 << 20);
    for device in &mut configuration.devices {
        for engine in [&mut device.copy_in, &mut device.copy_out] {
            engine.latency = 0;
            engine.bandwidth = Bandwidth::bytes_per_nanosecond(1);
        }
    }
    let rig = Rig::manual(configuration);
    let queues = [rig.queue(0), rig.queue(1)];
    let (data, size) = (rig.cells(1000), rig.cells(1));
    if in_use.is_some() {
        data.set_content_size(Some(size.clone())).unwrap();
    }
    // Both are made by the first device: the host does not know the size when it enqueues the next
    // commands.
    map(&queues[0], &rig.cells(1000), &data, 5);
    let number = in_use.unwrap_or(0);
    on_all(&queues[0], "size", &size, &[], move |arguments| {
        view(&arguments[0])[0] = number;
        Ok(())
    });
    update(&queues[1], &data, 1, &[]).wait().unwrap();
    let busy = |device, unit| rig.driver.statistics(device).unwrap().busy(unit);
    busy(0, Unit::CopyOut) + busy(1, Unit::CopyIn)
}

#[test]
fn only_what_is_in_use_is_moved_and_paid_for() {
    let _alone = support::alone();
    // A byte takes a nanosecond, out and in; the second leg reads the size on the host, so that is
    // brought there.
    assert_eq!(time_to_move(None), 16_000);
    assert_eq!(time_to_move(Some(8000)), 16_000 + 8);
    assert_eq!(time_to_move(Some(100)), 200 + 8);
    assert_eq!(time_to_move(Some(0)), 8);
}
