//! Faults end the right commands, with the right errors, and nothing hangs.
#![allow(clippy::unwrap_used, reason = "helpers assert by unwrapping")]

mod support;

use quipu_driver_sim::engine::{Configuration, DeviceId, Fault, KindFilter, Misreport, Progress};
use quipu_driver_sim::{SimDriver, SimQueue};
use quipu_scheduler::driver::{Notification, Submission};
use quipu_scheduler::error::ErrorKind;
use quipu_scheduler::event::{Waiter, may_wait};
use quipu_scheduler::queue::QueueShared;
use quipu_scheduler::{
    AccessMode, Context, Device, DeviceProperties, Driver, Error, Event, QueueOptions, Request,
    Result, UserEvent,
};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use support::{Rig, all, map, on_all, read, step, update, view, write};

fn both(configuration: &Configuration) -> [Rig; 2] {
    [
        Rig::manual(configuration.clone()),
        Rig::threaded(configuration.clone()),
    ]
}

fn with_fault(mut configuration: Configuration, fault: Fault) -> Configuration {
    configuration.faults.push(fault);
    configuration
}

fn shared(devices: u16) -> Configuration {
    Configuration::shared_memory(devices, 1 << 20)
}

#[test]
fn a_failed_command_takes_its_readers_along_and_nobody_else() {
    let _alone = support::alone();
    let fault = Fault::FailCommand {
        device: DeviceId(0),
        nth: 2,
    };
    for rig in both(&with_fault(shared(2), fault)) {
        let queues = [rig.queue(0), rig.queue(1)];
        let (a, b, other) = (rig.cells(4), rig.cells(4), rig.cells(4));
        let first = update(&queues[0], &a, 1, &[]);
        let second = update(&queues[0], &a, 2, &[]);
        let reader = map(&queues[1], &a, &b, 3);
        let reader_of_reader = update(&queues[0], &b, 4, &[]);
        let overwriter = write(&queues[1], &a, &[7, 7, 7, 7]);
        let bystander = update(&queues[1], &other, 5, &[]);
        first.wait().unwrap();
        let error = second.wait().unwrap_err();
        assert!(matches!(error.kind(), ErrorKind::Device { .. }), "{error}");
        assert!(
            error.to_string().contains("fail the n-th command"),
            "{error}"
        );
        for event in [reader, reader_of_reader] {
            let error = event.wait().unwrap_err();
            assert!(matches!(error.kind(), ErrorKind::Dependency { .. }));
            assert!(matches!(
                error.first_cause().kind(),
                ErrorKind::Device { .. }
            ));
        }
        overwriter.wait().unwrap();
        bystander.wait().unwrap();
        assert_eq!(read(&queues[0], &a).unwrap(), [7; 4]);
        assert_eq!(read(&queues[1], &other).unwrap(), [5; 4]);
        assert!(read(&queues[1], &b).is_err());
    }
}

#[test]
fn what_was_read_for_a_failed_transfer_does_not_reach_the_host() {
    let _alone = support::alone();
    let fault = Fault::FailKind {
        device: None,
        kind: KindFilter::Only(quipu_driver_sim::engine::Kind::Copy),
    };
    let rig = Rig::manual(with_fault(shared(1), fault));
    let queue = rig.queue(0);
    let buffer = rig.cells(4);
    update(&queue, &buffer, 1, &[]).wait().unwrap();
    let mut cells = vec![42_u64; 4];
    // SAFETY: the wait below ends before the vector does.
    let to =
        unsafe { quipu_scheduler::operation::HostMemory::new(cells.as_mut_ptr().cast(), 32, None) };
    let event = queue
        .read(all(&buffer, AccessMode::Read), to, 32, &[], &[])
        .unwrap();
    assert!(event.wait().is_err());
    assert_eq!(cells, [42; 4]);
}

/// True if the first cause is the loss of a device.
fn is_loss(error: &Error) -> bool {
    matches!(error.first_cause().kind(), ErrorKind::DeviceLost { .. })
}

