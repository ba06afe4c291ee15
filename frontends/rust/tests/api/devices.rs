//! Platforms, devices, contexts.

use super::{context, platform};
use quipu::driver::{CpuQueue, Driver, Notification};
use quipu::drivers::{Options, SimDriver};
use quipu::prelude::*;
use quipu::simulation::{Configuration, DeviceId, Fault};
use quipu::{DeviceKind, DeviceProperties, ErrorKind};
use std::num::NonZero;
use std::sync::Arc;

#[test]
fn a_platform_lists_the_embedded_devices_first() {
    let platform = platform();
    let names: Vec<_> = platform.devices().iter().map(Device::driver_name).collect();
    assert_eq!(names, ["cpu", "serial", "sim", "sim"]);
    let error = platform.device("tpu").unwrap_err().to_string();
    assert!(
        error.contains("'tpu'") && error.contains("cpu:0, serial:0, sim:0, sim:1"),
        "{error}"
    );
}

#[test]
fn a_device_is_chosen_by_its_selector_its_driver_or_its_name() {
    let platform = platform();
    for device in platform.devices() {
        let selector = device.selector();
        assert_eq!(&platform.device(&selector).unwrap(), device);
        assert_eq!(&platform.device(device.name()).unwrap(), device);
        let driver = platform.device(device.driver_name()).unwrap();
        assert_eq!(driver.selector(), format!("{}:0", device.driver_name()));
    }
    assert_eq!(platform.device("sim:1").unwrap(), platform.devices()[3]);
    for unknown in [
        "sim:2",
        "sim:",
        ":0",
        "",
        "simulated",
        "node-1",
        "node-1/sim:0",
    ] {
        assert!(platform.device(unknown).is_err(), "{unknown}");
    }
}

/// A driver that finds nothing to drive.
struct Missing;

// SAFETY: a command's code and memory are used while it is here, with the arguments resolved for
// it.
unsafe impl Driver for Missing {
    fn name(&self) -> &'static str {
        "missing"
    }

    fn devices(&self) -> Vec<DeviceProperties> {
        Vec::new()
    }

    fn notify(&self, _notification: Notification) {}
}

#[test]
fn what_is_available_is_taken_and_what_is_not_is_explained() {
    let builder = || {
        let builder = Platform::builder().cuda(false).opencl(false);
        builder.driver(Arc::new(Missing))
    };
    let none = Configuration::shared_memory(0, 1 << 20);
    let platform = builder().simulated(none.clone()).build_available();
    let names: Vec<_> = platform.devices().iter().map(Device::driver_name).collect();
    assert_eq!(names, ["cpu", "serial"]);
    let unavailable = platform.unavailable().iter();
    let drivers: Vec<_> = unavailable.map(|missing| missing.driver).collect();
    assert_eq!(drivers, ["sim", "missing"]);
    let reason = platform.unavailable()[1].error.to_string();
    assert!(reason.contains("found no device"), "{reason}");
    // A program that says what it needs is told what fails.
    assert!(builder().simulated(none).build().is_err());
    assert!(builder().build().unwrap().unavailable().is_empty());
}

#[test]
fn the_pool_is_one_per_process() {
    let (one, other) = (Platform::new().unwrap(), Platform::new().unwrap());
    let driver = |platform: &Platform| {
        std::sync::Arc::as_ptr(platform.device("cpu").unwrap().core().driver()).cast::<()>()
    };
    assert_eq!(driver(&one), driver(&other));
    assert!(
        Platform::builder()
            .without_embedded()
            .build()
            .unwrap()
            .devices()
            .is_empty()
    );
}

#[test]
fn a_platform_may_have_a_pool_of_its_own() {
    let three = std::num::NonZero::new(3).unwrap();
    let own = || {
        let builder = Platform::builder().cuda(false).opencl(false);
        builder.cpu(Options::new().workers(three))
    };
    let platform = own().build().unwrap();
    let names: Vec<_> = platform.devices().iter().map(Device::driver_name).collect();
    assert_eq!(names, ["cpu", "serial"]);
    let pool = platform.device("cpu").unwrap();
    assert_eq!(pool.properties().multiprocessors, 3);
    let queue = pool.context().unwrap().queue(&pool).unwrap();
    let workers = queue.native_call(|cpu: &CpuQueue| cpu.workers.len());
    assert_eq!(workers.unwrap().wait().unwrap(), 3);
    // Another has another, and the process's is as it was.
    let other = own().without_embedded().build().unwrap();
    assert_eq!(other.devices().len(), 1);
    let driver = |platform: &Platform| {
        Arc::as_ptr(platform.device("cpu").unwrap().core().driver()).cast::<()>()
    };
    let shared = Platform::new().unwrap();
    assert!(driver(&platform) != driver(&other) && driver(&platform) != driver(&shared));
}

