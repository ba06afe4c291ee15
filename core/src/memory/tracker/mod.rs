//! The tracker of one memory object: its hazards and its valid copies, by byte range.
//!
//! A tracker is a list of segments that cover the object, in order, without
//! gaps. Each knows, *in enqueue order*: the last writer, the readers since,
//! which memory spaces hold a valid copy and from which event on, and whether
//! the last writer failed. An access becomes waits:
//!
//! * read after write: waits for the writer (and, in another space, for the
//!   migration that makes the copy there); the failure of either fails it;
//! * write after read: waits for the readers, pure ordering;
//! * write after write: waits for the writer, pure ordering.
//!
//! An access of no bytes waits for nothing, and nothing for it. It is only recorded so that the
//! object is kept for it.
//!
//! Segments are split where an access covers one partly; a write merges what it
//! covers. Handles are plain ids: one to a command that is over costs a look at
//! its slot and nothing else. A segment's readers are bounded: many become one
//! marker ([`Recorder::join`]). No marker includes the command whose accesses are
//! being recorded, because that command may have to wait for the marker.
//!
//! Commands that use rows with gaps between them are kept beside the segments ([`rows`]), and
//! compared with each other row by row. Validity is known by ranges, also of these: a command on
//! rows has all bytes from its first to its last brought to its space, and they are at home there
//! once it writes.
//!
//! # Waits that others imply
//!
//! Overlapping ranges leave many segments behind, and a command that covers them all would wait for
//! each of their commands. Most of these wait for each other. Two facts are kept, both of commands
//! and not of bytes:
//!
//! * `Segment::followed`: a command that waits for the segment's writer and fails with it. Where
//!   that command wrote the neighbour, one wait is enough for both.
//! * The [`Chain`]: commands that use the object. Each waits for the one before. A segment
//!   needs to know the newest reader of the chain alone.
//!
//! A command ends after all its waits, also when it fails or is cancelled. So a wait that is
//! implied loses nothing.

mod chain;
mod rows;
mod segment;
#[cfg(test)]
mod tests;

use super::space_id::SpaceId;
use crate::access::AccessMode;
use crate::command::EventId;
use crate::error::Error;
use crate::limits::COMPACT_AT;
use crate::region::Region;
use chain::{Chain, NOWHERE};
use rows::{Brings, Rows, Use, new_rows};
use segment::{Copy, Reader, Readers, Segment};
use smallvec::SmallVec;
use std::ops::Range;

/// One value of a content size: the memory object that holds it, and the number of writes that the
/// object had seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ContentVersion {
    pub(crate) size: u64,
    pub(crate) writes: u64,
}

/// Bytes that have to be brought to a space before a command may run there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Missing {
    pub(crate) range: Range<u64>,
    /// The space that holds a valid copy, or will.
    pub(crate) from: SpaceId,
    /// True if the host has a valid copy too.
    pub(crate) on_host: bool,
}

/// The tracker's view of a command that is being enqueued.
pub(crate) trait Recorder {
    /// The command must wait for `event`; if `propagate`, its failure is ours.
    fn wait(&mut self, event: EventId, propagate: bool);
    /// The command must wait for the writer of bytes that it reads.
    #[inline]
    fn wait_for_writer(&mut self, event: EventId) {
        self.wait(event, true);
    }
    /// The command reads bytes that a failed command should have written.
    fn poisoned(&mut self, cause: &Error);
    /// The command whose accesses are being recorded. A migration is recorded for the command that
    /// needs it, which waits for it.
    fn recording(&self) -> EventId;
    /// Takes an error that nobody reads any more. It is dropped when nothing is locked: an error
    /// carries a user's code.
    fn discard(&mut self, error: Error);
    /// One event that is over when all of `events` are. All of them are registered.
    fn join(&mut self, events: &[EventId]) -> EventId;
}

