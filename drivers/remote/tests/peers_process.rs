//! Nodes that are used together, whose sessions have processes of their own: these may not dial,
//! and are handed connections that their nodes have made.
#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, reason = "helpers assert by unwrapping")]

mod support;

use quipu_conformance::Watchdog;
use quipu_node::{Spawn, serve_session};
use quipu_protocol::message::{LinkKind, LinkState};
use quipu_scheduler::operation::HostMemory;
use quipu_scheduler::{
    Access, AccessMode, Context, Device, ErrorKind, MemoryRef, Queue, QueueOptions,
};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use support::pair::Pair;
use support::relay::Way;
use support::{Rig, Suite, pool};

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

fn host(bytes: &mut [u8]) -> HostMemory {
    // SAFETY: kept, and not looked at, until all commands are over, by who has it.
    unsafe { HostMemory::new(bytes.as_mut_ptr(), bytes.len(), None) }
}

/// Copies one half of a buffer to the other.
fn swap(
    queue: &Queue,
    memory: &MemoryRef,
    hop: u64,
) -> quipu_scheduler::Result<quipu_scheduler::Event> {
    let half = memory.size() / 2;
    let part = |second: bool, mode| Access {
        memory,
        offset: if second { half } else { 0 },
        length: half,
        mode,
    };
    let (from, to) = (
        part(hop % 2 == 1, AccessMode::Read),
        part(hop.is_multiple_of(2), AccessMode::Overwrite),
    );
    queue.copy(from, to, half, &[], &[])
}

