//! The machine that runs by itself, or on the caller's thread.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, mpsc};

use crate::common::{SPACE, native};
use quipu_driver_sim::engine::{
    Command, Configuration, Cost, DeviceId, Failure, Fault, Kind, Machine, MemoryAccess, Mode,
    Notice, Progress, RunEnd, Status, Unit, Wait,
};

fn small() -> Configuration {
    let mut configuration = Configuration::shared_memory(2, 1 << 20);
    for device in &mut configuration.devices {
        device.slots = 4;
    }
    configuration
}

fn reporting(mode: Mode) -> (Machine, mpsc::Receiver<Notice>) {
    let (sender, receiver) = mpsc::channel();
    // A test that has ended listens no more.
    let machine = Machine::new(small(), mode, move |notice| drop(sender.send(notice))).unwrap();
    (machine, receiver)
}

#[test]
fn a_thread_runs_what_is_uploaded_and_is_woken_again() {
    let (machine, notices) = reporting(Mode::Threaded);
    let mut pending: Vec<_> = (0..500_u64)
        .map(|tag| native((tag % 2) as u16, 10).tag(tag))
        .collect();
    let mut ended = Vec::new();
    while ended.len() < 500 {
        while let Some(command) = pending.pop() {
            if let Err(refusal) = machine.try_upload(command) {
                pending.push(*refusal.command);
                break;
            }
        }
        match notices.recv().unwrap() {
            Notice::Completed(completion) => {
                assert!(completion.outcome.is_complete());
                ended.push(completion.tag);
            }
            Notice::SlotsFree { .. } => {}
            other => panic!("{other:?}"),
        }
    }
    ended.sort_unstable();
    assert_eq!(ended, (0..500).collect::<Vec<_>>());
}

#[test]
fn the_thread_sleeps_while_all_waits_for_the_host() {
    let (machine, notices) = reporting(Mode::Threaded);
    let gate = machine.reserve_status(SPACE).unwrap();
    machine
        .try_upload(native(0, 10).wait(Wait::needs(gate)))
        .unwrap();
    // It would hang here if the thread polled for the host.
    while !machine.is_asleep() || !machine.with(|simulation| simulation.is_idle()) {
        std::thread::yield_now();
    }
    machine.set_status(gate, Status::Complete).unwrap();
    assert!(matches!(notices.recv(), Ok(Notice::Completed(_))));
}

#[test]
fn manual_mode_moves_only_when_stepped() {
    let (machine, notices) = reporting(Mode::Manual);
    machine.try_upload(native(0, 10)).unwrap();
    assert!(notices.try_recv().is_err());
    let mut ended = false;
    let end = machine.run_while(|| {
        ended |= matches!(notices.try_recv(), Ok(Notice::Completed(_)));
        !ended
    });
    assert_eq!(end, RunEnd::Done);
    assert_eq!(machine.run_while(|| true), RunEnd::Idle);
    assert_eq!(machine.step(), Progress::Idle);
}

#[test]
fn effects_and_callbacks_may_call_the_machine() {
    for mode in [Mode::Manual, Mode::Threaded] {
        let slot = Arc::new(OnceLock::<Machine>::new());
        let (sender, receiver) = mpsc::channel();
        let inner = Arc::clone(&slot);
        let machine = Machine::new(small(), mode, move |notice| {
            let machine = inner.get().expect("it is set before the first upload");
            if let Notice::Completed(completion) = notice {
                if completion.tag == 0 {
                    machine.try_upload(native(1, 10).tag(1)).unwrap();
                }
                drop(sender.send(completion));
            }
        });
        assert!(slot.set(machine.unwrap()).is_ok());
        let machine = slot.get().unwrap();
        let inner = Arc::clone(&slot);
        let command = Command::new(
            DeviceId(0),
            Kind::Native,
            Unit::Compute,
            Cost::default(),
            move |_| {
                let machine = inner.get().expect("it is set before the first upload");
                // A call is fine; waiting for the step that this is part of is not, and says so.
                assert!(machine.allocate(SPACE, 64, 64).is_ok());
                assert_eq!(machine.step(), Progress::Nested);
                assert_eq!(machine.run_while(|| true), RunEnd::Nested);
                Ok(())
            },
        );
        machine.try_upload(command).unwrap();
        if mode == Mode::Manual {
            assert_eq!(machine.run_while(|| true), RunEnd::Idle);
        }
        for tag in 0..2 {
            let completion = receiver.recv().unwrap();
            assert_eq!(completion.tag, tag);
            assert!(completion.outcome.is_complete(), "{:?}", completion.outcome);
        }
        assert_eq!(machine.callback_panics(), 0);
    }
}

/// Calls the machine when it is dropped, as the owner of a buffer would.
struct FreesOnDrop(
    Arc<OnceLock<Machine>>,
    quipu_driver_sim::engine::DeviceAddress,
);

impl Drop for FreesOnDrop {
    fn drop(&mut self) {
        if let Some(machine) = self.0.get() {
            machine.free(self.1).unwrap();
        }
    }
}

#[test]
fn effects_that_never_run_are_dropped_outside_the_lock() {
    let slot = Arc::new(OnceLock::<Machine>::new());
    let (machine, notices) = reporting(Mode::Manual);
    assert!(slot.set(machine).is_ok());
    let machine = slot.get().unwrap();
    let gate = machine.reserve_status(SPACE).unwrap();
    let guard = FreesOnDrop(Arc::clone(&slot), machine.allocate(SPACE, 64, 64).unwrap());
    let command = Command::new(
        DeviceId(0),
        Kind::Native,
        Unit::Compute,
        Cost::default(),
        move |_| {
            let _held = &guard;
            Ok(())
        },
    );
    machine.try_upload(command.wait(Wait::needs(gate))).unwrap();
    let failure = Arc::new(Failure::Host {
        message: "no".to_owned(),
    });
    machine.set_status(gate, Status::Failed(failure)).unwrap();
    assert_eq!(machine.run_while(|| true), RunEnd::Idle);
    assert!(matches!(notices.try_recv(), Ok(Notice::Completed(_))));
    assert_eq!(
        machine.with(|simulation| simulation.memory(SPACE).unwrap().allocations),
        0
    );
}

