//! Recorded graphs that a vendor's library takes whole: a launch of one is a command as any.

use crate::library::faults::{Fault, Faults};
use crate::library::{CAPACITY, Recorded, Refusal, stage};
use quipu_conformance::folding;
use quipu_scheduler::error::ErrorKind;
use quipu_scheduler::graph::NodeRequest;
use quipu_scheduler::operation::HostMemory;
use quipu_scheduler::{
    Access, AccessMode, Context, Device, Event, Graph, MemoryRef, Queue, QueueOptions, Recording,
    Result, UserEvent,
};
use std::sync::Arc;

struct Rig {
    devices: Vec<Device>,
    context: Context,
    faults: Arc<Faults>,
    queue: Queue,
}

/// Over both kinds of library.
fn each(test: impl Fn(&Rig)) {
    for (seed, ordered) in [(1, false), (2, true)] {
        let (devices, context, faults) = stage(ordered, seed);
        let queue = context.queue(&devices[0], QueueOptions::default()).unwrap();
        let rig = Rig {
            devices,
            context,
            faults,
            queue,
        };
        test(&rig);
        rig.queue.wait().unwrap();
        assert_eq!(rig.faults.violations(), [""; 0]);
    }
}

impl Rig {
    fn memory(&self, size: u64) -> MemoryRef {
        self.context.memory(size).unwrap()
    }

    /// Folds these numbers into a memory object, one after the other.
    fn folds(&self, memory: &MemoryRef, numbers: impl IntoIterator<Item = u64>) -> Graph {
        let recording = Recording::new(&self.context);
        for number in numbers {
            fold(&recording, &self.queue, memory, number);
        }
        recording.finish().unwrap()
    }

    fn launch(&self, graph: &Graph) -> Event {
        self.queue.launch_graph(graph, &[], None).unwrap()
    }

    fn fill(&self, memory: &MemoryRef, byte: u8) -> Event {
        let access = Access::whole(memory, AccessMode::Overwrite);
        self.queue.fill(access, &[byte], &[]).unwrap()
    }

    fn read(&self, memory: &MemoryRef) -> Result<u64> {
        let mut bytes = [0xee_u8; 8];
        // SAFETY: the bytes are there until the read is over, and nobody else looks.
        let host = unsafe { HostMemory::new(bytes.as_mut_ptr(), bytes.len(), None) };
        let access = Access::whole(memory, AccessMode::Read);
        self.queue.read(access, host, 8, &[], &[])?.wait()?;
        Ok(u64::from_le_bytes(bytes))
    }
}

fn fold(recording: &Recording, queue: &Queue, memory: &MemoryRef, number: u64) {
    let label = format!("fold {number}");
    let request = NodeRequest {
        accesses: &[Access::whole(memory, AccessMode::ReadWrite)],
        label: Some(&label),
        ..NodeRequest::default()
    };
    recording
        .launch(queue, folding(number), 1, &request)
        .unwrap();
}

fn folded(start: u64, numbers: impl IntoIterator<Item = u64>) -> u64 {
    let numbers = numbers.into_iter();
    numbers.fold(start, |x, n| x.wrapping_mul(31).wrapping_add(n))
}

#[test]
fn launches_are_ordered_as_any_command() {
    each(|rig| {
        let memory = rig.memory(8);
        let graph = rig.folds(&memory, 0..5);
        assert!(graph.is_taken());
        rig.faults.hold(true);
        rig.fill(&memory, 1);
        let first = rig.launch(&graph);
        let second = rig.launch(&graph);
        rig.queue.flush();
        assert!(!first.is_complete());
        rig.faults.hold(false);
        let expected = folded(0x0101_0101_0101_0101, (0..2).flat_map(|_| 0..5));
        assert_eq!(rig.read(&memory).unwrap(), expected);
        first.wait().unwrap();
        second.wait().unwrap();
        assert_eq!(Recorded::times_made(&graph), 1);
    });
}

#[test]
fn a_launch_from_another_devices_queue_uses_the_graphs_memory() {
    each(|rig| {
        let memory = rig.memory(8);
        let graph = rig.folds(&memory, 0..5);
        let options = QueueOptions::default();
        let other = rig.context.queue(&rig.devices[1], options).unwrap();
        rig.fill(&memory, 0);
        other.launch_graph(&graph, &[], None).unwrap();
        rig.launch(&graph);
        let expected = folded(0, (0..2).flat_map(|_| 0..5));
        assert_eq!(rig.read(&memory).unwrap(), expected);
        assert_eq!(Recorded::times_made(&graph), 1);
    });
}

#[test]
fn a_kernel_that_fails_is_named_and_voids_what_the_graph_writes() {
    each(|rig| {
        let (memory, short) = (rig.memory(8), rig.memory(4));
        let recording = Recording::new(&rig.context);
        fold(&recording, &rig.queue, &memory, 1);
        fold(&recording, &rig.queue, &short, 2);
        fold(&recording, &rig.queue, &short, 3);
        let graph = recording.finish().unwrap();
        assert!(graph.is_taken());
        let error = rig.launch(&graph).wait().unwrap_err();
        assert!(error.to_string().contains("fold 2"), "{error}");
        let error = rig.read(&memory).unwrap_err();
        assert!(error.to_string().contains("fold 2"), "{error}");
        rig.fill(&memory, 0);
        assert_eq!(rig.read(&memory).unwrap(), 0);
    });
}