fn queues(context: &Context, devices: &[Device]) -> [Queue; 2] {
    [0, 1].map(|side: usize| {
        context
            .queue(&devices[side], QueueOptions::default())
            .unwrap()
    })
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

#[test]
fn what_two_sessions_processes_do_is_what_one_machine_would_also_if_they_lose_each_other() {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let _watchdog = watchdog("random commands over two processes");
    let pair = pair(1);
    let devices = pair.devices();
    let context = Context::new(&devices).unwrap();
    let queues = queues(&context, &devices);
    const SIZE: usize = 60_000;
    let buffers = [(); 3].map(|()| context.memory(SIZE as u64).unwrap());
    let mut model = vec![vec![0_u8; SIZE]; 3];
    let mut random = Random(5);
    let mut read = Vec::new();
    for number in 0..3000_usize {
        if number == 1500 {
            pair.set_peers(Way::Closed);
        }
        let (at, queue) = (random.below(3), &queues[random.below(2)]);
        let start = random.below(SIZE);
        let range = start..start + 1 + random.below(SIZE - start);
        let of = |at: usize, mode| Access {
            memory: &buffers[at],
            offset: range.start as u64,
            length: range.len() as u64,
            mode,
        };
        let length = range.len() as u64;
        let event = match random.below(3) {
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
            _ => {
                let mut bytes = vec![0; range.len()].into_boxed_slice();
                let to = host(&mut bytes);
                read.push((bytes, model[at][range.clone()].to_vec()));
                queue.read(of(at, AccessMode::Read), to, length, &[], &[])
            }
        };
        if number % 16 == 0 {
            event.unwrap().wait().unwrap();
        }
    }
    queues.iter().for_each(|queue| queue.wait().unwrap());
    assert!(
        read.iter()
            .all(|(bytes, expected)| bytes[..] == expected[..])
    );
    assert!(pair.bytes().1 > 0);
}

#[test]
fn bytes_go_from_process_to_process() {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let _watchdog = watchdog("bytes from process to process");
    let pair = pair(2);
    let devices = pair.devices();
    let context = Context::new(&devices).unwrap();
    let queues = queues(&context, &devices);
    const SIZE: usize = 1 << 20;
    let memory = context.memory(SIZE as u64).unwrap();
    let mut bytes: Vec<u8> = (0..SIZE).map(|at| (at >> 4) as u8).collect();
    let all = Access::whole(&memory, AccessMode::Overwrite);
    let write = queues[1].write(host(&mut bytes), all, SIZE as u64, &[], &[]);
    write.unwrap().wait().unwrap();
    let before = pair.bytes();
    for hop in 0..8 {
        swap(&queues[hop as usize % 2], &memory, hop).unwrap();
    }
    queues[0].flush();
    queues[1].wait().unwrap();
    let after = pair.bytes();
    assert!(after.1 - before.1 >= 8 * SIZE as u64 / 2);
    assert!(after.0 - before.0 < SIZE as u64 / 4);
    // Each is known to the other by the key of its session's process.
    let [near, far] = &pair.rigs;
    // A session's process may be late to answer its node, which waits for no more than a moment.
    let link = |rig: &Rig, kind| {
        let mut looks = std::iter::repeat_with(|| rig.look().links.links);
        let found = looks.find_map(|links| links.into_iter().find(|link| link.kind == kind));
        found.expect("it is looked for until it is found")
    };
    for (rig, other) in [(near, far), (far, near)] {
        let own = link(rig, LinkKind::Commands);
        assert_ne!(own.key, rig.node.fingerprint().bytes());
        for kind in [LinkKind::ToNode, LinkKind::FromNode] {
            let way = link(rig, kind);
            assert_eq!(way.key, link(other, LinkKind::Commands).key);
            assert_eq!(way.state, LinkState::Connected);
            assert!(way.sent + way.received > 3 * SIZE as u64 / 2);
        }
    }
    let mut back = vec![0; SIZE];
    let all = Access::whole(&memory, AccessMode::Read);
    let read = queues[1].read(all, host(&mut back), SIZE as u64, &[], &[]);
    read.unwrap().wait().unwrap();
    assert!(back[..SIZE / 2] == bytes[..SIZE / 2] && back[SIZE / 2..] == bytes[..SIZE / 2]);
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
    for turn in 0..2_usize {
        // Those of a test before this one may be ending yet.
        while !session_processes().is_empty() {
            std::thread::yield_now();
        }
        let pair = pair(3 + turn as u64);
        let devices = pair.devices();
        let context = Context::new(&devices).unwrap();
        let queues = queues(&context, &devices);
        // The system lists a process twice, or leaves it out, where the thread that has started it
        // ends meanwhile.
        let sessions = loop {
            let mut sessions = session_processes();
            sessions.sort_unstable();
            sessions.dedup();
            if sessions.len() == 2 {
                break sessions;
            }
            std::thread::yield_now();
        };
        // Mostly now the one's, now the other's. Which it was is seen below: processes are started
        // in any order, and numbers begin anew.
        let process = sessions[turn];
        let moved = context.memory(1 << 20).unwrap();
        let own = [context.memory(64).unwrap(), context.memory(64).unwrap()];
        let fill = |side: usize, memory: &MemoryRef| {
            let all = Access::whole(memory, AccessMode::Overwrite);
            queues[side].fill(all, &[0], &[])?.wait()
        };
        for side in [0, 1] {
            fill(side, &moved).unwrap();
            fill(side, &own[side]).unwrap();
        }
        let mut last = swap(&queues[0], &moved, 0).unwrap();
        for hop in 1..40 {
            last = swap(&queues[hop as usize % 2], &moved, hop).unwrap();
        }
        queues.iter().for_each(Queue::flush);
        // SAFETY: it takes numbers; the process is a child of this one.
        unsafe { libc::kill(process, libc::SIGKILL) };
        // What was under way is over or fails; nothing hangs.
        let _ = last.wait();
        let (lost, error) = (0..2)
            .cycle()
            .find_map(|side| fill(side, &own[side]).err().map(|error| (side, error)))
            .unwrap();
        let kind = error.first_cause().kind();
        assert!(
            matches!(kind, ErrorKind::DeviceLost { device, .. } if device.ends_with(" on node")),
            "{kind:?}"
        );
        let kept = 1 - lost;
        assert!(
            devices[lost].lost().is_some() && devices[kept].lost().is_none(),
            "side {lost} failed: {error:?}; {:?}",
            [0, 1].map(|side: usize| devices[side].lost())
        );
        for hop in 0..10 {
            swap(&queues[kept], &own[kept], hop)
                .unwrap()
                .wait()
                .unwrap();
        }
    }
}
