//! Nodes that are used together, whose sessions have processes of their own: these may not dial, and are handed connections
//! that their nodes have made.
#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, reason = "a promise that is not kept panics")]

mod support;

use quipu_conformance::{Fixture, Watchdog, fixture, folding, graph};
use quipu_core::operation::HostMemory;
use quipu_core::{Access, AccessMode, Context, ErrorKind, MemoryRef, Queue, QueueOptions, Request};
use quipu_node::{Spawn, serve_session};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use support::pair::Pair;
use support::{Suite, pool};

/// One of the tests at a time: one ends processes.
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
            ..quipu_node::Options::new(pool(1))
        })
    });
    panic!("{served:?}");
}

fn pair(seed: u64) -> Pair {
    Pair::with([pool(1), pool(1)], seed, |options| {
        let this = ["--exact", "session_process", "--ignored", "--nocapture"];
        let mut spawn = Spawn::own(this).unwrap();
        spawn.environment = vec![(IS_SESSION.into(), Some("1".into()))];
        options.processes = Some(spawn);
    })
}

fn watchdog(what: &str) -> Watchdog {
    Watchdog::start(Duration::from_secs(1800), what.to_owned())
}

fn fixture_of(pair: &Arc<Pair>) -> impl Fixture + use<> {
    let pair = pair.clone();
    fixture::of("two nodes with processes", move || {
        let mut devices = pool(1);
        devices.extend(pair.devices());
        Ok(devices)
    })
    .without_priorities()
    .with_longest_chain(2000)
}

#[test]
fn random_graphs_over_two_sessions_processes() {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let _watchdog = watchdog("random graphs over two processes");
    let pair = Arc::new(pair(1));
    graph::random_graphs(100, 91, &fixture_of(&pair));
    assert!(pair.bytes().1 > 0);
}

fn access(memory: &MemoryRef, mode: AccessMode) -> Access<'_> {
    Access {
        memory,
        offset: 0,
        length: memory.size(),
        mode,
    }
}

fn fold(queue: &Queue, memory: &MemoryRef, n: u64) -> quipu_core::Result<quipu_core::Event> {
    let accesses = [access(memory, AccessMode::ReadWrite)];
    let request = Request {
        accesses: &accesses,
        ..Request::default()
    };
    queue.launch(folding(n), 1, &request)
}

#[test]
fn bytes_go_from_process_to_process() {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let _watchdog = watchdog("bytes from process to process");
    let pair = pair(2);
    let devices = pair.devices();
    let context = Context::new(&devices).unwrap();
    let queues = [0, 1].map(|side: usize| {
        context
            .queue(&devices[side], QueueOptions::default())
            .unwrap()
    });
    const SIZE: usize = 1 << 20;
    let memory = context.memory(SIZE as u64).unwrap();
    let zero = queues[0].fill(access(&memory, AccessMode::Overwrite), &[0], &[]);
    zero.unwrap().wait().unwrap();
    let before = pair.bytes();
    let mut expected = 0_u64;
    for hop in 0..8 {
        fold(&queues[(hop as usize + 1) % 2], &memory, hop).unwrap();
        expected = expected.wrapping_mul(31).wrapping_add(hop);
    }
    let queue = &queues[0];
    queues[1].flush();
    queue.wait().unwrap();
    let after = pair.bytes();
    assert!(after.1 - before.1 >= 8 * SIZE as u64);
    assert!(after.0 - before.0 < SIZE as u64 / 4);
    let mut back = vec![0; SIZE];
    // SAFETY: kept, and not looked at, until the command is over.
    let host = unsafe { HostMemory::new(back.as_mut_ptr(), SIZE, None) };
    let read = queue.read(
        access(&memory, AccessMode::Read),
        host,
        SIZE as u64,
        &[],
        &[],
    );
    read.unwrap().wait().unwrap();
    assert_eq!(back[..8], expected.to_le_bytes());
}

/// The processes that this one has started and that are sessions'.
fn session_processes() -> Vec<i32> {
    let tasks = std::fs::read_dir("/proc/self/task").unwrap().flatten();
    let children = tasks.flat_map(|task| {
        let list = std::fs::read_to_string(task.path().join("children")).unwrap_or_default();
        let list: Vec<i32> = list
            .split_whitespace()
            .map(|id| id.parse().unwrap())
            .collect();
        list
    });
    children.collect()
}

#[test]
fn a_node_that_is_killed_while_bytes_go_there_is_lost_and_the_other_is_not() {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let _watchdog = watchdog("a killed peer");
    for victim in 0..2_usize {
        let before = session_processes();
        let pair = pair(3 + victim as u64);
        let devices = pair.devices();
        let context = Context::new(&devices).unwrap();
        let queues = [0, 1].map(|side: usize| {
            context
                .queue(&devices[side], QueueOptions::default())
                .unwrap()
        });
        let sessions = session_processes().into_iter();
        let sessions: Vec<i32> = sessions.filter(|id| !before.contains(id)).collect();
        // In the order in which they were started.
        assert_eq!(sessions.len(), 2);
        let process = match victim {
            0 => sessions.iter().min(),
            _ => sessions.iter().max(),
        };
        let moved = context.memory(1 << 20).unwrap();
        let own = context.memory(64).unwrap();
        let kept = 1 - victim;
        for queue in &queues {
            let zero = queue.fill(access(&moved, AccessMode::Overwrite), &[0], &[]);
            zero.unwrap().wait().unwrap();
        }
        let zero = queues[kept].fill(access(&own, AccessMode::Overwrite), &[0], &[]);
        zero.unwrap().wait().unwrap();
        let mut last = fold(&queues[0], &moved, 0).unwrap();
        for hop in 1..40 {
            last = fold(&queues[hop as usize % 2], &moved, hop).unwrap();
        }
        queues.iter().for_each(Queue::flush);
        // SAFETY: it takes numbers; the process is a child of this one.
        unsafe { libc::kill(*process.unwrap(), libc::SIGKILL) };
        // What was under way is over or fails; nothing hangs.
        let _ = last.wait();
        let lost = loop {
            let fill = queues[victim].fill(access(&moved, AccessMode::Overwrite), &[1], &[]);
            if let Err(error) = fill.and_then(|event| event.wait()) {
                break error;
            }
        };
        let kind = lost.first_cause().kind();
        assert!(
            matches!(kind, ErrorKind::DeviceLost { device, .. } if device.ends_with(" on node")),
            "{kind:?}"
        );
        for n in 0..10 {
            fold(&queues[kept], &own, n).unwrap().wait().unwrap();
        }
    }
}
