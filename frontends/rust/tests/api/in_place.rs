//! Mapped buffers, and what becomes of a device and its memory: nothing is copied, nothing makes
//! room, and nothing is lost with a device.

use quipu::ErrorKind;
use quipu::drivers::SimDriver;
use quipu::prelude::*;
use quipu::simulation::{Configuration, DeviceId, Fault, Unit};
use std::sync::Arc;

/// Bytes of a device's memory.
const MEMORY: usize = 16 << 10;

/// Two simulated devices with little memory of their own, beside the pool.
fn machine() -> (Arc<SimDriver>, Context, [Queue; 2]) {
    let configuration = Configuration::separate_memory(2, MEMORY as u64);
    let machine = SimDriver::start(configuration).unwrap();
    let builder = Platform::builder().cuda(false).opencl(false);
    let platform = builder.driver(machine.clone()).build().unwrap();
    let context = platform.context().unwrap();
    let devices = context.devices().iter();
    let devices: Vec<_> = devices.filter(|it| it.driver_name() == "sim").collect();
    let queues = [0, 1].map(|number| context.queue(devices[number]).unwrap());
    (machine, context, queues)
}

fn add_one(queue: &Queue, x: &mut Buffer<u32>) {
    queue.for_each(x, (), |_, x, ()| *x += 1).unwrap();
}

#[test]
fn a_mapped_buffer_is_not_copied_and_may_be_larger_than_a_devices_memory() {
    let (machine, context, queues) = machine();
    let mut x = context.allocate_mapped::<u32>(MEMORY).unwrap();
    for _ in 0..3 {
        queues.iter().for_each(|queue| add_one(queue, &mut x));
    }
    assert!(
        queues[0]
            .map(&x)
            .unwrap()
            .wait()
            .unwrap()
            .iter()
            .all(|x| *x == 6)
    );
    for (number, queue) in queues.iter().enumerate() {
        let statistics = machine.statistics(number).unwrap();
        let copies = [Unit::CopyIn, Unit::CopyOut].map(|unit| statistics.busy(unit));
        assert_eq!(copies, [0, 0], "device {number}");
        assert_eq!(queue.device().free_memory(), Some(MEMORY as u64));
    }
    assert_eq!(machine.races(), 0);
    // An ordinary buffer of that size has no room.
    let mut ordinary = context.allocate::<u32>(MEMORY).unwrap();
    add_one(&queues[0], &mut ordinary);
    let error = queue_error(&queues[0], &ordinary).unwrap();
    assert!(
        matches!(error.first_cause().kind(), ErrorKind::OutOfMemory { .. }),
        "{error}"
    );
}

#[test]
fn a_mapped_buffer_makes_no_room_for_others() {
    let (machine, context, [queue, _]) = machine();
    let mut x = context.allocate_mapped::<u32>(1000).unwrap();
    add_one(&queue, &mut x);
    // Three times what there is room for.
    let mut others: Vec<_> = (0..12)
        .map(|_| context.allocate::<u32>(MEMORY / 16).unwrap())
        .collect();
    for round in 1..4 {
        for other in &mut others {
            add_one(&queue, other);
        }
        add_one(&queue, &mut x);
        for other in &others {
            let found = queue.read(other).unwrap().wait().unwrap();
            assert!(found.iter().all(|x| *x == round));
        }
    }
    let found = queue.map(&x).unwrap().wait().unwrap();
    assert!(found.iter().all(|x| *x == 4));
    assert_eq!(machine.races(), 0);
}

#[test]
fn a_mapped_buffer_outlives_a_lost_device() {
    let (machine, context, [first, second]) = machine();
    let mut mapped = context.allocate_mapped::<u32>(100).unwrap();
    let mut ordinary = context.allocate::<u32>(100).unwrap();
    let mut other = context.allocate_mapped::<u32>(100).unwrap();
    for buffer in [&mut mapped, &mut ordinary] {
        add_one(&first, buffer);
    }
    first.wait().unwrap();
    let fault = Fault::LoseDevice {
        device: DeviceId(0),
        nth: 1,
    };
    machine.arm(fault).unwrap();
    add_one(&first, &mut other);
    assert!(queue_error(&second, &other).is_some());
    assert!(first.device().lost().is_some());
    add_one(&second, &mut mapped);
    assert_eq!(second.read(&mapped).unwrap().wait().unwrap(), [2; 100]);
    let error = queue_error(&second, &ordinary).unwrap();
    let is_lost =
        matches!(error.kind(), ErrorKind::ContentLost { .. }) || error.to_string().contains("lost");
    assert!(is_lost, "{error}");
    // What the lost command should have written can be written again.
    second.fill(&other, 3).unwrap();
    assert_eq!(second.read(&other).unwrap().wait().unwrap(), [3; 100]);
}

fn queue_error(queue: &Queue, buffer: &Buffer<u32>) -> Option<quipu::Error> {
    queue.read(buffer).unwrap().wait().err()
}
