//! Connections that are lost again and again, at any byte, while random graphs run: the program
//! sees nothing but time.
// Elsewhere the system does not say within a known time that a connection is lost, and sessions end
// with it.
#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, reason = "helpers assert by unwrapping")]

mod support;

use quipu_conformance::{Fixture, Watchdog, fixture, folding, graph};
use quipu_link::timer::ManualTimer;
use quipu_node::Limits;
use quipu_protocol::message::{LinkLoad, LinkState};
use quipu_scheduler::operation::HostMemory;
use quipu_scheduler::{
    Access, AccessMode, Context, Device, Driver, ErrorKind, Event, MemoryRef, QueueOptions,
    Request, UserEvent,
};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use support::relay::{Held, Relay, Way};
use support::{Rig, pool, simulated};

fn watchdog(what: &str) -> Watchdog {
    Watchdog::start(Duration::from_secs(1800), what.to_owned())
}

/// A node's pool and accelerators, and a pool here, over a way that cuts every connection.
fn cutting(rig: Rig, relay: Arc<Relay>) -> impl Fixture {
    fixture::of("a node's devices, connections cut", move || {
        // The first words of a session are not resumed: whoever connects is told that it failed.
        relay.set(Way::Open);
        let devices = rig.devices();
        relay.set(Way::Cutting(9, 15));
        Ok([pool(1), devices].concat())
    })
    .without_priorities()
    .with_longest_chain(2000)
}

fn rig(relay: &mut Option<Arc<Relay>>, seed: u64) -> Rig {
    let mut devices = pool(2);
    devices.extend(simulated(1));
    let mut rig = Rig::new(devices, Limits::default());
    let between = Arc::new(Relay::to(&rig.address, seed));
    rig.address.clone_from(&between.address);
    *relay = Some(between);
    rig
}

#[test]
fn random_graphs_lose_nothing_when_connections_are_cut_at_any_byte() {
    let _watchdog = watchdog("random graphs over cut connections");
    let mut relay = None;
    let rig = rig(&mut relay, 7);
    let relay = relay.unwrap();
    let cutting = cutting(rig, relay.clone());
    // How many bytes there are to be cut is for both ends to choose: mostly a thousand graphs have
    // enough of them.
    for seed in 71.. {
        graph::random_graphs(1000, seed, &cutting);
        if relay.cuts() >= 300 {
            break;
        }
    }
}

fn host(bytes: &mut [u8]) -> HostMemory {
    // SAFETY: kept, and not looked at, until all commands are over, by who has it.
    unsafe { HostMemory::new(bytes.as_mut_ptr(), bytes.len(), None) }
}

#[test]
fn large_transfers_lose_nothing_when_their_stream_is_cut() {
    let _watchdog = watchdog("large transfers over cut connections");
    let mut relay = None;
    let rig = rig(&mut relay, 11);
    let relay = relay.unwrap();
    let devices = rig.devices();
    let context = Context::new(&devices).unwrap();
    let queue = context.queue(&devices[0], QueueOptions::default()).unwrap();
    relay.set(Way::Cutting(14, 20));
    const BYTES: usize = 6 << 20;
    let memory = context.memory(BYTES as u64).unwrap();
    for round in 0..2_usize {
        let mut bytes: Vec<u8> = (0..BYTES)
            .map(|at| ((at * 7) >> 3) as u8 ^ round as u8)
            .collect();
        let mut back = vec![0; BYTES];
        let to = Access::whole(&memory, AccessMode::Overwrite);
        queue
            .write(host(&mut bytes), to, BYTES as u64, &[], &[])
            .unwrap();
        let from = Access::whole(&memory, AccessMode::Read);
        let read = queue.read(from, host(&mut back), BYTES as u64, &[], &[]);
        read.unwrap().wait().unwrap();
        assert!(bytes == back, "round {round}");
    }
    assert!(relay.cuts() >= 20, "{} cuts", relay.cuts());
}