#[test]
fn a_simulated_machine_can_be_spoken_to() {
    let machine = SimDriver::start(Configuration::shared_memory(1, 1 << 20)).unwrap();
    let platform = Platform::builder().driver(machine.clone()).build().unwrap();
    let device = platform.device("sim").unwrap();
    let context = device.context().unwrap();
    let queue = context.queue(&device).unwrap();
    let mut buffer = context.allocate::<u32>(16).unwrap();
    queue.fill(&buffer, 3).unwrap().wait().unwrap();
    assert!(!machine.log().is_empty());
    assert_eq!(machine.races(), 0);
    machine
        .arm(Fault::LoseDevice {
            device: DeviceId(0),
            nth: 1,
        })
        .unwrap();
    let lost = queue.for_each(&mut buffer, (), |_, x, ()| *x += 1).unwrap();
    let error = lost.wait().unwrap_err();
    assert!(
        matches!(error.first_cause().kind(), ErrorKind::DeviceLost { .. }),
        "{error}"
    );
    assert!(device.lost().is_some());
}

#[test]
fn every_property_of_a_device_is_known() {
    for device in platform().devices() {
        let properties = device.properties();
        assert!(
            !device.name().is_empty() && !properties.vendor.is_empty(),
            "{device}"
        );
        assert!(properties.multiprocessors >= 1);
        assert!(properties.max_grid_blocks.iter().all(|&blocks| blocks >= 1));
        assert!(properties.max_grid_block_count >= 1);
        assert!(
            properties
                .max_block_threads
                .iter()
                .all(|&threads| threads >= 1)
        );
        assert!(properties.max_block_thread_count >= 1);
        assert!(
            properties
                .max_thread_elements
                .iter()
                .all(|&elements| elements >= 1)
        );
        assert!(properties.max_thread_element_count >= 1);
        assert!(properties.global_memory > 0 && properties.max_buffer > 0);
        assert!(properties.warp_sizes.contains(&1));
        let limits = device.limits();
        assert_eq!(limits.multiprocessors, properties.multiprocessors as usize);
        assert_eq!(
            limits.shared_bytes as u64,
            properties.shared_memory_per_block
        );
        assert!(device.lost().is_none());
    }
}

#[test]
fn memory_that_is_in_use_is_not_free() {
    let context = context();
    let sim = context.devices().last().unwrap();
    let queue = context.queue(sim).unwrap();
    let before = sim.free_memory().unwrap();
    let buffer = context.allocate::<u8>(1 << 20).unwrap();
    assert_eq!(sim.free_memory(), Some(before), "no command has used it");
    queue.fill(&buffer, 1).unwrap().wait().unwrap();
    assert!(sim.free_memory().unwrap() <= before - (1 << 20));
    drop(buffer);
    assert_eq!(sim.free_memory(), Some(before));
}

#[test]
fn the_fastest_device_is_a_real_one() {
    let context = context();
    assert_eq!(context.fastest().driver_name(), "cpu");
    let simulated: Vec<_> = context.devices()[2..].to_vec();
    assert_eq!(
        Context::new(&simulated).unwrap().fastest().kind(),
        DeviceKind::Simulated
    );
}

#[test]
fn a_device_can_be_split_and_its_parts_used() {
    let device = platform().device("cpu").unwrap();
    let parts = device.partition(&Partition::Equally(1)).unwrap();
    assert_eq!(parts.len(), device.properties().multiprocessors as usize);
    let context = device.context().unwrap();
    // A part of one of the context's devices may be used in it.
    let queue = context.queue(&parts[0]).unwrap();
    let mut buffer = context.allocate::<u32>(10).unwrap();
    queue
        .for_each(&mut buffer, (), |i, x, ()| *x = i as u32)
        .unwrap();
    assert_eq!(queue.read(&buffer).unwrap().wait().unwrap()[9], 9);
    assert!(device.partition(&Partition::Equally(0)).is_err());
}

#[test]
fn what_cannot_be_reset_says_so() {
    let error = platform().device("cpu").unwrap().reset().unwrap_err();
    assert!(
        matches!(error.kind(), ErrorKind::Unsupported { .. }),
        "{error}"
    );
}