#[test]
fn an_effect_that_its_lost_device_never_ran_is_dropped_outside_the_lock() {
    let slot = Arc::new(OnceLock::<Machine>::new());
    let mut configuration = small();
    configuration.faults.push(Fault::LoseDevice {
        device: DeviceId(0),
        nth: 2,
    });
    let machine = Machine::new(configuration, Mode::Manual, drop::<Notice>).unwrap();
    assert!(slot.set(machine).is_ok());
    let machine = slot.get().unwrap();
    let address = machine.allocate(SPACE, 64, 64).unwrap();
    // Both start at the same poll; the second takes the device away before the first has run.
    for unit in [Unit::Compute, Unit::CopyIn] {
        let guard = (unit == Unit::Compute).then(|| FreesOnDrop(Arc::clone(&slot), address));
        let effect = move |_: &mut MemoryAccess<'_>| {
            let _held = &guard;
            Err("a lost device runs nothing".to_owned())
        };
        let command = Command::new(DeviceId(0), Kind::Native, unit, Cost::default(), effect);
        machine.try_upload(command).unwrap();
    }
    assert_eq!(machine.run_while(|| true), RunEnd::Idle);
    assert_eq!(
        machine.with(|simulation| simulation.memory(SPACE).unwrap().allocations),
        0
    );
}

#[test]
fn several_threads_step_a_manual_machine_together() {
    let ended = Arc::new(AtomicU64::new(0));
    let counted = Arc::clone(&ended);
    let machine = Machine::new(small(), Mode::Manual, move |notice| {
        if matches!(notice, Notice::Completed(_)) {
            counted.fetch_add(1, Ordering::Relaxed);
        }
    })
    .unwrap();
    let pending = Mutex::new((0..300).map(|tag| native(tag % 2, 10)).collect::<Vec<_>>());
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                while ended.load(Ordering::Relaxed) < 300 {
                    let next = pending.lock().unwrap().pop();
                    if let Some(command) = next
                        && let Err(refusal) = machine.try_upload(command)
                    {
                        pending.lock().unwrap().push(*refusal.command);
                    }
                    machine.step();
                }
            });
        }
    });
    assert_eq!(ended.load(Ordering::Relaxed), 300);
}

#[test]
fn dropping_the_machine_fails_what_is_left_and_ends_its_thread() {
    for mode in [Mode::Manual, Mode::Threaded] {
        let (machine, notices) = reporting(mode);
        let gate = machine.reserve_status(SPACE).unwrap();
        machine
            .try_upload(native(0, 10).wait(Wait::needs(gate)))
            .unwrap();
        drop(machine);
        // Until the callback, and with it the sender, is gone: the thread has ended.
        let all: Vec<_> = notices.iter().collect();
        assert!(matches!(&all[..], [Notice::Completed(completion)]
            if completion.outcome.failure().is_some_and(|failure| **failure == Failure::ShutDown)));
    }
}

#[test]
fn a_machine_may_be_dropped_by_its_own_callback() {
    let slot = Arc::new(Mutex::new(None::<Machine>));
    let (sender, receiver) = mpsc::channel();
    let inner = Arc::clone(&slot);
    let machine = Machine::new(small(), Mode::Threaded, move |_| {
        let machine = inner.lock().unwrap().take();
        drop(machine);
        sender.send(()).expect("the test listens");
    })
    .unwrap();
    // The callback waits for this lock, so it finds the machine in its place.
    let mut place = slot.lock().unwrap();
    machine.try_upload(native(0, 10)).unwrap();
    *place = Some(machine);
    drop(place);
    receiver.recv().unwrap();
}

#[test]
fn a_panicking_callback_does_not_stop_the_machine() {
    let (sender, receiver) = mpsc::channel();
    let machine = Machine::new(small(), Mode::Threaded, move |notice| {
        if let Notice::Completed(completion) = notice {
            sender.send(completion.tag).expect("the test listens");
            assert_ne!(completion.tag, 1, "as the test wants");
        }
    })
    .unwrap();
    machine.try_upload(native(0, 10).tag(1)).unwrap();
    assert_eq!(receiver.recv(), Ok(1));
    machine.try_upload(native(0, 10).tag(2)).unwrap();
    assert_eq!(receiver.recv(), Ok(2));
    assert_eq!(machine.callback_panics(), 1);
}

#[test]
fn who_wants_to_step_waits_for_another_step_only_as_long_as_he_wants_to() {
    let (machine, _notices) = reporting(Mode::Manual);
    let ((is_inside, inside), (goes_on, go_on)) = (mpsc::channel(), mpsc::channel::<()>());
    let command = Command::new(
        DeviceId(0),
        Kind::Native,
        Unit::Immediate,
        Cost::default(),
        move |_: &mut MemoryAccess<'_>| {
            is_inside.send(()).unwrap();
            // Also if the test has failed.
            let _ = go_on.recv();
            Ok(())
        },
    );
    machine.try_upload(command).unwrap();
    std::thread::scope(|scope| {
        scope.spawn(|| while machine.step() == Progress::Moved {});
        inside.recv().unwrap();
        let mut asked = 0;
        let end = machine.run_while(|| {
            asked += 1;
            asked < 3
        });
        assert_eq!(end, RunEnd::Done);
        goes_on.send(()).unwrap();
    });
}
