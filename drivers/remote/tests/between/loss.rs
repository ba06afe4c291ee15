//! Connections that are lost for good at random moments of random graphs: nothing hangs, every
//! command ends, what fails says which node is lost, devices elsewhere go on, and the node keeps
//! nothing.

use crate::support::lossy::{Host, Seen, graph, names_the_node};
use crate::support::pair::Pair;
use crate::support::relay::Held;
#[cfg(target_os = "linux")]
use crate::support::relay::{Relay, Way};
use crate::support::{Rig, pool, rounds, simulated};
use quipu_conformance::{Watchdog, folding};
use quipu_driver_remote::RemoteDriver;
#[cfg(target_os = "linux")]
use quipu_link::timer::ManualTimer;
use quipu_node::Limits;
use quipu_scheduler::{
    Access, AccessMode, Context, Device, Driver, Event, MemoryRef, Queue, QueueOptions, Request,
};
use std::sync::Arc;
use std::time::Duration;

/// A node whose clients do not come back.
fn rig(devices: Vec<Device>) -> Rig {
    let mut rig = Rig::new(devices, Limits::default());
    rig.reconnect = Duration::ZERO;
    rig
}

/// The end of a connection.
#[derive(Clone, Copy, Debug)]
enum Cut {
    ByTheClient,
    ByTheNode,
}

#[test]
fn a_connection_may_be_cut_at_any_moment() {
    let mut devices = pool(1);
    devices.extend(simulated(1));
    let rig = rig(devices);
    let local = pool(1).remove(0);
    let _watchdog = Watchdog::start(Duration::from_secs(1800), "cut connections".to_owned());
    let mut seen = Seen::default();
    for seed in 0..300 {
        let cut = if seed % 2 == 0 {
            Cut::ByTheClient
        } else {
            Cut::ByTheNode
        };
        let remote: Arc<RemoteDriver> = rig.driver();
        let driver: Arc<dyn Driver> = remote.clone();
        let lose = || match cut {
            Cut::ByTheClient => remote.vendor().cut(),
            Cut::ByTheNode => rig.node.cut(),
        };
        let node = Device::all_of(&driver).unwrap();
        seen += graph(&node, std::slice::from_ref(&local), seed, lose);
    }
    seen.is_enough(300);
    // The node keeps nothing of any of them: each ends as soon as its connection has.
    while rig.node.sessions() > 0 || rig.node.session_bytes() > 0 {
        std::thread::yield_now();
    }
    // And takes others.
    assert_eq!(rig.devices().len(), 2);
}

/// Each with a session of its own, lost at a random moment; a second node is there all the time.
#[cfg(target_os = "linux")]
#[test]
fn a_node_may_be_out_of_reach_for_longer_than_the_patience_from_any_moment_on() {
    let _watchdog = Watchdog::start(Duration::from_secs(1800), "the end of patience".to_owned());
    const RECONNECT: Duration = Duration::from_secs(90);
    const SECOND: Duration = Duration::from_secs(1);
    let limits = Limits {
        // Time passes for nothing but patience.
        run_time: Duration::ZERO,
        compile_time: Duration::ZERO,
        ..Limits::default()
    };
    // The relay ends the connections, so the node waits for no longer than for a client that was
    // killed.
    const RETURN: Duration = Duration::from_secs(10);
    let patience = limits.patience_with(RECONNECT).min(RETURN);
    // A loss may go unnoticed at the node for a while.
    assert!(patience + 30 * SECOND < RECONNECT);
    let (of_node, of_client) = (
        Arc::new(ManualTimer::default()),
        Arc::new(ManualTimer::default()),
    );
    let mut devices = pool(1);
    devices.extend(simulated(1));
    let mut rig = Rig::with(devices, limits, |options| options.timer = of_node.clone());
    let relay = Relay::to(&rig.address, 13);
    rig.address.clone_from(&relay.address);
    rig.reconnect = RECONNECT;
    rig.timer = of_client.clone();
    let mut other = Rig::new(pool(1), Limits::default());
    other.name = "other";
    let others = [pool(1), other.devices()].concat();
    // Both streams wait here. At the node one of them does, beside the thread that looks after the
    // node: the bulk stream may have come to bytes of a command that it has not heard of, and does
    // not know of its loss.
    let wait = || {
        while of_node.waiting() < 2 || of_client.waiting() < 2 {
            std::thread::yield_now();
        }
    };
    let mut seen = Seen::default();
    let count = rounds(60);
    for seed in 0..count {
        let node = rig.devices();
        let lose = || {
            relay.set(Way::Closed);
            wait();
            of_node.advance(patience - SECOND);
            wait();
            assert_eq!(rig.node.sessions(), 1);
            of_node.advance(SECOND);
            while rig.node.sessions() > 0 {
                std::thread::yield_now();
            }
            // The client waits for as long as it has said, and no longer.
            of_client.advance(RECONNECT - SECOND);
            while of_client.waiting() < 2 {
                std::thread::yield_now();
            }
            of_client.advance(SECOND);
        };
        seen += graph(&node, &others, seed, lose);
        relay.set(Way::Open);
    }
    // Nor is anything left there, and a later connection gets a session of its own.
    while rig.node.session_bytes() > 0 {
        std::thread::yield_now();
    }
    assert_eq!(rig.devices().len(), 2);
    seen.is_enough(count);
    assert_eq!(other.node.sessions(), 1);
}

