//! Reads of the bytes in use of a node's buffer: the node finds out their number.

use crate::support::relay::{Held, Relay, Way};
use crate::support::{Rig, pool, simulated};
use quipu_conformance::Watchdog;
use quipu_node::Limits;
use quipu_scheduler::memory::mapping::{HostLease, HostQueue};
use quipu_scheduler::operation::HostMemory;
use quipu_scheduler::{
    Access, AccessMode, Context, Device, Event, MemoryRef, Queue, QueueOptions, Request,
};
use std::sync::{Arc, Mutex};
use std::time::Duration;

fn watchdog(what: &str) -> Watchdog {
    Watchdog::start(Duration::from_secs(900), what.to_owned())
}

/// A device of a node's, and a queue of the host's turns.
struct Client {
    context: Context,
    queue: Queue,
    host: HostQueue,
}

fn access(memory: &MemoryRef, offset: u64, mode: AccessMode) -> Access<'_> {
    Access {
        memory,
        offset,
        length: memory.size() - offset,
        mode,
    }
}

impl Client {
    fn of(device: &Device) -> Self {
        let context = Context::new(std::slice::from_ref(device)).unwrap();
        let queue = context.queue(device, QueueOptions::default()).unwrap();
        let host = HostQueue::new(&context).unwrap();
        Self {
            context,
            queue,
            host,
        }
    }

    fn memory(&self, bytes: &[u8]) -> MemoryRef {
        let memory = self.context.memory(bytes.len() as u64).unwrap();
        self.write(&memory, bytes);
        memory
    }

    fn write(&self, memory: &MemoryRef, bytes: &[u8]) {
        let mut bytes = bytes.to_vec();
        // SAFETY: kept until the write is over.
        let from = unsafe { HostMemory::new(bytes.as_mut_ptr(), bytes.len(), None) };
        let to = access(memory, 0, AccessMode::Overwrite);
        let event = self.queue.write(from, to, memory.size(), &[], &[]);
        event.unwrap().wait().unwrap();
    }

    /// The bytes of a buffer that the host sees, from a byte on.
    fn see(&self, memory: &MemoryRef, offset: u64) -> (Event, Arc<Mutex<Vec<u8>>>) {
        let seen = Arc::new(Mutex::new(Vec::new()));
        let own = seen.clone();
        let task = move |lent: &HostLease| {
            let bytes = lent.argument(0)?;
            // SAFETY: they are lent to be read.
            let bytes = unsafe { std::slice::from_raw_parts(bytes.pointer, bytes.length) };
            own.lock().unwrap().extend_from_slice(bytes);
            Ok(())
        };
        let accesses = [access(memory, offset, AccessMode::Read)];
        let request = Request {
            accesses: &accesses,
            ..Request::default()
        };
        let turn = self.host.run(&self.queue, &request, task).unwrap();
        (turn.event, seen)
    }
}

fn pattern(length: usize) -> Vec<u8> {
    (0..length).map(|at| (at * 7 % 251) as u8 + 1).collect()
}

/// A node's pool, which works in the host's memory, and an accelerator with memory of its own.
fn rig() -> Rig {
    let devices = [pool(1), simulated(1)].concat();
    Rig::new(devices, Limits::default())
}

/// The expected bytes: those in use, and zeros.
fn in_use(bytes: &[u8], used: u64, offset: u64) -> Vec<u8> {
    let used = usize::try_from(used).unwrap_or(usize::MAX).min(bytes.len());
    let mut expected = bytes.to_vec();
    expected[used..].fill(0);
    expected.split_off(offset as usize)
}

#[test]
fn a_read_of_what_is_in_use_gives_that_and_zeros() {
    let _watchdog = watchdog("reads of what is in use");
    let rig = rig();
    for device in rig.devices() {
        let client = Client::of(&device);
        // With messages, and in bulk.
        for length in [64, 1 << 20] {
            let bytes = pattern(length);
            let size = client.memory(&0_u64.to_le_bytes());
            for used in [10, 0, 1, length as u64, length as u64 + 5, u64::MAX, 9] {
                for offset in [0, 7, 40] {
                    let data = client.memory(&bytes);
                    data.set_content_size(Some(size.clone())).unwrap();
                    client.write(&size, &used.to_le_bytes());
                    let (event, seen) = client.see(&data, offset);
                    event.wait().unwrap();
                    let seen = seen.lock().unwrap();
                    assert!(
                        *seen == in_use(&bytes, used, offset),
                        "{used} of {length} bytes, from {offset} on"
                    );
                    // What is not in use is still there.
                    data.set_content_size(None).unwrap();
                    let (event, all) = client.see(&data, 0);
                    event.wait().unwrap();
                    assert!(*all.lock().unwrap() == bytes);
                }
            }
        }
    }
}

