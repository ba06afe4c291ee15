//! Kernels that clients write, on devices that compile them: one that never ends costs its own
//! session, though no thread of the process runs it.
#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, reason = "helpers assert by unwrapping")]

mod support;

use quipu_conformance::Watchdog;
use quipu_driver_opencl::OpenClDriver;
use quipu_link::LinkError;
use quipu_node::{Limits, Options, Spawn, serve_session};
use quipu_protocol::message::{
    CreateProgram, GoodbyeReason, Launch, Message, Operation, Parameter, ParameterKind,
    ProgramFormat, Word,
};
use quipu_scheduler::{Device, Driver};
use std::sync::Arc;
use std::time::Duration;
use support::{Client, Rig, buffer, command, fill};

/// Says that this process is a session's.
const IS_SESSION: &str = "QUIPU_TEST_SESSION";

fn devices() -> quipu_scheduler::Result<Vec<Device>> {
    let driver: Arc<dyn Driver> = OpenClDriver::start()?;
    Device::all_of(&driver)
}

/// The devices; none if there are none and tests may leave out what needs one.
fn devices_or_skip() -> Option<Vec<Device>> {
    match devices() {
        Ok(devices) => Some(devices),
        Err(error) => {
            assert!(
                std::env::var("QUIPU_TEST_WITHOUT_OPENCL").is_ok_and(|value| value == "1"),
                "{error}"
            );
            eprintln!("\n*** NOT TESTED: limits of time on OpenCL's devices. {error}\n");
            None
        }
    }
}

/// Not a test: what a session's process does, when the tests' node starts this program.
#[test]
#[ignore = "a session's process, started by the tests"]
fn session_process() {
    if std::env::var_os(IS_SESSION).is_none() {
        return;
    }
    let served = serve_session(|_| {
        let devices = devices().map_err(|error| error.to_string())?;
        Ok::<_, String>(Options::new(devices))
    });
    panic!("{served:?}");
}

/// A kernel that runs until a number is what it is told, which is never if that is not zero.
fn create(client: &mut Client) {
    client.send(&[Message::CreateProgram(CreateProgram {
        program: 1,
        format: ProgramFormat::OpenClC,
        source: b"kernel void wait(global volatile int *a, int until) {
            while (a[0] != until) {}
            a[1] = 7;
        }",
        entry: "wait",
        options: "",
    })]);
}

fn launch(client: &mut Client, event: u64, until: i32) {
    let one = [Word::new(1)];
    let parameters = [
        Parameter::new(ParameterKind::Memory {
            mode: quipu_protocol::message::AccessMode::ReadWrite,
            buffer: 1,
            offset: 0,
            length: 64,
            element: 4,
            rank: 0,
        }),
        Parameter::new(ParameterKind::Value { length: 4 }),
    ];
    client.send(&[command(
        event,
        &[],
        Operation::Launch(Launch {
            program: 1,
            blocks: &one,
            threads: &one,
            elements: &one,
            offset: &[],
            all_threads: &[],
            shared: &[],
            parameters: &parameters,
            extents: &[],
            values: &until.to_le_bytes(),
        }),
    )]);
}

/// A client with a buffer of zeros, and the program.
fn client(rig: &Rig, number: usize) -> Client {
    let mut client = rig.client_of(number);
    let mut zeros = fill(1, 64);
    if let Operation::Fill(fill) = &mut zeros {
        fill.pattern = [0; 16];
    }
    client.send(&[buffer(1, 64), command(1, &[], zeros)]);
    create(&mut client);
    assert_eq!(client.end_of(1), None);
    client
}

#[test]
fn a_kernel_that_never_ends_on_its_device_costs_its_own_session() {
    let Some(devices) = devices_or_skip() else {
        return;
    };
    let _watchdog = Watchdog::start(Duration::from_secs(1800), "endless kernels".to_owned());
    let rig = Rig::with_folder(Limits::default(), |options, _| {
        let this = ["--exact", "session_process", "--ignored", "--nocapture"];
        let mut spawn = Spawn::own(this).unwrap();
        spawn.environment = vec![(IS_SESSION.into(), Some("1".into()))];
        options.processes = Some(spawn);
        options.devices = devices;
    });
    let mut good = client(&rig, 0);
    launch(&mut good, 2, 0);
    assert_eq!(good.end_of(2), None);
    // Its own limit: to the device, compiling is a part of running, which may take some seconds.
    rig.grant("two", "run-time=2");
    let mut bad = client(&rig, 1);
    launch(&mut bad, 2, 1);
    // What others do meanwhile is done, and takes no time from anybody's.
    for event in 3.. {
        launch(&mut good, event, 0);
        assert_eq!(good.end_of(event), None);
        good.acknowledge();
        if rig.node.sessions() < 2 {
            break;
        }
    }
    let error = loop {
        if let Err(error) = bad.next(|_| ()) {
            break error;
        }
    };
    match error {
        LinkError::Goodbye { reason, text, .. } => {
            assert_eq!(reason, GoodbyeReason::Limit);
            assert!(
                text.contains("longer than 2 s") && text.contains("--run-time"),
                "{text}"
            );
        }
        other => panic!("{other}"),
    }
    drop(good);
    rig.is_empty();
}
