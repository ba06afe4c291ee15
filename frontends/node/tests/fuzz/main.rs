//! Clients that send any messages, in any order, to a node that serves others: it does not panic,
//! nothing hangs, other clients notice nothing, and nothing is left of the clients when they are
//! gone.
//!
//! The long form: `QUIPU_FUZZ_SESSIONS=20000 cargo test --release -p quipu-node --test fuzz --
//! --ignored`.
#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, reason = "helpers assert by unwrapping")]

mod lane;
mod random;
mod remains;
mod script;
#[path = "../support/mod.rs"]
mod support;
/// Messages of all kinds.
#[path = "../../../../net/protocol/tests/support/mod.rs"]
mod wire;

use quipu_conformance::Watchdog;
use quipu_driver_sim::SimDriver;
use quipu_driver_sim::engine::Configuration;
use quipu_link::Key;
use quipu_link::client::Dial;
use quipu_link::timer::ManualTimer;
use quipu_node::native::{Name, Parameter};
use quipu_node::{Limits, Maker};
use quipu_protocol::message::{Message, Ping};
use quipu_scheduler::operation::NativeKernel;
use quipu_scheduler::{Device, Driver, ErrorKind, RawArgument};
use random::Random;
use remains::{Remains, bytes_in_use, panics};
use script::{Script, Seen};
use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;
use support::{Rig, pool};

/// Messages of a session, about.
const STEPS: u64 = 200;

/// The effect of a test's kernel on each byte that it may write.
#[derive(Clone, Copy)]
enum Does {
    Nothing,
    Fails,
    Panics,
    /// Adds one to each byte of what it may write.
    Adds(usize),
}

/// The message of the panic of a test's kernel.
const PANIC: &str = "a test's kernel panics";

impl NativeKernel for Does {
    fn name(&self) -> &'static str {
        "a test's kernel"
    }

    unsafe fn run(&self, arguments: &[RawArgument], _: Range<u32>) -> quipu_scheduler::Result<()> {
        match self {
            Self::Nothing => Ok(()),
            Self::Fails => Err(ErrorKind::Kernel {
                what: "a test's kernel".to_owned(),
                message: "no".to_owned(),
            }
            .into()),
            Self::Panics => panic!("{PANIC}"),
            Self::Adds(which) => {
                let bytes = arguments[*which];
                // SAFETY: all of it, which the command may write; there is one work-group.
                let bytes = unsafe { std::slice::from_raw_parts_mut(bytes.pointer, bytes.length) };
                bytes
                    .iter_mut()
                    .for_each(|byte| *byte = byte.wrapping_add(1));
                Ok(())
            }
        }
    }
}

/// Kernels by number; there is none of a larger one.
fn natives() -> HashMap<Name, Maker> {
    let all = [Does::Nothing, Does::Fails, Does::Panics].into_iter();
    let makers = all.map(|does| -> Maker { Arc::new(move |_| Ok(Box::new(does) as Box<_>)) });
    let adds: Maker = Arc::new(|launch| {
        let mut memories = launch.parameters.iter();
        let mut memories = memories.by_ref().filter_map(|parameter| match parameter {
            Parameter::Memory { mode, .. } => Some(*mode),
            Parameter::Value(_) => None,
        });
        let first = memories.position(|mode| mode == quipu_scheduler::AccessMode::ReadWrite);
        let is_one = launch.passed.blocks.iter().product::<u64>() == 1;
        Ok(Box::new(match first {
            Some(first) if is_one => Does::Adds(first),
            _ => Does::Nothing,
        }))
    });
    let all = makers.chain([adds]).zip(0_u8..);
    all.map(|(maker, number)| ([number; 32], maker)).collect()
}

/// A node with a pool and a device that has memory of its own, which knows time only as it is told.
struct Scene {
    rig: Rig,
    timer: Arc<ManualTimer>,
    machine: Arc<SimDriver>,
    other: Key,
}

