//! Random graphs over a node that is lost while they run.

use quipu_conformance::folding;
use quipu_core::operation::HostMemory;
use quipu_core::{
    Access, AccessMode, Context, Device, Error, ErrorKind, Event, MemoryRef, Queue, QueueOptions,
    Request,
};
use std::sync::Barrier;

const OUT_OF_ORDER: QueueOptions = QueueOptions {
    in_order: false,
    blocking: false,
    profiling: false,
    priority: quipu_core::Priority::Normal,
    completion: quipu_core::Completion::Callback,
};

/// Numbers that look random.
pub(crate) struct Random(pub(crate) u64);

impl Random {
    pub(crate) fn below(&mut self, end: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((z ^ (z >> 31)) % end as u64) as usize
    }
}

/// Bytes for transfers, kept until they are looked at.
pub(crate) struct Host(pub(crate) Box<[u8]>);

impl Host {
    pub(crate) fn memory(&mut self) -> HostMemory {
        // SAFETY: kept, and not looked at, until all commands are over, by who made it.
        unsafe { HostMemory::new(self.0.as_mut_ptr(), self.0.len(), None) }
    }
}

pub(crate) fn access(memory: &MemoryRef, mode: AccessMode) -> Access<'_> {
    Access {
        memory,
        offset: 0,
        length: memory.size(),
        mode,
    }
}

/// True if an error says, itself or as its cause, that the node is lost.
pub(crate) fn names_the_node(error: &Error) -> bool {
    match error.first_cause().kind() {
        ErrorKind::DeviceLost { device, reason } => {
            device.ends_with(" on node") && reason.contains("node 'node'")
        }
        _ => false,
    }
}

/// Runs a random graph over a node's devices and one here, while at a random moment something has the node lost: what fails says
/// so, and what has nothing to do with it is as it would be without.
pub(crate) fn graph(node: Vec<Device>, local: &Device, seed: u64, lose: impl FnOnce() + Send) {
    let mut random = Random(seed);
    let mut devices = node;
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
            lose();
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
            assert!(names_the_node(&error), "seed {seed}: {error}");
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
