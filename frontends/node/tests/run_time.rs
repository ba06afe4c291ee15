//! Limits of run times on devices whose kernels no thread of the node runs: kernels are timed, and
//! nothing else.
#![allow(clippy::unwrap_used, reason = "helpers assert by unwrapping")]

mod support;

use quipu_conformance::Watchdog;
use quipu_driver_cpu::SerialDriver;
use quipu_link::timer::ManualTimer;
use quipu_node::Limits;
use quipu_protocol::message::{CreateProgram, GoodbyeReason, Message, ProgramFormat};
use quipu_scheduler::driver::Notification;
use quipu_scheduler::event::Waiter;
use quipu_scheduler::{Command, Device, DeviceProperties, Driver, MemorySpace, Result};
use std::any::TypeId;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use support::{Rig, buffer, command, fill, one_thread};

const LIMIT: Duration = Duration::from_secs(60);

/// A device that begins what it is given, and never ends it.
#[derive(Default)]
struct Endless(Mutex<Vec<Command>>);

impl Endless {
    /// Returns when it has begun so many commands.
    fn has_begun(&self, count: usize) {
        while self.0.lock().unwrap().len() < count {
            std::thread::yield_now();
        }
    }
}

// SAFETY: a command's code and memory are used while it is here, with the arguments resolved for
// it.
unsafe impl Driver for Endless {
    fn name(&self) -> &'static str {
        "endless"
    }

    fn devices(&self) -> Vec<DeviceProperties> {
        let like = SerialDriver::new().devices().remove(0);
        vec![DeviceProperties {
            memory: MemorySpace::Host,
            ..like
        }]
    }

    fn join(&self, waiter: &Waiter<'_>) -> Result<()> {
        waiter.sleep();
        Ok(())
    }

    fn notify(&self, notification: Notification) {
        if let Notification::Ready(command) = notification {
            command.start().unwrap();
            self.0.lock().unwrap().push(command);
        }
    }

    fn runs_native_code(&self) -> bool {
        false
    }

    fn takes_code(&self, _: TypeId) -> bool {
        true
    }
}

#[test]
fn a_kernel_costs_its_session_when_its_time_is_over_and_a_transfer_does_not() {
    let _watchdog = Watchdog::start(Duration::from_secs(600), "limits of time".to_owned());
    let (device, timer) = (
        Arc::new(Endless::default()),
        Arc::new(ManualTimer::default()),
    );
    let limits = Limits {
        run_time: LIMIT,
        ..Limits::default()
    };
    let rig = Rig::with_folder(limits, |options, _| {
        let driver: Arc<dyn Driver> = device.clone();
        options.devices = Device::all_of(&driver).unwrap();
        options.timer = timer.clone();
    });
    // The node looks once each time.
    let look = || {
        while timer.waiting() == 0 {
            std::thread::yield_now();
        }
        timer.advance(2 * LIMIT);
        while timer.waiting() == 0 {
            std::thread::yield_now();
        }
    };
    let mut client = rig.client();
    client.send(&[
        buffer(1, 64),
        command(1, &[], fill(1, 64)),
        Message::CreateProgram(CreateProgram {
            program: 1,
            format: ProgramFormat::OpenClC,
            source: b"kernel void nothing() {}",
            entry: "nothing",
            options: "",
        }),
    ]);
    device.has_begun(1);
    for _ in 0..3 {
        look();
        assert_eq!(rig.node.sessions(), 1);
    }
    client.send(&[command(2, &[], one_thread(1))]);
    device.has_begun(2);
    while rig.node.sessions() > 0 {
        look();
    }
    assert_eq!(client.goodbye(), GoodbyeReason::Limit);
    // What has begun ends some time, and with it what the session had.
    let begun = std::mem::take(&mut *device.0.lock().unwrap());
    drop(begun);
    rig.is_empty();
}
