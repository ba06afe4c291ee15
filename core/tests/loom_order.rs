//! Models of the order in which commands wait for each other: no two threads that enqueue close a
//! cycle. Of the file that production runs (`core/src/queue/gate.rs`), as in `loom.rs`.
//!
//! `RUSTFLAGS="--cfg loom" cargo test -p quipu-scheduler --test loom_order --release`
//!
//! The other steps of an enqueue are written down here: see [`enqueue`] and the proof in
//! `core/src/queue/enqueue/mod.rs`.
//!
//! Each of these changes was made, to the file or to the steps here, and made the model named fail:
//!
//! | change | fails |
//! |---|---|
//! | a command takes its number before it locks its trackers | `a_barrier_with_accesses_and_a_command`, `barriers_of_two_queues` |
//! | a barrier takes its number before it locks its trackers | the same |
//! | `close` publishes the id after it has taken the number | `a_command_sees_every_barrier_before_it` |
//! | a barrier unlocks the history before its number is there | `a_command_sees_every_barrier_before_it` |
//! | `before` does not look in the history | `a_command_sees_every_barrier_before_it` |
#![cfg(loom)]
#![allow(
    missing_docs,
    unreachable_pub,
    dead_code,
    reason = "the file is a module of another crate here"
)]

/// The file knows this as its crate's atomics and locks.
mod sync {
    pub use loom::sync::atomic::{AtomicU64, Ordering};
    pub use loom::sync::{Mutex, MutexGuard};
}

#[path = "../src/queue/gate.rs"]
mod gate;

use gate::Gate;
use loom::sync::{Arc, Mutex, MutexGuard};
use loom::thread;
use std::collections::{BTreeMap, BTreeSet};
use sync::{AtomicU64, Ordering};

/// A queue: its counter and its gate.
struct Queue {
    next: AtomicU64,
    gate: Gate,
}

impl Queue {
    fn new() -> Self {
        Self {
            next: AtomicU64::new(0),
            gate: Gate::new(),
        }
    }
}

/// The command that wrote last, as a tracker knows it.
type Tracker = Mutex<Option<u64>>;

/// The waits of a command.
#[derive(Default)]
struct Waits {
    /// The queue and the number below which it waits for all.
    prefix: Option<(usize, u64)>,
    events: BTreeSet<u64>,
}

/// A command that has been enqueued.
struct Enqueued {
    id: u64,
    queue: usize,
    sequence: u64,
    barrier: bool,
    waits: Waits,
}

struct World {
    queues: Vec<Queue>,
    trackers: Vec<Tracker>,
}

impl World {
    fn new(queues: usize, trackers: usize) -> Arc<Self> {
        Arc::new(Self {
            queues: (0..queues).map(|_| Queue::new()).collect(),
            trackers: (0..trackers).map(|_| Mutex::new(None)).collect(),
        })
    }

    /// The steps of an enqueue: of a command, or of one of unknown access, that writes `memory` if
    /// there is one.
    fn enqueue(&self, id: u64, queue: usize, barrier: bool, memory: Option<usize>) -> Enqueued {
        let mut waits = Waits::default();
        let mut locked: Option<MutexGuard<'_, Option<u64>>> =
            memory.map(|memory| self.trackers[memory].lock().unwrap());
        let of = &self.queues[queue];
        // A number that was taken earlier comes before: so is the counter's owner, or its locked
        // instruction.
        let take_number = || of.next.fetch_add(1, Ordering::AcqRel);
        let sequence = if barrier {
            let (sequence, previous) = of.gate.close(id, true, take_number, |_| false);
            waits.events.extend(previous.map(|previous| previous.id));
            waits.prefix = Some((queue, sequence));
            sequence
        } else {
            let sequence = take_number();
            if of.gate.is_closed() {
                waits.events.extend(of.gate.before(sequence));
            }
            sequence
        };
        if let Some(writer) = &mut locked {
            waits.events.extend(writer.replace(id));
        }
        Enqueued {
            id,
            queue,
            sequence,
            barrier,
            waits,
        }
    }
}

/// All edges of these commands.
fn edges(commands: &[Enqueued]) -> BTreeMap<u64, BTreeSet<u64>> {
    let of = |command: &Enqueued| {
        let mut events = command.waits.events.clone();
        if let Some((queue, end)) = command.waits.prefix {
            let before = commands.iter();
            let before = before.filter(|other| other.queue == queue && other.sequence < end);
            events.extend(before.map(|other| other.id));
        }
        (command.id, events)
    };
    commands.iter().map(of).collect()
}

/// Takes out commands that wait for none of the rest; the remaining ones are a cycle.
fn assert_no_cycle(commands: &[Enqueued]) {
    let mut left = edges(commands);
    while !left.is_empty() {
        let free = left
            .iter()
            .find(|(_, waits)| waits.iter().all(|id| !left.contains_key(id)))
            .map(|(id, _)| *id);
        let free = free.unwrap_or_else(|| panic!("a cycle: {left:?}"));
        left.remove(&free);
    }
}

/// Every command after a barrier of its queue waits for it, directly or through later barriers.
fn assert_gated(commands: &[Enqueued]) {
    let edges = edges(commands);
    let reaches = |from: u64, to: u64| {
        let (mut seen, mut next) = (BTreeSet::new(), vec![from]);
        while let Some(id) = next.pop() {
            if seen.insert(id) {
                next.extend(edges.get(&id).into_iter().flatten());
            }
        }
        seen.contains(&to)
    };
    for barrier in commands.iter().filter(|command| command.barrier) {
        let after = commands.iter();
        let after = after.filter(|c| c.queue == barrier.queue && c.sequence > barrier.sequence);
        for command in after {
            assert!(
                reaches(command.id, barrier.id),
                "command {} passes barrier {}",
                command.id,
                barrier.id
            );
        }
    }
}

/// The commands that a thread enqueues, one after the other: queue, a flag for a barrier, memory.
type Program = Vec<(usize, bool, Option<usize>)>;

fn model(queues: usize, trackers: usize, programs: &[Program]) {
    let programs = programs.to_vec();
    loom::model(move || {
        let world = World::new(queues, trackers);
        let threads: Vec<_> = programs
            .iter()
            .enumerate()
            .map(|(number, program)| {
                let (world, program) = (world.clone(), program.clone());
                thread::spawn(move || {
                    let enqueue = |(index, (queue, barrier, memory))| {
                        let id = (number * 10 + index + 1) as u64;
                        world.enqueue(id, queue, barrier, memory)
                    };
                    program
                        .into_iter()
                        .enumerate()
                        .map(enqueue)
                        .collect::<Vec<_>>()
                })
            })
            .collect();
        let commands: Vec<_> = threads
            .into_iter()
            .flat_map(|thread| thread.join().unwrap())
            .collect();
        assert_no_cycle(&commands);
        assert_gated(&commands);
    });
}

#[test]
fn a_barrier_with_accesses_and_a_command() {
    model(1, 1, &[vec![(0, false, Some(0))], vec![(0, true, Some(0))]]);
}

#[test]
fn barriers_of_two_queues() {
    model(
        2,
        1,
        &[
            vec![(0, true, None), (1, false, Some(0))],
            vec![(1, true, Some(0)), (0, false, None)],
        ],
    );
}

#[test]
fn a_command_sees_every_barrier_before_it() {
    model(
        1,
        0,
        &[
            vec![(0, false, None)],
            vec![(0, true, None), (0, true, None)],
        ],
    );
}