/// The outcome of poisoning.
#[derive(Debug, Default)]
pub(crate) struct Poisoned {
    /// True if anything is poisoned now. Of a migration: it was to bring the last copy.
    pub(crate) any: bool,
    /// The errors that were replaced: to be dropped when the tracker is unlocked.
    pub(crate) replaced: Vec<Error>,
}

impl Poisoned {
    fn set(&mut self, segment: &mut Segment, cause: &Error) {
        self.any = true;
        self.replaced.extend(segment.poison.replace(cause.clone()));
    }
}

/// See the module.
#[derive(Debug)]
pub(crate) struct Tracker {
    segments: Vec<Segment>,
    /// The only space that the object was ever used in, or `ANYWHERE` if there
    /// was none yet, or `SEVERAL`.
    only: SpaceId,
    compact_at: usize,
    chain: Chain,
    /// Apart, as few objects have any: every enqueue looks here.
    rows: Option<Box<Rows>>,
    /// The number of writes that were recorded.
    writes: u64,
    /// The number of the queue whose hazards are here, of queues that have them
    /// [apart](crate::Hazards::within_queue).
    queue: u32,
}

impl Tracker {
    pub(crate) fn new(size: u64) -> Self {
        Self {
            segments: vec![Segment {
                start: 0,
                end: size,
                writer: EventId::NONE,
                followed: EventId::NONE,
                home: SpaceId::ANYWHERE,
                is_taken: false,
                readers: Readers::new(),
                copies: SmallVec::new(),
                poison: None,
            }],
            only: SpaceId::ANYWHERE,
            compact_at: COMPACT_AT,
            chain: Chain::new(),
            rows: None,
            writes: 0,
            queue: 0,
        }
    }

    /// True if the hazards of the queue `queue` alone can be here: no access of another queue
    /// orders commands any more.
    #[inline]
    pub(crate) fn is_for(&mut self, queue: u32) -> bool {
        if self.queue == queue {
            return true;
        }
        let is_free = !self.is_used(|reader| !reader.is_idle);
        if is_free {
            self.queue = queue;
        }
        is_free
    }

    /// The number of writes that were recorded: changes whenever the bytes may.
    pub(crate) fn writes(&self) -> u64 {
        self.writes
    }

    /// Says that `space` will be used; true if validity has to be looked at,
    /// because another space was or is used.
    #[inline]
    pub(crate) fn enter(&mut self, space: SpaceId) -> bool {
        if self.only == space {
            return false;
        }
        if self.only == SpaceId::ANYWHERE {
            self.only = space;
            return false;
        }
        self.only = SpaceId::SEVERAL;
        true
    }

    /// Index of the segment that holds byte `at`.
    fn find(&self, at: u64) -> usize {
        self.segments.partition_point(|segment| segment.end <= at)
    }

    /// Splits so that a segment starts at `at`; gives its index.
    fn split(&mut self, at: u64) -> usize {
        let index = self.find(at);
        match self.segments.get_mut(index) {
            Some(segment) if segment.start < at => {
                let mut right = segment.clone();
                right.start = at;
                segment.end = at;
                self.segments.insert(index + 1, right);
                index + 1
            }
            _ => index,
        }
    }

    /// The segments that cover exactly `range`, after splitting.
    fn cover(&mut self, range: &Range<u64>) -> Range<usize> {
        if self.segments.len() > self.compact_at {
            self.compact();
        }
        let first = self.split(range.start);
        let end = self.segments.last().map_or(0, |segment| segment.end);
        let last = if range.end >= end {
            self.segments.len()
        } else {
            self.split(range.end)
        };
        first..last
    }