impl Scene {
    fn new() -> Self {
        let machine = SimDriver::start(Configuration::separate_memory(1, 1 << 26)).unwrap();
        let timer = Arc::new(ManualTimer::default());
        let limits = Limits {
            buffers: 40,
            programs: 20,
            buffer_bytes: 1 << 20,
            session_bytes: 1 << 24,
            ..Limits::default()
        };
        let (of_node, driver) = (timer.clone(), machine.clone());
        let rig = Rig::with_folder(limits, move |options, _| {
            let driver: Arc<dyn Driver> = driver;
            options.devices = pool();
            options.devices.extend(Device::all_of(&driver).unwrap());
            options.natives = Arc::new(natives());
            options.timer = of_node;
        });
        Self {
            rig,
            timer,
            machine,
            other: Key::passing().unwrap(),
        }
    }

    /// Some sessions of clients that say what they like.
    fn sessions(&self, seeds: Range<u64>, seen: &mut Seen) {
        for seed in seeds {
            let script = Script::begin(&self.rig, seen, seed);
            script.run(&self.other, STEPS);
            self.first_words(seed);
            // Those who could come back and do not are given up.
            self.timer.advance(Duration::from_secs(4000));
        }
    }

    /// A connection that says something else first than one should, or asks odd questions.
    fn first_words(&self, seed: u64) {
        let mut random = Random(seed ^ 0xabcd);
        let dial = Dial {
            name: "odd",
            ..self.rig.dial(1)
        };
        let connection = match random.once_in(2) {
            true => dial.open(),
            false => dial.ask().map(|link| link.into_connection()),
        };
        let mut lane = lane::Lane::new(connection.unwrap());
        for _ in 0..random.below(4) {
            match random.below(3) {
                0 => lane.push(&Message::StatusRequest),
                1 => lane.push(&Message::Ping(Ping {
                    token: random.next(),
                    time_ns: random.next(),
                })),
                _ => lane.push(&script::any_message(&mut random)),
            };
        }
        if random.once_in(4) {
            lane.twist(random.next() as usize);
        }
        lane.flush();
    }

    /// Returns when nothing is left of any session.
    fn is_empty(&self) {
        self.rig.is_empty();
        let status = self.rig.node.status();
        while status().commands_held > 0 {
            std::thread::yield_now();
        }
        let space = quipu_driver_sim::engine::SpaceId(0);
        let allocations = || {
            let memory = self
                .machine
                .machine()
                .with(|simulation| simulation.memory(space));
            memory.unwrap().allocations
        };
        while allocations() > 0 {
            std::thread::yield_now();
        }
    }
}

fn fuzz(sessions: u64, seed: u64) {
    panics::count(PANIC);
    let what = format!("sessions from seed {seed}");
    let _watchdog = Watchdog::start(Duration::from_secs(600 + sessions), what);
    let scene = Scene::new();
    let mut seen = Seen::default();
    // Threads, tables and pools that stay are there afterwards.
    let rounds = (sessions / 4).max(1);
    support::honest::beside(&scene.rig, || {
        scene.sessions(seed..seed + rounds, &mut seen)
    });
    scene.is_empty();
    let before = Remains::now();
    support::honest::beside(&scene.rig, || {
        scene.sessions(seed + rounds..seed + sessions, &mut seen);
    });
    scene.is_empty();
    before.are_all();
    println!("{seen:?}; {} bytes in use", bytes_in_use());
    assert_eq!(panics::seen(), Vec::<String>::new());
    // A fuzzer that only ever sees one outcome tests nothing.
    assert!(seen.completed > 10 * sessions && seen.failed > sessions);
    assert!(seen.sent_away > sessions / 10 && seen.finished > sessions / 10);
    assert!(seen.resumed > sessions / 20 && seen.visits > sessions / 20);
}

#[test]
fn whatever_clients_say_others_are_served_and_nothing_is_left() {
    fuzz(120, 1);
}

#[test]
#[ignore = "the long form: sessions in QUIPU_FUZZ_SESSIONS, 20,000 without it; seed in QUIPU_FUZZ_SEED"]
fn for_long() {
    let number = |name: &str, or: u64| {
        let given = std::env::var(name).ok();
        given.map_or(or, |text| text.parse().expect("a number"))
    };
    fuzz(
        number("QUIPU_FUZZ_SESSIONS", 20_000),
        number("QUIPU_FUZZ_SEED", 1_000_000),
    );
}