#[test]
fn a_device_that_was_reset_is_usable() {
    let context = context();
    let sim = context.devices().last().unwrap();
    let queue = context.queue(sim).unwrap();
    let buffer = context.buffer(&[1u32, 2, 3]).unwrap();
    queue
        .copy(&buffer.slice(..1).unwrap(), &buffer.slice(2..).unwrap())
        .unwrap()
        .wait()
        .unwrap();
    sim.reset().unwrap();
    queue.fill(&buffer.slice(..1).unwrap(), 7).unwrap();
    assert_eq!(queue.read(&buffer).unwrap().wait().unwrap(), [7, 2, 1]);
}

#[test]
fn a_reset_fails_what_is_on_the_device() {
    // A machine that moves while somebody waits, and so not before the reset.
    let machine = SimDriver::manual(Configuration::shared_memory(1, 1 << 20)).unwrap();
    let platform = Platform::builder().driver(machine).build().unwrap();
    let sim = platform.device("sim").unwrap();
    let context = sim.context().unwrap();
    let queue = context.queue(&sim).unwrap();
    let mut buffer = context.buffer(&[1u32, 2, 3]).unwrap();
    let launch = queue.for_each(&mut buffer, (), |_, x, ()| *x += 1).unwrap();
    let read = queue.read(&buffer).unwrap();
    queue.flush();
    assert!(!launch.is_complete());
    sim.reset().unwrap();
    for error in [launch.wait().unwrap_err(), read.wait().unwrap_err()] {
        let cause = error.first_cause().to_string();
        assert!(cause.contains("reset"), "{error}");
    }
    // What it should have written is lost until it is written again.
    assert!(queue.read(&buffer).unwrap().wait().is_err());
    queue.fill(&buffer, 7).unwrap();
    assert_eq!(queue.read(&buffer).unwrap().wait().unwrap(), [7; 3]);
    assert!(sim.lost().is_none());
}

#[test]
fn a_queue_of_another_contexts_device_is_refused() {
    let platform = platform();
    let context = platform.device("cpu").unwrap().context().unwrap();
    let error = context
        .queue(&platform.device("serial").unwrap())
        .unwrap_err();
    assert!(
        matches!(
            error.kind(),
            ErrorKind::WrongContext {
                object: quipu::Foreign::Device(_),
                ..
            }
        ),
        "{error}"
    );
}

#[test]
fn a_context_without_devices_is_refused() {
    let error = Context::new(&[]).unwrap_err();
    assert!(
        matches!(error.kind(), ErrorKind::InvalidArgument { .. }),
        "{error}"
    );
}

