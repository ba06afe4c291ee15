//! The footprint of a graph: its reads and writes of one memory object, as a whole.

use crate::access::AccessMode;
use crate::command::{EventId, discard};
use crate::error::{ErrorKind, Result};
use crate::memory::access::Access;
use crate::memory::tracker::Tracker;
use crate::memory::{MemoryRef, SpaceId};
use crate::queue::Queue;
use crate::queue::enqueue::Waits;
use smallvec::SmallVec;
use std::collections::BTreeSet;
use std::mem::ManuallyDrop;
use std::ops::Range;

/// A memory object while a graph is recorded: its tracker is as any, but knows only of
/// the graph's commands.
pub(super) struct Draft {
    pub(super) memory: MemoryRef,
    pub(super) tracker: Tracker,
    /// The bytes that are read before the graph has written them: space, start and end.
    from_before: BTreeSet<(SpaceId, u64, u64)>,
}

impl Draft {
    pub(super) fn new(memory: MemoryRef) -> Self {
        Self {
            tracker: Tracker::new(memory.size()),
            memory,
            from_before: BTreeSet::new(),
        }
    }

    /// Notes that `range`, but for bytes that the graph has written by then, is needed in `space`
    /// as the launch starts.
    pub(super) fn needs(&mut self, range: &Range<u64>, space: SpaceId) {
        let untouched = self.tracker.untouched(range).into_iter();
        self.from_before
            .extend(untouched.map(|range| (space, range.start, range.end)));
    }

    /// The footprint of all commands together.
    pub(super) fn finish(self) -> Footprint {
        let mut reads: Vec<(Range<u64>, SpaceId)> = Vec::new();
        for (space, start, end) in self.from_before {
            match reads.last_mut() {
                Some((last, of)) if *of == space && start <= last.end => {
                    last.end = last.end.max(end);
                }
                _ => reads.push((start..end, space)),
            }
        }
        let mut writes: Vec<Written> = Vec::new();
        for (range, home, copies) in self.tracker.written_ranges() {
            let mut copies: SmallVec<[SpaceId; 2]> = copies.collect();
            copies.sort_unstable();
            match writes.last_mut() {
                Some(last)
                    if last.range.end == range.start
                        && last.home == home
                        && last.copies == copies =>
                {
                    last.range.end = range.end;
                }
                _ => writes.push(Written {
                    range,
                    home,
                    copies,
                }),
            }
        }
        Footprint {
            memory: self.memory,
            reads,
            writes,
        }
    }
}

/// Bytes that a graph leaves written: where, and where else it has brought them.
struct Written {
    range: Range<u64>,
    home: SpaceId,
    copies: SmallVec<[SpaceId; 2]>,
}

/// The accesses of a graph to a memory object: the union of its commands' accesses.
pub(crate) struct Footprint {
    pub(crate) memory: MemoryRef,
    /// The bytes that have to be there before the graph starts, and the space of each range.
    reads: Vec<(Range<u64>, SpaceId)>,
    writes: Vec<Written>,
}

impl Footprint {
    /// Checks that the object can be used now.
    ///
    /// # Errors
    /// If it is mapped, or has a content size.
    pub(crate) fn check(&self) -> Result<()> {
        for range in self.ranges() {
            let length = range.end - range.start;
            if self.memory.is_open_for(range.start, length) {
                continue;
            }
            if self.memory.check("launch a graph", range.start, length)? {
                return Err(has_content_size("launch a graph", &self.memory.label()));
            }
        }
        Ok(())
    }

    /// True if some of its bytes are mapped. The object's tracker is locked.
    pub(crate) fn is_mapped(&self) -> bool {
        let mut ranges = self.ranges();
        self.memory.is_mapped() && ranges.any(|range| self.memory.mapping_of(range).is_some())
    }

    /// The ranges that the graph reads, and those that it writes.
    fn ranges(&self) -> impl Iterator<Item = &Range<u64>> {
        let written = self.writes.iter().map(|written| &written.range);
        let read = self.reads.iter().map(|(range, _)| range);
        read.chain(written)
    }

    /// Records the launch `id` in the object's tracker, which the caller has locked: brings missing
    /// bytes, waits for the commands that hazards demand, and leaves the bytes that the graph will
    /// have written.
    pub(crate) fn record(&self, queue: &Queue, waits: &mut Waits<'_>, id: EventId) {
        let memory = &*self.memory;
        // SAFETY: locked by the caller; not dropped, so not unlocked.
        let mut tracker = ManuallyDrop::new(unsafe { memory.locked_tracker() });
        for (range, space) in &self.reads {
            if tracker.enter(*space) {
                let access = Access {
                    memory,
                    offset: range.start,
                    length: range.end - range.start,
                    mode: AccessMode::Read,
                };
                queue.migrate(waits, &access, &mut tracker, *space, None);
            }
            tracker.record(range.clone(), AccessMode::Read, *space, id, waits);
        }
        if self.reads.is_empty() && self.writes.is_empty() {
            // Its commands access none of the bytes, and use the object all the same.
            tracker.record_user(0, id, waits);
        }
        for Written {
            range,
            home,
            copies,
        } in &self.writes
        {
            tracker.enter(*home);
            tracker.record(range.clone(), AccessMode::Overwrite, *home, id, waits);
            for space in copies {
                tracker.enter(*space);
                tracker.copied(range, *space, id);
            }
        }
    }

    /// Records that the launch `id` uses the object, whose tracker the caller has locked, and that
    /// this orders nothing.
    pub(crate) fn record_user(&self, waits: &mut Waits<'_>, id: EventId) {
        // SAFETY: locked by the caller; not dropped, so not unlocked.
        let mut tracker = ManuallyDrop::new(unsafe { self.memory.locked_tracker() });
        tracker.record_user(0, id, waits);
    }

    /// The launch `id` failed.
    pub(super) fn poison(&self, id: EventId, cause: &crate::error::Error) {
        for written in &self.writes {
            let poisoned = self.memory.poison(written.range.clone(), id, cause);
            poisoned.replaced.into_iter().for_each(discard);
        }
    }
}

/// The error of a graph that uses memory with a content size.
pub(super) fn has_content_size(what: &'static str, label: &str) -> crate::error::Error {
    ErrorKind::InvalidArgument {
        what,
        problem: format!(
            "{label} has a content size, which may be different each time, and what a graph moves \
             between its commands is settled once; take the content size back, or enqueue these \
             commands plainly"
        ),
    }
    .into()
}
