//! A node whose sessions have processes of their own, as the driver sees it: nothing is different,
//! until one is killed.
#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, reason = "helpers assert by unwrapping")]

mod support;

use quipu_conformance::Watchdog;
use quipu_node::{Limits, Spawn, serve_session};
use quipu_scheduler::operation::HostMemory;
use quipu_scheduler::{Access, AccessMode, Context, Device, ErrorKind, MemoryRef, QueueOptions};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use support::relay::{Relay, Way};
use support::rounds::{Round, Rounds};
use support::{Rig, Suite, pool};

/// One of the tests at a time: one ends all processes that there are.
static ALONE: Mutex<()> = Mutex::new(());

/// Says that this process is a session's.
const IS_SESSION: &str = "QUIPU_TEST_SESSION";

/// Not a test: what a session's process does, when the tests' node starts this program.
#[test]
#[ignore = "a session's process, started by the tests"]
fn session_process() {
    if std::env::var_os(IS_SESSION).is_none() {
        return;
    }
    let served = serve_session(|_| {
        Ok::<_, String>(quipu_node::Options {
            natives: Arc::new(Suite::default()),
            ..quipu_node::Options::new(pool(2))
        })
    });
    panic!("{served:?}");
}

fn rig() -> Rig {
    Rig::with(pool(1), Limits::default(), |options| {
        let this = ["--exact", "session_process", "--ignored", "--nocapture"];
        let mut spawn = Spawn::own(this).unwrap();
        spawn.environment = vec![(IS_SESSION.into(), Some("1".into()))];
        options.processes = Some(spawn);
    })
}

fn watchdog(what: &str) -> Watchdog {
    Watchdog::start(Duration::from_secs(1800), what.to_owned())
}

/// Numbers that look random.
struct Random(u64);

impl Random {
    fn below(&mut self, end: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((z ^ (z >> 31)) % end as u64) as usize
    }
}

fn host(bytes: &mut [u8]) -> HostMemory {
    // SAFETY: kept, and not looked at, until all commands are over, by who has it.
    unsafe { HostMemory::new(bytes.as_mut_ptr(), bytes.len(), None) }
}

#[test]
fn a_session_with_both_streams_is_there_after_four_round_trips() {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let _watchdog = watchdog("the round trips of a client that connects");
    let tcp = Round {
        connections: 1,
        speak: 0,
    };
    let round = |speak| Round {
        connections: 3,
        speak,
    };
    // TLS; hello to the node and TLS to the session, twice; hello to the session.
    let with_process = (rig(), [tcp, round(1), round(3), round(2)]);
    // The session is in the node's own process, so one connection has no use.
    let without = Rig::new(pool(1), Limits::default());
    let without = (without, [tcp, round(1), round(3), round(1)]);
    for (mut rig, rounds) in [with_process, without] {
        let network = Rounds::to(&rig.address, &rounds);
        rig.address.clone_from(&network.address);
        let met = rig.met();
        assert_eq!(network.count(), (4, 3));
        drop(met);
    }
}

#[test]
fn a_process_loses_nothing_when_connections_are_cut_at_any_byte() {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let _watchdog = watchdog("a session's process over cut connections");
    let mut rig = rig();
    let relay = Relay::to(&rig.address, 17);
    rig.address.clone_from(&relay.address);
    let devices = rig.devices();
    relay.set(Way::Cutting(9, 16));
    let context = Context::new(&devices).unwrap();
    let queue = context.queue(&devices[0], QueueOptions::default()).unwrap();
    const SIZE: usize = 3000;
    let buffers = [(); 3].map(|()| context.memory(SIZE as u64).unwrap());
    let mut model = [const { [0_u8; SIZE] }; 3];
    let mut random = Random(5);
    let part = |random: &mut Random| {
        let start = random.below(SIZE);
        start..start + 1 + random.below(SIZE - start)
    };
    let (mut wrote, mut read) = (Vec::new(), Vec::new());
    for number in 0..4000_usize {
        let (at, range) = (random.below(3), part(&mut random));
        let of = |at: usize, mode| Access {
            memory: &buffers[at],
            offset: range.start as u64,
            length: range.len() as u64,
            mode,
        };
        let length = range.len() as u64;
        let event = match random.below(4) {
            0 => {
                model[at][range.clone()].fill(number as u8);
                queue.fill(of(at, AccessMode::Overwrite), &[number as u8], &[])
            }
            1 => {
                let from = (at + 1) % 3;
                let bytes = model[from][range.clone()].to_vec();
                model[at][range.clone()].copy_from_slice(&bytes);
                let (from, to) = (of(from, AccessMode::Read), of(at, AccessMode::Overwrite));
                queue.copy(from, to, length, &[], &[])
            }
            2 => {
                let mut bytes: Box<[u8]> = range.clone().map(|at| (at ^ number) as u8).collect();
                model[at][range.clone()].copy_from_slice(&bytes);
                let from = host(&mut bytes);
                wrote.push(bytes);
                queue.write(from, of(at, AccessMode::Overwrite), length, &[], &[])
            }
            _ => {
                let mut bytes = vec![0; range.len()].into_boxed_slice();
                let to = host(&mut bytes);
                read.push((bytes, model[at][range.clone()].to_vec()));
                queue.read(of(at, AccessMode::Read), to, length, &[], &[])
            }
        };
        let event = event.unwrap();
        if number % 8 == 0 {
            event.wait().unwrap();
        }
    }
    queue.wait().unwrap();
    assert!(
        read.iter()
            .all(|(bytes, expected)| bytes[..] == expected[..])
    );
    assert!(relay.cuts() >= 50, "{} cuts", relay.cuts());
    assert_eq!(rig.node.sessions(), 1);
}

