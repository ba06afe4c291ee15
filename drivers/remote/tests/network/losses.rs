//! Losses that the program is told of: nodes and sessions that end, connections that do not come
//! back in time. A node keeps nothing of a client that is gone.

use crate::site::{CLIENT, KEY, Site};
use crate::support::lossy::{Random, Seen, graph};
use crate::support::{PATIENCE, pool, rounds};
use crate::watchdog;
use quipu_conformance::folding;
use quipu_driver_remote::{Options, connect};
use quipu_lab_network::Shape;
use quipu_link::{Folder, Key};
use quipu_scheduler::{
    Access, AccessMode, Context, Device, Driver, MemoryRef, Queue, QueueOptions, Request,
};
use std::io::{BufRead, BufReader};
use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;

/// The shortest patience with which sessions are resumed at all: two seconds of it are the node's.
const SHORT: Duration = Duration::from_secs(33);

#[test]
fn a_node_is_killed_at_any_moment() {
    let _watchdog = watchdog("a node that is killed");
    let Some(mut site) = Site::new(6, 1) else {
        return;
    };
    let (local, mut seen) = (pool(1), Seen::default());
    for seed in 0..rounds(12) {
        let devices = site.devices(0).unwrap();
        let node = &mut site.nodes[0];
        // The patience is twenty minutes: nobody waits for it.
        seen += graph(&devices, &local, seed, || node.kill());
        // A later connection gets a session of its own, of which nothing is told here but that it
        // works.
        node.start();
    }
    seen.is_enough(rounds(12));
    assert_eq!(site.devices(0).unwrap().len(), 1);
}

#[test]
fn a_session_is_killed_at_any_moment() {
    let _watchdog = watchdog("sessions that are killed");
    let Some(site) = Site::new(7, 1) else {
        return;
    };
    let (local, mut seen) = (pool(1), Seen::default());
    for seed in 0..rounds(12) {
        let devices = site.devices(0).unwrap();
        seen += graph(&devices, &local, seed, || site.nodes[0].kill_sessions());
    }
    seen.is_enough(rounds(12));
    site.is_empty(0);
}

#[test]
fn a_client_is_killed_at_any_moment() {
    let _watchdog = watchdog("clients that are killed");
    let Some(site) = Site::new(8, 1) else {
        return;
    };
    let mut random = Random(3);
    for _ in 0..rounds(6) {
        let mut command = site.another_client("losses::client_process");
        let mut client = command.stdout(Stdio::piped()).spawn().unwrap();
        let lines = BufReader::new(client.stdout.take().unwrap()).lines();
        let mut lines = lines
            .map_while(Result::ok)
            .filter(|line| line == "on and on");
        // It has been busy for a while.
        for _ in 0..=random.below(50) {
            assert!(lines.next().is_some(), "the client has ended by itself");
        }
        // The session's process tells the node's now and then.
        while site.status(0).session_bytes == 0 {}
        client.kill().unwrap();
        client.wait().unwrap();
    }
    // The node keeps each for as long as it might have come back, and nothing of it afterwards.
    site.is_empty(0);
}

#[test]
fn a_client_is_killed_before_it_has_come_to_anything() {
    let _watchdog = watchdog("clients that are killed as they begin");
    // A session of which its client was told is kept for as long.
    let Some(site) = Site::of_patient(11, 1, Duration::from_secs(5)) else {
        return;
    };
    let mut random = Random(4);
    for _ in 0..rounds(12) {
        let mut command = site.another_client("losses::client_process");
        // Packets of connecting, of a handshake or the first words, before the bulk stream or
        // behind it.
        let until = site.relay.packets() + random.below(250) as u64;
        let mut client = command.stdout(Stdio::null()).spawn().unwrap();
        while site.relay.packets() < until {
            std::thread::yield_now();
        }
        client.kill().unwrap();
        client.wait().unwrap();
    }
    site.is_empty(0);
    assert_eq!(site.devices(0).unwrap().len(), 1);
}

/// However far the node is, whether or not there is work in flight.
#[test]
fn a_program_that_ends_leaves_nothing() {
    let _watchdog = watchdog("programs that end");
    let Some(mut site) = Site::new(15, 1) else {
        return;
    };
    site.nodes[0].kill();
    site.nodes[0].is_still = true;
    site.nodes[0].start();
    for delay in [0, 10, 100].map(Duration::from_millis) {
        site.link.shape(Shape {
            delay,
            ..Shape::default()
        });
        for _ in 0..rounds(2) {
            for way in WAYS {
                let mut command = site.another_client("losses::ending_client");
                command.env(WAY, way).stdout(Stdio::null());
                let ended = command.stderr(Stdio::null()).status().unwrap();
                assert!(ended.code().is_some(), "{way}: {ended}");
                site.is_empty(0);
            }
        }
    }
}

/// The end of a program.
const WAY: &str = "QUIPU_TEST_WAY";
const WAYS: [&str; 5] = [
    "exits",
    "exits, busy",
    "drops",
    "panics, busy",
    "exits, sending and busy",
];