    /// Records an access in `space`, in enqueue order, by the command `id`.
    /// Bytes it reads must be valid there (see [`Tracker::missing`]).
    #[inline(always)]
    pub(crate) fn record(
        &mut self,
        range: Range<u64>,
        mode: AccessMode,
        space: SpaceId,
        id: EventId,
        recorder: &mut impl Recorder,
    ) {
        // The usual case: one segment, all of it.
        if let [segment] = &mut self.segments[..]
            && segment.start == range.start
            && segment.end == range.end
            && self.rows.is_none()
        {
            match mode {
                AccessMode::ReadWrite if segment.is_plain() => {
                    // A chain: after the writer, and the writer then.
                    if !segment.writer.is_none() && segment.writer != id {
                        recorder.wait_for_writer(segment.writer);
                    }
                    segment.writer = id;
                    segment.home = space;
                    self.writes += 1;
                }
                AccessMode::Read => {
                    segment.wait_for_bytes(space, id, true, recorder);
                    segment.add_reader(id, NOWHERE, recorder);
                }
                _ => {
                    segment.waits_of_write(mode, space, id, true, |_| true, recorder);
                    segment.written(space, id, recorder);
                    self.writes += 1;
                }
            }
            return;
        }
        self.record_part(range, mode, space, id, recorder);
    }

    fn record_part(
        &mut self,
        range: Range<u64>,
        mode: AccessMode,
        space: SpaceId,
        id: EventId,
        recorder: &mut impl Recorder,
    ) {
        if range.is_empty() {
            return self.record_user(range.start, id, recorder);
        }
        let mut waits_for_last = false;
        if let Some(rows) = &mut self.rows {
            let (region, by) = (Region::of(range.clone()), Use { mode, id });
            waits_for_last = rows.wait(&region, by, false, self.chain.last, recorder);
            if rows.is_empty() {
                self.rows = None;
            }
        }
        let covered = self.cover(&range);
        let segments = &self.segments[covered.clone()];
        let nth = |index| segments.get(index);
        waits_for_last |= self.chain.wait(nth, space, Use { mode, id }, recorder);
        let at = self.chain.place(id, waits_for_last);
        if mode == AccessMode::Read {
            let chain = &self.chain;
            for segment in &mut self.segments[covered] {
                // A command that replaces a copy waits for all its readers but the command that it
                // is for.
                if segment.copies.is_empty() {
                    segment
                        .readers
                        .retain(|reader| !chain.is_before(reader.at, at));
                }
                segment.add_reader(id, at, recorder);
            }
            return;
        }
        self.writes += 1;
        if mode.reads() {
            self.note_followers(&covered, id);
        }
        let others = self.segments[covered.start + 1..covered.end].iter();
        let idle: Readers = others
            .flat_map(|segment| &segment.readers)
            .filter(|reader| reader.is_idle && !reader.id.is_finished())
            .copied()
            .collect();
        let first = &mut self.segments[covered.start];
        first.end = range.end;
        first.written(space, id, recorder);
        first.readers.extend(idle);
        let rest = self.segments.drain(covered.start + 1..covered.end);
        rest.filter_map(|segment| segment.poison)
            .for_each(|poison| recorder.discard(poison));
    }

    /// As [`record`](Self::record), of rows. They and the bytes between them are valid in `space`.
    pub(crate) fn record_rows(
        &mut self,
        region: &Region,
        mode: AccessMode,
        space: SpaceId,
        id: EventId,
        recorder: &mut impl Recorder,
    ) {
        // An overwrite of a region brings nothing to its gaps, and so has to write them.
        if !region.has_gaps() || !mode.reads() {
            return self.record(region.range(), mode, space, id, recorder);
        }
        let rectangles = self.rows.get_or_insert_with(new_rows).shape(region);
        let range = region.range();
        if mode.writes() {
            self.take_home(&range, space, recorder);
            self.writes += 1;
        }
        let from = self.find(range.start);
        let rows = self.rows.get_or_insert_with(new_rows);
        let segments = self.segments[from..].iter();
        let spanned = segments.take_while(|segment| segment.start < range.end);
        let met: SmallVec<[&Segment; 4]> = spanned
            .filter(|segment| region.meets(&segment.region()))
            .collect();
        let nth = |index: usize| met.get(index).copied();
        let by = Use { mode, id };
        let mut waits_for_last = self.chain.wait(nth, space, by, recorder);
        let last = self.chain.last;
        for rectangle in &rectangles {
            waits_for_last |= rows.wait(rectangle, by, true, last, recorder);
        }
        self.chain.place(id, waits_for_last);
        for rectangle in rectangles {
            rows.add(rectangle, mode.writes(), id, recorder);
        }
    }

