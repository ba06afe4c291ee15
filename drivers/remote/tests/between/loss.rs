//! Connections that are lost for good at random moments of random graphs: nothing hangs, every command ends, what fails says which
//! node is lost, devices elsewhere go on, and the node keeps nothing.

use crate::support::lossy::{Host, Seen, access, graph, names_the_node};
use crate::support::{Rig, pool, simulated};
use quipu_conformance::Watchdog;
use quipu_core::{AccessMode, Context, Device, Driver, MemoryRef, QueueOptions};
use quipu_driver_remote::RemoteDriver;
use quipu_node::Limits;
use std::sync::Arc;
use std::time::Duration;

/// A node whose clients do not come back.
fn rig(devices: Vec<Device>) -> Rig {
    let mut rig = Rig::new(devices, Limits::default());
    rig.reconnect = Duration::ZERO;
    rig
}

/// How a connection ends.
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
            .fill(access(memory, AccessMode::Overwrite), &[7], &[])
            .unwrap()
            .wait()
            .unwrap();
    }
    let read = |memory: &MemoryRef, host: &mut Host| {
        let event = here.read(
            access(memory, AccessMode::Read),
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
    let after = there.fill(access(&kept, AccessMode::Overwrite), &[9], &[]);
    let error = after.and_then(|event| event.wait()).unwrap_err();
    assert!(names_the_node(&error), "{error}");
    let error = read(&gone, &mut host).unwrap_err();
    assert!(names_the_node(&error), "{error}");
    assert!(error.to_string().contains("'the only one'"), "{error}");
    // Its user wrote it again, as a whole.
    here.fill(access(&gone, AccessMode::Overwrite), &[5], &[])
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
        .fill(access(&memory, AccessMode::Overwrite), &[7], &[])
        .unwrap()
        .wait()
        .unwrap();
    let Rig { node, .. } = rig;
    drop(node);
    let after = queue.fill(access(&memory, AccessMode::Overwrite), &[9], &[]);
    let error = after.and_then(|event| event.wait()).unwrap_err();
    assert!(names_the_node(&error), "{error}");
}