/// Not a test: a client that ends.
#[test]
#[ignore = "a client's process, started by a test"]
fn ending_client() {
    let Some((context, queue, memory)) = connected() else {
        return;
    };
    let way = std::env::var(WAY).unwrap();
    if way.ends_with("busy") {
        for number in 0..2000 {
            let request = Request {
                accesses: &[Access::whole(&memory, AccessMode::ReadWrite)],
                ..Request::default()
            };
            queue.launch(folding(number), 1, &request).unwrap();
        }
        queue.flush();
    }
    if way.contains("sending") {
        let large = context.memory(8 << 20).unwrap();
        let bytes = Box::leak(vec![7_u8; 8 << 20].into_boxed_slice());
        // SAFETY: there for ever, and nobody else looks.
        let from = unsafe {
            quipu_scheduler::operation::HostMemory::new(bytes.as_mut_ptr(), bytes.len(), None)
        };
        let to = Access::whole(&large, AccessMode::Overwrite);
        queue.write(from, to, large.size(), &[], &[]).unwrap();
        queue.flush();
    }
    match &*way {
        "drops" => drop((context, queue, memory)),
        "panics, busy" => {
            std::mem::forget((context, queue, memory));
            panic!("as a program may");
        }
        _ => std::process::exit(0),
    }
}

/// A client process's objects on the node, if this is one.
fn connected() -> Option<(Context, Queue, MemoryRef)> {
    let folder = std::env::var_os(CLIENT)?;
    let key = Key::of(
        &Folder::open(std::path::PathBuf::from(folder)).unwrap(),
        "client.key",
    );
    let node = std::env::var(KEY).unwrap();
    let (fingerprint, address) = node.split_once('@').unwrap();
    let options = Options {
        patience: PATIENCE,
        ..Options::new("node", address, fingerprint.parse().unwrap())
    };
    let driver: Arc<dyn Driver> = connect(&options, &key.unwrap()).unwrap();
    let devices = Device::all_of(&driver).unwrap();
    let context = Context::new(&devices).unwrap();
    let queue = context.queue(&devices[0], QueueOptions::default()).unwrap();
    let memory = context.memory(64).unwrap();
    Some((context, queue, memory))
}

/// Not a test: a client that goes on and on.
#[test]
#[ignore = "a client's process, started by a test"]
fn client_process() {
    let Some(folder) = std::env::var_os(CLIENT) else {
        return;
    };
    let key = Key::of(
        &Folder::open(std::path::PathBuf::from(folder)).unwrap(),
        "client.key",
    );
    let node = std::env::var(KEY).unwrap();
    let (fingerprint, address) = node.split_once('@').unwrap();
    let options = Options {
        patience: PATIENCE,
        reconnect: SHORT,
        ..Options::new("node", address, fingerprint.parse().unwrap())
    };
    let driver: Arc<dyn Driver> = connect(&options, &key.unwrap()).unwrap();
    let devices = Device::all_of(&driver).unwrap();
    let context = Context::new(&devices).unwrap();
    let queue = context.queue(&devices[0], QueueOptions::default()).unwrap();
    // Some of them travel by themselves, some with their commands.
    let buffers = [64, 1 << 12, 3 << 20].map(|size| context.memory(size).unwrap());
    println!();
    for number in 0.. {
        for memory in &buffers {
            let mut bytes = vec![number as u8; memory.size() as usize];
            // SAFETY: kept, and not looked at, until the command is over.
            let from = unsafe {
                quipu_scheduler::operation::HostMemory::new(bytes.as_mut_ptr(), bytes.len(), None)
            };
            let to = Access::whole(memory, AccessMode::Overwrite);
            let write = queue.write(from, to, memory.size(), &[], &[]).unwrap();
            let request = Request {
                accesses: &[Access::whole(memory, AccessMode::ReadWrite)],
                ..Request::default()
            };
            queue.launch(folding(number), 1, &request).unwrap();
            write.wait().unwrap();
        }
        println!("on and on");
    }
}

fn fill(queue: &Queue, memory: &MemoryRef, with: u8) -> quipu_scheduler::Result<()> {
    let filled = queue.fill(Access::whole(memory, AccessMode::Overwrite), &[with], &[]);
    filled.and_then(|event| event.wait())
}

#[test]
fn a_node_that_cannot_be_reached_for_longer_than_the_patience_is_lost_and_no_other_is() {
    let _watchdog = watchdog("the end of patience");
    let Some(mut site) = Site::new(9, 2) else {
        return;
    };
    site.reconnect = SHORT;
    let (local, mut seen) = (pool(1), Seen::default());
    let kept = site.devices(1).unwrap();
    let context = Context::new(&kept).unwrap();
    let queue = context.queue(&kept[0], QueueOptions::default()).unwrap();
    let memory = context.memory(64).unwrap();
    fill(&queue, &memory, 1).unwrap();
    let link = &site.nodes[0].link;
    // Each takes the patience: hundreds would take hours, and are tried by a clock that tests set,
    // see `between::loss`.
    let count = rounds(1).min(20);
    for seed in 0..count {
        let lost = site.devices(0).unwrap();
        seen += graph(&lost, &local, seed, || link.sever());
        // By then the node has given the session up as well.
        fill(&queue, &memory, 2).unwrap();
        link.restore();
        assert_eq!(site.status(0).sessions, 0);
        site.is_empty(0);
    }
    seen.is_enough(count / 2);
    // A later connection gets a session of its own.
    let again = site.devices(0).unwrap();
    let context = Context::new(&again).unwrap();
    let there = context.queue(&again[0], QueueOptions::default()).unwrap();
    let memory = context.memory(64).unwrap();
    fill(&there, &memory, 3).unwrap();
}
