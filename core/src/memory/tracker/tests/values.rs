//! Random commands on ranges and rows in several spaces, some of which fail, as do some migrations:
//! what is read is what was written last, and bytes are lost only with who should have written
//! them.

use super::{Waits, lost, random, random_rows};
use crate::access::AccessMode;
use crate::command::EventId;
use crate::error::Error;
use crate::event::UserEvent;
use crate::memory::space_id::SpaceId;
use crate::memory::tracker::{Recorder, Tracker};
use crate::region::Region;
use std::ops::Range;

const SIZE: u64 = 24;
const SPACES: [SpaceId; 3] = [SpaceId::HOST, SpaceId(1), SpaceId(2)];
/// In memory that nothing was brought to.
const NOTHING: u32 = u32::MAX;

enum Work {
    /// Of these bytes, in this space. With the last writers of what it reads.
    Use {
        region: Region,
        mode: AccessMode,
        space: usize,
        writers: Vec<(u64, Option<usize>)>,
    },
    Migration {
        range: Range<u64>,
        from: usize,
        to: usize,
    },
    /// One for many readers.
    Marker,
}

struct Node {
    id: EventId,
    gate: Option<UserEvent>,
    work: Work,
    /// Its waits; it may fail with them.
    waits: Waits,
    /// It fails whatever it waits for.
    fails: bool,
    /// True if it ended well, once it has ended.
    ended: Option<bool>,
}

/// Failures of writers poison what they should have written, or stay with their events.
struct World {
    stays: bool,
    tracker: Tracker,
    nodes: Vec<Node>,
    memory: [Vec<u32>; 3],
    writers: Vec<Option<usize>>,
}

struct Listing<'a> {
    stays: bool,
    nodes: &'a mut Vec<Node>,
    at: usize,
    recording: EventId,
}

fn node(nodes: &mut Vec<Node>, work: Work, fails: bool) -> usize {
    let gate = UserEvent::new();
    nodes.push(Node {
        id: gate.event().id(),
        gate: Some(gate),
        work,
        waits: Vec::new(),
        fails,
        ended: None,
    });
    nodes.len() - 1
}

impl Recorder for Listing<'_> {
    fn wait(&mut self, event: EventId, propagate: bool) {
        let known = self.nodes.iter().position(|node| node.id == event);
        let waits = (known.unwrap(), propagate);
        self.nodes[self.at].waits.push(waits);
    }
    fn wait_for_writer(&mut self, event: EventId) {
        self.wait(event, !self.stays);
    }
    fn poisoned(&mut self, _: &Error) {
        self.nodes[self.at].fails = true;
    }
    fn recording(&self) -> EventId {
        self.recording
    }
    fn discard(&mut self, _: Error) {}
    fn join(&mut self, events: &[EventId]) -> EventId {
        let marker = node(self.nodes, Work::Marker, false);
        let mut listing = Listing {
            at: marker,
            nodes: self.nodes,
            ..*self
        };
        events.iter().for_each(|event| listing.wait(*event, false));
        self.nodes[marker].id
    }
}

fn bytes_of(region: &Region) -> impl Iterator<Item = u64> {
    region
        .range()
        .filter(|byte| region.meets(&Region::of(*byte..byte + 1)))
}

impl World {
    fn new(stays: bool) -> Self {
        Self {
            stays,
            tracker: Tracker::new(SIZE),
            nodes: Vec::new(),
            memory: std::array::from_fn(|_| vec![0; SIZE as usize]),
            writers: vec![None; SIZE as usize],
        }
    }

    /// As an enqueue does it. Gives the number of the command, and whether a migration for it
    /// fails.
    fn enqueue(
        &mut self,
        region: &Region,
        mode: AccessMode,
        space: usize,
        fails: [bool; 2],
    ) -> (usize, bool) {
        // What overwrites rows with gaps overwrites these, too.
        let region = match mode {
            AccessMode::Overwrite => Region::of(region.range()),
            _ => region.clone(),
        };
        let writers = bytes_of(&region).map(|byte| (byte, self.writers[byte as usize]));
        let work = Work::Use {
            writers: writers.collect(),
            region: region.clone(),
            mode,
            space,
        };
        let command = node(&mut self.nodes, work, fails[0]);
        let recording = self.nodes[command].id;
        let missing = match mode.reads() {
            true => self.tracker.missing(&region.range(), SPACES[space], None),
            false => Vec::new(),
        };
        let is_any_missing = !missing.is_empty();
        for missing in missing {
            let from = SPACES.iter().position(|space| *space == missing.from);
            let work = Work::Migration {
                range: missing.range.clone(),
                from: from.unwrap(),
                to: space,
            };
            let migration = node(&mut self.nodes, work, fails[1]);
            let id = self.nodes[migration].id;
            let recorder = &mut Listing {
                stays: self.stays,
                nodes: &mut self.nodes,
                at: migration,
                recording,
            };
            let (range, to) = (&missing.range, SPACES[space]);
            self.tracker
                .migrate(range, missing.from, to, None, id, recorder);
        }
        let recorder = &mut Listing {
            stays: self.stays,
            nodes: &mut self.nodes,
            at: command,
            recording,
        };
        self.tracker
            .record_rows(&region, mode, SPACES[space], recording, recorder);
        if mode.writes() {
            bytes_of(&region).for_each(|byte| self.writers[byte as usize] = Some(command));
        }
        (command, is_any_missing && fails[1])
    }