#[test]
fn a_device_with_memory_of_its_own_is_lost_in_the_middle() {
    let _alone = support::alone();
    let fault = Fault::LoseDevice {
        device: DeviceId(0),
        nth: 4,
    };
    let separate = Configuration::separate_memory(2, 1 << 20);
    for rig in both(&with_fault(separate, fault)) {
        let queues = [rig.queue(0), rig.queue(1)];
        let (lost, kept, elsewhere) = (rig.cells(4), rig.cells(4), rig.cells(4));
        write(&queues[1], &kept, &[1, 2, 3, 4]).wait().unwrap();
        let mut doomed = Vec::new();
        for number in 0..8 {
            doomed.push(update(&queues[0], &lost, number, &[]));
        }
        // Needs both.
        let joined = map(&queues[1], &lost, &elsewhere, 1);
        let survivors: Vec<Event> = (0..8)
            .map(|number| update(&queues[1], &kept, number, &[]))
            .collect();
        for event in survivors {
            event.wait().unwrap();
        }
        let results: Vec<_> = doomed.iter().map(Event::wait).collect();
        assert!(results[..3].iter().all(Result::is_ok));
        for result in &results[3..] {
            assert!(is_loss(result.as_ref().unwrap_err()));
        }
        assert!(is_loss(&joined.wait().unwrap_err()));
        let model = |cell| (0..8).fold(cell, step);
        assert_eq!(
            read(&queues[1], &kept).unwrap(),
            [model(1), model(2), model(3), model(4)]
        );
        // The only copy went with the device.
        let error = read(&queues[1], &lost).unwrap_err();
        assert!(is_loss(&error), "{error}");
        assert!(rig.devices[0].lost().is_some());
        assert!(rig.devices[1].lost().is_none());
        let accesses = [all(&lost, AccessMode::ReadWrite)];
        let request = Request {
            accesses: &accesses,
            ..Request::default()
        };
        let refused = queues[0].launch(support::Kernel("late", |_: &[_]| Ok(())), 1, &request);
        assert!(is_loss(&refused.unwrap_err()));
        // Written anew, the buffer is of use again.
        write(&queues[1], &lost, &[9; 4]).wait().unwrap();
        assert_eq!(read(&queues[1], &lost).unwrap(), [9; 4]);
    }
}

#[test]
fn memory_outlives_one_of_the_devices_that_share_it() {
    let _alone = support::alone();
    let fault = Fault::LoseDevice {
        device: DeviceId(0),
        nth: 3,
    };
    for rig in both(&with_fault(shared(2), fault)) {
        let queues = [rig.queue(0), rig.queue(1)];
        let (a, b) = (rig.cells(2), rig.cells(2));
        let before: Vec<_> = (0..2).map(|n| update(&queues[0], &a, n, &[])).collect();
        let after = update(&queues[0], &b, 5, &[]);
        let reader = update(&queues[1], &b, 6, &[]);
        let survivor = update(&queues[1], &a, 2, &[]);
        for event in before {
            event.wait().unwrap();
        }
        assert!(is_loss(&after.wait().unwrap_err()));
        assert!(is_loss(&reader.wait().unwrap_err()));
        survivor.wait().unwrap();
        assert_eq!(read(&queues[1], &a).unwrap(), [(0..3).fold(0, step); 2]);
    }
}

#[test]
fn bytes_leave_a_shared_memory_by_a_device_that_is_left() {
    let _alone = support::alone();
    let mut configuration = Configuration::separate_memory(2, 1 << 20);
    configuration.devices.push(configuration.devices[0].clone());
    for rig in both(&configuration) {
        let queues = [rig.queue(0), rig.queue(1), rig.queue(2)];
        let buffer = rig.cells(2);
        update(&queues[0], &buffer, 1, &[]).wait().unwrap();
        // From now on there is a queue for migrations from the memory: of the first device.
        assert_eq!(read(&queues[1], &buffer).unwrap(), [1; 2]);
        let fault = Fault::LoseDevice {
            device: DeviceId(0),
            nth: 1,
        };
        rig.driver.arm(fault).unwrap();
        let last = update(&queues[0], &rig.cells(1), 0, &[]);
        assert!(is_loss(&last.wait().unwrap_err()));
        update(&queues[2], &buffer, 2, &[]).wait().unwrap();
        assert_eq!(read(&queues[1], &buffer).unwrap(), [5; 2]);
    }
}

