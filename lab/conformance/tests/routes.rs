//! The ways that bytes take from one memory to another: straight where a driver has a route, else
//! through the host, and never twice.
#![allow(clippy::unwrap_used, reason = "helpers assert by unwrapping")]

use quipu_conformance::island::IslandDriver;
use quipu_scheduler::driver::Notification;
use quipu_scheduler::error::Result;
use quipu_scheduler::operation::{HostMemory, Operation};
use quipu_scheduler::{
    Access, AccessMode, Context, Device, DeviceProperties, Driver, MemoryRef, Queue, QueueOptions,
    SpaceId,
};
use std::sync::{Arc, Mutex};

const HOST: SpaceId = SpaceId::HOST;

/// Bytes of the buffers.
const BYTES: u64 = 64;

/// A migration: from where, to where, in whose memory the device works that has done it, and how
/// many bytes.
type Moved = (SpaceId, SpaceId, SpaceId, u64);

/// Islands that have the routes that a test gives them, and keep what they are told to move.
struct Mapped {
    islands: Arc<IslandDriver>,
    routes: Mutex<Vec<(SpaceId, SpaceId)>>,
    moved: Mutex<Vec<Moved>>,
}

// SAFETY: a command's code and memory are used while it is here, with the arguments resolved for
// it.
unsafe impl Driver for Mapped {
    fn name(&self) -> &'static str {
        "mapped"
    }

    fn devices(&self) -> Vec<DeviceProperties> {
        self.islands.devices()
    }

    fn notify(&self, notification: Notification) {
        if let Notification::Ready(command) = &notification
            && let Operation::Migrate(migration) = command.operation()
        {
            let by = command.queue().device().map_or(HOST, Device::space);
            let bytes = command.arguments()[0].length();
            let moved = (migration.from, migration.to, by, bytes);
            self.moved.lock().unwrap().push(moved);
        }
        self.islands.notify(notification);
    }

    fn allocate(&self, key: u32, size: u64) -> Result<u64> {
        self.islands.allocate(key, size)
    }

    unsafe fn free(&self, key: u32, address: u64, size: u64) {
        // SAFETY: the caller makes sure of what `Driver::free` asks for, which is the same.
        unsafe { self.islands.free(key, address, size) };
    }

    fn has_route(&self, from: SpaceId, to: SpaceId) -> bool {
        self.routes.lock().unwrap().contains(&(from, to))
    }
}

/// Two drivers of two islands each, in one context; with a queue on each island.
struct Rig {
    drivers: [Arc<Mapped>; 2],
    context: Context,
    queues: Vec<Queue>,
    /// The islands' memories: two of the first driver, two of the second.
    spaces: [SpaceId; 4],
}

impl Rig {
    fn new() -> Self {
        let drivers = [(); 2].map(|()| {
            Arc::new(Mapped {
                islands: IslandDriver::start(2),
                routes: Mutex::default(),
                moved: Mutex::default(),
            })
        });
        let mut devices = Vec::new();
        for driver in &drivers {
            let driver: Arc<dyn Driver> = driver.clone();
            devices.extend(Device::all_of(&driver).unwrap());
        }
        let context = Context::new(&devices).unwrap();
        let queue = |device| context.queue(device, QueueOptions::default()).unwrap();
        Self {
            queues: devices.iter().map(queue).collect(),
            spaces: [0, 1, 2, 3].map(|island| devices[island].space()),
            drivers,
            context,
        }
    }

    /// Says that a driver has a route.
    fn open(&self, driver: usize, from: SpaceId, to: SpaceId) {
        let mut routes = self.drivers[driver].routes.lock().unwrap();
        routes.push((from, to));
    }

    fn memory(&self) -> MemoryRef {
        self.context.memory(BYTES).unwrap()
    }

    /// Has an island write a part of a buffer.
    fn fill(&self, island: usize, memory: &MemoryRef, part: std::ops::Range<u64>, with: u8) {
        let to = Access {
            memory,
            offset: part.start,
            length: part.end - part.start,
            mode: AccessMode::Overwrite,
        };
        let filled = self.queues[island].fill(to, &[with], &[]);
        filled.unwrap().wait().unwrap();
    }

    /// The contents of a buffer on an island, and the bytes moved for it, of either driver.
    fn look(&self, island: usize, memory: &MemoryRef) -> (Vec<u8>, Vec<Moved>) {
        let from = Access {
            memory,
            offset: 0,
            length: BYTES,
            mode: AccessMode::Read,
        };
        let mut bytes = vec![0xff; BYTES as usize];
        // SAFETY: the wait below ends before the vector does, and nobody touches it meanwhile.
        let to = unsafe { HostMemory::new(bytes.as_mut_ptr(), bytes.len(), None) };
        let read = self.queues[island].read(from, to, BYTES, &[], &[]);
        read.unwrap().wait().unwrap();
        let moved = self.drivers.iter().flat_map(|driver| {
            let mut moved = driver.moved.lock().unwrap();
            std::mem::take(&mut *moved)
        });
        (bytes, moved.collect())
    }
}

