//! Segments: ranges of bytes with one writer, and their readers, copies and poison.

use super::chain::NOWHERE;
use super::{ContentVersion, Recorder};
use crate::access::AccessMode;
use crate::command::EventId;
use crate::error::Error;
use crate::limits::MAX_READERS;
use crate::memory::space_id::SpaceId;
use crate::region::Region;
use smallvec::SmallVec;

pub(super) type Readers = SmallVec<[Reader; 2]>;

/// A command that reads a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Reader {
    pub(super) id: EventId,
    /// Its place in the tracker's chain.
    pub(super) at: u64,
    /// True if it accesses no bytes, and is only here because it uses the object: nobody waits for
    /// it, and it has waited for nobody.
    pub(super) is_idle: bool,
}

/// A copy of a segment's bytes in another space than the writer's.
#[derive(Clone, Copy, Debug)]
pub(super) struct Copy {
    pub(super) space: SpaceId,
    /// The migration that made it.
    pub(super) ready: EventId,
    /// The version of the content size, if only the bytes in use were copied, and zeros for the
    /// rest. The copy is valid until that size is written again.
    pub(super) content: Option<ContentVersion>,
}

#[derive(Clone, Debug)]
pub(super) struct Segment {
    pub(super) start: u64,
    pub(super) end: u64,
    pub(super) writer: EventId,
    /// A command that waits for this writer and fails with it. Nothing is said if it is the writer.
    pub(super) followed: EventId,
    /// The space that the writer wrote in; `ANYWHERE` while nothing was written
    /// (fresh memory is zero in every space).
    pub(super) home: SpaceId,
    /// True if a writer of rows has changed the home space since the last writer. Other commands
    /// may use the bytes between the rows without waiting for it, so a migration of the bytes waits
    /// for all readers.
    pub(super) is_taken: bool,
    pub(super) readers: Readers,
    pub(super) copies: SmallVec<[Copy; 0]>,
    pub(super) poison: Option<Error>,
}

impl Segment {
    pub(super) fn region(&self) -> Region {
        Region::of(self.start..self.end)
    }

    /// True if there is a writer at most: no readers, copies or poison.
    #[inline]
    pub(super) fn is_plain(&self) -> bool {
        self.readers.is_empty() && self.copies.is_empty() && self.poison.is_none()
    }

    pub(super) fn valid_in(&self, space: SpaceId, content: Option<ContentVersion>) -> bool {
        self.home == space
            || self.home == SpaceId::ANYWHERE
            || self.copies.iter().any(|copy| {
                copy.space == space && (copy.content.is_none() || copy.content == content)
            })
    }

    /// True if there is a copy of every byte.
    pub(super) fn has_full_copy(&self) -> bool {
        self.copies.iter().any(|copy| copy.content.is_none())
    }

    /// One that is there, if any is: one on its way may never arrive.
    pub(super) fn take_full_copy(&mut self) -> Option<Copy> {
        let is_full = |copy: &Copy| copy.content.is_none();
        let mut copies = self.copies.iter();
        let there = copies.position(|copy| is_full(copy) && copy.ready.is_finished());
        let full = there.or_else(|| self.copies.iter().position(is_full))?;
        Some(self.copies.swap_remove(full))
    }

    /// The migration that makes the copy in `space`, if the bytes are not at
    /// home there.
    #[inline]
    pub(super) fn migration(&self, space: SpaceId) -> Option<EventId> {
        if self.copies.is_empty() || self.home == space {
            return None;
        }
        let copy = self.copies.iter().find(|copy| copy.space == space)?;
        Some(copy.ready)
    }

    /// True if the command that follows this writer wrote the neighbour.
    pub(super) fn is_followed_by(&self, neighbour: Option<&Segment>) -> bool {
        !self.followed.is_none()
            && self.followed != self.writer
            && neighbour.is_some_and(|neighbour| neighbour.writer == self.followed)
    }