    /// Has bytes be at home in `space` alone, where a command is to write some of them.
    fn take_home(&mut self, range: &Range<u64>, space: SpaceId, recorder: &mut impl Recorder) {
        let is_there = |segment: &Segment| segment.home == space && segment.copies.is_empty();
        let segments = self.segments[self.find(range.start)..].iter();
        let mut spanned = segments.take_while(|segment| segment.start < range.end);
        if spanned.all(is_there) {
            return;
        }
        let covered = self.cover(range);
        let rows = self.rows.get_or_insert_with(new_rows);
        for segment in &mut self.segments[covered] {
            if is_there(segment) {
                continue;
            }
            let brings = Brings {
                from: std::mem::replace(&mut segment.home, space),
                to: space,
                writer: segment.writer,
            };
            segment.is_taken = true;
            for copy in std::mem::take(&mut segment.copies) {
                if copy.ready.is_finished() {
                    continue;
                }
                if copy.space == space {
                    // Every command that uses the bytes here needs the migration.
                    rows.add_migration(segment.region(), copy.ready, brings);
                } else {
                    segment.add_reader(copy.ready, NOWHERE, recorder);
                }
            }
        }
    }

    /// Records an access at `at` that orders nothing, as one of no bytes. The command uses the
    /// object, which must not be freed or evicted meanwhile, so it is among the readers of the
    /// segment there. It waits for nobody, and nobody for it.
    #[cold]
    pub(crate) fn record_user(&mut self, at: u64, id: EventId, recorder: &mut impl Recorder) {
        let last = self.segments.len() - 1;
        let index = self.find(at).min(last);
        self.segments[index].add_user(id, recorder);
    }

    /// Notes that the command `id` waits for the writers of the segments that it covers, and fails
    /// with them. A segment beside these with the same writer gets the command as its `followed`.
    fn note_followers(&mut self, covered: &Range<usize>, id: EventId) {
        let (before, rest) = self.segments.split_at_mut(covered.start);
        let (inside, after) = rest.split_at_mut(covered.len());
        let edges = [
            (before.last_mut(), inside.first()),
            (after.first_mut(), inside.last()),
        ];
        for (beside, edge) in edges {
            if let (Some(beside), Some(edge)) = (beside, edge)
                && beside.writer == edge.writer
                && beside.writer != id
            {
                beside.followed = id;
            }
        }
    }

    /// The parts of `range` that have no valid copy in `space`. `content` is the present version of
    /// the object's content size, if it has one.
    pub(crate) fn missing(
        &self,
        range: &Range<u64>,
        space: SpaceId,
        content: Option<ContentVersion>,
    ) -> Vec<Missing> {
        let mut missing: Vec<Missing> = Vec::new();
        if range.is_empty() {
            return missing;
        }
        for segment in &self.segments[self.find(range.start)..] {
            if segment.start >= range.end {
                break;
            }
            if segment.valid_in(space, content) {
                continue;
            }
            let piece = segment.start.max(range.start)..segment.end.min(range.end);
            let on_host = segment.valid_in(SpaceId::HOST, content);
            match missing.last_mut() {
                Some(last)
                    if last.range.end == piece.start
                        && last.from == segment.home
                        && last.on_host == on_host =>
                {
                    last.range.end = piece.end;
                }
                _ => missing.push(Missing {
                    range: piece,
                    from: segment.home,
                    on_host,
                }),
            }
        }
        missing
    }