#[test]
fn a_launch_that_is_refused_or_broken_fails_once() {
    each(|rig| {
        let memory = rig.memory(8);
        let graph = rig.folds(&memory, 0..3);
        for fault in [Fault::Put, Fault::Run] {
            for skip in 0..2 {
                rig.fill(&memory, 0).wait().unwrap();
                let refusal = if fault == Fault::Put {
                    Refusal::Busy
                } else {
                    Refusal::Broken
                };
                rig.faults.plan(fault, skip, 1, refusal);
                let failed = rig.launch(&graph);
                let error = failed.wait().unwrap_err();
                assert!(matches!(error.kind(), ErrorKind::Device { .. }), "{error}");
                rig.faults.end();
                rig.read(&memory).unwrap_err();
                rig.fill(&memory, 0);
                rig.launch(&graph);
                assert_eq!(rig.read(&memory).unwrap(), folded(0, 0..3));
            }
        }
    });
}

#[test]
fn a_launch_is_cancelled_before_it_starts_and_not_after() {
    each(|rig| {
        let memory = rig.memory(8);
        let graph = rig.folds(&memory, 0..3);
        rig.fill(&memory, 0).wait().unwrap();
        let gate = UserEvent::new();
        let held = rig.queue.launch_graph(&graph, &[gate.event()], None);
        let held = held.unwrap();
        held.cancel();
        gate.complete();
        assert!(held.wait().unwrap_err().is_cancelled());
        rig.fill(&memory, 0);
        let ran = rig.launch(&graph);
        ran.wait().unwrap();
        ran.cancel();
        ran.wait().unwrap();
        assert_eq!(rig.read(&memory).unwrap(), folded(0, 0..3));
    });
}

#[test]
fn code_that_cannot_be_compiled_fails_the_launch_and_is_tried_again() {
    each(|rig| {
        let memory = rig.memory(8);
        let graph = rig.folds(&memory, 0..3);
        rig.faults.plan(Fault::Compile, 0, 1, Refusal::Busy);
        let error = rig.launch(&graph).wait().unwrap_err();
        assert!(error.to_string().contains("compile"), "{error}");
        rig.fill(&memory, 0);
        rig.launch(&graph);
        assert_eq!(rig.read(&memory).unwrap(), folded(0, 0..3));
    });
}

#[test]
fn a_graph_is_made_anew_when_its_memory_has_moved() {
    each(|rig| {
        let memory = rig.memory(CAPACITY / 4);
        let graph = rig.folds(&memory, 0..3);
        rig.fill(&memory, 0);
        rig.launch(&graph);
        assert_eq!(rig.read(&memory).unwrap(), folded(0, 0..3));
        assert_eq!(Recorded::times_made(&graph), 1);
        // So much else that all of the device's memory is needed for it.
        let other = rig.memory(CAPACITY);
        rig.fill(&other, 1).wait().unwrap();
        drop(other);
        rig.launch(&graph);
        let expected = folded(0, (0..2).flat_map(|_| 0..3));
        assert_eq!(rig.read(&memory).unwrap(), expected);
        assert_eq!(Recorded::times_made(&graph), 2);
    });
}

#[test]
fn graphs_that_a_device_cannot_be_given_whole_are_played() {
    each(|rig| {
        let memory = rig.memory(8);
        let mut host = 7_u64.to_le_bytes();
        // SAFETY: the bytes outlive the graph.
        let bytes = unsafe { HostMemory::new(host.as_mut_ptr(), host.len(), None) };
        let recording = Recording::new(&rig.context);
        let access = Access::whole(&memory, AccessMode::Overwrite);
        // SAFETY: as above, and they do not change.
        unsafe { recording.write(&rig.queue, bytes, access, 8, &[], &[]) }.unwrap();
        fold(&recording, &rig.queue, &memory, 1);
        let with_host = recording.finish().unwrap();

        let options = QueueOptions::default();
        let other = rig.context.queue(&rig.devices[1], options).unwrap();
        let recording = Recording::new(&rig.context);
        fold(&recording, &rig.queue, &memory, 2);
        fold(&recording, &other, &memory, 3);
        let on_both = recording.finish().unwrap();

        let timed = QueueOptions {
            profiling: true,
            ..options
        };
        let timed = rig.context.queue(&rig.devices[0], timed).unwrap();
        let recording = Recording::new(&rig.context);
        fold(&recording, &timed, &memory, 4);
        let with_times = recording.finish().unwrap();

        for graph in [&with_host, &on_both, &with_times] {
            assert!(!graph.is_taken());
            rig.launch(graph);
        }
        assert_eq!(rig.read(&memory).unwrap(), folded(7, 1..5));
        assert_eq!(with_times.profiles().len(), 1);
    });
}