#[test]
fn either_side_may_find_the_loss_first_and_each_command_takes_effect_once() {
    let _watchdog = watchdog("cuts by either side");
    let rig = Rig::new(pool(1), Limits::default());
    let remote = rig.driver();
    let driver: Arc<dyn Driver> = remote.clone();
    let devices = Device::all_of(&driver).unwrap();
    let context = Context::new(&devices).unwrap();
    let queue = context.queue(&devices[0], QueueOptions::default()).unwrap();
    let memory = context.memory(64).unwrap();
    queue
        .fill(Access::whole(&memory, AccessMode::Overwrite), &[0], &[])
        .unwrap();
    let mut expected = 0_u64;
    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut by_node = false;
            while !over.load(Ordering::SeqCst) {
                if by_node {
                    rig.node.cut();
                } else {
                    remote.vendor().cut();
                }
                by_node = !by_node;
            }
        });
        for number in 0..3000_u64 {
            let request = Request {
                accesses: &[Access::whole(&memory, AccessMode::ReadWrite)],
                ..Request::default()
            };
            let event: Event = queue.launch(folding(number), 1, &request).unwrap();
            expected = expected.wrapping_mul(31).wrapping_add(number);
            if number % 10 == 0 {
                event.wait().unwrap();
            }
        }
        let mut back = [0; 64];
        let from = Access::whole(&memory, AccessMode::Read);
        let read = queue.read(from, host(&mut back), 64, &[], &[]);
        let read = read.and_then(|event| event.wait());
        over.store(true, Ordering::SeqCst);
        read.unwrap();
        assert_eq!(back[..8], expected.to_le_bytes());
    });
    // The last cut may have been after that read. Goodbye would not be heard on a connection that
    // is lost, and the node would keep the session for as long as it has patience: so the
    // connection is to be there again.
    let mut back = [0; 64];
    let from = Access::whole(&memory, AccessMode::Read);
    let read = queue.read(from, host(&mut back), 64, &[], &[]).unwrap();
    read.wait().unwrap();
    // It is one session, and ends with its driver.
    assert_eq!(rig.node.sessions(), 1);
    drop((queue, memory, context, devices, driver, remote));
    while rig.node.sessions() > 0 {
        std::thread::yield_now();
    }
}

#[test]
fn who_waits_while_the_connection_is_lost_hears_of_what_others_bring_about() {
    let _watchdog = watchdog("waiting while the connection is lost");
    let mut relay = None;
    let rig = rig(&mut relay, 11);
    let relay = relay.unwrap();
    let devices = rig.devices();
    let context = Context::new(&devices).unwrap();
    let queue = context.queue(&devices[0], QueueOptions::default()).unwrap();
    let memory = context.memory(64).unwrap();
    let fold = |memory: &MemoryRef, number, waits: &[Event]| {
        let request = Request {
            accesses: &[Access::whole(memory, AccessMode::ReadWrite)],
            waits,
            ..Request::default()
        };
        queue.launch(folding(number), 1, &request).unwrap()
    };
    let zero = queue.fill(Access::whole(&memory, AccessMode::Overwrite), &[0], &[]);
    zero.unwrap().wait().unwrap();
    let mut expected = 0_u64;
    for round in 0..30_u64 {
        let gate = UserEvent::new();
        // What is cancelled leaves its memory void.
        let own = context.memory(64).unwrap();
        let held = fold(&own, 1, &[gate.event()]);
        let waits = held.clone();
        let waiting = std::thread::spawn(move || waits.wait());
        if round % 2 == 0 {
            // Else the connection is lost as it begins to wait.
            std::thread::yield_now();
        }
        let refused = relay.refused();
        relay.set(Way::Closed);
        // Whoever has found the loss tries again and again, and is not the one who waits.
        while relay.refused() < refused + 4 {
            std::thread::yield_now();
        }
        held.cancel();
        gate.complete();
        let waited = waiting.join().unwrap();
        assert!(waited.is_ok() || waited.unwrap_err().is_cancelled());
        // What is enqueued now leaves when the connection is there again.
        let next = fold(&memory, round, &[]);
        expected = expected.wrapping_mul(31).wrapping_add(round);
        queue.flush();
        relay.set(Way::Open);
        next.wait().unwrap();
    }
    let mut back = [0; 64];
    let from = Access::whole(&memory, AccessMode::Read);
    let read = queue.read(from, host(&mut back), 64, &[], &[]);
    read.unwrap().wait().unwrap();
    assert_eq!(back[..8], expected.to_le_bytes());
}