#[test]
fn a_device_that_is_lost_with_work_behind_a_gate_lets_go_of_all_of_it() {
    let _alone = support::alone();
    for rig in both(&shared(1)) {
        let queue = rig.queue(0);
        let buffer = rig.cells(1);
        let gate = UserEvent::new();
        let events: Vec<_> = (0..200)
            .map(|number| update(&queue, &buffer, number, &[gate.event()]))
            .collect();
        queue.flush();
        let held = update(&queue, &buffer, 0, &[gate.event()]);
        rig.driver.machine().lose_device(DeviceId(0)).unwrap();
        gate.complete();
        for event in events.into_iter().chain([held]) {
            assert!(is_loss(&event.wait().unwrap_err()));
        }
    }
}

#[test]
fn a_slow_device_and_one_that_misreports_change_no_result() {
    let _alone = support::alone();
    let misreport = |how| Fault::Misreport {
        device: DeviceId(0),
        nth: 2,
        how,
    };
    let slow = Fault::Slow {
        device: DeviceId(0),
        nth: 2,
        factor: 1_000_000,
    };
    for (fault, expected_reports) in [
        (slow, [0, 0, 0]),
        (misreport(Misreport::Twice), [1, 0, 0]),
        (misreport(Misreport::Early), [0, 1, 0]),
        (misreport(Misreport::Never), [0, 0, 1]),
    ] {
        for rig in both(&with_fault(shared(2), fault.clone())) {
            let queues = [rig.queue(0), rig.queue(1)];
            let buffer = rig.cells(2);
            for number in 0..10 {
                update(&queues[(number % 2) as usize], &buffer, number, &[]);
            }
            let expected = (0..10).fold(0, step);
            assert_eq!(read(&queues[0], &buffer).unwrap(), [expected; 2]);
            let found = rig.driver.statistics(0).unwrap();
            let reports = [
                found.duplicate_reports,
                found.early_reports,
                found.missing_reports,
            ];
            assert_eq!(reports, expected_reports, "{fault:?}");
        }
    }
}

#[test]
fn panics_and_errors_of_kernels_are_those_of_their_commands() {
    let _alone = support::alone();
    for rig in both(&shared(1)) {
        let queue = rig.queue(0);
        let (a, b) = (rig.cells(1), rig.cells(1));
        let panics = on_all(&queue, "careless", &a, &[], |_| panic!("no cells left"));
        let fails = on_all(&queue, "strict", &b, &[], |_| {
            Err(ErrorKind::Kernel {
                what: "strict".to_owned(),
                message: "not today".to_owned(),
            }
            .into())
        });
        let error = panics.wait().unwrap_err();
        assert!(
            matches!(error.kind(), ErrorKind::Panicked { .. }),
            "{error}"
        );
        let text = error.to_string();
        assert!(
            text.contains("careless") && text.contains("no cells left"),
            "{text}"
        );
        let error = fails.wait().unwrap_err();
        assert!(matches!(error.kind(), ErrorKind::Kernel { .. }), "{error}");
        write(&queue, &a, &[3]);
        assert_eq!(read(&queue, &a).unwrap(), [3]);
    }
}

#[test]
fn a_cancelled_command_is_not_run_wherever_it_is() {
    let _alone = support::alone();
    for rig in both(&shared(1)) {
        let queue = rig.queue(0);
        let buffer = rig.cells(1);
        let runs = Arc::new(AtomicU64::new(0));
        let gate = UserEvent::new();
        let launch = |waits: &[Event]| {
            let runs = Arc::clone(&runs);
            on_all(&queue, "counts", &buffer, waits, move |_| {
                runs.fetch_add(1, Ordering::Relaxed);
                Ok(())
            })
        };
        let on_the_machine = launch(&[gate.event()]);
        queue.flush();
        let not_flushed = launch(&[]);
        let untouched = rig.cells(1);
        let bystander = update(&queue, &untouched, 1, &[]);
        on_the_machine.cancel();
        not_flushed.cancel();
        gate.complete();
        assert!(on_the_machine.wait().unwrap_err().is_cancelled());
        let error = not_flushed.wait().unwrap_err();
        assert!(error.first_cause().is_cancelled());
        bystander.wait().unwrap();
        assert_eq!(runs.load(Ordering::Relaxed), 0);
    }
}

