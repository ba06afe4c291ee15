//! The user events that a command waits for, by the rules of ordering alone.
//!
//! Two sets per command: what it *must* wait for (complete while one of these is
//! open: a wait was missed) and what it *may* wait for (none of these open: it
//! must end). They differ where the core has a choice: with several memory
//! spaces a migration may bring more bytes than one command needs, and so wait
//! for more; everything before is allowed then.

use super::plan::{Id, Plan, Step, Work};
use std::collections::HashMap;

/// User events, by the order in which they were made: one bit each.
pub(super) type Users = u64;
/// The most user events of a graph.
pub(super) const MOST_USERS: usize = 64;

#[derive(Clone, Copy, Default, Debug)]
pub(super) struct Waits {
    pub(super) must: Users,
    pub(super) may: Users,
}

impl Waits {
    fn add(&mut self, other: Self) {
        self.must |= other.must;
        self.may |= other.may;
    }
}

#[derive(Clone, Copy, Default)]
struct Byte {
    writer: Waits,
    readers: Waits,
}

#[derive(Clone, Copy, Default)]
struct QueueOrder {
    /// The last barrier.
    gate: Waits,
    /// Everything so far.
    all: Waits,
}

#[derive(Clone)]
pub(super) struct Order {
    users: HashMap<Id, Users>,
    open: Users,
    events: HashMap<Id, Waits>,
    queues: Vec<QueueOrder>,
    buffers: Vec<Vec<Byte>>,
    /// The last launch of each recorded graph.
    launches: HashMap<usize, Waits>,
    one_space: bool,
}

impl Order {
    pub(super) fn new(plan: &Plan) -> Self {
        Self {
            users: HashMap::new(),
            open: 0,
            events: HashMap::new(),
            queues: vec![QueueOrder::default(); plan.queues.len()],
            buffers: plan
                .buffers
                .iter()
                .map(|buffer| vec![Byte::default(); buffer.bytes])
                .collect(),
            launches: HashMap::new(),
            one_space: plan.one_space,
        }
    }

    pub(super) fn new_user(&mut self, id: Id) {
        let bit = 1 << self.users.len();
        self.users.insert(id, bit);
        self.open |= bit;
        let waits = Waits {
            must: bit,
            may: bit,
        };
        self.events.insert(id, waits);
    }

    pub(super) fn end_user(&mut self, id: Id) {
        self.open &= !self.users.get(&id).copied().unwrap_or(0);
    }

    /// Takes back what was recorded of a command; user events that were ended for it are.
    pub(super) fn back_to(&mut self, before: Self) {
        let open = self.open;
        *self = Self { open, ..before };
    }

    /// Records a command; what the host waits for when it waits for it.
    pub(super) fn command(&mut self, plan: &Plan, id: Id, step: &Step) -> Waits {
        let Step::Command {
            queue, work, waits, ..
        } = step
        else {
            return Waits::default();
        };
        let in_order = plan.queues[*queue].options.in_order;
        let state = self.queues[*queue];
        let mut mine = state.gate;
        for event in waits {
            mine.add(self.events.get(event).copied().unwrap_or_default());
        }
        let listed = waits.iter().any(|event| self.events.contains_key(event));
        let options = &plan.queues[*queue].options;
        let unknown = (work.is_unknown() || options.one_at_a_time) && in_order;
        match work {
            Work::Marker | Work::Barrier if !listed => mine.add(state.all),
            _ if unknown => mine.add(state.all),
            // A barrier with a list need not wait for all before it.
            Work::Barrier => mine.may |= state.all.may,
            _ => {}
        }
        // The parts of a mapping in this queue wait for no more.
        let turn = mine;
        let regions = work.regions();
        let touched = work.touched();
        for (region, touched) in regions.iter().zip(&touched) {
            let bytes = &self.buffers[region.buffer][region.range.clone()];
            for (byte, is_touched) in bytes.iter().zip(touched) {
                let mut waits = byte.writer;
                if region.mode.writes() {
                    waits.add(byte.readers);
                }
                if !is_touched {
                    // It may count as its own.
                    waits.must = 0;
                }
                mine.add(waits);
            }
        }
        if let Work::Graph(recording) = work {
            // Launches of a graph come one after another.
            let last = self.launches.get(&recording.number).copied();
            mine.may |= last.unwrap_or_default().may;
        }
        if !self.one_space {
            mine.may = self.users.values().fold(0, |all, user| all | user);
        }
        if let Work::Graph(recording) = work {
            self.launches.insert(recording.number, mine);
        }
        for (region, touched) in regions.iter().zip(&touched) {
            let bytes = &mut self.buffers[region.buffer][region.range.clone()];
            for (byte, is_touched) in bytes.iter_mut().zip(touched) {
                if !is_touched {
                    let known = if region.mode.writes() {
                        &mut byte.writer
                    } else {
                        &mut byte.readers
                    };
                    known.may |= mine.may;
                } else if region.mode.writes() {
                    byte.writer = mine;
                    byte.readers = Waits::default();
                } else {
                    byte.readers.add(mine);
                }
            }
        }
        let state = &mut self.queues[*queue];
        if unknown || matches!(work, Work::Barrier) {
            state.gate = mine;
        }
        match work {
            Work::Map { .. } => {
                state.all.add(turn);
                return mine;
            }
            _ => state.all.add(mine),
        }
        self.events.insert(id, mine);
        // Seen complete in program order.
        if in_order { state.all } else { mine }
    }

    /// The wait of a user event: itself.
    pub(super) fn event(&self, id: Id) -> Waits {
        self.events.get(&id).copied().unwrap_or_default()
    }

    /// All that a queue's commands wait for.
    pub(super) fn queue(&self, queue: usize) -> Waits {
        self.queues[queue].all
    }

    /// True if something that must be waited for is open.
    pub(super) fn must_be_open(&self, waits: Waits) -> bool {
        waits.must & self.open != 0
    }

    /// True if nothing that may be waited for is open.
    pub(super) fn must_end(&self, waits: Waits) -> bool {
        waits.may & self.open == 0
    }

    /// True if the user event is open and may be waited for.
    pub(super) fn may_wait_for(&self, waits: Waits, user: Id) -> bool {
        let bit = self.users.get(&user).copied().unwrap_or(0);
        waits.may & self.open & bit != 0
    }
}