    /// The parts of `range` that were never written: the bytes are those from before.
    pub(crate) fn untouched(&self, range: &Range<u64>) -> Vec<Range<u64>> {
        let mut untouched: Vec<Range<u64>> = Vec::new();
        if range.is_empty() {
            return untouched;
        }
        for segment in &self.segments[self.find(range.start)..] {
            if segment.start >= range.end {
                break;
            }
            if segment.home != SpaceId::ANYWHERE {
                continue;
            }
            let piece = segment.start.max(range.start)..segment.end.min(range.end);
            match untouched.last_mut() {
                Some(last) if last.end == piece.start => last.end = piece.end,
                _ => untouched.push(piece),
            }
        }
        untouched
    }

    /// The ranges that were written, with their space, and the other spaces that have copies.
    pub(crate) fn written_ranges(
        &self,
    ) -> impl Iterator<Item = (Range<u64>, SpaceId, impl Iterator<Item = SpaceId>)> {
        self.segments
            .iter()
            .filter(|segment| segment.home != SpaceId::ANYWHERE)
            .map(|segment| {
                let copies = segment.copies.iter().map(|copy| copy.space);
                (segment.start..segment.end, segment.home, copies)
            })
    }

    /// Records that `id`, which has written `range`, has brought it to `space`,
    /// too.
    pub(crate) fn copied(&mut self, range: &Range<u64>, space: SpaceId, id: EventId) {
        let covered = self.cover(range);
        for segment in &mut self.segments[covered] {
            segment.copies.push(Copy {
                space,
                ready: id,
                content: None,
            });
        }
    }

    /// True if all of `range` has a valid copy in `space`.
    pub(crate) fn is_valid_in(&self, range: &Range<u64>, space: SpaceId) -> bool {
        self.missing(range, space, None).is_empty()
    }

    /// Records that `id` brings `range` from a valid copy in `from` to `to`, all of it or the bytes
    /// that are in use according to `content`.
    pub(crate) fn migrate(
        &mut self,
        range: &Range<u64>,
        from: SpaceId,
        to: SpaceId,
        content: Option<ContentVersion>,
        id: EventId,
        recorder: &mut impl Recorder,
    ) {
        let covered = self.cover(range);
        if let Some(rows) = &mut self.rows {
            let is_stale = |copy: &Copy| copy.space == to;
            let mut segments = self.segments[covered.clone()].iter();
            let with_readers =
                segments.any(|segment| segment.is_taken || segment.copies.iter().any(is_stale));
            let bytes = Region::of(range.clone());
            rows.wait_in_order(&bytes, !with_readers, id, recorder);
        }
        for segment in &mut self.segments[covered] {
            let stale = segment.copies.iter().position(|copy| copy.space == to);
            // Of another content size.
            if let Some(stale) = stale {
                let stale = segment.copies.swap_remove(stale);
                if !stale.ready.is_none() {
                    recorder.wait(stale.ready, false);
                }
            }
            // A reader of the bytes that are replaced goes first.
            if stale.is_some() || segment.is_taken {
                let recording = recorder.recording();
                for reader in &segment.readers {
                    if reader.id != id && reader.id != recording {
                        recorder.wait(reader.id, false);
                    }
                }
            }
            segment.brought_from(from, id, recorder);
            segment.copies.push(Copy {
                space: to,
                ready: id,
                content,
            });
        }
    }

    /// The command `id`, which wrote or brought `range`, failed.
    #[must_use = "what was replaced is dropped with nothing locked"]
    pub(crate) fn poison(&mut self, range: &Range<u64>, id: EventId, cause: &Error) -> Poisoned {
        let mut poisoned = Poisoned::default();
        for segment in &mut self.segments {
            if segment.start >= range.end || segment.end <= range.start {
                continue;
            }
            if segment.writer == id {
                poisoned.set(segment, cause);
            }
            segment.copies.retain(|copy| copy.ready != id);
        }
        let rows = self.rows.as_mut();
        if let Some(replaced) = rows.and_then(|rows| rows.poison(id, cause)) {
            poisoned.any = true;
            poisoned.replaced.extend(replaced);
        }
        poisoned
    }