#[test]
fn bytes_go_straight_where_a_driver_has_a_route_and_once() {
    let rig = Rig::new();
    let [a, b, ..] = rig.spaces;
    rig.open(0, a, b);
    let memory = rig.memory();
    rig.fill(0, &memory, 0..BYTES, 5);
    assert_eq!(rig.look(1, &memory), (vec![5; 64], vec![(a, b, a, BYTES)]));
    // The host never had them.
    assert!(!memory.allocated_in().contains(&HOST));
    // Both have a copy now.
    for island in [0, 1] {
        assert_eq!(rig.look(island, &memory), (vec![5; 64], vec![]));
    }
    // A route has one direction.
    rig.fill(1, &memory, 0..BYTES, 6);
    let back = vec![(b, HOST, b, BYTES), (HOST, a, a, BYTES)];
    assert_eq!(rig.look(0, &memory), (vec![6; 64], back));
}

#[test]
fn bytes_go_through_the_host_where_there_is_no_route_and_from_there_the_next_time() {
    let rig = Rig::new();
    let [a, b, c, _] = rig.spaces;
    let memory = rig.memory();
    rig.fill(0, &memory, 0..BYTES, 5);
    let both = vec![(a, HOST, a, BYTES), (HOST, b, b, BYTES)];
    assert_eq!(rig.look(1, &memory), (vec![5; 64], both));
    // To a memory of another driver's, too: what the host has is not fetched again.
    let one = vec![(HOST, c, c, BYTES)];
    assert_eq!(rig.look(2, &memory), (vec![5; 64], one));
    // Until somebody writes.
    rig.fill(1, &memory, 0..BYTES, 6);
    let both = vec![(b, HOST, b, BYTES), (HOST, c, c, BYTES)];
    assert_eq!(rig.look(2, &memory), (vec![6; 64], both));
}

#[test]
fn the_host_is_left_out_by_a_route_although_it_has_a_copy() {
    let rig = Rig::new();
    let [a, b, c, _] = rig.spaces;
    rig.open(0, a, b);
    let memory = rig.memory();
    rig.fill(0, &memory, 0..BYTES, 5);
    let first = vec![(a, HOST, a, BYTES), (HOST, c, c, BYTES)];
    assert_eq!(rig.look(2, &memory), (vec![5; 64], first));
    assert_eq!(rig.look(1, &memory), (vec![5; 64], vec![(a, b, a, BYTES)]));
}

#[test]
fn whoever_of_the_two_drivers_has_the_route_goes_it() {
    let rig = Rig::new();
    let [a, _, c, d] = rig.spaces;
    let memory = rig.memory();
    // The one that the bytes come from.
    rig.open(0, a, c);
    rig.fill(0, &memory, 0..BYTES, 5);
    assert_eq!(rig.look(2, &memory), (vec![5; 64], vec![(a, c, a, BYTES)]));
    // The one that they go to.
    rig.open(1, a, d);
    rig.fill(0, &memory, 0..BYTES, 6);
    assert_eq!(rig.look(3, &memory), (vec![6; 64], vec![(a, d, d, BYTES)]));
}

#[test]
fn each_part_of_a_buffer_takes_its_own_way_and_what_is_there_stays() {
    let rig = Rig::new();
    let [a, b, c, d] = rig.spaces;
    rig.open(0, a, b);
    let memory = rig.memory();
    rig.fill(0, &memory, 0..16, 5);
    rig.fill(1, &memory, 16..24, 6);
    rig.fill(2, &memory, 24..40, 7);
    // The last third was never written: it is zero wherever somebody looks.
    let mut bytes = [[5; 16], [7; 16], [0; 16], [0; 16]].concat();
    bytes[16..24].fill(6);
    bytes[24..40].fill(7);
    let (found, mut moved) = rig.look(1, &memory);
    moved.sort_unstable();
    let mut expected = vec![(a, b, a, 16), (c, HOST, c, 16), (HOST, b, b, 16)];
    expected.sort_unstable();
    assert_eq!((found, moved), (bytes.clone(), expected));
    // By now the host has what the third wrote, and of the others' parts nothing.
    let (found, mut moved) = rig.look(3, &memory);
    moved.sort_unstable();
    let mut expected = vec![
        (a, HOST, a, 16),
        (b, HOST, b, 8),
        (HOST, d, d, 16),
        (HOST, d, d, 8),
        (HOST, d, d, 16),
    ];
    expected.sort_unstable();
    assert_eq!((found, moved), (bytes, expected));
}
