//! The race detector: the order of commands, and conflicting commands without one.
//!
//! Chance decides whether a missing dependency gives a wrong result. It does not decide whether the
//! dependency is *missing*: two commands that declare the same memory, one of them to write, are
//! ordered only if
//!
//! 1. the later one was uploaded after the host had seen the end of the earlier one, or
//! 2. it waits for a status that the earlier one set, or that was set by a command (ordered after
//!    it), or
//! 3. it waits for a status that the host wrote after it had seen the end of the earlier one.
//!
//! (So a host that uploads in the wrong order, one command after the end of another, has ordered
//! them. Its intention is not known here.) That is happens-before (Lamport, 1978), kept per command
//! as the set of earlier commands that matter. A command matters until everything that was uploaded
//! before its end was seen has ended itself. Of those that linger because a command is blocked for
//! long, the latest [`REMEMBERED`] are kept.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use super::command::CommandId;
use super::configuration::SpaceId;
use super::memory::Access;
use quipu_scheduler::region::{MOST_RECTANGLES, Region as Rows, Regions};

/// Commands that are ordered before something, sorted.
pub(crate) type Before = Arc<Vec<CommandId>>;

/// The number of ended commands that are remembered while older ones have not ended.
const REMEMBERED: usize = 1024;

/// The memory that a command declares.
#[derive(Debug)]
pub(crate) struct Used {
    pub(crate) space: SpaceId,
    pub(crate) accesses: Vec<Access>,
    pub(crate) rows: Vec<(usize, Rows)>,
}

impl Used {
    fn conflicts(&self, other: &Self) -> bool {
        self.space == other.space
            && self.accesses.iter().enumerate().any(|(own, access)| {
                let mut others = other.accesses.iter().enumerate();
                others.any(|(at, with)| {
                    let others = other.rows_of(at);
                    let meets = |rows: &Rows| others.iter().any(|with| rows.meets(with));
                    access.conflicts(*with) && self.rows_of(own).iter().any(meets)
                })
            })
    }

    /// As the core's trackers see them.
    fn rows_of(&self, access: usize) -> Regions {
        let rows = self.rows.iter().find(|(of, _)| *of == access);
        let region = self.accesses[access].region;
        let range = || Rows::new(region.address.to_raw(), region.length, []);
        let rows = rows.map_or_else(range, |(_, rows)| rows.clone());
        rows.in_rectangles(MOST_RECTANGLES)
    }
}

#[derive(Debug)]
struct Known {
    used: Used,
    uploaded_at: u64,
    started: bool,
    before: Before,
}

/// The order of the commands that matter, as far as it is known.
#[derive(Debug, Default)]
pub(crate) struct Order {
    known: BTreeMap<CommandId, Known>,
    unseen: BTreeSet<CommandId>,
    /// Commands whose end the host has seen, with the moment.
    seen: VecDeque<(u64, CommandId)>,
    /// Counts the acts and observations of the host.
    moment: u64,
}

impl Order {
    pub(crate) fn uploaded(&mut self, id: CommandId, used: Used) {
        self.moment += 1;
        let known = Known {
            used,
            uploaded_at: self.moment,
            started: false,
            before: self.seen_by_host(),
        };
        self.known.insert(id, known);
        self.unseen.insert(id);
    }

    /// The commands whose end the host has seen: its next writes are ordered after them.
    pub(crate) fn seen_by_host(&self) -> Before {
        let mut seen: Vec<_> = self.seen.iter().map(|(_, id)| *id).collect();
        seen.sort_unstable();
        Arc::new(seen)
    }

    /// Notes that the waits of a command are resolved, with the commands that they are ordered
    /// after.
    pub(crate) fn resolved(&mut self, id: CommandId, waits: impl Iterator<Item = Before>) {
        let Some(mut before) = self.known.get(&id).map(|known| Arc::clone(&known.before)) else {
            return;
        };
        for wait in waits {
            if Arc::ptr_eq(&wait, &before) {
                continue;
            }
            let new = wait.iter().filter(|other| {
                before.binary_search(other).is_err() && self.known.contains_key(other)
            });
            let new: Vec<_> = new.copied().collect();
            if !new.is_empty() {
                let all = Arc::make_mut(&mut before);
                all.extend(new);
                all.sort_unstable();
            }
        }
        if let Some(known) = self.known.get_mut(&id) {
            known.before = before;
        }
    }