/// The processes that a process has started.
fn children(process: i32) -> Vec<i32> {
    let tasks = std::fs::read_dir(format!("/proc/{process}/task"));
    let children = tasks.into_iter().flatten().flatten().flat_map(|task| {
        let list = std::fs::read_to_string(task.path().join("children")).unwrap_or_default();
        let list: Vec<i32> = list
            .split_whitespace()
            .map(|id| id.parse().unwrap())
            .collect();
        list
    });
    children.collect()
}

/// The sessions' processes: those that the ones have started that keep them, which this one has.
fn session_processes() -> Vec<i32> {
    let keepers = children(std::process::id().cast_signed());
    keepers.into_iter().flat_map(children).collect()
}

/// True if a process runs no more.
fn is_finished(process: i32) -> bool {
    let status = std::fs::read_to_string(format!("/proc/{process}/status"));
    status.map_or(true, |status| status.contains("State:\tZ"))
}

#[test]
fn a_session_process_that_is_killed_is_a_lost_node_at_once_and_the_next_is_a_fresh_one() {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let _watchdog = watchdog("a killed session");
    // Those of a test before this one may be ending yet.
    while !session_processes().is_empty() {
        std::thread::yield_now();
    }
    let rig = rig();
    let devices = [rig.devices(), pool(1)].concat();
    let context = Context::new(&devices).unwrap();
    let there = context.queue(&devices[0], QueueOptions::default()).unwrap();
    let here = context.queue(&devices[1], QueueOptions::default()).unwrap();
    let (gone, kept) = (context.memory(64).unwrap(), context.memory(64).unwrap());
    let fill = |queue: &quipu_scheduler::Queue, memory: &MemoryRef, with: u8| {
        queue
            .fill(Access::whole(memory, AccessMode::Overwrite), &[with], &[])
            .and_then(|event| event.wait())
    };
    fill(&there, &gone, 7).unwrap();
    fill(&here, &kept, 8).unwrap();
    // The system leaves a process out where the thread that has started it ends meanwhile.
    let processes = loop {
        let processes = session_processes();
        if !processes.is_empty() {
            break processes;
        }
        std::thread::yield_now();
    };
    for process in processes {
        // SAFETY: it takes numbers, of a process that this one's child has started.
        unsafe { libc::kill(process, libc::SIGKILL) };
        while !is_finished(process) {
            std::thread::yield_now();
        }
    }
    // The patience is twenty minutes: nobody waits for it.
    let error = fill(&there, &gone, 9).unwrap_err();
    match error.first_cause().kind() {
        ErrorKind::DeviceLost { device, reason } => {
            assert!(device.ends_with(" on node"), "{device}");
            assert!(
                reason.contains("its session there has ended: its process was killed (signal 9)"),
                "{reason}"
            );
        }
        other => panic!("{other:?}"),
    }
    let read = |memory: &MemoryRef| {
        let mut bytes = [0; 64];
        // SAFETY: kept, and not looked at, until the command is over.
        let to = unsafe { HostMemory::new(bytes.as_mut_ptr(), bytes.len(), None) };
        let from = Access::whole(memory, AccessMode::Read);
        let event = here.read(from, to, 64, &[], &[]);
        event.and_then(|event| event.wait()).map(|()| bytes)
    };
    assert_eq!(read(&kept).unwrap(), [8; 64]);
    assert!(read(&gone).is_err());
    // A later connection gets a session of its own.
    let devices: Vec<Device> = rig.devices();
    let context = Context::new(&devices).unwrap();
    let queue = context.queue(&devices[0], QueueOptions::default()).unwrap();
    let memory = context.memory(64).unwrap();
    fill(&queue, &memory, 5).unwrap();
}
