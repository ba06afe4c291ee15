//! Dependencies: from the ids a command waits for to the two ends of an arrow.
//!
//! An arrow needs to know where *both* commands ran, while a record only names the other's id.
//! Invariants:
//!
//! * [`Flows::locate`] finds the last [`REMEMBERED`] commands: ids count up, so an id's slot is its
//!   remainder, and nothing is ever hashed or freed.
//! * A dependant that is written before the command that it waits for leaves a pending arrow.
//!   Pending arrows live in two generations of at most [`PENDING`] each; when the young one is full
//!   the old one is forgotten. So waits for events that are never recorded (user events) are
//!   forgotten in time.
//!
//! An arrow that reaches further back than that is not drawn in Perfetto; the ids stay in the
//! command's `waits`.

use super::record::CommandRecord;
use std::collections::HashMap;

/// The number of commands back at which an arrow can start. A slot has 32 bytes: 2 MiB in all.
pub(super) const REMEMBERED: usize = 1 << 16;
/// The number of arrows of each generation that may wait for their start.
pub(super) const PENDING: usize = 1 << 14;

/// The place and time of a command: one end of an arrow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Place {
    pub(super) device: u32,
    pub(super) lane: u32,
    pub(super) started_ns: u64,
}

/// One dependency.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Arrow {
    /// Unique in the trace.
    pub(super) id: u64,
    pub(super) from: Place,
    pub(super) to: Place,
}

/// Joins dependencies to places.
pub(super) struct Flows {
    slots: Vec<Option<(u64, Place)>>,
    young: HashMap<u64, Vec<Place>>,
    old: HashMap<u64, Vec<Place>>,
    /// Arrows in `young`.
    young_count: usize,
    next_id: u64,
}

impl Flows {
    pub(super) fn new() -> Self {
        Flows {
            slots: vec![None; REMEMBERED],
            young: HashMap::new(),
            old: HashMap::new(),
            young_count: 0,
            next_id: 1,
        }
    }

    fn locate(&self, id: u64) -> Option<Place> {
        let (held, place) = self.slots[slot(id)]?;
        (held == id).then_some(place)
    }

    /// Takes a command in and calls `draw` for every arrow that now has both ends.
    pub(super) fn add(&mut self, command: &CommandRecord, mut draw: impl FnMut(Arrow)) {
        let here = Place {
            device: command.device,
            lane: command.worker,
            started_ns: command.started_ns,
        };
        self.slots[slot(command.id)] = Some((command.id, here));
        for &id in &command.waits {
            match self.locate(id) {
                Some(from) => self.draw(from, here, &mut draw),
                None => self.hold(id, here),
            }
        }
        for dependants in [self.young.remove(&command.id), self.old.remove(&command.id)]
            .into_iter()
            .flatten()
        {
            for to in dependants {
                self.draw(here, to, &mut draw);
            }
        }
    }

    fn hold(&mut self, id: u64, to: Place) {
        if self.young_count == PENDING {
            self.old = std::mem::take(&mut self.young);
            self.young_count = 0;
        }
        self.young.entry(id).or_default().push(to);
        self.young_count += 1;
    }

    fn draw(&mut self, from: Place, to: Place, draw: &mut impl FnMut(Arrow)) {
        // A command that was cancelled may have ended before the command that it waited for began:
        // no arrow back in time.
        if from.started_ns <= to.started_ns {
            draw(Arrow {
                id: self.next_id,
                from,
                to,
            });
            self.next_id += 1;
        }
    }
}

fn slot(id: u64) -> usize {
    (id % REMEMBERED as u64) as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    fn command(id: u64, started_ns: u64, waits: &[u64]) -> CommandRecord {
        CommandRecord {
            id,
            started_ns,
            waits: waits.to_vec(),
            ..CommandRecord::default()
        }
    }

    fn add(flows: &mut Flows, command: &CommandRecord) -> Vec<(u64, u64)> {
        let mut drawn = Vec::new();
        flows.add(command, |arrow| {
            drawn.push((arrow.from.started_ns, arrow.to.started_ns))
        });
        drawn
    }

    #[test]
    fn an_arrow_is_drawn_once_whichever_end_comes_first() {
        let mut flows = Flows::new();
        assert_eq!(add(&mut flows, &command(1, 10, &[])), []);
        assert_eq!(add(&mut flows, &command(2, 20, &[1, 3])), [(10, 20)]);
        assert_eq!(add(&mut flows, &command(3, 15, &[])), [(15, 20)]);
        assert_eq!(add(&mut flows, &command(3, 15, &[])), []);
    }

    #[test]
    fn no_arrow_goes_back_in_time() {
        let mut flows = Flows::new();
        add(&mut flows, &command(1, 10, &[]));
        assert_eq!(add(&mut flows, &command(2, 5, &[1])), []);
    }

    #[test]
    fn what_never_comes_is_forgotten_and_the_rest_is_not() {
        let mut flows = Flows::new();
        let never = 1 << 40;
        for id in 0..3 * PENDING as u64 {
            add(&mut flows, &command(id, id, &[never + id]));
        }
        assert!(flows.young_count <= PENDING);
        assert!(flows.young.len() + flows.old.len() <= 2 * PENDING);
        // The first is forgotten, the last is not.
        assert_eq!(add(&mut flows, &command(never, 0, &[])), []);
        let last = 3 * PENDING as u64 - 1;
        assert_eq!(add(&mut flows, &command(never + last, 0, &[])), [(0, last)]);
    }

    #[test]
    fn a_slot_that_was_taken_over_is_not_mistaken_for_the_command_before() {
        let mut flows = Flows::new();
        add(&mut flows, &command(5, 10, &[]));
        add(&mut flows, &command(5 + REMEMBERED as u64, 20, &[]));
        assert_eq!(add(&mut flows, &command(6, 30, &[5])), []);
    }
}
