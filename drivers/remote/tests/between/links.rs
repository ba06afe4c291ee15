//! The links between nodes: a node's reports on them to a client, and the bytes that go over them.

use crate::support::pair::Pair;
use crate::support::relay::Way;
use crate::support::{Rig, pool};
use quipu_conformance::{Watchdog, folding};
use quipu_link::compression::Compression;
use quipu_node::Limits;
use quipu_protocol::message::{LinkKind, LinkLoad, LinkState};
use quipu_scheduler::operation::HostMemory;
use quipu_scheduler::{
    Access, AccessMode, Context, Device, Driver, MemoryRef, Queue, QueueOptions, Request,
};
use std::sync::Arc;
use std::time::Duration;

const SIZE: u64 = 3 << 20;

/// Few bytes go with their command, and are told with its end; more go in bulk.
#[test]
fn what_is_small_rides_with_its_command() {
    let rig = Rig::new(pool(1), Limits::default());
    let remote = rig.driver();
    let driver: Arc<dyn Driver> = remote.clone();
    let devices = Device::all_of(&driver).unwrap();
    let context = Context::new(&devices).unwrap();
    let queue = context.queue(&devices[0], QueueOptions::default()).unwrap();
    let most = Limits::default().inline as usize;
    for (bytes, is_bulk) in [(1, false), (most, false), (most + 1, true)] {
        let memory = context.memory(bytes as u64).unwrap();
        let access = |mode| Access {
            memory: &memory,
            offset: 0,
            length: bytes as u64,
            mode,
        };
        let (mut sent, mut back) = (vec![7_u8; bytes], vec![0_u8; bytes]);
        let host = |bytes: &mut [u8]| {
            // SAFETY: kept, and not looked at, until the read is over.
            unsafe { HostMemory::new(bytes.as_mut_ptr(), bytes.len(), None) }
        };
        let (row, to) = (bytes as u64, access(AccessMode::Overwrite));
        queue.write(host(&mut sent), to, row, &[], &[]).unwrap();
        let from = access(AccessMode::Read);
        let read = queue.read(from, host(&mut back), row, &[], &[]);
        read.unwrap().wait().unwrap();
        assert_eq!(back, sent);
        let expected = if is_bulk { bytes as u64 } else { 0 };
        assert_eq!(remote.vendor().bulk_bytes()[0], expected, "{bytes}");
        assert_eq!(rig.node.status()().bulk_bytes, expected, "{bytes}");
    }
}

/// Changes the first number, so that the bytes are this device's.
fn fold(queue: &Queue, memory: &MemoryRef) {
    let accesses = [Access {
        memory,
        offset: 0,
        length: SIZE,
        mode: AccessMode::ReadWrite,
    }];
    let request = Request {
        accesses: &accesses,
        ..Request::default()
    };
    let event = queue.launch(folding(3), 1, &request);
    event.unwrap().wait().unwrap();
}

fn link(rig: &Rig, kind: LinkKind) -> LinkLoad {
    let links = rig.look().links.links;
    let mut links = links.into_iter().filter(|link| link.kind == kind);
    let found = links.next().unwrap();
    assert_eq!((found.session, links.count()), (1, 0));
    found
}

#[test]
fn both_ends_of_a_link_are_told_and_how_it_is() {
    let _watchdog = Watchdog::start(Duration::from_secs(900), "links of two nodes".to_owned());
    let pair = Pair::new([pool(1), pool(1)], 6);
    let [near, far] = &pair.rigs;
    let devices = pair.devices();
    let context = Context::new(&devices).unwrap();
    let queue = |device| context.queue(device, QueueOptions::default()).unwrap();
    let queues = [queue(&devices[0]), queue(&devices[1])];
    let memory = context.memory(SIZE).unwrap();
    fold(&queues[0], &memory);
    fold(&queues[1], &memory);
    // What is acknowledged at last is on its way.
    let [to, from] = loop {
        let ends = [link(near, LinkKind::ToNode), link(far, LinkKind::FromNode)];
        if (ends[0].sent, ends[0].received) == (ends[1].received, ends[1].sent) {
            break ends;
        }
    };
    assert!(to.sent > SIZE && to.received > 0, "{to:?}");
    for (end, other) in [(to, far), (from, near)] {
        assert_eq!((end.state, end.resumed), (LinkState::Connected, 0));
        // By which who asks both finds the other end.
        assert_eq!(end.key, link(other, LinkKind::Commands).key);
    }
    let between = near.node.links()().nodes;
    assert!(
        between.states.connected > 0 && between.sent >= SIZE,
        "{between:?}"
    );

    // Its client comes back, on both streams.
    let before = link(near, LinkKind::Commands);
    assert_eq!(before.resumed, 0);
    near.node.cut();
    fold(&queues[0], &memory);
    for kind in [LinkKind::Commands, LinkKind::Bulk] {
        let is_back = |link: LinkLoad| link.resumed == 1 && link.state == LinkState::Connected;
        while !is_back(link(near, kind)) {
            std::thread::yield_now();
        }
        assert_eq!(link(far, kind).resumed, 0);
    }
    assert!(link(near, LinkKind::Commands).sent > before.sent);

    pair.set_peers(Way::Closed);
    for (rig, kind) in [(near, LinkKind::ToNode), (far, LinkKind::FromNode)] {
        while link(rig, kind).state != LinkState::ByClient {
            std::thread::yield_now();
        }
    }
}

#[test]
fn what_compression_saves_on_a_link_is_told_for_both_directions() {
    let _watchdog = Watchdog::start(
        Duration::from_secs(900),
        "a link that compresses".to_owned(),
    );
    let mut rig = Rig::with(pool(1), Limits::default(), |options| {
        options.compression = Compression::Lz4;
    });
    rig.compression = Compression::Lz4;
    let driver = rig.driver();
    let devices = Device::all_of(&(driver.clone() as Arc<dyn Driver>)).unwrap();
    let context = Context::new(&devices).unwrap();
    let queue = context.queue(&devices[0], QueueOptions::default()).unwrap();
    let memory = context.memory(SIZE).unwrap();
    let access = |mode| Access {
        memory: &memory,
        offset: 0,
        length: SIZE,
        mode,
    };
    let mut bytes = vec![0; SIZE as usize];
    // SAFETY: kept, and not looked at, until both are over.
    let mut host = || unsafe { HostMemory::new(bytes.as_mut_ptr(), SIZE as usize, None) };
    let to = access(AccessMode::Overwrite);
    let write = queue.write(host(), to, SIZE, &[], &[]);
    write.unwrap().wait().unwrap();
    let from = access(AccessMode::Read);
    let read = queue.read(from, host(), SIZE, &[], &[]);
    read.unwrap().wait().unwrap();
    let status = rig.look().status;
    let [plain, sent] = link(&rig, LinkKind::Bulk).chunks_sent;
    assert_eq!([plain, sent], [status.bulk_bytes, status.bulk_sent]);
    assert!(plain == SIZE && sent < SIZE / 10, "{sent}");
    // What has come is in whole frames, of which a few bytes are padding.
    let [plain, came] = link(&rig, LinkKind::Bulk).chunks_received;
    let [_, sent_here] = driver.vendor().bulk_bytes();
    assert_eq!(plain, SIZE);
    let padding = came - sent_here;
    assert!(padding <= 8 * (SIZE >> 17), "{came} of {sent_here}");
}