    /// The waits of a command that needs the bytes in `space`. It fails if the writer fails, or
    /// the migration.
    #[inline]
    pub(super) fn wait_for_bytes(
        &self,
        space: SpaceId,
        id: EventId,
        with_writer: bool,
        recorder: &mut impl Recorder,
    ) {
        if with_writer && !self.writer.is_none() && self.writer != id {
            recorder.wait_for_writer(self.writer);
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

    /// The command `id` brings the bytes from `from` elsewhere. It is ordered after their writer
    /// but does not fail with it: it may bring neighbours that are fine, and commands that need the
    /// bytes learn of the writer itself.
    pub(super) fn brought_from(
        &mut self,
        from: SpaceId,
        id: EventId,
        recorder: &mut impl Recorder,
    ) {
        match self.migration(from) {
            Some(migration) if migration.is_none() => {}
            Some(migration) => recorder.wait(migration, true),
            None if self.writer.is_none() => {}
            None => recorder.wait(self.writer, false),
        }
        self.add_reader(id, NOWHERE, recorder);
    }

    #[inline]
    pub(super) fn add_reader(&mut self, id: EventId, at: u64, recorder: &mut impl Recorder) {
        if let Some(last) = self.readers.last_mut().filter(|last| last.id == id) {
            last.is_idle = false;
            return;
        }
        if self.readers.len() >= MAX_READERS {
            self.join_readers(recorder);
        }
        self.readers.push(Reader {
            id,
            at,
            is_idle: false,
        });
    }

    /// As [`add_reader`](Self::add_reader), of a command that accesses no bytes.
    pub(super) fn add_user(&mut self, id: EventId, recorder: &mut impl Recorder) {
        if self.readers.last().is_some_and(|reader| reader.id == id) {
            return;
        }
        self.add_reader(id, NOWHERE, recorder);
        if let Some(reader) = self.readers.last_mut() {
            reader.is_idle = true;
        }
    }

    /// Makes one marker of the readers, if more than a few are unfinished, and one of those that
    /// access no bytes: nobody waits for these.
    ///
    /// The command that is being recorded stays a reader of its own. It waits for the marker if it
    /// also writes these bytes, so a marker that waited for it would close a cycle.
    #[cold]
    pub(super) fn join_readers(&mut self, recorder: &mut impl Recorder) {
        let recording = recorder.recording();
        let of_recording = self
            .readers
            .iter()
            .copied()
            .filter(|reader| reader.id == recording)
            .min_by_key(|reader| reader.is_idle);
        self.readers
            .retain(|reader| reader.id != recording && !reader.id.is_finished());
        for is_idle in [false, true] {
            let of_kind = self
                .readers
                .iter()
                .filter(|reader| reader.is_idle == is_idle);
            let ids: SmallVec<[EventId; MAX_READERS]> = of_kind.map(|reader| reader.id).collect();
            if ids.len() < MAX_READERS / 2 {
                continue;
            }
            let id = recorder.join(&ids);
            self.readers.retain(|reader| reader.is_idle != is_idle);
            self.readers.push(Reader {
                id,
                at: NOWHERE,
                is_idle,
            });
        }
        self.readers.extend(of_recording);
    }

    /// True if this command is a reader that accesses bytes.
    pub(super) fn has_reader(&self, id: EventId) -> bool {
        let mut readers = self.readers.iter();
        readers.any(|reader| reader.id == id && !reader.is_idle)
    }

    /// True if one of the readers accesses bytes.
    #[inline]
    fn has_readers(&self) -> bool {
        self.readers.iter().any(|reader| !reader.is_idle)
    }

    #[inline]
    pub(super) fn waits_of_write(
        &self,
        mode: AccessMode,
        space: SpaceId,
        id: EventId,
        with_writer: bool,
        is_needed: impl Fn(&Reader) -> bool,
        recorder: &mut impl Recorder,
    ) {
        if mode.reads() {
            self.wait_for_bytes(space, id, with_writer, recorder);
        } else if with_writer && !self.has_readers() && !self.writer.is_none() && self.writer != id
        {
            // With readers, waiting for them is enough: each waited for it.
            recorder.wait(self.writer, false);
        }
        for reader in &self.readers {
            if reader.id != id && !reader.is_idle && is_needed(reader) {
                recorder.wait(reader.id, false);
            }
        }
        for copy in &self.copies {
            if copy.ready != id && !copy.ready.is_none() {
                recorder.wait(copy.ready, false);
            }
        }
    }

    #[inline]
    pub(super) fn written(&mut self, space: SpaceId, id: EventId, recorder: &mut impl Recorder) {
        self.writer = id;
        self.followed = EventId::NONE;
        self.home = space;
        self.is_taken = false;
        self.readers
            .retain(|reader| reader.is_idle && !reader.id.is_finished());
        if !self.copies.is_empty() {
            self.copies.clear();
        }
        if let Some(poison) = self.poison.take() {
            recorder.discard(poison);
        }
    }

    pub(super) fn forget_finished(&mut self) {
        self.readers.retain(|reader| !reader.id.is_finished());
        if self.writer.is_finished() {
            self.writer = EventId::NONE;
        }
        if self.followed.is_finished() {
            self.followed = EventId::NONE;
        }
        for copy in &mut self.copies {
            if copy.ready.is_finished() {
                copy.ready = EventId::NONE;
            }
        }
    }
}
