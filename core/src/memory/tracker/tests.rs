//! The tracker's waits, copies and poison, each for one case.

use super::*;
use crate::error::ErrorKind;
use crate::event::UserEvent;
use std::collections::BTreeSet;

struct Nobody;

impl Recorder for Nobody {
    fn wait(&mut self, _: EventId, _: bool) {}
    fn poisoned(&mut self, _: &Error) {}
    fn recording(&self) -> EventId {
        EventId::NONE
    }
    fn discard(&mut self, _: Error) {}
    fn join(&mut self, events: &[EventId]) -> EventId {
        events[0]
    }
}

const ALL: Range<u64> = 0..8;

fn lost() -> Error {
    ErrorKind::DeviceLost {
        device: "far".to_owned(),
        reason: "it is gone".to_owned(),
    }
    .into()
}

/// Commands that are never over, with what each waits for, and what it fails with.
#[derive(Default)]
struct Commands {
    gates: Vec<UserEvent>,
    /// By the command: the waits, and whether each propagates.
    waits: Vec<Vec<(usize, bool)>>,
}

impl Commands {
    fn add(&mut self) -> EventId {
        let gate = UserEvent::new();
        let id = gate.event().id();
        self.gates.push(gate);
        self.waits.push(Vec::new());
        id
    }

    fn index(&self, id: EventId) -> usize {
        let is_it = |gate: &UserEvent| gate.event().id() == id;
        self.gates.iter().position(is_it).unwrap()
    }

    /// By the command: all that it comes after, or fails with.
    fn closure(&self, propagating: bool) -> Vec<BTreeSet<usize>> {
        let mut all: Vec<BTreeSet<usize>> = Vec::new();
        all.resize(self.waits.len(), BTreeSet::new());
        // A marker is younger than the command that has it made: so until nothing is new.
        let mut is_new = true;
        while is_new {
            is_new = false;
            for (command, waits) in self.waits.iter().enumerate() {
                for (wait, _) in waits.iter().filter(|wait| wait.1 || !propagating) {
                    let mut further = all[*wait].clone();
                    further.insert(*wait);
                    let known = all[command].len();
                    all[command].extend(further);
                    is_new |= all[command].len() > known;
                }
            }
        }
        all
    }
}

struct Listing<'a>(&'a mut Commands, EventId);

impl Recorder for Listing<'_> {
    fn wait(&mut self, event: EventId, propagate: bool) {
        let (from, to) = (self.0.index(self.1), self.0.index(event));
        assert_ne!(from, to, "a command waits for itself");
        let waits = &mut self.0.waits[from];
        if !waits.contains(&(to, propagate)) {
            waits.push((to, propagate));
        }
    }
    fn poisoned(&mut self, _: &Error) {}
    fn recording(&self) -> EventId {
        self.1
    }
    fn discard(&mut self, _: Error) {}
    fn join(&mut self, events: &[EventId]) -> EventId {
        let marker = self.0.add();
        for event in events {
            Listing(self.0, marker).wait(*event, false);
        }
        marker
    }
}

/// The last writer of each byte, and who has read it since.
type Bytes = Vec<(Option<usize>, Vec<usize>)>;

fn random(state: &mut u64, below: u64) -> u64 {
    *state = state
        .wrapping_mul(6_364_136_223_846_793_005)
        .wrapping_add(1);
    (*state >> 33) % below
}