#[test]
fn devices_of_a_node_pass_on_what_is_in_use_and_no_more() {
    let _watchdog = watchdog("what is in use goes from device to device");
    let rig = Rig::new(simulated(2), Limits::default());
    let devices = rig.devices();
    let context = Context::new(&devices).unwrap();
    let queue = |number: usize| context.queue(&devices[number], QueueOptions::default());
    let other = queue(1).unwrap();
    let client = Client {
        queue: queue(0).unwrap(),
        host: HostQueue::new(&context).unwrap(),
        context,
    };
    let fill = |queue: &Queue, memory: &MemoryRef, pattern: &[u8]| {
        let to = access(memory, 0, AccessMode::Overwrite);
        queue.fill(to, pattern, &[]).unwrap();
    };
    for used in [10_u64, 0, 5000, 4096] {
        let data = client.memory(&[0; 4096]);
        let (size, copy) = (client.memory(&[0; 8]), client.memory(&[0; 4096]));
        // Both are where the first device has them, and the client waits for neither.
        fill(&client.queue, &data, &[7]);
        data.set_content_size(Some(size.clone())).unwrap();
        fill(&client.queue, &size, &used.to_le_bytes());
        let from = access(&data, 0, AccessMode::Read);
        let to = access(&copy, 0, AccessMode::Overwrite);
        other.copy(from, to, 4096, &[], &[]).unwrap();
        // The size that counts is the one that was written before.
        fill(&client.queue, &size, &[1, 0, 0, 0, 0, 0, 0, 0]);
        let (event, seen) = client.see(&copy, 0);
        event.wait().unwrap();
        assert!(
            *seen.lock().unwrap() == in_use(&[7; 4096], used, 0),
            "{used}"
        );
        // For others, all of it is there.
        data.set_content_size(None).unwrap();
        let from = access(&data, 0, AccessMode::Read);
        let to = access(&copy, 0, AccessMode::Overwrite);
        client.queue.copy(from, to, 4096, &[], &[]).unwrap();
        let (event, seen) = client.see(&copy, 0);
        event.wait().unwrap();
        assert!(*seen.lock().unwrap() == [7; 4096], "{used}");
    }
}

#[test]
fn how_much_is_in_use_costs_no_way_there_and_back() {
    let _watchdog = watchdog("a read while the node is not heard");
    const LENGTH: usize = 1 << 20;
    const USED: u64 = 300_000;
    for number in 0..2 {
        let mut rig = rig();
        let relay = Relay::to(&rig.address, 1);
        rig.address = relay.address.clone();
        let client = Client::of(&rig.devices()[number]);
        let data = client.memory(&pattern(LENGTH));
        let size = client.memory(&0_u64.to_le_bytes());
        data.set_content_size(Some(size.clone())).unwrap();
        let status = rig.node.status();
        let before = status().bulk_bytes;
        relay.hold(Held::Answers);
        // Nobody here knows when these are over.
        let mut used = USED.to_le_bytes();
        // SAFETY: kept until the read is over, which comes after it.
        let from = unsafe { HostMemory::new(used.as_mut_ptr(), used.len(), None) };
        let to = access(&size, 0, AccessMode::Overwrite);
        client.queue.write(from, to, 8, &[], &[]).unwrap();
        let (event, seen) = client.see(&data, 0);
        std::thread::scope(|scope| {
            scope.spawn(|| event.wait().unwrap());
            while status().bulk_bytes < before + USED {
                std::thread::yield_now();
            }
            assert!(!event.is_complete());
            relay.hold(Held::Nothing);
        });
        assert!(*seen.lock().unwrap() == in_use(&pattern(LENGTH), USED, 0));
        assert_eq!(
            status().bulk_bytes,
            before + USED,
            "no more than that was sent"
        );
    }
}

#[test]
fn reads_of_what_is_in_use_outlive_connections() {
    let _watchdog = watchdog("reads of what is in use over connections that are cut");
    let mut rig = rig();
    let relay = Relay::to(&rig.address, 2);
    rig.address = relay.address.clone();
    let clients: Vec<Client> = rig.devices().iter().map(Client::of).collect();
    relay.set(Way::Cutting(10, 19));
    for round in 0..40 {
        let client = &clients[round % clients.len()];
        let length = if round % 3 == 0 { 200 } else { 300_000 };
        let used = (round * 7919 % (length + 10)) as u64;
        let bytes = pattern(length);
        let data = client.memory(&bytes);
        let size = client.memory(&used.to_le_bytes());
        data.set_content_size(Some(size)).unwrap();
        let (event, seen) = client.see(&data, 0);
        event.wait().unwrap();
        assert!(*seen.lock().unwrap() == in_use(&bytes, used, 0), "{round}");
    }
    assert!(relay.cuts() > 0);
}
