//! Commands of a memory object that wait for each other in a row.

use crate::command::EventId;

/// The place of a command that is outside of the chain, or whose place is not known.
pub(super) const NOWHERE: u64 = 0;

/// A row of commands. Each waits for the one before it, and each has a place.
#[derive(Debug)]
pub(super) struct Chain {
    pub(super) last: EventId,
    /// The place of the last.
    at: u64,
    /// The place of the first.
    since: u64,
    /// How many commands in a row did not wait for the last.
    misses: u32,
}

/// So many commands in a row that do not wait for the last of a chain begin another.
pub(super) const MISSES: u32 = 16;

impl Chain {
    pub(super) const fn new() -> Self {
        Self {
            last: EventId::NONE,
            at: NOWHERE,
            since: NOWHERE,
            misses: 0,
        }
    }

    /// The place of the command `id`, whose waits are known.
    pub(super) fn place(&mut self, id: EventId, waits_for_last: bool) -> u64 {
        if self.last == id {
            return self.at;
        }
        if !waits_for_last {
            self.misses += 1;
            if self.misses < MISSES && !self.last.is_finished() {
                return NOWHERE;
            }
            self.since = self.at + 1;
        }
        self.at += 1;
        self.last = id;
        self.misses = 0;
        self.at
    }

    /// True if both are in the chain, the first before the second.
    pub(super) fn is_before(&self, first: u64, second: u64) -> bool {
        self.since <= first && first < second && first != NOWHERE
    }
}
