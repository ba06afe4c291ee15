//! Many clients at once on one node: each gets its own results, and nothing is lost.
#![allow(clippy::unwrap_used, reason = "helpers assert by unwrapping")]

mod support;

use quipu_conformance::{Watchdog, folding};
use quipu_link::Key;
use quipu_node::Limits;
#[cfg(target_os = "linux")]
use quipu_node::{Spawn, serve_session};
use quipu_scheduler::{Access, AccessMode, Context, Device, QueueOptions, Request};
use std::borrow::Borrow;
use std::time::Duration;
use support::lossy::Host;
use support::{Rig, pool};

const CLIENTS: usize = 64;

/// The work of one of them: sums up in an order that matters, and has bytes travel there and back,
/// by both streams.
fn compute(devices: &[Device], own: u64) {
    let context = Context::new(devices).unwrap();
    let queue = context.queue(&devices[0], QueueOptions::default()).unwrap();
    let sum = context.memory(64).unwrap();
    let large = context.memory(1 << 20).unwrap();
    let zero = queue.fill(Access::whole(&sum, AccessMode::Overwrite), &[0], &[]);
    zero.unwrap();
    let mut expected = 0_u64;
    for round in 0..8_u64 {
        for number in 0..25 {
            let n = own.wrapping_mul(1000) + round * 25 + number;
            let request = Request {
                accesses: &[Access::whole(&sum, AccessMode::ReadWrite)],
                ..Request::default()
            };
            queue.launch(folding(n), 1, &request).unwrap();
            expected = expected.wrapping_mul(31).wrapping_add(n);
        }
        let bytes = (0..1_u64 << 20).map(|at| (at.wrapping_mul(own + round + 1) >> 7) as u8);
        let (mut there, mut back) = (Host(bytes.collect()), Host(vec![0; 1 << 20].into()));
        let to = Access::whole(&large, AccessMode::Overwrite);
        queue.write(there.memory(), to, 1 << 20, &[], &[]).unwrap();
        let from = Access::whole(&large, AccessMode::Read);
        let read = queue.read(from, back.memory(), 1 << 20, &[], &[]).unwrap();
        read.wait().unwrap();
        assert!(there.0 == back.0, "client {own}, round {round}");
        let mut now = Host(vec![0; 64].into());
        let from = Access::whole(&sum, AccessMode::Read);
        let read = queue.read(from, now.memory(), 64, &[], &[]).unwrap();
        read.wait().unwrap();
        assert_eq!(
            now.0[..8],
            expected.to_le_bytes(),
            "client {own}, round {round}"
        );
    }
}

#[test]
fn sixty_four_clients_at_once_lose_nothing() {
    let limits = Limits {
        // Nobody takes another's place.
        client_sessions: 1,
        ..Limits::default()
    };
    let rig = Rig::new(pool(2), limits);
    crowd(&rig, &keys(&rig));
}

#[test]
fn sixty_four_sessions_of_a_client_at_once_lose_nothing() {
    let rig = Rig::new(pool(2), Limits::default());
    let keys: Vec<&Key> = (0..CLIENTS).map(|_| &rig.key).collect();
    crowd(&rig, &keys);
}

/// Says that this process is a session's.
#[cfg(target_os = "linux")]
const IS_SESSION: &str = "QUIPU_TEST_SESSION";

/// Not a test: what a session's process does.
#[cfg(target_os = "linux")]
#[test]
#[ignore = "a session's process, started by a test"]
fn session_process() {
    if std::env::var_os(IS_SESSION).is_none() {
        return;
    }
    let served = serve_session(|_| {
        Ok::<_, String>(quipu_node::Options {
            natives: std::sync::Arc::new(support::Suite::default()),
            ..quipu_node::Options::new(pool(1))
        })
    });
    panic!("{served:?}");
}

#[cfg(target_os = "linux")]
#[test]
fn sixty_four_clients_at_once_with_a_process_each_lose_nothing() {
    let rig = Rig::with(pool(1), Limits::default(), |options| {
        let this = ["--exact", "session_process", "--ignored", "--nocapture"];
        let mut spawn = Spawn::own(this).unwrap();
        spawn.environment = vec![(IS_SESSION.into(), Some("1".into()))];
        options.processes = Some(spawn);
    });
    crowd(&rig, &keys(&rig));
}

/// Keys of as many clients.
fn keys(rig: &Rig) -> Vec<Key> {
    let names = (0..CLIENTS).map(|number| format!("client {number}"));
    names.map(|name| rig.another_key(&name)).collect()
}

/// A session of each of these keys, all at once.
fn crowd<K: Borrow<Key> + Sync>(rig: &Rig, keys: &[K]) {
    let _watchdog = Watchdog::start(Duration::from_secs(1800), "many clients".to_owned());
    // All of them are there at once: nobody begins before.
    let devices = std::thread::scope(|scope| {
        let coming: Vec<_> = keys
            .iter()
            .map(|key| scope.spawn(|| rig.devices_for(key.borrow())))
            .collect();
        let come = coming.into_iter().map(|client| client.join().unwrap());
        come.collect::<Vec<_>>()
    });
    std::thread::scope(|scope| {
        for (own, devices) in (0..).zip(&devices) {
            scope.spawn(move || compute(devices, own));
        }
    });
    drop(devices);
    // And have gone.
    while rig.node.sessions() > 0 || rig.node.session_bytes() > 0 {
        std::thread::yield_now();
    }
}

#[test]
fn more_buffers_than_a_session_may_have_fail_and_say_so_and_others_stay_where_they_are() {
    let _watchdog = Watchdog::start(Duration::from_secs(900), "many buffers".to_owned());
    // More than would find room if each took a page or two, or a place in a small table.
    const MANY: usize = 70_000;
    let limits = Limits {
        buffers: MANY as u32,
        ..Limits::default()
    };
    let rig = Rig::new(pool(1), limits);
    let devices = rig.devices();
    let context = Context::new(&devices).unwrap();
    let queue = context.queue(&devices[0], QueueOptions::default());
    let queue = queue.unwrap();
    let fill = |memory: &quipu_scheduler::MemoryRef| {
        queue.fill(Access::whole(memory, AccessMode::Overwrite), &[1], &[])
    };
    let all: Vec<_> = (0..MANY).map(|_| context.memory(64).unwrap()).collect();
    let filled: Vec<_> = all.iter().map(|memory| fill(memory).unwrap()).collect();
    filled.iter().for_each(|event| event.wait().unwrap());
    // None had to make room for another.
    assert_eq!(rig.node.session_bytes(), 64 * MANY as u64);
    let one_more = context.memory(64).unwrap();
    let error = fill(&one_more).unwrap().wait().unwrap_err().to_string();
    assert!(error.contains("takes at most 70000 buffers"), "{error}");
    assert!(Limits::default().buffers >= 10_000_000);
}
