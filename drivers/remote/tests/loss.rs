//! Connections that are lost for good at random moments of random graphs: nothing hangs, every command ends, what fails says which
//! node is lost, devices elsewhere go on, and the node keeps nothing.
#![allow(clippy::unwrap_used, reason = "a promise that is not kept panics")]

mod support;

use quipu_conformance::{Watchdog, folding};
use quipu_core::operation::HostMemory;
use quipu_core::{
    Access, AccessMode, Context, Device, Driver, Error, ErrorKind, Event, MemoryRef, Queue,
    QueueOptions, Request,
};
use quipu_driver_remote::RemoteDriver;
use quipu_node::Limits;
use std::sync::{Arc, Barrier};
use support::{Rig, pool, simulated};

/// A node whose clients do not come back.
fn rig(devices: Vec<Device>) -> Rig {
    let mut rig = Rig::new(devices, Limits::default());
    rig.reconnect = std::time::Duration::ZERO;
    rig
}

const OUT_OF_ORDER: QueueOptions = QueueOptions {
    in_order: false,
    blocking: false,
    profiling: false,
    priority: quipu_core::Priority::Normal,
    completion: quipu_core::Completion::Callback,
};

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

/// Bytes for transfers, kept until they are looked at.
struct Host(Box<[u8]>);

impl Host {
    fn memory(&mut self) -> HostMemory {
        // SAFETY: kept, and not looked at, until all commands are over, by who made it.
        unsafe { HostMemory::new(self.0.as_mut_ptr(), self.0.len(), None) }
    }
}

fn access(memory: &MemoryRef, mode: AccessMode) -> Access<'_> {
    Access {
        memory,
        offset: 0,
        length: memory.size(),
        mode,
    }
}

/// True if an error says, itself or as its cause, that the node is lost.
fn names_the_node(error: &Error) -> bool {
    match error.first_cause().kind() {
        ErrorKind::DeviceLost { device, reason } => {
            device.ends_with(" on node") && reason.contains("node 'node'")
        }
        _ => false,
    }
}

/// How a connection ends.
#[derive(Clone, Copy, Debug)]
enum Cut {
    ByTheClient,
    ByTheNode,
}

fn graph(rig: &Rig, local: &Device, seed: u64, cut: Cut) {
    let mut random = Random(seed);
    let remote: Arc<RemoteDriver> = rig.driver();
    let driver: Arc<dyn Driver> = remote.clone();
    let mut devices = Device::all_of(&driver).unwrap();
    devices.push(local.clone());
    let context = Context::new(&devices).unwrap();
    let queues: Vec<Queue> = devices
        .iter()
        .map(|device| context.queue(device, OUT_OF_ORDER).unwrap())
        .collect();
    let here = queues.last().unwrap();
    // The last buffer is used here alone. Some are large enough for the bulk stream.
    let sizes = [64, 1 << 12, 1 << 17, 3 << 20, 64];
    let buffers: Vec<MemoryRef> = sizes
        .iter()
        .map(|size| context.memory(*size).unwrap())
        .collect();
    let (elsewhere, own) = buffers.split_at(4);
    let own = &own[0];
    let (mut hosts, mut events): (Vec<Host>, Vec<Event>) = (Vec::new(), Vec::new());
    let (mut own_events, mut expected) = (Vec::new(), 0_u64);
    // Both sides have what there is to cut.
    let first = queues[0].fill(access(&buffers[0], AccessMode::Overwrite), &[0], &[]);
    first.unwrap().wait().unwrap();
    let commands = 40;
    let moment = random.below(commands);
    let barrier = Barrier::new(2);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            barrier.wait();
            match cut {
                Cut::ByTheClient => remote.vendor().cut(),
                Cut::ByTheNode => rig.node.cut(),
            }
        });
        for number in 0..commands {
            if number == moment {
                barrier.wait();
            }
            let queue = &queues[random.below(queues.len())];
            let memory = &elsewhere[random.below(elsewhere.len())];
            let waits: Vec<Event> = match events.len() {
                0 => Vec::new(),
                some => (0..random.below(3))
                    .map(|_| events[random.below(some)].clone())
                    .collect(),
            };
            let request = Request {
                accesses: &[access(memory, AccessMode::ReadWrite)],
                waits: &waits,
                ..Request::default()
            };
            let enqueued = match random.below(5) {
                0 => queue.launch(folding(number as u64), 1, &request),
                1 => queue.fill(
                    access(memory, AccessMode::Overwrite),
                    &[number as u8],
                    &waits,
                ),
                2 => {
                    hosts.push(Host(vec![number as u8; memory.size() as usize].into()));
                    let from = hosts.last_mut().unwrap().memory();
                    let to = access(memory, AccessMode::Overwrite);
                    queue.write(from, to, memory.size(), &[], &waits)
                }
                3 => {
                    hosts.push(Host(vec![0; memory.size() as usize].into()));
                    let to = hosts.last_mut().unwrap().memory();
                    let from = access(memory, AccessMode::Read);
                    queue.read(from, to, memory.size(), &[], &waits)
                }
                _ => queue.host_task(|_| Ok(()), &request),
            };
            match enqueued {
                Ok(event) => events.push(event),
                Err(error) => assert!(names_the_node(&error), "{error}"),
            }
            // What has nothing to do with the node goes on.
            let request = Request {
                accesses: &[access(own, AccessMode::ReadWrite)],
                ..Request::default()
            };
            let n = number as u64;
            own_events.push(here.launch(folding(n), 1, &request).unwrap());
            expected = expected.wrapping_mul(31).wrapping_add(n);
        }
    });
    for event in &events {
        if let Err(error) = event.wait() {
            assert!(names_the_node(&error), "seed {seed}, {cut:?}: {error}");
        }
    }
    for event in &own_events {
        event.wait().unwrap();
    }
    let mut host = Host(vec![0; 64].into());
    let read = here.read(access(own, AccessMode::Read), host.memory(), 64, &[], &[]);
    read.unwrap().wait().unwrap();
    assert_eq!(host.0[..8], expected.to_le_bytes());
    // Whatever is still to be done there fails, too, and at once.
    let after = queues[0].fill(access(&elsewhere[0], AccessMode::Overwrite), &[1], &[]);
    let error = after.and_then(|event| event.wait()).unwrap_err();
    assert!(names_the_node(&error), "{error}");
}

#[test]
fn a_connection_may_be_cut_at_any_moment() {
    let mut devices = pool(1);
    devices.extend(simulated(1));
    let rig = rig(devices);
    let local = pool(1).remove(0);
    let _watchdog = Watchdog::start(
        std::time::Duration::from_secs(1800),
        "cut connections".to_owned(),
    );
    for seed in 0..300 {
        let cut = if seed % 2 == 0 {
            Cut::ByTheClient
        } else {
            Cut::ByTheNode
        };
        graph(&rig, &local, seed, cut);
    }
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
