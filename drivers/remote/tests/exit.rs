//! Programs that end, in any way that they may, and leave nothing behind at the node.
//!
//! Not of the tests' harness: `main` itself has to return. No time passes for the node, so what it
//! gives up it was told to.
// Elsewhere the system does not say within a known time that a connection is lost, and sessions end
// with it.
#![cfg_attr(not(target_os = "linux"), allow(dead_code, unused_imports))]
#![allow(clippy::unwrap_used, reason = "helpers assert by unwrapping")]

mod support;

use quipu_conformance::{Watchdog, folding};
use quipu_driver_remote::{Options, connect};
use quipu_link::timer::ManualTimer;
use quipu_link::{Folder, Key};
use quipu_node::Limits;
use quipu_scheduler::{Access, AccessMode, Context, Device, Driver, Queue, QueueOptions, Request};
use std::process::{Command, ExitCode, Stdio};
use std::sync::{Arc, OnceLock};
use std::time::Duration;
use support::{PATIENCE, Rig, pool, rounds};

/// The end of a program; that this process is one.
const WAY: &str = "QUIPU_TEST_WAY";
/// Set if it has work in flight then.
const WORKS: &str = "QUIPU_TEST_WORKS";
/// The place of its key, and the node.
const KEY: &str = "QUIPU_TEST_KEY";
const NODE: &str = "QUIPU_TEST_NODE";

/// Ways to end, and what the system says of each.
const WAYS: [(&str, i32); 5] = [
    ("drops and returns", 0),
    ("returns", 0),
    ("drops elsewhere and returns", 0),
    ("exits", 3),
    ("panics", 101),
];

/// Devices that are there as `main` returns.
static KEPT: OnceLock<(Context, Queue, Vec<Device>)> = OnceLock::new();

#[cfg(not(target_os = "linux"))]
fn main() {}

#[cfg(target_os = "linux")]
fn main() -> ExitCode {
    if let Ok(way) = std::env::var(WAY) {
        return program(&way);
    }
    let _watchdog = Watchdog::start(Duration::from_secs(1800), "programs that end".to_owned());
    let rig = Rig::with(pool(1), Limits::default(), |options| {
        options.timer = Arc::new(ManualTimer::default());
    });
    for round in 0..rounds(5) {
        for (way, code) in WAYS {
            for works in [false, true] {
                let mut program = Command::new(std::env::current_exe().unwrap());
                program
                    .env(WAY, way)
                    .env(KEY, rig.of_client())
                    .env(NODE, format!("{}@{}", rig.node.fingerprint(), rig.address))
                    .stderr(Stdio::null());
                if works {
                    program.env(WORKS, "1");
                }
                let ended = program.status().unwrap();
                assert_eq!(ended.code(), Some(code), "{way}");
                // Without its goodbye the session would stay.
                while rig.node.sessions() > 0 {
                    std::thread::yield_now();
                }
            }
        }
        println!("round {round}: nothing is left");
    }
    ExitCode::SUCCESS
}

/// The work of a program, which ends in this way.
fn program(way: &str) -> ExitCode {
    let folder = Folder::open(std::path::PathBuf::from(std::env::var_os(KEY).unwrap())).unwrap();
    let key = Key::of(&folder, "client.key").unwrap();
    let node = std::env::var(NODE).unwrap();
    let (fingerprint, address) = node.split_once('@').unwrap();
    let options = Options {
        patience: PATIENCE,
        reconnect: 10 * PATIENCE,
        // However slow the machine is: a node that has not heard it keeps the session, as no time
        // passes for it.
        goodbye: Duration::MAX,
        ..Options::new("node", address, fingerprint.parse().unwrap())
    };
    let driver: Arc<dyn Driver> = connect(&options, &key).unwrap();
    let devices = Device::all_of(&driver).unwrap();
    drop(driver);
    let context = Context::new(&devices).unwrap();
    let queue = context.queue(&devices[0], QueueOptions::default()).unwrap();
    if std::env::var_os(WORKS).is_some() {
        let memory = context.memory(1 << 20).unwrap();
        let access = |mode| Access {
            memory: &memory,
            offset: 0,
            length: memory.size(),
            mode,
        };
        for number in 0..2000 {
            let request = Request {
                accesses: &[access(AccessMode::ReadWrite)],
                ..Request::default()
            };
            queue.launch(folding(number), 1, &request).unwrap();
        }
        let bytes = Box::leak(vec![7_u8; 1 << 20].into_boxed_slice());
        // SAFETY: there for ever, and nobody else looks.
        let from = unsafe {
            quipu_scheduler::operation::HostMemory::new(bytes.as_mut_ptr(), bytes.len(), None)
        };
        let to = access(AccessMode::Overwrite);
        queue.write(from, to, memory.size(), &[], &[]).unwrap();
        queue.flush();
    }
    match way {
        "drops and returns" => {}
        "drops elsewhere and returns" => {
            // It may not come to it.
            std::thread::spawn(move || drop((queue, context, devices)));
        }
        _ => {
            let _ = KEPT.set((context, queue, devices));
            match way {
                "exits" => std::process::exit(3),
                "panics" => panic!("as a program may"),
                _ => {}
            }
        }
    }
    ExitCode::SUCCESS
}