#[test]
fn buffers_whose_only_copy_was_there_are_lost_and_others_are_not() {
    let rig = rig(pool(1));
    let remote: Arc<RemoteDriver> = rig.driver();
    let driver: Arc<dyn Driver> = remote.clone();
    let mut devices = Device::all_of(&driver).unwrap();
    devices.extend(pool(1));
    let context = Context::new(&devices).unwrap();
    let there = context.queue(&devices[0], QueueOptions::default()).unwrap();
    let here = context.queue(&devices[1], QueueOptions::default()).unwrap();
    let (gone, kept) = (context.memory(64).unwrap(), context.memory(64).unwrap());
    gone.set_label("the only one");
    for memory in [&gone, &kept] {
        there
            .fill(Access::whole(memory, AccessMode::Overwrite), &[7], &[])
            .unwrap()
            .wait()
            .unwrap();
    }
    let read = |memory: &MemoryRef, host: &mut Host| {
        let event = here.read(
            Access::whole(memory, AccessMode::Read),
            host.memory(),
            64,
            &[],
            &[],
        );
        event.and_then(|event| event.wait())
    };
    let mut host = Host(vec![0; 64].into());
    read(&kept, &mut host).unwrap();
    remote.vendor().cut();
    // The first command after it learns of it.
    let after = there.fill(Access::whole(&kept, AccessMode::Overwrite), &[9], &[]);
    let error = after.and_then(|event| event.wait()).unwrap_err();
    assert!(names_the_node(&error), "{error}");
    let error = read(&gone, &mut host).unwrap_err();
    assert!(names_the_node(&error), "{error}");
    assert!(error.to_string().contains("'the only one'"), "{error}");
    // Its user wrote it again, as a whole.
    here.fill(Access::whole(&gone, AccessMode::Overwrite), &[5], &[])
        .unwrap()
        .wait()
        .unwrap();
    read(&gone, &mut host).unwrap();
    assert_eq!(host.0[..], [5; 64]);
}

#[test]
fn a_node_that_ends_says_so() {
    let rig = Rig::new(pool(1), Limits::default());
    let devices = rig.devices();
    let context = Context::new(&devices).unwrap();
    let queue = context.queue(&devices[0], QueueOptions::default()).unwrap();
    let memory = context.memory(64).unwrap();
    queue
        .fill(Access::whole(&memory, AccessMode::Overwrite), &[7], &[])
        .unwrap()
        .wait()
        .unwrap();
    let Rig { node, .. } = rig;
    drop(node);
    let after = queue.fill(Access::whole(&memory, AccessMode::Overwrite), &[9], &[]);
    let error = after.and_then(|event| event.wait()).unwrap_err();
    assert!(names_the_node(&error), "{error}");
}

/// Changes the first number.
fn fold(queue: &Queue, memory: &MemoryRef) -> Event {
    let accesses = [Access::whole(memory, AccessMode::ReadWrite)];
    let request = Request {
        accesses: &accesses,
        ..Request::default()
    };
    queue.launch(folding(3), 1, &request).unwrap()
}

#[test]
fn a_node_that_dies_while_bytes_that_it_has_sent_are_on_their_way_keeps_no_other_waiting() {
    let _watchdog = Watchdog::start(
        Duration::from_secs(1800),
        "bytes of a node that is gone".to_owned(),
    );
    // What is copied to be sent is sent by a command that ends before the bytes are there: what is
    // little, and what is in a device's own memory.
    for (devices, bytes) in [(pool(1), 1 << 12), (simulated(1), 1 << 20)] {
        let mut pair = Pair::new([devices, pool(1)], 15);
        for rig in &mut pair.rigs {
            rig.reconnect = Duration::ZERO;
        }
        let devices = pair.devices();
        let context = Context::new(&devices).unwrap();
        let [left, right] = [0, 1].map(|side: usize| {
            let device = &devices[side];
            context.queue(device, QueueOptions::default()).unwrap()
        });
        let filled = |queue: &Queue, bytes| {
            let memory = context.memory(bytes).unwrap();
            let fill = queue.fill(Access::whole(&memory, AccessMode::Overwrite), &[7], &[]);
            fill.unwrap().wait().unwrap();
            memory
        };
        // The way from node to node is there, and used, when it is held.
        fold(&right, &filled(&left, bytes)).wait().unwrap();
        let moved = filled(&left, bytes);
        let [dying, other] = [0, 1].map(|side: usize| {
            let node = &pair.rigs[side].node;
            move || node.status()().commands_held
        });
        pair.peers[1].hold(Held::All);
        let folded = fold(&right, &moved);
        right.flush();
        // One that receives, and the kernel that waits for it.
        while other() < 2 || dying() > 0 {
            filled(&left, 64);
        }
        // The client has been told that they are sent.
        filled(&left, 64);
        pair.rigs[0].node.cut();
        folded.wait().unwrap_err();
        // Nothing waits there, and it goes on.
        fold(&right, &filled(&right, 64)).wait().unwrap();
        while other() > 0 {
            std::thread::yield_now();
        }
    }
}