    fn is_ready(&self, number: usize) -> bool {
        let node = &self.nodes[number];
        let mut waits = node.waits.iter();
        node.ended.is_none() && waits.all(|(wait, _)| self.nodes[*wait].ended.is_some())
    }

    /// Runs one that is ready.
    fn run(&mut self, number: usize) {
        let node = &self.nodes[number];
        let mut waits = node.waits.iter();
        let ok = !node.fails
            && waits.all(|(wait, fails)| !fails || self.nodes[*wait].ended == Some(true));
        let id = node.id;
        match &node.work {
            Work::Marker => {}
            Work::Migration { range, from, to } => {
                let bytes = range.start as usize..range.end as usize;
                if ok {
                    let brought = self.memory[*from][bytes.clone()].to_vec();
                    self.memory[*to][bytes].copy_from_slice(&brought);
                } else {
                    self.memory[*to][bytes].fill(NOTHING);
                    let failed = self.tracker.not_brought(range, id, !self.stays, &lost());
                    drop(failed);
                }
            }
            Work::Use {
                region,
                mode,
                space,
                writers,
            } => {
                if ok && mode.reads() {
                    for (byte, writer) in writers {
                        let has_written =
                            writer.is_none_or(|writer| self.nodes[writer].ended == Some(true));
                        assert!(has_written || self.stays, "{number} reads byte {byte}");
                        let written = writer.map_or(0, |writer| writer as u32 + 1);
                        let read = self.memory[*space][*byte as usize];
                        assert!(
                            read == written || !has_written,
                            "{number} reads {read} in byte {byte}, and {written} was written last"
                        );
                    }
                }
                if ok && mode.writes() {
                    let bytes: Vec<u64> = bytes_of(region).collect();
                    let value = number as u32 + 1;
                    let memory = &mut self.memory[*space];
                    bytes.iter().for_each(|byte| memory[*byte as usize] = value);
                } else if !ok && mode.writes() {
                    if self.stays {
                        self.tracker.forget_copies_of(&region.range(), id);
                    } else {
                        drop(self.tracker.poison(&region.range(), id, &lost()));
                    }
                }
            }
        }
        let node = &mut self.nodes[number];
        node.ended = Some(ok);
        node.gate.take().unwrap().complete();
    }

    fn run_until(&mut self, pending: usize, state: &mut u64) {
        loop {
            let numbers = 0..self.nodes.len();
            let left = numbers.clone().filter(|at| self.nodes[*at].ended.is_none());
            if left.count() <= pending {
                return;
            }
            let ready: Vec<usize> = numbers.filter(|at| self.is_ready(*at)).collect();
            assert!(!ready.is_empty(), "they wait for each other");
            self.run(ready[random(state, ready.len() as u64) as usize]);
        }
    }
}

/// With so many commands that are not over at a time.
fn check(stays: bool, pending: usize, seed: u64) {
    let state = &mut (seed * 7919 + 1);
    let mut world = World::new(stays);
    for _ in 0..60 {
        let (a, b) = (random(state, SIZE), random(state, SIZE));
        let region = match random(state, 3) {
            0 => Region::of(a.min(b)..a.max(b) + 1),
            _ => random_rows(state, SIZE),
        };
        let mode = match random(state, 8) {
            0 => AccessMode::Overwrite,
            1..5 => AccessMode::ReadWrite,
            _ => AccessMode::Read,
        };
        let space = random(state, 3) as usize;
        let fails = [8, 4].map(|one_of| random(state, one_of) == 0);
        let is_lost = |world: &World, byte: u64| {
            let writer = world.writers[byte as usize];
            writer.is_some_and(|writer| world.nodes[writer].ended == Some(false))
        };
        let is_any_lost =
            mode.reads() && !stays && bytes_of(&region).any(|byte| is_lost(&world, byte));
        let (command, is_not_brought) = world.enqueue(&region, mode, space, fails);
        if random(state, 8) == 0 {
            world.tracker.compact();
        }
        world.run_until(pending, state);
        if pending == 0 {
            let ok = world.nodes[command].ended == Some(true);
            let may_fail = fails[0] || is_not_brought || is_any_lost;
            assert!(ok || may_fail, "{command} fails for nothing");
        }
    }
    world.run_until(0, state);
}

#[test]
fn what_is_read_is_what_was_written_last_and_only_a_writers_bytes_are_lost() {
    for stays in [false, true] {
        for pending in [0, 1, 3, 8] {
            for seed in 0..12 {
                let outcome = std::panic::catch_unwind(|| check(stays, pending, seed));
                assert!(
                    outcome.is_ok(),
                    "seed {seed} with {pending} pending, and failures that stay: {stays}"
                );
            }
        }
    }
}