#[test]
fn a_reset_fails_what_is_on_the_device_and_leaves_it_usable() {
    let _alone = support::alone();
    for rig in both(&shared(2)) {
        let queue = rig.queue(0);
        let buffer = rig.cells(1);
        write(&queue, &buffer, &[5]).wait().unwrap();
        let gate = UserEvent::new();
        let stuck = update(&queue, &buffer, 1, &[gate.event()]);
        queue.flush();
        // A thread that is still ending the write may be the one that uploads it.
        while rig.driver.interactions().uploads < 2 {
            std::thread::yield_now();
        }
        rig.driver.reset(0).unwrap();
        gate.complete();
        let error = stuck.wait().unwrap_err();
        assert!(error.to_string().contains("reset"), "{error}");
        write(&queue, &buffer, &[6]);
        update(&queue, &buffer, 1, &[]).wait().unwrap();
        assert_eq!(read(&queue, &buffer).unwrap(), [19]);
        assert!(rig.driver.reset(7).is_err());
        rig.driver.machine().lose_device(DeviceId(1)).unwrap();
        while rig
            .driver
            .machine()
            .with(|simulation| !simulation.is_lost(DeviceId(1)))
        {
            rig.driver.machine().step();
        }
        assert!(is_loss(&rig.driver.reset(1).unwrap_err()));
    }
}

#[test]
fn host_tasks_see_device_memory() {
    let _alone = support::alone();
    for rig in both(&Configuration::separate_memory(2, 1 << 20)) {
        let queues = [rig.queue(0), rig.queue(1)];
        let buffer = rig.cells(3);
        update(&queues[0], &buffer, 4, &[]);
        let seen = Arc::new(Mutex::new(Vec::new()));
        let keep = Arc::clone(&seen);
        let accesses = [all(&buffer, AccessMode::ReadWrite)];
        let request = Request {
            accesses: &accesses,
            ..Request::default()
        };
        let task = move |arguments: &[quipu_scheduler::RawArgument]| {
            let cells = view(&arguments[0]);
            keep.lock().unwrap().extend_from_slice(cells);
            cells[1] = 9;
            Ok(())
        };
        queues[1].host_task(task, &request).unwrap();
        assert_eq!(read(&queues[0], &buffer).unwrap(), [4, 9, 4]);
        assert_eq!(*seen.lock().unwrap(), [4, 4, 4]);
    }
}

#[test]
fn native_calls_are_handed_the_machine() {
    let _alone = support::alone();
    for rig in both(&Configuration::separate_memory(2, 1 << 20)) {
        let queue = rig.queue(1);
        let buffer = rig.cells(2);
        update(&queue, &buffer, 4, &[]);
        let native = queue.native().unwrap().downcast::<SimQueue>().unwrap();
        let accesses = [all(&buffer, AccessMode::ReadWrite)];
        let request = Request {
            accesses: &accesses,
            ..Request::default()
        };
        let call = move |arguments: &[quipu_scheduler::RawArgument]| {
            assert_eq!(native.device, DeviceId(1));
            let statistics = native.machine().with(|it| it.statistics(native.device));
            // The image with the kernel before.
            view(&arguments[0])[1] = statistics.unwrap().image_builds;
            Ok(())
        };
        queue.native_call(call, &request).unwrap();
        assert_eq!(read(&queue, &buffer).unwrap(), [4, 1]);
    }
}

#[test]
fn asking_and_being_told_flush() {
    let _alone = support::alone();
    let rig = Rig::threaded(shared(1));
    let queue = rig.queue(0);
    let buffer = rig.cells(1);
    let event = update(&queue, &buffer, 1, &[]);
    while !event.is_complete() {
        std::thread::yield_now();
    }
    let (tell, told) = std::sync::mpsc::channel();
    update(&queue, &buffer, 2, &[]).on_complete(move |result| tell.send(result).unwrap());
    told.recv().unwrap().unwrap();
}

#[test]
fn waiting_inside_a_task_or_a_callback_is_an_error_and_no_hang() {
    let _alone = support::alone();
    for rig in both(&shared(1)) {
        let queue = rig.queue(0);
        let buffer = rig.cells(1);
        let later = {
            let gate = UserEvent::new();
            let event = update(&queue, &buffer, 1, &[gate.event()]);
            (gate, event)
        };
        let inner = later.1.clone();
        let task = queue
            .host_task(move |_| inner.wait(), &Request::default())
            .unwrap();
        let error = task.wait().unwrap_err();
        assert!(
            matches!(error.kind(), ErrorKind::WouldDeadlock { .. }),
            "{error}"
        );
        // This thread may call a callback as well, by a flush. There a wait is allowed, and would
        // be for what this thread does later.
        let error = loop {
            let (tell, told) = std::sync::mpsc::channel();
            let inner = later.1.clone();
            let quick = on_all(&queue, "quick", &rig.cells(1), &[], |_| Ok(()));
            quick.on_complete(move |_| {
                let refused = (!may_wait()).then(|| inner.wait());
                tell.send(refused).unwrap();
            });
            quick.wait().unwrap();
            // The callback may still run after the event is over.
            if let Some(refused) = told.recv().unwrap() {
                break refused.unwrap_err();
            }
        };
        assert!(
            matches!(error.kind(), ErrorKind::WouldDeadlock { .. }),
            "{error}"
        );
        later.0.complete();
        later.1.wait().unwrap();
    }
}