    /// The migration `id` of `range` failed. A writer of rows may have changed the home of bytes
    /// that nobody has used since: they are at home again where they were. If `fails_all`, a
    /// command that writes others of these rows fails with the migration.
    #[must_use = "what was replaced is dropped with nothing locked"]
    pub(crate) fn not_brought(
        &mut self,
        range: &Range<u64>,
        id: EventId,
        fails_all: bool,
        cause: &Error,
    ) -> Poisoned {
        if let Some(mut rows) = self.rows.take() {
            rows.forget_brought(id, |bytes, brings| self.give_back(bytes, brings, fails_all));
            self.rows = Some(rows);
        }
        self.poison(range, id, cause)
    }

    /// Has bytes be at home again where they were before a migration that has failed; false if they
    /// cannot be, because something was to be done with them since, or they are too many parts.
    fn give_back(&mut self, bytes: &Region, brings: Brings, fails_all: bool) -> bool {
        /// As many segments as may come of it.
        const MOST_PARTS: usize = 1 << 10;
        // The space was lost meanwhile.
        if brings.from == SpaceId::ANYWHERE {
            return false;
        }
        let is_left = |segment: &Segment| {
            let has_ended = segment.writer.is_none() && brings.writer.is_finished();
            segment.is_taken
                && segment.home == brings.to
                && segment.copies.is_empty()
                && (segment.writer == brings.writer || has_ended)
        };
        let span = bytes.range();
        let segments = self.segments[self.find(span.start)..].iter();
        let mut own = segments
            .take_while(|segment| segment.start < span.end)
            .filter(|segment| bytes.meets(&segment.region()));
        // A copy may be one of bytes that were never brought, and come to where they were.
        if !own.all(is_left) {
            return false;
        }
        // What later writers have taken of them fails, where it is said that they do: it is at home
        // nowhere then.
        let parts: Vec<Range<u64>> = match fails_all {
            true => vec![span],
            false => bytes.rows().take(MOST_PARTS + 1).collect(),
        };
        if parts.len() > MOST_PARTS {
            return false;
        }
        for part in parts {
            let covered = self.cover(&part);
            let segments = self.segments[covered].iter_mut();
            for segment in segments.filter(|segment| is_left(segment)) {
                segment.home = brings.from;
            }
        }
        true
    }

    /// The command `id`, which was to bring copies of `range` elsewhere, failed: they are not
    /// there.
    pub(crate) fn forget_copies_of(&mut self, range: &Range<u64>, id: EventId) {
        for segment in &mut self.segments {
            if segment.start < range.end && range.start < segment.end {
                segment.copies.retain(|copy| copy.ready != id);
            }
        }
    }

    /// Poisons the bytes that were valid only in `space`, whose device is lost.
    #[must_use = "what was replaced is dropped with nothing locked"]
    pub(crate) fn lose_space(&mut self, space: SpaceId, cause: &Error) -> Poisoned {
        let mut lost = Poisoned::default();
        if let Some(rows) = &mut self.rows {
            rows.lose_space(space);
        }
        let rows = self.rows.as_deref();
        for segment in &mut self.segments {
            segment.copies.retain(|copy| copy.space != space);
            if segment.home == space {
                // A copy whose writer is still at work will never be made; a copy of the bytes that
                // were in use does not stay valid.
                match segment
                    .take_full_copy()
                    .filter(|_| segment.writer.is_finished())
                    .filter(|_| !rows.is_some_and(|rows| rows.is_written(&segment.region())))
                {
                    Some(copy) => {
                        segment.home = copy.space;
                        segment.writer = copy.ready;
                        segment.followed = EventId::NONE;
                    }
                    None => {
                        segment.home = SpaceId::ANYWHERE;
                        segment.copies.clear();
                        lost.set(segment, cause);
                    }
                }
            }
        }
        lost
    }

    /// True if no command that uses the object is unfinished.
    pub(crate) fn is_idle(&self) -> bool {
        !self.is_used(|_| true)
    }

