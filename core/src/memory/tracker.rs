//! Hazards and validity of one memory object, by byte range.
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
//! Segments are split where an access covers one partly; a write merges what it
//! covers. Handles are plain ids: one to a command that is over costs a look at
//! its slot and nothing else. A segment's readers are bounded: many become one
//! marker ([`Joiner`]).

use super::space::SpaceId;
use crate::access::AccessMode;
use crate::command::EventId;
use crate::error::Error;
use smallvec::SmallVec;
use std::ops::Range;

/// Readers of a segment beyond which they are joined into one marker.
const MAX_READERS: usize = 64;
/// Segments beyond which neighbours that no longer differ are merged.
const COMPACT_AT: usize = 64;

type Readers = SmallVec<[EventId; 2]>;

/// A copy of a segment's bytes in another space than the writer's.
#[derive(Clone, Copy, Debug)]
struct Copy {
    space: SpaceId,
    /// The migration that made it.
    ready: EventId,
    /// If only what was in use was copied, and zeros for the rest: according to
    /// which number. It is a copy for as long as that number is not written.
    content: Option<ContentVersion>,
}

/// Says which number a content size was: of which memory object, and how often
/// that had been written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ContentVersion {
    pub(crate) size: u64,
    pub(crate) writes: u64,
}

#[derive(Clone, Debug)]
struct Segment {
    start: u64,
    end: u64,
    writer: EventId,
    /// The space that the writer wrote in; `ANYWHERE` while nothing was written
    /// (fresh memory is zero in every space).
    home: SpaceId,
    readers: Readers,
    copies: SmallVec<[Copy; 0]>,
    poison: Option<Error>,
}

/// Bytes that have to be brought to a space before a command may run there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Missing {
    pub(crate) range: Range<u64>,
    /// Where a valid copy is or will be.
    pub(crate) from: SpaceId,
    /// True if the host has a valid copy too.
    pub(crate) on_host: bool,
}

/// What a command needs of a tracker while it is being enqueued.
pub(crate) trait Recorder {
    /// The command must wait for `event`; if `propagate`, its failure is ours.
    fn wait(&mut self, event: EventId, propagate: bool);
    /// The command reads what a failed command should have written.
    fn poisoned(&mut self, cause: &Error);
    /// One event that is over when all of `events` are.
    fn join(&mut self, events: &[EventId]) -> EventId;
}

/// See the module.
#[derive(Debug)]
pub(crate) struct Tracker {
    segments: Vec<Segment>,
    /// The only space that the object was ever used in, or `ANYWHERE` if there
    /// was none yet, or `SEVERAL`.
    only: SpaceId,
    compact_at: usize,
    /// How many writes were recorded.
    writes: u64,
}

impl Tracker {
    pub(crate) fn new(size: u64) -> Self {
        Self {
            segments: vec![Segment {
                start: 0,
                end: size,
                writer: EventId::NONE,
                home: SpaceId::ANYWHERE,
                readers: Readers::new(),
                copies: SmallVec::new(),
                poison: None,
            }],
            only: SpaceId::ANYWHERE,
            compact_at: COMPACT_AT,
            writes: 0,
        }
    }