#[test]
fn a_read_whose_bytes_are_on_their_way_may_be_waited_for_and_is_not_named() {
    let _watchdog = watchdog("bytes on their way");
    let mut rig = Rig::new(pool(1), Limits::default());
    let relay = Relay::to(&rig.address, 6);
    rig.address.clone_from(&relay.address);
    let devices = rig.devices();
    let context = Context::new(&devices).unwrap();
    let options = QueueOptions {
        in_order: false,
        ..QueueOptions::default()
    };
    let queue = context.queue(&devices[0], options).unwrap();
    const BYTES: usize = 100_000;
    let large = context.memory(BYTES as u64).unwrap();
    let [after, apart] = [(); 2].map(|()| context.memory(64).unwrap());
    let filled = queue.fill(Access::whole(&large, AccessMode::Overwrite), &[7], &[]);
    filled.unwrap().wait().unwrap();
    relay.hold(Held::Bulk);
    let mut back = vec![0; BYTES];
    let from = Access::whole(&large, AccessMode::Read);
    let read = queue
        .read(from, host(&mut back), BYTES as u64, &[], &[])
        .unwrap();
    // They fit where they are held. Its end comes meanwhile, and is acknowledged.
    let fill = |memory: &MemoryRef, waits: &[Event]| {
        queue.fill(Access::whole(memory, AccessMode::Overwrite), &[1], waits)
    };
    let mut waiting = Vec::new();
    for _ in 0..20 {
        waiting.push(fill(&after, std::slice::from_ref(&read)).unwrap());
        fill(&apart, &[]).unwrap().wait().unwrap();
    }
    assert!(!read.is_complete());
    relay.hold(Held::Nothing);
    read.wait().unwrap();
    waiting.iter().for_each(|event| event.wait().unwrap());
    assert!(back.iter().all(|byte| *byte == 7));
}

#[test]
fn an_attempt_that_hears_nothing_leaves_time_for_others() {
    let _watchdog = watchdog("attempts that hear nothing");
    let limits = Limits {
        // Less than what an answer may take.
        patience: support::PATIENCE / 4,
        ..Limits::default()
    };
    let mut rig = Rig::new(pool(1), limits);
    let relay = Relay::to(&rig.address, 5);
    rig.address.clone_from(&relay.address);
    let devices = rig.devices();
    let context = Context::new(&devices).unwrap();
    let queue = context.queue(&devices[0], QueueOptions::default()).unwrap();
    let memory = context.memory(64).unwrap();
    relay.set(Way::Silent);
    let fill = || queue.fill(Access::whole(&memory, AccessMode::Overwrite), &[7], &[]);
    let filled = fill().unwrap();
    queue.flush();
    // Both streams have found the loss, and try.
    while relay.refused() < 2 {
        std::thread::yield_now();
    }
    relay.set(Way::Open);
    filled.wait().unwrap();
    assert_eq!(rig.node.sessions(), 1);
}

