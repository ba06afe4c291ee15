//! Bytes that are compressed on their way to a node and back.

use crate::support::relay::{Relay, Way};
use crate::support::{Rig, pool, simulated};
use quipu_driver_remote::RemoteDriver;
use quipu_link::compression::Compression;
use quipu_node::Limits;
use quipu_scheduler::operation::HostMemory;
use quipu_scheduler::{Access, AccessMode, Context, Device, Driver, Queue, QueueOptions};
use std::sync::Arc;

const BYTES: usize = 6 << 20;

fn rig(compression: Compression) -> Rig {
    let mut devices = pool(2);
    devices.extend(simulated(1));
    let mut rig = Rig::with(devices, Limits::default(), |options| {
        options.compression = compression;
    });
    rig.compression = compression;
    rig
}

/// The driver, and a queue of each device, with their context.
fn queues(rig: &Rig) -> (Arc<RemoteDriver>, Vec<(Context, Queue)>) {
    let remote = rig.driver();
    let driver: Arc<dyn Driver> = remote.clone();
    let devices = Device::all_of(&driver).unwrap();
    let context = Context::new(&devices).unwrap();
    let queues = devices.iter();
    let queues = queues.map(|device| {
        let queue = context.queue(device, QueueOptions::default());
        (context.clone(), queue.unwrap())
    });
    (remote, queues.collect())
}

const BOTH: [Compression; 2] = [Compression::Lz4, Compression::Zstd];

/// Bytes of which so many bits in each look random.
fn bytes(bits: u32, seed: u64) -> Vec<u8> {
    let mut random = seed | 1;
    let next = |_| {
        random = random.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(1);
        (random >> 56) as u8 & ((1_u16 << bits) - 1) as u8
    };
    (0..BYTES).map(next).collect()
}

/// Writes bytes and reads them again.
fn there_and_back((context, queue): &(Context, Queue), bytes: &mut [u8]) -> Vec<u8> {
    let memory = context.memory(BYTES as u64).unwrap();
    let access = |mode| Access {
        memory: &memory,
        offset: 0,
        length: BYTES as u64,
        mode,
    };
    let mut back = vec![0; BYTES];
    let host = |bytes: &mut [u8]| {
        // SAFETY: kept, and not looked at, until the read is over.
        unsafe { HostMemory::new(bytes.as_mut_ptr(), bytes.len(), None) }
    };
    let row = BYTES as u64;
    let to = access(AccessMode::Overwrite);
    queue.write(host(bytes), to, row, &[], &[]).unwrap();
    let from = access(AccessMode::Read);
    let read = queue.read(from, host(&mut back), row, &[], &[]);
    read.unwrap().wait().unwrap();
    back
}

/// Bytes that were sent in bulk to the node and by it, and what was sent for them.
fn traffic(rig: &Rig, driver: &RemoteDriver) -> [[u64; 2]; 2] {
    let status = rig.node.status()();
    [
        driver.vendor().bulk_bytes(),
        [status.bulk_bytes, status.bulk_sent],
    ]
}

#[test]
fn what_is_shorter_for_it_is_compressed_both_ways() {
    for compression in BOTH {
        let rig = rig(compression);
        let (driver, queues) = queues(&rig);
        for (round, queue) in queues.iter().enumerate() {
            let mut sent = bytes(2, 3);
            for at in (0..BYTES).step_by(2) {
                sent[at] = 0;
            }
            assert!(there_and_back(queue, &mut sent) == sent);
            for [plain, packed] in traffic(&rig, &driver) {
                assert_eq!(plain, ((round + 1) * BYTES) as u64);
                assert!(packed < plain * 6 / 10, "{packed} of {plain}");
            }
        }
    }
}

/// Bytes that only Zstandard makes shorter.
#[test]
fn each_codec_does_what_it_is_there_for() {
    for (compression, parts) in BOTH.into_iter().zip([100..=100, 50..=55]) {
        let rig = rig(compression);
        let (driver, queues) = queues(&rig);
        let mut sent = bytes(4, 7);
        assert!(there_and_back(&queues[0], &mut sent) == sent);
        for [plain, packed] in traffic(&rig, &driver) {
            let part = packed * 100 / plain;
            assert!(parts.contains(&part), "{compression}: {part}");
        }
    }
}

#[test]
fn what_is_not_shorter_for_it_is_sent_as_it_is() {
    for compression in BOTH {
        let rig = rig(compression);
        let (driver, queues) = queues(&rig);
        let mut sent = bytes(8, 5);
        assert!(there_and_back(&queues[0], &mut sent) == sent);
        let all = BYTES as u64;
        assert_eq!(traffic(&rig, &driver), [[all, all]; 2]);
    }
}

#[test]
fn nothing_is_compressed_on_this_machine_unless_asked_for() {
    for compression in [Compression::Auto, Compression::Off] {
        let rig = rig(compression);
        let (driver, queues) = queues(&rig);
        let mut sent = vec![0; BYTES];
        assert!(there_and_back(&queues[0], &mut sent) == sent);
        let all = BYTES as u64;
        assert_eq!(traffic(&rig, &driver), [[all, all]; 2]);
    }
}

/// Each side says what it compresses itself, and takes what the other does.
#[test]
fn sides_need_not_do_the_same() {
    let mut rig = rig(Compression::Zstd);
    rig.compression = Compression::Off;
    let (driver, queues) = queues(&rig);
    let mut sent = vec![1; BYTES];
    assert!(there_and_back(&queues[0], &mut sent) == sent);
    let [[plain, as_it_was], [_, packed]] = traffic(&rig, &driver);
    assert_eq!((plain, as_it_was), (BYTES as u64, BYTES as u64));
    assert!(packed < plain / 50, "{packed}");
}

/// Whatever is found worth it on the way, the bytes are the same.
#[test]
fn what_is_measured_changes_no_byte() {
    let rig = rig(Compression::Adaptive);
    let (_driver, queues) = queues(&rig);
    for seed in 0..6 {
        let mut sent = bytes([0, 3, 8][seed % 3], seed as u64);
        assert!(there_and_back(&queues[seed % 2], &mut sent) == sent);
    }
}

#[cfg(target_os = "linux")]
#[test]
fn what_is_compressed_is_not_lost_when_connections_are_cut() {
    for compression in BOTH {
        let mut rig = rig(compression);
        let relay = Relay::to(&rig.address, 23);
        rig.address.clone_from(&relay.address);
        let (_driver, queues) = queues(&rig);
        relay.set(Way::Cutting(14, 19));
        for round in 0..4 {
            let mut sent = bytes(4, round);
            assert!(there_and_back(&queues[round as usize % 2], &mut sent) == sent);
        }
        assert!(relay.cuts() >= 20, "{} cuts", relay.cuts());
    }
}