    /// How many writes were recorded: changes whenever the bytes may.
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
        {
            match mode {
                AccessMode::ReadWrite if segment.is_plain() => {
                    // A chain: after the writer, and the writer then.
                    if !segment.writer.is_none() && segment.writer != id {
                        recorder.wait(segment.writer, true);
                    }
                    segment.writer = id;
                    segment.home = space;
                    self.writes += 1;
                }
                AccessMode::Read => segment.read(space, id, recorder),
                _ => {
                    segment.waits_of_write(mode, space, id, recorder);
                    segment.written(space, id);
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
        let covered = self.cover(&range);
        if mode == AccessMode::Read {
            for segment in &mut self.segments[covered] {
                segment.read(space, id, recorder);
            }
            return;
        }
        self.writes += 1;
        for segment in &mut self.segments[covered.clone()] {
            segment.waits_of_write(mode, space, id, recorder);
        }
        let first = &mut self.segments[covered.start];
        first.end = range.end;
        first.written(space, id);
        self.segments.drain(covered.start + 1..covered.end);
    }

    /// What of `range` has no valid copy in `space`, where `content` says which
    /// number the object's content size is now, if it has one.
    pub(crate) fn missing(
        &self,
        range: &Range<u64>,
        space: SpaceId,
        content: Option<ContentVersion>,
    ) -> Vec<Missing> {
        let mut missing: Vec<Missing> = Vec::new();
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

    /// What of `range` was never written: the bytes are those from before.
    pub(crate) fn untouched(&self, range: &Range<u64>) -> Vec<Range<u64>> {
        let mut untouched: Vec<Range<u64>> = Vec::new();
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

    /// What was written, in which space, and which other spaces have copies.
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

    /// Records that `id` brings `range` from a valid copy in `from` to `to`, all
    /// of it or what is in use according to `content`.
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
        for segment in &mut self.segments[covered] {
            if let Some(stale) = segment.copies.iter().position(|copy| copy.space == to) {
                // Of another content size. Who still reads it goes first.
                let stale = segment.copies.swap_remove(stale);
                if !stale.ready.is_none() {
                    recorder.wait(stale.ready, false);
                }
                for reader in &segment.readers {
                    if *reader != id {
                        recorder.wait(*reader, false);
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

    /// The command `id`, which wrote or brought `range`, failed. True if it was to write, or to bring the last copy.
    pub(crate) fn poison(&mut self, range: &Range<u64>, id: EventId, cause: &Error) -> bool {
        let mut poisoned = false;
        for segment in &mut self.segments {
            if segment.start >= range.end || segment.end <= range.start {
                continue;
            }
            if segment.writer == id {
                segment.poison = Some(cause.clone());
                poisoned = true;
            }
            segment.copies.retain(|copy| copy.ready != id);
        }
        poisoned
    }

    /// The device behind `space` is lost: what was valid only there is poisoned.
    /// True if anything was.
    pub(crate) fn lose_space(&mut self, space: SpaceId, cause: &Error) -> bool {
        let mut lost = false;
        for segment in &mut self.segments {
            segment.copies.retain(|copy| copy.space != space);
            if segment.home == space {
                // A copy whose writer is still at work will never be made; one of
                // what was in use stands for no more than a moment.
                match segment
                    .take_full_copy()
                    .filter(|_| segment.writer.is_over())
                {
                    Some(copy) => {
                        segment.home = copy.space;
                        segment.writer = copy.ready;
                    }
                    None => {
                        segment.home = SpaceId::ANYWHERE;
                        segment.copies.clear();
                        segment.poison = Some(cause.clone());
                        lost = true;
                    }
                }
            }
        }
        lost
    }

    /// True if no command that uses the object is unfinished.
    pub(crate) fn is_idle(&self) -> bool {
        self.segments.iter().all(|segment| {
            segment.writer.is_over()
                && segment.readers.iter().all(|reader| reader.is_over())
                && segment.copies.iter().all(|copy| copy.ready.is_over())
        })
    }

    /// Calls `each` with every unfinished command that uses the object.
    pub(crate) fn for_each_user(&self, mut each: impl FnMut(EventId)) {
        for segment in &self.segments {
            for reader in &segment.readers {
                each(*reader);
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
        // The bytes are elsewhere now: who comes back here has to look.
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

    /// The byte ranges whose only valid copy is in `space`.
    pub(crate) fn only_in(&self, space: SpaceId) -> Vec<Range<u64>> {
        self.segments
            .iter()
            .filter(|segment| segment.home == space && !segment.has_full_copy())
            .map(|segment| segment.start..segment.end)
            .collect()
    }

    /// Removes handles to commands that are over and merges neighbours that no
    /// longer differ.
    pub(crate) fn compact(&mut self) {
        for segment in &mut self.segments {
            segment.forget_finished();
        }
        self.segments.dedup_by(|right, left| {
            let same =
                left.writer == right.writer
                    && left.home == right.home
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

impl Segment {
    /// True if there is a writer at most: no readers, copies or poison.
    #[inline]
    fn is_plain(&self) -> bool {
        self.readers.is_empty() && self.copies.is_empty() && self.poison.is_none()
    }

    fn valid_in(&self, space: SpaceId, content: Option<ContentVersion>) -> bool {
        self.home == space
            || self.home == SpaceId::ANYWHERE
            || self.copies.iter().any(|copy| {
                copy.space == space && (copy.content.is_none() || copy.content == content)
            })
    }

    /// True if there is a copy of every byte.
    fn has_full_copy(&self) -> bool {
        self.copies.iter().any(|copy| copy.content.is_none())
    }

    /// One that is there, if any is: one on its way may never arrive.
    fn take_full_copy(&mut self) -> Option<Copy> {
        let is_full = |copy: &Copy| copy.content.is_none();
        let mut copies = self.copies.iter();
        let there = copies.position(|copy| is_full(copy) && copy.ready.is_over());
        let full = there.or_else(|| self.copies.iter().position(is_full))?;
        Some(self.copies.swap_remove(full))
    }

    /// The migration that makes the copy in `space`, if the bytes are not at
    /// home there.
    #[inline]
    fn migration(&self, space: SpaceId) -> Option<EventId> {
        if self.copies.is_empty() || self.home == space {
            return None;
        }
        let copy = self.copies.iter().find(|copy| copy.space == space)?;
        Some(copy.ready)
    }

    /// The waits of who needs the bytes in `space`: the writer's failure, and
    /// that of the migration, are its own.
    #[inline]
    fn wait_for_bytes(&self, space: SpaceId, id: EventId, recorder: &mut impl Recorder) {
        if !self.writer.is_none() && self.writer != id {
            recorder.wait(self.writer, true);
        }
        if let Some(migration) = self.migration(space)
            && !migration.is_none()
        {
            recorder.wait(migration, true);
        }
        if let Some(cause) = &self.poison {
            recorder.poisoned(cause);
        }
    }

    #[inline]
    fn read(&mut self, space: SpaceId, id: EventId, recorder: &mut impl Recorder) {
        self.wait_for_bytes(space, id, recorder);
        self.add_reader(id, recorder);
    }

    /// The command `id` brings the bytes from `from` elsewhere. It is ordered
    /// after their writer but does not fail with it: it may bring neighbours
    /// that are fine, and who needs the bytes learns of the writer itself.
    fn brought_from(&mut self, from: SpaceId, id: EventId, recorder: &mut impl Recorder) {
        match self.migration(from) {
            Some(migration) if migration.is_none() => {}
            Some(migration) => recorder.wait(migration, true),
            None if self.writer.is_none() => {}
            None => recorder.wait(self.writer, false),
        }
        self.add_reader(id, recorder);
    }

    #[inline]
    fn add_reader(&mut self, id: EventId, recorder: &mut impl Recorder) {
        if self.readers.len() >= MAX_READERS {
            self.readers.retain(|reader| !reader.is_over());
            if self.readers.len() >= MAX_READERS / 2 {
                let joined = recorder.join(&self.readers);
                self.readers.clear();
                self.readers.push(joined);
            }
        }
        if self.readers.last() != Some(&id) {
            self.readers.push(id);
        }
    }

    #[inline]
    fn waits_of_write(
        &mut self,
        mode: AccessMode,
        space: SpaceId,
        id: EventId,
        recorder: &mut impl Recorder,
    ) {
        if mode.reads() {
            self.wait_for_bytes(space, id, recorder);
        } else if self.readers.is_empty() && !self.writer.is_none() && self.writer != id {
            // With readers, waiting for them is enough: each waited for it.
            recorder.wait(self.writer, false);
        }
        for reader in &self.readers {
            if *reader != id {
                recorder.wait(*reader, false);
            }
        }
        for copy in &self.copies {
            if copy.ready != id && !copy.ready.is_none() {
                recorder.wait(copy.ready, false);
            }
        }
    }

    #[inline]
    fn written(&mut self, space: SpaceId, id: EventId) {
        self.writer = id;
        self.home = space;
        self.readers.clear();
        if !self.copies.is_empty() {
            self.copies.clear();
        }
        if self.poison.is_some() {
            self.poison = None;
        }
    }

    fn forget_finished(&mut self) {
        self.readers.retain(|reader| !reader.is_over());
        if self.writer.is_over() {
            self.writer = EventId::NONE;
        }
        for copy in &mut self.copies {
            if copy.ready.is_over() {
                copy.ready = EventId::NONE;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::ErrorKind;
    use crate::event::UserEvent;

    struct Nobody;

    impl Recorder for Nobody {
        fn wait(&mut self, _: EventId, _: bool) {}
        fn poisoned(&mut self, _: &Error) {}
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
            assert!(!tracker.lose_space(far, &lost()));
            assert_eq!(tracker.poison(&ALL, id, &lost()), !is_there);
            assert_eq!(tracker.is_valid_in(&ALL, SpaceId::HOST), is_there);
            assert_eq!(tracker.segments[0].poison.is_none(), is_there);
        }
    }
}