#[test]
fn a_node_gives_a_session_up_before_its_client_does() {
    let _watchdog = watchdog("the end of patience");
    let (of_node, of_client) = (
        Arc::new(ManualTimer::default()),
        Arc::new(ManualTimer::default()),
    );
    let limits = Limits {
        patience: Duration::from_secs(1000),
        ..Limits::default()
    };
    let mut rig = Rig::with(pool(1), limits, |options| options.timer = of_node.clone());
    let relay = Relay::to(&rig.address, 3);
    rig.address.clone_from(&relay.address);
    rig.reconnect = Duration::from_secs(90);
    rig.timer = of_client.clone();
    let driver: Arc<dyn Driver> = rig.driver();
    let mut devices = Device::all_of(&driver).unwrap();
    devices.extend(pool(1));
    let context = Context::new(&devices).unwrap();
    let there = context.queue(&devices[0], QueueOptions::default()).unwrap();
    let here = context.queue(&devices[1], QueueOptions::default()).unwrap();
    let (gone, own) = (context.memory(64).unwrap(), context.memory(64).unwrap());
    let fill = |queue: &quipu_scheduler::Queue, memory: &MemoryRef| {
        queue.fill(Access::whole(memory, AccessMode::Overwrite), &[7], &[])
    };
    fill(&there, &gone).unwrap().wait().unwrap();
    // Nobody gets through any more, though somebody answers.
    relay.set(Way::Closed);
    let waits = fill(&there, &gone).unwrap();
    there.flush();
    // What is elsewhere goes on.
    fill(&here, &own).unwrap().wait().unwrap();
    // Both find out, and wait.
    while of_node.waiting() < 2 || of_client.waiting() == 0 {
        std::thread::yield_now();
    }
    // The client has waited for nearly as long as it would when the node has long given up, also if
    // it has noticed late.
    of_node.advance(Duration::from_secs(59));
    while rig.node.sessions() > 0 {
        std::thread::yield_now();
    }
    of_client.advance(Duration::from_secs(89));
    assert!(!waits.is_complete());
    // Now it gives up, too.
    while of_client.waiting() == 0 && !waits.is_complete() {
        std::thread::yield_now();
    }
    of_client.advance(Duration::from_secs(1));
    let error = waits.wait().unwrap_err();
    match error.first_cause().kind() {
        ErrorKind::DeviceLost { device, reason } => {
            assert!(device.ends_with(" on node"), "{device}");
            assert!(reason.contains("did not come back within 90 s"), "{reason}");
        }
        other => panic!("{other:?}"),
    }
    fill(&here, &own).unwrap().wait().unwrap();
    // A later connection gets a session of its own.
    relay.set(Way::Open);
    assert_eq!(rig.devices().len(), 1);
}

/// A program whose transfers all ride with commands never says anything on its bulk stream, nor
/// need one that waits say anything at all.
#[test]
fn a_first_loss_is_waited_out_however_late_it_comes_and_little_was_said() {
    let _watchdog = watchdog("a late first loss");
    for says_something in [false, true] {
        let of_node = Arc::new(ManualTimer::default());
        let limits = Limits::default();
        let rig = Rig::with(pool(1), limits, |options| options.timer = of_node.clone());
        let devices = rig.devices();
        let context = Context::new(&devices).unwrap();
        let queue = context.queue(&devices[0], QueueOptions::default()).unwrap();
        let memory = context.memory(64).unwrap();
        let fill = || queue.fill(Access::whole(&memory, AccessMode::Overwrite), &[7], &[]);
        if says_something {
            fill().unwrap().wait().unwrap();
        }
        of_node.advance(10 * limits.patience);
        rig.node.cut();
        fill().unwrap().wait().unwrap();
        assert_eq!(rig.node.sessions(), 1);
    }
}

/// As a laptop does that has come to another network, where the address that it knows is somebody
/// else's.
#[test]
fn another_machine_at_the_nodes_address_ends_nothing() {
    let _watchdog = watchdog("another node at the address");
    // The node hears that the connection was ended. No time passes for it, however long this takes.
    let mut rig = Rig::with(pool(1), Limits::default(), |options| {
        options.timer = Arc::new(ManualTimer::default());
    });
    let other = Rig::new(pool(1), Limits::default());
    let relay = Relay::to(&rig.address, 5);
    let address = std::mem::replace(&mut rig.address, relay.address.clone());
    let devices = rig.devices();
    let context = Context::new(&devices).unwrap();
    let queue = context.queue(&devices[0], QueueOptions::default()).unwrap();
    let memory = context.memory(64).unwrap();
    let fill = || queue.fill(Access::whole(&memory, AccessMode::Overwrite), &[7], &[]);
    fill().unwrap().wait().unwrap();
    let before = relay.bytes();
    relay.lead_to(&other.address);
    relay.cut();
    let filled = fill().unwrap();
    queue.flush();
    // It has said that it has another key, more than once.
    while relay.bytes() < before + 20_000 && !filled.is_complete() {
        std::thread::yield_now();
    }
    assert!(!filled.is_complete());
    relay.lead_to(&address);
    relay.cut();
    filled.wait().unwrap();
    assert_eq!((rig.node.sessions(), other.node.sessions()), (1, 0));
}