    /// A command starts; the first one that started earlier, conflicts with it and is not ordered
    /// before it.
    pub(crate) fn started(&mut self, id: CommandId) -> Option<CommandId> {
        self.known.get_mut(&id)?.started = true;
        let known = &self.known[&id];
        self.known
            .iter()
            .filter(|(other, earlier)| {
                **other != id && earlier.started && known.before.binary_search(other).is_err()
            })
            .find(|(_, earlier)| known.used.conflicts(&earlier.used))
            .map(|(other, _)| *other)
    }

    /// The commands that are ordered before a status that this command sets.
    pub(crate) fn signalled(&self, id: CommandId) -> Before {
        let Some(known) = self.known.get(&id) else {
            return Before::default();
        };
        let mut before = Arc::clone(&known.before);
        if let Err(place) = before.binary_search(&id) {
            Arc::make_mut(&mut before).insert(place, id);
        }
        before
    }

    /// The host has seen the end of a command.
    pub(crate) fn ended(&mut self, id: CommandId) {
        self.moment += 1;
        self.unseen.remove(&id);
        self.seen.push_back((self.moment, id));
        let oldest = self
            .unseen
            .first()
            .and_then(|oldest| self.known.get(oldest))
            .map_or(u64::MAX, |known| known.uploaded_at);
        while let Some((moment, id)) = self.seen.front().copied() {
            if moment > oldest && self.seen.len() <= REMEMBERED {
                break;
            }
            self.seen.pop_front();
            self.known.remove(&id);
        }
    }

    /// A command went back unrun.
    pub(crate) fn recalled(&mut self, id: CommandId) {
        self.unseen.remove(&id);
        self.known.remove(&id);
    }

    #[cfg(test)]
    fn remembered(&self) -> usize {
        self.known.len()
    }
}

#[cfg(test)]
mod tests {
    use super::super::memory::{DeviceAddress, Region};
    use super::*;

    const SPACE: SpaceId = SpaceId(0);

    fn used<const N: usize>(accesses: [Access; N]) -> Used {
        Used {
            space: SPACE,
            accesses: accesses.to_vec(),
            rows: Vec::new(),
        }
    }

    fn writes() -> Used {
        used([Access::write(Region::new(DeviceAddress::from_raw(64), 8))])
    }

    #[test]
    fn commands_on_disjoint_rows_do_not_race() {
        let mut order = Order::default();
        let half = |start| Used {
            rows: vec![(0, Rows::new(start, 4, [(3, 8)]))],
            ..used([Access::write(Region::new(
                DeviceAddress::from_raw(start),
                20,
            ))])
        };
        for (id, start) in [(0, 64), (1, 68), (2, 67)] {
            order.uploaded(CommandId(id), half(start));
        }
        assert_eq!(order.started(CommandId(0)), None);
        assert_eq!(order.started(CommandId(1)), None);
        assert_eq!(order.started(CommandId(2)), Some(CommandId(0)));
    }

    #[test]
    fn order_passes_through_waits_and_through_the_host() {
        let [first, second, third, fourth] = [0, 1, 2, 3].map(CommandId);
        let mut order = Order::default();
        for id in [first, second, third] {
            order.uploaded(id, writes());
        }
        assert_eq!(order.started(first), None);
        let after_first = order.signalled(first);
        order.resolved(second, [after_first].into_iter());
        assert_eq!(order.started(second), None);
        // Through the second, after the first too.
        let after_second = order.signalled(second);
        order.resolved(third, [after_second].into_iter());
        assert_eq!(order.started(third), None);
        // The host has seen two of three when it uploads.
        order.ended(first);
        order.ended(second);
        order.uploaded(fourth, writes());
        assert_eq!(order.started(fourth), Some(third));
        for id in [third, fourth] {
            order.ended(id);
        }
        assert_eq!(order.remembered(), 0);
    }

    #[test]
    fn a_blocked_command_does_not_make_the_memory_grow() {
        let mut order = Order::default();
        order.uploaded(CommandId(0), writes());
        for id in (1..5000).map(CommandId) {
            order.uploaded(id, used([]));
            assert_eq!(order.started(id), None);
            order.ended(id);
        }
        assert!(order.remembered() <= REMEMBERED + 1);
    }
}