/// A simulated machine that gets to its end with all that it has as soon as it is told of one more
/// command, which the core is then still enqueuing.
struct Overtaking {
    machine: Arc<SimDriver>,
    overtakes: AtomicBool,
}

// SAFETY: a command's code and memory are used while it is here, with the arguments resolved for
// it.
unsafe impl Driver for Overtaking {
    fn name(&self) -> &'static str {
        self.machine.name()
    }

    fn devices(&self) -> Vec<DeviceProperties> {
        self.machine.devices()
    }

    fn submit(&self, submission: Submission<'_>) {
        self.machine.submit(submission);
        if self.overtakes.load(Ordering::Relaxed) {
            while self.machine.machine().step() == Progress::Moved {}
        }
    }

    fn flush(&self, queue: &QueueShared) {
        self.machine.flush(queue);
    }

    fn join(&self, waiter: &Waiter<'_>) -> Result<()> {
        self.machine.join(waiter)
    }

    fn notify(&self, notification: Notification) {
        self.machine.notify(notification);
    }

    fn needs_flush(&self) -> bool {
        true
    }

    fn is_idle(&self) -> bool {
        self.machine.is_idle()
    }

    fn allocate(&self, key: u32, size: u64) -> Result<u64> {
        self.machine.allocate(key, size)
    }

    unsafe fn free(&self, key: u32, address: u64, size: u64) {
        // SAFETY: the caller makes sure of the requirements of `Driver::free`, which are the same.
        unsafe { self.machine.free(key, address, size) };
    }
}

#[test]
fn what_fails_while_a_dependant_is_enqueued_fails_it_too() {
    let _alone = support::alone();
    let machine = SimDriver::manual(shared(1)).unwrap();
    let driver = Arc::new(Overtaking {
        machine,
        overtakes: AtomicBool::new(false),
    });
    let object: Arc<dyn Driver> = driver.clone();
    let devices = Device::all_of(&object).unwrap();
    let context = Context::new(&devices).unwrap();
    let options = QueueOptions {
        in_order: false,
        ..QueueOptions::default()
    };
    let queue = context.queue(&devices[0], options).unwrap();
    let buffer = context.memory(8).unwrap();
    let fails = on_all(&queue, "fails", &buffer, &[], |_| {
        Err(ErrorKind::Kernel {
            what: "fails".to_owned(),
            message: "as it should".to_owned(),
        }
        .into())
    });
    queue.flush();
    assert!(!fails.is_complete());
    driver.overtakes.store(true, Ordering::Relaxed);
    let runs = Arc::new(AtomicU64::new(0));
    let count = Arc::clone(&runs);
    let waits = [fails.clone()];
    let request = Request {
        waits: &waits,
        ..Request::default()
    };
    let task = move |_: &[quipu_scheduler::RawArgument]| {
        count.fetch_add(1, Ordering::Relaxed);
        Ok(())
    };
    let dependant = queue.host_task(task, &request).unwrap();
    assert!(fails.is_complete());
    let error = dependant.wait().unwrap_err();
    assert!(matches!(
        error.first_cause().kind(),
        ErrorKind::Kernel { .. }
    ));
    assert_eq!(runs.load(Ordering::Relaxed), 0);
}

#[test]
fn a_dropped_queue_and_context_end_their_commands_first() {
    let _alone = support::alone();
    for rig in both(&shared(1)) {
        let buffer = rig.cells(1);
        let gate = UserEvent::new();
        let queue = rig.queue(0);
        let events: Vec<_> = (0..50)
            .map(|number| update(&queue, &buffer, number, &[gate.event()]))
            .collect();
        drop((queue, buffer, rig));
        gate.complete();
        for event in events {
            event.wait().unwrap();
        }
    }
}