#[test]
fn a_session_of_no_patience_ends_with_its_connection() {
    let _watchdog = watchdog("no patience");
    let limits = Limits {
        patience: Duration::ZERO,
        ..Limits::default()
    };
    let rig = Rig::new(pool(1), limits);
    let remote = rig.driver();
    let driver: Arc<dyn Driver> = remote.clone();
    let devices = Device::all_of(&driver).unwrap();
    let context = Context::new(&devices).unwrap();
    let queue = context.queue(&devices[0], QueueOptions::default()).unwrap();
    let memory = context.memory(64).unwrap();
    rig.node.cut();
    let event = queue.fill(Access::whole(&memory, AccessMode::Overwrite), &[1], &[]);
    assert!(event.and_then(|event| event.wait()).is_err());
}

#[test]
fn times_without_an_end_are_as_good_as_long_ones() {
    let _watchdog = watchdog("endless times");
    let limits = Limits {
        patience: Duration::MAX,
        ..Limits::default()
    };
    let mut rig = Rig::new(pool(1), limits);
    (rig.patience, rig.reconnect) = (Duration::MAX, Duration::MAX);
    let remote = rig.driver();
    let driver: Arc<dyn Driver> = remote.clone();
    let devices = Device::all_of(&driver).unwrap();
    let context = Context::new(&devices).unwrap();
    let queue = context.queue(&devices[0], QueueOptions::default()).unwrap();
    let memory = context.memory(64).unwrap();
    let fill = || queue.fill(Access::whole(&memory, AccessMode::Overwrite), &[1], &[]);
    fill().unwrap().wait().unwrap();
    rig.node.cut();
    fill().unwrap().wait().unwrap();
    remote.vendor().cut();
    fill().unwrap().wait().unwrap();
    // The goodbye.
    drop((memory, queue, context, devices, driver, remote));
    while rig.node.sessions() > 0 {
        std::thread::yield_now();
    }
}

/// As a proxy, or a tunnel, whose process was stopped: TCP sees nothing of it.
#[test]
fn what_passes_nothing_on_is_found_out_and_the_session_goes_on_without_it() {
    let _watchdog = watchdog("a relay that was stopped");
    let mut rig = Rig::with(pool(1), Limits::default(), |options| {
        options.idle = Duration::from_secs(1);
    });
    let relay = Relay::to(&rig.address, 3);
    rig.address.clone_from(&relay.address);
    let devices = rig.devices();
    let context = Context::new(&devices).unwrap();
    let queue = context.queue(&devices[0], QueueOptions::default()).unwrap();
    let memory = context.memory(64).unwrap();
    let fill = || queue.fill(Access::whole(&memory, AccessMode::Overwrite), &[7], &[]);
    fill().unwrap().wait().unwrap();
    for has_something_to_say in [true, false] {
        relay.stop();
        let said = has_something_to_say.then(|| fill().unwrap());
        queue.flush();
        // Both streams come back.
        let is_back = |link: &LinkLoad| link.resumed > 0;
        while !has_something_to_say && !rig.look().links.links.iter().all(is_back) {
            std::thread::yield_now();
        }
        said.map_or(Ok(()), |event| event.wait()).unwrap();
        fill().unwrap().wait().unwrap();
        assert_eq!(rig.node.sessions(), 1);
    }
}

/// As `ssh -L` that is started anew: meanwhile nobody listens there.
#[test]
fn what_forwards_from_this_machine_may_start_anew() {
    let _watchdog = watchdog("a forwarder that starts anew");
    let mut rig = Rig::new(pool(1), Limits::default());
    let relay = Relay::to(&rig.address, 3);
    rig.address.clone_from(&relay.address);
    let devices = rig.devices();
    let context = Context::new(&devices).unwrap();
    let queue = context.queue(&devices[0], QueueOptions::default()).unwrap();
    let memory = context.memory(64).unwrap();
    let fill = || queue.fill(Access::whole(&memory, AccessMode::Overwrite), &[7], &[]);
    for _ in 0..10 {
        fill().unwrap().wait().unwrap();
        relay.end();
        let filled = fill().unwrap();
        queue.flush();
        // The client finds nobody there, by and by, and is not told that the session is over.
        let is_lost = |link: &LinkLoad| link.state == LinkState::Awaited;
        while !rig.look().links.links.iter().all(is_lost) {
            std::thread::yield_now();
        }
        relay.start_anew();
        filled.wait().unwrap();
        assert_eq!(rig.node.sessions(), 1);
    }
}
