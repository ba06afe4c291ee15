//! The tracker's waits, copies and poison, each for one case.

use super::*;
use crate::error::ErrorKind;
use crate::event::UserEvent;
use std::collections::BTreeSet;

mod values;

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

/// The commands that one waits for, and whether it fails with each.
type Waits = Vec<(usize, bool)>;

/// Commands that are never over, with the waits of each, and those whose failure fails it.
#[derive(Default)]
struct Commands {
    gates: Vec<UserEvent>,
    waits: Vec<Waits>,
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

/// The last writer of each byte, and its readers since.
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
    check_random_uses(60, 0);
}

/// The same of rectangles of a matrix, among which are ranges.
#[test]
fn random_rows_wait_for_all_that_they_must() {
    check_random_uses(30, 1);
    check_random_uses(30, 4);
}

/// A rectangle of a matrix of rows of six or, now and then, eight bytes.
fn random_rows(state: &mut u64, size: u64) -> Region {
    let stride = if random(state, 8) == 0 { 8 } else { 6 };
    let row = random(state, stride) + 1;
    let count = random(state, size / stride) + 1;
    let span = stride * (count - 1) + row;
    Region::new(random(state, size - span + 1), row, [(count, stride)])
}

/// One of `1 + rows` uses is one of a range.
fn check_random_uses(seeds: u64, rows: u64) {
    const SIZE: u64 = 24;
    for seed in 0..seeds {
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
                // Often to the end, as of a window that slides.
                let range = match random(state, 3) {
                    0 => a..SIZE,
                    1 => 0..SIZE,
                    _ => a.min(b)..a.max(b) + 1,
                };
                let range = match random(state, 8) {
                    0 => a..a,
                    _ => range,
                };
                let mode = match random(state, 4) {
                    0 => AccessMode::Overwrite,
                    1 => AccessMode::ReadWrite,
                    _ => AccessMode::Read,
                };
                let region = match random(state, 1 + rows) {
                    0 => Region::of(range),
                    _ => random_rows(state, SIZE),
                };
                // An overwrite of rows with gaps overwrites these, too.
                let touched = match mode {
                    AccessMode::Overwrite => Region::of(region.range()),
                    _ => region.clone(),
                };
                let of_object = (0_u64..).zip(&mut bytes[object]);
                let is_touched = |byte: u64| {
                    !touched.range().is_empty() && touched.meets(&Region::of(byte..byte + 1))
                };
                for (_, (writer, readers)) in of_object.filter(|(byte, _)| is_touched(*byte)) {
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
                trackers[object].record_rows(&region, mode, space, id, recorder);
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

/// A tracker of a matrix of rows of 64 bytes, and how many waits commands on rectangles of it have.
fn waits_of_rows(count: u64, use_of: impl Fn(u64) -> (Region, AccessMode)) -> usize {
    let mut tracker = Tracker::new(64 * 64);
    let mut commands = Commands::default();
    for number in 0..count {
        let id = commands.add();
        let (region, mode) = use_of(number);
        let recorder = &mut Listing(&mut commands, id);
        tracker.record_rows(&region, mode, SpaceId::HOST, id, recorder);
    }
    commands.waits.iter().map(Vec::len).sum()
}

fn rectangle(rows: Range<u64>, columns: Range<u64>) -> Region {
    let (height, width) = (rows.end - rows.start, columns.end - columns.start);
    Region::new(64 * rows.start + columns.start, width, [(height, 64)])
}

#[test]
fn commands_on_disjoint_rectangles_do_not_wait_for_each_other() {
    use AccessMode::{Read, ReadWrite};
    let quarter = |number: u64| {
        let (down, right) = (number / 2 % 2 * 32, number % 2 * 32);
        rectangle(down..down + 32, right..right + 32)
    };
    assert_eq!(waits_of_rows(4, |number| (quarter(number), ReadWrite)), 0);
    assert_eq!(
        waits_of_rows(4 * 9, |number| (quarter(number), ReadWrite)),
        4 * 8
    );
    // Readers of a half, and writers of the other.
    let halves = |number: u64| match number % 2 {
        0 => (rectangle(0..64, 0..32), Read),
        _ => (rectangle(0..64, 32..64), ReadWrite),
    };
    assert_eq!(waits_of_rows(20, halves), 9);
    // A row is a range, and shares bytes with one half.
    let row = |number: u64| match number {
        0 => (rectangle(0..64, 0..32), ReadWrite),
        1 => (rectangle(7..8, 32..64), ReadWrite),
        2 => (rectangle(7..8, 0..32), ReadWrite),
        _ => (rectangle(0..64, 32..64), ReadWrite),
    };
    assert_eq!(waits_of_rows(4, row), 2);
}

#[test]
fn waits_for_rectangles_do_not_grow_with_the_queue() {
    use AccessMode::{Read, ReadWrite};
    let count = 300;
    let state = std::cell::Cell::new(1_u64);
    let random = |below: u64| {
        let mut next = state.get();
        let number = random(&mut next, below);
        state.set(next);
        number
    };
    let random_rectangle = || {
        let [a, b, c, d] = std::array::from_fn(|_| random(64));
        rectangle(a.min(b)..a.max(b) + 1, c.min(d)..c.max(d) + 1)
    };
    let tile = |number: u64| {
        let (down, right) = (number / 8 % 8 * 8, number % 8 * 8);
        rectangle(down..down + 8, right..right + 8)
    };
    let all = || rectangle(0..64, 0..64);
    let columns = |columns: Range<u64>| (rectangle(0..64, columns), ReadWrite);
    type Pattern<'a> = &'a dyn Fn(u64) -> (Region, AccessMode);
    let patterns: [(&str, u64, Pattern<'_>); 7] = [
        ("sliding", 4, &|n| columns(n % 60..n % 60 + 4)),
        ("shrinking", 2, &|n| {
            (rectangle(n % 30..64, n % 30..64), ReadWrite)
        }),
        ("random", 8, &|_| (random_rectangle(), ReadWrite)),
        ("random, every other read", 16, &|n| {
            (random_rectangle(), [Read, ReadWrite][n as usize % 2])
        }),
        ("tiles", 1, &|n| (tile(n), ReadWrite)),
        // A command that reads all fails with the writer of each of the 64 tiles.
        ("tiles, and all read", 34, &|n| match n % 2 {
            0 => (all(), Read),
            _ => (tile(n / 2), ReadWrite),
        }),
        ("columns, and all written", 2, &|n| match n % 50 {
            0 => (all(), ReadWrite),
            n => columns(n..n + 2),
        }),
    ];
    for (pattern, most, use_of) in patterns {
        let waits = waits_of_rows(count, use_of);
        assert!(waits as u64 <= most * count, "{pattern}: {waits} waits");
    }
}

/// Bytes at home elsewhere are brought once. The bytes between the rows come along.
#[test]
fn writers_of_disjoint_rows_wait_for_one_migration() {
    let [far, near] = [SpaceId(1), SpaceId(2)];
    let mut tracker = Tracker::new(64 * 64);
    let mut commands = Commands::default();
    let add = |commands: &mut Commands| {
        let id = commands.add();
        (commands.index(id), id)
    };
    let all = 0..64 * 64;
    let (upload, id) = add(&mut commands);
    let recorder = &mut Listing(&mut commands, id);
    tracker.record(all.clone(), AccessMode::Overwrite, far, id, recorder);
    let (migration, id) = add(&mut commands);
    let recorder = &mut Listing(&mut commands, id);
    tracker.migrate(&all, far, near, None, id, recorder);
    let halves = [rectangle(0..64, 0..32), rectangle(0..64, 32..64)];
    let writers = halves.map(|half| {
        let (writer, id) = add(&mut commands);
        assert!(tracker.is_valid_in(&half.range(), near));
        let recorder = &mut Listing(&mut commands, id);
        tracker.record_rows(&half, AccessMode::ReadWrite, near, id, recorder);
        assert!(!tracker.is_valid_in(&half.range(), far));
        writer
    });
    let (back, id) = add(&mut commands);
    tracker.migrate(&all, near, far, None, id, &mut Listing(&mut commands, id));
    let (after, fails_with) = (commands.closure(false), commands.closure(true));
    for writer in writers {
        assert!(fails_with[writer].contains(&migration));
        assert!(fails_with[writer].contains(&upload));
        assert!(after[back].contains(&writer));
    }
    assert!(!after[writers[1]].contains(&writers[0]));
}

/// The failure of a writer of rows is that of the readers of its bytes, and of no others.
#[test]
fn a_failure_stays_within_its_rows() {
    struct Poison(bool);
    impl Recorder for Poison {
        fn wait(&mut self, _: EventId, _: bool) {}
        fn poisoned(&mut self, _: &Error) {
            self.0 = true;
        }
        fn recording(&self) -> EventId {
            EventId::NONE
        }
        fn discard(&mut self, _: Error) {}
        fn join(&mut self, events: &[EventId]) -> EventId {
            events[0]
        }
    }
    let (left, right) = (rectangle(0..64, 0..32), rectangle(0..64, 32..64));
    let mut tracker = Tracker::new(64 * 64);
    let gates = [UserEvent::new(), UserEvent::new()];
    for (half, gate) in [&left, &right].into_iter().zip(&gates) {
        let id = gate.event().id();
        tracker.record_rows(half, AccessMode::ReadWrite, SpaceId::HOST, id, &mut Nobody);
    }
    let failed = gates[0].event().id();
    assert!(tracker.poison(&left.range(), failed, &lost()).any);
    gates.into_iter().for_each(UserEvent::complete);
    let mut is_poisoned = |region: &Region| {
        let mut poison = Poison(false);
        let mode = AccessMode::Read;
        tracker.record_rows(region, mode, SpaceId::HOST, EventId::NONE, &mut poison);
        tracker.compact();
        poison.0
    };
    assert!(is_poisoned(&left) && is_poisoned(&rectangle(3..5, 31..33)));
    assert!(!is_poisoned(&right) && !is_poisoned(&rectangle(7..8, 32..64)));
    assert!(is_poisoned(&rectangle(0..64, 0..64)));
    // An earlier failure of bytes that are overwritten is over.
    let (all, host) = (0..64 * 64, SpaceId::HOST);
    tracker.record(all, AccessMode::Overwrite, host, EventId::NONE, &mut Nobody);
    let mut poison = Poison(false);
    tracker.record_rows(&left, AccessMode::Read, host, EventId::NONE, &mut poison);
    assert!(!poison.0);
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

/// Bytes beside the rows are at home where they were, if those that are to be written cannot be
/// brought.
#[test]
fn what_a_migration_for_rows_does_not_bring_stays_where_it_is() {
    let [far, near] = [SpaceId(1), SpaceId(2)];
    let (all, left) = (0..64 * 64, rectangle(0..64, 0..32));
    let right = rectangle(0..63, 32..64);
    // Nothing else; and a copy to where they were, which may overwrite them there.
    for is_copied_back in [false, true] {
        let mut tracker = Tracker::new(all.end);
        tracker.record(
            all.clone(),
            AccessMode::Overwrite,
            far,
            EventId::NONE,
            &mut Nobody,
        );
        let [brings, writes, copies] = [(); 3].map(|()| UserEvent::new());
        let [migration, writer, back] = [&brings, &writes, &copies].map(|gate| gate.event().id());
        tracker.migrate(&all, far, near, None, migration, &mut Nobody);
        tracker.record_rows(&left, AccessMode::ReadWrite, near, writer, &mut Nobody);
        if is_copied_back {
            tracker.migrate(&all, near, far, None, back, &mut Nobody);
        }
        let cause = lost();
        let failed = tracker.not_brought(&all, migration, true, &cause);
        assert_eq!(failed.any, is_copied_back);
        assert!(tracker.poison(&left.range(), writer, &cause).any);
        assert!(right.rows().all(|row| tracker.is_valid_in(&row, far)));
        assert!(
            right
                .rows()
                .all(|row| tracker.is_valid_in(&row, near) == is_copied_back)
        );
        [brings, writes, copies]
            .into_iter()
            .for_each(UserEvent::complete);
    }
}

/// Unless that place is lost before the migration fails.
#[test]
fn a_migration_from_a_lost_space_gives_nothing_back_to_it() {
    let [far, near] = [SpaceId(1), SpaceId(2)];
    let (all, left) = (0..64 * 64, rectangle(0..64, 0..32));
    let mut tracker = Tracker::new(all.end);
    let overwrite = AccessMode::Overwrite;
    tracker.record(all.clone(), overwrite, far, EventId::NONE, &mut Nobody);
    let [brings, writes] = [(); 2].map(|()| UserEvent::new());
    let [migration, writer] = [&brings, &writes].map(|gate| gate.event().id());
    tracker.migrate(&all, far, near, None, migration, &mut Nobody);
    tracker.record_rows(&left, AccessMode::ReadWrite, near, writer, &mut Nobody);
    let cause = lost();
    drop(tracker.lose_space(far, &cause));
    assert!(tracker.not_brought(&all, migration, true, &cause).any);
    assert!(!tracker.is_valid_in(&all, far));
    [brings, writes].into_iter().for_each(UserEvent::complete);
}