/// Every hazard of every byte is among the waits, or implied by them.
#[test]
fn random_ranges_wait_for_all_that_they_must() {
    const SIZE: u64 = 24;
    for seed in 0..60 {
        let state = &mut (seed * 7919 + 1);
        let mut trackers = [Tracker::new(SIZE), Tracker::new(SIZE)];
        let mut bytes: [Bytes; 2] = std::array::from_fn(|_| vec![(None, Vec::new()); 24]);
        let (mut commands, mut needed) = (Commands::default(), Vec::new());
        for _ in 0..120 {
            let id = commands.add();
            let command = commands.index(id);
            for _ in 0..=random(state, 3) {
                let object = random(state, 2) as usize;
                let (a, b) = (random(state, SIZE), random(state, SIZE));
                // Often to the end, as what slides does.
                let range = match random(state, 3) {
                    0 => a..SIZE,
                    1 => 0..SIZE,
                    _ => a.min(b)..a.max(b) + 1,
                };
                let mode = match random(state, 4) {
                    0 => AccessMode::Overwrite,
                    1 => AccessMode::ReadWrite,
                    _ => AccessMode::Read,
                };
                for (writer, readers) in
                    &mut bytes[object][range.start as usize..range.end as usize]
                {
                    if let Some(writer) = writer.filter(|writer| *writer != command) {
                        needed.push((command, writer, mode.reads()));
                    }
                    if mode == AccessMode::Read {
                        readers.push(command);
                        continue;
                    }
                    let others = readers.drain(..).filter(|reader| *reader != command);
                    needed.extend(others.map(|reader| (command, reader, false)));
                    *writer = Some(command);
                }
                let space = SpaceId::HOST;
                let recorder = &mut Listing(&mut commands, id);
                trackers[object].record(range, mode, space, id, recorder);
            }
        }
        let (after, fails_with) = (commands.closure(false), commands.closure(true));
        for (later, earlier, propagates) in needed {
            let all = if propagates { &fails_with } else { &after };
            assert!(
                all[later].contains(&earlier),
                "seed {seed}: {later} after {earlier}, propagating: {propagates}"
            );
        }
    }
}

/// Commands that each read all of one object and change a part of the other.
fn waits_of_parts(count: u64, part: impl Fn(u64) -> Range<u64>) -> usize {
    let mut objects = [Tracker::new(count), Tracker::new(count)];
    let mut commands = Commands::default();
    for number in 0..count {
        let id = commands.add();
        let recorder = &mut Listing(&mut commands, id);
        let space = SpaceId::HOST;
        objects[0].record(0..count, AccessMode::Read, space, id, recorder);
        objects[1].record(part(number), AccessMode::ReadWrite, space, id, recorder);
        objects.swap(0, 1);
    }
    commands.waits.iter().map(Vec::len).sum()
}

#[test]
fn waits_do_not_grow_with_the_queue() {
    let count = 400;
    for (pattern, waits) in [
        ("sliding", waits_of_parts(count, |n| n..count)),
        ("growing", waits_of_parts(count, |n| 0..n + 1)),
        ("shrinking", waits_of_parts(count, |n| n / 2..count - n / 2)),
        ("a window", waits_of_parts(count, |n| n..(n + 8).min(count))),
        ("the end", waits_of_parts(count, |n| count - 1 - n..count)),
    ] {
        assert!(waits <= 4 * count as usize, "{pattern}: {waits} waits");
    }
}

#[test]
fn a_loss_is_survived_by_a_copy_that_is_there_and_not_by_one_on_its_way() {
    let [far, near] = [SpaceId(1), SpaceId(2)];
    for is_there in [true, false] {
        let mut tracker = Tracker::new(ALL.end);
        tracker.record(ALL, AccessMode::Overwrite, far, EventId::NONE, &mut Nobody);
        let on_its_way = UserEvent::new();
        let id = on_its_way.event().id();
        tracker.migrate(&ALL, far, near, None, id, &mut Nobody);
        if is_there {
            tracker.migrate(&ALL, far, SpaceId::HOST, None, EventId::NONE, &mut Nobody);
        }
        assert!(!tracker.lose_space(far, &lost()).any);
        assert_eq!(tracker.poison(&ALL, id, &lost()).any, !is_there);
        assert_eq!(tracker.is_valid_in(&ALL, SpaceId::HOST), is_there);
        assert_eq!(tracker.segments[0].poison.is_none(), is_there);
    }
}
