//! Commands of a memory object that wait for each other in a row.

use super::Recorder;
use super::rows::Use;
use super::segment::{Reader, Segment};
use crate::access::AccessMode;
use crate::command::EventId;
use crate::memory::space_id::SpaceId;

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
    /// The number of commands in a row that did not wait for the last.
    misses: u32,
}

/// The number of commands in a row, without a wait for the last of a chain, that begins another
/// chain.
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

    /// Has a command wait for the users of segments, which `nth` gives in order. Of the readers in
    /// the chain it waits for the newest alone. True if it comes after the last of the chain.
    #[inline]
    pub(super) fn wait<'s>(
        &self,
        nth: impl Fn(usize) -> Option<&'s Segment>,
        space: SpaceId,
        by: Use,
        recorder: &mut impl Recorder,
    ) -> bool {
        let Use { mode, id } = by;
        let segments = || (0..).map_while(&nth);
        let readers = segments().flat_map(|segment| &segment.readers);
        let readers = readers.filter(|reader| !reader.is_idle);
        let newest = match mode {
            AccessMode::Read => NOWHERE,
            _ => readers.map(|reader| reader.at).max().unwrap_or(NOWHERE),
        };
        let mut waits_for_last = false;
        for (index, segment) in segments().enumerate() {
            waits_for_last |= segment.writer == self.last;
            let before = index.checked_sub(1).and_then(&nth);
            let is_implied =
                segment.is_followed_by(before) || segment.is_followed_by(nth(index + 1));
            if mode == AccessMode::Read {
                segment.wait_for_bytes(space, id, !is_implied, recorder);
            } else {
                let is_needed = |reader: &Reader| !self.is_before(reader.at, newest);
                segment.waits_of_write(mode, space, id, !is_implied, is_needed, recorder);
                waits_for_last |= segment.has_reader(self.last);
            }
        }
        waits_for_last
    }

    /// True if both are in the chain, the first before the second.
    pub(super) fn is_before(&self, first: u64, second: u64) -> bool {
        self.since <= first && first < second && first != NOWHERE
    }
}