    /// True if an unfinished command uses the object; of readers, one that counts.
    fn is_used(&self, counts: impl Fn(&Reader) -> bool) -> bool {
        let mut of_rows = self.rows.iter().flat_map(|rows| rows.users());
        let mut segments = self.segments.iter();
        let is_read = |reader: &Reader| counts(reader) && !reader.id.is_finished();
        of_rows.any(|user| !user.is_finished())
            || segments.any(|segment| {
                !segment.writer.is_finished()
                    || segment.readers.iter().any(is_read)
                    || segment.copies.iter().any(|copy| !copy.ready.is_finished())
            })
    }

    /// Calls `each` with every unfinished command that uses the object.
    pub(crate) fn for_each_user(&self, mut each: impl FnMut(EventId)) {
        let of_rows = self.rows.iter().flat_map(|rows| rows.users());
        of_rows.for_each(&mut each);
        for segment in &self.segments {
            for reader in &segment.readers {
                each(reader.id);
            }
            each(segment.writer);
            for copy in &segment.copies {
                each(copy.ready);
            }
        }
    }

    /// True if every byte of the object that is valid in `space` is also valid
    /// in another.
    pub(crate) fn is_redundant_in(&self, space: SpaceId) -> bool {
        self.segments.iter().all(|segment| {
            segment.home == SpaceId::ANYWHERE || segment.home != space || segment.has_full_copy()
        })
    }

    /// Forgets the copies in `space`, of an idle object whose every byte is
    /// valid elsewhere.
    pub(crate) fn forget_space(&mut self, space: SpaceId) {
        // The bytes are elsewhere now: a command that comes back here has to look.
        if self.only == space {
            self.only = SpaceId::SEVERAL;
        }
        for segment in &mut self.segments {
            segment.copies.retain(|copy| copy.space != space);
            if segment.home == space
                && let Some(copy) = segment.take_full_copy()
            {
                segment.home = copy.space;
                segment.writer = copy.ready;
                segment.followed = EventId::NONE;
            }
        }
    }

    /// Says that an idle object's every byte in `space` is now on the host too.
    pub(crate) fn written_back(&mut self, space: SpaceId) {
        for segment in &mut self.segments {
            if segment.home == space && !segment.has_full_copy() {
                segment.copies.retain(|copy| copy.space != SpaceId::HOST);
                segment.copies.push(Copy {
                    space: SpaceId::HOST,
                    ready: EventId::NONE,
                    content: None,
                });
            }
        }
    }

    /// The byte ranges whose only valid copy is in `space`, each as long as can be.
    pub(crate) fn only_in(&self, space: SpaceId) -> Vec<Range<u64>> {
        let mut ranges: Vec<Range<u64>> = Vec::new();
        let is_only_there = |segment: &&Segment| segment.home == space && !segment.has_full_copy();
        for segment in self.segments.iter().filter(is_only_there) {
            match ranges.last_mut() {
                Some(last) if last.end == segment.start => last.end = segment.end,
                _ => ranges.push(segment.start..segment.end),
            }
        }
        ranges
    }

    /// Removes handles to commands that are over and merges neighbours that no
    /// longer differ.
    pub(crate) fn compact(&mut self) {
        for segment in &mut self.segments {
            segment.forget_finished();
        }
        if let Some(rows) = &mut self.rows {
            rows.compact();
        }
        if self.chain.last.is_finished() {
            self.chain.last = EventId::NONE;
        }
        self.segments.dedup_by(|right, left| {
            let same =
                left.writer == right.writer
                    && left.home == right.home
                    && left.is_taken == right.is_taken
                    && left.poison.is_none()
                    && right.poison.is_none()
                    && left.readers == right.readers
                    && left.copies.len() == right.copies.len()
                    && left.copies.iter().zip(&right.copies).all(|(l, r)| {
                        (l.space, l.ready, l.content) == (r.space, r.ready, r.content)
                    });
            if same {
                left.end = right.end;
            }
            same
        });
        self.compact_at = COMPACT_AT.max(2 * self.segments.len());
    }
}