/// The advice in the errors is followed.
#[test]
fn the_advice_after_a_loss_works_and_other_devices_go_on() {
    let machine = SimDriver::start(Configuration::separate_memory(2, 1 << 20)).unwrap();
    let platform = Platform::builder()
        .without_embedded()
        .cpu(Options::new().workers(NonZero::new(2).unwrap()))
        .driver(machine.clone());
    let platform = platform.build().unwrap();
    let context = platform.context().unwrap();
    let [pool, first, second] = platform.devices() else {
        panic!("{platform:?}");
    };
    let queues = [pool, first, second].map(|device| context.queue(device).unwrap());
    let [on_pool, on_first, on_second] = &queues;
    let there = context.allocate::<u32>(8).unwrap();
    there.set_label("sums");
    on_first.fill(&there, 3).unwrap().wait().unwrap();
    let elsewhere = context.buffer(&[5_u32; 8]).unwrap();
    let fault = Fault::LoseDevice {
        device: DeviceId(0),
        nth: 1,
    };
    machine.arm(fault).unwrap();
    let error = on_first.fill(&elsewhere, 4).unwrap().wait().unwrap_err();
    let text = error.to_string();
    assert!(
        text.contains("other devices go on, also in a context without it"),
        "{text}"
    );
    // On the lost device nothing is taken any more, and it is said why.
    let error = on_first.fill(&there, 1).unwrap_err();
    assert!(
        matches!(error.kind(), ErrorKind::DeviceLost { .. }),
        "{error}"
    );
    assert!(context.queue(first).is_err());

    // The context goes on, on the others; what is lost is named, with what to do.
    for queue in [on_pool, on_second] {
        let error = queue.read(&there).unwrap().wait().unwrap_err();
        let text = error.to_string();
        assert!(
            text.contains("'sums'") && text.contains("write it as a whole"),
            "{text}"
        );
        let own = context.buffer(&[7_u32; 8]).unwrap();
        queue.fill(&own, 9).unwrap();
        assert_eq!(queue.read(&own).unwrap().wait().unwrap(), [9; 8]);
    }
    // Written as a whole, by another device or from the host.
    on_second.fill(&there, 6).unwrap().wait().unwrap();
    assert_eq!(on_pool.read(&there).unwrap().wait().unwrap(), [6; 8]);
    on_pool
        .write(&elsewhere, vec![8; 8])
        .unwrap()
        .wait()
        .unwrap();
    assert_eq!(on_second.read(&elsewhere).unwrap().wait().unwrap(), [8; 8]);
    assert_ne!(&context.fastest(), first);

    // A context without it.
    let again = platform.context().unwrap();
    assert_eq!(again.devices(), [pool.clone(), second.clone()]);
    assert_eq!(&platform.device("sim").unwrap(), second);
    let queue = again.queue(second).unwrap();
    let own = again.buffer(&[1_u32; 8]).unwrap();
    queue.fill(&own, 2).unwrap();
    assert_eq!(queue.read(&own).unwrap().wait().unwrap(), [2; 8]);
    // One with it is refused, with the reason.
    let error = Context::new(platform.devices()).unwrap_err();
    assert!(
        matches!(error.kind(), ErrorKind::DeviceLost { .. }),
        "{error}"
    );
    // As is a context that is lost: a new one works.
    again.lose("the test says so");
    let error = queue.fill(&own, 1).unwrap_err();
    assert!(error.to_string().contains("create a new one"), "{error}");
    let new = platform.context().unwrap();
    let own = new.buffer(&[1_u32; 8]).unwrap();
    new.queue(second)
        .unwrap()
        .fill(&own, 2)
        .unwrap()
        .wait()
        .unwrap();
}

#[test]
fn a_lost_context_refuses_commands() {
    let context = context();
    let queue = context.queue(&context.fastest()).unwrap();
    let buffer = context.allocate::<u8>(1).unwrap();
    context.lose("the test says so");
    let error = queue.fill(&buffer, 1).unwrap_err();
    assert!(error.to_string().contains("the test says so"), "{error}");
    assert!(context.lost().is_some());
}

#[test]
fn a_device_is_waited_for_with_all_its_queues_even_dropped_ones() {
    let context = context();
    let device = context.fastest();
    let done = std::sync::Arc::new(std::sync::atomic::AtomicU32::new(0));
    let count = || {
        let done = done.clone();
        move || done.fetch_add(1, std::sync::atomic::Ordering::SeqCst)
    };
    let gate = UserEvent::new();
    let kept = context.queue(&device).unwrap();
    let dropped = context.queue(&device).unwrap();
    drop(kept.after([gate.event()]).host_task(count()).unwrap());
    drop(dropped.after([gate.event()]).host_task(count()).unwrap());
    drop(dropped);
    gate.complete();
    context.wait_for_device(&device).unwrap();
    assert_eq!(done.load(std::sync::atomic::Ordering::SeqCst), 2);
    assert!(kept.is_empty());
    context.wait().unwrap();
}

#[test]
fn a_driver_of_somebody_elses_says_what_has_no_room() {
    let abacus = abacus::Abacus::new();
    let platform = Platform::builder().driver(abacus.clone()).build().unwrap();
    let device = platform.device("abacus").unwrap();
    let context = device.context().unwrap();
    let queue = context.queue(&device).unwrap();
    let most = device.properties().max_buffer as usize;
    let large = context.allocate::<u8>(most + 1).unwrap();
    let error = queue.fill(&large, 1).unwrap().wait().unwrap_err();
    assert!(
        matches!(error.kind(), ErrorKind::OutOfMemory { asked, capacity, .. }
            if *asked == most as u64 + 1 && *capacity == most as u64),
        "{error}"
    );
    // What is not in use makes room for others, and comes back.
    let buffers = [1u8, 2, 3].map(|value| {
        let buffer = context.allocate::<u8>(most / 2 + 1).unwrap();
        queue.fill(&buffer, value).unwrap().wait().unwrap();
        (buffer, value)
    });
    for (buffer, value) in buffers {
        let back = queue.read(&buffer).unwrap().wait().unwrap();
        assert!(back.iter().all(|byte| *byte == value));
    }
}
